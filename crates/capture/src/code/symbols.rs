//! Symbols: which function an address is in.
//!
//! Comes in: what the symbol tables of an ELF file say, in any order and overlapping. Goes out: an answer by binary
//! search. The names stay in the bytes of the file; a symbol keeps only where its name starts.
//!
//! The table is flattened when it is made: spans that do not overlap, each with the symbol that owns it. Where symbols
//! overlap, the one that starts last owns the bytes, but a label without a size does not cut a function in two.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use super::Bytes;

/// Longer names exist in hostile files only; searching for their ends would take time without bound.
const NAME_LIMIT: usize = 16 << 10;

/// The functions of a program, found by address. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Symbols {
    table: Arc<Table>,
    /// How far the program was moved from where it was linked.
    bias: u64,
}

/// One function or label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name, as the linker knows it.
    pub name: &'a str,
    /// Where it starts.
    pub address: u64,
    /// How many bytes belong to it; for a symbol that does not say, those before the next one.
    pub size: u64,
}

/// A symbol as an ELF file has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) address: u64,
    /// 0 for unknown.
    pub(crate) size: u64,
    /// Where its section ends.
    pub(crate) limit: u64,
    /// Where in the file its name starts.
    pub(crate) name: u32,
    /// Of two symbols at an address the one with the higher rank gives the name.
    pub(crate) rank: u8,
}

#[derive(Default)]
struct Table {
    file: Bytes,
    /// By address, each address once.
    entries: Vec<Entry>,
    spans: Vec<Span>,
}

struct Entry {
    address: u64,
    end: u64,
    name: u32,
}

/// From here to the next span, memory belongs to this entry or to none.
struct Span {
    start: u64,
    entry: Option<u32>,
}

impl Symbols {
    /// The symbol that an address belongs to, and how far behind its start the address is.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let address = address.wrapping_sub(self.bias);
        let behind = self.table.spans.partition_point(|span| span.start <= address);
        let span = self.table.spans.get(behind.checked_sub(1)?)?;
        let entry = self.table.entries.get(span.entry? as usize)?;
        Some((self.table.name(entry), address - entry.address))
    }

    /// All of them, by the address that they were linked at.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.table.entries.iter().map(|entry| Symbol {
            name: self.table.name(entry),
            address: entry.address.wrapping_add(self.bias),
            size: entry.end - entry.address,
        })
    }

    /// How many there are; the names of one address count once.
    pub fn len(&self) -> usize {
        self.table.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.entries.is_empty()
    }

    pub(crate) fn new(file: &Bytes, listed: Vec<Listed>) -> Self {
        let (entries, spans) = flatten(&by_address(listed));
        Self { table: Arc::new(Table { file: file.clone(), entries, spans }), bias: 0 }
    }

    /// The same symbols, that many bytes further up.
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
        // Of a name that is not UTF-8, what comes before the first odd byte has to do.
        name.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }
}

/// Sorted, and one for each address: the name of the highest rank, with its size or the best that is known.
fn by_address(mut listed: Vec<Listed>) -> Vec<Listed> {
    listed.sort_by_key(|symbol| (symbol.address, Reverse(symbol.rank), Reverse(symbol.size)));
    listed.dedup_by(|later, kept| {
        let same = later.address == kept.address;
        if same && kept.size == 0 {
            kept.size = later.size;
        }
        same
    });
    listed
}

fn flatten(sorted: &[Listed]) -> (Vec<Entry>, Vec<Span>) {
    let mut entries: Vec<Entry> = Vec::with_capacity(sorted.len());
    let mut sweep = Sweep::default();
    for (at, symbol) in sorted.iter().enumerate() {
        sweep.advance(symbol.address, &entries);
        let next = sorted.get(at + 1).map_or(u64::MAX, |next| next.address);
        let end = match symbol.size {
            // What is still open has a size: a symbol without one ends where the next one starts.
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

/// Goes through memory from below and says who owns it. Makes at most two spans for each entry, and a gap.
#[derive(Default)]
struct Sweep {
    spans: Vec<Span>,
    /// The entries that may reach beyond the cursor, the one that started last on top.
    open: Vec<u32>,
    cursor: u64,
}

impl Sweep {
    fn advance(&mut self, until: u64, entries: &[Entry]) {
        while let Some(&top) = self.open.last() {
            let end = entries.get(top as usize).map_or(0, |entry| entry.end);
            if end > self.cursor {
                self.own(Some(top));
                self.cursor = end.min(until);
                if end > until {
                    return;
                }
            }
            self.open.pop();
        }
        if self.cursor < until {
            self.own(None);
            self.cursor = until;
        }
    }

    /// From the cursor on, memory belongs to this entry.
    fn own(&mut self, entry: Option<u32>) {
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
            listed.push(Listed {
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

    fn told(symbols: &Symbols, address: u64) -> String {
        symbols.find(address).map_or("-".into(), |(name, offset)| format!("{name}+{offset:x}"))
    }

    #[test]
    fn who_owns_an_address() {
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
            assert_eq!(told(&table, address), expected, "{address:#x}");
        }
        assert_eq!(table.len(), 9);
    }

    #[test]
    fn moved_symbols_wrap_like_addresses() {
        let table = symbols(&[("high", 0xffff_ffff_ffff_f000, 0x1000, 5)]);
        assert_eq!(told(&table, u64::MAX), "high+fff");
        let moved = table.moved(0x2000);
        assert_eq!((told(&moved, 0x1004), told(&moved, 0x2000)), ("high+4".into(), "-".into()));
        assert_eq!(moved.iter().next().map(|symbol| symbol.address), Some(0x1000));
        assert_eq!(told(&Symbols::default(), 0), "-");
    }

    #[test]
    fn odd_names() {
        let table = symbols(&[("caf\u{e9}", 0, 4, 5)]);
        assert_eq!(told(&table, 0), "caf\u{e9}+0");
        let listed = |name| Listed { address: 0, size: 4, limit: 4, name, rank: 0 };
        let of = |bytes: &[u8], name| told(&Symbols::new(&bytes.to_vec().into(), vec![listed(name)]), 0);
        assert_eq!(of(b"ab\xffc\0", 0), "ab+0");
        assert_eq!(of(b"no end", 3), "end+0");
        assert_eq!(of(b"short", 100), "+0");
        assert_eq!(of(&[b'x'; NAME_LIMIT + 5], 0).len(), NAME_LIMIT + 2);
    }
}
