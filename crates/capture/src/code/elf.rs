//! ELF files: which bytes of them go where in memory, and their symbols and stamps.
//!
//! Comes in: the bytes of a file that starts like ELF, of either class and byte order. Goes out: an [`Elf`] with
//! whatever could be made out, and the problems in words. A file that was cut short or stripped of its section headers
//! still has its segments.

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::SymbolIndex;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader, SectionTable, Sym, SymbolTable};
use object::{Endianness, StringTable};

use super::symbols::{Listed, Symbols};
use super::{Bytes, Machine};
use crate::note::NoteKind;

/// A core dump has as many segments as the process had mappings; Linux stops at about this many.
const SEGMENT_LIMIT: usize = 64 << 10;

/// Several times the largest browsers with everything in them.
const SYMBOL_LIMIT: usize = 16 << 20;

/// Notes to look at in search of the build-id, and its length at most.
const NOTE_LIMIT: usize = 4 << 10;
const BUILD_ID_LIMIT: usize = 64;

/// An ELF file. Addresses are those that it was linked at.
#[derive(Debug)]
pub(crate) struct Elf {
    pub(crate) machine: Machine,
    pub(crate) big_endian: bool,
    pub(crate) big_endian_code: bool,
    pub(crate) build_id: Option<Vec<u8>>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) symbols: Symbols,
    pub(crate) problems: Vec<Problem>,
}

/// Bytes of the file that go into memory.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
    /// Where in the file it starts.
    pub(crate) offset: u64,
    /// Loaders map whole pages.
    pub(crate) page: u64,
}

/// What is wrong with a file, in half a sentence.
pub(crate) type Problem = (NoteKind, String);

/// Whether the bytes start as ELF files do.
pub(crate) fn is_elf(file: &[u8]) -> bool {
    file.starts_with(&elf::ELFMAG)
}

impl Elf {
    /// Reads a file that [`is_elf`].
    pub(crate) fn read(file: &Bytes) -> Result<Self, Problem> {
        /// Where the identification says 32 or 64 bits.
        const CLASS: usize = 4;
        let bytes: &[u8] = file;
        match bytes.get(CLASS) {
            Some(1) => Reader::<FileHeader32<Endianness>>::new(file).map(Reader::read),
            Some(2) => Reader::<FileHeader64<Endianness>>::new(file).map(Reader::read),
            _ => Err((NoteKind::Unreadable, "is an ELF file of unknown class".to_string())),
        }
    }

    /// How far the segments move if the lowest page of the file goes to this address.
    pub(crate) fn bias_to(&self, address: u64) -> u64 {
        let lowest = self.segments.iter().map(|segment| segment.address & !(segment.page - 1)).min();
        address.wrapping_sub(lowest.unwrap_or(0))
    }

    /// How far the segments have moved if the first byte of the file is at this address; `None` if the file's
    /// beginning is in no segment.
    pub(crate) fn bias_of_dump(&self, address: u64) -> Option<u64> {
        let first = self.segments.iter().find(|segment| segment.offset == 0)?;
        Some(address.wrapping_sub(first.address))
    }
}

struct Reader<'a, H: FileHeader<Endian = Endianness>> {
    file: &'a Bytes,
    bytes: &'a [u8],
    header: &'a H,
    endian: Endianness,
    sections: SectionTable<'a, H>,
    problems: Vec<Problem>,
}

impl<'a, H: FileHeader<Endian = Endianness>> Reader<'a, H> {
    fn new(file: &'a Bytes) -> Result<Self, Problem> {
        let bytes: &[u8] = file;
        let broken = |error| (NoteKind::Unreadable, format!("starts like an ELF file but is none: {error}"));
        let header = H::parse(bytes).map_err(broken)?;
        let endian = header.endian().map_err(broken)?;
        let mut problems = Vec::new();
        // Section names are of no use here, and their table must not be a reason to give up the rest.
        let headers = header.section_headers(endian, bytes).unwrap_or_else(|_| {
            problems.push((NoteKind::Truncated, "ends before its section headers, so it has no symbols".to_string()));
            &[]
        });
        let sections = SectionTable::new(headers, StringTable::default());
        Ok(Self { file, bytes, header, endian, sections, problems })
    }

    fn read(mut self) -> Elf {
        let mut segments = self.segments();
        if segments.is_empty() {
            segments = self.code_sections();
        }
        let symbols = self.symbols();
        Elf {
            machine: self.machine(),
            big_endian: self.endian == Endianness::Big,
            big_endian_code: self.is_code_big_endian(),
            build_id: self.build_id(),
            segments,
            symbols,
            problems: self.problems,
        }
    }

    fn machine(&self) -> Machine {
        match (self.header.e_machine(self.endian), self.header.is_class_64()) {
            (elf::EM_AARCH64, _) => Machine::AArch64,
            (elf::EM_ARM, _) => Machine::Arm,
            (elf::EM_RISCV, false) => Machine::RiscV32,
            (elf::EM_RISCV, true) => Machine::RiscV64,
            (other, _) => Machine::Other(other.0),
        }
    }

    /// A64 and RISC-V instructions are always little-endian, those of Arm if the linker turned them around (BE8).
    fn is_code_big_endian(&self) -> bool {
        let turned = || self.header.e_flags(self.endian).0 & elf::EF_ARM_BE8.0 != 0;
        self.endian == Endianness::Big
            && match self.machine() {
                Machine::AArch64 | Machine::RiscV32 | Machine::RiscV64 => false,
                Machine::Arm => !turned(),
                Machine::Other(_) => true,
            }
    }

    fn segments(&mut self) -> Vec<Segment> {
        let headers = self.header.program_headers(self.endian, self.bytes).unwrap_or_else(|_| {
            self.problems.push((NoteKind::Truncated, "ends before its program headers".to_string()));
            &[]
        });
        let loaded = headers.iter().filter(|header| header.p_type(self.endian) == elf::PT_LOAD);
        let places = loaded.map(|header| Place {
            address: header.p_vaddr(self.endian).into(),
            offset: header.p_offset(self.endian).into(),
            size: header.p_filesz(self.endian).into(),
            align: header.p_align(self.endian).into(),
        });
        let places: Vec<Place> = places.filter(|place| place.size > 0).take(SEGMENT_LIMIT + 1).collect();
        self.cut(&places, "segments")
    }

    /// What a linker has not seen yet has sections only, and they are all at address 0.
    fn code_sections(&mut self) -> Vec<Segment> {
        let wanted = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
        let places = self.sections.iter().filter_map(|section| {
            let (offset, size) = section.file_range(self.endian)?;
            let flags = section.sh_flags(self.endian).0;
            let address = section.sh_addr(self.endian).into();
            (flags & wanted == wanted && size > 0).then_some(Place { address, offset, size, align: 1 })
        });
        let places: Vec<Place> = places.take(SEGMENT_LIMIT + 1).collect();
        if places.iter().skip(1).any(|place| Some(place.address) == places.first().map(|first| first.address)) {
            let text = "is not linked yet: several of its sections are at the same address".to_string();
            self.problems.push((NoteKind::Duplicate, text));
        }
        self.cut(&places, "sections")
    }

    /// The parts of the file at these places, as far as it reaches.
    fn cut(&mut self, places: &[Place], noun: &str) -> Vec<Segment> {
        if places.len() > SEGMENT_LIMIT {
            let text = format!("has more than {SEGMENT_LIMIT} {noun}; the rest is left out");
            self.problems.push((NoteKind::TooMany, text));
        }
        let segments = places.iter().take(SEGMENT_LIMIT).map(|place| place.cut(self.file));
        let segments: Vec<Segment> = segments.collect();
        let short = segments.iter().zip(places).filter(|(segment, place)| (segment.bytes.len() as u64) < place.size);
        match short.count() {
            0 => {}
            count => self.problems.push((NoteKind::Truncated, format!("ends within or before {count} of its {noun}"))),
        }
        segments
    }

    fn build_id(&self) -> Option<Vec<u8>> {
        let headers = self.header.program_headers(self.endian, self.bytes).unwrap_or_default();
        let in_segments = headers.iter().filter_map(|header| header.notes(self.endian, self.bytes).ok().flatten());
        let in_sections =
            self.sections.iter().filter_map(|header| header.notes(self.endian, self.bytes).ok().flatten());
        let is_id = |note: &object::read::elf::Note<'a, H>| {
            note.name() == elf::ELF_NOTE_GNU && note.n_type(self.endian) == elf::NT_GNU_BUILD_ID
        };
        let mut notes = in_segments.chain(in_sections).flat_map(readable).take(NOTE_LIMIT);
        notes
            .find(is_id)
            .map(|note| note.desc())
            .filter(|id| (1..=BUILD_ID_LIMIT).contains(&id.len()))
            .map(<[u8]>::to_vec)
    }

    fn symbols(&mut self) -> Symbols {
        let mut listed = Vec::new();
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            match self.sections.symbols(self.endian, self.bytes, kind) {
                Ok(table) => self.list(&table, &mut listed),
                Err(_) => self.problems.push((NoteKind::Truncated, "ends within or before its symbols".to_string())),
            }
        }
        if listed.len() > SYMBOL_LIMIT {
            listed.truncate(SYMBOL_LIMIT);
            let text = format!("has more than {SYMBOL_LIMIT} symbols; the rest is left out");
            self.problems.push((NoteKind::TooMany, text));
        }
        Symbols::new(self.file, listed)
    }

    fn list(&self, table: &SymbolTable<'a, H>, listed: &mut Vec<Listed>) {
        let Ok(strings) = self.sections.section(table.string_section()) else { return };
        let Some((strings, _)) = strings.file_range(self.endian) else { return };
        let found = table.enumerate().skip(1).filter_map(|(index, symbol)| self.code(table, index, symbol, strings));
        listed.extend(found.take(SYMBOL_LIMIT + 1 - listed.len().min(SYMBOL_LIMIT)));
    }

    /// A symbol if it names code.
    fn code(&self, table: &SymbolTable<'a, H>, index: SymbolIndex, symbol: &H::Sym, strings: u64) -> Option<Listed> {
        let size = symbol.st_size(self.endian).into();
        let function = is_function(symbol.st_type());
        let mut address: u64 = symbol.st_value(self.endian).into();
        let mut limit = u64::MAX;
        match table.symbol_section(self.endian, symbol, index).ok()? {
            Some(section) => {
                let section = self.sections.section(section).ok()?;
                let executable = section.sh_flags(self.endian).0 & elf::SHF_EXECINSTR.0 != 0;
                if !(function || symbol.st_type() == elf::STT_NOTYPE && executable) {
                    return None;
                }
                let start = section.sh_addr(self.endian).into();
                limit = start.saturating_add(section.sh_size(self.endian).into());
                if self.header.e_type(self.endian) == elf::ET_REL {
                    address = address.wrapping_add(start);
                }
            }
            // A function in ROM that the program was linked against. Without a size it would never end.
            None if function && size > 0 && symbol.is_absolute(self.endian) => {}
            None => return None,
        }
        if function && self.machine() == Machine::Arm {
            // The lowest bit tells the instruction set.
            address &= !1;
        }
        let name = strings.checked_add(symbol.st_name(self.endian).into())?;
        if !function && !self.is_label(name) {
            return None;
        }
        Some(Listed { address, size, limit, name: u32::try_from(name).ok()?, rank: rank(symbol.st_bind(), function) })
    }

    /// Not a name of the assembler's own: `$x` and `$d.7` tell code from data, `.L` is for branches within a function.
    fn is_label(&self, name: u64) -> bool {
        let rest = usize::try_from(name).ok().and_then(|name| self.bytes.get(name..)).unwrap_or_default();
        let riscv = matches!(self.machine(), Machine::RiscV32 | Machine::RiscV64);
        !match rest {
            [b'$', b'x' | b'a' | b't' | b'd', 0 | b'.', ..] => true,
            // The architecture may follow: `$xrv64gc`.
            [b'$', b'x', ..] => riscv,
            [b'.', b'L', ..] | [0, ..] | [] => true,
            _ => false,
        }
    }
}

fn is_function(kind: elf::SymbolType) -> bool {
    matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_ARM_TFUNC)
}

/// A function is a better name than a label, and what the whole program sees is better than what a file hides.
fn rank(bind: elf::SymbolBind, function: bool) -> u8 {
    let seen = match bind {
        elf::STB_LOCAL => 0,
        elf::STB_WEAK => 1,
        _ => 2,
    };
    seen + if function { 3 } else { 0 }
}

/// The notes up to the first that cannot be read.
fn readable<H: FileHeader>(mut notes: NoteIterator<'_, H>) -> impl Iterator<Item = object::read::elf::Note<'_, H>> {
    std::iter::from_fn(move || notes.next().ok().flatten())
}

/// Where a segment is, in memory and in the file.
struct Place {
    address: u64,
    offset: u64,
    size: u64,
    align: u64,
}

impl Place {
    fn cut(&self, file: &Bytes) -> Segment {
        /// The smallest page. A larger alignment says what pages might be, not what they were.
        const PAGE: u64 = 4 << 10;
        let page = if self.align.is_power_of_two() { self.align.min(PAGE) } else { 1 };
        Segment { address: self.address, bytes: file.part(self.offset, self.size), offset: self.offset, page }
    }
}
