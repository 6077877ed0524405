//! Pieces of a log, and pieces of pieces: what is known of sixteen of them is put together into one, and of sixteen of
//! those again, so that any part of a log is a few of them.

use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};
use std::ops::{Range, RangeInclusive};

use super::IndexError;
use super::bytes::{Cursor, Malformed, put};
use super::segment::put_addresses;
use super::store::{Block, Packed};
use super::table::{Entries, Key, TableWriter, each_entry, put_forgotten, take_forgotten};
use crate::state::{Granule, UnknownWrites};

/// So many are put together.
pub(super) const FAN: usize = 16;

/// A node with more addresses has none of them.
const MOST_ADDRESSES: usize = 4 << 20;

/// What is known of memory and of addresses in a part of a log.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// Lines before it.
    pub(super) base: u64,
    /// How many lines it has.
    pub(super) lines: u64,
    /// Blocks of memory, in the order of their first keys.
    pub(super) tables: Vec<(Key, Block)>,
    /// Addresses of its instructions; `None`: they are too many.
    pub(super) addresses: Option<Block>,
    /// Of cores: ranges that were written without a line that says what. They hold of granules that `tables` do not have.
    pub(super) forgotten: Vec<(u16, Block)>,
}

/// All of them: pieces first.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub(super) levels: Vec<Vec<Node>>,
}

impl Tree {
    /// The fewest nodes that make up these pieces, in order: the level and the place in it.
    pub(super) fn cover(&self, pieces: Range<usize>) -> Vec<(usize, usize)> {
        let (mut at, mut nodes) = (pieces.start, Vec::new());
        while at < pieces.end {
            let (mut level, mut span) = (0, 1);
            while at.is_multiple_of(span * FAN)
                && at + span * FAN <= pieces.end
                && self.levels.get(level + 1).is_some_and(|nodes| at / (span * FAN) < nodes.len())
            {
                (level, span) = (level + 1, span * FAN);
            }
            nodes.push((level, at / span));
            at += span;
        }
        nodes
    }

    /// The pieces of a node.
    pub(super) fn pieces(&self, (level, place): (usize, usize)) -> Range<usize> {
        let span = FAN.pow(level as u32);
        place * span..(place + 1) * span
    }

    /// The places of the nodes that a node is made of, one level below.
    pub(super) fn children(&self, place: usize) -> Range<usize> {
        place * FAN..(place + 1) * FAN
    }

    pub(super) fn node(&self, (level, place): (usize, usize)) -> Option<&Node> {
        self.levels.get(level)?.get(place)
    }

    /// Adds a piece, and what can be put together now.
    pub(super) fn add(
        &mut self,
        node: Node,
        file: &mut (impl Read + Write + Seek),
        end: &mut u64,
    ) -> Result<(), IndexError> {
        let mut node = node;
        for level in 0.. {
            if self.levels.len() <= level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(node);
            let nodes = &self.levels[level];
            let group = &nodes[nodes.len().saturating_sub(FAN)..];
            let lines: u64 = group.iter().map(|node| node.lines).sum();
            // Lines within a node are counted with 32 bits. A level that stops here has to stop for good.
            let is_whole = nodes.len().is_multiple_of(FAN);
            let has_next = level + 1 < self.levels.len();
            let is_next = has_next && self.levels[level + 1].len() + 1 == nodes.len() / FAN;
            if !is_whole || lines > u32::MAX.into() || nodes.len() > FAN && !is_next {
                break;
            }
            node = join(group, file, end)?;
        }
        Ok(())
    }
}

impl Node {
    /// Hands out what is known of a range of memory.
    pub(super) fn each_granule(
        &self,
        core: u16,
        range: &RangeInclusive<u64>,
        file: &mut (impl Read + Seek),
        mut take: impl FnMut(u64, &Granule),
    ) -> Result<(), IndexError> {
        let first = self.tables.partition_point(|(key, _)| *key <= (core, *range.start())).saturating_sub(1);
        for (key, block) in &self.tables[first..] {
            if *key > (core, *range.end()) {
                break;
            }
            if key.0 != core {
                continue;
            }
            let bytes = block.load(file)?;
            let read = each_entry(*key, &bytes, |(_, number), granule| {
                if range.contains(&number) {
                    take(number, granule);
                }
            });
            read.map_err(|Malformed| IndexError::Damaged { offset: block.offset })?;
        }
        Ok(())
    }

    /// What was written without a line that says what, of granules that the tables do not have.
    pub(super) fn forgotten(
        &self,
        core: u16,
        file: &mut (impl Read + Seek),
    ) -> Result<Option<UnknownWrites>, IndexError> {
        let Some((_, block)) = self.forgotten.iter().find(|(other, _)| *other == core) else { return Ok(None) };
        let forgotten = take_forgotten(&block.load(file)?);
        forgotten.map(Some).map_err(|Malformed| IndexError::Damaged { offset: block.offset })
    }

    /// Has it an instruction at this address? Yes, if nobody knows.
    pub(super) fn has_address(&self, address: u64, file: &mut (impl Read + Seek)) -> Result<bool, IndexError> {
        let Some(block) = &self.addresses else { return Ok(true) };
        let mut found = false;
        each_address(block, file, |other| found |= other == address)?;
        Ok(found)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put(out, self.base);
        put(out, self.lines);
        put(out, self.tables.len() as u64);
        for ((core, first), block) in &self.tables {
            put(out, (*core).into());
            put(out, *first);
            block.put(out);
        }
        out.push(u8::from(self.addresses.is_some()));
        if let Some(block) = &self.addresses {
            block.put(out);
        }
        put(out, self.forgotten.len() as u64);
        for (core, block) in &self.forgotten {
            put(out, (*core).into());
            block.put(out);
        }
    }

    pub(super) fn take(cursor: &mut Cursor<'_>, end: u64) -> Result<Self, Malformed> {
        let (base, lines) = (cursor.number()?, cursor.number()?);
        let mut tables = Vec::new();
        for _ in 0..cursor.count()? {
            let core = u16::try_from(cursor.number()?).map_err(|_| Malformed)?;
            tables.push(((core, cursor.number()?), Block::take(cursor, end)?));
        }
        let addresses = match cursor.byte()? {
            0 => None,
            _ => Some(Block::take(cursor, end)?),
        };
        let mut forgotten = Vec::new();
        for _ in 0..cursor.count()? {
            let core = u16::try_from(cursor.number()?).map_err(|_| Malformed)?;
            forgotten.push((core, Block::take(cursor, end)?));
        }
        Ok(Self { base, lines, tables, addresses, forgotten })
    }
}

fn each_address(block: &Block, file: &mut (impl Read + Seek), mut take: impl FnMut(u64)) -> Result<(), IndexError> {
    let bytes = block.load(file)?;
    let (mut cursor, mut address) = (Cursor(&bytes), 0_u64);
    while !cursor.is_empty() {
        let step = cursor.number().map_err(|Malformed| IndexError::Damaged { offset: block.offset })?;
        address = address.wrapping_add(step);
        take(address);
    }
    Ok(())
}

/// Puts nodes together that follow each other.
fn join(nodes: &[Node], file: &mut (impl Read + Write + Seek), end: &mut u64) -> Result<Node, IndexError> {
    let mut joined = Node {
        base: nodes.first().map_or(0, |node| node.base),
        lines: nodes.iter().map(|node| node.lines).sum(),
        ..Node::default()
    };
    let mut heads = Vec::new();
    for node in nodes {
        let mut forgotten = BTreeMap::new();
        for (core, _) in &node.forgotten {
            forgotten.insert(*core, node.forgotten(*core, file)?.unwrap_or_default());
        }
        let mut head = Head { node, next: 0, block: Vec::new(), entries: Entries::new((0, 0)), entry: None, forgotten };
        head.advance(file)?;
        heads.push(head);
    }
    let (mut writer, mut packed) = (TableWriter::default(), Vec::new());
    while let Some(key) = heads.iter().filter_map(|head| head.entry.map(|(key, _)| key)).min() {
        let mut granule = Granule::default();
        for head in &mut heads {
            let shift = (head.node.base - joined.base) as u32;
            if let Some((_, later)) = head.entry.filter(|(other, _)| *other == key) {
                granule.append(&later, shift);
                head.advance(file)?;
            } else if let Some(forgotten) = head.forgotten.get(&key.0) {
                let mut later = Granule::default();
                forgotten.settle(key.1, &mut later);
                granule.append(&later, shift);
            }
        }
        writer.add(key, &granule, &mut |key, block: &[u8]| packed.push((key, Packed::of(block))));
        save(&mut packed, &mut joined.tables, file, end)?;
    }
    writer.finish(&mut |key, block: &[u8]| packed.push((key, Packed::of(block))));
    save(&mut packed, &mut joined.tables, file, end)?;
    for (core, forgotten) in join_forgotten(&heads, joined.base) {
        file.seek(std::io::SeekFrom::Start(*end)).map_err(IndexError::Write)?;
        joined.forgotten.push((core, Packed::of(&put_forgotten(&forgotten)).save(file, end)?));
    }
    joined.addresses = join_addresses(nodes, file, end)?;
    Ok(joined)
}

/// Writes blocks that are full. Reading goes on elsewhere in the file.
fn save(
    packed: &mut Vec<(Key, Packed)>,
    tables: &mut Vec<(Key, Block)>,
    file: &mut (impl Write + Seek),
    end: &mut u64,
) -> Result<(), IndexError> {
    for (key, block) in packed.drain(..) {
        file.seek(std::io::SeekFrom::Start(*end)).map_err(IndexError::Write)?;
        tables.push((key, block.save(file, end)?));
    }
    Ok(())
}

/// Of granules that any of the tables has, all is there.
fn join_forgotten(heads: &[Head<'_>], base: u64) -> BTreeMap<u16, UnknownWrites> {
    let mut joined: BTreeMap<u16, UnknownWrites> = BTreeMap::new();
    for head in heads {
        for (core, forgotten) in &head.forgotten {
            let joined = joined.entry(*core).or_default();
            let shift = (head.node.base - base) as u32;
            forgotten.iter().for_each(|(range, line)| joined.add(range, line.saturating_add(shift)));
        }
    }
    joined
}

fn join_addresses(
    nodes: &[Node],
    file: &mut (impl Read + Write + Seek),
    end: &mut u64,
) -> Result<Option<Block>, IndexError> {
    let mut all = Vec::new();
    for node in nodes {
        let Some(block) = &node.addresses else { return Ok(None) };
        each_address(block, file, |address| all.push(address))?;
        all.sort_unstable();
        all.dedup();
        if all.len() > MOST_ADDRESSES {
            return Ok(None);
        }
    }
    file.seek(std::io::SeekFrom::Start(*end)).map_err(IndexError::Write)?;
    Packed::of(&put_addresses(&all)).save(file, end).map(Some)
}

/// How far the table of a node was read.
struct Head<'a> {
    node: &'a Node,
    /// The next block.
    next: usize,
    block: Vec<u8>,
    entries: Entries,
    entry: Option<(Key, Granule)>,
    forgotten: BTreeMap<u16, UnknownWrites>,
}

impl Head<'_> {
    fn advance(&mut self, file: &mut (impl Read + Seek)) -> Result<(), IndexError> {
        loop {
            let offset =
                self.next.checked_sub(1).and_then(|at| self.node.tables.get(at)).map(|(_, block)| block.offset);
            let read = self.entries.next(&self.block);
            self.entry = read.map_err(|Malformed| IndexError::Damaged { offset: offset.unwrap_or(0) })?;
            if self.entry.is_some() {
                return Ok(());
            }
            let Some((key, block)) = self.node.tables.get(self.next) else { return Ok(()) };
            self.block = block.load(file)?;
            self.entries = Entries::new(*key);
            self.next += 1;
        }
    }
}
