//! Lines of one style as lines of another, and a count of what the other cannot say.
//!
//! records ─▶ **the same in the other style** ─▶ lines
//!
//! What both styles can say is translated; what can be derived (the BR lines of Rev 3, the skipped branches of Fast
//! Models) is derived from opcodes and from where execution goes on; a line that the other style has no word for stays
//! as it is. Only a few lines are held back, until the next instruction of their core.

mod core;
mod losses;
mod memory;
mod names;
pub(super) mod opcode;
mod to_fast_models;
mod to_rev3;

use self::core::Core;
pub use losses::{Count, Loss, Losses};

use super::dialect::{Dialect, Effects};
use super::read::Place;
use super::record::{Header, Instruction, Line, Record, Stamp, Time, Unit};
pub use super::write::Style;
use super::write::{Writer, is_verbatim};

/// So much is held back at most.
const HELD: usize = 1 << 16;
/// So much waits for the next instruction of a core at most.
const WAITING: usize = 1 << 12;
/// So many cores are told apart; lines of those beyond stay as they are.
const CORES: usize = 1 << 12;
/// The longest that is remembered of a line.
const LONGEST: usize = 1 << 8;

/// Translates lines.
///
/// ```
/// use unspool_formats::tarmac::convert::{Converter, Style};
/// use unspool_formats::tarmac::dialect::Dialect;
/// use unspool_formats::tarmac::parse::{ParseOptions, Parser};
/// use unspool_formats::tarmac::read::Place;
///
/// let mut parser = Parser::new(ParseOptions::default());
/// let mut converter = Converter::new(Dialect::FastModels, Style::Rev3);
/// let mut out = Vec::new();
/// let line = parser.parse(b"1 clk IT (1) 00008008 a00a T svc_s : ADR r0,{pc}+0x2c");
/// converter.line(Place { line: 1, offset: 0 }, &line, &mut out);
/// converter.finish(&mut out);
/// let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
/// assert_eq!(lines[0], b"Tarmac Text Rev 3t");
/// assert_eq!(lines[1], b"          1 clk ES  (00008008:a00a)     T svc_s:          ADR r0,{pc}+0x2c");
/// ```
#[derive(Debug)]
pub struct Converter {
    from: Dialect,
    writer: Writer,
    is_big_endian: bool,
    has_continuations: bool,
    /// The header is written, or there is none.
    has_header: bool,
    /// The time of the line before.
    stamp: Stamp,
    place: Place,
    cores: Vec<Core>,
    /// The core of the line before.
    current: usize,
    /// What is written, but may still change.
    buffer: Vec<u8>,
    /// Branches of which it is not known yet whether they were taken: the core, and where in the buffer the T of IT is.
    holds: Vec<(usize, usize)>,
    /// Names that are spelled anew.
    spelled: Vec<u8>,
    losses: Losses,
}

impl Converter {
    /// Before the first line of a log that `from` wrote.
    pub fn new(from: Dialect, to: Style) -> Self {
        Self {
            from,
            writer: Writer::new(to),
            is_big_endian: false,
            has_continuations: false,
            has_header: to == Style::FastModels,
            stamp: Stamp::Absent,
            place: Place { line: 0, offset: 0 },
            cores: Vec::new(),
            current: 0,
            buffer: Vec::new(),
            holds: Vec::new(),
            spelled: Vec::new(),
            losses: Losses::default(),
        }
    }

    /// The numbers in access lines are those of a big endian core. Pictures are the same for both.
    pub fn with_big_endian(self, is_big_endian: bool) -> Self {
        Self { is_big_endian, ..self }
    }

    /// Pictures of one access that need several lines have LD or ST in the first of them only.
    pub fn with_continuations(self, has_continuations: bool) -> Self {
        Self { has_continuations, ..self }
    }

    /// Is this the style that the log is in already? Then lines stay as they are, and can be copied as well.
    pub fn is_copy(from: Dialect, to: Style) -> bool {
        matches!((from, to), (Dialect::Rev3, Style::Rev3) | (Dialect::FastModels, Style::FastModels))
    }

    /// The next line. Adds lines of the other style, for this line or for those before.
    pub fn line(&mut self, place: Place, line: &Line<'_>, out: &mut Vec<u8>) {
        if Self::is_copy(self.from, self.writer.style()) {
            out.extend_from_slice(line.raw);
            return out.push(b'\n');
        }
        self.place = place;
        self.take(line);
        if self.buffer.len() > HELD {
            self.begin(Stamp::Dashes);
            self.holds.clear();
        }
        if self.has_header && self.holds.is_empty() {
            out.append(&mut self.buffer);
        }
    }

    /// The log ends. Adds what was held back.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        for core in 0..self.cores.len() {
            self.flush(core);
            match self.writer.style() {
                Style::Rev3 => self.end_rev3(core),
                Style::FastModels => self.end_fast_models(core),
            }
            let waiting = std::mem::take(&mut self.cores[core].waiting);
            self.buffer.extend_from_slice(&waiting);
        }
        self.holds.clear();
        out.append(&mut self.buffer);
    }

    /// What could not be said so far.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    fn take(&mut self, line: &Line<'_>) {
        if is_verbatim(&line.record) {
            return self.keep_text(line);
        }
        if matches!(line.record, Record::Header(_)) {
            return;
        }
        let stamp = self.when(line.stamp);
        self.begin(stamp);
        let Some(core) = self.core(line.core) else { return self.keep(Loss::Unknown, line) };
        match self.writer.style() {
            Style::Rev3 => self.say_in_rev3(core, stamp, line),
            Style::FastModels => self.say_in_fast_models(core, stamp, line),
        }
    }

    /// Lines that no style takes apart.
    fn keep_text(&mut self, line: &Line<'_>) {
        (0..self.cores.len()).for_each(|core| self.flush(core));
        self.push_raw(line.raw);
        let loss = match line.record {
            Record::Comment(_) => Loss::Comment,
            Record::Told(_) => Loss::Told,
            Record::Unknown(_) => Loss::Unknown,
            Record::Blank => return,
            _ => Loss::Bus,
        };
        self.lose(loss);
    }

    /// A line that the other style has no word for stays as it is.
    fn keep(&mut self, loss: Loss, line: &Line<'_>) {
        self.lose(loss);
        self.push_raw(line.raw);
    }

    fn push_raw(&mut self, raw: &[u8]) {
        self.buffer.extend_from_slice(raw);
        self.buffer.push(b'\n');
    }

    fn lose(&mut self, loss: Loss) {
        self.losses.add(loss, self.place);
    }

    /// When a line happens, without decimals if that can be.
    fn when(&mut self, stamp: Stamp) -> Stamp {
        match stamp {
            Stamp::Absent => {}
            Stamp::Dashes if self.writer.style() == Style::FastModels => self.lose(Loss::NoTime),
            Stamp::Dashes => return Stamp::Dashes,
            Stamp::At(time) => self.stamp = Stamp::At(whole(time)),
        }
        self.stamp
    }

    /// The header of Rev 3 says whether lines have times, which the first of them tells.
    fn begin(&mut self, stamp: Stamp) {
        if !self.has_header {
            self.has_header = true;
            let flags: &[u8] = if stamp == Stamp::Absent { b"" } else { b"t" };
            let record = Record::Header(Header { revision: 3, flags });
            let mut header = Vec::new();
            let line = Line { raw: b"", stamp: Stamp::Absent, core: None, record };
            // A header can always be said.
            let _ = self.writer.write(&line, &mut header);
            self.buffer.splice(0..0, header);
        }
    }

    /// The number of a core.
    fn core(&mut self, name: Option<&[u8]>) -> Option<usize> {
        let is_this = |core: &Core| core.name.as_deref() == name;
        if self.cores.get(self.current).is_some_and(is_this) {
            return Some(self.current);
        }
        self.current = match self.cores.iter().position(is_this) {
            Some(core) => core,
            None if self.cores.len() >= CORES || name.is_some_and(|name| name.len() > LONGEST) => return None,
            None => {
                self.cores.push(Core::new(name));
                self.cores.len() - 1
            }
        };
        Some(self.current)
    }

    /// Writes a record. False: there is no such line.
    fn emit(&mut self, core: usize, stamp: Stamp, record: Record<'_>) -> bool {
        let line = Line { raw: b"", stamp, core: self.cores[core].name.as_deref(), record };
        self.writer.write(&line, &mut self.buffer).is_ok()
    }

    /// Writes a record that belongs to an instruction: behind it, wherever it was read.
    fn emit_effect(&mut self, core: usize, stamp: Stamp, record: Record<'_>) -> bool {
        if self.from.effects() == Effects::After {
            return self.emit(core, stamp, record);
        }
        let Core { name, waiting, .. } = &mut self.cores[core];
        let line = Line { raw: b"", stamp, core: name.as_deref(), record };
        let is_said = self.writer.write(&line, waiting).is_ok();
        if waiting.len() > WAITING {
            self.buffer.append(waiting);
        }
        is_said
    }

    /// An instruction was written: effects that were read before it follow, and it is the one that others belong to.
    fn arrive(&mut self, core: usize, instruction: &Instruction<'_>) {
        let Core { waiting, .. } = &mut self.cores[core];
        self.buffer.append(waiting);
        self.cores[core].arrive(instruction);
    }

    /// Writes the bytes that were gathered.
    fn flush(&mut self, core: usize) {
        let Some((run, stamp)) = self.cores[core].run.take() else { return };
        match self.writer.style() {
            Style::Rev3 => self.write_pictures(core, &run, stamp),
            Style::FastModels => self.write_accesses(core, &run, stamp),
        }
    }
}

/// The same time without decimals: in a finer unit, if there is one.
fn whole(mut time: Time) -> Time {
    while time.decimals > 0 {
        let finer = match time.unit {
            Unit::S => Unit::Ms,
            Unit::Ms => Unit::Us,
            Unit::Us => Unit::Ns,
            Unit::Ns => Unit::Ps,
            Unit::Ps => Unit::Fs,
            _ => break,
        };
        let missing = 3_u32.saturating_sub(u32::from(time.decimals));
        let Some(value) = time.value.checked_mul(10_u64.pow(missing)) else { break };
        time = Time { value, decimals: time.decimals.saturating_sub(3), unit: finer };
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lose_their_decimals() {
        let rows = [
            (10_356_000, 6, Unit::Us, (10_356_000, 0, Unit::Ps)),
            (15, 1, Unit::Ns, (1500, 0, Unit::Ps)),
            (15, 1, Unit::Clk, (15, 1, Unit::Clk)),
            (7, 0, Unit::S, (7, 0, Unit::S)),
            (u64::MAX, 1, Unit::S, (u64::MAX, 1, Unit::S)),
        ];
        for (value, decimals, unit, (expected, left, finer)) in rows {
            let time = whole(Time { value, decimals, unit });
            assert_eq!(time, Time { value: expected, decimals: left, unit: finer });
        }
    }
}
