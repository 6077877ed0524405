//! Checks of a log against named rules.
//!
//! records ─▶ **check** ─▶ findings
//!
//! The format rules of the specification apply to Rev 3 logs only. What opcodes imply about branches, accesses and the
//! next instruction is checked in other dialects too, as far as they print the lines for it. The checker keeps the last
//! instruction of each core, so its memory does not grow with the log.
//! Specification: ARM-EPM-041435.

mod access;
mod core;
mod exception;
mod findings;
mod flow;
mod header;
mod instruction;
mod picture;
mod register;
mod rules;
mod step;
mod time;

use unspool_model::Event;

use self::core::Core;
pub use self::findings::Finding;
use self::findings::FindingSink;
use self::header::Headers;
pub use self::rules::RULES;
use self::rules::RuleId;
use self::time::Times;
use super::annotation::{Annotation, core_name, cut_core};
use super::dialect::Dialect;
use super::read::Position;
use super::record::{Line, ProblemKind, Record, Stamp};
pub use unspool_model::rule::{Rule, Severity};

/// Maximum number of cores; lines of further cores are checked one by one only.
const MAX_CORES: usize = 1 << 12;
/// Maximum length of the name of a core.
const MAX_NAME: usize = 1 << 8;

/// Checks a log, line by line.
///
/// A finding is reported as soon as it is certain, so it may refer to an earlier line.
///
/// ```
/// use unspool_tarmac::check::Checker;
/// use unspool_tarmac::dialect::Dialect;
/// use unspool_tarmac::parse::{ParseOptions, Parser};
/// use unspool_tarmac::read::Position;
///
/// let mut parser = Parser::new(ParseOptions::default());
/// let mut checker = Checker::new(Dialect::Rev3);
/// let mut findings = Vec::new();
/// let line = parser.parse(b"Tarmac Text Rev 2t");
/// checker.push(Position { line: 1, offset: 0 }, &line, &mut |finding| findings.push(finding));
/// assert_eq!(findings[0].rule.name, "tarmac-header-revision");
/// ```
#[derive(Debug, Default)]
pub struct Checker {
    dialect: Dialect,
    last: Option<Position>,
    headers: Headers,
    times: Times,
    cores: Vec<Core>,
    /// The core of the previous line.
    current: usize,
    has_instruction: bool,
    /// Set of the rules that are reported once and were.
    once: u64,
}

impl Checker {
    /// A checker for the start of a log in this dialect.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, ..Self::default() }
    }

    /// Checks the next line.
    #[inline]
    pub fn push(&mut self, position: Position, line: &Line<'_>, found: &mut impl FnMut(Finding)) {
        let out = &mut FindingSink { position, raw: line.raw, once: &mut self.once, found };
        let is_rev3 = self.dialect == Dialect::Rev3;
        if is_rev3 {
            self.headers.line(&line.record, self.last.is_none(), out);
        }
        self.last = Some(position);
        match &line.record {
            Record::Comment(text) => return self.comment(text),
            Record::Blank | Record::Header(_) => return,
            // Opaque lines can have a time of their own, such as the line that ends a simulation.
            Record::Opaque(_) | Record::Unknown(_) => {}
            record if is_rev3 => self.times.rev3(line, record.begins_step(), &self.headers, out),
            _ => self.times.any(line, out),
        }
        let core = match line.core {
            // A line without time and core belongs to the core of the previous line.
            None if line.stamp == Stamp::Absent && !self.cores.is_empty() => self.cores.get_mut(self.current),
            name => core_of(&mut self.cores, &mut self.current, name),
        };
        let Some(core) = core else { return };
        if is_rev3 || self.dialect == Dialect::FastModels {
            core.check_order(line, out);
        }
        if let Record::Instruction(instruction) = &line.record {
            self.has_instruction = true;
            instruction::check(instruction, is_rev3, out);
        }
        record(core, line, self.dialect, out);
    }

    /// Handles our annotations: one may select a core, or mark a gap or an exception of the core that it
    /// names or of the current one.
    #[cold]
    fn comment(&mut self, text: &[u8]) {
        let annotation = Annotation::parse(text);
        let named = match &annotation {
            Some(Annotation::Core(core)) => Some(core_name(*core).into_bytes()),
            _ => cut_core(text).map(<[u8]>::to_vec),
        };
        let core = match named {
            Some(name) => core_of(&mut self.cores, &mut self.current, Some(&name[..]).filter(|name| !name.is_empty())),
            None => self.cores.get_mut(self.current),
        };
        // An exception that no line has, as the signals of a recorded program, leads elsewhere too.
        if matches!(annotation, Some(Annotation::Step { event: Event::Gap(_) | Event::Exception(_), .. })) {
            core.into_iter().for_each(Core::lose_track);
        }
    }

    /// Checks what only the end of the log shows.
    pub fn finish(&mut self, found: &mut impl FnMut(Finding)) {
        let position = self.last.unwrap_or(Position { line: 1, offset: 0 });
        let out = &mut FindingSink { position, raw: b"", once: &mut self.once, found };
        for core in &mut self.cores {
            core.end(out);
        }
        if self.last.is_none() && self.dialect == Dialect::Rev3 {
            out.add(RuleId::HeaderFirst, format_args!("the log is empty"));
        }
        if !self.has_instruction {
            out.add(RuleId::NoInstruction, format_args!("no line is an instruction"));
        }
    }
}

fn core_of<'c>(cores: &'c mut Vec<Core>, current: &mut usize, name: Option<&[u8]>) -> Option<&'c mut Core> {
    if !cores.get(*current).is_some_and(|core| core.is_named(name)) {
        *current = match cores.iter().position(|core| core.is_named(name)) {
            Some(index) => index,
            None if cores.len() >= MAX_CORES || name.is_some_and(|name| name.len() > MAX_NAME) => return None,
            None => {
                cores.push(Core::new(name));
                cores.len() - 1
            }
        };
    }
    cores.get_mut(*current)
}

fn record(core: &mut Core, line: &Line<'_>, dialect: Dialect, out: &mut FindingSink<'_>) {
    let is_rev3 = dialect == Dialect::Rev3;
    if is_rev3 && !core.has_step && is_effect(&line.record) {
        out.add_once(RuleId::StepFirst, format_args!("no step precedes it"));
    }
    match &line.record {
        Record::Instruction(instruction) => core.next_instruction(instruction, dialect, out),
        Record::Asynchronous(name) => {
            exception::check_asynchronous(name, is_rev3, out);
            core.interrupt();
        }
        Record::Exception(exception) => {
            exception::check(exception, is_rev3, out);
            core.interrupt();
        }
        Record::Register(register) => register::check(register, out),
        Record::Picture(picture) => {
            picture::check(picture, core.is_aarch64(), is_rev3, out);
            core.count_picture(picture);
        }
        Record::Access(access) => core.count_access(access),
        Record::Branch(branch) => core.branch(branch, is_rev3, out),
        Record::Unknown(problem) => {
            let rule = match problem.kind {
                ProblemKind::UnknownTag => RuleId::UnknownLine,
                _ => RuleId::Malformed,
            };
            out.add_at(out.position, problem.column, rule, format_args!("{}", problem.kind));
            core.lose_track();
        }
        Record::Event(_) | Record::Opaque(_) => core.lose_track(),
        _ => {}
    }
}

fn is_effect(record: &Record<'_>) -> bool {
    matches!(record, Record::Register(_) | Record::Operation(_) | Record::Picture(_) | Record::Branch(_))
        || matches!(record, Record::Exception(exception) if !exception.is_step)
}
