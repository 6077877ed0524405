//! jitdump: the code that a JIT compiler made, with times.
//!
//! file `jit-PID.dump` of either byte order ─▶ **jitdump** ─▶ patches as [`SystemEvent`]s, functions over time
//!
//! Only loaded and moved code is used; line numbers, unwinding tables and the end mark are skipped. A file of a program that was
//! killed ends anywhere: what is complete is kept. Layout: "jitdump-specification" in the documents of perf.

use std::collections::HashMap;

use super::latest::LatestFunctions;
use super::lines::NoteList;
use super::{Machine, Symbols};
use crate::error::Error;
use crate::event::{Call, PatchCode, Pid, SystemEvent};
use crate::note::{Note, NoteKind};

/// `JiTD`, as a number in the byte order of the file.
const MAGIC: u32 = 0x4a69_5444;

/// The sizes of the header and of what all records start with.
const HEADER: usize = 40;
const PREFIX: usize = 16;

/// Maximum number of bytes that moves copy. A move is short and the code may be long, so the file size is no limit.
const MOVED_LIMIT: usize = 256 << 20;

/// The contents of a jitdump.
#[derive(Debug, Clone)]
pub struct Jitdump {
    /// The process in the header, as it sees itself. Records have their own.
    pub pid: Pid,
    /// The architecture of the code.
    pub machine: Machine,
    /// Whether the file is big-endian.
    pub big_endian: bool,
    /// Whether times are those of a counter of the architecture. If not, they are nanoseconds of `CLOCK_MONOTONIC`.
    pub has_counter_times: bool,
    /// A [`Call::Patch`] with bytes for each code that was loaded or moved, in the order of the file.
    pub events: Vec<SystemEvent>,
    /// The functions in the same order.
    pub functions: Vec<JitFunction>,
    /// Damaged, truncated and unknown records, with their offsets.
    pub notes: Vec<Note>,
}

/// Code of a JIT compiler that was loaded, or moved to another address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitFunction {
    /// When.
    pub time: u64,
    /// The process.
    pub pid: Pid,
    /// Its first address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its name; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The address that it was moved from.
    pub moved_from: Option<u64>,
}

impl Jitdump {
    /// Reads a file. `file` is the name that notes show.
    ///
    /// # Errors
    ///
    /// If the bytes do not start with the header of a jitdump.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        let unusable = |reason: &str| Error::Unusable { name: file.to_string(), reason: reason.to_string() };
        let words = |big_endian| Words { bytes, big_endian };
        let words = [false, true].map(words).into_iter().find(|words| words.u32(0) == Some(MAGIC));
        let words = words.ok_or_else(|| unusable("not a jitdump: it does not start with its magic number"))?;
        let header = words.header().ok_or_else(|| unusable("a jitdump that ends within its header"))?;
        let mut reader = Reader { words, notes: NoteList::new(file), loaded: HashMap::new(), moved: 0, dump: header };
        reader.read();
        let notes = reader.notes.finish();
        Ok(Self { notes, ..reader.dump })
    }

    /// The names of the functions of a process at a time, and at the end of the file if no time is given.
    pub fn symbols_at(&self, pid: Pid, time: Option<u64>) -> Symbols {
        let mut latest = LatestFunctions::default();
        let is_past = |function: &&JitFunction| function.pid == pid && time.is_none_or(|time| function.time <= time);
        for function in self.functions.iter().filter(is_past) {
            if let Some(old) = function.moved_from {
                latest.remove(old, old.saturating_add(function.size));
            }
            latest.insert(function.address, function.size, &function.name);
        }
        latest.symbols()
    }
}

/// Numbers at offsets, in the byte order of the file.
#[derive(Clone, Copy)]
struct Words<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Words<'a> {
    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    fn part(&self, at: usize, length: usize) -> Option<Words<'a>> {
        let bytes = self.bytes.get(at..at.checked_add(length)?)?;
        Some(Words { bytes, ..*self })
    }

    /// The dump that the header describes, without records.
    fn header(&self) -> Option<Jitdump> {
        let machine = u16::try_from(self.u32(12)?).map_or(Machine::Other(u16::MAX), |n| Machine::from_elf(n, true));
        Some(Jitdump {
            pid: self.u32(20)?,
            machine,
            big_endian: self.big_endian,
            has_counter_times: self.u64(32)? & 1 != 0,
            events: Vec::new(),
            functions: Vec::new(),
            notes: Vec::new(),
        })
    }
}

struct Reader<'a> {
    words: Words<'a>,
    notes: NoteList<'a>,
    /// The newest code of each index, and its name.
    loaded: HashMap<u64, (&'a [u8], String)>,
    /// Number of bytes that moves copied.
    moved: usize,
    dump: Jitdump,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        if let Some(version) = self.words.u32(4).filter(|version| *version != 1) {
            self.note(NoteKind::Assumed, || format!("version {version} is not known; it is read as version 1"));
        }
        // A longer header is a newer one; its size is where the records start.
        let mut at = self.words.u32(8).map_or(HEADER, |size| size as usize).max(HEADER);
        while at < self.words.bytes.len() {
            let Some(size) = self.record_size(at) else { return };
            if let Some(record) = self.words.part(at, size) {
                self.record(at, record);
            }
            at = at.saturating_add(size);
        }
        if at > self.words.bytes.len() {
            self.note(NoteKind::Truncated, || "ends within its header".to_string());
        }
    }

    /// The size of the record at an offset; `None`, with a note, if it cannot be one or is not complete.
    fn record_size(&mut self, at: usize) -> Option<usize> {
        let left = self.words.bytes.len() - at;
        let size = self.words.u32(at + 4).map(|size| size as usize);
        match size {
            Some(size @ 1..PREFIX) => {
                let text = || format!("offset {at:#x}: a record of {size} bytes is too short; the rest is not read");
                self.note(NoteKind::BadValue, text);
                None
            }
            // The space for a record was reserved, and the program ended before it wrote it.
            Some(0) => {
                self.note(NoteKind::Truncated, || format!("offset {at:#x}: the rest, {left} bytes, has no records"));
                None
            }
            Some(size) if size <= left => Some(size),
            _ => {
                self.note(NoteKind::Truncated, || format!("ends within the record at offset {at:#x}"));
                None
            }
        }
    }

    fn record(&mut self, at: usize, record: Words<'a>) {
        const UNWINDING: u32 = 4;
        let used = match record.u32(0) {
            Some(0) => self.load(at, record),
            Some(1) => self.move_code(at, record),
            Some(2..=UNWINDING) => Some(()),
            id => {
                let id = id.unwrap_or_default();
                self.note(NoteKind::UnknownFormat, || format!("offset {at:#x}: a record of the unknown type {id}"));
                Some(())
            }
        };
        if used.is_none() {
            self.note(NoteKind::BadValue, || format!("offset {at:#x}: the record is shorter than its contents"));
        }
    }

    fn load(&mut self, at: usize, record: Words<'a>) -> Option<()> {
        let (address, size, index) = (record.u64(32)?, record.u64(40)?, record.u64(48)?);
        let rest = record.bytes.get(56..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let name = String::from_utf8_lossy(rest.get(..end)?).into_owned();
        let code = rest.get(end + 1..)?.get(..usize::try_from(size).ok()?)?;
        self.loaded.insert(index, (code, name.clone()));
        self.add(at, record, address, code, name, None)
    }

    fn move_code(&mut self, at: usize, record: Words<'a>) -> Option<()> {
        let (old, new, size, index) = (record.u64(32)?, record.u64(40)?, record.u64(48)?, record.u64(56)?);
        let known = self.loaded.get(&index);
        let code = known.and_then(|(code, name)| Some((code.get(..usize::try_from(size).ok()?)?, name.clone())));
        let Some((code, name)) = code else {
            let text = || format!("offset {at:#x}: {size:#x} bytes of code {index} are moved, which was not loaded");
            self.note(NoteKind::UnknownName, text);
            return Some(());
        };
        self.moved = self.moved.saturating_add(code.len());
        if self.moved > MOVED_LIMIT {
            let text = || format!("offset {at:#x}: more than {MOVED_LIMIT:#x} bytes are moved; the code is ignored");
            self.note(NoteKind::TooMany, text);
            return Some(());
        }
        self.add(at, record, new, code, name, Some(old))
    }

    fn add(
        &mut self,
        at: usize,
        record: Words<'a>,
        address: u64,
        code: &[u8],
        name: String,
        moved_from: Option<u64>,
    ) -> Option<()> {
        let (time, pid, size) = (record.u64(8)?, record.u32(16)?, code.len() as u64);
        let patch =
            Call::Patch { pid, address, length: size, code: PatchCode::Bytes(code.to_vec()), name: name.clone() };
        self.dump.events.push(SystemEvent { time: Some(time), place: at as u64, call: patch });
        self.dump.functions.push(JitFunction { time, pid, address, size, name, moved_from });
        Some(())
    }

    fn note(&mut self, kind: NoteKind, text: impl FnOnce() -> String) {
        self.notes.add(0, kind, text);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writer of jitdumps, in the byte order of `big`.
    struct Writer {
        big: bool,
        bytes: Vec<u8>,
    }

    impl Writer {
        fn new(big: bool) -> Self {
            let mut writer = Self { big, bytes: vec![] };
            writer.words(&[0x4a69_5444, 1, 40, 183, 0, 312]);
            writer.longs(&[5, 0]);
            writer
        }

        fn words(&mut self, values: &[u32]) {
            let big = self.big;
            self.bytes.extend(values.iter().flat_map(|n| if big { n.to_be_bytes() } else { n.to_le_bytes() }));
        }

        fn longs(&mut self, values: &[u64]) {
            let big = self.big;
            self.bytes.extend(values.iter().flat_map(|n| if big { n.to_be_bytes() } else { n.to_le_bytes() }));
        }

        fn load(mut self, time: u64, address: u64, index: u64, name: &str, code: &[u8]) -> Self {
            self.words(&[0, (56 + name.len() + 1 + code.len()) as u32]);
            self.longs(&[time]);
            self.words(&[312, 313]);
            self.longs(&[address, address, code.len() as u64, index]);
            self.bytes.extend(name.bytes().chain([0]).chain(code.iter().copied()));
            self
        }

        fn move_code(mut self, time: u64, old: u64, new: u64, size: u64, index: u64) -> Self {
            self.words(&[1, 64]);
            self.longs(&[time]);
            self.words(&[312, 313]);
            self.longs(&[new, old, new, size, index]);
            self
        }

        fn other(mut self, id: u32, body: &[u8]) -> Self {
            self.words(&[id, (16 + body.len()) as u32]);
            self.longs(&[9]);
            self.bytes.extend(body);
            self
        }
    }

    fn sample(big: bool) -> Writer {
        Writer::new(big)
            .load(10, 0x1000, 1, "f", &[1; 16])
            .other(2, &[0xff; 24])
            .load(20, 0x2000, 2, "caf\u{e9} au lait", &[2; 8])
            .move_code(30, 0x1000, 0x3000, 16, 1)
            .other(4, &[])
            .load(40, 0x1008, 3, "g", &[3; 4])
            .other(3, &[])
    }

    fn patches(dump: &Jitdump) -> Vec<String> {
        let describe = |event: &SystemEvent| {
            let Call::Patch { pid, address, length, code: PatchCode::Bytes(code), .. } = &event.call else { panic!() };
            assert_eq!(*length, code.len() as u64);
            format!("{:#x} {} {pid} {address:#x} {length}x{}", event.place, event.time.unwrap(), code[0])
        };
        dump.events.iter().map(describe).collect()
    }

    #[test]
    fn loads_and_moves_are_patches() {
        for big in [false, true] {
            let dump = Jitdump::parse("jit", &sample(big).bytes).unwrap();
            let expected = [
                "0x28 10 312 0x1000 16x1",
                "0x9a 20 312 0x2000 8x2",
                "0xe8 30 312 0x3000 16x1",
                "0x138 40 312 0x1008 4x3",
            ];
            assert_eq!((patches(&dump), dump.notes.len()), (expected.map(String::from).to_vec(), 0));
            assert_eq!((dump.pid, dump.machine, dump.big_endian), (312, Machine::AArch64, big));
            let at = |time, address| {
                dump.symbols_at(312, time).find(address).map_or("-".into(), |(name, offset)| format!("{name}+{offset}"))
            };
            let rows = [
                (Some(9), 0x1000, "-"),
                (Some(10), 0x1008, "f+8"),
                (Some(25), 0x2001, "caf\u{e9} au lait+1"),
                (Some(30), 0x1008, "-"),
                (Some(30), 0x300f, "f+15"),
                (None, 0x1008, "g+0"),
                (None, 0x1000, "-"),
            ];
            rows.iter().for_each(|(time, address, name)| assert_eq!(at(*time, *address), *name, "{time:?}"));
            assert!(dump.symbols_at(313, None).is_empty());
        }
    }

    #[test]
    fn damaged_files_keep_what_is_complete() {
        let cut = |length: usize| sample(false).bytes[..length].to_vec();
        let with = |at: usize, value: u8| {
            let mut bytes = sample(false).bytes;
            bytes[at] = value;
            bytes
        };
        let reserved = [sample(false).bytes, vec![0; 100]].concat();
        let unknown_move = Writer::new(false).move_code(1, 2, 3, 4, 5).load(10, 0x10, 1, "f", &[1]).bytes;
        let too_long_move = Writer::new(false).load(10, 0x10, 1, "f", &[1]).move_code(1, 2, 3, 2, 1).bytes;
        let rows: [(&str, Vec<u8>, usize, &str); 9] = [
            ("within a record", cut(0x138 + 20), 3, "ends within the record at offset 0x138"),
            ("within a prefix", cut(0x138 + 6), 3, "ends within the record at offset 0x138"),
            ("within the code", cut(0x9a + 70), 1, "ends within the record at offset 0x9a"),
            ("zeros follow", reserved, 4, "offset 0x186: the rest, 100 bytes, has no records"),
            (
                "a size of three",
                with(0x28 + 4, 3),
                0,
                "offset 0x28: a record of 3 bytes is too short; the rest is not read",
            ),
            (
                "code longer than its record",
                with(0x28 + 40, 99),
                2,
                "offset 0x28: the record is shorter than its contents",
            ),
            ("an unknown type", with(0x9a, 77), 3, "offset 0x9a: a record of the unknown type 77"),
            (
                "unknown code is moved",
                unknown_move,
                1,
                "offset 0x28: 0x4 bytes of code 5 are moved, which was not loaded",
            ),
            (
                "more than its code is moved",
                too_long_move,
                1,
                "offset 0x63: 0x2 bytes of code 1 are moved, which was not loaded",
            ),
        ];
        for (name, bytes, events, note) in rows {
            let dump = Jitdump::parse("jit", &bytes).unwrap();
            assert_eq!(dump.events.len(), events, "{name}");
            assert_eq!(dump.notes.first().map(ToString::to_string), Some(format!("jit: {note}")), "{name}");
        }
        assert_eq!(
            Jitdump::parse("jit", &cut(39)).unwrap_err().to_string(),
            "jit: a jitdump that ends within its header"
        );
        let error = Jitdump::parse("jit", b"not").unwrap_err().to_string();
        assert_eq!(error, "jit: not a jitdump: it does not start with its magic number");
        assert_eq!(Jitdump::parse("jit", &with(8, 200)).unwrap().notes.len(), 1, "records start elsewhere");
    }

    #[test]
    fn moves_cannot_multiply_memory_without_bound() {
        let mut writer = Writer::new(false).load(1, 0, 1, "big", &vec![7; 64 << 20]);
        for address in 1..8 {
            writer = writer.move_code(2, 0, address << 32, 64 << 20, 1);
        }
        let dump = Jitdump::parse("jit", &writer.bytes).unwrap();
        assert_eq!((dump.events.len(), dump.notes.len()), (5, 3));
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..400), big: bool) {
            if let Some(magic) = bytes.first_chunk_mut() {
                *magic = if big { MAGIC.to_be_bytes() } else { MAGIC.to_le_bytes() };
            }
            if let Ok(dump) = Jitdump::parse("jit", &bytes) {
                prop_assert!(dump.events.len() <= bytes.len() / PREFIX);
            }
        }

        #[test]
        fn damaged(damage in prop::collection::vec((40_usize..0x186, any::<u8>()), 0..8), end in 40_usize..0x187) {
            let mut bytes = sample(false).bytes;
            damage.into_iter().for_each(|(at, value)| bytes[at] = value);
            bytes.truncate(end);
            let dump = Jitdump::parse("jit", &bytes).unwrap();
            prop_assert_eq!(dump.events.len(), dump.functions.len());
            dump.symbols_at(312, None);
        }
    }
}
