//! Timelines of logs: single rules, and random histories against a model with one entry per address.
#![allow(clippy::unwrap_used)]

mod histories;
mod identities;
mod rules;
mod sizes;

use super::*;
use crate::log::SystemLog;

/// A timeline of a log in which every file that is mapped as a whole has 0x1000 bytes.
fn timeline(log: &str, direction: Direction) -> Timeline {
    let log = SystemLog::read(log.as_bytes());
    assert_eq!(log.problems, []);
    Timeline::new(log.events, direction, page)
}

fn page(mapping: &Mapping) -> Vec<Extent> {
    let crate::event::Placement::Base(address) = mapping.placement else { return Vec::new() };
    vec![Extent { address, length: 0x1000, offset: 0 }]
}

/// `app+0x10`, `patch 7+0x0` (the line), `-`, or both where it is doubtful.
fn text(timeline: &Timeline, contents: Contents<'_>) -> String {
    let name = |hit: Hit<'_>| match hit.piece {
        Piece::Image { mapping, .. } => format!("{}+{:#x}", timeline.mapping(*mapping).unwrap().image, hit.offset),
        Piece::Patch { event, .. } => format!("patch {}+{:#x}", timeline.events()[*event].place, hit.offset),
    };
    match contents {
        Contents::Absent { .. } => "-".to_string(),
        Contents::Certain(hit) => name(hit),
        Contents::Doubtful(one, other) => format!("{} or {}", name(one), name(other)),
    }
}

/// What is at an address after a number of events.
fn at(timeline: &Timeline, pid: Pid, position: usize, address: u64) -> String {
    text(timeline, timeline.lookup(pid, timeline.version_at(pid, position).into(), address))
}
