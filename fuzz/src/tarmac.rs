//! Tarmac logs, any bytes: lines, then an end or an error.
//!
//! Input: byte 0 selects whether Thumb is implied (bit 0) and how the rest is read: at once, or with small reads (bit 1).
//!
//! Checked: lines tile the log, and so do check_runs; each line is a record, or a problem with a text and a column in the line or
//! right after it; the slices of a record are in its line; a line that is parsed check_again is the same record; the size of reads
//! makes no difference.

use std::ops::ControlFlow;

use unspool_container::Container;
use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::read::{Position, ReadOptions, Reader, lines};
use unspool_tarmac::{Line, Record};

use crate::setup::SmallReads;

/// Maximum number of bytes that are read: a few bytes may decompress to gigabytes.
const MAX_BYTES: u64 = 1 << 22;

/// Checks all properties for these bytes.
pub fn check(data: &[u8]) {
    let Some((choice, log)) = data.split_first() else { return };
    let parse = ParseOptions { implicit_thumb: choice & 1 != 0 };
    let read_size = if choice & 2 != 0 { 1 + usize::from(choice >> 2) } else { usize::MAX };
    let Ok(mut reader) = Reader::new(SmallReads(log, read_size), ReadOptions { parse }) else { return };
    let container = reader.container();
    let mut found: Vec<(Position, Vec<u8>)> = Vec::new();
    let end = reader.each(|position, line| {
        check_line(line);
        found.push((position, line.raw.to_vec()));
        if position.offset < MAX_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Err(error) = &end {
        assert!(!error.to_string().is_empty());
    }
    if container == Container::Plain {
        assert!(!end.expect("memory"), "the log was not read to its end");
        check_tiles(log, &found);
        check_runs(log, parse);
        check_again(log, parse);
    }
}

/// The slices of a record are in its line.
fn check_line(line: &Line<'_>) {
    let inside = |part: &[u8]| {
        let (all, part) = (line.raw.as_ptr_range(), part.as_ptr_range());
        assert!(part.is_empty() || all.start <= part.start && part.end <= all.end, "{line:?}");
    };
    line.core.into_iter().for_each(inside);
    match &line.record {
        Record::Unknown(problem) => {
            assert!((1..=line.raw.len() + 1).contains(&(problem.column as usize)), "{line:?}");
            assert!(!problem.to_string().is_empty());
        }
        Record::Instruction(one) => [one.mode, one.text].into_iter().for_each(inside),
        Record::Register(one) => {
            [one.name, one.context, one.value.0, one.notes].into_iter().for_each(inside);
            assert!(one.value.width() > 0, "{line:?}");
            assert!(one.bits.is_none_or(|(high, low)| high >= low), "{line:?}");
        }
        Record::Access(one) | Record::Bus(one) | Record::Transfer(one) => {
            [one.tag, one.notes].into_iter().for_each(inside);
            let wanted = 2 * usize::from(one.size);
            assert!(one.data.is_none_or(|data| data.width() >= wanted), "{line:?}");
        }
        _ => {}
    }
}

/// Each line starts where the one before ends, with only a line end between them.
fn check_tiles(log: &[u8], found: &[(Position, Vec<u8>)]) {
    let (mut offset, mut line) = (0, 1);
    for (position, raw) in found {
        assert_eq!((position.offset as usize, position.line), (offset, line));
        assert!(log[offset..].starts_with(raw));
        offset += raw.len();
        if let Some(end) = [&b"\r\n"[..], b"\n"].into_iter().find(|end| log[offset..].starts_with(end)) {
            (offset, line) = (offset + end.len(), line + 1);
        }
    }
    assert_eq!(offset, log.len());
}

/// Runs tile the log.
fn check_runs(log: &[u8], parse: ParseOptions) {
    let mut copy = Vec::new();
    let mut reader = Reader::new(log, ReadOptions { parse }).expect("memory");
    let more = reader.each_run(|position, run| {
        assert_eq!(position.offset, copy.len() as u64);
        copy.extend_from_slice(run);
        ControlFlow::Continue(())
    });
    assert!(!more.expect("memory") && copy == log);
}

/// A line alone is the same record as among others, unless it continues a picture.
fn check_again(log: &[u8], parse: ParseOptions) {
    let mut parser = Parser::new(parse);
    for (_, raw) in lines(log) {
        let line = parser.parse(raw);
        let is_continued = matches!(&line.record, Record::Picture(picture) if picture.is_continuation);
        if !is_continued && !matches!(line.record, Record::Unknown(_)) {
            assert_eq!(line, Parser::new(parse).parse(raw));
        }
    }
}
