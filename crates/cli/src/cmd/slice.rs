//! `slice`: some instructions of a trace, as a trace of their own.
//!
//! in ─▶ the slicer of the format ─▶ a temporary file beside OUT ─▶ OUT, or one file for each piece
//!
//! OUT appears when it is complete, or not at all. Of a trace that is damaged, it is complete as far as the damage.

mod astf;
mod output;
mod select;
mod stf;
mod tarmac;

use std::ops::Range;
use std::path::PathBuf;

use anyhow::bail;
use unspool::What;

use self::output::{FileWriter, Files};
use self::select::{Span, span};
use super::convert::To;
use super::{grouped, many};
use crate::Verdict;
use crate::args::{ImageArgs, number_u64, tell};
use crate::astf::is_standard;
use crate::file::{Opened, is_pipe, open};
use crate::output::is_same;
use crate::tarmac::TarmacArgs;

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
    #[arg(long, value_name = "A..B", value_parser = span)]
    time: Option<Span>,

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
If the trace is damaged before the cut is complete, OUT has what comes before the damage: exit code 1. What is damaged
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
    if is_capture(args) {
        let name = args.input.display();
        bail!("{name}: a capture cannot be cut; convert it first ('unspool convert {name} trace.tarmac') and cut that");
    }
    match open(&args.input, args.threads(), &args.tarmac)? {
        None => Ok(Verdict::Problems),
        Some(Opened::Astf(file)) => astf::run(args, file),
        Some(Opened::Stf(file)) => stf::run(args, file),
        Some(Opened::Tarmac(file)) => tarmac::run(args, file),
    }
}

/// A directory, or an archive with a capture in it.
fn is_capture(args: &Args) -> bool {
    !args.tarmac.is_said()
        && !is_pipe(&args.input)
        && matches!(What::at(&args.input), Ok(What::Capture))
        && unspool::capture::Capture::open(&args.input).is_ok()
}

/// Refuses to look for a core where there is one.
fn refuse_core(args: &Args, name: &str) -> anyhow::Result<()> {
    match args.core {
        Some(_) => bail!("{name}: it has one core; leave --core out"),
        None => Ok(()),
    }
}

/// What was cut before the damage is kept.
fn keep_damaged<T, W: FileWriter<T>>(name: &str, files: Files<'_, W>) -> anyhow::Result<()> {
    match files.has_begun() {
        true => tell(format_args!("{name}: the cut ends where the trace is damaged")),
        false => tell(format_args!("{name}: the trace is damaged before the cut begins: nothing was written")),
    }
    files.keep()
}

/// That nothing is in the cut, when so many of these were read: there may be more.
fn nothing(read: u64, of: &str) -> String {
    format!("no such {of} in what was read ({})", many(read, of))
}

/// Says what was cut, if it is not plain to see.
fn tell_pieces(args: &Args, name: &str, instructions: u64, pieces: u64, is_cut_short: bool) {
    if pieces > 1 {
        tell(format_args!("{name}: {} in {}", many(instructions, "instruction"), many(pieces, "piece")));
    }
    if is_cut_short {
        let most = grouped(args.pieces);
        tell(format_args!("{name}: there are more than {most} pieces; --pieces says how many are written"));
    }
}
