//! Sample profiles of LLVM in their text form: executions by function, line and inlined call, for `clang -fprofile-sample-use`.
//!
//! executions of addresses with their inline stacks + calls ─▶ [`SampleProfile`] ─▶ text, as `llvm-profdata merge --sample` takes it
//!
//! A line is counted from the line of the function's declaration, since code moves as a whole in a file. The samples of a
//! line are those of its most frequent instruction, times the number of copies that the compiler made of it and encoded in the
//! discriminator. Specification: Clang, "Sample Profile Text Format"; the encoding of discriminators: LLVM, `DILocation`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Deepest inlining; what is inlined deeper is left out.
const DEPTH: usize = 64;

/// A line within a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Location {
    /// Its distance from the line of the declaration, in 16 bits.
    pub offset: u32,
    /// Distinguishes blocks of the same line.
    pub discriminator: u32,
}

impl Location {
    /// A line of a function that is declared in another line, with the discriminator as in the debug information.
    pub fn new(line: u32, declared: u32, discriminator: u32) -> Self {
        let discriminator = if discriminator & 1 == 1 { 0 } else { component(discriminator >> 1) };
        Self { offset: line.wrapping_sub(declared) & 0xffff, discriminator }
    }
}

/// The number of copies of its code that a discriminator stands for.
pub fn copies(discriminator: u32) -> u64 {
    // The first component has no bits of its own if it is zero; the second one is the number of copies.
    let rest = match discriminator {
        first if first & 1 == 1 => first >> 1,
        first if first & 0x40 == 0 => first >> 7,
        first => first >> 14,
    };
    let copies = if rest & 1 == 1 { 0 } else { component(rest >> 1) };
    u64::from(copies.max(1))
}

/// A number of 5 bits or, with bit 5 set, of 12.
fn component(bits: u32) -> u32 {
    if bits & 0x20 == 0 { bits & 0x1f } else { (bits >> 1) & 0xfe0 | bits & 0x1f }
}

/// A function that contains an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The name that the linker knows.
    pub function: Arc<str>,
    /// The instruction in it or, of an outer function, the call that was inlined.
    pub location: Location,
}

/// Samples of all functions.
#[derive(Debug, Default)]
pub struct SampleProfile {
    functions: BTreeMap<Arc<str>, Samples>,
}

/// Samples of a function, or of an inlined copy of it.
#[derive(Debug, Default)]
struct Samples {
    /// How often it was entered.
    head: u64,
    lines: BTreeMap<Location, Line>,
    inlined: BTreeMap<(Location, Arc<str>), Samples>,
}

#[derive(Debug, Default)]
struct Line {
    count: u64,
    targets: BTreeMap<Arc<str>, u64>,
}

impl SampleProfile {
    /// A profile without samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the executions of an instruction, whose functions are given with the outermost first. False: they are too many.
    pub fn add(&mut self, frames: &[Frame], executions: u64) -> bool {
        let line = self.line(frames);
        line.is_some_and(|line| {
            line.count = line.count.max(executions);
            true
        })
    }

    /// Adds calls of a function by an instruction.
    pub fn add_calls(&mut self, frames: &[Frame], target: &Arc<str>, calls: u64) {
        if let Some(line) = self.line(frames) {
            *line.targets.entry(Arc::clone(target)).or_default() += calls;
        }
    }

    /// Adds entries of a function.
    pub fn add_entries(&mut self, function: &Arc<str>, entries: u64) {
        self.functions.entry(Arc::clone(function)).or_default().head += entries;
    }

    /// Leaves out functions that were not executed.
    pub fn retain_executed(&mut self) {
        self.functions.retain(|_, samples| samples.total() > 0);
    }

    /// The number of functions.
    pub fn functions(&self) -> usize {
        self.functions.len()
    }

    /// Writes the text, the function with the most samples first.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut functions: Vec<_> =
            self.functions.iter().map(|(name, samples)| (samples.total(), name, samples)).collect();
        functions.sort_by_key(|(total, name, _)| (std::cmp::Reverse(*total), Arc::clone(name)));
        for (total, name, samples) in functions {
            writeln!(out, "{name}:{total}:{}", samples.head)?;
            samples.write(1, out)?;
        }
        Ok(())
    }

    fn line(&mut self, frames: &[Frame]) -> Option<&mut Line> {
        let (first, rest) = frames.split_first().filter(|_| frames.len() <= DEPTH)?;
        let mut samples = self.functions.entry(Arc::clone(&first.function)).or_default();
        let mut location = first.location;
        for frame in rest {
            samples = samples.inlined.entry((location, Arc::clone(&frame.function))).or_default();
            location = frame.location;
        }
        Some(samples.lines.entry(location).or_default())
    }
}

impl Samples {
    fn total(&self) -> u64 {
        let lines = self.lines.values().map(|line| line.count);
        lines.chain(self.inlined.values().map(Self::total)).fold(0, u64::saturating_add)
    }

    fn write(&self, depth: usize, out: &mut dyn Write) -> io::Result<()> {
        for (location, line) in &self.lines {
            write!(out, "{:depth$}{}: {}", "", text(*location), line.count)?;
            for (target, calls) in &line.targets {
                write!(out, " {target}:{calls}")?;
            }
            writeln!(out)?;
        }
        for ((location, function), samples) in self.inlined.iter().filter(|(_, samples)| samples.total() > 0) {
            writeln!(out, "{:depth$}{}: {function}:{}", "", text(*location), samples.total())?;
            samples.write(depth + 1, out)?;
        }
        Ok(())
    }
}

fn text(location: Location) -> String {
    match location.discriminator {
        0 => location.offset.to_string(),
        discriminator => format!("{}.{discriminator}", location.offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings by the description of LLVM: components in order, each with a bit that marks zero, or 5 bits, or 12 bits.
    #[test]
    fn discriminators_have_components() {
        let rows = [
            (0, (0, 1)),
            // A base of 3.
            (3 << 1, (3, 1)),
            // A base of 33, which needs more than 5 bits: its low ones, the mark, its high ones.
            (1 << 1 | 1 << 6 | 1 << 7, (33, 1)),
            // No base, 4 copies.
            (1 | 4 << 2, (0, 4)),
            // A base of 2, 8 copies.
            (2 << 1 | 8 << 8, (2, 8)),
        ];
        for (discriminator, expected) in rows {
            let found = (Location::new(0, 0, discriminator).discriminator, copies(discriminator));
            assert_eq!(found, expected, "{discriminator:#x}");
        }
        assert_eq!(Location::new(12, 10, 0).offset, 2);
        // A line above the declaration.
        assert_eq!(Location::new(8, 10, 0).offset, 0xfffe);
    }

    /// Totals by hand; the form is that of the specification.
    #[test]
    fn lines_calls_and_inlined_functions() {
        let frame = |function: &str, offset, discriminator| Frame {
            function: function.into(),
            location: Location { offset, discriminator },
        };
        let mut profile = SampleProfile::new();
        assert!(profile.add(&[frame("main", 1, 0)], 10));
        assert!(profile.add(&[frame("main", 1, 0)], 7));
        assert!(profile.add(&[frame("main", 2, 3), frame("inner", 4, 0)], 100));
        assert!(profile.add(&[frame("main", 2, 3), frame("inner", 5, 0), frame("deep", 1, 0)], 5));
        assert!(profile.add(&[frame("cold", 1, 0)], 0));
        profile.add_calls(&[frame("main", 1, 0)], &"callee".into(), 9);
        profile.add_calls(&[frame("main", 1, 0)], &"other".into(), 1);
        profile.add_entries(&"main".into(), 1);
        profile.retain_executed();
        let mut text = Vec::new();
        profile.write(&mut text).unwrap();
        let expected = "\
main:115:1
 1: 10 callee:9 other:1
 2.3: inner:105
  4: 100
  5: deep:5
   1: 5
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        let deep: Vec<Frame> = (0..1000).map(|_| frame("f", 1, 0)).collect();
        assert!(!profile.add(&deep, 1));
    }
}
