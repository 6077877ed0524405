//! Fingerprint of a log: length, time of modification, and a checksum of samples.

use std::io::{self, Read, Seek, SeekFrom};

use super::bytes::{Cursor, Malformed, put};

/// Number of samples, besides the first.
const SAMPLES: u64 = 16;

/// Number of bytes of a sample.
const SAMPLE: u64 = 4096;

/// Identification of a log and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Number of bytes.
    pub length: u64,
    /// Time of modification in nanoseconds; 0: unknown.
    pub modified: u64,
    /// Checksum of samples.
    pub sum: u32,
}

impl Fingerprint {
    /// Computes the fingerprint of a log.
    pub fn of(log: &mut (impl Read + Seek), modified: u64) -> io::Result<Self> {
        let length = log.seek(SeekFrom::End(0))?;
        let (mut sum, mut bytes) = (flate2::Crc::new(), Vec::new());
        for index in 0..=SAMPLES {
            let last = length.saturating_sub(SAMPLE);
            let offset = (u128::from(last) * u128::from(index) / u128::from(SAMPLES)) as u64;
            log.seek(SeekFrom::Start(offset))?;
            bytes.clear();
            log.by_ref().take(SAMPLE).read_to_end(&mut bytes)?;
            sum.update(&bytes);
        }
        log.seek(SeekFrom::Start(0))?;
        Ok(Self { length, modified, sum: sum.sum() })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        [self.length, self.modified, self.sum.into()].iter().for_each(|number| put(out, *number));
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let (length, modified) = (cursor.number()?, cursor.number()?);
        Ok(Self { length, modified, sum: u32::try_from(cursor.number()?).map_err(|_| Malformed)? })
    }
}
