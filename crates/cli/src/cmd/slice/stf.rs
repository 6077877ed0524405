//! Cutting an STF file.

use std::io;

use anyhow::{Context, bail};
use unspool::model::selection::PieceSink;
use unspool::stf::Storage;
use unspool::stf::builder::RecordSink;
use unspool::stf::slice::{SliceError, SliceOptions, Sliced, slice, slice_by};
use unspool::stf::write::WriteOptions;

use super::super::convert::open_writer;
use super::super::{grouped, many};
use super::output::Files;
use super::select::Wanted;
use super::{Args, keep_damaged, nothing, refuse_core, tell_pieces};
use crate::Verdict;
use crate::args::tell;
use crate::astf::End;
use crate::stf::{Stf, verdict};

/// The number of Arm among instruction sets.
const ARM: u16 = 2;

/// Cuts.
pub(super) fn run(args: &Args, mut file: Stf) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    refuse_core(args, &name)?;
    if args.time.is_some() {
        bail!("{name}: STF has no time; cut it by number or address");
    }
    if args.with_callees && file.reader().isa() != Some(ARM) {
        bail!("{name}: --with-callees follows the calls of Arm; leave it out to cut the function without its callees");
    }
    let storage = match args.to {
        Some(to) => to.stf().with_context(|| format!("{name}: a cut of STF is STF; say --to stf, zstf, stf.gz, .."))?,
        None => Storage::from_path(&args.output).unwrap_or(file.storage()),
    };
    file.tell_warnings();
    let usual = WriteOptions::default();
    let write = WriteOptions { threads: args.threads().unwrap_or(usual.threads), ..usual };
    let mut files = Files::new(&args.output, args.split, |path| open_writer(path, storage, write));
    let options = SliceOptions { sign: !args.unsigned, split: args.split };
    let mut is_cut_short = false;
    let cut = if args.is_by_number() {
        let range = args.skip..args.skip.saturating_add(args.limit.unwrap_or(u64::MAX));
        slice(file.reader(), range, options, &mut One { sink: &mut files, has_begun: false })
    } else {
        let mut wanted = Wanted::new(args, 0, false)?;
        let cut = slice_by(file.reader(), &mut wanted, options, &mut files);
        is_cut_short = wanted.is_cut_short;
        cut
    };
    let sliced = match cut {
        Ok(sliced) => sliced,
        Err(SliceError::Write(error)) => return Err(files.why(error)),
        Err(SliceError::Read(error)) => {
            let end = file.ended(Err(error))?;
            keep_damaged(&name, files)?;
            return Ok(verdict(&mut file, &end));
        }
        Err(SliceError::NoTransaction(read)) => bail!("{name}: {}", nothing(read, "transaction")),
        Err(SliceError::Empty(read)) => bail!("{name}: {}", nothing(read, "instruction")),
        Err(error @ SliceError::NoHeader) => {
            tell(format_args!("{name}: {error}"));
            return Ok(Verdict::Problems);
        }
        Err(error @ SliceError::Transactions) => bail!("{name}: {error} (--skip, --limit)"),
        Err(error) => bail!("{name}: {error}"),
    };
    files.keep()?;
    tell_kept(&name, &sliced);
    tell_pieces(args, &name, sliced.instructions, sliced.pieces, is_cut_short);
    Ok(verdict(&mut file, &End::Left))
}

/// What could not be counted anew.
fn tell_kept(name: &str, sliced: &Sliced) {
    if sliced.walks_kept > 0 {
        let walks = many(sliced.walks_kept, "page table walk");
        tell(format_args!("{name}: {walks} of instructions before the cut keep their numbers"));
    }
    if sliced.dependencies_kept > 0 {
        let count = sliced.dependencies_kept;
        let what = if count == 1 { "dependency" } else { "dependencies" };
        let count = grouped(count);
        tell(format_args!("{name}: {count} {what} on transactions outside the cut stay as they are"));
    }
}

/// One trace, which begins with its first record.
struct One<'s, S> {
    sink: &'s mut S,
    has_begun: bool,
}

impl<S: PieceSink<u8>> RecordSink for One<'_, S> {
    fn take(&mut self, records: &[u8]) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.sink.begin()?;
        }
        self.sink.take(records)
    }
}
