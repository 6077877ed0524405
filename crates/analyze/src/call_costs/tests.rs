//! Tests of costs: small programs by hand, and blocks compared with their instructions.

use proptest::prelude::*;
use unspool_isa::Isa;
use unspool_model::{Branch, Gap, Instruction, Positions};

use super::*;

const BL: u32 = 0x9400_0000;
const RET: u32 = 0xd65f_03c0;
const NOP: u32 = 0xd503_201f;

fn counted(steps: &[(u64, u32)]) -> CallCosts {
    counted_by(CallCounter::default(), steps)
}

fn counted_by(mut counter: CallCounter, steps: &[(u64, u32)]) -> CallCosts {
    for (position, (address, opcode)) in (0..).zip(steps) {
        let mut step = Step::default();
        (step.position, step.time) = (position, Some(10 * position));
        step.event = match *opcode {
            0 => Event::Gap(Gap::Overflow),
            opcode => {
                let next = steps.get(position as usize + 1).map(|(address, _)| *address);
                let branch = (opcode != NOP).then_some(Branch { taken: true, target: next });
                let opcode = Some(opcode);
                Event::Instruction(Instruction {
                    address: *address,
                    opcode,
                    length: 4,
                    branch,
                    ..Instruction::default()
                })
            }
        };
        let _ = counter.step(&step);
    }
    counter.finish(&[])
}

fn bl(from: u64, to: u64) -> (u64, u32) {
    (from, BL | ((to.wrapping_sub(from) >> 2) & 0x03ff_ffff) as u32)
}

fn arcs(costs: &CallCosts) -> Vec<(u64, bool, u64, u64, bool, u64, u64)> {
    let arc = |(arc, count): (&CallArc, &Count)| {
        let CallArc { caller, site, callee } = *arc;
        let (calls, cost) = (count.count, count.cost.instructions);
        (caller.address, caller.is_recursion, site, callee.address, callee.is_recursion, calls, cost)
    };
    let mut arcs: Vec<_> = costs.arcs.iter().map(arc).collect();
    arcs.sort_unstable();
    arcs
}

/// By hand: 0x1000 calls 0x2000, which calls itself once.
#[test]
fn recursion_is_a_function_of_its_own() {
    let costs = counted(&[
        (0x1000, NOP),
        bl(0x1004, 0x2000),
        bl(0x2000, 0x2000),
        bl(0x2000, 0x3000),
        (0x3000, RET),
        (0x2004, RET),
        (0x2004, RET),
        (0x1008, NOP),
    ]);
    assert_eq!(
        arcs(&costs),
        [
            (0x1000, false, 0x1004, 0x2000, false, 1, 5),
            (0x2000, false, 0x2000, 0x2000, true, 1, 3),
            (0x2000, true, 0x2000, 0x3000, false, 1, 1),
        ]
    );
    let own = |address, is_recursion| {
        let of = |((function, _), count): (&(Function, u64), &Count)| {
            (function.address == address && function.is_recursion == is_recursion).then_some(count.cost.instructions)
        };
        costs.own.iter().filter_map(of).sum::<u64>()
    };
    assert_eq!([own(0x1000, false), own(0x2000, false), own(0x2000, true), own(0x3000, false)], [3, 2, 2, 1]);
    // 7 times 10 pass between the first instruction and the last.
    assert_eq!(costs.total, Cost { time: 70, instructions: 8 });
}

/// By hand: what 0x2000 and its callee execute, and the call within it.
#[test]
fn a_function_with_what_it_calls() {
    let steps = [
        bl(0x1000, 0x2000),
        (0x2000, NOP),
        bl(0x2004, 0x3000),
        (0x3000, RET),
        (0x2008, RET),
        bl(0x1004, 0x3000),
        (0x3000, RET),
        (0x1008, NOP),
    ];
    let costs = counted_by(CallCounter::of_functions(vec![Range { start: 0x2000, end: 0x2010 }]), &steps);
    assert_eq!(arcs(&costs), [(0x2000, false, 0x2004, 0x3000, false, 1, 1)]);
    assert_eq!(costs.total.instructions, 4);
}

#[test]
fn a_function_that_the_trace_starts_in_has_an_unknown_caller() {
    let costs = counted(&[(0x2000, NOP), (0x2004, RET), (0x1008, NOP)]);
    assert_eq!(arcs(&costs), [(0x1008, false, 0x1007, 0x2000, false, 1, 2)]);
    assert_eq!(costs.total.instructions, 3);
}

#[test]
fn nothing_is_lost_at_a_gap() {
    let steps =
        [bl(0x1000, 0x2000), (0x2000, NOP), (0, 0), (0x5000, NOP), bl(0x5004, 0x3000), (0x3000, RET), (0x5008, NOP)];
    let costs = counted(&steps);
    assert_eq!((costs.total.instructions, costs.gaps), (6, 1));
    assert!(arcs(&costs).contains(&(0x5000, false, 0x5004, 0x3000, false, 1, 1)));
}

/// The blocks of a program: two functions that call the next one, and one that returns.
fn blocks() -> Vec<Block> {
    let block = |start, opcodes: &[u32]| Block::new(start, Isa::A64, opcodes.to_vec(), true);
    vec![
        block(0x1000, &[NOP, bl(0x1004, 0x2000).1]),
        block(0x1008, &[NOP, NOP, RET]),
        block(0x2000, &[bl(0x2000, 0x3000).1]),
        block(0x2004, &[NOP, RET]),
        block(0x3000, &[NOP, NOP, RET]),
    ]
}

/// Costs of runs of blocks, each with its time; as blocks, or as their steps.
fn counted_blocks(runs: &[(Option<u64>, Vec<BlockExecution>)], as_steps: bool) -> CallCosts {
    let (blocks, mut counter, mut position) = (blocks(), CallCounter::default(), 0);
    for (index, (time, executions)) in runs.iter().enumerate() {
        let next = runs.get(index + 1).and_then(|(_, executions)| executions.first());
        let trace = BlockTrace {
            core: 0,
            blocks: &blocks,
            executions,
            next: next.map(|next| blocks[next.number()].start),
            positions: Positions::From(position),
            time: *time,
            accesses: None,
        };
        position += trace.instructions() as u64;
        let flow = if as_steps { trace.each_step(|step| counter.step(step)) } else { counter.blocks(&trace) };
        assert!(flow.is_continue());
    }
    counter.finish(&[])
}

/// Calls go where their opcode leads, returns anywhere.
fn runs() -> impl Strategy<Value = Vec<(Option<u64>, Vec<BlockExecution>)>> {
    let run = (prop::option::of(0_u64..50), prop::collection::vec(0_u32..4, 1..12));
    prop::collection::vec(run, 1..12).prop_map(|runs| {
        let mut last = 1;
        let mut next = |wanted| {
            last = match last {
                0 => 2,
                2 => 4,
                _ => wanted,
            };
            BlockExecution::new(last, true)
        };
        runs.into_iter().map(|(time, list)| (time, list.into_iter().map(&mut next).collect())).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn blocks_cost_what_their_instructions_cost(runs in runs()) {
        let (blocks, steps) = (counted_blocks(&runs, false), counted_blocks(&runs, true));
        let instructions: usize =
            runs.iter().flat_map(|(_, list)| list).map(|execution| self::blocks()[execution.number()].opcodes.len()).sum();
        prop_assert_eq!(blocks.total.instructions, instructions as u64);
        prop_assert_eq!(blocks.total, steps.total);
        prop_assert_eq!(blocks.own, steps.own);
        prop_assert_eq!(blocks.arcs, steps.arcs);
    }
}
