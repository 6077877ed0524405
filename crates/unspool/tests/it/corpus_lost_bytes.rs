//! Lost bytes: one byte of a formatted capture is removed or added, at random offsets, and ranges are compared.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`. All sources with instructions of every formatted buffer
//! are decoded, with 100 removed and 100 added bytes, or as many as `UNSPOOL_LOST_BYTES` has. In every single case at
//! least 95 % of the ranges come back, each with its offset, that are outside
//! the damaged synchronization interval of their source, and hardly any others. The
//! interval is that between two synchronizations of the source which are at least a frame away from the damage. Of
//! buffers that start with up to 15 bytes missing, all ranges come back that follow the first frame with an id.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use unspool::capture::{Buffer, BufferFormat, Capture};
use unspool::coresight::frame::{BadFrame, Deformatter, FRAME_LENGTH, FrameSink, Layout, Mark, Span};
use unspool::coresight::{PacketItem, Transactions};
use unspool::flow::{FlowItem, FlowSink, Run};
use unspool::{Program, Trace, Watch};
use unspool_testing::{Random, corpus};

/// Number of bytes removed from each buffer, and of bytes added, unless `UNSPOOL_LOST_BYTES` is set.
const PLACES: usize = 100;

/// Bytes of a larger buffer that are decoded, around the damage.
const WINDOW: usize = 128 << 10;

/// Smallest part of the ranges that comes back.
const PERCENT: usize = 95;

/// An executed range, with the offset of its packet.
type Range = (u64, u64, u64, bool);

#[derive(Default)]
struct Ranges(Vec<Range>);

impl FlowSink for Ranges {
    fn run(&mut self, run: Run<'_>) {
        self.0.extend(run.ranges().map(|range| (run.offset(), range.start(), range.end(), range.taken())));
    }

    fn item(&mut self, _item: FlowItem) {}
}

impl Watch for Ranges {}

/// The ranges and synchronizations of one source.
struct Decoded {
    ranges: Vec<Range>,
    syncs: Vec<u64>,
}

/// A copy of a capture, one of whose buffers can be changed.
struct Copy {
    folder: tempfile::TempDir,
    name: String,
    buffer: usize,
    file: PathBuf,
    original: Vec<u8>,
    programs: Vec<Program>,
}

impl Copy {
    /// A copy for each formatted buffer with instructions.
    fn all(path: &Path) -> Vec<Self> {
        let capture = Capture::open(path).unwrap();
        let traces = Trace::all(&capture);
        let is_wanted = |buffer: &usize| {
            let of = &capture.buffers[*buffer];
            let mut traces = traces.iter().filter(|trace| trace.buffer_index() == *buffer);
            of.format.is_formatted() && !of.is_empty() && traces.any(Trace::has_instructions)
        };
        (0..capture.buffers.len()).filter(is_wanted).map(|buffer| Self::of(path, buffer)).collect()
    }

    fn of(path: &Path, buffer: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(path).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
            fs::write(folder.path().join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
        }
        let capture = Capture::open(folder.path()).unwrap();
        let program = |trace: &Trace<'_>| Program::of(&capture, trace.source().core, &[]).0;
        let programs = Trace::all(&capture).iter().map(program).collect();
        assert_eq!(capture.buffers[buffer].files.len(), 1, "{}", path.display());
        let file = folder.path().join(&capture.buffers[buffer].files[0].name);
        let original = fs::read(&file).unwrap();
        let name = format!("{} buffer {buffer}", path.file_name().unwrap().display());
        Self { folder, name, buffer, file, original, programs }
    }

    /// Decodes all sources with instructions.
    fn decode(&self, bytes: &[u8]) -> Vec<Decoded> {
        fs::write(&self.file, bytes).unwrap();
        let capture = Capture::open(self.folder.path()).unwrap();
        let traces = Trace::all(&capture);
        let traces = traces.iter().zip(&self.programs).filter(|(trace, _)| trace.buffer_index() == self.buffer);
        traces.filter(|(trace, _)| trace.has_instructions()).map(|(trace, program)| decode(trace, program)).collect()
    }

    /// The window around an offset; there are only a few.
    fn window(&self, at: usize) -> (usize, &[u8]) {
        let length = self.original.len().min(WINDOW);
        let start = (at.saturating_sub(length / 4) / (length / 2) * (length / 2)).min(self.original.len() - length);
        (start, &self.original[start..start + length])
    }

    /// Removes or adds bytes at random offsets. Returns the smallest part of the ranges that came back, in percent.
    fn damage(&self, places: usize) -> usize {
        let mut random = Random::new(28);
        let mut whole: HashMap<usize, Vec<Decoded>> = HashMap::new();
        let mut least = 100;
        for place in 0..2 * places {
            let at = random.below(self.original.len() as u64) as usize;
            let (start, bytes) = self.window(at);
            let whole = whole.entry(start).or_insert_with(|| self.decode(bytes));
            let mut damaged = bytes.to_vec();
            let moved = if place % 2 == 0 {
                damaged.remove(at - start);
                -1
            } else {
                damaged.insert(at - start, random.below(256) as u8);
                1
            };
            let found = self.decode(&damaged);
            let (expected, kept, invented) = compare(whole, &found, (at - start) as u64, moved);
            let percent = (100 * kept).checked_div(expected).unwrap_or(100);
            let name = format!("{}: byte {at:#x} {}", self.name, if moved < 0 { "removed" } else { "added" });
            assert!(percent >= PERCENT, "{name}: {kept} of {expected} ranges came back");
            assert!(invented <= expected * (100 - PERCENT) / 100, "{name}: {invented} ranges were invented");
            least = least.min(percent);
        }
        least
    }

    /// Cuts bytes off the start.
    fn cut(&self) {
        let (_, bytes) = self.window(0);
        let whole = self.decode(bytes);
        for cut in 1..FRAME_LENGTH {
            let found = self.decode(&bytes[cut..]);
            let (expected, kept, _) = compare(&whole, &found, (cut + FRAME_LENGTH) as u64, -(cut as i64));
            assert!(kept * 100 >= expected * PERCENT, "{}: {cut} bytes cut: {kept} of {expected}", self.name);
        }
    }
}

fn decode(trace: &Trace<'_>, program: &Program) -> Decoded {
    let mut ranges = Ranges::default();
    trace.flow(Transactions::Show, program, &mut ranges).unwrap();
    let mut syncs = Vec::new();
    let sink = |item: PacketItem| {
        syncs.extend(item.ok().filter(|packet| packet.value.kind().is_sync()).map(|packet| packet.offset));
    };
    trace.packets(&mut (sink, ())).unwrap();
    Decoded { ranges: ranges.0, syncs }
}

/// Numbers of ranges outside the damaged intervals: expected, found, and found only after the damage.
fn compare(whole: &[Decoded], found: &[Decoded], at: u64, moved: i64) -> (usize, usize, usize) {
    let (mut expected, mut kept, mut invented) = (0, 0, 0);
    for (whole, found) in whole.iter().zip(found) {
        let frame = FRAME_LENGTH as u64;
        let start = whole.syncs.iter().rev().copied().find(|sync| sync + frame < at).unwrap_or(0);
        let end = whole.syncs.iter().copied().find(|sync| *sync > at + frame).unwrap_or(u64::MAX);
        // The range that a synchronization interrupts starts before it.
        let first = whole.ranges.iter().find(|range| range.0 >= end).map_or(end, |range| range.0 + 1);
        let is_outside = |range: &&Range| range.0 < start || range.0 >= first;
        let mut of_found: HashMap<Range, usize> = HashMap::new();
        for range in &found.ranges {
            let offset = if range.0 >= at { range.0.saturating_add_signed(-moved) } else { range.0 };
            *of_found.entry((offset, range.1, range.2, range.3)).or_default() += 1;
        }
        for range in whole.ranges.iter().filter(is_outside) {
            expected += 1;
            if let Some(count) = of_found.get_mut(range).filter(|count| **count > 0) {
                *count -= 1;
                kept += 1;
            }
        }
        let others = of_found.iter().filter(|(range, _)| is_outside(range));
        invented += others.map(|(_, count)| count).sum::<usize>();
    }
    (expected, kept, invented)
}

/// The folders of all captures.
fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.join("snapshot.ini").is_file());
    paths.sort();
    paths
}

/// Runs a job for each buffer, on all processors.
fn each_buffer(job: impl Fn(&Copy) + Sync) {
    let Some(folder) = corpus("coresight") else { return };
    let copies: Vec<Copy> = captures(&folder).iter().flat_map(|path| Copy::all(path)).collect();
    assert!(copies.len() >= 8, "{} has only {} formatted buffers", folder.display(), copies.len());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(copy) = copies.get(next.fetch_add(1, Ordering::Relaxed)) {
                    job(copy);
                }
            });
        }
    });
}

#[test]
fn ranges_come_back_after_a_lost_or_added_byte() {
    let places: usize = std::env::var("UNSPOOL_LOST_BYTES").map_or(PLACES, |places| places.parse().unwrap());
    each_buffer(|copy| {
        let started = std::time::Instant::now();
        let least = copy.damage(places);
        println!("{}: at least {least} % of the ranges, {:.1} s", copy.name, started.elapsed().as_secs_f64());
    });
}

#[test]
fn ranges_of_a_capture_that_starts_inside_a_frame_are_found() {
    each_buffer(Copy::cut);
}

/// Where a deformatter takes frames to start elsewhere.
#[derive(Default)]
struct Shifts(Vec<Mark>);

impl FrameSink for Shifts {
    fn span(&mut self, _span: Span<'_>) {}

    fn mark(&mut self, mark: Mark) {
        let is_shift = |mark: &Mark| matches!(mark, Mark::Lost(error) if error.kind == BadFrame::Shifted);
        self.0.extend(Some(mark).filter(is_shift));
    }
}

fn layout(buffer: &Buffer) -> Layout {
    if buffer.format == BufferFormat::DstreamFormatted { Layout::FromFullSync } else { Layout::FromStart }
}

#[test]
fn frames_of_undamaged_buffers_are_not_shifted_if_sources_are_unknown() {
    let Some(folder) = corpus("coresight") else { return };
    for path in captures(&folder) {
        let capture = Capture::open(&path).unwrap();
        for index in (0..capture.buffers.len()).filter(|index| capture.buffers[*index].format.is_formatted()) {
            let mut bytes = Vec::new();
            capture.reader(index).unwrap().read_to_end(&mut bytes).unwrap();
            let mut shifts = Shifts::default();
            let mut deformatter = Deformatter::new(layout(&capture.buffers[index]));
            deformatter.push(&bytes, &mut shifts);
            deformatter.finish(&mut shifts);
            assert_eq!(shifts.0, [], "{} buffer {index}", path.display());
        }
    }
}
