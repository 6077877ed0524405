//! Findings about the configuration of trace units: missing registers, timestamps, context identifiers, and what each
//! feature costs in bytes.
//!
//! Takes registers, system events and the bytes of packets; produces findings. Specification: Arm IHI 0064 and DDI 0487,
//! TRCCONFIGR.

use std::collections::{BTreeMap, BTreeSet};

use unspool_capture::{Call, KERNEL, PackageFormat, Pid};
use unspool_coresight::PacketKind;

use super::{Doctor, Evidence, Examined, Finding, Severity, is_share, percent};
use crate::number::{grouped, many};

/// Bits of TRCCONFIGR.
const BRANCH_BROADCAST: u32 = 3;
const RETURN_STACK: u32 = 12;

/// Percentage of the bytes above which a feature is worth advice.
const COSTLY: u64 = 20;

/// Bytes of a source from which shares mean something.
const ENOUGH: u64 = 4 << 10;

pub(super) fn findings(doctor: &Doctor<'_>) -> Vec<Finding> {
    let found = [registers(doctor), timestamps(doctor), context_ids(doctor), cost(doctor)];
    found.into_iter().flatten().chain(features(doctor)).collect()
}

/// Registers that were assumed.
fn registers(doctor: &Doctor<'_>) -> Option<Finding> {
    let mut sources: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for examined in doctor.executing() {
        for assumption in examined.assumed.iter().filter(|assumption| assumption.contradicted_by.is_none()) {
            names.insert(assumption.register);
            sources.entry(assumption.to_string()).or_default().push(&examined.source.name);
        }
    }
    if sources.is_empty() {
        let title = "all registers that decoding needs are in the capture";
        return doctor.executing().next().map(|_| Finding::new(Severity::Fine, "registers", title));
    }
    let evidence = sources.iter().map(|(text, sources)| {
        let place = match sources[..] {
            [one] => one.to_string(),
            _ => many(sources.len() as u64, "source"),
        };
        Evidence::at(place, None, format!("assumed {text}"))
    });
    let listed: Vec<&str> = names.iter().copied().collect();
    let title = format!(
        "{} not in the capture; common values are assumed",
        match names.len() {
            1 => "a register is".to_string(),
            count => format!("{count} registers are"),
        }
    );
    let finding = Finding::new(Severity::Advice, "registers", title)
        .with(evidence)
        .remedy(format!("save {} of the trace unit with the trace", listed.join(", ")));
    Some(match doctor.capture.format {
        PackageFormat::Bare => finding.remedy("or give their values: --register NAME=VALUE"),
        _ => finding,
    })
}

fn timestamps(doctor: &Doctor<'_>) -> Option<Finding> {
    // Packets show it too: the register may be missing, or be that of another time.
    let is_traced = |examined: &Examined<'_>| match examined.register("TRCCONFIGR") {
        Some(_) => examined.features.timestamps || examined.time.is_some_and(|(_, last)| last > 0),
        None => examined.time.is_some(),
    };
    let (traced, without): (Vec<_>, Vec<_>) = doctor.executing().partition(|examined| is_traced(examined));
    let useful = uses_of_time(doctor);
    let zero: Vec<_> = traced.iter().filter(|examined| matches!(examined.time, None | Some((0, 0)))).collect();
    if !without.is_empty() {
        let title = format!("{} without timestamps", many(without.len() as u64, "source"));
        let evidence = without.iter().map(|examined| examined.evidence(None, "timestamps are off"));
        return Some(match useful.is_empty() {
            true => Finding::new(Severity::Fine, "timestamps", "timestamps are off, and nothing here needs them"),
            false => Finding::new(Severity::Advice, "timestamps", title)
                .with(evidence)
                .with(useful.into_iter().map(Evidence::new))
                .remedy("set TRCCONFIGR.TS (bit 11); perf record -e cs_etm/timestamp/"),
        });
    }
    if let (Some(_), false) = (zero.first(), useful.is_empty()) {
        let title = format!("timestamps are on, and there are none in {}", many(zero.len() as u64, "source"));
        let evidence = zero.iter().map(|examined| {
            let text = if examined.time.is_some() { "all timestamps are 0" } else { "no timestamp in the trace" };
            examined.evidence(None, text)
        });
        let finding = Finding::new(Severity::Advice, "timestamps", title).with(evidence);
        return Some(
            finding
                .remedy("check that the timestamp generator runs (CNTCR.EN), and TRCTSCTLR, which requests timestamps"),
        );
    }
    let evidence = traced.iter().filter_map(|examined| {
        let (first, last) = examined.time?;
        Some(examined.evidence(None, format!("{first:#x} to {last:#x}")))
    });
    (!traced.is_empty()).then(|| Finding::new(Severity::Fine, "timestamps", "timestamps are on").with(evidence))
}

/// Why timestamps would help.
fn uses_of_time(doctor: &Doctor<'_>) -> Vec<String> {
    // Sessions of a core may be sources of their own, with the order of the package.
    let cores: BTreeSet<(Option<usize>, Option<u8>)> = doctor
        .executing()
        .map(|examined| match examined.source.core {
            Some(core) => (Some(core), None),
            None => (None, examined.source.id),
        })
        .collect();
    let events = doctor.capture.events.iter().filter(|event| event.time.is_some()).count() as u64;
    // perf records when each buffer was traced.
    let is_placed = doctor.capture.buffers.iter().all(|buffer| buffer.recorded.is_some());
    let mut uses = Vec::new();
    if cores.len() > 1 {
        uses.push(format!("the traces of {} cannot be put in order", many(cores.len() as u64, "core")));
    }
    if events > 1 && !is_placed {
        uses.push(format!("{} cannot be placed in the trace", many(events, "system event")));
    }
    uses
}

fn context_ids(doctor: &Doctor<'_>) -> Option<Finding> {
    let is_traced = |examined: &&Examined<'_>| {
        examined.features.context_ids || examined.features.vmids || examined.execution.has_context_ids
    };
    let (traced, without): (Vec<_>, Vec<_>) = doctor.executing().partition(is_traced);
    if without.is_empty() {
        return traced.first().map(|_| Finding::new(Severity::Fine, "context-ids", "context identifiers are on"));
    }
    let processes = processes(doctor);
    // A recording of one thread, and one of switches, show which process executes.
    let is_known = doctor.capture.buffers.iter().all(|buffer| buffer.recorded.is_some_and(|it| it.thread.is_some()))
        || doctor.capture.events.iter().any(|event| matches!(event.call, Call::Switch { .. }));
    if processes.len() < 2 || is_known {
        let title = "context identifiers are off, and nothing here needs them";
        return Some(Finding::new(Severity::Fine, "context-ids", title));
    }
    let listed: Vec<String> = processes.iter().take(10).map(Pid::to_string).collect();
    let title = format!(
        "{} ran, and context identifiers are off",
        match processes.len() {
            1 => "1 process".to_string(),
            count => format!("{} processes", grouped(count as u64)),
        }
    );
    let evidence = without.iter().map(|examined| examined.evidence(None, "no context identifiers in the trace"));
    Some(
        Finding::new(Severity::Advice, "context-ids", title)
            .with([Evidence::new(format!("processes {}", listed.join(", ")))])
            .with(evidence)
            .remedy("set TRCCONFIGR.CID (bit 6), for a kernel at EL2 VMID (bit 7); perf record -e cs_etm/contextid/"),
    )
}

/// Processes of the system events.
fn processes(doctor: &Doctor<'_>) -> BTreeSet<Pid> {
    let pid = |call: &Call| match *call {
        Call::Process { pid, .. } | Call::Library { pid, .. } | Call::Thread { pid, .. } | Call::Exec { pid } => {
            Some(pid)
        }
        Call::Fork { child, .. } => Some(child),
        _ => None,
    };
    let pids = doctor.capture.events.iter().filter_map(|event| pid(&event.call));
    pids.filter(|pid| *pid != KERNEL).collect()
}

/// Subjects of packets.
const CLASSES: [(&str, &[&str]); 6] = [
    ("atoms", &["atom"]),
    ("addresses", &["address", "source_address"]),
    ("cycle counts", &["cycle_count"]),
    ("timestamps", &["timestamp"]),
    ("contexts", &["context"]),
    ("synchronization", &["alignment_sync", "trace_info"]),
];

/// Bytes of the packets of a class.
fn class_bytes(examined: &Examined<'_>, class: &str) -> u64 {
    let prefixes = CLASSES.iter().find(|(name, _)| *name == class).map_or(&[][..], |(_, prefixes)| prefixes);
    let is_in = |kind: &PacketKind| prefixes.iter().any(|prefix| kind.name().starts_with(prefix));
    examined.kind_bytes.iter().filter(|(kind, _)| is_in(kind)).map(|(_, bytes)| bytes).sum()
}

/// Bytes per instruction, and what they are for.
fn cost(doctor: &Doctor<'_>) -> Option<Finding> {
    let evidence: Vec<Evidence> = doctor
        .executing()
        .filter(|examined| examined.execution.instructions > 0)
        .map(|examined| {
            let shares = CLASSES.iter().filter_map(|(class, _)| match class_bytes(examined, class) {
                0 => None,
                bytes => percent(bytes, examined.bytes).map(|share| format!("{class} {share}")),
            });
            let shares: Vec<String> = shares.collect();
            examined
                .evidence(None, format!("{} bytes per instruction: {}", per_instruction(examined), shares.join(", ")))
        })
        .collect();
    let [bytes, instructions] = [
        doctor.executing().map(|examined| examined.bytes).sum::<u64>(),
        doctor.executing().map(|examined| examined.execution.instructions).sum(),
    ];
    let title = format!("{} for {}", many(bytes, "byte"), many(instructions, "instruction"));
    (!evidence.is_empty()).then(|| Finding::new(Severity::Fine, "cost", title).with(evidence))
}

/// Bytes per instruction, with three digits after the point.
fn per_instruction(examined: &Examined<'_>) -> String {
    let thousandths = u128::from(examined.bytes) * 1000 / u128::from(examined.execution.instructions.max(1));
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

/// Features that cost much.
fn features(doctor: &Doctor<'_>) -> impl Iterator<Item = Finding> {
    let large = || doctor.executing().filter(|examined| examined.bytes >= ENOUGH);
    let costly = |class: &str, examined: &Examined<'_>| is_share(class_bytes(examined, class), examined.bytes, COSTLY);
    let rows: [(&'static str, &str, &str, Vec<&Examined<'_>>, &str); 4] = [
        (
            "branch-broadcast",
            "branch broadcast is on: the target of every branch is traced",
            "addresses",
            large().filter(|examined| examined.is_configured(BRANCH_BROADCAST) == Some(true)).collect(),
            "clear TRCCONFIGR.BB (bit 3), or limit it to a range (TRCBBCTLR); perf: without branch_broadcast",
        ),
        (
            "cycle-counting",
            "cycle counts are a large part of the trace",
            "cycle counts",
            large().filter(|examined| examined.features.cycle_counting && costly("cycle counts", examined)).collect(),
            "clear TRCCONFIGR.CCI (bit 4), or raise the threshold in TRCCCCTLR; perf: without cycacc",
        ),
        (
            "return-stack",
            "the return stack is off: the target of every return is traced",
            "addresses",
            large()
                .filter(|examined| examined.is_configured(RETURN_STACK) == Some(false) && costly("addresses", examined))
                .collect(),
            "set TRCCONFIGR.RS (bit 12); perf record -e cs_etm/retstack/",
        ),
        (
            "frequent-timestamps",
            "timestamps are a large part of the trace",
            "timestamps",
            large().filter(|examined| costly("timestamps", examined)).collect(),
            "request timestamps less often: TRCTSCTLR selects the event, TRCCNTRLDVR the period of its counter",
        ),
    ];
    rows.into_iter()
        .filter(|(.., sources, _)| !sources.is_empty())
        .map(|(topic, title, class, sources, remedy)| {
            let evidence = sources.iter().map(|examined| {
                let bytes = class_bytes(examined, class);
                let share = percent(bytes, examined.bytes).unwrap_or_default();
                examined.evidence(None, format!("{class} are {share} of {}", many(examined.bytes, "byte")))
            });
            Finding::new(Severity::Advice, topic, title).with(evidence).remedy(remedy)
        })
        .collect::<Vec<_>>()
        .into_iter()
}
