//! Names and lines of functions in debug information: those of an entry (DIE), or of the entries that it refers to.
//!
//! attributes of an entry ─▶ references, within the unit or to another one ─▶ **declaration**
//!
//! The copies of an inlined function refer to one entry, whose name is looked up once. Chains of references and lengths of
//! names are limited. Knows neither addresses nor lines of code.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gimli::{
    Attribute, AttributeValue, DW_AT_MIPS_linkage_name, DW_AT_abstract_origin, DW_AT_decl_line, DW_AT_linkage_name,
    DW_AT_name, DW_AT_specification, DebugInfoOffset, Dwarf, Reader as _, Unit, UnitOffset,
};

use super::dwarf::Slice;

/// Longest name of a function. Longer names are cut.
const NAME_LIMIT: usize = 16 << 10;

/// Maximum number of references from an entry to the one with its name.
const ORIGIN_LIMIT: usize = 16;

/// Name of a function, and the line of its declaration.
#[derive(Debug, Clone, Default)]
pub(super) struct Declaration {
    pub(super) name: Option<Arc<str>>,
    pub(super) line: Option<u32>,
}

/// Names of entries, which may be those of other entries in other units.
pub(super) struct Origins<'a> {
    dwarf: &'a Dwarf<Slice<'a>>,
    units: HashMap<usize, Arc<Unit<Slice<'a>>>>,
    /// Declarations by the entry that was referred to.
    known: HashMap<(usize, usize), Declaration>,
    /// All names, each once.
    names: HashSet<Arc<str>>,
}

impl<'a> Origins<'a> {
    pub(super) fn new(dwarf: &'a Dwarf<Slice<'a>>) -> Self {
        Self { dwarf, units: HashMap::new(), known: HashMap::new(), names: HashSet::new() }
    }

    pub(super) fn unit(&mut self, offset: DebugInfoOffset<usize>) -> Result<Arc<Unit<Slice<'a>>>, gimli::Error> {
        if let Some(known) = self.units.get(&offset.0) {
            return Ok(Arc::clone(known));
        }
        let unit = Arc::new(self.dwarf.unit(self.dwarf.unit_header(offset)?)?);
        self.units.insert(offset.0, Arc::clone(&unit));
        Ok(unit)
    }

    /// Name and line of an entry. The name is that of the linker, that of the source, or that of the entry that it refers to.
    pub(super) fn declaration(
        &mut self,
        dwarf: &Dwarf<Slice<'_>>,
        unit: &Unit<Slice<'_>>,
        attributes: &[Attribute<Slice<'_>>],
    ) -> Declaration {
        let line = small_number(attributes, DW_AT_decl_line);
        match own_name(dwarf, unit, attributes) {
            Name::Text(name) => Declaration { name: Some(self.intern(&name)), line },
            Name::Origin(origin) => {
                let Some(offset) = origin_offset(unit, origin) else { return Declaration { name: None, line } };
                let key = (unit.header.offset().0, offset);
                let found = match self.known.get(&key) {
                    Some(known) => known.clone(),
                    None => {
                        let (name, line) = self.follow(dwarf, unit, origin);
                        let found = Declaration { name: name.map(|name| self.intern(&name)), line };
                        self.known.insert(key, found.clone());
                        found
                    }
                };
                Declaration { line: line.or(found.line), ..found }
            }
            Name::None => Declaration { name: None, line },
        }
    }

    /// The first name and the first line of the entries that refer to each other.
    fn follow(
        &mut self,
        dwarf: &Dwarf<Slice<'_>>,
        unit: &Unit<Slice<'_>>,
        origin: Origin,
    ) -> (Option<String>, Option<u32>) {
        let (mut attributes, mut next, mut line) = (Vec::new(), origin, None);
        // References within the unit first; one to another unit is in the same file.
        for _ in 0..ORIGIN_LIMIT {
            let Origin::Unit(offset) = next else {
                let (name, outer) = self.follow_elsewhere(next).unwrap_or_default();
                return (name, line.or(outer));
            };
            if read_entry(unit, offset, &mut attributes).is_none() {
                break;
            }
            line = line.or_else(|| small_number(&attributes, DW_AT_decl_line));
            match own_name(dwarf, unit, &attributes) {
                Name::Text(name) => return (Some(name), line),
                Name::Origin(origin) => next = origin,
                Name::None => break,
            }
        }
        (None, line)
    }

    fn follow_elsewhere(&mut self, origin: Origin) -> Option<(Option<String>, Option<u32>)> {
        let dwarf = self.dwarf;
        let (mut attributes, mut next, mut line) = (Vec::new(), origin, None);
        let mut unit: Option<Arc<Unit<Slice<'a>>>> = None;
        for _ in 0..ORIGIN_LIMIT {
            let offset = match (next, &unit) {
                (Origin::Unit(offset), _) => offset,
                (Origin::Section(offset), _) => {
                    let found = self.unit_with(offset)?;
                    let inner = offset.to_unit_offset(&found.header)?;
                    unit = Some(found);
                    inner
                }
            };
            let at = unit.as_ref()?;
            read_entry(at, offset, &mut attributes)?;
            line = line.or_else(|| small_number(&attributes, DW_AT_decl_line));
            match own_name(dwarf, at, &attributes) {
                Name::Text(name) => return Some((Some(name), line)),
                Name::Origin(origin) => next = origin,
                Name::None => break,
            }
        }
        Some((None, line))
    }

    /// The unit that contains an offset of the section.
    fn unit_with(&mut self, offset: DebugInfoOffset<usize>) -> Option<Arc<Unit<Slice<'a>>>> {
        let known = self.units.values().find(|unit| offset.to_unit_offset(&unit.header).is_some());
        if let Some(known) = known {
            return Some(Arc::clone(known));
        }
        let mut headers = self.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if offset.to_unit_offset(&header).is_some() {
                return self.unit(header.debug_info_offset()?).ok();
            }
        }
        None
    }

    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }
}

/// Where the name of an entry is.
enum Name {
    Text(String),
    Origin(Origin),
    None,
}

/// Another entry.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// Of the same unit.
    Unit(UnitOffset<usize>),
    /// Of any unit of the file.
    Section(DebugInfoOffset<usize>),
}

fn origin_offset(unit: &Unit<Slice<'_>>, origin: Origin) -> Option<usize> {
    match origin {
        Origin::Unit(offset) => offset.0.checked_add(unit.header.offset().0),
        Origin::Section(offset) => Some(offset.0),
    }
}

fn own_name(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, attributes: &[Attribute<Slice<'_>>]) -> Name {
    let value = |names: &[gimli::DwAt]| {
        attributes.iter().find(|attribute| names.contains(&attribute.name())).map(Attribute::value)
    };
    let text = |names: &[gimli::DwAt]| {
        let string = dwarf.attr_string(unit, value(names)?).ok()?;
        let bytes = string.slice().get(..string.len().min(NAME_LIMIT))?;
        Some(String::from_utf8_lossy(bytes).into_owned()).filter(|name| !name.is_empty())
    };
    let named = text(&[DW_AT_linkage_name, DW_AT_MIPS_linkage_name]);
    if let Some(name) = named {
        return Name::Text(name);
    }
    // The entry that is referred to may have the name of the linker.
    match value(&[DW_AT_abstract_origin, DW_AT_specification]) {
        Some(AttributeValue::UnitRef(offset)) => Name::Origin(Origin::Unit(offset)),
        Some(AttributeValue::DebugInfoRef(offset)) => Name::Origin(Origin::Section(offset)),
        _ => text(&[DW_AT_name]).map_or(Name::None, Name::Text),
    }
}

fn read_entry<'a>(
    unit: &Unit<Slice<'a>>,
    offset: UnitOffset<usize>,
    attributes: &mut Vec<Attribute<Slice<'a>>>,
) -> Option<()> {
    let mut entries = unit.entries_raw(Some(offset)).ok()?;
    let abbreviation = entries.read_abbreviation().ok()??;
    entries.read_attributes(abbreviation.attributes(), attributes).ok()
}

/// The value of an attribute that is a number.
pub(super) fn small_number(attributes: &[Attribute<Slice<'_>>], name: gimli::DwAt) -> Option<u32> {
    let value = attributes.iter().find(|attribute| attribute.name() == name)?.value();
    value.udata_value().and_then(|value| u32::try_from(value).ok())
}
