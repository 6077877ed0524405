//! Where an instruction leads, told by its opcode.
//!
//! instruction ─▶ **course**, and with what became of it ─▶ where the next one is

use unspool_isa::{self as isa, Kind, RiscvExtensions, RiscvFlow, Xlen, facts, is_ordinary_a64, riscv_facts};
use unspool_model::{Instruction, Isa};

/// What an opcode does to the flow of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Way {
    /// Nobody knows: there is no opcode, or it is of an instruction that may be new.
    #[default]
    Open,
    /// Execution goes on behind it; `is_sure`: no extension makes a branch of it.
    On { is_sure: bool },
    /// A branch to there.
    Direct { target: u64, isa: Isa },
    /// A branch to somewhere.
    Indirect,
}

/// What an opcode says of the flow of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Course {
    pub(super) way: Way,
    /// It may do nothing instead.
    pub(super) conditional: bool,
    /// It returns from an exception.
    pub(super) returns: bool,
    /// How many instructions behind it an IT instruction makes conditional.
    pub(super) it: u8,
    /// A transaction starts behind it.
    pub(super) is_transaction: bool,
}

const ON: Course = of(Way::On { is_sure: true });
const OPEN: Course = of(Way::Open);

const fn of(way: Way) -> Course {
    Course { way, conditional: false, returns: false, it: 0, is_transaction: false }
}

/// What the opcode says.
#[inline]
pub(super) fn course(instruction: &Instruction) -> Course {
    let &Instruction { address, opcode, isa, length, .. } = instruction;
    let Some(opcode) = opcode else { return OPEN };
    match isa {
        Isa::A64 if is_ordinary_a64(opcode) => ON,
        Isa::A64 => a64(address, opcode),
        Isa::A32 => arm(isa::Isa::A32, address, opcode, length),
        Isa::T32 => arm(isa::Isa::T32, address, opcode, length),
        Isa::Rv32 => riscv(Xlen::Rv32, address, opcode),
        Isa::Rv64 => riscv(Xlen::Rv64, address, opcode),
    }
}

fn a64(address: u64, opcode: u32) -> Course {
    let facts = facts(isa::Isa::A64, address, opcode);
    let is_transaction = facts.kind == Kind::TransactionStart;
    match opcode >> 24 {
        // Calls, and the system: none of them is a branch, though what is new may be anything.
        0xd4 | 0xd5 if facts.kind != Kind::Direct => Course { is_transaction, ..of(Way::On { is_sure: false }) },
        _ if facts.kind == Kind::Other => OPEN,
        _ => of_facts(&facts),
    }
}

fn arm(isa: isa::Isa, address: u64, opcode: u32, length: u8) -> Course {
    let facts = facts(isa, address, opcode);
    // Another length is another instruction.
    if facts.length == length { of_facts(&facts) } else { OPEN }
}

fn of_facts(facts: &isa::Facts) -> Course {
    let way = match (facts.kind, facts.target) {
        (Kind::Direct, Some(target)) => Way::Direct { target: target.address, isa: of_isa(target.isa) },
        (Kind::Direct | Kind::Indirect, _) => Way::Indirect,
        _ => Way::On { is_sure: false },
    };
    Course { conditional: facts.conditional, returns: facts.eret, it: facts.it, ..of(way) }
}

fn of_isa(isa: isa::Isa) -> Isa {
    match isa {
        isa::Isa::A64 => Isa::A64,
        isa::Isa::A32 => Isa::A32,
        isa::Isa::T32 => Isa::T32,
    }
}

/// Extensions that give other meanings to opcodes.
const OTHER_MEANINGS: RiscvExtensions = RiscvExtensions { zcmp: true, zcmt: true };

fn riscv(xlen: Xlen, address: u64, opcode: u32) -> Course {
    if OTHER_MEANINGS.claims(opcode) {
        return OPEN;
    }
    let facts = riscv_facts(xlen, address, opcode);
    let isa = if xlen == Xlen::Rv32 { Isa::Rv32 } else { Isa::Rv64 };
    let way = match (facts.flow, facts.target) {
        (RiscvFlow::Branch | RiscvFlow::Jump, Some(target)) => Way::Direct { target, isa },
        (RiscvFlow::Branch | RiscvFlow::Jump | RiscvFlow::IndirectJump | RiscvFlow::TrapReturn, _) => Way::Indirect,
        // What a vendor added may branch.
        (RiscvFlow::None, _) if facts.classes.is_empty() => Way::Open,
        (RiscvFlow::None, _) => Way::On { is_sure: true },
        (RiscvFlow::Ecall | RiscvFlow::Ebreak, _) => Way::On { is_sure: false },
    };
    let conditional = facts.flow == RiscvFlow::Branch;
    Course { conditional, returns: facts.flow == RiscvFlow::TrapReturn, ..of(way) }
}

/// Where the next instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Next {
    /// Anywhere, as far as is known.
    #[default]
    Any,
    /// There.
    At(u64),
    /// At one of two places.
    Either(u64, u64),
}

impl Next {
    /// Where an instruction leads that raised no exception.
    #[inline]
    pub(super) fn behind(instruction: &Instruction, course: &Course) -> Self {
        let behind = instruction.address.wrapping_add(u64::from(instruction.length));
        match (instruction.branch, course.way) {
            (None, _) if instruction.is_executed == Some(false) => Self::At(behind),
            (None, Way::On { .. }) => Self::At(behind),
            (None, Way::Open | Way::Indirect) => Self::Any,
            (None, Way::Direct { target, .. }) if course.conditional => Self::Either(target, behind),
            (None, Way::Direct { target, .. }) => Self::At(target),
            (Some(branch), _) if !branch.taken => Self::At(behind),
            (Some(branch), way) => match (branch.target, way) {
                // If they differ, that was found.
                (Some(told), Way::Direct { target, .. }) => Self::Either(told, target),
                (Some(told), _) => Self::At(told),
                (None, Way::Direct { target, .. }) => Self::At(target),
                (None, _) => Self::Any,
            },
        }
    }

    /// May the next instruction be at `address`?
    #[inline]
    pub(super) fn allows(self, isa: Isa, address: u64) -> bool {
        match self {
            Self::Any => true,
            Self::At(there) => is_same(isa, there, address),
            Self::Either(there, or) => is_same(isa, there, address) || is_same(isa, or, address),
        }
    }
}

/// Are both the same address? Tags of A64 are none of its bits, and 32-bit addresses are extended in many ways.
#[inline]
pub(super) fn is_same(isa: Isa, a: u64, b: u64) -> bool {
    let mask = match isa {
        Isa::A64 => u64::MAX >> 8,
        Isa::Rv64 => u64::MAX,
        // The lowest bit of a target may say that it is T32.
        Isa::A32 | Isa::T32 => 0xffff_fffe,
        Isa::Rv32 => 0xffff_ffff,
    };
    (a ^ b) & mask == 0
}
