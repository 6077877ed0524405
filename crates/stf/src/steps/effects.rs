//! Effects of instructions, as both emitters take them from records.

use unspool_model::{Direction, ExceptionKind, Step};

use crate::names::EventKind;
use crate::record::{Event, MemAccess};

/// Adds an access with the data that followed it. Further bytes of it are unknown.
pub(super) fn push_access(step: &mut Step, access: &MemAccess, size: u16, data: &[u8]) {
    let direction = match access.kind {
        1 => Direction::Read,
        2 => Direction::Write,
        _ => Direction::Neither,
    };
    let bytes = data.iter().map(|byte| (*byte, 0xff)).chain(std::iter::repeat((0, 0)));
    let length = if data.is_empty() { 0 } else { usize::from(size) };
    step.access_known(direction, access.address, u64::from(size), bytes.take(length));
}

/// The kind of exception that an event is, if it is one.
pub(super) fn exception_kind(event: &Event<'_>) -> Option<ExceptionKind> {
    match EventKind::of(event) {
        EventKind::Syscall | EventKind::Fault => Some(ExceptionKind::Synchronous),
        EventKind::Interrupt => Some(ExceptionKind::Irq),
        EventKind::ModeChange | EventKind::Special => None,
    }
}
