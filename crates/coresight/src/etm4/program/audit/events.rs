//! Audit of events: their conditions, and the parts of the trace unit that those rest on.
//!
//! Takes an event, as eight bits of a register. Produces its condition as text, and remarks about selectors and comparators
//! that do not exist or have no value.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::super::condition::{Part, Words};
use super::{Audit, Verdict};

impl Audit {
    pub(super) fn events(&mut self) {
        let insten = self.get("TRCEVENTCTL1R").unwrap_or(0) & 0xf;
        let selections = self.get("TRCEVENTCTL0R").unwrap_or(0);
        for event in (0..4).filter(|event| insten >> event & 1 == 1) {
            let selection = selections >> (8 * event) & 0xff;
            let condition = self.event(selection, "TRCEVENTCTL0R");
            let (verdict, text) = match selection {
                0 => (Verdict::NotTraced, ", which never occurs".to_string()),
                _ => (Verdict::Traced, format!(", when this starts to hold: {condition}")),
            };
            self.note(verdict, "TRCEVENTCTL1R", format!("event {event}{text}"));
        }
    }

    /// Requests for timestamps, where those are traced.
    pub(super) fn timestamp_requests(&mut self) {
        match self.get("TRCTSCTLR").map(|value| value & 0xff) {
            None | Some(0) => {}
            Some(event) => {
                let condition = self.event(event, "TRCTSCTLR");
                self.note(Verdict::Traced, "TRCTSCTLR", format!("timestamps while this holds: {condition}"));
            }
        }
    }

    /// The condition of an event that `register` selects.
    pub(super) fn event(&mut self, event: u64, register: &str) -> String {
        let mut parts = Vec::new();
        let condition = self.words().event(event, &mut parts).text();
        parts.iter().for_each(|part| self.check(part, register));
        condition
    }

    pub(super) fn words(&self) -> Words<'_> {
        Words { protocol: self.protocol, registers: &self.registers, names: &|_| None }
    }

    fn check(&mut self, part: &Part, register: &str) {
        match part {
            Part::Selector(number) => self.check_selector(*number, register),
            Part::Address(number, by) => self.check_comparator(*number, by),
            Part::Range(pair, by) => self.check_range(*pair, by),
            Part::SingleShot(number, by) => self.check_part("single-shot comparator", *number, 20, by, "TRCSSCCR"),
            Part::ContextId(number, by) => {
                self.check_part("context identifier comparator", *number, 24, by, "TRCCIDCVR");
            }
            Part::Vmid(number, by) => {
                self.check_part("virtual context identifier comparator", *number, 28, by, "TRCVMIDCVR");
            }
        }
    }

    fn check_selector(&mut self, number: u64, register: &str) {
        // Zero: none from ETMv4.3 on, before that only the first pair, which is constant.
        let numrspair = self.get("TRCIDR4").map(|value| value >> 16 & 0xf);
        if let Some(last_pair) = numrspair.filter(|last_pair| number / 2 > *last_pair) {
            let limit = match last_pair {
                0 => "none can be programmed".to_string(),
                _ => format!("there are only {}", 2 * (last_pair + 1)),
            };
            self.note(Verdict::Problem, register, format!("resource selector {number} is used, but {limit}"));
        }
        let name = format!("TRCRSCTLR{number}");
        if self.get(&name).is_none() {
            self.note(Verdict::Unknown, name, format!("what resource selector {number} selects"));
        }
    }

    /// Something of which there are as many as a field of TRCIDR4 has, at bit `low`, and that needs a value.
    pub(super) fn check_part(&mut self, what: &str, number: u32, low: u32, register: &str, value: &str) {
        let count = self.get("TRCIDR4").map(|value| value >> low & 0xf);
        if let Some(count) = count.filter(|count| u64::from(number) >= *count) {
            let limit = if count == 0 { "there are none".to_string() } else { format!("there are only {count}") };
            self.note(Verdict::Problem, register, format!("{what} {number} is used, but {limit}"));
        } else if self.get(&format!("{value}{number}")).is_none() {
            self.note(Verdict::Unknown, format!("{value}{number}"), format!("what {what} {number} compares with"));
        }
    }
}
