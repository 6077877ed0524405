//! The interface to the emulator: its callbacks, and the functions that they call.
//!
//! This module is the only one of the crate with `unsafe` code, which cannot be avoided: the emulator is written in C and
//! loads the plugin by name. Its functions are declared by hand (`interface`). Everything else is safe code.
//!
//! The emulator passes a word to each callback, and that word is all that a callback needs: it is no pointer, unless
//! register values are recorded. Threads are found by their number. The emulator calls back for a thread on that thread
//! alone, or, when the program ends, while no other runs: so there is never a second reference to one.
#![allow(unsafe_code)]

mod executing_cpu;
mod interface;
mod log;
mod program;
mod register_values;
mod registers;
mod session;
mod shared_memory;
mod system;
mod translate;
mod window;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use unspool_wire::{EmulatorCapabilities, Header};

use self::interface::*;
use self::registers::{Functions, Registers};
use self::session::{REGISTER_RECORDERS, REGISTERS_OF, SESSION, Session, THREADS, abort};
use crate::block_addresses::BlockAddresses;
use crate::memory::Target;
use crate::options::{From, Options};
use crate::output::Output;
use crate::thread::{Recorder, Thread};
use crate::values::RegisterRecorder;

/// The emulator starts.
///
/// # Safety
/// Only the emulator may call it, with the arguments that its interface has.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the emulator passes what its interface defines: information, and an array of zero-terminated strings.
    let (info, target, words) = unsafe {
        let info = &*info.cast::<Info>();
        let target = CStr::from_ptr(info.target_name).to_str().unwrap_or_default();
        let words: Vec<&str> =
            (0..count).map(|index| CStr::from_ptr(*arguments.add(index)).to_str().unwrap_or_default()).collect();
        (info, target, words)
    };
    match start(info, target, &words) {
        Ok(None) => idle(id),
        Ok(Some(session)) => match SESSION.set(session) {
            Ok(()) => register(id),
            Err(_) => refuse("the plugin is loaded twice"),
        },
        Err(reason) => refuse(&reason),
    }
}

/// The session; `None`: nothing is recorded.
fn start(info: &Info, target: &str, words: &[&str]) -> Result<Option<Session>, String> {
    let options = Options::read(words.iter().copied())?;
    if options.is_idle {
        return Ok(None);
    }
    let is_system = info.is_system;
    if is_system != options.log.is_some() {
        return Err("a system needs log=PATH, a program must not have it".into());
    }
    if matches!(options.from, Some(From::Code(_))) && !has_start_code() {
        return Err(
            "this emulator does not report where the code of the program is: use an address instead of a function"
                .into(),
        );
    }
    // A system would run endlessly.
    let on_closed = if is_system { || abort("") } else { || {} };
    let registers = Functions::find().filter(|_| is_system);
    if is_system && info.version >= 2 && registers.is_none() {
        return Err("this emulator does not report where code is executed".into());
    }
    let written = options.has_registers.then(Functions::find).flatten();
    if options.has_registers && written.is_none() {
        return Err("this emulator does not report registers: QEMU 9.0 or later with plugins does".into());
    }
    let values = options.has_data.then(Values::find).flatten();
    let capabilities =
        EmulatorCapabilities { data: values.is_some(), registers: written.is_some(), operands: registers.is_some() };
    let header = Header { target: target.into(), capabilities };
    let memory = shared_memory::buffers(options.memory.as_deref(), move_up);
    let memory = memory.map_err(|error| format!("the memory for records: {error}"))?;
    let output = Output::open(&options.out, &header, memory, move_up, on_closed);
    let recorder = Recorder::new(&options, output.map_err(|error| format!("{}: {error}", options.out))?);
    Ok(Some(Session {
        is_system,
        is_ending: AtomicBool::new(false),
        recorder,
        options,
        target: Target::of(target),
        bytes: Bytes::new(info.version),
        has_wrong_cpus: is_system && info.version >= 2,
        addresses: BlockAddresses::new(),
        registers,
        values,
        written,
        // A record of block 0 would be a word of zeros, which is the end of a buffer.
        next_block: AtomicU32::new(1),
    }))
}

fn idle(id: Id) -> c_int {
    // SAFETY: the callback has the type of the interface, and lives as long as the emulator.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translate::translated_idle) };
    0
}

/// Moves a descriptor to a high number: the program shares the numbers of open files with the plugin.
fn move_up(descriptor: OwnedFd) -> OwnedFd {
    // SAFETY: the descriptor is open, and the result is a new one, or negative.
    unsafe {
        match fcntl(descriptor.as_raw_fd(), F_DUPFD_CLOEXEC, 1000) {
            moved if moved >= 0 => OwnedFd::from_raw_fd(moved),
            _ => descriptor,
        }
    }
}

fn register(id: Id) -> c_int {
    // SAFETY: callbacks have the types of the interface, and live as long as the emulator.
    unsafe {
        qemu_plugin_register_vcpu_init_cb(id, thread_starts);
        qemu_plugin_register_vcpu_tb_trans_cb(id, translate::translated);
        if SESSION.get().is_some_and(|session| session.is_system) {
            qemu_plugin_register_vcpu_idle_cb(id, system::idle);
            // A system that waits would not notice that the recorder has ended.
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            qemu_plugin_register_atexit_cb(id, system::emulator_ends, ptr::null_mut());
            return 0;
        }
        qemu_plugin_register_vcpu_exit_cb(id, program::thread_ends);
        qemu_plugin_register_vcpu_syscall_cb(id, program::called);
        qemu_plugin_register_vcpu_syscall_ret_cb(id, program::returned);
        qemu_plugin_register_atexit_cb(id, program::program_ends, ptr::null_mut());
    }
    0
}

/// Reports why nothing is recorded, and lets the emulator end.
fn refuse(reason: &str) -> c_int {
    // The emulator prints messages of plugins only if it logs them.
    let _ = writeln!(io::stderr(), "unspool: {reason}");
    1
}

extern "C" fn thread_starts(_: Id, number: c_uint) {
    if SESSION.get().is_some_and(|session| session.has_wrong_cpus) {
        executing_cpu::remember(number);
    }
    let requested = SESSION.get().and_then(|session| Some((session, session.registers.or(session.written)?)));
    if let (Some((session, functions)), Some(slot)) = (requested, REGISTERS_OF.get(number as usize)) {
        // SAFETY: a CPU starts on this thread; the registers before are never freed.
        let registers = unsafe { Registers::of_new_cpu(functions, session.target) };
        slot.store(Box::into_raw(Box::new(registers)), Ordering::Relaxed);
        if let Some(slot) = REGISTER_RECORDERS.get(number as usize).filter(|_| session.written.is_some()) {
            let recorder = RegisterRecorder::new(session.target, !session.is_system);
            slot.store(Box::into_raw(Box::new(recorder)), Ordering::Relaxed);
        }
    }
    if let (Some(session), Some(slot)) = (SESSION.get(), THREADS.get(number as usize)) {
        let thread = Box::into_raw(Box::new(Thread::new(&session.recorder, number)));
        // The thread that had the number before has ended. It may still be in use, and is not freed.
        slot.store(thread, Ordering::Relaxed);
    }
}
