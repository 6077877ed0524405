//! Parser of one packet: the table of opcodes.
//!
//! Takes nibbles that start with a packet, and neither with a NULL nor with an ASYNC. Produces its content, or the
//! reason why there is none. `read.rs` finds the starts of packets. The lengths of TIME, DIP and the opcodes of STP 2.4
//! after FF are not public: they are reported like reserved ones.

use super::nibbles::Nibbles;
use super::packet::{Body, Timestamp, TimestampFormat, Version};
use crate::Malformed;
use crate::cursor::Ended;

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

fn reserved(opcode: u16) -> Fault {
    Fault::Malformed(Malformed::ReservedOpcode(opcode))
}

/// Parses one packet, one line per opcode.
#[inline(always)]
pub(super) fn parse(input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Body, Fault> {
    Ok(match input.one()? {
        1 => Body::Master { value: input.payload(2)? as u16, wide: false },
        2 => Body::MasterError(input.payload(2)? as u8),
        3 => Body::Channel { value: input.payload(2)? as u16, wide: false },
        4 => data(input, 8, false)?,
        5 => data(input, 16, false)?,
        6 => data(input, 32, false)?,
        7 => data(input, 64, false)?,
        8 => data_with_time(input, 8, true, format)?,
        9 => data_with_time(input, 16, true, format)?,
        0xa => data_with_time(input, 32, true, format)?,
        0xb => data_with_time(input, 64, true, format)?,
        0xc => data(input, 4, false)?,
        0xd => data_with_time(input, 4, true, format)?,
        0xe => Body::Flag(Some(timestamp(input, format)?)),
        0xf => two_nibbles(input, format)?,
        opcode => return Err(reserved(opcode.into())),
    })
}

#[inline(always)]
fn two_nibbles(input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Body, Fault> {
    Ok(match input.one()? {
        0 => three_nibbles(input, format)?,
        1 => Body::Master { value: input.payload(4)? as u16, wide: true },
        2 => Body::GlobalError(input.payload(2)? as u8),
        3 => Body::Channel { value: input.payload(4)? as u16, wide: true },
        4 => data_with_time(input, 8, false, format)?,
        5 => data_with_time(input, 16, false, format)?,
        6 => data_with_time(input, 32, false, format)?,
        7 => data_with_time(input, 64, false, format)?,
        8 => data(input, 8, true)?,
        9 => data(input, 16, true)?,
        0xa => data(input, 32, true)?,
        0xb => data(input, 64, true)?,
        0xc => data_with_time(input, 4, false, format)?,
        0xd => data(input, 4, true)?,
        0xe => Body::Flag(None),
        opcode => return Err(reserved(0xf0 | u16::from(opcode))),
    })
}

#[cold]
#[inline(never)]
fn three_nibbles(input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Body, Fault> {
    let opcode = input.one()?;
    Ok(match opcode {
        0 => Body::Version(version(input)?),
        1 => Body::NullTimestamp(timestamp(input, format)?),
        2 | 3 => {
            let nibbles = input.one()? + 1;
            let value = input.payload(nibbles.into())?;
            Body::User { value, nibbles, timestamp: time_if(opcode == 3, input, format)? }
        }
        6 | 7 => {
            let value = input.payload(2)? as u8;
            Body::Trigger { value, timestamp: time_if(opcode == 7, input, format)? }
        }
        8 | 9 => frequency(input, 8, opcode == 9, format)?,
        0xa | 0xb => {
            let value = input.payload(2)? as u8;
            Body::CrossSync { value, timestamp: time_if(opcode == 0xb, input, format)? }
        }
        0xf => four_nibbles(input, format)?,
        opcode => return Err(reserved(0xf00 | u16::from(opcode))),
    })
}

fn four_nibbles(input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Body, Fault> {
    let opcode = input.one()?;
    Ok(match opcode {
        0 | 1 => frequency(input, 10, opcode == 1, format)?,
        3 => Body::ChannelError(input.payload(2)? as u8),
        opcode => return Err(reserved(0xf0f0 | u16::from(opcode))),
    })
}

#[inline(always)]
fn data(input: &mut Nibbles<'_>, bits: u8, marked: bool) -> Result<Body, Fault> {
    let value = input.payload(usize::from(bits / 4))?;
    Ok(Body::Data { value, bits, marked, timestamp: None })
}

#[inline(always)]
fn data_with_time(input: &mut Nibbles<'_>, bits: u8, marked: bool, format: TimestampFormat) -> Result<Body, Fault> {
    let value = input.payload(usize::from(bits / 4))?;
    Ok(Body::Data { value, bits, marked, timestamp: Some(timestamp(input, format)?) })
}

fn frequency(input: &mut Nibbles<'_>, nibbles: usize, timed: bool, format: TimestampFormat) -> Result<Body, Fault> {
    let value = input.payload(nibbles)?;
    Ok(Body::Frequency { value, wide: nibbles > 8, timestamp: time_if(timed, input, format)? })
}

fn time_if(timed: bool, input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Option<Timestamp>, Fault> {
    timed.then(|| timestamp(input, format)).transpose()
}

#[inline(always)]
fn timestamp(input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Timestamp, Fault> {
    if let TimestampFormat::Legacy(_) = format {
        return Ok(Timestamp { value: input.payload(2)?, nibbles: 2 });
    }
    let nibbles = match input.one()? {
        length @ 0..=12 => length,
        13 => 14,
        14 => 16,
        _ => return Err(Fault::Malformed(Malformed::ReservedLength)),
    };
    Ok(Timestamp { value: input.payload(nibbles.into())?, nibbles })
}

fn version(input: &mut Nibbles<'_>) -> Result<Version, Fault> {
    let first = input.one()?;
    let unknown = |value: u16| Fault::Malformed(Malformed::UnknownVersion(value));
    let timestamps = TimestampFormat::from_number(first & 7).ok_or_else(|| unknown(first.into()))?;
    if first & 8 == 0 {
        return Ok(Version { timestamps, extension: None });
    }
    let second = input.number(2)? as u8;
    match second & 0x7f {
        number @ 1..=3 => Ok(Version { timestamps, extension: Some((number + 1, second & 0x80 != 0)) }),
        _ => Err(unknown(u16::from(first) << 8 | u16::from(second))),
    }
}
