//! Lines of executed instructions, ranges and other items, as text or as JSON.

use std::io::{self, Write};

use unspool::Trace;
use unspool::coresight::Features;
use unspool::flow::{Around, FlatRun, FlowItem, Instruction, Range, Run, RunKey};

use super::code::CodeCache;
use super::json::Json;
use super::run_lines::{Functions, Kept, RunLines};
use super::text::Text;
use crate::style::Palette;

pub(super) enum Form<'p> {
    Text(Box<Text<'p>>),
    Json(Box<Json<'p>>),
}

impl<'p> Form<'p> {
    pub(super) fn new(
        is_json: bool,
        trace: &Trace<'_>,
        features: &Features,
        cache: CodeCache<'p>,
        palette: Palette,
    ) -> Self {
        match is_json {
            true => Self::Json(Box::new(Json::new(trace, cache))),
            false => Self::Text(Box::new(Text::new(trace, features, cache, palette))),
        }
    }

    #[inline]
    pub(super) fn instruction(&mut self, instruction: &Instruction, around: &Around) -> &[u8] {
        match self {
            Self::Text(text) => text.instruction(instruction, around),
            Self::Json(json) => json.instruction(instruction),
        }
    }

    #[inline]
    pub(super) fn range(&mut self, range: &Range<'_>, around: &Around) -> &[u8] {
        match self {
            Self::Text(text) => text.range(range, around),
            Self::Json(json) => json.range(range),
        }
    }

    /// Writes the lines of instructions.
    #[inline]
    pub(super) fn instructions(&mut self, run: &FlatRun<'_>, around: &Around, out: &mut dyn Write) -> io::Result<()> {
        if let Some(written) = self.write_kept(run.key(), around, out) {
            return written;
        }
        let first = run.instructions().next().and_then(|first| self.label(&first));
        self.make(Some(run.key()), run.instructions(), first.as_ref(), around, out, Self::instruction)
    }

    /// Writes the lines of ranges.
    #[inline]
    pub(super) fn ranges(&mut self, run: &Run<'_>, around: &Around, out: &mut dyn Write) -> io::Result<()> {
        if let Some(written) = run.key().and_then(|key| self.write_kept(key, around, out)) {
            return written;
        }
        self.make(run.key(), run.ranges(), None, around, out, Self::range)
    }

    /// Writes the lines of a run, if they are kept.
    #[inline]
    fn write_kept(&mut self, key: RunKey, around: &Around, out: &mut dyn Write) -> Option<io::Result<()>> {
        match self {
            Self::Text(text) => text.write_kept(key, around, out),
            Self::Json(json) => json.write_kept(key, out),
        }
    }

    /// Makes and writes the lines of a run, and keeps them if the run is cached. `starts_in` is its first function, with the
    /// line that names it.
    fn make<T>(
        &mut self,
        key: Option<RunKey>,
        mut items: impl Iterator<Item = T>,
        starts_in: Option<&(Option<u64>, String)>,
        around: &Around,
        out: &mut dyn Write,
        line: impl for<'f> Fn(&'f mut Self, &T, &Around) -> &'f [u8],
    ) -> io::Result<()> {
        let Some(first) = items.next() else { return Ok(()) };
        let before = self.function();
        let mut lines = line(self, &first, around).to_vec();
        let (head, label) = (self.head().len(), starts_in.map_or("", |(_, label)| label));
        items.for_each(|item| lines.extend_from_slice(line(self, &item, around)));
        if let Some(key) = key {
            let functions = starts_in.map(|&(first, _)| Functions { first, last: self.function() });
            let is_labeled = functions.is_some_and(|functions| functions.first != before);
            let start = head + if is_labeled { label.len() } else { 0 };
            self.runs().insert(key, &Kept { label: label.as_bytes(), lines: &lines[start..], functions });
        }
        out.write_all(&lines)
    }

    /// The function of an instruction, with the line that names it, if lines name functions.
    fn label(&mut self, instruction: &Instruction) -> Option<(Option<u64>, String)> {
        match self {
            Self::Text(text) => Some(text.label(instruction)),
            Self::Json(_) => None,
        }
    }

    /// The function that was named last.
    fn function(&self) -> Option<u64> {
        match self {
            Self::Text(text) => text.function,
            Self::Json(_) => None,
        }
    }

    /// What the last line started with.
    fn head(&self) -> &str {
        match self {
            Self::Text(text) => &text.head,
            Self::Json(json) => &json.start,
        }
    }

    fn runs(&mut self) -> &mut RunLines {
        match self {
            Self::Text(text) => text.cache.runs(),
            Self::Json(json) => json.cache.runs(),
        }
    }

    pub(super) fn item(&mut self, trace: &Trace<'_>, item: &FlowItem) -> &[u8] {
        match self {
            Self::Text(text) => text.item(item),
            Self::Json(json) => json.item(trace, item),
        }
    }

    /// Follows an item without a line of it.
    pub(super) fn follow(&mut self, item: &FlowItem) {
        match (self, item) {
            (Self::Text(text), item) => drop(text.item(item)),
            (Self::Json(json), Ok(item)) => drop(json.follow(item)),
            (Self::Json(_), Err(_)) => {}
        }
    }

    /// Continues after lines of other traces.
    pub(super) fn restart(&mut self) {
        if let Self::Text(text) = self {
            text.restart();
        }
    }
}
