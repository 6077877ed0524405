//! Debug information of one file: its sections, and which unit an address belongs to.
//!
//! Takes the sections of an ELF file; produces frames of addresses and ranges of lines, at link addresses. A unit is parsed when
//! it is first needed, and kept.

use std::sync::Arc;

use gimli::{DebugInfoOffset, Dwarf, DwarfSections, EndianSlice, RunTimeEndian, SectionId, UnitType};
use unspool_capture::{Bytes, ElfSections};

use super::origins::Origins;
use super::split::SplitFiles;
use super::unit::{Limits, UnitTables, root_ranges};
use super::{Frame, LineRange, Position};

/// A reader of the bytes of a section.
pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Maximum number of units. Large browsers have tens of thousands.
const UNIT_LIMIT: usize = 4 << 20;

/// Debug information of a file.
pub(super) struct DebugInfo {
    sections: DwarfSections<Bytes>,
    endian: RunTimeEndian,
    split: SplitFiles,
    units: Vec<Unit>,
    /// Address ranges of the units, sorted.
    ranges: Vec<UnitRange>,
    /// What may still be read.
    limits: Limits,
    damage: Option<String>,
}

struct Unit {
    offset: DebugInfoOffset<usize>,
    /// Once the unit was needed.
    tables: Option<Arc<UnitTables>>,
}

#[derive(Debug, Clone, Copy)]
struct UnitRange {
    low: u64,
    high: u64,
    /// The highest end of this range and of all before it.
    max_high: u64,
    unit: usize,
}

impl DebugInfo {
    /// The debug information in the sections of a file; `None` if there is none. `name` is that of the program.
    pub(super) fn open(name: &str, file: &ElfSections) -> Option<Self> {
        let load = |id: SectionId| Ok::<Bytes, gimli::Error>(load_section(file, id, Some(id.name())));
        let sections = DwarfSections::load(load).ok()?;
        let endian = if file.is_big_endian() { RunTimeEndian::Big } else { RunTimeEndian::Little };
        let has_info = !matches!(borrow(&sections, endian).units().next(), Ok(None));
        let (split, limits) = (SplitFiles::new(name), Limits::default());
        let mut debug = Self { sections, endian, split, units: Vec::new(), ranges: Vec::new(), limits, damage: None };
        has_info.then(|| {
            debug.index();
            debug
        })
    }

    /// What is wrong with it, as far as was found.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The functions that contain an address, innermost first.
    pub(super) fn frames(&mut self, address: u64) -> Vec<Frame> {
        let mut fallback = Vec::new();
        for unit in self.units_at(address) {
            let frames = self.tables(unit).frames(address);
            // Units may claim addresses that they have nothing about.
            if frames.iter().any(|frame| frame.position.is_some()) {
                return frames;
            }
            if fallback.is_empty() {
                fallback = frames;
            }
        }
        fallback
    }

    /// All lines, unit after unit.
    pub(super) fn ranges(&mut self) -> Vec<LineRange> {
        let mut ranges = Vec::new();
        for unit in 0..self.units.len() {
            let tables = self.tables(unit);
            ranges.extend(tables.line_ranges().map(|(start, end, position, is_statement)| LineRange {
                start,
                end,
                position: position.cloned(),
                is_statement,
            }));
        }
        ranges
    }

    /// Lists the units and their addresses.
    fn index(&mut self) {
        let Self { sections, endian, units, ranges, limits, damage, .. } = self;
        let dwarf = borrow(sections, *endian);
        let mut headers = dwarf.units();
        loop {
            let header = match headers.next() {
                Ok(Some(header)) if units.len() < UNIT_LIMIT => header,
                Ok(_) => break,
                Err(error) => {
                    damage.get_or_insert_with(|| error.to_string());
                    break;
                }
            };
            let Some(offset) = header.debug_info_offset() else { continue };
            if matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. }) {
                continue;
            }
            let found = dwarf.unit(header).and_then(|unit| root_ranges(&dwarf, &unit, limits));
            match found {
                Ok(found) => {
                    let unit = units.len();
                    ranges.extend(found.into_iter().map(|(low, high)| UnitRange { low, high, max_high: 0, unit }));
                }
                Err(error) => drop(damage.get_or_insert_with(|| format!("unit at {:#x}: {error}", offset.0))),
            }
            units.push(Unit { offset, tables: None });
        }
        ranges.sort_by_key(|range| (range.low, range.unit));
        let mut max_high = 0;
        for range in ranges {
            max_high = max_high.max(range.high);
            range.max_high = max_high;
        }
    }

    /// The units that have an address, those with the highest start first.
    fn units_at(&self, address: u64) -> Vec<usize> {
        /// Maximum number of units that claim the same address; those of weak functions do.
        const CLAIMS: usize = 64;
        let after = self.ranges.partition_point(|range| range.low <= address);
        let before = self.ranges.get(..after).unwrap_or_default().iter().rev();
        let candidates = before.take_while(|range| range.max_high > address).filter(|range| range.high > address);
        candidates.map(|range| range.unit).take(CLAIMS).collect()
    }

    fn tables(&mut self, index: usize) -> Arc<UnitTables> {
        let Self { sections, endian, split, units, limits, damage, .. } = self;
        let Some(unit) = units.get_mut(index) else { return Arc::default() };
        let tables = unit.tables.get_or_insert_with(|| {
            let dwarf = borrow(sections, *endian);
            let mut origins = Origins::new(&dwarf);
            let (tables, error) = UnitTables::parse(&dwarf, unit.offset, split, &mut origins, limits);
            if let Some(error) = error {
                damage.get_or_insert_with(|| format!("unit at {:#x}: {error}", unit.offset.0));
            }
            Arc::new(tables)
        });
        Arc::clone(tables)
    }
}

/// The sections as DWARF.
pub(super) fn borrow(sections: &DwarfSections<Bytes>, endian: RunTimeEndian) -> Dwarf<Slice<'_>> {
    sections.borrow(|bytes| EndianSlice::new(bytes, endian))
}

/// A section that lines need; the others are as if they were absent.
pub(super) fn load_section(file: &ElfSections, id: SectionId, name: Option<&str>) -> Bytes {
    let is_needed = !matches!(
        id,
        SectionId::DebugAranges
            | SectionId::DebugLoc
            | SectionId::DebugLocLists
            | SectionId::DebugMacinfo
            | SectionId::DebugMacro
            | SectionId::DebugNames
            | SectionId::DebugTypes
    );
    name.filter(|_| is_needed).and_then(|name| file.section(name)).unwrap_or_default()
}

/// A position, if file and line are known.
pub(super) fn position(file: Option<&Arc<str>>, line: u32) -> Option<Position> {
    Some(Position { file: Arc::clone(file?), line: Some(line).filter(|line| *line > 0)? })
}
