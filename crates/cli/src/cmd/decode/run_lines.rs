//! Lines of cached runs: what was formatted once is copied.
//!
//! ```text
//! main:                                             label: only if the function before it is another one
//! EL0N  0x0000000000401000  d2800000  mov x0, #0x0  the head of the first line may show the time; the rest is kept
//! EL0N  0x0000000000401004  14000002  b 0x40100c
//! ```
//!
//! Programs run in loops, so that the same packets follow each other, and most lines were made before. The cache is bounded: beyond
//! its limit it starts over.

use unspool::flow::RunKey;

/// Greatest number of bytes of lines that are kept.
const MAX_BYTES: usize = 32 << 20;

/// Greatest number of different heads of lines.
const MAX_HEADS: usize = 256;

/// Lines of the cached runs of one generation.
#[derive(Debug, Default)]
pub(super) struct RunLines {
    generation: u64,
    /// Index in `runs` by the index of a run, counted from one; zero: not known.
    known: Vec<u32>,
    runs: Vec<Entry>,
    bytes: Vec<u8>,
    /// Heads of lines, and the number of the present one.
    heads: Vec<String>,
    head: usize,
}

/// Lines of a run, without the head of the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept<'l> {
    /// The line with the name of the function that the run starts in.
    pub(super) label: &'l [u8],
    pub(super) lines: &'l [u8],
    /// The functions of the first instruction and of the last one, if they are shown.
    pub(super) functions: Option<Functions>,
}

/// The functions that a run starts and ends in, by their addresses; `None`: no symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Functions {
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
}

/// Kept lines, as positions in the bytes.
#[derive(Debug, Clone, Copy)]
struct Entry {
    label: u32,
    lines: u32,
    end: u32,
    head: u32,
    functions: Option<Functions>,
}

impl RunLines {
    /// The lines of a run, if they are known. `head` is that of all lines but the first.
    #[inline]
    pub(super) fn get(&mut self, key: RunKey, head: &str) -> Option<Kept<'_>> {
        if self.heads.get(self.head).is_none_or(|present| present != head) {
            self.change_head(head);
        }
        let &index = self.known.get(key.index as usize).filter(|_| self.generation == key.generation)?;
        let entry = self.runs.get((index as usize).checked_sub(1)?)?;
        let part = |start: u32, end: u32| &self.bytes[start as usize..end as usize];
        let (label, lines) = (part(entry.label, entry.lines), part(entry.lines, entry.end));
        (entry.head as usize == self.head).then_some(Kept { label, lines, functions: entry.functions })
    }

    /// Keeps the lines of a run that was just not found.
    pub(super) fn insert(&mut self, key: RunKey, kept: &Kept<'_>) {
        let Kept { label, lines, functions } = *kept;
        if self.generation != key.generation || self.bytes.len() + label.len() + lines.len() > MAX_BYTES {
            self.generation = key.generation;
            self.known.clear();
            self.runs.clear();
            self.bytes.clear();
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(label);
        self.bytes.extend_from_slice(lines);
        let [label, lines, end] = [start, start + label.len(), self.bytes.len()].map(|position| position as u32);
        self.runs.push(Entry { label, lines, end, head: self.head as u32, functions });
        let index = key.index as usize;
        if self.known.len() <= index {
            self.known.resize((index + 1).next_power_of_two(), 0);
        }
        self.known[index] = self.runs.len() as u32;
    }

    #[cold]
    fn change_head(&mut self, head: &str) {
        let known = self.heads.iter().position(|known| known == head);
        if known.is_none() && self.heads.len() == MAX_HEADS {
            *self = Self::default();
        }
        self.head = known.unwrap_or(self.heads.len());
        if known.is_none() {
            self.heads.push(head.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> RunKey {
        RunKey { generation: 1, index }
    }

    #[test]
    fn lines_are_those_of_the_run_and_the_head() {
        let mut runs = RunLines::default();
        let functions = Some(Functions { first: Some(0x8000), last: None });
        let kept = Kept { label: b"main:\n", lines: b"one\nH two\n", functions };
        assert_eq!(runs.get(key(5), "H "), None);
        runs.insert(key(5), &kept);
        let other = Kept { label: b"", lines: b"three\n", functions: None };
        runs.insert(key(0), &other);
        assert_eq!(runs.get(key(5), "H "), Some(kept));
        assert_eq!(runs.get(key(0), "H "), Some(other));
        assert_eq!(runs.get(key(4), "H "), None, "another run");
        assert_eq!(runs.get(key(5), "K "), None, "another head");
        assert_eq!(runs.get(RunKey { generation: 2, index: 5 }, "H "), None, "other runs");
        assert_eq!(runs.get(key(5), "H "), Some(kept));
    }

    #[test]
    fn memory_is_bounded() {
        let mut runs = RunLines::default();
        let lines = vec![b'-'; MAX_BYTES / 8];
        for index in 0..20 {
            assert_eq!(runs.get(key(index), "H "), None);
            runs.insert(key(index), &Kept { label: b"", lines: &lines, functions: None });
            assert!(runs.bytes.len() <= MAX_BYTES);
            assert!(runs.get(key(index), "H ").is_some_and(|kept| kept.lines == lines));
        }
        for head in 0..2 * MAX_HEADS {
            assert_eq!(runs.get(key(19), &head.to_string()), None);
            assert!(runs.heads.len() <= MAX_HEADS);
        }
    }
}
