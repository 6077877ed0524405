//! Cutting a Tarmac log: lines of some instructions, byte for byte.

use anyhow::{Context, bail};
use unspool::container::CompressOptions;
use unspool::tarmac::slice::{SliceError, SliceOptions};

use super::super::convert::{log_container, open_log};
use super::output::Files;
use super::select::Wanted;
use super::{Args, keep_damaged, nothing, tell_pieces};
use crate::Verdict;
use crate::args::tell;
use crate::astf::End;
use crate::tarmac::Tarmac;

/// Cuts.
pub(super) fn run(args: &Args, mut file: Tarmac) -> anyhow::Result<Verdict> {
    let name = file.name().to_string();
    let container = match args.to {
        Some(to) => to.tarmac().with_context(|| format!("{name}: a cut of Tarmac is Tarmac; say --to tarmac, .."))?,
        None => log_container(&args.output),
    };
    let mut wanted = Wanted::new(args, decimals(args, &file)?, false)?;
    let usual = CompressOptions::default();
    let write = CompressOptions { threads: args.threads().unwrap_or(usual.threads), ..usual };
    let mut files = Files::new(&args.output, args.split, |path| open_log(path, container, write));
    let core = args.core.as_deref().map(str::as_bytes);
    let options = SliceOptions { split: args.split, core, dialect: Some(file.dialect()) };
    let sliced = match file.slice(&mut wanted, options, &mut files) {
        Ok(sliced) => sliced,
        Err(SliceError::Write(error)) => return Err(files.why(error)),
        Err(SliceError::Read(error)) => {
            let end = file.ended(Err(error))?;
            keep_damaged(&name, files)?;
            return Ok(file.verdict(&end));
        }
        Err(error) => bail!("{name}: {error}"),
    };
    if sliced.pieces == 0 {
        bail!("{name}: {}", nothing(sliced.seen, "instruction"));
    }
    files.keep()?;
    if sliced.has_new_time {
        tell(format_args!(
            "{name}: the first line of the cut had no time of its own; it has that of the lines before it"
        ));
    }
    tell_pieces(args, &name, sliced.instructions, sliced.pieces, wanted.is_cut_short);
    Ok(file.verdict(&End::Left))
}

/// How many digits of a time stand behind the point.
fn decimals(args: &Args, file: &Tarmac) -> anyhow::Result<u8> {
    match (&args.time, file.first_time()) {
        (None, _) => Ok(0),
        (Some(_), Some(time)) => Ok(time.decimals),
        (Some(_), None) => bail!("{}: its first lines have no time; cut it by number or address", file.name()),
    }
}
