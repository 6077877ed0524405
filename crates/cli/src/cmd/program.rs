//! `program`: computes register values for a trace unit, explains them, and generates the instructions that write them.
//!
//! ```text
//! options ─▶ plan ───────┐
//! registers of a file or ┴▶ values ─▶ table and audit, explanation, or listing
//! of a capture
//! ```

use std::fs;
use std::io::{self, Read, Write};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::coresight::Protocol;
use unspool::coresight::etm4::program::{
    At, Buffer, Event, Levels, Listing, Plan, Remark, Value, Verdict as Traced, audit, listing,
};
use unspool::coresight::etm4::{ExplainedField, explain};
use unspool::coresight::trace_buffer::FillMode;
use unspool::file::is_standard;
use unspool::model::json::Object;
use unspool::{FileKind, Program};

use super::encode::FILL_MODES;
use crate::args::{
    Choice, ImageArgs, OutputArgs, TRACE_UNITS, is_number, one_of, parse_number, parse_range, parse_trace_id,
};
use crate::json::write_summary;
use crate::output::Output;
use crate::verdict::Verdict;

/// Compute register values for a trace unit, or explain and check existing ones
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Existing registers to explain: a capture, or a file with lines NAME=VALUE ('-': standard input)
    #[arg(value_name = "REGISTERS")]
    input: Option<PathBuf>,

    /// Explain every field of every register
    #[arg(long)]
    explain: bool,

    /// Print the instructions for this, in the syntax of the GNU assembler (ETE). Loops that wait for the trace unit may
    /// never end, if the system does not accept its trace: comments mark them
    #[arg(long, value_name = "WHAT", value_parser = one_of(LISTINGS), conflicts_with_all = ["explain", "unit", "json"])]
    listing: Option<Listing>,

    /// Print only lines NAME=VALUE, the input of 'unspool encode --unit'
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    unit: bool,

    /// Architecture of the trace unit
    #[arg(long, value_name = "NAME", value_parser = one_of(TRACE_UNITS), default_value = "ete")]
    protocol: Protocol,

    /// Trace only instructions from address A up to, but not including, address B, or a function of --image. Can be repeated
    /// up to 8 times
    #[arg(long, value_name = "A..B|NAME", help_heading = "Filters", conflicts_with = "input")]
    include: Vec<String>,

    /// Do not trace this range or function
    #[arg(long, value_name = "A..B|NAME", help_heading = "Filters", conflicts_with = "input")]
    exclude: Vec<String>,

    /// Start tracing at this instruction: its address, or a function of --image
    #[arg(long, value_name = "ADDR|NAME", help_heading = "Filters", conflicts_with = "input")]
    start: Vec<String>,

    /// Stop tracing after this instruction
    #[arg(long, value_name = "ADDR|NAME", help_heading = "Filters", conflicts_with = "input")]
    stop: Vec<String>,

    /// Trace only the process with this context identifier (CONTEXTIDR_EL1). Can be repeated up to 8 times
    #[arg(
        long,
        value_name = "ID",
        value_parser = parse_identifier,
        help_heading = "Filters",
        conflicts_with = "input"
    )]
    context_id: Vec<u32>,

    /// Trace only the virtual machine or host process with this virtual context identifier (CONTEXTIDR_EL2; of an ETMv4
    /// also VTTBR_EL2.VMID). Can be repeated; with --context-id, both have to match
    #[arg(
        long,
        value_name = "ID",
        value_parser = parse_identifier,
        help_heading = "Filters",
        conflicts_with = "input"
    )]
    vmid: Vec<u32>,

    /// Exception levels to trace: ns-el0 to ns-el2, s-el0 to s-el2, el3, realm-el0 to realm-el2, or all [default: ns-el0,
    /// and realm-el0 of an ETE]
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', help_heading = "Filters", conflicts_with = "input")]
    levels: Vec<String>,

    #[command(flatten)]
    images: ImageArgs,

    /// Trace id
    #[arg(long, value_name = "ID", value_parser = parse_trace_id, default_value = "0x10", help_heading = "Trace contents")]
    id: u8,

    /// Trace cycle counts, with threshold N (TRCCCCTLR)
    #[arg(long, value_name = "N", help_heading = "Trace contents")]
    cycle_counts: Option<u16>,

    /// Trace targets of all taken branches
    #[arg(long, help_heading = "Trace contents")]
    branch_broadcast: bool,

    /// Also trace targets that a return stack predicts
    #[arg(long, help_heading = "Trace contents")]
    no_return_stack: bool,

    /// Do not trace timestamps
    #[arg(long, help_heading = "Trace contents")]
    no_timestamps: bool,

    /// Trace event N (0 to 3) when this instruction is executed, or when execution enters this range. A function of --image
    /// stands for its first instruction. Can be repeated
    #[arg(long, value_name = "N=ADDR|A..B|NAME", help_heading = "Trace contents", conflicts_with = "input")]
    event: Vec<String>,

    /// The same, but only the first time (a single-shot comparator)
    #[arg(long, value_name = "N=ADDR|A..B|NAME", help_heading = "Trace contents", conflicts_with = "input")]
    event_once: Vec<String>,

    /// Request timestamps in this range or function; elsewhere, they are only traced with synchronizations. Can be repeated
    #[arg(
        long,
        value_name = "A..B|NAME",
        help_heading = "Trace contents",
        conflicts_with_all = ["input", "no_timestamps"]
    )]
    timestamps_in: Vec<String>,

    /// Do not trace context identifiers and virtual context identifiers
    #[arg(long, help_heading = "Trace contents")]
    no_context_ids: bool,

    /// Synchronize every N bytes: a power of two from 256, or 0 for never
    #[arg(long, value_name = "N", default_value_t = 4096, help_heading = "Trace contents")]
    sync: u32,

    /// Also program the trace buffer of the PE (TRBE), from address A up to, but not including, address B, on 4 KiB pages (ETE)
    #[arg(long, value_name = "A..B", value_parser = parse_range, help_heading = "Trace buffer", conflicts_with = "input")]
    buffer: Option<Range<u64>>,

    /// Behavior of the trace buffer when it is full
    #[arg(
        long,
        value_name = "MODE",
        value_parser = one_of(FILL_MODES),
        default_value = "fill",
        requires = "buffer",
        help_heading = "Trace buffer"
    )]
    buffer_mode: FillMode,

    /// Raise an interrupt after N bytes, and continue
    #[arg(long, value_name = "N", value_parser = parse_number, requires = "buffer", help_heading = "Trace buffer")]
    watermark: Option<u64>,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool program                                        trace a process at Non-secure EL0
  unspool program --include 0x400000..0x401000
  unspool program --context-id 1234 --include 0x400000..0x401000
  unspool program --event 0=main --event-once 1=0x400580 --timestamps-in main --image program.elf
  unspool program --include main --image program.elf --unit > unit.ini
  unspool encode run.astf -o capture/ --unit unit.ini    simulate that trace unit
  unspool program --listing enable --buffer 0x80000000..0x80100000 --buffer-mode circular
  unspool program capture/                               explain what the trace units of a capture traced
  unspool program registers.txt --explain

A range A..B starts at A and ends before B.
With --context-id or --vmid, addresses are those of these processes: events, start and stop points have an address comparator \
for each of them. One process is filtered exactly, by address comparators; several are filtered by an event, which may take effect \
some instructions late.
The values need optional parts of a trace unit. To check that yours has them, add its TRCIDR4 to a file of --unit, and run \
'unspool program FILE'.
Exit codes: 0 no problem in the registers, 1 at least one line is marked 'problem', 2 the command failed.";

const LISTINGS: &[Choice<Listing>] = &[
    ("enable", "Write the registers and start tracing", Listing::Enable),
    ("disable", "Stop tracing", Listing::Disable),
    ("save", "Save the registers before a power-down", Listing::Save),
    ("restore", "Restore the registers after a power-up", Listing::Restore),
    ("switch-out", "Save the registers when a process is switched out; prohibits tracing first", Listing::SwitchOut),
    (
        "switch-out-unprohibited",
        "The same where tracing cannot be prohibited; the last instructions may not be traced",
        Listing::SwitchOutUnprohibited,
    ),
    ("switch-in", "Restore the registers when a process is switched in", Listing::SwitchIn),
];

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let units = match &args.input {
        Some(path) => read(path, args.protocol)?,
        None => vec![Unit { name: String::new(), protocol: args.protocol, values: plan(args)?.values()? }],
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
    if args.output.json {
        write_summary(&mut out, "program", verdict, |object| {
            object.plain("units", units.len());
        });
    }
    out.finish()?;
    Ok(verdict)
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let protocol = args.protocol;
    let program = Program::new(args.images.load()?);
    let ranges = |texts: &[String]| texts.iter().map(|text| range(text, &program)).collect::<anyhow::Result<_>>();
    let points = |texts: &[String]| texts.iter().map(|text| point(text, &program)).collect::<anyhow::Result<_>>();
    let defaults = Plan::new(protocol);
    let mode = args.buffer_mode;
    Ok(Plan {
        trace_id: args.id,
        levels: if args.levels.is_empty() { defaults.levels } else { levels(&args.levels, protocol)? },
        include: ranges(&args.include)?,
        exclude: ranges(&args.exclude)?,
        start: points(&args.start)?,
        stop: points(&args.stop)?,
        only_context_ids: args.context_id.clone(),
        only_vmids: args.vmid.clone(),
        events: events(args, &program)?,
        return_stack: !args.no_return_stack,
        timestamps: !args.no_timestamps,
        timestamps_in: ranges(&args.timestamps_in)?,
        context_ids: !args.no_context_ids,
        cycle_threshold: args.cycle_counts,
        branch_broadcast: args.branch_broadcast,
        sync_bytes: args.sync,
        buffer: args.buffer.clone().map(|Range { start: base, end: limit }| Buffer {
            base,
            limit,
            mode,
            watermark: args.watermark,
        }),
        ..defaults
    })
}

/// Addresses of a pair of comparators, which match both of them and what is between. The last byte before the end of the
/// range is right for all instruction sets: no instruction starts between the last one of the range and its end.
fn range(text: &str, program: &Program) -> anyhow::Result<RangeInclusive<u64>> {
    let range = match text.contains("..") {
        true => parse_range(text).map_err(anyhow::Error::msg)?,
        false => function(text, program)?,
    };
    Ok(range.start..=range.end - 1)
}

fn point(text: &str, program: &Program) -> anyhow::Result<u64> {
    if is_number(text) {
        return parse_number(text).map_err(anyhow::Error::msg);
    }
    Ok(function(text, program)?.start)
}

/// The causes of the events, by their numbers.
fn events(args: &Args, program: &Program) -> anyhow::Result<[Option<Event>; 4]> {
    let mut events = [const { None }; 4];
    let all = args.event.iter().map(|text| (text, false)).chain(args.event_once.iter().map(|text| (text, true)));
    for (text, once) in all {
        let (number, place) = text.split_once('=').unwrap_or(("", ""));
        let slot = number.parse().ok().and_then(|number: usize| events.get_mut(number));
        let Some(slot) = slot.filter(|_| !place.is_empty()) else {
            bail!("'{text}' is not an event: use N=ADDR, N=A..B or N=NAME, with N from 0 to 3");
        };
        let at = match place.contains("..") {
            true => At::Range(range(place, program)?),
            false => At::Address(point(place, program)?),
        };
        if slot.replace(Event { at, once }).is_some() {
            bail!("event {number} has two causes: use another of the numbers 0 to 3 for one of them");
        }
    }
    Ok(events)
}

fn parse_identifier(text: &str) -> Result<u32, String> {
    let number = parse_number(text)?;
    u32::try_from(number).map_err(|_| format!("{number:#x} is not an identifier: they have 32 bits"))
}

fn function(name: &str, program: &Program) -> anyhow::Result<Range<u64>> {
    match program.functions(name).find(|range| !range.is_empty()) {
        Some(range) => Ok(range),
        None => bail!("no image has a function '{name}' with a known size; add --image FILE or use addresses"),
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
                    _ => bail!(
                        "'{name}' is not a level: use ns-el0 to ns-el2, s-el0 to s-el2, el3, realm-el0 to realm-el2 or all"
                    ),
                };
                *position |= 1 << level;
            }
        }
    }
    Ok(levels)
}

struct Unit {
    name: String,
    protocol: Protocol,
    values: Vec<Value>,
}

/// Reads the trace units of a capture, or the one of a file.
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
        bail!("{}: no ETE or ETMv4 source in the capture", capture.path.display());
    }
    Ok(units)
}

/// Parses lines of a name and a value with any separator; sections and comments are skipped.
fn parse(text: &str, protocol: Protocol) -> anyhow::Result<Vec<Value>> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(['[', ';', '#']));
    let mut values = Vec::new();
    for (number, line) in lines {
        let is_between = |c: char| c == '=' || c == ':' || c.is_whitespace();
        let parts = line.split_once(is_between).map(|(name, value)| (name, value.trim_start_matches(is_between)));
        let Some((name, text)) = parts else { bail!("line {number}: '{line}' is not NAME=VALUE") };
        let Ok(found) = parse_number(text.trim()) else {
            // Options of a unit file are not registers.
            if name.to_ascii_uppercase().starts_with("TR") {
                bail!("line {number}: '{text}' is not a number (12 or 0xc)");
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
    /// Name of the unit, if there are several.
    fn header(&self, args: &Args, units: usize, out: &mut dyn Write) -> io::Result<()> {
        match args.output.json || units == 1 {
            true => Ok(()),
            false => writeln!(out, "{} {} ({})", if args.unit { "#" } else { "//" }, self.name, self.protocol),
        }
    }

    fn listing(&self, which: Listing) -> anyhow::Result<String> {
        if self.protocol != Protocol::Ete {
            bail!("an ETMv4 is programmed through memory: --listing supports ETE only");
        }
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
                self.object(out, |object| {
                    object.string("kind", "register").string("name", &value.register);
                    object.hex("value", value.value).string("meaning", &value.why);
                })?;
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
        self.object(out, |object| {
            object.string("kind", verdict.replace(' ', "_")).string("register", &remark.register);
            object.string("text", &remark.text);
        })
    }

    /// Writes a JSON line, with the name of the source if there is one.
    fn object(&self, out: &mut dyn Write, fields: impl FnOnce(&mut Object<'_>)) -> io::Result<()> {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        fields(&mut object);
        if !self.name.is_empty() {
            object.string("source_name", &self.name);
        }
        object.write_line(out)
    }

    fn explained(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        for value in &self.values {
            let fields = explain(&value.register, value.value, self.protocol);
            if !json {
                let title = fields.as_ref().map_or("unknown register", |explanation| explanation.title);
                writeln!(out, "{} = {:#010x}: {title}", value.register, value.value)?;
            }
            for field in fields.iter().flat_map(|explanation| &explanation.fields) {
                if json {
                    self.object(out, |object| {
                        object.string("kind", "field").string("register", &value.register).string("name", field.name);
                        object.string("bits", bits(field)).hex("value", field.value).string("meaning", &field.meaning);
                    })?;
                } else {
                    writeln!(out, "  {}", field_text(field))?;
                }
            }
        }
        Ok(())
    }
}

fn bits(field: &ExplainedField) -> String {
    if field.high == field.low { field.low.to_string() } else { format!("{}:{}", field.high, field.low) }
}

/// Bits, name, value and meaning of a register field.
pub(super) fn field_text(field: &ExplainedField) -> String {
    format!("{:>5} {:<12} {:#x}  {}", bits(field), field.name, field.value, field.meaning)
}
