//! Bytes to packets: where each one starts and ends.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! [`PacketDecoder`] takes a stream in pieces of any size; [`Packets`] goes through bytes that are all there. Both
//! start at an alignment synchronisation. Malformed bytes are an error at an offset, after which reading goes on at
//! the next one; packets and skipped stretches tile the stream, and how it was cut makes no difference.

use alloc::collections::VecDeque;

use super::address::any_address;
use super::packet::Packet;
use super::parse::{Fault, extension, parse};
use super::{Atoms, Config};
use crate::cursor::Cursor;

/// Something, and which bytes of the stream say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located<T> {
    /// The first byte, counted from the start of the stream.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// What they say.
    pub value: T,
}

/// Why the bytes at `offset` are not a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{offset:#x}: {kind} ({skipped} bytes skipped)")]
pub struct PacketError {
    /// The first byte passed over, counted from the start of the stream.
    pub offset: u64,
    /// How many bytes were passed over.
    pub skipped: u64,
    /// What was found.
    pub kind: Malformed,
}

/// What is wrong with the bytes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// No alignment synchronisation has been seen yet. Ordinary at the start of a stream and after a break in it.
    #[error("not synchronised yet")]
    NotSynchronised,
    /// What follows does not continue what went before: trace was lost or started afresh here. Told by whoever knows of
    /// the break, with no byte skipped.
    #[error("trace does not continue here")]
    Discontinuity,
    /// The architecture reserves this header byte.
    #[error("reserved packet header {0:#04x}")]
    ReservedHeader(u8),
    /// The header exists, but a trace unit configured like this one cannot send it. Behind a packet of a single byte
    /// reading goes on; a longer one is taken for damage.
    #[error("packet header {0:#04x}, which this configuration of the trace unit cannot send")]
    NotInConfiguration(u8),
    /// The architecture reserves this byte behind an extension header.
    #[error("reserved extension packet {0:#04x}")]
    ReservedExtension(u8),
    /// Zeros that do not end as an alignment synchronisation does.
    #[error("broken alignment synchronisation")]
    BrokenSync,
    /// The architecture reserves this exception information byte.
    #[error("reserved exception information {0:#04x}")]
    ReservedException(u8),
    /// A field goes on for more bytes than it can have.
    #[error("field without an end")]
    EndlessField,
    /// The stream stopped inside the packet.
    #[error("stream ends inside a packet")]
    Truncated,
}

impl Malformed {
    /// Does this belong to trace that is whole, as the wait for a first synchronisation does?
    pub fn is_ordinary(self) -> bool {
        matches!(self, Malformed::NotSynchronised | Malformed::Discontinuity)
    }
}

/// A packet, or bytes that are none.
pub type PacketItem = Result<Located<Packet>, PacketError>;

/// Zero bytes that an alignment synchronisation starts with, at least.
pub(super) const SYNC_ZEROS: u64 = 11;
/// The byte that ends it.
pub(super) const SYNC_END: u8 = 0x80;

/// Finds the packets of a stream that comes in pieces.
#[derive(Debug, Clone)]
pub struct PacketDecoder {
    config: Config,
    /// Which header bytes this configuration has.
    accepted: [bool; 256],
    state: State,
    offset: u64,
    /// The bytes at hand end inside a packet.
    waits_for_more: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At a packet boundary.
    Synchronised,
    /// Inside a run of zeros that began at a packet boundary.
    Zeros { start: u64 },
    /// Looking for an alignment synchronisation; the last `zeros` bytes were zero.
    Skipping { start: u64, zeros: u64, kind: Malformed },
}

enum Step {
    Packet(Packet),
    /// A packet that this configuration cannot send.
    Impossible,
    Bad(Malformed),
    NeedMore,
}

impl PacketDecoder {
    /// A decoder at the start of a stream.
    pub fn new(config: &Config) -> Self {
        let mut accepted = [false; 256];
        (0..=255).zip(&mut accepted).for_each(|(header, accepted)| *accepted = config.accepts(header));
        Self { config: *config, accepted, state: unsynchronised(0), offset: 0, waits_for_more: false }
    }

    /// The stream position of the next byte to be read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The stream position from which on nothing has been told: before [`offset`](Self::offset) while bytes are being
    /// passed over.
    pub fn untold(&self) -> u64 {
        match self.state {
            State::Synchronised => self.offset,
            State::Zeros { start } | State::Skipping { start, .. } => start,
        }
    }

    /// The bytes that follow do not continue those before: waits for the next alignment synchronisation.
    /// End the stretch before with `last`.
    pub fn resync(&mut self) {
        self.state = unsynchronised(self.offset);
    }

    /// Reads packets from `bytes`, which start at [`offset`](Self::offset). Returns how many bytes were read; the
    /// others start a packet whose end has not come: give them again with what follows. With `last` nothing follows,
    /// and all bytes are read.
    #[inline]
    pub fn decode(&mut self, bytes: &[u8], last: bool, mut sink: impl FnMut(PacketItem)) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.state {
                State::Synchronised => self.packets(rest, last, &mut sink),
                State::Zeros { start } => self.zeros(rest, start, last, &mut sink),
                State::Skipping { start, zeros, kind } => self.skip(rest, Skip { start, zeros, kind }, last, &mut sink),
            };
            if self.waits_for_more {
                break;
            }
        }
        self.waits_for_more = false;
        if last {
            self.end(&mut sink);
        }
        at
    }

    /// Reads packets as long as they are well-formed and whole.
    #[inline(always)]
    fn packets(&mut self, bytes: &[u8], last: bool, sink: &mut impl FnMut(PacketItem)) -> usize {
        let base = self.offset;
        let mut at = 0;
        while let Some(&header) = bytes.get(at) {
            let offset = base + at as u64;
            // Three of four packets are a single byte of atoms.
            if header >= 0xc0 {
                sink(Ok(Located { offset, length: 1, value: Packet::Atoms(Atoms::from_header(header)) }));
                at += 1;
                continue;
            }
            // The others are mostly addresses.
            if let Some((address, length)) = any_address(&bytes[at..], header) {
                sink(Ok(Located { offset, length: length as u64, value: Packet::Address(address) }));
                at += length;
                continue;
            }
            let mut cursor = Cursor::new(&bytes[at..]);
            match self.step(header, &mut cursor) {
                Step::Packet(value) => {
                    let length = cursor.position();
                    sink(Ok(Located { offset, length: length as u64, value }));
                    at += length;
                }
                Step::Impossible if cursor.position() == 1 => {
                    // A single byte leaves no doubt about where the next packet starts.
                    sink(Err(PacketError { offset, skipped: 1, kind: Malformed::NotInConfiguration(header) }));
                    at += 1;
                }
                Step::Impossible => {
                    let kind = Malformed::NotInConfiguration(header);
                    self.state = State::Skipping { start: offset, zeros: 0, kind };
                    break;
                }
                Step::Bad(kind) => {
                    self.state = State::Skipping { start: offset, zeros: 0, kind };
                    break;
                }
                Step::NeedMore if header == 0 => {
                    self.state = State::Zeros { start: offset };
                    break;
                }
                Step::NeedMore if last => {
                    self.state = State::Skipping { start: offset, zeros: 0, kind: Malformed::Truncated };
                    break;
                }
                Step::NeedMore => {
                    self.waits_for_more = true;
                    break;
                }
            }
        }
        self.offset = base + at as u64;
        at
    }

    #[inline(always)]
    fn step(&self, header: u8, cursor: &mut Cursor<'_>) -> Step {
        match parse(cursor, header, &self.config) {
            Ok(packet) if self.accepted[usize::from(header)] => Step::Packet(packet),
            Ok(_) => Step::Impossible,
            Err(Fault::Ended) => Step::NeedMore,
            Err(Fault::Malformed(kind)) => Step::Bad(kind),
        }
    }

    /// A run of zeros that the bytes so far left open.
    fn zeros(&mut self, bytes: &[u8], start: u64, last: bool, sink: &mut impl FnMut(PacketItem)) -> usize {
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let Some(&end) = bytes.get(zeros) else {
            if last {
                self.state = State::Skipping { start, zeros: 0, kind: Malformed::Truncated };
            }
            self.offset += bytes.len() as u64;
            return bytes.len();
        };
        let run = self.offset + zeros as u64 - start;
        let length = run + 1;
        let value = match (run, end) {
            (SYNC_ZEROS.., SYNC_END) => Ok(Packet::AlignmentSync),
            (1, end) => extension(end),
            _ => Err(Malformed::BrokenSync),
        };
        match value {
            Ok(value) => {
                sink(Ok(Located { offset: start, length, value }));
                self.state = State::Synchronised;
            }
            Err(kind) => self.state = State::Skipping { start, zeros: 0, kind },
        }
        self.offset += zeros as u64 + 1;
        zeros + 1
    }

    /// Looks for an alignment synchronisation.
    fn skip(&mut self, bytes: &[u8], skip: Skip, last: bool, sink: &mut impl FnMut(PacketItem)) -> usize {
        for end in memchr::memchr_iter(SYNC_END, bytes) {
            if zeros_before(bytes, end, skip.zeros) < SYNC_ZEROS {
                continue;
            }
            let offset = self.offset + end as u64 - SYNC_ZEROS;
            skip.tell(offset, sink);
            sink(Ok(Located { offset, length: SYNC_ZEROS + 1, value: Packet::AlignmentSync }));
            self.state = State::Synchronised;
            self.offset += end as u64 + 1;
            return end + 1;
        }
        let zeros = zeros_before(bytes, bytes.len(), skip.zeros);
        self.state = State::Skipping { start: skip.start, zeros, kind: skip.kind };
        self.offset += bytes.len() as u64;
        if last {
            skip.tell(self.offset, sink);
            self.state = unsynchronised(self.offset);
        }
        bytes.len()
    }

    /// Nothing follows: tells what is still open.
    fn end(&mut self, sink: &mut impl FnMut(PacketItem)) {
        match self.state {
            State::Synchronised => {}
            State::Zeros { start } => Skip { start, zeros: 0, kind: Malformed::Truncated }.tell(self.offset, sink),
            State::Skipping { start, zeros, kind } => Skip { start, zeros, kind }.tell(self.offset, sink),
        }
        self.state = unsynchronised(self.offset);
    }
}

fn unsynchronised(start: u64) -> State {
    State::Skipping { start, zeros: 0, kind: Malformed::NotSynchronised }
}

/// A stretch that is being passed over.
#[derive(Debug, Clone, Copy)]
struct Skip {
    start: u64,
    zeros: u64,
    kind: Malformed,
}

impl Skip {
    fn tell(self, end: u64, sink: &mut impl FnMut(PacketItem)) {
        if end > self.start {
            sink(Err(PacketError { offset: self.start, skipped: end - self.start, kind: self.kind }));
        }
    }
}

/// How many zeros stand right before `end`; `carried` of them stood right before the bytes. Enough is enough.
fn zeros_before(bytes: &[u8], end: usize, carried: u64) -> u64 {
    let wanted = SYNC_ZEROS as usize;
    let zeros = bytes[..end].iter().rev().take(wanted).take_while(|&&byte| byte == 0).count();
    if zeros == end { (zeros as u64 + carried).min(SYNC_ZEROS) } else { zeros as u64 }
}

/// The packets of bytes that are all there, one at a time.
///
/// ```
/// use unspool_coresight::Protocol;
/// use unspool_coresight::etm4::{Config, Packets, Profile, Registers};
/// let (config, _) = Config::new(Protocol::Ete, Profile::Unknown, &Registers::default());
/// let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00, 0x04, 0xf7];
/// let packets: Vec<String> = Packets::new(&config, &bytes).flatten().map(|packet| packet.value.to_string()).collect();
/// assert_eq!(packets, ["alignment sync", "trace info", "trace on", "atoms E"]);
/// ```
#[derive(Debug, Clone)]
pub struct Packets<'a> {
    decoder: PacketDecoder,
    bytes: &'a [u8],
    /// Found but not handed out yet.
    found: VecDeque<PacketItem>,
    /// Where the next item starts.
    offset: u64,
}

/// How many bytes are read ahead.
const AHEAD: usize = 256;

impl<'a> Packets<'a> {
    /// Starts at the first byte.
    pub fn new(config: &Config, bytes: &'a [u8]) -> Self {
        Self { decoder: PacketDecoder::new(config), bytes, found: VecDeque::new(), offset: 0 }
    }

    /// Where the next packet or skipped stretch starts.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes on at the next alignment synchronisation.
    pub fn resync(&mut self) {
        self.found.clear();
        self.decoder.offset = self.offset;
        self.decoder.resync();
    }
}

impl Iterator for Packets<'_> {
    type Item = PacketItem;

    fn next(&mut self) -> Option<PacketItem> {
        while self.found.is_empty() {
            let rest = &self.bytes[self.decoder.offset() as usize..];
            let ahead = rest.len().min(AHEAD);
            let last = ahead == rest.len();
            self.decoder.decode(&rest[..ahead], last, |item| self.found.push_back(item));
            if last {
                break;
            }
        }
        let item = self.found.pop_front()?;
        self.offset = match &item {
            Ok(packet) => packet.offset + packet.length,
            Err(error) => error.offset + error.skipped,
        };
        Some(item)
    }
}
