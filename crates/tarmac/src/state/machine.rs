//! All cores of a log, each with its registers and with memory as it saw it.
//!
//! lines ─▶ **machine** ─▶ registers and memory at any point
//!
//! A line without the name of a core belongs to the core of the line before if it has no time either; otherwise to a core
//! without a name.

use super::super::record::{Direction, Instruction, InstructionSet, Line, PictureKind, Purpose, Record, Stamp};
use super::data::{Bytes, access_pieces, picture_pieces};
use super::memory::{Memory, Touch};
use super::registers::Registers;
use super::semihosting::{Arguments, changes, is_semihosting};

/// The most cores that are kept apart. Lines of more are left out.
pub(crate) const MAX_CORES: usize = 256;

/// A core.
#[derive(Debug, Clone, Default)]
pub struct Core {
    /// Its name; may be empty.
    pub name: Vec<u8>,
    /// Its registers.
    pub registers: Registers,
    /// Memory as it saw it.
    pub memory: Memory,
    /// An instruction or something before told its mode, so that names of registers are clear.
    pub(crate) is_settled: bool,
    /// Lines of registers before that, each with its number and its end.
    pub(crate) early: Vec<(u32, usize)>,
    pub(crate) early_text: Vec<u8>,
}

/// All cores of a log.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    cores: Vec<Core>,
    current: usize,
    is_big_endian: bool,
    /// What came before is not known: the machine starts somewhere within a log.
    is_within: bool,
    limit: usize,
    /// Lines before; registers are told numbers that count them.
    base: u64,
    room: Bytes,
}

/// Where a byte is looked for that the machine does not know.
pub(crate) trait EarlierState {
    /// A byte of memory as a core knew it before.
    fn byte(&mut self, core: &[u8], address: u64) -> Option<u8>;
    /// A call to the host that cannot be understood without what came before.
    fn unresolved(&mut self);
}

/// Nothing was before.
impl EarlierState for () {
    fn byte(&mut self, _: &[u8], _: u64) -> Option<u8> {
        None
    }

    fn unresolved(&mut self) {}
}

impl Machine {
    /// Before the first line of a log. `limit`: of each core's memory, no more than so many times eight bytes are kept.
    pub fn new(is_big_endian: bool, limit: usize) -> Self {
        Self { is_big_endian, limit, ..Self::default() }
    }

    /// Somewhere within a log.
    pub(crate) fn within(is_big_endian: bool) -> Self {
        Self { is_big_endian, is_within: true, ..Self::default() }
    }

    /// Somewhere within a log, behind `base` lines, where cores and the core of the line before are known.
    pub(crate) fn with(is_big_endian: bool, cores: Vec<Core>, current: usize, base: u64) -> Self {
        Self { is_big_endian, cores, current, base, ..Self::default() }
    }

    /// All cores, in the order in which they appeared.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    pub(crate) fn cores_mut(&mut self) -> &mut Vec<Core> {
        &mut self.cores
    }

    /// The core of the last line.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Takes a line. Returns the core that it belongs to; `None`: it belongs to none, or there are too many.
    #[inline]
    pub fn line(&mut self, number: u64, line: &Line<'_>) -> Option<usize> {
        self.line_after(number, line, &mut ())
    }

    /// As [`line`](Self::line), when something was before.
    #[inline]
    pub(crate) fn line_after(&mut self, number: u64, line: &Line<'_>, before: &mut impl EarlierState) -> Option<usize> {
        let at = self.core(line)?;
        let core = &mut self.cores[at];
        let short = u32::try_from(number).unwrap_or(u32::MAX);
        match &line.record {
            Record::Register(register) if core.is_settled => {
                core.registers.at_line(self.base + number);
                core.registers.update(register);
            }
            Record::Register(_) => core.put_early(short, line.raw),
            Record::Instruction(instruction) => {
                core.is_settled = true;
                core.registers.instruction(instruction);
                if is_semihosting(instruction) {
                    self.semihosting(at, instruction, short, before);
                }
            }
            Record::Access(access) if !access.is_aborted && access.purpose != Purpose::Fetch => {
                let touch = match access.direction {
                    Direction::Read => Touch::Read,
                    Direction::Write => Touch::Write,
                };
                let memory = &mut core.memory;
                access_pieces(access, self.is_big_endian, &mut self.room, |piece| memory.touch(touch, piece, short));
            }
            Record::Picture(picture) => {
                let touch = match picture.kind {
                    PictureKind::Load => Touch::Read,
                    PictureKind::Store => Touch::Write,
                    _ => return Some(at),
                };
                picture_pieces(picture, |piece| core.memory.touch(touch, piece, short));
            }
            _ => {}
        }
        Some(at)
    }

    /// Passes a line by. Returns the core that it belongs to.
    pub(crate) fn pass(&mut self, line: &Line<'_>) -> Option<usize> {
        self.core(line)
    }

    /// Which core a line belongs to.
    #[inline]
    fn core(&mut self, line: &Line<'_>) -> Option<usize> {
        let name = match line.core {
            Some(name) => name,
            None if line.stamp == Stamp::Absent && !self.cores.is_empty() => return Some(self.current),
            None => match line.record {
                Record::Blank | Record::Comment(_) | Record::Header(_) | Record::Bus(_) => return None,
                // About all of them, or nobody knows whom.
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
        self.cores.push(Core { name: name.to_vec(), memory, is_settled: !self.is_within, ..Core::default() });
        Some(self.cores.len() - 1)
    }

    /// A program calls its host, which writes memory.
    #[cold]
    fn semihosting(&mut self, at: usize, instruction: &Instruction<'_>, line: u32, before: &mut impl EarlierState) {
        let core = &mut self.cores[at];
        let word = if instruction.set == Some(InstructionSet::O) { 8 } else { 4 };
        let mask = if word == 8 { u64::MAX } else { u64::from(u32::MAX) };
        let (Some(operation), Some(block)) = (core.registers.general(0), core.registers.general(1)) else {
            return before.unresolved();
        };
        // The number is a word in either state.
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
                    // What was before is gone, whether it is known what is there now or not.
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
            core.forget(address, length, line);
        }
    }
}

impl Core {
    #[cold]
    fn put_early(&mut self, line: u32, raw: &[u8]) {
        self.early_text.extend_from_slice(raw);
        self.early.push((line, self.early_text.len()));
    }

    /// The lines of registers before anything told the mode, each with its number.
    pub(crate) fn each_early(&self, mut take: impl FnMut(u32, &[u8])) {
        let mut start = 0;
        for (line, end) in &self.early {
            take(*line, &self.early_text[start..*end]);
            start = *end;
        }
    }

    /// Memory was written, and nobody says what.
    fn forget(&mut self, address: u64, length: u64, line: u32) {
        let Some(last) = length.checked_sub(1) else { return };
        let end = address.wrapping_add(last);
        if end >= address {
            return self.memory.forget(address..=end, line);
        }
        self.memory.forget(address..=u64::MAX, line);
        self.memory.forget(0..=end, line);
    }
}

/// Names are short, mostly empty, and compared on every line: a call for each would be most of the work.
#[inline(always)]
fn is_same(name: &[u8], other: &[u8]) -> bool {
    name.len() == other.len() && name.iter().zip(other).all(|(a, b)| a == b)
}
