//! Where the listing starts: `--at PLACE`, in each source by itself.
//!
//! runs of ranges, place ─▶ **skipped** up to the run that has it ─▶ instructions from it on
//!
//! Runs before the place are counted and not expanded. Knows no form of output.

use unspool::capture::Clock;
use unspool::coresight::frame::FrameError;
use unspool::flow::{Around, FlowItem, FlowSink, Instruction, InstructionSink, Instructions, Range, Run};
use unspool::model::TimeUnit;
use unspool::place::Place;
use unspool::tarmac::record::Unit;
use unspool::{Program, Trace, Watch};

/// The place that the listing of a source starts at, until it is reached.
#[derive(Debug)]
pub(super) struct Start {
    place: Place,
    /// Addresses, if it is a place of code.
    addresses: Vec<u64>,
    clock: Clock,
    /// Number of instructions before the current one.
    seen: u64,
}

impl Start {
    /// Fails if the program has no such function.
    pub(super) fn new(place: &Place, program: &Program, trace: &Trace<'_>) -> anyhow::Result<Self> {
        let addresses = place.addresses(program).map_err(anyhow::Error::msg)?;
        Ok(Self { place: place.clone(), addresses, clock: trace.clock(), seen: 0 })
    }

    /// Reading starts after this many instructions.
    pub(super) fn after(self, instructions: u64) -> Self {
        Self { seen: instructions, ..self }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Addresses, if it is a place of code.
    pub(super) fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// Is a run before the place? It is then counted.
    fn skips(&mut self, run: &Run<'_>, around: &Around) -> bool {
        let is_before = match self.place {
            Place::Instruction(number) => self.seen.saturating_add(run.instructions()) < number,
            Place::Position(offset) => run.offset() < offset,
            Place::Time(_) => !self.is_time_reached(around),
            Place::Address(_) | Place::Function(_) => !run.ranges().any(|range| self.is_in(&range)),
        };
        if is_before {
            self.seen = self.seen.saturating_add(run.instructions());
        }
        is_before
    }

    /// Is a range before the place? It is then counted.
    pub(super) fn skips_range(&mut self, range: &Range<'_>, offset: u64, around: &Around) -> bool {
        let count = u64::from(range.instructions());
        let is_before = match self.place {
            Place::Instruction(number) => self.seen.saturating_add(count) < number,
            Place::Position(wanted) => offset < wanted,
            Place::Time(_) => !self.is_time_reached(around),
            Place::Address(_) | Place::Function(_) => !self.is_in(range),
        };
        self.seen = self.seen.saturating_add(count);
        is_before
    }

    /// Is an instruction before the place? It is then counted.
    pub(super) fn skips_instruction(&mut self, instruction: &Instruction, around: &Around) -> bool {
        self.seen = self.seen.saturating_add(1);
        match self.place {
            Place::Instruction(number) => self.seen < number,
            Place::Position(offset) => instruction.offset < offset,
            Place::Time(_) => !self.is_time_reached(around),
            Place::Address(_) | Place::Function(_) => !self.addresses.contains(&instruction.address),
        }
    }

    fn is_in(&self, range: &Range<'_>) -> bool {
        self.addresses.iter().any(|address| (range.start()..range.end()).contains(address))
    }

    /// Is the time of the place reached? Timestamps are seconds if their frequency is known.
    fn is_time_reached(&self, around: &Around) -> bool {
        let Place::Time(wanted) = &self.place else { return false };
        let now = match wanted.unit {
            Unit::Tic | Unit::None => around.timestamp.map(|ticks| (ticks, TimeUnit::Unknown)),
            Unit::Clk | Unit::Cs | Unit::Cyc => around.cycles.map(|cycles| (cycles, TimeUnit::Cycles)),
            _ => {
                let nanoseconds = around.timestamp.and_then(|ticks| self.clock.nanoseconds(ticks));
                nanoseconds.map(|time| (u64::try_from(time).unwrap_or(u64::MAX), TimeUnit::Seconds(-9)))
            }
        };
        now.is_some_and(|(time, unit)| self.place.is_reached_at(time, unit))
    }
}

/// A sink that may still wait for its place.
pub(super) trait Starting {
    fn start(&mut self) -> Option<&mut Start>;
}

/// Expands runs into instructions, from the run on that has the place.
pub(super) struct FromStart<S> {
    instructions: Instructions<S>,
    around: Around,
}

impl<S: InstructionSink> FromStart<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { instructions: Instructions::new(sink), around: Around::default() }
    }
}

impl<S: InstructionSink + Starting> FlowSink for FromStart<S> {
    fn run(&mut self, run: Run<'_>) {
        let start = self.instructions.sink().start();
        if !start.is_some_and(|start| start.skips(&run, &self.around)) {
            self.instructions.run(run);
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.around.update(&item);
        self.instructions.item(item);
    }
}

impl<S: InstructionSink + Watch> Watch for FromStart<S> {
    fn lost(&mut self, error: FrameError) {
        self.instructions.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.instructions.wants_more()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.instructions.progress(read, total);
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.instructions.bytes_read(bytes);
    }
}
