//! Builder of ELF files for tests.

/// An ELF file under construction: a 64-bit little-endian AArch64 executable by default.
#[derive(Clone)]
pub(super) struct ElfBuilder {
    pub(super) wide: bool,
    pub(super) big: bool,
    pub(super) machine: u16,
    pub(super) flags: u32,
    /// 1 for an object, 2 for an executable.
    pub(super) kind: u16,
    /// Address, alignment and content; each becomes a section too.
    pub(super) code: Vec<(u64, u64, Vec<u8>)>,
    /// Write program headers for the code.
    pub(super) segments: bool,
    /// Name, value, size, type and binding, and the number of a code section (0 undefined, 0xfff1 absolute).
    pub(super) symbols: Vec<(&'static str, u64, u64, u8, u16)>,
    pub(super) build_id: Vec<u8>,
    /// Names of the code sections; all of them or none.
    pub(super) names: Vec<&'static str>,
    /// Number of a code section, offset in it, type, number of a symbol from 1, addend. For 64-bit files.
    pub(super) relocations: Vec<(u32, u64, u32, u32, i64)>,
}

pub(super) const LOCAL: u8 = 0;
pub(super) const GLOBAL: u8 = 1 << 4;
pub(super) const NOTYPE: u8 = 0;
pub(super) const OBJECT: u8 = 1;
pub(super) const FUNC: u8 = 2;

impl Default for ElfBuilder {
    fn default() -> Self {
        Self {
            wide: true,
            big: false,
            machine: 183,
            flags: 0,
            kind: 2,
            code: vec![(0x40_0000, 0x1_0000, (0..0x40).collect())],
            segments: true,
            symbols: vec![("main", 0x40_0010, 0x10, GLOBAL | FUNC, 1)],
            build_id: vec![0xab, 0xcd],
            names: vec![],
            relocations: vec![],
        }
    }
}

/// Byte writer with the byte order and address width of the file.
struct Out {
    wide: bool,
    big: bool,
    bytes: Vec<u8>,
}

impl Out {
    fn halves(&mut self, values: &[u16]) {
        let big = self.big;
        self.bytes.extend(values.iter().flat_map(|value| if big { value.to_be_bytes() } else { value.to_le_bytes() }));
    }

    fn words(&mut self, values: &[u32]) {
        let big = self.big;
        self.bytes.extend(values.iter().flat_map(|value| if big { value.to_be_bytes() } else { value.to_le_bytes() }));
    }

    /// Numbers as wide as an address.
    fn longs(&mut self, values: &[u64]) {
        for value in values {
            match (self.wide, self.big) {
                (false, _) => self.words(&[*value as u32]),
                (true, true) => self.bytes.extend(value.to_be_bytes()),
                (true, false) => self.bytes.extend(value.to_le_bytes()),
            }
        }
    }
}

/// A section header: type, flags, address, offset, size, link, size of an entry, name, and the section it is about.
type Section = (u32, u64, u64, u64, u64, u32, u64, u32, u32);

impl ElfBuilder {
    pub(super) fn build(&self) -> Vec<u8> {
        let mut body = self.out();
        let start = self.header_size() + self.segment_count() * if self.wide { 56 } else { 32 };
        let mut sections: Vec<Section> = vec![(0, 0, 0, 0, 0, 0, 0, 0, 0)];
        let append = |body: &mut Out, bytes: &[u8]| {
            body.bytes.resize(body.bytes.len().next_multiple_of(8), 0);
            body.bytes.extend(bytes);
            (start.next_multiple_of(8) + body.bytes.len() - bytes.len()) as u64
        };
        let mut segments = vec![];
        for (address, align, bytes) in &self.code {
            let offset = append(&mut body, bytes);
            segments.push((1, *address, offset, bytes.len() as u64, *align));
            let name = 1 + self.names.iter().take(sections.len() - 1).map(|name| name.len() + 1).sum::<usize>();
            let name = if self.names.is_empty() { 0 } else { name as u32 };
            sections.push((1, 0b110, *address, offset, bytes.len() as u64, 0, 0, name, 0));
        }
        let note = self.note();
        let offset = append(&mut body, &note);
        segments.push((4, 0, offset, note.len() as u64, 4));
        sections.push((7, 0, 0, offset, note.len() as u64, 0, 0, 0, 0));
        let (table, names) = self.symbol_table();
        let (table_at, names_at) = (append(&mut body, &table), append(&mut body, &names));
        let strings = sections.len() as u32 + 1;
        sections.push((2, 0, 0, table_at, table.len() as u64, strings, if self.wide { 24 } else { 16 }, 0, 0));
        sections.push((3, 0, 0, names_at, names.len() as u64, 0, 0, 0, 0));
        for &(section, offset, kind, symbol, addend) in &self.relocations {
            let mut out = self.out();
            out.longs(&[offset, u64::from(symbol) << 32 | u64::from(kind), addend.cast_unsigned()]);
            let at = append(&mut body, &out.bytes);
            sections.push((4, 0, 0, at, 24, strings - 1, 24, 0, section));
        }
        if !self.names.is_empty() {
            let names: Vec<u8> = [""].iter().chain(&self.names).flat_map(|name| name.bytes().chain([0])).collect();
            let at = append(&mut body, &names);
            sections.push((3, 0, 0, at, names.len() as u64, 0, 0, 0, 0));
        }
        let sections_at = append(&mut body, &[]);
        self.assemble(&segments, &body.bytes, sections_at, &sections)
    }

    fn assemble(&self, segments: &[(u32, u64, u64, u64, u64)], body: &[u8], at: u64, sections: &[Section]) -> Vec<u8> {
        let mut out = self.out();
        self.header(&mut out, at, sections.len() as u16);
        for segment in segments.iter().take(self.segment_count()) {
            self.segment(&mut out, segment);
        }
        out.bytes.resize(out.bytes.len().next_multiple_of(8), 0);
        out.bytes.extend(body);
        for (kind, flags, address, offset, size, link, entry, name, info) in sections {
            out.words(&[*name, *kind]);
            out.longs(&[*flags, *address, *offset, *size]);
            out.words(&[*link, *info]);
            out.longs(&[1, *entry]);
        }
        out.bytes
    }

    fn out(&self) -> Out {
        Out { wide: self.wide, big: self.big, bytes: vec![] }
    }

    fn header_size(&self) -> usize {
        if self.wide { 64 } else { 52 }
    }

    fn segment_count(&self) -> usize {
        if self.segments { self.code.len() + 1 } else { 0 }
    }

    fn header(&self, out: &mut Out, sections_at: u64, sections: u16) {
        out.bytes.extend([0x7f, b'E', b'L', b'F', 1 + u8::from(self.wide), 1 + u8::from(self.big), 1]);
        out.bytes.resize(16, 0);
        out.halves(&[self.kind, self.machine]);
        out.words(&[1]);
        out.longs(&[0, if self.segments { self.header_size() as u64 } else { 0 }, sections_at]);
        out.words(&[self.flags]);
        let sizes = if self.wide { (56, 64) } else { (32, 40) };
        let names = if self.names.is_empty() { 0 } else { sections - 1 };
        out.halves(&[self.header_size() as u16, sizes.0, self.segment_count() as u16, sizes.1, sections, names]);
    }

    fn segment(&self, out: &mut Out, &(kind, address, offset, size, align): &(u32, u64, u64, u64, u64)) {
        out.words(&[kind, 5][..if self.wide { 2 } else { 1 }]);
        out.longs(&[offset, address, address, size, size]);
        out.words(if self.wide { &[] } else { &[5] });
        out.longs(&[align]);
    }

    fn note(&self) -> Vec<u8> {
        let mut out = self.out();
        out.words(&[4, self.build_id.len() as u32, 3]);
        out.bytes.extend(b"GNU\0");
        out.bytes.extend(&self.build_id);
        out.bytes.resize(out.bytes.len().next_multiple_of(4), 0);
        out.bytes
    }

    fn symbol_table(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut out, mut names) = (self.out(), vec![0]);
        out.bytes.resize(if self.wide { 24 } else { 16 }, 0);
        for (name, value, size, info, section) in &self.symbols {
            out.words(&[names.len() as u32]);
            if !self.wide {
                out.longs(&[*value, *size]);
            }
            out.bytes.extend([*info, 0]);
            out.halves(&[*section]);
            if self.wide {
                out.longs(&[*value, *size]);
            }
            names.extend(name.bytes().chain([0]));
        }
        (out.bytes, names)
    }
}
