//! Captures made from steps: a trace unit is modelled for each core.
//!
//! steps of anything ─▶ **encoder** ─▶ trace units ─▶ a snapshot directory: trace, registers, program image
//!
//! What ran is taken from the steps, the way of each branch from where the next step is. Where steps do not continue, the
//! trace starts anew. Trace has no words for the instructions behind the last branch: before such a break, and at the end,
//! the PE is told to halt for a debugger. The program image holds the opcodes that were executed, and zeros between them.

mod core;
mod image;
mod known;
mod output;

use std::ops::ControlFlow;
use std::path::Path;

use unspool_coresight::etm4::unit::{Overflowed, Settings};
use unspool_coresight::trace_buffer::BufferSettings;
use unspool_model::{Ahead, Flow, Follow, Losses, SinkError, SourceError, Step, StepSource, TimeUnit};

use self::core::Core;
use self::output::Output;
use crate::OpenedSteps;

/// How a capture is made.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// How each trace unit is programmed. The trace id of core n is n more than TRCTRACEIDR.
    pub settings: Settings,
    /// All cores go into one buffer, in frames. Else each has a buffer of its own.
    pub formatted: bool,
    /// How large each buffer is and what happens when it is full; `None`: it has room for all.
    pub buffer: Option<BufferSettings>,
    /// What times of steps are counted in. Cycles are counted from them; else an instruction takes one.
    pub time_unit: TimeUnit,
}

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encoded {
    /// How many cores.
    pub cores: usize,
    /// How many instructions the trace units were told of.
    pub instructions: u64,
    /// How often the steps did not continue.
    pub breaks: u64,
    /// Contexts of which nobody said the Exception level or the Security state: EL0 and Non-secure were taken.
    pub assumed_contexts: u64,
    /// Contexts of which nobody said an identifier that is traced or compared: zero was taken.
    pub assumed_identifiers: u64,
    /// How often a trace unit had no room, and what it did not tell therefore.
    pub overflowed: Overflowed,
    /// Bytes of trace, without frames.
    pub trace_bytes: u64,
    /// Bytes that the buffers had no room for, or that were overwritten.
    pub lost_bytes: u64,
    /// What software would have been told of the buffers.
    pub interrupts: u64,
    /// Bytes of the program image.
    pub image_bytes: u64,
}

/// Makes a capture of all that some sources tell. The cores of one keep their numbers; of several, each has cores of its
/// own, which are counted in the order in which they are met. Nobody knows which of two cores was first, so sources take
/// turns. Each is read on a thread of its own. Says what was made, and what of the sources no step told.
pub fn encode(
    directory: &Path,
    sources: Vec<OpenedSteps>,
    options: EncodeOptions,
) -> Result<(Encoded, Losses), EncodeError> {
    if sources.iter().any(|source| source.time_unit() != options.time_unit) {
        return Err(refused("the traces count their times in different units".into()).into());
    }
    let mut encoder = Encoder::new(directory, options)?;
    let losses = take_turns(&mut encoder, sources)?;
    Ok((encoder.finish()?, losses))
}

fn take_turns(encoder: &mut Encoder, sources: Vec<OpenedSteps>) -> Result<Losses, EncodeError> {
    let sources: Result<Vec<Ahead>, _> = sources.into_iter().map(Ahead::new).collect();
    let mut sources = sources.map_err(|error| refused(error.to_string()))?;
    let mut cores = (sources.len() > 1).then(Vec::new);
    let mut left: Vec<usize> = (0..sources.len()).collect();
    while !left.is_empty() {
        for source in std::mem::take(&mut left) {
            let mut turn = Turn { encoder: &mut *encoder, source, cores: cores.as_mut(), told: Ok(()) };
            let goes_on = sources[source].next_piece(&mut turn)?;
            turn.told?;
            if goes_on {
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

/// Why no capture could be made of a source.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It could not be encoded.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// A source tells an encoder some of what it has, until that refuses something.
struct Turn<'e> {
    encoder: &'e mut Encoder,
    source: usize,
    /// Which source and which core of it, for each core; `None`: there is one source.
    cores: Option<&'e mut Vec<(usize, u32)>>,
    told: Result<(), SinkError>,
}

impl Turn<'_> {
    #[inline]
    fn tell(&mut self, core: u32, tell: impl FnOnce(&mut Core) -> Result<(), SinkError>) -> ControlFlow<()> {
        let index = match &mut self.cores {
            Some(cores) => number(cores, (self.source, core)),
            None => core as usize,
        };
        self.told = self.encoder.tell(index, tell);
        if self.told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// The number of a core of a source.
fn number(cores: &mut Vec<(usize, u32)>, of: (usize, u32)) -> usize {
    let known = cores.iter().position(|core| *core == of);
    known.unwrap_or_else(|| {
        cores.push(of);
        cores.len() - 1
    })
}

impl Follow for Turn<'_> {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.tell(step.core, |core| core.step(step))
    }

    fn flow(&mut self, flow: &Flow<'_>) -> ControlFlow<()> {
        self.tell(flow.core, |core| core.flow(flow))
    }
}

/// Makes a capture from steps. Feed it with [`take`](Self::take), end with [`finish`](Self::finish).
#[derive(Debug)]
pub struct Encoder {
    options: EncodeOptions,
    output: Output,
    cores: Vec<Core>,
}

impl Encoder {
    /// Makes the capture in this directory, which has to be new or empty.
    pub fn new(directory: &Path, options: EncodeOptions) -> Result<Self, SinkError> {
        if let Some(reason) = options.settings.refusal() {
            return Err(SinkError::Refused { place: None, reason });
        }
        let output = Output::new(directory, options.formatted, options.buffer)?;
        Ok(Self { options, output, cores: Vec::new() })
    }

    /// Takes the next step.
    #[inline]
    pub fn take(&mut self, step: &Step) -> Result<(), SinkError> {
        self.tell(step.core as usize, |core| core.step(step))
    }

    #[inline]
    fn tell(&mut self, index: usize, tell: impl FnOnce(&mut Core) -> Result<(), SinkError>) -> Result<(), SinkError> {
        if index >= self.cores.len() {
            self.add_cores(index)?;
        }
        let core = &mut self.cores[index];
        tell(core)?;
        if core.unit.bytes().len() >= output::PIECE {
            self.output.write(index, core)?;
        }
        Ok(())
    }

    fn add_cores(&mut self, most: usize) -> Result<(), SinkError> {
        let base = self.options.settings.get("TRCTRACEIDR").unwrap_or(0) & 0x7f;
        while self.cores.len() <= most {
            let id = base + self.cores.len() as u64;
            if !(1..0x70).contains(&id) {
                let reason =
                    format!("trace id {id:#x} of core {} is reserved; choose another TRCTRACEIDR", self.cores.len());
                return Err(SinkError::Refused { place: None, reason });
            }
            let mut settings = self.options.settings.clone();
            settings.set("TRCTRACEIDR", id);
            self.output.add(self.cores.len())?;
            self.cores.push(Core::new(settings, id as u8, self.options.time_unit));
        }
        Ok(())
    }

    /// Writes what is left, and says what was made.
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
        encoded.cores = self.cores.len();
        encoded.instructions = self.cores.iter().map(|core| core.instructions).sum();
        encoded.breaks = self.cores.iter().map(|core| core.breaks).sum();
        for lost in self.cores.iter().map(|core| core.unit.overflowed()) {
            encoded.overflowed.overflows += lost.overflows;
            encoded.overflowed.instructions += lost.instructions;
        }
        encoded.assumed_contexts = self.cores.iter().map(|core| core.assumed_contexts).sum();
        encoded.assumed_identifiers = self.cores.iter().map(|core| core.assumed_identifiers).sum();
        Ok(encoded)
    }
}
