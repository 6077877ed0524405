//! Output of a verb: standard output or a file, buffered.
//!
//! Takes lines; writes bytes, through a pager if standard output is a terminal. Decides whether text has color. An I/O
//! error is kept until [`Output::finish`], so that the library need not handle it.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::mem;
use std::path::{Path, PathBuf};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, bail};
use unspool::capture::{Capture, PackageFormat};
use unspool::number::many;

use crate::args::OutputArgs;
use crate::style::Palette;
use crate::writer_thread::WriterThread;
use crate::{diagnostic, pager, progress};

pub(crate) struct Output {
    name: String,
    out: BufWriter<Box<dyn Write + Send>>,
    failed: Option<io::Error>,
    /// The file, if it is one.
    path: Option<PathBuf>,
    is_finished: bool,
    /// Was anything written?
    is_started: bool,
    /// Is the output on a terminal, where a progress bar would disturb it?
    pub(crate) on_terminal: bool,
    /// Colors of text.
    pub(crate) palette: Palette,
}

impl Output {
    /// Opens standard output or the requested file, which must not belong to the capture.
    pub(crate) fn open(args: &OutputArgs, capture: &Capture) -> anyhow::Result<Self> {
        Self::open_beside(args, capture, &[])
    }

    /// As [`open`](Self::open); the file must not be one of these images either.
    pub(crate) fn open_beside(args: &OutputArgs, capture: &Capture, images: &[&Path]) -> anyhow::Result<Self> {
        Self::open_unless(args, |path| match path {
            path if is_read_from(path, capture) => Some("the trace"),
            path => images.iter().any(|image| is_same(path, image)).then_some("code"),
        })
    }

    /// Opens standard output or the requested file, which must not belong to any of these files and captures.
    pub(crate) fn open_beside_all(args: &OutputArgs, inputs: &[PathBuf]) -> anyhow::Result<Self> {
        Self::open_unless(args, |path| {
            let is_input = |input: &PathBuf| {
                is_same(path, input) || Capture::open(input).is_ok_and(|capture| is_read_from(path, &capture))
            };
            inputs.iter().any(is_input).then_some("the trace")
        })
    }

    pub(crate) fn open_for(args: &OutputArgs, input: &Path) -> anyhow::Result<Self> {
        Self::open_unless(args, |path| is_same(path, input).then_some("the trace"))
    }

    /// `role` is what is read from a path, if it is an input.
    pub(crate) fn open_unless(args: &OutputArgs, role: impl Fn(&Path) -> Option<&'static str>) -> anyhow::Result<Self> {
        let Some(path) = args.output.as_deref().filter(|path| *path != Path::new("-")) else {
            return Ok(Self::standard(args.json));
        };
        match role(path) {
            Some(role) => bail!("{}: {role} is read from this file; write to another one", path.display()),
            None => {
                args.force.check(path)?;
                Self::create(path, args.json)
            }
        }
    }

    fn standard(json: bool) -> Self {
        let out = io::stdout();
        let palette = palette(json, AutoStream::choice(&out));
        Self::to("standard output".into(), None, pager::standard_output(), out.is_terminal(), palette)
    }

    fn create(path: &Path, json: bool) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
        let palette = palette(json, AutoStream::choice(&file));
        Ok(Self::to(name, Some(path.to_path_buf()), Box::new(file), false, palette))
    }

    fn to(
        name: String,
        path: Option<PathBuf>,
        out: Box<dyn Write + Send>,
        on_terminal: bool,
        palette: Palette,
    ) -> Self {
        let out = BufWriter::with_capacity(1 << 16, out);
        Self { name, out, failed: None, path, is_finished: false, is_started: false, on_terminal, palette }
    }

    /// Writes on a thread of its own from now on, if there may be several. A terminal shows lines at once.
    pub(crate) fn use_threads(&mut self, threads: usize) -> anyhow::Result<()> {
        if threads < 2 || self.on_terminal {
            return Ok(());
        }
        let idle = BufWriter::new(Box::new(io::sink()) as Box<dyn Write + Send>);
        let (out, buffered) = mem::replace(&mut self.out, idle).into_parts();
        let thread = WriterThread::start(out).context("cannot start a thread")?;
        // The thread has buffers of its own.
        self.out = BufWriter::with_capacity(0, Box::new(thread));
        buffered.map_or(Ok(()), |bytes| self.out.write_all(&bytes)).context("cannot write")
    }

    /// Writes, unless writing failed before.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.on_terminal && !self.is_started {
            progress::end();
        }
        self.is_started = true;
        if self.failed.is_none() {
            self.failed = write(&mut self.out).err();
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.failed.is_none()
    }

    /// Flushes, reports the file, and returns the first error.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.is_finished = true;
        let done = self.failed.take().map_or_else(|| self.out.flush(), Err);
        done.with_context(|| format!("cannot write {}", self.name))?;
        if let Some(path) = &self.path {
            report_written(path);
        }
        Ok(())
    }
}

/// A command that fails before it writes anything leaves no file.
impl Drop for Output {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // The failure itself is what matters, here and below.
        let _ = self.out.flush();
        let is_empty = |path: &PathBuf| path.metadata().is_ok_and(|about| about.is_file() && about.len() == 0);
        if let Some(path) = self.path.as_ref().filter(|path| is_empty(path)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Reports a file that was written; nothing for pipes and devices.
pub(crate) fn report_written(path: &Path) {
    if let Ok(about) = path.metadata()
        && about.is_file()
    {
        diagnostic::note(format_args!("wrote {}, {}", path.display(), many(about.len(), "byte")));
    }
}

/// Colors, by the choice that `--color`, the environment and the terminal lead to. JSON has none.
fn palette(json: bool, choice: ColorChoice) -> Palette {
    let is_colored = !json && matches!(choice, ColorChoice::Always | ColorChoice::AlwaysAnsi);
    if is_colored { Palette::COLORED } else { Palette::PLAIN }
}

pub(crate) fn is_read_from(path: &Path, capture: &Capture) -> bool {
    let folder = match capture.format {
        _ if capture.in_zip => return is_same(path, &capture.path),
        PackageFormat::Bare => Path::new(""),
        _ if capture.path.is_dir() => &capture.path,
        _ => capture.path.parent().unwrap_or(Path::new("")),
    };
    let buffers = capture.buffers.iter().flat_map(|buffer| &buffer.files).map(|file| &file.name);
    let of_cores = capture.cores.iter().flat_map(|core| &core.images);
    let of_devices = capture.devices.iter().flat_map(|device| &device.images);
    let mut files = buffers.chain(of_cores.chain(of_devices).map(|image| &image.file));
    is_same(path, &capture.path) || files.any(|file| is_same(path, &folder.join(file)))
}

/// Do both paths lead to the same file?
pub(crate) fn is_same(path: &Path, other: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| other.canonicalize().is_ok_and(|other| path == other))
}
