//! Bytes to packets: finds their starts and ends.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! [`PacketDecoder`] takes a stream in chunks of any size and starts at an alignment synchronization. Malformed bytes
//! are an error at an offset, after which decoding resumes at the next synchronization, even if it started within the
//! packet before; packets and skipped bytes tile the stream, and the chunk boundaries make no difference.

use super::Config;
use super::packet::{Branch, Packet};
use super::parse::{Fault, SYNC_END, SYNC_ZEROS, p_headers, parse, short_branch};
use crate::cursor::Cursor;
use crate::decode::DecodePackets;
use crate::{Located, Malformed, PacketError, Sink};

/// A packet, or bytes that are not one.
pub type PacketItem = crate::PacketItem<Packet>;

/// A branch packet of one byte that may be the stop marker of a trace buffer: a set bit, then zeros up to the end.
const STOP: u8 = 0x01;

/// The first index from `start` on of an alignment synchronization. Soon after it, the trace has all that decoding needs.
pub fn next_start(bytes: &[u8], start: usize) -> Option<usize> {
    const PATTERN: [u8; SYNC_ZEROS as usize + 1] = [0, 0, 0, 0, 0, SYNC_END];
    memchr::memmem::find(bytes.get(start..)?, &PATTERN).map(|found| start + found)
}

/// Finds the packets of a stream that arrives in chunks.
#[derive(Debug, Clone)]
pub struct PacketDecoder {
    config: Config,
    state: State,
    offset: u64,
    /// Number of zero bytes at the end of the last packet: damage may have made it swallow a synchronization.
    swallowed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At a packet boundary.
    Synchronized,
    /// Inside a run of zeros that began at a packet boundary.
    Zeros { start: u64 },
    /// After a byte that is a branch packet or a stop marker, and zeros.
    Stop { start: u64 },
    /// Searching for an alignment synchronization; the last `zeros` bytes were zero.
    Skipping { start: u64, zeros: u64, kind: Malformed },
}

impl PacketDecoder {
    /// A decoder at the start of a stream.
    pub fn new(config: &Config) -> Self {
        Self { config: *config, state: unsynchronized(0), offset: 0, swallowed: 0 }
    }

    /// Reads until there is an item. `None`: there is none before more bytes arrive.
    #[inline(never)]
    pub(super) fn uncommon(&mut self, mut bytes: &[u8], last: bool) -> Option<PacketItem> {
        while !bytes.is_empty() {
            let (read, item) = match self.state {
                State::Synchronized => self.packet(bytes, last)?,
                State::Zeros { start } => self.zeros(bytes, start),
                State::Stop { start } => self.after_stop(bytes, start),
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
        match header {
            0 => {
                self.state = State::Zeros { start: offset };
                return Some((0, None));
            }
            STOP => {
                self.state = State::Stop { start: offset };
                return Some((1, None));
            }
            SYNC_END if self.swallowed >= SYNC_ZEROS => {
                self.swallowed = 0;
                return Some((1, located(offset, 1, Packet::AlignmentSync)));
            }
            _ => {}
        }
        let mut cursor = Cursor::new(bytes);
        let is_accepted = self.config.accepts(header);
        let kind = match parse(&mut cursor, header, &self.config) {
            Ok(value) if is_accepted => {
                let length = cursor.position();
                self.swallowed = trailing_zeros(&bytes[..length]);
                return Some((length, located(offset, length as u64, value)));
            }
            Ok(_) if is_single_byte(header) => {
                // Then there is no doubt about where the next packet starts.
                let kind = Malformed::NotInConfiguration(header);
                self.swallowed = 0;
                return Some((1, Some(Err(PacketError { offset, skipped: 1, kind }))));
            }
            Ok(_) => Malformed::NotInConfiguration(header),
            Err(Fault::Ended) if !last => return None,
            Err(Fault::Ended) => Malformed::Truncated,
            Err(Fault::Malformed(kind)) => kind,
        };
        self.state = State::Skipping { start: offset, zeros: 0, kind };
        Some((0, None))
    }

    /// Continues a run of zeros, which the end of the stream leaves open.
    fn zeros(&mut self, bytes: &[u8], start: u64) -> (usize, Option<PacketItem>) {
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let Some(&end) = bytes.get(zeros) else { return (bytes.len(), None) };
        let run = self.offset + zeros as u64 - start;
        match (run, end) {
            (SYNC_ZEROS.., SYNC_END) => {
                self.state = State::Synchronized;
                self.swallowed = 0;
                (zeros + 1, located(start, run + 1, Packet::AlignmentSync))
            }
            // The packet before has swallowed the start of the synchronization: it is damaged.
            (_, SYNC_END) if run + self.swallowed >= SYNC_ZEROS => {
                self.state = State::Synchronized;
                self.swallowed = SYNC_ZEROS;
                (zeros, Skip { start, zeros: 0, kind: Malformed::BrokenSync }.up_to(start + run))
            }
            _ => {
                self.state = State::Skipping { start, zeros: run + self.swallowed, kind: Malformed::BrokenSync };
                (zeros, None)
            }
        }
    }

    /// Continues after a byte that is a stop marker if nothing but zeros follows.
    fn after_stop(&mut self, bytes: &[u8], start: u64) -> (usize, Option<PacketItem>) {
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        if zeros == bytes.len() {
            return (zeros, None);
        }
        let is_at_once = self.offset + zeros as u64 == start + 1;
        self.state = if is_at_once { State::Synchronized } else { State::Zeros { start: start + 1 } };
        self.swallowed = 0;
        if !self.config.accepts(STOP) {
            let kind = Malformed::NotInConfiguration(STOP);
            return (zeros, Some(Err(PacketError { offset: start, skipped: 1, kind })));
        }
        (zeros, located(start, 1, Packet::Branch(Branch { value: 0, bits: 6, isa: None, exception: None })))
    }

    /// Searches for an alignment synchronization, and stops before the byte that ends it.
    fn skip(&mut self, bytes: &[u8], skip: Skip) -> (usize, Option<PacketItem>) {
        for end in memchr::memchr_iter(SYNC_END, bytes) {
            if zeros_before(bytes, end, skip.zeros) < SYNC_ZEROS {
                continue;
            }
            // Zeros of a packet before the skipped bytes belong to it.
            let start = (self.offset + end as u64).saturating_sub(SYNC_ZEROS).max(skip.start);
            self.swallowed = SYNC_ZEROS;
            self.state = State::Zeros { start };
            return (end, skip.up_to(start));
        }
        let zeros = zeros_before(bytes, bytes.len(), skip.zeros);
        self.state = State::Skipping { start: skip.start, zeros, kind: skip.kind };
        (bytes.len(), None)
    }

    /// Ends the stream: reports an incomplete packet or skipped bytes.
    fn end(&mut self) -> Option<PacketItem> {
        let skip = |start, kind| Skip { start, zeros: 0, kind }.up_to(self.offset);
        let open = match self.state {
            State::Synchronized => None,
            State::Zeros { start } => skip(start, Malformed::Truncated),
            State::Stop { start } => skip(start, Malformed::StopMarker),
            State::Skipping { start, kind, .. } => skip(start, kind),
        };
        self.state = unsynchronized(self.offset);
        self.swallowed = 0;
        open
    }

    /// Reads P-headers and short branches, which are nearly all of a stream. Returns the index of the first other packet.
    #[inline(always)]
    fn common(&mut self, bytes: &[u8], mut at: usize, base: u64, sink: &mut impl Sink<PacketItem>) -> usize {
        if self.config.data_only || self.swallowed > 0 {
            return at;
        }
        let p_headers = p_headers(&self.config);
        while let Some(&header) = bytes.get(at) {
            let offset = base + at as u64;
            if let Some(value) = p_headers[usize::from(header)] {
                sink.item(Ok(Located { offset, length: 1, value: Packet::PHeader(value) }));
                at += 1;
                continue;
            }
            if header & 1 == 0 || header == STOP {
                break;
            }
            // A zero at its end may belong to a synchronization: the slow path counts it.
            let Some((value, length)) = short_branch(&bytes[at..], &self.config) else { break };
            sink.item(Ok(Located { offset, length: length.into(), value: Packet::Branch(value) }));
            at += usize::from(length);
        }
        at
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
            State::Zeros { start } | State::Stop { start } | State::Skipping { start, .. } => start,
        }
    }

    fn is_between_packets(&self) -> bool {
        self.state == State::Synchronized
    }

    fn resync_at(&mut self, offset: u64) {
        self.offset = offset;
        self.state = unsynchronized(offset);
        self.swallowed = 0;
    }

    #[inline(always)]
    fn decode(&mut self, bytes: &[u8], last: bool, mut sink: impl Sink<PacketItem>) -> usize {
        let start = self.offset;
        let mut at = 0;
        loop {
            if self.state == State::Synchronized {
                at = self.common(bytes, at, start, &mut sink);
                self.offset = start + at as u64;
            }
            let Some(item) = self.uncommon(&bytes[at..], last) else { break };
            sink.item(item);
            at = (self.offset - start) as usize;
        }
        (self.offset - start) as usize
    }
}

/// Is a packet with this header a single byte in every configuration?
fn is_single_byte(header: u8) -> bool {
    header & 0x81 == 0x80 || matches!(header, 0x50 | 0x62)
}

fn located(offset: u64, length: u64, value: Packet) -> Option<PacketItem> {
    Some(Ok(Located { offset, length, value }))
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
        let skipped = end.saturating_sub(self.start);
        (skipped > 0).then_some(Err(PacketError { offset: self.start, skipped, kind: self.kind }))
    }
}

/// Number of zeros at the end of `bytes`, up to the number that matters.
fn trailing_zeros(bytes: &[u8]) -> u64 {
    zeros_before(bytes, bytes.len(), 0)
}

/// Number of zeros right before `end`, up to the number that matters; `carried` of them were right before `bytes`.
fn zeros_before(bytes: &[u8], end: usize, carried: u64) -> u64 {
    let wanted = SYNC_ZEROS as usize;
    let zeros = bytes[..end].iter().rev().take(wanted).take_while(|&&byte| byte == 0).count();
    if zeros == end { (zeros as u64 + carried).min(SYNC_ZEROS) } else { zeros as u64 }
}
