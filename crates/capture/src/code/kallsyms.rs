//! The symbols of a running Linux kernel, as `/proc/kallsyms` lists them.
//!
//! lines `address type name [module]` ─▶ **kallsyms** ─▶ [`Kallsyms`]: names by address, addresses by name, ranges of code
//!
//! The list has no sizes: a symbol ends where the next one of any type starts, and at most 64 KiB after its start, since
//! the memory after the last function of a module is not part of it. A kernel that hides its addresses (`kptr_restrict`)
//! prints zeros; these are counted and never used.

use std::collections::BTreeMap;
use std::ops::Range;

use super::lines::{BadField, Fields, Line, NoteList, each_line};
use super::symbols::{SymbolList, Symbols};
use super::{Bytes, Code};
use crate::note::{Note, NoteKind};

/// Maximum number of symbols. A kernel with all modules has several hundred thousand.
const SYMBOL_LIMIT: usize = 4 << 20;

/// Maximum size of a function whose end is not known.
const FUNCTION_LIMIT: u64 = 64 << 10;

/// Maximum distance between functions of one module that are in one range of code.
const GAP_LIMIT: u64 = 1 << 20;

/// Maximum number of symbols of one name. The names of static functions occur some dozens of times.
const SAME_NAME_LIMIT: usize = 1 << 10;

const PAGE: u64 = 4 << 10;

/// The symbols of a running kernel and its modules.
#[derive(Debug, Clone, Default)]
pub struct Kallsyms {
    /// Bad lines, and hidden addresses.
    pub notes: Vec<Note>,
    /// Number of symbols whose address is zero, because the kernel hides it.
    pub hidden: usize,
    text: Bytes,
    /// Sorted by address.
    entries: Vec<Entry>,
    /// Indexes of the entries, sorted by name.
    by_name: Vec<u32>,
}

/// A symbol of a running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Its address.
    pub address: u64,
    /// Its type, as in the list of `nm`: `T` and `t` are code, upper case is global, or exported from a module.
    pub kind: char,
    /// Its name.
    pub name: &'a str,
    /// Its module; `None` for the kernel itself.
    pub module: Option<&'a str>,
}

#[derive(Debug, Clone)]
struct Entry {
    address: u64,
    kind: u8,
    /// Ranges in the text.
    name: Range<u32>,
    module: Option<Range<u32>>,
}

impl Kallsyms {
    /// Reads the list. `file` is the name that notes show.
    pub fn parse(file: &str, text: Vec<u8>) -> Self {
        let mut notes = NoteList::new(file);
        let (mut entries, mut hidden, mut dropped) = (Vec::new(), 0, 0);
        each_line(&text, &mut notes, |line, _| {
            match parse_line(line)? {
                Some(entry) if entry.address == 0 => hidden += 1,
                Some(entry) if entries.len() < SYMBOL_LIMIT => entries.push(entry),
                _ => dropped += 1,
            }
            Ok(())
        });
        if dropped > 0 {
            notes.add(0, NoteKind::TooMany, || format!("has too many symbols; {dropped} are ignored"));
        }
        if hidden > 0 && entries.is_empty() {
            let text = "all addresses are zero: the kernel hides them (kptr_restrict)";
            notes.add(0, NoteKind::MissingKey, || text.to_string());
        }
        entries.sort_by_key(|entry: &Entry| entry.address);
        let notes = notes.finish();
        let mut list = Self { notes, hidden, text: text.into(), entries, by_name: Vec::new() };
        let mut by_name: Vec<u32> = (0..).take(list.entries.len()).collect();
        by_name.sort_by_key(|index| list.entries.get(*index as usize).map(|entry| list.symbol(entry).name));
        list.by_name = by_name;
        list
    }

    /// All symbols whose address is known, sorted by address.
    pub fn iter(&self) -> impl Iterator<Item = KernelSymbol<'_>> {
        self.entries.iter().map(|entry| self.symbol(entry))
    }

    /// Number of symbols whose address is known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no address is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The address of a symbol of the kernel itself; `None` if it is not listed, or with several addresses.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        self.unambiguous(name, |symbol| symbol.module.is_none())
    }

    /// The functions and labels of code, for lookup by address. Of several names for one address, global ones are
    /// preferred, and the last one that is listed: markers such as `_stext` precede the function that starts there.
    pub fn symbols(&self) -> Symbols {
        let mut list = SymbolList::default();
        // From the end, so that the next address is at hand: `next` follows `now`, the address of the last entry seen.
        let (mut now, mut next) = (u64::MAX, u64::MAX);
        for entry in self.entries.iter().rev() {
            if entry.address < now {
                (now, next) = (entry.address, now);
            }
            let symbol = self.symbol(entry);
            if symbol.is_code() && !is_mapping_symbol(symbol.name) {
                let limit = entry.address.saturating_add(FUNCTION_LIMIT).min(next);
                list.push(symbol.name, entry.address, 0, limit, rank(symbol.kind));
            }
        }
        list.finish()
    }

    /// The names of the kernel as code without memory.
    pub fn code(&self, name: &str) -> Code {
        Code { name: name.to_string(), symbols: self.symbols(), ..Code::default() }
    }

    /// Ranges of memory with code: the kernel from `_stext` to `_etext` (`_sinittext` to `_einittext` is freed after the
    /// start), and around the functions of modules and BPF programs. In ascending order, without overlaps.
    ///
    /// The size of the last function of a module is not listed, so a range extends past its start by 64 KiB.
    pub fn text_ranges(&self) -> Vec<Range<u64>> {
        let start = self.address_of("_stext").or_else(|| self.address_of("_text"));
        let kernel = start.zip(self.address_of("_etext")).map(|(start, end)| start..end);
        let mut ranges: Vec<Range<u64>> = kernel.into_iter().filter(|range| !range.is_empty()).collect();
        let mut modules: BTreeMap<&str, Vec<Range<u64>>> = BTreeMap::new();
        for symbol in self.iter().filter(KernelSymbol::is_code) {
            let Some(module) = symbol.module else { continue };
            let last = symbol.address.saturating_add(FUNCTION_LIMIT);
            let ranges = modules.entry(module).or_default();
            match ranges.last_mut() {
                Some(range) if symbol.address.saturating_sub(range.end) <= GAP_LIMIT => range.end = last,
                _ => ranges.push(symbol.address & !(PAGE - 1)..last),
            }
        }
        ranges.extend(modules.into_values().flatten());
        joined(ranges)
    }

    /// The address of a function of a module; `None` if it is not listed, or with several addresses.
    pub(super) fn address_in_module(&self, name: &str, module: &str) -> Option<u64> {
        self.unambiguous(name, |symbol| symbol.module == Some(module) && symbol.is_code())
    }

    /// The address of a function that modules can call: a global one of the kernel, or one that a module exports. `None` if
    /// it is not listed, or with several addresses.
    pub(super) fn exported(&self, name: &str) -> Option<u64> {
        self.unambiguous(name, |symbol| symbol.kind.is_ascii_uppercase() && symbol.is_code())
    }

    fn unambiguous(&self, name: &str, wanted: impl Fn(&KernelSymbol<'_>) -> bool) -> Option<u64> {
        let named = |index: &u32| Some(self.symbol(self.entries.get(*index as usize)?));
        let first = self.by_name.partition_point(|index| named(index).is_some_and(|symbol| symbol.name < name));
        let of_name = self.by_name.iter().skip(first).filter_map(named).take_while(|symbol| symbol.name == name);
        let mut address = None;
        for (count, symbol) in of_name.enumerate() {
            // A name with more symbols than that is ambiguous in any case; a search must not take long.
            if count == SAME_NAME_LIMIT || wanted(&symbol) && address.is_some_and(|known| known != symbol.address) {
                return None;
            }
            address = address.or_else(|| wanted(&symbol).then_some(symbol.address));
        }
        address
    }

    fn symbol(&self, entry: &Entry) -> KernelSymbol<'_> {
        let text = |range: &Range<u32>| {
            let bytes = self.text.get(range.start as usize..range.end as usize).unwrap_or_default();
            std::str::from_utf8(bytes).unwrap_or_default()
        };
        let (name, module) = (text(&entry.name), entry.module.as_ref().map(text));
        KernelSymbol { address: entry.address, kind: char::from(entry.kind), name, module }
    }
}

impl KernelSymbol<'_> {
    /// Whether it names code.
    pub fn is_code(&self) -> bool {
        matches!(self.kind, 't' | 'T' | 'w' | 'W')
    }
}

/// A symbol; `None` if its place in the text is too large to keep.
fn parse_line(line: Line<'_>) -> Result<Option<Entry>, BadField> {
    let mut fields = Fields::new(line.text);
    let address = fields.next("the address")?.hex("a hexadecimal address")?;
    let kind = fields.next("the type")?;
    let &[kind] = kind.text.as_bytes() else { return Err(kind.bad("the one letter of a type")) };
    let name = fields.next("the name")?;
    let module = fields.peek();
    let rest = module.text.trim_end();
    let inner = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if !rest.is_empty() && inner.is_none() {
        return Err(module.bad("the name of a module in brackets"));
    }
    let place = |column: usize, text: &str| {
        let start = u32::try_from(line.offset + column - 1).ok()?;
        Some(start..start.checked_add(u32::try_from(text.len()).ok()?)?)
    };
    let Some(name) = place(name.column, name.text) else { return Ok(None) };
    Ok(Some(Entry { address, kind, name, module: inner.and_then(|inner| place(module.column + 1, inner)) }))
}

/// Whether the symbol marks code or data for disassemblers, which modules keep.
fn is_mapping_symbol(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next() == Some(b'$')
        && matches!(bytes.next(), Some(b'x' | b'd' | b'a' | b't'))
        && matches!(bytes.next(), None | Some(b'.'))
}

/// Preference among names for one address.
fn rank(kind: char) -> u8 {
    match kind {
        'T' => 2,
        'W' | 'w' => 1,
        _ => 0,
    }
}

/// Sorted ranges without overlaps.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// In the manner of an arm64 kernel with two modules and a BPF program.
    const LIST: &str = "\
ffff800008000000 T _text
ffff800008010000 T _stext
ffff800008010000 T do_one
ffff800008010040 t helper
ffff800008010080 t helper
ffff800008010100 W weak_one
ffff800008020000 D _etext
ffff800009000000 d some_data
ffff800001000000 t $x\t[mod_a]
ffff800001000000 t a_init\t[mod_a]
ffff800001000020 T a_exported\t[mod_a]
ffff800001002000 d a_data\t[mod_a]
ffff800001500000 t b_first\t[mod_b]
ffff800007000000 t bpf_prog_1\t[bpf]
";

    #[test]
    fn names_of_addresses() {
        let list = Kallsyms::parse("kallsyms", LIST.into());
        assert_eq!((list.len(), list.hidden, list.notes.len()), (14, 0, 0));
        let symbols = list.symbols();
        let rows = [
            (0xffff_8000_0800_0004, "_text+4"),
            (0xffff_8000_0801_0000, "do_one+0"),
            (0xffff_8000_0801_0044, "helper+4"),
            (0xffff_8000_0801_0084, "helper+4"),
            (0xffff_8000_0801_0104, "weak_one+4"),
            // Before `_etext`, which is no code, and after a mapping symbol.
            (0xffff_8000_0801_ffff, "weak_one+feff"),
            (0xffff_8000_0802_0000, "-"),
            (0xffff_8000_0100_0000, "a_init+0"),
            (0xffff_8000_0100_1fff, "a_exported+1fdf"),
            (0xffff_8000_0100_2000, "-"),
            // The end of the last function of a module is not known.
            (0xffff_8000_0150_ffff, "b_first+ffff"),
            (0xffff_8000_0151_0000, "-"),
        ];
        for (address, expected) in rows {
            let found = symbols.find(address).map_or("-".into(), |(name, offset)| format!("{name}+{offset:x}"));
            assert_eq!(found, expected, "{address:#x}");
        }
    }

    #[test]
    fn addresses_of_names() {
        let list = Kallsyms::parse("kallsyms", LIST.into());
        let rows = [
            ("_stext", Some(0xffff_8000_0801_0000)),
            ("some_data", Some(0xffff_8000_0900_0000)),
            ("helper", None),
            ("a_init", None),
            ("missing", None),
        ];
        rows.iter().for_each(|(name, expected)| assert_eq!(list.address_of(name), *expected, "{name}"));
        assert_eq!(list.address_in_module("a_exported", "mod_a"), Some(0xffff_8000_0100_0020));
        let others = [("a_data", "mod_a"), ("b_first", "mod_a"), ("helper", "mod_a"), ("_text", "")];
        others.iter().for_each(|(name, module)| assert_eq!(list.address_in_module(name, module), None, "{name}"));
        assert!(["_text", "do_one", "weak_one", "a_exported"].iter().all(|name| list.exported(name).is_some()));
        assert!(["helper", "a_init", "_etext", "", "zzz"].iter().all(|name| list.exported(name).is_none()));
    }

    #[test]
    fn ranges_of_code() {
        let ranges = Kallsyms::parse("kallsyms", LIST.into()).text_ranges();
        let expected = [
            0xffff_8000_0100_0000..0xffff_8000_0101_0020,
            0xffff_8000_0150_0000..0xffff_8000_0151_0000,
            0xffff_8000_0700_0000..0xffff_8000_0701_0000,
            0xffff_8000_0801_0000..0xffff_8000_0802_0000,
        ];
        assert_eq!(ranges, expected);
    }

    #[test]
    fn odd_lists() {
        let rows = [
            ("", 0, ""),
            (
                "0000000000000000 T _text\n0000000000000000 t f\t[m]\n",
                2,
                "k: all addresses are zero: the kernel hides them (kptr_restrict)",
            ),
            ("10 T f\n0 A per_cpu\n", 1, ""),
            ("10 T", 0, "k:1: column 5: the line ends before the name"),
            ("10 T f\nxyz T g\n", 0, "k:2: column 1: `xyz` is not a hexadecimal address"),
            ("10 TT f\n", 0, "k:1: column 4: `TT` is not the one letter of a type"),
            ("10 T f g\n", 0, "k:1: column 8: `g` is not the name of a module in brackets"),
            ("10 T f\t[m]\r\n", 0, ""),
        ];
        for (text, hidden, expected) in rows {
            let list = Kallsyms::parse("k", text.into());
            let notes: Vec<String> = list.notes.iter().map(ToString::to_string).collect();
            assert_eq!((list.hidden, notes.join("; ").as_str()), (hidden, expected), "{text}");
        }
        let list = Kallsyms::parse("k", b"10 T f\t[m]\r\n".to_vec());
        assert_eq!(list.iter().next().unwrap(), KernelSymbol { address: 16, kind: 'T', name: "f", module: Some("m") });
    }

    proptest! {
        #[test]
        fn any_text(text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b' '), Just(b'0'), Just(b'T'), any::<u8>()], 0..300)) {
            let list = Kallsyms::parse("k", text);
            let ranges = list.text_ranges();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(list.iter().all(|symbol| symbol.address != 0 && !symbol.name.is_empty()));
            list.symbols().find(0x10);
        }
    }
}
