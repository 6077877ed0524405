//! The words that a trace is built from: state, instructions with their effects, and what redirects execution.

use super::super::access::Access;

/// The state that instructions are executed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// The Exception level, 0 to 3.
    pub el: u8,
    /// Secure state.
    pub secure: bool,
    /// The stack pointer is that of the Exception level.
    pub handler: bool,
    /// The vector length field (ZCR_ELx.LEN or SMCR_ELx.LEN); zero without SVE and SME.
    pub evl: u8,
    /// Streaming SVE mode.
    pub streaming: bool,
    /// Data-independent timing.
    pub dit: bool,
    /// Speculative stores may be bypassed.
    pub ssbs: bool,
    /// What a Tag Check Fault does, two bits.
    pub tag_check_fault: u8,
    /// Which process is executed, if that is known.
    pub process: Option<Process>,
    /// A mode that the format does not support, such as AArch32.
    pub unsupported: bool,
}

/// Which process is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    /// The process.
    pub pid: u64,
    /// The thread, if that is known.
    pub tid: Option<u64>,
}

/// An instruction that was executed, or was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// Where it is.
    pub pc: u64,
    /// Its opcode.
    pub opcode: u32,
    /// What it did.
    pub effect: Effect<'a>,
    /// The index into ZA, of an instruction that computes one.
    pub sme_index: Option<u8>,
    /// The exception that it raised.
    pub exception: Option<Exception>,
}

impl Step<'_> {
    /// An instruction that does nothing of what trace records.
    pub fn plain(pc: u64, opcode: u32) -> Self {
        Self { pc, opcode, effect: Effect::None, sme_index: None, exception: None }
    }
}

/// What an instruction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Nothing of what trace records.
    None,
    /// It is a branch, and went to this address.
    Taken(u64),
    /// It is a branch, and went on behind itself, or raised an exception.
    NotTaken,
    /// It returned from an exception, to this address.
    ExceptionReturn(u64),
    /// It accessed memory, or tried. Accesses of any size; an operation on an address, such as a prefetch, has one byte.
    Accesses(&'a [Access]),
}

/// An exception that an instruction raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exception {
    /// The exception class, six bits.
    pub class: u8,
    /// The call, of an instruction that makes one.
    pub call: Option<Call>,
    /// Where execution goes on. A Basic trace does not tell it.
    pub target: u64,
}

/// A call to a higher Exception level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which instruction made it.
    pub kind: CallKind,
    /// Which call.
    pub index: u16,
}

/// An instruction that makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// To the supervisor.
    Svc = 1,
    /// To the hypervisor.
    Hvc = 2,
    /// To the secure monitor.
    Smc = 3,
}

/// What redirects execution without an instruction that is the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirection {
    /// A synchronous exception of this class, such as an instruction that could not be fetched.
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
