//! Audit of registers: what they trace, what they do not, and what is wrong with them.

mod events;

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::Protocol;

/// A consequence of the registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Whether it is traced.
    pub verdict: Verdict,
    /// The register that decides it.
    pub register: String,
    /// Its description.
    pub text: String,
}

/// Effect of registers on something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is traced.
    Traced,
    /// It is not traced.
    NotTraced,
    /// The registers are wrong or make no sense.
    Problem,
    /// Undecidable without a register that was not given.
    Unknown,
}

/// Lists what a trace unit with these registers traces. Missing registers are reported only where they matter.
pub fn audit<'r>(protocol: Protocol, registers: impl IntoIterator<Item = (&'r str, u64)>) -> Vec<Remark> {
    let registers = registers.into_iter().map(|(name, value)| (name.to_ascii_uppercase(), value)).collect();
    let mut audit = Audit { protocol, registers, remarks: Vec::new() };
    audit.switch();
    audit.levels();
    audit.start_and_stop();
    audit.ranges();
    audit.elements();
    audit.stream();
    audit.remarks
}

struct Audit {
    protocol: Protocol,
    registers: Vec<(String, u64)>,
    remarks: Vec<Remark>,
}

/// Lowest bit in TRCVICTLR and in TRCIDR3, Security state, number of levels.
const STATES: [(u32, u32, &str, u32); 2] = [(16, 16, "Secure", 4), (20, 20, "Non-secure", 3)];

/// Elements that TRCCONFIGR enables, with the field of an identification register that shows their support.
const ELEMENTS: [(u32, &str, &str, u32, u32); 5] = [
    (3, "targets of all taken branches", "TRCIDR0", 5, 1),
    (4, "cycle counts", "TRCIDR0", 7, 1),
    (6, "context identifiers", "TRCIDR2", 5, 5),
    (7, "virtual context identifiers", "TRCIDR2", 10, 5),
    (11, "timestamps", "TRCIDR0", 24, 5),
];

impl Audit {
    fn get(&self, register: &str) -> Option<u64> {
        self.registers.iter().find(|(name, _)| name == register).map(|(_, value)| *value)
    }

    fn note(&mut self, verdict: Verdict, register: impl Into<String>, text: impl Into<String>) {
        self.remarks.push(Remark { verdict, register: register.into(), text: text.into() });
    }

    fn switch(&mut self) {
        if self.get("TRCPRGCTLR").is_some_and(|value| value & 1 == 0) {
            self.note(Verdict::NotTraced, "TRCPRGCTLR", "anything: the trace unit is off");
        }
        if let Some(permitted) = self.get("TRFCR_EL1") {
            for level in (0..2).filter(|level| permitted >> level & 1 == 0) {
                self.note(Verdict::NotTraced, "TRFCR_EL1", format!("EL{level}: the PE prohibits it"));
            }
        }
    }

    fn levels(&mut self) {
        let Some(view) = self.get("TRCVICTLR") else {
            return self.note(Verdict::Unknown, "TRCVICTLR", "which instructions are traced");
        };
        let (mut traced, mut excluded) = (Vec::new(), Vec::new());
        for (low, identified, state, count) in STATES {
            for level in 0..count {
                let exists = self.get("TRCIDR3").is_none_or(|value| value >> (identified + level) & 1 == 1);
                let list = if view >> (low + level) & 1 == 1 { &mut excluded } else { &mut traced };
                if exists {
                    list.push(if level == 3 { "EL3".to_string() } else { format!("{state} EL{level}") });
                }
            }
        }
        for level in (0..3).filter(|_| self.protocol == Protocol::Ete) {
            let exists = self.get("TRCIDR6").is_none_or(|value| value >> level & 1 == 1);
            let is_excluded = (view >> (20 + level) ^ view >> (24 + level)) & 1 == 1;
            let list = if is_excluded { &mut excluded } else { &mut traced };
            if exists {
                list.push(format!("Realm EL{level}"));
            }
        }
        match view & 0xff {
            0 => self.note(Verdict::NotTraced, "TRCVICTLR", "anything: its event never occurs"),
            1 => {}
            event => {
                let event = self.event(event, "TRCVICTLR");
                self.note(Verdict::Traced, "TRCVICTLR", format!("only while its event holds: {event}"));
            }
        }
        if traced.is_empty() {
            self.note(Verdict::Problem, "TRCVICTLR", "every Exception level is left out");
        } else {
            self.note(Verdict::Traced, "TRCVICTLR", format!("instructions at {}", traced.join(", ")));
        }
        if !excluded.is_empty() {
            self.note(Verdict::NotTraced, "TRCVICTLR", format!("instructions at {}", excluded.join(", ")));
        }
    }

    fn start_and_stop(&mut self) {
        let Some(view) = self.get("TRCVICTLR") else { return };
        let points = self.get("TRCVISSCTLR").unwrap_or(0);
        let is_started = view >> 9 & 1 == 1;
        let starts = self.addresses(points & 0xffff, "TRCVISSCTLR");
        let stops = self.addresses(points >> 16 & 0xffff, "TRCVISSCTLR");
        match (is_started, starts.is_empty()) {
            (false, true) => {
                self.note(Verdict::Problem, "TRCVICTLR", "start/stop logic is stopped, and nothing starts it");
            }
            (false, false) => {
                self.note(Verdict::NotTraced, "TRCVISSCTLR", format!("anything before {}", starts.join(" or ")));
            }
            (true, _) => {}
        }
        if !starts.is_empty() {
            self.note(Verdict::Traced, "TRCVISSCTLR", format!("from {} on", starts.join(" or ")));
        }
        if !stops.is_empty() {
            self.note(Verdict::NotTraced, "TRCVISSCTLR", format!("anything after {}", stops.join(" or ")));
        }
    }

    fn ranges(&mut self) {
        let control = self.get("TRCVIIECTLR").unwrap_or(0);
        let include = self.address_ranges(control & 0xff, "TRCVIIECTLR");
        let exclude = self.address_ranges(control >> 16 & 0xff, "TRCVIIECTLR");
        if !include.is_empty() {
            self.note(Verdict::Traced, "TRCVIIECTLR", format!("only instructions in {}", include.join(", ")));
        }
        if !exclude.is_empty() {
            self.note(Verdict::NotTraced, "TRCVIIECTLR", format!("instructions in {}", exclude.join(", ")));
        }
    }

    /// The address ranges of the comparator pairs that a register selects.
    fn address_ranges(&mut self, pairs: u64, register: &str) -> Vec<String> {
        (0..8_u32)
            .filter(|pair| pairs >> pair & 1 == 1)
            .map(|pair| {
                self.check_range(pair, register);
                let ends = [2 * pair, 2 * pair + 1].map(|number| self.get(&format!("TRCACVR{number}")));
                let [first, last] = ends.map(|end| end.map_or("?".to_string(), |end| format!("{end:#x}")));
                let range = match ends {
                    [Some(0), Some(u64::MAX)] => "all addresses".to_string(),
                    _ => format!("{first} to {last}"),
                };
                format!("{range}{}", self.words().attributes(2 * pair))
            })
            .collect()
    }

    /// A pair of comparators that a register selects has to exist, and to be in order.
    fn check_range(&mut self, pair: u32, register: &str) {
        self.check_comparator(2 * pair + 1, register);
        let [low, high] = [2 * pair, 2 * pair + 1].map(|number| self.get(&format!("TRCACVR{number}")));
        if let Some((low, high)) = low.zip(high).filter(|(low, high)| low > high) {
            let text = format!("the range {low:#x}..{high:#x} ends before it starts");
            self.note(Verdict::Problem, format!("TRCACVR{}", 2 * pair), text);
        }
    }

    /// The addresses of the single comparators that a register selects.
    fn addresses(&mut self, comparators: u64, register: &str) -> Vec<String> {
        (0..16_u32)
            .filter(|number| comparators >> number & 1 == 1)
            .map(|number| {
                self.check_comparator(number, register);
                let address = self.get(&format!("TRCACVR{number}"));
                let address = address.map_or("?".to_string(), |address| format!("{address:#x}"));
                format!("{address}{}", self.words().attributes(number))
            })
            .collect()
    }

    /// A comparator that a register selects has to exist and to have an address.
    fn check_comparator(&mut self, number: u32, register: &str) {
        let pairs = self.get("TRCIDR4").map(|value| value & 0xf);
        if let Some(pairs) = pairs.filter(|pairs| u64::from(number / 2) >= *pairs) {
            let text = format!("address comparator {number} is used, but there are only {}", 2 * pairs);
            self.note(Verdict::Problem, register, text);
        } else if self.get(&format!("TRCACVR{number}")).is_none() {
            self.note(Verdict::Unknown, format!("TRCACVR{number}"), "the address to compare with");
        }
        self.check_context(number);
    }

    /// The comparators of identifiers that an address comparator uses.
    fn check_context(&mut self, number: u32) {
        let name = format!("TRCACATR{number}");
        let value = self.get(&name).unwrap_or(0);
        let context = (value >> 4 & 7) as u32;
        if value >> 2 & 1 == 1 {
            self.check_part("context identifier comparator", context, 24, &name, "TRCCIDCVR");
        }
        if value >> 3 & 1 == 1 {
            self.check_part("virtual context identifier comparator", context, 28, &name, "TRCVMIDCVR");
        }
    }

    fn elements(&mut self) {
        let Some(configuration) = self.get("TRCCONFIGR") else {
            return self.note(Verdict::Unknown, "TRCCONFIGR", "which elements are traced");
        };
        if configuration & 1 == 0 {
            self.note(Verdict::Problem, "TRCCONFIGR", "bit 0 is reserved and must be one");
        }
        for (bit, what, identified, low, width) in ELEMENTS {
            let can = self.get(identified).is_none_or(|value| value >> low & ((1 << width) - 1) != 0);
            match configuration >> bit & 1 == 1 {
                true if can => self.note(Verdict::Traced, "TRCCONFIGR", what),
                true => {
                    self.note(
                        Verdict::Problem,
                        "TRCCONFIGR",
                        format!("{what}: not supported according to {identified}"),
                    );
                }
                false => self.note(Verdict::NotTraced, "TRCCONFIGR", what),
            }
        }
        let has_stack = self.get("TRCIDR0").is_none_or(|value| value >> 9 & 1 == 1);
        match configuration >> 12 & 1 == 1 {
            true if has_stack => self.note(Verdict::NotTraced, "TRCCONFIGR", "targets that the return stack predicts"),
            true => self.note(Verdict::Problem, "TRCCONFIGR", "return stack: not supported according to TRCIDR0"),
            false => {}
        }
        self.thresholds(configuration);
        self.q_elements(configuration);
        if configuration >> 11 & 1 == 1 {
            self.timestamp_requests();
        }
        self.events();
    }

    fn q_elements(&mut self, configuration: u64) {
        let qsupp = self.get("TRCIDR0").map_or(3, |value| value >> 15 & 3);
        let qe = configuration >> 13 & 3;
        match qe {
            0 => {}
            2 => self.note(
                Verdict::Problem,
                "TRCCONFIGR",
                "Q elements: 2 is reserved; 1 is with counts, 3 is with and without",
            ),
            _ if qsupp == 0 => {
                self.note(Verdict::Problem, "TRCCONFIGR", "Q elements: not supported according to TRCIDR0");
            }
            _ => self.note(Verdict::NotTraced, "TRCCONFIGR", "branches that Q elements replace"),
        }
    }

    /// Cycle counts need a threshold; branch broadcast in ranges needs a range.
    fn thresholds(&mut self, configuration: u64) {
        let counts = configuration >> 4 & 1 == 1;
        let minimum = self.get("TRCIDR3").map_or(1, |value| (value & 0xfff).max(1));
        if let Some(threshold) = self.get("TRCCCCTLR").map(|value| value & 0xfff).filter(|_| counts) {
            if threshold < minimum {
                let text = format!("a threshold of {threshold} cycles, but the minimum is {minimum}");
                self.note(Verdict::Problem, "TRCCCCTLR", text);
            } else {
                self.note(Verdict::NotTraced, "TRCCCCTLR", format!("counts of fewer than {threshold} cycles"));
            }
        }
        let broadcasts = configuration >> 3 & 1 == 1;
        let ranges = self.get("TRCBBCTLR").filter(|_| broadcasts).unwrap_or(0);
        if ranges & 0x1ff == 0x100 {
            self.note(Verdict::Problem, "TRCBBCTLR", "branches are broadcast in ranges only, but no range is selected");
        } else if ranges & 0xff != 0 {
            let place = if ranges & 0x100 == 0 { "outside of" } else { "in" };
            let selected = self.address_ranges(ranges & 0xff, "TRCBBCTLR").join(", ");
            self.note(Verdict::Traced, "TRCBBCTLR", format!("targets of all taken branches only {place} {selected}"));
        }
    }

    fn stream(&mut self) {
        match self.get("TRCSYNCPR").map(|value| value & 0x1f) {
            Some(0) => {
                let text = "no periodic synchronization: a buffer that wrapped cannot be decoded";
                self.note(Verdict::Problem, "TRCSYNCPR", text);
            }
            Some(period @ (1..8 | 21..)) => {
                self.note(
                    Verdict::Problem,
                    "TRCSYNCPR",
                    format!("period {period} is reserved: choose one from 8 to 20"),
                );
            }
            _ => {}
        }
        if let Some(id) = self.get("TRCTRACEIDR").map(|value| value & 0x7f).filter(|id| matches!(id, 0 | 0x70..)) {
            self.note(Verdict::Problem, "TRCTRACEIDR", format!("trace id {id:#x} is reserved"));
        }
    }
}
