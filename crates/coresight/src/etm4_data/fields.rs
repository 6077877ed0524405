//! The fields of packets.

use super::packet::Packet;
use crate::fields::{Fields, Value};

impl Packet {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            Packet::NumberedMarker(number) => out.field("value", Value::Number((*number).into())),
            Packet::Timestamp { value, bits } => {
                out.field("value", Value::Number(*value));
                out.field("bits", Value::Number((*bits).into()));
            }
            Packet::P1 { format } | Packet::P2 { format } => out.field("format", Value::Number((*format).into())),
            Packet::AlignmentSync
            | Packet::Discard
            | Packet::Overflow
            | Packet::TraceInfo
            | Packet::UnnumberedMarker
            | Packet::Suppression
            | Packet::Event
            | Packet::Undecoded => {}
        }
    }
}
