//! Frames: cuts make no difference, spans lie in the buffer in order, and what was formatted comes back.
//!
//! Input: byte 0 is the layout (bit 0), how the formatter synchronises (bits 1 to 3) and whether the buffer is repeated
//! until lost frames are searched for (bits 4 to 7 all set), byte 1 is how to cut; the rest is a buffer for the
//! deformatter, and then once more a list of (id, length, bytes) for the formatter.

use std::collections::BTreeMap;

use unspool_coresight::frame::{
    Deformatter, FSYNC, FrameSink, Formatter, HSYNC, ID_FLUSH, ID_LAST, ID_NULL, ID_TRIGGER, Layout, Mark, Span, Stream,
};

use crate::setup::{byte, pieces};

/// Holds every promise of the room against these bytes.
pub fn check(mut data: &[u8]) {
    let (how, cut) = (byte(&mut data), byte(&mut data));
    let layout = if how & 1 == 0 { Layout::FromStart } else { Layout::FromFullSync };
    let repeated = how & REPEAT == REPEAT && !data.is_empty();
    let buffer = if repeated { data.repeat(LONG.div_ceil(data.len())) } else { data.to_vec() };
    let whole = deformat(layout, [&buffer[..]].into_iter());
    assert_eq!(deformat(layout, pieces(&buffer, cut)), whole, "cut into pieces, the buffer says something else");
    check_places(&buffer, &whole);
    if !repeated {
        check_streams(layout, data, cut, &whole);
        check_formatter(data, usize::from(how >> 1 & 7));
    }
}

/// The flags that ask for a repeated buffer, and how long that is.
const REPEAT: u8 = 0xf0;
const LONG: usize = 24 << 10;
/// How many bytes a deformatter keeps: where frames start is searched for in 8 kB, and they may end in a long frame.
const MOST_WAITING: u64 = (8 << 10) + 64;

/// What a deformatter tells, with the bytes that it lends.
#[derive(Debug, PartialEq)]
enum Told {
    Span { id: u8, offset: u64, bytes: Vec<u8> },
    Mark(Mark),
}

#[derive(Default)]
struct Listener(Vec<Told>);

impl FrameSink for Listener {
    fn span(&mut self, Span { id, offset, bytes }: Span<'_>) {
        self.0.push(Told::Span { id, offset, bytes: bytes.to_vec() });
    }

    fn mark(&mut self, mark: Mark) {
        self.0.push(Told::Mark(mark));
    }
}

fn deformat<'a>(layout: Layout, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Told> {
    let mut deformatter = Deformatter::new(layout);
    let mut listener = Listener::default();
    let mut given = 0;
    for piece in pieces {
        deformatter.push(piece, &mut listener);
        given += piece.len() as u64;
        let waiting = given.checked_sub(deformatter.offset()).expect("more was understood than was given");
        assert!(waiting < MOST_WAITING, "{waiting} bytes wait for the rest of a frame");
    }
    deformatter.finish(&mut listener);
    assert_eq!(deformatter.offset(), given, "bytes were left over");
    listener.0
}

/// Spans rise, lie in the buffer and are its bytes but for the lowest bit; nothing is accounted for twice.
fn check_places(data: &[u8], told: &[Told]) {
    let (mut end, mut accounted) = (0, 0);
    for told in told {
        accounted += match told {
            Told::Span { id, offset, bytes } => {
                assert!((ID_NULL + 1..=ID_LAST).contains(id), "{told:?} is of no source");
                assert!(*offset >= end, "{told:?} starts before {end}");
                let from = &data[*offset as usize..][..bytes.len()];
                assert!(from.iter().zip(bytes).all(|(a, b)| (a ^ b) & 0xfe == 0), "{told:?} is not in the buffer");
                end = offset + bytes.len() as u64;
                bytes.len() as u64
            }
            Told::Mark(Mark::Lost(error)) => {
                assert!(error.offset >= end && error.skipped > 0, "{told:?} starts before {end} or is nothing");
                end = error.offset + error.skipped;
                error.skipped
            }
            Told::Mark(Mark::FullSync { offset }) => {
                assert_eq!(data[*offset as usize..][..FSYNC.len()], FSYNC, "{told:?}");
                assert!(*offset >= end, "{told:?} starts before {end}");
                FSYNC.len() as u64
            }
            Told::Mark(Mark::HalfSync { offset }) => {
                assert_eq!(data[*offset as usize..][..HSYNC.len()], HSYNC, "{told:?}");
                HSYNC.len() as u64
            }
            Told::Mark(Mark::Trigger { .. } | Mark::Flush { .. }) => 1,
            Told::Mark(_) => 0,
        };
    }
    assert!(end.max(accounted) <= data.len() as u64, "{accounted} bytes of {} told, up to {end}", data.len());
}

/// A stream gives the bytes of its id, and knows the place of each, however it is read.
fn check_streams(layout: Layout, data: &[u8], cut: u8, told: &[Told]) {
    let mut sources: BTreeMap<u8, Vec<(u64, u8)>> = BTreeMap::new();
    for told in told {
        if let Told::Span { id, offset, bytes } = told {
            sources.entry(*id).or_default().extend((*offset..).zip(bytes.iter().copied()));
        }
    }
    for (&id, expected) in sources.iter().take(4) {
        let mut stream = Stream::new(id);
        let mut deformatter = Deformatter::new(layout);
        let mut expected = expected.iter();
        for piece in pieces(data, cut) {
            deformatter.push(piece, &mut stream);
            // Leaves some bytes in the window now and then.
            let count = stream.bytes().len().saturating_sub(usize::from(piece[0] & 3));
            read(&mut stream, count, &mut expected);
        }
        deformatter.finish(&mut stream);
        read(&mut stream, usize::MAX, &mut expected);
        assert_eq!(expected.next(), None, "the stream of {id:#x} ends too early");
    }
}

fn read<'a>(stream: &mut Stream, count: usize, expected: &mut impl Iterator<Item = &'a (u64, u8)>) {
    let bytes: Vec<u8> = stream.bytes().iter().copied().take(count).collect();
    for (position, byte) in (stream.start()..).zip(bytes.iter().copied()) {
        let found = (stream.buffer_offset(position), byte);
        assert_eq!(Some(&found), expected.next(), "byte {position} of the stream");
    }
    stream.consume(bytes.len());
    while stream.next_break().is_some_and(|at| at <= stream.start()) {
        stream.pass_break();
    }
}

/// What is put into frames comes out of them, in the same order.
fn check_formatter(mut data: &[u8], full_sync_every: usize) {
    let mut formatter =
        if full_sync_every == 0 { Formatter::new() } else { Formatter::with_full_sync(full_sync_every) };
    let mut frames = Vec::new();
    let mut expected = Vec::new();
    while !data.is_empty() {
        let (id, length) = (byte(&mut data), usize::from(byte(&mut data) & 0x3f));
        let (bytes, rest) = data.split_at(length.min(data.len()));
        data = rest;
        match (id, id & 0x7f) {
            (0x80, _) => {
                formatter.barrier();
                expected.push((None, 0));
            }
            (0x81, _) => frames.extend(formatter.take()),
            (_, id) if id <= ID_LAST || id == ID_TRIGGER || id == ID_FLUSH => {
                formatter.push(id, bytes);
                // A mark says where it stands, not what byte made it.
                let kept = |byte: u8| if id <= ID_LAST { byte } else { 0 };
                expected.extend(bytes.iter().filter(|_| id != ID_NULL).map(|&byte| (Some(id), kept(byte))));
            }
            _ => {}
        }
    }
    frames.extend(formatter.finish());
    let found: Vec<(Option<u8>, u8)> =
        deformat(Layout::FromStart, [&frames[..]].into_iter()).iter().flat_map(said).collect();
    assert_eq!(found, expected, "frames do not give back what was put in");
    if full_sync_every > 0 {
        let synced = deformat(Layout::FromFullSync, [&frames[..]].into_iter());
        assert!(synced.iter().flat_map(said).eq(expected), "nor do they after a full synchronisation");
    }
}

/// The ids and bytes that were told; a barrier has no id.
fn said(told: &Told) -> Vec<(Option<u8>, u8)> {
    match told {
        Told::Span { id, bytes, .. } => bytes.iter().map(|&byte| (Some(*id), byte)).collect(),
        Told::Mark(Mark::Trigger { .. }) => vec![(Some(ID_TRIGGER), 0)],
        Told::Mark(Mark::Flush { .. }) => vec![(Some(ID_FLUSH), 0)],
        Told::Mark(Mark::Barrier { .. }) => vec![(None, 0)],
        Told::Mark(Mark::Lost(error)) => panic!("a frame of our own is damaged: {error}"),
        Told::Mark(_) => Vec::new(),
    }
}
