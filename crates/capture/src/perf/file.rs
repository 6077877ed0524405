//! The beginning of a perf.data file: header, attributes and feature sections.
//!
//! file ─▶ **file** ─▶ byte order, attributes, features, and where the records are
//!
//! A file that was written to a pipe has a short header and nothing but records; its attributes and features are records,
//! which this module does not read.

use std::io::{self, Read, Seek};
use std::ops::Range;

use super::attr::{Attr, Attrs};
use super::bytes::ByteOrder;
use super::feature::Features;
use super::input::Input;
use super::problem::Problems;

/// Size of the header of a file, and of that of a stream.
const HEADER: usize = 104;
const PIPE_HEADER: u64 = 16;

/// Offset of the bits of features in the header.
const BITMAP: usize = 72;

/// Maximum number of bytes of a feature section that are read.
const SECTION_LIMIT: u64 = 64 << 20;

/// Maximum number of bytes of the attributes, and of the ids of one.
const ATTRS_LIMIT: u64 = 4 << 20;
const IDS_LIMIT: u64 = 8 << 20;

/// Sizes of an attribute with the range of its ids.
const ENTRY_MIN: usize = 64 + 16;
const ENTRY_MAX: usize = 4 << 10;

/// What is known before the first record.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) order: ByteOrder,
    /// Whether the file has a stream header: its attributes are among the records.
    pub(crate) is_pipe: bool,
    pub(crate) attrs: Attrs,
    pub(crate) features: Features,
    /// The records.
    pub(crate) data: Range<u64>,
}

/// The byte order of a file that starts with these bytes; `None` if it is not a perf.data file of version 2.
pub(crate) fn byte_order(start: &[u8]) -> Option<ByteOrder> {
    match start.get(..8)? {
        b"PERFILE2" => Some(ByteOrder::Little),
        b"2ELIFREP" => Some(ByteOrder::Big),
        _ => None,
    }
}

impl Beginning {
    /// Reads everything that precedes or follows the records. `None`: not a perf.data file.
    pub(crate) fn read<R: Read + Seek>(input: &mut Input<R>, problems: &mut Problems) -> io::Result<Option<Self>> {
        let size = input.size();
        let header = input.bytes(0, HEADER)?.to_vec();
        let Some(order) = byte_order(&header) else { return Ok(None) };
        let word = |at| order.u64(&header, at);
        let (attrs, features) = (Attrs::default(), Features::default());
        if word(8) == Some(PIPE_HEADER) {
            return Ok(Some(Self { order, is_pipe: true, attrs, features, data: PIPE_HEADER..size }));
        }
        let mut beginning = Self { order, is_pipe: false, attrs, features, data: 0..0 };
        let (Some(start), Some(length)) = (word(40), word(48)) else {
            problems.add(0, 0, "the header is cut short");
            return Ok(Some(beginning));
        };
        beginning.data = data_section(start, length, size, problems);
        beginning.read_attrs(input, &header, problems)?;
        beginning.read_features(input, &header, start.saturating_add(length), problems)?;
        Ok(Some(beginning))
    }

    fn read_attrs<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        header: &[u8],
        problems: &mut Problems,
    ) -> io::Result<()> {
        let order = self.order;
        let word = |at| order.u64(header, at).unwrap_or(0);
        let (entry, start, length) = (word(16), word(24), word(32));
        let bytes = section(input, start, length.min(ATTRS_LIMIT))?;
        let is_cut = (bytes.len() as u64) < length;
        let entry = usize::try_from(entry).ok().filter(|entry| (ENTRY_MIN..=ENTRY_MAX).contains(entry));
        let Some(entry) = entry else {
            problems.add(0, 16, format!("{} bytes is no size of an event attribute", word(16)));
            return Ok(());
        };
        if is_cut {
            problems.add(0, 24, format!("{length} bytes of event attributes at {start:#x} are not all there"));
        }
        for (index, bytes) in bytes.chunks_exact(entry).enumerate() {
            let (attr, ids) = bytes.split_at(entry - 16);
            let place = start.saturating_add((index * entry) as u64);
            let Some((attr, _)) = Attr::parse(attr, order) else { continue };
            let (at, length) = (order.u64(ids, 0).unwrap_or(0), order.u64(ids, 8).unwrap_or(0));
            let room = 8 * self.attrs.room() as u64;
            let ids = section(input, at, length.min(IDS_LIMIT).min(room))?;
            if (ids.len() as u64) < length.min(room) {
                problems.add(0, place, format!("{length} bytes of event ids at {at:#x} are not all there"));
            }
            if !self.attrs.add(attr, order.words(&ids)) {
                problems.add(0, place, "too many event attributes; the rest are ignored");
                break;
            }
        }
        Ok(())
    }

    /// The table of features is after the data; it has an entry for each bit that is set in the header.
    fn read_features<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        header: &[u8],
        table: u64,
        problems: &mut Problems,
    ) -> io::Result<()> {
        let order = self.order;
        let bits = (0..256_u32).filter(|bit| {
            order.u64(header, BITMAP + 8 * (bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
        });
        for (index, feature) in (0_u64..).zip(bits).filter(|(_, feature)| Features::reads(*feature)) {
            let place = table.saturating_add(16 * index);
            let entry = section(input, place, 16)?;
            let (Some(at), Some(length)) = (order.u64(&entry, 0), order.u64(&entry, 8)) else {
                problems.add(0, BITMAP as u64, format!("the table of features at {table:#x} is cut short"));
                break;
            };
            let bytes = section(input, at, length.min(SECTION_LIMIT))?;
            if (bytes.len() as u64) < length {
                let text =
                    format!("feature {feature} has {length} bytes at {at:#x}, of which {} are read", bytes.len());
                problems.add(0, place, text);
            }
            self.features.read(feature, &bytes, order);
        }
        Ok(())
    }
}

/// The range of the records. A recorder that was killed leaves a size of zero.
fn data_section(start: u64, length: u64, size: u64, problems: &mut Problems) -> Range<u64> {
    let end = start.saturating_add(length);
    if length == 0 && start < size {
        problems.add(0, 48, "the size of the data is 0: the recorder was stopped before it finished the file");
        return start..size;
    }
    if end > size {
        problems.add(0, 48, format!("the data ends at {end:#x}, after the end of the file at {size:#x}"));
    }
    start.min(size)..end.min(size)
}

fn section<R: Read + Seek>(input: &mut Input<R>, at: u64, length: u64) -> io::Result<Vec<u8>> {
    Ok(input.bytes(at, usize::try_from(length).unwrap_or(0))?.to_vec())
}
