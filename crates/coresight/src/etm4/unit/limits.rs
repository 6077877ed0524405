//! What registers ask of a trace unit and the model does not do.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::settings::Settings;
use crate::Protocol::{self, Ete, Etm4};
use crate::etm4::config::field;

/// Fields that other values than zero have no effect in: register, lowest bit, width, the protocol if only one has it, and
/// what is asked for.
const FIELDS: [(&str, u32, u32, Option<Protocol>, &str); 8] = [
    ("TRCVICTLR", 10, 1, None, "resets are always traced"),
    ("TRCVICTLR", 11, 1, None, "system errors are always traced"),
    ("TRCEVENTCTL1R", 4, 1, Some(Etm4), "events in data trace"),
    ("TRCEVENTCTL1R", 11, 1, None, "triggers on the trace bus"),
    ("TRCEVENTCTL1R", 13, 1, Some(Ete), "events for other components"),
    ("TRCCONFIGR", 18, 1, Some(Ete), "instrumentation"),
    ("TRCACATR", 0, 2, Some(Etm4), "addresses of loads and stores"),
    ("TRCACATR", 16, 2, Some(Etm4), "data of loads and stores"),
];

/// Fields of TRCCONFIGR that make other elements (ETMv4): a reader would look for what is not there.
const ELEMENTS: [(u32, u32, &str); 3] =
    [(1, 2, "loads or stores as P0 elements"), (8, 3, "conditional instructions"), (16, 2, "data trace")];

impl Settings {
    /// What the registers ask for and the model does not do, each with its register. The trace is as if it were not asked
    /// for.
    pub fn unmodelled(&self) -> Vec<(String, &'static str)> {
        self.registers().flat_map(|(register, value)| self.missing(register, value as u32)).collect()
    }

    fn missing(&self, register: &str, value: u32) -> Vec<(String, &'static str)> {
        let is_asked = |(name, low, width, protocol, _): &&(&str, u32, u32, Option<Protocol>, &str)| {
            let is_meant = protocol.is_none_or(|protocol| protocol == self.protocol);
            is_meant && is_of(register, name) && field(value, *low, *width) != 0
        };
        let fields = FIELDS.iter().filter(is_asked).map(|(.., what)| *what);
        let selects = is_of(register, "TRCRSCTLR") && field(value, 0, 16) != 0;
        let resource = if selects { missing_resource(field(value, 16, 4)) } else { None };
        fields.chain(resource).map(|what| (String::from(register), what)).collect()
    }

    /// Why nobody could read the trace of a unit with these registers, if so: they ask for elements that the model does
    /// not make.
    pub fn refusal(&self) -> Option<String> {
        let configuration = self.low("TRCCONFIGR");
        let asked = ELEMENTS.iter().filter(|_| self.protocol != Ete);
        let asked = asked.filter(|(low, width, _)| field(configuration, *low, *width) != 0);
        asked.map(|(_, _, what)| format!("TRCCONFIGR asks for {what}, which the trace unit model does not make")).next()
    }
}

/// Is it this register, or one of several of this name?
fn is_of(register: &str, name: &str) -> bool {
    register.strip_prefix(name).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What a group of resources is, if it is none of the model.
fn missing_resource(group: u32) -> Option<&'static str> {
    match group {
        0 => Some("external inputs"),
        1 => Some("comparator inputs of the PE"),
        2 => Some("counters and the sequencer"),
        3..=7 => None,
        _ => Some("resources that are not defined"),
    }
}
