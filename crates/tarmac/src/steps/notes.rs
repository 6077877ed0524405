//! Lines that tell no step, as notes.
//!
//! They stand among the lines of a step and must not cut it in two, so they wait until it is told.

use std::ops::ControlFlow;

use unspool_model::{Event, Gap};

use super::super::lift::Lifter;
use super::super::lower::annotation::Annotation;
use super::super::parse::may_lead;
use super::super::read::Place;
use super::super::record::{Line, ProblemKind, Purpose, Record};
use super::StepEmitter;

/// Notes that may wait; a step has not that many lines.
const MOST: usize = 1 << 10;

/// Notes that wait.
#[derive(Debug, Default)]
pub(super) struct Notes {
    waiting: Vec<Note>,
}

#[derive(Debug)]
struct Note {
    line: u64,
    time: Option<u64>,
    text: String,
    /// It says that something is missing.
    gap: Option<Gap>,
}

/// Is it a line that tells no step, but something?
#[inline(always)]
pub(super) fn is_note(record: &Record<'_>) -> bool {
    match record {
        Record::Comment(_) | Record::Opaque(_) | Record::Unknown(_) => true,
        Record::Operation(_) | Record::Transfer(_) | Record::Flow(_) | Record::Bus(_) => true,
        Record::Access(access) => access.purpose == Purpose::Fetch,
        Record::Event(event) => !event.is_exception,
        _ => false,
    }
}

impl StepEmitter<'_> {
    /// A note, of the core that the line belongs to or of that of the line before.
    pub(super) fn note(&mut self, place: Place, line: &Line<'_>, lifter: &Lifter) -> ControlFlow<()> {
        let (core, time) = (lifter.core(), lifter.time().map(|time| self.clock.count(time)));
        while self.cores.len() <= core {
            self.cores.push(super::Core { first: place.line, ..super::Core::default() });
        }
        let text = String::from_utf8_lossy(text(line).trim_ascii()).into_owned();
        let waiting = &mut self.cores[core].notes.waiting;
        let (line_number, gap) = (place.line, gap(line));
        match gap {
            Some(Gap::Damaged) | None => waiting.push(Note { line: line_number, time, text, gap: None }),
            Some(_) => {}
        }
        if gap.is_some() {
            waiting.push(Note { line: line_number, time, text: String::new(), gap });
        }
        let is_first = self.cores[core].hold.is_empty() && !lifter.is_open();
        if is_first || self.cores[core].notes.waiting.len() > MOST {
            self.all_notes(core)?;
            return self.release(core, None);
        }
        ControlFlow::Continue(())
    }

    /// Tells notes that stand before a line, as long as nothing has to be told for that which should wait.
    #[inline]
    pub(super) fn notes_before(&mut self, core: usize, line: u64) -> ControlFlow<()> {
        if self.cores[core].notes.waiting.is_empty() {
            return ControlFlow::Continue(());
        }
        self.tell_notes(core, line)
    }

    /// Tells notes that stand before a line. Nothing waits any more.
    #[inline]
    pub(super) fn notes_now(&mut self, core: usize, line: u64) -> ControlFlow<()> {
        while self.cores[core].notes.waiting.first().is_some_and(|note| note.line < line) {
            self.tell_notes(core, line)?;
            self.release(core, None)?;
        }
        ControlFlow::Continue(())
    }

    /// Tells all notes.
    pub(super) fn all_notes(&mut self, core: usize) -> ControlFlow<()> {
        while !self.cores[core].notes.waiting.is_empty() {
            if self.cores[core].hold.is_full() {
                self.release(core, None)?;
            }
            self.tell_notes(core, u64::MAX)?;
        }
        ControlFlow::Continue(())
    }

    #[cold]
    fn tell_notes(&mut self, core: usize, line: u64) -> ControlFlow<()> {
        let (number, known) = (core as u32, &mut self.cores[core]);
        let before = known.notes.waiting.iter().take_while(|note| note.line < line).count();
        let mut told = 0;
        for note in &known.notes.waiting[..before] {
            if known.hold.is_full() {
                break;
            }
            let step = known.hold.push();
            step.set_note(&note.text);
            (step.core, step.place, step.time) = (number, note.line, note.time);
            if let Some(gap) = note.gap {
                step.event = Event::Gap(gap);
                (known.last, known.context) = (None, None);
            }
            told += 1;
        }
        known.notes.waiting.drain(..told);
        ControlFlow::Continue(())
    }
}

/// Whether a line says that something is missing: a remark of ours, or a line that cannot be understood and may have been
/// an instruction. Of others, an effect is missing at most.
fn gap(line: &Line<'_>) -> Option<Gap> {
    match line.record {
        Record::Comment(text) => match Annotation::parse(text)? {
            Annotation::Step { event: Event::Gap(gap), .. } => Some(gap),
            _ => None,
        },
        Record::Unknown(problem) if problem.kind == ProblemKind::UnknownTag => None,
        Record::Unknown(_) => may_lead(line.raw).then_some(Gap::Damaged),
        _ => None,
    }
}

/// What a line says, without its time and its core.
fn text<'a>(line: &Line<'a>) -> &'a [u8] {
    let tag = match line.record {
        Record::Opaque(told) => told.tag,
        Record::Transfer(access) | Record::Bus(access) | Record::Access(access) => access.tag,
        Record::Event(_) => b"E",
        Record::Operation(_) => b"R",
        _ => return line.raw,
    };
    let starts = |at: usize| at == 0 || matches!(line.raw[at - 1], b' ' | b'\t');
    let found = line.raw.windows(tag.len()).enumerate().find(|(at, word)| *word == tag && starts(*at));
    found.map_or(line.raw, |(at, _)| &line.raw[at..])
}
