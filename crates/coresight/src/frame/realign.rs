//! Frames that start at another offset: bytes are missing from a buffer that has no synchronization patterns.
//!
//! Takes bytes where frame after frame has impossible ids. Produces the shift to the next frame start, if there is
//! evidence for one. Ids alone cannot distinguish even shifts, but a source's own alignment synchronization can: it is a
//! run of zeros of a known length only if no byte of flags was taken for data.

use super::{FRAME_LENGTH, FrameSink, Mark, Span};

/// Number of bytes examined. Trace units synchronize every few kilobytes.
pub(super) const WINDOW: usize = 8 * 1024;

/// The distance to the next frame start, if one of the other fifteen possibilities has evidence. `deformat` reads bytes
/// as frames that start with them.
pub(super) fn shift(bytes: &[u8], deformat: impl Fn(&[u8], &mut Witness)) -> Option<usize> {
    let evidence = |bytes: &[u8]| {
        let whole = bytes.len() / FRAME_LENGTH * FRAME_LENGTH;
        let mut witness = Witness { zeros: [0; 128], found: 0, damaged: false };
        deformat(&bytes[..whole], &mut witness);
        (!witness.damaged).then_some(witness.found)
    };
    let candidates = (1..FRAME_LENGTH).filter_map(|shift| Some((evidence(bytes.get(shift..)?)?, shift)));
    let (found, shift) = candidates.max_by_key(|&(found, shift)| (found, core::cmp::Reverse(shift)))?;
    (found > 0).then_some(shift)
}

/// Counts the alignment synchronizations that sources send, if frames start at a guessed offset.
pub(super) struct Witness {
    /// Number of zeros that each id sent last.
    zeros: [u32; 128],
    found: u32,
    damaged: bool,
}

impl FrameSink for Witness {
    fn span(&mut self, span: Span<'_>) {
        let zeros = &mut self.zeros[usize::from(span.id & 0x7f)];
        for &byte in span.bytes {
            // ETMv4 and ETE send eleven zeros, ETMv3, PTM and ITM five.
            self.found += u32::from(byte == 0x80 && matches!(*zeros, 11 | 5));
            *zeros = if byte == 0 { *zeros + 1 } else { 0 };
        }
    }

    fn mark(&mut self, mark: Mark) {
        self.damaged |= matches!(mark, Mark::Lost(_));
    }
}
