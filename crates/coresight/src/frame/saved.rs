//! The state of a deformatter between two chunks, as numbers.
//!
//! [`Deformatter::save`](super::Deformatter::save) ─▶ **numbers** ─▶ [`Deformatter::restored`](super::Deformatter::restored)
//!
//! An index of a capture keeps them, so that frames are read from the middle of a buffer exactly as from its start, also
//! where bytes are missing. The bytes that the deformatter held back are not part of it: they are read again.

/// State of a [`Deformatter`](super::Deformatter) between two chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedFrames {
    pub(super) is_aligned: bool,
    pub(super) frames: [u64; FRAMES],
    pub(super) ahead: [u64; LOOK_AHEAD],
}

/// Numbers of frames, and of the examination of ids.
pub(super) const FRAMES: usize = 4;
pub(super) const LOOK_AHEAD: usize = 8;

/// Greatest offset or count: no buffer has more bytes, and sums of them do not overflow.
pub(super) const MAX_OFFSET: u64 = 1 << 56;

impl SavedFrames {
    /// Number of numbers.
    pub const NUMBERS: usize = 1 + FRAMES + LOOK_AHEAD;

    /// Offset in the buffer of the first byte that is not processed.
    pub fn offset(&self) -> u64 {
        self.frames[0]
    }

    /// All of it as numbers.
    pub fn to_numbers(&self) -> [u64; Self::NUMBERS] {
        let mut numbers = [u64::from(self.is_aligned); Self::NUMBERS];
        numbers[1..=FRAMES].copy_from_slice(&self.frames);
        numbers[1 + FRAMES..].copy_from_slice(&self.ahead);
        numbers
    }

    /// The state that the numbers are. `None`: no deformatter has such a state.
    pub fn from_numbers(numbers: [u64; Self::NUMBERS]) -> Option<Self> {
        let [is_aligned, rest @ ..] = numbers;
        let (frames, ahead) = (*rest.first_chunk()?, *rest.last_chunk()?);
        let is_valid = is_aligned < 2 && super::read::is_state(frames) && super::look_ahead::is_state(ahead);
        is_valid.then_some(Self { is_aligned: is_aligned == 1, frames, ahead })
    }
}
