//! Who takes records.

use std::io::{self, Write};

use super::super::layout::Bytes;
use super::super::write::{Passes, Patterns, Writer};

/// Takes records.
pub trait RecordSink {
    /// Takes these records, in order.
    fn take(&mut self, records: &[Bytes]) -> io::Result<()>;

    /// Takes the records of passes, one behind the other.
    fn take_patterns(&mut self, patterns: &mut Patterns, passes: Passes<'_>) -> io::Result<()> {
        patterns.each(passes, |records| self.take(records))
    }
}

impl RecordSink for Vec<Bytes> {
    fn take(&mut self, records: &[Bytes]) -> io::Result<()> {
        self.extend_from_slice(records);
        Ok(())
    }
}

impl<W: Write> RecordSink for Writer<W> {
    fn take(&mut self, records: &[Bytes]) -> io::Result<()> {
        self.write(records)
    }

    fn take_patterns(&mut self, patterns: &mut Patterns, passes: Passes<'_>) -> io::Result<()> {
        self.patterns(patterns, passes)
    }
}

impl<S: RecordSink + ?Sized> RecordSink for &mut S {
    fn take(&mut self, records: &[Bytes]) -> io::Result<()> {
        (**self).take(records)
    }

    fn take_patterns(&mut self, patterns: &mut Patterns, passes: Passes<'_>) -> io::Result<()> {
        (**self).take_patterns(patterns, passes)
    }
}
