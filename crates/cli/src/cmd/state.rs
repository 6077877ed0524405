//! `state`: prints registers and memory at one point of a Tarmac log.

use std::io::{self, Read, Seek, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::container::Container;
use unspool::file::is_standard;
use unspool::indexed_log::{LogError, index_in_memory, index_path, open_or_make};
use unspool::model::{CoreSelector, Lost};
use unspool::number::{grouped, many};
use unspool::tarmac::index::{
    CoreState, IndexOptions, Indexed, MemoryQuery, Position, Scanner, State, StateView, WriteQuery, register,
};
use unspool::tarmac::record::{Time, Unit};
use unspool::tarmac::state::LastWrite;

use super::index::{LogArgs, check_index};
use crate::args::{JobsArgs, OutputArgs, is_number, parse_number, parse_range};
use crate::diagnostic;
use crate::file::{corrected_loads, open_log, report_corrected_loads, tarmac_verdict};
use crate::json::write_summary;
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Print registers and memory at one point of a Tarmac log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    log: LogArgs,

    /// Point in the log: a line (1200), a time (1200ns, 40clk) or an instruction (#1200)
    #[arg(long, value_name = "LINE|TIME|#N", value_parser = parse_position)]
    at: Position,

    /// Only this core: its name, or its number in order of appearance, counted from 0. --at '#N' then counts only its
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

    /// Index of the log [default: LOG.unspool-index]
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,

    /// Fail if the log shows a load as a memory write, as gem5 does for LDP; by default it is treated as a read, with a warning
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool state boot.tarmac --at 1200                  after line 1200
  unspool state boot.tarmac --at 35us --register x0    after everything up to that time
  unspool state boot.tarmac --at '#1000' --core cpu1   after the 1000th instruction of cpu1
  unspool state boot.tarmac --at 1200 --memory 0x8000..0x8040 --memory all
  unspool state boot.tarmac --at 1200 --last-write sp --last-write 0x8000..0x8008

Unknown digits are 'x', unknown bytes '..'. The value of a byte is also known before its first read, back to the last write: \
'state' looks ahead in the log.
A large log is indexed first, and the index is kept as LOG.unspool-index (--index FILE puts it elsewhere); a compressed log or \
a pipe is read from the start every time.";

/// Size of logs that are read without an index.
const SMALL: u64 = 16 << 20;

/// Words of eight bytes of memory that are kept for each core when there is no index.
const MAX_WORDS: usize = 1 << 21;

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let (state, verdict) = find(args)?;
    let Some(state) = state else {
        bail!("{}: --at is not in the log", args.log.log.display());
    };
    let core = args.core.as_ref().map(|core| core_name(args, core, &state)).transpose()?;
    let mut output = Output::open_for(&args.output, &args.log.log)?;
    let view = StateView {
        state: &state,
        core: core.as_deref(),
        memory: &args.memory,
        registers: &args.register,
        last_writes: &args.last_write,
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

/// State, if the log has that point, and whether all of the log could be parsed.
type Answer = (Option<State>, Verdict);

fn find(args: &Args) -> anyhow::Result<Answer> {
    let log = &args.log.log;
    if is_standard(log) || !log.metadata().with_context(|| log.display().to_string())?.is_file() {
        return scan(args, None);
    }
    let (container, options) = args.log.index_options(args.jobs)?;
    if container != Container::Plain {
        return scan(args, Some(options));
    }
    let path = args.index.clone().unwrap_or_else(|| index_path(log));
    if args.index.is_some() {
        check_index(log, &path, &options, args.output.force.is_given())?;
    }
    let is_small = log.metadata().is_ok_and(|about| about.len() < SMALL);
    if is_small && !path.exists() {
        return query(args, &mut index_in_memory(log, &options)?);
    }
    let mut progress = Progress::new(false);
    let stale = |error: &LogError| diagnostic::note(format_args!("{error}; it is rebuilt"));
    let report = |done| progress.at(done, args.log.size());
    query(args, &mut open_or_make(log, &path, &options, report, stale)?)
}

fn query<T: Read + Seek, S: Read + Seek>(args: &Args, log: &mut Indexed<T, S>) -> anyhow::Result<Answer> {
    let name = || args.log.log.display().to_string();
    let totals = log.index().totals();
    // A core that the log does not have is reported later.
    let named = |wanted: &CoreSelector| {
        let mut cores = log.index().cores().enumerate();
        cores.find(|(number, name)| wanted.matches(*number, name)).map_or_else(Vec::new, |(_, name)| name.to_vec())
    };
    let core = args.core.as_ref().map(named);
    let line = log.line_of(args.at, core.as_deref()).with_context(name)?;
    let Some(line) = line.filter(|line| *line <= totals.lines) else { return Ok((None, Verdict::Clean)) };
    args.corrected(totals.corrected_loads)?;
    let state = log.state(line, &ranges(args)).with_context(name)?;
    if totals.problems == 0 {
        return Ok((Some(state), Verdict::Clean));
    }
    diagnostic::error(format_args!("{}: {} in total cannot be parsed", name(), many(totals.problems, "line")));
    Ok((Some(state), Verdict::Problems))
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

fn scan(args: &Args, options: Option<IndexOptions>) -> anyhow::Result<Answer> {
    let mut log = open_log(&args.log.log, &args.log.tarmac)?;
    let options =
        options.unwrap_or_else(|| IndexOptions { big_endian: args.log.big_endian, ..IndexOptions::of(log.dialect()) });
    let mut scanner = Scanner::new(options, args.at, args.core.as_ref(), MAX_WORDS);
    let end = log.each(&mut Progress::new(false).callback(), |position, line| {
        scanner.line(position.line, line);
        true
    })?;
    args.corrected(scanner.corrected_loads())?;
    // Damage is reported; the state before it is known.
    let verdict = tarmac_verdict(&mut log, &end);
    Ok((scanner.finish(), verdict))
}

const UNITS: [Unit; 10] =
    [Unit::S, Unit::Ms, Unit::Us, Unit::Ns, Unit::Ps, Unit::Fs, Unit::Clk, Unit::Cs, Unit::Cyc, Unit::Tic];

fn parse_position(text: &str) -> Result<Position, String> {
    let wrong = || format!("'{text}' is not a line (1200), a time (1200ns, 40clk) or an instruction (#1200)");
    if let Some(number) = text.strip_prefix('#') {
        return number.parse().map(Position::Instruction).map_err(|_| wrong());
    }
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    if unit.is_empty() {
        return match number.parse() {
            Ok(0) | Err(_) => Err(wrong()),
            Ok(line) => Ok(Position::Line(line)),
        };
    }
    let unit = UNITS.into_iter().find(|known| known.name().eq_ignore_ascii_case(unit)).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let value = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let decimals = u8::try_from(fraction.len()).map_err(|_| wrong())?;
    Ok(Position::Time(Time { value, decimals, unit }))
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
    write!(out, "line {}", view.state.line)?;
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
        writeln!(out, "  {:<width$}  {}  line {}", row.name, row.value, row.line)?;
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
            let line =
                register(core, name).map_or_else(|| "never written".to_string(), |row| format!("line {}", row.line));
            writeln!(out, "\n{core_name}{}{name}: {line}", if core.name.is_empty() { "" } else { " " })
        }),
        WriteQuery::Memory(range) => {
            writeln!(out)?;
            view.written_ranges(range).iter().try_for_each(|written_range| {
                let (start, end) = (written_range.range.start(), u128::from(*written_range.range.end()) + 1);
                writeln!(out, "{start:#x}..{end:#x}: {}", written(written_range.write))
            })
        }
    }
}

fn written(write: Option<LastWrite>) -> String {
    match write {
        None => "unknown".to_string(),
        Some(LastWrite { line: 0, .. }) => "never written, but read".to_string(),
        Some(LastWrite { line, is_seen: true, .. }) => {
            format!("line {line} read a new value; its write is not in the log")
        }
        Some(LastWrite { line, value: None, .. }) => format!("line {line}, value unknown"),
        Some(LastWrite { line, .. }) => format!("line {line}"),
    }
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
        let time = |value, decimals, unit| Position::Time(Time { value, decimals, unit });
        let rows = [
            ("1200", Some(Position::Line(1200))),
            ("#12", Some(Position::Instruction(12))),
            ("1200ns", Some(time(1200, 0, Unit::Ns))),
            ("10.356us", Some(time(10356, 3, Unit::Us))),
            ("40 clk", Some(time(40, 0, Unit::Clk))),
            ("0", None),
            ("", None),
            ("#", None),
            ("ns", None),
            ("12parsec", None),
            ("1.2.3ns", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_position(text).ok(), expected, "{text}");
        }
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
