//! `slice`: some instructions of a trace, as a trace of their own.
//!
//! OUT appears when it is complete, or not at all. Of a damaged trace, it is complete up to the damage.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use unspool::analyze::selection::FunctionSelection;
use unspool::file::{AstfFile, End, StfFile, TarmacFile, TraceFile, is_capture, is_standard};
use unspool::model::selection::Selection;
use unspool::number::{grouped, many};
use unspool::slice::{By, Slice, SliceError, SliceOutput, TimeSpan, slice_astf, slice_stf, slice_tarmac};
use unspool::stf::Storage as StfStorage;
use unspool::target::{astf_storage, log_container};
use unspool::{Program, astf, stf};

use crate::args::{ImageArgs, To, number_u64};
use crate::diagnostic::diagnostic;
use crate::file::{TarmacArgs, end_verdict, open, report_astf, report_lines, report_stf, stf_verdict, tarmac_verdict};
use crate::output::is_same;
use crate::verdict::Verdict;

/// Cut instructions out of an ASTF or STF file or a Tarmac log, with the state that makes the cut a trace of its own
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An ASTF or STF file or a Tarmac log ('-': standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where the cut goes ('-': standard output); a file that is there is replaced when the new one is complete
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Leave out the first N instructions (of those that the options below leave)
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    /// Take at most N instructions
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Only instructions from time A on and before time B, in the unit of IN (ASTF: microseconds); A or B may be left out
    #[arg(long, value_name = "A..B", value_parser = str::parse::<TimeSpan>)]
    time: Option<TimeSpan>,

    /// Only instructions from address A on and before address B; may be given several times
    #[arg(long, value_name = "A..B", value_parser = address)]
    address: Vec<Range<u64>>,

    /// Only instructions of this function, by the symbols of --image; may be given several times
    #[arg(long, value_name = "NAME", requires = "images")]
    function: Vec<String>,

    /// With --function: also what it calls, from the first instruction of the function until it returns (Arm only)
    #[arg(long, requires = "function")]
    with_callees: bool,

    #[command(flatten)]
    images: ImageArgs,

    /// Only this core of a Tarmac log, by its name there
    #[arg(long, value_name = "NAME")]
    core: Option<String>,

    /// Write every piece to a file of its own: OUT-0001, OUT-0002, and so on, before the extension
    #[arg(long)]
    split: bool,

    /// With --split: write at most N pieces
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "split", value_parser = clap::value_parser!(u64).range(1..))]
    pieces: u64,

    /// What the cut is stored in (if not said, the name of OUT tells, or else it is as IN)
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: Option<To>,

    /// STF: do not say in the header who cut; it is that of IN, but for the address where the cut starts
    #[arg(long)]
    unsigned: bool,

    /// Threads (all cores, if not said)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    #[command(flatten)]
    tarmac: TarmacArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool slice trace.zstf part.zstf --skip 1000000 --limit 5000
  unspool slice trace.stf - --limit 100 | unspool dump -
  unspool slice run.tarmac part.tarmac --skip 5000 --limit 100
  unspool slice trace.astf.xz part.astf --time 2000..3000
  unspool slice run.tarmac part.tarmac --function sort --image program.elf --with-callees
  unspool slice trace.astf piece.astf --address 0x1000..0x2000 --split

Instructions that follow one another and are all wanted are a piece. Everything in a piece stays as it is, byte for byte.
Between pieces stands what the format has for it, or with --split each is a file of its own:
Of ASTF, a piece starts with the time and the context that hold there. A Basic trace may have several pieces; a BasicPlus
trace has no gaps, so that several pieces need --split. Strings before the first instruction stay in front.
The header of an STF cut says where its first instruction is. The process, the encoding mode and the privilege mode that
hold there are told again in front of it; other pieces force their address. Page table walks count instructions: they are
counted anew. A trace of transactions is cut by their number (--skip, --limit).
Of a Tarmac log, lines go with their instruction, behind the header of the log if it has one; a comment stands between
pieces. Captures cannot be cut: convert them first.
If the trace is damaged before the cut is complete, OUT has what comes before the damage: exit code 1. FileKind is damaged
behind the cut is not read.";

impl Args {
    /// Does a number say which instructions, and nothing else?
    fn is_by_number(&self) -> bool {
        self.time.is_none() && self.address.is_empty() && self.function.is_empty() && self.core.is_none() && !self.split
    }

    fn threads(&self) -> Option<usize> {
        self.jobs.map(usize::from)
    }
}

fn address(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").map(|(start, end)| (number_u64(start), number_u64(end)));
    match parsed {
        Some((Ok(start), Ok(end))) if start < end => Ok(start..end),
        Some((Ok(_), Ok(_))) => Err(format!("'{text}' is empty: the first address is not below the second")),
        _ => Err(format!("'{text}' is no range of addresses (0x1000..0x2000)")),
    }
}

/// Cuts.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if is_same(&args.input, &args.output) {
        bail!("{}: the trace is read from this file; write to another one", args.output.display());
    }
    if args.split && is_standard(&args.output) {
        bail!("--split writes several files: give a name for OUT");
    }
    if !args.tarmac.is_given() && is_capture(&args.input) {
        let name = args.input.display();
        bail!("{name}: a capture cannot be cut; convert it first ('unspool convert {name} trace.tarmac') and cut that");
    }
    match open(&args.input, args.threads(), &args.tarmac)? {
        TraceFile::Astf(file) => run_astf(args, file),
        TraceFile::Stf(file) => run_stf(args, file),
        TraceFile::Tarmac(file) => run_tarmac(args, file),
    }
}

fn run_astf(args: &Args, mut file: AstfFile) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    refuse_core(args, &name)?;
    if args.time.is_some() && !file.header().timestamps {
        bail!("{name}: the trace has no timestamps; cut it by number or address");
    }
    let storage = match args.to {
        Some(to) => to.astf().with_context(|| format!("{name}: a cut of ASTF is ASTF; say --to raw, lzma or zlib"))?,
        None => astf_storage(&args.output).unwrap_or(file.header().storage()),
    };
    report_astf(&file);
    let mut selection = args.selection(0, true)?;
    let sliced = slice_astf(&mut file, &mut selection, storage, args.slice_output());
    finish(args, &name, sliced, selection.is_cut_short(), end_verdict)
}

fn run_stf(args: &Args, mut file: StfFile) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    refuse_core(args, &name)?;
    if args.time.is_some() {
        bail!("{name}: STF has no time; cut it by number or address");
    }
    if args.with_callees && !file.is_arm() {
        bail!("{name}: --with-callees follows the calls of Arm; leave it out to cut the function without its callees");
    }
    let container = match args.to {
        Some(to) => to.stf().with_context(|| format!("{name}: a cut of STF is STF; say --to stf, zstf, stf.gz, .."))?,
        None => StfStorage::from_path(&args.output).unwrap_or(file.storage()),
    };
    report_stf(&mut file);
    let mut selection = args.selection(0, false)?;
    let by = match args.is_by_number() {
        true => By::Number(args.skip..args.skip.saturating_add(args.limit.unwrap_or(u64::MAX))),
        false => By::Selection(&mut selection),
    };
    let sliced = slice_stf(&mut file, by, !args.unsigned, container, args.slice_output());
    finish(args, &name, sliced, selection.is_cut_short(), |end| stf_verdict(&mut file, end))
}

fn run_tarmac(args: &Args, mut file: TarmacFile) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    let container = match args.to {
        Some(to) => to.tarmac().with_context(|| format!("{name}: a cut of Tarmac is Tarmac; say --to tarmac, .."))?,
        None => log_container(&args.output),
    };
    let decimals = match (&args.time, file.first_time()) {
        (None, _) => 0,
        (Some(_), Some(time)) => time.decimals,
        (Some(_), None) => bail!("{name}: its first lines have no time; cut it by number or address"),
    };
    let mut selection = args.selection(decimals, false)?;
    let sliced = slice_tarmac(&mut file, &mut selection, args.core.as_deref(), container, args.slice_output());
    report_lines(&mut file);
    finish(args, &name, sliced, selection.is_cut_short(), |end| tarmac_verdict(&mut file, end))
}

impl Args {
    /// The selection of instructions; `decimals` are those of times, and `times_rise` if times never decrease.
    fn selection(&self, decimals: u8, times_rise: bool) -> anyhow::Result<FunctionSelection> {
        let time = self.time.as_ref().map(|span| span.counted(decimals).map_err(anyhow::Error::msg)).transpose()?;
        let selection = Selection {
            skip: self.skip,
            limit: self.limit.unwrap_or(u64::MAX),
            time,
            times_rise,
            addresses: self.address.clone(),
            core: None,
        };
        let most_pieces = self.split.then_some(self.pieces);
        Ok(FunctionSelection::new(selection, self.functions()?, self.with_callees, most_pieces))
    }

    /// Address ranges of the functions.
    fn functions(&self) -> anyhow::Result<Vec<Range<u64>>> {
        if self.function.is_empty() {
            return Ok(Vec::new());
        }
        let program = Program::new(self.images.load()?);
        let mut found = Vec::new();
        for name in &self.function {
            let before = found.len();
            found.extend(program.functions(name));
            if found.len() == before {
                bail!("no function '{name}' with a size in the symbols of --image");
            }
        }
        Ok(found)
    }

    fn slice_output(&self) -> SliceOutput<'_> {
        SliceOutput { path: &self.output, split: self.split, threads: self.threads() }
    }
}

/// Refuses to select a core of a trace that has one.
fn refuse_core(args: &Args, name: &str) -> anyhow::Result<()> {
    match args.core {
        Some(_) => bail!("{name}: it has one core; leave --core out"),
        None => Ok(()),
    }
}

/// Reports what was cut, or why nothing was.
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
            match has_begun {
                true => diagnostic(format_args!("{name}: the cut ends where the trace is damaged")),
                false => {
                    diagnostic(format_args!("{name}: the trace is damaged before the cut begins: nothing was written"));
                }
            }
            Ok(verdict(&end))
        }
        Err(SliceError::Stf(error @ Stf::NoHeader)) => {
            diagnostic(format_args!("{name}: {error}"));
            Ok(Verdict::Problems)
        }
        Err(SliceError::Nothing { read, unit }) => {
            bail!("{name}: no such {unit} in what was read ({})", many(read, unit))
        }
        Err(SliceError::Astf(error @ astf::slice::SliceError::Pieces { .. })) => bail!("{name}: {error}: --split"),
        Err(SliceError::Stf(error @ Stf::Transactions)) => bail!("{name}: {error} (--skip, --limit)"),
        Err(SliceError::File(error)) => Err(error.into()),
        Err(SliceError::Write(error)) => Err(error.into()),
        Err(error) => Err(anyhow!("{name}: {error}")),
    }
}

/// Reports what is not obvious about a cut.
fn report(args: &Args, name: &str, slice: &Slice, is_cut_short: bool) {
    if slice.walks_kept > 0 {
        let walks = many(slice.walks_kept, "page table walk");
        diagnostic(format_args!("{name}: {walks} of instructions before the cut keep their numbers"));
    }
    if slice.dependencies_kept > 0 {
        let what = if slice.dependencies_kept == 1 { "dependency" } else { "dependencies" };
        let count = grouped(slice.dependencies_kept);
        diagnostic(format_args!("{name}: {count} {what} on transactions outside the cut stay as they are"));
    }
    if slice.has_new_time {
        diagnostic(format_args!(
            "{name}: the first line of the cut had no time of its own; it has that of the lines before it"
        ));
    }
    if slice.pieces > 1 {
        diagnostic(format_args!(
            "{name}: {} in {}",
            many(slice.instructions, "instruction"),
            many(slice.pieces, "piece")
        ));
    }
    if is_cut_short {
        let most = grouped(args.pieces);
        diagnostic(format_args!("{name}: there are more than {most} pieces; --pieces says how many are written"));
    }
}
