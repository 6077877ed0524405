//! Bytes to packets: finds their starts and ends.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! [`PacketDecoder`] takes a stream in chunks of any size. It starts at the first synchronization; if there is none near
//! the start, at the first byte, and reports that this is presumed: an ITM may be configured to send none. A
//! synchronization is recognized inside of packets too. Malformed bytes are an error at an offset, after which decoding
//! resumes at the next synchronization, or, before the first one, at the next byte. Packets and skipped bytes tile the
//! stream, and the chunk boundaries make no difference.

use super::packet::Packet;
use super::parse::{Emit, SYNC_END, SYNC_ZEROS, parse};
use crate::decode::DecodePackets;
use crate::{Located, Malformed, PacketError, Sink};

/// A packet, or bytes that are not one.
pub type PacketItem = crate::PacketItem<Packet>;

/// Number of bytes that are searched for a synchronization before the first byte is presumed to start a packet.
const PROBE: usize = 64 << 10;

/// The shortest synchronization.
const SYNC: [u8; SYNC_ZEROS as usize + 1] = [0, 0, 0, 0, 0, SYNC_END];

/// Its bytes as a number, the first one in the low bits.
const SYNC_WORD: u64 = (SYNC_END as u64) << (8 * SYNC_ZEROS);

/// Finds the packets of a stream that arrives in chunks.
#[derive(Debug, Clone)]
pub struct PacketDecoder {
    state: State,
    /// A synchronization was seen, so that there are more to wait for.
    has_synchronized: bool,
    offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the start, or after a break: is there a synchronization?
    Probing,
    /// At a packet boundary.
    Synchronized,
    /// Inside a run of zeros that began at a packet boundary.
    Zeros { start: u64 },
    /// Searching for a synchronization; the last `zeros` bytes were zero.
    Skipping { start: u64, zeros: u64, kind: Malformed },
}

/// Bytes read, and the item that they complete.
type Read = (usize, Option<PacketItem>);

impl Default for PacketDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl PacketDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self { state: State::Probing, has_synchronized: false, offset: 0 }
    }

    /// Reads until there is an item. `None`: there is none before more bytes arrive.
    #[cold]
    #[inline(never)]
    fn uncommon(&mut self, mut bytes: &[u8], last: bool) -> Option<PacketItem> {
        while !bytes.is_empty() {
            let (read, item) = match self.state {
                State::Probing => self.probe(bytes, last)?,
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

    /// Looks for a synchronization near the start. `None`: more bytes are needed to decide.
    fn probe(&mut self, bytes: &[u8], last: bool) -> Option<Read> {
        let near = &bytes[..bytes.len().min(PROBE)];
        let offset = self.offset;
        if let Some(skipped) = memchr::memmem::find(near, &SYNC) {
            // Zeros before it lengthen it, if nothing else is skipped.
            let is_all_zero = near[..skipped].iter().all(|&byte| byte == 0);
            let skipped = if is_all_zero { 0 } else { skipped };
            self.state = State::Zeros { start: offset + skipped as u64 };
            let skip = Skip { start: offset, zeros: 0, kind: Malformed::NotSynchronized };
            return Some((skipped, skip.up_to(offset + skipped as u64)));
        }
        if near.len() < PROBE && !last {
            return None;
        }
        self.state = State::Synchronized;
        Some((0, Some(Err(PacketError { offset, skipped: 0, kind: Malformed::PresumedStart }))))
    }

    /// The packet at the start of `bytes`, if it is well-formed; otherwise enters another state. `None`: it is
    /// incomplete.
    fn packet(&mut self, bytes: &[u8], last: bool) -> Option<Read> {
        let offset = self.offset;
        if bytes.first() == Some(&0) {
            self.state = State::Zeros { start: offset };
            return Some((0, None));
        }
        let mut parsed = None;
        match (parse(window(bytes), &mut parsed), parsed) {
            (Ok(_), Some(Parsed { value, length })) if length <= bytes.len() => {
                let Some(zeros) = zeros_of_sync(bytes, length, last)? else {
                    return Some((length, Some(Ok(Located { offset, length: length as u64, value }))));
                };
                // The synchronization starts inside of this packet.
                let start = offset + (length + zeros) as u64 - SYNC_ZEROS;
                self.state = State::Zeros { start };
                Some((length, Skip { start: offset, zeros: 0, kind: Malformed::CutBySync }.up_to(start)))
            }
            (Ok(_), _) if !last => None,
            (Ok(_), _) => {
                self.state = State::Skipping { start: offset, zeros: 0, kind: Malformed::Truncated };
                Some((0, None))
            }
            (Err(kind), _) => Some(self.malformed(offset, 1, kind)),
        }
    }

    /// Reports or starts to skip malformed bytes at the current offset, of which `length` are certain.
    fn malformed(&mut self, start: u64, length: usize, kind: Malformed) -> Read {
        if self.has_synchronized {
            self.state = State::Skipping { start, zeros: 0, kind };
            return (0, None);
        }
        self.state = State::Synchronized;
        let skip = Skip { start, zeros: 0, kind };
        (length, skip.up_to(self.offset + length as u64))
    }

    /// Continues a run of zeros.
    fn zeros(&mut self, bytes: &[u8], start: u64, last: bool) -> Read {
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let Some(&end) = bytes.get(zeros) else {
            if last {
                self.state = State::Skipping { start, zeros: 0, kind: Malformed::Truncated };
            }
            return (bytes.len(), None);
        };
        let run = self.offset + zeros as u64 - start;
        if run < SYNC_ZEROS || end != SYNC_END {
            let (_, item) = self.malformed(start, zeros, Malformed::BrokenSync);
            return (zeros, item);
        }
        self.state = State::Synchronized;
        self.has_synchronized = true;
        (zeros + 1, Some(Ok(Located { offset: start, length: run + 1, value: Packet::Sync })))
    }

    /// Searches for a synchronization, and stops before the byte that ends it.
    fn skip(&mut self, bytes: &[u8], skip: Skip) -> Read {
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

    /// Reads packets. Returns the index of the first that is malformed, near the end, or that a synchronization may cut.
    #[inline(always)]
    fn common(&mut self, bytes: &[u8], mut at: usize, base: u64, sink: &mut impl Sink<PacketItem>) -> usize {
        while let Some(&window) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let word = u64::from_le_bytes(window);
            let mut here = Here { word, offset: base + at as u64, sink };
            let length = match parse(word, &mut here) {
                Ok(length) => length,
                Err(_) if word << 16 == SYNC_WORD << 16 => {
                    self.has_synchronized = true;
                    here.emit(Packet::Sync, SYNC.len() as u32)
                }
                Err(_) => break,
            };
            if length == 0 {
                break;
            }
            at += length as usize;
        }
        at
    }

    /// Ends the stream: reports an incomplete packet or skipped bytes.
    fn end(&mut self) -> Option<PacketItem> {
        let open = match self.state {
            State::Probing | State::Synchronized => None,
            State::Zeros { start } => Skip { start, zeros: 0, kind: Malformed::Truncated }.up_to(self.offset),
            State::Skipping { start, zeros, kind } => Skip { start, zeros, kind }.up_to(self.offset),
        };
        self.state = State::Probing;
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
            State::Probing | State::Synchronized => self.offset,
            State::Zeros { start } | State::Skipping { start, .. } => start,
        }
    }

    fn is_between_packets(&self) -> bool {
        self.state == State::Synchronized
    }

    fn resync_at(&mut self, offset: u64) {
        self.offset = offset;
        self.state = State::Probing;
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

/// Locates a packet at the start of eight bytes, if no synchronization may cut it.
struct Here<'s, S> {
    word: u64,
    offset: u64,
    sink: &'s mut S,
}

impl<S: Sink<PacketItem>> Emit for Here<'_, S> {
    #[inline(always)]
    fn emit(&mut self, value: Packet, bytes: u32) -> u32 {
        // The last byte and the one after it.
        if self.word >> (8 * (bytes - 1)) & 0xffff == 0 {
            return 0;
        }
        self.sink.item(Ok(Located { offset: self.offset, length: bytes.into(), value }));
        bytes
    }
}

/// A packet that was parsed.
struct Parsed {
    value: Packet,
    length: usize,
}

impl Emit for Option<Parsed> {
    fn emit(&mut self, value: Packet, bytes: u32) -> u32 {
        *self = Some(Parsed { value, length: bytes as usize });
        bytes
    }
}

/// The first eight bytes, or all and zeros after them: those end a field that `bytes` cut, so that its packet is longer than
/// `bytes`.
fn window(bytes: &[u8]) -> u64 {
    let mut window = [0; 8];
    window.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(window)
}

/// Whether a synchronization starts inside of a packet of this length: the number of its zeros after the packet. The
/// outer `None`: more bytes are needed to decide.
#[inline]
#[allow(clippy::option_option, reason = "the question may be undecided")]
fn zeros_of_sync(bytes: &[u8], length: usize, last: bool) -> Option<Option<usize>> {
    let wanted = SYNC_ZEROS as usize;
    let inside = bytes[1..length].iter().rev().take_while(|&&byte| byte == 0).count();
    if inside == 0 {
        return Some(None);
    }
    let after = bytes[length..].iter().take(wanted).take_while(|&&byte| byte == 0).count();
    match bytes.get(length + after) {
        None if !last && after < wanted => None,
        Some(&SYNC_END) if after < wanted && inside + after >= wanted => Some(Some(after)),
        _ => Some(None),
    }
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
