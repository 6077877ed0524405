//! Registers, memory and contexts that steps have shown, at one point of a trace.
//!
//! steps ─▶ **what is known here** ─▶ steps that repeat it
//!
//! Only what a step contained is known: nothing is known at the start, and after a gap registers and memory are unknown
//! again. A value that was read from memory is known until it is overwritten. Knows no format; holds a bounded amount.

use std::collections::{BTreeMap, HashMap};

use unspool_model::{Access, Context, Direction, Event, RegisterWrite, Step};

/// Maximum number of words of eight bytes that are kept; of further ones, nothing is known.
const MAX_WORDS: usize = 1 << 21;

/// Maximum number of registers of a core; of further ones, nothing is known.
const MAX_REGISTERS: usize = 4096;

/// Maximum number of bytes of a register.
const MAX_BYTES: usize = 2048;

/// Maximum number of words in one step of [`KnownState::steps`].
const WORDS_PER_STEP: usize = 1024;

/// Everything that is known after the steps so far.
#[derive(Debug, Default)]
pub struct KnownState {
    cores: BTreeMap<u32, Core>,
    /// Words by their address divided by eight: the bytes, lowest address lowest, and the mask of those that are known.
    memory: HashMap<u64, (u64, u8)>,
}

#[derive(Debug, Default)]
struct Core {
    context: Option<Context>,
    /// Bytes of each register, each with a mask of its known bits.
    registers: BTreeMap<String, Vec<(u8, u8)>>,
}

impl KnownState {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a step.
    pub fn apply(&mut self, step: &Step) {
        match &step.event {
            Event::Context(context) => {
                let core = self.cores.entry(step.core).or_default();
                core.context = Some(context.over(&core.context.unwrap_or_default()));
            }
            Event::Gap(_) => self.forget(step.core),
            _ => {}
        }
        if step.registers().len() > 0 {
            let core = self.cores.entry(step.core).or_default();
            step.registers().for_each(|write| core.write(&write));
        }
        step.accesses().for_each(|access| self.access(&access));
    }

    /// Part of the execution is missing: it may have changed any register of the core, and any memory.
    fn forget(&mut self, core: u32) {
        if let Some(core) = self.cores.get_mut(&core) {
            core.registers.clear();
        }
        self.memory.clear();
    }

    fn access(&mut self, access: &Access<'_>) {
        match access.direction {
            Direction::Neither => {}
            // What an access without data wrote is unknown.
            Direction::Write | Direction::Both if access.bytes.is_empty() => self.overwrite(access),
            _ => {
                for (address, (value, known)) in (0..).map(|at| access.address.wrapping_add(at)).zip(access.bytes) {
                    self.set(address, Some(*value).filter(|_| *known == 0xff));
                }
            }
        }
    }

    fn overwrite(&mut self, access: &Access<'_>) {
        if access.size > self.memory.len() as u64 * 8 {
            let (first, last) = (access.address / 8, access.address.saturating_add(access.size - 1) / 8);
            return self.memory.retain(|word, _| !(first..=last).contains(word));
        }
        (0..access.size).for_each(|at| self.set(access.address.wrapping_add(at), None));
    }

    /// Sets a byte; `None`: it is unknown.
    fn set(&mut self, address: u64, byte: Option<u8>) {
        let (number, bit, shift) = (address / 8, 1 << (address % 8), address % 8 * 8);
        let is_full = self.memory.len() >= MAX_WORDS;
        match (self.memory.get_mut(&number), byte) {
            (Some((value, known)), Some(byte)) => {
                *value = *value & !(0xff << shift) | u64::from(byte) << shift;
                *known |= bit;
            }
            (Some((_, known)), None) => {
                *known &= !bit;
                if *known == 0 {
                    self.memory.remove(&number);
                }
            }
            (None, Some(byte)) if !is_full => {
                self.memory.insert(number, (u64::from(byte) << shift, bit));
            }
            (None, _) => {}
        }
    }

    /// The context of a core.
    pub fn context(&self, core: u32) -> Option<&Context> {
        self.cores.get(&core)?.context.as_ref()
    }

    /// A byte of memory, if it is known.
    pub fn byte(&self, address: u64) -> Option<u8> {
        let (value, known) = self.memory.get(&(address / 8))?;
        (known >> (address % 8) & 1 != 0).then_some((value >> (address % 8 * 8)) as u8)
    }

    /// A register of a core, each byte with a mask of its known bits.
    pub fn register(&self, core: u32, name: &str) -> Option<&[(u8, u8)]> {
        self.cores.get(&core)?.registers.get(name).map(Vec::as_slice)
    }

    /// Steps that repeat what is known: the context and the registers of each core, then memory as reads. They have the
    /// position and the time of `at`.
    pub fn steps(&self, at: &Step, mut take: impl FnMut(&Step)) {
        let mut step = Step::default();
        let begin = |step: &mut Step, core: u32, event| {
            step.clear();
            (step.core, step.position, step.time, step.event) = (core, at.position, at.time, event);
        };
        for (number, core) in &self.cores {
            if let Some(context) = core.context {
                begin(&mut step, *number, Event::Context(context));
                take(&step);
            }
            if !core.registers.is_empty() {
                begin(&mut step, *number, Event::State);
                for (name, bytes) in &core.registers {
                    step.write_register_known(name, 0, bytes.iter().copied());
                }
                take(&step);
            }
        }
        let mut numbers: Vec<u64> = self.memory.keys().copied().collect();
        numbers.sort_unstable();
        for numbers in numbers.chunks(WORDS_PER_STEP) {
            begin(&mut step, at.core, Event::State);
            numbers.iter().for_each(|number| self.word(*number, &mut step));
            take(&step);
        }
    }

    /// Adds the known bytes of a word, as reads.
    fn word(&self, number: u64, step: &mut Step) {
        let Some((value, known)) = self.memory.get(&number) else { return };
        let bytes = value.to_le_bytes();
        let is_known = |at: usize| known >> at & 1 != 0;
        let mut at = 0;
        while at < 8 {
            let end = (at..8).find(|at| !is_known(*at)).unwrap_or(8);
            if end > at {
                let bytes = bytes[at..end].iter().map(|byte| (*byte, 0xff));
                step.access_known(Direction::Read, number * 8 + at as u64, (end - at) as u64, bytes);
            }
            at = end + 1;
        }
    }
}

impl Core {
    fn write(&mut self, write: &RegisterWrite<'_>) {
        let low = usize::from(write.low);
        // Bits of a byte are not separated: what is written in part of one is unknown.
        let (start, is_whole) = (low / 8, low.is_multiple_of(8));
        let end = start + write.bytes.len() + usize::from(!is_whole);
        if write.bytes.is_empty() || end > MAX_BYTES {
            return;
        }
        if !self.registers.contains_key(write.name) {
            if self.registers.len() >= MAX_REGISTERS {
                return;
            }
            self.registers.insert(write.name.to_string(), Vec::new());
        }
        let Some(bytes) = self.registers.get_mut(write.name) else { return };
        bytes.resize(bytes.len().max(end), (0, 0));
        match is_whole {
            true => bytes[start..end].copy_from_slice(write.bytes),
            false => bytes[start..end].fill((0, 0)),
        }
        // A write to the lower half of a general-purpose register of AArch64 clears the upper one.
        if low == 0 && write.bytes.len() == 4 && is_x(write.name) {
            bytes.resize(8, (0, 0xff));
            bytes[4..].fill((0, 0xff));
        }
    }
}

/// Whether this is the name of a general-purpose register of AArch64.
fn is_x(name: &str) -> bool {
    name.strip_prefix('x').is_some_and(|number| number.parse::<u8>().is_ok_and(|number| number < 31))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unspool_model::Gap;

    fn step(change: impl FnOnce(&mut Step)) -> Step {
        let mut step = Step::default();
        change(&mut step);
        step
    }

    #[test]
    fn what_steps_show_is_known_until_it_is_overwritten_or_missing() {
        let mut known = KnownState::new();
        assert_eq!((known.byte(0x1000), known.register(0, "x0")), (None, None));
        known.apply(&step(|step| {
            step.write_register("x0", 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
            step.write_register("v1", 0, &[1; 16]);
            step.access_known(Direction::Read, 0x1006, 4, [(0xa, 0xff), (0xb, 0xff), (0xc, 0xff), (0xd, 0x0f)]);
        }));
        assert_eq!([0x1005, 0x1006, 0x1008, 0x1009].map(|at| known.byte(at)), [None, Some(0xa), Some(0xc), None]);
        known.apply(&step(|step| {
            step.write_register("x0", 0, &[9, 9, 9, 9]);
            step.write_register("v1", 64, &[2; 8]);
            step.access(Direction::Write, 0x1007, 1);
        }));
        let zero_extended = [(9, 0xff), (9, 0xff), (9, 0xff), (9, 0xff), (0, 0xff), (0, 0xff), (0, 0xff), (0, 0xff)];
        assert_eq!(known.register(0, "x0"), Some(&zero_extended[..]));
        assert_eq!(known.register(0, "v1").map(|bytes| (bytes[7], bytes[8])), Some(((1, 0xff), (2, 0xff))));
        assert_eq!([0x1006, 0x1007, 0x1008].map(|at| known.byte(at)), [Some(0xa), None, Some(0xc)]);
        known.apply(&step(|step| step.event = Event::Gap(Gap::Overflow)));
        assert_eq!((known.byte(0x1006), known.register(0, "x0")), (None, None));
    }

    #[test]
    fn steps_repeat_what_is_known() {
        let mut known = KnownState::new();
        let context = Context { level: Some(1), ..Context::default() };
        known.apply(&step(|step| step.event = Event::Context(context)));
        known.apply(&step(|step| {
            step.write_register("x3", 0, &[7; 8]);
            step.access_known(Direction::Write, 0x20, 3, [(1, 0xff), (2, 0), (3, 0xff)]);
        }));
        let mut again = KnownState::new();
        known.steps(&Step::default(), |step| again.apply(step));
        assert_eq!(again.context(0), Some(&context));
        assert_eq!(again.register(0, "x3"), known.register(0, "x3"));
        assert_eq!([0x20, 0x21, 0x22].map(|at| again.byte(at)), [Some(1), None, Some(3)]);
    }

    #[test]
    fn large_writes_without_data_end_quickly() {
        let mut known = KnownState::new();
        known.apply(&step(|step| step.access_known(Direction::Write, 8, 1, [(1, 0xff)])));
        known.apply(&step(|step| step.access(Direction::Write, 0, u64::MAX)));
        assert_eq!(known.byte(8), None);
    }
}
