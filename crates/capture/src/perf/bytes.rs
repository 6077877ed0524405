//! Numbers and names in the byte order of a perf.data file.
//!
//! bytes, offset ─▶ **bytes** ─▶ number, or `None` if the bytes end before
//!
//! Does not know what the numbers mean.

/// Byte order of the machine that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// 16 bits at an offset.
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes: [u8; 2] = bytes.get(at..)?.first_chunk().copied()?;
        Some(if self == Self::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    /// 32 bits at an offset.
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes: [u8; 4] = bytes.get(at..)?.first_chunk().copied()?;
        Some(if self == Self::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// 64 bits at an offset.
    pub(crate) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes: [u8; 8] = bytes.get(at..)?.first_chunk().copied()?;
        Some(if self == Self::Big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// All 64-bit numbers; bytes at the end that are fewer than eight are left out.
    pub(crate) fn words(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        bytes.chunks_exact(8).filter_map(move |word| self.u64(word, 0))
    }
}

/// Text up to the first NUL.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_and_the_end() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let (little, big) = (ByteOrder::Little, ByteOrder::Big);
        assert_eq!((little.u16(&bytes, 1), big.u16(&bytes, 1)), (Some(0x0302), Some(0x0203)));
        assert_eq!((little.u32(&bytes, 1), big.u32(&bytes, 1)), (Some(0x0504_0302), Some(0x0203_0405)));
        assert_eq!(little.u64(&bytes, 1), Some(0x0908_0706_0504_0302));
        assert_eq!(big.u64(&bytes, 1), Some(0x0203_0405_0607_0809));
        assert_eq!((little.u64(&bytes, 2), little.u16(&bytes, 8), big.u32(&bytes, usize::MAX)), (None, None, None));
        assert_eq!(little.words(&bytes).count(), 1);
        assert_eq!((text(b"ab\0c"), text(b"ab"), text(b"")), ("ab".into(), "ab".into(), String::new()));
    }
}
