//! `state`: what registers and memory hold at a place of a Tarmac log.

mod parse;
mod print;

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::indexed_log::index_path;
use unspool::tarmac::index::{Fingerprint, Index, IndexOptions, Indexed, Position, Scanner, State, build};
use unspool::tarmac::read::Container;

use self::parse::{Place, Wanted};
use self::print::Shown;
use super::index::{LogArgs, open_or_make};
use crate::args::OutputArgs;
use crate::diagnostic::diagnostic;
use crate::file::tarmac_verdict;
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;
use unspool::file::{TarmacFile, is_standard};
use unspool::number::many;

/// Print what registers and memory hold at a place of a Tarmac log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    log: LogArgs,

    /// Where: a line (1200), a time (1200ns, 40clk) or an instruction (#1200)
    #[arg(long, value_name = "LINE|TIME|#N", value_parser = parse::position)]
    at: Position,

    /// Only this core; instructions are then counted for it alone
    #[arg(long, value_name = "NAME")]
    core: Option<String>,

    /// Memory: an address with a length (16, if not said), or 'all'. As often as needed
    #[arg(long, value_name = "ADDR[+LEN]|all", value_parser = parse::memory)]
    memory: Vec<Place>,

    /// Only this register. As often as needed
    #[arg(long, value_name = "NAME")]
    register: Vec<String>,

    /// Which line wrote a register or memory last. As often as needed
    #[arg(long, value_name = "NAME|ADDR[+LEN]", value_parser = parse::wanted)]
    last_write: Vec<Wanted>,

    /// The index of the log (beside it, if not said)
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,

    /// Threads for making an index (all cores, if not said)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool state boot.tarmac --at 1200                  behind line 1200
  unspool state boot.tarmac --at 35us --register x0    behind all that happened up to then
  unspool state boot.tarmac --at '#1000' --core cpu1   behind the 1000th instruction of cpu1
  unspool state boot.tarmac --at 1200 --memory 0x8000+64 --memory all
  unspool state boot.tarmac --at 1200 --last-write sp --last-write 0x8000+8

Digits that nobody knows are 'x', bytes '..'. A byte that is read later, before anything is written there, is known
before as well. A large log is given an index first, beside it; of a compressed log or a pipe everything is read.";

/// Logs that are shorter are read faster than an index would be found.
const SMALL: u64 = 16 << 20;

/// Times eight bytes of memory that are kept for each core when there is no index.
const LIMIT: usize = 1 << 21;

/// Prints the state.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let (state, verdict) = find(args)?;
    let Some(state) = state else {
        bail!("{}: the log has no such place", args.log.log.display());
    };
    if let Some(name) = &args.core
        && state.core(name.as_bytes()).is_none()
    {
        let names = state.cores.iter().map(|core| String::from_utf8_lossy(&core.name)).collect::<Vec<_>>();
        bail!("{}: there is no core '{name}' yet; there are: {}", args.log.log.display(), names.join(", "));
    }
    let mut output = Output::open_for(&args.output, &args.log.log)?;
    let shown = Shown {
        state: &state,
        core: args.core.as_deref(),
        memory: &args.memory,
        registers: &args.register,
        last_writes: &args.last_write,
    };
    output.write(|out| if args.output.json { shown.json(out) } else { shown.text(out) });
    output.finish()?;
    Ok(verdict)
}

/// The state, if there is such a place, and whether all of the log could be understood.
type Answer = (Option<State>, Verdict);

fn find(args: &Args) -> anyhow::Result<Answer> {
    let log = &args.log.log;
    if is_standard(log) || !log.metadata().with_context(|| log.display().to_string())?.is_file() {
        return scan(args, None);
    }
    let (container, options) = args.log.look(args.jobs)?;
    if container != Container::Plain {
        return scan(args, Some(options));
    }
    let path = args.index.clone().unwrap_or_else(|| index_path(log));
    let is_small = log.metadata().is_ok_and(|about| about.len() < SMALL);
    if is_small && !path.exists() {
        return ask(args, &mut in_memory(args, &options)?);
    }
    ask(args, &mut open_or_make(log, &path, &options)?)
}

/// An index of a small log, in no file.
fn in_memory(args: &Args, options: &IndexOptions) -> anyhow::Result<Indexed<File, Cursor<Vec<u8>>>> {
    let name = || args.log.log.display().to_string();
    let mut log = File::open(&args.log.log).with_context(name)?;
    let fingerprint = Fingerprint::of(&mut log, 0).with_context(name)?;
    let mut file = Cursor::new(Vec::new());
    build(&mut log, &mut file, fingerprint, options, |_| {}).with_context(name)?;
    Ok(Indexed::new(log, Index::open(file).with_context(name)?))
}

fn ask<T: Read + Seek, S: Read + Seek>(args: &Args, log: &mut Indexed<T, S>) -> anyhow::Result<Answer> {
    let name = || args.log.log.display().to_string();
    let core = args.core.as_ref().map(String::as_bytes);
    let totals = log.index().totals();
    let line = log.line_of(args.at, core).with_context(name)?;
    let Some(line) = line.filter(|line| *line <= totals.lines) else { return Ok((None, Verdict::Clean)) };
    let state = log.state(line, &ranges(args)).with_context(name)?;
    if totals.problems == 0 {
        return Ok((Some(state), Verdict::Clean));
    }
    diagnostic(format_args!("{}: {} in all cannot be understood", name(), many(totals.problems, "line")));
    Ok((Some(state), Verdict::Problems))
}

/// All memory that is asked for.
fn ranges(args: &Args) -> Vec<RangeInclusive<u64>> {
    let of_writes = args.last_write.iter().filter_map(|wanted| match wanted {
        Wanted::Memory(range) => Some(range.clone()),
        Wanted::Register(_) => None,
    });
    let mut ranges: Vec<_> = args.memory.iter().map(Place::range).chain(of_writes).collect();
    // None is looked at twice.
    ranges.sort_by_key(|range| *range.start());
    ranges.dedup_by(|next, last| {
        let overlaps = next.start() / 8 <= last.end() / 8;
        if overlaps {
            *last = *last.start()..=*last.end().max(next.end());
        }
        overlaps
    });
    ranges
}

/// Reads everything.
fn scan(args: &Args, options: Option<IndexOptions>) -> anyhow::Result<Answer> {
    let mut log = TarmacFile::open(&args.log.log, &args.log.tarmac.options(None))?;
    let options =
        options.unwrap_or_else(|| IndexOptions { big_endian: args.log.big_endian, ..IndexOptions::of(log.dialect()) });
    let core = args.core.as_ref().map(String::as_bytes);
    let mut scanner = Scanner::new(options, args.at, core, LIMIT);
    let mut last = 0;
    let end = log.each(&mut Progress::new(false).callback(), |place, line| {
        scanner.line(place.line, line);
        last = place.line;
        true
    })?;
    // Damage is told; what came before it is known.
    let verdict = tarmac_verdict(&mut log, &end);
    let state = scanner.finish().filter(|_| !matches!(args.at, Position::Line(line) if line > last));
    Ok((state, verdict))
}
