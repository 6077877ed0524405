//! Q elements: their instructions are counted and not traced, and everything else is as without them.

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::model::{Event, Isa, Step};

use super::decoded::{Decoded, decode_capture};
use super::program::Program;
use super::{BASE, combinations, encoded, settings};

/// Settings of these options, with Q elements that have a count, or some that have none.
pub(super) fn with_q(protocol: Protocol, options: u64, program: &Program, some_uncounted: bool) -> Settings {
    // Branch broadcast and Q elements exclude each other.
    let mut settings = settings(protocol, options & !(1 << 3), program);
    let (enabled, supported) = if some_uncounted { (3, 3) } else { (1, 1) };
    settings.set("TRCCONFIGR", settings.get("TRCCONFIGR").unwrap() | enabled << 13);
    settings.set("TRCIDR0", settings.get("TRCIDR0").unwrap() | supported << 15);
    settings.q_seed = Some(options);
    settings
}

fn addresses(steps: &[Step]) -> Vec<u64> {
    steps.iter().filter_map(|step| step.event.instruction()).map(|instruction| instruction.address).collect()
}

#[test]
fn instructions_of_q_elements_are_counted() {
    let (mut traced, mut counted, mut elements) = (0, 0, 0);
    for (isa, protocol, options) in combinations() {
        let name = format!("{isa:?} {protocol:?} {options:#x}");
        let program = Program::new(isa, BASE, options);
        let steps = program.run(1500, options);
        let folder = encoded(&steps, &with_q(protocol, options, &program, false), false);
        let all = addresses(&steps);
        let (mut at, mut exceptions) = (0, 0);
        let decoded = decode_capture(folder.path());
        for (position, &item) in decoded.iter().enumerate() {
            match item {
                Decoded::Instruction(address, _) => {
                    assert_eq!(Some(&address), all.get(at), "{name}: instruction {at}");
                    (at, traced) = (at + 1, traced + 1);
                }
                Decoded::Q { start, next, count } => {
                    assert_eq!(start.as_ref(), all.get(at), "{name}: start of a Q element at {at}");
                    at += count.unwrap() as usize;
                    // No instruction of it may have been executed before an exception.
                    let is_interrupted =
                        matches!(decoded.get(position + 1), Some(Decoded::Exception(_, to)) if *to == next);
                    let continues = next.is_none() || next.as_ref() == all.get(at);
                    assert!(continues || is_interrupted, "{name}: {next:x?} after {at}");
                    (counted, elements) = (counted + u64::from(count.unwrap()), elements + 1);
                }
                // The last is the halt at the end.
                Decoded::Exception(number, _) => exceptions += usize::from(number != 1),
                Decoded::Problem => panic!("{name}: a problem after {at} instructions"),
                _ => {}
            }
        }
        assert_eq!(at, all.len(), "{name}");
        let expected = steps.iter().filter(|step| matches!(step.event, Event::Exception(_))).count();
        assert_eq!(exceptions, expected, "{name}");
    }
    assert!(traced > 500_000 && counted > 300_000 && elements > 20_000, "{traced} {counted} {elements}");
}

/// After a Q element without a count, the decoder resumes at the next address.
#[test]
fn uncounted_instructions_are_left_out() {
    for (isa, protocol, options) in combinations().filter(|(isa, _, options)| *isa != Isa::A32 && *options < 32) {
        let program = Program::new(isa, BASE, options);
        let steps = program.run(1500, options);
        let folder = encoded(&steps, &with_q(protocol, options, &program, true), false);
        let all = addresses(&steps);
        let (mut rest, mut traced, mut uncounted) = (all.iter(), 0, 0);
        for item in decode_capture(folder.path()) {
            match item {
                Decoded::Instruction(address, _) => {
                    traced += 1;
                    assert!(rest.any(|found| *found == address), "{isa:?} {protocol:?} {options:#x}: {traced}");
                }
                Decoded::Q { count, .. } => uncounted += usize::from(count.is_none()),
                Decoded::Problem => panic!("{isa:?} {protocol:?} {options:#x}: after {traced}"),
                _ => {}
            }
        }
        assert!(uncounted > 0 && traced > 300, "{isa:?} {protocol:?} {options:#x}: {uncounted} {traced}");
    }
}
