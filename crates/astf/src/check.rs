//! Checks a trace against the rules of the format.
//!
//! records ─▶ **check** ─▶ findings
//!
//! Every sentence of the specification that a trace can be checked against is a [`Rule`]. The checker remembers the
//! last instruction, the last Context and what is still due, so its memory does not grow. Where the specification
//! leaves room, and for opcodes that are unknown here, nothing is reported. After a mistake it continues with what is
//! there.
//! Specification: Arm Architectural Structured Trace Format, issue 0.11.

mod chain;
mod context;
mod flow;
mod header;
mod memory;
mod opcode;
mod range;
mod report;
mod reserved;
mod rules;
mod strings;
mod subject;
mod time;
mod trap;

use super::layout::Bytes;
use super::record::{ContextView, ExtraEaView, HeaderView, InstructionView, Level, TimestampView, TrapView, View};
use chain::Chain;
use context::State;
use flow::{Flow, Next};
use opcode::{Opcode, Opcodes};
pub use report::Finding;
use report::{Report, record_name};
pub use rules::RULES;
use rules::RuleId;
use strings::Strings;
use subject::Origin;
use time::Time;
use trap::{Before, Due, Last};
pub use unspool_model::rule::{Rule, Severity};

/// Position of a checker in a trace, which it can go back to.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Number of records so far.
    records: u64,
    has_instruction: bool,
    flow: Flow,
    chain: Chain,
    due: Due,
    last: Last,
    state: State,
    strings: Strings,
    time: Time,
}

/// Checks a trace record by record.
///
/// A finding is reported as soon as it is certain, so it may be about an earlier record: that something due is missing
/// shows only with the next instruction.
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
#[derive(Debug, Clone, Default)]
pub struct Checker {
    /// `None` without a Header; rules that depend on it are not checked then.
    level: Option<Level>,
    opcodes: Opcodes,
    pub(super) progress: Progress,
}

impl Checker {
    /// A checker before the first record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks the next record; the Header is the first.
    pub fn push(&mut self, record: &Bytes, found: &mut impl FnMut(Finding)) {
        self.progress.records += 1;
        self.step(View::new(record), &mut Report { record: self.progress.records, found });
    }

    /// Checks the end of the trace.
    pub fn finish(&mut self, found: &mut impl FnMut(Finding)) {
        let progress = &mut self.progress;
        let out = &mut Report { record: progress.records.max(1), found };
        if progress.records == 0 {
            return out.add(RuleId::HeaderFirst, format_args!("the trace is empty"));
        }
        // A Context is due only before another instruction.
        progress.due = if progress.due == Due::Context { Due::Nothing } else { progress.due };
        progress.settle(out);
        progress.strings.end(out);
        if !progress.has_instruction {
            out.add(RuleId::LevelRecords, format_args!("{} records, and no Instruction", progress.records));
        }
    }

    /// Accepts the record if it is an ordinary instruction, which breaks no rule. Otherwise nothing changes.
    #[inline]
    pub(super) fn push_usual(&mut self, record: &Bytes) -> bool {
        let View::Instruction(view) = View::new(record) else { return false };
        let is_usual = self.is_usual(view);
        if is_usual {
            self.progress.records += 1;
            self.progress.after_usual(view);
        }
        is_usual
    }

    /// Whether ordinary instructions may follow from `pc` on. [`pass`](Self::pass) accepts them.
    #[inline]
    pub(super) fn leads_to(&self, pc: u64) -> bool {
        self.progress.is_between() && self.progress.flow.leads_to(pc)
    }

    /// Accepts consecutive ordinary instructions, given the last one.
    pub(super) fn pass(&mut self, count: u64, last: &Bytes, next: u64) {
        self.progress.records += count;
        if let View::Instruction(view) = View::new(last) {
            self.progress.after_usual(view);
            self.progress.flow.leave(view.pc(), Next::At(next));
        }
    }

    /// Whether the record is an ordinary instruction at any address, or a branch to the target of its opcode.
    pub(super) fn is_certain(&mut self, record: &Bytes) -> bool {
        let View::Instruction(view) = View::new(record) else { return false };
        let opcode = self.opcodes.of(view.iword());
        opcode.is_usual(view) || opcode.is_taken(view)
    }

    fn step(&mut self, view: View<'_>, out: &mut Report<'_>) {
        if let View::Instruction(record) = view
            && self.is_usual(record)
        {
            return self.progress.after_usual(record);
        }
        self.check(view, out);
    }

    /// Whether nothing is due, and the instruction is where it is expected and ordinary.
    ///
    /// Nearly all records are such, so a few comparisons sort them out.
    #[inline]
    fn is_usual(&mut self, record: InstructionView<'_>) -> bool {
        self.leads_to(record.pc()) && self.opcodes.of(record.iword()).is_usual(record)
    }

    fn check(&mut self, view: View<'_>, out: &mut Report<'_>) {
        let progress = &mut self.progress;
        if progress.records == 1 && !matches!(view, View::Header(_)) {
            out.add(RuleId::HeaderFirst, format_args!("the first record is {}", record_name(view)));
        }
        reserved::check(view, out);
        if progress.strings.is_open() {
            progress.strings.interrupt(view, out);
        }
        match view {
            View::Instruction(record) => self.instruction(record, out),
            View::ExtraEa(record) => self.extra_ea(record, out),
            View::Trap(record) => self.trap(record, out),
            View::Context(record) => self.context(record, out),
            View::Timestamp(record) => self.timestamp(record, out),
            View::Header(record) => self.header(record, out),
            View::StringStart(record) => {
                progress.chain.settle(out);
                progress.state.string(out);
                progress.strings.start(record, out);
            }
            View::StringContinuation(record) => {
                progress.chain.settle(out);
                progress.strings.resume(record, out);
            }
            // Inside a string or a chain, the rule of that is broken, whatever the type is.
            View::Unknown(_) if progress.strings.is_open() => {}
            View::Unknown(_) if progress.chain.is_open() => progress.chain.settle(out),
            View::Unknown(bytes) => out.add(RuleId::UnknownRecord, format_args!("the type is {:#04x}", bytes[0])),
        }
    }

    fn header(&mut self, record: HeaderView<'_>, out: &mut Report<'_>) {
        if self.progress.records != 1 {
            return out.add(RuleId::HeaderOnce, format_args!("this Header is not the first record"));
        }
        let header = record.get();
        self.level = Some(header.level());
        self.progress.time.is_announced = Some(header.timestamps);
        header::check(&header, out);
    }

    fn instruction(&mut self, record: InstructionView<'_>, out: &mut Report<'_>) {
        let progress = &mut self.progress;
        progress.settle(out);
        progress.time.execution(out);
        progress.state.instruction(self.level, out);
        let opcode = *self.opcodes.of(record.iword());
        let is_clean = progress.flow.arrive(record.pc(), out);
        let next = if flow::is_branch_flag_right(record, &opcode, out) {
            progress.execute(record, &opcode, self.level, out)
        } else {
            progress.chain.start_unchecked(record, out);
            Next::Anywhere
        };
        progress.flow.leave(record.pc(), if is_clean { next } else { Next::Anywhere });
        progress.last = Last::new(record, out.record);
        progress.has_instruction = true;
        if !record.trap() {
            flow::must_trap(self.level, record, &opcode, out);
            progress.state.expect(opcode.sets);
        }
        progress.due = Due::after(self.level, record.trap(), &opcode);
    }

    fn extra_ea(&mut self, record: ExtraEaView<'_>, out: &mut Report<'_>) {
        let progress = &mut self.progress;
        let Last { record: number, word, is_trapped: trap, .. } = progress.last;
        let origin =
            Origin { record: number, word, opcode: self.opcodes.of(word), trap, context: progress.state.known() };
        progress.chain.extra(record, &origin, out);
    }

    fn trap(&mut self, record: TrapView<'_>, out: &mut Report<'_>) {
        let progress = &mut self.progress;
        progress.chain.settle(out);
        progress.time.other();
        if self.level == Some(Level::Basic) {
            return out.add(RuleId::TrapInBasic, format_args!("the trace is Basic"));
        }
        let before = Before {
            due: progress.due,
            last: &progress.last,
            opcode: self.opcodes.of(progress.last.word),
            is_leaving: progress.state.is_unsupported(),
        };
        trap::check(record, &before, out);
        trap::check_abort(record, &before, &progress.chain, out);
        progress.due = Due::Nothing;
        progress.state.trap(record.trap_type(), out);
        let target = record.target_pc();
        let is_clean = flow::check_address("target", target, out);
        progress.flow.leave(target, if is_clean { Next::At(target) } else { Next::Anywhere });
    }

    fn context(&mut self, record: ContextView<'_>, out: &mut Report<'_>) {
        let progress = &mut self.progress;
        progress.chain.settle(out);
        progress.time.execution(out);
        let is_early = progress.due.is_trap() && !record.unsupported();
        if is_early {
            out.add(RuleId::TrapOrder, format_args!("the Trap of record {} has to come first", progress.last.record));
        }
        if self.level != Some(Level::BasicPlus) || record.unsupported() || progress.state.is_lost() {
            progress.flow.lose();
        }
        if is_early || record.unsupported() || progress.due == Due::Context {
            progress.due = Due::Nothing;
        }
        progress.state.context(record.get(), self.level, is_early, out);
    }

    fn timestamp(&mut self, record: TimestampView<'_>, out: &mut Report<'_>) {
        let progress = &mut self.progress;
        if progress.chain.is_open() {
            out.add(RuleId::TimestampInterleaves, format_args!("an Extra EA has to come first"));
        }
        progress.state.timestamp(out);
        let level = self.level.filter(|_| !progress.state.is_unsupported());
        progress.time.timestamp(record.get(), level, out);
    }
}

impl Progress {
    /// Nothing is due, and nothing is open.
    #[inline]
    fn is_between(&self) -> bool {
        let is_settled = !self.state.is_watched && self.time.is_started && self.due == Due::Nothing;
        is_settled && !self.chain.is_open() && !self.strings.is_open()
    }

    /// Advances over an ordinary instruction.
    #[inline]
    fn after_usual(&mut self, record: InstructionView<'_>) {
        self.flow.advance(record.pc());
        self.chain.clear();
        self.time.other();
        self.last = Last::new(record, self.records);
    }

    /// Checks an instruction; returns its successor.
    fn execute(
        &mut self,
        record: InstructionView<'_>,
        opcode: &Opcode,
        level: Option<Level>,
        out: &mut Report<'_>,
    ) -> Next {
        memory::attribute(record, opcode, out);
        let next = if record.is_branch() {
            self.chain.start_unchecked(record, out);
            flow::branch(record, opcode, out)
        } else {
            let origin = Origin::new(record, out.record, opcode, self.state.known());
            self.chain.start(record, &origin, out);
            flow::after(record, opcode, level)
        };
        if record.trap() { flow::after_trap(record, opcode, level) } else { next }
    }

    /// Completes the last instruction: reports what is still due.
    #[inline]
    fn settle(&mut self, out: &mut Report<'_>) {
        self.chain.settle(out);
        if self.due != Due::Nothing {
            self.due.report_missing(&self.last, out);
            self.due = Due::Nothing;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::layout::Bytes;
    use super::super::record::{Context, Header, Instruction, Storage};
    use super::*;

    /// ADD, LDR, STR, LDADD, STXR, LDP, B.NE, B, RET, SVC, ERET, STG, SMSTART, NOP, and an unknown word.
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
        fn the_fast_path_misses_nothing(
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
                long.progress.records += 1;
                let number = long.progress.records;
                long.check(View::new(record), &mut Report { record: number, found: &mut |finding| expected.push(finding) });
            }
            prop_assert_eq!(found, expected);
        }
    }
}
