//! `stats`: what a trace comes to: counts, branches, the instruction mix, and the memory it touches.
//!
//! ```text
//! capture, ASTF ─────────▶ steps ─▶ counts
//! STF, Tarmac ─┬─────────▶ steps ─▶ counts
//!              └─▶ records, lines ─▶ counts of the format itself
//! ```

mod pipe;
mod steps;
mod stf;
mod tarmac;

use std::io::{self, Write};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow, bail};
use unspool::capture::{self, Capture};
use unspool::{OpenSteps, Trace, What, open_steps};

use self::pipe::Both;
use self::steps::{Counted, Source, count};
pub(super) use self::stf::each_count;
use super::{grouped, tell_assumptions, worse};
use crate::Verdict;
use crate::args::{ImageArgs, OutputArgs, SourceArgs, tell};
use crate::file::{Opened, is_pipe, open};
use crate::json::Object;
use crate::output::Output;
use crate::progress::{Meter, Progress};
use crate::tarmac::TarmacArgs;

/// Count what a trace tells: instructions by class, mnemonic, level and process, branches, accesses, memory touched
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A capture, an ASTF or STF file or a Tarmac log ('-': standard input, but for captures)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only this table (all, if not said)
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Option<By>,

    /// Threads (all cores, if not said)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    #[command(flatten)]
    sources: SourceArgs,

    #[command(flatten)]
    images: ImageArgs,

    #[command(flatten)]
    tarmac: TarmacArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// What is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// What instructions do; one may be in several classes
    Class,
    /// What instructions are called; of STF and Tarmac, as they were encoded or written
    Mnemonic,
    /// The instruction set
    Isa,
    /// The Exception level, or the privilege mode
    Level,
    /// The Security state
    Security,
    /// The process
    Process,
    /// The core
    Core,
    /// What became of branches
    Branch,
    /// The kind of exceptions
    Exception,
}

const EXAMPLES: &str = "\
Examples:
  unspool stats trace.zstf
  unspool stats trace.zstf --by mnemonic
  unspool stats run.tarmac
  unspool stats snapshot/ --source 0x10 --by level
  unspool stats trace.astf.xz --by process --json
  unspool stats trace.zstf --json | jq -r 'select(.kind == \"class\") | [.name, .count] | @tsv'

Of a capture, every source is counted by itself. Memory is that of the addresses in the trace: code is counted in bytes,
data in lines of 64 bytes, both in pages of 4 KiB; where there are too many to keep, it says 'at least'.
The first lines about an STF file are as tools around STF count: instructions that faulted are not in the mix, and until
an event says that user mode is entered, instructions are executed outside it. Of STF, --by class and --by mnemonic are
the fastest: nothing else is counted.";

impl Args {
    fn shows(&self, by: By) -> bool {
        self.by.is_none_or(|wanted| wanted == by)
    }

    fn threads(&self) -> Option<usize> {
        self.jobs.map(usize::from)
    }
}

/// What a format counts by itself.
trait Native {
    /// The tables that it has.
    fn tables(&self) -> &'static [By];

    /// Is there anything that steps could tell?
    fn has_steps(&self) -> bool {
        true
    }

    /// The first lines.
    fn head(&self, out: &mut dyn Write) -> io::Result<()>;

    /// The tables.
    fn text(&self, args: &Args, out: &mut dyn Write) -> io::Result<()>;

    /// The first line in JSON.
    fn json_head(&self, out: &mut dyn Write) -> io::Result<()>;

    /// The others.
    fn json(&self, args: &Args, out: &mut dyn Write) -> io::Result<()>;
}

/// Counts.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if let Some(capture) = open_capture(args)? {
        return of_capture(args, &capture);
    }
    let both = if is_pipe(&args.file) {
        pipe::open(args)?
    } else {
        Both { trace: open(&args.file, args.threads(), &args.tarmac)?, again: None }
    };
    match both.trace {
        None => Ok(Verdict::Problems),
        Some(Opened::Astf(file)) => {
            file.tell_warnings();
            let name = file.name().to_string();
            let mut output = Output::open_for(&args.output, &args.file)?;
            let (mut steps, meter) = file.into_steps();
            let counted = count(&mut steps, &meter, &mut Progress::new(output.on_terminal));
            let verdict = steps::print(args, &Source::named(&name), &counted, &[], &mut output)?;
            output.finish()?;
            Ok(verdict)
        }
        Some(Opened::Stf(file)) => {
            let needs_steps = !matches!(args.by, Some(By::Class | By::Mnemonic));
            of_both(args, both.again, needs_steps, |progress| stf::run(file, progress))
        }
        Some(Opened::Tarmac(file)) => {
            let needs_steps = !matches!(args.by, Some(By::Mnemonic | By::Isa));
            of_both(args, both.again, needs_steps, |progress| tarmac::run(file, progress))
        }
    }
}

/// Opens a capture, if it is one.
fn open_capture(args: &Args) -> anyhow::Result<Option<Capture>> {
    let is_capture =
        !args.tarmac.is_said() && matches!(What::at(&args.file), Ok(What::Capture)) && !is_pipe(&args.file);
    if !is_capture {
        return Ok(None);
    }
    match Capture::open(&args.file) {
        Ok(capture) => Ok(Some(capture)),
        // What a file is not is told by those who read files.
        Err(capture::Error::NotACapture { .. }) if args.file.is_file() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Every source by itself, a block each.
fn of_capture(args: &Args, capture: &Capture) -> anyhow::Result<Verdict> {
    tell_assumptions(capture);
    let traces = args.sources.select(capture)?;
    let mut output = Output::open_beside(&args.output, capture, &args.images.paths().collect::<Vec<_>>())?;
    let options = OpenSteps { codes: args.images.load()?, threads: args.threads(), ..OpenSteps::default() };
    let (mut verdict, mut blocks) = (Verdict::Clean, 0);
    for source in sources(&traces) {
        let opened = open_steps(&args.file, &OpenSteps { source: Some(source.name.clone()), ..options.clone() });
        match opened {
            Ok(mut steps) => {
                if blocks > 0 && !args.output.json {
                    output.write(|out| writeln!(out));
                }
                blocks += 1;
                let counted = count(&mut steps, &Meter::default(), &mut Progress::new(true));
                verdict = worse(verdict, steps::print(args, &source, &counted, &[], &mut output)?);
            }
            Err(error) => {
                // Sources that nobody asked for by name may be of any kind.
                if !args.sources.is_empty() || !matches!(error, unspool::Error::NotReadable { .. }) {
                    verdict = Verdict::Problems;
                }
                tell(error);
            }
        }
    }
    output.finish()?;
    if blocks == 0 {
        let path = args.file.display();
        return Err(anyhow!("{path}: no trace source could be read; 'unspool info' tells what is there"));
    }
    Ok(verdict)
}

/// The sources that traces are of, each once.
fn sources(traces: &[Trace<'_>]) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for trace in traces {
        let name = &trace.source().name;
        if !sources.iter().any(|source| source.name == *name) {
            sources.push(Source { name: name.clone(), id: Some(trace.source().id) });
        }
    }
    sources
}

/// Counts what the format itself says, and steps on another thread.
fn of_both(
    args: &Args,
    again: Option<Opened>,
    needs_steps: bool,
    native: impl FnOnce(Progress) -> anyhow::Result<(Option<Box<dyn Native>>, Verdict)>,
) -> anyhow::Result<Verdict> {
    let mut output = Output::open_for(&args.output, &args.file)?;
    let counting = needs_steps.then(|| spawn(args, again)).transpose()?;
    let (page, mut verdict) = native(Progress::new(output.on_terminal))?;
    let Some(page) = page else { return Ok(verdict) };
    let has_steps = page.has_steps();
    let counted = counting.map(join).transpose()?.filter(|_| has_steps);
    let source = Source::named(&args.file.display().to_string());
    output.write(|out| if args.output.json { page.json_head(out) } else { page.head(out) });
    if let Some(counted) = &counted {
        let told = steps::print(args, &source, counted, page.tables(), &mut output)?;
        verdict = worse(verdict, told);
    }
    output.write(|out| if args.output.json { page.json(args, out) } else { page.text(args, out) });
    output.finish()?;
    Ok(verdict)
}

type Counting = JoinHandle<Counted>;

fn spawn(args: &Args, again: Option<Opened>) -> anyhow::Result<Counting> {
    let again = match again {
        None => open(&args.file, args.threads(), &args.tarmac)?,
        again => again,
    };
    let (mut steps, meter) = match again {
        Some(Opened::Astf(file)) => file.into_steps(),
        Some(Opened::Stf(file)) => file.into_steps(),
        Some(Opened::Tarmac(file)) => file.into_steps(false),
        None => bail!("{}: the file has changed while it was read", args.file.display()),
    };
    // There is a bar already.
    let work = move || count(&mut steps, &meter, &mut Progress::new(true));
    thread::Builder::new().name("stats".into()).spawn(work).context("cannot start a thread")
}

fn join(counting: Counting) -> anyhow::Result<Counted> {
    counting.join().map_err(|_| anyhow!("counting steps failed"))
}

fn table(out: &mut dyn Write, name: &str, rows: &[(&str, u64)], total: u64) -> io::Result<()> {
    writeln!(out, "\n{name:<16} {:>15} {:>8}", "instructions", "share")?;
    rows.iter().try_for_each(|(name, count)| row(out, name, *count, total))
}

fn row(out: &mut dyn Write, name: &str, count: u64, total: u64) -> io::Result<()> {
    writeln!(out, "{name:<16} {:>15} {:>7.2}%", grouped(count), share(count, total) * 100.0)
}

fn share(count: u64, total: u64) -> f64 {
    count as f64 / total.max(1) as f64
}

/// Rows of tables in JSON.
struct Rows<'o> {
    source: Option<Option<u8>>,
    total: u64,
    line: String,
    out: &'o mut dyn Write,
}

impl<'o> Rows<'o> {
    fn new(source: Option<Option<u8>>, total: u64, out: &'o mut dyn Write) -> Self {
        Self { source, total, line: String::new(), out }
    }

    fn put(&mut self, kind: &str, name: &str, count: u64) -> io::Result<()> {
        self.put_with(kind, name, count, |_| {})
    }

    /// The same with more fields.
    fn put_with(&mut self, kind: &str, name: &str, count: u64, more: impl FnOnce(&mut Object<'_>)) -> io::Result<()> {
        let total = self.total;
        self.object(kind, |object| {
            object.string("name", name).plain("count", count);
            object.plain("share", format_args!("{:.6}", share(count, total)));
            more(object);
        })
    }

    /// Another line.
    fn object(&mut self, kind: &str, fields: impl FnOnce(&mut Object<'_>)) -> io::Result<()> {
        let mut object = Object::new(&mut self.line);
        if let Some(id) = self.source {
            object.nullable("source", id);
        }
        object.string("kind", kind);
        fields(&mut object);
        object.finish(self.out)
    }
}
