//! Bytes to packets: finds their starts and ends.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! [`PacketDecoder`] takes a stream in chunks of any size and starts at an alignment synchronization. Malformed bytes
//! are an error at an offset, after which decoding resumes at the next synchronization; packets and skipped bytes tile
//! the stream, and the chunk boundaries make no difference.

use super::Config;
use super::address::common_address;
use super::atoms;
use super::packet::Packet;
use super::parse::{Fault, SYNC_END, SYNC_ZEROS, extension, has_reserved_bits, parse};
use crate::cursor::Cursor;
use crate::decode::DecodePackets;
use crate::{Located, Malformed, PacketError, Sink};

/// A packet, or bytes that are not one.
pub type PacketItem = crate::PacketItem<Packet>;

/// The first index from `start` on where an alignment synchronization is followed by a trace info: decoding can start
/// there without anything that came before.
pub fn next_start(bytes: &[u8], start: usize) -> Option<usize> {
    const PATTERN: [u8; SYNC_ZEROS as usize + 2] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, SYNC_END, 0x01];
    memchr::memmem::find(bytes.get(start..)?, &PATTERN).map(|found| start + found)
}

/// Finds the packets of a stream that arrives in chunks.
#[derive(Debug, Clone)]
pub struct PacketDecoder {
    config: Config,
    state: State,
    offset: u64,
    /// Reserved bits of the packet at the offset are reported.
    is_noted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At a packet boundary.
    Synchronized,
    /// Inside a run of zeros that began at a packet boundary.
    Zeros { start: u64 },
    /// Searching for an alignment synchronization; the last `zeros` bytes were zero.
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
        Self { config: *config, state: unsynchronized(0), offset: 0, is_noted: false }
    }

    /// Reads until there is an item. `None`: there is none before more bytes arrive.
    #[cold]
    #[inline(never)]
    fn uncommon(&mut self, mut bytes: &[u8], last: bool) -> Option<PacketItem> {
        while !bytes.is_empty() {
            let (read, item) = match self.state {
                State::Synchronized => self.packet(bytes, last)?,
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

    /// The packet at the start of `bytes`, if it is well-formed; otherwise enters another state. `None`: it is
    /// incomplete.
    fn packet(&mut self, bytes: &[u8], last: bool) -> Option<(usize, Option<PacketItem>)> {
        let &header = bytes.first()?;
        let offset = self.offset;
        let mut cursor = Cursor::new(bytes);
        let kind = match self.step(header, &mut cursor) {
            Step::Packet(value) => {
                let length = cursor.position();
                self.is_noted = !self.is_noted && has_reserved_bits(&bytes[..length]);
                if self.is_noted {
                    let kind = Malformed::ReservedBits(header);
                    return Some((0, Some(Err(PacketError { offset, skipped: 0, kind }))));
                }
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
            Ok(packet) if self.config.accepts(header) => Step::Packet(packet),
            Ok(_) => Step::Impossible,
            Err(Fault::Ended) => Step::NeedMore,
            Err(Fault::Malformed(kind)) => Step::Bad(kind),
        }
    }

    /// Continues a run of zeros.
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
                self.state = State::Synchronized;
                Some(Ok(Located { offset: start, length, value }))
            }
            Err(kind) => {
                self.state = State::Skipping { start, zeros: 0, kind };
                None
            }
        };
        (zeros + 1, item)
    }

    /// Searches for an alignment synchronization, and stops before the byte that ends it.
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

    /// Ends the stream: reports an incomplete packet or skipped bytes.
    fn end(&mut self) -> Option<PacketItem> {
        let open = match self.state {
            State::Synchronized => None,
            State::Zeros { start } => Skip { start, zeros: 0, kind: Malformed::Truncated }.up_to(self.offset),
            State::Skipping { start, zeros, kind } => Skip { start, zeros, kind }.up_to(self.offset),
        };
        self.state = unsynchronized(self.offset);
        open
    }
}

impl DecodePackets for PacketDecoder {
    type Packet = Packet;

    fn offset(&self) -> u64 {
        self.offset
    }

    fn unreported_from(&self) -> u64 {
        match self.state {
            State::Synchronized => self.offset,
            State::Zeros { start } | State::Skipping { start, .. } => start,
        }
    }

    fn is_between_packets(&self) -> bool {
        self.state == State::Synchronized
    }

    fn resync_at(&mut self, offset: u64) {
        self.offset = offset;
        self.state = unsynchronized(offset);
    }

    #[inline(always)]
    fn decode(&mut self, bytes: &[u8], last: bool, mut sink: impl Sink<PacketItem>) -> usize {
        let start = self.offset;
        let mut at = 0;
        loop {
            if self.state == State::Synchronized {
                at = common(bytes, at, start, &mut sink);
                self.offset = start + at as u64;
            }
            // Only the loop over common packets and this call use the sink, so its counters can stay in registers.
            let Some(item) = self.uncommon(&bytes[at..], last) else { break };
            sink.item(item);
            at = (self.offset - start) as usize;
        }
        (self.offset - start) as usize
    }
}

/// Reads atoms and addresses, which are nearly all of a stream. Returns the index of the first other packet.
#[inline(always)]
fn common(bytes: &[u8], mut at: usize, base: u64, sink: &mut impl Sink<PacketItem>) -> usize {
    while let Some(&header) = bytes.get(at) {
        let offset = base + at as u64;
        // Three of four packets are a single byte of atoms.
        if header >= 0xc0 {
            sink.item(Ok(Located { offset, length: 1, value: Packet::Atoms(atoms::from_header(header)) }));
            at += 1;
            continue;
        }
        let Some((address, length)) = common_address(&bytes[at..], header) else { break };
        sink.item(Ok(Located { offset, length: length as u64, value: Packet::Address(address) }));
        at += length;
    }
    at
}

fn unsynchronized(start: u64) -> State {
    State::Skipping { start, zeros: 0, kind: Malformed::NotSynchronized }
}

/// Bytes that are being skipped.
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

/// Number of zeros right before `end`, up to the number that matters; `carried` of them were right before `bytes`.
fn zeros_before(bytes: &[u8], end: usize, carried: u64) -> u64 {
    let wanted = SYNC_ZEROS as usize;
    let zeros = bytes[..end].iter().rev().take(wanted).take_while(|&&byte| byte == 0).count();
    if zeros == end { (zeros as u64 + carried).min(SYNC_ZEROS) } else { zeros as u64 }
}
