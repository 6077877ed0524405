//! The border to the emulator: what it calls, and what it is asked.
//!
//! This room is the only one of the project with `unsafe` code, and there is no way around it: the emulator is written in
//! C and loads us by name. Its functions are declared by hand (`interface`). Everything behind the border is safe code.
//!
//! The emulator hands back a word with each callback, and that word is all that a callback needs: there is no pointer in
//! it, unless what instructions write is asked for. Threads are found by their number. The emulator calls back for a thread
//! on that thread alone, or, when the program ends, while no other runs: so there is never a second reference to one.
#![allow(unsafe_code)]

mod follow;
mod interface;
mod lent;
mod registers;
mod system;
mod translate;
mod window;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use self::interface::*;
use self::registers::{Functions, Registers};
pub(crate) use self::window::Window;
use crate::memory::Target;
use crate::options::{From, Options};
use crate::places::Places;
use crate::thread::{Block, Kind, Recorder, Thread};
use crate::values::Follower;

/// More threads at a time are not recorded.
const MOST_THREADS: usize = 4096;

static THREADS: [AtomicPtr<Thread>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];
static SESSION: OnceLock<Session> = OnceLock::new();

/// What is in the registers of CPUs, if the emulator tells that.
static REGISTERS_OF: [AtomicPtr<Registers>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];

/// Who follows what instructions write, if that is asked for.
static FOLLOWERS: [AtomicPtr<Follower>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];

struct Session {
    is_system: bool,
    /// The emulator ends: CPUs stop where they are.
    is_ending: AtomicBool,
    recorder: Recorder,
    options: Options,
    target: Target,
    /// How the emulator gives out code.
    bytes: Bytes,
    /// Of a system: callbacks name the CPU that a block was translated for, and not always that which executes it.
    is_vague: bool,
    /// Where blocks were translated.
    places: Places,
    /// What it tells besides.
    registers: Option<Functions>,
    values: Option<Values>,
    /// What instructions write into registers is told.
    written: Option<Functions>,
    next_block: AtomicU32,
}

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
    // SAFETY: the emulator hands over what its interface says: information, and so many strings that end with a zero.
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
            Err(_) => refuse("it is loaded twice"),
        },
        Err(reason) => refuse(&reason),
    }
}

/// What is recorded; `None`: nothing is.
fn start(info: &Info, target: &str, words: &[&str]) -> Result<Option<Session>, String> {
    let options = Options::read(words.iter().copied())?;
    if options.is_idle {
        return Ok(None);
    }
    let is_system = info.is_system;
    if is_system != options.log.is_some() {
        return Err("systems are recorded with log=PATH, programs without it".into());
    }
    if matches!(options.from, Some(From::Code(_))) && !tells_start_code() {
        return Err(
            "this emulator does not tell where the code of the program is: say an address, and no function".into()
        );
    }
    // A system would run for ever.
    let gone = if is_system { || give_up("") } else { || {} };
    let registers = Functions::find().filter(|_| is_system);
    if is_system && info.version >= 2 && registers.is_none() {
        return Err("this emulator does not tell where code is executed".into());
    }
    let written = options.has_registers.then(Functions::find).flatten();
    if options.has_registers && written.is_none() {
        return Err("this emulator does not tell what is in registers: QEMU 9.0 or later with plugins does".into());
    }
    let values = options.has_data.then(Values::find).flatten();
    let told = [(registers.is_some(), " registers"), (values.is_some(), " data"), (written.is_some(), " written")];
    let told = told.map(|(is_told, word)| if is_told { word } else { "" }).concat();
    let buffers = options.memory.as_deref().map(lent::buffers).transpose();
    let buffers = buffers.map_err(|error| format!("the memory for records: {error}"))?.unwrap_or_default();
    let recorder = Recorder::new(&options, &format!("{target}{told}"), buffers, move_up, gone);
    let recorder = recorder.map_err(|error| format!("{}: {error}", options.out))?;
    Ok(Some(Session {
        is_system,
        is_ending: AtomicBool::new(false),
        recorder,
        options,
        target: Target::of(target),
        bytes: Bytes::new(info.version),
        is_vague: is_system && info.version >= 2,
        places: Places::new(),
        registers,
        values,
        written,
        next_block: AtomicU32::new(0),
    }))
}

/// Ends the emulator as it stands.
fn give_up(reason: &str) {
    if !reason.is_empty() {
        // There is nobody else to tell.
        let _ = writeln!(io::stderr(), "unspool: {reason}");
    }
    // SAFETY: nothing of ours has to be done at the end.
    unsafe { _exit(1) }
}

fn idle(id: Id) -> c_int {
    // SAFETY: the callback has the type that the interface has for it, and is there as long as the emulator.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translate::translated_idle) };
    0
}

/// The program shares the numbers of open files with us: ours is one that it does not see come or go.
fn move_up(descriptor: OwnedFd) -> OwnedFd {
    // SAFETY: the descriptor is open, and what is given back is one of our own, or negative.
    unsafe {
        match fcntl(descriptor.as_raw_fd(), F_DUPFD_CLOEXEC, 1000) {
            moved if moved >= 0 => OwnedFd::from_raw_fd(moved),
            _ => descriptor,
        }
    }
}

fn register(id: Id) -> c_int {
    // SAFETY: callbacks have the types that the interface has for them, and are there as long as the emulator.
    unsafe {
        qemu_plugin_register_vcpu_init_cb(id, thread_starts);
        qemu_plugin_register_vcpu_tb_trans_cb(id, translate::translated);
        if SESSION.get().is_some_and(|session| session.is_system) {
            qemu_plugin_register_vcpu_idle_cb(id, system::idle);
            // A system that waits for ever would not see that nobody listens.
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            qemu_plugin_register_atexit_cb(id, system::ends, ptr::null_mut());
            return 0;
        }
        qemu_plugin_register_vcpu_exit_cb(id, thread_ends);
        qemu_plugin_register_vcpu_syscall_cb(id, called);
        qemu_plugin_register_vcpu_syscall_ret_cb(id, returned);
        qemu_plugin_register_atexit_cb(id, program_ends, ptr::null_mut());
    }
    0
}

/// Tells why nothing is recorded, and lets the emulator end.
fn refuse(reason: &str) -> c_int {
    // The emulator says what fails only if it logs what plugins say.
    let _ = writeln!(io::stderr(), "unspool: {reason}");
    1
}

/// The thread, if it is there.
#[inline(always)]
fn thread(number: c_uint) -> Option<&'static mut Thread> {
    let place = THREADS.get(number as usize)?;
    // SAFETY: what is there was made from a box and is never freed; who else may use it is said at the top.
    unsafe { place.load(Ordering::Relaxed).as_mut() }
}

/// The thread, and where its records go.
#[inline(always)]
fn thread_of(number: c_uint) -> Option<(&'static mut Thread, &'static Recorder)> {
    Some((thread(number)?, &SESSION.get()?.recorder))
}

extern "C" fn thread_starts(_: Id, number: c_uint) {
    if SESSION.get().is_some_and(|session| session.is_vague) {
        system::remember(number);
    }
    let asked = SESSION.get().and_then(|session| Some((session, session.registers.or(session.written)?)));
    if let (Some((session, functions)), Some(place)) = (asked, REGISTERS_OF.get(number as usize)) {
        // SAFETY: the emulator says so; what was there before is never freed.
        let registers = unsafe { Registers::of_new_cpu(functions, session.target) };
        place.store(Box::into_raw(Box::new(registers)), Ordering::Relaxed);
        if let Some(place) = FOLLOWERS.get(number as usize).filter(|_| session.written.is_some()) {
            let follower = Follower::new(session.target, !session.is_system);
            place.store(Box::into_raw(Box::new(follower)), Ordering::Relaxed);
        }
    }
    if let (Some(session), Some(place)) = (SESSION.get(), THREADS.get(number as usize)) {
        let thread = Box::into_raw(Box::new(Thread::new(&session.recorder, number)));
        // The thread that had the number before has ended; it may be in use still, so that it is not freed.
        place.store(thread, Ordering::Relaxed);
    }
}

extern "C" fn thread_ends(_: Id, number: c_uint) {
    end(number as usize);
}

extern "C" fn program_ends(_: Id, _: *mut c_void) {
    (0..MOST_THREADS).for_each(end);
}

fn end(number: usize) {
    let (Some(session), Some(place)) = (SESSION.get(), THREADS.get(number)) else { return };
    // SAFETY: as in `thread`; nobody finds it any more, so that it ends once.
    if let Some(thread) = unsafe { place.swap(ptr::null_mut(), Ordering::Relaxed).as_mut() } {
        thread.end(&session.recorder);
    }
}

extern "C" fn called(_: Id, number: c_uint, call: i64, a: u64, b: u64, c: u64, _: u64, _: u64, _: u64, _: u64, _: u64) {
    if let Some((thread, recorder)) = thread_of(number) {
        thread.call(recorder, call, [a, b, c]);
    }
}

extern "C" fn returned(_: Id, number: c_uint, call: i64, result: i64) {
    if let Some((thread, recorder)) = thread_of(number) {
        thread.call_return(recorder, call, result);
    }
}

extern "C" fn executed(number: c_uint, word: *mut c_void) {
    let word = word.addr() as u64;
    if let Some(thread) = thread(number)
        && !thread.block(Block::unpack(word))
    {
        executed_slowly(thread, word);
    }
}

#[cold]
#[inline(never)]
fn executed_slowly(thread: &mut Thread, word: u64) {
    if let Some(session) = SESSION.get() {
        thread.block_slowly(&session.recorder, word);
    }
}

/// A block starts, and registers that the one before wrote are told.
extern "C" fn executed_followed(number: c_uint, word: *mut c_void) {
    follow::follow(number, |follower, with| follower.block(false, with));
    executed(number, word);
}

extern "C" fn marked(number: c_uint, index: *mut c_void) {
    if let Some(thread) = thread(number) {
        thread.mark(index.addr() as u16);
    }
}

extern "C" fn accessed(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let index = index.addr() as u16;
    if let Some(thread) = thread(number)
        && !thread.access(info, index, address)
    {
        accessed_slowly(thread, info, index, address);
    }
}

/// The same of an instruction that is complete then, and not the last of its block.
extern "C" fn accessed_whole(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let index = index.addr() as u16;
    if let Some(thread) = thread(number) {
        thread.mark(index + 1);
        if !thread.access(info, index, address) {
            accessed_slowly(thread, info, index, address);
        }
    }
}

/// The same, with what is read or written.
extern "C" fn accessed_with_data(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let values = SESSION.get().and_then(|session| session.values);
    // SAFETY: the emulator tells it at the moment.
    let value = values.and_then(|values| unsafe { values.of(info) });
    if let (Some((thread, recorder)), Some(value)) = (thread_of(number), value) {
        thread.data(recorder, value.words());
    }
    accessed(number, info, address, index);
}

#[cold]
#[inline(never)]
fn accessed_slowly(thread: &mut Thread, info: u32, index: u16, address: u64) {
    if let Some(session) = SESSION.get() {
        thread.access_slowly(&session.recorder, kind(info), index, address);
    }
}

/// What the emulator means.
fn kind(info: u32) -> Kind {
    // SAFETY: the emulator made what it is asked about.
    let (size, is_store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
    Kind { info, kind: (size & 7) as u8 | u8::from(is_store) << 3 }
}
