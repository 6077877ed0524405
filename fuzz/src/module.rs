//! Kernel modules: any bytes are code or have a note that explains why not, regions are in memory, and a symbol owns its
//! first byte.
//!
//! Input: byte 0 selects. Bit 0: the rest is the file; otherwise it changes a module of our own. Bit 1: with a list of kernel
//! symbols, which has the functions of the module and the one that it calls. Three bytes per change: an offset and the number to add.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use unspool_capture::{ImageFile, Kallsyms};

use crate::code::{changed, check_region, check_symbols};
use crate::setup::byte;
use crate::walk::scratch;

const BASE: u64 = 0xffff_8000_0100_0000;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let how = byte(&mut data);
    let file = if how & 1 != 0 { data.to_vec() } else { changed(ours(), data) };
    let path = folder().join("module.ko");
    fs::write(&path, &file).expect("a file");
    let image = ImageFile::open(&path).expect("a file of our own");
    let list = format!("{:x} T printk\n{BASE:x} t f\t[module]\n", BASE + 0x1000);
    let list = (how & 2 != 0).then(|| Kallsyms::parse("kallsyms", list.into_bytes()));
    let (code, notes) = image.place_module(BASE, "module.ko", list.as_ref());
    assert!(notes.len() < 100 && notes.iter().all(|note| !note.text.is_empty()));
    assert!(!code.regions.is_empty() || !notes.is_empty() || file.is_empty(), "{code} has no code and no note");
    assert!(code.regions.len() <= file.len() / 4 + 1, "{} regions of {} bytes", code.regions.len(), file.len());
    code.regions.iter().for_each(|region| check_region(region, &file));
    check_symbols(&code, &file);
    let (again, _) = image.place_module(BASE, "module.ko", list.as_ref());
    assert_eq!(code.regions, again.regions, "the same module has other code");
}

fn folder() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| scratch("module"))
}

/// A module for AArch64: `f` calls `printk` and branches to itself; the call of `g` has no target.
pub fn ours() -> Vec<u8> {
    let text: [u32; 4] = [0xd503_201f, 0x9400_0000, 0x9400_0000, 0x1400_0000];
    let relocations = [(4, 2, 283), (8, 3, 283), (12, 1, 282)];
    // Name, type and binding, section, size.
    let symbols: [(u32, u8, u16, u64); 4] = [(0, 0, 0, 0), (1, 0x12, 1, 16), (3, 0x10, 0, 0), (10, 0x10, 0, 0)];
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([1_u16, 183].map(u16::to_le_bytes).concat());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend([0_u64, 0, 0x140].map(u64::to_le_bytes).concat());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend([64_u16, 0, 0, 64, 6, 5].map(u16::to_le_bytes).concat());
    bytes.extend(text.map(u32::to_le_bytes).concat());
    for (offset, symbol, kind) in relocations {
        bytes.extend([offset, symbol << 32 | kind, 0_u64].map(u64::to_le_bytes).concat());
    }
    for (name, info, section, size) in symbols {
        bytes.extend(name.to_le_bytes());
        bytes.extend([info, 0]);
        bytes.extend(section.to_le_bytes());
        bytes.extend([0, size].map(u64::to_le_bytes).concat());
    }
    bytes.extend(b"\0f\0printk\0g\0\0\0\0\0");
    bytes.extend(b"\0.text\0\0");
    bytes.resize(0x140, 0);
    // Name, type, flags, offset, size, link, info, size of an entry.
    let sections: [(u32, u32, u64, u64, u64, u32, u32, u64); 6] = [
        (0, 0, 0, 0, 0, 0, 0, 0),
        (1, 1, 6, 0x40, 16, 0, 0, 0),
        (0, 4, 0, 0x50, 72, 3, 1, 24),
        (0, 2, 0, 0x98, 96, 4, 1, 24),
        (0, 3, 0, 0xf8, 12, 0, 0, 0),
        (0, 3, 0, 0x108, 8, 0, 0, 0),
    ];
    for (name, kind, flags, offset, size, link, info, entry) in sections {
        bytes.extend([name, kind].map(u32::to_le_bytes).concat());
        bytes.extend([flags, 0, offset, size].map(u64::to_le_bytes).concat());
        bytes.extend([link, info].map(u32::to_le_bytes).concat());
        bytes.extend([4, entry].map(u64::to_le_bytes).concat());
    }
    bytes
}
