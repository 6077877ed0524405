//! The system event log of a package: one event per line.
//!
//! lines of text ─▶ **log** ─▶ [`SystemEvent`]s, and problems with line and column; and back
//!
//! The calls are those of Arm's "CoreSight trace decode metadata requirements", headings "Dynamic changes to code" and
//! "Trace configuration changes", which defines no concrete syntax; ours is in `docs/event-log.md`. Knows nothing of
//! the meaning of the events. A line that is not an event is a problem and is skipped; memory is limited, whatever the
//! text is.

mod parse;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use crate::capture::Capture;
use crate::event::SystemEvent;
use crate::note::{Location, Note, NoteKind};

pub(crate) use parse::quoted;

/// Maximum number of bytes of a line. Half of it is the largest code that a line can contain.
const LINE_LIMIT: u64 = 1 << 20;
/// Maximum number of bytes of a log.
pub(crate) const TEXT_LIMIT: u64 = 256 << 20;
/// Maximum number of events.
pub(crate) const EVENT_LIMIT: usize = 4 << 20;
/// Maximum number of problems that are kept; the rest are counted.
const PROBLEM_LIMIT: usize = 100;

/// A system event log.
///
/// ```
/// use unspool_capture::SystemLog;
/// let text = "1200 declare_process(START, 312, 0x400000, \"bin/app\")\n1250 declare_thread(START, 313)\n";
/// let log = SystemLog::read(text.as_bytes());
/// assert_eq!(log.events.len(), 1);
/// assert_eq!(log.problems[0].to_string(), "2:31: expected `,`");
/// assert_eq!(log.to_string(), "1200 declare_process(START, 312, 0x400000, \"bin/app\", \"\")\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemLog {
    /// The events, in the order of the lines. The place of an event is its line.
    pub events: Vec<SystemEvent>,
    /// The first lines that are not events, in order.
    pub problems: Vec<LogProblem>,
    /// Number of further problems.
    pub more_problems: u64,
    /// Number of lines, including empty ones and comments.
    pub lines: u64,
}

/// A line that is not an event, or the end of the readable part of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {kind}")]
pub struct LogProblem {
    /// The line, from 1.
    pub line: u64,
    /// The character in the line, from 1.
    pub column: u64,
    /// What was found.
    pub kind: LogProblemKind,
}

/// What was found in place of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogProblemKind {
    /// Something else than what the syntax has here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A call that the log does not define.
    #[error("unknown call `{0}`")]
    UnknownCall(String),
    /// A number that the argument cannot have.
    #[error("the number is larger than {0:#x}")]
    TooLarge(u64),
    /// Code whose size is not the length of the patch.
    #[error("the code has {found} bytes, but the length is {length}")]
    CodeLength {
        /// The length of the patch.
        length: u64,
        /// Number of bytes of code.
        found: u64,
    },
    /// A line with bytes that are not UTF-8.
    #[error("the line is not UTF-8")]
    NotUtf8,
    /// A line over the limit.
    #[error("the line is longer than {LINE_LIMIT} bytes")]
    LongLine,
    /// The rest of the log is ignored.
    #[error("the log has more than {TEXT_LIMIT} bytes; the rest is ignored")]
    LongLog,
    /// The rest of the log is ignored.
    #[error("the log has more than {EVENT_LIMIT} events; the rest are ignored")]
    ManyEvents,
    /// Reading failed here.
    #[error("cannot be read further: {0}")]
    Unreadable(String),
}

/// Counts of a list of events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventSummary {
    /// Number of events by the name of the call, in alphabetical order.
    pub calls: Vec<(&'static str, u64)>,
    /// The earliest and the latest time.
    pub times: Option<(u64, u64)>,
    /// Number of events whose time is unknown.
    pub without_time: u64,
}

impl SystemLog {
    /// Reads a log up to its end, or up to an error of the input, which is the last problem.
    pub fn read(input: impl BufRead) -> Self {
        let mut input = input.take(TEXT_LIMIT);
        let mut log = Self::default();
        loop {
            match read_line(&mut input) {
                Ok(None) => break,
                Ok(Some(line)) => {
                    log.lines += 1;
                    if !log.add_line(&line) {
                        return log;
                    }
                }
                Err(error) => {
                    log.lines += 1;
                    log.report(0, LogProblemKind::Unreadable(error.to_string()));
                    return log;
                }
            }
        }
        // The bytes before the limit are used up; whether there are more is for the underlying input to say.
        if input.limit() == 0 && input.get_mut().fill_buf().is_ok_and(|rest| !rest.is_empty()) {
            log.report(0, LogProblemKind::LongLog);
        }
        log
    }

    /// Counts of the events.
    pub fn summary(&self) -> EventSummary {
        EventSummary::new(&self.events)
    }

    /// Whether reading can resume at the next line.
    fn add_line(&mut self, line: &Line) -> bool {
        let text = match line {
            Line::Whole(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => {
                    let valid = String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default());
                    self.report(valid.chars().count(), LogProblemKind::NotUtf8);
                    return true;
                }
            },
            Line::Long => {
                self.report(0, LogProblemKind::LongLine);
                return true;
            }
        };
        let text = if self.lines == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        match parse::line(text) {
            Ok(None) => {}
            Ok(Some(_)) if self.events.len() >= EVENT_LIMIT => {
                self.report(0, LogProblemKind::ManyEvents);
                return false;
            }
            Ok(Some((time, call))) => self.events.push(SystemEvent { time, place: self.lines, call }),
            Err((at, kind)) => self.report(text.get(..at).unwrap_or_default().chars().count(), kind),
        }
        true
    }

    /// Adds a problem in the current line, after a number of characters.
    fn report(&mut self, after: usize, kind: LogProblemKind) {
        let (line, column) = (self.lines, after as u64 + 1);
        // The last one describes what is missing, so it is always kept.
        let is_last =
            matches!(kind, LogProblemKind::LongLog | LogProblemKind::ManyEvents | LogProblemKind::Unreadable(_));
        if self.problems.len() < PROBLEM_LIMIT || is_last {
            self.problems.push(LogProblem { line, column, kind });
        } else {
            self.more_problems += 1;
        }
    }

    /// The problems as notes on a file.
    pub fn notes(&self, file: &str) -> Vec<Note> {
        let each = self.problems.iter().map(|problem| {
            let kind = match problem.kind {
                LogProblemKind::LongLog | LogProblemKind::ManyEvents => NoteKind::TooMany,
                LogProblemKind::Unreadable(_) => NoteKind::Unreadable,
                _ => NoteKind::MalformedLine,
            };
            let at = Location::line(file, u32::try_from(problem.line).unwrap_or(0));
            at.note(kind, format!("column {}: {}", problem.column, problem.kind))
        });
        let more = (self.more_problems > 0).then(|| {
            let text = format!("{} more lines that are not events are not listed", self.more_problems);
            Location::file(file).note(NoteKind::TooMany, text)
        });
        each.chain(more).collect()
    }
}

impl EventSummary {
    /// Counts events, from a log or from another source.
    pub fn new(events: &[SystemEvent]) -> Self {
        let mut calls: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut summary = Self::default();
        for event in events {
            *calls.entry(event.call.name()).or_default() += 1;
            match (event.time, summary.times) {
                (None, _) => summary.without_time += 1,
                (Some(time), None) => summary.times = Some((time, time)),
                (Some(time), Some((first, last))) => summary.times = Some((first.min(time), last.max(time))),
            }
        }
        summary.calls = calls.into_iter().collect();
        summary
    }
}

impl fmt::Display for EventSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.calls.iter().map(|(_, count)| count).sum();
        write!(f, "{total} {}", if total == 1 { "event" } else { "events" })?;
        if let Some((first, last)) = self.times {
            write!(f, " at {first} to {last}")?;
        }
        if self.without_time > 0 {
            write!(f, ", {} without time", self.without_time)?;
        }
        for (at, (name, count)) in self.calls.iter().enumerate() {
            write!(f, "{} {count} x {name}", if at == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

/// Reads the events of a capture from its log. Problems become notes.
pub(crate) fn load(capture: &mut Capture) {
    let Some(log) = capture.event_log.clone().filter(|log| log.size.is_some()) else { return };
    match capture.open_file(&log.file) {
        Ok(file) => {
            let mut read = SystemLog::read(BufReader::with_capacity(1 << 16, file));
            capture.events = std::mem::take(&mut read.events);
            read.notes(&log.file).into_iter().for_each(|note| capture.add_note(note));
        }
        Err(error) => capture.note(Location::file(&log.file), NoteKind::Unreadable, error.to_string()),
    }
}

/// A line without its line break.
enum Line {
    Whole(Vec<u8>),
    /// Over the limit.
    Long,
}

fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    input.by_ref().take(LINE_LIMIT + 1).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() as u64 > LINE_LIMIT {
        skip_line(input)?;
        return Ok(Some(Line::Long));
    }
    Ok(Some(Line::Whole(bytes)))
}

/// Skips the rest of a line without keeping it.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let rest = match input.fill_buf() {
            Ok(rest) => rest,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = rest.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(rest.len(), |at| at + 1);
        input.consume(count);
        if end.is_some() || count == 0 {
            return Ok(());
        }
    }
}
