//! Configuration of a data trace stream, as far as reading it needs that.
//!
//! Takes the registers of the trace unit. Produces a [`Config`].

use alloc::vec::Vec;

use crate::Assumption;
use crate::etm4::field;

/// The configuration of a data trace stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// The trace id: that of the instruction stream plus one, when a register has it.
    pub trace_id: Option<u8>,
    /// TRCCONFIGR.TS: timestamps are generated.
    pub timestamps: bool,
}

impl Config {
    /// The configuration that the registers of a trace unit describe. Nothing has to be assumed.
    ///
    /// ```
    /// use unspool_coresight::etm4_data::Config;
    /// let (config, _) = Config::described([("TRCTRACEIDR", 0x10), ("TRCCONFIGR", 0x3_0807)]);
    /// assert_eq!((config.trace_id, config.timestamps), (Some(0x11), true));
    /// ```
    pub fn described<'r>(registers: impl IntoIterator<Item = (&'r str, u64)>) -> (Self, Vec<Assumption>) {
        let mut config = Self::default();
        for (name, value) in registers {
            let value = value as u32;
            if name.eq_ignore_ascii_case("TRCTRACEIDR") {
                config.trace_id = Some(((value & 0x7f) as u8).saturating_add(1));
            } else if name.eq_ignore_ascii_case("TRCCONFIGR") {
                config.timestamps = field(value, 11, 1) == 1;
            }
        }
        (config, Vec::new())
    }
}
