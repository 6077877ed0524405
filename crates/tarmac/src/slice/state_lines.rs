//! Lines of the registers and memory that are known at the start of a piece.
//!
//! state of a core ─▶ **lines**: register writes, and memory as reads
//!
//! Memory that was read is known and was not written by the log, so reads claim nothing else. A reader takes lines before
//! the first instruction for the state at the start; in Rev 3 they are those of a step that no instruction caused.

use unspool_model::Event;

use super::super::annotation::Annotation;
use super::super::record::{Access, Byte, Direction, Line, Picture, PictureKind, Record, Register, Stamp};
use super::super::state::Core;
use super::super::value::Value;
use super::super::write::{Style, push_hex};
use super::{KeptState, SliceOptions};

/// Start of all lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) stamp: Stamp,
    pub(super) style: Style,
    /// The log has annotations.
    pub(super) is_lowered: bool,
    /// The number of the core, if there are several.
    pub(super) number: Option<u32>,
}

/// Writes the lines of a core.
pub(super) fn write(core: &Core, head: &Head, options: SliceOptions<'_>, out: &mut Vec<u8>) {
    let mut lines = Lines { head, name: &core.name, out, digits: Vec::new(), has_begun: false };
    core.registers.each(|_, name, contents| {
        if contents.is_any_known() {
            lines.register(name, &contents.text());
        }
    });
    if options.state == KeptState::All {
        let mut words: Vec<(u64, u64, u8)> = Vec::new();
        core.memory.each_within(&(0..=u64::MAX), |number, granule| {
            let (value, known) = granule.value();
            words.push((number, value, known));
        });
        words.sort_unstable();
        words.into_iter().for_each(|(number, value, known)| lines.word(number * 8, value, known, options.big_endian));
    }
}

struct Lines<'o> {
    head: &'o Head,
    name: &'o [u8],
    out: &'o mut Vec<u8>,
    digits: Vec<u8>,
    has_begun: bool,
}

impl Lines<'_> {
    /// Begins the step that the lines are of.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        if self.head.is_lowered {
            self.head.number.into_iter().for_each(|number| Annotation::Core(number).write(self.out));
            Annotation::Step { event: Event::State, time: None, text: "" }.write(self.out);
        }
        if self.head.style == Style::Rev3 {
            self.line(Record::Asynchronous(b"Background Update"), true);
        }
    }

    fn line(&mut self, record: Record<'_>, is_first: bool) {
        let is_marked = is_first || self.head.style == Style::FastModels;
        let core = Some(self.name).filter(|name| !name.is_empty() && is_marked);
        let stamp = if is_marked { self.head.stamp } else { Stamp::Absent };
        // A record without a line in this style is left out.
        let _ = self.head.style.write(&Line { raw: b"", stamp, core, record }, self.out);
    }

    fn register(&mut self, name: &str, value: &str) {
        self.begin();
        let name = name.to_ascii_uppercase();
        let record = Register { name: name.as_bytes(), value: Value(value.as_bytes()), ..Register::default() };
        self.line(Record::Register(record), false);
    }

    /// The known bytes of eight, lowest address lowest.
    fn word(&mut self, address: u64, value: u64, known: u8, is_big_endian: bool) {
        if known == 0 {
            return;
        }
        self.begin();
        let bytes = value.to_le_bytes();
        if self.head.style == Style::Rev3 {
            let lane = (address % 16) as usize;
            let mut picture = [Byte::Untouched; 16];
            let known = (0..8).filter(|at| known >> at & 1 != 0);
            known.for_each(|at| picture[lane + at] = Byte::Known(bytes[at]));
            let (kind, address) = (PictureKind::Load, address - address % 16);
            let picture = Picture {
                kind,
                is_continuation: false,
                address,
                digits: if address > u64::from(u32::MAX) { 16 } else { 8 },
                bytes: picture,
                physical: None,
                attributes: b"",
            };
            return self.line(Record::Picture(picture), false);
        }
        let mut at = 0;
        while at < 8 {
            let end = (at..8).find(|at| known >> at & 1 == 0).unwrap_or(8);
            if end > at {
                self.access(address + at as u64, &bytes[at..end], is_big_endian);
            }
            at = end + 1;
        }
    }

    fn access(&mut self, address: u64, bytes: &[u8], is_big_endian: bool) {
        let mut digits = std::mem::take(&mut self.digits);
        digits.clear();
        match is_big_endian {
            true => bytes.iter().for_each(|byte| push_hex(&mut digits, (*byte).into(), 2)),
            false => bytes.iter().rev().for_each(|byte| push_hex(&mut digits, (*byte).into(), 2)),
        }
        let access = Access {
            direction: Direction::Read,
            size: bytes.len() as u16,
            address: Some(address),
            digits: if address > u64::from(u32::MAX) { 16 } else { 8 },
            data: Some(Value(&digits)),
            ..Access::default()
        };
        self.line(Record::Access(access), false);
        self.digits = digits;
    }
}
