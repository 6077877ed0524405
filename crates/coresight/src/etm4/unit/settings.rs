//! Settings of a trace unit: register values, and behavior that no register controls.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::inputs::Inputs;
use crate::etm4::config::field;
use crate::etm4::{Config, Registers};
use crate::{Profile, Protocol};

/// The registers of a trace unit, and its behavior where the architecture leaves a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// ETE or ETMv4.
    pub protocol: Protocol,
    registers: Registers,
    /// The values, in the order in which they were first set.
    all: Vec<(String, u64)>,
    /// Taken branches are traced as source addresses (ETE).
    pub source_addresses: bool,
    /// Seed of mispredictions and cancels, if TRCIDR8 is not zero.
    pub guess_seed: Option<u64>,
    /// Seed of Q elements, if TRCCONFIGR.QE is not zero.
    pub q_seed: Option<u64>,
    /// Seed of overflows.
    pub overflow_seed: Option<u64>,
    /// Event 0 is a trigger for the trace buffer: always that of an ETE, that of an ETMv4 if TRCEVENTCTL1R.ATB is set.
    pub signals_triggers: bool,
}

/// Default register values.
const DEFAULTS: [(&str, u64); 11] = [
    ("TRCCONFIGR", 0x1),
    ("TRCTRACEIDR", 0x10),
    ("TRCIDR0", 0x2800_0ea1),
    ("TRCIDR8", 0),
    ("TRCSYNCPR", 12),
    ("TRCCCCTLR", 4),
    ("TRCBBCTLR", 0),
    ("TRCTSCTLR", 0),
    ("TRCVICTLR", 0x201),
    ("TRCVIIECTLR", 0),
    ("TRCVISSCTLR", 0),
];
/// Identification registers of an ETE, and of an ETMv4.
const ETE: [(&str, u64); 3] = [("TRCDEVARCH", 0x4770_5a13), ("TRCIDR1", 0x4100_fff0), ("TRCIDR2", 0xc000_1088)];
const ETM4: [(&str, u64); 3] = [("TRCDEVARCH", 0x4770_4a13), ("TRCIDR1", 0x4100_f424), ("TRCIDR2", 0x0000_1088)];
/// Other registers of the model.
const OTHERS: [&str; 7] =
    ["TRCDEVARCH", "TRCEVENTCTL0R", "TRCEVENTCTL1R", "TRCQCTLR", "TRCRSR", "TRCSEQRSTEVR", "TRCSEQSTR"];
/// Registers that decide where trace and instrumentation are permitted, most of them of the PE.
const PERMITS: [&str; 7] =
    ["TRFCR_EL1", "TRFCR_EL2", "HCR_EL2", "MDCR_EL3", "TRCITECR_EL1", "TRCITECR_EL2", "TRCITEEDCR"];
/// Numbered registers: the first number and the end of the numbers.
const NUMBERED: [(&str, usize, usize); 15] = [
    ("TRCIDR", 0, 14),
    ("TRCACVR", 0, 16),
    ("TRCACATR", 0, 16),
    ("TRCCIDCVR", 0, 8),
    ("TRCCIDCCTLR", 0, 2),
    ("TRCVMIDCVR", 0, 8),
    ("TRCVMIDCCTLR", 0, 2),
    ("TRCRSCTLR", 2, 32),
    ("TRCSSCCR", 0, 8),
    ("TRCSSCSR", 0, 8),
    ("TRCCNTCTLR", 0, 4),
    ("TRCCNTRLDVR", 0, 4),
    ("TRCCNTVR", 0, 4),
    ("TRCSEQEVR", 0, 3),
    ("TRCEXTINSELR", 0, 4),
];

impl Settings {
    /// A trace unit that traces the program flow of everything and nothing else. Protocols other than ETE are treated as
    /// ETMv4.
    pub fn new(protocol: Protocol) -> Self {
        let mut settings = Self {
            protocol,
            registers: Registers::default(),
            all: Vec::new(),
            source_addresses: false,
            guess_seed: None,
            q_seed: None,
            overflow_seed: None,
            signals_triggers: false,
        };
        let own = if protocol == Protocol::Ete { ETE } else { ETM4 };
        DEFAULTS.iter().chain(&own).for_each(|(name, value)| settings.keep((*name).into(), *value));
        settings
    }

    /// Sets a register by its architectural name. False: the model does not have the register.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let name = name.to_ascii_uppercase();
        let is_known = is_known(&name);
        if is_known {
            self.keep(name, value);
        }
        is_known
    }

    fn keep(&mut self, name: String, value: u64) {
        // The registers that decoding needs have 32 bits.
        self.registers.set(&name, value as u32);
        match self.all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, position)) => *position = value,
            None => self.all.push((name, value)),
        }
    }

    /// The value of a register, if it has one.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// All registers that have a value.
    pub fn registers(&self) -> impl Iterator<Item = (&str, u64)> {
        self.all.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The configuration for decoding the trace.
    pub fn config(&self) -> Config {
        Config::new(self.protocol, Profile::Application, &self.registers).0
    }

    /// Are context identifiers traced, or compared?
    pub fn asks_for_context_ids(&self) -> bool {
        self.asks_for(6, 0b01, 6)
    }

    /// Are virtual context identifiers traced, or compared?
    pub fn asks_for_vmids(&self) -> bool {
        self.asks_for(7, 0b10, 7)
    }

    /// Arguments: a bit of TRCCONFIGR, a context type of address comparators, a group of resources.
    fn asks_for(&self, traced: u32, context: u64, group: u64) -> bool {
        let is_compared = |(name, value): (&str, u64)| {
            let compares = name.starts_with("TRCACATR") && value >> 2 & context != 0;
            compares || (name.starts_with("TRCRSCTLR") && value >> 16 & 0xf == group)
        };
        field(self.low("TRCCONFIGR"), traced, 1) == 1 || self.registers().any(is_compared)
    }

    /// A 32-bit register; zero if it was not set.
    pub(super) fn low(&self, name: &str) -> u32 {
        self.get(name).unwrap_or(0) as u32
    }

    /// A numbered register; zero if it was not set.
    pub(super) fn numbered(&self, name: &str, number: usize) -> u64 {
        self.get(&format!("{name}{number}")).unwrap_or(0)
    }

    /// TRCSYNCPR: bytes between synchronizations.
    pub(super) fn sync_period(&self) -> Option<u64> {
        Some(self.low("TRCSYNCPR") & 0x1f).filter(|power| *power > 0).map(|power| 1 << power)
    }

    /// TRCTSCTLR selects the event that always holds: a timestamp whenever the time changes.
    pub(super) fn times_all(&self) -> bool {
        self.low("TRCTSCTLR") & 0xff == 1
    }

    /// May software write values into the trace? (ETE, FEAT_ITE.)
    pub fn traces_instrumentation(&self) -> bool {
        let may_be_set = ["TRCITECR_EL1", "TRCITECR_EL2", "TRCITEEDCR"];
        self.protocol == Protocol::Ete && may_be_set.iter().any(|name| self.low(name) != 0)
    }

    /// Do resources see events of the trace buffer? Then it has to report them as they occur.
    pub fn sees_buffer(&self) -> bool {
        Inputs::new(self).see_buffer()
    }

    /// Does event 0 reach the trace buffer? (DDI 0487, I_YRQCN.)
    pub(super) fn triggers(&self) -> bool {
        self.signals_triggers && (self.protocol == Protocol::Ete || field(self.low("TRCEVENTCTL1R"), 11, 1) == 1)
    }

    /// TRCRSR.TA: tracing counts as active from the start (ETE).
    pub(super) fn is_active(&self) -> bool {
        field(self.low("TRCRSR"), 12, 1) == 1 && self.protocol == Protocol::Ete
    }

    pub(super) fn cycle_threshold(&self) -> u32 {
        self.low("TRCCCCTLR") & 0xfff
    }

    /// TRCCONFIGR.BB: are targets of direct branches traced, at least somewhere?
    pub(super) fn broadcasts(&self) -> bool {
        field(self.low("TRCCONFIGR"), 3, 1) == 1
    }

    /// Are Q elements with a count enabled, and without one? TRCCONFIGR.QE enables them, TRCIDR0.QSUPP has to support them.
    pub(super) fn q_elements(&self) -> (bool, bool) {
        let (enabled, supported) = (field(self.low("TRCCONFIGR"), 13, 2), field(self.low("TRCIDR0"), 15, 2));
        (enabled & supported & 1 == 1, enabled == 3 && supported >> 1 == 1)
    }
}

fn is_known(name: &str) -> bool {
    let is_numbered = |(head, first, end): &(&str, usize, usize)| {
        let number = name.strip_prefix(head).filter(|number| *number == "0" || !number.starts_with(['0', '+']));
        number.and_then(|number| number.parse().ok()).is_some_and(|number: usize| (*first..*end).contains(&number))
    };
    let is_other = OTHERS.contains(&name) || PERMITS.contains(&name);
    is_other || DEFAULTS.iter().any(|(known, _)| *known == name) || NUMBERED.iter().any(is_numbered)
}
