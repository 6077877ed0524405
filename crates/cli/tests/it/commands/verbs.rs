//! Verbs on the example capture, in every form in which it can be read.

use std::fs;

use serde_json::Value;
use unspool::capture::Capture;
use unspool::number::grouped;

use super::{example, example_copy, example_file, example_files, write_zip};
use crate::run::{Folder, Run, on, text, unspool, unspool_with};

fn on_example(args: &[&str]) -> Run {
    on(args[0], &example(), &args[1..])
}

/// Packets of trace_0 of `hello.rs`.
const PACKETS_0X10: [&str; 28] = [
    "alignment sync",
    "trace info info 0x0",
    "trace on",
    "address 0x0000000000400000 IS0, context EL0 nonsecure AArch64 contextid 0x1234",
    "timestamp 0x123400 (28 bits)",
    "atoms EEE",
    "atoms EEE",
    "atoms EEN",
    "exception 2, return address follows",
    "address ..01c IS0 = 0x000000000040001c",
    "address 0xffff800000080400 IS0, context EL1 nonsecure AArch64",
    "atoms EE",
    "address 0x000000000040001c IS0, context EL0 nonsecure AArch64",
    "timestamp 0x123478 (28 bits)",
    "atoms N",
    "atoms EE",
    "atoms E",
    "exception 14, return address follows",
    "address ..024 IS0 = 0x0000000000400024",
    "overflow",
    "alignment sync",
    "trace info info 0x0",
    "trace on",
    "address 0x0000000000400000 IS0, context EL0 nonsecure AArch64 contextid 0x1234",
    "timestamp 0x129000 (28 bits)",
    "atoms EEE",
    "atoms EEE",
    "event 0",
];

/// Packets of trace_1 of `hello.rs`.
const PACKETS_0X12: [&str; 16] = [
    "alignment sync",
    "trace info info 0x0 speculation 0",
    "trace on",
    "address 0x0000000000400000 IS0, context EL0 nonsecure AArch64 contextid 0x1234",
    "atoms EEE",
    "commit 3",
    "atoms EEN",
    "mispredict",
    "commit 3",
    "atoms EEE",
    "atoms E",
    "cancel 1, mispredict",
    "commit 3",
    "exception 2, return address follows",
    "address ..01c IS0 = 0x000000000040001c",
    "commit 1",
];

#[test]
fn info_as_text() {
    let page = on_example(&["info"]).clean().out;
    let lines = [
        "snapshot, version 1.0",
        "1 buffer, 2 trace sources, 2 cores, no file missing",
        "TMC_0        192 bytes, formatted, trace.bin",
        "ids 0x10 (115 bytes), 0x12 (50 bytes)",
        "0x10  ETE_0 (ETE), session 0, buffer TMC_0, traces cpu_0 (Cortex-A710)",
        "ETE v1.0, no speculation",
        "TRCCONFIGR = 0x00001841: context identifiers, timestamps, return stack",
        "28 packets in 115 bytes, 21 atoms (19 E, 2 N), 2 synchronizations",
        "timestamps 0x123400 to 0x129000 (23,552 ticks)",
        "exceptions: 1 x call, 1 x IRQ",
        "1 overflow",
        "0x12  ETE_1 (ETE), session 0, buffer TMC_0, traces cpu_1 (Cortex-A710)",
        "ETE v1.0, speculation up to 4 P0 elements",
        "16 packets in 50 bytes, 10 atoms (9 E, 1 N), 1 synchronization\n",
        "  program.bin: dump, 0x400000-0x40002f; cpu_0 cpu_1\n",
        "  vector.bin: dump, 0xffff800000080400-0xffff80000008040f; cpu_0 cpu_1\n",
    ];
    lines.iter().for_each(|line| assert!(page.contains(line), "no {line:?} in\n{page}"));
}

#[test]
fn info_explains_registers_and_can_be_quick() {
    on_example(&["info", "--explain"]).clean().shows(&["TRCIDR8 = 0x00000004: 4 speculative P0 elements"]);
    let quick = on_example(&["info", "--quick"]).clean().out;
    assert!(quick.contains("192 bytes, formatted, trace.bin") && !quick.contains("packets in"), "{quick}");
    assert!(quick.contains("0x0000000000400000 to 0x0000000000400030  program.bin, cpu_0 cpu_1"), "{quick}");
}

#[test]
fn info_as_json() {
    let all = on_example(&["info", "--json"]).clean().json();
    let [page] = &all[..] else { panic!("one object: {all:?}") };
    let rows = [
        ("/format", "\"snapshot\""),
        ("/zip", "false"),
        ("/buffers/0/name", "\"TMC_0\""),
        ("/buffers/0/bytes", "192"),
        ("/buffers/0/ids/1/source", "18"),
        ("/sources/0/source", "16"),
        ("/sources/0/core", "\"cpu_0\""),
        ("/sources/0/packets/overflow", "1"),
        ("/sources/0/first_time", "1192960"),
        ("/sources/0/last_time", "1216512"),
        ("/sources/0/assumed", "{}"),
        ("/sources/1/registers/TRCIDR8", "\"0x4\""),
        ("/sources/1/packets/commit", "4"),
        ("/sources/1/atoms", r#"{"e":9,"n":1}"#),
        ("/images/0/address", "\"0x400000\""),
        ("/notes", "[]"),
    ];
    for (position, expected) in rows {
        assert_eq!(page.pointer(position).map(Value::to_string).as_deref(), Some(expected), "{position}");
    }
}

#[test]
fn frames_assign_bytes_to_ids() {
    let run = on_example(&["frames"]).clean();
    // The first frame starts with an id, followed by the first byte of its source. The last frame is full.
    assert_eq!(run.out.lines().nth(1), Some("0x00000001  id 0x10  00000000000000"));
    assert_eq!(run.out.lines().last(), Some("0x000000b0  id 0x10  0000b0341200000280a0ca00ffff71"));
    let lines = on_example(&["frames", "--json"]).clean().json();
    for (id, size) in [(0x10, 115), (0x12, 50)] {
        let of_id = lines.iter().filter(|line| line["source"] == id && line["kind"] == "bytes");
        let hex: String = of_id.map(|line| line["bytes"].as_str().unwrap().strip_prefix("0x").unwrap()).collect();
        assert_eq!(hex.len(), 2 * size, "{id:#x}");
        let option = format!("{id:#x}");
        let only = on_example(&["frames", "--json", "--source", &option]).clean().json();
        assert_eq!(only.len(), lines.iter().filter(|line| line["source"] == id).count());
        assert!(only.iter().all(|line| line["source"] == id && line["buffer"] == 0 && line["offset"].is_u64()));
        let file = tempfile::NamedTempFile::new().unwrap();
        let stream = on_example(&["frames", "--stream", &option, "-o", text(file.path())]).clean();
        assert_eq!(stream.out, "");
        let written: String = fs::read(file.path()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, hex, "{id:#x}");
    }
}

#[test]
fn packets_of_both_sources() {
    let run = on_example(&["packets"]).clean();
    let headings: Vec<&str> = run.out.lines().filter(|line| line.starts_with('#')).collect();
    let expected =
        ["# source 0x10 ETE_0 (ETE), session 0, buffer TMC_0", "# source 0x12 ETE_1 (ETE), session 0, buffer TMC_0"];
    assert_eq!(headings, expected);
    assert_eq!(run.items(), [&PACKETS_0X10[..], &PACKETS_0X12].concat());
    // The event is one byte, the last of its frame before the flags.
    assert!(run.out.contains("\n0x000000be  event 0\n"), "{}", run.out);
}

#[test]
fn elements_with_and_without_speculation() {
    // As `crates/unspool/tests/hello.rs` expects of the library.
    let all = on_example(&["elements", "--source", "0x12"]).clean();
    let guessed = ["commit 3", "atoms E", "cancel 1"];
    assert!(guessed.iter().all(|item| all.items().contains(item)), "{}", all.out);
    let committed = on_example(&["elements", "--committed", "--source", "0x12"]).clean();
    let expected = [
        "trace info",
        "trace on",
        "context EL0 nonsecure AArch64 contextid 0x1234",
        "target address 0x0000000000400000 IS0",
        "atoms EEE",
        "atoms EEN",
        "mispredict",
        "atoms EEE",
        "mispredict",
        "exception 2 (call), return 0x000000000040001c",
    ];
    assert_eq!(committed.items(), expected);
    // Nothing is speculative in the other source.
    let [plain, committed] = [&["elements"][..], &["elements", "--committed"]]
        .map(|verb| on_example(&[verb, &["--source", "0x10"]].concat()).clean().out);
    assert_eq!(plain, committed);
}

#[test]
fn json_lines_have_source_and_offset() {
    for verb in [&["packets"][..], &["elements"], &["elements", "--committed"]] {
        let lines = on_example(&[verb, &["--json"]].concat()).clean().json();
        assert_eq!(lines.len(), on_example(verb).clean().items().len(), "{verb:?}");
        for line in &lines {
            assert!(line["source"] == 0x10 || line["source"] == 0x12, "{line}");
            assert!(line["session"] == 0 && line["kind"].is_string() && line["offset"].is_u64(), "{line}");
        }
        let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
        let speculative = kinds.iter().any(|kind| ["commit", "cancel", "cancel_format_1"].contains(kind));
        assert_eq!(speculative, !verb.contains(&"--committed"), "{verb:?}: {kinds:?}");
        for id in [0x10, 0x12] {
            let offsets = lines.iter().filter(|line| line["source"] == id).map(|line| line["offset"].as_u64());
            assert!(offsets.is_sorted(), "{verb:?} {id:#x}");
        }
    }
}

#[test]
fn json_has_the_fields_of_the_text() {
    let packets = on_example(&["packets", "--json"]).clean().json();
    let elements = on_example(&["elements", "--json"]).clean().json();
    let rows = [
        (&packets, "exception", r#"{"number":2,"target_too":false}"#),
        (&packets, "address_short_is0", r#"{"bits":9,"is":0,"value":"0x1c","address":"0x40001c"}"#),
        (&packets, "atom_format_3", r#"{"atoms":"EEE"}"#),
        (&packets, "timestamp", r#"{"value":1192960,"bits":28}"#),
        (&packets, "cancel_format_1", r#"{"count":1,"mispredict":true}"#),
        (&packets, "event", r#"{"numbers":[0]}"#),
        (&elements, "exception", r#"{"number":2,"name":"call","return":"0x40001c"}"#),
        (&elements, "context", r#"{"el":0,"security":"nonsecure","aarch64":true,"contextid":4660}"#),
        (&elements, "target_address", r#"{"address":"0x400000","is":0}"#),
        (&elements, "cancel", r#"{"count":1}"#),
        (&elements, "overflow", "{}"),
    ];
    for (lines, kind, expected) in rows {
        let mut first = lines.iter().find(|line| line["kind"] == kind).unwrap().clone();
        let fields = first.as_object_mut().unwrap();
        ["source", "session", "kind", "offset", "length"].iter().for_each(|key| drop(fields.remove(*key)));
        assert_eq!(first, serde_json::from_str::<Value>(expected).unwrap(), "{kind}");
    }
}

#[test]
fn sources_are_selected_by_id_or_name() {
    let rows: &[(&[&str], &[&str])] = &[
        (&["0x10"], &PACKETS_0X10),
        (&["16"], &PACKETS_0X10),
        (&["ETE_0"], &PACKETS_0X10),
        (&["18"], &PACKETS_0X12),
        (&["ETE_1"], &PACKETS_0X12),
        (&["ETE_1", "0x10"], &[&PACKETS_0X10[..], &PACKETS_0X12].concat()),
    ];
    for (sources, expected) in rows {
        let options: Vec<&str> = sources.iter().flat_map(|source| ["--source", source]).collect();
        let run = on_example(&[&["packets"], &options[..]].concat()).clean();
        assert_eq!(run.items(), *expected, "{sources:?}");
    }
}

#[test]
fn unknown_sources_are_rejected() {
    for verb in ["packets", "elements", "decode"] {
        for source in ["0x33", "51", "ETE_9", "ete"] {
            let run = on_example(&[verb, "--source", source]).expect(2, &[source, "unspool info"]);
            assert_eq!(run.out, "", "{verb} {source}");
        }
    }
    on_example(&["frames", "--stream", "0x33"]).expect(2, &["0x33", "unspool info"]);
    on_example(&["frames", "--source", "0x33"]).expect(2, &["no bytes", "unspool info"]);
    on_example(&["frames", "--source", "0x80"]).expect(2, &["0x80", "not a trace id"]);
}

#[test]
fn limit_and_skip_count_all_sources() {
    for verb in [&["packets"][..], &["elements"], &["elements", "--committed"], &["frames"]] {
        let one = [verb, &["--json", "--source", "0x10"]].concat();
        let all = on_example(&one).clean().json();
        let last = all.len();
        let rows = [
            (&["--limit", "2"][..], 0..2),
            (&["--skip", "3"], 3..last),
            (&["--skip", "3", "--limit", "2"], 3..5),
            (&["--limit", "0"], 0..0),
            (&["--skip", "1000"], last..last),
            (&["--limit", "1000"], 0..last),
        ];
        for (options, range) in rows {
            let cut = on_example(&[&one, options].concat()).clean().json();
            assert_eq!(cut, all[range], "{verb:?} {options:?}");
        }
    }
    // The second source starts where the first ends.
    let both = on_example(&["packets", "--limit", "1"]).clean();
    assert_eq!(both.items(), ["alignment sync"]);
    let last = PACKETS_0X10.len() - 1;
    let both = on_example(&["packets", "--skip", &last.to_string(), "--limit", "3"]).clean();
    assert_eq!(both.items(), [&PACKETS_0X10[last..], &PACKETS_0X12[..2]].concat());
}

#[test]
fn output_goes_to_the_given_file() {
    let folder = Folder::new();
    for verb in [&["info"][..], &["frames"], &["packets"], &["elements", "--committed"], &["packets", "--json"]] {
        let file = folder.path("out");
        let printed = on_example(verb).clean().out;
        let written = on_example(&[verb, &["-o", text(&file)]].concat()).clean();
        assert_eq!(written.out, "", "{verb:?}");
        let report = format!("note: wrote {}, {} bytes\n", text(&file), grouped(printed.len() as u64));
        assert_eq!(written.err, report, "{verb:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), printed, "{verb:?}");
        assert_eq!(on_example(&[verb, &["--output", "-"]].concat()).clean().out, printed, "{verb:?}");
        // A file is replaced only if that is wanted.
        on_example(&[verb, &["-o", text(&file)]].concat()).expect(2, &["the file exists; use --force to replace it"]);
        fs::write(&file, "other contents").unwrap();
        on_example(&[verb, &["-o", text(&file), "--force"]].concat()).clean();
        assert_eq!(fs::read_to_string(&file).unwrap(), printed, "{verb:?}");
        fs::remove_file(&file).unwrap();
    }
}

/// The registers of a source of the example, as options.
fn register_options(file: &str) -> Vec<String> {
    let ini = String::from_utf8(example_file(file)).unwrap();
    let registers = ini.lines().filter(|line| line.starts_with("TRC"));
    registers.flat_map(|line| ["--register".to_string(), line.to_string()]).collect()
}

#[test]
fn an_extracted_stream_has_the_same_packets() {
    let folder = Folder::new();
    for (id, ini) in [("0x10", "ete_0.ini"), ("0x12", "ete_1.ini")] {
        let file = folder.path("x.bin");
        on_example(&["frames", "--stream", id, "-o", text(&file), "--force"]).clean();
        let options = register_options(ini);
        assert_eq!(options.len(), 14);
        for verb in [&["packets", "--json"][..], &["elements", "--committed", "--json"]] {
            let bare = [text(&file), "--protocol", "ete", "--raw", "--id", id];
            let args = [verb, &bare].concat().into_iter().map(str::to_string).chain(options.clone());
            let from_stream = unspool(&args.collect::<Vec<_>>()).clean().json();
            let from_capture = on_example(&[verb, &["--source", id]].concat()).clean().json();
            // Only offsets differ: the stream has no frames.
            assert_eq!(without_offsets(from_stream), without_offsets(from_capture), "{verb:?} {id}");
        }
    }
}

fn without_offsets(mut lines: Vec<Value>) -> Vec<Value> {
    lines.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("offset").unwrap()));
    lines
}

#[test]
fn all_kinds_of_captures_have_the_same_packets() {
    let folder = Folder::new();
    let [plain, inside, saved] = ["plain.zip", "inside.zip", "saved"].map(|name| folder.path(name));
    write_zip(&plain, &example_files());
    let below: Vec<_> = example_files().into_iter().map(|(name, bytes)| (format!("hello-ete/{name}"), bytes)).collect();
    write_zip(&inside, &below);
    Capture::open(example()).unwrap().save(&saved).unwrap();
    let rows = [
        (plain, "snapshot in a zip archive, version 1.0"),
        (inside, "snapshot in a zip archive, version 1.0"),
        (saved, "trace package, version 1.0"),
        (example().join("snapshot.ini"), "snapshot, version 1.0"),
    ];
    for (path, form) in rows {
        let info = unspool(&["info", text(&path)]).clean().out;
        assert!(info.starts_with(&format!("{}: {form}\n", path.display())), "{info}");
        for verb in [&["packets"][..], &["packets", "--json"], &["elements", "--committed"]] {
            let run = unspool(&[verb, &[text(&path)]].concat()).clean();
            assert_eq!(run.out, on_example(verb).clean().out, "{form} {verb:?}");
        }
        assert_eq!(unspool(&["decode", text(&path)]).expect(0, &[]).out, on_example(&["decode"]).out, "{form}");
    }
}

/// Runs `packets --json --protocol ete` on bare bytes.
fn bare(paths: &[&str], options: &[&str], input: &[u8]) -> Run {
    unspool_with(&[&["packets", "--json", "--protocol", "ete"], paths, options].concat(), input)
}

#[test]
fn assumptions_about_bare_buffers_are_reported() {
    let file = example().join("trace.bin");
    let packets = on_example(&["packets", "--json"]).clean().json();
    let run =
        bare(&[text(&file)], &[], b"").expect(0, &["looks formatted", "use --raw", "trace ids found", "0x10 0x12"]);
    assert_eq!(run.json(), packets);
    let run = bare(&[text(&file)], &["--formatted"], b"").expect(0, &["trace ids found", "0x10 0x12"]);
    assert!(!run.err.contains("looks formatted"), "{}", run.err);
    let run = bare(&[text(&file)], &["--formatted", "--id", "0x12"], b"").clean();
    assert_eq!(run.json(), packets[PACKETS_0X10.len()..]);
    let run = bare(&[text(&file)], &["--formatted", "--id", "0x33"], b"").expect(0, &["0x33", "0x10 0x12"]);
    assert!(run.json().is_empty(), "{}", run.out);
    let info = unspool(&["info", text(&file), "--protocol", "ete", "--register", "TRCIDR8=4"]).clean().out;
    let rows = ["bare buffer", "assumed TRCIDR2", "assumed TRCCONFIGR", "looks formatted", "speculation up to 4"];
    rows.iter().for_each(|row| assert!(info.contains(row), "no {row:?} in {info}"));
    assert!(!info.contains("assumed TRCIDR8"), "{info}");
}

#[test]
fn bare_buffers_from_pipes_parts_and_rotated() {
    let bytes = example_file("trace.bin");
    let packets = on_example(&["packets", "--json"]).clean().json();
    assert_eq!(bare(&["-"], &["--formatted"], &bytes).expect(0, &[]).json(), packets, "standard input");

    let folder = Folder::new();
    let [one, two, three] = ["1", "2", "3"].map(|name| folder.path(name));
    // Not at the end of a frame.
    let (start, rest) = bytes.split_at(50);
    let (middle, end) = rest.split_at(61);
    [(&one, start), (&two, middle), (&three, end)].iter().for_each(|(path, part)| fs::write(path, part).unwrap());
    let parts = [text(&one), text(&two), text(&three)];
    assert_eq!(bare(&parts, &["--formatted"], b"").expect(0, &[]).json(), packets, "three files");
    let parts = [text(&one), "-", text(&three)];
    assert_eq!(bare(&parts, &["--formatted"], middle).expect(0, &[]).json(), packets, "the middle from a pipe");

    let circular = folder.file("circular", [rest, start].concat());
    let pointer = rest.len().to_string();
    let options = ["--formatted", "--id", "0x10", "--write-pointer", &pointer];
    let expected = &packets[..PACKETS_0X10.len()];
    assert_eq!(bare(&[text(&circular)], &options, b"").expect(0, &[]).json(), expected, "rotated");
    let unrotated = bare(&[text(&circular)], &options[..3], b"");
    assert_ne!(unrotated.json(), expected, "the pointer made the difference");
    let run = bare(&[text(&circular)], &["--formatted", "--wrapped"], b"");
    assert!(run.err.contains("wrapped at an unknown offset"), "{run:?}");
    let run = bare(&[text(&circular)], &["--formatted", "--write-pointer", "193"], b"");
    assert!(run.err.contains("write pointer 0xc1 is not valid for `circular` (0xc0 bytes)"), "{run:?}");
}

#[test]
fn problems_in_the_selected_part_are_reported() {
    let folder = example_copy();
    let file = folder.path("trace.bin");
    let mut bytes = fs::read(&file).unwrap();
    // The event becomes a reserved header. The lowest bit of this byte is among the flags of its frame and is set.
    assert_eq!(bytes[0xbe], 0x70);
    bytes[0xbe] = 0x8a;
    fs::write(&file, bytes).unwrap();
    let path = text(folder.root());
    for verb in ["packets", "elements"] {
        let run =
            unspool(&[verb, path]).expect(1, &["ETE_0: 1 problem, ", "trace.bin at 0xbe", "reserved packet header"]);
        assert!(run.out.contains("\n0x000000be  ! reserved packet header 0x8b"), "{}", run.out);
        let lines = unspool(&[verb, path, "--json"]).expect(1, &[]).json();
        let error = lines.iter().find(|line| line["kind"] == "error").unwrap();
        assert!(error["source"] == 0x10 && error["offset"] == 0xbe && error["skipped"] == 1, "{error}");
        unspool(&[verb, path, "--source", "0x12"]).clean();
        unspool(&[verb, path, "--limit", "20"]).clean();
    }
    unspool(&["info", path]).expect(1, &[]).shows(&["1 malformed range, 1 bytes skipped"]);
}

#[test]
fn help_texts() {
    for verb in ["info", "frames", "packets", "elements", "decode"] {
        let usage = format!("unspool {verb}");
        unspool(&[verb, "--help"]).clean().shows(&[&usage, "Examples:", "--protocol", "--json"]);
    }
    unspool(&["--help"]).clean().shows(&["Exit codes: 0", "elements"]);
    assert!(unspool(&["--version"]).clean().out.starts_with("unspool "));
    unspool::<&str>(&[]).expect(2, &["Usage:"]);
    unspool(&["decompile", "x"]).expect(2, &["decompile"]);
    unspool(&["packets"]).expect(2, &["<CAPTURE>"]);
}

/// The image of the recorded capture is its program, with symbols.
#[test]
fn the_recorded_example_has_symbols() {
    let path = example().with_file_name("hello-qemu");
    let lines = ["; taken -> 0x400120 <ways>", "-- exception 2 (call), return 0x00000000004001a8", "_start+0x30:"];
    on("decode", &path, &[]).expect(0, &["133 instructions in 36 ranges, 3 exceptions"]).shows(&lines);
}
