//! The rules of the format, and what breaks them.
//!
//! records ─▶ **check** ─▶ findings
//!
//! Every sentence of the document that a trace can be held to is a [`Rule`]. The checker remembers the last instruction,
//! the last Context and what is still owed, and little else, so its memory does not grow. Where the document leaves
//! room, and of opcodes that are unknown here, nothing is found; after a mistake it goes on from what is there.
//! Specification: Arm Architectural Structured Trace Format, issue 0.11, "Trace levels" and "Trace format".

mod chain;
mod context;
mod flow;
mod header;
mod memory;
mod opcode;
mod range;
mod reserved;
mod rules;
mod strings;
mod time;
mod trap;

use std::fmt;

use super::layout::Bytes;
use super::record::{ContextView, ExtraEaView, InstructionView, Level, RECORD_BYTES, TimestampView, TrapView, View};
use chain::{Chain, Origin};
use context::State;
use flow::{Flow, Next};
use opcode::{Opcode, Opcodes};
pub use rules::RULES;

use rules::RuleId;
use strings::Strings;
use time::Time;
use trap::{Before, Last, Owed};
pub use unspool_model::rule::{Rule, Severity};

/// A rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which one.
    pub rule: &'static Rule,
    /// The number of the record that breaks it; the Header is 1.
    pub record: u64,
    /// Where the record starts in the uncompressed trace.
    pub offset: u64,
    /// What was found, in one sentence.
    pub detail: String,
}

/// All that a checker remembers of a trace, to go back to.
#[derive(Debug)]
pub(super) struct Mark {
    records: u64,
    has_instruction: bool,
    flow: Flow,
    chain: Chain,
    owed: Owed,
    last: Last,
    state: State,
    strings: Strings,
    time: Time,
}

/// Holds a trace to the rules, record by record.
///
/// A finding is told as soon as it is certain, so it may be about a record before the last one: what an instruction
/// owes is found missing only when the next one comes.
///
/// ```
/// use unspool_astf::check::Checker;
/// use unspool_astf::record::{Header, Level, Storage};
///
/// let mut checker = Checker::new();
/// let mut findings = Vec::new();
/// checker.push(&Header::new(Level::Basic, false, Storage::Raw).to_bytes(), &mut |finding| findings.push(finding));
/// checker.finish(&mut |finding| findings.push(finding));
/// assert_eq!(findings[0].rule.name, "astf-level-records");
/// ```
#[derive(Debug, Clone)]
pub struct Checker {
    /// How many records there were.
    records: u64,
    /// `None` without a Header; then what depends on it is not checked.
    level: Option<Level>,
    has_instruction: bool,
    opcodes: Opcodes,
    flow: Flow,
    chain: Chain,
    owed: Owed,
    last: Last,
    state: State,
    strings: Strings,
    time: Time,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    /// Before the first record.
    pub fn new() -> Self {
        Self {
            records: 0,
            level: None,
            has_instruction: false,
            opcodes: Opcodes::new(),
            flow: Flow::default(),
            chain: Chain::default(),
            owed: Owed::Nothing,
            last: Last::default(),
            state: State::default(),
            strings: Strings::default(),
            time: Time::default(),
        }
    }

    /// The next record; the Header is the first.
    pub fn push(&mut self, record: &Bytes, found: &mut impl FnMut(Finding)) {
        self.records += 1;
        self.step(View::new(record), &mut Out { record: self.records, found });
    }

    /// The trace ends.
    pub fn finish(&mut self, found: &mut impl FnMut(Finding)) {
        let out = &mut Out { record: self.records.max(1), found };
        if self.records == 0 {
            return out.add(RuleId::HeaderFirst, format_args!("the trace is empty"));
        }
        // A Context is owed only to a next instruction.
        self.owed = if self.owed == Owed::Context { Owed::Nothing } else { self.owed };
        self.settle(out);
        self.strings.end(out);
        if !self.has_instruction {
            out.add(RuleId::LevelRecords, format_args!("{} records, and no Instruction", self.records));
        }
    }

    /// Takes the record if it is an instruction that did what it always does, so that no rule is broken. Else nothing
    /// happens.
    #[inline]
    pub(super) fn push_usual(&mut self, record: &Bytes) -> bool {
        let View::Instruction(view) = View::new(record) else { return false };
        let is_usual = self.is_usual(view);
        if is_usual {
            self.records += 1;
            self.go_on(view);
        }
        is_usual
    }

    /// May instructions that do what they always do be taken from `pc` on? Then [`pass`](Self::pass) takes them.
    #[inline]
    pub(super) fn leads_to(&self, pc: u64) -> bool {
        self.is_between() && self.flow.leads_to(pc)
    }

    /// Takes instructions that did what they always do, each where the one before leads to, by their last one.
    pub(super) fn pass(&mut self, count: u64, last: &Bytes, next: u64) {
        self.records += count;
        if let View::Instruction(view) = View::new(last) {
            self.go_on(view);
            self.flow.leave(view.pc(), Next::At(next));
        }
    }

    /// Is this record one of an instruction that did what it always does, wherever it is? So is a branch that was taken to
    /// where it leads.
    pub(super) fn is_certain(&mut self, record: &Bytes) -> bool {
        let View::Instruction(view) = View::new(record) else { return false };
        let opcode = self.opcodes.of(view.iword());
        opcode.is_usual(view) || opcode.is_taken(view)
    }

    /// What is remembered, behind the Header.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            records: self.records,
            has_instruction: self.has_instruction,
            flow: self.flow.clone(),
            chain: self.chain.clone(),
            owed: self.owed,
            last: self.last.clone(),
            state: self.state.clone(),
            strings: self.strings.clone(),
            time: self.time.clone(),
        }
    }

    /// Everything is as it was at the mark.
    pub(super) fn go_back(&mut self, mark: Mark) {
        (self.records, self.has_instruction) = (mark.records, mark.has_instruction);
        (self.flow, self.chain, self.owed, self.last) = (mark.flow, mark.chain, mark.owed, mark.last);
        (self.state, self.strings, self.time) = (mark.state, mark.strings, mark.time);
    }

    fn step(&mut self, view: View<'_>, out: &mut Out<'_>) {
        if let View::Instruction(record) = view
            && self.is_usual(record)
        {
            return self.go_on(record);
        }
        self.look(view, out);
    }

    /// Nothing is owed, and the instruction is where it should be and did what it always does.
    ///
    /// Nearly all records of a trace are such, so they are told apart from the others by a few comparisons.
    #[inline]
    fn is_usual(&mut self, record: InstructionView<'_>) -> bool {
        self.leads_to(record.pc()) && self.opcodes.of(record.iword()).is_usual(record)
    }

    /// Nothing is owed, and nothing is open.
    #[inline]
    fn is_between(&self) -> bool {
        let is_calm = self.state.is_calm() && self.time.is_started() && self.owed == Owed::Nothing;
        is_calm && !self.chain.is_open() && !self.strings.is_open()
    }

    /// What remains to be done of a usual instruction.
    #[inline]
    fn go_on(&mut self, record: InstructionView<'_>) {
        self.flow.go_on(record.pc());
        self.chain.none();
        self.time.other();
        self.last = Last::new(record, self.records);
    }

    fn look(&mut self, view: View<'_>, out: &mut Out<'_>) {
        if self.records == 1 && !matches!(view, View::Header(_)) {
            out.add(RuleId::HeaderFirst, format_args!("the first record is {}", name(view)));
        }
        reserved::check(view, out);
        if self.strings.is_open() {
            self.strings.meet(view, out);
        }
        match view {
            View::Instruction(record) => self.instruction(record, out),
            View::ExtraEa(record) => self.extra_ea(record, out),
            View::Trap(record) => self.trap(record, out),
            View::Context(record) => self.context(record, out),
            View::Timestamp(record) => self.timestamp(record, out),
            View::Header(record) => self.header(record, out),
            View::StringStart(record) => {
                self.chain.settle(out);
                self.state.string(out);
                self.strings.start(record, out);
            }
            View::StringContinuation(record) => {
                self.chain.settle(out);
                self.strings.go_on(record, out);
            }
            View::Unknown(bytes) => out.add(RuleId::UnknownRecord, format_args!("the type is {:#04x}", bytes[0])),
        }
    }

    fn instruction(&mut self, record: InstructionView<'_>, out: &mut Out<'_>) {
        self.settle(out);
        self.time.execution(out);
        self.state.instruction(self.level, out);
        let opcode = *self.opcodes.of(record.iword());
        let is_clean = self.flow.arrive(record.pc(), out);
        let next = if flow::is_branch_flag_right(record, &opcode, out) {
            self.execute(record, &opcode, out)
        } else {
            self.chain.start_unchecked(record, out);
            Next::Anywhere
        };
        self.flow.leave(record.pc(), if is_clean { next } else { Next::Anywhere });
        self.last = Last::new(record, out.record);
        self.owe(record, &opcode, out);
    }

    /// Where the instruction leads to.
    fn execute(&mut self, record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) -> Next {
        memory::attribute(record, opcode, out);
        let next = if record.is_branch() {
            self.chain.start_unchecked(record, out);
            flow::branch(record, opcode, out)
        } else {
            let origin = Origin::new(record, out.record, opcode, self.state.told());
            self.chain.start(record, &origin, out);
            flow::behind(record, opcode, self.level)
        };
        if record.trap() { flow::behind_trap(record, opcode, self.level) } else { next }
    }

    /// What has to come before the next instruction.
    fn owe(&mut self, record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) {
        self.has_instruction = true;
        if !record.trap() {
            flow::must_trap(self.level, record, opcode, out);
            self.state.expect(opcode.sets);
        }
        self.owed = Owed::by(self.level, record.trap(), opcode);
    }

    fn extra_ea(&mut self, record: ExtraEaView<'_>, out: &mut Out<'_>) {
        let opcode = self.opcodes.of(self.last.word);
        let Last { record: number, word, is_trapped: trap, .. } = self.last;
        let origin = Origin { record: number, word, opcode, trap, context: self.state.told() };
        self.chain.extra(record, &origin, out);
    }

    fn trap(&mut self, record: TrapView<'_>, out: &mut Out<'_>) {
        self.chain.settle(out);
        self.time.other();
        match self.level {
            Some(Level::Basic) => out.add(RuleId::TrapInBasic, format_args!("the trace is Basic")),
            _ => self.redirect(record, out),
        }
    }

    fn redirect(&mut self, record: TrapView<'_>, out: &mut Out<'_>) {
        let before = Before {
            owed: self.owed,
            last: &self.last,
            opcode: self.opcodes.of(self.last.word),
            is_leaving: self.state.is_unsupported(),
        };
        trap::check(record, &before, out);
        trap::check_abort(record, &before, &self.chain, out);
        self.owed = Owed::Nothing;
        self.state.trap(record.trap_type(), out);
        let target = record.target_pc();
        let is_clean = flow::check_address("target", target, out);
        self.flow.leave(target, if is_clean { Next::At(target) } else { Next::Anywhere });
    }

    fn context(&mut self, record: ContextView<'_>, out: &mut Out<'_>) {
        self.chain.settle(out);
        self.time.execution(out);
        let is_early = self.owed.is_trap() && !record.unsupported();
        if is_early {
            out.add(RuleId::TrapOrder, format_args!("the Trap of record {} is still to come", self.last.record));
        }
        if self.level != Some(Level::BasicPlus) || record.unsupported() || self.state.is_lost() {
            self.flow.lose();
        }
        if is_early || record.unsupported() || self.owed == Owed::Context {
            self.owed = Owed::Nothing;
        }
        self.state.context(record.get(), self.level, is_early, out);
    }

    fn timestamp(&mut self, record: TimestampView<'_>, out: &mut Out<'_>) {
        if self.chain.is_open() {
            out.add(RuleId::TimestampInterleaves, format_args!("an Extra EA is still to come"));
        }
        self.state.timestamp(out);
        let level = self.level.filter(|_| !self.state.is_unsupported());
        self.time.timestamp(record.get(), level, out);
    }

    /// The last instruction is over: what was owed came, or does not come.
    #[inline]
    fn settle(&mut self, out: &mut Out<'_>) {
        self.chain.settle(out);
        if self.owed != Owed::Nothing {
            self.owed.settle(&self.last, out);
            self.owed = Owed::Nothing;
        }
    }
}

/// Where findings go.
struct Out<'f> {
    /// The number of the record that is looked at.
    record: u64,
    found: &'f mut dyn FnMut(Finding),
}

impl Out<'_> {
    /// The record breaks a rule.
    #[cold]
    fn add(&mut self, rule: RuleId, detail: fmt::Arguments<'_>) {
        self.add_at(self.record, rule, detail);
    }

    /// An earlier record breaks a rule.
    #[cold]
    fn add_at(&mut self, record: u64, rule: RuleId, detail: fmt::Arguments<'_>) {
        let offset = record.saturating_sub(1) * RECORD_BYTES as u64;
        (self.found)(Finding { rule: rule.rule(), record, offset, detail: detail.to_string() });
    }
}

/// What a record is called.
fn name(view: View<'_>) -> &'static str {
    match view {
        View::Header(_) => "a Header",
        View::Instruction(_) => "an Instruction",
        View::Trap(_) => "a Trap",
        View::ExtraEa(_) => "an Extra EA",
        View::Context(_) => "a Context",
        View::StringStart(_) => "a String",
        View::StringContinuation(_) => "a String continuation",
        View::Timestamp(_) => "a Timestamp",
        View::Unknown(_) => "of an unknown type",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::record::{Context, Header, Instruction, Storage};
    use super::*;

    /// ADD, LDR, STR, LDADD, STXR, LDP, B.NE, B, RET, SVC, ERET, STG, SMSTART, NOP, and one that is unknown.
    const WORDS: [u32; 15] = [
        0x9100_0400,
        0xf940_0020,
        0xf900_0020,
        0xf820_0041,
        0xc800_7c41,
        0xa941_53f3,
        0x5400_0041,
        0x1400_0001,
        0xd65f_03c0,
        0xd400_0001,
        0xd69f_03e0,
        0xd920_0820,
        0xd503_437f,
        0xd503_201f,
        0x5600_0000,
    ];

    fn instruction(index: u64, (word, start, ea, odd): (u32, u32, u64, u8)) -> Bytes {
        let pc = 0x40_0000 + 4 * index + [4, 0, 2, 2].get(usize::from(odd)).unwrap_or(&0);
        let xattr = u64::from(odd == 1);
        let mut bytes = Instruction { iword: word, pc, ea, xattr, ..Instruction::default() }.to_bytes();
        bytes[1..4].copy_from_slice(&start.to_le_bytes()[1..]);
        bytes
    }

    fn any_instruction() -> impl Strategy<Value = (u32, u32, u64, u8)> {
        // Nothing, a branch, a branch that is taken, reads and writes of 8 and 16 bytes, and anything.
        let starts = [0, 0x0008_0000, 0x0048_0000, 0x0750_0000, 0x0760_0000, 0x0770_0000, 0x0f50_0000];
        let start =
            prop_oneof![prop::sample::select(starts.to_vec()), any::<u32>().prop_map(|bits| bits & 0x07fe_0300)];
        (
            prop::sample::select(WORDS.to_vec()),
            start,
            prop::sample::select(vec![0, 0x1000, 0x40_0006, 1 << 60]),
            0_u8..40,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn nothing_is_missed_on_the_short_way(
            instructions in prop::collection::vec(any_instruction(), 1..12),
            is_basic: bool,
        ) {
            let level = if is_basic { Level::Basic } else { Level::BasicPlus };
            let context = Context { el: 1, handler: true, ..Context::default() };
            let mut records = vec![Header::new(level, false, Storage::Raw).to_bytes(), context.to_bytes()];
            records.extend((0..).zip(instructions).map(|(index, row)| instruction(index, row)));
            let (mut short, mut long) = (Checker::new(), Checker::new());
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            for record in &records {
                short.push(record, &mut |finding| found.push(finding));
                long.records += 1;
                let number = long.records;
                long.look(View::new(record), &mut Out { record: number, found: &mut |finding| expected.push(finding) });
            }
            prop_assert_eq!(found, expected);
        }
    }
}
