//! Steps from any point are those from the beginning: of random streams with damage, and of the corpus. The state that an
//! index finds is that of a replay.

use std::ops::ControlFlow;
use std::path::Path;
use std::slice;

use tempfile::TempDir;
use unspool_capture::{BufferFormat, Capture, Code, Region, Register, Registers, Spaces};
use unspool_coresight::frame::Formatter;
use unspool_coresight::{Protocol, Transactions};
use unspool_flow::{Around, FlowItem, InstructionSink, Instructions};
use unspool_model::{BlockSink, BlockTrace, Positions, Step, StepSource as _};
use unspool_tarmac::index::{Position, State, StateView};
use unspool_testing::{Random, corpus, note};

use super::super::tests::instructions_at;
use super::*;
use crate::place::{Place, PlaceFinder};
use crate::state::replay;
use crate::{Bare, CaptureShard, Carried, Trace, Watch, open_bare, open_capture};

/// Steps after a point that are compared.
const COMPARED: usize = 1_000;
/// Steps of a source that are read.
const READ: usize = 200_000;

/// The first steps of a source, and the points between them with the number of steps before each.
fn steps_and_points(steps: &mut CaptureSteps, distance: u64) -> (Vec<Step>, Vec<(usize, CapturePoint)>) {
    let (mut all, mut points) = (Vec::new(), Vec::new());
    let mut take = |item: StepOrPoint<'_>| {
        match item {
            StepOrPoint::Step(step) => all.push(step.clone()),
            StepOrPoint::Point(point) => points.push((all.len(), *point)),
        }
        if all.len() < READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    steps.each_with_points(distance, &mut take).unwrap();
    (all, points)
}

/// The first steps from a point on.
fn steps_from(steps: &mut CaptureSteps, point: &CapturePoint, count: usize) -> Vec<Step> {
    let mut found = Vec::new();
    let mut take = |step: &Step| {
        found.push(step.clone());
        if found.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    steps.each_from(point, &mut take).unwrap();
    found
}

/// Compares reading from points with reading from the beginning. Returns the number of points that were compared.
fn assert_points(name: &str, steps: &mut CaptureSteps, distance: u64, at_most: usize) -> usize {
    let mut plain = Vec::new();
    let mut take = |step: &Step| {
        plain.push(step.clone());
        if plain.len() < READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    steps.each(&mut take).unwrap();
    let (all, points) = steps_and_points(steps, distance);
    assert!(plain == all, "{name}: points change the steps");
    let stride = points.len().div_ceil(at_most.max(1)).max(1);
    let mut compared = 0;
    for (before, point) in points.iter().step_by(stride) {
        let numbers = point.to_numbers();
        assert_eq!(CapturePoint::from_numbers(&numbers).as_ref(), Some(point), "{name}: {numbers:?}");
        let is_end = all.len() < READ;
        let rest = &all[*before..];
        let expected = &rest[..rest.len().min(COMPARED)];
        let found = steps_from(steps, point, if is_end { COMPARED } else { expected.len() });
        if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
            panic!("{name}: step {at} after {point:x?}\n  found    {:x?}\n  expected {:x?}", found[at], expected[at]);
        }
        assert_eq!(found.len(), expected.len(), "{name}: {point:x?}");
        compared += 1;
    }
    compared
}

const SYNC: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00];

/// Random trace of ETE, with bytes that are none and long runs of packets without meaning.
fn random_stream(random: &mut Random, length: usize) -> Vec<u8> {
    let mut stream = Vec::new();
    while stream.len() < length {
        let word = random.below(16) as u8;
        let address = [0x82, word, 0x40, 0, 0, random.pick(&[0x30, 0x31])];
        match random.below(16) {
            0..=4 => {
                stream.extend(SYNC);
                if random.flip() {
                    stream.extend([0x02, random.below(128) as u8]);
                }
                stream.extend(address);
            }
            5 => stream.extend(SYNC),
            6 => stream.extend(address),
            7 => stream.extend([0x02, random.below(128) as u8]),
            8 => stream.extend([0x06, 0x1d, 0x9a, word, 0x40, 0, 0]),
            9 => stream.extend([random.pick(&[0x04, 0x10, 0x17, 0x72, 0x07])]),
            10 => stream.extend([0x00, 0x05]),
            11 => stream.extend((0..random.below(6)).map(|_| 0)),
            12 => stream.extend((0..random.below(8)).map(|_| random.bits() as u8)),
            // Ignored.
            _ => stream.resize(stream.len() + random.below(1200) as usize, 0x70),
        }
        stream.extend((0..random.below(10)).map(|_| random.pick(&[0xf7, 0xf6, 0xd9, 0xda, 0xfd, 0xf9])));
    }
    stream
}

/// The stream in frames, with another source; bytes are lost, added and changed.
fn damaged_frames(random: &mut Random, stream: &[u8]) -> Vec<u8> {
    let mut formatter = Formatter::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(1 + random.below(3000) as usize));
        formatter.push(0x10, now);
        rest = later;
        match random.below(12) {
            0 => formatter.push(0x11, &[1, 2, 3, 4, 5]),
            1 => formatter.barrier(),
            _ => {}
        }
    }
    let mut bytes = formatter.finish();
    for _ in 0..random.below(24) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(3) {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, random.bits() as u8),
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
    bytes
}

/// Calls, returns, branches of both kinds and code in between.
fn code() -> Code {
    const WORDS: [u32; 16] = [
        0xd503_201f, // nop
        0x9400_0007, // bl
        0x5400_0041, // b.ne
        0xd503_201f, // nop
        0x1400_0002, // b
        0xd503_3fdf, // isb
        0xd61f_0000, // br x0
        0x17ff_fff9, // b
        0xd503_201f, // nop
        0xd65f_03c0, // ret
        0x5400_ff21, // b.ne
        0x9400_0003, // bl
        0xd65f_03c0, // ret
        0xd503_201f, // nop
        0x1400_0000, // b to itself
        0xd69f_03e0, // eret
    ];
    let bytes: Vec<u8> = WORDS.iter().flat_map(|word| word.to_le_bytes()).collect();
    Code { regions: vec![Region { address: 0x8000, bytes: bytes.into(), spaces: Spaces::ANY }], ..Code::default() }
}

/// Steps of a buffer of ETE with the trace id 0x10.
fn steps_of(bytes: &[u8], format: BufferFormat, configr: u64) -> (TempDir, CaptureSteps) {
    speculative_steps_of(bytes, format, configr, 0)
}

/// The same, of a trace unit with this maximum speculation depth.
fn speculative_steps_of(bytes: &[u8], format: BufferFormat, configr: u64, depth: u64) -> (TempDir, CaptureSteps) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("buffer.bin");
    std::fs::write(&path, bytes).unwrap();
    let mut registers = Registers::default();
    for (name, value) in [("TRCIDR0", 0x0800_0ea1), ("TRCIDR8", depth), ("TRCCONFIGR", configr)] {
        registers.set(Register::new(name, value));
    }
    let (protocol, id, format) = (Protocol::Ete, Some(0x10), Some(format));
    let bare = Bare { protocol, id, format, registers, write_pointer: None, wrapped: None, core: None };
    let steps = CaptureSteps::new(open_bare(&[path], bare).unwrap(), None, &[code()]).unwrap();
    (folder, steps)
}

#[test]
fn steps_from_any_point_of_damaged_trace_are_those_from_the_beginning() {
    let (mut raw, mut formatted) = (0, 0);
    for seed in 0..5 {
        let mut random = Random::new(seed);
        let configr = random.pick(&[0x1, 0x1001, 0x801, 0x811, 0x1011]);
        let stream = random_stream(&mut random, 700_000);
        let distance = random.below(60);
        let (_folder, mut steps) = steps_of(&stream, BufferFormat::Raw, configr);
        raw += assert_points(&format!("raw {seed}"), &mut steps, distance, 16);
        let frames = damaged_frames(&mut random, &stream);
        let (_folder, mut steps) = steps_of(&frames, BufferFormat::Formatted, configr);
        formatted += assert_points(&format!("formatted {seed}"), &mut steps, distance, 16);
    }
    assert!(raw > 50 && formatted > 50, "{raw} {formatted}");
}

/// Instructions of a flow, each with the state around it.
#[derive(Default)]
struct Listed(Vec<(unspool_flow::Instruction, Around)>);

impl InstructionSink for Listed {
    fn instruction(&mut self, instruction: &unspool_flow::Instruction, around: &Around) {
        self.0.push((*instruction, *around));
    }

    fn item(&mut self, _item: FlowItem) {}
}

impl Watch for Listed {}

#[test]
fn flow_from_a_segment_is_that_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for (seed, configr) in [(40, 0x801), (41, 0x11), (42, 0x1811)] {
        let mut random = Random::new(seed);
        let stream = random_stream(&mut random, 400_000);
        let (_folder, mut steps) = steps_of(&damaged_frames(&mut random, &stream), BufferFormat::Formatted, configr);
        let (capture, program) = (steps.capture().clone(), std::sync::Arc::clone(steps.program()));
        let (index, fingerprint) = (folder.path().join("index"), Fingerprint { length: 0, modified: 0, sum: 0 });
        let totals = make_with_segments(&mut steps, fingerprint, &index, 50, &mut |_, _| {}).unwrap();
        let mut index = open_capture_index(&index, &fingerprint).unwrap();
        let trace = Trace::all(&capture)[0];
        let mut all = Listed::default();
        trace.instructions(Transactions::Show, &program, &mut all).unwrap();
        assert_eq!(all.0.len() as u64, totals.instructions);
        for part in 0..20 {
            let number = 1 + (totals.instructions - 1) * part / 19;
            let Some(start) = capture_start(&mut index, Position::Instruction(number)).unwrap() else { continue };
            assert!(start.instructions < number);
            let mut rest = Instructions::new(Listed::default());
            trace.flow_from(&start, &program, &mut rest).unwrap();
            let (rest, expected) = (rest.into_sink().0, &all.0[start.instructions as usize..]);
            let same = rest.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
            assert_eq!((same, rest.len()), (expected.len(), expected.len()), "{seed} {number} {start:x?}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

/// Packages of the corpus, sorted.
fn captures() -> Vec<Capture> {
    let Some(folder) = corpus("coresight") else { return Vec::new() };
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.join("snapshot.ini").is_file());
    let of_perf = corpus("perf").map(|folder| folder.join("perf_etm.data"));
    paths.extend(of_perf.filter(|path| path.is_file()));
    paths.sort();
    paths.iter().map(|path| open_capture(path).unwrap()).collect()
}

/// The sources of a capture that have instructions.
fn sources(capture: &Capture) -> Vec<CaptureSteps> {
    let mut names: Vec<&str> = Trace::all(capture).iter().map(|trace| trace.source().name.as_str()).collect();
    names.dedup();
    names.iter().filter_map(|name| CaptureSteps::new(capture.clone(), Some(name), &[]).ok()).collect()
}

#[test]
fn corpus_steps_from_any_point_are_those_from_the_beginning() {
    let mut total = 0;
    for capture in captures() {
        for mut steps in sources(&capture) {
            let name = format!("{} {}", capture.path.display(), steps.source_name());
            let compared = assert_points(&name, &mut steps, 0, 16);
            note(format_args!("{name}: {compared} points"));
            total += compared;
        }
    }
    assert!(total > 50 || corpus("coresight").is_none(), "{total}");
}

fn shown(state: &State) -> String {
    let mut out = Vec::new();
    let view = StateView { state, core: None, memory: &[], registers: &[], last_writes: &[], unit: "instruction" };
    view.write_json(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Compares the index with a replay, at numbers, addresses and times.
fn assert_same_state(folder: &Path, name: &str, capture: &Capture, source: &str, code: &[Code], distance: u64) {
    let open = || CaptureSteps::new(capture.clone(), Some(source), code).unwrap();
    let (mut steps, index) = (open(), folder.join("index"));
    let fingerprint = fingerprint_of(steps.capture(), steps.source_name(), code, &SpaceOptions::default());
    let totals = make_with_segments(&mut steps, fingerprint, &index, distance, &mut |_, _| {}).unwrap();
    let mut indexed = with_capture_index(steps, open_capture_index(&index, &fingerprint).unwrap());
    let mut places: Vec<(String, Position)> = (0..=12)
        .map(|part| 1 + totals.instructions * part / 12)
        .map(|number| (format!("#{number}"), Position::Instruction(number)))
        .collect();
    let (mut addresses, mut times) = (Vec::new(), Vec::new());
    open()
        .each(&mut |step| {
            addresses.extend(step.event.instruction().map(|instruction| instruction.address));
            times.extend(step.time);
            ControlFlow::Continue(())
        })
        .unwrap();
    addresses.sort_unstable();
    addresses.dedup();
    times.dedup();
    let stride = |count: usize| count.div_ceil(6).max(1);
    places.extend(
        addresses.iter().step_by(stride(addresses.len())).map(|at| (format!("{at:#x}"), Position::Address(*at))),
    );
    let unit = open().time_unit();
    for time in times.iter().step_by(stride(times.len())) {
        let time = crate::place::time_of(*time, unit);
        places.push((time.to_string(), Position::Time(time)));
    }
    for (text, position) in places {
        let found = indexed.state_at(position, None, &[]).unwrap();
        let mut steps = open();
        let place: Place = text.parse().unwrap();
        let program = std::sync::Arc::clone(steps.program());
        let mut finder = PlaceFinder::new(&place, None, unit, &program).unwrap();
        let expected = replay(&mut steps, &mut finder, false, 1 << 20).unwrap().state;
        let [found, expected] = [found, expected].map(|state| state.as_ref().map(shown));
        assert_eq!(found, expected, "{name} {text}");
    }
    for address in addresses.iter().step_by(stride(addresses.len())) {
        let expected = instructions_at(*address, |take| open().each(take));
        let found =
            instructions_at(*address, |take| indexed.each_step_near(slice::from_ref(&(*address..address + 1)), take));
        assert_eq!(found, expected, "{name} {address:x}");
    }
}

#[test]
fn state_by_an_index_is_that_of_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(29);
    let stream = random_stream(&mut random, 300_000);
    let (_folder, steps) = steps_of(&damaged_frames(&mut random, &stream), BufferFormat::Formatted, 0x801);
    let (capture, source) = (steps.capture().clone(), steps.source_name().to_string());
    assert_same_state(folder.path(), "random", &capture, &source, &[code()], 100);
}

#[test]
fn corpus_state_by_an_index_is_that_of_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    for capture in captures() {
        for steps in sources(&capture) {
            let name = format!("{} {}", capture.path.display(), steps.source_name());
            let mut count = 0;
            let mut small = CaptureSteps::new(capture.clone(), Some(steps.source_name()), &[]).unwrap();
            small
                .each(&mut |_| {
                    count += 1;
                    if count < READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
                .unwrap();
            if count < READ && steps.why_no_points().unwrap().is_none() {
                assert_same_state(folder.path(), &name, &capture, steps.source_name(), &[], 200);
            }
        }
    }
}

#[test]
fn indexes_are_of_a_source_that_has_points() {
    let folder = tempfile::tempdir().unwrap();
    let (_folder, mut steps) = steps_of(&random_stream(&mut Random::new(1), 1000), BufferFormat::Raw, 1);
    let fingerprint = fingerprint_of(steps.capture(), steps.source_name(), &[code()], &SpaceOptions::default());
    assert_ne!(
        fingerprint,
        fingerprint_of(steps.capture(), steps.source_name(), &[], &SpaceOptions::default()),
        "code counts"
    );
    assert!(steps.why_no_points().unwrap().is_none());
    let index = folder.path().join("index");
    make_capture_index(&mut steps, fingerprint, &index, &mut |_, _| {}).unwrap();
    let other = Fingerprint { sum: fingerprint.sum ^ 1, ..fingerprint };
    assert!(open_capture_index(&index, &other).is_err_and(|error| error.is_stale()));
    let (_folder, mut steps) = speculative_steps_of(&SYNC, BufferFormat::Raw, 1, 4);
    let made = make_capture_index(&mut steps, fingerprint, &index, &mut |_, _| {});
    assert!(matches!(made, Err(LogError::NotSeekable { why, .. }) if why.contains("speculates")), "{made:?}");
}

/// Numbers that are no point are rejected, and none makes a reader panic.
#[test]
fn forged_points() {
    let mut random = Random::new(7);
    let stream = random_stream(&mut random, 270_000);
    let (_folder, mut steps) = steps_of(&damaged_frames(&mut random, &stream), BufferFormat::Formatted, 0x801);
    let (_, points) = steps_and_points(&mut steps, 50);
    let numbers = points.last().unwrap().1.to_numbers();
    let mut read = 0;
    for at in 0..numbers.len() {
        for value in [0, u64::MAX, numbers[at] ^ 1] {
            let mut forged = numbers.clone();
            forged[at] = value;
            let Some(point) = CapturePoint::from_numbers(&forged) else { continue };
            read += 1;
            let _ = steps.each_from(&point, &mut |_| ControlFlow::Break(()));
        }
    }
    assert!(read > 10 && CapturePoint::from_numbers(&numbers[1..]).is_none());
}

/// Everything that a source hands over: executions of blocks, and steps.
#[derive(Default)]
struct Handed(Vec<String>);

impl BlockSink for Handed {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.0.push(format!("{step:x?}"));
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let Positions::Each(positions) = trace.positions else { panic!("{:?}", trace.positions) };
        for (execution, position) in trace.executions.iter().zip(positions) {
            let (block, taken) = (&trace.blocks[execution.number()], execution.is_taken());
            self.0.push(format!("{:#x} {:x?} {taken} {position} {:?}", block.start, block.opcodes, trace.time));
        }
        ControlFlow::Continue(())
    }
}

/// Compares all shards of a source, each read by itself, with the whole. Returns the number of shards that were read, and
/// of those that belong to the one before.
fn assert_shards(name: &str, steps: &mut CaptureSteps, bytes: u64) -> (usize, usize) {
    let mut whole = Handed::default();
    steps.follow(&mut whole).unwrap();
    let Some(shards) = steps.shards(bytes).unwrap() else { return (0, 0) };
    let (mut at, mut read, mut carried, mut seen) = (0, 0, Carried::default(), 0);
    while at < shards.len() {
        let shard = CaptureShard::from_numbers(&shards[at].to_numbers()).unwrap();
        assert_eq!(shard, shards[at]);
        let mut part = Handed::default();
        // What is carried is known only when all shards before were read: the end of a shard must not depend on it.
        let end = steps.follow_shard(&shard, &Carried::default(), &mut Handed::default()).unwrap();
        let again = steps.follow_shard(&shard, &carried, &mut part).unwrap();
        assert_eq!((end.shards, end.carry(&carried)), (again.shards, again.carry(&carried)), "{name} {shard:x?}");
        let expected = &whole.0[seen..][..part.0.len().min(whole.0.len() - seen)];
        let is_other = part.0.iter().zip(expected).position(|(found, expected)| found != expected);
        if let Some(is_other) = is_other {
            panic!("{name}: {shard:x?}\n found    {}\n expected {}", part.0[is_other], expected[is_other]);
        }
        assert_eq!(part.0.len(), expected.len(), "{name}");
        (seen, read, carried) = (seen + part.0.len(), read + 1, end.carry(&carried));
        at = end.shards.map_or(shards.len(), |count| at + count);
    }
    assert_eq!(seen, whole.0.len(), "{name}");
    (read, shards.len() - read)
}

#[test]
fn shards_of_damaged_trace_are_the_whole() {
    let (mut read, mut merged) = (0, 0);
    for seed in 0..6 {
        let mut random = Random::new(100 + seed);
        let configr = random.pick(&[0x1, 0x1001, 0x801, 0x811, 0x1011]);
        let stream = random_stream(&mut random, 700_000);
        let bytes = 20_000 + random.below(40_000);
        let (_folder, mut steps) = steps_of(&stream, BufferFormat::Raw, configr);
        let raw = assert_shards(&format!("raw {seed}"), &mut steps, bytes);
        let frames = damaged_frames(&mut random, &stream);
        let (_folder, mut steps) = steps_of(&frames, BufferFormat::Formatted, configr);
        let formatted = assert_shards(&format!("formatted {seed}"), &mut steps, bytes);
        read += raw.0 + formatted.0;
        merged += raw.1 + formatted.1;
    }
    assert!(read > 60 && merged > 10, "{read} {merged}");
}

#[test]
fn shards_of_the_corpus_are_the_whole() {
    let (mut read, mut merged) = (0, 0);
    for capture in captures() {
        for mut steps in sources(&capture) {
            let name = format!("{} {}", capture.path.display(), steps.source_name());
            let (of_source, others) = assert_shards(&name, &mut steps, 40_000);
            (read, merged) = (read + of_source, merged + others);
        }
    }
    note(format_args!("{read} shards, and {merged} that belong to the one before"));
}
