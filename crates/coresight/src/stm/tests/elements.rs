//! Elements of packets: master, channel and time.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::packets::{START, packed};
use crate::stm::{Config, ElementDecoder};
use crate::{DecodeElements as _, ElementItem, Packets};

fn elements(nibbles: &str) -> Vec<String> {
    let stream = packed(nibbles);
    let config = Config::default();
    let mut texts = Vec::new();
    let mut sink =
        |item: ElementItem| texts.push(item.map_or_else(|error| error.to_string(), |it| it.value.to_string()));
    let mut decoder = ElementDecoder::new(&config);
    Packets::new(&config, &stream).for_each(|packet| decoder.push(packet, &mut sink));
    decoder.finish(&mut sink);
    texts
}

#[test]
fn elements_have_master_channel_and_time() {
    let rows: &[(&str, &str, &[&str])] = &[
        ("before the master", "4 ab", &["software channel unknown, 8 bits 0xab"]),
        ("channel 0 after the master", "1 41 4 ab", &["software master 0x41 channel 0, 8 bits 0xab"]),
        (
            "low bits of the channel",
            "1 40 f3 0480 4 01 3 02 4 02",
            &["software master 0x40 channel 1152, 8 bits 0x01", "software master 0x40 channel 1026, 8 bits 0x02"],
        ),
        (
            "low bits of the master, and its channel 0",
            "f1 1234 3 05 1 40 4 01",
            &["software master 0x1240 channel 0, 8 bits 0x01"],
        ),
        (
            "a master error resets the channel",
            "1 40 3 05 2 12 4 01",
            &["master error 0x12 master 0x40", "software master 0x40 channel 0, 8 bits 0x01"],
        ),
        (
            "a global error forgets both",
            "1 40 3 05 f2 12 4 01",
            &["global error 0x12", "software channel unknown, 8 bits 0x01"],
        ),
        ("a version forgets both", "1 40 f003 f06 07 4 01", &["trigger 7", "software channel unknown, 8 bits 0x01"]),
        (
            "a flag has both, a frequency none",
            "1 40 fe f08 0124f800",
            &["flag master 0x40 channel 0", "frequency 19200000 Hz"],
        ),
        (
            "natural times keep the upper nibbles",
            "1 40 e e 00000003aeb284c9 e 2 d6 4 01 e 0",
            &[
                "flag master 0x40 channel 0, time 0x3aeb284c9",
                "flag master 0x40 channel 0, time 0x3aeb284d6",
                "software master 0x40 channel 0, 8 bits 0x01, time 0x3aeb284d6 (or later)",
                "flag master 0x40 channel 0, time 0x3aeb284d6",
            ],
        ),
        (
            "a time without its upper nibbles",
            "1 40 f4 ab 2 3f 4 01",
            &[
                "software master 0x40 channel 0, 8 bits 0xab, time 0x3f (low bits)",
                "software master 0x40 channel 0, 8 bits 0x01, time 0x3f (low bits)",
            ],
        ),
        (
            // Values of the tests of Zephyr.
            "public times",
            "1 40 f4 ab d 11223344556677 f5 abcd 3 122 8 ab e 1122334455667788 9 abcd 2 13",
            &[
                "software master 0x40 channel 0, 8 bits 0xab, time 0x11223344556677",
                "software master 0x40 channel 0, 16 bits 0xabcd, time 0x11223344556122",
                "software master 0x40 channel 0, 8 bits 0xab, marked, time 0x1122334455667788",
                "software master 0x40 channel 0, 16 bits 0xabcd, marked, time 0x1122334455667713",
            ],
        ),
        ("Gray times", "f004 1 40 f4 ab 2 3f", &["software master 0x40 channel 0, 8 bits 0xab, time 0x2a (low bits)"]),
        (
            // 0xfff is 0x800 in Gray code, and 0x1000 is 0x1800: only one nibble changes.
            "Gray nibbles are replaced before conversion",
            "f004 1 40 e c 000000000800 e 4 1800 e 1 1",
            &[
                "flag master 0x40 channel 0, time 0xfff",
                "flag master 0x40 channel 0, time 0x1000",
                "flag master 0x40 channel 0, time 0x1001",
            ],
        ),
        (
            "differences",
            "f002 1 40 e 1 5 e 1 5 4 01",
            &[
                "flag master 0x40 channel 0, time 0x5 (relative)",
                "flag master 0x40 channel 0, time 0xa (relative)",
                "software master 0x40 channel 0, 8 bits 0x01, time 0xa (or later)",
            ],
        ),
        ("a depth is not a time", "f001 1 40 f4 ab 12", &["software master 0x40 channel 0, 8 bits 0xab"]),
        ("a time alone", "f01 c 000000000012", &["time, time 0x12"]),
        ("other packets", "f0a 12 f02 1 ab f0f3 03", &["cross sync 18", "user 0xab", "channel error 0x03"]),
    ];
    for (name, nibbles, expected) in rows {
        assert_eq!(elements(&[START, nibbles].concat()), *expected, "{name}");
    }
}

#[test]
fn an_error_forgets_everything() {
    let texts = elements(&[START, "1 40 e e 0000000000000010", "e f", START, "4 01 e 1 2"].concat());
    let expected = [
        "flag master 0x40 channel 0, time 0x10",
        "0x17: reserved length of a timestamp",
        "software channel unknown, 8 bits 0x01",
        "flag, time 0x2 (low bits)",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn registers_describe_the_unit() {
    let registers = [("STMTCSR", 0x00a0_0027), ("STMTSFREQR", 0), ("STMSYNCR", 4096 - 96), ("STMHEMASTR", 128)];
    let (config, _) = Config::described(registers, []);
    assert_eq!((config.trace_id, config.timestamps, config.compressed), (Some(0x20), Some(true), Some(true)));
    assert_eq!((config.frequency, config.sync_bytes, config.hardware_master), (None, Some(4000), Some(128)));
}
