//! Register values of a CPU: read from the emulator, recorded by its thread.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;

use unspool_wire::register::Register;

use super::executing_cpu::executing;
use super::registers::Registers;
use super::session::{REGISTER_RECORDERS, REGISTERS_OF, SESSION, thread_of};
use crate::thread::{Recorder, Thread};
use crate::values::{RegisterAccess, RegisterRecorder, Site, Value, When};

/// The registers of a CPU, and the thread that records their values.
pub(super) struct CpuRegisters<'a> {
    registers: &'a Registers,
    thread: &'a mut Thread,
    recorder: &'a Recorder,
}

impl RegisterAccess for CpuRegisters<'_> {
    fn read(&mut self, register: Register) -> Option<Value> {
        // SAFETY: callbacks that record values are registered as such that read registers.
        unsafe { self.registers.read_value(register) }
    }

    fn record(&mut self, when: When, register: Register, value: Value) {
        self.thread.value(self.recorder, when, register, value);
    }
}

/// Acts on the register recorder of this CPU; does nothing while nothing is recorded.
pub(super) fn record(number: c_uint, act: impl FnOnce(&mut RegisterRecorder, &mut CpuRegisters<'_>)) {
    let Some((thread, recorder)) = thread_of(number) else { return };
    let number = number as usize;
    let (Some(registers), Some(values)) = (REGISTERS_OF.get(number), REGISTER_RECORDERS.get(number)) else { return };
    // SAFETY: both pointers come from boxes and are never freed. They are used by the thread of the CPU only.
    let (registers, values) =
        unsafe { (registers.load(Ordering::Relaxed).as_ref(), values.load(Ordering::Relaxed).as_mut()) };
    let (Some(registers), Some(values)) = (registers, values) else { return };
    if thread.is_recording() {
        act(values, &mut CpuRegisters { registers, thread, recorder });
    } else {
        values.pause();
    }
}

/// An instruction starts, and the one before it is complete.
pub(super) extern "C" fn started(number: c_uint, site: *mut c_void) {
    let Some(session) = SESSION.get() else { return };
    // SAFETY: the pointer was registered with this callback: a box that is never freed nor changed.
    if let Some(site) = unsafe { site.cast::<Site>().as_ref() } {
        record(executing(session, number), |recorder, with| recorder.instruction(site, with));
    }
}
