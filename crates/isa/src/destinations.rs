//! The set of registers that an instruction writes: general registers, vector or floating-point registers, the status.
//!
//! Holds no instruction encodings; the decoders of A64 and RISC-V use it.

/// The registers that an instruction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Destinations {
    /// One bit per general register. Bit 31 is the stack pointer in A64; zero registers are never set.
    pub general: u32,
    /// One bit per vector register of A64, or floating-point register of RISC-V.
    pub float: u32,
    /// The condition flags or other fields of PSTATE.
    pub status: bool,
}

impl Destinations {
    /// None.
    pub const NONE: Self = Self { general: 0, float: 0, status: false };
    pub(crate) const STATUS: Self = Self { status: true, ..Self::NONE };

    /// Whether nothing is written.
    pub const fn is_none(self) -> bool {
        self.general == 0 && self.float == 0 && !self.status
    }

    /// The union of both.
    pub const fn and(self, other: Self) -> Self {
        Self {
            general: self.general | other.general,
            float: self.float | other.float,
            status: self.status || other.status,
        }
    }

    /// One general register.
    pub(crate) const fn one(number: u32) -> Self {
        Self { general: 1 << (number & 31), ..Self::NONE }
    }

    /// `count` vector registers from `first` on, wrapping from the last to the first.
    pub(crate) const fn vectors(first: u32, count: u32) -> Self {
        let bits = (1_u32 << count) - 1;
        Self { float: bits.rotate_left(first), ..Self::NONE }
    }
}
