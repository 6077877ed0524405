//! Packets to elements: the page of a port, and the time of a packet.
//!
//! packets ─▶ **elements**
//!
//! A local timestamp dates the packets before it, so elements wait for it, as many as the fullest hardware buffer may
//! hold. Local time is a sum that starts again after a gap: an overflow or malformed bytes. A global timestamp is
//! complete when both of its halves are known.

use alloc::vec::Vec;

use super::Config;
use super::element::OwnElement;
use super::packet::{Extension, Hardware, Packet, Relation};
use crate::decode::DecodeElements;
use crate::{Element, ElementItem, Extent, Located, PacketError, PacketItem, Sink, Software, Time, TimeQuality};

/// Number of elements that wait for their timestamp. An ITM buffers fewer.
const MAX_WAITING: usize = 256;

/// Makes elements from packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementDecoder {
    /// Factor from ticks to cycles.
    prescaler: u64,
    /// The page of the stimulus ports.
    page: u8,
    /// Ticks since the last gap.
    local: u64,
    global: GlobalTime,
    /// Elements since the last local timestamp.
    waiting: Vec<Located<Waiting>>,
}

/// An element that waits for its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Software(Source),
    Hardware(Source),
    Extension(Extension),
    ClockChange,
    Timestamp(u64),
}

/// The content of a source packet in one word: the value in the low half, then the channel or discriminator, then the size.
/// Nearly all elements wait, and the number of stores is what limits the speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source(u64);

impl Source {
    #[inline(always)]
    fn new(number: u16, size: u8, value: u32) -> Self {
        Self(u64::from(value) | u64::from(number) << 32 | u64::from(size) << 48)
    }

    #[inline(always)]
    fn software(self, time: Option<Time>) -> Element {
        Element::Software(Software {
            master: None,
            channel: Some(self.number()),
            payload: self.value().into(),
            bits: 8 * self.size(),
            marked: false,
            time,
        })
    }

    #[inline(always)]
    fn hardware(self) -> Hardware {
        Hardware { discriminator: self.number() as u8, size: self.size(), value: self.value() }
    }

    #[inline(always)]
    fn number(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Number of bytes.
    #[inline(always)]
    fn size(self) -> u8 {
        (self.0 >> 48) as u8
    }

    #[inline(always)]
    fn value(self) -> u32 {
        self.0 as u32
    }
}

/// The global timestamp, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct GlobalTime {
    /// Bits 25 to 0; `None` until a packet had all of them.
    low: Option<u64>,
    /// Bits 63 to 26, shifted right; `None` until known, and after they changed.
    high: Option<u64>,
    clock_change: bool,
}

impl GlobalTime {
    /// The time, if all of it is known.
    fn complete(&self) -> Option<u64> {
        Some(self.high? << 26 | self.low?)
    }
}

impl ElementDecoder {
    /// A decoder at the start of a stream.
    pub fn new(config: &Config) -> Self {
        Self {
            prescaler: config.prescaler.into(),
            page: 0,
            local: 0,
            global: GlobalTime::default(),
            waiting: Vec::new(),
        }
    }

    #[inline(always)]
    fn packet(&mut self, packet: Located<Packet>, sink: &mut impl Sink<ElementItem>) {
        let extent = Extent::of(&packet);
        match packet.value {
            Packet::Software { port, size, value } => {
                let channel = u16::from(self.page) * 32 + u16::from(port);
                self.wait(extent.locate(Waiting::Software(Source::new(channel, size, value))), sink);
            }
            Packet::Hardware(Hardware { discriminator, size, value }) => {
                self.wait(extent.locate(Waiting::Hardware(Source::new(discriminator.into(), size, value))), sink);
            }
            Packet::Sync => {}
            Packet::Overflow => {
                self.gap(sink);
                sink.item(Ok(extent.locate(Element::Overflow)));
            }
            Packet::LocalTimestamp1 { ticks, relation } => self.local_timestamp(extent, ticks, relation, sink),
            Packet::LocalTimestamp2 { ticks } => {
                self.local_timestamp(extent, ticks.into(), Relation::Synchronous, sink);
            }
            Packet::GlobalTimestamp1 { value, bits, wrap, clock_change } => {
                self.global_low(value.into(), bits, wrap, clock_change);
                self.global_timestamp(extent, sink);
            }
            Packet::GlobalTimestamp2 { value, .. } => {
                self.global.high = Some(value);
                self.global_timestamp(extent, sink);
            }
            Packet::Extension(extension) => match extension.page() {
                Some(page) => self.page = page,
                None => self.wait(extent.locate(Waiting::Extension(extension)), sink),
            },
        }
    }

    #[cold]
    #[inline(never)]
    fn error(&mut self, error: PacketError, sink: &mut impl Sink<ElementItem>) {
        self.gap(sink);
        // Packets that are missing may have changed the time.
        self.global = GlobalTime::default();
        sink.item(Err(error.into()));
    }

    /// An element that the next local timestamp dates.
    #[inline(always)]
    fn wait(&mut self, element: Located<Waiting>, sink: &mut impl Sink<ElementItem>) {
        if self.waiting.len() >= MAX_WAITING {
            self.release(None, sink);
        }
        self.waiting.push(element);
    }

    /// Releases the waiting elements with this time.
    #[inline(never)]
    fn release(&mut self, time: Option<Time>, sink: &mut impl Sink<ElementItem>) {
        for waiting in &self.waiting {
            match waiting.value {
                // Nearly all are of software: without the registers of the others.
                Waiting::Software(source) => sink.item(Ok(waiting.map(|_| source.software(time)))),
                _ => Self::release_one(waiting, time, sink),
            }
        }
        self.waiting.clear();
    }

    /// Releases a waiting element of any kind.
    #[inline(never)]
    fn release_one(waiting: &Located<Waiting>, time: Option<Time>, sink: &mut impl Sink<ElementItem>) {
        let mut emit = |element| sink.item(Ok(waiting.map(|_| element)));
        // Each kind has a path of its own, so that its element is put together in registers.
        match waiting.value {
            Waiting::Software(source) => emit(source.software(time)),
            Waiting::Hardware(source) => {
                source.hardware().with_event(|event| emit(Element::Itm(OwnElement::Event { event, time })));
            }
            Waiting::Extension(extension) => emit(Element::Itm(OwnElement::Extension(extension))),
            Waiting::ClockChange => emit(Element::Itm(OwnElement::ClockChange)),
            Waiting::Timestamp(value) => emit(Element::Timestamp { value, cycles: None }),
        }
    }

    /// Trace is missing here: the local time does not continue.
    fn gap(&mut self, sink: &mut impl Sink<ElementItem>) {
        self.release(None, sink);
        self.local = 0;
    }

    #[inline(always)]
    fn local_timestamp(&mut self, extent: Extent, ticks: u32, relation: Relation, sink: &mut impl Sink<ElementItem>) {
        self.local = self.local.saturating_add(u64::from(ticks) * self.prescaler);
        let time = self.local;
        self.release(Some(Time { value: time, quality: quality(relation) }), sink);
        sink.item(Ok(extent.locate(Element::Itm(OwnElement::LocalTimestamp { ticks, relation, time }))));
    }

    #[inline(always)]
    fn global_low(&mut self, value: u64, bits: u8, wrap: bool, clock_change: bool) {
        let new = (1 << bits) - 1;
        self.global.low = match self.global.low {
            Some(low) => Some(low & !new | value),
            None => (bits == 26).then_some(value),
        };
        if wrap {
            self.global.high = None;
        }
        self.global.clock_change |= clock_change;
    }

    #[inline(always)]
    fn global_timestamp(&mut self, extent: Extent, sink: &mut impl Sink<ElementItem>) {
        let Some(value) = self.global.complete() else { return };
        if core::mem::take(&mut self.global.clock_change) {
            self.wait(extent.locate(Waiting::ClockChange), sink);
        }
        self.wait(extent.locate(Waiting::Timestamp(value)), sink);
    }
}

fn quality(relation: Relation) -> TimeQuality {
    match relation {
        Relation::Synchronous => TimeQuality::Exact,
        Relation::TimestampDelayed => TimeQuality::TimestampDelayed,
        Relation::EventDelayed => TimeQuality::EventDelayed,
        Relation::BothDelayed => TimeQuality::BothDelayed,
    }
}

impl DecodeElements for ElementDecoder {
    type Packet = Packet;

    #[inline(always)]
    fn push(&mut self, item: PacketItem<Packet>, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(packet) => self.packet(packet, sink),
            Err(error) => self.error(error, sink),
        }
    }

    fn finish(&mut self, sink: &mut impl Sink<ElementItem>) -> u64 {
        self.release(None, sink);
        0
    }
}
