//! Packet listings of recordings, compared line by line with `perf report -D` of Debian's perf, which uses OpenCSD.
//!
//! Both listings are brought to one form: trace ID, kind, and the values of the packet; and the offset, unless the trace is in
//! frames: the reference counts from the start of a run of bytes with one ID, in which the ID itself is a byte.

use std::fs;
use std::path::Path;
use std::process::Command;

use unspool::capture::Capture;
use unspool::coresight::etm4::Packet as Etm4Packet;
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::frame::Formatter;
use unspool::coresight::{Context, Element, ElementItem, Packet, PacketItem, Protocol, Security, Sink};
use unspool::{PresentIds, Trace, Watch};
use unspool_testing::perf::{ETE, ETM4, Event, PerfWriter, Trailer};
use unspool_testing::{corpus, example, tool};

use super::corpus::our_name;
use super::machine::trace_of_machine;
use super::perf_script::rewritten;

/// Names of exceptions in the listing of the reference.
const EXCEPTIONS: [(u16, &str); 12] = [
    (0, "PE Reset"),
    (1, "Debug Halt"),
    (2, "Call"),
    (3, "Trap"),
    (4, "System Error"),
    (6, "Inst Debug"),
    (7, "Data Debug"),
    (10, "Alignment"),
    (11, "Inst Fault"),
    (12, "Data Fault"),
    (14, "IRQ"),
    (15, "FIQ"),
];

/// Our packets of one source, one line each.
struct Lines {
    id: u8,
    is_raw: bool,
    /// Address and timestamp of the elements of the packet.
    address: Option<u64>,
    timestamp: Option<u64>,
    lines: Vec<String>,
}

impl Sink<ElementItem> for Lines {
    fn item(&mut self, item: ElementItem) {
        let Ok(element) = item else { return };
        self.address = element.value.address().or(self.address);
        if let Element::Timestamp { value, .. } = element.value {
            self.timestamp = Some(value);
        }
    }
}

impl Sink<PacketItem> for Lines {
    fn item(&mut self, item: PacketItem) {
        let (address, timestamp) = (self.address.take(), self.timestamp.take());
        let packet = item.unwrap_or_else(|error| panic!("{error:?}"));
        let kind = packet.value.kind().name();
        let Packet::Etm4(value) = packet.value else { panic!("{kind}") };
        let mut line = if self.is_raw { format!("{} ", packet.offset) } else { String::new() };
        line += &format!("{:x} {kind}", self.id);
        match value {
            Etm4Packet::Atoms(atoms) => line += &format!(" {atoms}"),
            Etm4Packet::Timestamp { .. } => line += &format!(" {:#x}", timestamp.unwrap()),
            Etm4Packet::Exception { number, .. } => {
                line += &format!(" {}", EXCEPTIONS.iter().find(|(known, _)| *known == number).unwrap().1);
            }
            Etm4Packet::Context(Some(context)) => line += &context_text(&context),
            _ => {}
        }
        line += &address.map_or(String::new(), |address| format!(" {address:#x}"));
        if let Etm4Packet::AddressContext { context, .. } = value {
            line += &context_text(&context);
        }
        self.lines.push(line);
    }
}

impl Watch for Lines {}

fn context_text(context: &Context) -> String {
    let width = if context.aarch64 { "AArch64" } else { "AArch32" };
    let security = if context.security == Security::Secure { "S" } else { "NS" };
    let id = context.context_id.map_or(String::new(), |id| format!(" {id:#x}"));
    format!(" {width} EL{} {security}{id}", context.el)
}

/// A packet of perf: `Idx:18; ID:10;\tI_ATOM_F1 : Atom format 1.; E`.
fn normalized(line: &str, is_raw: bool) -> Option<String> {
    let (index, rest) = line.split_once("Idx:")?.1.split_once("; ID:")?;
    let (id, packet) = rest.split_once(";\tI_")?;
    let (kind, text) = packet.split_once(' ')?;
    let kind = our_name(kind);
    let mut line = if is_raw { format!("{index} ") } else { String::new() };
    line += &format!("{id} {kind}");
    let hex = |text: &str| {
        let digits = text.trim_start_matches("0x").split(|c: char| !c.is_ascii_hexdigit()).next().unwrap();
        u64::from_str_radix(digits, 16).unwrap()
    };
    match kind.as_str() {
        "exception" => {
            let name = EXCEPTIONS.iter().find(|(_, name)| text.contains(&format!(" {name};")));
            line += &format!(" {}", name.unwrap_or_else(|| panic!("{text}")).1);
        }
        _ if kind.starts_with("atom") => line += &format!(" {}", text.rsplit("; ").next()?.trim()),
        "timestamp" => line += &format!(" {:#x}", hex(text.split_once("Updated val = ")?.1)),
        _ => {}
    }
    line += &text.split_once("Addr=").map_or(String::new(), |(_, rest)| format!(" {:#x}", hex(rest)));
    if let Some((_, context)) = text.split_once("Ctxt: ") {
        let words: Vec<&str> = context.split([',', ';']).map(str::trim).collect();
        // A packet without a context has the word "Same".
        if let [width, level, security, ..] = words[..] {
            line += &format!(" {width} {level} {security}");
        }
        line += &context.split_once("CID=").map_or(String::new(), |(_, rest)| format!(" {:#x}", hex(rest)));
    }
    Some(line)
}

/// The packets that perf lists, in order. It lists each buffer once when the file is read.
fn of_perf(perf: &Path, file: &Path, is_raw: bool) -> Vec<String> {
    let output = Command::new(perf).args(["report", "-D", "-i"]).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| normalized(line, is_raw)).collect()
}

fn of_us(file: &Path) -> Vec<String> {
    let capture = Capture::open(file).unwrap();
    let mut present = PresentIds::default();
    let mut all = Vec::new();
    for trace in Trace::all(&capture).iter().filter(|trace| present.may_have(trace)) {
        let is_raw = !trace.buffer().format.is_formatted();
        let id = trace.source().id.unwrap();
        let mut lines = Lines { id, is_raw, address: None, timestamp: None, lines: Vec::new() };
        trace.packets_and_elements(&mut lines).unwrap();
        all.extend(lines.lines);
    }
    all
}

/// A recording of one CPU in one session.
fn recording(settings: &Settings, is_raw: bool, trace: &[u8]) -> Vec<u8> {
    let value = |wanted: &str| settings.registers().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| value);
    let names = ["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS"];
    let mut registers: Vec<u64> = names.into_iter().map(value).collect();
    registers[1] = 0x16;
    let is_ete = settings.protocol == Protocol::Ete;
    registers.extend(is_ete.then_some(0x4771_5a13));
    let mut file = PerfWriter::new(false, &[Event::trace(&[78])]);
    file.info(1, &[(if is_ete { ETE } else { ETM4 }, 2, &registers)]);
    let trailer = Trailer { thread: (100, 100), time: 1000, cpu: 2, id: 78, ..Trailer::default() };
    file.aux(0, trace.len() as u64, if is_raw { 0x100 } else { 0 }, trailer);
    file.auxtrace(2, u32::MAX, 0, trace);
    file.file()
}

fn frames(stream: &[u8]) -> Vec<u8> {
    let mut formatter = Formatter::new();
    formatter.push(0x16, stream);
    formatter.finish()
}

fn assert_same_packets(name: &str, perf: &Path, file: &Path, is_raw: bool) -> usize {
    let (ours, theirs) = (of_us(file), of_perf(perf, file, is_raw));
    let at = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
    let around = at.map(|at| (&ours[at.saturating_sub(2)..at + 1], &theirs[at.saturating_sub(2)..at + 1]));
    assert_eq!(around, None, "{name}");
    assert_eq!(ours.len(), theirs.len(), "{name}: {:?} {:?}", ours.last(), theirs.last());
    ours.len()
}

#[test]
fn packets_are_those_of_perf() {
    let Some(perf) = tool("perf", "linux-perf") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    assert!(assert_same_packets("the example", &perf, &example("hello.perf.data"), false) > 20);
    let mut packets = 0;
    // The machines with identifiers of 32 bits: OpenCSD reads no others.
    for seed in 14..21 {
        let (settings, trace) = trace_of_machine(seed);
        for is_raw in [false, true] {
            let trace = if is_raw { trace.clone() } else { frames(&trace) };
            fs::write(&path, recording(&settings, is_raw, &trace)).unwrap();
            packets += assert_same_packets(&format!("machine {seed}, raw {is_raw}"), &perf, &path, is_raw);
        }
    }
    assert!(packets > 10_000, "{packets}");
}

#[test]
fn packets_of_the_corpus_are_those_of_perf() {
    let Some(corpus) = corpus("perf") else { return };
    let Some(perf) = tool("perf", "linux-perf") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let capture = Capture::open(corpus.join("perf_etm.data")).unwrap();
    fs::write(&path, rewritten(&capture, &corpus.join("etm_test_loop"))).unwrap();
    assert!(assert_same_packets("perf_etm.data", &perf, &path, false) > 10);
}
