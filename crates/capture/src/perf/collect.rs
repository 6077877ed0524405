//! Gathers what the records of all files contain.
//!
//! records ─▶ **collector** ─▶ units, sessions, events, losses, counts
//!
//! Everything that refers to other records is resolved at the end: those may come later, or be in another file.

use std::collections::BTreeMap;

use super::attr::{Attr, Attrs};
use super::bytes::ByteOrder;
use super::events::{At, Events};
use super::feature::{Features, build_id};
use super::info::{Info, Unit};
use super::order::order;
use super::problem::Problems;
use super::record::{Body, Record, kind};
use super::scan::{Found, Visit};
use super::sessions::{Aux, Part, Piece, Session, sessions};
use super::{Loss, PerfData};
use crate::clock::TimeConversion;

/// Maximum number of record types that are counted each; those of real files are fewer than a hundred.
const KIND_LIMIT: usize = 1 << 10;

/// Maximum number of AUX records and of AUXTRACE records.
const AUX_LIMIT: usize = 4 << 20;

/// Bytes of records that are read without a description of trace. Recorders write it before everything that grows.
const READ_LIMIT: u64 = 256 << 20;

/// Maximum number of reports of lost records and of trace IDs.
const REPORT_LIMIT: usize = 1 << 20;

/// Number of the last feature; a larger one ends the list in a stream.
const LAST_FEATURE: u64 = 255;

/// What was found so far.
#[derive(Debug)]
pub(crate) struct Collector {
    order: ByteOrder,
    is_pipe: bool,
    attrs: Attrs,
    pub(crate) features: Features,
    pub(crate) problems: Problems,
    counts: BTreeMap<u32, u64>,
    info: Option<Info>,
    hardware_ids: Vec<HardwareId>,
    aux: Vec<Aux>,
    pieces: Vec<Piece>,
    events: Events,
    losses: Vec<Loss>,
    time_conversion: Option<TimeConversion>,
    /// Limits that were reached, which is reported once for each.
    reached: Vec<&'static str>,
}

/// The trace ID of a CPU, as the kernel reported it.
#[derive(Debug, Clone, Copy)]
struct HardwareId {
    cpu: u32,
    value: u64,
    file: usize,
    place: u64,
}

impl Visit for Collector {
    fn visit(&mut self, found: &Found<'_>) {
        let kind = found.header.kind;
        if self.counts.len() < KIND_LIMIT || self.counts.contains_key(&kind) {
            *self.counts.entry(kind).or_default() += 1;
        }
        match kind {
            kind::SAMPLE | kind::FIRST_OF_SIMPLEPERF.. => {}
            kind::FIRST_OF_TOOLS.. => self.tool_record(found),
            _ => self.kernel_record(found),
        }
    }

    fn problems(&mut self) -> &mut Problems {
        &mut self.problems
    }

    fn is_enough(&self, read: u64) -> bool {
        read > READ_LIMIT && self.info.is_none()
    }
}

impl Collector {
    pub(crate) fn new(order: ByteOrder, is_pipe: bool, attrs: Attrs, features: Features, problems: Problems) -> Self {
        Self {
            order,
            is_pipe,
            attrs,
            features,
            problems,
            counts: BTreeMap::new(),
            info: None,
            hardware_ids: Vec::new(),
            aux: Vec::new(),
            pieces: Vec::new(),
            events: Events::default(),
            losses: Vec::new(),
            time_conversion: None,
            reached: Vec::new(),
        }
    }

    fn kernel_record(&mut self, found: &Found<'_>) {
        let (bytes, trailer, attr) = self.attrs.split(found.bytes, self.order);
        let record = Record { kind: found.header.kind, misc: found.header.misc, bytes, order: self.order };
        let Some(body) = record.body() else { return self.too_short(found) };
        let at = At { place: found.place, trailer };
        let (file, place, cpu, time) = (found.file, found.place, trailer.cpu, at.time());
        match body {
            Body::Aux { offset, size, flags } => {
                if self.has_room(self.aux.len() < AUX_LIMIT, "AUX records", found) {
                    let tid = trailer.tid;
                    self.aux.push(Aux { file, place, offset, size, flags, cpu, tid, time, attr });
                }
            }
            Body::HwId(value) => match cpu {
                None => self.problems.add(file, place, "a trace ID is reported for an unknown CPU"),
                Some(cpu) => {
                    if self.has_room(self.hardware_ids.len() < REPORT_LIMIT, "trace IDs", found) {
                        self.hardware_ids.push(HardwareId { cpu, value, file, place });
                    }
                }
            },
            Body::Lost { count } => {
                if self.has_room(self.losses.len() < REPORT_LIMIT, "lost records", found) {
                    self.losses.push(Loss { file, offset: place, count, time });
                }
            }
            body => {
                if let Err(reason) = self.events.add(&record, &body, at) {
                    self.problems.unused(file, place, reason);
                }
                self.has_room(!self.events.is_full(), "system events", found);
            }
        }
    }

    fn tool_record(&mut self, found: &Found<'_>) {
        let (order, bytes) = (self.order, found.bytes);
        let record = Record { kind: found.header.kind, misc: found.header.misc, bytes, order };
        match found.header.kind {
            kind::HEADER_ATTR if self.is_pipe => match Attr::parse(bytes, order) {
                None => self.too_short(found),
                Some((attr, size)) => {
                    let has_room = self.attrs.add(attr, order.words(bytes.get(size..).unwrap_or_default()));
                    self.has_room(has_room, "event attributes", found);
                }
            },
            kind::HEADER_FEATURE => {
                let feature = order.u64(bytes, 0).filter(|feature| *feature <= LAST_FEATURE);
                if let Some(feature) = feature.and_then(|feature| u32::try_from(feature).ok()) {
                    self.features.read(feature, bytes.get(8..).unwrap_or_default(), order);
                }
            }
            kind::BUILD_ID => {
                let has_room = self.features.build_ids.len() < REPORT_LIMIT;
                if self.has_room(has_room, "build IDs", found) {
                    self.features.build_ids.extend(build_id(found.header.misc, bytes));
                }
            }
            kind::AUXTRACE_INFO => self.read_info(found),
            _ => match record.body() {
                None => self.too_short(found),
                Some(Body::Auxtrace(auxtrace)) => {
                    let (offset, length) = found.payload;
                    if length < auxtrace.size {
                        let text = format!("of {} bytes of trace, {length} are in the file", auxtrace.size);
                        self.problems.add(found.file, found.place, text);
                    }
                    if self.has_room(self.pieces.len() < AUX_LIMIT, "AUXTRACE records", found) {
                        let part = Part { file: found.file, offset, length };
                        let (cpu, tid, start) = (auxtrace.cpu, auxtrace.tid, auxtrace.offset);
                        self.pieces.push(Piece { cpu, tid, place: found.place, start, part });
                    }
                }
                Some(Body::TimeConv(conversion)) => self.time_conversion = Some(conversion),
                Some(_) => {}
            },
        }
    }

    fn read_info(&mut self, found: &Found<'_>) {
        let Some(mut info) = Info::parse(found.bytes, self.order) else { return self.too_short(found) };
        for text in std::mem::take(&mut info.problems) {
            self.problems.add(found.file, found.place, text);
        }
        match self.info {
            None => self.info = Some(info),
            Some(_) => {
                self.problems.add(found.file, found.place, "the trace units are described again; the first is used");
            }
        }
    }

    fn too_short(&mut self, found: &Found<'_>) {
        let text = format!("a record of type {} has only {} bytes", found.header.kind, found.bytes.len());
        self.problems.add(found.file, found.place, text);
    }

    /// Reports once that there is no room for more of something.
    fn has_room(&mut self, has_room: bool, what: &'static str, found: &Found<'_>) -> bool {
        if !has_room && !self.reached.contains(&what) {
            self.reached.push(what);
            self.problems.add(found.file, found.place, format!("too many {what}; the rest are ignored"));
        }
        has_room
    }

    /// Resolves what refers to other records.
    pub(crate) fn finish(mut self) -> PerfData {
        let units = self.units();
        let is_coresight = self.info.as_ref().is_some_and(Info::is_coresight);
        let sessions = if is_coresight { self.sessions() } else { Vec::new() };
        PerfData {
            order: self.order,
            is_pipe: self.is_pipe,
            trace_kind: self.info.as_ref().map(|info| info.kind),
            events: order(self.events.finish(&self.features)),
            attrs: self.attrs.into_list(),
            features: self.features,
            units,
            sessions,
            losses: self.losses,
            time_conversion: self.time_conversion,
            problems: self.problems.into_list(),
            counts: self.counts,
            files: Vec::new(),
        }
    }

    /// The units, with the trace IDs that the kernel reported.
    fn units(&mut self) -> Vec<Unit> {
        let mut units = self.info.as_mut().map(|info| std::mem::take(&mut info.units)).unwrap_or_default();
        let by_cpu: BTreeMap<u32, usize> = units.iter().enumerate().map(|(index, unit)| (unit.cpu, index)).collect();
        for id in &self.hardware_ids {
            let Some(unit) = by_cpu.get(&id.cpu).and_then(|&index| units.get_mut(index)) else {
                self.problems.add(id.file, id.place, format!("CPU {} has a trace ID but no trace unit", id.cpu));
                continue;
            };
            if unit.set_hardware_id(id.value) {
                let text = format!("CPU {} has another trace ID ({:#x}); the first is used", id.cpu, id.value);
                self.problems.add(id.file, id.place, text);
            }
        }
        units
    }

    /// The sessions of the trace units; other events may have trace of another kind.
    fn sessions(&self) -> Vec<Session> {
        let pmu = self.info.as_ref().map(|info| info.pmu);
        let is_ours = |attr: &Attr| Some(attr.kind) == pmu;
        let attrs = self.attrs.list();
        let is_known = attrs.iter().any(is_ours);
        let is_of_units = |aux: &&Aux| !is_known || attrs.get(aux.attr).is_none_or(is_ours);
        let records: Vec<Aux> = self.aux.iter().filter(is_of_units).copied().collect();
        sessions(&records, &self.pieces)
    }
}
