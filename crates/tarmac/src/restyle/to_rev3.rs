//! Restyling to Rev 3: accesses become pictures, events become exceptions, branches get BR lines.

use super::super::record::{
    Access, Branch, Event, Exception, Instruction, InstructionSet, Line, Picture, Purpose, Record, Register, Stamp, Tag,
};
use super::super::write::Style;
use super::core::Taken;
use super::memory::{AccessSizes, Kind, Part, Run, bytes_of, has_detail};
use super::names::{event_of, exception_of, push_mode, push_register};
use super::{Loss, Restyler};

/// Maximum number of accesses in a sequence, more than one instruction makes.
const MAX_ACCESSES: usize = 1 << 10;

impl Restyler {
    pub(super) fn write_rev3(&mut self, core: usize, stamp: Stamp, line: &Line<'_>) {
        if !matches!(line.record, Record::Access(_)) {
            self.flush(core);
        }
        match &line.record {
            Record::Instruction(instruction) => self.step(core, stamp, instruction, line),
            Record::Event(event) => self.event(core, stamp, event, line),
            Record::Register(register) => self.register(core, stamp, register),
            Record::Access(access) => self.access(core, stamp, access, line),
            Record::Picture(picture) => self.picture(core, stamp, picture),
            Record::Branch(branch) => {
                self.cores[core].set_target(branch.target, branch.set);
                self.effect(core, stamp, Record::Branch(*branch));
            }
            Record::Asynchronous(_) => self.start(core, stamp, line.record),
            Record::Exception(exception) => {
                if exception.is_step {
                    self.start(core, stamp, line.record);
                } else {
                    self.effect(core, stamp, line.record);
                }
                let is_reset = is_reset(exception.name);
                self.cores[core].take_exception(if is_reset { Taken::Reset(None) } else { Taken::Exception });
            }
            record => self.effect(core, stamp, *record),
        }
    }

    /// Completes the last branch of the log.
    pub(super) fn end_rev3(&mut self, core: usize) {
        self.count_skipped(core, None);
        self.write_branch(core, None);
    }

    /// Writes an effect. It has no timestamp if it follows its step, unless lines of other cores may come between.
    fn effect(&mut self, core: usize, stamp: Stamp, record: Record<'_>) {
        let Some(known) = self.cores.get(core) else { return };
        let is_same = known.name.is_none() && known.step == Some(stamp);
        self.emit(core, if is_same { Stamp::Absent } else { stamp }, record);
    }

    /// Writes the first line of a step that is no instruction.
    fn start(&mut self, core: usize, stamp: Stamp, record: Record<'_>) {
        self.count_skipped(core, None);
        self.write_branch(core, None);
        self.emit(core, stamp, record);
        self.cores[core].step = Some(stamp);
    }

    fn step(&mut self, core: usize, stamp: Stamp, instruction: &Instruction<'_>, line: &Line<'_>) {
        let Some(set) = instruction.set else { return self.keep(Loss::Instruction, line) };
        self.count_skipped(core, instruction.address);
        self.write_branch(core, instruction.address.map(|address| (address, set)));
        self.count_losses(core, instruction, set);
        let mut mode = std::mem::take(&mut self.name_buffer);
        mode.clear();
        push_mode(Style::Rev3, instruction.mode, &mut mode);
        // In Rev 3 only AArch32 conditions fail; an AArch64 branch is not taken, as the next line shows.
        let is_executed = instruction.is_executed || set == InstructionSet::O;
        let line = Instruction { tag: Tag::Es, mode: &mode, is_executed, ..*instruction };
        self.emit(core, stamp, Record::Instruction(line));
        self.name_buffer = mode;
        self.cores[core].step = Some(stamp);
        self.cores[core].set_last(instruction);
    }

    fn count_losses(&mut self, core: usize, instruction: &Instruction<'_>, set: InstructionSet) {
        if instruction.physical.is_some() {
            self.lose(Loss::InstructionPhysical);
        }
        let next = self.cores[core].number.wrapping_add(1);
        let number = instruction.number.unwrap_or(next);
        if number != next {
            self.lose(Loss::InstructionNumber);
        }
        self.cores[core].number = number;
        if instruction.tag == Tag::If {
            self.lose(Loss::Folded);
        }
        if !instruction.is_executed && set == InstructionSet::O && !is_conditional(instruction) {
            self.lose(Loss::Skipped);
        }
    }

    /// Counts a skipped AArch64 branch as lost, unless the missing BR line implies it, or execution continues at the
    /// fall-through address and not at its target.
    fn count_skipped(&mut self, core: usize, next: Option<u64>) {
        let known = &mut self.cores[core];
        let is_clear = known.has_branches;
        let Some(last) = known.last.as_mut().filter(|last| last.is_skipped_branch() && !last.has_branch_line) else {
            return;
        };
        last.has_branch_line = true;
        if !is_clear && (next.is_none() || next != last.fall_through() || last.targets_fall_through()) {
            self.lose(Loss::Skipped);
        }
    }

    /// Writes the BR line of the last instruction or of the exception after it. `next`: where execution continues.
    fn write_branch(&mut self, core: usize, next: Option<(u64, InstructionSet)>) {
        let known = &mut self.cores[core];
        let taken_target = match (known.taken, &known.last) {
            (Some(_), _) if known.has_exception_branch => None,
            (Some(Taken::Reset(Some(target))), _) => match next {
                Some((_, set)) => Some((target, set)),
                None => {
                    known.has_exception_branch = true;
                    return self.lose(Loss::EventDetail);
                }
            },
            (Some(Taken::Reset(None)), _) => None,
            (Some(Taken::Exception), _) => next,
            (None, Some(last)) if !last.has_branch_line => last.taken_target(next),
            (None, _) => None,
        };
        let Some((target, set)) = taken_target else { return };
        let stamp = if known.name.is_none() { Stamp::Absent } else { known.step.unwrap_or(Stamp::Absent) };
        known.set_target(target, Some(set));
        self.emit(core, stamp, Record::Branch(Branch { target, digits: 0, set: Some(set) }));
    }

    fn event(&mut self, core: usize, stamp: Stamp, event: &Event<'_>, line: &Line<'_>) {
        let found = if event.is_exception { exception_of(event) } else { None };
        let Some((vector, name, is_asynchronous)) = found else { return self.keep(Loss::Event, line) };
        let exception = Exception { is_step: is_asynchronous, vector: Some(vector), name: name.as_bytes() };
        self.count_skipped(core, None);
        let is_reset = is_reset(exception.name);
        if is_asynchronous {
            // The return address of an interrupt is the target of an indirect branch before it.
            let set = self.cores[core].last.and_then(|last| last.set).filter(|_| !is_reset);
            self.write_branch(core, event.value.zip(set));
        }
        self.count_event(core, event, &exception, line.raw);
        if is_asynchronous {
            self.emit(core, stamp, Record::Exception(exception));
            self.cores[core].step = Some(stamp);
        } else {
            self.effect(core, stamp, Record::Exception(exception));
        }
        self.cores[core].take_exception(if is_reset { Taken::Reset(event.value) } else { Taken::Exception });
    }

    /// Counts what the exception does not preserve of its event. The target of a reset goes to its BR line.
    fn count_event(&mut self, core: usize, event: &Event<'_>, exception: &Exception<'_>, raw: &[u8]) {
        let known = &self.cores[core];
        let address = known.event_address(exception, exception.is_step);
        let has_address = is_reset(exception.name) || event.value.is_none_or(|value| Some(value) == address);
        // Without an address there is no number either.
        let has_number = |number| event.number == Some(number) || event.value.is_none();
        let is_same = has_address
            && event.mode.is_empty()
            && !has_argument(event, raw)
            && event_of(exception, known.is_m_profile)
                .is_some_and(|(number, name)| has_number(number) && event.name == name);
        if !is_same {
            self.lose(Loss::EventDetail);
        }
    }

    fn register(&mut self, core: usize, stamp: Stamp, register: &Register<'_>) {
        let mut name = std::mem::take(&mut self.name_buffer);
        name.clear();
        push_register(Style::Rev3, register, false, &mut name);
        self.effect(core, stamp, Record::Register(Register { name: &name, ..*register }));
        self.name_buffer = name;
    }

    fn access(&mut self, core: usize, stamp: Stamp, access: &Access<'_>, line: &Line<'_>) {
        let bytes = bytes_of(access, self.is_big_endian).filter(|_| access.purpose != Purpose::Fetch);
        let (Some(bytes), Some(address)) = (bytes, access.address) else {
            self.flush(core);
            return self.keep(Loss::Access, line);
        };
        if access.is_exclusive || access.is_unprivileged || access.is_locked {
            self.lose(Loss::AccessFlags);
        }
        if has_detail(access) {
            self.lose(Loss::AccessDetail);
        }
        let kind = Kind { direction: self.direction(core, access), is_aborted: access.is_aborted };
        let part = Part { kind, address, bytes: &bytes, physical: access.physical };
        if self.cores[core].access_sizes.len() >= MAX_ACCESSES {
            self.flush(core);
        }
        let known = &mut self.cores[core];
        known.access_sizes.push(self.position, address, bytes.len());
        let can_grow = known.unit().is_some();
        if let Some((run, since)) = &mut known.run
            && can_grow
            && *since == stamp
            && run.append(&part)
        {
            return;
        }
        self.flush_run(core);
        self.cores[core].run = Some((Run::new(&part), stamp));
    }

    /// Writes a picture among accesses, realigned if needed.
    fn picture(&mut self, core: usize, stamp: Stamp, picture: &Picture<'_>) {
        let digits = self.cores[core].digits();
        let kind = Kind::of_picture(picture.kind).filter(|_| !picture.address.is_multiple_of(16));
        let Some(kind) = kind else {
            let picture = Picture { digits, is_continuation: false, ..*picture };
            return self.effect(core, stamp, Record::Picture(picture));
        };
        if !picture.attributes.is_empty() {
            self.lose(Loss::Attributes);
        }
        for (at, bytes) in picture.runs() {
            let address = picture.address.wrapping_add(at as u64);
            self.write_pictures(core, &Run::new(&Part { kind, address, bytes, physical: None }), stamp);
        }
        // These bytes were no accesses.
        self.cores[core].access_sizes = AccessSizes::default();
    }

    pub(super) fn write_pictures(&mut self, core: usize, run: &Run, stamp: Stamp) {
        let digits = self.cores[core].digits();
        let is_plain = self.cores[core].name.is_none() && self.cores[core].step == Some(stamp);
        let can_continue = self.has_continuations && is_plain;
        let unit = self.cores[core].unit();
        let mut is_first = true;
        run.pictures(digits, |picture| {
            self.cores[core].access_sizes.picture(run.kind, picture, unit);
            let is_continuation = !is_first && can_continue;
            is_first = false;
            self.effect(core, stamp, Record::Picture(Picture { is_continuation, ..*picture }));
        });
    }
}

fn is_reset(name: &[u8]) -> bool {
    name == b"Reset"
}

/// Whether the number of an event has more than 32 bits; the upper ones are the argument of a call.
fn has_argument(event: &Event<'_>, raw: &[u8]) -> bool {
    let raw = raw.trim_ascii_end();
    let before = &raw[..raw.len().saturating_sub(event.name.len())];
    let number = before.trim_ascii_end().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let upper = &number[..number.len().saturating_sub(8)];
    event.value.is_some() && event.number.is_some() && upper.iter().any(|digit| !matches!(digit, b'0' | b'x'))
}

fn is_conditional(instruction: &Instruction<'_>) -> bool {
    super::super::opcode::facts_of(instruction).is_some_and(|facts| facts.conditional && facts.target.is_some())
}
