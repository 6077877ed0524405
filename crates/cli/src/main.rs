//! `unspool`: decodes, converts and analyzes processor instruction traces.
//!
//! Takes the command line; produces text or JSON lines, and an exit code: 0 success, 1 the trace has problems, 2 the
//! command failed. Every verb is a file in `cmd`, a thin shell over the library.

mod args;
mod cmd;
mod counting;
mod diagnostic;
mod file;
#[cfg(unix)]
mod interruption;
mod item_lines;
mod json;
mod listing;
mod output;
mod pager;
mod process_args;
mod programs;
mod progress;
mod renamed;
mod selection_args;
mod source_lines;
mod style;
mod symbols;
mod text;
mod traces;
mod verdict;
mod writer_thread;

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use unspool::FileError;

use self::verdict::Verdict;

/// Decode, convert and analyze processor instruction traces
#[derive(Debug, Parser)]
#[command(name = "unspool", version = env!("UNSPOOL_VERSION"), arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,

    /// Suppress notes and progress; still print warnings and errors
    #[arg(short, long, global = true, help_heading = "Messages")]
    quiet: bool,

    /// Print more notes: what each file was identified as, all notes on images instead of the first ten, and the time that
    /// each stage took
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = "Messages")]
    verbose: bool,

    /// Write to the terminal directly, not through $UNSPOOL_PAGER, $PAGER or less
    #[arg(long, global = true, help_heading = "Display")]
    no_pager: bool,

    /// Show the names of C++ and Rust functions as they are in the symbol table
    #[arg(long, global = true, help_heading = "Display")]
    no_demangle: bool,

    #[command(flatten)]
    color: colorchoice_clap::Color,
}

const EXAMPLES: &str = "\
Examples:
  unspool info snapshot/                   summarize a capture
  unspool doctor capture.zip               diagnose a capture, with advice
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
  unspool find trace.astf --function main  search for instructions, accesses and exceptions
  unspool diff snapshot/ run.tarmac        compare two traces of the same run
  unspool pack perf.data -o run.zip        collect trace, system events and programs in one file
  unspool program --include 0x1000..0x2000 compute register values for a trace unit
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
    Doctor(cmd::doctor::Args),
    Convert(cmd::convert::Args),
    Slice(cmd::slice::Args),
    Strip(cmd::edit::StripArgs),
    Edit(cmd::edit::EditArgs),
    Merge(cmd::edit::MergeArgs),
    Stats(cmd::stats::Args),
    Find(cmd::find::Args),
    Index(cmd::index::Args),
    State(cmd::state::Args),
    Calls(cmd::calls::Args),
    Profile(cmd::profile::Args),
    Branches(cmd::branches::Args),
    Accesses(cmd::accesses::Args),
    Tuples(cmd::tuples::Args),
    Annotate(cmd::annotate::Args),
    Coverage(cmd::coverage::Args),
    Bbv(cmd::bbv::Args),
    Image(cmd::image::Args),
    Export(cmd::export::Args),
    Tables(cmd::tables::Args),
    Query(cmd::query::Args),
    View(cmd::view::Args),
    Diff(cmd::diff::Args),
    Encode(cmd::encode::Args),
    Pack(cmd::pack::Args),
    Program(cmd::program::Args),
    Record(cmd::record::Args),
    Completions(cmd::completions::Args),
    #[command(hide = true)]
    Man(cmd::man::Args),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| renamed::exit(&error));
    cli.apply();
    #[cfg(unix)]
    if !matches!(cli.verb, Verb::Record(_))
        && let Err(error) = interruption::remove_files_at_signals()
    {
        diagnostic::warning(format_args!("cannot wait for Ctrl-C, which may leave a temporary file: {error}"));
    }
    let result = {
        let _stage = diagnostic::Stage::start("the command");
        run(&cli.verb)
    };
    match result {
        Ok(verdict) => ExitCode::from(verdict.exit_code()),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            diagnostic::error(text_of(&error));
            let is_damaged = matches!(error.downcast_ref(), Some(FileError::Damaged(_)));
            ExitCode::from(if is_damaged { 1 } else { 2 })
        }
    }
}

impl Cli {
    /// Sets the options that all verbs have.
    fn apply(&self) {
        self.color.write_global();
        let options: [(bool, fn()); 4] = [
            (self.quiet, diagnostic::set_quiet),
            (self.verbose, diagnostic::set_verbose),
            (self.no_pager, pager::turn_off),
            (self.no_demangle, symbols::keep_mangled),
        ];
        options.iter().filter(|(is_set, _)| *is_set).for_each(|(_, set)| set());
    }
}

fn run(verb: &Verb) -> anyhow::Result<Verdict> {
    match verb {
        Verb::Info(args) => cmd::info::run(args),
        Verb::Frames(args) => cmd::frames::run(args),
        Verb::Packets(args) => cmd::packets::run(args),
        Verb::Elements(args) => cmd::elements::run(args),
        Verb::Decode(args) => cmd::decode::run(args),
        Verb::Dump(args) => cmd::dump::run(args),
        Verb::Check(args) => cmd::check::run(args),
        Verb::Doctor(args) => cmd::doctor::run(args),
        Verb::Convert(args) => cmd::convert::run(args),
        Verb::Slice(args) => cmd::slice::run(args),
        Verb::Strip(args) => cmd::edit::run_strip(args),
        Verb::Edit(args) => cmd::edit::run_edit(args),
        Verb::Merge(args) => cmd::edit::run_merge(args),
        Verb::Stats(args) => cmd::stats::run(args),
        Verb::Find(args) => cmd::find::run(args),
        Verb::Index(args) => cmd::index::run(args),
        Verb::State(args) => cmd::state::run(args),
        Verb::Calls(args) => cmd::calls::run(args),
        Verb::Profile(args) => cmd::profile::run(args),
        Verb::Branches(args) => cmd::branches::run(args),
        Verb::Accesses(args) => cmd::accesses::run(args),
        Verb::Tuples(args) => cmd::tuples::run(args),
        Verb::Annotate(args) => cmd::annotate::run(args),
        Verb::Coverage(args) => cmd::coverage::run(args),
        Verb::Bbv(args) => cmd::bbv::run(args),
        Verb::Image(args) => cmd::image::run(args),
        Verb::Export(args) => cmd::export::run(args),
        Verb::Tables(args) => cmd::tables::run(args),
        Verb::Query(args) => cmd::query::run(args),
        Verb::View(args) => cmd::view::run(args),
        Verb::Diff(args) => cmd::diff::run(args),
        Verb::Encode(args) => cmd::encode::run(args),
        Verb::Pack(args) => cmd::pack::run(args),
        Verb::Program(args) => cmd::program::run(args),
        Verb::Record(args) => cmd::record::run(args),
        Verb::Completions(args) => cmd::completions::run(args, &Cli::command()),
        Verb::Man(args) => cmd::man::run(args, Cli::command()),
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
    // Windows has a second error for it, which std gives no kind: ERROR_PIPE_NOT_CONNECTED.
    let is_closed = |e: &io::Error| e.kind() == ErrorKind::BrokenPipe || cfg!(windows) && e.raw_os_error() == Some(233);
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_closed))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
