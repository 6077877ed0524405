//! Restyling to Fast Models: pictures become accesses, exceptions become events, branches that were not taken become IS
//! lines.

use super::super::record::{
    Access, Event, Exception, Instruction, Line, Order, Physical, Picture, Purpose, Record, Register, Stamp, Tag,
};
use super::super::value::Value;
use super::super::write::{Style, push_address, push_hex};
use super::core::Taken;
use super::memory::{Kind, Part, Run, bytes_of, has_detail, push_number};
use super::names::{event_of, push_mode, push_register};
use super::{Hold, Loss, MAX_KEPT, Restyler};

impl Restyler {
    pub(super) fn write_fast_models(&mut self, core: usize, stamp: Stamp, line: &Line<'_>) {
        if !matches!(line.record, Record::Picture(_)) {
            self.flush(core);
        }
        if !matches!(line.record, Record::Exception(_)) {
            self.keep_asynchronous(core);
        }
        match &line.record {
            Record::Instruction(instruction) => self.instruction(core, stamp, instruction, line),
            Record::Asynchronous(_) => {
                self.cores[core].asynchronous = Some(line.raw.to_vec());
                // Bounds the memory that overlong lines can take.
                if line.raw.len() > MAX_KEPT {
                    self.keep_asynchronous(core);
                }
            }
            Record::Exception(exception) => self.exception(core, stamp, exception, line),
            Record::Register(register) => self.register_line(core, stamp, register),
            Record::Access(access) => self.rewrite_access(core, stamp, access, line),
            Record::Picture(picture) => self.collect_picture(core, stamp, picture),
            Record::Branch(branch) => {
                self.cores[core].set_target(branch.target, branch.set);
                match self.cores[core].taken {
                    None => self.resolve(core, None),
                    Some(Taken::Exception) => {}
                    Some(Taken::Reset(_)) => self.write_reset_target(core, branch.target),
                }
            }
            record => {
                self.emit(core, stamp, *record);
            }
        }
    }

    /// Completes the last branch of the log.
    pub(super) fn end_fast_models(&mut self, core: usize) {
        self.keep_asynchronous(core);
        self.resolve(core, None);
        let known = &self.cores[core];
        // Without a next instruction, only a direct branch implies its target.
        let certain = known.last.filter(|_| known.taken.is_none()).and_then(|last| last.target());
        if known.target.is_some() && known.target != certain {
            self.lose(Loss::Target);
        }
    }

    /// Copies an asynchronous event that no exception followed.
    fn keep_asynchronous(&mut self, core: usize) {
        if let Some(raw) = self.cores[core].asynchronous.take() {
            self.lose(Loss::Exception);
            self.buffer.extend_from_slice(&raw);
            self.buffer.push(b'\n');
        }
    }

    fn instruction(&mut self, core: usize, stamp: Stamp, instruction: &Instruction<'_>, line: &Line<'_>) {
        let Some(address) = instruction.address.filter(|_| instruction.set.is_some()) else {
            return self.keep(Loss::Instruction, line);
        };
        self.resolve(core, Some(address));
        self.end_reset(core);
        let known = &self.cores[core];
        let is_target_lost = match known.taken {
            // Its event has the target, but not the instruction set there.
            Some(Taken::Reset(_)) => known.target_set.is_some() && known.target_set != instruction.set,
            _ => known.target.is_some_and(|target| target != address),
        };
        if is_target_lost {
            self.lose(Loss::Target);
        }
        let number = instruction.number.unwrap_or(self.cores[core].number.wrapping_add(1));
        self.cores[core].number = number;
        let mut mode = std::mem::take(&mut self.name_buffer);
        mode.clear();
        push_mode(Style::FastModels, instruction.mode, &mut mode);
        let start = self.buffer.len();
        self.emit(core, stamp, Record::Instruction(Instruction { number: Some(number), mode: &mode, ..*instruction }));
        self.name_buffer = mode;
        self.hold_branch(core, instruction, start);
    }

    /// Records the last instruction. A Rev 3 branch that may not have been taken is held back until that is known.
    fn hold_branch(&mut self, core: usize, instruction: &Instruction<'_>, start: usize) {
        let at = self.buffer.get(start..).and_then(|line| line.windows(4).position(|word| word == b"IT ("));
        self.cores[core].set_last(instruction);
        let is_undecided = instruction.tag == Tag::Es && self.cores[core].last.is_some_and(|last| last.is_undecided());
        if let Some(at) = at.filter(|_| is_undecided) {
            self.holds.push(Hold { core, at: start + at + 1, reset: None });
        }
    }

    /// Decides whether the last branch was taken, by a BR line or by where execution continues.
    fn resolve(&mut self, core: usize, next: Option<u64>) {
        let is_branch = |hold: &Hold| hold.core == core && hold.reset.is_none();
        let Some(index) = self.holds.iter().position(is_branch) else { return };
        let Hold { at, .. } = self.holds.remove(index);
        let known = &self.cores[core];
        let Some(last) = known.last else { return };
        let is_taken = match next {
            _ if known.target.is_some() => true,
            Some(next) if Some(next) == last.fall_through() => last.targets_fall_through() && !known.has_branches,
            Some(next) if Some(next) == last.target() => true,
            _ => !known.has_branches,
        };
        if let Some(tag) = self.buffer.get_mut(at).filter(|_| !is_taken) {
            *tag = b'S';
        }
    }

    fn exception(&mut self, core: usize, stamp: Stamp, exception: &Exception<'_>, line: &Line<'_>) {
        let known = &mut self.cores[core];
        let Some((number, name)) = event_of(exception, known.is_m_profile) else {
            self.keep_asynchronous(core);
            return self.keep(Loss::Exception, line);
        };
        let is_asynchronous = exception.is_step || known.asynchronous.is_some();
        known.asynchronous = None;
        self.resolve(core, None);
        self.end_reset(core);
        let is_reset = name.eq_ignore_ascii_case(b"CoreEvent_Reset");
        let known = &mut self.cores[core];
        let value = known.event_address(exception, is_asynchronous).filter(|_| !is_reset);
        known.take_exception(if is_reset { Taken::Reset(None) } else { Taken::Exception });
        let event = Event { value, mode: b"", number: Some(number), name: &name, is_exception: true };
        self.emit(core, stamp, Record::Event(event));
        if is_reset {
            // The name and the line end follow it.
            let at = self.buffer.len().saturating_sub(name.len() + 2);
            self.holds.push(Hold { core, at, reset: Some(number) });
        }
    }

    /// Inserts the target of a reset, from its BR line, into the event.
    fn write_reset_target(&mut self, core: usize, target: u64) {
        let Some(index) = self.holds.iter().position(|hold| hold.core == core && hold.reset.is_some()) else {
            return self.lose(Loss::Target);
        };
        let Hold { at, reset, .. } = self.holds.remove(index);
        let mut text = vec![b' '];
        push_address(&mut text, target);
        text.push(b' ');
        push_hex(&mut text, u64::from(reset.unwrap_or_default()), 8);
        self.holds.iter_mut().filter(|hold| hold.at >= at).for_each(|hold| hold.at += text.len());
        self.buffer.splice(at..at, text);
    }

    /// Drops the hold on a reset that no BR line followed.
    fn end_reset(&mut self, core: usize) {
        self.holds.retain(|hold| hold.core != core || hold.reset.is_none());
    }

    fn register_line(&mut self, core: usize, stamp: Stamp, register: &Register<'_>) {
        let mut name = std::mem::take(&mut self.name_buffer);
        name.clear();
        if !push_register(Style::FastModels, register, self.cores[core].is_fiq, &mut name) {
            self.lose(Loss::Context);
        }
        self.emit(core, stamp, Record::Register(Register { name: &name, context: b"", ..*register }));
        self.name_buffer = name;
    }

    /// Rewrites an access of another producer.
    fn rewrite_access(&mut self, core: usize, stamp: Stamp, access: &Access<'_>, line: &Line<'_>) {
        let bytes = bytes_of(access, self.is_big_endian).filter(|_| access.purpose != Purpose::Fetch);
        let Some(bytes) = bytes.filter(|_| access.address.is_some()) else { return self.keep(Loss::Access, line) };
        if has_detail(access) {
            self.lose(Loss::AccessDetail);
        }
        let mut number = Vec::new();
        push_number(&mut number, &bytes, self.is_big_endian);
        let data = Some(Value(&number)).filter(|_| !access.is_aborted);
        let direction = self.direction(core, access);
        let access = Access { direction, order: Order::Number, owner: None, data, notes: b"", ..*access };
        self.emit(core, stamp, Record::Access(access));
    }

    fn collect_picture(&mut self, core: usize, stamp: Stamp, picture: &Picture<'_>) {
        let Some(kind) = Kind::of_picture(picture.kind) else { return self.keep_picture(core, stamp, picture) };
        if picture.physical.is_some_and(|physical| physical.page.is_some()) {
            self.lose(Loss::PageOrder);
        }
        if !picture.attributes.is_empty() {
            self.lose(Loss::Attributes);
        }
        for (at, bytes) in picture.runs() {
            let offset = |address: u64| address.wrapping_add(at as u64);
            let physical = picture.physical.map(|physical| Physical { address: offset(physical.address), ..physical });
            self.grow(core, stamp, &Part { kind, address: offset(picture.address), bytes, physical });
        }
    }

    /// Extends the current run by bytes of the same instruction, or starts a new run.
    fn grow(&mut self, core: usize, stamp: Stamp, part: &Part<'_>) {
        let known = &mut self.cores[core];
        let can_grow = known.unit().is_some();
        if let Some((run, _)) = &mut known.run
            && can_grow
            && (run.append(part) || run.prepend(part))
        {
            return;
        }
        self.flush(core);
        self.cores[core].run = Some((Run::new(part), stamp));
    }

    /// Copies a picture of a failed store, for which there is no access line.
    fn keep_picture(&mut self, core: usize, stamp: Stamp, picture: &Picture<'_>) {
        self.flush(core);
        self.lose(Loss::Access);
        let record = Record::Picture(Picture { is_continuation: false, ..*picture });
        let line = Line { raw: b"", stamp, core: self.cores[core].name.as_deref(), record };
        // A picture can always be written.
        let _ = Style::Rev3.write(&line, &mut self.buffer);
    }

    pub(super) fn write_accesses(&mut self, core: usize, run: &Run, stamp: Stamp) {
        let unit = self.cores[core].unit();
        if run.has_split_physical(unit) {
            self.lose(Loss::AccessPhysical);
        }
        if run.has_lost_data() {
            self.lose(Loss::AbortedData);
        }
        run.accesses(unit, |address, bytes, physical| {
            let mut number = Vec::new();
            push_number(&mut number, bytes, self.is_big_endian);
            let access = Access {
                direction: run.kind.direction,
                size: bytes.len() as u16,
                address: Some(address),
                physical,
                data: Some(Value(&number)).filter(|_| !run.kind.is_aborted),
                is_aborted: run.kind.is_aborted,
                ..Access::default()
            };
            self.emit(core, stamp, Record::Access(access));
        });
    }
}
