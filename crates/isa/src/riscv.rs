//! RISC-V: what an instruction does to the flow of control and to memory, and the classes that a mix counts it in.
//!
//! (width of the registers, address, opcode) ─▶ **facts**
//!
//! Two bytes or four; the longer forms that the encoding foresees have no instruction yet. Where extensions give two
//! meanings to one opcode, the one of the common profiles counts: Zcd before Zcmp and Zcmt (unless it is said that there
//! are these: [`RiscvExtensions`]), Zcf before Zclsd, and F before Zfinx. Knows the ratified extensions up to RVA23, and
//! none of a vendor.
//! Specification: The RISC-V Instruction Set Manual, volumes I and II (20250508).

mod class;
mod float;
mod narrow;
mod push;
mod system;
mod vector;
mod wide;

pub use class::{Class, Classes};
pub use push::RiscvExtensions;

/// How wide the integer registers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Xlen {
    /// 32 bits.
    Rv32,
    /// 64 bits.
    #[default]
    Rv64,
}

/// What an instruction does to the flow of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RiscvFlow {
    /// Nothing: execution goes on behind it.
    #[default]
    None,
    /// Goes to the target, or on behind itself.
    Branch,
    /// Goes to the target.
    Jump,
    /// Goes where a register says.
    IndirectJump,
    /// Returns from a trap.
    TrapReturn,
    /// Calls those above.
    Ecall,
    /// Calls the debugger.
    Ebreak,
}

/// What an instruction does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RiscvAccess {
    /// Nothing.
    #[default]
    None,
    /// Loads.
    Load,
    /// Stores. `cbo.zero` is one too: it writes zeros to a block.
    Store,
    /// Loads and stores in one: an atomic memory operation.
    LoadStore,
    /// Loads, and reserves what it loaded.
    LoadReserved,
    /// Stores if the reservation still holds.
    StoreConditional,
    /// Announces an access.
    Prefetch,
    /// Manages the cache block of an address.
    CacheOperation,
    /// Orders accesses, or translations.
    Fence,
}

impl RiscvAccess {
    /// Whether memory is read.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Load | Self::LoadStore | Self::LoadReserved)
    }

    /// Whether memory is written, or may be.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Store | Self::LoadStore | Self::StoreConditional)
    }

    /// Whether memory is read or written.
    pub const fn is_memory_access(self) -> bool {
        self.reads() || self.writes()
    }
}

/// What is known of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RiscvFacts {
    /// How many bytes it has: 2 or 4.
    pub length: u8,
    /// What it does to the flow of control.
    pub flow: RiscvFlow,
    /// Writes a return address into a link register: `x1` or `x5`.
    pub link: bool,
    /// Returns from a function: goes where a link register says that it does not write itself.
    pub ret: bool,
    /// Where it goes; `None` if the opcode does not tell.
    pub target: Option<u64>,
    /// What it does with memory.
    pub access: RiscvAccess,
    /// How many bytes it accesses; `None` if the opcode does not tell, as with all vectors and cache blocks.
    pub bytes: Option<u16>,
    /// Works on vectors.
    pub vector: bool,
    /// Leaves out the elements that the mask `v0` does not select.
    pub masked: bool,
    /// The classes it counts in; none if it is no instruction.
    pub classes: Classes,
}

/// What `opcode` does at `address`.
///
/// An opcode of two bytes has whatever above them. Of what is no instruction nothing is claimed but the length, and it
/// has no [class](Classes); the longer forms are such.
#[inline]
pub fn riscv_facts(xlen: Xlen, address: u64, opcode: u32) -> RiscvFacts {
    match riscv_length(opcode as u16) {
        4 => wide::facts(xlen, address, opcode),
        _ => narrow::facts(xlen, address, opcode as u16),
    }
}

/// How many bytes the instruction has that starts with this halfword. For the longer forms it is 4 too.
#[inline]
pub const fn riscv_length(first: u16) -> u8 {
    if first & 0b11 == 0b11 { 4 } else { 2 }
}

impl RiscvFacts {
    /// No instruction.
    const NOTHING: Self = Self {
        length: 4,
        flow: RiscvFlow::None,
        link: false,
        ret: false,
        target: None,
        access: RiscvAccess::None,
        bytes: None,
        vector: false,
        masked: false,
        classes: Classes::NONE,
    };

    /// Neither branches nor has memory.
    const fn computes(classes: Classes) -> Self {
        Self { classes, ..Self::NOTHING }
    }

    /// Accesses memory.
    const fn accesses(access: RiscvAccess, bytes: Option<u16>, classes: Classes) -> Self {
        Self { access, bytes, classes, ..Self::NOTHING }
    }

    /// Diverts the flow of control.
    const fn diverts(flow: RiscvFlow, classes: Classes) -> Self {
        Self { flow, classes, ..Self::NOTHING }
    }

    /// These facts, if it is an instruction at all.
    const fn when(self, is_instruction: bool) -> Self {
        if is_instruction { self } else { Self { length: self.length, ..Self::NOTHING } }
    }
}

/// Branches on a condition, by `offset`.
const fn branch(xlen: Xlen, address: u64, offset: i64) -> RiscvFacts {
    let target = Some(target(xlen, address, offset));
    RiscvFacts { target, ..RiscvFacts::diverts(RiscvFlow::Branch, Classes::of(&[Class::Branch, Class::Conditional])) }
}

/// Jumps by `offset`, and leaves the way back in the register `link`.
const fn jump(xlen: Xlen, address: u64, offset: i64, link: u32) -> RiscvFacts {
    let facts = RiscvFacts::diverts(RiscvFlow::Jump, Classes::of(&[Class::Branch, Class::Jal]));
    RiscvFacts { target: Some(target(xlen, address, offset)), link: is_link(link), ..facts }
}

/// Jumps to where the register `base` says, and leaves the way back in the register `link`.
///
/// Where both are link registers it is a call if they are one, and else a return and a call, as coroutines do it.
const fn jump_by_register(base: u32, link: u32) -> RiscvFacts {
    let facts = RiscvFacts::diverts(RiscvFlow::IndirectJump, Classes::of(&[Class::Branch, Class::Jalr]));
    RiscvFacts { link: is_link(link), ret: is_link(base) && base != link, ..facts }
}

/// The registers that return addresses are kept in.
const fn is_link(register: u32) -> bool {
    matches!(register, 1 | 5)
}

const fn target(xlen: Xlen, address: u64, offset: i64) -> u64 {
    let target = address.wrapping_add_signed(offset);
    match xlen {
        Xlen::Rv32 => target & 0xffff_ffff,
        Xlen::Rv64 => target,
    }
}

/// The `width` bits from bit `low` on.
#[inline]
const fn field(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1 << width) - 1)
}

/// Whether bit `place` is set.
#[inline]
const fn flag(word: u32, place: u32) -> bool {
    word >> place & 1 != 0
}

/// Works on integers, and is no more than that.
const INT: Classes = Classes::of(&[Class::Int]);
/// Computes with integers.
const ARITH: Classes = INT.with(Class::Arith);
/// Loads an integer.
const LOAD: Classes = INT.with(Class::Load);
/// Stores an integer.
const STORE: Classes = INT.with(Class::Store);
/// Works on floating-point numbers, and is no more than that.
const FLOAT: Classes = Classes::of(&[Class::Float]);
