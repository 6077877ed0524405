//! Packets and elements as text: one short line each.

use core::fmt;

use super::element::{Event, OwnElement, PcSample};
use super::packet::{Extension, Hardware, Packet, Relation};

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Sync => f.write_str("synchronization"),
            Packet::Overflow => f.write_str("overflow"),
            Packet::LocalTimestamp1 { ticks, relation } => write!(f, "local timestamp +{ticks}{relation}"),
            Packet::LocalTimestamp2 { ticks } => write!(f, "local timestamp +{ticks}"),
            Packet::GlobalTimestamp1 { value, bits, wrap, clock_change } => {
                write!(f, "global timestamp {value:#x} ({bits} bits)")?;
                f.write_str(if *wrap { ", wrap" } else { "" })?;
                f.write_str(if *clock_change { ", clock change" } else { "" })
            }
            Packet::GlobalTimestamp2 { value, bytes } => {
                write!(f, "global timestamp {value:#x} << 26 ({bytes} bytes)")
            }
            Packet::Extension(extension) => extension.fmt(f),
            Packet::Software { port, size, value } => {
                write!(f, "software port {port}, {} 0x{value:0width$x}", Bytes(*size), width = usize::from(2 * size))
            }
            Packet::Hardware(hardware) => hardware.event().fmt(f),
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Relation::Synchronous => "",
            Relation::TimestampDelayed => ", timestamp delayed",
            Relation::EventDelayed => ", event delayed",
            Relation::BothDelayed => ", timestamp and event delayed",
        })
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.page() {
            Some(page) => write!(f, "stimulus page {page}"),
            None => {
                let source = if self.hardware { "hardware" } else { "software" };
                write!(f, "{source} extension {:#x} ({} bits)", self.value, self.bits)
            }
        }
    }
}

/// A number of bytes.
struct Bytes(u8);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// Names of the event counters, from bit 0 up.
pub(super) const COUNTERS: [&str; 6] = ["CPI", "exception", "sleep", "LSU", "fold", "cycle"];

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Event::EventCounter { mask } => {
                f.write_str("event counters wrapped:")?;
                let set = COUNTERS.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
                set.map(|(_, name)| name).try_for_each(|name| write!(f, " {name}"))
            }
            Event::Exception { number, action } => {
                write!(f, "exception {number} ({}) {}", ExceptionName(number), action.name())
            }
            Event::PcSample(PcSample::Address(pc)) => write!(f, "pc sample {pc:#010x}"),
            Event::PcSample(PcSample::Asleep) => f.write_str("pc sample: asleep"),
            Event::PcSample(PcSample::Prohibited) => f.write_str("pc sample: prohibited"),
            Event::PmuOverflow { mask } => {
                f.write_str("pmu counters overflowed:")?;
                (0..8).filter(|bit| mask >> bit & 1 == 1).try_for_each(|bit| write!(f, " {bit}"))
            }
            Event::DataPc { comparator, pc } => write!(f, "comparator {comparator}: pc {pc:#010x}"),
            Event::DataMatch { comparator } => write!(f, "comparator {comparator}: match"),
            Event::DataAddress { comparator, low } => write!(f, "comparator {comparator}: address 0x....{low:04x}"),
            Event::DataValue { comparator, write, size, value } => {
                let access = if write { "write" } else { "read" };
                let width = usize::from(2 * size);
                write!(f, "comparator {comparator}: {access} of {}, 0x{value:0width$x}", Bytes(size))
            }
            Event::Unknown(Hardware { discriminator, size, value }) => {
                write!(f, "hardware source {discriminator}, {} {value:#x}", Bytes(size))
            }
        }
    }
}

/// The name of an M-profile exception.
pub(super) struct ExceptionName(pub(super) u16);

impl fmt::Display for ExceptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "Thread",
            1 => "Reset",
            2 => "NMI",
            3 => "HardFault",
            4 => "MemManage",
            5 => "BusFault",
            6 => "UsageFault",
            7 => "SecureFault",
            11 => "SVCall",
            12 => "DebugMonitor",
            14 => "PendSV",
            15 => "SysTick",
            number @ 16.. => return write!(f, "IRQ {}", number - 16),
            _ => "reserved",
        })
    }
}

impl fmt::Display for OwnElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnElement::Event { event, time } => {
                event.fmt(f)?;
                time.map_or(Ok(()), |time| write!(f, ", time {time}"))
            }
            OwnElement::LocalTimestamp { ticks, relation, time } => {
                write!(f, "local timestamp +{ticks}{relation}, time {time}")
            }
            OwnElement::ClockChange => f.write_str("clock change"),
            OwnElement::Extension(extension) => extension.fmt(f),
        }
    }
}
