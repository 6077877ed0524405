//! Captures of real programs, decoded by the packet lister of the reference decoder, have the same ranges.

use std::ops::ControlFlow;
use std::path::Path;

use unspool::model::{Event, Step, StepSource};
use unspool::{OpenSteps, open_steps};
use unspool_testing::{reference_listing, tool};

use super::armv7::armv7_setups;
use super::loops::{Positions, Setup, Shown, round_trip, setups};
use super::recorded;
use crate::programs::Target;

#[test]
fn the_reference_finds_the_same_ranges() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let rows =
        [("sort", Target::A64, "out.astf"), ("json", Target::A64, "out.astf"), ("json", Target::T32, "out.tarmac")];
    for (name, target, out) in rows.into_iter().chain([("indirect", Target::A32, "out.tarmac")]) {
        let dir = tempfile::tempdir().unwrap();
        let Some(trace) = recorded(dir.path(), name, target, out) else { return };
        let traces = [trace.clone()];
        let (positions, ours) = (Positions::of(&traces).unwrap(), ours(&trace));
        let armv7 = if target == Target::A64 { Vec::new() } else { armv7_setups() };
        let setups: Vec<Setup> = setups(&positions).into_iter().chain(armv7).collect();
        for setup in setups.iter().filter(|setup| setup.shown == Shown::All) {
            let capture = tempfile::tempdir().unwrap();
            round_trip(&traces, setup, &positions, capture.path()).unwrap();
            let theirs = theirs(capture.path());
            // The rest after overflows was compared with the trace by `round_trip`.
            let is_cut = setup.settings.has_overflows();
            let ours = if is_cut { self::ours(capture.path()) } else { ours.clone() };
            let at = theirs.iter().zip(&ours).take_while(|(theirs, ours)| theirs == ours).count();
            let (differ, wanted) = (theirs.get(at), ours.get(at));
            assert!(theirs == ours, "{name} {target:?}, {}: range {at} is {differ:x?}, ours {wanted:x?}", setup.name);
        }
    }
}

/// Ranges of the reference, with adjacent ones joined.
fn theirs(directory: &Path) -> Vec<(u64, u64)> {
    let text = reference_listing(directory, &["-decode"]).unwrap();
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

fn ours(trace: &Path) -> Vec<(u64, u64)> {
    let mut joined = vec![];
    let mut steps = open_steps(trace, &OpenSteps::default()).unwrap();
    let push = &mut |step: &Step| {
        if let Event::Instruction(one) = &step.event {
            join(&mut joined, one.address, one.address + u64::from(one.length));
        }
        ControlFlow::Continue(())
    };
    steps.each(push).unwrap();
    joined
}

fn join(joined: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    match joined.last_mut() {
        Some(last) if last.1 == start => last.1 = end,
        _ => joined.push((start, end)),
    }
}
