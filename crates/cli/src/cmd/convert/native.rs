//! Conversions within a format: the same records in another container, another version of STF, another Tarmac style.

use anyhow::{Context, bail};
use unspool::convert::native::{
    NativeError, NativeOutput, restyle_tarmac, rewrite_stf, store_astf, store_stf, store_tarmac,
};
use unspool::convert::report::LossReport;
use unspool::file::{AstfFile, End, StfFile, TarmacFile};
use unspool::stf::Storage;
use unspool::stf::version::Rewriter;
use unspool::tarmac::restyle::Restyler;

use super::args::Args;
use super::losses::{print_denial, print_losses, print_rejection, print_written};
use crate::file::{end_verdict, report_astf, report_lines, stf_verdict, tarmac_verdict};
use crate::progress::Progress;
use crate::verdict::Verdict;

pub(super) fn convert_astf(args: &Args, mut file: AstfFile) -> anyhow::Result<Verdict> {
    let storage = args.astf_storage()?;
    report_astf(&file);
    let options = args.astf_options()?;
    let end = store_astf(&mut file, storage, options, args.native(), &mut Progress::new(false).callback())?;
    print_kept(args, &end);
    Ok(end_verdict(&end))
}

pub(super) fn convert_stf(args: &Args, mut file: StfFile) -> anyhow::Result<Verdict> {
    let storage = args.stf_storage();
    let storage =
        storage.with_context(|| args.no_default("the storage of records", "stf, zstf, stf.gz, stf.xz or stf.zst"))?;
    if let Storage::Stream(container) = storage {
        args.check_level(container)?;
    }
    let mut progress = Progress::new(false);
    let Some(version) = args.stf_version else {
        let read = args.tarmac().options(args.jobs.threads());
        let is_rewritten = args.compression.is_some() || args.chunk.is_some();
        let write = (args.stf_options(), is_rewritten);
        let input = (args.input.as_path(), &read);
        let end = store_stf(&mut file, input, storage, write, args.native(), &mut progress.callback())?;
        print_kept(args, &end);
        return Ok(stf_verdict(&mut file, &end));
    };
    let rewriter = Rewriter::new(version);
    let rewritten =
        rewrite_stf(&mut file, rewriter, storage, args.stf_options(), args.native(), &mut progress.callback());
    match rewritten {
        Ok((report, end)) => {
            let name = file.name().to_string();
            report_native(args, &name, &report, &end, || stf_verdict(&mut file, &end))
        }
        Err(error @ NativeError::NoTransactions(_)) => bail!("{}: {error}", file.name()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn convert_tarmac(args: &Args, mut file: TarmacFile) -> anyhow::Result<Verdict> {
    let container = args.log_container();
    args.check_level(container)?;
    let (from, mut progress) = (file.dialect(), Progress::new(false));
    let Some(to) = args.to_dialect.filter(|to| !Restyler::is_copy(from, *to)) else {
        let end = store_tarmac(&mut file, container, args.log_options(), args.native(), &mut progress.callback())?;
        print_kept(args, &end);
        return Ok(end_verdict(&end));
    };
    let restyler = Restyler::new(from, to).with_big_endian(args.big_endian).with_continuations(args.continuations);
    let write = (container, args.log_options());
    let output = NativeOutput { rejects_corrections: args.strict, ..args.native() };
    let (report, end) = restyle_tarmac(&mut file, restyler, to, write, output, &mut progress.callback())?;
    report_lines(&mut file);
    let name = file.name().to_string();
    if let Some(corrections) = report.corrections().filter(|_| args.strict) {
        print_rejection(args, &name, &corrections);
        return Ok(Verdict::Problems);
    }
    report_native(args, &name, &report, &end, || tarmac_verdict(&mut file, &end))
}

fn report_native(
    args: &Args,
    name: &str,
    report: &LossReport,
    end: &End,
    verdict: impl FnOnce() -> Verdict,
) -> anyhow::Result<Verdict> {
    let output = args.native();
    if output.is_denied(report) {
        print_denial(args, name, report);
        return Ok(Verdict::Problems);
    }
    if output.is_kept(end) {
        print_losses(args, name, report);
    }
    print_kept(args, end);
    Ok(verdict())
}

/// Prints what was written, if it is kept. Records are not counted.
fn print_kept(args: &Args, end: &End) {
    if args.native().is_kept(end) {
        print_written(args, args.output(), None);
    }
}
