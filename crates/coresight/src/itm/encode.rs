//! Packets to bytes: the inverse of the packet decoder.
//!
//! Takes packets. Produces their bytes, in the shortest form. A packet that an ITM cannot send is refused, so everything
//! that is written can be read back.

use alloc::vec::Vec;

use super::packet::{Extension, Hardware, Packet};

/// A packet that an ITM cannot send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an ITM has no packet '{0}'")]
pub struct Unencodable(pub Packet);

impl Packet {
    /// Appends the packet's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        encode(self, out).ok_or(Unencodable(*self))
    }
}

/// Writes nothing unless the packet can be written.
fn encode(packet: &Packet, out: &mut Vec<u8>) -> Option<()> {
    match *packet {
        Packet::Sync => out.extend_from_slice(&[0, 0, 0, 0, 0, 0x80]),
        Packet::Overflow => out.push(0x70),
        Packet::LocalTimestamp1 { ticks, relation } => {
            below(ticks.into(), 28)?;
            out.push(0xc0 | (relation as u8) << 4);
            payload(ticks.into(), continued_bytes(ticks.into()), out);
        }
        Packet::LocalTimestamp2 { ticks: ticks @ 1..=6 } => out.push(ticks << 4),
        Packet::LocalTimestamp2 { .. } => return None,
        Packet::GlobalTimestamp1 { value, bits: 26, wrap, clock_change } => {
            below(value.into(), 26)?;
            out.push(0x94);
            payload(u64::from(value) | u64::from(clock_change) << 26 | u64::from(wrap) << 27, 4, out);
        }
        Packet::GlobalTimestamp1 { value, bits: bits @ (7 | 14 | 21), wrap: false, clock_change: false } => {
            below(value.into(), bits)?;
            out.push(0x94);
            payload(value.into(), bits / 7, out);
        }
        Packet::GlobalTimestamp1 { .. } => return None,
        Packet::GlobalTimestamp2 { value, bytes: bytes @ (4 | 6) } => {
            below(value, if bytes == 4 { 22 } else { 38 })?;
            out.push(0xb4);
            payload(value, bytes, out);
        }
        Packet::GlobalTimestamp2 { .. } => return None,
        Packet::Extension(new) => extension(new, out)?,
        Packet::Software { port, size, value } => source(port, 0, size, value, out)?,
        Packet::Hardware(Hardware { discriminator, size, value }) => source(discriminator, 4, size, value, out)?,
    }
    Some(())
}

/// A value that has to fit a field.
fn below(value: u64, bits: u8) -> Option<()> {
    (value >> bits == 0).then_some(())
}

/// The fewest bytes of 7 bits for a value.
fn continued_bytes(value: u64) -> u8 {
    (64 - value.leading_zeros()).div_ceil(7).max(1) as u8
}

fn payload(value: u64, bytes: u8, out: &mut Vec<u8>) {
    for index in 0..bytes {
        let more = if index + 1 < bytes { 0x80 } else { 0 };
        out.push((value >> (7 * index)) as u8 & 0x7f | more);
    }
}

fn extension(Extension { hardware, bits, value }: Extension, out: &mut Vec<u8>) -> Option<()> {
    let bytes = match bits {
        3 => 0,
        10 => 1,
        17 => 2,
        24 => 3,
        32 => 4,
        _ => return None,
    };
    below(value.into(), bits)?;
    let more = if bytes > 0 { 0x80 } else { 0 };
    out.push(0x08 | more | (value as u8 & 7) << 4 | u8::from(hardware) << 2);
    let high = u64::from(value) >> 3;
    if bytes == 4 {
        payload(high & 0x1f_ffff, 3, out);
        // All of the bytes before the last are continued.
        if let Some(third) = out.last_mut() {
            *third |= 0x80;
        }
        out.push((value >> 24) as u8);
    } else {
        payload(high, bytes, out);
    }
    Some(())
}

fn source(number: u8, hardware: u8, size: u8, value: u32, out: &mut Vec<u8>) -> Option<()> {
    let code = match size {
        1 => 1,
        2 => 2,
        4 => 3,
        _ => return None,
    };
    below(number.into(), 5)?;
    below(value.into(), 8 * size)?;
    out.push(number << 3 | hardware | code);
    out.extend_from_slice(&value.to_le_bytes()[..usize::from(size)]);
    Some(())
}
