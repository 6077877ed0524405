//! Discontinuities of a buffer: every stage reports that the trace does not continue.

use unspool::Trace;
use unspool::capture::{BufferFormat, Registers};
use unspool::coresight::frame::Formatter;
use unspool::coresight::{ElementItem, PacketItem, Transactions};

use super::fixtures::bare_capture;

const START: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00];
const BREAK: &str = "trace does not continue here";

/// Packets and committed elements of two runs of trace, with `between` applied in the middle.
fn items(between: impl FnOnce(&mut Formatter), damage: impl FnOnce(&mut Vec<u8>)) -> [Vec<String>; 2] {
    let mut formatter = Formatter::new();
    formatter.push(0x10, &START);
    formatter.push(0x10, &[0xf7; 40]);
    between(&mut formatter);
    formatter.push(0x10, &START);
    formatter.push(0x10, &[0xf6]);
    let mut bytes = formatter.finish();
    damage(&mut bytes);

    let (_folder, capture) = bare_capture(&bytes, BufferFormat::Formatted, Registers::default());
    let trace = Trace::all(&capture)[0];
    let (mut packets, mut elements) = (vec![], vec![]);
    let packet = |item: PacketItem| {
        packets.push(item.map_or_else(|error| error.kind.to_string(), |packet| packet.value.to_string()));
    };
    trace.packets(&mut (packet, ())).unwrap();
    let element = |item: ElementItem| {
        elements.push(item.map_or_else(|error| error.kind.to_string(), |element| element.value.to_string()));
    };
    trace.committed(Transactions::Resolve, &mut (element, ())).unwrap();
    packets.dedup();
    elements.dedup();
    [packets, elements]
}

#[test]
fn barrier_is_a_break() {
    let [packets, elements] = items(Formatter::barrier, |_| {});
    let expected = ["alignment sync", "trace info", "atoms E", BREAK, "alignment sync", "trace info", "atoms N"];
    assert_eq!(packets, expected);
    assert_eq!(elements, ["trace info", "atoms E", BREAK, "trace info", "atoms N"]);
}

#[test]
fn lost_frame_is_a_break() {
    let [packets, elements] = items(|_| {}, |bytes| bytes[32] = 0xfd);
    assert!(packets.contains(&BREAK.to_string()), "{packets:?}");
    assert_eq!(elements.last().unwrap(), "atoms N", "{elements:?}");
    assert!(elements.contains(&BREAK.to_string()), "{elements:?}");
}
