//! The blocks of an ASTF file give the same steps in the same order.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::io::Cursor;
use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_astf::read::Reader;
use unspool_astf::record::{
    Context, ExtraEa, Header, Instruction, Level, MICROSECONDS, Record, Storage, StringContinuation, StringStart,
    Timestamp, Trap, trap_type,
};
use unspool_astf::steps::Steps;
use unspool_model::{BlockSink, BlockTrace, Step, StepSource};
use unspool_testing::Random;

/// Collects all steps, including those of blocks.
#[derive(Default)]
struct Written {
    steps: Vec<Step>,
    at_once: usize,
    /// Number of blocks at the end.
    blocks: usize,
    limit: usize,
    /// Where execution has to continue after blocks.
    next: Option<u64>,
}

impl BlockSink for Written {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        if let Some(next) = self.next.take() {
            assert_eq!(step.event.instruction().map(|instruction| instruction.address), Some(next));
        }
        self.steps.push(step.clone());
        if self.steps.len() < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.at_once += trace.instructions();
        self.blocks = trace.blocks.len();
        trace.each_step(|step| self.step(step))?;
        self.next = trace.next;
        ControlFlow::Continue(())
    }

    fn wants_accesses(&self) -> bool {
        true
    }
}

fn steps(records: &[Record], bytes_lost: usize) -> Steps<Cursor<Vec<u8>>> {
    let header = Header::new(Level::BasicPlus, true, Storage::Raw);
    let all = std::iter::once(Record::Header(header)).chain(records.iter().copied());
    let mut bytes: Vec<u8> = all.flat_map(|record| record.to_bytes()).collect();
    bytes.truncate(bytes.len() - bytes_lost);
    Steps::new(Reader::in_place(Cursor::new(bytes)).unwrap())
}

/// Compares blocks with steps. Returns the number of instructions in blocks, and the number of blocks.
fn assert_same(records: &[Record], bytes_lost: usize, limit: usize) -> (usize, usize) {
    let mut expected = Vec::new();
    let expected_end = steps(records, bytes_lost).each(&mut |step| {
        expected.push(step.clone());
        if expected.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let mut written = Written { limit, ..Written::default() };
    let end = steps(records, bytes_lost).follow(&mut written);
    assert_eq!(written.steps, expected);
    assert_eq!(end.map_err(|error| error.to_string()), expected_end.map_err(|error| error.to_string()));
    (written.at_once, written.blocks)
}

const NOP: u32 = 0xd503_201f;
const ERET: u32 = 0xd69f_03e0;

/// An instruction of a small program: each has one opcode and one kind, and varying accesses.
fn executed(index: u64, random: u64) -> Instruction {
    let plain = Instruction { pc: 0x8000 + 4 * index, iword: NOP + index as u32, ..Instruction::default() };
    let is_odd = random & 0xff == 0;
    match index % 8 {
        1 => Instruction { is_read: true, ea_valid: true, ea: random >> 8, ea_size: 7, ..plain },
        3 => Instruction { is_write: true, ea_valid: !is_odd, ea: random >> 8, ea_size: 3, ..plain },
        5 => Instruction { trap: is_odd, ..plain },
        6 => Instruction { extra_eas: is_odd, is_read: is_odd, ea_valid: is_odd, ..plain },
        2 if is_odd => Instruction { iword: ERET, is_branch: true, ..plain },
        4 if is_odd => Instruction { xattr_mode: 2, xattr: random >> 8 & 15, ..plain },
        _ => plain,
    }
}

/// A walk through it, with other records between.
fn walk(seed: u64, length: usize, calm: u64) -> Vec<Record> {
    let mut numbers = Random::new(seed);
    let mut random = || numbers.bits();
    let (mut index, mut records) = (0, Vec::new());
    while records.len() < length {
        let (what, more) = (random(), random());
        let mut one = executed(index, if what >> 32 & calm == 0 { more & !0xff } else { more | 1 });
        let is_branch = index % 8 == 7 || index % 8 == 0;
        let is_taken = is_branch && what & 1 == 0;
        let next = if is_taken { (what >> 8) % 24 } else { (index + 1) % 24 };
        if is_branch {
            one = Instruction { is_branch, ea_valid: is_taken, ea: 0x8000 + 4 * next, ..one };
        }
        if is_branch && what >> 40 & calm == 0 {
            // A wrong target.
            one.ea ^= 4;
        }
        records.push(Record::Instruction(one));
        index = next;
        if one.extra_eas {
            records.push(Record::ExtraEa(ExtraEa { mem0_addr: more, ..ExtraEa::default() }));
        }
        // A Basic trace has no traps.
        if (one.trap || one.iword == ERET) && more >> 60 > 4 {
            let trap_type = if one.trap { trap_type::SYNCHRONOUS } else { trap_type::EXCEPTION_RETURN };
            records.push(Record::Trap(Trap { trap_type, target_pc: 0x8000, ..Trap::default() }));
        }
        if what >> 48 & calm == 0 {
            let (unit, value) = (MICROSECONDS, records.len() as u64);
            records.push(match what >> 56 & 7 {
                0 => Record::Timestamp(Timestamp { unit, value, ..Timestamp::default() }),
                1 => Record::Context(Context { el: 1, pid_valid: true, pid: more, ..Context::default() }),
                2 => Record::Trap(Trap { trap_type: trap_type::IRQ, target_pc: 0x8000, ..Trap::default() }),
                3 => Record::StringStart(StringStart { size: 40, string: [b'x'; 28], ..StringStart::default() }),
                4 => Record::StringContinuation(StringContinuation { string: [b'y'; 31] }),
                5 => Record::ExtraEa(ExtraEa::default()),
                6 => Record::Unknown([0x7f; 32]),
                _ => Record::Context(Context { unsupported: true, ..Context::default() }),
            });
        }
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn blocks_give_the_same_steps(
        seed: u64,
        length in 1_usize..3000,
        calm in prop_oneof![Just(3_u64), Just(31), Just(255)],
        lost in prop_oneof![Just(0_usize), 0_usize..64],
        limit in prop_oneof![Just(usize::MAX), 1_usize..3000],
    ) {
        assert_same(&walk(seed, length, calm), lost.min(32 * length), limit);
    }
}

#[test]
fn most_of_a_regular_file_comes_in_blocks() {
    // More than one batch of the reader.
    let records = walk(7, 40_000, 4095);
    let (at_once, _) = assert_same(&records, 0, usize::MAX);
    assert!(at_once > 30_000, "{at_once} of {}", records.len());
}

#[test]
fn a_block_is_learned_once() {
    // Many batches of the reader end within a block.
    let mut records = walk(9, 500_000, u64::MAX);
    records.retain(|record| matches!(record, Record::Instruction(_)));
    let (at_once, blocks) = assert_same(&records, 0, usize::MAX);
    assert!(at_once > 400_000 && blocks <= 24, "{at_once} instructions, {blocks} blocks");
}

#[test]
fn a_jump_without_a_branch_ends_a_block() {
    let plain = |index: u64| Record::Instruction(Instruction { pc: 0x100 + 4 * index, ..Instruction::default() });
    let records: Vec<Record> = (0..10).flat_map(|_| [plain(8), plain(9), plain(0), plain(1)]).collect();
    let branch = Instruction { pc: 0x108, is_branch: true, ea_valid: true, ea: 0x120, ..Instruction::default() };
    let with_branch = |lap: &[Record]| [lap, &[Record::Instruction(branch)]].concat();
    let mixed: Vec<Record> = records.chunks(4).flat_map(with_branch).collect();
    // Before a jump, an execution is not followed by the instruction that it leads to.
    assert_eq!(assert_same(&records, 0, usize::MAX).0, 0);
    assert_eq!(assert_same(&mixed, 0, usize::MAX).0, 3 * 8);
}

#[test]
fn changed_code_is_learned_again() {
    let lap = |change: u32| {
        let plain = |index: u64| Instruction { pc: 0x100 + 4 * index, iword: NOP + change, ..Instruction::default() };
        let back = Instruction { is_branch: true, ea_valid: true, ea: 0x100, ..plain(2) };
        [plain(0), plain(1), back].map(Record::Instruction)
    };
    let records: Vec<Record> = [0, 0, 0, 1, 1, 1, 0, 0].into_iter().flat_map(lap).collect();
    // Known are the second and third lap, the fifth and sixth, but not the last, which nothing follows.
    assert_eq!(assert_same(&records, 0, usize::MAX), (3 * 4, 2));
}

#[test]
fn predecessors_of_changed_code_lead_to_the_new_block() {
    let jump = |pc, iword, ea| {
        let (is_branch, ea_valid) = (true, true);
        Record::Instruction(Instruction { pc, iword, is_branch, ea_valid, ea, ..Instruction::default() })
    };
    // The one at 0x200 changes once.
    let lap = |change: u32| [jump(0x100, 1, 0x200), jump(0x200, 2 + change, 0x100)];
    let records: Vec<Record> = [0, 0, 0, 1, 1, 1, 1].into_iter().flat_map(lap).collect();
    // All but the first two, the changed one when it is new, and the last, which nothing follows.
    assert_eq!(assert_same(&records, 0, usize::MAX), (14 - 4, 3));
}
