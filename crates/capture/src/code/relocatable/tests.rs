//! Modules: where sections are, where branches lead, and what is left out.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::elf_builder::{ElfBuilder, FUNC, GLOBAL};
use super::super::image_file::ImageFile;
use super::*;

const BASE: u64 = 0xffff_8000_0100_0000;
const JUMP: u32 = 282;
const CALL: u32 = 283;

const B: [u8; 4] = [0, 0, 0, 0x14];
const BL: [u8; 4] = [0, 0, 0, 0x94];
const NOP: [u8; 4] = [0x1f, 0x20, 0x03, 0xd5];

/// A module: `.text` with three branches, `.text.far` and `.init.text`.
///
/// `f` calls `g` of `.text.far` and the undefined `printk`, and branches to itself through its section.
fn module() -> ElfBuilder {
    let text = [NOP, BL, BL, B].concat();
    ElfBuilder {
        kind: 1,
        segments: false,
        code: vec![(0, 4, text), (0, 4, [NOP; 4].concat()), (0, 4, [BL, NOP].concat())],
        names: vec![".text", ".text.far", ".init.text"],
        symbols: vec![
            ("f", 0, 16, GLOBAL | FUNC, 1),
            ("g", 8, 8, GLOBAL | FUNC, 2),
            ("printk", 0, 0, GLOBAL, 0),
            ("start", 0, 8, GLOBAL | FUNC, 3),
        ],
        relocations: vec![(1, 4, CALL, 2, 0), (1, 8, CALL, 3, 0), (1, 12, JUMP, 1, 4), (3, 0, CALL, 1, 0)],
        ..ElfBuilder::default()
    }
}

/// Regions and notes of a module that is loaded at the base.
fn place(builder: &ElfBuilder, list: &str) -> (Code, Vec<String>) {
    let file = ImageFile::new("m.ko", builder.build().into(), None);
    let list = (!list.is_empty()).then(|| Kallsyms::parse("kallsyms", list.into()));
    let (code, notes) = file.place_module(BASE, "/lib/modules/m.ko", list.as_ref());
    (code, notes.into_iter().map(|note| note.text).collect())
}

/// Address minus base, and words.
fn words(code: &Code) -> Vec<(u64, Vec<u32>)> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let region = |region: &Region| (region.address - BASE, region.bytes.chunks_exact(4).map(word).collect());
    code.regions.iter().map(region).collect()
}

#[test]
fn branches_lead_to_their_targets() {
    let (code, notes) = place(&module(), "");
    // `.text.far` is 16 bytes after `.text`, so `g` is at 24 and 5 words after the call; the last one leads to 4. The call of
    // `printk` has no target and is left out, and so is `.init.text`.
    let nop = 0xd503_201f;
    let expected = vec![(0, vec![nop, 0x9400_0005]), (12, vec![0x17ff_fffe]), (16, vec![nop; 4])];
    assert_eq!(words(&code), expected);
    let expected = [
        "no function of 2 of its sections is in the list of kernel symbols: their distance in the file is assumed",
        "1 of its sections are memory for the start of the module, whose address is not known",
        "the targets of 1 branches are not known; these instructions are left out of the code",
    ];
    assert_eq!(notes, expected);
    assert_eq!((code.symbols.find(BASE + 12), code.symbols.find(BASE + 26)), (Some(("f", 12)), Some(("g", 2))));
    assert_eq!((code.symbols.len(), code.bias, code.is_unplaced), (2, 0, false));
}

#[test]
fn the_kernel_places_sections_and_knows_targets() {
    let at = |distance: u64| BASE + distance;
    let list = format!(
        "{:x} T printk\n{:x} t f\t[m]\n{:x} t g\t[m]\n{:x} t start\t[m]\n{:x} T f\n",
        at(0x100_0000),
        at(0x40),
        at(0x1008),
        at(0x2000),
        at(0x10),
    );
    let (code, notes) = place(&module(), &list);
    assert_eq!(notes, [""; 0]);
    let (call_g, call_printk) = (0x9400_0000 + (0x1008 - 0x44) / 4, 0x9400_0000 + (0x100_0000 - 0x48) / 4);
    // Back from 0x2000 to `f` at 0x40.
    let call_f = 0x9400_0000 | (0x400_0000 - (0x2000 - 0x40) / 4);
    let nop = 0xd503_201f;
    let expected =
        vec![(0x40, vec![nop, call_g, call_printk, 0x17ff_fffe]), (0x1000, vec![nop; 4]), (0x2000, vec![call_f, nop])];
    assert_eq!(words(&code), expected);
    assert_eq!(code.symbols.find(at(0x2004)), Some(("start", 4)));
}

#[test]
fn targets_that_are_not_certain_are_left_out() {
    let nop = 0xd503_201f;
    let far = BASE + 0x1000_0000;
    let near = BASE + 0x1000;
    let rows = [
        ("out of reach: the kernel makes a veneer", format!("{far:x} T printk\n")),
        ("not exported", format!("{near:x} t printk\n")),
        ("two functions of this name", format!("{near:x} T printk\n{:x} T printk\t[other]\n", near + 4)),
        ("data", format!("{near:x} D printk\n")),
        ("not a multiple of four", format!("{:x} T printk\n", near + 2)),
    ];
    for (name, list) in rows {
        let (code, notes) = place(&module(), &list);
        assert_eq!(words(&code)[..2], [(0, vec![nop, 0x9400_0005]), (12, vec![0x17ff_fffe])], "{name}");
        assert!(notes.iter().any(|note| note.starts_with("the targets of 1 branches")), "{name}: {notes:?}");
    }
    let (code, _) = place(&module(), &format!("{near:x} T printk\n"));
    assert_eq!(words(&code)[0].1.len(), 4, "the same function, once and in reach");
    // The relocation is not for the instruction that is there, is after the section, or is given twice.
    let odd =
        |relocation| ElfBuilder { relocations: vec![relocation, (1, 8, CALL, 1, 0), (1, 12, CALL, 1, 0)], ..module() };
    assert_eq!(words(&place(&odd((1, 0, CALL, 1, 0)), "").0)[0].0, 4);
    assert_eq!(words(&place(&odd((1, 16, CALL, 1, 0)), "").0)[0].1.len(), 4);
    let unaligned: Vec<u64> = words(&place(&odd((1, 2, CALL, 1, 0)), "").0).iter().map(|(start, _)| *start).collect();
    assert_eq!(unaligned, [0, 6, 16]);
    assert_eq!(words(&place(&odd((1, 8, CALL, 2, 0)), "").0)[0].1.len(), 2);
}

#[test]
fn other_machines_have_no_code_where_relocations_are() {
    let (code, notes) = place(&ElfBuilder { machine: 62, ..module() }, "");
    assert_eq!(words(&code), [(16, vec![0xd503_201f; 4])]);
    assert!(
        notes.contains(&"1 of its sections are not used: relocations of x86-64 are not supported".to_string()),
        "{notes:?}"
    );
}

#[test]
fn opcodes_of_branches() {
    let (jump, conditional, test) = (elf::R_AARCH64_JUMP26, elf::R_AARCH64_CONDBR19, elf::R_AARCH64_TSTBR14);
    let rows = [
        ("b", 0x1400_0000, jump, 8, Some(0x1400_0002)),
        ("bl back", 0x9400_0000, elf::R_AARCH64_CALL26, -4, Some(0x97ff_ffff)),
        ("an addend in the opcode is replaced", 0x9400_0123, jump, 4, Some(0x9400_0001)),
        ("bl, farthest", 0x9400_0000, jump, (128 << 20) - 4, Some(0x95ff_ffff)),
        ("bl, too far", 0x9400_0000, jump, 128 << 20, None),
        ("bl, farthest back", 0x9400_0000, jump, -(128 << 20), Some(0x9600_0000)),
        ("bl, too far back", 0x9400_0000, jump, -(128 << 20) - 4, None),
        ("b.eq", 0x5400_0000, conditional, 0x10, Some(0x5400_0080)),
        ("cbnz x1", 0xb500_0001, conditional, -8, Some(0xb5ff_ffc1)),
        ("b.eq, too far", 0x5400_0000, conditional, 1 << 20, None),
        ("tbz w2, 3", 0x3618_0002, test, 0x20, Some(0x3618_0102)),
        ("tbz, too far", 0x3600_0000, test, 32 << 10, None),
        ("unaligned", 0x1400_0000, jump, 2, None),
        ("nop", 0xd503_201f, jump, 4, None),
        ("b.eq as b", 0x5400_0000, jump, 4, None),
    ];
    for (name, opcode, kind, distance, expected) in rows {
        assert_eq!(branch_opcode(opcode, kind, distance), expected, "{name}");
    }
}

proptest! {
    /// Damaged modules never panic, and no region has bytes that the file does not have room for.
    #[test]
    fn damaged(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..16),
        end in any::<prop::sample::Index>(),
        cut: bool,
        wide: bool,
        big: bool,
    ) {
        let relocations = if wide { module().relocations } else { vec![] };
        let mut bytes = ElfBuilder { wide, big, relocations, ..module() }.build();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        let size = bytes.len();
        let list = Kallsyms::parse("k", format!("{BASE:x} T printk\n{BASE:x} t f\t[m]\n").into());
        for list in [None, Some(&list)] {
            let (code, _) = ImageFile::new("m.ko", bytes.clone().into(), None).place_module(BASE, "m", list);
            prop_assert!(code.regions.iter().all(|region| region.bytes.len() <= size));
        }
    }
}
