//! Register values: which registers are read, and when.
//!
//! the instruction before, registers now ─▶ **values**, for the stream
//!
//! Registers are read after an instruction: before the next one of its block, or before the next block. The opcodes of A64
//! and RISC-V determine which ones. Of AArch32, where a condition may keep an instruction from writing, all are compared with
//! their values before. A signal changes registers between two blocks: it moves the stack pointer, which no branch does. Then
//! it is unknown what the last instruction wrote, and all registers are recorded again.

use unspool_isa::{ControlFlow, Destinations, Isa, decode, destinations};
use unspool_wire::register::{COUNT, FLOAT, Register, SP, STATUS};

use crate::memory::Target;

/// The value of a register, lower half first.
pub(crate) type Value = [u64; 2];

/// An instruction of a block, after which registers are read.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) index: u16,
    pub(crate) is_last: bool,
    written: Written,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The destinations of its opcode.
    Known(Destinations),
    /// General registers that have changed; floating-point registers too, if it may write those.
    Changed { has_floats: bool },
}

/// The time at which a register has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// After this instruction of the block, which wrote it.
    After(u16),
    /// Before this instruction of the block, whatever wrote it.
    Before(u16),
}

/// Reads registers, and records their values.
pub(crate) trait RegisterAccess {
    /// The value of a register; `None`: the emulator does not report it.
    fn read(&mut self, register: Register) -> Option<Value>;

    fn record(&mut self, when: When, register: Register, value: Value);
}

/// Records the register values of one CPU or thread.
pub(crate) struct RegisterRecorder {
    target: Target,
    /// Signals come between blocks, and move the stack pointer.
    has_signals: bool,
    /// The instruction that was started.
    site: Option<&'static Site>,
    /// The stack pointer before it, if it is the last of a block.
    stack: Option<Value>,
    due: Due,
    /// The last values, where changes are recorded.
    before: Box<[Value; COUNT]>,
}

/// Registers that have to be recorded before the next instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    /// The stack pointer and the status, which an exception changes.
    State,
    All,
}

impl Site {
    /// `is_program`: the kernel is not emulated, so that the result of a system call is written by the call.
    pub(crate) fn new(target: Target, bytes: &[u8], (index, is_last): (u16, bool), is_program: bool) -> Self {
        let written = match (target, opcode(bytes)) {
            (Target::A64, opcode) => Written::Known(with_result(Isa::A64, opcode, is_program, 0)),
            (Target::Riscv(isa), opcode) => Written::Known(with_result(isa, opcode, is_program, 10)),
            (Target::Arm | Target::Other, opcode) => {
                Written::Changed { has_floats: bytes.len() == 4 && may_be_float(opcode) }
            }
        };
        Self { index, is_last, written }
    }

    fn writes_stack(&self, target: Target) -> bool {
        let number = if target == Target::A64 { SP } else { 2 };
        match self.written {
            Written::Known(known) => known.general >> number & 1 != 0,
            Written::Changed { .. } => true,
        }
    }
}

fn opcode(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |opcode, byte| opcode << 8 | u32::from(*byte))
}

/// The registers written, including the result of a call: a system call of a program, or a call that the emulator serves
/// for a system.
fn with_result(isa: Isa, opcode: u32, is_program: bool, register: u32) -> Destinations {
    let is_call = match decode(isa, 0, opcode).flow {
        ControlFlow::SupervisorCall => is_program,
        ControlFlow::HypervisorCall | ControlFlow::SecureMonitorCall => !is_program,
        _ => false,
    };
    destinations(isa, opcode).and(Destinations { general: u32::from(is_call) << register, ..Destinations::NONE })
}

/// Whether it may be an A32 or T32 instruction that writes floating-point registers.
fn may_be_float(word: u32) -> bool {
    let [a32, t32] = [word, word.rotate_left(16)].map(|word| word >> 24);
    matches!(a32 & 0xf, 0xc..=0xe) || matches!(a32, 0xf2..=0xf4) || matches!(t32, 0xec..=0xef | 0xf9 | 0xfc..=0xff)
}

impl RegisterRecorder {
    pub(crate) fn new(target: Target, has_signals: bool) -> Self {
        let before = Box::new([[0; 2]; COUNT]);
        Self { target, has_signals, site: None, stack: None, due: Due::All, before }
    }

    /// Pauses: registers change without being recorded.
    pub(crate) fn pause(&mut self) {
        (self.site, self.due) = (None, Due::All);
    }

    /// Starts a block; `is_after_exception`: of a system, exceptions came before it.
    pub(crate) fn block(&mut self, is_after_exception: bool, with: &mut impl RegisterAccess) {
        let Some(site) = self.site.take() else { return };
        if is_after_exception && self.due == Due::Nothing {
            self.due = Due::State;
        }
        let is_moved = self.has_signals
            && !site.writes_stack(self.target)
            && (!site.is_last || self.stack != with.read(self.stack_pointer()));
        if is_moved {
            self.due = Due::All;
        } else {
            self.complete(site, is_after_exception, with);
        }
    }

    /// Starts an instruction of the block.
    pub(crate) fn instruction(&mut self, site: &'static Site, with: &mut impl RegisterAccess) {
        if let Some(before) = self.site.replace(site) {
            self.complete(before, false, with);
        }
        match std::mem::replace(&mut self.due, Due::Nothing) {
            Due::Nothing => {}
            Due::State => {
                self.read_and_record(self.stack_pointer(), When::Before(site.index), with);
                self.read_and_record(STATUS, When::Before(site.index), with);
            }
            Due::All => self.all(When::Before(site.index), with),
        }
        if site.is_last && self.has_signals {
            self.stack = with.read(self.stack_pointer());
        }
    }

    fn stack_pointer(&self) -> Register {
        match self.target {
            Target::A64 => SP,
            Target::Riscv(_) => 2,
            Target::Arm | Target::Other => 13,
        }
    }

    fn complete(&mut self, site: &Site, is_after_exception: bool, with: &mut impl RegisterAccess) {
        let when = When::After(site.index);
        match site.written {
            Written::Known(known) => {
                // An exception has changed these.
                let hidden = if is_after_exception { 1 << SP } else { 0 };
                bits(known.general & !hidden).for_each(|number| self.read_and_record(number, when, with));
                bits(known.float).for_each(|number| self.read_and_record(FLOAT + number, when, with));
                if known.status && !is_after_exception {
                    self.read_and_record(STATUS, when, with);
                }
            }
            Written::Changed { has_floats } => {
                (0..15).chain([STATUS]).for_each(|number| self.record_change(number, when, with));
                if has_floats {
                    (FLOAT..FLOAT + 32).for_each(|number| self.record_change(number, when, with));
                }
            }
        }
    }

    fn read_and_record(&mut self, register: Register, when: When, with: &mut impl RegisterAccess) {
        if let Some(value) = with.read(register) {
            with.record(when, register, value);
        }
    }

    fn record_change(&mut self, register: Register, when: When, with: &mut impl RegisterAccess) {
        let Some(value) = with.read(register).map(|value| without_it_state(register, value)) else { return };
        if let Some(before) = self.before.get_mut(usize::from(register))
            && *before != value
        {
            *before = value;
            with.record(when, register, value);
        }
    }

    /// Records all registers.
    fn all(&mut self, when: When, with: &mut impl RegisterAccess) {
        let first = u16::from(matches!(self.target, Target::Riscv(_)));
        for register in (first..32).chain([STATUS]).chain(FLOAT..FLOAT + 32) {
            let Some(mut value) = with.read(register) else { continue };
            if matches!(self.target, Target::Arm | Target::Other) {
                value = without_it_state(register, value);
            }
            if let Some(before) = self.before.get_mut(usize::from(register)) {
                *before = value;
            }
            with.record(when, register, value);
        }
    }
}

/// The value without the IT state of the CPSR, which the emulator does not keep in T32 state.
fn without_it_state(register: Register, [low, high]: Value) -> Value {
    const THUMB: u64 = 1 << 5;
    const IT: u64 = 0x0600_fc00;
    if register == STATUS && low & THUMB != 0 { [low & !IT, high] } else { [low, high] }
}

/// The numbers of the set bits.
fn bits(mut mask: u32) -> impl Iterator<Item = Register> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| mask.trailing_zeros() as Register);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}
