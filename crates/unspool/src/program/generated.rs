//! Code that programs generate while they run: the jitdumps that a recording names, and those of the user.
//!
//! mappings of `jit-PID.dump`, files ─▶ **generated** ─▶ patches with names, on the clock of the events
//!
//! A program with a jitdump maps the file, so that its name is in the recording. Its times are those of CLOCK_MONOTONIC or
//! of a counter; where the events have another clock, only code that nothing replaced is used, for all times.

use std::collections::BTreeSet;

use unspool_capture::{Call, Capture, Clock, EventClock, ImageLoader, Jitdump, Note, Pid, SystemEvent};

/// Maximum number of jitdumps that a recording names.
const LIMIT: usize = 1 << 10;

/// Events about generated code, those without a time first.
#[derive(Debug, Default)]
pub(crate) struct Generated {
    /// For all times.
    pub(super) always: Vec<SystemEvent>,
    /// At their times.
    pub(super) timed: Vec<SystemEvent>,
    pub(crate) notes: Vec<Note>,
}

impl Generated {
    /// The code of the jitdumps that the events name, and of those that the user added.
    pub(super) fn new(capture: &Capture, given: &[Jitdump], loader: &mut ImageLoader) -> Self {
        let mut generated = Self::default();
        for (pid, path) in named(&capture.events) {
            generated.find(pid, &path, capture.clock, loader);
        }
        generated.add_given(given, capture.clock);
        generated
    }

    /// The code of the jitdumps that the user added.
    pub(crate) fn given(given: &[Jitdump], clock: Clock) -> Self {
        let mut generated = Self::default();
        generated.add_given(given, clock);
        generated
    }

    fn add_given(&mut self, given: &[Jitdump], clock: Clock) {
        given.iter().for_each(|dump| self.add(dump, dump.pid, "jitdump", clock));
    }

    /// All events: those for all times first. Anonymous memory, in which the code without times is, would cover it.
    pub(crate) fn with<'a>(self, events: impl Iterator<Item = &'a SystemEvent>) -> Vec<SystemEvent> {
        let pids: BTreeSet<Pid> = self.always.iter().filter_map(|event| patched(&event.call)).collect();
        let is_covering = |event: &&SystemEvent| match &event.call {
            Call::Library { pid, mapping, .. } => pids.contains(pid) && is_anonymous(&mapping.image),
            _ => false,
        };
        let others = events.filter(|event| !is_covering(event)).cloned();
        self.always.iter().cloned().chain(others).chain(self.timed).collect()
    }

    fn find(&mut self, pid: Pid, path: &str, clock: Clock, loader: &mut ImageLoader) {
        let Some(file) = loader.find_file(path) else {
            return self.notes.push(Note::missing(path, "not found: the code that it has is not known"));
        };
        match Jitdump::parse(file.name(), file.bytes()) {
            Ok(mut dump) => {
                self.notes.append(&mut dump.notes);
                self.add(&dump, pid, path, clock);
            }
            Err(error) => self.notes.push(Note::missing(path, &error.to_string())),
        }
    }

    /// Adds the code of a jitdump. The program may have another number in its own namespace, which is that in the file.
    fn add(&mut self, dump: &Jitdump, pid: Pid, file: &str, clock: Clock) {
        let events = dump.events.iter().cloned().map(|mut event| {
            if let Call::Patch { pid: of_event, .. } = &mut event.call
                && *of_event == dump.pid
            {
                *of_event = pid;
            }
            event
        });
        let time = |time: u64| match dump.has_counter_times {
            true => clock.event_time(time),
            false => (clock.events == EventClock::Monotonic).then_some(time),
        };
        let (timed, mut others): (Vec<SystemEvent>, Vec<SystemEvent>) = events
            .map(|event| SystemEvent { time: event.time.and_then(time), ..event })
            .partition(|event| event.time.is_some());
        self.timed.extend(timed);
        if others.is_empty() {
            return;
        }
        let all = others.len();
        keep_lasting(&mut others);
        let replaced = all - others.len();
        let text = format!(
            "its clock is not that of the events, so its code is used for all times, without {replaced} functions that \
             others replace (with perf record -k CLOCK_MONOTONIC, the times are known)"
        );
        self.notes.push(Note::assumed(file, &text));
        self.always.extend(others);
    }
}

/// The processes and paths of the jitdumps that mappings name, once each.
fn named(events: &[SystemEvent]) -> BTreeSet<(Pid, String)> {
    let mut found = BTreeSet::new();
    for event in events {
        if let Call::Library { pid, mapping, .. } = &event.call
            && is_jitdump(&mapping.image)
            && found.len() < LIMIT
        {
            found.insert((*pid, mapping.image.clone()));
        }
    }
    found
}

/// The process of a patch.
fn patched(call: &Call) -> Option<Pid> {
    match call {
        Call::Patch { pid, .. } => Some(*pid),
        _ => None,
    }
}

/// Is this memory without a file, as JIT compilers use it?
fn is_anonymous(image: &str) -> bool {
    ["//anon", "[anon", "/memfd:", "/dev/zero"].iter().any(|start| image.starts_with(start))
}

/// Is this the path of a file `jit-PID.dump`?
fn is_jitdump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let number = name.strip_prefix("jit-").and_then(|name| name.strip_suffix(".dump"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Removes patches that overlap another one of the same process with other code.
fn keep_lasting(events: &mut Vec<SystemEvent>) {
    let mut ranges: Vec<(Pid, u64, u64, usize)> = (0..)
        .zip(events.iter())
        .filter_map(|(index, event)| match event.call {
            Call::Patch { pid, address, length, .. } => Some((pid, address, address.saturating_add(length), index)),
            _ => None,
        })
        .collect();
    ranges.sort_unstable();
    let mut is_replaced = vec![false; events.len()];
    let mut before: Option<(Pid, u64, usize)> = None;
    for (pid, first, end, index) in ranges {
        match before {
            Some((same, last, other)) if same == pid && first < last => {
                if events[index].call != events[other].call {
                    (is_replaced[index], is_replaced[other]) = (true, true);
                }
                before = Some((pid, last.max(end), if end > last { index } else { other }));
            }
            _ => before = Some((pid, end, index)),
        }
    }
    let mut replaced = is_replaced.into_iter();
    events.retain(|_| !replaced.next().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use unspool_capture::PatchCode;

    use super::*;

    #[test]
    fn names_of_jitdumps() {
        let rows = [
            ("/home/user/.debug/jit/x/jit-312.dump", true),
            ("jit-1.dump", true),
            ("/tmp/jit-.dump", false),
            ("/tmp/jit-1a.dump", false),
            ("/tmp/jit-1.dump.old", false),
            ("/tmp/perf-1.map", false),
        ];
        for (path, expected) in rows {
            assert_eq!(is_jitdump(path), expected, "{path}");
        }
    }

    #[test]
    fn code_that_lasts() {
        let patch = |pid: Pid, address, code: &[u8]| SystemEvent {
            time: None,
            place: 0,
            call: Call::Patch {
                pid,
                address,
                length: code.len() as u64,
                code: PatchCode::Bytes(code.to_vec()),
                name: String::new(),
            },
        };
        // The first of three overlaps both others; the same code twice is not a replacement.
        let mut events = vec![
            patch(1, 0x1000, &[1; 32]),
            patch(1, 0x1004, &[2; 4]),
            patch(1, 0x1010, &[3; 4]),
            patch(1, 0x1020, &[4; 4]),
            patch(2, 0x1020, &[5; 4]),
            patch(1, 0x2000, &[6; 4]),
            patch(1, 0x2000, &[6; 4]),
            patch(1, 0x3000, &[7; 4]),
            patch(1, 0x3000, &[8; 4]),
        ];
        keep_lasting(&mut events);
        let left: Vec<u64> = events
            .iter()
            .map(|event| match event.call {
                Call::Patch { address, .. } => address,
                _ => 0,
            })
            .collect();
        assert_eq!(left, [0x1020, 0x1020, 0x2000, 0x2000]);
    }
}
