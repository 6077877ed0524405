//! Scenarios: bytes, and the output of each stage.
//!
//! Each file in `testdata/scenarios` has a `registers:` line and the sections `bytes:`, `packets:`, `elements:` and
//! `committed:`, one line per item; `;` starts a comment. The expectations are written by hand from the specification.

#![allow(clippy::panic, clippy::expect_used, reason = "a test stops at unexpected input")]

use unspool_coresight::etm4::{Config, ElementDecoder, PacketItem, Registers, Speculation};
use unspool_coresight::{DecodeElements as _, ElementItem, Packets, Profile, Protocol, Transactions};
use unspool_testing::{Scenario, repository, scenarios};

/// `ete TRCIDR8=8 ...`; `m-profile` among the registers of a microcontroller.
fn config(values: &str) -> Config {
    let mut words = values.split_whitespace();
    let protocol = words.next().and_then(Protocol::from_name).expect("a protocol");
    let mut registers = Registers::default();
    let mut profile = Profile::Application;
    for word in words {
        if word == "m-profile" {
            profile = Profile::Microcontroller;
            continue;
        }
        let (name, value) = word.split_once('=').expect("NAME=VALUE");
        let value = value.strip_prefix("0x").map_or_else(|| value.parse(), |hex| u32::from_str_radix(hex, 16));
        assert!(registers.set(name, value.expect("a number")), "{name}");
    }
    Config::new(protocol, profile, &registers).0
}

fn packet_text(item: &PacketItem) -> String {
    item.map_or_else(|error| format!("! {error}"), |packet| packet.value.to_string())
}

fn element_text(item: &ElementItem) -> String {
    item.map_or_else(|error| format!("! {error}"), |element| element.value.to_string())
}

fn bytes(scenario: &Scenario) -> Vec<u8> {
    let hex = |byte| u8::from_str_radix(byte, 16).expect("hex");
    scenario.section("bytes").iter().flat_map(|line| line.split_whitespace().map(hex)).collect()
}

#[test]
fn scenarios_have_the_expected_items() {
    let scenarios = scenarios(&repository("testdata/scenarios"));
    assert!(scenarios.len() >= 9, "only {} scenarios", scenarios.len());
    scenarios.iter().for_each(check);
}

fn check(scenario: &Scenario) {
    let (name, config) = (&scenario.name, config(&scenario.registers));
    scenario.assert_sections(&["bytes", "packets", "elements", "committed"]);
    let packets: Vec<PacketItem> = Packets::new(&config, &bytes(scenario)).collect();
    assert_eq!(packets.iter().map(packet_text).collect::<Vec<_>>(), scenario.section("packets"), "{name}: packets");

    let mut elements = vec![];
    let mut decoder = ElementDecoder::new(&config);
    packets.iter().for_each(|packet| decoder.push(*packet, &mut |item| elements.push(item)));
    decoder.finish(&mut |item| elements.push(item));
    assert_eq!(elements.iter().map(element_text).collect::<Vec<_>>(), scenario.section("elements"), "{name}: elements");

    let mut committed = vec![];
    let mut speculation = Speculation::new(&config, Transactions::Resolve);
    elements.iter().for_each(|element| speculation.push(*element, &mut |item| committed.push(item)));
    speculation.finish(&mut |item| committed.push(item));
    assert_eq!(
        committed.iter().map(element_text).collect::<Vec<_>>(),
        scenario.section("committed"),
        "{name}: committed"
    );
}
