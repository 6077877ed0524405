//! A block of A64 code, and how far it was executed.

use unspool_isa::{ControlFlow, Decoded, access, decode};
use unspool_model::{Branch, Instruction, Isa};

use super::log::{Entry, Taken};
use super::state::{Change, change};
use crate::atomics::Atomics;

#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) instructions: Vec<Instruction>,
    pub(super) atomics: Atomics,
    /// Instructions that change the state.
    pub(super) changes: Vec<(u16, Change)>,
    /// The control flow of its last instruction.
    last: Decoded,
}

/// End of an execution of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// The number of instructions that were executed or attempted.
    pub(super) count: usize,
    /// The outcome of the last instruction of the block, if that is a branch.
    pub(super) branch: Option<Branch>,
    /// The last of them raised the exception that follows.
    pub(super) has_raised: bool,
}

impl Ended {
    const fn whole(count: usize, branch: Option<Branch>) -> Self {
        Self { count, branch, has_raised: false }
    }
}

impl Block {
    /// `None`: this is not A64 code.
    pub(super) fn new(address: u64, bytes: &[&[u8]]) -> Option<Self> {
        let mut block = Self::default();
        for (index, bytes) in (0_u16..).zip(bytes) {
            let opcode = match *bytes {
                &[a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
                // An exception came before it was fetched.
                [] => break,
                _ => return None,
            };
            let address = address.wrapping_add(u64::from(index) * 4);
            let (opcode, length) = (Some(opcode), 4);
            block.instructions.push(Instruction { address, opcode, length, isa: Isa::A64, ..Instruction::default() });
            block.changes.extend(opcode.and_then(change).map(|change| (index, change)));
        }
        block.atomics = Atomics::of(&block.instructions);
        block.last = block.instructions.last().map_or(Decoded::FALL_THROUGH, last);
        Some(block)
    }

    /// The block, executed at this distance from where it was translated.
    pub(super) fn moved(&self, by: u64) -> Placed<'_> {
        Placed { block: self, by }
    }

    /// The distance of an address from where the block was translated.
    pub(super) fn distance(&self, address: u64) -> u64 {
        self.instructions.first().map_or(0, |first| address.wrapping_sub(first.address))
    }

    /// The index of the instruction at the same offset in its page, wherever both are mapped.
    pub(super) fn position_in_page(&self, address: u64) -> Option<usize> {
        const PAGE: u64 = 1 << 12;
        let first = self.instructions.first()?.address;
        let index = usize::try_from((address % PAGE).checked_sub(first % PAGE)? / 4).ok()?;
        (self.instructions.get(index)?.address % PAGE == address % PAGE).then_some(index)
    }
}

/// A block at the address where it is executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'b> {
    block: &'b Block,
    by: u64,
}

impl Placed<'_> {
    /// The address of an instruction, or of the last one.
    pub(super) fn address(&self, index: usize) -> Option<u64> {
        let instructions = &self.block.instructions;
        Some(instructions.get(index).or(instructions.last())?.address.wrapping_add(self.by))
    }

    /// The address after the last instruction.
    pub(super) fn end(&self) -> Option<u64> {
        self.address(usize::MAX).map(|address| address.wrapping_add(4))
    }

    pub(super) fn instruction(&self, index: usize) -> Option<Instruction> {
        let instruction = self.block.instructions.get(index)?;
        Some(Instruction { address: instruction.address.wrapping_add(self.by), ..*instruction })
    }

    /// The index of the instruction at this address.
    fn position(&self, address: u64) -> Option<usize> {
        let index = usize::try_from(address.wrapping_sub(self.address(0)?) / 4).ok()?;
        (self.instruction(index)?.address == address).then_some(index)
    }

    /// Target of a direct branch at its end.
    fn target(&self) -> Option<u64> {
        self.block.last.target_address().map(|target| target.wrapping_add(self.by))
    }

    /// The end of the block, if this entry or none was logged after it, and execution continues at `next`; if it was left,
    /// instructions before `left` are complete. `None`: these contradict each other.
    pub(super) fn ended(&self, entry: Option<&Entry>, next: u64, left: Option<u16>) -> Option<Ended> {
        match entry {
            Some(Entry::Taken(taken)) if taken.is_between() => self.completed(taken.returns_to, left),
            Some(Entry::Taken(taken)) => self.raised(taken),
            Some(Entry::Return { target, .. }) if self.block.last.flow == ControlFlow::ExceptionReturn => {
                self.completed(*target, left)
            }
            Some(Entry::Served { .. }) => Some(Ended::whole(self.block.instructions.len(), None)),
            Some(Entry::Return { .. } | Entry::ReturnToAarch32 { .. } | Entry::Other(_)) => None,
            None => self.completed(next, left),
        }
    }

    /// The end of the block, if nothing follows; `is_complete`: the end of the CPU was recorded.
    pub(super) fn cut(&self, left: Option<u16>, is_complete: bool) -> Ended {
        let count = match left {
            Some(completed) => usize::from(completed).min(self.block.instructions.len()),
            None if is_complete => self.block.instructions.len(),
            None => 0,
        };
        let target = self.target().filter(|_| !self.block.last.conditional);
        let branch = target.map(|_| Branch { taken: true, target });
        Ended::whole(count, branch.filter(|_| count == self.block.instructions.len()))
    }

    /// An instruction of it raised an exception. Calls return after themselves.
    fn raised(&self, taken: &Taken) -> Option<Ended> {
        let is_call = |index: &usize| {
            let opcode = self.block.instructions.get(*index).and_then(|instruction| instruction.opcode);
            opcode.is_some_and(|opcode| decode(Isa::A64, 0, opcode).flow.is_system_call())
        };
        let after_call = self.position(taken.returns_to.wrapping_sub(4)).filter(is_call);
        let index = self.position(taken.returns_to).or(after_call)?;
        Some(Ended { count: index + 1, branch: None, has_raised: true })
    }

    /// Execution continues there, and no instruction of the block raised an exception.
    fn completed(&self, next: u64, left: Option<u16>) -> Option<Ended> {
        let (Some(last), Some(end)) = (self.block.instructions.last(), self.end()) else {
            return Some(Ended::whole(0, None));
        };
        let part = |completed: usize| self.position(next).filter(|index| *index >= completed);
        if let Some(completed) = left {
            // The emulator left it to continue in another block: after an access to a device, or before one that it
            // repeats alone.
            return part(completed.into()).map(|index| Ended::whole(index, None));
        }
        let whole = self.block.instructions.len();
        let taken = Some(Branch { taken: true, target: Some(next) });
        let not_taken = Some(Branch { taken: false, target: None });
        match self.block.last.flow {
            ControlFlow::Direct if self.block.last.conditional && next == end => Some(Ended::whole(whole, not_taken)),
            ControlFlow::Direct => (Some(next) == self.target()).then_some(Ended::whole(whole, taken)),
            ControlFlow::Indirect | ControlFlow::ExceptionReturn => Some(Ended::whole(whole, taken)),
            _ if next == end => Some(Ended::whole(whole, None)),
            _ => {
                let may_access = last.opcode.is_some_and(|opcode| access(Isa::A64, opcode).is_memory_access());
                part(whole - 1).filter(|_| may_access).map(|index| Ended::whole(index, None))
            }
        }
    }
}

fn last(instruction: &Instruction) -> Decoded {
    instruction.opcode.map_or(Decoded::FALL_THROUGH, |opcode| decode(Isa::A64, instruction.address, opcode))
}

#[cfg(test)]
mod tests {
    use unspool_model::ExceptionKind;

    use super::*;

    const NOP: u32 = 0xd503_201f;
    const LDR: u32 = 0xf940_0001;
    const SVC: u32 = 0xd400_0021;
    const ERET: u32 = 0xd69f_03e0;
    /// B.NE .-4
    const BACK: u32 = 0x54ff_ffe1;
    const RET: u32 = 0xd65f_03c0;

    fn taken(kind: ExceptionKind, class: u32, returns_to: u64) -> Entry {
        let syndrome = (kind == ExceptionKind::Synchronous).then_some(class << 26);
        let (from, to, target) = (1, 1, 0x200);
        Entry::Taken(Taken { kind, is_virtual: false, from, to, syndrome, fault: None, returns_to, target })
    }

    #[test]
    fn blocks_end_as_log_and_next_block_show() {
        use ExceptionKind::{Irq, Synchronous};
        let taken_to = |target| Some(Branch { taken: true, target: Some(target) });
        let not_taken = Some(Branch { taken: false, target: None });
        let whole = |count, branch| Some(Ended::whole(count, branch));
        let raised = |count| Some(Ended { count, branch: None, has_raised: true });
        let back = |target| Some(Entry::Return { from: 1, to: 0, target });
        let served = Some(Entry::Served { from: 1, by: "", class: None });
        type Row<'a> = (&'a str, &'a [u32], Option<Entry>, u64, Option<u16>, Option<Ended>);
        let rows: &[Row<'_>] = &[
            ("straight on", &[NOP, NOP], None, 0x1008, None, whole(2, None)),
            ("elsewhere", &[NOP, NOP], None, 0x2000, None, None),
            ("taken", &[NOP, BACK], None, 0x1000, None, whole(2, taken_to(0x1000))),
            ("not taken", &[NOP, BACK], None, 0x1008, None, whole(2, not_taken)),
            ("neither", &[NOP, BACK], None, 0x1010, None, None),
            ("returned", &[RET], None, 0x4444, None, whole(1, taken_to(0x4444))),
            ("a call", &[NOP, SVC], Some(taken(Synchronous, 0x15, 0x1008)), 0x200, None, raised(2)),
            ("a call that was trapped", &[NOP, SVC], Some(taken(Synchronous, 0x15, 0x1004)), 0x200, None, raised(2)),
            ("an abort", &[NOP, LDR, NOP], Some(taken(Synchronous, 0x25, 0x1004)), 0x200, Some(0), raised(2)),
            ("an abort of another block", &[NOP, LDR], Some(taken(Synchronous, 0x25, 0x3000)), 0x200, None, None),
            (
                "a fetch that failed",
                &[NOP, RET],
                Some(taken(Synchronous, 0x21, 0x1000)),
                0x200,
                None,
                whole(2, taken_to(0x1000)),
            ),
            ("interrupted", &[NOP, BACK], Some(taken(Irq, 0, 0x1008)), 0x280, None, whole(2, not_taken)),
            ("interrupted elsewhere", &[NOP, BACK], Some(taken(Irq, 0, 0x2000)), 0x280, None, None),
            ("interrupted after a device", &[LDR, NOP], Some(taken(Irq, 0, 0x1004)), 0x280, Some(0), whole(1, None)),
            ("continues after a device", &[LDR, NOP, NOP], None, 0x1004, Some(0), whole(1, None)),
            ("starts again alone", &[NOP, LDR, NOP], None, 0x1004, Some(0), whole(1, None)),
            ("the last one starts again", &[NOP, LDR], None, 0x1004, None, whole(1, None)),
            ("goes back to what is complete", &[LDR, LDR, NOP], None, 0x1000, Some(1), None),
            ("an exception return", &[ERET], back(0x5000), 0x5000, None, whole(1, taken_to(0x5000))),
            ("a return of another block", &[NOP], back(0x5000), 0x5000, None, None),
            ("an illegal return", &[ERET], None, 0x5000, None, whole(1, taken_to(0x5000))),
            ("served", &[NOP, SVC], served, 0x1008, None, whole(2, None)),
            ("not understood", &[NOP], Some(Entry::Other(String::new())), 0x1004, None, None),
        ];
        for (name, code, entry, next, left, expected) in rows {
            let bytes: Vec<[u8; 4]> = code.iter().map(|word| word.to_le_bytes()).collect();
            let bytes: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..]).collect();
            let block = Block::new(0x1000, &bytes).unwrap_or_default();
            assert_eq!(block.moved(0).ended(entry.as_ref(), *next, *left), *expected, "{name}");
        }
    }

    #[test]
    fn code_may_be_executed_elsewhere() {
        let bytes = [NOP, BACK].map(u32::to_le_bytes);
        let block = Block::new(0x1000, &[&bytes[0], &bytes[1]]).unwrap_or_default();
        let there = block.moved(block.distance(0xffff_0000_0000_3000));
        let taken = Some(Branch { taken: true, target: Some(0xffff_0000_0000_3000) });
        assert_eq!(there.ended(None, 0xffff_0000_0000_3000, None), Some(Ended::whole(2, taken)));
        assert_eq!(there.ended(None, 0x1000, None), None);
        assert_eq!(there.end(), Some(0xffff_0000_0000_3008));
        assert_eq!(there.instruction(1).map(|found| found.address), Some(0xffff_0000_0000_3004));
        assert_eq!(block.position_in_page(0x7_7004), Some(1));
        assert_eq!(block.position_in_page(0x7_7008), None);
    }

    #[test]
    fn block_ends_at_an_instruction_that_was_not_fetched() {
        let nop = NOP.to_le_bytes();
        let count = |bytes: &[&[u8]]| Block::new(0, bytes).map(|block| block.instructions.len());
        assert_eq!(count(&[&nop, &nop]), Some(2));
        assert_eq!(count(&[&[]]), Some(0));
        assert_eq!(count(&[&nop[..2]]), None);
    }
}
