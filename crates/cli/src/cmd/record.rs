//! `record`: runs a program under QEMU, and writes a trace of its execution.
//!
//! PROGRAM ─▶ steps of its threads ─▶ a file per thread: OUT, OUT.1 ...
//!
//! The program keeps the standard streams; messages go to standard error. Files appear when they are complete, or not at
//! all. The exit code is that of the program.

mod args;
mod events;
mod output_file;
mod plugin;
mod progress;
mod signals;
mod system;
mod threads;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use anyhow::{Context, bail};
use signal_hook::low_level::signal_name;
use unspool::convert::Format;
use unspool::model::StepSource;
use unspool::number::many;
use unspool::record::{Machine, Options, Recording};
use unspool::target::Reserve;

pub(crate) use self::args::Args;
use self::args::has_values;
use self::output_file::{Written, refuse_existing};
use self::plugin::Plugin;
use self::signals::Signals;
use self::threads::ThreadFiles;
use crate::diagnostic;
use crate::verdict::Verdict;

/// Exit code of a process that was killed by a signal, minus the signal number.
const BY_SIGNAL: i32 = 128;

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let signals = Signals::wait()?;
    if args.system {
        return system::run(args, &signals);
    }
    let (program, arguments) = args.program.split_first().context("no program to record")?;
    let format = match args.output.as_deref().and_then(Format::from_path) {
        Some(format) => format,
        None => default_format(Machine::of_program(Path::new(program))?),
    };
    args.check_registers(format)?;
    let plugin = Plugin::find(args.plugin.as_deref())?;
    let options = Options {
        program: program.into(),
        arguments: arguments.to_vec(),
        from: args.from.clone(),
        skip: args.skip,
        limit: args.limit,
        data: has_values(format),
        registers: args.registers,
        emulator: args.emulator.clone(),
        plugin: plugin.path.clone(),
    };
    let output = args.output.clone().unwrap_or_else(|| default_name(&options, format));
    if !args.force {
        refuse_existing(&output)?;
    }
    let reserve = Arc::new(Reserve::beside(&output));
    let mut recording = Recording::start(&options)?;
    signals.forward_to(recording.process());
    let mut files = ThreadFiles::new(output.clone(), format, recording.coverage(), Arc::clone(&reserve));
    recording.follow(&mut files)?;
    signals.stop_forwarding();
    files.result()?;
    if let Some(ambiguous) = recording.ambiguous_state() {
        let blocks = many(ambiguous.blocks as u64, "block");
        diagnostic::warning(format_args!(
            "{blocks} of code recorded as T32 may be A32; the first is at {:#x}",
            ambiguous.first
        ));
    }
    let lost = recording.lost_threads();
    report_lost(lost, "thread");
    if reserve.is_released() {
        drop(recording);
        files.finish()?.iter().for_each(Written::report);
        return refuse_full_disk(&reserve, &output).map(|()| Verdict::Clean);
    }
    let status = recording.wait().context("waiting for the emulator")?;
    diagnostic::note(format_args!("{}: {}", options.program.display(), status_text(status)));
    let written = files.finish()?;
    if written.is_empty() {
        bail!("nothing was recorded: the program did not reach the start of recording");
    }
    written.iter().for_each(Written::report);
    refuse_full_disk(&reserve, &output)?;
    Ok(match exit_code(status) {
        0 => Verdict::of(lost > 0),
        code => Verdict::Program(code),
    })
}

/// Reports threads or CPUs whose last records are not in the trace.
fn report_lost(count: usize, what: &str) {
    if count > 0 {
        let threads = many(count as u64, what);
        diagnostic::warning(format_args!(
            "the last records of {threads} are lost: there was no shared memory for them, or the program closed the \
             connection of the plugin"
        ));
    }
}

/// Fails if the disk was full: the files are complete up to there.
fn refuse_full_disk(reserve: &Reserve, output: &Path) -> anyhow::Result<()> {
    if reserve.is_released() {
        bail!("{}: the disk is full: the trace ends before the program; free space, or use --limit", output.display());
    }
    Ok(())
}

/// Exit code of the program, as a shell reports it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn status_text(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("the program ended with exit code {code}"),
        None => match status.signal().and_then(signal_name) {
            Some(name) => format!("the program was killed by {name}"),
            None => format!("the program was killed ({status})"),
        },
    }
}

fn default_format(machine: Machine) -> Format {
    match machine {
        Machine::Aarch64 => Format::Astf,
        Machine::Arm => Format::Tarmac,
        Machine::Riscv64 | Machine::Riscv32 => Format::Stf,
    }
}

/// Default output: the name of the program, in the current directory.
fn default_name(options: &Options, format: Format) -> PathBuf {
    let mut name = options.program.file_name().unwrap_or_default().to_os_string();
    name.push(format.extension());
    name.into()
}
