//! Traces one after the other, as one trace.
//!
//! headers, then the records of each trace ─▶ **merger** ─▶ records
//!
//! The header is that of the first trace, with the features of all. Each further trace starts with its address, its process and its
//! encoding mode; its page table walks, which number instructions, are renumbered. Its privilege mode is unknown until it
//! records one. All traces must have the same instruction set and the same layout of records.
//! Specification: STF 1.3, "STF File Anatomy": a tool that modifies a file updates its header.

use std::ops::ControlFlow;

use super::header::Header;
use super::layout::Layout;
use super::names;
use super::record::{PageTableWalk, Record, descriptor};
use super::sign::HeaderRecords;

/// The header of a trace to be merged.
#[derive(Debug, Clone, Default)]
pub struct Part {
    fields: Header,
    records: HeaderRecords,
    layout: Layout,
}

impl Part {
    /// Takes the next record of the header, from the first of the file. Breaks at its end.
    pub fn push(&mut self, record: &Record<'_>) -> ControlFlow<()> {
        if record.descriptor() > descriptor::END_HEADER {
            return ControlFlow::Break(());
        }
        self.layout.follow(record);
        self.fields.push(record);
        self.records.push(record);
        if self.fields.is_complete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Why traces cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is no end of the header.
    #[error("the header of the trace has no end")]
    NoHeader,
    /// It is a trace of transactions.
    #[error("this is a trace of transactions; only traces of instructions can be merged")]
    Transactions,
    /// Another instruction set than the first trace.
    #[error("the instruction set is {found}, and {first} in the first trace")]
    Isa {
        /// The instruction set.
        found: String,
        /// That of the first trace.
        first: String,
    },
    /// Records have other lengths than in the first trace.
    #[error("{0} differs from the first trace")]
    Layout(&'static str),
}

/// Merges the records of traces.
#[derive(Debug)]
pub struct Merger {
    parts: std::vec::IntoIter<Part>,
    /// Records of the header of the current trace are still to come.
    is_header: bool,
    /// What the next instruction starts with, in the order of descriptors.
    pending: Vec<Record<'static>>,
    iem: Option<u16>,
    process: Option<[u32; 3]>,
    /// Instructions of the traces before the current one, and of all so far.
    before: u64,
    instructions: u64,
}

impl Merger {
    /// Checks the headers, and writes the header of the whole.
    ///
    /// # Errors
    ///
    /// The index of a trace that does not fit, and why.
    pub fn new(parts: Vec<Part>, is_signed: bool, out: &mut Vec<u8>) -> Result<Self, (usize, MergeError)> {
        for (index, part) in parts.iter().enumerate() {
            check(part, &parts[0]).map_err(|error| (index, error))?;
        }
        if let Some(first) = parts.first() {
            let features = parts.iter().filter_map(|part| part.fields.features).reduce(|all, more| all | more);
            let mut records = first.records.clone();
            features.into_iter().for_each(|features| records.put(&Record::TraceInfoFeature(features)));
            if is_signed {
                records.sign();
            }
            records.encode(out);
        }
        let parts = parts.into_iter();
        Ok(Self { parts, is_header: true, pending: Vec::new(), iem: None, process: None, before: 0, instructions: 0 })
    }

    /// Starts the next trace, whose records follow from its first on.
    pub fn begin(&mut self) {
        let Some(Part { fields, .. }) = self.parts.next() else { return };
        let is_first = self.iem.is_none() && self.instructions == 0;
        (self.is_header, self.before) = (true, self.instructions);
        self.pending.clear();
        if !is_first {
            let iem = fields.iem.filter(|iem| Some(*iem) != self.iem).map(Record::InstIem);
            let process = fields.process.filter(|ids| Some(*ids) != self.process).map(Record::ProcessIdExt);
            self.pending.extend(iem.into_iter().chain(process).chain(fields.pc.map(Record::ForcePc)));
        }
        (self.iem, self.process) = (fields.iem.or(self.iem), fields.process.or(self.process));
    }

    /// Number of instructions so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Appends the next record of the current trace.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        if self.is_header && record.descriptor() <= descriptor::END_HEADER {
            self.is_header = *record != Record::EndHeader;
            return;
        }
        self.is_header = false;
        self.write_pending(record.descriptor(), out);
        match record {
            Record::InstOpcode16(_) | Record::InstOpcode32(_) => self.instructions += 1,
            Record::InstIem(iem) => self.iem = Some(*iem),
            Record::ProcessIdExt(ids) => self.process = Some(*ids),
            Record::PageTableWalk(walk) => {
                let first_use = walk.first_use.saturating_add(self.before);
                return Record::PageTableWalk(PageTableWalk { first_use, ..*walk }).encode(out);
            }
            _ => {}
        }
        record.encode(out);
    }

    /// Writes what comes before a record with this descriptor. What the trace records itself is not needed.
    fn write_pending(&mut self, next: u8, out: &mut Vec<u8>) {
        if self.pending.is_empty() {
            return;
        }
        self.pending.retain(|record| {
            if record.descriptor() < next {
                record.encode(out);
            }
            record.descriptor() > next
        });
    }
}

fn check(part: &Part, first: &Part) -> Result<(), MergeError> {
    let name = |isa: Option<u16>| {
        let isa = isa.unwrap_or(0);
        names::isa(isa).map_or_else(|| format!("number {isa}"), str::to_string)
    };
    match () {
        () if !part.fields.is_complete => Err(MergeError::NoHeader),
        () if part.fields.has_transactions() => Err(MergeError::Transactions),
        () if part.fields.isa != first.fields.isa => {
            Err(MergeError::Isa { found: name(part.fields.isa), first: name(first.fields.isa) })
        }
        () if part.layout.has_wide_events() != first.layout.has_wide_events() => {
            Err(MergeError::Layout("the width of event numbers"))
        }
        () if part.layout.vlen() != first.layout.vlen() => Err(MergeError::Layout("the length of vector registers")),
        () => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]
mod tests {
    use super::*;

    const START: [Record<'_>; 3] = [Record::Isa(1), Record::InstIem(2), Record::TraceInfoFeature(0x20)];
    const NOP: Record<'_> = Record::InstOpcode32(0x13);

    fn trace<'r>(header: &[Record<'r>], body: &[Record<'r>]) -> Vec<Record<'r>> {
        [&START, header, &[Record::EndHeader], body].concat()
    }

    fn merged(traces: &[Vec<Record<'_>>]) -> Result<Vec<u8>, (usize, MergeError)> {
        let parts = traces.iter().map(|records| {
            let mut part = Part::default();
            let _ = records.iter().try_for_each(|record| part.push(record));
            part
        });
        let mut out = Vec::new();
        let mut merger = Merger::new(parts.collect(), false, &mut out)?;
        for records in traces {
            merger.begin();
            records.iter().for_each(|record| merger.record(record, &mut out));
        }
        Ok(out)
    }

    fn encoded(records: &[Record<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        bytes
    }

    #[test]
    fn further_traces_start_with_their_state() {
        let walk = |first_use| {
            Record::PageTableWalk(PageTableWalk { address: 0x2000, first_use, page_size: 4096, entries: &[] })
        };
        let (at_first, at_second) = (Record::ForcePc(0x1000), Record::ForcePc(0x2000));
        let first = trace(&[at_first], &[NOP, NOP]);
        let second = trace(&[Record::ProcessIdExt([0, 1, 2]), at_second], &[walk(1), NOP, NOP]);
        let third = trace(&[Record::ProcessIdExt([0, 1, 2]), at_second], &[Record::ForcePc(0x3000), NOP]);
        let body =
            [NOP, NOP, Record::ProcessIdExt([0, 1, 2]), at_second, walk(3), NOP, NOP, Record::ForcePc(0x3000), NOP];
        assert_eq!(merged(&[first, second, third]).unwrap(), encoded(&trace(&[at_first], &body)));
    }

    #[test]
    fn headers_must_fit() {
        let good = trace(&[], &[NOP]);
        let rows = [
            (
                vec![Record::Isa(2), Record::EndHeader],
                1,
                MergeError::Isa { found: "Arm".into(), first: "RISC-V".into() },
            ),
            (trace(&[Record::VlenConfig(256)], &[]), 1, MergeError::Layout("the length of vector registers")),
            (trace(&[Record::ProtocolId(1)], &[]), 1, MergeError::Transactions),
            (START.to_vec(), 1, MergeError::NoHeader),
        ];
        for (other, index, error) in rows {
            assert_eq!(merged(&[good.clone(), other]), Err((index, error)));
        }
    }
}
