//! Restyling of corpus logs: a round trip changes nothing, and two logs of one program in different styles are equal
//! after restyling.
//!
//! Needs the corpus: `UNSPOOL_CORPUS` names its folder.

use std::path::Path;

use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::read::lines;
use unspool_tarmac::record::{Byte, Direction, PictureKind, Record};
use unspool_tarmac::restyle::{Loss, Losses, Restyler, Style};
use unspool_testing::corpus;

use crate::fixtures;

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(format!("{name}.tarmac"))).unwrap()
}

fn restyle(log: &[u8], from: Dialect, to: Style) -> (Vec<u8>, Losses) {
    fixtures::restyle(Restyler::new(from, to), log)
}

/// Lines that differ after a round trip, each with the result.
fn differences(one: &[u8], other: &[u8]) -> Vec<(String, String)> {
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    let (one, other): (Vec<_>, Vec<_>) = (lines(one).collect(), lines(other).collect());
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(&other).filter(|(one, other)| one.1 != other.1);
    pairs.map(|(one, other)| (text(one.1), text(other.1))).collect()
}

#[test]
fn round_trips_change_nothing() {
    let Some(folder) = corpus("tarmac") else { return };
    // The number of a reset is 0 in some logs, and its address is followed by a physical one in others.
    let rows = [
        ("calculator-aarch64-fastmodel", "E 00000000:000000000000 00000000 CoreEvent_Reset"),
        ("quicksort", "E 00000000:000000000000 00000000 CoreEvent_Reset"),
        ("calltests/calltest32", ""),
        ("calltests/calltest64", "E 00000000 00000000 CoreEvent_Reset"),
        ("truncate/loop", ""),
        ("truncate/nontruncate", ""),
        ("truncate/crash64", ""),
    ];
    for (name, changed) in rows {
        let log = read(&folder, name);
        let (restyled, lost) = restyle(&log, Dialect::FastModels, Style::Rev3);
        let (back, lost_again) = restyle(&restyled, Dialect::Rev3, Style::FastModels);
        for (before, after) in differences(&log, &back) {
            assert!(!changed.is_empty() && before.ends_with(changed), "{name}: {before} became {after}");
        }
        assert_eq!(lost.is_empty(), changed.is_empty(), "{name}: {lost}");
        assert_eq!(lost.of(Loss::Unknown), 0, "{name}");
        assert!(lost_again.is_empty(), "{name}: {lost_again}");
    }
}

#[test]
fn losses_of_aarch32_are_counted() {
    let Some(folder) = corpus("tarmac") else { return };
    // The upper half of the SWI number is the number of the call, which the opcode contains too. The address of a fault
    // on M-profile that follows an exception is in no line.
    for (name, details) in [("truncate/crash32", 6), ("truncate/crash32m", 1)] {
        let log = read(&folder, name);
        let (restyled, lost) = restyle(&log, Dialect::FastModels, Style::Rev3);
        let (back, _) = restyle(&restyled, Dialect::Rev3, Style::FastModels);
        let differences = differences(&log, &back);
        assert!(differences.iter().all(|(before, _)| before.contains(" E ")), "{name}: {differences:#?}");
        assert_eq!(lost.of(Loss::EventDetail), details, "{name}: {lost} {differences:#?}");
    }
}

/// An instruction and its effects, as both styles have them.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    address: u64,
    opcode: Option<u32>,
    is_executed: bool,
    text: String,
    effects: Vec<String>,
}

/// Steps of a log, from its first instruction on.
fn steps(log: &[u8]) -> Vec<Step> {
    let mut parser = Parser::new(ParseOptions::default());
    let mut steps: Vec<Step> = Vec::new();
    for (_, raw) in lines(log) {
        let record = parser.parse(raw).record;
        if let Record::Instruction(instruction) = &record {
            steps.push(Step {
                address: instruction.address.unwrap(),
                opcode: instruction.opcode,
                is_executed: instruction.is_executed,
                text: String::from_utf8_lossy(instruction.text).into_owned(),
                effects: Vec::new(),
            });
        } else if let Some(step) = steps.last_mut() {
            step.effects.extend(effects(&record));
        }
    }
    // Producers print the registers of one instruction in different orders.
    steps.iter_mut().for_each(|step| step.effects.sort());
    steps
}

fn effects(record: &Record<'_>) -> Vec<String> {
    match record {
        Record::Register(register) => {
            let name = String::from_utf8_lossy(register.name).to_lowercase();
            vec![format!("{name} = {:x}", register.value.number().unwrap())]
        }
        Record::Branch(branch) => vec![format!("to {:x}", branch.target)],
        Record::Picture(picture) => {
            let verb = if picture.kind == PictureKind::Load { "reads" } else { "writes" };
            let byte = |(at, byte): (usize, &Byte)| match byte {
                Byte::Known(byte) => Some(format!("{verb} {:x}: {byte:02x}", picture.address + at as u64)),
                _ => None,
            };
            picture.bytes.iter().enumerate().filter_map(byte).collect()
        }
        Record::Access(access) => {
            let verb = if access.direction == Direction::Read { "reads" } else { "writes" };
            let data = access.data.unwrap().number().unwrap();
            vec![format!("{verb} {} at {:x}: {data:x}", access.size, access.address.unwrap())]
        }
        _ => Vec::new(),
    }
}

#[test]
fn two_producers_agree_on_one_program() {
    let Some(folder) = corpus("tarmac") else { return };
    let fast_models = read(&folder, "calculator-aarch64-fastmodel");
    let rev3 = read(&folder, "calculator-aarch64-es-ld-st-style");
    let rows = [
        (&fast_models, Dialect::FastModels, Style::Rev3, &rev3),
        (&rev3, Dialect::Rev3, Style::FastModels, &fast_models),
    ];
    for (log, from, to, other) in rows {
        let (found, expected) = (steps(&restyle(log, from, to).0), steps(other));
        assert_eq!(found.len(), expected.len());
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "instruction {} into {}", index + 1, to.name());
        }
    }
}

#[test]
fn losses_of_rev3_are_counted() {
    let Some(folder) = corpus("tarmac") else { return };
    for name in ["calculator-aarch64-es-ld-st-style", "calculator-aarch32-es-ld-st-style"] {
        let (_, losses) = restyle(&read(&folder, name), Dialect::Rev3, Style::FastModels);
        let found: Vec<Loss> = losses.iter().map(|(loss, _)| loss).collect();
        assert_eq!(found, [Loss::Attributes], "{name}: {losses}");
    }
}
