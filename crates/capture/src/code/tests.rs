//! Image files: linked, unlinked, of either byte order, truncated, damaged, and not ELF at all.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::elf_builder::{ElfBuilder, FUNC, GLOBAL, LOCAL, NOTYPE, OBJECT};
use super::load::from_bytes;
use super::{Bytes, Code, LoadedCode, Machine, Region};
use crate::capture::Capture;
use crate::note::{Note, NoteKind};

/// The code in these bytes, and the kinds of its problems.
fn load(bytes: &[u8], address: Option<u64>) -> (Code, Vec<NoteKind>) {
    let mut problems = vec![];
    let code = from_bytes("a.out", &Bytes::from(bytes.to_vec()), address, &mut problems).unwrap();
    (code, problems.into_iter().map(|(kind, _)| kind).collect())
}

fn load_without_problems(builder: &ElfBuilder, address: Option<u64>) -> Code {
    let (code, problems) = load(&builder.build(), address);
    assert_eq!(problems, []);
    code
}

fn ranges(code: &Code) -> Vec<(u64, usize)> {
    code.regions.iter().map(|region| (region.address, region.bytes.len())).collect()
}

fn arm() -> ElfBuilder {
    ElfBuilder { wide: false, machine: 40, ..ElfBuilder::default() }
}

#[test]
fn both_classes_and_both_byte_orders() {
    let cases = [(183, true), (40, false), (243, true), (243, false), (62, true)];
    for (machine, wide) in cases {
        for big in [false, true] {
            let code = load_without_problems(&ElfBuilder { wide, big, machine, ..ElfBuilder::default() }, None);
            assert_eq!(ranges(&code), [(0x40_0000, 0x40)], "{machine}");
            assert_eq!(code.regions[0].starting_at(0x40_003e), Some(&[0x3e, 0x3f][..]), "{machine}");
            assert_eq!(code.regions[0].starting_at(0x40_0040), None);
            assert_eq!(code.symbols.find(0x40_0014), Some(("main", 4)), "{machine}");
            assert_eq!((code.build_id.as_deref(), code.big_endian), (Some(&[0xab, 0xcd][..]), big), "{machine}");
        }
    }
}

#[test]
fn machines() {
    let rows = [
        (true, 183, Machine::AArch64, "AArch64"),
        (false, 40, Machine::Arm, "Arm"),
        (false, 243, Machine::RiscV32, "RISC-V 32-bit"),
        (true, 243, Machine::RiscV64, "RISC-V 64-bit"),
        (true, 62, Machine::Other(62), "x86-64"),
        (false, 3, Machine::Other(3), "x86"),
        (true, 0x1234, Machine::Other(0x1234), "machine 4660"),
    ];
    for (wide, machine, expected, text) in rows {
        let code = load_without_problems(&ElfBuilder { wide, machine, ..ElfBuilder::default() }, None);
        assert_eq!((code.machine, expected.to_string().as_str()), (Some(expected), text));
    }
}

#[test]
fn byte_order_of_instructions() {
    let big_arm = ElfBuilder { big: true, ..arm() };
    assert!(load_without_problems(&big_arm, None).big_endian_code);
    assert!(!load_without_problems(&ElfBuilder { flags: 0x0080_0000, ..big_arm }, None).big_endian_code);
    assert!(!load_without_problems(&ElfBuilder { big: true, ..ElfBuilder::default() }, None).big_endian_code);
    assert!(!load_without_problems(&arm(), None).big_endian_code);
}

#[test]
fn display_is_one_line() {
    let code = load_without_problems(&ElfBuilder::default(), None);
    assert_eq!(code.to_string(), "a.out: ELF AArch64, build-id abcd, 1 symbol, 0x400000-0x40003f");
    let empty = ElfBuilder { big: true, build_id: vec![], symbols: vec![], code: vec![], ..arm() };
    let (code, problems) = load(&empty.build(), None);
    assert_eq!(
        (code.to_string().as_str(), problems),
        ("a.out: ELF Arm big-endian, no memory", vec![NoteKind::MissingKey])
    );
    let many = (0..7).map(|n| (n << 12, 1, vec![0])).collect();
    let code = load_without_problems(
        &ElfBuilder { code: many, symbols: vec![], build_id: vec![], ..ElfBuilder::default() },
        None,
    );
    let ranges = "0x0-0x0, 0x1000-0x1000, 0x2000-0x2000, 0x3000-0x3000 and 3 more regions";
    assert_eq!(code.to_string(), format!("a.out: ELF AArch64, {ranges}"));
    let code = load(b"code", Some(0x80)).0;
    assert_eq!(code.to_string(), "a.out: dump, 0x80-0x83");
}

#[test]
fn only_symbols_of_code_are_kept() {
    let symbols = vec![
        ("local", 0x40_0000, 4, LOCAL | FUNC, 1),
        ("global", 0x40_0000, 4, GLOBAL | FUNC, 1),
        ("label", 0x40_0004, 0, GLOBAL | NOTYPE, 1),
        ("$x", 0x40_0008, 0, LOCAL | NOTYPE, 1),
        ("$d.12", 0x40_000c, 0, LOCAL | NOTYPE, 1),
        (".L7", 0x40_000c, 0, LOCAL | NOTYPE, 1),
        ("data", 0x40_0010, 4, GLOBAL | OBJECT, 1),
        ("import", 0, 0, GLOBAL | FUNC, 0),
        ("$xylophone", 0x40_0020, 0, GLOBAL | NOTYPE, 1),
        ("constant", 0x77, 0, GLOBAL | NOTYPE, 0xfff1),
        ("rom", 0x100, 8, GLOBAL | FUNC, 0xfff1),
        ("rom_without_size", 0x200, 0, GLOBAL | FUNC, 0xfff1),
        ("in_the_note", 0x1000, 0, GLOBAL | NOTYPE, 2),
        ("in_no_section", 0x1000, 8, GLOBAL | FUNC, 99),
    ];
    let code = load_without_problems(&ElfBuilder { symbols: symbols.clone(), ..ElfBuilder::default() }, None);
    let found: Vec<_> = code.symbols.iter().map(|symbol| (symbol.name, symbol.address, symbol.size)).collect();
    let expected =
        [("rom", 0x100, 8), ("global", 0x40_0000, 4), ("label", 0x40_0004, 0x1c), ("$xylophone", 0x40_0020, 0x20)];
    assert_eq!(found, expected);
    let code = load_without_problems(&ElfBuilder { symbols, machine: 243, ..ElfBuilder::default() }, None);
    assert_eq!(code.symbols.find(0x40_0020), Some(("label", 0x1c)), "RISC-V appends the architecture to $x");
}

#[test]
fn the_thumb_bit_is_not_part_of_the_address() {
    let symbols = vec![("thumb", 0x40_0011, 8, GLOBAL | FUNC, 1), ("arm", 0x40_0020, 8, GLOBAL | FUNC, 1)];
    let code = load_without_problems(&ElfBuilder { symbols: symbols.clone(), ..arm() }, None);
    assert_eq!(code.symbols.find(0x40_0010), Some(("thumb", 0)));
    assert_eq!(code.symbols.find(0x40_0018), None);
    assert_eq!(code.symbols.find(0x40_0020), Some(("arm", 0)));
    let code = load_without_problems(&ElfBuilder { symbols, ..ElfBuilder::default() }, None);
    assert_eq!(code.symbols.find(0x40_0010), None, "only Arm has one");
}

#[test]
fn an_address_moves_the_lowest_page_of_an_elf_file() {
    let two = |first, align| ElfBuilder {
        code: vec![(0x41_0123, align, vec![1; 8]), (first, align, vec![2; 8])],
        symbols: vec![("f", first + 4, 4, GLOBAL | FUNC, 2)],
        ..ElfBuilder::default()
    };
    let rows: &[(u64, u64, u64, [u64; 2])] = &[
        (0x40_0000, 0x1_0000, 0x7f_0000_0000, [0x7f_0001_0123, 0x7f_0000_0000]),
        // The page of the first byte moves to the address, not the byte itself.
        (0x40_0040, 0x1_0000, 0x7f_0000_0000, [0x7f_0001_0123, 0x7f_0000_0040]),
        // Without alignment, the byte itself.
        (0x40_0040, 1, 0x1000, [0x1_10e3, 0x1000]),
        (0x40_0040, 0, 0x1000, [0x1_10e3, 0x1000]),
        // Down.
        (0x40_0000, 0x1000, 0, [0x1_0123, 0]),
    ];
    for (first, align, to, expected) in rows {
        let code = load_without_problems(&two(*first, *align), Some(*to));
        let found: Vec<u64> = code.regions.iter().map(|region| region.address).collect();
        assert_eq!(found, expected, "{first:#x} {align:#x} to {to:#x}");
        assert_eq!(code.symbols.find(expected[1] + 6), Some(("f", 2)));
    }
}

#[test]
fn an_object_file_has_sections_only() {
    let object = ElfBuilder {
        kind: 1,
        segments: false,
        code: vec![(0, 4, vec![0; 0x20])],
        symbols: vec![("f", 8, 8, GLOBAL | FUNC, 1)],
        ..ElfBuilder::default()
    };
    let code = load_without_problems(&object, Some(0x8000));
    assert_eq!((ranges(&code), code.symbols.find(0x8009)), (vec![(0x8000, 0x20)], Some(("f", 1))));
    let two = ElfBuilder { code: vec![(0, 4, vec![0; 0x20]), (0, 4, vec![1; 4])], ..object };
    // At an address, each section has its own memory; another architecture has no relocations that we know.
    let (code, problems) = load(&two.build(), Some(0x8000));
    assert_eq!((ranges(&code), problems), (vec![(0x8000, 0x20), (0x8020, 4)], vec![NoteKind::Assumed]));
    let (code, _) = load(&ElfBuilder { machine: 62, ..two.clone() }.build(), Some(0x8000));
    assert_eq!(ranges(&code), [(0x8000, 0x20), (0x8000, 4)]);
    let (code, problems) = load(&two.build(), None);
    assert_eq!((ranges(&code), problems), (vec![(0, 0x20), (0, 4)], vec![NoteKind::Duplicate]));
}

#[test]
fn overlapping_segments_are_kept() {
    let code = vec![(0x1000, 1, vec![1; 0x20]), (0x1010, 1, vec![2; 0x20])];
    let code = load_without_problems(&ElfBuilder { code, ..ElfBuilder::default() }, None);
    assert_eq!(ranges(&code), [(0x1000, 0x20), (0x1010, 0x20)]);
}

#[test]
fn a_truncated_file() {
    let builder = ElfBuilder { code: vec![(0x1000, 1, vec![7; 0x1000])], ..ElfBuilder::default() };
    let whole = builder.build();
    let (code, problems) = load(&whole[..0x800], None);
    assert_eq!(ranges(&code), [(0x1000, 0x800 - 64 - 2 * 56)]);
    assert_eq!((problems, code.symbols.len()), (vec![NoteKind::Truncated; 2], 0));
    // The header alone.
    let (code, problems) = load(&whole[..64], None);
    assert_eq!((ranges(&code), code.machine), (vec![], Some(Machine::AArch64)));
    assert!(problems.contains(&NoteKind::Truncated));
    // Less than the header: a dump, if the caller gives an address.
    let (code, problems) = load(&whole[..40], Some(0x10));
    assert_eq!((ranges(&code), code.raw, problems), (vec![(0x10, 40)], true, vec![NoteKind::Unreadable]));
    // No length panics.
    (4..whole.len()).for_each(|end| drop(load(&whole[..end], Some(0))));
}

#[test]
fn a_dump_is_truncated_at_the_end_of_the_address_space() {
    let (code, problems) = load(b"12345678", Some(u64::MAX - 3));
    assert_eq!((ranges(&code), code.regions[0].last()), (vec![(u64::MAX - 3, 4)], u64::MAX));
    assert_eq!(code.regions[0].starting_at(u64::MAX), Some(&b"4"[..]));
    assert_eq!(problems, [NoteKind::BadValue]);
}

#[test]
fn a_file_of_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    fs::write(&path, ElfBuilder::default().build()).unwrap();
    let (code, notes) = Code::from_file(&path, None).unwrap();
    assert_eq!((ranges(&code), notes), (vec![(0x40_0000, 0x40)], vec![]));
    fs::write(&path, "dump").unwrap();
    let (code, _) = Code::from_file(&path, Some(0x1000)).unwrap();
    assert_eq!((ranges(&code), code.machine, code.raw), (vec![(0x1000, 4)], None, true));
    let error = Code::from_file(&path, None).unwrap_err().to_string();
    assert!(error.ends_with("program: not an ELF file, so it needs an address: FILE@ADDRESS"), "{error}");
    assert!(Code::from_file(dir.path(), None).is_err());
    assert!(Code::from_file(dir.path().join("missing"), None).is_err());
}

/// A snapshot with these dump sections at each of its cores.
fn snapshot(dir: &Path, cores: &[&str], files: &[(&str, &[u8])]) -> Capture {
    let list: String = (0..cores.len()).map(|n| format!("device{n}=cpu{n}.ini\n")).collect();
    fs::write(dir.join("snapshot.ini"), format!("[snapshot]\nversion=1.0\n[device_list]\n{list}")).unwrap();
    for (n, dumps) in cores.iter().enumerate() {
        let text = format!("[device]\nname=cpu{n}\nclass=core\ntype=Cortex-A53\n{dumps}");
        fs::write(dir.join(format!("cpu{n}.ini")), text).unwrap();
    }
    files.iter().for_each(|(name, bytes)| fs::write(dir.join(name), bytes).unwrap());
    Capture::open(dir).unwrap()
}

fn lines(loaded: &LoadedCode) -> Vec<String> {
    loaded.codes.iter().map(ToString::to_string).collect()
}

fn with_kinds(notes: &[Note]) -> Vec<String> {
    notes.iter().map(|note| format!("{:?} {note}", note.kind)).collect()
}

#[test]
fn dumps_of_a_capture() {
    let dir = tempfile::tempdir().unwrap();
    let dumps = "[dump1]\nfile=ram\naddress=0x100\n\
        [dump2]\nfile=ram\naddress=0x200\noffset=2\nlength=3\nspace=EL2\n\
        [dump3]\nfile=ram\naddress=0x300\noffset=6\nlength=8\n\
        [dump4]\nfile=ram\naddress=0x400\noffset=9\n\
        [dump5]\nfile=gone\naddress=0x500\n\
        [dump6]\nfile=ram\naddress=0x600\nspace=moon\n\
        [dump7]\nfile=ram\n";
    let loaded = snapshot(dir.path(), &[dumps], &[("ram", b"01234567")]).code(Some(0));
    let expected = [
        "ram: dump, 0x100-0x107",
        "ram: dump, 0x200-0x202 in EL2N",
        "ram: dump, 0x300-0x301",
        "ram: dump, 0x600-0x607",
    ];
    assert_eq!(lines(&loaded), expected);
    assert_eq!(&loaded.codes[1].regions[0].bytes[..], b"234");
    let expected = [
        "Truncated ram: contains only 0x2 of the bytes of [dump3]",
        "Truncated ram: contains only 0x0 of the bytes of [dump4]",
        "MissingFile gone: cannot be loaded: gone: not in the capture",
        "UnknownName ram: [dump6] has the unknown memory space `moon`; all are assumed",
        "MissingKey ram: cannot be read as an ELF file, and [dump7] has no address",
    ];
    assert_eq!(with_kinds(&loaded.notes), expected);
}

#[test]
fn the_images_of_the_core_come_first_and_each_once() {
    let dir = tempfile::tempdir().unwrap();
    let cores = [
        "[dump1]\nfile=a\naddress=1\n[dump2]\nfile=b\naddress=2\nspace=el2\n",
        "[dump1]\nfile=b\naddress=2\nspace=H\n[dump2]\nfile=b\naddress=3\n",
    ];
    let capture = snapshot(dir.path(), &cores, &[("a", b"a"), ("b", b"b")]);
    let order = |core| {
        let codes = capture.code(core).codes;
        codes.iter().map(|code| format!("{}@{}", code.name, code.regions[0].address)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(None), "a@1 b@2 b@3");
    assert_eq!(order(Some(0)), "a@1 b@2 b@3");
    assert_eq!(order(Some(1)), "b@2 b@3 a@1");
    assert_eq!(order(Some(7)), "a@1 b@2 b@3");
}

#[test]
fn elf_files_of_a_capture() {
    let dir = tempfile::tempdir().unwrap();
    let dumps = "[dump1]\nfile=program\n[dump2]\nfile=program\naddress=0x1000\nlength=0x10\n\
        [dump3]\nfile=other\n[dump4]\nfile=program\nlength=4\nspace=S\n[dump5]\nfile=cut\n";
    let whole = ElfBuilder::default().build();
    let other = ElfBuilder { machine: 62, ..ElfBuilder::default() }.build();
    let capture = snapshot(dir.path(), &[dumps], &[("program", &whole), ("other", &other), ("cut", &whole[..30])]);
    let loaded = capture.code(None);
    let expected = [
        "program: ELF AArch64, build-id abcd, 1 symbol, 0x400000-0x40003f",
        "program: dump, 0x1000-0x100f",
        "other: ELF x86-64, build-id abcd, 1 symbol, 0x400000-0x40003f",
        "program: ELF AArch64, build-id abcd, 1 symbol, 0x400000-0x40003f in S",
    ];
    assert_eq!(lines(&loaded), expected);
    let expected = [
        "WrongMachine other: is a program for x86-64, not for Arm",
        "BadValue program: is an ELF file, so offset and length of [dump4] are ignored",
        "MissingKey cut: cannot be read as an ELF file, and [dump5] has no address",
    ];
    assert_eq!(with_kinds(&loaded.notes), expected);
}

#[test]
fn a_dump_of_a_loaded_program_keeps_its_symbols() {
    let dir = tempfile::tempdir().unwrap();
    let dumps =
        "[dump1]\nfile=program\naddress=0x7f0000\nlength=0x40\n[dump2]\nfile=program\naddress=0x7f0040\noffset=0x40\n";
    let mut program = ElfBuilder::default().build();
    // The segment starts at offset 0, as the first segment of a Linux program does.
    program[64 + 8..64 + 16].fill(0);
    let loaded = snapshot(dir.path(), &[dumps], &[("program", &program)]).code(None);
    let [first, rest] = &loaded.codes[..] else { panic!("{:?}", loaded.codes) };
    assert_eq!(first.to_string(), "program: dump of ELF AArch64, build-id abcd, 1 symbol, 0x7f0000-0x7f003f");
    assert_eq!(first.symbols.find(0x7f_0018), Some(("main", 8)));
    assert_eq!((rest.machine, rest.symbols.len(), loaded.notes), (None, 0, vec![]));
}

#[test]
fn the_total_size_of_files_is_limited() {
    let dir = tempfile::tempdir().unwrap();
    let dumps = "[dump1]\nfile=a\naddress=0\n[dump2]\nfile=b\naddress=0\n[dump3]\nfile=a\naddress=8\n\
        [dump4]\nfile=c\naddress=0\n";
    let capture = snapshot(dir.path(), &[dumps], &[("a", b"1234"), ("b", b"5678"), ("c", b"90")]);
    let loaded = capture.code_within(None, 6);
    assert_eq!(lines(&loaded), ["a: dump, 0x0-0x3", "b: dump, 0x0-0x1", "a: dump, 0x8-0xb"]);
    let kinds: Vec<NoteKind> = loaded.notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NoteKind::TooMany, NoteKind::TooMany, NoteKind::Truncated]);
    assert_eq!(capture.code_within(None, 10).notes, []);
}

proptest! {
    /// Random bytes, with or without the ELF identification.
    #[test]
    fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic: bool, address: u64, at: u64) {
        if magic && bytes.len() >= 16 {
            let (class, order) = (bytes[4] % 2 + 1, bytes[5] % 2 + 1);
            bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order, 1]);
        }
        check(&bytes, address, at);
    }

    /// Valid files with a few changed bytes, which pass more checks than random ones.
    #[test]
    fn damaged_files(
        wide: bool,
        big: bool,
        linked: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        end in any::<prop::sample::Index>(),
        cut: bool,
        address: u64,
        at: u64,
    ) {
        let (kind, machine) = (if linked { 2 } else { 1 }, if wide { 183 } else { 40 });
        let builder = ElfBuilder { wide, big, kind, machine, segments: linked, ..ElfBuilder::default() };
        let mut bytes = builder.build();
        for (offset, value) in damage {
            let offset = offset.index(bytes.len());
            bytes[offset] = value;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        check(&bytes, address, at);
    }
}

/// Loads the bytes with and without an address and uses every accessor.
fn check(bytes: &[u8], address: u64, at: u64) {
    for address in [None, Some(address)] {
        let Ok(code) = from_bytes("x", &Bytes::from(bytes.to_vec()), address, &mut vec![]) else { continue };
        assert!(!code.to_string().is_empty());
        assert!(code.regions.iter().all(|region| !region.bytes.is_empty() && region.bytes.len() <= bytes.len()));
        let found = code.symbols.iter().filter(|symbol| symbol.size == 0).count();
        assert_eq!(found, 0);
        for address in [at, code.regions.first().map_or(0, Region::last)] {
            code.symbols.find(address);
            assert!(code.regions.iter().filter_map(|region| region.starting_at(address)).all(|rest| !rest.is_empty()));
        }
    }
}
