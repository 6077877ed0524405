//! `index`: writes the index of a Tarmac log, with which any point can be inspected without reading the whole log.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use unspool::container::Container;
use unspool::indexed_log::{LogError, index_options, index_path, make_index, open_indexed};
use unspool::model::json::Object;
use unspool::number::{grouped, many};
use unspool::tarmac::index::{IndexOptions, Totals};

use crate::args::JobsArgs;
use crate::file::TarmacArgs;
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

    /// Replace an index that is up to date
    #[arg(long)]
    force: bool,

    /// Print one JSON object
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

An index identifies its log, and is rebuilt when the log has changed. Compressed logs cannot be indexed.";

#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Tarmac log
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
    let mut out = io::stdout().lock();
    if args.json { report.json(&mut out) } else { report.text(&mut out) }?;
    Ok(Verdict::of(totals.problems > 0))
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

    fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let [log, index] = self.sizes();
        let share = index as f64 / log.max(1) as f64 * 100.0;
        let Totals { lines, instructions, exceptions, problems, .. } = self.totals;
        let (lines, instructions) = (many(lines, "line"), many(instructions, "instruction"));
        writeln!(out, "{}: {lines}, {instructions}, {}", self.log.display(), many(exceptions, "exception"))?;
        if problems > 0 {
            writeln!(out, "  {} cannot be parsed; 'unspool check' lists them", many(problems, "line"))?;
        }
        let size = format!("{} bytes, {share:.1}% of the log", grouped(index));
        match self.took {
            None => writeln!(out, "  {}: {size}, up to date", self.path.display()),
            Some(took) => {
                let speed = log as f64 / took.as_secs_f64().max(1e-6) / 1e6;
                writeln!(out, "  {}: {size}, in {:.2} s ({speed:.0} MB/s)", self.path.display(), took.as_secs_f64())
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
        object.write_line(out)
    }
}
