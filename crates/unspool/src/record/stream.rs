//! The stream of the plugin, read: chunks of threads, and the records in them.
//!
//! bytes ─▶ chunks ─▶ **records**
//!
//! `crates/plugin/src/stream.rs` says what the bytes are. What does not fit is damage, and ends the stream.

use std::io::{self, Read};

/// How a stream starts.
const MAGIC: &[u8] = b"unspool record 1\n";

/// The thread that blocks of code are told under.
pub(super) const BLOCKS: u32 = u32::MAX;

/// How the record of a thread that starts is known.
pub(super) const START: u8 = 13;

/// No chunk has more bytes.
const MOST: u32 = 1 << 28;

/// A record of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// `is_write`, log2 of the size, which instruction of the block, and the change of the address.
    Access { is_write: bool, size: u8, index: u16, change: u64 },
    /// The change of the number of the block.
    Block { change: u64 },
    /// Instructions before this one are complete.
    Left { index: u16 },
    /// A call of the system.
    Call { number: i64 },
    /// Its return.
    Return { number: i64, result: i64 },
    /// The thread starts.
    Start,
    /// It ends.
    End,
    /// So many instructions of the next block are not told.
    Part { left_out: u16 },
    /// What the emulator logged, in so many bytes that follow: [`take_text`].
    Text { length: u16 },
    /// Accesses that follow are of this block, which is executed for a part of the block before.
    Within { id: u32 },
}

/// A block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Code<'a> {
    pub(super) id: u32,
    pub(super) address: u64,
    /// The bytes of each instruction.
    pub(super) instructions: Vec<&'a [u8]>,
}

/// Reads what comes before the first chunk, up to the end of the line.
pub(super) fn read_magic(input: &mut impl Read) -> io::Result<()> {
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(damage("this is no stream of our plugin"));
    }
    let mut byte = [0];
    while byte != *b"\n" {
        input.read_exact(&mut byte)?;
    }
    Ok(())
}

/// Reads the next chunk into `bytes`: whose it is; `None`: there are no more.
pub(super) fn read_chunk(input: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
    let mut head = [0; 8];
    let first = loop {
        match input.read(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    if let Some(rest) = head.get_mut(first..) {
        input.read_exact(rest)?;
    }
    let [a, b, c, d, e, f, g, h] = head;
    let length = u32::from_le_bytes([e, f, g, h]);
    if length > MOST {
        return Err(damage("a chunk is too long"));
    }
    // It takes no more memory than there are bytes.
    bytes.clear();
    if input.take(u64::from(length)).read_to_end(bytes)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(u32::from_le_bytes([a, b, c, d])))
}

pub(super) fn damage(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Takes one record off the front; `None`: it is damaged.
#[inline]
pub(super) fn take_record(bytes: &mut &[u8]) -> Option<Record> {
    let first = take_byte(bytes)?;
    match first & 0xf {
        0..=8 => take_access(first, 0, bytes),
        9 => Some(Record::Block { change: take_change(bytes, first >> 4)? }),
        _ => take_rare(first, bytes),
    }
}

#[inline]
fn take_access(first: u8, early: u16, bytes: &mut &[u8]) -> Option<Record> {
    let (high, length) = (first >> 4, first & 0xf);
    let index = early + u16::from(take_byte(bytes)?);
    Some(Record::Access { is_write: high & 8 != 0, size: high & 7, index, change: take_change(bytes, length)? })
}

#[cold]
fn take_rare(first: u8, bytes: &mut &[u8]) -> Option<Record> {
    Some(match (first & 0xf, first >> 4) {
        (10, 0) => Record::Left { index: take_u16(bytes)? },
        (10, _) => {
            let first = take_byte(bytes).filter(|first| first & 0xf <= 8)?;
            return take_access(first, 256, bytes);
        }
        (11, 1) => Record::Text { length: take_u16(bytes)? },
        (11, 2) => {
            let (id, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Record::Within { id: u32::from_le_bytes(*id) }
        }
        (11, _) => {
            let number = take_word(bytes)?.cast_signed();
            *bytes = bytes.get(24..)?;
            Record::Call { number }
        }
        (12, _) => Record::Return { number: take_word(bytes)?.cast_signed(), result: take_word(bytes)?.cast_signed() },
        (START, _) => Record::Start,
        (14, _) => Record::End,
        _ => Record::Part { left_out: take_u16(bytes)? },
    })
}

/// Takes the bytes of a text off the front; `None`: it is damaged.
pub(super) fn take_text<'a>(bytes: &mut &'a [u8], length: u16) -> Option<&'a str> {
    let (text, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

/// Takes one block of code off the front; `None`: it is damaged.
pub(super) fn take_code<'a>(bytes: &mut &'a [u8]) -> Option<Code<'a>> {
    let (id, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    let address = take_word(bytes)?;
    let count = take_u16(bytes)?;
    let instructions = (0..count).map(|_| {
        let length = usize::from(take_byte(bytes)?);
        let (instruction, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(instruction)
    });
    let instructions: Vec<&[u8]> = instructions.collect::<Option<_>>()?;
    Some(Code { id: u32::from_le_bytes(*id), address, instructions })
}

#[inline]
fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u16::from_le_bytes(*first))
}

fn take_word(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*first))
}

/// A change of so many bytes, its sign put back to where it belongs.
#[inline]
fn take_change(bytes: &mut &[u8], length: u8) -> Option<u64> {
    let length = usize::from(length);
    let zigzag = match bytes.first_chunk() {
        // Most are not among the last few: then eight bytes can be read at once.
        Some(word) if length <= 8 => {
            let word = u64::from_le_bytes(*word);
            if length == 8 { word } else { word & ((1 << (8 * length)) - 1) }
        }
        _ => {
            let mut word = [0; 8];
            word.get_mut(..length)?.copy_from_slice(bytes.get(..length)?);
            u64::from_le_bytes(word)
        }
    };
    *bytes = bytes.get(length..)?;
    Some(zigzag >> 1 ^ (zigzag & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let mut call = vec![0x0b, 64, 0, 0, 0, 0, 0, 0, 0];
        call.extend_from_slice(&[1; 24]);
        let access = |is_write, size, index, change| Record::Access { is_write, size, index, change };
        let rows: &[(&str, &[u8], Option<Record>)] = &[
            ("a read of 8 bytes", &[0x31, 5, 0x10], Some(access(false, 3, 5, 8))),
            ("a write of 4, before", &[0xa1, 5, 0x07], Some(access(true, 2, 5, 4_u64.wrapping_neg()))),
            ("at the same place", &[0x00, 1], Some(access(false, 0, 1, 0))),
            ("far away", &[0x08, 0, 2, 0, 0, 0, 0, 0, 0, 0x80], Some(access(false, 0, 0, 1 << 62 | 1))),
            ("of a late instruction", &[0x1a, 0x31, 5, 0x10], Some(access(false, 3, 261, 8))),
            ("late, and no access", &[0x1a, 0x0d], None),
            ("late, and late again", &[0x1a, 0x1a, 0x31, 5, 0x10], None),
            ("a block", &[0x29, 0x02, 0x04], Some(Record::Block { change: 0x201 })),
            ("the same block", &[0x09], Some(Record::Block { change: 0 })),
            ("left", &[0x0a, 1, 1], Some(Record::Left { index: 257 })),
            ("a call", &call, Some(Record::Call { number: 64 })),
            ("start", &[0x0d], Some(Record::Start)),
            ("end", &[0x0e], Some(Record::End)),
            ("a text", &[0x1b, 2, 0], Some(Record::Text { length: 2 })),
            ("on behalf of another", &[0x2b, 1, 2, 0, 0], Some(Record::Within { id: 0x201 })),
            ("a part", &[0x0f, 3, 0], Some(Record::Part { left_out: 3 })),
            ("nothing", &[], None),
            ("an address of no such length", &[0xf9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], None),
            ("cut off", &[0x32, 5, 0x10], None),
        ];
        for (name, bytes, expected) in rows {
            let mut rest = *bytes;
            assert_eq!(take_record(&mut rest), *expected, "{name}");
            assert!(expected.is_none() || rest.is_empty(), "{name}: {rest:?}");
        }
    }
}
