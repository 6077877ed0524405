//! `state`: prints registers and memory at one place of a trace.

mod capture;

use std::io::{self, Read, Seek, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::container::Container;
use unspool::file::{TarmacFile, TraceFile, is_pipe};
use unspool::indexed_log::{LogError, index_in_memory, index_path, open_or_make};
use unspool::indexed_steps::{make_step_index, open_step_index};
use unspool::model::{CoreSelector, Lost};
use unspool::number::{grouped, many};
use unspool::place::{Place, PlaceFinder};
use unspool::state::replay;
use unspool::tarmac::index::{
    CoreState, IndexOptions, Indexed, MemoryQuery, Position, Scanner, Segments, State, StateView, WriteQuery, register,
};
use unspool::tarmac::state::LastWrite;
use unspool::{FileKind, Meter, OpenedSteps, Program};

use self::capture::find_in_capture;
use super::index::{LogArgs, check_foreign, check_index};
use crate::args::{ImageArgs, JobsArgs, OutputArgs, is_number, parse_number, parse_range};
use crate::diagnostic;
use crate::file::{
    corrected_loads, losses_verdict, open, open_log, report_astf, report_corrected_loads, tarmac_verdict,
};
use crate::json::write_summary;
use crate::output::Output;
use crate::process_args::ProcessArgs;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Print registers and memory at one place of a trace
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    log: LogArgs,

    /// Place in the trace: a line, record or offset (1200), a time (1200ns, 40clk), an instruction (#1200), the first
    /// instruction at an address (0x8000) or at the start of a function (main)
    #[arg(long, value_name = "PLACE", value_parser = str::parse::<Place>)]
    at: Place,

    /// Only this core: its name, or its number in order of appearance, counted from 0. --at then counts and finds only its
    /// instructions
    #[arg(long, value_name = "N|NAME")]
    core: Option<CoreSelector>,

    /// Print memory: a range A..B, which ends before B, an address with a length [default: 16], or 'all'. Can be repeated
    #[arg(long, value_name = "A..B|ADDR[+LEN]|all", value_parser = parse_memory)]
    memory: Vec<MemoryQuery>,

    /// Only this register. Can be repeated
    #[arg(long, value_name = "NAME")]
    register: Vec<String>,

    /// Print the line that last wrote a register or memory. Can be repeated
    #[arg(long, value_name = "NAME|A..B|ADDR[+LEN]", value_parser = parse_write)]
    last_write: Vec<WriteQuery>,

    /// Index of the trace [default: TRACE.unspool-index]
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,

    /// Fail if the log shows a load as a memory write, as gem5 does for LDP; by default it is treated as a read, with a warning
    #[arg(long)]
    strict: bool,

    /// Source of a capture: its trace id or its name
    #[arg(long, value_name = "ID|NAME")]
    source: Option<String>,

    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    processes: ProcessArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool state boot.tarmac --at 1200                  after line 1200
  unspool state boot.tarmac --at 35us --register x0    after everything up to that time
  unspool state boot.tarmac --at '#1000' --core cpu1   after the 1000th instruction of cpu1
  unspool state boot.tarmac --at 1200 --memory 0x8000..0x8040 --memory all
  unspool state boot.tarmac --at 1200 --last-write sp --last-write 0x8000..0x8008
  unspool state trace.zstf --at '#1000000' --memory 0x8000+64
  unspool state trace.astf --at main --image app.elf
  unspool state snapshot/ --source 0x10 --at 0x80004000

Unknown digits are 'x', unknown bytes '..'. The value of a byte is also known before its first read, back to the last write: \
'state' looks ahead in the log.
A large trace is indexed first, and the index is kept as TRACE.unspool-index, or TRACE.SOURCE.unspool-index if a capture has \
several sources (--index FILE puts it elsewhere). Pipes, compressed files other than .zstf and ASTF with unspool's zlib, sources \
of captures that 'unspool index' rejects, and records or offsets as --at, are read from the start every time.
The state at an instruction includes its effects. In ASTF, STF and captures, instructions take the place of lines: a register \
was last written by instruction N. Only what the trace contains is shown: ASTF has neither registers nor data, and a capture has \
data only where they were traced. After a gap, registers and memory are unknown.";

/// Size of logs that are read without an index.
const SMALL: u64 = 16 << 20;

/// Words of eight bytes of memory that are kept for each core when there is no index.
const MAX_WORDS: usize = 1 << 21;

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let Answer { state, verdict, unit } = find(args)?;
    let Some(state) = state else {
        let what = if unit == LINE { "log" } else { "trace" };
        bail!("{}: --at is not in the {what}", args.log.log.display());
    };
    let core = args.core.as_ref().map(|core| core_name(args, core, &state)).transpose()?;
    let mut output = Output::open_for(&args.output, &args.log.log)?;
    let view = StateView {
        state: &state,
        core: core.as_deref(),
        memory: &args.memory,
        registers: &args.register,
        last_writes: &args.last_write,
        unit,
    };
    output.write(|out| if args.output.json { view.write_json(out) } else { text(&view, out) });
    if args.output.json {
        let cores = view.cores().count();
        write_summary(&mut output, "state", verdict, |object| {
            object.plain("cores", cores);
        });
    }
    output.finish()?;
    Ok(verdict)
}

impl Args {
    /// Reports loads that the log calls writes, or rejects them.
    fn corrected(&self, corrected: Lost) -> anyhow::Result<()> {
        let name = self.log.log.display().to_string();
        if self.strict && corrected.count > 0 {
            bail!("{name}: {}: rejected because of --strict", corrected_loads(corrected));
        }
        report_corrected_loads(&name, corrected);
        Ok(())
    }
}

/// Name of the core that is meant.
fn core_name(args: &Args, wanted: &CoreSelector, state: &State) -> anyhow::Result<String> {
    let mut cores = state.cores.iter().enumerate();
    if let Some((_, core)) = cores.find(|(number, core)| wanted.matches(*number, &core.name)) {
        return Ok(String::from_utf8_lossy(&core.name).into_owned());
    }
    let names = state.cores.iter().map(|core| String::from_utf8_lossy(&core.name)).collect::<Vec<_>>();
    bail!("{}: no core '{wanted}' up to this point; cores: {}", args.log.log.display(), names.join(", "))
}

/// What a query found.
struct Answer {
    /// `None`: there is no such place.
    state: Option<State>,
    /// Whether all of the trace could be read.
    verdict: Verdict,
    /// What the lines of the state count.
    unit: &'static str,
}

/// Units of lines of a log, and of states that come from steps.
const LINE: &str = "line";
const INSTRUCTION: &str = "instruction";

fn find(args: &Args) -> anyhow::Result<Answer> {
    let (log, tarmac) = (&args.log.log, &args.log.tarmac);
    if is_pipe(log) {
        return find_in_file(args, open(log, args.jobs.threads(), tarmac)?);
    }
    log.metadata().with_context(|| log.display().to_string())?;
    let kind = if tarmac.is_given() { FileKind::Tarmac } else { FileKind::at(log).unwrap_or(FileKind::Tarmac) };
    match kind {
        FileKind::Capture => find_in_capture(args),
        FileKind::Tarmac => find_in_log(args),
        FileKind::Astf | FileKind::Stf => find_in_indexed(args),
        _ => find_in_file(args, open(log, args.jobs.threads(), tarmac)?),
    }
}

/// Finds the place in an ASTF or STF file by its index, unless the file is small or its index cannot help.
fn find_in_indexed(args: &Args) -> anyhow::Result<Answer> {
    let file = &args.log.log;
    let path = args.index.clone().unwrap_or_else(|| index_path(file));
    let is_small = file.metadata().is_ok_and(|about| about.len() < SMALL);
    // An index has the numbers of instructions, and not those of records.
    let is_by_record = matches!(args.at, Place::Position(_));
    let indexed = match open_step_index(file, &path) {
        _ if is_by_record => None,
        Ok(indexed) => Some(indexed),
        Err(error) if error.is_absent() && is_small && args.index.is_none() => None,
        Err(error) if error.is_absent() || error.is_stale() => {
            if error.is_stale() {
                check_foreign(&path, &error, args.output.force.is_given() || args.index.is_none())?;
                diagnostic::note(format_args!("{error}; it is rebuilt"));
            }
            match make_step_index(file, &path, &mut Progress::new(false).callback()) {
                Ok(_) => Some(open_step_index(file, &path)?),
                Err(LogError::NotSeekable { .. }) => None,
                Err(error) => return Err(error.into()),
            }
        }
        Err(error) => return Err(error.into()),
    };
    match indexed {
        Some(mut indexed) => query(args, &args.positions()?, &mut indexed, INSTRUCTION),
        None => find_in_file(args, open(file, args.jobs.threads(), &args.log.tarmac)?),
    }
}

/// Reads a file from the start.
fn find_in_file(args: &Args, file: TraceFile) -> anyhow::Result<Answer> {
    let name = file.name().to_string();
    let file = match file {
        TraceFile::Tarmac(log) => return scan(args, None, log),
        other => other,
    };
    if let TraceFile::Astf(file) = &file {
        report_astf(file);
    }
    let program = Program::new(args.images.load_for(&args.log.log)?);
    let (steps, meter) = file.into_steps(args.log.big_endian);
    find_in_steps(args, &name, steps, &program, &meter)
}

fn find_in_steps(
    args: &Args,
    name: &str,
    mut steps: OpenedSteps,
    program: &Program,
    meter: &Meter,
) -> anyhow::Result<Answer> {
    let core = match args.core.as_ref().map(CoreSelector::number) {
        None => None,
        Some(Some(number)) => Some(number),
        Some(None) => bail!("{name}: its cores have no names; give --core a number, counted from 0"),
    };
    let finder = PlaceFinder::new(&args.at, core, steps.time_unit(), program);
    let mut finder = finder.map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let progress = Progress::follow(meter);
    let replayed = replay(&mut *steps, &mut finder, !ranges(args).is_empty(), MAX_WORDS);
    drop(progress);
    let replayed = replayed.map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let verdict = losses_verdict(name, &steps.losses());
    if let Some(damage) = &replayed.damage {
        diagnostic::error(format_args!("{name}: {damage}"));
    }
    Ok(Answer { state: replayed.state, verdict: verdict.or(Verdict::of(replayed.damage.is_some())), unit: INSTRUCTION })
}

impl Args {
    /// The place as positions in a log; several if several functions have the name.
    fn positions(&self) -> anyhow::Result<Vec<Position>> {
        Ok(match &self.at {
            Place::Position(line) => vec![Position::Line(*line)],
            Place::Time(time) => vec![Position::Time(*time)],
            Place::Instruction(number) => vec![Position::Instruction(*number)],
            Place::Address(address) => vec![Position::Address(*address)],
            Place::Function(_) => self.positions_in(&Program::new(self.images.load_for(&self.log.log)?))?,
        })
    }

    /// The same in a trace that executes this program.
    fn positions_in(&self, program: &Program) -> anyhow::Result<Vec<Position>> {
        match &self.at {
            Place::Function(_) => {
                let addresses = self.at.addresses(program).map_err(anyhow::Error::msg)?;
                Ok(addresses.into_iter().map(Position::Address).collect())
            }
            _ => self.positions(),
        }
    }
}

fn find_in_log(args: &Args) -> anyhow::Result<Answer> {
    let log = &args.log.log;
    let (container, options) = args.log.index_options(args.jobs)?;
    if container != Container::Plain {
        return scan(args, Some(options), open_log(log, &args.log.tarmac)?);
    }
    let path = args.index.clone().unwrap_or_else(|| index_path(log));
    if args.index.is_some() {
        check_index(log, &path, &options, args.output.force.is_given())?;
    }
    let is_small = log.metadata().is_ok_and(|about| about.len() < SMALL);
    if is_small && !path.exists() {
        return query(args, &args.positions()?, &mut index_in_memory(log, &options)?, LINE);
    }
    let mut progress = Progress::new(false);
    let stale = |error: &LogError| diagnostic::note(format_args!("{error}; it is rebuilt"));
    let report = |done| progress.at(done, args.log.size());
    query(args, &args.positions()?, &mut open_or_make(log, &path, &options, report, stale)?, LINE)
}

fn query<T: Segments, S: Read + Seek>(
    args: &Args,
    positions: &[Position],
    log: &mut Indexed<T, S>,
    unit: &'static str,
) -> anyhow::Result<Answer> {
    let answer = |state, verdict| Answer { state, verdict, unit };
    let name = || args.log.log.display().to_string();
    let totals = log.index().totals();
    // A core that the log does not have is reported later.
    let named = |wanted: &CoreSelector| {
        let mut cores = log.index().cores().enumerate();
        cores.find(|(number, name)| wanted.matches(*number, name)).map_or_else(Vec::new, |(_, name)| name.to_vec())
    };
    let core = args.core.as_ref().map(named);
    let mut first: Option<State> = None;
    for position in positions {
        let found = log.state_at(*position, core.as_deref(), &ranges(args)).with_context(name)?;
        first = first.into_iter().chain(found).min_by_key(|state| state.line);
    }
    let Some(state) = first else { return Ok(answer(None, Verdict::Clean)) };
    args.corrected(totals.corrected_loads)?;
    if totals.problems == 0 {
        return Ok(answer(Some(state), Verdict::Clean));
    }
    diagnostic::error(format_args!("{}: {} in total cannot be parsed", name(), many(totals.problems, "line")));
    Ok(answer(Some(state), Verdict::Problems))
}

/// Memory ranges of all options, merged.
fn ranges(args: &Args) -> Vec<RangeInclusive<u64>> {
    let of_writes = args.last_write.iter().filter_map(|wanted| match wanted {
        WriteQuery::Memory(range) => Some(range.clone()),
        WriteQuery::Register(_) => None,
    });
    let mut ranges: Vec<_> = args.memory.iter().map(MemoryQuery::range).chain(of_writes).collect();
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

fn scan(args: &Args, options: Option<IndexOptions>, mut log: TarmacFile) -> anyhow::Result<Answer> {
    let options =
        options.unwrap_or_else(|| IndexOptions { big_endian: args.log.big_endian, ..IndexOptions::of(log.dialect()) });
    let [position] = args.positions()?[..] else {
        bail!("{}: several functions have this name; give the address of one of them", log.name());
    };
    let mut scanner = Scanner::new(options, position, args.core.as_ref(), MAX_WORDS);
    let end = log.each(&mut Progress::new(false).callback(), |position, line| {
        scanner.line(position.line, line);
        true
    })?;
    args.corrected(scanner.corrected_loads())?;
    // Damage is reported; the state before it is known.
    let verdict = tarmac_verdict(&mut log, &end);
    Ok(Answer { state: scanner.finish(), verdict, unit: LINE })
}

fn parse_memory(text: &str) -> Result<MemoryQuery, String> {
    if text == "all" {
        return Ok(MemoryQuery::All);
    }
    parse_memory_range(text, 16).map(MemoryQuery::Range)
}

fn parse_write(text: &str) -> Result<WriteQuery, String> {
    if is_number(text) {
        return parse_memory_range(text, 1).map(WriteQuery::Memory);
    }
    Ok(WriteQuery::Register(text.to_string()))
}

const MAX_LENGTH: u64 = 1 << 24;

fn parse_memory_range(text: &str, default_length: u64) -> Result<RangeInclusive<u64>, String> {
    let (start, length) = match text.split_once('+') {
        Some((start, length)) => (parse_number(start)?, parse_number(length)?),
        None if text.contains("..") => {
            let range = parse_range(text)?;
            (range.start, range.end - range.start)
        }
        None => (parse_number(text)?, default_length),
    };
    if length == 0 || length > MAX_LENGTH {
        return Err(format!("the length must be from 1 to {}", grouped(MAX_LENGTH)));
    }
    Ok(start..=start.saturating_add(length - 1))
}

fn text(view: &StateView<'_>, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", numbered(view.unit, view.state.line))?;
    if let Some(time) = view.state.time {
        write!(out, ", {time}")?;
    }
    writeln!(out)?;
    for core in view.cores() {
        core_text(view, core, out)?;
    }
    view.memory.iter().try_for_each(|query| dump(view, query, out))?;
    view.last_writes.iter().try_for_each(|wanted| last_write_text(view, wanted, out))
}

fn core_text(view: &StateView<'_>, core: &CoreState, out: &mut dyn Write) -> io::Result<()> {
    let name = if core.name.is_empty() { "core".into() } else { String::from_utf8_lossy(&core.name) };
    write!(out, "\n{name}: {}, {}", many(core.instructions, "instruction"), many(core.depth, "call"))?;
    writeln!(out, " deep{}", core.pc.map_or_else(String::new, |pc| format!(", last at {pc:#x}{}", mode(core))))?;
    let rows = view.registers_of(core);
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for row in &rows {
        writeln!(out, "  {:<width$}  {}  {}", row.name, row.value, numbered(view.unit, row.line))?;
    }
    view.unknown(core).try_for_each(|name| writeln!(out, "  {name}  unknown"))
}

fn dump(view: &StateView<'_>, query: &MemoryQuery, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    for (start, bytes) in view.memory_rows(query) {
        let hex = |byte: &Option<u8>| byte.map_or_else(|| "..".to_string(), |byte| format!("{byte:02x}"));
        let letter = |byte: &Option<u8>| match byte {
            None => ' ',
            Some(byte) if byte.is_ascii_graphic() || *byte == b' ' => char::from(*byte),
            Some(_) => '.',
        };
        let cells: Vec<String> = bytes.iter().map(hex).collect();
        let letters: String = bytes.iter().map(letter).collect();
        let (low, high) = cells.split_at(8);
        writeln!(out, "  {start:016x}  {}  {}  {}", low.join(" "), high.join(" "), letters.trim_end())?;
    }
    Ok(())
}

fn last_write_text(view: &StateView<'_>, wanted: &WriteQuery, out: &mut dyn Write) -> io::Result<()> {
    match wanted {
        WriteQuery::Register(name) => view.cores().try_for_each(|core| {
            let core_name = String::from_utf8_lossy(&core.name);
            let row = register(core, name);
            let line = row.map_or_else(|| "never written".to_string(), |row| numbered(view.unit, row.line));
            writeln!(out, "\n{core_name}{}{name}: {line}", if core.name.is_empty() { "" } else { " " })
        }),
        WriteQuery::Memory(range) => {
            writeln!(out)?;
            view.written_ranges(range).iter().try_for_each(|written_range| {
                let (start, end) = (written_range.range.start(), u128::from(*written_range.range.end()) + 1);
                writeln!(out, "{start:#x}..{end:#x}: {}", written(view.unit, written_range.write))
            })
        }
    }
}

fn written(unit: &str, write: Option<LastWrite>) -> String {
    match write {
        None => "unknown".to_string(),
        Some(LastWrite { line: 0, .. }) => "never written, but read".to_string(),
        Some(LastWrite { line, is_seen: true, .. }) => {
            let what = if unit == LINE { "log" } else { "trace" };
            format!("{} read a new value; its write is not in the {what}", numbered(unit, line))
        }
        Some(LastWrite { line, value: None, .. }) => format!("{}, value unknown", numbered(unit, line)),
        Some(LastWrite { line, .. }) => numbered(unit, line),
    }
}

/// A line, or an instruction as --at takes it.
fn numbered(unit: &str, number: u64) -> String {
    if unit == LINE { format!("line {number}") } else { format!("{unit} #{number}") }
}

fn mode(core: &CoreState) -> String {
    let mode = core.registers.mode();
    match (mode.level.name(), mode.security_name()) {
        ("", None) => String::new(),
        (level, None) => format!(" in {level}"),
        (level, Some(security)) => format!(" in {level}, {security}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed() {
        assert_eq!(parse_memory("0x10+4"), Ok(MemoryQuery::Range(0x10..=0x13)));
        assert_eq!(parse_memory("0x10..0x14"), Ok(MemoryQuery::Range(0x10..=0x13)));
        assert_eq!(parse_write("0x10..0x11"), Ok(WriteQuery::Memory(0x10..=0x10)));
        assert!(parse_memory("0x14..0x10").is_err() && parse_memory("0x10..0x10").is_err());
        assert_eq!(parse_memory("16"), Ok(MemoryQuery::Range(16..=31)));
        assert_eq!(parse_memory("all"), Ok(MemoryQuery::All));
        assert!(parse_memory("0x10+0").is_err());
        assert_eq!(parse_write("sp"), Ok(WriteQuery::Register("sp".into())));
        assert_eq!(parse_write("0x8"), Ok(WriteQuery::Memory(8..=8)));
        assert_eq!(parse_memory("0xffffffffffffffff+8"), Ok(MemoryQuery::Range(u64::MAX..=u64::MAX)));
    }
}
