//! Encoding block by block makes the same capture as encoding step by step.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use unspool::astf::record::{
    Context, Header, Instruction, Level, MICROSECONDS, Record, Storage, Timestamp, Trap, trap_type,
};
use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::encode::{EncodeOptions, Encoded, encode};
use unspool::isa::decode;
use unspool::model::{BlockSink, BlockTrace, Event, Isa, Step, StepSource};
use unspool::{OpenSteps, OpenedSteps, open_steps};
use unspool_testing::Random;

use super::program::Program;
use super::{BASE, Executed, assert_same_execution, settings};
use crate::fixtures::collect;

/// Run as an ASTF file: its steps, times now and then, and traps where the run is interrupted.
fn file(steps: &[Step], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut records = vec![Record::Header(Header::new(Level::BasicPlus, true, Storage::Raw))];
    for (at, step) in steps.iter().enumerate() {
        if random.below(200) == 0 {
            records.push(Record::Timestamp(Timestamp { unit: MICROSECONDS, value: at as u64, ..Timestamp::default() }));
        }
        let next = steps[at + 1..].iter().find_map(|step| step.event.instruction()).map(|next| next.address);
        match &step.event {
            Event::Instruction(instruction) => {
                let (pc, iword) = (instruction.address, instruction.opcode.unwrap());
                let is_branch = decode(Isa::A64, pc, iword).flow.is_branch();
                let ea = next.filter(|next| is_branch && *next != pc + 4);
                let (ea_valid, ea) = (ea.is_some(), ea.unwrap_or(0));
                let record = Instruction { pc, iword, is_branch, ea_valid, ea, ..Instruction::default() };
                records.push(Record::Instruction(record));
            }
            Event::Context(context) => records.push(Record::Context(Context {
                el: context.level.unwrap_or(0),
                pid_valid: context.process.is_some(),
                pid: context.process.unwrap_or(0),
                ..Context::default()
            })),
            Event::Exception(_) => {
                let (trap_type, target_pc) = (trap_type::IRQ, next.unwrap_or(0));
                records.push(Record::Trap(Trap { trap_type, target_pc, ..Trap::default() }));
            }
            _ => {}
        }
    }
    records.iter().flat_map(Record::to_bytes).collect()
}

fn open(path: &Path) -> OpenedSteps {
    open_steps(path, &OpenSteps::default()).unwrap()
}

fn step_by_step(path: &Path, directory: &Path, options: EncodeOptions) -> Encoded {
    super::encode(&collect(open(path)), directory, options)
}

/// All files of a capture.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Filters, events and overflows, by the bits of a number.
fn more_settings(mut settings: Settings, options: u64, program: &Program) -> Settings {
    let (low, high) = program.span(1);
    let mut set = |name: &str, value: u64| assert!(settings.set(name, value), "{name}");
    if !options.is_multiple_of(3) {
        set("TRCACVR0", low + 4);
        set("TRCACVR1", high);
        set("TRCVIIECTLR", if options.is_multiple_of(2) { 1 } else { 0x1_0000 });
    }
    if options.is_multiple_of(5) {
        set("TRCACVR4", low);
        set("TRCEVENTCTL0R", 2);
        set("TRCEVENTCTL1R", 1);
        set("TRCRSCTLR2", 0x4_0010);
    }
    settings.overflow_seed = options.is_multiple_of(7).then_some(options);
    settings
}

/// Number of instructions that came in blocks.
#[derive(Default)]
struct InBlocks(usize);

impl BlockSink for InBlocks {
    fn step(&mut self, _: &Step) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.0 += trace.instructions();
        ControlFlow::Continue(())
    }
}

#[test]
fn blocks_make_the_same_capture() {
    let mut in_blocks = InBlocks::default();
    for options in 0..256 {
        let program = Program::new(Isa::A64, BASE, options);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.astf");
        fs::write(&path, file(&program.run(3000, options), options)).unwrap();
        open(&path).follow(&mut in_blocks).unwrap();
        let settings = more_settings(settings(Protocol::Ete, options, &program), options, &program);
        let (formatted, time_unit) = (options & 1 == 0, open(&path).time_unit());
        let settings = settings.into();
        let options = EncodeOptions { settings, formatted, buffer: None, time_unit, replace: false, events: None };
        let [one, other] = ["by steps", "by blocks"].map(|name| folder.path().join(name));
        let expected = step_by_step(&path, &one, options.clone());
        let (encoded, _) = encode(&other, vec![open(&path)], options.clone()).unwrap();
        assert_eq!(encoded, expected, "{options:?}");
        assert_eq!(contents(&other), contents(&one), "{options:?}");
    }
    assert!(in_blocks.0 > 256 * 1500, "{}", in_blocks.0);
}

#[test]
fn each_source_has_cores_of_its_own() {
    let program = Program::new(Isa::A64, BASE, 5);
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..3).map(|core| folder.path().join(format!("{core}.astf"))).collect();
    for (core, path) in (0..).zip(&paths) {
        fs::write(path, file(&program.run(20_000, core), core)).unwrap();
    }
    for formatted in [false, true] {
        let out = folder.path().join(format!("formatted {formatted}"));
        let settings = Settings::new(Protocol::Ete);
        let options = EncodeOptions {
            settings: settings.into(),
            formatted,
            buffer: None,
            time_unit: open(&paths[0]).time_unit(),
            replace: false,
            events: None,
        };
        let (encoded, _) = encode(&out, paths.iter().map(|path| open(path)).collect(), options.clone()).unwrap();
        assert_eq!(encoded.cores, 3);
        for (core, path) in paths.iter().enumerate() {
            let alone = folder.path().join(format!("core {core}, formatted {formatted}"));
            step_by_step(path, &alone, options.clone());
            let (found, expected) = (Executed::read(&out, &format!("UNIT_{core}")), Executed::read(&alone, "UNIT_0"));
            assert!(expected.instructions.len() > 15_000);
            assert_same_execution(&format!("core {core}"), &found, &expected);
        }
    }
}
