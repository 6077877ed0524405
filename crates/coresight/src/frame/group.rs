//! Groups of consecutive frames: the unit in which undamaged frames are examined and then emitted.
//!
//! Takes bytes that start with a frame. Produces groups, each with the frames that have ids, so that these are looked for
//! once. Does not know what ids mean.

use super::FRAME_LENGTH;

/// Number of frames in a group: as many as are held back.
const FRAMES: usize = 32;
/// Number of bytes in a group.
pub(super) const GROUP: usize = FRAMES * FRAME_LENGTH;

/// Frames, and which of them have ids.
pub(super) struct Group<'b> {
    frames: &'b [[u8; FRAME_LENGTH]],
    /// One bit for each frame, the lowest for the first.
    with_ids: u32,
}

impl<'b> Group<'b> {
    #[inline]
    pub(super) fn of(bytes: &'b [u8; GROUP]) -> Self {
        let (frames, _) = bytes.as_chunks();
        let with_ids = frames.chunks(LANE).rev().fold(0, |later, frames| later << LANE | u32::from(with_ids(frames)));
        Self { frames, with_ids }
    }

    /// The frames that have ids.
    #[inline]
    pub(super) fn with_ids(&self) -> impl Iterator<Item = &'b [u8; FRAME_LENGTH]> {
        let (frames, mut left) = (self.frames, self.with_ids);
        core::iter::from_fn(move || {
            let index = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            frames.get(index)
        })
    }

    /// The frames in order: those up to the next one that has ids, and that one.
    #[inline]
    pub(super) fn runs(&self) -> impl Iterator<Item = (&'b [[u8; FRAME_LENGTH]], Option<&'b [u8; FRAME_LENGTH]>)> {
        let (mut frames, mut left) = (self.frames, self.with_ids);
        core::iter::from_fn(move || {
            if frames.is_empty() {
                return None;
            }
            let (run, rest) = frames.split_at(frames.len().min(left.trailing_zeros() as usize));
            let (next, rest) = rest.split_first().map_or((None, rest), |(next, rest)| (Some(next), rest));
            left = left.checked_shr(run.len() as u32 + 1).unwrap_or(0);
            frames = rest;
            Some((run, next))
        })
    }
}

/// Frames whose bits are found at once.
const LANE: usize = 16;

/// Which frames have an id, an even byte that is odd. All bytes of a frame are looked at in parallel and without a branch:
/// the processor could not predict it.
#[inline]
fn with_ids(frames: &[[u8; FRAME_LENGTH]]) -> u16 {
    let mut lanes = [0; FRAME_LENGTH / 2];
    for (index, frame) in frames.iter().enumerate() {
        let (pairs, _) = frame.as_chunks();
        for (lane, pair) in lanes.iter_mut().zip(pairs) {
            *lane |= (u16::from_le_bytes(*pair) & 1) << index;
        }
    }
    lanes.into_iter().fold(0, |all, lane| all | lane)
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn frames_with_ids_end_runs() {
        // Which frames have an id, and the lengths of the runs up to each of them and of the last one.
        type Row<'r> = (&'r [usize], &'r [usize]);
        let rows: &[Row<'_>] =
            &[(&[], &[32]), (&[0], &[0, 31]), (&[31], &[31]), (&[15, 16], &[15, 0, 15]), (&[3, 8, 30], &[3, 4, 21, 1])];
        for (at, expected) in rows {
            for pair in 0..FRAME_LENGTH / 2 {
                // Odd bytes and the flags may have any value.
                let mut bytes = [0xfe; GROUP];
                bytes.iter_mut().skip(1).step_by(2).for_each(|byte| *byte = 0xff);
                at.iter().for_each(|frame| bytes[frame * FRAME_LENGTH + 2 * pair] = 0x21);
                let group = Group::of(&bytes);
                let found: Vec<usize> = group.runs().map(|(run, _)| run.len()).collect();
                assert_eq!(found, *expected, "{at:?}, pair {pair}");
                let with_ids: Vec<u8> = group.with_ids().map(|frame| frame[2 * pair]).collect();
                assert_eq!(with_ids, vec![0x21; at.len()], "{at:?}, pair {pair}");
                assert_eq!(group.runs().filter_map(|(_, next)| next).count(), at.len(), "{at:?}, pair {pair}");
            }
        }
    }
}
