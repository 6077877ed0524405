//! What one source tells of a run, completed by another one.
//!
//! ```text
//! steps of A ───────────────────────────────▶ **joined** ─▶ steps of A, with accesses, registers, details of B
//! steps of A again, steps of B ─▶ partners ───┘
//! ```
//!
//! Instructions are paired as [`diff`](crate::diff) pairs them. What A says stays; what it cannot say is taken from the
//! partner, if there is a certain one. The first source is read twice, so that memory does not grow with the distance
//! between the two.

use std::ops::ControlFlow;

use unspool_model::{
    Context, Coverage, Event, Exception, Facet, Losses, Pull, SourceError, Step, StepSource, TimeUnit,
};

use crate::diff::{Differ, Options, Pair};

/// Steps that wait for the next instruction; more are handed out as they are.
const MOST: usize = 64;

/// A source that can be sent to a thread.
pub type Source = Box<dyn StepSource + Send>;

/// What can be taken from the other source. Details of exceptions and contexts are taken too.
const FACETS: [Facet; 3] = [Facet::Accesses, Facet::Data, Facet::Registers];

/// Hands out the steps of a source, completed by another one.
pub struct Join {
    source: Source,
    /// The same source a second time, and the other one.
    pairing: Option<[Source; 2]>,
    options: Options,
    added: Coverage,
}

impl Join {
    /// Completes a source, which is handed over twice, by another one. Of the options, cores and window count.
    pub fn new([source, again]: [Source; 2], other: Source, options: Options) -> Self {
        let (has, offered) = (source.coverage(), other.coverage());
        let added: Vec<Facet> = FACETS.into_iter().filter(|facet| !has.has(*facet) && offered.has(*facet)).collect();
        Self { source, pairing: Some([again, other]), options, added: Coverage::of(&added) }
    }
}

/// What two sources have in common.
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

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let Some(sources) = self.pairing.take() else { return Ok(()) };
        let partners = Pull::new(Partners { sources: Some(sources), options: self.options.clone() });
        let partners = partners.map_err(|error| SourceError { text: error.to_string(), is_damage: false })?;
        let mut joiner = Joiner::new(take, partners, self.options.cores[0], self.added);
        let (mut failure, mut is_stopped) = (None, false);
        let told = self.source.each(&mut |step| {
            let flow = joiner.step(step).unwrap_or_else(|error| {
                failure = Some(error);
                ControlFlow::Break(())
            });
            is_stopped |= flow.is_break();
            flow
        });
        if failure.is_none() {
            // Nothing follows that anybody could stop.
            let _ = joiner.release();
        }
        if !is_stopped && joiner.number > 0 && !joiner.is_paired {
            let text = "the other trace has no instruction in common with this one".to_string();
            failure = failure.or(Some(SourceError { text, is_damage: false }));
        }
        failure.map_or(told, Err)
    }

    fn losses(&self) -> Losses {
        self.source.losses()
    }
}

/// The steps of the second source that have a partner in the first; their place is the number of the partner.
struct Partners {
    sources: Option<[Source; 2]>,
    options: Options,
}

impl StepSource for Partners {
    fn coverage(&self) -> Coverage {
        Coverage::default()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let Some([first, second]) = self.sources.take() else { return Ok(()) };
        let pull =
            |source| Pull::new(source).map_err(|error| SourceError { text: error.to_string(), is_damage: false });
        let (mut step, mut context) = (Step::default(), Context::default());
        let ended = Differ::new(self.options.clone()).pairs([pull(first)?, pull(second)?], &mut |pair| {
            let around = pair.exceptions.iter().map(|exception| Event::Exception(*exception));
            let is_other = std::mem::replace(&mut context, *pair.context) != *pair.context;
            for event in around.chain(is_other.then_some(Event::Context(*pair.context))) {
                step.clear();
                (step.place, step.event) = (pair.number, event);
                take(&step)?;
            }
            partner(&mut step, pair);
            take(&step)
        });
        ended.map(|_| ()).map_err(|error| error.error)
    }
}

fn partner(step: &mut Step, pair: &Pair<'_>) {
    step.clone_from(pair.step);
    step.place = pair.number;
}

/// Joins steps with those of their partners.
struct Joiner<'t> {
    take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    partners: Pull,
    core: u32,
    added: Coverage,
    /// Instructions so far.
    number: u64,
    /// The next partner, with what came before it; nothing, if there are no more.
    partner: Partner,
    has_partner: bool,
    /// An instruction had a partner.
    is_paired: bool,
    /// What waits for the next instruction.
    waiting: Vec<Step>,
    waits: usize,
    /// The state as the first source tells it, and as it was handed out.
    context: Context,
    told: Context,
    step: Step,
}

/// An instruction of the second source.
#[derive(Default)]
struct Partner {
    step: Step,
    exceptions: Vec<Exception>,
    context: Context,
}

impl<'t> Joiner<'t> {
    fn new(take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>, partners: Pull, core: u32, added: Coverage) -> Self {
        Self {
            take,
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
            told: Context::default(),
            step: Step::default(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<ControlFlow<()>, SourceError> {
        if step.core != self.core {
            return Ok((self.take)(step));
        }
        if step.event.instruction().is_none() {
            return Ok(self.wait(step));
        }
        let is_paired = self.look_for_partner()?;
        self.is_paired |= is_paired;
        self.number += 1;
        Ok(if is_paired { self.paired(step) } else { self.alone(step) })
    }

    /// What comes before an instruction waits for the partner of that, which may know more of it.
    fn wait(&mut self, step: &Step) -> ControlFlow<()> {
        if self.waits == MOST {
            self.release()?;
        }
        if self.waits == self.waiting.len() {
            self.waiting.push(Step::default());
        }
        self.waiting[self.waits].clone_from(step);
        self.waits += 1;
        ControlFlow::Continue(())
    }

    /// Goes on in the second source. True: the next instruction has a partner.
    fn look_for_partner(&mut self) -> Result<bool, SourceError> {
        let is_passed = self.partner.step.event.instruction().is_none() || self.partner.step.place < self.number;
        if self.has_partner && is_passed {
            self.has_partner = self.next_partner()?;
        }
        Ok(self.has_partner && self.partner.step.place == self.number)
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
        self.hand_out(true)?;
        let context = self.context.over(&self.partner.context);
        if context != self.told {
            self.told = context;
            let mut change = std::mem::take(&mut self.step);
            change.clear();
            (change.core, change.place, change.time) = (step.core, step.place, step.time);
            change.event = Event::Context(context);
            let flow = (self.take)(&change);
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
        (self.take)(&self.step)
    }

    fn alone(&mut self, step: &Step) -> ControlFlow<()> {
        self.release()?;
        (self.take)(step)
    }

    /// What waits has as many exceptions as came before the partner: they are the same ones.
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

    /// Hands out what waits, as it is.
    fn release(&mut self) -> ControlFlow<()> {
        self.hand_out(false)
    }

    /// Hands out what waits. Where a context will be told that says more, those that wait are not.
    fn hand_out(&mut self, is_paired: bool) -> ControlFlow<()> {
        let waits = std::mem::take(&mut self.waits);
        for step in &self.waiting[..waits] {
            match step.event {
                Event::Context(context) => {
                    self.context = context.over(&self.context);
                    if is_paired {
                        continue;
                    }
                    self.told = context.over(&self.told);
                }
                Event::Gap(_) => (self.context, self.told) = (Context::default(), Context::default()),
                _ => {}
            }
            (self.take)(step)?;
        }
        ControlFlow::Continue(())
    }
}
