//! Register settings that the model does not implement.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::inputs::is_modeled;
use super::settings::Settings;
use crate::Protocol::{self, Ete, Etm4};
use crate::etm4::config::field;

/// Fields that have no effect: register, lowest bit, width, the protocol if only one has the field, and its purpose.
const FIELDS: [(&str, u32, u32, Option<Protocol>, &str); 11] = [
    ("TRFCR_EL1", 0, 2, Some(Etm4), "prohibited regions"),
    ("TRFCR_EL2", 0, 2, Some(Etm4), "prohibited regions"),
    ("TRCRSR", 0, 13, Some(Etm4), "the state of resources"),
    ("TRCSSCSR", 30, 1, Some(Ete), "single-shot comparators that fired while resources were paused"),
    ("TRCEXTINSELR", 0, 16, Some(Etm4), "external inputs"),
    ("TRCRSR", 8, 4, Some(Ete), "events that occurred while resources were paused"),
    ("TRCEVENTCTL1R", 4, 1, Some(Etm4), "events in data trace"),
    ("TRCEVENTCTL1R", 11, 1, Some(Ete), "triggers on the trace bus"),
    ("TRCEVENTCTL1R", 13, 1, Some(Ete), "events for other components"),
    ("TRCACATR", 0, 2, Some(Etm4), "addresses of loads and stores"),
    ("TRCACATR", 16, 2, Some(Etm4), "data of loads and stores"),
];

/// Fields of TRCCONFIGR that enable other elements (ETMv4), without which a reader cannot decode the trace.
const ELEMENTS: [(u32, u32, &str); 3] =
    [(1, 2, "loads or stores as P0 elements"), (8, 3, "conditional instructions"), (16, 2, "data trace")];

impl Settings {
    /// Features that the registers enable and the model does not implement, each with its register. The trace is as if
    /// they were off.
    pub fn unmodeled(&self) -> Vec<(String, &'static str)> {
        self.registers().flat_map(|(register, value)| self.missing(register, value as u32)).collect()
    }

    fn missing(&self, register: &str, value: u32) -> Vec<(String, &'static str)> {
        let is_enabled = |(name, low, width, protocol, _): &&(&str, u32, u32, Option<Protocol>, &str)| {
            let exists = protocol.is_none_or(|protocol| protocol == self.protocol);
            exists && is_of(register, name) && field(value, *low, *width) != 0
        };
        let fields = FIELDS.iter().filter(is_enabled).map(|(.., what)| *what);
        let selects = is_of(register, "TRCRSCTLR") && field(value, 0, 16) != 0;
        let resource = if selects { missing_resource(field(value, 16, 4), self.protocol) } else { None };
        let selects_other = self.protocol == Ete && is_of(register, "TRCEXTINSELR") && !is_modeled(value as u16);
        let input = (selects_other && value != 0).then_some("external inputs of this PMU event");
        let is_shared = register == "TRCITEEDCR" && field(self.low("TRCCONFIGR"), 18, 1) == 0;
        let shared = (is_shared && value != 0).then_some("instrumentation without TRCCONFIGR.ITO");
        fields.chain(resource).chain(input).chain(shared).map(|what| (String::from(register), what)).collect()
    }

    /// The reason why the trace could not be decoded, if the registers enable elements that the model does not emit.
    pub fn refusal(&self) -> Option<String> {
        let configuration = self.low("TRCCONFIGR");
        let mut elements = ELEMENTS.iter().filter(|_| self.protocol != Ete);
        let missing = elements.find(|(low, width, _)| field(configuration, *low, *width) != 0);
        missing.map(|(.., what)| format!("TRCCONFIGR asks for {what}, which the trace unit model does not support"))
    }
}

/// Is it this register, or one of this name with a number?
fn is_of(register: &str, name: &str) -> bool {
    register.strip_prefix(name).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A group of resources that is not modeled.
fn missing_resource(group: u32, protocol: Protocol) -> Option<&'static str> {
    match group {
        0 if protocol != Ete => Some("external inputs"),
        1 => Some("comparator inputs of the PE"),
        0 | 2..=7 => None,
        _ => Some("undefined resources"),
    }
}
