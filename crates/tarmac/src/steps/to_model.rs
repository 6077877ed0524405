//! Values of a log as values of the step model: instruction sets, levels, Security states, exceptions, branches.

use std::ops::Range;

use unspool_isa::call_number;
use unspool_model::{self as model, ExceptionKind};

use super::super::dialect::Dialect;
use super::super::lift::{self, StepInstruction};
use super::super::opcode;
use super::super::record::InstructionSet;
use super::super::registers::Level;

/// The instruction set. Where the line names none, the dialect or the mode implies it.
pub(super) fn isa(dialect: Dialect, executed: &StepInstruction) -> model::Isa {
    match (executed.set, dialect) {
        (Some(set), _) => opcode::isa(set),
        (None, Dialect::CortexM0 | Dialect::CortexM3) => model::Isa::T32,
        (None, _) if executed.length == 2 => model::Isa::T32,
        (None, _) if matches!(executed.mode.level, Level::El { .. }) => model::Isa::A64,
        (None, _) => model::Isa::A32,
    }
}

/// Whether the stack pointer is that of the Exception level.
pub(super) fn is_handler(level: Level) -> Option<bool> {
    match level {
        Level::El { own_stack, .. } => own_stack,
        _ => None,
    }
}

/// Whether a mode has a Security state. M-profile cores may lack the Security Extension.
pub(super) fn has_security(level: Level) -> bool {
    !matches!(level, Level::Thread | Level::Handler | Level::Unknown)
}

/// The kind of exception, by its name in any dialect.
pub(super) fn exception_kind(name: &[u8], vector: Option<i64>) -> ExceptionKind {
    let has = |words: &[&str]| words.iter().any(|word| contains(name, word.as_bytes()));
    match () {
        () if has(&["reset"]) => ExceptionKind::Reset,
        () if has(&["serror", "system error"]) => ExceptionKind::SError,
        () if contains(name, b"_ABORT") && has(&["CURRENT_SP", "LOWER_"]) => ExceptionKind::SError,
        () if has(&["debug halt", "external debug"]) => ExceptionKind::Debug,
        () if has(&["fiq"]) => ExceptionKind::Fiq,
        () if has(&["irq", "external interrupt", "ext_int", "systick", "pendsv", "nmi", "int_taken"]) => {
            ExceptionKind::Irq
        }
        () if has(SYNCHRONOUS) || has(TWO_WORDS) => ExceptionKind::Synchronous,
        // gem5 and others print no name, but the number identifies the vector.
        () if name.is_empty() && vector.is_some_and(|vector| (0x80..0x90).contains(&vector)) => by_event(vector),
        () => ExceptionKind::Unknown,
    }
}

const SYNCHRONOUS: &[&str] =
    &["sync", "call", "svc", "swi", "undef", "prefetch", "trap", "check", "fault", "memmanage"];
/// Names that some producers print as one word.
const TWO_WORDS: &[&str] = &["data abort", "dataabort", "debug monitor", "debugmonitor"];

/// The kind of a Fast Models event number: four kinds for each of four origins.
fn by_event(number: Option<i64>) -> ExceptionKind {
    match number.map(|number| number & 3) {
        Some(0) => ExceptionKind::Synchronous,
        Some(1) => ExceptionKind::Irq,
        Some(2) => ExceptionKind::Fiq,
        Some(3) => ExceptionKind::SError,
        _ => ExceptionKind::Unknown,
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

/// The exception class in the last syndrome register that these lines write.
pub(super) fn class(step: &lift::Step, lines: &Range<u64>) -> Option<u8> {
    let is_syndrome = |name: &[u8]| name.len() == 7 && name[..6].eq_ignore_ascii_case(b"ESR_EL");
    let mut written = step.registers.iter().filter(|written| lines.contains(&written.line));
    let syndrome = written.rfind(|written| is_syndrome(step.text(&written.name)))?;
    step.value(syndrome).number().map(|number| (number >> 26 & 0x3f) as u8)
}

/// The number of the call that caused an exception. A trapped call has another class.
pub(super) fn call(cause: &StepInstruction, class: Option<u8>) -> Option<u16> {
    let opcode = cause.opcode.filter(|_| cause.set == Some(InstructionSet::O))?;
    let own_class = match opcode & 0xffe0_001f {
        0xd400_0001 => 0x15,
        0xd400_0002 => 0x16,
        0xd400_0003 => 0x17,
        _ => return None,
    };
    class.is_none_or(|class| class == own_class).then(|| call_number(opcode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_by_name() {
        let rows = [
            ("Reset", ExceptionKind::Reset),
            ("CoreEvent_RESET", ExceptionKind::Reset),
            ("IRQ Interrupt", ExceptionKind::Irq),
            ("IRQ/vIRQ Lower EL using AArch64", ExceptionKind::Irq),
            ("CoreEvent_CURRENT_SPx_FIQ", ExceptionKind::Fiq),
            ("CoreEvent_LOWER_64_ABORT", ExceptionKind::SError),
            ("SError/vSError Current EL with SP_ELx", ExceptionKind::SError),
            ("System Error (Abort)", ExceptionKind::SError),
            ("Virtual IRQ", ExceptionKind::Irq),
            ("Synchronous Lower EL using AArch64", ExceptionKind::Synchronous),
            ("CoreEvent_SWI", ExceptionKind::Synchronous),
            ("Data Abort", ExceptionKind::Synchronous),
            ("SVCall", ExceptionKind::Synchronous),
            ("SysTick", ExceptionKind::Irq),
            ("Debug Halt Mode Entry", ExceptionKind::Debug),
            ("something new", ExceptionKind::Unknown),
        ];
        for (name, kind) in rows {
            assert_eq!(exception_kind(name.as_bytes(), None), kind, "{name}");
        }
        assert_eq!(exception_kind(b"", Some(0x85)), ExceptionKind::Irq);
    }
}
