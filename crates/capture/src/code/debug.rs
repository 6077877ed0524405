//! Sections of an ELF file by name, and which parts of its code are data.
//!
//! bytes of an ELF file ─▶ **debug** ─▶ contents of sections, decompressed; mapping symbols
//!
//! Does not interpret debug information. A section that is truncated, or that grows beyond the limit when it is
//! decompressed, is absent.

use std::io::Read;

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{CompressionHeader, FileHeader, SectionHeader, Sym};

use super::elf::{CLASS, Reader, is_elf};
use super::{Bytes, Machine};

/// Offset of the byte order: 2 is big-endian.
const BYTE_ORDER: usize = 5;

/// Maximum size of a section that is compressed in the file.
const INFLATED_LIMIT: u64 = 2 << 30;

/// Maximum number of mapping symbols, which is that of all symbols.
const MARKER_LIMIT: usize = 16 << 20;

/// The sections of an ELF file.
#[derive(Debug, Clone)]
pub struct ElfSections {
    file: Bytes,
}

/// The first address of a part of the code that has one kind of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeMarker {
    /// Link address.
    pub address: u64,
    /// The contents up to the next marker.
    pub kind: CodeKind,
}

/// Contents of a part of the code, by its mapping symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeKind {
    /// A64 or RISC-V instructions (`$x`).
    Code,
    /// A32 instructions (`$a`).
    A32,
    /// T32 instructions (`$t`).
    T32,
    /// Data, such as a literal pool (`$d`).
    Data,
}

impl ElfSections {
    /// The sections of a file; `None` if it is not an ELF file.
    pub fn new(file: &Bytes) -> Option<Self> {
        is_elf(file).then(|| Self { file: file.clone() })
    }

    /// The contents of the first section with this name, without compression.
    pub fn section(&self, name: &str) -> Option<Bytes> {
        match self.file.get(CLASS) {
            Some(1) => Reader::<FileHeader32<Endianness>>::new(&self.file).ok()?.section(name),
            Some(2) => Reader::<FileHeader64<Endianness>>::new(&self.file).ok()?.section(name),
            _ => None,
        }
    }

    /// Whether data of the file is big-endian.
    pub fn is_big_endian(&self) -> bool {
        self.file.get(BYTE_ORDER) == Some(&2)
    }

    /// The mapping symbols of the file, sorted by address, each address once. Empty if the file was stripped.
    pub fn markers(&self) -> Vec<CodeMarker> {
        let mut markers = match self.file.get(CLASS) {
            Some(1) => Reader::<FileHeader32<Endianness>>::new(&self.file).map(|reader| reader.markers()),
            Some(2) => Reader::<FileHeader64<Endianness>>::new(&self.file).map(|reader| reader.markers()),
            _ => return Vec::new(),
        }
        .unwrap_or_default();
        markers.sort_unstable();
        // Of several markers at one address, the last one has contents: the others are of empty sections.
        markers.dedup_by_key(|marker| marker.address);
        markers
    }
}

impl<H: FileHeader<Endian = Endianness>> Reader<'_, H> {
    fn section(&self, name: &str) -> Option<Bytes> {
        let wanted: Vec<u8> = name.bytes().chain([0]).collect();
        let section = self.sections.iter().find(|section| self.is_named(section, &wanted))?;
        match section.compression(self.endian, self.bytes).ok()? {
            None => {
                let (offset, size) = section.file_range(self.endian)?;
                let bytes = self.file.part(offset, size);
                (bytes.len() as u64 == size).then_some(bytes)
            }
            Some((header, offset, size)) => {
                let expected = header.ch_size(self.endian).into();
                inflated(&self.file.part(offset, size), header.ch_type(self.endian), expected).map(Bytes::from)
            }
        }
    }

    fn markers(&self) -> Vec<CodeMarker> {
        let Ok(table) = self.sections.symbols(self.endian, self.bytes, elf::SHT_SYMTAB) else { return Vec::new() };
        let strings = self.sections.section(table.string_section()).ok().and_then(|it| it.file_range(self.endian));
        let Some((strings, _)) = strings else { return Vec::new() };
        let is_riscv = matches!(self.machine(), Machine::RiscV32 | Machine::RiscV64);
        let marker = |symbol: &H::Sym| {
            let at = strings.checked_add(symbol.st_name(self.endian).into())?;
            let name = self.bytes.get(usize::try_from(at).ok()?..)?;
            let kind = kind_of(name, is_riscv).filter(|_| symbol.st_type() == elf::STT_NOTYPE)?;
            Some(CodeMarker { address: symbol.st_value(self.endian).into(), kind })
        };
        table.iter().filter_map(marker).take(MARKER_LIMIT).collect()
    }
}

/// The kind of a mapping symbol, if the name is one: `$x`, `$d.7`, and `$xrv64gc` of RISC-V.
fn kind_of(name: &[u8], is_riscv: bool) -> Option<CodeKind> {
    let kind = match name.get(..2)? {
        b"$x" => CodeKind::Code,
        b"$a" => CodeKind::A32,
        b"$t" => CodeKind::T32,
        b"$d" => CodeKind::Data,
        _ => return None,
    };
    let ends = matches!(name.get(2)?, 0 | b'.') || is_riscv && kind == CodeKind::Code;
    ends.then_some(kind)
}

fn inflated(bytes: &[u8], kind: elf::CompressionType, expected: u64) -> Option<Vec<u8>> {
    if expected > INFLATED_LIMIT {
        return None;
    }
    let mut contents = Vec::new();
    match kind {
        elf::ELFCOMPRESS_ZLIB => {
            flate2::read::ZlibDecoder::new(bytes).take(expected).read_to_end(&mut contents).ok()?
        }
        elf::ELFCOMPRESS_ZSTD => {
            zstd::stream::read::Decoder::new(bytes).ok()?.take(expected).read_to_end(&mut contents).ok()?
        }
        _ => return None,
    };
    (contents.len() as u64 == expected).then_some(contents)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::super::elf_builder::{ElfBuilder, FUNC, GLOBAL};
    use super::*;

    fn file(symbols: &[(&'static str, u64)]) -> ElfSections {
        let code = vec![(0x1000, 0x1000, vec![0; 0x40])];
        let mut listed = vec![("f", 0x1000, 0x40, GLOBAL | FUNC, 1)];
        listed.extend(symbols.iter().map(|(name, address)| (*name, *address, 0, 0, 1)));
        let bytes = ElfBuilder { code, symbols: listed, ..ElfBuilder::default() }.build();
        ElfSections::new(&bytes.into()).unwrap()
    }

    /// Names as in "ELF for the Arm 64-bit Architecture", heading "Mapping symbols".
    #[test]
    fn mapping_symbols_are_markers() {
        let found = file(&[("$d.1", 0x1010), ("$x", 0x1000), ("$data", 0x1020), ("$x.2", 0x1018)]).markers();
        let expected = [(0x1000, CodeKind::Code), (0x1010, CodeKind::Data), (0x1018, CodeKind::Code)];
        assert_eq!(found, expected.map(|(address, kind)| CodeMarker { address, kind }));
    }

    #[test]
    fn names_of_mapping_symbols() {
        let rows: [(&[u8], bool, Option<CodeKind>); 8] = [
            (b"$a\0", false, Some(CodeKind::A32)),
            (b"$t.x\0", false, Some(CodeKind::T32)),
            (b"$xrv64gc\0", true, Some(CodeKind::Code)),
            (b"$xrv64gc\0", false, None),
            (b"$data\0", false, None),
            (b"$d", false, None),
            (b"", false, None),
            (b"main\0", false, None),
        ];
        for (name, is_riscv, expected) in rows {
            assert_eq!(kind_of(name, is_riscv), expected, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn compressed_contents() {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&[7; 1000]).unwrap();
        let zlib = zlib.finish().unwrap();
        let zstd = zstd::bulk::compress(&[7; 1000], 1).unwrap();
        let rows: [(&str, &[u8], _, u64, Option<usize>); 6] = [
            ("zlib", &zlib, elf::ELFCOMPRESS_ZLIB, 1000, Some(1000)),
            ("zstd", &zstd, elf::ELFCOMPRESS_ZSTD, 1000, Some(1000)),
            ("shorter than the header says", &zlib, elf::ELFCOMPRESS_ZLIB, 1001, None),
            ("too large", &zlib, elf::ELFCOMPRESS_ZLIB, u64::MAX, None),
            ("damaged", &zlib[..4], elf::ELFCOMPRESS_ZLIB, 1000, None),
            ("unknown", &zlib, elf::CompressionType(77), 1000, None),
        ];
        for (name, bytes, kind, size, expected) in rows {
            assert_eq!(inflated(bytes, kind, size).map(|contents| contents.len()), expected, "{name}");
        }
    }

    #[test]
    fn sections_that_do_not_exist() {
        assert!(file(&[]).section(".debug_info").is_none());
        assert!(ElfSections::new(&b"no ELF".to_vec().into()).is_none());
        let named = ElfBuilder { names: vec![".debug_info"], ..ElfBuilder::default() }.build();
        let section = ElfSections::new(&named.into()).unwrap().section(".debug_info");
        assert_eq!(section.map(|bytes| bytes.to_vec()), Some((0..0x40).collect()));
    }
}
