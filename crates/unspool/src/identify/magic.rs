//! Files of other tools, by magic numbers.

use super::Identity;

/// Offset and bytes of a magic number, name of the format, next step.
type Row = (usize, &'static [u8], &'static str, &'static str);

const CONVERT_FIRST: &str = "unspool does not read it; see what its own tools export";

const ROWS: &[Row] = &[
    (0, b"PK\x03\x04", "a zip archive", "if it contains a capture, try 'unspool info {}'"),
    (0, b"PK\x05\x06", "an empty zip archive", ""),
    (0, b"BZh", "bzip2-compressed data", "unpack it with 'bunzip2 {}'"),
    (0, b"\x04\x22\x4d\x18", "lz4-compressed data", "unpack it with 'lz4 -d {}'"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it with '7z x {}'"),
    (0, b"Rar!\x1a\x07", "a RAR archive", "unpack it first"),
    (0, b"\x1f\x9d", "data compressed by 'compress'", "unpack it with 'gunzip {}'"),
    (0, b"!<arch>\n", "a static library or Debian package (ar archive)", "unpack it with 'ar x {}'"),
    (0, b"unspool-idx\n", "an index of a Tarmac log", "name the log: commands find the index beside it"),
    (
        0,
        b"unspool record ",
        "the stream between the QEMU plugin and the recorder",
        "write a trace with 'unspool record'",
    ),
    (0, b"\xd4\xc3\xb2\xa1", "a packet capture (pcap)", "Wireshark reads it; unspool needs the trace bytes inside"),
    (0, b"\xa1\xb2\xc3\xd4", "a packet capture (pcap)", "Wireshark reads it; unspool needs the trace bytes inside"),
    (0, b"\x4d\x3c\xb2\xa1", "a packet capture (pcap)", "Wireshark reads it; unspool needs the trace bytes inside"),
    (0, b"\x0a\x0d\x0d\x0a", "a packet capture (pcapng)", "Wireshark reads it; unspool needs the trace bytes inside"),
    (0, b"\xc1\x1f\xfc\xc1", "a stream of a CTF trace", "babeltrace2 reads it; unspool reads instruction traces"),
    (0, b"\x75\xd1\x1d\x57", "the metadata of a CTF trace", "babeltrace2 reads it; unspool reads instruction traces"),
    (
        0,
        b"\x17\x08\x44tracing",
        "an ftrace file (trace.dat)",
        "'trace-cmd report' reads it; unspool reads instruction traces",
    ),
    (0, b"\x02\x82\x02\x82\x02\x82\x02\x82", "an Intel PT trace", "unspool reads CoreSight traces"),
    (0, b"\0\0\0\0\0\0\0\x01\x49", "a waveform file (FST)", "GTKWave reads it; unspool reads instruction traces"),
    (0, b"SQLite format 3\0", "an SQLite database", CONVERT_FIRST),
    (0, b"PAR1", "a Parquet file", CONVERT_FIRST),
    (0, b"ARROW1", "an Arrow file", CONVERT_FIRST),
    (0, b"\x89PNG\r\n", "a PNG image", ""),
    (0, b"\xff\xd8\xff", "a JPEG image", ""),
    (0, b"%PDF-", "a PDF document", ""),
    (0, b"\xd0\x0d\xfe\xed", "a device tree", ""),
    (0, b"\0asm", "a WebAssembly module", ""),
    (0, b"\xcf\xfa\xed\xfe", "a Mach-O program", "unspool reads code from ELF files"),
    (0, b"\xca\xfe\xba\xbe", "a Mach-O program or Java class", "unspool reads code from ELF files"),
];

/// Identifies a file by its magic number.
pub(super) fn identify(start: &[u8], name: &str) -> Option<Identity> {
    let row = ROWS.iter().find(|(at, magic, ..)| start.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    if let Some((_, _, what, next)) = row {
        return Some(named(what, next, name));
    }
    if is_windows_program(start) {
        return Some(named("a Windows program", "unspool reads code from ELF files", name));
    }
    if start.get(257..262) == Some(b"ustar") {
        return Some(tar(start, name));
    }
    let perfetto = "Perfetto reads it; unspool reads instruction traces";
    is_perfetto(start).then(|| named("a Perfetto trace", perfetto, name))
}

fn named(what: &str, next: &str, name: &str) -> Identity {
    let identity = Identity::other(what);
    if next.is_empty() { identity } else { identity.then(next.replace("{}", name)) }
}

/// Two letters are too few: the header has the offset of another signature.
fn is_windows_program(start: &[u8]) -> bool {
    let offset = start.get(0x3c..0x40).and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
    start.starts_with(b"MZ")
        && offset.and_then(|at| start.get(at as usize..)).is_some_and(|rest| rest.starts_with(b"PE\0\0"))
}

/// A tar archive; a capture may be among its first members.
fn tar(start: &[u8], name: &str) -> Identity {
    let mains: [&[u8]; 2] = [b"snapshot.ini\0", b"contents.ini\0"];
    let heads = start.chunks(512).filter(|block| block.get(257..262) == Some(b"ustar"));
    let mut names = heads.map(|head| &head[..100]);
    let has_capture = names.any(|name| mains.iter().any(|main| name.windows(main.len()).any(|part| part == *main)));
    let what = if has_capture { "a tar archive that contains a capture" } else { "a tar archive" };
    Identity::other(what).then(format!("unpack it with 'tar -xf {name}' and open the directory"))
}

/// Packets of a protocol buffer: field 1 with a length, one after the other.
fn is_perfetto(start: &[u8]) -> bool {
    /// Packets that must follow each other.
    const ENOUGH: usize = 4;
    let (mut rest, mut packets) = (start, 0);
    while let Some(after) = rest.strip_prefix(&[0x0a]) {
        let Some((length, used)) = varint(after) else { return false };
        packets += 1;
        match after.get(used + length..) {
            _ if length == 0 => return false,
            Some([]) | None => break,
            Some(next) => rest = next,
        }
    }
    packets >= ENOUGH
}

/// Value of at most 28 bits, and its number of bytes.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let last = bytes.iter().take(4).position(|byte| byte & 0x80 == 0)?;
    let value = bytes[..=last].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    Some((value, last + 1))
}
