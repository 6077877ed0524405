//! Features of a trace and assumptions about it, shared by all protocols.

use alloc::string::String;
use core::fmt;

/// Features of a trace, as configured.
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
    /// Bytes of a context identifier in a packet.
    pub context_id_bytes: u8,
    /// Virtual context identifiers are traced.
    pub vmids: bool,
    /// Bytes of a virtual context identifier in a packet.
    pub vmid_bytes: u8,
}

/// A register that a capture does not have, and the value that was assumed for it; or one that an option of the capture
/// contradicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assumption {
    /// The register.
    pub register: &'static str,
    /// The value assumed, or that of the register.
    pub value: u32,
    /// The consequence for decoding.
    pub meaning: &'static str,
    /// The option that contradicts the register. `None`: the capture does not have the register.
    pub contradicted_by: Option<&'static str>,
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:#010x}", self.register, self.value)?;
        self.contradicted_by.map_or(Ok(()), |option| write!(f, " contradicts the option {option}"))?;
        write!(f, " ({})", self.meaning)
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

impl Profile {
    /// The profile of a type of core, as far as its name shows it.
    ///
    /// ```
    /// use unspool_coresight::Profile;
    /// assert_eq!(Profile::of_core("Cortex-M3"), Profile::Microcontroller);
    /// assert_eq!(Profile::of_core("Cortex-A53"), Profile::Application);
    /// assert_eq!(Profile::of_core("DSP"), Profile::Unknown);
    /// ```
    pub fn of_core(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let starts = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
        let is_m = ["v6-m", "v7-m", "v7e-m", "v8-m", "v8.1-m"].iter().any(|part| name.contains(part));
        if is_m || starts(&["cortex-m", "star", "sc000", "sc300"]) {
            Profile::Microcontroller
        } else if starts(&["cortex-", "neoverse", "arm-aa64", "armv", "arm9", "arm11", "aarch64"]) {
            Profile::Application
        } else {
            Profile::Unknown
        }
    }
}
