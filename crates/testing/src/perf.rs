//! A writer of perf.data files, for tests: files, streams and directories in either byte order.
//!
//! records in order ─▶ **writer** ─▶ bytes as perf or simpleperf write them
//!
//! Written from the layout of the files, without the code that reads them. Writes what it is asked to, also what is
//! impossible.

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

/// Fields of samples and trailers.
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const STREAM_ID: u64 = 1 << 9;
const IDENTIFIER: u64 = 1 << 16;

/// Flag of an event whose records have trailers.
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Number of the PMU of the trace units.
pub const PMU: u32 = 8;

/// First words of the descriptions of trace units.
pub const ETM3: u64 = 0x3030_3030_3030_3030;
/// See [`ETM3`].
pub const ETM4: u64 = 0x4040_4040_4040_4040;
/// See [`ETM3`].
pub const ETE: u64 = 0x5050_5050_5050_5050;

/// Form of the index of AUXTRACE records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// With a count, as perf writes it.
    Counted,
    /// Without a count, as simpleperf writes it.
    Bare,
    /// None.
    None,
}

/// How records are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Type 81.
    One,
    /// Type 83, which has the size of the data.
    Two,
    /// Type 83 with a header whose size is wrong, and no filling.
    TwoDamaged,
}

/// An event.
#[derive(Debug, Clone)]
pub struct Event {
    /// Number of the PMU.
    pub kind: u32,
    /// Configuration.
    pub config: u64,
    /// Fields of samples and trailers.
    pub sample_type: u64,
    /// Ids of its records.
    pub ids: Vec<u64>,
    /// Size of the attribute.
    pub size: u32,
}

impl Event {
    /// The event of trace units, with its usual trailer: thread, time, CPU and id.
    #[must_use]
    pub fn trace(ids: &[u64]) -> Self {
        Self { kind: PMU, config: 0x4000, sample_type: 0x10187, ids: ids.to_vec(), size: 128 }
    }

    /// The software event that has the records about processes.
    #[must_use]
    pub fn dummy(ids: &[u64]) -> Self {
        Self { kind: 1, config: 9, ..Self::trace(ids) }
    }
}

/// The values of a trailer; the event selects which of them are written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trailer {
    /// The event, as an index.
    pub event: usize,
    /// Process and thread.
    pub thread: (u32, u32),
    /// Time in nanoseconds.
    pub time: u64,
    /// The CPU.
    pub cpu: u32,
    /// The id of the event.
    pub id: u64,
}

/// A record, or what follows one.
#[derive(Debug, Clone)]
struct Record {
    bytes: Vec<u8>,
    payload: Vec<u8>,
    is_of_kernel: bool,
    is_auxtrace: bool,
}

/// A file that is being written.
#[derive(Debug, Clone)]
pub struct PerfWriter {
    is_big_endian: bool,
    events: Vec<Event>,
    features: Vec<(u32, Vec<u8>)>,
    records: Vec<Record>,
    /// Form of the index.
    pub index: Index,
    /// How records of the kernel are compressed.
    pub compression: Option<Compression>,
}

impl PerfWriter {
    /// An empty file.
    #[must_use]
    pub fn new(is_big_endian: bool, events: &[Event]) -> Self {
        let (events, records, index) = (events.to_vec(), Vec::new(), Index::Counted);
        Self { is_big_endian, events, features: Vec::new(), records, index, compression: None }
    }

    fn u16(&self, value: u16) -> [u8; 2] {
        if self.is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u64(&self, value: u64) -> [u8; 8] {
        if self.is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// Numbers of 64 bits.
    #[must_use]
    pub fn words(&self, words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| self.u64(*word)).collect()
    }

    /// Numbers of 32 bits.
    #[must_use]
    pub fn halves(&self, halves: &[u32]) -> Vec<u8> {
        halves.iter().flat_map(|half| self.u32(*half)).collect()
    }

    /// A string with its length before it.
    #[must_use]
    pub fn string(&self, text: &str) -> Vec<u8> {
        let name = name(text);
        [&self.u32(name.len() as u32)[..], &name].concat()
    }

    fn header(&self, kind: u32, misc: u16, size: usize) -> Vec<u8> {
        [&self.u32(kind)[..], &self.u16(misc), &self.u16(size as u16)].concat()
    }

    /// Adds a feature section.
    pub fn feature(&mut self, number: u32, bytes: Vec<u8>) {
        self.features.push((number, bytes));
    }

    /// Adds a record of a tool, without trailer.
    pub fn tool(&mut self, kind: u32, misc: u16, body: &[u8]) {
        let bytes = [&self.header(kind, misc, 8 + body.len())[..], body].concat();
        self.records.push(Record { bytes, payload: Vec::new(), is_of_kernel: false, is_auxtrace: false });
    }

    /// Adds a record of the kernel, with a trailer.
    pub fn kernel(&mut self, kind: u32, misc: u16, body: &[u8], trailer: Trailer) {
        let trailer = self.trailer(trailer);
        let header = self.header(kind, misc, 8 + body.len() + trailer.len());
        let bytes = [&header[..], body, &trailer].concat();
        self.records.push(Record { bytes, payload: Vec::new(), is_of_kernel: true, is_auxtrace: false });
    }

    fn trailer(&self, trailer: Trailer) -> Vec<u8> {
        let sample_type = self.events[trailer.event].sample_type;
        let (pid, tid) = trailer.thread;
        let fields = [
            (TID, [self.u32(pid), self.u32(tid)].concat()),
            (TIME, self.u64(trailer.time).to_vec()),
            (ID, self.u64(trailer.id).to_vec()),
            (STREAM_ID, self.u64(trailer.id).to_vec()),
            (CPU, [self.u32(trailer.cpu), [0; 4]].concat()),
            (IDENTIFIER, self.u64(trailer.id).to_vec()),
        ];
        fields.into_iter().filter(|(field, _)| sample_type & field != 0).flat_map(|(_, bytes)| bytes).collect()
    }

    /// Adds the description of trace units: first word, CPU, registers.
    pub fn info(&mut self, version: u64, units: &[(u64, u64, &[u64])]) {
        let mut words = vec![version, u64::from(PMU) << 32 | units.len() as u64, 0];
        for (magic, cpu, registers) in units {
            words.extend([*magic, *cpu]);
            words.extend((version > 0).then_some(registers.len() as u64));
            words.extend(*registers);
        }
        let body = [self.halves(&[3, 0]), self.words(&words)].concat();
        self.tool(70, 0, &body);
    }

    /// Adds an executable mapping of a file.
    pub fn mmap2(&mut self, pid: u32, address: u64, length: u64, offset: u64, file: &str, trailer: Trailer) {
        let mut body = [self.halves(&[pid, pid]), self.words(&[address, length, offset])].concat();
        body.extend([self.halves(&[0xfd, 0x25]), self.words(&[99, 1]), self.halves(&[5, 2]), name(file)].concat());
        self.kernel(10, 2, &body, trailer);
    }

    /// Adds an AUX record.
    pub fn aux(&mut self, offset: u64, size: u64, flags: u64, trailer: Trailer) {
        let body = self.words(&[offset, size, flags]);
        self.kernel(11, 0, &body, trailer);
    }

    /// Adds an AUXTRACE record with its bytes. CPU `u32::MAX`: those of a thread.
    pub fn auxtrace(&mut self, cpu: u32, tid: u32, offset: u64, trace: &[u8]) {
        let mut payload = trace.to_vec();
        payload.resize(trace.len().next_multiple_of(8), 0);
        let words = self.words(&[payload.len() as u64, offset, 0]);
        let body = [words, self.halves(&[cpu, tid, cpu, 0])].concat();
        let bytes = [&self.header(71, 0, 48)[..], &body].concat();
        self.records.push(Record { bytes, payload, is_of_kernel: false, is_auxtrace: true });
    }

    /// The attribute of an event, without the position of its ids.
    fn attr(&self, event: &Event) -> Vec<u8> {
        let mut bytes = self.halves(&[event.kind, event.size]);
        bytes.extend(self.words(&[event.config, 1, event.sample_type, 0]));
        // Bit fields start at the other end on big-endian machines.
        let flags = if self.is_big_endian { SAMPLE_ID_ALL.reverse_bits() } else { SAMPLE_ID_ALL };
        bytes.extend(self.u64(flags));
        bytes.resize(event.size as usize, 0);
        bytes
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> Vec<u8> {
        let ids_at = |index: usize| 104 + 8 * self.events[..index].iter().map(|event| event.ids.len()).sum::<usize>();
        let mut bytes: Vec<u8> = vec![0; 104];
        bytes.extend(self.events.iter().flat_map(|event| self.words(&event.ids)));
        let attrs = bytes.len();
        for (index, event) in self.events.iter().enumerate() {
            bytes.extend(self.attr(event));
            bytes.extend(self.words(&[ids_at(index) as u64, 8 * event.ids.len() as u64]));
        }
        let data = bytes.len();
        let (records, auxtraces) = self.data(data);
        bytes.extend(&records);
        let features = self.all_features(&auxtraces);
        let header = [
            104,
            u64::from(self.events.first().map_or(128, |event| event.size)) + 16,
            attrs as u64,
            (data - attrs) as u64,
            data as u64,
            records.len() as u64,
            0,
            0,
        ];
        let magic = if self.is_big_endian { b"2ELIFREP" } else { b"PERFILE2" };
        bytes[..8].copy_from_slice(magic);
        bytes[8..72].copy_from_slice(&self.words(&header));
        let mut bits = [0_u64; 4];
        features.iter().for_each(|(number, _)| bits[*number as usize / 64] |= 1 << (number % 64));
        bytes[72..104].copy_from_slice(&self.words(&bits));
        let mut at = bytes.len() + 16 * features.len();
        for (_, section) in &features {
            bytes.extend(self.words(&[at as u64, section.len() as u64]));
            at += section.len();
        }
        features.iter().for_each(|(_, section)| bytes.extend(section));
        bytes
    }

    /// The file as it is written to a pipe: attributes and features are records.
    #[must_use]
    pub fn pipe(&self) -> Vec<u8> {
        let mut stream = if self.is_big_endian { b"2ELIFREP" } else { b"PERFILE2" }.to_vec();
        stream.extend(self.u64(16));
        for event in &self.events {
            let body = [self.attr(event), self.words(&event.ids)].concat();
            stream.extend([&self.header(64, 0, 8 + body.len())[..], &body].concat());
        }
        for (number, bytes) in &self.features {
            let body = [&self.u64(u64::from(*number))[..], bytes].concat();
            stream.extend([&self.header(80, 0, 8 + body.len())[..], &body].concat());
        }
        let last = [&self.header(80, 0, 16)[..], &self.u64(32)].concat();
        stream.extend(last);
        stream.extend(self.data(0).0);
        stream
    }

    /// The records alone, as in `data.0` of a directory.
    #[must_use]
    pub fn records(&self) -> Vec<u8> {
        self.data(0).0
    }

    /// The records at an offset of the file, and the offsets of AUXTRACE records.
    fn data(&self, start: usize) -> (Vec<u8>, Vec<u64>) {
        let mut bytes = Vec::new();
        let mut auxtraces = Vec::new();
        let mut stream = Encoder::new(1).expect("an encoder");
        let mut left = &self.records[..];
        while let Some((record, rest)) = left.split_first() {
            let of_kernel = left.iter().take_while(|record| record.is_of_kernel).count();
            match self.compression.filter(|_| of_kernel > 0) {
                Some(compression) => {
                    let plain: Vec<u8> = left[..of_kernel].iter().flat_map(|record| record.bytes.clone()).collect();
                    // Records straddle: the cut is inside one.
                    let (one, two) = plain.split_at(plain.len() / 2 + 3);
                    bytes.extend(self.compressed(compression, &compress(&mut stream, one)));
                    bytes.extend(self.compressed(compression, &compress(&mut stream, two)));
                    left = &left[of_kernel..];
                }
                None => {
                    if record.is_auxtrace {
                        auxtraces.push((start + bytes.len()) as u64);
                    }
                    bytes.extend(&record.bytes);
                    bytes.extend(&record.payload);
                    left = rest;
                }
            }
        }
        (bytes, auxtraces)
    }

    fn compressed(&self, compression: Compression, data: &[u8]) -> Vec<u8> {
        let size = self.u64(data.len() as u64);
        let filled = data.len().next_multiple_of(8);
        match compression {
            Compression::One => [&self.header(81, 0, 8 + data.len())[..], data].concat(),
            Compression::Two => {
                let filling = vec![0; filled - data.len()];
                [&self.header(83, 0, 16 + filled)[..], &size, data, &filling].concat()
            }
            Compression::TwoDamaged => [&self.header(83, 0, 0)[..], &size, data].concat(),
        }
    }

    fn all_features(&self, auxtraces: &[u64]) -> Vec<(u32, Vec<u8>)> {
        let mut features = self.features.clone();
        let entries: Vec<u64> = auxtraces.iter().flat_map(|offset| [*offset, 48]).collect();
        match self.index {
            _ if auxtraces.is_empty() => {}
            Index::Counted => {
                let counted = [&[auxtraces.len() as u64][..], &entries].concat();
                features.push((18, self.words(&counted)));
            }
            Index::Bare => features.push((18, self.words(&entries))),
            Index::None => {}
        }
        if self.compression.is_some() {
            // Version, zstd, level, ratio, size of the buffers.
            features.push((27, self.halves(&[1, 1, 1, 1, 1 << 19])));
        }
        features.sort_by_key(|(number, _)| *number);
        features
    }
}

/// A name with its NUL, filled to a multiple of eight bytes.
#[must_use]
pub fn name(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((text.len() + 1).next_multiple_of(8), 0);
    bytes
}

/// Compresses some bytes of an endless stream.
fn compress(stream: &mut Encoder<'_>, plain: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; plain.len() + 1024];
    let mut output = OutBuffer::around(&mut bytes[..]);
    let mut input = InBuffer::around(plain);
    while input.pos() < plain.len() {
        stream.run(&mut input, &mut output).expect("compression");
    }
    while stream.flush(&mut output).expect("a flush") > 0 {}
    output.as_slice().to_vec()
}
