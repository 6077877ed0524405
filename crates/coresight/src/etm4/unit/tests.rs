//! The trace unit, packet by packet.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::Protocol;
use crate::etm4::Packets;

fn texts(unit: &Unit) -> Vec<String> {
    let packets = Packets::new(&unit.config, unit.bytes());
    packets.map(|packet| packet.map_or_else(|error| error.to_string(), |packet| packet.value.to_string())).collect()
}

fn at(address: u64, class: Class) -> Executed {
    Executed { address, isa: SubIsa::Is0, length: 4, class, conditional: false, link: false, taken: true }
}

#[test]
fn a_call_and_its_return() {
    let rows: &[(&str, u64, &[u8])] = &[
        // Atoms EE, the address of the return, an atom.
        ("no return stack", 0x1, &[0xdb, 0x95, 0x01, 0xf7]),
        // The return needs no address.
        ("return stack", 0x1001, &[0xff]),
        // Both targets are told.
        ("branch broadcast", 0x9, &[0xf7, 0x95, 0x10, 0xf7, 0x95, 0x01, 0xf7]),
    ];
    for (name, configr, expected) in rows {
        let mut settings = Settings::new(Protocol::Ete);
        settings.set("TRCCONFIGR", *configr);
        let mut unit = Unit::new(&settings);
        unit.instruction(&Executed { link: true, ..at(0x1000, Class::Direct) });
        unit.instruction(&at(0x1040, Class::Indirect));
        unit.instruction(&at(0x1004, Class::Barrier));
        unit.finish();
        let texts = texts(&unit);
        assert!(texts.iter().take(3).count() == 3, "{name}: {texts:?}");
        assert!(unit.bytes().ends_with(expected), "{name}: {texts:?}");
    }
}

#[test]
fn the_rest_of_a_block_is_told_by_a_halt() {
    let mut unit = Unit::new(&Settings::new(Protocol::Ete));
    unit.instruction(&at(0x1000, Class::Other));
    unit.halt(Target { address: 0x1004, isa: SubIsa::Is0 });
    assert!(unit.bytes().ends_with(&[0x06, 0x03, 0x95, 0x01]), "{:?}", texts(&unit));
}
