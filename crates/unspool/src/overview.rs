//! One look at everything: what a capture holds and what its trace says in total.
//!
//! Comes in: a capture. Goes out: numbers, for `unspool info` and for anyone who wants to know before decoding. Every
//! buffer is read once for its frames and once a source. Nothing is kept but counts and the first few errors.

use std::collections::BTreeMap;

use unspool_capture::Capture;
use unspool_coresight::frame::{FRAME_DATA, FrameData, FrameError, FrameSink, Mark, Span};
use unspool_coresight::{
    Assumption, Context, Element, ElementError, ElementItem, Features, PacketError, PacketItem, PacketKind, Sink,
};

use crate::trace::read_frames;
use crate::{Error, Trace, Watch};

/// How many errors are kept with their text.
const ERRORS_KEPT: usize = 5;

/// What a capture holds.
#[derive(Debug)]
pub struct Overview<'c> {
    /// One entry a buffer.
    pub buffers: Vec<Result<BufferOverview, Error>>,
    /// One entry a stream, with what is known of its source even if it cannot be read.
    pub traces: Vec<(Trace<'c>, Result<TraceOverview, Error>)>,
}

/// What the frames of a buffer say.
#[derive(Debug, Default, Clone)]
pub struct BufferOverview {
    /// Bytes by trace id; empty for a buffer without frames.
    pub ids: BTreeMap<u8, u64>,
    /// Full synchronisation patterns.
    pub full_syncs: u64,
    /// Half synchronisation patterns.
    pub half_syncs: u64,
    /// Barriers: places where trace starts afresh.
    pub barriers: u64,
    /// Trigger marks.
    pub triggers: u64,
    /// Stretches that belong to no frame.
    pub lost: u64,
    /// Bytes in them.
    pub lost_bytes: u64,
    /// The first few.
    pub errors: Vec<FrameError>,
}

/// What the trace of one source says in total.
#[derive(Debug, Clone)]
pub struct TraceOverview {
    /// What the configuration of the trace unit says about the trace.
    pub features: Features,
    /// What was assumed for that.
    pub assumed: Vec<Assumption>,
    /// The source's own bytes.
    pub bytes: u64,
    /// Packets by kind.
    pub kinds: BTreeMap<PacketKind, u64>,
    /// Atoms, E and N.
    pub atoms: [u64; 2],
    /// The first and the last timestamp.
    pub time: Option<(u64, u64)>,
    /// Cycles counted in all, where known.
    pub cycles: u64,
    /// Exceptions by type.
    pub exceptions: BTreeMap<u16, u64>,
    /// Exception level, security and width of every context seen, and how often.
    pub contexts: BTreeMap<String, u64>,
    /// Stretches that are no packets, those before the first synchronisation left out.
    pub malformed: u64,
    /// Bytes in them.
    pub malformed_bytes: u64,
    /// Bytes before the first synchronisation and after breaks.
    pub unsynchronised_bytes: u64,
    /// The first few errors.
    pub errors: Vec<ElementError>,
}

impl TraceOverview {
    /// How many packets there are.
    pub fn packets(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// How many packets of the kind with this name there are.
    pub fn count(&self, kind: &str) -> u64 {
        self.kinds.iter().filter(|(known, _)| known.name() == kind).map(|(_, count)| count).sum()
    }
}

/// Goes through everything once. `progress` hears how many bytes were read, of how many.
pub fn overview<'c>(capture: &'c Capture, progress: &mut dyn FnMut(u64, u64)) -> Overview<'c> {
    let traces = Trace::all(capture);
    let sizes: Vec<u64> = capture.buffers.iter().map(unspool_capture::Buffer::len).collect();
    let all = sizes.iter().sum::<u64>() + traces.iter().map(|trace| sizes[trace.buffer_index()]).sum::<u64>();
    let mut done = 0;
    let mut buffers = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        buffers.push(buffer_overview(capture, index, &mut |read| progress(done + read, all)));
        done += size;
    }
    let mut looked = Vec::new();
    for trace in traces {
        looked.push((trace, trace_overview(&trace, &mut |read| progress(done + read, all))));
        done += sizes[trace.buffer_index()];
    }
    Overview { buffers, traces: looked }
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
    fn whole(&mut self, id: u8, _offset: u64, _data: FrameData) {
        self.ids[usize::from(id & 0x7f)] += FRAME_DATA as u64;
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
                if self.overview.errors.len() < ERRORS_KEPT {
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
    let overview = TraceOverview {
        features,
        assumed,
        bytes: 0,
        kinds: BTreeMap::new(),
        atoms: [0; 2],
        time: None,
        cycles: 0,
        exceptions: BTreeMap::new(),
        contexts: BTreeMap::new(),
        malformed: 0,
        malformed_bytes: 0,
        unsynchronised_bytes: 0,
        errors: vec![],
    };
    let mut tally = PacketTally { overview, kinds: Vec::new(), progress };
    trace.packets_and_elements(&mut tally)?;
    let PacketTally { mut overview, kinds, .. } = tally;
    overview.kinds = kinds.into_iter().flatten().collect();
    Ok(overview)
}

struct PacketTally<'p> {
    overview: TraceOverview,
    /// Counts by the number of the kind.
    kinds: Vec<Option<(PacketKind, u64)>>,
    progress: &'p mut dyn FnMut(u64),
}

impl PacketTally<'_> {
    fn count(&mut self, kind: PacketKind) {
        if self.kinds.len() <= kind.index() {
            self.kinds.resize(kind.index() + 1, None);
        }
        self.kinds[kind.index()].get_or_insert((kind, 0)).1 += 1;
    }
}

impl Sink<PacketItem> for PacketTally<'_> {
    fn item(&mut self, item: PacketItem) {
        match &item {
            Ok(packet) => {
                self.count(packet.value.kind());
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
            self.unsynchronised_bytes += error.skipped;
        } else {
            self.malformed += 1;
            self.malformed_bytes += error.skipped;
        }
    }

    fn element(&mut self, item: &ElementItem) {
        let element = match item {
            Ok(element) => &element.value,
            Err(error) => return self.error(error),
        };
        match element {
            Element::Atoms(atoms) => {
                let taken = u64::from(atoms.bits().count_ones());
                self.atoms[0] += taken;
                self.atoms[1] += u64::from(atoms.count()) - taken;
            }
            Element::Timestamp { value, .. } => {
                let first = self.time.map_or(*value, |(first, _)| first);
                self.time = Some((first, *value));
            }
            Element::CycleCount(Some(cycles)) => self.cycles += u64::from(*cycles),
            Element::Exception { number, .. } => *self.exceptions.entry(*number).or_default() += 1,
            Element::Context(context) => {
                // Identifiers would make a line each.
                let plain = Context { vmid: None, context_id: None, ..*context };
                *self.contexts.entry(plain.to_string()).or_default() += 1;
            }
            _ => {}
        }
    }

    fn error(&mut self, error: &ElementError) {
        if !error.kind.is_ordinary() && self.errors.len() < ERRORS_KEPT {
            self.errors.push(*error);
        }
    }
}
