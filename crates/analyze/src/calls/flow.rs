//! Control flow of the previous instruction, as far as calls need it.

use unspool_isa::{Decoded, decode};

use super::{Instruction, Opcode, Site};

/// The instruction before the present one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) site: Site,
    pub(super) next: u64,
    pub(super) stack: u32,
    lr: Option<u64>,
    code: Option<Opcode>,
    is_executed: bool,
}

impl Before {
    pub(super) fn new(instruction: &Instruction) -> Self {
        let Instruction { site, next, stack, lr, code, is_executed, .. } = *instruction;
        Self { site, next, stack, lr, code, is_executed }
    }

    /// Its control flow, as far as its opcode is known. Asked only where execution did not continue after it.
    pub(super) fn decoded(&self) -> Option<Decoded> {
        let code = self.code?;
        Some(if self.is_executed { decode(code.isa, self.site.pc, code.opcode) } else { Decoded::FALL_THROUGH })
    }

    /// The target that the opcode encodes.
    pub(super) fn target(&self) -> Option<u64> {
        let code = self.code?;
        decode(code.isa, self.site.pc, code.opcode).target_address()
    }

    /// The link register holds one of the values that mean "return from the exception" on M-profile.
    pub(super) fn has_exception_return(&self) -> bool {
        self.lr.is_some_and(|lr| (0xffff_ff00..=0xffff_ffff).contains(&lr))
    }
}
