//! What instructions write into registers: which ones are looked at, and when.
//!
//! the instruction before, what is in registers now ─▶ **values**, for the stream
//!
//! Registers are read behind an instruction: before the next one of its block, or before the next block. Of A64 and RISC-V
//! the opcode tells which ones. Of AArch32, where a condition may keep an instruction from writing, all of them are compared
//! with what they had before. A signal changes registers between two blocks: it moves the stack pointer, which no branch
//! does. Then nobody knows what the last instruction wrote, and all registers are told anew.

use unspool_isa::{ControlFlow, Destinations, Isa, decode, destinations};

use crate::memory::Target;
use crate::operands::{Register, SP};

/// CPSR, or what AArch64 has of it.
pub(crate) const STATUS: Register = 35;
/// The first vector or floating-point register.
pub(crate) const FLOAT: Register = 64;
/// So many numbers of registers are there.
pub(crate) const COUNT: usize = FLOAT as usize + 32;

/// A register's contents, the lower half first.
pub(crate) type Value = [u64; 2];

/// An instruction of a block, behind which registers are read.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) index: u16,
    /// It is the last of its block.
    pub(crate) is_last: bool,
    written: Written,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// These registers.
    Those(Destinations),
    /// What has changed, of general registers; of the others too, if it may be one for them.
    Changed { has_floats: bool },
}

/// When something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// This instruction of the block wrote it.
    Behind(u16),
    /// It holds before this instruction of the block, and nobody says who wrote it.
    Before(u16),
}

/// Who is asked for registers, and who takes their values.
pub(crate) trait Exchange {
    /// What is in a register; `None`: the emulator does not tell.
    fn read(&mut self, register: Register) -> Option<Value>;

    /// Tells it.
    fn tell(&mut self, when: When, register: Register, value: Value);
}

/// Follows the registers of one CPU or thread.
pub(crate) struct Follower {
    target: Target,
    /// What comes between blocks moves the stack pointer.
    has_signals: bool,
    /// The instruction that was started.
    site: Option<&'static Site>,
    /// The stack pointer before it, if it is the last of a block.
    stack: Option<Value>,
    due: Due,
    /// What was told last, where changes are looked for.
    before: Box<[Value; COUNT]>,
}

/// What has to be told before the next instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    /// What an exception changes: the stack pointer and the status.
    State,
    All,
}

impl Site {
    /// `is_program`: the kernel is not executed, so that what a call returns is written by the call.
    pub(crate) fn new(target: Target, bytes: &[u8], (index, is_last): (u16, bool), is_program: bool) -> Self {
        let written = match (target, opcode(bytes)) {
            (Target::A64, opcode) => Written::Those(with_result(Isa::A64, opcode, is_program, 0)),
            (Target::Riscv(isa), opcode) => Written::Those(with_result(isa, opcode, is_program, 10)),
            (Target::Arm | Target::Other, opcode) => {
                Written::Changed { has_floats: bytes.len() == 4 && may_be_float(opcode) }
            }
        };
        Self { index, is_last, written }
    }

    fn writes_stack(&self, target: Target) -> bool {
        let number = if target == Target::A64 { SP } else { 2 };
        match self.written {
            Written::Those(those) => those.general >> number & 1 != 0,
            Written::Changed { .. } => true,
        }
    }
}

fn opcode(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |opcode, byte| opcode << 8 | u32::from(*byte))
}

/// The registers written, with that of the result of a call: of the kernel that a program calls, and of what the emulator
/// serves for a system.
fn with_result(isa: Isa, opcode: u32, is_program: bool, register: u32) -> Destinations {
    let is_call = match decode(isa, 0, opcode).flow {
        ControlFlow::SupervisorCall => is_program,
        ControlFlow::HypervisorCall | ControlFlow::SecureMonitorCall => !is_program,
        _ => false,
    };
    destinations(isa, opcode).and(Destinations { general: u32::from(is_call) << register, ..Destinations::NONE })
}

/// May it be an instruction of A32 or T32 that has to do with floating-point registers?
fn may_be_float(word: u32) -> bool {
    let [a32, t32] = [word, word.rotate_left(16)].map(|word| word >> 24);
    matches!(a32 & 0xf, 0xc..=0xe) || matches!(a32, 0xf2..=0xf4) || matches!(t32, 0xec..=0xef | 0xf9 | 0xfc..=0xff)
}

impl Follower {
    pub(crate) fn new(target: Target, has_signals: bool) -> Self {
        let before = Box::new([[0; 2]; COUNT]);
        Self { target, has_signals, site: None, stack: None, due: Due::All, before }
    }

    /// Nothing is recorded at the moment.
    pub(crate) fn rest(&mut self) {
        (self.site, self.due) = (None, Due::All);
    }

    /// A block starts; `is_excepted`: of a system, exceptions came before it.
    pub(crate) fn block(&mut self, is_excepted: bool, with: &mut impl Exchange) {
        let Some(site) = self.site.take() else { return };
        if is_excepted {
            self.due = self.due.max(Due::State);
        }
        let is_moved = self.has_signals
            && !site.writes_stack(self.target)
            && (!site.is_last || self.stack != with.read(self.stack_pointer()));
        if is_moved {
            self.due = Due::All;
        } else {
            self.settle(site, is_excepted, with);
        }
    }

    /// An instruction of the block is next.
    pub(crate) fn instruction(&mut self, site: &'static Site, with: &mut impl Exchange) {
        if let Some(before) = self.site.replace(site) {
            self.settle(before, false, with);
        }
        match std::mem::replace(&mut self.due, Due::Nothing) {
            Due::Nothing => {}
            Due::State => {
                self.tell(self.stack_pointer(), When::Before(site.index), with);
                self.tell(STATUS, When::Before(site.index), with);
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

    /// The instruction is complete.
    fn settle(&mut self, site: &Site, is_excepted: bool, with: &mut impl Exchange) {
        let when = When::Behind(site.index);
        match site.written {
            Written::Those(those) => {
                // An exception has changed these.
                let hidden = if is_excepted { 1 << SP } else { 0 };
                bits(those.general & !hidden).for_each(|number| self.tell(number, when, with));
                bits(those.float).for_each(|number| self.tell(FLOAT + number, when, with));
                if those.status && !is_excepted {
                    self.tell(STATUS, when, with);
                }
            }
            Written::Changed { has_floats } => {
                (0..15).chain([STATUS]).for_each(|number| self.tell_change(number, when, with));
                if has_floats {
                    (FLOAT..FLOAT + 32).for_each(|number| self.tell_change(number, when, with));
                }
            }
        }
    }

    fn tell(&mut self, register: Register, when: When, with: &mut impl Exchange) {
        if let Some(value) = with.read(register) {
            with.tell(when, register, value);
        }
    }

    fn tell_change(&mut self, register: Register, when: When, with: &mut impl Exchange) {
        let Some(value) = with.read(register).map(|value| settled(register, value)) else { return };
        if let Some(before) = self.before.get_mut(usize::from(register))
            && *before != value
        {
            *before = value;
            with.tell(when, register, value);
        }
    }

    /// Tells all that there is.
    fn all(&mut self, when: When, with: &mut impl Exchange) {
        let first = u8::from(matches!(self.target, Target::Riscv(_)));
        for register in (first..32).chain([STATUS]).chain(FLOAT..FLOAT + 32) {
            let Some(mut value) = with.read(register) else { continue };
            if matches!(self.target, Target::Arm | Target::Other) {
                value = settled(register, value);
            }
            if let Some(before) = self.before.get_mut(usize::from(register)) {
                *before = value;
            }
            with.tell(when, register, value);
        }
    }
}

impl Due {
    fn max(self, other: Self) -> Self {
        if self == Self::All { self } else { other }
    }
}

/// Of the CPSR in T32 state, the emulator does not keep what an IT instruction has set.
fn settled(register: Register, [low, high]: Value) -> Value {
    const THUMB: u64 = 1 << 5;
    const IT: u64 = 0x0600_fc00;
    if register == STATUS && low & THUMB != 0 { [low & !IT, high] } else { [low, high] }
}

/// The numbers of the bits that are set.
fn bits(mut mask: u32) -> impl Iterator<Item = Register> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| mask.trailing_zeros() as Register);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}
