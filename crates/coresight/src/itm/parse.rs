//! Parser of one packet: the specification's table of headers.
//!
//! Takes eight bytes, as a number with the first one in the low bits, that start with a packet and not with a synchronization;
//! no packet is longer. Produces the packet, or the reason why there is none. `read.rs` finds the starts of packets, and
//! synchronizations. There is no branch per byte, since lengths cannot be predicted.

use super::packet::{Extension, Hardware, Packet, Relation};
use crate::Malformed;
use crate::cursor::{continued, sevens};

/// Minimum number of zero bytes at the start of a synchronization.
pub(super) const SYNC_ZEROS: u64 = 5;
/// The byte that ends it.
pub(super) const SYNC_END: u8 = 0x80;

/// Consumer of a packet. A closure would not always be inlined, and a packet that is returned is put together in memory.
pub(super) trait Emit {
    /// Takes a packet, and its number of bytes, which may be more than there are. Returns that number; 0: the packet is refused.
    fn emit(&mut self, packet: Packet, bytes: u32) -> u32;
}

/// Parses one packet, one line per encoding. Returns what [`Emit::emit`] does.
#[inline(always)]
pub(super) fn parse(word: u64, to: &mut impl Emit) -> Result<u32, Malformed> {
    let header = word as u8;
    Ok(match header {
        _ if header & 7 > 4 => hardware(word, to),
        _ if header & 3 != 0 => software(word, to),
        0x70 => to.emit(Packet::Overflow, 1),
        0x10 | 0x20 | 0x30 | 0x40 | 0x50 | 0x60 => to.emit(Packet::LocalTimestamp2 { ticks: header >> 4 }, 1),
        0xc0 | 0xd0 | 0xe0 | 0xf0 => {
            let (ticks, bytes) = payload::<4>(word)?;
            let relation = Relation::from_bits(header >> 4);
            to.emit(Packet::LocalTimestamp1 { ticks: ticks as u32, relation }, 1 + bytes)
        }
        0x94 => global_timestamp_1(word, to)?,
        0xb4 => {
            let (value, bytes) = payload::<6>(word)?;
            to.emit(Packet::GlobalTimestamp2 { value: value & ((1 << 38) - 1), bytes: bytes as u8 }, 1 + bytes)
        }
        _ if header & 0x0b == 0x08 => extension(word, to),
        _ => return Err(Malformed::ReservedHeader(header)),
    })
}

#[inline(always)]
fn software(word: u64, to: &mut impl Emit) -> u32 {
    let (port, size, value) = source(word);
    to.emit(Packet::Software { port, size, value }, 1 + u32::from(size))
}

#[inline(always)]
fn hardware(word: u64, to: &mut impl Emit) -> u32 {
    let (discriminator, size, value) = source(word);
    to.emit(Packet::Hardware(Hardware { discriminator, size, value }), 1 + u32::from(size))
}

/// The number, the size and the value of a source packet.
#[inline(always)]
fn source(word: u64) -> (u8, u8, u32) {
    const MASKS: [u32; 4] = [0, 0xff, 0xffff, u32::MAX];
    let code = word as u8 & 3;
    // 1, 2, 3 mean 1, 2, 4 bytes.
    let size = code + (code + 1) / 4;
    ((word as u8) >> 3, size, (word >> 8) as u32 & MASKS[usize::from(code)])
}

/// 7 bits per byte after the header, continued while bit 7 is set, in at most `MAX` bytes. Returns the value and its number of
/// bytes.
#[inline(always)]
fn payload<const MAX: u32>(word: u64) -> Result<(u64, u32), Malformed> {
    let (value, bytes) = continued(word >> 8);
    if bytes > MAX { Err(Malformed::EndlessField) } else { Ok((value, bytes)) }
}

#[inline(always)]
fn global_timestamp_1(word: u64, to: &mut impl Emit) -> Result<u32, Malformed> {
    let (value, bytes) = payload::<4>(word)?;
    let is_full = bytes == 4;
    let bits = if is_full { 26 } else { 7 * bytes as u8 };
    let packet = Packet::GlobalTimestamp1 {
        value: value as u32 & ((1 << bits) - 1),
        bits,
        clock_change: is_full && value >> 26 & 1 == 1,
        wrap: is_full && value >> 27 & 1 == 1,
    };
    Ok(to.emit(packet, 1 + bytes))
}

#[inline(always)]
fn extension(word: u64, to: &mut impl Emit) -> u32 {
    let low = (word >> 4 & 7) as u32;
    let (high, bytes, bits) = match continued(word >> 8) {
        _ if word & 0x80 == 0 => (0, 0, 0),
        (high, bytes @ ..=3) => (high, bytes, 7 * bytes as u8),
        // The fourth payload byte has no continuation bit.
        _ => (sevens(word >> 8 & 0xff_ffff) | (word >> 32 & 0xff) << 21, 4, 29),
    };
    let extension = Extension { hardware: word & 4 != 0, bits: 3 + bits, value: low | (high as u32) << 3 };
    to.emit(Packet::Extension(extension), 1 + bytes)
}
