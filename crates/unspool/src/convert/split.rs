//! Steps as several files: one per range without a gap.
//!
//! steps ─▶ **ranges between gaps** ─▶ OUT-0001, OUT-0002, ...
//!
//! A gap ends a file. Its step is in none of them: that something is missing shows in the names. Each file starts with the
//! context that holds at its start. A range without instructions makes no file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use unspool_model::{Context, Coverage, Event, Loss, Losses, SinkError, Step, StepSink, TimeUnit};

use super::sink::{FileSink, OpenSinkError, SinkOptions};
use crate::slice::numbered;
use crate::target::WriteError;

/// Sink that starts a new file after each gap.
///
/// Nothing remains of it unless it is [kept](Self::keep).
pub struct SplitSink {
    path: PathBuf,
    coverage: Coverage,
    unit: TimeUnit,
    options: SinkOptions,
    limit: u64,
    current: Option<Range>,
    /// Complete files, each with its number of instructions.
    files: Vec<(PathBuf, u64)>,
    /// Context of each core.
    contexts: Vec<Option<Context>>,
    losses: Losses,
    is_kept: bool,
}

/// The file that is being written.
struct Range {
    sink: FileSink,
    path: PathBuf,
    instructions: u64,
    notes: u64,
}

impl SplitSink {
    /// A sink for the steps of a source. At most `limit` files are written.
    pub fn new(path: &Path, coverage: Coverage, unit: TimeUnit, options: SinkOptions, limit: u64) -> Self {
        Self {
            path: path.to_path_buf(),
            coverage,
            unit,
            options,
            limit,
            current: None,
            files: Vec::new(),
            contexts: Vec::new(),
            losses: Losses::default(),
            is_kept: false,
        }
    }

    /// Keeps the files. Returns each with its number of instructions.
    pub fn keep(mut self) -> Result<Vec<(PathBuf, u64)>, WriteError> {
        self.is_kept = true;
        Ok(std::mem::take(&mut self.files))
    }

    /// Opens the next file, which starts with the contexts of all cores.
    fn open(&mut self, step: &Step) -> Result<Range, SinkError> {
        let refused = |reason: String| SinkError::Refused { position: Some(step.position), reason };
        let number = self.files.len() as u64 + 1;
        if number > self.limit {
            return Err(refused(format!("more than {} files; allow more with --pieces", self.limit)));
        }
        let path = numbered(&self.path, number);
        if path.exists() {
            return Err(refused(format!("{} exists; remove it or choose another name", path.display())));
        }
        let sink = FileSink::open(&path, self.coverage, self.unit, &self.options).map_err(|error| match error {
            OpenSinkError::Sink(error) => error,
            OpenSinkError::Write(error) => SinkError::Io(error.source),
        })?;
        let mut range = Range { sink, path, instructions: 0, notes: 0 };
        for (core, context) in (0_u32..).zip(&self.contexts) {
            let Some(context) = context else { continue };
            let mut first = Step::default();
            (first.core, first.position, first.time) = (core, step.position, step.time);
            first.event = Event::Context(*context);
            range.sink.push(&first)?;
        }
        Ok(range)
    }

    /// Completes the current file, or drops it if it has no instructions.
    fn end(&mut self, position: u64) -> Result<(), SinkError> {
        let Some(mut range) = self.current.take() else { return Ok(()) };
        if range.instructions == 0 {
            if range.notes > 0 {
                self.losses.add_many(Loss::Notes, range.notes, position);
            }
            return Ok(());
        }
        range.sink.finish()?;
        self.losses.add_all(range.sink.losses());
        range.sink.keep().map_err(SinkError::Io)?;
        self.files.push((range.path, range.instructions));
        Ok(())
    }

    fn learn(&mut self, core: u32, context: &Context) {
        // Formats have at most a few hundred cores.
        let at = (core as usize).min(usize::from(u16::MAX));
        if self.contexts.len() <= at {
            self.contexts.resize(at + 1, None);
        }
        let known = self.contexts[at].unwrap_or_default();
        self.contexts[at] = Some(context.over(&known));
    }
}

impl StepSink for SplitSink {
    fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        if let Event::Gap(_) = step.event {
            return self.end(step.position);
        }
        let mut range = match self.current.take() {
            Some(range) => range,
            None => self.open(step)?,
        };
        range.instructions += u64::from(step.event.instruction().is_some());
        range.notes += u64::from(step.event == Event::Note);
        range.sink.push(step)?;
        self.current = Some(range);
        if let Event::Context(context) = &step.event {
            self.learn(step.core, context);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.end(0)?;
        if self.files.is_empty() {
            let reason = "there is no instruction to write".to_string();
            return Err(SinkError::Refused { position: None, reason });
        }
        Ok(())
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }
}

impl Drop for SplitSink {
    fn drop(&mut self) {
        if !self.is_kept {
            // None of them existed before.
            let _: io::Result<()> = self.files.iter().try_for_each(|(path, _)| fs::remove_file(path));
        }
    }
}
