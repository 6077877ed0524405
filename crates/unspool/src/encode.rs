//! Captures made from steps, with a model of a trace unit for each core.
//!
//! steps ─▶ **encoder** ─▶ trace units ─▶ snapshot directory: trace, registers, program image
//!
//! Steps provide the instructions, and the address of the next step is the outcome of each branch. Where steps do not
//! continue, the trace starts anew. Trace cannot express instructions after the last branch: before such a break, and
//! at the end, the PE halts for a debugger. The program image holds the executed opcodes, and zeros between them. If a core
//! executes different code at one address, of several processes or at several times, a system event log holds the code instead.

mod core;
pub(crate) mod image;
mod known;
mod output;
mod settings;
pub mod software;
mod totals;
mod unit;
mod values;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool_coresight::trace_buffer::BufferSettings;
use unspool_model::{BlockSink, BlockTrace, Losses, ReadAhead, SinkError, SourceError, Step, StepSource, TimeUnit};

use unspool_capture::{Call, KERNEL, SystemLog};

use self::core::Core;
use self::output::Output;
pub use self::settings::UnitSettings;
pub use self::totals::Encoded;
use crate::{CodeLog, Events, OpenedSteps};

/// Settings of a capture.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// Registers of each trace unit. The trace id of core n is TRCTRACEIDR + n, or ETMTRACEIDR + n.
    pub settings: UnitSettings,
    /// All cores go into one buffer, in frames. Otherwise each has a buffer of its own.
    pub formatted: bool,
    /// Size of each buffer and what happens when it is full; `None`: unlimited.
    pub buffer: Option<BufferSettings>,
    /// Unit of the times of steps. Cycles are counted from times in cycles; otherwise each instruction takes one cycle.
    pub time_unit: TimeUnit,
    /// Replace a capture that an encoder wrote to the directory.
    pub replace: bool,
    /// A system event log with the code that is executed, for the capture. Context identifiers are those of threads then, where
    /// steps have them. Otherwise a log is made if there is no program image without contradictions.
    pub events: Option<PathBuf>,
}

/// Makes a capture from sources, each of which is read on a thread of its own. The cores of a single source keep their
/// numbers; those of several are numbered in the order in which they appear. Sources take turns: their cores have no
/// common order. Returns totals, and the facts of the sources that no step carries.
pub fn encode(
    directory: &Path,
    sources: Vec<OpenedSteps>,
    options: EncodeOptions,
) -> Result<(Encoded, Losses), EncodeError> {
    if sources.iter().any(|source| source.time_unit() != options.time_unit) {
        return Err(SourceError::unreadable("the traces have times in different units").into());
    }
    let mut encoder = Encoder::new(directory, options)?;
    if sources.len() > 1 {
        // Their times and processes may be those of different systems.
        encoder.code = None;
    }
    let losses = take_turns(&mut encoder, sources)?;
    Ok((encoder.finish()?, losses))
}

fn take_turns(encoder: &mut Encoder, sources: Vec<OpenedSteps>) -> Result<Losses, EncodeError> {
    let sources: Result<Vec<ReadAhead>, _> = sources.into_iter().map(ReadAhead::new).collect();
    let mut sources = sources.map_err(SourceError::unreadable)?;
    let mut cores = (sources.len() > 1).then(Vec::new);
    let mut left: Vec<usize> = (0..sources.len()).collect();
    while !left.is_empty() {
        for source in std::mem::take(&mut left) {
            let mut turn = Turn { encoder: &mut *encoder, source, cores: cores.as_mut(), result: Ok(()) };
            let continues = sources[source].next_chunk(&mut turn)?;
            turn.result?;
            if continues {
                left.push(source);
            }
        }
    }
    let mut losses = Losses::default();
    sources.iter().for_each(|source| losses.add_all(source.losses()));
    Ok(losses)
}

/// Why a source was not encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The source cannot be encoded.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Turn of one source: feeds the encoder with its steps until that fails.
struct Turn<'e> {
    encoder: &'e mut Encoder,
    source: usize,
    /// Source and core in the source, for each core; `None`: there is one source.
    cores: Option<&'e mut Vec<(usize, u32)>>,
    result: Result<(), SinkError>,
}

impl Turn<'_> {
    #[inline]
    fn feed(&mut self, core: u32, feed: impl FnOnce(&mut Encoder, usize) -> Result<(), SinkError>) -> ControlFlow<()> {
        let index = match &mut self.cores {
            Some(cores) => number(cores, (self.source, core)),
            None => core as usize,
        };
        self.result = feed(self.encoder, index);
        if self.result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Number in the capture of a core of a source.
fn number(cores: &mut Vec<(usize, u32)>, of: (usize, u32)) -> usize {
    let known = cores.iter().position(|core| *core == of);
    known.unwrap_or_else(|| {
        cores.push(of);
        cores.len() - 1
    })
}

impl BlockSink for Turn<'_> {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.feed(step.core, |encoder, index| encoder.step(index, step))
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.feed(trace.core, |encoder, index| encoder.blocks(index, trace))
    }
}

/// Encoder of steps into a capture: [`push`](Self::push) them, then [`finish`](Self::finish).
#[derive(Debug)]
pub struct Encoder {
    options: EncodeOptions,
    output: Output,
    cores: Vec<Core>,
    /// Trace units and buffers see what the other ones do: trace is written instruction by instruction.
    is_connected: bool,
    /// Code of all processes, from which a log is made if it is needed.
    code: Option<CodeLog>,
}

impl Encoder {
    /// Starts a capture in this directory, which has to be new or empty, or hold a capture that may be replaced. Its files
    /// appear when all are complete.
    pub fn new(directory: &Path, mut options: EncodeOptions) -> Result<Self, SinkError> {
        if let Some(reason) = options.settings.refusal() {
            return Err(SinkError::Refused { position: None, reason });
        }
        let output = Output::new(directory, options.replace, options.formatted, options.buffer)?;
        let code = options.events.is_none().then(CodeLog::default);
        let is_connected = options.buffer.is_some_and(|buffer| options.settings.connect(&buffer));
        Ok(Self { options, output, cores: Vec::new(), is_connected, code })
    }

    /// Encodes the next step.
    #[inline]
    pub fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        self.step(step.core as usize, step)
    }

    #[inline]
    fn step(&mut self, index: usize, step: &Step) -> Result<(), SinkError> {
        self.feed(index, |core| core.step(step))?;
        let changed = self.code.as_mut().and_then(|code| {
            code.step(step);
            code.take_untimed_change()
        });
        changed.map_or(Ok(()), |address| Err(refused_change(step.position, address)))
    }

    fn blocks(&mut self, index: usize, trace: &BlockTrace<'_>) -> Result<(), SinkError> {
        match self.is_connected {
            true => self.steps_of(index, trace)?,
            false => self.feed(index, |core| core.blocks(trace))?,
        }
        let changed = self.code.as_mut().and_then(|code| {
            code.blocks(trace);
            code.take_untimed_change()
        });
        changed.map_or(Ok(()), |address| Err(refused_change(trace.first_position(), address)))
    }

    /// Feeds a core with the instructions of blocks one by one.
    fn steps_of(&mut self, index: usize, trace: &BlockTrace<'_>) -> Result<(), SinkError> {
        let mut fed = Ok(());
        // It breaks at the first error only.
        let _ = trace.each_execution(|execution, position| {
            fed = trace.steps(execution, position).try_for_each(|step| self.feed(index, |core| core.step(&step)));
            if fed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        fed
    }

    #[inline]
    fn feed(&mut self, index: usize, feed: impl FnOnce(&mut Core) -> Result<(), SinkError>) -> Result<(), SinkError> {
        if index >= self.cores.len() {
            self.add_cores(index)?;
        }
        let core = &mut self.cores[index];
        feed(core)?;
        if core.unit.bytes().len() >= core.collects {
            self.output.write(index, core)?;
        }
        Ok(())
    }

    fn add_cores(&mut self, highest: usize) -> Result<(), SinkError> {
        let register = self.options.settings.trace_id_register();
        let base = self.options.settings.get(register).unwrap_or(0) & 0x7f;
        while self.cores.len() <= highest {
            let id = base + self.cores.len() as u64;
            if !(1..0x70).contains(&id) {
                let reason =
                    format!("trace id {id:#x} of core {} is reserved; choose another {register}", self.cores.len());
                return Err(SinkError::Refused { position: None, reason });
            }
            let mut settings = self.options.settings.clone();
            settings.set(register, id);
            self.output.add(self.cores.len())?;
            let may_change = self.code.is_some() || self.options.events.is_some();
            let has_threads = self.options.events.is_some();
            let mut core = Core::new(settings, id as u8, self.options.time_unit);
            (core.code_may_change, core.has_thread_ids) = (may_change, has_threads);
            if self.is_connected {
                core.collects = 0;
            }
            self.cores.push(core);
        }
        Ok(())
    }

    /// Writes the rest, and returns totals.
    pub fn finish(mut self) -> Result<Encoded, SinkError> {
        if self.cores.is_empty() {
            self.add_cores(0)?;
        }
        for (index, core) in self.cores.iter_mut().enumerate() {
            core.end();
            core.unit.finish();
            self.output.write(index, core)?;
        }
        let events = self.events()?;
        let mut encoded = self.output.finish(&self.cores, events.as_deref())?;
        self.cores.iter().for_each(|core| encoded.add(&core.totals()));
        Ok(encoded)
    }

    /// The text of the system event log, if there is one.
    fn events(&mut self) -> Result<Option<Vec<u8>>, SinkError> {
        if let Some(path) = &self.options.events {
            return Ok(Some(std::fs::read(path)?));
        }
        let Some(code) = self.code.take().filter(|_| self.cores.iter().any(|core| core.image.has_changed())) else {
            return Ok(None);
        };
        let log = code.finish();
        self.refuse_untraced(&log)?;
        let mut text = Vec::new();
        SystemLog::write(&log.list, &mut text)?;
        Ok(Some(text))
    }

    /// Refuses a log whose events a reader could not find in the trace.
    fn refuse_untraced(&self, log: &Events) -> Result<(), SinkError> {
        let has_ids = self.options.settings.traces_context_ids();
        let is_timed = log.list.iter().any(|event| event.time.is_some());
        let mut pids = log.list.iter().filter_map(|event| match event.call {
            Call::Patch { pid, .. } => Some(pid).filter(|pid| *pid != KERNEL),
            _ => None,
        });
        let first = pids.next();
        let reason = match () {
            () if is_timed && !self.options.settings.has_timestamps() => {
                "code changes: it needs timestamps in the trace (--timestamps)"
            }
            () if pids.any(|pid| Some(pid) != first) && !has_ids => {
                "processes have different code at the same addresses: it needs context identifiers (--context-ids)"
            }
            () if log.unordered > 0 => {
                "code changes back and forth while several cores execute it, and the order of the changes is not known"
            }
            () => return Ok(()),
        };
        Err(SinkError::Refused { position: None, reason: reason.to_string() })
    }
}

fn refused_change(position: u64, address: u64) -> SinkError {
    SinkError::Refused { position: Some(position), reason: core::changed(address) }
}
