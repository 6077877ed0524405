//! Meanings of the events of a trace: their numbers joined to the registers of the trace unit.
//!
//! numbers of an event packet + registers of its source + names of addresses ─▶ **words**
//!
//! Where the registers do not show the cause of an event, its number is all there is.

use unspool_coresight::etm4::program::{AddressName, event_meanings};
use unspool_coresight::{Element, Protocol};

use crate::Trace;

/// Meanings of the events 0 to 3 of a trace unit.
#[derive(Debug, Clone, Default)]
pub struct EventMeanings {
    protocol: Option<Protocol>,
    registers: Vec<(String, u64)>,
    meanings: [Option<String>; 4],
}

impl EventMeanings {
    /// Those of a source, with addresses as numbers. Other trace units than ETE and ETMv4 have none.
    pub fn new(trace: &Trace<'_>) -> Self {
        let source = trace.source();
        let protocol = source.protocol.filter(|protocol| matches!(protocol, Protocol::Ete | Protocol::Etm4));
        let registers = source.registers.iter().map(|register| (register.name.clone(), register.value)).collect();
        let mut meanings = Self { protocol, registers, ..Self::default() };
        meanings.name_addresses(&|_| None);
        meanings
    }

    /// Adds names to the addresses in the meanings.
    pub fn name_addresses(&mut self, names: AddressName<'_>) {
        let registers = self.registers.iter().map(|(name, value)| (name.as_str(), *value));
        if let Some(protocol) = self.protocol {
            self.meanings = event_meanings(protocol, registers, names);
        }
    }

    /// The meanings of all events, by number.
    pub fn all(&self) -> impl Iterator<Item = (usize, &str)> {
        self.meanings.iter().enumerate().filter_map(|(number, meaning)| Some((number, meaning.as_deref()?)))
    }

    /// The meanings of the events of a packet, one bit each, in their order. Empty: none is known.
    pub fn of(&self, mask: u8) -> Vec<Option<&str>> {
        let events = self.meanings.iter().enumerate().filter(|(number, _)| mask >> number & 1 == 1);
        let meanings: Vec<Option<&str>> = events.map(|(_, meaning)| meaning.as_deref()).collect();
        if meanings.iter().all(Option::is_none) { Vec::new() } else { meanings }
    }

    /// The events of a packet in words: `event 0: address 0x400580 executed; event 2`.
    pub fn text(&self, mask: u8) -> String {
        let meanings = self.of(mask);
        if meanings.is_empty() {
            return Element::Event { mask }.to_string();
        }
        let numbers = (0..self.meanings.len()).filter(|number| mask >> number & 1 == 1);
        let parts = numbers.zip(meanings).map(|(number, meaning)| match meaning {
            Some(meaning) => format!("event {number}: {meaning}"),
            None => format!("event {number}"),
        });
        parts.collect::<Vec<String>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_meaning_stay_numbers() {
        let mut meanings = EventMeanings::default();
        assert_eq!((meanings.text(0b101), meanings.of(0b101)), ("event 0 2".to_string(), vec![]));
        meanings.meanings[2] = Some("counter 0 is zero".to_string());
        assert_eq!(meanings.text(0b101), "event 0; event 2: counter 0 is zero");
        assert_eq!(meanings.of(0b101), [None, Some("counter 0 is zero")]);
        assert_eq!(meanings.text(0b1), "event 0");
        assert_eq!(meanings.all().collect::<Vec<_>>(), [(2, "counter 0 is zero")]);
    }
}
