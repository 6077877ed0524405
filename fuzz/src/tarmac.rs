//! Tarmac logs, any bytes: every one is lines, then an end or an error.
//!
//! Input: byte 0 chooses whether Thumb is implied (bit 0) and how the rest is read: in one piece, or in drops (bit 1).
//!
//! Held against it: lines tile the log, and so do runs; each line is a record, or a problem with a column in the line or
//! right behind it, and with words; a slice that a record holds is one of its line; the same line is the same record when
//! it is read again; drops and pieces make no difference.

use std::io::{self, Read};
use std::ops::{ControlFlow, Range};

use unspool_container::Container;
use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::read::{Position, ReadOptions, Reader, lines};
use unspool_tarmac::{Line, Record};

/// More bytes than this are not read: a few bytes may be gigabytes.
const MOST: u64 = 1 << 22;

/// Holds the promises against these bytes.
pub fn check(data: &[u8]) {
    let Some((choice, log)) = data.split_first() else { return };
    let parse = ParseOptions { implicit_thumb: choice & 1 != 0 };
    let drops = if choice & 2 != 0 { 1 + usize::from(choice >> 2) } else { usize::MAX };
    let Ok(mut reader) = Reader::new(Drops(log, drops), ReadOptions { parse }) else { return };
    let container = reader.container();
    let mut found: Vec<(Position, Vec<u8>)> = Vec::new();
    let end = reader.each(|position, line| {
        understood(line);
        found.push((position, line.raw.to_vec()));
        if position.offset < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Err(error) = &end {
        assert!(!error.to_string().is_empty());
    }
    if container == Container::Plain {
        assert!(!end.expect("memory"), "not all was read");
        tiled(log, &found);
        runs(log, parse);
        again(log, parse);
    }
}

/// A record holds what its line has.
fn understood(line: &Line<'_>) {
    let inside = |part: &[u8]| {
        let (all, part) = (line.raw.as_ptr_range(), part.as_ptr_range());
        assert!(part.is_empty() || within(&all, &part), "{line:?}");
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

fn within<T: PartialOrd>(all: &Range<T>, part: &Range<T>) -> bool {
    all.start <= part.start && part.end <= all.end
}

/// Each line starts where the one before ends, and between them is nothing but an end.
fn tiled(log: &[u8], found: &[(Position, Vec<u8>)]) {
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

/// Runs are the log.
fn runs(log: &[u8], parse: ParseOptions) {
    let mut copy = Vec::new();
    let mut reader = Reader::new(log, ReadOptions { parse }).expect("memory");
    let more = reader.each_run(|position, run| {
        assert_eq!(position.offset, copy.len() as u64);
        copy.extend_from_slice(run);
        ControlFlow::Continue(())
    });
    assert!(!more.expect("memory") && copy == log);
}

/// A line by itself is what it is among others, unless it goes on with a picture.
fn again(log: &[u8], parse: ParseOptions) {
    let mut parser = Parser::new(parse);
    for (_, raw) in lines(log) {
        let line = parser.parse(raw);
        let is_continued = matches!(&line.record, Record::Picture(picture) if picture.is_continuation);
        if !is_continued && !matches!(line.record, Record::Unknown(_)) {
            assert_eq!(line, Parser::new(parse).parse(raw));
        }
    }
}

/// Bytes, no more than so many at a time.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.0.len().min(room.len()).min(self.1);
        room[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}
