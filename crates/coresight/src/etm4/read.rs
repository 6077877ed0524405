//! Bytes to packets: where each one starts and ends.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! [`PacketDecoder`] takes a stream in pieces of any size; [`Packets`] goes through bytes that are all there. Both
//! start at an alignment synchronisation. Malformed bytes are an error at an offset, after which reading goes on at
//! the next one; packets and skipped stretches tile the stream, and how it was cut makes no difference.

use alloc::collections::VecDeque;

use super::address::common_address;
use super::packet::Packet;
use super::parse::{Fault, extension, parse};
use super::{Atoms, Config};
use crate::cursor::Cursor;
use crate::take::Take;

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

/// The first place from `start` on where an alignment synchronisation is followed by a trace info: reading can start
/// there without anything that came before.
pub fn next_start(bytes: &[u8], start: usize) -> Option<usize> {
    const PATTERN: [u8; SYNC_ZEROS as usize + 2] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, SYNC_END, 0x01];
    memchr::memmem::find(bytes.get(start..)?, &PATTERN).map(|found| start + found)
}

/// Finds the packets of a stream that comes in pieces.
#[derive(Debug, Clone)]
pub struct PacketDecoder {
    config: Config,
    /// Which header bytes this configuration has.
    accepted: [bool; 256],
    state: State,
    offset: u64,
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
        Self { config: *config, accepted, state: unsynchronised(0), offset: 0 }
    }

    /// A decoder that joins a stream at this position.
    pub fn at(config: &Config, offset: u64) -> Self {
        Self { state: unsynchronised(offset), offset, ..Self::new(config) }
    }

    /// The stream position of the next byte to be read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The stream position from which on nothing has been reported: before [`offset`](Self::offset) while bytes are being
    /// passed over.
    pub fn unreported_from(&self) -> u64 {
        match self.state {
            State::Synchronised => self.offset,
            State::Zeros { start } | State::Skipping { start, .. } => start,
        }
    }

    /// Is this a place between two packets? The next packet then reads the same whatever came before.
    pub fn is_between_packets(&self) -> bool {
        self.state == State::Synchronised
    }

    /// The bytes that follow do not continue those before: waits for the next alignment synchronisation.
    /// End the stretch before with `last`.
    pub fn resync(&mut self) {
        self.state = unsynchronised(self.offset);
    }

    /// Reads packets from `bytes`, which start at [`offset`](Self::offset). Returns how many bytes were read; the
    /// others start a packet whose end has not come: give them again with what follows. With `last` nothing follows,
    /// and all bytes are read.
    #[inline(always)]
    pub fn decode(&mut self, bytes: &[u8], last: bool, mut sink: impl Take<PacketItem>) -> usize {
        let start = self.offset;
        let mut at = 0;
        loop {
            if self.state == State::Synchronised {
                at = common(bytes, at, start, &mut sink);
                self.offset = start + at as u64;
            }
            // The sink is seen by the loop over common packets and by this one call only, so that what it counts can
            // stay in registers.
            let Some(item) = self.uncommon(&bytes[at..], last) else { break };
            sink.take(item);
            at = (self.offset - start) as usize;
        }
        (self.offset - start) as usize
    }

    /// Reads on until there is something to tell. `None`: there is not, before more bytes come.
    #[cold]
    #[inline(never)]
    fn uncommon(&mut self, mut bytes: &[u8], last: bool) -> Option<PacketItem> {
        while !bytes.is_empty() {
            let (read, item) = match self.state {
                State::Synchronised => self.packet(bytes, last)?,
                State::Zeros { start } => self.zeros(bytes, start, last),
                State::Skipping { start, zeros, kind } => self.skip(bytes, Skip { start, zeros, kind }),
            };
            self.offset += read as u64;
            if item.is_some() {
                return item;
            }
            bytes = &bytes[read..];
        }
        if last { self.end() } else { None }
    }

    /// The packet at the start of `bytes`, if it is well-formed; the way out of this state, if not. `None`: it is not
    /// whole.
    fn packet(&mut self, bytes: &[u8], last: bool) -> Option<(usize, Option<PacketItem>)> {
        let &header = bytes.first()?;
        let offset = self.offset;
        let mut cursor = Cursor::new(bytes);
        let kind = match self.step(header, &mut cursor) {
            Step::Packet(value) => {
                let length = cursor.position();
                return Some((length, Some(Ok(Located { offset, length: length as u64, value }))));
            }
            Step::Impossible if cursor.position() == 1 => {
                // A single byte leaves no doubt about where the next packet starts.
                let kind = Malformed::NotInConfiguration(header);
                return Some((1, Some(Err(PacketError { offset, skipped: 1, kind }))));
            }
            Step::NeedMore if header == 0 => {
                self.state = State::Zeros { start: offset };
                return Some((0, None));
            }
            Step::NeedMore if !last => return None,
            Step::NeedMore => Malformed::Truncated,
            Step::Impossible => Malformed::NotInConfiguration(header),
            Step::Bad(kind) => kind,
        };
        self.state = State::Skipping { start: offset, zeros: 0, kind };
        Some((0, None))
    }

    fn step(&self, header: u8, cursor: &mut Cursor<'_>) -> Step {
        match parse(cursor, header, &self.config) {
            Ok(packet) if self.accepted[usize::from(header)] => Step::Packet(packet),
            Ok(_) => Step::Impossible,
            Err(Fault::Ended) => Step::NeedMore,
            Err(Fault::Malformed(kind)) => Step::Bad(kind),
        }
    }

    /// A run of zeros that the bytes so far left open.
    fn zeros(&mut self, bytes: &[u8], start: u64, last: bool) -> (usize, Option<PacketItem>) {
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let Some(&end) = bytes.get(zeros) else {
            if last {
                self.state = State::Skipping { start, zeros: 0, kind: Malformed::Truncated };
            }
            return (bytes.len(), None);
        };
        let run = self.offset + zeros as u64 - start;
        let length = run + 1;
        let value = match (run, end) {
            (SYNC_ZEROS.., SYNC_END) => Ok(Packet::AlignmentSync),
            (1, end) => extension(end),
            _ => Err(Malformed::BrokenSync),
        };
        let item = match value {
            Ok(value) => {
                self.state = State::Synchronised;
                Some(Ok(Located { offset: start, length, value }))
            }
            Err(kind) => {
                self.state = State::Skipping { start, zeros: 0, kind };
                None
            }
        };
        (zeros + 1, item)
    }

    /// Looks for an alignment synchronisation, and stops before the byte that ends it.
    fn skip(&mut self, bytes: &[u8], skip: Skip) -> (usize, Option<PacketItem>) {
        for end in memchr::memchr_iter(SYNC_END, bytes) {
            if zeros_before(bytes, end, skip.zeros) < SYNC_ZEROS {
                continue;
            }
            let start = self.offset + end as u64 - SYNC_ZEROS;
            self.state = State::Zeros { start };
            return (end, skip.up_to(start));
        }
        let zeros = zeros_before(bytes, bytes.len(), skip.zeros);
        self.state = State::Skipping { start: skip.start, zeros, kind: skip.kind };
        (bytes.len(), None)
    }

    /// Nothing follows: tells what is still open.
    fn end(&mut self) -> Option<PacketItem> {
        let open = match self.state {
            State::Synchronised => None,
            State::Zeros { start } => Skip { start, zeros: 0, kind: Malformed::Truncated }.up_to(self.offset),
            State::Skipping { start, zeros, kind } => Skip { start, zeros, kind }.up_to(self.offset),
        };
        self.state = unsynchronised(self.offset);
        open
    }
}

/// Reads atoms and addresses, which are nearly all of a stream. Returns where something else starts.
#[inline(always)]
fn common(bytes: &[u8], mut at: usize, base: u64, sink: &mut impl Take<PacketItem>) -> usize {
    while let Some(&header) = bytes.get(at) {
        let offset = base + at as u64;
        // Three of four packets are a single byte of atoms.
        if header >= 0xc0 {
            sink.take(Ok(Located { offset, length: 1, value: Packet::Atoms(Atoms::from_header(header)) }));
            at += 1;
            continue;
        }
        let Some((address, length)) = common_address(&bytes[at..], header) else { break };
        sink.take(Ok(Located { offset, length: length as u64, value: Packet::Address(address) }));
        at += length;
    }
    at
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
    fn up_to(self, end: u64) -> Option<PacketItem> {
        let skipped = end - self.start;
        (skipped > 0).then_some(Err(PacketError { offset: self.start, skipped, kind: self.kind }))
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
