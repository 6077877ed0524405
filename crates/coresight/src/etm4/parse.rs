//! Parser of one packet: the specification's table of headers.
//!
//! Takes bytes that start with a packet. Produces the packet, or the reason why there is none. `read.rs` finds the starts
//! of packets and recovers after malformed ones.

use super::address::AddressForm;
use super::packet::{
    Address, ConditionalInstruction, ConditionalResult, CycleCount, ExceptionAddress, FewAtoms, KeyResult, Packet,
    TraceInfo,
};
use super::{Config, atoms};
use crate::cursor::{Cursor, Ended};
use crate::{Context, Malformed, Security};

/// Minimum number of zero bytes at the start of an alignment synchronization.
pub(super) const SYNC_ZEROS: u64 = 11;
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
#[inline(always)]
pub(super) fn parse(input: &mut Cursor<'_>, header: u8, config: &Config) -> Result<Packet, Fault> {
    input.skip(1);
    Ok(match header {
        0x00 => alignment_sync_or_extension(input)?,
        0x01 => trace_info(input)?,
        0x02..=0x03 => timestamp(input, header)?,
        0x04 => Packet::TraceOn,
        0x05 => Packet::FunctionReturn,
        0x06 => exception(input)?,
        0x07 => Packet::ExceptionReturn,
        0x09 => Packet::Instrumentation { el: input.u8()? & 3, value: u64::from_le_bytes(input.array()?) },
        0x0a => Packet::TransactionStart,
        0x0b => Packet::TransactionCommit,
        0x0c..=0x0d => cycle_count_format_2(input, header)?,
        0x0e..=0x0f => cycle_count_format_1(input, header, config)?,
        0x10..=0x1f => Packet::CycleCount(CycleCount::Format3 { commit: header >> 2 & 3, cycles: header & 3 }),
        0x20..=0x27 => Packet::NumberedDataSync(header & 7),
        0x28..=0x2c => Packet::UnnumberedDataSync(header & 7),
        0x2d => Packet::Commit { count: input.continued_u32()? },
        0x2e..=0x2f => Packet::CancelFormat1 { count: input.continued_u32()?, mispredict: header & 1 == 1 },
        0x30..=0x33 => Packet::Mispredict(few_atoms(header)),
        0x34..=0x37 => Packet::CancelFormat2(few_atoms(header)),
        0x38..=0x3f => Packet::CancelFormat3 { count: (header >> 1 & 3) + 2, atom: header & 1 == 1 },
        0x40..=0x42 => Packet::ConditionalInstruction(ConditionalInstruction::Format2 { step: header & 3 }),
        0x43 => Packet::ConditionalFlush,
        0x44..=0x46 => Packet::ConditionalResult(ConditionalResult::Format4 { token: header & 3 }),
        0x48..=0x4a | 0x4c..=0x4e => {
            Packet::ConditionalResult(ConditionalResult::Format2 { skip: header & 4 != 0, token: header & 3 })
        }
        0x50..=0x5f => conditional_result_format_3(input, header)?,
        0x68..=0x6b | 0x6e..=0x6f => conditional_result_format_1(input, header)?,
        0x6c => Packet::ConditionalInstruction(ConditionalInstruction::Format1 { key: input.continued_u32()? }),
        0x6d => conditional_instruction_format_3(input)?,
        0x70 => Packet::Ignore,
        0x71..=0x7f => Packet::Event { mask: header & 0xf },
        0x80 => Packet::Context(None),
        0x81 => Packet::Context(Some(context(input, config)?)),
        0x82..=0x83 | 0x85..=0x86 => {
            Packet::AddressContext { address: address(input, header | 0x18)?, context: context(input, config)? }
        }
        0x88 => Packet::TimestampMarker,
        0x90..=0x92 | 0x95..=0x96 | 0x9a..=0x9b | 0x9d..=0x9e => Packet::Address(address(input, header)?),
        0xa0..=0xa2 | 0xa5..=0xa6 | 0xaa..=0xab => q_with_address(input, header)?,
        0xac => Packet::Q { count: Some(input.continued_u32()?), address: None },
        0xaf => Packet::Q { count: None, address: None },
        0xb0..=0xb2 => Packet::SourceAddress(address(input, 0x90 | header & 3)?),
        0xb4..=0xb5 => Packet::SourceAddress(address(input, 0x95 + (header & 1))?),
        0xb6..=0xb7 => Packet::SourceAddress(address(input, 0x9a + (header & 1))?),
        0xb8..=0xb9 => Packet::SourceAddress(address(input, 0x9d + (header & 1))?),
        0xc0.. => Packet::Atoms(atoms::from_header(header)),
        _ => return Err(Malformed::ReservedHeader(header).into()),
    })
}

#[inline(never)]
fn alignment_sync_or_extension(input: &mut Cursor<'_>) -> Result<Packet, Fault> {
    let zeros = input.rest().iter().take_while(|&&byte| byte == 0).count();
    input.skip(zeros);
    let end = input.u8()?;
    match (zeros as u64 + 1, end) {
        (SYNC_ZEROS.., SYNC_END) => Ok(Packet::AlignmentSync),
        (1, end) => Ok(extension(end)?),
        _ => Err(Malformed::BrokenSync.into()),
    }
}

pub(super) fn extension(byte: u8) -> Result<Packet, Malformed> {
    match byte {
        0x03 => Ok(Packet::Discard),
        0x05 => Ok(Packet::Overflow),
        other => Err(Malformed::ReservedExtension(other)),
    }
}

/// Greatest number of control bytes; no architecture version has that many.
const MAX_CONTROL_BYTES: usize = 4;

#[inline(never)]
fn trace_info(input: &mut Cursor<'_>) -> Result<Packet, Fault> {
    let control = input.u8()?;
    let mut more = control;
    // Further control bytes announce sections that are not defined.
    for _ in 0..MAX_CONTROL_BYTES {
        if more & 0x80 == 0 {
            break;
        }
        more = input.u8()?;
    }
    if more & 0x80 != 0 {
        return Err(Malformed::EndlessField.into());
    }
    let mut section = |bit: u8| (control & bit != 0).then(|| input.continued_u32()).transpose();
    Ok(Packet::TraceInfo(TraceInfo {
        info: section(1)?,
        key: section(2)?,
        speculation: section(4)?,
        cycle_threshold: section(8)?,
    }))
}

#[inline(never)]
fn timestamp(input: &mut Cursor<'_>, header: u8) -> Result<Packet, Ended> {
    let (value, bits) = input.continued::<9>()?;
    let cycles = (header & 1 == 1).then(|| input.continued_u20()).transpose()?;
    Ok(Packet::Timestamp { value, bits, cycles })
}

#[inline(never)]
fn exception(input: &mut Cursor<'_>) -> Result<Packet, Fault> {
    let info = input.u8()?;
    let address = match (info >> 6 & 1, info & 1) {
        (0, 1) => ExceptionAddress::Return,
        (1, 0) => ExceptionAddress::TargetAndReturn,
        _ => return Err(Malformed::ReservedException(info).into()),
    };
    let low = u16::from(info >> 1 & 0x1f);
    if info & 0x80 == 0 {
        return Ok(Packet::Exception { number: low, address, fault_pending: None });
    }
    let more = input.u8()?;
    let number = low | u16::from(more & 0x1f) << 5;
    Ok(Packet::Exception { number, address, fault_pending: Some(more >> 5 & 1 == 1) })
}

fn cycle_count_format_1(input: &mut Cursor<'_>, header: u8, config: &Config) -> Result<Packet, Ended> {
    let commit = (!config.commit_mode_1).then(|| input.continued_u32()).transpose()?;
    let cycles = (header & 1 == 0).then(|| input.continued_u20()).transpose()?;
    Ok(Packet::CycleCount(CycleCount::Format1 { commit, cycles }))
}

fn cycle_count_format_2(input: &mut Cursor<'_>, header: u8) -> Result<Packet, Ended> {
    let payload = input.u8()?;
    let (commit, cycles) = (payload >> 4, payload & 0xf);
    Ok(Packet::CycleCount(CycleCount::Format2 { near_maximum: header & 1 == 1, commit, cycles }))
}

fn few_atoms(header: u8) -> FewAtoms {
    match header & 3 {
        0 => FewAtoms::None,
        1 => FewAtoms::E,
        2 => FewAtoms::EE,
        _ => FewAtoms::N,
    }
}

fn conditional_instruction_format_3(input: &mut Cursor<'_>) -> Result<Packet, Ended> {
    let payload = input.u8()?;
    let (count, last) = (payload >> 1 & 0x3f, payload & 1 == 1);
    Ok(Packet::ConditionalInstruction(ConditionalInstruction::Format3 { count, last }))
}

fn conditional_result_format_1(input: &mut Cursor<'_>, header: u8) -> Result<Packet, Ended> {
    let first = key_result(input, header & 1 == 1)?;
    // 0x68 to 0x6b bring two results, 0x6e and 0x6f one.
    let second = (header & 4 == 0).then(|| key_result(input, header & 2 != 0)).transpose()?;
    Ok(Packet::ConditionalResult(ConditionalResult::Format1 { first, second }))
}

fn key_result(input: &mut Cursor<'_>, ci: bool) -> Result<KeyResult, Ended> {
    let byte = input.u8()?;
    let low = u32::from(byte >> 4 & 7);
    let high = if byte & 0x80 == 0 { 0 } else { input.continued_u32()? };
    Ok(KeyResult { key: low | high << 3, result: byte & 0xf, ci })
}

fn conditional_result_format_3(input: &mut Cursor<'_>, header: u8) -> Result<Packet, Ended> {
    let tokens = u16::from(header & 0xf) << 8 | u16::from(input.u8()?);
    Ok(Packet::ConditionalResult(ConditionalResult::Format3 { tokens }))
}

fn context(input: &mut Cursor<'_>, config: &Config) -> Result<Context, Ended> {
    let info = input.u8()?;
    let security = match (info >> 3 & 1, info >> 5 & 1) {
        (0, 0) => Security::Secure,
        (0, _) => Security::NonSecure,
        (_, 0) => Security::Root,
        _ => Security::Realm,
    };
    let vmid = (info & 0x40 != 0).then(|| input.little_endian(config.vmid_bytes)).transpose()?;
    let context_id = (info & 0x80 != 0).then(|| input.little_endian(config.context_id_bytes)).transpose()?;
    Ok(Context { el: config.level(info & 3), aarch64: info & 0x10 != 0, security, vmid, context_id })
}

/// An address in the layout of this address packet header.
fn address(input: &mut Cursor<'_>, header: u8) -> Result<Address, Ended> {
    let bytes = input.rest();
    let mut payload = [0; 8];
    let length = bytes.len().min(8);
    payload[..length].copy_from_slice(&bytes[..length]);
    let (address, length) = AddressForm::of(header, payload[0]).read(u64::from_le_bytes(payload));
    if length > bytes.len() {
        return Err(Ended);
    }
    input.skip(length);
    Ok(address)
}

/// Are bits of a packet set that should be zero? They are the top bits of the first bytes of a long address, of both in IS0, and
/// a bit of the context.
pub(super) fn has_reserved_bits(packet: &[u8]) -> bool {
    let [header, payload @ ..] = packet else { return false };
    let (top_bits, address_bytes) = match header {
        0x9a | 0x82 | 0xaa | 0xb6 => (2, 4),
        0x9b | 0x83 | 0xab | 0xb7 => (1, 4),
        0x9d | 0x85 | 0xb8 => (2, 8),
        0x9e | 0x86 | 0xb9 => (1, 8),
        0x81 => (0, 0),
        _ => return false,
    };
    let context = payload.get(address_bytes).filter(|_| matches!(header, 0x81..=0x86));
    payload.iter().take(top_bits).any(|byte| byte & 0x80 != 0) || context.is_some_and(|info| info & 0x04 != 0)
}

fn q_with_address(input: &mut Cursor<'_>, header: u8) -> Result<Packet, Ended> {
    let address = address(input, header ^ 0x30)?;
    Ok(Packet::Q { count: Some(input.continued_u32()?), address: Some(address) })
}
