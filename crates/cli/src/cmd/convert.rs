//! `convert`: the same records, stored in another way; or the same steps, in another format.
//!
//! in ─▶ records, or steps ─▶ a temporary file beside OUT ─▶ OUT
//!
//! OUT appears when it is complete, or not at all.

mod assume;
mod idle;
mod report;
mod steps;
mod stf;
mod tarmac;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::What;
use unspool::astf::Bytes;
use unspool::astf::record::{Header, Level, Storage};
use unspool::astf::write::{WriteOptions, Writer};
use unspool::container::Container;
use unspool::convert::Format;
use unspool::stf::{Storage as StfStorage, builder};
use unspool::tarmac::dialect::Dialect;

pub(super) use self::assume::assumed;
use self::steps::Source;
pub(super) use self::stf::open_writer;
use self::tarmac::ToStyle;
pub(super) use self::tarmac::{log_container, open_log};
use crate::Verdict;
use crate::args::ImageArgs;
use crate::astf::{Astf, End};
use crate::file::{Opened, open, open_as};
use crate::output::is_same;
use crate::progress::Progress;
use crate::target::Target;
use crate::tarmac::{TarmacArgs, dialect};

/// Write a trace in another format, or its records in another container, and tell what was lost
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A capture, an ASTF or STF file or a Tarmac log ('-': standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where the result goes ('-': standard output); a file that is there is replaced when the new one is complete
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The format, and how it is stored (if not said, the name of OUT tells)
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: Option<To>,

    /// The format of IN (found out, if not said)
    #[arg(long, value_name = "FORMAT", value_enum)]
    from: Option<From>,

    /// The source of a capture: its trace id or its name
    #[arg(long, value_name = "ID", help_heading = "Another format")]
    source: Option<String>,

    /// Only this core, counted from 0 in the order in which they appear
    #[arg(long, value_name = "N", help_heading = "Another format")]
    core: Option<u32>,

    /// Another trace of the same run, which tells the addresses of accesses and what else IN cannot tell
    #[arg(long, value_name = "TRACE", help_heading = "Another format")]
    accesses: Option<PathBuf>,

    /// The core of the other trace
    #[arg(long, value_name = "N", default_value_t = 0, requires = "accesses", help_heading = "Another format")]
    accesses_core: u32,

    /// What IN does not say, and you know: el=0 to 3, security=secure or nonsecure, sp=0 or x (SP_EL0 or
    /// SP_ELx), vl=BITS (vectors)
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = assumed, help_heading = "Another format")]
    assume: Option<unspool::model::Context>,

    /// The level of an ASTF trace (if not said, basicplus where IN tells of exceptions)
    #[arg(long, value_name = "LEVEL", value_enum, help_heading = "Another format")]
    astf_level: Option<AstfLevel>,

    /// Leave out the disassembly in a Tarmac log
    #[arg(long, help_heading = "Another format")]
    no_disassembly: bool,

    #[command(flatten)]
    images: ImageArgs,

    /// Write this version of STF
    #[arg(long, value_name = "VERSION", value_enum)]
    stf_version: Option<StfVersion>,

    /// Write a Tarmac log in this style (rev3, if not said and IN is no log)
    #[arg(long, value_name = "STYLE", value_enum, help_heading = "Tarmac")]
    dialect: Option<ToStyle>,

    /// Who wrote the Tarmac log (found out, if not said): rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other
    #[arg(long, value_name = "NAME", value_parser = dialect, help_heading = "Tarmac")]
    from_dialect: Option<Dialect>,

    /// Instructions whose line does not name an instruction set are Thumb
    #[arg(long, help_heading = "Tarmac")]
    implicit_thumb: bool,

    /// Data of accesses in the Tarmac log is that of a big endian core
    #[arg(long, help_heading = "Tarmac")]
    big_endian: bool,

    /// Pictures of one access have LD or ST in the first line only
    #[arg(long, help_heading = "Tarmac")]
    continuations: bool,

    /// Tell what was lost or left out as JSON, on the standard error
    #[arg(long)]
    json: bool,

    /// Keep nothing if something would be lost, on the way or since the format cannot say it: exit code 1
    #[arg(long)]
    deny_loss: bool,

    /// Keep what was written before the place at which IN is damaged
    #[arg(long)]
    keep_damaged: bool,

    /// Threads (all cores, if not said)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// How hard to compress: 0 is fast, 9 is small (zstd: up to 19)
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(0..=19))]
    level: Option<u32>,

    /// How many instructions a chunk of a .zstf file has (100000, if not said)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    chunk: Option<u64>,
}

/// How records are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum To {
    /// ASTF records as they are
    #[value(alias = "astf")]
    Raw,
    /// ASTF records compressed with LZMA, in an .xz container behind the header
    #[value(alias = "astf.xz")]
    Lzma,
    /// ASTF records compressed with zlib behind the header
    #[value(alias = "astf.gz")]
    Zlib,
    /// STF records as they are
    Stf,
    /// STF records in chunks that can be gone to, each compressed with zstd
    Zstf,
    /// STF in a gzip file
    #[value(name = "stf.gz")]
    StfGz,
    /// STF in an .xz file
    #[value(name = "stf.xz")]
    StfXz,
    /// STF in a zstd file
    #[value(name = "stf.zst")]
    StfZst,
    /// Tarmac as it is
    Tarmac,
    /// Tarmac in a gzip file
    #[value(name = "tarmac.gz")]
    TarmacGz,
    /// Tarmac in an .xz file
    #[value(name = "tarmac.xz")]
    TarmacXz,
    /// Tarmac in a zstd file
    #[value(name = "tarmac.zst")]
    TarmacZst,
}

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum From {
    /// A capture package
    Capture,
    /// ASTF
    Astf,
    /// STF
    Stf,
    /// Tarmac
    Tarmac,
}

/// How much an ASTF trace tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum AstfLevel {
    /// One Exception level, and no traps
    Basic,
    /// All Exception levels, with traps
    Basicplus,
}

impl std::convert::From<AstfLevel> for Level {
    fn from(level: AstfLevel) -> Self {
        match level {
            AstfLevel::Basic => Self::Basic,
            AstfLevel::Basicplus => Self::BasicPlus,
        }
    }
}

/// A version of STF that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StfVersion {
    /// The published text
    #[value(name = "1.3")]
    V1_3,
    /// What tools write
    #[value(name = "1.6")]
    V1_6,
}

impl std::convert::From<StfVersion> for builder::StfVersion {
    fn from(version: StfVersion) -> Self {
        match version {
            StfVersion::V1_3 => Self::V1_3,
            StfVersion::V1_6 => Self::V1_6,
        }
    }
}

impl To {
    fn format(self) -> Format {
        match self {
            Self::Raw | Self::Lzma | Self::Zlib => Format::Astf,
            Self::Stf | Self::Zstf | Self::StfGz | Self::StfXz | Self::StfZst => Format::Stf,
            Self::Tarmac | Self::TarmacGz | Self::TarmacXz | Self::TarmacZst => Format::Tarmac,
        }
    }

    pub(super) fn astf(self) -> Option<Storage> {
        match self {
            Self::Raw => Some(Storage::Raw),
            Self::Lzma => Some(Storage::Lzma),
            Self::Zlib => Some(Storage::Zlib),
            _ => None,
        }
    }

    pub(super) fn stf(self) -> Option<StfStorage> {
        match self {
            Self::Stf => Some(StfStorage::PLAIN),
            Self::Zstf => Some(StfStorage::Zstf),
            Self::StfGz => Some(StfStorage::GZIP),
            Self::StfXz => Some(StfStorage::XZ),
            Self::StfZst => Some(StfStorage::ZSTD),
            _ => None,
        }
    }

    /// How a log is compressed.
    pub(super) fn tarmac(self) -> Option<Container> {
        match self {
            Self::Tarmac => Some(Container::Plain),
            Self::TarmacGz => Some(Container::Gzip),
            Self::TarmacXz => Some(Container::Xz),
            Self::TarmacZst => Some(Container::Zstd),
            _ => None,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  unspool convert trace.astf trace.astf.xz
  unspool convert trace.astf.xz trace.astf.gz --level 9
  unspool convert small.astf - --to raw | unspool dump -
  unspool convert trace.stf trace.zstf
  unspool convert trace.zstf trace.stf.xz -j 2
  unspool convert trace.zstf old.stf --stf-version 1.3 --deny-loss
  unspool convert model.tarmac rev3.tarmac.xz --dialect rev3
  unspool convert run.tarmac run.astf.xz
  unspool convert run.astf run.zstf
  unspool convert snapshot/ run.tarmac --source 0x10
  unspool convert snapshot/ run.astf --accesses model.tarmac

Without --to the name of OUT tells. Of ASTF, .astf or .raw is RAW; .xz or .lzma is LZMA; .gz, .zz, .z or .zlib is zlib.
The header stays uncompressed whatever the name is, as the format wants it, so xz and gzip do not open such files.
Of STF, .stf is the plain records; .zstf has chunks and an index; .gz, .xz and .zst are files of gzip, xz and zstd.
Records stay as they are, byte for byte, and so does the header of ASTF but for the flags that tell how records are
stored. An STF file in the container that it is in already is copied. With --stf-version, the version, the width of
event numbers and what the version cannot say are changed; what is lost is counted, and the header says who did it.
Lines of a Tarmac log stay as they are, unless --dialect wants another style: then what the style cannot say is counted,
and lines that it has no word for stay as they are. .gz, .xz and .zst are files of gzip, xz and zstd.
Into another format a trace goes step by step. What the format has no word for is counted and told; what it could only
say untruly is refused, with the place. docs/conversions.md lists all pairs.
Of a damaged file nothing is written, unless --keep-damaged. What goes through a pipe cannot be taken back: the exit code
tells whether it is all.
Exit codes: 0 all is well, 1 IN is damaged, has lines that cannot be read, or a loss was denied, 2 it could not be done.";

/// Converts.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let others = [Some(&args.input), args.accesses.as_ref()];
    if let Some(same) = others.into_iter().flatten().find(|input| is_same(input, &args.output)) {
        bail!("{}: the trace is read from this file; write to another one", same.display());
    }
    let (tarmac, threads) = (args.tarmac(), args.jobs.map(usize::from));
    let opened = match args.from {
        Some(From::Capture) => return capture(args),
        Some(From::Astf) => open_as(What::Astf, &args.input, threads, &tarmac)?,
        Some(From::Stf) => open_as(What::Stf, &args.input, threads, &tarmac)?,
        Some(From::Tarmac) => open_as(What::Tarmac, &args.input, threads, &tarmac)?,
        None if !tarmac.is_said() && steps::is_capture(&args.input) => return capture(args),
        None => open(&args.input, threads, &tarmac)?,
    };
    let Some(file) = opened else { return Ok(Verdict::Problems) };
    let own = match &file {
        Opened::Astf(_) => Format::Astf,
        Opened::Stf(_) => Format::Stf,
        Opened::Tarmac(_) => Format::Tarmac,
    };
    let to = args.format(Some(own))?;
    idle::refuse(args, Some(own), to)?;
    match file {
        file if to != own => steps::run(args, Source::file(args, file)?, to),
        Opened::Astf(file) => astf(args, file),
        Opened::Stf(file) => stf::run(args, file),
        Opened::Tarmac(file) => tarmac::run(args, file),
    }
}

fn capture(args: &Args) -> anyhow::Result<Verdict> {
    let to = args.format(None)?;
    idle::refuse(args, None, to)?;
    steps::run(args, Source::capture(args)?, to)
}

impl Args {
    /// What the user says of a log.
    fn tarmac(&self) -> TarmacArgs {
        TarmacArgs { dialect: self.from_dialect, implicit_thumb: self.implicit_thumb, hint: "--from tarmac" }
    }

    /// Is what was written kept, if reading ended like this?
    fn is_kept(&self, end: &End) -> bool {
        *end == End::Whole || self.keep_damaged && matches!(end, End::Damaged(_))
    }

    /// What is written: what was said, what the name says, or what it is.
    fn format(&self, own: Option<Format>) -> anyhow::Result<Format> {
        let format = self.to.map(To::format).or_else(|| format_by_name(&self.output)).or(own);
        format.with_context(|| {
            let name = self.output.display();
            format!("{name}: the name does not tell the format; say --to astf, stf, zstf or tarmac")
        })
    }
}

fn astf(args: &Args, mut file: Astf) -> anyhow::Result<Verdict> {
    let storage = storage(args)?;
    file.tell_warnings();
    let mut writer = astf_writer(args, &file.header().stored(storage))?;
    let cannot = || format!("cannot write {}", args.output.display());
    let end = file.each(&mut Progress::new(false), |first, records| {
        // The header is written already.
        let records: &[Bytes] = if first == 1 { &records[1..] } else { records };
        writer.write(records).with_context(cannot).map(|()| true)
    })?;
    if args.is_kept(&end) {
        writer.finish().and_then(Target::keep).with_context(cannot)?;
    }
    Ok(end.verdict())
}

/// How the records of an ASTF file are stored.
fn storage(args: &Args) -> anyhow::Result<Storage> {
    args.to.map_or_else(|| by_name(&args.output), To::astf).with_context(|| {
        let name = args.output.display();
        format!("{name}: the name does not tell how records are stored; say --to raw, lzma or zlib")
    })
}

fn astf_writer(args: &Args, header: &Header) -> anyhow::Result<Writer<Target>> {
    if let Some(level) = args.level.filter(|level| *level > 9) {
        bail!("--level {level}: LZMA and zlib have levels from 0 to 9");
    }
    let options = WriteOptions::default();
    let options = WriteOptions {
        threads: args.jobs.map_or(options.threads, usize::from),
        level: args.level.unwrap_or(options.level),
        ..options
    };
    let target = Target::open(&args.output)?;
    Writer::new(target, header, options).with_context(|| format!("cannot write {}", args.output.display()))
}

/// How the records of an ASTF file are stored, by its name.
pub(super) fn by_name(path: &Path) -> Option<Storage> {
    match Container::from_path(path) {
        Some(Container::Xz | Container::Lzma) => Some(Storage::Lzma),
        Some(Container::Gzip | Container::Zlib) => Some(Storage::Zlib),
        Some(Container::Zstd | Container::Plain) => None,
        None => matches!(extension(path)?.as_str(), "astf" | "raw").then_some(Storage::Raw),
    }
}

fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

/// The format that the last extension names, or the one before it if that is a compressor's or anything else.
pub(super) fn format_by_name(path: &Path) -> Option<Format> {
    let named = |path: &Path| match extension(path)?.as_str() {
        "astf" => Some(Format::Astf),
        "stf" | "zstf" => Some(Format::Stf),
        "tarmac" | "log" => Some(Format::Tarmac),
        _ => None,
    };
    named(path).or_else(|| named(Path::new(path.file_stem()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        let rows = [
            ("a.astf", Some(Storage::Raw)),
            ("a.astf.xz", Some(Storage::Lzma)),
            ("a.astf.LZMA", Some(Storage::Lzma)),
            ("dir.xz/a.astf.gz", Some(Storage::Zlib)),
            ("a.zz", Some(Storage::Zlib)),
            ("a.trace", None),
            ("-", None),
        ];
        for (name, expected) in rows {
            assert_eq!(by_name(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn names_of_stf_files_tell() {
        let rows = [
            ("a.stf", Some(StfStorage::PLAIN), Some(Format::Stf)),
            ("a.zstf", Some(StfStorage::Zstf), Some(Format::Stf)),
            ("a.stf.gz", Some(StfStorage::GZIP), Some(Format::Stf)),
            ("a.STF.XZ", Some(StfStorage::XZ), Some(Format::Stf)),
            ("a.stf.zst", Some(StfStorage::ZSTD), Some(Format::Stf)),
            ("a.gz", Some(StfStorage::GZIP), None),
            ("a.astf", None, Some(Format::Astf)),
            ("a.stf.tarmac", None, Some(Format::Tarmac)),
            ("a.astf.tarmac", None, Some(Format::Tarmac)),
            ("a.astf.stf", Some(StfStorage::PLAIN), Some(Format::Stf)),
            ("a.stf.astf.xz", Some(StfStorage::XZ), Some(Format::Astf)),
            ("a.tarmac.stf.gz", Some(StfStorage::GZIP), Some(Format::Stf)),
            ("a.stf.1", None, Some(Format::Stf)),
            ("dir.stf/a.astf.gz", Some(StfStorage::GZIP), Some(Format::Astf)),
            ("-", None, None),
        ];
        for (name, expected, format) in rows {
            assert_eq!(StfStorage::from_path(Path::new(name)), expected, "{name}");
            assert_eq!(format_by_name(Path::new(name)), format, "{name}");
        }
    }
}
