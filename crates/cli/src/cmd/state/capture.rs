//! State at a place of a source of a capture: by its index, or by a replay from its beginning.

use std::fs::File;
use std::sync::Arc;

use unspool::Meter;
use unspool::indexed_log::LogError;
use unspool::indexed_steps::{make_capture_index, open_capture_index, with_capture_index};
use unspool::place::Place;
use unspool::tarmac::index::Index;

use super::{Answer, Args, INSTRUCTION, find_in_steps, query};
use crate::cmd::index::{IndexableSource, check_foreign};
use crate::diagnostic;
use crate::file::with_hint;
use crate::progress::Progress;

/// Size of the trace of a source that is read without an index.
const SMALL: u64 = 4 << 20;

pub(super) fn find_in_capture(args: &Args) -> anyhow::Result<Answer> {
    let mut source = IndexableSource::open(&args.log.log, args.source.as_deref(), &args.images, &args.processes)
        .map_err(|error| with_hint(error, args.log.tarmac.hint))?;
    let index = index_of(args, &mut source)?;
    let IndexableSource { steps, .. } = source;
    let program = Arc::clone(steps.program());
    if let Some(index) = index {
        return query(args, &args.positions_in(&program)?, &mut with_capture_index(steps, index), INSTRUCTION);
    }
    let meter = Meter::new(Some(steps.size()));
    let steps = Box::new(steps.counting(&meter.read));
    find_in_steps(args, &args.log.log.display().to_string(), steps, &program, &meter)
}

/// The index of a source, which is made if there is none. `None`: the source is small, or an index does not help.
fn index_of(args: &Args, source: &mut IndexableSource) -> anyhow::Result<Option<Index<File>>> {
    // An index has the numbers of instructions, and not offsets; a source has one core.
    let is_other_core = args.core.as_ref().is_some_and(|core| core.number() != Some(0));
    if matches!(args.at, Place::Position(_)) || is_other_core {
        return Ok(None);
    }
    let path = source.index_path(args.index.as_ref());
    match open_capture_index(&path, &source.fingerprint) {
        Ok(index) => return Ok(Some(index)),
        Err(error) if error.is_absent() && args.index.is_none() && source.steps.size() < SMALL => return Ok(None),
        Err(error) if error.is_absent() => {}
        Err(error) if error.is_stale() => {
            check_foreign(&path, &error, args.output.force.is_given() || args.index.is_none())?;
            diagnostic::note(format_args!("{error}; it is rebuilt"));
        }
        Err(error) => return Err(error.into()),
    }
    let fingerprint = source.fingerprint;
    match make_capture_index(&mut source.steps, fingerprint, &path, &mut Progress::new(false).callback()) {
        Ok(_) => Ok(Some(open_capture_index(&path, &fingerprint)?)),
        Err(LogError::NotSeekable { .. }) => Ok(None),
        // A capture may be in a folder that is only for reading.
        Err(error @ LogError::File { .. }) if args.index.is_none() => {
            diagnostic::note(format_args!("{error}; the trace is read from its beginning"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
