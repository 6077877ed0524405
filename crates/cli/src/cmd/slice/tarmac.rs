//! Cutting a Tarmac log: lines of some instructions, byte for byte.

use std::io::{self, BufWriter, IntoInnerError, Write};

use anyhow::Context;
use unspool::formats::tarmac::Line;
use unspool::formats::tarmac::dialect::Effects;
use unspool::formats::tarmac::read::Place;
use unspool::formats::tarmac::record::{Record, Stamp};

use super::Args;
use crate::Verdict;
use crate::args::tell;
use crate::progress::Progress;
use crate::target::Target;
use crate::tarmac::Tarmac;

/// Cuts. The header of the log stays in front.
pub(super) fn run(args: &Args, mut file: Tarmac) -> anyhow::Result<Verdict> {
    let cannot = || format!("cannot write {}", args.output.display());
    let mut cut = Cut {
        out: BufWriter::new(Target::open(&args.output)?),
        effects: file.dialect().effects(),
        skip: args.skip,
        end: args.skip.saturating_add(args.limit.unwrap_or(u64::MAX)),
        instructions: 0,
        is_behind_header: false,
        written: None,
        has_no_time: false,
        failed: None,
    };
    let ended = file.each(&mut Progress::new(false), |place, line| cut.line(place, line))?;
    cut.end_line(file.offset());
    if let Some(error) = cut.failed {
        return Err(error).with_context(cannot);
    }
    if cut.has_no_time {
        tell(format_args!("{}: the first line of the cut has no time: it stands on a line before", file.name()));
    }
    let target = cut.out.into_inner().map_err(IntoInnerError::into_error).with_context(cannot)?;
    target.keep().with_context(cannot)?;
    Ok(file.verdict(&ended))
}

struct Cut {
    out: BufWriter<Target>,
    /// Do lines belong to the instruction before them, or to the one behind?
    effects: Effects,
    /// The instructions that are wanted.
    skip: u64,
    end: u64,
    /// Instructions so far.
    instructions: u64,
    is_behind_header: bool,
    /// Where the last line that was written ends. Its own end, one byte or two, is known when the next line comes.
    written: Option<u64>,
    has_no_time: bool,
    failed: Option<io::Error>,
}

impl Cut {
    /// Takes a line. False: no more are wanted.
    fn line(&mut self, place: Place, line: &Line<'_>) -> bool {
        self.end_line(place.offset);
        let before = self.instructions;
        self.instructions += u64::from(matches!(line.record, Record::Instruction(_)));
        let number = match self.effects {
            Effects::After => self.instructions,
            Effects::Before => before + 1,
        };
        if number > self.end || self.end == 0 {
            return false;
        }
        let is_header = matches!(line.record, Record::Header(_)) && !self.is_behind_header;
        let is_wanted = number > self.skip || self.skip == 0;
        if is_header || is_wanted {
            self.has_no_time |= !is_header && !self.is_behind_header && self.skip > 0 && line.stamp == Stamp::Absent;
            self.is_behind_header |= !is_header;
            self.written = Some(place.offset + line.raw.len() as u64);
            self.failed = self.out.write_all(line.raw).err();
        }
        self.failed.is_none()
    }

    /// The next line starts there, or the log ends.
    fn end_line(&mut self, next: u64) {
        let Some(end) = self.written.take() else { return };
        let ending: &[u8] = match next.saturating_sub(end) {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        };
        if self.failed.is_none() {
            self.failed = self.out.write_all(ending).err();
        }
    }
}
