//! Program code: memory contents and symbols.
//!
//! images of a capture, files of the command line ─▶ **code** ─▶ memory regions, symbols
//!
//! The addresses of an ELF file come from the file, those of a dump from the capture. Instructions are not interpreted
//! here, and regions at the same address are all kept: the user of the code chooses between them.

mod argument;
mod build_id;
mod debug;
mod elf;
mod image_file;
mod jitdump;
mod kallsyms;
mod kcore;
mod latest;
mod lines;
mod load;
mod names;
mod perf_map;
mod proc_maps;
mod relocatable;
mod search;
mod spaces;
mod symbols;

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::error::Error;
pub use argument::ImageArgument;
pub use debug::{CodeKind, CodeMarker, ElfSections};
pub use image_file::ImageFile;
pub use jitdump::{JitFunction, Jitdump};
pub use kallsyms::{Kallsyms, KernelSymbol};
pub use kcore::Kcore;
pub use load::LoadedCode;
pub use proc_maps::ProcMaps;
pub use search::{FoundImage, ImageLoader, ImageNotFound, ImageSearch};
pub(crate) use search::{Origin, file_names};
pub use spaces::Spaces;
pub(crate) use symbols::SymbolList;
pub use symbols::{Symbol, Symbols};

/// Program code of one image.
///
/// Displayed as one line with the kind of file and its memory ranges.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// The name of the file, as listed.
    pub name: String,
    /// Whether the file is a memory dump. If not, it is an ELF file whose segments were placed by its program headers, or,
    /// without a machine, a list of names.
    pub raw: bool,
    /// Memory regions, in the order of the file. They may overlap.
    pub regions: Vec<Region>,
    /// The functions of an ELF file.
    pub symbols: Symbols,
    /// The build ID of the ELF file.
    pub build_id: Option<Vec<u8>>,
    /// The target architecture of the ELF file.
    pub machine: Option<Machine>,
    /// Whether data of the ELF file is big-endian.
    pub big_endian: bool,
    /// Whether instructions are big-endian, as in Arm programs that are not BE8.
    pub big_endian_code: bool,
    /// Load address minus link address.
    pub bias: u64,
    /// Whether the ELF file is position-independent and no address was given for it: a loader may have moved it.
    pub is_unplaced: bool,
    /// The whole ELF file, for its debug information. `None` if the code was placed section by section, as that of modules.
    pub elf: Option<Bytes>,
    /// A separate ELF file with the symbols and the debug information of the program, at the same addresses.
    pub debug_file: Option<Bytes>,
}

/// A memory region and its contents. Does not extend past the end of the address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Its first address.
    pub address: u64,
    /// Its contents; never empty.
    pub bytes: Bytes,
    /// The memory spaces in which the region is visible.
    pub spaces: Spaces,
}

/// A part of a file. All parts share the bytes of the file, so cloning is cheap.
#[derive(Clone, Default)]
pub struct Bytes {
    file: Arc<Vec<u8>>,
    range: Range<usize>,
}

/// The target architecture of a program.
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
    /// Another architecture, by its ELF machine number.
    Other(u16),
}

impl Code {
    /// The same code, moved up by `bias` bytes from where it is now. What passes the end of the address space is dropped.
    pub fn moved(&self, bias: u64) -> Self {
        let moved = |region: &Region| Region::new(region.address.wrapping_add(bias), &region.bytes, region.spaces);
        let bias_now = self.bias.wrapping_add(bias);
        Self {
            regions: self.regions.iter().filter_map(moved).collect(),
            symbols: self.symbols.moved(bias_now),
            bias: bias_now,
            is_unplaced: false,
            ..self.clone()
        }
    }

    /// The bytes from this address to the end of its region; `None` if the address is in no region.
    pub fn starting_at(&self, address: u64) -> Option<&[u8]> {
        self.regions.iter().find_map(|region| region.starting_at(address))
    }

    /// First address of the lowest page: the address after `@` that loads the file here.
    pub fn first_page(&self) -> u64 {
        const PAGE: u64 = 4 << 10;
        self.regions.iter().map(|region| region.address & !(PAGE - 1)).min().unwrap_or(0)
    }
}

impl Region {
    /// The bytes from this address to the end of the region; `None` if the address is not in it.
    pub fn starting_at(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(offset..).filter(|rest| !rest.is_empty())
    }

    /// The address of the last byte.
    pub fn last(&self) -> u64 {
        self.address.saturating_add((self.bytes.len() as u64).saturating_sub(1))
    }

    /// A region, truncated at the end of the address space; `None` if it has no bytes.
    pub(crate) fn new(address: u64, bytes: &Bytes, spaces: Spaces) -> Option<Self> {
        let room = (u64::MAX - address).saturating_add(1);
        let bytes = bytes.part(0, room);
        (!bytes.is_empty()).then_some(Self { address, bytes, spaces })
    }
}

impl Bytes {
    /// A number that parts of the same file in memory share, and parts of other files that exist do not have.
    pub fn file_id(&self) -> usize {
        Arc::as_ptr(&self.file).addr()
    }

    /// The part from `offset` with `length` bytes, truncated at the end.
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

/// Shows only the range in the file, since the contents may be megabytes.
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({:#x?})", self.range)
    }
}

impl Machine {
    /// The architecture with this ELF machine number, in files of 64 or 32 bits.
    pub(crate) fn from_elf(number: u16, is_64: bool) -> Self {
        match (number, is_64) {
            (183, _) => Self::AArch64,
            (40, _) => Self::Arm,
            (243, false) => Self::RiscV32,
            (243, true) => Self::RiscV64,
            (other, _) => Self::Other(other),
        }
    }

    /// Whether Arm cores, which are the ones that CoreSight traces, can execute its programs.
    pub fn is_arm(self) -> bool {
        matches!(self, Self::AArch64 | Self::Arm)
    }
}

impl Code {
    /// Rejects a program that Arm cores cannot execute.
    ///
    /// # Errors
    ///
    /// If it is an ELF file of another architecture.
    pub fn require_arm(&self) -> Result<(), Error> {
        match self.machine.filter(|machine| !machine.is_arm()) {
            None => Ok(()),
            Some(machine) => Err(Error::OtherMachine { name: self.name.clone(), machine }),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::AArch64 => f.write_str("AArch64"),
            Machine::Arm => f.write_str("Arm"),
            Machine::RiscV32 => f.write_str("RISC-V 32-bit"),
            Machine::RiscV64 => f.write_str("RISC-V 64-bit"),
            Machine::Other(62) => f.write_str("x86-64"),
            Machine::Other(3) => f.write_str("x86"),
            Machine::Other(number) => write!(f, "machine {number}"),
        }
    }
}

/// `vdso.so: ELF AArch64, build-id f1944c94, 5 symbols, 0x0-0xad1`
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (self.raw, self.machine) {
            (true, _) => "dump",
            (false, Some(_)) => "ELF",
            (false, None) => "names",
        };
        write!(f, "{}: {kind}", self.name)?;
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
        /// Maximum number of ranges in the line.
        const SHOWN: usize = 4;
        for region in self.regions.iter().take(SHOWN) {
            write!(f, ", {:#x}-{:#x}", region.address, region.last())?;
            if region.spaces != Spaces::ANY {
                write!(f, " in {}", region.spaces)?;
            }
        }
        match self.regions.len() {
            0 => f.write_str(", no memory"),
            count if count > SHOWN => write!(f, " and {} more regions", count - SHOWN),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod elf_builder;
#[cfg(test)]
mod tests;
