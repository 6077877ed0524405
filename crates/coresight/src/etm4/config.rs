//! Configuration of a trace unit, as far as decoding needs it.
//!
//! Takes register values, some perhaps missing. Produces a [`Config`], and the values that were assumed for missing
//! registers. `explain` describes register values in plain English.
//! Specification: Arm IHI 0064 and DDI 0487, registers TRCIDR0 to TRCIDR13, TRCCONFIGR, TRCDEVARCH, TRCTRACEIDR.

use alloc::vec::Vec;
use core::fmt;

use crate::config::{apply_options, option_number};
use crate::decode::ConditionScope;
use crate::{Assumption, Context, Profile, Protocol};

/// Registers of an ETE or ETMv4 trace unit; `None` for those that were not saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// TRCCONFIGR.
    pub configr: Option<u32>,
    /// TRCTRACEIDR.
    pub traceidr: Option<u32>,
    /// TRCDEVARCH.
    pub devarch: Option<u32>,
    /// TRCIDR0 to TRCIDR13.
    pub idr: [Option<u32>; 14],
}

impl Registers {
    /// Sets a register by its architectural name. False: decoding does not need the register.
    pub fn set(&mut self, name: &str, value: u32) -> bool {
        let Some(register) = self.register(name) else { return false };
        *register = Some(value);
        true
    }

    fn register(&mut self, name: &str) -> Option<&mut Option<u32>> {
        match name.to_ascii_uppercase().as_str() {
            "TRCCONFIGR" => Some(&mut self.configr),
            "TRCTRACEIDR" => Some(&mut self.traceidr),
            "TRCDEVARCH" => Some(&mut self.devarch),
            name => self.idr.get_mut(name.strip_prefix("TRCIDR")?.parse::<usize>().ok()?),
        }
    }
}

/// The architecture and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// ETMv4 with this minor version.
    Etm4(u8),
    /// ETE version 1 with this minor version.
    Ete(u8),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Etm4(minor) => write!(f, "ETMv4.{minor}"),
            Version::Ete(minor) => write!(f, "ETE v1.{minor}"),
        }
    }
}

/// The configuration of a trace unit, as far as decoding needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The architecture version.
    pub version: Version,
    /// The trace id, when a register has it.
    pub trace_id: Option<u8>,
    /// Bytes of a context identifier in a packet: 0 to 4.
    pub context_id_bytes: u8,
    /// Bytes of a virtual context identifier in a packet: 0 to 4.
    pub vmid_bytes: u8,
    /// TRCCONFIGR.CID: context identifiers are traced. If not known, only packets with one have it.
    pub context_ids: bool,
    /// TRCCONFIGR.VMID: virtual context identifiers are traced.
    pub vmids: bool,
    /// TRCIDR0.COMMOPT: cycle counts carry no commit counts; format 2 then commits all speculative elements.
    pub commit_mode_1: bool,
    /// TRCIDR0.COMMTRANS: a transaction start is not a P0 element.
    pub transaction_start_not_p0: bool,
    /// TRCIDR8.MAXSPEC: the greatest number of P0 elements that are speculative at once.
    pub max_speculation: u32,
    /// Packets about conditional instructions other than branches may occur (ETMv4).
    pub conditional: bool,
    /// TRCCONFIGR.COND: conditional instructions that have elements. None if not known.
    pub conditions: ConditionScope,
    /// Number of normal condition keys, TRCIDR12 less TRCIDR13, if known.
    pub condition_keys: Option<u32>,
    /// TRCIDR0.CONDTYPE: results of conditional instructions are flags rather than passed or failed.
    pub condition_flags: bool,
    /// TRCCONFIGR.INSTP0: loads are P0 instructions.
    pub p0_loads: bool,
    /// TRCCONFIGR.INSTP0: stores are P0 instructions.
    pub p0_stores: bool,
    /// Data synchronization markers may occur.
    pub data_sync: bool,
    /// Q packets may occur.
    pub q: bool,
    /// The PE has the M profile: exception returns are P0 elements, and exceptions and modes are those of the M profile.
    pub is_m_profile: bool,
    /// Function return packets may occur: the PE has the M profile, from ETMv4.2 on, or may have it.
    pub function_return: bool,
    /// TRCIDR2.WFXMODE: WFI and WFE are P0 instructions.
    pub wfx_is_p0: bool,
    /// TRCCONFIGR.RS: targets may be left out when a return stack predicts them.
    pub return_stack: bool,
    /// TRCCONFIGR.CCI: cycles are counted.
    pub cycle_counting: bool,
    /// TRCCONFIGR.TS: timestamps are generated.
    pub timestamps: bool,
}

const fn assume(register: &'static str, value: u32, meaning: &'static str) -> Assumption {
    Assumption { register, value, meaning, contradicted_by: None }
}

/// Defaults for missing registers. ETE fixes most of these; ETMv4 values are the common ones.
const DEFAULTS_ETE: [Assumption; 5] = [
    assume("TRCDEVARCH", 0x4773_5a13, "ETE v1.3: every packet of the architecture is read"),
    assume("TRCIDR0", 0x28c1_8ea1, "commit mode 1, 64-bit timestamps"),
    assume("TRCIDR2", 0xc000_1088, "4-byte context and virtual context identifiers, WFI and WFE are P0"),
    assume("TRCIDR8", 0, "no speculation in the trace"),
    assume("TRCCONFIGR", 0x1801, "return stack and timestamps"),
];
const DEFAULTS_ETM4: [Assumption; 5] = [
    assume("TRCIDR1", 0x4100_f460, "ETMv4.6: every packet of the architecture is read"),
    assume("TRCIDR0", 0x2801_8ee1, "commit mode 1, 64-bit timestamps"),
    assume("TRCIDR2", 0x0000_1088, "4-byte context and virtual context identifiers"),
    assume("TRCIDR8", 0, "no speculation in the trace"),
    assume("TRCCONFIGR", 0x1801, "return stack and timestamps"),
];

impl Config {
    /// The configuration that registers describe, and the assumptions about missing ones.
    ///
    /// ```
    /// use unspool_coresight::{Profile, Protocol, etm4::{Config, Registers}};
    /// let mut registers = Registers::default();
    /// registers.set("TRCIDR2", 0x488);
    /// let (config, assumed) = Config::new(Protocol::Etm4, Profile::Unknown, &registers);
    /// assert_eq!((config.context_id_bytes, config.vmid_bytes), (4, 1));
    /// assert!(assumed.iter().any(|assumption| assumption.register == "TRCIDR8"));
    /// ```
    pub fn new(protocol: Protocol, profile: Profile, registers: &Registers) -> (Self, Vec<Assumption>) {
        let defaults = if protocol == Protocol::Ete { &DEFAULTS_ETE } else { &DEFAULTS_ETM4 };
        let mut filled = *registers;
        let mut assumed = Vec::new();
        for assumption in defaults {
            if let Some(register @ None) = filled.register(assumption.register) {
                *register = Some(assumption.value);
                assumed.push(*assumption);
            }
        }
        (Self::decode(protocol, profile, registers, &filled), assumed)
    }

    /// The configuration that the registers and named options of a capture describe, the assumptions, and the registers
    /// that an option contradicts: then the option counts.
    pub fn described<'r>(
        protocol: Protocol,
        profile: Profile,
        registers: impl IntoIterator<Item = (&'r str, u64)>,
        options: impl IntoIterator<Item = (&'r str, &'r str)>,
    ) -> (Self, Vec<Assumption>) {
        let mut known = Registers::default();
        for (name, value) in registers {
            known.set(name, value as u32);
        }
        let (mut config, mut assumed) = Self::new(protocol, profile, &known);
        let register = |name| known.register(name).and_then(|register| *register);
        assumed.extend(apply_options(&mut config, options, Self::apply_option, register));
        (config, assumed)
    }

    /// A named option states one fact of a register. There are none for speculation. Returns the names of both.
    fn apply_option(&mut self, name: &str, value: &str) -> Option<(&'static str, &'static str)> {
        let number = option_number(value)?;
        let is = |option: &str| name.eq_ignore_ascii_case(option);
        // Whether identifiers are traced is in TRCCONFIGR, their size in TRCIDR2.
        let register = |is_as_configured| if is_as_configured { "TRCIDR2" } else { "TRCCONFIGR" };
        Some(if is("cyclecount") {
            self.cycle_counting = number != 0;
            ("cyclecount", "TRCCONFIGR")
        } else if is("context_id") {
            let register = register(self.context_ids == (number != 0));
            self.context_id_bytes = (number / 8).min(4) as u8;
            self.context_ids = number != 0;
            ("context_id", register)
        } else if is("vmid") {
            let register = register(self.vmids == (number != 0));
            self.vmid_bytes = (number / 8).min(4) as u8;
            self.vmids = number != 0;
            ("vmid", register)
        } else if is("timestamp_bits") {
            self.timestamps = number != 0;
            ("timestamp_bits", "TRCCONFIGR")
        } else {
            return None;
        })
    }

    /// `given` has the known registers, `filled` has a value for every register that is read here.
    fn decode(protocol: Protocol, profile: Profile, given: &Registers, filled: &Registers) -> Self {
        let [idr0, idr2, idr8] = [0, 2, 8].map(|n: usize| filled.idr[n].unwrap_or(0));
        let configr = filled.configr.unwrap_or(0);
        let version = version(protocol, filled);
        let is_etm4 = matches!(version, Version::Etm4(_));
        // A register that was not saved may have any value: the packet itself is trusted then.
        let unless_known = |known: Option<u32>, test: fn(u32) -> bool| known.is_none_or(test);
        let has_p0_transfers = is_etm4 && unless_known(given.idr[0], |idr0| field(idr0, 1, 2) == 3);
        Config {
            version,
            trace_id: given.traceidr.map(|id| (id & 0x7f) as u8),
            context_id_bytes: (field(idr2, 5, 5).min(4)) as u8,
            vmid_bytes: (field(idr2, 10, 5).min(4)) as u8,
            context_ids: field(given.configr.unwrap_or(0), 6, 1) == 1,
            vmids: field(given.configr.unwrap_or(0), 7, 1) == 1,
            commit_mode_1: field(idr0, 29, 1) == 1,
            transaction_start_not_p0: field(idr0, 30, 1) == 1,
            max_speculation: idr8,
            conditional: is_etm4
                && unless_known(given.idr[0], |idr0| field(idr0, 6, 1) == 1)
                && unless_known(given.configr, |configr| field(configr, 8, 3) != 0),
            conditions: condition_scope(
                given.configr.filter(|_| is_etm4 && unless_known(given.idr[0], |idr0| field(idr0, 6, 1) == 1)),
            ),
            condition_keys: match (given.idr[12], given.idr[13]) {
                (Some(all), Some(special)) => all.checked_sub(special).filter(|&keys| keys > 0),
                _ => None,
            },
            condition_flags: field(idr0, 12, 2) == 1,
            p0_loads: has_p0_transfers && field(given.configr.unwrap_or(0), 1, 1) == 1,
            p0_stores: has_p0_transfers && field(given.configr.unwrap_or(0), 2, 1) == 1,
            data_sync: is_etm4 && unless_known(given.configr, |configr| field(configr, 16, 2) != 0),
            q: unless_known(given.idr[0], |idr0| field(idr0, 15, 2) != 0),
            is_m_profile: is_etm4 && profile == Profile::Microcontroller,
            function_return: match profile {
                Profile::Application => false,
                Profile::Microcontroller => is_etm4 && version >= Version::Etm4(2),
                Profile::Unknown => is_etm4,
            },
            wfx_is_p0: field(idr2, 31, 1) == 1,
            return_stack: field(configr, 12, 1) == 1,
            cycle_counting: field(configr, 4, 1) == 1,
            timestamps: field(configr, 11, 1) == 1,
        }
    }

    /// The level or mode that two bits of a context packet stand for.
    pub(super) fn level(&self, bits: u8) -> u8 {
        match bits {
            0 if self.is_m_profile => Context::THREAD,
            3 if self.is_m_profile => Context::HANDLER,
            level => level,
        }
    }

    /// May a packet start with this header byte in this configuration?
    pub fn accepts(&self, header: u8) -> bool {
        let is_ete = matches!(self.version, Version::Ete(_));
        match header {
            0x05 => self.function_return,
            0x07 => !is_ete,
            0x09 | 0x0a | 0x0b | 0xb0..=0xb9 => is_ete,
            0x20..=0x2c => self.data_sync,
            0x40..=0x6f => self.conditional,
            0x70 => self.version >= Version::Etm4(3),
            0x88 => self.version >= Version::Etm4(6),
            0xa0..=0xaf => self.q,
            _ => true,
        }
    }
}

/// The conditional instructions that a value of TRCCONFIGR selects.
fn condition_scope(configr: Option<u32>) -> ConditionScope {
    match configr.map(|configr| field(configr, 8, 3)) {
        Some(1) => ConditionScope::Loads,
        Some(2) => ConditionScope::Stores,
        Some(3) => ConditionScope::LoadsAndStores,
        Some(7) => ConditionScope::All,
        _ => ConditionScope::None,
    }
}

fn version(protocol: Protocol, registers: &Registers) -> Version {
    let devarch = registers.devarch.filter(|devarch| field(*devarch, 20, 1) == 1);
    if protocol == Protocol::Ete {
        return Version::Ete(devarch.map_or(0, |devarch| field(devarch, 16, 4) as u8));
    }
    Version::Etm4(registers.idr[1].map_or(0, |idr1| field(idr1, 4, 4) as u8))
}

/// `width` bits of `value` from bit `low` on.
pub(crate) const fn field(value: u32, low: u32, width: u32) -> u32 {
    value >> low & ((1 << width) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(protocol: Protocol, registers: &[(&str, u32)]) -> (Config, Vec<Assumption>) {
        let mut all = Registers::default();
        for (name, value) in registers {
            assert!(all.set(name, *value), "{name}");
        }
        Config::new(protocol, Profile::Application, &all)
    }

    #[test]
    fn registers_define_the_configuration() {
        let (config, assumed) = with(
            Protocol::Ete,
            &[
                ("TRCCONFIGR", 0x18d1),
                ("TRCTRACEIDR", 0x10),
                ("TRCDEVARCH", 0x4771_5a13),
                ("TRCIDR0", 0x4801_cea1),
                ("TRCIDR2", 0xd000_1088),
                ("TRCIDR8", 6),
            ],
        );
        assert_eq!(assumed, []);
        assert_eq!(config.version, Version::Ete(1));
        assert_eq!(config.trace_id, Some(0x10));
        assert_eq!((config.context_id_bytes, config.vmid_bytes), (4, 4));
        assert_eq!((config.commit_mode_1, config.transaction_start_not_p0), (false, true));
        assert_eq!(config.max_speculation, 6);
        assert!(config.wfx_is_p0 && config.return_stack && config.cycle_counting && config.timestamps);
    }

    #[test]
    fn missing_registers_accept_most_packets_and_are_reported() {
        let (config, assumed) = Config::new(Protocol::Etm4, Profile::Unknown, &Registers::default());
        assert_eq!(assumed.len(), 5);
        assert!((0x40..=0x46).all(|header| config.accepts(header)));
        assert!(config.accepts(0x05) && config.accepts(0x20) && config.accepts(0xa0));
    }

    #[test]
    fn function_returns_are_of_the_m_profile() {
        use Profile::{Application, Microcontroller, Unknown};
        let rows: &[(Profile, u32, bool)] = &[
            (Microcontroller, 0x4100_f423, true),
            (Microcontroller, 0x4100_f413, false),
            (Application, 0x4100_f423, false),
            (Unknown, 0x4100_f413, true),
        ];
        for &(profile, idr1, accepts) in rows {
            let mut registers = Registers::default();
            registers.set("TRCIDR1", idr1);
            let (config, _) = Config::new(Protocol::Etm4, profile, &registers);
            assert_eq!(config.accepts(0x05), accepts, "{profile:?} {idr1:#x}");
            assert_eq!(config.is_m_profile, profile == Microcontroller);
        }
        assert!(!Config::new(Protocol::Ete, Microcontroller, &Registers::default()).0.is_m_profile);
    }

    #[test]
    fn configuration_restricts_headers() {
        let (ete, _) = with(Protocol::Ete, &[("TRCIDR0", 0x2800_0ea1), ("TRCCONFIGR", 1)]);
        let (etm, _) = with(Protocol::Etm4, &[("TRCIDR0", 0x2800_0ea1), ("TRCIDR1", 0x4100_f403), ("TRCCONFIGR", 1)]);
        let rows: &[(u8, bool, bool)] = &[
            (0x05, false, false),
            (0x07, false, true),
            (0x0a, true, false),
            (0x20, false, false),
            (0x40, false, false),
            (0x70, true, false),
            (0x88, true, false),
            (0xa0, false, false),
            (0xb4, true, false),
            (0x9a, true, true),
        ];
        for &(header, on_ete, on_etm) in rows {
            assert_eq!((ete.accepts(header), etm.accepts(header)), (on_ete, on_etm), "{header:#x}");
        }
    }
}
