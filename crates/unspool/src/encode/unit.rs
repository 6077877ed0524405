//! A trace unit of any protocol.
//!
//! steps of a core ─▶ **trace unit** ─▶ bytes
//!
//! Each call is one of the model; here is what differs between protocols: which instructions have an element of their own, and how
//! exceptions are numbered.

use unspool_coresight::etm3::unit::Access;
use unspool_coresight::unit::{Class, Executed, OverflowLosses};
use unspool_coresight::{Context, Protocol, Target, etm3, etm4, exception, ptm};
use unspool_isa::ControlFlow;
use unspool_model::{Exception, ExceptionKind, Isa};

use super::settings::UnitSettings;

/// The model of a trace unit.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each core has one, and most of them are the largest")]
pub(super) enum Unit {
    Etm4(etm4::unit::Unit),
    Ptm(ptm::unit::Unit),
    Etm3(etm3::unit::Unit),
}

/// Calls the same method of any model.
macro_rules! each {
    ($unit:expr, $it:ident => $call:expr) => {
        match $unit {
            Unit::Etm4($it) => $call,
            Unit::Ptm($it) => $call,
            Unit::Etm3($it) => $call,
        }
    };
}

impl Unit {
    pub(super) fn new(settings: &UnitSettings) -> Self {
        match settings {
            UnitSettings::Etm4(settings) => Self::Etm4(etm4::unit::Unit::new(settings)),
            UnitSettings::Ptm(settings) => Self::Ptm(ptm::unit::Unit::new(settings)),
            UnitSettings::Etm3(settings) => Self::Etm3(etm3::unit::Unit::new(settings)),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        each!(self, unit => unit.bytes())
    }

    pub(super) fn take(&mut self, sink: impl FnMut(&[u8])) {
        each!(self, unit => unit.take(sink));
    }

    pub(super) fn context(&mut self, context: Context) {
        each!(self, unit => unit.context(context));
    }

    #[inline(always)]
    pub(super) fn instruction(&mut self, executed: &Executed) {
        each!(self, unit => unit.instruction(executed));
    }

    /// The accesses of the last instruction. Only ETMv3 traces them.
    pub(super) fn accesses(&mut self, accesses: impl IntoIterator<Item = Access>) {
        if let Self::Etm3(unit) = self {
            unit.accesses(accesses);
        }
    }

    /// An instruction that was attempted, and caused this exception. Only PTM traces some of them.
    pub(super) fn attempt(&mut self, executed: &Executed, exception: u16) {
        if let Self::Ptm(unit) = self
            && exception == exception::armv7::UNDEFINED
            && executed.class == Class::Other
        {
            unit.instruction(executed);
        }
    }

    /// `number`: see [`exception_number`](Self::exception_number).
    pub(super) fn exception(&mut self, number: u16, return_address: Target) {
        each!(self, unit => unit.exception(number, return_address));
    }

    pub(super) fn halt(&mut self, at: Target) {
        each!(self, unit => unit.halt(at));
    }

    /// Execution continues elsewhere after a taken branch, whose target may be known.
    pub(super) fn stop(&mut self, target: Option<Target>) {
        match (self, target) {
            (Self::Etm4(unit), _) => unit.stop(),
            (Self::Ptm(unit), Some(target)) => unit.halt(target),
            (Self::Ptm(unit), None) => unit.stop(),
            (Self::Etm3(unit), Some(target)) => unit.halt(target),
            (Self::Etm3(unit), None) => unit.stop(),
        }
    }

    /// Software writes a value into the trace. Only an ETE traces that.
    pub(super) fn instrumentation(&mut self, value: u64) {
        if let Self::Etm4(unit) = self {
            unit.instrumentation(value);
        }
    }

    /// Whether a trigger for the trace buffer has occurred. Only ETE and ETMv4 have them.
    pub(super) fn take_trigger(&mut self) -> bool {
        if let Self::Etm4(unit) = self { unit.take_trigger() } else { false }
    }

    /// The trace buffer wrapped, or had a Trigger Event.
    pub(super) fn buffer_events(&mut self, (has_wrapped, is_triggered): (bool, bool)) {
        if let Self::Etm4(unit) = self {
            unit.buffer_events(has_wrapped, is_triggered);
        }
    }

    /// Where execution continues if the transaction fails that the PE is in. Only an ETE traces them.
    pub(super) fn transaction_restart(&self) -> Option<Target> {
        if let Self::Etm4(unit) = self { unit.transaction_restart() } else { None }
    }

    /// The transaction fails, with execution at this address.
    pub(super) fn transaction_failure(&mut self, at: Target) {
        if let Self::Etm4(unit) = self {
            unit.transaction_failure(at);
        }
    }

    /// It is not known whether the transaction fails.
    pub(super) fn transaction_end(&mut self) {
        if let Self::Etm4(unit) = self {
            unit.transaction_end();
        }
    }

    pub(super) fn overflow(&mut self) {
        each!(self, unit => unit.overflow());
    }

    pub(super) fn overflowed(&self) -> OverflowLosses {
        each!(self, unit => unit.overflowed())
    }

    #[inline(always)]
    pub(super) fn time(&mut self, time: u64) {
        each!(self, unit => unit.time(time));
    }

    #[inline(always)]
    pub(super) fn cycles(&mut self, cycles: u64) {
        each!(self, unit => unit.cycles(cycles));
    }

    pub(super) fn finish(&mut self) {
        each!(self, unit => unit.finish());
    }

    /// Type of an exception. `is_call`: the instruction before calls a higher Exception level.
    pub(super) fn exception_number(&self, exception: &Exception, is_call: bool) -> u16 {
        match self {
            Self::Etm4(_) if is_call => CALL,
            Self::Etm4(_) => number(exception),
            _ if is_call => SVC,
            _ => armv7_number(exception),
        }
    }
}

/// How a trace unit distinguishes instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Classes {
    traces_a64: bool,
    wfx_is_p0: bool,
    barriers_are_p0: bool,
    /// It is an ETE: TSB CSYNC, transactions and instrumentation have an effect.
    is_ete: bool,
}

impl Classes {
    pub(super) fn of(settings: &UnitSettings) -> Self {
        match settings {
            UnitSettings::Etm4(settings) => Self {
                traces_a64: true,
                wfx_is_p0: settings.config().wfx_is_p0,
                barriers_are_p0: false,
                is_ete: settings.protocol == Protocol::Ete,
            },
            UnitSettings::Ptm(settings) => {
                let barriers_are_p0 = settings.config().barrier_waypoints;
                Self { traces_a64: false, wfx_is_p0: false, barriers_are_p0, is_ete: false }
            }
            // All instructions have an atom.
            UnitSettings::Etm3(_) => {
                Self { traces_a64: false, wfx_is_p0: false, barriers_are_p0: false, is_ete: false }
            }
        }
    }

    /// Kind of an instruction with this control flow.
    pub(super) fn class(self, isa: Isa, opcode: u32, flow: ControlFlow) -> Class {
        match flow {
            ControlFlow::TransactionStart if self.is_ete => Class::TransactionStart,
            ControlFlow::FallThrough if self.is_ete => effect(isa, opcode),
            ControlFlow::Wfx if !self.wfx_is_p0 => Class::Other,
            ControlFlow::DataBarrier if self.barriers_are_p0 => Class::Barrier,
            ControlFlow::Direct => Class::Direct,
            ControlFlow::Indirect => Class::Indirect,
            ControlFlow::ExceptionReturn => Class::ExceptionReturn,
            ControlFlow::Isb | ControlFlow::Wfx | ControlFlow::TransactionStart => Class::Barrier,
            _ => Class::Other,
        }
    }

    /// Why instructions of this instruction set cannot be traced.
    pub(super) fn refusal(self, isa: Isa) -> Option<&'static str> {
        match isa {
            Isa::A64 if !self.traces_a64 => {
                Some("this is an A64 instruction, and PTM and ETMv3 trace A32 and T32 instructions only")
            }
            isa if isa.is_riscv() => {
                Some("this is a RISC-V instruction, and trace units of Arm trace Arm instructions only")
            }
            _ => None,
        }
    }
}

/// Kind of an instruction that is not a P0 instruction, and that an ETE takes notice of.
fn effect(isa: Isa, opcode: u32) -> Class {
    match (isa, opcode) {
        // TSB CSYNC.
        (Isa::A64, 0xd503_225f) | (Isa::A32, 0xe320_f012) | (Isa::T32, 0xf3af_8012) => Class::TraceSync,
        // TCOMMIT.
        (Isa::A64, 0xd503_307f) => Class::TransactionCommit,
        (Isa::A64, opcode) if trcit(opcode).is_some() => Class::Instrumentation,
        _ => Class::Other,
    }
}

/// The number of the register whose value a TRCIT instruction writes into the trace.
pub(super) fn trcit(opcode: u32) -> Option<usize> {
    (opcode & !0x1f == 0xd50b_72e0).then_some(opcode as usize & 0x1f)
}

/// Exception type of a call, of ETMv4 and of Armv7.
const CALL: u16 = 2;
const SVC: u16 = 10;

/// A-profile exception type of ETMv4.
fn number(exception: &Exception) -> u16 {
    match (exception.kind, exception.class) {
        (ExceptionKind::Reset, _) => 0,
        (ExceptionKind::Debug, _) => 1,
        (ExceptionKind::SError, _) => 4,
        (ExceptionKind::Irq, _) => 14,
        (ExceptionKind::Fiq, _) => 15,
        (_, Some(0x11..=0x13 | 0x15..=0x17)) => CALL,
        (_, Some(0x20 | 0x21)) => 11,
        (_, Some(0x24 | 0x25)) => 12,
        (_, Some(0x22 | 0x26)) => 10,
        (_, Some(0x30..=0x33 | 0x38 | 0x3c)) => 6,
        (_, Some(0x34 | 0x35)) => 7,
        (_, Some(_)) => 3,
        (_, None) if exception.call.is_some() => CALL,
        (_, None) => 3,
    }
}

/// Exception type of PTM and ETMv3.
fn armv7_number(exception: &Exception) -> u16 {
    match (exception.kind, exception.class) {
        (ExceptionKind::Reset, _) => exception::armv7::RESET,
        (ExceptionKind::Debug, _) => exception::armv7::DEBUG_ENTRY,
        (ExceptionKind::SError, _) => 4,
        (ExceptionKind::Irq, _) => 14,
        (ExceptionKind::Fiq, _) => 15,
        (_, Some(0x11)) => SVC,
        (_, Some(0x12)) => 3,
        (_, Some(0x13)) => 2,
        (_, Some(0x20..=0x22 | 0x30..=0x33 | 0x38)) => 11,
        (_, Some(0x24 | 0x25 | 0x34 | 0x35)) => 12,
        (_, Some(_)) => exception::armv7::UNDEFINED,
        (_, None) if exception.call.is_some() => SVC,
        (_, None) => 13,
    }
}
