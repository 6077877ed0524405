//! Packets to bytes: the inverse of the packet decoder. Undecoded bytes have no packet to encode.

use alloc::vec::Vec;

use super::packet::Packet;

/// A packet that has no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a data trace stream has no packet '{0}'")]
pub struct Unencodable(pub Packet);

impl Packet {
    /// Appends the packet's bytes. Packets without a known layout are refused.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        match *self {
            Packet::AlignmentSync => out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]),
            Packet::Discard => out.extend_from_slice(&[0x00, 0x03]),
            Packet::Overflow => out.extend_from_slice(&[0x00, 0x05]),
            Packet::NumberedMarker(number @ 0..=7) => out.extend_from_slice(&[0x00, 0x11 | number << 1]),
            Packet::UnnumberedMarker => out.push(0x01),
            Packet::Timestamp { value, bits } => return timestamp(value, bits, out).ok_or(Unencodable(*self)),
            Packet::Suppression => out.push(0x03),
            _ => return Err(Unencodable(*self)),
        }
        Ok(())
    }
}

fn timestamp(value: u64, bits: u8, out: &mut Vec<u8>) -> Option<()> {
    let groups = match bits {
        64 => 8,
        7..=56 if bits.is_multiple_of(7) => bits / 7 - 1,
        _ => return None,
    };
    if bits < 64 && value >> bits != 0 {
        return None;
    }
    out.push(0x02);
    out.extend((0..groups).map(|group| (value >> (7 * group)) as u8 | 0x80));
    let last = (value >> (7 * groups)) as u8;
    out.push(last);
    Some(())
}
