//! The state of a CPU, as far as the log and the instructions show it.
//!
//! The log of an exception contains both levels, and an exception selects the stack pointer of the new one. The log of a
//! return contains the level; its stack pointer is known if that in SPSR_ELx is, which an exception wrote and no instruction
//! since. Whether a level below EL3 is Secure is in no log: without EL3 none is, with it the user has to vouch for it.

use unspool_model::{Context, Security};
use unspool_wire::register::{CONTEXTIDR_EL1, Register, TCR_EL1, TTBR0_EL1, TTBR1_EL1};

use super::log::Taken;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct State {
    pub(super) level: Option<u8>,
    /// The stack pointer is that of the level.
    handler: Option<bool>,
    /// The level and the stack pointer in the SPSR of each level.
    saved: [Option<(u8, bool)>; 4],
    /// EL3 is there.
    has_monitor: bool,
}

/// Change of the state by an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// MSR SPSel: whether to the stack pointer of the level, if the opcode contains it.
    Stack(Option<bool>),
    /// MSR SPSR_ELx, with the x of the opcode.
    Saved(u8),
    /// MSR of a register that the process follows from.
    Translation(Register),
}

/// The change that an opcode makes.
pub(super) fn change(opcode: u32) -> Option<Change> {
    match (opcode & 0xffff_f0ff, opcode & !0x1f) {
        (0xd500_40bf, _) => Some(Change::Stack(Some(opcode & 0x100 != 0))),
        (_, 0xd518_4200) => Some(Change::Stack(None)),
        (_, 0xd518_4000 | 0xd51d_4000) => Some(Change::Saved(1)),
        (_, 0xd51c_4000) => Some(Change::Saved(2)),
        (_, 0xd51e_4000) => Some(Change::Saved(3)),
        (_, 0xd518_2000) => Some(Change::Translation(TTBR0_EL1)),
        (_, 0xd518_2020) => Some(Change::Translation(TTBR1_EL1)),
        (_, 0xd518_2040) => Some(Change::Translation(TCR_EL1)),
        (_, 0xd518_d020) => Some(Change::Translation(CONTEXTIDR_EL1)),
        _ => None,
    }
}

/// The level and the stack pointer in the bits of SPSR_ELx; `None`: AArch32.
fn saved(bits: u64) -> Option<(u8, bool)> {
    (bits & 0x12 == 0).then_some(((bits >> 2 & 3) as u8, bits & 1 != 0))
}

impl State {
    /// The CPU starts at this level.
    pub(super) fn start(&mut self, level: u8) {
        self.level = Some(level);
        self.has_monitor |= level == 3;
        // A CPU starts with the stack pointer of its level.
        self.handler = Some(level != 0);
    }

    /// Instructions were executed that are not recorded: only exceptions change the level.
    pub(super) fn forget(&mut self) {
        (self.handler, self.saved) = (None, [None; 4]);
    }

    /// Resets the state: it is unknown how execution came here, possibly by a reset.
    pub(super) fn reset(&mut self) {
        self.forget();
        self.level = None;
    }

    /// The context of a step, or what the user has to provide.
    pub(super) fn context(&self, assumed: &Context) -> Result<Context, &'static str> {
        let level = self.level.ok_or("the Exception level is unknown")?;
        let security = match level {
            3 => Security::Secure,
            _ if !self.has_monitor => Security::NonSecure,
            _ => assumed.security.ok_or(
                "there is EL3, and the emulator does not report the Security state below it: assume one \
                 (--assume security=secure|nonsecure)",
            )?,
        };
        Ok(Context {
            level: Some(level),
            security: Some(security),
            is_aarch64: Some(true),
            is_handler: self.stack(level).or(assumed.is_handler),
            modes: assumed.modes,
            ..Context::default()
        })
    }

    fn stack(&self, level: u8) -> Option<bool> {
        if level == 0 { Some(false) } else { self.handler }
    }

    /// An exception was taken. False: that contradicts the known state.
    #[must_use]
    pub(super) fn take(&mut self, taken: &Taken) -> bool {
        let known = self.stack(taken.from);
        let logged = taken.stack_before();
        let fits = self.level.is_none_or(|level| level == taken.from)
            && (logged.is_none() || known.is_none() || logged == known);
        let stack = if taken.from == 0 { Some(false) } else { logged.or(known) };
        self.put_saved(taken.to, stack.map(|stack| (taken.from, stack)));
        (self.level, self.handler) = (Some(taken.to), Some(true));
        self.has_monitor |= taken.to == 3;
        fits
    }

    /// An exception returned. False: that contradicts the known state.
    #[must_use]
    pub(super) fn exception_return(&mut self, from: u8, to: u8) -> bool {
        let fits = self.level.is_none_or(|level| level == from);
        let saved = self.saved.get(usize::from(from)).copied().flatten();
        self.handler = saved.filter(|(level, _)| *level == to).map(|(_, stack)| stack);
        self.level = Some(to);
        self.has_monitor |= from == 3;
        fits
    }

    /// Executes an instruction that changes the state, with its operand if that is known. True: the context has changed.
    pub(super) fn execute(&mut self, change: Change, operand: Option<u64>) -> bool {
        match change {
            Change::Stack(handler) => {
                let handler = handler.or(operand.map(|operand| operand & 1 != 0));
                let before = std::mem::replace(&mut self.handler, handler);
                before != handler
            }
            Change::Saved(level) => {
                // With VHE, SPSR_EL1 of an instruction at EL2 is SPSR_EL2.
                let is_sure = level != 1 || self.level == Some(1);
                self.put_saved(level, operand.filter(|_| is_sure).and_then(saved));
                if !is_sure {
                    self.put_saved(2, None);
                }
                false
            }
            Change::Translation(_) => false,
        }
    }

    fn put_saved(&mut self, level: u8, saved: Option<(u8, bool)>) {
        if let Some(slot) = self.saved.get_mut(usize::from(level)) {
            *slot = saved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_change_the_state() {
        let rows = [
            ("msr spsel, #0", 0xd500_40bf, Some(Change::Stack(Some(false)))),
            ("msr spsel, #1", 0xd500_41bf, Some(Change::Stack(Some(true)))),
            ("msr spsel, x3", 0xd518_4203, Some(Change::Stack(None))),
            ("msr spsr_el1, x1", 0xd518_4001, Some(Change::Saved(1))),
            ("msr spsr_el12, x1", 0xd51d_4001, Some(Change::Saved(1))),
            ("msr spsr_el2, x1", 0xd51c_4001, Some(Change::Saved(2))),
            ("msr spsr_el3, x1", 0xd51e_4001, Some(Change::Saved(3))),
            ("msr elr_el1, x1", 0xd518_4021, None),
            ("msr ttbr0_el1, x1", 0xd518_2001, Some(Change::Translation(TTBR0_EL1))),
            ("msr ttbr1_el1, x1", 0xd518_2021, Some(Change::Translation(TTBR1_EL1))),
            ("msr tcr_el1, x1", 0xd518_2041, Some(Change::Translation(TCR_EL1))),
            ("msr contextidr_el1, x1", 0xd518_d021, Some(Change::Translation(CONTEXTIDR_EL1))),
            ("nop", 0xd503_201f, None),
        ];
        for (name, opcode, expected) in rows {
            assert_eq!(change(opcode), expected, "{name}");
        }
    }

    fn taken(from: u8, to: u8, target: u64) -> Taken {
        let kind = unspool_model::ExceptionKind::Synchronous;
        Taken { kind, is_virtual: false, from, to, syndrome: Some(0), fault: None, returns_to: 0, target }
    }

    #[test]
    fn the_stack_pointer_comes_back_unless_written() {
        let mut state = State::default();
        state.start(1);
        assert!(state.execute(Change::Stack(Some(false)), None));
        // The vector of the current level with SP_EL0.
        assert!(state.take(&taken(1, 1, 0x800)));
        assert_eq!(state.stack(1), Some(true));
        assert!(state.exception_return(1, 1));
        assert_eq!(state.stack(1), Some(false));
        assert!(state.take(&taken(1, 1, 0x800)));
        state.execute(Change::Saved(1), None);
        assert!(state.exception_return(1, 1));
        assert_eq!(state.stack(1), None);
        assert!(state.exception_return(1, 0));
        assert_eq!(state.stack(0), Some(false));
        // EL1 was logged, and it is EL0.
        assert!(!state.take(&taken(1, 1, 0x800)));
    }

    #[test]
    fn a_known_operand_is_written_to_the_spsr() {
        let mut state = State::default();
        state.start(1);
        // EL1h, EL1t, EL0t, and AArch32.
        for (bits, to, expected) in
            [(0x3c5, 1, Some(true)), (0x3c4, 1, Some(false)), (0, 0, Some(false)), (0x10, 1, None)]
        {
            // The vector of the current level with its stack pointer.
            assert!(state.take(&taken(1, 1, 0x200)));
            state.execute(Change::Saved(1), Some(bits));
            assert!(state.exception_return(1, to));
            assert_eq!(state.stack(to), expected, "{bits:#x}");
            (state.level, state.handler) = (Some(1), Some(true));
        }
        assert!(state.execute(Change::Stack(None), Some(0)));
        assert_eq!(state.stack(1), Some(false));
        // At EL2 it is unknown which register SPSR_EL1 is.
        state.level = Some(2);
        state.execute(Change::Saved(1), Some(0x3c5));
        assert!(state.exception_return(2, 1));
        assert_eq!(state.stack(1), None);
    }

    #[test]
    fn a_vector_of_the_other_stack_pointer_contradicts() {
        let mut state = State::default();
        state.start(1);
        assert!(!state.take(&taken(1, 1, 0x800)));
    }

    #[test]
    fn security_is_known_without_el3_and_at_el3() {
        let security = |state: &State, assumed: Option<Security>| {
            let assumed = Context { security: assumed, ..Context::default() };
            state.context(&assumed).ok().and_then(|context| context.security)
        };
        let mut state = State::default();
        state.start(1);
        assert_eq!(security(&state, None), Some(Security::NonSecure));
        assert!(state.take(&taken(1, 3, 0x400)));
        assert_eq!(security(&state, Some(Security::NonSecure)), Some(Security::Secure));
        assert!(state.exception_return(3, 1));
        assert_eq!(security(&state, None), None);
        assert_eq!(security(&state, Some(Security::Secure)), Some(Security::Secure));
    }
}
