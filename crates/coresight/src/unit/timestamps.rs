//! Timestamps of PTM and ETMv3: as many low bits as have changed.
//!
//! Specification: Arm IHI 0014 and IHI 0035, timestamp packets.

/// Compresses times against the last one that was traced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamps {
    /// 48 or 64.
    size: u8,
    is_gray: bool,
    /// The last one as sent; `None`: readers may not know it.
    sent: Option<u64>,
}

impl Timestamps {
    pub(crate) fn new(size: u8, is_gray: bool) -> Self {
        Self { size, is_gray, sent: None }
    }

    /// The next one is sent whole.
    pub(crate) fn forget(&mut self) {
        self.sent = None;
    }

    /// The new low bits, and their number.
    pub(crate) fn next(&mut self, time: u64) -> (u64, u8) {
        let coded = if self.is_gray { time ^ time >> 1 } else { time };
        let raw = coded & (u64::MAX >> (64 - self.size));
        let changed = self.sent.replace(raw).map_or(u64::MAX, |sent| sent ^ raw);
        // The last possible byte has more or fewer than 7 bits, and makes the timestamp whole.
        let longest = if self.size == 64 { 56 } else { 42 };
        let bits = (7..=longest).step_by(7).find(|bits| changed >> bits == 0).unwrap_or(self.size);
        (if bits < 64 { raw & ((1 << bits) - 1) } else { raw }, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_bits_are_sent() {
        let rows: &[(u8, bool, u64, (u64, u8))] = &[
            (64, false, 0x82_f9d1_8bce, (0x4e, 7)),
            (64, false, 0x82_f9d1_0bcc, (0x11_0bcc, 21)),
            (64, false, u64::MAX, (u64::MAX, 64)),
            (48, false, 0x8082_f9d1_8bcc, (0x8082_f9d1_8bcc, 48)),
            // The Gray code of 0x82f9d18bcd differs from that of its predecessor in one bit.
            (48, true, 0x82_f9d1_8bcd, (0x2b, 7)),
        ];
        for &(size, is_gray, time, expected) in rows {
            let mut timestamps = Timestamps::new(size, is_gray);
            assert_eq!(timestamps.next(0x82_f9d1_8bcc).1, size);
            assert_eq!(timestamps.next(time), expected, "{time:#x}");
            timestamps.forget();
            assert_eq!(timestamps.next(time).1, size);
        }
    }
}
