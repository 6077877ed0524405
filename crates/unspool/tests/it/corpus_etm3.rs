//! ETMv3 trace of the corpus, compared with the reference decoder and with the lists of a debugger.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`; packets also need `trc_pkt_lister` (Debian:
//! libopencsd-bin).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use unspool::capture::Capture;
use unspool::coresight::etm3::Packet as Etm3Packet;
use unspool::coresight::etm3::packet::{PHeader, SyncReason};
use unspool::coresight::{ElementItem, Malformed, Packet, PacketItem, Protocol, Sink, Transactions};
use unspool::flow::{FlowItem, FlowSink, Item, Range, Run};
use unspool::isa::ControlFlow;
use unspool::{Program, Trace, Watch};
use unspool_testing::{corpus, reference_listing, tool};

use super::fixtures::assert_same;

/// Snapshots with ETMv3 trace.
const SNAPSHOTS: [&str; 2] = ["TC2", "stm32f105"];

/// Runs a comparison for each ETMv3 trace of the corpus that has bytes.
fn for_each_trace(mut compare: impl FnMut(&Path, &Capture, &Trace<'_>)) {
    let Some(corpus) = corpus("coresight") else { return };
    let mut traces = 0;
    for path in SNAPSHOTS.map(|name| corpus.join(name)) {
        let capture = Capture::open(&path).unwrap();
        for trace in Trace::all(&capture).iter().filter(|trace| trace.source().protocol == Some(Protocol::Etm3)) {
            compare(&path, &capture, trace);
            traces += 1;
        }
    }
    assert_eq!(traces, 4, "three sources of TC2, one of stm32f105");
}

/// Packets in the words of the reference, with whole addresses and times.
#[derive(Default)]
struct Packets {
    lines: Vec<String>,
    address: Option<u64>,
    time: Option<u64>,
    counts_cycles: bool,
}

impl Sink<ElementItem> for Packets {
    fn item(&mut self, item: ElementItem) {
        let Ok(element) = item else { return };
        self.address = element.value.address().or(self.address);
        if let unspool::coresight::Element::Timestamp { value, .. } = element.value {
            self.time = Some(value);
        }
    }
}

impl Sink<PacketItem> for Packets {
    fn item(&mut self, item: PacketItem) {
        let (address, time) = (self.address.take(), self.time.take());
        let packet = match item {
            Ok(packet) => packet.value,
            Err(error) if matches!(error.kind, Malformed::NotSynchronized | Malformed::Discontinuity) => return,
            Err(error) => return self.lines.push(error.to_string()),
        };
        let Packet::Etm3(packet) = packet else { panic!("{packet}") };
        self.lines.push(match packet {
            Etm3Packet::AlignmentSync => "A_SYNC".into(),
            Etm3Packet::InstructionSync(sync) => {
                let cycles = sync.cycles.map_or(String::new(), |cycles| format!(" {cycles}"));
                let reason = match sync.reason {
                    SyncReason::Periodic => "Periodic",
                    SyncReason::Enabled => "Trace Enable",
                    SyncReason::Overflow => "Restart Overflow",
                    SyncReason::DebugExit => "Debug Exit",
                };
                format!("I_SYNC {reason} {:#010x}{cycles}", address.unwrap())
            }
            Etm3Packet::PHeader(header) => format!("P_HDR {}", atoms(header, self.counts_cycles)),
            Etm3Packet::Branch(_) => format!("BRANCH {:#x}", address.unwrap()),
            Etm3Packet::Timestamp { .. } => format!("TIMESTAMP {:#x}", time.unwrap()),
            Etm3Packet::ExceptionExit => "EXCEPTION_EXIT".into(),
            Etm3Packet::Trigger => "TRIGGER".into(),
            other => other.to_string(),
        });
    }
}

impl Watch for Packets {}

/// Cycles and atoms of a P-header.
fn atoms(header: PHeader, counts_cycles: bool) -> String {
    let atoms = header.atoms().to_string();
    match header {
        PHeader::Format1 { .. } if counts_cycles => atoms.chars().flat_map(|atom| ['W', atom]).collect(),
        PHeader::Format2 { .. } if counts_cycles => format!("W{atoms}"),
        PHeader::Format3 { cycles, .. } => "W".repeat(cycles.into()) + &atoms,
        _ => atoms,
    }
}

/// A line of the reference's packet lister.
fn their_packet(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" : ")?;
    let field = |key: &str| Some(rest.split_once(key)?.1.split([';', ' ']).next()?.to_lowercase());
    Some(match name {
        "NOTSYNC" => return None,
        "I_SYNC" | "I_SYNC_CYCLE" => {
            let reason = rest.split_once('(')?.1.split(')').next()?;
            let cycles = field("Cycles=").map_or(String::new(), |cycles| format!(" {cycles}"));
            format!("I_SYNC {reason} {}{cycles}", field("Addr=")?)
        }
        "P_HDR" => format!("P_HDR {}", rest.split("; ").nth(1)?.trim_end_matches(';').trim()),
        "BRANCH_ADDRESS" => format!("BRANCH {:#x}", u64::from_str_radix(field("Addr=0x")?.as_str(), 16).unwrap()),
        "TIMESTAMP" => format!("TIMESTAMP {}", field("TS=")?),
        other => other.into(),
    })
}

#[test]
fn packets_agree_with_the_reference() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let mut compared = 0;
    for_each_trace(|path, _, trace| {
        let id = trace.source().id.unwrap();
        let text = reference_listing(path, &["-src_name", trace.buffer().name.as_str()]).unwrap();
        let prefix = format!("ID:{id:x};\t");
        let lines = text.lines().filter_map(|line| Some(line.split_once(&prefix)?.1));
        let theirs: Vec<String> = lines.filter_map(their_packet).collect();
        let mut ours = Packets { counts_cycles: trace.features().unwrap().0.cycle_counting, ..Packets::default() };
        trace.packets_and_elements(&mut ours).unwrap();
        assert_same(&format!("{} {id:#x}", path.display()), &ours.lines, &theirs);
        compared += theirs.len();
    });
    println!("corpus: {compared} packets of ETMv3 agree with the reference");
    assert!(compared == 0 || compared > 20_000, "{compared}");
}

/// The flow of a program in the words of the reference, each line with its offset.
#[derive(Default)]
struct Lines {
    lines: Vec<(u64, String)>,
    /// Cycles that a packet has before its atoms, and the offset of the packet.
    cycles: Option<(u64, u32)>,
    counts_cycles: bool,
}

impl Lines {
    fn push(&mut self, offset: u64, line: impl Into<String>) {
        self.lines.push((offset, line.into()));
    }

    /// The reference counts the cycles of a packet with atoms in the line of the instruction.
    fn range(&mut self, offset: u64, range: &Range<'_>) {
        let of_packet = self.cycles.take();
        let cycles = match of_packet {
            Some((at, cycles)) if at == offset => cycles,
            other => {
                self.flush(other);
                0
            }
        };
        let last = range.last();
        let kind = match last.flow {
            ControlFlow::Direct => "BR",
            ControlFlow::Indirect | ControlFlow::ExceptionReturn => "iBR",
            ControlFlow::Isb => "ISB",
            _ => "---",
        };
        let detail = match last {
            _ if last.link => "b+link",
            _ if last.ret => "V7:impl ret",
            _ => "-",
        };
        let (start, end, isa) = (range.start(), range.end(), range.isa().name().to_uppercase());
        let outcome = if range.taken() { "E" } else { "N" };
        let conditional = if last.conditional && last.flow == ControlFlow::Direct { "c" } else { "-" };
        let cycles = if self.counts_cycles { cycles.to_string() } else { "-".into() };
        let (count, length) = (range.instructions(), last.length);
        self.push(
            offset,
            format!(
                "R\t{start:x}\t{end:x}\t{count}\t{length}\t{isa}\t{outcome}\t{kind}\t{detail}\t{conditional}\t{cycles}"
            ),
        );
    }

    fn flush(&mut self, cycles: Option<(u64, u32)>) {
        if let Some((offset, cycles)) = cycles {
            self.push(offset, format!("CYCLE_COUNT\t[CC={cycles}];"));
        }
    }
}

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        run.ranges().for_each(|range| self.range(run.offset(), &range));
    }

    fn item(&mut self, item: FlowItem) {
        let Ok(item) = item else { return };
        let offset = item.offset;
        let of_packet = self.cycles.take();
        match item.value {
            Item::CycleCount(Some(cycles)) => {
                self.flush(of_packet);
                self.cycles = Some((offset, cycles));
            }
            // The cycles of a synchronization are in its context.
            Item::TraceOn => {
                self.cycles = of_packet.filter(|(at, _)| *at == offset);
                self.flush(of_packet.filter(|(at, _)| *at != offset));
                self.push(offset, "TRACE_ON\t[begin or filter]");
            }
            Item::Context(_) => {
                let cycles = of_packet.map_or(String::new(), |(_, cycles)| format!(" [CC={cycles}];"));
                self.push(offset, format!("{CONTEXT}{cycles}"));
            }
            other => {
                self.flush(of_packet);
                match other {
                    Item::Timestamp { value, .. } => self.push(offset, format!("TIMESTAMP\t[ TS=0x{value:012x}];")),
                    Item::ExceptionReturn => self.push(offset, "EXCEPTION_RET\t"),
                    Item::Trigger => self.push(offset, "EVENT\tTrigger;"),
                    Item::End => {}
                    other => self.push(offset, format!("{other:?}")),
                }
            }
        }
    }
}

impl Watch for Lines {}

/// The only context of these captures.
const CONTEXT: &str = "PE_CONTEXT\t(ISA=T32) S; 32-bit;";

/// Offsets of periodic synchronizations where trace continues: the reference repeats the context there.
fn periodic_syncs(trace: &Trace<'_>) -> Vec<u64> {
    let (mut offsets, mut known) = (Vec::new(), false);
    let mut sink = |item: PacketItem| {
        if let Ok(packet) = item
            && let Packet::Etm3(Etm3Packet::InstructionSync(sync)) = packet.value
        {
            offsets.extend((known && sync.reason == SyncReason::Periodic).then_some(packet.offset));
            known = true;
        }
    };
    trace.packets(&mut (&mut sink, ())).unwrap();
    offsets
}

fn flow(capture: &Capture, trace: &Trace<'_>, sink: &mut (impl FlowSink + Watch)) {
    let (program, _) = Program::of(capture, trace.source().core, &[]);
    trace.flow(Transactions::Show, &program, sink).unwrap();
}

fn unpacked(path: PathBuf) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Every line of the reference is ours, cycle counts included.
#[test]
fn flow_agrees_with_the_reference() {
    let mut compared = 0;
    for_each_trace(|path, capture, trace| {
        let id = trace.source().id.unwrap();
        let text = unpacked(path.join("expected").join(format!("s0.{id:x}.txt.gz")));
        let is_compared = |line: &&str| !line.starts_with("NO_SYNC") && !line.starts_with("EO_TRACE");
        let theirs: Vec<String> = text.lines().filter(is_compared).map(Into::into).collect();
        let mut ours = Lines { counts_cycles: trace.features().unwrap().0.cycle_counting, ..Lines::default() };
        flow(capture, trace, &mut ours);
        for offset in periodic_syncs(trace) {
            let at = ours.lines.partition_point(|(line, _)| *line < offset);
            ours.lines.insert(at, (offset, CONTEXT.into()));
        }
        let ours: Vec<String> = ours.lines.into_iter().map(|(_, line)| line).collect();
        assert_same(&format!("{} {id:#x}", path.display()), &ours, &theirs);
        compared += theirs.len();
    });
    println!("corpus: {compared} lines of ETMv3 flow agree with the reference");
    assert!(compared == 0 || compared > 25_000, "{compared}");
}

/// Instructions, gaps, times and returns as the debugger lists them.
#[derive(Default)]
struct DebuggerLines {
    lines: Vec<String>,
    cycles: u64,
    is_on: bool,
}

impl FlowSink for DebuggerLines {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            let fail = if range.taken() { "" } else { " fail" };
            let cycles = std::mem::take(&mut self.cycles);
            self.lines.push(format!("{:x} {:x} {cycles}{fail}", range.start(), range.opcodes()[0]));
        }
    }

    fn item(&mut self, item: FlowItem) {
        match item.map(|item| item.value) {
            Ok(Item::CycleCount(Some(cycles))) => self.cycles += u64::from(cycles),
            Ok(Item::TraceOn) => {
                let cycles = std::mem::take(&mut self.cycles);
                if std::mem::replace(&mut self.is_on, true) {
                    self.lines.push(format!("gap {cycles}"));
                    self.lines.push("Tracing enabled".into());
                }
            }
            Ok(Item::Timestamp { value, .. }) if self.is_on => self.lines.push(format!("Timestamp: {value}")),
            Ok(Item::ExceptionReturn) => self.lines.push("Return from exception".into()),
            _ => {}
        }
    }
}

impl Watch for DebuggerLines {}

fn debugger_line(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let hex = |text: &str| text.trim_start_matches("S:").trim_start_matches("0x").to_lowercase();
    match fields[..] {
        ["Instruction", _, address, opcode, cycles, _, _, fail] => {
            let fail = if fail == "fail" { " fail" } else { "" };
            let opcode = u32::from_str_radix(&hex(opcode), 16).unwrap();
            Some(format!("{} {opcode:x} {cycles}{fail}", hex(address)))
        }
        ["Cycle Count", _, _, _, cycles, ..] => Some(format!("gap {cycles}")),
        ["Info" | "Timestamp", _, _, _, _, text, ..] => Some(text.into()),
        _ => None,
    }
}

#[test]
fn flow_agrees_with_the_debugger() {
    let mut compared = 0;
    for_each_trace(|path, capture, trace| {
        let id = trace.source().id.unwrap();
        let list = path.join(format!("ds5-dumps/etmv3_{id:#x}.txt"));
        let Ok(text) = std::fs::read_to_string(&list) else { return };
        let theirs: Vec<String> = text.lines().filter_map(|line| debugger_line(&line.replace("S:0x", "S:"))).collect();
        let mut ours = DebuggerLines::default();
        flow(capture, trace, &mut ours);
        assert_same(&list.display().to_string(), &ours.lines, &theirs);
        compared += theirs.len();
    });
    println!("corpus: {compared} lines of a debugger agree");
    assert!(compared == 0 || compared > 16_000, "{compared}");
}
