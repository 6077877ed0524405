//! `program`: register values for a trace unit, what they do, and the instructions that write them.
//!
//! ```text
//! what is wanted ─▶ plan ─┐
//! registers of a file or ─┴▶ values ─▶ a table with what is traced, an explanation, a listing
//! a capture
//! ```

use std::fs;
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::coresight::Protocol;
use unspool::coresight::etm4::explain;
use unspool::coresight::etm4::program::{
    Buffer, Levels, Listing, Plan, Remark, Value, Verdict as Traced, listing, audit,
};
use unspool::file::is_standard;
use unspool::model::json::Object;
use unspool::{FileKind, Program};

use crate::args::{ImageArgs, OutputArgs, number_u8, number_u64};
use crate::output::Output;
use crate::verdict::Verdict;

/// Work out register values for a trace unit, say what they trace, explain and check those of others
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Registers to look at instead of making some: a capture, or a file of lines NAME=VALUE ('-': standard input)
    #[arg(value_name = "REGISTERS")]
    input: Option<PathBuf>,

    /// Say what every field of every register means
    #[arg(long)]
    explain: bool,

    /// Print the instructions that do this, for the GNU assembler (ETE)
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with_all = ["explain", "unit"])]
    listing: Option<Which>,

    /// Print lines NAME=VALUE and no more, as 'unspool encode --unit' reads them
    #[arg(long, conflicts_with = "explain")]
    unit: bool,

    /// The architecture of the trace unit
    #[arg(long, value_name = "NAME", value_enum, default_value = "ete")]
    protocol: super::encode::Architecture,

    /// Trace only here: addresses A to B, B included, or a function by the symbols of --image; up to 8 times
    #[arg(long, value_name = "A..B|NAME", help_heading = "What is traced", conflicts_with = "input")]
    include: Vec<String>,

    /// Do not trace here
    #[arg(long, value_name = "A..B|NAME", help_heading = "What is traced", conflicts_with = "input")]
    exclude: Vec<String>,

    /// Start to trace at this instruction: its address, or a function by the symbols of --image
    #[arg(long, value_name = "ADDR|NAME", help_heading = "What is traced", conflicts_with = "input")]
    start: Vec<String>,

    /// Stop to trace behind this instruction
    #[arg(long, value_name = "ADDR|NAME", help_heading = "What is traced", conflicts_with = "input")]
    stop: Vec<String>,

    /// Exception levels that are traced: ns-el0 to ns-el2, s-el0 to s-el2, el3, realm-el0 to realm-el2, or all
    /// (ns-el0, and of an ETE realm-el0, if not said)
    #[arg(
        long,
        value_name = "LEVELS",
        value_delimiter = ',',
        help_heading = "What is traced",
        conflicts_with = "input"
    )]
    levels: Vec<String>,

    #[command(flatten)]
    images: ImageArgs,

    /// Trace id of the stream
    #[arg(long, value_name = "ID", value_parser = number_u8, default_value = "0x10", help_heading = "What is told")]
    id: u8,

    /// Count cycles, where there are at least N
    #[arg(long, value_name = "N", help_heading = "What is told")]
    cycle_counts: Option<u16>,

    /// Tell targets of all taken branches
    #[arg(long, help_heading = "What is told")]
    branch_broadcast: bool,

    /// Tell targets that a return stack knows, too
    #[arg(long, help_heading = "What is told")]
    no_return_stack: bool,

    /// Do not tell the time
    #[arg(long, help_heading = "What is told")]
    no_timestamps: bool,

    /// Do not tell context identifiers and virtual context identifiers
    #[arg(long, help_heading = "What is told")]
    no_context_ids: bool,

    /// Synchronise every N bytes: a power of two from 256 on, or 0 for never
    #[arg(long, value_name = "N", default_value_t = 4096, help_heading = "What is told")]
    sync: u32,

    /// The trace buffer of the PE, too: its first byte and the byte behind its last, on 4 KiB pages (ETE)
    #[arg(long, value_name = "BASE..LIMIT", value_parser = buffer, help_heading = "Trace buffer", conflicts_with = "input")]
    buffer: Option<(u64, u64)>,

    /// What the trace buffer does when it is full
    #[arg(
        long,
        value_name = "MODE",
        value_enum,
        default_value = "fill",
        requires = "buffer",
        help_heading = "Trace buffer"
    )]
    buffer_mode: super::encode::Mode,

    /// Have an interrupt when N bytes were collected, and go on
    #[arg(long, value_name = "N", value_parser = number_u64, requires = "buffer", help_heading = "Trace buffer")]
    watermark: Option<u64>,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool program                                        the values that trace a process at Non-secure EL0
  unspool program --include 0x400000..0x400ffc
  unspool program --include main --image program.elf --unit > unit.ini
  unspool encode run.astf -o capture/ --unit unit.ini    what such a trace unit makes of a run
  unspool program --listing enable --buffer 0x80000000..0x80100000 --buffer-mode circular
  unspool program capture/                               what the trace units of a capture traced, and what not
  unspool program registers.txt --explain

Exit code 1: the registers are wrong somewhere ('problem').";

/// Which listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Write the registers and switch tracing on
    Enable,
    /// Switch tracing off
    Disable,
    /// Save the registers
    Save,
    /// Restore them
    Restore,
}

fn buffer(text: &str) -> Result<(u64, u64), String> {
    let (base, limit) = text.split_once("..").ok_or("not BASE..LIMIT")?;
    Ok((number_u64(base)?, number_u64(limit)?))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let units = match &args.input {
        Some(path) => read(path, args.protocol.into())?,
        None => vec![Unit { name: String::new(), protocol: args.protocol.into(), values: plan(args)?.values()? }],
    };
    let input = args.input.as_deref().unwrap_or(Path::new(""));
    let mut out = Output::open_for(&args.output, input)?;
    let mut verdict = Verdict::Clean;
    for unit in &units {
        out.write(|out| unit.header(args, units.len(), out));
        if let Some(which) = args.listing {
            let text = unit.listing(which)?;
            out.write(|out| out.write_all(text.as_bytes()));
        } else if args.unit {
            out.write(|out| unit.lines(out));
        } else if args.explain {
            out.write(|out| unit.explained(args.output.json, out));
        } else {
            let remarks = audit(unit.protocol, unit.values.iter().map(|value| (&*value.register, value.value)));
            if remarks.iter().any(|remark| remark.verdict == Traced::Problem) {
                verdict = Verdict::Problems;
            }
            out.write(|out| unit.table(args.output.json, &remarks, out));
        }
    }
    out.finish()?;
    Ok(verdict)
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let protocol = args.protocol.into();
    let program = Program::new(args.images.load()?);
    let ranges = |texts: &[String]| texts.iter().map(|text| range(text, &program)).collect::<anyhow::Result<_>>();
    let points = |texts: &[String]| texts.iter().map(|text| point(text, &program)).collect::<anyhow::Result<_>>();
    let usual = Plan::new(protocol);
    let mode = args.buffer_mode.into();
    Ok(Plan {
        trace_id: args.id,
        levels: if args.levels.is_empty() { usual.levels } else { levels(&args.levels, protocol)? },
        include: ranges(&args.include)?,
        exclude: ranges(&args.exclude)?,
        start: points(&args.start)?,
        stop: points(&args.stop)?,
        return_stack: !args.no_return_stack,
        timestamps: !args.no_timestamps,
        context_ids: !args.no_context_ids,
        cycle_threshold: args.cycle_counts,
        branch_broadcast: args.branch_broadcast,
        sync_bytes: args.sync,
        buffer: args.buffer.map(|(base, limit)| Buffer { base, limit, mode, watermark: args.watermark }),
        ..usual
    })
}

fn range(text: &str, program: &Program) -> anyhow::Result<RangeInclusive<u64>> {
    if let Some((first, last)) = text.split_once("..") {
        let number = |text| number_u64(text).map_err(anyhow::Error::msg);
        return Ok(number(first)?..=number(last)?);
    }
    function(text, program)
}

fn point(text: &str, program: &Program) -> anyhow::Result<u64> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return number_u64(text).map_err(anyhow::Error::msg);
    }
    Ok(*function(text, program)?.start())
}

/// Where a function is: its first byte and its last.
fn function(name: &str, program: &Program) -> anyhow::Result<RangeInclusive<u64>> {
    match program.functions(name).next() {
        Some(range) => Ok(range.start..=range.end - 1),
        None => bail!("no image has a function '{name}' whose size is known; give --image FILE or addresses"),
    }
}

fn levels(names: &[String], protocol: Protocol) -> anyhow::Result<Levels> {
    let mut levels = Levels::default();
    for name in names {
        match name.as_str() {
            "all" if protocol == Protocol::Ete => levels = Levels::ALL,
            "all" => levels = Levels { realm: 0, ..Levels::ALL },
            "el3" => levels.secure |= 1 << 3,
            name => {
                let (state, level) = name.rsplit_once("-el").unwrap_or(("", ""));
                let level: u8 = level.parse().ok().filter(|level| *level < 3).unwrap_or(3);
                let position = match state {
                    "ns" if level < 3 => &mut levels.non_secure,
                    "s" if level < 3 => &mut levels.secure,
                    "realm" if level < 3 => &mut levels.realm,
                    _ => bail!("'{name}' is no level: say ns-el0 to ns-el2, s-el0 to s-el2, el3, realm-el0 or all"),
                };
                *position |= 1 << level;
            }
        }
    }
    Ok(levels)
}

/// A trace unit and its registers.
struct Unit {
    name: String,
    protocol: Protocol,
    values: Vec<Value>,
}

/// The trace units of a capture, or the one of a file.
fn read(path: &Path, protocol: Protocol) -> anyhow::Result<Vec<Unit>> {
    if !is_standard(path)
        && matches!(FileKind::at(path), Ok(FileKind::Capture))
        && let Ok(capture) = unspool::capture::Capture::open(path)
    {
        return of_capture(&capture);
    }
    let mut text = String::new();
    let name = path.display().to_string();
    if is_standard(path) {
        io::stdin().read_to_string(&mut text).with_context(|| name.clone())?;
    } else {
        text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    }
    Ok(vec![Unit { values: parse(&text, protocol).with_context(|| name.clone())?, name, protocol }])
}

fn of_capture(capture: &unspool::capture::Capture) -> anyhow::Result<Vec<Unit>> {
    let mut units = Vec::new();
    for source in &capture.sources {
        if let Some(protocol @ (Protocol::Ete | Protocol::Etm4)) = source.protocol {
            let values = source.registers.iter().map(|register| value(&register.name, register.value, protocol));
            units.push(Unit { name: source.name.clone(), protocol, values: values.collect() });
        }
    }
    if units.is_empty() {
        bail!("{}: it has no ETE or ETMv4 source", capture.path.display());
    }
    Ok(units)
}

/// Lines of a name and a value, whatever stands between; sections and comments are passed over.
fn parse(text: &str, protocol: Protocol) -> anyhow::Result<Vec<Value>> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(['[', ';', '#']));
    let mut values = Vec::new();
    for (number, line) in lines {
        let is_between = |c: char| c == '=' || c == ':' || c.is_whitespace();
        let parts = line.split_once(is_between).map(|(name, value)| (name, value.trim_start_matches(is_between)));
        let Some((name, text)) = parts else { bail!("line {number}: '{line}' is not NAME=VALUE") };
        let Ok(found) = number_u64(text.trim()) else {
            // Options of a unit file are none of the registers.
            if name.to_ascii_uppercase().starts_with("TR") {
                bail!("line {number}: '{text}' is no number (12 or 0xc)");
            }
            continue;
        };
        values.push(value(name, found, protocol));
    }
    Ok(values)
}

fn value(name: &str, value: u64, protocol: Protocol) -> Value {
    let why = explain(name, value, protocol).map_or_else(String::new, |explained| explained.summary());
    Value { register: name.to_ascii_uppercase().into(), value, why }
}

impl Unit {
    /// Which unit, if there are several.
    fn header(&self, args: &Args, units: usize, out: &mut dyn Write) -> io::Result<()> {
        match args.output.json || units == 1 {
            true => Ok(()),
            false => writeln!(out, "{} {} ({})", if args.unit { "#" } else { "//" }, self.name, self.protocol),
        }
    }

    fn listing(&self, which: Which) -> anyhow::Result<String> {
        if self.protocol != Protocol::Ete {
            bail!("an ETMv4 is programmed through memory: there are listings for ETE only");
        }
        let which = match which {
            Which::Enable => Listing::Enable,
            Which::Disable => Listing::Disable,
            Which::Save => Listing::Save,
            Which::Restore => Listing::Restore,
        };
        let has_buffer = self.values.iter().any(|value| value.register.starts_with("TRB"));
        Ok(listing(which, &self.values, has_buffer))
    }

    fn lines(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "protocol={}", if self.protocol == Protocol::Ete { "ete" } else { "etm4" })?;
        self.values.iter().try_for_each(|value| writeln!(out, "{}={:#x}", value.register, value.value))
    }

    fn table(&self, json: bool, remarks: &[Remark], out: &mut dyn Write) -> io::Result<()> {
        for value in &self.values {
            if json {
                let mut line = String::new();
                let mut object = Object::new(&mut line);
                object.string("kind", "register").string("name", &value.register);
                object.hex("value", value.value).string("meaning", &value.why);
                if !self.name.is_empty() {
                    object.string("source", &self.name);
                }
                object.finish(out)?;
            } else {
                writeln!(out, "{:<14} {:#010x}  {}", value.register, value.value, value.why)?;
            }
        }
        if !json {
            writeln!(out)?;
        }
        remarks.iter().try_for_each(|remark| self.remark(json, remark, out))
    }

    fn remark(&self, json: bool, remark: &Remark, out: &mut dyn Write) -> io::Result<()> {
        let verdict = match remark.verdict {
            Traced::Traced => "traced",
            Traced::NotTraced => "not traced",
            Traced::Problem => "problem",
            Traced::Unknown => "not known",
        };
        if !json {
            return writeln!(out, "{verdict:<11} {} ({})", remark.text, remark.register);
        }
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", verdict.replace(' ', "-")).string("register", &remark.register);
        object.string("text", &remark.text);
        if !self.name.is_empty() {
            object.string("source", &self.name);
        }
        object.finish(out)
    }

    fn explained(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        for value in &self.values {
            let fields = explain(&value.register, value.value, self.protocol);
            if !json {
                let title = fields.as_ref().map_or("not known here", |explanation| explanation.title);
                writeln!(out, "{} = {:#010x}: {title}", value.register, value.value)?;
            }
            for field in fields.iter().flat_map(|explanation| &explanation.fields) {
                let bits = if field.high == field.low {
                    field.low.to_string()
                } else {
                    format!("{}:{}", field.high, field.low)
                };
                if json {
                    let mut line = String::new();
                    let mut object = Object::new(&mut line);
                    object.string("kind", "field").string("register", &value.register).string("name", field.name);
                    object.string("bits", bits).hex("value", field.value).string("meaning", &field.meaning);
                    object.finish(out)?;
                } else {
                    writeln!(out, "  {bits:>5} {:<12} {:#x}  {}", field.name, field.value, field.meaning)?;
                }
            }
        }
        Ok(())
    }
}
