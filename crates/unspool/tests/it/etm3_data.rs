//! Data trace of ETMv3 as accesses of steps. No public capture has any: bytes are written here, and what they mean is cited
//! from Arm IHI 0014, "data tracing".

use std::fmt::Write as _;
use std::fs;

use tempfile::TempDir;
use unspool::model::{Direction, Event, Step};
use unspool::{OpenSteps, open_steps};

use super::fixtures::{brief, collect};

/// A32 at 0x8000.
const CODE: [u32; 8] = [
    0xe591_0000, // 0x8000 ldr r0, [r1]
    0xe080_0001, // 0x8004 add r0, r0, r1
    0xe881_000c, // 0x8008 stm r1, {r2, r3}
    0xe181_2f90, // 0x800c strex r2, r0, [r1]
    0xe5d1_0000, // 0x8010 ldrb r0, [r1]
    0xeaff_fff9, // 0x8014 b 0x8000
    0xe591_0000, // 0x8018 ldr r0, [r1]
    0xee11_2f10, // 0x801c mrc p15, 0, r2, c1, c0, 0
];

/// An alignment synchronization, and the start of tracing at 0x8000.
const START: &str = "00 00 00 00 00 80 08 21 00 80 00 00";

fn capture(cr: u32, bytes: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let hex = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap());
    write("code.bin", &CODE.iter().flat_map(|opcode| opcode.to_le_bytes()).collect::<Vec<_>>());
    write("trace.bin", &hex.collect::<Vec<_>>());
    write(
        "snapshot.ini",
        b"[snapshot]\nversion=1.0\n[device_list]\na=cpu.ini\nb=etm.ini\n[trace]\nmetadata=trace.ini\n",
    );
    write("cpu.ini", b"[device]\nname=cpu\nclass=core\ntype=Cortex-R4\n[dump1]\nfile=code.bin\naddress=0x8000\n");
    let registers = format!("ETMCR={cr:#x}\nETMIDR=0x410cf250\nETMCCER=0x344008f2\nETMTRACEIDR=0x10");
    write("etm.ini", format!("[device]\nname=ETM\nclass=trace_source\ntype=ETM3.5\n[regs]\n{registers}\n").as_bytes());
    let buffer = "[trace_buffers]\nbuffers=b\n[b]\nname=B\nfile=trace.bin\nformat=source_data\n";
    write("trace.ini", format!("{buffer}[source_buffers]\nETM=B\n[core_trace_sources]\ncpu=ETM\n").as_bytes());
    folder
}

fn line(step: &Step) -> String {
    let mut line = brief(step);
    for access in step.accesses() {
        let direction = match access.direction {
            Direction::Read => "R",
            Direction::Write => "W",
            Direction::Both => "RW",
            Direction::Neither => "-",
        };
        write!(line, " {direction}{}@{:x}", access.size, access.address).unwrap();
        let value = access.bytes.iter().rev().map(|(byte, _)| format!("{byte:02x}")).collect::<String>();
        write!(line, "={}", if value.is_empty() { "?" } else { &value }).unwrap();
    }
    line
}

/// Steps after the start of tracing and its context.
fn steps(cr: u32, bytes: &str) -> Vec<String> {
    let folder = capture(cr, &format!("{START} {bytes}"));
    let steps = collect(open_steps(folder.path(), &OpenSteps::default()).unwrap());
    let lines = steps.iter().filter(|step| !matches!(step.event, Event::Gap(_) | Event::Context(_)));
    lines.map(line).collect()
}

#[test]
fn transfers_are_accesses_of_their_instructions() {
    let rows: &[(&str, u32, &str, &[&str])] = &[
        ("a load, with its value", 0xc, "84 2e 90 a0 80 80 02 78 56 34 12 84", &["8000 R4@20001010=12345678", "8004"]),
        (
            "other instructions may come between",
            0xc,
            "88 2e 90 a0 80 80 02 78 56 34 12 84",
            &["8000 R4@20001010=12345678", "8004", "8008"],
        ),
        (
            "later transfers of an instruction follow each other",
            0xc,
            "8c 2a 84 a0 80 80 02 01 02 06 05 84",
            &["8000", "8004", "8008 W4@20001004=00000201 W4@20001008=00000005", "800c"],
        ),
        ("a value of zero has no bytes", 0xc, "84 22 90 a0 80 80 02", &["8000 R4@20001010=00000000"]),
        (
            "an address replaces the low bits of the last",
            0xc,
            "84 22 90 a0 80 80 02 88 26 20 07",
            &["8000 R4@20001010=00000000", "8004", "8008 W4@20001020=00000007"],
        ),
        (
            "the instruction has the size of the access",
            0xc,
            "94 26 90 a0 80 80 02 07",
            &["8000", "8004", "8008", "800c", "8010 R1@20001010=07"],
        ),
        (
            "values that come later, by their tags",
            0xc,
            "84 7c 90 a0 80 80 02 88 74 20 54 6c 78 56 34 12 24 01 64 02 84",
            &[
                "8000 R4@20001010=12345678",
                "8004",
                "8008 W4@20001020=00000001 W4@20001024=?",
                "note late value tag 3 0x2",
                "800c",
            ],
        ),
        ("a value that was filtered out", 0xc, "84 7a 90 a0 80 80 02", &["8000 R4@20001010=?"]),
        ("addresses without values", 0x8, "84 22 90 a0 80 80 02", &["8000 R4@20001010=?"]),
        (
            "a store that failed did not take place",
            0xc,
            "90 22 90 a0 80 80 02 50 84",
            &["8000", "8004", "8008", "800c", "8010"],
        ),
        (
            "suppressed data: what was collected is dropped",
            0xc,
            "8c 22 90 a0 80 80 02 62 02 84",
            &["8000", "8004", "8008", "note data suppressed", "note transfer value 0x0", "800c"],
        ),
        ("a canceled load has no data", 0xc, "84 22 90 a0 80 80 02 81 80 81 80 48 38", &["Synchronous from 8000 to ?"]),
        (
            "the byte order of a big-endian value is not certain",
            0xc,
            "84 2e 90 a0 80 80 12 78 56 34 12",
            &["8000 R4@20001010=?"],
        ),
        (
            "an overflow drops open values",
            0xc,
            "84 7c 90 a0 80 80 02 08 41 00 80 00 00 84 6c 78 56 34 12",
            &["8000 R4@20001010=?", "8000", "note late value tag 3 0x12345678"],
        ),
        (
            "the value of a coprocessor transfer is no access",
            0xe,
            "08 21 18 80 00 00 84 22 90 a0 80 80 02 84 06 5a",
            &["8018 R4@20001010=00000000", "801c", "note transfer value 0x5a"],
        ),
        (
            "one that comes later is not the value of a load",
            0xe,
            "08 21 18 80 00 00 84 7c 90 a0 80 80 02 84 5c 6c 78 56 34 12 64 5a",
            &[
                "8018 R4@20001010=12345678",
                "801c",
                "note transfer value follows with tag 3",
                "note late value tag 3 0x5a",
            ],
        ),
        (
            "where those are not traced, it belongs to the load before",
            0xc,
            "08 21 18 80 00 00 84 22 90 a0 80 80 02 84 06 5a",
            &["8018 R4@20001010=00000000 R4@20001014=0000005a", "801c"],
        ),
        ("values without addresses are notes", 0x4, "84 26 5a", &["8000", "note first transfer value 0x5a"]),
    ];
    for (name, cr, bytes, expected) in rows {
        assert_eq!(steps(*cr, bytes), *expected, "{name}");
    }
}

#[test]
fn data_without_instructions_are_notes() {
    let folder = capture(0x10_000c, "00 00 00 00 00 80 08 21 2e 90 a0 80 80 02 78 56 34 12 06 07");
    let steps = collect(open_steps(folder.path(), &OpenSteps::default()).unwrap());
    let notes: Vec<String> = steps.iter().map(line).filter(|line| line.starts_with("note")).collect();
    assert_eq!(notes, ["note first transfer address 0x20001010 value 0x12345678", "note transfer value 0x7"]);
}
