//! The configuration of a trace source of any protocol: the table of protocols that can be decoded.
//!
//! Takes a protocol, the registers and options that a capture has for the source, and the profile of its PE. Produces a
//! [`TraceConfig`], which [`with_decoders!`](crate::with_decoders) turns into decoders. A new protocol is a variant here,
//! a variant of [`Packet`](crate::Packet), a name in [`Protocol`] and a folder.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::decode::Decoders as _;
use crate::{Protocol, etm4};

/// The configuration of a trace source, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceConfig {
    /// ETE or ETMv4.
    Etm4(etm4::Config),
}

/// Runs an expression with the decoders of whatever protocol a [`TraceConfig`](crate::TraceConfig) is for. The name is
/// bound to a value that implements [`Decoders`](crate::Decoders).
#[macro_export]
macro_rules! with_decoders {
    ($config:expr, $decoders:ident => $body:expr) => {
        match $config {
            $crate::TraceConfig::Etm4($decoders) => $body,
        }
    };
}

impl TraceConfig {
    /// The configuration that registers and named options describe, and the registers that had to be assumed. `None`:
    /// the protocol cannot be decoded.
    pub fn new<'r>(
        protocol: Protocol,
        profile: Profile,
        registers: impl IntoIterator<Item = (&'r str, u64)>,
        options: impl IntoIterator<Item = (&'r str, &'r str)>,
    ) -> Option<(Self, Vec<Assumption>)> {
        match protocol {
            Protocol::Ete | Protocol::Etm4 => {
                let (config, assumed) = etm4::Config::described(protocol, profile, registers, options);
                Some((Self::Etm4(config), assumed))
            }
            Protocol::Etm3 | Protocol::Ptm | Protocol::Itm | Protocol::Stm => None,
        }
    }

    /// What the trace contains.
    pub fn features(&self) -> Features {
        with_decoders!(self, decoders => decoders.features())
    }
}

/// What a trace contains, as far as its configuration decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// The architecture and its version.
    pub version: String,
    /// The greatest number of P0 elements that are speculative at once.
    pub max_speculation: u32,
    /// Timestamps are generated.
    pub timestamps: bool,
    /// Cycles are counted.
    pub cycle_counting: bool,
    /// Context identifiers are traced.
    pub context_ids: bool,
    /// Virtual context identifiers are traced.
    pub vmids: bool,
}

/// A register that a capture does not have, and the value that was assumed for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assumption {
    /// The register.
    pub register: &'static str,
    /// The value assumed.
    pub value: u32,
    /// What that value means for decoding.
    pub meaning: &'static str,
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:#010x} ({})", self.register, self.value, self.meaning)
    }
}

/// The architecture profile of a traced PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Not known: packets of every profile are accepted.
    #[default]
    Unknown,
    /// A or R profile.
    Application,
    /// M profile.
    Microcontroller,
}
