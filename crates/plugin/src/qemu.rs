//! The border to the emulator: what it calls, and what it is asked.
//!
//! This is the only file of the project with `unsafe` code, and there is no way around it: the emulator is written in C
//! and loads us by name. Its functions are declared here by hand, as version 1 of its interface has them (QEMU 4.2 to
//! 8.x); who loads us has them. Everything behind the border is safe code.
//!
//! The emulator hands back a word with each callback, and that word is all that a callback needs: there is no pointer in
//! it. Threads are found by their number. The emulator calls back for a thread on that thread alone, or, when the program
//! ends, while no other runs: so there is never a second reference to one.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::log::Log;
use crate::memory::Target;
use crate::options::{From, Options};
use crate::thread::{Block, Kind, Recorder, Thread};

type Id = u64;
type Callback = extern "C" fn(c_uint, *mut c_void);
type AccessCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);

/// A block of code while it is translated.
#[repr(C)]
struct QemuBlock([u8; 0]);

/// An instruction of it.
#[repr(C)]
struct QemuInstruction([u8; 0]);

/// What the emulator says of itself.
#[repr(C)]
struct Info {
    target_name: *const c_char,
    oldest_version: c_int,
    version: c_int,
    is_system: bool,
    cpus: c_int,
    most_cpus: c_int,
}

/// Callbacks do not look at registers.
const NO_REGISTERS: c_uint = 0;
/// Reads and writes.
const BOTH: c_uint = 3;
/// What a process gets when the one that started it ends.
const PR_SET_PDEATHSIG: c_int = 1;
const SIGTERM: c_ulong = 15;
/// The lowest free number from a given one on, closed in programs that are started.
const F_DUPFD_CLOEXEC: c_int = 1030;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_init_cb(id: Id, call: extern "C" fn(Id, c_uint));
    fn qemu_plugin_register_vcpu_exit_cb(id: Id, call: extern "C" fn(Id, c_uint));
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, call: extern "C" fn(Id, *mut QemuBlock));
    fn qemu_plugin_register_atexit_cb(id: Id, call: extern "C" fn(Id, *mut c_void), data: *mut c_void);
    #[allow(clippy::type_complexity)]
    fn qemu_plugin_register_vcpu_syscall_cb(
        id: Id,
        call: extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64),
    );
    fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, call: extern "C" fn(Id, c_uint, i64, i64));
    fn qemu_plugin_register_vcpu_tb_exec_cb(block: *mut QemuBlock, call: Callback, flags: c_uint, data: *mut c_void);
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut QemuInstruction,
        call: Callback,
        flags: c_uint,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut QemuInstruction,
        call: AccessCallback,
        flags: c_uint,
        which: c_uint,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const QemuBlock) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const QemuBlock, index: usize) -> *mut QemuInstruction;
    fn qemu_plugin_tb_vaddr(block: *const QemuBlock) -> u64;
    fn qemu_plugin_insn_data(instruction: *const QemuInstruction) -> *const c_void;
    fn qemu_plugin_insn_size(instruction: *const QemuInstruction) -> usize;
    fn qemu_plugin_insn_vaddr(instruction: *const QemuInstruction) -> u64;
    fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    fn qemu_plugin_mem_is_store(info: u32) -> bool;
    fn qemu_plugin_start_code() -> u64;
    fn qemu_plugin_outs(text: *const c_char);
    fn qemu_plugin_register_vcpu_idle_cb(id: Id, call: extern "C" fn(Id, c_uint));
    fn mmap(at: *mut c_void, length: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, length: usize) -> c_int;
    fn fallocate(file: c_int, mode: c_int, offset: i64, length: i64) -> c_int;
    fn _exit(code: c_int) -> !;
    fn prctl(what: c_int, ...) -> c_int;
    fn fcntl(descriptor: c_int, command: c_int, argument: c_int) -> c_int;
}

/// The version of the interface that this is made for; the emulator reads it.
#[unsafe(no_mangle)]
pub(crate) static qemu_plugin_version: c_int = 1;

/// More threads at a time are not recorded.
const MOST_THREADS: usize = 4096;

static THREADS: [AtomicPtr<Thread>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];
static SESSION: OnceLock<Session> = OnceLock::new();

/// CPUs of a system that have sent all that they have.
static QUIET: [AtomicBool; MOST_THREADS] = [const { AtomicBool::new(true) }; MOST_THREADS];

thread_local! {
    /// The log of this thread of the emulator. It is never freed: a thread may end the emulator, which drops its values
    /// before it tells us.
    static LOG: Cell<Option<&'static RefCell<Log>>> = const { Cell::new(None) };
}

struct Session {
    is_system: bool,
    /// The emulator ends: CPUs stop where they are.
    is_ending: AtomicBool,
    recorder: Recorder,
    options: Options,
    target: Target,
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
    match start(target, info.is_system, &words) {
        Ok(None) => idle(id),
        Ok(Some(session)) => match SESSION.set(session) {
            Ok(()) => register(id),
            Err(_) => refuse("it is loaded twice"),
        },
        Err(reason) => refuse(&reason),
    }
}

/// What is recorded; `None`: nothing is.
fn start(target: &str, is_system: bool, words: &[&str]) -> Result<Option<Session>, String> {
    let options = Options::read(words.iter().copied())?;
    if options.is_idle {
        return Ok(None);
    }
    if is_system != options.log.is_some() {
        return Err("systems are recorded with log=PATH, programs without it".into());
    }
    // A system would run for ever.
    let gone = if is_system { || give_up("") } else { || {} };
    let recorder = Recorder::new(&options, target, move_up, gone);
    let recorder = recorder.map_err(|error| format!("{}: {error}", options.out))?;
    let (target, is_ending) = (Target::of(target), AtomicBool::new(false));
    Ok(Some(Session { is_system, is_ending, recorder, options, target, next_block: AtomicU32::new(0) }))
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
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated_idle) };
    0
}

/// A block of code was translated, of which nothing is recorded.
extern "C" fn translated_idle(_: Id, block: *mut QemuBlock) {
    extern "C" fn executed(_: c_uint, _: *mut c_void) {}
    extern "C" fn accessed(_: c_uint, _: u32, _: u64, _: *mut c_void) {}
    // SAFETY: the emulator hands over a block, and answers about it and its instructions until we return.
    unsafe {
        for index in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, NO_REGISTERS, ptr::null_mut());
            qemu_plugin_register_vcpu_mem_cb(instruction, accessed, NO_REGISTERS, BOTH, ptr::null_mut());
        }
    }
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
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        if SESSION.get().is_some_and(|session| session.is_system) {
            qemu_plugin_register_vcpu_idle_cb(id, system_idle);
            // A system that waits for ever would not see that nobody listens.
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            qemu_plugin_register_atexit_cb(id, system_ends, ptr::null_mut());
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

/// The thread and the session, if both are there.
#[inline(always)]
fn thread(number: c_uint) -> Option<(&'static mut Thread, &'static Recorder)> {
    let session = SESSION.get()?;
    let place = THREADS.get(number as usize)?;
    // SAFETY: what is there was made from a box and is never freed; who else may use it is said at the top.
    let thread = unsafe { place.load(Ordering::Relaxed).as_mut() }?;
    Some((thread, &session.recorder))
}

extern "C" fn thread_starts(_: Id, number: c_uint) {
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

/// A block of a system starts: what was logged happened before it.
extern "C" fn system_executed(number: c_uint, word: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    if QUIET.get(number as usize).is_some_and(|quiet| quiet.load(Ordering::Relaxed)) {
        wake(session, number);
    }
    look_at_log(session, number);
    if let Some((thread, recorder)) = thread(number) {
        if session.is_ending.load(Ordering::Relaxed) {
            rest(number, thread, recorder);
        }
        thread.system_block(recorder, Block::unpack(word.addr() as u64));
    }
}

#[cold]
fn wake(session: &'static Session, number: c_uint) {
    if let Some(quiet) = QUIET.get(number as usize) {
        quiet.store(session.is_ending.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The emulator ends, and this CPU is not the one that ends it.
#[cold]
fn rest(number: c_uint, thread: &mut Thread, recorder: &Recorder) {
    thread.end(recorder);
    if let Some(quiet) = QUIET.get(number as usize) {
        quiet.store(true, Ordering::Release);
    }
    loop {
        thread::park();
    }
}

extern "C" fn system_accessed(number: c_uint, info: u32, address: u64, word: *mut c_void) {
    if let Some((thread, recorder)) = thread(number) {
        let word = word.addr() as u64;
        thread.system_access(recorder, kind(info), ((word >> 16) as u32, word as u16), address);
    }
}

/// A CPU has nothing to do, or is stopped.
extern "C" fn system_idle(_: Id, number: c_uint) {
    if let Some((thread, recorder)) = thread(number) {
        thread.flush(recorder);
        if let Some(quiet) = QUIET.get(number as usize) {
            quiet.store(true, Ordering::Release);
        }
    }
}

#[inline(always)]
fn look_at_log(session: &'static Session, number: c_uint) {
    match LOG.get() {
        Some(log) => {
            let mut log = log.borrow_mut();
            if log.has_news() {
                tell_news(session, &mut log);
            }
            log.execute(number);
        }
        None => open_log(session, number),
    }
}

/// Each part goes to the CPU that it is about. CPUs with a thread of their own have a log of their own.
#[cold]
fn tell_news(session: &'static Session, log: &mut Log) {
    let told = log.take(|cpu, text| {
        if let Some((thread, recorder)) = thread(cpu) {
            thread.text(recorder, text);
        }
    });
    if let Err(error) = told {
        give_up(&format!("{}: {error}", session.options.log.as_deref().unwrap_or_default()));
    }
}

/// The emulator makes the log of a thread when that has something to say.
#[cold]
fn open_log(session: &'static Session, number: c_uint) {
    let pattern = session.options.log.as_deref().unwrap_or_default();
    // SAFETY: the text ends with a zero.
    unsafe { qemu_plugin_outs(c"recorded by unspool\n".as_ptr()) };
    match Log::open(pattern, number) {
        Ok(log) => LOG.set(Some(Box::leak(Box::new(RefCell::new(log))))),
        Err(error) => give_up(&format!("{pattern}: {error}: the emulator has to log with -d int,tid,plugin")),
    }
}

/// How long other CPUs may take to come to rest.
const MOST_WAITS: u32 = 200;
const WAIT: Duration = Duration::from_millis(1);

/// One CPU ended it, or the emulator stopped all of them. Others may still be on their way: each sends what it has.
extern "C" fn system_ends(_: Id, _: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    session.is_ending.store(true, Ordering::Relaxed);
    if let Some(log) = LOG.get() {
        let mut log = log.borrow_mut();
        tell_news(session, &mut log);
        log.cpus.iter().for_each(|cpu| {
            end(*cpu as usize);
            QUIET.get(*cpu as usize).iter().for_each(|quiet| quiet.store(true, Ordering::Relaxed));
        });
    }
    for _ in 0..MOST_WAITS {
        if QUIET.iter().all(|quiet| quiet.load(Ordering::Acquire)) {
            return;
        }
        thread::sleep(WAIT);
    }
}

extern "C" fn called(_: Id, number: c_uint, call: i64, a: u64, b: u64, c: u64, _: u64, _: u64, _: u64, _: u64, _: u64) {
    if let Some((thread, recorder)) = thread(number) {
        thread.call(recorder, call, [a, b, c]);
    }
}

extern "C" fn returned(_: Id, number: c_uint, call: i64, result: i64) {
    if let Some((thread, recorder)) = thread(number) {
        thread.call_return(recorder, call, result);
    }
}

extern "C" fn executed(number: c_uint, word: *mut c_void) {
    let block = Block::unpack(word.addr() as u64);
    if let Some((thread, recorder)) = thread(number)
        && !thread.block(block)
    {
        thread.block_slowly(recorder, block);
    }
}

extern "C" fn marked(number: c_uint, index: *mut c_void) {
    if let Some((thread, _)) = thread(number) {
        thread.mark(index.addr() as u16);
    }
}

extern "C" fn accessed(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let index = index.addr() as u16;
    if let Some((thread, recorder)) = thread(number)
        && !thread.access(info, index, address)
    {
        accessed_slowly(thread, recorder, info, index, address);
    }
}

#[cold]
#[inline(never)]
fn accessed_slowly(thread: &mut Thread, recorder: &Recorder, info: u32, index: u16, address: u64) {
    thread.access_slowly(recorder, kind(info), index, address);
}

/// What the emulator means.
fn kind(info: u32) -> Kind {
    // SAFETY: the emulator made what it is asked about.
    let (size, is_store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
    Kind { info, kind: (size & 7) as u8 | u8::from(is_store) << 3 }
}

/// A block of code was translated: it is told, and callbacks are made for it.
extern "C" fn translated(_: Id, block: *mut QemuBlock) {
    let Some(session) = SESSION.get() else { return };
    // SAFETY: the emulator hands over a block, and answers about it and its instructions until we return.
    unsafe {
        let instructions: Vec<*mut QemuInstruction> =
            (0..qemu_plugin_tb_n_insns(block)).map(|index| qemu_plugin_tb_get_insn(block, index)).collect();
        let bytes = |instruction: &*mut QemuInstruction| {
            match qemu_plugin_insn_size(*instruction) {
                // One that raises an exception before it is read has no bytes.
                0 => &[],
                size => slice::from_raw_parts(qemu_plugin_insn_data(*instruction).cast::<u8>(), size),
            }
        };
        let id = session.next_block.fetch_add(1, Ordering::Relaxed);
        session.recorder.tell_block(id, qemu_plugin_tb_vaddr(block), instructions.iter().map(bytes));
        let (mut is_marked, mut last_mark) = (false, 0);
        for (index, instruction) in (0_u16..).zip(&instructions) {
            let data = ptr::without_provenance_mut(usize::from(index));
            if is_marked {
                qemu_plugin_register_vcpu_insn_exec_cb(*instruction, marked, NO_REGISTERS, data);
                last_mark = index;
            }
            is_marked = session.target.may_access(bytes(instruction));
            if is_marked && session.is_system {
                let data = ptr::without_provenance_mut((u64::from(id) << 16 | u64::from(index)) as usize);
                qemu_plugin_register_vcpu_mem_cb(*instruction, system_accessed, NO_REGISTERS, BOTH, data);
            } else if is_marked {
                qemu_plugin_register_vcpu_mem_cb(*instruction, accessed, NO_REGISTERS, BOTH, data);
            }
        }
        let from = start_address(&session.options)
            .and_then(|from| instructions.iter().position(|instruction| qemu_plugin_insn_vaddr(*instruction) == from));
        let from = from.and_then(|index| u16::try_from(index + 1).ok()).unwrap_or(0);
        let count = u16::try_from(instructions.len()).unwrap_or(u16::MAX);
        let word = Block { id, count, last_mark, from }.pack();
        let data = ptr::without_provenance_mut(word as usize);
        let call = if session.is_system { system_executed } else { executed };
        qemu_plugin_register_vcpu_tb_exec_cb(block, call, NO_REGISTERS, data);
    }
}

fn start_address(options: &Options) -> Option<u64> {
    match options.from? {
        From::Address(address) => Some(address),
        // SAFETY: a program is loaded before its code is translated.
        From::Code(offset) => Some(unsafe { qemu_plugin_start_code() }.wrapping_add(offset)),
    }
}

/// A part of a file, in memory.
pub(crate) struct Window {
    bytes: *const u8,
    offset: u64,
}

impl Window {
    const LENGTH: usize = 1 << 24;
    const PAGE: u64 = 1 << 16;
    const PROT_READ: c_int = 1;
    const MAP_SHARED: c_int = 1;
    const PUNCH_HOLE_KEEP_SIZE: c_int = 3;

    /// That with this offset, near its start; the file gets so long.
    pub(crate) fn new(file: &File, offset: u64) -> io::Result<Self> {
        let offset = offset & !(Self::PAGE - 1);
        file.set_len(offset + Self::LENGTH as u64)?;
        let (protection, flags) = (Self::PROT_READ, Self::MAP_SHARED);
        // SAFETY: a new mapping is in nobody's way.
        let bytes =
            unsafe { mmap(ptr::null_mut(), Self::LENGTH, protection, flags, file.as_raw_fd(), offset.cast_signed()) };
        if bytes.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { bytes: bytes.cast(), offset })
    }

    /// The byte at this offset of the file; `None`: it is outside.
    #[inline(always)]
    pub(crate) fn byte(&self, offset: u64) -> Option<u8> {
        let at = usize::try_from(offset.wrapping_sub(self.offset)).ok().filter(|at| *at < Self::LENGTH)?;
        // SAFETY: it is inside of the mapping, and the file is never made shorter. The emulator writes to it, by a call
        // of the system on this thread.
        Some(unsafe { self.bytes.add(at).read_volatile() })
    }

    /// Gives back what the file has before this offset, where the system can.
    pub(crate) fn free(&self, file: &File, offset: u64) {
        // SAFETY: it changes the file only.
        unsafe { fallocate(file.as_raw_fd(), Self::PUNCH_HOLE_KEEP_SIZE, 0, offset.cast_signed()) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nobody else has the address.
        unsafe { munmap(self.bytes.cast_mut().cast(), Self::LENGTH) };
    }
}
