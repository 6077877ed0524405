//! Evidence for where frames start: whether the bytes of an id are the trace of a source.
//!
//! Takes bytes that would belong to one id if frames started at a guessed offset. Produces a [`Fit`]. Frames know no
//! protocols: a reader that knows the sources of its buffer implements [`SourceEvidence`]; without such knowledge
//! [`UnknownSources`] recognizes the alignment synchronizations of most protocols.

use core::fmt;
use core::ops::AddAssign;

use super::Ids;

/// Knowledge of the sources of a buffer. It decides where frames start when bytes are missing.
pub trait SourceEvidence: fmt::Debug {
    /// The ids of the sources, as far as they are known. Other ids may occur; unless none is known, they are no evidence.
    fn ids(&self) -> Ids;

    /// How well bytes fit the source with this id. They start and end anywhere in its trace.
    fn examine(&self, id: u8, bytes: &[u8]) -> Fit;
}

/// How well bytes fit a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fit {
    /// Bytes of packets that follow a synchronization, and of the synchronization.
    pub well_formed: u64,
    /// Number of places where bytes are no packet although those before were.
    pub malformed: u64,
}

impl AddAssign for Fit {
    fn add_assign(&mut self, other: Self) {
        self.well_formed += other.well_formed;
        self.malformed += other.malformed;
    }
}

/// Sources of which nothing is known. Evidence is an intact alignment synchronization: a run of zeros of a known length,
/// which no byte of flags interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnknownSources;

/// The byte that ends an alignment synchronization.
const SYNC_END: u8 = 0x80;
/// Weight of an alignment synchronization, in bytes.
const SYNC_WEIGHT: u64 = 64;

impl SourceEvidence for UnknownSources {
    fn ids(&self) -> Ids {
        Ids::default()
    }

    fn examine(&self, _id: u8, bytes: &[u8]) -> Fit {
        let mut fit = Fit::default();
        for end in memchr::memchr_iter(SYNC_END, bytes) {
            let zeros = bytes[..end].iter().rev().take_while(|byte| **byte == 0).count();
            match zeros {
                // ETMv4 and ETE send eleven zeros, ETMv3, PTM and ITM five.
                11 | 5 => fit.well_formed += SYNC_WEIGHT,
                0..=3 => {}
                _ => fit.malformed += 1,
            }
        }
        fit
    }
}
