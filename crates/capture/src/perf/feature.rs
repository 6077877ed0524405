//! Feature sections: facts about the machine and the recording that a file has beside its records.
//!
//! feature number, bytes ─▶ **feature** ─▶ [`Features`]
//!
//! The same payload is a section of a file, or a record of a stream. Payloads that nothing needs are ignored, and
//! damaged ones end where the damage starts. Does not know where the bytes come from.

use super::bpf::{self, BpfFunction};
use super::bytes::{ByteOrder, text};

/// Numbers of the features that are read.
pub(crate) mod number {
    pub(crate) const BUILD_ID: u32 = 2;
    pub(crate) const OS_RELEASE: u32 = 4;
    pub(crate) const VERSION: u32 = 5;
    pub(crate) const ARCH: u32 = 6;
    pub(crate) const CPUS: u32 = 7;
    pub(crate) const COMMAND: u32 = 11;
    pub(crate) const EVENTS: u32 = 12;
    pub(crate) const AUXTRACE: u32 = 18;
    pub(crate) const DIRECTORY: u32 = 24;
    pub(crate) const BPF_PROGRAMS: u32 = 25;
    /// Keys and values of simpleperf.
    pub(crate) const META_INFO: u32 = 129;
    /// Files with symbols of simpleperf.
    pub(crate) const FILE2: u32 = 132;
    /// All of them.
    pub(crate) const READ: [u32; 12] = [
        BUILD_ID,
        OS_RELEASE,
        VERSION,
        ARCH,
        CPUS,
        COMMAND,
        EVENTS,
        AUXTRACE,
        DIRECTORY,
        BPF_PROGRAMS,
        META_INFO,
        FILE2,
    ];
}

/// Flag of a build ID with a size.
const HAS_SIZE: u16 = 0x8000;

/// Facts about the machine and the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// Version of the operating system.
    pub os_release: Option<String>,
    /// Version of perf.
    pub version: Option<String>,
    /// Architecture (`aarch64`).
    pub arch: Option<String>,
    /// Numbers of online and of all CPUs.
    pub cpus: Option<(u32, u32)>,
    /// The command that recorded.
    pub command: Vec<String>,
    /// Names of the events.
    pub events: Vec<String>,
    /// Build IDs of files.
    pub build_ids: Vec<BuildId>,
    /// Offsets of the records that announce trace bytes.
    pub auxtrace: Vec<u64>,
    /// Whether records are in further files of the same directory.
    pub is_directory: bool,
    /// Functions of BPF programs.
    pub bpf: Vec<BpfFunction>,
    /// Keys and values of simpleperf.
    pub meta: Vec<(String, String)>,
    /// Files with their load addresses, of simpleperf.
    pub files: Vec<FileInfo>,
}

/// The build ID of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildId {
    /// The path of the file, or a name such as `[kernel.kallsyms]`.
    pub file: String,
    /// The build ID in hexadecimal digits.
    pub id: String,
}

/// A file whose code was executed, as simpleperf lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// The path.
    pub path: String,
    /// Its type: 0 kernel, 1 kernel module, 2 ELF file, 3 dex file, 4 symbol map, 5 unknown.
    pub kind: u64,
    /// The lowest virtual address of its executable segment.
    pub min_vaddr: u64,
    /// The offset of that address in the file, or in the memory of a module.
    pub offset: Option<u64>,
    /// Its functions.
    pub symbols: Vec<FileSymbol>,
}

/// A function of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSymbol {
    /// Its virtual address.
    pub address: u64,
    /// Its size.
    pub size: u64,
    /// Its name.
    pub name: String,
}

/// Maximum number of functions of all files.
const SYMBOL_LIMIT: usize = 2 << 20;

/// Maximum number of items of one feature: words of a command, events, keys, files, build IDs.
const ITEM_LIMIT: usize = 64 << 10;

impl Features {
    /// Whether a feature is read.
    pub(crate) fn reads(feature: u32) -> bool {
        number::READ.contains(&feature)
    }

    /// Reads the payload of a feature.
    pub(crate) fn read(&mut self, feature: u32, bytes: &[u8], order: ByteOrder) {
        match feature {
            number::OS_RELEASE => self.os_release = string(bytes, order).map(|(text, _)| text),
            number::VERSION => self.version = string(bytes, order).map(|(text, _)| text),
            number::ARCH => self.arch = string(bytes, order).map(|(text, _)| text),
            // The number of all CPUs comes first.
            number::CPUS => self.cpus = order.u32(bytes, 4).zip(order.u32(bytes, 0)),
            number::COMMAND => self.command = strings(bytes, order),
            number::EVENTS => self.events = events(bytes, order),
            number::BUILD_ID => self.build_ids.extend(build_ids(bytes, order)),
            number::AUXTRACE => self.auxtrace = index(bytes, order),
            number::DIRECTORY => self.is_directory = order.u64(bytes, 0) == Some(1),
            number::BPF_PROGRAMS => self.bpf = bpf::functions(bytes, order),
            number::META_INFO => self.meta = pairs(bytes),
            number::FILE2 => self.files = files(bytes, order),
            _ => {}
        }
    }
}

fn limited(count: u32) -> usize {
    (count as usize).min(ITEM_LIMIT)
}

/// A string with its length before it, and the bytes after it.
fn string(bytes: &[u8], order: ByteOrder) -> Option<(String, &[u8])> {
    let length = order.u32(bytes, 0)? as usize;
    let (string, rest) = bytes.get(4..)?.split_at_checked(length)?;
    Some((text(string), rest))
}

fn strings(bytes: &[u8], order: ByteOrder) -> Vec<String> {
    let count = order.u32(bytes, 0).map_or(0, limited);
    let mut left = bytes.get(4..).unwrap_or_default();
    let mut found = Vec::new();
    for _ in 0..count {
        let Some((text, rest)) = string(left, order) else { break };
        found.push(text);
        left = rest;
    }
    found
}

/// Count, size of attributes; per event: attributes, number of ids, name, ids.
fn events(bytes: &[u8], order: ByteOrder) -> Vec<String> {
    let (Some(count), Some(attributes)) = (order.u32(bytes, 0), order.u32(bytes, 4)) else { return Vec::new() };
    let mut left = bytes.get(8..).unwrap_or_default();
    let mut found = Vec::new();
    for _ in 0..limited(count) {
        let Some(event) = left.get(attributes as usize..) else { break };
        let Some(ids) = order.u32(event, 0) else { break };
        let Some((name, rest)) = string(event.get(4..).unwrap_or_default(), order) else { break };
        found.push(name);
        let after = (ids as usize).checked_mul(8).and_then(|length| rest.get(length..));
        let Some(rest) = after else { break };
        left = rest;
    }
    found
}

/// Records without trailer, whose type is 0 or 67.
fn build_ids(bytes: &[u8], order: ByteOrder) -> Vec<BuildId> {
    let mut left = bytes;
    let mut found = Vec::new();
    while let (Some(misc), Some(size @ 8..)) = (order.u16(left, 4), order.u16(left, 6)) {
        let Some((record, rest)) = left.split_at_checked(size.into()) else { break };
        found.extend(build_id(misc, record.get(8..).unwrap_or_default()).filter(|_| found.len() < ITEM_LIMIT));
        left = rest;
    }
    found
}

/// The body of a build ID record: process, 20 bytes, size, name.
pub(crate) fn build_id(misc: u16, body: &[u8]) -> Option<BuildId> {
    let size = (misc & HAS_SIZE != 0).then(|| body.get(24).copied()).flatten();
    let id = digits(body.get(4..24)?, size);
    let file = text(body.get(28..)?);
    (!id.is_empty() && !file.is_empty()).then_some(BuildId { file, id })
}

/// The digits of a build ID of which `size` bytes are valid. Without a size, zeros after 16 bytes are filling.
pub(crate) fn digits(bytes: &[u8], size: Option<u8>) -> String {
    let size = match size {
        Some(size) => size.into(),
        None if bytes.get(16..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0)) => 16,
        None => bytes.len(),
    };
    let valid = bytes.get(..size).unwrap_or(bytes);
    if valid.iter().all(|byte| *byte == 0) {
        return String::new();
    }
    valid.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Offsets of records and their sizes; perf writes their number first, simpleperf does not.
fn index(bytes: &[u8], order: ByteOrder) -> Vec<u64> {
    let skipped = bytes.len() % 16;
    let entries = bytes.get(skipped..).filter(|_| matches!(skipped, 0 | 8)).unwrap_or_default();
    let mut offsets: Vec<u64> = order.words(entries).step_by(2).collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

/// Keys and values, each with a NUL after it.
fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    let mut words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut found = Vec::new();
    while let (Some(key), Some(value)) = (words.next(), words.next())
        && found.len() < ITEM_LIMIT
    {
        found.push((key, value));
    }
    found
}

/// Messages in protobuf encoding, each with its length before it.
fn files(bytes: &[u8], order: ByteOrder) -> Vec<FileInfo> {
    let mut left = bytes;
    let mut found = Vec::new();
    let mut symbols = SYMBOL_LIMIT;
    while let Some(length) = order.u32(left, 0) {
        let Some((message, rest)) = left.get(4..).and_then(|rest| rest.split_at_checked(length as usize)) else {
            break;
        };
        found.extend(
            Some(file_info(message, &mut symbols)).filter(|file| !file.path.is_empty() && found.len() < ITEM_LIMIT),
        );
        left = rest;
    }
    found
}

/// A file, with at most this number of functions.
fn file_info(message: &[u8], left: &mut usize) -> FileInfo {
    let mut info = FileInfo::default();
    for field in Fields(message) {
        match field {
            Field::Bytes(1, path) => info.path = String::from_utf8_lossy(path).into_owned(),
            Field::Number(2, kind) => info.kind = kind,
            Field::Number(3, address) => info.min_vaddr = address,
            Field::Bytes(4, inner) if *left > 0 => {
                info.symbols.push(symbol(inner));
                *left -= 1;
            }
            Field::Bytes(6 | 7, inner) => {
                info.offset = Fields(inner).find_map(|field| match field {
                    Field::Number(1, offset) => Some(offset),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    info
}

fn symbol(message: &[u8]) -> FileSymbol {
    let mut symbol = FileSymbol::default();
    for field in Fields(message) {
        match field {
            Field::Number(1, address) => symbol.address = address,
            Field::Number(2, size) => symbol.size = size,
            Field::Bytes(3, name) => symbol.name = String::from_utf8_lossy(name).into_owned(),
            _ => {}
        }
    }
    symbol
}

/// A field of a message: its number, and its value.
enum Field<'a> {
    Number(u64, u64),
    Bytes(u64, &'a [u8]),
}

/// The fields of a message in protobuf encoding, up to the first that is damaged.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let key = self.number()?;
        let number = key >> 3;
        Some(match key & 7 {
            0 => Field::Number(number, self.number()?),
            1 => Field::Bytes(number, self.take(8)?),
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Field::Bytes(number, self.take(length)?)
            }
            5 => Field::Bytes(number, self.take(4)?),
            _ => return None,
        })
    }
}

impl<'a> Fields<'a> {
    /// Seven bits per byte, the lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: ByteOrder = ByteOrder::Little;

    fn read(feature: u32, bytes: &[u8]) -> Features {
        let mut features = Features::default();
        features.read(feature, bytes, LITTLE);
        features
    }

    fn padded(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(64, 0);
        [&64_u32.to_le_bytes()[..], &bytes].concat()
    }

    #[test]
    fn strings_and_numbers() {
        assert_eq!(read(number::ARCH, &padded("aarch64")).arch.as_deref(), Some("aarch64"));
        assert_eq!(read(number::OS_RELEASE, &padded("6.1.0")).os_release.as_deref(), Some("6.1.0"));
        assert_eq!(read(number::VERSION, &padded("6.12")).version.as_deref(), Some("6.12"));
        assert_eq!(read(number::ARCH, &padded("aarch64")[..60]).arch, None, "cut short");
        let command = [&2_u32.to_le_bytes()[..], &padded("perf"), &padded("record")].concat();
        assert_eq!(read(number::COMMAND, &command).command, ["perf", "record"]);
        let hostile = [&u32::MAX.to_le_bytes()[..], &padded("perf")].concat();
        assert_eq!(read(number::COMMAND, &hostile).command, ["perf"]);
        assert_eq!(read(number::CPUS, &[8, 0, 0, 0, 6, 0, 0, 0]).cpus, Some((6, 8)));
        assert!(read(number::DIRECTORY, &1_u64.to_le_bytes()).is_directory);
        assert!(!read(number::DIRECTORY, &2_u64.to_le_bytes()).is_directory, "another version");
    }

    #[test]
    fn many_small_items_are_limited() {
        let zeros = vec![0; 4 << 20];
        for feature in number::READ {
            let mut bytes = zeros.clone();
            bytes[..4].fill(0xff);
            let found = read(feature, &bytes);
            let counts = [found.command.len(), found.events.len(), found.meta.len(), found.files.len()];
            assert!(counts.iter().all(|count| *count <= ITEM_LIMIT), "{feature}: {counts:?}");
        }
    }

    #[test]
    fn indexes_of_both_writers() {
        let entries: Vec<u8> = [768_u64, 48, 4096, 48].iter().flat_map(|word| word.to_le_bytes()).collect();
        let counted = [&2_u64.to_le_bytes()[..], &entries].concat();
        assert_eq!(read(number::AUXTRACE, &counted).auxtrace, [768, 4096], "perf");
        assert_eq!(read(number::AUXTRACE, &entries).auxtrace, [768, 4096], "simpleperf");
        assert_eq!(read(number::AUXTRACE, &entries[..17]).auxtrace, [0; 0], "neither");
    }

    #[test]
    fn build_ids_with_and_without_size() {
        let rows: &[(u16, [u8; 4], &[u8], &str)] = &[
            (HAS_SIZE, [20, 0, 0, 0], &[0xab; 20], "abababababababababababababababababababab"),
            (HAS_SIZE, [16, 0, 0, 0], &[0xab; 20], "abababababababababababababababab"),
            (HAS_SIZE, [99, 0, 0, 0], &[0xab; 20], "abababababababababababababababababababab"),
            (0, [0; 4], &[0xab; 20], "abababababababababababababababababababab"),
            (0, [0; 4], &[0xab; 16], "abababababababababababababababab"),
        ];
        for (misc, size, id, expected) in rows {
            let mut record = vec![67, 0, 0, 0];
            record.extend(misc.to_le_bytes());
            record.extend(44_u16.to_le_bytes());
            record.extend([0xff; 4]);
            record.extend(*id);
            record.resize(32, 0);
            record.extend(size);
            record.extend(b"/bin/ls\0");
            let found = read(number::BUILD_ID, &[&record[..], &record, &record[..9]].concat()).build_ids;
            let one = BuildId { file: "/bin/ls".to_string(), id: (*expected).to_string() };
            assert_eq!(found, [one.clone(), one]);
        }
    }

    #[test]
    fn events_and_keys() {
        let event = |ids: u32, name: &str| {
            [&[0; 16][..], &ids.to_le_bytes(), &padded(name), &vec![0; 8 * ids as usize]].concat()
        };
        let bytes = [&[2, 0, 0, 0, 16, 0, 0, 0][..], &event(3, "cs_etm//u"), &event(0, "dummy:u")].concat();
        assert_eq!(read(number::EVENTS, &bytes).events, ["cs_etm//u", "dummy:u"]);
        let meta = read(number::META_INFO, b"clockid\0monotonic\0a\0\0").meta;
        assert_eq!(meta, [("clockid".into(), "monotonic".into()), ("a".into(), String::new())]);
    }

    #[test]
    fn files_of_simpleperf() {
        let message: &[u8] = &[
            0x0a, 3, b'/', b'l', b's', // path
            0x10, 2, // an ELF file
            0x18, 0x80, 0x20, // address 0x1000
            0x22, 8, 0x08, 0x84, 0x20, 0x10, 8, 0x1a, 1, b'f', // `f`, 8 bytes at 0x1004
            0x32, 3, 0x08, 0x80, 0x10, // file offset 0x800
        ];
        let bytes = [&(message.len() as u32).to_le_bytes()[..], message, &[200, 0, 0, 0, 1]].concat();
        let symbols = vec![FileSymbol { address: 0x1004, size: 8, name: "f".into() }];
        let expected = FileInfo { path: "/ls".into(), kind: 2, min_vaddr: 0x1000, offset: Some(0x800), symbols };
        assert_eq!(read(number::FILE2, &bytes).files, [expected]);
    }
}
