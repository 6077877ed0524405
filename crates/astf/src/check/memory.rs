//! Accesses: whether they are those that the instruction makes.
//!
//! An instruction that trapped made only some of its accesses, so less is checked.

use unspool_isa::Operation;

use super::super::access::{Access, Extent};
use super::super::record::{Instruction, InstructionView, xattr_mode};
use super::opcode::Opcode;
use super::range;
use super::report::Report;
use super::rules::RuleId;
use super::subject::{One, Origin, Sum, Verdict, ensure};

/// Checks the extended attribute.
#[inline]
pub(super) fn attribute(record: InstructionView<'_>, opcode: &Opcode, out: &mut Report<'_>) {
    let is_empty = record.xattr_mode() == xattr_mode::NONE && record.xattr() == 0;
    if is_empty && !opcode.access.sme_index {
        return;
    }
    if let Err((rule, what)) = judge_attribute(record, opcode) {
        out.add(rule, format_args!("{:#010x} {what}: {:#x}", record.iword(), record.xattr()));
    }
}

fn judge_attribute(record: InstructionView<'_>, opcode: &Opcode) -> Verdict {
    let mode = record.xattr_mode();
    let may_index = opcode.access.sme_index || !opcode.is_known();
    match mode {
        xattr_mode::SME => ensure(may_index, RuleId::SmeIndex, "computes no index, but has one"),
        _ if opcode.access.sme_index && !record.trap() => Err((RuleId::SmeIndex, "computes an index, but has none")),
        xattr_mode::RANGE => Ok(()),
        _ => ensure(record.xattr() == 0, RuleId::XattrUnusedZero, "has no use for its extended attribute"),
    }
}

/// Checks that an instruction may be without an access.
pub(super) fn check_no_access(instruction: &Instruction, opcode: &Opcode, out: &mut Report<'_>) -> bool {
    let verdict = judge_no_access(instruction, opcode);
    if let Err((rule, what)) = verdict {
        out.add(rule, format_args!("{:#010x} {what}", instruction.iword));
    }
    verdict.is_ok()
}

fn judge_no_access(instruction: &Instruction, opcode: &Opcode) -> Verdict {
    let flags = [instruction.is_read, instruction.is_write, instruction.ea_tagged, instruction.extra_eas];
    let is_zero = !flags.contains(&true) && instruction.ea == 0 && instruction.ea_size == 0;
    let is_excused = is_zero || !opcode.is_known();
    ensure(is_excused, RuleId::NoAccessFieldsZero, "has no valid address, but fields of an access")?;
    if instruction.xattr_mode == xattr_mode::RANGE {
        ensure(range::may_have(opcode, instruction.iword), RuleId::RangeInstruction, "has a range")?;
    }
    if instruction.trap || opcode.access.predicated { Ok(()) } else { need_not_access(instruction.iword, opcode) }
}

/// Whether it may be without an access where neither an exception nor a predicate keeps it from memory.
///
/// Allocation tags may be out of reach, and an exclusive store may fail before it gets to memory.
fn need_not_access(word: u32, opcode: &Opcode) -> Verdict {
    const NO_ADDRESS: &str = "accesses memory, but has no address";
    match opcode.access.operation {
        Operation::Store if opcode.access.may_not_write => Ok(()),
        Operation::Load | Operation::Store | Operation::LoadStore | Operation::TagAndDataStore => {
            Err((RuleId::MemoryEaValid, NO_ADDRESS))
        }
        Operation::Prefetch if !Opcode::is_range_prefetch(word) => Err((RuleId::Prefetch, "has no address")),
        Operation::CacheMaintenance | Operation::AddressTranslation => {
            Err((RuleId::CacheTlbAtOperation, "has no address"))
        }
        Operation::TlbInvalidate | Operation::TlbInvalidateRange if Opcode::is_stage_2_invalidate(word) => Ok(()),
        Operation::TlbInvalidate => Err((RuleId::CacheTlbAtOperation, "has no address")),
        Operation::TlbInvalidateRange => Err((RuleId::TlbRange, "has no range")),
        Operation::Zero | Operation::TagAndDataZero => Err((RuleId::ZeroOperation, NO_ADDRESS)),
        Operation::Set { .. } | Operation::Copy { .. } => Err((RuleId::MopsRange, "has no range")),
        _ => Ok(()),
    }
}

/// Checks one access of an instruction.
pub(super) fn check(access: &Access, origin: &Origin<'_>, first: bool, out: &mut Report<'_>) -> bool {
    let &Origin { word, opcode, trap, .. } = origin;
    let verdict = One { access, word, opcode, trap, first }.judge();
    if let Err((rule, what)) = verdict {
        let (address, bytes) = (access.address, access.extent.bytes());
        out.add(rule, format_args!("{word:#010x} {what}: {bytes} bytes at {address:#x}"));
    }
    verdict.is_ok()
}

impl One<'_> {
    #[inline]
    fn judge(&self) -> Verdict {
        ensure(!self.opcode.is_memoryless, RuleId::MemoryEaValid, "accesses no memory, but has an address")?;
        if let Extent::Range(size) = self.access.extent {
            return range::judge(self, size);
        }
        match self.opcode.access.operation {
            Operation::Load => self.load(),
            Operation::Store | Operation::TagAndDataStore => self.store(),
            Operation::LoadStore => self.modify(),
            Operation::TagLoad | Operation::TagStore | Operation::TagZero => self.tags(),
            Operation::Zero | Operation::TagAndDataZero => self.zero(),
            Operation::Prefetch => self.prefetch(),
            Operation::VectorPrefetch => self.has_no_direction(RuleId::Prefetch),
            Operation::Set { .. } | Operation::Copy { .. } => {
                ensure(self.trap, RuleId::MopsRange, "has an access that is not a range")
            }
            Operation::TlbInvalidateRange => ensure(self.trap, RuleId::TlbRange, "has an access that is not a range"),
            _ => self.operation(),
        }
    }

    fn load(&self) -> Verdict {
        let Access { read, write, .. } = *self.access;
        ensure(!write, RuleId::MemoryDirection, "is a load, but wrote")?;
        if !read && !self.trap && self.opcode.access.suppresses_faults {
            let element = self.opcode.access.element.map(u64::from);
            let is_element = element.is_none_or(|element| element == self.access.extent.bytes());
            return ensure(is_element, RuleId::SveFirstFault, "left out an access that is not an element");
        }
        ensure(read || self.trap, RuleId::MemoryDirection, "is a load, but did not read")
    }

    fn store(&self) -> Verdict {
        let Access { read, write, tagged, .. } = *self.access;
        let is_excused = self.trap || self.opcode.access.may_not_write;
        ensure(!read, RuleId::MemoryDirection, "is a store, but read")?;
        ensure(write || is_excused, RuleId::MemoryDirection, "is a store, but did not write")?;
        let is_tag_store = self.opcode.access.operation == Operation::TagAndDataStore;
        if is_tag_store && tagged { self.starts_at_granule() } else { Ok(()) }
    }

    /// The first access has both flags; a later one may be the second half of either.
    fn modify(&self) -> Verdict {
        let Access { read, write, .. } = *self.access;
        if self.trap {
            return Ok(());
        }
        let must_write = self.first && !self.opcode.access.may_not_write;
        ensure(read || (write && !self.first), RuleId::MemoryDirection, "modifies memory, but did not read")?;
        ensure(write || !must_write, RuleId::MemoryDirection, "modifies memory, but did not write")
    }

    /// Without access to tags there is no access at all.
    fn tags(&self) -> Verdict {
        let Access { read, write, tagged, .. } = *self.access;
        let is_load = self.opcode.access.operation == Operation::TagLoad;
        let (wanted, other) = if is_load { (read, write) } else { (write, read) };
        ensure(!other, RuleId::TagOperation, "has the wrong direction")?;
        ensure(wanted || self.trap, RuleId::TagOperation, "has no direction")?;
        ensure(tagged || self.trap, RuleId::TagOperation, "accesses tags, but is not tagged")?;
        if self.trap || self.opcode.access.operation == Operation::TagZero { Ok(()) } else { self.starts_at_granule() }
    }

    fn starts_at_granule(&self) -> Verdict {
        const GRANULE: u64 = 16;
        let is_aligned = self.trap || !self.first || self.access.address.is_multiple_of(GRANULE);
        ensure(is_aligned, RuleId::TagOperation, "accesses tags, but does not start at a granule")
    }

    fn zero(&self) -> Verdict {
        ensure(!self.access.read, RuleId::ZeroOperation, "read")?;
        ensure(self.access.write || self.trap, RuleId::ZeroOperation, "did not write")
    }

    fn has_no_direction(&self, rule: RuleId) -> Verdict {
        ensure(!self.access.read && !self.access.write, rule, "neither reads nor writes, but has a direction")
    }

    fn has_no_size(&self, rule: RuleId) -> Verdict {
        ensure(self.access.extent == Extent::Bytes(1), rule, "has no size, but its field is not zero")
    }

    fn prefetch(&self) -> Verdict {
        self.has_no_direction(RuleId::Prefetch)?;
        ensure(!self.access.tagged, RuleId::Prefetch, "checks no tags, but is tagged")?;
        if Opcode::is_range_prefetch(self.word) { Ok(()) } else { self.has_no_size(RuleId::Prefetch) }
    }

    /// Maintenance and translation.
    fn operation(&self) -> Verdict {
        use Operation::{AddressTranslation, CacheMaintenance, CacheMaintenanceAll, TlbInvalidate, TlbInvalidateAll};
        let rule = RuleId::CacheTlbAtOperation;
        match self.opcode.access.operation {
            CacheMaintenanceAll | TlbInvalidateAll => self.has_no_direction(rule),
            CacheMaintenance => self.has_no_direction(rule).and_then(|()| self.has_no_size(rule)),
            TlbInvalidate | AddressTranslation => {
                self.has_no_direction(rule)?;
                ensure(!self.access.tagged, rule, "checks no tags, but is tagged")?;
                self.has_no_size(rule)
            }
            _ => Ok(()),
        }
    }
}

/// Checks all accesses of an instruction together.
pub(super) fn check_whole(sum: &Sum, origin: &Origin<'_>, out: &mut Report<'_>) -> bool {
    let verdict = if origin.trap { judge_trapped(sum, origin.opcode) } else { judge_whole(sum, origin) };
    if let Err((rule, what)) = verdict {
        let (word, count, bytes) = (origin.word, sum.count, sum.bytes);
        out.add_at(origin.record, rule, format_args!("{word:#010x} {what}: {bytes} bytes in {count} accesses"));
    }
    verdict.is_ok()
}

/// The only access of an instruction that trapped is the one that faulted. Vectors and ranges may get further.
fn judge_trapped(sum: &Sum, opcode: &Opcode) -> Verdict {
    let is_range = matches!(opcode.access.operation, Operation::Set { .. } | Operation::Copy { .. });
    let is_single = sum.count == 1 && opcode.access.is_memory_access() && !opcode.access.vector && !is_range;
    ensure(!is_single || !(sum.has_read || sum.has_write), RuleId::TrapNoAccess, "trapped, but has a direction")?;
    range::judge_order(sum)
}

fn judge_whole(sum: &Sum, origin: &Origin<'_>) -> Verdict {
    let opcode = origin.opcode;
    match opcode.access.operation {
        Operation::Zero | Operation::TagZero | Operation::TagAndDataZero => {
            let is_block = sum.bytes.is_power_of_two() && (4..=2048).contains(&sum.bytes);
            ensure(is_block, RuleId::ZeroOperation, "does not write a block")
        }
        Operation::Copy { .. } => range::judge_copy(sum),
        operation if operation.is_memory_access() && !opcode.access.predicated => judge_size(sum, origin),
        _ => Ok(()),
    }
}

/// An instruction that reads and writes may have an access for each.
fn judge_size(sum: &Sum, origin: &Origin<'_>) -> Verdict {
    let opcode = origin.opcode;
    let Some(bytes) = opcode.access.bytes.map(u64::from) else { return judge_vector_size(sum, origin) };
    let is_twice = sum.count > 1 && opcode.access.operation == Operation::LoadStore && sum.bytes == 2 * bytes;
    ensure(sum.bytes == bytes || is_twice, RuleId::MemorySize, "accesses a wrong number of bytes")
}

/// LDR and STR of a vector or a predicate. The vector length of ZA is known in Streaming SVE mode only.
fn judge_vector_size(sum: &Sum, origin: &Origin<'_>) -> Verdict {
    const IS_VECTOR: u32 = 1 << 14;
    let access = &origin.opcode.access;
    let Some(context) = origin.context.filter(|context| context.pstate_sm || !access.sme_index) else { return Ok(()) };
    let bits = if access.sme_index || origin.word & IS_VECTOR != 0 { 8 } else { 64 };
    let is_right = !access.vector || sum.bytes == u64::from(context.vector_bits() / bits);
    ensure(is_right, RuleId::VectorSize, "accesses a number of bytes that is not the vector length")
}
