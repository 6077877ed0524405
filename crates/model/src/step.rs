//! A step: one thing that happened on one core, with what it changed.

use std::ops::Range;

use unspool_isa::Isa;

/// One thing that happened on one core. Owned, and meant to be used again and again.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Step {
    /// Which core, counted from 0 in the order in which the source tells of them.
    pub core: u32,
    /// Where the source says so: a byte offset, a record or a line, as the source counts.
    pub position: u64,
    /// When, in the unit of the source.
    pub time: Option<u64>,
    /// What happened.
    pub event: Event,
    pub(crate) registers: Vec<Write>,
    pub(crate) accesses: Vec<Touch>,
    /// Bytes of both, each with what of it is known.
    pub(crate) bytes: Vec<(u8, u8)>,
    /// The text of a note.
    pub(crate) note: String,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Event {
    /// Registers or memory have these contents, and no instruction is the cause.
    #[default]
    State,
    /// An instruction was executed, or was tried.
    Instruction(Instruction),
    /// An exception was taken.
    Exception(Exception),
    /// An exception returned, and goes on there if that is known.
    ExceptionReturn {
        /// Where execution goes on.
        target: Option<u64>,
    },
    /// Execution goes on in this state.
    Context(Context),
    /// What happened here is not known.
    Gap(Gap),
    /// Somebody says something: [`Step::note`].
    Note,
}

impl Event {
    /// The instruction, if it is one.
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
    /// Where it is.
    pub address: u64,
    /// Its opcode; of T32, the first halfword is the high one. `None`: nobody knows, or it could not be fetched.
    pub opcode: Option<u32>,
    /// How many bytes it has.
    pub length: u8,
    /// Its instruction set.
    pub isa: Isa,
    /// Its condition held. `None`: the source does not say.
    pub is_executed: Option<bool>,
    /// What became of it, if it is a branch and the source says.
    pub branch: Option<Branch>,
    /// The index into ZA, of an instruction that computes one, if the source says.
    pub za_index: Option<u8>,
}

/// What became of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// It was taken.
    pub taken: bool,
    /// Where it led, if it was taken and that is known.
    pub target: Option<u64>,
}

/// An exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exception {
    /// What kind of exception.
    pub kind: ExceptionKind,
    /// The exception class (EC of ESR_ELx), if the source says.
    pub class: Option<u8>,
    /// Which call, of an exception that a call caused, if the source says.
    pub call: Option<u16>,
    /// An interrupt or a system error is virtual, if the source says.
    pub is_virtual: Option<bool>,
    /// Where the interrupted program goes on.
    pub return_address: Option<u64>,
    /// Where the handler is.
    pub target: Option<u64>,
}

/// Kinds of exceptions that formats tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExceptionKind {
    /// Nobody says.
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

/// A state of execution; what is `None` is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Context {
    /// The Exception level; of RISC-V, the privilege mode.
    pub level: Option<u8>,
    /// The Security state.
    pub security: Option<Security>,
    /// AArch64 state.
    pub is_aarch64: Option<bool>,
    /// The stack pointer is that of the Exception level.
    pub is_handler: Option<bool>,
    /// The context identifier, or the process.
    pub process: Option<u64>,
    /// The thread.
    pub thread: Option<u64>,
    /// The virtual machine.
    pub vmid: Option<u32>,
    /// What else of PSTATE and of vectors matters to instructions.
    pub modes: Option<Modes>,
}

impl Context {
    /// What is said here holds; what is not, as it was `before`.
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
    /// Speculative stores may be bypassed.
    pub ssbs: bool,
    /// The LEN field of the vector length: vectors have 128 bits more than so many times 128.
    pub vector_length: u8,
    /// What a Tag Check Fault does, two bits.
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

/// Why it is not known what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gap {
    /// Tracing starts here, or starts again.
    Start,
    /// The trace unit had no room.
    Overflow,
    /// The trace unit threw away what was not committed.
    Discard,
    /// There is no code at this address.
    NoCode(u64),
    /// The trace is damaged here.
    Damaged,
    /// The trace and the code contradict each other.
    Contradiction,
    /// A transaction failed: what it did since its start did not happen.
    TransactionFailed,
}

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes.
    Both,
    /// Neither: it only looks, as a prefetch does.
    Neither,
}

/// A register has new contents, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterWrite<'s> {
    /// Its name in small letters.
    pub name: &'s str,
    /// The lowest bit that is written.
    pub low: u16,
    /// The bytes, the lowest first, each with the bits of it that are known.
    pub bytes: &'s [(u8, u8)],
}

/// An access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access<'s> {
    /// Reads or writes.
    pub direction: Direction,
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub size: u64,
    /// Its tag is checked, or it is one to tags.
    pub is_tagged: bool,
    /// What was read or written, the byte of the lowest address first, each with the bits of it that are known; empty:
    /// the source does not say.
    pub bytes: &'s [(u8, u8)],
}

/// A register that is written; its bytes are among those of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    name: Name,
    low: u16,
    bytes: Range<u32>,
}

/// An access; its bytes are among those of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touch {
    direction: Direction,
    address: u64,
    size: u64,
    is_tagged: bool,
    bytes: Range<u32>,
}

/// Longer names are cut.
const NAME: usize = 23;

/// A name without memory of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    length: u8,
    text: [u8; NAME],
}

impl Name {
    fn new(name: &str) -> Self {
        let mut length = name.len().min(NAME);
        while !name.is_char_boundary(length) {
            length -= 1;
        }
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
    /// Nothing happened yet; the memory is used again.
    #[inline]
    pub fn clear(&mut self) {
        (self.core, self.position, self.time, self.event) = (0, 0, None, Event::State);
        self.registers.clear();
        self.accesses.clear();
        self.bytes.clear();
        self.note.clear();
    }

    /// It is a note, with this text.
    pub fn set_note(&mut self, text: &str) {
        self.event = Event::Note;
        self.note.clear();
        self.note.push_str(text);
    }

    /// The text of a note.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// A register gets these bytes, the lowest first, from bit `low` on.
    pub fn write_register(&mut self, name: &str, low: u16, bytes: &[u8]) {
        self.write_register_known(name, low, bytes.iter().map(|byte| (*byte, 0xff)));
    }

    /// The same; each byte comes with the bits of it that are known.
    pub fn write_register_known(&mut self, name: &str, low: u16, bytes: impl IntoIterator<Item = (u8, u8)>) {
        let bytes = self.keep(bytes);
        self.registers.push(Write { name: Name::new(name), low, bytes });
    }

    /// Memory is accessed; nobody knows the contents.
    pub fn access(&mut self, direction: Direction, address: u64, size: u64) {
        self.access_known(direction, address, size, []);
    }

    /// The same with contents; each byte comes with the bits of it that are known.
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

    /// The last access checks its tag, or is one to tags.
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

    fn kept(&self, bytes: &Range<u32>) -> &[(u8, u8)] {
        self.bytes.get(bytes.start as usize..bytes.end as usize).unwrap_or_default()
    }

    /// Takes over the accesses of another step, with what was read and written or without.
    pub fn take_accesses(&mut self, other: &Self, with_data: bool) {
        for touch in &other.accesses {
            let data = if with_data { other.kept(&touch.bytes) } else { &[] };
            self.access_known(touch.direction, touch.address, touch.size, data.iter().copied());
            if touch.is_tagged {
                self.tag_last_access();
            }
        }
    }

    /// Takes over the registers that another step writes.
    pub fn take_registers(&mut self, other: &Self) {
        for write in &other.registers {
            let bytes = self.keep(other.kept(&write.bytes).iter().copied());
            self.registers.push(Write { bytes, ..*write });
        }
    }

    /// The registers that were written, in the order of the source.
    pub fn registers(&self) -> impl ExactSizeIterator<Item = RegisterWrite<'_>> {
        self.registers.iter().map(|write| RegisterWrite {
            name: write.name.as_str(),
            low: write.low,
            bytes: self.kept(&write.bytes),
        })
    }

    /// The accesses to memory, in the order of the source.
    pub fn accesses(&self) -> impl ExactSizeIterator<Item = Access<'_>> {
        self.accesses.iter().map(|touch| Access {
            direction: touch.direction,
            address: touch.address,
            size: touch.size,
            is_tagged: touch.is_tagged,
            bytes: self.kept(&touch.bytes),
        })
    }
}
