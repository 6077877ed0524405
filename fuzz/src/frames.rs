//! Frames: chunk sizes make no difference, spans are in order in the buffer, and formatted bytes survive a round trip.
//!
//! Input: byte 0 selects the layout (bit 0), how often the formatter synchronizes (bits 1 to 3) and whether the buffer is
//! repeated until lost frames are searched for (bits 4 to 7 all set), byte 1 the chunk sizes; the rest is a buffer for the
//! deformatter, and also a list of (id, length, bytes) for the formatter.

use std::collections::BTreeMap;

use unspool_coresight::frame::{
    Deformatter, FSYNC, Formatter, FrameSink, HSYNC, ID_FLUSH, ID_LAST, ID_NULL, ID_TRIGGER, Layout, Mark, Span, Stream,
};

use crate::setup::{byte, chunks};

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let (how, cut) = (byte(&mut data), byte(&mut data));
    let layout = if how & 1 == 0 { Layout::FromStart } else { Layout::FromFullSync };
    let repeated = how & REPEAT == REPEAT && !data.is_empty();
    let buffer = if repeated { data.repeat(LONG.div_ceil(data.len())) } else { data.to_vec() };
    let whole = deformat(layout, [&buffer[..]].into_iter());
    assert_eq!(deformat(layout, chunks(&buffer, cut)), whole, "chunks make a difference");
    check_offsets(&buffer, &whole);
    if !repeated {
        check_streams(layout, data, cut, &whole);
        check_formatter(data, usize::from(how >> 1 & 7));
    }
}

/// Flags that select a repeated buffer, and the length of that.
const REPEAT: u8 = 0xf0;
const LONG: usize = 80 << 10;
/// Maximum number of bytes that a deformatter keeps: the start of frames is searched in 64 kB, after 512 bytes that may be
/// read again, and these may start and end in a long frame.
const MAX_WAITING: u64 = (64 << 10) + 512 + 256;

/// Item of a deformatter, with a copy of its bytes.
#[derive(Debug, PartialEq)]
enum Reported {
    Span { id: u8, offset: u64, bytes: Vec<u8> },
    Mark(Mark),
}

#[derive(Default)]
struct Collector(Vec<Reported>);

impl FrameSink for Collector {
    fn span(&mut self, Span { id, offset, bytes }: Span<'_>) {
        self.0.push(Reported::Span { id, offset, bytes: bytes.to_vec() });
    }

    fn mark(&mut self, mark: Mark) {
        self.0.push(Reported::Mark(mark));
    }
}

fn deformat<'a>(layout: Layout, chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Reported> {
    let mut deformatter = Deformatter::new(layout);
    let mut collector = Collector::default();
    let mut given = 0;
    for chunk in chunks {
        deformatter.push(chunk, &mut collector);
        given += chunk.len() as u64;
        let waiting = given.checked_sub(deformatter.offset()).expect("more bytes are read than were pushed");
        assert!(waiting < MAX_WAITING, "{waiting} bytes wait for the rest of a frame");
    }
    deformatter.finish(&mut collector);
    assert_eq!(deformatter.offset(), given, "bytes are left");
    collector.0
}

/// Spans are in order, in the buffer, and equal to its bytes except for the lowest bit; no byte is counted twice.
fn check_offsets(data: &[u8], items: &[Reported]) {
    let (mut end, mut accounted) = (0, 0);
    for item in items {
        accounted += match item {
            Reported::Span { id, offset, bytes } => {
                assert!((ID_NULL + 1..=ID_LAST).contains(id), "{item:?} has no source");
                assert!(*offset >= end, "{item:?} starts before {end}");
                let from = &data[*offset as usize..][..bytes.len()];
                assert!(from.iter().zip(bytes).all(|(a, b)| (a ^ b) & 0xfe == 0), "{item:?} is not in the buffer");
                end = offset + bytes.len() as u64;
                bytes.len() as u64
            }
            Reported::Mark(Mark::Lost(error)) => {
                assert!(error.offset >= end && error.skipped > 0, "{item:?} starts before {end} or is empty");
                end = error.offset + error.skipped;
                error.skipped
            }
            Reported::Mark(Mark::FullSync { offset }) => {
                assert_eq!(data[*offset as usize..][..FSYNC.len()], FSYNC, "{item:?}");
                assert!(*offset >= end, "{item:?} starts before {end}");
                FSYNC.len() as u64
            }
            Reported::Mark(Mark::HalfSync { offset }) => {
                assert_eq!(data[*offset as usize..][..HSYNC.len()], HSYNC, "{item:?}");
                HSYNC.len() as u64
            }
            Reported::Mark(Mark::Trigger { .. } | Mark::Flush { .. }) => 1,
            Reported::Mark(_) => 0,
        };
    }
    assert!(end.max(accounted) <= data.len() as u64, "{accounted} bytes of {} reported, up to {end}", data.len());
}

/// A stream returns the bytes of its id with their offsets, whatever the sizes of reads are.
fn check_streams(layout: Layout, data: &[u8], cut: u8, items: &[Reported]) {
    let mut sources: BTreeMap<u8, Vec<(u64, u8)>> = BTreeMap::new();
    for item in items {
        if let Reported::Span { id, offset, bytes } = item {
            sources.entry(*id).or_default().extend((*offset..).zip(bytes.iter().copied()));
        }
    }
    for (&id, expected) in sources.iter().take(4) {
        let mut stream = Stream::new(id);
        let mut deformatter = Deformatter::new(layout);
        let mut expected = expected.iter();
        for chunk in chunks(data, cut) {
            deformatter.push(chunk, &mut stream);
            // Leaves some bytes in the window now and then.
            let count = stream.bytes().len().saturating_sub(usize::from(chunk[0] & 3));
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

/// Bytes that are put into frames come out in the same order.
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
                // A mark has an offset, and not the byte that caused it.
                let kept = |byte: u8| if id <= ID_LAST { byte } else { 0 };
                expected.extend(bytes.iter().filter(|_| id != ID_NULL).map(|&byte| (Some(id), kept(byte))));
            }
            _ => {}
        }
    }
    frames.extend(formatter.finish());
    let found: Vec<(Option<u8>, u8)> =
        deformat(Layout::FromStart, [&frames[..]].into_iter()).iter().flat_map(ids_and_bytes).collect();
    assert_eq!(found, expected, "frames do not return what was put in");
    if full_sync_every > 0 {
        let synced = deformat(Layout::FromFullSync, [&frames[..]].into_iter());
        assert!(synced.iter().flat_map(ids_and_bytes).eq(expected), "frames differ after a full synchronization");
    }
}

/// The ids and bytes of an item; a barrier has no id.
fn ids_and_bytes(item: &Reported) -> Vec<(Option<u8>, u8)> {
    match item {
        Reported::Span { id, bytes, .. } => bytes.iter().map(|&byte| (Some(*id), byte)).collect(),
        Reported::Mark(Mark::Trigger { .. }) => vec![(Some(ID_TRIGGER), 0)],
        Reported::Mark(Mark::Flush { .. }) => vec![(Some(ID_FLUSH), 0)],
        Reported::Mark(Mark::Barrier { .. }) => vec![(None, 0)],
        Reported::Mark(Mark::Lost(error)) => panic!("a frame of our own is damaged: {error}"),
        Reported::Mark(_) => Vec::new(),
    }
}
