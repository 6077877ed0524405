//! The versions of one address space.
//!
//! what was where from version to version ─▶ **space** ─▶ what is at an address in a version
//!
//! ```text
//! address      A piece that was at some addresses in some versions is a rectangle, and no two of them overlap.
//!   ▲  ┌─────┬────────┐
//!   │  │ lib │ patch  │     The addresses at which any rectangle starts or ends divide memory into intervals, the
//!   │  └──┬──┴──┬─────┤     leaves of a binary tree. A rectangle is listed at the few nodes that together are its
//!   │     │ app │ app2│     addresses, and the rectangles of a node follow each other in version. To find a point,
//!   └─────┴─────┴─────▶     search the lists of the nodes from its leaf up to the root.
//!                version
//! ```
//!
//! A change costs memory for what it changes, not for the whole map: n changes take O(n log n), whatever they are.

use super::ranges::Range;

/// The number of a version of an address space. Version 0 is that before the first event.
pub type Version = u32;

/// The version after all others.
pub(super) const LAST_VERSION: Version = Version::MAX;

/// A piece at a range of addresses, in the versions from `from` up to but not including `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rectangle {
    pub(super) range: Range,
    pub(super) from: Version,
    pub(super) until: Version,
    pub(super) piece: u32,
}

/// The versions of an address space.
#[derive(Debug, Clone, Default)]
pub(super) struct Space {
    /// Number of events after which version n + 1 holds, ascending.
    changes: Vec<u32>,
    /// First addresses of the intervals, ascending. The first interval starts at 0.
    starts: Vec<u64>,
    rectangles: Vec<Rectangle>,
    /// Versions in which a piece is no longer where it was, ascending.
    ends: Vec<Version>,
    /// The rectangles of node n are `listed[nodes[n]..nodes[n + 1]]`. Node 1 is the root, n / 2 the parent of n.
    nodes: Vec<u32>,
    listed: Vec<u32>,
}

impl Space {
    pub(super) fn new(changes: Vec<u32>, rectangles: Vec<Rectangle>) -> Self {
        let mut starts: Vec<u64> = vec![0];
        for rectangle in &rectangles {
            starts.push(rectangle.range.0);
            starts.extend(rectangle.range.1.checked_add(1));
        }
        starts.sort_unstable();
        starts.dedup();
        let mut ends: Vec<Version> = rectangles.iter().map(|rectangle| rectangle.until).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut space = Self { changes, starts, rectangles, ends, nodes: Vec::new(), listed: Vec::new() };
        space.rectangles.sort_unstable_by_key(|rectangle| (rectangle.from, rectangle.range.0));
        space.list();
        space
    }

    /// Whether a piece of the first of these versions, or of one between them, is no longer there in the last.
    pub(super) fn removes(&self, first: Version, last: Version) -> bool {
        let next = self.ends.partition_point(|end| *end <= first);
        self.ends.get(next).is_some_and(|end| *end <= last)
    }

    /// Number of the last version.
    pub(super) fn last_version(&self) -> Version {
        Version::try_from(self.changes.len()).unwrap_or(LAST_VERSION)
    }

    /// The version after a number of events.
    pub(super) fn version_at(&self, position: u32) -> Version {
        let count = self.changes.partition_point(|change| *change <= position);
        Version::try_from(count).unwrap_or(LAST_VERSION)
    }

    /// Number of events after which a version holds.
    pub(super) fn position_of(&self, version: Version) -> Option<u32> {
        match version.checked_sub(1) {
            None => Some(0),
            Some(index) => self.changes.get(index as usize).copied(),
        }
    }

    /// Calls `visit` for the rectangles at an address in the versions from `first` to `last`, until it returns false.
    pub(super) fn visit(
        &self,
        (first, last): (Version, Version),
        address: u64,
        mut visit: impl FnMut(&Rectangle) -> bool,
    ) {
        let mut node = self.starts.len() + self.interval(address);
        while node > 0 {
            let listed = self.node(node);
            let from = listed.partition_point(|&index| self.rectangle(index).is_none_or(|found| found.until <= first));
            for rectangle in listed.iter().skip(from).filter_map(|&index| self.rectangle(index)) {
                if rectangle.from > last {
                    break;
                }
                if !visit(rectangle) {
                    return;
                }
            }
            node /= 2;
        }
    }

    /// Number of bytes from an address to the next one at which anything starts or ends in any version.
    pub(super) fn same_for(&self, address: u64) -> u64 {
        match self.starts.get(self.interval(address) + 1) {
            Some(next) => next - address,
            None => (u64::MAX - address).saturating_add(1),
        }
    }

    fn interval(&self, address: u64) -> usize {
        self.starts.partition_point(|start| *start <= address).saturating_sub(1)
    }

    fn rectangle(&self, index: u32) -> Option<&Rectangle> {
        self.rectangles.get(index as usize)
    }

    fn node(&self, node: usize) -> &[u32] {
        let bound = |at: usize| self.nodes.get(at).map_or(self.listed.len(), |at| *at as usize);
        self.listed.get(bound(node)..bound(node + 1)).unwrap_or_default()
    }

    /// Lists every rectangle at its nodes: counts first, then fills, in order of version.
    fn list(&mut self) {
        let mut counts = vec![0_u32; 2 * self.starts.len() + 1];
        for rectangle in &self.rectangles {
            self.nodes_of(rectangle, |node| counts[node] += 1);
        }
        let mut total = 0;
        for count in &mut counts {
            total += std::mem::replace(count, total);
        }
        let mut listed = vec![0; total as usize];
        let mut next = counts.clone();
        for (index, rectangle) in (0..).zip(&self.rectangles) {
            self.nodes_of(rectangle, |node| {
                listed[next[node] as usize] = index;
                next[node] += 1;
            });
        }
        (self.nodes, self.listed) = (counts, listed);
    }

    /// The largest nodes whose intervals are all inside the rectangle.
    fn nodes_of(&self, rectangle: &Rectangle, mut visit: impl FnMut(usize)) {
        let leaves = self.starts.len();
        let mut low = leaves + self.interval(rectangle.range.0);
        let mut high = leaves + self.interval(rectangle.range.1) + 1;
        while low < high {
            if low % 2 == 1 {
                visit(low);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                visit(high);
            }
            low /= 2;
            high /= 2;
        }
    }
}

#[cfg(test)]
impl Space {
    /// Number of rectangles, and of entries in the lists of nodes.
    pub(super) fn entries(&self) -> (usize, usize) {
        (self.rectangles.len(), self.listed.len())
    }
}
