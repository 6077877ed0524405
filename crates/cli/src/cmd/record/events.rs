//! The system event log of a recording.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use unspool::Events;
use unspool::capture::SystemLog;
use unspool::number::many;
use unspool::target::{Reserve, Target, is_stream};

use crate::diagnostic;

/// Refuses to overwrite a log.
pub(super) fn refuse_existing(path: &Path) -> anyhow::Result<()> {
    if path.exists() && !is_stream(path) {
        bail!("{} exists; use --force to replace it", path.display());
    }
    Ok(())
}

/// Writes the log, and reports it.
pub(super) fn write(path: &Path, events: &Events, reserve: &Arc<Reserve>) -> anyhow::Result<()> {
    let write = || {
        let mut out = BufWriter::new(Target::open_with(path, Arc::clone(reserve))?);
        writeln!(
            out,
            "# Code and threads of a recorded system. Times are counts of blocks that all CPUs have executed."
        )?;
        SystemLog::write(&events.list, &mut out)?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.keep()?;
        anyhow::Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    diagnostic::note(format_args!("wrote {}: {}", path.display(), many(events.list.len() as u64, "event")));
    if events.unordered > 0 {
        diagnostic::warning(format_args!(
            "{}: {} of code or threads changed back and forth, and their order is unknown",
            path.display(),
            many(events.unordered, "place")
        ));
    }
    Ok(())
}
