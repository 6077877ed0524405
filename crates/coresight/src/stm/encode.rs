//! Packets to bytes: the inverse of the packet decoder.
//!
//! Takes the content of packets. Produces nibbles, packed into bytes. What the version of the stream has no nibbles for is
//! refused, so everything that is written can be read back. At the end, half a byte is filled up with a NULL.

use alloc::vec::Vec;

use super::nibbles::reverse;
use super::packet::{Body, Timestamp, TimestampFormat, Version};

/// A packet that a stream of this version cannot contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stream of this version has no packet '{0}'")]
pub struct Unencodable(pub Body);

/// Writes packets.
///
/// ```
/// use unspool_coresight::stm::{Body, Encoder, TimestampFormat, Version};
/// let mut encoder = Encoder::new();
/// encoder.push(&Body::Async)?;
/// encoder.push(&Body::Version(Version::new(TimestampFormat::Natural)))?;
/// encoder.push(&Body::Data { value: 7, bits: 4, marked: false, timestamp: None })?;
/// assert_eq!(encoder.finish()[10..], [0x0f, 0x0f, 0x30, 0x7c]);
/// # Ok::<(), unspool_coresight::stm::Unencodable>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    /// The last byte has only its first nibble.
    is_half: bool,
    version: Option<Version>,
}

impl Encoder {
    /// An encoder at the start of a stream. The first packets have to be an ASYNC and a VERSION.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a packet.
    pub fn push(&mut self, body: &Body) -> Result<(), Unencodable> {
        let (length, is_half) = (self.bytes.len(), self.is_half);
        let last = self.bytes.last().copied();
        let done = self.body(body);
        if done.is_none() {
            self.bytes.truncate(length);
            if let (Some(byte), Some(last)) = (self.bytes.last_mut(), last) {
                *byte = last;
            }
            self.is_half = is_half;
        }
        done.ok_or(Unencodable(*body))
    }

    /// Number of bytes so far; the last one may be incomplete.
    pub fn bytes_written(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes, filled up with a NULL.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn body(&mut self, body: &Body) -> Option<()> {
        match *body {
            Body::Async => {
                self.nibbles(&[0xf; 21]);
                self.one(0);
                self.version = None;
                return Some(());
            }
            Body::Null { count: 0 } => return None,
            Body::Null { count } => (0..count).for_each(|_| self.one(0)),
            Body::Version(version) => return self.version(version),
            _ => {}
        }
        let format = self.version?.timestamps;
        match *body {
            Body::Async | Body::Null { .. } | Body::Version(_) => {}
            Body::Master { value, wide } => self.wide(&[1], &[0xf, 1], value, wide)?,
            Body::Channel { value, wide } => self.wide(&[3], &[0xf, 3], value, wide)?,
            Body::MasterError(code) => self.short(&[2], code)?,
            Body::GlobalError(code) => self.short(&[0xf, 2], code)?,
            Body::ChannelError(code) => self.short(&[0xf, 0, 0xf, 3], code)?,
            Body::Data { value, bits, marked, timestamp } => {
                self.nibbles(data_opcode(bits, marked, timestamp.is_some())?);
                self.payload(value, bits / 4)?;
                self.time(timestamp, format)?;
            }
            Body::Flag(timestamp) => {
                self.nibbles(if timestamp.is_some() { &[0xe] } else { &[0xf, 0xe] });
                self.time(timestamp, format)?;
            }
            Body::NullTimestamp(timestamp) => {
                self.nibbles(&[0xf, 0, 1]);
                self.time(Some(timestamp), format)?;
            }
            Body::Trigger { value, timestamp } => {
                self.short(&[0xf, 0, 6 + u8::from(timestamp.is_some())], value)?;
                self.time(timestamp, format)?;
            }
            Body::Frequency { value, wide, timestamp } => {
                let timed = u8::from(timestamp.is_some());
                if wide {
                    self.nibbles(&[0xf, 0, 0xf, timed]);
                } else {
                    self.nibbles(&[0xf, 0, 8 + timed]);
                }
                self.payload(value, if wide { 10 } else { 8 })?;
                self.time(timestamp, format)?;
            }
            Body::CrossSync { value, timestamp } => {
                self.short(&[0xf, 0, 0xa + u8::from(timestamp.is_some())], value)?;
                self.time(timestamp, format)?;
            }
            Body::User { value, nibbles, timestamp } => {
                self.nibbles(&[0xf, 0, 2 + u8::from(timestamp.is_some())]);
                self.one(nibbles.checked_sub(1).filter(|length| *length < 16)?);
                self.payload(value, nibbles)?;
                self.time(timestamp, format)?;
            }
        }
        Some(())
    }

    fn version(&mut self, version: Version) -> Option<()> {
        let Version { timestamps, extension } = version;
        let number = timestamps.number();
        TimestampFormat::from_number(number).filter(|format| *format == timestamps)?;
        match extension {
            None => self.nibbles(&[0xf, 0, 0, number]),
            Some((minor @ 2..=4, least_first)) => {
                let order = if least_first { 8 } else { 0 };
                self.nibbles(&[0xf, 0, 0, number | 8, order, minor - 1]);
            }
            Some(_) => return None,
        }
        self.version = Some(version);
        Some(())
    }

    /// A number in its short or its long form.
    fn wide(&mut self, short: &[u8], long: &[u8], value: u16, wide: bool) -> Option<()> {
        self.nibbles(if wide { long } else { short });
        self.payload(value.into(), if wide { 4 } else { 2 })
    }

    fn short(&mut self, opcode: &[u8], value: u8) -> Option<()> {
        self.nibbles(opcode);
        self.payload(value.into(), 2)
    }

    fn time(&mut self, timestamp: Option<Timestamp>, format: TimestampFormat) -> Option<()> {
        let Some(Timestamp { value, nibbles }) = timestamp else { return Some(()) };
        match (format, nibbles) {
            (TimestampFormat::Legacy(_), 2) => {}
            (TimestampFormat::Legacy(_), _) => return None,
            (_, 0..=12) => self.one(nibbles),
            (_, 14) => self.one(13),
            (_, 16) => self.one(14),
            _ => return None,
        }
        self.payload(value, nibbles)
    }

    /// A payload of this number of nibbles.
    fn payload(&mut self, value: u64, nibbles: u8) -> Option<()> {
        let fits = nibbles >= 16 || value >> (4 * nibbles) == 0;
        let least_first = self.version.is_some_and(Version::is_least_first);
        let value = if least_first { reverse(value, nibbles) } else { value };
        (0..nibbles).rev().for_each(|index| self.one((value >> (4 * index)) as u8 & 0xf));
        fits.then_some(())
    }

    fn nibbles(&mut self, nibbles: &[u8]) {
        nibbles.iter().for_each(|&nibble| self.one(nibble));
    }

    fn one(&mut self, nibble: u8) {
        match self.bytes.last_mut().filter(|_| self.is_half) {
            Some(last) => *last |= nibble << 4,
            None => self.bytes.push(nibble),
        }
        self.is_half = !self.is_half;
    }
}

fn data_opcode(bits: u8, marked: bool, timed: bool) -> Option<&'static [u8]> {
    Some(match (bits, marked, timed) {
        (4, false, false) => &[0xc],
        (8, false, false) => &[4],
        (16, false, false) => &[5],
        (32, false, false) => &[6],
        (64, false, false) => &[7],
        (4, true, true) => &[0xd],
        (8, true, true) => &[8],
        (16, true, true) => &[9],
        (32, true, true) => &[0xa],
        (64, true, true) => &[0xb],
        (4, false, true) => &[0xf, 0xc],
        (8, false, true) => &[0xf, 4],
        (16, false, true) => &[0xf, 5],
        (32, false, true) => &[0xf, 6],
        (64, false, true) => &[0xf, 7],
        (4, true, false) => &[0xf, 0xd],
        (8, true, false) => &[0xf, 8],
        (16, true, false) => &[0xf, 9],
        (32, true, false) => &[0xf, 0xa],
        (64, true, false) => &[0xf, 0xb],
        _ => return None,
    })
}
