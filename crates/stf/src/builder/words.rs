//! The words that a trace is built from: the header, instructions with what belongs to them, and events.

use std::ops::BitOr;

use super::super::layout::FEATURE_EVENT64;
use super::super::record::{BusAccess, PageTableWalk, Register, TraceInfo};

/// Which version of the format is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StfVersion {
    /// What the published text describes: narrow events, no vector registers, no extensions.
    V1_3,
    /// What the tools of today write.
    #[default]
    V1_6,
}

impl StfVersion {
    /// The number behind the dot.
    pub const fn minor(self) -> u32 {
        match self {
            Self::V1_3 => 3,
            Self::V1_6 => 6,
        }
    }
}

/// The instruction encoding mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Iem {
    /// RISC-V with registers of 32 bits.
    Rv32,
    /// RISC-V with registers of 64 bits.
    #[default]
    Rv64,
}

impl Iem {
    /// Its number.
    pub const fn number(self) -> u16 {
        match self {
            Self::Rv32 => 1,
            Self::Rv64 => 2,
        }
    }
}

/// What a trace has, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(pub u64);

impl Features {
    /// Nothing but instructions.
    pub const NONE: Self = Self(0);
    /// Physical addresses. No record has any but page table walks.
    pub const PHYSICAL_ADDRESS: Self = Self(0x1);
    /// Registers that instructions read and write.
    pub const OPERAND_VALUE: Self = Self(0x4);
    /// Exceptions and interrupts.
    pub const EVENT: Self = Self(0x8);
    /// Instructions of RV64. The writer adds it by itself.
    pub const RV64: Self = Self(0x20);
    /// Page table walks.
    pub const PTE: Self = Self(0x100);
    /// Which process is executed.
    pub const PROCESS_ID: Self = Self(0x400);
    /// Registers as they are at some point.
    pub const REG_STATE: Self = Self(0x2000);
    /// Micro-operations.
    pub const MICROOP: Self = Self(0x4000);
    /// Vector registers.
    pub const VEC: Self = Self(0x4_0000);
    /// Events with numbers of 64 bits. The writer adds it by itself.
    pub const EVENT64: Self = Self(FEATURE_EVENT64);
    /// Transactions instead of instructions.
    pub const TRANSACTIONS: Self = Self(0x10_0000);

    /// Are all of these there?
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These without the others.
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What stands in front of the instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The version of the format.
    pub version: StfVersion,
    /// The instruction encoding mode at the start.
    pub iem: Iem,
    /// Where the first instruction is.
    pub pc: u64,
    /// The mode at the start, if that is known.
    pub mode: Option<Mode>,
    /// What the trace will have. What is not declared is refused later, since nothing behind the header can mend it.
    pub features: Features,
    /// Whether instructions come with their accesses to memory: all of them, or none.
    pub accesses: bool,
    /// Bits of a vector register.
    pub vlen: Option<u32>,
    /// The extensions of the instruction set, such as `rv64gcv`.
    pub isa_extended: Option<&'a str>,
    /// Which process is executed at the start.
    pub process: Option<[u32; 3]>,
    /// Text for people. The writer appends a comment of its own.
    pub comments: &'a [&'a str],
    /// Who made the trace before. The writer appends itself.
    pub makers: &'a [TraceInfo<'a>],
}

impl Header<'_> {
    /// RV64 instructions from `pc` on, without anything else.
    pub const fn new(pc: u64) -> Self {
        Self {
            version: StfVersion::V1_6,
            iem: Iem::Rv64,
            pc,
            mode: None,
            features: Features::NONE,
            accesses: false,
            vlen: None,
            isa_extended: None,
            process: None,
            comments: &[],
            makers: &[],
        }
    }
}

/// A privilege mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// User.
    User = 0,
    /// Supervisor.
    Supervisor = 1,
    /// Hypervisor.
    Hypervisor = 2,
    /// Machine.
    Machine = 3,
}

/// An instruction that was executed, or was tried, and what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// Where it is.
    pub pc: u64,
    /// Its opcode, two bytes or four: the lowest two bits tell.
    pub opcode: u32,
    /// Where it went, if it is a branch that was taken, a jump or the return from a trap.
    pub target: Option<u64>,
    /// Registers.
    pub registers: &'a [Register<'a>],
    /// Registers that are ready.
    pub ready: &'a [u16],
    /// Page table walks.
    pub walks: &'a [PageTableWalk<'a>],
    /// Accesses to memory.
    pub accesses: &'a [Access<'a>],
    /// Accesses of others.
    pub bus: &'a [(BusAccess, &'a [u64])],
    /// What happened to it, or with it.
    pub events: &'a [Event<'a>],
    /// Micro-operations: 2 or 4 bytes, and the encoding.
    pub microops: &'a [(u8, u32)],
}

impl Step<'_> {
    /// An instruction without anything that belongs to it.
    pub const fn plain(pc: u64, opcode: u32) -> Self {
        Self {
            pc,
            opcode,
            target: None,
            registers: &[],
            ready: &[],
            walks: &[],
            accesses: &[],
            bus: &[],
            events: &[],
            microops: &[],
        }
    }

    /// A branch, a jump or the return from a trap that went to `target`.
    pub const fn taken(pc: u64, opcode: u32, target: u64) -> Self {
        Self { target: Some(target), ..Self::plain(pc, opcode) }
    }
}

/// An access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access<'a> {
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub bytes: u16,
    /// It writes; else it reads.
    pub is_write: bool,
    /// Attributes, which no text lists.
    pub attributes: u16,
    /// What was read or written, eight bytes a word, the last of them right-justified.
    pub contents: &'a [u64],
}

/// An exception, an interrupt or a change of mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// What.
    pub cause: Cause,
    /// Words that tell more; a change of mode has none of its own.
    pub data: &'a [u64],
    /// Where it led.
    pub target: Option<u64>,
}

impl Event<'_> {
    /// The instructions behind this one are executed in `mode`.
    pub const fn mode(mode: Mode) -> Self {
        Self { cause: Cause::Mode(mode), data: &[], target: None }
    }
}

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// An exception, by the number that RISC-V gives it.
    Fault(u32),
    /// An interrupt, by the number that RISC-V gives it.
    Interrupt(u32),
    /// From the next instruction on, another mode.
    Mode(Mode),
}
