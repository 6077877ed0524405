//! Text: encodings, output of other tools, notes.

use super::Identity;

/// Start of a line, name of the format, next step.
type Row = (&'static [u8], &'static str, &'static str);

/// Bytes that are examined.
const EXAMINED: usize = 4096;

const WAVES: &str = "GTKWave reads it; unspool reads instruction traces";

/// First lines of other formats.
const FIRST: &[Row] = &[
    (b"version https://git-lfs.github.com/", "a Git LFS pointer, not the file itself", "fetch it with 'git lfs pull'"),
    (b"<!DOCTYPE html", "an HTML page, perhaps of a failed download", ""),
    (b"<html", "an HTML page, perhaps of a failed download", ""),
    (b"/* CTF ", "the metadata of a CTF trace", "babeltrace2 reads it; unspool reads instruction traces"),
    (b"# tracer: ", "the text of an ftrace trace", "unspool reads instruction traces"),
    (b"$date", "a waveform file (VCD)", WAVES),
    (b"$version", "a waveform file (VCD)", WAVES),
    (b"$timescale", "a waveform file (VCD)", WAVES),
    (b"Trace Packet Lister", "the output of OpenCSD's trc_pkt_lister", "open the snapshot that it listed"),
    (b"{\"traceEvents\"", "a Chrome trace", "Perfetto reads it; unspool reads instruction traces"),
    (b"{\"source\":", "a listing in JSON, as 'unspool --json' writes", "open the trace that it lists"),
    (b"{\"kind\":", "a listing in JSON, as 'unspool --json' writes", "open the trace that it lists"),
    (b"#!", "a script", ""),
    (b":10", "an Intel HEX file", "it has code but no trace; convert it with objcopy for --image"),
    (b"S0", "an S-record file", "it has code but no trace; convert it with objcopy for --image"),
];

/// Lines that may come after others.
const ANYWHERE: &[Row] = &[
    (b"core   0: ", "a log of the RISC-V simulator Spike", "unspool does not read it; it reads STF for RISC-V"),
    (b"IN: ", "a log of QEMU", "record with 'unspool record -o run.astf -- PROGRAM' instead"),
    (b"Trace 0: 0x", "a log of QEMU", "record with 'unspool record -o run.astf -- PROGRAM' instead"),
    (b"Disassembly of section ", "a disassembly", ""),
    (b"[snapshot]", "the main file of a snapshot under another name", "open the directory of the capture"),
    (b"[device]", "a part of a capture", "open the directory of the capture"),
    (b"[trace_buffers]", "a part of a capture", "open the directory of the capture"),
];

/// Identifies text.
pub(super) fn identify(start: &[u8], name: &str) -> Option<Identity> {
    if let Some(encoding) = utf16(start) {
        let next = format!("convert it with 'iconv -f {encoding} -t UTF-8 {name}'");
        return Some(Identity::other(format!("text in {encoding}")).then(next));
    }
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let examined = &text[..text.len().min(EXAMINED)];
    if !is_text(examined) {
        return None;
    }
    let first = examined.trim_ascii_start();
    let mut rows = FIRST.iter().filter(|(start, ..)| first.starts_with(start));
    let lines = || examined.split(|byte| *byte == b'\n');
    let later = || ANYWHERE.iter().find(|(start, ..)| lines().any(|line| line.starts_with(start)));
    Some(match rows.next().or_else(later) {
        Some((_, what, "")) => Identity::other(*what),
        Some((_, what, next)) => Identity::other(*what).then(*next),
        None => Identity { may_be_log: true, ..Identity::other("text, but not a Tarmac log") },
    })
}

/// Encoding of text with a byte order mark, most of whose characters are ASCII. Other data may start with the same bytes.
fn utf16(start: &[u8]) -> Option<&'static str> {
    let (encoding, high) = match start {
        [0xff, 0xfe, ..] => ("UTF-16LE", 1),
        [0xfe, 0xff, ..] => ("UTF-16BE", 0),
        _ => return None,
    };
    let units = start[2..start.len().min(EXAMINED)].as_chunks::<2>().0;
    let ascii = units.iter().filter(|unit| unit[high] == 0 && unit[1 - high] != 0).count();
    (2 * ascii > units.len()).then_some(encoding)
}

/// Whether these are characters, as far as the last one may be cut.
fn is_text(bytes: &[u8]) -> bool {
    let is_control = |byte: &u8| *byte < b' ' && !b"\t\r\n\x0b\x0c\x1b".contains(byte);
    let valid = match str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    valid && !bytes.is_empty() && !bytes.iter().any(is_control)
}
