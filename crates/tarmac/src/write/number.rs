//! Formatting of numbers.

use super::super::record::Time;

/// The two hexadecimal digits of every byte.
const PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 0xf]];
        byte += 1;
    }
    pairs
};

/// All sixteen digits of a number.
#[inline]
pub(super) fn hex_digits(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    let (pairs, _) = text.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(number.to_be_bytes()) {
        *pair = PAIRS[usize::from(byte)];
    }
    text
}

/// Appends a number in hexadecimal, with at least `count` digits. Most callers have a constant count, which inlining uses.
#[inline(always)]
pub(in super::super) fn push_hex(out: &mut Vec<u8>, number: u64, count: usize) {
    let needed = 16 - (number | 1).leading_zeros() as usize / 4;
    let shown = needed.max(count);
    out.resize(out.len() + shown.saturating_sub(16), b'0');
    out.extend_from_slice(&hex_digits(number)[16 - shown.min(16)..]);
}

#[inline]
pub(in super::super) fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut text = [0; 20];
    let mut start = text.len();
    loop {
        start -= 1;
        text[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[start..]);
}

/// Appends the digits of a time, with a decimal point if it has decimals.
pub(super) fn push_time(out: &mut Vec<u8>, time: Time) {
    let decimals = usize::from(time.decimals);
    if decimals == 0 {
        return push_decimal(out, time.value);
    }
    let start = out.len();
    push_decimal(out, time.value);
    let missing = (decimals + 1).saturating_sub(out.len() - start);
    out.splice(start..start, std::iter::repeat_n(b'0', missing));
    out.insert(out.len() - decimals, b'.');
}

#[cfg(test)]
mod tests {
    use super::super::super::record::Unit;
    use super::*;

    #[test]
    fn hexadecimal_digits() {
        let rows: &[(u64, usize, &str)] = &[
            (0, 1, "0"),
            (0x2d40, 8, "00002d40"),
            (0x1_0000_0000, 8, "100000000"),
            (u64::MAX, 16, "ffffffffffffffff"),
            (5, 18, "000000000000000005"),
        ];
        for (number, digits, text) in rows {
            let mut out = Vec::new();
            push_hex(&mut out, *number, *digits);
            assert_eq!(String::from_utf8_lossy(&out), *text);
        }
    }

    #[test]
    fn times_with_decimals() {
        for (value, decimals, text) in [(0, 0, "0"), (10_356_000, 6, "10.356000"), (5, 3, "0.005"), (7, 1, "0.7")] {
            let mut out = Vec::new();
            push_time(&mut out, Time { value, decimals, unit: Unit::Us });
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
