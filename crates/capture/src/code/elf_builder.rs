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
    fn half(&mut self, value: u16) {
        self.bytes.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn word(&mut self, value: u32) {
        self.bytes.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    /// As wide as an address.
    fn long(&mut self, value: u64) {
        match (self.wide, self.big) {
            (false, _) => self.word(value as u32),
            (true, true) => self.bytes.extend(value.to_be_bytes()),
            (true, false) => self.bytes.extend(value.to_le_bytes()),
        }
    }
}

/// A section header: type, flags, address, offset, size, link, size of an entry.
type Section = (u32, u64, u64, u64, u64, u32, u64);

impl ElfBuilder {
    pub(super) fn build(&self) -> Vec<u8> {
        let mut body = self.out();
        let start = self.header_size() + self.segment_count() * if self.wide { 56 } else { 32 };
        let mut sections: Vec<Section> = vec![(0, 0, 0, 0, 0, 0, 0)];
        let append = |body: &mut Out, bytes: &[u8]| {
            body.bytes.resize(body.bytes.len().next_multiple_of(8), 0);
            body.bytes.extend(bytes);
            (start.next_multiple_of(8) + body.bytes.len() - bytes.len()) as u64
        };
        let mut segments = vec![];
        for (address, align, bytes) in &self.code {
            let offset = append(&mut body, bytes);
            segments.push((1, *address, offset, bytes.len() as u64, *align));
            sections.push((1, 0b110, *address, offset, bytes.len() as u64, 0, 0));
        }
        let note = self.note();
        let offset = append(&mut body, &note);
        segments.push((4, 0, offset, note.len() as u64, 4));
        sections.push((7, 0, 0, offset, note.len() as u64, 0, 0));
        let (table, names) = self.symbol_table();
        let (table_at, names_at) = (append(&mut body, &table), append(&mut body, &names));
        let strings = sections.len() as u32 + 1;
        sections.push((2, 0, 0, table_at, table.len() as u64, strings, if self.wide { 24 } else { 16 }));
        sections.push((3, 0, 0, names_at, names.len() as u64, 0, 0));
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
        for (kind, flags, address, offset, size, link, entry) in sections {
            out.word(0);
            out.word(*kind);
            [*flags, *address, *offset, *size].into_iter().for_each(|value| out.long(value));
            [*link, 0].into_iter().for_each(|value| out.word(value));
            [1, *entry].into_iter().for_each(|value| out.long(value));
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
        out.half(self.kind);
        out.half(self.machine);
        out.word(1);
        out.long(0);
        out.long(if self.segments { self.header_size() as u64 } else { 0 });
        out.long(sections_at);
        out.word(self.flags);
        let sizes = if self.wide { (56, 64) } else { (32, 40) };
        let counts = (self.segment_count() as u16, sections);
        [self.header_size() as u16, sizes.0, counts.0, sizes.1, counts.1, 0]
            .into_iter()
            .for_each(|half| out.half(half));
    }

    fn segment(&self, out: &mut Out, &(kind, address, offset, size, align): &(u32, u64, u64, u64, u64)) {
        out.word(kind);
        if self.wide {
            out.word(5);
        }
        [offset, address, address, size, size].into_iter().for_each(|value| out.long(value));
        if !self.wide {
            out.word(5);
        }
        out.long(align);
    }

    fn note(&self) -> Vec<u8> {
        let mut out = self.out();
        [4, self.build_id.len() as u32, 3].into_iter().for_each(|word| out.word(word));
        out.bytes.extend(b"GNU\0");
        out.bytes.extend(&self.build_id);
        out.bytes.resize(out.bytes.len().next_multiple_of(4), 0);
        out.bytes
    }

    fn symbol_table(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut out, mut names) = (self.out(), vec![0]);
        out.bytes.resize(if self.wide { 24 } else { 16 }, 0);
        for (name, value, size, info, section) in &self.symbols {
            out.word(names.len() as u32);
            if self.wide {
                out.bytes.extend([*info, 0]);
                out.half(*section);
            }
            out.long(*value);
            out.long(*size);
            if !self.wide {
                out.bytes.extend([*info, 0]);
                out.half(*section);
            }
            names.extend(name.bytes().chain([0]));
        }
        (out.bytes, names)
    }
}
