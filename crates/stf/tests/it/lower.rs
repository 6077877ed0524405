//! Steps of Arm as STF and back: nothing changes, nothing is invented, and impossible input is refused.

mod annotations;
mod random;
mod sources;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_model::{
    Access, Coverage, Direction, Event, Facet, Instruction, Loss, SinkError, Step, StepSink, StepSource, TimeUnit,
};
use unspool_stf::Record;
use unspool_stf::builder::StfVersion;
use unspool_stf::check::Severity;
use unspool_stf::lower::{LowerOptions, Lowerer, carried};
use unspool_stf::read::{ReadOptions, Reader};
use unspool_stf::record::MemAccess;
use unspool_stf::steps::Steps;

use crate::fixtures::{each_record, findings};

const VERSIONS: [StfVersion; 2] = [StfVersion::V1_3, StfVersion::V1_6];

/// Coverage, unit of time and steps.
type Source = (Coverage, TimeUnit, Vec<Step>);

/// All of a step but its position.
fn text(step: &Step) -> String {
    let mut text = format!("{:?} {:?} {:?}", step.time, step.event, step.note());
    step.registers().for_each(|write| write!(text, " {write:?}").unwrap());
    step.accesses().for_each(|access| write!(text, " {access:?}").unwrap());
    text
}

/// Coverage, unit of time and steps of a source.
fn all(mut source: impl StepSource) -> Source {
    let (covered, unit, mut steps) = (source.coverage(), source.time_unit(), Vec::new());
    let ended = source.each(&mut |step| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    });
    assert!(ended.is_ok(), "{ended:?}");
    (covered, unit, steps)
}

fn lowered(steps: &[Step], covered: Coverage, unit: TimeUnit, version: StfVersion) -> Result<Vec<u8>, SinkError> {
    let mut lowerer = Lowerer::new(Vec::new(), covered, unit, &LowerOptions { version })?;
    steps.iter().try_for_each(|step| lowerer.push(step))?;
    lowerer.finish()?;
    let lost: usize = steps.iter().map(|step| step.accesses().filter(|access| is_lost(step, access)).count()).sum();
    assert_eq!(lowerer.losses().of(Loss::Accesses).count, lost as u64);
    assert_eq!(lowerer.losses().iter().count(), usize::from(lost > 0));
    Ok(lowerer.into_sink())
}

/// Whether no record can contain an access of an instruction: STF has content after every access, and one direction.
fn is_lost(step: &Step, access: &Access<'_>) -> bool {
    let has_record = step.event.instruction().is_some_and(|instruction| instruction.opcode.is_some());
    let is_known = access.bytes.len() as u64 == access.size && access.bytes.iter().all(|byte| byte.1 == 0xff);
    let is_one_way = matches!(access.direction, Direction::Read | Direction::Write);
    has_record && !(is_known && is_one_way && (1..=u64::from(u16::MAX)).contains(&access.size))
}

/// The steps without the accesses that are lost.
fn kept(steps: &[Step]) -> Vec<Step> {
    let kept = |step: &Step| {
        let mut kept = Step::default();
        (kept.core, kept.position, kept.time, kept.event) = (step.core, step.position, step.time, step.event);
        if step.event == Event::Note {
            kept.set_note(step.note());
        }
        step.registers()
            .for_each(|write| kept.write_register_known(write.name, write.low, write.bytes.iter().copied()));
        for access in step.accesses().filter(|access| !is_lost(step, access)) {
            kept.access_known(access.direction, access.address, access.size, access.bytes.iter().copied());
            if access.is_tagged {
                kept.tag_last_access();
            }
        }
        kept
    };
    steps.iter().map(kept).collect()
}

fn opened(bytes: Vec<u8>) -> impl StepSource {
    Steps::new(Reader::new(Cursor::new(bytes), ReadOptions { threads: 1 }).unwrap())
}

fn assert_same(found: &[Step], expected: &[Step], what: &str) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(text(found), text(expected), "{what}: step {index}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// Lowers steps, lifts them, and lowers them again, in both versions: nothing changes but lost accesses.
fn round_trip((covered, unit, steps): &Source, what: &str) -> Vec<u8> {
    let mut last = Vec::new();
    for version in VERSIONS {
        let bytes = lowered(steps, *covered, *unit, version).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (found_covered, found_unit, found) = all(opened(bytes.clone()));
        assert_eq!((found_covered, found_unit), (carried(*covered), *unit), "{what}");
        assert_same(&found, &kept(steps), what);
        assert_eq!(lowered(&found, *covered, *unit, version).unwrap(), bytes, "{what}");
        last = bytes;
    }
    last
}

/// Text of the records after the header.
fn records(bytes: &[u8]) -> Vec<String> {
    let (mut records, mut is_body) = (Vec::new(), false);
    each_record(bytes, |record| {
        if is_body {
            records.push(record_text(record));
        }
        is_body |= *record == Record::EndHeader;
    });
    records
}

fn record_text(record: &Record<'_>) -> String {
    match record {
        Record::Comment(text) => String::from_utf8_lossy(text).into_owned(),
        Record::Event(event) => format!("event {:x} {:?}", event.raw, event.words().collect::<Vec<_>>()),
        Record::InstOpcode32(opcode) => format!("opcode {opcode:x}"),
        Record::InstOpcode16(opcode) => format!("opcode16 {opcode:x}"),
        Record::ForcePc(pc) => format!("force {pc:x}"),
        Record::InstPcTarget(pc) => format!("target {pc:x}"),
        Record::EventPcTarget(pc) => format!("event target {pc:x}"),
        Record::InstMemContent(word) => format!("content {word:x}"),
        Record::InstMemAccess(MemAccess { address, size, kind, .. }) => format!("access {kind} {address:x} {size}"),
        Record::InstReg(register) => format!("reg {:x} {} {:x?}", register.meta, register.number, register.value),
        other => format!("{other:?}"),
    }
}

/// The names of broken rules. None of them is an error.
fn warnings(bytes: &[u8]) -> BTreeSet<&'static str> {
    let findings = findings(bytes);
    assert!(findings.iter().all(|finding| finding.rule.severity == Severity::Warning), "{findings:#?}");
    findings.iter().map(|finding| finding.rule.name).collect()
}

const NOP: u32 = 0xd503_201f;

fn at(address: u64, opcode: u32) -> Instruction {
    Instruction { address, opcode: Some(opcode), length: 4, ..Instruction::default() }
}

fn step(event: Event) -> Step {
    let mut step = Step::default();
    step.event = event;
    step
}

fn on_core(mut step: Step, core: u32) -> Step {
    (step.core, step.position) = (core, 9);
    step
}

fn executed(address: u64, opcode: u32) -> Step {
    step(Event::Instruction(at(address, opcode)))
}

fn note(text: &str) -> Step {
    let mut step = Step::default();
    step.set_note(text);
    step
}

/// Coverage without conditions and times.
fn few() -> Coverage {
    Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Branches])
}
