//! Stories for tests: instructions as text, separated by semicolons or lines, and their call trees.

use std::collections::BTreeMap;
use std::io::Cursor;

use unspool_analyze::calls::{Began, Call, CallSink, Ended, Follower, Gap, Instruction, Opcode, Site};
use unspool_analyze::tree::Forest;
use unspool_isa::Isa;

/// Opcodes by name, with the instruction set.
const OPCODES: [(&str, Isa, u8, u32); 17] = [
    ("nop", Isa::A64, 4, 0xd503_201f),
    ("bl", Isa::A64, 4, 0x9400_0000),
    ("blr", Isa::A64, 4, 0xd63f_0020),
    ("b", Isa::A64, 4, 0x1400_0000),
    ("b.eq", Isa::A64, 4, 0x5400_0000),
    ("br", Isa::A64, 4, 0xd61f_0020),
    ("ret", Isa::A64, 4, 0xd65f_03c0),
    ("svc", Isa::A64, 4, 0xd400_0001),
    ("eret", Isa::A64, 4, 0xd69f_03e0),
    ("t.nop", Isa::T32, 2, 0xbf00),
    ("t.bl", Isa::T32, 4, 0xf000_f800),
    ("t.bx_lr", Isa::T32, 2, 0x4770),
    ("t.pop_pc", Isa::T32, 2, 0xbd00),
    ("a.nop", Isa::A32, 4, 0xe320_f000),
    ("a.bx", Isa::A32, 4, 0xe12f_ff11),
    ("a.subs_pc_lr", Isa::A32, 4, 0xe25e_f004),
    ("?", Isa::A64, 4, 0),
];

/// The instructions of a story, each `address opcode`, followed by any of `sp=`, `lr=` (values before it, which hold
/// until the next one), `stack=`, `time=`, `skipped`, `exception`. Addresses are hexadecimal.
pub(crate) fn instructions(story: &str) -> Vec<Instruction> {
    let (mut sp, mut lr, mut stack, mut time) = (None, None, 0, None);
    let lines = (1..).zip(story.split([';', '\n']).map(str::trim)).filter(|(_, line)| !line.is_empty());
    let one = |(number, (line, text)): (u64, (u64, &str))| {
        let mut words = text.split_whitespace();
        let pc = hex(words.next().unwrap());
        let name = words.next().unwrap();
        let (isa, length, opcode) = opcode(name);
        let site = Site { position: line, time: number, number, pc };
        let code = (name != "?").then_some(Opcode { isa, opcode });
        let mut instruction = Instruction::new(site, length, code);
        for word in words {
            match word.split_once('=') {
                Some(("sp", value)) => sp = (value != "?").then(|| hex(value)),
                Some(("lr", value)) => {
                    lr = Some(hex(value));
                    instruction.is_lr_written = true;
                }
                Some(("stack", value)) => stack = value.parse().unwrap(),
                Some(("time", value)) => time = Some(value.parse().unwrap()),
                None if word == "skipped" => instruction.is_executed = false,
                None if word == "exception" => instruction.is_interrupted = true,
                _ => panic!("{word}"),
            }
        }
        instruction.site.time = time.unwrap_or(number);
        Instruction { sp, lr, stack, ..instruction }
    };
    (1..).zip(lines).map(one).collect()
}

/// Instruction set, length and opcode by name.
pub(crate) fn opcode(name: &str) -> (Isa, u8, u32) {
    let row = OPCODES.into_iter().find(|row| row.0 == name);
    row.map(|(_, isa, length, opcode)| (isa, length, opcode)).unwrap_or_else(|| panic!("{name}"))
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{text}"))
}

/// The calls in the order in which they end.
pub(crate) fn calls(instructions: &[Instruction]) -> Vec<Call> {
    let mut calls = Vec::new();
    follow(instructions, &[], &mut |_: usize, call: &Call| calls.push(*call));
    calls
}

/// Passes the calls to a sink. Execution is missing before the instructions with the indices in `gaps`.
pub(crate) fn follow(instructions: &[Instruction], gaps: &[usize], sink: &mut impl CallSink) {
    let mut follower = Follower::new();
    for (index, instruction) in instructions.iter().enumerate() {
        if gaps.contains(&index) {
            follower.gap(Gap::Missing);
        }
        follower.step(instruction, sink);
    }
    follower.finish(sink);
}

/// The tree of these calls, one line per call: how it began and ended, its function, instructions and own cost.
pub(crate) fn tree(calls: &[Call]) -> String {
    let mut forest = Forest::new(Cursor::new(Vec::new()));
    calls.iter().for_each(|call| forest.ended(0, call));
    let mut text = String::new();
    let take = |depth: usize, call: &Call| {
        text += &format!("{:indent$}{}\n", "", line(call), indent = depth * 2);
        Ok(())
    };
    forest.each(0, |_| true, take).unwrap();
    text
}

pub(crate) fn line(call: &Call) -> String {
    let began = match call.began {
        Began::Start => "start ",
        Began::Before => "before ",
        Began::Called => "",
        Began::Exception => "exception ",
        Began::Gap => "gap ",
    };
    let ended = match call.ended {
        Ended::Returned => "",
        Ended::Unwound => " left",
        Ended::InGap => " in gap",
        Ended::AtEnd => " at end",
    };
    let (entry, exit) = (call.entry.number, call.exit.number);
    format!("{began}{:x} {entry}-{exit} own {}{ended}", call.function, call.own.instructions)
}

pub(crate) fn tree_of(story: &str) -> String {
    let instructions = instructions(story);
    let calls = calls(&instructions);
    check(&instructions, &calls);
    tree(&calls)
}

/// Checks the invariants of the calls of any story.
fn check(instructions: &[Instruction], calls: &[Call]) {
    let own: u64 = calls.iter().map(|call| call.own.instructions).sum();
    assert_eq!(own, instructions.len() as u64, "each instruction is counted in exactly one call");
    let mut ordinals: BTreeMap<u64, u32> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.ordinal > 0) {
        *ordinals.entry(call.ordinal).or_default() += 1;
        assert!(call.last >= call.ordinal && call.exit.number >= call.entry.number, "{call:?}");
    }
    assert!(ordinals.values().all(|count| *count == 1));
}
