//! Disassembly in the style of the specification's figure: mnemonics in upper case in a column of their own, operands
//! without blanks after commas, registers in lower case and all other words in upper case.
//!
//! `ldr za[w12, #0x4], [x0, #0x4, mul vl]` ─▶ `LDR      ZA[w12,4],[x0,#4,MUL VL]`

/// Width of the mnemonic column.
const COLUMN: usize = 8;

/// The text of a disassembler in the style of the figure. Text that ends with a blank or a comma still does.
pub(super) fn styled(text: &str) -> String {
    let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
    // `.inst` is no mnemonic.
    let mnemonic = if mnemonic.starts_with('.') { mnemonic.to_string() } else { mnemonic.to_uppercase() };
    let bare = operands.is_empty() && !text.ends_with(' ');
    let mut out = if bare { mnemonic } else { format!("{mnemonic:<COLUMN$} ") };
    let mut rest = operands;
    while let Some(token) = next(rest) {
        rest = &rest[token.len()..];
        match token.as_bytes()[0] {
            b' ' if out.ends_with([',', '{', ' ']) || rest.starts_with('}') => {}
            b'#' if counts(&out, rest) => push_count(&mut out, token),
            b'a'..=b'z' if !is_register(token) => out.push_str(&token.to_uppercase()),
            _ => out.push_str(token),
        }
    }
    out
}

/// A word, a number or a single character.
fn next(text: &str) -> Option<&str> {
    let first = text.chars().next()?;
    let is_in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let is_in_number = |c: char| is_in_word(c) || matches!(c, '-' | '+');
    let length = match first {
        '#' => 1 + text[1..].find(|c| !is_in_number(c)).unwrap_or(text.len() - 1),
        first if is_in_word(first) => text.find(|c| !is_in_word(c)).unwrap_or(text.len()),
        first => first.len_utf8(),
    };
    Some(&text[..length])
}

/// Whether the number between these two is a small count, which reads better in decimal: a shift, a multiple of the
/// vector length, an index into ZA.
fn counts(before: &str, after: &str) -> bool {
    // The mnemonic is followed by a blank too, but in its column.
    let is_shift = before.ends_with(' ') && before.trim_end().len() > COLUMN;
    is_index(before) || is_shift || after.starts_with(", mul vl")
}

/// Whether the last open bracket is that of ZA.
fn is_index(before: &str) -> bool {
    let Some((head, inside)) = before.rsplit_once('[') else { return false };
    let word = head.rsplit([',', '{', ' ']).next().unwrap_or(head);
    !inside.contains(']') && word.starts_with("ZA")
}

fn push_count(out: &mut String, token: &str) {
    let number = token.trim_start_matches('#');
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let value = digits.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let mark = if is_index(out) { "" } else { "#" };
    match value {
        Some(value) => *out += &format!("{mark}{sign}{value}"),
        None => out.push_str(token),
    }
}

/// `x0`, `wzr`, `v3.16b`, `z1.s`, `p0`, `pn8`; also the `z` and `m` of a predicate.
fn is_register(word: &str) -> bool {
    let name = word.split_once('.').map_or(word, |(name, _)| name);
    let number = name.strip_prefix("pn").or_else(|| name.strip_prefix(is_bank)).unwrap_or_default();
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_numbered || matches!(name, "sp" | "wsp" | "xzr" | "wzr" | "lr" | "z" | "m")
}

/// The letters that registers start with.
fn is_bank(letter: char) -> bool {
    matches!(letter, 'x' | 'w' | 'v' | 'b' | 'h' | 's' | 'd' | 'q' | 'z' | 'p')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disassembly_is_restyled() {
        let rows = [
            ("nop", "NOP"),
            ("cmp w3, w0", "CMP      w3,w0"),
            ("ldp x19, x20, [sp, #0x10]", "LDP      x19,x20,[sp,#0x10]"),
            ("stp x29, x30, [sp, #-0x10]!", "STP      x29,x30,[sp,#-0x10]!"),
            ("setgp [x19]!, x20!, x0", "SETGP    [x19]!,x20!,x0"),
            ("smstart sm", "SMSTART  SM"),
            ("ldr za[w12, #0x4], [x0, #0x4, mul vl]", "LDR      ZA[w12,4],[x0,#4,MUL VL]"),
            ("ldr z0, [x0, #-0x10, mul vl]", "LDR      z0,[x0,#-16,MUL VL]"),
            ("ld1w {za0h.s[w12, #0x0]}, p0/z, [x0, x0, lsl #0x2]", "LD1W     {ZA0H.S[w12,0]},p0/z,[x0,x0,LSL #2]"),
            ("smlall za.s[w8, 0:3, vgx2], { z0.b, z1.b }", "SMLALL   ZA.S[w8,0:3,VGX2],{z0.b,z1.b}"),
            ("csel x0, x1, x2, ne", "CSEL     x0,x1,x2,NE"),
            ("add x0, x1, x1, lsl #0x3", "ADD      x0,x1,x1,LSL #3"),
            ("add x0, x1, w1, sxtw", "ADD      x0,x1,w1,SXTW"),
            ("mrs x0, tpidr_el0", "MRS      x0,TPIDR_EL0"),
            ("mrs x0, s3_0_c15_c2_0", "MRS      x0,S3_0_C15_C2_0"),
            ("dc zva, x0", "DC       ZVA,x0"),
            ("svc #0x10", "SVC      #0x10"),
            ("fmov d0, #1.0", "FMOV     d0,#1.0"),
            ("ld1 {v0.16b, v1.16b}, [x0]", "LD1      {v0.16b,v1.16b},[x0]"),
            ("prfm pldl1keep, [x0]", "PRFM     PLDL1KEEP,[x0]"),
            (".inst 0x00000001", ".inst    0x00000001"),
            // An address follows these.
            ("b.ne ", "B.NE     "),
            ("cbz x0, ", "CBZ      x0,"),
        ];
        for (plain, figure) in rows {
            assert_eq!(styled(plain), figure);
        }
    }
}
