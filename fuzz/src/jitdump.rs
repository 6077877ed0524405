//! jitdumps: any bytes are patches or are refused, patches have the bytes of the file, and a truncated file has the patches
//! that are complete.
//!
//! Input: byte 0 selects. 0: the rest is the file. 1 and 2: it changes a file of our own, little-endian or big-endian. Three
//! bytes per change: an offset and the number to add.

use unspool_capture::{Call, Jitdump, PatchCode, SystemEvent};

use crate::code::changed;
use crate::setup::byte;

/// The size of the header.
const HEADER: usize = 40;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let file = match byte(&mut data) {
        0 => data.to_vec(),
        how => changed(ours(how & 1 == 0), data),
    };
    let Ok(dump) = Jitdump::parse("jit", &file) else { return };
    assert_eq!(dump.events.len(), dump.functions.len());
    assert!(dump.notes.len() <= 101 && dump.notes.iter().all(|note| !note.text.is_empty()));
    assert!(dump.events.windows(2).all(|pair| pair[0].place < pair[1].place), "records are in the order of the file");
    dump.events.iter().for_each(|event| check_patch(event, &file));
    check_symbols(&dump);
    let middle = HEADER + (file.len().saturating_sub(HEADER)) / 2;
    check_prefix(&dump, &file[..middle.min(file.len())]);
}

/// The bytes of a patch are bytes of the file.
fn check_patch(event: &SystemEvent, file: &[u8]) {
    assert!((event.place as usize) < file.len() && event.time.is_some(), "{event:?}");
    let Call::Patch { length, code: PatchCode::Bytes(bytes), .. } = &event.call else { panic!("{event:?}") };
    assert_eq!(*length, bytes.len() as u64);
    assert!(bytes.is_empty() || file.windows(bytes.len()).any(|part| part == bytes), "{event:?} is not in the file");
}

/// Functions do not overlap, whatever was loaded over what.
fn check_symbols(dump: &Jitdump) {
    let symbols = dump.symbols_at(dump.pid, None);
    let mut end = 0;
    for symbol in symbols.iter() {
        assert!(symbol.address >= end, "{symbol:?} starts before {end:#x}");
        end = symbol.address.saturating_add(symbol.size);
        assert_eq!(symbols.find(symbol.address), Some((symbol.name, 0)));
    }
}

/// A file that ends earlier has fewer patches, and the same ones.
fn check_prefix(dump: &Jitdump, start: &[u8]) {
    let Ok(cut) = Jitdump::parse("jit", start) else { return };
    assert!(dump.events.starts_with(&cut.events), "a truncated file has other patches");
}

/// Two functions, of which one is moved, and records that are skipped.
pub fn ours(big: bool) -> Vec<u8> {
    let mut out = Out { big, bytes: Vec::new() };
    out.words(&[0x4a69_5444, 1, 40, 183, 0, 7]);
    out.longs(&[1, 0]);
    for (index, name) in [(1, b"f\0"), (2, b"g\0")] {
        out.words(&[0, 56 + 2 + 8]);
        out.longs(&[index]);
        out.words(&[7, 7]);
        out.longs(&[0x1000 * index, 0x1000 * index, 8, index]);
        out.bytes.extend(name.iter().chain(&[0x1f, 0x20, 3, 0xd5, index as u8, 3, 0x5f, 0xd6]));
    }
    out.words(&[2, 16]);
    out.longs(&[3]);
    out.words(&[1, 64]);
    out.longs(&[4]);
    out.words(&[7, 7]);
    out.longs(&[0x3000, 0x1000, 0x3000, 8, 1]);
    out.words(&[3, 16]);
    out.longs(&[5]);
    out.bytes
}

/// Numbers in the order of the file.
struct Out {
    big: bool,
    bytes: Vec<u8>,
}

impl Out {
    fn words(&mut self, values: &[u32]) {
        let big = self.big;
        self.bytes.extend(values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }));
    }

    fn longs(&mut self, values: &[u64]) {
        let big = self.big;
        self.bytes.extend(values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }));
    }
}
