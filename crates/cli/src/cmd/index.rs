//! `index`: writes the index of a Tarmac log, with which any point can be inspected without reading the whole log.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use unspool::container::Container;
use unspool::file::is_pipe;
use unspool::indexed_log::{LogError, index_options, index_path, make_index, open_indexed};
use unspool::model::json::Object;
use unspool::number::many;
use unspool::tarmac::index::{IndexError, IndexOptions, Totals};

use crate::args::JobsArgs;
use crate::diagnostic::{error, note};
use crate::file::{TarmacArgs, open_log};
use crate::output::is_same;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Write the index of a Tarmac log, for 'unspool state'
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    log: LogArgs,

    /// Index file [default: LOG.unspool-index]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Rebuild an index that is up to date, and replace FILE even if it is not an index
    #[arg(long)]
    force: bool,

    /// Print JSON, one object per line; docs/json.md describes them
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    jobs: JobsArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool index boot.tarmac                    writes boot.tarmac.unspool-index
  unspool index boot.tarmac -o /tmp/boot.idx
  unspool index boot.tarmac --force --json

'unspool state' makes this index itself when a log is large; 'index' makes it ahead of time. If the log has changed since, \
either command rebuilds it. Compressed logs cannot be indexed: decompress them first.";

#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Tarmac log ('-': standard input, except for 'index')
    #[arg(value_name = "LOG")]
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
    let report = Report { log: &args.log.log, path: &path, totals, took };
    report.notes();
    if args.json {
        report.json(&mut io::stdout().lock())?;
    }
    Ok(Verdict::of(totals.problems > 0))
}

/// Rejects a file that is no index, unless it may be replaced.
pub(super) fn check_index(log: &Path, path: &Path, options: &IndexOptions, force: bool) -> anyhow::Result<()> {
    let is_foreign = || {
        let opened = open_indexed(log, path, options);
        matches!(opened, Err(LogError::Index { source: IndexError::Foreign, .. }))
    };
    if !force && path.exists() && is_foreign() {
        bail!("{}: the file exists and is not an index; use --force to replace it", path.display());
    }
    Ok(())
}

struct Report<'a> {
    log: &'a Path,
    path: &'a Path,
    totals: Totals,
    /// `None`: the index existed.
    took: Option<Duration>,
}

impl Report<'_> {
    fn sizes(&self) -> [u64; 2] {
        [self.log, self.path].map(|path| path.metadata().map_or(0, |about| about.len()))
    }

    fn notes(&self) {
        let [log, index] = self.sizes();
        let share = index as f64 / log.max(1) as f64 * 100.0;
        let Totals { lines, instructions, exceptions, problems, .. } = self.totals;
        let (name, lines, instructions) = (self.log.display(), many(lines, "line"), many(instructions, "instruction"));
        note(format_args!("{name}: {lines}, {instructions}, {}", many(exceptions, "exception")));
        if problems > 0 {
            let lines = many(problems, "line");
            error(format_args!("{name}: {lines} cannot be parsed; 'unspool check {name}' lists them"));
        }
        let size = format!("{}, {share:.1}% of the log", many(index, "byte"));
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
        object.plain("bytes", index).plain("log_bytes", log).plain("lines", self.totals.lines);
        object.plain("instructions", self.totals.instructions).plain("exceptions", self.totals.exceptions);
        object.plain("problems", self.totals.problems).flag("made", self.took.is_some());
        object.nullable("seconds", self.took.map(|took| took.as_secs_f64()));
        object.write_line(out)?;
        Object::summary(&mut line, "index").flag("clean", self.totals.problems == 0).write_line(out)
    }
}
