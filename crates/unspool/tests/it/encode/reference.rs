//! The independent judge: the reference decoder's packet lister reads what we made, and says the same as our decoder:
//! ranges of instructions, Q elements, times, cycles, contexts with their identifiers, events, exceptions.

use std::path::Path;

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::model::{Event, Isa, Step};
use unspool_testing::{reference_listing, tool};

use super::heard::{Heard, listen};
use super::program::Program;
use super::q::with_q;
use super::{BASE, encode, settings};

/// What the reference says of a capture.
fn theirs(directory: &Path) -> Vec<Heard> {
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

/// The number behind a mark, in hexadecimal digits or, without 0x, in decimal ones.
fn number(text: &str, mark: &str) -> Option<u64> {
    let (_, rest) = text.split_once(mark)?;
    match rest.strip_prefix("0x") {
        Some(rest) => u64::from_str_radix(rest.split(|c: char| !c.is_ascii_hexdigit()).next()?, 16).ok(),
        None => rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok(),
    }
}

/// What a line of the reference says: at most two things.
fn element_of(text: &str) -> impl Iterator<Item = Heard> {
    let (kind, _) = text.split_once('(').unwrap();
    let small = |mark| number(text, mark).map(|number| number as u32);
    let cycles = small("[CC=").map(Heard::Cycles);
    let said = match kind {
        "INSTR_RANGE" => [Some(Heard::Range(number(text, "range=").unwrap(), number(text, ":[").unwrap())), None],
        "I_RANGE_NOPATH" => {
            let (start, next) = (number(text, "first "), number(text, "[next "));
            [Some(Heard::Q { start, next, count: small("num_i(") }), None]
        }
        "TIMESTAMP" => [number(text, "TS=").map(Heard::Time), cycles],
        "CYCLE_COUNT" => [cycles, None],
        "EVENT" => [small("Numbered:").map(|events| Heard::Event(events as u8)), None],
        "PE_CONTEXT" => {
            let level = number(text, " EL").unwrap() as u8;
            let is_secure = text.contains(&format!("EL{level}S"));
            [Some(Heard::Context(level, is_secure, small("VMID="), small("CTXTID="))), None]
        }
        "EXCEPTION" => {
            let number_of = number(text, "excep num (").unwrap() as u16;
            [Some(Heard::Exception(number_of, number(text, "ret addr:"))), None]
        }
        "TRACE_ON" => [Some(Heard::On), None],
        _ => [None, None],
    };
    said.into_iter().flatten()
}

/// Instructions that follow one another are one range, and contexts are told where they change.
fn tidy(all: Vec<Heard>) -> Vec<Heard> {
    let (mut tidy, mut context) = (vec![], None);
    for heard in all {
        let heard = match heard {
            Heard::Instruction(address, length) => Heard::Range(address, address + u64::from(length)),
            heard => heard,
        };
        match (heard, tidy.last_mut()) {
            (Heard::Range(start, end), Some(Heard::Range(_, last))) if *last == start => *last = end,
            (Heard::Context(..), _) if context == Some(heard) => {}
            (Heard::Context(..), _) => {
                context = Some(heard);
                tidy.push(heard);
            }
            (heard, _) => tidy.push(heard),
        }
    }
    tidy
}

/// The reference takes some Q elements for a row of instructions if that can lead to the same place, though conditional
/// branches are in it. We do not. To compare start and count, all are as many instructions in a row.
fn in_a_row(heard: Heard, program: &Program) -> Heard {
    match heard {
        Heard::Q { start: Some(start), count: Some(count), .. } => {
            program.behind(start, count as usize).map_or(heard, |end| Heard::Range(start, end))
        }
        heard => heard,
    }
}

/// The reference does not tell what stands behind the last instructions if that is speculative or in a Q element that no
/// address follows.
fn without_end(mut all: Vec<Heard>) -> Vec<Heard> {
    while !matches!(all.last(), Some(Heard::Instruction(..) | Heard::Range(..) | Heard::Exception(..)) | None) {
        all.pop();
    }
    all
}

/// Encodes, and compares what both decoders say. Gives it back.
fn judge(name: &str, program: &Program, steps: &[Step], settings: &Settings, formatted: bool) -> Vec<Heard> {
    let folder = tempfile::tempdir().unwrap();
    encode(steps, folder.path(), settings, formatted);
    let same = |all: Vec<Heard>| tidy(without_end(all).into_iter().map(|heard| in_a_row(heard, program)).collect());
    let (theirs, ours) = (same(theirs(folder.path())), same(listen(folder.path())));
    if theirs != ours {
        let at = theirs.iter().zip(&ours).take_while(|(theirs, ours)| theirs == ours).count();
        let around =
            |all: &[Heard]| format!("{:x?}", &all[at.saturating_sub(2).min(all.len())..(at + 3).min(all.len())]);
        let kept = folder.keep();
        panic!("{name}, {at}:\n  theirs {}\n  ours   {}\n{}", around(&theirs), around(&ours), kept.display());
    }
    ours
}

fn ranges(all: &[Heard]) -> Vec<Heard> {
    tidy(all.iter().copied().filter(|heard| matches!(heard, Heard::Range(..))).collect())
}

/// What was executed, from the steps themselves.
fn executed(steps: &[Step]) -> Vec<Heard> {
    let instructions = steps.iter().filter_map(|step| step.event.instruction());
    tidy(instructions.map(|instruction| Heard::Instruction(instruction.address, instruction.length)).collect())
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

/// How often the events of `add_events` have to happen, each by itself.
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

fn count_events(all: &[Heard]) -> [usize; 4] {
    let mut counts = [0; 4];
    for heard in all {
        if let Heard::Event(mask) = heard {
            (0..4).for_each(|event| counts[event] += usize::from(mask >> event & 1 == 1));
        }
    }
    counts
}

#[test]
fn the_reference_says_the_same() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let mut captures = 0;
    for isa in [Isa::A64, Isa::A32, Isa::T32] {
        for protocol in [Protocol::Ete, Protocol::Etm4] {
            for options in (0..256).filter(|options| protocol == Protocol::Ete || options >> 7 == 0) {
                let program = Program::new(isa, BASE, options);
                let steps = program.run(600, options);
                let name = format!("{isa:?} {protocol:?} {options:#x}");
                let mut settings = settings(protocol, options, &program);
                let has_events = options % 3 == 0;
                if has_events {
                    add_events(&mut settings, &program);
                }
                let said = judge(&name, &program, &steps, &settings, options & 1 == 0);
                assert_eq!(ranges(&said), executed(&steps), "{name}");
                if has_events {
                    assert_eq!(count_events(&said), events_of(&steps, &program), "{name}");
                }
                captures += 1;
            }
        }
    }
    println!("{captures} captures are read alike");
}

/// Counts add up to the instructions before them, if each takes a cycle; timestamps are times of the steps.
#[test]
fn values_are_those_of_the_steps() {
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
        let said = judge("times", &program, &steps, &settings, false);
        let told: Vec<u64> =
            said.iter().filter_map(|heard| if let Heard::Time(time) = heard { Some(*time) } else { None }).collect();
        assert!(told.len() > 100 && told.is_sorted() && told.iter().all(|time| times.contains(time)), "{protocol:?}");

        settings.set("TRCCONFIGR", 0x11);
        let folder = tempfile::tempdir().unwrap();
        encode(&steps, folder.path(), &settings, false);
        let (mut instructions, mut cycles, mut counts) = (0, 0, 0);
        judge("cycles", &program, &steps, &settings, false);
        for heard in listen(folder.path()) {
            match heard {
                Heard::Instruction(..) => instructions += 1,
                Heard::Cycles(count) => {
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
fn the_reference_reads_q_elements() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let mut captures = 0;
    for isa in [Isa::A64, Isa::A32, Isa::T32] {
        for protocol in [Protocol::Ete, Protocol::Etm4] {
            for options in (0..256).step_by(3).filter(|options| protocol == Protocol::Ete || options >> 7 == 0) {
                // Of Q elements that become certain together the reference tells the first.
                let options = options & !(1 << 6);
                let program = Program::new(isa, BASE, options);
                let steps = program.run(600, options);
                let settings = with_q(protocol, options, &program, false);
                let said = judge(&format!("{isa:?} {protocol:?} {options:#x}"), &program, &steps, &settings, false);
                assert!(said.len() > 10);
                captures += 1;
            }
        }
    }
    println!("{captures} captures with Q elements are read alike");
}
