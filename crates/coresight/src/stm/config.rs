//! Configuration of an STM, as far as it matters to a reader of its trace.
//!
//! Takes register values. Produces a [`Config`]. Decoding needs none of it: the trace itself has the version and the
//! frequency of timestamps.
//! Specification: Arm IHI 0054 and DDI 0528, STMTCSR, STMTSFREQR, STMSYNCR, STMHEMASTR.

use alloc::vec::Vec;

use crate::Assumption;

/// The configuration of an STM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// The trace id, when a register has it.
    pub trace_id: Option<u8>,
    /// STMTCSR.TSEN: timestamps are generated. `None`: not known.
    pub timestamps: Option<bool>,
    /// STMTCSR.COMPEN: leading zeros of data are dropped, so that sizes are not those of the writes. `None`: not known.
    pub compressed: Option<bool>,
    /// STMTSFREQR: the frequency of timestamps in Hertz, if it was set.
    pub frequency: Option<u32>,
    /// STMSYNCR: the number of bytes between synchronizations, if known.
    pub sync_bytes: Option<u32>,
    /// STMHEMASTR: the master of hardware events, if known.
    pub hardware_master: Option<u16>,
}

impl Config {
    /// The configuration that the registers of a capture describe. Nothing has to be assumed, and there are no named
    /// options.
    ///
    /// ```
    /// use unspool_coresight::stm::Config;
    /// let (config, assumed) = Config::described([("STMTCSR", 0x00a0_0007), ("STMTSFREQR", 19_200_000)], []);
    /// assert_eq!((config.trace_id, config.frequency), (Some(0x20), Some(19_200_000)));
    /// assert_eq!(assumed, []);
    /// ```
    pub fn described<'r>(
        registers: impl IntoIterator<Item = (&'r str, u64)>,
        _options: impl IntoIterator<Item = (&'r str, &'r str)>,
    ) -> (Self, Vec<Assumption>) {
        let mut config = Self::default();
        registers.into_iter().for_each(|(name, value)| config.register(name, value));
        (config, Vec::new())
    }

    fn register(&mut self, name: &str, value: u64) {
        let is = |register: &str| name.eq_ignore_ascii_case(register);
        if is("STMTCSR") {
            self.trace_id = Some((value >> 16 & 0x7f) as u8);
            self.timestamps = Some(value >> 1 & 1 == 1);
            self.compressed = Some(value >> 5 & 1 == 1);
        } else if is("STMTSFREQR") {
            self.frequency = Some(value as u32).filter(|frequency| *frequency != 0);
        } else if is("STMSYNCR") {
            self.sync_bytes = Some((value & 0xfff) as u32);
        } else if is("STMHEMASTR") {
            self.hardware_master = Some(value as u16);
        }
    }
}
