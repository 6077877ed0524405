//! Bytes to packets: finds their starts and ends.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! [`PacketDecoder`] takes a stream in chunks of any size and starts at an alignment synchronization. Malformed bytes
//! are an error at an offset, after which decoding resumes at the next synchronization; packets and skipped bytes tile
//! the stream, and the chunk boundaries make no difference. A packet that was read from damaged bytes may have taken zeros
//! of a synchronization: those count too, so the synchronization is found, and has the bytes that are left of it.

use super::Config;
use super::packet::{Address, Branch, Packet};
use super::parse::{Fault, SYNC_END, SYNC_ZEROS, atoms, parse, whole_address};
use crate::cursor::{Cursor, ShortAddress, address_bits, short_address};
use crate::decode::DecodePackets;
use crate::{Atoms, Located, Malformed, PacketError, Sink};

/// A packet, or bytes that are not one.
pub type PacketItem = crate::PacketItem<Packet>;

/// The first index from `start` on where an alignment synchronization is followed by an instruction synchronization:
/// decoding can start there without anything that came before.
pub fn next_start(bytes: &[u8], start: usize) -> Option<usize> {
    const PATTERN: [u8; SYNC_ZEROS as usize + 2] = [0, 0, 0, 0, 0, SYNC_END, 0x08];
    memchr::memmem::find(bytes.get(start..)?, &PATTERN).map(|found| start + found)
}

/// Finds the packets of a stream that arrives in chunks.
#[derive(Debug, Clone)]
pub struct PacketDecoder {
    config: Config,
    state: State,
    offset: u64,
    /// Number of zeros right before `offset`, up to the number that matters.
    zeros: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At a packet boundary.
    Synchronized,
    /// Inside a run of zeros from `start` on. The packet before ended with `before` more.
    Zeros { start: u64, before: u64 },
    /// Searching for an alignment synchronization; the last `zeros` bytes were zero.
    Skipping { start: u64, zeros: u64, kind: Malformed },
}

impl PacketDecoder {
    /// A decoder at the start of a stream.
    pub fn new(config: &Config) -> Self {
        Self { config: *config, state: unsynchronized(0), offset: 0, zeros: 0 }
    }

    /// Reads until there is an item. `None`: there is none before more bytes arrive. `bytes` are those from the start of the
    /// chunk on; the first `at` of them have been read.
    #[inline(never)]
    pub(super) fn uncommon(&mut self, bytes: &[u8], mut at: usize, last: bool) -> Option<PacketItem> {
        while at < bytes.len() {
            let (read, item) = match self.state {
                State::Synchronized => self.packet(bytes, at, last)?,
                State::Zeros { start, before } => self.zeros(&bytes[at..], start, before, last),
                State::Skipping { start, zeros, kind } => self.skip(&bytes[at..], Skip { start, zeros, kind }),
            };
            self.offset += read as u64;
            if item.is_some() {
                return item;
            }
            at += read;
        }
        if last { self.end() } else { None }
    }

    /// The packet at index `at`, if it is well-formed; otherwise enters another state. `None`: it is incomplete.
    fn packet(&mut self, bytes: &[u8], at: usize, last: bool) -> Option<(usize, Option<PacketItem>)> {
        let &header = bytes.get(at)?;
        let offset = self.offset;
        let before = zeros_before(bytes, at, self.zeros);
        if header == 0 {
            self.state = State::Zeros { start: offset, before };
            return Some((0, None));
        }
        let mut cursor = Cursor::new(&bytes[at..]);
        let kind = match parse(&mut cursor, header, &self.config) {
            Ok(value) if self.config.accepts(header) => {
                let length = cursor.position();
                return Some((length, Some(Ok(Located { offset, length: length as u64, value }))));
            }
            Ok(_) if cursor.position() == 1 => {
                // A single byte leaves no doubt about where the next packet starts.
                let kind = Malformed::NotInConfiguration(header);
                return Some((1, Some(Err(PacketError { offset, skipped: 1, kind }))));
            }
            Ok(_) => Malformed::NotInConfiguration(header),
            Err(Fault::Ended) if !last => return None,
            Err(Fault::Ended) => Malformed::Truncated,
            Err(Fault::Malformed(kind)) => kind,
        };
        self.state = State::Skipping { start: offset, zeros: before, kind };
        Some((0, None))
    }

    /// Continues a run of zeros.
    fn zeros(&mut self, bytes: &[u8], start: u64, before: u64, last: bool) -> (usize, Option<PacketItem>) {
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let run = self.offset + zeros as u64 - start;
        let enough = (run + before).min(SYNC_ZEROS);
        let Some(&end) = bytes.get(zeros) else {
            if last {
                self.state = State::Skipping { start, zeros: enough, kind: Malformed::Truncated };
            }
            return (bytes.len(), None);
        };
        if end == SYNC_END && enough == SYNC_ZEROS {
            self.state = State::Synchronized;
            let value = Packet::AlignmentSync;
            return (zeros + 1, Some(Ok(Located { offset: start, length: run + 1, value })));
        }
        self.state = State::Skipping { start, zeros: enough, kind: Malformed::BrokenSync };
        (zeros, None)
    }

    /// Searches for an alignment synchronization, and stops before the byte that ends it.
    fn skip(&mut self, bytes: &[u8], skip: Skip) -> (usize, Option<PacketItem>) {
        for end in memchr::memchr_iter(SYNC_END, bytes) {
            if zeros_before(bytes, end, skip.zeros) < SYNC_ZEROS {
                continue;
            }
            let end_offset = self.offset + end as u64;
            let start = end_offset.saturating_sub(SYNC_ZEROS).max(skip.start);
            self.state = State::Zeros { start, before: SYNC_ZEROS };
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
            State::Zeros { start, .. } => Skip { start, zeros: 0, kind: Malformed::Truncated }.up_to(self.offset),
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
            State::Zeros { start, .. } | State::Skipping { start, .. } => start,
        }
    }

    fn is_between_packets(&self) -> bool {
        self.state == State::Synchronized
    }

    fn resync_at(&mut self, offset: u64) {
        self.offset = offset;
        self.zeros = 0;
        self.state = unsynchronized(offset);
    }

    #[inline(always)]
    fn decode(&mut self, bytes: &[u8], last: bool, mut sink: impl Sink<PacketItem>) -> usize {
        let start = self.offset;
        let mut at = 0;
        loop {
            if self.state == State::Synchronized && !self.config.cycle_accurate {
                at = common(bytes, at, start, &mut sink);
                self.offset = start + at as u64;
            }
            let Some(item) = self.uncommon(bytes, at, last) else { break };
            sink.item(item);
            at = (self.offset - start) as usize;
        }
        let read = (self.offset - start) as usize;
        self.zeros = if last { 0 } else { zeros_before(bytes, read, self.zeros) };
        read
    }
}

/// The outcomes in the header of each atom packet.
static ATOMS: [Atoms; 256] = {
    let mut table = [Atoms::new(0, 0); 256];
    let mut header = 0x84;
    while header < table.len() {
        table[header] = atoms(header as u8);
        header += 2;
    }
    table
};

/// Reads atoms and branches without further information, which are nearly all of a stream without cycle counts. Returns
/// the index of the first other packet.
#[inline(always)]
fn common(bytes: &[u8], mut at: usize, base: u64, sink: &mut impl Sink<PacketItem>) -> usize {
    while let Some(&header) = bytes.get(at) {
        let offset = base + at as u64;
        let atoms = ATOMS[usize::from(header)];
        if !atoms.is_empty() {
            sink.item(Ok(Located { offset, length: 1, value: Packet::Atoms { atoms, cycles: None } }));
            at += 1;
            continue;
        }
        if header & 1 == 0 {
            break;
        }
        let rest = &bytes[at..];
        let Some(address) = short_branch(rest).or_else(|| long_branch(rest)) else { break };
        let value = Packet::Branch(Branch { address, info: None, cycles: None });
        sink.item(Ok(Located { offset, length: u64::from(address.bytes), value }));
        at += usize::from(address.bytes);
    }
    at
}

/// The address of a branch packet of up to four bytes without information bytes.
#[inline(always)]
fn short_branch(bytes: &[u8]) -> Option<Address> {
    let ShortAddress { value, length, last } = short_address(bytes)?;
    // Without a branch: whether there is one byte cannot be predicted.
    let has_info = (length > 1) & (last & 0x40 != 0);
    (!has_info).then_some(Address::low(length, value))
}

/// The address of a branch packet of five bytes without information bytes.
#[inline(always)]
fn long_branch(bytes: &[u8]) -> Option<Address> {
    const MORE: u32 = 0x8080_8080;
    let &[a, b, c, d, last] = bytes.first_chunk()?;
    let word = u32::from_le_bytes([a, b, c, d]);
    let (address, has_info) = whole_address(address_bits(word), last).ok()?;
    (word & MORE == MORE && !has_info).then_some(address)
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

/// Number of zeros right before `end`, up to the number that matters; `carried` of them were right before `bytes`.
fn zeros_before(bytes: &[u8], end: usize, carried: u64) -> u64 {
    let wanted = SYNC_ZEROS as usize;
    let zeros = bytes[..end].iter().rev().take(wanted).take_while(|&&byte| byte == 0).count();
    if zeros == end { (zeros as u64 + carried).min(SYNC_ZEROS) } else { zeros as u64 }
}
