//! `convert`: the same records, stored in another way.
//!
//! in ─▶ records ─▶ a temporary file beside OUT ─▶ OUT
//!
//! OUT appears when it is complete, or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::formats::astf::Bytes;
use unspool::formats::astf::record::Storage;
use unspool::formats::astf::write::{WriteOptions, Writer};

use crate::Verdict;
use crate::astf::{Astf, End, is_standard};
use crate::output::is_same;
use crate::progress::Progress;

/// Store the records of an ASTF file in another way: RAW, LZMA or zlib
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An ASTF file ('-': standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where the result goes ('-': standard output); a file that is there is replaced when the new one is complete
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// How the records are stored (if not said, the name of OUT tells)
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: Option<To>,

    /// Threads (all cores, if not said)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// How hard to compress: 0 is fast, 9 is small
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(0..=9))]
    level: Option<u32>,
}

/// How records are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// As they are
    Raw,
    /// Compressed with LZMA, in an .xz container behind the header
    Lzma,
    /// Compressed with zlib behind the header
    Zlib,
}

impl From<To> for Storage {
    fn from(to: To) -> Self {
        match to {
            To::Raw => Self::Raw,
            To::Lzma => Self::Lzma,
            To::Zlib => Self::Zlib,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  unspool convert trace.astf trace.astf.xz
  unspool convert trace.astf.xz trace.astf.gz --level 9
  unspool convert small.astf - --to raw | unspool dump -

Without --to the last extension of OUT tells: .astf or .raw is RAW; .xz or .lzma is LZMA; .gz, .zz, .z or .zlib is
zlib. The header stays uncompressed whatever the name is, as the format wants it, so xz and gzip do not open such files.
Records stay as they are, byte for byte, and so does the header but for the flags that tell how records are stored.
Of a damaged file nothing is written.";

/// Converts.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let storage = args.to.or_else(|| by_name(&args.output)).map(Storage::from);
    let Some(storage) = storage else {
        bail!("{}: the name does not tell how records are stored; say --to raw, lzma or zlib", args.output.display());
    };
    if is_same(&args.input, &args.output) {
        bail!("{}: the trace is read from this file; write to another one", args.output.display());
    }
    let threads = args.jobs.map(usize::from);
    let Some(mut file) = Astf::open(&args.input, threads)? else { return Ok(Verdict::Problems) };
    file.tell_warnings();
    let options = WriteOptions::default();
    let options = WriteOptions {
        threads: threads.unwrap_or(options.threads),
        level: args.level.unwrap_or(options.level),
        ..options
    };
    let target = Target::open(&args.output)?;
    let cannot = || format!("cannot write {}", args.output.display());
    let mut writer = Writer::new(target, &file.header().stored(storage), options).with_context(cannot)?;
    let end = file.each(&mut Progress::new(false), |first, records| {
        // The header is written already.
        let records: &[Bytes] = if first == 1 { &records[1..] } else { records };
        writer.write(records).with_context(cannot).map(|()| true)
    })?;
    if end == End::Whole {
        writer.finish().and_then(Target::keep).with_context(cannot)?;
    }
    Ok(end.verdict())
}

/// What the name of a file says about how its records are stored.
fn by_name(path: &Path) -> Option<To> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "astf" | "raw" => Some(To::Raw),
        "xz" | "lzma" => Some(To::Lzma),
        "gz" | "zz" | "z" | "zlib" => Some(To::Zlib),
        _ => None,
    }
}

/// Where the result is written to.
enum Target {
    /// A pipe or a device: what is written is out of our hands.
    Stream(Box<dyn Write>),
    /// A file that is not complete yet.
    Partial(Partial),
}

impl Target {
    fn open(path: &Path) -> anyhow::Result<Self> {
        if is_standard(path) {
            return Ok(Self::Stream(Box::new(io::stdout())));
        }
        let cannot = || format!("cannot write {}", path.display());
        match fs::metadata(path) {
            Ok(about) if about.is_file() => {
                // Through a link, the file that it leads to is replaced, and not the link.
                let partial = Partial::beside(&path.canonicalize().with_context(cannot)?).with_context(cannot)?;
                fs::set_permissions(&partial.path, about.permissions()).with_context(cannot)?;
                Ok(Self::Partial(partial))
            }
            Ok(_) => Ok(Self::Stream(Box::new(File::options().write(true).open(path).with_context(cannot)?))),
            Err(_) => Ok(Self::Partial(Partial::beside(path).with_context(cannot)?)),
        }
    }

    /// The file is complete.
    fn keep(self) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::Partial(partial) => partial.keep(),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(out) => out.write(bytes),
            Self::Partial(partial) => partial.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(out) => out.flush(),
            Self::Partial(partial) => partial.file.flush(),
        }
    }
}

/// A file under another name, which goes away unless it is kept.
struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    fn beside(target: &Path) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(name);
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(Self { file, path, target: target.to_path_buf() })
    }

    fn keep(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it was kept, there is nothing under this name.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        let rows = [
            ("a.astf", Some(To::Raw)),
            ("a.astf.xz", Some(To::Lzma)),
            ("a.astf.LZMA", Some(To::Lzma)),
            ("dir.xz/a.astf.gz", Some(To::Zlib)),
            ("a.zz", Some(To::Zlib)),
            ("a.trace", None),
            ("-", None),
        ];
        for (name, expected) in rows {
            assert_eq!(by_name(Path::new(name)), expected, "{name}");
        }
    }
}
