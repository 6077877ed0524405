//! Stretches of code that are executed again and again: their records are made once, and only what differs is filled in.
//!
//! a run ─▶ of each pass its **form**, made when it first comes ─▶ addresses filled in ─▶ records
//!
//! The records are those that the same steps give. Where that is not certain (an instruction may raise an exception, or has
//! something to it that the rules have to look at) the pass is not taken, and its steps go the long way.

use unspool_isa::ControlFlow;
use unspool_model::{Direction, Instruction, Isa, Pass, Refused, Run, SinkError, Stretch, StretchAccess};

use super::super::builder::{Builder, RecordSink};
use super::super::layout::Bytes;
use super::super::record;
use super::super::write::{Passes, Patterns};
use super::Lowerer;
use super::state::Due;
use super::word::{Word, Words};

/// Stretches with a higher number are not remembered.
const MOST: usize = 1 << 24;

/// The forms of passes: each is the pattern with the number of the pass.
#[derive(Debug, Default)]
pub(super) struct Forms {
    /// By the numbers of passes.
    forms: Vec<Form>,
    patterns: Patterns,
}

/// What is known of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Form {
    #[default]
    Unknown,
    /// It has a pattern.
    Known,
    /// It is never taken.
    Never,
}

/// How far a run was taken.
#[derive(Debug, Clone, Copy)]
struct Taken {
    passes: usize,
    addresses: usize,
    /// The pass behind is never taken.
    is_final: bool,
}

impl<S: RecordSink> Lowerer<S> {
    /// Takes a run, which says what as many steps say; if not all of it, where steps have to come. It is of the core that
    /// steps were taken of.
    pub fn take_run(&mut self, run: &Run<'_>) -> Result<Option<Refused>, SinkError> {
        let taken = match self.may_take(run)? {
            true => self.forms.follow(&mut self.builder, &mut self.words, run),
            false => Taken { passes: 0, addresses: 0, is_final: false },
        };
        let Taken { passes, addresses, is_final } = taken;
        let (now, filled) = (run.passes.get(..passes), run.addresses.get(..addresses));
        let (Some(now), Some(filled)) = (now, filled) else { return Ok(None) };
        let is_all = passes == run.passes.len();
        let records = if is_all { run.instructions } else { run.instructions_of(passes) };
        self.builder.patterns(&mut self.forms.patterns, Passes { passes: now, addresses: filled, records })?;
        if let Some((last, next)) = self.forms.end(run.stretches, now, filled) {
            self.builder.passed(records, last, next);
            self.go_on();
        }
        Ok((!is_all).then_some(Refused { passes, addresses, is_final }))
    }

    /// May runs be taken, and does this one start where execution goes on?
    fn may_take(&mut self, run: &Run<'_>) -> Result<bool, SinkError> {
        let is_plain = self.hold.is_empty() && self.is_basic && !self.has_times && !self.registers.follow();
        if !is_plain {
            return Ok(false);
        }
        self.close()?;
        let is_calm = self.known.due == Due::No && self.known.is_aarch64() && !self.is_unsupported;
        let odd = run.addresses.iter().fold(0, |odd, address| odd | odd_bits(*address));
        let first = run.passes.first().and_then(|pass| run.stretches.get(pass.number()));
        let start = first.and_then(|stretch| stretch.instructions.first()).map(|first| first.address);
        let is_here = start.is_some() && self.builder.goes_on() == start;
        Ok(is_calm && is_here && !self.syndrome.is_told() && odd == 0)
    }
}

impl Forms {
    /// How far a run can be taken.
    fn follow<S: RecordSink>(&mut self, builder: &mut Builder<S>, words: &mut Words, run: &Run<'_>) -> Taken {
        let is_known = |forms: &[Form], pass: &Pass| forms.get(pass.index()) == Some(&Form::Known);
        for (passes, pass) in run.passes.iter().enumerate() {
            if !is_known(&self.forms, pass) && self.learn(builder, words, run.stretches, *pass) == Form::Never {
                let before = run.passes.get(..passes).unwrap_or_default();
                let addresses = before.iter().map(|pass| self.patterns.slots(pass.index())).sum();
                return Taken { passes, addresses, is_final: true };
            }
        }
        Taken { passes: run.passes.len(), addresses: run.addresses.len(), is_final: false }
    }

    /// The last record of these passes with their addresses, and where execution goes on.
    fn end(&mut self, stretches: &[Stretch], passes: &[Pass], addresses: &[u64]) -> Option<(&Bytes, u64)> {
        let last = passes.last()?;
        let stretch = stretches.get(last.number())?;
        let behind = stretch.instructions.last()?.address.wrapping_add(4);
        let next = match stretch.end.target_address() {
            Some(target) if last.is_taken() => target,
            None if stretch.end.flow.is_indirect() => *addresses.last()?,
            _ => behind,
        };
        let of_others = addresses.len().checked_sub(self.patterns.slots(last.index()))?;
        Some((self.patterns.fill(last.index(), addresses.get(of_others..)?).last()?, next))
    }

    /// What is known of a pass now.
    #[cold]
    fn learn<S: RecordSink>(
        &mut self,
        builder: &mut Builder<S>,
        words: &mut Words,
        stretches: &[Stretch],
        pass: Pass,
    ) -> Form {
        let Some(stretch) = stretches.get(pass.number()).filter(|_| pass.number() < MOST) else { return Form::Never };
        if self.forms.len() <= pass.index() {
            self.forms.resize(pass.index() + 1, Form::Unknown);
        }
        let Some(place) = self.forms.get_mut(pass.index()) else { return Form::Never };
        if *place == Form::Unknown {
            *place = match pattern(builder, words, stretch, pass.is_taken()) {
                Some((records, slots)) => {
                    self.patterns.set(pass.index(), &records, &slots);
                    Form::Known
                }
                None => Form::Never,
            };
        }
        *place
    }
}

/// The records of a pass, and which of them have an address; `None`: not every rule is kept by them in any case.
fn pattern<S: RecordSink>(
    builder: &mut Builder<S>,
    words: &mut Words,
    stretch: &Stretch,
    is_taken: bool,
) -> Option<(Vec<Bytes>, Vec<usize>)> {
    let target = target(words, stretch, is_taken)?;
    let (mut records, mut slots) = plain_records(words, stretch)?;
    if stretch.end.flow.is_branch() {
        let branch = records.last_mut().filter(|record| !record.ea_valid)?;
        (branch.is_branch, branch.ea_valid, branch.ea) = (true, is_taken, target.unwrap_or(0));
    }
    if stretch.end.flow.is_indirect() {
        slots.push(records.len().checked_sub(1)?);
    }
    let records: Vec<Bytes> = records.iter().map(record::Instruction::to_bytes).collect();
    records.iter().all(|record| builder.is_certain(record)).then_some((records, slots))
}

/// The target of the branch at the end, if that is taken and the opcode says it. `None`: it does not end as is said.
fn target(words: &mut Words, stretch: &Stretch, is_taken: bool) -> Option<Option<u64>> {
    let last = stretch.instructions.last()?;
    let word = words.of(last.opcode?);
    let target = word.target(last.address);
    let end = &stretch.end;
    let is_same = (end.flow, end.conditional) == (word.flow, word.conditional);
    match word.flow {
        ControlFlow::Direct if is_same && is_taken => {
            let is_ambiguous = end.conditional && target == Some(last.address.wrapping_add(4));
            (target == end.target_address() && !is_ambiguous).then_some(target)
        }
        ControlFlow::Direct if is_same => end.conditional.then_some(None),
        ControlFlow::Indirect if is_same && is_taken => Some(None),
        flow => (!flow.is_branch() && !end.flow.is_branch() && !is_taken).then_some(None),
    }
}

/// The records of a stretch, and which of them have an address.
fn plain_records(words: &mut Words, stretch: &Stretch) -> Option<(Vec<record::Instruction>, Vec<usize>)> {
    let (mut records, mut slots) = (Vec::new(), Vec::new());
    let mut accesses = stretch.accesses.iter().peekable();
    let mut address = stretch.instructions.first()?.address;
    for (index, instruction) in stretch.instructions.iter().enumerate() {
        let access = accesses.next_if(|access| usize::from(access.index) == index);
        slots.extend(access.map(|_| index));
        records.push(plain_record(instruction, words.of(instruction.opcode?), access)?);
        if instruction.address != address || address % 4 != 0 {
            return None;
        }
        address = address.wrapping_add(4);
    }
    accesses.next().is_none().then_some((records, slots))
}

/// The record of an instruction that has nothing to it but this access, without its address.
fn plain_record(instruction: &Instruction, word: &Word, access: Option<&StretchAccess>) -> Option<record::Instruction> {
    let is_plain = instruction.isa == Isa::A64
        && instruction.za_index.is_none()
        && instruction.is_executed != Some(false)
        && !word.access.vector
        && is_address(instruction.address);
    let record = record::Instruction { iword: instruction.opcode?, pc: instruction.address, ..Default::default() };
    match access {
        _ if !is_plain => None,
        None => (!word.has_address).then_some(record),
        Some(access) => Some(record::Instruction {
            ea_valid: true,
            is_read: access.direction == Direction::Read,
            is_write: access.direction == Direction::Write,
            ea_size: u8::try_from(access.size.checked_sub(1)?).ok()?,
            ..record
        }),
    }
}

/// What of an address would be cut off.
#[inline]
fn odd_bits(address: u64) -> u64 {
    // The highest nine bits are all the same.
    ((address >> 55) + 1) & 0x1fe
}

/// Nothing is cut off of it.
fn is_address(address: u64) -> bool {
    address >> 56 == 0 || address >> 55 == 0x1ff
}
