//! `slice`: extracts instructions of a trace as a trace of the same format; of a capture, as ASTF, STF or Tarmac.
//!
//! options ─▶ selection; trace, selection ─▶ [`unspool::slice`] ─▶ OUT, and diagnostics
//!
//! OUT is put in place when it is complete, or not at all. If the trace is damaged, OUT ends at the damage.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use unspool::analyze::selection::FunctionSelection;
use unspool::convert::report::{LossReport, describe_position};
use unspool::convert::{Format, SinkOptions};
use unspool::file::{AstfFile, End, StfFile, TarmacFile, TraceFile, is_capture, is_standard};
use unspool::model::selection::Selection;
use unspool::model::{CoreSelector, Facet, Losses, SinkError, StepSource as _};
use unspool::number::{grouped, many};
use unspool::slice::{
    By, KeptState, Slice, SliceError, SliceOutput, TimeSpan, numbered, slice_astf, slice_steps, slice_stf, slice_tarmac,
};
use unspool::stf::Storage as StfStorage;
use unspool::target::{astf_storage, log_container};
use unspool::{Meter, Program, astf, stf};

use crate::args::{ForceArgs, ImageArgs, JobsArgs, OutputFormat, one_of, parse_range};
use crate::diagnostic;
use crate::file::{TarmacArgs, end_verdict, open, report_astf, report_lines, report_stf, stf_verdict, tarmac_verdict};
use crate::output::is_same;
use crate::process_args::ProcessArgs;
use crate::progress::Progress;
use crate::traces::open_source;
use crate::verdict::Verdict;

/// Extract instructions from a trace, with the state that makes the result a valid trace
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Capture, ASTF file, STF file or Tarmac log ('-': standard input, except for captures)
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Output file ('-': standard output)
    #[arg(value_name = "OUT", required_unless_present = "file")]
    out: Option<PathBuf>,

    /// Output file; the same as OUT
    #[arg(short = 'o', long = "output", value_name = "FILE", conflicts_with = "out")]
    file: Option<PathBuf>,

    #[command(flatten)]
    force: ForceArgs,

    /// Skip the first N instructions that the other options select
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    /// Take at most N instructions
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Only instructions from time A up to, but not including, time B, in the unit of IN (ASTF: microseconds). A or B may be
    /// left out
    #[arg(long, value_name = "A..B", value_parser = str::parse::<TimeSpan>)]
    time: Option<TimeSpan>,

    /// Only instructions from address A up to, but not including, address B. Can be repeated
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    address: Vec<Range<u64>>,

    /// Only instructions of this function, of --image or of the programs of a capture. Can be repeated
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,

    /// With --function: include callees, from the first instruction of the function until it returns (Arm only)
    #[arg(long, requires = "function")]
    with_callees: bool,

    #[command(flatten)]
    images: ImageArgs,

    /// Only this core of a Tarmac log: its name, or its number in order of appearance, counted from 0
    #[arg(long, value_name = "N|NAME")]
    core: Option<CoreSelector>,

    /// Write each piece (consecutive selected instructions) to its own file, with -0001, -0002 and so on before the extension
    #[arg(long)]
    split: bool,

    /// With --split: write at most N files
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "split", value_parser = clap::value_parser!(u64).range(1..))]
    pieces: u64,

    /// Source of a capture: its trace id or its name
    #[arg(long, value_name = "ID|NAME")]
    source: Option<String>,

    /// Format of the slice of a capture, or storage of any other [default: by the name of OUT, otherwise as IN]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(OutputFormat::CHOICES))]
    to: Option<OutputFormat>,

    /// State that each piece starts with, as far as it is known there and the format can express it
    #[arg(long, value_name = "STATE", value_enum, default_value_t = StateArg::All)]
    state: StateArg,

    /// STF: do not record unspool in a comment and the trace info; only the start address of the header changes
    #[arg(long)]
    unsigned: bool,

    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    tarmac: TarmacArgs,

    /// Memory is big-endian
    #[arg(long, help_heading = "Tarmac")]
    big_endian: bool,

    #[command(flatten)]
    processes: ProcessArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StateArg {
    /// Registers and memory
    All,
    /// Registers
    Registers,
    /// Neither
    None,
}

impl StateArg {
    fn kept(self) -> KeptState {
        match self {
            Self::All => KeptState::All,
            Self::Registers => KeptState::Registers,
            Self::None => KeptState::None,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  unspool slice trace.zstf part.zstf --skip 1000000 --limit 5000
  unspool slice trace.zstf -o part.zstf --skip 1000000 --limit 5000
  unspool slice trace.stf - --limit 100 | unspool dump -
  unspool slice run.tarmac part.tarmac --skip 5000 --limit 100
  unspool slice trace.astf.xz part.astf --time 2000..3000
  unspool slice run.tarmac part.tarmac --function sort --image program.elf --with-callees
  unspool slice trace.astf piece.astf --address 0x1000..0x2000 --split
  unspool slice snapshot/ part.tarmac --source 0x10 --skip 1000000 --limit 5000
  unspool slice perf.data sort.stf --source 0x10 --function sort

A range A..B starts at A and ends before B.
Consecutive selected instructions form a piece. Records within a piece are copied byte for byte. Pieces are joined as the \
format allows, or written to separate files with --split:
ASTF: a piece starts with the current time and context. A Basic trace may have several pieces; a BasicPlus trace cannot have \
gaps, so several pieces need --split. Strings before the first instruction are kept. ASTF has no registers and no data.
STF: the header contains the address of the first instruction. The current process, encoding mode and privilege mode are \
repeated before it, and so are the registers that are known (as state operands of the first instruction); STF has no record of \
memory that no instruction accesses. Each later piece starts with a FORCE_PC record. Page table walks, which count instructions, are \
renumbered. An STF transaction trace can be sliced only by --skip and --limit.
Tarmac: lines stay with their instruction, after the header of the log if it has one; a comment separates pieces. Each starts \
with lines of the registers and memory that are known, memory as reads, unless the dialect prints effects before their \
instruction.
Captures: one source, converted to the format of OUT; a piece starts with the context, and with the registers and memory that \
the trace has shown since its last gap. The time is that of timestamps, or of cycles if there are none. \
If the trace is damaged before the slice is complete, OUT contains what comes before the damage: exit code 1. Damage after \
the slice is not read.";

impl Args {
    fn output(&self) -> &Path {
        self.out.as_deref().or(self.file.as_deref()).unwrap_or(Path::new("-"))
    }

    /// Rejects output files that exist, unless they may be replaced.
    fn check_existing(&self) -> anyhow::Result<()> {
        // Further files come from a run that was not checked either.
        const MAX_CHECKED: u64 = 10_000;
        match self.split {
            true => {
                (1..=self.pieces.min(MAX_CHECKED)).try_for_each(|at| self.force.check(&numbered(self.output(), at)))
            }
            false => self.force.check(self.output()),
        }
    }

    /// Whether instructions are selected by number alone: the only way to slice an STF trace of transactions.
    fn is_by_number(&self) -> bool {
        self.time.is_none() && self.address.is_empty() && self.function.is_empty() && self.core.is_none() && !self.split
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if is_same(&args.input, args.output()) {
        bail!("{}: the trace is read from this file; write to another one", args.output().display());
    }
    if args.split && is_standard(args.output()) {
        bail!("--split writes several files: OUT must be a file name");
    }
    args.check_existing()?;
    if !args.tarmac.is_given() && is_capture(&args.input) {
        return run_capture(args);
    }
    if args.source.is_some() {
        bail!("{}: this is not a capture, and has no sources; omit --source", args.input.display());
    }
    match open(&args.input, args.jobs.threads(), &args.tarmac)? {
        TraceFile::Astf(file) => run_astf(args, file),
        TraceFile::Stf(file) => run_stf(args, file),
        TraceFile::Tarmac(file) => run_tarmac(args, file),
    }
}

fn run_astf(args: &Args, mut file: AstfFile) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    reject_core(args, &name)?;
    if args.time.is_some() && !file.header().timestamps {
        bail!("{name}: the trace has no timestamps; slice it by number or address");
    }
    let storage = match args.to {
        Some(to) => {
            to.astf().with_context(|| format!("{name}: a slice of ASTF is ASTF; use --to raw, lzma or zlib"))?
        }
        None => astf_storage(args.output()).unwrap_or(file.header().storage()),
    };
    report_astf(&file);
    let mut selection = args.selection(0, true)?;
    let progress = Progress::follow(file.meter());
    let sliced = slice_astf(&mut file, &mut selection, storage, args.slice_output());
    drop(progress);
    finish(args, &name, sliced, selection.is_cut_short(), end_verdict)
}

fn run_stf(args: &Args, mut file: StfFile) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    reject_core(args, &name)?;
    if args.time.is_some() {
        bail!("{name}: STF has no times; slice it by number or address");
    }
    if args.with_callees && !file.is_arm() {
        bail!("{name}: --with-callees supports Arm only; without it the function is extracted without its callees");
    }
    let container = match args.to {
        Some(to) => {
            to.stf().with_context(|| format!("{name}: a slice of STF is STF; use --to stf, zstf, stf.gz, .."))?
        }
        None => StfStorage::from_path(args.output()).unwrap_or(file.storage()),
    };
    report_stf(&mut file);
    let mut selection = args.selection(0, false)?;
    let by = match args.is_by_number() {
        true => By::Number(args.skip..args.skip.saturating_add(args.limit.unwrap_or(u64::MAX))),
        false => By::Selection(&mut selection),
    };
    let progress = Progress::follow(file.meter());
    let sliced = slice_stf(&mut file, by, !args.unsigned, container, args.slice_output());
    drop(progress);
    finish(args, &name, sliced, selection.is_cut_short(), |end| stf_verdict(&mut file, end))
}

fn run_tarmac(args: &Args, mut file: TarmacFile) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    let container = match args.to {
        Some(to) => to.tarmac().with_context(|| format!("{name}: a slice of Tarmac is Tarmac; use --to tarmac, .."))?,
        None => log_container(args.output()),
    };
    let decimals = match (&args.time, file.first_time()) {
        (None, _) => 0,
        (Some(_), Some(time)) => time.decimals,
        (Some(_), None) => bail!("{name}: the first lines have no time; slice it by number or address"),
    };
    let mut selection = args.selection(decimals, false)?;
    let progress = Progress::follow(file.meter());
    let sliced =
        slice_tarmac(&mut file, &mut selection, args.core.as_ref(), container, args.big_endian, args.slice_output());
    drop(progress);
    report_lines(&mut file);
    finish(args, &name, sliced, selection.is_cut_short(), |end| tarmac_verdict(&mut file, end))
}

fn run_capture(args: &Args) -> anyhow::Result<Verdict> {
    let name = args.input.display().to_string();
    reject_core(args, &name)?;
    let options = args.sink_options()?;
    let (steps, ..) = open_source(&args.input, args.source.as_deref(), &args.images, &args.processes)?;
    let mut selection = args.selection_of(0, false, args.functions_of(steps.program())?)?;
    let meter = Meter::new(Some(steps.size()));
    let steps = Box::new(steps.counting(&meter.read));
    if args.time.is_some() && !steps.coverage().has(Facet::Times) {
        bail!("{name}: the trace has no times; slice it by number or address");
    }
    let progress = Progress::follow(&meter);
    let sliced = slice_steps(steps, &mut selection, &options, args.slice_output());
    drop(progress);
    let sliced = sliced.map(|(slice, losses)| {
        report_losses(&name, &options, &losses);
        slice
    });
    finish(args, &name, sliced, selection.is_cut_short(), end_verdict)
}

/// Reports what the format has no field for.
fn report_losses(name: &str, options: &SinkOptions, losses: &Losses) {
    let report = LossReport::new("offset", options.format().name()).with_steps(&Losses::default(), losses);
    report.lines().iter().for_each(|line| diagnostic::warning(format_args!("{name}: {line}")));
}

impl Args {
    /// Format and storage of the slice of a capture.
    fn sink_options(&self) -> anyhow::Result<SinkOptions> {
        let named = self.to.map(OutputFormat::format).or_else(|| Format::from_path(self.output()));
        let format =
            named.context("the format of the slice is unknown: name OUT .astf, .stf or .tarmac, or use --to")?;
        let mut options = SinkOptions::for_path(format, self.output());
        match (&mut options, self.to) {
            (SinkOptions::Astf { lower, .. }, Some(OutputFormat::Astf(storage))) => lower.storage = storage,
            (SinkOptions::Stf { storage, .. }, Some(OutputFormat::Stf(to))) => *storage = to,
            (SinkOptions::Tarmac { container, .. }, Some(OutputFormat::Tarmac(to))) => *container = to,
            _ => {}
        }
        Ok(options)
    }

    /// The selection that the options describe. `decimals`: how many the times of IN have. `times_rise`: times of IN
    /// never decrease, so the selection ends at the first one after --time.
    fn selection(&self, decimals: u8, times_rise: bool) -> anyhow::Result<FunctionSelection> {
        self.selection_of(decimals, times_rise, self.functions()?)
    }

    /// The same, with the address ranges of its functions.
    fn selection_of(
        &self,
        decimals: u8,
        times_rise: bool,
        functions: Vec<Range<u64>>,
    ) -> anyhow::Result<FunctionSelection> {
        let time = self.time.as_ref().map(|span| span.counted(decimals).map_err(anyhow::Error::msg)).transpose()?;
        let selection = Selection {
            skip: self.skip,
            limit: self.limit.unwrap_or(u64::MAX),
            time,
            times_rise,
            addresses: self.address.clone(),
            // `slice_tarmac` selects the core by name.
            core: None,
        };
        let max_pieces = self.split.then_some(self.pieces);
        Ok(FunctionSelection::new(selection, functions, self.with_callees, max_pieces))
    }

    fn functions(&self) -> anyhow::Result<Vec<Range<u64>>> {
        if self.function.is_empty() {
            return Ok(Vec::new());
        }
        if !self.images.is_given() {
            bail!("--function needs the symbols of a program: add it with --image");
        }
        self.functions_of(&Program::new(self.images.load_for(&self.input)?))
    }

    fn functions_of(&self, program: &Program) -> anyhow::Result<Vec<Range<u64>>> {
        let mut found = Vec::new();
        for name in &self.function {
            let before = found.len();
            found.extend(program.functions(name));
            if found.len() == before {
                bail!("no function '{name}' with a known size in the symbols of the program");
            }
        }
        Ok(found)
    }

    fn slice_output(&self) -> SliceOutput<'_> {
        SliceOutput { path: self.output(), split: self.split, threads: self.jobs.threads(), state: self.state.kept() }
    }
}

/// Rejects --core for a trace that has only one, unless it is the first.
fn reject_core(args: &Args, name: &str) -> anyhow::Result<()> {
    match args.core.as_ref().map(CoreSelector::number) {
        Some(Some(0)) | None => Ok(()),
        Some(_) => bail!("{name}: the trace has only one core; omit --core"),
    }
}

/// Reports the slice, or why there is none. `is_cut_short`: --pieces ended it. `verdict` reports the end of IN.
fn finish(
    args: &Args,
    name: &str,
    sliced: Result<Slice, SliceError>,
    is_cut_short: bool,
    verdict: impl FnOnce(&End) -> Verdict,
) -> anyhow::Result<Verdict> {
    use stf::slice::SliceError as Stf;
    match sliced {
        Ok(slice) => {
            report(args, name, &slice, is_cut_short);
            Ok(verdict(&End::Stopped))
        }
        Err(SliceError::Damaged { end, has_begun }) => {
            diagnostic::error(match has_begun {
                true => format!("{name}: the slice ends where the trace is damaged"),
                false => format!("{name}: the trace is damaged before the slice starts: nothing was written"),
            });
            Ok(verdict(&end))
        }
        Err(SliceError::Stf(error @ Stf::NoHeader)) => {
            diagnostic::error(format_args!("{name}: {error}"));
            Ok(Verdict::Problems)
        }
        Err(SliceError::Nothing { read, unit }) => {
            bail!("{name}: no {unit} is selected ({} read)", many(read, unit))
        }
        Err(SliceError::Astf(error @ astf::slice::SliceError::Pieces { .. })) => bail!("{name}: {error}: --split"),
        Err(SliceError::Stf(error @ Stf::Transactions)) => bail!("{name}: {error} (--skip, --limit)"),
        Err(SliceError::Sink(SinkError::Refused { position: Some(position), reason })) => {
            bail!("{name}: {}: {reason}", describe_position("offset", position))
        }
        Err(SliceError::File(error)) => Err(error.into()),
        Err(SliceError::Write(error)) => Err(error.into()),
        Err(error) => Err(anyhow!("{name}: {error}")),
    }
}

/// Reports the files that were written.
fn written(args: &Args, slice: &Slice) {
    let [instructions, pieces] = [many(slice.instructions, "instruction"), many(slice.pieces, "piece")];
    let of = if slice.pieces > 1 { format!("{instructions} in {pieces}") } else { instructions };
    let out = args.output();
    match (args.split, slice.pieces) {
        (true, 2..) => {
            let [first, last] = [1, slice.pieces].map(|number| numbered(out, number).display().to_string());
            diagnostic::note(format_args!("wrote {first} to {last}: {of}"));
        }
        (true, _) => diagnostic::note(format_args!("wrote {}: {of}", numbered(out, 1).display())),
        (false, _) if is_standard(out) => diagnostic::note(of),
        (false, _) => diagnostic::note(format_args!("wrote {}: {of}", out.display())),
    }
}

/// Reports what is not obvious about the slice, and what was written.
fn report(args: &Args, name: &str, slice: &Slice, is_cut_short: bool) {
    if slice.walks_kept > 0 {
        let walks = many(slice.walks_kept, "page table walk");
        diagnostic::note(format_args!("{name}: {walks} of instructions before the slice keep their numbers"));
    }
    if slice.dependencies_kept > 0 {
        let noun = if slice.dependencies_kept == 1 { "dependency" } else { "dependencies" };
        let count = grouped(slice.dependencies_kept);
        diagnostic::note(format_args!("{name}: {count} {noun} on transactions outside the slice are unchanged"));
    }
    if slice.has_new_time {
        diagnostic::note(format_args!(
            "{name}: the first line of the slice had no time and got that of the lines before it"
        ));
    }
    written(args, slice);
    if is_cut_short {
        let max = grouped(args.pieces);
        diagnostic::warning(format_args!("{name}: stopped after {max} pieces; --pieces N writes more"));
    }
}
