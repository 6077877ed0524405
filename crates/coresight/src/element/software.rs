//! Software trace: values that programs wrote for the trace, and times with their quality. Shared by ITM and STM.

use core::fmt;

use crate::fields::{Fields, Value};

/// A value that software wrote to a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Software {
    /// The master that wrote it: a core, a security state. `None`: the protocol has none, or the trace did not name it
    /// yet.
    pub master: Option<u16>,
    /// The channel or stimulus port. `None`: the trace did not name it yet.
    pub channel: Option<u16>,
    /// The value.
    pub payload: u64,
    /// Number of bits of the value: 4, 8, 16, 32 or 64.
    pub bits: u8,
    /// It marks the boundary of a message.
    pub marked: bool,
    /// When it was written, if known.
    pub time: Option<Time>,
}

impl Software {
    /// The bytes of the value, lowest address first: as a little-endian program wrote them. Four bits are a byte.
    pub fn bytes(&self) -> ([u8; 8], usize) {
        (self.payload.to_le_bytes(), usize::from(self.bits).div_ceil(8).min(8))
    }

    pub(crate) fn fields(&self, out: &mut impl Fields) {
        out.nullable("master", self.master);
        out.nullable("channel", self.channel);
        out.field("bytes", Value::Text(&Bytes(self)));
        out.field("size", Value::Number(self.bits.into()));
        out.field("marked", Value::Flag(self.marked));
        if let Some(time) = self.time {
            time.fields(out);
        }
    }
}

/// The bytes of a value as hexadecimal digits.
struct Bytes<'s>(&'s Software);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, length) = self.0.bytes();
        f.write_str("0x")?;
        bytes.iter().take(length).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for Software {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("software")?;
        self.master.map_or(Ok(()), |master| write!(f, " master {master:#x}"))?;
        match self.channel {
            Some(channel) => write!(f, " channel {channel}")?,
            None => f.write_str(" channel unknown")?,
        }
        write!(f, ", {} bits 0x{:0width$x}", self.bits, self.payload, width = usize::from(self.bits / 4))?;
        f.write_str(if self.marked { ", marked" } else { "" })?;
        self.time.map_or(Ok(()), |time| write!(f, ", time {time}"))
    }
}

/// A time in ticks of the trace, and how well it fits its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// Ticks.
    pub value: u64,
    /// How well it fits.
    pub quality: TimeQuality,
}

/// How well a time fits its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TimeQuality {
    /// The time of the element.
    Exact,
    /// The timestamp was delayed: the element is older.
    TimestampDelayed,
    /// The element was delayed: its cause is older.
    EventDelayed,
    /// Timestamp and element were delayed.
    BothDelayed,
    /// Of the time only low bits are known; the others are shown as zero.
    Partial,
    /// The time since an unknown start.
    Relative,
    /// The time of an earlier element: this one has none of its own.
    Earlier,
}

impl TimeQuality {
    /// The name that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::TimestampDelayed => "timestamp_delayed",
            Self::EventDelayed => "event_delayed",
            Self::BothDelayed => "both_delayed",
            Self::Partial => "partial",
            Self::Relative => "relative",
            Self::Earlier => "earlier",
        }
    }
}

impl Time {
    pub(crate) fn fields(&self, out: &mut impl Fields) {
        out.field("time", Value::Number(self.value));
        out.field("time_quality", Value::Text(&self.quality.name()));
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.value)?;
        f.write_str(match self.quality {
            TimeQuality::Exact => "",
            TimeQuality::TimestampDelayed => " (timestamp delayed)",
            TimeQuality::EventDelayed => " (event delayed)",
            TimeQuality::BothDelayed => " (timestamp and event delayed)",
            TimeQuality::Partial => " (low bits)",
            TimeQuality::Relative => " (relative)",
            TimeQuality::Earlier => " (or later)",
        })
    }
}
