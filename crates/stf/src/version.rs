//! Records of one version of STF as records of another.
//!
//! records ─▶ **rewriter** ─▶ records of the other version, and losses
//!
//! Changes the version, the width of event numbers, and drops what the older version has no record for. Version 1.3 is
//! the published specification; 1.6 is what tools write. The header records that the file was changed. Version 1.3 has
//! no transactions, so a trace of transactions cannot be written in it.
//! Specification: STF 1.3, "ChangeLog" and "VersionRecord", and what tools of version 1.6 write.

use std::collections::BTreeMap;

use super::builder::{Features, StfVersion};
use super::record::{Event, Record, Register, descriptor};
use super::sign::HeaderRecords;

/// Rewrites records, starting with the first of a file.
///
/// ```
/// use unspool_stf::Record;
/// use unspool_stf::builder::StfVersion;
/// use unspool_stf::version::Rewriter;
///
/// let (mut rewriter, mut bytes) = (Rewriter::new(StfVersion::V1_3), Vec::new());
/// for record in [Record::Identifier(*b"STF"), Record::VlenConfig(256), Record::EndHeader] {
///     rewriter.record(&record, &mut bytes);
/// }
/// assert!(rewriter.losses().eq([("length of vector registers", 1)]));
/// ```
#[derive(Debug, Default)]
pub struct Rewriter {
    version: StfVersion,
    /// The header, until it ends.
    header: Option<HeaderRecords>,
    features: Features,
    is_rv64: bool,
    wide: bool,
    losses: BTreeMap<&'static str, u64>,
    is_impossible: bool,
}

impl Rewriter {
    /// A rewriter at the start of a file.
    pub fn new(version: StfVersion) -> Self {
        Self { version, header: Some(HeaderRecords::default()), ..Self::default() }
    }

    /// The version to write.
    pub fn version(&self) -> StfVersion {
        self.version
    }

    /// Does this version have no records for this kind of trace?
    pub fn is_impossible(&self) -> bool {
        self.is_impossible
    }

    /// Names and counts of dropped items, in alphabetical order.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.losses.iter().map(|(what, count)| (*what, *count))
    }

    /// Appends the next record in this version. The header is appended when it ends.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        if self.header.is_none() {
            return self.body(record, out);
        }
        match record {
            Record::EndHeader => {
                self.end_header(out);
                record.encode(out);
            }
            // The header should have ended.
            _ if record.descriptor() > descriptor::END_HEADER => {
                self.end_header(out);
                self.body(record, out);
            }
            _ => self.header_record(record),
        }
    }

    fn is_old(&self) -> bool {
        self.version == StfVersion::V1_3
    }

    fn drop_record(&mut self, what: &'static str) {
        *self.losses.entry(what).or_default() += 1;
    }

    fn header_record(&mut self, record: &Record<'_>) {
        match record {
            Record::Version { .. } => self.keep(&Record::Version { major: 1, minor: self.version.minor() }),
            Record::TraceInfoFeature(features) => {
                self.features = Features(*features);
                self.is_rv64 |= self.features.has(Features::RV64);
                // The final features are known when the header ends.
                self.keep(record);
            }
            Record::InstIem(iem) => {
                self.is_rv64 |= *iem == 2;
                self.keep(record);
            }
            Record::VlenConfig(_) if self.is_old() => self.drop_record("length of vector registers"),
            Record::IsaExtended(_) if self.is_old() => self.drop_record("list of extensions"),
            Record::ProtocolId(_) | Record::ClockId { .. } if self.is_old() => self.is_impossible = true,
            _ => self.keep(record),
        }
    }

    fn keep(&mut self, record: &Record<'_>) {
        if let Some(header) = &mut self.header {
            header.push(record);
        }
    }

    fn end_header(&mut self, out: &mut Vec<u8>) {
        let Some(mut header) = self.header.take() else { return };
        let was_wide = self.features.has(Features::EVENT64);
        // All tools since 1.5 write wide events for RV64.
        self.wide = !self.is_old() && (was_wide || self.is_rv64);
        let mut features = self.features.without(Features::EVENT64);
        if self.wide {
            features = features | Features::EVENT64;
        }
        if self.is_old() {
            features = features.without(Features::VEC);
        }
        let record = Record::TraceInfoFeature(features.0);
        // Without features, nothing would announce wide events.
        if !header.replace(&record) && self.wide {
            header.insert_after(descriptor::TRACE_INFO_FEATURE, &record);
        }
        header.sign();
        header.encode(out);
    }

    fn body(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        match record {
            Record::Event(event) if event.is_wide != self.wide => self.event(event, out),
            Record::InstReg(register) if self.is_old() && register.kind() == Register::VECTOR => {
                self.drop_record("vector register");
            }
            Record::Transaction(_) | Record::TransactionDependency { .. } if self.is_old() => self.is_impossible = true,
            _ => record.encode(out),
        }
    }

    /// Writes an event with a number of the other width.
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let id = event.id();
        if !self.wide && id >> 30 != 0 {
            return self.drop_record("event whose number has more than 30 bits");
        }
        let top = if self.wide { 63 } else { 31 };
        let raw = u64::from(event.is_interrupt()) << top | u64::from(event.is_special()) << (top - 1) | id;
        Record::Event(Event { raw, is_wide: self.wide, data: event.data }).encode(out);
    }
}
