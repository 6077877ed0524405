//! Several processes with code at the same address, and code that changes: the encoder makes a system event log, and the capture is
//! decoded by it.

use std::path::Path;

use tempfile::TempDir;
use unspool::capture::{Capture, ContextFormat, Pid};
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::{Protocol, Transactions};
use unspool::encode::Encoder;
use unspool::flow::{Around, FlowItem, Instruction as Decoded, InstructionSink, Item};
use unspool::model::{Context, Event, Exception, ExceptionKind, Instruction, Isa, Security, SinkError, Step};
use unspool::{Program, SpaceOptions, Trace, Watch};

use super::super::fixtures::assert_same;
use super::{BASE, options};

const VECTOR: u64 = 0xffff_8000_0000_0480;
const NOP: u32 = 0xd503_201f;
const EXCEPTION_RETURN: u32 = 0xd69f_03e0;
/// A branch to the instruction before.
const BACK: u32 = 0x17ff_ffff;

/// An instruction: its address, opcode and process.
type Executed = (u64, u32, Pid);

/// A system with one core: what it executes, as steps and as a list.
struct System {
    steps: Vec<Step>,
    executed: Vec<Executed>,
    time: Option<u64>,
}

impl System {
    /// Starts with a process at EL0.
    fn new(pid: Pid, has_times: bool) -> Self {
        let mut system = Self { steps: Vec::new(), executed: Vec::new(), time: has_times.then_some(100) };
        system.context(0, pid);
        system
    }

    fn push(&mut self, event: Event) {
        let mut step = Step::default();
        (step.event, step.time, step.position) = (event, self.time, self.steps.len() as u64);
        self.steps.push(step);
    }

    fn context(&mut self, level: u8, pid: Pid) {
        self.push(Event::Context(Context {
            level: Some(level),
            security: Some(Security::NonSecure),
            is_aarch64: Some(true),
            process: Some(pid.into()),
            ..Context::default()
        }));
    }

    fn instruction(&mut self, address: u64, opcode: u32, pid: Pid) {
        self.time = self.time.map(|time| time + 1);
        self.push(Event::Instruction(Instruction {
            address,
            opcode: Some(opcode),
            length: 4,
            isa: Isa::A64,
            ..Instruction::default()
        }));
        self.executed.push((address, opcode, pid));
    }

    /// A process executes an instruction and a branch back to it, several times.
    fn turns(&mut self, pid: Pid, opcode: u32) {
        for _ in 0..3 {
            self.instruction(BASE, opcode, pid);
            self.instruction(BASE + 4, BACK, pid);
        }
    }

    /// An interrupt, after which a process is executed.
    fn switch(&mut self, from: Pid, to: Pid) {
        let (kind, return_address, target) = (ExceptionKind::Irq, Some(BASE), Some(VECTOR));
        self.push(Event::Exception(Exception { kind, return_address, target, ..Exception::default() }));
        self.context(1, from);
        self.instruction(VECTOR, NOP, 0);
        self.instruction(VECTOR + 4, EXCEPTION_RETURN, 0);
        self.push(Event::ExceptionReturn { target: return_address });
        self.context(0, to);
    }

    fn encode(&self, configuration: u64) -> Result<TempDir, SinkError> {
        let mut settings = Settings::new(Protocol::Ete);
        settings.set("TRCCONFIGR", configuration);
        let folder = tempfile::tempdir().unwrap();
        let mut encoder = Encoder::new(folder.path(), options(&settings, false))?;
        self.steps.iter().try_for_each(|step| encoder.push(step))?;
        encoder.finish()?;
        Ok(folder)
    }
}

struct Collector<'p>(&'p Program, Vec<Executed>);

impl InstructionSink for Collector<'_> {
    fn instruction(&mut self, instruction: &Decoded, around: &Around) {
        self.1.push((instruction.address, instruction.opcode, self.0.process_of(around.map).unwrap_or(Pid::MAX)));
    }

    fn item(&mut self, item: FlowItem) {
        let value = item.unwrap().value;
        assert!(!matches!(value, Item::NoCode { .. } | Item::Lost { .. } | Item::Finding(_)), "{value:?}");
    }
}

impl Watch for Collector<'_> {}

fn decode(folder: &Path) -> Vec<Executed> {
    let capture = Capture::open(folder).unwrap();
    let options = SpaceOptions { context_format: Some(ContextFormat::Pid), ..SpaceOptions::default() };
    let trace = &Trace::all(&capture)[0];
    let (program, _) = Program::with_spaces(&capture, trace.source().core, &[], &options);
    let mut collector = Collector(&program, Vec::new());
    trace.instructions(Transactions::Show, &program, &mut collector).unwrap();
    collector.1
}

/// `mov w9, #number`: other code.
fn code(number: u32) -> u32 {
    0x5280_0009 | number << 5
}

/// Context identifiers and timestamps.
const IDENTIFIERS: u64 = 0x41;
const TIMES: u64 = 0x801;

#[test]
fn context_identifiers_separate_processes_at_one_address() {
    for has_times in [false, true] {
        let mut system = System::new(7, has_times);
        system.turns(7, code(7));
        system.switch(7, 8);
        system.turns(8, code(8));
        system.switch(8, 7);
        system.turns(7, code(7));
        let folder = system.encode(IDENTIFIERS).unwrap();
        let log = std::fs::read_to_string(folder.path().join("system-event-log")).unwrap();
        assert_eq!(
            log,
            "- patch_code(0, 0xffff800000000480, 8, hex\"1f2003d5e0039fd6\")\n\
             - patch_code(7, 0x400000, 8, hex\"e9008052ffffff17\")\n\
             - patch_code(8, 0x400000, 8, hex\"09018052ffffff17\")\n"
        );
        assert_same("processes", &decode(folder.path()), &system.executed);
        let refused = system.encode(1).unwrap_err().to_string();
        assert!(refused.contains("--context-ids"), "{refused}");
    }
}

#[test]
fn timestamps_separate_code_that_changes() {
    let mut system = System::new(7, true);
    for number in [1, 2, 1, 3] {
        system.turns(7, code(number));
        system.switch(7, 7);
    }
    system.turns(7, code(3));
    let folder = system.encode(IDENTIFIERS | TIMES).unwrap();
    assert_same("changes", &decode(folder.path()), &system.executed);
    let refused = system.encode(IDENTIFIERS).unwrap_err().to_string();
    assert!(refused.contains("--timestamps"), "{refused}");
}

#[test]
fn one_program_needs_no_log() {
    let mut system = System::new(7, true);
    system.turns(7, code(1));
    system.switch(7, 7);
    system.turns(7, code(1));
    let folder = system.encode(IDENTIFIERS | TIMES).unwrap();
    assert!(!folder.path().join("system-event-log").exists());
    let processes: Vec<(u64, u32)> = decode(folder.path()).iter().map(|step| (step.0, step.1)).collect();
    let expected: Vec<(u64, u32)> = system.executed.iter().map(|step| (step.0, step.1)).collect();
    assert_same("one program", &processes, &expected);
}
