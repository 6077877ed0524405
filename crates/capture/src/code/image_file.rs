//! A program file in memory: read once, placed as often as it is mapped.
//!
//! bytes of a file ─▶ **image file** ─▶ [`Code`] at the addresses of a [`Placement`]
//!
//! Does not know where files come from; [`search`](super::search) finds them. All placements share the bytes and symbols.

use std::fs::File;
use std::path::Path;

use super::elf::{Elf, Problem, is_elf};
use super::kallsyms::Kallsyms;
use super::load::{BYTE_LIMIT, load_dump, load_elf, note, read};
use super::relocatable;
use super::search::Origin;
use super::{Bytes, Code, Region, Spaces, Symbols};
use crate::error::Error;
use crate::event::Placement;
use crate::note::{Note, NoteKind};

/// A program, library, kernel module or dump, or a file with the symbols of one.
#[derive(Debug)]
pub struct ImageFile {
    name: String,
    origin: Origin,
    bytes: Bytes,
    elf: Option<Elf>,
    /// Problems of the file, wherever it is placed.
    problems: Vec<Problem>,
}

impl ImageFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let mut file = File::open(path).map_err(Error::io(path))?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let (bytes, cut) = read(&mut file, size, BYTE_LIMIT).map_err(Error::io(path))?;
        Ok(Self::new(&path.to_string_lossy(), bytes, cut))
    }

    pub(super) fn new(name: &str, bytes: Bytes, cut: Option<Problem>) -> Self {
        let mut problems: Vec<Problem> = cut.into_iter().collect();
        let elf = match is_elf(&bytes).then(|| Elf::read(&bytes)) {
            Some(Ok(elf)) => Some(elf),
            Some(Err(problem)) => {
                problems.push(problem);
                None
            }
            None => None,
        };
        Self { name: name.to_string(), origin: Origin::Disk, bytes, elf, problems }
    }

    /// The same file, which is in a package.
    pub(super) fn in_package(self) -> Self {
        Self { origin: Origin::Package, ..self }
    }

    /// The name of the file, as it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its build ID.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.elf.as_ref()?.build_id.as_deref()
    }

    /// Whether it has code: it is not a separate file with symbols.
    pub fn has_code(&self) -> bool {
        !self.bytes.is_empty() && self.elf.as_ref().is_none_or(|elf| !elf.is_debug_file)
    }

    /// Whether it is an object file that the kernel places, section by section: a module.
    pub fn is_module(&self) -> bool {
        self.elf.as_ref().is_some_and(|elf| elf.is_relocatable)
    }

    /// Whether other files may have more symbols: it is an ELF file without those of the linker.
    pub(super) fn lacks_symbols(&self) -> bool {
        self.elf.as_ref().is_some_and(|elf| !elf.has_symbol_table)
    }

    pub(super) fn debug_link(&self) -> Option<&(String, u32)> {
        self.elf.as_ref()?.debug_link.as_ref()
    }

    /// Its symbols, at link addresses.
    pub(super) fn symbols(&self) -> Option<&Symbols> {
        Some(&self.elf.as_ref()?.symbols)
    }

    /// Where the file comes from, and its name there.
    pub(crate) fn origin(&self) -> (Origin, &str) {
        (self.origin, &self.name)
    }

    /// The whole file.
    pub fn file(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Load address minus link address of a program that is placed like this, if that is known.
    pub(super) fn bias(&self, placement: Placement) -> Option<u64> {
        let elf = self.elf.as_ref().filter(|elf| !elf.is_relocatable)?;
        match placement {
            Placement::Base(address) => Some(if elf.is_dynamic { elf.bias_to(address) } else { 0 }),
            Placement::Part { address, length, offset } => elf.bias_of_part(address, length, offset),
        }
    }

    /// The code of the file in memory, with its symbols.
    ///
    /// A file that is not ELF is a dump, at the base or in part. A module is placed without symbols of the kernel; see
    /// [`place_module`](ImageFile::place_module).
    pub fn place(&self, placement: Placement) -> (Code, Vec<Note>) {
        if self.is_module() {
            let (Placement::Base(address) | Placement::Part { address, .. }) = placement;
            return self.place_module(address, &self.name, None);
        }
        let mut problems = self.problems();
        let code = match (placement, &self.elf, self.bias(placement)) {
            (Placement::Base(address), None, _) => {
                load_dump(&self.name, address, &self.bytes, Spaces::ANY, &mut problems)
            }
            (Placement::Base(_), Some(elf), bias) => {
                load_elf(&self.name, elf, bias.unwrap_or(0), Spaces::ANY, &mut problems)
            }
            (Placement::Part { address, length, offset }, elf, bias) => {
                let regions = self.part(address, length, offset, &mut problems);
                self.code_of_part(elf.as_ref(), bias, regions, &mut problems)
            }
        };
        (code, self.notes(problems))
    }

    /// The code of a module whose `.text` section is at `base`, unless the symbols of the kernel place it elsewhere.
    /// `module` is its name or path. Of a file that is no module, the lowest page is at `base`.
    pub fn place_module(&self, base: u64, module: &str, kernel: Option<&Kallsyms>) -> (Code, Vec<Note>) {
        let Some(elf) = self.elf.as_ref().filter(|elf| elf.is_relocatable) else {
            return self.place(Placement::Base(base));
        };
        // That its sections are not linked is what makes it a module.
        let mut problems = self.problems.clone();
        let module = module_name(module);
        let code = relocatable::place(&self.name, &self.bytes, elf, base, &module, kernel, &mut problems);
        (code, self.notes(problems))
    }

    /// The code of a program that was moved so that its symbol is at this address, as kernels are; `None` if it has no such
    /// symbol.
    pub fn place_by_symbol(&self, symbol: &str, address: u64) -> Option<(Code, Vec<Note>)> {
        let elf = self.elf.as_ref()?;
        let bias = address.wrapping_sub(Elf::symbol_address(&self.bytes, symbol)?);
        let mut problems = self.problems();
        let code = load_elf(&self.name, elf, bias, Spaces::ANY, &mut problems);
        Some((code, self.notes(problems)))
    }

    /// Bytes of the file as a loader maps them. The end of the last page, after the end of the file, is not known.
    fn part(&self, address: u64, length: u64, offset: u64, problems: &mut Vec<Problem>) -> Vec<Region> {
        /// The largest page size: the length of a mapping may be rounded up to it.
        const PAGE: u64 = 64 << 10;
        if !self.has_code() {
            return Vec::new();
        }
        let bytes = self.bytes.part(offset, length);
        if bytes.is_empty() || length - bytes.len() as u64 >= PAGE {
            let text = format!("has only {:#x} of the {length:#x} bytes at offset {offset:#x}", bytes.len());
            problems.push((NoteKind::Truncated, text));
        }
        Region::new(address, &bytes, Spaces::ANY).into_iter().collect()
    }

    fn problems(&self) -> Vec<Problem> {
        let of_elf = self.elf.iter().flat_map(|elf| &elf.problems);
        self.problems.iter().chain(of_elf).cloned().collect()
    }

    fn notes(&self, problems: Vec<Problem>) -> Vec<Note> {
        problems.into_iter().map(|(kind, text)| note(&self.name, kind, &text)).collect()
    }

    fn code_of_part(
        &self,
        elf: Option<&Elf>,
        bias: Option<u64>,
        regions: Vec<Region>,
        problems: &mut Vec<Problem>,
    ) -> Code {
        match (elf, bias) {
            (None, _) => Code { name: self.name.clone(), raw: true, regions, ..Code::default() },
            (Some(elf), Some(bias)) => elf.code(&self.name, bias, regions),
            (Some(elf), None) => {
                let text = match elf.is_debug_file {
                    true => "has no code, and without the program it is not known where its symbols are",
                    false => "has no segment in the part that was mapped, so it is not known where its symbols are",
                };
                problems.push((NoteKind::Unplaced, text.to_string()));
                Code { symbols: Symbols::default(), ..elf.code(&self.name, 0, regions) }
            }
        }
    }
}

/// The name of a module in the lists of the kernel: of `[name]`, or of a path such as `/lib/modules/x/kernel/a-b.ko`.
pub(super) fn module_name(image: &str) -> String {
    let file = image.rsplit('/').next().unwrap_or_default();
    let inner = file.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(file);
    let stem = inner.split_once(".ko").map_or(inner, |(stem, _)| stem);
    stem.replace('-', "_")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::elf_builder::{ElfBuilder, FUNC, GLOBAL};
    use super::*;

    /// A library with headers at 0 and code at 0x11000, which is at offset 0x1000 of the file.
    fn library(kind: u16) -> ImageFile {
        let code = vec![(0, 0x1000, vec![1; 0xf00]), (0x1_1000, 0x1000, (0..0x40).collect())];
        let symbols = vec![("f", 0x1_1010, 0x10, GLOBAL | FUNC, 2)];
        let mut bytes = ElfBuilder { kind, code, symbols, ..ElfBuilder::default() }.build();
        // The second segment is moved to the offset that the builder does not give it: the one of its page.
        let at = u64::from_le_bytes(*bytes[64 + 56 + 8..].first_chunk().unwrap()) as usize;
        bytes.splice(at..at, vec![0; 0x1000 - at]);
        bytes[64 + 56 + 8..64 + 56 + 16].copy_from_slice(&0x1000_u64.to_le_bytes());
        // The first one starts with the file, as that of a Linux program does.
        bytes[64 + 8..64 + 16].fill(0);
        let sections = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap()) + (0x1000 - at) as u64;
        bytes[40..48].copy_from_slice(&sections.to_le_bytes());
        for section in 2..6 {
            let field = sections as usize + section * 64 + 24;
            let offset = u64::from_le_bytes(*bytes[field..].first_chunk().unwrap()) + (0x1000 - at) as u64;
            bytes[field..field + 8].copy_from_slice(&offset.to_le_bytes());
        }
        ImageFile::new("lib.so", bytes.into(), None)
    }

    fn ranges(code: &Code) -> Vec<(u64, usize)> {
        code.regions.iter().map(|region| (region.address, region.bytes.len())).collect()
    }

    #[test]
    fn a_program_with_a_base_or_in_part() {
        let part = |address, length, offset| Placement::Part { address, length, offset };
        let base = 0x7f_0000_0000;
        let (whole, linked) = (vec![(base, 0xf00), (base + 0x1_1000, 0x40)], vec![(0, 0xf00), (0x1_1000, 0x40)]);
        let size = library(3).bytes.len();
        // The kind of file (3 is position-independent), its placement, its memory and the address of `f`.
        let rows = [
            (3, Placement::Base(base), whole, Some(base + 0x1_1010)),
            (2, Placement::Base(base), linked, Some(0x1_1010)),
            (3, part(base, 0x1000, 0x1000), vec![(base, size - 0x1000)], Some(base + 0x10)),
            (3, part(base, 0x20, 0x1000), vec![(base, 0x20)], Some(base + 0x10)),
            // A part that starts before the segment, in its page.
            (3, part(base, 0x1000, 0), vec![(base, 0x1000)], Some(base + 0x1_1010)),
            (3, part(base, 0x2000, 0), vec![(base, size)], Some(base + 0x1_1010)),
            (2, part(0x1_1000, 0x1000, 0x1000), vec![(0x1_1000, size - 0x1000)], Some(0x1_1010)),
        ];
        for (kind, placement, expected, f) in rows {
            let (code, notes) = library(kind).place(placement);
            assert_eq!((ranges(&code), notes.len()), (expected, 0), "{placement:?}");
            assert_eq!(code.symbols.iter().next().map(|symbol| symbol.address), f, "{placement:?}");
        }
    }

    #[test]
    fn parts_that_the_file_does_not_have() {
        let rows = [
            (0x1000, 0x10_0000, "Truncated lib.so: has only 0x0 of the 0x1000 bytes at offset 0x100000"),
            (0x1_0000_0000, 0x1000, "Truncated lib.so: has only"),
            (0x20, 0x1040, "Unplaced lib.so: has no segment in the part that was mapped, so it is not known where"),
        ];
        for (length, offset, expected) in rows {
            let (code, notes) = library(3).place(Placement::Part { address: 0x1000, length, offset });
            let note = format!("{:?} {}", notes[0].kind, notes[0]);
            assert!(note.starts_with(expected), "{note}");
            assert_eq!(code.symbols.is_empty(), offset != 0x1000, "{offset:#x}");
        }
    }

    #[test]
    fn a_file_that_is_not_elf_is_a_dump() {
        let file = ImageFile::new("dump", b"0123456789".to_vec().into(), None);
        let (code, _) = file.place(Placement::Part { address: 0x1000, length: 4, offset: 2 });
        assert_eq!(
            (&code.regions[0].bytes[..], code.to_string().as_str()),
            (&b"2345"[..], "dump: dump, 0x1000-0x1003")
        );
        assert_eq!(ranges(&file.place(Placement::Base(0x20)).0), [(0x20, 10)]);
    }

    #[test]
    fn a_kernel_is_placed_by_a_symbol() {
        let (code, _) = library(2).place_by_symbol("f", 0xffff_8000_0000_1010).unwrap();
        assert_eq!(ranges(&code)[1], (0xffff_8000_0000_1000, 0x40));
        assert_eq!(code.symbols.find(0xffff_8000_0000_1014), Some(("f", 4)));
        assert!(library(2).place_by_symbol("ff", 0).is_none());
    }

    #[test]
    fn names_of_modules() {
        let rows = [
            ("[rq_stats]", "rq_stats"),
            ("/lib/modules/6.1/kernel/fs/a-b.ko", "a_b"),
            ("a-b.ko.xz", "a_b"),
            ("[kernel.kallsyms]", "kernel.kallsyms"),
            ("", ""),
        ];
        rows.iter().for_each(|(image, name)| assert_eq!(module_name(image), *name, "{image}"));
    }

    proptest! {
        #[test]
        fn any_placement(address: u64, length: u64, offset in prop_oneof![any::<u64>(), 0_u64..0x2000], base: bool) {
            let placement = if base { Placement::Base(address) } else { Placement::Part { address, length, offset } };
            let (code, _) = library(3).place(placement);
            for region in &code.regions {
                prop_assert!(region.address.checked_add(region.bytes.len() as u64 - 1).is_some());
                prop_assert!(base || region.address == address && region.bytes.len() as u64 <= length);
            }
        }
    }
}
