//! Selection of the records of an ASTF or STF file, and of the lines of a Tarmac log.
//!
//! ```text
//! steps of the file, read a second time ─▶ SelectedRecords ─▶ whether a record belongs to a selected instruction
//! lines of the log ──────────────────────▶ SelectedLines ───▶ the same of a line
//! ```
//!
//! A record or line belongs to the instruction before it, a line to that of its core. What comes before the first
//! instruction belongs to none. Steps of a log with several cores are not in the order of its lines, so a log is not read
//! twice: its lines have addresses, levels and times, but no processes.

use std::collections::HashMap;
use std::io;

use unspool_analyze::step_selection::StepSelection;
use unspool_model::{Context, Event, Pull, Step};
use unspool_tarmac::clock::Clock;
use unspool_tarmac::record::{Line, Record, Stamp};
use unspool_tarmac::registers::Mode;

use crate::OpenedSteps;

/// Maximum number of cores of a log; lines of further ones are not selected.
const MAX_CORES: usize = 1 << 12;

/// Selects records by the steps that they become.
#[derive(Debug)]
pub struct SelectedRecords {
    selection: StepSelection,
    steps: Pull,
    context: Context,
    /// Whether the last instruction that was reached is selected.
    is_selected: bool,
    /// The record of the instruction after it, and whether that is selected.
    next: Option<(u64, bool)>,
    has_ended: bool,
}

impl SelectedRecords {
    /// Selects records of the file that these are the steps of.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn new(selection: StepSelection, steps: OpenedSteps) -> io::Result<Self> {
        let (context, steps) = (Context::default(), Pull::new(steps)?);
        Ok(Self { selection, steps, context, is_selected: false, next: None, has_ended: false })
    }

    /// Whether a record is selected. To be called with ascending numbers.
    pub fn has(&mut self, record: u64) -> bool {
        loop {
            match self.next {
                Some((at, _)) if at > record => return self.is_selected,
                Some((_, is_selected)) => self.is_selected = is_selected,
                None if self.has_ended => return self.is_selected,
                None => {}
            }
            self.next = self.advance();
        }
    }

    /// The next instruction.
    fn advance(&mut self) -> Option<(u64, bool)> {
        // Damage is reported by the reader of the records.
        while let Ok(Some(step)) = self.steps.next_step() {
            let Step { position, time, event, .. } = step;
            match event {
                Event::Context(context) => self.context = context.over(&self.context),
                Event::Gap(_) => self.context = Context::default(),
                Event::Instruction(found) => {
                    let Self { selection, context, .. } = self;
                    let is_selected = selection.has_address(found.address)
                        && selection.has_context(context)
                        && selection.has_time(*time);
                    return Some((*position, is_selected));
                }
                _ => {}
            }
        }
        self.has_ended = true;
        None
    }
}

/// Selects lines of a log.
#[derive(Debug)]
pub struct SelectedLines {
    selection: StepSelection,
    clock: Clock,
    time: Option<u64>,
    /// Whether the last instruction of a core is selected.
    cores: HashMap<Vec<u8>, bool>,
}

impl SelectedLines {
    /// Selects lines.
    pub fn new(selection: StepSelection) -> Self {
        Self { selection, clock: Clock::default(), time: None, cores: HashMap::new() }
    }

    /// Whether a line is selected. To be called with all lines in order.
    pub fn has(&mut self, line: &Line<'_>) -> bool {
        match line.stamp {
            Stamp::At(time) => self.time = Some(self.clock.count(time)),
            Stamp::Dashes => self.time = None,
            Stamp::Absent => {}
        }
        let name = line.core.unwrap_or_default();
        let Record::Instruction(instruction) = &line.record else {
            return self.cores.get(name).copied().unwrap_or(false);
        };
        let context = Context { level: Mode::of(instruction.mode).exception_level(), ..Context::default() };
        let is_at_address =
            instruction.address.map_or(self.selection.addresses.is_empty(), |at| self.selection.has_address(at));
        let is_selected = is_at_address && self.selection.has_context(&context) && self.selection.has_time(self.time);
        if let Some(known) = self.cores.get_mut(name) {
            *known = is_selected;
            return is_selected;
        }
        let is_followed = self.cores.len() < MAX_CORES;
        if is_followed {
            self.cores.insert(name.to_vec(), is_selected);
        }
        is_selected && is_followed
    }
}
