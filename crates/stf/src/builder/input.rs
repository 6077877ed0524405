//! Input of the builder: the header, instructions with their effects, and events.

use std::ops::BitOr;

use super::super::layout::FEATURE_EVENT64;
use super::super::record::{BusAccess, PageTableWalk, Register, TraceInfo};

/// Version of the format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StfVersion {
    /// The published specification: narrow events, no vector registers, no extensions.
    V1_3,
    /// The output of current tools.
    #[default]
    V1_6,
}

impl StfVersion {
    /// The minor version.
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

/// Feature bits of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(pub u64);

impl Features {
    /// Only instructions.
    pub const NONE: Self = Self(0);
    /// Physical addresses. Only page table walks have some.
    pub const PHYSICAL_ADDRESS: Self = Self(0x1);
    /// Registers that instructions read and write.
    pub const OPERAND_VALUE: Self = Self(0x4);
    /// Exceptions and interrupts.
    pub const EVENT: Self = Self(0x8);
    /// Instructions of RV64. Set by the builder.
    pub const RV64: Self = Self(0x20);
    /// Page table walks.
    pub const PTE: Self = Self(0x100);
    /// Process identifiers.
    pub const PROCESS_ID: Self = Self(0x400);
    /// States of registers.
    pub const REG_STATE: Self = Self(0x2000);
    /// Micro-operations.
    pub const MICROOP: Self = Self(0x4000);
    /// Vector registers.
    pub const VEC: Self = Self(0x4_0000);
    /// Events with 64-bit numbers. Set by the builder.
    pub const EVENT64: Self = Self(FEATURE_EVENT64);
    /// Transactions instead of instructions.
    pub const TRANSACTIONS: Self = Self(0x10_0000);

    /// Does it include all of these?
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

/// The header of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The version of the format.
    pub version: StfVersion,
    /// Instruction encoding mode at the start.
    pub iem: Iem,
    /// Address of the first instruction.
    pub pc: u64,
    /// Mode at the start, if known.
    pub mode: Option<Mode>,
    /// Features of the trace. An undeclared one is refused later, since the header cannot be changed.
    pub features: Features,
    /// Do instructions have their accesses to memory? All of them do, or none.
    pub accesses: bool,
    /// Bits of a vector register.
    pub vlen: Option<u32>,
    /// The extensions of the instruction set, such as `rv64gcv`.
    pub isa_extended: Option<&'a str>,
    /// Hardware thread ID, PID and TID at the start.
    pub process: Option<[u32; 3]>,
    /// Comments. The builder appends one of its own.
    pub comments: &'a [&'a str],
    /// Generator and modifiers so far. The builder appends this tool.
    pub trace_infos: &'a [TraceInfo<'a>],
}

impl Header<'_> {
    /// A header for RV64 instructions from `pc` on, and nothing else.
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
            trace_infos: &[],
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

/// An instruction that was executed or attempted, and its effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// Its address.
    pub pc: u64,
    /// Its opcode; the lowest two bits determine whether it has two bytes or four.
    pub opcode: u32,
    /// Target of a taken branch, a jump or a return from a trap.
    pub target: Option<u64>,
    /// Registers.
    pub registers: &'a [Register<'a>],
    /// Registers that are ready.
    pub ready: &'a [u16],
    /// Page table walks.
    pub walks: &'a [PageTableWalk<'a>],
    /// Accesses to memory.
    pub accesses: &'a [Access<'a>],
    /// Accesses by other bus masters, each with its data.
    pub bus: &'a [(BusAccess, &'a [u64])],
    /// Events, such as exceptions.
    pub events: &'a [Event<'a>],
    /// Micro-operations: 2 or 4 bytes, and the encoding.
    pub microops: &'a [(u8, u32)],
}

impl Step<'_> {
    /// An instruction without effects.
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

    /// A taken branch, a jump or a return from a trap.
    pub const fn taken(pc: u64, opcode: u32, target: u64) -> Self {
        Self { target: Some(target), ..Self::plain(pc, opcode) }
    }
}

/// An access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access<'a> {
    /// Address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u16,
    /// Is it a write? Otherwise it is a read.
    pub is_write: bool,
    /// Attributes, which are not specified.
    pub attributes: u16,
    /// Data in words of eight bytes, the last one right-justified.
    pub contents: &'a [u64],
}

/// An exception, an interrupt or a change of mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its cause.
    pub cause: Cause,
    /// Data words; a change of mode has none.
    pub data: &'a [u64],
    /// Its target.
    pub target: Option<u64>,
}

impl Event<'_> {
    /// A change of mode, effective after the instruction.
    pub const fn mode(mode: Mode) -> Self {
        Self { cause: Cause::Mode(mode), data: &[], target: None }
    }
}

/// Cause of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// An exception, with its RISC-V number.
    Fault(u32),
    /// An interrupt, with its RISC-V number.
    Interrupt(u32),
    /// A change of mode, effective with the next instruction.
    Mode(Mode),
}
