//! Tables of one unit: rows of its line program, and the functions and inlined calls in it.
//!
//! line program ─▶ rows by address · entries (DIEs) ─▶ scopes ─▶ spans by address, each owned by the innermost scope
//!
//! `origins` has the names of scopes. Nothing is recursive, and all that a short file could make long is limited: ranges, rows,
//! paths. Damage ends a table; what was read before it is used.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gimli::{
    Attribute, AttributeValue, DW_AT_GNU_discriminator, DW_AT_call_file, DW_AT_call_line, DW_TAG_inlined_subroutine,
    DW_TAG_subprogram, DebugInfoOffset, Dwarf, Unit,
};

use super::dwarf::{Slice, position};
use super::origins::{Declaration, Origins, small_number};
use super::split::SplitFiles;
use super::{Frame, Position};

/// Longest path of a file. Longer ones are unknown.
const PATH_LIMIT: usize = 8 << 10;

/// What may still be read of the debug information of a file.
#[derive(Debug)]
pub(super) struct Limits {
    rows: usize,
    ranges: usize,
    /// Attributes of entries: one may need no bytes at all.
    attributes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rows: 64 << 20, ranges: 64 << 20, attributes: 8 << 30 }
    }
}

/// Takes from a limit; false if it is used up.
fn take(left: &mut usize, count: usize) -> bool {
    let is_enough = *left >= count;
    *left = left.saturating_sub(count);
    is_enough
}

/// Rows and scopes of a unit.
#[derive(Debug, Default)]
pub(super) struct UnitTables {
    /// Sorted by address.
    rows: Vec<Row>,
    files: HashMap<u64, Arc<str>>,
    positions: HashMap<(u64, u32), Position>,
    scopes: Vec<Scope>,
    /// Sorted by address; each extends to the next one.
    spans: Vec<Span>,
}

/// The line from an address on.
#[derive(Debug, Clone, Copy)]
struct Row {
    address: u64,
    file: u64,
    /// 0: none.
    line: u32,
    discriminator: u32,
    is_statement: bool,
    /// No row of the sequence is after it, and it has no line.
    is_end: bool,
}

/// A function, or an inlined call.
#[derive(Debug)]
struct Scope {
    declaration: Declaration,
    /// The scope that it was inlined into, and the position of the call there.
    call: Option<Call>,
}

#[derive(Debug)]
struct Call {
    parent: Option<u32>,
    file: u64,
    line: u32,
    discriminator: u32,
}

/// The range up to the next span, owned by this scope or by none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u64,
    scope: Option<u32>,
}

/// A range of a scope.
#[derive(Debug, Clone, Copy)]
struct ScopeRange {
    low: u64,
    high: u64,
    depth: isize,
    scope: u32,
}

impl UnitTables {
    /// Reads the unit at an offset, and the first problem in it.
    pub(super) fn parse<'a>(
        dwarf: &'a Dwarf<Slice<'a>>,
        offset: DebugInfoOffset<usize>,
        split: &mut SplitFiles,
        origins: &mut Origins<'a>,
        limits: &mut Limits,
    ) -> (Self, Option<gimli::Error>) {
        let mut tables = Self::default();
        let unit = match origins.unit(offset) {
            Ok(unit) => unit,
            Err(error) => return (tables, Some(error)),
        };
        let in_rows = tables.read_rows(&unit, limits).err();
        let in_scopes = match split.load(dwarf, &unit) {
            None => tables.read_scopes(dwarf, &unit, origins, limits).err(),
            Some(loaded) => loaded.each_unit(dwarf, &unit, |dwarf, unit| {
                tables.read_scopes(dwarf, unit, &mut Origins::new(dwarf), limits)
            }),
        };
        tables.read_files(dwarf, &unit);
        (tables, in_rows.or(in_scopes))
    }

    /// The functions that contain an address, innermost first. The frame of an address outside of functions has no name.
    pub(super) fn frames(&self, address: u64) -> Vec<Frame> {
        let row = self.row_at(address);
        let mut position = row.and_then(|row| self.position(row.file, row.line));
        let mut discriminator = row.map_or(0, |row| row.discriminator);
        let mut next = self.scope_at(address);
        let mut frames = Vec::new();
        while let Some(scope) = next.and_then(|index| self.scopes.get(index as usize)) {
            let call = scope.call.as_ref();
            let called = call.and_then(|call| self.position(call.file, call.line));
            let Declaration { name, line } = &scope.declaration;
            frames.push(Frame {
                function: name.clone(),
                position: std::mem::replace(&mut position, called),
                declared: *line,
                discriminator: std::mem::replace(&mut discriminator, call.map_or(0, |call| call.discriminator)),
            });
            // A parent is always read before its children.
            next = call.and_then(|call| call.parent).filter(|parent| next.is_some_and(|index| *parent < index));
        }
        if frames.is_empty() && position.is_some() {
            frames.push(Frame { function: None, position, declared: None, discriminator });
        }
        frames
    }

    /// Start, end and position of all rows, and whether they are statements.
    pub(super) fn line_ranges(&self) -> impl Iterator<Item = (u64, u64, Option<&Position>, bool)> {
        let nonempty = self.rows.windows(2).filter_map(|pair| match pair {
            [row, next] if !row.is_end && row.address < next.address => Some((row, next.address)),
            _ => None,
        });
        nonempty.map(|(row, end)| (row.address, end, self.positions.get(&(row.file, row.line)), row.is_statement))
    }

    fn row_at(&self, address: u64) -> Option<&Row> {
        let after = self.rows.partition_point(|row| row.address <= address);
        self.rows.get(after.checked_sub(1)?).filter(|row| !row.is_end)
    }

    fn scope_at(&self, address: u64) -> Option<u32> {
        let after = self.spans.partition_point(|span| span.start <= address);
        self.spans.get(after.checked_sub(1)?)?.scope
    }

    fn position(&self, file: u64, line: u32) -> Option<Position> {
        position(self.files.get(&file), line)
    }

    fn read_rows(&mut self, unit: &Unit<Slice<'_>>, limits: &mut Limits) -> Result<(), gimli::Error> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let mut rows = program.rows();
        let mut sequences: Vec<Vec<Row>> = Vec::new();
        let mut sequence: Vec<Row> = Vec::new();
        let outcome = loop {
            let row = match rows.next_row() {
                Ok(Some((_, row))) if take(&mut limits.rows, 1) => row,
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            };
            let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
            sequence.push(Row {
                address: row.address(),
                file: row.file_index(),
                line,
                discriminator: u32::try_from(row.discriminator()).unwrap_or(0),
                is_statement: row.is_stmt(),
                is_end: row.end_sequence(),
            });
            if row.end_sequence() {
                sequences.push(std::mem::take(&mut sequence));
            }
        };
        let bounds = |rows: &Vec<Row>| rows.first().zip(rows.last()).map_or((0, 0), |(a, b)| (a.address, b.address));
        sequences.retain(|rows| bounds(rows).0 < bounds(rows).1);
        sequences.sort_by_key(|rows| bounds(rows).0);
        self.rows = sequences.concat();
        // Rows of a sequence ascend; those of a hostile one may not.
        self.rows.sort_by_key(|row| row.address);
        outcome
    }

    fn read_scopes<'a>(
        &mut self,
        dwarf: &Dwarf<Slice<'a>>,
        unit: &Unit<Slice<'a>>,
        origins: &mut Origins<'_>,
        limits: &mut Limits,
    ) -> Result<(), gimli::Error> {
        let mut ranges = Vec::new();
        let outcome = self.walk(dwarf, unit, origins, limits, &mut ranges);
        self.spans = spans(ranges);
        outcome
    }

    fn walk<'a>(
        &mut self,
        dwarf: &Dwarf<Slice<'a>>,
        unit: &Unit<Slice<'a>>,
        origins: &mut Origins<'_>,
        limits: &mut Limits,
        ranges: &mut Vec<ScopeRange>,
    ) -> Result<(), gimli::Error> {
        let mut entries = unit.entries_raw(None)?;
        let mut open: Vec<(isize, u32)> = Vec::new();
        let mut attributes = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            while open.last().is_some_and(|(at, _)| *at >= depth) {
                open.pop();
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if !take(&mut limits.attributes, 1 + abbreviation.attributes().len()) {
                break;
            }
            let is_inlined = abbreviation.tag() == DW_TAG_inlined_subroutine;
            if !is_inlined && abbreviation.tag() != DW_TAG_subprogram {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
            let found = ranges_of(dwarf, unit, &attributes, limits)?;
            let Ok(scope) = u32::try_from(self.scopes.len()) else { break };
            if found.is_empty() {
                continue;
            }
            ranges.extend(found.into_iter().map(|(low, high)| ScopeRange { low, high, depth, scope }));
            let call = is_inlined.then(|| call_of(&attributes, open.last().map(|(_, scope)| *scope)));
            self.scopes.push(Scope { declaration: origins.declaration(dwarf, unit, &attributes), call });
            open.push((depth, scope));
        }
        Ok(())
    }

    /// Paths of the files that rows and calls refer to.
    fn read_files<'a>(&mut self, dwarf: &Dwarf<Slice<'a>>, unit: &Unit<Slice<'a>>) {
        let Some(program) = &unit.line_program else { return };
        let of_rows = self.rows.iter().map(|row| row.file);
        let of_calls = self.scopes.iter().filter_map(|scope| Some(scope.call.as_ref()?.file));
        let used: HashSet<u64> = of_rows.chain(of_calls).collect();
        self.files =
            used.into_iter().filter_map(|file| Some((file, path(dwarf, unit, program.header(), file)?))).collect();
        let keys: HashSet<(u64, u32)> = self.rows.iter().map(|row| (row.file, row.line)).collect();
        self.positions =
            keys.into_iter().filter_map(|(file, line)| Some(((file, line), self.position(file, line)?))).collect();
    }
}

/// The call that an inlined function stands for.
fn call_of(attributes: &[Attribute<Slice<'_>>], parent: Option<u32>) -> Call {
    let number = |name| attributes.iter().find(|attribute| attribute.name() == name).map(Attribute::value);
    let file = match number(DW_AT_call_file) {
        Some(AttributeValue::FileIndex(file)) => file,
        Some(value) => value.udata_value().unwrap_or(u64::MAX),
        None => u64::MAX,
    };
    let [line, discriminator] =
        [DW_AT_call_line, DW_AT_GNU_discriminator].map(|name| small_number(attributes, name).unwrap_or(0));
    Call { parent, file, line, discriminator }
}

/// Address ranges of a unit, by its root entry or, if that has none, by its rows.
pub(super) fn root_ranges<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    limits: &mut Limits,
) -> Result<Vec<(u64, u64)>, gimli::Error> {
    let mut entries = unit.entries_raw(None)?;
    let mut attributes = Vec::new();
    if let Some(abbreviation) = entries.read_abbreviation()? {
        entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
    }
    let ranges = ranges_of(dwarf, unit, &attributes, limits)?;
    if !ranges.is_empty() || unit.line_program.is_none() {
        return Ok(ranges);
    }
    let mut tables = UnitTables::default();
    let _ = tables.read_rows(unit, limits);
    let mut sequences = Vec::new();
    let mut start = None;
    for row in &tables.rows {
        match (start, row.is_end) {
            (Some(low), true) => {
                sequences.push((low, row.address));
                start = None;
            }
            (None, false) => start = Some(row.address),
            _ => {}
        }
    }
    Ok(sequences)
}

/// Address ranges of an entry with these attributes, without those that are empty or impossible.
fn ranges_of<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    attributes: &[Attribute<Slice<'a>>],
    limits: &mut Limits,
) -> Result<Vec<(u64, u64)>, gimli::Error> {
    let (mut low, mut high, mut size) = (None, None, None);
    for attribute in attributes {
        match attribute.name() {
            gimli::DW_AT_low_pc => low = dwarf.attr_address(unit, attribute.value())?,
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(value) => size = Some(value),
                value => high = dwarf.attr_address(unit, value)?,
            },
            gimli::DW_AT_ranges => {
                if let Some(mut list) = dwarf.attr_ranges(unit, attribute.value())? {
                    let mut ranges = Vec::new();
                    while let Some(range) = list.next()?.filter(|_| take(&mut limits.ranges, 1)) {
                        ranges.push((range.begin, range.end));
                    }
                    ranges.retain(|(low, high)| low < high);
                    return Ok(ranges);
                }
            }
            _ => {}
        }
    }
    let end = |low: u64| size.and_then(|size| low.checked_add(size)).or(high);
    let range = low.and_then(|low| Some((low, end(low)?))).filter(|(low, high)| low < high);
    Ok(range.filter(|_| take(&mut limits.ranges, 1)).into_iter().collect())
}

/// The path of a file of the line program.
fn path<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    header: &gimli::LineProgramHeader<Slice<'a>>,
    file: u64,
) -> Option<Arc<str>> {
    let entry = header.file(file)?;
    let text = |value: AttributeValue<Slice<'a>>| dwarf.attr_string(unit, value).ok();
    let mut path = String::new();
    let folder = unit.comp_dir;
    let directory = entry.directory(header).and_then(text);
    for part in [folder, directory, text(entry.path_name())].into_iter().flatten() {
        push_path(&mut path, &part.to_string_lossy());
        if path.len() > PATH_LIMIT {
            return None;
        }
    }
    Some(path.into())
}

/// Appends a path, which replaces the one before it if it is absolute.
pub(super) fn push_path(path: &mut String, part: &str) {
    let is_absolute = part.starts_with(['/', '\\']) || part.get(1..3).is_some_and(|root| [":\\", ":/"].contains(&root));
    if is_absolute || path == part {
        path.clear();
    } else if !path.is_empty() && !path.ends_with(['/', '\\']) {
        path.push('/');
    }
    path.push_str(part);
}

/// Ranges without overlaps: where several scopes have an address, the innermost one.
fn spans(mut ranges: Vec<ScopeRange>) -> Vec<Span> {
    ranges.sort_by_key(|range| (range.low, range.depth));
    let mut sweep = Sweep::default();
    for range in &ranges {
        sweep.advance(range.low);
        sweep.open.push((range.high, range.scope));
    }
    sweep.advance(u64::MAX);
    sweep.spans
}

/// Sweep over memory in ascending order that assigns a scope to each range.
#[derive(Default)]
struct Sweep {
    spans: Vec<Span>,
    /// Ends and scopes of the ranges that may extend past the cursor; the innermost one is on top.
    open: Vec<(u64, u32)>,
    cursor: u64,
}

impl Sweep {
    fn advance(&mut self, until: u64) {
        while let Some(&(high, scope)) = self.open.last() {
            if high > self.cursor {
                self.assign(Some(scope));
                self.cursor = high.min(until);
                if high > until {
                    return;
                }
            }
            self.open.pop();
        }
        if self.cursor < until {
            self.assign(None);
            self.cursor = until;
        }
    }

    fn assign(&mut self, scope: Option<u32>) {
        if self.spans.last().is_none_or(|last| last.scope != scope) {
            self.spans.push(Span { start: self.cursor, scope });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_scope_owns_an_address() {
        let range = |low, high, depth, scope| ScopeRange { low, high, depth, scope };
        let rows = [
            ("none", vec![], ""),
            ("one", vec![range(2, 4, 1, 0)], "--00"),
            ("nested", vec![range(1, 6, 1, 0), range(2, 4, 2, 1)], "-01100"),
            ("nested at the start", vec![range(1, 6, 1, 0), range(1, 3, 2, 1)], "-11000"),
            ("in two parts", vec![range(0, 6, 1, 0), range(4, 5, 2, 1), range(1, 2, 2, 1)], "010010"),
            ("neighbors", vec![range(0, 2, 1, 0), range(2, 4, 1, 1)], "0011"),
            ("overlap", vec![range(0, 3, 1, 0), range(2, 5, 1, 1)], "00111"),
        ];
        for (name, ranges, expected) in rows {
            let tables = UnitTables { spans: spans(ranges), ..UnitTables::default() };
            let letter = |address| tables.scope_at(address).map_or('-', |scope| char::from(b'0' + scope as u8));
            let found: String = (0..8).map(letter).collect();
            assert_eq!(found.trim_end_matches('-'), expected, "{name}");
        }
    }

    #[test]
    fn paths_are_joined() {
        let rows = [
            (["/build", "src", "a.c"], "/build/src/a.c"),
            (["/build", "/usr/include", "stdio.h"], "/usr/include/stdio.h"),
            (["/build/", "", "a.c"], "/build/a.c"),
            (["/build", "/build", "a.c"], "/build/a.c"),
            (["", "", "a.c"], "a.c"),
            (["C:\\work", "src", "a.c"], "C:\\work/src/a.c"),
            (["/build", "src", "D:/x/a.c"], "D:/x/a.c"),
        ];
        for (parts, expected) in rows {
            let mut path = String::new();
            parts.iter().filter(|part| !part.is_empty()).for_each(|part| push_path(&mut path, part));
            assert_eq!(path, expected, "{parts:?}");
        }
    }
}
