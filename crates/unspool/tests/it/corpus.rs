//! Packets and elements of the corpus, compared with the packet lister of the reference decoder.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`, and `trc_pkt_lister` (Debian: libopencsd-bin).

use std::collections::BTreeMap;
use std::path::Path;

use unspool::capture::{BufferFormat, Capture};
use unspool::coresight::etm4::Packet as Etm4Packet;
use unspool::coresight::{Broken, Element, ElementItem, Malformed, Packet, PacketItem, Sink, Transactions};
use unspool::{Trace, Watch, overview};
use unspool_testing::{reference_listing, tool};

use super::fixtures::{assert_same, etm4_traces, snapshots};

/// Name of bytes before the first synchronization.
const NOT_SYNCHRONIZED: &str = "not synchronized";

/// Counts by kind of packet.
type Counts = BTreeMap<String, u64>;

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap()
}

fn our_counts(trace: &Trace<'_>) -> Counts {
    let mut counts = Counts::new();
    let mut after_exception = false;
    trace
        .packets(&mut (
            |item: PacketItem| {
                let kind = match &item {
                    // The reference counts an unknown address as part of the exception.
                    Ok(packet) if packet.value == Packet::Etm4(Etm4Packet::Ignore) && after_exception => return,
                    Ok(packet) => packet.value.kind().name(),
                    Err(error) if error.kind == Malformed::Discontinuity => return,
                    Err(error) if error.kind == Malformed::NotSynchronized => NOT_SYNCHRONIZED,
                    Err(_) => "malformed",
                };
                after_exception =
                    item.is_ok_and(|packet| matches!(packet.value, Packet::Etm4(Etm4Packet::Exception { .. })));
                *counts.entry(kind.to_string()).or_default() += 1;
            },
            (),
        ))
        .unwrap();
    counts
}

/// Packets of one source as the reference lists them, one line per packet.
fn reference_lines(path: &Path, trace: &Trace<'_>) -> Vec<String> {
    let mut options = vec!["-src_name", trace.buffer().name.as_str()];
    if trace.buffer().format == BufferFormat::DstreamFormatted {
        options.push("-dstream_format");
    }
    let text = reference_listing(path, &options).unwrap();
    let id = if trace.buffer().format.is_formatted() { trace.source().id.unwrap() } else { 0 };
    let prefix = format!("ID:{id:x};\t");
    text.lines().filter_map(|line| Some(line.split_once(&prefix)?.1.to_string())).collect()
}

fn reference_counts(lines: &[String]) -> Counts {
    let mut counts = Counts::new();
    // `I_ATOM_F3 : ...`
    for kind in lines.iter().filter_map(|line| line.split_once(' ')?.0.strip_prefix("I_")) {
        *counts.entry(our_name(kind)).or_default() += 1;
    }
    counts
}

/// Atoms and whole addresses, in order.
fn reference_values(lines: &[String]) -> Vec<String> {
    let value = |line: &String| match line.split_once("Addr=") {
        Some((_, rest)) => Some(rest.split([';', ' ']).next()?.to_lowercase()),
        None if line.starts_with("I_ATOM") => Some(line.rsplit("; ").next()?.to_string()),
        None => None,
    };
    lines.iter().filter_map(value).collect()
}

/// Complete addresses and atoms of packets.
#[derive(Default)]
struct Values {
    address: Option<u64>,
    values: Vec<String>,
}

impl Sink<ElementItem> for Values {
    fn item(&mut self, item: ElementItem) {
        self.address = item.ok().and_then(|element| element.value.address()).or(self.address);
    }
}

impl Sink<PacketItem> for Values {
    fn item(&mut self, item: PacketItem) {
        let address = self.address.take();
        match item.map(|packet| packet.value) {
            Ok(Packet::Etm4(Etm4Packet::Atoms(atoms))) => self.values.push(atoms.to_string()),
            _ => self.values.extend(address.map(|address| format!("{address:#018x}"))),
        }
    }
}

impl Watch for Values {}

pub(crate) fn our_name(kind: &str) -> String {
    let kind = kind.replace("SCR_ADDR", "SRC_ADDR");
    let (prefix, rest) = match kind.split_once("ADDR_") {
        Some(("SRC_", rest)) => ("source_address", rest.to_string()),
        Some(("", rest)) => match rest.strip_prefix("CTXT_") {
            Some(rest) => ("address_context", rest.to_string()),
            None => ("address", rest.to_string()),
        },
        _ => return plain_name(&kind),
    };
    let form = rest
        .to_lowercase()
        .replace("s_is", "short_is")
        .replace("l_", "")
        .replace("32is", "32_is")
        .replace("64is", "64_is");
    format!("{prefix}_{form}")
}

fn plain_name(kind: &str) -> String {
    match kind {
        "ASYNC" => "alignment_sync",
        "EXCEPT" | "PE_RESET" | "TRANS_FAIL" => "exception",
        "EXCEPT_RTN" => "exception_return",
        "TRANS_ST" => "transaction_start",
        "TRANS_COMMIT" => "transaction_commit",
        "CTXT" => "context",
        "TS_MARKER" => "timestamp_marker",
        "CANCEL_F1_MISPRED" => "cancel_format_1",
        "NOT_SYNC" => NOT_SYNCHRONIZED,
        "BAD_SEQUENCE" | "BAD_TRACEMODE" | "RESERVED" | "RESERVED_CFG" => "malformed",
        other => return other.to_lowercase().replace("ccnt_f", "cycle_count_f").replace("_f", "_format_"),
    }
    .to_string()
}

/// Snapshots whose counts cannot agree, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    ("ete-ite-instr", "Debian's reference is older than the instrumentation packet"),
    (
        "a55-test-tpiu",
        "four packets have wrong bits; the reference resumes in the middle of them and finds packets that were never sent",
    ),
];

#[test]
fn packets_agree_with_the_reference() {
    let Some(snapshots) = snapshots() else { return };
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let mut compared = 0;
    for path in &snapshots {
        if let Some((name, why)) = DIFFERENCES.iter().find(|(known, _)| *known == name(path)) {
            println!("not compared: {name}: {why}");
            continue;
        }
        let capture = Capture::open(path).unwrap();
        for trace in etm4_traces(&capture) {
            let lines = reference_lines(path, &trace);
            let (ours, reference) = (our_counts(&trace), reference_counts(&lines));
            assert_eq!(ours, reference, "{} {} session {}", name(path), trace.source().name, trace.session());
            // After an impossible packet we trust no address until the next trace info; the reference does.
            if name(path) != "infrastructure" {
                let mut ours = Values::default();
                trace.packets_and_elements(&mut ours).unwrap();
                assert_same(name(path), &ours.values, &reference_values(&lines));
            }
            compared += ours.values().sum::<u64>();
        }
    }
    println!(
        "{compared} packets of {} snapshots agree in kind, atoms and addresses",
        snapshots.len() - DIFFERENCES.len()
    );
    assert!(compared > 800_000);
}

/// Number of ranges of bytes that are not packets, by snapshot. All others have none.
const MALFORMED: &[(&str, u64)] = &[("a55-test-tpiu", 4), ("infrastructure", 54)];

#[test]
fn only_known_damage_is_reported() {
    let Some(snapshots) = snapshots() else { return };
    for path in &snapshots {
        let capture = Capture::open(path).unwrap();
        let overview = overview(&capture, &mut |_, _| {});
        let found: u64 =
            overview.traces.iter().filter_map(|(_, trace)| trace.as_ref().ok()).map(|trace| trace.malformed).sum();
        let expected = MALFORMED.iter().find(|(known, _)| *known == name(path)).map_or(0, |(_, count)| *count);
        assert_eq!(found, expected, "{}", name(path));
    }
}

#[test]
fn elements_commit_without_contradiction() {
    let Some(snapshots) = snapshots() else { return };
    for path in &snapshots {
        let capture = Capture::open(path).unwrap();
        for trace in etm4_traces(&capture) {
            let mut wrong = vec![];
            let mut uncertain = 0;
            let sink = |item: ElementItem| match item {
                Ok(element) => uncertain += u64::from(matches!(element.value, Element::Commit(_) | Element::Cancel(_))),
                Err(error) if matches!(error.kind, Broken::Packet(_) | Broken::NoTraceInfo) => {}
                Err(error) => wrong.push(error),
            };
            trace.committed(Transactions::Resolve, &mut (sink, ())).unwrap();
            let kinds: Vec<Broken> = wrong.iter().map(|error| error.kind).collect();
            assert_eq!((kinds, uncertain), (vec![], 0), "{} {}", name(path), trace.source().name);
        }
    }
}
