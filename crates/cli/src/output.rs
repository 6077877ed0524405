//! Where output goes: the standard output or a file, buffered, and quietly ended when the reader has gone.
//!
//! Comes in: lines. Goes out: bytes. An I/O error is kept until the verb asks, so that the rooms need not know of it.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;

use crate::args::OutputArgs;

/// Something to write to.
pub(crate) struct Output {
    out: BufWriter<Box<dyn Write>>,
    failed: Option<io::Error>,
    /// Would a progress bar get in the way of what is printed?
    pub(crate) on_terminal: bool,
}

impl Output {
    /// The standard output, or the file that was asked for.
    pub(crate) fn open(args: &OutputArgs) -> anyhow::Result<Self> {
        match args.output.as_deref() {
            None => Ok(Self::to(Box::new(io::stdout()), io::stdout().is_terminal())),
            Some(path) if path == Path::new("-") => Ok(Self::to(Box::new(io::stdout()), io::stdout().is_terminal())),
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
                Ok(Self::to(Box::new(file), false))
            }
        }
    }

    fn to(out: Box<dyn Write>, on_terminal: bool) -> Self {
        Self { out: BufWriter::with_capacity(1 << 16, out), failed: None, on_terminal }
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
        match self.failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(self.out.flush()?),
        }
    }
}
