//! Registers: which of them an instruction writes, told by the opcode alone.
//!
//! word ─▶ **destinations**: general registers, vectors or floating-point registers, the status
//!
//! Knows A64 and RISC-V. A register that is here is written by each instruction that completes, whatever it computes. What
//! is not here may be written all the same: SVE and SME, vectors of RISC-V, system registers and their like, cumulative
//! flags of floating-point arithmetic, and the rarest extensions have no destinations.

mod a64;
mod riscv;

pub use a64::a64_destinations;
pub use riscv::riscv_destinations;

/// The registers that an instruction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Destinations {
    /// A bit for each general register that is written. Of A64, bit 31 is the stack pointer; what is always zero is never
    /// written.
    pub general: u32,
    /// A bit for each vector of A64, or floating-point register of RISC-V.
    pub float: u32,
    /// The condition flags, or what else PSTATE has beside them.
    pub status: bool,
}

impl Destinations {
    /// None.
    pub const NONE: Self = Self { general: 0, float: 0, status: false };
    /// The status, and nothing else.
    const STATUS: Self = Self { status: true, ..Self::NONE };

    /// Is nothing written?
    pub const fn is_none(self) -> bool {
        self.general == 0 && self.float == 0 && !self.status
    }

    /// What either of both has.
    pub const fn and(self, other: Self) -> Self {
        Self {
            general: self.general | other.general,
            float: self.float | other.float,
            status: self.status || other.status,
        }
    }

    /// One general register.
    const fn one(number: u32) -> Self {
        Self { general: 1 << (number & 31), ..Self::NONE }
    }

    /// So many vectors from this one on; behind the last comes the first.
    const fn vectors(first: u32, count: u32) -> Self {
        let bits = (1_u32 << count) - 1;
        Self { float: bits.rotate_left(first), ..Self::NONE }
    }
}

/// The `width` bits from bit `low` on.
const fn field(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1 << width) - 1)
}

/// Whether bit `place` is set.
const fn flag(word: u32, place: u32) -> bool {
    word >> place & 1 != 0
}
