//! Configuration of an ITM, as far as it matters to a reader of its trace.
//!
//! Takes register values and named options. Produces a [`Config`]. Packets need none of it: only times do.
//! Specification: Armv7-M (DDI 0403) and Armv8-M (DDI 0553) architecture, ITM_TCR.

use alloc::vec::Vec;

use crate::Assumption;

/// The configuration of an ITM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The trace id, when a register has it.
    pub trace_id: Option<u8>,
    /// ITM_TCR.TSENA: local timestamps are generated. `None`: not known.
    pub local_timestamps: Option<bool>,
    /// ITM_TCR.GTSFREQ: global timestamps are generated. `None`: not known.
    pub global_timestamps: Option<bool>,
    /// ITM_TCR.SYNCENA: synchronizations are generated. `None`: not known.
    pub synchronizations: Option<bool>,
    /// Factor from ticks of local timestamps to clock cycles: 1, 4, 16 or 64. That of ITM_TCR.TSPRESCALE if the trace
    /// port clocks the timestamps (SWOENA), otherwise 1.
    pub prescaler: u8,
}

impl Default for Config {
    fn default() -> Self {
        Self { trace_id: None, local_timestamps: None, global_timestamps: None, synchronizations: None, prescaler: 1 }
    }
}

impl Config {
    /// The configuration that the registers and named options of a capture describe. Nothing has to be assumed.
    ///
    /// ```
    /// use unspool_coresight::itm::Config;
    /// let (config, assumed) = Config::described([("ITM_TCR", 0x0003_0312)], []);
    /// assert_eq!((config.trace_id, config.prescaler), (Some(3), 64));
    /// assert_eq!(assumed, []);
    /// ```
    pub fn described<'r>(
        registers: impl IntoIterator<Item = (&'r str, u64)>,
        options: impl IntoIterator<Item = (&'r str, &'r str)>,
    ) -> (Self, Vec<Assumption>) {
        let mut config = Self::default();
        for (name, value) in registers {
            if name.eq_ignore_ascii_case("ITM_TCR") || name.eq_ignore_ascii_case("ITMTCR") {
                config.control(value);
            }
        }
        for (name, value) in options {
            if name.eq_ignore_ascii_case("timestamp_prescaler") {
                config.prescaler = value.trim().parse().ok().filter(|factor| *factor > 0).unwrap_or(config.prescaler);
            }
        }
        (config, Vec::new())
    }

    /// Applies the trace control register.
    fn control(&mut self, value: u64) {
        let bit = |bit: u32| value >> bit & 1 == 1;
        self.trace_id = Some((value >> 16 & 0x7f) as u8);
        // A register of zeros was not read from an ITM that sent anything.
        if bit(0) {
            self.local_timestamps = Some(bit(1));
            self.synchronizations = Some(bit(2));
            self.global_timestamps = Some(value >> 10 & 3 != 0);
        }
        self.prescaler = if bit(4) { 1 << (2 * (value >> 8 & 3)) } else { 1 };
    }
}
