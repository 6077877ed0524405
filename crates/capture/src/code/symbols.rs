//! Symbols: the function that contains an address.
//!
//! symbols of an ELF file, unordered and overlapping ─▶ **symbols** ─▶ lookup by binary search
//!
//! The names stay in the bytes of the file; a symbol keeps only the offset of its name. The table is flattened once
//! into spans that do not overlap, each owned by one symbol. Where symbols overlap, the one that starts last owns the
//! bytes, but a label without a size does not split a function.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use super::Bytes;

/// Maximum length of a name. Without it, finding the end of a name in a hostile file would take unbounded time.
const NAME_LIMIT: usize = 16 << 10;

/// The functions of a program, indexed by address. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Symbols {
    table: Arc<Table>,
    /// Load address minus link address.
    bias: u64,
}

/// A function or label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name in the symbol table.
    pub name: &'a str,
    /// Its first address.
    pub address: u64,
    /// Its size in bytes; a symbol without a size extends to the next one.
    pub size: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ElfSymbol {
    pub(crate) address: u64,
    /// 0 if unknown.
    pub(crate) size: u64,
    /// End address of its section.
    pub(crate) limit: u64,
    /// Offset of its name in the file.
    pub(crate) name: u32,
    /// Of two symbols at one address, the name of the one with the higher rank is used.
    pub(crate) rank: u8,
}

/// Symbols under construction, from a source that is not an ELF file.
#[derive(Debug, Default)]
pub(crate) struct SymbolList {
    /// Names, each with a zero byte after it.
    names: Vec<u8>,
    listed: Vec<ElfSymbol>,
}

impl SymbolList {
    /// Adds a symbol. Those whose names no longer fit into 4 GiB are dropped.
    pub(crate) fn push(&mut self, name: &str, address: u64, size: u64, limit: u64, rank: u8) {
        if let Ok(at) = u32::try_from(self.names.len()) {
            self.names.extend(name.bytes().chain([0]));
            self.listed.push(ElfSymbol { address, size, limit, name: at, rank });
        }
    }

    pub(crate) fn finish(self) -> Symbols {
        Symbols::new(&self.names.into(), self.listed)
    }
}

#[derive(Default)]
struct Table {
    file: Bytes,
    /// Sorted by address, each address once.
    entries: Vec<Entry>,
    spans: Vec<Span>,
}

struct Entry {
    address: u64,
    end: u64,
    name: u32,
}

/// The range up to the next span, owned by this entry or by none.
struct Span {
    start: u64,
    entry: Option<u32>,
}

impl Symbols {
    /// The symbol that contains an address, and the offset of the address in it.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let address = address.wrapping_sub(self.bias);
        let after = self.table.spans.partition_point(|span| span.start <= address);
        let span = self.table.spans.get(after.checked_sub(1)?)?;
        let entry = self.table.entries.get(span.entry? as usize)?;
        Some((self.table.name(entry), address - entry.address))
    }

    /// All symbols, sorted by link address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.table.entries.iter().map(|entry| Symbol {
            name: self.table.name(entry),
            address: entry.address.wrapping_add(self.bias),
            size: entry.end - entry.address,
        })
    }

    /// Number of symbols; several names for one address are counted once.
    pub fn len(&self) -> usize {
        self.table.entries.len()
    }

    /// Whether there are no symbols.
    pub fn is_empty(&self) -> bool {
        self.table.entries.is_empty()
    }

    pub(crate) fn new(file: &Bytes, symbols: Vec<ElfSymbol>) -> Self {
        let (entries, spans) = flatten(&by_address(symbols));
        Self { table: Arc::new(Table { file: file.clone(), entries, spans }), bias: 0 }
    }

    /// The same symbols, moved up by `bias` bytes.
    pub(crate) fn moved(&self, bias: u64) -> Self {
        Self { table: Arc::clone(&self.table), bias }
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Symbols({}, bias {:#x})", self.len(), self.bias)
    }
}

impl Table {
    fn name(&self, entry: &Entry) -> &str {
        let rest = self.file.get(entry.name as usize..).unwrap_or_default();
        let rest = &rest[..rest.len().min(NAME_LIMIT)];
        let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        // A name that is not UTF-8 is truncated before its first invalid byte.
        name.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }
}

/// Sorts symbols and keeps the highest rank at each address. If it has no size, it takes the size of another.
fn by_address(mut symbols: Vec<ElfSymbol>) -> Vec<ElfSymbol> {
    symbols.sort_by_key(|symbol| (symbol.address, Reverse(symbol.rank), Reverse(symbol.size)));
    symbols.dedup_by(|later, kept| {
        let same = later.address == kept.address;
        if same && kept.size == 0 {
            kept.size = later.size;
        }
        same
    });
    symbols
}

fn flatten(sorted: &[ElfSymbol]) -> (Vec<Entry>, Vec<Span>) {
    let mut entries: Vec<Entry> = Vec::with_capacity(sorted.len());
    let mut sweep = Sweep::default();
    for (at, symbol) in sorted.iter().enumerate() {
        sweep.advance(symbol.address, &entries);
        let next = sorted.get(at + 1).map_or(u64::MAX, |next| next.address);
        let end = match symbol.size {
            // An open symbol has a size, since one without ends where the next one starts.
            0 if !sweep.open.is_empty() => continue,
            0 => symbol.limit.min(next),
            size => symbol.address.saturating_add(size),
        };
        let Ok(index) = u32::try_from(entries.len()) else { break };
        if end > symbol.address {
            entries.push(Entry { address: symbol.address, end, name: symbol.name });
            sweep.open.push(index);
        }
    }
    sweep.advance(u64::MAX, &entries);
    (entries, sweep.spans)
}

/// Sweep over memory in ascending order that assigns an owner to each range. Makes at most two spans per entry, and a
/// gap.
#[derive(Default)]
struct Sweep {
    spans: Vec<Span>,
    /// Stack of the entries that may extend past the cursor; the one that started last is on top.
    open: Vec<u32>,
    cursor: u64,
}

impl Sweep {
    fn advance(&mut self, until: u64, entries: &[Entry]) {
        while let Some(&top) = self.open.last() {
            let end = entries.get(top as usize).map_or(0, |entry| entry.end);
            if end > self.cursor {
                self.assign(Some(top));
                self.cursor = end.min(until);
                if end > until {
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

    /// Assigns memory from the cursor on to this entry.
    fn assign(&mut self, entry: Option<u32>) {
        if self.spans.last().is_none_or(|last| last.entry != entry) {
            self.spans.push(Span { start: self.cursor, entry });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbols with these names, addresses and sizes, all of one section that ends at 0x1000.
    fn symbols(rows: &[(&str, u64, u64, u8)]) -> Symbols {
        let (mut names, mut listed) = (vec![], vec![]);
        for (name, address, size, rank) in rows {
            listed.push(ElfSymbol {
                address: *address,
                size: *size,
                limit: 0x1000,
                name: names.len() as u32,
                rank: *rank,
            });
            names.extend(name.bytes().chain([0]));
        }
        Symbols::new(&names.into(), listed)
    }

    fn describe(symbols: &Symbols, address: u64) -> String {
        symbols.find(address).map_or("-".into(), |(name, offset)| format!("{name}+{offset:x}"))
    }

    #[test]
    fn owner_of_an_address() {
        let table = symbols(&[
            ("outer", 0x100, 0x100, 5),
            ("inner", 0x140, 0x10, 3),
            ("label_in_outer", 0x180, 0, 0),
            ("sized", 0x300, 0x10, 5),
            ("open", 0x400, 0, 5),
            ("label", 0x410, 0, 0),
            ("alias", 0x500, 0, 3),
            ("global", 0x500, 0x20, 5),
            ("local", 0x600, 0x20, 3),
            ("unsized_global", 0x600, 0, 5),
            ("overlaps", 0x610, 0x20, 5),
            ("last", 0xff0, 0, 0),
            ("end", 0x1000, 0, 0),
        ]);
        let rows = [
            (0, "-"),
            (0xff, "-"),
            (0x100, "outer+0"),
            (0x13f, "outer+3f"),
            (0x140, "inner+0"),
            (0x14f, "inner+f"),
            (0x150, "outer+50"),
            (0x184, "outer+84"),
            (0x1ff, "outer+ff"),
            (0x200, "-"),
            (0x30f, "sized+f"),
            (0x310, "-"),
            (0x40c, "open+c"),
            (0x410, "label+0"),
            (0x4ff, "label+ef"),
            (0x500, "global+0"),
            (0x520, "-"),
            (0x600, "unsized_global+0"),
            (0x60f, "unsized_global+f"),
            (0x610, "overlaps+0"),
            (0x62f, "overlaps+1f"),
            (0x630, "-"),
            (0xfff, "last+f"),
            (0x1000, "-"),
            (u64::MAX, "-"),
        ];
        for (address, expected) in rows {
            assert_eq!(describe(&table, address), expected, "{address:#x}");
        }
        assert_eq!(table.len(), 9);
    }

    #[test]
    fn moved_symbols_wrap_like_addresses() {
        let table = symbols(&[("high", 0xffff_ffff_ffff_f000, 0x1000, 5)]);
        assert_eq!(describe(&table, u64::MAX), "high+fff");
        let moved = table.moved(0x2000);
        assert_eq!((describe(&moved, 0x1004), describe(&moved, 0x2000)), ("high+4".into(), "-".into()));
        assert_eq!(moved.iter().next().map(|symbol| symbol.address), Some(0x1000));
        assert_eq!(describe(&Symbols::default(), 0), "-");
    }

    #[test]
    fn odd_names() {
        let table = symbols(&[("caf\u{e9}", 0, 4, 5)]);
        assert_eq!(describe(&table, 0), "caf\u{e9}+0");
        let listed = |name| ElfSymbol { address: 0, size: 4, limit: 4, name, rank: 0 };
        let of = |bytes: &[u8], name| describe(&Symbols::new(&bytes.to_vec().into(), vec![listed(name)]), 0);
        assert_eq!(of(b"ab\xffc\0", 0), "ab+0");
        assert_eq!(of(b"no end", 3), "end+0");
        assert_eq!(of(b"short", 100), "+0");
        assert_eq!(of(&[b'x'; NAME_LIMIT + 5], 0).len(), NAME_LIMIT + 2);
    }
}
