//! Audit of events: their selectors, and the comparators that those select.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::{Audit, Verdict};
use crate::etm4::explain;

impl Audit {
    pub(super) fn events(&mut self) {
        let enabled = self.get("TRCEVENTCTL1R").unwrap_or(0) & 0xf;
        let sources = self.get("TRCEVENTCTL0R").unwrap_or(0);
        for event in (0..4).filter(|event| enabled >> event & 1 == 1) {
            let source = sources >> (8 * event) & 0xff;
            let condition = self.event(source, "TRCEVENTCTL0R");
            let (verdict, text) = match source {
                0 => (Verdict::NotTraced, ", which never occurs".to_string()),
                _ => (Verdict::Traced, format!(", when this starts to hold: {condition}")),
            };
            self.note(verdict, "TRCEVENTCTL1R", format!("event {event}{text}"));
        }
    }

    pub(super) fn q_elements(&mut self, configuration: u64) {
        let supported = self.get("TRCIDR0").map_or(3, |value| value >> 15 & 3);
        match configuration >> 13 & 3 {
            0 => {}
            2 => self.note(
                Verdict::Problem,
                "TRCCONFIGR",
                "Q elements: 2 is reserved; 1 is with counts, 3 is with and without",
            ),
            _ if supported == 0 => {
                self.note(Verdict::Problem, "TRCCONFIGR", "Q elements: not supported according to TRCIDR0");
            }
            _ => self.note(Verdict::NotTraced, "TRCCONFIGR", "branches that Q elements replace"),
        }
    }

    /// The condition of an event.
    pub(super) fn event(&mut self, event: u64, user: &str) -> String {
        if event & 0x80 == 0 {
            return self.selector(event & 0x1f, user);
        }
        let pair = event & 0xf;
        let both = [2 * pair, 2 * pair + 1].map(|number| self.selector(number, user));
        let is_inverted = self.get(&format!("TRCRSCTLR{}", 2 * pair)).is_some_and(|value| value >> 21 & 1 == 1);
        let joined = format!("{} and {}", both[0], both[1]);
        if is_inverted { format!("not ({joined})") } else { joined }
    }

    fn selector(&mut self, number: u64, user: &str) -> String {
        match number {
            0 => return "never".to_string(),
            1 => return "always".to_string(),
            _ => {}
        }
        let pairs = self.get("TRCIDR4").map(|value| (value >> 16 & 0xf) + 1);
        if let Some(pairs) = pairs.filter(|pairs| number >= 2 * pairs) {
            self.note(Verdict::Problem, user, format!("selector {number} is used, but there are only {}", 2 * pairs));
        }
        let name = format!("TRCRSCTLR{number}");
        let Some(value) = self.get(&name) else {
            self.note(Verdict::Unknown, name, format!("what selector {number} selects"));
            return format!("selector {number}");
        };
        self.selected(number, value)
    }

    /// Describes address comparators by their addresses, other resources by their number.
    fn selected(&mut self, number: u64, value: u64) -> String {
        let name = format!("TRCRSCTLR{number}");
        let is_inverted = value >> 20 & 1 == 1;
        let addresses: Vec<String> = match value >> 16 & 0xf {
            4 => self.addresses(value & 0xffff, &name),
            5 => self.pairs(value & 0xff),
            _ => Vec::new(),
        };
        let explained = explain(&name, value & 0xf_ffff, self.protocol).map(|explained| explained.summary());
        let text = if addresses.is_empty() { explained.unwrap_or_default() } else { addresses.join(" or ") };
        if is_inverted { format!("not {text}") } else { text }
    }
}
