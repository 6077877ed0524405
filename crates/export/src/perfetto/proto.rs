//! Protocol buffers: the few kinds of fields that trace packets have.

/// Adds a number with seven bits per byte, the lowest first.
#[inline]
pub(super) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Adds a number as a field.
#[inline]
pub(super) fn push_number(out: &mut Vec<u8>, field: u32, value: u64) {
    push_varint(out, u64::from(field) << 3);
    push_varint(out, value);
}

/// Adds a floating-point number as a field.
pub(super) fn push_double(out: &mut Vec<u8>, field: u32, value: f64) {
    push_varint(out, u64::from(field) << 3 | 1);
    out.extend(value.to_le_bytes());
}

/// Adds a text as a field.
pub(super) fn push_text(out: &mut Vec<u8>, field: u32, text: &str) {
    push_varint(out, u64::from(field) << 3 | 2);
    push_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Adds a message as a field. Its length comes before it, and is a byte for most messages.
#[inline]
pub(super) fn push_message(out: &mut Vec<u8>, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    push_varint(out, u64::from(field) << 3 | 2);
    let start = out.len() + 1;
    out.push(0);
    fill(out);
    let length = out.len() - start;
    if length > 0x7f {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, length as u64);
        out.splice(start - 1..start, bytes);
    } else if let Some(byte) = out.get_mut(start - 1) {
        *byte = length as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the description of the encoding: 150 in field 1, "testing" in field 2, a message with 150 in field 3.
    #[test]
    fn fields() {
        let mut out = Vec::new();
        push_number(&mut out, 1, 150);
        push_text(&mut out, 2, "testing");
        push_message(&mut out, 3, |out| push_number(out, 1, 150));
        let expected = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01";
        assert_eq!(out, expected);
        let mut long = Vec::new();
        push_message(&mut long, 1, |out| out.resize(out.len() + 300, 7));
        assert_eq!((long.len(), &long[..3]), (303, &[0x0a, 0xac, 0x02][..]));
    }
}
