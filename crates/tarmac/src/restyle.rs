//! Restyling: a log in one style as a log in the other, with a count of the losses.
//!
//! records ─▶ **records of the other style** ─▶ lines
//!
//! Whatever both styles can express is translated. What one style leaves implicit (the BR lines of Rev 3, the skipped
//! branches of Fast Models) is derived from opcodes and from the next instruction. A line without a counterpart is
//! copied. Only a few lines are held back, until the next instruction of their core.

mod core;
mod held;
mod losses;
mod memory;
mod names;
mod reorder;
mod to_fast_models;
mod to_rev3;

use self::core::Core;
pub use losses::{Count, Loss, Losses};

use super::dialect::{Dialect, Effects};
use super::read::Position;
use super::record::{Access, Direction, Header, Line, Problem, ProblemKind, Record, Stamp, Time, Unit};
pub use super::write::Style;
use super::write::is_verbatim;

/// Maximum number of bytes that are held back.
const MAX_HELD: usize = 1 << 16;
/// Maximum number of cores; lines of further cores are copied.
const MAX_CORES: usize = 1 << 12;
/// Maximum number of bytes that are kept of a name or an asynchronous event.
const MAX_KEPT: usize = 1 << 8;

/// Translates the lines of a log to another style.
///
/// ```
/// use unspool_tarmac::restyle::{Restyler, Style};
/// use unspool_tarmac::dialect::Dialect;
/// use unspool_tarmac::parse::{ParseOptions, Parser};
/// use unspool_tarmac::read::Position;
///
/// let mut parser = Parser::new(ParseOptions::default());
/// let mut restyler = Restyler::new(Dialect::FastModels, Style::Rev3);
/// let mut out = Vec::new();
/// let line = parser.parse(b"7 clk IT (7) 00009204 a104 T svc_s : ADR r1,{pc}+0x14");
/// restyler.line(Position { line: 1, offset: 0 }, &line, &mut out);
/// restyler.finish(&mut out);
/// let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
/// assert_eq!(lines[0], b"Tarmac Text Rev 3t");
/// assert_eq!(lines[1], b"          7 clk ES  (00009204:a104)     T svc_s:          ADR r1,{pc}+0x14");
/// ```
#[derive(Debug, Default)]
pub struct Restyler {
    from: Dialect,
    to: Style,
    is_big_endian: bool,
    has_continuations: bool,
    /// Whether the header is written or not needed.
    has_header: bool,
    /// The last timestamp that was read.
    stamp: Stamp,
    /// Timestamp of the last line that was written.
    written_stamp: Stamp,
    position: Position,
    cores: Vec<Core>,
    /// The core of the previous line; `None` beyond the limit.
    current: Option<usize>,
    /// Number of the overlong line that arrives in chunks, while more may follow.
    long_line: Option<u64>,
    /// Lines that are written but may still change.
    buffer: Vec<u8>,
    holds: Vec<Hold>,
    /// Scratch buffer for names in the other style.
    name_buffer: Vec<u8>,
    losses: Losses,
}

/// A position in the buffer that may still change.
#[derive(Debug, Clone, Copy)]
struct Hold {
    core: usize,
    /// Offset of the T in IT of a branch with an unknown outcome, or of the name of a reset event, before which its
    /// target goes.
    at: usize,
    /// The event number of the reset, if it is one.
    reset: Option<u32>,
}

impl Restyler {
    /// A restyler for the start of a log in the dialect `from`.
    pub fn new(from: Dialect, to: Style) -> Self {
        Self { from, to, has_header: to == Style::FastModels, ..Self::default() }
    }

    /// Sets whether the numbers in access lines are those of a big-endian core. Pictures do not depend on it.
    pub fn with_big_endian(self, is_big_endian: bool) -> Self {
        Self { is_big_endian, ..self }
    }

    /// Sets whether only the first of several picture lines of one access has LD or ST.
    pub fn with_continuations(self, has_continuations: bool) -> Self {
        Self { has_continuations, ..self }
    }

    /// Whether the log is in this style already, so that lines are copied.
    pub fn is_copy(from: Dialect, to: Style) -> bool {
        matches!((from, to), (Dialect::Rev3, Style::Rev3) | (Dialect::FastModels, Style::FastModels))
    }

    /// Takes the next line. Appends lines of the other style, for this line or for earlier ones.
    pub fn line(&mut self, position: Position, line: &Line<'_>, out: &mut Vec<u8>) {
        let is_next_chunk = self.is_next_chunk(position, line);
        if Self::is_copy(self.from, self.to) {
            self.push_raw(line);
            return out.append(&mut self.buffer);
        }
        self.position = position;
        if is_next_chunk {
            return self.push_raw(line);
        }
        self.restyle_line(line);
        if self.buffer.len() > MAX_HELD {
            self.write_header(Stamp::Dashes);
            self.holds.clear();
        }
        if self.has_header && self.holds.is_empty() {
            out.append(&mut self.buffer);
        }
    }

    /// Appends the lines that are held back at the end of the log.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.end_long_line();
        for core in 0..self.cores.len() {
            self.release(core);
            self.release_effects(core);
            self.flush(core);
            match self.to {
                Style::Rev3 => self.end_rev3(core),
                Style::FastModels => self.end_fast_models(core),
            }
        }
        self.holds.clear();
        out.append(&mut self.buffer);
    }

    /// Losses so far.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    fn restyle_line(&mut self, line: &Line<'_>) {
        if is_verbatim(&line.record) {
            return self.keep_verbatim(line);
        }
        if matches!(line.record, Record::Header(_)) {
            return;
        }
        let stamp = self.stamp_of(line.stamp);
        self.write_header(stamp);
        let Some(core) = self.core(line) else { return self.keep(Loss::Unknown, line) };
        match self.from.effects() {
            Effects::After => self.write_line(core, stamp, line),
            Effects::Before => self.hold_back(core, stamp, line),
        }
    }

    /// Translates a line, where effects follow their instruction.
    fn write_line(&mut self, core: usize, stamp: Stamp, line: &Line<'_>) {
        self.flush_earlier(stamp);
        match self.to {
            Style::Rev3 => self.write_rev3(core, stamp, line),
            Style::FastModels => self.write_fast_models(core, stamp, line),
        }
    }

    /// Flushes what other cores accessed at an earlier time.
    fn flush_earlier(&mut self, stamp: Stamp) {
        if std::mem::replace(&mut self.written_stamp, stamp) == stamp || self.cores.len() < 2 {
            return;
        }
        for core in 0..self.cores.len() {
            if self.cores[core].run.as_ref().is_some_and(|(_, since)| *since != stamp) {
                self.flush(core);
            }
        }
    }

    /// Copies a line that no style parses further.
    fn keep_verbatim(&mut self, line: &Line<'_>) {
        for core in 0..self.cores.len() {
            self.release(core);
            self.flush(core);
        }
        self.push_raw(line);
        let loss = match line.record {
            Record::Comment(_) => Loss::Comment,
            Record::Opaque(_) => Loss::Opaque,
            Record::Unknown(_) => Loss::Unknown,
            Record::Blank => return,
            _ => Loss::Bus,
        };
        self.lose(loss);
    }

    /// Copies a line that has no counterpart in the other style.
    fn keep(&mut self, loss: Loss, line: &Line<'_>) {
        self.lose(loss);
        self.push_raw(line);
    }

    /// Appends a line as it is. A chunk of an overlong line gets no line end yet.
    fn push_raw(&mut self, line: &Line<'_>) {
        self.buffer.extend_from_slice(line.raw);
        if !is_chunk(line) {
            self.buffer.push(b'\n');
        }
    }

    /// Whether the line is a further chunk of the previous one; otherwise ends that one.
    fn is_next_chunk(&mut self, position: Position, line: &Line<'_>) -> bool {
        let number = is_chunk(line).then_some(position.line);
        if number.is_some() && self.long_line == number {
            return true;
        }
        self.end_long_line();
        self.long_line = number;
        false
    }

    fn end_long_line(&mut self) {
        if self.long_line.take().is_some() {
            self.buffer.push(b'\n');
        }
    }

    /// Direction of an access. A load reads, whatever the log calls it.
    fn direction(&mut self, core: usize, access: &Access<'_>) -> Direction {
        let known = &self.cores[core];
        let is_load = known.taken.is_none() && known.last.is_some_and(|last| last.is_load);
        if !is_load || !access.is_judged_by_opcode() {
            return access.direction;
        }
        self.lose(Loss::CorrectedLoad);
        Direction::Read
    }

    fn lose(&mut self, loss: Loss) {
        self.losses.add(loss, self.position);
    }

    /// Timestamp of a line, without decimals if possible.
    fn stamp_of(&mut self, stamp: Stamp) -> Stamp {
        match stamp {
            Stamp::Absent => {}
            Stamp::Dashes if self.to == Style::FastModels => self.lose(Loss::NoTime),
            Stamp::Dashes => return Stamp::Dashes,
            Stamp::At(time) => self.stamp = Stamp::At(without_decimals(time)),
        }
        self.stamp
    }

    /// Writes the header of Rev 3. Its flag depends on whether the first line has a time.
    fn write_header(&mut self, stamp: Stamp) {
        if !self.has_header {
            self.has_header = true;
            let flags: &[u8] = if stamp == Stamp::Absent { b"" } else { b"t" };
            let record = Record::Header(Header { revision: 3, flags });
            let mut header = Vec::new();
            let line = Line { raw: b"", stamp: Stamp::Absent, core: None, record };
            // A header can always be written.
            let _ = self.to.write(&line, &mut header);
            self.buffer.splice(0..0, header);
        }
    }

    /// Index of the core of a line. A line without time and core belongs to the core of the previous line.
    fn core(&mut self, line: &Line<'_>) -> Option<usize> {
        let name = line.core;
        if name.is_none() && line.stamp == Stamp::Absent && !self.cores.is_empty() {
            return self.current;
        }
        let is_same = |core: &Core| core.name.as_deref() == name;
        if self.current.and_then(|current| self.cores.get(current)).is_some_and(is_same) {
            return self.current;
        }
        self.current = match self.cores.iter().position(is_same) {
            Some(core) => Some(core),
            None if self.cores.len() >= MAX_CORES || name.is_some_and(|name| name.len() > MAX_KEPT) => None,
            None => {
                self.cores.push(Core::new(name));
                Some(self.cores.len() - 1)
            }
        };
        self.current
    }

    /// Writes a record; returns false if the style has no line for it.
    fn emit(&mut self, core: usize, stamp: Stamp, record: Record<'_>) -> bool {
        let line = Line { raw: b"", stamp, core: self.cores[core].name.as_deref(), record };
        self.to.write(&line, &mut self.buffer).is_ok()
    }

    /// Writes the collected bytes and ends the sequence of accesses.
    fn flush(&mut self, core: usize) {
        self.flush_run(core);
        let known = &mut self.cores[core];
        let unit = known.unit();
        if let Some(position) = known.access_sizes.finish(unit) {
            self.losses.add(Loss::AccessSizes, position);
        }
    }

    /// Writes the collected bytes.
    fn flush_run(&mut self, core: usize) {
        let Some((run, stamp)) = self.cores[core].run.take() else { return };
        match self.to {
            Style::Rev3 => self.write_pictures(core, &run, stamp),
            Style::FastModels => self.write_accesses(core, &run, stamp),
        }
    }
}

fn is_chunk(line: &Line<'_>) -> bool {
    matches!(line.record, Record::Unknown(Problem { kind: ProblemKind::TooLongLine, .. }))
}

/// The time without decimals: in a finer unit, if there is one.
fn without_decimals(mut time: Time) -> Time {
    while time.decimals > 0 {
        let Some(finer) = Unit::ALL.get(time.unit as usize + 1).filter(|unit| unit.power().is_some()) else { break };
        let missing = 3_u32.saturating_sub(u32::from(time.decimals));
        let Some(value) = time.value.checked_mul(10_u64.pow(missing)) else { break };
        time = Time { value, decimals: time.decimals.saturating_sub(3), unit: *finer };
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_decimals() {
        let rows = [
            (10_356_000, 6, Unit::Us, (10_356_000, 0, Unit::Ps)),
            (15, 1, Unit::Ns, (1500, 0, Unit::Ps)),
            (15, 1, Unit::Clk, (15, 1, Unit::Clk)),
            (7, 0, Unit::S, (7, 0, Unit::S)),
            (u64::MAX, 1, Unit::S, (u64::MAX, 1, Unit::S)),
        ];
        for (value, decimals, unit, (expected, left, finer)) in rows {
            let time = without_decimals(Time { value, decimals, unit });
            assert_eq!(time, Time { value: expected, decimals: left, unit: finer });
        }
    }
}
