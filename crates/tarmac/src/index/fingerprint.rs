//! Which log is it? Its length, when it was changed, and a look at some of it.

use std::io::{self, Read, Seek, SeekFrom};

use super::bytes::{Cursor, Malformed, put};

/// So many places are looked at, besides the start and the end.
const PLACES: u64 = 16;

/// As many bytes are looked at in each.
const LOOK: u64 = 4096;

/// What tells a log from others, and from what it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// How many bytes it has.
    pub length: u64,
    /// When it was changed, in nanoseconds; 0: nobody knows.
    pub modified: u64,
    /// A checksum of some of it.
    pub sum: u32,
}

impl Fingerprint {
    /// Looks at a log.
    pub fn of(log: &mut (impl Read + Seek), modified: u64) -> io::Result<Self> {
        let length = log.seek(SeekFrom::End(0))?;
        let (mut sum, mut bytes) = (flate2::Crc::new(), Vec::new());
        for place in 0..=PLACES {
            let last = length.saturating_sub(LOOK);
            let offset = (u128::from(last) * u128::from(place) / u128::from(PLACES)) as u64;
            log.seek(SeekFrom::Start(offset))?;
            bytes.clear();
            log.by_ref().take(LOOK).read_to_end(&mut bytes)?;
            sum.update(&bytes);
        }
        log.seek(SeekFrom::Start(0))?;
        Ok(Self { length, modified, sum: sum.sum() })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        [self.length, self.modified, self.sum.into()].iter().for_each(|number| put(out, *number));
    }

    pub(super) fn take(cursor: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let (length, modified) = (cursor.number()?, cursor.number()?);
        Ok(Self { length, modified, sum: u32::try_from(cursor.number()?).map_err(|_| Malformed)? })
    }
}
