//! Tree of segments: sixteen nodes are merged into one of the next level, so that a few nodes cover any part of a log.

use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};
use std::ops::{Range, RangeInclusive};

use super::bytes::{Cursor, Malformed, put};
use super::segment::encode_addresses;
use super::store::{Block, Packed};
use super::table::{Entries, Key, TableWriter, decode_unknown_writes, each_entry, encode_unknown_writes};
use super::{IndexError, IndexResult};
use crate::state::{Granule, UnknownWrites};

/// Number of nodes that are merged into one.
pub(super) const FAN: usize = 16;

/// Maximum number of addresses of a node; beyond it, none are kept.
const MAX_ADDRESSES: usize = 4 << 20;

/// State of memory, and addresses of instructions, in a part of a log.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// Number of lines before it.
    pub(super) base: u64,
    pub(super) lines: u64,
    /// Blocks of memory, in the order of their first keys.
    pub(super) tables: Vec<(Key, Block)>,
    /// Addresses of its instructions; `None`: there are too many.
    pub(super) addresses: Option<Block>,
    /// Writes of unknown data, per core, to granules that are not in `tables`.
    pub(super) unknown_writes: Vec<(u16, Block)>,
}

/// The tree; the first level has the segments.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub(super) levels: Vec<Vec<Node>>,
}

impl Tree {
    /// The fewest nodes that cover these segments, in order: level, and index in the level.
    pub(super) fn cover(&self, segments: Range<usize>) -> Vec<(usize, usize)> {
        let (mut at, mut nodes) = (segments.start, Vec::new());
        while at < segments.end {
            let (mut level, mut span) = (0, 1);
            while at.is_multiple_of(span * FAN)
                && at + span * FAN <= segments.end
                && self.levels.get(level + 1).is_some_and(|nodes| at / (span * FAN) < nodes.len())
            {
                (level, span) = (level + 1, span * FAN);
            }
            nodes.push((level, at / span));
            at += span;
        }
        nodes
    }

    pub(super) fn segments(&self, (level, index): (usize, usize)) -> Range<usize> {
        let span = FAN.pow(level as u32);
        index * span..(index + 1) * span
    }

    /// Indexes of the children of a node, one level below.
    pub(super) fn children(&self, index: usize) -> Range<usize> {
        index * FAN..(index + 1) * FAN
    }

    pub(super) fn node(&self, (level, index): (usize, usize)) -> Option<&Node> {
        self.levels.get(level)?.get(index)
    }

    /// Adds a segment, and merges the nodes that are complete.
    pub(super) fn add(&mut self, node: Node, file: &mut (impl Read + Write + Seek), end: &mut u64) -> IndexResult<()> {
        let mut node = node;
        for level in 0.. {
            if self.levels.len() <= level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(node);
            let nodes = &self.levels[level];
            let group = &nodes[nodes.len().saturating_sub(FAN)..];
            let lines: u64 = group.iter().map(|node| node.lines).sum();
            // Lines within a node are counted with 32 bits. A level that ends here must not continue later.
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
    /// Passes on the granules of a range of memory.
    pub(super) fn each_granule(
        &self,
        core: u16,
        range: &RangeInclusive<u64>,
        file: &mut (impl Read + Seek),
        mut sink: impl FnMut(u64, &Granule),
    ) -> IndexResult<()> {
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
                    sink(number, granule);
                }
            });
            read.map_err(|Malformed| IndexError::Damaged { offset: block.offset })?;
        }
        Ok(())
    }

    /// Writes of unknown data, to granules that are not in the tables.
    pub(super) fn unknown_writes(
        &self,
        core: u16,
        file: &mut (impl Read + Seek),
    ) -> IndexResult<Option<UnknownWrites>> {
        let Some((_, block)) = self.unknown_writes.iter().find(|(other, _)| *other == core) else { return Ok(None) };
        let unknown_writes = decode_unknown_writes(&block.load(file)?);
        unknown_writes.map(Some).map_err(|Malformed| IndexError::Damaged { offset: block.offset })
    }

    /// Whether it has an instruction at one of these addresses, or may have.
    pub(super) fn has_address(&self, addresses: &[Range<u64>], file: &mut (impl Read + Seek)) -> IndexResult<bool> {
        let Some(block) = &self.addresses else { return Ok(true) };
        let mut found = false;
        each_address(block, file, |other| found |= addresses.iter().any(|range| range.contains(&other)))?;
        Ok(found)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.base);
        put(out, self.lines);
        put(out, self.tables.len() as u64);
        for ((core, first), block) in &self.tables {
            put(out, (*core).into());
            put(out, *first);
            block.encode(out);
        }
        out.push(u8::from(self.addresses.is_some()));
        if let Some(block) = &self.addresses {
            block.encode(out);
        }
        put(out, self.unknown_writes.len() as u64);
        for (core, block) in &self.unknown_writes {
            put(out, (*core).into());
            block.encode(out);
        }
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>, end: u64) -> Result<Self, Malformed> {
        let core = |cursor: &mut Cursor<'_>| u16::try_from(cursor.number()?).map_err(|_| Malformed);
        Ok(Self {
            base: cursor.number()?,
            lines: cursor.number()?,
            tables: cursor.list(|cursor| Ok(((core(cursor)?, cursor.number()?), Block::decode(cursor, end)?)))?,
            addresses: if cursor.byte()? == 0 { None } else { Some(Block::decode(cursor, end)?) },
            unknown_writes: cursor.list(|cursor| Ok((core(cursor)?, Block::decode(cursor, end)?)))?,
        })
    }
}

fn each_address(block: &Block, file: &mut (impl Read + Seek), mut sink: impl FnMut(u64)) -> IndexResult<()> {
    let bytes = block.load(file)?;
    let (mut cursor, mut address) = (Cursor(&bytes), 0_u64);
    while !cursor.is_empty() {
        let step = cursor.number().map_err(|Malformed| IndexError::Damaged { offset: block.offset })?;
        address = address.wrapping_add(step);
        sink(address);
    }
    Ok(())
}

/// Merges consecutive nodes.
fn join(nodes: &[Node], file: &mut (impl Read + Write + Seek), end: &mut u64) -> IndexResult<Node> {
    let mut joined = Node {
        base: nodes.first().map_or(0, |node| node.base),
        lines: nodes.iter().map(|node| node.lines).sum(),
        ..Node::default()
    };
    let mut heads = Vec::new();
    for node in nodes {
        let mut unknown_writes = BTreeMap::new();
        for (core, _) in &node.unknown_writes {
            unknown_writes.insert(*core, node.unknown_writes(*core, file)?.unwrap_or_default());
        }
        let mut head =
            Head { node, next: 0, block: Vec::new(), entries: Entries::new((0, 0)), entry: None, unknown_writes };
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
            } else if let Some(unknown_writes) = head.unknown_writes.get(&key.0) {
                let mut later = Granule::default();
                unknown_writes.apply(key.1, &mut later);
                granule.append(&later, shift);
            }
        }
        writer.add(key, &granule, &mut |key, block: &[u8]| packed.push((key, Packed::of(block))));
        save(&mut packed, &mut joined.tables, file, end)?;
    }
    writer.finish(&mut |key, block: &[u8]| packed.push((key, Packed::of(block))));
    save(&mut packed, &mut joined.tables, file, end)?;
    for (core, unknown_writes) in join_unknown_writes(&heads, joined.base) {
        joined.unknown_writes.push((core, Packed::of(&encode_unknown_writes(&unknown_writes)).save(file, end)?));
    }
    joined.addresses = join_addresses(nodes, file, end)?;
    Ok(joined)
}

/// Writes the full blocks.
fn save(
    packed: &mut Vec<(Key, Packed)>,
    tables: &mut Vec<(Key, Block)>,
    file: &mut (impl Write + Seek),
    end: &mut u64,
) -> IndexResult<()> {
    for (key, block) in packed.drain(..) {
        tables.push((key, block.save(file, end)?));
    }
    Ok(())
}

/// Merges writes of unknown data; granules in any of the tables include theirs.
fn join_unknown_writes(heads: &[Head<'_>], base: u64) -> BTreeMap<u16, UnknownWrites> {
    let mut joined: BTreeMap<u16, UnknownWrites> = BTreeMap::new();
    for head in heads {
        for (core, unknown_writes) in &head.unknown_writes {
            let joined = joined.entry(*core).or_default();
            let shift = (head.node.base - base) as u32;
            unknown_writes.iter().for_each(|(range, line)| joined.add(range, line.saturating_add(shift)));
        }
    }
    joined
}

fn join_addresses(nodes: &[Node], file: &mut (impl Read + Write + Seek), end: &mut u64) -> IndexResult<Option<Block>> {
    let mut all = Vec::new();
    for node in nodes {
        let Some(block) = &node.addresses else { return Ok(None) };
        each_address(block, file, |address| all.push(address))?;
        all.sort_unstable();
        all.dedup();
        if all.len() > MAX_ADDRESSES {
            return Ok(None);
        }
    }
    Packed::of(&encode_addresses(&all)).save(file, end).map(Some)
}

/// Read position in the table of a node.
struct Head<'a> {
    node: &'a Node,
    /// The next block.
    next: usize,
    block: Vec<u8>,
    entries: Entries,
    entry: Option<(Key, Granule)>,
    unknown_writes: BTreeMap<u16, UnknownWrites>,
}

impl Head<'_> {
    fn advance(&mut self, file: &mut (impl Read + Seek)) -> IndexResult<()> {
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
