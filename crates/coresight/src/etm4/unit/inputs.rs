//! External inputs: events of the PE that resources can select.
//!
//! Takes TRCEXTINSELR, then what the PE executes and what its trace buffer reports. Produces the inputs that are active with
//! the next instruction. An ETE selects events of the Performance Monitors; those that follow from executed instructions,
//! exceptions and the trace buffer are modeled. The external inputs of an ETMv4 are IMPLEMENTATION DEFINED: none is modeled.
//! Specification: DDI 0487, External inputs (D4.6.13), and the numbers of PMU events.

use super::settings::Settings;
use crate::Protocol;
use crate::unit::{Class, Executed};

/// Selectors of external inputs.
const SELECTORS: usize = 4;

/// PMU events of executed instructions.
const INST_RETIRED: u16 = 0x0008;
const EXC_RETURN: u16 = 0x000a;
const PC_WRITE_RETIRED: u16 = 0x000c;
const CPU_CYCLES: u16 = 0x0011;
const BR_RETIRED: u16 = 0x0021;
/// The PMU event of an exception.
const EXC_TAKEN: u16 = 0x0009;
/// PMU events of the trace buffer: its write pointer wrapped, a Trigger Event occurred.
const TRB_WRAP: u16 = 0x400c;
const TRB_TRIG: u16 = 0x400e;

/// The external inputs of a trace unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    /// Selected PMU events; zero, which software increments have, is never seen.
    selected: [u16; SELECTORS],
    /// TRCRSR.EXTIN and later occurrences: active with the next instruction, one bit each.
    occurred: u32,
}

impl Inputs {
    pub(super) fn new(settings: &Settings) -> Self {
        let is_ete = settings.protocol == Protocol::Ete;
        let selected = |n| if is_ete { settings.numbered("TRCEXTINSELR", n) as u16 } else { 0 };
        let occurred = if is_ete { settings.low("TRCRSR") & 0xf } else { 0 };
        Self { selected: core::array::from_fn(selected), occurred }
    }

    /// Does one of the selectors see the trace buffer?
    pub(super) fn see_buffer(&self) -> bool {
        self.selected.iter().any(|event| [TRB_WRAP, TRB_TRIG].contains(event))
    }

    /// The inputs that are active with this instruction, one bit each.
    pub(super) fn with(&mut self, executed: &Executed) -> u32 {
        let is_taken = executed.class.is_branch() && executed.taken;
        let occurs = |event: u16| match event {
            INST_RETIRED | CPU_CYCLES => true,
            EXC_RETURN => executed.class == Class::ExceptionReturn,
            PC_WRITE_RETIRED => is_taken,
            BR_RETIRED => executed.class.is_branch(),
            _ => false,
        };
        core::mem::take(&mut self.occurred) | self.mask(occurs)
    }

    /// An exception was taken.
    pub(super) fn exception(&mut self) {
        self.occurred |= self.mask(|event| event == EXC_TAKEN);
    }

    /// The trace buffer reported events. They are kept while resources pause (R_KCXLF).
    pub(super) fn buffer(&mut self, has_wrapped: bool, is_triggered: bool) {
        self.occurred |= self.mask(|event| (event == TRB_WRAP && has_wrapped) || (event == TRB_TRIG && is_triggered));
    }

    fn mask(&self, occurs: impl Fn(u16) -> bool) -> u32 {
        (0..).zip(self.selected).fold(0, |bits, (n, event)| bits | u32::from(occurs(event)) << n)
    }
}

/// Is this PMU event modeled?
pub(super) fn is_modeled(event: u16) -> bool {
    let instructions = [INST_RETIRED, EXC_RETURN, PC_WRITE_RETIRED, CPU_CYCLES, BR_RETIRED];
    instructions.contains(&event) || [EXC_TAKEN, TRB_WRAP, TRB_TRIG].contains(&event)
}
