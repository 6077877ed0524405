//! `record --system`: runs a system under QEMU, and writes traces of its CPUs.
//!
//! steps of all CPUs ─▶ **a trace per CPU**, or several where a trace cannot continue ─▶ files

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use unspool::CodeLog;
use unspool::astf::lower::LowerOptions;
use unspool::astf::record::Level;
use unspool::convert::Format;
use unspool::model::{Context, Coverage, Event, SinkError, Step, StepSource};
use unspool::number::grouped;
use unspool::record::{EmulatorCapabilities, SystemOptions, SystemRecording};
use unspool::target::Reserve;

use super::args::{Args, has_values};
use super::output_file::{OutputFile, Written, numbered, part_name, refuse_existing};
use super::plugin::Plugin;
use super::progress::RecordingProgress;
use super::signals::Signals;
use super::{events, refuse_full_disk, report_lost};
use crate::diagnostic;
use crate::verdict::Verdict;

const MAX_FILES: u64 = 1000;

pub(super) fn run(args: &Args, signals: &Signals) -> anyhow::Result<Verdict> {
    let assumed = args.assume.unwrap_or_default();
    let path = args.output.clone().unwrap_or_else(|| "system.astf".into());
    let format = Format::from_path(&path).unwrap_or(Format::Astf);
    args.check_registers(format)?;
    args.check_events(format)?;
    if !args.force {
        refuse_existing(&path)?;
        args.events.as_deref().map_or(Ok(()), events::refuse_existing)?;
    }
    let reserve = Arc::new(Reserve::beside(&path));
    let plugin = Plugin::find(args.plugin.as_deref())?;
    let options = SystemOptions {
        arguments: args.program.clone(),
        from: args.from.clone(),
        skip: args.skip,
        limit: args.limit,
        assumed,
        data: has_values(format),
        registers: args.registers,
        operands: format == Format::Astf,
        processes: args.events.is_some(),
        emulator: args.emulator.clone(),
        plugin: plugin.path.clone(),
    };
    let mut recording = SystemRecording::start(&options)?;
    signals.forward_to(recording.process());
    let mut traces = Traces {
        path,
        format,
        level: args.astf_level.unwrap_or(Level::BasicPlus),
        coverage: recording.coverage(),
        capabilities: recording.capabilities(),
        assumed,
        is_split: args.split,
        cpus: Vec::new(),
        reserve: Arc::clone(&reserve),
    };
    let mut code = args.events.as_ref().map(|_| CodeLog::default());
    let (mut failed, mut progress) = (None, RecordingProgress::new());
    recording.each(&mut |step| {
        progress.add(1);
        code.iter_mut().for_each(|code| code.step(step));
        match traces.push(step) {
            Ok(_) if reserve.is_released() => ControlFlow::Break(()),
            Ok(flow) => flow,
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    drop(progress);
    if let Some(error) = failed {
        return Err(error);
    }
    signals.stop_forwarding();
    let (gaps, was_stuck, lost) = (recording.gaps(), recording.was_stuck(), recording.lost_cpus());
    if let Some(status) = recording.end().context("waiting for the emulator")? {
        diagnostic::note(format_args!("the emulator ended ({status})"));
    }
    if was_stuck {
        diagnostic::warning(format_args!(
            "the emulator was stopped: a CPU took exceptions endlessly and executed nothing, as it does when vectors cannot \
             be fetched; check that VBAR_ELx points to code"
        ));
    }
    if gaps > 0 {
        diagnostic::warning(format_args!("gaps where the log contradicts the execution: {}", grouped(gaps)));
    }
    report_lost(lost, "CPU");
    let path = traces.path.clone();
    let is_whole = traces.finish()?;
    if let (Some(path), Some(code)) = (&args.events, code) {
        events::write(path, &code.finish(), &reserve)?;
    }
    refuse_full_disk(&reserve, &path)?;
    Ok(Verdict::of(!is_whole || gaps > 0 || was_stuck || lost > 0))
}

struct Traces {
    path: PathBuf,
    format: Format,
    level: Level,
    coverage: Coverage,
    capabilities: EmulatorCapabilities,
    assumed: Context,
    is_split: bool,
    cpus: Vec<Cpu>,
    reserve: Arc<Reserve>,
}

/// The trace of a CPU, in one or more files.
#[derive(Default)]
struct Cpu {
    file: Option<OutputFile>,
    /// Position of the first step of the file.
    first: u64,
    /// Number of files that were started.
    count: u64,
    /// No more files are written.
    is_over: bool,
    context: Context,
    written: Vec<Written>,
}

impl Traces {
    fn push(&mut self, step: &Step) -> anyhow::Result<ControlFlow<()>> {
        // A log has cores; other formats have one per file.
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
        match file.push(step) {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(error) => self.refused(at, step, error),
        }
    }

    /// Starts a file with an instruction; the first file with any step.
    #[cold]
    fn start(&mut self, at: usize, step: &Step) -> anyhow::Result<ControlFlow<()>> {
        let Some(cpu) = self.cpus.get_mut(at) else { return Ok(ControlFlow::Continue(())) };
        if cpu.count > 0 && step.event.instruction().is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        let path = part_name(&numbered(&self.path, at), cpu.count + 1);
        let lower = LowerOptions {
            level: Some(self.level),
            assumed: self.assumed,
            leave_out: self.level == Level::Basic,
            operands: self.capabilities.operands,
            ..LowerOptions::default()
        };
        let mut file = OutputFile::create(path, self.format, self.coverage, &lower, false, &self.reserve)?;
        if cpu.count > 0 {
            let mut context = Step::default();
            (context.core, context.position, context.event) = (step.core, step.position, Event::Context(cpu.context));
            file.push(&context).map_err(|error| file.error(error))?;
        }
        cpu.count += 1;
        (cpu.file, cpu.first) = (Some(file), step.position);
        self.push(step)
    }

    /// A trace cannot continue: the file is complete up to here.
    #[cold]
    fn refused(&mut self, at: usize, step: &Step, error: SinkError) -> anyhow::Result<ControlFlow<()>> {
        let Some(cpu) = self.cpus.get_mut(at) else { return Ok(ControlFlow::Continue(())) };
        let Some(mut file) = cpu.file.take() else { return Ok(ControlFlow::Continue(())) };
        let position = match &error {
            SinkError::Refused { position, .. } => position.unwrap_or(step.position),
            SinkError::Io(_) => return Err(file.error(error)),
        };
        let reason = file.error(error);
        let is_new = file.instructions == 0;
        if position > cpu.first {
            file.instructions = position - cpu.first;
            cpu.written.push(file.finish(Some(reason.to_string()))?);
        } else if !self.is_split {
            return Err(reason);
        } else {
            // The file is empty: the next one gets its name.
            cpu.count -= u64::from(cpu.count > 1);
        }
        cpu.is_over = !self.is_split || cpu.count == MAX_FILES;
        if self.cpus.iter().filter(|cpu| cpu.count > 0).all(|cpu| cpu.is_over) {
            return Ok(ControlFlow::Break(()));
        }
        if is_new { Ok(ControlFlow::Continue(())) } else { self.push(step) }
    }

    /// Completes all files, and reports them. True: no step was refused.
    fn finish(self) -> anyhow::Result<bool> {
        let mut is_whole = true;
        let mut count = 0;
        for mut cpu in self.cpus {
            if let Some(file) = cpu.file.take() {
                cpu.written.push(file.finish(None)?);
            }
            for written in &cpu.written {
                written.report();
                count += 1;
                is_whole &= written.reason.is_none();
            }
            if cpu.count == MAX_FILES {
                diagnostic::warning(format_args!("stopped after {MAX_FILES} files of one CPU"));
            }
        }
        report_missing(self.format, self.level, self.capabilities, is_whole);
        if count == 0 {
            bail!("nothing was recorded: execution did not reach the start of recording");
        }
        Ok(is_whole)
    }
}

/// Reports what a newer emulator would have recorded, if that matters here.
fn report_missing(format: Format, level: Level, capabilities: EmulatorCapabilities, is_whole: bool) {
    match format {
        Format::Tarmac | Format::Stf if !capabilities.data => {
            diagnostic::note(format_args!(
                "this emulator does not report the data of accesses; QEMU 9.2 and later does"
            ));
        }
        Format::Astf if !capabilities.operands && level == Level::BasicPlus && !is_whole => {
            diagnostic::note(
                "this emulator does not report registers; QEMU 9.0 and later does, and a Basic trace needs none \
                 (--astf-level basic)",
            );
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn names_are_numbered() {
        let rows = [("out.astf", 1, "out.astf"), ("a/out.1.astf.xz", 3, "a/out-3.1.astf.xz"), ("out", 2, "out-2")];
        for (name, number, expected) in rows {
            assert_eq!(part_name(Path::new(name), number), Path::new(expected), "{name}");
        }
    }
}
