//! Joining two sources of one run: the steps of the first, completed by the second.
//!
//! ```text
//! steps of A ───────────────────────────────▶ joiner ─▶ steps of A, with accesses, registers, details of B
//! steps of A again, steps of B ─▶ partners ───┘
//! ```
//!
//! Instructions are paired as in [`diff`](crate::diff). Information of A is kept; information that A cannot provide
//! comes from the partner, if the pairing is certain. The first source is read twice, so that memory use does not grow
//! with the distance between the two.

use std::ops::ControlFlow;

use unspool_model::{
    Context, Coverage, Event, Exception, Facet, Losses, Pull, SourceError, Step, StepSource, TimeUnit,
};

use crate::diff::{Differ, Options};

/// Maximum number of steps that wait for the next instruction; beyond it, they are emitted unchanged.
const MAX_WAITING: usize = 64;

/// A source that can be sent to a thread.
pub type Source = Box<dyn StepSource + Send>;

/// Facets that are added from the other source, besides details of exceptions and contexts.
const FACETS: [Facet; 3] = [Facet::Accesses, Facet::Data, Facet::Registers];

/// The steps of a source, completed by another source.
pub struct Join {
    source: Source,
    /// The same source again, and the other source.
    pairing: Option<[Source; 2]>,
    options: Options,
    added: Coverage,
}

impl Join {
    /// Completes a source, which is given twice, by another one. Of the options, only cores and window are used.
    pub fn new([source, again]: [Source; 2], other: Source, options: Options) -> Self {
        let (has, offered) = (source.coverage(), other.coverage());
        let added: Vec<Facet> = FACETS.into_iter().filter(|facet| !has.has(*facet) && offered.has(*facet)).collect();
        Self { source, pairing: Some([again, other]), options, added: Coverage::of(&added) }
    }
}

/// Common part of two sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Common {
    /// Instructions.
    Instructions,
    /// Nothing: the second source has no instruction of the chosen core.
    NoSuchCore,
    /// Nothing.
    Nothing,
}

/// Compares two sources up to the first instruction that both have; `None`: they cannot be read.
pub fn common(sources: [Source; 2], options: Options) -> Option<Common> {
    let [Ok(one), Ok(other)] = sources.map(Pull::new) else { return None };
    let core = options.cores[1];
    let mut is_paired = false;
    let summary = Differ::new(options).pairs([one, other], &mut |_| {
        is_paired = true;
        ControlFlow::Break(())
    });
    let summary = summary.ok()?;
    let has_core = summary.instructions[1] > 0 || core == 0 && summary.other_cores[1] == 0;
    Some(match (is_paired, has_core) {
        (true, _) => Common::Instructions,
        (false, false) => Common::NoSuchCore,
        (false, true) => Common::Nothing,
    })
}

impl StepSource for Join {
    fn coverage(&self) -> Coverage {
        self.added.iter().fold(self.source.coverage(), Coverage::with)
    }

    fn time_unit(&self) -> TimeUnit {
        self.source.time_unit()
    }

    fn each(&mut self, sink: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let Some(sources) = self.pairing.take() else { return Ok(()) };
        let partners = Pull::new(Partners { sources: Some(sources), options: self.options.clone() });
        let partners = partners.map_err(SourceError::unreadable)?;
        let mut joiner = Joiner::new(sink, partners, self.options.cores[0], self.added);
        let (mut failure, mut is_stopped) = (None, false);
        let result = self.source.each(&mut |step| {
            let flow = joiner.step(step).unwrap_or_else(|error| {
                failure = Some(error);
                ControlFlow::Break(())
            });
            is_stopped |= flow.is_break();
            flow
        });
        if failure.is_none() {
            // A break has no effect here: nothing follows.
            let _ = joiner.emit_waiting(false);
        }
        if !is_stopped && joiner.number > 0 && !joiner.is_paired {
            let text = "the two traces have no instruction in common".to_string();
            failure = failure.or(Some(SourceError::unreadable(text)));
        }
        failure.map_or(result, Err)
    }

    fn losses(&self) -> Losses {
        self.source.losses()
    }
}

/// The steps of the second source that have a partner in the first. Their `position` is the number of the partner.
struct Partners {
    sources: Option<[Source; 2]>,
    options: Options,
}

impl StepSource for Partners {
    fn coverage(&self) -> Coverage {
        Coverage::default()
    }

    fn each(&mut self, sink: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let Some([first, second]) = self.sources.take() else { return Ok(()) };
        let pull = |source| Pull::new(source).map_err(SourceError::unreadable);
        let (mut step, mut context) = (Step::default(), Context::default());
        let ended = Differ::new(self.options.clone()).pairs([pull(first)?, pull(second)?], &mut |pair| {
            let around = pair.exceptions.iter().map(|exception| Event::Exception(*exception));
            let is_changed = std::mem::replace(&mut context, *pair.context) != *pair.context;
            for event in around.chain(is_changed.then_some(Event::Context(*pair.context))) {
                step.clear();
                (step.position, step.event) = (pair.number, event);
                sink(&step)?;
            }
            step.clone_from(pair.step);
            step.position = pair.number;
            sink(&step)
        });
        ended.map(|_| ()).map_err(|error| error.error)
    }
}

/// Joins steps with their partners.
struct Joiner<'t> {
    sink: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    partners: Pull,
    core: u32,
    added: Coverage,
    /// Number of instructions so far.
    number: u64,
    /// The next partner; meaningless if there are no more.
    partner: Partner,
    has_partner: bool,
    /// Whether any instruction had a partner.
    is_paired: bool,
    /// Steps that wait for the next instruction: the first `waits` of a reused list.
    waiting: Vec<Step>,
    waits: usize,
    /// The context of the first source, and the context that was emitted.
    context: Context,
    emitted: Context,
    step: Step,
}

/// An instruction of the second source, with the exceptions before it.
#[derive(Default)]
struct Partner {
    step: Step,
    exceptions: Vec<Exception>,
    context: Context,
}

impl<'t> Joiner<'t> {
    fn new(sink: &'t mut dyn FnMut(&Step) -> ControlFlow<()>, partners: Pull, core: u32, added: Coverage) -> Self {
        Self {
            sink,
            partners,
            core,
            added,
            number: 0,
            partner: Partner::default(),
            has_partner: true,
            is_paired: false,
            waiting: Vec::new(),
            waits: 0,
            context: Context::default(),
            emitted: Context::default(),
            step: Step::default(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<ControlFlow<()>, SourceError> {
        if step.core != self.core {
            return Ok((self.sink)(step));
        }
        if step.event.instruction().is_none() {
            return Ok(self.wait(step));
        }
        let is_paired = self.find_partner()?;
        self.is_paired |= is_paired;
        self.number += 1;
        Ok(if is_paired { self.paired(step) } else { self.alone(step) })
    }

    /// Holds a step until the next instruction, whose partner may have more details.
    fn wait(&mut self, step: &Step) -> ControlFlow<()> {
        if self.waits == MAX_WAITING {
            self.emit_waiting(false)?;
        }
        if self.waits == self.waiting.len() {
            self.waiting.push(Step::default());
        }
        self.waiting[self.waits].clone_from(step);
        self.waits += 1;
        ControlFlow::Continue(())
    }

    /// Advances the second source and returns whether the next instruction has a partner.
    fn find_partner(&mut self) -> Result<bool, SourceError> {
        let is_passed = self.partner.step.event.instruction().is_none() || self.partner.step.position < self.number;
        if self.has_partner && is_passed {
            self.has_partner = self.next_partner()?;
        }
        Ok(self.has_partner && self.partner.step.position == self.number)
    }

    fn next_partner(&mut self) -> Result<bool, SourceError> {
        self.partner.exceptions.clear();
        while let Some(step) = self.partners.next_step()? {
            match step.event {
                Event::Exception(exception) => self.partner.exceptions.push(exception),
                Event::Context(context) => self.partner.context = context,
                _ => {
                    self.partner.step.clone_from(step);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn paired(&mut self, step: &Step) -> ControlFlow<()> {
        self.complete_exceptions();
        self.emit_waiting(true)?;
        let context = self.context.over(&self.partner.context);
        if context != self.emitted {
            self.emitted = context;
            let mut change = std::mem::take(&mut self.step);
            change.clear();
            (change.core, change.position, change.time) = (step.core, step.position, step.time);
            change.event = Event::Context(context);
            let flow = (self.sink)(&change);
            self.step = change;
            flow?;
        }
        self.step.clone_from(step);
        if self.added.has(Facet::Accesses) {
            let with_data = self.added.has(Facet::Data);
            self.step.take_accesses(&self.partner.step, with_data);
        }
        if self.added.has(Facet::Registers) {
            self.step.take_registers(&self.partner.step);
        }
        (self.sink)(&self.step)
    }

    fn alone(&mut self, step: &Step) -> ControlFlow<()> {
        self.emit_waiting(false)?;
        (self.sink)(step)
    }

    /// Completes the waiting exceptions. If there are as many as before the partner, they are the same ones.
    fn complete_exceptions(&mut self) {
        let waiting = self.waiting[..self.waits].iter_mut();
        let mut raised: Vec<&mut Exception> = waiting
            .filter_map(|step| match &mut step.event {
                Event::Exception(exception) => Some(exception),
                _ => None,
            })
            .collect();
        if raised.len() != self.partner.exceptions.len() {
            return;
        }
        for (exception, other) in raised.iter_mut().zip(&self.partner.exceptions) {
            exception.class = exception.class.or(other.class);
            exception.call = exception.call.or(other.call);
            exception.is_virtual = exception.is_virtual.or(other.is_virtual);
            exception.target = exception.target.or(other.target);
        }
    }

    /// Emits the waiting steps: unchanged without a partner. With one, contexts are dropped: a more detailed one follows.
    fn emit_waiting(&mut self, is_paired: bool) -> ControlFlow<()> {
        let waits = std::mem::take(&mut self.waits);
        for step in &self.waiting[..waits] {
            match step.event {
                Event::Context(context) => {
                    self.context = context.over(&self.context);
                    if is_paired {
                        continue;
                    }
                    self.emitted = context.over(&self.emitted);
                }
                Event::Gap(_) => (self.context, self.emitted) = (Context::default(), Context::default()),
                _ => {}
            }
            (self.sink)(step)?;
        }
        ControlFlow::Continue(())
    }
}
