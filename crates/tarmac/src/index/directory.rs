//! The directory at the end of an index, which locates everything in it.
//!
//! ```text
//! head: 12 letters, version │ blocks ... │ directory │ tail: its offset, lengths and checksum
//! ```

use std::io::{Read, Seek, SeekFrom, Write};

use unspool_model::{Context, Lost};

use super::bytes::{Cursor, Malformed, put, put_bytes};
use super::contexts::{decode_context, encode_context};
use super::store::{Block, Packed};
use super::time::{decode_time, encode_time};
use super::tree::{FAN, Node, Tree};
use super::{Fingerprint, IndexError, IndexOptions, IndexResult, Totals};
use crate::dialect::Dialect;
use crate::parse::ParseOptions;
use crate::record::Time;

/// First bytes of an index.
const MAGIC: &[u8; 12] = b"unspool-idx\n";

/// The supported version.
pub(super) const VERSION: u32 = 5;

/// Number of bytes of the head.
pub(super) const HEAD: u64 = 16;
/// Number of bytes of the tail.
const TAIL: u64 = 32;

#[derive(Debug, Clone, Default)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) is_within_line: bool,
    /// Number of instructions before it, of all cores.
    pub(super) instructions_before: u64,
    /// Number of instructions before it, of each core that appeared before it.
    pub(super) core_instructions_before: Vec<u64>,
    /// The latest time of its lines; times need not be in order.
    pub(super) latest: Option<Time>,
    /// The first time of its lines.
    pub(super) first: Option<Time>,
    /// Number of exceptions in it.
    pub(super) exceptions: u64,
    pub(super) exception_list: Option<Block>,
    /// State at its start.
    pub(super) checkpoint: Block,
    /// Of steps: how their reader continues here, their number, and the contexts of the cores.
    pub(super) resume: Vec<u8>,
    pub(super) steps: u64,
    pub(super) contexts: Vec<Context>,
}

#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub(super) fingerprint: Fingerprint,
    pub(super) options: IndexOptions,
    /// The index is one of steps: its lines are instructions.
    pub(super) is_of_steps: bool,
    pub(super) totals: Totals,
    /// Names of the cores, in order of appearance.
    pub(super) cores: Vec<Vec<u8>>,
    pub(super) segments: Vec<Segment>,
    pub(super) tree: Tree,
}

/// An open index.
#[derive(Debug)]
pub struct Index<S> {
    pub(super) file: S,
    pub(super) directory: Directory,
    size: u64,
}

impl<S: Read + Seek> Index<S> {
    /// Opens an index.
    pub fn open(mut file: S) -> IndexResult<Self> {
        let size = file.seek(SeekFrom::End(0)).map_err(IndexError::Read)?;
        let mut head = [0; HEAD as usize];
        file.seek(SeekFrom::Start(0)).map_err(IndexError::Read)?;
        if size < HEAD {
            return Err(IndexError::Foreign);
        }
        file.read_exact(&mut head).map_err(IndexError::of_read)?;
        let (magic, version) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(IndexError::Foreign);
        }
        match version.try_into().map_or(0, u32::from_le_bytes) {
            VERSION => {}
            0 => return Err(IndexError::Truncated),
            other => return Err(IndexError::Version(other)),
        }
        let block = tail(&mut file, size)?;
        let bytes = block.load(&mut file)?;
        let directory = Directory::decode(&mut Cursor(&bytes), block.offset);
        let directory = directory.map_err(|Malformed| IndexError::Damaged { offset: block.offset })?;
        Ok(Self { file, directory, size })
    }

    /// Number of bytes of the index.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Totals of the log.
    pub fn totals(&self) -> Totals {
        self.directory.totals
    }

    /// Names of the cores, in order of appearance.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.directory.cores.iter().map(|name| &name[..])
    }

    /// Whether this is the index of a log with this fingerprint, read with these options.
    pub fn is_of(&self, fingerprint: &Fingerprint, options: &IndexOptions) -> bool {
        let own = &self.directory.options;
        self.directory.fingerprint == *fingerprint
            && !self.directory.is_of_steps
            && (own.parse, own.dialect, own.big_endian) == (options.parse, options.dialect, options.big_endian)
    }

    /// Whether this is the index of a trace with this fingerprint whose steps are read.
    pub fn is_of_steps(&self, fingerprint: &Fingerprint) -> bool {
        self.directory.is_of_steps && self.directory.fingerprint == *fingerprint
    }

    /// Options that the log was read with.
    pub fn options(&self) -> IndexOptions {
        self.directory.options
    }
}

fn tail(file: &mut (impl Read + Seek), size: u64) -> IndexResult<Block> {
    let at = size.checked_sub(TAIL).filter(|at| *at >= HEAD).ok_or(IndexError::Truncated)?;
    let mut tail = [0; TAIL as usize];
    file.seek(SeekFrom::Start(at)).map_err(IndexError::Read)?;
    file.read_exact(&mut tail).map_err(IndexError::of_read)?;
    let (block, magic) = tail.split_at(Block::FIXED);
    if magic != MAGIC {
        return Err(IndexError::Truncated);
    }
    Block::of_fixed(block, at).ok_or(IndexError::Truncated)
}

/// Starts a file, which becomes valid only when it is finished.
pub(super) fn start(file: &mut (impl Write + Seek)) -> IndexResult<u64> {
    file.seek(SeekFrom::Start(0)).map_err(IndexError::Write)?;
    file.write_all(&[&MAGIC[..], &[0; 4]].concat()).map_err(IndexError::Write)?;
    Ok(HEAD)
}

pub(super) fn finish(file: &mut (impl Write + Seek), mut end: u64, directory: &Directory) -> IndexResult<u64> {
    let mut bytes = Vec::new();
    directory.encode(&mut bytes);
    let mut tail = Packed::of(&bytes).save(file, &mut end)?.fixed();
    tail.extend_from_slice(MAGIC);
    file.write_all(&tail).map_err(IndexError::Write)?;
    file.seek(SeekFrom::Start(MAGIC.len() as u64)).map_err(IndexError::Write)?;
    file.write_all(&VERSION.to_le_bytes()).map_err(IndexError::Write)?;
    file.flush().map_err(IndexError::Write)?;
    Ok(end + TAIL)
}

impl Directory {
    fn encode(&self, out: &mut Vec<u8>) {
        self.fingerprint.encode(out);
        encode_options(out, &self.options);
        out.push(u8::from(self.is_of_steps));
        let (totals, corrected) = (&self.totals, &self.totals.corrected_loads);
        for number in
            [totals.lines, totals.instructions, totals.exceptions, totals.problems, corrected.count, corrected.first]
        {
            put(out, number);
        }
        put(out, self.cores.len() as u64);
        self.cores.iter().for_each(|name| put_bytes(out, name));
        put(out, self.segments.len() as u64);
        self.segments.iter().for_each(|segment| segment.encode(out));
        put(out, self.tree.levels.len() as u64);
        for level in &self.tree.levels {
            put(out, level.len() as u64);
            level.iter().for_each(|node| node.encode(out));
        }
    }

    fn decode(cursor: &mut Cursor<'_>, end: u64) -> Result<Self, Malformed> {
        let fingerprint = Fingerprint::decode(cursor)?;
        let options = decode_options(cursor)?;
        let is_of_steps = cursor.byte()? != 0;
        let [lines, instructions, exceptions, problems] =
            [cursor.number()?, cursor.number()?, cursor.number()?, cursor.number()?];
        let corrected_loads = Lost { count: cursor.number()?, first: cursor.number()? };
        let totals = Totals { lines, instructions, exceptions, problems, corrected_loads };
        let cores = cursor.list(|cursor| cursor.bytes().map(<[u8]>::to_vec))?;
        let segments = cursor.list(|cursor| Segment::decode(cursor, end))?;
        let tree = Tree { levels: cursor.list(|cursor| cursor.list(|cursor| Node::decode(cursor, end)))? };
        let directory = Self { fingerprint, options, is_of_steps, totals, cores, segments, tree };
        if directory.is_consistent() { Ok(directory) } else { Err(Malformed) }
    }

    /// Whether counts and order of all parts are consistent.
    fn is_consistent(&self) -> bool {
        let nodes = self.tree.levels.first().map_or(&[][..], |nodes| &nodes[..]);
        let is_sorted = nodes.windows(2).all(|pair| pair[0].base.checked_add(pair[0].lines) == Some(pair[1].base));
        let ends = nodes.last().map_or(0, |node| node.base.saturating_add(node.lines));
        let is_tree = self.tree.levels.windows(2).all(|pair| pair[1].len() <= pair[0].len() / FAN);
        let offsets = self.segments.windows(2).all(|pair| pair[0].offset <= pair[1].offset);
        let is_within = self.segments.last().is_none_or(|segment| segment.offset <= self.fingerprint.length);
        let has_bytes = self.is_of_steps || self.totals.lines <= self.fingerprint.length;
        let is_first = nodes.first().is_none_or(|node| node.base == 0);
        let is_complete = nodes.len() == self.segments.len() && ends == self.totals.lines;
        is_complete && is_sorted && is_tree && offsets && is_within && has_bytes && is_first
    }
}

impl Segment {
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.offset);
        out.push(u8::from(self.is_within_line));
        put(out, self.instructions_before);
        put(out, self.core_instructions_before.len() as u64);
        self.core_instructions_before.iter().for_each(|number| put(out, *number));
        encode_time(out, self.latest);
        encode_time(out, self.first);
        put(out, self.exceptions);
        if let Some(block) = &self.exception_list {
            block.encode(out);
        }
        self.checkpoint.encode(out);
        put_bytes(out, &self.resume);
        put(out, self.steps);
        put(out, self.contexts.len() as u64);
        self.contexts.iter().for_each(|context| encode_context(out, context));
    }

    fn decode(cursor: &mut Cursor<'_>, end: u64) -> Result<Self, Malformed> {
        let mut segment = Self {
            offset: cursor.number()?,
            is_within_line: cursor.byte()? != 0,
            instructions_before: cursor.number()?,
            core_instructions_before: cursor.list(Cursor::number)?,
            latest: decode_time(cursor)?,
            first: decode_time(cursor)?,
            exceptions: cursor.number()?,
            ..Self::default()
        };
        if segment.exceptions > 0 {
            segment.exception_list = Some(Block::decode(cursor, end)?);
        }
        segment.checkpoint = Block::decode(cursor, end)?;
        segment.resume = cursor.bytes()?.to_vec();
        segment.steps = cursor.number()?;
        segment.contexts = cursor.list(decode_context)?;
        Ok(segment)
    }
}

fn encode_options(out: &mut Vec<u8>, options: &IndexOptions) {
    put_bytes(out, options.dialect.name().as_bytes());
    out.push(u8::from(options.parse.implicit_thumb));
    out.push(u8::from(options.big_endian));
    put(out, options.segment_size as u64);
}

fn decode_options(cursor: &mut Cursor<'_>) -> Result<IndexOptions, Malformed> {
    let name = std::str::from_utf8(cursor.bytes()?).map_err(|_| Malformed)?;
    let dialect = Dialect::from_name(name).ok_or(Malformed)?;
    let parse = ParseOptions { implicit_thumb: cursor.byte()? != 0 };
    let big_endian = cursor.byte()? != 0;
    Ok(IndexOptions { parse, dialect, big_endian, threads: 1, segment_size: cursor.number()? as usize })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::index::{Indexed, build};

    /// Checksums detect damage. Forged data with valid checksums gives no or wrong answers, but no panic.
    #[test]
    fn forged_directories() {
        let mut log = String::new();
        for number in 0..120_u32 {
            log += &format!("{number} clk cpu{} IT (1) {:08x} d503201f O EL1h_ns : NOP\n", number % 2, number % 9 * 4);
            log += &format!("{number} clk cpu{} R X{} {number:016x}\n", number % 2, number % 7);
            log += &format!("{number} clk cpu{} MW8 {:08x} {number:016x}\n", number % 2, number % 40 * 4);
        }
        let mut input = io::Cursor::new(log.as_bytes());
        let fingerprint = Fingerprint::of(&mut input, 1).unwrap();
        let options = IndexOptions { segment_size: 400, ..IndexOptions::of(Dialect::FastModels) };
        let mut file = io::Cursor::new(Vec::new());
        build(&mut input, &mut file, fingerprint, &options, |_| {}).unwrap();
        let file = file.into_inner();
        let block = tail(&mut io::Cursor::new(&file), file.len() as u64).unwrap();
        let bytes = block.load(&mut io::Cursor::new(&file)).unwrap();
        let mut read = 0;
        for at in 0..bytes.len() {
            for value in [0, 1, bytes[at] ^ 0x80, bytes[at].wrapping_add(1)] {
                let mut forged = bytes.clone();
                forged[at] = value;
                let Ok(directory) = Directory::decode(&mut Cursor(&forged), block.offset) else { continue };
                read += 1;
                let index = Index { file: io::Cursor::new(&file), directory, size: file.len() as u64 };
                let mut indexed = Indexed::new(io::Cursor::new(log.as_bytes()), index);
                let _ = indexed.state(200, &[0..=u64::MAX]);
                let _ = (indexed.next_at(8, 100), indexed.previous_at(8, 100), indexed.instruction(Some(b"cpu1"), 30));
            }
        }
        assert!(read > 0);
    }
}
