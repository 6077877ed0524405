//! Atoms that wait until they fill a P-header.
//!
//! Takes one atom per instruction, with the cycles before it. Produces P-headers, as few as a choice from the last atoms allows.
//! Specification: Arm IHI 0014, P-headers.

use crate::etm3::packet::PHeader;

/// Greatest number of E atoms of format 1, and of cycles of format 3.
const MAX_EXECUTED: u8 = 15;
const MAX_EXECUTED_WITH_CYCLES: u8 = 7;
const MAX_CYCLES: u32 = 8;

/// Atoms that no packet contains yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PendingAtoms {
    /// Number of E atoms; with cycles, each in a cycle of its own.
    executed: u8,
    /// An N atom, in place of E atoms. Not with cycles.
    failed: bool,
}

impl PendingAtoms {
    /// Adds an atom of a trace without cycles.
    #[inline]
    pub(super) fn push(&mut self, is_executed: bool, emit: impl FnOnce(PHeader)) {
        let Self { executed, failed } = *self;
        let (pending, header) = match (failed, is_executed) {
            (true, second) => (Self::default(), Some(PHeader::Format2 { first: false, second })),
            (false, true) if executed == MAX_EXECUTED => {
                (Self { executed: 1, failed }, Some(PHeader::Format1 { executed, failed: false }))
            }
            (false, true) => (Self { executed: executed + 1, failed }, None),
            (false, false) if executed == 0 => (Self { executed, failed: true }, None),
            (false, false) => (Self::default(), Some(PHeader::Format1 { executed, failed: true })),
        };
        *self = pending;
        if let Some(header) = header {
            emit(header);
        }
    }

    /// Adds an atom of a cycle-accurate trace, with the cycles before it.
    pub(super) fn push_after(&mut self, cycles: u32, is_executed: bool, mut emit: impl FnMut(PHeader)) {
        match (cycles, is_executed) {
            (1, true) => {
                if self.executed == MAX_EXECUTED_WITH_CYCLES {
                    self.flush(&mut emit);
                }
                self.executed += 1;
            }
            (1, false) => emit(PHeader::Format1 { executed: core::mem::take(&mut self.executed), failed: true }),
            (0, second) if self.executed > 0 => {
                self.executed -= 1;
                self.flush(&mut emit);
                emit(PHeader::Format2 { first: true, second });
            }
            (0, executed) => emit(PHeader::Format4 { executed }),
            _ => {
                self.flush(&mut emit);
                let left = wait(cycles - u32::from(!is_executed), &mut emit);
                emit(PHeader::Format3 { cycles: left, executed: is_executed });
                if !is_executed {
                    emit(PHeader::Format1 { executed: 0, failed: true });
                }
            }
        }
    }

    /// Emits everything.
    #[inline]
    pub(super) fn flush(&mut self, emit: impl FnOnce(PHeader)) {
        let Self { executed, failed } = core::mem::take(self);
        if executed > 0 || failed {
            emit(PHeader::Format1 { executed, failed });
        }
    }
}

/// Emits cycles, up to those that fit into one more P-header.
fn wait(cycles: u32, emit: &mut impl FnMut(PHeader)) -> u8 {
    let whole = cycles.saturating_sub(1) / MAX_CYCLES;
    (0..whole).for_each(|_| emit(PHeader::Format3 { cycles: MAX_CYCLES as u8, executed: false }));
    (cycles - whole * MAX_CYCLES) as u8
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// The atoms of P-headers, each with the cycles before it, by the tables of the specification.
    fn meaning(headers: &[PHeader]) -> Vec<(u32, bool)> {
        let (mut all, mut cycles) = (vec![], 0);
        for header in headers {
            for (index, taken) in (0..).zip(header.atoms().iter()) {
                cycles += match header {
                    PHeader::Format1 { .. } => 1,
                    PHeader::Format2 { .. } => u32::from(index == 0),
                    PHeader::Format3 { cycles, .. } => u32::from(*cycles),
                    PHeader::Format4 { .. } => 0,
                };
                all.push((core::mem::take(&mut cycles), taken));
            }
            if let PHeader::Format3 { cycles: waited, executed: false } = header {
                cycles += u32::from(*waited);
            }
        }
        all
    }

    #[test]
    fn every_sequence_keeps_its_atoms() {
        for bits in 0..1_u32 << 12 {
            for length in [1, 2, 3, 12, 40] {
                let pushed: Vec<bool> = (0..length).map(|at| bits >> (at % 12) & 1 == 1).collect();
                let (mut pending, mut headers) = (PendingAtoms::default(), vec![]);
                pushed.iter().for_each(|taken| pending.push(*taken, |header| headers.push(header)));
                pending.flush(|header| headers.push(header));
                let found: Vec<bool> = headers.iter().flat_map(|header| header.atoms().iter()).collect();
                assert_eq!(found, pushed);
            }
        }
    }

    #[test]
    fn every_sequence_keeps_its_cycles() {
        for bits in 0..1_u32 << 12 {
            let counts = [0, 1, 1, 2, 8, 9, 17, 30];
            let pushed: Vec<(u32, bool)> =
                (0..24).map(|at| (counts[(bits.rotate_left(at) & 7) as usize], bits >> (at % 12) & 1 == 1)).collect();
            let (mut pending, mut headers) = (PendingAtoms::default(), vec![]);
            pushed
                .iter()
                .for_each(|(cycles, taken)| pending.push_after(*cycles, *taken, |header| headers.push(header)));
            pending.flush(|header| headers.push(header));
            assert_eq!(meaning(&headers), pushed, "{headers:?}");
        }
    }

    #[test]
    fn packets_are_few() {
        type Row<'r> = (&'r [(u32, bool)], &'r [PHeader]);
        let rows: &[Row] = &[
            (&[(1, true); 7], &[PHeader::Format1 { executed: 7, failed: false }]),
            (&[(1, true), (1, false)], &[PHeader::Format1 { executed: 1, failed: true }]),
            (&[(1, true), (0, false)], &[PHeader::Format2 { first: true, second: false }]),
            (&[(2, true)], &[PHeader::Format3 { cycles: 2, executed: true }]),
            (&[(8, true)], &[PHeader::Format3 { cycles: 8, executed: true }]),
        ];
        for (pushed, expected) in rows {
            let (mut pending, mut headers) = (PendingAtoms::default(), vec![]);
            pushed
                .iter()
                .for_each(|(cycles, taken)| pending.push_after(*cycles, *taken, |header| headers.push(header)));
            pending.flush(|header| headers.push(header));
            assert_eq!(headers, *expected);
        }
    }
}
