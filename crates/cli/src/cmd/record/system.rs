//! `record --system`: runs a system under QEMU, and writes what its CPUs did.
//!
//! steps of all CPUs ─▶ **a trace for each**, or one after the other where a trace cannot be told further ─▶ files

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use unspool::astf::lower::LeftOut;
use unspool::astf::lower::LowerOptions;
use unspool::astf::record::Level;
use unspool::convert::Format;
use unspool::model::{Context, Coverage, Event, Losses, SinkError, Step, StepSource};
use unspool::number::grouped;
use unspool::record::{SystemOptions, SystemRecording, Told};

use super::signals::Signals;
use super::sinks::{Sink, numbered, storage, told};
use super::{Args, has_values, refuse_registers, tell_left_out};
use crate::diagnostic::diagnostic as tell;
use crate::verdict::Verdict;

/// More files are not written of one CPU.
const MOST_PIECES: u64 = 1000;

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
        told: recording.told(),
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
        tell(format_args!("the emulator ended ({status})"));
    }
    if was_stuck {
        tell(format_args!(
            "the emulator was stopped: a CPU took exceptions for ever and executed nothing, as it does where vectors cannot \
             be fetched; see that VBAR_ELx is set, and that there is code"
        ));
    }
    if gaps > 0 {
        tell(format_args!("places at which its log does not fit what it executed, told as gaps: {}", grouped(gaps)));
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
    told: Told,
    assumed: Context,
    is_split: bool,
    cpus: Vec<Cpu>,
}

/// The trace of a CPU, in pieces.
#[derive(Default)]
struct Cpu {
    piece: Option<Piece>,
    /// Pieces that were started.
    count: u64,
    /// No more are written.
    is_over: bool,
    /// The state, as it was told last.
    context: Context,
    written: Vec<Written>,
}

/// A file that is written.
struct Piece {
    path: PathBuf,
    sink: Sink,
    instructions: u64,
    /// The place of the first step.
    first: u64,
}

/// A file that was.
struct Written {
    path: PathBuf,
    instructions: u64,
    losses: Losses,
    /// What the emulator does not tell enough of, by kind.
    left_out: Vec<LeftOut>,
    /// Why it could not be told further.
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
        let Some(piece) = &mut cpu.piece else { return self.start(at, step) };
        match piece.sink.take(step) {
            Ok(()) => {
                piece.instructions += u64::from(step.event.instruction().is_some());
                Ok(ControlFlow::Continue(()))
            }
            Err(error) => self.refused(at, step, error),
        }
    }

    /// Starts a piece, with an instruction; the first one with whatever comes first.
    #[cold]
    fn start(&mut self, at: usize, step: &Step) -> anyhow::Result<ControlFlow<()>> {
        let Some(cpu) = self.cpus.get_mut(at) else { return Ok(ControlFlow::Continue(())) };
        if cpu.count > 0 && step.event.instruction().is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        let path = piece_name(&numbered(&self.path, at), cpu.count + 1);
        let mut sink = match self.format {
            Format::Astf => {
                let storage = storage(&path);
                let options = LowerOptions {
                    level: Some(self.level),
                    storage,
                    assumed: self.assumed,
                    leave_out: self.level == Level::Basic,
                    operands: self.told.operands,
                };
                Sink::astf(&path, self.coverage, &options, false)?
            }
            format => Sink::open(&path, format, self.coverage)?,
        };
        if cpu.count > 0 {
            let mut context = Step::default();
            (context.core, context.place, context.event) = (step.core, step.place, Event::Context(cpu.context));
            sink.take(&context).map_err(|error| told(&path, error))?;
        }
        cpu.count += 1;
        cpu.piece = Some(Piece { path, sink, instructions: 0, first: step.place });
        self.take(step)
    }

    /// A trace cannot be told further: what was told stays true.
    #[cold]
    fn refused(&mut self, at: usize, step: &Step, error: SinkError) -> anyhow::Result<ControlFlow<()>> {
        let Some(cpu) = self.cpus.get_mut(at) else { return Ok(ControlFlow::Continue(())) };
        let Some(piece) = cpu.piece.take() else { return Ok(ControlFlow::Continue(())) };
        let place = match &error {
            SinkError::Refused { place, .. } => place.unwrap_or(step.place),
            SinkError::Io(_) => return Err(told(&piece.path, error)),
        };
        let reason = told(&piece.path, error);
        let is_new = piece.instructions == 0;
        if place > piece.first {
            cpu.written.push(piece.end(place, &reason)?);
        } else if !self.is_split {
            return Err(reason);
        } else {
            // Nothing of it can be told: the next one takes its name.
            cpu.count -= u64::from(cpu.count > 1);
        }
        cpu.is_over = !self.is_split || cpu.count == MOST_PIECES;
        if self.cpus.iter().filter(|cpu| cpu.count > 0).all(|cpu| cpu.is_over) {
            return Ok(ControlFlow::Break(()));
        }
        if is_new { Ok(ControlFlow::Continue(())) } else { self.take(step) }
    }

    /// Completes all files, and tells of them. True: nothing was refused.
    fn finish(self) -> anyhow::Result<bool> {
        let mut is_whole = true;
        let mut count = 0;
        for mut cpu in self.cpus {
            if let Some(piece) = cpu.piece.take() {
                cpu.written.push(piece.finish()?);
            }
            for written in &cpu.written {
                written.tell();
                count += 1;
                is_whole &= written.reason.is_none();
            }
            if cpu.count == MOST_PIECES {
                tell(format_args!("{MOST_PIECES} files were written of one CPU, and no more"));
            }
        }
        tell_untold(self.format, self.level, self.told, is_whole);
        if count == 0 {
            return Err(anyhow!("nothing was recorded: execution did not come to where recording starts"));
        }
        Ok(is_whole)
    }
}

/// What another emulator would have told, if that matters here.
fn tell_untold(format: Format, level: Level, told: Told, is_whole: bool) {
    match format {
        Format::Tarmac | Format::Stf if !told.data => {
            tell(format_args!("this emulator does not tell what is read and written; QEMU since 9.2 does"));
        }
        Format::Astf if !told.operands && level == Level::BasicPlus && !is_whole => tell(format_args!(
            "this emulator does not tell what is in registers; QEMU since 9.0 does, and a Basic trace is written without \
             what needs them (--astf-level basic)"
        )),
        _ => {}
    }
}

impl Piece {
    fn finish(mut self) -> anyhow::Result<Written> {
        self.sink.finish().map_err(|error| told(&self.path, error))?;
        let instructions = self.instructions;
        self.close(instructions, None)
    }

    /// Completes it up to the instruction at `place`.
    fn end(mut self, place: u64, reason: &anyhow::Error) -> anyhow::Result<Written> {
        match self.sink.finish() {
            // It was told why already.
            Ok(()) | Err(SinkError::Refused { .. }) => {}
            Err(error) => return Err(told(&self.path, error)),
        }
        let instructions = place - self.first;
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
    fn tell(&self) {
        tell_left_out(&self.path, &self.left_out);
        let name = self.path.display();
        tell(format_args!("{name}: {} instructions", grouped(self.instructions)));
        if !self.losses.is_empty() {
            tell(format_args!("{name}: lost, since the format cannot say it: {}", self.losses));
        }
        if let Some(reason) = &self.reason {
            tell(format_args!("{reason}; the file ends there"));
        }
    }
}

/// The first piece has the name as it is, others a number before the extensions.
fn piece_name(path: &Path, piece: u64) -> PathBuf {
    if piece == 1 {
        return path.to_path_buf();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extensions) =
        name.split_once('.').map_or((&*name, String::new()), |(stem, rest)| (stem, format!(".{rest}")));
    path.with_file_name(format!("{stem}-{piece}{extensions}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_names() {
        let rows = [("out.astf", 1, "out.astf"), ("a/out.1.astf.xz", 3, "a/out-3.1.astf.xz"), ("out", 2, "out-2")];
        for (name, piece, expected) in rows {
            assert_eq!(piece_name(Path::new(name), piece), Path::new(expected), "{name}");
        }
    }
}
