//! `encode --protocol itm` and `stm`: the trace of a list of writes.
//!
//! list of writes ─▶ stream ─▶ FILE.bin, CAPTURE/ or CAPTURE.zip

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use unspool::capture::Capture;
use unspool::coresight::Protocol;
use unspool::encode::software::{ListedWrite, SoftwareUnit, parse_writes};
use unspool::number::many;
use unspool::pack::{PackOptions, pack};

use super::Args;
use crate::diagnostic;
use crate::verdict::Verdict;

/// Encodes the writes of a list.
pub(super) fn run(args: &Args, protocol: Protocol) -> anyhow::Result<Verdict> {
    reject_unused_options(args)?;
    let [input] = &args.inputs[..] else { bail!("software trace is encoded from one list of writes") };
    let name = input.display();
    let text = fs::read_to_string(input).with_context(|| name.to_string())?;
    let writes = parse_writes(&text).with_context(|| name.to_string())?;
    let unit = unit(args, protocol)?;
    let stream = unit.encode(writes.iter().map(|listed| &listed.write)).map_err(|error| {
        let line = writes.get(error.index).map_or(0, |listed| listed.line);
        anyhow::anyhow!("{name}: line {line}: {}", error.reason)
    })?;
    write(args, &unit, &stream)?;
    report(args, &writes, stream.len());
    Ok(Verdict::Clean)
}

fn unit(args: &Args, protocol: Protocol) -> anyhow::Result<SoftwareUnit> {
    let Some(mut unit) = SoftwareUnit::new(protocol) else { bail!("{protocol} has no software trace") };
    unit.global_timestamps = args.timestamps;
    for register in &args.registers {
        if !unit.set(&register.name, register.value) {
            bail!("the model of the unit has no register '{}'", register.name);
        }
    }
    if !(1..0x70).contains(&unit.id) {
        bail!("trace id {:#x} is reserved", unit.id);
    }
    Ok(unit)
}

/// A name with an extension other than .zip is that of a bare file.
fn write(args: &Args, unit: &SoftwareUnit, stream: &[u8]) -> anyhow::Result<()> {
    let (path, name) = (&args.output, args.output.display());
    let extension = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
    match extension.as_deref().and_then(|extension| extension.to_str()) {
        _ if path.is_dir() => Ok(unit.save(path, stream, args.formatted, args.force)?),
        None => Ok(unit.save(path, stream, args.formatted, args.force)?),
        Some("zip") => write_zip(args, unit, stream),
        Some(_) if path.exists() && !args.force => bail!("{name}: the file exists; use --force to replace it"),
        Some(_) => {
            let bytes = if args.formatted { &unit.framed(stream)[..] } else { stream };
            fs::write(path, bytes).with_context(|| name.to_string())
        }
    }
}

fn write_zip(args: &Args, unit: &SoftwareUnit, stream: &[u8]) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
    let directory = folder.path().join("capture");
    unit.save(&directory, stream, args.formatted, false)?;
    let capture = Capture::open(&directory)?;
    let options = PackOptions { replace: args.force, ..PackOptions::default() };
    pack(&capture, Path::new(&args.output), &options, &mut |_, _| {})?;
    Ok(())
}

fn report(args: &Args, writes: &[ListedWrite], bytes: usize) {
    let (count, bytes) = (many(writes.len() as u64, "write"), many(bytes as u64, "byte"));
    diagnostic::note(format_args!("wrote {}: {count} in {bytes} of trace", args.output.display()));
    if args.timestamps && writes.iter().all(|listed| listed.write.time.is_none()) {
        diagnostic::warning("--timestamps has no effect: the writes have no times");
    }
}

/// Rejects options that only units of instruction trace have.
fn reject_unused_options(args: &Args) -> anyhow::Result<()> {
    let options = [
        (args.unit.is_some(), "--unit"),
        (args.return_stack, "--return-stack"),
        (args.cycle_counts, "--cycle-counts"),
        (args.context_ids, "--context-ids"),
        (args.branch_broadcast, "--branch-broadcast"),
        (args.source_addresses, "--source-addresses"),
        (args.guess.is_some(), "--guess"),
        (args.q_elements.is_some(), "--q-elements"),
        (args.overflow.is_some(), "--overflow"),
        (args.events.is_some(), "--events"),
        (args.buffer_size.is_some(), "--buffer-size"),
        (args.source.is_some(), "--source"),
        (!args.images.paths().is_empty(), "--image"),
    ];
    match options.iter().find(|(is_given, _)| *is_given) {
        Some((_, name)) => bail!("{name} has no effect on software trace"),
        None => Ok(()),
    }
}
