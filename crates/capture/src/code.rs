//! Program code: what memory held, and what the places in it are called.
//!
//! images of a capture, files of the command line ─▶ **code** ─▶ pieces of memory, symbols
//!
//! An ELF file says itself where it belongs; a dump belongs where its listing says. This room reads files and refuses
//! to know what an instruction does, or which of two pieces at the same address is the right one.

mod argument;
mod elf;
mod load;
mod spaces;
mod symbols;

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

pub use argument::ImageArgument;
pub use load::Loaded;
pub use spaces::Spaces;
pub use symbols::{Symbol, Symbols};

/// Program code in memory, as one image tells it.
///
/// Displayed, it is one line: what the file is and which memory it fills.
#[derive(Debug, Clone)]
pub struct Code {
    /// The file, as listed.
    pub name: String,
    /// The bytes stand in memory as they do in the file. If not, an ELF file told where each of its segments goes.
    pub raw: bool,
    /// Stretches of memory, in the order of the file. They may overlap.
    pub pieces: Vec<Piece>,
    /// The functions of an ELF file.
    pub symbols: Symbols,
    /// What the linker stamped the program with.
    pub build_id: Option<Vec<u8>>,
    /// The processor that an ELF file is for.
    pub machine: Option<Machine>,
    /// Data of the ELF file is big-endian.
    pub big_endian: bool,
    /// Instructions are big-endian, which is so only for Arm programs from before BE8.
    pub big_endian_code: bool,
}

/// A stretch of memory and what was in it. Does not reach beyond the end of the address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it starts.
    pub address: u64,
    /// What was there; never empty.
    pub bytes: Bytes,
    /// Who sees this memory at this address.
    pub spaces: Spaces,
}

/// A part of a file. The parts of a file share it, so cloning is cheap.
#[derive(Clone, Default)]
pub struct Bytes {
    file: Arc<Vec<u8>>,
    range: Range<usize>,
}

/// The processor that a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Machine {
    /// Arm, 64 bits.
    AArch64,
    /// Arm, 32 bits.
    Arm,
    /// RISC-V, 32 bits.
    RiscV32,
    /// RISC-V, 64 bits.
    RiscV64,
    /// Another one, by its ELF number.
    Other(u16),
}

impl Piece {
    /// The bytes from this address to the end of the piece; `None` if the address is not in it.
    pub fn starting_at(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(offset..).filter(|rest| !rest.is_empty())
    }

    /// The address of the last byte.
    pub fn last(&self) -> u64 {
        self.address.saturating_add((self.bytes.len() as u64).saturating_sub(1))
    }

    /// Bytes in memory; `None` for none. What would lie beyond the end of the address space is left out.
    pub(crate) fn new(address: u64, bytes: &Bytes, spaces: Spaces) -> Option<Self> {
        let room = (u64::MAX - address).saturating_add(1);
        let bytes = bytes.part(0, room);
        (!bytes.is_empty()).then_some(Self { address, bytes, spaces })
    }
}

impl Bytes {
    /// As many of `length` bytes from `offset` as there are.
    pub(crate) fn part(&self, offset: u64, length: u64) -> Self {
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.range.len()) + self.range.start;
        Self { file: Arc::clone(&self.file), range: clamp(offset)..clamp(offset.saturating_add(length)) }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { range: 0..bytes.len(), file: Arc::new(bytes) }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.file.get(self.range.clone()).unwrap_or_default()
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Bytes {}

/// The place in the file and not megabytes of numbers.
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({:#x?})", self.range)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::AArch64 => f.write_str("AArch64"),
            Machine::Arm => f.write_str("Arm"),
            Machine::RiscV32 => f.write_str("RISC-V 32-bit"),
            Machine::RiscV64 => f.write_str("RISC-V 64-bit"),
            Machine::Other(number) => write!(f, "machine {number}"),
        }
    }
}

/// `vdso.so: ELF AArch64, build-id f1944c94, 5 symbols, 0x0-0xad1`
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, if self.raw { "dump" } else { "ELF" })?;
        if let Some(machine) = self.machine {
            let (of, order) = (if self.raw { " of ELF" } else { "" }, if self.big_endian { " big-endian" } else { "" });
            write!(f, "{of} {machine}{order}")?;
        }
        if let Some(id) = &self.build_id {
            f.write_str(", build-id ")?;
            id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        match self.symbols.len() {
            0 => {}
            1 => f.write_str(", 1 symbol")?,
            count => write!(f, ", {count} symbols")?,
        }
        self.write_ranges(f)
    }
}

impl Code {
    fn write_ranges(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// A line is read, a list is not.
        const SHOWN: usize = 4;
        for piece in self.pieces.iter().take(SHOWN) {
            write!(f, ", {:#x}-{:#x}", piece.address, piece.last())?;
            if piece.spaces != Spaces::ANY {
                write!(f, " in {}", piece.spaces)?;
            }
        }
        match self.pieces.len() {
            0 => f.write_str(", no memory"),
            count if count > SHOWN => write!(f, " and {} more pieces", count - SHOWN),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
