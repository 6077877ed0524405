//! Program image: the bytes of all executed opcodes.

use std::collections::BTreeMap;

use unspool_isa::Isa;

const PAGE: u64 = 4096;
/// Gaps of this size and more separate segments.
const GAP: u64 = 64 << 10;

/// Bytes at addresses, page by page.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pages: BTreeMap<u64, Page>,
    has_changed: bool,
}

#[derive(Debug)]
struct Page {
    bytes: Box<[u8; PAGE as usize]>,
    is_known: Box<[bool; PAGE as usize]>,
}

impl Image {
    /// Adds an opcode. Fails with the address of a byte that had another value before.
    pub(crate) fn add(&mut self, address: u64, isa: Isa, opcode: u32, length: u8) -> Result<(), u64> {
        let narrow = (opcode as u16).to_le_bytes();
        let wide = if isa == Isa::T32 { opcode.rotate_left(16) } else { opcode }.to_le_bytes();
        let bytes: &[u8] = if length == 2 { &narrow } else { &wide };
        for (at, byte) in (0..).zip(bytes) {
            let put = self.put(address.wrapping_add(at), *byte);
            self.has_changed |= put.is_err();
            put?;
        }
        Ok(())
    }

    /// Whether a byte had several values.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed
    }

    fn put(&mut self, address: u64, byte: u8) -> Result<(), u64> {
        let page = self.pages.entry(address / PAGE).or_insert_with(|| Page {
            bytes: Box::new([0; PAGE as usize]),
            is_known: Box::new([false; PAGE as usize]),
        });
        let at = (address % PAGE) as usize;
        if page.is_known[at] && page.bytes[at] != byte {
            return Err(address);
        }
        (page.bytes[at], page.is_known[at]) = (byte, true);
        Ok(())
    }

    /// Address and bytes of each segment. Small gaps inside a segment are zeros, which no trace reaches; splitting at
    /// them would make too many files.
    pub(crate) fn segments(&self) -> Vec<(u64, Vec<u8>)> {
        let mut segments: Vec<(u64, Vec<u8>)> = Vec::new();
        for (number, page) in &self.pages {
            for (at, byte) in page.bytes.iter().enumerate().filter(|(at, _)| page.is_known[*at]) {
                let address = number * PAGE + at as u64;
                match segments.last_mut() {
                    Some((start, bytes)) if address - *start - (bytes.len() as u64) < GAP => {
                        bytes.resize((address - *start) as usize, 0);
                        bytes.push(*byte);
                    }
                    _ => segments.push((address, vec![*byte])),
                }
            }
        }
        // Some readers read four bytes where an instruction has two.
        segments.iter_mut().for_each(|(_, bytes)| bytes.extend([0; 2]));
        segments
    }
}
