//! Output of a verb: standard output or a file, buffered.
//!
//! Takes lines; writes bytes. An I/O error is kept until [`Output::finish`], so that the library need not handle it.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, bail};
use unspool::capture::{Capture, Format};

use crate::args::OutputArgs;

pub(crate) struct Output {
    name: String,
    out: BufWriter<Box<dyn Write>>,
    failed: Option<io::Error>,
    /// Is the output on a terminal, where a progress bar would disturb it?
    pub(crate) on_terminal: bool,
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

    pub(crate) fn open_for(args: &OutputArgs, input: &Path) -> anyhow::Result<Self> {
        Self::open_unless(args, |path| is_same(path, input).then_some("the trace"))
    }

    /// `role` is what is read from a path, if it is an input.
    pub(crate) fn open_unless(args: &OutputArgs, role: impl Fn(&Path) -> Option<&'static str>) -> anyhow::Result<Self> {
        let Some(path) = args.output.as_deref().filter(|path| *path != Path::new("-")) else {
            return Ok(Self::standard());
        };
        match role(path) {
            Some(role) => bail!("{}: {role} is read from this file; write to another one", path.display()),
            None => Self::create(path),
        }
    }

    fn standard() -> Self {
        Self::to("standard output".into(), Box::new(io::stdout()), io::stdout().is_terminal())
    }

    fn create(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
        Ok(Self::to(name, Box::new(file), false))
    }

    fn to(name: String, out: Box<dyn Write>, on_terminal: bool) -> Self {
        Self { name, out: BufWriter::with_capacity(1 << 16, out), failed: None, on_terminal }
    }

    /// Writes, unless writing failed before.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = write(&mut self.out).err();
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.failed.is_none()
    }

    /// Flushes, and returns the first error.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let done = self.failed.take().map_or_else(|| self.out.flush(), Err);
        done.with_context(|| format!("cannot write {}", self.name))
    }
}

pub(crate) fn is_read_from(path: &Path, capture: &Capture) -> bool {
    let folder = match capture.format {
        _ if capture.in_zip => return is_same(path, &capture.path),
        Format::Bare => Path::new(""),
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
