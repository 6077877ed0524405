//! Bytes to packets: finds their starts and ends.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! [`PacketDecoder`] takes a stream in chunks of any size and starts at an alignment synchronization. After a header whose
//! payload has no known layout, the bytes up to the next synchronization are one packet, [`Packet::Undecoded`]. Malformed
//! bytes are an error at an offset, after which decoding resumes at the next synchronization.

use super::packet::Packet;
use super::parse::{extension, parse};
use crate::decode::DecodePackets;
use crate::{Located, Malformed, PacketError, Sink};

/// A packet, or bytes that are not one.
pub type PacketItem = crate::PacketItem<Packet>;

/// Minimum number of zero bytes at the start of an alignment synchronization.
const SYNC_ZEROS: u64 = 11;
/// The byte that ends it.
const SYNC_END: u8 = 0x80;

/// Finds the packets of a stream that arrives in chunks.
#[derive(Debug, Clone)]
pub struct PacketDecoder {
    state: State,
    offset: u64,
    /// The last packet ended with a zero: damage may have made it swallow one of a synchronization.
    swallowed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At a packet boundary.
    Synchronized,
    /// Inside a run of zeros that began at a packet boundary.
    Zeros { start: u64 },
    /// Searching for an alignment synchronization; the last `zeros` bytes were zero.
    Skipping(Skip),
}

/// Bytes that are being skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Skip {
    start: u64,
    zeros: u64,
    /// Why they are not packets. `None`: they have no known layout.
    malformed: Option<Malformed>,
}

impl Skip {
    fn up_to(self, end: u64) -> Option<PacketItem> {
        let (offset, length) = (self.start, end - self.start);
        (length > 0).then_some(match self.malformed {
            Some(kind) => Err(PacketError { offset, skipped: length, kind }),
            None => Ok(Located { offset, length, value: Packet::Undecoded }),
        })
    }
}

impl PacketDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self { state: unsynchronized(0), offset: 0, swallowed: false }
    }

    /// Reads until there is an item. `None`: there is none before more bytes arrive.
    fn next(&mut self, mut bytes: &[u8], last: bool) -> Option<PacketItem> {
        while !bytes.is_empty() {
            let (read, item) = match self.state {
                State::Synchronized => self.packet(bytes, last)?,
                State::Zeros { start } => self.zeros(bytes, start),
                State::Skipping(skip) => self.skip(bytes, skip),
            };
            self.offset += read as u64;
            if item.is_some() {
                return item;
            }
            bytes = &bytes[read..];
        }
        if last { self.end() } else { None }
    }

    /// The packet at the start of `bytes`, if it is well-formed; otherwise enters another state. `None`: it is incomplete.
    fn packet(&mut self, bytes: &[u8], last: bool) -> Option<(usize, Option<PacketItem>)> {
        let &header = bytes.first()?;
        if header == 0 {
            self.state = State::Zeros { start: self.offset };
            return Some((0, None));
        }
        let malformed = match parse(bytes, header) {
            Ok(Some((value, length))) => {
                let found = self.found(self.offset, length as u64, value);
                self.swallowed = bytes[length - 1] == 0;
                return Some((length, Some(found)));
            }
            Ok(None) if !last => return None,
            Ok(None) => Malformed::Truncated,
            Err(kind) => kind,
        };
        self.start_skip(self.offset, Some(malformed));
        Some((0, None))
    }

    fn found(&mut self, offset: u64, length: u64, value: Packet) -> PacketItem {
        self.state = State::Synchronized;
        self.swallowed = false;
        if value.hides_the_next() {
            self.start_skip(offset + length, None);
        }
        Ok(Located { offset, length, value })
    }

    fn start_skip(&mut self, start: u64, malformed: Option<Malformed>) {
        self.state = State::Skipping(Skip { start, zeros: 0, malformed });
    }

    /// Continues a run of zeros.
    fn zeros(&mut self, bytes: &[u8], start: u64) -> (usize, Option<PacketItem>) {
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let Some(&end) = bytes.get(zeros) else { return (zeros, None) };
        let run = self.offset + zeros as u64 - start;
        let value = match (run, end) {
            (SYNC_ZEROS.., SYNC_END) => Ok(Packet::AlignmentSync),
            (_, SYNC_END) if self.swallowed && run + 1 == SYNC_ZEROS => Ok(Packet::AlignmentSync),
            (1, end) => extension(end),
            _ => Err(Malformed::BrokenSync),
        };
        match value {
            Ok(value) => (zeros + 1, Some(self.found(start, run + 1, value))),
            Err(kind) => {
                self.start_skip(start, Some(kind));
                (zeros + 1, None)
            }
        }
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
        self.state = State::Skipping(Skip { zeros, ..skip });
        (bytes.len(), None)
    }

    /// Ends the stream: reports an incomplete packet or skipped bytes.
    fn end(&mut self) -> Option<PacketItem> {
        let open = match self.state {
            State::Synchronized => None,
            State::Zeros { start } => {
                Skip { start, zeros: 0, malformed: Some(Malformed::Truncated) }.up_to(self.offset)
            }
            State::Skipping(skip) => skip.up_to(self.offset),
        };
        self.state = unsynchronized(self.offset);
        self.swallowed = false;
        open
    }
}

impl Default for PacketDecoder {
    fn default() -> Self {
        Self::new()
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
            State::Zeros { start } | State::Skipping(Skip { start, .. }) => start,
        }
    }

    fn is_between_packets(&self) -> bool {
        self.state == State::Synchronized
    }

    fn resync_at(&mut self, offset: u64) {
        self.offset = offset;
        self.state = unsynchronized(offset);
        self.swallowed = false;
    }

    fn decode(&mut self, bytes: &[u8], last: bool, mut sink: impl Sink<PacketItem>) -> usize {
        let start = self.offset;
        let mut at = 0;
        while let Some(item) = self.next(&bytes[at..], last) {
            sink.item(item);
            at = (self.offset - start) as usize;
        }
        (self.offset - start) as usize
    }
}

fn unsynchronized(start: u64) -> State {
    State::Skipping(Skip { start, zeros: 0, malformed: Some(Malformed::NotSynchronized) })
}

/// Number of zeros right before `end`, up to the number that matters; `carried` of them were right before `bytes`.
fn zeros_before(bytes: &[u8], end: usize, carried: u64) -> u64 {
    let wanted = SYNC_ZEROS as usize;
    let zeros = bytes[..end].iter().rev().take(wanted).take_while(|&&byte| byte == 0).count();
    if zeros == end { (zeros as u64 + carried).min(SYNC_ZEROS) } else { zeros as u64 }
}
