//! Kernel modules: object files whose sections get their addresses when the kernel loads them.
//!
//! bytes of an object file, address of the module, symbols of the kernel ─▶ **relocatable** ─▶ [`Code`]
//!
//! ```text
//!  .ko file                              memory
//!  .text       bl <printk>   CALL26 ──▶  base + 0x00   bl printk          target known: the branch is encoded
//!              bl <unknown>  CALL26 ──▶  base + 0x04   (no memory)        target not known: the opcode is left out
//!  .exit.text  ...                  ──▶  base + distance in the file, or where kallsyms has one of its functions
//! ```
//!
//! In the file a branch to another section has no target: its opcode would lead to itself, and a decoder that follows it
//! would be wrong without noticing. So branches are encoded with their targets, and the four bytes of a branch whose
//! target is not known are not part of the code: a decoder then reports missing code there, which is the truth.
//! Relocations that do not change where an instruction leads (addresses of data) are not applied.
//!
//! What the kernel changes later (alternatives, static keys, function tracing) is not in the file; only kcore has that.
//! Relocations: "ELF for the Arm 64-bit Architecture", heading "Static AArch64 relocations".

use std::collections::{BTreeMap, HashMap};

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64, RelocationType};
use object::read::elf::{FileHeader, Rel, Rela, SectionHeader, Sym, SymbolTable};
use object::read::{SectionIndex, SymbolIndex};

use super::elf::{Elf, Problem, Reader};
use super::kallsyms::Kallsyms;
use super::symbols::Symbols;
use super::{Bytes, Code, Machine, Region, Spaces};
use crate::note::NoteKind;

/// Maximum number of sections, relocations and symbols, and of bytes of code. Tables and sections of a hostile file may
/// overlap; those of others do not, so that the size of the file is another limit.
const SECTION_LIMIT: usize = 16 << 10;
const RELOCATION_LIMIT: usize = 4 << 20;
const SYMBOL_LIMIT: usize = 4 << 20;
const CODE_LIMIT: usize = 256 << 20;

/// Maximum length of the name of a kernel symbol.
const NAME_LIMIT: usize = 512;

/// The code of a module whose `.text` section is at `base`, unless the symbols of the kernel place it elsewhere.
/// `module` is its name in the list of symbols; `elf` is what was read from the file.
pub(super) fn place(
    name: &str,
    file: &Bytes,
    elf: &Elf,
    base: u64,
    module: &str,
    kernel: Option<&Kallsyms>,
    problems: &mut Vec<Problem>,
) -> Code {
    /// Offset of the ELF class.
    const CLASS: usize = 4;
    let kernel = Kernel { symbols: kernel, module };
    let placed = match file.get(CLASS) {
        Some(1) => Module::<FileHeader32<Endianness>>::read(file, base, &kernel, problems),
        _ => Module::<FileHeader64<Endianness>>::read(file, base, &kernel, problems),
    };
    let (regions, symbols) = placed.unwrap_or_else(|problem| {
        problems.push(problem);
        Default::default()
    });
    if regions.is_empty() {
        problems.push((NoteKind::MissingKey, "has no section with code that can be used".to_string()));
    }
    Code { symbols, elf: None, ..elf.code(name, 0, regions) }
}

/// Addresses that the kernel lists.
struct Kernel<'k> {
    symbols: Option<&'k Kallsyms>,
    /// The name of the module.
    module: &'k str,
}

impl Kernel<'_> {
    /// A function of the module.
    fn function(&self, name: &str) -> Option<u64> {
        self.symbols?.address_in_module(name, self.module)
    }

    /// A function of another module, or of the kernel itself.
    fn exported(&self, name: &str) -> Option<u64> {
        self.symbols?.exported(name)
    }
}

struct Module<'a, H: FileHeader<Endian = Endianness>> {
    reader: Reader<'a, H>,
    symbols: SymbolTable<'a, H>,
    /// By index in the file.
    sections: BTreeMap<usize, CodeSection>,
}

/// A section with code.
struct CodeSection {
    /// Offset in the file.
    offset: u64,
    bytes: Bytes,
    /// Whether it is freed after the module was started, and is not near the rest.
    is_init: bool,
    is_text: bool,
    /// Where it is in memory, if that is known.
    address: Option<u64>,
}

impl<'a, H: FileHeader<Endian = Endianness>> Module<'a, H> {
    /// The memory of a module and its functions.
    fn read(
        file: &'a Bytes,
        base: u64,
        kernel: &Kernel<'_>,
        problems: &mut Vec<Problem>,
    ) -> Result<(Vec<Region>, Symbols), Problem> {
        let reader = Reader::<H>::new(file)?;
        let symbols = reader.sections.symbols(reader.endian, reader.bytes, elf::SHT_SYMTAB).unwrap_or_default();
        let sections = code_sections(&reader, problems);
        let mut module = Self { reader, symbols, sections };
        module.place(base, kernel, problems);
        let regions = match module.branches(kernel) {
            Some(branches) => module.regions(branches, problems),
            None => {
                problems.push((NoteKind::TooMany, "has too many relocations; its code is not used".to_string()));
                Vec::new()
            }
        };
        Ok((regions, module.names()))
    }

    /// Gives sections their addresses: by their functions that the kernel lists, or else at the same distance from
    /// `.text` as in the file.
    fn place(&mut self, base: u64, kernel: &Kernel<'_>, problems: &mut Vec<Problem>) {
        for (section, address) in self.listed_addresses(kernel) {
            if let Some(section) = self.sections.get_mut(&section) {
                section.address = Some(address);
            }
        }
        let text = || self.sections.values().find(|section| section.is_text);
        let listed = || self.sections.values().find(|section| section.address.is_some() && !section.is_init);
        let known = text().filter(|text| text.address.is_some()).or_else(listed);
        let reference = known.or_else(text).or_else(|| self.sections.values().find(|section| !section.is_init));
        let Some((address, offset)) = reference.map(|found| (found.address.unwrap_or(base), found.offset)) else {
            return;
        };
        let is_listed = known.is_some();
        let (mut assumed, mut absent) = (0, 0);
        for section in self.sections.values_mut().filter(|section| section.address.is_none()) {
            if section.is_init {
                absent += 1;
            } else {
                section.address = Some(address.wrapping_add(section.offset).wrapping_sub(offset));
                assumed += 1;
            }
        }
        if assumed > usize::from(!is_listed) {
            let text = "no function of {} of its sections is in the list of kernel symbols: their distance in the file is assumed";
            problems.push((NoteKind::Assumed, text.replace("{}", &assumed.to_string())));
        }
        if absent > 0 {
            let text =
                format!("{absent} of its sections are memory for the start of the module, whose address is not known");
            problems.push((NoteKind::Unplaced, text));
        }
    }

    /// The address of each section according to most of its functions that the kernel lists.
    fn listed_addresses(&self, kernel: &Kernel<'_>) -> Vec<(usize, u64)> {
        if kernel.symbols.is_none() {
            return Vec::new();
        }
        // Functions of several source files may have one name: such names place nothing.
        let mut functions: HashMap<&str, Option<(usize, u64)>> = HashMap::new();
        for (index, symbol) in self.symbols.enumerate().take(SYMBOL_LIMIT) {
            let Some(section) = self.section_of(symbol, index) else { continue };
            let Some(name) = self.name(symbol) else { continue };
            let here = Some((section, symbol.st_value(self.reader.endian).into()));
            functions.entry(name).and_modify(|known| *known = known.filter(|_| *known == here)).or_insert(here);
        }
        let mut votes: BTreeMap<usize, BTreeMap<u64, usize>> = BTreeMap::new();
        for (name, (section, value)) in functions.into_iter().filter_map(|(name, place)| Some((name, place?))) {
            let Some(address) = kernel.function(name) else { continue };
            *votes.entry(section).or_default().entry(address.wrapping_sub(value)).or_default() += 1;
        }
        let most = |votes: BTreeMap<u64, usize>| votes.into_iter().max_by_key(|(_, count)| *count);
        votes.into_iter().filter_map(|(section, votes)| Some((section, most(votes)?.0))).collect()
    }

    /// Memory of the placed sections, without the branches whose targets are not known.
    fn regions(&self, mut branches: Branches, problems: &mut Vec<Problem>) -> Vec<Region> {
        let (mut regions, mut unknown, mut unsupported) = (Vec::new(), 0, 0);
        for (index, section) in &self.sections {
            let Some(address) = section.address else { continue };
            let Some(branches) = branches.remove(index) else {
                regions.extend(Region::new(address, &section.bytes, Spaces::ANY));
                continue;
            };
            if self.reader.machine() != Machine::AArch64 {
                unsupported += 1;
                continue;
            }
            let (bytes, holes) = encode(&section.bytes, address, &branches);
            unknown += holes.len();
            let bytes = Bytes::from(bytes);
            let starts = [0].into_iter().chain(holes.iter().map(|hole| hole + 4));
            let ends = holes.iter().copied().chain([u64::MAX]);
            let parts = starts.zip(ends).filter(|(start, end)| start < end).filter_map(|(start, end)| {
                Region::new(address.wrapping_add(start), &bytes.part(start, end - start), Spaces::ANY)
            });
            regions.extend(parts);
        }
        if unsupported > 0 {
            let machine = self.reader.machine();
            let text =
                format!("{unsupported} of its sections are not used: relocations of {machine} are not supported");
            problems.push((NoteKind::UnknownFormat, text));
        }
        if unknown > 0 {
            let text =
                format!("the targets of {unknown} branches are not known; these instructions are left out of the code");
            problems.push((NoteKind::UnknownName, text));
        }
        regions
    }

    /// The branches of each section that has relocations; `None` if there are too many.
    fn branches(&self, kernel: &Kernel<'_>) -> Option<Branches> {
        /// Size of the smallest relocation.
        const SMALLEST: usize = 8;
        let (mut branches, mut left) = (Branches::new(), RELOCATION_LIMIT.min(self.reader.bytes.len() / SMALLEST));
        let endian = self.reader.endian;
        for section in self.reader.sections.iter() {
            let target = section.sh_info(endian) as usize;
            if !self.sections.contains_key(&target) {
                continue;
            }
            let mut add = |offset: u64, kind: RelocationType, value: Option<u64>| {
                let found = branches.entry(target).or_default();
                if is_branch(kind) {
                    // Two relocations of one branch are no file of a compiler: it has no target that we know.
                    let branch = Branch { kind, target: value.filter(|_| !found.contains_key(&offset)) };
                    found.insert(offset, branch);
                }
            };
            if let Ok(Some((entries, _))) = section.rela(endian, self.reader.bytes) {
                left = left.checked_sub(entries.len())?;
                for entry in entries {
                    let target = self.target(entry.symbol(endian, false), kernel);
                    let value = target.map(|target| target.wrapping_add_signed(entry.r_addend(endian).into()));
                    add(entry.r_offset(endian).into(), entry.r_type(endian, false), value);
                }
            } else if let Ok(Some((entries, _))) = section.rel(endian, self.reader.bytes) {
                left = left.checked_sub(entries.len())?;
                entries.iter().for_each(|entry| add(entry.r_offset(endian).into(), entry.r_type(endian), None));
            }
        }
        Some(branches)
    }

    /// The address of a symbol in memory.
    fn target(&self, index: Option<SymbolIndex>, kernel: &Kernel<'_>) -> Option<u64> {
        let index = index?;
        let symbol = self.symbols.symbol(index).ok()?;
        let value: u64 = symbol.st_value(self.reader.endian).into();
        if symbol.is_undefined(self.reader.endian) {
            return kernel.exported(self.name(symbol)?);
        }
        let section = self.sections.get(&self.section_of(symbol, index)?)?;
        Some(section.address?.wrapping_add(value))
    }

    fn section_of(&self, symbol: &H::Sym, index: SymbolIndex) -> Option<usize> {
        let SectionIndex(section) = self.symbols.symbol_section(self.reader.endian, symbol, index).ok()??;
        self.sections.contains_key(&section).then_some(section)
    }

    fn name(&self, symbol: &H::Sym) -> Option<&'a str> {
        let strings = self.reader.sections.section(self.symbols.string_section()).ok()?;
        let (start, _) = strings.file_range(self.reader.endian)?;
        let at = usize::try_from(start.checked_add(symbol.st_name(self.reader.endian).into())?).ok()?;
        let rest = self.reader.bytes.get(at..)?;
        let rest = &rest[..rest.len().min(NAME_LIMIT)];
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok().filter(|name| !name.is_empty())
    }

    /// The functions of the placed sections.
    fn names(&self) -> Symbols {
        let endian = self.reader.endian;
        let strings = self.reader.sections.section(self.symbols.string_section()).ok();
        let Some((strings, _)) = strings.and_then(|section| section.file_range(endian)) else {
            return Symbols::default();
        };
        let placed = self.symbols.enumerate().skip(1).take(SYMBOL_LIMIT).filter_map(|(index, symbol)| {
            let section = self.sections.get(&self.section_of(symbol, index)?)?;
            let (start, size) = (section.address?, section.bytes.len() as u64);
            let mut found = self.reader.code(&self.symbols, index, symbol, strings)?;
            found.address = start.wrapping_add(symbol.st_value(endian).into());
            found.limit = start.saturating_add(size);
            Some(found)
        });
        Symbols::new(self.reader.file, placed.collect())
    }
}

/// The sections with code, up to a limit.
fn code_sections<H: FileHeader<Endian = Endianness>>(
    reader: &Reader<'_, H>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<usize, CodeSection> {
    let (mut sections, mut left) = (BTreeMap::new(), CODE_LIMIT.min(reader.bytes.len()));
    let wanted = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
    for (SectionIndex(index), section) in reader.sections.enumerate() {
        let Some((offset, size)) = section.file_range(reader.endian) else { continue };
        let bytes = reader.file.part(offset, size);
        let (is_init, is_text) = (reader.is_named(section, b".init"), reader.is_named(section, b".text\0"));
        // An empty `.text`, as with one section per function, still is what distances are measured from.
        if section.sh_flags(reader.endian).0 & wanted != wanted || bytes.is_empty() && !is_text {
            continue;
        }
        if bytes.len() > left || sections.len() == SECTION_LIMIT {
            problems.push((NoteKind::TooMany, "has too much code; the rest is ignored".to_string()));
            break;
        }
        left -= bytes.len();
        sections.insert(index, CodeSection { offset, bytes, is_init, is_text, address: None });
    }
    sections
}

/// Branches with relocations: by section, and by offset in it.
type Branches = BTreeMap<usize, BTreeMap<u64, Branch>>;

/// A branch with a relocation.
struct Branch {
    kind: RelocationType,
    /// Address that it leads to, if known.
    target: Option<u64>,
}

fn is_branch(kind: RelocationType) -> bool {
    let branches = [elf::R_AARCH64_JUMP26, elf::R_AARCH64_CALL26, elf::R_AARCH64_CONDBR19, elf::R_AARCH64_TSTBR14];
    branches.iter().any(|branch| branch.0 == kind.0)
}

/// The section with its branches, and the offsets of those whose target is not known, in ascending order.
fn encode(section: &[u8], address: u64, branches: &BTreeMap<u64, Branch>) -> (Vec<u8>, Vec<u64>) {
    let (mut bytes, mut holes) = (section.to_vec(), Vec::new());
    for (&offset, branch) in branches {
        let place = usize::try_from(offset).ok().and_then(|at| bytes.get_mut(at..)?.first_chunk_mut::<4>());
        // A relocation after the end of the section changes nothing.
        let Some(opcode) = place else { continue };
        let target = branch
            .target
            .filter(|_| offset % 4 == 0)
            .map(|target| target.wrapping_sub(address.wrapping_add(offset)).cast_signed());
        match target.and_then(|distance| branch_opcode(u32::from_le_bytes(*opcode), branch.kind, distance)) {
            Some(encoded) => *opcode = encoded.to_le_bytes(),
            None => holes.push(offset),
        }
    }
    (bytes, holes)
}

/// The opcode of a branch over this distance. `None` if it is not the branch that the relocation is for, or cannot reach
/// the target: the kernel then branches to a veneer of its own, which the file does not have.
fn branch_opcode(opcode: u32, kind: RelocationType, distance: i64) -> Option<u32> {
    /// B and BL, B.cond, CBZ and CBNZ, TBZ and TBNZ: the bits that identify them, and the place of the distance.
    const FORMS: [(u32, u32, u32, u32, u32); 4] = [
        (282, 0x7c00_0000, 0x1400_0000, 0, 26),
        (280, 0xff00_0000, 0x5400_0000, 5, 19),
        (280, 0x7e00_0000, 0x3400_0000, 5, 19),
        (279, 0x7e00_0000, 0x3600_0000, 5, 14),
    ];
    let kind = if kind.0 == elf::R_AARCH64_CALL26.0 { elf::R_AARCH64_JUMP26.0 } else { kind.0 };
    let form = FORMS.iter().find(|form| form.0 == kind && opcode & form.1 == form.2)?;
    let (shift, width) = (form.3, form.4);
    let words = distance >> 2;
    let reach = 1_i64 << (width - 1);
    if distance & 3 != 0 || !(-reach..reach).contains(&words) {
        return None;
    }
    let mask = (1_u32 << width) - 1;
    // The low bits of a negative number are its two's complement.
    Some(opcode & !(mask << shift) | (words as u32 & mask) << shift)
}

#[cfg(test)]
mod tests;
