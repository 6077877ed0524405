//! Buffer of lines and annotations: each line gets the time and the core that a reader would otherwise get wrong.

use unspool_model::{Coverage, Facet, Loss, Losses, TimeUnit};

use super::super::annotation::Annotation;
use super::super::record::{Header, Line, Record, Stamp};
use super::super::write::Style;
use super::scale::Scale;

/// Number of buffered bytes at which the lines are written out.
pub(super) const CHUNK: usize = 64 << 10;

/// Buffer of written lines, with the state that the next line depends on.
#[derive(Debug)]
pub(super) struct LineWriter {
    pub(super) lines: Vec<u8>,
    pub(super) style: Style,
    pub(super) coverage: Coverage,
    scale: Scale,
    /// The time of the previous line.
    pub(super) time: Option<u64>,
    /// The core of the previous line.
    pub(super) core: Option<usize>,
    pub(super) losses: Losses,
    /// Position of the current step in its source.
    pub(super) position: u64,
}

/// Core and time of the lines to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineHead<'a> {
    /// Index of the core.
    pub(super) at: usize,
    pub(super) name: &'a str,
    pub(super) stamp: Stamp,
    /// Whether addresses of Rev 3 have 16 digits.
    pub(super) is_wide: bool,
}

impl LineWriter {
    /// A writer with the header of the log and the annotation of its coverage.
    pub(super) fn new(coverage: Coverage, unit: TimeUnit, style: Style) -> Self {
        let scale = Scale::new(unit, style);
        let (lines, losses) = (Vec::with_capacity(CHUNK * 2), Losses::default());
        let mut writer = Self { lines, style, coverage, scale, time: None, core: None, losses, position: 0 };
        if style == Style::Rev3 {
            let flags: &[u8] = if coverage.has(Facet::Times) { b"t" } else { b"" };
            writer.line(Stamp::Absent, None, Record::Header(Header { revision: 3, flags }));
        }
        writer.annotate(&Annotation::Covers(coverage, scale.unit()));
        writer
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        self.losses.add(loss, self.position);
    }

    pub(super) fn annotate(&mut self, annotate: &Annotation<'_>) {
        annotate.write(&mut self.lines);
    }

    /// Makes the following lines apply to this core, by an annotation if needed.
    pub(super) fn select_core(&mut self, at: usize) {
        if self.core != Some(at) && (at > 0 || self.core.is_some()) {
            self.annotate(&Annotation::Core(at as u32));
        }
        self.core = Some(at);
    }

    /// A time in the unit of the log.
    pub(super) fn scaled(&mut self, time: Option<u64>) -> Option<u64> {
        let time = time?;
        let scaled = Some(time).filter(|_| self.coverage.has(Facet::Times)).and_then(|time| self.scale.count(time));
        if scaled.is_none() {
            self.lose(Loss::Times);
        }
        scaled
    }

    /// The timestamp for the lines of a step.
    #[inline]
    pub(super) fn begin(&mut self, at: usize, time: Option<u64>) -> Stamp {
        match time.and_then(|time| self.stamped(time)) {
            Some(time) => Stamp::At(self.scale.time(time)),
            None => self.no_time(at),
        }
    }

    #[inline]
    fn stamped(&mut self, time: u64) -> Option<u64> {
        if self.scale.is_exact() && self.coverage.has(Facet::Times) {
            return Some(time);
        }
        if self.coverage.has(Facet::Times) && self.scale.drops_digits(time) {
            self.lose(Loss::TimeDigits);
        }
        self.scaled(Some(time))
    }

    fn no_time(&mut self, at: usize) -> Stamp {
        if self.time.take().is_some() {
            self.select_core(at);
            self.annotate(&Annotation::NoTime);
        }
        let has_dashes = self.style == Style::Rev3 && self.coverage.has(Facet::Times);
        if has_dashes { Stamp::Dashes } else { Stamp::Absent }
    }

    /// Writes the first line of a step.
    #[inline]
    pub(super) fn emit(&mut self, head: &LineHead<'_>, record: Record<'_>) {
        let name = Some(head.name.as_bytes()).filter(|name| !name.is_empty());
        if name.is_none() && head.stamp == Stamp::Absent {
            self.select_core(head.at);
        }
        self.core = Some(head.at);
        self.line(head.stamp, name, record);
    }

    /// Writes a further line of a step.
    #[inline]
    pub(super) fn effect(&mut self, head: &LineHead<'_>, record: Record<'_>) {
        match self.style {
            Style::FastModels => self.emit(head, record),
            Style::Rev3 => {
                self.select_core(head.at);
                self.line(Stamp::Absent, None, record);
            }
        }
    }

    #[inline]
    fn line(&mut self, stamp: Stamp, core: Option<&[u8]>, record: Record<'_>) {
        if let Stamp::At(time) = stamp {
            self.time = Some(time.value);
        }
        let line = Line { raw: b"", stamp, core, record };
        // The style has a line for every record that is built here.
        let line = self.style.write(&line, &mut self.lines);
        debug_assert!(line.is_ok());
    }
}
