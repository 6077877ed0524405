//! Is a log right? Rules with names, and findings with places.
//!
//! records ─▶ **check** ─▶ findings
//!
//! What the published text demands of the form of lines is asked only of logs in Rev 3; what opcodes say about branches,
//! accesses and the next instruction is asked of others too, as far as they print what it takes to know. The checker
//! remembers the last instruction of each core, so its memory does not grow with the log.
//! Specification: ARM-EPM-041435.

mod access;
mod core;
mod exception;
mod flow;
mod header;
mod instruction;
mod picture;
mod register;
mod rules;
mod time;

use std::fmt;

use unspool_model::Event;

use self::core::Core;
use self::header::Headers;
use self::time::Times;
use super::dialect::{Dialect, Effects};
use super::lower::annotation::{Annotation, core_name, cut_core};
use super::read::Place;
use super::record::{Line, ProblemKind, Record, Stamp};
pub use rules::RULES;

use rules::RuleId;
pub use unspool_model::rule::{Rule, Severity};

/// So many cores are told apart; of others nothing is asked that needs memory.
const CORES: usize = 1 << 12;
/// The longest name of a core that is remembered.
const LONGEST: usize = 1 << 8;

/// A rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which one.
    pub rule: &'static Rule,
    /// The line that breaks it.
    pub place: Place,
    /// The column in it; the first is 1.
    pub column: u32,
    /// What was found, in one sentence.
    pub detail: String,
}

/// Holds a log to the rules, line by line.
///
/// A finding is told as soon as it is certain, so it may be about a line before the last one.
///
/// ```
/// use unspool_tarmac::check::Checker;
/// use unspool_tarmac::dialect::Dialect;
/// use unspool_tarmac::parse::{ParseOptions, Parser};
/// use unspool_tarmac::read::Place;
///
/// let mut parser = Parser::new(ParseOptions::default());
/// let mut checker = Checker::new(Dialect::Rev3);
/// let mut findings = Vec::new();
/// let line = parser.parse(b"Tarmac Text Rev 2t");
/// checker.push(Place { line: 1, offset: 0 }, &line, &mut |finding| findings.push(finding));
/// assert_eq!(findings[0].rule.name, "tarmac-header-revision");
/// ```
#[derive(Debug)]
pub struct Checker {
    dialect: Dialect,
    last: Option<Place>,
    headers: Headers,
    times: Times,
    cores: Vec<Core>,
    /// The core of the line before.
    current: usize,
    has_instruction: bool,
    /// What is told once and was.
    once: Once,
}

impl Checker {
    /// Before the first line of a log that `dialect` wrote.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            last: None,
            headers: Headers::default(),
            times: Times::default(),
            cores: Vec::new(),
            current: 0,
            has_instruction: false,
            once: Once::default(),
        }
    }

    /// The next line, and where it is.
    #[inline]
    pub fn push(&mut self, place: Place, line: &Line<'_>, found: &mut impl FnMut(Finding)) {
        let out = &mut Out { place, raw: line.raw, once: &mut self.once, found };
        let is_rev3 = self.dialect == Dialect::Rev3;
        if is_rev3 {
            self.headers.line(&line.record, self.last.is_none(), out);
        }
        self.last = Some(place);
        match &line.record {
            Record::Comment(text) => return self.comment(text),
            Record::Blank | Record::Header(_) => return,
            // Lines of text can have a time of their own: the one that ends a simulation has.
            Record::Opaque(_) | Record::Unknown(_) => {}
            record if is_rev3 => self.times.rev3(line, is_start(record), &self.headers, out),
            _ => self.times.any(line, out),
        }
        let core = match line.core {
            // What stands below another line belongs to its core.
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

    /// A remark of ours may say which core follows, or that something is missing here: of the core that it names, or that
    /// of the line before.
    #[cold]
    fn comment(&mut self, text: &[u8]) {
        let remark = Annotation::parse(text);
        let named = match &remark {
            Some(Annotation::Core(core)) => Some(core_name(*core).into_bytes()),
            _ => cut_core(text).map(<[u8]>::to_vec),
        };
        let core = match named {
            Some(name) => core_of(&mut self.cores, &mut self.current, Some(&name[..]).filter(|name| !name.is_empty())),
            None => self.cores.get_mut(self.current),
        };
        if matches!(remark, Some(Annotation::Step { event: Event::Gap(_), .. })) {
            core.into_iter().for_each(Core::lose_track);
        }
    }

    /// The log ends.
    pub fn finish(&mut self, found: &mut impl FnMut(Finding)) {
        let place = self.last.unwrap_or(Place { line: 1, offset: 0 });
        let out = &mut Out { place, raw: b"", once: &mut self.once, found };
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

/// Does a step start with it?
fn is_start(record: &Record<'_>) -> bool {
    match record {
        Record::Instruction(_) | Record::Asynchronous(_) => true,
        Record::Exception(exception) => exception.is_step,
        _ => false,
    }
}

fn core_of<'c>(cores: &'c mut Vec<Core>, current: &mut usize, name: Option<&[u8]>) -> Option<&'c mut Core> {
    if !cores.get(*current).is_some_and(|core| core.is_named(name)) {
        *current = match cores.iter().position(|core| core.is_named(name)) {
            Some(index) => index,
            None if cores.len() >= CORES || name.is_some_and(|name| name.len() > LONGEST) => return None,
            None => {
                cores.push(Core::new(name));
                cores.len() - 1
            }
        };
    }
    cores.get_mut(*current)
}

fn record(core: &mut Core, line: &Line<'_>, dialect: Dialect, out: &mut Out<'_>) {
    let is_rev3 = dialect == Dialect::Rev3;
    if is_rev3 && !core.has_step && is_effect(&line.record) {
        out.add_once(RuleId::StepFirst, format_args!("no step is before it"));
    }
    match &line.record {
        Record::Instruction(instruction) => core.arrive(instruction, dialect, out),
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
            core.touch_picture(picture);
        }
        Record::Access(access) => core.touch(access),
        Record::Branch(branch) => core.branch(branch, is_rev3, out),
        Record::Unknown(problem) => {
            let rule = match problem.kind {
                ProblemKind::UnknownTag => RuleId::UnknownLine,
                _ => RuleId::Malformed,
            };
            out.add_at(out.place, problem.column, rule, format_args!("{}", problem.kind));
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

/// Are the effects of an instruction known when the next one comes, and all of them?
fn has_effects(dialect: Dialect) -> bool {
    dialect.effects() == Effects::After && matches!(dialect, Dialect::Rev3 | Dialect::FastModels | Dialect::Gem5)
}

/// The rules that are told once, and were.
#[derive(Debug, Default)]
struct Once(u64);

/// Where findings go.
struct Out<'f> {
    /// Where the line is that is looked at.
    place: Place,
    raw: &'f [u8],
    once: &'f mut Once,
    found: &'f mut dyn FnMut(Finding),
}

impl Out<'_> {
    /// The line breaks a rule.
    #[cold]
    fn add(&mut self, rule: RuleId, detail: fmt::Arguments<'_>) {
        let blanks = self.raw.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.add_at(self.place, column(blanks), rule, detail);
    }

    /// A part of the line breaks a rule.
    #[cold]
    fn add_in(&mut self, part: &[u8], rule: RuleId, detail: fmt::Arguments<'_>) {
        // Parts of records are parts of their lines.
        let at = (part.as_ptr() as usize).checked_sub(self.raw.as_ptr() as usize);
        match at.filter(|at| *at <= self.raw.len()) {
            Some(at) => self.add_at(self.place, column(at), rule, detail),
            None => self.add(rule, detail),
        }
    }

    /// Some line breaks a rule.
    #[cold]
    fn add_at(&mut self, place: Place, column: u32, rule: RuleId, detail: fmt::Arguments<'_>) {
        (self.found)(Finding { rule: rule.rule(), place, column, detail: detail.to_string() });
    }

    /// The line breaks a rule that many lines break if one does.
    #[cold]
    fn add_once(&mut self, rule: RuleId, detail: fmt::Arguments<'_>) {
        if self.is_first(rule) {
            self.add(rule, detail);
        }
    }

    /// A part of the line breaks a rule that many lines break if one does.
    #[cold]
    fn add_once_in(&mut self, part: &[u8], rule: RuleId, detail: fmt::Arguments<'_>) {
        if self.is_first(rule) {
            self.add_in(part, rule, detail);
        }
    }

    fn is_first(&mut self, rule: RuleId) -> bool {
        let bit = 1 << (rule as u64);
        let is_first = self.once.0 & bit == 0;
        self.once.0 |= bit;
        is_first
    }
}

fn column(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1)
}
