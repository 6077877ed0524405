//! The header of a trace as one value.
//!
//! Takes a reader at the start of a file; produces what the records of the header contain. The reader then continues
//! with the first record after the header.

use std::io::Read;
use std::ops::ControlFlow;

use crate::builder::Features;
use crate::lift::Follower;
use crate::names;
use crate::read::{Position, ReadError, Reader};
use crate::record::{Record, descriptor};

/// Limit of comments, tools and clocks that are kept, and of bytes of each text.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 200;

/// Fields of a header.
#[derive(Debug, Clone, Default)]
pub struct Header {
    /// Version of the format: major, minor.
    pub version: Option<(u32, u32)>,
    /// Instruction set.
    pub isa: Option<u16>,
    /// Instruction encoding mode.
    pub iem: Option<u16>,
    /// The first comments.
    pub comments: Vec<String>,
    /// Tools that wrote or changed the trace.
    pub makers: Vec<Maker>,
    /// Feature bits.
    pub features: Option<u64>,
    /// Process identifiers at the start.
    pub process: Option<[u32; 3]>,
    /// Address of the first instruction.
    pub pc: Option<u64>,
    /// Vector length in bits.
    pub vlen: Option<u32>,
    /// ISA extensions.
    pub extensions: Option<String>,
    /// Bus protocol of a transaction trace.
    pub protocol: Option<u8>,
    /// Clocks of a transaction trace: identifier, name.
    pub clocks: Vec<(u8, String)>,
    /// Count of records in the header.
    pub records: u64,
    pub(crate) is_complete: bool,
}

/// Tool that wrote the trace or changed it.
#[derive(Debug, Clone)]
pub struct Maker {
    /// Number of the tool.
    pub generator: u8,
    /// Its version.
    pub version: [u8; 3],
    /// Comment of the tool.
    pub comment: String,
}

impl Header {
    /// State at the start of the trace.
    pub fn follower(&self) -> Follower {
        Follower {
            next_pc: self.pc.unwrap_or(0),
            iem: self.iem.unwrap_or(0),
            isa: self.isa.unwrap_or(0),
            ..Follower::default()
        }
    }

    /// Is it a trace of bus transactions instead of instructions?
    pub fn has_transactions(&self) -> bool {
        self.protocol.is_some() || Features(self.features.unwrap_or(0)).has(Features::TRANSACTIONS)
    }

    /// Records that select the instruction set.
    pub fn isa_records(&self) -> [Record<'_>; 2] {
        let extensions = self.extensions.as_deref().unwrap_or_default();
        [Record::Isa(self.isa.unwrap_or(1)), Record::IsaExtended(extensions.as_bytes())]
    }

    pub(crate) fn push(&mut self, record: &Record<'_>) {
        self.records += 1;
        match record {
            Record::Version { major, minor } => self.version = Some((*major, *minor)),
            Record::Isa(isa) => self.isa = Some(*isa),
            Record::InstIem(iem) => self.iem = Some(*iem),
            Record::Comment(text) if self.comments.len() < KEPT => self.comments.push(kept(text)),
            Record::TraceInfo(info) if self.makers.len() < KEPT => self.makers.push(Maker {
                generator: info.generator,
                version: info.version,
                comment: kept(info.comment),
            }),
            Record::TraceInfoFeature(features) => self.features = Some(*features),
            Record::ProcessIdExt(ids) => self.process = Some(*ids),
            Record::ForcePc(pc) => self.pc = Some(*pc),
            Record::VlenConfig(bits) => self.vlen = Some(*bits),
            Record::IsaExtended(text) => self.extensions = Some(kept(text)),
            Record::ProtocolId(id) => self.protocol = Some(*id),
            Record::ClockId { id, name } if self.clocks.len() < KEPT => self.clocks.push((*id, kept(name))),
            Record::EndHeader => self.is_complete = true,
            _ => {}
        }
    }
}

/// Text of bounded length, with escapes for what is not printable.
fn kept(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(KEPT_BYTES)];
    let mut text: String = String::from_utf8_lossy(start).escape_debug().collect();
    text.push_str(if bytes.len() > KEPT_BYTES { ".." } else { "" });
    text
}

/// Reason why there is no header.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Reading ended.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A record of another kind comes first.
    #[error(
        "record {} at offset {:#x}: a record {} before the end of the header; 'unspool dump --records' lists it",
        position.record, position.offset, names::record(*descriptor).unwrap_or("unknown")
    )]
    Stray {
        /// Position of the record.
        position: Position,
        /// Its descriptor.
        descriptor: u8,
    },
    /// The trace ends first.
    #[error("the trace ends within its header")]
    Slicer,
}

impl Header {
    /// Reads the header of a trace.
    pub fn read<R: Read>(reader: &mut Reader<R>) -> Result<Self, HeaderError> {
        let mut header = Self::default();
        let mut stray = None;
        let is_stopped = reader.each(|position, record| {
            header.push(record);
            if header.is_complete {
                return ControlFlow::Break(());
            }
            if record.descriptor() > descriptor::END_HEADER {
                stray = Some(HeaderError::Stray { position, descriptor: record.descriptor() });
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        match (stray, is_stopped?) {
            (Some(stray), _) => Err(stray),
            (None, true) => Ok(header),
            (None, false) => Err(HeaderError::Slicer),
        }
    }
}
