//! Packets to elements: master, channel and time of each.
//!
//! packets ─▶ **elements**
//!
//! Master and channel are unknown until the trace names them, and again after an error and after a VERSION, which sets
//! both to 0: Arm units name the master before any data. A timestamp has only the nibbles that changed.

use super::Config;
use super::element::{Kind, OwnElement};
use super::packet::{Body, Packet, Timestamp, TimestampFormat, Version};
use crate::decode::DecodeElements;
use crate::{Element, ElementItem, Extent, Located, PacketItem, Sink, Software, Time, TimeQuality};

/// Bits of the smallest timestamp counter: with these, a time is complete.
const WHOLE_TIME: u8 = 48;

/// Makes elements from packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementDecoder {
    master: Option<u16>,
    channel: Option<u16>,
    format: TimestampFormat,
    clock: Clock,
    /// The time of packets without a timestamp. `None` before the first timestamp.
    earlier: Option<Time>,
}

/// The last timestamp, with the nibbles that it left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Clock {
    /// The time, Gray-coded if that is the format.
    value: u64,
    /// Number of low bits that were traced.
    known: u8,
}

impl ElementDecoder {
    /// A decoder at the start of a stream.
    pub fn new(_config: &Config) -> Self {
        Self { master: None, channel: None, format: TimestampFormat::Natural, clock: Clock::default(), earlier: None }
    }

    /// Data of the current channel.
    #[inline(always)]
    fn software(&mut self, payload: u64, bits: u8, marked: bool, timestamp: Option<Timestamp>) -> Element {
        let time = self.time(timestamp);
        Element::Software(Software { master: self.master, channel: self.channel, payload, bits, marked, time })
    }

    /// A flag of the current channel.
    #[inline(always)]
    fn flag(&mut self, timestamp: Option<Timestamp>) -> Element {
        let time = self.time(timestamp);
        Element::Stm(OwnElement { kind: Kind::Flag, master: self.master, channel: self.channel, time })
    }

    fn packet(&mut self, packet: &Located<Packet>, sink: &mut impl Sink<ElementItem>) {
        let extent = Extent::of(packet);
        let mut own = |kind, of: (Option<u16>, Option<u16>), time| {
            let (master, channel) = of;
            sink.item(Ok(extent.locate(Element::Stm(OwnElement { kind, master, channel, time }))));
        };
        let none = (None, None);
        match packet.value.body {
            Body::Async | Body::Null { .. } => {}
            Body::Data { value, bits, marked, timestamp } => {
                let software = self.software(value, bits, marked, timestamp);
                sink.item(Ok(extent.locate(software)));
            }
            Body::Version(version) => self.version(version),
            Body::Master { value, wide } => {
                self.master = Some(number(self.master, value, wide));
                self.channel = Some(0);
            }
            Body::Channel { value, wide } => self.channel = Some(number(self.channel, value, wide)),
            Body::MasterError(code) => {
                own(Kind::MasterError(code), (self.master, None), self.time(None));
                self.channel = Some(0);
            }
            Body::GlobalError(code) => {
                own(Kind::GlobalError(code), none, self.time(None));
                (self.master, self.channel) = none;
            }
            Body::ChannelError(code) => {
                own(Kind::ChannelError(code), (self.master, self.channel), self.time(None));
            }
            Body::Flag(timestamp) => {
                let flag = self.flag(timestamp);
                sink.item(Ok(extent.locate(flag)));
            }
            Body::NullTimestamp(timestamp) => own(Kind::Time, none, self.time(Some(timestamp))),
            Body::Trigger { value, timestamp } => own(Kind::Trigger(value), none, self.time(timestamp)),
            Body::Frequency { value, timestamp, .. } => own(Kind::Frequency(value), none, self.time(timestamp)),
            Body::CrossSync { value, timestamp } => own(Kind::CrossSync(value), none, self.time(timestamp)),
            Body::User { value, nibbles, timestamp } => {
                let time = self.time(timestamp);
                own(Kind::User { value, nibbles }, (self.master, self.channel), time);
            }
        }
    }

    fn version(&mut self, version: Version) {
        (self.master, self.channel) = (None, None);
        if self.format != version.timestamps {
            self.forget_time();
        }
        self.format = version.timestamps;
    }

    #[inline(never)]
    fn uncommon(&mut self, item: &PacketItem<Packet>, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(packet) => self.packet(packet, sink),
            Err(error) => {
                (self.master, self.channel) = (None, None);
                // Timestamps that are missing may have changed any nibble.
                self.forget_time();
                sink.item(Err((*error).into()));
            }
        }
    }

    fn forget_time(&mut self) {
        (self.clock, self.earlier) = (Clock::default(), None);
    }

    /// The time of a packet that may have a timestamp.
    #[inline(always)]
    fn time(&mut self, timestamp: Option<Timestamp>) -> Option<Time> {
        timestamp.map_or(self.earlier, |timestamp| self.own_time(timestamp))
    }

    /// The time of a packet with this timestamp.
    #[inline(always)]
    fn own_time(&mut self, timestamp: Timestamp) -> Option<Time> {
        let own = match self.format {
            // A depth of a buffer is not a time.
            TimestampFormat::Legacy(_) => return None,
            TimestampFormat::Delta => TimeQuality::Relative,
            TimestampFormat::Natural | TimestampFormat::Gray => TimeQuality::Exact,
        };
        self.clock = self.clock.after(timestamp, self.format);
        let Clock { value, known } = self.clock;
        let value = if self.format == TimestampFormat::Gray { from_gray(value) } else { value };
        let time =
            |quality| Some(Time { value, quality: if known < WHOLE_TIME { TimeQuality::Partial } else { quality } });
        self.earlier = time(TimeQuality::Earlier);
        time(own)
    }
}

impl Clock {
    /// The clock after a packet with a timestamp.
    #[inline(always)]
    fn after(self, Timestamp { value, nibbles }: Timestamp, format: TimestampFormat) -> Self {
        if format == TimestampFormat::Delta {
            return Self { value: self.value.wrapping_add(value), known: 64 };
        }
        let bits = 4 * nibbles;
        let new = if bits < 64 { (1 << bits) - 1 } else { u64::MAX };
        Self { value: self.value & !new | value, known: self.known.max(bits) }
    }
}

/// A number of which a short packet has only the low bits.
fn number(before: Option<u16>, value: u16, wide: bool) -> u16 {
    if wide { value } else { before.unwrap_or(0) & 0xff00 | value & 0xff }
}

/// Bit n of the result is the parity of the bits from n up.
fn from_gray(gray: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(gray, |value, shift| value ^ value >> shift)
}

impl DecodeElements for ElementDecoder {
    type Packet = Packet;

    #[inline(always)]
    fn push(&mut self, item: PacketItem<Packet>, sink: &mut impl Sink<ElementItem>) {
        // Nearly all packets are data and flags: here they are not moved in memory.
        if let Ok(packet) = &item {
            let extent = Extent::of(packet);
            match packet.value.body {
                Body::Data { value, bits, marked, timestamp } => {
                    let software = self.software(value, bits, marked, timestamp);
                    return sink.item(Ok(extent.locate(software)));
                }
                Body::Flag(timestamp) => {
                    let flag = self.flag(timestamp);
                    return sink.item(Ok(extent.locate(flag)));
                }
                _ => {}
            }
        }
        self.uncommon(&item, sink);
    }

    fn finish(&mut self, _sink: &mut impl Sink<ElementItem>) -> u64 {
        0
    }
}
