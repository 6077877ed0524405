//! Every byte of the example's trace, spoilt one at a time.

use std::fs;

use super::{example_copy, text, unspool};

/// All bits of a byte, or one that differs from byte to byte.
const FLIPS: [fn(usize) -> u8; 2] = [|_| 0xff, |at| 1 << (at % 8)];

/// Where the second half of the frames starts: they name their source anew, and it synchronises anew.
const SECOND_HALF: usize = 0x80;

#[test]
fn a_spoilt_byte_is_survived() {
    let dir = example_copy();
    let file = dir.path().join("trace.bin");
    let bytes = fs::read(&file).unwrap();
    assert_eq!(bytes.len(), 192);
    let mut told = 0;
    for (flip, at) in FLIPS.iter().flat_map(|flip| (0..bytes.len()).map(move |at| (flip, at))) {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= flip(at);
        fs::write(&file, spoilt).unwrap();
        let run = unspool(&["elements", "--committed", text(dir.path())]);
        assert!(matches!(run.code, 0 | 1), "byte {at:#x}: {run:?}");
        assert!(run.code == 0 || !run.err.is_empty(), "byte {at:#x}: a problem that nobody told");
        assert!(at >= SECOND_HALF || run.out.contains("\n0x000000be  event 0\n"), "byte {at:#x}: {run:?}");
        told += run.code;
        let run = unspool(&["decode", text(dir.path())]);
        assert!(matches!(run.code, 0 | 1) && run.err.contains(" instruction"), "byte {at:#x}: {run:?}");
        assert!(at >= SECOND_HALF || run.out.contains("\n-- event 0\n"), "byte {at:#x}: {run:?}");
    }
    // Many spoilt bytes are another address or time, which nobody can know. Of the headers, many can.
    assert!(told > 100, "{told} of {}", 2 * bytes.len());
}

#[test]
fn a_frame_that_cannot_be_is_told_by_every_verb() {
    let dir = example_copy();
    let file = dir.path().join("trace.bin");
    let mut bytes = fs::read(&file).unwrap();
    // An id where data was, and one that is reserved. What the frame holds is lost, whose ever it was.
    bytes[0x98] = 0xff;
    fs::write(&file, bytes).unwrap();
    let path = text(dir.path());
    for verb in ["packets", "elements"] {
        let words =
            ["ETE_0: 1 problem, 16 bytes skipped", "ETE_1: 1 problem", "trace.bin at 0x90: reserved trace id 0x7f"];
        let run = unspool(&[verb, path]).expect(1, &words);
        assert!(!run.out.contains("event 0"), "{}", run.out);
        unspool(&[verb, path, "--limit", "10"]).clean();
    }
    let run = unspool(&["frames", path]).expect(1, &["TMC_0: 16 bytes in 1 stretch belong to no frame"]);
    assert!(run.out.contains("\n0x00000090  ! reserved trace id 0x7f in a frame, 16 bytes skipped\n"), "{}", run.out);
    let stream = dir.path().join("stream");
    unspool(&["frames", path, "--stream", "0x10", "-o", text(&stream)]).expect(1, &["16 bytes belong to no frame"]);
    assert_eq!(fs::read(&stream).unwrap().len(), 115 - 15);
    let page = unspool(&["info", path]).expect(1, &[]).out;
    assert!(page.contains("16 bytes belong to no frame"), "{page}");
}
