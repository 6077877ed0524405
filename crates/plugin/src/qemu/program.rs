//! Callbacks for the threads of a user program.

use std::ffi::{c_uint, c_void};

use super::interface::Id;
use super::register_values;
use super::session::{MAX_THREADS, SESSION, end, kind, thread, thread_of};
use crate::thread::{Block, Thread};

pub(super) extern "C" fn thread_ends(_: Id, number: c_uint) {
    end(number as usize);
}

pub(super) extern "C" fn program_ends(_: Id, _: *mut c_void) {
    (0..MAX_THREADS).for_each(end);
}

pub(super) extern "C" fn called(
    _: Id,
    number: c_uint,
    call: i64,
    a: u64,
    b: u64,
    c: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    if let Some((thread, recorder)) = thread_of(number) {
        thread.call(recorder, call, [a, b, c]);
    }
}

pub(super) extern "C" fn returned(_: Id, number: c_uint, call: i64, result: i64) {
    if let Some((thread, recorder)) = thread_of(number) {
        thread.call_return(recorder, call, result);
    }
}

pub(super) extern "C" fn executed(number: c_uint, word: *mut c_void) {
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

/// A block starts, and registers that the one before wrote are recorded.
pub(super) extern "C" fn executed_with_registers(number: c_uint, word: *mut c_void) {
    register_values::record(number, |recorder, with| recorder.block(false, with));
    executed(number, word);
}

pub(super) extern "C" fn marked(number: c_uint, index: *mut c_void) {
    if let Some(thread) = thread(number) {
        thread.mark(index.addr() as u16);
    }
}

pub(super) extern "C" fn accessed(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let index = index.addr() as u16;
    if let Some(thread) = thread(number)
        && !thread.access(info, index, address)
    {
        accessed_slowly(thread, info, index, address);
    }
}

/// The same for an instruction that is complete with it, and not the last of its block.
pub(super) extern "C" fn accessed_whole(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let index = index.addr() as u16;
    if let Some(thread) = thread(number) {
        if !thread.access(info, index, address) {
            accessed_slowly(thread, info, index, address);
        }
        thread.mark(index + 1);
    }
}

/// The same, with data.
pub(super) extern "C" fn accessed_with_data(number: c_uint, info: u32, address: u64, index: *mut c_void) {
    let values = SESSION.get().and_then(|session| session.values);
    // SAFETY: the emulator reports this access now.
    let value = values.and_then(|values| unsafe { values.of(info) });
    if let (Some((thread, recorder)), Some(value)) = (thread_of(number), value) {
        thread.data(recorder, value.count, value.words);
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
