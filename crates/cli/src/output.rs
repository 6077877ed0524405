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
        match args.output.as_deref().filter(|path| *path != Path::new("-")) {
            None => Ok(Self::to("the standard output".into(), Box::new(io::stdout()), io::stdout().is_terminal())),
            Some(path) if is_read_from(path, capture) => {
                bail!("{}: the trace is read from this file; write to another one", path.display())
            }
            Some(path) => {
                let name = path.display().to_string();
                let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
                Ok(Self::to(name, Box::new(file), false))
            }
        }
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
    let Ok(path) = path.canonicalize() else { return false };
    let is_same = |file: &Path| file.canonicalize().is_ok_and(|file| file == path);
    let folder = match capture.format {
        _ if capture.in_zip => return is_same(&capture.path),
        Format::Bare => Path::new(""),
        _ if capture.path.is_dir() => &capture.path,
        _ => capture.path.parent().unwrap_or(Path::new("")),
    };
    let mut files = capture.buffers.iter().flat_map(|buffer| &buffer.files);
    is_same(&capture.path) || files.any(|file| is_same(&folder.join(&file.name)))
}
