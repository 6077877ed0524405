//! Source lines of programs in `testdata/lines`, compared with GNU addr2line (`make.sh` there).
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use unspool::Program;
use unspool::capture::{Code, ImageSearch};
use unspool::flow::MapId;
use unspool::lines::{Frame, Lines};
use unspool_testing::repository;

fn file(name: &str) -> PathBuf {
    repository("testdata/lines").join(name)
}

fn program(path: &Path, address: Option<u64>) -> Program {
    Program::new(vec![Code::from_file(path, address).unwrap().0])
}

/// Function and position of each frame, innermost first.
fn text(frames: &[Frame]) -> String {
    let one = |frame: &Frame| {
        let position = frame.position.as_ref().map_or("??:0".into(), ToString::to_string);
        format!("{} {position}", frame.function.as_deref().unwrap_or("??"))
    };
    frames.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Addresses and frames, as addr2line lists them.
fn expected(name: &str) -> Vec<(u64, String)> {
    let list = fs::read_to_string(file(name)).unwrap();
    let row = |line: &str| {
        let (address, frames) = line.split_once(' ').unwrap();
        (u64::from_str_radix(address.strip_prefix("0x").unwrap(), 16).unwrap(), frames.to_string())
    };
    list.lines().map(row).collect()
}

#[track_caller]
fn assert_lines(program: &Program, lines: &Lines, expected: &[(u64, String)]) {
    assert!(expected.len() > 30);
    for (address, frames) in expected {
        assert_eq!(text(&lines.find(program, MapId::ONLY, *address)), *frames, "{address:#x}");
    }
    assert_eq!(lines.take_notes(), []);
}

#[test]
fn lines_and_inlined_calls_are_those_of_addr2line() {
    for name in ["shapes", "shapes-t32"] {
        assert_lines(&program(&file(name), None), &Lines::default(), &expected(&format!("{name}.expected")));
    }
}

/// The functions are in another file: the object (`.dwo`) beside the program, of DWARF 4 and 5, or the package (`.dwp`).
#[test]
fn split_debug_information_has_the_same_lines() {
    let rows = expected("shapes.expected");
    let first = |program: &Program| program.functions("never").next().unwrap().start;
    let whole = first(&program(&file("shapes"), None));
    let dir = TempDir::new().unwrap();
    for name in ["shapes-split4", "shapes-split4.dwp"] {
        fs::copy(file(name), dir.path().join(name)).unwrap();
    }
    for path in [file("shapes-split"), file("shapes-split4"), dir.path().join("shapes-split4")] {
        let split = program(&path, None);
        let bias = first(&split).wrapping_sub(whole);
        let moved: Vec<_> = rows.iter().map(|(at, frames)| (at.wrapping_add(bias), frames.clone())).collect();
        assert_lines(&split, &Lines::default(), &moved);
    }
    // Without the other file, there are lines but no functions.
    let alone = TempDir::new().unwrap();
    fs::copy(file("shapes-split"), alone.path().join("shapes-split")).unwrap();
    let alone = program(&alone.path().join("shapes-split"), None);
    assert_eq!(text(&Lines::default().find(&alone, MapId::ONLY, first(&alone))), "?? /src/shapes.c:9");
}

/// Debug information in a file of its own, which is compressed: named by the program, or found by its build ID.
#[test]
fn separate_debug_files_are_found() {
    let rows = expected("shapes.expected");
    let stripped = file("shapes-stripped");
    assert_lines(&program(&stripped, None), &Lines::default(), &rows);
    let dir = TempDir::new().unwrap();
    let copy = dir.path().join("copy");
    fs::copy(&stripped, &copy).unwrap();
    let alone = program(&copy, None);
    assert!(Lines::default().find(&alone, MapId::ONLY, rows[0].0).is_empty());
    let by_id = dir.path().join("debug/.build-id/01");
    fs::create_dir_all(&by_id).unwrap();
    fs::copy(file("shapes.debug"), by_id.join("02030405060708.debug")).unwrap();
    let search = ImageSearch { debug_dirs: vec![dir.path().join("debug")], ..ImageSearch::default() };
    assert_lines(&alone, &Lines::new(search), &rows);
    // The same file, named by the user.
    let codes =
        vec![Code::from_file(&copy, None).unwrap().0, Code::names_from_file(file("shapes.debug"), None).unwrap().0];
    assert_lines(&Program::new(codes), &Lines::default(), &rows);
}

#[test]
fn lines_move_with_the_program() {
    let rows = expected("shapes.expected");
    let moved: Vec<_> = rows.into_iter().map(|(address, frames)| (address + 0x10_0000, frames)).collect();
    assert_lines(&program(&file("shapes"), Some(0x50_0000)), &Lines::default(), &moved);
}

#[test]
fn a_program_without_debug_information_has_no_lines() {
    let lines = Lines::default();
    let hello = program(&repository("examples/hello-qemu/hello"), None);
    let start = hello.functions("_start").next().unwrap().start;
    assert_eq!((lines.find(&hello, MapId::ONLY, start).len(), lines.take_notes().len()), (0, 0));
}

#[test]
fn ranges_of_lines_cover_the_code() {
    let code = Code::from_file(file("shapes"), None).unwrap().0;
    let (lines, rows) = (Lines::default(), expected("shapes.expected"));
    let ranges = lines.ranges(&code);
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
    for (address, frames) in rows {
        let range = ranges.iter().find(|range| (range.start..range.end).contains(&address)).unwrap();
        let position = range.position.as_ref().unwrap().to_string();
        assert!(frames.split(' ').nth(1) == Some(position.as_str()), "{address:#x} {frames} {position}");
    }
}

#[test]
fn damage_is_noted() {
    let mut bytes = fs::read(file("shapes")).unwrap();
    let name = bytes.windows(8).position(|text| text == b"shapes.c").unwrap();
    let code = Code::from_file(file("shapes"), None).unwrap().0;
    // Abbreviations that do not exist: all of the units is unreadable.
    let info = unspool::capture::ElfSections::new(&bytes.clone().into()).unwrap().section(".debug_info").unwrap();
    let at = bytes.windows(info.len()).position(|part| part == &info[..]).unwrap();
    bytes[at + 12..at + info.len()].fill(0x7f);
    let damaged = Code { elf: Some(bytes.into()), ..code };
    let (program, lines) = (Program::new(vec![damaged]), Lines::default());
    assert!(name > 0 && lines.find(&program, MapId::ONLY, 0x40_0140).is_empty());
    let notes = lines.take_notes();
    assert!(notes[0].text.starts_with("debug information is damaged"), "{notes:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any damage: lines may be missing or others, and nothing panics.
    #[test]
    fn damaged_debug_information(changes in prop::collection::vec((0_usize..5112, any::<u8>()), 1..20), t32: bool, cut in 0_usize..6000) {
        let name = if t32 { "shapes-t32" } else { "shapes" };
        let mut bytes = fs::read(file(name)).unwrap();
        for (at, byte) in changes {
            if let Some(found) = bytes.get_mut(at) {
                *found = byte;
            }
        }
        bytes.truncate(cut.max(0x400));
        let code = Code::from_file(file(name), None).unwrap().0;
        let code = Code { elf: Some(bytes.into()), ..code };
        let lines = Lines::default();
        for range in lines.ranges(&code) {
            prop_assert!(range.start < range.end);
        }
        let (first, last) = (code.regions[0].address, code.regions[0].last());
        let program = Program::new(vec![code]);
        for address in (first..last).step_by(2) {
            let frames = lines.find(&program, MapId::ONLY, address);
            prop_assert!(frames.len() < 100);
        }
    }
}
