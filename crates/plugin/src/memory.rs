//! Instructions that may access memory, and so may fail before they are complete.
//!
//! False positives are allowed: they cost a callback.

use unspool_isa::Isa;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// AArch64.
    A64,
    /// AArch32.
    Arm,
    /// RISC-V: RV32 or RV64.
    Riscv(Isa),
    /// Any other.
    Other,
}

impl Target {
    /// The target with this name in the emulator.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "aarch64" => Self::A64,
            "arm" => Self::Arm,
            "riscv64" => Self::Riscv(Isa::Rv64),
            "riscv32" => Self::Riscv(Isa::Rv32),
            _ => Self::Other,
        }
    }

    /// Whether an instruction makes exactly one access: then it is complete when that is reported. False negatives are
    /// allowed.
    pub(crate) fn accesses_once(self, bytes: &[u8]) -> bool {
        let &[a, b, c, d] = bytes else { return false };
        let opcode = u32::from_le_bytes([a, b, c, d]);
        // One general register, by an offset that is a number or in a register.
        let is_single = opcode & 0x3f00_0000 == 0x3900_0000
            || opcode & 0x3f20_0000 == 0x3800_0000
            || opcode & 0x3f20_0c00 == 0x3820_0800;
        let is_prefetch = opcode & 0xc0c0_0000 == 0xc080_0000;
        self == Self::A64 && is_single && !is_prefetch
    }

    /// Whether an instruction may access memory.
    pub(crate) fn may_access(self, bytes: &[u8]) -> bool {
        match (self, bytes) {
            (Self::A64, &[_, _, third, fourth]) => {
                // Loads and stores, SVE and SME, and SYS: DC ZVA.
                let group = fourth >> 1 & 0xf;
                group & 0b0101 == 0b0100 || group & 0b1101 == 0 || (fourth == 0xd5 && third & 0xf8 == 0x08)
            }
            (Self::Riscv(_), &[low, _, _, _]) => {
                // LOAD, LOAD-FP, STORE, STORE-FP, AMO, custom and system instructions.
                !matches!(low >> 2 & 0x1f, 0x04 | 0x05 | 0x06 | 0x0c | 0x0d | 0x0e | 0x10..=0x14 | 0x18 | 0x19 | 0x1b)
            }
            // Quadrant 1 has arithmetic and jumps.
            (Self::Riscv(_), &[low, _]) => low & 3 != 1,
            _ => true,
        }
    }
}
