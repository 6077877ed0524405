//! Arguments that several verbs share: captures, sources, images, outputs, formats.
//!
//! Takes words of the command line; produces an open capture and the traces that were asked for. Knows no verb.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use unspool::astf::record::{Level, Storage};
use unspool::capture::{BufferFormat, Capture, Code, Error as CaptureError, ImageArgument, Register};
use unspool::container::Container;
use unspool::convert::Format;
use unspool::coresight::{Profile, Protocol};
use unspool::file::{is_pipe, is_standard};
use unspool::model::{Context as State, Modes, Security};
use unspool::stf::Storage as StfStorage;
use unspool::{Bare, OpenSteps, Trace, open_bare, open_capture, open_steps, place_images_by_steps};

use crate::diagnostic;
use crate::listing::report_images;

/// Arguments of the verbs that list the items of trace sources.
#[derive(Debug, clap::Args)]
pub(crate) struct ListingArgs {
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CaptureArgs {
    /// Snapshot directory (snapshot.ini), trace package (contents.ini), or a .zip of either. With --protocol: a bare buffer,
    /// the raw dump of a trace buffer ('-': standard input); name several files in order if the dump is split
    #[arg(required = true, value_name = "CAPTURE")]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    bare: BareArgs,
    #[command(flatten)]
    core: CoreTypeArgs,
}

impl CaptureArgs {
    pub(crate) fn open(&self) -> anyhow::Result<Capture> {
        match (self.bare.open(&self.paths, self.core.name())?, &self.paths[..]) {
            (Some(capture), _) => Ok(capture),
            (None, [path]) => open_package(path),
            (None, _) => bail!("several files are one bare buffer: add --protocol, such as --protocol etm4"),
        }
    }

    /// The paths, unless they are the parts of a bare buffer.
    pub(crate) fn packages(&self) -> Option<&[PathBuf]> {
        (!self.bare.is_given()).then_some(&self.paths[..])
    }
}

/// The core of a bare buffer. Verbs that select cores have an option of this name for both.
#[derive(Debug, clap::Args)]
pub(crate) struct CoreTypeArgs {
    /// Type of the core that was traced, such as Cortex-M3. Exceptions and packets of the M profile differ
    #[arg(long, value_name = "TYPE", requires = "protocol", help_heading = "Bare buffers")]
    core: Option<String>,
}

impl CoreTypeArgs {
    pub(crate) fn name(&self) -> Option<&str> {
        self.core.as_deref()
    }
}

/// Description of a bare buffer, which contains none.
#[derive(Debug, clap::Args)]
pub(crate) struct BareArgs {
    /// The file is a bare buffer of this protocol: ete, etm4, etm3, ptm, itm or stm. TRCDEVARCH, or ETMIDR, of the trace unit
    /// shows which
    #[arg(long, value_name = "NAME", help_heading = "Bare buffers")]
    protocol: Option<String>,

    /// Read only this trace id, in a buffer that also contains other protocols [default: all ids in the buffer]
    #[arg(long, value_name = "ID", value_parser = parse_trace_id, requires = "protocol", help_heading = "Bare buffers")]
    id: Option<u8>,

    /// The buffer has formatter frames [default: auto-detected]
    #[arg(long, requires = "protocol", conflicts_with = "raw", help_heading = "Bare buffers")]
    formatted: bool,

    /// The buffer is the plain stream of one source [default: auto-detected]
    #[arg(long, requires = "protocol", help_heading = "Bare buffers")]
    raw: bool,

    /// The buffer consists of DSTREAM blocks that contain formatter frames
    #[arg(long, requires = "protocol", conflicts_with_all = ["raw", "formatted"], help_heading = "Bare buffers")]
    dstream: bool,

    /// Value of a register of the trace unit, as in TRCIDR8=6. Can be repeated. 'unspool info' shows which values are
    /// assumed for missing registers
    #[arg(long = "register", value_name = "NAME=VALUE", value_parser = parse_register, requires = "protocol", help_heading = "Bare buffers")]
    registers: Vec<Register>,

    /// The buffer has wrapped, and the next byte would be written at this offset in the file: RWP or TRBPTR_EL1 minus the
    /// base address of the buffer. Implies --wrapped
    #[arg(long, value_name = "OFFSET", value_parser = parse_number, requires = "protocol", help_heading = "Bare buffers")]
    write_pointer: Option<u64>,

    /// The buffer has wrapped at an unknown offset: decoding starts at the first synchronization in the file
    #[arg(long, requires = "protocol", help_heading = "Bare buffers")]
    wrapped: bool,
}

impl BareArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.protocol.is_some()
    }

    /// Opens the parts of a bare buffer, of a core of this type. `None`: the paths are something else.
    pub(crate) fn open(&self, paths: &[PathBuf], core: Option<&str>) -> anyhow::Result<Option<Capture>> {
        let Some(protocol) = &self.protocol else { return Ok(None) };
        let protocol = Protocol::from_name(protocol)
            .with_context(|| format!("unknown protocol '{protocol}'; use ete, etm4, etm3, ptm, itm or stm"))?;
        if let Some(directory) = paths.iter().find(|path| path.is_dir()) {
            bail!("{}: a directory cannot be a bare buffer; omit --protocol to open a capture", directory.display());
        }
        let format = match (self.formatted, self.raw, self.dstream) {
            (true, _, _) => Some(BufferFormat::Formatted),
            (_, true, _) => Some(BufferFormat::Raw),
            (_, _, true) => Some(BufferFormat::DstreamFormatted),
            _ => None,
        };
        let registers = self.registers.iter().cloned().collect();
        let wrapped = self.wrapped.then_some(true);
        if let Some(core) = core.filter(|core| Profile::of_core(core) == Profile::Unknown) {
            bail!("--core: '{core}' is not a known type of core; give one such as Cortex-M3, Cortex-R5 or Cortex-A53");
        }
        let (id, write_pointer, core) = (self.id, self.write_pointer, core.map(str::to_string));
        let bare = Bare { protocol, id, format, registers, write_pointer, wrapped, core };
        Ok(Some(open_bare(paths, bare)?))
    }
}

pub(crate) fn open_package(path: &Path) -> anyhow::Result<Capture> {
    if !is_standard(path) {
        return Ok(open_capture(path)?);
    }
    match Capture::open(path) {
        Err(CaptureError::NotACapture { .. }) => {
            bail!(
                "standard input is no perf.data file; to read it as a bare buffer, add --protocol ete or --protocol etm4"
            )
        }
        opened => Ok(opened?),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// Only this source: its trace id (0x10 or 16) or its name. Can be repeated
    #[arg(long = "source", value_name = "ID|NAME")]
    sources: Vec<String>,
}

impl SourceArgs {
    /// Selected traces, in the order of the capture.
    pub(crate) fn select<'c>(&self, capture: &'c Capture) -> anyhow::Result<Vec<Trace<'c>>> {
        let all = Trace::all(capture);
        for wanted in &self.sources {
            if !all.iter().any(|trace| is_named(trace, wanted)) {
                bail!("no source '{wanted}' in the capture; 'unspool info' lists the sources");
            }
        }
        let is_selected = |trace: &Trace<'_>| self.is_empty() || self.sources.iter().any(|name| is_named(trace, name));
        Ok(all.into_iter().filter(is_selected).collect())
    }

    /// Trace ids of the selected sources. An id needs no source that the capture describes.
    pub(crate) fn ids(&self, capture: &Capture) -> anyhow::Result<Vec<u8>> {
        self.sources.iter().map(|wanted| source_id(capture, wanted)).collect()
    }

    /// Were no sources named, so that all are read?
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}

/// Trace id of a source that is named by it or by its name.
pub(crate) fn source_id(capture: &Capture, wanted: &str) -> anyhow::Result<u8> {
    let named = capture.sources.iter().filter(|source| source.name == wanted).find_map(|source| source.id);
    match named {
        Some(id) => Ok(id),
        None if is_number(wanted) => parse_trace_id(wanted).map_err(anyhow::Error::msg),
        None => bail!("no source '{wanted}' with a trace id in the capture; 'unspool info' lists the sources"),
    }
}

/// Does the text start as numbers do, and names do not?
pub(crate) fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

fn is_named(trace: &Trace<'_>, wanted: &str) -> bool {
    let source = trace.source();
    source.name == wanted || parse_trace_id(wanted).is_ok_and(|id| source.id == Some(id))
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Add a program, for code and symbols: an ELF file, loaded with its lowest page at ADDR if given, or a memory dump at
    /// ADDR. Can be repeated. Takes precedence over the images of a capture
    #[arg(long = "image", value_name = "FILE[@ADDR]")]
    images: Vec<ImageArgument>,

    /// Add names without code: the symbols of an ELF file (with its lowest page at ADDR), a copy of /proc/kallsyms, or a
    /// perf map. Can be repeated
    #[arg(long, value_name = "FILE[@ADDR]")]
    symbols: Vec<ImageArgument>,
}

impl ImageArgs {
    /// Reads the files, and reports oddities.
    pub(crate) fn load(&self) -> anyhow::Result<Vec<Code>> {
        let load = |image: &ImageArgument| {
            let (code, notes) = Code::from_file(&image.path, image.address)?;
            notes.iter().for_each(diagnostic::warning);
            Ok(code)
        };
        let load_names = |names: &ImageArgument| {
            let (code, notes) = Code::names_from_file(&names.path, names.address)?;
            notes.iter().for_each(diagnostic::warning);
            Ok(code)
        };
        self.images.iter().map(load).chain(self.symbols.iter().map(load_names)).collect()
    }

    /// As [`load`](Self::load); position-independent programs are placed where the instructions of a trace file show
    /// that they were loaded. From a pipe nothing can be read beforehand.
    pub(crate) fn load_for(&self, trace: &Path) -> anyhow::Result<Vec<Code>> {
        let mut codes = self.load()?;
        if codes.iter().any(|code| code.is_unplaced) && !is_pipe(trace) {
            let mut steps = open_steps(trace, &OpenSteps::default())?;
            report_images(&place_images_by_steps(&mut steps, &mut codes)?, &mut BTreeSet::new());
        }
        Ok(codes)
    }

    pub(crate) fn is_given(&self) -> bool {
        !self.images.is_empty()
    }

    /// Programs, and files with names.
    pub(crate) fn arguments(&self) -> (&[ImageArgument], &[ImageArgument]) {
        (&self.images, &self.symbols)
    }

    pub(crate) fn paths(&self) -> Vec<&Path> {
        self.images.iter().map(|image| image.path.as_path()).collect()
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print JSON, one object per line; docs/json.md describes them
    #[arg(long)]
    pub(crate) json: bool,

    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) force: ForceArgs,
}

/// Permission to replace files.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct ForceArgs {
    /// Replace an output file that exists
    #[arg(long)]
    force: bool,
}

impl ForceArgs {
    /// Rejects a file with contents, unless it may be replaced. Pipes and devices are not replaced but written to.
    pub(crate) fn check(self, path: &Path) -> anyhow::Result<()> {
        let has_contents = path.metadata().is_ok_and(|about| about.is_file() && about.len() > 0);
        if !self.force && has_contents {
            bail!("{}: the file exists; use --force to replace it", path.display());
        }
        Ok(())
    }

    pub(crate) fn is_given(self) -> bool {
        self.force
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct RangeArgs {
    /// Stop after N items, counted over all sources
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,

    /// Skip the first N items, counted over all sources
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: u64,
}

impl RangeArgs {
    /// Is everything listed?
    pub(crate) fn is_all(&self) -> bool {
        self.skip == 0 && self.limit.is_none()
    }
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct JobsArgs {
    /// Number of threads [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

impl JobsArgs {
    pub(crate) fn threads(self) -> Option<usize> {
        self.jobs.map(usize::from)
    }

    /// The number of threads; by default, one per core.
    pub(crate) fn count(self) -> usize {
        self.threads().unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
    }
}

pub(crate) fn parse_number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a number (12 or 0xc)"))
}

pub(crate) fn parse_trace_id(text: &str) -> Result<u8, String> {
    let number = parse_number(text)?;
    let id = u8::try_from(number).ok().filter(|id| *id < 0x80);
    id.ok_or_else(|| format!("{number:#x} is not a trace id (0x01 to 0x6f)"))
}

/// Parses a range `A..B`, which starts at A and ends before B.
pub(crate) fn parse_range(text: &str) -> Result<Range<u64>, String> {
    match text.split_once("..").map(|(start, end)| (parse_number(start), parse_number(end))) {
        Some((Ok(start), Ok(end))) if start < end => Ok(start..end),
        Some((Ok(_), Ok(_))) => Err(format!("'{text}' is empty: a range A..B ends before B, so A must be below B")),
        _ => Err(format!("'{text}' is not a range A..B (0x1000..0x2000, which ends before 0x2000)")),
    }
}

pub(crate) fn parse_register(text: &str) -> Result<Register, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is not NAME=VALUE"))?;
    Register::parse(name.trim(), value.trim())
}

/// Value of an option: name, help and meaning. Without help it is hidden.
pub(crate) type Choice<T> = (&'static str, &'static str, T);

/// Parser of an option that takes one of these values.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let value = |(name, help, _): &Choice<T>| PossibleValue::new(*name).help(*help).hide(help.is_empty());
    PossibleValuesParser::new(choices.iter().map(value)).try_map(|text| {
        let chosen = choices.iter().find(|(name, ..)| *name == text);
        chosen.map(|(_, _, meaning)| *meaning).ok_or("no such value")
    })
}

/// Format of an output file, and how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Astf(Storage),
    Stf(StfStorage),
    Tarmac(Container),
}

impl OutputFormat {
    pub(crate) const CHOICES: &[Choice<Self>] = &[
        ("raw", "ASTF, uncompressed", Self::Astf(Storage::Raw)),
        ("astf", "", Self::Astf(Storage::Raw)),
        ("lzma", "ASTF, records compressed with LZMA in an .xz container after the header", Self::Astf(Storage::Lzma)),
        ("astf.xz", "", Self::Astf(Storage::Lzma)),
        ("zlib", "ASTF, records compressed with zlib after the header", Self::Astf(Storage::Zlib)),
        ("astf.gz", "", Self::Astf(Storage::Zlib)),
        ("stf", "STF, uncompressed", Self::Stf(StfStorage::PLAIN)),
        ("zstf", "STF in seekable chunks, each compressed with zstd", Self::Stf(StfStorage::Zstf)),
        ("stf.gz", "STF in a gzip file", Self::Stf(StfStorage::GZIP)),
        ("stf.xz", "STF in an .xz file", Self::Stf(StfStorage::XZ)),
        ("stf.zst", "STF in a zstd file", Self::Stf(StfStorage::ZSTD)),
        ("tarmac", "Tarmac, uncompressed", Self::Tarmac(Container::Plain)),
        ("tarmac.gz", "Tarmac in a gzip file", Self::Tarmac(Container::Gzip)),
        ("tarmac.xz", "Tarmac in an .xz file", Self::Tarmac(Container::Xz)),
        ("tarmac.zst", "Tarmac in a zstd file", Self::Tarmac(Container::Zstd)),
    ];

    pub(crate) fn format(self) -> Format {
        match self {
            Self::Astf(_) => Format::Astf,
            Self::Stf(_) => Format::Stf,
            Self::Tarmac(_) => Format::Tarmac,
        }
    }

    pub(crate) fn astf(self) -> Option<Storage> {
        if let Self::Astf(storage) = self { Some(storage) } else { None }
    }

    pub(crate) fn stf(self) -> Option<StfStorage> {
        if let Self::Stf(storage) = self { Some(storage) } else { None }
    }

    pub(crate) fn tarmac(self) -> Option<Container> {
        if let Self::Tarmac(container) = self { Some(container) } else { None }
    }
}

pub(crate) const ASTF_LEVELS: &[Choice<Level>] = &[
    ("basic", "One Exception level, no traps", Level::Basic),
    ("basicplus", "All Exception levels, with traps", Level::BasicPlus),
];

pub(crate) const TRACE_UNITS: &[Choice<Protocol>] = &[("ete", "ETE", Protocol::Ete), ("etm4", "ETMv4", Protocol::Etm4)];

/// Parses the execution state that the user asserts: `el=1,security=nonsecure,sp=x,vl=128`.
pub(crate) fn parse_context(text: &str) -> Result<State, String> {
    text.split(',').try_fold(State::default(), |context, word| {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not KEY=VALUE"))?;
        match (key.trim(), value.trim()) {
            ("el", level) => {
                let level = level.parse().ok().filter(|level| *level <= 3);
                let level = level.ok_or_else(|| format!("'{value}' is not an Exception level: 0, 1, 2 or 3"))?;
                Ok(State { level: Some(level), ..context })
            }
            ("security", name) => {
                let security = match name {
                    "secure" | "s" => Security::Secure,
                    "nonsecure" | "ns" => Security::NonSecure,
                    _ => return Err(format!("'{name}' is not a Security state: secure or nonsecure")),
                };
                Ok(State { security: Some(security), ..context })
            }
            ("sp", "0") => Ok(State { is_handler: Some(false), ..context }),
            ("sp", "x") => Ok(State { is_handler: Some(true), ..context }),
            ("sp", other) => Err(format!("'{other}' is not a stack pointer: 0 for SP_EL0, x for SP_ELx")),
            ("vl", bits) => {
                let is_length = |bits: &u16| bits.is_multiple_of(128) && (128..=2048).contains(bits);
                let bits: Option<u16> = bits.parse().ok().filter(is_length);
                let bits = bits.ok_or_else(|| format!("'{value}' is not a multiple of 128 from 128 to 2048 bits"))?;
                let vector_length = (bits / 128 - 1) as u8;
                Ok(State { modes: Some(Modes { vector_length, ..Modes::default() }), ..context })
            }
            (key, _) => Err(format!("unknown key '{key}': use el, security, sp or vl")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_parsed() {
        let context = parse_context("el=1, security=ns,sp=x").unwrap_or_default();
        assert_eq!((context.level, context.security), (Some(1), Some(Security::NonSecure)));
        assert_eq!(context.is_handler, Some(true));
        assert_eq!(parse_context("vl=512").unwrap_or_default().modes.map(|modes| modes.vector_length), Some(3));
        for wrong in ["el", "el=4", "vl=100", "vl=4096", "security=root", "sp=1", "pid=3", ""] {
            assert!(parse_context(wrong).is_err(), "{wrong}");
        }
    }
}
