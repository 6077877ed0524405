//! Files of any kind given to any verb: each is named, with the same message everywhere, and the next step works.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use unspool::container::{CompressOptions, CompressedWriter, Container};
use unspool::coresight::frame::Formatter;
use unspool_testing::perf::{ETM4, Event, PerfWriter, Trailer};

use super::write_zip;
use crate::run::{Folder, on, text, unspool, unspool_with};

/// Every verb that reads a file, with what it needs besides. `OUT` is a path that does not exist.
const VERBS: [&[&str]; 16] = [
    &["info"],
    &["frames"],
    &["packets"],
    &["elements"],
    &["decode"],
    &["dump"],
    &["check"],
    &["convert", "OUT.stf"],
    &["slice", "OUT.stf", "--limit", "1"],
    &["stats"],
    &["index"],
    &["state", "--at", "1"],
    &["calls"],
    &["profile"],
    &["diff", "OTHER"],
    &["encode", "--output", "OUT"],
];

/// Runs a verb on a path.
fn run(verb: &[&str], path: &Path, folder: &Folder) -> crate::run::Run {
    let other = unspool_testing::example("example.astf");
    let options = verb[1..].iter().map(|option| match *option {
        "OTHER" => text(&other).to_string(),
        option if option.starts_with("OUT") => text(&folder.path(option)).to_string(),
        option => option.to_string(),
    });
    let args: Vec<String> = [verb[0].to_string(), text(path).to_string()].into_iter().chain(options).collect();
    unspool(&args)
}

fn packed(container: Container, bytes: &[u8]) -> Vec<u8> {
    let mut writer = CompressedWriter::new(Vec::new(), container, CompressOptions::default()).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// Header of an ELF file.
fn elf(kind: u8, machine: u8) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    (bytes[16], bytes[18]) = (kind, machine);
    bytes
}

/// A tar archive with one empty file.
fn tar(name: &str) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[257..263].copy_from_slice(b"ustar\0");
    bytes
}

/// A recording of perf with the frames of one ETMv4.
fn perf_data(trace: &[u8]) -> PerfWriter {
    let registers = [0x40, 0x1e, 0x2800_0ea1, 0x4100_f403, 0x488, 0, 0];
    let mut file = PerfWriter::new(false, &[Event::trace(&[78])]);
    file.info(1, &[(ETM4, 7, &registers)]);
    file.aux(0, trace.len() as u64, 0, Trailer { cpu: 7, id: 78, time: 1, ..Trailer::default() });
    file.auxtrace(7, u32::MAX, 0, trace);
    file
}

/// Files that no verb reads: name, bytes, and the message after the name.
fn other_files(folder: &Folder) -> Vec<(PathBuf, String)> {
    let text = |lines: &str| lines.as_bytes().to_vec();
    let snapshot = tar("capture/snapshot.ini");
    let log = "1 clk IT (1) 00008000 d503201f O EL1h_n : NOP\n";
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain(log.bytes().flat_map(|byte| [byte, 0])).collect();
    let raw_trace = fs::read(unspool_testing::example("hello-qemu").join("trace_0.bin")).unwrap();
    let perfetto: Vec<u8> = (0..9).flat_map(|byte| [0x0a, 3, 8, byte, 0]).collect();
    let noise: Vec<u8> = (0..=255).rev().collect();
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", vec![], "an empty file; check that the program that wrote it succeeded"),
        (
            "program",
            elf(2, 183),
            "an ELF program for AArch64; record a run with 'unspool record -o run.astf -- PATH'; --image PATH adds its code to a capture",
        ),
        ("desktop", elf(3, 62), "an ELF program for x86-64; unspool reads traces of Arm and RISC-V programs"),
        ("object.o", elf(1, 40), "an ELF object file for Arm; link it into a program first"),
        (
            "core",
            elf(4, 183),
            "an ELF core dump for AArch64; it has memory but no trace; --image PATH adds its memory to a capture",
        ),
        ("short", b"\x7fELF\x02".to_vec(), "an ELF file, cut short in its header"),
        (
            "a.tar",
            snapshot.clone(),
            "a tar archive that contains a capture; unpack it with 'tar -xf PATH' and open the directory",
        ),
        ("b.tar", tar("a.jpg"), "a tar archive; unpack it with 'tar -xf PATH' and open the directory"),
        (
            "a.tgz",
            packed(Container::Gzip, &snapshot),
            "gzip-compressed data: a tar archive that contains a capture; unpack it with 'tar -xf PATH'",
        ),
        (
            "hello.xz",
            packed(Container::Xz, &elf(2, 243)),
            "xz-compressed data: an ELF program for RISC-V; unpack it with 'unxz PATH'",
        ),
        (
            "a.zst",
            packed(Container::Zstd, b"ASTF\0\0\0\0"),
            "zstd-compressed data: an ASTF file; unpack it with 'unzstd PATH'",
        ),
        ("bad.gz", b"\x1f\x8b\x08\0 and so on".to_vec(), "a damaged or empty gzip file"),
        ("a.bz2", b"BZh91AY".to_vec(), "bzip2-compressed data; unpack it with 'bunzip2 PATH'"),
        ("utf16.log", utf16, "text in UTF-16LE; convert it with 'iconv -f UTF-16LE -t UTF-8 PATH'"),
        (
            "waves.vcd",
            text("$date today $end\n$timescale 1ns $end\n"),
            "a waveform file (VCD); GTKWave reads it; unspool reads instruction traces",
        ),
        (
            "net.pcap",
            b"\xd4\xc3\xb2\xa1\x02\0\x04\0".to_vec(),
            "a packet capture (pcap); Wireshark reads it; unspool needs the trace bytes inside",
        ),
        ("a.perfetto", perfetto, "a Perfetto trace; Perfetto reads it; unspool reads instruction traces"),
        (
            "channel0",
            b"\xc1\x1f\xfc\xc1\0\0".to_vec(),
            "a stream of a CTF trace; babeltrace2 reads it; unspool reads instruction traces",
        ),
        (
            "trace.dat",
            b"\x17\x08\x44tracing6\0".to_vec(),
            "an ftrace file (trace.dat); 'trace-cmd report' reads it; unspool reads instruction traces",
        ),
        (
            "pointer",
            text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
            "a Git LFS pointer, not the file itself; fetch it with 'git lfs pull'",
        ),
        ("page", text("<!DOCTYPE html>\n<p>404"), "an HTML page, perhaps of a failed download"),
        (
            "qemu.log",
            text("----------------\nIN: main\n0x00400580:  d503201f  nop\n"),
            "a log of QEMU; record with 'unspool record -o run.astf -- PROGRAM' instead",
        ),
        (
            "spike.log",
            text("core   0: 0x0000000000001000 (0x00000297) auipc   t0, 0x0\n"),
            "a log of the RISC-V simulator Spike; unspool does not read it; it reads STF for RISC-V",
        ),
        (
            "buffer.bin",
            raw_trace,
            "data with trace synchronization, probably the buffer of one source; name its protocol with --protocol ete or --protocol etm4, which info, frames, packets, elements, decode, check and convert take",
        ),
        (
            "noise",
            noise,
            "data of an unknown format: it starts with ff fe fd fc fb fa f9 f8, and has no trace synchronization in its first 256 bytes; if it is a bare trace buffer, name its protocol with --protocol ete or --protocol etm4, which info, frames, packets, elements, decode, check and convert take",
        ),
    ];
    let file = |(name, bytes, message): (&str, Vec<u8>, &str)| {
        let path = folder.file(name, bytes);
        let message = message.replace("PATH", crate::run::text(&path));
        (path, message)
    };
    rows.into_iter().map(file).collect()
}

#[test]
fn other_kinds_are_named_alike_by_all_verbs() {
    let folder = Folder::new();
    for (path, message) in other_files(&folder) {
        let expected = format!("error: {}: this is {message}\n", path.display());
        for verb in VERBS {
            let run = run(verb, &path, &folder);
            assert_eq!((run.code, &run.err, run.out.as_str()), (2, &expected, ""), "{verb:?}");
        }
        for out in ["OUT", "OUT.stf"] {
            assert!(!folder.path(out).exists(), "{out}");
        }
    }
}

#[test]
fn directories_and_archives_are_named_alike_by_all_verbs() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    for name in ["nothing", "perf", "lttng", "outer/inner", "traces"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    fs::write(path("perf/data"), "PERFILE2").unwrap();
    fs::write(path("lttng/metadata"), "/* CTF 1.8 */").unwrap();
    fs::write(path("outer/inner/snapshot.ini"), "[snapshot]\nversion=1.0\n").unwrap();
    fs::write(path("traces/notes"), "notes").unwrap();
    fs::copy(unspool_testing::example("example.astf"), path("traces/a.astf")).unwrap();
    write_zip(&path("photos.zip"), &[("a.jpg".to_string(), vec![1, 2, 3])]);
    fs::write(path("odd.ini"), "[odd]\na=b\n").unwrap();
    let capture = "a capture is a directory or zip archive that contains snapshot.ini or contents.ini";
    let rows = [
        ("nothing", format!("an empty directory; {capture}")),
        (
            "perf",
            "a perf.data file; unspool reads CoreSight trace, which 'perf record -e cs_etm//u' records on Arm".into(),
        ),
        ("lttng", "a CTF trace; babeltrace2 reads it; unspool reads instruction traces".to_string()),
        (
            "outer",
            format!(
                "a directory with no snapshot.ini or contents.ini among 0 files and 1 folders; its folder {0} is a capture: try 'unspool info {0}'",
                path("outer/inner").display()
            ),
        ),
        (
            "traces",
            format!(
                "a directory with no snapshot.ini or contents.ini among 2 files and 0 folders; open the trace files in it one by one: {}",
                path("traces/a.astf").display()
            ),
        ),
        (
            "photos.zip",
            format!(
                "a zip archive without a capture: neither snapshot.ini nor contents.ini among 1 members; {capture}"
            ),
        ),
        ("odd.ini", format!("an ini file, but not the main file of a capture; {capture}")),
    ];
    for (name, message) in rows {
        let expected = format!("error: {}: this is {message}\n", path(name).display());
        for verb in VERBS {
            let run = run(verb, &path(name), &folder);
            assert_eq!((run.code, &run.err, run.out.as_str()), (2, &expected, ""), "{verb:?}");
        }
    }
}

#[test]
fn text_may_be_read_as_a_log() {
    let folder = Folder::new();
    let path = folder.file("notes", "These are the notes of a meeting, not trace.\n");
    let named = format!("error: {}: this is text, but not a Tarmac log", path.display());
    for verb in VERBS {
        let run = run(verb, &path, &folder);
        let option = match verb[0] {
            "info" | "frames" | "packets" | "elements" | "decode" | "encode" => None,
            "convert" => Some("--from tarmac"),
            "diff" => Some("--dialect-a"),
            _ => Some("--dialect"),
        };
        let hint = option.map_or(String::new(), |option| format!("; use {option} to read it as a Tarmac log"));
        assert_eq!((run.code, run.err), (2, format!("{named}{hint}\n")), "{verb:?}");
    }
}

#[test]
fn known_kinds_name_the_verbs_that_read_them() {
    let folder = Folder::new();
    let astf = unspool_testing::example("example.astf");
    let log = folder.file("run.log", "1 clk IT (1) 00008000 d503201f O EL1h_n : NOP\n");
    let capture = unspool_testing::example("hello-ete");
    let not_a_capture: &[&[&str]] = &[&["frames"], &["packets"], &["elements"], &["decode"]];
    let rows: [(&Path, &str, &[&[&str]], &str); 3] = [
        (&astf, "an ASTF file, not a capture", not_a_capture, "dump"),
        (&log, "a Tarmac log, not a capture", not_a_capture, "dump"),
        (&capture, "a capture, not a trace file", &[&["dump"]], "decode"),
    ];
    for (path, what, verbs, first) in rows {
        for verb in verbs {
            let expected = format!("error: {0}: this is {what}; try 'unspool {first} {0}'; ", path.display());
            let run = run(verb, path, &folder);
            assert_eq!(run.code, 2, "{verb:?}: {run:?}");
            assert!(run.err.starts_with(&expected), "{verb:?}: {}", run.err);
            // Every verb of the suggestion reads it.
            let listed = run.err.split("; ").last().unwrap().replace(" read it too\n", "").replace(" and ", ", ");
            for verb in [first].into_iter().chain(listed.split(", ")) {
                let options = VERBS.iter().find(|known| known[0] == verb).unwrap();
                let suggested = self::run(options, path, &folder);
                assert!(!suggested.err.contains("this is"), "{verb}: {}", suggested.err);
                [folder.path("OUT.stf")].iter().for_each(|out| drop(fs::remove_file(out)));
                drop(fs::remove_dir_all(folder.path("OUT")));
            }
        }
    }
    drop(fs::remove_file(folder.path("run.log.unspool-index")));
}

#[test]
fn pipes_are_named_too() {
    for verb in ["dump", "check", "stats", "info"] {
        unspool_with(&[verb, "-"], &elf(2, 183))
            .expect(2, &["error: standard input: this is an ELF program for AArch64"]);
        unspool_with(&[verb, "-"], b"").expect(2, &["error: standard input: this is an empty file"]);
    }
}

#[test]
fn a_log_with_a_mark_and_one_after_a_banner_are_read() {
    let folder = Folder::new();
    let log = "1 clk IT (1) 00008000 d503201f O EL1h_n : NOP\n2 clk R X0 00000000_00000001\n";
    let marked = folder.file("marked.log", format!("\u{feff}{log}"));
    let plain = folder.file("plain.log", log);
    for verb in ["dump", "check", "stats"] {
        let [marked, plain] = [&marked, &plain].map(|path| on(verb, path, &[]).expect(0, &[]).out);
        assert_eq!(marked.replace("marked.log", "plain.log"), plain, "{verb}");
    }
    // Records are copied byte for byte.
    let copy = folder.path("copy.log");
    on("convert", &marked, &[text(&copy)]).expect(0, &[]);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&marked).unwrap());
    let banner = "Fast Models [11.20] starting, terminal on port 5000\n".repeat(2000);
    let path = folder.file("banner.log", banner + log);
    on("dump", &path, &[]).expect(1, &["2,000 lines in total cannot be parsed"]).shows(&["instruction 0x8000"]);
}

#[test]
fn a_perf_file_is_a_capture() {
    // Synchronization, trace info and trace on, in one frame of ID 0x1e.
    let mut formatter = Formatter::new();
    formatter.push(0x1e, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 4]);
    let file = perf_data(&formatter.finish());
    let folder = Folder::new();
    fs::create_dir(folder.path("directory")).unwrap();
    fs::write(folder.path("directory/data"), file.file()).unwrap();
    let paths = [folder.file("perf.data", file.file()), folder.file("pipe", file.pipe()), folder.path("directory")];
    let listed = unspool_with(&["packets", "-"], &file.pipe()).expect(0, &[]);
    listed.shows(&["# source 0x1e cpu7 (ETMv4), session 0, buffer cpu7-0", "trace on"]);
    for path in paths {
        let packets =
            ["# source 0x1e cpu7 (ETMv4), session 0, buffer cpu7-0", "alignment sync", "trace info", "trace on"];
        on("packets", &path, &[]).expect(0, &[]).shows(&packets);
        on("info", &path, &[]).expect(0, &[]).shows(&["perf.data recording", "cpu7-0", "formatted"]);
        on("index", &path, &[]).expect(0, &["0 instructions"]);
    }
}

#[test]
fn other_perf_files() {
    let folder = Folder::new();
    let big_endian = b"2ELIFREP\0\0\0\0\0\0\0\x68".to_vec();
    // Sections, counts and sizes that point anywhere.
    let wild: Vec<u8> = b"PERFILE2".iter().copied().chain([0xff; 4096]).collect();
    let mut samples = PerfWriter::new(false, &[Event::trace(&[78])]);
    let kind = samples.words(&[4]);
    samples.tool(70, 0, &kind);
    let names = [samples.string("arm_spe_0//u"), samples.string("dummy:u")];
    let event = |name: &[u8]| [&[0; 8][..], &[1, 0, 0, 0], name, &[0; 8]].concat();
    samples.feature(12, [&[2, 0, 0, 0, 8, 0, 0, 0][..], &event(&names[0]), &event(&names[1])].concat());
    let described = "this is a perf.data file with the events arm_spe_0//u, dummy:u and Arm SPE samples; unspool reads";
    let rows = [
        ("big", big_endian, "this is a perf.data file; unspool reads CoreSight trace"),
        ("wild", wild, "record -e cs_etm//u"),
        ("file", samples.file(), described),
        ("pipe", samples.pipe(), described),
    ];
    for (name, bytes, word) in rows {
        let path = folder.file(name, bytes);
        on("decode", &path, &[]).expect(2, &["this is a perf.data file", word]);
    }
    // The end of the file is missing, and with it the trace.
    let whole = perf_data(&[0; 64]).file();
    let path = folder.file("cut", &whole[..whole.len() - 200]);
    on("decode", &path, &[]).expect(1, &["cut short"]);
    on("info", &path, &[]).expect(0, &[]).shows(&["0 buffers, 1 trace source", "cut short"]);
}

#[test]
fn corpus_perf_files() {
    let Some(corpus) = unspool_testing::corpus("perf") else { return };
    let shown = [
        "session 0, buffer cpu7-0",
        "# source 0x1e cpu7 (ETMv4), session 3, buffer cpu7-3",
        "address 0x000000582b2b108c IS0, context EL0 nonsecure AArch64 contextid 0x4353",
    ];
    on("packets", &corpus.join("perf_etm.data"), &[]).expect(0, &[]).shows(&shown);
    let missing = corpus.join("perf_with_missing_aux_data.data");
    let absent = on("decode", &missing, &[]).expect(1, &[]);
    assert_eq!(absent.err.matches("bytes of trace are announced, and the file has none").count(), 6, "{}", absent.err);
    on("info", &missing, &[])
        .expect(0, &[])
        .shows(&["cpu7: 683968 bytes of trace are announced, and the file has none"]);
}
