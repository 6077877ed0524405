//! Packets to elements.
//!
//! packets ─▶ **elements**
//!
//! Completes timestamps, whose missing bits are known only after one that had all of them, since trace info is not decoded.
//! Undecoded bytes are an element of their own.

use super::Packet;
use crate::decode::DecodeElements;
use crate::etm4::OwnElement;
use crate::{Element, ElementItem, Extent, PacketItem, Sink};

/// Length of an alignment synchronization that no packet before has swallowed a part of.
const WHOLE_SYNC: u64 = 12;

/// Turns packets into elements. Feed it with [`push`](DecodeElements::push), end with [`finish`](DecodeElements::finish).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElementDecoder {
    /// The last timestamp, if all its bits are known.
    timestamp: Option<u64>,
}

impl ElementDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    fn element(&mut self, packet: Packet, length: u64) -> Option<Element> {
        Some(match packet {
            Packet::Discard => Element::Discard,
            Packet::Overflow => Element::Overflow,
            Packet::NumberedMarker(number) => Element::Etm4(OwnElement::NumberedDataSync(number)),
            Packet::UnnumberedMarker => Element::Etm4(OwnElement::UnnumberedDataSync(None)),
            Packet::Suppression => Element::Etm4(OwnElement::Suppression),
            Packet::Timestamp { value, bits } => {
                self.timestamp = complete(self.timestamp, value, bits);
                Element::Timestamp { value: self.timestamp?, cycles: None }
            }
            Packet::Undecoded => {
                self.timestamp = None;
                Element::Etm4(OwnElement::Undecoded { bytes: length })
            }
            // The timestamp before has swallowed a part of it, and is not what the trace unit sent.
            Packet::AlignmentSync if length < WHOLE_SYNC => {
                self.timestamp = None;
                return None;
            }
            Packet::AlignmentSync | Packet::TraceInfo | Packet::Event | Packet::P1 { .. } | Packet::P2 { .. } => {
                return None;
            }
        })
    }
}

/// The timestamp with its low bits replaced; `None` if the others are not known.
fn complete(old: Option<u64>, value: u64, bits: u8) -> Option<u64> {
    let mask = u64::MAX.checked_shl(u32::from(bits)).unwrap_or(0);
    if mask == 0 { Some(value) } else { old.map(|old| old & mask | value) }
}

impl DecodeElements for ElementDecoder {
    type Packet = Packet;

    fn push(&mut self, item: PacketItem<Packet>, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(packet) => {
                if let Some(element) = self.element(packet.value, packet.length) {
                    sink.item(Ok(Extent::of(&packet).locate(element)));
                }
            }
            Err(error) => {
                self.timestamp = None;
                sink.item(Err(error.into()));
            }
        }
    }

    fn finish(&mut self, _sink: &mut impl Sink<ElementItem>) -> u64 {
        0
    }
}
