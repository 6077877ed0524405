//! The flow of PTM trace: programs in A32 and T32, packets as bytes, and what was executed.
//!
//! The expectations are written by hand, from the specification and the program.

#![allow(clippy::panic, reason = "a test stops at unexpected input")]

use unspool_coresight::ptm::Config;
use unspool_coresight::{Packets, Transactions};
use unspool_flow::{Callback, Cause, FlowDecoder, FlowItem, FlowSink, Item, Run, Space};
use unspool_isa::Isa;

/// A32 at 0x8000.
const A32: [u32; 32] = [
    0xe1a0_0000, // 0x8000 nop
    0x0a00_0001, // 0x8004 beq 0x8010
    0xeb00_0004, // 0x8008 bl 0x8020
    0xeaff_fffb, // 0x800c b 0x8000
    0xe12f_ff33, // 0x8010 blx r3
    0xe1a0_0000, // 0x8014 nop
    0xfa00_0038, // 0x8018 blx 0x8100 (T32)
    0xeaff_fff7, // 0x801c b 0x8000
    0xe1a0_0000, // 0x8020 nop
    0xe12f_ff1e, // 0x8024 bx lr
    0xe1a0_0000, // 0x8028 nop
    0xf57f_f05f, // 0x802c dmb
    0xee07_0f9a, // 0x8030 mcr p15, 0, r0, c7, c10, 4 (dsb)
    0xee07_0fba, // 0x8034 mcr p15, 0, r0, c7, c10, 5 (dmb)
    0xf57f_f06f, // 0x8038 isb
    0xe320_f003, // 0x803c wfi
    0xef00_0000, // 0x8040 svc 0
    0xe7f0_00f0, // 0x8044 udf 0
    0xe1a0_0000, // 0x8048 nop
    0xeaff_ffeb, // 0x804c b 0x8000
    0xe1a0_0000, // 0x8050 nop
    0xe1b0_f00e, // 0x8054 movs pc, lr
    0xe1a0_0000, // 0x8058 nop
    0xe12f_ff33, // 0x805c blx r3
    0xe12f_ff1e, // 0x8060 bx lr
    0xe1a0_0000,
    0xe1a0_0000,
    0xe1a0_0000,
    0xe1a0_0000,
    0xe1a0_0000,
    0xe1a0_0000,
    0xe1a0_0000,
];

/// T32 at 0x8100.
const T32: [u16; 14] = [
    0xbf00, // 0x8100 nop
    0x4770, // 0x8102 bx lr
    0xbf00, // 0x8104 nop
    0xe7fb, // 0x8106 b 0x8100
    0xbf00, // 0x8108 nop
    0xf3bf, // 0x810a leavex
    0x8f0f, //
    0xbf00, // 0x810e nop
    0xf3bf, // 0x8110 enterx
    0x8f1f, //
    0xbf00, // 0x8114 nop
    0xe7fb, // 0x8116 b 0x8110
    0xbf00, // 0x8118 nop
    0x4770, // 0x811a bx lr
];

/// Code at these places; A32 nops from 0x10000 to 0x12000, and a branch to itself there.
fn read(address: u64, _: Space, buffer: &mut [u8]) -> usize {
    let code: Vec<u8> = match address {
        0x8000..0x8100 => A32.iter().flat_map(|word| word.to_le_bytes()).collect(),
        0x8100..0x8200 => T32.iter().flat_map(|half| half.to_le_bytes()).collect(),
        0x1_0000..0x1_2000 => [0x00, 0x00, 0xa0, 0xe1].repeat(0x800),
        0x1_2000..0x1_2004 => vec![0xfe, 0xff, 0xff, 0xea],
        _ => vec![],
    };
    let base = match address {
        0x1_0000..0x1_2000 => 0x1_0000,
        _ => address & !0xff,
    };
    let rest = code.get((address - base) as usize..).unwrap_or_default();
    let length = rest.len().min(buffer.len());
    buffer[..length].copy_from_slice(&rest[..length]);
    length
}

/// One line per range or item.
#[derive(Default)]
struct Lines(Vec<String>);

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            let (start, end, count) = (range.start(), range.end(), range.instructions());
            let outcome = if range.taken() { "E" } else { "N" };
            let isa = if range.isa() == Isa::T32 { " T32" } else { "" };
            self.0.push(format!("{start:x}..{end:x} {count} {outcome}{isa}"));
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.0.push(match item.map(|item| item.value) {
            Ok(Item::Context(context)) => format!("context {context}"),
            Ok(Item::Exception { number, return_address: Some(address) }) => {
                format!("exception {number} at {address:x}")
            }
            Ok(Item::Exception { number, return_address: None }) => format!("exception {number}"),
            Ok(Item::Finding(finding)) => format!("finding: {finding}"),
            Ok(Item::NoCode { address, isa: Some(isa), .. }) => format!("{} code at {address:x}", isa.name()),
            Ok(Item::NoCode { address, space, .. }) => format!("no code at {address:x} {space}"),
            Ok(Item::Lost { elements, cause: Cause::NoAddress }) => format!("lost {elements}: no address"),
            Ok(Item::Lost { elements, cause: Cause::Disagreement }) => format!("lost {elements}: disagreement"),
            Ok(Item::Lost { elements, cause: Cause::NoCode { .. } }) => format!("lost {elements}: no code"),
            Ok(other) => other.name().to_string(),
            Err(error) => format!("! {error}"),
        });
    }
}

const SYNC: &[u8] = &[0, 0, 0, 0, 0, 0x80];

/// Tracing starts at this address of A32 in Secure state.
fn start(address: u32) -> Vec<u8> {
    instruction_sync(address, 0x21)
}

fn instruction_sync(address: u32, info: u8) -> Vec<u8> {
    [&[0x08][..], &address.to_le_bytes(), &[info]].concat()
}

/// A whole address of A32, with information bytes after it.
fn branch(address: u32, info: &[u8]) -> Vec<u8> {
    let steps = address >> 2;
    let more = |low: u32| (steps >> low) as u8 & 0x7f | 0x80;
    let last = 0x08 | (steps >> 27) as u8 | u8::from(!info.is_empty()) << 6;
    let mut bytes = vec![0x81 | (steps as u8 & 0x3f) << 1, more(6), more(13), more(20), last];
    bytes.extend_from_slice(info);
    bytes
}

fn update(address: u32) -> Vec<u8> {
    [&[0x72][..], &branch(address, &[])].concat()
}

const RETURN_STACK: u64 = 1 << 29;
const E: &[u8] = &[0x84];
const N: &[u8] = &[0x86];
const EE: &[u8] = &[0x88];

fn flow(cr: u64, ccer: u64, parts: &[&[u8]]) -> Vec<String> {
    let registers = [("ETMCR", cr), ("ETMIDR", 0x411c_f312), ("ETMCCER", 0x34c0_1ac2 | ccer)];
    let (config, _) = Config::described(registers, []);
    let stream = [SYNC, &parts.concat()].concat();
    let mut lines = Lines::default();
    let mut decoder = FlowDecoder::new(&config, Transactions::Resolve, Callback(read));
    // A second time from known code, which must make no difference.
    for _ in 0..2 {
        lines.0.clear();
        decoder.restart();
        Packets::new(&config, &stream).for_each(|packet| decoder.push(packet, &mut lines));
        decoder.finish(stream.len() as u64, &mut lines);
        assert_eq!(lines.0.pop().as_deref(), Some("end"));
    }
    lines.0
}

/// What happens, control register, configuration register, packets, and the ranges.
type Story<'s> = (&'s str, u64, u64, &'s [&'s [u8]], &'s [&'s str]);

#[test]
fn stories() {
    let undefined = 9 << 1;
    let svc = 10 << 1;
    let irq = 14 << 1;
    let rows: &[Story<'_>] = &[
        (
            "outcomes and a branch packet, which is taken itself",
            0,
            0,
            &[&start(0x8000), N, E, &branch(0x800c, &[]), E],
            &["8000..8008 2 N", "8008..800c 1 E", "8020..8028 2 E", "800c..8010 1 E"],
        ),
        (
            "a call switches the instruction set, and a short address keeps that of the last one sent",
            0,
            0,
            &[&start(0x8014), E, &[0x85, 0x82, 0x82, 0x80, 0x10], E, &[0x05], E],
            &["8014..801c 2 E", "8100..8104 2 E T32", "8104..8108 2 E T32", "8100..8104 2 E T32", "8104..8108 2 E T32"],
        ),
        (
            "a return without an address is predicted",
            RETURN_STACK,
            0,
            &[&start(0x8008), EE, E],
            &["8008..800c 1 E", "8020..8028 2 E", "800c..8010 1 E"],
        ),
        (
            "a return with an address leaves the return stack alone",
            RETURN_STACK,
            0,
            &[&start(0x8008), E, &branch(0x8060, &[]), EE],
            &["8008..800c 1 E", "8020..8028 2 E", "8060..8064 1 E", "800c..8010 1 E"],
        ),
        (
            "a return into the other instruction set",
            RETURN_STACK,
            0,
            &[&start(0x8018), EE, E],
            &["8018..801c 1 E", "8100..8104 2 E T32", "801c..8020 1 E"],
        ),
        (
            "a periodic synchronization empties the return stack",
            RETURN_STACK,
            0,
            &[&start(0x8008), E, &instruction_sync(0x8020, 0x01), EE, &branch(0x8000, &[])],
            &[
                "8008..800c 1 E",
                "8020..8028 2 E",
                "finding: the trace has no address after an indirect branch",
                "lost 2: disagreement",
            ],
        ),
        (
            "a predicted return right before a periodic synchronization",
            RETURN_STACK,
            0,
            &[&start(0x8008), EE, &instruction_sync(0x800c, 0x01), E],
            &["8008..800c 1 E", "8020..8028 2 E", "800c..8010 1 E"],
        ),
        (
            "an indirect call is compared with the return stack, then pushed",
            RETURN_STACK,
            0,
            &[&start(0x8008), E, &branch(0x8058, &[]), EE, EE, EE],
            &[
                "8008..800c 1 E",
                "8020..8028 2 E",
                "8058..8060 2 E",
                "800c..8010 1 E",
                "8000..8008 2 E",
                "8010..8014 1 E",
                "8060..8064 1 E",
                "8014..801c 2 E",
            ],
        ),
        (
            "an indirect call with an address is pushed too",
            RETURN_STACK,
            0,
            &[&start(0x8010), &branch(0x8020, &[]), E, E],
            &["8010..8014 1 E", "8020..8028 2 E", "8014..801c 2 E"],
        ),
        (
            "an update, and an interrupt after it",
            0,
            0,
            &[&start(0x8000), &update(0x8000), &branch(0x8048, &[irq]), E],
            &["8000..8004 1 E", "exception 14 at 8004", "8048..8050 2 E"],
        ),
        (
            "an interrupt right after a waypoint",
            0,
            0,
            &[&start(0x8000), N, &branch(0x8048, &[irq])],
            &["8000..8008 2 N", "exception 14 at 8008"],
        ),
        (
            "a call of the supervisor returns after it, an undefined instruction to itself",
            0,
            0,
            &[
                &start(0x8040),
                &update(0x8040),
                &branch(0x8044, &[svc]),
                &update(0x8044),
                &branch(0x8048, &[undefined]),
                E,
            ],
            &["8040..8044 1 E", "exception 10 at 8044", "8044..8048 1 E", "exception 9 at 8044", "8048..8050 2 E"],
        ),
        (
            "nothing runs between two exceptions",
            0,
            0,
            &[&start(0x8000), N, &branch(0x8040, &[irq]), &branch(0x8048, &[15 << 1])],
            &["8000..8008 2 N", "exception 14 at 8008", "exception 15 at 8040"],
        ),
        (
            "before a reset anything may have run",
            0,
            0,
            &[&start(0x8000), &branch(0x8048, &[8 << 1]), E],
            &["exception 8", "8048..8050 2 E"],
        ),
        (
            "Debug state, which ends with a synchronization",
            0,
            0,
            &[&start(0x8000), N, &branch(0, &[1 << 1]), &instruction_sync(0x8048, 0x61), E],
            &["8000..8008 2 N", "exception 1 at 8008", "trace_on", "context EL? secure AArch32", "8048..8050 2 E"],
        ),
        (
            "an exception return and its mark",
            0,
            0,
            &[&start(0x8050), &branch(0x8000, &[0x01]), &[0x76], N],
            &["8050..8058 2 E", "context EL? nonsecure AArch32", "exception_return", "8000..8008 2 N"],
        ),
        (
            "data barriers are waypoints",
            0,
            1 << 24,
            &[&start(0x8028), EE, EE, &update(0x8040)],
            &["8028..8030 2 E", "8030..8034 1 E", "8034..8038 1 E", "8038..803c 1 E", "803c..8044 2 E"],
        ),
        (
            "data barriers are no waypoints",
            0,
            0,
            &[&start(0x8028), E, &update(0x8040)],
            &["8028..803c 5 E", "803c..8044 2 E"],
        ),
        (
            "an update does not pass a waypoint",
            0,
            0,
            &[&start(0x8000), &update(0x8008)],
            &[
                "finding: execution was at 0x8000, which does not lead to the instruction at 0x8008 without a branch",
                "lost 1: disagreement",
            ],
        ),
        (
            "an update is not at a waypoint, nor before the position",
            0,
            0,
            &[&start(0x8000), &update(0x8004), &instruction_sync(0x8020, 0x21), &update(0x801c)],
            &[
                "finding: execution was at 0x8000, which does not lead to the instruction at 0x8004 without a branch",
                "lost 1: disagreement",
                "trace_on",
                "context EL? secure AArch32",
                "finding: execution was at 0x8020, which does not lead to the instruction at 0x801c without a branch",
                "lost 1: disagreement",
            ],
        ),
        (
            "an update into missing code",
            0,
            0,
            &[&start(0x1_2000), E, &instruction_sync(0x8078, 0x21), &update(0x8090)],
            &[
                "12000..12004 1 E",
                "trace_on",
                "context EL? secure AArch32",
                "8078..8080 2 E",
                "no code at 8080 secure",
                "lost 1: no code",
            ],
        ),
        (
            "a far waypoint needs an update",
            0,
            0,
            &[&start(0x1_0000), &update(0x1_1ffc), E],
            &["10000..12000 2048 E", "12000..12004 1 E"],
        ),
        (
            "a far waypoint without an update",
            0,
            0,
            &[&start(0x1_0000), E],
            &["finding: too many instructions without a branch from 0x10000 on", "lost 1: disagreement"],
        ),
        (
            "the greatest distance without an update",
            0,
            0,
            &[&start(0x1_1000), E, &instruction_sync(0x1_0ffc, 0x21), E],
            &[
                "11000..12004 1025 E",
                "trace_on",
                "context EL? secure AArch32",
                "finding: too many instructions without a branch from 0x10ffc on",
                "lost 1: disagreement",
            ],
        ),
        (
            "a periodic synchronization at the position",
            0,
            0,
            &[&start(0x8000), N, &instruction_sync(0x8008, 0x01), E],
            &["8000..8008 2 N", "8008..800c 1 E"],
        ),
        (
            "a periodic synchronization elsewhere",
            0,
            0,
            &[&start(0x8000), N, &instruction_sync(0x8020, 0x01), &branch(0x8000, &[])],
            &[
                "8000..8008 2 N",
                "finding: execution continues at 0x8008, but the trace has the address 0x8020",
                "8020..8028 2 E",
            ],
        ),
        (
            "a direct branch with an address agrees with it",
            0,
            0,
            &[&start(0x8008), &branch(0x8020, &[0x01]), &branch(0x8000, &[])],
            &["8008..800c 1 E", "context EL? nonsecure AArch32", "8020..8028 2 E"],
        ),
        (
            "a direct branch elsewhere does not",
            0,
            0,
            &[&start(0x8008), &branch(0x8000, &[]), N],
            &[
                "8008..800c 1 E",
                "finding: execution continues at 0x8020, but the trace has the address 0x8000",
                "8000..8008 2 N",
            ],
        ),
        (
            "Jazelle is not traced",
            0,
            0,
            &[&start(0x8010), &[0x81, 0x80, 0x84, 0x80, 0x20], &start(0x8048), E],
            &["8010..8014 1 E", "jazelle code at 8000", "trace_on", "context EL? secure AArch32", "8048..8050 2 E"],
        ),
        (
            "ENTERX and LEAVEX are waypoints, and ThumbEE code is not taken for T32",
            0,
            0,
            &[&start(0x8109), EE, EE, &start(0x8119), E],
            &[
                "8108..810e 2 E T32",
                "810e..8114 2 E T32",
                "t32ee code at 8114",
                "lost 2: no code",
                "trace_on",
                "context EL? secure AArch32",
                "8118..811c 2 E T32",
            ],
        ),
        (
            "ENTERX whose condition failed stays in T32",
            0,
            0,
            &[&start(0x810f), N, E],
            &["810e..8114 2 N T32", "8114..8118 2 E T32"],
        ),
        (
            "Hyp mode is EL2",
            0,
            0,
            &[&start(0x8000), N, &branch(0x8048, &[0x87, 0x20]), E],
            &["8000..8008 2 N", "exception 3 at 8008", "context EL2 nonsecure AArch32", "8048..8050 2 E"],
        ),
        (
            "damage",
            0,
            0,
            &[&start(0x8000), N, &[0x10], SYNC, E, &instruction_sync(0x8048, 0x01), E],
            &[
                "8000..8008 2 N",
                "! 0xd: reserved packet header 0x10",
                "! 0x14: packets before the first instruction synchronization",
                "trace_on",
                "context EL? secure AArch32",
                "8048..8050 2 E",
            ],
        ),
    ];
    let started = ["trace_on", "context EL? secure AArch32"];
    for (name, cr, ccer, parts, expected) in rows {
        let found = flow(*cr, *ccer, parts);
        assert_eq!(found, [&started[..], expected].concat(), "{name}");
    }
}

/// Cores with version 1.0 do not mark exception returns: the instruction is the only evidence.
#[test]
fn exception_returns_without_a_mark() {
    let registers = [("ETMCR", 0), ("ETMIDR", 0x411c_f301), ("ETMCCER", 0x00c0_18ea)];
    let (config, _) = Config::described(registers, []);
    let stream = [SYNC, &start(0x8050), &branch(0x8000, &[]), N].concat();
    let mut lines = Lines::default();
    let mut decoder = FlowDecoder::new(&config, Transactions::Resolve, Callback(read));
    Packets::new(&config, &stream).for_each(|packet| decoder.push(packet, &mut lines));
    assert_eq!(lines.0[2..], ["8050..8058 2 E", "exception_return", "8000..8008 2 N"]);
}
