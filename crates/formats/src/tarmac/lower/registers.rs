//! Registers as lines spell them: names, bits, and digits.

use unspool_model::RegisterWrite;

use super::super::write::Style;

/// A register has no more bytes when it is read back.
const LONGEST: usize = 2048;

/// The name of a register as lines spell it; `None`: no line can.
pub(super) fn spell<'n>(style: Style, name: &str, room: &'n mut [u8; 32]) -> Option<&'n [u8]> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'(' | b'<' | b'[');
    let room = room.get_mut(..name.len()).filter(|_| !name.is_empty() && name.bytes().all(is_plain))?;
    room.copy_from_slice(name.as_bytes());
    let is_small = name == "cpsr" || matches!(name.as_bytes(), [b'r', b'0'..=b'9', ..]);
    if style == Style::Rev3 || !is_small {
        room.make_ascii_uppercase();
    }
    Some(room)
}

/// The bits that are written, if it is not the register from its first one on. `None`: no line can say this.
pub(super) fn bits(write: &RegisterWrite<'_>) -> Option<Option<(u16, u16)>> {
    let length = write.bytes.len();
    if length == 0 || length > LONGEST {
        return None;
    }
    if write.low == 0 {
        return Some(None);
    }
    let high = usize::from(write.low) + length * 8 - 1;
    u16::try_from(high).ok().map(|high| Some((high, write.low)))
}

/// The digits of a value, the highest first. True: of some, only a part of the bits is known, and is lost.
pub(super) fn push_value(bytes: &[(u8, u8)], out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut is_partial = false;
    for (value, known) in bytes.iter().rev() {
        for (digit, known) in [(value >> 4, known >> 4), (value & 0xf, known & 0xf)] {
            is_partial |= !matches!(known, 0 | 0xf);
            // What is read as a prefix is none.
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
    fn registers_have_names_that_lines_can_say() {
        let rows =
            [("x0", Some("X0")), ("r0", Some("r0")), ("cpsr", Some("cpsr")), ("", None), ("a b", None), ("a(b", None)];
        for (name, expected) in rows {
            let mut room = [0; 32];
            let spelled = spell(Style::FastModels, name, &mut room).map(String::from_utf8_lossy);
            assert_eq!(spelled.as_deref(), expected, "{name}");
        }
        assert_eq!(spell(Style::Rev3, "r0", &mut [0; 32]), Some(&b"R0"[..]));
    }

    #[test]
    fn values_have_their_digits() {
        type Row<'r> = (&'r [(u8, u8)], &'r str, bool);
        let rows: [Row<'_>; 4] = [
            (&[(0x12, 0xff), (0x34, 0xff)], "3412", false),
            (&[(0x02, 0x0f), (0, 0)], "xxx2", false),
            // What would be read as a prefix.
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
