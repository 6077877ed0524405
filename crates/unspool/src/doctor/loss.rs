//! Findings about trace that was lost or damaged between the trace unit and the file, by cause.
//!
//! Takes the totals of frames and of the flow; produces one finding per cause. What perf lost is in `notes`.

use unspool_coresight::frame::BadFrame;

use super::execution::Tally;
use super::{Doctor, Evidence, Examined, Finding, Severity};
use crate::BufferOverview;
use crate::number::many;

/// More than one overflow in this number of bytes is a problem; a few are in most traces.
const OVERFLOW_STRIDE: u64 = 1 << 20;

pub(super) fn findings(doctor: &Doctor<'_>) -> Vec<Finding> {
    let found = [
        overflows(doctor),
        frames(doctor),
        damaged(doctor),
        truncated(doctor),
        discards(doctor),
        without_address(doctor),
    ];
    let mut found: Vec<Finding> = found.into_iter().flatten().collect();
    if found.is_empty() && doctor.present().next().is_some() {
        found.push(Finding::new(Severity::Fine, "loss", "no overflow and no damage in the trace"));
    }
    found.extend(speculative(doctor));
    found
}

/// The trace unit resolves speculation some instructions later, so the end of a trace is rarely resolved.
fn speculative(doctor: &Doctor<'_>) -> Option<Finding> {
    let count = |examined: &Examined<'_>| examined.execution.speculative;
    let total = doctor.present().map(count).sum();
    let title = format!("{} still speculative at the end of the trace", many(total, "P0 element"));
    let concerned = doctor.present().filter(|examined| count(examined) > 0);
    let evidence = concerned.map(|examined| examined.evidence(None, many(count(examined), "P0 element")));
    (total > 0).then(|| Finding::new(Severity::Fine, "speculation", title).with(evidence))
}

/// Evidence of the sources where a tally is not zero, and the total.
fn of_sources(
    doctor: &Doctor<'_>,
    tally: impl Fn(&Examined<'_>) -> Tally,
    text: impl Fn(&Examined<'_>) -> String,
) -> (Vec<Evidence>, u64) {
    let concerned = || doctor.present().filter(|examined| tally(examined).count > 0);
    let evidence = concerned().map(|examined| examined.evidence(tally(examined).first, text(examined))).collect();
    (evidence, concerned().map(|examined| tally(examined).count).sum())
}

fn overflows(doctor: &Doctor<'_>) -> Option<Finding> {
    let text = |examined: &Examined<'_>| {
        format!("{} in {}", many(examined.execution.overflows.count, "overflow"), many(examined.bytes, "byte"))
    };
    let (evidence, count) = of_sources(doctor, |examined| examined.execution.overflows, text);
    let is_often = |examined: &Examined<'_>| examined.execution.overflows.count > 1 + examined.bytes / OVERFLOW_STRIDE;
    let severity = if doctor.present().any(is_often) { Severity::Problem } else { Severity::Advice };
    let title = format!("trace units lost trace: {}, each a gap of unknown length", many(count, "overflow"));
    let has = |is_software: bool| {
        let mut lossy = doctor.present().filter(|examined| examined.execution.overflows.count > 0);
        lossy.any(|examined| examined.is_software() == is_software)
    };
    let mut finding = Finding::new(severity, "overflow", title).with(evidence);
    if has(false) {
        finding = finding
            .remedy("trace less: address filters (TRCVIIECTLR; perf record --filter), user space only (cs_etm//u)")
            .remedy(
                "make packets smaller: no cycle counting, no branch broadcast, fewer timestamps, the return stack on",
            )
            .remedy("let the core wait instead: TRCSTALLCTLR.ISTALL, if TRCIDR3.STALLCTL is implemented");
    }
    if has(true) {
        finding = finding
            .remedy("write less, or fewer channels: ITM_TER, STMSPER; fewer packets of the DWT: DWT_CTRL")
            .remedy("let software wait until a stimulus port is ready, or raise the clock of the trace port");
    }
    (count > 0).then_some(finding)
}

fn frames(doctor: &Doctor<'_>) -> Option<Finding> {
    let buffers = doctor.capture.buffers.iter().zip(&doctor.overview.buffers);
    let lost: Vec<(&str, &BufferOverview)> = buffers
        .filter_map(|(buffer, found)| Some((buffer.name.as_str(), found.as_ref().ok().filter(|found| found.lost > 0)?)))
        .collect();
    // A buffer may end anywhere.
    let is_end =
        |found: &BufferOverview| found.lost == 1 && found.errors.iter().all(|error| error.kind == BadFrame::Truncated);
    let severity = if lost.iter().all(|(_, found)| is_end(found)) { Severity::Advice } else { Severity::Problem };
    let evidence = lost.iter().map(|(name, found)| {
        let first = found.errors.first();
        let kind = first.map_or_else(String::new, |error| format!("; the first: {}", error.kind));
        let text = format!("{} in {}{kind}", many(found.lost_bytes, "byte"), many(found.lost, "range"));
        Evidence::at(*name, first.map(|error| error.offset), text)
    });
    let bytes = lost.iter().map(|(_, found)| found.lost_bytes).sum();
    let title = format!("{} of formatted buffers belong to no frame", many(bytes, "byte"));
    (!lost.is_empty()).then(|| {
        Finding::new(severity, "frames-lost", title)
            .with(evidence)
            .remedy("check that the file is the whole buffer, from its start and not converted as text")
            .remedy(
                "of a circular buffer that has wrapped, give the write pointer: --write-pointer OFFSET, or --wrapped",
            )
    })
}

fn damaged(doctor: &Doctor<'_>) -> Option<Finding> {
    let text = |examined: &Examined<'_>| {
        let execution = &examined.execution;
        let skipped = many(execution.damaged_bytes, "byte");
        let first = execution.first_damage.map_or_else(String::new, |kind| format!("; the first: {kind}"));
        format!("{} with {skipped} skipped{first}", many(execution.damaged.count, "error"))
    };
    let (evidence, count) = of_sources(doctor, |examined| examined.execution.damaged, text);
    let is_assumed =
        doctor.present().any(|examined| examined.execution.damaged.count > 0 && !examined.assumed.is_empty());
    (count > 0).then(|| {
        let title = format!("damaged packets: {}", many(count, "error"));
        let mut finding = Finding::new(Severity::Problem, "damaged-packets", title).with(evidence);
        if is_assumed {
            finding =
                finding.remedy("supply the registers that were assumed: a wrong one changes how packets are read");
        }
        finding
            .remedy("check the type of the source: ETE or ETMv4, as in TRCDEVARCH")
            .remedy("check that nothing was lost or added on the way: the memory of the buffer, the copy of the file")
    })
}

fn truncated(doctor: &Doctor<'_>) -> Option<Finding> {
    let text = |examined: &Examined<'_>| {
        format!(
            "{} of {}",
            many(examined.execution.truncated.count, "packet"),
            many(examined.execution.sessions, "buffer")
        )
    };
    let (evidence, count) = of_sources(doctor, |examined| examined.execution.truncated, text);
    let title = format!(
        "{} inside a packet: the last instructions are missing",
        match count {
            1 => "a buffer ends".to_string(),
            _ => format!("{} end", many(count, "buffer")),
        }
    );
    (count > 0).then(|| {
        Finding::new(Severity::Advice, "cut-off", title)
            .with(evidence)
            .remedy("disable the trace unit and flush the formatter (FFCR.FlushMan) before the buffer is read")
    })
}

/// Trace is discarded where the trace unit is switched off; more often than that, it is lost.
fn discards(doctor: &Doctor<'_>) -> Option<Finding> {
    let beyond = |examined: &Examined<'_>| {
        let Tally { count, first } = examined.execution.discards;
        Tally { count: count.saturating_sub(examined.execution.sessions), first }
    };
    let text = |examined: &Examined<'_>| {
        let [discards, buffers] =
            [(examined.execution.discards.count, "discard"), (examined.execution.sessions, "buffer")]
                .map(|(count, name)| many(count, name));
        format!("{discards} in {buffers}")
    };
    let (evidence, count) = of_sources(doctor, beyond, text);
    (count > 0).then(|| {
        Finding::new(
            Severity::Advice,
            "discard",
            "tracing stopped often; the last branch before each stop is uncertain",
        )
        .with(evidence)
        .remedy("keep the trace unit on: filter by address (TRCVIIECTLR) instead of stopping it")
    })
}

fn without_address(doctor: &Doctor<'_>) -> Option<Finding> {
    let text =
        |examined: &Examined<'_>| format!("{} dropped", many(examined.execution.without_address.count, "P0 element"));
    let (evidence, count) = of_sources(doctor, |examined| examined.execution.without_address, text);
    let title = format!("{} without a known address, after a start, a loss or missing code", many(count, "P0 element"));
    (count > 0).then(|| {
        Finding::new(Severity::Advice, "no-address", title)
            .with(evidence)
            .remedy("synchronize more often (TRCSYNCPR): an address follows each synchronization")
    })
}
