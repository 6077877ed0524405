//! Parser of one packet: the public table of headers.
//!
//! Takes bytes that start with a packet other than an alignment synchronization. Produces the packet and its length, or the
//! reason why there is none. `read.rs` finds the starts of packets.

use super::packet::Packet;
use crate::Malformed;
use crate::cursor::Cursor;

/// The packet that a header other than zero starts. `Ok(None)`: more bytes are needed.
pub(super) fn parse(bytes: &[u8], header: u8) -> Result<Option<(Packet, usize)>, Malformed> {
    let one = |packet| Ok(Some((packet, 1)));
    match header {
        0x01 => one(Packet::UnnumberedMarker),
        0x02 => Ok(timestamp(bytes)),
        0x03 => one(Packet::Suppression),
        0x04 => one(Packet::Event),
        0x10..=0x13 => one(Packet::P2 { format: 4 }),
        0x14..=0x17 => one(Packet::P1 { format: 3 }),
        0x18..=0x1f => one(Packet::P2 { format: 5 }),
        0x20..=0x2f => one(Packet::P2 { format: 1 }),
        0x30..=0x37 => one(Packet::P2 { format: 2 }),
        0x38..=0x3f => one(Packet::P2 { format: 6 }),
        0x40..=0x5f => one(Packet::P2 { format: 3 }),
        0x60..=0x6f => one(Packet::P1 { format: 4 }),
        0x70..=0x7f => one(Packet::P1 { format: 1 }),
        0x80..=0xbf => one(Packet::P1 { format: 2 }),
        0xf5 => one(Packet::P1 { format: 7 }),
        0xf6..=0xf7 => one(Packet::P1 { format: 6 }),
        0xf8.. => one(Packet::P1 { format: 5 }),
        _ => Err(Malformed::ReservedHeader(header)),
    }
}

/// Seven bits per byte, and eight in the ninth, as in the instruction stream.
fn timestamp(bytes: &[u8]) -> Option<(Packet, usize)> {
    let mut input = Cursor::new(bytes);
    input.skip(1);
    let (value, bits) = input.continued::<9>().ok()?;
    Some((Packet::Timestamp { value, bits }, input.position()))
}

/// The packet of a zero byte and this one.
pub(super) fn extension(byte: u8) -> Result<Packet, Malformed> {
    match byte {
        0x01 => Ok(Packet::TraceInfo),
        0x03 => Ok(Packet::Discard),
        0x05 => Ok(Packet::Overflow),
        numbered if numbered & 0xf1 == 0x11 => Ok(Packet::NumberedMarker(numbered >> 1 & 7)),
        other => Err(Malformed::ReservedExtension(other)),
    }
}
