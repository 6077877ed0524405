//! Bytes to packets: finds their starts and ends.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! [`PacketDecoder`] takes a stream in chunks of any size and starts at an ASYNC, which is recognized wherever it is,
//! inside of packets too. After an ASYNC, a VERSION has to follow. Malformed nibbles are an error at an offset, after
//! which decoding resumes at the next ASYNC. Chunk boundaries make no difference.
//!
//! Positions are nibbles here. An item has the offset of the byte that it starts in, and as its length the number of
//! bytes whose first nibble it has: the lengths of all items add up to the length of the stream.

use core::ops::Range;

use super::frequent::{Emit, Window, frequent};
use super::nibbles::Nibbles;
use super::packet::{Body, Packet, TimestampFormat, Version};
use super::parse::{Fault, parse};
use crate::decode::DecodePackets;
use crate::{Located, Malformed, PacketError, Sink};

/// A packet, or nibbles that are not one.
pub type PacketItem = crate::PacketItem<Packet>;

/// Nibbles of an ASYNC: 21 times F, then 0.
const ASYNC: usize = 22;
/// Number of whole bytes that any 21 nibbles contain.
const WHOLE: usize = 10;

/// Finds the packets of a stream that arrives in chunks.
#[derive(Debug, Clone)]
pub struct PacketDecoder {
    state: State,
    /// The next nibble, counted from the start of the stream.
    at: u64,
    /// That of the last version packet; `None` between a synchronization and its version.
    version: Option<Version>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At a packet boundary.
    Synchronized,
    /// Inside a run of NULL packets.
    Nulls { start: u64 },
    /// Searching for an ASYNC.
    Skipping { start: u64, kind: Malformed },
}

/// A chunk and the position in it.
struct Chunk<'b> {
    bytes: &'b [u8],
    /// Number of nibbles.
    length: usize,
    last: bool,
    /// Position of the first nibble in the stream.
    base: u64,
    at: usize,
    /// Start of the next ASYNC that is complete, from the position on; `usize::MAX`: there is none.
    next_async: usize,
}

impl Chunk<'_> {
    /// Finds the next ASYNC from a position on.
    fn find_async(&mut self, from: usize) {
        self.next_async = find_async(self.bytes, from).unwrap_or(usize::MAX);
    }

    /// May an ASYNC that is not complete yet start before `end`? All nibbles from the one before `end` on are F then.
    fn may_be_cut(&self, end: usize) -> bool {
        !self.last
            && end + ASYNC > self.length
            && (end.saturating_sub(1)..self.length).all(|at| nibble(self.bytes, at) == Some(0xf))
    }
}

impl Default for PacketDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl PacketDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self { state: unsynchronized(0), at: 0, version: None }
    }

    /// Reads until there is an item. `None`: there is none before more bytes arrive.
    #[cold]
    #[inline(never)]
    fn uncommon(&mut self, chunk: &mut Chunk<'_>) -> Option<PacketItem> {
        loop {
            let item = match self.state {
                State::Skipping { start, kind } => return self.skip(chunk, start, kind),
                State::Nulls { start } => return self.nulls(chunk, start),
                State::Synchronized if chunk.at >= chunk.length => {
                    if chunk.last {
                        self.state = unsynchronized(chunk.base + chunk.at as u64);
                    }
                    return None;
                }
                State::Synchronized => self.packet(chunk)?,
            };
            if item.is_some() {
                return item;
            }
        }
    }

    /// The packet at the position. The outer `None`: more nibbles are needed.
    #[allow(clippy::option_option, reason = "a packet may be incomplete, or lead to another state")]
    fn packet(&mut self, chunk: &mut Chunk<'_>) -> Option<Option<PacketItem>> {
        let start = chunk.at;
        let position = chunk.base + start as u64;
        if chunk.next_async < start {
            chunk.find_async(start);
        }
        if chunk.next_async == start {
            chunk.at += ASYNC;
            chunk.find_async(chunk.at);
            self.version = None;
            return Some(Some(item(chunk.base, start, chunk.at, Body::Async)));
        }
        if nibble(chunk.bytes, start) == Some(0) {
            self.state = State::Nulls { start: position };
            return Some(None);
        }
        if nibble(chunk.bytes, start) == Some(0xf) && nibble(chunk.bytes, start + 1) == Some(0xf) {
            return self.long_run(chunk);
        }
        let (result, end) = self.parse(chunk);
        if chunk.next_async < end || (matches!(result, Err(Fault::Ended)) && chunk.next_async < chunk.length) {
            chunk.at = chunk.next_async;
            return Some(error(position, chunk.base + chunk.at as u64, Malformed::CutBySync));
        }
        if chunk.may_be_cut(end) {
            return None;
        }
        match result {
            Ok(body) => {
                if let Body::Version(version) = body {
                    self.version = Some(version);
                }
                chunk.at = end;
                Some(Some(item(chunk.base, start, end, body)))
            }
            Err(Fault::Ended) if !chunk.last => None,
            Err(Fault::Ended) => {
                chunk.at = chunk.length;
                self.state = unsynchronized(chunk.base + chunk.length as u64);
                Some(error(position, chunk.base + chunk.length as u64, Malformed::Truncated))
            }
            Err(Fault::Malformed(kind)) => Some(self.malformed(chunk, kind)),
        }
    }

    /// Parses the packet at the position. Returns the position after the last nibble that was looked at, too.
    fn parse(&self, chunk: &Chunk<'_>) -> (Result<Body, Fault>, usize) {
        let (format, least_first) = match self.version {
            Some(version) => (version.timestamps, version.is_least_first()),
            None => (TimestampFormat::Natural, false),
        };
        let mut input = Nibbles::new(chunk.bytes, chunk.at, least_first);
        let result = parse(&mut input, format);
        let result = match result {
            Ok(body) if self.version.is_none() && !matches!(body, Body::Version(_)) => {
                Err(Fault::Malformed(Malformed::NoVersion))
            }
            result => result,
        };
        (result, input.position())
    }

    /// Two or more F, which are not the start of a complete ASYNC.
    #[allow(clippy::option_option, reason = "as above")]
    fn long_run(&mut self, chunk: &mut Chunk<'_>) -> Option<Option<PacketItem>> {
        let run = (chunk.at..chunk.at + ASYNC).take_while(|&at| nibble(chunk.bytes, at) == Some(0xf)).count();
        let is_complete = chunk.at + run < chunk.length || run == ASYNC;
        if !is_complete && !chunk.last {
            return None;
        }
        let kind = match run {
            _ if !is_complete => Malformed::Truncated,
            21.. => Malformed::BrokenSync,
            _ => Malformed::ReservedOpcode(0xff0 | u16::from(nibble(chunk.bytes, chunk.at + 2).unwrap_or(0))),
        };
        Some(self.malformed(chunk, kind))
    }

    /// Starts to skip: the search starts after the first nibble of the bad packet.
    fn malformed(&mut self, chunk: &mut Chunk<'_>, kind: Malformed) -> Option<PacketItem> {
        self.state = State::Skipping { start: chunk.base + chunk.at as u64, kind };
        chunk.at += 1;
        None
    }

    /// Continues a run of NULL packets.
    fn nulls(&mut self, chunk: &mut Chunk<'_>, start: u64) -> Option<PacketItem> {
        chunk.at += zeros(chunk.bytes, chunk.at);
        if chunk.at == chunk.length && !chunk.last {
            return None;
        }
        self.state = State::Synchronized;
        let end = chunk.base + chunk.at as u64;
        let body = Body::Null { count: end - start };
        Some(Ok(located(start, end, Packet { high_half: start % 2 == 1, body })))
    }

    /// Searches for an ASYNC.
    fn skip(&mut self, chunk: &mut Chunk<'_>, start: u64, kind: Malformed) -> Option<PacketItem> {
        chunk.find_async(chunk.at);
        if chunk.next_async < chunk.length {
            chunk.at = chunk.next_async;
            self.state = State::Synchronized;
            let end = chunk.base + chunk.at as u64;
            // Nothing may have been skipped: then the ASYNC is next.
            return error(start, end, kind).or_else(|| self.uncommon(chunk));
        }
        if !chunk.last {
            // An incomplete ASYNC may be at the end.
            let rest = chunk.length.saturating_sub(ASYNC);
            chunk.at = chunk.at.max(rest);
            return None;
        }
        chunk.at = chunk.length;
        let end = chunk.base + chunk.length as u64;
        self.state = unsynchronized(end);
        error(start, end, kind)
    }
}

impl DecodePackets for PacketDecoder {
    type Packet = Packet;

    fn offset(&self) -> u64 {
        self.at / 2
    }

    fn unreported_from(&self) -> u64 {
        match self.state {
            State::Synchronized => self.offset(),
            State::Nulls { start } | State::Skipping { start, .. } => start / 2,
        }
    }

    fn is_between_packets(&self) -> bool {
        self.state == State::Synchronized && self.version.is_some()
    }

    fn resync_at(&mut self, offset: u64) {
        self.at = 2 * offset;
        self.state = unsynchronized(self.at);
        self.version = None;
    }

    #[inline(always)]
    fn decode(&mut self, bytes: &[u8], last: bool, mut sink: impl Sink<PacketItem>) -> usize {
        let start = self.offset();
        let mut chunk = Chunk {
            bytes,
            length: 2 * bytes.len(),
            last,
            base: 2 * start,
            at: (self.at - 2 * start) as usize,
            next_async: usize::MAX,
        };
        chunk.find_async(chunk.at);
        loop {
            if let (State::Synchronized, Some(version)) = (self.state, self.version) {
                common(&mut chunk, version, &mut sink);
            }
            let Some(item) = self.uncommon(&mut chunk) else { break };
            sink.item(item);
        }
        self.at = chunk.base + chunk.at as u64;
        (self.offset() - start) as usize
    }
}

/// Reads packets while nothing uncommon is near: no ASYNC, no NULL, no VERSION and not the end.
#[inline(always)]
fn common(chunk: &mut Chunk<'_>, version: Version, sink: &mut impl Sink<PacketItem>) {
    if version.is_least_first() || chunk.next_async < chunk.at {
        return;
    }
    let bytes = &chunk.bytes[..chunk.length.min(chunk.next_async) / 2];
    let is_legacy = matches!(version.timestamps, TimestampFormat::Legacy(_));
    while let Some(window) = bytes.get(chunk.at / 2..).and_then(|rest| rest.first_chunk()) {
        let first = chunk.at % 2;
        let mut here = Here { offset: (chunk.base + chunk.at as u64) / 2, first, sink };
        let mut nibbles = if is_legacy { 0 } else { frequent(window, first, &mut here) };
        if nibbles == 0 {
            let Some((body, of_other)) = other(window, first, version) else { return };
            here.emit(body, of_other);
            nibbles = of_other;
        }
        chunk.at += nibbles;
    }
}

/// Locates a packet.
struct Here<'s, S> {
    /// The byte with its first nibble.
    offset: u64,
    /// The number of that nibble in the byte.
    first: usize,
    sink: &'s mut S,
}

impl<S: Sink<PacketItem>> Emit for Here<'_, S> {
    #[inline(always)]
    fn emit(&mut self, body: Body, nibbles: usize) {
        let Self { offset, first, .. } = *self;
        let value = Packet { high_half: first == 1, body };
        self.sink.item(Ok(Located { offset, length: bytes_between(first as u64, (first + nibbles) as u64), value }));
    }
}

/// A packet that is not frequent, and the number of its nibbles; `None`: it is malformed, or a version.
#[inline(never)]
fn other(window: &Window, first: usize, version: Version) -> Option<(Body, usize)> {
    let mut input = Nibbles::new(window, first, false);
    let body = parse(&mut input, version.timestamps).ok().filter(|body| !matches!(body, Body::Version(_)))?;
    Some((body, input.position() - first))
}

fn unsynchronized(start: u64) -> State {
    State::Skipping { start, kind: Malformed::NotSynchronized }
}

#[inline(always)]
fn item(base: u64, start: usize, end: usize, body: Body) -> PacketItem {
    let packet = Packet { high_half: start % 2 == 1, body };
    Ok(located(base + start as u64, base + end as u64, packet))
}

#[inline(always)]
fn located(start: u64, end: u64, value: Packet) -> Located<Packet> {
    Located { offset: start / 2, length: bytes_between(start, end), value }
}

/// An error from one nibble to another, if there are any between them.
fn error(start: u64, end: u64, kind: Malformed) -> Option<PacketItem> {
    (end > start).then(|| Err(PacketError { offset: start / 2, skipped: bytes_between(start, end), kind }))
}

/// Number of bytes whose first nibble is from `start` on and before `end`.
#[inline(always)]
#[allow(clippy::manual_div_ceil, reason = "fewer instructions per packet; positions are far from the greatest number")]
fn bytes_between(start: u64, end: u64) -> u64 {
    (end + 1) / 2 - (start + 1) / 2
}

fn nibble(bytes: &[u8], at: usize) -> Option<u8> {
    let byte = *bytes.get(at / 2)?;
    Some(if at.is_multiple_of(2) { byte & 0xf } else { byte >> 4 })
}

/// Number of nibbles that are zero, from a position on.
fn zeros(bytes: &[u8], at: usize) -> usize {
    let is_zero = |at: usize| nibble(bytes, at) == Some(0);
    let first = usize::from(at % 2 == 1 && is_zero(at));
    if at % 2 == 1 && first == 0 {
        return 0;
    }
    let whole = bytes[(at + first) / 2..].iter().take_while(|&&byte| byte == 0).count();
    let count = first + 2 * whole;
    count + usize::from(is_zero(at + count))
}

/// The start of the first complete ASYNC from a position on: of a run of F with a 0 after it, the last 21.
fn find_async(bytes: &[u8], from: usize) -> Option<usize> {
    let mut search = from / 2;
    loop {
        let Range { start: first, end: after } = long_run(bytes, search)?;
        let before = first.checked_sub(1).is_some_and(|index| bytes[index] >> 4 == 0xf);
        let start = (2 * first - usize::from(before)).max(from);
        let next = *bytes.get(after)?;
        let (end, is_ended) =
            if next & 0xf == 0xf { (2 * after + 1, next >> 4 == 0) } else { (2 * after, next & 0xf == 0) };
        if is_ended && end >= start + ASYNC - 1 {
            return Some(end - (ASYNC - 1));
        }
        search = after + 1;
    }
}

/// The first run of at least [`WHOLE`] bytes of F from an index on.
fn long_run(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    // Such a run contains one of these words.
    let mut probe = from + WHOLE - 4;
    while let Some(word) = bytes.get(probe..).and_then(|rest| rest.first_chunk::<4>()) {
        if *word == [0xff; 4] {
            let before = bytes[from..probe].iter().rev().take_while(|&&byte| byte == 0xff).count();
            let after = bytes[probe..].iter().take_while(|&&byte| byte == 0xff).count();
            if before + after >= WHOLE {
                return Some(probe - before..probe + after);
            }
            probe += after;
        }
        probe += WHOLE - 3;
    }
    None
}
