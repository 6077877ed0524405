//! Facts about opcodes that lowering needs, in a cache.

use unspool_isa::{Access, ControlFlow, Isa, OpcodeCache, Operation, access, decode};
use unspool_model::Modes;

use super::super::builder::CallKind;

/// Facts about an opcode.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpcodeInfo {
    pub(super) access: Access,
    pub(super) flow: ControlFlow,
    /// A direct branch that need not be taken.
    pub(super) conditional: bool,
    /// Offset from a direct branch to its target.
    offset: u64,
    /// Whether it may set something that a context records.
    pub(super) sets: bool,
    /// Its address follows from registers, if no access is reported.
    pub(super) has_address: bool,
}

impl OpcodeInfo {
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

    /// Target from this address, if the opcode encodes it.
    pub(super) fn target(&self, address: u64) -> Option<u64> {
        (self.flow == ControlFlow::Direct).then(|| address.wrapping_add(self.offset))
    }

    /// The call that it makes.
    pub(super) fn call(&self) -> Option<CallKind> {
        Some(match self.flow {
            ControlFlow::SupervisorCall => CallKind::Svc,
            ControlFlow::HypervisorCall => CallKind::Hvc,
            ControlFlow::SecureMonitorCall => CallKind::Smc,
            _ => return None,
        })
    }

    /// Class of the exception that it raises, if it can do nothing else.
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

/// Applies an MSR of an immediate, SMSTART or SMSTOP to the stack pointer selection and the modes.
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
/// Whether the address of such an operation follows from registers.
pub(super) fn has_address(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Prefetch
            | Operation::CacheMaintenance
            | Operation::AddressTranslation
            | Operation::TlbInvalidate
            | Operation::TlbInvalidateRange
            | Operation::Set { .. }
            | Operation::Copy { .. }
    )
}

/// Whether it is a range prefetch, which has a register for the size.
pub(super) fn is_range_prefetch(opcode: u32) -> bool {
    opcode & 0xffe0_0c18 == 0xf8a0_0818
}

/// Cache of recent opcodes.
#[derive(Debug)]
pub(super) struct OpcodeInfos(OpcodeCache<u32, OpcodeInfo>);

impl OpcodeInfos {
    /// Large enough for the loops of most programs.
    pub(super) fn new() -> Self {
        Self(OpcodeCache::new(10))
    }

    #[inline]
    pub(super) fn of(&mut self, opcode: u32) -> &OpcodeInfo {
        self.0.get_or_insert_with(opcode, || OpcodeInfo::new(opcode))
    }
}
