//! Stretches of code that are executed again and again: their records are made once, and only what differs is filled in.
//!
//! a stretch ─▶ its **form**, made when it first comes ─▶ addresses filled in ─▶ records
//!
//! The records are those that the same steps give. Where that is not certain (an instruction may raise an exception, has
//! something to it that the rules have to look at, or did other than when it first came) the stretch is not taken, and its
//! steps go the long way.

use unspool_model::{Branch, Direction, Instruction, Isa, SinkError, Stretch, StretchAccess};

use super::super::build::{Builder, RecordSink};
use super::super::layout::Bytes;
use super::super::record;
use super::super::write::Pattern;
use super::Lowerer;
use super::access::PAGE;
use super::state::Due;
use super::word::{Flow, Word, Words};

/// Stretches with a higher number are not remembered.
const MOST: usize = 1 << 24;

/// The forms of stretches, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Forms {
    forms: Vec<Option<Form>>,
    /// The addresses that are filled in.
    addresses: Vec<u64>,
}

/// What is the same each time. Without a pattern it is one that is never taken.
#[derive(Debug, Default)]
struct Form {
    slots: Vec<Slot>,
    /// The last instruction is no branch, or one that is not taken.
    straight: Option<Pattern>,
    /// It is one that is taken; its target is the last address, unless the opcode has it.
    taken: Option<Pattern>,
    is_branch: bool,
    target: Option<u64>,
    /// The address behind it.
    behind: u64,
}

/// An address that is filled in.
#[derive(Debug, Clone, Copy)]
struct Slot {
    record: usize,
    /// In so many pieces, side by side.
    pieces: usize,
    bytes: u64,
    direction: Direction,
}

impl<S: RecordSink> Lowerer<S> {
    /// Takes a stretch, which says what as many steps say. False: it was not taken, and the steps have to come.
    #[inline]
    pub fn take_stretch(&mut self, stretch: &Stretch<'_>) -> Result<bool, SinkError> {
        if !self.hold.is_empty() || !self.is_basic || self.has_times || self.registers.is_told {
            return Ok(false);
        }
        self.close()?;
        let Some(first) = stretch.instructions.first() else { return Ok(true) };
        let is_plain = self.known.due == Due::No && self.known.is_aarch64() && !self.is_unsupported;
        if !is_plain || self.syndrome.is_told() || !self.builder.leads_to(first.address) {
            return Ok(false);
        }
        if !self.forms.knows(stretch.number) {
            self.forms.learn(&mut self.builder, &mut self.words, stretch);
        }
        let Some((pattern, addresses, next)) = self.forms.fill(stretch) else { return Ok(false) };
        self.builder.stretch(pattern, addresses, next)?;
        self.go_on();
        Ok(true)
    }
}

impl Forms {
    #[inline]
    fn knows(&self, number: usize) -> bool {
        matches!(self.forms.get(number), Some(Some(_)))
    }

    /// The pattern of a stretch, its addresses, and where execution goes on; `None`: it is not as it was the first time.
    #[inline]
    fn fill(&mut self, stretch: &Stretch<'_>) -> Option<(&mut Pattern, &[u64], u64)> {
        let form = self.forms.get_mut(stretch.number)?.as_mut()?;
        self.addresses.clear();
        let mut accesses = stretch.accesses;
        for slot in &form.slots {
            let (pieces, rest) = accesses.split_at_checked(slot.pieces)?;
            self.addresses.push(slot.address(pieces)?);
            accesses = rest;
        }
        if !accesses.is_empty() {
            return None;
        }
        let Some(Branch { taken: true, target }) = stretch.branch else {
            let is_as_ever = form.is_branch == stretch.branch.is_some();
            return Some((form.straight.as_mut().filter(|_| is_as_ever)?, &self.addresses, form.behind));
        };
        let next = form.target.or(target).filter(|next| is_address(*next))?;
        if form.target.is_none() {
            self.addresses.push(next);
        }
        let is_there = target.is_none_or(|target| target == next);
        Some((form.taken.as_mut().filter(|_| is_there)?, &self.addresses, next))
    }

    #[cold]
    fn learn<S: RecordSink>(&mut self, builder: &mut Builder<S>, words: &mut Words, stretch: &Stretch<'_>) {
        if stretch.number >= MOST {
            return;
        }
        if self.forms.len() <= stretch.number {
            self.forms.resize_with(stretch.number + 1, || None);
        }
        let form = Form::new(builder, words, stretch).unwrap_or_default();
        if let Some(place) = self.forms.get_mut(stretch.number) {
            *place = Some(form);
        }
    }
}

impl Form {
    fn new<S: RecordSink>(builder: &mut Builder<S>, words: &mut Words, stretch: &Stretch<'_>) -> Option<Self> {
        let (mut records, mut slots) = (Vec::new(), Vec::new());
        let (last, others) = stretch.instructions.split_last()?;
        let last_word = *words.of(last.opcode?);
        let is_branch = !matches!(last_word.flow, Flow::Behind | Flow::Return);
        let plain = if is_branch { others } else { stretch.instructions };
        let mut accesses = stretch.accesses;
        for (index, instruction) in plain.iter().enumerate() {
            let count = accesses.iter().take_while(|access| usize::from(access.index) == index).count();
            let (pieces, rest) = accesses.split_at(count);
            let record = plain_record(instruction, words.of(instruction.opcode?), pieces)?.to_bytes();
            builder.is_certain(&record).then(|| records.push(record))?;
            slots.extend(Slot::new(index, pieces));
            accesses = rest;
        }
        let mut form = Self { slots, is_branch, behind: last.address.wrapping_add(4), ..Self::default() };
        if is_branch {
            form.branch(builder, &last_word, last, records)?;
        } else {
            form.straight = Some(form.pattern(records));
        }
        accesses.is_empty().then_some(form)
    }

    /// The patterns of a stretch with a branch behind these records.
    fn branch<S: RecordSink>(
        &mut self,
        builder: &mut Builder<S>,
        word: &Word,
        last: &Instruction,
        mut records: Vec<Bytes>,
    ) -> Option<()> {
        self.target = word.target(last.address);
        let record = record::Instruction { is_branch: true, ..plain_record(last, word, &[])? };
        let straight = record.to_bytes();
        if builder.is_certain(&straight) {
            records.push(straight);
            self.straight = Some(self.pattern(records.clone()));
            records.pop();
        }
        let taken = record::Instruction { ea_valid: true, ea: self.target.unwrap_or(0), ..record }.to_bytes();
        builder.is_certain(&taken).then(|| records.push(taken))?;
        self.taken = Some(self.pattern(records));
        Some(())
    }

    fn pattern(&self, records: Vec<Bytes>) -> Pattern {
        let is_told = self.is_branch && self.target.is_none();
        let target = is_told.then_some(records.len().saturating_sub(1));
        Pattern::new(records, self.slots.iter().map(|slot| slot.record).chain(target).collect())
    }
}

impl Slot {
    /// The slot of an instruction with these accesses, if there are any.
    fn new(record: usize, pieces: &[StretchAccess]) -> Option<Self> {
        let bytes = pieces.iter().map(|piece| u64::from(piece.size)).sum();
        let direction = pieces.first()?.direction;
        Some(Self { record, pieces: pieces.len(), bytes, direction })
    }

    /// The address of these pieces, if they are as they were the first time.
    #[inline]
    fn address(&self, pieces: &[StretchAccess]) -> Option<u64> {
        let first = pieces.first()?;
        let address = first.address;
        let mut bytes = 0;
        for piece in pieces {
            let is_next = piece.address == address.wrapping_add(bytes) && piece.index == first.index;
            if !is_next || piece.direction != self.direction {
                return None;
            }
            bytes += u64::from(piece.size);
        }
        let is_one = self.pieces == 1 || address / PAGE == address.wrapping_add(bytes - 1) / PAGE;
        (is_one && bytes == self.bytes && usize::from(first.index) == self.record && is_address(address))
            .then_some(address)
    }
}

/// The record of an instruction that has nothing to it but these accesses, without their address.
fn plain_record(instruction: &Instruction, word: &Word, pieces: &[StretchAccess]) -> Option<record::Instruction> {
    let is_plain = instruction.isa == Isa::A64
        && instruction.za_index.is_none()
        && instruction.is_executed != Some(false)
        && !word.access.vector
        && is_address(instruction.address);
    let record = record::Instruction { iword: instruction.opcode?, pc: instruction.address, ..Default::default() };
    match Slot::new(0, pieces) {
        _ if !is_plain => None,
        None => (!word.has_address).then_some(record),
        Some(slot) => Some(record::Instruction {
            ea_valid: true,
            is_read: slot.direction == Direction::Read,
            is_write: slot.direction == Direction::Write,
            ea_size: u8::try_from(slot.bytes.checked_sub(1)?).ok()?,
            ..record
        }),
    }
}

/// Nothing is cut off of it.
#[inline]
fn is_address(address: u64) -> bool {
    address >> 56 == 0 || address >> 55 == 0x1ff
}
