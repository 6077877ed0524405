//! Trees, profiles and folded stacks of many calls and of random instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use proptest::prelude::*;
use unspool_analyze::calls::{Began, Call, CallSink, Cost, Follower, Instruction, Opcode, Site};
use unspool_analyze::folded::Folded;
use unspool_analyze::profile::{Profile, Profiles, Row};
use unspool_analyze::tree::Forest;
use unspool_isa::Isa;
use unspool_testing::Random;

use super::story;

const STORY: &str = "1000 bl sp=100 time=0
    2000 bl time=10
    3000 ret time=11
    2004 bl time=20
    3000 ret time=25
    2008 ret time=30
    1004 bl time=31
    3000 nop time=32";

fn tree(calls: &[Call]) -> Forest<Cursor<Vec<u8>>> {
    let mut tree = Forest::new(Cursor::default());
    calls.iter().for_each(|call| tree.ended(0, call));
    tree
}

fn profiled(is_complete_only: bool, instructions: &[Instruction], gaps: &[usize]) -> Profile {
    let mut profiles = Profiles::new(is_complete_only);
    story::follow(instructions, gaps, &mut profiles);
    profiles.of(0).cloned().unwrap_or_default()
}

/// The rows by their definition, from the complete tree: a call within another call of its function has no total, and the own
/// cost of a call that is not counted is that of its caller.
fn rows_of_tree(is_complete_only: bool, calls: &[Call]) -> BTreeMap<u64, Row> {
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    let mut stack: Vec<Option<u64>> = Vec::new();
    let add = |depth: usize, call: &Call| {
        stack.truncate(depth);
        if is_complete_only && !call.is_complete() && !call.is_root() {
            if let Some(caller) = stack.iter().rev().flatten().next() {
                add_cost(&mut rows.entry(*caller).or_default().own, call.own);
            }
            stack.push(None);
            return Ok(());
        }
        let row = rows.entry(call.function).or_default();
        let is_call = call.began != Began::Gap;
        row.calls += u64::from(is_call);
        row.incomplete += u64::from(is_call && !call.is_complete());
        add_cost(&mut row.own, call.own);
        if !stack.contains(&Some(call.function)) {
            add_cost(&mut row.total, call.total());
        }
        stack.push(Some(call.function));
        Ok(())
    };
    tree(calls).each(0, |_| true, add).unwrap();
    rows
}

fn add_cost(sum: &mut Cost, cost: Cost) {
    (sum.time, sum.instructions) = (sum.time + cost.time, sum.instructions + cost.instructions);
}

fn stacks(mut folded: Folded, calls: &[Call]) -> Vec<(Vec<u64>, u64, u64)> {
    let add = |depth: usize, call: &Call| {
        folded.add(depth, call);
        Ok(())
    };
    tree(calls).each(0, |_| true, add).unwrap();
    let mut stacks = Vec::new();
    let take = |stack: &[u64], own: Cost| -> Result<(), ()> {
        stacks.push((stack.to_vec(), own.time, own.instructions));
        Ok(())
    };
    folded.each(take).unwrap();
    stacks
}

#[test]
fn a_profile_and_its_stacks() {
    let instructions = story::instructions(STORY);
    let calls = story::calls(&instructions);
    let rows = |is_complete_only: bool| {
        let row = |(function, row): (u64, &Row)| {
            let Row { calls, incomplete, total, own } = *row;
            [function, calls, incomplete, total.time, own.time, total.instructions, own.instructions]
        };
        profiled(is_complete_only, &instructions, &[]).rows().map(row).collect::<Vec<_>>()
    };
    let all = [[0x1000, 1, 1, 32, 12, 8, 2], [0x2000, 1, 0, 20, 20, 5, 3], [0x3000, 3, 1, 0, 0, 3, 3]];
    assert_eq!(rows(false), all);
    let complete = [[0x1000, 1, 1, 32, 12, 8, 3], [0x2000, 1, 0, 20, 20, 5, 3], [0x3000, 2, 0, 0, 0, 2, 2]];
    assert_eq!(rows(true), complete);

    let stack = |functions: &[u64], time, instructions| (functions.to_vec(), time, instructions);
    let nested = stack(&[0x1000, 0x2000, 0x3000], 0, 2);
    let expected =
        [stack(&[0x1000], 12, 2), stack(&[0x1000, 0x2000], 20, 3), nested.clone(), stack(&[0x1000, 0x3000], 0, 1)];
    assert_eq!(stacks(Folded::new(), &calls), expected);
    let expected = [stack(&[0x1000], 12, 3), stack(&[0x1000, 0x2000], 20, 3), nested];
    assert_eq!(stacks(Folded::of_complete_calls(), &calls), expected);
}

/// Nested calls, more than fit into memory; every seventh innermost call does not return by itself.
#[test]
fn a_tree_that_does_not_fit_into_memory() {
    let mut follower = Follower::new();
    let mut tree = tree(&[]);
    let mut number = 0;
    let mut step = |pc: u64, opcode: u32, sp: u64| {
        number += 1;
        let site = Site { position: number, time: number, number, pc };
        let instruction = Instruction::new(site, 4, Some(Opcode { isa: Isa::A64, opcode }));
        follower.step(&Instruction { sp: Some(sp), ..instruction }, &mut tree);
    };
    let (call, ret) = (0x9400_0000, 0xd65f_03c0);
    for outer in 0..5_000 {
        step(0x1000, call, 0x100);
        for inner in 0..3 {
            step(0x2000, call, 0x100 - 16 * inner);
        }
        step(0x3000, ret, 0xd0);
        if outer % 7 > 0 {
            step(0x2004, ret, 0xd0);
        }
        step(0x2004, ret, 0xe0);
        step(0x2004, ret, 0xf0);
        step(0x1004, 0x17ff_ffff, 0x100);
    }
    follower.finish(&mut tree);
    let mut shape = Vec::new();
    let mut last = 0;
    let mut take = |depth: usize, call: &Call| {
        assert!(call.entry.number > last, "in the order in which they began");
        last = call.entry.number;
        shape.push(depth);
        Ok(())
    };
    tree.each(0, |_| true, &mut take).unwrap();
    assert_eq!(shape[0], 0);
    let expected = (0..5_000).flat_map(|outer| if outer % 7 > 0 { vec![1, 2, 3, 4] } else { vec![1, 2, 3] });
    let counts =
        |shape: &[usize]| (1..6).map(|depth| shape.iter().filter(|one| **one == depth).count()).collect::<Vec<_>>();
    let expected: Vec<usize> = expected.collect();
    assert_eq!(counts(&shape[1..]), counts(&expected), "{:?}", &shape[..20]);
    assert!(shape.len() > 16_000, "more than a page");
}

fn any_instruction() -> impl Strategy<Value = (u64, u32, Option<u64>, Option<u64>, u32, bool, bool)> {
    let opcodes = [0xd503_201f, 0x9400_0004, 0xd65f_03c0, 0x1400_0000, 0xd61f_0020, 0xd69f_03e0, 0xd400_0001];
    let pc = (0_u64..24).prop_map(|word| 0x1000 + word * 4);
    let sp = prop::option::of((0_u64..6).prop_map(|word| 0x100 + word * 16));
    (
        pc.clone(),
        prop::sample::select(opcodes.to_vec()),
        sp,
        prop::option::of(pc),
        0_u32..2,
        prop::bool::weighted(0.1),
        any::<bool>(),
    )
}

proptest! {
    #[test]
    fn any_instructions(
        steps in prop::collection::vec(any_instruction(), 0..200),
        gaps in prop::collection::vec(1_usize..200, 0..4),
    ) {
        let step = |(number, (pc, opcode, sp, lr, stack, is_interrupted, is_lr_written)): (u64, _)| {
            let site = Site { position: number, time: number * 3, number, pc };
            let new = Instruction::new(site, 4, Some(Opcode { isa: Isa::A64, opcode }));
            Instruction { sp, lr, stack, is_interrupted, is_lr_written, ..new }
        };
        let instructions: Vec<Instruction> = (1..).zip(steps).map(step).collect();
        let mut calls = Vec::new();
        story::follow(&instructions, &gaps, &mut |_: usize, call: &Call| calls.push(*call));
        let own: u64 = calls.iter().map(|call| call.own.instructions).sum();
        prop_assert_eq!(own, instructions.len() as u64);
        let mut count = 0;
        let mut ends: Vec<u64> = Vec::new();
        tree(&calls).each(0, |_| true, |depth, call| {
            ends.truncate(depth);
            assert!(ends.iter().all(|end| call.exit.number <= *end), "within the enclosing calls");
            ends.push(call.exit.number);
            count += 1;
            Ok(())
        }).unwrap();
        prop_assert_eq!(count, calls.len());
        for is_complete_only in [false, true] {
            let profile = profiled(is_complete_only, &instructions, &gaps);
            assert_consistent(&profile);
            let rows: BTreeMap<u64, Row> = profile.rows().map(|(function, row)| (function, *row)).collect();
            prop_assert_eq!(rows, rows_of_tree(is_complete_only, &calls));
        }
    }

    #[test]
    fn profiles_of_random_call_trees(seed in any::<u64>(), instructions in 1_usize..400) {
        let (instructions, expected) = RandomCalls::run(seed, instructions);
        let profile = profiled(false, &instructions, &[]);
        let rows: BTreeMap<u64, [u64; 3]> = profile
            .rows()
            .map(|(function, row)| (function, [row.calls, row.own.instructions, row.total.instructions]))
            .collect();
        prop_assert_eq!(rows, expected);
        assert_consistent(&profile);
    }
}

/// No total exceeds that of the trace, and the own costs add up to it.
fn assert_consistent(profile: &Profile) {
    let total = profile.total();
    let mut own = Cost::default();
    for (function, row) in profile.rows() {
        assert!(row.own.instructions <= row.total.instructions || row.incomplete < row.calls, "{function:x}: {row:?}");
        assert!(row.total.instructions <= total.instructions, "{function:x}: {row:?} of {total:?}");
        assert!(row.total.time <= total.time, "{function:x}: {row:?} of {total:?}");
        (own.time, own.instructions) = (own.time + row.own.time, own.instructions + row.own.instructions);
    }
    assert_eq!(own, total);
}

const NOP: u32 = 0xd503_201f;

/// A program of four functions that call each other and themselves at random, and its profile by definition: after each
/// instruction, every function on the stack has executed one more, however often it is on the stack.
struct RandomCalls {
    random: Random,
    left: usize,
    /// Functions on the stack.
    stack: Vec<u64>,
    sp: u64,
    instructions: Vec<Instruction>,
    /// Calls, own instructions and total instructions per function.
    expected: BTreeMap<u64, [u64; 3]>,
}

impl RandomCalls {
    fn run(seed: u64, instructions: usize) -> (Vec<Instruction>, BTreeMap<u64, [u64; 3]>) {
        let (stack, expected) = (Vec::new(), BTreeMap::new());
        let (random, sp) = (Random::new(seed), 0x1_0000);
        let mut calls = Self { random, left: instructions, stack, sp, instructions: Vec::new(), expected };
        calls.function(0x1_0000, None);
        (calls.instructions, calls.expected)
    }

    /// Executes a function until it returns. The first one never does. Its first instruction allocates a stack frame, and
    /// the one before the return frees it: calls and returns of Arm leave the stack pointer as it is.
    fn function(&mut self, function: u64, back: Option<u64>) {
        self.stack.push(function);
        self.expected.entry(function).or_default()[0] += 1;
        self.execute(function, NOP, back);
        self.sp -= 16;
        let mut pc = function + 4;
        while self.left > 0 && (back.is_none() || self.random.below(5) > 0) {
            let is_call = self.random.below(3) == 0 && self.stack.len() < 12;
            self.execute(pc, if is_call { 0x9400_0000 } else { NOP }, back);
            pc += 4;
            if is_call {
                // The first function is never called again, so that the trace begins in the root.
                let callee = 0x1_0000 * (2 + self.random.below(3));
                self.function(callee, Some(pc));
            }
        }
        // No code has a return where another call of the function has a call: it branches to its end.
        self.execute(pc, 0x1400_0000, back);
        self.execute(function + 0x8000, NOP, back);
        self.sp += 16;
        self.execute(function + 0x8004, if back.is_some() { 0xd65f_03c0 } else { NOP }, back);
        self.stack.pop();
    }

    fn execute(&mut self, pc: u64, opcode: u32, lr: Option<u64>) {
        self.left = self.left.saturating_sub(1);
        let number = self.instructions.len() as u64 + 1;
        let time = self.instructions.last().map_or(7, |last| last.site.time) + self.random.below(3);
        let instruction =
            Instruction::new(Site { position: number, time, number, pc }, 4, Some(Opcode { isa: Isa::A64, opcode }));
        self.instructions.push(Instruction { sp: Some(self.sp), lr, ..instruction });
        let current = self.stack.last().copied().unwrap_or_default();
        self.expected.entry(current).or_default()[1] += 1;
        for function in self.stack.iter().collect::<BTreeSet<_>>() {
            self.expected.entry(*function).or_default()[2] += 1;
        }
    }
}
