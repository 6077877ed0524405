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

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow, bail};
use unspool::capture::Capture;
use unspool::file::{StfFile, TarmacFile, TraceFile, is_pipe, is_standard};
use unspool::stf::Record;
use unspool::stf::stats::Stats;
use unspool::tarmac::stats::Counts;
use unspool::{Counted, FileKind, Meter, OpenSteps, PresentIds, Trace, count_steps, open_capture, open_steps};

use self::by::By;
use self::native::{Native, StfPage, TarmacPage};
use self::text::Page;
use crate::args::{ImageArgs, JobsArgs, OutputArgs, SourceArgs};
use crate::diagnostic;
use crate::file::{TarmacArgs, each_file, open, report_astf, stf_verdict, tarmac_verdict, with_hint};
use crate::json::write_summary;
use crate::listing::report_assumptions;
use crate::output::Output;
use crate::process_args::ProcessArgs;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Show instruction mix, branch and memory statistics of traces
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Captures, ASTF files, STF files or Tarmac logs ('-': standard input, except for captures)
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

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
    processes: ProcessArgs,
    #[command(flatten)]
    tarmac: TarmacArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool stats trace.zstf
  unspool stats trace.zstf --by mnemonic
  unspool stats old.zstf new.zstf --by class
  unspool stats run.tarmac
  unspool stats snapshot/ --source 0x10 --by level
  unspool stats trace.astf.xz --by process --json
  unspool stats trace.zstf --json | jq -r 'select(.kind == \"class\") | [.name, .count] | @tsv'

Files are counted one after the other, and so are the sources of a capture. Footprint: distinct bytes of code and distinct \
64-byte lines of data, each also in 4 KiB pages; 'at least' marks a count that stopped because there were too many addresses. \
For an STF file, the first lines use the counting rules of stf_tools: faulting instructions are excluded from the mix, and \
instructions before the first switch to user mode do not count as user mode. For STF, --by class and --by mnemonic are the fastest, \
since they count nothing else.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let inputs = args.files.iter().cloned().chain(args.images.paths().into_iter().map(Path::to_path_buf));
    let mut output = Output::open_beside_all(&args.output, &inputs.collect::<Vec<_>>())?;
    let verdict = each_file(&args.files, |index, file| {
        if index > 0 && !args.output.json {
            output.write(|out| writeln!(out));
        }
        Counting { args, file }.run(&mut output)
    })?;
    if args.output.json {
        write_summary(&mut output, "stats", verdict, |object| {
            object.plain("files", args.files.len());
        });
    }
    output.finish()?;
    Ok(verdict)
}

/// Counting of one file.
#[derive(Clone, Copy)]
struct Counting<'a> {
    args: &'a Args,
    file: &'a Path,
}

impl Counting<'_> {
    fn run(self, output: &mut Output) -> anyhow::Result<Verdict> {
        let Self { args, file } = self;
        if let Some(capture) = self.capture()? {
            return self.count_capture(&capture, output);
        }
        let (trace, again) = if is_pipe(file) {
            let options = args.tarmac.options(args.jobs.threads());
            TraceFile::open_twice(file, &options).map_err(|error| with_hint(error.into(), args.tarmac.hint))?
        } else {
            (open(file, args.jobs.threads(), &args.tarmac)?, None)
        };
        match trace {
            TraceFile::Astf(file) => {
                report_astf(&file);
                let name = file.name().to_string();
                let (mut steps, meter) = file.into_steps();
                let counted = count_steps(&mut *steps, &meter, &mut Progress::new(output.on_terminal).callback());
                self.print(&name, None, &counted, &[], output)
            }
            TraceFile::Stf(file) => {
                let needs_steps = !matches!(args.by, Some(By::Class | By::Mnemonic));
                self.count_both(again, needs_steps, output, |progress| count_stf(file, progress))
            }
            TraceFile::Tarmac(file) => {
                let needs_steps = !matches!(args.by, Some(By::Mnemonic | By::Isa));
                self.count_both(again, needs_steps, output, |progress| count_tarmac(file, progress))
            }
        }
    }

    /// Name in messages and JSON.
    fn name(self) -> String {
        if is_standard(self.file) { "standard input".to_string() } else { self.file.display().to_string() }
    }

    fn capture(self) -> anyhow::Result<Option<Capture>> {
        let Self { args, file } = self;
        let is_capture =
            !args.tarmac.is_given() && matches!(FileKind::at(file), Ok(FileKind::Capture)) && !is_pipe(file);
        if !is_capture {
            return Ok(None);
        }
        open_capture(file).map(Some).map_err(|error| with_hint(error.into(), args.tarmac.hint))
    }

    fn count_capture(self, capture: &Capture, output: &mut Output) -> anyhow::Result<Verdict> {
        let Self { args, file } = self;
        report_assumptions(capture);
        let mut traces = args.sources.select(capture)?;
        let mut present = PresentIds::default();
        traces.retain(|trace| present.may_have(trace));
        let options = OpenSteps {
            codes: args.processes.codes(&args.images)?,
            spaces: args.processes.load()?,
            threads: args.jobs.threads(),
            ..OpenSteps::default()
        };
        let (mut verdict, mut blocks) = (Verdict::Clean, 0);
        for (name, id) in sources(&traces) {
            match open_steps(file, &OpenSteps { source: Some(name.clone()), ..options.clone() }) {
                Ok(mut steps) => {
                    if blocks > 0 && !args.output.json {
                        output.write(|out| writeln!(out));
                    }
                    blocks += 1;
                    let counted = count_steps(&mut *steps, &Meter::default(), &mut |_, _| {});
                    verdict = verdict.or(self.print(&name, Some(id), &counted, &[], output)?);
                }
                Err(error) => {
                    // Sources that were not named may be of any kind.
                    if !args.sources.is_empty() || !error.is_other_kind() {
                        verdict = Verdict::Problems;
                    }
                    diagnostic::error(error);
                }
            }
        }
        if blocks == 0 {
            bail!("{}: no trace source could be read; 'unspool info' shows what the capture contains", file.display());
        }
        Ok(verdict)
    }

    /// Counts natively, and steps on another thread.
    fn count_both(
        self,
        again: Option<TraceFile>,
        needs_steps: bool,
        output: &mut Output,
        native: impl FnOnce(Progress) -> NativeCounts,
    ) -> anyhow::Result<Verdict> {
        let args = self.args;
        let counting = needs_steps.then(|| self.spawn(again)).transpose()?;
        let (page, mut verdict) = native(Progress::new(output.on_terminal))?;
        let Some(page) = page else { return Ok(verdict) };
        let has_steps = page.has_steps();
        let join = |counting: JoinHandle<Counted>| counting.join().map_err(|_| anyhow!("counting steps failed"));
        let counted = counting.map(join).transpose()?.filter(|_| has_steps);
        output.write(|out| if args.output.json { page.json_head(out) } else { page.head(out) });
        if let Some(counted) = &counted {
            let name = self.name();
            verdict = verdict.or(self.print(&name, None, counted, page.tables(), output)?);
        }
        output.write(|out| if args.output.json { page.json(args.by, out) } else { page.text(args.by, out) });
        Ok(verdict)
    }

    fn spawn(self, again: Option<TraceFile>) -> anyhow::Result<JoinHandle<Counted>> {
        let again = match again {
            Some(again) => again,
            None => open(self.file, self.args.jobs.threads(), &self.args.tarmac)?,
        };
        let (mut steps, meter) = again.into_steps(false);
        // The other thread has the progress bar.
        let work = move || count_steps(&mut *steps, &meter, &mut |_, _| {});
        thread::Builder::new().name("stats".into()).spawn(work).context("cannot start a thread")
    }

    fn print(
        self,
        name: &str,
        id: Option<Option<u8>>,
        counted: &Counted,
        native: &[By],
        output: &mut Output,
    ) -> anyhow::Result<Verdict> {
        let (args, file) = (self.args, self.name());
        let page = Page { name, counted, by: args.by, native };
        let shows = |table: &str| By::of(table).is_some_and(|by| page.shows(by));
        output.write(|out| match args.output.json {
            true => counted.report.write_json(&file, counted.unit, id.map(|id| (id, name)), &shows, out),
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
