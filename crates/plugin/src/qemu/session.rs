//! The session of the plugin: its options and output, and all threads with their registers.

use std::ffi::c_uint;
use std::io::{self, Write};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use unspool_wire::Access;

use super::interface::{_exit, Bytes, Values, qemu_plugin_mem_is_store, qemu_plugin_mem_size_shift, start_code};
use super::registers::{Functions, Registers};
use crate::block_addresses::BlockAddresses;
use crate::memory::Target;
use crate::options::{From, Options};
use crate::thread::{Kind, Recorder, Thread};
use crate::values::RegisterRecorder;

/// Maximum number of threads at a time.
pub(super) const MAX_THREADS: usize = 4096;

pub(super) static THREADS: [AtomicPtr<Thread>; MAX_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_THREADS];
pub(super) static SESSION: OnceLock<Session> = OnceLock::new();

/// The registers of CPUs, if the emulator reports them.
pub(super) static REGISTERS_OF: [AtomicPtr<Registers>; MAX_THREADS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_THREADS];

/// The recorders of register values, if those are requested.
pub(super) static REGISTER_RECORDERS: [AtomicPtr<RegisterRecorder>; MAX_THREADS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_THREADS];

/// State of the plugin after it was loaded.
pub(super) struct Session {
    pub(super) is_system: bool,
    /// The emulator ends: CPUs stop where they are.
    pub(super) is_ending: AtomicBool,
    pub(super) recorder: Recorder,
    pub(super) options: Options,
    pub(super) target: Target,
    /// Function that returns the bytes of instructions.
    pub(super) bytes: Bytes,
    /// Whether callbacks of a system name the CPU that a block was translated for, and not always the one that executes it.
    pub(super) has_wrong_cpus: bool,
    /// The addresses that blocks were translated for.
    pub(super) addresses: BlockAddresses,
    /// Functions that read operands and the program counter of a system.
    pub(super) registers: Option<Functions>,
    pub(super) values: Option<Values>,
    /// Functions that read registers after instructions, if their values are recorded.
    pub(super) written: Option<Functions>,
    pub(super) next_block: AtomicU32,
}

impl Session {
    /// The address where recording starts, if it is not the first instruction.
    pub(super) fn start_address(&self) -> Option<u64> {
        match self.options.from? {
            From::Address(address) => Some(address),
            // A program is loaded before its code is translated.
            From::Code(offset) => Some(start_code()?.wrapping_add(offset)),
        }
    }
}

/// Ends the emulator at once.
pub(super) fn abort(reason: &str) {
    if !reason.is_empty() {
        // There is no other way to report it.
        let _ = writeln!(io::stderr(), "unspool: {reason}");
    }
    // SAFETY: nothing has to be done at the end.
    unsafe { _exit(1) }
}

#[inline(always)]
pub(super) fn thread(number: c_uint) -> Option<&'static mut Thread> {
    let slot = THREADS.get(number as usize)?;
    // SAFETY: the pointer comes from a box and is never freed; the module docs explain why there is one reference only.
    unsafe { slot.load(Ordering::Relaxed).as_mut() }
}

#[inline(always)]
pub(super) fn thread_of(number: c_uint) -> Option<(&'static mut Thread, &'static Recorder)> {
    Some((thread(number)?, &SESSION.get()?.recorder))
}

/// Ends a thread, if it has not ended.
pub(super) fn end(number: usize) {
    let (Some(session), Some(slot)) = (SESSION.get(), THREADS.get(number)) else { return };
    // SAFETY: as in `thread`; it is removed, so that it ends once.
    if let Some(thread) = unsafe { slot.swap(ptr::null_mut(), Ordering::Relaxed).as_mut() } {
        thread.end(&session.recorder);
    }
}

pub(super) fn kind(info: u32) -> Kind {
    // SAFETY: the information comes from the emulator.
    let (size, is_store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
    Kind { info, kind: Access::kind(size, is_store) }
}
