//! `/proc/kcore` and copies of it: the memory of a running kernel as an ELF core file.
//!
//! core file with program headers at virtual addresses, ranges of code ─▶ **kcore** ─▶ [`Code`]
//!
//! The file is as large as the address space of the kernel and mostly absent, so only the headers are read when it is
//! opened, and only the wanted ranges later, up to a limit. Which ranges have code is not in the file; the list of symbols has it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use super::kallsyms::Kallsyms;
use super::lines::NoteList;
use super::{Bytes, Code, Machine, Region, Spaces};
use crate::error::Error;
use crate::note::{Note, NoteKind};

/// Maximum size of the headers.
const HEADER_LIMIT: u64 = 8 << 20;

/// Maximum number of segments.
const SEGMENT_LIMIT: usize = 16 << 10;

/// The memory of a kernel: an ELF core file that is read where it is needed.
#[derive(Debug)]
pub struct Kcore<F = File> {
    name: String,
    file: F,
    machine: Machine,
    big_endian: bool,
    segments: Vec<CoreSegment>,
}

/// Memory that the file has.
#[derive(Debug, Clone, Copy)]
struct CoreSegment {
    address: u64,
    offset: u64,
    size: u64,
}

impl Kcore {
    /// The maximum number of bytes that users should need: the text of a kernel with modules has less than a tenth of it.
    pub const DEFAULT_LIMIT: u64 = 1 << 30;

    /// Opens a file and reads its headers.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not an ELF core file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = File::open(path).map_err(Error::io(path))?;
        Self::new(&path.to_string_lossy(), file)
    }
}

impl<F: Read + Seek> Kcore<F> {
    /// Reads the headers of a file with this name.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not an ELF core file.
    pub fn new(name: &str, mut file: F) -> Result<Self, Error> {
        let unusable = |reason: &str| Error::Unusable { name: name.to_string(), reason: reason.to_string() };
        let start = read_start(&mut file, 64).map_err(Error::io(name))?;
        let size = headers_size(&start).ok_or_else(|| unusable("not an ELF core file"))?;
        if size > HEADER_LIMIT {
            return Err(unusable("its program headers are not at its start"));
        }
        let headers = read_start(&mut file, size).map_err(Error::io(name))?;
        let parsed = match headers.get(4) {
            Some(1) => segments::<FileHeader32<Endianness>>(&headers),
            _ => segments::<FileHeader64<Endianness>>(&headers),
        };
        let (machine, big_endian, segments) = parsed.ok_or_else(|| unusable("ends before its program headers"))?;
        Ok(Self { name: name.to_string(), file, machine, big_endian, segments })
    }

    /// The address and size of each part of memory that the file has.
    pub fn segments(&self) -> impl Iterator<Item = (u64, u64)> {
        self.segments.iter().map(|segment| (segment.address, segment.size))
    }

    /// The code of the kernel that wrote this list of symbols, with their names. At most `limit` bytes are read.
    pub fn code(&mut self, symbols: &Kallsyms, limit: u64) -> (Code, Vec<Note>) {
        let (code, notes) = self.read(&symbols.text_ranges(), limit);
        (Code { symbols: symbols.symbols(), ..code }, notes)
    }

    /// The memory in these ranges. At most `limit` bytes are read.
    pub fn read(&mut self, ranges: &[Range<u64>], limit: u64) -> (Code, Vec<Note>) {
        let mut wanted = Vec::new();
        for range in ranges {
            wanted.extend(self.segments.iter().filter_map(|segment| segment.part(range)));
        }
        self.load(&wanted, limit)
    }

    /// All memory, for when no list of symbols is at hand: the smallest segments first, as many as the limit allows,
    /// since the code of a kernel is in small segments, and all of the machine's memory in large ones.
    pub fn read_all(&mut self, limit: u64) -> (Code, Vec<Note>) {
        let mut wanted = self.segments.clone();
        wanted.sort_by_key(|segment| segment.size);
        let mut left = limit;
        let fits = |segment: &CoreSegment| {
            let rest = left.checked_sub(segment.size);
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let (mut fitting, rest): (Vec<_>, Vec<_>) = wanted.into_iter().partition(fits);
        fitting.sort_by_key(|segment| segment.address);
        let (code, mut notes) = self.load(&fitting, limit);
        let mut omitted = NoteList::new(&self.name);
        for segment in rest {
            let text = || format!("the {:#x} bytes at {:#x} are too large to read", segment.size, segment.address);
            omitted.add(0, NoteKind::TooMany, text);
        }
        notes.extend(omitted.finish());
        (code, notes)
    }

    fn load(&mut self, wanted: &[CoreSegment], limit: u64) -> (Code, Vec<Note>) {
        let name = self.name.clone();
        let (mut notes, mut regions, mut left) = (NoteList::new(&name), Vec::new(), limit);
        for segment in wanted {
            let size = segment.size.min(left);
            if size < segment.size {
                let text =
                    || format!("only {limit:#x} bytes are read; those from {:#x} on are not", segment.address + size);
                notes.add(0, NoteKind::TooMany, text);
            }
            let bytes = self.bytes(segment.offset, size).unwrap_or_else(|error| {
                let text = || format!("the memory at {:#x} cannot be read: {error}", segment.address);
                notes.add(0, NoteKind::Unreadable, text);
                Vec::new()
            });
            if (bytes.len() as u64) < size {
                let text = || format!("has only {:#x} of the {size:#x} bytes at {:#x}", bytes.len(), segment.address);
                notes.add(0, NoteKind::Truncated, text);
            }
            left -= size;
            regions.extend(Region::new(segment.address, &Bytes::from(bytes), Spaces::ANY));
        }
        let (machine, big_endian) = (Some(self.machine), self.big_endian);
        (Code { name: name.clone(), raw: true, regions, machine, big_endian, ..Code::default() }, notes.finish())
    }

    fn bytes(&mut self, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(offset))?;
        (&mut self.file).take(size).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl CoreSegment {
    /// The part of the segment in a range.
    fn part(&self, range: &Range<u64>) -> Option<Self> {
        let start = range.start.max(self.address);
        let end = range.end.min(self.address.saturating_add(self.size));
        let size = end.checked_sub(start).filter(|size| *size > 0)?;
        let offset = self.offset.checked_add(start - self.address)?;
        Some(Self { address: start, offset, size })
    }
}

fn read_start(file: &mut (impl Read + Seek), size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The size of the headers of a core file; `None` if it is none.
fn headers_size(start: &[u8]) -> Option<u64> {
    fn of<H: FileHeader<Endian = Endianness>>(start: &[u8]) -> Option<u64> {
        let header = H::parse(start).ok()?;
        let endian = header.endian().ok()?;
        let size = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
        let offset: u64 = header.e_phoff(endian).into();
        (header.e_type(endian) == elf::ET_CORE).then_some(offset.saturating_add(size))
    }
    match start.get(4)? {
        1 => of::<FileHeader32<Endianness>>(start),
        2 => of::<FileHeader64<Endianness>>(start),
        _ => None,
    }
}

fn segments<H: FileHeader<Endian = Endianness>>(headers: &[u8]) -> Option<(Machine, bool, Vec<CoreSegment>)> {
    let header = H::parse(headers).ok()?;
    let endian = header.endian().ok()?;
    let found = header.program_headers(endian, headers).ok()?.iter();
    let loaded = found.filter(|header| header.p_type(endian) == elf::PT_LOAD).map(|header| CoreSegment {
        address: header.p_vaddr(endian).into(),
        offset: header.p_offset(endian).into(),
        size: header.p_filesz(endian).into(),
    });
    let segments = loaded.filter(|segment| segment.size > 0).take(SEGMENT_LIMIT).collect();
    let machine = Machine::from_elf(header.e_machine(endian).0, header.is_class_64());
    Some((machine, endian == Endianness::Big, segments))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::super::elf_builder::ElfBuilder;
    use super::*;

    const TEXT: u64 = 0xffff_8000_0801_0000;
    const MODULE: u64 = 0xffff_8000_0100_0000;

    /// A core file with the text of a kernel (its bytes count up) and of a module.
    fn core(big: bool) -> Vec<u8> {
        let code = vec![(MODULE, 1, vec![0x55; 0x20]), (TEXT - 0x10, 1, (0..0x60).collect())];
        ElfBuilder { kind: 4, big, code, symbols: vec![], ..ElfBuilder::default() }.build()
    }

    fn list() -> Kallsyms {
        let text = format!("{TEXT:x} T _stext\n{:x} D _etext\n{MODULE:x} t m\t[mod]\n", TEXT + 0x20);
        Kallsyms::parse("kallsyms", text.into())
    }

    fn ranges(code: &Code) -> Vec<(u64, usize, u8)> {
        code.regions.iter().map(|region| (region.address, region.bytes.len(), region.bytes[0])).collect()
    }

    #[test]
    fn only_code_is_read() {
        for big in [false, true] {
            let mut kcore = Kcore::new("kcore", Cursor::new(core(big))).unwrap();
            assert_eq!(kcore.segments().collect::<Vec<_>>(), [(MODULE, 0x20), (TEXT - 0x10, 0x60)]);
            let (code, notes) = kcore.code(&list(), 0x1000);
            assert_eq!((ranges(&code), notes), (vec![(MODULE, 0x20, 0x55), (TEXT, 0x20, 0x10)], vec![]));
            assert_eq!((code.symbols.find(TEXT + 4), code.machine), (Some(("_stext", 4)), Some(Machine::AArch64)));
            assert_eq!(code.big_endian, big);
            let (code, notes) = kcore.read_all(0x1000);
            assert_eq!((ranges(&code), notes), (vec![(MODULE, 0x20, 0x55), (TEXT - 0x10, 0x60, 0)], vec![]));
        }
    }

    #[test]
    fn limits_and_truncation_are_noted() {
        let mut kcore = Kcore::new("kcore", Cursor::new(core(false))).unwrap();
        let (code, notes) = kcore.code(&list(), 0x30);
        assert_eq!(ranges(&code), [(MODULE, 0x20, 0x55), (TEXT, 0x10, 0x10)]);
        let text = format!("kcore: only 0x30 bytes are read; those from {:#x} on are not", TEXT + 0x10);
        assert_eq!(notes.iter().map(ToString::to_string).collect::<Vec<_>>(), [text]);
        let (code, notes) = kcore.read_all(0x30);
        assert_eq!((ranges(&code), notes.len()), (vec![(MODULE, 0x20, 0x55)], 1));
        assert_eq!(notes[0].to_string(), format!("kcore: the 0x60 bytes at {:#x} are too large to read", TEXT - 0x10));
        let mut bytes = core(false);
        bytes.truncate(64 + 3 * 56 + 0x28);
        let (code, notes) = Kcore::new("kcore", Cursor::new(bytes)).unwrap().read_all(0x1000);
        assert_eq!(ranges(&code), [(MODULE, 0x20, 0x55), (TEXT - 0x10, 8, 0)]);
        assert_eq!(notes[0].to_string(), format!("kcore: has only 0x8 of the 0x60 bytes at {:#x}", TEXT - 0x10));
    }

    #[test]
    fn a_sparse_file_of_terabytes_is_read_in_part() {
        let mut bytes = core(false);
        // The second segment starts at 4 TiB in the file and has 64 TiB.
        let header = 64 + 56;
        bytes[header + 8..header + 16].copy_from_slice(&(4_u64 << 40).to_le_bytes());
        bytes[header + 32..header + 40].copy_from_slice(&(64_u64 << 40).to_le_bytes());
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &bytes).unwrap();
        file.set_len(8 << 40).unwrap();
        let (code, notes) = Kcore::new("kcore", file).unwrap().code(&list(), Kcore::DEFAULT_LIMIT);
        assert_eq!((ranges(&code), notes), (vec![(MODULE, 0x20, 0x55), (TEXT, 0x20, 0)], vec![]));
    }

    #[test]
    fn other_files_are_refused() {
        let program = ElfBuilder::default().build();
        let cut = core(false)[..100].to_vec();
        let rows: [(&[u8], &str); 4] = [
            (b"", "kcore: not an ELF core file"),
            (b"\x7fELF", "kcore: not an ELF core file"),
            (&program, "kcore: not an ELF core file"),
            (&cut, "kcore: ends before its program headers"),
        ];
        for (bytes, expected) in rows {
            let error = Kcore::new("kcore", Cursor::new(bytes)).map(drop).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn damaged(damage in prop::collection::vec((0_usize..400, any::<u8>()), 0..12), end in 0_usize..500, limit in 0_u64..0x200) {
            let mut bytes = core(false);
            for (at, value) in damage {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            bytes.truncate(end);
            if let Ok(mut kcore) = Kcore::new("kcore", Cursor::new(bytes)) {
                let all = [0..TEXT, TEXT..u64::MAX];
                for code in [kcore.code(&list(), limit).0, kcore.read_all(limit).0, kcore.read(&all, limit).0] {
                    prop_assert!(code.regions.iter().map(|region| region.bytes.len() as u64).sum::<u64>() <= limit);
                }
            }
        }
    }
}
