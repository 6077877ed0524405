//! Compares mnemonics and classes with the output of the tools that came with STF, for whole traces.
//!
//! listing (`dump_mavis*`) ─▶ opcodes ─▶ mnemonics and classes ─▶ compared with the **listing** and the **mix** (`imix*`)
//!
//! Needs the corpus: `UNSPOOL_CORPUS` names its folder.
//! A listing of only the first thousand instructions is compared line by line, and its mix by mnemonics: each has the classes
//! of the opcodes with this name in any listing. Instructions that faulted are in the listings and not in the mix.

#![cfg(feature = "text")]
#![allow(clippy::expect_used, reason = "a test stops at what it does not expect")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use unspool_isa::{Classes, Disassembler, Isa, classes, decode};
use unspool_testing::{corpus, note};

type Mix = BTreeMap<String, u64>;

struct Line {
    isa: Isa,
    opcode: u32,
    length: u8,
    mnemonic: String,
    target: Option<u64>,
    address: u64,
    faulted: bool,
}

#[test]
fn mnemonics_and_classes_are_those_of_the_reference() {
    let Some(folders) = folders() else { return };
    let mut disassembler = Disassembler::new();
    let (mut lines, mut whole, mut known) = (0, 0, BTreeMap::new());
    for folder in &folders {
        let listing = listing(folder);
        lines += listing.len();
        for line in &listing {
            check(&mut disassembler, folder, line);
            known.insert(line.mnemonic.clone(), classes(line.isa, line.opcode));
        }
        if is_whole(folder) {
            whole += 1;
            compare_mix(folder, &listing);
        }
    }
    let (by_name, unseen) = compare_by_name(&folders, &known);
    note(format_args!(
        "corpus: {} folders, {lines} lines compared, {whole} mixes counted from whole listings, {by_name} from mnemonics, \
         {} mnemonics seen, not seen in any listing: {unseen:?}",
        folders.len(),
        known.len(),
    ));
    assert!(lines > 20_000 && whole > 10 && by_name > 20, "the corpus is incomplete");
}

fn folders() -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(corpus("stf")?.join("expected")).expect("the listings of the reference");
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder").path()).collect();
    folders.sort();
    Some(folders)
}

/// Whether the listing is of the whole trace. One listing ends where the tool that wrote it crashed.
fn is_whole(folder: &Path) -> bool {
    let paths = ["dump_mavis.txt", "dump_mavis.txt.gz"].map(|name| folder.join(name));
    paths.iter().any(|path| path.exists() && !read(path).contains("terminate called"))
}

fn listing(folder: &Path) -> Vec<Line> {
    let names =
        ["dump_mavis.txt", "dump_mavis.txt.gz", "dump_mavis.first1000inst.txt.gz", "dump_mavis.first1000inst.txt"];
    let path = names.iter().map(|name| folder.join(name)).find(|path| path.exists()).expect("a listing");
    let (mut lines, mut isa) = (Vec::<Line>::new(), Isa::Rv64);
    for text in read(&path).lines() {
        let mut words = text.split_whitespace();
        match words.next() {
            Some("INST_IEM") => isa = if words.next() == Some("RV32") { Isa::Rv32 } else { Isa::Rv64 },
            Some("INST16") => lines.push(parse(isa, 2, text)),
            Some("INST32") => lines.push(parse(isa, 4, text)),
            Some("FAULT") => lines.last_mut().expect("an instruction that faulted").faulted = true,
            _ => {}
        }
    }
    lines
}

/// Parses a line: number, address, target if it branched, opcode and text.
fn parse(isa: Isa, length: u8, text: &str) -> Line {
    let words: Vec<&str> = text.split_whitespace().collect();
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).expect("a hexadecimal number");
    let target = (words[3] == "PC").then(|| hexadecimal(words[4]));
    let rest = if target.is_some() { 5 } else { 3 };
    Line {
        isa,
        opcode: hexadecimal(words[rest]) as u32,
        length,
        mnemonic: words[rest + 1].to_owned(),
        target,
        address: hexadecimal(words[2]),
        faulted: false,
    }
}

fn check(disassembler: &mut Disassembler, folder: &Path, line: &Line) {
    let position = format!("{}: {:08x} at {:x}", folder.display(), line.opcode, line.address);
    assert_eq!(disassembler.mnemonic(line.isa, line.opcode).as_deref(), Some(line.mnemonic.as_str()), "{position}");
    assert_eq!(line.isa.length(line.opcode as u16), line.length, "{position}");
    let target = decode(line.isa, line.address, line.opcode).target_address();
    // One tool also writes a target for a branch that was not taken: the next address.
    let end = line.address + u64::from(line.length);
    if let (Some(ours), Some(theirs)) = (target, line.target.filter(|&target| target != end)) {
        assert_eq!(ours, theirs, "{position}");
    }
}

/// Counts the mix of the listing and compares it.
fn compare_mix(folder: &Path, listing: &[Line]) {
    let (mut mnemonics, mut by_class) = (Mix::new(), Mix::new());
    for line in listing.iter().filter(|line| !line.faulted) {
        *mnemonics.entry(line.mnemonic.clone()).or_default() += 1;
        count(&mut by_class, classes(line.isa, line.opcode), 1);
    }
    assert_eq!(mnemonics, mix(folder, "imix_mnemonic.txt"), "{}", folder.display());
    assert_eq!(by_class, mix(folder, "imix.txt"), "{}", folder.display());
}

/// Compares mixes with the classes of each mnemonic in the listings. Returns the number of mixes, and the mnemonics that are
/// in no listing.
fn compare_by_name(folders: &[PathBuf], known: &BTreeMap<String, Classes>) -> (usize, BTreeSet<String>) {
    let (mut compared, mut unseen) = (0, BTreeSet::new());
    for folder in folders {
        let mut classes = Mix::new();
        for (mnemonic, number) in mix(folder, "imix_mnemonic.txt") {
            let of_mnemonic = known.get(&mnemonic).copied().unwrap_or_else(|| {
                unseen.insert(mnemonic.clone());
                classes_of_example(&mnemonic)
            });
            count(&mut classes, of_mnemonic, number);
        }
        compared += 1;
        assert_eq!(classes, mix(folder, "imix.txt"), "{}", folder.display());
    }
    (compared, unseen)
}

/// Classes of a mnemonic that occurs only after the first thousand instructions, by an example opcode.
fn classes_of_example(mnemonic: &str) -> Classes {
    let examples = [("c.jalr", 0x9082), ("lb", 0x0005_0503), ("slt", 0x00b5_2533), ("srliw", 0x0015_551b)];
    let (_, opcode) = examples.into_iter().find(|(name, _)| *name == mnemonic).expect("an example of every mnemonic");
    assert_eq!(Disassembler::new().mnemonic(Isa::Rv64, opcode).as_deref(), Some(mnemonic));
    classes(Isa::Rv64, opcode)
}

fn count(mix: &mut Mix, classes: Classes, number: u64) {
    for class in classes.iter() {
        *mix.entry(class.name().to_owned()).or_default() += number;
    }
}

/// A table of names and counts.
fn mix(folder: &Path, name: &str) -> Mix {
    let text = read(&folder.join(name));
    let rows = text.lines().skip(1).map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a name").to_owned();
        (name, words.next().expect("a count").parse().expect("a number"))
    });
    rows.collect()
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).expect("the corpus can be read");
    if path.extension().is_none_or(|extension| extension != "gz") {
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut text).expect("gzip");
    String::from_utf8_lossy(&text).into_owned()
}
