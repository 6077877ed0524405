//! Packets and elements as text: one short line each.

use core::fmt;

use super::element::{Kind, OwnElement};
use super::packet::{Body, Packet, Timestamp, TimestampFormat, Version};

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body.fmt(f)?;
        f.write_str(if self.high_half { " (from bit 4)" } else { "" })
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Body::Async => f.write_str("async"),
            Body::Null { count: 1 } => f.write_str("null"),
            Body::Null { count } => write!(f, "null, {count} times"),
            Body::Version(version) => version.fmt(f),
            Body::Master { value, wide: false } => write!(f, "master {value:#04x}"),
            Body::Master { value, .. } => write!(f, "master {value:#06x}"),
            Body::Channel { value, wide: false } => write!(f, "channel {value:#04x}"),
            Body::Channel { value, .. } => write!(f, "channel {value:#06x}"),
            Body::MasterError(code) => write!(f, "master error {code:#04x}"),
            Body::GlobalError(code) => write!(f, "global error {code:#04x}"),
            Body::ChannelError(code) => write!(f, "channel error {code:#04x}"),
            Body::Data { value, bits, marked, timestamp } => {
                write!(f, "data {bits} bits 0x{value:0width$x}", width = usize::from(bits / 4))?;
                f.write_str(if marked { ", marked" } else { "" })?;
                Stamp(timestamp).fmt(f)
            }
            Body::Flag(timestamp) => write!(f, "flag{}", Stamp(timestamp)),
            Body::NullTimestamp(timestamp) => write!(f, "null{}", Stamp(Some(timestamp))),
            Body::Trigger { value, timestamp } => write!(f, "trigger {value:#04x}{}", Stamp(timestamp)),
            Body::Frequency { value, timestamp, .. } => write!(f, "frequency {value} Hz{}", Stamp(timestamp)),
            Body::CrossSync { value, timestamp } => write!(f, "cross sync {value:#04x}{}", Stamp(timestamp)),
            Body::User { value, nibbles, timestamp } => {
                write!(f, "user 0x{value:0width$x}{}", Stamp(timestamp), width = usize::from(nibbles))
            }
        }
    }
}

/// A timestamp at the end of a packet.
struct Stamp(Option<Timestamp>);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Timestamp { value, nibbles: 1 }) => write!(f, ", timestamp {value:#x} (1 nibble)"),
            Some(Timestamp { value, nibbles }) => write!(f, ", timestamp {value:#x} ({nibbles} nibbles)"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}, {} timestamps", self.timestamps.number(), self.timestamps.name())?;
        match self.extension {
            Some((minor, least_first)) => {
                let order = if least_first { ", least significant nibble first" } else { "" };
                write!(f, ", STP 2.{minor}{order}")
            }
            None => Ok(()),
        }
    }
}

impl TimestampFormat {
    /// The name that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy(_) => "legacy",
            Self::Delta => "delta",
            Self::Natural => "natural",
            Self::Gray => "gray",
        }
    }
}

impl fmt::Display for OwnElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Flag => f.write_str("flag")?,
            Kind::Trigger(number) => write!(f, "trigger {number}")?,
            Kind::Frequency(hertz) => write!(f, "frequency {hertz} Hz")?,
            Kind::MasterError(code) => write!(f, "master error {code:#04x}")?,
            Kind::GlobalError(code) => write!(f, "global error {code:#04x}")?,
            Kind::ChannelError(code) => write!(f, "channel error {code:#04x}")?,
            Kind::CrossSync(number) => write!(f, "cross sync {number}")?,
            Kind::User { value, nibbles } => write!(f, "user 0x{value:0width$x}", width = usize::from(nibbles))?,
            Kind::Time => f.write_str("time")?,
        }
        self.master.map_or(Ok(()), |master| write!(f, " master {master:#x}"))?;
        self.channel.map_or(Ok(()), |channel| write!(f, " channel {channel}"))?;
        self.time.map_or(Ok(()), |time| write!(f, ", time {time}"))
    }
}
