//! `unspool`: decodes, converts and analyzes processor instruction traces.
//!
//! Takes the command line; produces text or JSON lines, and an exit code: 0 success, 1 the trace has problems, 2 the
//! command failed. Every verb is a file in `cmd`, a thin shell over the library.

mod args;
mod cmd;
mod diagnostic;
mod file;
mod listing;
mod output;
mod programs;
mod progress;
mod symbols;
mod verdict;

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use unspool::FileError;

use self::verdict::Verdict;

/// Decode, convert and analyze processor instruction traces
#[derive(Debug, Parser)]
#[command(name = "unspool", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,

    /// Print no notes and no progress; warnings and errors are printed
    #[arg(short, long, global = true, help_heading = "Messages")]
    quiet: bool,

    #[command(flatten)]
    color: colorchoice_clap::Color,
}

const EXAMPLES: &str = "\
Examples:
  unspool info snapshot/                   summarize a capture
  unspool packets capture.zip              list the packets of each source
  unspool elements snapshot/ --committed   list elements, with speculation resolved
  unspool decode snapshot/                 list executed instructions
  unspool packets dump.bin --protocol ete  read a bare buffer of trace bytes
  unspool dump trace.astf                  list the records of an ASTF file
  unspool check trace.astf                 check a trace against the rules of its format
  unspool convert trace.astf small.astf.xz compress the same records
  unspool dump trace.zstf                  list the instructions of an STF file and their records
  unspool stats trace.zstf                 show the instruction mix
  unspool slice trace.zstf part.zstf --skip 1000 --limit 50
  unspool convert run.tarmac run.astf.xz   convert to another format, with a loss report
  unspool diff snapshot/ run.tarmac        compare two traces of the same run
  unspool program --include 0x1000..0x1ffc compute register values for a trace unit
  unspool record -o run.astf -- ./program  record a program under QEMU

Exit codes: 0 success, 1 the trace has problems, 2 the command failed.";

#[derive(Debug, Subcommand)]
enum Verb {
    Info(cmd::info::Args),
    Frames(cmd::frames::Args),
    Packets(cmd::packets::Args),
    Elements(cmd::elements::Args),
    Decode(cmd::decode::Args),
    Dump(cmd::dump::Args),
    Check(cmd::check::Args),
    Convert(cmd::convert::Args),
    Slice(cmd::slice::Args),
    Stats(cmd::stats::Args),
    Index(cmd::index::Args),
    State(cmd::state::Args),
    Calls(cmd::calls::Args),
    Profile(cmd::profile::Args),
    Diff(cmd::diff::Args),
    Encode(cmd::encode::Args),
    Program(cmd::program::Args),
    #[cfg(unix)]
    Record(cmd::record::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.color.write_global();
    if cli.quiet {
        diagnostic::set_quiet();
    }
    let result = match cli.verb {
        Verb::Info(args) => cmd::info::run(&args),
        Verb::Frames(args) => cmd::frames::run(&args),
        Verb::Packets(args) => cmd::packets::run(&args),
        Verb::Elements(args) => cmd::elements::run(&args),
        Verb::Decode(args) => cmd::decode::run(&args),
        Verb::Dump(args) => cmd::dump::run(&args),
        Verb::Check(args) => cmd::check::run(&args),
        Verb::Convert(args) => cmd::convert::run(&args),
        Verb::Slice(args) => cmd::slice::run(&args),
        Verb::Stats(args) => cmd::stats::run(&args),
        Verb::Index(args) => cmd::index::run(&args),
        Verb::State(args) => cmd::state::run(&args),
        Verb::Calls(args) => cmd::calls::run(&args),
        Verb::Profile(args) => cmd::profile::run(&args),
        Verb::Diff(args) => cmd::diff::run(&args),
        Verb::Encode(args) => cmd::encode::run(&args),
        Verb::Program(args) => cmd::program::run(&args),
        #[cfg(unix)]
        Verb::Record(args) => cmd::record::run(&args),
    };
    match result {
        Ok(Verdict::Clean) => ExitCode::SUCCESS,
        Ok(Verdict::Problems) => ExitCode::from(1),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            diagnostic::error(text_of(&error));
            let is_damaged = matches!(error.downcast_ref(), Some(FileError::Damaged(_)));
            ExitCode::from(if is_damaged { 1 } else { 2 })
        }
    }
}

/// The error and its causes, without those that the message contains already.
fn text_of(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        message if message.ends_with(&cause) => text,
        message => format!("{message}: {cause}"),
    })
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
