//! `slice`: some instructions of a trace, as a trace of their own.

mod tarmac;

use std::io;
use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::formats::stf::build::RecordSink;
use unspool::formats::stf::slice::{SliceError, SliceOptions, slice};
use unspool::formats::stf::write::{WriteOptions, Writer};

use super::convert::{To, container_by_name, open_writer};
use super::{grouped, many};
use crate::Verdict;
use crate::args::tell;
use crate::astf::End;
use crate::file::{Opened, open};
use crate::output::is_same;
use crate::stf::verdict;
use crate::target::Target;
use crate::tarmac::TarmacArgs;

/// Cut instructions out of a Tarmac log, or out of an STF file with the state that makes the cut a trace of its own
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An STF file or a Tarmac log ('-': standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where the cut goes ('-': standard output); a file that is there is replaced when the new one is complete
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Leave out the first N instructions
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    /// Take at most N instructions
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// What the cut is stored in (if not said, the name of OUT tells, or else it is as IN)
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: Option<To>,

    /// Do not say in the header who cut: it is that of IN, but for the address where the cut starts
    #[arg(long)]
    unsigned: bool,

    /// Threads (all cores, if not said)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    #[command(flatten)]
    tarmac: TarmacArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool slice trace.zstf part.zstf --skip 1000000 --limit 5000
  unspool slice trace.stf - --limit 100 | unspool dump -
  unspool slice run.tarmac part.tarmac --skip 5000 --limit 100

Of a Tarmac log, lines stay as they are, byte for byte, behind the header of the log if it has one.
The header of an STF cut says where its first instruction is. The process, the encoding mode and the privilege mode that
hold there are told again in front of it. Everything else stays as it is, byte for byte, but for page table walks, which
count instructions: they are counted anew. A trace of transactions is cut by their number in the same way.";

/// Cuts.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if is_same(&args.input, &args.output) {
        bail!("{}: the trace is read from this file; write to another one", args.output.display());
    }
    let mut file = match open(&args.input, args.jobs.map(usize::from), &args.tarmac)? {
        None => return Ok(Verdict::Problems),
        Some(Opened::Astf(file)) => bail!("{}: ASTF cannot be cut, not yet", file.name()),
        Some(Opened::Tarmac(file)) => return tarmac::run(args, file),
        Some(Opened::Stf(file)) => file,
    };
    let container = match args.to {
        Some(to) => to.stf().with_context(|| format!("{}: STF cannot be written as ASTF, not yet", file.name()))?,
        None => container_by_name(&args.output).unwrap_or(file.container()),
    };
    file.tell_warnings();
    let usual = WriteOptions::default();
    let options = WriteOptions { threads: args.jobs.map_or(usual.threads, usize::from), ..usual };
    let mut writer = open_writer(&args.output, container, options)?;
    let range = args.skip..args.skip.saturating_add(args.limit.unwrap_or(u64::MAX));
    let cannot = || format!("cannot write {}", args.output.display());
    let cut = slice(file.reader(), range, SliceOptions { sign: !args.unsigned }, &mut Sink(&mut writer));
    let sliced = match cut {
        Ok(sliced) => sliced,
        Err(SliceError::Write(error)) => return Err(error).with_context(cannot),
        Err(SliceError::Read(error)) => {
            let end = file.ended(Err(error))?;
            return Ok(verdict(&mut file, &end));
        }
        Err(error @ SliceError::NoHeader) => {
            tell(format_args!("{}: {error}", file.name()));
            return Ok(Verdict::Problems);
        }
        Err(error) => bail!("{}: {error}", file.name()),
    };
    writer.finish().and_then(Target::keep).with_context(cannot)?;
    if sliced.walks_kept > 0 {
        let walks = many(sliced.walks_kept, "page table walk");
        tell(format_args!("{}: {walks} of instructions before the cut keep their numbers", file.name()));
    }
    if sliced.dependencies_kept > 0 {
        let count = sliced.dependencies_kept;
        let what = if count == 1 { "dependency" } else { "dependencies" };
        tell(format_args!(
            "{}: {} {what} on transactions outside the cut stay as they are",
            file.name(),
            grouped(count)
        ));
    }
    Ok(verdict(&mut file, &End::Left))
}

/// Takes the records of the cut.
struct Sink<'w>(&'w mut Writer<Target>);

impl RecordSink for Sink<'_> {
    fn take(&mut self, records: &[u8]) -> io::Result<()> {
        self.0.write(records)
    }
}
