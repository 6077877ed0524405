//! `encode`: the trace that a trace unit would have made of a run, as a capture.
//!
//! in ─▶ steps ─▶ trace units ─▶ CAPTURE/

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::coresight::Protocol;
use unspool::coresight::etm4::explain;
use unspool::coresight::etm4::unit::{OverflowLosses, Settings};
use unspool::coresight::trace_buffer::{BufferSettings, FillMode, TriggerMode};
use unspool::encode::{EncodeError, EncodeOptions, encode};
use unspool::model::{SinkError, StepSource, TimeUnit};
use unspool::number::many;
use unspool::{OpenSteps, OpenedSteps, open_steps};

use crate::args::{ImageArgs, number_u64};
use crate::diagnostic::diagnostic;
use crate::file::losses_verdict;
use crate::verdict::Verdict;

/// Make the capture that a trace unit would have made of a run: trace, registers, program image
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// ASTF or STF files, Tarmac logs or captures, of Arm instructions; each has cores of its own
    #[arg(value_name = "IN", required = true)]
    inputs: Vec<PathBuf>,

    /// The directory that the capture goes into: new or empty
    #[arg(short, long, value_name = "CAPTURE")]
    output: PathBuf,

    /// How the trace unit is programmed: lines NAME=VALUE with names of registers, and protocol, source_addresses, seed,
    /// q_seed and overflow_seed
    #[arg(long, value_name = "FILE")]
    unit: Option<PathBuf>,

    /// The architecture of the trace unit (ete, if not said)
    #[arg(long, value_name = "NAME", value_enum)]
    protocol: Option<Architecture>,

    /// A register of the trace unit; may be given several times
    #[arg(long = "register", value_name = "NAME=VALUE", value_parser = register)]
    registers: Vec<(String, u64)>,

    /// Leave out targets that a return stack knows (TRCCONFIGR.RS)
    #[arg(long)]
    return_stack: bool,

    /// Tell the time (TRCCONFIGR.TS)
    #[arg(long)]
    timestamps: bool,

    /// Count cycles (TRCCONFIGR.CCI)
    #[arg(long)]
    cycle_counts: bool,

    /// Tell context identifiers and virtual context identifiers (TRCCONFIGR.CID and VMID)
    #[arg(long)]
    context_ids: bool,

    /// Tell targets of all taken branches (TRCCONFIGR.BB)
    #[arg(long)]
    branch_broadcast: bool,

    /// Tell taken branches by their own address (ETE)
    #[arg(long)]
    source_addresses: bool,

    /// With TRCIDR8 other than zero: guess branches, from this seed
    #[arg(long, value_name = "SEED", value_parser = number_u64)]
    guess: Option<u64>,

    /// Say of some stretches only how many instructions they had: Q elements (TRCCONFIGR.QE, TRCIDR0.QSUPP), from this seed
    #[arg(long, value_name = "SEED", value_parser = number_u64)]
    q_elements: Option<u64>,

    /// Have no room for the trace now and then, from this seed: what the PE does then is lost, and an overflow says so
    #[arg(long, value_name = "SEED", value_parser = number_u64)]
    overflow: Option<u64>,

    /// Put the trace into frames, all cores into one buffer
    #[arg(long)]
    formatted: bool,

    /// Collect the trace in a buffer of N bytes (it has room for all, if not said)
    #[arg(long, value_name = "N", value_parser = number_u64, help_heading = "Trace buffer")]
    buffer_size: Option<u64>,

    /// What the buffer does when it is full
    #[arg(
        long,
        value_name = "MODE",
        value_enum,
        default_value = "fill",
        requires = "buffer_size",
        help_heading = "Trace buffer"
    )]
    buffer_mode: Mode,

    /// Count the interrupt that comes when N bytes were collected
    #[arg(long, value_name = "N", value_parser = number_u64, requires = "buffer_size", help_heading = "Trace buffer")]
    watermark: Option<u64>,

    /// The source, if IN is a capture: its trace id or its name
    #[arg(long, value_name = "ID")]
    source: Option<String>,

    #[command(flatten)]
    images: ImageArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool encode run.astf -o capture/
  unspool encode run.tarmac -o capture/ --protocol etm4 --return-stack --timestamps --formatted
  unspool encode run.astf -o capture/ --register TRCVICTLR=0x200201 --register TRCSYNCPR=10
  unspool encode run.astf -o capture/ --q-elements 1
  unspool encode run.astf run.1.astf run.2.astf -o capture/ --formatted

The capture is a snapshot directory, which other decoders read too. Where IN does not continue, the trace starts anew;
instructions behind the last branch before that are told by a debug halt, since trace has no other word for them.
Comparators of addresses and contexts, single-shot comparators and resource selectors are modelled, and what they do for
events, filters and timestamps. Counters, the sequencer, external inputs and data trace are not: such registers are refused,
or a line says what has no effect.";

/// What a trace buffer does when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mode {
    /// Stop
    Fill,
    /// Go on at its start, with an interrupt
    Wrap,
    /// Go on at its start
    Circular,
}

impl From<Mode> for FillMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Fill => Self::Fill,
            Mode::Wrap => Self::Wrap,
            Mode::Circular => Self::Circular,
        }
    }
}

/// An architecture of trace units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Architecture {
    /// ETE
    Ete,
    /// ETMv4
    Etm4,
}

impl From<Architecture> for Protocol {
    fn from(architecture: Architecture) -> Self {
        match architecture {
            Architecture::Ete => Self::Ete,
            Architecture::Etm4 => Self::Etm4,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let settings = settings(args)?;
    for (register, what) in settings.unmodeled() {
        diagnostic(format_args!("{register} asks for what the trace unit model does not do: {what}"));
    }
    let opened = open(args)?;
    let time_unit = opened.first().map_or(TimeUnit::Unknown, StepSource::time_unit);
    let options = EncodeOptions { settings, formatted: args.formatted, buffer: buffer(args)?, time_unit };
    let (encoded, untold) = encode(&args.output, opened, options).map_err(|error| match error {
        EncodeError::Source(error) => error.into(),
        EncodeError::Sink(error) => refused(error),
    })?;
    // Those that were lost have no bits.
    let traced = encoded.instructions.saturating_sub(encoded.overflowed.instructions);
    let bits = encoded.trace_bytes as f64 * 8.0 / traced.max(1) as f64;
    diagnostic(format_args!(
        "{} of {}, {} of trace ({bits:.3} bits an instruction), {}",
        many(encoded.instructions, "instruction"),
        many(encoded.cores as u64, "core"),
        many(encoded.trace_bytes, "byte"),
        many(encoded.breaks, "break"),
    ));
    if encoded.assumed_contexts > 0 {
        let contexts = many(encoded.assumed_contexts, "context");
        diagnostic(format_args!("{contexts} without Exception level or Security state: EL0 and Non-secure were taken"));
    }
    if encoded.assumed_identifiers > 0 {
        let contexts = many(encoded.assumed_identifiers, "context");
        diagnostic(format_args!("{contexts} without an identifier that is traced or compared: zero was taken"));
    }
    if encoded.overflowed.overflows > 0 {
        let OverflowLosses { overflows, instructions } = encoded.overflowed;
        diagnostic(format_args!("{} lost {}", many(overflows, "overflow"), many(instructions, "instruction")));
    }
    if encoded.lost_bytes > 0 || encoded.interrupts > 0 {
        let (lost, asked) = (many(encoded.lost_bytes, "byte"), many(encoded.interrupts, "interrupt"));
        diagnostic(format_args!("the buffer lost {lost} of trace; it asked for {asked}"));
    }
    let names: Vec<String> = args.inputs.iter().map(|input| input.display().to_string()).collect();
    Ok(losses_verdict(&names.join(", "), &untold))
}

fn open(args: &Args) -> anyhow::Result<Vec<OpenedSteps>> {
    let options = OpenSteps {
        source: args.source.clone(),
        codes: args.images.load()?,
        is_followed: true,
        ..OpenSteps::default()
    };
    args.inputs.iter().map(|input| Ok(open_steps(input, &options)?)).collect()
}

/// A watermark is a write pointer that starts so far from the end, or a trigger that counts from the start.
fn buffer(args: &Args) -> anyhow::Result<Option<BufferSettings>> {
    let Some(size) = args.buffer_size else { return Ok(None) };
    let fill = FillMode::from(args.buffer_mode);
    let usual = BufferSettings { size, fill, ..BufferSettings::default() };
    Ok(Some(match args.watermark {
        Some(watermark) if watermark == 0 || watermark > size => {
            bail!("a watermark of {watermark} bytes is not within the trace buffer")
        }
        Some(watermark) if fill == FillMode::Wrap => BufferSettings { pointer: size - watermark, ..usual },
        Some(watermark) => {
            BufferSettings { trigger: TriggerMode::Interrupt, after_trigger: watermark, is_triggered: true, ..usual }
        }
        None => usual,
    }))
}

fn refused(error: SinkError) -> anyhow::Error {
    match error {
        SinkError::Refused { position: Some(position), reason } => anyhow::anyhow!("at {position:#x}: {reason}"),
        other => other.into(),
    }
}

fn settings(args: &Args) -> anyhow::Result<Settings> {
    let lines = match &args.unit {
        Some(path) => unit_lines(path)?,
        None => Vec::new(),
    };
    let value = |key: &str| lines.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
    let said = match value("protocol").map(|name| name.to_ascii_lowercase()).as_deref() {
        Some("ete") | None => Protocol::Ete,
        Some("etm4") => Protocol::Etm4,
        Some(other) => bail!("protocol '{other}' is none of ete and etm4"),
    };
    let mut settings = Settings::new(args.protocol.map_or(said, Protocol::from));
    settings.source_addresses = args.source_addresses || value("source_addresses").is_some_and(|value| value != "0");
    let seed = |key: &str| value(key).map(|seed| number_u64(seed).map_err(anyhow::Error::msg)).transpose();
    settings.guess_seed = seed("seed")?.or(args.guess);
    settings.q_seed = seed("q_seed")?.or(args.q_elements);
    settings.overflow_seed = seed("overflow_seed")?.or(args.overflow);
    for (name, text) in lines.iter().filter(|(name, _)| !is_option(name)) {
        let number = number_u64(text).map_err(anyhow::Error::msg).with_context(|| format!("register {name}"))?;
        set(&mut settings, name, number)?;
    }
    let flags = [
        (args.return_stack, 1 << 12),
        (args.timestamps, 1 << 11),
        (args.cycle_counts, 1 << 4),
        (args.context_ids, 0b11 << 6),
        (args.branch_broadcast, 1 << 3),
        (args.q_elements.is_some(), 0b11 << 13),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |bits, (_, bit)| bits | bit);
    let configr = settings.get("TRCCONFIGR").unwrap_or(1) | flags;
    set(&mut settings, "TRCCONFIGR", configr)?;
    if args.q_elements.is_some() {
        let can = settings.get("TRCIDR0").unwrap_or(0) | 0b11 << 15;
        set(&mut settings, "TRCIDR0", can)?;
    }
    args.registers.iter().try_for_each(|(name, value)| set(&mut settings, name, *value))?;
    Ok(settings)
}

fn is_option(name: &str) -> bool {
    ["protocol", "source_addresses", "seed", "q_seed", "overflow_seed"]
        .iter()
        .any(|option| name.eq_ignore_ascii_case(option))
}

fn set(settings: &mut Settings, name: &str, value: u64) -> anyhow::Result<()> {
    // What is zero does nothing, whether the model knows it or not.
    let does_nothing = value == 0 && explain(name, value, settings.protocol).is_some();
    if !settings.set(name, value) && !does_nothing {
        bail!("the trace unit model has no register '{name}'");
    }
    Ok(())
}

/// Lines NAME=VALUE; sections and comments are passed over.
fn unit_lines(path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['[', ';', '#']));
    lines
        .map(|line| {
            let (name, value) = line.split_once('=').with_context(|| format!("'{line}' is not NAME=VALUE"))?;
            Ok((name.trim().to_string(), value.trim().to_string()))
        })
        .collect()
}

fn register(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    Ok((name.trim().to_string(), number_u64(value.trim())?))
}
