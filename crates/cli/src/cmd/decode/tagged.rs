//! Lines in memory, of which --skip and --limit may cut some.
//!
//! lines ─▶ **bytes**, tagged if lines have to be counted ─▶ an output

use std::io::{self, BufRead, BufReader, Read};

use crate::listing::Window;
use crate::output::Output;

/// How a line is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// An instruction or a range, which --skip and --limit count.
    Item,
    /// Any other item of the trace.
    Mark,
}

impl Line {
    fn tag(self) -> u8 {
        u8::from(self == Self::Item)
    }
}

/// Bytes of the tag and of the length before a tagged line.
const HEAD: usize = 5;

/// Lines one after the other. If they are tagged, each has its kind and its length in bytes before it.
#[derive(Debug)]
pub(super) struct TaggedLines {
    is_tagged: bool,
    bytes: Vec<u8>,
}

impl TaggedLines {
    pub(super) fn new(is_tagged: bool) -> Self {
        Self { is_tagged, bytes: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(super) fn push(&mut self, kind: Line, line: &[u8]) {
        if self.is_tagged && !line.is_empty() {
            self.bytes.push(kind.tag());
            // No line is longer than a few thousand bytes.
            self.bytes.extend_from_slice(&(line.len() as u32).to_le_bytes());
        }
        self.bytes.extend_from_slice(line);
    }
}

/// Writes lines that a window shows.
pub(super) fn write_lines(
    lines: &mut dyn Read,
    is_tagged: bool,
    window: &mut Window,
    output: &mut Output,
) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(1 << 16, lines);
    if !is_tagged {
        loop {
            let bytes = lines.fill_buf()?;
            let length = bytes.len();
            if length == 0 || !output.is_open() {
                return Ok(());
            }
            output.write(|out| out.write_all(bytes));
            lines.consume(length);
        }
    }
    let (mut head, mut line) = ([0; HEAD], Vec::new());
    while window.is_open() && output.is_open() && read_head(&mut lines, &mut head)? {
        let [tag, length @ ..] = head;
        line.clear();
        (&mut lines).take(u32::from_le_bytes(length).into()).read_to_end(&mut line)?;
        let shows = if tag == Line::Item.tag() { window.next() } else { window.shows() };
        if shows {
            output.write(|out| out.write_all(&line));
        }
    }
    Ok(())
}

/// Reads the head of a line. False: there is none.
fn read_head(lines: &mut impl BufRead, head: &mut [u8; HEAD]) -> io::Result<bool> {
    if lines.fill_buf()?.is_empty() {
        return Ok(false);
    }
    lines.read_exact(head).map(|()| true)
}
