//! The stream of an STM: STP 2 with natural timestamps, as Arm units write it.
//!
//! Specification: Arm IHI 0054 (STM), MIPI STP 2. A master is named only when it changes, and then its channel is 0; the first
//! timestamp after a synchronization is whole, later ones have the nibbles up to the highest that changed.

use unspool_coresight::stm::{Body, Encoder, Timestamp, TimestampFormat, Unencodable, Version};

use super::{SoftwareUnit, SoftwareWrite, Untraceable, Written};

pub(super) fn encode<'w>(
    unit: &SoftwareUnit,
    writes: impl IntoIterator<Item = &'w SoftwareWrite>,
) -> Result<Vec<u8>, Untraceable> {
    let mut stream = Stream::new(unit);
    for (index, write) in writes.into_iter().enumerate() {
        stream.write(write).map_err(|reason| Untraceable { index, reason })?;
    }
    if stream.synchronized_at.is_none() {
        stream.synchronize().map_err(|error| Untraceable { index: 0, reason: error.to_string() })?;
    }
    Ok(stream.encoder.finish())
}

struct Stream<'u> {
    unit: &'u SoftwareUnit,
    encoder: Encoder,
    /// Number of bytes before the last synchronization.
    synchronized_at: Option<usize>,
    /// The master and the channel of the next data; `None` after a synchronization.
    current: Option<(u16, u16)>,
    /// The last timestamp; `None` after a synchronization.
    time: Option<u64>,
}

impl<'u> Stream<'u> {
    fn new(unit: &'u SoftwareUnit) -> Self {
        Self { unit, encoder: Encoder::new(), synchronized_at: None, current: None, time: None }
    }

    fn write(&mut self, write: &SoftwareWrite) -> Result<(), String> {
        let Some(master) = write.master else { return Err("an STM needs a master: MASTER:CHANNEL".to_string()) };
        let sync_bytes = self.unit.sync_bytes as usize;
        let is_due = |at: usize| sync_bytes > 0 && self.encoder.bytes_written() - at >= sync_bytes;
        if self.synchronized_at.is_none_or(is_due) {
            self.synchronize().map_err(|error| error.to_string())?;
        }
        let packets = self.packets(master, write);
        packets.map_err(|error| error.to_string())
    }

    fn packets(&mut self, master: u16, write: &SoftwareWrite) -> Result<(), Unencodable> {
        self.select(master, write.channel)?;
        let timestamp = write.time.map(|time| self.timestamp(time));
        match &write.written {
            Written::Value { value, bits, marked } => {
                let (value, bits, marked) = (*value, *bits, *marked);
                self.encoder.push(&Body::Data { value, bits, marked, timestamp })
            }
            Written::Text(text) => {
                let mut timestamp = timestamp;
                text.iter().try_for_each(|&byte| {
                    let timestamp = timestamp.take();
                    self.encoder.push(&Body::Data { value: byte.into(), bits: 8, marked: false, timestamp })
                })
            }
            Written::Flag => self.encoder.push(&Body::Flag(timestamp)),
        }
    }

    fn synchronize(&mut self) -> Result<(), Unencodable> {
        self.synchronized_at = Some(self.encoder.bytes_written());
        (self.current, self.time) = (None, None);
        self.encoder.push(&Body::Async)?;
        self.encoder.push(&Body::Version(Version::new(TimestampFormat::Natural)))?;
        self.encoder.push(&Body::Frequency { value: self.unit.frequency.into(), wide: false, timestamp: None })
    }

    /// Names the master and the channel, as far as they changed.
    fn select(&mut self, master: u16, channel: u16) -> Result<(), Unencodable> {
        let before = self.current.map(|(master, _)| master);
        if before != Some(master) {
            // The short form keeps the high bits for some readers, and clears them for others.
            let wide = master > 0xff || before.is_some_and(|before| before > 0xff);
            self.encoder.push(&Body::Master { value: master, wide })?;
            self.current = Some((master, 0));
        }
        let before = self.current.map_or(0, |(_, channel)| channel);
        if before != channel {
            let wide = (before ^ channel) > 0xff;
            let value = if wide { channel } else { channel & 0xff };
            self.encoder.push(&Body::Channel { value, wide })?;
        }
        self.current = Some((master, channel));
        Ok(())
    }

    fn timestamp(&mut self, time: u64) -> Timestamp {
        let changed = self.time.replace(time).map_or(u64::MAX, |before| before ^ time);
        let nibbles = match (u64::BITS - changed.leading_zeros()).div_ceil(4).max(1) {
            13 => 14,
            15 => 16,
            nibbles => nibbles,
        };
        let kept = u64::MAX.checked_shl(4 * nibbles).unwrap_or(0);
        Timestamp { value: time & !kept, nibbles: nibbles as u8 }
    }
}
