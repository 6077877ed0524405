//! Batches of records, from the unpacker to the caller.

use super::error::LocatedKind;
use crate::layout::Bytes;
use crate::record::RECORD_BYTES;

/// Number of records of a batch, unless it is an independent block: 256 KiB, which stay in the cache between decompression and
/// use.
const BATCH: usize = 8192;

/// Records on their way from the unpacker to the caller.
pub(crate) struct Batch {
    pub(crate) records: Vec<Bytes>,
    /// Number of them that are filled.
    pub(crate) whole: usize,
    /// Nothing follows these.
    pub(crate) end: Option<End>,
    /// Offset in the file at which reading can start with these.
    pub(crate) offset: Option<u64>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { records: vec![[0; RECORD_BYTES]; BATCH], whole: 0, end: None, offset: None }
    }
}

pub(crate) enum End {
    Clean,
    Fault(LocatedKind),
}
