//! PTM trace of the corpus, compared with the reference decoder and with the listing of a debugger.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`, and for packets `trc_pkt_lister` (Debian: libopencsd-bin).
//! Compared are packets with their values, and every line of the reference's flow: ranges with cycle counts, contexts,
//! exceptions, timestamps, missing code.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use unspool::capture::Capture;
use unspool::coresight::ptm::Packet as PtmPacket;
use unspool::coresight::ptm::packet::{Branch, SyncReason};
use unspool::coresight::{
    DecodeElements as _, Decoders as _, Element, ElementItem, Packet, PacketItem, Packets, Protocol, Security, Sink,
    Transactions, ptm,
};
use unspool::flow::{FlowItem, FlowSink, Item, Run};
use unspool::isa::{ControlFlow, Isa};
use unspool::{Program, Trace, Watch};
use unspool_testing::{corpus, reference_listing, tool};

use super::fixtures::assert_same;

/// Snapshots with PTM trace, and the expected flow of their sources.
const SNAPSHOTS: [(&str, &[&str]); 2] = [("TC2", &["s0.13"]), ("tc2-ptm-rstk-t32", &["s0.2"])];

fn folders() -> Option<Vec<PathBuf>> {
    let folder = corpus("coresight")?;
    Some(SNAPSHOTS.iter().map(|(name, _)| folder.join(name)).collect())
}

/// PTM traces of a capture that have bytes.
fn ptm_traces(capture: &Capture) -> Vec<Trace<'_>> {
    let mut traces = Trace::all(capture);
    traces.retain(|trace| trace.source().protocol == Some(Protocol::Ptm) && !packets(trace).0.is_empty());
    traces
}

/// Packets in the words of the reference, with complete addresses and times.
#[derive(Default)]
struct PacketLines(Vec<String>, Option<u64>, Option<u64>);

fn packets(trace: &Trace<'_>) -> PacketLines {
    let mut lines = PacketLines::default();
    trace.packets_and_elements(&mut lines).unwrap();
    lines
}

impl Sink<ElementItem> for PacketLines {
    fn item(&mut self, item: ElementItem) {
        let Ok(element) = item else { return };
        self.1 = element.value.address().or(self.1);
        if let Element::Timestamp { value, .. } = element.value {
            self.2 = Some(value);
        }
    }
}

impl Sink<PacketItem> for PacketLines {
    fn item(&mut self, item: PacketItem) {
        let (address, time) = (self.1.take(), self.2.take());
        let counted = |cycles: Option<u32>| cycles.map_or(String::new(), |cycles| format!(" cycles {cycles}"));
        let line = match item.map(|packet| packet.value) {
            Ok(Packet::Ptm(packet)) => match packet {
                PtmPacket::AlignmentSync => "ASYNC".to_string(),
                PtmPacket::InstructionSync(sync) => {
                    let reason = match sync.reason {
                        SyncReason::Periodic => "Periodic",
                        SyncReason::TraceEnabled => "Trace Enable",
                        SyncReason::AfterOverflow => "Restart Overflow",
                        SyncReason::DebugExit => "Debug Exit",
                    };
                    let isa = if sync.thumb { "Thumb2" } else { "ARM(32)" };
                    let state = if sync.nonsecure { "N" } else { "S" };
                    format!("ISYNC ({reason}) {:08x} {state} {isa}{}", sync.address, counted(sync.cycles))
                }
                PtmPacket::Branch(Branch { address: sent, info, cycles }) => {
                    let isa = sent.isa.filter(|_| info.is_none_or(|info| info.exception == 0));
                    let whole = sent.isa.map(|isa| u64::from(sent.steps << isa.shift()));
                    let address = whole.or(address).unwrap();
                    let isa = isa.map_or(String::new(), |isa| format!(" {isa:?}"));
                    let exception = info.map_or(String::new(), |info| format!(" exception {:02x}", info.exception));
                    format!("BRANCH_ADDRESS {address:08x}{isa}{exception}{}", counted(cycles))
                }
                PtmPacket::Atoms { atoms, cycles } => format!("ATOM {atoms}{}", counted(cycles)),
                PtmPacket::Timestamp { cycles, .. } => format!("TIMESTAMP {:x}{}", time.unwrap(), counted(cycles)),
                PtmPacket::ExceptionReturn => "ERET".to_string(),
                other => format!("{other}"),
            },
            Ok(other) => panic!("{other}"),
            Err(error) if error.kind.is_ordinary() => return,
            Err(error) => error.to_string(),
        };
        self.0.push(line);
    }
}

impl Watch for PacketLines {}

/// A line of the reference: `ATOM : Atom packet; E; Cycles=522; `
fn reference_packet(line: &str) -> Option<String> {
    let (kind, rest) = line.split_once(" : ")?;
    let fields: Vec<&str> = rest.split(';').map(str::trim).collect();
    let value = |name: &str| fields.iter().find_map(|field| field.strip_prefix(name));
    let hex = |text: &str| text.split_whitespace().next().unwrap().trim_start_matches("0x").to_lowercase();
    let cycles = value("Cycles=").map_or(String::new(), |cycles| format!(" cycles {cycles}"));
    Some(match kind {
        "NOTSYNC" => return None,
        "ISYNC" => {
            let isa = value("ISA=").unwrap();
            format!("ISYNC {} {} {} {isa}{cycles}", fields[1], hex(value("Addr=").unwrap()), fields[3])
        }
        "BRANCH_ADDRESS" => {
            let isa = value("ISA=").map_or("", |isa| if isa.starts_with("ARM") { " Arm" } else { " Thumb" });
            let exception = value("Excep=").map(|text| text.split(['[', ']']).nth(1).unwrap());
            let exception = exception.map_or(String::new(), |number| format!(" exception {number}"));
            format!("BRANCH_ADDRESS {}{isa}{exception}{cycles}", hex(value("Addr=").unwrap()))
        }
        "ATOM" => format!("ATOM {}{cycles}", fields[1]),
        "TIMESTAMP" => format!("TIMESTAMP {}{cycles}", hex(value("TS=").unwrap()).trim_start_matches('0')),
        other => other.to_string(),
    })
}

#[test]
fn packets_agree_with_the_reference() {
    let Some(folders) = folders() else { return };
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let mut compared = 0;
    for path in folders {
        let capture = Capture::open(&path).unwrap();
        for trace in ptm_traces(&capture) {
            let listing = reference_listing(&path, &["-src_name", trace.buffer().name.as_str()]).unwrap();
            let id = if trace.buffer().format.is_formatted() { trace.source().id.unwrap() } else { 0 };
            let prefix = format!("ID:{id:x};\t");
            let theirs: Vec<String> =
                listing.lines().filter_map(|line| reference_packet(line.split_once(&prefix)?.1)).collect();
            let ours = packets(&trace).0;
            assert_same(&format!("{} {id:x}", path.display()), &ours, &theirs);
            compared += ours.len();
        }
    }
    println!("{compared} packets agree");
    assert!(compared > 21_800, "only {compared} packets");
}

/// The flow in the words of the reference.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    /// The offset of the last range or start of tracing, which a cycle count may belong to.
    counted: Option<u64>,
    cycles: Option<(u64, u32)>,
    context: Option<Security>,
    problems: Vec<String>,
}

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            let (isa, last) = (range.isa().name().to_uppercase(), range.last());
            let outcome = if range.taken() { "E" } else { "N" };
            let kind = match last.flow {
                ControlFlow::Isb => "ISB",
                flow if flow.is_indirect() => "iBR",
                _ => "BR",
            };
            let (start, end, count, size) = (range.start(), range.end(), range.instructions(), last.length);
            self.lines.push(format!("R {start:x} {end:x} {count} {size} {isa} {outcome} {kind}"));
        }
        self.counted = Some(run.offset());
    }

    fn item(&mut self, item: FlowItem) {
        let item = match item {
            Ok(item) => item,
            Err(error) if error.kind.is_ordinary() => return,
            Err(error) => return self.problems.push(error.to_string()),
        };
        let counted = self.counted.take();
        let cycles = self.cycles.take().filter(|(offset, _)| *offset == item.offset).map(|(_, cycles)| cycles);
        match item.value {
            Item::CycleCount(Some(cycles)) if counted == Some(item.offset) => {
                self.lines.last_mut().unwrap().push_str(&format!(" cycles {cycles}"));
            }
            Item::CycleCount(Some(cycles)) => self.cycles = Some((item.offset, cycles)),
            Item::TraceOn => {
                self.lines.push("TRACE_ON".to_string());
                self.counted = Some(item.offset);
            }
            Item::Context(context) if self.context != Some(context.security) => {
                self.context = Some(context.security);
                self.lines.push(format!("PE_CONTEXT {}", context.security.name()));
            }
            Item::Timestamp { value, .. } => {
                let cycles = cycles.map_or(String::new(), |cycles| format!(" cycles {cycles}"));
                self.lines.push(format!("TIMESTAMP {value:x}{cycles}"));
            }
            Item::Exception { number, return_address } => {
                let address = return_address.map_or("-".into(), |address| format!("{address:x}"));
                self.lines.push(format!("EXCEPTION {number:#04x} {address}"));
            }
            Item::ExceptionReturn => self.lines.push("EXCEPTION_RET".to_string()),
            Item::NoCode { address, .. } => self.lines.push(format!("ADDR_NACC {address:x}")),
            Item::Finding(finding) => self.problems.push(finding.to_string()),
            _ => {}
        }
    }
}

impl Watch for Lines {}

fn theirs(path: &Path) -> Vec<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut lines: Vec<String> = text.lines().filter_map(their_line).collect();
    // The reference repeats a context if only the instruction set differs.
    let mut context = String::new();
    lines.retain(|line| !line.starts_with("PE_CONTEXT") || std::mem::replace(&mut context, line.clone()) != *line);
    lines
}

fn their_line(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let cycles = |text: &str| {
        let count = text.split("[CC=").nth(1).map(|rest| rest.split(']').next().unwrap());
        count.map_or(String::new(), |count| format!(" cycles {count}"))
    };
    Some(match fields[..] {
        ["NO_SYNC" | "EO_TRACE", ..] => return None,
        ["R", start, end, count, size, isa, outcome, kind, _, _, cycles] => {
            let cycles = if cycles == "-" { String::new() } else { format!(" cycles {cycles}") };
            format!("R {start} {end} {count} {size} {isa} {outcome} {kind}{cycles}")
        }
        ["TRACE_ON", text] => format!("TRACE_ON{}", cycles(text)),
        ["PE_CONTEXT", text] => format!("PE_CONTEXT {}", if text.contains(") S;") { "secure" } else { "nonsecure" }),
        ["TIMESTAMP", text] => {
            let time = text.split("TS=0x").nth(1).unwrap().split(']').next().unwrap();
            format!("TIMESTAMP {}{}", time.trim_start_matches('0'), cycles(text))
        }
        ["EXCEPTION", text] => {
            let number = text.split("excep num (").nth(1).unwrap().split(')').next().unwrap();
            let address = text.split("pref ret addr:0x").nth(1).map(|rest| rest.split([';', ' ']).next().unwrap());
            format!("EXCEPTION {number} {}", address.unwrap_or("-"))
        }
        ["EXCEPTION_RET", ..] => "EXCEPTION_RET".to_string(),
        ["ADDR_NACC", text] => format!("ADDR_NACC {}", text.split(';').next().unwrap().trim_start_matches("0x")),
        _ => panic!("unknown line '{line}'"),
    })
}

#[test]
fn flow_agrees_with_the_reference() {
    let Some(folders) = folders() else { return };
    let mut compared = 0;
    for (path, (name, expected)) in folders.iter().zip(SNAPSHOTS) {
        let capture = Capture::open(path).unwrap();
        for (trace, expected) in ptm_traces(&capture).iter().zip(expected) {
            let (program, _) = Program::of(&capture, trace.source().core, &[]);
            let mut ours = Lines::default();
            trace.flow(Transactions::Show, &program, &mut ours).unwrap();
            let theirs = theirs(&path.join("expected").join(format!("{expected}.txt.gz")));
            assert_same(name, &ours.lines, &theirs);
            assert_eq!(ours.problems, Vec::<String>::new(), "{name}");
            compared += ours.lines.len();
        }
    }
    println!("{compared} lines agree");
    assert!(compared > 54_900, "only {compared} lines");
}

/// The instructions of a flow: address, opcode, cycles at the end of a range, whether the condition failed.
#[derive(Default)]
struct Executed {
    lines: Vec<String>,
    offset: Option<u64>,
}

impl FlowSink for Executed {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            let mut address = range.start();
            for &opcode in range.opcodes() {
                let length = if range.isa() == Isa::T32 && opcode < 0x1_0000 { 2 } else { 4 };
                self.lines.push(format!("{address:x} {opcode:0width$x} 0", width = length * 2));
                address += length as u64;
            }
            if !range.taken() {
                self.lines.last_mut().unwrap().push_str(" fail");
            }
        }
        self.offset = Some(run.offset());
    }

    fn item(&mut self, item: FlowItem) {
        let Ok(item) = item else { return };
        if let (Item::CycleCount(Some(cycles)), true) = (item.value, self.offset.take() == Some(item.offset)) {
            let last = self.lines.last_mut().unwrap();
            let words: Vec<&str> = last.split(' ').collect();
            let fail = words.get(3).map_or("", |_| " fail");
            *last = format!("{} {} {cycles}{fail}", words[0], words[1]);
        }
    }
}

impl Watch for Executed {}

#[test]
fn instructions_agree_with_the_listing_of_a_debugger() {
    let Some(folder) = corpus("coresight") else { return };
    let path = folder.join("TC2");
    let text = fs::read_to_string(path.join("ds5-dumps/ptmv1_0x13.txt")).unwrap();
    let theirs: Vec<String> = text
        .lines()
        .filter_map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            // Code that the debugger does not have is not in our capture either.
            ["Instruction", _, address, opcode, ..] if address.contains('?') || opcode.contains('?') => None,
            ["Instruction", _, address, opcode, cycles, _, _, fail] => {
                let address = address.strip_prefix("S:0x").unwrap().to_lowercase();
                let opcode = opcode.strip_prefix("0x").unwrap().to_lowercase();
                Some(format!("{address} {opcode} {cycles} {fail}").trim_end().to_string())
            }
            _ => None,
        })
        .collect();
    let capture = Capture::open(&path).unwrap();
    let traces = ptm_traces(&capture);
    let (program, _) = Program::of(&capture, traces[0].source().core, &[]);
    let mut ours = Executed::default();
    traces[0].flow(Transactions::Show, &program, &mut ours).unwrap();
    assert_same("TC2 0x13", &ours.lines, &theirs);
    println!("{} instructions agree", theirs.len());
    assert!(theirs.len() > 6_000, "only {} instructions", theirs.len());
}

/// The bytes of a source.
fn bytes(trace: &Trace<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace.bytes(&mut (|part: &[u8]| bytes.extend_from_slice(part), ())).unwrap();
    bytes
}

/// Each flipped bit costs packets up to the next alignment synchronization at most.
#[test]
fn decoding_recovers_from_flipped_bits() {
    let Some(folders) = folders() else { return };
    let mut flips = 0;
    for path in folders {
        let capture = Capture::open(&path).unwrap();
        for trace in ptm_traces(&capture) {
            let registers = trace.source().registers.iter().map(|register| (register.name.as_str(), register.value));
            let (config, _) = ptm::Config::described(registers, []);
            flips += flip_each(&config, &bytes(&trace));
        }
    }
    println!("{flips} flips");
    assert!(flips >= 2_000, "only {flips} flips");
}

/// Flips bits of a stream, one at a time, and returns their number.
fn flip_each(config: &ptm::Config, bytes: &[u8]) -> usize {
    const FLIPS: usize = 1_000;
    let whole: Vec<_> = Packets::new(config, bytes).collect();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..FLIPS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (random >> 33) as usize % bytes.len();
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (random >> 29 & 7);
        let items: Vec<_> = Packets::new(config, &flipped).collect();
        let ends: u64 = items.iter().map(|item| item.map_or_else(|error| error.skipped, |packet| packet.length)).sum();
        assert_eq!(ends, bytes.len() as u64, "flip at {at:#x}: not every byte is in an item");
        let sync =
            whole.iter().flatten().find(|packet| packet.offset > at as u64 && packet.value == PtmPacket::AlignmentSync);
        let from = sync.map_or(bytes.len() as u64, |sync| sync.offset + sync.length);
        let after = |items: &[ptm::PacketItem]| -> Vec<ptm::PacketItem> {
            let starts_after = |item: &&ptm::PacketItem| item.map_or_else(|error| error.offset, |it| it.offset) >= from;
            items.iter().filter(starts_after).copied().collect()
        };
        assert_same(&format!("flip at {at:#x}"), &after(&items), &after(&whole));
        decode_elements(config, &items);
    }
    FLIPS
}

/// Elements of any packets are made without a panic, and each error of the packets is among them.
fn decode_elements(config: &ptm::Config, items: &[ptm::PacketItem]) {
    let mut decoder = config.elements();
    let mut errors = 0;
    let mut count = |item: ElementItem| errors += usize::from(item.is_err());
    items.iter().for_each(|item| decoder.push(*item, &mut count));
    decoder.finish(&mut count);
    assert!(errors >= items.iter().filter(|item| item.is_err()).count());
}
