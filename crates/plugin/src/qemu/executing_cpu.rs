//! The CPU that a thread of the emulator executes: newer emulators may report another one.

use std::cell::Cell;
use std::ffi::c_uint;

use super::session::{Session, abort};

thread_local! {
    /// The CPU of a system that this thread executes, of an emulator that may report another.
    static CPU: Cell<Option<c_uint>> = const { Cell::new(None) };
}

/// Notes the CPU that this thread executes: no other thread may execute it.
pub(super) fn remember(number: c_uint) {
    if is_first_thread() {
        return;
    }
    if CPU.replace(Some(number)).is_some() {
        abort(
            "this emulator does not distinguish CPUs that share a thread: record one CPU (-smp 1), or without -icount and \
             thread=single, or with QEMU 7.2",
        );
    }
}

/// Whether this is the first thread of the process, which executes no CPU.
fn is_first_thread() -> bool {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    link.file_name().is_some_and(|name| *name == *std::process::id().to_string())
}

/// The CPU that this thread executes, which the emulator reports as this one.
#[inline(always)]
pub(super) fn executing(session: &Session, number: c_uint) -> c_uint {
    if session.has_wrong_cpus { CPU.get().unwrap_or(number) } else { number }
}
