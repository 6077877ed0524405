//! The index of steps: at every place, its state is that of a replay, wherever the trace is cut.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::{ControlFlow, Range};

use unspool_model::{
    Context, Direction, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Security, SourceError, Step, TimeUnit,
};
use unspool_tarmac::index::{
    Fingerprint, Index, Indexed, Position, ResumeSteps, SegmentAt, State, StepIndexer, StepScanner, StepSegments,
};
use unspool_tarmac::record::{Time, Unit};
use unspool_testing::Random;

const UNIT: TimeUnit = TimeUnit::MICROSECONDS;

/// Memory that the steps access.
const MEMORY: std::ops::RangeInclusive<u64> = 0x8000..=0x803f;

/// Steps in memory; a segment continues at the number of a step.
struct Recorded<'s>(&'s [Step]);

impl ResumeSteps for Recorded<'_> {
    fn each_from(
        &mut self,
        at: &SegmentAt<'_>,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let from = at.resume.try_into().map_or(0, u64::from_le_bytes);
        let _ = self.0[from as usize..].iter().try_for_each(take);
        Ok(())
    }
}

type Opened<'s> = Indexed<StepSegments<Recorded<'s>>, Cursor<Vec<u8>>>;

fn indexed<'s>(steps: &'s [Step], cuts: &[usize]) -> Opened<'s> {
    let mut file = Cursor::new(Vec::new());
    let fingerprint = Fingerprint { length: u64::MAX, modified: 0, sum: 0 };
    let mut indexer = StepIndexer::new(&mut file, fingerprint, UNIT).unwrap();
    for (number, step) in steps.iter().enumerate() {
        if cuts.contains(&number) {
            indexer.cut(number as u64, (number as u64).to_le_bytes().to_vec()).unwrap();
        }
        indexer.step(step).unwrap();
    }
    indexer.finish().unwrap();
    Indexed::new(StepSegments::new(Recorded(steps), UNIT), Index::open(file).unwrap())
}

/// The state after the first `count` steps, by replay.
fn replayed(steps: &[Step], count: usize) -> State {
    let mut scanner = StepScanner::new(UNIT, 1 << 20);
    steps[..count].iter().for_each(|step| scanner.step(step));
    scanner.end();
    steps[count..].iter().for_each(|step| scanner.step(step));
    scanner.finish()
}

/// Everything that a state has, as text.
fn text(state: &State) -> String {
    let mut text = format!("line {} at {:?}\n", state.line, state.time);
    for core in &state.cores {
        let (name, mode) = (String::from_utf8_lossy(&core.name), core.registers.mode());
        text += &format!("{name} {mode:?} {:x?} {} {}\n", core.pc, core.instructions, core.depth);
        let mut rows = Vec::new();
        core.registers.each(|_, name, contents| {
            let lines: Vec<u64> = (0..contents.bits.div_ceil(32)).map(|half| contents.line_of(half * 32, 32)).collect();
            rows.push(format!("  {name} {} {lines:?}\n", contents.text()));
        });
        rows.sort();
        text.extend(rows);
        text.extend(MEMORY.map(|at| format!("  {at:x} {:?}\n", core.memory.last_write(at))));
    }
    text.extend(MEMORY.map(|at| format!("{at:x} {:?}\n", state.last_write(at))));
    text
}

/// Steps of one or two cores.
struct Trace {
    random: Random,
    cores: u64,
    time: u64,
    steps: Vec<Step>,
}

impl Trace {
    fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let cores = 1 + random.below(2);
        let mut trace = Self { random, cores, time: 100, steps: Vec::new() };
        (0..30 + seed % 40).for_each(|_| trace.add());
        trace
    }

    fn add(&mut self) {
        let random = &mut self.random;
        let mut step = Step::default();
        // Cores are counted in order of appearance.
        let other = random.below(self.cores) as u32;
        step.core = if self.steps.is_empty() { 0 } else { other };
        step.event = event(random);
        // Times are absent, advance, or go back.
        self.time = (self.time + random.pick(&[0, 0, 1, 2])).saturating_sub(u64::from(random.below(40) == 0) * 5);
        step.time = (random.below(3) > 0).then_some(self.time);
        if matches!(step.event, Event::Instruction(_) | Event::State) {
            effects(random, &mut step);
        }
        self.steps.push(step);
    }

    fn instructions(&self, core: Option<u32>) -> Vec<usize> {
        let is_counted = |step: &Step| step.event.instruction().is_some() && core.is_none_or(|core| core == step.core);
        (0..self.steps.len()).filter(|at| is_counted(&self.steps[*at])).collect()
    }

    /// Number of steps up to a place.
    fn count(&self, position: Position, core: Option<u32>) -> Option<usize> {
        let is_at = |at: &usize, address| matches!(self.steps[*at].event, Event::Instruction(instruction) if instruction.address == address);
        match position {
            Position::Instruction(number) => self.instructions(core).get(number as usize - 1).map(|at| at + 1),
            Position::Address(address) => {
                self.instructions(core).into_iter().find(|at| is_at(at, address)).map(|at| at + 1)
            }
            Position::Time(time) => {
                let is_later = |step: &Step| step.time.is_some_and(|other| other > time.value);
                let count = self.steps.iter().position(is_later).unwrap_or(self.steps.len());
                self.steps[..count].iter().any(|step| step.time.is_some()).then_some(count)
            }
            Position::Line(_) => None,
        }
    }
}

fn event(random: &mut Random) -> Event {
    match random.below(20) {
        0 | 1 => Event::Gap(random.pick(&[Gap::Start, Gap::Overflow, Gap::Damaged])),
        2 => Event::Exception(Exception { kind: ExceptionKind::Irq, ..Exception::default() }),
        3 => Event::ExceptionReturn { target: Some(0x1000) },
        4 => Event::Context(Context {
            level: Some(random.below(4) as u8),
            is_handler: Some(random.flip()),
            security: random.maybe(Security::Secure),
            ..Context::default()
        }),
        5 => Event::State,
        6 => Event::Note,
        _ => Event::Instruction(Instruction {
            address: 0x1000 + 4 * random.below(12),
            // nop, bl, ret, ldp, and twice the call of semihosting
            opcode: Some(random.pick(&[0xd503_201f, 0x9400_0004, 0xd65f_03c0, 0xa940_7be1, 0xd45e_0000, 0xd45e_0000])),
            length: 4,
            isa: Isa::A64,
            ..Instruction::default()
        }),
    }
}

/// Adds registers and accesses. A call of semihosting (SYS_READ) often has its parameters at 0x8000.
fn effects(random: &mut Random, step: &mut Step) {
    for _ in 0..random.below(3) {
        let name = random.pick(&["x0", "x1", "x1", "x30", "sp", "v1"]);
        let value = match name {
            "x0" => 6,
            "x1" => 0x8000,
            "x30" => 0x1004 + 4 * random.below(8),
            _ => random.bits(),
        };
        let length = if name.starts_with('x') { 8 } else { random.pick(&[8, 4]) };
        step.write_register(name, 0, &value.to_le_bytes()[..length]);
    }
    for _ in 0..random.below(3) {
        let (address, value) = random.pick(&[(0x8008, 0x8020), (0x8010, 5), (0x8020, 0x0102_0304), (0x8038, 7)]);
        let address = if random.below(4) == 0 { address + random.below(6) } else { address };
        let direction = random.pick(&[Direction::Read, Direction::Write, Direction::Both]);
        let size = random.pick(&[8_usize, 8, 8, 2, 1]);
        let known = random.pick(&[0xff, 0xff, 0xff, 0]);
        match random.below(12) {
            0 => step.access(direction, address, size as u64),
            1 => step.access(direction, 0x7000, random.pick(&[0x1008, 2 << 20])),
            _ => {
                let bytes = u64::to_le_bytes(value);
                step.access_known(direction, address, size as u64, bytes[..size].iter().map(|byte| (*byte, known)));
            }
        }
    }
}

fn name(core: Option<u32>) -> Option<Vec<u8>> {
    core.map(|core| if core == 0 { Vec::new() } else { format!("cpu{core}").into_bytes() })
}

#[test]
fn state_is_as_by_replay() {
    for seed in 0..80 {
        let mut trace = Trace::random(seed);
        let share = 2 + trace.random.below(8);
        let cuts: Vec<usize> = (0..trace.steps.len()).filter(|_| trace.random.below(share) == 0).collect();
        let mut indexed = indexed(&trace.steps, &cuts);
        for core in [None, Some(0), Some(1)] {
            let numbers = (1..=trace.instructions(core).len() as u64 + 1).map(Position::Instruction);
            let addresses = (0..13).map(|at| Position::Address(0x1000 + 4 * at));
            let times = (95..trace.time + 2).map(|value| Position::Time(Time { value, decimals: 0, unit: Unit::Us }));
            let mut chosen = Random::new(seed);
            for position in numbers.chain(addresses).chain(times).filter(|_| chosen.below(3) == 0) {
                let found = indexed.state_at(position, name(core).as_deref(), &[MEMORY]).unwrap();
                let core = core.filter(|_| !matches!(position, Position::Time(_)));
                let expected = trace.count(position, core).map(|count| replayed(&trace.steps, count));
                let [found, expected] = [found, expected].map(|state| state.as_ref().map(text));
                assert!(found == expected, "{seed} {cuts:?} {position:?} {core:?}\n{}", difference(&found, &expected));
            }
        }
    }
}

/// Instructions at some addresses, each with the context of its core.
fn located(steps: &[Step], addresses: &[Range<u64>]) -> Vec<(Step, Context)> {
    let (mut contexts, mut found) = ([Context::default(); 2], Vec::new());
    for step in steps {
        let context = &mut contexts[step.core as usize];
        match &step.event {
            Event::Gap(_) => *context = Context::default(),
            Event::Context(new) => *context = new.over(context),
            Event::Instruction(instruction) if addresses.iter().any(|range| range.contains(&instruction.address)) => {
                found.push((step.clone(), *context));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn steps_near_addresses_have_all_instructions_there() {
    let (mut read, mut all) = (0, 0);
    for seed in 0..200 {
        let mut trace = Trace::random(seed);
        let cuts: Vec<usize> = (0..trace.steps.len()).filter(|_| trace.random.below(4) == 0).collect();
        let mut indexed = indexed(&trace.steps, &cuts);
        let start = 0x1000 + 4 * trace.random.below(12);
        let addresses = [start..start + 1 + trace.random.below(6), 0x2000..0x3000];
        let mut near = Vec::new();
        let mut take = |step: &Step| {
            near.push(step.clone());
            ControlFlow::Continue(())
        };
        indexed.each_step_near(&addresses, &mut take).unwrap();
        assert_eq!(located(&near, &addresses), located(&trace.steps, &addresses), "{seed} {cuts:?} {addresses:x?}");
        let mut left = near.len().div_ceil(2);
        let mut take = |_: &Step| {
            left -= 1;
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        indexed.each_step_near(&addresses, &mut take).unwrap();
        assert_eq!(left, 0, "it stops where it is asked to");
        let everywhere = [0..0x1000, 0x1000..u64::MAX];
        assert!(!indexed.index_mut().has_few_near(&everywhere).unwrap());
        assert!(indexed.index_mut().has_few_near(&addresses[1..]).unwrap(), "none has one");
        let count = |steps: &[Step]| steps.iter().filter(|step| step.event.instruction().is_some()).count();
        (read, all) = (read + count(&near), all + count(&trace.steps));
    }
    assert!(read < all * 3 / 4, "{read} of {all}");
}

/// The lines in which two texts differ.
fn difference(found: &Option<String>, expected: &Option<String>) -> String {
    let (Some(found), Some(expected)) = (found, expected) else {
        return format!("found {}, expected {}", found.is_some(), expected.is_some());
    };
    let lines = found.lines().zip(expected.lines()).filter(|(found, expected)| found != expected);
    lines.map(|(found, expected)| format!("found    {found}\nexpected {expected}\n")).collect()
}

/// The registers of a replay are those that were written since the last gap of the core.
#[test]
fn replayed_registers_are_those_since_the_last_gap() {
    for seed in 0..20 {
        let trace = Trace::random(seed);
        for count in 0..=trace.steps.len() {
            let mut known: BTreeMap<(u32, &str), u64> = BTreeMap::new();
            for step in &trace.steps[..count] {
                if matches!(step.event, Event::Gap(_)) {
                    known.retain(|(core, _), _| *core != step.core);
                }
                for write in step.registers().filter(|write| matches!(write.name, "x0" | "x1" | "x30")) {
                    let bytes = write.bytes.iter().rev();
                    known.insert((step.core, write.name), bytes.fold(0, |value, byte| value << 8 | u64::from(byte.0)));
                }
            }
            let state = replayed(&trace.steps, count);
            for core in &state.cores {
                let number = u32::from(!core.name.is_empty());
                for name in ["x0", "x1", "x30"] {
                    let found = unspool_tarmac::index::register(core, name);
                    let value = found.map(|row| u64::from_str_radix(&row.value, 16).unwrap());
                    assert_eq!(value, known.get(&(number, name)).copied(), "{seed} {count} {name}");
                }
            }
        }
    }
}
