//! The stream of the plugin that records programs: any bytes and damaged streams.
//!
//! Input: byte 0 selects the machine. The rest is the stream after its header.
//!
//! Checked: every stream is steps, then an end or an error; the size of reads makes no difference; templates are equal to
//! steps; positions of the instructions of a core are consecutive; no instruction has more than four bytes.

use std::collections::HashMap;
use std::io::Read;
use std::ops::ControlFlow;

use unspool::record::{Machine, Stream};
use unspool_model::{
    BlockSink, Branch, Direction, Event, Instruction, Step, StepSource, StoppedAt, Template, TemplateTrace,
};

use crate::setup::SmallReads;

/// Maximum number of steps that are read: one byte may be a block of hundreds.
const MAX_STEPS: usize = 50_000;

/// Header of a stream.
const START: &[u8] = b"unspool record 3\nany\n";

/// Checks all properties for these bytes.
pub fn check(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let machines = [Machine::Aarch64, Machine::Arm, Machine::Riscv64, Machine::Riscv32];
    let machine = machines[usize::from(choice & 3)];
    let whole = steps(START.chain(rest), machine);
    assert_eq!(steps(SmallReads(START.chain(rest), 3), machine), whole, "small reads");
    if whole.0.len() < MAX_STEPS {
        let expected: Vec<Emitted> = whole.0.iter().map(emitted).collect();
        assert_eq!(with_templates(START.chain(rest), machine), (expected, whole.1.clone()), "templates");
    }
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for step in &whole.0 {
        if let Event::Instruction(instruction) = &step.event {
            let count = counts.entry(step.core).or_insert(step.position);
            assert_eq!(step.position, *count, "core {}", step.core);
            *count += 1;
            assert!(instruction.opcode.is_none() || matches!(instruction.length, 2 | 4), "{instruction:?}");
        }
    }
}

fn steps(input: impl Read, machine: Machine) -> (Vec<Step>, Option<String>) {
    let mut all = Vec::new();
    let ended = Stream::new(input, machine).each(&mut |step| {
        all.push(step.clone());
        if all.len() < MAX_STEPS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    (all, ended.err().map(|error| error.text))
}

/// A step: of an instruction its core and accesses, adjacent ones joined; the text of any other.
type Emitted = (u32, Option<Instruction>, Vec<(Direction, u64, u64)>, String);

fn emitted(step: &Step) -> Emitted {
    let instruction = step.event.instruction().copied();
    let mut accesses: Vec<(Direction, u64, u64)> = Vec::new();
    for access in step.accesses() {
        match accesses.last_mut() {
            Some((direction, at, size))
                if *direction == access.direction
                    && at.wrapping_add(*size) == access.address
                    && *at >> 12 == access.address.wrapping_add(access.size - 1) >> 12 =>
            {
                *size += access.size;
            }
            _ => accesses.push((access.direction, access.address, access.size)),
        }
    }
    let other = if instruction.is_some() { String::new() } else { format!("{step:?}") };
    (step.core, instruction, accesses, other)
}

/// Keeps steps, and templates as steps.
#[derive(Default)]
struct Kept(Vec<Emitted>);

impl BlockSink for Kept {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.0.push(emitted(step));
        ControlFlow::Continue(())
    }

    fn takes_templates(&self) -> bool {
        true
    }

    fn templates(&mut self, trace: &TemplateTrace<'_>) -> ControlFlow<(), Option<StoppedAt>> {
        assert_eq!(trace.instructions, trace.instructions_of(trace.executions.len()));
        let mut rest = trace.addresses.iter().copied();
        // The fourth execution is refused.
        for execution in trace.executions.iter().take(3) {
            let Template { instructions, accesses, end } = &trace.templates[execution.number()];
            let accesses: Vec<_> = accesses.iter().map(|access| (access, rest.next().expect("an address"))).collect();
            let target = if end.flow.is_indirect() { rest.next() } else { end.target_address() };
            let branch = Branch { taken: execution.is_taken(), target: target.filter(|_| execution.is_taken()) };
            for (index, instruction) in instructions.iter().enumerate() {
                let is_branch = index + 1 == instructions.len() && end.flow.is_branch();
                let instruction = Instruction { branch: is_branch.then_some(branch), ..*instruction };
                let of_it = accesses.iter().filter(|(access, _)| usize::from(access.index) == index);
                let of_it = of_it.map(|(access, address)| (access.direction, *address, access.size.into())).collect();
                self.0.push((trace.core, Some(instruction), of_it, String::new()));
            }
        }
        let is_all = trace.executions.len() <= 3;
        let addresses = trace.addresses.len() - rest.len();
        ControlFlow::Continue((!is_all).then_some(StoppedAt { executions: 3, addresses, is_final: addresses % 2 == 1 }))
    }
}

fn with_templates(input: impl Read, machine: Machine) -> (Vec<Emitted>, Option<String>) {
    let mut kept = Kept::default();
    let ended = Stream::new(input, machine).follow(&mut kept);
    (kept.0, ended.err().map(|error| error.text))
}
