//! Damage: bytes of real captures are changed, one at a time, and decoding continues.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`, except for the capture in `examples/hello-ete`. Whatever
//! byte was changed, every stage runs to the end and accounts for every byte of its source, the last stage reports
//! every error of the packet stage, and after the second synchronization following the damage all is as without it. An
//! atom that is N instead of E cannot be noticed, so not every change is reported; the number of those is printed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use unspool::capture::Capture;
use unspool::coresight::etm4::Packet as Etm4Packet;
use unspool::coresight::frame::FrameError;
use unspool::coresight::{ElementError, Packet, PacketItem, Transactions};
use unspool::flow::{FlowItem, FlowSink, Item, Run};
use unspool::{Program, Trace, Watch};
use unspool_testing::example;

use super::fixtures::{assert_same, is_etm4, snapshots};

/// Number of flips in the corpus, unless `UNSPOOL_FLIPS` is set.
const FLIPS: usize = 2000;

/// Bytes around the flip that are decoded of a larger buffer: whole frames, and several synchronizations.
const WINDOW: usize = 32 << 10;

/// Pseudorandom numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Decoded contents of one source.
#[derive(Default)]
struct Account {
    /// Each range, exception and Q element, with its offset.
    events: Vec<(u64, Event)>,
    /// Number of findings, and of ranges without code.
    complaints: usize,
    errors: Vec<ElementError>,
    lost_frames: Vec<FrameError>,
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Range { start: u64, end: u64, taken: bool },
    Other(Item),
}

impl FlowSink for Account {
    fn run(&mut self, run: Run<'_>) {
        let events =
            run.ranges().map(|range| Event::Range { start: range.start(), end: range.end(), taken: range.taken() });
        self.events.extend(events.map(|event| (run.offset(), event)));
    }

    fn item(&mut self, item: FlowItem) {
        match item {
            Err(error) => self.errors.push(error),
            Ok(item) => match item.value {
                Item::End => self.ended = true,
                Item::Finding(_) | Item::NoCode { .. } | Item::Lost { .. } => self.complaints += 1,
                Item::Exception { .. } | Item::Q { .. } => self.events.push((item.offset, Event::Other(item.value))),
                _ => {}
            },
        }
    }
}

impl Watch for Account {
    fn lost(&mut self, error: FrameError) {
        self.lost_frames.push(error);
    }
}

/// Packets of one source, which cover all of its bytes.
struct Packets(Vec<PacketItem>);

impl Packets {
    fn of(trace: &Trace<'_>) -> Self {
        let mut items = Vec::new();
        trace.packets(&mut (|item| items.push(item), ())).unwrap();
        let packets = Self(items);
        packets.assert_tiles(trace);
        packets
    }

    /// Asserts that packets and skipped ranges tile the source. In frames there are bytes of other sources in between.
    fn assert_tiles(&self, trace: &Trace<'_>) {
        let mut bytes = 0;
        trace.bytes(&mut (|chunk: &[u8]| bytes += chunk.len() as u64, ())).unwrap();
        let (mut end, mut reported) = (0, 0);
        for item in &self.0 {
            let (offset, length) = match item {
                Ok(packet) => (packet.offset, packet.length),
                Err(error) => (error.offset, error.skipped),
            };
            let follows = if trace.buffer().format.is_formatted() { offset >= end } else { offset == end };
            assert!(follows, "{item:?} does not follow on {end:#x}");
            (end, reported) = (offset + length, reported + length);
        }
        assert_eq!(reported, bytes, "bytes that are not accounted for");
    }

    /// Offsets of the alignment synchronizations.
    fn syncs(&self) -> impl Iterator<Item = u64> {
        let packets = self.0.iter().flatten();
        packets.filter(|packet| packet.value == Packet::Etm4(Etm4Packet::AlignmentSync)).map(|packet| packet.offset)
    }

    /// Offset after which nothing depends on the data before `from`: the first address with context after the second
    /// alignment synchronization and its trace info.
    fn recovered(&self, from: u64) -> Option<u64> {
        let packets = || self.0.iter().flatten();
        let sync = self.syncs().filter(|offset| *offset > from).nth(1)?;
        let info = packets()
            .find(|packet| packet.offset > sync && matches!(packet.value, Packet::Etm4(Etm4Packet::TraceInfo(_))))?;
        let is_address = |packet: &Packet| matches!(packet, Packet::Etm4(Etm4Packet::AddressContext { .. }));
        packets().find(|packet| packet.offset > info.offset && is_address(&packet.value)).map(|packet| packet.offset)
    }
}

fn account(trace: &Trace<'_>, program: &Program) -> Account {
    let mut account = Account::default();
    trace.flow(Transactions::Show, program, &mut account).unwrap();
    assert!(account.ended, "the trace has no end");
    account
}

/// Copy of a capture whose buffers can be changed.
struct Copy {
    folder: tempfile::TempDir,
    name: String,
    programs: Vec<Program>,
    /// Contents of undamaged windows, by buffer and start of the window.
    whole: HashMap<(usize, usize), Vec<(Packets, Account)>>,
    counts: Counts,
}

/// Outcomes of the flips, each counted for the source that it changed most.
#[derive(Default)]
struct Counts {
    unchanged: usize,
    reported: usize,
    unreported: usize,
    recovered: usize,
}

impl Copy {
    fn of(path: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_all(path, folder.path());
        let capture = Capture::open(folder.path()).unwrap();
        let program = |trace: &Trace<'_>| Program::of(&capture, trace.source().core, &[]).0;
        let programs = Trace::all(&capture).iter().map(program).collect();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        Self { folder, name, programs, whole: HashMap::new(), counts: Counts::default() }
    }

    /// Buffers with ETE or ETMv4 trace, and the file of each.
    fn buffers(&self) -> Vec<(usize, PathBuf)> {
        let capture = Capture::open(self.folder.path()).unwrap();
        let mut buffers: Vec<usize> =
            Trace::all(&capture).iter().filter(|trace| is_etm4(trace)).map(Trace::buffer_index).collect();
        buffers.sort_unstable();
        buffers.dedup();
        buffers.retain(|&buffer| capture.buffers[buffer].files.len() == 1 && !capture.buffers[buffer].is_empty());
        let file = |buffer: usize| self.folder.path().join(capture.buffers[buffer].files[0].name.replace('\\', "/"));
        buffers.into_iter().map(|buffer| (buffer, file(buffer))).collect()
    }

    /// Whether the buffer has several synchronizations.
    fn is_long(&self, buffer: usize) -> bool {
        self.decode(buffer).iter().any(|(packets, _)| packets.syncs().count() > 4)
    }

    /// Decodes all sources of a buffer.
    fn decode(&self, buffer: usize) -> Vec<(Packets, Account)> {
        let capture = Capture::open(self.folder.path()).unwrap();
        let traces = Trace::all(&capture);
        let traces = traces.iter().zip(&self.programs).filter(|(trace, _)| is_etm4(trace));
        let traces = traces.filter(|(trace, _)| trace.buffer_index() == buffer);
        traces.map(|(trace, program)| (Packets::of(trace), account(trace, program))).collect()
    }

    /// Changes one byte, decodes, and compares with the result without the change.
    fn flip(&mut self, buffer: usize, file: &Path, original: &[u8], at: usize, by: u8) {
        // The windows of a large buffer start at a few offsets, so that each is decoded only once without a flip.
        let window = WINDOW.min(original.len());
        let start = (at.saturating_sub(window / 8) / (window / 2).max(1) * (window / 2)).min(original.len() - window);
        let mut bytes = original[start..start + window].to_vec();
        if !self.whole.contains_key(&(buffer, start)) {
            fs::write(file, &bytes).unwrap();
            let whole = self.decode(buffer);
            self.whole.insert((buffer, start), whole);
        }
        bytes[at - start] ^= by;
        fs::write(file, &bytes).unwrap();
        let flipped = self.decode(buffer);
        let whole = &self.whole[&(buffer, start)];
        let name = format!("{} buffer {buffer}: byte {at:#x} ^ {by:#04x}, read from {start:#x}", self.name);
        assert_eq!(flipped.len(), whole.len(), "{name}");
        let mut counts = Counts::default();
        for (flipped, whole) in flipped.iter().zip(whole) {
            compare(&name, (at - start) as u64, flipped, whole, &mut counts);
        }
        self.counts.add(&counts);
    }
}

impl Counts {
    fn add(&mut self, of_sources: &Counts) {
        self.reported += usize::from(of_sources.reported > 0);
        self.unreported += usize::from(of_sources.reported == 0 && of_sources.unreported > 0);
        self.unchanged += usize::from(of_sources.reported == 0 && of_sources.unreported == 0);
        self.recovered += usize::from(of_sources.recovered > 0);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unchanged, reported, unreported, recovered } = self;
        write!(f, "{unchanged} change nothing, {reported} are reported, {unreported} are not; {recovered} recover")
    }
}

fn compare(name: &str, at: u64, flipped: &(Packets, Account), whole: &(Packets, Account), counts: &mut Counts) {
    let ((packets, now), (packets_before, before)) = (flipped, whole);
    for error in packets.0.iter().filter_map(|item| item.err()) {
        assert!(now.errors.contains(&error.into()), "{name}: the last stage does not report {error}");
    }
    let same = now.events == before.events;
    let reported = now.complaints != before.complaints
        || now.errors != before.errors
        || now.lost_frames.len() != before.lost_frames.len();
    match (same, reported) {
        (true, false) => counts.unchanged += 1,
        (_, true) => counts.reported += 1,
        (false, false) => counts.unreported += 1,
    }
    // Both have to be synchronized: the flip may have hidden a synchronization, or made one.
    let recovered = packets_before.recovered(at).zip(packets.recovered(at)).map(|(before, now)| before.max(now));
    let Some(recovered) = recovered else { return };
    counts.recovered += 1;
    let tail = |account: &Account| {
        account.events.iter().copied().skip_while(|(offset, _)| *offset <= recovered).collect::<Vec<_>>()
    };
    assert_same(&format!("{name}: after {recovered:#x}"), &tail(now), &tail(before));
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true if entry.file_name() == "expected" => {}
            true => {
                fs::create_dir(&to).unwrap();
                copy_all(&entry.path(), &to);
            }
            // Copied by content, so that the copy is writable.
            false => fs::write(to, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

#[test]
fn changed_byte_of_a_corpus_capture_does_no_lasting_harm() {
    let Some(snapshots) = snapshots() else { return };
    let mut copies: Vec<Copy> = snapshots.iter().map(|path| Copy::of(path)).collect();
    let buffers: Vec<(usize, usize, PathBuf)> = (0..)
        .zip(&copies)
        .flat_map(|(copy, of)| of.buffers().into_iter().map(move |(buffer, file)| (copy, buffer, file)))
        .collect();
    let flips: usize = std::env::var("UNSPOOL_FLIPS").map_or(FLIPS, |flips| flips.parse().unwrap());
    let long: Vec<bool> = buffers.iter().map(|(copy, buffer, _)| copies[*copy].is_long(*buffer)).collect();
    let longs = long.iter().filter(|long| **long).count();
    let mut dice = Dice(1);
    let mut left = flips;
    for (index, (copy, buffer, file)) in buffers.iter().enumerate() {
        // Half of the flips are for the few buffers that are long enough to recover in.
        let share = if long[index] { flips / 2 / longs } else { flips / 2 / (buffers.len() - longs) };
        let share = if index + 1 == buffers.len() { left } else { share };
        let original = fs::read(file).unwrap();
        for _ in 0..share {
            let (at, by) = (dice.below(original.len()), 1 + dice.below(255) as u8);
            copies[*copy].flip(*buffer, file, &original, at, by);
        }
        fs::write(file, &original).unwrap();
        left -= share;
    }
    let mut all = Counts::default();
    for Copy { name, counts, .. } in &copies {
        println!("{name}: {counts}");
        all.unchanged += counts.unchanged;
        all.reported += counts.reported;
        all.unreported += counts.unreported;
        all.recovered += counts.recovered;
    }
    println!("{flips} flips: {all}");
    let Counts { unchanged, reported, unreported, recovered } = all;
    assert_eq!(unchanged + reported + unreported, flips);
    assert!(reported > unreported && recovered > flips / 4, "too little of the damage was noticed");
}

#[test]
fn changed_byte_of_the_example_does_no_harm() {
    let mut copy = Copy::of(&example("hello-ete"));
    for (buffer, file) in copy.buffers() {
        let original = fs::read(&file).unwrap();
        for at in 0..original.len() {
            let to = |value: u8| original[at] ^ value;
            let values = [1, 2, 4, 0x10, 0x40, 0x80, 0xff, to(0), to(0x80), to(0xff), to(0xf7)];
            for by in values.into_iter().filter(|&by| by != 0) {
                copy.flip(buffer, &file, &original, at, by);
            }
        }
    }
    let Counts { unchanged, reported, unreported, .. } = copy.counts;
    println!("hello-ete: {}", copy.counts);
    assert!(reported > unreported && unchanged + reported + unreported > 2000, "too little of the damage was noticed");
}
