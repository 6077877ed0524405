//! Lowering: steps to a Tarmac log in either style.
//!
//! steps ─▶ **lines and annotations** ─▶ a log, which [`super::steps`] lifts to the same steps
//!
//! Whatever the style has a line for is written as that line. The rest (processes, gaps, unknown values, accesses
//! without a direction) is written as annotations, comments that start with `# unspool`; the first one records the
//! coverage of the source.
//! Nothing is invented: unknown bytes are `xx` or `##`, an unknown opcode is dashes, and a mode that would claim more
//! than is known is left out. Lines without a core name belong to core 0.

mod accesses;
#[cfg(feature = "text")]
mod disassembly;
mod from_model;
mod lines;
pub(crate) mod records;
mod registers;
mod scale;

use std::io;

use unspool_model::{
    Context, Coverage, Event, Exception, Facet, Gap, Instruction, Isa, Loss, Losses, RegisterWrite, SinkError, Step,
    StepSink, TimeUnit, note,
};

use self::from_model::push_mode;
use self::lines::{CHUNK, LineHead, LineWriter};
use self::registers::{bits, is_word, push_value, register_name};
use super::annotation::{Annotation, Outcome, core_name};
use super::opcode::letter;
use super::record::{self, Branch, Record, Register, Stamp, Tag};
pub use super::restyle::Style;
use super::steps::outcome::{conclude, expect, outcome};
use super::value::Value;

/// Limit of the readers on the number of cores in a log.
const MAX_CORES: u32 = 256;

/// Maximum number of bytes of a note in one annotation.
const MAX_NOTE: usize = 64 << 10;

/// Options of a [`Lowerer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerOptions {
    /// The style of the lines.
    pub style: Style,
    /// Append the disassembly of each instruction; needs the feature `text`.
    pub disassemble: bool,
}

/// Losses that lowering can report: registers that no line can name or that have partly known digits, memory bytes of
/// which only some bits are known, times that are too large or that the source does not cover, and digits of times.
pub const LOSSES: &[Loss] = &[Loss::Data, Loss::Registers, Loss::Times, Loss::TimeDigits];

/// The coverage of a log with annotations: all facets.
pub fn coverage() -> Coverage {
    Coverage::of(&Facet::ALL)
}

/// Step sink that writes a log.
///
/// ```
/// use unspool_tarmac::lower::{LowerOptions, Lowerer, Style, coverage};
/// use unspool_model::{Event, Instruction, Step, StepSink, TimeUnit};
///
/// let options = LowerOptions { style: Style::FastModels, disassemble: false };
/// let mut lowerer = Lowerer::new(Vec::new(), coverage(), TimeUnit::Cycles, &options)?;
/// let nop = Instruction { address: 0x8000, opcode: Some(0xd503_201f), length: 4, ..Instruction::default() };
/// let nop = Instruction { is_executed: Some(true), ..nop };
/// let mut step = Step::default();
/// (step.time, step.event) = (Some(7), Event::Instruction(nop));
/// lowerer.push(&step)?;
/// lowerer.finish()?;
/// let log = lowerer.into_inner();
/// assert!(log.ends_with(b"7 clk IT (1) 00008000 d503201f O ---_- :\n"));
/// # Ok::<(), unspool_model::SinkError>(())
/// ```
#[derive(Debug)]
pub struct Lowerer<W: io::Write> {
    out: W,
    writer: LineWriter,
    cores: Vec<Core>,
    #[cfg(feature = "text")]
    opcodes: Option<disassembly::Opcodes>,
    /// Disassembly of the current instruction.
    text: Vec<u8>,
    /// Digits of the current value.
    digits: Vec<u8>,
}

#[derive(Debug, Default)]
struct Core {
    /// The name, empty for core 0.
    name: String,
    /// Number of instructions so far.
    count: u64,
    context: Context,
    /// The mode as text, and whether it was formatted for AArch64.
    mode: Option<(bool, Vec<u8>)>,
    last: Option<Instruction>,
    /// The last instruction, while its outcome depends on the next one: as a reader concludes it from the lines, and as
    /// the source recorded it.
    pending: Option<(Instruction, Instruction)>,
}

impl<W: io::Write> Lowerer<W> {
    /// A lowerer for a source with this coverage and this unit of time.
    pub fn new(out: W, coverage: Coverage, unit: TimeUnit, options: &LowerOptions) -> Result<Self, SinkError> {
        Ok(Self {
            out,
            writer: LineWriter::new(coverage, unit, options.style),
            cores: Vec::new(),
            #[cfg(feature = "text")]
            opcodes: options.disassemble.then(disassembly::Opcodes::new),
            text: Vec::new(),
            digits: Vec::new(),
        })
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.out.write_all(&self.writer.lines)?;
        self.writer.lines.clear();
        Ok(())
    }

    /// Index of the core of a step. New cores are announced in order, since readers number them by first appearance.
    fn core(&mut self, step: &Step) -> Result<usize, SinkError> {
        if step.core >= MAX_CORES {
            let reason = format!("core {}: a Tarmac log can be read back with at most {MAX_CORES} cores", step.core);
            return Err(SinkError::Refused { position: Some(step.position), reason });
        }
        let at = step.core as usize;
        while self.cores.len() <= at {
            let number = self.cores.len();
            self.cores.push(Core { name: core_name(number as u32), ..Core::default() });
            // A core that appears out of order would be numbered by its appearance.
            if number < at || number > 0 {
                self.writer.annotate(&Annotation::Core(number as u32));
                self.writer.core = Some(number);
            }
        }
        Ok(at)
    }

    /// Completes the last instruction of a core at its next step or at the end: annotates its outcome if the lines imply
    /// another.
    fn conclude_last(&mut self, at: usize, next: Option<u64>, is_end: bool) {
        let Some((mut expected, instruction)) = self.cores[at].pending.take() else { return };
        conclude(&mut expected, next, self.writer.coverage);
        // Readers may skip a step that is no instruction, so the outcome is explicit before one.
        let is_other_step = next.is_none() && !is_end;
        if is_other_step || (expected.is_executed, expected.branch) != (instruction.is_executed, instruction.branch) {
            self.writer.select_core(at);
            self.writer.annotate(&Annotation::Outcome(outcome(&instruction)));
        }
    }

    fn instruction(&mut self, at: usize, step: &Step, instruction: &Instruction) -> Result<(), SinkError> {
        let Some(set) = letter(instruction.isa) else {
            let reason = format!(
                "{} instructions: Tarmac supports Arm instructions only; convert to STF instead",
                instruction.isa.name()
            );
            return Err(SinkError::Refused { position: Some(step.position), reason });
        };
        let stamp = self.writer.begin(at, step.time);
        let is_irregular = is_irregular(instruction);
        let opcode = instruction.opcode.filter(|_| !is_irregular);
        let length = if is_irregular { 4 } else { instruction.length };
        let plain = Instruction { opcode, length, ..*instruction };
        let is_skipped = match self.writer.style {
            // Rev 3 has CCFAIL in AArch32 only.
            Style::Rev3 => instruction.is_executed == Some(false) && instruction.isa != Isa::A64,
            // A branch that is not taken is skipped, whether or not the source has the outcome of conditions.
            Style::FastModels => {
                instruction.is_executed == Some(false) || instruction.branch.is_some_and(|branch| !branch.taken)
            }
        };
        let branch = from_model::branch_line(self.writer.style, &plain);
        let (expected, is_pending) =
            expect(&plain, !is_skipped, branch.map(|branch| branch.target), self.writer.coverage);
        let fits_line = !is_irregular && instruction.za_index.is_none();
        if fits_line && is_pending {
            self.cores[at].pending = Some((expected, *instruction));
        } else if !fits_line || (expected.is_executed, expected.branch) != (instruction.is_executed, instruction.branch)
        {
            self.writer.select_core(at);
            let irregular = is_irregular.then_some((instruction.opcode, instruction.length));
            self.writer.annotate(&Annotation::Instruction(Outcome { irregular, ..outcome(instruction) }));
        }
        self.disassemble(&plain);
        let core = &mut self.cores[at];
        core.count += 1;
        core.last = Some(*instruction);
        core.find_mode(self.writer.style, instruction.isa == Isa::A64);
        let is_fast_models = self.writer.style == Style::FastModels;
        let line = record::Instruction {
            tag: if is_fast_models { Tag::It } else { Tag::Es },
            address: Some(instruction.address),
            opcode,
            length,
            set: Some(set),
            mode: core.mode.as_ref().map_or(b"", |(_, mode)| mode),
            is_executed: !is_skipped,
            number: Some(core.count).filter(|_| is_fast_models),
            text: &self.text,
            ..record::Instruction::default()
        };
        let head = LineHead { at, name: &core.name, stamp, is_wide: instruction.isa == Isa::A64 };
        self.writer.emit(&head, Record::Instruction(line));
        self.effects(at, stamp, step, opcode.filter(|_| instruction.isa == Isa::A64));
        if let Some(branch) = branch {
            self.writer.effect(&self.cores[at].head(at, stamp), Record::Branch(branch));
        }
        Ok(())
    }

    #[cfg_attr(not(feature = "text"), expect(unused_variables))]
    fn disassemble(&mut self, instruction: &Instruction) {
        self.text.clear();
        #[cfg(feature = "text")]
        if let (Some(opcodes), Some(opcode)) = (&mut self.opcodes, instruction.opcode) {
            opcodes.push(instruction.isa, instruction.address, opcode, &mut self.text);
        }
    }

    /// Writes a step that is no instruction: an annotation with all of it, then the lines that other tools understand.
    fn other(&mut self, at: usize, step: &Step) {
        self.writer.select_core(at);
        let time = self.writer.scaled(step.time);
        let new_time = (time != self.writer.time).then_some(time);
        let mut text = step.note();
        while text.len() > MAX_NOTE {
            let (start, rest) = note::split(text, MAX_NOTE);
            self.writer.annotate(&Annotation::NoteStart(start));
            text = rest;
        }
        self.writer.annotate(&Annotation::Step { event: step.event, time: new_time, text });
        let has_effects = step.registers().len() > 0 || step.accesses().len() > 0;
        let is_rev3_state = step.event == Event::State && self.writer.style == Style::Rev3;
        if !has_effects && !is_rev3_state && !matches!(step.event, Event::Exception(_)) {
            return;
        }
        let stamp = self.writer.begin(at, step.time);
        if let Event::Exception(exception) = &step.event {
            self.exception(at, stamp, exception);
        } else if is_rev3_state {
            self.writer.emit(&self.cores[at].head(at, stamp), Record::Asynchronous(b"Background Update"));
        }
        self.effects(at, stamp, step, None);
    }

    fn exception(&mut self, at: usize, stamp: Stamp, exception: &Exception) {
        let Core { last, context, .. } = &self.cores[at];
        let head = self.cores[at].head(at, stamp);
        let is_a64 = last.map(|last| last.isa == Isa::A64).or(context.is_aarch64);
        let record = match self.writer.style {
            Style::Rev3 => from_model::exception(exception, is_a64),
            Style::FastModels => from_model::event(exception, is_a64, last.map(|last| last.address)),
        };
        match record {
            None => return,
            Some(record @ Record::Exception(record::Exception { is_step: false, .. })) => {
                self.writer.effect(&head, record);
            }
            Some(record) => self.writer.emit(&head, record),
        }
        if let (Style::Rev3, Some(target), Some(true)) = (self.writer.style, exception.target, is_a64) {
            let branch = Branch { target, digits: 16, set: letter(Isa::A64) };
            self.writer.effect(&head, Record::Branch(branch));
        }
    }

    /// Writes the memory and register lines. `opcode`: that of the A64 instruction that caused them.
    fn effects(&mut self, at: usize, stamp: Stamp, step: &Step, opcode: Option<u32>) {
        for access in step.accesses() {
            accesses::write(&mut self.writer, &self.cores[at].head(at, stamp), &access, opcode, &mut self.digits);
        }
        for register in step.registers() {
            self.register(at, stamp, &register);
        }
    }

    fn register(&mut self, at: usize, stamp: Stamp, write: &RegisterWrite<'_>) {
        let mut name = [0; 32];
        let bits = if is_word(write) { Some(None) } else { bits(write) };
        let (Some(name), Some(bits)) = (register_name(self.writer.style, write.name, &mut name), bits) else {
            return self.writer.lose(Loss::Registers);
        };
        if let Some(first) = name.first_mut().filter(|_| is_word(write)) {
            *first = b'W';
        }
        if push_value(write.bytes, &mut self.digits) {
            self.writer.lose(Loss::Registers);
        }
        let register = Register { name, context: b"", bits, value: Value(&self.digits), notes: b"" };
        self.writer.effect(&self.cores[at].head(at, stamp), Record::Register(register));
    }
}

impl<W: io::Write> StepSink for Lowerer<W> {
    fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        self.writer.position = step.position;
        let at = self.core(step)?;
        self.conclude_last(at, step.event.instruction().map(|instruction| instruction.address), false);
        match &step.event {
            Event::Instruction(instruction) => self.instruction(at, step, instruction)?,
            // An empty step.
            Event::State if step.registers().len() == 0 && step.accesses().len() == 0 => {}
            event => {
                self.cores[at].observe(event);
                self.other(at, step);
            }
        }
        if self.writer.lines.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        (0..self.cores.len()).for_each(|at| self.conclude_last(at, None, true));
        self.flush()?;
        Ok(self.out.flush()?)
    }

    fn losses(&self) -> &Losses {
        &self.writer.losses
    }
}

impl Core {
    #[inline]
    fn head(&self, at: usize, stamp: Stamp) -> LineHead<'_> {
        let is_wide = self.last.is_none_or(|last| last.isa == Isa::A64);
        LineHead { at, name: &self.name, stamp, is_wide }
    }

    /// Formats the mode in the notation of the style.
    #[inline]
    fn find_mode(&mut self, style: Style, is_a64: bool) {
        if self.mode.as_ref().is_none_or(|(known, _)| *known != is_a64) {
            let mut mode = Vec::new();
            push_mode(style, &self.context, is_a64, &mut mode);
            self.mode = Some((is_a64, mode));
        }
    }

    /// Updates the context at a step that is no instruction.
    fn observe(&mut self, event: &Event) {
        match event {
            Event::Context(context) => self.context = context.over(&self.context),
            Event::Gap(Gap::Start | Gap::Overflow | Gap::Discard | Gap::Damaged) => self.context = Context::default(),
            _ => return,
        }
        self.mode = None;
    }
}

/// Whether no line can represent this opcode and length.
#[inline]
fn is_irregular(instruction: &Instruction) -> bool {
    match (instruction.isa, instruction.opcode, instruction.length) {
        (Isa::T32, None, 2 | 4) | (_, None, 4) => false,
        (Isa::T32, Some(opcode), 2) => opcode >= 0xe800,
        (Isa::T32, Some(opcode), 4) => opcode >> 16 < 0xe800,
        (_, Some(_), 4) => false,
        _ => true,
    }
}
