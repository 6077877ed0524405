//! Records of ASTF from steps of any source that tells enough.
//!
//! steps ─▶ those that wait for what follows ─▶ **instructions, traps, contexts** ─▶ [`builder`](super::builder) ─▶ records
//!
//! Nothing is invented: what the source does not tell is taken from the opcode, from registers that it told, from where
//! execution goes on, or from what the user vouches for, and where all are silent the steps are refused. What the format
//! has no room for is counted ([`LOSSES`]). Times: one is lost with each change of a time that cannot be told.
//! Instructions that cannot be told are those of another instruction set, and those whose outcome is not known where the
//! trace ends or, in a Basic trace, has a gap or where an exception kept them from completing.

mod access;
mod exception;
mod operand;
mod raised;
mod registers;
mod state;
mod tell;
mod template;
mod time;
mod untold;
mod word;

use std::ops::ControlFlow;

use unspool_model::{
    Branch, Context, Coverage, Event, Facet, Instruction, Isa, Loss, Losses, SinkError, Step, StepSink, TimeUnit,
};

use self::raised::Syndrome;
use self::registers::{Missing, Registers, Told};
use self::state::Known;
use self::tell::Open;
use self::template::Forms;
use self::untold::Tally;
pub use self::untold::{LeftOut, Untold};
use self::word::{Word, Words};
use super::access::Access;
use super::builder::{Builder, RecordSink, State};
use super::record::{Header, Level, Storage};
use unspool_model::hold::Hold;

/// How to write a trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct LowerOptions {
    /// The level of detail; `None`: as much as the source tells.
    pub level: Option<Level>,
    /// How records are stored.
    pub storage: Storage,
    /// What holds where the source does not say: the user vouches for it.
    pub assumed: Context,
    /// Of a Basic trace, instructions of the kinds of [`Untold`] are left out if no access of theirs is told, and counted
    /// ([`Lowerer::left_out`]). Else they are refused, as all others are.
    pub leave_out: bool,
    /// Of registers the source tells those that make an address where nothing else tells it, before the instruction
    /// ([`Event::State`]): they hold for that instruction and no longer.
    pub operands: bool,
}

/// What may be told and is not in the trace.
pub const LOSSES: &[Loss] = &[
    Loss::Instructions,
    Loss::UnknownOpcodes,
    Loss::Conditions,
    Loss::Accesses,
    Loss::Tags,
    Loss::Data,
    Loss::Registers,
    Loss::State,
    Loss::Exceptions,
    Loss::ExceptionDetails,
    Loss::ReturnAddresses,
    Loss::ExceptionReturns,
    Loss::Processes,
    Loss::VirtualMachines,
    Loss::Times,
    Loss::TimeDigits,
    Loss::Notes,
];

/// What the format can tell.
pub fn coverage() -> Coverage {
    Coverage::of(&[
        Facet::Instructions,
        Facet::Opcodes,
        Facet::Branches,
        Facet::Accesses,
        Facet::Exceptions,
        Facet::Levels,
        Facet::Security,
        Facet::Processes,
        Facet::Times,
    ])
}

/// The header of a trace of such a source, unless no trace can be made of it.
pub fn header(coverage: Coverage, unit: TimeUnit, options: &LowerOptions) -> Result<Header, SinkError> {
    let is_level_known = coverage.has(Facet::Levels) || options.assumed.level.is_some();
    let is_security_known = coverage.has(Facet::Security) || options.assumed.security.is_some();
    let needs = [
        (coverage.has(Facet::Instructions), "instructions, and the source tells none"),
        (coverage.has(Facet::Opcodes), "opcodes, and the source tells none"),
        (coverage.has(Facet::Accesses), "the addresses of accesses to memory, and the source tells none"),
        (is_level_known, "Exception levels, and the source tells none: assume one (--assume el=0..3)"),
        (
            is_security_known,
            "Security states, and the source tells none: assume one (--assume security=secure|nonsecure)",
        ),
    ];
    if let Some((_, what)) = needs.iter().find(|(is_there, _)| !is_there) {
        return Err(SinkError::Refused { position: None, reason: format!("ASTF needs {what}") });
    }
    let has_exceptions = coverage.has(Facet::Exceptions);
    let level = options.level.unwrap_or(if has_exceptions { Level::BasicPlus } else { Level::Basic });
    if level == Level::BasicPlus && !has_exceptions {
        let reason = "a BasicPlus trace tells every exception, and the source tells none: write a Basic one";
        return Err(SinkError::Refused { position: None, reason: reason.into() });
    }
    let has_times = coverage.has(Facet::Times) && unit.convert(0, TimeUnit::MICROSECONDS).is_some();
    Ok(Header::new(level, has_times, options.storage))
}

/// Writes steps as records.
///
/// ```
/// use unspool_astf::lower::{LowerOptions, Lowerer, header};
/// use unspool_model::{Context, Coverage, Event, Facet, Instruction, Security, Step, StepSink, TimeUnit};
///
/// # fn main() -> Result<(), unspool_model::SinkError> {
/// let coverage = Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Accesses]);
/// let assumed = Context { level: Some(0), security: Some(Security::NonSecure), ..Context::default() };
/// let (unit, options) = (TimeUnit::Unknown, LowerOptions { assumed, ..LowerOptions::default() });
/// let header = header(coverage, unit, &options)?;
/// let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, coverage, unit, &options)?;
/// let mut step = Step::default();
/// let nop = Instruction { address: 0x8000, opcode: Some(0xd503_201f), length: 4, ..Instruction::default() };
/// step.event = Event::Instruction(nop);
/// lowerer.take(&step)?;
/// lowerer.finish()?;
/// // A header, a context, an instruction.
/// assert_eq!(lowerer.into_sink().len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lowerer<S> {
    builder: Builder<S>,
    is_basic: bool,
    /// Instructions of some kinds are left out without the accesses that they have to have.
    leaves_out: bool,
    left_out: Tally,
    has_times: bool,
    coverage: Coverage,
    unit: TimeUnit,
    losses: Losses,
    /// The core that is written.
    core: Option<u32>,
    hold: Hold,
    words: Words,
    /// The records of templates, made when they first come.
    forms: Forms,
    known: Known,
    /// The last context that was written.
    written: Option<State>,
    /// The last time that was told, and the last that was written.
    time: Option<u64>,
    timestamp: Option<u64>,
    /// The last instruction, which may still raise an exception.
    open: Option<Open>,
    /// Its accesses.
    accesses: Vec<Access>,
    /// What addresses that are not told are made of.
    registers: Registers,
    /// Accesses that follow from them, or what has to be known for that.
    derived: Vec<Access>,
    missing: Option<Missing>,
    /// What system registers say of an exception that it may raise.
    syndrome: Syndrome,
    /// An instruction came whose opcode nobody knows.
    blank: Option<u64>,
    /// An instruction was written.
    has_instruction: bool,
    /// The PE is in a mode that the format does not support.
    is_unsupported: bool,
    /// It is known why execution goes on elsewhere.
    is_explained: bool,
    /// The instruction that follows what is told.
    coming: Option<Instruction>,
    is_ending: bool,
}

impl<S: RecordSink> Lowerer<S> {
    /// Writes behind this header, which the sink has got already.
    pub fn new(
        sink: S,
        header: &Header,
        coverage: Coverage,
        unit: TimeUnit,
        options: &LowerOptions,
    ) -> Result<Self, SinkError> {
        let level = header.level();
        // Whoever made the header: the source has to tell enough for it.
        self::header(coverage, unit, &LowerOptions { level: Some(level), ..*options })?;
        Ok(Self {
            builder: Builder::behind_header(sink, level, header.timestamps),
            is_basic: level == Level::Basic,
            leaves_out: options.leave_out && level == Level::Basic,
            left_out: Tally::default(),
            has_times: header.timestamps,
            coverage,
            unit,
            losses: Losses::default(),
            core: None,
            hold: Hold::default(),
            words: Words::new(),
            forms: Forms::default(),
            known: Known::new(options.assumed),
            written: None,
            time: None,
            timestamp: None,
            open: None,
            accesses: Vec::new(),
            registers: Registers::new(match coverage.has(Facet::Registers) {
                true => Told::All,
                false if options.operands => Told::Operands,
                false => Told::Nothing,
            }),
            derived: Vec::new(),
            missing: None,
            syndrome: Syndrome::default(),
            blank: None,
            has_instruction: false,
            is_unsupported: false,
            is_explained: false,
            coming: None,
            is_ending: false,
        })
    }

    /// What was left out since the source does not tell where it goes, by kind.
    pub fn left_out(&self) -> impl Iterator<Item = LeftOut> {
        self.left_out.iter()
    }

    /// Gives back what took the records.
    pub fn into_sink(self) -> S {
        self.builder.finish()
    }

    /// Holds a step back, or hands out what was held back.
    fn hold_back(&mut self, step: &Step) -> Result<(), SinkError> {
        let next = step.event.instruction();
        if next.is_some() || self.hold.is_full() {
            self.release(next)?;
            if !self.waits(step) {
                return self.tell(step);
            }
        }
        self.hold.push().clone_from(step);
        Ok(())
    }

    /// Does it depend on where execution goes on?
    #[inline]
    fn waits(&mut self, step: &Step) -> bool {
        match &step.event {
            Event::Instruction(instruction) => self.is_branch_open(instruction),
            // A Basic trace does not tell where they lead.
            _ if self.is_basic => false,
            Event::Exception(exception) => exception.target.is_none() || self.is_outside(),
            Event::ExceptionReturn { target } => target.is_none() || self.is_outside(),
            _ => false,
        }
    }

    /// There was no instruction yet, or none that the format could have.
    fn is_outside(&self) -> bool {
        (self.is_unsupported || !self.has_instruction) && self.open.is_none()
    }

    /// Is it a branch whose outcome only the next instruction tells?
    #[inline]
    fn is_branch_open(&mut self, instruction: &Instruction) -> bool {
        let (Isa::A64, Some(opcode)) = (instruction.isa, instruction.opcode) else { return false };
        let word = self.words.of(opcode);
        match instruction.branch {
            Some(Branch { taken: false, .. }) => false,
            branch if word.flow.is_indirect() => branch.is_none_or(|branch| branch.target.is_none()),
            branch => word.conditional && branch.is_none(),
        }
    }

    /// Hands out all that was held back; `next` follows.
    fn release(&mut self, next: Option<&Instruction>) -> Result<(), SinkError> {
        let mut hold = std::mem::take(&mut self.hold);
        let mut told = Ok(());
        self.coming = next.copied();
        // An error ends it, and is told below.
        let _ = hold.release(next.map(|next| next.address), resolve, &mut |step| {
            told = self.tell(step);
            if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        (self.hold, self.coming) = (hold, None);
        told
    }
}

impl<S: RecordSink> StepSink for Lowerer<S> {
    #[inline]
    fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        let core = *self.core.get_or_insert(step.core);
        if core != step.core {
            let reason =
                format!("ASTF has one core, and this is core {} behind core {core}: say which (--core)", step.core);
            return Err(SinkError::Refused { position: Some(step.position), reason });
        }
        if self.hold.is_empty() && !self.waits(step) { self.tell(step) } else { self.hold_back(step) }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.is_ending = true;
        self.release(None)?;
        self.end()
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }
}

/// Execution goes on at `next`: what became of the branch before?
fn resolve(instruction: &mut Instruction, next: Option<u64>) {
    let (Isa::A64, Some(opcode), Some(next)) = (instruction.isa, instruction.opcode, next) else { return };
    let word = Word::new(opcode);
    let behind = instruction.address.wrapping_add(4);
    let taken = Some(Branch { taken: true, target: Some(next) });
    instruction.branch = match instruction.branch {
        branch if word.flow.is_indirect() && branch.is_none_or(|branch| branch.target.is_none()) => taken,
        None if word.conditional => match word.target(instruction.address) {
            // Taken or not, execution goes on there.
            Some(target) if target == behind => return,
            _ if next == behind => Some(Branch { taken: false, target: None }),
            Some(target) if target == next => taken,
            _ => return,
        },
        _ => return,
    };
}
