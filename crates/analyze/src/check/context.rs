//! Changes of state: which contexts may follow one another.
//!
//! context before, context after, cause of the change ─▶ findings

use unspool_model::{Context, Facet, Isa};

use super::report::{Reporter, Source};
use super::rules::RuleId;

/// Events since the last instruction that may change the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cause {
    /// An exception was taken.
    pub(super) raised: bool,
    pub(super) returned: bool,
    /// Anything may have happened: a gap, a debugger, an exception of unknown kind.
    pub(super) free: bool,
}

impl Cause {
    #[inline]
    pub(super) fn is_any(self) -> bool {
        self.raised || self.returned || self.free
    }
}

pub(super) struct Change<'c> {
    pub(super) before: &'c Context,
    pub(super) after: &'c Context,
    pub(super) cause: Cause,
    /// The instruction set before it, if known.
    pub(super) isa: Option<Isa>,
    pub(super) position: u64,
    /// Address of the instruction before it.
    pub(super) address: u64,
}

impl Change<'_> {
    /// Checks whether a processor can make the change.
    pub(super) fn check(&self, source: &Source, out: &mut Reporter<'_>) {
        if !self.cause.free && source.covers(Facet::Exceptions) {
            self.check_level(out);
            self.check_security(out);
        }
    }

    fn check_level(&self, out: &mut Reporter<'_>) {
        let (Some(before), Some(after)) = (self.before.level, self.after.level) else { return };
        let how = match (self.cause.raised, self.cause.returned) {
            _ if before == after => return,
            (true, true) => return,
            (true, false) if after < before => "by an exception",
            (false, true) if after > before => "by an exception return",
            // Privileged AArch32 code can lower the level by writing the mode.
            (false, false) if after > before || self.is_aarch32() == Some(false) => {
                "without an exception or exception return"
            }
            _ => return,
        };
        let detail = format_args!("from level {before} to level {after} {how}");
        let levels = u64::from(before) << 8 | u64::from(after);
        out.add(RuleId::LevelChange, self.position, (self.address, levels), detail);
    }

    fn check_security(&self, out: &mut Reporter<'_>) {
        let (Some(before), Some(after)) = (self.before.security, self.after.security) else { return };
        if before == after {
            return;
        }
        let passes_by_el3 = [self.before.level, self.after.level].iter().any(|level| level.is_none_or(|el| el >= 3));
        let is_wrong = match (self.cause.raised, self.cause.returned) {
            (true, true) => false,
            (false, false) => match (self.is_aarch32(), self.isa) {
                (Some(false), _) => true,
                // M-profile changes it by branches.
                (Some(true), Some(Isa::A32)) => self.before.level == Some(0),
                _ => false,
            },
            _ => self.is_aarch32() == Some(false) && !passes_by_el3,
        };
        if is_wrong {
            let detail = format_args!("from {before:?} to {after:?} without an exception to EL3 or a return from it");
            out.add(RuleId::SecurityChange, self.position, (self.address, after as u64), detail);
        }
    }

    /// Whether the state before it is AArch32, if known. RISC-V counts as A64: only traps and their returns change modes.
    fn is_aarch32(&self) -> Option<bool> {
        match self.isa {
            Some(Isa::A32 | Isa::T32) => Some(true),
            Some(_) => Some(false),
            None => self.before.is_aarch64.map(|is_aarch64| !is_aarch64),
        }
    }
}
