//! Converting STF: between containers as bytes, between versions record by record.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use unspool::stf::Storage;
use unspool::stf::version::Rewriter;
use unspool::stf::write::{WriteOptions, Writer};

use super::report::Report;
use super::{Args, To};
use crate::Verdict;
use crate::astf::{End, is_standard};
use crate::progress::Progress;
use crate::stf::{Stf, verdict};
use crate::target::{Target, is_stream};

/// Converts an STF file.
pub(super) fn run(args: &Args, file: Stf) -> anyhow::Result<Verdict> {
    let Some(storage) = args.to.map_or_else(|| Storage::from_path(&args.output), To::stf) else {
        let name = args.output.display();
        bail!("{name}: the name does not tell how records are stored; say --to stf, zstf, stf.gz, stf.xz or stf.zst");
    };
    if let Some(level) = args.level.filter(|level| *level > 9 && matches!(storage, Storage::GZIP | Storage::XZ)) {
        bail!("--level {level}: gzip and xz have levels from 0 to 9");
    }
    match args.stf_version {
        Some(version) => rewrite(args, file, storage, Rewriter::new(version.into())),
        None => store(args, file, storage),
    }
}

/// The same records, stored in another way.
fn store(args: &Args, mut file: Stf, storage: Storage) -> anyhow::Result<Verdict> {
    let is_as_it_was = args.level.is_none() && args.chunk.is_none() && file.storage() == storage;
    if is_as_it_was && !is_standard(&args.input) && args.input.is_file() {
        // What is damaged is not copied, and what is odd is mended by writing it anew.
        let end = file.each_run(&mut Progress::new(false), |_| true)?;
        if end != End::Whole {
            return Ok(verdict(&mut file, &end));
        }
        if file.warnings().is_empty() {
            return copy(&args.input, &args.output);
        }
        let threads = args.jobs.map(usize::from);
        match Stf::open(&args.input, threads)? {
            Some(again) => file = again,
            None => return Ok(Verdict::Problems),
        }
    }
    let mut writer = open_writer(&args.output, storage, options(args))?;
    let mut failed = None;
    let end = file.each_run(&mut Progress::new(false), |bytes| {
        failed = writer.write(bytes).err();
        failed.is_none()
    })?;
    close(args, writer, failed, &end)?;
    Ok(verdict(&mut file, &end))
}

fn copy(input: &Path, output: &Path) -> anyhow::Result<Verdict> {
    let mut from = File::open(input).with_context(|| input.display().to_string())?;
    let mut target = Target::open(output)?;
    let cannot = || format!("cannot write {}", output.display());
    io::copy(&mut from, &mut target).with_context(cannot)?;
    io::Write::flush(&mut target).and_then(|()| target.keep()).with_context(cannot)?;
    Ok(Verdict::Clean)
}

/// Other records that say the same, as far as that can be.
fn rewrite(args: &Args, mut file: Stf, storage: Storage, mut rewriter: Rewriter) -> anyhow::Result<Verdict> {
    let mut writer = open_writer(&args.output, storage, options(args))?;
    let (mut failed, mut bytes) = (None, Vec::new());
    // What goes through a pipe cannot be taken back: the first loss is one too many.
    let stops = args.deny_loss && is_stream(&args.output);
    let end = file.each(&mut Progress::new(false), |_, record| {
        rewriter.record(record, &mut bytes);
        if stops && rewriter.losses().next().is_some() {
            return false;
        }
        // Many at a time: a record alone is not worth the way.
        if bytes.len() >= 1 << 16 {
            failed = writer.write(&bytes).err();
            bytes.clear();
        }
        failed.is_none() && !rewriter.is_impossible()
    })?;
    let minor = rewriter.version().minor();
    if rewriter.is_impossible() {
        bail!("{}: version 1.{minor} has no transactions", file.name());
    }
    let name = file.name().to_string();
    let mut report = Report::new(args, (&name, "record"), format!("version 1.{minor}"));
    rewriter.losses().for_each(|(what, count)| report.add(what, false, count, None));
    if report.is_denied() {
        report.deny();
        return Ok(Verdict::Problems);
    }
    if failed.is_none() {
        failed = writer.write(&bytes).err();
    }
    close(args, writer, failed, &end)?;
    if args.is_kept(&end) {
        report.tell();
    }
    Ok(verdict(&mut file, &end))
}

pub(super) fn options(args: &Args) -> WriteOptions {
    let usual = WriteOptions::default();
    WriteOptions {
        threads: args.jobs.map_or(usual.threads, usize::from),
        level: args.level,
        chunk_markers: args.chunk.unwrap_or(usual.chunk_markers),
    }
}

/// Opens a writer of STF.
pub(in super::super) fn open_writer(
    path: &Path,
    storage: Storage,
    options: WriteOptions,
) -> anyhow::Result<Writer<Target>> {
    let target = Target::open(path)?;
    let writer = if target.is_stream() {
        Writer::new(target, storage, options)
    } else {
        Writer::seekable(target, storage, options)
    };
    writer.with_context(|| format!("cannot write {}", path.display()))
}

/// Keeps what was written, if it is everything.
fn close(args: &Args, writer: Writer<Target>, failed: Option<io::Error>, end: &End) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", args.output.display());
    match failed {
        Some(error) => Err(error).with_context(cannot),
        None if args.is_kept(end) => writer.finish().and_then(Target::keep).with_context(cannot),
        None => Ok(()),
    }
}
