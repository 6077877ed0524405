//! Steps of anything that can be opened.
//!
//! ```text
//! path or pipe ─▶ what is it? ─▶ ASTF, STF, Tarmac ─▶ their own steps
//!                                └ capture ─▶ one source ─▶ its **steps**
//! ```

mod capture;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use unspool_astf as astf;
use unspool_capture::{Capture, Code};
use unspool_model::StepSource;
use unspool_stf as stf;
use unspool_tarmac as tarmac;

pub use self::capture::CaptureSteps;
use crate::meter::Counted;
use crate::{Error, FileKind};

/// How steps are opened.
#[derive(Debug, Clone, Default)]
pub struct OpenSteps {
    /// Format of the file; `None`: auto-detected.
    pub kind: Option<FileKind>,
    /// Which source of a capture: its name, or its trace id. It has to be said if there are several.
    pub source: Option<String>,
    /// Program code beside that of a capture.
    pub codes: Vec<Code>,
    /// How a Tarmac log is read.
    pub tarmac: tarmac::read::ReadOptions,
    /// Data in a Tarmac log is big-endian.
    pub big_endian: bool,
    /// How many threads decompress; `None`: as many as there are processors.
    pub threads: Option<usize>,
    /// Whoever takes the steps has a thread for that, as [`encode`](crate::encode::encode) has: with few processors an
    /// ASTF file is decompressed there too.
    pub is_followed: bool,
    /// Counts the bytes of a file as they are read.
    pub bytes_read: Arc<AtomicU64>,
}

/// Steps that were opened.
pub type OpenedSteps = Box<dyn StepSource + Send>;

/// Opens what is at a path, whatever it is.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
/// use unspool::{OpenSteps, open_steps};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello-ete");
/// let options = OpenSteps { source: Some("0x10".into()), ..OpenSteps::default() };
/// let mut source = open_steps(path.as_ref(), &options)?;
/// let mut instructions = 0;
/// source.each(&mut |step| {
///     instructions += u64::from(step.event.instruction().is_some());
///     ControlFlow::Continue(())
/// })?;
/// # assert!(instructions > 10);
/// # Ok(())
/// # }
/// ```
pub fn open_steps(path: &Path, options: &OpenSteps) -> Result<OpenedSteps, Error> {
    let name = path.display().to_string();
    let of_file = |source| Error::File { path: name.clone(), source };
    let kind = match options.kind {
        Some(kind) => kind,
        None => FileKind::at(path).map_err(of_file)?,
    };
    if kind == FileKind::Capture {
        let capture = Capture::open(path)?;
        return Ok(Box::new(CaptureSteps::new(capture, options.source.as_deref(), &options.codes)?));
    }
    let input = counted(File::open(path).map_err(of_file)?, options);
    match kind {
        FileKind::Stf => {
            let reader = stf::read::Reader::seekable(input, stf_options(options));
            Ok(Box::new(stf::steps::Steps::new(reader.map_err(|source| Error::Stf { path: name, source })?)))
        }
        kind => of_input(kind, &name, input, options),
    }
}

/// Opens what comes through a pipe. A capture is no stream.
pub fn open_steps_of(name: &str, input: impl Read + Send + 'static, options: &OpenSteps) -> Result<OpenedSteps, Error> {
    let of_file = |source| Error::File { path: name.to_string(), source };
    match options.kind {
        Some(kind) => of_input(kind, name, counted(input, options), options),
        None => {
            let (kind, input) = FileKind::peek(input).map_err(of_file)?;
            of_input(kind, name, counted(input, options), options)
        }
    }
}

fn of_input(
    kind: FileKind,
    name: &str,
    input: impl Read + Send + 'static,
    options: &OpenSteps,
) -> Result<OpenedSteps, Error> {
    let path = || name.to_string();
    Ok(match kind {
        FileKind::Astf => {
            let reader = astf::read::Reader::new(input, astf_options(options));
            Box::new(astf::steps::Steps::new(reader.map_err(|source| Error::Astf { path: path(), source })?))
        }
        FileKind::Stf => {
            let reader = stf::read::Reader::new(input, stf_options(options));
            Box::new(stf::steps::Steps::new(reader.map_err(|source| Error::Stf { path: path(), source })?))
        }
        FileKind::Tarmac => {
            let reader = tarmac::read::Reader::new(input, options.tarmac);
            let reader = reader.map_err(|source| Error::Tarmac { path: path(), source })?;
            Box::new(tarmac::steps::Steps::new(reader, options.big_endian))
        }
        FileKind::Capture => return Err(Error::NotATrace { path: path() }),
    })
}

fn astf_options(options: &OpenSteps) -> astf::read::ReadOptions {
    let default = astf::read::ReadOptions::default();
    // With two processors a third thread would be in the way.
    let has_room = default.threads > 2;
    let (threads, ahead) = (options.threads.unwrap_or(default.threads), has_room || !options.is_followed);
    astf::read::ReadOptions { threads, ahead }
}

fn stf_options(options: &OpenSteps) -> stf::read::ReadOptions {
    let default = stf::read::ReadOptions::default();
    stf::read::ReadOptions { threads: options.threads.unwrap_or(default.threads) }
}

fn counted<R>(input: R, options: &OpenSteps) -> Counted<R> {
    Counted { input, read: Arc::clone(&options.bytes_read) }
}
