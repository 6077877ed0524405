//! Traps: what has to follow an instruction, and whether the Trap that follows is right.

use unspool_isa::{ControlFlow, Operation};

use super::super::access::{Access, Extent};
use super::super::record::{InstructionView, Level, Trap, TrapView, trap_type};
use super::chain::Chain;
use super::opcode::{Opcode, is_sanitized};
use super::report::Report;
use super::rules::RuleId;

/// The last instruction.
#[derive(Debug, Clone, Default)]
pub(super) struct Last {
    /// Number of its record; 0 before the first.
    pub(super) record: u64,
    pub(super) word: u32,
    address: u64,
    /// It raised an exception.
    pub(super) is_trapped: bool,
    has_address: bool,
}

impl Last {
    #[inline]
    pub(super) fn new(view: InstructionView<'_>, record: u64) -> Self {
        let has_address = view.ea_valid() && !view.is_branch();
        Self { record, word: view.iword(), address: view.pc(), is_trapped: view.trap(), has_address }
    }
}

/// Record that has to come before the next Instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Due {
    #[default]
    Nothing,
    /// The Trap of an instruction that raised an exception.
    Trap,
    /// The Trap of an exception return.
    Return,
    /// The Context after a system call that is not traced.
    Context,
}

impl Due {
    /// Record that has to follow the instruction.
    #[inline]
    pub(super) fn after(level: Option<Level>, is_trapped: bool, opcode: &Opcode) -> Self {
        let is_call = opcode.flow == ControlFlow::SupervisorCall;
        match level {
            Some(Level::BasicPlus) if is_trapped => Self::Trap,
            Some(Level::BasicPlus) if opcode.flow == ControlFlow::ExceptionReturn => Self::Return,
            Some(Level::Basic) if is_trapped && is_call => Self::Context,
            _ => Self::Nothing,
        }
    }

    pub(super) fn is_trap(self) -> bool {
        matches!(self, Self::Trap | Self::Return)
    }

    /// Reports that it is missing.
    pub(super) fn report_missing(self, last: &Last, out: &mut Report<'_>) {
        let (record, word) = (last.record, last.word);
        match self {
            Self::Nothing => {}
            Self::Trap => out.add_at(record, RuleId::TrapFlagNeedsTrap, format_args!("{word:#010x} has no Trap")),
            Self::Return => out.add_at(record, RuleId::ExceptionReturn, format_args!("{word:#010x} has no Trap")),
            Self::Context => {
                out.add(RuleId::BasicSvcContext, format_args!("no Context after the SVC of record {record}"));
            }
        }
    }
}

/// Records before a Trap.
pub(super) struct Before<'a> {
    pub(super) due: Due,
    pub(super) last: &'a Last,
    /// The opcode of the last instruction.
    pub(super) opcode: &'a Opcode,
    /// The last Context is in an unsupported mode, which the Trap may leave.
    pub(super) is_leaving: bool,
}

impl Before<'_> {
    /// Control flow of the instruction that trapped, if one did.
    fn flow(&self) -> Option<ControlFlow> {
        (self.due == Due::Trap).then_some(self.opcode.flow)
    }
}

/// Exception classes.
mod class {
    /// SVC of AArch32 has this, HVC and SMC the next ones.
    pub(super) const SUPERVISOR_CALL_32: u8 = 0x11;
    pub(super) const SECURE_MONITOR_CALL_32: u8 = 0x13;
    /// SVC has this, HVC and SMC the next ones.
    pub(super) const SUPERVISOR_CALL: u8 = 0x15;
    pub(super) const HYPERVISOR_CALL: u8 = 0x16;
    pub(super) const SECURE_MONITOR_CALL: u8 = 0x17;
    pub(super) const GRANULE_PROTECTION: u8 = 0x1e;
    pub(super) const INSTRUCTION_ABORT_LOWER: u8 = 0x20;
    pub(super) const PC_ALIGNMENT: u8 = 0x22;
    pub(super) const DATA_ABORT_LOWER: u8 = 0x24;
    pub(super) const DATA_ABORT: u8 = 0x25;
    pub(super) const SERROR: u8 = 0x2f;
    pub(super) const BREAKPOINT_LOWER: u8 = 0x30;
    pub(super) const BRK: u8 = 0x3c;
}

/// Checks a Trap by itself and against the last instruction.
pub(super) fn check(view: TrapView<'_>, before: &Before<'_>, out: &mut Report<'_>) {
    let trap = view.get();
    check_fields(&trap, out);
    if !is_placed(&trap, before, out) {
        return;
    }
    match trap.trap_type {
        trap_type::SYNCHRONOUS => {
            check_class(&trap, before.flow(), out);
            check_syscall(&trap, before.flow(), out);
        }
        trap_type::SERROR..=trap_type::FIQ => check_asynchronous(&trap, out),
        _ => return,
    }
    if !is_served(&trap, before) {
        check_vector(&trap, out);
    }
}

/// Whether it is a call to a hypervisor or firmware that is not traced. The instruction after the call follows then.
fn is_served(trap: &Trap, before: &Before<'_>) -> bool {
    let is_call = matches!(before.flow(), Some(ControlFlow::HypervisorCall | ControlFlow::SecureMonitorCall));
    is_call && trap.syscall_type != 0 && trap.target_pc == before.last.address.wrapping_add(4)
}

/// Whether a Trap of this type may be here.
fn is_placed(trap: &Trap, before: &Before<'_>, out: &mut Report<'_>) -> bool {
    let last = before.last;
    let is_eret = before.opcode.flow == ControlFlow::ExceptionReturn;
    let is_elsewhere = !before.opcode.is_open && !is_eret && last.record != 0;
    match (trap.trap_type, before.due) {
        (6.., _) => out.add(RuleId::TrapType, format_args!("the type is {}", trap.trap_type)),
        (trap_type::RESET, _) => return true,
        (1.., Due::Trap) => {
            let (kind, record) = (trap.trap_type, last.record);
            out.add(RuleId::TrapType, format_args!("the type is {kind} after record {record}, which trapped"));
        }
        (0..=3, Due::Return) => {
            let kind = trap.trap_type;
            out.add_at(last.record, RuleId::ExceptionReturn, format_args!("the Trap after it is of type {kind}"));
        }
        (trap_type::EXCEPTION_RETURN, Due::Nothing) if is_elsewhere && !before.is_leaving => {
            out.add(RuleId::ExceptionReturn, format_args!("{:#010x} before it is not an ERET", last.word));
        }
        _ => return true,
    }
    false
}

fn check_fields(trap: &Trap, out: &mut Report<'_>) {
    let has_call = trap.syscall_type != 0 || trap.syscall_index != 0;
    let is_wrong = match trap.trap_type {
        trap_type::EXCEPTION_RETURN | trap_type::RESET => trap.is_virtual || trap.ec != 0 || has_call,
        trap_type::SYNCHRONOUS => trap.is_virtual,
        _ => false,
    };
    if is_wrong {
        out.add(RuleId::TrapFields, format_args!("a Trap of type {} has fields of other types set", trap.trap_type));
    }
}

/// Checks classes that belong to one instruction, and those that belong to none.
fn check_class(trap: &Trap, flow: Option<ControlFlow>, out: &mut Report<'_>) {
    let is_by = |expected| flow.is_none_or(|flow| flow == expected);
    let is_right = match trap.ec {
        class::SERROR => false,
        class::SUPERVISOR_CALL => is_by(ControlFlow::SupervisorCall),
        class::HYPERVISOR_CALL => is_by(ControlFlow::HypervisorCall),
        class::SECURE_MONITOR_CALL => is_by(ControlFlow::SecureMonitorCall),
        class::BRK => is_by(ControlFlow::Breakpoint),
        class::INSTRUCTION_ABORT_LOWER..=class::PC_ALIGNMENT => flow.is_none(),
        _ => true,
    };
    if !is_right {
        out.add(RuleId::TrapClass, format_args!("a synchronous exception of class {:#04x}", trap.ec));
    }
}

/// The class identifies a call whose instruction is not in the trace.
fn check_syscall(trap: &Trap, flow: Option<ControlFlow>, out: &mut Report<'_>) {
    let by_class = match trap.ec {
        class::SUPERVISOR_CALL..=class::SECURE_MONITOR_CALL => trap.ec - class::SUPERVISOR_CALL + 1,
        class::SUPERVISOR_CALL_32..=class::SECURE_MONITOR_CALL_32 if flow.is_none() => {
            trap.ec - class::SUPERVISOR_CALL_32 + 1
        }
        _ => 0,
    };
    let by_instruction = match flow {
        Some(ControlFlow::SupervisorCall) => 1,
        Some(ControlFlow::HypervisorCall) => 2,
        Some(ControlFlow::SecureMonitorCall) => 3,
        Some(_) => 0,
        None => by_class,
    };
    let is_missing = flow.is_some() && by_instruction != 0 && by_class == by_instruction;
    let is_right = match trap.syscall_type {
        0 => trap.syscall_index == 0 && !is_missing,
        kind => kind == by_instruction,
    };
    if !is_right {
        let (kind, index) = (trap.syscall_type, trap.syscall_index);
        out.add(RuleId::Syscall, format_args!("type {kind} and index {index}, the call is of type {by_instruction}"));
    }
}

fn check_asynchronous(trap: &Trap, out: &mut Report<'_>) {
    let is_serror = trap.trap_type == trap_type::SERROR;
    if is_serror && trap.ec != class::SERROR {
        out.add(RuleId::TrapClass, format_args!("an SError of class {:#04x}", trap.ec));
    }
    if !is_serror && trap.ec != 0 {
        out.add(RuleId::InterruptClass, format_args!("an interrupt of class {:#04x}", trap.ec));
    }
    if trap.syscall_type != 0 || trap.syscall_index != 0 {
        let (kind, index) = (trap.syscall_type, trap.syscall_index);
        out.add(RuleId::Syscall, format_args!("type {kind} and index {index} of an asynchronous exception"));
    }
}

/// A vector table has four groups of four entries, of 128 bytes each.
fn check_vector(trap: &Trap, out: &mut Report<'_>) {
    let target = trap.target_pc;
    let entry = target >> 7 & 0b11;
    let is_right = match trap.trap_type {
        // External aborts may use the entry of SErrors.
        trap_type::SYNCHRONOUS => matches!(entry, 0 | 3),
        trap_type::SERROR => entry == 3,
        trap_type::IRQ => entry == 1,
        _ => entry == 2,
    };
    if is_sanitized(target) && (!is_right || target & 0x7f != 0) {
        out.add(RuleId::TrapVector, format_args!("a Trap of type {} leads to {target:#x}", trap.trap_type));
    }
}

/// Checks the accesses of the instruction against the exception that it took.
pub(super) fn check_abort(view: TrapView<'_>, before: &Before<'_>, chain: &Chain, out: &mut Report<'_>) {
    let Some(flow) = before.flow() else { return };
    if view.trap_type() != trap_type::SYNCHRONOUS || chain.sum.is_wrong {
        return;
    }
    let is_abort = matches!(view.ec(), class::DATA_ABORT_LOWER | class::DATA_ABORT);
    let operation = before.opcode.access.operation;
    match operation {
        Operation::Set { .. } | Operation::Copy { .. } => check_range_abort(is_abort, before.last, chain, out),
        Operation::None if flow.is_exception() && is_abort => {}
        Operation::None if flow.is_exception() => check_no_abort(view.ec(), before.last, out),
        Operation::None if is_abort && before.opcode.is_memoryless => {
            let word = before.last.word;
            out.add(RuleId::TrapClass, format_args!("{word:#010x} accesses no memory, but took a Data Abort"));
        }
        Operation::None => {}
        _ if is_abort => check_access_abort(operation, before, chain, out),
        _ => check_no_abort(view.ec(), before.last, out),
    }
}

fn check_range_abort(is_abort: bool, last: &Last, chain: &Chain, out: &mut Report<'_>) {
    let is_final = |access: Access| matches!(access.extent, Extent::Bytes(_)) && !access.read && !access.write;
    if is_abort && !chain.sum.last.is_some_and(is_final) {
        let word = last.word;
        out.add_at(last.record, RuleId::MopsAbortAddress, format_args!("{word:#010x} has no faulting address"));
    }
}

/// The faulting access is present and was not completed. With vectors, it is the last.
fn check_access_abort(operation: Operation, before: &Before<'_>, chain: &Chain, out: &mut Report<'_>) {
    let &Last { record, word, has_address, .. } = before.last;
    let is_access = operation.is_memory_access();
    if !has_address && (is_access || operation == Operation::CacheMaintenance) {
        out.add_at(record, RuleId::DataAbortWithoutAddress, format_args!("{word:#010x} took a Data Abort"));
    }
    let is_untouched = |access: Access| !access.read && !access.write;
    let is_last_untouched = chain.sum.last.is_some_and(is_untouched);
    let has_fault = if before.opcode.access.vector { is_last_untouched } else { chain.sum.has_untouched };
    if has_address && is_access && !has_fault {
        let detail = format_args!("{word:#010x} took a Data Abort, but has no faulting access");
        out.add_at(record, RuleId::AbortFinalAccess, detail);
    }
}

/// Debug exceptions and granule protection faults have an address too.
fn check_no_abort(ec: u8, last: &Last, out: &mut Report<'_>) {
    let is_alike = matches!(ec, class::GRANULE_PROTECTION | class::BREAKPOINT_LOWER..=class::BRK);
    if last.has_address && !is_alike {
        let word = last.word;
        let detail = format_args!("{word:#010x} has an address, but took an exception of class {ec:#04x}");
        out.add_at(last.record, RuleId::DataAbortAddress, detail);
    }
}
