//! Into the style of Fast Models: pictures become accesses, exceptions events, and branches that were not taken skipped.

use super::super::record::{
    Access, Byte, Direction, Event, Exception, Instruction, Line, Order, Physical, Picture, Purpose, Record, Register,
    Stamp, Tag,
};
use super::super::value::Value;
use super::super::write::{Style, Writer};
use super::memory::{Kind, Run, bytes_of, has_detail, push_number, runs};
use super::names::{event_of, spell_mode, spell_register};
use super::{Converter, LONGEST, Loss};

impl Converter {
    pub(super) fn say_in_fast_models(&mut self, core: usize, stamp: Stamp, line: &Line<'_>) {
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
                // Whoever fills lines does not fill the memory.
                if line.raw.len() > LONGEST {
                    self.keep_asynchronous(core);
                }
            }
            Record::Exception(exception) => self.exception(core, stamp, exception, line),
            Record::Register(register) => self.spell_register(core, stamp, register),
            Record::Access(access) => self.rewrite_access(core, stamp, access, line),
            Record::Picture(picture) => self.take_picture(core, stamp, picture),
            Record::Branch(branch) => {
                let known = &mut self.cores[core];
                (known.has_branches, known.target) = (true, Some(branch.target));
                self.resolve(core, None);
            }
            record => {
                self.emit(core, stamp, *record);
            }
        }
    }

    /// The branch that the log ends with.
    pub(super) fn end_fast_models(&mut self, core: usize) {
        self.keep_asynchronous(core);
        self.resolve(core, None);
        let known = &self.cores[core];
        // No instruction tells where execution goes on. A direct branch says so itself.
        let certain = known.last.filter(|_| !known.has_exception).and_then(|last| last.target());
        if known.target.is_some() && known.target != certain {
            self.lose(Loss::Target);
        }
    }

    /// An asynchronous event without an exception.
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
        if self.cores[core].target.is_some_and(|target| target != address) {
            self.lose(Loss::Target);
        }
        let number = instruction.number.unwrap_or(self.cores[core].number.wrapping_add(1));
        self.cores[core].number = number;
        let mut mode = std::mem::take(&mut self.spelled);
        mode.clear();
        spell_mode(Style::FastModels, instruction.mode, &mut mode);
        let start = self.buffer.len();
        self.emit(core, stamp, Record::Instruction(Instruction { number: Some(number), mode: &mode, ..*instruction }));
        self.spelled = mode;
        self.arrive_at(core, instruction, start);
    }

    /// A branch of Rev 3 that may not have been taken is held back until that is known.
    fn arrive_at(&mut self, core: usize, instruction: &Instruction<'_>, start: usize) {
        let at = self.buffer.get(start..).and_then(|line| line.windows(4).position(|word| word == b"IT ("));
        self.cores[core].arrive(instruction);
        let is_open = instruction.tag == Tag::Es && self.cores[core].last.is_some_and(|last| last.is_open());
        if let Some(at) = at.filter(|_| is_open) {
            self.holds.push((core, start + at + 1));
        }
    }

    /// Was the last branch taken? Either a BR line says so, or where execution goes on.
    fn resolve(&mut self, core: usize, next: Option<u64>) {
        let Some(index) = self.holds.iter().position(|hold| hold.0 == core) else { return };
        let (_, at) = self.holds.remove(index);
        let known = &self.cores[core];
        let Some(last) = known.last else { return };
        let is_taken = match next {
            _ if known.target.is_some() => true,
            Some(next) if Some(next) == last.behind() => last.target() == last.behind(),
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
        let value = Some(known.event_address(is_asynchronous));
        (known.has_exception, known.target) = (true, None);
        let event = Event { value, mode: b"", number: Some(number), name: &name, is_exception: true };
        self.emit(core, stamp, Record::Event(event));
    }

    fn spell_register(&mut self, core: usize, stamp: Stamp, register: &Register<'_>) {
        let mut name = std::mem::take(&mut self.spelled);
        name.clear();
        if !spell_register(Style::FastModels, register, self.cores[core].is_fiq, &mut name) {
            self.lose(Loss::Context);
        }
        self.emit(core, stamp, Record::Register(Register { name: &name, context: b"", ..*register }));
        self.spelled = name;
    }

    /// An access of another producer.
    fn rewrite_access(&mut self, core: usize, stamp: Stamp, access: &Access<'_>, line: &Line<'_>) {
        let bytes = bytes_of(access, self.is_big_endian).filter(|_| access.purpose != Purpose::Fetch);
        let Some(bytes) = bytes.filter(|_| access.address.is_some()) else { return self.keep(Loss::Access, line) };
        if has_detail(access) {
            self.lose(Loss::AccessDetail);
        }
        let mut number = Vec::new();
        push_number(&mut number, &bytes, self.is_big_endian);
        let data = Some(Value(&number)).filter(|_| !access.is_aborted);
        let said = Access { order: Order::Number, owner: None, data, notes: b"", ..*access };
        self.emit(core, stamp, Record::Access(said));
    }

    fn take_picture(&mut self, core: usize, stamp: Stamp, picture: &Picture<'_>) {
        let Some(kind) = Kind::of_picture(picture.kind) else { return self.keep_picture(core, stamp, picture) };
        if picture.physical.is_some_and(|physical| physical.page.is_some()) {
            self.lose(Loss::PageOrder);
        }
        if !picture.attributes.is_empty() {
            self.lose(Loss::Attributes);
        }
        for (at, bytes) in runs(&picture.bytes) {
            let address = picture.address.wrapping_add(at as u64);
            let physical = picture
                .physical
                .map(|physical| Physical { address: physical.address.wrapping_add(at as u64), ..physical });
            self.grow(core, stamp, kind, (address, bytes, physical.as_ref()));
        }
    }

    /// The bytes go on with those before, if they are of one instruction and the picture only ends between them.
    fn grow(&mut self, core: usize, stamp: Stamp, kind: Kind, piece: (u64, &[Byte], Option<&Physical<'_>>)) {
        let (address, bytes, physical) = piece;
        let known = &mut self.cores[core];
        let can_grow = known.unit().is_some();
        if let Some((run, _)) = &mut known.run
            && can_grow
            && (run.append(kind, address, bytes, physical) || run.prepend(kind, address, bytes, physical))
        {
            return;
        }
        self.flush(core);
        self.cores[core].run = Some((Run::new(kind, address, bytes, physical), stamp));
    }

    /// A failed store changes nothing, which accesses cannot say.
    fn keep_picture(&mut self, core: usize, stamp: Stamp, picture: &Picture<'_>) {
        self.flush(core);
        self.lose(Loss::Access);
        let record = Record::Picture(Picture { is_continuation: false, ..*picture });
        let line = Line { raw: b"", stamp, core: self.cores[core].name.as_deref(), record };
        // A picture can always be said.
        let _ = Writer::rev3().write(&line, &mut self.buffer);
    }

    pub(super) fn write_accesses(&mut self, core: usize, run: &Run, stamp: Stamp) {
        let unit = self.cores[core].unit();
        if run.is_torn(unit) {
            self.lose(Loss::AccessPhysical);
        }
        if run.has_lost_data() {
            self.lose(Loss::AbortedData);
        }
        run.accesses(unit, |address, bytes, physical| {
            let mut number = Vec::new();
            push_number(&mut number, bytes, self.is_big_endian);
            let access = Access {
                tag: match run.kind.direction {
                    Direction::Read => b"MR",
                    Direction::Write => b"MW",
                },
                direction: run.kind.direction,
                purpose: Purpose::Data,
                size: bytes.len() as u16,
                address: Some(address),
                digits: 0,
                physical,
                owner: None,
                data: Some(Value(&number)).filter(|_| !run.kind.is_aborted),
                order: Order::Number,
                is_aborted: run.kind.is_aborted,
                is_exclusive: false,
                is_unprivileged: false,
                is_locked: false,
                notes: b"",
            };
            self.emit(core, stamp, Record::Access(access));
        });
    }
}
