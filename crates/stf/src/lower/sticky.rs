//! Annotations that stay in effect until the next one of their kind: time, instruction set, context.
//!
//! groups in order ─▶ **state** ─▶ annotations that restore it where a trace is cut
//!
//! Used only for traces whose header announces annotations.

use unspool_model::{Context, Event, Gap, Isa, Step};

use super::super::lift::Instruction;
use super::super::record::Record;
use super::annotation::{self, Annotation, Part};
use super::annotation_writer::AnnotationWriter;

/// The annotations in effect.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StickyAnnotations {
    time: Option<u64>,
    isa: Isa,
    context: Option<Context>,
}

impl StickyAnnotations {
    /// Updates the state with the annotations of a group.
    pub(crate) fn follow(&mut self, instruction: &Instruction<'_>) {
        if instruction.records == 1 {
            return;
        }
        for record in instruction.group() {
            let Record::Comment(text) = record else { continue };
            let Some((_, annotation)) = annotation::parse(text) else { continue };
            match annotation {
                Annotation::Time(time) => self.time = time,
                Annotation::TimeDelta(delta) => self.time = self.time.map(|time| time.wrapping_add(delta)),
                Annotation::Isa(isa) => self.isa = isa,
                Annotation::Context(context) => self.context = Some(context.over(&self.context.unwrap_or_default())),
                Annotation::Gap(_) => self.context = None,
                _ => {}
            }
        }
    }

    /// Writes the state at the start of a group. `is_cut`: instructions before it were left out.
    pub(crate) fn write(&self, is_cut: bool, group: &Instruction<'_>, bytes: &mut Vec<u8>) {
        let (writer, part) = (&mut AnnotationWriter::default(), &mut Part::Same);
        if self.time.is_some() {
            writer.time(bytes, part, self.time, None);
        }
        if self.isa != Isa::default() || is_cut {
            writer.isa(bytes, part, self.isa);
        }
        let mut step = Step::default();
        let events = [is_cut.then_some(Event::Gap(Gap::Start)), self.context.map(Event::Context)];
        for event in events.into_iter().flatten() {
            step.event = event;
            writer.step(bytes, part, &step);
        }
        let is_now = |record| matches!(record, Record::Comment(text) if is_now(text));
        // Annotations of the group are about its instruction, unless one of them has a `now` of its own.
        if (is_cut || self.context.is_some()) && !group.group().any(is_now) {
            writer.part(bytes, Part::Now);
        }
    }
}

fn is_now(text: &[u8]) -> bool {
    matches!(annotation::parse(text), Some((Part::Now, _)))
}
