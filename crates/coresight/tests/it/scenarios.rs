//! Stories: bytes, and what every room makes of them.
//!
//! Each file in `testdata/scenarios` holds a `registers:` line and the sections `bytes:`, `packets:`, `elements:` and
//! `committed:`, a line an item; `;` starts a comment. The expectations are written by hand from the specification.

#![allow(clippy::panic, clippy::expect_used, reason = "a test stops at what it does not expect")]

use std::fs;
use std::path::Path;

use unspool_coresight::etm4::{Config, ElementDecoder, PacketItem, Registers, Speculation};
use unspool_coresight::{DecodeElements as _, ElementItem, Packets, Profile, Protocol, Transactions};

#[derive(Default)]
struct Scenario {
    config: Option<Config>,
    bytes: Vec<u8>,
    packets: Vec<String>,
    elements: Vec<String>,
    committed: Vec<String>,
}

impl Scenario {
    fn parse(text: &str) -> Self {
        let mut scenario = Self::default();
        let mut section = "";
        for line in text.lines() {
            let line = line.split(';').next().unwrap_or("").trim_end();
            match line.split_once(':') {
                _ if line.trim().is_empty() => {}
                Some(("registers", values)) => scenario.config = Some(config(values)),
                Some((name, "")) if !line.starts_with(' ') => section = name,
                _ => scenario.add(section, line.trim()),
            }
        }
        scenario
    }

    fn add(&mut self, section: &str, line: &str) {
        match section {
            "bytes" => {
                self.bytes.extend(line.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex")));
            }
            "packets" => self.packets.push(line.to_string()),
            "elements" => self.elements.push(line.to_string()),
            "committed" => self.committed.push(line.to_string()),
            other => panic!("unknown section '{other}'"),
        }
    }
}

/// `ete TRCIDR8=8 ...`
fn config(values: &str) -> Config {
    let mut words = values.split_whitespace();
    let protocol = words.next().and_then(Protocol::from_name).expect("a protocol");
    let mut registers = Registers::default();
    for word in words {
        let (name, value) = word.split_once('=').expect("NAME=VALUE");
        let value = value.strip_prefix("0x").map_or_else(|| value.parse(), |hex| u32::from_str_radix(hex, 16));
        assert!(registers.set(name, value.expect("a number")), "{name}");
    }
    Config::new(protocol, Profile::Application, &registers).0
}

fn packet_text(item: &PacketItem) -> String {
    item.map_or_else(|error| format!("! {error}"), |packet| packet.value.to_string())
}

fn element_text(item: &ElementItem) -> String {
    item.map_or_else(|error| format!("! {error}"), |element| element.value.to_string())
}

#[test]
fn every_room_tells_the_same_story() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/scenarios");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the scenarios") {
        let path = entry.expect("an entry").path();
        tell(&path.display().to_string(), &Scenario::parse(&fs::read_to_string(&path).expect("a text")));
        count += 1;
    }
    assert!(count >= 9, "only {count} scenarios");
}

fn tell(name: &str, scenario: &Scenario) {
    let config = scenario.config.expect("registers");
    let packets: Vec<PacketItem> = Packets::new(&config, &scenario.bytes).collect();
    assert_eq!(packets.iter().map(packet_text).collect::<Vec<_>>(), scenario.packets, "{name}: packets");

    let mut elements = vec![];
    let mut decoder = ElementDecoder::new(&config);
    packets.iter().for_each(|packet| decoder.push(*packet, &mut |item| elements.push(item)));
    decoder.finish(&mut |item| elements.push(item));
    assert_eq!(elements.iter().map(element_text).collect::<Vec<_>>(), scenario.elements, "{name}: elements");

    let mut committed = vec![];
    let mut speculation = Speculation::new(&config, Transactions::Resolve);
    elements.iter().for_each(|element| speculation.push(*element, &mut |item| committed.push(item)));
    speculation.finish(&mut |item| committed.push(item));
    assert_eq!(committed.iter().map(element_text).collect::<Vec<_>>(), scenario.committed, "{name}: committed");
}
