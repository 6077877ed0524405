//! CPUs of a system: which one executes, the log of exceptions, and how all of them end.
//!
//! callbacks, the log of the emulator ─▶ **threads**, in the order of execution

use std::cell::{Cell, RefCell};
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use unspool_wire::register::{CONTEXTIDR_EL1, DCZID_EL0, PC, TCR_EL1, TTBR0_EL1, TTBR1_EL1};

use super::executing_cpu::executing;
use super::interface::{Id, qemu_plugin_outs};
use super::log::Log;
use super::register_values;
use super::session::{MAX_THREADS, REGISTERS_OF, SESSION, Session, abort, end, kind, thread_of};
use crate::operands::{Operands, Usage};
use crate::thread::Block;

/// CPUs of a system that have sent all their records.
static QUIET: [AtomicBool; MAX_THREADS] = [const { AtomicBool::new(true) }; MAX_THREADS];

thread_local! {
    /// The log of this thread of the emulator. It is never freed: a thread may end the emulator, which drops its values
    /// before the last callback.
    static LOG: Cell<Option<&'static RefCell<Log>>> = const { Cell::new(None) };
}

/// The logs of all threads, read at the end.
static LOGS: Mutex<Vec<AtomicPtr<RefCell<Log>>>> = Mutex::new(Vec::new());

/// A block of a system starts: new log entries precede it.
pub(super) extern "C" fn executed(number: c_uint, word: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    let number = executing(session, number);
    if QUIET.get(number as usize).is_some_and(|quiet| quiet.load(Ordering::Relaxed)) {
        wake(session, number);
    }
    let has_news = read_log(session, number);
    if session.is_ending.load(Ordering::Relaxed) {
        park(number);
    }
    let mut block = Block::unpack(word.addr() as u64);
    let at = other_address(session, number, &mut block);
    if session.written.is_some() {
        register_values::record(number, |recorder, with| recorder.block(has_news, with));
    }
    if let Some((thread, recorder)) = thread_of(number) {
        let is_first = !thread.is_recording();
        thread.system_block(recorder, block, at);
        if is_first && session.options.has_processes && thread.is_recording() {
            record_process(number, block.id);
        }
    }
}

/// Records the registers that the process follows from, as they are before the first block of a CPU.
#[cold]
fn record_process(number: c_uint, block: u32) {
    let (Some((thread, recorder)), Some(slot)) = (thread_of(number), REGISTERS_OF.get(number as usize)) else {
        return;
    };
    // SAFETY: the pointer comes from a box and is never freed. It is used by the thread of the CPU only.
    let Some(registers) = (unsafe { slot.load(Ordering::Relaxed).as_ref() }) else { return };
    for register in [TCR_EL1, TTBR1_EL1, TTBR0_EL1, CONTEXTIDR_EL1] {
        // SAFETY: the callback of blocks is registered as one that reads registers.
        if let Some(value) = unsafe { registers.read(register) } {
            thread.register(recorder, (block, 0), register, value);
        }
    }
}

/// The address where a block is executed, if it was translated for another: QEMU 8 and later shares code between all
/// addresses that it is mapped at.
#[inline(always)]
fn other_address(session: &Session, number: c_uint, block: &mut Block) -> Option<u64> {
    let address = program_counter(session, number)?;
    if block.from != 0 && !is_start(session, block, address) {
        block.from = 0;
    }
    (session.addresses.get(block.id) != Some(address)).then_some(address)
}

/// The address of execution; `None`: this emulator does not report it, and does not share code.
fn program_counter(session: &Session, number: c_uint) -> Option<u64> {
    session.registers?;
    // SAFETY: the pointer comes from a box and is never freed. It is used by the thread of the CPU only.
    let registers = unsafe { REGISTERS_OF.get(number as usize)?.load(Ordering::Relaxed).as_ref() }?;
    // SAFETY: the callback of blocks is registered as one that reads registers.
    let address = unsafe { registers.read(PC) };
    if address.is_none() {
        abort("this emulator does not report where code is executed");
    }
    address
}

/// Whether recording starts in this block, if that is executed at `address`.
#[cold]
fn is_start(session: &Session, block: &Block, address: u64) -> bool {
    session.start_address() == Some(address.wrapping_add(u64::from(block.from - 1) * 4))
}

#[cold]
fn wake(session: &'static Session, number: c_uint) {
    if let Some(quiet) = QUIET.get(number as usize) {
        quiet.store(session.is_ending.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Stops a CPU while another one ends the emulator.
#[cold]
fn park(number: c_uint) {
    end(number as usize);
    if let Some(quiet) = QUIET.get(number as usize) {
        quiet.store(true, Ordering::Release);
    }
    loop {
        thread::park();
    }
}

pub(super) extern "C" fn accessed(number: c_uint, info: u32, address: u64, word: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    if let Some((thread, recorder)) = thread_of(executing(session, number)) {
        // SAFETY: the emulator reports this access now.
        if let Some(value) = session.values.and_then(|values| unsafe { values.of(info) }) {
            thread.data(recorder, value.count, value.words);
        }
        let word = word.addr() as u64;
        thread.system_access(recorder, kind(info), ((word >> 16) as u32, word as u16), address);
    }
}

/// An instruction starts that has an address which no access reports.
pub(super) extern "C" fn operands(number: c_uint, word: *mut c_void) {
    let Some(number) = SESSION.get().map(|session| executing(session, number)) else { return };
    let (Some((thread, recorder)), Some(slot)) = (thread_of(number), REGISTERS_OF.get(number as usize)) else {
        return;
    };
    // SAFETY: the pointer comes from a box and is never freed. It is used by the thread of the CPU only.
    let Some(registers) = (unsafe { slot.load(Ordering::Relaxed).as_ref() }) else { return };
    let operands = Operands::unpack(word.addr() as u64);
    let at = (operands.block, operands.index);
    for register in operands.registers() {
        // SAFETY: this callback is registered as one that reads registers.
        let Some(value) = (unsafe { registers.read(register) }) else { continue };
        if operands.usage == Usage::BlockSize {
            registers.block_size.set(Some(value));
        } else {
            thread.register(recorder, at, register, value);
        }
    }
    if let (Usage::Zeros, Some(size)) = (operands.usage, registers.block_size.get()) {
        thread.register(recorder, at, DCZID_EL0, size);
    }
}

pub(super) extern "C" fn marked(number: c_uint, index: *mut c_void) {
    if let Some((thread, _)) = SESSION.get().and_then(|session| thread_of(executing(session, number))) {
        thread.mark(index.addr() as u16);
    }
}

/// A CPU has nothing to do, or is stopped.
pub(super) extern "C" fn idle(_: Id, number: c_uint) {
    if let (Some(session), Some(_)) = (SESSION.get(), LOG.get()) {
        read_log(session, number);
    }
    if let Some((thread, recorder)) = thread_of(number) {
        thread.flush(recorder);
        if let Some(quiet) = QUIET.get(number as usize) {
            quiet.store(true, Ordering::Release);
        }
    }
}

/// Records new log entries. True: there were some.
#[inline(always)]
fn read_log(session: &'static Session, number: c_uint) -> bool {
    let Some(log) = LOG.get() else {
        open_log(session, number);
        return false;
    };
    let mut log = log.borrow_mut();
    let has_news = log.has_news();
    if has_news {
        record_news(session, &mut log);
    }
    log.execute(number);
    has_news
}

/// Records new entries, each for its CPU. CPUs with a thread of their own have a log of their own.
#[cold]
fn record_news(session: &'static Session, log: &mut Log) {
    let drained = log.drain(|cpu, text| {
        if let Some((thread, recorder)) = thread_of(cpu) {
            thread.text(recorder, text);
        }
    });
    if let Err(error) = drained {
        abort(&format!("{}: {error}", session.options.log.as_deref().unwrap_or_default()));
    }
}

/// Opens the log of this thread, which the emulator creates with the first message.
#[cold]
fn open_log(session: &'static Session, number: c_uint) {
    let pattern = session.options.log.as_deref().unwrap_or_default();
    // SAFETY: the text is zero-terminated.
    unsafe { qemu_plugin_outs(c"recorded by unspool\n".as_ptr()) };
    match Log::open(pattern, number) {
        Ok(log) => {
            let log = Box::into_raw(Box::new(RefCell::new(log)));
            LOGS.lock().unwrap_or_else(PoisonError::into_inner).push(AtomicPtr::new(log));
            // SAFETY: it is never freed, and there is no mutable reference to it.
            LOG.set(unsafe { log.as_ref() });
        }
        Err(error) => abort(&format!("{pattern}: {error}: the emulator has to log with -d int,tid,plugin")),
    }
}

/// Maximum number of waits until other CPUs have stopped.
const MAX_WAITS: u32 = 200;
const WAIT: Duration = Duration::from_millis(1);

/// One CPU ended the emulator, or all were stopped. Others may still run: each sends its records.
pub(super) extern "C" fn emulator_ends(_: Id, _: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    session.is_ending.store(true, Ordering::Relaxed);
    if let Some(log) = LOG.get() {
        let mut log = log.borrow_mut();
        record_news(session, &mut log);
        log.cpus.iter().for_each(|cpu| {
            end(*cpu as usize);
            QUIET.get(*cpu as usize).iter().for_each(|quiet| quiet.store(true, Ordering::Relaxed));
        });
    }
    if !wait_for_all(session) {
        end_stopped(session);
    }
}

/// Waits until all CPUs have stopped. False: some have stopped without a callback.
fn wait_for_all(session: &Session) -> bool {
    let mut waits = 0;
    while waits < MAX_WAITS {
        if QUIET.iter().all(|quiet| quiet.load(Ordering::Acquire)) {
            return true;
        }
        waits = if session.recorder.output.is_sending() { 0 } else { waits + 1 };
        thread::sleep(WAIT);
    }
    false
}

/// Ends CPUs that have stopped without a callback, as those that share a thread do: one that executes anything stops with a
/// callback, and one that sends is waited for.
fn end_stopped(session: &'static Session) {
    for log in LOGS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // SAFETY: it is never freed, and its thread has stopped.
        if let Some(Ok(mut log)) = unsafe { log.into_inner().as_ref() }.map(RefCell::try_borrow_mut) {
            record_news(session, &mut log);
        }
    }
    let is_stopped = |number: &usize| QUIET.get(*number).is_some_and(|quiet| !quiet.load(Ordering::Acquire));
    (0..MAX_THREADS).filter(is_stopped).for_each(end);
}
