//! Checks of one source of a capture: frames, packets, elements, flow and code, and the steps that they result in.
//!
//! ```text
//! shards, on several cores ─▶ instructions next to items ─┬─▶ rules of captures ─┬─▶ findings
//!                             items, lost frames          └─▶ rules of steps ────┘
//! ```
//!
//! Instructions between two items follow from one another, since the flow is computed from the code. So only the first
//! and the last of them are checked as steps, and the others are counted. The size of shards is constant: findings do not
//! depend on the number of threads.

use std::cell::RefCell;
use std::ops::ControlFlow;

use unspool_analyze::check as steps;
use unspool_coresight::frame::{BadFrame, FrameError};
use unspool_coresight::{
    Broken, Element, ElementError, ElementItem, Malformed, Profile, Sink, Transactions, stm::Kind,
};
use unspool_flow::{Around, Cause, Finding, FlowItem, FlowSink, Instruction, InstructionSink, Instructions, Item, Run};
use unspool_model::{Event, Step};

use super::rules::RuleId;
use super::{Check, CheckedSteps, Found, MissingCode, TakeFound};
use crate::meter::OnProgress;
use crate::number::many;
use crate::steps::{StepEmitter, coverage, time_unit};
use crate::{Error, Parts, Program, Progress, Trace, Watch};

/// Bytes of the source in a shard.
const SHARD: usize = 16 << 10;

/// What to check of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceChecks {
    /// Rules of captures.
    pub native: bool,
    /// Frames too. The sources of a buffer share its frames, so one of them is enough.
    pub frames: bool,
    /// Rules of steps.
    pub steps: bool,
    /// Number of threads.
    pub threads: usize,
}

impl Check {
    /// Checks one source in one buffer.
    pub fn trace(
        &mut self,
        trace: &Trace<'_>,
        program: &Program,
        checks: TraceChecks,
        progress: &mut OnProgress<'_>,
        take: &mut TakeFound<'_>,
    ) -> Result<(), Error> {
        let (features, _) = trace.features()?;
        if !trace.has_instructions() {
            return self.software(trace, checks, progress, take);
        }
        let mut source = SourceCheck::new(self, checks, take);
        let checker = RefCell::new(steps::Checker::new(coverage(&features)));
        let emitted = RefCell::new(Emitted::default());
        let mut emit = |step: &Step| {
            let mut emitted = emitted.borrow_mut();
            emitted.count(step);
            checker.borrow_mut().step(step, &mut |finding| emitted.findings.push(finding));
            ControlFlow::Continue(())
        };
        let mut emitter = StepEmitter::new(time_unit(&features), &mut emit);
        emitter.is_microcontroller = trace.profile() == Profile::Microcontroller;
        let mut around = Around::default();
        let mut push = |entries: Vec<Entry>, lost: Vec<FrameError>, at: Progress| {
            lost.iter().for_each(|error| source.frame(error));
            for entry in entries {
                match entry {
                    Entry::Instruction(instruction) => emitter.instruction(&instruction, &around),
                    Entry::Skipped(count) => {
                        let mut emitted = emitted.borrow_mut();
                        emitted.counted.steps += count;
                        checker.borrow_mut().skip(0, &mut |finding| emitted.findings.push(finding));
                    }
                    Entry::Item(item) => {
                        around.update(&item);
                        source.item(&item);
                        emitter.item(item);
                    }
                }
                source.steps(&mut emitted.borrow_mut());
            }
            progress(at.read, at.total);
            source.is_open
        };
        let open = if trace.can_be_sharded(Transactions::Show)? {
            // With at least two threads, the trace is split in the same way for any number of them.
            let parts = Parts::on(checks.threads.max(2)).of_bytes(SHARD);
            let mut take = |Part { flow, lost }, at| push(flow.into_sink().finish(), lost, at);
            trace.flow_in_parts(parts, Transactions::Show, program, Part::default, &mut take)?
        } else {
            let mut stream = Streamed { part: Part::default(), push: &mut push, is_open: true };
            let open = trace.flow(Transactions::Show, program, &mut stream)?;
            let Part { flow, lost } = stream.part;
            let total = trace.buffer().len();
            push(flow.into_sink().finish(), lost, Progress { read: total, total });
            open
        };
        emitter.end();
        source.end(open, trace.buffer().len());
        let mut emitted = emitted.into_inner();
        let mut checker = checker.into_inner();
        checker.finish(&mut |finding| emitted.findings.push(finding));
        source.steps(&mut emitted);
        if checks.steps {
            let all = self.steps.get_or_insert_default();
            all.steps += emitted.counted.steps;
            all.gaps += emitted.counted.gaps;
            all.repeats += emitted.counted.repeats + checker.repeats();
        }
        Ok(())
    }
}

impl Check {
    /// Checks a source without instructions: it has no steps.
    fn software(
        &mut self,
        trace: &Trace<'_>,
        checks: TraceChecks,
        progress: &mut OnProgress<'_>,
        take: &mut TakeFound<'_>,
    ) -> Result<(), Error> {
        let mut elements = Elements { source: SourceCheck::new(self, checks, take), progress };
        trace.elements(&mut elements)?;
        elements.source.end(0, trace.buffer().len());
        Ok(())
    }
}

/// Elements of a source without instructions.
struct Elements<'c, 't, 'f, 'p, 'o> {
    source: SourceCheck<'c, 't, 'f>,
    progress: &'p mut OnProgress<'o>,
}

impl Sink<ElementItem> for Elements<'_, '_, '_, '_, '_> {
    fn item(&mut self, item: ElementItem) {
        match item {
            Ok(element) => self.source.software(element.offset, &element.value),
            Err(error) if error.kind == Broken::Packet(Malformed::PresumedStart) => {
                self.source.add(RuleId::PresumedStart, error.offset, &error.kind.to_string());
            }
            Err(error) => self.source.error(&error),
        }
    }
}

impl Watch for Elements<'_, '_, '_, '_, '_> {
    fn lost(&mut self, error: FrameError) {
        self.source.frame(&error);
    }

    fn wants_more(&mut self) -> bool {
        self.source.is_open
    }

    fn progress(&mut self, read: u64, total: u64) {
        (self.progress)(read, total);
    }
}

/// Steps emitted so far, and findings of them that were not reported yet.
#[derive(Default)]
struct Emitted {
    counted: CheckedSteps,
    position: u64,
    findings: Vec<steps::Finding>,
}

impl Emitted {
    fn count(&mut self, step: &Step) {
        self.counted.steps += 1;
        self.counted.gaps += u64::from(matches!(step.event, Event::Gap(_)));
        self.position = step.position;
    }
}

/// Findings of one source.
struct SourceCheck<'c, 't, 'f> {
    check: &'c mut Check,
    checks: TraceChecks,
    take: &'t mut TakeFound<'f>,
    is_open: bool,
    /// A packet was decoded.
    is_synchronized: bool,
    /// Bytes before the first synchronization, and their offset.
    unsynchronized: Option<(u64, u64)>,
    missing: MissingCode,
    without_address: Dropped,
    after_mismatch: Dropped,
}

/// P0 elements that were dropped, and the first offset.
#[derive(Default)]
struct Dropped {
    elements: u64,
    offset: Option<u64>,
}

impl Dropped {
    fn add(&mut self, elements: u64, offset: u64) {
        self.elements += elements;
        self.offset.get_or_insert(offset);
    }
}

impl<'c, 't, 'f> SourceCheck<'c, 't, 'f> {
    fn new(check: &'c mut Check, checks: TraceChecks, take: &'t mut TakeFound<'f>) -> Self {
        Self {
            check,
            checks,
            take,
            is_open: true,
            is_synchronized: false,
            unsynchronized: None,
            missing: MissingCode::default(),
            without_address: Dropped::default(),
            after_mismatch: Dropped::default(),
        }
    }

    fn add(&mut self, rule: RuleId, offset: u64, detail: &str) {
        if self.checks.native {
            self.is_open &= self.check.native(&Found::new(rule.rule(), offset, detail), self.take);
        }
    }

    /// Reports the findings of steps.
    fn steps(&mut self, emitted: &mut Emitted) {
        let Emitted { counted, position, findings } = emitted;
        for finding in findings.drain(..).filter(|_| self.checks.steps) {
            self.is_open &= self.check.step(&(&finding).into(), *position, &mut counted.repeats, self.take);
        }
    }

    fn frame(&mut self, error: &FrameError) {
        if self.checks.frames {
            let detail = format!("{}, {} lost", error.kind, many(error.skipped, "byte"));
            self.add(frame_rule(error.kind), error.offset, &detail);
        }
    }

    fn item(&mut self, item: &FlowItem) {
        self.missing.add(item);
        match item {
            Ok(item) => {
                self.is_synchronized |= item.value != Item::End;
                self.element(item.offset, &item.value);
            }
            Err(error) => self.error(error),
        }
    }

    /// An element of a source without instructions.
    fn software(&mut self, offset: u64, element: &Element) {
        self.is_synchronized = true;
        match element {
            Element::Overflow => self.add(RuleId::Overflow, offset, "the trace unit lost trace"),
            Element::Stm(own) => {
                if let Kind::MasterError(_) | Kind::GlobalError(_) | Kind::ChannelError(_) = own.kind {
                    self.add(RuleId::DataLost, offset, &own.to_string());
                }
            }
            _ => {}
        }
    }

    fn element(&mut self, offset: u64, item: &Item) {
        match *item {
            Item::Finding(finding) => self.add(flow_rule(&finding), offset, &finding.to_string()),
            Item::Overflow => self.add(RuleId::Overflow, offset, "the trace unit lost trace"),
            Item::Lost { elements, cause: Cause::NoAddress } => self.without_address.add(elements, offset),
            Item::Lost { elements, cause: Cause::Disagreement } => self.after_mismatch.add(elements, offset),
            _ => {}
        }
    }

    fn error(&mut self, error: &ElementError) {
        let skipped = match error.skipped {
            0 => String::new(),
            skipped => format!(", {} skipped", many(skipped, "byte")),
        };
        match error.kind {
            kind if kind.is_note() => self.add(RuleId::ReservedBits, error.offset, &kind.to_string()),
            // A discontinuity is a consequence of something else.
            kind if kind.is_ordinary() && error.skipped == 0 => {}
            kind if kind.is_ordinary() && !self.is_synchronized && self.unsynchronized.is_none() => {
                self.unsynchronized = Some((error.offset, error.skipped));
            }
            kind if kind.is_ordinary() => {
                self.report_unsynchronized();
                self.add(RuleId::Unsynchronized, error.offset, &format!("{kind}{skipped}"));
            }
            kind => self.add(element_rule(kind), error.offset, &format!("{kind}{skipped}")),
        }
    }

    /// Reports the bytes before the first synchronization, once it is known whether there is one.
    fn report_unsynchronized(&mut self) {
        if let Some((offset, skipped)) = self.unsynchronized.take() {
            let detail = format!("not synchronized yet, {} skipped", many(skipped, "byte"));
            self.add(RuleId::Unsynchronized, offset, &detail);
        }
    }

    /// Reports what is known only at the end. `speculative`: P0 elements that are unresolved.
    fn end(&mut self, speculative: u64, length: u64) {
        match self.unsynchronized {
            Some((offset, skipped)) if !self.is_synchronized => {
                let detail = format!("no alignment synchronization in {}", many(skipped, "byte"));
                self.add(RuleId::NeverSynchronized, offset, &detail);
            }
            _ => self.report_unsynchronized(),
        }
        let dropped = [
            (RuleId::NoAddress, std::mem::take(&mut self.without_address), "without a known address"),
            (RuleId::DroppedAfterMismatch, std::mem::take(&mut self.after_mismatch), "after a trace/code mismatch"),
        ];
        for (rule, Dropped { elements, offset }, why) in dropped {
            if let Some(offset) = offset {
                self.add(rule, offset, &format!("{} dropped {why}", many(elements, "P0 element")));
            }
        }
        if speculative > 0 {
            let detail = format!("{} still speculative at the end", many(speculative, "P0 element"));
            self.add(RuleId::UnresolvedSpeculation, length, &detail);
        }
        self.missing_code();
    }

    fn missing_code(&mut self) {
        let missing = std::mem::take(&mut self.missing);
        let mut regions = missing.regions();
        regions.sort_by_key(|region| region.offset);
        for region in &regions {
            self.add(RuleId::MissingCode, region.offset, &region.to_string());
        }
        if let (elements @ 1.., Some(last)) = (missing.beyond(), regions.last()) {
            let detail = format!("no code in further regions: {} lost", many(elements, "P0 element"));
            self.add(RuleId::MissingCode, last.offset, &detail);
        }
    }
}

fn frame_rule(kind: BadFrame) -> RuleId {
    match kind {
        BadFrame::ReservedId(_) => RuleId::FrameReservedId,
        BadFrame::CutShort => RuleId::FrameCutShort,
        BadFrame::NotSynchronized => RuleId::FrameUnsynchronized,
        BadFrame::Shifted => RuleId::FrameShifted,
        _ => RuleId::FrameTruncated,
    }
}

fn packet_rule(kind: Malformed) -> RuleId {
    match kind {
        Malformed::ReservedHeader(_) | Malformed::ReservedOpcode(_) => RuleId::ReservedHeader,
        Malformed::CutBySync => RuleId::PacketCut,
        Malformed::NoVersion | Malformed::UnknownVersion(_) => RuleId::VersionMissing,
        Malformed::ReservedExtension(_) => RuleId::ReservedExtension,
        Malformed::ReservedException(_) => RuleId::ReservedException,
        Malformed::NotInConfiguration(_) => RuleId::PacketConfiguration,
        Malformed::BrokenSync => RuleId::BrokenSynchronization,
        Malformed::Truncated => RuleId::PacketTruncated,
        _ => RuleId::MalformedPacket,
    }
}

fn element_rule(kind: Broken) -> RuleId {
    match kind {
        Broken::Packet(kind) => packet_rule(kind),
        Broken::NoTraceInfo | Broken::NoInstructionSync => RuleId::TraceInfoMissing,
        Broken::ExceptionWithoutAddress => RuleId::ExceptionAddress,
        Broken::CommitOfNothing(_) => RuleId::CommitExcess,
        Broken::CancelOfNothing(_) => RuleId::CancelExcess,
        Broken::EndlessTransaction => RuleId::EndlessTransaction,
        _ => RuleId::EndlessSpeculation,
    }
}

fn flow_rule(finding: &Finding) -> RuleId {
    match finding {
        Finding::NotTaken { .. } => RuleId::BranchNotTaken,
        Finding::Runaway { .. } => RuleId::Runaway,
        Finding::ReturnAddress { .. } => RuleId::ReturnAddress,
        Finding::SourceAddress { .. } => RuleId::SourceAddress,
        Finding::AmbiguousImage { .. } => RuleId::AmbiguousImage,
        Finding::NoTarget => RuleId::TargetAddress,
        Finding::Mispredict => RuleId::Mispredict,
        _ => RuleId::UnreachableAddress,
    }
}

/// Part of the flow of a source.
struct Part {
    flow: Instructions<Recorder>,
    lost: Vec<FrameError>,
}

impl Default for Part {
    fn default() -> Self {
        Self { flow: Instructions::new(Recorder::default()), lost: Vec::new() }
    }
}

impl FlowSink for Part {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        self.flow.run(run);
    }

    fn item(&mut self, item: FlowItem) {
        FlowSink::item(&mut self.flow, item);
    }
}

impl Watch for Part {
    fn lost(&mut self, error: FrameError) {
        self.lost.push(error);
    }
}

/// A source that is read in one piece: entries are passed on between the windows of its buffer.
struct Streamed<'p> {
    part: Part,
    push: &'p mut dyn FnMut(Vec<Entry>, Vec<FrameError>, Progress) -> bool,
    is_open: bool,
}

impl FlowSink for Streamed<'_> {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        self.part.run(run);
    }

    fn item(&mut self, item: FlowItem) {
        self.part.item(item);
    }
}

impl Watch for Streamed<'_> {
    fn lost(&mut self, error: FrameError) {
        self.part.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.is_open
    }

    fn progress(&mut self, read: u64, total: u64) {
        let entries = std::mem::take(&mut self.part.flow.sink().entries);
        let lost = std::mem::take(&mut self.part.lost);
        self.is_open &= (self.push)(entries, lost, Progress { read, total });
    }
}

/// Entry of a part that is checked.
enum Entry {
    Instruction(Instruction),
    /// Count of instructions that need no check.
    Skipped(u64),
    Item(FlowItem),
}

/// Records items, and of the instructions between two of them the first and the last.
#[derive(Default)]
struct Recorder {
    entries: Vec<Entry>,
    has_first: bool,
    skipped: u64,
    last: Option<Instruction>,
}

impl Recorder {
    /// Ends the instructions before an item.
    fn settle(&mut self) {
        if self.skipped > 0 {
            self.entries.push(Entry::Skipped(self.skipped));
        }
        self.entries.extend(self.last.take().map(Entry::Instruction));
        (self.has_first, self.skipped) = (false, 0);
    }

    fn finish(mut self) -> Vec<Entry> {
        self.settle();
        self.entries
    }
}

impl InstructionSink for Recorder {
    #[inline]
    fn instruction(&mut self, instruction: &Instruction, _around: &Around) {
        match self.last.replace(*instruction) {
            Some(first) if !self.has_first => {
                self.has_first = true;
                self.entries.push(Entry::Instruction(first));
            }
            before => self.skipped += u64::from(before.is_some()),
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.settle();
        self.entries.push(Entry::Item(item));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::RULES;
    use super::*;

    /// Rules of errors, by the error. The tests of this crate and of the command line break the others.
    fn rows() -> Vec<(RuleId, &'static str)> {
        let finding = Finding::Unreachable { expected: 0, found: 4 };
        vec![
            (frame_rule(BadFrame::ReservedId(0x7e)), "capture-frame-reserved-id"),
            (frame_rule(BadFrame::CutShort), "capture-frame-cut-short"),
            (frame_rule(BadFrame::NotSynchronized), "capture-frame-unsynchronized"),
            (frame_rule(BadFrame::Shifted), "capture-frame-shifted"),
            (frame_rule(BadFrame::Truncated), "capture-frame-truncated"),
            (packet_rule(Malformed::ReservedHeader(8)), "capture-reserved-header"),
            (packet_rule(Malformed::ReservedExtension(8)), "capture-reserved-extension"),
            (packet_rule(Malformed::ReservedException(8)), "capture-reserved-exception"),
            (packet_rule(Malformed::NotInConfiguration(8)), "capture-packet-configuration"),
            (packet_rule(Malformed::BrokenSync), "capture-broken-synchronization"),
            (packet_rule(Malformed::EndlessField), "capture-malformed-packet"),
            (element_rule(Broken::Packet(Malformed::Truncated)), "capture-packet-truncated"),
            (packet_rule(Malformed::CutBySync), "capture-packet-cut"),
            (packet_rule(Malformed::NoVersion), "capture-version-missing"),
            (element_rule(Broken::NoTraceInfo), "capture-trace-info-missing"),
            (element_rule(Broken::ExceptionWithoutAddress), "capture-exception-address"),
            (element_rule(Broken::CommitOfNothing(1)), "capture-commit-excess"),
            (element_rule(Broken::CancelOfNothing(1)), "capture-cancel-excess"),
            (element_rule(Broken::EndlessTransaction), "capture-endless-transaction"),
            (element_rule(Broken::EndlessSpeculation), "capture-endless-speculation"),
            (flow_rule(&Finding::NotTaken { at: 0 }), "capture-branch-not-taken"),
            (flow_rule(&finding), "capture-unreachable-address"),
            (flow_rule(&Finding::Runaway { start: 0 }), "capture-runaway"),
            (flow_rule(&Finding::ReturnAddress { at: 0, return_address: 4 }), "capture-return-address"),
            (flow_rule(&Finding::SourceAddress { at: 0, source_address: 4 }), "capture-source-address"),
            (flow_rule(&Finding::NoTarget), "capture-target-address"),
            (flow_rule(&Finding::Mispredict), "capture-mispredict"),
            (flow_rule(&Finding::AmbiguousImage { address: 0 }), "capture-ambiguous-image"),
        ]
    }

    #[test]
    fn every_error_has_its_rule() {
        let rows = rows();
        for (rule, name) in &rows {
            assert_eq!(rule.rule().name, *name);
        }
        let distinct: BTreeSet<&str> = rows.iter().map(|(_, name)| *name).collect();
        assert_eq!(distinct.len(), rows.len());
        // The others are about what is lost or missing.
        let errors = RULES.iter().filter(|rule| rule.severity == unspool_model::rule::Severity::Error);
        let others: Vec<&str> = errors.map(|rule| rule.name).filter(|name| !distinct.contains(name)).collect();
        assert_eq!(others, ["capture-never-synchronized"]);
    }
}
