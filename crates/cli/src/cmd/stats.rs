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
use unspool::file::{StfFile, TarmacFile, TraceFile};
use unspool::stf::Record;
use unspool::stf::stats::Stats;
use unspool::tarmac::stats::Counts;
use unspool::{Counted, FileKind, count_steps, step_statistics};

use self::by::By;
use self::native::{Native, StfPage, TarmacPage};
use self::text::Page;
use crate::args::OutputArgs;
use crate::diagnostic;
use crate::file::{each_file, stf_verdict, tarmac_verdict};
use crate::json::write_summary;
use crate::output::Output;
use crate::progress::Progress;
use crate::selection_args::SelectionArgs;
use crate::traces::{EachOptions, OpenTrace, ReadArgs, name_of};
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
    read: ReadArgs,
    #[command(flatten)]
    selection: SelectionArgs,
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
  unspool stats trace.astf --mode user
  unspool stats snapshot/ --function main --image app.elf
  unspool stats trace.zstf --json | jq -r 'select(.kind == \"class\") | [.name, .count] | @tsv'

Files are counted one after the other, and so are the sources of a capture. Footprint: distinct bytes of code and distinct \
64-byte lines of data, each also in 4 KiB pages; 'at least' marks a count that stopped because there were too many addresses. \
For an STF file, the first lines use the counting rules of stf_tools: faulting instructions are excluded from the mix, and \
instructions before the first switch to user mode do not count as user mode. For STF, --by class and --by mnemonic are the fastest, \
since they count nothing else. With a selection, only the selected instructions are counted, of STF and Tarmac by the rules of \
the other formats, and of exceptions those that are taken from them.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.read.open_output(&args.files, &args.output)?;
    let options = EachOptions { twice: args.selection.is_all(), ..EachOptions::default() };
    let verdict = each_file(&args.files, |index, file| {
        if index > 0 && !args.output.json {
            output.write(|out| writeln!(out));
        }
        let (counting, mut is_first) = (Counting { args, file }, true);
        args.read.each(file, options, &mut |trace| {
            if !std::mem::take(&mut is_first) && !args.output.json {
                output.write(|out| writeln!(out));
            }
            counting.run(trace, &mut output)
        })
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
    fn run(self, trace: &mut OpenTrace, output: &mut Output) -> anyhow::Result<Verdict> {
        let args = self.args;
        // Native counts are of the whole file.
        let is_native = args.selection.is_all() && matches!(trace.kind, FileKind::Stf | FileKind::Tarmac);
        let second = trace.take_second();
        match is_native.then(|| trace.take_file()).flatten() {
            Some(TraceFile::Stf(file)) => {
                let needs_steps = !matches!(args.by, Some(By::Class | By::Mnemonic));
                self.count_both(second, needs_steps, output, |progress| count_stf(file, progress))
            }
            Some(TraceFile::Tarmac(file)) => {
                let needs_steps = !matches!(args.by, Some(By::Mnemonic | By::Isa));
                self.count_both(second, needs_steps, output, |progress| count_tarmac(file, progress))
            }
            _ => self.count_steps(trace, output),
        }
    }

    /// Counts the selected steps.
    fn count_steps(self, trace: &mut OpenTrace, output: &mut Output) -> anyhow::Result<Verdict> {
        let selection = trace.select(&self.args.selection)?;
        let (stats, ended) = trace.run_pass(&selection, self.args.read.jobs, step_statistics)?;
        let (_, unit) = trace.coverage()?;
        let counted = Counted { report: stats.finish(), unit, ended };
        match &trace.source {
            Some((name, id)) => self.print(name, Some(*id), &counted, &[], output),
            None => self.print(&self.name(), None, &counted, &[], output),
        }
    }

    /// Name in messages and JSON.
    fn name(self) -> String {
        name_of(self.file)
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
            None => self.args.read.reopen(self.file)?,
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
