//! What every verb is told the same way: which capture, which sources, where the output goes.
//!
//! Comes in: words. Goes out: an open capture and the traces that were asked for.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use unspool::capture::{BufferFormat, Capture, Code, ImageArgument, Register, Registers};
use unspool::coresight::Protocol;
use unspool::{Bare, Trace, What, open_bare};

use crate::astf::is_standard;

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
    match What::at(path) {
        Ok(What::Astf) => bail!("{}: an ASTF file is no capture; see 'unspool dump'", path.display()),
        Ok(What::Stf) => bail!("{}: an STF file is no capture; see 'unspool dump'", path.display()),
        Ok(What::Tarmac) => bail!("{}: a Tarmac log is no capture; see 'unspool dump'", path.display()),
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
            notes.iter().for_each(tell);
            Ok(code)
        };
        self.images.iter().map(load).collect()
    }

    /// Was any given?
    pub(crate) fn is_said(&self) -> bool {
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

/// Says something to the person at the terminal.
pub(crate) fn tell(text: impl std::fmt::Display) {
    // A closed error stream leaves nobody to tell.
    let _ = writeln!(io::stderr(), "unspool: {text}");
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
