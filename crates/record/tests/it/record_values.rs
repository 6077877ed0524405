//! Registers and data in the stream of the plugin, and the steps that they become.
//!
//! Comes in: streams that are made here, word by word. `crates/plugin/src/stream.rs` says what the words are.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use unspool_model::{Direction, Event, StepSource};
use unspool_record::{Machine, Stream};

const NOP: u32 = 0xd503_201f;
/// LDR X1, [X0]
const LDR: u32 = 0xf940_0001;
/// LDADD X2, X1, [X0]
const LDADD: u32 = 0xf822_0001;
/// SWP X2, X1, [X0]
const SWP: u32 = 0xf822_8001;
const SVC: u32 = 0xd400_0001;

const START: u64 = rare(4, 0);
const END: u64 = rare(5, 0);

const fn rare(what: u64, number: u64) -> u64 {
    2 << 62 | what << 56 | number
}

/// The instruction wrote it.
const fn written(index: u64, register: u64) -> u64 {
    rare(13, index << 16 | register)
}

/// It holds before the instruction.
const fn held(index: u64, register: u64) -> u64 {
    written(index, register) | 1 << 31
}

/// 8 bytes at 0x2000.
const fn read(index: u64) -> u64 {
    1 << 62 | index << 53 | 3 << 49 | 0x2000
}

const fn write(index: u64) -> u64 {
    read(index) | 1 << 52
}

/// A stream of blocks of code, by their addresses, and of one thread.
fn stream(blocks: &[(u64, &[u32])], words: &[u64]) -> Vec<u8> {
    let mut code = Vec::new();
    for (id, (address, opcodes)) in (0_u32..).zip(blocks) {
        code.extend(id.to_le_bytes());
        code.extend(address.to_le_bytes());
        code.extend((opcodes.len() as u16).to_le_bytes());
        opcodes.iter().for_each(|opcode| code.extend([4].into_iter().chain(opcode.to_le_bytes())));
    }
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut bytes = b"unspool record 2\naarch64 data written\n".to_vec();
    for (thread, chunk) in [(u32::MAX, code), (0, words)] {
        bytes.extend(thread.to_le_bytes());
        bytes.extend((chunk.len() as u32).to_le_bytes());
        bytes.extend(chunk);
    }
    bytes
}

/// Each step in a few words; contexts are left out.
fn told(blocks: &[(u64, &[u32])], words: &[u64]) -> Vec<String> {
    let mut all = Vec::new();
    let bytes = stream(blocks, words);
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
    let vector = rare(14, 1 << 16 | 65);
    let words = [
        START,
        0,
        held(0, 0),
        0x2000,
        rare(11, 1),
        7,
        read(0),
        written(0, 1),
        7,
        vector,
        5,
        6,
        1,
        written(0, 35),
        9,
        END,
    ];
    let expected = ["state x0=2000", "1000 read 7 x1=7", "1004 v1=60000000000000005", "1008 cpsr=9"];
    assert_eq!(told(code, &words), expected);
}

#[test]
fn what_the_kernel_may_have_written_is_state() {
    let code: &[(u64, &[u32])] = &[(0x1000, &[NOP, NOP]), (0x5000, &[NOP]), (0x1008, &[SVC]), (0x100c, &[NOP])];
    // A signal behind the last instruction.
    let words = [START, 0, written(0, 1), 1, written(1, 2), 2, 1, END];
    let signal = "signal: execution goes on at 0x5000";
    assert_eq!(told(code, &words), ["1000 x1=1", "1004", "exception", signal, "state x2=2", "5000"]);
    // A call, which goes on behind itself.
    let words = [START, 2, rare(2, 0), 64, 1, 2, 3, rare(3, 0), 64, 5, written(0, 0), 5, 3, END];
    assert_eq!(told(code, &words), ["1008 x0=5", "exception", "system call 64: 5", "100c"]);
}

#[test]
fn what_failed_wrote_nothing() {
    let code: &[(u64, &[u32])] = &[(0x1000, &[NOP, LDR, NOP]), (0x5000, &[NOP])];
    let words = [START, 0, written(0, 1), 1, written(1, 2), 2, rare(1, 0), 1, END];
    let signal = "signal: execution goes on at 0x5000";
    assert_eq!(told(code, &words), ["1000 x1=1", "exception", signal, "state x2=2", "5000"]);
}

#[test]
fn what_is_left_out_is_state() {
    let code: &[(u64, &[u32])] = &[(0x1000, &[NOP, NOP]), (0x1008, &[NOP])];
    let words = [START, rare(6, 1), 0, held(0, 0), 1, written(0, 1), 2, written(1, 2), 3, 1, END];
    assert_eq!(told(code, &words), ["state x0=1 x1=2", "1004 x2=3", "1008"]);
}

/// With several threads, the emulator tells the operand of an addition for what is written.
#[test]
fn data_that_is_not_sure_is_not_told() {
    for (opcode, expected) in [(LDADD, "1000 read 1 write -"), (SWP, "1000 read 1 write 2")] {
        let code: &[(u64, &[u32])] = &[(0x1000, &[opcode]), (0x1004, &[NOP])];
        let words = [START, 0, rare(11, 1), 1, read(0), rare(11, 1), 2, write(0), 1, END];
        assert_eq!(told(code, &words), [expected, "1004"]);
    }
}
