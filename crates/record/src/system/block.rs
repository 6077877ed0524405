//! A block of A64 code, and how far it came.

use unspool_isa::{ControlFlow, Decoded, Operation, access, decode};
use unspool_model::{Branch, Instruction, Isa};

use super::super::told::is_a64_swap;
use super::log::{Entry, Taken};
use super::state::{Change, change};

/// A block of code.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) instructions: Vec<Instruction>,
    /// Those that store if they have memory for themselves. The emulator compares there first, and tells that as a read.
    pub(super) exclusive: Vec<u16>,
    /// Those of which the emulator may tell another value than what they write: one that compares first may not store,
    /// and of one that reads and writes as one, with several CPUs, the operand is told.
    pub(super) unsure: Vec<u16>,
    /// Those that change the state.
    pub(super) changes: Vec<(u16, Change)>,
    /// The control flow of its last instruction.
    last: Decoded,
}

/// How a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// So many instructions were executed, or tried.
    pub(super) count: usize,
    /// What became of the last one of the block, if that is a branch.
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
    /// `None`: this is no code of A64.
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
            block.exclusive.extend(opcode.filter(|opcode| is_exclusive_store(*opcode)).map(|_| index));
            block.unsure.extend(opcode.filter(|opcode| is_unsure(*opcode)).map(|_| index));
            block.changes.extend(opcode.and_then(change).map(|change| (index, change)));
        }
        block.last = block.instructions.last().map_or(Decoded::FALL_THROUGH, last);
        Some(block)
    }

    /// The block, executed where its first instruction is so far from where it was told to be.
    pub(super) fn moved(&self, by: u64) -> Placed<'_> {
        Placed { block: self, by }
    }

    /// How far it was moved to be executed there.
    pub(super) fn distance(&self, address: u64) -> u64 {
        self.instructions.first().map_or(0, |first| address.wrapping_sub(first.address))
    }

    /// Where the instruction is in it that has this place in its page, wherever both are mapped.
    pub(super) fn position_in_page(&self, address: u64) -> Option<usize> {
        const PAGE: u64 = 1 << 12;
        let first = self.instructions.first()?.address;
        let index = usize::try_from((address % PAGE).checked_sub(first % PAGE)? / 4).ok()?;
        (self.instructions.get(index)?.address % PAGE == address % PAGE).then_some(index)
    }
}

/// A block, where it is executed.
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

    /// The address behind it.
    pub(super) fn behind(&self) -> Option<u64> {
        self.address(usize::MAX).map(|address| address.wrapping_add(4))
    }

    /// An instruction.
    pub(super) fn instruction(&self, index: usize) -> Option<Instruction> {
        let instruction = self.block.instructions.get(index)?;
        Some(Instruction { address: instruction.address.wrapping_add(self.by), ..*instruction })
    }

    /// Does it end with an exception return?
    fn is_return(&self) -> bool {
        self.block.last.flow == ControlFlow::ExceptionReturn
    }

    /// Where the instruction with this address is in it.
    fn position(&self, address: u64) -> Option<usize> {
        let index = usize::try_from(address.wrapping_sub(self.address(0)?) / 4).ok()?;
        (self.instruction(index)?.address == address).then_some(index)
    }

    /// Where a direct branch at its end leads.
    fn target(&self) -> Option<u64> {
        self.block.last.target_address().map(|target| target.wrapping_add(self.by))
    }

    /// How it ended, if the log says this behind it, or nothing, and execution goes on at `next`; if it was left,
    /// instructions before `left` are complete. `None`: all that does not fit together.
    pub(super) fn ended(&self, entry: Option<&Entry>, next: u64, left: Option<u16>) -> Option<Ended> {
        match entry {
            Some(Entry::Taken(taken)) if taken.is_between() => self.completed(taken.returns_to, left),
            Some(Entry::Taken(taken)) => self.raised(taken),
            Some(Entry::Return { target, .. }) if self.is_return() => self.completed(*target, left),
            Some(Entry::Served { .. }) => Some(Ended::whole(self.block.instructions.len(), None)),
            Some(Entry::Return { .. } | Entry::ReturnToAarch32 { .. } | Entry::Other(_)) => None,
            None => self.completed(next, left),
        }
    }

    /// How it ended, if nobody says what follows; `is_complete`: that it was the last is told.
    pub(super) fn cut(&self, left: Option<u16>, is_complete: bool) -> Ended {
        let count = match left {
            Some(mark) => usize::from(mark).min(self.block.instructions.len()),
            None if is_complete => self.block.instructions.len(),
            None => 0,
        };
        let target = self.target().filter(|_| !self.block.last.conditional);
        let branch = target.map(|_| Branch { taken: true, target });
        Ended::whole(count, branch.filter(|_| count == self.block.instructions.len()))
    }

    /// An instruction of it raised an exception. Calls return behind themselves.
    fn raised(&self, taken: &Taken) -> Option<Ended> {
        let is_call = |index: &usize| {
            let opcode = self.block.instructions.get(*index).and_then(|instruction| instruction.opcode);
            opcode.is_some_and(|opcode| decode(Isa::A64, 0, opcode).flow.is_call())
        };
        let behind_call = self.position(taken.returns_to.wrapping_sub(4)).filter(is_call);
        let index = self.position(taken.returns_to).or(behind_call)?;
        Some(Ended { count: index + 1, branch: None, has_raised: true })
    }

    /// Execution goes on there, and no instruction of it raised an exception.
    fn completed(&self, next: u64, left: Option<u16>) -> Option<Ended> {
        let (Some(last), Some(behind)) = (self.block.instructions.last(), self.behind()) else {
            return Some(Ended::whole(0, None));
        };
        let part = |mark: usize| self.position(next).filter(|index| *index >= mark);
        if let Some(mark) = left {
            // The emulator left it to go on in another block: behind an access to a device, or before one that it wants
            // to repeat alone.
            return part(mark.into()).map(|index| Ended::whole(index, None));
        }
        let whole = self.block.instructions.len();
        let taken = Some(Branch { taken: true, target: Some(next) });
        let not_taken = Some(Branch { taken: false, target: None });
        match self.block.last.flow {
            ControlFlow::Direct if self.block.last.conditional && next == behind => {
                Some(Ended::whole(whole, not_taken))
            }
            ControlFlow::Direct => (Some(next) == self.target()).then_some(Ended::whole(whole, taken)),
            ControlFlow::Indirect | ControlFlow::ExceptionReturn => Some(Ended::whole(whole, taken)),
            _ if next == behind => Some(Ended::whole(whole, None)),
            _ => part(whole - 1).filter(|_| may_access(last)).map(|index| Ended::whole(index, None)),
        }
    }
}

fn may_access(instruction: &Instruction) -> bool {
    instruction.opcode.is_some_and(|opcode| access(Isa::A64, opcode).operation.is_memory_access())
}

/// STXR and its like. Where a pair would have 32 bits less, it is a CASP.
fn is_exclusive_store(opcode: u32) -> bool {
    opcode & 0x3fe0_0000 == 0x0800_0000 || opcode & 0xbfe0_0000 == 0x8820_0000
}

/// LDADD, CAS and their like, but SWP.
fn is_unsure(opcode: u32) -> bool {
    access(Isa::A64, opcode).operation == Operation::LoadStore && !is_a64_swap(opcode)
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
    fn blocks_end_where_log_and_next_block_say() {
        use ExceptionKind::{Irq, Synchronous};
        let goes = |target| Some(Branch { taken: true, target: Some(target) });
        let stays = Some(Branch { taken: false, target: None });
        let whole = |count, branch| Some(Ended::whole(count, branch));
        let raised = |count| Some(Ended { count, branch: None, has_raised: true });
        let back = |target| Some(Entry::Return { from: 1, to: 0, target });
        let served = Some(Entry::Served { from: 1, by: "", class: None });
        type Row<'a> = (&'a str, &'a [u32], Option<Entry>, u64, Option<u16>, Option<Ended>);
        let rows: &[Row<'_>] = &[
            ("straight on", &[NOP, NOP], None, 0x1008, None, whole(2, None)),
            ("elsewhere", &[NOP, NOP], None, 0x2000, None, None),
            ("taken", &[NOP, BACK], None, 0x1000, None, whole(2, goes(0x1000))),
            ("not taken", &[NOP, BACK], None, 0x1008, None, whole(2, stays)),
            ("neither", &[NOP, BACK], None, 0x1010, None, None),
            ("returned", &[RET], None, 0x4444, None, whole(1, goes(0x4444))),
            ("a call", &[NOP, SVC], Some(taken(Synchronous, 0x15, 0x1008)), 0x200, None, raised(2)),
            ("a call that was trapped", &[NOP, SVC], Some(taken(Synchronous, 0x15, 0x1004)), 0x200, None, raised(2)),
            ("an abort", &[NOP, LDR, NOP], Some(taken(Synchronous, 0x25, 0x1004)), 0x200, Some(0), raised(2)),
            ("an abort of nobody", &[NOP, LDR], Some(taken(Synchronous, 0x25, 0x3000)), 0x200, None, None),
            (
                "a fetch that failed",
                &[NOP, RET],
                Some(taken(Synchronous, 0x21, 0x1000)),
                0x200,
                None,
                whole(2, goes(0x1000)),
            ),
            ("interrupted", &[NOP, BACK], Some(taken(Irq, 0, 0x1008)), 0x280, None, whole(2, stays)),
            ("interrupted elsewhere", &[NOP, BACK], Some(taken(Irq, 0, 0x2000)), 0x280, None, None),
            ("interrupted behind a device", &[LDR, NOP], Some(taken(Irq, 0, 0x1004)), 0x280, Some(0), whole(1, None)),
            ("goes on behind a device", &[LDR, NOP, NOP], None, 0x1004, Some(0), whole(1, None)),
            ("starts again alone", &[NOP, LDR, NOP], None, 0x1004, Some(0), whole(1, None)),
            ("the last one starts again", &[NOP, LDR], None, 0x1004, None, whole(1, None)),
            ("goes back to what is complete", &[LDR, LDR, NOP], None, 0x1000, Some(1), None),
            ("an exception return", &[ERET], back(0x5000), 0x5000, None, whole(1, goes(0x5000))),
            ("a return of nobody", &[NOP], back(0x5000), 0x5000, None, None),
            ("an illegal return", &[ERET], None, 0x5000, None, whole(1, goes(0x5000))),
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
        assert_eq!(there.behind(), Some(0xffff_0000_0000_3008));
        assert_eq!(there.instruction(1).map(|found| found.address), Some(0xffff_0000_0000_3004));
        assert_eq!(block.position_in_page(0x7_7004), Some(1));
        assert_eq!(block.position_in_page(0x7_7008), None);
    }

    #[test]
    fn what_was_not_fetched_is_no_code() {
        let nop = NOP.to_le_bytes();
        let count = |bytes: &[&[u8]]| Block::new(0, bytes).map(|block| block.instructions.len());
        assert_eq!(count(&[&nop, &nop]), Some(2));
        assert_eq!(count(&[&[]]), Some(0));
        assert_eq!(count(&[&nop[..2]]), None);
    }
}
