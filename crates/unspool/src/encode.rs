//! Captures made from steps: a trace unit is modelled for each core.
//!
//! steps of anything ─▶ **encoder** ─▶ trace units ─▶ a snapshot directory: trace, registers, program image
//!
//! What ran is taken from the steps, the way of each branch from where the next step is. Where steps do not continue, the
//! trace starts anew. Trace has no words for the instructions behind the last branch: before such a break, and at the end,
//! the PE is told to halt for a debugger. The program image holds the opcodes that were executed, and zeros between them.

mod image;
mod output;
mod side_by_side;

use std::path::Path;

use unspool_coresight::etm4::element::Target;
use unspool_coresight::etm4::packet::{Context as PacketContext, Security as PacketSecurity, SubIsa};
use unspool_coresight::etm4::unit::{Class, Executed, Overflowed, Settings, Unit};
use unspool_coresight::trace_buffer::BufferSettings;
use unspool_isa::{self as isa, Kind, facts};
use unspool_model::{
    Context, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Security, SinkError, Step, TimeUnit,
};

use self::image::Image;
use self::output::Output;
pub use self::side_by_side::SideBySide;

/// How a capture is made.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// How each trace unit is programmed. The trace id of core n is n more than TRCTRACEIDR.
    pub settings: Settings,
    /// All cores go into one buffer, in frames. Else each has a buffer of its own.
    pub formatted: bool,
    /// How large each buffer is and what happens when it is full; `None`: it has room for all.
    pub buffer: Option<BufferSettings>,
    /// What times of steps are counted in. Cycles are counted from them; else an instruction takes one.
    pub time_unit: TimeUnit,
}

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encoded {
    /// How many cores.
    pub cores: usize,
    /// How many instructions the trace units were told of.
    pub instructions: u64,
    /// How often the steps did not continue.
    pub breaks: u64,
    /// Contexts of which nobody said the Exception level or the Security state: EL0 and Non-secure were taken.
    pub assumed_contexts: u64,
    /// Contexts of which nobody said an identifier that is traced or compared: zero was taken.
    pub assumed_identifiers: u64,
    /// How often a trace unit had no room, and what it did not tell therefore.
    pub overflowed: Overflowed,
    /// Bytes of trace, without frames.
    pub trace_bytes: u64,
    /// Bytes that the buffers had no room for, or that were overwritten.
    pub lost_bytes: u64,
    /// What software would have been told of the buffers.
    pub interrupts: u64,
    /// Bytes of the program image.
    pub image_bytes: u64,
}

/// Makes a capture from steps. Feed it with [`take`](Self::take), end with [`finish`](Self::finish).
#[derive(Debug)]
pub struct Encoder {
    options: EncodeOptions,
    output: Output,
    cores: Vec<Core>,
}

impl Encoder {
    /// Makes the capture in this directory, which has to be new or empty.
    pub fn new(directory: &Path, options: EncodeOptions) -> Result<Self, SinkError> {
        if let Some(reason) = options.settings.refusal() {
            return Err(SinkError::Refused { place: None, reason });
        }
        let output = Output::new(directory, options.formatted, options.buffer)?;
        Ok(Self { options, output, cores: Vec::new() })
    }

    /// Takes the next step.
    #[inline]
    pub fn take(&mut self, step: &Step) -> Result<(), SinkError> {
        let index = step.core as usize;
        if index >= self.cores.len() {
            self.add_cores(index)?;
        }
        let core = &mut self.cores[index];
        core.step(step)?;
        if core.unit.bytes().len() >= output::PIECE {
            self.output.write(index, core)?;
        }
        Ok(())
    }

    fn add_cores(&mut self, most: usize) -> Result<(), SinkError> {
        let base = self.options.settings.get("TRCTRACEIDR").unwrap_or(0) & 0x7f;
        while self.cores.len() <= most {
            let id = base + self.cores.len() as u64;
            if !(1..0x70).contains(&id) {
                let reason =
                    format!("trace id {id:#x} of core {} is reserved; choose another TRCTRACEIDR", self.cores.len());
                return Err(SinkError::Refused { place: None, reason });
            }
            let mut settings = self.options.settings.clone();
            settings.set("TRCTRACEIDR", id);
            self.output.add(self.cores.len())?;
            self.cores.push(Core::new(settings, id as u8, self.options.time_unit));
        }
        Ok(())
    }

    /// Writes what is left, and says what was made.
    pub fn finish(mut self) -> Result<Encoded, SinkError> {
        if self.cores.is_empty() {
            self.add_cores(0)?;
        }
        for (index, core) in self.cores.iter_mut().enumerate() {
            core.end();
            core.unit.finish();
            self.output.write(index, core)?;
        }
        let mut encoded = self.output.finish(&self.cores)?;
        encoded.cores = self.cores.len();
        encoded.instructions = self.cores.iter().map(|core| core.instructions).sum();
        encoded.breaks = self.cores.iter().map(|core| core.breaks).sum();
        for lost in self.cores.iter().map(|core| core.unit.overflowed()) {
            encoded.overflowed.overflows += lost.overflows;
            encoded.overflowed.instructions += lost.instructions;
        }
        encoded.assumed_contexts = self.cores.iter().map(|core| core.assumed_contexts).sum();
        encoded.assumed_identifiers = self.cores.iter().map(|core| core.assumed_identifiers).sum();
        Ok(encoded)
    }
}

/// One core, its trace unit, and the instruction whose outcome the next step tells.
#[derive(Debug)]
struct Core {
    settings: Settings,
    id: u8,
    unit: Unit,
    image: Image,
    known: Vec<Known>,
    pending: Option<Pending>,
    context: Context,
    context_is_new: bool,
    is_aarch64: bool,
    /// Where the last instruction was.
    last_isa: SubIsa,
    /// Instructions that an IT instruction makes conditional.
    in_it: u8,
    wfx_is_p0: bool,
    /// Which identifiers are traced or compared: of contexts, of virtual contexts.
    asks_for: (bool, bool),
    counts_time: bool,
    time: Option<u64>,
    instructions: u64,
    breaks: u64,
    assumed_contexts: u64,
    assumed_identifiers: u64,
}

/// An instruction that waits for what follows it.
#[derive(Debug, Clone, Copy)]
struct Pending {
    known: Known,
    /// What the step says of a branch.
    taken: Option<bool>,
    led_to: Option<u64>,
}

impl Pending {
    #[inline(always)]
    fn new(known: &Known, instruction: &Instruction) -> Self {
        let (taken, led_to) = said(instruction);
        Self { known: *known, taken, led_to }
    }
}

/// What is known of an instruction that was met before. Half a cache line: there is one for each instruction of a loop.
#[derive(Debug, Clone, Copy)]
struct Known {
    executed: Executed,
    /// Where a direct branch leads; without meaning if there is no instruction set.
    target: u64,
    target_isa: Option<SubIsa>,
    opcode: u32,
    isa: Isa,
    it: u8,
}

impl Known {
    /// Is it of this instruction?
    #[inline(always)]
    fn is_of(&self, instruction: &Instruction) -> bool {
        self.executed.address == instruction.address
            && self.isa == instruction.isa
            && Some(self.opcode) == instruction.opcode
    }

    #[inline(always)]
    fn behind(&self) -> Target {
        let all = if self.isa == Isa::A64 { u64::MAX } else { 0xffff_ffff };
        let address = self.executed.address.wrapping_add(u64::from(self.executed.length)) & all;
        Target { address, isa: self.executed.isa }
    }

    #[inline(always)]
    fn target(&self) -> Option<Target> {
        self.target_isa.map(|isa| Target { address: self.target, isa })
    }

    /// Is it an instruction that calls a higher Exception level? Many sources say no more of the exception than that.
    fn is_call(&self) -> bool {
        match self.isa {
            Isa::A64 => isa::a64_access(self.opcode).operation == isa::Operation::SupervisorCall,
            Isa::A32 => self.opcode >> 24 & 0xf == 0xf && self.opcode >> 28 != 0xf,
            Isa::T32 => self.opcode >> 8 == 0xdf,
            Isa::Rv32 | Isa::Rv64 => false,
        }
    }
}

/// How many instructions are known at a time.
const KNOWN: usize = 1 << 15;

/// The place of an instruction among those that are known: pieces of code that are far apart seldom share one.
#[inline(always)]
fn place(address: u64) -> usize {
    (address >> 1 ^ address >> 16) as usize % KNOWN
}

impl Core {
    fn new(settings: Settings, id: u8, time_unit: TimeUnit) -> Self {
        // No instruction is at the last address.
        let executed = Executed { address: u64::MAX, ..Executed::default() };
        let empty = Known { executed, target: 0, target_isa: None, opcode: 0, isa: Isa::A64, it: 0 };
        Self {
            unit: Unit::new(&settings),
            wfx_is_p0: settings.config().wfx_is_p0,
            asks_for: (settings.asks_for_context_ids(), settings.asks_for_vmids()),
            settings,
            id,
            image: Image::default(),
            known: vec![empty; KNOWN],
            pending: None,
            context: Context::default(),
            context_is_new: true,
            is_aarch64: true,
            last_isa: SubIsa::Is0,
            in_it: 0,
            counts_time: time_unit == TimeUnit::Cycles,
            time: None,
            instructions: 0,
            breaks: 0,
            assumed_contexts: 0,
            assumed_identifiers: 0,
        }
    }

    #[inline]
    fn step(&mut self, step: &Step) -> Result<(), SinkError> {
        let Event::Instruction(instruction) = &step.event else {
            self.event(&step.event);
            return Ok(());
        };
        if self.goes_on(instruction) {
            self.pass_time(step.time);
            return Ok(());
        }
        self.instruction(step, instruction)
    }

    /// What is no instruction.
    #[inline(never)]
    fn event(&mut self, event: &Event) {
        match event {
            Event::Exception(exception) => self.exception(exception),
            Event::Context(context) => {
                self.context = context.over(&self.context);
                self.context_is_new = true;
            }
            Event::Gap(gap) => {
                self.end();
                if *gap == Gap::Overflow {
                    self.unit.overflow();
                }
            }
            Event::Instruction(_) | Event::State | Event::ExceptionReturn { .. } | Event::Note => {}
        }
    }

    /// Most instructions were met before and are where the one before leads: nothing but its outcome has to be decided.
    #[inline(always)]
    fn goes_on(&mut self, instruction: &Instruction) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        let known = &self.known[place(instruction.address)];
        let is_moved = self.context_is_new || (instruction.isa == Isa::A64) != self.is_aarch64;
        if !known.is_of(instruction) || is_moved || self.in_it | known.it > 0 {
            return false;
        }
        let at = Target { address: instruction.address, isa: known.executed.isa };
        match pending.known.executed.class {
            Class::Other | Class::Barrier if at == pending.known.behind() => {}
            Class::Other | Class::Barrier => return false,
            _ => match outcome(pending, at) {
                Some(taken) => pending.known.executed.taken = taken,
                None => return false,
            },
        }
        self.instructions += 1;
        if !self.counts_time {
            self.unit.cycles(1);
        }
        self.unit.instruction(&pending.known.executed);
        self.last_isa = at.isa;
        *pending = Pending::new(known, instruction);
        true
    }

    /// All others: new ones, those in another context, those that do not follow.
    #[inline(never)]
    fn instruction(&mut self, step: &Step, instruction: &Instruction) -> Result<(), SinkError> {
        let known = self.look_up(step, instruction)?;
        let at = Target { address: instruction.address, isa: known.executed.isa };
        self.last_isa = at.isa;
        if let Some(pending) = self.pending {
            if at != pending.known.behind() {
                // What an IT instruction says is of those right behind it.
                self.in_it = 0;
            }
            self.resolve(&pending, at);
        }
        if self.context_is_new || (instruction.isa == Isa::A64) != self.is_aarch64 {
            self.change_context(instruction.isa == Isa::A64);
        }
        self.pass_time(step.time);
        let mut pending = Pending::new(&known, instruction);
        pending.known.executed.conditional |= self.in_it > 0;
        self.in_it = self.in_it.saturating_sub(1).max(known.it);
        self.pending = Some(pending);
        Ok(())
    }

    /// What is known of an instruction. What is new goes into the program image.
    fn look_up(&mut self, step: &Step, instruction: &Instruction) -> Result<Known, SinkError> {
        let known = &self.known[place(instruction.address)];
        if known.is_of(instruction) { Ok(*known) } else { self.discover(step, instruction) }
    }

    #[inline(never)]
    fn discover(&mut self, step: &Step, instruction: &Instruction) -> Result<Known, SinkError> {
        let refuse = |reason: String| SinkError::Refused { place: Some(step.place), reason };
        let address = instruction.address;
        let isa = match instruction.isa {
            Isa::A64 => isa::Isa::A64,
            Isa::A32 => isa::Isa::A32,
            Isa::T32 => isa::Isa::T32,
            Isa::Rv32 | Isa::Rv64 => {
                return Err(refuse("this is RISC-V, and ETE and ETMv4 trace Arm instructions only".into()));
            }
        };
        let low_bits = if isa == isa::Isa::T32 { 1 } else { 3 };
        if address & low_bits != 0 || (isa != isa::Isa::A64 && address >> 32 != 0) {
            return Err(refuse(format!("no {:?} instruction can be at {address:#x}", instruction.isa)));
        }
        let opcode = instruction.opcode.ok_or_else(|| {
            refuse(format!("the opcode at {address:#x} is not known, so nobody could follow the trace there"))
        })?;
        let facts = facts(isa, address, opcode);
        self.image.add(address, isa, opcode, facts.length).map_err(|at| {
            refuse(format!(
                "the code at {at:#x} is not what it was before, and a capture holds one image; cut the trace there"
            ))
        })?;
        let class = match facts.kind {
            Kind::Other => Class::Other,
            Kind::Wfx if !self.wfx_is_p0 => Class::Other,
            Kind::Direct => Class::Direct,
            Kind::Indirect if facts.eret => Class::ExceptionReturn,
            Kind::Indirect => Class::Indirect,
            Kind::Isb | Kind::Wfx | Kind::TransactionStart => Class::Barrier,
        };
        let (conditional, link, length) = (facts.conditional, facts.link, facts.length);
        let sub_isa = sub_isa(isa);
        let executed = Executed { address, isa: sub_isa, length, class, conditional, link, taken: true };
        let known = Known {
            executed,
            target: facts.target.map_or(0, |target| target.address),
            target_isa: facts.target.map(|target| self::sub_isa(target.isa)),
            opcode,
            isa: instruction.isa,
            it: facts.it,
        };
        self.known[place(address)] = known;
        Ok(known)
    }

    /// The instruction that waited went on to `next`.
    fn resolve(&mut self, pending: &Pending, next: Target) {
        self.pending = None;
        let mut executed = pending.known.executed;
        if executed.class == Class::Other || executed.class == Class::Barrier {
            self.tell(&executed);
            if next != pending.known.behind() {
                self.stop_behind(pending);
            }
            return;
        }
        match outcome(pending, next) {
            Some(taken) => {
                executed.taken = taken;
                self.tell(&executed);
            }
            None => self.resolve_alone(pending),
        }
    }

    /// The instruction that waited went on nobody knows where.
    #[inline(never)]
    fn resolve_alone(&mut self, pending: &Pending) {
        self.pending = None;
        let mut executed = pending.known.executed;
        let is_branch = !matches!(executed.class, Class::Other | Class::Barrier);
        // Who says that a branch was not taken which always is may be wrong in other things too.
        let taken = match (pending.taken, executed.conditional) {
            (Some(false), false) if is_branch => None,
            (taken, conditional) => taken.or((!conditional).then_some(true)),
        };
        match taken {
            Some(taken) => {
                executed.taken = taken;
                self.tell(&executed);
                if is_branch && taken { self.stop() } else { self.stop_behind(pending) }
            }
            // Nobody knows which way it went: the trace ends before it.
            None if is_branch => self.halt(Target { address: executed.address, isa: executed.isa }),
            None => {
                self.tell(&executed);
                self.stop_behind(pending);
            }
        }
    }

    fn tell(&mut self, executed: &Executed) {
        self.instructions += 1;
        if !self.counts_time {
            self.unit.cycles(1);
        }
        self.unit.instruction(executed);
    }

    fn stop_behind(&mut self, pending: &Pending) {
        self.halt(pending.known.behind());
    }

    fn halt(&mut self, at: Target) {
        self.breaks += 1;
        self.unit.halt(at);
    }

    fn stop(&mut self) {
        self.breaks += 1;
        self.unit.stop();
    }

    /// Steps do not go on.
    fn end(&mut self) {
        if let Some(pending) = self.pending {
            self.resolve_alone(&pending);
        }
        self.in_it = 0;
    }

    fn exception(&mut self, exception: &Exception) {
        self.in_it = 0;
        let Some(pending) = self.pending else {
            // Nothing ran before: it is at the return address that the exception finds the PE.
            self.renew_context();
            if let Some(address) = exception.return_address {
                self.unit.exception(number(exception), Target { address, isa: self.last_isa });
            }
            return;
        };
        let at = Target { address: pending.known.executed.address, isa: pending.known.executed.isa };
        let next = self.expected(&pending);
        let return_address = exception.return_address.map_or(next, |address| Target { address, isa: next.isa });
        let repeats = return_address.address == at.address;
        let may_fail = exception.kind == ExceptionKind::Synchronous && pending.taken.is_none();
        if repeats && (may_fail || next.address != at.address) {
            // It was tried, and will be tried again.
            self.pending = None;
            self.renew_context();
            return self.unit.exception(number(exception), at);
        }
        let is_call = exception.class.is_none() && pending.known.is_call();
        self.resolve(&pending, return_address);
        self.renew_context();
        self.unit.exception(if is_call { CALL } else { number(exception) }, return_address);
    }

    /// Where the instruction leads, as far as it says so itself.
    fn expected(&self, pending: &Pending) -> Target {
        if let Some(address) = pending.led_to {
            let isa = pending.known.target().map_or(pending.known.executed.isa, |target| target.isa);
            return Target { address, isa };
        }
        let is_taken = pending.taken.unwrap_or(!pending.known.executed.conditional);
        pending.known.target().filter(|_| is_taken).unwrap_or(pending.known.behind())
    }

    /// A context that no instruction was executed in.
    fn renew_context(&mut self) {
        if self.context_is_new {
            self.change_context(self.is_aarch64);
        }
    }

    #[inline(never)]
    fn change_context(&mut self, is_aarch64: bool) {
        (self.context_is_new, self.is_aarch64) = (false, is_aarch64);
        let is_told = self.context.level.is_some() && self.context.security.is_some();
        self.assumed_contexts += u64::from(!is_told);
        let is_missing =
            (self.asks_for.0 && self.context.process.is_none()) || (self.asks_for.1 && self.context.vmid.is_none());
        self.assumed_identifiers += u64::from(is_missing);
        let security = match self.context.security {
            Some(Security::Secure) => PacketSecurity::Secure,
            Some(Security::Root) => PacketSecurity::Root,
            Some(Security::Realm) => PacketSecurity::Realm,
            Some(Security::NonSecure) | None => PacketSecurity::NonSecure,
        };
        self.unit.context(PacketContext {
            el: self.context.level.unwrap_or(0) & 3,
            aarch64: is_aarch64,
            security,
            vmid: self.context.vmid,
            // A context identifier has 32 bits.
            context_id: self.context.process.map(|process| process as u32),
        });
    }

    #[inline]
    fn pass_time(&mut self, time: Option<u64>) {
        let Some(now) = time else { return };
        if self.counts_time {
            self.unit.cycles(now.saturating_sub(self.time.unwrap_or(now)));
        }
        self.time = Some(now);
        self.unit.time(now);
    }
}

/// What a step says of a branch: was it taken, and where did it lead?
#[inline]
fn said(instruction: &Instruction) -> (Option<bool>, Option<u64>) {
    let taken = instruction.branch.map(|branch| branch.taken);
    let led_to = instruction.branch.and_then(|branch| branch.target);
    (taken.or(instruction.is_executed.filter(|is_executed| !is_executed)), led_to)
}

/// Did the branch lead there by being taken? `None`: it cannot lead there.
#[inline]
fn outcome(pending: &Pending, next: Target) -> Option<bool> {
    let falls_through = next == pending.known.behind() && pending.known.executed.conditional;
    let branches = pending.known.target().is_none_or(|target| target == next);
    match (branches, falls_through) {
        (true, true) => Some(pending.taken.unwrap_or(pending.known.target().is_some())),
        (false, false) => None,
        (branches, _) => Some(branches),
    }
}

fn sub_isa(isa: isa::Isa) -> SubIsa {
    match isa {
        isa::Isa::A64 | isa::Isa::A32 => SubIsa::Is0,
        isa::Isa::T32 => SubIsa::Is1,
    }
}

/// The exception type of a call.
const CALL: u16 = 2;

/// The exception type of A-profile.
fn number(exception: &Exception) -> u16 {
    match (exception.kind, exception.class) {
        (ExceptionKind::Reset, _) => 0,
        (ExceptionKind::Debug, _) => 1,
        (ExceptionKind::SError, _) => 4,
        (ExceptionKind::Irq, _) => 14,
        (ExceptionKind::Fiq, _) => 15,
        (_, Some(0x11..=0x13 | 0x15..=0x17)) => CALL,
        (_, Some(0x20 | 0x21)) => 11,
        (_, Some(0x24 | 0x25)) => 12,
        (_, Some(0x22 | 0x26)) => 10,
        (_, Some(0x30..=0x33 | 0x38 | 0x3c)) => 6,
        (_, Some(0x34 | 0x35)) => 7,
        (_, Some(_)) => 3,
        (_, None) if exception.call.is_some() => CALL,
        (_, None) => 3,
    }
}
