//! Packets to bytes: the inverse of the packet decoder.
//!
//! Takes packets. Produces their bytes; values and counts in the shortest form. A packet that the configuration cannot
//! send is refused, so everything that is written can be read back.

use alloc::vec::Vec;

use super::Config;
use super::packet::{
    Branch, BranchException, DataAddress, ExceptionInformation, InstructionSet, InstructionSync, PHeader, Packet,
    SyncReason,
};

/// A packet that this configuration cannot send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this configuration has no packet '{0}'")]
pub struct Unencodable(pub Packet);

impl Packet {
    /// Appends the packet's bytes.
    pub fn encode(&self, config: &Config, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let start = out.len();
        let done = encode(self, config, out).filter(|()| out.get(start).is_some_and(|&header| config.accepts(header)));
        done.ok_or_else(|| {
            out.truncate(start);
            Unencodable(*self)
        })
    }
}

pub(super) fn encode(packet: &Packet, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    match *packet {
        Packet::AlignmentSync => out.extend_from_slice(&[0, 0, 0, 0, 0, 0x80]),
        Packet::CycleCount { cycles } => {
            out.push(0x04);
            cycle_count(cycles, out);
        }
        Packet::InstructionSync(sync) => instruction_sync(&sync, config, out)?,
        Packet::Trigger => out.push(0x0c),
        Packet::Vmid(vmid) => out.extend_from_slice(&[0x3c, vmid]),
        Packet::StoreFailed => out.push(0x50),
        Packet::Timestamp { value, bits, frequency_changed } => {
            out.push(if frequency_changed { 0x46 } else { 0x42 });
            timestamp(value, bits, config, out)?;
        }
        Packet::DataSuppressed => out.push(0x62),
        Packet::Ignore => out.push(0x66),
        Packet::ContextId(id) => {
            out.push(0x6e);
            context_id(id, config, out)?;
        }
        Packet::ExceptionExit => out.push(0x76),
        Packet::ExceptionEntry => out.push(0x7e),
        Packet::PHeader(header) => out.push(p_header(header, config)?),
        Packet::Branch(target) => branch(&target, config, out)?,
        Packet::Data { first, address, value } => {
            let (size, bytes) = data_value(value, config)?;
            out.push(0x02 | u8::from(first) << 5 | size << 2);
            data_address(first, address, config, out)?;
            out.extend_from_slice(bytes.get(..length(size))?);
        }
        Packet::Placeholder { tag, first, address } => {
            out.push(0x50 | u8::from(first) << 5 | tag_field(tag)? << 2);
            data_address(first, address, config, out)?;
        }
        Packet::OutOfOrderData { tag, value } => {
            let (size, bytes) = data_value(value, config)?;
            out.push(tag_field(tag)? << 5 | size << 2);
            out.extend_from_slice(bytes.get(..length(size))?);
        }
        Packet::ValueNotTraced { first, address } => {
            out.push(0x6a | u8::from(first) << 4);
            data_address(first, address, config, out)?;
        }
    }
    Some(())
}

fn tag_field(tag: u8) -> Option<u8> {
    (1..=3).contains(&tag).then_some(tag)
}

/// 7 bits per byte.
fn cycle_count(mut cycles: u32, out: &mut Vec<u8>) {
    while cycles >= 0x80 {
        out.push(cycles as u8 | 0x80);
        cycles >>= 7;
    }
    out.push(cycles as u8);
}

fn timestamp(value: u64, bits: u8, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    let whole = config.timestamp_bits;
    let longest = if whole == 64 { 9 } else { 7 };
    let length = match bits {
        _ if bits == whole => longest,
        7.. if bits.is_multiple_of(7) && bits / 7 < longest => bits / 7,
        _ => return None,
    };
    if bits < 64 && value >> bits != 0 {
        return None;
    }
    for index in 0..length {
        let is_last = index + 1 == length;
        let byte = (value >> (7 * index)) as u8;
        out.push(match (is_last, length) {
            (true, 9) => byte,
            (true, _) => byte & 0x7f,
            (false, _) => byte | 0x80,
        });
    }
    Some(())
}

fn context_id(id: u32, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    let (low, high) = id.to_le_bytes().split_at_checked(usize::from(config.context_id_bytes)).map(|(low, high)| {
        out.extend_from_slice(low);
        (low.len(), high.iter().all(|&byte| byte == 0))
    })?;
    (low > 0 && high).then_some(())
}

fn instruction_sync(sync: &InstructionSync, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    out.push(if sync.cycles.is_some() { 0x70 } else { 0x08 });
    if let Some(cycles) = sync.cycles {
        cycle_count(cycles, out);
    }
    match sync.context_id {
        Some(id) => context_id(id, config, out)?,
        None if config.context_id_bytes > 0 => return None,
        None => {}
    }
    if sync.target.is_some() == config.data_only {
        return None;
    }
    let reason = match sync.reason {
        SyncReason::Periodic => 0,
        SyncReason::Enabled => 1,
        SyncReason::Overflow => 2,
        SyncReason::DebugExit => 3,
    };
    let isa = sync.target.map(|target| target.isa);
    let information = u8::from(sync.next.is_some()) << 7
        | reason << 5
        | u8::from(isa == Some(InstructionSet::Jazelle)) << 4
        | u8::from(sync.non_secure) << 3
        | u8::from(isa == Some(InstructionSet::ThumbEe)) << 2
        | u8::from(sync.hyp) << 1
        | 1;
    out.push(information);
    if let Some(target) = sync.target {
        let is_aligned = target.isa == InstructionSet::Jazelle || target.address & 1 == 0;
        let thumb = u32::from(matches!(target.isa, InstructionSet::Thumb | InstructionSet::ThumbEe));
        is_aligned.then(|| out.extend_from_slice(&(target.address | thumb).to_le_bytes()))?;
    }
    match (sync.next, sync.target) {
        (Some(next), Some(_)) => branch(&next, config, out),
        (Some(_), None) => None,
        (None, _) => Some(()),
    }
}

fn p_header(header: PHeader, config: &Config) -> Option<u8> {
    let small = |value: u8, max: u8| (value <= max).then_some(value);
    Some(match header {
        PHeader::Format1 { executed, failed } => {
            0x80 | u8::from(failed) << 6 | small(executed, if config.cycle_accurate { 7 } else { 15 })? << 2
        }
        PHeader::Format2 { first, second } => 0x82 | u8::from(!first) << 3 | u8::from(!second) << 2,
        PHeader::Format3 { cycles, executed } if config.cycle_accurate => {
            0xa0 | u8::from(executed) << 6 | small(cycles.checked_sub(1)?, 7)? << 2
        }
        PHeader::Format4 { executed } if config.cycle_accurate => 0x92 | u8::from(!executed) << 2,
        PHeader::Format3 { .. } | PHeader::Format4 { .. } => return None,
    })
}

fn branch(branch: &Branch, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    let Branch { value, bits, isa, exception } = *branch;
    if bits < 32 && value.checked_shr(bits.into())? != 0 {
        return None;
    }
    let first = (value as u8 & 0x3f) << 1 | 1;
    let middle = |index: u32| (value >> (6 + 7 * index)) as u8 & 0x7f;
    let information = match exception {
        Some(BranchException::Information(information)) => Some(information),
        _ => None,
    };
    let Some(isa) = isa else {
        if matches!(exception, Some(BranchException::Deprecated { .. })) {
            return None;
        }
        return short_branch(first, middle, bits, information, config, out);
    };
    let (width, tag) = match isa {
        InstructionSet::Arm => (3, 0x08),
        InstructionSet::Thumb => (4, 0x10),
        InstructionSet::Jazelle => (5, 0x20),
        InstructionSet::ThumbEe => return None,
    };
    if bits != 27 + width {
        return None;
    }
    let high = (value >> 27) as u8;
    let fifth = match exception {
        Some(BranchException::Deprecated { code, canceled }) => {
            let is_possible = isa == InstructionSet::Arm && code <= 7 && !config.alternative_branches;
            is_possible.then_some(0x80 | u8::from(canceled) << 6 | code << 3 | high)?
        }
        _ => tag | high | u8::from(information.is_some()) << 6,
    };
    out.extend_from_slice(&[first | 0x80, middle(0) | 0x80, middle(1) | 0x80, middle(2) | 0x80, fifth]);
    information.map_or(Some(()), |information| exception_information(&information, out))
}

/// A branch packet of one to four bytes.
fn short_branch(
    first: u8,
    middle: impl Fn(u32) -> u8,
    bits: u8,
    exception: Option<ExceptionInformation>,
    config: &Config,
    out: &mut Vec<u8>,
) -> Option<()> {
    let last_width = if config.alternative_branches { 6 } else { 7 };
    let further = match bits {
        6 => 0,
        _ => (1..=3).find(|&further| 6 + 7 * (further - 1) + last_width == bits)?,
    };
    if exception.is_some() && (further == 0 || !config.alternative_branches) {
        return None;
    }
    out.push(first | u8::from(further > 0) << 7);
    for index in 0..further {
        let is_last = index + 1 == further;
        let marks = if is_last { u8::from(exception.is_some()) << 6 } else { 0x80 };
        out.push(middle(index.into()) | marks);
    }
    exception.map_or(Some(()), |information| exception_information(&information, out))
}

fn exception_information(information: &ExceptionInformation, out: &mut Vec<u8>) -> Option<()> {
    let ExceptionInformation { number, canceled, non_secure, alternative_isa, hyp, resume } = *information;
    let high = (number >> 4) as u8;
    if number > 0x1ff || hyp.is_none() && high != 0 || resume.is_some_and(|resume| resume > 0xf) {
        return None;
    }
    let more = u8::from(hyp.is_some() || resume.is_some()) << 7;
    let flags = u8::from(alternative_isa) << 6 | u8::from(canceled) << 5 | u8::from(non_secure);
    out.push(more | flags | (number as u8 & 0xf) << 1);
    if let Some(hyp) = hyp {
        out.push(u8::from(resume.is_some()) << 7 | u8::from(hyp) << 5 | high);
    }
    out.extend(resume.map(|resume| 0x40 | resume));
    Some(())
}

/// The size field of a value and its bytes.
fn data_value(value: Option<u32>, config: &Config) -> Option<(u8, [u8; 4])> {
    let size = match value {
        None | Some(0) => 0,
        Some(..=0xff) => 1,
        Some(..=0xffff) => 2,
        Some(_) => 3,
    };
    (value.is_some() == config.data_values).then_some((size, value.unwrap_or(0).to_le_bytes()))
}

/// Number of bytes of a size field.
fn length(size: u8) -> usize {
    [0, 1, 2, 4][usize::from(size & 3)]
}

fn data_address(first: bool, address: Option<DataAddress>, config: &Config, out: &mut Vec<u8>) -> Option<()> {
    let Some(DataAddress { value, bits, big_endian }) = address else {
        return (!first || !config.data_addresses).then_some(());
    };
    let length = match (bits, big_endian) {
        (32, Some(_)) => 5,
        (7 | 14 | 21 | 28, None) if value >> bits == 0 => u32::from(bits / 7),
        _ => return None,
    };
    if !first || !config.data_addresses {
        return None;
    }
    for index in 0..length {
        let more = u8::from(index + 1 < length) << 7;
        let byte = (value >> (7 * index)) as u8 & 0x7f;
        let endian = if index == 4 { u8::from(big_endian == Some(true)) << 4 } else { 0 };
        out.push(more | byte | endian);
    }
    Some(())
}
