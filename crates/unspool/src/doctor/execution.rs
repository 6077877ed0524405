//! Counts of what a source executed, and of what could not be followed.
//!
//! Takes the flow of a source in each of its buffers; produces totals and first offsets. Memory is bounded by the number of
//! images, and by that of [`MissingCode`].

use std::collections::BTreeMap;

use unspool_coresight::{Broken, Element, ElementError, ElementItem, Located, Malformed, Sink, Transactions};
use unspool_flow::{Around, Cause, Finding, FlowItem, FlowSink, Item, Run, Space};

use crate::check::MissingCode;
use crate::{Error, Program, Trace, Watch};

/// Execution of one source.
#[derive(Debug, Default)]
pub(super) struct Execution {
    pub(super) instructions: u64,
    /// P0 elements that were followed.
    pub(super) followed: u64,
    /// P0 elements that were not, by cause.
    pub(super) without_address: Tally,
    pub(super) after_mismatch: Tally,
    pub(super) ambiguous: Tally,
    pub(super) speculative: u64,
    pub(super) overflows: Tally,
    pub(super) discards: Tally,
    /// Packets and elements that are damaged, with the first error.
    pub(super) damaged: Tally,
    pub(super) damaged_bytes: u64,
    pub(super) first_damage: Option<Broken>,
    /// Buffers that end inside a packet.
    pub(super) truncated: Tally,
    /// P0 elements lost to each image that has no code.
    pub(super) images: BTreeMap<String, Tally>,
    /// Code that no image is known for.
    pub(super) regions: MissingCode,
    /// Contradictions between trace and code, by image.
    pub(super) contradictions: BTreeMap<Option<String>, Contradictions>,
    /// The trace contains context identifiers.
    pub(super) has_context_ids: bool,
    /// Elements of software trace: values that software wrote, and observations of a DWT.
    pub(super) written: u64,
    /// Buffers that were followed.
    pub(super) sessions: u64,
}

/// A count, and the first place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) first: Option<Position>,
}

/// An offset in a buffer of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) buffer: usize,
    pub(super) offset: u64,
}

impl Tally {
    fn add(&mut self, count: u64, at: Position) {
        self.count += count;
        self.first.get_or_insert(at);
    }
}

/// Contradictions in one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contradictions {
    pub(super) tally: Tally,
    pub(super) first: Finding,
}

impl Execution {
    /// P0 elements of the trace, followed or not.
    pub(super) fn elements(&self) -> u64 {
        self.followed + self.without_code() + self.ambiguous.count + self.dropped() + self.speculative
    }

    /// P0 elements that were lost to missing code.
    pub(super) fn without_code(&self) -> u64 {
        self.images.values().map(|tally| tally.count).sum::<u64>() + self.regions.elements()
    }

    fn dropped(&self) -> u64 {
        self.without_address.count + self.after_mismatch.count
    }

    /// Follows the trace in one buffer.
    pub(super) fn follow(
        &mut self,
        trace: &Trace<'_>,
        program: &Program,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let buffer = trace.buffer_index();
        if !trace.has_instructions() {
            trace.elements(&mut SoftwareCounter { execution: self, buffer, progress })?;
            self.sessions += 1;
            return Ok(());
        }
        let mut counter =
            Counter { execution: self, program, buffer, last_run: None, around: Around::default(), progress };
        let speculative = trace.flow(Transactions::Show, program, &mut counter)?;
        self.speculative += speculative;
        self.sessions += 1;
        Ok(())
    }

    fn lost(&mut self, program: &Program, item: &Located<Item>, at: Position, (elements, cause): (u64, Cause)) {
        match cause {
            Cause::NoCode { address, space } => self.missing(program, item, at, (elements, address, space)),
            Cause::Ambiguous { .. } => self.ambiguous.add(elements, at),
            Cause::NoAddress => self.without_address.add(elements, at),
            Cause::Disagreement => self.after_mismatch.add(elements, at),
        }
    }

    /// Counts missing code by its image, or by region if no image is known.
    fn missing(
        &mut self,
        program: &Program,
        item: &Located<Item>,
        at: Position,
        (elements, address, space): (u64, u64, Space),
    ) {
        match program.image_at(address, space) {
            None => self.regions.add(&Ok(*item)),
            Some(image) => match self.images.get_mut(image) {
                Some(tally) => tally.add(elements, at),
                None => {
                    self.images.insert(image.to_string(), Tally { count: elements, first: Some(at) });
                }
            },
        }
    }

    fn contradiction(&mut self, image: Option<String>, finding: Finding, at: Position) {
        let known = self.contradictions.entry(image);
        known.or_insert(Contradictions { tally: Tally::default(), first: finding }).tally.add(1, at);
    }

    fn error(&mut self, error: &ElementError, at: Position) {
        match error.kind {
            kind if kind.is_ordinary() => {}
            Broken::Packet(Malformed::Truncated) => self.truncated.add(1, at),
            kind => {
                self.damaged.add(1, at);
                self.damaged_bytes += error.skipped;
                self.first_damage.get_or_insert(kind);
            }
        }
    }
}

/// Counts the flow of one buffer.
struct Counter<'e> {
    execution: &'e mut Execution,
    program: &'e Program,
    /// Index of the buffer.
    buffer: usize,
    /// Offset of the last run.
    last_run: Option<u64>,
    around: Around,
    progress: &'e mut dyn FnMut(u64, u64),
}

impl Counter<'_> {
    fn at(&self, offset: u64) -> Position {
        Position { buffer: self.buffer, offset }
    }

    /// The image that a contradiction is in, if the context is known.
    fn image_of(&self, finding: &Finding) -> Option<String> {
        let context = self.around.context?;
        let space = Space { map: self.around.map, ..Space::new(context.security, context.el) };
        self.program.image_at(address_of(finding)?, space).map(str::to_string)
    }

    fn element(&mut self, item: &Located<Item>) {
        let (program, at) = (self.program, self.at(item.offset));
        match item.value {
            // The range up to an exception belongs to no atom, and `Item::Lost` counts atoms.
            Item::Exception { .. } if self.last_run.take() == Some(item.offset) => {
                self.execution.followed = self.execution.followed.saturating_sub(1);
            }
            Item::Overflow => self.execution.overflows.add(1, at),
            Item::Discard { .. } => self.execution.discards.add(1, at),
            Item::Context(context) => {
                self.execution.has_context_ids |= context.context_id.is_some() || context.vmid.is_some();
            }
            Item::Lost { elements, cause } => self.execution.lost(program, item, at, (elements, cause)),
            Item::NoCode { address, space, .. } => self.execution.missing(program, item, at, (0, address, space)),
            // The elements that are lost to it are counted.
            Item::Finding(Finding::AmbiguousImage { .. }) => self.execution.ambiguous.add(0, at),
            Item::Finding(finding) => {
                let image = self.image_of(&finding);
                self.execution.contradiction(image, finding, at);
            }
            _ => {}
        }
    }
}

/// Where the code contradicts the trace.
fn address_of(finding: &Finding) -> Option<u64> {
    match *finding {
        Finding::NotTaken { at }
        | Finding::Conditional { at, .. }
        | Finding::ReturnAddress { at, .. }
        | Finding::SourceAddress { at, .. } => Some(at),
        Finding::Unreachable { expected, .. } => Some(expected),
        Finding::Runaway { start } => Some(start),
        Finding::AmbiguousImage { address } => Some(address),
        _ => None,
    }
}

impl FlowSink for Counter<'_> {
    fn run(&mut self, run: Run<'_>) {
        self.last_run = Some(run.offset());
        self.execution.followed += run.len() as u64;
        self.execution.instructions += run.instructions();
    }

    fn item(&mut self, item: FlowItem) {
        match &item {
            Ok(located) => self.element(located),
            Err(error) => self.execution.error(error, self.at(error.offset)),
        }
        self.around.update(&item);
    }
}

impl Watch for Counter<'_> {
    fn progress(&mut self, read: u64, total: u64) {
        (self.progress)(read, total);
    }
}

/// Counts the elements of one buffer without instructions.
struct SoftwareCounter<'e> {
    execution: &'e mut Execution,
    /// Index of the buffer.
    buffer: usize,
    progress: &'e mut dyn FnMut(u64, u64),
}

impl Sink<ElementItem> for SoftwareCounter<'_> {
    fn item(&mut self, item: ElementItem) {
        let at = |offset| Position { buffer: self.buffer, offset };
        match item {
            Ok(Located { offset, value: Element::Overflow, .. }) => self.execution.overflows.add(1, at(offset)),
            Ok(_) => self.execution.written += 1,
            Err(error) => self.execution.error(&error, at(error.offset)),
        }
    }
}

impl Watch for SoftwareCounter<'_> {
    fn progress(&mut self, read: u64, total: u64) {
        (self.progress)(read, total);
    }
}
