//! Lines of one style as lines of another, and a count of what the other cannot say.
//!
//! records ─▶ **the same in the other style** ─▶ lines
//!
//! What both styles can say is translated; what can be derived (the BR lines of Rev 3, the skipped branches of Fast
//! Models) is derived from opcodes and from where execution goes on; a line that the other style has no word for stays
//! as it is. Only a few lines are held back, until the next instruction of their core.

mod before;
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
use super::record::{Header, Line, Problem, ProblemKind, Record, Stamp, Time, Unit};
pub use super::write::Style;
use super::write::{Writer, is_verbatim};

/// So much is held back at most.
const HELD: usize = 1 << 16;
/// So many cores are told apart; lines of those beyond stay as they are.
const CORES: usize = 1 << 12;
/// The longest that is remembered of a line.
const LONGEST: usize = 1 << 8;

/// Translates lines.
///
/// ```
/// use unspool_tarmac::restyle::{Restyler, Style};
/// use unspool_tarmac::dialect::Dialect;
/// use unspool_tarmac::parse::{ParseOptions, Parser};
/// use unspool_tarmac::read::Place;
///
/// let mut parser = Parser::new(ParseOptions::default());
/// let mut converter = Restyler::new(Dialect::FastModels, Style::Rev3);
/// let mut out = Vec::new();
/// let line = parser.parse(b"7 clk IT (7) 00009204 a104 T svc_s : ADR r1,{pc}+0x14");
/// converter.line(Place { line: 1, offset: 0 }, &line, &mut out);
/// converter.finish(&mut out);
/// let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
/// assert_eq!(lines[0], b"Tarmac Text Rev 3t");
/// assert_eq!(lines[1], b"          7 clk ES  (00009204:a104)     T svc_s:          ADR r1,{pc}+0x14");
/// ```
#[derive(Debug)]
pub struct Restyler {
    from: Dialect,
    writer: Writer,
    is_big_endian: bool,
    has_continuations: bool,
    /// The header is written, or there is none.
    has_header: bool,
    /// The time of the line before.
    stamp: Stamp,
    /// The time of the last line that was said.
    said: Stamp,
    place: Place,
    cores: Vec<Core>,
    /// The core of the line before; none, if there were too many.
    current: Option<usize>,
    /// The number of a line that came in pieces, the last of which may be still to come.
    within: Option<u64>,
    /// What is written, but may still change.
    buffer: Vec<u8>,
    holds: Vec<Hold>,
    /// Names that are spelled anew.
    spelled: Vec<u8>,
    losses: Losses,
}

/// Something in the buffer that may still change.
#[derive(Debug, Clone, Copy)]
struct Hold {
    core: usize,
    /// Where the T of IT is of a branch of which it is not known yet whether it was taken; or where a reset says where it
    /// leads.
    at: usize,
    /// The number of the reset, if it is one.
    reset: Option<u32>,
}

impl Restyler {
    /// Before the first line of a log that `from` wrote.
    pub fn new(from: Dialect, to: Style) -> Self {
        Self {
            from,
            writer: Writer::new(to),
            is_big_endian: false,
            has_continuations: false,
            has_header: to == Style::FastModels,
            stamp: Stamp::Absent,
            said: Stamp::Absent,
            place: Place { line: 0, offset: 0 },
            cores: Vec::new(),
            current: None,
            within: None,
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
        let is_next_piece = self.is_next_piece(place, line);
        if Self::is_copy(self.from, self.writer.style()) {
            self.push_raw(line);
            return out.append(&mut self.buffer);
        }
        self.place = place;
        if is_next_piece {
            return self.push_raw(line);
        }
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
        self.end_pieces();
        for core in 0..self.cores.len() {
            self.release(core);
            self.release_effects(core);
            self.flush(core);
            match self.writer.style() {
                Style::Rev3 => self.end_rev3(core),
                Style::FastModels => self.end_fast_models(core),
            }
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
        let Some(core) = self.core(line) else { return self.keep(Loss::Unknown, line) };
        match self.from.effects() {
            Effects::After => self.say(core, stamp, line),
            Effects::Before => self.hold(core, stamp, line),
        }
    }

    /// The next line of a core, where effects follow their instruction.
    fn say(&mut self, core: usize, stamp: Stamp, line: &Line<'_>) {
        self.pass_time(stamp);
        match self.writer.style() {
            Style::Rev3 => self.say_in_rev3(core, stamp, line),
            Style::FastModels => self.say_in_fast_models(core, stamp, line),
        }
    }

    /// What other cores did before this time is said before it.
    fn pass_time(&mut self, stamp: Stamp) {
        if std::mem::replace(&mut self.said, stamp) == stamp || self.cores.len() < 2 {
            return;
        }
        for core in 0..self.cores.len() {
            if self.cores[core].run.as_ref().is_some_and(|(_, since)| *since != stamp) {
                self.flush(core);
            }
        }
    }

    /// Lines that no style takes apart.
    fn keep_text(&mut self, line: &Line<'_>) {
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

    /// A line that the other style has no word for stays as it is.
    fn keep(&mut self, loss: Loss, line: &Line<'_>) {
        self.lose(loss);
        self.push_raw(line);
    }

    /// Adds a line as it is. A piece of one has no end, until it is clear that no more pieces follow.
    fn push_raw(&mut self, line: &Line<'_>) {
        self.buffer.extend_from_slice(line.raw);
        if !is_piece(line) {
            self.buffer.push(b'\n');
        }
    }

    /// Does the line go on with the one before? If not, that one has its end now.
    fn is_next_piece(&mut self, place: Place, line: &Line<'_>) -> bool {
        let number = is_piece(line).then_some(place.line);
        if number.is_some() && self.within == number {
            return true;
        }
        self.end_pieces();
        self.within = number;
        false
    }

    fn end_pieces(&mut self) {
        if self.within.take().is_some() {
            self.buffer.push(b'\n');
        }
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

    /// The number of the core that a line belongs to. Without a time and a core it goes on with the line before.
    fn core(&mut self, line: &Line<'_>) -> Option<usize> {
        let name = line.core;
        if name.is_none() && line.stamp == Stamp::Absent && !self.cores.is_empty() {
            return self.current;
        }
        let is_this = |core: &Core| core.name.as_deref() == name;
        if self.current.and_then(|current| self.cores.get(current)).is_some_and(is_this) {
            return self.current;
        }
        self.current = match self.cores.iter().position(is_this) {
            Some(core) => Some(core),
            None if self.cores.len() >= CORES || name.is_some_and(|name| name.len() > LONGEST) => None,
            None => {
                self.cores.push(Core::new(name));
                Some(self.cores.len() - 1)
            }
        };
        self.current
    }

    /// Writes a record. False: there is no such line.
    fn emit(&mut self, core: usize, stamp: Stamp, record: Record<'_>) -> bool {
        let line = Line { raw: b"", stamp, core: self.cores[core].name.as_deref(), record };
        self.writer.write(&line, &mut self.buffer).is_ok()
    }

    /// Writes the bytes that were gathered, and no more can be added to them.
    fn flush(&mut self, core: usize) {
        self.flush_run(core);
        let known = &mut self.cores[core];
        let unit = known.unit();
        if let Some(place) = known.cuts.finish(unit) {
            self.losses.add(Loss::AccessSizes, place);
        }
    }

    /// Writes the bytes that were gathered.
    fn flush_run(&mut self, core: usize) {
        let Some((run, stamp)) = self.cores[core].run.take() else { return };
        match self.writer.style() {
            Style::Rev3 => self.write_pictures(core, &run, stamp),
            Style::FastModels => self.write_accesses(core, &run, stamp),
        }
    }
}

/// Is it a part of a line that is too long to be handed out at once?
fn is_piece(line: &Line<'_>) -> bool {
    matches!(line.record, Record::Unknown(Problem { kind: ProblemKind::TooLongLine, .. }))
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
