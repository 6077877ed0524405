//! Elements besides atoms and addresses: speculation, cycle counts, timestamps.

use super::{Executed, Unit};
use crate::Target;
use crate::etm4::packet::{CycleCount, FewAtoms, Packet};

/// Greatest cycle count of a packet.
const MAX_CYCLES: u64 = (1 << 20) - 1;

impl Unit {
    /// Emits a taken branch as its own address: branches before it that were not taken need no atoms.
    pub(super) fn source_address(&mut self, executed: &Executed) {
        // A P0 element that was counted has to be emitted.
        if !self.guesses.are_made() {
            self.atoms.forget_not_taken();
        }
        self.flush();
        let address = self.addresses.shortest(Target { address: executed.address, isa: executed.isa });
        self.emit(&Packet::SourceAddress(address));
        self.guesses.element(1);
    }

    /// Emits an atom, perhaps mispredicted at first.
    #[inline(never)]
    pub(super) fn guess(&mut self, taken: bool, conditional: bool) {
        let guess = self.guesses.next(conditional);
        self.push_atom(taken != guess.is_wrong);
        (0..guess.junk).for_each(|at| self.push_atom(guess.junk_atoms >> at & 1 == 1));
        if guess.junk > 0 {
            self.flush();
            self.emit(&Packet::CancelFormat1 { count: guess.junk, mispredict: guess.is_wrong });
            self.guesses.cancel(guess.junk);
        } else if guess.is_wrong {
            self.flush();
            self.emit(&Packet::Mispredict(FewAtoms::None));
        }
        if guess.commits {
            let some = self.guesses.some();
            self.commit(some);
        }
    }

    fn push_atom(&mut self, taken: bool) {
        self.atoms.push(taken, &mut self.out);
        self.guesses.element(1);
    }

    /// Commits all speculative elements.
    pub(super) fn commit_all(&mut self) {
        self.flush();
        self.commit(self.guesses.outstanding());
    }

    fn commit(&mut self, count: u32) {
        self.flush();
        if count > 0 {
            self.emit(&Packet::Commit { count });
            self.guesses.resolve(count);
        }
    }

    pub(super) fn count_cycles(&mut self) {
        // Commits are packets of their own: not every reader applies the commit count of a cycle count.
        self.commit_all();
        let above = self.cycles - u64::from(self.cycle_threshold);
        let is_unknown = core::mem::take(&mut self.cycles_are_unknown);
        let count = match (above, self.config.commit_mode_1) {
            (_, is_mode_1) if is_unknown => CycleCount::Format1 { commit: (!is_mode_1).then_some(0), cycles: None },
            (0..=3, true) => CycleCount::Format3 { commit: 0, cycles: above as u8 },
            (4..=15, true) => CycleCount::Format2 { near_maximum: false, commit: 0, cycles: above as u8 },
            (_, is_mode_1) => {
                let cycles = (above <= MAX_CYCLES).then_some(above as u32);
                CycleCount::Format1 { commit: (!is_mode_1).then_some(0), cycles }
            }
        };
        self.emit(&Packet::CycleCount(count));
        self.cycles = 0;
    }

    pub(super) fn timestamp(&mut self) {
        if !core::mem::take(&mut self.time_due) || !self.config.timestamps {
            return;
        }
        let Some(time) = self.time else { return };
        self.flush();
        let bits = u64::BITS - (time ^ self.traced_time).leading_zeros();
        let bits = if bits > 56 { 64 } else { bits.max(1).div_ceil(7) * 7 };
        let value = if bits == 64 { time } else { time & ((1 << bits) - 1) };
        let cycles = self.config.cycle_counting.then_some(self.cycles.min(MAX_CYCLES) as u32);
        self.emit(&Packet::Timestamp { value, bits: bits as u8, cycles });
        self.traced_time = time;
    }
}
