//! Cutting an ASTF file.

use anyhow::{Context, bail};
use unspool::astf::slice::{SliceError, SliceOptions, slice};
use unspool::astf::write::{WriteOptions, Writer};

use super::super::convert::by_name;
use super::output::Files;
use super::select::Wanted;
use super::{Args, keep_damaged, nothing, refuse_core, tell_pieces};
use crate::Verdict;
use crate::astf::{Astf, End};
use crate::target::Target;

/// Cuts.
pub(super) fn run(args: &Args, mut file: Astf) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    refuse_core(args, &name)?;
    if args.time.is_some() && !file.header().timestamps {
        bail!("{name}: the trace has no timestamps; cut it by number or address");
    }
    let storage = match args.to {
        Some(to) => to.astf().with_context(|| format!("{name}: a cut of ASTF is ASTF; say --to raw, lzma or zlib"))?,
        None => by_name(&args.output).unwrap_or(file.header().storage()),
    };
    file.tell_warnings();
    let mut wanted = Wanted::new(args, 0, true)?;
    let header = file.header().stored(storage);
    let usual = WriteOptions::default();
    let options = WriteOptions { threads: args.threads().unwrap_or(usual.threads), ..usual };
    let mut files = Files::new(&args.output, args.split, |path| {
        let cannot = || format!("cannot write {}", path.display());
        Writer::new(Target::open(path)?, &header, options).with_context(cannot)
    });
    let sliced = match slice(file.reader(), &mut wanted, SliceOptions { split: args.split }, &mut files) {
        Ok(sliced) => sliced,
        Err(SliceError::Write(error)) => return Err(files.why(error)),
        Err(SliceError::Read(error)) => {
            let end = file.ended(error)?;
            keep_damaged(&name, files)?;
            return Ok(end.verdict());
        }
        Err(SliceError::Empty(read)) => bail!("{name}: {}", nothing(read, "instruction")),
        Err(error @ SliceError::Pieces { .. }) => bail!("{name}: {error}: --split"),
        Err(error) => bail!("{name}: {error}"),
    };
    files.keep()?;
    tell_pieces(args, &name, sliced.instructions, sliced.pieces, wanted.is_cut_short);
    Ok(End::Left.verdict())
}
