//! Parser of one packet: the specification's table of headers.
//!
//! Takes bytes that start with a packet other than an alignment synchronization. Produces the packet, or the reason why
//! there is none. `read.rs` finds the starts of packets and recovers after malformed ones.

use super::Config;
use super::packet::{
    Branch, BranchException, DataAddress, ExceptionInformation, InstructionSet, InstructionSync, PHeader, Packet,
    SyncReason, SyncTarget,
};
use crate::Malformed;
use crate::cursor::{Cursor, Ended, ShortAddress, short_address};

/// Minimum number of zero bytes at the start of an alignment synchronization.
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

impl From<Malformed> for Fault {
    fn from(kind: Malformed) -> Self {
        Fault::Malformed(kind)
    }
}

/// Parses one packet, one line per encoding.
pub(super) fn parse(input: &mut Cursor<'_>, header: u8, config: &Config) -> Result<Packet, Fault> {
    if header & 1 == 1 {
        return Ok(Packet::Branch(branch(input, config)?));
    }
    input.skip(1);
    Ok(match header {
        0x80.. => Packet::PHeader(p_headers(config)[usize::from(header)].ok_or(Malformed::ReservedHeader(header))?),
        0x04 => Packet::CycleCount { cycles: cycle_count(input)? },
        0x08 | 0x70 => Packet::InstructionSync(instruction_sync(input, header == 0x70, config)?),
        0x0c => Packet::Trigger,
        0x3c => Packet::Vmid(input.u8()?),
        0x42 | 0x46 => timestamp(input, header == 0x46, config)?,
        0x50 => Packet::StoreFailed,
        0x62 => Packet::DataSuppressed,
        0x66 => Packet::Ignore,
        0x6e => Packet::ContextId(input.little_endian(config.context_id_bytes)?),
        0x76 => Packet::ExceptionExit,
        0x7e => Packet::ExceptionEntry,
        0x02 | 0x06 | 0x0a | 0x0e | 0x22 | 0x26 | 0x2a | 0x2e => {
            let first = header & 0x20 != 0;
            let address = data_address(input, first, config)?;
            Packet::Data { first, address, value: value(input, header, config)? }
        }
        0x20 | 0x24 | 0x28 | 0x2c | 0x40 | 0x44 | 0x48 | 0x4c | 0x60 | 0x64 | 0x68 | 0x6c => {
            Packet::OutOfOrderData { tag: header >> 5 & 3, value: value(input, header, config)? }
        }
        0x54 | 0x58 | 0x5c | 0x74 | 0x78 | 0x7c => {
            let first = header & 0x20 != 0;
            Packet::Placeholder { tag: header >> 2 & 3, first, address: data_address(input, first, config)? }
        }
        0x6a | 0x7a => {
            let first = header & 0x10 != 0;
            Packet::ValueNotTraced { first, address: data_address(input, first, config)? }
        }
        _ => return Err(Malformed::ReservedHeader(header).into()),
    })
}

/// The P-header of a byte; `None`: it is reserved, or another packet.
const fn p_header(header: u8, cycle_accurate: bool) -> Option<PHeader> {
    let [bit_2, bit_3, bit_5, bit_6] = [header & 4 != 0, header & 8 != 0, header & 0x20 != 0, header & 0x40 != 0];
    Some(match (cycle_accurate, header & 3) {
        _ if header & 0x80 == 0 => return None,
        (false, 0) => PHeader::Format1 { executed: header >> 2 & 0xf, failed: bit_6 },
        (true, 0) if bit_5 => PHeader::Format3 { cycles: (header >> 2 & 7) + 1, executed: bit_6 },
        (true, 0) => PHeader::Format1 { executed: header >> 2 & 7, failed: bit_6 },
        (_, 2) if header & 0xf0 == 0x80 => PHeader::Format2 { first: !bit_3, second: !bit_2 },
        (true, 2) if header & 0xf8 == 0x90 => PHeader::Format4 { executed: !bit_2 },
        _ => return None,
    })
}

/// The P-headers of all bytes.
pub(super) type PHeaders = [Option<PHeader>; 256];

/// The P-headers without cycle counting, and with it.
static P_HEADERS: [PHeaders; 2] = {
    let mut tables = [[None; 256]; 2];
    let mut header = 0;
    while header < 256 {
        tables[0][header] = p_header(header as u8, false);
        tables[1][header] = p_header(header as u8, true);
        header += 1;
    }
    tables
};

/// The P-headers of a configuration.
#[inline(always)]
pub(super) fn p_headers(config: &Config) -> &'static PHeaders {
    let [plain, counted] = &P_HEADERS;
    if config.cycle_accurate { counted } else { plain }
}

/// A branch address packet of one to four bytes without exception bytes, and its length. `None`: it is another one, or its last
/// byte is zero.
#[inline(always)]
pub(super) fn short_branch(bytes: &[u8], config: &Config) -> Option<(Branch, u8)> {
    let ShortAddress { value, length, last } = short_address(bytes)?;
    let is_alternative = config.alternative_branches && length > 1;
    if last == 0 || is_alternative && last & 0x40 != 0 {
        return None;
    }
    // Bit 6 of the last byte in the alternative encoding is not of the address.
    let bits = 7 * length - 1 - u8::from(is_alternative);
    Some((Branch { value, bits, isa: None, exception: None }, length))
}

/// One to five bytes of 7 bits, of which the fifth has four.
fn cycle_count(input: &mut Cursor<'_>) -> Result<u32, Fault> {
    let mut cycles = 0;
    for index in 0..5 {
        let byte = input.u8()?;
        cycles |= u32::from(byte & if index == 4 { 0xf } else { 0x7f }) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(cycles);
        }
    }
    Err(Malformed::EndlessField.into())
}

fn timestamp(input: &mut Cursor<'_>, frequency_changed: bool, config: &Config) -> Result<Packet, Fault> {
    let (value, bits) = if config.timestamp_bits == 64 { input.continued::<9>()? } else { timestamp_48(input)? };
    Ok(Packet::Timestamp { value, bits, frequency_changed })
}

fn timestamp_48(input: &mut Cursor<'_>) -> Result<(u64, u8), Fault> {
    let mut value = 0;
    for index in 0..7_u8 {
        let byte = input.u8()?;
        let is_last = index == 6;
        value |= u64::from(byte & if is_last { 0x3f } else { 0x7f }) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, if is_last { 48 } else { 7 * (index + 1) }));
        }
    }
    Err(Malformed::EndlessField.into())
}

fn instruction_sync(input: &mut Cursor<'_>, has_cycles: bool, config: &Config) -> Result<InstructionSync, Fault> {
    let cycles = has_cycles.then(|| cycle_count(input)).transpose()?;
    let bytes = config.context_id_bytes;
    let context_id = (bytes > 0).then(|| input.little_endian(bytes)).transpose()?;
    let information = input.u8()?;
    let bit = |bit: u8| information >> bit & 1 == 1;
    let in_progress = bit(7);
    if !bit(0) || in_progress && config.data_only {
        return Err(Malformed::ReservedByte(information).into());
    }
    let reason = match information >> 5 & 3 {
        0 => SyncReason::Periodic,
        1 => SyncReason::Enabled,
        2 => SyncReason::Overflow,
        _ => SyncReason::DebugExit,
    };
    let target =
        if config.data_only { None } else { Some(sync_target(u32::from_le_bytes(input.array()?), bit(4), bit(2))) };
    let next = in_progress.then(|| branch(input, config)).transpose()?;
    Ok(InstructionSync { reason, cycles, context_id, non_secure: bit(3), hyp: bit(1), target, next })
}

fn sync_target(word: u32, jazelle: bool, alternative: bool) -> SyncTarget {
    let isa = match (jazelle, word & 1, alternative) {
        (true, ..) => return SyncTarget { address: word, isa: InstructionSet::Jazelle },
        (_, 0, _) => InstructionSet::Arm,
        (.., false) => InstructionSet::Thumb,
        (.., true) => InstructionSet::ThumbEe,
    };
    SyncTarget { address: word & !1, isa }
}

/// A branch address packet, from its first byte on.
fn branch(input: &mut Cursor<'_>, config: &Config) -> Result<Branch, Fault> {
    let first = input.u8()?;
    if first & 1 == 0 {
        return Err(Malformed::ReservedByte(first).into());
    }
    let mut value = u32::from(first >> 1 & 0x3f);
    let mut bits = 6;
    if first & 0x80 == 0 {
        return Ok(Branch { value, bits, isa: None, exception: None });
    }
    for _ in 0..3 {
        let byte = input.u8()?;
        let ends = byte & 0x80 == 0;
        let width = if ends && config.alternative_branches { 6 } else { 7 };
        value |= (u32::from(byte) & ((1 << width) - 1)) << bits;
        bits += width;
        if ends {
            let has_exception = config.alternative_branches && byte & 0x40 != 0;
            let exception = has_exception.then(|| exception_information(input)).transpose()?;
            return Ok(Branch { value, bits, isa: None, exception });
        }
    }
    fifth_byte(input, value, config)
}

/// The fifth byte of a branch packet, which has the instruction set and the highest address bits.
fn fifth_byte(input: &mut Cursor<'_>, low: u32, config: &Config) -> Result<Branch, Fault> {
    const LOW_BITS: u8 = 27;
    let byte = input.u8()?;
    let whole = |isa, width: u8, exception| {
        let high = u32::from(byte) & ((1 << width) - 1);
        Branch { value: low | high << LOW_BITS, bits: LOW_BITS + width, isa: Some(isa), exception }
    };
    if byte & 0x80 != 0 {
        if config.alternative_branches {
            return Err(Malformed::EndlessField.into());
        }
        let exception = BranchException::Deprecated { code: byte >> 3 & 7, canceled: byte & 0x40 != 0 };
        return Ok(whole(InstructionSet::Arm, 3, Some(exception)));
    }
    let (isa, width) = match byte >> 3 & 7 {
        0 => return Err(Malformed::ReservedByte(byte).into()),
        1 => (InstructionSet::Arm, 3),
        2 | 3 => (InstructionSet::Thumb, 4),
        _ => (InstructionSet::Jazelle, 5),
    };
    let exception = (byte & 0x40 != 0).then(|| exception_information(input)).transpose()?;
    Ok(whole(isa, width, exception))
}

/// One to three exception bytes.
fn exception_information(input: &mut Cursor<'_>) -> Result<BranchException, Fault> {
    let byte = input.u8()?;
    let mut information = ExceptionInformation {
        number: u16::from(byte >> 1 & 0xf),
        canceled: byte & 0x20 != 0,
        non_secure: byte & 1 != 0,
        alternative_isa: byte & 0x40 != 0,
        hyp: None,
        resume: None,
    };
    let mut more = byte & 0x80 != 0;
    while more {
        let byte = input.u8()?;
        more = byte & 0x80 != 0;
        if byte & 0x40 != 0 {
            information.resume = Some(byte & 0xf);
            if more {
                return Err(Malformed::EndlessField.into());
            }
        } else if information.hyp.is_none() {
            information.hyp = Some(byte & 0x20 != 0);
            information.number |= u16::from(byte & 0x1f) << 4;
        } else {
            return Err(Malformed::ReservedException(byte).into());
        }
    }
    Ok(BranchException::Information(information))
}

/// The address of a transfer, if the packet has one.
fn data_address(input: &mut Cursor<'_>, first: bool, config: &Config) -> Result<Option<DataAddress>, Fault> {
    if !first || !config.data_addresses {
        return Ok(None);
    }
    let mut value = 0;
    for index in 0..4 {
        let byte = input.u8()?;
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some(DataAddress { value, bits: 7 * (index + 1), big_endian: None }));
        }
    }
    let last = input.u8()?;
    if last & 0xe0 != 0 {
        return Err(Malformed::ReservedByte(last).into());
    }
    value |= u32::from(last & 0xf) << 28;
    Ok(Some(DataAddress { value, bits: 32, big_endian: Some(last & 0x10 != 0) }))
}

/// The value of a transfer, in 0, 1, 2 or 4 bytes by bits 3:2 of the header.
fn value(input: &mut Cursor<'_>, header: u8, config: &Config) -> Result<Option<u32>, Fault> {
    if !config.data_values {
        return Ok(None);
    }
    let bytes = [0, 1, 2, 4][usize::from(header >> 2 & 3)];
    Ok(Some(input.little_endian(bytes)?))
}
