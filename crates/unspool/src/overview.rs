//! Overview of a capture: what its buffers and sources contain in total.
//!
//! Takes a capture; produces counts, for `unspool info` and for callers that need them before decoding. Every buffer is
//! read once for its frames and once per source. Keeps counts and the first few errors.

use std::collections::BTreeMap;

use unspool_capture::Capture;
use unspool_coresight::exception::ExceptionNumber;
use unspool_coresight::frame::{FrameError, FrameSink, Mark, Span, WholeFrames};
use unspool_coresight::{
    Assumption, Context, Element, ElementError, ElementItem, Features, PacketError, PacketItem, PacketKind, Sink,
};

use crate::trace::read_frames;
use crate::{Error, Trace, Watch};

const MAX_ERRORS: usize = 5;

/// Channels of software trace that are counted.
const MAX_CHANNELS: usize = 4096;

/// Contents of a capture.
#[derive(Debug)]
pub struct Overview<'c> {
    /// One entry per buffer.
    pub buffers: Vec<Result<BufferOverview, Error>>,
    /// One entry per stream, also for sources that cannot be read.
    pub traces: Vec<(Trace<'c>, Result<TraceOverview, Error>)>,
}

/// Totals of the frames of a buffer.
#[derive(Debug, Default, Clone)]
pub struct BufferOverview {
    /// Bytes by trace id; empty for a buffer without frames.
    pub ids: BTreeMap<u8, u64>,
    /// Full synchronization patterns.
    pub full_syncs: u64,
    /// Half synchronization patterns.
    pub half_syncs: u64,
    /// Barriers, after which trace starts anew.
    pub barriers: u64,
    /// Trigger marks.
    pub triggers: u64,
    /// Ranges of bytes that belong to no frame.
    pub lost: u64,
    /// Bytes in them.
    pub lost_bytes: u64,
    /// First few of them.
    pub errors: Vec<FrameError>,
}

/// Totals of the trace of one source.
#[derive(Debug, Clone, Default)]
pub struct TraceOverview {
    /// Contents of the trace, by the configuration of the trace unit.
    pub features: Features,
    /// Assumptions about the configuration.
    pub assumed: Vec<Assumption>,
    /// Bytes of the source itself.
    pub bytes: u64,
    /// Packets by kind.
    pub kinds: BTreeMap<PacketKind, u64>,
    /// Bytes of the packets of each kind.
    pub kind_bytes: BTreeMap<PacketKind, u64>,
    /// Where the trace can be entered.
    pub syncs: SyncSpacing,
    /// Atoms, E and N.
    pub atoms: [u64; 2],
    /// First and last timestamp.
    pub time: Option<(u64, u64)>,
    /// First and last time of an ITM since an unknown start or since the last gap.
    pub local_time: Option<(u64, u64)>,
    /// Total of the known cycle counts.
    pub cycles: u64,
    /// Exceptions by type.
    pub exceptions: BTreeMap<ExceptionNumber, u64>,
    /// Number of contexts, by Exception level, security and width.
    pub contexts: BTreeMap<String, u64>,
    /// Values that software wrote.
    pub written: u64,
    /// Values that software wrote, by master and channel, as far as they are known. Of the first 4,096 channels.
    pub channels: BTreeMap<(Option<u16>, Option<u16>), u64>,
    /// Ranges of bytes that are not packets, without those before the first synchronization.
    pub malformed: u64,
    /// Bytes in them.
    pub malformed_bytes: u64,
    /// Bytes before the first synchronization and after breaks.
    pub unsynchronized_bytes: u64,
    /// First few errors.
    pub errors: Vec<ElementError>,
}

/// Most distances between synchronizations that are kept for their median.
const MAX_DISTANCES: usize = 1 << 16;

/// Alignment synchronizations of a source, and the bytes of the source between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncSpacing {
    /// Bytes before the first one, the most of all buffers; `None` if there is none.
    pub first: Option<u64>,
    /// The least and the greatest distance.
    pub range: Option<(u64, u64)>,
    /// Distances, those after the first 65,536 excepted.
    distances: Vec<u64>,
    last: u64,
}

impl SyncSpacing {
    /// The median distance, of the first 65,536; `None` with fewer than two synchronizations.
    pub fn median(&self) -> Option<u64> {
        let mut sorted = self.distances.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// Adds the synchronizations of another buffer with trace of the same source.
    pub fn append(&mut self, other: &Self) {
        self.first = self.first.max(other.first);
        if let Some((least, greatest)) = other.range {
            self.widen(least);
            self.widen(greatest);
        }
        let free = MAX_DISTANCES.saturating_sub(self.distances.len());
        self.distances.extend(other.distances.iter().take(free));
    }

    /// Adds a synchronization after this number of bytes.
    fn add(&mut self, bytes: u64) {
        if self.first.is_none() {
            self.first = Some(bytes);
        } else {
            let distance = bytes.saturating_sub(self.last);
            self.widen(distance);
            if self.distances.len() < MAX_DISTANCES {
                self.distances.push(distance);
            }
        }
        self.last = bytes;
    }

    fn widen(&mut self, distance: u64) {
        let (least, greatest) = self.range.unwrap_or((distance, distance));
        self.range = Some((least.min(distance), greatest.max(distance)));
    }
}

impl TraceOverview {
    /// Number of packets.
    pub fn packets(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// Number of packets of the kind with this name.
    pub fn count(&self, kind: &str) -> u64 {
        self.kinds.iter().filter(|(known, _)| known.name() == kind).map(|(_, count)| count).sum()
    }
}

/// Reads everything once. `progress` is called with the bytes read and the total.
pub fn overview<'c>(capture: &'c Capture, progress: &mut dyn FnMut(u64, u64)) -> Overview<'c> {
    let mut traces = Trace::all(capture);
    let sizes: Vec<u64> = capture.buffers.iter().map(unspool_capture::Buffer::len).collect();
    let all = sizes.iter().sum::<u64>() + traces.iter().map(|trace| sizes[trace.buffer_index()]).sum::<u64>();
    let mut done = 0;
    let mut buffers = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        buffers.push(buffer_overview(capture, index, &mut |read| progress(done + read, all)));
        done += size;
    }
    // The frames of a recording may have the trace of any processor.
    let has_sessions = capture.has_sessions();
    traces.retain(|trace| !has_sessions || may_have(&buffers[trace.buffer_index()], trace));
    let mut overviews = Vec::new();
    for trace in traces {
        overviews.push((trace, trace_overview(&trace, &mut |read| progress(done + read, all))));
        done += sizes[trace.buffer_index()];
    }
    Overview { buffers, traces: overviews }
}

/// Whether a buffer has bytes of a source, as far as its frames show.
fn may_have(buffer: &Result<BufferOverview, Error>, trace: &Trace<'_>) -> bool {
    let Some(id) = trace.source().id.filter(|_| trace.buffer().format.is_formatted()) else { return true };
    buffer.as_ref().map_or(true, |found| found.ids.contains_key(&id))
}

fn buffer_overview(capture: &Capture, index: usize, progress: &mut dyn FnMut(u64)) -> Result<BufferOverview, Error> {
    let mut tally = FrameTally { overview: BufferOverview::default(), ids: [0; 128], progress };
    if capture.buffers[index].format.is_formatted() {
        read_frames(capture, index, &mut tally)?;
    } else {
        capture.reader(index)?;
    }
    let FrameTally { mut overview, ids, .. } = tally;
    overview.ids = (0..).zip(ids).filter(|&(_, bytes)| bytes > 0).collect();
    Ok(overview)
}

struct FrameTally<'p> {
    overview: BufferOverview,
    ids: [u64; 128],
    progress: &'p mut dyn FnMut(u64),
}

impl FrameSink for FrameTally<'_> {
    fn span(&mut self, span: Span<'_>) {
        self.ids[usize::from(span.id & 0x7f)] += span.bytes.len() as u64;
    }

    #[inline]
    fn whole(&mut self, id: u8, _offset: u64, frames: WholeFrames<'_>) {
        self.ids[usize::from(id & 0x7f)] += frames.data_length() as u64;
    }

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::FullSync { .. } => self.overview.full_syncs += 1,
            Mark::HalfSync { .. } => self.overview.half_syncs += 1,
            Mark::Barrier { .. } => self.overview.barriers += 1,
            Mark::Trigger { .. } => self.overview.triggers += 1,
            Mark::Lost(error) => {
                self.overview.lost += 1;
                self.overview.lost_bytes += error.skipped;
                if self.overview.errors.len() < MAX_ERRORS {
                    self.overview.errors.push(error);
                }
            }
            _ => {}
        }
    }
}

impl Watch for FrameTally<'_> {
    fn progress(&mut self, read: u64, _total: u64) {
        (self.progress)(read);
    }
}

fn trace_overview(trace: &Trace<'_>, progress: &mut dyn FnMut(u64)) -> Result<TraceOverview, Error> {
    let (features, assumed) = trace.features()?;
    let overview = TraceOverview { features, assumed, ..TraceOverview::default() };
    let mut tally = PacketTally { overview, kinds: Vec::new(), progress };
    trace.packets_and_elements(&mut tally)?;
    let PacketTally { mut overview, kinds, .. } = tally;
    for (kind, tally) in kinds.into_iter().flatten() {
        overview.kinds.insert(kind, tally.packets);
        overview.kind_bytes.insert(kind, tally.bytes);
    }
    Ok(overview)
}

/// Packets of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct KindTally {
    packets: u64,
    bytes: u64,
}

struct PacketTally<'p> {
    overview: TraceOverview,
    /// Counts, by index of the kind.
    kinds: Vec<Option<(PacketKind, KindTally)>>,
    progress: &'p mut dyn FnMut(u64),
}

impl Sink<PacketItem> for PacketTally<'_> {
    fn item(&mut self, item: PacketItem) {
        match &item {
            Ok(packet) => {
                let kind = packet.value.kind();
                if self.kinds.len() <= kind.index() {
                    self.kinds.resize(kind.index() + 1, None);
                }
                let tally = &mut self.kinds[kind.index()].get_or_insert((kind, KindTally::default())).1;
                tally.packets += 1;
                tally.bytes += packet.length;
                if kind.is_sync() {
                    self.overview.syncs.add(self.overview.bytes);
                }
                self.overview.bytes += packet.length;
            }
            Err(error) => self.overview.skipped(error),
        }
    }
}

impl Sink<ElementItem> for PacketTally<'_> {
    fn item(&mut self, item: ElementItem) {
        self.overview.element(&item);
    }
}

impl Watch for PacketTally<'_> {
    fn progress(&mut self, read: u64, _total: u64) {
        (self.progress)(read);
    }
}

impl TraceOverview {
    fn skipped(&mut self, error: &PacketError) {
        self.bytes += error.skipped;
        if error.kind.is_ordinary() {
            self.unsynchronized_bytes += error.skipped;
        } else {
            self.malformed += 1;
            self.malformed_bytes += error.skipped;
        }
    }

    /// Widens the span of local time, which may start again.
    fn at_local(&mut self, time: u64) {
        let (first, last) = self.local_time.unwrap_or((time, time));
        self.local_time = Some((first.min(time), last.max(time)));
    }

    /// Widens the span of time.
    fn at(&mut self, time: u64) {
        let first = self.time.map_or(time, |(first, _)| first);
        self.time = Some((first, time));
    }

    fn element(&mut self, item: &ElementItem) {
        let element = match item {
            Ok(element) => &element.value,
            Err(error) => {
                if !error.kind.is_ordinary() && self.errors.len() < MAX_ERRORS {
                    self.errors.push(*error);
                }
                return;
            }
        };
        match element {
            Element::Atoms(atoms) => {
                let taken = u64::from(atoms.bits().count_ones());
                self.atoms[0] += taken;
                self.atoms[1] += u64::from(atoms.count()) - taken;
            }
            Element::Timestamp { value, .. } => self.at(*value),
            Element::Software(software) => {
                self.written += 1;
                let channel = (software.master, software.channel);
                if self.channels.len() < MAX_CHANNELS || self.channels.contains_key(&channel) {
                    *self.channels.entry(channel).or_default() += 1;
                }
                match self.kinds.keys().next() {
                    Some(PacketKind::Itm(_)) => software.time.iter().for_each(|time| self.at_local(time.value)),
                    _ => software.time.iter().for_each(|time| self.at(time.value)),
                }
            }
            Element::Stm(own) => own.time.iter().for_each(|time| self.at(time.value)),
            Element::CycleCount(Some(cycles)) => self.cycles += u64::from(*cycles),
            Element::Exception { number, .. } => *self.exceptions.entry(*number).or_default() += 1,
            Element::Context(context) => {
                // With identifiers, nearly every context would be a kind of its own.
                let plain = Context { vmid: None, context_id: None, ..*context };
                *self.contexts.entry(plain.to_string()).or_default() += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spacing(offsets: &[u64]) -> SyncSpacing {
        let mut spacing = SyncSpacing::default();
        offsets.iter().for_each(|offset| spacing.add(*offset));
        spacing
    }

    #[test]
    fn distances_are_between_synchronizations() {
        type Row = (&'static [u64], Option<u64>, Option<(u64, u64)>, Option<u64>);
        let rows: [Row; 4] = [
            (&[], None, None, None),
            (&[7], Some(7), None, None),
            (&[0, 10, 40, 45], Some(0), Some((5, 30)), Some(10)),
            (&[3, 3], Some(3), Some((0, 0)), Some(0)),
        ];
        for (offsets, first, range, median) in rows {
            let found = spacing(offsets);
            assert_eq!((found.first, found.range, found.median()), (first, range, median), "{offsets:?}");
        }
    }

    #[test]
    fn distances_of_buffers_are_joined() {
        let mut all = spacing(&[5, 15]);
        all.append(&spacing(&[2, 4, 104]));
        assert_eq!((all.first, all.range, all.median()), (Some(5), Some((2, 100)), Some(10)));
        // No buffer is as long as the distance between two.
        all.append(&SyncSpacing::default());
        assert_eq!(all.range, Some((2, 100)));
    }
}
