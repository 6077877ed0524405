//! ELF files: segments, symbols and build ID.
//!
//! bytes of an ELF file of either class and byte order ─▶ **elf** ─▶ [`Elf`], with messages about problems
//!
//! Everything readable is kept: a file that is truncated or has no section headers still has its segments.

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::SymbolIndex;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader, SectionTable, Sym, SymbolTable};
use object::{Endianness, StringTable};

use super::symbols::{ElfSymbol, Symbols};
use super::{Bytes, Code, Machine, Region};
use crate::note::NoteKind;

/// Offset of the ELF class (32 or 64 bits).
pub(super) const CLASS: usize = 4;

/// Maximum number of segments. A core dump has one per mapping of the process; the limit of Linux is about the same.
const SEGMENT_LIMIT: usize = 64 << 10;

/// Maximum number of symbols, several times that of the largest web browsers.
const SYMBOL_LIMIT: usize = 16 << 20;

/// Maximum number of notes searched for the build ID, and maximum length of a build ID.
const NOTE_LIMIT: usize = 4 << 10;
const BUILD_ID_LIMIT: usize = 64;

/// An ELF file, with link addresses.
#[derive(Debug)]
pub(crate) struct Elf {
    pub(crate) file: Bytes,
    pub(crate) machine: Machine,
    pub(crate) big_endian: bool,
    pub(crate) big_endian_code: bool,
    /// Position-independent: a shared library or a PIE program.
    pub(crate) is_dynamic: bool,
    /// An object file, such as a kernel module: its sections have no addresses yet.
    pub(crate) is_relocatable: bool,
    /// The code was removed and the symbols were kept. The offsets in such a file are not those of the program.
    pub(crate) is_debug_file: bool,
    /// Whether it has the symbols of the linker, not only those that other programs use.
    pub(crate) has_symbol_table: bool,
    /// Name and checksum of the file with its symbols.
    pub(crate) debug_link: Option<(String, u32)>,
    pub(crate) build_id: Option<Vec<u8>>,
    /// Address of the lowest page of all segments, for a file in which none has bytes.
    lowest: Option<u64>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) symbols: Symbols,
    pub(crate) problems: Vec<Problem>,
}

/// Bytes of the file that are loaded into memory.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Page size, since loaders map whole pages.
    pub(crate) page: u64,
    pub(crate) is_executable: bool,
}

/// A problem of a file; the text continues a sentence that starts with the file name.
pub(crate) type Problem = (NoteKind, String);

/// Whether the bytes start with the ELF magic number.
pub(crate) fn is_elf(file: &[u8]) -> bool {
    file.starts_with(&elf::ELFMAG)
}

impl Elf {
    /// Reads a file that [`is_elf`].
    pub(crate) fn read(file: &Bytes) -> Result<Self, Problem> {
        match file.get(CLASS) {
            Some(1) => Reader::<FileHeader32<Endianness>>::new(file).map(Reader::read),
            Some(2) => Reader::<FileHeader64<Endianness>>::new(file).map(Reader::read),
            _ => Err((NoteKind::Unreadable, "is an ELF file of unknown class".to_string())),
        }
    }

    /// Link address of a symbol of any kind, by its name; the first one of several. `file` [`is_elf`].
    pub(crate) fn symbol_address(file: &Bytes, name: &str) -> Option<u64> {
        match file.get(CLASS) {
            Some(1) => Reader::<FileHeader32<Endianness>>::new(file).ok()?.symbol_address(name),
            Some(2) => Reader::<FileHeader64<Endianness>>::new(file).ok()?.symbol_address(name),
            _ => None,
        }
    }

    /// The code of the file, whose segments are in these regions.
    pub(crate) fn code(&self, name: &str, bias: u64, regions: Vec<Region>) -> Code {
        Code {
            name: name.to_string(),
            raw: false,
            regions,
            symbols: self.symbols.moved(bias),
            build_id: self.build_id.clone(),
            machine: Some(self.machine),
            big_endian: self.big_endian,
            big_endian_code: self.big_endian_code,
            bias,
            is_unplaced: false,
            elf: Some(self.file.clone()),
            debug_file: None,
        }
    }

    /// Bias that moves the lowest page of the file to this address.
    pub(crate) fn bias_to(&self, address: u64) -> u64 {
        let with_bytes = self.segments.iter().map(|segment| segment.address & !(segment.page - 1)).min();
        address.wrapping_sub(with_bytes.or(self.lowest).unwrap_or(0))
    }

    /// Bias of a program of which a loader mapped `length` bytes at `offset` to this address; `None` if no segment is there.
    pub(crate) fn bias_of_part(&self, address: u64, length: u64, offset: u64) -> Option<u64> {
        // A page may have the end of one segment and the start of the next one: most bytes decide, if both are code.
        let common = |segment: &&Segment| {
            let end = offset.saturating_add(length).min(segment.offset.saturating_add(segment.bytes.len() as u64));
            end.saturating_sub(offset.max(segment.offset))
        };
        let there = self.segments.iter().filter(|segment| common(segment) > 0);
        let segment = there.max_by_key(|segment| (segment.is_executable, common(segment)))?;
        let linked = segment.address.wrapping_add(offset).wrapping_sub(segment.offset);
        Some(address.wrapping_sub(linked))
    }

    /// Bias of a dump whose first byte is at this address; `None` if no segment contains the start of the file.
    pub(crate) fn bias_of_dump(&self, address: u64) -> Option<u64> {
        let first = self.segments.iter().find(|segment| segment.offset == 0)?;
        Some(address.wrapping_sub(first.address))
    }
}

pub(super) struct Reader<'a, H: FileHeader<Endian = Endianness>> {
    pub(super) file: &'a Bytes,
    pub(super) bytes: &'a [u8],
    header: &'a H,
    pub(super) endian: Endianness,
    pub(super) sections: SectionTable<'a, H>,
    /// Offset of the names of sections.
    names: u64,
    problems: Vec<Problem>,
}

impl<'a, H: FileHeader<Endian = Endianness>> Reader<'a, H> {
    pub(super) fn new(file: &'a Bytes) -> Result<Self, Problem> {
        let bytes: &[u8] = file;
        let broken = |error| (NoteKind::Unreadable, format!("starts like an ELF file but is invalid: {error}"));
        let header = H::parse(bytes).map_err(broken)?;
        let endian = header.endian().map_err(broken)?;
        let mut problems = Vec::new();
        // Few section names are needed, so their table must not make the file unreadable.
        let headers = header.section_headers(endian, bytes).unwrap_or_else(|_| {
            problems.push((NoteKind::Truncated, "ends before its section headers, so it has no symbols".to_string()));
            &[]
        });
        let sections = SectionTable::new(headers, StringTable::default());
        let names = header.shstrndx(endian, bytes).ok().and_then(|index| headers.get(index as usize));
        let names = names.and_then(|section| section.file_range(endian)).map_or(u64::MAX, |(offset, _)| offset);
        Ok(Self { file, bytes, header, endian, sections, names, problems })
    }

    pub(super) fn read(mut self) -> Elf {
        let is_debug_file = self.is_debug_file();
        let mut segments = if is_debug_file { Vec::new() } else { self.segments() };
        if segments.is_empty() {
            segments = self.code_sections();
        }
        let symbols = self.symbols();
        Elf {
            file: self.file.clone(),
            machine: self.machine(),
            big_endian: self.endian == Endianness::Big,
            big_endian_code: self.is_code_big_endian(),
            is_dynamic: self.header.e_type(self.endian) == elf::ET_DYN,
            is_relocatable: self.header.e_type(self.endian) == elf::ET_REL,
            is_debug_file,
            has_symbol_table: self.sections.iter().any(|section| section.sh_type(self.endian) == elf::SHT_SYMTAB),
            debug_link: self.debug_link(),
            lowest: self.lowest(),
            build_id: self.build_id(),
            segments,
            symbols,
            problems: self.problems,
        }
    }

    pub(super) fn machine(&self) -> Machine {
        Machine::from_elf(self.header.e_machine(self.endian).0, self.header.is_class_64())
    }

    /// Whether instructions are big-endian. A64 and RISC-V code is always little-endian, A32 and T32 code in BE8 files.
    fn is_code_big_endian(&self) -> bool {
        let is_be8 = || self.header.e_flags(self.endian).0 & elf::EF_ARM_BE8.0 != 0;
        self.endian == Endianness::Big
            && match self.machine() {
                Machine::AArch64 | Machine::RiscV32 | Machine::RiscV64 => false,
                Machine::Arm => !is_be8(),
                Machine::Other(_) => true,
            }
    }

    /// Whether all code was removed from the file. Core files have code that was not dumped.
    fn is_debug_file(&self) -> bool {
        let wanted = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
        let is_code = |section: &&H::SectionHeader| section.sh_flags(self.endian).0 & wanted == wanted;
        let mut code = self.sections.iter().filter(is_code).map(|section| section.sh_type(self.endian)).peekable();
        let is_core = self.header.e_type(self.endian) == elf::ET_CORE;
        !is_core && code.peek().is_some() && code.all(|kind| kind == elf::SHT_NOBITS)
    }

    fn debug_link(&self) -> Option<(String, u32)> {
        let section = self.sections.iter().find(|section| self.is_named(section, b".gnu_debuglink\0"))?;
        let data = section.data(self.endian, self.bytes).ok()?;
        // The checksum follows the name at the next multiple of four.
        let end = data.iter().position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(data.get(..end)?).ok()?.to_string();
        let checksum = *data.get((end + 1).next_multiple_of(4)..)?.first_chunk()?;
        let is_big = self.endian == Endianness::Big;
        Some((name, if is_big { u32::from_be_bytes(checksum) } else { u32::from_le_bytes(checksum) }))
    }

    /// Whether the name of a section starts like this. Takes constant time, unlike finding the end of a name.
    pub(super) fn is_named(&self, section: &H::SectionHeader, start: &[u8]) -> bool {
        let at = self.names.checked_add(section.sh_name(self.endian).into()).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.bytes.get(at..)).is_some_and(|name| name.starts_with(start))
    }

    fn lowest(&self) -> Option<u64> {
        let headers = self.header.program_headers(self.endian, self.bytes).unwrap_or_default();
        let loaded = headers.iter().filter(|header| header.p_type(self.endian) == elf::PT_LOAD);
        let loaded = loaded.filter(|header| header.p_memsz(self.endian).into() > 0);
        let page = |header: &H::ProgramHeader| {
            header.p_vaddr(self.endian).into() & !(page_size(header.p_align(self.endian).into()) - 1)
        };
        loaded.map(page).min()
    }

    fn segments(&mut self) -> Vec<Segment> {
        let headers = self.header.program_headers(self.endian, self.bytes).unwrap_or_else(|_| {
            self.problems.push((NoteKind::Truncated, "ends before its program headers".to_string()));
            &[]
        });
        let loaded = headers.iter().filter(|header| header.p_type(self.endian) == elf::PT_LOAD);
        let ranges = loaded.map(|header| LoadRange {
            address: header.p_vaddr(self.endian).into(),
            offset: header.p_offset(self.endian).into(),
            size: header.p_filesz(self.endian).into(),
            align: header.p_align(self.endian).into(),
            is_executable: header.p_flags(self.endian).0 & elf::PF_X.0 != 0,
        });
        let ranges: Vec<LoadRange> = ranges.filter(|range| range.size > 0).take(SEGMENT_LIMIT + 1).collect();
        self.load(&ranges, "segments")
    }

    /// Executable sections as segments, for object files, which have no segments and whose sections are at address 0.
    fn code_sections(&mut self) -> Vec<Segment> {
        let wanted = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
        let ranges = self.sections.iter().filter_map(|section| {
            let (offset, size) = section.file_range(self.endian)?;
            let flags = section.sh_flags(self.endian).0;
            let address = section.sh_addr(self.endian).into();
            (flags & wanted == wanted && size > 0).then_some(LoadRange {
                address,
                offset,
                size,
                align: 1,
                is_executable: true,
            })
        });
        let ranges: Vec<LoadRange> = ranges.take(SEGMENT_LIMIT + 1).collect();
        if ranges.iter().skip(1).any(|range| Some(range.address) == ranges.first().map(|first| first.address)) {
            let text = "is not linked: several of its sections are at the same address".to_string();
            self.problems.push((NoteKind::Duplicate, text));
        }
        self.load(&ranges, "sections")
    }

    /// The parts of the file in these ranges, truncated at its end.
    fn load(&mut self, ranges: &[LoadRange], noun: &str) -> Vec<Segment> {
        if ranges.len() > SEGMENT_LIMIT {
            let text = format!("has more than {SEGMENT_LIMIT} {noun}; the rest are ignored");
            self.problems.push((NoteKind::TooMany, text));
        }
        let segments = ranges.iter().take(SEGMENT_LIMIT).map(|range| range.segment(self.file));
        let segments: Vec<Segment> = segments.collect();
        let short = segments.iter().zip(ranges).filter(|(segment, range)| (segment.bytes.len() as u64) < range.size);
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
            let text = format!("has more than {SYMBOL_LIMIT} symbols; the rest are ignored");
            self.problems.push((NoteKind::TooMany, text));
        }
        Symbols::new(self.file, listed)
    }

    fn symbol_address(&self, name: &str) -> Option<u64> {
        let wanted: Vec<u8> = name.bytes().chain([0]).collect();
        let table = self.sections.symbols(self.endian, self.bytes, elf::SHT_SYMTAB).ok()?;
        let (strings, _) = self.sections.section(table.string_section()).ok()?.file_range(self.endian)?;
        let is_wanted = |symbol: &&H::Sym| {
            let at = strings.checked_add(symbol.st_name(self.endian).into()).and_then(|at| usize::try_from(at).ok());
            let name = at.and_then(|at| self.bytes.get(at..)).unwrap_or_default();
            name.starts_with(&wanted) && !symbol.is_undefined(self.endian)
        };
        table.iter().find(is_wanted).map(|symbol| symbol.st_value(self.endian).into())
    }

    fn list(&self, table: &SymbolTable<'a, H>, listed: &mut Vec<ElfSymbol>) {
        let Ok(strings) = self.sections.section(table.string_section()) else { return };
        let Some((strings, _)) = strings.file_range(self.endian) else { return };
        let found = table.enumerate().skip(1).filter_map(|(index, symbol)| self.code(table, index, symbol, strings));
        listed.extend(found.take(SYMBOL_LIMIT + 1 - listed.len().min(SYMBOL_LIMIT)));
    }

    /// A symbol if it names code.
    pub(super) fn code(
        &self,
        table: &SymbolTable<'a, H>,
        index: SymbolIndex,
        symbol: &H::Sym,
        strings: u64,
    ) -> Option<ElfSymbol> {
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
            // A function in ROM that the program was linked against. It needs a size, since no section ends it.
            None if function && size > 0 && symbol.is_absolute(self.endian) => {}
            None => return None,
        }
        if function && self.machine() == Machine::Arm {
            // The lowest bit encodes the instruction set.
            address &= !1;
        }
        let name = strings.checked_add(symbol.st_name(self.endian).into())?;
        if !function && !self.is_label(name) {
            return None;
        }
        Some(ElfSymbol {
            address,
            size,
            limit,
            name: u32::try_from(name).ok()?,
            rank: rank(symbol.st_bind(), function),
        })
    }

    /// Whether the name is a real label: not a mapping symbol (`$x`, `$d.7`) and not local to the assembler (`.L`).
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

/// Preference among symbols at one address: functions over labels, then global over weak over local.
fn rank(bind: elf::SymbolBind, function: bool) -> u8 {
    let binding = match bind {
        elf::STB_LOCAL => 0,
        elf::STB_WEAK => 1,
        _ => 2,
    };
    binding + if function { 3 } else { 0 }
}

/// The notes before the first one that is invalid.
fn readable<H: FileHeader>(mut notes: NoteIterator<'_, H>) -> impl Iterator<Item = object::read::elf::Note<'_, H>> {
    std::iter::from_fn(move || notes.next().ok().flatten())
}

/// Position of a segment in memory and in the file.
struct LoadRange {
    address: u64,
    offset: u64,
    size: u64,
    align: u64,
    is_executable: bool,
}

impl LoadRange {
    fn segment(&self, file: &Bytes) -> Segment {
        Segment {
            address: self.address,
            bytes: file.part(self.offset, self.size),
            offset: self.offset,
            page: page_size(self.align),
            is_executable: self.is_executable,
        }
    }
}

/// The page size of a segment with this alignment.
fn page_size(align: u64) -> u64 {
    /// The smallest page size. A larger alignment allows larger pages but does not imply them.
    const PAGE: u64 = 4 << 10;
    if align.is_power_of_two() { align.min(PAGE) } else { 1 }
}
