//! Traces as rows of tables.
//!
//! ```text
//! steps, blocks of each source ─▶ rows by core ─▶ **batches** of a table ─▶ TakeBatch
//!                                 └▶ Code, which is the table `instructions` in the end
//! ```
//!
//! Every source and core numbers its instructions from 0: the column `sequence`. Memory depends on the code and on the calls in
//! progress, and not on the length of the trace.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array};
use unspool::analyze::calls::Tracker;
use unspool::isa::Disassembler;
use unspool::model::{
    BlockExecution, BlockSink, BlockTrace, Context, Coverage, Event, Facet, Gap, SourceError, Step, StepSource,
    TimeUnit,
};
use unspool::software_marks::{SoftwareMark, SoftwareSource, Timing};
use unspool::{CaptureShard, CaptureSteps, Carried, Meter, Program, ShardEnd};

use crate::Error;
use crate::accesses::AccessRows;
use crate::blocks::{BlockBatch, BlockRows, Joiner, NumberedBlocks, NumberedRows};
use crate::calls::EndedCalls;
use crate::code::{Code, Known, Names};
use crate::events::{EventRow, EventRows};
use crate::rows::{BATCH, Place};
use crate::schema::Table;

/// Maximum number of cores of a source; what further ones execute is not in the tables.
const MAX_CORES: usize = 1 << 12;

/// Consumer of batches.
pub trait TakeBatch {
    /// Takes the next rows of a table; of the tables with a column `source`, rows of this source only.
    ///
    /// # Errors
    ///
    /// If they cannot be written. Then no further batch comes.
    fn batch(&mut self, table: Table, source: u32, batch: RecordBatch) -> Result<(), Error>;

    /// Takes the next rows of the table [`Table::Blocks`].
    ///
    /// # Errors
    ///
    /// As [`batch`](Self::batch).
    fn blocks(&mut self, batch: BlockBatch) -> Result<(), Error> {
        self.batch(Table::Blocks, batch.source(), batch.into_batch()?)
    }
}

/// Turns traces into batches.
pub struct Extraction<'t> {
    wanted: BTreeSet<Table>,
    take: &'t mut dyn TakeBatch,
    code: Code,
    /// Rows of the table `instructions` so far.
    number: u32,
    disassembler: Disassembler,
    /// Number of the first source.
    first_source: u32,
    sources: Vec<Source>,
    /// Rows are not made, but what other shards need is found.
    is_counting: bool,
    gaps: Gaps,
}

/// A row of the table `sources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) core: u32,
    pub(crate) instructions: u64,
    pub(crate) time_unit: Option<String>,
    pub(crate) problem: Option<String>,
}

/// Gaps of the traces so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    pub(crate) count: u64,
    /// Gaps because of damage, and the position of the first one.
    pub(crate) damaged: u64,
    pub(crate) first_damage: Option<u64>,
}

impl Gaps {
    fn add(&mut self, gap: Gap, position: u64) {
        self.count += 1;
        if gap == Gap::Damaged {
            self.damaged += 1;
            self.first_damage = self.first_damage.or(Some(position));
        }
    }
}

/// Where a core is in its execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CoreState {
    /// Instructions so far.
    pub(crate) count: u64,
    pub(crate) process: Option<u64>,
    pub(crate) thread: Option<u64>,
}

impl<'t> Extraction<'t> {
    /// Starts with no trace.
    pub fn new(wanted: impl IntoIterator<Item = Table>, take: &'t mut dyn TakeBatch) -> Self {
        Self::with_code(wanted, take, Code::default(), 0)
    }

    /// Starts with code that is known. The traces have sources from this number on.
    pub(crate) fn with_code(
        wanted: impl IntoIterator<Item = Table>,
        take: &'t mut dyn TakeBatch,
        code: Code,
        first_source: u32,
    ) -> Self {
        let (wanted, disassembler) = (wanted.into_iter().collect(), Disassembler::new());
        let (sources, gaps) = (Vec::new(), Gaps::default());
        Self { wanted, take, code, number: 0, disassembler, first_source, sources, is_counting: false, gaps }
    }

    /// Starts with code whose rows are numbered from a number on.
    pub(crate) fn of_code(take: &'t mut dyn TakeBatch, code: Code, number: u32) -> Self {
        Self { number, ..Self::with_code([Table::Instructions], take, code, 0) }
    }

    /// Starts with no trace. Rows are not made: only the code of a source is recorded, and the instructions are counted.
    pub(crate) fn counting(wanted: impl IntoIterator<Item = Table>, take: &'t mut dyn TakeBatch, source: u16) -> Self {
        Self { is_counting: true, ..Self::with_code(wanted, take, Code::recorded(source), 0) }
    }

    /// Reads a trace file, or a source of a capture. The inner error is that of the trace: all before it is in the tables.
    ///
    /// # Errors
    ///
    /// If batches cannot be made or taken.
    pub fn trace(
        &mut self,
        name: &str,
        steps: &mut dyn StepSource,
        program: &Program,
    ) -> Result<Result<(), SourceError>, Error> {
        let about = About { coverage: steps.coverage(), unit: steps.time_unit(), start: None };
        let (ended, _) = self.rows(name, &about, program, |rows| {
            // Blocks come without the data of their accesses.
            if rows.has_accesses { steps.each(&mut |step| rows.step(step)) } else { steps.follow(rows) }
        })?;
        Ok(ended)
    }

    /// Reads a shard of a source of a capture, which starts in a state. Returns where the trace ended, and the state there.
    ///
    /// # Errors
    ///
    /// If batches cannot be made or taken.
    pub(crate) fn shard(
        &mut self,
        name: &str,
        steps: &mut CaptureSteps,
        (shard, carried): (&CaptureShard, &Carried),
        start: CoreState,
    ) -> Result<(Result<ShardEnd, SourceError>, CoreState), Error> {
        let about = About { coverage: steps.coverage(), unit: steps.time_unit(), start: Some(start) };
        let program = Arc::clone(steps.program());
        let mut end = ShardEnd::default();
        let (ended, state) = self.rows(name, &about, &program, |rows| {
            end = steps.follow_shard(shard, carried, rows)?;
            Ok(())
        })?;
        Ok((ended.map(|()| end), state))
    }

    /// Makes the rows of what `read` reads. Returns how that ended, and the state of its first core at the end.
    fn rows(
        &mut self,
        name: &str,
        about: &About,
        program: &Program,
        read: impl FnOnce(&mut Rows<'_, '_>) -> Result<(), SourceError>,
    ) -> Result<(Result<(), SourceError>, CoreState), Error> {
        let has_accesses = self.wants(Table::Accesses) && about.coverage.has(Facet::Accesses);
        let wants_calls = self.wants(Table::Calls) && !self.is_counting;
        let tracker = wants_calls.then(|| Tracker::new(EndedCalls::default()));
        let first = self.sources.len();
        let mut rows = Rows {
            to: self,
            name,
            program,
            unit: about.unit,
            has_times: about.coverage.has(Facet::Times),
            first,
            has_accesses,
            start: about.start,
            cores: Vec::new(),
            current: 0,
            numbered: HashMap::new(),
            numbered_rows: NumberedRows::default(),
            tracker,
            left_out: 0,
            failed: None,
        };
        let ended = read(&mut rows);
        let left_out = rows.left_out;
        let state = rows.finish()?;
        if left_out > 0 {
            self.problem(first, name, &format!("cores beyond the first {MAX_CORES} are left out"));
        }
        if let Err(problem) = &ended {
            self.problem(first, name, &problem.text);
        }
        Ok((ended, state))
    }

    /// Reads the software trace of a source of a capture: each text, value and loss is an event.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read, or batches cannot be made or taken.
    pub fn software(&mut self, source: &SoftwareSource, meter: &Meter) -> Result<(), Error> {
        let number = self.first_source + self.sources.len() as u32;
        self.sources.push(Source::new(source.name(), 0, TimeUnit::Unknown));
        if !self.wants(Table::Events) || self.is_counting {
            return Ok(());
        }
        let times = source.times(meter)?;
        let (mut rows, mut count) = (EventRows::default(), 0);
        let mut put = Ok(());
        let mut take = |mark: &SoftwareMark<'_>| {
            let time = Some(mark.time).filter(|_| mark.timing == Timing::At);
            rows.add(EventRow::from(mark), &Place { time, ..Place::default() }, count);
            count += 1;
            if rows.len() >= BATCH {
                put = self.put(Table::Events, number, rows.take(number));
            }
            if put.is_ok() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
        };
        // The only error of the consumer is in `put`.
        let _ = source.each(times, meter, &mut take)?;
        put?;
        self.put(Table::Events, number, rows.take(number))
    }

    /// Writes the tables about all traces.
    ///
    /// # Errors
    ///
    /// If batches cannot be made or taken.
    pub fn finish(mut self) -> Result<(), Error> {
        self.instructions()?;
        if self.wants(Table::Sources) {
            let columns = source_columns(self.first_source, &mem::take(&mut self.sources));
            self.put(Table::Sources, 0, columns)?;
        }
        Ok(())
    }

    /// Ends without the tables about all traces: the code, the sources and the gaps.
    pub(crate) fn into_parts(self) -> (Code, Vec<Source>, Gaps) {
        (self.code, self.sources, self.gaps)
    }

    /// Whether this table is wanted.
    pub fn wants(&self, table: Table) -> bool {
        self.wanted.contains(&table)
    }

    fn put(&mut self, table: Table, source: u32, columns: Vec<ArrayRef>) -> Result<(), Error> {
        if self.is_counting || !self.wants(table) || columns.first().is_none_or(|column| column.is_empty()) {
            return Ok(());
        }
        self.take.batch(table, source, RecordBatch::try_new(table.schema(), columns)?)
    }

    /// Notes why a source ended early; one that ended before its first instruction has a row too.
    fn problem(&mut self, first: usize, name: &str, text: &str) {
        if self.sources.len() == first {
            self.sources.push(Source::new(name, 0, TimeUnit::Unknown));
        }
        self.sources[first..].iter_mut().for_each(|source| source.problem = Some(text.to_string()));
    }

    /// Adds a source that cannot be opened.
    pub(crate) fn unreadable(&mut self, name: &str, problem: &str) {
        self.problem(self.sources.len(), name, problem);
    }

    /// Puts the code so far into the table.
    fn instructions(&mut self) -> Result<(), Error> {
        for (version, instructions) in self.code.take() {
            let all: Vec<(u64, &Known)> = instructions.iter().map(|(address, known)| (*address, known)).collect();
            for rows in all.chunks(BATCH) {
                let columns = instruction_columns((version, self.number), rows, &mut self.disassembler);
                self.number += rows.len() as u32;
                self.put(Table::Instructions, 0, columns)?;
            }
        }
        Ok(())
    }
}

/// Columns of the table `instructions`: of one version, and numbered from a number on.
pub(crate) fn instruction_columns(
    (version, number): (u32, u32),
    rows: &[(u64, &Known)],
    disassembler: &mut Disassembler,
) -> Vec<ArrayRef> {
    let known = || rows.iter().map(|(_, known)| *known);
    let text = rows
        .iter()
        .map(|(address, Known { isa, opcode, .. })| opcode.map(|opcode| disassembler.text(*isa, *address, opcode)));
    let text = StringArray::from_iter(text);
    vec![
        Arc::new(UInt32Array::from_value(version, rows.len())),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(address, _)| *address))),
        Arc::new(UInt32Array::from_iter_values(number..number + rows.len() as u32)),
        Arc::new(UInt8Array::from_iter_values(known().map(|known| known.size))),
        Arc::new(StringArray::from_iter_values(known().map(|known| known.isa.name()))),
        Arc::new(UInt32Array::from_iter(known().map(|known| known.opcode))),
        Arc::new(text),
        Arc::new(StringArray::from_iter(known().map(|known| known.function.as_ref().map(|(name, _)| name)))),
        Arc::new(UInt64Array::from_iter(known().map(|known| known.function.as_ref().map(|(_, offset)| *offset)))),
        Arc::new(StringArray::from_iter(known().map(|known| known.file.as_ref()))),
        Arc::new(UInt32Array::from_iter(known().map(|known| known.line))),
        Arc::new(StringArray::from_iter(known().map(|known| known.image.as_ref()))),
    ]
}

impl Source {
    pub(crate) fn new(name: &str, core: u32, unit: TimeUnit) -> Self {
        let time_unit = match unit {
            TimeUnit::Unknown => None,
            TimeUnit::Cycles => Some("cycles".to_string()),
            TimeUnit::Seconds(exponent) => Some(format!("1e{exponent} s")),
        };
        Self { name: name.to_string(), core, instructions: 0, time_unit, problem: None }
    }
}

/// Columns of the table `sources`, whose numbers start with `first`.
pub(crate) fn source_columns(first: u32, sources: &[Source]) -> Vec<ArrayRef> {
    let of = || sources.iter();
    vec![
        Arc::new(UInt32Array::from_iter_values(first..first + sources.len() as u32)),
        Arc::new(StringArray::from_iter_values(of().map(|source| &source.name))),
        Arc::new(UInt32Array::from_iter_values(of().map(|source| source.core))),
        Arc::new(UInt64Array::from_iter_values(of().map(|source| source.instructions))),
        Arc::new(StringArray::from_iter(of().map(|source| source.time_unit.as_ref()))),
        Arc::new(StringArray::from_iter(of().map(|source| source.problem.as_ref()))),
    ]
}

/// What is known of a trace before it is read.
struct About {
    coverage: Coverage,
    unit: TimeUnit,
    /// Of a shard: the state that its core starts in.
    start: Option<CoreState>,
}

/// Rows of one trace.
struct Rows<'r, 't> {
    to: &'r mut Extraction<'t>,
    name: &'r str,
    program: &'r Program,
    unit: TimeUnit,
    has_times: bool,
    /// Number of the source of the first core.
    first: usize,
    has_accesses: bool,
    /// The state that the first core starts in.
    start: Option<CoreState>,
    cores: Vec<Core>,
    /// Index of the core of the last step.
    current: usize,
    /// Blocks of the trace by process.
    numbered: HashMap<Option<u64>, NumberedBlocks>,
    numbered_rows: NumberedRows,
    tracker: Option<Tracker<EndedCalls>>,
    /// Steps of cores that are too many.
    left_out: u64,
    failed: Option<Error>,
}

/// Rows of a core that are in no batch yet.
#[derive(Default)]
struct Core {
    number: u32,
    context: Context,
    /// Instructions so far.
    count: u64,
    joiner: Joiner,
    blocks: BlockRows,
    accesses: AccessRows,
    events: EventRows,
}

impl Core {
    /// Where the next instruction is.
    fn place(&self, time: Option<u64>) -> Place {
        let Context { process, thread, .. } = self.context;
        Place { process, thread, sequence: self.count, time }
    }
}

impl BlockSink for Rows<'_, '_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        if let Some(tracker) = &mut self.tracker {
            tracker.step(step);
        }
        if !self.select_core(step.core) {
            return ControlFlow::Continue(());
        }
        match &step.event {
            Event::Instruction(_) => self.instruction(step),
            event => {
                self.event(event, step);
                if self.has_accesses {
                    self.accesses(step, None);
                }
            }
        }
        self.put_full()
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        if let Some(tracker) = &mut self.tracker {
            tracker.blocks(trace);
        }
        if !self.select_core(trace.core) {
            return ControlFlow::Continue(());
        }
        self.end_block();
        for executions in trace.executions.chunks(BATCH) {
            self.executions(trace, executions);
            self.put_full()?;
        }
        ControlFlow::Continue(())
    }
}

impl Rows<'_, '_> {
    /// Selects the core of what follows. False: there are too many.
    fn select_core(&mut self, number: u32) -> bool {
        if self.cores.get(self.current).is_some_and(|core| core.number == number) {
            return true;
        }
        let known = self.cores.iter().position(|core| core.number == number);
        self.current = known.unwrap_or(self.cores.len());
        if self.current >= MAX_CORES {
            self.left_out += 1;
        } else if known.is_none() {
            let CoreState { count, process, thread } = self.start.take().unwrap_or_default();
            let context = Context { process, thread, ..Context::default() };
            self.cores.push(Core { number, count, context, ..Core::default() });
            self.to.sources.push(Source::new(self.name, number, self.unit));
        }
        self.current < MAX_CORES
    }

    fn executions(&mut self, trace: &BlockTrace<'_>, executions: &[BlockExecution]) {
        let Some(core) = self.cores.get_mut(self.current) else { return };
        let process = core.context.process;
        let numbered = self.numbered.entry(process).or_default();
        if numbered.len() < trace.blocks.len() {
            let names = Names { program: self.program, process };
            numbered.learn(trace.blocks, &mut self.numbered_rows, &mut self.to.code, &names);
        }
        if self.to.is_counting {
            core.count += numbered.instructions(executions);
            return;
        }
        let cycles = trace.time.filter(|_| self.unit == TimeUnit::Cycles);
        core.count += core.blocks.executions(executions, numbered, &core.place(trace.time), cycles);
    }

    fn instruction(&mut self, step: &Step) {
        let (Event::Instruction(instruction), Some(core)) = (&step.event, self.cores.get(self.current)) else { return };
        let place = core.place(step.time);
        if !core.joiner.continues(instruction) {
            self.end_block();
        }
        if self.has_accesses {
            self.accesses(step, Some(instruction.address));
        }
        let Some(core) = self.cores.get_mut(self.current) else { return };
        core.joiner.add(instruction, &place);
        core.count += 1;
    }

    fn accesses(&mut self, step: &Step, instruction: Option<u64>) {
        let Some(core) = self.cores.get_mut(self.current) else { return };
        let place = core.place(step.time);
        step.accesses().for_each(|access| core.accesses.add(&access, instruction, &place));
    }

    fn event(&mut self, event: &Event, step: &Step) {
        if !matches!(event, Event::Note | Event::State) {
            self.end_block();
        }
        let Some(core) = self.cores.get_mut(self.current) else { return };
        match event {
            Event::Context(context) => core.context = context.over(&core.context),
            Event::Gap(gap) => self.to.gaps.add(*gap, step.position),
            _ => {}
        }
        if !self.to.wanted.contains(&Table::Events) || self.to.is_counting {
            return;
        }
        if let Some(row) = EventRow::of(event, step.note()) {
            core.events.add(row, &core.place(step.time), step.position);
        }
    }

    /// Ends the block that the current core is in.
    fn end_block(&mut self) {
        let Some(core) = self.cores.get_mut(self.current) else { return };
        let names = Names { program: self.program, process: core.context.process };
        let code = (&mut self.numbered_rows, &mut self.to.code);
        core.joiner.end(code, &names, self.unit == TimeUnit::Cycles, &mut core.blocks);
    }

    /// Puts the rows of the current core into batches where there are enough.
    #[inline]
    fn put_full(&mut self) -> ControlFlow<()> {
        let Some(core) = self.cores.get(self.current) else { return ControlFlow::Continue(()) };
        let is_full = [core.blocks.len(), core.accesses.len(), core.events.len()].iter().any(|rows| *rows >= BATCH);
        let calls = self.tracker.as_mut().map_or(0, |tracker| tracker.sink_mut().len());
        if !is_full && calls < BATCH && !self.to.code.is_large() {
            return ControlFlow::Continue(());
        }
        match self.put_all() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn put_all(&mut self) -> Result<(), Error> {
        if self.to.code.is_large() {
            self.to.instructions()?;
        }
        self.put_calls()?;
        if self.numbered_rows.are_many() && self.numbered.is_empty() {
            return self.forget_rows();
        }
        self.put_core(self.current)
    }

    /// Forgets what is known of blocks; what was executed of them goes into batches first.
    fn forget_rows(&mut self) -> Result<(), Error> {
        for index in 0..self.cores.len() {
            self.put_core(index)?;
            self.cores[index].joiner.forget();
        }
        self.numbered_rows.clear();
        Ok(())
    }

    fn put_core(&mut self, index: usize) -> Result<(), Error> {
        let source = self.first_source() + index as u32;
        let Some(core) = self.cores.get_mut(index) else { return Ok(()) };
        let blocks = core.blocks.take(source, &self.numbered_rows);
        let (accesses, events) = (core.accesses.take(source), core.events.take(source));
        if self.to.wants(Table::Blocks) && !self.to.is_counting && blocks.len() > 0 {
            self.to.take.blocks(blocks)?;
        }
        self.to.put(Table::Accesses, source, accesses)?;
        self.to.put(Table::Events, source, events)
    }

    fn put_calls(&mut self) -> Result<(), Error> {
        let first = self.first_source();
        let Some(tracker) = &mut self.tracker else { return Ok(()) };
        let columns = tracker.sink_mut().take(
            |core| source_of(first, &self.cores, core),
            (&mut self.to.code, self.program),
            self.has_times,
        );
        self.to.put(Table::Calls, first, columns)
    }

    /// The number of the source of the first core.
    fn first_source(&self) -> u32 {
        self.to.first_source + self.first as u32
    }

    /// Puts what is left into batches.
    fn finish(mut self) -> Result<CoreState, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        for index in 0..self.cores.len() {
            self.current = index;
            self.end_block();
            self.put_core(index)?;
            self.to.sources[self.first + index].instructions = self.cores[index].count;
        }
        let first = self.first_source();
        if let Some(tracker) = self.tracker.take() {
            let columns = tracker.finish().take(
                |core| source_of(first, &self.cores, core),
                (&mut self.to.code, self.program),
                self.has_times,
            );
            self.to.put(Table::Calls, first, columns)?;
        }
        let state = self.cores.first().map(|Core { count, context, .. }| {
            let Context { process, thread, .. } = *context;
            CoreState { count: *count, process, thread }
        });
        Ok(state.or(self.start).unwrap_or_default())
    }
}

/// The number of the source of a core.
fn source_of(first: u32, cores: &[Core], number: u32) -> u32 {
    let index = cores.iter().position(|core| core.number == number).unwrap_or_default();
    first + index as u32
}
