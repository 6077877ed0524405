//! Bytes of several groups, each in its order, in one temporary file.
//!
//! (group, bytes), (group, bytes), … ─▶ **file of chained blocks** ─▶ bytes of each group
//!
//! Each block has the offset of the next block of its group. Memory holds the unwritten end of every group, and no more
//! than a total of [`BUFFERED`] bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Bytes in memory over all groups.
const BUFFERED: usize = 16 << 20;
/// Bytes of a group that are worth a block.
const BLOCK: usize = 64 << 10;
/// Offset of the next block and length, before the bytes of a block.
const HEAD: usize = 16;

/// Groups of bytes, with keys of the caller. Groups are in the order of their keys.
#[derive(Debug)]
pub struct GroupFile<K> {
    file: File,
    length: u64,
    groups: BTreeMap<K, Group>,
    buffered: usize,
}

#[derive(Debug, Default)]
struct Group {
    /// Offsets of the first and the last block.
    written: Option<(u64, u64)>,
    /// Bytes that are not in the file yet.
    end: Vec<u8>,
}

impl<K: Ord> GroupFile<K> {
    /// Starts with no groups.
    ///
    /// # Errors
    ///
    /// If there can be no temporary file.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, length: 0, groups: BTreeMap::new(), buffered: 0 })
    }

    /// Adds bytes to a group.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn append(&mut self, key: K, bytes: &[u8]) -> io::Result<()> {
        let group = self.groups.entry(key).or_default();
        group.end.extend_from_slice(bytes);
        self.buffered += bytes.len();
        if group.end.len() >= BLOCK {
            self.buffered -= group.end.len();
            group.flush(&mut self.file, &mut self.length)?;
        }
        if self.buffered > BUFFERED {
            let Self { file, length, groups, .. } = self;
            groups.values_mut().try_for_each(|group| group.flush(file, length))?;
            self.buffered = 0;
        }
        Ok(())
    }

    /// Calls `read` with the bytes of each group, in the order of their keys, as long as it returns true.
    ///
    /// # Errors
    ///
    /// Those of `read`, which include those of the file.
    pub fn each<E>(&mut self, mut read: impl FnMut(&K, &mut dyn Read) -> Result<bool, E>) -> Result<(), E> {
        for (key, group) in &self.groups {
            let next = group.written.map(|(first, _)| first);
            let mut bytes = Chain { file: &mut self.file, next, left: 0 }.chain(group.end.as_slice());
            if !read(key, &mut bytes)? {
                break;
            }
        }
        Ok(())
    }
}

impl Group {
    /// Writes a block, and links it to the one before.
    fn flush(&mut self, file: &mut File, length: &mut u64) -> io::Result<()> {
        if self.end.is_empty() {
            return Ok(());
        }
        let start = *length;
        if let Some((_, last)) = self.written {
            file.seek(SeekFrom::Start(last))?;
            file.write_all(&start.to_le_bytes())?;
        }
        file.seek(SeekFrom::Start(start))?;
        file.write_all(&[0_u64.to_le_bytes(), (self.end.len() as u64).to_le_bytes()].concat())?;
        file.write_all(&self.end)?;
        *length += (HEAD + self.end.len()) as u64;
        self.written = Some((self.written.map_or(start, |(first, _)| first), start));
        // Keeps no memory for a group that may not be seen again.
        self.end = Vec::new();
        Ok(())
    }
}

/// The blocks of a group.
struct Chain<'f> {
    file: &'f mut File,
    /// Offset of the next block. No block but the first of all is at 0, so that 0 ends the chain.
    next: Option<u64>,
    /// Bytes of the block that have not been read.
    left: u64,
}

impl Read for Chain<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let Some(at) = self.next else { return Ok(0) };
            self.file.seek(SeekFrom::Start(at))?;
            let mut word = [0; 8];
            self.file.read_exact(&mut word)?;
            self.next = Some(u64::from_le_bytes(word)).filter(|next| *next != 0);
            self.file.read_exact(&mut word)?;
            self.left = u64::from_le_bytes(word);
        }
        let read = (&mut *self.file).take(self.left).read(buffer)?;
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups(file: &mut GroupFile<u8>) -> BTreeMap<u8, Vec<u8>> {
        let mut found = BTreeMap::new();
        file.each(|key, bytes| {
            let mut all = Vec::new();
            bytes.read_to_end(&mut all)?;
            found.insert(*key, all);
            io::Result::Ok(true)
        })
        .unwrap();
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn groups_have_their_bytes_in_order(appended in prop::collection::vec((0_u8..4, 0_usize..100_000), 0..40)) {
            let mut file = GroupFile::new().unwrap();
            let mut expected: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
            for (index, (key, length)) in appended.into_iter().enumerate() {
                let bytes = vec![index as u8; length];
                file.append(key, &bytes).unwrap();
                expected.entry(key).or_default().extend(bytes);
            }
            prop_assert!(groups(&mut file) == expected);
            prop_assert!(groups(&mut file) == expected, "a second time");
        }
    }

    #[test]
    fn memory_is_limited_with_many_small_groups() {
        let mut file = GroupFile::new().unwrap();
        for key in 0..2000_u32 {
            file.append(key, &vec![0; BLOCK / 4]).unwrap();
        }
        assert!(file.buffered <= BUFFERED && file.length > 0);
        let in_memory: usize = file.groups.values().map(|group| group.end.len()).sum();
        assert_eq!(in_memory, file.buffered);
        let mut count = 0;
        file.each(|_, bytes| {
            count += io::copy(bytes, &mut io::sink())?;
            io::Result::Ok(true)
        })
        .unwrap();
        assert_eq!(count, 2000 * (BLOCK as u64 / 4));
    }
}
