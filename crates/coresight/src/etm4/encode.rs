//! Packets to bytes: the inverse of the packet decoder.
//!
//! Takes packets. Produces their bytes, in the shortest form. A packet that the configuration cannot send is refused, so
//! everything that is written can be read back.

use alloc::vec::Vec;

use super::packet::{
    Address, ConditionalInstruction, ConditionalResult, CycleCount, ExceptionAddress, FewAtoms, KeyResult, Packet,
    TraceInfo,
};
use super::{Config, atoms};
use crate::{Context, Security, SubIsa};

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

/// Encodes without a check of the configuration. Inlined, so that for a known packet only its own arm remains.
#[inline(always)]
pub(super) fn encode(packet: &Packet, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    match *packet {
        Packet::AlignmentSync => out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]),
        Packet::Discard => out.extend_from_slice(&[0x00, 0x03]),
        Packet::Overflow => out.extend_from_slice(&[0x00, 0x05]),
        Packet::TraceInfo(info) => trace_info(info, out),
        Packet::Timestamp { value, bits, cycles } => timestamp(value, bits, cycles, out)?,
        Packet::TraceOn => out.push(0x04),
        Packet::FunctionReturn => out.push(0x05),
        Packet::Exception { number, address, fault_pending } => exception(number, address, fault_pending, out)?,
        Packet::ExceptionReturn => out.push(0x07),
        Packet::Instrumentation { el, value } => {
            out.extend_from_slice(&[0x09, small(el, 3)?]);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Packet::TransactionStart => out.push(0x0a),
        Packet::TransactionCommit => out.push(0x0b),
        Packet::CycleCount(count) => cycle_count(count, config, out)?,
        Packet::NumberedDataSync(number) => out.push(0x20 | small(number, 7)?),
        Packet::UnnumberedDataSync(value) => out.push(0x28 | small(value, 4)?),
        Packet::Commit { count } => with_continued(0x2d, count, out),
        Packet::CancelFormat1 { count, mispredict } => with_continued(0x2e | u8::from(mispredict), count, out),
        Packet::CancelFormat2(atoms) => out.push(0x34 | few_atoms(atoms)),
        Packet::CancelFormat3 { count, atom } => {
            out.push(0x38 | small(count.checked_sub(2)?, 3)? << 1 | u8::from(atom));
        }
        Packet::Mispredict(atoms) => out.push(0x30 | few_atoms(atoms)),
        Packet::ConditionalInstruction(instruction) => conditional_instruction(instruction, out)?,
        Packet::ConditionalFlush => out.push(0x43),
        Packet::ConditionalResult(result) => conditional_result(result, out)?,
        Packet::Ignore => out.push(0x70),
        Packet::Event { mask: mask @ 1..=15 } => out.push(0x70 | mask),
        Packet::Event { .. } => return None,
        Packet::Context(None) => out.push(0x80),
        Packet::Context(Some(new)) => {
            out.push(0x81);
            context(new, config, out)?;
        }
        Packet::AddressContext { address, context: new } => {
            long_address(0x80, address, out)?;
            context(new, config, out)?;
        }
        Packet::TimestampMarker => out.push(0x88),
        Packet::Address(address) => any_address([0x90, 0x95, 0x98], address, out)?,
        Packet::Q { count, address } => q(count, address, out)?,
        Packet::SourceAddress(address) => source_address(address, out)?,
        Packet::Atoms(outcomes) => out.push(atoms::header(outcomes)?),
    }
    Some(())
}

/// A value that has to fit a field.
fn small(value: u8, max: u8) -> Option<u8> {
    (value <= max).then_some(value)
}

fn trace_info(info: TraceInfo, out: &mut Vec<u8>) {
    let sections = [info.info, info.key, info.speculation, info.cycle_threshold];
    let control = sections.iter().enumerate().map(|(bit, section)| u8::from(section.is_some()) << bit).sum();
    out.extend_from_slice(&[0x01, control]);
    sections.into_iter().flatten().for_each(|value| continued(u64::from(value), out));
}

fn timestamp(value: u64, bits: u8, cycles: Option<u32>, out: &mut Vec<u8>) -> Option<()> {
    out.push(0x02 | u8::from(cycles.is_some()));
    let length = match bits {
        64 => 9,
        7..=56 if bits.is_multiple_of(7) => bits / 7,
        _ => return None,
    };
    if length < 9 && value >> bits != 0 {
        return None;
    }
    let mut bytes: [u8; 9] = core::array::from_fn(|index| (value >> (7 * index)) as u8 | 0x80);
    bytes[8] = (value >> 56) as u8;
    let bytes = &mut bytes[..usize::from(length)];
    if let [.., last] = bytes
        && length < 9
    {
        *last &= 0x7f;
    }
    out.extend_from_slice(bytes);
    if let Some(cycles) = cycles {
        continued_u20(cycles, out)?;
    }
    Some(())
}

fn exception(number: u16, address: ExceptionAddress, fault_pending: Option<bool>, out: &mut Vec<u8>) -> Option<()> {
    let form = match address {
        ExceptionAddress::Return => 0x01,
        ExceptionAddress::TargetAndReturn => 0x40,
    };
    let low = (number as u8 & 0x1f) << 1 | form;
    match fault_pending {
        None if number < 0x20 => out.extend_from_slice(&[0x06, low]),
        Some(pending) if number < 0x400 => {
            out.extend_from_slice(&[0x06, low | 0x80, (number >> 5) as u8 | u8::from(pending) << 5]);
        }
        _ => return None,
    }
    Some(())
}

fn cycle_count(count: CycleCount, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    match count {
        CycleCount::Format1 { commit, cycles } => {
            if commit.is_some() == config.commit_mode_1 {
                return None;
            }
            out.push(0x0e | u8::from(cycles.is_none()));
            commit.into_iter().for_each(|commit| continued(u64::from(commit), out));
            if let Some(cycles) = cycles {
                continued_u20(cycles, out)?;
            }
        }
        CycleCount::Format2 { near_maximum, commit, cycles } => {
            out.extend_from_slice(&[0x0c | u8::from(near_maximum), small(commit, 15)? << 4 | small(cycles, 15)?]);
        }
        CycleCount::Format3 { commit, cycles } => out.push(0x10 | small(commit, 3)? << 2 | small(cycles, 3)?),
    }
    Some(())
}

fn few_atoms(atoms: FewAtoms) -> u8 {
    match atoms {
        FewAtoms::None => 0,
        FewAtoms::E => 1,
        FewAtoms::EE => 2,
        FewAtoms::N => 3,
    }
}

fn conditional_instruction(instruction: ConditionalInstruction, out: &mut Vec<u8>) -> Option<()> {
    match instruction {
        ConditionalInstruction::Format1 { key } => with_continued(0x6c, key, out),
        ConditionalInstruction::Format2 { step } => out.push(0x40 | small(step, 2)?),
        ConditionalInstruction::Format3 { count, last } => {
            out.extend_from_slice(&[0x6d, small(count, 0x3f)? << 1 | u8::from(last)]);
        }
    }
    Some(())
}

fn conditional_result(result: ConditionalResult, out: &mut Vec<u8>) -> Option<()> {
    match result {
        ConditionalResult::Format1 { first, second: None } => {
            out.push(0x6e | u8::from(first.ci));
            key_result(first, out)?;
        }
        ConditionalResult::Format1 { first, second: Some(second) } => {
            out.push(0x68 | u8::from(first.ci) | u8::from(second.ci) << 1);
            key_result(first, out)?;
            key_result(second, out)?;
        }
        ConditionalResult::Format2 { skip, token } => out.push(0x48 | u8::from(skip) << 2 | small(token, 2)?),
        ConditionalResult::Format3 { tokens } if tokens < 0x1000 => {
            out.extend_from_slice(&[0x50 | (tokens >> 8) as u8, tokens as u8]);
        }
        ConditionalResult::Format3 { .. } => return None,
        ConditionalResult::Format4 { token } => out.push(0x44 | small(token, 2)?),
    }
    Some(())
}

fn key_result(result: KeyResult, out: &mut Vec<u8>) -> Option<()> {
    let more = result.key >> 3;
    out.push(small(result.result, 15)? | (result.key as u8 & 7) << 4 | u8::from(more != 0) << 7);
    if more != 0 {
        continued(u64::from(more), out);
    }
    Some(())
}

fn context(context: Context, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    let security = match context.security {
        Security::Secure => 0x00,
        Security::NonSecure => 0x20,
        Security::Root => 0x08,
        Security::Realm => 0x28,
    };
    let (vmid, context_id) = (context.vmid, context.context_id);
    let present = u8::from(vmid.is_some()) << 6 | u8::from(context_id.is_some()) << 7;
    let level = (0..=3).find(|&bits| config.level(bits) == context.el)?;
    out.push(level | u8::from(context.aarch64) << 4 | security | present);
    for (value, bytes) in [(vmid, config.vmid_bytes), (context_id, config.context_id_bytes)] {
        let Some(value) = value else { continue };
        let value = value.to_le_bytes();
        let (kept, cut) = value.split_at_checked(usize::from(bytes))?;
        if cut.iter().any(|&byte| byte != 0) {
            return None;
        }
        out.extend_from_slice(kept);
    }
    Some(())
}

/// Headers of address packets: match, short, long. The instruction set and the width are added to the last two.
fn any_address(headers: [u8; 3], address: Address, out: &mut Vec<u8>) -> Option<()> {
    match address {
        Address { bits: 0, entry, value: 0, isa: SubIsa::Is0 } => out.push(headers[0] | small(entry, 2)?),
        Address { bits: 32 | 64, .. } => long_address(headers[2], address, out)?,
        Address { entry: 0, isa, .. } => {
            out.push(headers[1] + isa as u8);
            short_address(address, out)?;
        }
        _ => return None,
    }
    Some(())
}

fn source_address(address: Address, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    any_address([0xb0, 0xb4, 0x98], address, out)?;
    out[start] = match out[start] {
        0x9a => 0xb6,
        0x9b => 0xb7,
        0x9d => 0xb8,
        0x9e => 0xb9,
        other => other,
    };
    Some(())
}

fn q(count: Option<u32>, address: Option<Address>, out: &mut Vec<u8>) -> Option<()> {
    match (address, count) {
        (None, None) => out.push(0xaf),
        (None, Some(_)) => out.push(0xac),
        (Some(Address { bits: 64, .. }), _) | (Some(_), None) => return None,
        (Some(address), Some(_)) => any_address([0xa0, 0xa5, 0xa8], address, out)?,
    }
    count.into_iter().for_each(|count| continued(u64::from(count), out));
    Some(())
}

fn short_address(Address { value, bits, isa, .. }: Address, out: &mut Vec<u8>) -> Option<()> {
    let shift = isa.shift();
    let field = value >> shift;
    let width = bits.checked_sub(shift)?;
    if field << shift != value || value.checked_shr(u32::from(bits))? != 0 {
        return None;
    }
    match width {
        7 => out.push(field as u8),
        15 => out.extend_from_slice(&[field as u8 | 0x80, (field >> 7) as u8]),
        _ => return None,
    }
    Some(())
}

/// `base` has zeros in its low three bits, where the instruction set and the width go.
fn long_address(base: u8, Address { value, bits, entry, isa }: Address, out: &mut Vec<u8>) -> Option<()> {
    let width = match bits {
        32 if value >> 32 == 0 => 2,
        64 => 5,
        _ => return None,
    };
    if entry != 0 || value & ((1 << isa.shift()) - 1) != 0 {
        return None;
    }
    out.push(base | (width + isa as u8));
    match isa {
        SubIsa::Is0 => out.extend_from_slice(&[(value >> 2) as u8 & 0x7f, (value >> 9) as u8 & 0x7f]),
        SubIsa::Is1 => out.extend_from_slice(&[(value >> 1) as u8 & 0x7f, (value >> 8) as u8]),
    }
    out.extend_from_slice(&value.to_le_bytes()[2..usize::from(bits / 8)]);
    Some(())
}

fn with_continued(header: u8, value: u32, out: &mut Vec<u8>) {
    out.push(header);
    continued(u64::from(value), out);
}

/// 7 bits per byte, bit 7 set in all but the last.
fn continued(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn continued_u20(value: u32, out: &mut Vec<u8>) -> Option<()> {
    if value >= 1 << 20 {
        return None;
    }
    continued(u64::from(value), out);
    Some(())
}
