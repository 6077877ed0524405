//! Packets as text: one short line each, as `unspool packets` prints it after the offset.

use core::fmt;

use super::packet::Packet;

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::AlignmentSync => f.write_str("alignment sync"),
            Packet::Discard => f.write_str("discard"),
            Packet::Overflow => f.write_str("overflow"),
            Packet::TraceInfo => f.write_str("data trace info"),
            Packet::NumberedMarker(number) => write!(f, "data sync marker {number}"),
            Packet::UnnumberedMarker => f.write_str("unnumbered data sync marker"),
            Packet::Timestamp { value, bits } => write!(f, "timestamp {value:#x} ({bits} bits)"),
            Packet::Suppression => f.write_str("suppression"),
            Packet::Event => f.write_str("data event"),
            Packet::P1 { format } => write!(f, "P1 format {format}"),
            Packet::P2 { format } => write!(f, "P2 format {format}"),
            Packet::Undecoded => f.write_str("undecoded bytes"),
        }
    }
}
