//! The capture in `examples/hello-ete`, made here packet by packet from a program whose execution is known.
//!
//! `UNSPOOL_BLESS=1` writes the files; otherwise they are compared.

use std::fs;

use unspool::Trace;
use unspool::capture::Capture;
use unspool::coresight::etm4::packet::{Address, ExceptionAddress, FewAtoms, Packet, TraceInfo};
use unspool::coresight::etm4::{Config, Registers};
use unspool::coresight::frame::Formatter;
use unspool::coresight::{Atoms, Context, ElementItem, Profile, Protocol, Security, SubIsa, Transactions};
use unspool_testing::example;

/// Sums squares, makes a system call, then waits.
const PROGRAM: [u32; 12] = [
    0xd280_0060, // 0x400000 start:  mov x0, #3
    0xd280_0002, // 0x400004         mov x2, #0
    0x9400_0008, // 0x400008 loop:   bl square
    0x8b01_0042, // 0x40000c         add x2, x2, x1
    0xf100_0400, // 0x400010         subs x0, x0, #1
    0x54ff_ffa1, // 0x400014         b.ne loop
    0xd400_0001, // 0x400018         svc #0
    0xb4ff_ff22, // 0x40001c         cbz x2, start
    0xd503_207f, // 0x400020 done:   wfi
    0x17ff_ffff, // 0x400024         b done
    0x9b00_7c01, // 0x400028 square: mul x1, x0, x0
    0xd65f_03c0, // 0x40002c         ret
];
const PROGRAM_BASE: u64 = 0x40_0000;

/// Handler of the system call.
const VECTOR: [u32; 4] = [
    0xd538_5203, // mrs x3, esr_el1
    0x36f8_0043, // tbz w3, #31, the eret
    0xd503_3fdf, // isb
    0xd69f_03e0, // eret
];
const VECTOR_BASE: u64 = 0xffff_8000_0008_0400;

type Register = (&'static str, u32);

const fn registers(trace_id: u32, idr0: u32, idr8: u32) -> [Register; 7] {
    [
        ("TRCCONFIGR", 0x1841),
        ("TRCTRACEIDR", trace_id),
        ("TRCDEVARCH", 0x4770_5a13),
        ("TRCIDR0", idr0),
        ("TRCIDR1", 0x4100_fff0),
        ("TRCIDR2", 0xc000_1088),
        ("TRCIDR8", idr8),
    ]
}

const REGISTERS_0: [Register; 7] = registers(0x10, 0x2800_0ea1, 0);
/// The second trace unit traces speculation: up to four P0 elements, committed by packets.
const REGISTERS_1: [Register; 7] = registers(0x12, 0x0800_0ea1, 4);

fn config(registers: &[Register]) -> Config {
    let mut all = Registers::default();
    registers.iter().for_each(|(name, value)| assert!(all.set(name, *value)));
    Config::new(Protocol::Ete, Profile::Application, &all).0
}

fn atoms(text: &str) -> Packet {
    let bits = text.bytes().rev().fold(0, |bits, atom| bits << 1 | u32::from(atom == b'E'));
    Packet::Atoms(Atoms::new(bits, text.len() as u8))
}

fn user(context_id: Option<u32>) -> Context {
    Context { el: 0, aarch64: true, security: Security::NonSecure, vmid: None, context_id }
}

fn kernel() -> Context {
    Context { el: 1, ..user(None) }
}

fn at(value: u64, context: Context) -> Packet {
    Packet::AddressContext { address: Address::full(SubIsa::Is0, value), context }
}

fn low(value: u64) -> Packet {
    Packet::Address(Address::low(SubIsa::Is0, 9, value & 0x1ff))
}

fn start(speculation: Option<u32>) -> [Packet; 4] {
    let info = TraceInfo { info: Some(0), speculation, ..TraceInfo::default() };
    [Packet::AlignmentSync, Packet::TraceInfo(info), Packet::TraceOn, at(PROGRAM_BASE, user(Some(0x1234)))]
}

fn exception(number: u16) -> Packet {
    Packet::Exception { number, address: ExceptionAddress::Return, fault_pending: None }
}

/// The program from start to end, with an overflow while it waits.
fn trace_0() -> Vec<Packet> {
    let timestamp = |value| Packet::Timestamp { value, bits: 28, cycles: None };
    let mut packets = start(None).to_vec();
    packets.extend([
        timestamp(0x012_3400),
        atoms("EEE"), // bl, ret, b.ne
        atoms("EEE"),
        atoms("EEN"), // the loop ends
        exception(2), // svc
        low(0x40_001c),
        at(VECTOR_BASE, kernel()),
        atoms("EE"), // tbz, eret
        at(0x40_001c, user(None)),
        timestamp(0x012_3478),
        atoms("N"),  // cbz
        atoms("EE"), // wfi, b
        atoms("E"),  // wfi
        exception(14),
        Packet::Address(Address::low(SubIsa::Is0, 9, 0x24)),
        Packet::Overflow,
    ]);
    packets.extend(start(None));
    packets.extend([timestamp(0x012_9000), atoms("EEE"), atoms("EEE"), Packet::Event { mask: 1 }]);
    packets
}

/// The same program on a PE that speculates: the loop branch is mispredicted, and the elements after it are canceled.
fn trace_1() -> Vec<Packet> {
    let mut packets = start(Some(0)).to_vec();
    packets.extend([
        atoms("EEE"),
        Packet::Commit { count: 3 },
        atoms("EEN"), // the last is mispredicted
        Packet::Mispredict(FewAtoms::None),
        Packet::Commit { count: 3 },
        atoms("EEE"),
        atoms("E"), // another round, not executed
        Packet::CancelFormat1 { count: 1, mispredict: true },
        Packet::Commit { count: 3 },
        exception(2),
        Packet::Address(Address::low(SubIsa::Is0, 9, 0x1c)),
        Packet::Commit { count: 1 },
    ]);
    packets
}

fn encoded(packets: &[Packet], config: &Config) -> Vec<u8> {
    let mut bytes = vec![];
    packets.iter().for_each(|packet| packet.encode(config, &mut bytes).expect("a packet of this trace unit"));
    bytes
}

/// Both sources, a few bytes in turn, as a funnel interleaves them.
fn buffer() -> Vec<u8> {
    let streams =
        [(0x10, encoded(&trace_0(), &config(&REGISTERS_0))), (0x12, encoded(&trace_1(), &config(&REGISTERS_1)))];
    let mut formatter = Formatter::new();
    let longest = streams.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0);
    for from in (0..longest).step_by(8) {
        for (id, bytes) in &streams {
            let rest = bytes.get(from..).unwrap_or(&[]);
            formatter.push(*id, &rest[..rest.len().min(8)]);
        }
    }
    formatter.finish()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn source_ini(name: &str, registers: &[Register]) -> String {
    let lines: String = registers.iter().map(|(name, value)| format!("{name}={value:#010x}\n")).collect();
    format!("[device]\nname={name}\nclass=trace_source\ntype=ETE\n\n[regs]\n{lines}")
}

fn core_ini(name: &str) -> String {
    let dump = |section, file, base| format!("\n[{section}]\nfile={file}\naddress={base:#018x}\n");
    let program = dump("dump1", "program.bin", PROGRAM_BASE);
    let vector = dump("dump2", "vector.bin", VECTOR_BASE);
    format!("[device]\nname={name}\nclass=core\ntype=Cortex-A710\n\n[regs]\nPC(size:64)=0x400000\n{program}{vector}")
}

const SNAPSHOT_INI: &str = "\
; a small program on two cores, traced by ETE; made by unspool's own encoder
[snapshot]
version=1.0

[device_list]
device0=cpu_0.ini
device1=cpu_1.ini
device2=ete_0.ini
device3=ete_1.ini

[trace]
metadata=trace.ini
";

const TRACE_INI: &str = "\
[trace_buffers]
buffers=buffer0

[buffer0]
name=TMC_0
file=trace.bin
format=coresight

[source_buffers]
ETE_0=TMC_0
ETE_1=TMC_0

[core_trace_sources]
cpu_0=ETE_0
cpu_1=ETE_1
";

fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("snapshot.ini", SNAPSHOT_INI.into()),
        ("trace.ini", TRACE_INI.into()),
        ("cpu_0.ini", core_ini("cpu_0").into()),
        ("cpu_1.ini", core_ini("cpu_1").into()),
        ("ete_0.ini", source_ini("ETE_0", &REGISTERS_0).into()),
        ("ete_1.ini", source_ini("ETE_1", &REGISTERS_1).into()),
        ("trace.bin", buffer()),
        ("program.bin", words(&PROGRAM)),
        ("vector.bin", words(&VECTOR)),
    ]
}

#[test]
fn shipped_example_is_up_to_date() {
    let bless = std::env::var_os("UNSPOOL_BLESS").is_some();
    for (name, bytes) in files() {
        let path = example("hello-ete").join(name);
        if bless {
            fs::create_dir_all(example("hello-ete")).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}");
    }
}

fn committed(id: u8) -> Vec<String> {
    let capture = Capture::open(example("hello-ete")).unwrap();
    let trace = *Trace::all(&capture).iter().find(|trace| trace.source().id == Some(id)).unwrap();
    let mut texts = vec![];
    let element = |item: ElementItem| {
        texts.push(item.map_or_else(|error| error.to_string(), |element| element.value.to_string()));
    };
    let outstanding = trace.committed(Transactions::Resolve, &mut (element, ())).unwrap();
    assert_eq!(outstanding, 0, "nothing is left speculative");
    texts
}

/// Asserts the committed elements of a source, given as lists separated by semicolons.
fn assert_committed(id: u8, expected: &[&str]) {
    let expected: Vec<&str> = expected.iter().flat_map(|elements| elements.split("; ")).collect();
    assert_eq!(committed(id), expected);
}

#[test]
fn elements_of_the_example() {
    let start = "context EL0 nonsecure AArch64 contextid 0x1234; target address 0x0000000000400000 IS0";
    let expected = [
        "trace info; trace on",
        start,
        "timestamp 0x123400; atoms EEE; atoms EEE; atoms EEN; exception 2 (call), return 0x000000000040001c",
        "context EL1 nonsecure AArch64 contextid 0x1234; target address 0xffff800000080400 IS0; atoms EE",
        "context EL0 nonsecure AArch64 contextid 0x1234; target address 0x000000000040001c IS0",
        "timestamp 0x123478; atoms N; atoms EE; atoms E; exception 14 (IRQ), return 0x0000000000400024",
        "discard; overflow; trace info; trace on",
        start,
        "timestamp 0x129000; atoms EEE; atoms EEE; event 0",
    ];
    assert_committed(0x10, &expected);
}

#[test]
fn canceled_elements_are_gone() {
    let expected = [
        "trace info; trace on; context EL0 nonsecure AArch64 contextid 0x1234; target address 0x0000000000400000 IS0",
        "atoms EEE; atoms EEN; mispredict; atoms EEE; mispredict; exception 2 (call), return 0x000000000040001c",
    ];
    assert_committed(0x12, &expected);
}
