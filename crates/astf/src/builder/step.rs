//! Input of the builder: state, instructions with their effects, and redirections.

use super::super::access::Access;

/// The state that instructions are executed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// The Exception level, 0 to 3.
    pub el: u8,
    /// Secure state.
    pub secure: bool,
    /// The stack pointer of the Exception level is selected.
    pub handler: bool,
    /// The vector length field (ZCR_ELx.LEN or SMCR_ELx.LEN); zero without SVE and SME.
    pub evl: u8,
    /// Streaming SVE mode.
    pub streaming: bool,
    /// Data-independent timing.
    pub dit: bool,
    /// Speculative stores may be bypassed.
    pub ssbs: bool,
    /// Action on a Tag Check Fault, two bits.
    pub tag_check_fault: u8,
    /// The process, if it is known.
    pub process: Option<Process>,
    /// A mode that the format does not support, such as AArch32.
    pub unsupported: bool,
}

/// A process, and its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    /// The process.
    pub pid: u64,
    /// The thread, if it is known.
    pub tid: Option<u64>,
}

/// An instruction that was executed or attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// Its address.
    pub pc: u64,
    /// Its opcode.
    pub opcode: u32,
    /// Its effect.
    pub effect: Effect<'a>,
    /// The index into ZA, if it computes one.
    pub sme_index: Option<u8>,
    /// The exception that it raised.
    pub exception: Option<Exception>,
}

impl Step<'_> {
    /// An instruction without recorded effects.
    pub fn plain(pc: u64, opcode: u32) -> Self {
        Self { pc, opcode, effect: Effect::None, sme_index: None, exception: None }
    }
}

/// Effect of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Nothing that a trace records.
    None,
    /// A branch, taken to this address.
    Taken(u64),
    /// A branch, not taken, or raising an exception.
    NotTaken,
    /// A return from an exception, to this address.
    ExceptionReturn(u64),
    /// Memory accesses, completed or attempted, of any size; an operation on an address, such as a prefetch, has one
    /// byte.
    Accesses(&'a [Access]),
}

/// An exception that an instruction raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exception {
    /// The exception class, six bits.
    pub class: u8,
    /// The call, if the instruction makes one.
    pub call: Option<Call>,
    /// Address where execution continues. A Basic trace does not record it.
    pub target: u64,
}

/// A call to a higher Exception level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The instruction that made it.
    pub kind: CallKind,
    /// Number of the call.
    pub index: u16,
}

/// Instruction that makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// To the supervisor.
    Svc = 1,
    /// To the hypervisor.
    Hvc = 2,
    /// To the secure monitor.
    Smc = 3,
}

/// Redirection of execution, not by an instruction of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirection {
    /// A synchronous exception of this class, such as an instruction abort.
    Synchronous(u8),
    /// A call by an instruction that the trace cannot have, such as one of AArch32.
    Call {
        /// The exception class.
        class: u8,
        /// The call.
        call: Call,
    },
    /// A system error of this class.
    SError {
        /// The exception class.
        class: u8,
        /// It is virtual.
        is_virtual: bool,
    },
    /// An interrupt.
    Irq {
        /// It is virtual.
        is_virtual: bool,
    },
    /// A fast interrupt.
    Fiq {
        /// It is virtual.
        is_virtual: bool,
    },
    /// The return from an exception, out of a mode that the format does not support.
    ExceptionReturn,
    /// The PE was reset.
    Reset,
}
