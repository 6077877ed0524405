//! Steps of files of every format: what each format provides, and what it cannot.

mod astf;
mod stf;
mod tarmac;
mod tarmac_effects;

use std::fmt::Write as _;
use std::ops::ControlFlow;

use unspool::model::{Context, Direction, Event, Exception, Facet, Pull, Step, StepSource};

use super::fixtures::{assert_stops, collect, collect_with_losses};

/// Step as a line, with everything that it carries.
fn text(step: &Step) -> String {
    let mut text = format!("@{}", step.position);
    if step.core > 0 {
        let _ = write!(text, " core {}", step.core);
    }
    if let Some(time) = step.time {
        let _ = write!(text, " t{time}");
    }
    let hex = |value: Option<u64>| value.map_or("?".to_string(), |value| format!("{value:x}"));
    let _ = match step.event {
        Event::State => write!(text, " state"),
        Event::Instruction(instruction) => {
            let opcode = hex(instruction.opcode.map(u64::from));
            let _ = write!(text, " {} {:x} {opcode}", instruction.isa.name(), instruction.address);
            text.push_str(match instruction.is_executed {
                Some(true) => " executed",
                Some(false) => " skipped",
                None => "",
            });
            match instruction.branch {
                None => Ok(()),
                Some(branch) if branch.taken => write!(text, " -> {}", hex(branch.target)),
                Some(_) => write!(text, " not taken"),
            }
        }
        Event::Exception(exception) => write!(text, " {:?} to {}", exception.kind, hex(exception.target)),
        Event::ExceptionReturn { target } => write!(text, " return to {}", hex(target)),
        Event::Context(context) => {
            let level = context.level.map_or("?".to_string(), |level| level.to_string());
            let security = context.security.map_or(String::new(), |security| format!(" {security:?}"));
            let process = context.process.map_or(String::new(), |process| format!(" process {process}"));
            write!(text, " level {level}{security}{process}")
        }
        Event::Gap(gap) => write!(text, " gap {gap:?}"),
        Event::Note => write!(text, " note {}", step.note()),
    };
    let byte = |(value, known): &(u8, u8)| match known {
        0xff => format!("{value:02x}"),
        0 => "..".to_string(),
        known => format!("{value:x}/{known:x}"),
    };
    for write in step.registers() {
        let low = if write.low > 0 { format!("+{}", write.low) } else { String::new() };
        let bytes: String = write.bytes.iter().map(byte).collect();
        let _ = write!(text, ", {}{low}={bytes}", write.name);
    }
    for access in step.accesses() {
        let direction = match access.direction {
            Direction::Read => "reads",
            Direction::Write => "writes",
            Direction::Both => "both",
            Direction::Neither => "tries",
        };
        let bytes: String = access.bytes.iter().map(byte).collect();
        let _ = write!(text, ", {direction} {} at {:x}", access.size, access.address);
        if !bytes.is_empty() {
            let _ = write!(text, ": {bytes}");
        }
    }
    text
}

/// All steps as lines, none of which exceeds the coverage, and the error at the end.
fn all(mut source: impl StepSource) -> (Vec<String>, Option<String>) {
    let mut lines = Vec::new();
    let coverage = source.coverage();
    let ended = source.each(&mut |step| {
        assert!(coverage.has(Facet::Times) || step.time.is_none());
        assert!(coverage.has(Facet::Data) || step.accesses().all(|access| access.bytes.is_empty()));
        assert!(coverage.has(Facet::Accesses) || step.accesses().len() == 0);
        assert!(coverage.has(Facet::Registers) || step.registers().len() == 0);
        lines.push(text(step));
        ControlFlow::Continue(())
    });
    (lines, ended.err().map(|error| error.text))
}

fn lines(source: impl StepSource) -> Vec<String> {
    let (lines, ended) = all(source);
    assert_eq!(ended, None);
    lines
}

/// Asserts the steps of a source, however they are read: pushed, pulled, or stopped at any of them.
fn assert_steps<S: StepSource + Send + 'static>(open: impl Fn() -> S, expected: &[&str]) {
    assert_eq!(lines(open()), expected);
    let mut pull = Pull::new(open()).unwrap();
    let mut pulled = Vec::new();
    while let Some(step) = pull.next_step().unwrap() {
        pulled.push(text(step));
    }
    assert_eq!(pulled, expected);
    assert_stops(open, expected.len());
}

fn contexts(steps: &[Step]) -> Vec<Context> {
    let context = |step: &Step| if let Event::Context(context) = step.event { Some(context) } else { None };
    steps.iter().filter_map(context).collect()
}

fn exceptions(steps: &[Step]) -> Vec<Exception> {
    let exception = |step: &Step| if let Event::Exception(exception) = step.event { Some(exception) } else { None };
    steps.iter().filter_map(exception).collect()
}

/// Notes of a source.
fn notes(steps: &[Step]) -> Vec<&str> {
    steps.iter().filter(|step| step.event == Event::Note).map(Step::note).collect()
}
