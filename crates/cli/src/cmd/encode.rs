//! `encode`: generates the capture that a trace unit would produce for a run.
//!
//! in ─▶ steps ─▶ trace units ─▶ CAPTURE/

mod software;

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::capture::Register;
use unspool::coresight::Protocol;
use unspool::coresight::etm4::explain;
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::trace_buffer::{BufferSettings, FillMode, TriggerMode};
use unspool::coresight::unit::OverflowLosses;
use unspool::encode::{EncodeError, EncodeOptions, UnitSettings, encode};
use unspool::model::{SinkError, StepSource, TimeUnit};
use unspool::number::many;
use unspool::{Meter, OpenSteps, OpenedSteps, open_steps};

use crate::args::{Choice, ImageArgs, one_of, parse_number, parse_register};
use crate::diagnostic;
use crate::file::losses_verdict;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Generate the capture that a trace unit would produce for a run: trace, registers, program image
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// ASTF files, STF files, Tarmac logs or captures of Arm instructions; each has its own cores. With --protocol itm or
    /// stm: a list of writes (docs/writes.md)
    #[arg(value_name = "IN", required = true)]
    inputs: Vec<PathBuf>,

    /// Directory of the capture: a new or empty one, unless --force is given. With --protocol itm or stm, also a .zip, or a
    /// file with another extension for the trace alone
    #[arg(short, long, value_name = "CAPTURE")]
    output: PathBuf,

    /// Replace a capture in the directory that 'encode' wrote; nothing else is replaced
    #[arg(long)]
    force: bool,

    /// Settings of the trace unit: lines NAME=VALUE for registers, protocol, source_addresses, seed, q_seed, overflow_seed
    /// and late_seed
    #[arg(long, value_name = "FILE")]
    unit: Option<PathBuf>,

    /// Architecture of the trace unit [default: ete]
    #[arg(long, value_name = "NAME", value_parser = one_of(PROTOCOLS))]
    protocol: Option<Protocol>,

    /// Register of the trace unit. Can be repeated
    #[arg(long = "register", value_name = "NAME=VALUE", value_parser = parse_register)]
    registers: Vec<Register>,

    /// Omit targets that a return stack predicts (TRCCONFIGR.RS; not ETMv3)
    #[arg(long)]
    return_stack: bool,

    /// Trace timestamps (TRCCONFIGR.TS; ITM_TCR.GTSFREQ of an ITM, which otherwise has local ones)
    #[arg(long)]
    timestamps: bool,

    /// Trace cycle counts (TRCCONFIGR.CCI)
    #[arg(long)]
    cycle_counts: bool,

    /// Trace context identifiers and virtual context identifiers (TRCCONFIGR.CID and VMID)
    #[arg(long)]
    context_ids: bool,

    /// Trace targets of all taken branches (TRCCONFIGR.BB)
    #[arg(long)]
    branch_broadcast: bool,

    /// Trace addresses and values of loads and stores, if the input has them (ETMv3)
    #[arg(long)]
    data: bool,

    /// Trace taken branches by their own address (ETE)
    #[arg(long)]
    source_addresses: bool,

    /// With nonzero TRCIDR8: speculate on branches, with this random seed
    #[arg(long, value_name = "SEED", value_parser = parse_number)]
    guess: Option<u64>,

    /// Replace some instructions by Q elements, which only count them (TRCCONFIGR.QE, TRCIDR0.QSUPP), with this random seed
    #[arg(long, value_name = "SEED", value_parser = parse_number)]
    q_elements: Option<u64>,

    /// Overflow at random points, from this seed: instructions are lost, and an overflow packet marks the position
    #[arg(long, value_name = "SEED", value_parser = parse_number)]
    overflow: Option<u64>,

    /// System event log with the code of all processes, as 'record --system --events' writes it. It becomes part of the capture,
    /// in place of a program image; context identifiers are those of threads [default: made from the input, where it has
    /// different code at the same address]
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,

    /// Write formatter frames, with all cores in one buffer
    #[arg(long)]
    formatted: bool,

    /// Size of the trace buffer in bytes [default: unlimited]
    #[arg(long, value_name = "N", value_parser = parse_number, help_heading = "Trace buffer")]
    buffer_size: Option<u64>,

    /// Behavior of the buffer when it is full
    #[arg(
        long,
        value_name = "MODE",
        value_parser = one_of(FILL_MODES),
        default_value = "fill",
        requires = "buffer_size",
        help_heading = "Trace buffer"
    )]
    buffer_mode: FillMode,

    /// Raise an interrupt after N bytes, and report how many were raised
    #[arg(long, value_name = "N", value_parser = parse_number, requires = "buffer_size", help_heading = "Trace buffer")]
    watermark: Option<u64>,

    /// Effect of a trigger, which is event 0 of the trace unit (TRCEVENTCTL0R, TRCRSCTLR; of an ETMv4 with TRCEVENTCTL1R.ATB)
    #[arg(
        long,
        value_name = "MODE",
        value_parser = one_of(TRIGGER_MODES),
        default_value = "ignore",
        requires = "buffer_size",
        help_heading = "Trace buffer"
    )]
    buffer_trigger: TriggerMode,

    /// Bytes that are collected between the trigger and its effect (TRBTRG_EL1)
    #[arg(
        long,
        value_name = "N",
        value_parser = parse_number,
        default_value = "0",
        requires = "buffer_trigger",
        help_heading = "Trace buffer"
    )]
    after_trigger: u64,

    /// Source of a capture: its trace id or its name
    #[arg(long, value_name = "ID|NAME")]
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
  unspool encode run.astf -o capture/ --buffer-size 65536 --buffer-trigger stop
  unspool encode run.astf run.1.astf run.2.astf -o capture/ --formatted
  unspool encode linux.tarmac -o capture/ --events linux.events --context-ids --timestamps
  unspool encode run.tarmac -o capture/ --protocol ptm --return-stack --register ETMSYNCFR=256
  unspool encode run.tarmac -o capture/ --protocol etm3 --data --cycle-counts
  unspool encode writes.txt -o stm/ --protocol stm --formatted
  unspool encode writes.jsonl -o swo.bin --protocol itm

The capture is a snapshot directory that other decoders can read. Where IN has a gap, the trace restarts. \
Instruction trace can end only at a branch or an exception, so the instructions between the last branch and the gap are closed \
by a debug halt exception, which a decoder will show.
Comparators, counters, the sequencer and resource selectors are modeled, with their effects on events, filters and timestamps; \
counters count instructions. External inputs of an ETE are modeled for these PMU events: 0x8, 0x9, 0xa, 0xc, 0x11, 0x21, 0x400c \
(the buffer wrapped) and 0x400e (its trigger). With TRFCR_EL1 and TRFCR_EL2, nothing is traced at levels that they prohibit. Registers that are \
not modeled are rejected, or a message reports that a setting has no effect.";

/// The protocols that can be encoded.
const PROTOCOLS: &[Choice<Protocol>] = &[
    ("ete", "ETE", Protocol::Ete),
    ("etm4", "ETMv4", Protocol::Etm4),
    ("ptm", "PTM, for A32 and T32", Protocol::Ptm),
    ("etm3", "ETMv3, for A32 and T32", Protocol::Etm3),
    ("itm", "ITM, from a list of writes", Protocol::Itm),
    ("stm", "STM, from a list of writes", Protocol::Stm),
];

pub(super) const FILL_MODES: &[Choice<FillMode>] = &[
    ("fill", "Stop", FillMode::Fill),
    ("wrap", "Continue at the start, and raise an interrupt", FillMode::Wrap),
    ("circular", "Continue at the start", FillMode::Circular),
];

const TRIGGER_MODES: &[Choice<TriggerMode>] = &[
    ("ignore", "None", TriggerMode::Ignore),
    ("interrupt", "Raise an interrupt", TriggerMode::Interrupt),
    ("stop", "Stop, and raise an interrupt", TriggerMode::Stop),
];

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if let Some(protocol @ (Protocol::Itm | Protocol::Stm)) = args.protocol {
        return software::run(args, protocol);
    }
    let settings = settings(args)?;
    for (register, what) in settings.unmodeled() {
        diagnostic::warning(format_args!("{register}: not supported by the trace unit model: {what}"));
    }
    check_output(args)?;
    let (opened, meter) = open(args)?;
    let time_unit = opened.first().map_or(TimeUnit::Unknown, StepSource::time_unit);
    let (formatted, buffer, replace) = (args.formatted, buffer(args)?, args.force);
    let options = EncodeOptions { settings, formatted, buffer, time_unit, replace, events: args.events.clone() };
    let progress = Progress::follow(&meter);
    let result = encode(&args.output, opened, options);
    drop(progress);
    let (encoded, losses) = result.map_err(|error| match error {
        EncodeError::Source(error) => error.into(),
        EncodeError::Sink(error) => refused(error),
    })?;
    // Lost instructions take no bits.
    let traced = encoded.instructions.saturating_sub(encoded.overflowed.instructions);
    let bits = encoded.trace_bytes as f64 * 8.0 / traced.max(1) as f64;
    diagnostic::note(format_args!(
        "wrote {}: {} of {}, {} of trace ({bits:.3} bits per instruction), {}",
        args.output.display(),
        many(encoded.instructions, "instruction"),
        many(encoded.cores as u64, "core"),
        many(encoded.trace_bytes, "byte"),
        many(encoded.breaks, "break"),
    ));
    if args.timestamps && !encoded.has_times {
        diagnostic::warning("--timestamps has no effect: the input has no times");
    }
    if encoded.assumed_contexts > 0 {
        let contexts = many(encoded.assumed_contexts, "context");
        diagnostic::warning(format_args!(
            "{contexts} without Exception level or Security state: assumed EL0 and Non-secure"
        ));
    }
    if encoded.assumed_identifiers > 0 {
        let contexts = many(encoded.assumed_identifiers, "context");
        diagnostic::warning(format_args!("{contexts} without an identifier that is traced or compared: assumed zero"));
    }
    if encoded.unknown_values > 0 {
        let written = many(encoded.unknown_values, "TRCIT instruction");
        diagnostic::warning(format_args!("{written} left out of the trace: the values of their registers are unknown"));
    }
    if encoded.overflowed.overflows > 0 {
        let OverflowLosses { overflows, instructions } = encoded.overflowed;
        diagnostic::warning(format_args!("{} lost {}", many(overflows, "overflow"), many(instructions, "instruction")));
    }
    if encoded.trigger_stops > 0 {
        diagnostic::note(format_args!("a trigger stopped {}", many(encoded.trigger_stops, "buffer")));
    }
    if encoded.lost_bytes > 0 || encoded.interrupts > 0 {
        let (lost, interrupts) = (many(encoded.lost_bytes, "byte"), many(encoded.interrupts, "interrupt"));
        diagnostic::warning(format_args!("the buffer lost {lost} of trace and raised {interrupts}"));
    }
    let names: Vec<String> = args.inputs.iter().map(|input| input.display().to_string()).collect();
    Ok(losses_verdict(&names.join(", "), &losses))
}

/// Rejects a directory with a capture, unless it may be replaced, and one that an input is in.
fn check_output(args: &Args) -> anyhow::Result<()> {
    let directory = args.output.display();
    let Ok(output) = args.output.canonicalize() else { return Ok(()) };
    let mut inputs = args.inputs.iter().map(PathBuf::as_path).chain(args.images.paths());
    if inputs.any(|input| input.canonicalize().is_ok_and(|input| input.starts_with(&output))) {
        bail!("{directory}: an input is read from this directory; write to another one");
    }
    if !args.force && output.join("snapshot.ini").exists() {
        bail!("{directory}: the directory has a capture; use --force to replace one that 'encode' wrote");
    }
    Ok(())
}

/// Steps of all inputs, and the meter of what is read.
fn open(args: &Args) -> anyhow::Result<(Vec<OpenedSteps>, Meter)> {
    let options = OpenSteps {
        source: args.source.clone(),
        codes: args.images.load()?,
        is_followed: true,
        ..OpenSteps::default()
    };
    let opened = args.inputs.iter().map(|input| Ok(open_steps(input, &options)?)).collect::<anyhow::Result<_>>()?;
    let sizes = args.inputs.iter().map(|input| input.metadata().ok().filter(Metadata::is_file));
    // Without the size of a capture, the total is unknown.
    let size = sizes.map(|file| file.map(|file| file.len())).sum();
    Ok((opened, Meter { read: options.bytes_read, size }))
}

/// A watermark is a write pointer that starts that far from the end, or a trigger that counts from the start.
fn buffer(args: &Args) -> anyhow::Result<Option<BufferSettings>> {
    let Some(size) = args.buffer_size else { return Ok(None) };
    let fill = args.buffer_mode;
    let (trigger, after_trigger) = (args.buffer_trigger, args.after_trigger);
    let settings = BufferSettings { size, fill, trigger, after_trigger, ..BufferSettings::default() };
    if args.watermark.is_some() && fill != FillMode::Wrap && trigger != TriggerMode::Ignore {
        bail!("--watermark is a trigger itself unless --buffer-mode is wrap: it excludes --buffer-trigger");
    }
    Ok(Some(match args.watermark {
        Some(watermark) if watermark == 0 || watermark > size => {
            bail!("--watermark {watermark} is not within the trace buffer")
        }
        Some(watermark) if fill == FillMode::Wrap => BufferSettings { pointer: size - watermark, ..settings },
        Some(watermark) => {
            BufferSettings { trigger: TriggerMode::Interrupt, after_trigger: watermark, is_triggered: true, ..settings }
        }
        None => settings,
    }))
}

fn refused(error: SinkError) -> anyhow::Error {
    match error {
        SinkError::Refused { position: Some(position), reason } => anyhow::anyhow!("at {position:#x}: {reason}"),
        other => other.into(),
    }
}

fn settings(args: &Args) -> anyhow::Result<UnitSettings> {
    let lines = match &args.unit {
        Some(path) => unit_lines(path)?,
        None => Vec::new(),
    };
    let named = last(&lines, "protocol").map(|name| name.to_ascii_lowercase());
    let named = named.map(|name| {
        let known = PROTOCOLS.iter().find(|(known, ..)| *known == name);
        known.map(|(.., protocol)| *protocol).with_context(|| format!("unknown protocol '{name}': use {}", names()))
    });
    let protocol = args.protocol.or(named.transpose()?).unwrap_or(Protocol::Ete);
    let mut settings = UnitSettings::new(protocol).with_context(|| format!("no trace unit model for {protocol}"))?;
    let seed = |key: &str| last(&lines, key).map(|seed| parse_number(seed).map_err(anyhow::Error::msg)).transpose();
    settings.set_overflow_seed(seed("overflow_seed")?.or(args.overflow));
    match &mut settings {
        UnitSettings::Etm4(settings) => {
            let by_source = last(&lines, "source_addresses").is_some_and(|value| value != "0");
            settings.source_addresses = args.source_addresses || by_source;
            settings.guess_seed = seed("seed")?.or(args.guess);
            settings.q_seed = seed("q_seed")?.or(args.q_elements);
        }
        UnitSettings::Etm3(settings) => settings.late_seed = seed("late_seed")?,
        UnitSettings::Ptm(_) => {}
    }
    for (name, text) in lines.iter().filter(|(name, _)| !is_option(name)) {
        let number = parse_number(text).map_err(anyhow::Error::msg).with_context(|| format!("register {name}"))?;
        set(&mut settings, name, number)?;
    }
    refuse_foreign(args, protocol)?;
    match &mut settings {
        UnitSettings::Etm4(settings) => apply_to_etm4(args, settings),
        settings => apply_to_armv7(args, settings),
    }
    args.registers.iter().try_for_each(|register| set(&mut settings, &register.name, register.value))?;
    Ok(settings)
}

/// The names of all protocols, for a message.
fn names() -> String {
    let names: Vec<&str> = PROTOCOLS.iter().map(|(name, ..)| *name).collect();
    names.join(", ")
}

/// The last value of a key.
fn last<'l>(lines: &'l [(String, String)], key: &str) -> Option<&'l String> {
    lines.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
}

/// Rejects options that the protocol does not have.
fn refuse_foreign(args: &Args, protocol: Protocol) -> anyhow::Result<()> {
    let is_etm4 = matches!(protocol, Protocol::Ete | Protocol::Etm4);
    let options = [
        ("--return-stack", args.return_stack, protocol != Protocol::Etm3),
        ("--data", args.data, protocol == Protocol::Etm3),
        ("--source-addresses", args.source_addresses, is_etm4),
        ("--guess", args.guess.is_some(), is_etm4),
        ("--q-elements", args.q_elements.is_some(), is_etm4),
    ];
    match options.iter().find(|(_, is_given, exists)| *is_given && !exists) {
        Some((name, ..)) => bail!("{protocol} has no {name}"),
        None => Ok(()),
    }
}

/// Sets the bits of TRCCONFIGR that options ask for.
fn apply_to_etm4(args: &Args, settings: &mut Settings) {
    let flags = [
        (args.return_stack, 1 << 12),
        (args.timestamps, 1 << 11),
        (args.cycle_counts, 1 << 4),
        (args.context_ids, 0b11 << 6),
        (args.branch_broadcast, 1 << 3),
        (args.q_elements.is_some(), 0b11 << 13),
    ];
    let configr = settings.get("TRCCONFIGR").unwrap_or(1) | bits(&flags);
    settings.set("TRCCONFIGR", configr);
    if args.q_elements.is_some() {
        let capabilities = settings.get("TRCIDR0").unwrap_or(0) | 0b11 << 15;
        settings.set("TRCIDR0", capabilities);
    }
}

/// Sets the bits of ETMCR that options ask for.
fn apply_to_armv7(args: &Args, settings: &mut UnitSettings) {
    let flags = [
        (args.return_stack, 1 << 29),
        (args.timestamps, 1 << 28),
        (args.cycle_counts, 1 << 12),
        (args.context_ids, 1 << 30 | 0b11 << 14),
        (args.branch_broadcast, 1 << 8),
        (args.data, 0b11 << 2),
    ];
    let control = settings.get("ETMCR").unwrap_or(0) | bits(&flags);
    settings.set("ETMCR", control);
}

fn bits(flags: &[(bool, u64)]) -> u64 {
    flags.iter().filter(|(is_set, _)| *is_set).fold(0, |bits, (_, bit)| bits | bit)
}

fn is_option(name: &str) -> bool {
    ["protocol", "source_addresses", "seed", "q_seed", "overflow_seed", "late_seed"]
        .iter()
        .any(|option| name.eq_ignore_ascii_case(option))
}

fn set(settings: &mut UnitSettings, name: &str, value: u64) -> anyhow::Result<()> {
    // Zero has no effect, even in registers that are not modeled.
    let has_no_effect = value == 0 && explain(name, value, settings.protocol()).is_some();
    if !settings.set(name, value) && !has_no_effect {
        bail!("the trace unit model has no register '{name}'");
    }
    Ok(())
}

/// Lines NAME=VALUE; sections and comments are skipped.
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
