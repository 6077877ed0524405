//! Names without code: the symbols of a file for memory whose contents come from elsewhere.
//!
//! ELF file (a separate file with symbols, too), list of kernel symbols, or perf map ─▶ **names** ─▶ [`Code`] without memory
//!
//! The kind of a text is recognized by its lines: kallsyms has a letter where a perf map has a size.

use std::fs::File;
use std::path::Path;

use super::elf::{Elf, is_elf};
use super::image_file::ImageFile;
use super::kallsyms::Kallsyms;
use super::load::{BYTE_LIMIT, note, read};
use super::{Bytes, Code};
use crate::error::Error;
use crate::note::{Note, NoteKind};

/// Maximum number of lines that decide what a text is.
const LINES: usize = 100;

/// The kinds of text with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Kallsyms,
    PerfMap,
}

impl Code {
    /// The names in a file, and notes about problems in it.
    ///
    /// The symbols of an ELF file are those of a program as it was linked, or with its lowest page at `address`. Lists have
    /// the addresses of the machine that wrote them; `address` is added to them.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has no names.
    pub fn names_from_file(path: impl AsRef<Path>, address: Option<u64>) -> Result<(Self, Vec<Note>), Error> {
        let path = path.as_ref();
        let mut file = File::open(path).map_err(Error::io(path))?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let (bytes, cut) = read(&mut file, size, BYTE_LIMIT).map_err(Error::io(path))?;
        let name = path.to_string_lossy();
        let (code, notes) = names(&name, &bytes, address)?;
        let cut = cut.into_iter().map(|(kind, text)| note(&name, kind, &text));
        Ok((code, cut.chain(notes).collect()))
    }
}

pub(super) fn names(name: &str, bytes: &Bytes, address: Option<u64>) -> Result<(Code, Vec<Note>), Error> {
    if is_elf(bytes) {
        return names_of_elf(name, bytes, address);
    }
    let (code, notes) = match list_kind(bytes) {
        Some(List::Kallsyms) => {
            let list = Kallsyms::parse(name, bytes.to_vec());
            (list.code(name), list.notes)
        }
        Some(List::PerfMap) => Code::from_perf_map(name, bytes),
        None => return Err(unusable(name, "neither an ELF file nor a list of symbols (kallsyms, perf map)")),
    };
    Ok((code.moved(address.unwrap_or(0)), notes))
}

fn names_of_elf(name: &str, bytes: &Bytes, address: Option<u64>) -> Result<(Code, Vec<Note>), Error> {
    let elf = Elf::read(bytes).map_err(|(_, reason)| unusable(name, &reason))?;
    let (code, mut notes) = if elf.is_relocatable {
        ImageFile::new(name, bytes.clone(), None).place_module(address.unwrap_or(0), name, None)
    } else {
        let bias = address.map_or(0, |address| elf.bias_to(address));
        let is_unplaced = elf.is_dynamic && address.is_none();
        (Code { is_unplaced, ..elf.code(name, bias, Vec::new()) }, Vec::new())
    };
    if code.symbols.is_empty() {
        notes.push(note(name, NoteKind::MissingKey, "has no symbols"));
    }
    Ok((Code { regions: Vec::new(), ..code }, notes))
}

/// What most of the first lines are.
fn list_kind(text: &[u8]) -> Option<List> {
    let kinds: Vec<List> = text.split(|byte| *byte == b'\n').take(LINES).filter_map(line_kind).collect();
    let letters = kinds.iter().filter(|kind| **kind == List::Kallsyms).count();
    match kinds.len() {
        0 => None,
        all if letters * 2 > all => Some(List::Kallsyms),
        _ => Some(List::PerfMap),
    }
}

fn line_kind(line: &[u8]) -> Option<List> {
    let mut fields = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|field| !field.is_empty());
    let (address, second, _) = (fields.next()?, fields.next()?, fields.next()?);
    let is_hex = |field: &[u8]| {
        let digits = field.strip_prefix(b"0x").unwrap_or(field);
        !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)
    };
    match second {
        _ if !is_hex(address) => None,
        // A size of one digit that is a letter looks the same, but not on most lines.
        [letter] if letter.is_ascii_alphabetic() => Some(List::Kallsyms),
        second => is_hex(second).then_some(List::PerfMap),
    }
}

fn unusable(name: &str, reason: &str) -> Error {
    Error::Unusable { name: name.to_string(), reason: reason.to_string() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::elf_builder::ElfBuilder;
    use super::*;

    fn found(bytes: &[u8], address: Option<u64>) -> String {
        match names("file", &Bytes::from(bytes.to_vec()), address) {
            Ok((code, _)) => {
                assert!(code.regions.is_empty());
                let symbols = code.symbols.iter().map(|symbol| format!("{:x} {}", symbol.address, symbol.name));
                symbols.collect::<Vec<_>>().join(", ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn files_with_names() {
        let program = ElfBuilder::default().build();
        let module = ElfBuilder { kind: 1, segments: false, code: vec![(0, 4, vec![0; 64])], ..ElfBuilder::default() };
        let symbols = vec![("f", 0x10, 0x10, 0x12, 1)];
        let module = ElfBuilder { symbols, ..module }.build();
        let rows: [(&[u8], Option<u64>, &str); 10] = [
            (&program, None, "400010 main"),
            (&program, Some(0x7000_0000), "70000010 main"),
            (&module, Some(0x7000), "7010 f"),
            (b"10 T f\n20 t g\t[m]\n", None, "10 f, 20 g"),
            (b"10 T f\n20 t g\t[m]\n", Some(0x100), "110 f, 120 g"),
            (b"7f00 10 js:f x\n7f10 a g\n7f20 8 h\n", None, "7f00 js:f x, 7f10 g, 7f20 h"),
            (b"7f00 10 f\n", Some(0x10_0000), "107f00 f"),
            (b"", None, "file: neither an ELF file nor a list of symbols (kallsyms, perf map)"),
            (b"plain text, no list", None, "file: neither an ELF file nor a list of symbols (kallsyms, perf map)"),
            (b"\x7fELF\x09", None, "file: is an ELF file of unknown class"),
        ];
        for (bytes, address, expected) in rows {
            assert_eq!(found(bytes, address), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_file_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kallsyms");
        std::fs::write(&path, "0 T f\n").unwrap();
        let (code, notes) = Code::names_from_file(&path, None).unwrap();
        assert_eq!((code.symbols.len(), notes.len()), (0, 1), "hidden addresses are noted");
        assert!(Code::names_from_file(dir.path().join("none"), None).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b' '), Just(b'1'), any::<u8>()], 0..200)) {
            found(&bytes, Some(1));
        }
    }
}
