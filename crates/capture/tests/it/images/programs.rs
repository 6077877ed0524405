//! Programs: symbols against `nm`, segments against `readelf`, separate symbols, and the memory of this process.

use std::fs;
use std::path::Path;

use unspool_capture::{Code, ImageFile, ImageLoader, ImageSearch, Mapping, Placement};

use super::{has_tools, hex, run};

const SOURCE: &str = "
    static int __attribute__((noinline)) hidden(int x) { return x * 3; }
    int exported(int x) { return hidden(x) + 1; }
    int table[100] = { 1 };
";

/// A shared library, in which code and data have different distances from their offsets in the file.
fn library(folder: &Path) {
    fs::write(folder.join("lib.c"), SOURCE).unwrap();
    run(folder, "gcc", "-O1 -fPIC -shared -nostdlib -Wl,--build-id -Wl,-z,separate-code -o lib.so lib.c");
}

/// Names and addresses of functions, as `nm` lists them.
fn functions(folder: &Path, file: &str) -> Vec<(String, u64)> {
    let list = run(folder, "nm", file);
    let fields = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let code = fields.filter(|fields| fields.len() == 3 && matches!(fields[1], "t" | "T"));
    code.filter(|fields| !fields[2].starts_with('$')).map(|fields| (fields[2].to_string(), hex(fields[0]))).collect()
}

/// Offset, address and size of the executable segment, as `readelf` lists them.
fn executable(folder: &Path, file: &str) -> (u64, u64, u64) {
    let list = run(folder, "readelf", &format!("-lW {file}"));
    let line = list.lines().find(|line| line.contains("LOAD") && line.contains("R E")).unwrap();
    let fields: Vec<&str> = line.split_whitespace().collect();
    (hex(fields[1]), hex(fields[2]), hex(fields[4]))
}

fn assert_functions(code: &Code, expected: &[(String, u64)], bias: u64) {
    assert!(!expected.is_empty());
    for (name, address) in expected {
        let found = code.symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.address);
        assert_eq!(found, Some(address + bias), "{name}");
    }
}

#[test]
fn symbols_are_where_nm_has_them() {
    if !has_tools() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    library(dir.path());
    let expected = functions(dir.path(), "lib.so");
    assert_eq!(expected.len(), 2);
    let (offset, address, size) = executable(dir.path(), "lib.so");
    let image = ImageFile::open(dir.path().join("lib.so")).unwrap();
    let bias = 0x7f_1234_0000;
    let (code, notes) = image.place(Placement::Base(bias));
    assert_functions(&code, &expected, bias);
    assert_eq!(notes, []);
    // As a loader maps it: whole pages.
    let (start, end) = (offset & !0xfff, (offset + size).next_multiple_of(0x1000));
    let part = Placement::Part { address: bias + (address & !0xfff), length: end - start, offset: start };
    let (code, notes) = image.place(part);
    assert_functions(&code, &expected, bias);
    assert_eq!((notes, code.regions.len()), (vec![], 1));
    let file = fs::read(dir.path().join("lib.so")).unwrap();
    let bytes = &file[offset as usize..(offset + size) as usize];
    assert!(code.regions[0].starting_at(address + bias).unwrap().starts_with(bytes));
}

#[test]
fn separate_symbols_by_build_id_and_by_link() {
    if !has_tools() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (root, debug) = (dir.path().join("root"), dir.path().join("debug"));
    library(dir.path());
    let expected = functions(dir.path(), "lib.so");
    run(dir.path(), "objcopy", "--only-keep-debug lib.so lib.debug");
    fs::create_dir_all(root.join("usr/lib")).unwrap();
    run(dir.path(), "strip", "-o stripped lib.so");
    run(dir.path(), "objcopy", "--add-gnu-debuglink=lib.debug stripped root/usr/lib/lib.so");
    let id = ImageFile::open(dir.path().join("lib.so")).unwrap().build_id().unwrap().to_vec();
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    // The ID that another tool reads.
    assert!(run(dir.path(), "readelf", "-n lib.so").contains(&format!("Build ID: {id}")));
    let mapping =
        Mapping { image: "/usr/lib/lib.so".into(), build_id: id.clone(), placement: Placement::Base(0x7000_0000) };
    let names = |debug_dirs| {
        let search = ImageSearch { sysroots: vec![root.clone()], debug_dirs, ..ImageSearch::default() };
        ImageLoader::new(search).load(&mapping).unwrap().0
    };
    // Without them, only what other libraries use.
    let without = names(vec![]);
    assert!(!without.regions.is_empty() && !without.symbols.iter().any(|symbol| symbol.name == "hidden"));
    let by_id = debug.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    for place in [by_id, debug.join("usr/lib/lib.debug"), root.join("usr/lib/.debug/lib.debug")] {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(dir.path().join("lib.debug"), &place).unwrap();
        let code = names(vec![debug.clone()]);
        assert_functions(&code, &expected, 0x7000_0000);
        assert!(!code.regions.is_empty());
        // A link to a file with another checksum is not followed.
        if !place.to_str().unwrap().contains(".build-id") {
            let mut other = fs::read(&place).unwrap();
            other.push(0);
            fs::write(&place, other).unwrap();
            assert!(!names(vec![debug.clone()]).symbols.iter().any(|symbol| symbol.name == "hidden"));
        }
        fs::remove_file(&place).unwrap();
    }
    // The file with symbols alone has names and no code.
    let (code, notes) = ImageFile::open(dir.path().join("lib.debug")).unwrap().place(Placement::Base(0x1000_0000));
    assert_functions(&code, &expected, 0x1000_0000);
    assert_eq!((code.regions.len(), notes.len()), (0, 1));
    let (code, _) = Code::names_from_file(dir.path().join("lib.debug"), Some(0x2000_0000)).unwrap();
    assert_functions(&code, &expected, 0x2000_0000);
}

/// The kernel placed this program; its maps, its file and its memory have to agree.
#[cfg(target_os = "linux")]
#[test]
fn the_code_of_this_process_is_what_its_maps_say() {
    use std::io::{Read, Seek, SeekFrom};

    use unspool_capture::{Call, ProcMaps};

    let maps = ProcMaps::parse("maps", &fs::read("/proc/self/maps").unwrap(), 1);
    let here = a_function_of_this_process as fn() -> u32 as usize as u64;
    let mappings = maps.events.iter().filter_map(|event| match &event.call {
        Call::Library { mapping, .. } => Some(mapping),
        _ => None,
    });
    let has_us = |mapping: &&Mapping| match mapping.placement {
        Placement::Part { address, length, .. } => (address..address + length).contains(&here),
        Placement::Base(_) => false,
    };
    let mapping = mappings.clone().find(has_us).unwrap();
    let search = ImageSearch { trust_this_machine: true, ..ImageSearch::default() };
    let (code, _) = ImageLoader::new(search).load(mapping).unwrap();
    let (symbol, offset) = code.symbols.find(here).unwrap();
    assert!(symbol.contains("a_function_of_this_process") && offset == 0, "{symbol}+{offset}");
    let mut memory = fs::File::open("/proc/self/mem").unwrap();
    let mut bytes = [0; 16];
    memory.seek(SeekFrom::Start(here)).unwrap();
    memory.read_exact(&mut bytes).unwrap();
    assert!(code.regions[0].starting_at(here).unwrap().starts_with(&bytes));
}

#[cfg(target_os = "linux")]
#[inline(never)]
fn a_function_of_this_process() -> u32 {
    std::hint::black_box(0x1234_5678)
}
