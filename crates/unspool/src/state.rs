//! Registers and memory at a place of any trace, by replay of its steps.
//!
//! steps, place ─▶ **state**
//!
//! What is unknown stays unknown: ASTF has neither registers nor data, and a capture has data only if it was traced. A byte
//! of memory is also known before its first read, so a query for memory reads on to the end. Tarmac logs have an index
//! ([`indexed_log`](crate::indexed_log)).

use std::ops::ControlFlow;

use unspool_model::{Facet, SourceError, StepSource};
use unspool_tarmac::index::{State, StepScanner};

use crate::place::PlaceFinder;

/// Result of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// The state; `None`: the trace has no such place.
    pub state: Option<State>,
    /// Damage of the trace, before or after the place.
    pub damage: Option<SourceError>,
}

/// Replays a source up to a place. `has_memory`: memory was asked for. Keeps at most `limit` words of eight bytes of memory
/// per core.
///
/// # Errors
///
/// If the source cannot be read.
pub fn replay(
    source: &mut dyn StepSource,
    finder: &mut PlaceFinder,
    has_memory: bool,
    limit: usize,
) -> Result<Replayed, SourceError> {
    let reads_on = has_memory && source.coverage().has(Facet::Data);
    let mut scanner = StepScanner::new(source.time_unit(), limit);
    let mut is_past = false;
    let ended = source.each(&mut |step| {
        if !is_past && finder.is_after(step) {
            is_past = true;
            scanner.end();
        }
        if is_past && !reads_on {
            return ControlFlow::Break(());
        }
        scanner.step(step);
        ControlFlow::Continue(())
    });
    let damage = match ended {
        Ok(()) => None,
        Err(error) if error.is_damage => Some(error),
        Err(error) => return Err(error),
    };
    Ok(Replayed { state: finder.is_found().then(|| scanner.finish()), damage })
}
