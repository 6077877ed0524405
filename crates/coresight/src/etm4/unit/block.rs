//! Tracing of whole blocks, where no instruction but the last has an element.

use super::decision_memo::{Decision, Steady};
use super::{Class, Executed, Unit};
use crate::Target;

/// Consecutive four-byte instructions within one window of the comparators. None but the last has an element in the
/// trace. Made by [`Unit::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    last: Executed,
    /// Number of instructions.
    count: u32,
    window: u16,
    /// An atom is all that the trace contains of it.
    is_atom: bool,
}

impl Block {
    /// The instruction that `following` others follow.
    fn before(&self, following: u64) -> Target {
        Target { address: self.last.address.wrapping_sub(4 * following), isa: self.last.isa }
    }
}

impl Unit {
    /// The blocks of four-byte instructions from `start` to the last one, as few as the comparators allow.
    pub fn blocks(&self, start: u64, last: Executed) -> impl Iterator<Item = Block> {
        let mut next = Some(start);
        core::iter::from_fn(move || {
            let start = next?;
            let (window, end) = self.view.window(start);
            // The last instruction that starts before the end, or the last of all.
            let inside = start.wrapping_add(end.saturating_sub(start).saturating_sub(1) & !3);
            let is_last = last.address.wrapping_sub(start) <= inside.wrapping_sub(start);
            next = (!is_last).then_some(inside.wrapping_add(4));
            let other = Executed { address: inside, class: Class::Other, conditional: false, link: false, ..last };
            let last = if is_last { last } else { other };
            let count = u32::try_from(last.address.wrapping_sub(start) / 4 + 1).unwrap_or(u32::MAX);
            Some(Block { last, count, window, is_atom: self.is_atom(&last) })
        })
    }

    /// Is an atom all that a P0 instruction needs?
    fn is_atom(&self, executed: &Executed) -> bool {
        let has_other_elements = self.q_elements.are_made() || self.guesses.are_made() || self.source_addresses;
        let is_followed = self.config.cycle_counting || self.times_all || self.overflows.are_made();
        let is_direct = executed.class == Class::Direct && !self.needs_more_than_atom(executed);
        !has_other_elements && !is_followed && is_direct
    }

    /// Traces an executed block, each instruction of which took `cycles`.
    #[inline]
    pub fn block(&mut self, block: &Block, taken: bool, cycles: u64) {
        if self.attention || self.view.steady(block.window) != Steady::Shown {
            self.attentive_block(block, taken, cycles);
        } else if block.is_atom {
            self.in_block = false;
            self.atoms.push(taken, &mut self.out);
            self.synchronize_if_late();
        } else {
            self.end_block(block, block.count.into(), taken, cycles);
        }
    }

    /// Traces the last `count` instructions of a block, which need no packets before its end.
    #[inline(always)]
    fn end_block(&mut self, block: &Block, count: u64, taken: bool, cycles: u64) {
        self.cycles(cycles.saturating_mul(count));
        self.in_block = true;
        if block.last.class != Class::Other {
            self.p0(&block.last, taken);
        }
    }

    /// Traces a block instruction by instruction for as long as necessary.
    fn attentive_block(&mut self, block: &Block, taken: bool, cycles: u64) {
        let mut left = u64::from(block.count);
        loop {
            if let Some(is_shown) = self.steady(block) {
                return self.rest_of_block(block, is_shown, left, taken, cycles);
            }
            left -= 1;
            self.cycles(cycles);
            if self.view.is_dynamic() {
                self.observe(&if left == 0 { Executed { taken, ..block.last } } else { Executed::default() });
            }
            let is_shown = self.attend(block.before(left), Some(block.window));
            self.in_block |= is_shown;
            if left == 0 {
                if is_shown && block.last.class != Class::Other {
                    self.p0(&block.last, taken);
                }
                return;
            }
        }
    }

    /// The last instructions of a block, all of which are shown or none.
    #[inline(always)]
    fn rest_of_block(&mut self, block: &Block, is_shown: bool, count: u64, taken: bool, cycles: u64) {
        if !is_shown && !self.in_traced_block() {
            self.is_active &= self.is_prohibited;
            self.stop_if_on();
            return self.cycles(cycles.saturating_mul(count));
        }
        self.cycles(cycles);
        if self.attention {
            self.apply(block.before(count - 1), Decision::SHOWN);
        }
        // A Q element contains all of them or none.
        self.q_elements.instructions(count as u32 - 1);
        self.end_block(block, count - 1, taken, cycles);
    }

    /// Are all instructions of a block shown, or none, with no other effect?
    #[inline(always)]
    fn steady(&self, block: &Block) -> Option<bool> {
        if self.is_prohibited {
            return Some(false);
        }
        let is_shown = match self.view.steady(block.window) {
            Steady::Not => return None,
            Steady::Timed if self.time.is_some_and(|time| time != self.traced_time) => return None,
            Steady::Shown | Steady::Timed => true,
            Steady::Hidden => false,
        };
        (!self.overflows.is_losing()).then_some(is_shown)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::etm4::unit::settings::Settings;
    use crate::etm4::unit::view_inst;
    use crate::unit::random;
    use crate::{Context, Security, SubIsa};

    /// Filters, events and other options of all kinds.
    fn settings(state: &mut u64) -> Settings {
        // Some rows select counters, sequencer states and external inputs too, which few can do without.
        let groups: &[u64] = if random(state).is_multiple_of(4) { &[0, 2, 2, 3, 4, 5, 6] } else { &[3, 4, 5, 6] };
        let mut settings = view_inst::tests::settings(state, groups);
        let random = random(state);
        let counters = [("TRCCNTCTLR0", 0x1_0301), ("TRCCNTRLDVR0", random & 7), ("TRCCNTCTLR1", 0x2_0402)];
        let others = [("TRCSEQEVR0", 0x304), ("TRCSEQEVR1", 0x205), ("TRCEXTINSELR0", 0x9), ("TRCEXTINSELR1", 0xc)];
        counters.iter().chain(&others).for_each(|(name, value)| assert!(settings.set(name, *value)));
        // Branch broadcast, cycle counts, contexts, timestamps, return stack, Q elements.
        let config = 1 | random & 0x38d8 | (random >> 20 & 1) << 11;
        assert!(settings.set("TRCCONFIGR", config) && settings.set("TRCIDR0", 0x2800_8ea1));
        assert!(settings.set("TRCIDR8", if random >> 24 & 3 == 0 { 16 } else { 0 }));
        assert!(settings.set("TRCSYNCPR", 8));
        if random >> 26 & 1 == 0 {
            assert!(settings.set("TRCTSCTLR", 1));
        }
        if random >> 27 & 1 == 0 {
            for (name, value) in [("TRCVIIECTLR", 0), ("TRCVISSCTLR", 0), ("TRCVICTLR", 0x201)] {
                assert!(settings.set(name, value));
            }
        }
        settings.guess_seed = (random >> 28 & 1 == 0).then_some(random);
        settings.q_seed = (random >> 29 & 1 == 0).then_some(random);
        settings.overflow_seed = (random >> 30 & 3 == 0).then_some(random);
        settings.source_addresses = random >> 32 & 3 == 0;
        settings
    }

    /// Start and last instruction of a block.
    fn program(state: &mut u64) -> (u64, Executed) {
        let random = random(state);
        let start = 0x1000 + 4 * (random & 31);
        let address = start + 4 * (random >> 8 & 7);
        let class =
            [Class::Other, Class::Direct, Class::Direct, Class::Indirect, Class::Barrier, Class::ExceptionReturn]
                [(random >> 16) as usize % 6];
        let (conditional, link) = (random >> 24 & 1 == 1, random >> 25 & 3 == 0);
        (
            start,
            Executed {
                address,
                isa: SubIsa::Is0,
                length: 4,
                class,
                conditional,
                link,
                taken: true,
                ..Executed::default()
            },
        )
    }

    /// Events between blocks.
    fn disturb(unit: &mut Unit, random: u64) {
        let at = Target { address: 0x1000 + (random >> 8 & 0x7c), isa: SubIsa::Is0 };
        let (el, context_id) = ((random >> 16 & 1) as u8, Some(random as u32 & 1));
        let context = Context { el, aarch64: true, security: Security::NonSecure, vmid: None, context_id };
        match random % 64 {
            0 => unit.context(context),
            1 => unit.exception(14, at),
            2 => unit.halt(at),
            3 => unit.overflow(),
            4..16 => unit.time(random >> 20),
            _ => {}
        }
    }

    #[test]
    fn blocks_are_traced_like_their_instructions() {
        let state = &mut 1;
        let (mut bytes, mut traced) = (0, 0);
        for row in 0..600 {
            let settings = settings(state);
            let (mut one_by_one, mut at_once) = (Unit::new(&settings), Unit::new(&settings));
            let programs: Vec<(u64, Executed)> = (0..12).map(|_| program(state)).collect();
            let cycles = random(state) & 1;
            for step in 0..400 {
                let random = random(state);
                let ((start, last), taken) = (programs[(random >> 40) as usize % 12], random >> 50 & 1 == 1);
                for address in (start..last.address).step_by(4) {
                    one_by_one.cycles(cycles);
                    one_by_one.instruction(&Executed { address, isa: SubIsa::Is0, length: 4, ..Executed::default() });
                }
                one_by_one.cycles(cycles);
                one_by_one.instruction(&Executed { taken, ..last });
                let blocks: Vec<Block> = at_once.blocks(start, last).collect();
                traced += blocks.len();
                blocks.iter().for_each(|block| at_once.block(block, taken, cycles));
                disturb(&mut one_by_one, random);
                disturb(&mut at_once, random);
                assert_eq!(one_by_one.bytes(), at_once.bytes(), "row {row}, step {step}: {settings:?}");
            }
            one_by_one.finish();
            at_once.finish();
            assert_eq!(one_by_one.bytes(), at_once.bytes(), "row {row}: {settings:?}");
            assert_eq!(one_by_one.overflowed(), at_once.overflowed(), "row {row}");
            bytes += at_once.bytes().len();
        }
        assert!(bytes > 100_000 && traced > 600 * 400, "{bytes} bytes, {traced} blocks");
    }

    #[test]
    fn blocks_are_cut_at_window_boundaries() {
        let mut settings = Settings::new(crate::Protocol::Ete);
        assert!(settings.set("TRCACVR0", 0x1008) && settings.set("TRCACVR1", 0x1010));
        let last = Executed { address: 0x101c, length: 4, class: Class::Direct, ..Executed::default() };
        let blocks: Vec<Block> = Unit::new(&settings).blocks(0x1000, last).collect();
        let start = |block: &Block| block.before(u64::from(block.count) - 1).address;
        let ends: Vec<(u64, u64)> = blocks.iter().map(|block| (start(block), block.last.address)).collect();
        assert_eq!(ends, [(0x1000, 0x1004), (0x1008, 0x1008), (0x100c, 0x100c), (0x1010, 0x1010), (0x1014, 0x101c)]);
        let classes: Vec<Class> = blocks.iter().map(|block| block.last.class).collect();
        assert_eq!(classes, [Class::Other, Class::Other, Class::Other, Class::Other, Class::Direct]);
    }
}
