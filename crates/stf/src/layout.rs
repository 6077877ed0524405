//! Properties of the header that determine the layout of later records.

/// Number of TileLink, the only protocol whose data can be parsed.
pub const TILELINK: u8 = 1;

/// Feature bit of events with 64-bit numbers.
pub const FEATURE_EVENT64: u64 = 0x8_0000;

/// Layout of the records of a file, as far as its header has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    pub(super) wide_events: bool,
    pub(super) vlen: Option<u32>,
    pub(super) protocol: Option<u8>,
}

impl Layout {
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
