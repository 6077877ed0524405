//! Names that differ between the styles: modes, registers, exceptions.

use super::super::record::{Event, Exception, Register};
use super::super::registers::BANKS;
use super::super::write::Style;
use super::super::write::vectors::{AARCH32, AARCH64, EXTERNAL, EXTERNAL_EVENT, M_PROFILE, Vector};

/// Appends the mode in the notation of the style.
///
/// Rev 3 uses lower case and `_ns`, Fast Models `EL` and `_n`; both use `_s` for Secure state.
pub(super) fn push_mode(style: Style, mode: &[u8], out: &mut Vec<u8>) {
    let (name, suffix) = match mode.iter().rposition(|byte| *byte == b'_') {
        Some(at) => mode.split_at(at),
        None => (mode, &[][..]),
    };
    match style {
        Style::Rev3 if name == b"thread" => out.extend_from_slice(b"thrd"),
        Style::Rev3 => out.extend(name.iter().map(u8::to_ascii_lowercase)),
        Style::FastModels if name == b"thrd" => out.extend_from_slice(b"thread"),
        Style::FastModels if is_exception_level(name) => {
            out.extend_from_slice(b"EL");
            out.extend_from_slice(&name[2..]);
        }
        Style::FastModels => out.extend_from_slice(name),
    }
    out.extend_from_slice(match (style, suffix) {
        (Style::Rev3, b"_n") => b"_ns",
        (Style::FastModels, b"_ns") => b"_n",
        (_, suffix) => suffix,
    });
}

fn is_exception_level(name: &[u8]) -> bool {
    name.len() == 4 && name[..2].eq_ignore_ascii_case(b"el") && name[2].is_ascii_digit()
}

/// Appends the name of a register in the notation of the style. Returns true if the name includes the context.
///
/// `is_fiq`: the core is in FIQ mode, where r8 to r12 without a bank are not those of User mode.
pub(super) fn push_register(style: Style, register: &Register<'_>, is_fiq: bool, out: &mut Vec<u8>) -> bool {
    match style {
        Style::Rev3 => {
            push_rev3_register(register.name, out);
            true
        }
        Style::FastModels => push_fast_models_register(register.name, register.context, is_fiq, out),
    }
}

fn push_rev3_register(name: &[u8], out: &mut Vec<u8>) {
    if name.eq_ignore_ascii_case(b"cpsr") {
        return out.extend_from_slice(b"CPSR");
    }
    let (base, bank) = bank_of(name);
    match (core_register(base), bank) {
        (Some(13), Some(_)) => out.extend_from_slice(b"SP"),
        (Some(14), Some(_)) => out.extend_from_slice(b"LR"),
        (Some(_), _) => out.extend(base.iter().map(u8::to_ascii_uppercase)),
        (None, _) => return out.extend_from_slice(name),
    }
    if let Some(bank) = bank {
        out.push(b'_');
        out.extend(bank.iter().map(u8::to_ascii_uppercase));
    }
}

fn push_fast_models_register(name: &[u8], context: &[u8], is_fiq: bool, out: &mut Vec<u8>) -> bool {
    if name.eq_ignore_ascii_case(b"cpsr") {
        out.extend_from_slice(b"cpsr");
        // CPSR implies AArch32.
        return context.is_empty() || context.eq_ignore_ascii_case(b"AARCH32");
    }
    let (base, mut bank) = bank_of(name);
    let is_context_bank = bank.is_none() && is_bank(context);
    if is_context_bank && !is_without_bank(base, context, is_fiq) {
        bank = Some(context);
    }
    let number = match (core_register(base), bank) {
        (Some(number), _) => Some(number),
        (None, Some(_)) if base.eq_ignore_ascii_case(b"sp") => Some(13),
        (None, Some(_)) if base.eq_ignore_ascii_case(b"lr") => Some(14),
        _ => None,
    };
    match number {
        Some(number) => {
            out.push(b'r');
            out.extend_from_slice(number.to_string().as_bytes());
        }
        None if is_context_bank => out.extend(base.iter().map(u8::to_ascii_lowercase)),
        None => out.extend_from_slice(name),
    }
    if let Some(bank) = bank.filter(|_| number.is_some() || is_context_bank) {
        out.push(b'_');
        out.extend(bank.iter().map(u8::to_ascii_lowercase));
    }
    is_context_bank || context.is_empty()
}

/// Whether the name of a register without the mode means the same register.
fn is_without_bank(name: &[u8], mode: &[u8], is_fiq: bool) -> bool {
    let is_user = mode.eq_ignore_ascii_case(b"usr");
    match core_register(name) {
        Some(0..=7 | 15) => true,
        Some(8..=12) => !is_fiq && !mode.eq_ignore_ascii_case(b"fiq"),
        // Every mode has its own stack pointer and link register.
        Some(_) => false,
        None => is_user && ![&b"sp"[..], b"lr"].iter().any(|banked| name.eq_ignore_ascii_case(banked)),
    }
}

/// The base name of a register, and the mode that is its suffix.
fn bank_of(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(at) = name.iter().rposition(|byte| *byte == b'_') else { return (name, None) };
    let bank = &name[at + 1..];
    if is_bank(bank) { (&name[..at], Some(bank)) } else { (name, None) }
}

fn is_bank(name: &[u8]) -> bool {
    BANKS.iter().any(|bank| name.eq_ignore_ascii_case(bank.as_bytes()))
}

/// Number of an AArch32 core register.
fn core_register(name: &[u8]) -> Option<u8> {
    let (first, digits) = name.split_first()?;
    let is_short = matches!(digits.len(), 1 | 2) && digits.iter().all(u8::is_ascii_digit);
    if !first.eq_ignore_ascii_case(&b'r') || !is_short || digits.len() == 2 && digits[0] == b'0' {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number * 10 + (digit - b'0'))).filter(|number| *number < 16)
}

/// The Rev 3 exception of a Fast Models event: vector, name, and whether it is asynchronous.
pub(super) fn exception_of(event: &Event<'_>) -> Option<(i64, &'static str, bool)> {
    let of_row = |row: &Vector| (row.value, row.name, row.is_asynchronous);
    let name = event.name.split(|byte| *byte == b' ').next().unwrap_or_default();
    // Its number differs between models; M-profile spells it in capitals, like all of its events.
    if name.eq_ignore_ascii_case(b"CoreEvent_Reset") && name != b"CoreEvent_RESET" {
        return AARCH32.first().map(of_row);
    }
    let is_named = |row: &&Vector| row.event.0 != 0 && name.eq_ignore_ascii_case(row.event.1.as_bytes());
    if let Some(row) = AARCH64.iter().chain(M_PROFILE).chain(AARCH32).find(is_named) {
        return Some(of_row(row));
    }
    match event.number? {
        number if name.starts_with(EXTERNAL_EVENT.as_bytes()) => Some((i64::from(number), EXTERNAL, true)),
        number @ (0x80..=0x8f) => AARCH64.iter().find(|row| row.event.0 == number).map(of_row),
        // Lower numbers are used by A-profile and M-profile, and only the name distinguishes them.
        _ => None,
    }
}

/// The Fast Models event of a Rev 3 exception: number and name.
pub(super) fn event_of(exception: &Exception<'_>, is_m_profile: bool) -> Option<(u32, Vec<u8>)> {
    let is_named = |row: &&Vector| exception.name.eq_ignore_ascii_case(row.name.as_bytes());
    let Some(vector) = exception.vector else {
        let reset = AARCH32.first().filter(is_named)?;
        return Some((reset.event.0, reset.event.1.into()));
    };
    if exception.name.eq_ignore_ascii_case(EXTERNAL.as_bytes()) {
        let number = u32::try_from(vector).ok().filter(|number| *number >= 16)?;
        return Some((number, format!("{EXTERNAL_EVENT}{}", number - 16).into()));
    }
    let is_row = |row: &&Vector| row.value == vector && is_named(row);
    let tables = if is_m_profile { [M_PROFILE, AARCH32, AARCH64] } else { [AARCH64, AARCH32, M_PROFILE] };
    // Producers spell the names differently, so in AArch64 the offset alone decides.
    let by_offset = || AARCH64.iter().find(|row| row.value == vector && vector >= 0x80);
    let row = tables.into_iter().flatten().find(is_row).or_else(by_offset)?;
    (row.event.0 != 0).then(|| (row.event.0, row.event.1.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_by_style() {
        let rows = [
            ("EL3h_s", "el3h_s", "EL3h_s"),
            ("EL1h_n", "el1h_ns", "EL1h_n"),
            ("svc_s", "svc_s", "svc_s"),
            ("svc", "svc", "svc"),
            ("hyp_n", "hyp_ns", "hyp_n"),
            ("EL3t_rt", "el3t_rt", "EL3t_rt"),
            ("thread_s", "thrd_s", "thread_s"),
            ("", "", ""),
        ];
        for (mode, rev3, back) in rows {
            let mut out = Vec::new();
            push_mode(Style::Rev3, mode.as_bytes(), &mut out);
            assert_eq!(out, rev3.as_bytes());
            let mut again = Vec::new();
            push_mode(Style::FastModels, &out, &mut again);
            assert_eq!(again, back.as_bytes());
        }
    }

    #[test]
    fn registers_by_style() {
        let rows = [
            (Style::Rev3, "r0", "", "R0"),
            (Style::Rev3, "r14_svc", "", "LR_SVC"),
            (Style::Rev3, "r8_fiq", "", "R8_FIQ"),
            (Style::Rev3, "cpsr", "", "CPSR"),
            (Style::Rev3, "X30", "", "X30"),
            (Style::Rev3, "r13_main_s", "", "r13_main_s"),
            (Style::Rev3, "spsr_abt", "", "spsr_abt"),
            (Style::FastModels, "SP_SVC", "", "r13_svc"),
            (Style::FastModels, "R12", "FIQ", "r12_fiq"),
            (Style::FastModels, "R1", "USR", "r1"),
            (Style::FastModels, "R15", "USR", "r15"),
            (Style::FastModels, "R9", "USR", "r9"),
            (Style::FastModels, "R14", "USR", "r14_usr"),
            (Style::FastModels, "SP", "USR", "r13_usr"),
            (Style::FastModels, "LR", "SVC", "r14_svc"),
            (Style::FastModels, "SPSR", "SVC", "spsr_svc"),
            (Style::FastModels, "SP_EL3", "", "SP_EL3"),
            (Style::FastModels, "CPSR", "AArch32", "cpsr"),
            (Style::FastModels, "R99", "", "R99"),
        ];
        for (style, name, context, expected) in rows {
            let register = Register { name: name.as_bytes(), context: context.as_bytes(), ..Register::default() };
            let mut out = Vec::new();
            assert!(push_register(style, &register, false, &mut out), "{name}");
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn context_without_a_name_is_lost() {
        for (name, context) in [("SCTLR", "AARCH32"), ("SCTLR", "NS"), ("CPSR", "AArch64")] {
            let (name, context) = (name.as_bytes(), context.as_bytes());
            let register = Register { name, context, ..Register::default() };
            assert!(!push_register(Style::FastModels, &register, false, &mut Vec::new()), "{register:?}");
        }
    }

    #[test]
    fn exceptions_round_trip() {
        for (table, is_m_profile) in [(AARCH32, false), (AARCH64, false), (M_PROFILE, true)] {
            for row in table.iter().filter(|row| row.event.0 != 0) {
                let exception = Exception { is_step: false, vector: Some(row.value), name: row.name.as_bytes() };
                let (number, name) = event_of(&exception, is_m_profile).unwrap();
                assert_eq!((number, name.as_slice()), (row.event.0, row.event.1.as_bytes()));
                let event = Event { value: Some(0), mode: b"", number: Some(number), name: &name, is_exception: true };
                assert_eq!(exception_of(&event), Some((row.value, row.name, row.is_asynchronous)), "{}", row.name);
            }
        }
    }
}
