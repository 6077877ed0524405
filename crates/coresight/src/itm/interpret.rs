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
    Software { channel: u16, size: u8, value: u32 },
    Hardware(Hardware),
    Extension(Extension),
    ClockChange,
    Timestamp(u64),
}

impl Waiting {
    /// The element with this time. Inlined with a known variant, so that each has a path of its own to the sink and is put
    /// together in registers.
    #[inline(always)]
    fn dated(self, time: Option<Time>) -> Element {
        match self {
            Waiting::Software { channel, size, value } => Element::Software(Software {
                master: None,
                channel: Some(channel),
                payload: value.into(),
                bits: 8 * size,
                marked: false,
                time,
            }),
            Waiting::Hardware(hardware) => Element::Itm(OwnElement::Event { event: hardware.event(), time }),
            Waiting::Extension(extension) => Element::Itm(OwnElement::Extension(extension)),
            Waiting::ClockChange => Element::Itm(OwnElement::ClockChange),
            Waiting::Timestamp(value) => Element::Timestamp { value, cycles: None },
        }
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
                self.wait(extent.locate(Waiting::Software { channel, size, value }), sink);
            }
            Packet::Hardware(hardware) => self.wait(extent.locate(Waiting::Hardware(hardware)), sink),
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
            let extent = Extent::of(waiting);
            match waiting.value {
                it @ Waiting::Software { .. } => sink.item(Ok(extent.locate(it.dated(time)))),
                it @ Waiting::Hardware(_) => sink.item(Ok(extent.locate(it.dated(time)))),
                it @ Waiting::Timestamp(_) => sink.item(Ok(extent.locate(it.dated(time)))),
                it => sink.item(Ok(extent.locate(it.dated(time)))),
            }
        }
        self.waiting.clear();
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
