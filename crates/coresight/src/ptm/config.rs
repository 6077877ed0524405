//! Configuration of a trace unit, as far as decoding needs it.
//!
//! Takes register values, some perhaps missing, and the named options of a capture. Produces a [`Config`], the values that
//! were assumed for missing registers, and the registers that an option contradicts.
//! Specification: Arm IHI 0035, registers ETMCR, ETMIDR, ETMCCER, ETMTRACEIDR.

use alloc::vec::Vec;
use core::fmt;

use crate::Assumption;
use crate::config::{apply_options, option_number};
use crate::etm4::field;

/// Registers of a PTM; `None` for those that were not saved.
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

/// The version of the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The minor version; the major one is 1.
    pub minor: u8,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PFT v1.{}", self.minor)
    }
}

/// The configuration of a PTM, as far as decoding needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The architecture version.
    pub version: Version,
    /// The trace id, when a register has it.
    pub trace_id: Option<u8>,
    /// Bytes of a context identifier in a packet: 0, 1, 2 or 4.
    pub context_id_bytes: u8,
    /// ETMCR: packets carry cycle counts.
    pub cycle_accurate: bool,
    /// ETMCR: timestamps are generated.
    pub timestamps: bool,
    /// ETMCCER: the size of a timestamp, 48 or 64 bits.
    pub timestamp_bits: u8,
    /// ETMCCER: timestamps are Gray-coded.
    pub timestamp_gray: bool,
    /// ETMCR: virtual machine identifiers are traced.
    pub vmids: bool,
    /// ETMCR: targets may be left out when a return stack predicts them.
    pub return_stack: bool,
    /// ETMCCER: DMB and DSB are waypoints.
    pub barrier_waypoints: bool,
}

const fn assume(register: &'static str, value: u32, meaning: &'static str) -> Assumption {
    Assumption { register, value, meaning, contradicted_by: None }
}

/// Defaults for missing registers, those of a Cortex-A15.
const DEFAULTS: [Assumption; 3] = [
    assume("ETMIDR", 0x411c_f312, "PFT v1.1"),
    assume("ETMCCER", 0x34c0_1ac2, "64-bit timestamps in natural binary, DMB and DSB are no waypoints"),
    assume("ETMCR", 0x2000_0000, "return stack, no cycle counts, no context identifiers"),
];

impl Config {
    /// The configuration that registers describe, and the assumptions about missing ones.
    ///
    /// ```
    /// use unspool_coresight::ptm::{Config, Registers};
    /// let mut registers = Registers::default();
    /// registers.set("ETMCR", 0x1000_d000);
    /// let (config, assumed) = Config::new(&registers);
    /// assert_eq!((config.cycle_accurate, config.context_id_bytes), (true, 4));
    /// assert_eq!(assumed.len(), 2);
    /// ```
    pub fn new(registers: &Registers) -> (Self, Vec<Assumption>) {
        let mut filled = *registers;
        let mut assumed = Vec::new();
        for assumption in &DEFAULTS {
            if let Some(register @ None) = filled.register(assumption.register) {
                *register = Some(assumption.value);
                assumed.push(*assumption);
            }
        }
        (Self::decode(&filled), assumed)
    }

    /// The configuration that the registers and named options of a capture describe, the assumptions, and the registers
    /// that an option contradicts: then the option counts.
    pub fn described<'r>(
        registers: impl IntoIterator<Item = (&'r str, u64)>,
        options: impl IntoIterator<Item = (&'r str, &'r str)>,
    ) -> (Self, Vec<Assumption>) {
        let mut known = Registers::default();
        for (name, value) in registers {
            known.set(name, value as u32);
        }
        let (mut config, mut assumed) = Self::new(&known);
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
            match number {
                0 => self.timestamps = false,
                64 => self.timestamp_bits = 64,
                _ => self.timestamp_bits = 48,
            }
            ("timestamp_bits", if number == 0 { "ETMCR" } else { "ETMCCER" })
        } else if is("timestamp_gray") {
            self.timestamp_gray = number != 0;
            ("timestamp_gray", "ETMCCER")
        } else if is("dmb_dsb_waypoints") || is("dmb_dsb_are_waypoints") {
            self.barrier_waypoints = number != 0;
            ("dmb_dsb_waypoints", "ETMCCER")
        } else if is("return_stack") {
            self.return_stack = number != 0;
            ("return_stack", "ETMCR")
        } else {
            return None;
        })
    }

    /// The configuration of registers that are all known.
    fn decode(registers: &Registers) -> Self {
        let [cr, idr, ccer] = [registers.cr, registers.idr, registers.ccer].map(|register| register.unwrap_or(0));
        let version = Version { minor: field(idr, 4, 4) as u8 };
        Config {
            version,
            trace_id: registers.traceidr.map(|id| (id & 0x7f) as u8),
            context_id_bytes: [0, 1, 2, 4][field(cr, 14, 2) as usize],
            cycle_accurate: field(cr, 12, 1) == 1,
            timestamps: field(cr, 28, 1) == 1,
            timestamp_bits: if field(ccer, 29, 1) == 1 { 64 } else { 48 },
            timestamp_gray: field(ccer, 28, 1) == 0,
            vmids: version.minor > 0 && field(cr, 30, 1) == 1,
            return_stack: field(cr, 29, 1) == 1 && field(ccer, 23, 1) == 1,
            barrier_waypoints: field(ccer, 24, 1) == 1,
        }
    }

    /// May a packet start with this header byte in this configuration?
    pub fn accepts(&self, header: u8) -> bool {
        match header {
            0x3c => self.version.minor > 0,
            0x6e => self.context_id_bytes > 0,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    fn with(registers: &[(&str, u64)], options: &[(&str, &str)]) -> (Config, Vec<Assumption>) {
        Config::described(registers.iter().copied(), options.iter().copied())
    }

    #[test]
    fn registers_define_the_configuration() {
        let a15 = [("ETMCR", 0x1000_1000), ("ETMIDR", 0x411c_f312), ("ETMCCER", 0x34c0_1ac2), ("ETMTRACEIDR", 0x13)];
        let (config, assumed) = with(&a15, &[]);
        assert_eq!(assumed, []);
        let expected = Config {
            version: Version { minor: 1 },
            trace_id: Some(0x13),
            context_id_bytes: 0,
            cycle_accurate: true,
            timestamps: true,
            timestamp_bits: 64,
            timestamp_gray: false,
            vmids: false,
            return_stack: false,
            barrier_waypoints: false,
        };
        assert_eq!(config, expected);
        let a9 = [("ETMCR", 0x7000_8000), ("ETMIDR", 0x411c_f301), ("ETMCCER", 0x01c0_18ea)];
        let (config, _) = with(&a9, &[]);
        let expected = Config {
            version: Version { minor: 0 },
            trace_id: None,
            context_id_bytes: 2,
            cycle_accurate: false,
            timestamps: true,
            timestamp_bits: 48,
            timestamp_gray: true,
            vmids: false,
            return_stack: true,
            barrier_waypoints: true,
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn each_bit_of_a_register_decides_one_thing() {
        let base = with(&[("ETMCR", 0), ("ETMIDR", 0x310), ("ETMCCER", 1 << 23)], &[]).0;
        type Change = fn(&mut Config);
        let rows: &[(&str, u64, Change)] = &[
            ("ETMCR", 1 << 12, |it| it.cycle_accurate = true),
            ("ETMCR", 1 << 14, |it| it.context_id_bytes = 1),
            ("ETMCR", 2 << 14, |it| it.context_id_bytes = 2),
            ("ETMCR", 3 << 14, |it| it.context_id_bytes = 4),
            ("ETMCR", 1 << 28, |it| it.timestamps = true),
            ("ETMCR", 1 << 29, |it| it.return_stack = true),
            ("ETMCR", 1 << 30, |it| it.vmids = true),
            ("ETMCCER", 1 << 23 | 1 << 24, |it| it.barrier_waypoints = true),
            ("ETMCCER", 1 << 23 | 1 << 28, |it| it.timestamp_gray = false),
            ("ETMCCER", 1 << 23 | 1 << 29, |it| it.timestamp_bits = 64),
        ];
        for (register, value, change) in rows {
            let mut registers = vec![("ETMCR", 0), ("ETMIDR", 0x310), ("ETMCCER", 1 << 23)];
            registers.push((register, *value));
            let mut expected = base;
            change(&mut expected);
            assert_eq!(with(&registers, &[]).0, expected, "{register} {value:#x}");
        }
        let no_stack = with(&[("ETMCR", 1 << 29), ("ETMIDR", 0x310), ("ETMCCER", 0)], &[]).0;
        assert!(!no_stack.return_stack, "ETMCCER says that there is none");
    }

    #[test]
    fn missing_registers_are_reported() {
        let (config, assumed) = with(&[], &[]);
        assert_eq!(assumed.iter().map(|it| it.register).collect::<Vec<_>>(), ["ETMIDR", "ETMCCER", "ETMCR"]);
        assert_eq!((config.version.to_string().as_str(), config.timestamp_bits), ("PFT v1.1", 64));
    }

    #[test]
    fn a_contradiction_between_option_and_register_is_noted() {
        let registers = [("ETMCR", 0x1000_c000), ("ETMIDR", 0x310), ("ETMCCER", 0x34c0_1ac2)];
        let agree = [("cyclecount", "0"), ("context_id", "32"), ("timestamp_bits", "64"), ("timestamp_gray", "0")];
        assert_eq!(with(&registers, &agree).1, []);
        let rows: &[(&str, &str, &str)] = &[
            ("cyclecount", "1", "ETMCR = 0x1000c000 contradicts the option cyclecount (the option is followed)"),
            ("context_id", "8", "ETMCR = 0x1000c000 contradicts the option context_id (the option is followed)"),
            (
                "timestamp_bits",
                "48",
                "ETMCCER = 0x34c01ac2 contradicts the option timestamp_bits (the option is followed)",
            ),
            (
                "timestamp_gray",
                "yes",
                "ETMCCER = 0x34c01ac2 contradicts the option timestamp_gray (the option is followed)",
            ),
            (
                "dmb_dsb_waypoints",
                "1",
                "ETMCCER = 0x34c01ac2 contradicts the option dmb_dsb_waypoints (the option is followed)",
            ),
        ];
        for (name, value, expected) in rows {
            let (config, noted) = with(&registers, &[(name, value)]);
            assert_eq!(noted.iter().map(Assumption::to_string).collect::<Vec<_>>(), [*expected]);
            assert_ne!(config, with(&registers, &[]).0, "{name}");
            // Without the register there is nothing to contradict.
            let (same, assumed) = with(&[], &[(name, value)]);
            assert!(assumed.iter().all(|it| it.contradicted_by.is_none()), "{name}");
            assert_eq!(same.cycle_accurate, config.cycle_accurate, "{name}");
        }
    }

    #[test]
    fn configuration_restricts_headers() {
        let (new, _) = with(&[("ETMIDR", 0x310), ("ETMCR", 0xc000)], &[]);
        let (old, _) = with(&[("ETMIDR", 0x300), ("ETMCR", 0)], &[]);
        let rows: &[(u8, bool, bool)] =
            &[(0x3c, true, false), (0x6e, true, false), (0x42, true, true), (0x76, true, true)];
        for &(header, on_new, on_old) in rows {
            assert_eq!((new.accepts(header), old.accepts(header)), (on_new, on_old), "{header:#x}");
        }
    }
}
