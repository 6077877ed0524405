//! Elements that only an ITM has: what the DWT observed, and timestamps. Software stimulus is
//! [`Element::Software`](crate::Element::Software), shared with other protocols.

use super::packet::{Extension, Hardware, PacketKind, Relation};
use crate::Time;

/// An element that no other protocol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnElement {
    /// An observation of the DWT.
    Event {
        /// The observation.
        event: Event,
        /// Its local time, if a timestamp follows.
        time: Option<Time>,
    },
    /// A local timestamp: it dates the elements since the last one.
    LocalTimestamp {
        /// Ticks since the last local timestamp, as in the packet.
        ticks: u32,
        /// What was delayed.
        relation: Relation,
        /// Ticks since the start of the trace or its last gap, with the prescaler applied.
        time: u64,
    },
    /// The clock ratio changed before the global timestamp that follows.
    ClockChange,
    /// An extension without a defined meaning.
    Extension(Extension),
}

/// An observation of the DWT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Event counters wrapped: bit 0 CPI, 1 exception, 2 sleep, 3 LSU, 4 fold, 5 cycle.
    EventCounter {
        /// One bit per counter.
        mask: u8,
    },
    /// An exception was entered, exited or returned to.
    Exception {
        /// The exception number; 0 is Thread mode.
        number: u16,
        /// What happened.
        action: ExceptionAction,
    },
    /// A sample of the program counter.
    PcSample(PcSample),
    /// Counters of the PMU overflowed.
    PmuOverflow {
        /// One bit per counter.
        mask: u8,
    },
    /// A comparator matched: the address of the instruction.
    DataPc {
        /// The comparator.
        comparator: u8,
        /// The program counter.
        pc: u32,
    },
    /// A comparator matched.
    DataMatch {
        /// The comparator.
        comparator: u8,
    },
    /// A comparator matched: the low bits of the data address.
    DataAddress {
        /// The comparator.
        comparator: u8,
        /// Bits 15 to 0 of the address.
        low: u16,
    },
    /// A comparator matched: the value that was read or written.
    DataValue {
        /// The comparator.
        comparator: u8,
        /// It was written.
        write: bool,
        /// Number of bytes.
        size: u8,
        /// The value.
        value: u32,
    },
    /// A packet whose meaning is not defined.
    Unknown(Hardware),
}

/// What happened to an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceptionAction {
    /// It was entered.
    Entered,
    /// It was exited.
    Exited,
    /// Execution returned to it.
    Returned,
}

impl ExceptionAction {
    /// The action of two bits, of which zero is reserved.
    fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 | 1 => Self::Entered,
            2 => Self::Exited,
            _ => Self::Returned,
        }
    }

    /// The name that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entered => "entered",
            Self::Exited => "exited",
            Self::Returned => "returned",
        }
    }
}

/// A sample of the program counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PcSample {
    /// The address.
    Address(u32),
    /// The processor slept.
    Asleep,
    /// Sampling was prohibited (Armv8-M).
    Prohibited,
}

impl Hardware {
    /// The meaning of the packet.
    pub fn event(self) -> Event {
        self.with_event(|event| event)
    }

    /// Passes on the meaning of the packet. Inlined, each meaning has a path of its own, so that it is put together in registers.
    #[inline(always)]
    pub(super) fn with_event<R>(self, then: impl FnOnce(Event) -> R) -> R {
        let Self { discriminator, size, value } = self;
        let comparator = discriminator >> 1 & 3;
        match (discriminator, size) {
            (0, 1) => then(Event::EventCounter { mask: value as u8 }),
            (1, 2) if value >> 12 & 3 != 0 => then(Event::Exception {
                number: (value & 0x1ff) as u16,
                action: ExceptionAction::from_bits(value >> 12),
            }),
            (2, 4) => then(Event::PcSample(PcSample::Address(value))),
            (2, 1) if value == 0 => then(Event::PcSample(PcSample::Asleep)),
            (2, 1) if value == 0xff => then(Event::PcSample(PcSample::Prohibited)),
            (3, 1) => then(Event::PmuOverflow { mask: value as u8 }),
            (8 | 10 | 12 | 14, 4) => then(Event::DataPc { comparator, pc: value }),
            (8 | 10 | 12 | 14, 1) if value == 1 => then(Event::DataMatch { comparator }),
            (9 | 11 | 13 | 15, 2) => then(Event::DataAddress { comparator, low: value as u16 }),
            (16..=23, _) => then(Event::DataValue { comparator, write: discriminator & 1 == 1, size, value }),
            _ => then(Event::Unknown(self)),
        }
    }
}

impl Event {
    /// The kind of its packet.
    pub fn kind(&self) -> PacketKind {
        match self {
            Event::EventCounter { .. } => PacketKind::EventCounter,
            Event::Exception { .. } => PacketKind::ExceptionTrace,
            Event::PcSample(_) => PacketKind::PcSample,
            Event::PmuOverflow { .. } => PacketKind::PmuOverflow,
            Event::DataPc { .. } => PacketKind::DataTracePc,
            Event::DataMatch { .. } => PacketKind::DataTraceMatch,
            Event::DataAddress { .. } => PacketKind::DataTraceAddress,
            Event::DataValue { .. } => PacketKind::DataTraceValue,
            Event::Unknown(_) => PacketKind::Hardware,
        }
    }
}

impl OwnElement {
    /// The name of the element's kind that the command line and JSON use.
    pub fn name(&self) -> &'static str {
        match self {
            OwnElement::Event { event, .. } => event.kind().name(),
            OwnElement::LocalTimestamp { .. } => "local_timestamp",
            OwnElement::ClockChange => "clock_change",
            OwnElement::Extension(_) => "extension",
        }
    }
}
