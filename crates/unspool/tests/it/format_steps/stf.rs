//! Steps of STF files.

use std::io::Cursor;

use unspool::model::Loss;
use unspool::stf;
use unspool::stf::builder::{Access, Builder, Cause, Event as StfEvent, Features, Header, Mode, Step as StfStep};
use unspool::stf::record::Register;

use super::*;

fn open(bytes: &[u8]) -> impl StepSource + Send + use<> {
    let reader = stf::read::Reader::new(Cursor::new(bytes.to_vec()), stf::read::ReadOptions { threads: 1 }).unwrap();
    stf::steps::Steps::new(reader)
}

fn trace() -> Vec<u8> {
    let features = Features(Features::OPERAND_VALUE.0 | Features::REG_STATE.0 | Features::EVENT.0);
    let header = Header { features, accesses: true, mode: Some(Mode::User), ..Header::new(0x1000) };
    let mut trace = Builder::new(Vec::new(), &header).unwrap();
    let value = 0x1234_u64.to_le_bytes();
    let of = |number, meta| Register { number, meta, value: &value };
    let state = [of(2, 0x11)];
    trace.instruction(&StfStep { registers: &state, ..StfStep::plain(0x1000, 0x13) }).unwrap();
    // lw x15, 0(x14): reads x14, writes x15.
    let registers = [of(14, 0x21), of(15, 0x31)];
    let contents = [0xaabb_ccdd];
    let access = Access { address: 0x2000, bytes: 4, is_write: false, attributes: 0, contents: &contents };
    let load = StfStep { registers: &registers, accesses: &[access], ..StfStep::plain(0x1004, 0x0007_2783) };
    trace.instruction(&load).unwrap();
    // beq x0, x0, 8: not taken, and taken
    trace.instruction(&StfStep::plain(0x1008, 0x463)).unwrap();
    trace.instruction(&StfStep { target: Some(0x1014), ..StfStep::plain(0x100c, 0x463) }).unwrap();
    // ecall
    let data = [0x1014];
    let events = [
        StfEvent { cause: Cause::Fault(8), data: &data, target: Some(0x8000) },
        StfEvent { cause: Cause::Mode(Mode::Machine), data: &[], target: None },
    ];
    trace.instruction(&StfStep { events: &events, ..StfStep::plain(0x1014, 0x73) }).unwrap();
    // mret
    let events = [StfEvent { cause: Cause::Mode(Mode::User), data: &[], target: None }];
    let back = StfStep { target: Some(0x1018), events: &events, ..StfStep::plain(0x8000, 0x3020_0073) };
    trace.instruction(&back).unwrap();
    trace.instruction(&StfStep::plain(0x1018, 0x1)).unwrap();
    trace.finish().sink
}

#[test]
fn accesses_have_data_and_registers() {
    let trace = trace();
    let covered = "instructions, opcodes, branches, accesses, data, registers, exceptions, levels";
    assert_eq!(open(&trace).coverage().to_string(), covered);
    let expected = [
        "state, x2=3412000000000000",
        "rv64 1000 13",
        // A change of the mode applies after its instruction, and so does the initial mode.
        "level 0",
        "rv64 1004 72783, x15=3412000000000000, reads 4 at 2000: ddccbbaa",
        "rv64 1008 463 not taken",
        "rv64 100c 463 -> 1014",
        "rv64 1014 73",
        "Synchronous to 8000",
        "level 3",
        "rv64 8000 30200073 -> 1018",
        "return to 1018",
        "level 0",
        "rv64 1018 1",
    ];
    let found = lines(open(&trace));
    let without_position: Vec<&str> = found.iter().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    assert_eq!(without_position, expected);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_steps(|| open(&trace), &found);
}

/// RISC-V trace of another producer, with these records after its header.
fn riscv(comment: &[u8], body: &[stf::Record<'_>]) -> Vec<u8> {
    use stf::Record::{Comment, EndHeader, ForcePc, Identifier, InstIem, Isa, TraceInfo, TraceInfoFeature, Version};
    let info = stf::record::TraceInfo { generator: 12, version: [1, 2, 3], comment: b"other" };
    let header = [
        Identifier(*b"STF"),
        Version { major: 1, minor: 5 },
        Comment(comment),
        Isa(1),
        InstIem(2),
        TraceInfo(info),
        TraceInfoFeature(0x8_0000),
        ForcePc(0x1000),
        EndHeader,
    ];
    let mut bytes = Vec::new();
    header.iter().chain(body).for_each(|record| record.encode(&mut bytes));
    bytes
}

/// Some producers record sizes in bits, except those of atomic instructions: the opcode decides.
#[test]
fn sizes_are_those_of_the_opcodes() {
    let sizes = |accesses: &[(u32, u16)]| {
        let mut body = Vec::new();
        for (opcode, size) in accesses {
            let access = stf::record::MemAccess { address: 0x2000, size: *size, attributes: 0, kind: 1 };
            body.push(stf::Record::InstMemAccess(access));
            body.push(stf::Record::InstMemContent(5));
            body.push(stf::Record::InstOpcode32(*opcode));
        }
        let steps = collect(open(&riscv(b"", &body)));
        let sizes = steps.iter().flat_map(|step| step.accesses().map(|access| access.size));
        sizes.collect::<Vec<_>>()
    };
    // lb, lw, ld, amoadd.w, vle8.v
    let [lb, lw, ld, amo, vector] = [0x0007_0783, 0x0007_2783, 0x0007_3783, 0x00f7_27af, 0x0207_0007];
    assert_eq!(sizes(&[(lw, 4), (amo, 4), (lb, 1), (ld, 8), (vector, 16)]), [4, 4, 1, 8, 16]);
    assert_eq!(sizes(&[(lw, 32), (amo, 4), (lb, 8), (ld, 64), (vector, 64), (lw, 4)]), [4, 4, 1, 8, 8, 4]);
    assert_eq!(sizes(&[(amo, 4), (lb, 8)]), [4, 1]);
}

#[test]
fn invalid_text_is_counted() {
    let body = [stf::Record::Comment(b"th\xe9"), stf::Record::InstOpcode32(0x13)];
    let (steps, losses) = collect_with_losses(open(&riscv(b"caf\xe9", &body)));
    assert_eq!(notes(&steps), ["caf\u{fffd}", "th\u{fffd}"]);
    assert_eq!(losses.of(Loss::Notes).count, 2);
}
