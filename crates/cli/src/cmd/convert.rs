//! `convert`: writes the same records in another container, or the same steps in another format.
//!
//! IN ─▶ records, or steps ─▶ a temporary file beside OUT ─▶ OUT
//!
//! OUT appears when it is complete, or not at all.

mod args;
mod losses;
mod native;
mod reject_unused_options;
mod steps;

use anyhow::bail;
use unspool::FileKind;
use unspool::convert::Format;
use unspool::file::{TraceFile, is_capture};

pub(crate) use self::args::Args;
use self::losses::print_summary;
use self::native::{convert_astf, convert_stf, convert_tarmac};
use self::reject_unused_options::reject_unused_options;
use self::steps::Source;
use crate::file::open;
use crate::output::is_same;
use crate::verdict::Verdict;

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let verdict = convert(args)?;
    if args.json {
        print_summary(verdict);
    }
    Ok(verdict)
}

fn convert(args: &Args) -> anyhow::Result<Verdict> {
    args.check_format()?;
    let inputs = [Some(&args.input), args.accesses.as_ref()];
    if let Some(same) = inputs.into_iter().flatten().find(|input| is_same(input, args.output())) {
        bail!("{}: the trace is read from this file; write to another one", same.display());
    }
    args.force.check(args.output())?;
    let (tarmac, threads) = (args.tarmac(), args.jobs.threads());
    let file = match args.from {
        Some(FileKind::Capture) | None if args.bare.is_given() => return convert_capture(args),
        Some(_) if args.bare.is_given() => bail!("--protocol: IN is a bare buffer, and --from names another format"),
        Some(FileKind::Capture) => return convert_capture(args),
        Some(kind) => TraceFile::open_as(kind, &args.input, &tarmac.options(threads))?,
        None if !tarmac.is_given() && is_capture(&args.input) => return convert_capture(args),
        None => open(&args.input, threads, &tarmac)?,
    };
    let from = match &file {
        TraceFile::Astf(_) => Format::Astf,
        TraceFile::Stf(_) => Format::Stf,
        TraceFile::Tarmac(_) => Format::Tarmac,
    };
    let to = args.format(Some(from))?;
    reject_unused_options(args, Some(from), to)?;
    match file {
        file if !args.is_native(Some(from), to) => {
            let (source, steps) = Source::file(args, file)?;
            source.convert(args, steps, to)
        }
        TraceFile::Astf(file) => convert_astf(args, file),
        TraceFile::Stf(file) => convert_stf(args, file),
        TraceFile::Tarmac(file) => convert_tarmac(args, file),
    }
}

fn convert_capture(args: &Args) -> anyhow::Result<Verdict> {
    let to = args.format(None)?;
    reject_unused_options(args, None, to)?;
    let (source, steps) = Source::capture(args)?;
    source.convert(args, steps, to)
}
