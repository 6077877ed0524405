//! Where a buffer's trace does not continue, every room is told.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::fs;

use unspool::capture::{BufferFormat, Registers};
use unspool::coresight::frame::Formatter;
use unspool::coresight::{ElementItem, PacketItem, Protocol, Transactions};
use unspool::{Bare, Trace, open_bare};

const START: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00];

/// Two stretches of trace with what `between` does in the middle.
fn items(between: impl FnOnce(&mut Formatter), damage: impl FnOnce(&mut Vec<u8>)) -> [Vec<String>; 2] {
    let mut formatter = Formatter::new();
    formatter.push(0x10, &START);
    formatter.push(0x10, &[0xf7; 40]);
    between(&mut formatter);
    formatter.push(0x10, &START);
    formatter.push(0x10, &[0xf6]);
    let mut bytes = formatter.finish();
    damage(&mut bytes);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("buffer.bin");
    fs::write(&path, bytes).unwrap();
    let registers = Registers::default();
    let format = Some(BufferFormat::Formatted);
    let bare = Bare { protocol: Protocol::Ete, id: Some(0x10), format, registers, write_pointer: None, wrapped: None };
    let capture = open_bare(&[path], bare).unwrap();
    let trace = Trace::all(&capture)[0];
    let (mut packets, mut elements) = (vec![], vec![]);
    trace
        .packets(&mut (
            |item: PacketItem| {
                packets.push(item.map_or_else(|error| error.kind.to_string(), |packet| packet.value.to_string()));
            },
            (),
        ))
        .unwrap();
    trace
        .committed(
            Transactions::Resolve,
            &mut (
                |item: ElementItem| {
                    elements.push(item.map_or_else(|error| error.kind.to_string(), |e| e.value.to_string()));
                },
                (),
            ),
        )
        .unwrap();
    packets.dedup();
    elements.dedup();
    [packets, elements]
}

#[test]
fn a_barrier_is_a_break() {
    let [packets, elements] = items(Formatter::barrier, |_| {});
    let trace = ["alignment sync", "trace info", "atoms E"];
    assert_eq!(
        packets,
        [&trace[..], &["trace does not continue here", "alignment sync", "trace info", "atoms N"]].concat()
    );
    assert_eq!(elements, ["trace info", "atoms E", "trace does not continue here", "trace info", "atoms N"]);
}

#[test]
fn a_lost_frame_is_a_break() {
    let [packets, elements] = items(|_| {}, |bytes| bytes[32] = 0xfd);
    assert!(packets.contains(&"trace does not continue here".to_string()), "{packets:?}");
    assert_eq!(elements.last().unwrap(), "atoms N", "{elements:?}");
    let position = elements.iter().position(|text| text == "trace does not continue here");
    assert!(position.is_some(), "{elements:?}");
}
