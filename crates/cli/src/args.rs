//! Arguments that several verbs share: which capture, which sources, where the output goes.
//!
//! Takes words of the command line; produces an open capture and the traces that were asked for. Knows no verb.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use unspool::astf::record::{Level, Storage};
use unspool::capture::{BufferFormat, Capture, Code, ImageArgument, Register, Registers};
use unspool::container::Container;
use unspool::convert::Format;
use unspool::coresight::Protocol;
use unspool::file::is_standard;
use unspool::model::{Context as State, Modes, Security};
use unspool::stf::Storage as StfStorage;
use unspool::{Bare, FileKind, Trace, open_bare};

use crate::diagnostic::diagnostic;

/// Which capture.
#[derive(Debug, clap::Args)]
pub(crate) struct CaptureArgs {
    /// A snapshot directory, a trace package, either of them as .zip, or with --protocol a bare buffer: trace bytes that
    /// nothing describes ('-': standard input). Several files are one bare buffer in several parts
    #[arg(required = true, value_name = "CAPTURE")]
    paths: Vec<PathBuf>,

    /// The bytes are a bare buffer of this protocol: ete or etm4
    #[arg(long, value_name = "NAME", help_heading = "Bare buffers")]
    protocol: Option<String>,

    /// Trace id of the bare buffer's source (all that are there, if not said)
    #[arg(long, value_name = "ID", value_parser = number_u8, requires = "protocol", help_heading = "Bare buffers")]
    id: Option<u8>,

    /// The bare buffer has formatter frames (found out, if not said)
    #[arg(long, requires = "protocol", conflicts_with = "raw", help_heading = "Bare buffers")]
    formatted: bool,

    /// The bare buffer is the plain stream of one source (found out, if not said)
    #[arg(long, requires = "protocol", help_heading = "Bare buffers")]
    raw: bool,

    /// The bare buffer is made of DSTREAM blocks with formatter frames in them
    #[arg(long, requires = "protocol", conflicts_with_all = ["raw", "formatted"], help_heading = "Bare buffers")]
    dstream: bool,

    /// A register of the bare buffer's trace unit, as in TRCIDR8=6; may be given several times. 'unspool info' tells
    /// which registers matter and what is assumed for those that are not given
    #[arg(long = "reg", value_name = "NAME=VALUE", value_parser = register, requires = "protocol", help_heading = "Bare buffers")]
    registers: Vec<Register>,

    /// The bare buffer is circular, and its oldest byte stands at this offset
    #[arg(long, value_name = "OFFSET", value_parser = number_u64, requires = "protocol", help_heading = "Bare buffers")]
    write_pointer: Option<u64>,

    /// The bare buffer is circular and has wrapped; without --write-pointer, reading starts at the first synchronisation
    #[arg(long, requires = "protocol", help_heading = "Bare buffers")]
    wrapped: bool,
}

impl CaptureArgs {
    /// Opens the capture.
    pub(crate) fn open(&self) -> anyhow::Result<Capture> {
        match (&self.protocol, &self.paths[..]) {
            (Some(protocol), paths) => self.open_bare(protocol, paths),
            (None, [path]) => open_package(path),
            (None, _) => bail!("several files are a bare buffer: say --protocol ete or --protocol etm4"),
        }
    }

    /// The path, if it is one and not said to be a bare buffer.
    pub(crate) fn path(&self) -> Option<&Path> {
        match (&self.protocol, &self.paths[..]) {
            (None, [path]) => Some(path),
            _ => None,
        }
    }

    fn open_bare(&self, protocol: &str, paths: &[PathBuf]) -> anyhow::Result<Capture> {
        let protocol = Protocol::from_name(protocol)
            .with_context(|| format!("'{protocol}' is no protocol that can be read; say --protocol ete or etm4"))?;
        if let Some(directory) = paths.iter().find(|path| path.is_dir()) {
            bail!("{}: a directory is no bare buffer; leave --protocol out to open a capture", directory.display());
        }
        let format = match (self.formatted, self.raw, self.dstream) {
            (true, _, _) => Some(BufferFormat::Formatted),
            (_, true, _) => Some(BufferFormat::Raw),
            (_, _, true) => Some(BufferFormat::DstreamFormatted),
            _ => None,
        };
        let registers: Registers = self.registers.iter().cloned().collect();
        let wrapped = self.wrapped.then_some(true);
        let bare = Bare { protocol, id: self.id, format, registers, write_pointer: self.write_pointer, wrapped };
        Ok(open_bare(paths, bare)?)
    }
}

fn open_package(path: &Path) -> anyhow::Result<Capture> {
    if is_standard(path) {
        bail!("the standard input is a bare buffer: say --protocol ete or --protocol etm4");
    }
    match FileKind::at(path) {
        Ok(FileKind::Astf) => bail!("{}: an ASTF file is no capture; see 'unspool dump'", path.display()),
        Ok(FileKind::Stf) => bail!("{}: an STF file is no capture; see 'unspool dump'", path.display()),
        Ok(FileKind::Tarmac) => bail!("{}: a Tarmac log is no capture; see 'unspool dump'", path.display()),
        _ => {}
    }
    Capture::open(path).map_err(|error| match error {
        unspool::capture::Error::NotACapture { .. } if path.is_file() => {
            anyhow!("{error}: --protocol ete or --protocol etm4")
        }
        error => error.into(),
    })
}

/// Which sources.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// Only this source: its trace id (0x10 or 16) or its name; may be given several times
    #[arg(long = "source", value_name = "ID")]
    sources: Vec<String>,
}

impl SourceArgs {
    /// The traces that were asked for, in the order in which the capture lists them.
    pub(crate) fn select<'c>(&self, capture: &'c Capture) -> anyhow::Result<Vec<Trace<'c>>> {
        let all = Trace::all(capture);
        for wanted in &self.sources {
            if !all.iter().any(|trace| is_meant(wanted, trace)) {
                bail!("no source '{wanted}' in the capture; 'unspool info' lists what there is");
            }
        }
        let asked = |trace: &Trace<'_>| self.sources.is_empty() || self.sources.iter().any(|s| is_meant(s, trace));
        Ok(all.into_iter().filter(asked).collect())
    }

    /// Was anything chosen?
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}

fn is_meant(wanted: &str, trace: &Trace<'_>) -> bool {
    let source = trace.source();
    source.name == wanted || number_u8(wanted).is_ok_and(|id| source.id == Some(id))
}

/// Which code beside that of the capture.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Adds program code: an ELF file, moved to ADDR if given, or a dump of the memory at ADDR; may be given several
    /// times. What is added comes before the images of the capture
    #[arg(long = "image", value_name = "FILE[@ADDR]")]
    images: Vec<ImageArgument>,
}

impl ImageArgs {
    /// Reads the files, and says what is odd about them.
    pub(crate) fn load(&self) -> anyhow::Result<Vec<Code>> {
        let load = |image: &ImageArgument| {
            let (code, notes) = Code::from_file(&image.path, image.address)?;
            notes.iter().for_each(diagnostic);
            Ok(code)
        };
        self.images.iter().map(load).collect()
    }

    /// Was any given?
    pub(crate) fn is_given(&self) -> bool {
        !self.images.is_empty()
    }

    /// The files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.images.iter().map(|image| image.path.as_path())
    }
}

/// How the output looks and where it goes.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,

    /// Write to FILE instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How much is listed.
#[derive(Debug, clap::Args)]
pub(crate) struct RangeArgs {
    /// Stop after N items of each source (of each buffer, where frames are listed)
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,

    /// Leave out the first N items of each source (of each buffer, where frames are listed)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: u64,
}

impl RangeArgs {
    /// Is everything listed?
    pub(crate) fn is_all(&self) -> bool {
        self.skip == 0 && self.limit.is_none()
    }
}

pub(crate) fn number_u64(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is no number (12 or 0xc)"))
}

pub(crate) fn number_u8(text: &str) -> Result<u8, String> {
    let number = number_u64(text)?;
    u8::try_from(number)
        .ok()
        .filter(|id| *id < 0x80)
        .ok_or_else(|| format!("{number:#x} is no trace id (0x01 to 0x6f)"))
}

fn register(text: &str) -> Result<Register, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is not NAME=VALUE"))?;
    Register::parse(name.trim(), value.trim())
}

/// Format and container of an output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum To {
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

impl To {
    /// The format.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Raw | Self::Lzma | Self::Zlib => Format::Astf,
            Self::Stf | Self::Zstf | Self::StfGz | Self::StfXz | Self::StfZst => Format::Stf,
            Self::Tarmac | Self::TarmacGz | Self::TarmacXz | Self::TarmacZst => Format::Tarmac,
        }
    }

    /// Storage of ASTF records.
    pub(crate) fn astf(self) -> Option<Storage> {
        match self {
            Self::Raw => Some(Storage::Raw),
            Self::Lzma => Some(Storage::Lzma),
            Self::Zlib => Some(Storage::Zlib),
            _ => None,
        }
    }

    /// Storage of STF records.
    pub(crate) fn stf(self) -> Option<StfStorage> {
        match self {
            Self::Stf => Some(StfStorage::PLAIN),
            Self::Zstf => Some(StfStorage::Zstf),
            Self::StfGz => Some(StfStorage::GZIP),
            Self::StfXz => Some(StfStorage::XZ),
            Self::StfZst => Some(StfStorage::ZSTD),
            _ => None,
        }
    }

    /// Container of a Tarmac log.
    pub(crate) fn tarmac(self) -> Option<Container> {
        match self {
            Self::Tarmac => Some(Container::Plain),
            Self::TarmacGz => Some(Container::Gzip),
            Self::TarmacXz => Some(Container::Xz),
            Self::TarmacZst => Some(Container::Zstd),
            _ => None,
        }
    }
}

/// Level of an ASTF trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AstfLevel {
    /// One Exception level, and no traps
    Basic,
    /// All Exception levels, with traps
    Basicplus,
}

impl From<AstfLevel> for Level {
    fn from(level: AstfLevel) -> Self {
        match level {
            AstfLevel::Basic => Self::Basic,
            AstfLevel::Basicplus => Self::BasicPlus,
        }
    }
}

/// State of execution that the user vouches for: `el=1,security=nonsecure,sp=x,vl=128`.
pub(crate) fn assumed(text: &str) -> Result<State, String> {
    text.split(',').try_fold(State::default(), |context, word| {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not KEY=VALUE"))?;
        match (key.trim(), value.trim()) {
            ("el", level) => {
                let level = level.parse().ok().filter(|level| *level <= 3);
                let level = level.ok_or_else(|| format!("'{value}' is no Exception level: 0, 1, 2 or 3"))?;
                Ok(State { level: Some(level), ..context })
            }
            ("security", name) => {
                let security = match name {
                    "secure" | "s" => Security::Secure,
                    "nonsecure" | "ns" => Security::NonSecure,
                    _ => return Err(format!("'{name}' is no security state: secure or nonsecure")),
                };
                Ok(State { security: Some(security), ..context })
            }
            ("sp", "0") => Ok(State { is_handler: Some(false), ..context }),
            ("sp", "x") => Ok(State { is_handler: Some(true), ..context }),
            ("sp", other) => Err(format!("'{other}' is no stack pointer: 0 for SP_EL0, x for SP_ELx")),
            ("vl", bits) => {
                let is_length = |bits: &u16| bits.is_multiple_of(128) && (128..=2048).contains(bits);
                let bits: Option<u16> = bits.parse().ok().filter(is_length);
                let bits =
                    bits.ok_or_else(|| format!("'{value}' is no vector length: 128 to 2048 bits in steps of 128"))?;
                let vector_length = (bits / 128 - 1) as u8;
                Ok(State { modes: Some(Modes { vector_length, ..Modes::default() }), ..context })
            }
            (key, _) => Err(format!("'{key}' is none of el, security, sp and vl")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said() {
        let context = assumed("el=1, security=ns,sp=x").unwrap_or_default();
        assert_eq!((context.level, context.security), (Some(1), Some(Security::NonSecure)));
        assert_eq!(context.is_handler, Some(true));
        assert_eq!(assumed("vl=512").unwrap_or_default().modes.map(|modes| modes.vector_length), Some(3));
        for wrong in ["el", "el=4", "vl=100", "vl=4096", "security=root", "sp=1", "pid=3", ""] {
            assert!(assumed(wrong).is_err(), "{wrong}");
        }
    }
}
