//! A step: one event on one core, with the registers and memory that it changed.

use std::ops::Range;

use unspool_isa::Isa;

use crate::note;

/// One event on one core. Owned, so that its memory can be reused from step to step.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Step {
    /// Core number, counted from 0 in order of first appearance in the source.
    pub core: u32,
    /// Position in the source: a byte offset, a record or a line, as the source counts.
    pub position: u64,
    /// Time in the unit of the source.
    pub time: Option<u64>,
    /// The event.
    pub event: Event,
    pub(crate) registers: Vec<Write>,
    pub(crate) accesses: Vec<Touch>,
    /// Bytes of both, each with a mask of its known bits.
    pub(crate) bytes: Vec<(u8, u8)>,
    /// The text of a note.
    pub(crate) note: String,
}

/// Kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Event {
    /// Contents of registers or memory that no instruction caused.
    #[default]
    State,
    /// An instruction was executed or attempted.
    Instruction(Instruction),
    /// An exception was taken.
    Exception(Exception),
    /// An exception returned.
    ExceptionReturn {
        /// Address at which execution continues, if known.
        target: Option<u64>,
    },
    /// Execution continues in this context.
    Context(Context),
    /// Part of the execution is missing.
    Gap(Gap),
    /// Text in the trace: [`Step::note`].
    Note,
}

impl Event {
    /// The instruction, if the event is one.
    #[inline]
    pub fn instruction(&self) -> Option<&Instruction> {
        match self {
            Self::Instruction(instruction) => Some(instruction),
            _ => None,
        }
    }
}

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its opcode; of T32, the first halfword is the high one. `None`: unknown, or it could not be fetched.
    pub opcode: Option<u32>,
    /// Length in bytes.
    pub length: u8,
    /// Its instruction set.
    pub isa: Isa,
    /// Whether its condition held, if known.
    pub is_executed: Option<bool>,
    /// The outcome, if it is a branch and the outcome is known.
    pub branch: Option<Branch>,
    /// The index into ZA that the instruction computes, if known.
    pub za_index: Option<u8>,
}

/// Outcome of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Whether it was taken.
    pub taken: bool,
    /// Target address, if it was taken and the target is known.
    pub target: Option<u64>,
}

/// An exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exception {
    /// Its kind.
    pub kind: ExceptionKind,
    /// The exception class (EC of ESR_ELx), if known.
    pub class: Option<u8>,
    /// The immediate of the call instruction that caused it, if known.
    pub call: Option<u16>,
    /// Whether an interrupt or a system error is virtual, if known.
    pub is_virtual: Option<bool>,
    /// Address at which the interrupted program resumes.
    pub return_address: Option<u64>,
    /// Address of the handler.
    pub target: Option<u64>,
}

/// Kinds of exceptions that formats distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExceptionKind {
    /// Unknown.
    #[default]
    Unknown,
    /// Reset.
    Reset,
    /// Caused by an instruction: a call, a trap, an abort.
    Synchronous,
    /// An interrupt.
    Irq,
    /// A fast interrupt.
    Fiq,
    /// A system error.
    SError,
    /// Halting debug.
    Debug,
}

impl ExceptionKind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Reset => "reset",
            Self::Synchronous => "synchronous",
            Self::Irq => "irq",
            Self::Fiq => "fiq",
            Self::SError => "serror",
            Self::Debug => "debug",
        }
    }
}

/// State that execution is in. `None`: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Context {
    /// The Exception level, or the privilege mode of RISC-V.
    pub level: Option<u8>,
    /// The Security state.
    pub security: Option<Security>,
    /// Whether the core is in AArch64 state.
    pub is_aarch64: Option<bool>,
    /// Whether the stack pointer is that of the Exception level.
    pub is_handler: Option<bool>,
    /// The context identifier or process.
    pub process: Option<u64>,
    /// The thread.
    pub thread: Option<u64>,
    /// The virtual machine.
    pub vmid: Option<u32>,
    /// Further fields of PSTATE and of the vector length that change what instructions do.
    pub modes: Option<Modes>,
}

impl Context {
    /// This context, with unknown fields taken from `before`.
    pub fn over(&self, before: &Self) -> Self {
        Self {
            level: self.level.or(before.level),
            security: self.security.or(before.security),
            is_aarch64: self.is_aarch64.or(before.is_aarch64),
            is_handler: self.is_handler.or(before.is_handler),
            process: self.process.or(before.process),
            thread: self.thread.or(before.thread),
            vmid: self.vmid.or(before.vmid),
            modes: self.modes.or(before.modes),
        }
    }
}

/// Modes of AArch64 that change what instructions do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Modes {
    /// Streaming SVE mode.
    pub streaming: bool,
    /// Data-independent timing.
    pub dit: bool,
    /// Speculative store bypass is permitted.
    pub ssbs: bool,
    /// The LEN field of the vector length: vectors have (LEN + 1) × 128 bits.
    pub vector_length: u8,
    /// The effect of a Tag Check Fault, two bits.
    pub tag_check_fault: u8,
}

/// A Security state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    /// Secure.
    Secure,
    /// Non-secure.
    NonSecure,
    /// Root.
    Root,
    /// Realm.
    Realm,
}

impl Security {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Secure => "secure",
            Self::NonSecure => "nonsecure",
            Self::Root => "root",
            Self::Realm => "realm",
        }
    }
}

/// Reason why part of the execution is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gap {
    /// Tracing starts or restarts.
    Start,
    /// The trace unit overflowed.
    Overflow,
    /// The trace unit discarded what was not committed.
    Discard,
    /// There is no code at this address.
    NoCode(u64),
    /// The trace is damaged here.
    Damaged,
    /// The trace and the code contradict each other.
    Contradiction,
    /// A transaction failed, and its effects are undone.
    TransactionFailed,
}

impl Gap {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Overflow => "overflow",
            Self::Discard => "discard",
            Self::NoCode(_) => "no-code",
            Self::Damaged => "damaged",
            Self::Contradiction => "contradiction",
            Self::TransactionFailed => "transaction-failed",
        }
    }
}

/// Direction of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes.
    Both,
    /// Neither, as for a prefetch.
    Neither,
}

impl Direction {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Both => "both",
            Self::Neither => "neither",
        }
    }
}

/// New contents of a register or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterWrite<'s> {
    /// The name of the register in lower case.
    pub name: &'s str,
    /// The lowest bit written.
    pub low: u16,
    /// The bytes, lowest first, each with a mask of its known bits.
    pub bytes: &'s [(u8, u8)],
}

/// A memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access<'s> {
    /// Its direction.
    pub direction: Direction,
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Whether its tag is checked, or it accesses tags.
    pub is_tagged: bool,
    /// The data, lowest address first, each byte with a mask of its known bits. Empty: unknown.
    pub bytes: &'s [(u8, u8)],
}

/// A register write; its bytes are a range of those of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    name: Name,
    low: u16,
    bytes: Range<u32>,
}

/// An access; its bytes are a range of those of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touch {
    direction: Direction,
    address: u64,
    size: u64,
    is_tagged: bool,
    bytes: Range<u32>,
}

/// Maximum length of a name; longer ones are truncated.
const NAME: usize = 23;

/// A short string without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    length: u8,
    text: [u8; NAME],
}

impl Name {
    fn new(name: &str) -> Self {
        let length = note::split(name, NAME).0.len();
        let mut text = [0; NAME];
        text[..length].copy_from_slice(&name.as_bytes()[..length]);
        text[..length].make_ascii_lowercase();
        Self { length: length as u8, text }
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.text[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl Clone for Step {
    fn clone(&self) -> Self {
        let mut step = Self::default();
        step.clone_from(self);
        step
    }

    fn clone_from(&mut self, other: &Self) {
        (self.core, self.position, self.time, self.event) = (other.core, other.position, other.time, other.event);
        self.registers.clone_from(&other.registers);
        self.accesses.clone_from(&other.accesses);
        self.bytes.clone_from(&other.bytes);
        self.note.clone_from(&other.note);
    }
}

impl Step {
    /// Resets the step to the default and keeps its memory.
    #[inline]
    pub fn clear(&mut self) {
        (self.core, self.position, self.time, self.event) = (0, 0, None, Event::State);
        self.registers.clear();
        self.accesses.clear();
        self.bytes.clear();
        self.note.clear();
    }

    /// Makes this a note with the given text.
    pub fn set_note(&mut self, text: &str) {
        self.event = Event::Note;
        self.note.clear();
        self.note.push_str(text);
    }

    /// The text of a note.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Adds a register write: these bytes, lowest first, from bit `low` on.
    pub fn write_register(&mut self, name: &str, low: u16, bytes: &[u8]) {
        self.write_register_known(name, low, bytes.iter().map(|byte| (*byte, 0xff)));
    }

    /// Adds a register write; each byte comes with a mask of its known bits.
    pub fn write_register_known(&mut self, name: &str, low: u16, bytes: impl IntoIterator<Item = (u8, u8)>) {
        let bytes = self.keep(bytes);
        self.registers.push(Write { name: Name::new(name), low, bytes });
    }

    /// Adds an access with unknown data.
    pub fn access(&mut self, direction: Direction, address: u64, size: u64) {
        self.access_known(direction, address, size, []);
    }

    /// Adds an access with data; each byte comes with a mask of its known bits.
    pub fn access_known(
        &mut self,
        direction: Direction,
        address: u64,
        size: u64,
        bytes: impl IntoIterator<Item = (u8, u8)>,
    ) {
        let bytes = self.keep(bytes);
        self.accesses.push(Touch { direction, address, size, is_tagged: false, bytes });
    }

    /// Marks the last access as one that checks its tag or accesses tags.
    pub fn tag_last_access(&mut self) {
        if let Some(touch) = self.accesses.last_mut() {
            touch.is_tagged = true;
        }
    }

    fn keep(&mut self, bytes: impl IntoIterator<Item = (u8, u8)>) -> Range<u32> {
        let start = self.bytes.len() as u32;
        self.bytes.extend(bytes);
        start..self.bytes.len() as u32
    }

    /// Copies the accesses of another step, with or without their data.
    pub fn take_accesses(&mut self, other: &Self, with_data: bool) {
        for touch in &other.accesses {
            let data = if with_data { kept(&other.bytes, &touch.bytes) } else { &[] };
            self.access_known(touch.direction, touch.address, touch.size, data.iter().copied());
            if touch.is_tagged {
                self.tag_last_access();
            }
        }
    }

    /// Copies the register writes of another step.
    pub fn take_registers(&mut self, other: &Self) {
        for write in &other.registers {
            let bytes = self.keep(kept(&other.bytes, &write.bytes).iter().copied());
            self.registers.push(Write { bytes, ..*write });
        }
    }

    /// The register writes, in the order of the source.
    pub fn registers(&self) -> impl ExactSizeIterator<Item = RegisterWrite<'_>> {
        registers(&self.registers, &self.bytes)
    }

    /// The memory accesses, in the order of the source.
    pub fn accesses(&self) -> impl ExactSizeIterator<Item = Access<'_>> {
        accesses(&self.accesses, &self.bytes)
    }
}

/// A step in a batch of steps.
#[derive(Debug, Clone, Copy)]
pub struct StepRef<'s> {
    /// Core number.
    pub core: u32,
    /// Position in the source.
    pub position: u64,
    /// The event.
    pub event: &'s Event,
    pub(crate) registers: &'s [Write],
    pub(crate) accesses: &'s [Touch],
    pub(crate) bytes: &'s [(u8, u8)],
}

impl<'s> StepRef<'s> {
    /// Whether both steps write the same contents to the same registers and have the same accesses, listed in the same order.
    #[inline]
    pub fn has_same_effects(&self, other: &Self) -> bool {
        self.registers == other.registers && self.accesses == other.accesses && self.bytes == other.bytes
    }

    /// The register writes, in the order of the source.
    pub fn registers(&self) -> impl ExactSizeIterator<Item = RegisterWrite<'s>> + use<'s> {
        registers(self.registers, self.bytes)
    }

    /// The memory accesses, in the order of the source.
    pub fn accesses(&self) -> impl ExactSizeIterator<Item = Access<'s>> + use<'s> {
        accesses(self.accesses, self.bytes)
    }
}

fn registers<'s>(
    writes: &'s [Write],
    bytes: &'s [(u8, u8)],
) -> impl ExactSizeIterator<Item = RegisterWrite<'s>> + use<'s> {
    writes.iter().map(move |write| RegisterWrite {
        name: write.name.as_str(),
        low: write.low,
        bytes: kept(bytes, &write.bytes),
    })
}

fn accesses<'s>(touches: &'s [Touch], bytes: &'s [(u8, u8)]) -> impl ExactSizeIterator<Item = Access<'s>> + use<'s> {
    touches.iter().map(move |touch| Access {
        direction: touch.direction,
        address: touch.address,
        size: touch.size,
        is_tagged: touch.is_tagged,
        bytes: kept(bytes, &touch.bytes),
    })
}

fn kept<'s>(bytes: &'s [(u8, u8)], range: &Range<u32>) -> &'s [(u8, u8)] {
    bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
}
