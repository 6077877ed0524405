//! Subjects of the access rules: the instruction, one of its accesses, and all of them together.

use super::super::access::{Access, Extent};
use super::super::record::{Context, InstructionView};
use super::opcode::Opcode;
use super::rules::RuleId;

/// The rule that is broken, and how.
pub(super) type Verdict = Result<(), (RuleId, &'static str)>;

/// `Ok` if it `is_right`.
pub(super) fn ensure(is_right: bool, rule: RuleId, otherwise: &'static str) -> Verdict {
    if is_right { Ok(()) } else { Err((rule, otherwise)) }
}

/// The instruction that accesses belong to.
pub(super) struct Origin<'a> {
    /// Number of its record.
    pub(super) record: u64,
    pub(super) word: u32,
    pub(super) opcode: &'a Opcode,
    /// It trapped.
    pub(super) trap: bool,
    /// State that it is executed in, if it is known.
    pub(super) context: Option<&'a Context>,
}

impl<'a> Origin<'a> {
    pub(super) fn new(
        view: InstructionView<'_>,
        record: u64,
        opcode: &'a Opcode,
        context: Option<&'a Context>,
    ) -> Self {
        Self { record, word: view.iword(), opcode, trap: view.trap(), context }
    }
}

/// One access of an instruction.
pub(super) struct One<'a> {
    pub(super) access: &'a Access,
    pub(super) word: u32,
    pub(super) opcode: &'a Opcode,
    /// The instruction trapped.
    pub(super) trap: bool,
    /// It is the first access.
    pub(super) first: bool,
}

/// All accesses of an instruction.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sum {
    /// Number of accesses.
    pub(super) count: u32,
    /// Their bytes, without those of ranges.
    pub(super) bytes: u64,
    pub(super) has_read: bool,
    pub(super) has_write: bool,
    /// A range was read after one was written.
    pub(super) has_read_after_write: bool,
    /// One of them neither read nor wrote.
    pub(super) has_untouched: bool,
    pub(super) last: Option<Access>,
    /// A finding about them was reported, or they are not checked.
    pub(super) is_wrong: bool,
    /// That some should be merged was reported.
    pub(super) is_fragmented: bool,
}

impl Sum {
    pub(super) fn push(&mut self, access: Access) {
        self.count = self.count.saturating_add(1);
        match access.extent {
            Extent::Bytes(bytes) => self.bytes = self.bytes.saturating_add(u64::from(bytes)),
            Extent::Range(_) => self.has_read_after_write |= access.read && self.has_write,
        }
        self.has_untouched |= !access.read && !access.write;
        self.has_read |= access.read;
        self.has_write |= access.write;
        self.last = Some(access);
    }
}
