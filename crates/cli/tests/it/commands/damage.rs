//! Every byte of the example's trace, damaged one at a time.

use std::fs;

use super::example_copy;
use crate::run::{text, unspool};

/// All bits of a byte, or one that differs from byte to byte.
const FLIPS: [fn(usize) -> u8; 2] = [|_| 0xff, |at| 1 << (at % 8)];

/// Offset of the second half of the frames, which repeat their source and synchronize again.
const SECOND_HALF: usize = 0x80;

#[test]
fn any_damaged_byte_is_survived() {
    let folder = example_copy();
    let file = folder.path("trace.bin");
    let bytes = fs::read(&file).unwrap();
    assert_eq!(bytes.len(), 192);
    let mut reported = 0;
    for (flip, at) in FLIPS.iter().flat_map(|flip| (0..bytes.len()).map(move |at| (flip, at))) {
        let mut damaged = bytes.clone();
        damaged[at] ^= flip(at);
        fs::write(&file, damaged).unwrap();
        let run = unspool(&["elements", "--committed", text(folder.root())]);
        assert!(matches!(run.code, 0 | 1), "byte {at:#x}: {run:?}");
        assert!(run.code == 0 || !run.err.is_empty(), "byte {at:#x}: no message");
        assert!(at >= SECOND_HALF || run.out.contains("\n0x000000be  event 0\n"), "byte {at:#x}: {run:?}");
        reported += run.code;
        let run = unspool(&["decode", text(folder.root())]);
        assert!(matches!(run.code, 0 | 1) && run.err.contains(" instruction"), "byte {at:#x}: {run:?}");
        assert!(at >= SECOND_HALF || run.out.contains("\n-- event 0\n"), "byte {at:#x}: {run:?}");
    }
    // Damage in addresses and times cannot be detected, damage in many headers can.
    assert!(reported > 100, "{reported} of {}", 2 * bytes.len());
}

#[test]
fn an_invalid_frame_is_reported_by_every_verb() {
    let folder = example_copy();
    let file = folder.path("trace.bin");
    let mut bytes = fs::read(&file).unwrap();
    // A reserved id in place of data: the whole frame is lost.
    bytes[0x98] = 0xff;
    fs::write(&file, bytes).unwrap();
    let path = text(folder.root());
    for verb in ["packets", "elements"] {
        let words = ["frames of TMC_0: 1 problem, 16 bytes skipped", "trace.bin at 0x90: reserved trace id 0x7f"];
        let run = unspool(&[verb, path]).expect(1, &words);
        // Both sources have lost this frame.
        assert_eq!(run.err.matches("1 problem").count(), 1, "{}", run.err);
        assert!(!run.out.contains("event 0"), "{}", run.out);
        unspool(&[verb, path, "--limit", "10"]).clean();
    }
    unspool(&["frames", path])
        .expect(1, &["TMC_0: 16 bytes in 1 range belong to no frame"])
        .shows(&["\n0x00000090  ! reserved trace id 0x7f in a frame, 16 bytes skipped\n"]);
    let stream = folder.path("stream");
    unspool(&["frames", path, "--stream", "0x10", "-o", text(&stream)]).expect(1, &["16 bytes belong to no frame"]);
    assert_eq!(fs::read(&stream).unwrap().len(), 115 - 15);
    unspool(&["info", path]).expect(1, &[]).shows(&["16 bytes belong to no frame"]);
}

#[test]
fn an_invalid_frame_is_reported_once() {
    let folder = example_copy();
    let file = folder.path("trace.bin");
    let mut bytes = fs::read(&file).unwrap();
    bytes[0x98] = 0xff;
    fs::write(&file, bytes).unwrap();
    let path = text(folder.root());
    // The buffer has two sources, and each has lost this frame.
    let what = "reserved trace id 0x7f";
    let rows: &[&[&str]] = &[
        &["packets", path],
        &["elements", path],
        &["decode", path],
        &["decode", path, "--by", "time"],
        &["decode", path, "--emit", "ranges", "-j2"],
        &["check", path],
        &["info", path],
        &["frames", path],
    ];
    for (row, format) in rows.iter().flat_map(|row| [&[][..], &["--json"]].map(|format| (row, format))) {
        let run = unspool(&[*row, format].concat()).expect(1, &[]);
        let count = run.out.matches(what).count() + run.err.matches(what).count();
        assert_eq!(count, 1, "{row:?} {format:?}: {run:?}");
    }
    let totals = unspool(&["decode", path, "--json"]).json_summary();
    assert_eq!(totals["lost"], 16, "{totals}");
}
