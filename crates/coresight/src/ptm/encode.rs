//! Packets to bytes: the inverse of the packet decoder.
//!
//! Takes packets. Produces their bytes; cycle counts in the shortest form. A packet that the configuration cannot send is
//! refused, so everything that is written can be read back.

use alloc::vec::Vec;

use super::Config;
use super::packet::{Address, AddressIsa, Branch, BranchInfo, InstructionSync, Packet, SyncReason};
use crate::Atoms;

/// A packet that this configuration cannot send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this configuration has no packet '{0}'")]
pub struct Unencodable(pub Packet);

impl Packet {
    /// Appends the packet's bytes.
    pub fn encode(&self, config: &Config, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let start = out.len();
        let done = encode(self, config, out).filter(|()| config.accepts(out[start]));
        done.ok_or_else(|| {
            out.truncate(start);
            Unencodable(*self)
        })
    }
}

pub(super) fn encode(packet: &Packet, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    match *packet {
        Packet::AlignmentSync => out.extend_from_slice(&[0, 0, 0, 0, 0, 0x80]),
        Packet::InstructionSync(sync) => instruction_sync(sync, config, out)?,
        Packet::Branch(branch) => branch_address(branch, config, out)?,
        Packet::Atoms { atoms, cycles: None } if !config.cycle_accurate => out.push(atom_header(atoms)?),
        Packet::Atoms { atoms, cycles: Some(cycles) } if config.cycle_accurate => {
            let not_taken = u8::from(atoms.bits() == 0) << 1;
            cycles_from((atoms.count() == 1).then_some(0x80 | not_taken)?, cycles, out);
        }
        Packet::Atoms { .. } => return None,
        Packet::WaypointUpdate { address: target, alternative: None } => {
            out.push(0x72);
            address(target, false, out)?;
        }
        // The documents have no room for the information byte.
        Packet::WaypointUpdate { alternative: Some(_), .. } => return None,
        Packet::Trigger => out.push(0x0c),
        Packet::ContextId(id) => {
            out.push(0x6e);
            context_id(id, config, out)?;
        }
        Packet::Vmid(id) => out.extend_from_slice(&[0x3c, id]),
        Packet::Timestamp { value, bits, clock_changed, cycles: count } => {
            out.push(0x42 | u8::from(clock_changed) << 2);
            timestamp(value, bits, config, out)?;
            cycles(0, count, config, out)?;
        }
        Packet::ExceptionReturn => out.push(0x76),
        Packet::Ignore => out.push(0x66),
    }
    Some(())
}

/// The header of one to five atoms.
fn atom_header(atoms: Atoms) -> Option<u8> {
    let count = atoms.count();
    if !(1..=5).contains(&count) {
        return None;
    }
    let newest_low = (!atoms.bits()).reverse_bits() >> (32 - count);
    Some(0x80 | (1 << count | newest_low as u8) << 1)
}

/// A cycle count whose first byte has these other bits, if the trace has cycle counts.
fn cycles(first: u8, count: Option<u32>, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    if count.is_some() != config.cycle_accurate {
        return None;
    }
    count.into_iter().for_each(|count| cycles_from(first, count, out));
    Some(())
}

fn cycles_from(first: u8, count: u32, out: &mut Vec<u8>) {
    let mut rest = count >> 4;
    out.push(first | (count as u8 & 0xf) << 2 | u8::from(rest != 0) << 6);
    while rest != 0 {
        let more = u8::from(rest >= 0x80) << 7;
        out.push(rest as u8 & 0x7f | more);
        rest >>= 7;
    }
}

fn instruction_sync(sync: InstructionSync, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    if sync.address & 1 != 0 || sync.context_id.is_some() != (config.context_id_bytes > 0) {
        return None;
    }
    let reason = match sync.reason {
        SyncReason::Periodic => 0,
        SyncReason::TraceEnabled => 1,
        SyncReason::AfterOverflow => 2,
        SyncReason::DebugExit => 3,
    };
    out.push(0x08);
    out.extend_from_slice(&(sync.address | u32::from(sync.thumb)).to_le_bytes());
    let context = u8::from(sync.nonsecure) << 3 | u8::from(sync.alternative) << 2 | u8::from(sync.hyp) << 1;
    out.push(reason << 5 | context | 1);
    match (sync.reason, sync.cycles) {
        (SyncReason::Periodic, None) => {}
        (SyncReason::Periodic, Some(_)) => return None,
        // The Cortex-A15 sets bit 7 here.
        (_, count) => cycles(0x80, count, config, out)?,
    }
    sync.context_id.map_or(Some(()), |id| context_id(id, config, out))
}

fn context_id(id: u32, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    let bytes = id.to_le_bytes();
    let (kept, cut) = bytes.split_at_checked(usize::from(config.context_id_bytes))?;
    out.extend_from_slice(kept);
    cut.iter().all(|&byte| byte == 0).then_some(())
}

fn branch_address(branch: Branch, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    address(branch.address, branch.info.is_some(), out)?;
    if let Some(BranchInfo { exception, nonsecure, alternative, hyp }) = branch.info {
        let low = u8::from(alternative) << 6 | (exception as u8 & 0xf) << 1 | u8::from(nonsecure);
        match hyp {
            None if exception < 0x10 => out.push(low),
            Some(hyp) if exception < 0x200 => {
                out.extend_from_slice(&[low | 0x80, u8::from(hyp) << 5 | (exception >> 4) as u8]);
            }
            _ => return None,
        }
    }
    cycles(0, branch.cycles, config, out)
}

/// The bytes of an address; `info` follows it.
fn address(address: Address, info: bool, out: &mut Vec<u8>) -> Option<()> {
    let Address { steps, bytes, isa } = address;
    let fits = steps.checked_shr(address.bits().into()).unwrap_or(0) == 0;
    if !fits || !(1..=5).contains(&bytes) || info && bytes == 1 || (bytes == 5) != isa.is_some() {
        return None;
    }
    let more = |index: u8| u8::from(index < bytes) << 7;
    out.push(more(1) | (steps as u8 & 0x3f) << 1 | 1);
    let info = u8::from(info) << 6;
    for index in 2..=bytes.min(4) {
        let field = (steps >> (7 * u32::from(index) - 8)) as u8;
        out.push(if index == bytes { field & 0x3f | info } else { field | 0x80 });
    }
    let high = (steps >> 27) as u8 | info;
    match isa {
        None => {}
        Some(AddressIsa::Arm) => out.push(0x08 | high),
        Some(AddressIsa::Thumb) => out.push(0x10 | high),
        Some(AddressIsa::Jazelle) => out.push(0x20 | high),
    }
    Some(())
}

/// Seven bits per byte; the last possible one has more.
fn timestamp(value: u64, bits: u8, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    let longest = config.timestamp_bits;
    if value.checked_shr(bits.into()).unwrap_or(0) != 0 {
        return None;
    }
    let length = match bits {
        _ if bits == longest => longest.div_ceil(7).min(9),
        _ if bits > 0 && bits < longest && bits.is_multiple_of(7) => bits / 7,
        _ => return None,
    };
    if bits < longest && length >= longest.div_ceil(7).min(9) {
        return None;
    }
    for index in 1..length {
        out.push((value >> (7 * u32::from(index) - 7)) as u8 | 0x80);
    }
    out.push((value >> (7 * u32::from(length) - 7)) as u8);
    Some(())
}
