//! Trace units that were configured again: which bytes belong to which configuration.
//!
//! the trace of one unit + the times of its configurations ─▶ **ranges** of the buffer
//!
//! With a trace id of its own, a configuration has bytes of its own. With the same id, or without frames, the trace shows where the
//! next configuration starts: a trace unit that is enabled sends a synchronization, a trace info and a trace on. The change is at the
//! first of those whose timestamp is not before the time of the change. Both configurations are tried, since each reads only its own
//! packets reliably. Without a timestamp, the place is unknown and the earlier configuration has all bytes.

use std::ops::Range;

use unspool_coresight::frame::FrameError;
use unspool_coresight::{Element, ElementItem, Packet, PacketItem, Sink, etm4};

use crate::{Error, Trace, Watch};

/// The offsets in the buffer at which a configuration holds; `None`: at all.
pub(crate) fn range_of(trace: &Trace<'_>) -> Result<Option<Range<u64>>, Error> {
    if trace.source().configured.is_none() {
        return Ok(None);
    }
    let all = configurations(trace);
    let Some(at) = all.iter().position(|other| other.is_same(trace)).filter(|_| all.len() > 1) else { return Ok(None) };
    let (before, from) = all.split_at(at);
    let start = before.last().map_or(Ok(0), |before| change(before, trace))?;
    let end = from.get(1).map_or(Ok(u64::MAX), |after| change(trace, after))?;
    Ok(Some(start..end.max(start)))
}

/// All configurations with bytes in the same stream, in order of time.
fn configurations<'c>(trace: &Trace<'c>) -> Vec<Trace<'c>> {
    let is_formatted = trace.buffer().format.is_formatted();
    let shares_bytes = |other: &Trace<'_>| {
        other.buffer_index() == trace.buffer_index()
            && other.source().name == trace.source().name
            && (!is_formatted || other.source().id == trace.source().id)
    };
    trace.siblings().into_iter().filter(shares_bytes).collect()
}

/// The offset where one configuration ends and the next starts.
fn change(before: &Trace<'_>, after: &Trace<'_>) -> Result<u64, Error> {
    let Some(time) = after.source().configured.and_then(|configured| configured.from) else { return Ok(u64::MAX) };
    let (old, new) = (starts(before)?, starts(after)?);
    let is_earlier = |start: &Start| {
        let read = old.iter().find(|other| other.offset == start.offset).and_then(|other| other.time);
        read.is_some_and(|read| read < time)
    };
    let found = new.iter().find(|start| start.time.is_some_and(|read| read >= time) && !is_earlier(start));
    Ok(found.map_or(u64::MAX, |start| start.offset))
}

fn starts(trace: &Trace<'_>) -> Result<Vec<Start>, Error> {
    let mut starts = Starts::default();
    trace.whole().packets_and_elements(&mut starts)?;
    Ok(starts.list)
}

/// A place where a trace unit was enabled, and the first time after it.
#[derive(Debug, Clone, Copy)]
struct Start {
    offset: u64,
    time: Option<u64>,
}

#[derive(Default)]
struct Starts {
    list: Vec<Start>,
    /// The synchronization before the packet, with no other than a trace info in between.
    synchronization: Option<u64>,
    /// No timestamp and no damage since the last start.
    is_open: bool,
}

impl Sink<PacketItem> for Starts {
    fn item(&mut self, item: PacketItem) {
        match item.map(|packet| (packet.offset, packet.value)) {
            Ok((offset, Packet::Etm4(etm4::Packet::AlignmentSync))) => self.synchronization = Some(offset),
            Ok((_, Packet::Etm4(etm4::Packet::TraceInfo(_)))) => {}
            Ok((_, Packet::Etm4(etm4::Packet::TraceOn))) => {
                if let Some(offset) = self.synchronization.take() {
                    self.list.push(Start { offset, time: None });
                    self.is_open = true;
                }
            }
            Ok(_) => self.synchronization = None,
            Err(_) => (self.synchronization, self.is_open) = (None, false),
        }
    }
}

impl Sink<ElementItem> for Starts {
    fn item(&mut self, item: ElementItem) {
        if let Ok(element) = item
            && let Element::Timestamp { value, .. } = element.value
            && let Some(last) = self.list.last_mut().filter(|_| std::mem::take(&mut self.is_open))
        {
            last.time = Some(value);
        }
    }
}

impl Watch for Starts {
    fn lost(&mut self, _error: FrameError) {}
}
