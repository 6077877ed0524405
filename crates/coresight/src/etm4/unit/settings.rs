//! How a trace unit is programmed: register values, and what no register says.

use alloc::vec::Vec;

use crate::Protocol;
use crate::etm4::config::field;
use crate::etm4::{Config, Profile, Registers};

/// How many address comparators there can be.
pub(super) const COMPARATORS: usize = 16;

/// The registers of a trace unit, and how it behaves where the architecture leaves that open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// ETE or ETMv4.
    pub protocol: Protocol,
    registers: Registers,
    /// The values as they were set, in order.
    all: Vec<(&'static str, u64)>,
    pub(super) sync_period: Option<u64>,
    /// TRCTSCTLR selects an event that is always there: a timestamp as often as the time changes.
    pub(super) times_all: bool,
    cycle_threshold: u32,
    pub(super) broadcast_control: u32,
    pub(super) view_control: u32,
    pub(super) include_exclude: u32,
    pub(super) start_stop: u32,
    pub(super) comparators: [(u64, u64); COMPARATORS],
    /// Taken branches are told by their own address (ETE).
    pub source_addresses: bool,
    /// With TRCIDR8 other than zero: guesses are made from this seed.
    pub guess_seed: Option<u64>,
}

/// Registers of a trace unit that just traces.
const USUAL: &[(&str, u64)] = &[
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
/// By these an ETE is known, and an ETMv4.
const ETE: [(&str, u64); 3] = [("TRCDEVARCH", 0x4770_5a13), ("TRCIDR1", 0x4100_fff0), ("TRCIDR2", 0xc000_1088)];
const ETM4: [(&str, u64); 3] = [("TRCDEVARCH", 0x4770_4a13), ("TRCIDR1", 0x4100_f424), ("TRCIDR2", 0x0000_1088)];
/// Names of the comparators' registers.
const ACVR: [&str; COMPARATORS] = [
    "TRCACVR0",
    "TRCACVR1",
    "TRCACVR2",
    "TRCACVR3",
    "TRCACVR4",
    "TRCACVR5",
    "TRCACVR6",
    "TRCACVR7",
    "TRCACVR8",
    "TRCACVR9",
    "TRCACVR10",
    "TRCACVR11",
    "TRCACVR12",
    "TRCACVR13",
    "TRCACVR14",
    "TRCACVR15",
];
const ACATR: [&str; COMPARATORS] = [
    "TRCACATR0",
    "TRCACATR1",
    "TRCACATR2",
    "TRCACATR3",
    "TRCACATR4",
    "TRCACATR5",
    "TRCACATR6",
    "TRCACATR7",
    "TRCACATR8",
    "TRCACATR9",
    "TRCACATR10",
    "TRCACATR11",
    "TRCACATR12",
    "TRCACATR13",
    "TRCACATR14",
    "TRCACATR15",
];

impl Settings {
    /// A trace unit that traces everything, with nothing but what the program flow needs. Protocols other than ETE are
    /// taken for ETMv4.
    pub fn new(protocol: Protocol) -> Self {
        let mut settings = Self {
            protocol,
            registers: Registers::default(),
            all: Vec::new(),
            sync_period: None,
            times_all: false,
            cycle_threshold: 0,
            broadcast_control: 0,
            view_control: 0,
            include_exclude: 0,
            start_stop: 0,
            comparators: [(0, 0); COMPARATORS],
            source_addresses: false,
            guess_seed: None,
        };
        let own = if protocol == Protocol::Ete { ETE } else { ETM4 };
        USUAL.iter().chain(&own).for_each(|(name, value)| settings.keep(name, *value));
        settings
    }

    /// Sets a register by its architectural name. False: the name is none that the model knows.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let known = USUAL.iter().chain(&ETE).map(|(name, _)| *name).chain(ACVR).chain(ACATR).chain(IDRS);
        let Some(name) = known.into_iter().find(|known| known.eq_ignore_ascii_case(name)) else { return false };
        self.keep(name, value);
        true
    }

    fn keep(&mut self, name: &'static str, value: u64) {
        match self.all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => *place = value,
            None => self.all.push((name, value)),
        }
        // All but the comparators have 32 bits.
        let low = value as u32;
        self.registers.set(name, low);
        match name {
            "TRCSYNCPR" => self.sync_period = Some(low & 0x1f).filter(|power| *power > 0).map(|power| 1 << power),
            "TRCCCCTLR" => self.cycle_threshold = low & 0xfff,
            "TRCBBCTLR" => self.broadcast_control = low,
            "TRCTSCTLR" => self.times_all = low & 0xff == 1,
            "TRCVICTLR" => self.view_control = low,
            "TRCVIIECTLR" => self.include_exclude = low,
            "TRCVISSCTLR" => self.start_stop = low,
            _ => {
                for (at, place) in self.comparators.iter_mut().enumerate() {
                    if name == ACVR[at] {
                        place.0 = value;
                    } else if name == ACATR[at] {
                        place.1 = value;
                    }
                }
            }
        }
    }

    /// The value of a register, if it has one.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// All registers that have a value.
    pub fn registers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.all.iter().copied()
    }

    /// What a reader of the trace makes of the registers.
    pub fn config(&self) -> Config {
        Config::new(self.protocol, Profile::Application, &self.registers).0
    }

    pub(super) fn cycle_threshold(&self) -> u32 {
        self.cycle_threshold
    }

    /// TRCCONFIGR.BB: are targets of direct branches told, at least somewhere?
    pub(super) fn broadcasts(&self) -> bool {
        field(self.registers.configr.unwrap_or(0), 3, 1) == 1
    }
}

const IDRS: [&str; 9] =
    ["TRCIDR3", "TRCIDR4", "TRCIDR5", "TRCIDR6", "TRCIDR9", "TRCIDR10", "TRCIDR11", "TRCIDR12", "TRCIDR13"];
