//! Consumer of records.

use std::io::{self, Write};

use super::super::layout::Bytes;
use super::super::write::{Executions, Patterns, Writer};

/// Consumer of records.
pub trait RecordSink {
    /// Writes these records, in order.
    fn write_records(&mut self, records: &[Bytes]) -> io::Result<()>;

    /// Writes the records of block executions, in order.
    fn write_patterns(&mut self, patterns: &mut Patterns, executions: Executions<'_>) -> io::Result<()> {
        patterns.each(executions, |records| self.write_records(records))
    }
}

impl RecordSink for Vec<Bytes> {
    fn write_records(&mut self, records: &[Bytes]) -> io::Result<()> {
        self.extend_from_slice(records);
        Ok(())
    }
}

impl<W: Write> RecordSink for Writer<W> {
    fn write_records(&mut self, records: &[Bytes]) -> io::Result<()> {
        self.write(records)
    }

    fn write_patterns(&mut self, patterns: &mut Patterns, executions: Executions<'_>) -> io::Result<()> {
        self.patterns(patterns, executions)
    }
}

impl<S: RecordSink + ?Sized> RecordSink for &mut S {
    fn write_records(&mut self, records: &[Bytes]) -> io::Result<()> {
        (**self).write_records(records)
    }

    fn write_patterns(&mut self, patterns: &mut Patterns, executions: Executions<'_>) -> io::Result<()> {
        (**self).write_patterns(patterns, executions)
    }
}
