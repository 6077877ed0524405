//! Rules of the format, and findings about traces that break them.
//!
//! records ─▶ **check** ─▶ findings
//!
//! Every verifiable sentence of the specification is a [`Rule`], and so is every assumption of the reference tools. An
//! error misleads readers. Something that many producers omit and readers can do without is a warning. The checker
//! keeps the header, the current group and the previous instruction, so its memory does not grow. Unknown opcodes and
//! replaced instructions have no findings.
//! Specification: STF 1.3, and the contents of files of versions 1.2 to 1.6.

mod claims;
mod events;
mod flow;
mod group;
mod header;
mod memory;
mod opcode;
mod rules;

use std::fmt;

use super::lower::annotation::{self, Annotation, Part};
use super::read::Position;
use super::record::Record;
use claims::Claims;
use flow::Flow;
use group::Group;
use header::Header;
use memory::Memory;
use opcode::Opcodes;
pub use rules::RULES;

use rules::RuleId;
pub use unspool_model::rule::{Rule, Severity};

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// Position of the record that breaks it.
    pub position: Position,
    /// Number of the instruction that the record belongs to; the first is 1, and the header has 0.
    pub instruction: u64,
    /// The problem, in one sentence.
    pub detail: String,
}

/// Checks a trace, record by record.
///
/// A finding is emitted as soon as it is certain, so it may be about an earlier record.
///
/// ```
/// use unspool_stf::Record;
/// use unspool_stf::check::Checker;
/// use unspool_stf::read::Position;
///
/// let mut checker = Checker::new();
/// let mut findings = Vec::new();
/// let position = Position { record: 0, offset: 0 };
/// checker.push(position, &Record::Identifier(*b"ELF"), &mut |finding| findings.push(finding));
/// assert_eq!(findings[0].rule.name, "stf-identifier-first");
/// ```
#[derive(Debug, Default)]
pub struct Checker {
    /// Position of the last record, if any.
    last: Option<Position>,
    instructions: u64,
    transactions: u64,
    is_mixed: bool,
    /// Position of the end mark, and whether records after it were reported.
    end: Option<Position>,
    is_past_end: bool,
    header: Header,
    opcodes: Opcodes,
    group: Group,
    flow: Flow,
    memory: Memory,
    claims: Claims,
}

impl Checker {
    /// A checker at the start of a trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks the next record.
    #[inline]
    pub fn push(&mut self, position: Position, record: &Record<'_>, found: &mut impl FnMut(Finding)) {
        let instruction = if self.header.is_ended() { self.instructions + 1 } else { 0 };
        self.step(record, &mut Out { position, instruction, found });
        self.last = Some(position);
    }

    /// Continues after lost records, at the instruction after the first `before` ones. `pc` is its address.
    pub fn resume(&mut self, before: u64, pc: u64) {
        self.group.clear();
        (self.flow, self.instructions) = (Flow::default(), before);
        self.flow.start(pc);
        self.memory.resume();
    }

    /// Checks the end of the trace.
    pub fn finish(&mut self, found: &mut impl FnMut(Finding)) {
        let position = self.last.unwrap_or_default();
        let out = &mut Out { position, instruction: self.instructions, found };
        if self.last.is_none() {
            return out.add(RuleId::NotEmpty, format_args!("the trace is empty"));
        }
        if !self.header.is_ended() {
            out.instruction = 0;
            return out.add(RuleId::EndHeader, format_args!("the trace ends within its header"));
        }
        if let Some(position) = self.group.open {
            let detail = format_args!("the trace ends without the opcode or transaction that this belongs to");
            out.add_at(position, self.instructions + 1, RuleId::OpenGroup, detail);
        }
        if self.instructions + self.transactions == 0 {
            out.add(RuleId::NoInstruction, format_args!("nothing follows the header"));
        }
        self.memory.finish(out);
        self.claims.finish(&self.header, self.instructions + self.transactions > 0, out);
    }

    fn step(&mut self, record: &Record<'_>, out: &mut Out<'_>) {
        if let Some(end) = self.end
            && !self.is_past_end
        {
            self.is_past_end = true;
            out.add_at(end, out.instruction, RuleId::EndLast, format_args!("records follow the end mark"));
        }
        if self.header.is_ended() {
            return self.body(record, out);
        }
        match record {
            Record::InstOpcode32(_) | Record::InstOpcode16(_) | Record::Transaction(_) => {
                // A trace without the end of its header has a body nonetheless.
                out.instruction = 1;
                out.add(RuleId::EndHeader, format_args!("no end of the header before the first instruction"));
                self.header.end(out);
                self.body(record, out);
            }
            _ => self.header.record(record, self.last.map_or(0, |last| last.record + 1), out),
        }
    }

    #[inline]
    fn body(&mut self, record: &Record<'_>, out: &mut Out<'_>) {
        self.claims.record(record);
        match record {
            Record::InstOpcode32(opcode) => self.instruction(*opcode, 4, out),
            Record::InstOpcode16(opcode) => self.instruction(u32::from(*opcode), 2, out),
            Record::Transaction(transaction) => self.transaction(transaction.id, transaction.clock, out),
            Record::ReserveEnd => self.end = Some(out.position),
            Record::Comment(text) => {
                header::comment(text, out);
                self.annotation(text);
            }
            other if header::is_only_there(other.descriptor()) => {
                let name = header::name(other.descriptor());
                out.add(RuleId::OneHeader, format_args!("{name} follows the end of the header"));
            }
            other => self.group.record(other, &mut self.header, out),
        }
    }

    /// Follows an annotation, if annotations are announced.
    fn annotation(&mut self, text: &[u8]) {
        let Some((part, annotation)) = annotation::parse(text).filter(|_| self.header.has_annotations) else { return };
        self.group.is_after |= part == Part::Then;
        match annotation {
            Annotation::Isa(isa) => self.header.instruction_set(isa),
            Annotation::Access(_) | Annotation::Branch(_) | Annotation::Executed(_) => self.group.is_annotated = true,
            // An exception whose event has no number.
            Annotation::Exception(_) if self.group.is_after => self.group.events.has_trap = true,
            Annotation::Exception(_) => self.group.follows_exception = true,
            _ => {}
        }
    }

    fn instruction(&mut self, opcode: u32, length: u8, out: &mut Out<'_>) {
        self.mix(self.transactions > 0, "an instruction among transactions", out);
        if self.instructions == 0 {
            self.flow.start(self.header.pc);
        }
        self.header.opcode(opcode, length);
        let known = self.opcodes.lookup(opcode, length, &self.header);
        self.claims.instruction(&known);
        if !self.group.is_plain()
            || self.flow.owes()
            || self.memory.owes()
            || known.is_special
            || self.instructions == 0
        {
            let is_first = self.instructions == 0;
            self.group.check(opcode, length, &known, is_first, out);
            let is_redirected = self.flow.arrive(&self.group, out);
            if let Some((position, instruction)) = self.memory.arrive(is_redirected, out)
                && self.header.is_riscv()
                && !self.group.follows_exception
            {
                self.flow.unseen(position, instruction, out);
            }
            self.flow.leave(&self.group, &known, is_first, &self.header, out);
            self.memory.check(&self.group, &known, out);
            self.group.clear();
        } else {
            self.flow.advance(length);
        }
        self.instructions += 1;
    }

    fn transaction(&mut self, id: u64, clock: u8, out: &mut Out<'_>) {
        self.mix(self.instructions > 0, "a transaction among instructions", out);
        self.transactions += 1;
        if id == 0 {
            out.add(RuleId::TransactionNumber, format_args!("the transaction has the number 0"));
        }
        self.header.check_clock(clock, out);
        self.group.clear();
    }

    /// Reports a mix of instructions and transactions once.
    #[inline]
    fn mix(&mut self, is_mixed: bool, what: &'static str, out: &mut Out<'_>) {
        if is_mixed && !self.is_mixed {
            self.is_mixed = true;
            out.add(RuleId::Mixed, format_args!("{what}"));
        }
    }
}

/// Sink of findings.
struct Out<'f> {
    position: Position,
    instruction: u64,
    found: &'f mut dyn FnMut(Finding),
}

impl Out<'_> {
    /// Reports the current record.
    #[cold]
    fn add(&mut self, rule: RuleId, detail: fmt::Arguments<'_>) {
        self.add_at(self.position, self.instruction, rule, detail);
    }

    /// Reports another record of the instruction.
    #[cold]
    fn add_in(&mut self, position: Position, rule: RuleId, detail: fmt::Arguments<'_>) {
        self.add_at(position, self.instruction, rule, detail);
    }

    /// Reports an earlier record.
    #[cold]
    fn add_at(&mut self, position: Position, instruction: u64, rule: RuleId, detail: fmt::Arguments<'_>) {
        (self.found)(Finding { rule: rule.rule(), position, instruction, detail: detail.to_string() });
    }
}
