//! Where output goes: the standard output or a file, buffered, and quietly ended when the reader has gone.
//!
//! Comes in: lines. Goes out: bytes. An I/O error is kept until the verb asks, so that the rooms need not know of it.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, bail};
use unspool::capture::{Capture, Format};

use crate::args::OutputArgs;

/// Something to write to.
pub(crate) struct Output {
    name: String,
    out: BufWriter<Box<dyn Write>>,
    failed: Option<io::Error>,
    /// Would a progress bar get in the way of what is printed?
    pub(crate) on_terminal: bool,
}

impl Output {
    /// The standard output, or the file that was asked for, which must not be one of the capture.
    pub(crate) fn open(args: &OutputArgs, capture: &Capture) -> anyhow::Result<Self> {
        Self::open_beside(args, capture, &[])
    }

    /// As [`open`](Self::open); the file must not be one of these either.
    pub(crate) fn open_beside(args: &OutputArgs, capture: &Capture, others: &[&Path]) -> anyhow::Result<Self> {
        match args.output.as_deref().filter(|path| *path != Path::new("-")) {
            None => Ok(Self::standard()),
            Some(path) if is_read_from(path, capture) => {
                bail!("{}: the trace is read from this file; write to another one", path.display())
            }
            Some(path) if others.iter().any(|other| is_same(path, other)) => {
                bail!("{}: code is read from this file; write to another one", path.display())
            }
            Some(path) => Self::create(path),
        }
    }

    /// The standard output, or the file that was asked for, which must not be the one that is read.
    pub(crate) fn open_for(args: &OutputArgs, input: &Path) -> anyhow::Result<Self> {
        match args.output.as_deref().filter(|path| *path != Path::new("-")) {
            None => Ok(Self::standard()),
            Some(path) if is_same(path, input) => {
                bail!("{}: the trace is read from this file; write to another one", path.display())
            }
            Some(path) => Self::create(path),
        }
    }

    fn standard() -> Self {
        Self::to("the standard output".into(), Box::new(io::stdout()), io::stdout().is_terminal())
    }

    fn create(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
        Ok(Self::to(name, Box::new(file), false))
    }

    fn to(name: String, out: Box<dyn Write>, on_terminal: bool) -> Self {
        Self { name, out: BufWriter::with_capacity(1 << 16, out), failed: None, on_terminal }
    }

    /// Writes unless writing has failed before.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = write(&mut self.out).err();
        }
    }

    /// Can more be written?
    pub(crate) fn is_open(&self) -> bool {
        self.failed.is_none()
    }

    /// Everything is written, or why not.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let done = self.failed.take().map_or_else(|| self.out.flush(), Err);
        done.with_context(|| format!("cannot write {}", self.name))
    }
}

fn is_read_from(path: &Path, capture: &Capture) -> bool {
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

/// Do both lead to the same file?
pub(crate) fn is_same(path: &Path, other: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| other.canonicalize().is_ok_and(|other| path == other))
}
