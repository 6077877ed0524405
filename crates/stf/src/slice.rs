//! Slices: some instructions or transactions of a trace, as a trace of their own.
//!
//! trace, selection ─▶ **slice** ─▶ records
//!
//! The header is copied, with the address of the first selected instruction. State that was recorded earlier and is
//! still in effect (process, encoding mode, privilege mode) is recorded again before it, and so are the registers that are
//! known, as far as the trace has values of them; the format has no record of memory. Everything else is copied
//! unchanged, except page table walks: they number instructions from the start of the trace, so they are renumbered.
//! Walks before the slice are not repeated. At the start of a further range, the address is forced, and changed state
//! is recorded: process and encoding mode with its first instruction, the privilege mode with the last instruction
//! before, since a mode change takes effect with the next instruction. Transactions have neither addresses nor state,
//! and are copied unchanged; their dependencies may be outside.
//! Specification: STF 1.3, "STF File Anatomy": a tool that modifies a file updates its header.

mod registers;
mod transactions;

use std::io::{self, Read};
use std::ops::{ControlFlow, Range};

use unspool_isa::Isa;

use self::registers::KnownRegisters;
use super::builder::{Features, RecordSink};
use super::header::Header;
use super::isa::ARM;
use super::layout::Layout;
use super::lift::Instruction;
use super::lower::annotation;
use super::lower::sticky::StickyAnnotations;
use super::read::{ReadError, Reader};
use super::record::{Event, PageTableWalk, Record, descriptor};
use super::sign::HeaderRecords;
use unspool_model::selection::{Candidate, Choice, Select, Selection, SliceSink};

/// Options for slicing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceOptions {
    /// Name this tool in the header, with a comment and a trace info, as the specification demands.
    pub sign: bool,
    /// Write every range as a trace of its own.
    pub split: bool,
    /// Start every range with the registers that are known there.
    pub registers: bool,
}

impl Default for SliceOptions {
    fn default() -> Self {
        Self { sign: true, split: false, registers: false }
    }
}

/// Counts of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sliced {
    /// Number of instructions in the slice.
    pub instructions: u64,
    /// Number of contiguous ranges.
    pub pieces: u64,
    /// Number of transactions in the slice. Instructions or transactions are zero.
    pub transactions: u64,
    /// Page table walks that were renumbered.
    pub walks_adjusted: u64,
    /// Page table walks that refer to an instruction before the slice, and are unchanged.
    pub walks_kept: u64,
    /// Dependencies on transactions outside. They are unchanged: the number and the delay are those of the trace. A
    /// reader of the slice has nothing to wait for.
    pub dependencies_kept: u64,
}

/// Reason why a slice is missing or incomplete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// Writing failed.
    #[error("cannot write the slice: {0}")]
    Write(#[source] io::Error),
    /// The trace cannot be read to the end of the range. Everything before was written.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The trace ends in its header.
    #[error("the header of the trace has no end")]
    NoHeader,
    /// There is no instruction in the range.
    #[error("no instruction in the range: the trace has {0}")]
    Empty(u64),
    /// Transactions have no addresses.
    #[error("this is a trace of transactions, which have no addresses; select them by number")]
    Transactions,
    /// There is no transaction in the range.
    #[error("no transaction in the range: the trace has {0}")]
    NoTransaction(u64),
}

/// Writes the instructions of a range, or the transactions if it is a trace of these. The first is number 0, regardless
/// of the number in a transaction.
///
/// The reader is at the start of the trace. The header is written with the first instruction or transaction, so an
/// empty range writes nothing.
pub fn slice<R: Read>(
    reader: &mut Reader<R>,
    range: Range<u64>,
    options: SliceOptions,
    sink: &mut impl RecordSink,
) -> Result<Sliced, SliceError> {
    let header = read_header(reader)?;
    if header.has_transactions() {
        return transactions::slice(reader, &header, range, options, sink);
    }
    slice_instructions(reader, &header, &mut Selection::of(&range), options, &mut OneTrace(sink))
}

/// Writes the selected instructions, as one trace or as one per range.
///
/// The reader is at the start of the trace. There is no time, and only one core.
pub fn slice_by<R: Read>(
    reader: &mut Reader<R>,
    select: &mut impl Select,
    options: SliceOptions,
    sink: &mut impl SliceSink<u8>,
) -> Result<Sliced, SliceError> {
    let header = read_header(reader)?;
    if header.has_transactions() {
        return Err(SliceError::Transactions);
    }
    slice_instructions(reader, &header, select, options, sink)
}

fn read_header<R: Read>(reader: &mut Reader<R>) -> Result<SourceHeader, SliceError> {
    let mut header = SourceHeader::default();
    reader.each(|_, record| header.push(record))?;
    if header.fields.is_complete { Ok(header) } else { Err(SliceError::NoHeader) }
}

fn slice_instructions<R: Read>(
    reader: &mut Reader<R>,
    header: &SourceHeader,
    select: &mut impl Select,
    options: SliceOptions,
    sink: &mut impl SliceSink<u8>,
) -> Result<Sliced, SliceError> {
    let mut follower = header.fields.follower();
    let mut slicer = Slicer {
        header,
        options,
        select,
        sink,
        process: header.fields.process,
        piece: None,
        last: Vec::new(),
        recorded: State::default(),
        mode: None,
        annotations: header.announces.then(StickyAnnotations::default),
        registers: options.registers.then(KnownRegisters::default),
        sliced: Sliced::default(),
        failed: None,
    };
    // Nothing is read after the last instruction, so that a damaged end does not matter.
    let read = if slicer.select.wants_more() {
        reader.each_instruction(&mut follower, |instruction| slicer.instruction(instruction))
    } else {
        Ok(true)
    };
    let ended = slicer.write_last();
    match (slicer.failed.take().or(ended.err()), read) {
        (Some(error), _) => Err(SliceError::Write(error)),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) if slicer.sliced.instructions == 0 => Err(SliceError::Empty(follower.instructions)),
        (None, Ok(_)) => Ok(slicer.sliced),
    }
}

/// A sink for one trace.
struct OneTrace<'s, S>(&'s mut S);

impl<S: RecordSink> SliceSink<u8> for OneTrace<'_, S> {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn write_part(&mut self, part: &[u8]) -> io::Result<()> {
        self.0.write_records(part)
    }
}

/// The header, its records, and their effect on later ones.
#[derive(Debug, Default)]
struct SourceHeader {
    fields: Header,
    records: HeaderRecords,
    layout: Layout,
    /// It has a protocol or clock, which only transactions need.
    has_protocol: bool,
    /// It announces annotations.
    announces: bool,
}

impl SourceHeader {
    fn push(&mut self, record: &Record<'_>) -> ControlFlow<()> {
        match record {
            Record::InstOpcode32(_) | Record::InstOpcode16(_) | Record::Transaction(_) => return ControlFlow::Break(()),
            Record::ProtocolId(_) | Record::ClockId { .. } => self.has_protocol = true,
            Record::Comment(text) => self.announces |= annotation::parse_announcement(text).is_some(),
            _ => {}
        }
        self.layout.follow(record);
        self.fields.push(record);
        self.records.push(record);
        if self.fields.is_complete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Is it a trace of transactions? Without a protocol they cannot be read; with both a protocol and an encoding
    /// mode, the features decide.
    fn has_transactions(&self) -> bool {
        let Header { iem, features, .. } = self.fields;
        self.has_protocol
            && (iem.is_none_or(|iem| iem == 0) || Features(features.unwrap_or(0)).has(Features::TRANSACTIONS))
    }

    /// The header of a slice that starts at `pc`; transactions have no address.
    fn for_slice(&self, pc: Option<u64>, options: SliceOptions) -> Vec<u8> {
        let mut records = self.records.clone();
        if let Some(start) = pc.map(Record::ForcePc)
            // The last one counts, so all of them are replaced.
            && !records.replace(&start)
        {
            records.insert_after(descriptor::PROCESS_ID_EXT, &start);
        }
        if options.sign {
            records.sign();
        }
        let mut bytes = Vec::new();
        records.encode(&mut bytes);
        bytes
    }
}

/// State that the slice has recorded.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    iem: u16,
    process: Option<[u32; 3]>,
    /// The mode of the next instruction.
    mode: Option<u64>,
}

/// Start of the current range: its instruction number in the trace and in the slice.
#[derive(Debug, Clone, Copy)]
struct Piece {
    from: u64,
    to: u64,
}

/// A slice in progress.
struct Slicer<'a, C, S> {
    header: &'a SourceHeader,
    options: SliceOptions,
    select: &'a mut C,
    sink: &'a mut S,
    /// The process recorded last in the trace.
    process: Option<[u32; 3]>,
    /// The current range, if the previous instruction was selected.
    piece: Option<Piece>,
    /// Group of the last selected instruction: a mode change after it is known only with the next one.
    last: Vec<u8>,
    recorded: State,
    /// The mode that the current group changes to.
    mode: Option<u64>,
    /// Annotations in effect, if the header announces any.
    annotations: Option<StickyAnnotations>,
    /// Registers with a known value, if ranges start with them.
    registers: Option<KnownRegisters>,
    sliced: Sliced,
    failed: Option<io::Error>,
}

impl<C: Select, S: SliceSink<u8>> Slicer<'_, C, S> {
    fn instruction(&mut self, instruction: &Instruction<'_>) -> ControlFlow<()> {
        let candidate = Candidate {
            index: instruction.number - 1,
            pc: Some(instruction.pc),
            code: (self.header.fields.isa == Some(ARM)).then_some((Isa::A64, instruction.opcode)),
            length: instruction.length,
            is_executed: true,
            ..Candidate::default()
        };
        match self.select.choose(&candidate) {
            Choice::Stop => return ControlFlow::Break(()),
            Choice::Leave => {
                self.pass(instruction);
                self.follow(instruction);
                self.piece = None;
                return ControlFlow::Continue(());
            }
            Choice::Take => {}
        }
        if let Err(error) = self.take(instruction) {
            self.failed = Some(error);
            return ControlFlow::Break(());
        }
        self.follow(instruction);
        self.sliced.instructions += 1;
        if self.select.wants_more() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn follow(&mut self, instruction: &Instruction<'_>) {
        if let Some(annotations) = &mut self.annotations {
            annotations.follow(instruction);
        }
        if let Some(registers) = &mut self.registers {
            registers.follow(instruction);
        }
    }

    /// Follows the state of an instruction that is left out.
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

    fn take(&mut self, instruction: &Instruction<'_>) -> io::Result<()> {
        match self.piece {
            Some(_) => {
                self.write_last()?;
                self.copy(instruction);
            }
            None if self.options.split || self.sliced.pieces == 0 => {
                self.write_last()?;
                self.begin(instruction, true);
                self.sink.begin()?;
                self.sink.write_part(&self.header.for_slice(Some(instruction.pc), self.options))?;
                self.first(instruction);
            }
            None => {
                self.record_mode(instruction.mode);
                self.write_last()?;
                self.begin(instruction, false);
                self.seam(instruction);
            }
        }
        // The mode of the first instruction of a trace is recorded in its own group.
        self.recorded.mode = self.mode.take().or(instruction.mode).or(self.recorded.mode);
        Ok(())
    }

    /// Starts a range. `is_trace`: in a trace of its own.
    fn begin(&mut self, instruction: &Instruction<'_>, is_trace: bool) {
        let to = if is_trace { 0 } else { self.sliced.instructions };
        self.piece = Some(Piece { from: instruction.number - 1, to });
        self.sliced.pieces += 1;
    }

    /// Writes the last selected instruction.
    fn write_last(&mut self) -> io::Result<()> {
        if self.last.is_empty() {
            return Ok(());
        }
        self.sink.write_part(&self.last)?;
        self.last.clear();
        Ok(())
    }

    /// Records that the mode after the last instruction is this one.
    fn record_mode(&mut self, mode: Option<u64>) {
        let Some(mode) = mode.filter(|mode| Some(*mode) != self.recorded.mode) else { return };
        let mut event = Vec::new();
        self.put_mode(mode, &mut event);
        let position = self.after_events();
        self.last.splice(position..position, event);
    }

    /// Offset of the records of the last instruction that follow events.
    fn after_events(&self) -> usize {
        let mut position = 0;
        while let Ok((record, length)) = Record::parse(&self.last[position..], &self.header.layout) {
            if record.descriptor() > descriptor::EVENT_PC_TARGET {
                break;
            }
            position += length;
        }
        position
    }

    /// Copies the first instruction of a trace, with the state before it.
    fn first(&mut self, instruction: &Instruction<'_>) {
        self.recorded =
            State { iem: self.header.fields.iem.unwrap_or(0), process: self.header.fields.process, mode: None };
        let mut mode = Vec::new();
        instruction.mode.into_iter().for_each(|level| self.put_mode(level, &mut mode));
        // Events come late in a group. A mode change by the instruction itself comes after them, and so wins.
        self.start(instruction, false, descriptor::EVENT, mode);
    }

    /// Copies the first instruction of a further range.
    fn seam(&mut self, instruction: &Instruction<'_>) {
        let mut pc = Vec::new();
        if !instruction.is_forced {
            Record::ForcePc(instruction.pc).encode(&mut pc);
        }
        self.start(instruction, true, descriptor::FORCE_PC + 1, pc);
    }

    /// Copies the first instruction of a range, with changed state, and with `inserted` before the first record whose
    /// descriptor is at least `before`.
    fn start(&mut self, instruction: &Instruction<'_>, is_cut: bool, before: u8, mut inserted: Vec<u8>) {
        let mut bytes = Vec::new();
        if let Some(annotations) = &self.annotations {
            annotations.write(is_cut, instruction, &mut bytes);
        }
        self.put_state(instruction, &mut bytes);
        let mut registers = Vec::new();
        self.registers.iter().for_each(|known| known.write(instruction, &mut registers));
        for record in instruction.group() {
            if record.descriptor() >= before {
                bytes.append(&mut inserted);
            }
            if record.descriptor() >= descriptor::INST_REG {
                bytes.append(&mut registers);
            }
            self.record(&record, &mut bytes);
        }
        self.last = bytes;
    }

    /// Records the encoding mode and the process, if they have changed.
    fn put_state(&mut self, instruction: &Instruction<'_>, bytes: &mut Vec<u8>) {
        let own_iem = instruction.group().any(|record| matches!(record, Record::InstIem(_)));
        if instruction.iem != self.recorded.iem && !own_iem {
            Record::InstIem(instruction.iem).encode(bytes);
        }
        if let Some(ids) = self.process.filter(|ids| Some(*ids) != self.recorded.process) {
            Record::ProcessIdExt(ids).encode(bytes);
        }
        (self.recorded.iem, self.recorded.process) = (instruction.iem, self.process);
    }

    fn put_mode(&self, mode: u64, bytes: &mut Vec<u8>) {
        let is_wide = self.header.layout.has_wide_events();
        let raw = if is_wide { 1 << 62 } else { 1 << 30 };
        Record::Event(Event { raw, is_wide, data: &mode.to_le_bytes() }).encode(bytes);
    }

    fn copy(&mut self, instruction: &Instruction<'_>) {
        self.recorded.iem = instruction.iem;
        if instruction.records == 1 {
            return self.last.extend_from_slice(instruction.bytes);
        }
        let (mut has_walk, mut own) = (false, (self.process, None));
        for record in instruction.group() {
            match record {
                Record::PageTableWalk(_) => has_walk = true,
                Record::ProcessIdExt(ids) => own.0 = Some(ids),
                Record::Event(event) => own.1 = event.mode().or(own.1),
                _ => {}
            }
        }
        if !has_walk {
            (self.process, self.recorded.process, self.mode) = (own.0, own.0, own.1);
            return self.last.extend_from_slice(instruction.bytes);
        }
        let mut bytes = std::mem::take(&mut self.last);
        for record in instruction.group() {
            self.record(&record, &mut bytes);
        }
        self.last = bytes;
    }

    /// Copies a record; renumbers page table walks.
    fn record(&mut self, record: &Record<'_>, bytes: &mut Vec<u8>) {
        let walk = match record {
            Record::PageTableWalk(walk) => walk,
            Record::ProcessIdExt(ids) => {
                (self.process, self.recorded.process) = (Some(*ids), Some(*ids));
                return record.encode(bytes);
            }
            Record::Event(event) => {
                self.mode = event.mode().or(self.mode);
                return record.encode(bytes);
            }
            _ => return record.encode(bytes),
        };
        let piece = self.piece.unwrap_or(Piece { from: 0, to: 0 });
        match walk.first_use.checked_sub(piece.from) {
            _ if piece.from == piece.to => record.encode(bytes),
            Some(offset) => {
                self.sliced.walks_adjusted += 1;
                Record::PageTableWalk(PageTableWalk { first_use: piece.to + offset, ..*walk }).encode(bytes);
            }
            None => {
                self.sliced.walks_kept += 1;
                record.encode(bytes);
            }
        }
    }
}
