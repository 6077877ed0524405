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
mod side_by_side;

use std::path::Path;

use unspool_coresight::etm4::unit::{Overflowed, Settings};
use unspool_coresight::trace_buffer::BufferSettings;
use unspool_model::{SinkError, Step, TimeUnit};

use self::core::Core;
use self::output::Output;
pub use self::side_by_side::SideBySide;

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
        let index = step.core as usize;
        if index >= self.cores.len() {
            self.add_cores(index)?;
        }
        let core = &mut self.cores[index];
        core.step(step)?;
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
