//! Encoded captures, decoded by the reference decoder and by ours with the same result: ranges of instructions, Q
//! elements, times, cycles, contexts with their identifiers, events, exceptions.

use std::path::Path;

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::model::{Event, Isa, Step};
use unspool_testing::{reference_listing, tool};

use super::decoded::{Decoded, decode_capture};
use super::program::Program;
use super::q::with_q;
use super::{BASE, combinations, encoded, settings};
use crate::fixtures::assert_same;

/// Output of the reference for a capture.
pub(super) fn theirs(directory: &Path) -> Vec<Decoded> {
    let text = reference_listing(directory, &["-decode"]).unwrap();
    let mut all = vec![];
    for line in text.lines() {
        assert!(!line.contains("ERROR") && !line.contains("NO_SYNC [bad"), "{line}");
        if let Some((_, element)) = line.split_once("OCSD_GEN_TRC_ELEM_") {
            all.extend(element_of(element));
        }
    }
    tidy(all)
}

/// Number after a mark, in hexadecimal digits or, without 0x, in decimal ones.
fn number(text: &str, mark: &str) -> Option<u64> {
    let (_, rest) = text.split_once(mark)?;
    match rest.strip_prefix("0x") {
        Some(rest) => u64::from_str_radix(rest.split(|c: char| !c.is_ascii_hexdigit()).next()?, 16).ok(),
        None => rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok(),
    }
}

/// Items of a line of the reference: at most two.
fn element_of(text: &str) -> impl Iterator<Item = Decoded> {
    let (kind, _) = text.split_once('(').unwrap();
    let small = |mark| number(text, mark).map(|number| number as u32);
    let cycles = small("[CC=").map(Decoded::Cycles);
    let items = match kind {
        "INSTR_RANGE" => [Some(Decoded::Range(number(text, "range=").unwrap(), number(text, ":[").unwrap())), None],
        "I_RANGE_NOPATH" => {
            let (start, next) = (number(text, "first "), number(text, "[next "));
            [Some(Decoded::Q { start, next, count: small("num_i(") }), None]
        }
        "TIMESTAMP" => [number(text, "TS=").map(Decoded::Time), cycles],
        "CYCLE_COUNT" => [cycles, None],
        "EVENT" => [small("Numbered:").map(|events| Decoded::Event(events as u8)), None],
        "PE_CONTEXT" => {
            // Trace of Armv7 has no Exception level.
            let level = number(text, " EL").map(|level| level as u8);
            let is_secure = level.is_some_and(|level| text.contains(&format!("EL{level}S")));
            [level.map(|level| Decoded::Context(level, is_secure, small("VMID="), small("CTXTID="))), None]
        }
        "EXCEPTION" => {
            let number_of = number(text, "excep num (").unwrap() as u16;
            [Some(Decoded::Exception(number_of, number(text, "ret addr:"))), None]
        }
        "TRACE_ON" => [Some(Decoded::On), None],
        _ => [None, None],
    };
    items.into_iter().flatten()
}

/// Joins consecutive instructions into ranges, and drops contexts that do not change.
fn tidy(all: Vec<Decoded>) -> Vec<Decoded> {
    let (mut tidy, mut context) = (vec![], None);
    for decoded in all {
        let decoded = match decoded {
            Decoded::Instruction(address, length) => Decoded::Range(address, address + u64::from(length)),
            decoded => decoded,
        };
        match (decoded, tidy.last_mut()) {
            (Decoded::Range(start, end), Some(Decoded::Range(_, last))) if *last == start => *last = end,
            (Decoded::Context(..), _) if context == Some(decoded) => {}
            (Decoded::Context(..), _) => {
                context = Some(decoded);
                tidy.push(decoded);
            }
            (decoded, _) => tidy.push(decoded),
        }
    }
    tidy
}

/// Replaces a Q element by as many consecutive instructions. The reference does so for some, if they can end at the
/// same address, although they contain conditional branches. We do not; this compares start and count.
fn as_range(decoded: Decoded, program: &Program) -> Decoded {
    match decoded {
        Decoded::Q { start: Some(start), count: Some(count), .. } => {
            program.end_of(start, count as usize).map_or(decoded, |end| Decoded::Range(start, end))
        }
        decoded => decoded,
    }
}

/// Drops the items after the last instructions: the reference does not list them if they are speculative or in a Q
/// element that no address follows.
fn without_end(mut all: Vec<Decoded>) -> Vec<Decoded> {
    while !matches!(all.last(), Some(Decoded::Instruction(..) | Decoded::Range(..) | Decoded::Exception(..)) | None) {
        all.pop();
    }
    all
}

/// Encodes steps, compares the output of both decoders, and returns it.
pub(super) fn judge(
    name: &str,
    program: &Program,
    steps: &[Step],
    settings: &Settings,
    formatted: bool,
) -> Vec<Decoded> {
    let folder = encoded(steps, settings, formatted);
    let same =
        |all: Vec<Decoded>| tidy(without_end(all).into_iter().map(|decoded| as_range(decoded, program)).collect());
    let (theirs, ours) = (same(theirs(folder.path())), same(decode_capture(folder.path())));
    assert_same(name, &ours, &theirs);
    ours
}

pub(super) fn ranges(all: &[Decoded]) -> Vec<Decoded> {
    tidy(all.iter().copied().filter(|decoded| matches!(decoded, Decoded::Range(..))).collect())
}

/// Executed ranges, from the steps themselves.
pub(super) fn executed(steps: &[Step]) -> Vec<Decoded> {
    let instructions = steps.iter().filter_map(|step| step.event.instruction());
    tidy(instructions.map(|instruction| Decoded::Instruction(instruction.address, instruction.length)).collect())
}

/// Events 0 and 2 at the start of two functions, event 3 in a context.
fn add_events(settings: &mut Settings, program: &Program) {
    let registers = [
        ("TRCEVENTCTL0R", 0x0403_0002),
        ("TRCEVENTCTL1R", 0xd),
        ("TRCRSCTLR2", 0x4_0001),
        ("TRCRSCTLR3", 0x4_0003),
        ("TRCRSCTLR4", 0x6_0001),
        ("TRCACVR0", program.span(1).0),
        ("TRCACVR1", program.span(5).0),
        ("TRCCIDCVR0", 2),
    ];
    registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
}

/// Expected counts of the events of `add_events`.
fn events_of(steps: &[Step], program: &Program) -> [usize; 4] {
    let (mut process, mut before, mut counts) = (0, [false; 4], [0; 4]);
    for step in steps {
        match &step.event {
            Event::Context(context) => process = context.process.unwrap(),
            Event::Instruction(instruction) => {
                let is_first = instruction.address == program.span(1).0;
                let now = [is_first, false, is_first || instruction.address == program.span(5).0, process == 2];
                (0..4).for_each(|event| counts[event] += usize::from(now[event] && !before[event]));
                before = now;
            }
            _ => {}
        }
    }
    counts
}

fn count_events(all: &[Decoded]) -> [usize; 4] {
    let mut counts = [0; 4];
    for decoded in all {
        if let Decoded::Event(mask) = decoded {
            (0..4).for_each(|event| counts[event] += usize::from(mask >> event & 1 == 1));
        }
    }
    counts
}

#[test]
fn reference_decodes_the_same() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let mut captures = 0;
    for (isa, protocol, options) in combinations() {
        let program = Program::new(isa, BASE, options);
        let steps = program.run(600, options);
        let name = format!("{isa:?} {protocol:?} {options:#x}");
        let mut settings = settings(protocol, options, &program);
        let has_events = options % 3 == 0;
        if has_events {
            add_events(&mut settings, &program);
        }
        let decoded = judge(&name, &program, &steps, &settings, options & 1 == 0);
        assert_eq!(ranges(&decoded), executed(&steps), "{name}");
        if has_events {
            assert_eq!(count_events(&decoded), events_of(&steps, &program), "{name}");
        }
        captures += 1;
    }
    println!("{captures} captures are decoded alike");
}

/// Counts add up to the instructions before them, if each takes a cycle; timestamps are times of the steps.
#[test]
fn times_and_cycles_are_those_of_the_steps() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    for (protocol, isa, seed) in
        [(Protocol::Ete, Isa::A64, 1), (Protocol::Etm4, Isa::A64, 2), (Protocol::Etm4, Isa::T32, 3)]
    {
        let program = Program::new(isa, BASE, seed);
        let steps = program.run(2000, seed);
        let times: Vec<u64> = steps.iter().filter_map(|step| step.time).collect();
        let mut settings = Settings::new(protocol);
        settings.set("TRCCONFIGR", 0x8c1);
        settings.set("TRCTSCTLR", 1);
        let decoded = judge("times", &program, &steps, &settings, false);
        let time = |item: &Decoded| if let Decoded::Time(time) = item { Some(*time) } else { None };
        let found: Vec<u64> = decoded.iter().filter_map(time).collect();
        assert!(
            found.len() > 100 && found.is_sorted() && found.iter().all(|time| times.contains(time)),
            "{protocol:?}"
        );

        settings.set("TRCCONFIGR", 0x11);
        let folder = encoded(&steps, &settings, false);
        let (mut instructions, mut cycles, mut counts) = (0, 0, 0);
        judge("cycles", &program, &steps, &settings, false);
        for decoded in decode_capture(folder.path()) {
            match decoded {
                Decoded::Instruction(..) => instructions += 1,
                Decoded::Cycles(count) => {
                    (cycles, counts) = (cycles + count, counts + 1);
                    assert_eq!(cycles, instructions, "{protocol:?}, count {counts}");
                }
                _ => {}
            }
        }
        assert!(counts > 100);
    }
}

#[test]
fn reference_decodes_q_elements() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let mut captures = 0;
    for (isa, protocol, options) in combinations().filter(|(_, _, options)| options % 3 == 0) {
        // Of Q elements that are committed together the reference lists the first.
        let options = options & !(1 << 6);
        let program = Program::new(isa, BASE, options);
        let steps = program.run(600, options);
        let settings = with_q(protocol, options, &program, false);
        let decoded = judge(&format!("{isa:?} {protocol:?} {options:#x}"), &program, &steps, &settings, false);
        assert!(decoded.len() > 10);
        captures += 1;
    }
    println!("{captures} captures with Q elements are decoded alike");
}
