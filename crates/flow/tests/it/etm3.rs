//! Flow of ETMv3 trace: a program, bytes, and the ranges and items that they show. One row per rule of Arm IHI 0014.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops at unexpected input")]

use unspool_coresight::etm3::{Config, Registers};
use unspool_coresight::{Packets, Profile, Transactions};
use unspool_flow::{
    Around, Callback, CodeMemory, FlowDecoder, FlowItem, FlowSink, Instruction, InstructionSink, Instructions, Item,
    Run, Space,
};

/// A32 at 0x8000.
const A32: [u32; 6] = [
    0xe1a0_0000, // 0x8000 nop
    0x0a00_0001, // 0x8004 beq 0x8010
    0x0080_0001, // 0x8008 addeq r0, r0, r1
    0xe12f_ff1e, // 0x800c bx lr
    0xe591_0000, // 0x8010 ldr r0, [r1]
    0xeaff_fff9, // 0x8014 b 0x8000
];

/// T32 at 0x9000.
const T32: [u16; 7] = [
    0xbf08, // 0x9000 it eq
    0x2001, // 0x9002 moveq r0, #1
    0xb100, // 0x9004 cbz r0, 0x9008
    0xbf00, // 0x9006 nop
    0xf7ff, // 0x9008 bl 0x9000
    0xfffa, //
    0x4770, // 0x900c bx lr
];

fn memory() -> impl CodeMemory {
    let a32 = A32.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let t32 = T32.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
    Callback(move |address: u64, _: Space, buffer: &mut [u8]| {
        let code = if address < 0x9000 { &a32[..] } else { &t32[..] };
        let start = (address & 0xfff) as usize;
        let is_there = matches!(address & !0xfff, 0x8000 | 0x9000);
        let rest = code.get(start..).filter(|_| is_there).unwrap_or(&[]);
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    })
}

fn config(cr: u32) -> Config {
    let registers = Registers { cr: Some(cr), idr: Some(0x410c_f250), ccer: Some(0x3440_08f2), traceidr: None };
    Config::new(Profile::Application, &registers).0
}

#[derive(Default)]
struct Lines(Vec<String>);

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        self.0.extend(run.ranges().map(|range| format!("{range:?}")));
    }

    fn item(&mut self, item: FlowItem) {
        self.0.push(match item.map(|item| item.value) {
            Err(error) => error.to_string(),
            Ok(Item::Context(_) | Item::TraceOn | Item::End) => return,
            Ok(Item::Exception { return_address: None, .. }) => "exception, return unknown".into(),
            Ok(Item::Exception { return_address: Some(address), .. }) => format!("exception, return {address:#x}"),
            Ok(Item::ExceptionReturn) => "exception return".into(),
            Ok(Item::Finding(finding)) => finding.to_string(),
            Ok(Item::Lost { elements, .. }) => format!("lost {elements}"),
            Ok(Item::NoCode { address, isa: Some(isa), .. }) => format!("{} code at {address:#x}", isa.name()),
            Ok(Item::NoCode { address, .. }) => format!("no code at {address:#x}"),
            Ok(Item::CycleCount(cycles)) => format!("cycles {}", cycles.unwrap()),
            Ok(Item::Overflow) => "overflow".into(),
            Ok(Item::Etm3(own)) => own.to_string(),
            Ok(other) => format!("{other:?}"),
        });
    }
}

fn stream(start: &str, bytes: &str) -> Vec<u8> {
    let hex = |text: &str| text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let sync: Vec<u8> = hex("00 00 00 00 00 80");
    [sync, hex(start), hex(bytes)].concat()
}

fn decode(config: &Config, bytes: &[u8], sink: &mut impl FlowSink) {
    let mut decoder = FlowDecoder::new(config, Transactions::Resolve, memory());
    Packets::new(config, bytes).for_each(|packet| decoder.push(packet, sink));
    decoder.finish(bytes.len() as u64, sink);
}

const ARM: &str = "08 21 00 80 00 00";
const THUMB: &str = "08 21 01 90 00 00";

#[test]
fn every_instruction_has_an_atom() {
    let rows: &[(&str, u32, &str, &str, &[&str])] = &[
        (
            "a direct branch that is taken needs no address",
            0,
            ARM,
            "90",
            &["0x8000..0x8004 E", "0x8004..0x8008 E", "0x8010..0x8014 E", "0x8014..0x8018 E"],
        ),
        (
            "an indirect one does, and a failed condition is no jump",
            0,
            ARM,
            "c4 c0 84 09 84",
            &["0x8000..0x8004 E", "0x8004..0x8008 N", "0x8008..0x800c N", "0x800c..0x8010 E", "0x8010..0x8014 E"],
        ),
        (
            "an instruction without a condition cannot fail",
            0,
            ARM,
            "c0",
            &["the branch at 0x8000 is always taken, but the trace says it was not", "lost 1"],
        ),
        (
            "IT has its own atom, and so have the instructions after it",
            0,
            THUMB,
            "c4 84",
            &["0x9000..0x9002 E", "0x9002..0x9004 N", "0x9004..0x9006 E"],
        ),
        (
            "a wide BL is one instruction",
            0,
            THUMB,
            "88 84 88",
            &["0x9000..0x9002 E", "0x9002..0x9004 E", "0x9004..0x9006 E", "0x9008..0x900c E", "0x9000..0x9002 E"],
        ),
        (
            "cycles come before their instruction",
            0x1000,
            ARM,
            "bc a0 84 82",
            &[
                "cycles 8",
                "cycles 1",
                "cycles 1",
                "0x8000..0x8004 E",
                "cycles 1",
                "0x8004..0x8008 E",
                "0x8010..0x8014 E",
            ],
        ),
        (
            "a branch broadcast agrees with the code",
            0,
            ARM,
            "88 09 84",
            &["0x8000..0x8004 E", "0x8004..0x8008 E", "0x8010..0x8014 E"],
        ),
        (
            "an address that the code does not lead to",
            0,
            ARM,
            "88 01 84 84",
            &[
                "0x8000..0x8004 E",
                "0x8004..0x8008 E",
                "execution continues at 0x8010, but the trace has the address 0x8000",
                "0x8000..0x8004 E",
                "0x8004..0x8008 E",
            ],
        ),
        (
            "of several addresses the last one counts",
            0,
            ARM,
            "88 09 01 84",
            &["0x8000..0x8004 E", "0x8004..0x8008 E", "0x8000..0x8004 E"],
        ),
        (
            "no code",
            0,
            ARM,
            "c4 c0 84 85 02 88",
            &[
                "0x8000..0x8004 E",
                "0x8004..0x8008 N",
                "0x8008..0x800c N",
                "0x800c..0x8010 E",
                "no code at 0x8208",
                "lost 2",
            ],
        ),
    ];
    check(rows);
}

/// ETMIDR bit 18 is clear on processors without 32-bit Thumb instructions: BL is two instructions.
#[test]
fn halves_of_a_call_have_their_own_atoms() {
    let registers = Registers { cr: Some(0), idr: Some(0x4108_f250), ccer: None, traceidr: None };
    let (config, _) = Config::new(Profile::Application, &registers);
    let mut lines = Lines::default();
    decode(&config, &stream("08 21 09 90 00 00", "8c"), &mut lines);
    assert_eq!(lines.0, ["0x9008..0x900a E", "0x900a..0x900c E", "0x9000..0x9002 E"]);
}

#[test]
fn exceptions_interrupt_the_next_instruction() {
    let rows: &[(&str, u32, &str, &str, &[&str])] = &[
        (
            "the instruction before is complete",
            0,
            ARM,
            "84 81 80 81 80 48 1c 84",
            &["0x8000..0x8004 E", "exception, return 0x8004", "0x8000..0x8004 E"],
        ),
        (
            "the instruction before is canceled",
            0,
            ARM,
            "88 81 80 81 80 48 3c 84",
            &["0x8000..0x8004 E", "exception, return 0x8004", "0x8000..0x8004 E"],
        ),
        (
            "a canceled branch returns to itself",
            0,
            ARM,
            "c4 c0 84 09 81 80 81 80 48 3c 84",
            &[
                "0x8000..0x8004 E",
                "0x8004..0x8008 N",
                "0x8008..0x800c N",
                "exception, return 0x800c",
                "0x8000..0x8004 E",
            ],
        ),
        (
            "right after a branch, its target is interrupted",
            0,
            ARM,
            "c4 c0 84 09 81 80 81 80 48 1c 84",
            &[
                "0x8000..0x8004 E",
                "0x8004..0x8008 N",
                "0x8008..0x800c N",
                "0x800c..0x8010 E",
                "exception, return 0x8010",
                "0x8000..0x8004 E",
            ],
        ),
        (
            "an exception return",
            0,
            ARM,
            "c4 c0 84 76 09 84",
            &[
                "0x8000..0x8004 E",
                "0x8004..0x8008 N",
                "0x8008..0x800c N",
                "0x800c..0x8010 E",
                "exception return",
                "0x8010..0x8014 E",
            ],
        ),
        ("at the first instruction", 0, ARM, "81 80 81 80 48 1c", &["exception, return 0x8000"]),
    ];
    check(rows);
}

#[test]
fn synchronizations_confirm_or_move_the_position() {
    let rows: &[(&str, u32, &str, &str, &[&str])] = &[
        ("periodic", 0, ARM, "84 08 01 04 80 00 00 84", &["0x8000..0x8004 E", "0x8004..0x8008 E"]),
        (
            "periodic, elsewhere",
            0,
            ARM,
            "84 08 01 10 80 00 00 84",
            &[
                "0x8000..0x8004 E",
                "execution continues at 0x8004, but the trace has the address 0x8010",
                "0x8010..0x8014 E",
            ],
        ),
        ("after an overflow", 0, ARM, "84 08 41 10 80 00 00 84", &["0x8000..0x8004 E", "overflow", "0x8010..0x8014 E"]),
        (
            "a load in progress is executed, and execution continues elsewhere",
            0,
            "08 a1 10 80 00 00 05",
            "84",
            &["0x8010..0x8014 E", "0x8008..0x800c E"],
        ),
        (
            "Jazelle cannot be followed",
            0,
            ARM,
            "c4 c0 84 81 80 80 80 20 88 81 80 81 80 08 84",
            &[
                "0x8000..0x8004 E",
                "0x8004..0x8008 N",
                "0x8008..0x800c N",
                "0x800c..0x8010 E",
                "jazelle code at 0x0",
                "lost 2",
                "0x8000..0x8004 E",
            ],
        ),
        (
            "ThumbEE is not taken for T32",
            0,
            "08 25 01 90 00 00",
            "88 81 80 81 80 48 00 84",
            &["t32ee code at 0x9000", "lost 2", "0x8000..0x8004 E"],
        ),
    ];
    check(rows);
}

#[test]
fn data_follow_their_instruction() {
    let rows: &[(&str, u32, &str, &str, &[&str])] = &[(
        "a load",
        0xc,
        "08 21 10 80 00 00",
        "84 2a 84 a0 80 80 02 01 02 84",
        &["0x8010..0x8014 E", "first transfer address 0x20001004 value 0x201", "0x8014..0x8018 E"],
    )];
    check(rows);
}

fn check(rows: &[(&str, u32, &str, &str, &[&str])]) {
    for (name, cr, start, bytes, expected) in rows {
        let mut lines = Lines::default();
        decode(&config(*cr), &stream(start, bytes), &mut lines);
        assert_eq!(lines.0, *expected, "{name}");
    }
}

/// Outcomes and targets of instructions.
#[derive(Default)]
struct Outcomes(Vec<String>);

impl InstructionSink for Outcomes {
    fn instruction(&mut self, instruction: &Instruction, around: &Around) {
        let outcome = instruction.branch.map_or(String::new(), |branch| {
            let target = branch.target.map_or(String::new(), |target| format!(" -> {target:x}"));
            format!(" {}{target}", if branch.taken { "E" } else { "N" })
        });
        let cycles = around.cycles.map_or(String::new(), |cycles| format!(" @{cycles}"));
        self.0.push(format!("{:x}{outcome}{cycles}", instruction.address));
    }

    fn item(&mut self, _: FlowItem) {}
}

#[test]
fn instructions_show_failed_conditions_and_targets() {
    let mut outcomes = Instructions::new(Outcomes::default());
    decode(&config(0), &stream(ARM, "c4 c0 84 09 84"), &mut outcomes);
    assert_eq!(outcomes.into_sink().0, ["8000", "8004 N", "8008 N", "800c E -> 8010", "8010"]);
}

#[test]
fn cycles_of_a_long_wait_do_not_hide_a_target() {
    let mut outcomes = Instructions::new(Outcomes::default());
    let wait = "bc ".repeat(100);
    decode(&config(0x1000), &stream("08 21 0c 80 00 00", &format!("84 09 {wait} 84")), &mut outcomes);
    assert_eq!(outcomes.into_sink().0, ["800c E -> 8010 @1", "8010 @802"]);
}

/// A shard can start where the trace has repeated all that a configuration leaves to what came before.
#[test]
fn the_entry_of_a_shard_needs_all_state() {
    const TIME: &str = "42 85 80 80 80 80 80 80 80 00";
    let [cycles, times, vmids, data] = [1 << 12, 1 << 28, 1 << 30, 0xc];
    let time_and_atom = format!("{TIME} 84");
    let rows: &[(&str, u32, &str, bool)] = &[
        ("an atom", 0, "84", true),
        ("no atom: the one before the synchronization may still be canceled", 0, "", false),
        ("cycles", cycles, "a0", false),
        ("cycles and an atom", cycles, "e0", true),
        ("a whole time", times, &time_and_atom, true),
        ("low bits of the time", times, "42 05 84", false),
        ("a virtual machine", vmids, "3c 07 84", true),
        ("no virtual machine", vmids, "84", false),
        ("a whole data address", data, "84 22 90 a0 80 80 02", true),
        ("low bits of a data address", data, "84 22 10", false),
        ("an indirect branch without its address", 0, "9c 84", false),
    ];
    for (name, cr, bytes, expected) in rows {
        let config = config(*cr);
        let earlier = stream(ARM, if *cr == times { "84 42 06 c0" } else { "84 c0" });
        let bytes = [&earlier[..], &stream("08 01 08 80 00 00", bytes)].concat();
        let mut whole = FlowDecoder::new(&config, Transactions::Show, memory());
        let mut shard = FlowDecoder::new(&config, Transactions::Show, memory());
        for packet in Packets::new(&config, &bytes) {
            if packet.is_ok_and(|packet| packet.offset >= earlier.len() as u64) {
                shard.push(packet, &mut Lines::default());
            }
            whole.push(packet, &mut Lines::default());
        }
        assert_eq!(shard.entry().is_some(), *expected, "{name}");
        assert!(!expected || shard.entry() == whole.entry(), "{name}: {:?}", whole.entry());
    }
}
