//! Lowering: steps of any source that reports enough become ASTF records.
//!
//! steps ─▶ held until the next instruction is known ─▶ **instructions, traps, contexts** ─▶ [`builder`](super::builder) ─▶ records
//!
//! Nothing is invented. What the source does not report is derived from the opcode, from reported registers, from the
//! address of the next instruction, or from what the user assumes; where none of them helps, the step is refused. What
//! the format has no field for is counted ([`LOSSES`]). A time is lost with each change that cannot be written.
//! Instructions are lost if they are of another instruction set, or if their outcome is unknown at the end of the trace
//! or, in a Basic trace, at a gap or because an exception kept them from completing.

mod access;
mod emit;
mod exception;
mod opcode_info;
mod open;
mod operand;
mod raised;
mod refusal;
mod registers;
mod state;
mod template;
mod time;
mod unrecorded_access;

use std::ops::ControlFlow;

use unspool_model::hold::Hold;
use unspool_model::{
    Branch, Context, Coverage, Event, Facet, Instruction, Isa, Loss, Losses, SinkError, Step, StepSink, TimeUnit,
};

use self::opcode_info::OpcodeInfos;
use self::open::{Open, resolve};
use self::raised::Syndrome;
use self::refusal::{refuse, refuse_trace};
use self::registers::{Missing, Registers, Reported};
use self::state::Known;
use self::template::Forms;
use self::unrecorded_access::Tally;
pub use self::unrecorded_access::{LeftOut, UnrecordedAccess};
use super::access::Access;
use super::builder::{Builder, RecordSink, State};
use super::record::{Header, Level, Storage};

/// Options of a [`Lowerer`].
#[derive(Debug, Clone, Copy, Default)]
pub struct LowerOptions {
    /// Level of detail; `None`: as much as the source reports.
    pub level: Option<Level>,
    /// Storage of the records.
    pub storage: Storage,
    /// Context that the user assumes where the source reports none.
    pub assumed: Context,
    /// In a Basic trace, leave out and count ([`Lowerer::left_out`]) instructions of the kinds of [`UnrecordedAccess`]
    /// whose access the source does not report. Otherwise they are refused, as all others are.
    pub leave_out: bool,
    /// The source reports the registers that form an otherwise unknown address, before the instruction
    /// ([`Event::State`]). They are valid for that instruction only.
    pub operands: bool,
}

/// Losses that lowering can cause.
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

/// Facets that the format can represent.
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

/// Header of a trace from such a source, unless the source reports too little.
pub fn header(coverage: Coverage, unit: TimeUnit, options: &LowerOptions) -> Result<Header, SinkError> {
    let is_level_known = coverage.has(Facet::Levels) || options.assumed.level.is_some();
    let is_security_known = coverage.has(Facet::Security) || options.assumed.security.is_some();
    let needs = [
        (coverage.has(Facet::Instructions), "instructions, and the source reports none"),
        (coverage.has(Facet::Opcodes), "opcodes, and the source reports none"),
        (coverage.has(Facet::Accesses), "the addresses of memory accesses, and the source reports none"),
        (is_level_known, "Exception levels, and the source reports none: assume one (--assume el=0..3)"),
        (
            is_security_known,
            "Security states, and the source reports none: assume one (--assume security=secure|nonsecure)",
        ),
    ];
    if let Some((_, what)) = needs.iter().find(|(is_there, _)| !is_there) {
        return refuse_trace(&format!("ASTF needs {what}"));
    }
    let has_exceptions = coverage.has(Facet::Exceptions);
    let level = options.level.unwrap_or(if has_exceptions { Level::BasicPlus } else { Level::Basic });
    if level == Level::BasicPlus && !has_exceptions {
        return refuse_trace("a BasicPlus trace has every exception, and the source reports none: write a Basic trace");
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
/// lowerer.push(&step)?;
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
    /// Leave out some kinds of instructions if the access that they must have is unknown.
    leaves_out: bool,
    left_out: Tally,
    has_times: bool,
    coverage: Coverage,
    unit: TimeUnit,
    losses: Losses,
    /// The core whose steps are written.
    core: Option<u32>,
    hold: Hold,
    infos: OpcodeInfos,
    /// Records of templates, made on first use.
    forms: Forms,
    known: Known,
    /// The last context that was written.
    written: Option<State>,
    /// The last reported time, and the last that was written.
    time: Option<u64>,
    timestamp: Option<u64>,
    /// The last instruction, which may still raise an exception, and its accesses.
    open: Option<Open>,
    accesses: Vec<Access>,
    /// Registers that unreported addresses are computed from.
    registers: Registers,
    /// Accesses derived from them, or what is missing to derive them.
    derived: Vec<Access>,
    missing: Option<Missing>,
    /// System registers that describe an exception it may raise.
    syndrome: Syndrome,
    /// Position of an instruction whose opcode is unknown.
    unknown_opcode: Option<u64>,
    /// An instruction was written.
    has_instruction: bool,
    /// The PE is in a mode that the format does not support.
    is_unsupported: bool,
    /// The cause of the next discontinuity is known.
    is_explained: bool,
    /// The instruction after the held steps.
    next_instruction: Option<Instruction>,
    is_ending: bool,
}

impl<S: RecordSink> Lowerer<S> {
    /// Writes after this header, which the sink already has.
    pub fn new(
        sink: S,
        header: &Header,
        coverage: Coverage,
        unit: TimeUnit,
        options: &LowerOptions,
    ) -> Result<Self, SinkError> {
        let level = header.level();
        // The header may be the caller's own: the source has to report enough for it.
        self::header(coverage, unit, &LowerOptions { level: Some(level), ..*options })?;
        Ok(Self {
            builder: Builder::after_header(sink, level, header.timestamps),
            is_basic: level == Level::Basic,
            leaves_out: options.leave_out && level == Level::Basic,
            left_out: Tally::default(),
            has_times: header.timestamps,
            coverage,
            unit,
            losses: Losses::default(),
            core: None,
            hold: Hold::default(),
            infos: OpcodeInfos::new(),
            forms: Forms::default(),
            known: Known::new(options.assumed),
            written: None,
            time: None,
            timestamp: None,
            open: None,
            accesses: Vec::new(),
            registers: Registers::new(match coverage.has(Facet::Registers) {
                true => Reported::All,
                false if options.operands => Reported::Operands,
                false => Reported::Nothing,
            }),
            derived: Vec::new(),
            missing: None,
            syndrome: Syndrome::default(),
            unknown_opcode: None,
            has_instruction: false,
            is_unsupported: false,
            is_explained: false,
            next_instruction: None,
            is_ending: false,
        })
    }

    /// Instructions left out because the source does not report their access, by kind.
    pub fn left_out(&self) -> impl Iterator<Item = LeftOut> {
        self.left_out.iter()
    }

    /// Returns the sink of the records.
    pub fn into_sink(self) -> S {
        self.builder.finish()
    }

    /// Holds a step, or releases those that are held.
    fn hold_back(&mut self, step: &Step) -> Result<(), SinkError> {
        let next = step.event.instruction();
        if next.is_some() || self.hold.is_full() {
            self.release(next)?;
            if !self.waits(step) {
                return self.emit(step);
            }
        }
        self.hold.push().clone_from(step);
        Ok(())
    }

    /// Whether the step depends on where execution continues.
    #[inline]
    fn waits(&mut self, step: &Step) -> bool {
        match &step.event {
            Event::Instruction(instruction) => self.is_branch_unresolved(instruction),
            // A Basic trace does not record where they lead.
            _ if self.is_basic => false,
            Event::Exception(exception) => exception.target.is_none() || self.is_outside(),
            Event::ExceptionReturn { target } => target.is_none() || self.is_outside(),
            _ => false,
        }
    }

    /// No instruction was written yet, or the PE is in a mode that the format does not support.
    fn is_outside(&self) -> bool {
        (self.is_unsupported || !self.has_instruction) && self.open.is_none()
    }

    /// Whether only the next instruction reveals the outcome of this branch.
    #[inline]
    fn is_branch_unresolved(&mut self, instruction: &Instruction) -> bool {
        let (Isa::A64, Some(opcode)) = (instruction.isa, instruction.opcode) else { return false };
        let info = self.infos.of(opcode);
        match instruction.branch {
            Some(Branch { taken: false, .. }) => false,
            branch if info.flow.is_indirect() => branch.is_none_or(|branch| branch.target.is_none()),
            branch => info.conditional && branch.is_none(),
        }
    }

    /// Releases all held steps; `next` follows them.
    fn release(&mut self, next: Option<&Instruction>) -> Result<(), SinkError> {
        let mut hold = std::mem::take(&mut self.hold);
        let mut result = Ok(());
        self.next_instruction = next.copied();
        let _stopped = hold.release(next.map(|next| next.address), resolve, &mut |step| {
            result = self.emit(step);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        (self.hold, self.next_instruction) = (hold, None);
        result
    }
}

impl<S: RecordSink> StepSink for Lowerer<S> {
    #[inline]
    fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        let core = *self.core.get_or_insert(step.core);
        if core != step.core {
            return refuse(
                step.position,
                &format!("an ASTF trace has one core; found core {} after core {core}: choose one (--core)", step.core),
            );
        }
        if self.hold.is_empty() && !self.waits(step) { self.emit(step) } else { self.hold_back(step) }
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
