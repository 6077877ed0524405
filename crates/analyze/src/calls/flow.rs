//! What an instruction may do to the flow of control, as far as calls go.

use unspool_isa::{Kind, facts};

use super::{Code, Instruction, Site};

/// How an instruction can go elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Not at all.
    Straight,
    /// To where the opcode says.
    Direct,
    /// To where a register or the memory says.
    Indirect,
    /// The same, with a return address in the link register.
    Call,
    /// To where a function was called from.
    Return,
    /// To where an exception was taken.
    ExceptionReturn,
    /// Nobody knows.
    Unknown,
}

/// The instruction before the present one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) site: Site,
    pub(super) next: u64,
    pub(super) stack: u32,
    lr: Option<u64>,
    code: Option<Code>,
    is_executed: bool,
}

impl Before {
    pub(super) fn new(instruction: &Instruction) -> Self {
        let Instruction { site, next, stack, lr, code, is_executed, .. } = *instruction;
        Self { site, next, stack, lr, code, is_executed }
    }

    /// How it can go elsewhere. Asked only where it did.
    pub(super) fn flow(&self) -> Flow {
        let Some(code) = self.code else { return Flow::Unknown };
        if !self.is_executed {
            return Flow::Straight;
        }
        let facts = facts(code.isa, self.site.pc, code.opcode);
        match facts.kind {
            _ if facts.eret => Flow::ExceptionReturn,
            Kind::Direct | Kind::Indirect if facts.link => Flow::Call,
            _ if facts.ret => Flow::Return,
            Kind::Direct => Flow::Direct,
            Kind::Indirect => Flow::Indirect,
            _ => Flow::Straight,
        }
    }

    /// Where it goes, if the opcode says so.
    pub(super) fn target(&self) -> Option<u64> {
        let code = self.code?;
        facts(code.isa, self.site.pc, code.opcode).target.map(|target| target.address)
    }

    /// The link register holds one of the values that mean "return from the exception" on M-profile.
    pub(super) fn has_exception_return(&self) -> bool {
        self.lr.is_some_and(|lr| (0xffff_ff00..=0xffff_ffff).contains(&lr))
    }
}
