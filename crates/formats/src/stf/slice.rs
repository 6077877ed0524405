//! A cut: some instructions or transactions of a trace, as a trace of their own.
//!
//! trace, range ─▶ **slice** ─▶ records
//!
//! The header is that of the trace, byte by byte, with the address of the first instruction of the cut. What was told
//! before and still holds there (process, encoding mode, privilege mode) is told again in front of it. Everything
//! else in the range stays as it is, but for page table walks: they count instructions from the start of the trace,
//! and so are counted anew. Walks of pages that were only walked before the cut are not told again. Transactions have
//! neither addresses nor state: of them nothing is changed, and what they depend on may be left outside.
//! Specification: STF 1.3, "STF File Anatomy": who modifies a file updates its header.

mod transactions;

use std::io::{self, Read};
use std::ops::{ControlFlow, Range};

use super::build::{Features, RecordSink};
use super::layout::Layout;
use super::lift::{Follower, Instruction};
use super::read::{ReadError, Reader};
use super::record::{Event, PageTableWalk, Record, descriptor};
use super::sign::HeaderRecords;

/// How to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceOptions {
    /// Say in the header who cut, with a comment and a trace info, as the text asks for.
    pub sign: bool,
}

impl Default for SliceOptions {
    fn default() -> Self {
        Self { sign: true }
    }
}

/// What was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sliced {
    /// How many instructions the cut has.
    pub instructions: u64,
    /// How many transactions the cut has: one of the two is zero.
    pub transactions: u64,
    /// Page table walks whose instruction got another number.
    pub walks_adjusted: u64,
    /// Page table walks that name an instruction before the cut, and so stay as they are.
    pub walks_kept: u64,
    /// Dependencies on transactions that were left outside. They stay as they are: the number that they name is that of
    /// the trace, and so is the delay. Who reads the cut has nothing to wait for.
    pub dependencies_kept: u64,
}

/// Why nothing, or not everything, was cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// Writing failed.
    #[error("the cut could not be written: {0}")]
    Write(#[source] io::Error),
    /// The trace cannot be read to the end of the range. What came before was cut.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The trace ends in its header.
    #[error("the trace has no end of its header")]
    NoHeader,
    /// There is no instruction in the range.
    #[error("there is no instruction in the range: the trace has {0}")]
    Empty(u64),
    /// There is no transaction in the range.
    #[error("there is no transaction in the range: the trace has {0}")]
    NoTransaction(u64),
}

/// Cuts the instructions of a range out of a trace, or the transactions if it is a trace of these. The first has the
/// number 0 here, whatever number a transaction says that it has.
///
/// The reader is at the start of the trace. The header is written with the first instruction or transaction, so an empty
/// range writes nothing.
pub fn slice<R: Read>(
    reader: &mut Reader<R>,
    range: Range<u64>,
    options: SliceOptions,
    sink: &mut impl RecordSink,
) -> Result<Sliced, SliceError> {
    let mut header = Header::default();
    reader.each(|_, record| header.take(record))?;
    match header {
        Header { is_complete: false, .. } => Err(SliceError::NoHeader),
        _ if header.has_transactions() => transactions::slice(reader, &header, range, options, sink),
        _ => slice_instructions(reader, &header, range, options, sink),
    }
}

fn slice_instructions<R: Read>(
    reader: &mut Reader<R>,
    header: &Header,
    range: Range<u64>,
    options: SliceOptions,
    sink: &mut impl RecordSink,
) -> Result<Sliced, SliceError> {
    let mut follower = Follower { next_pc: header.pc, iem: header.iem, isa: header.isa, ..Follower::default() };
    let mut cut = Cut { header, options, range, sink, process: None, sliced: Sliced::default(), failed: None };
    // Behind the last instruction nothing is read, so that a damaged end does no harm.
    let read = if cut.range.is_empty() {
        Ok(true)
    } else {
        reader.each_instruction(&mut follower, |instruction| cut.instruction(instruction))
    };
    match (cut.failed.take(), read) {
        (Some(error), _) => Err(SliceError::Write(error)),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) if cut.sliced.instructions == 0 => Err(SliceError::Empty(follower.instructions)),
        (None, Ok(_)) => Ok(cut.sliced),
    }
}

/// The header of the trace.
#[derive(Debug, Default)]
struct Header {
    records: HeaderRecords,
    pc: u64,
    isa: u16,
    iem: u16,
    features: u64,
    process: Option<[u32; 3]>,
    layout: Layout,
    /// It has what only transactions need.
    has_protocol: bool,
    is_complete: bool,
}

impl Header {
    fn take(&mut self, record: &Record<'_>) -> ControlFlow<()> {
        self.layout.follow(record);
        match record {
            Record::ForcePc(pc) => self.pc = *pc,
            Record::Isa(isa) => self.isa = *isa,
            Record::InstIem(iem) => self.iem = *iem,
            Record::ProcessIdExt(ids) => self.process = Some(*ids),
            Record::TraceInfoFeature(features) => self.features = *features,
            Record::ProtocolId(_) | Record::ClockId { .. } => self.has_protocol = true,
            Record::InstOpcode32(_) | Record::InstOpcode16(_) | Record::Transaction(_) => return ControlFlow::Break(()),
            Record::EndHeader => self.is_complete = true,
            _ => {}
        }
        self.records.push(record);
        if self.is_complete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Is the trace one of transactions? Without a protocol none can be read; with one, and with an encoding mode too,
    /// the features decide.
    fn has_transactions(&self) -> bool {
        self.has_protocol && (self.iem == 0 || Features(self.features).has(Features::TRANSACTIONS))
    }

    /// The header of a cut that starts at `pc`; transactions are nowhere.
    fn of_cut(&self, pc: Option<u64>, options: SliceOptions) -> Vec<u8> {
        let mut records = self.records.clone();
        if let Some(start) = pc.map(Record::ForcePc)
            // The last one counts, so none of the others may stay.
            && !records.replace(&start)
        {
            records.put_behind(descriptor::PROCESS_ID_EXT, &start);
        }
        if options.sign {
            records.sign();
        }
        let mut bytes = Vec::new();
        records.encode(&mut bytes);
        bytes
    }
}

/// A cut in the making.
struct Cut<'a, S> {
    header: &'a Header,
    options: SliceOptions,
    range: Range<u64>,
    sink: &'a mut S,
    /// The process that the body told last.
    process: Option<[u32; 3]>,
    sliced: Sliced,
    failed: Option<io::Error>,
}

impl<S: RecordSink> Cut<'_, S> {
    fn instruction(&mut self, instruction: &Instruction<'_>) -> ControlFlow<()> {
        let index = instruction.number - 1;
        if index < self.range.start {
            self.pass(instruction);
            return ControlFlow::Continue(());
        }
        let written = if index == self.range.start { self.first(instruction) } else { self.copy(instruction) };
        match written {
            Err(error) => {
                self.failed = Some(error);
                return ControlFlow::Break(());
            }
            Ok(()) => self.sliced.instructions += 1,
        }
        if index + 1 >= self.range.end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Remembers what still holds behind an instruction before the cut.
    fn pass(&mut self, instruction: &Instruction<'_>) {
        if instruction.records == 1 {
            return;
        }
        for record in instruction.group() {
            if let Record::ProcessIdExt(ids) = record {
                self.process = Some(ids);
            }
        }
    }

    /// The header, and the first instruction with the state before it.
    fn first(&mut self, instruction: &Instruction<'_>) -> io::Result<()> {
        let mut bytes = self.header.of_cut(Some(instruction.pc), self.options);
        let own_iem = instruction.group().any(|record| matches!(record, Record::InstIem(_)));
        if instruction.iem != self.header.iem && !own_iem {
            Record::InstIem(instruction.iem).encode(&mut bytes);
        }
        if let Some(ids) = self.process.filter(|ids| Some(*ids) != self.header.process) {
            Record::ProcessIdExt(ids).encode(&mut bytes);
        }
        // Events come late in a group. A change of mode by the instruction itself comes behind, and so wins.
        let mut mode = instruction.mode;
        for record in instruction.group() {
            if record.descriptor() >= descriptor::EVENT
                && let Some(mode) = mode.take()
            {
                self.mode(mode, &mut bytes);
            }
            self.record(&record, &mut bytes);
        }
        self.sink.take(&bytes)
    }

    /// Tells the mode.
    fn mode(&self, mode: u64, bytes: &mut Vec<u8>) {
        let is_wide = self.header.layout.has_wide_events();
        let raw = if is_wide { 1 << 62 } else { 1 << 30 };
        Record::Event(Event { raw, is_wide, data: &mode.to_le_bytes() }).encode(bytes);
    }

    fn copy(&mut self, instruction: &Instruction<'_>) -> io::Result<()> {
        let has_walk =
            instruction.records > 1 && instruction.group().any(|record| matches!(record, Record::PageTableWalk(_)));
        if !has_walk {
            return self.sink.take(instruction.bytes);
        }
        let mut bytes = Vec::with_capacity(instruction.bytes.len());
        for record in instruction.group() {
            self.record(&record, &mut bytes);
        }
        self.sink.take(&bytes)
    }

    /// Copies a record; a page table walk with the number that its instruction has in the cut.
    fn record(&mut self, record: &Record<'_>, bytes: &mut Vec<u8>) {
        let Record::PageTableWalk(walk) = record else { return record.encode(bytes) };
        match walk.first_use.checked_sub(self.range.start) {
            _ if self.range.start == 0 => record.encode(bytes),
            Some(first_use) => {
                self.sliced.walks_adjusted += 1;
                Record::PageTableWalk(PageTableWalk { first_use, ..*walk }).encode(bytes);
            }
            None => {
                self.sliced.walks_kept += 1;
                record.encode(bytes);
            }
        }
    }
}
