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

    /// The contents of the trace.
    pub fn features(&self) -> Features {
        with_decoders!(self, decoders => decoders.features())
    }
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
