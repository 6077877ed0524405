//! Real STF traces, compared with the output of the reference tools.
//!
//! trace ─▶ instructions and records ─▶ compared with **dump**, **record_dump**, **count** and **imix**, field by field
//!
//! Needs the corpus: `UNSPOOL_CORPUS` names its folder.
//! The reference's listings of long traces have the first thousand instructions; counts cover everything.
//!
//! Accepted differences:
//! - `dump` crashes at the end of a trace whose VLEN is not a multiple of 64; its last instruction is left out.
//! - `dump` groups registers by operand; here they are in file order, so each group is compared separately. It shows no
//!   process of the header, no page table walks, no bus and no event targets; `record_dump` has all of these.
//! - `record_dump` writes the header in another order, without its process; the header is compared sorted.

#![cfg(feature = "text")]
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool_stf::Record;
use unspool_stf::lift::{Follower, Instruction};
use unspool_stf::names::{self, EventKind, RegisterName};
use unspool_stf::read::{Gather, ReadOptions, Reader};
use unspool_stf::record::{Event, Register};
use unspool_stf::stats::{Counts, Stats, Table};
use unspool_testing::{corpus, note};

use crate::fixtures::instructions_of;

#[test]
fn instructions_match_the_reference() {
    let Some(traces) = traces() else { return };
    let (mut instructions, mut details) = (0, 0);
    for trace in &traces {
        let expected = dump(trace);
        let ours = first_instructions(&trace.file, expected.len());
        assert_eq!(ours.len(), expected.len(), "{}", trace.name);
        for (ours, expected) in ours.iter().zip(&expected) {
            assert_eq!(ours, expected, "{}", trace.name);
            details += expected.details();
        }
        instructions += expected.len();
    }
    note(format_args!(
        "corpus: {} listings, {instructions} instructions with {details} details compared",
        traces.len()
    ));
    assert!(traces.len() >= 25 && instructions > 20_000, "the corpus is not all there");
}

#[test]
fn records_match_the_reference() {
    let Some(traces) = traces() else { return };
    let mut lines = 0;
    for trace in &traces {
        let text = text_of(&trace.expected, "record_dump");
        let text: Vec<&str> = text.lines().filter(|line| !line.starts_with("Start Inst:")).collect();
        let (mut header, mut body) = record_lines(&trace.file, text.len());
        // Continuation lines make ours longer.
        body.truncate(text.len() - header.len());
        let (mut expected_header, expected_body): (Vec<&str>, Vec<&str>) =
            (text[..header.len()].to_vec(), text[header.len()..].to_vec());
        header.sort_unstable();
        expected_header.sort_unstable();
        assert_eq!(header, expected_header, "{}", trace.name);
        for (index, (ours, expected)) in body.iter().zip(&expected_body).enumerate() {
            // The indentation of a continuation line depends on the length of a name.
            assert_eq!(ours.trim_start(), expected.trim_start(), "{} line {index}", trace.name);
        }
        assert_eq!(body.len(), expected_body.len(), "{}", trace.name);
        lines += text.len();
    }
    note(format_args!("corpus: {} listings, {lines} lines of records compared", traces.len()));
    assert!(lines > 60_000, "the corpus is not all there");
}

#[test]
fn counts_and_mixes_match_the_reference() {
    let Some(traces) = traces() else { return };
    let mut all = 0;
    for trace in &traces {
        let (counts, table) = count(&trace.file);
        let ours = [
            counts.records,
            counts.instructions,
            counts.opcodes,
            counts.accesses,
            counts.memory_records,
            counts.microops,
            counts.comments,
            counts.events,
            counts.user,
            counts.non_user,
            counts.faults,
            counts.walks,
        ];
        let text = text_of(&trace.expected, "count.csv");
        let expected: Vec<u64> = text.lines().nth(1).unwrap().split(',').map(|field| field.parse().unwrap()).collect();
        assert_eq!(ours[..], expected, "{}: {}", trace.name, text.lines().next().unwrap());
        let classes = table.by_class().into_iter().map(|(class, count)| (class.name().to_string(), count)).collect();
        let mnemonics = table.by_mnemonic().into_iter().map(|(name, count)| (name.to_string(), count)).collect();
        assert_eq!(mix(trace, "imix.txt"), classes, "{}", trace.name);
        assert_eq!(mix(trace, "imix_mnemonic.txt"), mnemonics, "{}", trace.name);
        assert_eq!((table.total, table.unclassified), (counts.instructions, 0), "{}", trace.name);
        all += counts.instructions;
    }
    note(format_args!("corpus: counts and mixes of {} traces with {all} instructions are equal", traces.len()));
    assert!(all > 20_000_000, "the corpus is not all there");
}

/// A trace and the folder of the reference's output.
struct Trace {
    name: String,
    file: PathBuf,
    expected: PathBuf,
}

fn traces() -> Option<Vec<Trace>> {
    let stf = corpus("stf")?;
    let entries = fs::read_dir(stf.join("expected")).unwrap();
    let mut traces: Vec<Trace> = entries
        .map(|entry| {
            let expected = entry.unwrap().path();
            let name = expected.file_name().unwrap().to_str().unwrap().to_string();
            let (folder, file) = name.split_once("__").unwrap();
            Trace { file: stf.join(folder).join(file), expected, name }
        })
        .collect();
    traces.sort_by(|one, other| one.name.cmp(&other.name));
    Some(traces)
}

/// Everything that the reference shows of an instruction.
#[derive(Debug, PartialEq, Eq, Default)]
struct Line {
    number: u64,
    pc: u64,
    opcode: u32,
    length: u8,
    target: Option<u64>,
    process: [u32; 3],
    /// State, source and destination, each in order: the name and the words, the most significant first.
    registers: [Vec<(String, String)>; 3],
    /// Kind, attributes, address and contents.
    accesses: Vec<(String, u64, u64, Vec<u64>)>,
    events: Vec<(String, String, Vec<u64>)>,
    /// New modes.
    modes: Vec<String>,
    comments: Vec<String>,
    microops: Vec<(u8, u32)>,
    ready: Vec<u16>,
}

impl Line {
    fn details(&self) -> usize {
        let registers: usize = self.registers.iter().map(Vec::len).sum();
        registers + self.accesses.len() + self.events.len() + self.modes.len() + self.comments.len()
    }
}

/// The reference's listing of instructions.
fn dump(trace: &Trace) -> Vec<Line> {
    let text = text_of(&trace.expected, "dump_mavis");
    let (mut lines, mut process) = (Vec::<Line>::new(), [0; 3]);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&first, rest)) = words.split_first() else { continue };
        if first == "terminate" {
            lines.pop();
            break;
        }
        match (first, lines.last_mut()) {
            ("PID", _) => {
                let ids: Vec<u32> = rest[0].split(':').map(|id| hex(id) as u32).collect();
                process = ids.try_into().unwrap();
            }
            ("INST16" | "INST32", _) => lines.push(instruction_line(first, rest, process)),
            (
                "Start" | "VERSION" | "GENERATOR" | "GEN_VERSION" | "GEN_COMMENT" | "ISA" | "INST_IEM" | "VLEN"
                | "INST_EXT",
                _,
            ) => {}
            (_, None) => panic!("{}: {line}", trace.name),
            ("MEM", Some(last)) => {
                last.accesses.push((rest[0].into(), hex(rest[1]), hex(rest[2]), vec![hex(rest[3])]));
            }
            ("state", Some(last)) => last.registers[0].push((rest[0].into(), rest[1].into())),
            ("src", Some(last)) => last.registers[1].push((rest[0].into(), rest[1].into())),
            ("dst", Some(last)) => last.registers[2].push((rest[0].into(), rest[1].into())),
            ("FAULT" | "INTERRUPT" | "SYSCALL", Some(last)) => {
                let data = rest[1..].iter().map(|word| hex(word)).collect();
                last.events.push((first.into(), rest[0].into(), data));
            }
            ("MODE", Some(last)) => last.modes.push(rest[0].into()),
            ("COMMENT", Some(last)) => last.comments.push(rest.join(" ")),
            ("UOp32", Some(last)) => last.microops.push((4, hex(rest[0]) as u32)),
            ("UOp16", Some(last)) => last.microops.push((2, hex(rest[0]) as u32)),
            ("ReadyReg", Some(last)) => last.ready.push(rest[0].parse().unwrap()),
            (word, Some(last)) if rest.is_empty() => last.accesses.last_mut().unwrap().3.push(hex(word)),
            (_, Some(_)) => panic!("{}: {line}", trace.name),
        }
    }
    lines
}

fn instruction_line(first: &str, rest: &[&str], process: [u32; 3]) -> Line {
    let target = (rest[2] == "PC").then(|| hex(rest[3]));
    let opcode = rest[if target.is_some() { 4 } else { 2 }];
    Line {
        number: rest[0].parse().unwrap(),
        pc: hex(rest[1]),
        opcode: hex(opcode) as u32,
        length: if first == "INST16" { 2 } else { 4 },
        target,
        process,
        ..Line::default()
    }
}

/// The first instructions, as the reference would show them.
fn first_instructions(file: &Path, count: usize) -> Vec<Line> {
    let (mut lines, mut process) = (Vec::new(), [0; 3]);
    let mut follower = Follower::default();
    if count == 0 {
        return lines;
    }
    let read = open(file).each_instruction(&mut follower, |instruction| {
        lines.push(our_line(instruction, &mut process));
        if lines.len() == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    read.unwrap();
    lines
}

fn our_line(instruction: &Instruction<'_>, process: &mut [u32; 3]) -> Line {
    let Instruction { number, pc, opcode, length, .. } = *instruction;
    let mut line = Line { number, pc, opcode, length, ..Line::default() };
    for (access, contents) in instruction.accesses() {
        let kind = names::access(access.kind).unwrap().to_uppercase();
        line.accesses.push((kind, u64::from(access.attributes), access.address, contents));
    }
    for event in instruction.events() {
        match event.mode() {
            Some(mode) => line.modes.push(names::mode(mode).unwrap().to_uppercase()),
            None => {
                let kind = EventKind::of(&event).name().to_uppercase();
                line.events.push((kind, names::event(&event).to_string(), event.words().collect()));
            }
        }
    }
    for record in instruction.group() {
        match record {
            Record::ProcessIdExt(ids) => *process = ids,
            Record::InstPcTarget(target) => line.target = Some(target),
            Record::InstReg(register) => {
                let words: Vec<String> = register.words().map(|word| format!("{word:016x}")).collect();
                let words = words.into_iter().rev().collect::<String>();
                line.registers[usize::from(register.operand()) - 1].push((register_name(&register), words));
            }
            Record::Comment(text) => line.comments.push(String::from_utf8_lossy(text).into_owned()),
            Record::InstMicroop { size, encoding } => line.microops.push((size, encoding)),
            Record::InstReadyReg(number) => line.ready.push(number),
            _ => {}
        }
    }
    line.process = *process;
    line
}

/// The name in the reference: `REG_5`, `PC`, `REG_F31`, `REG_CSR_SATP`.
fn register_name(register: &Register<'_>) -> String {
    match (register.kind(), names::register(register)) {
        (1, RegisterName::Plain(name)) => name.to_uppercase(),
        (1, RegisterName::Numbered(_, number)) => format!("REG_{number}"),
        (4, RegisterName::UnknownCsr(number @ (0x7c0..=0x7ff | 0xbc0..=0xbff | 0xfc0..=0xfff))) => {
            format!("REG_CSR_NONST_{number:x}")
        }
        (4, RegisterName::UnknownCsr(number)) => format!("REG_CSR_UNK_{number:x}"),
        (4, name) => format!("REG_CSR_{}", name.to_string().to_uppercase()),
        (_, name) => format!("REG_{}", name.to_string().to_uppercase()),
    }
}

/// The lines of the header and of the body in the reference's form; of the body not many more than wanted.
fn record_lines(file: &Path, wanted: usize) -> (Vec<String>, Vec<String>) {
    let (mut header, mut body, mut in_header) = (Vec::new(), Vec::new(), true);
    let mut reader = open(file);
    let read = reader.each(|_, record| {
        match record {
            Record::EndHeader => in_header = false,
            Record::Identifier(_) => {}
            Record::ProcessIdExt(_) if in_header => {}
            _ if in_header => header.extend(record_line(record).lines().map(str::to_string)),
            _ => body.extend(record_line(record).lines().map(str::to_string)),
        }
        if body.len() >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    read.unwrap();
    (header, body)
}

fn record_line(record: &Record<'_>) -> String {
    let name = names::record(record.descriptor()).unwrap().to_uppercase();
    let fields = match record {
        Record::Version { major, minor } => format!("{major}.{minor}"),
        Record::Comment(text) | Record::IsaExtended(text) => String::from_utf8_lossy(text).into_owned(),
        Record::Isa(isa) => names::isa(*isa).unwrap().replace('-', "").to_uppercase(),
        Record::InstIem(iem) => names::iem(*iem).unwrap().to_string(),
        Record::TraceInfo(info) => {
            let [major, minor, patch] = info.version;
            let (generator, comment) = (names::generator(info.generator).unwrap(), info.comment.escape_ascii());
            format!("{generator} {major}.{minor}.{patch} {comment}")
        }
        Record::ProcessIdExt([first, second, third]) => {
            format!("hw_tid = {first:08x} pid = {second:08x} tid = {third:08x}")
        }
        Record::VlenConfig(bits) => format!("{bits:08x}"),
        Record::TraceInfoFeature(value)
        | Record::ForcePc(value)
        | Record::InstPcTarget(value)
        | Record::EventPcTarget(value)
        | Record::InstMemContent(value)
        | Record::BusMasterContent(value) => format!("{value:016x}"),
        Record::InstReg(register) => register_line(register),
        Record::InstReadyReg(number) => format!("{number:04x}"),
        Record::PageTableWalk(walk) => {
            let (address, size, first) = (walk.address, walk.page_size, walk.first_use);
            let entries: Vec<String> = walk
                .pairs()
                .enumerate()
                .map(|(index, (position, entry))| {
                    format!("{:20}DESC{index}  PA:{position:016x} DESC:{entry:016x}\n", "")
                })
                .collect();
            let count = entries.len();
            let head = format!("{address:016x} size {size:08x} first_count {first:016x}");
            // An empty line ends it.
            format!("{head}\nPTDESC              Num Descriptors: {count}\n{}\n", entries.concat())
        }
        Record::InstMemAccess(access) => {
            let kind = names::access(access.kind).unwrap().to_uppercase();
            format!("{kind} {:016x} {:04x} {}", access.address, access.attributes, access.size)
        }
        Record::BusMasterAccess(access) => {
            let kind = names::access(access.kind).unwrap().to_uppercase();
            let initiator = names::initiator(access.initiator).unwrap();
            // The index is written as a character.
            let index = char::from(access.index);
            format!("{kind} {:016x} {initiator}{index} {} {:08x}", access.address, access.size, access.attributes)
        }
        Record::Event(event) => event_line(event),
        // And so is the size.
        Record::InstMicroop { size, encoding } => format!("{} {encoding:08x}", char::from(*size)),
        Record::InstOpcode32(opcode) => format!("{opcode:08x}"),
        Record::InstOpcode16(opcode) => format!("{opcode:04x}"),
        other => panic!("{other:?}"),
    };
    format!("{name} {fields}")
}

fn register_line(register: &Register<'_>) -> String {
    let operand = ["", "STATE", "SOURCE", "DEST"][usize::from(register.operand())];
    let words: Vec<String> = register.words().map(|word| format!("{word:016x}")).collect();
    format!("{operand} {} {}", register_name(register), words.join("\n            "))
}

fn event_line(event: &Event<'_>) -> String {
    let data: Vec<String> = event.words().map(|word| format!("{word:016x}")).collect();
    format!("{} [{}]", names::event(event), data.join(", "))
}

fn count(file: &Path) -> (Counts, Table) {
    let mut stats = Stats::default();
    instructions_of(&mut open(file), &mut Follower::default(), |instruction| stats.push(instruction));
    (stats.counts, stats.mix.finish())
}

/// A table of names and counts.
fn mix(trace: &Trace, name: &str) -> BTreeMap<String, u64> {
    let text = text_of(&trace.expected, name);
    let rows = text.lines().skip(1).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].to_string(), words[1].parse().unwrap())
    });
    rows.collect()
}

fn open(file: &Path) -> Reader<Box<dyn Read + Send>> {
    Reader::seekable(fs::File::open(file).unwrap(), ReadOptions::default()).unwrap()
}

/// The text of a file, plain or compressed, whose name may have an extension.
fn text_of(folder: &Path, name: &str) -> String {
    let names = [name.to_string(), format!("{name}.txt"), format!("{name}.first1000inst.txt")];
    let paths = names.iter().flat_map(|name| [folder.join(name), folder.join(format!("{name}.gz"))]);
    let path = paths.into_iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("no {name} in {folder:?}"));
    let bytes = fs::read(&path).unwrap();
    if path.extension().is_none_or(|extension| extension != "gz") {
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

fn hex(word: &str) -> u64 {
    u64::from_str_radix(word, 16).unwrap_or_else(|_| panic!("{word} is no number"))
}
