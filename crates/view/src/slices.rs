//! Calls in a temporary file, from which any window is read at any zoom.
//!
//! calls in the order in which they began ─▶ classes by duration, each in segments ─▶ **those in a window that are long enough**
//!
//! Calls of one class last at least 2^k instructions and less than twice as long. So those of a class that overlap a window began
//! at most 2^(k+1) instructions before it: a range of the class, which is sorted by beginnings. Of each depth it has at most
//! about one call for each 2^k instructions of the window. A window that asks for calls of at least a pixel gets about as many
//! as it has pixels, for each depth and class, whatever the length of the trace.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

use crate::job::locked;

/// A call as it is drawn. It executes instructions `start..end`, with what it calls and what other stacks execute in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Number of its name.
    pub(crate) name: u32,
    pub(crate) depth: u32,
    pub(crate) flags: u8,
}

/// Bytes of a call.
const SIZE: usize = 24;
/// Calls of a segment.
const SEGMENT: usize = 1 << 10;
/// Number of classes: durations have 64 bits.
const CLASSES: usize = 64;
/// The deepest call that is kept.
const MAX_DEPTH: u32 = (1 << 24) - 1;

impl Slice {
    fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start).max(1)
    }

    fn class(&self) -> usize {
        self.duration().ilog2() as usize
    }

    fn to_bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&self.start.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.name.to_le_bytes());
        bytes[20..].copy_from_slice(&(self.depth.min(MAX_DEPTH) << 8 | u32::from(self.flags)).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; SIZE]) -> Self {
        let number = |at: usize, length: usize| {
            bytes[at..at + length].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let last = number(20, 4) as u32;
        Self { start: number(0, 8), end: number(8, 8), name: number(16, 4) as u32, depth: last >> 8, flags: last as u8 }
    }
}

/// Part of a class in the file.
#[derive(Debug, Clone, Copy)]
struct Segment {
    /// Beginning of its first call.
    first: u64,
    offset: u64,
    count: usize,
}

/// Calls of the stacks of a source.
#[derive(Debug)]
pub(crate) struct Slices {
    file: Mutex<File>,
    /// By stack and class.
    stacks: Vec<Vec<Vec<Segment>>>,
}

/// Calls that are being written.
pub(crate) struct SliceWriter {
    file: BufWriter<File>,
    length: u64,
    stacks: Vec<Vec<Vec<Segment>>>,
    /// Calls of the current stack that are in no segment, by class.
    waiting: Vec<Vec<Slice>>,
}

impl SliceWriter {
    pub(crate) fn new() -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
        Ok(Self { file, length: 0, stacks: Vec::new(), waiting: vec![Vec::new(); CLASSES] })
    }

    /// Starts the next stack.
    pub(crate) fn start_stack(&mut self) -> io::Result<()> {
        self.end_stack()?;
        self.stacks.push(vec![Vec::new(); CLASSES]);
        Ok(())
    }

    /// Adds a call of the current stack. They come in the order in which they began.
    pub(crate) fn add(&mut self, slice: Slice) -> io::Result<()> {
        let class = slice.class();
        self.waiting[class].push(slice);
        if self.waiting[class].len() == SEGMENT { self.write(class) } else { Ok(()) }
    }

    fn write(&mut self, class: usize) -> io::Result<()> {
        let slices = std::mem::take(&mut self.waiting[class]);
        let (Some(first), Some(stack)) = (slices.first(), self.stacks.last_mut()) else { return Ok(()) };
        stack[class].push(Segment { first: first.start, offset: self.length, count: slices.len() });
        slices.iter().try_for_each(|slice| self.file.write_all(&slice.to_bytes()))?;
        self.length += (slices.len() * SIZE) as u64;
        Ok(())
    }

    fn end_stack(&mut self) -> io::Result<()> {
        (0..CLASSES).try_for_each(|class| self.write(class))
    }

    /// All calls are added.
    pub(crate) fn finish(mut self) -> io::Result<Slices> {
        self.end_stack()?;
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Slices { file: Mutex::new(file), stacks: self.stacks })
    }
}

impl Slices {
    /// Passes on calls of a stack that overlap a window and are of a class that lasts at least `min` instructions, the longest
    /// classes first, until `take` breaks.
    pub(crate) fn each(
        &self,
        stack: usize,
        window: &Range<u64>,
        min: u64,
        take: &mut dyn FnMut(&Slice) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let Some(classes) = self.stacks.get(stack) else { return Ok(()) };
        let lowest = min.max(1).ilog2() as usize;
        let mut bytes = Vec::new();
        for (class, segments) in classes.iter().enumerate().skip(lowest).rev() {
            let longest = 2_u64.saturating_pow(class as u32 + 1);
            let earliest = window.start.saturating_sub(longest);
            // The segment before the first one that begins later may have calls from there on, too.
            let from = segments.partition_point(|segment| segment.first < earliest).saturating_sub(1);
            for segment in segments[from..].iter().take_while(|segment| segment.first < window.end) {
                self.read(segment, &mut bytes)?;
                let (slices, _) = bytes.as_chunks::<SIZE>();
                for slice in slices.iter().map(Slice::from_bytes) {
                    let is_wanted = slice.start < window.end && slice.end > window.start && slice.duration() >= min;
                    if is_wanted && take(&slice).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&self, segment: &Segment, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.resize(segment.count * SIZE, 0);
        let mut file = locked(&self.file);
        file.seek(SeekFrom::Start(segment.offset))?;
        file.read_exact(bytes)
    }

    /// The calls in progress at an instruction, outer ones first.
    pub(crate) fn at(&self, stack: usize, instruction: u64) -> io::Result<Vec<Slice>> {
        let mut found = Vec::new();
        self.each(stack, &(instruction..instruction + 1), 1, &mut |slice| {
            found.push(*slice);
            ControlFlow::Continue(())
        })?;
        found.sort_by_key(|slice| slice.depth);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that nest like the ticks of a ruler, and their ends.
    fn ruler(length: u64) -> Vec<Slice> {
        let mut all = Vec::new();
        for start in 1..=length {
            for (depth, size) in [(0, length), (1, 1000), (2, 100), (3, 7)] {
                if (start - 1) % size == 0 {
                    let end = (start + size).min(length + 1);
                    all.push(Slice { start, end, name: (start % 5) as u32, depth, flags: depth as u8 });
                }
            }
        }
        all
    }

    #[test]
    fn windows_have_what_overlaps_them() {
        let all = ruler(20_000);
        let mut writer = SliceWriter::new().unwrap();
        for _ in 0..2 {
            writer.start_stack().unwrap();
            all.iter().for_each(|slice| writer.add(*slice).unwrap());
        }
        let slices = writer.finish().unwrap();
        for (window, min) in [(1..20_001, 1), (1..20_001, 64), (500..501, 1), (6_995..7_100, 7), (19_990..50_000, 100)]
        {
            let mut found = Vec::new();
            let keep = &mut |slice: &Slice| {
                found.push(*slice);
                ControlFlow::Continue(())
            };
            slices.each(1, &window, min, keep).unwrap();
            found.sort_by_key(|slice| (slice.start, slice.depth));
            let overlaps = |slice: &&Slice| slice.start < window.end && slice.end > window.start;
            let wanted: Vec<Slice> =
                all.iter().filter(overlaps).filter(|slice| slice.duration() >= min).copied().collect();
            assert_eq!(found, wanted, "{window:?} {min}");
        }
        let depths: Vec<u32> = slices.at(0, 7_001).unwrap().iter().map(|slice| slice.depth).collect();
        assert_eq!(depths, [0, 1, 2, 3]);
    }

    #[test]
    fn deep_recursion_is_found() {
        let mut writer = SliceWriter::new().unwrap();
        writer.start_stack().unwrap();
        // Many calls of one class are in progress at once, in several segments.
        let all: Vec<Slice> = (0..3_000)
            .map(|depth| Slice { start: 1 + depth, end: 10_000 - depth, name: 0, depth: depth as u32, flags: 0 })
            .collect();
        all.iter().for_each(|slice| writer.add(*slice).unwrap());
        assert_eq!(writer.finish().unwrap().at(0, 5_000).unwrap(), all);
    }
}
