//! Chains: an Instruction, the Extra EAs behind it, and what all its accesses are together.

use unspool_isa::Operation;

use super::super::access::{Access, Extent};
use super::super::record::{Context, ExtraEa, ExtraEaView, InstructionView, xattr_mode};
use super::flow::check_address;
use super::memory;
use super::opcode::Opcode;
use super::{Out, RuleId};

/// The accesses of the last instruction.
#[derive(Debug, Clone, Default)]
pub(super) struct Chain {
    expects: Expects,
    /// The record that announces the next one.
    announced_by: u64,
    sum: Sum,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Expects {
    /// No Extra EA.
    #[default]
    Nothing,
    /// One.
    More,
    /// None, but the chain is broken, and that was said.
    Excused,
}

/// The instruction that accesses belong to.
pub(super) struct Origin<'a> {
    /// The number of its record.
    pub(super) record: u64,
    pub(super) word: u32,
    pub(super) opcode: &'a Opcode,
    /// It trapped.
    pub(super) trap: bool,
    /// The state that it is executed in, if that is known.
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

/// All accesses of an instruction.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sum {
    /// How many there are.
    pub(super) count: u32,
    /// Their bytes, without those of ranges.
    pub(super) bytes: u64,
    /// One of them read.
    pub(super) has_read: bool,
    /// One of them wrote.
    pub(super) has_write: bool,
    /// A range was read behind one that was written.
    pub(super) has_read_behind_write: bool,
    /// One of them neither read nor wrote.
    has_untouched: bool,
    /// The last.
    last: Option<Access>,
    /// Something was found in them, and there is nothing more to say.
    is_wrong: bool,
    /// It was said that some should be one.
    is_fragmented: bool,
}

impl Chain {
    pub(super) fn is_open(&self) -> bool {
        self.expects == Expects::More
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.sum.is_wrong
    }

    pub(super) fn last_access(&self) -> Option<&Access> {
        self.sum.last.as_ref()
    }

    /// One of the accesses neither read nor wrote.
    pub(super) fn has_untouched(&self) -> bool {
        self.sum.has_untouched
    }

    /// An instruction whose accesses are right, and of no further interest.
    #[inline]
    pub(super) fn none(&mut self) {
        self.expects = Expects::Nothing;
        self.sum.last = None;
        self.sum.is_wrong = false;
    }

    /// An instruction whose accesses are not to be looked at.
    pub(super) fn start_unchecked(&mut self, record: InstructionView<'_>, out: &Out<'_>) {
        self.none();
        self.sum.is_wrong = true;
        self.announce(record.extra_eas(), out);
    }

    /// An instruction.
    pub(super) fn start(&mut self, record: InstructionView<'_>, origin: &Origin<'_>, out: &mut Out<'_>) {
        let instruction = record.get();
        self.sum = Sum::default();
        self.announce(instruction.extra_eas, out);
        if let Some(access) = instruction.access() {
            if instruction.xattr_mode == xattr_mode::RANGE {
                self.check_range_size(instruction.ea_size, out);
            }
            check_address("ea", access.address, out);
            self.take(access, origin, out);
        } else {
            self.sum.is_wrong = !memory::check_no_access(&instruction, origin.opcode, out);
        }
        if !instruction.extra_eas {
            self.close(origin, out);
        }
    }

    /// An Extra EA behind the last instruction, which is `origin`.
    pub(super) fn extra(&mut self, record: ExtraEaView<'_>, origin: &Origin<'_>, out: &mut Out<'_>) {
        if self.expects != Expects::More {
            if self.expects == Expects::Nothing {
                out.add(RuleId::ExtraEaChain, format_args!("no record before it announces it"));
            }
            self.expects = Expects::Excused;
            return;
        }
        let extra = record.get();
        self.announce(extra.extra_eas, out);
        self.take_extra(&extra, origin, out);
        if !extra.extra_eas {
            self.close(origin, out);
        }
    }

    /// A record comes that is no Extra EA, or the trace ends.
    #[inline]
    pub(super) fn settle(&mut self, out: &mut Out<'_>) {
        if self.is_open() {
            out.add_at(
                self.announced_by,
                RuleId::ExtraEaFollows,
                format_args!("it announces an Extra EA, which does not come"),
            );
            self.expects = Expects::Excused;
            self.sum.is_wrong = true;
        }
    }

    fn announce(&mut self, is_more: bool, out: &Out<'_>) {
        self.expects = if is_more { Expects::More } else { Expects::Nothing };
        self.announced_by = out.record;
    }

    fn take_extra(&mut self, extra: &ExtraEa, origin: &Origin<'_>, out: &mut Out<'_>) {
        if extra.mem1_addr_range {
            check_second_half(extra, out);
            self.check_range_size(extra.mem0_size, out);
        }
        let (first, second) = extra.accesses();
        check_address("mem0_addr", first.address, out);
        self.take(first, origin, out);
        if let Some(second) = second {
            check_address("mem1_addr", second.address, out);
            self.take(second, origin, out);
        }
    }

    fn take(&mut self, access: Access, origin: &Origin<'_>, out: &mut Out<'_>) {
        let sum = &mut self.sum;
        let is_first = sum.count == 0;
        if !sum.is_wrong {
            sum.is_wrong = !memory::check(&access, origin, is_first, out);
        }
        if !is_first && !origin.trap && is_plain(origin.opcode) {
            sum.check_fragments(&access, out);
        }
        sum.add(access);
    }

    fn check_range_size(&mut self, size: u8, out: &mut Out<'_>) {
        if size != 0 {
            out.add(RuleId::RangeSizeField, format_args!("the size field of a range is {size}"));
        }
    }

    /// All accesses of the instruction are there.
    fn close(&mut self, origin: &Origin<'_>, out: &mut Out<'_>) {
        if self.sum.count != 0 && !self.sum.is_wrong {
            self.sum.is_wrong = !memory::check_whole(&self.sum, origin, out);
        }
    }
}

impl Sum {
    fn add(&mut self, access: Access) {
        self.count = self.count.saturating_add(1);
        match access.extent {
            Extent::Bytes(bytes) => self.bytes = self.bytes.saturating_add(u64::from(bytes)),
            Extent::Range(_) => self.has_read_behind_write |= access.read && self.has_write,
        }
        self.has_untouched |= !access.read && !access.write;
        self.has_read |= access.read;
        self.has_write |= access.write;
        self.last = Some(access);
    }

    fn check_fragments(&mut self, access: &Access, out: &mut Out<'_>) {
        if !self.is_fragmented && self.last.is_some_and(|last| is_mergeable(&last, access)) {
            self.is_fragmented = true;
            let address = access.address;
            out.add(
                RuleId::MergeAccesses,
                format_args!("the access at {address:#x} goes on where the one before ends"),
            );
        }
    }
}

/// Loads and stores that are not of vectors of unknown length; those access memory element by element.
fn is_plain(opcode: &Opcode) -> bool {
    matches!(opcode.access.operation, Operation::Load | Operation::Store) && !opcode.access.vector
}

/// They are side by side in the smallest page there is, so they are so in physical memory.
fn is_mergeable(first: &Access, second: &Access) -> bool {
    const PAGE: u64 = 1 << 12;
    let (Extent::Bytes(_), Extent::Bytes(_)) = (first.extent, second.extent) else { return false };
    let flags = |access: &Access| (access.read, access.write, access.tagged);
    let total = first.extent.bytes() + second.extent.bytes();
    let end = first.address.wrapping_add(total - 1);
    first.address.wrapping_add(first.extent.bytes()) == second.address
        && flags(first) == flags(second)
        && total <= 256
        && first.address / PAGE == end / PAGE
}

fn check_second_half(extra: &ExtraEa, out: &mut Out<'_>) {
    let has_flag = extra.mem1_valid || extra.mem1_tagged || extra.mem1_is_read || extra.mem1_is_write;
    if has_flag || extra.mem1_size != 0 {
        out.add(RuleId::ExtraEaRange, format_args!("a range, and fields of a second access"));
    }
}
