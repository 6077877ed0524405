//! Steps of anything that can be opened.
//!
//! ```text
//! path or pipe ─▶ FileKind ─▶ ASTF, STF, Tarmac ─▶ steps of the file
//!                             └ capture ─▶ one source ─▶ its steps
//! ```

mod capture;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use unspool_astf as astf;
use unspool_capture::{Capture, Code};
use unspool_tarmac as tarmac;

pub(crate) use self::capture::{CapturePoint, Inside, StepOrPoint};
pub use self::capture::{CaptureShard, CaptureSteps, Carried, CountedCycles, ShardEnd};
pub(crate) use self::capture::{StepEmitter, choose, coverage, coverage_of_captures, time_unit};
use crate::channel_events::add_channel_events;
use crate::file::{AstfFile, FileError, FileOptions, Input, OpenedSteps, StfFile, TarmacFile, peek_input};
use crate::identify::{Identity, Wanted};
use crate::meter::Meter;
use crate::{Error, FileKind, SpaceOptions};

/// Options for opening steps.
#[derive(Debug, Clone, Default)]
pub struct OpenSteps {
    /// Format of the file; `None`: auto-detected.
    pub kind: Option<FileKind>,
    /// Source of a capture: its name, or its trace id. Required if there are several.
    pub source: Option<String>,
    /// Program code beside that of a capture.
    pub codes: Vec<Code>,
    /// Where to find the files of the processes of a capture.
    pub spaces: SpaceOptions,
    /// How a Tarmac log is read.
    pub tarmac: tarmac::read::ReadOptions,
    /// Data in a Tarmac log is big-endian.
    pub big_endian: bool,
    /// Threads that decompress; `None`: one per processor.
    pub threads: Option<usize>,
    /// The consumer of the steps has a thread of its own, as [`encode`](crate::encode::encode) has: with few processors,
    /// an ASTF file is decompressed there too.
    pub is_followed: bool,
    /// Counts the bytes of a file, or of the buffers of a capture, as they are read.
    pub bytes_read: Arc<AtomicU64>,
}

/// Opens the steps of a file or a capture.
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
    let of_file = |source| FileError::open(&name, source);
    let kind = match options.kind {
        Some(kind) => kind,
        None => FileKind::at(path).map_err(of_file)?,
    };
    if kind == FileKind::Capture {
        let capture = open_capture(path)?;
        let steps = CaptureSteps::with_spaces(capture, options.source.as_deref(), &options.codes, &options.spaces)?;
        return Ok(Box::new(steps.counting(&options.bytes_read)));
    }
    let file = File::open(path).map_err(of_file)?;
    match kind {
        FileKind::Stf => Ok(StfFile::seekable(&name, file, meter(options), options.threads)?.into_steps().0),
        kind => open_input(kind, &name, Box::new(file), options),
    }
}

/// Opens the steps of a stream, which cannot be a capture.
pub fn open_steps_of(name: &str, input: impl Read + Send + 'static, options: &OpenSteps) -> Result<OpenedSteps, Error> {
    if let Some(kind) = options.kind {
        return open_input(kind, name, Box::new(input), options);
    }
    let (kind, input) = peek_input(name, Box::new(input))?;
    open_input(kind, name, input, options)
}

/// Opens a capture. What is not one is named in the error, with the next step.
pub fn open_capture(path: &Path) -> Result<Capture, Error> {
    match Capture::open(path) {
        Err(error @ unspool_capture::Error::NotACapture { .. }) => match Identity::at(path) {
            Ok(found) => Err(found.refused(path.display().to_string(), Wanted::Capture).into()),
            Err(_) => Err(error.into()),
        },
        opened => {
            let mut capture = opened?;
            add_channel_events(&mut capture);
            Ok(capture)
        }
    }
}

fn open_input(kind: FileKind, name: &str, input: Input, options: &OpenSteps) -> Result<OpenedSteps, Error> {
    let meter = meter(options);
    let (steps, _) = match kind {
        FileKind::Astf => AstfFile::with(name, input, meter, astf_options(options))?.into_steps(),
        FileKind::Stf => StfFile::streamed(name, input, meter, options.threads)?.into_steps(),
        FileKind::Tarmac => {
            let implicit_thumb = options.tarmac.parse.implicit_thumb;
            let files = FileOptions { implicit_thumb, ..FileOptions::default() };
            TarmacFile::with(name, input, meter, &files)?.into_steps(options.big_endian)
        }
        FileKind::Capture => return Err(Identity::known(kind).refused(name, Wanted::TraceFile).into()),
    };
    Ok(steps)
}

fn astf_options(options: &OpenSteps) -> astf::read::ReadOptions {
    let default = astf::read::ReadOptions::default();
    // With two processors a third thread would compete with the others.
    let has_room = default.threads > 2;
    let (threads, ahead) = (options.threads.unwrap_or(default.threads), has_room || !options.is_followed);
    astf::read::ReadOptions { threads, ahead }
}

fn meter(options: &OpenSteps) -> Meter {
    Meter { read: Arc::clone(&options.bytes_read), size: None }
}
