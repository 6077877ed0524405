//! Positioned reads through one small window.
//!
//! offset, length ─▶ **input** ─▶ bytes, fewer at the end of the file
//!
//! A file may have tens of gigabytes, most of which is skipped: the window is small after a jump and grows while reading
//! is sequential. What the bytes mean is not known here.

use std::io::{self, Read, Seek, SeekFrom};

/// Bytes that are read after a jump.
const FIRST: usize = 4 << 10;

/// Bytes that are read at once at most, unless the caller asks for more.
const MOST: usize = 256 << 10;

/// A file that is read by offset.
#[derive(Debug)]
pub(crate) struct Input<R> {
    file: R,
    size: u64,
    window: Vec<u8>,
    /// Offset of the window in the file.
    start: u64,
    /// Bytes to read next.
    step: usize,
}

impl<R: Read + Seek> Input<R> {
    pub(crate) fn new(mut file: R) -> io::Result<Self> {
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, size, window: Vec::new(), start: 0, step: FIRST })
    }

    /// Size of the file when it was opened.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The bytes at an offset, fewer if the file ends before.
    pub(crate) fn bytes(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        let length = usize::try_from(self.size.saturating_sub(at)).map_or(length, |left| left.min(length));
        // A system refuses to seek to some offsets after the end.
        if length == 0 {
            return Ok(&[]);
        }
        if !self.has(at, length) {
            self.fill(at, length)?;
        }
        let from = at.checked_sub(self.start).and_then(|from| usize::try_from(from).ok()).unwrap_or(usize::MAX);
        let bytes = self.window.get(from..).unwrap_or_default();
        Ok(bytes.get(..length).unwrap_or(bytes))
    }

    fn has(&self, at: u64, length: usize) -> bool {
        let end = self.start.saturating_add(self.window.len() as u64);
        self.start <= at && at.saturating_add(length as u64) <= end
    }

    fn fill(&mut self, at: u64, length: usize) -> io::Result<()> {
        let end = self.start.saturating_add(self.window.len() as u64);
        let is_sequential = self.start <= at && at <= end;
        self.step = if is_sequential { (self.step * 2).min(MOST) } else { FIRST };
        self.file.seek(SeekFrom::Start(at))?;
        self.start = at;
        self.window.clear();
        let wanted = length.max(self.step) as u64;
        self.file.by_ref().take(wanted).read_to_end(&mut self.window).map(drop)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn nothing_is_after_the_end_of_a_file() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"12345678").unwrap();
        let mut input = Input::new(file).unwrap();
        for at in [8, 9, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX] {
            assert_eq!(input.bytes(at, 8).unwrap(), b"", "{at:#x}");
        }
        assert_eq!(input.bytes(0, usize::MAX).unwrap(), b"12345678");
    }

    #[test]
    fn any_range_has_the_bytes_of_the_file() {
        let file: Vec<u8> = (0..40_000_u32).map(|at| (at * 7 / 8) as u8).collect();
        let mut input = Input::new(Cursor::new(file.clone())).unwrap();
        let rows =
            [(0, 8), (8, 100), (4000, 200), (4200, 30_000), (3, 1), (39_990, 10), (39_990, 100), (40_000, 1), (5, 0)];
        for (at, length) in rows {
            let end = (at + length).min(file.len());
            assert_eq!(input.bytes(at as u64, length).unwrap(), &file[at..end], "{at} {length}");
        }
        assert_eq!(input.bytes(u64::MAX, 8).unwrap(), b"");
        assert_eq!(input.size(), 40_000);
    }
}
