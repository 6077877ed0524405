//! The control flow of an instruction, as far as its opcode is understood, and the address that it leads to.
//!
//! instruction ─▶ **control flow**, and with its outcome ─▶ address of the next instruction

use unspool_isa::{ControlFlow, Decoded, RiscvExtensions, decode, is_a64_branch_or_system};
use unspool_model::{Instruction, Isa};

/// Control flow of an opcode, and its certainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Known {
    pub(super) decoded: Decoded,
    /// Whether nothing is known: there is no opcode, or the instruction may be new.
    pub(super) is_open: bool,
    /// Whether no extension makes it a branch.
    pub(super) is_sure: bool,
}

const OPEN: Known = Known { decoded: Decoded::FALL_THROUGH, is_open: true, is_sure: false };

impl Known {
    #[inline]
    pub(super) fn of(instruction: &Instruction) -> Self {
        let &Instruction { address, opcode, isa, length, .. } = instruction;
        match (isa, opcode) {
            (_, None) => OPEN,
            (Isa::A64, Some(opcode)) if !is_a64_branch_or_system(opcode) => {
                Self { decoded: Decoded::FALL_THROUGH, is_open: false, is_sure: true }
            }
            (Isa::A64, Some(opcode)) => a64(address, opcode),
            (Isa::A32 | Isa::T32, Some(opcode)) => {
                let decoded = decode(isa, address, opcode);
                // Another length is another instruction.
                if decoded.length == length { certainly(decoded) } else { OPEN }
            }
            (Isa::Rv32 | Isa::Rv64, Some(opcode)) => riscv(isa, address, opcode),
        }
    }

    /// Whether execution continues after it, unless it raises an exception.
    pub(super) fn falls_through(&self) -> bool {
        !self.is_open && !self.decoded.flow.is_branch()
    }

    /// Whether it returns from an exception.
    pub(super) fn returns(&self) -> bool {
        self.decoded.flow == ControlFlow::ExceptionReturn
    }
}

const fn certainly(decoded: Decoded) -> Known {
    Known { decoded, is_open: false, is_sure: false }
}

fn a64(address: u64, opcode: u32) -> Known {
    let decoded = decode(Isa::A64, address, opcode);
    // Calls and system instructions are not branches; new instructions may be.
    let is_system = matches!(opcode >> 24, 0xd4 | 0xd5);
    if decoded.flow == ControlFlow::FallThrough && !is_system { OPEN } else { certainly(decoded) }
}

/// Extensions that give other meanings to opcodes.
pub(super) const OTHER_MEANINGS: RiscvExtensions = RiscvExtensions { zcmp: true, zcmt: true };

fn riscv(isa: Isa, address: u64, opcode: u32) -> Known {
    if OTHER_MEANINGS.claims(opcode) {
        return OPEN;
    }
    let decoded = decode(isa, address, opcode);
    match decoded.flow {
        // Instructions of a vendor may branch.
        ControlFlow::Unknown => OPEN,
        flow => Known { is_sure: flow == ControlFlow::FallThrough, ..certainly(decoded) },
    }
}

/// Address of the next instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Next {
    /// Unknown.
    #[default]
    Any,
    /// At this address.
    At(u64),
    /// At one of two addresses.
    Either(u64, u64),
}

impl Next {
    /// The address after an instruction that raised no exception.
    #[inline]
    pub(super) fn after(instruction: &Instruction, known: &Known) -> Self {
        let next = instruction.address.wrapping_add(u64::from(instruction.length));
        match (instruction.branch, known.decoded.target_address()) {
            (None, _) if instruction.is_executed == Some(false) || known.falls_through() => Self::At(next),
            (None, None) => Self::Any,
            (None, Some(target)) if known.decoded.conditional => Self::Either(target, next),
            (None, Some(target)) => Self::At(target),
            (Some(branch), _) if !branch.taken => Self::At(next),
            (Some(branch), target) => match (branch.target, target) {
                // If they differ, that is another finding.
                (Some(reported), Some(target)) => Self::Either(reported, target),
                (Some(there), None) | (None, Some(there)) => Self::At(there),
                (None, None) => Self::Any,
            },
        }
    }

    /// Whether the next instruction may be at `address`.
    #[inline]
    pub(super) fn allows(self, isa: Isa, address: u64) -> bool {
        match self {
            Self::Any => true,
            Self::At(there) => is_same(isa, there, address),
            Self::Either(there, or) => is_same(isa, there, address) || is_same(isa, or, address),
        }
    }
}

/// Whether both are the same address: without tags of A64, and however 32-bit addresses are extended.
#[inline]
pub(super) fn is_same(isa: Isa, a: u64, b: u64) -> bool {
    let mask = match isa {
        Isa::A64 => u64::MAX >> 8,
        Isa::Rv64 => u64::MAX,
        // The lowest bit of a target may encode T32.
        Isa::A32 | Isa::T32 => 0xffff_fffe,
        Isa::Rv32 => 0xffff_ffff,
    };
    (a ^ b) & mask == 0
}
