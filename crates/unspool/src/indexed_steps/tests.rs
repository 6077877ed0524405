//! The index of random ASTF and STF files: at every place, its state is that of a replay, in segments of any size.

use std::io::Cursor;
use std::path::PathBuf;
use std::slice;

use unspool_astf::builder as astf_builder;
use unspool_astf::record::{Header as AstfHeader, Level, Storage as AstfStorage};
use unspool_model::{
    Context, Direction, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Security, StepSink as _,
};
use unspool_stf::builder as stf_builder;
use unspool_stf::lower::{LowerOptions, Lowerer, coverage};
use unspool_stf::record::Register;
use unspool_stf::write::{Storage as StfStorage, WriteOptions as StfWriteOptions, Writer as StfWriter};
use unspool_tarmac::index::{MemoryQuery, Position as Place, State, StateView, WriteQuery};
use unspool_tarmac::record::{Time, Unit};
use unspool_testing::Random;

use super::*;
use crate::file::{FileOptions, TraceFile};
use crate::place::PlaceFinder;
use crate::state::replay;
use crate::{Program, place};

const MEMORY: std::ops::RangeInclusive<u64> = 0x8000..=0x803f;

/// nop, bl, ret and a call of semihosting
const OPCODES: [u32; 4] = [0xd503_201f, 0x9400_0004, 0xd65f_03c0, 0xd45e_0000];

fn shown(state: &State) -> String {
    let memory = [MemoryQuery::All, MemoryQuery::Range(MEMORY)];
    let last_writes = [WriteQuery::Memory(MEMORY)];
    let (registers, last_writes): (&[String], _) = (&[], &last_writes[..]);
    let mut out = Vec::new();
    let view = StateView { state, core: None, memory: &memory, registers, last_writes: &[], unit: "instruction" };
    view.write_json(&mut out).unwrap();
    StateView { last_writes, ..view }.write_json(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Compares index and replay at all instructions, addresses and times.
fn assert_same(folder: &Path, name: &str, bytes: &[u8], distance: u64, unit: Unit) {
    let (trace, index): (PathBuf, PathBuf) = (folder.join(name), folder.join("index"));
    std::fs::write(&trace, bytes).unwrap();
    let (totals, damage) = make_with_segments(&trace, &index, distance, &mut |_, _| {}).unwrap();
    assert!(damage.is_none());
    let mut indexed = open_step_index(&trace, &index).unwrap();
    let numbers = (1..=totals.instructions + 1).map(|number| (format!("#{number}"), Place::Instruction(number)));
    let addresses = (0..24).map(|at| 0x1000 + 4 * at).map(|at| (format!("{at:#x}"), Place::Address(at)));
    let times =
        (95..150).map(|value| (format!("{value}{}", unit.name()), Place::Time(Time { value, decimals: 0, unit })));
    for (text, position) in numbers.chain(addresses).chain(times) {
        let found = indexed.state_at(position, None, &[MEMORY]).unwrap();
        let (mut steps, _) = TraceFile::open(&trace, &FileOptions::default()).unwrap().into_steps(false);
        let place: place::Place = text.parse().unwrap();
        let mut finder = PlaceFinder::new(&place, None, steps.time_unit(), &Program::new(Vec::new())).unwrap();
        let expected = replay(&mut *steps, &mut finder, true, 1 << 20).unwrap().state;
        let [found, expected] = [found, expected].map(|state| state.as_ref().map(shown));
        assert_eq!(found, expected, "{name} {distance} {text}");
    }
    assert_same_steps(&trace, distance, &mut indexed);
    for address in (0..24).map(|at| 0x1000 + 4 * at) {
        let (mut steps, _) = TraceFile::open(&trace, &FileOptions::default()).unwrap().into_steps(false);
        let expected = instructions_at(address, |take| steps.each(take));
        let found =
            instructions_at(address, |take| indexed.each_step_near(slice::from_ref(&(address..address + 1)), take));
        assert_eq!(found, expected, "{name} {distance} {address:x}");
    }
}

/// Reads steps, each with the number of instructions up to it.
type Read<'r> = dyn FnMut(&mut dyn FnMut(u64, &Step) -> ControlFlow<()>) + 'r;

/// Compares the steps from the index and from points with those from the beginning, at all instructions. Returns whether there are
/// points.
fn assert_same_steps(trace: &Path, distance: u64, indexed: &mut IndexedSteps) -> bool {
    let (mut steps, _) = TraceFile::open(trace, &FileOptions::default()).unwrap().into_steps(false);
    let (mut all, mut count) = (Vec::new(), 0);
    steps
        .each(&mut |step| {
            count += u64::from(step.event.instruction().is_some());
            all.push((count, step.clone()));
            ControlFlow::Continue(())
        })
        .unwrap();
    let mut points = points_with_distance(trace, distance, &mut |_, _| {}).unwrap();
    assert!(points.as_ref().is_none_or(|points| points.instructions == count));
    for number in 1..=count {
        let expected: Vec<_> = all.iter().filter(|(count, _)| *count >= number).collect();
        let compare = |read: &mut Read<'_>| {
            let mut found = Vec::new();
            read(&mut |count, step| {
                found.push((count, step.clone()));
                ControlFlow::Continue(())
            });
            // What is at the instruction before is not asked for.
            found.retain(|(count, _)| *count >= number);
            assert!(found.iter().eq(expected.iter().copied()), "{} {distance} {number}", trace.display());
        };
        compare(&mut |take| indexed.each_step_from(number, take).unwrap());
        if let Some(points) = &mut points {
            compare(&mut |take| points.each_step_from(number, take).unwrap());
        }
    }
    points.is_some()
}

/// The instructions at an address, each with its effects.
pub(super) fn instructions_at(
    address: u64,
    read: impl FnOnce(&mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError>,
) -> Vec<Step> {
    let mut found = Vec::new();
    read(&mut |step| {
        let is_there = step.event.instruction().is_some_and(|instruction| instruction.address == address);
        found.extend(is_there.then(|| step.clone()));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// A trace of BasicPlus: times, contexts, exceptions, strings, and modes that the format does not support, which are gaps.
fn random_astf(random: &mut Random) -> Vec<u8> {
    use astf_builder::{Builder, Effect, Redirection, State, Step};
    let header = AstfHeader::new(Level::BasicPlus, true, AstfStorage::Raw);
    let mut trace = Builder::new(Vec::new(), &header).unwrap();
    let state =
        |random: &mut Random| State { el: 1, handler: random.flip(), secure: random.flip(), ..State::default() };
    let mut time = 100;
    trace.timestamp(time).unwrap();
    if random.flip() {
        // The trace starts with a gap.
        trace.context(&State { unsupported: true, ..state(random) }).unwrap();
    }
    trace.context(&state(random)).unwrap();
    for _ in 0..60 {
        let pc = trace.next().unwrap_or_else(|| 0x1000 + 4 * random.below(24));
        match random.below(12) {
            0 => {
                time += 1;
                trace.timestamp(time).unwrap();
            }
            1 => trace.string(b"note").unwrap(),
            2 => trace.context(&state(random)).unwrap(),
            3 => {
                trace.context(&State { unsupported: true, ..state(random) }).unwrap();
                trace.context(&state(random)).unwrap();
            }
            4 => trace.redirected(Redirection::Irq { is_virtual: false }, 0x1000 + 4 * random.below(24)).unwrap(),
            _ => {
                let opcode = random.pick(&OPCODES);
                let effect = match opcode {
                    0x9400_0004 => Effect::Taken(pc + 0x10),
                    0xd65f_03c0 => Effect::Taken(0x1000 + 4 * random.below(24)),
                    _ => Effect::None,
                };
                trace.instruction(&Step { effect, ..Step::plain(pc, opcode) }).unwrap();
            }
        }
    }
    trace.finish().into_flattened()
}

/// A trace of lowered steps with registers, data, times, contexts, exceptions and gaps.
fn random_stf(random: &mut Random, storage: StfStorage) -> Vec<u8> {
    let options = StfWriteOptions { threads: 1, chunk_markers: 7, ..StfWriteOptions::default() };
    let writer = StfWriter::seekable(Cursor::new(Vec::new()), storage, options).unwrap();
    let mut lowerer = Lowerer::new(writer, coverage(), TimeUnit::MICROSECONDS, &LowerOptions::default()).unwrap();
    let mut time = 100;
    for _ in 0..60 {
        let mut step = random_step(random);
        time += random.pick(&[0, 0, 1]);
        step.time = Some(time).filter(|_| random.below(4) > 0);
        lowerer.push(&step).unwrap();
    }
    lowerer.push(&instruction(0x1000, OPCODES[0])).unwrap();
    lowerer.finish().unwrap();
    lowerer.into_sink().finish().unwrap().into_inner()
}

fn instruction(address: u64, opcode: u32) -> Step {
    let mut step = Step::default();
    let opcode = Some(opcode);
    step.event =
        Event::Instruction(Instruction { address, opcode, length: 4, isa: Isa::A64, ..Instruction::default() });
    step
}

fn random_step(random: &mut Random) -> Step {
    let mut step = instruction(0x1000 + 4 * random.below(24), random.pick(&OPCODES));
    match random.below(16) {
        0 => step.event = Event::Gap(random.pick(&[Gap::Start, Gap::Overflow, Gap::Damaged])),
        1 => step.event = Event::Exception(Exception { kind: ExceptionKind::Irq, ..Exception::default() }),
        2 => step.event = Event::ExceptionReturn { target: Some(0x1000) },
        3 => {
            let context =
                Context { level: Some(random.below(3) as u8), is_handler: random.maybe(true), ..Context::default() };
            step.event = Event::Context(Context { security: random.maybe(Security::Secure), ..context });
        }
        4 => step.set_note("note"),
        5 => step.event = Event::State,
        _ => {}
    }
    if matches!(step.event, Event::Instruction(_) | Event::State) {
        for _ in 0..random.below(3) {
            let (name, value) =
                random.pick(&[("x0", 6_u64), ("x1", 0x8000), ("x30", 0x1004), ("sp", 0x9000), ("v3", 1)]);
            step.write_register(name, 0, &value.to_le_bytes());
        }
        for _ in 0..random.below(3) {
            let (address, value) = random.pick(&[(0x8008, 0x8020_u64), (0x8010, 5), (0x8020, 3), (0x8020, 9)]);
            let (direction, size) = (random.pick(&[Direction::Read, Direction::Write]), random.pick(&[8_usize, 1]));
            let bytes = value.to_le_bytes();
            step.access_known(direction, address, size as u64, bytes[..size].iter().map(|byte| (*byte, 0xff)));
        }
    }
    step
}

/// A trace of RISC-V as other tools write it: forced addresses are gaps.
fn random_riscv(random: &mut Random, storage: StfStorage) -> Vec<u8> {
    use stf_builder::{Access, Builder, Features, Header, Mode, Step};
    let options = StfWriteOptions { threads: 1, chunk_markers: 7, ..StfWriteOptions::default() };
    let writer = StfWriter::seekable(Cursor::new(Vec::new()), storage, options).unwrap();
    let features = Features::OPERAND_VALUE | Features::REG_STATE;
    let comments = ["a note"];
    let header =
        Header { mode: Some(Mode::Machine), features, accesses: true, comments: &comments, ..Header::new(0x1000) };
    let mut trace = Builder::new(writer, &header).unwrap();
    let mut pc = 0x1000;
    for _ in 0..60 {
        if random.below(8) == 0 {
            pc = 0x1000 + 4 * random.below(24);
        }
        let value = random.below(3).to_le_bytes();
        let meta = Register::INTEGER | random.pick(&[Register::STATE, Register::DESTINATION]) << 4;
        let register = [Register { number: random.below(4) as u16 + 1, meta, value: &value }];
        let contents = [random.below(3)];
        let address = 0x8000 + 8 * random.below(4);
        let access = [Access { address, bytes: 8, is_write: random.flip(), attributes: 0, contents: &contents }];
        // ld or sd x1, (x2); nop
        let (opcode, accesses) = match (random.flip(), access[0].is_write) {
            (true, false) => (0x0001_3083, &access[..]),
            (true, true) => (0x0011_3023, &access[..]),
            (false, _) => (0x13, &[][..]),
        };
        let registers = if random.flip() { &register[..] } else { &[] };
        trace.instruction(&Step { registers, accesses, ..Step::plain(pc, opcode) }).unwrap();
        pc += 4;
    }
    trace.finish().sink.finish().unwrap().into_inner()
}

#[test]
fn state_of_astf_is_as_by_replay() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let distance = 1 + random.below(20);
        let bytes = random_astf(&mut random);
        assert_same(folder.path(), "run.astf", &bytes, distance, Unit::Us);
    }
}

#[test]
fn state_of_stf_is_as_by_replay() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let distance = 1 + random.below(20);
        for (name, storage) in [("run.stf", StfStorage::PLAIN), ("run.zstf", StfStorage::Zstf)] {
            let bytes = random_stf(&mut random, storage);
            assert_same(folder.path(), name, &bytes, distance, Unit::Us);
            let bytes = random_riscv(&mut random, storage);
            assert_same(folder.path(), name, &bytes, distance, Unit::Tic);
        }
    }
}
