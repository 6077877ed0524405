//! Register values and data in the stream of a program, and the steps that they become.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use unspool_model::{Direction, Event, StepSource};
use unspool_record::{Machine, Stream};
use unspool_wire::{Access, Data, Record};

use crate::stream::stream;

const NOP: u32 = 0xd503_201f;
/// LDR X1, [X0]
const LDR: u32 = 0xf940_0001;
/// LDADD X2, X1, [X0]
const LDADD: u32 = 0xf822_0001;
/// SWP X2, X1, [X0]
const SWP: u32 = 0xf822_8001;
const SVC: u32 = 0xd400_0001;

const START: Record = Record::ThreadStart {};
const END: Record = Record::ThreadEnd {};

const fn block(id: u32) -> Record {
    Record::Block { id }
}

/// A value that the instruction wrote.
const fn written(index: u16, register: u16, value: u64) -> Record {
    Record::RegisterValue { register, index, is_before: false, value }
}

/// A value that holds before the instruction.
const fn held(index: u16, register: u16, value: u64) -> Record {
    Record::RegisterValue { register, index, is_before: true, value }
}

const fn data(word: u64) -> Record {
    Record::AccessData { count: 1, data: Data([word, 0]) }
}

/// 8 bytes at 0x2000.
const fn access(index: u16, is_write: bool) -> Record {
    Record::Access(Access { index, size: 8, is_write, address: 0x2000 })
}

/// Each step as text, without contexts.
fn steps(blocks: &[(u64, &[u32])], records: &[Record]) -> Vec<String> {
    let mut all = Vec::new();
    let blocks: Vec<(u64, Vec<u32>)> = blocks.iter().map(|(address, opcodes)| (*address, opcodes.to_vec())).collect();
    let bytes = stream(&blocks, &[records.to_vec()]);
    let ended = Stream::new(&bytes[..], Machine::Aarch64).each(&mut |step| {
        let mut text = match &step.event {
            Event::Instruction(instruction) => format!("{:x}", instruction.address),
            Event::State => "state".into(),
            Event::Exception(_) => "exception".into(),
            Event::Context(_) => return ControlFlow::Continue(()),
            _ => step.note().to_string(),
        };
        let hex = |bytes: &[(u8, u8)]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(byte.0));
        for access in step.accesses() {
            let kind = if access.direction == Direction::Write { "write" } else { "read" };
            let data = if access.bytes.is_empty() { "-".into() } else { format!("{:x}", hex(access.bytes)) };
            text += &format!(" {kind} {data}");
        }
        step.registers().for_each(|register| text += &format!(" {}={:x}", register.name, hex(register.bytes)));
        all.push(text);
        ControlFlow::Continue(())
    });
    ended.unwrap();
    all
}

#[test]
fn values_belong_to_their_instructions() {
    let code: &[(u64, &[u32])] = &[(0x1000, &[LDR, NOP]), (0x1008, &[NOP])];
    let vector = Record::VectorValue { register: 65, index: 1, is_before: false, value: [5, 6] };
    let first = [START, block(0), held(0, 0, 0x2000), data(7), access(0, false), written(0, 1, 7), vector];
    let records = [&first[..], &[block(1), written(0, 35, 9), END]].concat();
    let expected = ["state x0=2000", "1000 read 7 x1=7", "1004 v1=60000000000000005", "1008 cpsr=9"];
    assert_eq!(steps(code, &records), expected);
}

#[test]
fn values_that_the_kernel_may_have_written_are_state() {
    let code: &[(u64, &[u32])] = &[(0x1000, &[NOP, NOP]), (0x5000, &[NOP]), (0x1008, &[SVC]), (0x100c, &[NOP])];
    // A signal after the last instruction.
    let records = [START, block(0), written(0, 1, 1), written(1, 2, 2), block(1), END];
    let signal = "signal: execution goes on at 0x5000";
    assert_eq!(steps(code, &records), ["1000 x1=1", "1004", "exception", signal, "state x2=2", "5000"]);
    // A call, after which execution continues.
    let call = Record::SystemCall { number: 64, arguments: [1, 2, 3] };
    let call_return = Record::SystemCallReturn { number: 64, result: 5 };
    let records = [START, block(2), call, call_return, written(0, 0, 5), block(3), END];
    assert_eq!(steps(code, &records), ["1008 x0=5", "exception", "system call 64: 5", "100c"]);
}

#[test]
fn a_failed_instruction_writes_nothing() {
    let code: &[(u64, &[u32])] = &[(0x1000, &[NOP, LDR, NOP]), (0x5000, &[NOP])];
    let left = Record::BlockLeft { completed: 0 };
    let records = [START, block(0), written(0, 1, 1), written(1, 2, 2), left, block(1), END];
    let signal = "signal: execution goes on at 0x5000";
    assert_eq!(steps(code, &records), ["1000 x1=1", "exception", signal, "state x2=2", "5000"]);
}

#[test]
fn values_of_skipped_instructions_are_state() {
    let code: &[(u64, &[u32])] = &[(0x1000, &[NOP, NOP]), (0x1008, &[NOP])];
    let part = Record::PartialBlock { skipped: 1 };
    let records = [START, part, block(0), held(0, 0, 1), written(0, 1, 2), written(1, 2, 3), block(1), END];
    assert_eq!(steps(code, &records), ["state x0=1 x1=2", "1004 x2=3", "1008"]);
}

/// With several threads, the emulator reports the operand of an addition as the data that is written.
#[test]
fn uncertain_data_is_not_emitted() {
    for (opcode, expected) in [(LDADD, "1000 read 1 write -"), (SWP, "1000 read 1 write 2")] {
        let code: &[(u64, &[u32])] = &[(0x1000, &[opcode]), (0x1004, &[NOP])];
        let records = [START, block(0), data(1), access(0, false), data(2), access(0, true), block(1), END];
        assert_eq!(steps(code, &records), [expected, "1004"]);
    }
}
