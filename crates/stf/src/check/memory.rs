//! Accesses to memory: their presence, size and data, compared with the opcode.

use super::super::read::Position;
use super::Out;
use super::group::{Access, Group};
use super::opcode::Opcode;
use super::rules::RuleId;

/// Unit of the sizes of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Bits,
    /// The opcode does not determine the size.
    Unknown,
    /// The access contradicts the opcode.
    Wrong,
}

/// Properties of the accesses of the trace so far.
#[derive(Debug, Default)]
pub(super) struct Memory {
    has_access: bool,
    /// The first instruction without its access, and the number of them, while no instruction has one.
    missing: Option<(Position, u64, u64)>,
    /// The previous instruction, if it has no access and needs one.
    before: Option<(Position, u64)>,
    has_bits: bool,
    has_first_only: bool,
}

impl Memory {
    /// Continues after lost records.
    pub(super) fn resume(&mut self) {
        self.before = None;
    }

    pub(super) fn check(&mut self, group: &Group, known: &Opcode, out: &mut Out<'_>) {
        if !group.accesses.is_empty() && !self.has_access {
            self.has_access = true;
            self.settle(out);
        }
        let (mut read, mut written) = (Unit::Unknown, Unit::Unknown);
        if known.is_known && !group.is_excused() {
            self.check_presence(group, known, out);
            let does = known.memory;
            read = self.measure(&group.accesses, (1, does.reads || does.is_optional), known, out);
            written = self.measure(&group.accesses, (2, does.writes || does.is_optional), known, out);
        }
        for access in &group.accesses {
            let unit = if access.access.kind == 2 { written } else { read };
            self.check_content(access, unit, out);
        }
    }

    /// Does the previous instruction require a check of the next group?
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.before.is_some()
    }

    /// Handles the next instruction: the previous one was not the last. If another address is forced, the previous one
    /// was not completed, and is returned.
    pub(super) fn arrive(&mut self, is_redirected: bool, out: &mut Out<'_>) -> Option<(Position, u64)> {
        let before = self.before.take()?;
        if is_redirected {
            return Some(before);
        }
        let (position, instruction) = before;
        if self.has_access {
            let detail = format_args!("it reads or writes memory, but has no access");
            out.add_at(position, instruction, RuleId::AccessMissing, detail);
        } else {
            self.count(position, instruction);
        }
        None
    }

    /// Counts a missing access. While no instruction has one, the trace may have none on purpose.
    fn count(&mut self, position: Position, instruction: u64) {
        let (_, _, count) = self.missing.get_or_insert((position, instruction, 0));
        *count += 1;
    }

    /// Reports missing accesses before the first access of the trace.
    fn settle(&mut self, out: &mut Out<'_>) {
        if let Some((position, instruction, count)) = self.missing.take() {
            let detail = format_args!("{count} instructions from here on have no access, but later ones have");
            out.add_at(position, instruction, RuleId::AccessMissing, detail);
        }
    }

    fn check_presence(&mut self, group: &Group, known: &Opcode, out: &mut Out<'_>) {
        // For a conditional store, some models read.
        let does = known.memory;
        let (reads, writes) = (does.reads || does.is_conditional, does.writes);
        let first = |kind: u8| group.accesses.iter().find(|access| access.access.kind == kind);
        let may_have = reads || writes || does.is_optional;
        match group.accesses.first() {
            None if reads || writes => self.miss(known, out),
            None => {}
            Some(access) if !may_have => {
                let detail = format_args!("the instruction does not access memory");
                out.add_in(access.position, RuleId::AccessUnexpected, detail);
            }
            Some(_) if !reads && !writes => {}
            Some(_) => {
                for (kind, does, what) in [(1, reads, "read"), (2, writes, "written")] {
                    if let Some(access) = first(kind).filter(|_| !does) {
                        let detail = format_args!("memory is {what}, but not by this instruction");
                        out.add_in(access.position, RuleId::AccessDirection, detail);
                    }
                }
                let is_atomic = does.reads && does.writes && does.bytes.is_some();
                if is_atomic && first(1).is_none() && first(2).is_some() {
                    out.add(RuleId::AccessAtomic, format_args!("nothing is read"));
                } else if is_atomic && !does.is_conditional && first(1).is_some() && first(2).is_none() {
                    out.add(RuleId::AccessAtomic, format_args!("nothing is written"));
                }
            }
        }
    }

    /// Notes an instruction without its access.
    fn miss(&mut self, known: &Opcode, out: &Out<'_>) {
        // A conditional store may fail; a vector may have no active element; and a block of zeros may be recorded in
        // any way.
        let may_do_nothing = known.memory.is_conditional && !known.memory.reads;
        if !may_do_nothing && known.memory.bytes.is_some() {
            self.before = Some((out.position, out.instruction));
        }
    }

    /// Compares the total size of all accesses of one direction with the opcode.
    fn measure(&mut self, accesses: &[Access], (kind, does): (u8, bool), known: &Opcode, out: &mut Out<'_>) -> Unit {
        let mut same = accesses.iter().filter(|access| access.access.kind == kind).peekable();
        let (Some(bytes), Some(first)) = (known.memory.bytes.filter(|_| does), same.peek().copied()) else {
            return if does { Unit::Unknown } else { Unit::Wrong };
        };
        let (bytes, sum) = (u64::from(bytes), same.map(|access| u64::from(access.access.size)).sum::<u64>());
        if sum == bytes {
            Unit::Bytes
        } else if sum == bytes * 8 {
            self.bits(first.position, bytes, out);
            Unit::Bits
        } else {
            let detail = format_args!("the size is {sum}, but the instruction accesses {bytes} bytes");
            out.add_in(first.position, RuleId::AccessSize, detail);
            Unit::Wrong
        }
    }

    /// Reports a size in bits once.
    fn bits(&mut self, position: Position, bytes: u64, out: &mut Out<'_>) {
        if !self.has_bits {
            self.has_bits = true;
            let bits = bytes * 8;
            let detail =
                format_args!("the size is {bits}, but the instruction accesses {bytes} bytes: sizes are in bits");
            out.add_in(position, RuleId::AccessBits, detail);
        }
    }

    fn check_content(&mut self, access: &Access, unit: Unit, out: &mut Out<'_>) {
        let size = u32::from(access.access.size);
        let per_record = if unit == Unit::Bits { 64 } else { 8 };
        let needed = size.div_ceil(per_record).max(1);
        let have = access.contents;
        if have == 0 {
            out.add_in(access.position, RuleId::ContentMissing, format_args!("no content follows the access"));
        } else if unit == Unit::Wrong {
            // The expected number is unknown.
        } else if have == 1 && needed > 1 {
            // The size may be in bits if the opcode does not determine it.
            let may_be_bits = self.has_bits && unit == Unit::Unknown;
            if !self.has_first_only && !may_be_bits {
                self.has_first_only = true;
                let detail = format_args!("the access has {size} bytes, but only one content record");
                out.add_in(access.position, RuleId::ContentFirstOnly, detail);
            }
        } else if have != needed {
            let detail = format_args!("the access has {have} content records, but needs {needed}");
            out.add_in(access.position, RuleId::ContentCount, detail);
        } else if unit != Unit::Unknown {
            let bits = if unit == Unit::Bits { size } else { size * 8 } % 64;
            if bits > 0 && access.content >> bits != 0 {
                let detail = format_args!("the content {:#x} has more than {bits} bits", access.content);
                out.add_in(access.position, RuleId::ContentJustified, detail);
            }
        }
    }

    pub(super) fn finish(&mut self, out: &mut Out<'_>) {
        let last = self.before.take();
        if let Some((position, instruction)) = last.filter(|_| !self.has_access) {
            self.count(position, instruction);
        } else if let Some((position, instruction)) = last {
            let detail = format_args!("the last instruction reads or writes memory, but has no access");
            out.add_at(position, instruction, RuleId::AccessLast, detail);
        }
        if let Some((position, instruction, count)) = self.missing.take() {
            let detail = format_args!("{count} instructions from here on read or write memory, but none has an access");
            out.add_at(position, instruction, RuleId::AccessesAbsent, detail);
        }
    }
}
