//! Parser of one packet: the specification's table of headers.
//!
//! Takes bytes that start with a packet, and not with a synchronization. Produces the packet, or the reason why there is
//! none. `read.rs` finds the starts of packets, and synchronizations.

use super::packet::{Extension, Hardware, Packet, Relation};
use crate::Malformed;
use crate::cursor::{Cursor, Ended};

/// Minimum number of zero bytes at the start of a synchronization.
pub(super) const SYNC_ZEROS: u64 = 5;
/// The byte that ends it.
pub(super) const SYNC_END: u8 = 0x80;

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Ended,
    Malformed(Malformed),
}

impl From<Ended> for Fault {
    fn from(_: Ended) -> Self {
        Fault::Ended
    }
}

/// Parses one packet, one line per encoding.
#[inline]
pub(super) fn parse(input: &mut Cursor<'_>) -> Result<Packet, Fault> {
    let header = input.u8()?;
    Ok(match header {
        0x70 => Packet::Overflow,
        0x10 | 0x20 | 0x30 | 0x40 | 0x50 | 0x60 => Packet::LocalTimestamp2 { ticks: header >> 4 },
        0xc0 | 0xd0 | 0xe0 | 0xf0 => {
            Packet::LocalTimestamp1 { ticks: payload::<4>(input)?.0 as u32, relation: Relation::from_bits(header >> 4) }
        }
        0x94 => global_timestamp_1(input)?,
        0xb4 => {
            let (value, bytes) = payload::<6>(input)?;
            Packet::GlobalTimestamp2 { value: value & ((1 << 38) - 1), bytes }
        }
        _ if header & 0x0b == 0x08 => extension(input, header)?,
        _ if header & 3 != 0 => source(input, header)?,
        _ => return Err(Fault::Malformed(Malformed::ReservedHeader(header))),
    })
}

/// 7 bits per byte, continued while bit 7 is set, in at most `MAX` bytes. Returns the value and its number of bytes.
fn payload<const MAX: u8>(input: &mut Cursor<'_>) -> Result<(u64, u8), Fault> {
    let mut value = 0;
    for index in 0..MAX {
        let byte = input.u8()?;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, index + 1));
        }
    }
    Err(Fault::Malformed(Malformed::EndlessField))
}

fn global_timestamp_1(input: &mut Cursor<'_>) -> Result<Packet, Fault> {
    let (value, bytes) = payload::<4>(input)?;
    let is_full = bytes == 4;
    let bits = if is_full { 26 } else { 7 * bytes };
    Ok(Packet::GlobalTimestamp1 {
        value: value as u32 & ((1 << bits) - 1),
        bits,
        clock_change: is_full && value >> 26 & 1 == 1,
        wrap: is_full && value >> 27 & 1 == 1,
    })
}

fn extension(input: &mut Cursor<'_>, header: u8) -> Result<Packet, Fault> {
    let low = u32::from(header >> 4 & 7);
    // The fourth payload byte has no continuation bit.
    let (high, bits) = if header & 0x80 == 0 { (0, 0) } else { input.continued::<4>()? };
    let bits = 3 + bits;
    Ok(Packet::Extension(Extension { hardware: header & 4 != 0, bits, value: low | (high as u32) << 3 }))
}

#[inline]
fn source(input: &mut Cursor<'_>, header: u8) -> Result<Packet, Fault> {
    let size = source_size(header);
    let value = input.little_endian(size)?;
    Ok(source_packet(header, size, value))
}

/// Number of payload bytes of a source packet.
#[inline(always)]
pub(super) fn source_size(header: u8) -> u8 {
    // 1, 2, 3 mean 1, 2, 4 bytes.
    (header & 3) + (header & 3) / 3
}

#[inline(always)]
pub(super) fn source_packet(header: u8, size: u8, value: u32) -> Packet {
    let number = header >> 3;
    if header & 4 == 0 {
        Packet::Software { port: number, size, value }
    } else {
        Packet::Hardware(Hardware { discriminator: number, size, value })
    }
}
