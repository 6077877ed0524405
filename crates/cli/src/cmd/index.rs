//! `index`: writes the index of a trace, with which any point can be inspected without reading all of it.

mod capture;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use unspool::FileKind;
use unspool::container::Container;
use unspool::file::is_pipe;
use unspool::indexed_log::{LogError, index_options, index_path, make_index, open_indexed};
use unspool::indexed_steps::{make_step_index, open_step_index};
use unspool::model::json::Object;
use unspool::number::many;
use unspool::tarmac::index::{IndexError, IndexOptions, Totals};

pub(super) use self::capture::IndexableSource;
use self::capture::index_capture;
use crate::args::{ImageArgs, JobsArgs};
use crate::diagnostic::{error, note};
use crate::file::{TarmacArgs, open_log, with_hint};
use crate::output::is_same;
use crate::process_args::ProcessArgs;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Write the index of a trace, for 'unspool state' and 'unspool decode --at'
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    log: LogArgs,

    /// Index file [default: TRACE.unspool-index]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Rebuild an index that is up to date, and replace FILE even if it is not an index
    #[arg(long)]
    force: bool,

    /// Print JSON, one object per line; docs/json.md describes them
    #[arg(long)]
    json: bool,

    /// Source of a capture: its trace id or its name
    #[arg(long, value_name = "ID|NAME")]
    source: Option<String>,

    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    processes: ProcessArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool index boot.tarmac                    writes boot.tarmac.unspool-index
  unspool index boot.tarmac -o /tmp/boot.idx
  unspool index boot.tarmac --force --json
  unspool index trace.astf
  unspool index snapshot/ --source 0x10        writes snapshot.NAME.unspool-index

'unspool state' makes this index itself when a trace is large; 'index' makes it ahead of time. If the trace has changed since, \
either command rebuilds it. Compressed logs cannot be indexed: decompress them first. ASTF and STF files \
must be uncompressed, ASTF with zlib as unspool writes it ('unspool convert --to zlib'), or .zstf.
The index of a capture is that of one source, and of its code: give the same --source, --image and options of processes to \
both commands. A file of code that is found by --sysroot, --debug-dir or on this machine may change unnoticed: --force. \
Segments start at synchronizations of the trace, and at the start of each buffer. A trace unit that speculates, ETMv3, and a \
single buffer in which code changes have no such places: these sources are read from their beginning.";

#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Capture, ASTF file, STF file or Tarmac log ('-': standard input, except for 'index' and captures)
    #[arg(value_name = "TRACE")]
    pub(super) log: PathBuf,

    #[command(flatten)]
    pub(super) tarmac: TarmacArgs,

    /// Memory is big-endian
    #[arg(long, help_heading = "Tarmac")]
    pub(super) big_endian: bool,
}

impl LogArgs {
    pub(super) fn size(&self) -> u64 {
        self.log.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Container of the log, and options of its index.
    pub(super) fn index_options(&self, jobs: JobsArgs) -> anyhow::Result<(Container, IndexOptions)> {
        // A file of another kind is refused with its name.
        if !is_pipe(&self.log) {
            drop(open_log(&self.log, &self.tarmac)?);
        }
        let options = self.tarmac.options(jobs.threads());
        Ok(index_options(&self.log, &options, self.big_endian)?)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if !args.log.tarmac.is_given() && !is_pipe(&args.log.log) {
        match FileKind::at(&args.log.log) {
            Ok(FileKind::Capture) => {
                return index_capture(args).map_err(|error| with_hint(error, args.log.tarmac.hint));
            }
            _ if args.source.is_some() => {
                bail!("{}: this is not a capture, and has no sources; omit --source", args.log.log.display());
            }
            Ok(FileKind::Astf | FileKind::Stf) => return index_steps(args),
            _ => {}
        }
    }
    let (container, options) = args.log.index_options(args.jobs)?;
    if container != Container::Plain {
        return Err(LogError::Compressed { path: args.log.log.display().to_string() }.into());
    }
    let path = args.output.clone().unwrap_or_else(|| index_path(&args.log.log));
    if is_same(&path, &args.log.log) {
        bail!("{}: this is the log; write the index to another file", path.display());
    }
    check_index(&args.log.log, &path, &options, args.force)?;
    let existing = if args.force { None } else { open_indexed(&args.log.log, &path, &options).ok() };
    let (totals, took) = match existing {
        Some(indexed) => (indexed.index().totals(), None),
        None => {
            let start = Instant::now();
            let mut progress = Progress::new(false);
            let totals = make_index(&args.log.log, &path, &options, |done| progress.at(done, args.log.size()))?;
            (totals, Some(start.elapsed()))
        }
    };
    let report = Report { log: &args.log.log, size: args.log.size(), path: &path, totals, took, is_of_lines: true };
    report.finish(args.json)
}

/// Writes the index of the steps of a trace.
fn index_steps(args: &Args) -> anyhow::Result<Verdict> {
    let trace = &args.log.log;
    let path = args.output.clone().unwrap_or_else(|| index_path(trace));
    if is_same(&path, trace) {
        bail!("{}: this is the trace; write the index to another file", path.display());
    }
    let existing = match open_step_index(trace, &path) {
        Err(error) => {
            check_foreign(&path, &error, args.force)?;
            None
        }
        Ok(indexed) => Some(indexed.index().totals()).filter(|_| !args.force),
    };
    let start = Instant::now();
    let (totals, damage, took) = match existing {
        Some(totals) => (totals, None, None),
        None => {
            let (totals, damage) = make_step_index(trace, &path, &mut Progress::new(false).callback())?;
            (totals, damage, Some(start.elapsed()))
        }
    };
    let report = Report { log: trace, size: args.log.size(), path: &path, totals, took, is_of_lines: false };
    report.notes();
    if let Some(damage) = &damage {
        error(format_args!("{}: {damage}; the index ends there", trace.display()));
    }
    if args.json {
        report.json(&mut io::stdout().lock())?;
    }
    Ok(Verdict::of(damage.is_some()))
}

/// Rejects a file that is no index, unless it may be replaced.
pub(super) fn check_foreign(path: &Path, error: &LogError, force: bool) -> anyhow::Result<()> {
    if !force && matches!(error, LogError::Index { source: IndexError::Foreign, .. }) {
        bail!("{}: the file exists and is not an index; use --force to replace it", path.display());
    }
    Ok(())
}

/// Rejects a file that is no index, unless it may be replaced.
pub(super) fn check_index(log: &Path, path: &Path, options: &IndexOptions, force: bool) -> anyhow::Result<()> {
    match open_indexed(log, path, options) {
        Err(error) if path.exists() => check_foreign(path, &error, force),
        _ => Ok(()),
    }
}

struct Report<'a> {
    log: &'a Path,
    /// Bytes of the trace.
    size: u64,
    path: &'a Path,
    totals: Totals,
    /// `None`: the index existed.
    took: Option<Duration>,
    /// The trace is a log.
    is_of_lines: bool,
}

impl Report<'_> {
    fn finish(&self, json: bool) -> anyhow::Result<Verdict> {
        self.notes();
        if json {
            self.json(&mut io::stdout().lock())?;
        }
        Ok(Verdict::of(self.totals.problems > 0))
    }

    fn sizes(&self) -> [u64; 2] {
        [self.size, self.path.metadata().map_or(0, |about| about.len())]
    }

    fn notes(&self) {
        let [log, index] = self.sizes();
        let share = index as f64 / log.max(1) as f64 * 100.0;
        let Totals { lines, instructions, exceptions, problems, .. } = self.totals;
        let (name, instructions) = (self.log.display(), many(instructions, "instruction"));
        let lines = if self.is_of_lines { format!("{}, ", many(lines, "line")) } else { String::new() };
        note(format_args!("{name}: {lines}{instructions}, {}", many(exceptions, "exception")));
        if problems > 0 {
            let lines = many(problems, "line");
            error(format_args!("{name}: {lines} cannot be parsed; 'unspool check {name}' lists them"));
        }
        let size =
            format!("{}, {share:.1}% of the {}", many(index, "byte"), if self.is_of_lines { "log" } else { "trace" });
        match self.took {
            None => note(format_args!("{} is up to date: {size}", self.path.display())),
            Some(took) => {
                let (seconds, speed) = (took.as_secs_f64(), log as f64 / took.as_secs_f64().max(1e-6) / 1e6);
                note(format_args!("wrote {}: {size}, in {seconds:.2} s ({speed:.0} MB/s)", self.path.display()));
            }
        }
    }

    fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let [log, index] = self.sizes();
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", "index").string("file", self.path.display());
        object.plain("bytes", index).plain("log_bytes", log);
        object.optional("lines", self.is_of_lines.then_some(self.totals.lines));
        object.plain("instructions", self.totals.instructions).plain("exceptions", self.totals.exceptions);
        object.plain("problems", self.totals.problems).flag("made", self.took.is_some());
        object.nullable("seconds", self.took.map(|took| took.as_secs_f64()));
        object.write_line(out)?;
        Object::summary(&mut line, "index").flag("clean", self.totals.problems == 0).write_line(out)
    }
}
