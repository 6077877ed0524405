//! Processes of a system: which one a CPU executes, from the registers of its translation.
//!
//! TTBR0_EL1, TTBR1_EL1, TCR_EL1, CONTEXTIDR_EL1 ─▶ **address space, thread** ─▶ process and thread of a context
//!
//! An address space is a translation table with its identifier. Linux writes the number of the thread to CONTEXTIDR_EL1
//! (`CONFIG_PID_IN_CONTEXTIDR`): then a process has the number of the thread that first executes in its address space. Otherwise
//! address spaces are numbered. Does not know which program a process executes.

use std::collections::{BTreeMap, BTreeSet};

use unspool_model::Context;
use unspool_wire::register::{CONTEXTIDR_EL1, Register, TCR_EL1, TTBR0_EL1, TTBR1_EL1};

/// The translation registers of a CPU. `None`: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Translation {
    control: Option<u64>,
    tables: [Option<u64>; 2],
    context: Option<u64>,
}

/// The address of a translation table, and the identifier of the address space.
type Space = (u64, u16);

/// TCR_EL1.A1: the identifier is in TTBR1_EL1.
const A1: u64 = 1 << 22;
/// Bits of TTBR0_EL1 with the address of the table.
const TABLE: u64 = 0x0000_ffff_ffff_fffe;

impl Translation {
    /// A register has this value; others are ignored.
    pub(super) fn read(&mut self, register: Register, value: u64) {
        self.write(register, Some(value));
    }

    /// A register is written. True: the thread may be another one now.
    pub(super) fn write(&mut self, register: Register, value: Option<u64>) -> bool {
        let slot = match register {
            TCR_EL1 => &mut self.control,
            TTBR0_EL1 => &mut self.tables[0],
            TTBR1_EL1 => &mut self.tables[1],
            CONTEXTIDR_EL1 => &mut self.context,
            _ => return false,
        };
        std::mem::replace(slot, value) != value && register == CONTEXTIDR_EL1
    }

    fn space(&self) -> Option<Space> {
        let [lower, upper] = self.tables;
        let holder = if self.control? & A1 == 0 { lower } else { upper };
        Some((lower? & TABLE, (holder? >> 48) as u16))
    }

    /// The number of the thread, if the system writes it.
    fn thread(&self) -> Option<u64> {
        self.context.map(|context| context & 0xffff_ffff).filter(|context| *context != 0)
    }
}

/// All processes that were seen.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// The process of each address space.
    spaces: BTreeMap<Space, u64>,
    /// The process of each thread that was seen at EL0.
    threads: BTreeMap<u64, u64>,
    /// Numbers in use, so that an address space without a thread gets another.
    numbers: BTreeSet<u64>,
}

impl Processes {
    /// Adds process and thread to the context of a CPU. Only at EL0 is it sure that both belong to each other: an operating
    /// system changes them one after the other.
    pub(super) fn identify(&mut self, translation: &Translation, context: &mut Context) {
        context.thread = translation.thread();
        if context.level != Some(0) {
            context.process = context.thread.map(|thread| self.threads.get(&thread).copied().unwrap_or(thread));
            return;
        }
        let Some(space) = translation.space() else {
            context.process = context.thread;
            return;
        };
        let process = match self.spaces.get(&space) {
            Some(process) => *process,
            None => self.add(space, context.thread),
        };
        self.threads.extend(context.thread.map(|thread| (thread, process)));
        context.process = Some(process);
    }

    fn add(&mut self, space: Space, thread: Option<u64>) -> u64 {
        let unused = || self.numbers.last().map_or(1, |last| last.saturating_add(1));
        let process = thread.unwrap_or_else(unused);
        self.numbers.insert(process);
        self.spaces.insert(space, process);
        process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: u64 = A1;

    fn translation(table: u64, asid: u64, context: u64) -> Translation {
        let mut translation = Translation::default();
        translation.read(TCR_EL1, CONTROL);
        translation.read(TTBR0_EL1, table | 1);
        translation.read(TTBR1_EL1, asid << 48 | 0x4000_0000);
        translation.read(CONTEXTIDR_EL1, context);
        translation
    }

    #[test]
    fn processes_have_the_number_of_their_first_thread() {
        let mut processes = Processes::default();
        // Level, table, ASID, CONTEXTIDR_EL1: process, thread.
        let rows = [
            ("a process", 0, 0x1000, 1, 300, Some(300), Some(300)),
            ("a thread of it", 0, 0x1000, 1, 301, Some(300), Some(301)),
            ("the thread in the kernel", 1, 0x9000, 9, 301, Some(300), Some(301)),
            ("a thread of the kernel", 1, 0x1000, 1, 12, Some(12), Some(12)),
            ("another process", 0, 0x2000, 2, 302, Some(302), Some(302)),
            ("the first one executes another program", 0, 0x3000, 3, 300, Some(300), Some(300)),
            ("a table that is used again", 0, 0x1000, 4, 305, Some(305), Some(305)),
            ("no number", 0, 0x5000, 5, 0, Some(306), None),
            ("no number, again", 0, 0x5000, 5, 0, Some(306), None),
            ("no number, and another space", 0, 0x5000, 6, 0, Some(307), None),
        ];
        for (name, level, table, asid, number, process, thread) in rows {
            let mut context = Context { level: Some(level), ..Context::default() };
            processes.identify(&translation(table, asid, number), &mut context);
            assert_eq!((context.process, context.thread), (process, thread), "{name}");
        }
    }

    #[test]
    fn the_identifier_is_where_the_control_register_selects() {
        let mut lower = translation(7 << 48 | 0x1000, 2, 0);
        assert_eq!(lower.space(), Some((0x1000, 2)));
        lower.read(TCR_EL1, 0);
        assert_eq!(lower.space(), Some((0x1000, 7)));
        assert!(!lower.write(TTBR0_EL1, None));
        assert_eq!(lower.space(), None);
        assert!(lower.write(CONTEXTIDR_EL1, Some(3)));
        assert!(!lower.write(CONTEXTIDR_EL1, Some(3)));
    }
}
