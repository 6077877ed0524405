//! Counters: four 16-bit down counters, each of which is a resource while it is at zero.
//!
//! Takes TRCCNTCTLR, TRCCNTRLDVR and TRCCNTVR, then one step per executed instruction with the events that hold. Produces
//! the counters that are at zero, from the next instruction on. A trace unit counts clock cycles; the model counts
//! executed instructions, each of which is one cycle for the resources.
//! Specification: DDI 0487, Counters (D4.6.9); ETMv4 has the same ones (IHI 0064, Counters).

use super::settings::Settings;
use crate::etm4::config::field;

const COUNTERS: usize = 4;

/// The counters of a trace unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counters {
    all: [Counter; COUNTERS],
    /// Resources that are active, one bit each.
    at_zero: u32,
}

#[derive(Debug, Clone, Copy)]
struct Counter {
    value: u16,
    reload: u16,
    control: u32,
}

impl Counter {
    /// It reloads itself when it would count below zero.
    fn reloads_itself(self) -> bool {
        field(self.control, 16, 1) == 1
    }

    /// Advances by a cycle. Returns whether it reloaded, and whether the reload was its own.
    fn step(&mut self, lower_reloads: bool, holds: impl Fn(u32) -> bool) -> (bool, bool) {
        let is_chained = field(self.control, 17, 1) == 1;
        let counts = holds(field(self.control, 0, 8)) || (is_chained && lower_reloads);
        // The reload event has priority over the counting event (R_DDCDK).
        let is_reloaded = holds(field(self.control, 8, 8));
        let reloads_itself = !is_reloaded && self.reloads_itself() && counts && self.value == 0;
        let reloads = is_reloaded || reloads_itself;
        self.value = if reloads { self.reload } else { self.value.saturating_sub(u16::from(counts)) };
        (reloads, reloads_itself)
    }
}

impl Counters {
    pub(super) fn new(settings: &Settings) -> Self {
        let all = core::array::from_fn(|n| Counter {
            value: settings.numbered("TRCCNTVR", n) as u16,
            reload: settings.numbered("TRCCNTRLDVR", n) as u16,
            control: settings.numbered("TRCCNTCTLR", n) as u32,
        });
        let mut counters = Self { all, at_zero: 0 };
        counters.at_zero = counters.resting_at_zero();
        counters
    }

    /// Counters at zero, one bit each: as long as they are in Normal mode, for one cycle where they reload themselves.
    pub(super) fn at_zero(&self) -> u32 {
        self.at_zero
    }

    /// Advances by a cycle, given the events that hold in it. Counters 1 and 3 may count the reloads of the one below.
    pub(super) fn step(&mut self, holds: impl Fn(u32) -> bool) {
        let (mut lower_reloads, mut itself) = (false, 0);
        for (n, counter) in self.all.iter_mut().enumerate() {
            let (reloads, reloads_itself) = counter.step(n % 2 == 1 && lower_reloads, &holds);
            lower_reloads = reloads;
            itself |= u32::from(reloads_itself) << n;
        }
        self.at_zero = self.resting_at_zero() | itself;
    }

    /// Counters in Normal mode that are at zero (R_HYLGG).
    fn resting_at_zero(&self) -> u32 {
        let rests = |counter: &Counter| counter.value == 0 && !counter.reloads_itself();
        (0..).zip(&self.all).fold(0, |bits, (n, counter)| bits | u32::from(rests(counter)) << n)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::Protocol;

    const COUNT: u32 = 2;
    const RELOAD: u32 = 3;

    /// The tables of D4.6.9.1 and D4.6.9.2, and the chained counters of D4.6.9.3. Each letter is a cycle: C counts, R reloads, B both,
    /// and a dot neither. Expected: the value of the counter and whether its resource is active, after each cycle.
    #[test]
    fn counters_count_down_and_reload() {
        let (normal, itself) = (0x302, 0x1_0302);
        type Row<'r> = (&'r str, u64, u64, &'r str, &'r [(u16, u32)]);
        let rows: &[Row<'_>] = &[
            ("counts, and stays at zero", normal, 2, "CCC.", &[(1, 0), (0, 1), (0, 1), (0, 1)]),
            ("reloads at zero and above", normal, 1, "CRCR", &[(0, 1), (3, 0), (2, 0), (3, 0)]),
            ("reloading has priority", normal, 2, "B", &[(3, 0)]),
            ("is at zero from the start", normal, 0, ".", &[(0, 1)]),
            ("reloads itself at the next count", itself, 1, "C.CC", &[(0, 0), (0, 0), (3, 1), (2, 0)]),
            ("a reload event hides that", itself, 0, "BC", &[(3, 0), (2, 0)]),
            (
                "every four cycles",
                itself,
                3,
                "CCCCCCCC",
                &[(2, 0), (1, 0), (0, 0), (3, 1), (2, 0), (1, 0), (0, 0), (3, 1)],
            ),
        ];
        for (name, control, value, cycles, expected) in rows {
            let mut settings = Settings::new(Protocol::Ete);
            let registers = [("TRCCNTCTLR0", *control), ("TRCCNTRLDVR0", 3), ("TRCCNTVR0", *value)];
            registers.iter().for_each(|(register, value)| assert!(settings.set(register, *value)));
            let mut counters = Counters::new(&settings);
            let found: Vec<(u16, u32)> = cycles
                .chars()
                .map(|cycle| {
                    counters.step(|event| match event {
                        COUNT => "CB".contains(cycle),
                        RELOAD => "RB".contains(cycle),
                        _ => false,
                    });
                    (counters.all[0].value, counters.at_zero() & 1)
                })
                .collect();
            assert_eq!(found, *expected, "{name}");
        }
    }

    /// I_FTDHL: two counters form one of 32 bits.
    #[test]
    fn a_chained_counter_counts_reloads() {
        let mut settings = Settings::new(Protocol::Ete);
        let registers = [
            ("TRCCNTCTLR0", 0x1_0002),
            ("TRCCNTRLDVR0", 0xffff),
            ("TRCCNTCTLR1", 0x2_0000),
            ("TRCCNTVR1", 0x1234),
            // Counter 2 has no lower one, and counter 3 is not chained.
            ("TRCCNTCTLR2", 0x2_0000),
            ("TRCCNTVR2", 7),
            ("TRCCNTVR3", 7),
        ];
        registers.iter().for_each(|(register, value)| assert!(settings.set(register, *value)));
        let mut counters = Counters::new(&settings);
        let mut values = Vec::new();
        for _ in 0..2 {
            counters.step(|event| event == COUNT);
            values.push(counters.all.map(|counter| counter.value));
        }
        assert_eq!(values, [[0xffff, 0x1233, 7, 7], [0xfffe, 0x1233, 7, 7]]);
    }
}
