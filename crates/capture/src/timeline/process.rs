//! One process while its events are applied: what is in its memory now, and what was there before.
//!
//! changes in order ─▶ **process** ─▶ rectangles of its [`Space`]
//!
//! Memory has two layers. Owners are the mappings that files have, as the operating system sees them; what is visible
//! are their bytes, or patches over them. When a file is unmapped, its patches go with it, but not another file that was
//! mapped over a part of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::piece::{KnownMapping, Parts};
use super::ranges::{Range, Ranges, size};
use super::space::{LAST_VERSION, Rectangle, Space, Version};

/// A piece at some addresses, since a version.
#[derive(Debug, Clone, Copy)]
struct Placed {
    piece: u32,
    from: Version,
}

/// Numbers of events between which a process exists: from the first, up to but not including the second.
pub(super) type Life = (u32, u32);

/// The end of a life whose end is not known.
pub(super) const NO_END: u32 = u32::MAX;

/// A process, as of the last event that was applied.
#[derive(Debug, Default)]
pub(super) struct Process {
    visible: Ranges<Placed>,
    /// Shared by parent and child until one of them changes.
    files: Arc<Files>,
    /// Addresses that mappings were added to or removed from since the last reset, each with the last such event.
    touched: Ranges<u32>,
    rectangles: Vec<Rectangle>,
    changes: Vec<u32>,
    pub(super) lives: Vec<Life>,
    /// The event that emptied the address space last; `None` if that was before the first event.
    pub(super) reset_by: Option<u32>,
}

impl Process {
    /// Whether any event named it.
    pub(super) fn is_known(&self) -> bool {
        !self.lives.is_empty()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.lives.last().is_some_and(|(_, until)| *until != NO_END)
    }

    /// The event that ended the process.
    pub(super) fn ended_by(&self) -> Option<u32> {
        self.lives.last().filter(|_| self.is_ended()).and_then(|(_, until)| until.checked_sub(1))
    }

    /// A life begins after a number of events.
    pub(super) fn begin(&mut self, position: u32) {
        self.end(position);
        self.lives.push((position, NO_END));
    }

    /// The life ends after a number of events. Memory is kept, because trace may follow.
    pub(super) fn end(&mut self, position: u32) {
        if let Some((_, until)) = self.lives.last_mut().filter(|(_, until)| *until == NO_END) {
            *until = position;
        }
    }

    /// An event empties the address space.
    pub(super) fn reset(&mut self, event: u32) {
        if self.visible.len() > 0 {
            self.assign((0, u64::MAX), None, event + 1);
        }
        self.files = Arc::default();
        self.touched.clear();
        self.reset_by = Some(event);
    }

    /// An event shows that an earlier one emptied the address space. Ends of mappings after that one may be of either
    /// process.
    pub(super) fn reset_since(&mut self, event: u32, earlier: u32) {
        let touched: Vec<(Range, u32)> = self.touched.iter().filter(|(_, by)| *by > earlier).collect();
        self.reset(event);
        touched.into_iter().for_each(|(range, by)| self.touched.replace(range, by, |_, _| {}));
        self.reset_by = Some(earlier);
    }

    /// The number of entries that a copy takes.
    pub(super) fn weight(&self) -> usize {
        self.visible.len() + self.files.owners.len()
    }

    /// Starts with the memory of another process.
    pub(super) fn copy_from(&mut self, other: &Copied, event: u32) {
        other.visible.iter().for_each(|(range, piece)| self.assign(*range, Some(*piece), event + 1));
        self.files = Arc::clone(&other.files);
    }

    /// What a new process gets.
    pub(super) fn copied(&self) -> Copied {
        let visible = self.visible.iter().map(|(range, placed)| (range, placed.piece)).collect();
        Copied { visible, files: Arc::clone(&self.files) }
    }

    /// Whether a mapping is there: at least one byte of it, or its name if its size is unknown.
    pub(super) fn has(&self, index: u32, mapping: &KnownMapping) -> bool {
        self.is_listed(index, mapping) && (self.files.owned.contains_key(&index) || mapping.parts.is_empty())
    }

    /// Whether a mapping is there, although others may cover all of it.
    pub(super) fn is_listed(&self, index: u32, mapping: &KnownMapping) -> bool {
        self.files.present.contains(&key(index, mapping))
    }

    /// Notes that a mapping is there, whatever parts of it are.
    pub(super) fn list(&mut self, index: u32, mapping: &KnownMapping) {
        if !self.is_listed(index, mapping) {
            Arc::make_mut(&mut self.files).present.insert(key(index, mapping));
        }
    }

    /// The mappings at an address by which events name them: whole files, and parts of files too if wanted.
    pub(super) fn at_base(&self, base: u64, with_parts: bool) -> impl Iterator<Item = u32> + '_ {
        self.files.present.range((base, false, 0)..=(base, with_parts, u32::MAX)).map(|(_, _, index)| *index)
    }

    /// Adds a mapping over all that is there.
    pub(super) fn map(&mut self, index: u32, mapping: &KnownMapping, position: u32) {
        self.add_parts(index, mapping, &mapping.parts, position);
        self.touch(mapping, position);
    }

    /// Adds parts of a mapping.
    pub(super) fn add_parts(&mut self, index: u32, mapping: &KnownMapping, parts: &[(u32, Range)], position: u32) {
        self.list(index, mapping);
        for &(piece, range) in parts {
            self.own(range, Some(index));
            self.assign(range, Some(piece), position);
        }
    }

    /// Adds parts of a mapping that were there before: in place of other mappings, and under patches that have none.
    pub(super) fn add_under(&mut self, index: u32, mapping: &KnownMapping, parts: &[(u32, Range)], position: u32) {
        for &(piece, range) in parts {
            let others = self.files.owners.inside(range).filter(|(_, owner)| *owner != index);
            let others: Parts = others.map(|(range, _)| (piece, range)).collect();
            for free in self.files.owners.gaps(range, |_| true) {
                let hidden = self.visible.gaps(free, |_| true);
                self.own(free, Some(index));
                hidden.into_iter().for_each(|range| self.assign(range, Some(piece), position));
            }
            self.add_parts(index, mapping, &others, position);
        }
    }

    /// Removes a mapping and the patches over it.
    pub(super) fn unmap(&mut self, index: u32, mapping: &KnownMapping, position: u32) {
        for (_, range) in &mapping.parts {
            let owned = self.files.owners.inside(*range).filter(|(_, owner)| *owner == index);
            let owned: Vec<Range> = owned.map(|(range, _)| range).collect();
            for range in owned {
                self.own(range, None);
                self.assign(range, None, position);
            }
        }
        Arc::make_mut(&mut self.files).present.remove(&key(index, mapping));
        self.touch(mapping, position);
    }

    pub(super) fn patch(&mut self, range: Range, piece: u32, position: u32) {
        self.assign(range, Some(piece), position);
    }

    /// The addresses of a mapping that are free, each with the event that made it so, and those that are not: other
    /// mappings are there.
    pub(super) fn free(&self, mapping: &KnownMapping) -> (Vec<(Option<u32>, Parts)>, Parts) {
        let (mut untouched, mut free, mut used) = (Vec::new(), Vec::new(), Vec::new());
        for &(piece, range) in &mapping.parts {
            untouched.extend(self.touched.gaps(range, |_| true).into_iter().map(|range| (piece, range)));
            for (range, event) in self.touched.inside(range) {
                let gaps = self.files.owners.gaps(range, |_| true).into_iter().map(|range| (piece, range));
                free.push((Some(event), gaps.collect()));
                used.extend(self.files.owners.inside(range).map(|(range, _)| (piece, range)));
            }
        }
        free.push((self.reset_by, untouched));
        (free, used)
    }

    /// A mapping was added or removed by the event before a position.
    pub(super) fn touch(&mut self, mapping: &KnownMapping, position: u32) {
        for (_, range) in &mapping.parts {
            self.touched.replace(*range, position.saturating_sub(1), |_, _| {});
        }
    }

    pub(super) fn finish(mut self) -> (Space, Vec<Life>) {
        for ((first, last), placed) in self.visible.iter() {
            let Placed { piece, from } = placed;
            self.rectangles.push(Rectangle { range: (first, last), from, until: LAST_VERSION, piece });
        }
        (Space::new(self.changes, self.rectangles), self.lives)
    }

    fn own(&mut self, range: Range, owner: Option<u32>) {
        Arc::make_mut(&mut self.files).own(range, owner);
    }

    /// Makes a piece visible in a range, in the version that an event creates.
    fn assign(&mut self, range: Range, piece: Option<u32>, position: u32) {
        let version = self.version(position);
        let rectangles = &mut self.rectangles;
        let close = |range: Range, Placed { piece, from }: Placed| {
            if from < version {
                rectangles.push(Rectangle { range, from, until: version, piece });
            }
        };
        match piece {
            Some(piece) => self.visible.replace(range, Placed { piece, from: version }, close),
            None => self.visible.remove(range, close),
        }
    }

    /// The version after a number of events, which is a new one if the last one is older.
    fn version(&mut self, position: u32) -> Version {
        if position > self.changes.last().copied().unwrap_or(0) {
            self.changes.push(position);
        }
        Version::try_from(self.changes.len()).unwrap_or(LAST_VERSION)
    }
}

/// The mappings of a process.
#[derive(Debug, Clone, Default)]
struct Files {
    owners: Ranges<u32>,
    /// The mappings that are there.
    present: BTreeSet<Key>,
    /// Number of bytes that each mapping owns.
    owned: HashMap<u32, u128>,
}

impl Files {
    /// Changes the owner of a range.
    fn own(&mut self, range: Range, owner: Option<u32>) {
        let owned = &mut self.owned;
        let disown = |range: Range, owner: u32| {
            let left = owned.get(&owner).copied().unwrap_or(0).saturating_sub(size(range));
            if left == 0 {
                owned.remove(&owner)
            } else {
                owned.insert(owner, left)
            };
        };
        match owner {
            Some(index) => {
                self.owners.replace(range, index, disown);
                *self.owned.entry(index).or_default() += size(range);
            }
            None => self.owners.remove(range, disown),
        }
    }
}

/// The memory of a process when it was copied.
#[derive(Debug)]
pub(super) struct Copied {
    visible: Vec<(Range, u32)>,
    files: Arc<Files>,
}

/// Address of a mapping, whether it is a part of a file, and its number.
type Key = (u64, bool, u32);

fn key(index: u32, mapping: &KnownMapping) -> Key {
    (mapping.base(), mapping.is_part(), index)
}
