//! The stream of an ITM: stimulus packets with local or global timestamps.
//!
//! Specification: Armv7-M (DDI 0403), ITM packet protocol. A local timestamp follows the packets that it dates, and is a
//! difference; a global one precedes them. The page of the ports is repeated after a synchronization.

use unspool_coresight::itm::{Extension, Packet, Relation, Unencodable};

use super::{SoftwareUnit, SoftwareWrite, Untraceable, Written};

/// Ports of a page.
const PAGE: u16 = 32;

/// Greatest difference of a local timestamp.
const MAX_TICKS: u64 = (1 << 28) - 1;

/// Number of local timestamps that a pause may take.
const MAX_PAUSE: u64 = 16;

pub(super) fn encode<'w>(
    unit: &SoftwareUnit,
    writes: impl IntoIterator<Item = &'w SoftwareWrite>,
) -> Result<Vec<u8>, Untraceable> {
    let mut stream = Stream::new(unit);
    stream.synchronize().map_err(|error| Untraceable { index: 0, reason: error.to_string() })?;
    for (index, write) in writes.into_iter().enumerate() {
        stream.write(write).map_err(|reason| Untraceable { index, reason })?;
    }
    Ok(stream.bytes)
}

struct Stream<'u> {
    unit: &'u SoftwareUnit,
    bytes: Vec<u8>,
    synchronized_at: usize,
    /// The page of the ports; `None`: it has to be repeated.
    page: Option<u8>,
    /// The last time.
    time: u64,
    /// The last global timestamp since the last synchronization.
    global: Option<u64>,
    /// Its bits from 26 up, since the start.
    high: Option<u64>,
}

impl<'u> Stream<'u> {
    fn new(unit: &'u SoftwareUnit) -> Self {
        Self { unit, bytes: Vec::new(), synchronized_at: 0, page: Some(0), time: 0, global: None, high: None }
    }

    fn push(&mut self, packet: Packet) -> Result<(), Unencodable> {
        packet.encode(&mut self.bytes)
    }

    fn synchronize(&mut self) -> Result<(), Unencodable> {
        self.synchronized_at = self.bytes.len();
        self.page = self.page.filter(|page| *page == 0);
        self.global = None;
        self.push(Packet::Sync)
    }

    fn write(&mut self, write: &SoftwareWrite) -> Result<(), String> {
        let values = values(write)?;
        let since = self.bytes.len() - self.synchronized_at;
        if self.unit.sync_bytes > 0 && since >= self.unit.sync_bytes as usize {
            self.synchronize().map_err(|error| error.to_string())?;
        }
        let ticks = match write.time {
            Some(time) => Some(time.checked_sub(self.time).ok_or("its time is before that of the write before it")?),
            None => None,
        };
        if !self.unit.global_timestamps && ticks.is_some_and(|ticks| ticks > MAX_PAUSE * MAX_TICKS) {
            return Err(
                "its time is too far after the one before it for local timestamps; use --timestamps".to_string()
            );
        }
        self.time = write.time.unwrap_or(self.time);
        self.packets(write.channel, &values, ticks).map_err(|error| error.to_string())
    }

    fn packets(&mut self, port: u16, values: &[(u32, u8)], ticks: Option<u64>) -> Result<(), Unencodable> {
        if ticks.is_some() && self.unit.global_timestamps {
            self.global_timestamp(self.time)?;
        }
        let pauses = ticks.map_or(0, |ticks| ticks.saturating_sub(1) / MAX_TICKS);
        let ticks = ticks.filter(|_| !self.unit.global_timestamps).map(|ticks| ticks - pauses * MAX_TICKS);
        for _ in 0..if ticks.is_some() { pauses } else { 0 } {
            self.push(Packet::LocalTimestamp1 { ticks: MAX_TICKS as u32, relation: Relation::Synchronous })?;
        }
        let page = (port / PAGE) as u8;
        if self.page != Some(page) {
            self.push(Packet::Extension(Extension { hardware: false, bits: 3, value: page.into() }))?;
            self.page = Some(page);
        }
        for &(value, size) in values {
            self.push(Packet::Software { port: (port % PAGE) as u8, size, value })?;
        }
        ticks.map_or(Ok(()), |ticks| self.local_timestamp(ticks as u32))
    }

    fn local_timestamp(&mut self, ticks: u32) -> Result<(), Unencodable> {
        let packet = match ticks {
            1..=6 => Packet::LocalTimestamp2 { ticks: ticks as u8 },
            _ => Packet::LocalTimestamp1 { ticks, relation: Relation::Synchronous },
        };
        self.push(packet)
    }

    /// The bits of a global timestamp that changed; all of them after a synchronization.
    fn global_timestamp(&mut self, time: u64) -> Result<(), Unencodable> {
        let before = self.global.replace(time);
        let changed = before.map_or(u64::MAX, |before| before ^ time);
        if changed == 0 {
            return Ok(());
        }
        let (is_whole, high) = (changed >> 26 != 0, time >> 26);
        let wrap = self.high.replace(high).is_some_and(|before| before != high);
        let bits = [7, 14, 21].into_iter().find(|bits| changed >> bits == 0).unwrap_or(26);
        let value = (time & ((1 << bits) - 1)) as u32;
        self.push(Packet::GlobalTimestamp1 { value, bits, wrap, clock_change: false })?;
        if is_whole {
            let bytes = if time >> 48 == 0 { 4 } else { 6 };
            self.push(Packet::GlobalTimestamp2 { value: high, bytes })?;
        }
        Ok(())
    }
}

/// The values of a write, with their number of bytes.
fn values(write: &SoftwareWrite) -> Result<Vec<(u32, u8)>, String> {
    if write.master.is_some() {
        return Err("an ITM has no masters: give only a port".to_string());
    }
    if write.channel > 255 {
        return Err("an ITM has ports 0 to 255".to_string());
    }
    match &write.written {
        Written::Value { marked: true, .. } => Err("an ITM has no marked values".to_string()),
        Written::Value { value, bits: bits @ (8 | 16 | 32), .. } => {
            let value = u32::try_from(*value).map_err(|_| format!("{value:#x} has more than 32 bits"))?;
            Ok(vec![(value, bits / 8)])
        }
        Written::Value { bits, .. } => Err(format!("an ITM has values of 8, 16 and 32 bits, not of {bits}")),
        Written::Text(text) => Ok(text.iter().map(|byte| (u32::from(*byte), 1)).collect()),
        Written::Flag => Err("an ITM has no flags".to_string()),
    }
}
