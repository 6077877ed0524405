//! Findings about synchronization: where decoding can start.
//!
//! Takes the distances between alignment synchronizations; produces a finding about sources without one, one about sources
//! with few, and one about the others. Specification: Arm IHI 0064 and DDI 0487, TRCSYNCPR.

use super::{Doctor, Evidence, Examined, Finding, Severity, is_share};
use crate::number::{grouped, many};

/// Distance in bytes above which much is lost with every overflow and at the start of a circular buffer.
const FAR: u64 = 64 << 10;

/// Percentage of a source before its first synchronization that is worth advice.
const MUCH_BEFORE: u64 = 10;

pub(super) fn findings(doctor: &Doctor<'_>) -> Vec<Finding> {
    let (software, others): (Vec<_>, Vec<_>) = doctor.present().partition(|examined| examined.is_software());
    let (never, some): (Vec<_>, Vec<_>) = others.into_iter().partition(|examined| examined.syncs.first.is_none());
    let (rare, fine): (Vec<_>, Vec<_>) = some.into_iter().partition(|examined| is_rare(examined));
    let (presumed, spaced): (Vec<_>, Vec<_>) =
        software.into_iter().partition(|examined| examined.syncs.first.is_none());
    let fine: Vec<_> = fine.into_iter().chain(spaced).collect();
    let found = [
        never_synchronized(&never),
        rarely_synchronized(&rare),
        without_synchronization(&presumed),
        synchronized(&fine),
    ];
    found.into_iter().flatten().collect()
}

fn is_rare(examined: &Examined<'_>) -> bool {
    let is_late = is_share(examined.unsynchronized_bytes, examined.bytes, MUCH_BEFORE);
    let has_one = examined.syncs.range.is_none() && examined.bytes > FAR;
    is_late || has_one || examined.syncs.range.is_some_and(|(_, greatest)| greatest > FAR)
}

fn never_synchronized(sources: &[&Examined<'_>]) -> Option<Finding> {
    let evidence = |examined: &&Examined<'_>| {
        let bytes = many(examined.bytes, "byte");
        examined.evidence(None, format!("none in {bytes}, which cannot be decoded{}", period(examined)))
    };
    let title = format!("no alignment synchronization in {}", many(sources.len() as u64, "source"));
    let finding = Finding::new(Severity::Problem, "no-synchronization", title)
        .with(sources.iter().map(evidence))
        .remedy("synchronize more often than the buffer is long: TRCSYNCPR = 12 for every 4,096 bytes")
        .remedy("check the protocol, the format of the buffer (raw or formatted) and the trace id");
    (!sources.is_empty()).then_some(finding)
}

/// Software trace without synchronizations: of an ITM, the first byte is presumed to start a packet.
fn without_synchronization(sources: &[&Examined<'_>]) -> Option<Finding> {
    let is_read = sources.iter().all(|examined| examined.execution.written > 0);
    let severity = if is_read { Severity::Advice } else { Severity::Problem };
    let evidence =
        |examined: &&Examined<'_>| examined.evidence(None, format!("none in {}", many(examined.bytes, "byte")));
    let title = format!("no synchronization in {} of software trace", many(sources.len() as u64, "source"));
    let finding = Finding::new(severity, "no-synchronization", title)
        .with(sources.iter().map(evidence))
        .remedy("ITM: set ITM_TCR.SYNCENA and DWT_CTRL.SYNCTAP; without, damage may change packets unnoticed")
        .remedy("STM: set STMSYNCR to the number of bytes between synchronizations");
    (!sources.is_empty()).then_some(finding)
}

fn rarely_synchronized(sources: &[&Examined<'_>]) -> Option<Finding> {
    let title = format!("few synchronizations in {}", many(sources.len() as u64, "source"));
    let finding = Finding::new(Severity::Advice, "synchronization", title)
        .with(sources.iter().map(|examined| spacing(examined)))
        .remedy("lower TRCSYNCPR (2^N bytes, 8 to 20): less is lost at the start of a circular buffer and after damage")
        .remedy("in Linux: the file syncfreq of the trace unit in /sys/bus/coresight/devices");
    (!sources.is_empty()).then_some(finding)
}

fn synchronized(sources: &[&Examined<'_>]) -> Option<Finding> {
    let finding = Finding::new(Severity::Fine, "synchronization", "synchronization is frequent enough")
        .with(sources.iter().map(|examined| spacing(examined)));
    (!sources.is_empty()).then_some(finding)
}

/// Distances of a source, and the bytes before the first synchronization.
fn spacing(examined: &Examined<'_>) -> Evidence {
    let distances = match (examined.syncs.range, examined.syncs.median()) {
        (Some((least, greatest)), Some(median)) => {
            let [least, median] = [least, median].map(grouped);
            format!("distances {least} (least), {median} (median), {} (greatest)", many(greatest, "byte"))
        }
        _ => "one synchronization in each buffer".to_string(),
    };
    let before = match examined.unsynchronized_bytes {
        0 => String::new(),
        bytes => format!("; {} not synchronized and skipped", many(bytes, "byte")),
    };
    examined.evidence(None, format!("{distances}{before}{}", period(examined)))
}

/// The period that the trace unit was given, if the capture has it.
fn period(examined: &Examined<'_>) -> String {
    match examined.register("TRCSYNCPR").map(|value| value & 0x1f) {
        None => String::new(),
        Some(0) => "; TRCSYNCPR = 0: not periodic".to_string(),
        Some(period) => format!("; TRCSYNCPR = {period}: every {}", many(1 << period, "byte")),
    }
}
