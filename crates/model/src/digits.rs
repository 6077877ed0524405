//! Numbers as text, faster than the formatter: a listing has millions of them.

/// The two digits of every byte.
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

/// Adds an address with all of its sixteen digits.
#[inline]
pub fn push_address(out: &mut String, address: u64) {
    let mut text = *b"0x________________";
    let (pairs, _) = text[2..].as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(address.to_be_bytes()) {
        *pair = PAIRS[usize::from(byte)];
    }
    out.push_str(str::from_utf8(&text).unwrap_or_default());
}

/// Adds a number in hexadecimal without leading zeros.
pub fn push_short_hex(out: &mut String, number: u64) {
    let mut text = [0; 16];
    let (pairs, _) = text.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(number.to_be_bytes()) {
        *pair = PAIRS[usize::from(byte)];
    }
    let unused = (number.leading_zeros() as usize / 4).min(15);
    out.push_str("0x");
    out.push_str(str::from_utf8(&text[unused..]).unwrap_or_default());
}

/// Adds an opcode of two or four bytes with all of its digits.
#[inline]
pub fn push_opcode(out: &mut String, opcode: u32, length: u8) {
    let mut text = [0; 8];
    let (pairs, _) = text.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(opcode.to_be_bytes()) {
        *pair = PAIRS[usize::from(byte)];
    }
    let unused = if length == 2 && opcode >> 16 == 0 { 4 } else { 0 };
    out.push_str(str::from_utf8(&text[unused..]).unwrap_or_default());
}

/// Adds a number in decimal.
#[inline]
pub fn push_decimal(out: &mut String, mut number: u64) {
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
    out.push_str(str::from_utf8(&text[start..]).unwrap_or_default());
}

/// Adds bytes, two digits each.
pub fn push_hex(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.chunks(8) {
        let mut text = [0; 16];
        let (pairs, _) = text.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(chunk) {
            *pair = PAIRS[usize::from(*byte)];
        }
        out.push_str(str::from_utf8(&text[..chunk.len() * 2]).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_equal_those_of_the_formatter() {
        for number in [0, 1, 9, 10, 0xf, 0x10, 0xff, 0x100, 12_345_678_901, u64::MAX >> 4, u64::MAX] {
            let [mut address, mut short, mut decimal, mut opcode] = [const { String::new() }; 4];
            push_address(&mut address, number);
            push_short_hex(&mut short, number);
            push_decimal(&mut decimal, number);
            push_opcode(&mut opcode, number as u32, 4);
            push_opcode(&mut opcode, number as u32 & 0xffff, 2);
            let opcodes = format!("{:08x}{:04x}", number as u32, number as u16);
            assert_eq!(
                [address, short, decimal, opcode],
                [format!("{number:#018x}"), format!("{number:#x}"), number.to_string(), opcodes]
            );
        }
        let mut bytes = String::new();
        push_hex(&mut bytes, &[0, 0x1f, 0xff]);
        assert_eq!(bytes, "001fff");
    }
}
