//! Diagnosis of a capture: what is wrong with it, what it costs, and how to record a better one.
//!
//! ```text
//! capture ─▶ overview: frames, packets, elements ─┐
//! traces + programs ─▶ flow, counted ─────────────┴─▶ findings, by topic
//! ```
//!
//! Takes a capture and the program of each trace; produces findings with evidence and remedies, and a verdict. Counts and
//! first offsets are kept, not the trace. Does not know how programs are found, nor the terminal.

mod buffers;
mod code;
mod configuration;
mod execution;
mod loss;
mod notes;
mod synchronization;

use std::collections::BTreeMap;
use std::fmt;

use unspool_capture::{Capture, ImageNotFound, Note, Source};
use unspool_coresight::{Assumption, Features, PacketKind, Protocol};

use self::execution::{Execution, Position};
use crate::number::many;
use crate::{Error, Overview, Program, SyncSpacing, Trace, TraceOverview, overview};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Trace that was recorded is lost, cannot be decoded, or is decoded with the wrong code.
    Problem,
    /// Another recording would be more complete, smaller or more certain.
    Advice,
    /// As it should be.
    Fine,
}

impl Severity {
    /// All, the most serious first.
    pub const ALL: [Self; 3] = [Self::Problem, Self::Advice, Self::Fine];

    /// The name in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Advice => "advice",
            Self::Fine => "fine",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that is wrong, could be better, or is as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// Stable name of its subject: `missing-image`.
    pub topic: &'static str,
    /// One sentence.
    pub title: String,
    /// Numbers, with their places.
    pub evidence: Vec<Evidence>,
    /// What to do, the most likely remedy first.
    pub remedies: Vec<String>,
}

/// A line of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The name of the source, buffer or file that it is about; `None`: the whole capture.
    pub place: Option<String>,
    /// The name of the buffer, if the capture has several.
    pub buffer: Option<String>,
    /// The first offset in the buffer, or in the file.
    pub offset: Option<u64>,
    /// What was counted.
    pub text: String,
}

impl Finding {
    fn new(severity: Severity, topic: &'static str, title: impl Into<String>) -> Self {
        Self { severity, topic, title: title.into(), evidence: Vec::new(), remedies: Vec::new() }
    }

    fn with(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    fn remedy(mut self, text: impl Into<String>) -> Self {
        self.remedies.push(text.into());
        self
    }
}

impl Evidence {
    fn new(text: impl Into<String>) -> Self {
        Self { place: None, buffer: None, offset: None, text: text.into() }
    }

    fn at(place: impl Into<String>, offset: Option<u64>, text: impl Into<String>) -> Self {
        Self { place: Some(place.into()), buffer: None, offset, text: text.into() }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if let Some(buffer) = &self.buffer {
            write!(f, "buffer {buffer}: ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "offset {offset:#x}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// Result of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnosis {
    /// Findings, the most serious first.
    pub findings: Vec<Finding>,
    /// Sources that have trace.
    pub sources: u64,
    /// Bytes of all sources.
    pub bytes: u64,
    /// Instructions that were decoded.
    pub instructions: u64,
    /// Elements of software trace that were decoded.
    pub written: u64,
    /// P0 elements of the trace.
    pub elements: u64,
    /// P0 elements that were followed through the code.
    pub followed: u64,
}

impl Diagnosis {
    /// Number of findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// The verdict in one line: how much of the trace was decoded.
    pub fn verdict(&self) -> String {
        let [instructions, bytes, sources] =
            [(self.instructions, "instruction"), (self.bytes, "byte"), (self.sources, "source")]
                .map(|(count, name)| many(count, name));
        match percent(self.followed, self.elements) {
            None if self.written > 0 => {
                let written = many(self.written, "element");
                format!("{written} of software trace decoded, from {bytes} of {sources}")
            }
            None if self.instructions == 0 => format!("nothing was decoded: no P0 element in {bytes} of {sources}"),
            // The instructions before an exception.
            None => format!("no P0 element in the trace: {instructions} from {bytes} of {sources}"),
            Some(share) => {
                let elements = many(self.elements, "P0 element");
                format!("{share} of {elements} decoded: {instructions} from {bytes} of {sources}")
            }
        }
    }
}

/// A share, rounded toward zero so that only all is 100%. `None`: a share of nothing.
fn percent(part: u64, all: u64) -> Option<String> {
    let thousandths = (u128::from(part) * 1000).checked_div(u128::from(all))?;
    Some(match thousandths {
        1000.. => "100%".to_string(),
        _ => format!("{}.{}%", thousandths / 10, thousandths % 10),
    })
}

/// Whether a share is at least this percentage.
fn is_share(part: u64, all: u64, percentage: u64) -> bool {
    all > 0 && u128::from(part) * 100 >= u128::from(all) * u128::from(percentage)
}

/// Examination of a capture.
#[derive(Debug)]
pub struct Doctor<'c> {
    capture: &'c Capture,
    overview: Overview<'c>,
    sources: Vec<Examined<'c>>,
    /// Why images were not found, by name.
    not_found: BTreeMap<String, ImageNotFound>,
    /// Notes on images.
    notes: Vec<Note>,
}

/// One source, in all of its buffers.
#[derive(Debug)]
struct Examined<'c> {
    capture: &'c Capture,
    source: &'c Source,
    features: Features,
    assumed: Vec<Assumption>,
    bytes: u64,
    kind_bytes: BTreeMap<PacketKind, u64>,
    syncs: SyncSpacing,
    unsynchronized_bytes: u64,
    /// First and last timestamp.
    time: Option<(u64, u64)>,
    execution: Execution,
    /// Why it could not be read.
    failure: Option<Error>,
}

impl<'c> Examined<'c> {
    fn new(capture: &'c Capture, source: &'c Source) -> Self {
        Self {
            capture,
            source,
            features: Features::default(),
            assumed: Vec::new(),
            bytes: 0,
            kind_bytes: BTreeMap::new(),
            syncs: SyncSpacing::default(),
            unsynchronized_bytes: 0,
            time: None,
            execution: Execution::default(),
            failure: None,
        }
    }

    fn add(&mut self, overview: &TraceOverview) {
        self.features = overview.features.clone();
        self.assumed.clone_from(&overview.assumed);
        self.bytes += overview.bytes;
        for (kind, bytes) in &overview.kind_bytes {
            *self.kind_bytes.entry(*kind).or_default() += bytes;
        }
        if overview.bytes > 0 {
            self.syncs.append(&overview.syncs);
        }
        self.unsynchronized_bytes += overview.unsynchronized_bytes;
        self.time = match (self.time, overview.time) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (known, new) => known.or(new),
        };
    }

    /// Is it trace without instructions: of software, or of data?
    fn is_software(&self) -> bool {
        matches!(self.source.protocol, Some(Protocol::Itm | Protocol::Stm | Protocol::Etm4Data))
    }

    /// The value of a register, if the capture has it.
    fn register(&self, name: &str) -> Option<u64> {
        self.source.registers.get(name)
    }

    /// A bit of TRCCONFIGR, if the capture has the register.
    fn is_configured(&self, bit: u32) -> Option<bool> {
        self.register("TRCCONFIGR").map(|value| value >> bit & 1 == 1)
    }

    /// Evidence about this source, at a position in one of its buffers.
    fn evidence(&self, at: Option<Position>, text: impl Into<String>) -> Evidence {
        let evidence = Evidence::at(&self.source.name, at.map(|at| at.offset), text);
        let buffer = at.filter(|_| self.capture.buffers.len() > 1).and_then(|at| self.capture.buffers.get(at.buffer));
        Evidence { buffer: buffer.map(|buffer| buffer.name.clone()), ..evidence }
    }
}

impl<'c> Doctor<'c> {
    /// Reads the frames, packets and elements of a capture once. `progress` is called with the bytes read and the total.
    pub fn new(capture: &'c Capture, progress: &mut dyn FnMut(u64, u64)) -> Self {
        let mut overview = overview(capture, progress);
        let mut sources: Vec<Examined<'c>> =
            capture.sources.iter().map(|source| Examined::new(capture, source)).collect();
        for (trace, found) in &mut overview.traces {
            let Some(examined) = examined(&mut sources, trace) else { continue };
            match found {
                Ok(found) => examined.add(found),
                Err(_) if examined.failure.is_some() => {}
                Err(_) => examined.failure = std::mem::replace(found, Ok(TraceOverview::default())).err(),
            }
        }
        Self { capture, overview, sources, not_found: BTreeMap::new(), notes: Vec::new() }
    }

    /// The traces to [examine](Self::examine): those with bytes.
    pub fn traces(&self) -> Vec<Trace<'c>> {
        let has_bytes = |found: &Result<TraceOverview, Error>| found.as_ref().is_ok_and(|found| found.bytes > 0);
        self.overview.traces.iter().filter(|(_, found)| has_bytes(found)).map(|(trace, _)| *trace).collect()
    }

    /// Follows a trace through the code of its program. `progress` is called with the bytes read and the total.
    pub fn examine(&mut self, trace: &Trace<'c>, program: &Program, progress: &mut dyn FnMut(u64, u64)) {
        let Some(examined) = examined(&mut self.sources, trace) else { return };
        if let Err(error) = examined.execution.follow(trace, program, progress) {
            examined.failure.get_or_insert(error);
        }
        self.not_found.extend(program.missing_images());
        self.add_notes(program.take_notes());
    }

    /// Adds notes on images, each once.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = Note>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// The findings about what was examined.
    pub fn finish(self) -> Diagnosis {
        let executions = || self.present().map(|examined| &examined.execution);
        let mut diagnosis = Diagnosis {
            findings: Vec::new(),
            sources: self.present().count() as u64,
            bytes: self.present().map(|examined| examined.bytes).sum(),
            instructions: executions().map(|execution| execution.instructions).sum(),
            written: executions().map(|execution| execution.written).sum(),
            elements: executions().map(Execution::elements).sum(),
            followed: executions().map(|execution| execution.followed).sum(),
        };
        let topics = [
            notes::findings(&self),
            buffers::findings(&self),
            synchronization::findings(&self),
            loss::findings(&self),
            code::findings(&self),
            configuration::findings(&self),
            self.undecoded(),
        ];
        diagnosis.findings = topics.into_iter().flatten().collect();
        diagnosis.findings.sort_by_key(|finding| finding.severity);
        diagnosis
    }

    /// Sources that have trace.
    fn present(&self) -> impl Iterator<Item = &Examined<'c>> {
        self.sources.iter().filter(|examined| examined.bytes > 0)
    }

    /// Sources that have trace of instructions.
    fn executing(&self) -> impl Iterator<Item = &Examined<'c>> {
        self.present().filter(|examined| !examined.is_software())
    }

    fn undecoded(&self) -> Vec<Finding> {
        let has_execution =
            |execution: &Execution| execution.elements() > 0 || execution.instructions > 0 || execution.written > 0;
        let is_decoded = self.present().any(|examined| has_execution(&examined.execution));
        let title = match self.present().next() {
            Some(_) => "the trace contains no executed branch",
            None => "there is no trace that can be read",
        };
        let is_foreign = |examined: &Examined<'_>| matches!(examined.failure, Some(Error::UnknownProtocol { .. }));
        if !self.sources.is_empty() && self.sources.iter().all(is_foreign) {
            let title = "no source has a protocol that this version reads";
            return vec![Finding::new(Severity::Problem, "no-execution", title)];
        }
        let finding = Finding::new(Severity::Problem, "no-execution", title)
            .remedy("check that the trace unit was on, and its filters: 'unspool program CAPTURE --explain'")
            .remedy("check the protocol and the format of the buffer: 'unspool info CAPTURE'");
        if is_decoded { Vec::new() } else { vec![finding] }
    }
}

fn examined<'s, 'c>(sources: &'s mut [Examined<'c>], trace: &Trace<'c>) -> Option<&'s mut Examined<'c>> {
    sources.iter_mut().find(|examined| std::ptr::eq(examined.source, trace.source()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_is_all() {
        let rows = [
            (0, 0, None),
            (0, 3, Some("0.0%")),
            (1, 3, Some("33.3%")),
            (99_999, 100_000, Some("99.9%")),
            (5, 5, Some("100%")),
            (u64::MAX, u64::MAX, Some("100%")),
        ];
        for (part, all, expected) in rows {
            assert_eq!(percent(part, all).as_deref(), expected, "{part} of {all}");
        }
        assert!(is_share(1, 4, 25) && !is_share(1, 5, 25) && !is_share(0, 0, 0));
    }

    #[test]
    fn the_verdict_is_one_line() {
        let rows = [
            ((0, 0, 0), "nothing was decoded: no P0 element in 9 bytes of 1 source"),
            ((2, 0, 0), "no P0 element in the trace: 2 instructions from 9 bytes of 1 source"),
            ((7, 4, 3), "75.0% of 4 P0 elements decoded: 7 instructions from 9 bytes of 1 source"),
        ];
        for ((instructions, elements, followed), expected) in rows {
            let diagnosis =
                Diagnosis { findings: Vec::new(), sources: 1, bytes: 9, instructions, written: 0, elements, followed };
            assert_eq!(diagnosis.verdict(), expected);
        }
    }
}
