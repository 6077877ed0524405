//! Exception vectors: offsets of handlers from the vector base address.
//!
//! exception, states before and after, address of the handler ─▶ findings
//!
//! Specification: Arm DDI 0487, "Exception vectors" of AArch64 and "Exception vectors and the exception base address" of
//! AArch32. M-profile and RISC-V have tables of addresses, which are not checked.

use unspool_model::{Context, Exception, ExceptionKind, Isa, Step};

use super::report::Reporter;
use super::rules::RuleId;

/// A taken exception whose first handler instruction is still to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raised {
    pub(super) position: u64,
    pub(super) exception: Exception,
    pub(super) target: u64,
    /// The context that it was taken from, as far as it is known.
    pub(super) from: Context,
    pub(super) isa: Option<Isa>,
}

/// Last values written to VBAR_EL1, VBAR_EL2 and VBAR_EL3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bases([Option<u64>; 3]);

impl Bases {
    /// Records the VBAR writes of a step at this Exception level.
    #[inline]
    pub(super) fn record(&mut self, step: &Step, level: Option<u8>) {
        for write in step.registers() {
            let Some(name) = write.name.strip_prefix("vbar_el") else { continue };
            let is_whole = write.low == 0 && write.bytes.len() == 8 && write.bytes.iter().all(|byte| byte.1 == 0xff);
            let number = write.bytes.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(byte.0));
            let number = is_whole.then_some(number);
            match name {
                // In a host in EL2, VBAR_EL1 may access VBAR_EL2.
                "1" if level == Some(2) => (self.0[0], self.0[1]) = (None, None),
                "1" | "12" => self.0[0] = number,
                "2" => self.0[1] = number,
                "3" => self.0[2] = number,
                _ => {}
            }
        }
    }

    fn of(&self, level: u8) -> Option<u64> {
        self.0.get(usize::from(level).checked_sub(1)?).copied().flatten()
    }
}

impl Raised {
    /// Checks the address of the handler, which executes in this state.
    pub(super) fn check(&self, isa: Isa, after: &Context, bases: &Bases, out: &mut Reporter<'_>) {
        match isa {
            Isa::A64 => self.check_aarch64(after, bases, out),
            Isa::A32 => self.check_aarch32(out),
            _ => {}
        }
    }

    fn add(&self, rule: RuleId, detail: std::fmt::Arguments<'_>, out: &mut Reporter<'_>) {
        let (kind, target) = (self.exception.kind, self.target);
        out.add(rule, self.position, (target, kind as u64), format_args!("{kind:?} to {target:#x}: {detail}"));
    }

    fn check_aarch64(&self, after: &Context, bases: &Bases, out: &mut Reporter<'_>) {
        let offset = self.target & 0x7ff;
        let slot = match self.exception.kind {
            ExceptionKind::Synchronous => 0x000,
            ExceptionKind::Irq => 0x080,
            ExceptionKind::Fiq => 0x100,
            ExceptionKind::SError => 0x180,
            ExceptionKind::Unknown | ExceptionKind::Reset | ExceptionKind::Debug => return,
        };
        let is_vector = offset & 0x1ff == slot || offset & 0x1ff == 0x180 && self.may_use_serror_vector();
        if !is_vector {
            let detail = format_args!("the vectors of this kind are at 0x0, 0x200, 0x400 and 0x600 plus {slot:#x}");
            return self.add(RuleId::VectorKind, detail, out);
        }
        let Some(level) = after.level else { return };
        let expected = self.groups(level);
        if !expected.contains(&(offset & 0x600)) {
            let groups: Vec<String> = expected.iter().map(|group| format!("{group:#x}")).collect();
            let origin = self.from.level.map_or_else(String::new, |from| format!(" from level {from}"));
            let detail =
                format_args!("taken{origin} to level {level}, so its vectors start at {}", groups.join(" or "));
            return self.add(RuleId::VectorOrigin, detail, out);
        }
        if let Some(base) = bases.of(level).filter(|base| (base ^ self.target) & (u64::MAX >> 8) & !0x7ff != 0) {
            self.add(RuleId::VectorBase, format_args!("VBAR_EL{level} is {base:#x}"), out);
        }
    }

    /// Whether it may use the SError vector: a synchronous external abort may (SCR_EL3.EASE), so an unknown class may too.
    fn may_use_serror_vector(&self) -> bool {
        let is_synchronous = self.exception.kind == ExceptionKind::Synchronous;
        is_synchronous && self.exception.class.is_none_or(|class| matches!(class, 0x20 | 0x21 | 0x24 | 0x25))
    }

    /// The possible groups of vectors: by the stack pointer if the level is the same, else by the lower level.
    fn groups(&self, level: u8) -> &'static [u64] {
        let is_aarch32 = match self.isa {
            Some(isa) => Some(isa != Isa::A64),
            None => self.from.is_aarch64.map(|is_aarch64| !is_aarch64),
        };
        match (self.from.level, is_aarch32) {
            (None, _) => &[0x000, 0x200, 0x400, 0x600],
            (Some(from), _) if from == level => match self.from.is_handler {
                Some(true) => &[0x200],
                Some(false) => &[0x000],
                None => &[0x000, 0x200],
            },
            // To a lower level, which another rule reports.
            (Some(from), _) if from > level => &[0x000, 0x200, 0x400, 0x600],
            (_, Some(false)) => &[0x400],
            (Some(0), Some(true)) if level == 1 => &[0x600],
            // The Execution state of the level just below the handler decides, and it is unknown.
            _ => &[0x400, 0x600],
        }
    }

    fn check_aarch32(&self, out: &mut Reporter<'_>) {
        let offset = self.target & 0x1f;
        let offsets: &[u64] = match self.exception.kind {
            ExceptionKind::Synchronous => &[0x04, 0x08, 0x0c, 0x10, 0x14],
            ExceptionKind::SError => &[0x10],
            ExceptionKind::Irq => &[0x18],
            ExceptionKind::Fiq => &[0x1c],
            ExceptionKind::Unknown | ExceptionKind::Reset | ExceptionKind::Debug => return,
        };
        if !offsets.contains(&offset) {
            let offsets: Vec<String> = offsets.iter().map(|offset| format!("{offset:#x}")).collect();
            let offsets = offsets.join(", ");
            self.add(RuleId::VectorKind, format_args!("the vectors of this kind are at {offsets}"), out);
        }
    }
}
