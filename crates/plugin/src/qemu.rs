//! The border to the emulator: what it calls, and what it is asked.
//!
//! This room is the only one of the project with `unsafe` code, and there is no way around it: the emulator is written in
//! C and loads us by name. Its functions are declared by hand (`interface`). Everything behind the border is safe code.
//!
//! The emulator hands back a word with each callback, and that word is all that a callback needs: there is no pointer in
//! it, unless what instructions write is asked for. Threads are found by their number. The emulator calls back for a thread on that thread alone, or, when the program
//! ends, while no other runs: so there is never a second reference to one.
#![allow(unsafe_code)]

mod interface;
mod lent;
mod registers;
mod window;

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use self::interface::*;
use self::registers::{Functions, Registers};
pub(crate) use self::window::Window;
use crate::log::Log;
use crate::memory::Target;
use crate::operands::{DCZID_EL0, Operands, PC, What};
use crate::options::{From, Options};
use crate::places::Places;
use crate::thread::{Block, Kind, Recorder, Thread};
use crate::values::{Exchange, Follower, Site, Value, When};

/// More threads at a time are not recorded.
const MOST_THREADS: usize = 4096;

static THREADS: [AtomicPtr<Thread>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];
static SESSION: OnceLock<Session> = OnceLock::new();

/// What is in the registers of CPUs, if the emulator tells that.
static REGISTERS_OF: [AtomicPtr<Registers>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];

/// Who follows what instructions write, if that is asked for.
static FOLLOWERS: [AtomicPtr<Follower>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];

/// CPUs of a system that have sent all that they have.
static QUIET: [AtomicBool; MOST_THREADS] = [const { AtomicBool::new(true) }; MOST_THREADS];

thread_local! {
    /// The log of this thread of the emulator. It is never freed: a thread may end the emulator, which drops its values
    /// before it tells us.
    static LOG: Cell<Option<&'static RefCell<Log>>> = const { Cell::new(None) };
}

thread_local! {
    /// The CPU of a system that this thread executes, of an emulator that may say another one.
    static CPU: Cell<Option<c_uint>> = const { Cell::new(None) };
}

/// The logs of all threads, for when they have stopped.
static LOGS: Mutex<Vec<AtomicPtr<RefCell<Log>>>> = Mutex::new(Vec::new());

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
    if SESSION.get().is_some_and(|session| session.is_vague) {
        remember(number);
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

/// This thread executes a CPU, and has to be the only one that does.
fn remember(number: c_uint) {
    if is_first_thread() {
        return;
    }
    if CPU.replace(Some(number)).is_some() {
        give_up(
            "this emulator does not tell apart CPUs that share a thread: record one CPU (-smp 1), or without -icount and \
             thread=single, or with QEMU 7.2",
        );
    }
}

/// The one that the process started with executes no CPU.
fn is_first_thread() -> bool {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    link.file_name().is_some_and(|name| *name == *std::process::id().to_string())
}

/// The CPU that this thread executes, which the emulator says is this one.
#[inline(always)]
fn executing(session: &Session, number: c_uint) -> c_uint {
    if session.is_vague { CPU.get().unwrap_or(number) } else { number }
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
    let number = executing(session, number);
    if QUIET.get(number as usize).is_some_and(|quiet| quiet.load(Ordering::Relaxed)) {
        wake(session, number);
    }
    let has_news = look_at_log(session, number);
    if session.is_ending.load(Ordering::Relaxed) {
        rest(number);
    }
    let mut block = Block::unpack(word.addr() as u64);
    let at = place(session, number, &mut block);
    if session.written.is_some() {
        follow(number, |follower, with| follower.block(has_news, with));
    }
    if let Some((thread, recorder)) = thread(number) {
        thread.system_block(recorder, block, at);
    }
}

/// Where a block is executed, if that is elsewhere than where it was translated: emulators since QEMU 8 share code between
/// all places that it is mapped at.
#[inline(always)]
fn place(session: &Session, number: c_uint, block: &mut Block) -> Option<u64> {
    let address = program_counter(session, number)?;
    if block.from != 0 && !is_there(session, block, address) {
        block.from = 0;
    }
    (session.places.get(block.id) != Some(address)).then_some(address)
}

/// Where execution is; `None`: this emulator does not tell, and need not.
fn program_counter(session: &Session, number: c_uint) -> Option<u64> {
    session.registers?;
    // SAFETY: what is there was made from a box and is never freed. It is used by the thread of the CPU only.
    let registers = unsafe { REGISTERS_OF.get(number as usize)?.load(Ordering::Relaxed).as_ref() }?;
    // SAFETY: blocks are told by a callback that was registered as one that looks at registers.
    let address = unsafe { registers.read(PC) };
    if address.is_none() {
        give_up("this emulator does not tell where code is executed");
    }
    address
}

/// Is the instruction that recording starts with in this block, if that is executed at `address`?
#[cold]
fn is_there(session: &Session, block: &Block, address: u64) -> bool {
    start_address(&session.options) == Some(address.wrapping_add(u64::from(block.from - 1) * 4))
}

#[cold]
fn wake(session: &'static Session, number: c_uint) {
    if let Some(quiet) = QUIET.get(number as usize) {
        quiet.store(session.is_ending.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The emulator ends, and this CPU is not the one that ends it.
#[cold]
fn rest(number: c_uint) {
    end(number as usize);
    if let Some(quiet) = QUIET.get(number as usize) {
        quiet.store(true, Ordering::Release);
    }
    loop {
        thread::park();
    }
}

extern "C" fn system_accessed(number: c_uint, info: u32, address: u64, word: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    if let Some((thread, recorder)) = thread(executing(session, number)) {
        // SAFETY: the emulator tells it at the moment.
        if let Some(value) = session.values.and_then(|values| unsafe { values.of(info) }) {
            thread.data(recorder, value.words());
        }
        let word = word.addr() as u64;
        thread.system_access(recorder, kind(info), ((word >> 16) as u32, word as u16), address);
    }
}

/// An instruction comes whose address only registers tell.
extern "C" fn system_operands(number: c_uint, word: *mut c_void) {
    let Some(number) = SESSION.get().map(|session| executing(session, number)) else { return };
    let (Some((thread, recorder)), Some(place)) = (thread(number), REGISTERS_OF.get(number as usize)) else { return };
    // SAFETY: what is there was made from a box and is never freed. It is used by the thread of the CPU only.
    let Some(registers) = (unsafe { place.load(Ordering::Relaxed).as_ref() }) else { return };
    let operands = Operands::unpack(word.addr() as u64);
    let at = (operands.block, operands.index);
    for register in operands.registers() {
        // SAFETY: this callback was registered as one that looks at registers.
        let Some(value) = (unsafe { registers.read(register) }) else { continue };
        if operands.what == What::BlockSize {
            registers.block_size.set(Some(value));
        } else {
            thread.register(recorder, at, register, value);
        }
    }
    if let (What::Zeros, Some(size)) = (operands.what, registers.block_size.get()) {
        thread.register(recorder, at, DCZID_EL0, size);
    }
}

/// Asks for registers of a CPU, and tells its values.
struct Told<'a> {
    registers: &'a Registers,
    thread: &'a mut Thread,
    recorder: &'a Recorder,
}

impl Exchange for Told<'_> {
    fn read(&mut self, register: u8) -> Option<Value> {
        // SAFETY: callbacks that follow registers are registered as such that look at them.
        unsafe { self.registers.read_value(register) }
    }

    fn tell(&mut self, when: When, register: u8, value: Value) {
        self.thread.value(self.recorder, when, register, value);
    }
}

/// Does something with who follows the registers of this CPU; nothing while nothing is recorded.
fn follow(number: c_uint, act: impl FnOnce(&mut Follower, &mut Told<'_>)) {
    let Some((thread, recorder)) = thread(number) else { return };
    let (Some(registers), Some(follower)) = (REGISTERS_OF.get(number as usize), FOLLOWERS.get(number as usize)) else {
        return;
    };
    // SAFETY: what is there was made from a box and is never freed. It is used by the thread of the CPU only.
    let (registers, follower) =
        unsafe { (registers.load(Ordering::Relaxed).as_ref(), follower.load(Ordering::Relaxed).as_mut()) };
    let (Some(registers), Some(follower)) = (registers, follower) else { return };
    if thread.is_recording() {
        act(follower, &mut Told { registers, thread, recorder });
    } else {
        follower.rest();
    }
}

/// An instruction comes, and the one before it is complete.
extern "C" fn followed(number: c_uint, site: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    // SAFETY: it is what was registered with this callback, a box that is never freed nor changed.
    if let Some(site) = unsafe { site.cast::<Site>().as_ref() } {
        follow(executing(session, number), |follower, with| follower.instruction(site, with));
    }
}

/// A CPU has nothing to do, or is stopped.
extern "C" fn system_idle(_: Id, number: c_uint) {
    if let (Some(session), Some(_)) = (SESSION.get(), LOG.get()) {
        look_at_log(session, number);
    }
    if let Some((thread, recorder)) = thread(number) {
        thread.flush(recorder);
        if let Some(quiet) = QUIET.get(number as usize) {
            quiet.store(true, Ordering::Release);
        }
    }
}

/// True: something was logged.
#[inline(always)]
fn look_at_log(session: &'static Session, number: c_uint) -> bool {
    let Some(log) = LOG.get() else {
        open_log(session, number);
        return false;
    };
    let mut log = log.borrow_mut();
    let has_news = log.has_news();
    if has_news {
        tell_news(session, &mut log);
    }
    log.execute(number);
    has_news
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
        Ok(log) => {
            let log = Box::into_raw(Box::new(RefCell::new(log)));
            LOGS.lock().unwrap_or_else(PoisonError::into_inner).push(AtomicPtr::new(log));
            // SAFETY: it is never freed, and there is no mutable reference to it.
            LOG.set(unsafe { log.as_ref() });
        }
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
    if !come_to_rest(session) {
        end_stopped(session);
    }
}

/// False: a CPU is not heard of any more.
fn come_to_rest(session: &Session) -> bool {
    let mut waits = 0;
    while waits < MOST_WAITS {
        if QUIET.iter().all(|quiet| quiet.load(Ordering::Acquire)) {
            return true;
        }
        waits = if session.recorder.is_sending() { 0 } else { waits + 1 };
        thread::sleep(WAIT);
    }
    false
}

/// CPUs that share a thread stop without a word, and so did those that are not at rest: one that executes anything comes to
/// rest, and one that sends is waited for.
fn end_stopped(session: &'static Session) {
    for log in LOGS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // SAFETY: it is never freed, and its thread does nothing any more.
        if let Some(Ok(mut log)) = unsafe { log.into_inner().as_ref() }.map(RefCell::try_borrow_mut) {
            tell_news(session, &mut log);
        }
    }
    let is_stopped = |number: &usize| QUIET.get(*number).is_some_and(|quiet| !quiet.load(Ordering::Acquire));
    (0..MOST_THREADS).filter(is_stopped).for_each(end);
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
    let word = word.addr() as u64;
    if let Some((thread, recorder)) = thread(number)
        && !thread.block(Block::unpack(word))
    {
        thread.block_slowly(recorder, word);
    }
}

/// A block starts, and registers that the one before wrote are told.
extern "C" fn executed_followed(number: c_uint, word: *mut c_void) {
    follow(number, |follower, with| follower.block(false, with));
    executed(number, word);
}

extern "C" fn system_marked(number: c_uint, index: *mut c_void) {
    if let Some((thread, _)) = SESSION.get().and_then(|session| thread(executing(session, number))) {
        thread.mark(index.addr() as u16);
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

/// The same of an instruction that is complete then, and not the last of its block.
extern "C" fn accessed_whole(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let index = index.addr() as u16;
    if let Some((thread, recorder)) = thread(number) {
        thread.mark(index + 1);
        if !thread.access(info, index, address) {
            accessed_slowly(thread, recorder, info, index, address);
        }
    }
}

/// The same, with what is read or written.
extern "C" fn accessed_with_data(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let values = SESSION.get().and_then(|session| session.values);
    // SAFETY: the emulator tells it at the moment.
    let value = values.and_then(|values| unsafe { values.of(info) });
    if let (Some((thread, recorder)), Some(value)) = (thread(number), value) {
        thread.data(recorder, value.words());
    }
    accessed(number, info, address, index);
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
        let bytes: Vec<Instruction> = instructions.iter().map(|instruction| session.bytes.of(*instruction)).collect();
        let id = session.next_block.fetch_add(1, Ordering::Relaxed);
        session.recorder.tell_block(id, qemu_plugin_tb_vaddr(block), bytes.iter().map(Instruction::bytes));
        let (mut is_marked, mut is_whole, mut last_mark) = (false, false, 0);
        for ((index, instruction), bytes) in (0_u16..).zip(&instructions).zip(&bytes) {
            let data = ptr::without_provenance_mut(usize::from(index));
            if is_marked {
                last_mark = index;
            }
            if is_marked && !is_whole {
                let call = if session.is_system { system_marked } else { marked };
                qemu_plugin_register_vcpu_insn_exec_cb(*instruction, call, NO_REGISTERS, data);
            }
            is_marked = session.target.may_access(bytes.bytes());
            let is_last = usize::from(index) + 1 == instructions.len();
            is_whole = !session.is_system
                && session.values.is_none()
                && !is_last
                && session.target.accesses_once(bytes.bytes());
            let operands = Operands::of(bytes.bytes(), id, index);
            let operands = operands.filter(|_| session.registers.is_some() && session.target == Target::A64);
            if let Some((operands, there)) =
                operands.and_then(|operands| Some((operands, instructions.get(usize::from(operands.index))?)))
            {
                let data = ptr::without_provenance_mut(operands.pack() as usize);
                qemu_plugin_register_vcpu_insn_exec_cb(*there, system_operands, REGISTERS, data);
            }
            if is_marked && session.is_system {
                let data = ptr::without_provenance_mut((u64::from(id) << 16 | u64::from(index)) as usize);
                qemu_plugin_register_vcpu_mem_cb(*instruction, system_accessed, NO_REGISTERS, BOTH, data);
            } else if is_marked {
                let call = match session.values {
                    _ if is_whole => accessed_whole,
                    Some(_) => accessed_with_data,
                    None => accessed,
                };
                qemu_plugin_register_vcpu_mem_cb(*instruction, call, NO_REGISTERS, BOTH, data);
            }
            if session.written.is_some() {
                let site = Site::new(session.target, bytes.bytes(), (index, is_last), !session.is_system);
                // It is never freed: nobody says when the block is thrown away.
                let site = Box::into_raw(Box::new(site));
                qemu_plugin_register_vcpu_insn_exec_cb(*instruction, followed, REGISTERS, site.cast());
            }
        }
        // Pages may be mapped elsewhere when the block is executed, and that is looked at then.
        let mask = if session.registers.is_some() { 0xfff } else { u64::MAX };
        session.places.set(id, qemu_plugin_tb_vaddr(block));
        let from = start_address(&session.options).and_then(|from| {
            let is_it = |instruction: &*mut QemuInstruction| (qemu_plugin_insn_vaddr(*instruction) ^ from) & mask == 0;
            instructions.iter().position(is_it)
        });
        let from = from.and_then(|index| u16::try_from(index + 1).ok()).unwrap_or(0);
        let count = u16::try_from(instructions.len()).unwrap_or(u16::MAX);
        let word = Block { id, count, last_mark, from }.pack();
        let data = ptr::without_provenance_mut(word as usize);
        let call = match session.written {
            _ if session.is_system => system_executed,
            Some(_) => executed_followed,
            None => executed,
        };
        let looks = session.registers.is_some() || session.written.is_some();
        let flags = if looks { REGISTERS } else { NO_REGISTERS };
        qemu_plugin_register_vcpu_tb_exec_cb(block, call, flags, data);
    }
}

fn start_address(options: &Options) -> Option<u64> {
    match options.from? {
        From::Address(address) => Some(address),
        // A program is loaded before its code is translated.
        From::Code(offset) => Some(start_code()?.wrapping_add(offset)),
    }
}
