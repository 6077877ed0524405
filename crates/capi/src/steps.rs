//! Steps: events with their accesses and register writes, lent to C one at a time.

mod event;
mod lent;

use unspool::model::Step;
use unspool::{Items, Opened};

pub use self::event::{
    UnspoolContext, UnspoolEvent, UnspoolException, UnspoolExceptionKind, UnspoolGap, UnspoolGapKind, UnspoolSecurity,
};
use self::lent::LentStep;
pub use self::lent::{UnspoolAccess, UnspoolDirection, UnspoolRegisterWrite, UnspoolStep};
use crate::failure::guard;
use crate::pointer::{borrow_mut, free, output};
use crate::reader::open;
use crate::status::UnspoolStatus;
use crate::trace::UnspoolTrace;

/// Iterator over steps.
pub struct UnspoolSteps {
    items: Items<Step>,
    lent: LentStep,
}

/// Opens an iterator over the steps. Free it with unspool_steps_free.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_steps_open(
    trace: *const UnspoolTrace,
    steps: *mut *mut UnspoolSteps,
) -> UnspoolStatus {
    let iterate = |opened: &Opened| Ok(UnspoolSteps { items: opened.steps()?, lent: LentStep::default() });
    // SAFETY: as required of the caller.
    unsafe { open(trace, steps, iterate) }
}

/// Returns the next step in `step`: it and everything that it points to is valid until the next call with this iterator.
/// Returns UNSPOOL_STATUS_END after the last one. An error stands for a part that cannot be read: the next call continues
/// after it. Damage between steps is a step with a gap.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_steps_next(steps: *mut UnspoolSteps, step: *mut *const UnspoolStep) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let step = unsafe { output(step, std::ptr::null(), "step") }?;
        // SAFETY: as required of the caller.
        let UnspoolSteps { items, lent } = unsafe { borrow_mut(steps, "iterator") }?;
        let Some(next) = items.next() else { return Ok(UnspoolStatus::End) };
        *step = lent.lend(next?);
        Ok(UnspoolStatus::Ok)
    })
}

/// Frees an iterator and its step; NULL is allowed.
///
/// # Safety
///
/// It was not freed before, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_steps_free(steps: *mut UnspoolSteps) {
    // SAFETY: as required of the caller.
    unsafe { free(steps) };
}
