//! Notes: lines that belong to no step.
//!
//! Such lines can be among the lines of a step and must not split it, so they are held until the step is emitted.

use std::ops::ControlFlow;

use unspool_model::{Event, Gap};

use super::super::annotation::Annotation;
use super::super::lift::Lifter;
use super::super::parse::may_be_instruction;
use super::super::read::Position;
use super::super::record::{Line, ProblemKind, Purpose, Record};
use super::emitter::{Note, StepEmitter};

/// Maximum number of held notes; a step has fewer lines.
const MAX_PENDING: usize = 1 << 10;

/// Whether a line belongs to no step but has content.
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
    /// Adds a note to the core of the line, or of the previous line if it names none.
    pub(super) fn note(&mut self, position: Position, line: &Line<'_>, lifter: &Lifter) -> ControlFlow<()> {
        let (core, time) = (lifter.core(), lifter.time().map(|time| self.clock.count(time)));
        let text = String::from_utf8_lossy(text(line).trim_ascii()).into_owned();
        let pending = &mut self.core(core, position.line).notes;
        let (line_number, gap) = (position.line, gap(line));
        if matches!(gap, Some(Gap::Damaged) | None) {
            pending.push(Note { line: line_number, time, text, gap: None });
        }
        if gap.is_some() {
            pending.push(Note { line: line_number, time, text: String::new(), gap });
        }
        let is_first = self.cores[core].hold.is_empty() && !lifter.has_open_step();
        if is_first || self.cores[core].notes.len() > MAX_PENDING {
            self.push_all_notes(core)?;
            return self.release(core, None);
        }
        ControlFlow::Continue(())
    }

    /// Emits the notes above a line, as far as no held step has to be released for them.
    #[inline]
    pub(super) fn push_notes_before(&mut self, core: usize, line: u64) -> ControlFlow<()> {
        if self.cores[core].notes.is_empty() {
            return ControlFlow::Continue(());
        }
        self.push_notes(core, line)
    }

    /// Emits the notes above a line, releasing held steps as needed.
    #[inline]
    pub(super) fn push_notes_up_to(&mut self, core: usize, line: u64) -> ControlFlow<()> {
        while self.cores[core].notes.first().is_some_and(|note| note.line < line) {
            self.push_notes(core, line)?;
            self.release(core, None)?;
        }
        ControlFlow::Continue(())
    }

    pub(super) fn push_all_notes(&mut self, core: usize) -> ControlFlow<()> {
        while !self.cores[core].notes.is_empty() {
            if self.cores[core].hold.is_full() {
                self.release(core, None)?;
            }
            self.push_notes(core, u64::MAX)?;
        }
        ControlFlow::Continue(())
    }

    #[cold]
    fn push_notes(&mut self, core: usize, line: u64) -> ControlFlow<()> {
        let (number, known) = (core as u32, &mut self.cores[core]);
        let before = known.notes.iter().take_while(|note| note.line < line).count();
        let mut pushed = 0;
        for note in &known.notes[..before] {
            if known.hold.is_full() {
                break;
            }
            let step = known.hold.push();
            step.set_note(&note.text);
            (step.core, step.position, step.time) = (number, note.line, note.time);
            if let Some(gap) = note.gap {
                step.event = Event::Gap(gap);
                (known.last, known.context) = (None, None);
            }
            pushed += 1;
        }
        known.notes.drain(..pushed);
        ControlFlow::Continue(())
    }
}

/// The gap that a line marks: one of our annotations, or a malformed line that may have been an instruction. Any other
/// malformed line loses at most an effect.
fn gap(line: &Line<'_>) -> Option<Gap> {
    match line.record {
        Record::Comment(text) => match Annotation::parse(text)? {
            Annotation::Step { event: Event::Gap(gap), .. } => Some(gap),
            _ => None,
        },
        Record::Unknown(problem) if problem.kind == ProblemKind::UnknownTag => None,
        Record::Unknown(_) => may_be_instruction(line.raw).then_some(Gap::Damaged),
        _ => None,
    }
}

/// Text of a line without its time and core.
fn text<'a>(line: &Line<'a>) -> &'a [u8] {
    let tag = match line.record {
        Record::Opaque(opaque) => opaque.tag,
        Record::Transfer(access) | Record::Bus(access) | Record::Access(access) => access.tag,
        Record::Event(_) => b"E",
        Record::Operation(_) => b"R",
        _ => return line.raw,
    };
    let starts = |at: usize| at == 0 || matches!(line.raw[at - 1], b' ' | b'\t');
    let found = line.raw.windows(tag.len()).enumerate().find(|(at, word)| *word == tag && starts(*at));
    found.map_or(line.raw, |(at, _)| &line.raw[at..])
}
