//! Steps as a Tarmac log, of either style.
//!
//! steps ─▶ **lines and remarks** ─▶ a log, which [`super::steps`] lifts to the same steps
//!
//! What lines can say they say, in the words of the style. What they cannot (processes, gaps, what a source does not
//! know, accesses without a direction) is in comments, `# unspool ...`; the first of them says what the source tells.
//! Nothing is invented: bytes that nobody knows are `xx` or `##`, an opcode that nobody knows is dashes, and a mode that
//! would say more than is known is left out. Lines of a core that has no name are those of core 0.

mod accesses;
#[cfg(feature = "text")]
mod disassembly;
pub(super) mod escape;
mod registers;
pub(super) mod remark;
mod scale;
mod words;

use std::io;

use unspool_model::{
    Context, Coverage, Event, Exception, Facet, Gap, Instruction, Isa, Loss, Losses, RegisterWrite, SinkError, Step,
    StepSink, TimeUnit,
};

use self::registers::{bits, is_word, push_value, spell};
use self::remark::{Outcome, Remark, core_name};
use self::scale::Scale;
use self::words::{letter, push_mode};
pub use super::convert::Style;
use super::record::{self, Branch, Header, Line, Record, Register, Stamp, Tag};
use super::steps::lowered::{conclude, expect, outcome};
use super::value::Value;
use super::write::Writer;

/// So much is written at once.
const CHUNK: usize = 64 << 10;

/// Logs with more cores are not read back.
const MOST_CORES: u32 = 256;

/// The text of a note in one line.
const LONGEST_NOTE: usize = 64 << 10;

/// How steps are lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerOptions {
    /// In whose words.
    pub style: Style,
    /// Instructions are disassembled; needs the feature `text`.
    pub disassemble: bool,
}

/// What may be lost: registers that no line can name or that have bits of a digit unknown, bytes of memory of which only
/// some bits are known, times where the source said that it has none or that are too large, and digits of them.
pub const LOSSES: &[Loss] = &[Loss::Data, Loss::Registers, Loss::Times, Loss::TimeDigits];

/// What Tarmac can say at all, remarks included: everything.
pub fn coverage() -> Coverage {
    Coverage::of(&Facet::ALL)
}

/// Writes steps as a log.
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
/// lowerer.take(&step)?;
/// lowerer.finish()?;
/// let log = lowerer.into_inner();
/// assert!(log.ends_with(b"7 clk IT (1) 00008000 d503201f O ---_- :\n"));
/// # Ok::<(), unspool_model::SinkError>(())
/// ```
#[derive(Debug)]
pub struct Lowerer<W: io::Write> {
    out: W,
    page: Page,
    cores: Vec<Core>,
    #[cfg(feature = "text")]
    opcodes: Option<disassembly::Opcodes>,
    /// The disassembly of the instruction.
    text: Vec<u8>,
    /// The digits of a value.
    digits: Vec<u8>,
}

/// Lines that were written, and what holds for the next.
#[derive(Debug)]
struct Page {
    lines: Vec<u8>,
    style: Style,
    coverage: Coverage,
    scale: Scale,
    /// The time of the line before.
    time: Option<u64>,
    /// The core of the line before.
    core: Option<usize>,
    losses: Losses,
    /// Where the source says what is written.
    place: u64,
}

/// Whose lines are written, and when.
#[derive(Debug, Clone, Copy)]
struct Spot<'a> {
    at: usize,
    /// The name of the core.
    name: &'a str,
    stamp: Stamp,
    /// Addresses of Rev 3 have 16 digits.
    is_wide: bool,
}

/// A core.
#[derive(Debug)]
struct Core {
    /// Its name; that of the first is empty.
    name: String,
    /// The instructions so far.
    count: u64,
    context: Context,
    /// The mode for an instruction set, AArch64 or not.
    mode: Option<(bool, Vec<u8>)>,
    /// The last instruction.
    last: Option<Instruction>,
    /// What the lines of the last instruction say of it until the next one comes, and what the source says.
    open: Option<(Instruction, Instruction)>,
}

impl<W: io::Write> Lowerer<W> {
    /// Before the first step of a source that tells this, and counts times in this unit.
    pub fn new(out: W, coverage: Coverage, unit: TimeUnit, options: &LowerOptions) -> Result<Self, SinkError> {
        let scale = Scale::new(unit, options.style);
        let mut page = Page {
            lines: Vec::with_capacity(CHUNK * 2),
            style: options.style,
            coverage,
            scale,
            time: None,
            core: None,
            losses: Losses::default(),
            place: 0,
        };
        if options.style == Style::Rev3 {
            let flags: &[u8] = if coverage.has(Facet::Times) { b"t" } else { b"" };
            page.line(Stamp::Absent, None, Record::Header(Header { revision: 3, flags }));
        }
        page.remark(&Remark::Covers(coverage, scale.unit()));
        Ok(Self {
            out,
            page,
            cores: Vec::new(),
            #[cfg(feature = "text")]
            opcodes: options.disassemble.then(disassembly::Opcodes::new),
            text: Vec::new(),
            digits: Vec::new(),
        })
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.out.write_all(&self.page.lines)?;
        self.page.lines.clear();
        Ok(())
    }

    /// The place of the core of a step; readers count cores as they come.
    fn core(&mut self, step: &Step) -> Result<usize, SinkError> {
        if step.core >= MOST_CORES {
            let reason =
                format!("core {}: Tarmac is read back with {MOST_CORES} cores at most; leave some out", step.core);
            return Err(SinkError::Refused { place: Some(step.place), reason });
        }
        let at = step.core as usize;
        while self.cores.len() <= at {
            let number = self.cores.len();
            self.cores.push(Core::new(number));
            // Whoever comes before its turn would be counted first.
            if number < at || number > 0 {
                self.page.remark(&Remark::Core(number as u32));
                self.page.core = Some(number);
            }
        }
        Ok(at)
    }

    /// The next step of a core is here: do the lines say what became of its last instruction?
    fn settle(&mut self, at: usize, next: Option<u64>) {
        let Some((mut expected, told)) = self.cores[at].open.take() else { return };
        conclude(&mut expected, next, self.page.coverage);
        // What is no instruction may be passed by, so nothing is left to conclusions.
        if next.is_none() || (expected.is_executed, expected.branch) != (told.is_executed, told.branch) {
            self.page.enter(at);
            self.page.remark(&Remark::Went(outcome(&told)));
        }
    }

    fn instruction(&mut self, at: usize, step: &Step, told: &Instruction) -> Result<(), SinkError> {
        let Some(set) = letter(told.isa) else {
            let reason = format!(
                "{} instructions: Tarmac has instructions of Arm only; convert to STF instead",
                told.isa.name()
            );
            return Err(SinkError::Refused { place: Some(step.place), reason });
        };
        let stamp = self.page.begin(at, step.time);
        let is_odd = is_odd(told);
        let opcode = told.opcode.filter(|_| !is_odd);
        let length = if is_odd { 4 } else { told.length };
        let plain = Instruction { opcode, length, ..*told };
        let is_skipped = told.is_executed == Some(false) && !(self.page.style == Style::Rev3 && told.isa == Isa::A64);
        let led = words::led(self.page.style, &plain);
        let (expected, waits) = expect(&plain, !is_skipped, led.map(|led| led.target), self.page.coverage);
        let is_said = !is_odd && told.za_index.is_none();
        if is_said && waits {
            self.cores[at].open = Some((expected, *told));
        } else if !is_said || (expected.is_executed, expected.branch) != (told.is_executed, told.branch) {
            self.page.enter(at);
            let odd = is_odd.then_some((told.opcode, told.length));
            self.page.remark(&Remark::Instruction(Outcome { odd, ..outcome(told) }));
        }
        self.disassemble(&plain);
        let core = &mut self.cores[at];
        core.count += 1;
        core.last = Some(*told);
        core.find_mode(self.page.style, told.isa == Isa::A64);
        let is_fast_models = self.page.style == Style::FastModels;
        let said = record::Instruction {
            tag: if is_fast_models { Tag::It } else { Tag::Es },
            address: Some(told.address),
            digits: 0,
            physical: None,
            second: None,
            opcode,
            length,
            set: Some(set),
            mode: core.mode.as_ref().map_or(b"", |(_, mode)| mode),
            is_executed: !is_skipped,
            number: Some(core.count).filter(|_| is_fast_models),
            text: &self.text,
        };
        let spot = Spot { at, name: &core.name, stamp, is_wide: told.isa == Isa::A64 };
        self.page.emit(&spot, Record::Instruction(said));
        self.effects(at, stamp, step, opcode.filter(|_| told.isa == Isa::A64));
        if let Some(led) = led {
            self.page.effect(&self.cores[at].spot(at, stamp), Record::Branch(led));
        }
        Ok(())
    }

    #[cfg(feature = "text")]
    fn disassemble(&mut self, instruction: &Instruction) {
        self.text.clear();
        if let (Some(opcodes), Some(opcode)) = (&mut self.opcodes, instruction.opcode) {
            opcodes.push(instruction.isa, instruction.address, opcode, &mut self.text);
        }
    }

    #[cfg(not(feature = "text"))]
    fn disassemble(&mut self, _: &Instruction) {}

    /// A step that is no instruction: a remark says what it is, and lines that others may know.
    fn other(&mut self, at: usize, step: &Step) {
        self.page.enter(at);
        let time = self.page.scaled(step.time);
        let time_said = (time != self.page.time).then_some(time);
        let mut text = step.note();
        while text.len() > LONGEST_NOTE {
            let cut = text.floor_char_boundary(LONGEST_NOTE);
            self.page.remark(&Remark::More(&text[..cut]));
            text = &text[cut..];
        }
        self.page.remark(&Remark::Step { event: step.event, time: time_said, text });
        let has_effects = step.registers().len() > 0 || step.accesses().len() > 0;
        match &step.event {
            Event::Exception(exception) => {
                let stamp = self.page.begin(at, step.time);
                self.exception(at, stamp, exception);
                self.effects(at, stamp, step, None);
            }
            Event::State if self.page.style == Style::Rev3 => {
                let stamp = self.page.begin(at, step.time);
                self.page.emit(&self.cores[at].spot(at, stamp), Record::Asynchronous(b"Background Update"));
                self.effects(at, stamp, step, None);
            }
            _ if has_effects => {
                let stamp = self.page.begin(at, step.time);
                self.effects(at, stamp, step, None);
            }
            _ => {}
        }
    }

    fn exception(&mut self, at: usize, stamp: Stamp, exception: &Exception) {
        let Core { last, context, .. } = &self.cores[at];
        let spot = self.cores[at].spot(at, stamp);
        let is_a64 = last.map(|last| last.isa == Isa::A64).or(context.is_aarch64);
        let record = match self.page.style {
            Style::Rev3 => words::exception(exception, is_a64),
            Style::FastModels => words::event(exception, is_a64, last.map(|last| last.address)),
        };
        match record {
            None => return,
            Some(record @ Record::Exception(record::Exception { is_step: false, .. })) => {
                self.page.effect(&spot, record);
            }
            Some(record) => self.page.emit(&spot, record),
        }
        if let (Style::Rev3, Some(target), Some(true)) = (self.page.style, exception.target, is_a64) {
            let branch = Branch { target, digits: 16, set: letter(Isa::A64) };
            self.page.effect(&spot, Record::Branch(branch));
        }
    }

    /// The lines of registers and memory. `opcode`: that of A64, if an instruction of it is the cause.
    fn effects(&mut self, at: usize, stamp: Stamp, step: &Step, opcode: Option<u32>) {
        for access in step.accesses() {
            accesses::write(&mut self.page, &self.cores[at].spot(at, stamp), &access, opcode, &mut self.digits);
        }
        for register in step.registers() {
            self.register(at, stamp, &register);
        }
    }

    fn register(&mut self, at: usize, stamp: Stamp, write: &RegisterWrite<'_>) {
        let mut name = [0; 32];
        let bits = if is_word(write) { Some(None) } else { bits(write) };
        let (Some(name), Some(bits)) = (spell(self.page.style, write.name, &mut name), bits) else {
            return self.page.lose(Loss::Registers);
        };
        if let Some(first) = name.first_mut().filter(|_| is_word(write)) {
            *first = b'W';
        }
        if push_value(write.bytes, &mut self.digits) {
            self.page.lose(Loss::Registers);
        }
        let register = Register { name, context: b"", bits, value: Value(&self.digits), notes: b"" };
        self.page.effect(&self.cores[at].spot(at, stamp), Record::Register(register));
    }
}

impl<W: io::Write> StepSink for Lowerer<W> {
    fn take(&mut self, step: &Step) -> Result<(), SinkError> {
        self.page.place = step.place;
        let at = self.core(step)?;
        self.settle(at, step.event.instruction().map(|instruction| instruction.address));
        match &step.event {
            Event::Instruction(instruction) => self.instruction(at, step, instruction)?,
            // It says nothing.
            Event::State if step.registers().len() == 0 && step.accesses().len() == 0 => {}
            event => {
                self.cores[at].pass(event);
                self.other(at, step);
            }
        }
        if self.page.lines.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        for at in 0..self.cores.len() {
            let Some((mut expected, told)) = self.cores[at].open.take() else { continue };
            conclude(&mut expected, None, self.page.coverage);
            if (expected.is_executed, expected.branch) != (told.is_executed, told.branch) {
                self.page.enter(at);
                self.page.remark(&Remark::Went(outcome(&told)));
            }
        }
        self.flush()?;
        Ok(self.out.flush()?)
    }

    fn losses(&self) -> &Losses {
        &self.page.losses
    }
}

impl Page {
    fn lose(&mut self, loss: Loss) {
        self.losses.add(loss, self.place);
    }

    fn remark(&mut self, remark: &Remark<'_>) {
        remark.write(&mut self.lines);
    }

    /// What follows is about this core, whatever the lines say.
    fn enter(&mut self, at: usize) {
        if self.core != Some(at) && (at > 0 || self.core.is_some()) {
            self.remark(&Remark::Core(at as u32));
        }
        self.core = Some(at);
    }

    /// A time as the log counts.
    fn scaled(&mut self, time: Option<u64>) -> Option<u64> {
        let time = time?;
        let scaled = Some(time).filter(|_| self.coverage.has(Facet::Times)).and_then(|time| self.scale.count(time));
        if scaled.is_none() {
            self.lose(Loss::Times);
        }
        scaled
    }

    /// What lines of a step at this time start with.
    #[inline]
    fn begin(&mut self, at: usize, time: Option<u64>) -> Stamp {
        match time.and_then(|time| self.stamped(time)) {
            Some(time) => Stamp::At(self.scale.time(time)),
            None => self.no_time(at),
        }
    }

    #[inline]
    fn stamped(&mut self, time: u64) -> Option<u64> {
        if self.scale.is_exact() && self.coverage.has(Facet::Times) {
            return Some(time);
        }
        if self.coverage.has(Facet::Times) && self.scale.has_rest(time) {
            self.lose(Loss::TimeDigits);
        }
        self.scaled(Some(time))
    }

    fn no_time(&mut self, at: usize) -> Stamp {
        if self.time.take().is_some() {
            self.enter(at);
            self.remark(&Remark::NoTime);
        }
        let has_dashes = self.style == Style::Rev3 && self.coverage.has(Facet::Times);
        if has_dashes { Stamp::Dashes } else { Stamp::Absent }
    }

    /// The first line of a step.
    #[inline]
    fn emit(&mut self, spot: &Spot<'_>, record: Record<'_>) {
        let name = Some(spot.name.as_bytes()).filter(|name| !name.is_empty());
        if name.is_none() && spot.stamp == Stamp::Absent {
            self.enter(spot.at);
        }
        self.core = Some(spot.at);
        self.line(spot.stamp, name, record);
    }

    /// Another line of a step.
    #[inline]
    fn effect(&mut self, spot: &Spot<'_>, record: Record<'_>) {
        match self.style {
            Style::FastModels => self.emit(spot, record),
            Style::Rev3 => {
                self.enter(spot.at);
                self.line(Stamp::Absent, None, record);
            }
        }
    }

    #[inline]
    fn line(&mut self, stamp: Stamp, core: Option<&[u8]>, record: Record<'_>) {
        if let Stamp::At(time) = stamp {
            self.time = Some(time.value);
        }
        let line = Line { raw: b"", stamp, core, record };
        // The style has a line for every record that is made here.
        let said = Writer::new(self.style).write(&line, &mut self.lines);
        debug_assert!(said.is_ok());
    }
}

impl Core {
    fn new(number: usize) -> Self {
        Self {
            name: core_name(number as u32),
            count: 0,
            context: Context::default(),
            mode: None,
            last: None,
            open: None,
        }
    }

    #[inline]
    fn spot(&self, at: usize, stamp: Stamp) -> Spot<'_> {
        let is_wide = self.last.is_none_or(|last| last.isa == Isa::A64);
        Spot { at, name: &self.name, stamp, is_wide }
    }

    /// The mode, in the words of the style.
    #[inline]
    fn find_mode(&mut self, style: Style, is_a64: bool) {
        if self.mode.as_ref().is_none_or(|(known, _)| *known != is_a64) {
            let mut mode = Vec::new();
            push_mode(style, &self.context, is_a64, &mut mode);
            self.mode = Some((is_a64, mode));
        }
    }

    /// Something else than an instruction happens: in which context does execution go on?
    fn pass(&mut self, event: &Event) {
        match event {
            Event::Context(context) => self.context = context.over(&self.context),
            Event::Gap(Gap::Start | Gap::Overflow | Gap::Discard | Gap::Damaged) => self.context = Context::default(),
            _ => return,
        }
        self.mode = None;
    }
}

/// No line can say this opcode.
#[inline]
fn is_odd(instruction: &Instruction) -> bool {
    match (instruction.isa, instruction.opcode, instruction.length) {
        (Isa::T32, None, 2 | 4) | (_, None, 4) => false,
        (Isa::T32, Some(opcode), 2) => opcode >= 0xe800,
        (Isa::T32, Some(opcode), 4) => opcode >> 16 < 0xe800,
        (_, Some(_), 4) => false,
        _ => true,
    }
}
