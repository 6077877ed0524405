//! Chains: an Instruction, the Extra EAs after it, and all its accesses together.

use super::super::access::{Access, Extent};
use super::super::record::{ExtraEa, ExtraEaView, InstructionView, xattr_mode};
use super::flow::check_address;
use super::memory;
use super::report::Report;
use super::rules::RuleId;
use super::subject::{Origin, Sum};

/// The accesses of the last instruction.
#[derive(Debug, Clone, Default)]
pub(super) struct Chain {
    expects: Expects,
    /// The record that announces the next one.
    announced_by: u64,
    pub(super) sum: Sum,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Expects {
    /// No Extra EA.
    #[default]
    Nothing,
    More,
    /// None: the chain is broken, which was reported.
    Excused,
}

impl Chain {
    pub(super) fn is_open(&self) -> bool {
        self.expects == Expects::More
    }

    /// Starts an ordinary instruction, whose accesses are right and of no further interest.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.expects = Expects::Nothing;
        self.sum.last = None;
        self.sum.is_wrong = false;
    }

    /// Starts an instruction whose accesses are not checked.
    pub(super) fn start_unchecked(&mut self, record: InstructionView<'_>, out: &Report<'_>) {
        self.clear();
        self.sum.is_wrong = true;
        self.announce(record.extra_eas(), out);
    }

    /// Starts an instruction.
    pub(super) fn start(&mut self, record: InstructionView<'_>, origin: &Origin<'_>, out: &mut Report<'_>) {
        let instruction = record.get();
        self.sum = Sum::default();
        self.announce(instruction.extra_eas, out);
        if let Some(access) = instruction.access() {
            if instruction.xattr_mode == xattr_mode::RANGE {
                self.check_range_size(instruction.ea_size, out);
            }
            check_address("ea", access.address, out);
            self.push(access, origin, out);
        } else {
            self.sum.is_wrong = !memory::check_no_access(&instruction, origin.opcode, out);
        }
        if !instruction.extra_eas {
            self.close(origin, out);
        }
    }

    /// Adds an Extra EA of the last instruction, which is `origin`.
    pub(super) fn extra(&mut self, record: ExtraEaView<'_>, origin: &Origin<'_>, out: &mut Report<'_>) {
        if self.expects != Expects::More {
            if self.expects == Expects::Nothing {
                out.add(RuleId::ExtraEaChain, format_args!("no record before it announces it"));
            }
            self.expects = Expects::Excused;
            return;
        }
        let extra = record.get();
        self.announce(extra.extra_eas, out);
        self.push_extra(&extra, origin, out);
        if !extra.extra_eas {
            self.close(origin, out);
        }
    }

    /// Reports a missing Extra EA: another record follows, or the trace ends.
    #[inline]
    pub(super) fn settle(&mut self, out: &mut Report<'_>) {
        if self.is_open() {
            out.add_at(
                self.announced_by,
                RuleId::ExtraEaFollows,
                format_args!("it announces an Extra EA, which is missing"),
            );
            self.expects = Expects::Excused;
            self.sum.is_wrong = true;
        }
    }

    fn announce(&mut self, is_more: bool, out: &Report<'_>) {
        self.expects = if is_more { Expects::More } else { Expects::Nothing };
        self.announced_by = out.record;
    }

    fn push_extra(&mut self, extra: &ExtraEa, origin: &Origin<'_>, out: &mut Report<'_>) {
        if extra.mem1_addr_range {
            check_second_half(extra, out);
            self.check_range_size(extra.mem0_size, out);
        }
        let (first, second) = extra.accesses();
        check_address("mem0_addr", first.address, out);
        self.push(first, origin, out);
        if let Some(second) = second {
            check_address("mem1_addr", second.address, out);
            self.push(second, origin, out);
        }
    }

    fn push(&mut self, access: Access, origin: &Origin<'_>, out: &mut Report<'_>) {
        let sum = &mut self.sum;
        let is_first = sum.count == 0;
        if !sum.is_wrong {
            sum.is_wrong = !memory::check(&access, origin, is_first, out);
        }
        let is_fragment = !sum.is_fragmented && sum.last.is_some_and(|last| is_mergeable(&last, &access));
        if is_fragment && !origin.trap && origin.opcode.is_plain_access() {
            sum.is_fragmented = true;
            let address = access.address;
            out.add(RuleId::MergeAccesses, format_args!("the access at {address:#x} continues the previous one"));
        }
        sum.push(access);
    }

    fn check_range_size(&mut self, size: u8, out: &mut Report<'_>) {
        if size != 0 {
            out.add(RuleId::RangeSizeField, format_args!("the size field of a range is {size}"));
        }
    }

    /// Checks all accesses of the instruction together.
    fn close(&mut self, origin: &Origin<'_>, out: &mut Report<'_>) {
        if self.sum.count != 0 && !self.sum.is_wrong {
            self.sum.is_wrong = !memory::check_whole(&self.sum, origin, out);
        }
    }
}

/// Whether they are adjacent within the smallest page, and so in physical memory too.
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

fn check_second_half(extra: &ExtraEa, out: &mut Report<'_>) {
    let has_flag = extra.mem1_valid || extra.mem1_tagged || extra.mem1_is_read || extra.mem1_is_write;
    if has_flag || extra.mem1_size != 0 {
        out.add(RuleId::ExtraEaRange, format_args!("a range, and fields of a second access"));
    }
}
