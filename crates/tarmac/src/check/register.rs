//! Checks of register lines: number of digits of the value.

use super::super::record::Register;
use super::super::value::Digit;
use super::findings::FindingSink;
use super::rules::RuleId;

pub(super) fn check(register: &Register<'_>, out: &mut FindingSink<'_>) {
    let expected = match register.bits {
        Some((high, low)) => (usize::from(high.saturating_sub(low)) + 1).div_ceil(4),
        None => match width(register.name) {
            Some(width) => width,
            None => return,
        },
    };
    let found = register.value.width();
    let is_known = |digit: Digit| digit != Digit::Unchanged && digit != Digit::Known(0);
    // Zeros and dashes are often abbreviated.
    if found < expected && !register.value.digits().any(is_known) {
        return;
    }
    if found != expected {
        let name = String::from_utf8_lossy(register.name);
        let detail = format_args!("the value of {name} has {found} digits, not {expected}");
        out.add_in(register.value.0, RuleId::RegisterWidth, detail);
    }
}

/// Number of digits of a register, if the name implies it.
fn width(name: &[u8]) -> Option<usize> {
    let (first, rest) = name.split_first()?;
    let number = rest.split(|byte| *byte == b'_').next().unwrap_or_default();
    let is_number = matches!(number.len(), 1 | 2) && number.iter().all(u8::is_ascii_digit);
    if !is_number {
        return None;
    }
    match first.to_ascii_uppercase() {
        b'X' => Some(16),
        b'W' | b'R' | b'S' => Some(8),
        b'D' => Some(16),
        b'Q' | b'V' => Some(32),
        b'H' => Some(4),
        b'B' => Some(2),
        _ => None,
    }
}
