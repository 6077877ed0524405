//! The stream of the plugin that records programs, any bytes and damaged streams.
//!
//! Input: byte 0 chooses the machine. The rest is the stream behind its first lines.
//!
//! Held against it: every stream is steps, then an end or an error; how it comes in makes no difference; the places of a
//! core's instructions rise one by one; no instruction has more bytes than four.

use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::ControlFlow;

use unspool::record::{Machine, Stream};
use unspool_model::{Event, Step, StepSource};

/// More steps than this are not taken: one byte may be a block of hundreds.
const MOST: usize = 50_000;

/// How a stream starts.
const START: &[u8] = b"unspool record 1\nany\n";

/// Reads a stream at once and in drops.
pub fn check(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let machines = [Machine::Aarch64, Machine::Arm, Machine::Riscv64, Machine::Riscv32];
    let machine = machines[usize::from(choice & 3)];
    let whole = steps(START.chain(rest), machine);
    assert_eq!(steps(Drops(START).chain(Drops(rest)), machine), whole, "drops");
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for step in &whole.0 {
        if let Event::Instruction(instruction) = &step.event {
            let count = counts.entry(step.core).or_insert(step.place);
            assert_eq!(step.place, *count, "core {}", step.core);
            *count += 1;
            assert!(instruction.opcode.is_none() || matches!(instruction.length, 2 | 4), "{instruction:?}");
        }
    }
}

fn steps(input: impl Read, machine: Machine) -> (Vec<Step>, Option<String>) {
    let mut all = Vec::new();
    let ended = Stream::new(input, machine).each(&mut |step| {
        all.push(step.clone());
        if all.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    (all, ended.err().map(|error| error.text))
}

/// A reader that gives three bytes at a time.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(into.len()).min(3);
        let (now, later) = self.0.split_at(count);
        into[..count].copy_from_slice(now);
        self.0 = later;
        Ok(count)
    }
}
