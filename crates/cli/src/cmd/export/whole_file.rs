//! Output files that are written at once, after the traces were read.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::Path;

use anyhow::Context;
use unspool::target::Target;

use crate::output::report_written;

/// Writes a file, and reports it.
pub(super) fn write_file<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> anyhow::Result<T> {
    let mut out = BufWriter::new(Target::open(path)?);
    let written = write(&mut out).and_then(|written| {
        out.into_inner().map_err(IntoInnerError::into_error)?.keep()?;
        Ok(written)
    });
    let written = written.with_context(|| format!("cannot write {}", path.display()))?;
    report_written(path);
    Ok(written)
}
