//! Output files of a program: one per thread, or one Tarmac log with all threads as cores.
//!
//! steps and templates of all threads ─▶ **files**

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use unspool::astf::lower::LowerOptions;
use unspool::astf::record::Level;
use unspool::convert::{FileSink, Format};
use unspool::model::{BlockSink, Coverage, Step, StoppedAt, TemplateTrace};
use unspool::target::Reserve;

use super::output_file::{OutputFile, Written, numbered, sink_error};
use super::progress::RecordingProgress;

/// Files of the threads, each created with the first step of its thread.
pub(super) struct ThreadFiles {
    path: PathBuf,
    format: Format,
    coverage: Coverage,
    files: Vec<Option<OutputFile>>,
    reserve: Arc<Reserve>,
    progress: RecordingProgress,
    /// Error that ended the recording.
    failed: Option<anyhow::Error>,
}

impl ThreadFiles {
    pub(super) fn new(path: PathBuf, format: Format, coverage: Coverage, reserve: Arc<Reserve>) -> Self {
        Self { path, format, coverage, files: Vec::new(), reserve, progress: RecordingProgress::new(), failed: None }
    }

    #[inline]
    fn push(&mut self, step: &Step) -> anyhow::Result<()> {
        // A log has cores; other formats have one per file.
        let index = if self.format == Format::Tarmac { 0 } else { step.core as usize };
        if let Some(Some(file)) = self.files.get_mut(index) {
            self.progress.add(1);
            return file.push(step).map_err(|error| file.error(error));
        }
        self.create(index)?;
        self.push(step)
    }

    /// Takes templates of a thread that has emitted steps before.
    fn push_templates(&mut self, trace: &TemplateTrace<'_>) -> anyhow::Result<Option<StoppedAt>> {
        let file = self.files.get_mut(trace.core as usize);
        let Some(Some(OutputFile { path, instructions, sink: FileSink::Astf(sink) })) = file else {
            return Ok(Some(StoppedAt { executions: 0, addresses: 0, is_final: false }));
        };
        let stopped = sink.push_templates(trace).map_err(|error| sink_error(path, error))?;
        let pushed = match &stopped {
            None => trace.instructions,
            Some(stopped) => trace.instructions_of(stopped.executions),
        };
        *instructions += pushed;
        self.progress.add(pushed);
        Ok(stopped)
    }

    /// Result of the recording, which has ended.
    pub(super) fn result(&mut self) -> anyhow::Result<()> {
        self.progress.end();
        self.failed.take().map_or(Ok(()), Err)
    }

    fn or_end<T>(&mut self, pushed: anyhow::Result<T>) -> ControlFlow<(), T> {
        match pushed {
            // There is room to complete the files, and not for more steps.
            Ok(_) if self.reserve.is_released() => ControlFlow::Break(()),
            Ok(pushed) => ControlFlow::Continue(pushed),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    #[cold]
    fn create(&mut self, index: usize) -> anyhow::Result<()> {
        let lower = LowerOptions { level: Some(Level::Basic), leave_out: true, ..LowerOptions::default() };
        let path = numbered(&self.path, index);
        let file = OutputFile::create(path, self.format, self.coverage, &lower, true, &self.reserve)?;
        self.files.resize_with(self.files.len().max(index + 1), || None);
        self.files[index] = Some(file);
        Ok(())
    }

    pub(super) fn finish(self) -> anyhow::Result<Vec<Written>> {
        self.files.into_iter().flatten().map(|file| file.finish(None)).collect()
    }
}

impl BlockSink for ThreadFiles {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let pushed = self.push(step);
        self.or_end(pushed)
    }

    fn takes_templates(&self) -> bool {
        self.format == Format::Astf
    }

    fn templates(&mut self, trace: &TemplateTrace<'_>) -> ControlFlow<(), Option<StoppedAt>> {
        let pushed = self.push_templates(trace);
        self.or_end(pushed)
    }
}
