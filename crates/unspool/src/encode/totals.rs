//! Totals of an encoded capture, and of each of its cores.

use unspool_coresight::unit::OverflowLosses;

/// Totals of an encoded capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encoded {
    /// Cores.
    pub cores: usize,
    /// Instructions that the trace units executed.
    pub instructions: u64,
    /// Breaks: the steps did not continue.
    pub breaks: u64,
    /// Contexts without an Exception level or a Security state: EL0 and Non-secure were assumed.
    pub assumed_contexts: u64,
    /// Contexts without an identifier that is traced or compared: zero was assumed.
    pub assumed_identifiers: u64,
    /// Instructions that write a register into the trace whose value is unknown: nothing was written.
    pub unknown_values: u64,
    /// Whether any step had a time.
    pub has_times: bool,
    /// Overflows of the trace units, and what was lost to them.
    pub overflowed: OverflowLosses,
    /// Bytes of trace, without frames.
    pub trace_bytes: u64,
    /// Bytes that the buffers had no room for, or that were overwritten.
    pub lost_bytes: u64,
    /// Buffers that a trigger stopped.
    pub trigger_stops: u64,
    /// Buffer interrupts that software would have seen.
    pub interrupts: u64,
    /// Bytes of the program image.
    pub image_bytes: u64,
    /// Bytes of the system event log, which has the code in place of an image.
    pub event_bytes: u64,
}

impl Encoded {
    pub(super) fn add(&mut self, core: &Self) {
        self.cores += core.cores;
        self.instructions += core.instructions;
        self.breaks += core.breaks;
        self.assumed_contexts += core.assumed_contexts;
        self.assumed_identifiers += core.assumed_identifiers;
        self.unknown_values += core.unknown_values;
        self.has_times |= core.has_times;
        self.overflowed.overflows += core.overflowed.overflows;
        self.overflowed.instructions += core.overflowed.instructions;
    }
}
