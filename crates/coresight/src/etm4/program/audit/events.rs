//! Audit of events: their resource selectors, and the comparators that those select.
//!
//! Takes an event, as eight bits of a register: TYPE in bit 7, then SEL, one resource selector or a pair of them. Produces
//! its condition as text, and remarks about selectors and comparators that do not exist.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::{Audit, Verdict};
use crate::etm4::explain;

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

    /// The condition of an event that `register` selects.
    pub(super) fn event(&mut self, event: u64, register: &str) -> String {
        let is_pair = event & 0x80 != 0;
        if !is_pair {
            return self.resource_selector(event & 0x1f, register);
        }
        let first = 2 * (event & 0xf);
        let both = [first, first + 1].map(|number| self.resource_selector(number, register)).join(" and ");
        let pairinv = self.get(&format!("TRCRSCTLR{first}")).is_some_and(|value| value >> 21 & 1 == 1);
        if pairinv { format!("not ({both})") } else { both }
    }

    fn resource_selector(&mut self, number: u64, register: &str) -> String {
        match number {
            0 => return "never".to_string(),
            1 => return "always".to_string(),
            _ => {}
        }
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
        let Some(value) = self.get(&name) else {
            self.note(Verdict::Unknown, name, format!("what resource selector {number} selects"));
            return format!("resource selector {number}");
        };
        self.selected(&name, value)
    }

    /// Describes address comparators by their addresses, other resources by their number.
    fn selected(&mut self, name: &str, value: u64) -> String {
        let (select, group, inv) = (value & 0xffff, value >> 16 & 0xf, value >> 20 & 1);
        let addresses = match group {
            4 => self.addresses(select, name),
            5 => self.address_ranges(select & 0xff, name),
            _ => Vec::new(),
        };
        let without_inv = value & 0xf_ffff;
        let text = match addresses.len() {
            0 => explain(name, without_inv, self.protocol).map(|explained| explained.summary()).unwrap_or_default(),
            1 => addresses.concat(),
            // The parentheses separate it from "not" and "and".
            _ => format!("({})", addresses.join(" or ")),
        };
        if inv == 1 { format!("not {text}") } else { text }
    }
}
