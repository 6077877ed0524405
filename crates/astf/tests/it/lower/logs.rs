//! Tarmac logs lowered to ASTF, compared with a separate reading of the logs.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Cursor;

use unspool_astf::Bytes;
use unspool_astf::lift::Item;
use unspool_astf::lower::LowerOptions;
use unspool_model::{Loss, Losses};
use unspool_tarmac as tarmac;
use unspool_testing::corpus;

use super::script::{hex, text_of};
use crate::support::{assert_no_errors, lift, lower_source};

fn lower_log(log: Vec<u8>) -> (Vec<Bytes>, Losses) {
    let reader = tarmac::read::Reader::new(Cursor::new(log), tarmac::read::ReadOptions::default()).unwrap();
    let (records, losses) = lower_source(&mut tarmac::steps::Steps::new(reader, false), &LowerOptions::default());
    assert_no_errors(&records, "log");
    (records, losses)
}

/// An instruction of a log: address, opcode, and each accessed byte, with whether it was written.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    address: u64,
    opcode: u32,
    bytes: Vec<(u64, bool)>,
}

/// Parses the logs of this test only: `IT (1) 8000 d503201f`, `MR4 8000:...`.
fn fast_model_lines(log: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[2..] {
            ["IT" | "IS", _, address, opcode, ..] => {
                lines.push(Line { address: hex(address), opcode: hex(opcode) as u32, bytes: Vec::new() });
            }
            [access, address, ..] if access.starts_with("MR") || access.starts_with("MW") => {
                let address = hex(address.split(':').next().unwrap());
                let bytes = (0..hex(&access[2..])).map(|at| (address + at, access.starts_with("MW")));
                lines.last_mut().unwrap().bytes.extend(bytes);
            }
            _ => {}
        }
    }
    lines
}

/// The same in the other style: `ES  (8000:d503201f)`, `LD 8000 ........ 01234567 ...` with sixteen bytes, last first.
fn picture_lines(log: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "tic", "ES", position, ..] if position.starts_with('(') => {
                let (address, opcode) = position.trim_matches(['(', ')']).split_once(':').unwrap();
                lines.push(Line { address: hex(address), opcode: hex(opcode) as u32, bytes: Vec::new() });
            }
            [access @ ("LD" | "ST"), address, a, b, c, d, ..] => {
                let picture = [a, b, c, d].concat();
                let known = (0..16).filter(|at| !picture[30 - 2 * at..32 - 2 * at].contains('.'));
                let bytes = known.map(|at| (hex(address) + at as u64, access == "ST"));
                lines.last_mut().unwrap().bytes.extend(bytes);
            }
            _ => {}
        }
    }
    lines
}

/// The instructions of a trace in the same form, and the target of each branch.
fn trace_lines(records: &[Bytes]) -> Vec<(Line, Option<Option<u64>>)> {
    let mut lines: Vec<(Line, Option<Option<u64>>)> = Vec::new();
    lift(records, |_, item| {
        let Item::Instruction(executed) = item else { return };
        let instruction = executed.instruction;
        let mut bytes = Vec::new();
        for access in executed.accesses {
            assert!(access.read != access.write);
            bytes.extend((0..access.extent.bytes()).map(|at| (access.address + at, access.write)));
        }
        let branch = instruction.is_branch.then_some(instruction.ea_valid.then_some(instruction.ea));
        lines.push((Line { address: instruction.pc, opcode: instruction.iword, bytes }, branch));
    });
    lines
}

/// Prefetches and maintenance in a log: opcodes, and registers before them.
const OPERATIONS: &str = "\
1 clk IT (1) 00001000 d2840001 O EL1h_n : MOV x1,#0x2000
1 clk R X1 0000000000002000
2 clk IT (2) 00001004 910043ff O EL1h_n : ADD sp,sp,#0x10
2 clk R SP_EL1 0000000000009010
3 clk IT (3) 00001008 f9802020 O EL1h_n : PRFM PLDL1KEEP,[x1,#0x40]
4 clk IT (4) 0000100c f98003e0 O EL1h_n : PRFM PLDL1KEEP,[sp]
5 clk IT (5) 00001010 d50b7e21 O EL1h_n : DC CIVAC,x1
6 clk IT (6) 00001014 d34cfc21 O EL1h_n : LSR x1,x1,#12
6 clk R X1 0000000000000002
7 clk IT (7) 00001018 d5088321 O EL1h_n : TLBI VAE1IS,x1
8 clk IT (8) 0000101c d503201f O EL1h_n : NOP
";

#[test]
fn registers_of_a_log_give_the_addresses_of_operations() {
    let (records, _) = lower_log(OPERATIONS.as_bytes().to_vec());
    let expected = "el1h, 1000, 1004, 1008 2040+1, 100c 9010+1, 1010 2000+1, 1014, 1018 2000+1, 101c";
    assert_eq!(text_of(&records), expected);
}

/// Whether an opcode of the logs is a branch, and whether it is always taken.
fn branch(opcode: u32) -> Option<bool> {
    match opcode >> 24 {
        0x14..=0x17 | 0x94..=0x97 | 0xd6 => Some(true),
        0x34..=0x37 | 0x54 | 0xb4..=0xb7 => Some(false),
        _ => None,
    }
}

#[test]
fn logs_of_a_calculator_become_traces() {
    let Some(folder) = corpus("tarmac") else { return };
    type Row = (&'static str, fn(&str) -> Vec<Line>, u64);
    let rows: [Row; 2] = [("fastmodel", fast_model_lines, 0), ("es-ld-st-style", picture_lines, 1)];
    for (name, parse, lost_exceptions) in rows {
        let log = std::fs::read(folder.join(format!("calculator-aarch64-{name}.tarmac"))).unwrap();
        let mut expected = parse(str::from_utf8(&log).unwrap());
        expected.iter_mut().for_each(|line| line.bytes.sort_unstable());
        let (records, losses) = lower_log(log);
        assert_eq!(losses.of(Loss::Instructions).count + losses.of(Loss::Accesses).count, 0, "{name}: {losses}");
        assert_eq!(losses.of(Loss::Exceptions).count, lost_exceptions, "{name}: {losses}");
        let found = trace_lines(&records);
        assert!(found.len() > 4000 && found.len() == expected.len(), "{name}: {}", found.len());
        for (at, ((line, led), expected_line)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(line, expected_line, "{name}, instruction {at}");
            let Some(next) = expected.get(at + 1).map(|next| next.address) else { continue };
            let is_taken = |is_always| is_always || next != line.address + 4;
            let expected_led = branch(line.opcode).map(|is_always| is_taken(is_always).then_some(next));
            assert_eq!(*led, expected_led, "{name}, instruction {at}");
        }
    }
}
