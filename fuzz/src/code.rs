//! Program images: any bytes are code or are refused, regions are in memory, and symbols contain their addresses.
//!
//! Input: byte 0 selects. Bits 0 and 1: there is no address, or eight bytes with the address follow, or a capture lists the
//! file in two ways. Bit 2: the rest is the file; otherwise it changes an ELF file of our own, selected by bits 3 and 4. Three
//! bytes per change: an offset and the number to add.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use unspool_coresight::Security;

use unspool::Program;
use unspool::flow::{CodeMemory, Space};
use unspool_capture::{Capture, Code, Error, Note, Region};

use crate::setup::byte;
use crate::walk::scratch;

/// Maximum length of a name: names are cut after 16 KiB, and a character has at most four bytes.
const LONGEST_NAME: usize = (16 << 10) + 4;
/// Maximum number of symbols that are compared.
const MAX_SYMBOLS: usize = 256;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let how = byte(&mut data);
    let word = |data: &mut &[u8]| u64::from_le_bytes(std::array::from_fn(|_| byte(data)));
    let address = (how & 3 != 0).then(|| word(&mut data));
    let file = if how & 4 != 0 { data.to_vec() } else { changed(ours(how >> 3 & 3), data) };
    let folder = folder();
    fs::write(folder.join("image"), &file).expect("a file");
    if how & 2 != 0 {
        check_capture(folder, &file, address.unwrap_or(0));
    } else {
        check_file(&folder.join("image"), &file, address);
    }
}

/// A file alone is code, or refused with a reason.
fn check_file(path: &Path, file: &[u8], address: Option<u64>) {
    match Code::from_file(path, address) {
        Ok((code, notes)) => {
            check_notes(&notes);
            check_code(&code, file);
            // An empty file needs no reason.
            let explained = file.is_empty() || !notes.is_empty();
            assert!(!code.regions.is_empty() || explained, "{code} has no memory, and no note explains it");
            if let (true, Some(address)) = (code.raw, address) {
                assert!(code.regions.iter().all(|region| region.address == address), "{code} is not at {address:#x}");
            }
            check_reading(&Program::new(vec![code]));
        }
        Err(error) => {
            assert!(address.is_none() && matches!(error, Error::Unusable { .. }), "{error} for a file at {address:x?}");
        }
    }
}

/// The same file in a capture, as a program and as part of a dump.
fn check_capture(folder: &Path, file: &[u8], address: u64) {
    let (offset, length) = (address >> 4 & 0xff, address >> 12 & 0xfff);
    let dump = format!("[dump2]\nfile=image\naddress={address:#x}\noffset={offset}\nlength={length}\nspace=EL1N\n");
    let core = format!("[device]\nname=C\nclass=core\ntype=Cortex-A53\n[dump1]\nfile=image\n{dump}");
    fs::write(folder.join("snapshot.ini"), "[device_list]\nc=c.ini\n").expect("a file");
    fs::write(folder.join("c.ini"), core).expect("a file");
    let capture = Capture::open(folder).expect("a capture of our own");
    let loaded = capture.code(Some(0));
    check_notes(&loaded.notes);
    loaded.codes.iter().for_each(|code| check_code(code, file));
    assert!(loaded.codes.len() <= 2, "more code than images");
    assert!(loaded.codes.iter().all(|code| !code.regions.is_empty()), "code without memory is none");
    if let Some(dump) = loaded.codes.iter().find(|code| code.raw) {
        let part = &file[(offset as usize).min(file.len())..];
        let [Region { bytes, .. }] = &dump.regions[..] else { panic!("a dump is one region: {dump}") };
        assert!(part[..part.len().min(length as usize)].starts_with(bytes), "{dump} is not the part that is listed");
    }
    let program = Program::new(loaded.codes);
    check_reading(&program);
}

fn check_notes(notes: &[Note]) {
    notes.iter().for_each(|note| assert!(!note.to_string().is_empty()));
    assert!(notes.len() < 100, "{} notes about one file", notes.len());
}

fn check_code(code: &Code, file: &[u8]) {
    assert!(!code.to_string().is_empty());
    assert!(code.build_id.as_ref().is_none_or(|id| (1..=64).contains(&id.len())), "{code}");
    assert!(code.big_endian || !code.big_endian_code, "{code}");
    assert!(code.regions.len() <= file.len() / 4 + 1, "{} regions from {} bytes", code.regions.len(), file.len());
    code.regions.iter().for_each(|region| check_region(region, file));
    check_symbols(code, file);
}

/// A region is in memory, and its bytes are in the file.
pub(crate) fn check_region(region: &Region, file: &[u8]) {
    let length = region.bytes.len() as u64;
    assert!(length > 0 && length <= file.len() as u64, "{region:?} of {} bytes", file.len());
    assert_eq!(region.address.checked_add(length - 1), Some(region.last()), "{region:?} leaves memory");
    assert_eq!(region.starting_at(region.address), Some(&region.bytes[..]));
    assert_eq!(region.starting_at(region.last()).map(<[u8]>::len), Some(1));
    let outside = [region.address.checked_sub(1), region.last().checked_add(1)];
    assert!(outside.iter().flatten().all(|&address| region.starting_at(address).is_none()), "{region:?}");
}

/// The first byte of a symbol belongs to it, the last one to it or to a symbol that starts later.
pub(crate) fn check_symbols(code: &Code, file: &[u8]) {
    assert_eq!(code.symbols.iter().count(), code.symbols.len());
    assert!(code.symbols.len() <= file.len() / 16, "{} symbols from {} bytes", code.symbols.len(), file.len());
    for symbol in code.symbols.iter().take(MAX_SYMBOLS) {
        assert!(symbol.name.len() <= LONGEST_NAME && symbol.size > 0, "{symbol:?}");
        assert_eq!(code.symbols.find(symbol.address), Some((symbol.name, 0)), "{symbol:?}");
        let last = code.symbols.find(symbol.address.wrapping_add(symbol.size - 1));
        assert!(last.is_some_and(|(_, offset)| offset < symbol.size), "{symbol:?} ends in {last:?}");
    }
}

/// All regions of a program can be read; where images overlap, the bytes of the first one, or none if they differ.
fn check_reading(program: &Program) {
    let space = Space::new(Security::NonSecure, 1);
    let regions = || program.codes().iter().flat_map(|code| &code.regions);
    for region in regions() {
        for address in [region.address, region.last(), region.address + (region.last() - region.address) / 2] {
            let first = regions().find_map(|region| region.starting_at(address)).unwrap_or_default();
            let read = program.read(address, space, &mut []);
            let is_known = !read.is_empty() || program.is_ambiguous(address, space);
            assert!(is_known && first.starts_with(read), "{address:#x} is read as {} bytes", read.len());
        }
    }
}

fn folder() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| scratch("code"))
}

/// A file with bytes changed: three bytes per change, an offset and the number to add.
pub(crate) fn changed(mut file: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        match file.get_mut(at) {
            Some(byte) => *byte = byte.wrapping_add(change[2]),
            // An offset after the end truncates the file instead.
            None => file.truncate(at - file.len()),
        }
    }
    file
}

/// An ELF file with code, symbols and a build-id: 64-bit or 32-bit, little-endian or big-endian.
pub fn ours(which: u8) -> Vec<u8> {
    let (wide, big) = (which & 1 == 0, which & 2 != 0);
    let mut out = Out { wide, big, bytes: Vec::new() };
    let (header, program, section) = if wide { (64, 56, 64) } else { (52, 32, 40) };
    let code_at = header + 2 * program;
    let note_at = code_at + 0x40;
    let symbols_at = note_at + 0x18;
    let names_at = symbols_at + 4 * if wide { 24 } else { 16 };
    let sections_at = names_at + 0x18;
    out.bytes.extend([0x7f, b'E', b'L', b'F', 1 + u8::from(wide), 1 + u8::from(big), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.halves(&[2, if wide { 183 } else { 40 }]);
    out.words(&[1]);
    out.longs(&[0x40_0000, header, sections_at]);
    out.words(&[0]);
    out.halves(&[header as u16, program as u16, 2, section as u16, 5, 0]);
    for (kind, offset, address, size) in [(1, code_at, 0x40_0000, 0x40), (4, note_at, 0, 0x18)] {
        out.segment(kind, offset, address, size);
    }
    out.bytes.extend(0..0x40);
    out.words(&[4, 8, 3]);
    out.bytes.extend(b"GNU\0buildid!");
    out.symbol(0, 0, 0, 0, 0);
    out.symbol(1, 0x40_0000, 0x20, 0x12, 1);
    out.symbol(6, 0x40_0010, 8, 2, 1);
    out.symbol(12, 0x40_0030, 0, 0, 1);
    out.bytes.extend(b"\0main\0inner\0label\0\0\0\0\0\0\0");
    let strings = (3, 0, 0, names_at, 0x18, 0, 0);
    let table = (2, 0, 0, symbols_at, names_at - symbols_at, 4, if wide { 24 } else { 16 });
    let code = (1, 6, 0x40_0000, code_at, 0x40, 0, 0);
    for (kind, flags, address, offset, size, link, entry) in
        [(0, 0, 0, 0, 0, 0, 0), code, (7, 0, 0, note_at, 0x18, 0, 0), table, strings]
    {
        out.words(&[0, kind]);
        out.longs(&[flags, address, offset, size]);
        out.words(&[link, 0]);
        out.longs(&[1, entry]);
    }
    out.bytes
}

/// Numbers in the order and width of the file.
struct Out {
    wide: bool,
    big: bool,
    bytes: Vec<u8>,
}

impl Out {
    fn halves(&mut self, values: &[u16]) {
        let big = self.big;
        self.bytes.extend(values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }));
    }

    fn words(&mut self, values: &[u32]) {
        let big = self.big;
        self.bytes.extend(values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }));
    }

    /// Numbers as wide as an address.
    fn longs(&mut self, values: &[u64]) {
        for value in values {
            match (self.wide, self.big) {
                (false, _) => self.words(&[*value as u32]),
                (true, true) => self.bytes.extend(value.to_be_bytes()),
                (true, false) => self.bytes.extend(value.to_le_bytes()),
            }
        }
    }

    fn segment(&mut self, kind: u32, offset: u64, address: u64, size: u64) {
        self.words(&[kind, 5][..if self.wide { 2 } else { 1 }]);
        self.longs(&[offset, address, address, size, size]);
        self.words(if self.wide { &[] } else { &[5] });
        self.longs(&[if kind == 1 { 0x1000 } else { 4 }]);
    }

    fn symbol(&mut self, name: u32, value: u64, size: u64, info: u8, section: u16) {
        self.words(&[name]);
        if !self.wide {
            self.longs(&[value, size]);
        }
        self.bytes.extend([info, 0]);
        self.halves(&[section]);
        if self.wide {
            self.longs(&[value, size]);
        }
    }
}
