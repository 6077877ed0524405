//! Parser of one packet: the specification's table of headers.
//!
//! Takes bytes that start with a packet. Produces the packet, or the reason why there is none. `read.rs` finds the starts
//! of packets and recovers after malformed ones.

use super::Config;
use super::packet::{Address, AddressIsa, Branch, BranchInfo, InstructionSync, Packet, SyncReason};
use crate::cursor::{Cursor, Ended};
use crate::{Atoms, Malformed};

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

/// Parses one packet other than an alignment synchronization, one line per encoding.
pub(super) fn parse(input: &mut Cursor<'_>, header: u8, config: &Config) -> Result<Packet, Fault> {
    input.skip(1);
    Ok(match header {
        0x08 => instruction_sync(input, config)?,
        0x0c => Packet::Trigger,
        0x3c => Packet::Vmid(input.u8()?),
        0x42 | 0x46 => timestamp(input, header, config)?,
        0x66 => Packet::Ignore,
        0x6e => Packet::ContextId(input.little_endian(config.context_id_bytes)?),
        0x72 => waypoint_update(input)?,
        0x76 => Packet::ExceptionReturn,
        _ if header & 1 == 1 => branch(input, header, config)?,
        0x80.. if config.cycle_accurate => atom_with_cycles(input, header)?,
        0x84.. => Packet::Atoms { atoms: atoms(header), cycles: None },
        _ => return Err(Malformed::ReservedHeader(header).into()),
    })
}

/// The outcomes in an atom header of a trace without cycle counts: between bit 0 and a marker, the highest bit that is set
/// below bit 7. The oldest is next to the marker, and zero means E.
pub(super) const fn atoms(header: u8) -> Atoms {
    let field = header as u32 >> 1 & 0x3f;
    match field.checked_ilog2() {
        Some(count @ 1..) => Atoms::new((!field).reverse_bits() >> (32 - count), count as u8),
        _ => Atoms::new(0, 0),
    }
}

fn atom_with_cycles(input: &mut Cursor<'_>, header: u8) -> Result<Packet, Ended> {
    let atoms = Atoms::new(u32::from(header >> 1 & 1 == 0), 1);
    Ok(Packet::Atoms { atoms, cycles: Some(cycles_after(input, header)?) })
}

/// A cycle count of its own, if the trace has them.
fn cycles(input: &mut Cursor<'_>, config: &Config) -> Result<Option<u32>, Ended> {
    if !config.cycle_accurate {
        return Ok(None);
    }
    let first = input.u8()?;
    cycles_after(input, first).map(Some)
}

/// A cycle count whose first byte has four bits of it, and in bit 6 whether more follow.
fn cycles_after(input: &mut Cursor<'_>, first: u8) -> Result<u32, Ended> {
    let mut count = u32::from(first >> 2 & 0xf);
    let mut more = first & 0x40 != 0;
    for index in 0..4 {
        if !more {
            break;
        }
        let byte = input.u8()?;
        count |= u32::from(byte & 0x7f) << (4 + 7 * index);
        more = byte & 0x80 != 0;
    }
    Ok(count)
}

fn instruction_sync(input: &mut Cursor<'_>, config: &Config) -> Result<Packet, Fault> {
    let word = u32::from_le_bytes(input.array()?);
    let info = input.u8()?;
    if info & 0x91 != 0x01 {
        return Err(Malformed::ReservedByte(info).into());
    }
    let reason = SyncReason::from_bits(info >> 5);
    let counts = reason != SyncReason::Periodic;
    let cycles = if counts { cycles(input, config)? } else { None };
    let has_context_id = config.context_id_bytes > 0;
    let context_id = has_context_id.then(|| input.little_endian(config.context_id_bytes)).transpose()?;
    Ok(Packet::InstructionSync(InstructionSync {
        address: word & !1,
        thumb: word & 1 == 1,
        reason,
        nonsecure: info & 0x08 != 0,
        alternative: info & 0x04 != 0,
        hyp: info & 0x02 != 0,
        cycles,
        context_id,
    }))
}

fn branch(input: &mut Cursor<'_>, header: u8, config: &Config) -> Result<Packet, Fault> {
    let (address, has_info) = address(input, header)?;
    let info = has_info.then(|| branch_info(input)).transpose()?;
    Ok(Packet::Branch(Branch { address, info, cycles: cycles(input, config)? }))
}

fn branch_info(input: &mut Cursor<'_>) -> Result<BranchInfo, Fault> {
    let first = input.u8()?;
    if first & 0x20 != 0 {
        return Err(Malformed::ReservedByte(first).into());
    }
    let mut info = BranchInfo {
        exception: u16::from(first >> 1 & 0xf),
        nonsecure: first & 1 == 1,
        alternative: first & 0x40 != 0,
        hyp: None,
    };
    if first & 0x80 != 0 {
        let second = input.u8()?;
        if second & 0xc0 != 0 {
            return Err(Malformed::ReservedByte(second).into());
        }
        info.exception |= u16::from(second & 0x1f) << 4;
        info.hyp = Some(second & 0x20 != 0);
    }
    Ok(info)
}

/// The documents have no room for an information byte here, but the reference reads one after a whole address.
fn waypoint_update(input: &mut Cursor<'_>) -> Result<Packet, Fault> {
    let first = input.u8()?;
    let (address, has_info) = address(input, first)?;
    let has_info = has_info && address.bytes == 5;
    let alternative = has_info.then(|| input.u8()).transpose()?.map(|info| info & 0x40 != 0);
    Ok(Packet::WaypointUpdate { address, alternative })
}

/// An address from its first byte on, and whether information bytes follow.
fn address(input: &mut Cursor<'_>, first: u8) -> Result<(Address, bool), Fault> {
    let mut steps = u32::from(first >> 1 & 0x3f);
    if first & 0x80 == 0 {
        return Ok((Address::low(1, steps), false));
    }
    for (bytes, low) in [(2, 6), (3, 13), (4, 20)] {
        let byte = input.u8()?;
        if byte & 0x80 == 0 {
            return Ok((Address::low(bytes, steps | u32::from(byte & 0x3f) << low), byte & 0x40 != 0));
        }
        steps |= u32::from(byte & 0x7f) << low;
    }
    Ok(whole_address(steps, input.u8()?)?)
}

/// An address of five bytes from the bits in the first four and the last byte, and whether information bytes follow.
#[inline]
pub(super) fn whole_address(steps: u32, last: u8) -> Result<(Address, bool), Malformed> {
    let (isa, high) = match last {
        0x80.. => return Err(Malformed::EndlessField),
        _ if last & 0x20 != 0 => (AddressIsa::Jazelle, last & 0x1f),
        _ if last & 0x10 != 0 => (AddressIsa::Thumb, last & 0x0f),
        _ if last & 0x08 != 0 => (AddressIsa::Arm, last & 0x07),
        _ => return Err(Malformed::ReservedByte(last)),
    };
    let address = Address { steps: steps | u32::from(high) << 27, bytes: 5, isa: Some(isa) };
    Ok((address, last & 0x40 != 0))
}

fn timestamp(input: &mut Cursor<'_>, header: u8, config: &Config) -> Result<Packet, Ended> {
    let (value, bits) = if config.timestamp_bits == 64 { input.continued::<9>()? } else { timestamp_48(input)? };
    let clock_changed = header & 4 != 0;
    Ok(Packet::Timestamp { value, bits, clock_changed, cycles: cycles(input, config)? })
}

/// Seven bits per byte, continued while bit 7 is set; the seventh byte has six.
fn timestamp_48(input: &mut Cursor<'_>) -> Result<(u64, u8), Ended> {
    let mut value = 0;
    for index in 0..6 {
        let byte = input.u8()?;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, 7 * (index + 1)));
        }
    }
    Ok((value | u64::from(input.u8()? & 0x3f) << 42, 48))
}
