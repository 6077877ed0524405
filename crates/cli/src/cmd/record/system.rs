//! `record --system`: run a system under QEMU, and write traces of its CPUs.
//!
//! steps of all CPUs ─▶ **a trace per CPU**, or several where a trace cannot continue ─▶ files

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use unspool::astf::lower::LeftOut;
use unspool::astf::lower::LowerOptions;
use unspool::astf::record::Level;
use unspool::convert::Format;
use unspool::model::{Context, Coverage, Event, Losses, SinkError, Step, StepSource};
use unspool::number::grouped;
use unspool::record::{EmulatorCapabilities, SystemOptions, SystemRecording};

use super::signals::Signals;
use super::sinks::{Sink, numbered, sink_error, storage};
use super::{Args, has_values, refuse_registers, tell_left_out};
use crate::diagnostic::diagnostic;
use crate::verdict::Verdict;

/// The most files of one CPU.
const MAX_FILES: u64 = 1000;

/// Records a system.
pub(super) fn run(args: &Args, signals: &Signals) -> anyhow::Result<Verdict> {
    let assumed = args.assume.unwrap_or_default();
    let path = args.output.clone().unwrap_or_else(|| "system.astf".into());
    let format = Format::from_path(&path).unwrap_or(Format::Astf);
    refuse_registers(args, format)?;
    let options = SystemOptions {
        arguments: args.program.clone(),
        from: args.from.clone(),
        skip: args.skip,
        limit: args.limit,
        assumed,
        data: has_values(format),
        registers: args.registers,
        operands: format == Format::Astf,
        emulator: args.emulator.clone(),
        plugin: args.plugin.clone(),
    };
    let mut recording = SystemRecording::start(&options)?;
    signals.hand_on_to(recording.process());
    let mut traces = Traces {
        path,
        format,
        level: args.astf_level.map_or(Level::BasicPlus, Into::into),
        coverage: recording.coverage(),
        capabilities: recording.capabilities(),
        assumed,
        is_split: args.split,
        cpus: Vec::new(),
    };
    let mut failed = None;
    recording.each(&mut |step| match traces.take(step) {
        Ok(flow) => flow,
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    signals.let_go();
    let (gaps, was_stuck) = (recording.gaps(), recording.was_stuck());
    if let Some(status) = recording.end().context("waiting for the emulator")? {
        diagnostic(format_args!("the emulator ended ({status})"));
    }
    if was_stuck {
        diagnostic(format_args!(
            "the emulator was stopped: a CPU took exceptions endlessly and executed nothing, as it does when vectors cannot \
             be fetched; check that VBAR_ELx is set, and that there is code"
        ));
    }
    if gaps > 0 {
        diagnostic(format_args!("gaps, where the log contradicts what was executed: {}", grouped(gaps)));
    }
    let is_whole = traces.finish()?;
    Ok(if is_whole && gaps == 0 && !was_stuck { Verdict::Clean } else { Verdict::Problems })
}

/// The traces of all CPUs.
struct Traces {
    path: PathBuf,
    format: Format,
    level: Level,
    coverage: Coverage,
    capabilities: EmulatorCapabilities,
    assumed: Context,
    is_split: bool,
    cpus: Vec<Cpu>,
}

/// The trace of a CPU, in one or more files.
#[derive(Default)]
struct Cpu {
    file: Option<OpenFile>,
    /// Files that were started.
    count: u64,
    /// No more are written.
    is_over: bool,
    /// The last context.
    context: Context,
    written: Vec<Written>,
}

/// A file that is being written.
struct OpenFile {
    path: PathBuf,
    sink: Sink,
    instructions: u64,
    /// The place of the first step.
    first: u64,
}

/// A complete file.
struct Written {
    path: PathBuf,
    instructions: u64,
    losses: Losses,
    /// Instructions that are not in the trace, by kind.
    left_out: Vec<LeftOut>,
    /// Why the trace could not continue.
    reason: Option<String>,
}

impl Traces {
    /// Takes a step of any CPU.
    fn take(&mut self, step: &Step) -> anyhow::Result<ControlFlow<()>> {
        // A log has cores; other formats have one in a file.
        let at = if self.format == Format::Tarmac { 0 } else { step.core as usize };
        if self.cpus.len() <= at {
            self.cpus.resize_with(at + 1, Cpu::default);
        }
        let Some(cpu) = self.cpus.get_mut(at) else { return Ok(ControlFlow::Continue(())) };
        if let Event::Context(context) = &step.event {
            cpu.context = context.over(&cpu.context);
        }
        if cpu.is_over {
            return Ok(ControlFlow::Continue(()));
        }
        let Some(file) = &mut cpu.file else { return self.start(at, step) };
        match file.sink.push(step) {
            Ok(()) => {
                file.instructions += u64::from(step.event.instruction().is_some());
                Ok(ControlFlow::Continue(()))
            }
            Err(error) => self.refused(at, step, error),
        }
    }

    /// Starts a file with an instruction; the first one with any step.
    #[cold]
    fn start(&mut self, at: usize, step: &Step) -> anyhow::Result<ControlFlow<()>> {
        let Some(cpu) = self.cpus.get_mut(at) else { return Ok(ControlFlow::Continue(())) };
        if cpu.count > 0 && step.event.instruction().is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        let path = file_name(&numbered(&self.path, at), cpu.count + 1);
        let mut sink = match self.format {
            Format::Astf => {
                let storage = storage(&path);
                let options = LowerOptions {
                    level: Some(self.level),
                    storage,
                    assumed: self.assumed,
                    leave_out: self.level == Level::Basic,
                    operands: self.capabilities.operands,
                };
                Sink::astf(&path, self.coverage, &options, false)?
            }
            format => Sink::open(&path, format, self.coverage)?,
        };
        if cpu.count > 0 {
            let mut context = Step::default();
            (context.core, context.position, context.event) = (step.core, step.position, Event::Context(cpu.context));
            sink.push(&context).map_err(|error| sink_error(&path, error))?;
        }
        cpu.count += 1;
        cpu.file = Some(OpenFile { path, sink, instructions: 0, first: step.position });
        self.take(step)
    }

    /// A trace cannot continue: the file is complete up to here.
    #[cold]
    fn refused(&mut self, at: usize, step: &Step, error: SinkError) -> anyhow::Result<ControlFlow<()>> {
        let Some(cpu) = self.cpus.get_mut(at) else { return Ok(ControlFlow::Continue(())) };
        let Some(file) = cpu.file.take() else { return Ok(ControlFlow::Continue(())) };
        let position = match &error {
            SinkError::Refused { position, .. } => position.unwrap_or(step.position),
            SinkError::Io(_) => return Err(sink_error(&file.path, error)),
        };
        let reason = sink_error(&file.path, error);
        let is_new = file.instructions == 0;
        if position > file.first {
            cpu.written.push(file.end(position, &reason)?);
        } else if !self.is_split {
            return Err(reason);
        } else {
            // It is empty: the next one gets its name.
            cpu.count -= u64::from(cpu.count > 1);
        }
        cpu.is_over = !self.is_split || cpu.count == MAX_FILES;
        if self.cpus.iter().filter(|cpu| cpu.count > 0).all(|cpu| cpu.is_over) {
            return Ok(ControlFlow::Break(()));
        }
        if is_new { Ok(ControlFlow::Continue(())) } else { self.take(step) }
    }

    /// Completes all files, and reports them. True: nothing was refused.
    fn finish(self) -> anyhow::Result<bool> {
        let mut is_whole = true;
        let mut count = 0;
        for mut cpu in self.cpus {
            if let Some(file) = cpu.file.take() {
                cpu.written.push(file.finish()?);
            }
            for written in &cpu.written {
                written.diagnostic();
                count += 1;
                is_whole &= written.reason.is_none();
            }
            if cpu.count == MAX_FILES {
                diagnostic(format_args!("stopped after {MAX_FILES} files of one CPU"));
            }
        }
        tell_missing(self.format, self.level, self.capabilities, is_whole);
        if count == 0 {
            return Err(anyhow!("nothing was recorded: execution did not reach the start of recording"));
        }
        Ok(is_whole)
    }
}

/// Reports what another emulator would have recorded, if that matters here.
fn tell_missing(format: Format, level: Level, capabilities: EmulatorCapabilities, is_whole: bool) {
    match format {
        Format::Tarmac | Format::Stf if !capabilities.data => {
            diagnostic(format_args!("this emulator does not report the data of accesses; QEMU 9.2 and later does"));
        }
        Format::Astf if !capabilities.operands && level == Level::BasicPlus && !is_whole => diagnostic(format_args!(
            "this emulator does not report registers; QEMU 9.0 and later does, and a Basic trace needs none (--astf-level \
             basic)"
        )),
        _ => {}
    }
}

impl OpenFile {
    fn finish(mut self) -> anyhow::Result<Written> {
        self.sink.finish().map_err(|error| sink_error(&self.path, error))?;
        let instructions = self.instructions;
        self.close(instructions, None)
    }

    /// Completes the file up to the instruction at `position`.
    fn end(mut self, position: u64, reason: &anyhow::Error) -> anyhow::Result<Written> {
        match self.sink.finish() {
            // The reason is known already.
            Ok(()) | Err(SinkError::Refused { .. }) => {}
            Err(error) => return Err(sink_error(&self.path, error)),
        }
        let instructions = position - self.first;
        self.close(instructions, Some(reason.to_string()))
    }

    fn close(self, instructions: u64, reason: Option<String>) -> anyhow::Result<Written> {
        let Self { path, sink, .. } = self;
        let (losses, left_out) = (sink.losses().clone(), sink.left_out());
        sink.close().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Written { path, instructions, losses, left_out, reason })
    }
}

impl Written {
    fn diagnostic(&self) {
        tell_left_out(&self.path, &self.left_out);
        let name = self.path.display();
        diagnostic(format_args!("{name}: {} instructions", grouped(self.instructions)));
        if !self.losses.is_empty() {
            diagnostic(format_args!("{name}: dropped: the format has no field for it: {}", self.losses));
        }
        if let Some(reason) = &self.reason {
            diagnostic(format_args!("{reason}; the file ends there"));
        }
    }
}

/// The first file has the given name, others a number before the extensions.
fn file_name(path: &Path, number: u64) -> PathBuf {
    if number == 1 {
        return path.to_path_buf();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extensions) =
        name.split_once('.').map_or((&*name, String::new()), |(stem, rest)| (stem, format!(".{rest}")));
    path.with_file_name(format!("{stem}-{number}{extensions}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_names() {
        let rows = [("out.astf", 1, "out.astf"), ("a/out.1.astf.xz", 3, "a/out-3.1.astf.xz"), ("out", 2, "out-2")];
        for (name, number, expected) in rows {
            assert_eq!(file_name(Path::new(name), number), Path::new(expected), "{name}");
        }
    }
}
