//! What instructions write into registers: who asks the emulator for it, and where it is told.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;

use super::registers::Registers;
use super::system::executing;
use super::{FOLLOWERS, REGISTERS_OF, SESSION, thread_of};
use crate::thread::{Recorder, Thread};
use crate::values::{Exchange, Follower, Site, Value, When};

/// Asks for registers of a CPU, and tells its values.
pub(super) struct Told<'a> {
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
pub(super) fn follow(number: c_uint, act: impl FnOnce(&mut Follower, &mut Told<'_>)) {
    let Some((thread, recorder)) = thread_of(number) else { return };
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
pub(super) extern "C" fn followed(number: c_uint, site: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    // SAFETY: it is what was registered with this callback, a box that is never freed nor changed.
    if let Some(site) = unsafe { site.cast::<Site>().as_ref() } {
        follow(executing(session, number), |follower, with| follower.instruction(site, with));
    }
}
