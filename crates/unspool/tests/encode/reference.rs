//! The independent judge: the reference decoder's packet lister reads what we made, and finds the same ranges.

use std::fs;
use std::path::Path;
use std::process::Command;

use unspool::coresight::Protocol;
use unspool::model::{Event, Isa, Step};

use super::program::Program;
use super::{BASE, encode, settings};

/// Stretches of instructions that the reference found, those that follow one another joined.
fn theirs(directory: &Path) -> Vec<(u64, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.txt");
    let mut command = Command::new("trc_pkt_lister");
    command.current_dir(&folder).arg("-ss_dir").arg(directory).args(["-decode", "-logfilename"]).arg(&log);
    command.output().unwrap();
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    let mut joined = vec![];
    for line in text.lines() {
        assert!(!line.contains("ERROR") && !line.contains("NO_SYNC [bad"), "{line}");
        let Some((_, rest)) = line.split_once("exec range=0x") else { continue };
        let (start, rest) = rest.split_once(":[0x").unwrap();
        let (end, _) = rest.split_once(']').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        join(&mut joined, number(start), number(end));
    }
    joined
}

fn ours(steps: &[Step]) -> Vec<(u64, u64)> {
    let mut joined = vec![];
    for step in steps {
        if let Event::Instruction(instruction) = &step.event {
            join(&mut joined, instruction.address, instruction.address + u64::from(instruction.length));
        }
    }
    joined
}

fn join(joined: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    match joined.last_mut() {
        Some(last) if last.1 == start => last.1 = end,
        _ => joined.push((start, end)),
    }
}

#[test]
fn the_reference_finds_the_same_ranges() {
    if Command::new("trc_pkt_lister").current_dir(std::env::temp_dir()).arg("-help").output().is_err() {
        println!("SKIPPED: trc_pkt_lister is not installed (Debian: libopencsd-bin), so nobody judged our captures");
        return;
    }
    let mut captures = 0;
    for isa in [Isa::A64, Isa::A32, Isa::T32] {
        for protocol in [Protocol::Ete, Protocol::Etm4] {
            for options in (0..256).filter(|options| protocol == Protocol::Ete || options >> 7 == 0) {
                let program = Program::new(isa, BASE, options);
                let steps = program.run(600, options);
                let folder = tempfile::tempdir().unwrap();
                encode(&steps, folder.path(), &settings(protocol, options, &program), options & 1 == 0);
                let (theirs, ours) = (theirs(folder.path()), ours(&steps));
                if theirs != ours {
                    let pairs = theirs.iter().zip(&ours);
                    let at = pairs.take_while(|(theirs, ours)| theirs == ours).count();
                    let kept = folder.keep();
                    let (theirs, ours) = (theirs.get(at), ours.get(at));
                    panic!(
                        "{isa:?} {protocol:?} {options:#x} range {at}: {theirs:x?}, ours {ours:x?}; {}",
                        kept.display()
                    );
                }
                captures += 1;
            }
        }
    }
    println!("{captures} captures are read alike");
}
