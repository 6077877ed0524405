//! The instruction sets, and how long their instructions are.

/// An instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Isa {
    /// The instructions of AArch64.
    #[default]
    A64,
    /// The 32-bit instructions of AArch32.
    A32,
    /// The 16-bit and 32-bit instructions of AArch32 (Thumb).
    T32,
    /// RISC-V with 32-bit registers.
    Rv32,
    /// RISC-V with 64-bit registers.
    Rv64,
}

impl Isa {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::A64, Self::A32, Self::T32, Self::Rv32, Self::Rv64];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A64 => "a64",
            Self::A32 => "a32",
            Self::T32 => "t32",
            Self::Rv32 => "rv32",
            Self::Rv64 => "rv64",
        }
    }

    /// Whether it is RISC-V.
    #[inline]
    pub const fn is_riscv(self) -> bool {
        matches!(self, Self::Rv32 | Self::Rv64)
    }

    /// Whether it is an instruction set of AArch32.
    #[inline]
    pub const fn is_aarch32(self) -> bool {
        matches!(self, Self::A32 | Self::T32)
    }

    /// Length in bytes of the shortest instructions, which is also their alignment.
    #[inline]
    pub const fn alignment(self) -> u64 {
        match self {
            Self::A64 | Self::A32 => 4,
            Self::T32 | Self::Rv32 | Self::Rv64 => 2,
        }
    }

    /// The address bits that exist: all 64, or the low 32.
    #[inline]
    pub const fn address_mask(self) -> u64 {
        match self {
            Self::A64 | Self::Rv64 => u64::MAX,
            Self::A32 | Self::T32 | Self::Rv32 => 0xffff_ffff,
        }
    }

    /// Length in bytes of the instruction that starts with this halfword. RISC-V encodings longer than 4 bytes count
    /// as 4: none of them is in use.
    #[inline]
    pub const fn length(self, first: u16) -> u8 {
        match self {
            Self::A64 | Self::A32 => 4,
            Self::T32 if first >> 11 >= 0b11101 => 4,
            Self::Rv32 | Self::Rv64 if first & 0b11 == 0b11 => 4,
            Self::T32 | Self::Rv32 | Self::Rv64 => 2,
        }
    }

    /// Length in bytes of an opcode in the form that [`decode`](crate::decode()) takes.
    #[inline]
    pub const fn opcode_length(self, opcode: u32) -> u8 {
        match self {
            Self::A64 | Self::A32 => 4,
            // The first halfword of a longer T32 instruction is in the high half, and never zero.
            Self::T32 if opcode < 0x1_0000 => 2,
            Self::T32 => 4,
            Self::Rv32 | Self::Rv64 => self.length(opcode as u16),
        }
    }
}
