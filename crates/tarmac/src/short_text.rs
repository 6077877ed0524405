//! Short text without memory of its own.

/// Up to `N` bytes of text; more are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShortText<const N: usize> {
    bytes: [u8; N],
    length: u8,
}

impl<const N: usize> Default for ShortText<N> {
    fn default() -> Self {
        Self { bytes: [0; N], length: 0 }
    }
}

impl<const N: usize> ShortText<N> {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut short = Self::default();
        short.push(text);
        short
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        let start = usize::from(self.length);
        let length = text.len().min(N - start);
        self.bytes[start..start + length].copy_from_slice(&text[..length]);
        self.length += length as u8;
    }

    pub(super) fn make_lowercase(&mut self) {
        self.bytes[..usize::from(self.length)].make_ascii_lowercase();
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
