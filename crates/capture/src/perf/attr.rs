//! Event attributes, and what the trailer of a record means by them.
//!
//! `perf_event_attr` and ids ─▶ **attr** ─▶ attribute of a record by its id, and its trailer
//!
//! Records of the kernel end in a trailer if the attribute has `sample_id_all`. Attributes may differ in their trailers;
//! only the position of the id is the same in all. Does not know the types of records.

use std::collections::HashMap;

use super::bytes::ByteOrder;

/// Maximum number of attributes and of ids, more than any known recording has.
const ATTR_LIMIT: usize = 16 << 10;
const ID_LIMIT: usize = 4 << 20;

/// The parts of an event's configuration that reading needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attr {
    /// Number of the event's PMU, or the kind of a built-in event.
    pub kind: u32,
    /// Configuration of the event.
    pub config: [u64; 4],
    /// Fields of samples and trailers: a bit mask.
    pub sample_type: u64,
    /// Flags: a bit mask, in the order of a little-endian file.
    pub flags: u64,
    /// The clock of times, if the event selects one.
    pub clock: Option<i32>,
    /// Ids that records of this event have.
    pub ids: Vec<u64>,
}

/// Bits of `sample_type`.
mod field {
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const STREAM_ID: u64 = 1 << 9;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `flags`.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCK: u64 = 1 << 25;

/// Size of the first version of the structure.
const FIRST_VERSION: usize = 64;

impl Attr {
    /// Parses the structure, and returns its own size with it. Versions differ in length; absent fields are zero.
    pub(crate) fn parse(bytes: &[u8], order: ByteOrder) -> Option<(Self, usize)> {
        let size = match order.u32(bytes, 4)? as usize {
            0 => FIRST_VERSION,
            size => size,
        };
        let bytes = bytes.get(..size.min(bytes.len()))?;
        let word = |at| order.u64(bytes, at).unwrap_or(0);
        let flags = match order {
            ByteOrder::Little => word(40),
            // Bit fields start at the other end there.
            ByteOrder::Big => word(40).reverse_bits(),
        };
        let clock = order.u32(bytes, 92).map(u32::cast_signed).filter(|_| flags & USE_CLOCK != 0);
        let config = [word(8), word(56), word(64), word(128)];
        let attr = Self { kind: order.u32(bytes, 0)?, config, sample_type: word(24), flags, clock, ids: Vec::new() };
        Some((attr, size))
    }

    /// Whether the fields of a mask are in the trailer.
    fn has(&self, fields: u64) -> bool {
        self.flags & SAMPLE_ID_ALL != 0 && self.sample_type & fields != 0
    }

    /// Splits the bytes after a record's header into body and trailer. A record too short for it has none.
    fn split<'a>(&self, bytes: &'a [u8], order: ByteOrder) -> (&'a [u8], Trailer) {
        const FIELDS: [u64; 6] = [field::TID, field::TIME, field::ID, field::STREAM_ID, field::CPU, field::IDENTIFIER];
        let count = FIELDS.into_iter().filter(|&field| self.has(field)).count();
        let Some((body, trailer)) = bytes.len().checked_sub(8 * count).and_then(|at| bytes.split_at_checked(at)) else {
            return (bytes, Trailer::default());
        };
        let mut found = Trailer::default();
        let mut at = 0;
        for field in FIELDS.into_iter().filter(|&field| self.has(field)) {
            match field {
                field::TID => {
                    found.pid = order.u32(trailer, at);
                    found.tid = order.u32(trailer, at + 4);
                }
                field::TIME => found.time = order.u64(trailer, at),
                field::CPU => found.cpu = order.u32(trailer, at),
                field::ID | field::IDENTIFIER => found.id = order.u64(trailer, at),
                _ => {}
            }
            at += 8;
        }
        (body, found)
    }
}

/// The end of a record of the kernel: when, where and for which event it was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// The process that ran.
    pub(crate) pid: Option<u32>,
    /// The thread that ran.
    pub(crate) tid: Option<u32>,
    /// The time in nanoseconds; 0 or all ones if the record was synthesized.
    pub(crate) time: Option<u64>,
    /// The id of the event.
    pub(crate) id: Option<u64>,
    /// The CPU.
    pub(crate) cpu: Option<u32>,
}

/// All attributes of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attrs {
    list: Vec<Attr>,
    by_id: HashMap<u64, usize>,
    /// Number of ids, repeated ones too.
    ids: usize,
}

impl Attrs {
    /// Adds an attribute. `false`: there are too many.
    pub(crate) fn add(&mut self, mut attr: Attr, ids: impl Iterator<Item = u64>) -> bool {
        let room = self.room();
        if room == 0 {
            return false;
        }
        attr.ids = ids.take(room).collect();
        self.ids += attr.ids.len();
        for &id in &attr.ids {
            self.by_id.entry(id).or_insert(self.list.len());
        }
        self.list.push(attr);
        true
    }

    /// Number of ids that another attribute may have; 0 if there may be none.
    pub(crate) fn room(&self) -> usize {
        if self.list.len() < ATTR_LIMIT { ID_LIMIT.saturating_sub(self.ids) } else { 0 }
    }

    pub(crate) fn list(&self) -> &[Attr] {
        &self.list
    }

    pub(crate) fn into_list(self) -> Vec<Attr> {
        self.list
    }

    /// Splits the bytes after the header of a kernel's record into body and trailer, and finds its attribute.
    pub(crate) fn split<'a>(&self, bytes: &'a [u8], order: ByteOrder) -> (&'a [u8], Trailer, usize) {
        let index = self.attr_of(bytes, order);
        let (body, trailer) = self.list.get(index).map_or((bytes, Trailer::default()), |attr| attr.split(bytes, order));
        (body, trailer, index)
    }

    /// The attribute of a record: the one with its id, or else the first.
    fn attr_of(&self, bytes: &[u8], order: ByteOrder) -> usize {
        let [first, _, ..] = &self.list[..] else { return 0 };
        let words_after = match () {
            () if first.has(field::IDENTIFIER) => 0,
            () if first.has(field::ID) => usize::from(first.has(field::STREAM_ID)) + usize::from(first.has(field::CPU)),
            () => return 0,
        };
        let id = bytes.len().checked_sub(8 * (words_after + 1)).and_then(|at| order.u64(bytes, at));
        id.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LITTLE: ByteOrder = ByteOrder::Little;

    fn attr(sample_type: u64, flags: u64) -> Attr {
        Attr { sample_type, flags, ..Attr::default() }
    }

    /// Trailer words: values 1, 2, ... in order.
    fn words(count: u64) -> Vec<u8> {
        (1..=count).flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn trailers_of_every_layout() {
        // Pid 1 and tid 0 are one word; the layouts are those that real files have.
        let tid = Trailer { pid: Some(1), tid: Some(0), ..Trailer::default() };
        let rows = [
            (0x1c7, Trailer { time: Some(2), id: Some(3), cpu: Some(4), ..tid }, 32),
            (0x187, Trailer { time: Some(2), cpu: Some(3), ..tid }, 24),
            (0x10187, Trailer { time: Some(2), cpu: Some(3), id: Some(4), ..tid }, 32),
            (0x107, Trailer { time: Some(2), ..tid }, 16),
            (0x206, Trailer { time: Some(2), ..tid }, 24),
            (0x1, Trailer::default(), 0),
        ];
        for (sample_type, expected, length) in rows {
            let bytes = [b"bodybody".to_vec(), words(length / 8)].concat();
            let (body, trailer) = attr(sample_type, SAMPLE_ID_ALL).split(&bytes, LITTLE);
            assert_eq!((body, trailer), (&b"bodybody"[..], expected), "{sample_type:#x}");
            assert_eq!(attr(sample_type, 0).split(&bytes, LITTLE), (&bytes[..], Trailer::default()));
        }
        let short = attr(0x107, SAMPLE_ID_ALL).split(b"12345678", LITTLE);
        assert_eq!(short, (&b"12345678"[..], Trailer::default()));
    }

    #[test]
    fn the_id_selects_the_layout() {
        let mut attrs = Attrs::default();
        // The CPU is only in the first one, the time only in the second: the id is the last word of both.
        assert!(attrs.add(attr(0x10082, SAMPLE_ID_ALL), [70].into_iter()));
        assert!(attrs.add(attr(0x10006, SAMPLE_ID_ALL), [71, 72].into_iter()));
        let record = |id: u64| [&words(3)[..], &id.to_le_bytes()].concat();
        let split = |id| {
            let bytes = record(id);
            let (body, trailer, index) = attrs.split(&bytes, LITTLE);
            (body.len(), trailer.cpu, trailer.time, index)
        };
        assert_eq!(split(70), (8, Some(3), None, 0));
        assert_eq!(split(72), (8, None, Some(3), 1));
        assert_eq!(split(0), (8, Some(3), None, 0), "a synthesized record");
        assert_eq!(split(99), (8, Some(3), None, 0), "an unknown id");
    }

    #[test]
    fn repeated_ids_are_limited_too() {
        let mut attrs = Attrs::default();
        while attrs.add(Attr::default(), std::iter::repeat_n(5, ID_LIMIT / 4 + 1)) {}
        assert_eq!(attrs.list().len(), 4);
        assert_eq!(attrs.list().iter().map(|attr| attr.ids.len()).sum::<usize>(), ID_LIMIT);
    }

    #[test]
    fn an_id_before_stream_and_cpu() {
        let mut attrs = Attrs::default();
        assert!(attrs.add(attr(0x2c0, SAMPLE_ID_ALL), [7].into_iter()));
        assert!(attrs.add(attr(0x2c4, SAMPLE_ID_ALL), [2].into_iter()));
        let bytes = words(4);
        let (_, trailer, index) = attrs.split(&bytes, LITTLE);
        assert_eq!((index, trailer.time, trailer.id, trailer.cpu), (1, Some(1), Some(2), Some(4)));
    }

    #[test]
    fn sizes_and_byte_orders_of_the_structure() {
        for size in [64_u32, 72, 112, 128, 136] {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let put32 =
                    |value: u32| if order == ByteOrder::Big { value.to_be_bytes() } else { value.to_le_bytes() };
                let mut bytes = [put32(8), put32(size)].concat();
                for index in 1..size / 8 {
                    let value = u64::from(index);
                    // Word 5 has the flags: bits 2, 18 and 25, counted from the end of the machine.
                    let flags = 1 << 2 | SAMPLE_ID_ALL | USE_CLOCK;
                    let word = match (index, order) {
                        (5, ByteOrder::Little) => flags.to_le_bytes(),
                        (5, ByteOrder::Big) => flags.reverse_bits().to_be_bytes(),
                        (_, ByteOrder::Little) => value.to_le_bytes(),
                        (_, ByteOrder::Big) => value.to_be_bytes(),
                    };
                    bytes.extend(word);
                }
                let (attr, found) = Attr::parse(&[&bytes[..], &[0xff; 16]].concat(), order).unwrap();
                let [config2, config3] = [if size > 64 { 8 } else { 0 }, if size > 128 { 16 } else { 0 }];
                assert_eq!(found, size as usize);
                assert_eq!((attr.kind, attr.config, attr.sample_type), (8, [1, 7, config2, config3], 3), "{size}");
                assert_eq!(attr.flags, 1 << 2 | SAMPLE_ID_ALL | USE_CLOCK, "{size} {order:?}");
                let half = if order == ByteOrder::Big { 11 } else { 0 };
                assert_eq!(attr.clock, (size > 92).then_some(half), "{size} {order:?}");
            }
        }
        assert_eq!(Attr::parse(&[0; 7], LITTLE), None);
    }
}
