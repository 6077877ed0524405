//! Control flow: the effect of an instruction on it, and the target of a direct branch.
//!
//! Holds no instruction encodings; the decoders of the instruction sets use these types.

use crate::Isa;

/// Effect of an instruction on control flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ControlFlow {
    /// Execution continues after the instruction.
    #[default]
    FallThrough,
    /// Not a known RISC-V instruction: its control flow is unknown. Unallocated encodings of Arm fall through.
    Unknown,
    /// A branch whose target is encoded in the opcode.
    Direct,
    /// A branch whose target is in a register or in memory.
    Indirect,
    /// A return from an exception or a trap: ERET, RFE, MRET and their kin.
    ExceptionReturn,
    /// Calls the supervisor or the execution environment: SVC, ECALL.
    SupervisorCall,
    /// Calls the hypervisor: HVC of A64.
    HypervisorCall,
    /// Calls the secure monitor: SMC of A64.
    SecureMonitorCall,
    /// A breakpoint: BRK of A64, EBREAK.
    Breakpoint,
    /// Enters Debug state where a debugger enabled that: HLT of A64.
    Halt,
    /// Changes the Exception level in Debug state: DCPS1, DCPS2, DCPS3 of A64.
    DebugChangeState,
    /// Permanently undefined: UDF of A64.
    Undefined,
    /// An instruction synchronization barrier.
    Isb,
    /// A data barrier: DMB and DSB of A32 and T32, which are P0 instructions on some trace units. Those of A64 fall through.
    DataBarrier,
    /// Enters ThumbEE state: ENTERX of T32. A P0 instruction on some trace units.
    EnterThumbEe,
    /// Leaves ThumbEE state, and does nothing outside of it: LEAVEX of T32. A P0 instruction on some trace units.
    LeaveThumbEe,
    /// Waits for an interrupt or event: WFI, WFE, WFIT, WFET of Arm. A P0 instruction on some trace units.
    Wfx,
    /// Starts a transaction: TSTART of A64, a P0 instruction. Only PEs with FEAT_TME have it.
    TransactionStart,
}

impl ControlFlow {
    /// Whether it is a branch, exception returns included.
    #[inline]
    pub const fn is_branch(self) -> bool {
        matches!(self, Self::Direct | Self::Indirect | Self::ExceptionReturn)
    }

    /// Whether its target is not in the opcode: an indirect branch or an exception return.
    #[inline]
    pub const fn is_indirect(self) -> bool {
        matches!(self, Self::Indirect | Self::ExceptionReturn)
    }

    /// Whether it changes between T32 and ThumbEE state: ENTERX and LEAVEX.
    #[inline]
    pub const fn is_thumb_ee(self) -> bool {
        matches!(self, Self::EnterThumbEe | Self::LeaveThumbEe)
    }

    /// Whether it calls a higher Exception level or the execution environment. Function calls are [`Decoded::link`].
    #[inline]
    pub const fn is_system_call(self) -> bool {
        matches!(self, Self::SupervisorCall | Self::HypervisorCall | Self::SecureMonitorCall)
    }

    /// Whether it only generates an exception or a debug event: system calls, BRK, HLT, DCPS, UDF. Of A32 and T32, only
    /// SVC is decoded as such; the others fall through.
    #[inline]
    pub const fn is_exception(self) -> bool {
        self.is_system_call()
            || matches!(self, Self::Breakpoint | Self::Halt | Self::DebugChangeState | Self::Undefined)
    }

    /// Whether a trace unit may have an element for it (P0 instruction), depending on its configuration. Loads and stores,
    /// which ETMv4 can trace as P0 instructions (TRCCONFIGR.INSTP0), are not included, nor are data barriers, which PTM
    /// can trace.
    #[inline]
    pub const fn is_p0(self) -> bool {
        self.is_branch() || matches!(self, Self::Isb | Self::Wfx | Self::TransactionStart)
    }
}

/// Target of a direct branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// The address.
    pub address: u64,
    /// The instruction set there.
    pub isa: Isa,
}

/// The control flow of an instruction, as its opcode encodes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decoded {
    /// Effect on control flow.
    pub flow: ControlFlow,
    /// Its length in bytes.
    pub length: u8,
    /// Its condition can fail, and then it has no effect. Conditions of an IT block are not included.
    pub conditional: bool,
    /// Writes a return address into a link register: a function call.
    pub link: bool,
    /// Returns from a function.
    pub ret: bool,
    /// Number of following instructions that an IT instruction makes conditional.
    pub it: u8,
    /// Target of a direct branch; `None` for all others.
    pub target: Option<Target>,
}

impl Decoded {
    /// Execution continues after the instruction.
    pub const FALL_THROUGH: Self = Self {
        flow: ControlFlow::FallThrough,
        length: 4,
        conditional: false,
        link: false,
        ret: false,
        it: 0,
        target: None,
    };
    /// A branch to an address in a register or in memory.
    pub const INDIRECT: Self = Self::of(ControlFlow::Indirect);
    pub(crate) const INDIRECT_CALL: Self = Self { link: true, ..Self::INDIRECT };
    pub(crate) const RETURN: Self = Self { ret: true, ..Self::INDIRECT };
    pub(crate) const EXCEPTION_RETURN: Self = Self::of(ControlFlow::ExceptionReturn);
    pub(crate) const ISB: Self = Self::of(ControlFlow::Isb);
    pub(crate) const DATA_BARRIER: Self = Self::of(ControlFlow::DataBarrier);
    pub(crate) const ENTER_THUMB_EE: Self = Self::of(ControlFlow::EnterThumbEe);
    pub(crate) const LEAVE_THUMB_EE: Self = Self::of(ControlFlow::LeaveThumbEe);
    pub(crate) const WFX: Self = Self::of(ControlFlow::Wfx);

    /// This control flow, four bytes long and without further properties.
    pub(crate) const fn of(flow: ControlFlow) -> Self {
        Self { flow, ..Self::FALL_THROUGH }
    }

    /// A branch to `address`, in the instruction set `isa`.
    pub const fn direct(isa: Isa, address: u64) -> Self {
        Self { target: Some(Target { address, isa }), ..Self::of(ControlFlow::Direct) }
    }

    /// The same with a condition that can fail.
    pub const fn conditionally(self) -> Self {
        Self { conditional: true, ..self }
    }

    /// The address that a direct branch leads to.
    #[inline]
    pub const fn target_address(&self) -> Option<u64> {
        match self.target {
            Some(target) => Some(target.address),
            None => None,
        }
    }
}

impl Default for Decoded {
    fn default() -> Self {
        Self::FALL_THROUGH
    }
}

/// One row of a decoding table: opcodes that have these `bits` under this `mask`.
pub(crate) struct Row {
    mask: u32,
    bits: u32,
    decoded: Decoded,
}

pub(crate) const fn row(mask: u32, bits: u32, decoded: Decoded) -> Row {
    Row { mask, bits, decoded }
}

/// The first row that matches the opcode, or fall-through.
#[inline]
pub(crate) fn lookup(table: &[Row], opcode: u32) -> Decoded {
    table.iter().find(|row| opcode & row.mask == row.bits).map_or(Decoded::FALL_THROUGH, |row| row.decoded)
}
