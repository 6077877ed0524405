//! Q elements: what they stand for is counted and not told, and everything else is as it was.

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::model::{Event, Isa, Step};

use super::heard::{Heard, listen};
use super::program::Program;
use super::{BASE, encode, settings};

/// The settings of these options, with Q elements that have a count, or some that have none.
pub(super) fn with_q(protocol: Protocol, options: u64, program: &Program, are_silent: bool) -> Settings {
    // Branch broadcast leaves no room for Q elements.
    let mut settings = settings(protocol, options & !(1 << 3), program);
    let (asked, offered) = if are_silent { (3, 3) } else { (1, 1) };
    settings.set("TRCCONFIGR", settings.get("TRCCONFIGR").unwrap() | asked << 13);
    settings.set("TRCIDR0", settings.get("TRCIDR0").unwrap() | offered << 15);
    settings.q_seed = Some(options);
    settings
}

fn addresses(steps: &[Step]) -> Vec<u64> {
    steps.iter().filter_map(|step| step.event.instruction()).map(|instruction| instruction.address).collect()
}

#[test]
fn what_is_not_told_is_counted() {
    let (mut told, mut counted, mut stretches) = (0, 0, 0);
    for isa in [Isa::A64, Isa::A32, Isa::T32] {
        for protocol in [Protocol::Ete, Protocol::Etm4] {
            for options in (0..256).filter(|options| protocol == Protocol::Ete || options >> 7 == 0) {
                let name = format!("{isa:?} {protocol:?} {options:#x}");
                let program = Program::new(isa, BASE, options);
                let steps = program.run(1500, options);
                let folder = tempfile::tempdir().unwrap();
                encode(&steps, folder.path(), &with_q(protocol, options, &program, false), false);
                let all = addresses(&steps);
                let (mut at, mut exceptions) = (0, 0);
                let heard = listen(folder.path());
                for (position, &one) in heard.iter().enumerate() {
                    match one {
                        Heard::Instruction(address, _) => {
                            assert_eq!(Some(&address), all.get(at), "{name}: instruction {at}");
                            (at, told) = (at + 1, told + 1);
                        }
                        Heard::Q { start, next, count } => {
                            assert_eq!(start.as_ref(), all.get(at), "{name}: start of a stretch at {at}");
                            at += count.unwrap() as usize;
                            // Nothing of it may have been executed before an exception.
                            let is_interrupted =
                                matches!(heard.get(position + 1), Some(Heard::Exception(_, to)) if *to == next);
                            let goes_on = next.is_none() || next.as_ref() == all.get(at);
                            assert!(goes_on || is_interrupted, "{name}: {next:x?} behind {at}");
                            (counted, stretches) = (counted + u64::from(count.unwrap()), stretches + 1);
                        }
                        // The last is the halt at the end.
                        Heard::Exception(number, _) => exceptions += usize::from(number != 1),
                        Heard::Problem => panic!("{name}: a problem behind {at} instructions"),
                        _ => {}
                    }
                }
                assert_eq!(at, all.len(), "{name}");
                let expected = steps.iter().filter(|step| matches!(step.event, Event::Exception(_))).count();
                assert_eq!(exceptions, expected, "{name}");
            }
        }
    }
    assert!(told > 500_000 && counted > 300_000 && stretches > 20_000, "{told} {counted} {stretches}");
}

/// Without a count the decoder finds its way again at the next address.
#[test]
fn what_is_not_even_counted_is_left_out() {
    for isa in [Isa::A64, Isa::T32] {
        for protocol in [Protocol::Ete, Protocol::Etm4] {
            for options in 0..32 {
                let program = Program::new(isa, BASE, options);
                let steps = program.run(1500, options);
                let folder = tempfile::tempdir().unwrap();
                encode(&steps, folder.path(), &with_q(protocol, options, &program, true), false);
                let all = addresses(&steps);
                let (mut rest, mut told, mut silent) = (all.iter(), 0, 0);
                for heard in listen(folder.path()) {
                    match heard {
                        Heard::Instruction(address, _) => {
                            told += 1;
                            assert!(rest.any(|found| *found == address), "{isa:?} {protocol:?} {options:#x}: {told}");
                        }
                        Heard::Q { count, .. } => silent += usize::from(count.is_none()),
                        Heard::Problem => panic!("{isa:?} {protocol:?} {options:#x}: behind {told}"),
                        _ => {}
                    }
                }
                assert!(silent > 0 && told > 300, "{isa:?} {protocol:?} {options:#x}: {silent} {told}");
            }
        }
    }
}
