//! Opcodes: what lowering has to know of them, in a cache.

use unspool_isa::{Access, ControlFlow, Isa, OpcodeCache, access, decode};
use unspool_model::Modes;

use super::super::builder::CallKind;
use super::operand::has_address;

/// What is known of an opcode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    /// What it does with memory.
    pub(super) access: Access,
    /// What it does to control flow.
    pub(super) flow: ControlFlow,
    /// A direct branch that need not be taken.
    pub(super) conditional: bool,
    /// From a direct branch to its target.
    offset: u64,
    /// It may set what a context has.
    pub(super) sets: bool,
    /// It has an address that follows from registers, if no access is told.
    pub(super) has_address: bool,
}

impl Word {
    pub(super) fn new(opcode: u32) -> Self {
        let decoded = decode(Isa::A64, 0, opcode);
        let access = access(Isa::A64, opcode);
        Self {
            access,
            flow: decoded.flow,
            conditional: decoded.conditional,
            offset: decoded.target_address().unwrap_or(0),
            sets: opcode >> 20 == 0xd50 && opcode & 0xf01f == 0x401f,
            has_address: has_address(access.operation),
        }
    }

    /// Where it goes from here, if the opcode says so.
    pub(super) fn target(&self, address: u64) -> Option<u64> {
        (self.flow == ControlFlow::Direct).then(|| address.wrapping_add(self.offset))
    }

    /// Which call it makes, if it makes one.
    pub(super) fn call(&self) -> Option<CallKind> {
        Some(match self.flow {
            ControlFlow::SupervisorCall => CallKind::Svc,
            ControlFlow::HypervisorCall => CallKind::Hvc,
            ControlFlow::SecureMonitorCall => CallKind::Smc,
            _ => return None,
        })
    }

    /// The class of the exception that it raises, if it can do nothing else.
    pub(super) fn class(&self) -> Option<u8> {
        Some(match self.flow {
            ControlFlow::SupervisorCall => 0x15,
            ControlFlow::HypervisorCall => 0x16,
            ControlFlow::SecureMonitorCall => 0x17,
            ControlFlow::Breakpoint => 0x3c,
            ControlFlow::Undefined => 0,
            _ => return None,
        })
    }
}

/// Sets what an MSR of an immediate, SMSTART or SMSTOP sets: the stack pointer, and modes.
pub(super) fn set(opcode: u32, handler: &mut Option<bool>, modes: &mut Modes) {
    let immediate = opcode >> 8 & 0b1111;
    let value = immediate & 1 != 0;
    match (opcode & 0xffff_f0ff, immediate >> 1) {
        (0xd500_40bf, _) => *handler = Some(value),
        (0xd503_405f, _) => modes.dit = value,
        (0xd503_403f, _) => modes.ssbs = value,
        (0xd503_407f, 0b001 | 0b011) => modes.streaming = value,
        _ => {}
    }
}

/// A prefetch of a range, which has a register for the size.
pub(super) fn is_range_prefetch(opcode: u32) -> bool {
    opcode & 0xffe0_0c18 == 0xf8a0_0818
}

/// The opcodes seen lately.
#[derive(Debug)]
pub(super) struct Words(OpcodeCache<u32, Word>);

impl Words {
    /// Enough for the loops of most programs.
    pub(super) fn new() -> Self {
        Self(OpcodeCache::new(10))
    }

    #[inline]
    pub(super) fn of(&mut self, opcode: u32) -> &Word {
        self.0.get_or_insert_with(opcode, || Word::new(opcode))
    }
}
