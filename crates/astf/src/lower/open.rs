//! The last instruction while more may belong to it, and the branch outcome that the next address reveals.

use unspool_model::{Branch, Instruction, Isa};

use super::opcode_info::OpcodeInfo;
use super::registers::Next;

/// An instruction that may still raise an exception.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) position: u64,
    pub(super) time: Option<u64>,
    pub(super) address: u64,
    pub(super) opcode: u32,
    pub(super) info: OpcodeInfo,
    pub(super) branch: Option<Branch>,
    pub(super) za_index: Option<u8>,
}

impl Open {
    /// Sets the outcome of a branch, if execution continues at `next`.
    pub(super) fn resolve(&mut self, next: Option<u64>) {
        let mut instruction = Instruction {
            address: self.address,
            opcode: Some(self.opcode),
            branch: self.branch,
            ..Instruction::default()
        };
        resolve(&mut instruction, next);
        self.branch = instruction.branch;
    }

    /// Address where execution continues, if the instruction raises no exception.
    pub(super) fn next(&self) -> Next {
        let after = Next::At(self.address.wrapping_add(4));
        let taken = self.branch.map(|branch| branch.taken);
        let target = self.branch.and_then(|branch| branch.target).or(self.info.target(self.address));
        match self.info.flow {
            // What handles a call may be hidden.
            flow if flow.is_exception() => Next::Nowhere,
            flow if !flow.is_branch() => after,
            _ if taken == Some(false) => after,
            _ if self.info.conditional && taken.is_none() => Next::Nowhere,
            _ => target.map_or(Next::Nowhere, Next::At),
        }
    }
}

/// Sets the outcome of a branch, if execution continues at `next`.
pub(super) fn resolve(instruction: &mut Instruction, next: Option<u64>) {
    let (Isa::A64, Some(opcode), Some(next)) = (instruction.isa, instruction.opcode, next) else { return };
    let info = OpcodeInfo::new(opcode);
    let after = instruction.address.wrapping_add(4);
    let taken = Some(Branch { taken: true, target: Some(next) });
    instruction.branch = match instruction.branch {
        branch if info.flow.is_indirect() && branch.is_none_or(|branch| branch.target.is_none()) => taken,
        None if info.conditional => match info.target(instruction.address) {
            // Taken or not, execution continues there.
            Some(target) if target == after => return,
            _ if next == after => Some(Branch { taken: false, target: None }),
            Some(target) if target == next => taken,
            _ => return,
        },
        _ => return,
    };
}
