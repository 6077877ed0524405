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
pub(super) fn parse(input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Body, Fault> {
    let start = *input;
    if let Some(body) = data(input, format)? {
        return Ok(body);
    }
    *input = start;
    Ok(match input.one()? {
        1 => Body::Master { value: input.payload(2)? as u16, wide: false },
        2 => Body::MasterError(input.payload(2)? as u8),
        3 => Body::Channel { value: input.payload(2)? as u16, wide: false },
        0xf => two_nibbles(input, format)?,
        opcode => return Err(reserved(opcode.into())),
    })
}

/// Nibbles of the payload of data, and whether the opcode without F has a marker and a timestamp.
static DATA: [Option<(u8, bool)>; 16] = {
    let mut table = [None; 16];
    [table[4], table[5], table[6], table[7]] =
        [Some((2, false)), Some((4, false)), Some((8, false)), Some((16, false))];
    [table[8], table[9], table[10], table[11]] = [Some((2, true)), Some((4, true)), Some((8, true)), Some((16, true))];
    [table[12], table[13]] = [Some((1, false)), Some((1, true))];
    table
};

/// Data and flags, which nearly all packets are. An F before the opcode exchanges whether there is a timestamp. `None`:
/// another packet.
fn data(input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Option<Body>, Fault> {
    let first = input.one()?;
    let is_long = first == 0xf;
    let opcode = if is_long { input.one()? } else { first };
    let Some((nibbles, marked)) = DATA[usize::from(opcode & 0xf)] else {
        return Ok(match (opcode, is_long) {
            (0xe, true) => Some(Body::Flag(None)),
            (0xe, false) => Some(Body::Flag(Some(timestamp(input, format)?))),
            _ => None,
        });
    };
    let value = input.payload(nibbles.into())?;
    let timestamp = if marked == is_long { None } else { Some(timestamp(input, format)?) };
    Ok(Some(Body::Data { value, bits: 4 * nibbles, marked, timestamp }))
}

fn two_nibbles(input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Body, Fault> {
    Ok(match input.one()? {
        0 => three_nibbles(input, format)?,
        1 => Body::Master { value: input.payload(4)? as u16, wide: true },
        2 => Body::GlobalError(input.payload(2)? as u8),
        3 => Body::Channel { value: input.payload(4)? as u16, wide: true },
        opcode => return Err(reserved(0xf0 | u16::from(opcode))),
    })
}

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

fn frequency(input: &mut Nibbles<'_>, nibbles: usize, timed: bool, format: TimestampFormat) -> Result<Body, Fault> {
    let value = input.payload(nibbles)?;
    Ok(Body::Frequency { value, wide: nibbles > 8, timestamp: time_if(timed, input, format)? })
}

fn time_if(timed: bool, input: &mut Nibbles<'_>, format: TimestampFormat) -> Result<Option<Timestamp>, Fault> {
    timed.then(|| timestamp(input, format)).transpose()
}

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
