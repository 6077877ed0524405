//! The header of a trace as one value.
//!
//! Takes a reader at the start of a file; produces what the records of the header contain. The reader then continues
//! with the first record after the header. Long lists and texts are cut: the value is for display and for the state at
//! the start, not for writing the header again.

use std::io::Read;
use std::ops::ControlFlow;

use crate::builder::Features;
use crate::isa::RISCV;
use crate::lift::Follower;
use crate::names;
use crate::read::{Position, ReadError, Reader};
use crate::record::{Record, descriptor};

/// Limits of what is displayed: entries of each list, and bytes of each text.
const MAX_ENTRIES: usize = 16;
const MAX_TEXT_BYTES: usize = 200;

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
    /// The first TRACE_INFO records: trace generator and modifiers.
    pub trace_infos: Vec<OwnedTraceInfo>,
    /// Feature bits.
    pub features: Option<u64>,
    /// Hardware thread ID, PID and TID at the start; older files have another meaning, see [`Record::ProcessIdExt`].
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
    /// The whole list of extensions.
    isa_extended: Vec<u8>,
}

/// [`TraceInfo`](crate::record::TraceInfo) with its comment as displayable text.
#[derive(Debug, Clone)]
pub struct OwnedTraceInfo {
    /// Number of the trace generator or modifier.
    pub generator: u8,
    /// Its version.
    pub version: [u8; 3],
    /// Its comment.
    pub comment: String,
}

impl Header {
    /// State at the start of the trace. An instruction set or encoding mode that the header lacks is 0, which is
    /// reserved.
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

    /// ISA and ISA_EXTENDED as this header has them, for writers that disassemble. Without an ISA record, opcodes are
    /// shown as RISC-V; without extensions, the list is empty.
    pub fn isa_records(&self) -> [Record<'_>; 2] {
        [Record::Isa(self.isa.unwrap_or(RISCV)), Record::IsaExtended(&self.isa_extended)]
    }

    pub(crate) fn push(&mut self, record: &Record<'_>) {
        self.records += 1;
        match record {
            Record::Version { major, minor } => self.version = Some((*major, *minor)),
            Record::Isa(isa) => self.isa = Some(*isa),
            Record::InstIem(iem) => self.iem = Some(*iem),
            Record::Comment(text) if self.comments.len() < MAX_ENTRIES => self.comments.push(bounded_text(text)),
            Record::TraceInfo(info) if self.trace_infos.len() < MAX_ENTRIES => self.trace_infos.push(OwnedTraceInfo {
                generator: info.generator,
                version: info.version,
                comment: bounded_text(info.comment),
            }),
            Record::TraceInfoFeature(features) => self.features = Some(*features),
            Record::ProcessIdExt(ids) => self.process = Some(*ids),
            Record::ForcePc(pc) => self.pc = Some(*pc),
            Record::VlenConfig(bits) => self.vlen = Some(*bits),
            Record::IsaExtended(text) => {
                (self.extensions, self.isa_extended) = (Some(bounded_text(text)), text.to_vec());
            }
            Record::ProtocolId(id) => self.protocol = Some(*id),
            Record::ClockId { id, name } if self.clocks.len() < MAX_ENTRIES => {
                self.clocks.push((*id, bounded_text(name)));
            }
            Record::EndHeader => self.is_complete = true,
            _ => {}
        }
    }
}

/// The first [`MAX_TEXT_BYTES`] of a text, with escapes for what is not printable.
fn bounded_text(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    let mut text: String = String::from_utf8_lossy(start).escape_debug().collect();
    text.push_str(if bytes.len() > MAX_TEXT_BYTES { ".." } else { "" });
    text
}

/// Reason why there is no header.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The bytes cannot be read, or are not records.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A record of the body comes before END_HEADER.
    #[error(
        "record {} at offset {:#x}: {} record before the end of the header; 'unspool dump --records' lists it",
        position.record, position.offset, names::record(*descriptor).unwrap_or("unknown")
    )]
    Stray {
        /// Position of the record.
        position: Position,
        /// Its descriptor.
        descriptor: u8,
    },
    /// The trace ends before END_HEADER.
    #[error("the trace ends within its header")]
    Truncated,
}

impl Header {
    /// Reads the header of a trace, with END_HEADER. On an error, the record that caused it has been consumed, too.
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
            (None, false) => Err(HeaderError::Truncated),
        }
    }
}
