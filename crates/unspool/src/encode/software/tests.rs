//! What is encoded is decoded again, and in the bytes that the specification has for it.

use proptest::prelude::*;
use unspool_coresight::stm::Kind;
use unspool_coresight::{
    DecodeElements as _, DecodePackets as _, Decoders as _, Element, ElementItem, PacketItem, Profile, TimeQuality,
    TraceConfig, with_decoders,
};

use super::*;

fn elements(protocol: Protocol, bytes: &[u8]) -> Vec<Element> {
    let (config, _) = TraceConfig::new(protocol, Profile::Unknown, [], []);
    let mut found = Vec::new();
    with_decoders!(config, decoders => {
        let mut elements = decoders.elements();
        let is_last = true;
        decoders.packets().decode(bytes, is_last, |item: PacketItem<_>| {
            elements.push(item, &mut |element: ElementItem| found.push(element.unwrap().value));
        });
        elements.finish(&mut |element: ElementItem| found.push(element.unwrap().value));
    });
    found
}

/// The writes of a stream. Times of an ITM are those of its local timestamps, or of the global one before them.
fn decoded(protocol: Protocol, global: bool, bytes: &[u8]) -> Vec<SoftwareWrite> {
    let mut now = None;
    let mut writes = Vec::new();
    for element in elements(protocol, bytes) {
        let (master, channel, time, written) = match element {
            Element::Timestamp { value, .. } => {
                now = Some(value);
                continue;
            }
            Element::Software(software) => {
                let written = Written::Value { value: software.payload, bits: software.bits, marked: software.marked };
                (software.master, software.channel, software.time, written)
            }
            Element::Stm(own) if own.kind == Kind::Flag => (own.master, own.channel, own.time, Written::Flag),
            _ => continue,
        };
        let time = time.filter(|time| time.quality == TimeQuality::Exact).map(|time| time.value);
        let channel = channel.unwrap();
        writes.push(SoftwareWrite { time: if global { now } else { time }, master, channel, written });
    }
    writes
}

fn value(bits: impl Strategy<Value = u8>) -> impl Strategy<Value = (u64, u8)> {
    (any::<u64>(), bits).prop_map(|(value, bits)| (if bits < 64 { value & ((1 << bits) - 1) } else { value }, bits))
}

fn stm_write() -> impl Strategy<Value = SoftwareWrite> {
    let written = prop_oneof![
        8 => (value(prop::sample::select(&[4, 8, 16, 32, 64][..])), any::<bool>())
            .prop_map(|((value, bits), marked)| Written::Value { value, bits, marked }),
        1 => Just(Written::Flag),
    ];
    let time = prop::option::of(prop_oneof![any::<u64>(), 0..5000_u64]);
    let number = || prop_oneof![0..4_u16, any::<u16>()];
    (time, number(), number(), written).prop_map(|(time, master, channel, written)| SoftwareWrite {
        time,
        master: Some(master),
        channel,
        written,
    })
}

/// Writes with a time that is this long after the one before.
fn itm_writes(pause: std::ops::Range<u64>) -> impl Strategy<Value = Vec<SoftwareWrite>> {
    let write = (pause, 0..256_u16, value(prop::sample::select(&[8, 16, 32][..])));
    prop::collection::vec(write, 0..60).prop_map(|writes| {
        let mut time = 0;
        let written = |(value, bits)| Written::Value { value, bits, marked: false };
        let mut write = |(pause, channel, value)| {
            time += pause;
            SoftwareWrite { time: Some(time), master: None, channel, written: written(value) }
        };
        writes.into_iter().map(&mut write).collect()
    })
}

proptest! {
    #[test]
    fn writes_of_an_stm_are_decoded_again(
        writes in prop::collection::vec(stm_write(), 0..60),
        sync_bytes in prop::sample::select(&[0, 20, 100, 4096][..]),
    ) {
        let unit = SoftwareUnit { sync_bytes, ..SoftwareUnit::new(Protocol::Stm).unwrap() };
        let bytes = unit.encode(&writes).unwrap();
        prop_assert_eq!(decoded(Protocol::Stm, false, &bytes), writes);
    }

    #[test]
    fn writes_of_an_itm_are_decoded_again(
        writes in itm_writes(0..1 << 31),
        sync_bytes in prop::sample::select(&[0, 20, 100, 1024][..]),
    ) {
        let unit = SoftwareUnit { sync_bytes, ..SoftwareUnit::new(Protocol::Itm).unwrap() };
        let bytes = unit.encode(&writes).unwrap();
        prop_assert_eq!(decoded(Protocol::Itm, false, &bytes), writes);
    }

    #[test]
    fn global_timestamps_of_an_itm_are_decoded_again(
        writes in itm_writes(0..1 << 56),
        sync_bytes in prop::sample::select(&[0, 20, 100, 1024][..]),
    ) {
        let mut unit = SoftwareUnit { sync_bytes, ..SoftwareUnit::new(Protocol::Itm).unwrap() };
        unit.global_timestamps = true;
        let bytes = unit.encode(&writes).unwrap();
        prop_assert_eq!(decoded(Protocol::Itm, true, &bytes), writes);
    }
}

/// Rows of the packet tables of Armv7-M and of STP 2. An STM starts with ASYNC, VERSION and FREQ.
#[test]
fn bytes() {
    let async_version_freq = [&[0xff; 10][..], &[0x0f, 0x0f, 0x30, 0x0f, 0x08, 0, 0, 0]].concat();
    let rows: &[(Protocol, &str, &[u8], &[u8])] = &[
        (Protocol::Itm, "- 3 8 0xbb", &[0, 0, 0, 0, 0, 0x80], &[0x19, 0xbb]),
        (Protocol::Itm, "6 3 8 0xbb", &[0, 0, 0, 0, 0, 0x80], &[0x19, 0xbb, 0x60]),
        (Protocol::Itm, "0 3 8 0xbb", &[0, 0, 0, 0, 0, 0x80], &[0x19, 0xbb, 0xc0, 0x00]),
        (Protocol::Itm, "- 74 16 0x2345", &[0, 0, 0, 0, 0, 0x80], &[0x28, 0x52, 0x45, 0x23]),
        // The last nibble of FREQ; M8 40; D8M 12.
        (Protocol::Stm, "- 0x40:0 8 0x12 marked", &async_version_freq, &[0x10, 0x04, 0x8f, 0x21]),
        // M8 40, C16 0480, D4 7.
        (Protocol::Stm, "- 0x40:0x480 4 7", &async_version_freq, &[0x10, 0x04, 0x3f, 0x40, 0x08, 0x7c]),
        // M8 40, FLAG_TS with a whole timestamp of 16 nibbles: length code 14.
        (
            Protocol::Stm,
            "0x123456789abcdef0 0x40:0 flag",
            &async_version_freq,
            &[0x10, 0x04, 0xee, 0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f],
        ),
    ];
    for (protocol, text, start, expected) in rows {
        let list = parse_writes(text).unwrap();
        let found = SoftwareUnit::new(*protocol).unwrap().encode(list.iter().map(|listed| &listed.write)).unwrap();
        assert_eq!(found.split_at(start.len()), (*start, *expected), "{text}");
    }
}
