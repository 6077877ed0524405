//! Contexts: the state that instructions are executed in, and what may change it.

use super::super::record::{Context, Level, trap_type};
use super::opcode::Sets;
use super::report::Report;
use super::rules::RuleId;

/// Known state of the PE.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// The last Context.
    context: Option<Context>,
    /// The lowest Exception level that the next instruction may be in.
    lowest: u8,
    /// The highest.
    highest: u8,
    /// A Trap came after the last instruction and the last Context.
    is_redirected: bool,
    /// The Trap was an exception.
    is_exception: bool,
    /// A Context came after the last instruction.
    is_fresh: bool,
    /// Number of Timestamps in an unsupported mode.
    timestamps: u8,
    /// Field that the last instruction set.
    sets: Option<Sets>,
    /// The next instruction has to be checked against the state.
    pub(super) is_watched: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            context: None,
            lowest: 0,
            highest: 3,
            is_redirected: false,
            is_exception: false,
            is_fresh: false,
            timestamps: 0,
            sets: None,
            is_watched: true,
        }
    }
}

impl State {
    pub(super) fn is_unsupported(&self) -> bool {
        self.context.is_some_and(|context| context.unsupported)
    }

    /// The PE is in an unsupported mode, and no Trap says where execution resumes.
    pub(super) fn is_lost(&self) -> bool {
        self.is_unsupported() && !self.is_redirected
    }

    /// State that the last instruction is executed in, if Contexts and Traps agree about it.
    pub(super) fn known(&self) -> Option<&Context> {
        self.context.as_ref().filter(|_| self.lowest == self.highest)
    }

    /// The instruction set a field that a Context records.
    #[inline]
    pub(super) fn expect(&mut self, sets: Option<Sets>) {
        if sets.is_some() {
            self.sets = sets;
            self.is_watched = true;
        }
    }

    /// Checks the state that an Instruction is executed in.
    #[inline]
    pub(super) fn instruction(&mut self, level: Option<Level>, out: &mut Report<'_>) {
        if self.is_watched {
            self.check(level, out);
            self.sets = None;
            self.is_watched = false;
            self.is_redirected = false;
            self.is_exception = false;
            self.is_fresh = false;
        }
    }

    fn check(&mut self, level: Option<Level>, out: &mut Report<'_>) {
        let Some(context) = self.context else {
            out.add(RuleId::ContextBeforeInstruction, format_args!("an Instruction, and no Context before it"));
            return self.resume(Context::default());
        };
        if context.unsupported {
            let after = if self.is_redirected { " after a Trap" } else { "" };
            out.add(RuleId::RecordInUnsupported, format_args!("an Instruction in an unsupported mode{after}"));
            return self.resume(Context { unsupported: false, ..context });
        }
        self.check_change(context, level, out);
        let is_there = level != Some(Level::BasicPlus) || self.check_exception(context, out);
        (self.lowest, self.highest) = if is_there { (context.el, context.el) } else { (0, 3) };
    }

    /// Forgets the level, so that nothing more is reported about what came before.
    fn resume(&mut self, context: Context) {
        self.context = Some(context);
        (self.lowest, self.highest) = (0, 3);
    }

    /// Whether the instruction can be where the Context says. No exception and no reset leads to EL0.
    fn check_exception(&self, context: Context, out: &mut Report<'_>) -> bool {
        let is_there = (self.lowest..=self.highest).contains(&context.el);
        if !is_there {
            out.add(RuleId::ContextAfterTrap, format_args!("a Trap leads out of EL{} without a Context", context.el));
        } else if self.is_exception && !context.handler {
            out.add(RuleId::TrapHandler, format_args!("the stack pointer after an exception is SP_EL0"));
        }
        is_there
    }

    /// In a Basic trace a Context may reflect something that was not traced.
    fn check_change(&mut self, context: Context, level: Option<Level>, out: &mut Report<'_>) {
        let is_excused = self.is_redirected || (self.is_fresh && level != Some(Level::BasicPlus));
        if let Some(sets) = self.sets.filter(|sets| !is_excused && !sets.holds(&context)) {
            let (field, value) = (sets.field(), u8::from(sets.value));
            out.add(RuleId::ContextAfterChange, format_args!("{field} became {value}, but no Context has it"));
        }
    }

    /// Records a Trap of this type.
    pub(super) fn trap(&mut self, kind: u8, out: &mut Report<'_>) {
        if self.is_unsupported() && self.is_redirected {
            out.add(RuleId::RecordInUnsupported, format_args!("a second Trap before the Context that leaves the mode"));
        }
        self.is_redirected = true;
        self.is_watched = true;
        self.sets = None;
        self.is_exception = kind <= trap_type::FIQ;
        if self.is_unsupported() {
            (self.lowest, self.highest) = (0, 3);
            return;
        }
        (self.lowest, self.highest) = match kind {
            trap_type::SYNCHRONOUS..=trap_type::FIQ => (self.lowest.max(1), 3),
            trap_type::EXCEPTION_RETURN => (0, self.highest),
            trap_type::RESET => (1, 3),
            _ => (0, 3),
        };
    }

    /// Checks a String.
    pub(super) fn string(&self, out: &mut Report<'_>) {
        if self.is_lost() {
            out.add(RuleId::RecordInUnsupported, format_args!("a String in an unsupported mode"));
        }
    }

    /// Checks a Timestamp.
    pub(super) fn timestamp(&mut self, out: &mut Report<'_>) {
        if self.is_unsupported() && !self.is_redirected {
            self.timestamps = self.timestamps.saturating_add(1);
            if self.timestamps == 3 {
                out.add(RuleId::RecordInUnsupported, format_args!("a third Timestamp in an unsupported mode"));
            }
        }
    }

    /// Checks a Context; if it is `early`, the Trap that belongs before it is missing.
    pub(super) fn context(&mut self, context: Context, level: Option<Level>, early: bool, out: &mut Report<'_>) {
        if context.unsupported {
            self.enter_unsupported(context, level, out);
        } else {
            check_fields(&context, out);
            self.check_level(context, level, early, out);
            self.check_unchanged(context, level, out);
            (self.lowest, self.highest) = if early { (0, 3) } else { (context.el, context.el) };
        }
        self.context = Some(context);
        self.is_redirected = false;
        self.is_fresh = true;
        self.is_watched = true;
    }

    fn enter_unsupported(&mut self, context: Context, level: Option<Level>, out: &mut Report<'_>) {
        if level == Some(Level::Basic) {
            out.add(RuleId::UnsupportedInBasic, format_args!("a Context in an unsupported mode, EL{}", context.el));
        } else if self.is_unsupported() {
            out.add(RuleId::RecordInUnsupported, format_args!("a Context from one unsupported mode to another"));
        }
        self.timestamps = 0;
        self.sets = None;
        self.is_exception = false;
        (self.lowest, self.highest) = (0, 3);
    }

    fn check_level(&mut self, context: Context, level: Option<Level>, early: bool, out: &mut Report<'_>) {
        let Some(before) = self.context.filter(|before| !before.unsupported && !early) else { return };
        let (from, to) = (before.el, context.el);
        match level {
            Some(Level::Basic) if from != to => {
                out.add(RuleId::BasicSingleEl, format_args!("from EL{from} to EL{to}"));
            }
            Some(Level::BasicPlus) if !(self.lowest..=self.highest).contains(&to) => {
                let rule = if self.is_redirected { RuleId::TrapLevel } else { RuleId::LevelChange };
                out.add(rule, format_args!("from EL{from} to EL{to}"));
                self.is_exception = false;
            }
            _ => {}
        }
    }

    fn check_unchanged(&self, context: Context, level: Option<Level>, out: &mut Report<'_>) {
        let is_same = self.context == Some(context) && level == Some(Level::BasicPlus);
        if is_same && !self.is_redirected {
            out.add(RuleId::ContextUnchanged, format_args!("the same as the previous Context"));
        }
    }
}

fn check_fields(context: &Context, out: &mut Report<'_>) {
    if context.tid_valid && !context.pid_valid {
        out.add(RuleId::TidNeedsPid, format_args!("thread {} without a process", context.tid));
    }
    if context.pstate_sm && !(u32::from(context.evl) + 1).is_power_of_two() {
        out.add(RuleId::EvlStreaming, format_args!("{} bits in Streaming SVE mode", context.vector_bits()));
    }
    if context.el == 0 && context.handler {
        out.add(RuleId::HandlerAtEl0, format_args!("the handler flag is set in EL0"));
    }
    if context.el == 3 && !context.secure {
        out.add(RuleId::El3Secure, format_args!("EL3 in Non-secure state"));
    }
}
