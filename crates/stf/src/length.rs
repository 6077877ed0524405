//! Lengths of records without parsing them, and header records that change the layout.

use super::layout::{FEATURE_EVENT64, Layout, Malformed};
use super::record::{Record, Register, descriptor};

/// Lengths of records that are fixed by the descriptor; zero: the length is variable.
const LENGTHS: [u8; 256] = {
    let mut lengths = [0; 256];
    let known: [(u8, u8); 20] = [
        (descriptor::IDENTIFIER, 4),
        (descriptor::VERSION, 9),
        (descriptor::ISA, 3),
        (descriptor::INST_IEM, 3),
        (descriptor::TRACE_INFO_FEATURE, 9),
        (descriptor::PROCESS_ID_EXT, 13),
        (descriptor::FORCE_PC, 9),
        (descriptor::VLEN_CONFIG, 5),
        (descriptor::PROTOCOL_ID, 2),
        (descriptor::END_HEADER, 1),
        (descriptor::INST_PC_TARGET, 9),
        (descriptor::INST_READY_REG, 3),
        (descriptor::INST_MEM_ACCESS, 14),
        (descriptor::INST_MEM_CONTENT, 9),
        (descriptor::BUS_MASTER_ACCESS, 18),
        (descriptor::BUS_MASTER_CONTENT, 9),
        (descriptor::EVENT_PC_TARGET, 9),
        (descriptor::INST_MICROOP, 6),
        (descriptor::INST_OPCODE32, 5),
        (descriptor::INST_OPCODE16, 3),
    ];
    let mut index = 0;
    while index < known.len() {
        lengths[known[index].0 as usize] = known[index].1;
        index += 1;
    }
    lengths
};

impl Layout {
    /// Follows a record of the header.
    #[inline]
    pub fn follow(&mut self, record: &Record<'_>) {
        match record {
            Record::TraceInfoFeature(features) => self.wide_events = features & FEATURE_EVENT64 != 0,
            Record::VlenConfig(bits) => self.vlen = Some(*bits),
            Record::ProtocolId(protocol) => self.protocol = Some(*protocol),
            _ => {}
        }
    }

    /// Length of the record at the start of the bytes.
    #[inline(always)]
    pub fn length(&self, bytes: &[u8]) -> Result<usize, Malformed> {
        let &descriptor = bytes.first().ok_or(Malformed::Truncated)?;
        match usize::from(LENGTHS[usize::from(descriptor)]) {
            0 if descriptor == descriptor::INST_REG => self.register_length(bytes),
            0 => Record::parse(bytes, self).map(|(_, length)| length),
            length if length <= bytes.len() => Ok(length),
            _ => Err(Malformed::Truncated),
        }
    }

    #[inline(always)]
    fn register_length(&self, bytes: &[u8]) -> Result<usize, Malformed> {
        match bytes {
            [_, _, _, meta, value @ ..] if meta & 0xf != Register::VECTOR && value.len() >= 8 => Ok(12),
            _ => Record::parse(bytes, self).map(|(_, length)| length),
        }
    }
}
