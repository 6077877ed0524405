//! One pass over the records of a file.
//!
//! file, range of its records ─▶ **scan** ─▶ each record once, with decompressed ones in their place
//!
//! The bytes of trace are skipped by seeking. Where the size of a record is damaged, reading resumes at the next
//! AUXTRACE record that the index of the file has. What records mean is not known here.

use std::io::{self, Read, Seek};
use std::ops::Range;

use super::bytes::ByteOrder;
use super::compressed::Decompressor;
use super::input::Input;
use super::problem::Problems;
use super::record::{HEADER, Header, kind};

/// A record as it is in the file, or was compressed there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// Index of the file.
    pub(crate) file: usize,
    /// Offset of the record, or of the one that it was compressed in.
    pub(crate) place: u64,
    pub(crate) header: Header,
    /// The bytes after the header.
    pub(crate) bytes: &'a [u8],
    /// The payload that follows in the file, as far as the file has it.
    pub(crate) payload: (u64, u64),
}

/// Receiver of records.
pub(crate) trait Visit {
    fn visit(&mut self, found: &Found<'_>);

    fn problems(&mut self) -> &mut Problems;

    /// Whether nothing else is of use after this number of bytes of records.
    fn is_enough(&self, read: u64) -> bool;
}

/// A file to scan.
#[derive(Debug)]
pub(crate) struct Scan<'a, R> {
    pub(crate) input: &'a mut Input<R>,
    /// Index of the file.
    pub(crate) file: usize,
    pub(crate) order: ByteOrder,
    /// Offsets of AUXTRACE records, in ascending order.
    pub(crate) index: &'a [u64],
}

/// The bytes that a record takes.
struct Extent {
    header: Header,
    /// Size of the record with its header.
    size: u64,
    /// Number of bytes after it.
    payload: u64,
}

impl<R: Read + Seek> Scan<'_, R> {
    /// Visits all records of a range.
    pub(crate) fn run(&mut self, range: Range<u64>, to: &mut impl Visit) -> io::Result<()> {
        let mut decompressor = Decompressor::new(self.order);
        let (mut at, mut read) = (range.start, 0_u64);
        while at < range.end {
            if to.is_enough(read) {
                to.problems().unused(self.file, at, "no trace is described so far; the rest is not read");
                return Ok(());
            }
            let next = match self.extent(at)? {
                Some(extent) if at.saturating_add(extent.size) <= range.end => {
                    self.visit(at, &extent, &mut decompressor, to)?;
                    read = read.saturating_add(extent.size);
                    let next = at.saturating_add(extent.size).saturating_add(extent.payload);
                    self.check_next(at, next, range.end, to)?
                }
                damaged => {
                    let text = match damaged {
                        Some(extent) => format!("a record of {} bytes is cut short", extent.size),
                        None => "this is not a record".to_string(),
                    };
                    self.resume(at, &text, to)?
                }
            };
            at = next.unwrap_or(range.end);
        }
        if decompressor.unfinished() > 0 {
            to.problems().add(self.file, range.end, "the last compressed record has no end");
        }
        Ok(())
    }

    /// The bytes that the record at an offset takes; `None` if there is no record.
    fn extent(&mut self, at: u64) -> io::Result<Option<Extent>> {
        let order = self.order;
        let start = self.input.bytes(at, HEADER + 8)?;
        let first = order.u64(start, HEADER);
        if order.u32(start, 0) == Some(kind::COMPRESSED2) {
            return Ok(first.and_then(|data| compressed2(start, data, order)));
        }
        let Some(header) = Header::parse(start, order) else { return Ok(None) };
        let payload = match header.kind {
            kind::AUXTRACE => first.unwrap_or(0),
            kind::TRACING_DATA => order.u32(start, HEADER).unwrap_or(0).into(),
            _ => 0,
        };
        Ok(Some(Extent { header, size: header.size.into(), payload }))
    }

    fn visit(
        &mut self,
        at: u64,
        extent: &Extent,
        decompressor: &mut Decompressor,
        to: &mut impl Visit,
    ) -> io::Result<()> {
        let end = at.saturating_add(extent.size);
        let payload = (end, extent.payload.min(self.input.size().saturating_sub(end)));
        // The large records of simpleperf have nothing that is needed.
        let length = if extent.header.kind < kind::FIRST_OF_SIMPLEPERF { extent.size } else { HEADER as u64 };
        let record = self.input.bytes(at, usize::try_from(length).unwrap_or(0))?;
        let bytes = record.get(HEADER..).unwrap_or_default();
        let found = Found { file: self.file, place: at, header: extent.header, bytes, payload };
        to.visit(&found);
        let compressed = match extent.header.kind {
            kind::COMPRESSED => bytes,
            kind::COMPRESSED2 => {
                let length = self.order.u64(bytes, 0).and_then(|length| usize::try_from(length).ok());
                let data = bytes.get(8..).unwrap_or_default();
                length.and_then(|length| data.get(..length)).unwrap_or(data)
            }
            _ => return Ok(()),
        };
        let mut each = |header: Header, bytes: &[u8]| to.visit(&Found { header, bytes, ..found });
        if let Err(reason) = decompressor.feed(compressed, &mut each) {
            to.problems().add(self.file, at, format!("compressed records cannot be read from here on: {reason}"));
        }
        Ok(())
    }

    /// Where the next record is. A record that reaches over an indexed one has a damaged size.
    fn check_next(&mut self, at: u64, next: u64, end: u64, to: &mut impl Visit) -> io::Result<Option<u64>> {
        if let Some(indexed) = self.indexed_after(at).filter(|indexed| *indexed < next)
            && self.is_auxtrace(indexed)?
        {
            let text =
                format!("the record ends at {next:#x}, but another starts at {indexed:#x} according to the index");
            to.problems().add(self.file, at, text);
            return Ok(Some(indexed));
        }
        if next > end {
            to.problems().add(self.file, at, format!("the record ends at {next:#x}, after the data at {end:#x}"));
        }
        Ok(Some(next))
    }

    /// The next record that the index has, after damage.
    fn resume(&mut self, at: u64, text: &str, to: &mut impl Visit) -> io::Result<Option<u64>> {
        let first = self.index.partition_point(|offset| *offset <= at);
        // A damaged index must not be searched for each record.
        for &offset in self.index.get(first..).unwrap_or_default().iter().take(16) {
            if self.is_auxtrace(offset)? {
                to.problems().add(self.file, at, format!("{text}; reading resumes at {offset:#x}"));
                return Ok(Some(offset));
            }
        }
        to.problems().add(self.file, at, format!("{text}; the rest is not read"));
        Ok(None)
    }

    fn indexed_after(&self, at: u64) -> Option<u64> {
        self.index.get(self.index.partition_point(|offset| *offset <= at)).copied()
    }

    fn is_auxtrace(&mut self, at: u64) -> io::Result<bool> {
        let order = self.order;
        let header = Header::parse(self.input.bytes(at, HEADER)?, order);
        Ok(header.is_some_and(|header| header.kind == kind::AUXTRACE && header.size == 48))
    }
}

/// The extent of a COMPRESSED2 record. Some versions of perf write a size that does not fit into 16 bits: then the size
/// of the data is the right one, and there is no filling.
fn compressed2(start: &[u8], data: u64, order: ByteOrder) -> Option<Extent> {
    const HEAD: u64 = HEADER as u64 + 8;
    const LIMIT: u64 = 1 << 20;
    let (misc, written) = (order.u16(start, 4)?, u64::from(order.u16(start, 6)?));
    let size = written.max(HEAD.checked_add(data).filter(|size| *size <= LIMIT)?);
    let header = Header { kind: kind::COMPRESSED2, misc, size: u32::try_from(size).ok()? };
    Some(Extent { header, size, payload: 0 })
}
