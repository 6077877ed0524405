//! `stats`: instruction mix, branches, and the memory that a trace touches.
//!
//! ```text
//! capture, ASTF ─────────▶ steps ─▶ counts
//! STF, Tarmac ─┬─────────▶ steps ─▶ counts
//!              └─▶ records, lines ─▶ native counts of the format
//! ```

mod by;
mod native;
mod text;

use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow, bail};
use unspool::capture::Capture;
use unspool::file::{StfFile, TarmacFile, TraceFile, is_pipe};
use unspool::stf::Record;
use unspool::stf::stats::Stats;
use unspool::tarmac::stats::Counts;
use unspool::{Counted, FileKind, Meter, OpenSteps, Trace, count_steps, open_capture, open_steps};

use self::by::By;
use self::native::{Native, StfPage, TarmacPage};
use self::text::Page;
use crate::args::{ImageArgs, JobsArgs, OutputArgs, SourceArgs};
use crate::diagnostic;
use crate::file::{TarmacArgs, open, report_astf, stf_verdict, tarmac_verdict, with_hint};
use crate::listing::report_assumptions;
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Show instruction mix, branch and memory statistics of a trace
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Capture, ASTF file, STF file or Tarmac log ('-': standard input, except for captures)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only this table [default: all]
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Option<By>,

    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    tarmac: TarmacArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool stats trace.zstf
  unspool stats trace.zstf --by mnemonic
  unspool stats run.tarmac
  unspool stats snapshot/ --source 0x10 --by level
  unspool stats trace.astf.xz --by process --json
  unspool stats trace.zstf --json | jq -r 'select(.kind == \"class\") | [.name, .count] | @tsv'

The sources of a capture are counted separately. Memory is counted by the addresses in the trace: code in bytes, data in
lines of 64 bytes, both in pages of 4 KiB; 'at least' marks counts with too many addresses to keep.
The first lines about an STF file count as STF tools do: instructions that faulted are not in the mix, and instructions
before the first event that enters user mode are not user mode. For STF, --by class and --by mnemonic are the fastest,
since they count nothing else.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if let Some(capture) = capture_of(args)? {
        return count_capture(args, &capture);
    }
    let (trace, again) = if is_pipe(&args.file) {
        let options = args.tarmac.options(args.jobs.threads());
        TraceFile::open_twice(&args.file, &options).map_err(|error| with_hint(error.into(), args.tarmac.hint))?
    } else {
        (open(&args.file, args.jobs.threads(), &args.tarmac)?, None)
    };
    match trace {
        TraceFile::Astf(file) => {
            report_astf(&file);
            let name = file.name().to_string();
            let mut output = Output::open_for(&args.output, &args.file)?;
            let (mut steps, meter) = file.into_steps();
            let counted = count_steps(&mut *steps, &meter, &mut Progress::new(output.on_terminal).callback());
            let verdict = print(args, &name, None, &counted, &[], &mut output)?;
            output.finish()?;
            Ok(verdict)
        }
        TraceFile::Stf(file) => {
            let needs_steps = !matches!(args.by, Some(By::Class | By::Mnemonic));
            count_both(args, again, needs_steps, |progress| count_stf(file, progress))
        }
        TraceFile::Tarmac(file) => {
            let needs_steps = !matches!(args.by, Some(By::Mnemonic | By::Isa));
            count_both(args, again, needs_steps, |progress| count_tarmac(file, progress))
        }
    }
}

fn capture_of(args: &Args) -> anyhow::Result<Option<Capture>> {
    let is_capture =
        !args.tarmac.is_given() && matches!(FileKind::at(&args.file), Ok(FileKind::Capture)) && !is_pipe(&args.file);
    if !is_capture {
        return Ok(None);
    }
    open_capture(&args.file).map(Some).map_err(|error| with_hint(error.into(), args.tarmac.hint))
}

fn count_capture(args: &Args, capture: &Capture) -> anyhow::Result<Verdict> {
    report_assumptions(capture);
    let traces = args.sources.select(capture)?;
    let mut output = Output::open_beside(&args.output, capture, &args.images.paths())?;
    let options = OpenSteps { codes: args.images.load()?, threads: args.jobs.threads(), ..OpenSteps::default() };
    let (mut verdict, mut blocks) = (Verdict::Clean, 0);
    for (name, id) in sources(&traces) {
        match open_steps(&args.file, &OpenSteps { source: Some(name.clone()), ..options.clone() }) {
            Ok(mut steps) => {
                if blocks > 0 && !args.output.json {
                    output.write(|out| writeln!(out));
                }
                blocks += 1;
                let counted = count_steps(&mut *steps, &Meter::default(), &mut |_, _| {});
                verdict = verdict.or(print(args, &name, Some(id), &counted, &[], &mut output)?);
            }
            Err(error) => {
                // Sources that were not named may be of any kind.
                if !args.sources.is_empty() || !matches!(error, unspool::Error::NotReadable { .. }) {
                    verdict = Verdict::Problems;
                }
                diagnostic::error(error);
            }
        }
    }
    output.finish()?;
    if blocks == 0 {
        bail!("{}: no trace source could be read; 'unspool info' shows what the capture contains", args.file.display());
    }
    Ok(verdict)
}

/// Distinct names and ids of the sources.
fn sources(traces: &[Trace<'_>]) -> Vec<(String, Option<u8>)> {
    let mut sources: Vec<(String, Option<u8>)> = Vec::new();
    for source in traces.iter().map(Trace::source) {
        if !sources.iter().any(|(name, _)| *name == source.name) {
            sources.push((source.name.clone(), source.id));
        }
    }
    sources
}

type NativeCounts = anyhow::Result<(Option<Box<dyn Native>>, Verdict)>;

/// Counts natively, and steps on another thread.
fn count_both(
    args: &Args,
    again: Option<TraceFile>,
    needs_steps: bool,
    native: impl FnOnce(Progress) -> NativeCounts,
) -> anyhow::Result<Verdict> {
    let mut output = Output::open_for(&args.output, &args.file)?;
    let counting = needs_steps.then(|| spawn(args, again)).transpose()?;
    let (page, mut verdict) = native(Progress::new(output.on_terminal))?;
    let Some(page) = page else { return Ok(verdict) };
    let has_steps = page.has_steps();
    let join = |counting: JoinHandle<Counted>| counting.join().map_err(|_| anyhow!("counting steps failed"));
    let counted = counting.map(join).transpose()?.filter(|_| has_steps);
    output.write(|out| if args.output.json { page.json_head(out) } else { page.head(out) });
    if let Some(counted) = &counted {
        let name = args.file.display().to_string();
        verdict = verdict.or(print(args, &name, None, counted, page.tables(), &mut output)?);
    }
    output.write(|out| if args.output.json { page.json(args.by, out) } else { page.text(args.by, out) });
    output.finish()?;
    Ok(verdict)
}

fn spawn(args: &Args, again: Option<TraceFile>) -> anyhow::Result<JoinHandle<Counted>> {
    let again = match again {
        Some(again) => again,
        None => open(&args.file, args.jobs.threads(), &args.tarmac)?,
    };
    let (mut steps, meter) = again.into_steps(false);
    // The other thread has the progress bar.
    let work = move || count_steps(&mut *steps, &meter, &mut |_, _| {});
    thread::Builder::new().name("stats".into()).spawn(work).context("cannot start a thread")
}

fn count_stf(mut file: StfFile, mut progress: Progress) -> NativeCounts {
    let header = match file.header()? {
        Ok(header) => header,
        Err(end) => return Ok((None, stf_verdict(&mut file, &end))),
    };
    let mut stats = Stats::default();
    header.isa_records().iter().for_each(|record| stats.mix.follow(record));
    let trailing = |stats: &mut Stats, record: &Record<'_>| stats.counts.add_trailing(record);
    let (Stats { counts, mix }, end) = file.gather(&header, &mut progress.callback(), stats, trailing)?;
    let has_instructions = !header.has_transactions();
    let page = StfPage { name: file.name().to_string(), counts, table: mix.finish(), has_instructions };
    Ok((Some(Box::new(page)), stf_verdict(&mut file, &end)))
}

fn count_tarmac(mut file: TarmacFile, mut progress: Progress) -> NativeCounts {
    let mut counts = Counts::default();
    let end = file.each(&mut progress.callback(), |_, line| {
        counts.add(&line.record);
        true
    })?;
    let page = TarmacPage { name: file.name().to_string(), counts };
    Ok((Some(Box::new(page)), tarmac_verdict(&mut file, &end)))
}

fn print(
    args: &Args,
    name: &str,
    id: Option<Option<u8>>,
    counted: &Counted,
    native: &[By],
    output: &mut Output,
) -> anyhow::Result<Verdict> {
    let page = Page { name, counted, by: args.by, native };
    let shows = |table: &str| By::of(table).is_some_and(|by| page.shows(by));
    output.write(|out| match args.output.json {
        true => counted.report.write_json(counted.unit, id.map(|id| (id, name)), &shows, out),
        false => page.text(out),
    });
    match &counted.ended {
        Ok(()) => Ok(Verdict::Clean),
        // The native count has reported the same damage.
        Err(error) if error.is_damage && !native.is_empty() => Ok(Verdict::Problems),
        Err(error) if error.is_damage => {
            diagnostic::error(format_args!("{name}: {error}"));
            Ok(Verdict::Problems)
        }
        Err(error) => bail!("{name}: {error}"),
    }
}
