//! The configuration of a trace source of any protocol: the table of protocols that can be decoded.
//!
//! Takes a protocol, the registers and options that a capture has for the source, and the profile of its PE. Produces a
//! [`TraceConfig`], which [`with_decoders!`](crate::with_decoders) turns into decoders. A new protocol is a variant here,
//! a variant of [`Packet`](crate::Packet), a name in [`Protocol`] and a folder.

use alloc::vec::Vec;

use crate::decode::{Decoders as _, InstructionDecoders as _};
use crate::{Assumption, Features, Profile, Protocol, etm3, etm4, etm4_data, itm, ptm, stm};

/// The configuration of a trace source, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceConfig {
    /// ETE or ETMv4.
    Etm4(etm4::Config),
    /// The data stream of ETMv4.
    Etm4Data(etm4_data::Config),
    /// PTM.
    Ptm(ptm::Config),
    /// ETMv3.
    Etm3(etm3::Config),
    /// ITM and DWT.
    Itm(itm::Config),
    /// STM.
    Stm(stm::Config),
}

/// Runs an expression with the decoders of the protocol of a [`TraceConfig`]. The name is bound to a value that
/// implements [`Decoders`](crate::Decoders).
#[macro_export]
macro_rules! with_decoders {
    ($config:expr, $decoders:ident => $body:expr) => {
        match $config {
            $crate::TraceConfig::Etm4($decoders) => $body,
            $crate::TraceConfig::Etm4Data($decoders) => $body,
            $crate::TraceConfig::Ptm($decoders) => $body,
            $crate::TraceConfig::Etm3($decoders) => $body,
            $crate::TraceConfig::Itm($decoders) => $body,
            $crate::TraceConfig::Stm($decoders) => $body,
        }
    };
}

/// Runs an expression with the decoders of a protocol of instruction trace, and another for all other protocols. The name
/// is bound to a value that implements [`InstructionDecoders`](crate::InstructionDecoders).
#[macro_export]
macro_rules! with_instruction_decoders {
    ($config:expr, $decoders:ident => $body:expr, _ => $other:expr) => {
        match $config {
            $crate::TraceConfig::Etm4($decoders) => $body,
            $crate::TraceConfig::Ptm($decoders) => $body,
            $crate::TraceConfig::Etm3($decoders) => $body,
            $crate::TraceConfig::Itm(_) | $crate::TraceConfig::Stm(_) | $crate::TraceConfig::Etm4Data(_) => $other,
        }
    };
}

impl TraceConfig {
    /// The configuration that registers and named options describe, and the registers that had to be assumed.
    pub fn new<'r>(
        protocol: Protocol,
        profile: Profile,
        registers: impl IntoIterator<Item = (&'r str, u64)>,
        options: impl IntoIterator<Item = (&'r str, &'r str)>,
    ) -> (Self, Vec<Assumption>) {
        match protocol {
            Protocol::Ete | Protocol::Etm4 => {
                let (config, assumed) = etm4::Config::described(protocol, profile, registers, options);
                (Self::Etm4(config), assumed)
            }
            Protocol::Etm4Data => {
                let (config, assumed) = etm4_data::Config::described(registers);
                (Self::Etm4Data(config), assumed)
            }
            Protocol::Ptm => {
                let (config, assumed) = ptm::Config::described(registers, options);
                (Self::Ptm(config), assumed)
            }
            Protocol::Etm3 => {
                let (config, assumed) = etm3::Config::described(profile, registers, options);
                (Self::Etm3(config), assumed)
            }
            Protocol::Itm => {
                let (config, assumed) = itm::Config::described(registers, options);
                (Self::Itm(config), assumed)
            }
            Protocol::Stm => {
                let (config, assumed) = stm::Config::described(registers, options);
                (Self::Stm(config), assumed)
            }
        }
    }

    /// Are there instructions in the trace? Others have software trace or data transfers.
    pub fn has_instructions(&self) -> bool {
        with_instruction_decoders!(self, _decoders => true, _ => false)
    }

    /// Does the trace show of every instruction whether its condition held?
    pub fn traces_conditions(&self) -> bool {
        with_instruction_decoders!(self, decoders => decoders.flow_rules().atom_per_instruction, _ => false)
    }

    /// Does the trace contain the addresses of data transfers, in the same stream as instructions?
    pub fn traces_data_addresses(&self) -> bool {
        matches!(self, Self::Etm3(config) if config.data_addresses)
    }

    /// Does the trace contain the values of data transfers, in the same stream as instructions?
    pub fn traces_data_values(&self) -> bool {
        matches!(self, Self::Etm3(config) if config.data_values)
    }

    /// Does the data trace contain transfers of coprocessor registers?
    pub fn traces_coprocessor_transfers(&self) -> bool {
        matches!(self, Self::Etm3(config) if config.coprocessor_transfers)
    }

    /// May the trace have timestamps of a clock that other sources share? Those of software trace show only in the trace
    /// if no register describes them.
    pub fn may_have_timestamps(&self) -> bool {
        match self {
            Self::Itm(config) => config.global_timestamps != Some(false),
            Self::Stm(config) => config.timestamps != Some(false),
            _ => self.features().timestamps,
        }
    }

    /// The contents of the trace.
    pub fn features(&self) -> Features {
        with_decoders!(self, decoders => decoders.features())
    }
}

/// Applies named options, each of which states one fact of a register. `apply` returns the names of both, and `known` the
/// value of a register. Returns the registers that an option contradicts: the option counts.
pub(crate) fn apply_options<'r, C: Copy + PartialEq>(
    config: &mut C,
    options: impl IntoIterator<Item = (&'r str, &'r str)>,
    apply: impl Fn(&mut C, &str, &str) -> Option<(&'static str, &'static str)>,
    mut known: impl FnMut(&'static str) -> Option<u32>,
) -> Vec<Assumption> {
    let mut contradicted = Vec::new();
    for (name, value) in options {
        let before = *config;
        if let Some((option, register)) = apply(config, name, value)
            && *config != before
            && let Some(value) = known(register)
        {
            let meaning = "the option is followed";
            contradicted.push(Assumption { register, value, meaning, contradicted_by: Some(option) });
        }
    }
    contradicted
}

/// The number of a named option: a flag, a decimal or a hexadecimal number.
pub(crate) fn option_number(text: &str) -> Option<u32> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(1),
        "false" | "no" | "off" => Some(0),
        text => match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        },
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Keys of Arm's "CoreSight trace decode metadata requirements", heading "Trace metadata summary".
    #[test]
    fn an_option_that_contradicts_a_register_is_reported() {
        type Row<'r> = (Protocol, (&'r str, u64), (&'r str, &'r str), bool);
        let rows: &[Row] = &[
            (Protocol::Etm4, ("TRCCONFIGR", 0), ("cyclecount", "1"), true),
            (Protocol::Etm4, ("TRCCONFIGR", 0x11), ("cyclecount", "1"), false),
            (Protocol::Ete, ("TRCCONFIGR", 0), ("timestamp_bits", "64"), true),
            (Protocol::Etm4, ("TRCCONFIGR", 0x41), ("context_id", "0"), true),
            (Protocol::Etm4, ("TRCIDR2", 0x488), ("vmid", "8"), false),
            (Protocol::Etm3, ("ETMCR", 0), ("cyclecount", "1"), true),
            (Protocol::Etm3, ("ETMCR", 0x1000), ("cyclecount", "1"), false),
            (Protocol::Etm3, ("ETMCR", 0xc000), ("context_id", "16"), true),
            (Protocol::Etm3, ("ETMCCER", 0x1000_0000), ("timestamp_gray", "1"), true),
            (Protocol::Etm3, ("ETMCCER", 0), ("timestamp_gray", "1"), false),
            (Protocol::Etm3, ("ETMIDR", 0x410c_f250), ("timestamp_gray", "1"), false),
            (Protocol::Ptm, ("ETMCCER", 0x0100_0000), ("dmb_dsb_waypoints", "0"), true),
            (Protocol::Ptm, ("ETMCCER", 0x2000_0000), ("timestamp_bits", "48"), true),
        ];
        for &(protocol, register, option, expected) in rows {
            let (_, assumed) = TraceConfig::new(protocol, Profile::Unknown, [register], [option]);
            let contradicted: Vec<&Assumption> = assumed.iter().filter(|it| it.contradicted_by.is_some()).collect();
            assert_eq!(!contradicted.is_empty(), expected, "{protocol} {register:?} {option:?}: {contradicted:?}");
        }
    }

    #[test]
    fn software_trace_may_have_timestamps_that_no_register_describes() {
        type Row<'r> = (Protocol, &'r [(&'r str, u64)], bool);
        let rows: &[Row] = &[
            (Protocol::Stm, &[], true),
            (Protocol::Stm, &[("STMTCSR", 7)], true),
            (Protocol::Stm, &[("STMTCSR", 5)], false),
            (Protocol::Itm, &[], true),
            (Protocol::Itm, &[("ITM_TCR", 0x40f)], true),
            // Local timestamps only.
            (Protocol::Itm, &[("ITM_TCR", 0xf)], false),
        ];
        for (protocol, registers, expected) in rows {
            let (config, _) = TraceConfig::new(*protocol, Profile::Unknown, registers.iter().copied(), []);
            assert_eq!(config.may_have_timestamps(), *expected, "{protocol} {registers:?}");
        }
    }
}
