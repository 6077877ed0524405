//! Control flow of the previous instruction, as far as calls need it.

use unspool_isa::{ControlFlow, Decoded, decode};

use super::blocks::KnownBlock;
use super::{Instruction, Opcode, Site};

/// The instruction before the present one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) site: Site,
    pub(super) next: u64,
    pub(super) stack: u32,
    pub(super) lr: Option<u64>,
    pub(super) code: Option<Opcode>,
    pub(super) is_executed: bool,
    /// Where it branched to, if the trace has it.
    pub(super) target: Option<u64>,
    /// The trace reports that it returned from an exception.
    pub(super) is_exception_return: bool,
}

/// How control leaves an instruction, as far as calls need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Unknown: its opcode is.
    Unknown,
    /// Not by a branch.
    Other,
    /// By a branch without link to a fixed address.
    Direct,
    /// By a branch with link.
    Call,
    /// By a branch to an address in a register or in memory, without link.
    Indirect,
    /// By a return.
    Return,
    /// By an exception return.
    ExceptionReturn,
}

impl Exit {
    pub(super) fn of(decoded: &Decoded) -> Self {
        match decoded.flow {
            ControlFlow::ExceptionReturn => Self::ExceptionReturn,
            ControlFlow::Direct | ControlFlow::Indirect if decoded.link => Self::Call,
            ControlFlow::Direct => Self::Direct,
            ControlFlow::Indirect if decoded.ret => Self::Return,
            ControlFlow::Indirect => Self::Indirect,
            _ => Self::Other,
        }
    }
}

impl Before {
    #[inline]
    pub(super) fn new(instruction: &Instruction) -> Self {
        let Instruction { site, next, stack, lr, code, is_executed, target, .. } = *instruction;
        Self { site, next, stack, lr, code, is_executed, target, is_exception_return: false }
    }

    /// The last instruction of a block.
    #[inline]
    pub(super) fn at_end(block: &KnownBlock, site: Site) -> Self {
        Self {
            site,
            next: block.end,
            stack: 0,
            lr: None,
            code: Some(block.code),
            is_executed: true,
            target: None,
            is_exception_return: false,
        }
    }

    /// How control left it. Asked only where execution did not continue after it.
    pub(super) fn exit(&self) -> Exit {
        match self.code {
            _ if self.is_exception_return => Exit::ExceptionReturn,
            None => Exit::Unknown,
            Some(_) if !self.is_executed => Exit::Other,
            Some(Opcode { isa, opcode }) => Exit::of(&decode(isa, self.site.pc, opcode)),
        }
    }

    /// Whether it branches to this address, by the trace or by its opcode.
    pub(super) fn branches_to(&self, address: u64) -> bool {
        let encoded = || self.code.and_then(|code| decode(code.isa, self.site.pc, code.opcode).target_address());
        self.target == Some(address) || self.target.is_none() && encoded() == Some(address)
    }

    /// Whether the program that was interrupted after it may resume at this address: after it, where it leads to, or with it
    /// once more.
    pub(super) fn resumes_at(&self, address: u64) -> bool {
        self.next == address || self.site.pc == address || self.branches_to(address)
    }

    /// The link register holds one of the values that mean "return from the exception" on M-profile.
    pub(super) fn has_exception_return(&self) -> bool {
        self.lr.is_some_and(|lr| (0xffff_ff00..=0xffff_ffff).contains(&lr))
    }
}
