//! Captures made from steps, with a model of a trace unit for each core.
//!
//! steps ─▶ **encoder** ─▶ trace units ─▶ snapshot directory: trace, registers, program image
//!
//! Steps provide the instructions, and the address of the next step is the outcome of each branch. Where steps do not
//! continue, the trace starts anew. Trace cannot express instructions after the last branch: before such a break, and
//! at the end, the PE halts for a debugger. The program image holds the executed opcodes, and zeros between them.

mod core;
mod image;
mod known;
mod output;
mod totals;

use std::ops::ControlFlow;
use std::path::Path;

use unspool_coresight::etm4::unit::Settings;
use unspool_coresight::trace_buffer::BufferSettings;
use unspool_model::{BlockSink, BlockTrace, Losses, ReadAhead, SinkError, SourceError, Step, StepSource, TimeUnit};

use self::core::Core;
use self::output::Output;
pub use self::totals::Encoded;
use crate::OpenedSteps;

/// Settings of a capture.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// Registers of each trace unit. The trace id of core n is TRCTRACEIDR + n.
    pub settings: Settings,
    /// All cores go into one buffer, in frames. Otherwise each has a buffer of its own.
    pub formatted: bool,
    /// Size of each buffer and what happens when it is full; `None`: unlimited.
    pub buffer: Option<BufferSettings>,
    /// Unit of the times of steps. Cycles are counted from times in cycles; otherwise each instruction takes one cycle.
    pub time_unit: TimeUnit,
    /// Replace a capture that an encoder wrote to the directory.
    pub replace: bool,
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
        return Err(refused("the traces have times in different units".into()).into());
    }
    let mut encoder = Encoder::new(directory, options)?;
    let losses = take_turns(&mut encoder, sources)?;
    Ok((encoder.finish()?, losses))
}

fn take_turns(encoder: &mut Encoder, sources: Vec<OpenedSteps>) -> Result<Losses, EncodeError> {
    let sources: Result<Vec<ReadAhead>, _> = sources.into_iter().map(ReadAhead::new).collect();
    let mut sources = sources.map_err(|error| refused(error.to_string()))?;
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

fn refused(text: String) -> SourceError {
    SourceError { text, is_damage: false }
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
    fn feed(&mut self, core: u32, feed: impl FnOnce(&mut Core) -> Result<(), SinkError>) -> ControlFlow<()> {
        let index = match &mut self.cores {
            Some(cores) => number(cores, (self.source, core)),
            None => core as usize,
        };
        self.result = self.encoder.feed(index, feed);
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
        self.feed(step.core, |core| core.step(step))
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.feed(trace.core, |core| core.blocks(trace))
    }
}

/// Encoder of steps into a capture: [`push`](Self::push) them, then [`finish`](Self::finish).
#[derive(Debug)]
pub struct Encoder {
    options: EncodeOptions,
    output: Output,
    cores: Vec<Core>,
}

impl Encoder {
    /// Starts a capture in this directory, which has to be new or empty, or hold a capture that may be replaced. Its files
    /// appear when all are complete.
    pub fn new(directory: &Path, options: EncodeOptions) -> Result<Self, SinkError> {
        if let Some(reason) = options.settings.refusal() {
            return Err(SinkError::Refused { position: None, reason });
        }
        let output = Output::new(directory, options.replace, options.formatted, options.buffer)?;
        Ok(Self { options, output, cores: Vec::new() })
    }

    /// Encodes the next step.
    #[inline]
    pub fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        self.feed(step.core as usize, |core| core.step(step))
    }

    #[inline]
    fn feed(&mut self, index: usize, feed: impl FnOnce(&mut Core) -> Result<(), SinkError>) -> Result<(), SinkError> {
        if index >= self.cores.len() {
            self.add_cores(index)?;
        }
        let core = &mut self.cores[index];
        feed(core)?;
        if core.unit.bytes().len() >= output::CHUNK {
            self.output.write(index, core)?;
        }
        Ok(())
    }

    fn add_cores(&mut self, highest: usize) -> Result<(), SinkError> {
        let base = self.options.settings.get("TRCTRACEIDR").unwrap_or(0) & 0x7f;
        while self.cores.len() <= highest {
            let id = base + self.cores.len() as u64;
            if !(1..0x70).contains(&id) {
                let reason =
                    format!("trace id {id:#x} of core {} is reserved; choose another TRCTRACEIDR", self.cores.len());
                return Err(SinkError::Refused { position: None, reason });
            }
            let mut settings = self.options.settings.clone();
            settings.set("TRCTRACEIDR", id);
            self.output.add(self.cores.len())?;
            self.cores.push(Core::new(settings, id as u8, self.options.time_unit));
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
        let mut encoded = self.output.finish(&self.cores)?;
        self.cores.iter().for_each(|core| encoded.add(&core.totals()));
        Ok(encoded)
    }
}
