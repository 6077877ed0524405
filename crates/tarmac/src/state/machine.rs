//! The machine: all cores of a log, each with its registers and its view of memory.
//!
//! lines ─▶ **machine** ─▶ registers and memory at any point
//!
//! A line that names no core belongs to the core of the previous line if it has no time either, otherwise to a core
//! without a name. A comment of ours can select a core.

use unspool_model::Lost;

use super::super::annotation::{LARGE_WRITE, selected_core};
use super::super::opcode::is_load;
use super::super::record::{Direction, Instruction, InstructionSet, Line, PictureKind, Purpose, Record, Stamp};
use super::data::{Bytes, GranulePart, access_parts, picture_parts};
use super::memory::Memory;
use super::registers::{Registers, is_same};
use super::semihosting::{Arguments, changes, is_semihosting};

/// Maximum number of cores. Lines of further cores are ignored.
pub(crate) const MAX_CORES: usize = 256;

/// State of one core.
#[derive(Debug, Clone, Default)]
pub struct Core {
    /// The name; may be empty.
    pub name: Vec<u8>,
    /// The registers.
    pub registers: Registers,
    /// Memory as the core saw it.
    pub memory: Memory,
    /// The last instruction, which accesses belong to; `None`: it may be before the start of the machine.
    pub(crate) last: Option<LastInstruction>,
    /// Whether the mode is known, which determines what register names mean.
    pub(crate) has_mode: bool,
    /// Register lines before that, each with its number and end offset in `early_text`.
    pub(crate) early: Vec<(u32, usize)>,
    pub(crate) early_text: Vec<u8>,
}

/// What decides the direction of the accesses of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LastInstruction {
    pub(crate) set: Option<InstructionSet>,
    pub(crate) opcode: Option<u32>,
}

impl LastInstruction {
    fn is_load(self) -> bool {
        is_load(self.set, self.opcode)
    }
}

/// State of all cores of a log.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    cores: Vec<Core>,
    current: usize,
    is_big_endian: bool,
    /// Whether the machine starts in the middle of a log, so that earlier state is unknown.
    starts_mid_log: bool,
    limit: usize,
    /// Number of lines before the first one, added to the line numbers of registers.
    base: u64,
    /// Loads that the log calls writes, with the number of the first line.
    corrected: Lost,
    scratch: Bytes,
}

/// Source of state from before the start of a machine.
pub(crate) trait EarlierState {
    /// A byte of memory, as a core knew it before.
    fn byte(&mut self, _core: &[u8], _address: u64) -> Option<u8> {
        None
    }

    /// Reports a semihosting call or an access that needs earlier state to be interpreted.
    fn unresolved(&mut self) {}
}

/// No earlier state.
impl EarlierState for () {}

impl Machine {
    /// A machine at the start of a log. `limit`: maximum number of granules (eight bytes) that are kept per core; 0 is
    /// unlimited.
    pub fn new(is_big_endian: bool, limit: usize) -> Self {
        Self { is_big_endian, limit, ..Self::default() }
    }

    /// A machine in the middle of a log.
    pub(crate) fn mid_log(is_big_endian: bool) -> Self {
        Self { is_big_endian, starts_mid_log: true, ..Self::default() }
    }

    /// A machine in the middle of a log, after `base` lines, with known cores and current core. New cores have no limit.
    pub(crate) fn with(is_big_endian: bool, cores: Vec<Core>, current: usize, base: u64) -> Self {
        Self { is_big_endian, cores, current, base, ..Self::default() }
    }

    /// A machine that continues with the registers of this one, and with no memory. `limit`: as in [`new`](Self::new). Lines
    /// are counted by the caller.
    pub(crate) fn without_memory(&self, limit: usize) -> Self {
        let empty = |core: &Core| Core {
            name: core.name.clone(),
            registers: core.registers.clone(),
            memory: Memory::with_limit(limit),
            has_mode: true,
            last: core.last,
            ..Core::default()
        };
        let cores = self.cores.iter().map(empty).collect();
        Self { limit, ..Self::with(self.is_big_endian, cores, self.current, 0) }
    }

    /// All cores, in order of appearance.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    pub(crate) fn cores_mut(&mut self) -> &mut Vec<Core> {
        &mut self.cores
    }

    /// Loads that the log calls writes, and that were taken as reads.
    pub(crate) fn corrected(&self) -> Lost {
        self.corrected
    }

    /// Index of the core of the last line.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Takes a line. Returns the index of its core; `None`: it belongs to none, or to one beyond the limit.
    #[inline]
    pub fn line(&mut self, number: u64, line: &Line<'_>) -> Option<usize> {
        self.line_after(number, line, &mut ())
    }

    /// Like [`line`](Self::line), with state from before the start.
    #[inline]
    pub(crate) fn line_after(&mut self, number: u64, line: &Line<'_>, before: &mut impl EarlierState) -> Option<usize> {
        let at = self.select_core(line)?;
        let core = &mut self.cores[at];
        let short = u32::try_from(number).unwrap_or(u32::MAX);
        match &line.record {
            Record::Register(register) if core.has_mode => {
                core.registers.at_line(self.base + number);
                core.registers.update(register);
            }
            Record::Register(_) => core.put_early(short, line.raw),
            Record::Instruction(instruction) => {
                core.has_mode = true;
                core.observe(instruction);
                core.registers.instruction(instruction);
                if is_semihosting(instruction) {
                    self.semihosting(at, instruction, short, before);
                }
            }
            // The accesses that follow are those of the exception entry.
            record if record.is_exception() => core.last = Some(LastInstruction::default()),
            record if record.is_gap() => {
                // The registers of a part that starts within a log are only those that it wrote.
                if self.starts_mid_log {
                    before.unresolved();
                }
                core.forget(short);
            }
            Record::Comment(text) if *text == LARGE_WRITE => core.memory.write_unknown(0..=u64::MAX, short),
            Record::Access(access) if !access.is_aborted && access.purpose != Purpose::Fetch => {
                let mut direction = access.direction;
                if access.is_judged_by_opcode() {
                    match core.last {
                        Some(last) if last.is_load() => {
                            direction = Direction::Read;
                            self.corrected.add(number);
                        }
                        Some(_) => {}
                        None => before.unresolved(),
                    }
                }
                let touch = |part: &GranulePart| core.memory.touch(direction, part, short);
                access_parts(access, self.is_big_endian, &mut self.scratch, touch);
            }
            Record::Picture(picture) if matches!(picture.kind, PictureKind::Load | PictureKind::Store) => {
                let direction = picture.kind.direction();
                picture_parts(picture, |part| core.memory.touch(direction, part, short));
            }
            _ => {}
        }
        Some(at)
    }

    /// Selects the core of a line without applying the line. Returns its index.
    #[inline]
    pub fn select_core(&mut self, line: &Line<'_>) -> Option<usize> {
        if let (None, Record::Comment(text)) = (line.core, line.record)
            && let Some(name) = selected_core(text)
        {
            self.current = self.find(&name)?;
            return Some(self.current);
        }
        let name = match line.core {
            Some(name) => name,
            None if line.stamp == Stamp::Absent && !self.cores.is_empty() => return Some(self.current),
            None => match line.record {
                Record::Blank | Record::Comment(_) | Record::Header(_) | Record::Bus(_) => return None,
                // It concerns all cores, or an unknown one.
                Record::Opaque(_) | Record::Unknown(_) => return None,
                _ => b"",
            },
        };
        if self.cores.get(self.current).is_none_or(|core| !is_same(&core.name, name)) {
            self.current = self.find(name)?;
        }
        Some(self.current)
    }

    fn find(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(at) = self.cores.iter().position(|core| core.name == name) {
            return Some(at);
        }
        if self.cores.len() >= MAX_CORES {
            return None;
        }
        let memory = Memory::with_limit(self.limit);
        let (has_mode, last) = (!self.starts_mid_log, (!self.starts_mid_log).then(LastInstruction::default));
        self.cores.push(Core { name: name.to_vec(), memory, has_mode, last, ..Core::default() });
        Some(self.cores.len() - 1)
    }

    /// Applies a semihosting call, in which the host writes memory.
    #[cold]
    fn semihosting(&mut self, at: usize, instruction: &Instruction<'_>, line: u32, before: &mut impl EarlierState) {
        let core = &mut self.cores[at];
        let word = if instruction.set == Some(InstructionSet::O) { 8 } else { 4 };
        let mask = if word == 8 { u64::MAX } else { u64::from(u32::MAX) };
        let (Some(operation), Some(block)) = (core.registers.general(0), core.registers.general(1)) else {
            return before.unresolved();
        };
        // The operation number is a word in either state.
        let arguments = Arguments { operation: operation & 0xffff_ffff, block: block & mask, word };
        let is_big_endian = self.is_big_endian;
        let mut is_missing = false;
        let written = changes(&arguments, |index| {
            let address = block.wrapping_add(index * word);
            let mut number = 0;
            for at in 0..word {
                let at = if is_big_endian { at } else { word - 1 - at };
                let address = address.wrapping_add(at);
                let byte = match core.memory.last_write(address) {
                    // A write replaces earlier state even if its value is unknown.
                    Some(write) => write.value,
                    None => before.byte(&core.name, address),
                };
                is_missing |= byte.is_none();
                number = number << 8 | u64::from(byte?);
            }
            Some(number)
        });
        if is_missing {
            before.unresolved();
        }
        for (address, length) in written.into_iter().flatten() {
            core.write_unknown(address, length, line);
        }
    }
}

impl Core {
    /// Takes note of an instruction, whose accesses follow.
    #[inline]
    pub(crate) fn observe(&mut self, instruction: &Instruction<'_>) {
        self.last = Some(LastInstruction { set: instruction.set, opcode: instruction.opcode });
    }

    #[cold]
    fn put_early(&mut self, line: u32, raw: &[u8]) {
        self.early_text.extend_from_slice(raw);
        self.early.push((line, self.early_text.len()));
    }

    /// Passes on the register lines before the mode was known, each with its number.
    pub(crate) fn each_early(&self, mut sink: impl FnMut(u32, &[u8])) {
        let mut start = 0;
        for (line, end) in &self.early {
            sink(*line, &self.early_text[start..*end]);
            start = *end;
        }
    }

    /// Part of the execution is missing: registers and memory are unknown.
    #[cold]
    fn forget(&mut self, line: u32) {
        (self.registers, self.last) = (Registers::default(), Some(LastInstruction::default()));
        self.memory.write_unknown(0..=u64::MAX, line);
    }

    /// Records a write of unknown data.
    fn write_unknown(&mut self, address: u64, length: u64, line: u32) {
        let Some(last) = length.checked_sub(1) else { return };
        let end = address.wrapping_add(last);
        if end >= address {
            return self.memory.write_unknown(address..=end, line);
        }
        self.memory.write_unknown(address..=u64::MAX, line);
        self.memory.write_unknown(0..=end, line);
    }
}
