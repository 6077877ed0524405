//! Register names, bit ranges and values as lines write them.

use unspool_model::RegisterWrite;

use super::super::write::Style;

/// Maximum number of bytes of a register when it is read back.
const MAX_BYTES: usize = 2048;

/// The name of a register in the notation of the style; `None`: no line can name it.
pub(super) fn register_name<'n>(style: Style, name: &str, buffer: &'n mut [u8; 32]) -> Option<&'n mut [u8]> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'(' | b'<' | b'[');
    let buffer = buffer.get_mut(..name.len()).filter(|_| !name.is_empty() && name.bytes().all(is_plain))?;
    buffer.copy_from_slice(name.as_bytes());
    let is_small = name == "cpsr" || matches!(name.as_bytes(), [b'r', b'0'..=b'9', ..]);
    if style == Style::Rev3 || !is_small {
        buffer.make_ascii_uppercase();
    }
    Some(buffer)
}

/// Whether this writes the lower half of an AArch64 general-purpose register. Lines name it `Wn`, which implies that
/// the upper half becomes zero.
pub(super) fn is_word(write: &RegisterWrite<'_>) -> bool {
    write.low == 0 && write.bytes.len() == 4 && is_numbered(write.name, b'x')
}

/// The bit range that is written, or `Some(None)` for the whole register. `None`: no line can represent it.
pub(super) fn bits(write: &RegisterWrite<'_>) -> Option<Option<(u16, u16)>> {
    let length = write.bytes.len();
    if length == 0 || length > MAX_BYTES {
        return None;
    }
    if write.low == 0 && min_bytes(write.name).is_none_or(|min_bytes| length >= min_bytes) {
        return Some(None);
    }
    let high = usize::from(write.low) + length * 8 - 1;
    u16::try_from(high).ok().map(|high| Some((high, write.low)))
}

/// Minimum number of bytes of a register, if its name implies one. A shorter value without a bit range would be read as
/// the whole register.
fn min_bytes(name: &str) -> Option<usize> {
    match name {
        "cpsr" | "fpcr" | "fpsr" => Some(4),
        "sp_el0" | "sp_el1" | "sp_el2" | "sp_el3" => Some(8),
        name if is_numbered(name, b'x') => Some(8),
        name if is_numbered(name, b'r') => Some(4),
        name if is_numbered(name, b'v') || is_numbered(name, b'q') => Some(16),
        // Without a bit range it would be read as a part of the X register; see `is_word`.
        name if is_numbered(name, b'w') => Some(usize::MAX),
        _ => None,
    }
}

/// Whether the name is this letter and a number.
fn is_numbered(name: &str, letter: u8) -> bool {
    match name.as_bytes() {
        [first, digits @ ..] => {
            *first == letter && matches!(digits.len(), 1 | 2) && digits.iter().all(u8::is_ascii_digit)
        }
        [] => false,
    }
}

/// Formats a value, the most significant digit first. Returns true if some digit is only partly known; its bits are
/// dropped.
pub(super) fn push_value(bytes: &[(u8, u8)], out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut is_partial = false;
    for (value, known) in bytes.iter().rev() {
        for (digit, known) in [(value >> 4, known >> 4), (value & 0xf, known & 0xf)] {
            is_partial |= !matches!(known, 0 | 0xf);
            // Separates a leading `0x` that is no prefix.
            if known != 0xf && *out == b"0" {
                out.push(b'_');
            }
            out.push(if known == 0xf { b"0123456789abcdef"[usize::from(digit)] } else { b'x' });
        }
    }
    is_partial
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_names_of_lines() {
        let rows =
            [("x0", Some("X0")), ("r0", Some("r0")), ("cpsr", Some("cpsr")), ("", None), ("a b", None), ("a(b", None)];
        for (name, expected) in rows {
            let mut buffer = [0; 32];
            let spelled = register_name(Style::FastModels, name, &mut buffer).map(|name| String::from_utf8_lossy(name));
            assert_eq!(spelled.as_deref(), expected, "{name}");
        }
        assert_eq!(register_name(Style::Rev3, "r0", &mut [0; 32]).as_deref(), Some(&b"R0"[..]));
    }

    #[test]
    fn part_of_a_register_has_a_bit_range() {
        let rows = [
            ("v5", 0, 8, Some((63, 0))),
            ("v5", 0, 16, None),
            // From a longer vector.
            ("v5", 0, 32, None),
            ("v5", 64, 8, Some((127, 64))),
            ("q1", 0, 4, Some((31, 0))),
            ("x3", 0, 8, None),
            ("x3", 0, 2, Some((15, 0))),
            ("w3", 0, 4, Some((31, 0))),
            ("r3", 0, 4, None),
            ("r3", 0, 1, Some((7, 0))),
            ("cpsr", 0, 4, None),
            ("cpsr", 0, 1, Some((7, 0))),
            ("sp_el1", 0, 4, Some((31, 0))),
            // Predicates and system registers are as wide as producers write them.
            ("p2", 0, 2, None),
            ("sctlr_el1", 0, 4, None),
        ];
        for (name, low, length, expected) in rows {
            let bytes = vec![(0, 0xff); length];
            assert_eq!(bits(&RegisterWrite { name, low, bytes: &bytes }), Some(expected), "{name}");
        }
        let bytes = [(0, 0xff); 4];
        assert!(is_word(&RegisterWrite { name: "x3", low: 0, bytes: &bytes }));
        assert!(!is_word(&RegisterWrite { name: "r3", low: 0, bytes: &bytes }));
    }

    #[test]
    fn values_are_formatted_by_digit() {
        type Row<'r> = (&'r [(u8, u8)], &'r str, bool);
        let rows: [Row<'_>; 4] = [
            (&[(0x12, 0xff), (0x34, 0xff)], "3412", false),
            (&[(0x02, 0x0f), (0, 0)], "xxx2", false),
            // Would be read as a prefix.
            (&[(0x12, 0xff), (0x00, 0xf0)], "0_x12", false),
            (&[(0x12, 0x7f)], "x2", true),
        ];
        for (bytes, expected, lost) in rows {
            let mut out = Vec::new();
            assert_eq!(push_value(bytes, &mut out), lost, "{expected}");
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
