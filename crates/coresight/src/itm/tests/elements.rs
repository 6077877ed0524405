//! Elements of packets: pages, local and global time, gaps.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::packets::SYNC;
use crate::itm::{Config, ElementDecoder};
use crate::{DecodeElements as _, ElementItem, Packets};

fn elements(config: &Config, bytes: &[u8]) -> Vec<String> {
    let stream = [&SYNC, bytes].concat();
    let mut texts = Vec::new();
    let mut sink =
        |item: ElementItem| texts.push(item.map_or_else(|error| error.to_string(), |it| it.value.to_string()));
    let mut decoder = ElementDecoder::new(config);
    Packets::new(config, &stream).for_each(|packet| decoder.push(packet, &mut sink));
    decoder.finish(&mut sink);
    texts
}

#[test]
fn elements_have_port_and_time() {
    let rows: &[(&str, &[u8], &[&str])] = &[
        ("no timestamp", &[0x19, 0xbb], &["software channel 3, 8 bits 0xbb"]),
        (
            "a page",
            &[0x28, 0x52, 0x45, 0x23, 0x08, 0x51, 0xac],
            &["software channel 74, 16 bits 0x2345", "software channel 10, 8 bits 0xac"],
        ),
        (
            "a synchronization keeps the page",
            &[0x48, 0, 0, 0, 0, 0, 0x80, 0x51, 1],
            &["software channel 138, 8 bits 0x01"],
        ),
        (
            "a timestamp dates all packets before it",
            &[0x09, 0x41, 0x15, 0x00, 0x20, 0x09, 0x42, 0xd0, 0x0d],
            &[
                "software channel 1, 8 bits 0x41, time 0x2",
                "pc sample: asleep, time 0x2",
                "local timestamp +2, time 2",
                "software channel 1, 8 bits 0x42, time 0xf (timestamp delayed)",
                "local timestamp +13, timestamp delayed, time 15",
            ],
        ),
        (
            "all relations",
            &[0x09, 1, 0xc0, 0x01, 0x09, 2, 0xe0, 0x01, 0x09, 3, 0xf0, 0x01],
            &[
                "software channel 1, 8 bits 0x01, time 0x1",
                "local timestamp +1, time 1",
                "software channel 1, 8 bits 0x02, time 0x2 (event delayed)",
                "local timestamp +1, event delayed, time 2",
                "software channel 1, 8 bits 0x03, time 0x3 (timestamp and event delayed)",
                "local timestamp +1, timestamp and event delayed, time 3",
            ],
        ),
        (
            "an overflow is a gap in the time",
            &[0x60, 0x09, 0x41, 0x70, 0x09, 0x42, 0x30],
            &[
                "local timestamp +6, time 6",
                "software channel 1, 8 bits 0x41",
                "overflow",
                "software channel 1, 8 bits 0x42, time 0x3",
                "local timestamp +3, time 3",
            ],
        ),
        (
            "malformed bytes are a gap too",
            &[0x60, 0x09, 0x41, 0x80, 0, 0, 0, 0, 0, 0x80, 0x30],
            &[
                "local timestamp +6, time 6",
                "software channel 1, 8 bits 0x41",
                "0x9: reserved packet header 0x80",
                "local timestamp +3, time 3",
            ],
        ),
        // The rest is dated by what itm_only_raw of the reference decoder shows.
        (
            "a global timestamp is complete with both halves",
            &[0x94, 0xd6, 0xe8, 0xc8, 0x07, 0xb4, 0x93, 0x98, 0xa0, 0xa0, 0x80, 0x00, 0x94, 0x7a],
            &["timestamp 0x1020304cf23456", "timestamp 0x1020304cf2347a"],
        ),
        ("half of it is none", &[0x94, 0xd6, 0xe8, 0xc8, 0x07, 0x94, 0x7a], &[]),
        ("low bits without the others are none", &[0x94, 0x7a, 0xb4, 0x96, 0x9a, 0x92, 0x00], &[]),
        (
            "a wrap waits for the upper half",
            &[
                0x94, 0xd6, 0xe8, 0xc8, 0x07, 0xb4, 0x93, 0x98, 0xa0, 0xa0, 0x80, 0x00, // complete
                0x94, 0xba, 0xa4, 0x8e, 0x5a, 0x94, 0x5d, // wrap, then low bits
                0xb4, 0x94, 0x98, 0xa0, 0xa0, 0x80, 0x00,
            ],
            &["timestamp 0x1020304cf23456", "timestamp 0x1020305343925d"],
        ),
        (
            "a clock change comes with the next time",
            &[0x94, 0x82, 0xcf, 0xfa, 0x77, 0xb4, 0x93, 0x98, 0xa0, 0xa0, 0x80, 0x00],
            &["clock change", "timestamp 0x1020304efea782"],
        ),
        ("an unknown extension", &[0x98, 0x7f], &["software extension 0x3f9 (10 bits)"]),
    ];
    for (name, bytes, expected) in rows {
        assert_eq!(elements(&Config::default(), bytes), *expected, "{name}");
    }
}

#[test]
fn the_prescaler_applies_to_the_clock_of_the_trace_port() {
    let rows = [(0x0001_0300, 1), (0x0001_0010, 1), (0x0001_0110, 4), (0x0001_0210, 16), (0x0001_0310, 64)];
    for (control, factor) in rows {
        let (config, _) = Config::described([("ITMTCR", control)], []);
        assert_eq!(elements(&config, &[0x30]), [alloc::format!("local timestamp +3, time {}", 3 * factor)]);
    }
    let (config, _) = Config::described([("ITMTCR", 0)], [("timestamp_prescaler", "16")]);
    assert_eq!(elements(&config, &[0x30]), ["local timestamp +3, time 48"]);
}

#[test]
fn a_register_of_zeros_is_not_believed() {
    let (config, _) = Config::described([("ITM_TCR", 0x0017_0c0d)], []);
    assert_eq!((config.trace_id, config.local_timestamps), (Some(0x17), Some(false)));
    assert_eq!((config.synchronizations, config.global_timestamps), (Some(true), Some(true)));
    let (zero, _) = Config::described([("ITMTCR", 0)], []);
    assert_eq!((zero.local_timestamps, zero.synchronizations), (None, None));
}

#[test]
fn few_elements_wait_for_a_timestamp() {
    let mut bytes = [0x09, 0x41].repeat(1000);
    bytes.push(0x10);
    let texts = elements(&Config::default(), &bytes);
    assert_eq!(texts.len(), 1001);
    assert_eq!(texts.iter().filter(|text| text.contains("time")).count(), 1000 % 256 + 1);
}
