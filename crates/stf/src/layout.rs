//! Properties of the header that determine the layout of later records.

use super::record::{Record, Register, descriptor};

/// Number of TileLink, the only protocol whose data can be parsed.
pub const TILELINK: u8 = 1;

/// Feature bit of events with 64-bit numbers.
pub const FEATURE_EVENT64: u64 = 0x8_0000;

/// Layout of the records of a file, as far as its header has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    wide_events: bool,
    vlen: Option<u32>,
    protocol: Option<u8>,
}

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

    /// Are event numbers 64 bits wide?
    pub fn has_wide_events(&self) -> bool {
        self.wide_events
    }

    /// Bytes of a vector register in a record, if the header has a valid length.
    pub fn vector_bytes(&self) -> Option<usize> {
        self.vlen.filter(|&bits| bits > 0 && bits <= MAX_VECTOR_BITS).map(|bits| bits.div_ceil(64) as usize * 8)
    }

    /// Bits of a vector register, as recorded in the header.
    pub fn vlen(&self) -> Option<u32> {
        self.vlen
    }

    /// Protocol of transactions.
    pub fn protocol(&self) -> Option<u8> {
        self.protocol
    }
}

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

/// Architectural maximum of the length of a vector register.
const MAX_VECTOR_BITS: u32 = 1 << 16;

/// Reason why the bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The bytes end within the record.
    #[error("the trace ends within a record")]
    Truncated,
    /// The length of such a record is unknown.
    #[error("no record has the descriptor {0}, so the rest of the trace cannot be read")]
    UnknownDescriptor(u8),
    /// The header has no length of vector registers, or an impossible one.
    #[error("a vector register, but the header has no valid vector length")]
    NoVectorLength,
    /// A value of a transaction's metadata has an unknown size.
    #[error("the metadata of a transaction has a value of unknown size {0}")]
    MetadataSize(u8),
    /// The length of the data of such a transaction is unknown.
    #[error("a transaction of {}, so the rest of the trace cannot be read", protocol_text(*.0))]
    UnknownProtocol(Option<u8>),
    /// TileLink has no such channel.
    #[error("a transaction on the unknown TileLink channel {0}")]
    UnknownChannel(u8),
}

fn protocol_text(protocol: Option<u8>) -> String {
    protocol.map_or("no protocol".into(), |protocol| format!("the unknown protocol {protocol}"))
}
