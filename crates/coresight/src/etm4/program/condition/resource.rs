//! Resources in words, one after the other: the groups of TRCRSCTLR.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::{Part, Words};
use crate::Protocol;
use crate::etm4::explain;

/// Events of the PMU that a trace unit is wired to, besides those of the PE.
const PMU_EVENTS: [(u64, &str); 15] = [
    (0x08, "INST_RETIRED"),
    (0x11, "CPU_CYCLES"),
    (0x1e, "CHAIN"),
    (0x400c, "TRB_WRAP"),
    (0x400d, "PMU_OVFS"),
    (0x400e, "TRB_TRIG"),
    (0x400f, "PMU_HOVFS"),
    (0x4010, "TRCEXTOUT0"),
    (0x4011, "TRCEXTOUT1"),
    (0x4012, "TRCEXTOUT2"),
    (0x4013, "TRCEXTOUT3"),
    (0x4018, "CTI_TRIGOUT4"),
    (0x4019, "CTI_TRIGOUT5"),
    (0x401a, "CTI_TRIGOUT6"),
    (0x401b, "CTI_TRIGOUT7"),
];

impl Words<'_> {
    /// The resources that a register selects, which is the one named `by`.
    pub(super) fn resources(&self, group: u64, select: u64, by: &str, parts: &mut Vec<Part>) -> Vec<String> {
        let numbers = (0..16_u32).filter(|number| select >> number & 1 == 1);
        numbers.map(|number| self.resource(group, number, by, parts)).collect()
    }

    fn resource(&self, group: u64, number: u32, by: &str, parts: &mut Vec<Part>) -> String {
        match (group, number) {
            (0, 0..=3) => self.external_input(number),
            (1, 0..=7) => format!("PE comparator input {number} matches"),
            // Counters are the low four, states of the sequencer the high four.
            (2, 0..=3) => format!("counter {number} is zero"),
            (2, 4..=7) => format!("the sequencer is in state {}", number - 4),
            (3, 0..=7) => {
                parts.push(Part::SingleShot(number, by.to_string()));
                self.single_shot(number, parts)
            }
            (4, _) => {
                parts.push(Part::Address(number, by.to_string()));
                self.address(number)
            }
            (5, 0..=7) => {
                parts.push(Part::Range(number, by.to_string()));
                self.range(number)
            }
            (6, 0..=7) => {
                parts.push(Part::ContextId(number, by.to_string()));
                self.identifier("context identifier", "TRCCIDC", number)
            }
            (7, 0..=7) => {
                parts.push(Part::Vmid(number, by.to_string()));
                self.identifier("virtual context identifier", "TRCVMIDC", number)
            }
            _ => format!("undefined resource {number} of group {group}"),
        }
    }

    /// An input of an ETE is an event of the PMU; an ETMv4 has one register for all selectors.
    fn external_input(&self, number: u32) -> String {
        let unknown = || format!("external input selector {number} is active");
        if self.protocol != Protocol::Ete {
            let selected = self.get("TRCEXTINSELR").map(|value| value >> (8 * number) & 0xff);
            return selected.map_or_else(unknown, |input| format!("external input {input} is active"));
        }
        let Some(event) = self.get(&format!("TRCEXTINSELR{number}")).map(|value| value & 0xffff) else {
            return unknown();
        };
        match PMU_EVENTS.iter().find(|(known, _)| *known == event) {
            Some((_, name)) => format!("PMU event {name} ({event:#x}) occurs"),
            None => format!("PMU event {event:#x} occurs"),
        }
    }

    /// What a single-shot comparator looks for, once unless it resets itself.
    fn single_shot(&self, number: u32, parts: &mut Vec<Part>) -> String {
        let name = format!("TRCSSCCR{number}");
        let Some(control) = self.get(&name) else { return format!("single-shot comparator {number} fires") };
        let mut all = self.resources(4, control & 0xffff, &name, parts);
        all.extend(self.resources(5, control >> 16 & 0xff, &name, parts));
        let inputs = self.get(&format!("TRCSSPCICR{number}")).unwrap_or(0);
        all.extend(self.resources(1, inputs & 0xff, &name, parts));
        let once = if control >> 24 & 1 == 1 { "" } else { " for the first time" };
        match &all[..] {
            [] => format!("single-shot comparator {number}, which looks for nothing, fires"),
            [one] => format!("{one}{once}"),
            all => format!("({}){once}", all.join(" or ")),
        }
    }

    /// An instruction at the address of a comparator.
    pub(in super::super) fn address(&self, number: u32) -> String {
        match self.get(&format!("TRCACVR{number}")) {
            None => format!("address comparator {number} matches{}", self.attributes(number)),
            Some(address) => {
                format!("address {} {}{}", self.named(address), self.verb(number), self.attributes(number))
            }
        }
    }

    /// An instruction in the range of a pair of comparators.
    fn range(&self, pair: u32) -> String {
        let [low, high] = [2 * pair, 2 * pair + 1].map(|number| self.get(&format!("TRCACVR{number}")));
        let attributes = self.attributes(2 * pair);
        match low.zip(high) {
            None => format!("address range comparator {pair} matches{attributes}"),
            Some((low, high)) => {
                format!("code from {} to {} {}{attributes}", self.named(low), self.named(high), self.verb(2 * pair))
            }
        }
    }

    fn verb(&self, number: u32) -> &'static str {
        let kind = self.get(&format!("TRCACATR{number}")).unwrap_or(0) & 3;
        if self.protocol == Protocol::Ete || kind == 0 { "executed" } else { "accessed" }
    }

    /// An address, with its name if it has one.
    fn named(&self, address: u64) -> String {
        match (self.names)(address) {
            Some(name) => format!("{address:#x} <{name}>"),
            None => format!("{address:#x}"),
        }
    }

    /// The other conditions of an address comparator, after a blank: its context, then levels and kinds of accesses.
    pub(in super::super) fn attributes(&self, number: u32) -> String {
        let name = format!("TRCACATR{number}");
        let value = self.get(&name).unwrap_or(0);
        let context = (value >> 4 & 7) as u32;
        let kinds = [(2, "context identifier", "TRCCIDC"), (3, "virtual context identifier", "TRCVMIDC")];
        let contexts = kinds.iter().filter(|(bit, ..)| value >> bit & 1 == 1).map(|(_, what, registers)| {
            let known = self.get(&format!("{registers}VR{context}")).map(|id| format!("{id:#x}"));
            format!("{what} {}", known.unwrap_or_else(|| format!("of comparator {context}")))
        });
        let contexts: Vec<String> = contexts.collect();
        let fields = explain(&name, value, self.protocol).map(|explained| explained.fields).unwrap_or_default();
        let is_other = |field: &&str| !field.starts_with("CONTEXT");
        let others = fields.iter().filter(|field| field.notable && is_other(&field.name));
        let others: Vec<&str> = others.map(|field| &*field.meaning).collect();
        let mut text = String::new();
        if !contexts.is_empty() {
            text += &format!(" with {}", contexts.join(" and "));
        }
        if !others.is_empty() {
            text += &format!(" ({})", others.join(", "));
        }
        text
    }

    /// An identifier and the bytes of it that are compared.
    fn identifier(&self, what: &str, registers: &str, number: u32) -> String {
        let Some(value) = self.get(&format!("{registers}VR{number}")) else {
            return format!("{what} comparator {number} matches");
        };
        let masks = self.get(&format!("{registers}CTLR{}", number / 4)).unwrap_or(0) >> (8 * (number % 4)) & 0xff;
        // Identifiers have at most four bytes.
        let ignored: Vec<String> = (0..4).filter(|byte| masks >> byte & 1 == 1).map(|byte| byte.to_string()).collect();
        match ignored.len() {
            0 => format!("{what} is {value:#x}"),
            4 => format!("{what} is anything"),
            _ => format!("{what} is {value:#x} without bytes {}", ignored.join("/")),
        }
    }
}
