//! Registers that addresses are computed from, as they are before an instruction changes them.

//! register writes, next addresses ─▶ **registers** ─▶ addresses that no source reports

//! Only reported bits are known: a partial write leaves the other bits unknown, and where steps are or may be missing,
//! everything is forgotten. A source that reports no registers leaves all unknown.

use unspool_model::RegisterWrite;

/// Indexes after the general registers: the stack pointer in use, those of EL0 to EL3, and TCR_EL1.
const SP: usize = 31;
const SP_EL0: usize = 32;
const TCR_EL1: usize = 36;

const NAMES: [&str; 37] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
    "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "sp_el0",
    "sp_el1", "sp_el2", "sp_el3", "tcr_el1",
];

/// The number of XZR and of the stack pointer in an opcode.
const ZERO_OR_SP: u32 = 31;

/// Name of a value that is needed, but unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing(pub(super) &'static str);

/// Address where the next instruction is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing was executed yet.
    Anywhere,
    /// If it is elsewhere, steps are missing.
    At(u64),
    /// Unknown without a further step: if an instruction follows, steps are missing.
    Nowhere,
}

/// Registers that a source reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reported {
    Nothing,
    /// Before an instruction those that it needs, and no results.
    Operands,
    /// Every write.
    All,
}

/// Register values, as far as they are known.
#[derive(Debug)]
pub(super) struct Registers {
    reported: Reported,
    /// Some register may be known.
    is_used: bool,
    slots: [Slot; NAMES.len()],
    next: Next,
}

/// A register: its value, as far as its bits are known.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    value: u64,
    known: u64,
}

impl Registers {
    pub(super) fn new(reported: Reported) -> Self {
        Self { reported, is_used: false, slots: [Slot::default(); NAMES.len()], next: Next::Anywhere }
    }

    /// Whether every instruction has to be tracked.
    #[inline]
    pub(super) fn is_tracking(&self) -> bool {
        self.reported == Reported::All || self.is_used
    }

    /// Reported values are valid for one instruction.
    pub(super) fn are_operands(&self) -> bool {
        self.reported == Reported::Operands
    }

    #[inline]
    pub(super) fn learn(&mut self, write: &RegisterWrite<'_>) {
        let Some(number) = number(write.name).filter(|_| self.reported != Reported::Nothing) else { return };
        self.is_used = true;
        match number {
            // `sp` is one of the banked ones, but it is unknown which.
            SP => self.slots[SP_EL0..TCR_EL1].fill(Slot::default()),
            SP_EL0..TCR_EL1 => self.slots[SP] = Slot::default(),
            _ => {}
        }
        self.slots[number] = slot(write);
    }

    /// An instruction is executed here. If it was not expected here, anything may have changed.
    pub(super) fn arrive(&mut self, address: u64) {
        let is_here = match self.next {
            Next::Anywhere => true,
            // They were reported for it.
            _ if self.are_operands() => true,
            Next::At(expected) => expected == address,
            Next::Nowhere => false,
        };
        if !is_here {
            self.forget();
        }
    }

    /// Sets where the next instruction is expected.
    pub(super) fn set_next(&mut self, next: Next) {
        self.next = next;
    }

    /// Anything may have changed.
    pub(super) fn forget(&mut self) {
        if self.is_used {
            *self = Self::new(self.reported);
        }
    }

    /// Another stack pointer may be in use.
    pub(super) fn change_stack(&mut self) {
        self.slots[SP] = Slot::default();
    }

    /// A general register, or zero.
    pub(super) fn x(&self, number: u32) -> Result<u64, Missing> {
        if number == ZERO_OR_SP { Ok(0) } else { self.bits(number as usize, u64::MAX) }
    }

    /// The lower half of a general register, or zero.
    pub(super) fn w(&self, number: u32) -> Result<u32, Missing> {
        if number == ZERO_OR_SP {
            return Ok(0);
        }
        self.bits(number as usize, u64::from(u32::MAX)).map(|half| half as u32)
    }

    /// A general register, or the stack pointer; `stack` is the Exception level whose stack pointer is in use.
    pub(super) fn base(&self, number: u32, stack: Option<u8>) -> Result<u64, Missing> {
        if number != ZERO_OR_SP {
            return self.x(number);
        }
        let of_level = |level| self.bits(SP_EL0 + usize::from(level), u64::MAX);
        let unknown = Err(Missing("the stack pointer"));
        self.bits(SP, u64::MAX).or_else(|_| stack.filter(|level| *level <= 3).map_or(unknown, of_level))
    }

    pub(super) fn tcr_el1(&self) -> Result<u64, Missing> {
        self.bits(TCR_EL1, u64::MAX)
    }

    /// These bits, if all of them are known.
    fn bits(&self, number: usize, bits: u64) -> Result<u64, Missing> {
        let Slot { value, known } = self.slots[number];
        if known & bits == bits { Ok(value & bits) } else { Err(Missing(NAMES[number])) }
    }
}

/// Index of the register with this name.
fn number(name: &str) -> Option<usize> {
    let digit = |digit: &u8| usize::from(digit - b'0');
    match name.as_bytes() {
        [b'x' | b'w', one @ b'0'..=b'9'] => Some(digit(one)),
        [b'x' | b'w', ten @ b'1'..=b'3', one @ b'0'..=b'9'] => {
            Some(digit(ten) * 10 + digit(one)).filter(|number| *number < SP)
        }
        b"sp" => Some(SP),
        [b's', b'p', b'_', b'e', b'l', level @ b'0'..=b'3'] => Some(SP_EL0 + digit(level)),
        b"tcr_el1" => Some(TCR_EL1),
        _ => None,
    }
}

/// Value after a write.
fn slot(write: &RegisterWrite<'_>) -> Slot {
    let mut slot = Slot::default();
    let mut position = u32::from(write.low);
    for (byte, known) in write.bytes {
        if position >= u64::BITS {
            break;
        }
        slot.value |= u64::from(byte & known) << position;
        slot.known |= u64::from(*known) << position;
        position += 8;
    }
    slot
}

#[cfg(test)]
mod tests {
    use unspool_model::Step;

    use super::*;

    fn written(writes: &[(&str, u16, &[u8])]) -> Registers {
        let mut registers = Registers::new(Reported::All);
        for (name, low, bytes) in writes {
            let mut step = Step::default();
            step.write_register(name, *low, bytes);
            step.registers().for_each(|write| registers.learn(&write));
        }
        registers
    }

    #[test]
    fn only_reported_bits_are_known() {
        let whole = &[8, 7, 6, 5, 4, 3, 2, 1];
        let value = 0x0102_0304_0506_0708;
        type Row<'a> = (&'static str, &'a [(&'static str, u16, &'a [u8])], Result<u64, Missing>);
        let rows: [Row<'_>; 8] = [
            ("nothing", &[], Err(Missing("x9"))),
            ("all of it", &[("x9", 0, whole)], Ok(value)),
            ("more than it has", &[("x9", 0, &[8, 7, 6, 5, 4, 3, 2, 1, 9, 9])], Ok(value)),
            ("the last write counts", &[("x9", 0, &[9; 8]), ("x9", 0, whole)], Ok(value)),
            ("another", &[("x19", 0, whole), ("x31", 0, whole), ("v9", 0, whole)], Err(Missing("x9"))),
            ("the lower half", &[("x9", 0, whole), ("x9", 0, &[1; 4])], Err(Missing("x9"))),
            ("the upper half", &[("x9", 0, whole), ("x9", 32, &[1; 4])], Err(Missing("x9"))),
            ("high above it", &[("x9", 0, whole), ("x9", 64, whole)], Err(Missing("x9"))),
        ];
        for (name, writes, expected) in rows {
            assert_eq!(written(writes).x(9), expected, "{name}");
        }
        assert_eq!(written(&[("x9", 0, &[1; 4])]).w(9), Ok(0x0101_0101));
        assert_eq!(written(&[("x9", 8, &[1; 8])]).w(9), Err(Missing("x9")));
        assert_eq!((written(&[]).x(31), written(&[]).w(31)), (Ok(0), Ok(0)));
        let mut step = Step::default();
        step.write_register_known("x9", 0, [(1, 0xff), (1, 0x0f), (1, 0xff), (1, 0xff)]);
        let mut registers = written(&[]);
        step.registers().for_each(|write| registers.learn(&write));
        assert_eq!(registers.w(9), Err(Missing("x9")));
    }

    #[test]
    fn stack_pointers_are_distinguished() {
        let (one, two) = (&[1; 8][..], &[2; 8][..]);
        let value = |byte: u8| Ok(u64::from_le_bytes([byte; 8]));
        type Row<'a> = (&'static str, &'a [(&'static str, u16, &'a [u8])], Option<u8>, Result<u64, Missing>);
        let rows: [Row<'_>; 7] = [
            ("the one in use", &[("sp", 0, one)], None, value(1)),
            ("that of EL0", &[("sp_el0", 0, one), ("sp_el1", 0, two)], Some(0), value(1)),
            ("that of EL1", &[("sp_el0", 0, one), ("sp_el1", 0, two)], Some(1), value(2)),
            ("unknown which", &[("sp_el0", 0, one)], None, Err(Missing("the stack pointer"))),
            ("not reported", &[("sp_el0", 0, one)], Some(2), Err(Missing("sp_el2"))),
            ("the one in use, changed", &[("sp_el0", 0, one), ("sp", 0, two)], Some(0), value(2)),
            ("may be the one in use", &[("sp", 0, one), ("sp_el1", 0, two)], Some(0), Err(Missing("sp_el0"))),
        ];
        for (name, writes, stack, expected) in rows {
            assert_eq!(written(writes).base(31, stack), expected, "{name}");
        }
        let mut changed = written(&[("sp", 0, one)]);
        changed.change_stack();
        assert_eq!(changed.base(31, Some(1)), Err(Missing("sp_el1")));
    }

    #[test]
    fn missing_steps_forget_registers() {
        let rows = [(Next::Anywhere, true), (Next::At(0x100), true), (Next::At(0x104), false), (Next::Nowhere, false)];
        for (next, is_known) in rows {
            let mut registers = written(&[("x0", 0, &[1; 8])]);
            registers.set_next(next);
            registers.arrive(0x100);
            assert_eq!(registers.x(0).is_ok(), is_known, "{next:?}");
        }
        let mut silent = Registers::new(Reported::Nothing);
        let mut step = Step::default();
        step.write_register("x0", 0, &[1; 8]);
        step.registers().for_each(|write| silent.learn(&write));
        assert_eq!(silent.x(0), Err(Missing("x0")));
    }
}
