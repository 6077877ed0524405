//! Steps of anything that can be opened.
//!
//! ```text
//! path or pipe ─▶ what is it? ─▶ ASTF, STF, Tarmac ─▶ their own steps
//!                                └ capture ─▶ one source ─▶ its **steps**
//! ```

mod capture;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_astf as astf;
use unspool_capture::{Capture, Code};
use unspool_model::StepSource;
use unspool_stf as stf;
use unspool_tarmac as tarmac;

pub use self::capture::CaptureSteps;
use crate::{Error, What};

/// How steps are opened.
#[derive(Debug, Clone, Default)]
pub struct OpenSteps {
    /// What it is, if its first bytes are not asked.
    pub what: Option<What>,
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
    let what = match options.what {
        Some(what) => what,
        None => What::at(path).map_err(of_file)?,
    };
    if what == What::Capture {
        let capture = Capture::open(path)?;
        return Ok(Box::new(CaptureSteps::new(capture, options.source.as_deref(), &options.codes)?));
    }
    let input = counted(File::open(path).map_err(of_file)?, options);
    match what {
        What::Stf => {
            let reader = stf::read::Reader::seekable(input, stf_options(options));
            Ok(Box::new(stf::steps::Steps::new(reader.map_err(|source| Error::Stf { path: name, source })?)))
        }
        what => of_input(what, &name, input, options),
    }
}

/// Opens what comes through a pipe. A capture is no stream.
pub fn open_steps_of(name: &str, input: impl Read + Send + 'static, options: &OpenSteps) -> Result<OpenedSteps, Error> {
    let of_file = |source| Error::File { path: name.to_string(), source };
    match options.what {
        Some(what) => of_input(what, name, counted(input, options), options),
        None => {
            let (what, input) = What::peek(input).map_err(of_file)?;
            of_input(what, name, counted(input, options), options)
        }
    }
}

fn of_input(
    what: What,
    name: &str,
    input: impl Read + Send + 'static,
    options: &OpenSteps,
) -> Result<OpenedSteps, Error> {
    let path = || name.to_string();
    Ok(match what {
        What::Astf => {
            let reader = astf::read::Reader::new(input, astf_options(options));
            Box::new(astf::steps::Steps::new(reader.map_err(|source| Error::Astf { path: path(), source })?))
        }
        What::Stf => {
            let reader = stf::read::Reader::new(input, stf_options(options));
            Box::new(stf::steps::Steps::new(reader.map_err(|source| Error::Stf { path: path(), source })?))
        }
        What::Tarmac => {
            let reader = tarmac::read::Reader::new(input, options.tarmac);
            let reader = reader.map_err(|source| Error::Tarmac { path: path(), source })?;
            Box::new(tarmac::steps::Steps::new(reader, options.big_endian))
        }
        What::Capture => return Err(Error::NotATrace { path: path() }),
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

/// Counts what is read.
struct Counted<R> {
    input: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}
