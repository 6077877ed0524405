//! What was found, in text and in JSON.
//!
//! Comes in: findings of any rules. Goes out: a line for each, and a summary. What the rules of the format have found is
//! not told again of the steps.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::Args;
use crate::cmd::{grouped, many};
use crate::json::Object;
use crate::output::Output;

/// A finding, of whatever rules.
pub(super) struct Found<'f> {
    pub(super) rule: Rule,
    /// The number of the record or of the line, or an offset in a buffer.
    pub(super) place: u64,
    pub(super) offset: Option<u64>,
    pub(super) instruction: Option<u64>,
    pub(super) column: Option<u32>,
    /// Of steps.
    pub(super) core: Option<u32>,
    pub(super) detail: &'f str,
}

impl<'f> Found<'f> {
    pub(super) fn new(rule: Rule, place: u64, detail: &'f str) -> Self {
        Self { rule, place, offset: None, instruction: None, column: None, core: None, detail }
    }
}

/// A rule, of whatever rules.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) is_error: bool,
    pub(super) section: &'static str,
    pub(super) says: &'static str,
}

/// Findings of the format that are remembered.
const REMEMBERED: usize = 1 << 16;

/// What was found.
pub(super) struct Report<'a> {
    args: &'a Args,
    pub(super) name: String,
    /// What is counted, and what places are.
    of: &'static str,
    /// The source of a capture.
    pub(super) source: Option<String>,
    pub(super) records: u64,
    pub(super) sources: u64,
    /// How many steps and gaps, and findings of steps that were not told again; `None`: they were not checked.
    pub(super) steps: Option<Steps>,
    /// Steps could not be checked: it was a pipe.
    pub(super) is_read_once: bool,
    /// Something that has no rule was odd, and it was told.
    pub(super) is_odd: bool,
    /// How often each rule was broken.
    rules: BTreeMap<&'static str, (Rule, u64)>,
    /// What the rules of the format found: what about, where, and whether it is an error.
    native: BTreeSet<(Topic, u64, bool)>,
    line: String,
}

/// What became of steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steps {
    pub(super) steps: u64,
    pub(super) gaps: u64,
    /// Findings that are like one that was told.
    pub(super) repeats: u64,
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Flow,
    Accesses,
    State,
    Time,
}

/// Words in the names of rules, and what they are about.
const TOPICS: [(Topic, &[&str]); 4] = [
    (Topic::Accesses, &["access", "memory"]),
    (Topic::State, &["level", "context", "mode", "security", "isa"]),
    (Topic::Time, &["time"]),
    (Topic::Flow, &["pc", "branch", "target", "trap", "vector", "length", "align", "condition", "exception", "return"]),
];

fn topic(name: &str) -> Option<Topic> {
    let has = |words: &[&str]| words.iter().any(|word| name.split('-').any(|part| part.starts_with(word)));
    TOPICS.iter().find(|(_, words)| has(words)).map(|(topic, _)| *topic)
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a Args) -> Self {
        Self {
            args,
            name: args.file.display().to_string(),
            of: "offset",
            source: None,
            records: 0,
            sources: 0,
            steps: None,
            is_read_once: false,
            is_odd: false,
            rules: BTreeMap::new(),
            native: BTreeSet::new(),
            line: String::new(),
        }
    }

    /// It is about this, in which places are such.
    pub(super) fn begin(&mut self, name: &str, of: &'static str) {
        name.clone_into(&mut self.name);
        self.of = of;
    }

    /// A finding of the format.
    pub(super) fn add(&mut self, found: &Found<'_>, output: &mut Output) {
        if let Some(topic) = topic(found.rule.name).filter(|_| self.native.len() < REMEMBERED) {
            self.native.insert((topic, found.place, found.rule.is_error));
        }
        self.tell(found, output);
    }

    /// A finding of a step, whose records end before `until`. If the format has one there that is as bad, it is counted.
    pub(super) fn add_step(&mut self, found: &Found<'_>, until: u64, output: &mut Output) {
        let is_told = topic(found.rule.name).is_some_and(|topic| {
            let places = (topic, found.place, false)..(topic, until.max(found.place.saturating_add(1)), false);
            self.native.range(places).any(|(_, _, is_error)| *is_error || !found.rule.is_error)
        });
        if !is_told {
            self.tell(found, output);
        } else if let Some(steps) = &mut self.steps {
            steps.repeats += 1;
        }
    }

    fn tell(&mut self, found: &Found<'_>, output: &mut Output) {
        let (_, count) = self.rules.entry(found.rule.name).or_insert((found.rule, 0));
        *count += 1;
        if self.args.limit.is_some_and(|limit| *count > limit) {
            return;
        }
        if self.args.output.json { self.tell_json(found, output) } else { self.tell_text(found, output) }
    }

    fn tell_text(&self, found: &Found<'_>, output: &mut Output) {
        let &Found { rule, place, offset, instruction, column, core, detail } = found;
        let source = self.source.as_ref().map_or_else(String::new, |source| format!(" {source}"));
        let at = match (self.of, offset) {
            ("offset", _) => format!("offset {place:#x}"),
            ("record", Some(offset)) => format!("record {place} at offset {offset:#x}"),
            (of, _) => format!("{of} {place}"),
        };
        let column = column.map_or_else(String::new, |column| format!(", column {column}"));
        let instruction = instruction.filter(|number| *number > 0);
        let instruction = instruction.map_or_else(String::new, |number| format!(" (instruction {number})"));
        let core = core.filter(|core| *core > 0).map_or_else(String::new, |core| format!(", core {core}"));
        let (name, rule) = (&self.name, rule.name);
        output.write(|out| writeln!(out, "{name}{source}: {at}{column}{instruction}{core}: {rule}: {detail}"));
    }

    fn tell_json(&mut self, found: &Found<'_>, output: &mut Output) {
        let &Found { rule, place, offset, instruction, column, core, detail } = found;
        let mut object = Object::new(&mut self.line);
        object.string("kind", "finding");
        if let Some(source) = &self.source {
            object.string("source", source);
        }
        object.plain(self.of, place).optional("column", column).optional("offset", offset);
        object.optional("instruction", instruction).optional("core", core).string("rule", rule.name);
        object.string("severity", severity_name(rule.is_error)).string("section", rule.section);
        object.string("detail", detail);
        output.write(|out| object.finish(out));
    }

    fn count(&self, is_error: bool) -> u64 {
        self.rules.values().filter(|(rule, _)| rule.is_error == is_error).map(|(_, count)| count).sum()
    }

    pub(super) fn is_bad(&self, deny_warnings: bool) -> bool {
        self.count(true) > 0 || deny_warnings && (self.is_odd || self.count(false) > 0)
    }

    /// What it comes to.
    pub(super) fn summary(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.args.output.json { self.summary_json(out) } else { self.summary_text(out) }
    }

    fn summary_json(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let [errors, warnings] = [true, false].map(|is_error| self.count(is_error));
        let rules: BTreeMap<&str, u64> = self.rules.iter().map(|(name, (_, count))| (*name, *count)).collect();
        let mut object = Object::new(&mut self.line);
        object.string("kind", "summary");
        match self.of {
            "offset" => object.plain("sources", self.sources),
            _ if self.args.steps => &mut object,
            of => object.plain(&format!("{of}s"), self.records),
        };
        if let Some(Steps { steps, gaps, repeats }) = self.steps {
            object.plain("steps", steps).plain("gaps", gaps).plain("repeats", repeats);
        } else if self.is_read_once {
            object.nullable("steps", None::<u64>);
        }
        object.plain("errors", errors).plain("warnings", warnings).plain("rules", serde_json::json!(rules));
        object.finish(out)
    }

    fn summary_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let [errors, warnings] = [true, false].map(|is_error| self.count(is_error));
        let mut parts = Vec::new();
        match self.of {
            "offset" => parts.push(many(self.sources, "source")),
            _ if self.args.steps => {}
            of => parts.push(many(self.records, of)),
        }
        if let Some(Steps { steps, gaps, .. }) = self.steps {
            parts.push(many(steps, "step"));
            parts.extend((gaps > 0).then(|| many(gaps, "gap")));
        } else if self.is_read_once {
            parts.push("steps not checked (a pipe is read once: see --steps)".to_string());
        }
        if self.rules.is_empty() {
            return writeln!(out, "{}: {}, nothing found", self.name, parts.join(", "));
        }
        parts.extend([many(errors, "error"), many(warnings, "warning")]);
        writeln!(out, "{}: {}", self.name, parts.join(", "))?;
        for (rule, count) in self.rules.values() {
            let severity = severity_name(rule.is_error);
            writeln!(out, "{:>10} {severity:<7} {} ({}): {}", grouped(*count), rule.name, rule.section, rule.says)?;
        }
        match self.steps {
            Some(Steps { repeats, .. }) if repeats > 0 => {
                writeln!(out, "{:>10} more of steps are like one that was told", grouped(repeats))
            }
            _ => Ok(()),
        }
    }
}

fn severity_name(is_error: bool) -> &'static str {
    if is_error { "error" } else { "warning" }
}
