//! Modules: where branches lead, against the linker, which puts the same sections at the same addresses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use unspool_capture::{Code, ImageFile, Kallsyms, Placement};

use super::{has_tools, hex, run};

/// Functions in sections of their own that call each other, and the kernel. All relocations of code are branches.
const SOURCE: &str = "
    void printk(void); void unknown(void); int maybe(int);
    static __attribute__((noinline)) int twice(int x) { __asm__ volatile(\"\"); return x * 2; }
    int first(int x) { printk(); return twice(x) + 1; }
    int second(int x) { if (x > 3) return first(x - 1); unknown(); return maybe(x); }
    int __attribute__((section(\".exit.text\"))) leave(int x) { unknown(); return second(x) + first(x); }
    __asm__(\".section .text.far,\\\"ax\\\"; .type far,%function; far: cbz x0, first; tbnz w1, #5, second; b.ne first; ret\");
";

const BASE: u64 = 0xffff_8000_0100_0000;
const PRINTK: u64 = BASE + 0x70_0000;
const MAYBE: u64 = BASE - 0x12_3450;
/// The functions that are not in the list of kernel symbols, for the linker only.
const UNKNOWN: u64 = BASE + 0x4_0000;

fn compile(folder: &Path) -> ImageFile {
    fs::write(folder.join("module.c"), SOURCE).unwrap();
    run(
        folder,
        "gcc",
        "-c -O1 -ffunction-sections -fno-asynchronous-unwind-tables -fno-unwind-tables -o module.o module.c",
    );
    ImageFile::open(folder.join("module.o")).unwrap()
}

/// Offsets of the sections with code, by name, as `readelf` lists them.
fn sections(folder: &Path) -> BTreeMap<String, u64> {
    let list = run(folder, "readelf", "-SW module.o");
    let lines = list.lines().filter_map(|line| line.split_once(']').map(|(_, rest)| rest.split_whitespace()));
    let fields = lines.map(Iterator::collect::<Vec<_>>).filter(|fields| fields.len() > 6 && fields[6] == "AX");
    fields.map(|fields| (fields[0].to_string(), hex(fields[3]))).collect()
}

/// The module as the linker relocates it, with its sections at these addresses.
fn link(folder: &Path, addresses: &BTreeMap<String, u64>) -> Code {
    let place = |(name, address): (&String, &u64)| format!("{name} {address:#x} : {{ *({name}) }}\n");
    let script: String = addresses.iter().map(place).collect();
    fs::write(
        folder.join("script"),
        format!("SECTIONS {{\n{script}/DISCARD/ : {{ *(.eh_frame) *(.comment) *(.note*) }}\n}}\n"),
    )
    .unwrap();
    let defined = [("printk", PRINTK), ("maybe", MAYBE), ("unknown", UNKNOWN)];
    let defined: String = defined.iter().map(|(name, address)| format!(" --defsym {name}={address:#x}")).collect();
    run(folder, "ld", &format!("-T script{defined} -e first -o linked module.o"));
    ImageFile::open(folder.join("linked")).unwrap().place(Placement::Base(0)).0
}

/// Addresses of the calls of `unknown`, from the relocations that `objdump` lists.
fn unknown_sites(folder: &Path, addresses: &BTreeMap<String, u64>) -> Vec<u64> {
    let (mut sites, mut section) = (Vec::new(), 0);
    for line in run(folder, "objdump", "-r module.o").lines() {
        if let Some(name) = line.strip_prefix("RELOCATION RECORDS FOR [") {
            section = addresses.get(name.trim_end_matches("]:")).copied().unwrap_or(0);
        } else if line.ends_with(" unknown") {
            sites.push(section + hex(line.split_whitespace().next().unwrap()));
        }
    }
    sites.sort_unstable();
    sites
}

fn word(code: &Code, address: u64) -> Option<[u8; 4]> {
    code.regions.iter().find_map(|region| region.starting_at(address)?.first_chunk().copied())
}

/// Compares all words of the module with those of the linker.
fn assert_linked(folder: &Path, module: &Code, addresses: &BTreeMap<String, u64>) {
    let linked = link(folder, addresses);
    let unknown = unknown_sites(folder, addresses);
    assert_eq!(unknown.len(), 2);
    let mut compared = 0;
    for region in linked.regions.iter().filter(|region| region.address >= BASE) {
        for address in (region.address..=region.last()).step_by(4) {
            let expected = if unknown.contains(&address) { None } else { word(&linked, address) };
            // Between sections the linker fills.
            let inside = module.symbols.find(address).is_some();
            if inside {
                assert_eq!(word(module, address), expected, "{address:#x}");
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared}");
    for symbol in linked.symbols.iter().filter(|symbol| module.symbols.find(symbol.address).is_some()) {
        assert_eq!(module.symbols.find(symbol.address), Some((symbol.name, 0)));
    }
}

fn notes_of(module: &ImageFile, list: &str) -> (Code, Vec<String>) {
    let list = Kallsyms::parse("kallsyms", list.into());
    let (code, notes) = module.place_module(BASE, "module.o", Some(&list));
    (code, notes.into_iter().map(|note| note.text).collect())
}

#[test]
fn branches_are_those_of_the_linker() {
    if !has_tools() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let module = compile(dir.path());
    let offsets = sections(dir.path());
    assert!(offsets.len() >= 5, "{offsets:?}");
    // Sections at their distances in the file from `.text`.
    let addresses = offsets.iter().map(|(name, offset)| (name.clone(), BASE + offset - offsets[".text"])).collect();
    let (code, notes) = notes_of(&module, &format!("{PRINTK:x} T printk\n{MAYBE:x} T maybe\n"));
    assert_linked(dir.path(), &code, &addresses);
    let expected = "the targets of 2 branches are not known; these instructions are left out of the code";
    assert_eq!(notes.last().map(String::as_str), Some(expected));
}

#[test]
fn listed_functions_place_their_sections() {
    if !has_tools() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let module = compile(dir.path());
    // Every section is elsewhere, in another order than in the file.
    let names = sections(dir.path()).into_keys().rev().enumerate();
    let addresses: BTreeMap<String, u64> = names.map(|(n, name)| (name, BASE + 0x1000 * n as u64)).collect();
    let functions = [
        (".text.twice", "twice"),
        (".text.first", "first"),
        (".text.second", "second"),
        (".exit.text", "leave"),
        (".text.far", "far"),
    ];
    let mut list = format!("{PRINTK:x} T printk\n{MAYBE:x} T maybe\n");
    for (section, name) in functions {
        list += &format!("{:x} t {name}\t[module.o]\n", addresses[section]);
    }
    let (code, notes) = notes_of(&module, &list);
    assert_linked(dir.path(), &code, &addresses);
    // The empty sections are nowhere, and that is all that is assumed.
    assert!(notes.len() <= 2, "{notes:?}");
}
