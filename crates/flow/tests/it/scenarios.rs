//! Scenarios: a program, packets, and the program flow.
//!
//! Each file in `testdata/scenarios` has a `registers:` line and three sections, one line per item; `;` starts a comment.
//!
//! - `program:` addresses and opcodes in hex, four digits for each halfword of T32. `x 9` after an opcode repeats it.
//! - `packets:` as `unspool packets` prints them, except that an address is whole (`0x1000`) or its low 32 bits
//!   (`..00001000`), and is IS0 unless marked IS1.
//! - `flow:` ranges with their number of instructions and the outcome of the last one, and the other items.
//!   `flow, transactions shown:` is the flow without resolved transactions, if it differs.
//!
//! The expectations are written by hand, from the specification and the program.

#![allow(clippy::panic, clippy::expect_used, reason = "a test stops at unexpected input")]

use std::collections::BTreeMap;
use std::path::Path;

use unspool_coresight::etm4::packet::{
    Address, ConditionalInstruction, ConditionalResult, ExceptionAddress, FewAtoms, KeyResult, Packet, TraceInfo,
};
use unspool_coresight::etm4::{Config, ElementDecoder, PacketItem, Registers, Speculation};
use unspool_coresight::{
    Atoms, Context, DecodeElements as _, InstructionDecoders as _, Malformed, PacketError, Packets, Profile, Protocol,
    Security, SubIsa, Transactions,
};
use unspool_flow::{
    Callback, Cause, CodeMemory, FlowDecoder, FlowItem, FlowSink, Item, Run, Space, Transaction, Walker,
};
use unspool_isa::Isa;

#[test]
fn scenarios_have_the_expected_flow() {
    compare(|scenario, transactions| {
        let mut lines = Lines::default();
        let mut decoder = FlowDecoder::new(&scenario.config, transactions, scenario.memory());
        scenario.items().iter().for_each(|packet| decoder.push(*packet, &mut lines));
        let outstanding = decoder.finish(scenario.length(), &mut lines);
        (lines.ended(outstanding), scenario.expected(transactions).to_vec())
    });
}

#[test]
fn separate_stages_have_the_same_flow() {
    compare(|scenario, transactions| {
        let (mut elements, mut committed, mut lines) = (vec![], vec![], Lines::default());
        let mut decoder = ElementDecoder::new(&scenario.config);
        scenario.items().iter().for_each(|packet| decoder.push(*packet, &mut |item| elements.push(item)));
        decoder.finish(&mut |item| elements.push(item));
        let mut speculation = Speculation::new(&scenario.config, transactions);
        elements.iter().for_each(|element| speculation.push(*element, &mut |item| committed.push(item)));
        let outstanding = speculation.finish(&mut |item| committed.push(item));
        let mut walker = Walker::new(scenario.config.flow_rules(), scenario.memory());
        committed.iter().for_each(|element| walker.push(*element, &mut lines));
        walker.finish(scenario.length(), &mut lines);
        (lines.ended(outstanding), scenario.expected(transactions).to_vec())
    });
}

/// Cached runs of the first pass must not change the second.
#[test]
fn repeated_scenarios_have_the_same_flow() {
    compare(|scenario, transactions| {
        let mut lines = Lines::default();
        let mut decoder = FlowDecoder::new(&scenario.config, transactions, scenario.memory());
        scenario.items().iter().for_each(|packet| decoder.push(*packet, &mut lines));
        let offset = scenario.length();
        decoder.push(Err(PacketError { offset, skipped: 0, kind: Malformed::Discontinuity }), &mut lines);
        scenario.items().iter().for_each(|packet| decoder.push(*packet, &mut lines));
        let outstanding = decoder.finish(offset, &mut lines);
        let mut expected = scenario.expected(transactions).to_vec();
        expected.pop();
        expected.push(format!("! {offset:#x}: trace does not continue here"));
        expected.extend_from_slice(scenario.expected(transactions));
        (lines.ended(outstanding), expected)
    });
}

/// Runs every scenario and reports those with an unexpected flow.
fn compare(run: impl Fn(&Scenario, Transactions) -> (Vec<String>, Vec<String>)) {
    let files = unspool_testing::scenarios(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/scenarios"));
    assert!(files.len() >= 60, "only {} scenarios", files.len());
    let mut differences = vec![];
    for file in &files {
        let (name, scenario) = (&file.name, Scenario::of(file));
        for transactions in [Transactions::Resolve, Transactions::Show] {
            let (found, expected) = run(&scenario, transactions);
            if found != expected {
                let [found, expected] = [found, expected].map(|lines| lines.join("\n    "));
                differences
                    .push(format!("{name} ({transactions:?})\n  expected\n    {expected}\n  found\n    {found}"));
                break;
            }
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

struct Scenario {
    config: Config,
    program: BTreeMap<u64, u8>,
    packets: Vec<Packet>,
    bytes: Vec<u8>,
    flow: Vec<String>,
    shown: Vec<String>,
}

impl Scenario {
    fn of(file: &unspool_testing::Scenario) -> Self {
        let (config, program) = (config(&file.registers), BTreeMap::new());
        let mut scenario = Self { config, program, packets: vec![], bytes: vec![], flow: vec![], shown: vec![] };
        file.items().for_each(|(section, item)| scenario.add(section, item));
        scenario
    }

    fn add(&mut self, section: &str, line: &str) {
        match section {
            "program" => self.code(line),
            "packets" => {
                let packet = packet(line);
                packet.encode(&self.config, &mut self.bytes).unwrap_or_else(|error| panic!("{error}"));
                self.packets.push(packet);
            }
            "flow" => self.flow.push(line.to_string()),
            "flow, transactions shown" => self.shown.push(line.to_string()),
            other => panic!("unknown section '{other}'"),
        }
    }

    /// `0x1000: d503201f`, `0x1000: f7ff fffe`, `0x1000: d503201f x 9`
    fn code(&mut self, line: &str) {
        let (start, opcode) = line.split_once(": ").expect("ADDRESS: OPCODE");
        let (opcode, times) = opcode.split_once(" x ").map_or((opcode, 1), |(opcode, times)| (opcode, number(times)));
        let bytes: Vec<u8> = opcode.split_whitespace().flat_map(little_endian).collect();
        let all = (0..times).flat_map(|_| bytes.iter().copied());
        self.program.extend(all.enumerate().map(|(index, byte)| (number(start) + index as u64, byte)));
    }

    /// The packets, encoded and read back.
    fn items(&self) -> Vec<PacketItem> {
        let items: Vec<PacketItem> = Packets::new(&self.config, &self.bytes).collect();
        assert!(items.iter().map(|item| item.map(|packet| packet.value)).eq(self.packets.iter().copied().map(Ok)));
        items
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn memory(&self) -> impl CodeMemory {
        Callback(|address: u64, _: Space, buffer: &mut [u8]| {
            let here = (0_u64..).map_while(|index| self.program.get(&address.checked_add(index)?));
            buffer.iter_mut().zip(here).map(|(position, byte)| *position = *byte).count()
        })
    }

    fn expected(&self, transactions: Transactions) -> &[String] {
        if transactions == Transactions::Show && !self.shown.is_empty() { &self.shown } else { &self.flow }
    }
}

/// The bytes of a word or halfword.
fn little_endian(opcode: &str) -> Vec<u8> {
    let value = u32::from_str_radix(opcode, 16).expect("hex");
    value.to_le_bytes()[..opcode.len() / 2].to_vec()
}

fn number(text: &str) -> u64 {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16)).expect("a number")
}

/// `ete TRCIDR8=8 ...`; `m-profile` among the registers of a microcontroller.
fn config(values: &str) -> Config {
    let mut words = values.split_whitespace();
    let protocol = words.next().and_then(Protocol::from_name).expect("a protocol");
    let mut registers = Registers::default();
    let mut profile = Profile::Application;
    for word in words {
        if word == "m-profile" {
            profile = Profile::Microcontroller;
            continue;
        }
        let (name, value) = word.split_once('=').expect("NAME=VALUE");
        assert!(registers.set(name, number(value).try_into().expect("32 bits")), "{name}");
    }
    Config::new(protocol, profile, &registers).0
}

fn packet(line: &str) -> Packet {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    match (first, rest) {
        ("alignment", "sync") => Packet::AlignmentSync,
        ("trace", "info") => Packet::TraceInfo(TraceInfo::default()),
        ("trace", "on") => Packet::TraceOn,
        ("discard", "") => Packet::Discard,
        ("overflow", "") => Packet::Overflow,
        ("ignore", "") => Packet::Ignore,
        ("mispredict", "") => Packet::Mispredict(FewAtoms::None),
        ("transaction", "start") => Packet::TransactionStart,
        ("transaction", "commit") => Packet::TransactionCommit,
        ("exception", "return") => Packet::ExceptionReturn,
        ("function", "return") => Packet::FunctionReturn,
        ("exception", _) => exception(rest),
        ("atoms", _) => Packet::Atoms(atoms(rest)),
        ("commit", _) => Packet::Commit { count: number(rest) as u32 },
        ("cancel", _) => {
            let (count, mispredict) = rest.strip_suffix(", mispredict").map_or((rest, false), |count| (count, true));
            Packet::CancelFormat1 { count: number(count) as u32, mispredict }
        }
        ("context", _) => Packet::Context(Some(context(rest))),
        ("source", _) => Packet::SourceAddress(address(rest.strip_prefix("address ").expect("an address"))),
        ("address", _) => match rest.split_once(", context ") {
            Some((target, rest)) => Packet::AddressContext { address: address(target), context: context(rest) },
            None => Packet::Address(address(rest)),
        },
        ("q", _) => q(rest),
        ("conditional", _) => conditional(rest),
        _ => panic!("unknown packet '{line}'"),
    }
}

/// `instruction, key 5`, `instruction, key step 1`, `result key 5 is 0x1`, `result 1`, `flush`
fn conditional(text: &str) -> Packet {
    let small = |text: &str| u8::try_from(number(text)).expect("a small number");
    if let Some(step) = text.strip_prefix("instruction, key step ") {
        return Packet::ConditionalInstruction(ConditionalInstruction::Format2 { step: small(step) });
    }
    if let Some(key) = text.strip_prefix("instruction, key ") {
        return Packet::ConditionalInstruction(ConditionalInstruction::Format1 { key: number(key) as u32 });
    }
    if let Some(result) = text.strip_prefix("result key ") {
        let (key, result) = result.split_once(" is ").expect("KEY is RESULT");
        let first = KeyResult { key: number(key) as u32, result: small(result), ci: false };
        return Packet::ConditionalResult(ConditionalResult::Format1 { first, second: None });
    }
    match text.strip_prefix("result ") {
        Some(token) => Packet::ConditionalResult(ConditionalResult::Format2 { skip: false, token: small(token) }),
        None => Packet::ConditionalFlush,
    }
}

fn exception(text: &str) -> Packet {
    let (number, address) = text.split_once(", ").expect("an address");
    let address = match address {
        "return address follows" => ExceptionAddress::Return,
        "target and return address follows" => ExceptionAddress::TargetAndReturn,
        other => panic!("unknown address '{other}'"),
    };
    Packet::Exception { number: number.parse().expect("a number"), address, fault_pending: None }
}

fn atoms(text: &str) -> Atoms {
    let bits = text.chars().rev().fold(0, |bits, atom| bits << 1 | u32::from(atom == 'E'));
    let atoms = Atoms::new(bits, text.len() as u8);
    assert_eq!(atoms.to_string(), text);
    atoms
}

/// `0x1000`, `..00001000`, `0x1000 IS1`
fn address(text: &str) -> Address {
    let (value, isa) = text.strip_suffix(" IS1").map_or((text, SubIsa::Is0), |value| (value, SubIsa::Is1));
    match value.strip_prefix("..") {
        Some(low) => Address::low(isa, 32, u64::from_str_radix(low, 16).expect("hex")),
        None => Address::full(isa, number(value)),
    }
}

/// `EL1 nonsecure AArch64 contextid 0xaa`, `Thread secure AArch32`
fn context(text: &str) -> Context {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (el, security, aarch64, context_id) = match words[..] {
        [el, security, width] => (el, security, width == "AArch64", None),
        [el, security, width, "contextid", id] => (el, security, width == "AArch64", Some(number(id) as u32)),
        _ => panic!("unknown context '{text}'"),
    };
    let security = match security {
        "secure" => Security::Secure,
        "nonsecure" => Security::NonSecure,
        other => panic!("unknown Security state '{other}'"),
    };
    let el = match el {
        "Thread" => Context::THREAD,
        "Handler" => Context::HANDLER,
        level => level.strip_prefix("EL").and_then(|level| level.parse().ok()).expect("an Exception level"),
    };
    Context { el, aarch64, security, vmid: None, context_id }
}

/// `3 instructions, address ..00001000`, `3 instructions`, or nothing.
fn q(text: &str) -> Packet {
    let (count, target) = text.split_once(", address ").map_or((text, None), |(count, target)| (count, Some(target)));
    let count = count.strip_suffix(" instructions").map(|count| number(count) as u32);
    Packet::Q { count, address: target.map(address) }
}

/// The flow as text, one line per item.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn ended(mut self, outstanding: u64) -> Vec<String> {
        if let Some(end) = self.0.last_mut().filter(|_| outstanding > 0) {
            end.push_str(&format!(", {outstanding} still speculative"));
        }
        self.0
    }
}

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        let mut instructions = 0;
        for range in run.ranges() {
            let (start, end, count) = (range.start(), range.end(), range.instructions());
            let outcome = if range.taken() { "E" } else { "N" };
            let isa = match range.isa() {
                Isa::A64 | Isa::Rv32 | Isa::Rv64 => "",
                Isa::A32 => " A32",
                Isa::T32 => " T32",
            };
            assert_eq!(range.opcodes().len(), count as usize, "{range:?}");
            instructions += u64::from(count);
            self.0.push(format!("{start:#x}..{end:#x} {count} {outcome}{isa}"));
        }
        assert_eq!(run.instructions(), instructions, "{run:?}");
    }

    fn item(&mut self, item: FlowItem) {
        self.0.push(item.map_or_else(|error| format!("! {error}"), |item| item_text(item.value)));
    }
}

fn item_text(item: Item) -> String {
    match item {
        Item::Context(context) => format!("context {context}"),
        Item::Q { start, next, instructions } => {
            let count = instructions.map_or(String::new(), |count| format!(" {count} instructions"));
            let from = start.map_or(String::new(), |start| format!(" from {start:#x}"));
            let next = next.map_or(String::new(), |next| format!(", then {next:#x}"));
            format!("q{count}{from}{next}")
        }
        Item::Exception { number, return_address } if number.is_tail_chained(return_address) => {
            format!("exception {number}, tail-chained")
        }
        Item::Exception { number, return_address: Some(address) } => format!("exception {number}, return {address:#x}"),
        Item::Exception { number, return_address: None } => format!("exception {number}, return unknown"),
        Item::ExceptionReturn => "exception return".to_string(),
        Item::FunctionReturn => "function return".to_string(),
        Item::TraceOn => "trace on".to_string(),
        Item::Overflow => "overflow".to_string(),
        Item::Discard { uncertain_branch: None } => "discard".to_string(),
        Item::Discard { uncertain_branch: Some(at) } => format!("discard, branch at {at:#x} uncertain"),
        Item::NoCode { address, space, .. } => format!("no code at {address:#x} {space}"),
        Item::Lost { elements, cause } => format!("lost {elements}: {}", cause_text(cause)),
        Item::Finding(finding) => format!("finding: {finding}"),
        Item::Condition { address, passed } => {
            format!("condition at {address:#x}: {}", if passed { "passed" } else { "failed" })
        }
        Item::Transaction(Transaction::Start) => "transaction start".to_string(),
        Item::Transaction(Transaction::Commit) => "transaction commit".to_string(),
        Item::Transaction(Transaction::Failure) => "transaction failure".to_string(),
        Item::End => "end".to_string(),
        other => format!("{other:?}"),
    }
}

fn cause_text(cause: Cause) -> String {
    match cause {
        Cause::NoCode { address, space } => format!("no code at {address:#x} {space}"),
        Cause::NoAddress => "no address".to_string(),
        Cause::Ambiguous { address } => format!("ambiguous at {address:#x}"),
        Cause::Disagreement => "disagreement".to_string(),
    }
}
