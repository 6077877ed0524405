//! Events of steps as plain structs: exceptions, contexts, gaps.

use unspool::model::{Context, Event, Exception, ExceptionKind, Gap, Security};

use crate::known::*;

/// Kind of a step.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnspoolEvent {
    /// Contents of registers or memory that no instruction caused.
    State = 0,
    /// An instruction was executed or attempted: member `instruction`.
    Instruction = 1,
    /// An exception was taken: member `exception`.
    Exception = 2,
    /// An exception returned: `exception.target`.
    ExceptionReturn = 3,
    /// Execution continues in this context: member `context`.
    Context = 4,
    /// Part of the execution is missing: member `gap`.
    Gap = 5,
    /// Text in the trace: member `note`.
    Note = 6,
}

impl From<&Event> for UnspoolEvent {
    fn from(event: &Event) -> Self {
        match event {
            Event::State => Self::State,
            Event::Instruction(_) => Self::Instruction,
            Event::Exception(_) => Self::Exception,
            Event::ExceptionReturn { .. } => Self::ExceptionReturn,
            Event::Context(_) => Self::Context,
            Event::Gap(_) => Self::Gap,
            Event::Note => Self::Note,
        }
    }
}

/// Kind of an exception.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnspoolExceptionKind {
    /// Unknown.
    Unknown = 0,
    /// Reset.
    Reset = 1,
    /// Caused by an instruction: a call, a trap, an abort.
    Synchronous = 2,
    /// An interrupt.
    Irq = 3,
    /// A fast interrupt.
    Fiq = 4,
    /// A system error.
    Serror = 5,
    /// Halting debug.
    Debug = 6,
}

impl From<ExceptionKind> for UnspoolExceptionKind {
    fn from(kind: ExceptionKind) -> Self {
        match kind {
            ExceptionKind::Unknown => Self::Unknown,
            ExceptionKind::Reset => Self::Reset,
            ExceptionKind::Synchronous => Self::Synchronous,
            ExceptionKind::Irq => Self::Irq,
            ExceptionKind::Fiq => Self::Fiq,
            ExceptionKind::SError => Self::Serror,
            ExceptionKind::Debug => Self::Debug,
        }
    }
}

/// An exception, or the return from one.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolException {
    /// Address at which the interrupted program resumes, if UNSPOOL_KNOWN_RETURN_ADDRESS.
    pub return_address: u64,
    /// Address at which execution continues, if UNSPOOL_KNOWN_TARGET.
    pub target: u64,
    /// UNSPOOL_KNOWN_ bits of the members that have a value.
    pub known: u32,
    /// Kind.
    pub kind: UnspoolExceptionKind,
    /// Immediate of the instruction that called, if UNSPOOL_KNOWN_CALL.
    pub call: u16,
    /// Class (EC of ESR_ELx), if UNSPOOL_KNOWN_EXCEPTION_CLASS.
    pub exception_class: u8,
    /// Whether an interrupt or system error is virtual, if UNSPOOL_KNOWN_IS_VIRTUAL.
    pub is_virtual: bool,
}

impl From<&Exception> for UnspoolException {
    fn from(exception: &Exception) -> Self {
        let mut known = Known::default();
        Self {
            return_address: known.value(UNSPOOL_KNOWN_RETURN_ADDRESS, exception.return_address),
            target: known.value(UNSPOOL_KNOWN_TARGET, exception.target),
            kind: exception.kind.into(),
            call: known.value(UNSPOOL_KNOWN_CALL, exception.call),
            exception_class: known.value(UNSPOOL_KNOWN_EXCEPTION_CLASS, exception.class),
            is_virtual: known.value(UNSPOOL_KNOWN_IS_VIRTUAL, exception.is_virtual),
            known: known.0,
        }
    }
}

/// Security state.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnspoolSecurity {
    /// Unknown.
    Unknown = 0,
    /// Secure.
    Secure = 1,
    /// Non-secure.
    NonSecure = 2,
    /// Root.
    Root = 3,
    /// Realm.
    Realm = 4,
}

impl From<Option<Security>> for UnspoolSecurity {
    fn from(security: Option<Security>) -> Self {
        match security {
            None => Self::Unknown,
            Some(Security::Secure) => Self::Secure,
            Some(Security::NonSecure) => Self::NonSecure,
            Some(Security::Root) => Self::Root,
            Some(Security::Realm) => Self::Realm,
        }
    }
}

/// State that execution is in.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolContext {
    /// Context identifier or process, if UNSPOOL_KNOWN_PROCESS.
    pub process: u64,
    /// Thread, if UNSPOOL_KNOWN_THREAD.
    pub thread: u64,
    /// Virtual machine, if UNSPOOL_KNOWN_VMID.
    pub vmid: u32,
    /// UNSPOOL_KNOWN_ bits of the members that have a value.
    pub known: u32,
    /// Security state.
    pub security: UnspoolSecurity,
    /// Exception level, or privilege mode of RISC-V, if UNSPOOL_KNOWN_LEVEL.
    pub level: u8,
    /// LEN field of the vector length, if UNSPOOL_KNOWN_MODES: vectors have (LEN + 1) * 128 bits.
    pub vector_length: u8,
    /// Effect of a Tag Check Fault, two bits, if UNSPOOL_KNOWN_MODES.
    pub tag_check_fault: u8,
    /// Whether the core is in AArch64 state, if UNSPOOL_KNOWN_IS_AARCH64.
    pub is_aarch64: bool,
    /// Whether the stack pointer is that of the Exception level, if UNSPOOL_KNOWN_IS_HANDLER.
    pub is_handler: bool,
    /// Streaming SVE mode, if UNSPOOL_KNOWN_MODES.
    pub streaming: bool,
    /// Data-independent timing, if UNSPOOL_KNOWN_MODES.
    pub dit: bool,
    /// Speculative store bypass is permitted, if UNSPOOL_KNOWN_MODES.
    pub ssbs: bool,
}

impl From<&Context> for UnspoolContext {
    fn from(context: &Context) -> Self {
        let mut known = Known::default();
        let modes = known.value(UNSPOOL_KNOWN_MODES, context.modes);
        Self {
            process: known.value(UNSPOOL_KNOWN_PROCESS, context.process),
            thread: known.value(UNSPOOL_KNOWN_THREAD, context.thread),
            vmid: known.value(UNSPOOL_KNOWN_VMID, context.vmid),
            security: context.security.into(),
            level: known.value(UNSPOOL_KNOWN_LEVEL, context.level),
            vector_length: modes.vector_length,
            tag_check_fault: modes.tag_check_fault,
            is_aarch64: known.value(UNSPOOL_KNOWN_IS_AARCH64, context.is_aarch64),
            is_handler: known.value(UNSPOOL_KNOWN_IS_HANDLER, context.is_handler),
            streaming: modes.streaming,
            dit: modes.dit,
            ssbs: modes.ssbs,
            known: known.0,
        }
    }
}

/// Reason why part of the execution is missing.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnspoolGapKind {
    /// Nothing is missing: the step is no gap.
    None = 0,
    /// Tracing starts or restarts.
    Start = 1,
    /// The trace unit overflowed.
    Overflow = 2,
    /// The trace unit discarded what was not committed.
    Discard = 3,
    /// There is no code at an address.
    NoCode = 4,
    /// The trace is damaged here.
    Damaged = 5,
    /// The trace and the code contradict each other.
    Contradiction = 6,
    /// A transaction failed, and its effects are undone.
    TransactionFailed = 7,
}

/// A part of the execution that is missing.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolGap {
    /// The address that has no code, if UNSPOOL_KNOWN_ADDRESS.
    pub address: u64,
    /// UNSPOOL_KNOWN_ bits of the members that have a value.
    pub known: u32,
    /// Reason.
    pub kind: UnspoolGapKind,
}

impl From<Option<Gap>> for UnspoolGap {
    fn from(gap: Option<Gap>) -> Self {
        let (kind, address) = match gap {
            None => (UnspoolGapKind::None, None),
            Some(Gap::Start) => (UnspoolGapKind::Start, None),
            Some(Gap::Overflow) => (UnspoolGapKind::Overflow, None),
            Some(Gap::Discard) => (UnspoolGapKind::Discard, None),
            Some(Gap::NoCode(address)) => (UnspoolGapKind::NoCode, Some(address)),
            Some(Gap::Damaged) => (UnspoolGapKind::Damaged, None),
            Some(Gap::Contradiction) => (UnspoolGapKind::Contradiction, None),
            Some(Gap::TransactionFailed) => (UnspoolGapKind::TransactionFailed, None),
        };
        let mut known = Known::default();
        Self { address: known.value(UNSPOOL_KNOWN_ADDRESS, address), known: known.0, kind }
    }
}
