//! Writes the generated seeds: `cargo run --release --example seeds`.
//!
//! Packets come from our own encoder, frames from our own formatter, archives from the check of the zip target. Inputs that
//! once failed are next to them under other names, and stay as they are.

use std::io::Cursor;
use std::path::Path;
use std::{fs, io};
use unspool_coresight::{Atoms, Context, Security, SubIsa};

use unspool::{FileKind, OpenSteps, open_steps, open_steps_of};
use unspool_astf::example;
use unspool_astf::record::{Instruction, Storage};
use unspool_astf::write::{WriteOptions, Writer};
use unspool_coresight::etm4::packet::{
    Address, ConditionalInstruction, ConditionalResult, CycleCount, ExceptionAddress, FewAtoms, KeyResult, TraceInfo,
};
use unspool_coresight::etm4::{Config, Packet};
use unspool_coresight::frame::{Formatter, HSYNC};
use unspool_coresight::stm;
use unspool_fuzz::ini::SEPARATOR;
use unspool_fuzz::steps::ReadSteps;
use unspool_fuzz::{code, jitdump, module, perf, setup, stf, zip};
use unspool_stf::builder::StfVersion;
use unspool_tarmac::lower::Style;

/// File name and bytes of a seed.
type Seed = (&'static str, Vec<u8>);

fn main() -> io::Result<()> {
    let targets = [
        ("frames", frames()),
        ("packets", packets()),
        ("elements", elements()),
        ("flow", flows()),
        ("ptm", ptms()),
        ("etm3", etm3s()),
        ("etm4_data", etm4_datas()),
        ("itm", itms()),
        ("stm", stms()),
        ("ini", inis()),
        ("zip", zips()),
        ("perf", perfs()),
        ("code", codes()),
        ("module", modules()),
        ("jitdump", jitdumps()),
        ("events", events()),
        ("astf", astfs()),
        ("stf", stfs()),
        ("tarmac", tarmacs()),
        ("steps", steps()),
        ("slice", slices()),
        ("index", indexes()),
        ("record", records()),
        ("encode", encodes()),
    ];
    for (target, seeds) in targets {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in &seeds {
            fs::write(folder.join(name), bytes)?;
        }
        println!("{target}: {} seeds", seeds.len());
    }
    Ok(())
}

/// Recordings of perf: whole ones, and changes of our own.
fn perfs() -> Vec<Seed> {
    let whole = |form: u8| joined(&[&[0], &perf::recording(form)]);
    vec![
        ("file", whole(0)),
        ("big_endian", whole(1)),
        ("compressed", whole(2)),
        ("compressed2_big_endian", whole(5)),
        ("compressed2_damaged", whole(6)),
        ("simpleperf_index", whole(8)),
        ("pipe", whole(16)),
        ("pipe_big_endian", whole(17)),
        ("changed_size", vec![24, 48, 0, 1]),
        ("changed_index", vec![8, 72, 0, 4, 0, 2, 7]),
        ("changed_record", vec![8, 0x58, 1, 9, 0x5e, 1, 200]),
        ("changed_compressed", vec![2, 0x20, 2, 1]),
    ]
}

/// Event logs: every call, a log that has lost its start, and one with patches and wrong lines.
fn events() -> Vec<Seed> {
    let calls = "# every call\n- declare_process(CURRENT, 0, 0xffff800000000000, \"vmlinux\", \"0123\")\n\
                 10 declare_process(START, 7, 0x400000, \"bin/app\")\n20 declare_library(START, 7, 0x7000, \"l\", \"\", 0x10, 0x100)\n\
                 20 declare_thread(START, 8, 7)\n30 declare_asid(START, 3, 7)\n40 patch_code(7, 0x7010, 4, hex\"1f2003d5\")\n\
                 40 patch_code(7, 0x7020, 8, \"jit\")\n50 fork_process(7, 9)\n60 exec_process(9)\n\
                 60 declare_running(CURRENT, 1, 8)\n70 define_trace(START, 0x10, \"ETM 0\", ETMCR=0x1000, x=2)\n\
                 80 declare_process(END, 7, 0x400000, \"bin/app\")\n90 declare_process(START, 7, 0x8000, \"b\")\n";
    let lost = "5 patch_code(7, 0x3000, 4, None)\n6 fork_process(7, 8)\n7 declare_library(END, 8, 0x3000, \"lib\")\n\
                8 declare_thread(END, 20, 7)\n9 declare_asid(CURRENT, 1, 7)\n- declare_library(CURRENT, 7, 0x2fc0, \"a\")\n\
                3 declare_process(CURRENT, 7, 0x1000, \"app\")\n4 define_trace(END, 1, a)\n";
    let odd = "\u{feff}1 declare()\r\n2 patch_code(1, 0xfffffffffffffff0, 64, \"\\u{e9}\\n\")\r\nx\r\n\
               3 declare_library(START, 1, 0, \"all\", \"\", 0, 0xffffffffffffffff)\n4 patch_code(1, 0, 2, hex\"12\")";
    vec![
        ("calls", with(0x20, calls.as_bytes())),
        ("lost_start", with(0x21, lost.as_bytes())),
        ("odd", with(0x03, odd.as_bytes())),
    ]
}

/// Streams of the plugin: code, and threads that execute it.
fn records() -> Vec<Seed> {
    let chunk =
        |thread: u32, bytes: &[u8]| joined(&[&thread.to_le_bytes(), &(bytes.len() as u32).to_le_bytes(), bytes]);
    let block = |id: u32, address: u64, instructions: &[&[u8]]| {
        let count = (instructions.len() as u16).to_le_bytes();
        let mut bytes = joined(&[&id.to_le_bytes(), &address.to_le_bytes(), &count]);
        for instruction in instructions {
            bytes.push(instruction.len() as u8);
            bytes.extend_from_slice(instruction);
        }
        bytes
    };
    let word = |word: u32| word.to_le_bytes();
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let rare = |kind: u64, number: u64| 2 << 62 | kind << 56 | number;
    let access = |index: u64, is_write: bool, size: u64, address: u64| {
        1 << 62 | index << 53 | u64::from(is_write) << 52 | size << 49 | address
    };
    let (start, end) = (rare(4, 0), rare(5, 0));
    let a64 = [
        block(0, 0x40_0000, &[&word(0xf940_0020), &word(0xa900_0020), &word(0x54ff_ffc1)]),
        block(1, 0x40_000c, &[&word(0xc805_7c41), &word(0xd400_0001)]),
        block(2, 0x40_0014, &[&word(0xd65f_03c0)]),
    ];
    let turn = |address: u64| {
        [0, access(0, false, 3, address), access(1, true, 3, address + 8), access(1, true, 3, address + 16)]
    };
    let mut run = vec![start];
    [0x1000, 0x2000, 0x2fe8, 0x2ff0, 0x3000].into_iter().for_each(|address| run.extend(turn(address)));
    run.extend([1, access(0, true, 3, 0x1000), rare(2, 0), 64, 1, 2, 3, rare(3, 0), 64, 0, 2, 2, 2, 0, end]);
    let tagged = [rare(9, 0x0a00), access(0, false, 3, 8)];
    let fault = [&[start, rare(6, 1), 0], &tagged[..], &[rare(1, 1), 2, end]].concat();
    // BX LR of A32, BL of T32, and an instruction with an extra halfword before the end of a page.
    let arm = [
        block(0, 0x8000, &[&[0x1e, 0xff, 0x2f, 0xe1]]),
        block(1, 0x9000, &[&[0x00, 0xf0, 0x00, 0xf8]]),
        block(2, 0x9ff8, &[&[0x70, 0x47, 0x00, 0xf0]]),
        block(3, 0x9004, &[&[0x70, 0x47]]),
    ];
    let around = [start, 0, 1, 3, 2, 3, 1, end];
    let riscv = [block(0, 0x1_0000, &[&word(0x0000_b503), &word(0x1005_a52f), &[0x82, 0x80]])];
    let turns = [start, 0, access(0, false, 3, 8), access(1, false, 2, 12), 0, access(0, false, 3, 8), 0, 0, end];
    vec![
        ("a64", joined(&[&[0], &chunk(u32::MAX, &a64.concat()), &chunk(0, &words(&run)), &chunk(1, &words(&fault))])),
        ("arm", joined(&[&[1], &chunk(u32::MAX, &arm.concat()), &chunk(0, &words(&around))])),
        ("riscv", joined(&[&[2], &chunk(u32::MAX, &riscv.concat()), &chunk(0, &words(&turns))])),
    ]
}

/// The bytes after the byte that selects.
fn with(choice: u8, bytes: &[u8]) -> Vec<u8> {
    [&[choice], bytes].concat()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn frames() -> Vec<Seed> {
    let fill = |formatter: &mut Formatter| {
        formatter.push(0x10, &[0xff; 20]);
        formatter.push(0x11, &[1, 2, 3]);
        formatter.push(0x10, &[4]);
        formatter.push(0x7d, &[5]);
        formatter.push(0x11, &[6; 31]);
    };
    let mut plain = Formatter::new();
    fill(&mut plain);
    plain.barrier();
    fill(&mut plain);
    let plain = plain.finish();
    let mut port = Formatter::with_full_sync(2);
    fill(&mut port);
    let port = port.finish();
    let half = joined(&[&port[..10], &HSYNC, &port[10..16], &HSYNC, &HSYNC, &port[16..]]);
    let list =
        [0x10, 3, 1, 2, 3, 0x11, 1, 9, 0x80, 0, 0x10, 20, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7];
    let sync = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00, 0xf7, 0x95, 0x42, 0xdb];
    let mut two = Formatter::new();
    (0..40).for_each(|n| two.push(0x10 + (n & 1), &sync));
    let mut missing = two.finish();
    missing.remove(200);
    vec![
        ("missing_byte", joined(&[&[0x00, 9], &missing])),
        ("missing_bytes", joined(&[&[0xf0, 9], &missing])),
        ("memory", joined(&[&[0x00, 5], &plain])),
        ("port", joined(&[&[0x03, 0], &port])),
        ("half_syncs", joined(&[&[0x05, 3], &half])),
        ("cut_short", joined(&[&[0x00, 1], &plain[..9], &port])),
        ("reserved_id", joined(&[&[0x00, 7], &plain[..16], &[0xf1; 16], &plain[16..]])),
        ("list", joined(&[&[0x04, 2], &list])),
    ]
}

/// The start of an input: protocol, and the registers in the order of [`setup::REGISTERS`].
fn head(protocol: u8, registers: &[Option<u32>; 7]) -> Vec<u8> {
    let known = registers.iter().enumerate().map(|(bit, value)| u8::from(value.is_some()) << bit).sum();
    let values = registers.iter().flatten().flat_map(|value| value.to_le_bytes());
    [protocol, known].into_iter().chain(values).collect()
}

/// Heads with and without speculation, with all features and with few.
fn heads() -> [(&'static str, Vec<u8>); 5] {
    let none = [None; 7];
    let few = [Some(0x2800_0ea1), Some(0x4100_f403), Some(0x488), Some(0), Some(1), None, Some(0x10)];
    let deep = |idr0| [Some(idr0), None, None, Some(6), None, None, None];
    [
        ("ete", head(0, &none)),
        ("etm4", head(setup::ETM4, &none)),
        ("etm4_few", head(setup::ETM4 | 4, &few)),
        ("ete_deep", head(0, &deep(0x08c1_8ea1))),
        ("etm4_deep", head(setup::ETM4, &deep(0x0801_8ee1))),
    ]
}

fn context(security: Security, id: Option<u32>) -> Context {
    Context { el: 1, aarch64: true, security, vmid: id, context_id: id }
}

/// At least one packet of every kind; `encode` skips those that a configuration cannot have.
fn every_packet() -> Vec<Packet> {
    let short = Address::low(SubIsa::Is0, 9, 0x1f4);
    let middle = Address::low(SubIsa::Is1, 16, 0xabcc);
    let low = Address::low(SubIsa::Is1, 32, 0x8000_1002);
    let full = Address::full(SubIsa::Is0, 0xffff_0000_1234_5678);
    let info = |info| TraceInfo { info, key: None, speculation: Some(3), cycle_threshold: Some(9) };
    let result = |key| KeyResult { key, result: 5, ci: true };
    vec![
        Packet::AlignmentSync,
        Packet::TraceInfo(info(Some(1))),
        Packet::TraceOn,
        Packet::AddressContext { address: full, context: context(Security::NonSecure, Some(7)) },
        Packet::Atoms(Atoms::new(0b101, 3)),
        Packet::Atoms(Atoms::new(0x7f_ffff, 24)),
        Packet::Address(short),
        Packet::Address(middle),
        Packet::Address(low),
        Packet::Address(Address::same_as(2)),
        Packet::Context(None),
        Packet::Context(Some(context(Security::Root, None))),
        Packet::Timestamp { value: 0x1234, bits: 14, cycles: Some(300) },
        Packet::Timestamp { value: u64::MAX, bits: 64, cycles: None },
        Packet::TimestampMarker,
        Packet::CycleCount(CycleCount::Format1 { commit: None, cycles: Some(99) }),
        Packet::CycleCount(CycleCount::Format1 { commit: Some(2), cycles: None }),
        Packet::CycleCount(CycleCount::Format2 { near_maximum: true, commit: 14, cycles: 3 }),
        Packet::CycleCount(CycleCount::Format3 { commit: 1, cycles: 2 }),
        Packet::Commit { count: 2 },
        Packet::CancelFormat1 { count: 1, mispredict: true },
        Packet::CancelFormat2(FewAtoms::EE),
        Packet::CancelFormat3 { count: 2, atom: true },
        Packet::Mispredict(FewAtoms::N),
        Packet::Event { mask: 5 },
        Packet::Q { count: None, address: None },
        Packet::Q { count: Some(200), address: None },
        Packet::Q { count: Some(3), address: Some(short) },
        Packet::Exception { number: 14, address: ExceptionAddress::Return, fault_pending: None },
        Packet::Address(short),
        Packet::Exception { number: 33, address: ExceptionAddress::TargetAndReturn, fault_pending: Some(true) },
        Packet::AddressContext { address: low, context: context(Security::Secure, None) },
        Packet::Exception { number: 0x18, address: ExceptionAddress::Return, fault_pending: None },
        Packet::Ignore,
        Packet::ExceptionReturn,
        Packet::FunctionReturn,
        Packet::SourceAddress(short),
        Packet::SourceAddress(full),
        Packet::Instrumentation { el: 1, value: 0x0102_0304_0506_0708 },
        Packet::TransactionStart,
        Packet::Atoms(Atoms::new(1, 1)),
        Packet::TransactionCommit,
        Packet::TransactionStart,
        Packet::NumberedDataSync(3),
        Packet::UnnumberedDataSync(4),
        Packet::ConditionalInstruction(ConditionalInstruction::Format1 { key: 1000 }),
        Packet::ConditionalInstruction(ConditionalInstruction::Format2 { step: 1 }),
        Packet::ConditionalInstruction(ConditionalInstruction::Format3 { count: 9, last: true }),
        Packet::ConditionalResult(ConditionalResult::Format1 { first: result(9), second: Some(result(1 << 20)) }),
        Packet::ConditionalResult(ConditionalResult::Format2 { skip: true, token: 2 }),
        Packet::ConditionalResult(ConditionalResult::Format3 { tokens: 0xabc }),
        Packet::ConditionalResult(ConditionalResult::Format4 { token: 1 }),
        Packet::ConditionalFlush,
        Packet::Overflow,
        Packet::AlignmentSync,
        Packet::TraceInfo(info(None)),
        Packet::Discard,
    ]
}

fn encode(head: &[u8], packets: &[Packet]) -> Vec<u8> {
    let config: Config = setup::config(&mut &head[..]);
    let mut bytes = Vec::new();
    for packet in packets {
        let _ = packet.encode(&config, &mut bytes);
    }
    bytes
}

fn encoded(head: &[u8]) -> Vec<u8> {
    encode(head, &every_packet())
}

fn packets() -> Vec<Seed> {
    heads().into_iter().map(|(name, head)| (name, joined(&[&head, &[3], &encoded(&head)]))).collect()
}

/// Every packet of an ETMv4 data stream with a known layout, and the headers of the others.
fn etm4_datas() -> Vec<Seed> {
    let sync: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
    let known: &[u8] = &[0x01, 0x03, 0x00, 0x11, 0x00, 0x1f, 0x02, 0x81, 0x02, 0x00, 0x03, 0x00, 0x05];
    let whole_time: &[u8] = &[0x02, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x09];
    let hidden = |header: &[u8]| joined(&[header, &[0xde, 0x01, 0x00], sync]);
    vec![
        ("known", joined(&[&[3], sync, known, whole_time, &[0x02, 0x05]])),
        ("headers", joined(&[&[3], sync, &hidden(&[0x00, 0x01]), &hidden(&[0x04]), &hidden(&[0x70]), &hidden(&[0x2f])])),
        ("damaged", joined(&[&[0], known, sync, &[0xc0], known, sync, &[0x00, 0x07], sync, &[0x02, 0x80], sync, known])),
    ]
}

/// Every packet of an ITM, with and without synchronizations.
fn itms() -> Vec<Seed> {
    let every: &[&[u8]] = &[
        &[0x70, 0x19, 0xbb, 0x28, 0x52, 0x45, 0x23, 0x60, 0xf0, 0xde, 0xfe, 0xd0, 0x3a],
        &[0x94, 0x82, 0xcf, 0xfa, 0x77, 0xb4, 0x96, 0x9a, 0x92, 0x00, 0x94, 0x7a, 0x88, 0x80, 0x01],
        &[0x05, 0x15, 0x0e, 0x2c, 0x10, 0x17, 0x18, 0x02, 0x00, 0x08, 0x15, 0x00, 0x1d, 0x81],
        &[0x4e, 0x10, 0x10, 0x8f, 0x00, 0x01, 0x00, 0x00, 0x57, 0x8c, 0x02, 0x00, 0x08],
    ];
    let sync: &[u8] = &[0, 0, 0, 0, 0, 0x80];
    let every = every.concat();
    vec![
        ("synchronized", joined(&[&[3], sync, &every, sync, &every])),
        ("presumed", joined(&[&[3], &every])),
        ("damaged", joined(&[&[0], sync, &every, &[0x80, 0x80], &every, sync, &[0x0b, 0x41], sync, &every])),
    ]
}

/// Every packet of an STM, in all versions.
fn stms() -> Vec<Seed> {
    let stamp = |nibbles| Some(stm::Timestamp { value: 7, nibbles });
    let stream = |version: stm::Version| {
        let nibbles = if let stm::TimestampFormat::Legacy(_) = version.timestamps { 2 } else { 14 };
        let mut encoder = stm::Encoder::new();
        let mut bodies = vec![stm::Body::Async, stm::Body::Version(version)];
        bodies.extend([false, true].map(|wide| stm::Body::Master { value: 0x40, wide }));
        bodies.extend([false, true].map(|wide| stm::Body::Channel { value: 5, wide }));
        for bits in [4, 8, 16, 32, 64] {
            for (marked, timestamp) in [(false, None), (true, None), (false, stamp(nibbles)), (true, stamp(nibbles))] {
                bodies.push(stm::Body::Data { value: 9, bits, marked, timestamp });
            }
        }
        bodies.extend([stm::Body::Flag(None), stm::Body::Flag(stamp(nibbles)), stm::Body::Null { count: 5 }]);
        bodies.extend([stm::Body::MasterError(1), stm::Body::GlobalError(2), stm::Body::ChannelError(3)]);
        bodies.push(stm::Body::Frequency { value: 1000, wide: true, timestamp: stamp(nibbles) });
        bodies.push(stm::Body::Trigger { value: 1, timestamp: None });
        bodies.push(stm::Body::CrossSync { value: 1, timestamp: stamp(nibbles) });
        bodies.push(stm::Body::User { value: 0xff, nibbles: 2, timestamp: None });
        bodies.iter().for_each(|body| encoder.push(body).expect("a packet of this version"));
        encoder.finish()
    };
    let plain = |timestamps| stm::Version { timestamps, extension: None };
    let natural = stream(plain(stm::TimestampFormat::Natural));
    let least = stm::Version { timestamps: stm::TimestampFormat::Gray, extension: Some((2, true)) };
    vec![
        ("natural", joined(&[&[3], &natural, &natural])),
        ("delta", joined(&[&[3], &stream(plain(stm::TimestampFormat::Delta))])),
        ("legacy", joined(&[&[0], &stream(plain(stm::TimestampFormat::Legacy(1)))])),
        ("least_first", joined(&[&[3], &stream(least)])),
        ("damaged", joined(&[&[0], &natural[..40], &[0xff; 30], &natural, &[0xf0, 0xcc], &natural])),
    ]
}

fn elements() -> Vec<Seed> {
    let mut seeds: Vec<Seed> =
        heads().into_iter().map(|(name, head)| (name, joined(&[&head, &[3, 0], &encoded(&head)]))).collect();
    let deep = |deepest: u32| head(0, &[Some(0x08c1_8ea1), None, None, Some(deepest), None, None, None]);
    seeds.push(("endless_speculation", joined(&[&deep(u32::MAX), &[3, 0xff], &[0xf7, 0x71]])));
    let start =
        [Packet::AlignmentSync, Packet::TraceInfo(TraceInfo { speculation: Some(u32::MAX), ..TraceInfo::default() })];
    let cancels = joined(&[&deep(u32::MAX), &[3, 0xfe], &encode(&deep(0), &start), &[0x71; 40], &[0x34; 40]]);
    seeds.push(("cancels_and_survivors", cancels));
    seeds.push(("endless_transaction", joined(&[&deep(0), &[3, 0xff], &[0x0a, 0xf7, 0xf7]])));
    seeds
}

/// A32: conditions, calls, barriers and returns, and a branch back to the start.
const WAYPOINTS: [u32; 10] = [
    0xe1a0_0000, // nop
    0x0a00_0001, // beq 0x10
    0xeb00_0002, // bl 0x18
    0xeaff_fffb, // b 0x0
    0xf57f_f05f, // dmb
    0xfa00_0003, // blx 0x28 (T32)
    0xe1a0_0000, // nop
    0xe12f_ff33, // blx r3
    0xe12f_ff1e, // bx lr
    0xe1b0_f00e, // movs pc, lr
];

/// Every kind of PTM packet, in a trace through some code.
fn ptms() -> Vec<Seed> {
    use unspool_coresight::ptm::Packet;
    use unspool_coresight::ptm::packet::{Address, AddressIsa, Branch, BranchInfo, InstructionSync, SyncReason};
    let packets = |config: &unspool_coresight::ptm::Config| {
        let cycles = config.cycle_accurate.then_some(300);
        let count = if config.cycle_accurate { 1 } else { 3 };
        let sync = |reason, cycles| {
            Packet::InstructionSync(InstructionSync {
                address: 0x8000,
                thumb: false,
                reason,
                nonsecure: true,
                alternative: false,
                hyp: false,
                cycles,
                context_id: (config.context_id_bytes > 0).then_some(7),
            })
        };
        let branch = |address, info| Packet::Branch(Branch { address, info, cycles });
        let info = |exception, hyp| Some(BranchInfo { exception, nonsecure: true, alternative: false, hyp });
        let time = |value, bits| Packet::Timestamp { value, bits, clock_changed: bits == 7, cycles };
        let full = Address::full(AddressIsa::Arm, 0x8018);
        let all = [
            Packet::AlignmentSync,
            sync(SyncReason::TraceEnabled, cycles),
            time(0x1234_5678_9abc, config.timestamp_bits),
            Packet::Vmid(3),
            Packet::Atoms { atoms: Atoms::new(0b110, count), cycles },
            branch(Address::low(1, 3), None),
            Packet::Atoms { atoms: Atoms::new(1, 1), cycles },
            Packet::WaypointUpdate { address: Address::low(2, 6), alternative: None },
            branch(full, info(14, Some(true))),
            Packet::ExceptionReturn,
            branch(Address::low(3, 0x2000), info(0, None)),
            branch(Address::full(AddressIsa::Thumb, 0x8028), None),
            Packet::ContextId(9),
            Packet::Trigger,
            Packet::Ignore,
            time(5, 7),
            branch(Address::full(AddressIsa::Jazelle, 0x8001), None),
            Packet::AlignmentSync,
            sync(SyncReason::Periodic, None),
            branch(Address::full(AddressIsa::Arm, 0), info(1, None)),
            sync(SyncReason::DebugExit, cycles),
            sync(SyncReason::AfterOverflow, cycles),
        ];
        let mut bytes = Vec::new();
        for packet in all {
            let _ = packet.encode(config, &mut bytes);
        }
        bytes
    };
    let code: Vec<u8> = WAYPOINTS.iter().flat_map(|word| word.to_le_bytes()).collect();
    let seed = |registers: [u32; 3]| {
        let head: Vec<u8> = registers.iter().flat_map(|register| register.to_le_bytes()).collect();
        let bytes = packets(&unspool_fuzz::ptm::config(&mut &head[..]));
        joined(&[&head, &[3], &(code.len() as u16).to_le_bytes(), &code, &bytes])
    };
    vec![
        ("plain", seed([0xc000, 0x411c_f312, 0x34c0_1ac2])),
        ("return_stack", seed([0x2000_0000, 0x411c_f312, 0x35c0_1ac2])),
        ("cycles", seed([0x1000_d000, 0x411c_f312, 0x34c0_1ac2])),
        ("first_version", seed([0x1000_0000, 0x411c_f301, 0x00c0_18ea])),
    ]
}

/// A64: calls, conditions, returns, an exception return, barriers and waits, some of them in a loop.
const A64: [u32; 16] = [
    0xd503_201f, // nop
    0x9400_0005, // bl 0x18
    0x5400_0041, // b.ne 0xc
    0x3600_0060, // tbz w0, #0, 0x18
    0xd503_3fdf, // isb
    0x17ff_fffb, // b 0x0
    0xd503_207f, // wfi
    0xd65f_03c0, // ret
    0xd63f_0020, // blr x1
    0xb4ff_ffc0, // cbz x0, 0x1c
    0xd69f_03e0, // eret
    0xd400_0001, // svc #0
    0xd523_3060, // tstart x0
    0xd61f_0020, // br x1
    0x5400_000e, // b.al 0x38
    0x1400_1000, // b far away
];

/// The same in A32: conditional calls and returns, a load into the program counter, a change to T32.
const A32: [u32; 8] = [
    0xe320_f000, // nop
    0x0b00_0001, // bleq 0x10
    0x1a00_0000, // bne 0x10
    0xfaff_fffb, // blx 0x0
    0x012f_ff1e, // bxeq lr
    0xe8bd_8010, // pop {r4, pc}
    0xf57f_f06f, // isb
    0xeaff_fff7, // b 0x0
];

/// T32, with IT blocks and wide branches.
const T32: [u16; 12] = [
    0xbf00, // nop
    0xbf18, // it ne
    0x4770, // bxne lr
    0xf000, 0xf801, // bl 0xc
    0xd0fc, // beq 0x6
    0xb100, // cbz r0, 0x10
    0xbd10, // pop {r4, pc}
    0xf3bf, 0x8f6f, // isb
    0xbf30, // wfi
    0xe7f4, // b 0x0
];

fn flows() -> Vec<Seed> {
    let (a64, a32) = (A64.map(u32::to_le_bytes).concat(), A32.map(u32::to_le_bytes).concat());
    let t32 = T32.map(u16::to_le_bytes).concat();
    let input = |head: &[u8], how: u8, code: &[u8], packets: &[Packet]| {
        let length = (code.len() as u16).to_le_bytes();
        joined(&[head, &[3, how], &length, code, &encode(head, packets)])
    };
    let at = |isa, address| Packet::Address(Address::full(isa, address));
    let walk = |isa, base: u64| {
        let exception = Packet::Exception { number: 14, address: ExceptionAddress::Return, fault_pending: None };
        let mut packets = vec![Packet::Atoms(Atoms::new(3, 2)), Packet::Atoms(Atoms::new(0b101, 3))];
        packets.extend([at(isa, base), Packet::Atoms(Atoms::new(7, 3)), exception, at(isa, base + 8), at(isa, base)]);
        packets.extend([Packet::Q { count: Some(2), address: None }, at(isa, base + 8)]);
        packets.extend([Packet::SourceAddress(Address::full(isa, base + 12)), Packet::Atoms(Atoms::new(0xffff, 16))]);
        packets.extend([Packet::Commit { count: 3 }, Packet::Mispredict(FewAtoms::E), at(isa, base)]);
        packets.extend([Packet::Atoms(Atoms::new(1, 1)), Packet::Commit { count: 4 }]);
        packets.repeat(2)
    };
    let mut seeds = Vec::new();
    for (name, head) in heads() {
        let every = every_packet();
        seeds.push((name, input(&head, 1, &a64, &walk(SubIsa::Is0, 0x8000))));
        if name == "ete" {
            seeds.push(("every_packet", input(&head, 0, &a64, &every)));
            let context = Packet::Context(Some(context(Security::Secure, None)));
            let one = Packet::Q { count: Some(1), address: None };
            let atom = Packet::Atoms(Atoms::new(1, 1));
            seeds.push(("lost_after_q", input(&head, 1, &a64, &[one, atom, Packet::TraceOn, context, atom])));
            seeds.push(("resolved", input(&head, 0x19, &a64, &walk(SubIsa::Is0, 0x8000))));
            seeds.push(("top_of_memory", input(&head, 5, &a64, &walk(SubIsa::Is0, u64::MAX - 0x1f))));
        }
        if name == "etm4" {
            seeds.push(("a32", input(&head, 2, &a32, &walk(SubIsa::Is0, 0x8000))));
            seeds.push(("t32", input(&head, 0x0b, &t32, &walk(SubIsa::Is1, 0x8000))));
            seeds.push(("t32_at_the_top", input(&head, 7, &t32, &walk(SubIsa::Is1, 0xffff_ffe0))));
        }
    }
    seeds
}

/// Streams of ETMv3: instructions with exceptions, cycles, data, and only data.
fn etm3s() -> Vec<Seed> {
    let seed = |flags: u8, cr: u32, code: &[u8], stream: &[u8]| {
        joined(&[&[flags], &cr.to_le_bytes(), &[3], &(code.len() as u16).to_le_bytes(), code, stream])
    };
    // nop; beq +12; addeq r0, r0, r1; bx lr; ldr r0, [r1]; b -28
    let arm = [0xe1a0_0000_u32, 0x0a00_0001, 0x0080_0001, 0xe12f_ff1e, 0xe591_0000, 0xeaff_fff9];
    let arm: Vec<u8> = arm.into_iter().flat_map(u32::to_le_bytes).collect();
    // it eq; moveq r0, #1; cbz r0, +4; nop; bx lr
    let thumb = [0xbf08_u16, 0x2001, 0xb100, 0xbf00, 0x4770].into_iter().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let exception = [0xc4, 0xc0, 0x84, 0x09, 0x88, 0x81, 0x80, 0x81, 0x80, 0x48, 0x3c, 0x84, 0x76, 0x01, 0x84];
    let cycles = [0xbc, 0xe4, 0x86, 0x92, 0x42, 0xbf, 0x01, 0x70, 0x85, 0x01, 0x21, 0x10, 0x80, 0, 0, 0x84];
    let data = [0x88, 0x2e, 0x90, 0xa0, 0x80, 0x80, 0x12, 1, 2, 3, 4, 0x7c, 0x10, 0x6c, 1, 2, 3, 4, 0x6a, 0x50, 0x62];
    let m_profile = [0xc4, 0xc1, 0x45, 0x1e, 0x84, 0xc1, 0x40, 0xb6, 0x45, 0x84, 0xc1, 0x40, 0x96, 0x01, 0x0c];
    let damaged = [0x10, 0x84, 0, 0, 0, 0, 0, 0x80, 0x08, 0x01, 0, 0x80, 0, 0, 0x84, 0x01, 0, 0, 0, 0];
    vec![
        ("exception", seed(0x10, 0, &arm, &exception)),
        ("cycles", seed(0x10, 0x1000, &arm, &cycles)),
        ("data", seed(0x10, 0xc, &arm, &data)),
        ("data_only", seed(0x10, 0x10_c00c, &[], &data[1..])),
        ("m_profile", seed(0x1d, 0x980, &thumb, &m_profile)),
        ("damaged", seed(0x16, 0x4000_c000, &arm, &damaged)),
    ]
}

fn codes() -> Vec<Seed> {
    let at = |how: u8, address: u64, rest: &[u8]| joined(&[&[how], &address.to_le_bytes(), rest]);
    vec![
        ("wide", joined(&[&[4], &code::ours(0)])),
        ("narrow", joined(&[&[4], &code::ours(1)])),
        ("big_endian", joined(&[&[4], &code::ours(2)])),
        ("moved", at(5, 0xffff_8000_0000_0000, &code::ours(0))),
        ("over_the_end", at(5, u64::MAX - 0x20, &code::ours(3))),
        ("dump", at(5, u64::MAX - 2, b"dump")),
        ("listed", at(6, 0x0001_0010, &code::ours(0))),
        ("no_elf", joined(&[&[4], b"\x7fELF\x02\x01"])),
        ("changed", vec![0, 0x20, 0, 1, 0x48, 0, 0xff]),
        ("cut", vec![8, 0xf0, 3, 0]),
    ]
}

fn modules() -> Vec<Seed> {
    vec![
        ("whole", joined(&[&[1], &module::ours()])),
        ("with_kernel", joined(&[&[3], &module::ours()])),
        ("program", joined(&[&[1], &code::ours(0)])),
        ("narrow", joined(&[&[1], &code::ours(1)])),
        // Another type of relocation, an offset outside the section, and a section without a name.
        ("changed", vec![2, 0x58, 0, 1, 0x68, 0, 0xf0, 0x80, 1, 1]),
        ("cut", vec![0, 0x60, 3, 0]),
    ]
}

fn jitdumps() -> Vec<Seed> {
    vec![
        ("little_endian", joined(&[&[0], &jitdump::ours(false)])),
        ("big_endian", joined(&[&[0], &jitdump::ours(true)])),
        // The size of a record, the size of its code, and the code that is moved.
        ("changed", vec![1, 0x2c, 0, 1, 0x50, 0, 9, 0xe8, 0, 1]),
        ("cut", vec![2, 0x80, 1, 0]),
    ]
}

fn inis() -> Vec<Seed> {
    let device = "[device]\nname=E\nclass=trace_source\ntype=ETM4.2\n[regs]\nTRCTRACEIDR(id:0x1)(size:32)=0x10\n";
    let core = "[device]\nname=C\nclass=core\ntype=Cortex-A53\n[regs]\nPC(size:64)=0x80000\n\
                [dump1]\nfile=sub\\Y\naddress=0x80000\nlength=8\noffset=1\nspace=EL2\n";
    let snapshot = "[snapshot]\nversion=1.0\n[device_list]\ndevice0=d.ini\n[trace]\nmetadata=t.ini\n";
    let buffers = "[trace_buffers]\nbuffers=b0,b1\n[b0]\nname=B\nfile=x,x\nformat=coresight\nwrapped=1\n\
                   write_pointer=7\n[b1]\nname=D\nfile=x\nformat=dstream_coresight\n\
                   [source_buffers]\nE=B,D\n[core_trace_sources]\nC=E\n";
    let contents = "[trace]\nmetadata=t.ini\nbuffer0=x\nbuffer1=Sub/y,x\nevent_log=x\n[device_list]\nc=d.ini\n";
    let metadata = "[buffer]\nname: ETB\nformat: source_data\nvendor: v\n[trace_16]\nformat: ETM4\ncore: C\n\
                    source_index: 0\nTRCCONFIGR: 0x1\ntimestamp_bits: 64\n[trace_unknown]\nformat: ETE\n";
    let odd = "\u{feff}; comment\r\nodd\r\n[open\r\na=1\r\n[x] rest\r\nfile=../x\r\nfile: a\\b/../../x\r\n";
    let climb = "[trace_buffers]\nbuffers=b\n[b]\nname=a\\b\nfile=a\\b/../../x\nformat=raw\n";
    let version = "[snapshot]\nversion=2\n";
    let texts = |how: u8, files: [&str; 3]| {
        let texts = files.map(str::as_bytes).join(&SEPARATOR);
        joined(&[&[how], &texts])
    };
    vec![
        ("snapshot", texts(0xd4, [snapshot, buffers, device])),
        ("snapshot_by_file", texts(0x42, [snapshot, buffers, core])),
        ("snapshot_saved", texts(0xf4, [snapshot, buffers, core])),
        ("package", texts(0x55, [contents, metadata, core])),
        ("package_of_snapshot", texts(0x35, [contents, buffers, device])),
        ("odd", texts(0x30, [odd, odd, odd])),
        ("climb_by_backslash", texts(0x30, [snapshot, climb, device])),
        ("version_elsewhere", texts(0x34, [snapshot, version, device])),
    ]
}

fn zips() -> Vec<Seed> {
    let empty = [b'P', b'K', 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    vec![
        ("archive", joined(&[&[0], zip::archive()])),
        ("package", joined(&[&[0], zip::package()])),
        ("empty", joined(&[&[0], &empty])),
        ("changed", vec![1, 5, 0, 1, 40, 0, 1, 60, 0, 0xff]),
        ("changed_package", vec![2, 30, 0, 1, 60, 0, 4]),
    ]
}

/// The example of the format: as a file, after a header, in independent blocks, and as records to write in each storage.
fn astfs() -> Vec<Seed> {
    let records = example::records();
    let (file, body) = (records.as_flattened(), records[1..].as_flattened());
    let mut seeds = vec![("file", with(0, file)), ("after_header", with(1, body))];
    seeds.extend([("raw", 96), ("lzma", 97), ("zlib", 98)].map(|(name, choice)| (name, with(choice, body))));
    for (name, in_patterns) in [("pieces", false), ("pieces_of_patterns", true)] {
        let options = WriteOptions { threads: 1, in_patterns, ..WriteOptions::default() };
        let header = example::header().stored(Storage::Zlib);
        let mut writer = Writer::new(Vec::new(), &header, options).expect("memory");
        writer.write(&records[1..]).expect("memory");
        seeds.push((name, with(0, &writer.finish().expect("memory"))));
    }
    seeds
}

/// A loop that comes as blocks: two instructions, an access and a branch.
fn astf_loop() -> Vec<u8> {
    let lap = |lap: u64| {
        let [mut one, mut two, mut access, mut branch] =
            [0, 1, 2, 3].map(|at| Instruction { pc: 0x8000 + 4 * at, iword: 0xd503_201f, ..Instruction::default() });
        (one.iword, two.iword, access.iword, branch.iword) = (0x9100_0421, 0x9100_0442, 0xf940_0023, 0x17ff_fffd);
        (access.is_read, access.ea_valid, access.ea, access.ea_size) = (true, true, 0x9000 + 8 * lap, 7);
        (branch.is_branch, branch.ea_valid, branch.ea) = (true, true, 0x8000);
        [one, two, access, branch].map(|instruction| instruction.to_bytes())
    };
    let header = example::header().stored(Storage::Raw).to_bytes();
    [&[header][..], (0..25).map(lap).collect::<Vec<_>>().as_flattened()].concat().concat()
}

/// Records of many kinds, without a header.
fn stf_body() -> Vec<u8> {
    joined(&[
        b"\x03\x02\0\0\0hi\x05\x02\0\x08\x01\0\0\0\x02\0\0\0\x03\0\0\0\xf0\x13\0\0\0",
        b"\x1f\0\x10\0\x80\0\0\0\0\xf1\x01\x45",
        b"\x28\x05\0\x11\x08\x07\x06\x05\x04\x03\x02\x01\x29\x0a\0\xf1\x01\0",
        b"\x28\x07\0\x330123456789abcdef\x32\0\x10\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x10\0\0\0\xf0\x13\0\0\0",
        b"\x3c\x08\0\0\0\0\0\0\0\x08\0\0\0\x01\x3d\x01\0\0\0\0\0\0\0\xf0\x03\x35\0\0",
        b"\x64\0\0\0\0\0\0\0\x40\x01\x03\0\0\0\0\0\0\0\x65\0\0\0\x90\0\0\0\0\xe6\x04\x13\0\0\0\xf0\x13\0\0\0",
        b"\xfb\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01",
        b"\xfa\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\x05\x01\0\0\0\0\0\0\0",
    ])
}

/// Records of many kinds in every container, unchanged and with a byte changed.
fn stfs() -> Vec<Seed> {
    let body = stf_body();
    let change = [30, 0, 1];
    let mut seeds = vec![("file", with(0, &[stf::HEADER, &body].concat())), ("after_header", with(1, &body))];
    seeds.extend(
        [("plain", 20), ("zstf", 21), ("gzip", 22), ("xz", 23), ("zstd", 24)]
            .map(|(name, choice)| (name, with(choice, &body))),
    );
    let changed =
        [("plain_changed", 5), ("zstf_changed", 6), ("gzip_changed", 7), ("xz_changed", 8), ("zstd_changed", 9)];
    seeds.extend(changed.map(|(name, choice)| (name, with(choice, &[&change[..], &body].concat()))));
    seeds.push(("zstf_chunks", with(191, &body)));
    seeds
}

/// A few lines of every producer: Fast Models, Rev 3, and those of RTL.
const LOGS: [&[u8]; 3] = [
    b"0 clk E 00008000 00000001 CoreEvent_RESET\n\
        1 clk cpu0 IT (1) 0000a10e:00000000b10e_NS,00000000c110_S e8920300 T hyp_n : LDM r2,{r8,r9}\n\
        1 clk cpu0 MR8X 0000b350:00000000e350 00000000_0000b4f0\n1 clk cpu1 MR4 efefef5c (ABORTED)\n\
        1 clk cpu0 R r10 0000c3d2\n2 clk IS (2) 0000b3c8 54ffff2b O EL3h_s : B.LT {pc}-0x1c\n\
        2 clk R DC CISW 00000000:00000240\n2 clk R Z2 c0240000_00000000_40390000_00000000\n\
        2 clk BW4D_PS I_RCBS O_RCBS 12 0080001000 d4c3b2a1\n2 clk FD (12) 00008000 00008010 A\n\
        2 clk E 0000041c handler 00000019 CoreEvent_ModeChange\n9 clk CADI E simulation_stopped\n",
    b"Tarmac Text Rev 3t\r\n      17 ns  ES  EXC [0x00] Reset\r\n            BR (00000010) A\r\n\
        46 ns  ES  (00000010:059ff028) A svc:     CCFAIL LDREQ pc,{pc}+0x30\r\n-----------     ES  IRQ\r\n\
        \x20  ST 00006150  ........ ....xx## ........ 3635203e   S:0000006150/12 NM NSH\r\n\
        \x20     00006140  21000d74 ........ ........ ........   S:0000006140/12 NM NSH\r\n\
        \x20  R V6<127:64> 1020304050607080\r\n   R Q0 (AARCH32) -------- 00000000\r\n",
    b"12.480000us E HALTED 1\n512ns IT 00000420 4a09        LDR      r2,[pc,#36]\n\
        512ns MR2_I 0000023e b5f80000\n4177 cyc IT (00031a40:00000006) 00031a40     4ba3 T16 LDR r3,[pc,#652]\n\
        4175 cyc MNW4___D 20031c40 0df0adba\n9 ns IT (00000100:0000000a) 00000100 ea00000b A :   B pc+0x2c\n\
        9 ns MNW8____ (00000074:000000c1) 01013ff8 00000000 01000028\n9 ns MCW4___R (00000074:000000c1) TRANSFER 00000007\n\
        60 cs IT (000000000052c4d0) 54fffd8a O  ---_- :        b.ge\t0x52c480\n60 cs W04 X ffffffa8d4e02b54 02170215\n\
        # comment\n\nR psr x2xxX0xx",
];

/// A few lines of every producer, read at once and with small reads, and one of them compressed.
fn tarmacs() -> Vec<Seed> {
    let [fast_models, rev3, rtl] = LOGS;
    // A zstd frame that holds its bytes as they are: header, one block, no checksum.
    let packed = [b"\x28\xb5\x2f\xfd\x20\x0e\x71\0\0", &b"R r0 00000000\n"[..]].concat();
    vec![
        ("fast_models", with(0, fast_models)),
        ("fast_models_drops", with(0x1e, fast_models)),
        ("rev3", with(0, rev3)),
        ("rtl", with(1, rtl)),
        ("rtl_drops", with(0x0a, rtl)),
        ("zstd", with(0, &packed)),
    ]
}

/// The example of ASTF, a capture and the logs of every producer: as they are, and in the other formats.
fn steps() -> Vec<Seed> {
    let open = |kind, file: Vec<u8>| {
        let options = OpenSteps { kind: Some(kind), threads: Some(1), ..OpenSteps::default() };
        ReadSteps::read(open_steps_of("seed", Cursor::new(file), &options).expect("a file of ours")).0
    };
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/hello-ete");
    let options = OpenSteps { source: Some("0x10".into()), ..OpenSteps::default() };
    let capture = ReadSteps::read(open_steps(&package, &options).expect("our example")).0;
    let mut example = example::records();
    example[0] = example::header().stored(Storage::Raw).to_bytes();
    let example = example.as_flattened();
    let stf = [stf::HEADER, &stf_body()].concat();
    let [fast_models, rev3, rtl] = LOGS;
    let mut seeds = vec![
        ("astf", with(0, example)),
        ("astf_basic", with(0x34, example)),
        ("astf_loop", with(0, &astf_loop())),
        ("stf", with(1, &stf)),
        ("fast_models", with(0x02, fast_models)),
        ("fast_models_big", with(0x7a, fast_models)),
        ("rev3", with(0x3a, rev3)),
        ("rtl", with(0x8a, rtl)),
    ];
    let sources = [
        (["astf_as_stf", "astf_as_rev3", "astf_as_fast_models"], open(FileKind::Astf, example.to_vec())),
        (["capture_as_stf", "capture_as_rev3", "capture_as_fast_models"], capture),
        (["log_as_stf", "log_as_rev3", "log_as_fast_models"], open(FileKind::Tarmac, fast_models.to_vec())),
        (["rev3_as_stf", "rev3_as_rev3", "rev3_as_fast_models"], open(FileKind::Tarmac, rev3.to_vec())),
    ];
    for (names, steps) in sources {
        let steps = steps.start(60);
        let log = |style| steps.tarmac(style).map(|(log, _)| log);
        let files = [steps.stf(StfVersion::V1_6).map(|(file, _)| file), log(Style::Rev3), log(Style::FastModels)];
        let choices = [0x31, 0x0a, 0x2e];
        for ((name, choice), file) in names.into_iter().zip(choices).zip(files) {
            seeds.extend(file.map(|file| (name, with(choice, &file))));
        }
    }
    seeds
}

/// The files of `steps`, with another choice.
fn slices() -> Vec<Seed> {
    let cut = |(name, bytes): Seed| (name, [&[bytes[0] & 3, 0x5c, 0xe3, 0xff, 0x8f], &bytes[1..]].concat());
    steps().into_iter().map(cut).collect()
}

/// The logs of `tarmac`, with segments of several sizes, and an index that ends too early.
fn indexes() -> Vec<Seed> {
    let of_log = |(name, bytes): Seed| (name, [&[0x42, 5], &bytes[1..]].concat());
    let cut = ("cut", [&[1, 5][..], b"unspool-idx\n", &[4, 0, 0, 0]].concat());
    tarmacs().into_iter().map(of_log).chain([cut]).collect()
}

/// Loops, calls, returns and exceptions under settings of every kind.
fn encodes() -> Vec<Seed> {
    let code: [u8; 16] = [0, 0x71, 0, 0x43, 0, 0x08, 0x61, 0x09, 0, 0x05, 0, 0x06, 0, 0x81, 0, 0x07];
    let script: Vec<u8> = (0..40_u8)
        .flat_map(|lap| {
            let exception = [0xc0 | lap & 0xf, 0x30, 0xd0, lap, 0x00, 0x00, 0x00, 0x40 | lap & 7];
            [&[0x00, 0xa0 | 0x10 | lap & 15, 0x00, 0x47, 0xe8, 3, 0x00, 0x00][..], &exception].concat()
        })
        .collect();
    let with = |choice: u8, registers: &[(u8, u32)]| {
        let registers: Vec<u8> =
            registers.iter().flat_map(|(name, value)| [&[*name][..], &value.to_le_bytes()].concat()).collect();
        [&[choice, (registers.len() / 5) as u8], &registers[..], &code, &script].concat()
    };
    let (configr, vi, ie, sync, events, enabled, idr0, idr8) = (0, 1, 2, 4, 9, 10, 12, 15);
    vec![
        ("plain_a64", with(0, &[])),
        ("plain_a32_etm4", with(0x03, &[])),
        ("plain_t32", with(0x04, &[])),
        ("interworking", with(0x46, &[(configr, 0x1001)])),
        ("everything", with(0x80, &[(configr, 0x18d1), (sync, 8)])),
        ("broadcast", with(0x20, &[(configr, 0x9)])),
        ("guesses", with(0x08, &[(configr, 0x1011), (idr8, 5)])),
        ("q", with(0x10, &[(configr, 0x2001), (idr0, 0x2800_8ea1)])),
        ("q_without_counts", with(0x11, &[(configr, 0x6811), (idr0, 0x2801_8ea1)])),
        ("levels", with(0x01, &[(vi, 0x20_0201)])),
        ("ranges", with(0x40, &[(ie, 1), (18, 4), (19, 16)])),
        ("events", with(0, &[(events, 0x0281_0302), (enabled, 0xf), (52, 0x4_0001), (53, 0x6_0001), (18, 8)])),
    ]
}
