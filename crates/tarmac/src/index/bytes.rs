//! Variable-length encoding of numbers. Input may be damaged, so every read can fail.

/// Error: the bytes are not a valid encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Appends a number, seven bits per byte.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends bytes, preceded by their number.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Decodes numbers from bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            if shift > 63 {
                return Err(Malformed);
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// A number of following items, each of which has at least one byte.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.number()?;
        if count > self.0.len() as u64 { Err(Malformed) } else { Ok(count as usize) }
    }

    /// A number of items, and the items.
    pub(super) fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        (0..self.count()?).map(|_| item(self)).collect()
    }

    pub(super) fn line(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*byte)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count()?;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut out = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        numbers.iter().for_each(|number| put(&mut out, *number));
        put_bytes(&mut out, b"name");
        let mut cursor = Cursor(&out);
        assert_eq!(numbers.map(|_| cursor.number().unwrap()), numbers);
        assert_eq!(cursor.bytes().unwrap(), b"name");
        assert!(cursor.is_empty());
        assert_eq!(cursor.number(), Err(Malformed));
        assert_eq!(Cursor(&[0xff; 12]).number(), Err(Malformed));
        assert_eq!(Cursor(&[5, 1]).bytes(), Err(Malformed));
    }
}
