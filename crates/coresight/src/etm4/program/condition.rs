//! Conditions in plain words: what resource selectors select, down to addresses, identifiers and inputs.
//!
//! event (8 bits of a register) ─▶ resource selectors ─▶ comparators, counters, sequencer, inputs ─▶ **words**
//!
//! Takes register values, and names of addresses. Produces text, and the parts of the trace unit that it rests on, for
//! `audit` to check. A register that is not known leaves the number of the part in the text: nothing is assumed.
//! Specification: Arm IHI 0064 (ETMv4), "Resource selection", and DDI 0487 (ETE), TRCRSCTLR and TRCEVENTCTL0R.

mod resource;

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::Protocol;

/// Name of an address, if it has one.
pub type AddressName<'n> = &'n dyn Fn(u64) -> Option<String>;

/// Meanings of the events 0 to 3 of a trace unit. `None`: no event, or the registers that show it are missing.
///
/// ```
/// use unspool_coresight::Protocol;
/// use unspool_coresight::etm4::program::event_meanings;
///
/// let registers = [("TRCEVENTCTL0R", 2), ("TRCRSCTLR2", 0x4_0001), ("TRCACVR0", 0x40_0580)];
/// let meanings = event_meanings(Protocol::Ete, registers, &|_| None);
/// assert_eq!(meanings[0].as_deref(), Some("address 0x400580 executed"));
/// assert_eq!(meanings[1], None);
/// ```
pub fn event_meanings<'r>(
    protocol: Protocol,
    registers: impl IntoIterator<Item = (&'r str, u64)>,
    names: AddressName<'_>,
) -> [Option<String>; 4] {
    let registers: Vec<(String, u64)> =
        registers.into_iter().map(|(name, value)| (name.to_ascii_uppercase(), value)).collect();
    let words = Words { protocol, registers: &registers, names };
    let selections = words.get("TRCEVENTCTL0R").unwrap_or(0);
    core::array::from_fn(|number| {
        let condition = words.event(selections >> (8 * number) & 0xff, &mut Vec::new());
        match condition {
            Condition::Never | Condition::Unknown(_) => None,
            condition => Some(condition.text()),
        }
    })
}

/// Whether something holds, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    Never,
    Always,
    /// Resource selectors whose registers are not known.
    Unknown(String),
    Holds(Phrase),
}

/// A condition. Words with an "and" or an "or" are in parentheses before they are combined again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phrase {
    words: String,
    is_inverted: bool,
    is_joined: bool,
}

/// A part of the trace unit that a condition rests on, and the register that selects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Selector(u64),
    Address(u32, String),
    Range(u32, String),
    SingleShot(u32, String),
    ContextId(u32, String),
    Vmid(u32, String),
}

/// Registers by name in upper case, and names of addresses.
pub(super) struct Words<'r> {
    pub(super) protocol: Protocol,
    pub(super) registers: &'r [(String, u64)],
    pub(super) names: AddressName<'r>,
}

impl Condition {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Never => "never".to_string(),
            Self::Always => "always".to_string(),
            Self::Unknown(selectors) => selectors.clone(),
            Self::Holds(phrase) => phrase.text(),
        }
    }

    /// As a part of a longer one.
    fn phrase(self) -> Phrase {
        match self {
            Self::Holds(phrase) => phrase,
            other => Phrase { words: other.text(), is_inverted: false, is_joined: false },
        }
    }

    fn inverted(self) -> Self {
        match self {
            Self::Never => Self::Always,
            Self::Always => Self::Never,
            other => {
                let phrase = other.phrase();
                Self::Holds(Phrase { is_inverted: !phrase.is_inverted, ..phrase })
            }
        }
    }

    /// Both conditions. Those that always or never hold leave no words, and neither-nor is written without a double "not".
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
            (Self::Always, other) | (other, Self::Always) => other,
            (Self::Unknown(first), Self::Unknown(second)) => Self::Unknown(format!("{first} and {second}")),
            (first, second) => {
                let (first, second) = (first.phrase(), second.phrase());
                let is_neither = first.is_inverted && second.is_inverted;
                let word = if is_neither { "or" } else { "and" };
                let part = |phrase: Phrase| Phrase { is_inverted: phrase.is_inverted && !is_neither, ..phrase }.part();
                let words = format!("{} {word} {}", part(first), part(second));
                Self::Holds(Phrase { words, is_inverted: is_neither, is_joined: true })
            }
        }
    }
}

impl Phrase {
    fn text(&self) -> String {
        if self.is_inverted { format!("not ({})", self.words) } else { self.words.clone() }
    }

    fn part(&self) -> String {
        if self.is_joined && !self.is_inverted { format!("({})", self.words) } else { self.text() }
    }
}

impl Words<'_> {
    pub(super) fn get(&self, register: &str) -> Option<u64> {
        self.registers.iter().find(|(name, _)| name == register).map(|(_, value)| *value)
    }

    /// The condition of an event: TYPE in bit 7, then SEL, one resource selector or a pair of them.
    pub(super) fn event(&self, event: u64, parts: &mut Vec<Part>) -> Condition {
        let is_pair = event & 0x80 != 0;
        if !is_pair {
            return self.selector(event & 0x1f, parts);
        }
        let first = 2 * (event & 0xf);
        let [one, other] = [first, first + 1].map(|number| self.selector(number, parts));
        let both = one.and(other);
        let pairinv = self.get(&format!("TRCRSCTLR{first}")).is_some_and(|value| value >> 21 & 1 == 1);
        if pairinv { both.inverted() } else { both }
    }

    fn selector(&self, number: u64, parts: &mut Vec<Part>) -> Condition {
        match number {
            0 => return Condition::Never,
            1 => return Condition::Always,
            _ => {}
        }
        parts.push(Part::Selector(number));
        let name = format!("TRCRSCTLR{number}");
        let Some(value) = self.get(&name) else {
            return Condition::Unknown(format!("resource selector {number}"));
        };
        let (select, group, inv) = (value & 0xffff, value >> 16 & 0xf, value >> 20 & 1);
        let resources = self.resources(group, select, &name, parts);
        let condition = match resources.len() {
            0 => Condition::Never,
            count => {
                Condition::Holds(Phrase { words: resources.join(" or "), is_inverted: false, is_joined: count > 1 })
            }
        };
        if inv == 1 { condition.inverted() } else { condition }
    }
}

#[cfg(test)]
mod tests;
