//! Configuration of a trace unit, as far as decoding needs it.
//!
//! Takes register values, some perhaps missing, and named options. Produces a [`Config`], and the values that were assumed
//! for missing registers.
//! Specification: Arm IHI 0014, registers ETMCR, ETMIDR, ETMCCER and ETMTRACEIDR.

use alloc::vec::Vec;

use crate::config::{apply_options, option_number};
use crate::{Assumption, Profile};

/// Registers of an ETMv3 trace unit; `None` for those that were not saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// ETMCR.
    pub cr: Option<u32>,
    /// ETMIDR.
    pub idr: Option<u32>,
    /// ETMCCER.
    pub ccer: Option<u32>,
    /// ETMTRACEIDR.
    pub traceidr: Option<u32>,
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
            "ETMCR" => Some(&mut self.cr),
            "ETMIDR" => Some(&mut self.idr),
            "ETMCCER" => Some(&mut self.ccer),
            "ETMTRACEIDR" => Some(&mut self.traceidr),
            _ => None,
        }
    }
}

/// The configuration of a trace unit, as far as decoding needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The minor version: 3.0 to 3.5.
    pub minor: u8,
    /// The trace id, when a register has it.
    pub trace_id: Option<u8>,
    /// The PE has the M profile, which numbers exceptions in its own way.
    pub is_m_profile: bool,
    /// ETMCR: cycle-accurate trace.
    pub cycle_accurate: bool,
    /// ETMCR: bytes of a context identifier in a packet: 0, 1, 2 or 4.
    pub context_id_bytes: u8,
    /// ETMCR: data values are traced.
    pub data_values: bool,
    /// ETMCR: data addresses are traced.
    pub data_addresses: bool,
    /// ETMCR: transfers of coprocessor registers are traced with the data.
    pub coprocessor_transfers: bool,
    /// ETMCR: only data are traced, no instructions.
    pub data_only: bool,
    /// ETMCR: timestamps are generated.
    pub timestamps: bool,
    /// ETMCR: virtual machine identifiers are traced.
    pub vmids: bool,
    /// ETMCCER: bits of a timestamp, 48 or 64.
    pub timestamp_bits: u8,
    /// ETMCCER: timestamps are Gray-coded.
    pub timestamp_gray: bool,
    /// ETMIDR: branch packets have the alternative encoding.
    pub alternative_branches: bool,
    /// ETMIDR: Thumb BL and BLX have two atoms, one for each halfword.
    pub two_atoms_per_thumb_call: bool,
}

const fn assume(register: &'static str, value: u32, meaning: &'static str) -> Assumption {
    Assumption { register, value, meaning, contradicted_by: None }
}

const DEFAULTS: [Assumption; 3] = [
    assume("ETMIDR", 0x410c_f250, "ETMv3.5, original branch encoding"),
    assume("ETMCR", 0, "no cycle counts, context identifiers or data"),
    assume("ETMCCER", 0x3000_0000, "64-bit binary timestamps"),
];
const DEFAULTS_M: [Assumption; 3] = [
    assume("ETMIDR", 0x4114_f250, "ETMv3.5, alternative branch encoding"),
    assume("ETMCR", 0, "no cycle counts, context identifiers or data"),
    assume("ETMCCER", 0x1854_1800, "48-bit binary timestamps"),
];

impl Config {
    /// The configuration that registers describe, and the assumptions about missing ones.
    ///
    /// ```
    /// use unspool_coresight::{Profile, etm3::{Config, Registers}};
    /// let mut registers = Registers::default();
    /// registers.set("ETMCR", 0x9000);
    /// let (config, assumed) = Config::new(Profile::Application, &registers);
    /// assert!(config.cycle_accurate);
    /// assert_eq!(config.context_id_bytes, 2);
    /// assert_eq!(assumed.len(), 2);
    /// ```
    pub fn new(profile: Profile, registers: &Registers) -> (Self, Vec<Assumption>) {
        let defaults = if profile == Profile::Microcontroller { &DEFAULTS_M } else { &DEFAULTS };
        let mut filled = *registers;
        let mut assumed = Vec::new();
        for assumption in defaults {
            if let Some(register @ None) = filled.register(assumption.register) {
                *register = Some(assumption.value);
                assumed.push(*assumption);
            }
        }
        (Self::decode(profile, &filled), assumed)
    }

    /// The configuration that the registers and named options of a capture describe, the assumptions, and the registers
    /// that an option contradicts: then the option counts.
    pub fn described<'r>(
        profile: Profile,
        registers: impl IntoIterator<Item = (&'r str, u64)>,
        options: impl IntoIterator<Item = (&'r str, &'r str)>,
    ) -> (Self, Vec<Assumption>) {
        let mut known = Registers::default();
        for (name, value) in registers {
            known.set(name, value as u32);
        }
        let (mut config, mut assumed) = Self::new(profile, &known);
        let register = |name| known.register(name).and_then(|register| *register);
        assumed.extend(apply_options(&mut config, options, Self::apply_option, register));
        (config, assumed)
    }

    /// A named option states one fact of a register. Returns the names of both.
    fn apply_option(&mut self, name: &str, value: &str) -> Option<(&'static str, &'static str)> {
        let number = option_number(value)?;
        let is = |option: &str| name.eq_ignore_ascii_case(option);
        Some(if is("cyclecount") {
            self.cycle_accurate = number != 0;
            ("cyclecount", "ETMCR")
        } else if is("context_id") {
            self.context_id_bytes = (number / 8).min(4) as u8;
            ("context_id", "ETMCR")
        } else if is("vmid") {
            self.vmids = number != 0;
            ("vmid", "ETMCR")
        } else if is("timestamp_bits") {
            let is_as_configured = self.timestamps == (number != 0);
            self.timestamps = number != 0;
            self.timestamp_bits = if number == 48 { 48 } else { 64 };
            ("timestamp_bits", if is_as_configured { "ETMCCER" } else { "ETMCR" })
        } else if is("timestamp_gray") {
            self.timestamp_gray = number != 0;
            ("timestamp_gray", "ETMCCER")
        } else {
            return None;
        })
    }

    fn decode(profile: Profile, registers: &Registers) -> Self {
        let [cr, idr, ccer] = [registers.cr, registers.idr, registers.ccer].map(|value| value.unwrap_or(0));
        let bit = |value: u32, bit: u32| value >> bit & 1 == 1;
        let minor = (idr >> 4 & 0xf) as u8;
        Self {
            minor,
            trace_id: registers.traceidr.map(|id| (id & 0x7f) as u8),
            is_m_profile: profile == Profile::Microcontroller,
            cycle_accurate: bit(cr, 12),
            context_id_bytes: [0, 1, 2, 4][(cr >> 14 & 3) as usize],
            data_values: bit(cr, 2),
            data_addresses: bit(cr, 3),
            coprocessor_transfers: bit(cr, 1),
            data_only: bit(cr, 20) && minor >= 1,
            timestamps: bit(cr, 28),
            vmids: bit(cr, 30),
            timestamp_bits: if bit(ccer, 29) { 64 } else { 48 },
            timestamp_gray: !bit(ccer, 28),
            alternative_branches: bit(idr, 20) && minor >= 4,
            two_atoms_per_thumb_call: !bit(idr, 18),
        }
    }

    /// May a packet start with this header byte in this configuration?
    pub fn accepts(&self, header: u8) -> bool {
        let is_instruction = header & 1 == 1 || header & 0x81 == 0x80 || header == 0x62;
        match header {
            _ if is_instruction => !self.data_only,
            0x6e => self.context_id_bytes > 0,
            _ if is_data(header) => self.data_values || self.data_addresses,
            _ => true,
        }
    }
}

/// Does a packet with this header describe a data transfer?
fn is_data(header: u8) -> bool {
    let is_normal = header & 0b1101_0011 == 0b0000_0010;
    let has_tag = header & 0b1001_0011 == 0 && header & 0b0110_0000 != 0;
    let is_placeholder = header & 0b1101_0011 == 0b0101_0000 && header & 0b1100 != 0;
    is_normal || has_tag || is_placeholder || matches!(header, 0x50 | 0x6a | 0x7a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(profile: Profile, registers: &[(&str, u32)]) -> Config {
        let mut all = Registers::default();
        for (name, value) in registers {
            assert!(all.set(name, *value), "{name}");
        }
        Config::new(profile, &all).0
    }

    #[test]
    fn registers_define_the_configuration() {
        let registers =
            [("ETMCR", 0x5010_d00c), ("ETMIDR", 0x410c_f250), ("ETMCCER", 0x3440_08f2), ("ETMTRACEIDR", 0x10)];
        let config = with(Profile::Application, &registers);
        assert_eq!((config.minor, config.trace_id, config.context_id_bytes), (5, Some(0x10), 4));
        assert!(config.cycle_accurate && config.data_values && config.data_addresses && config.data_only);
        assert!(config.timestamps && config.vmids && !config.timestamp_gray);
        assert_eq!(config.timestamp_bits, 64);
        assert!(!config.alternative_branches && !config.two_atoms_per_thumb_call && !config.is_m_profile);
        let config = with(Profile::Microcontroller, &[("ETMIDR", 0x4114_f250), ("ETMCCER", 0x0854_1800)]);
        assert!(config.alternative_branches && config.is_m_profile && config.timestamp_gray);
        assert_eq!(config.timestamp_bits, 48);
    }

    #[test]
    fn early_versions_have_fewer_features() {
        let rows: &[(u32, bool, bool)] =
            &[(0x4110_f200, false, false), (0x4110_f230, true, false), (0x4110_f240, true, true)];
        for &(idr, data_only, alternative) in rows {
            let config = with(Profile::Application, &[("ETMIDR", idr), ("ETMCR", 0x10_000c)]);
            assert_eq!((config.data_only, config.alternative_branches), (data_only, alternative), "{idr:#x}");
            assert!(config.two_atoms_per_thumb_call);
        }
    }

    #[test]
    fn missing_registers_are_assumed() {
        for profile in [Profile::Application, Profile::Microcontroller] {
            let (config, assumed) = Config::new(profile, &Registers::default());
            assert_eq!(assumed.len(), 3);
            assert_eq!(config.alternative_branches, profile == Profile::Microcontroller);
        }
    }

    #[test]
    fn options_replace_registers() {
        let options = [
            ("cyclecount", "1"),
            ("context_id", "16"),
            ("vmid", "8"),
            ("timestamp_bits", "48"),
            ("timestamp_gray", "true"),
            ("unknown", "1"),
        ];
        let (config, assumed) = Config::described(Profile::Application, [("ETMCR", 0_u64)], options);
        let contradicted: Vec<&str> = assumed.iter().filter_map(|assumption| assumption.contradicted_by).collect();
        // ETMCCER is not known, so that nothing contradicts it.
        assert_eq!(contradicted, ["cyclecount", "context_id", "vmid", "timestamp_bits"]);
        assert!(config.cycle_accurate && config.vmids && config.timestamps && config.timestamp_gray);
        assert_eq!((config.context_id_bytes, config.timestamp_bits), (2, 48));
    }

    #[test]
    fn configuration_restricts_headers() {
        let plain = with(Profile::Application, &[("ETMCR", 0)]);
        let data_only = with(Profile::Application, &[("ETMCR", 0x10_c00c)]);
        let rows: &[(u8, bool, bool)] = &[
            (0x01, true, false),
            (0x84, true, false),
            (0x62, true, false),
            (0x6e, false, true),
            (0x0e, false, true),
            (0x22, false, true),
            (0x2c, false, true),
            (0x58, false, true),
            (0x7c, false, true),
            (0x50, false, true),
            (0x6a, false, true),
            (0x7a, false, true),
            (0x08, true, true),
            (0x70, true, true),
            (0x0c, true, true),
            (0x04, true, true),
            (0x42, true, true),
            (0x3c, true, true),
            (0x76, true, true),
            (0x66, true, true),
        ];
        for &(header, without, with) in rows {
            assert_eq!((plain.accepts(header), data_only.accepts(header)), (without, with), "{header:#x}");
        }
    }
}
