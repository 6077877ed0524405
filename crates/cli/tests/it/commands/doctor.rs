//! `doctor`: captures with one defect each, and the finding that names it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool_testing::perf::{ETE, Event, PerfWriter, Trailer};

use super::{example, example_copy, example_file};
use crate::run::{Folder, Run, on, text, unspool};

/// An alignment synchronization, and a trace info without speculation, context or cycles.
const START: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00];

/// An overflow packet.
const OVERFLOW: [u8; 2] = [0x00, 0x05];

fn qemu() -> PathBuf {
    unspool_testing::example("hello-qemu")
}

/// The finding about a topic.
#[track_caller]
fn finding(run: &Run, topic: &str) -> Value {
    let findings = run.json();
    let found = findings.iter().find(|line| line["topic"] == topic);
    found.unwrap_or_else(|| panic!("no finding {topic}: {}", run.out)).clone()
}

/// Asserts the severity of a topic, and that its title, evidence and remedies contain these words.
#[track_caller]
fn assert_finding(run: &Run, topic: &str, severity: &str, words: &[&str]) {
    let found = finding(run, topic);
    assert_eq!(found["severity"], severity, "{found}");
    for word in words {
        assert!(found.to_string().contains(word), "no '{word}' in {found}");
    }
    let problems = run.json_summary()["problems"].as_u64().unwrap();
    assert_eq!(run.code, i32::from(problems > 0), "{}", run.err);
}

#[track_caller]
fn assert_absent(run: &Run, topic: &str) {
    assert!(run.json().iter().all(|line| line["topic"] != topic), "{}", run.out);
}

fn diagnose(path: &Path, options: &[&str]) -> Run {
    on("doctor", path, &[options, &["--json"]].concat())
}

/// A bare ETE buffer in one format.
fn bare(bytes: &[u8], options: &[&str]) -> Run {
    let folder = Folder::new();
    diagnose(&folder.file("buffer.bin", bytes), &[&["--protocol", "ete"], options].concat())
}

#[test]
fn the_examples_have_no_problems() {
    let run = on("doctor", &qemu(), &[]).clean();
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(
        lines[0].ends_with(": 100% of 33 P0 elements decoded: 133 instructions from 49 bytes of 1 source"),
        "{lines:?}"
    );
    assert!(
        lines[1..lines.len() - 1].iter().all(|line| line.starts_with("fine: ") || line.starts_with("    ")),
        "{lines:?}"
    );
    assert!(lines.last().unwrap().starts_with("0 problems, 0 "), "{lines:?}");
    let run = diagnose(&example(), &[]);
    let summary = run.json_summary();
    assert_eq!((&summary["clean"], &summary["sources"]), (&true.into(), &2.into()));
    assert_eq!(summary["followed"], summary["p0_elements"]);
    // `check` reports the same overflow at the same offset.
    assert_finding(&run, "overflow", "advice", &["1 overflow in 115 bytes", "\"place\":\"ETE_0\"", "\"offset\":149"]);
    assert_finding(&run, "sources", "fine", &["id 0x10: 115 bytes", "id 0x12: 50 bytes"]);
    assert_finding(&run, "context-ids", "fine", &["context identifiers are on"]);
}

#[test]
fn counts_are_those_of_other_verbs() {
    for capture in [example(), qemu()] {
        let summary = diagnose(&capture, &[]).json_summary();
        let decoded = on("decode", &capture, &["--json", "--emit", "ranges"]).json_summary();
        assert_eq!(summary["instructions"], decoded["instructions"]);
        assert_eq!(summary["bytes"], decoded["bytes"]);
    }
    // Exceptions end three ranges; the others are the 33 atoms of the trace.
    let decoded = on("decode", &qemu(), &["--json", "--emit", "ranges"]).json_summary();
    assert_eq!((&decoded["ranges"], &decoded["exceptions"]), (&36.into(), &3.into()));
    let elements = on("elements", &qemu(), &["--json"]).json();
    let atoms: usize = elements.iter().filter_map(|line| line["atoms"].as_str()).map(str::len).sum();
    let summary = diagnose(&qemu(), &[]).json_summary();
    assert_eq!((atoms, &summary["followed"]), (33, &33.into()));
}

#[test]
fn missing_code_is_named_with_its_cost() {
    let folder = example_copy();
    fs::remove_file(folder.path("program.bin")).unwrap();
    let run = diagnose(folder.root(), &[]);
    assert_finding(&run, "missing-code", "problem", &["no code in 0x400000..0x401000 of EL0N", "--image FILE@ADDR"]);
    assert_finding(&run, "damaged-capture", "problem", &["`program.bin` is not in the package"]);
    assert_absent(&run, "code");
    let summary = run.json_summary();
    assert!(summary["followed"].as_u64() < summary["p0_elements"].as_u64(), "{summary}");
    let image = format!("{}@0x400000", example().join("program.bin").display());
    let run = diagnose(folder.root(), &["--image", &image]);
    assert_absent(&run, "missing-code");
    assert_finding(&run, "code", "fine", &[]);
}

#[test]
fn a_wrong_image_is_named_with_its_address() {
    let folder = example_copy();
    // Branches to themselves: every one is taken, and the trace has some that are not.
    let program: Vec<u8> = example_file("program.bin").chunks(4).flat_map(|_| 0x1400_0000_u32.to_le_bytes()).collect();
    fs::write(folder.path("program.bin"), program).unwrap();
    let run = diagnose(folder.root(), &[]);
    assert_finding(&run, "contradiction", "problem", &["in program.bin; the first: ", "0x4000", "--image"]);
    assert_absent(&run, "code");
}

/// The program of the example as an ELF file with a build ID: the header of its stack segment becomes that of a note.
fn with_build_id(program: &[u8], id: &[u8]) -> Vec<u8> {
    let note =
        [&4_u32.to_le_bytes()[..], &(id.len() as u32).to_le_bytes(), &3_u32.to_le_bytes(), b"GNU\0", id].concat();
    let mut file = program.to_vec();
    file.resize(file.len().next_multiple_of(8), 0);
    let (at, size) = (file.len() as u64, note.len() as u64);
    let header = 64 + 2 * 56;
    let fields: [(usize, &[u8]); 5] = [
        (0, &4_u32.to_le_bytes()),
        (8, &at.to_le_bytes()),
        (32, &size.to_le_bytes()),
        (40, &size.to_le_bytes()),
        (48, &4_u64.to_le_bytes()),
    ];
    for (offset, bytes) in fields {
        file[header + offset..][..bytes.len()].copy_from_slice(bytes);
    }
    [file, note].concat()
}

/// A package of the recorded example with an event log.
fn package(log: &str, program: Option<&[u8]>) -> Folder {
    let folder = Folder::new();
    folder.file("contents.ini", "[trace]\nmetadata=trace.ini\nbuffer0=trace_0.bin\n");
    let registers =
        "TRCCONFIGR: 0x1001\nTRCDEVARCH: 0x47705a13\nTRCIDR0: 0x28000ea1\nTRCIDR2: 0xc0001088\nTRCIDR8: 0\n";
    folder.file("trace.ini", format!("[buffer]\nformat: coresight\n\n[trace_0x10]\nformat: ETE\n{registers}"));
    folder.file("trace_0.bin", fs::read(qemu().join("trace_0.bin")).unwrap());
    folder.file("system-event-log", log);
    if let Some(program) = program {
        folder.file("hello", program);
    }
    folder
}

#[test]
fn images_of_processes_are_named() {
    let program = with_build_id(&fs::read(qemu().join("hello")).unwrap(), &[0xaa, 0xbb, 0xcc, 0xdd]);
    let log = |id: &str| format!("- declare_process(CURRENT, 312, 0x400000, \"bin/hello\", \"{id}\")\n");
    let good = diagnose(package(&log("aabbccdd"), Some(&program)).root(), &[]);
    assert_finding(&good, "code", "fine", &[]);
    assert_eq!(good.json_summary()["instructions"], 133, "{}", good.out);
    let missing = diagnose(package(&log("aabbccdd"), None).root(), &[]);
    assert_finding(
        &missing,
        "missing-image",
        "problem",
        &["\"place\":\"bin/hello\"", "its addresses are unknown: not found", "--sysroot"],
    );
    assert_eq!(missing.json_summary()["followed"], 0);
    let wrong = diagnose(package(&log("aabbccee"), Some(&program)).root(), &[]);
    assert_finding(&wrong, "wrong-build-id", "problem", &["bin/hello", "aabbccee", "aabbccdd", "--any-build-id"]);
    assert_absent(&wrong, "missing-image");
}

#[test]
fn processes_need_context_identifiers() {
    let program = fs::read(qemu().join("hello")).unwrap();
    let process =
        |pid: u32, base: u64, name: &str| format!("- declare_process(CURRENT, {pid}, {base:#x}, \"{name}\")\n");
    let one = diagnose(package(&process(312, 0x40_0000, "hello"), Some(&program)).root(), &[]);
    assert_finding(&one, "context-ids", "fine", &[]);
    // The other has other code at the same address.
    let folder = package(&(process(312, 0x40_0000, "hello") + &process(313, 0x40_0000, "other")), Some(&program));
    let mut other = program.clone();
    other[0x100..0x2a0].fill(0);
    folder.file("other", other);
    let two = diagnose(folder.root(), &[]);
    assert_finding(&two, "context-ids", "advice", &["2 processes", "processes 312, 313", "CID (bit 6)", "contextid"]);
    assert_finding(&two, "ambiguous-code", "problem", &["33 P0 elements lost", "--context-id"]);
}

#[test]
fn the_format_of_a_buffer_is_verified() {
    let folder = Folder::new();
    let raw = folder.path("raw.bin");
    unspool(&["frames", text(&example()), "--stream", "0x10", "-o", text(&raw)]).expect(0, &[]);
    let copy = example_copy();
    fs::copy(&raw, copy.path("trace.bin")).unwrap();
    let run = diagnose(copy.root(), &[]);
    assert_finding(&run, "buffer-format", "problem", &["TMC_0", "declared formatted, looks raw", "115 bytes if raw"]);
    let formatted = example_file("trace.bin");
    let run = bare(&formatted, &["--raw"]);
    assert_finding(&run, "buffer-format", "problem", &["declared raw, looks formatted"]);
    assert_finding(&bare(&formatted, &["--formatted"]), "buffer-format", "fine", &["1 buffer formatted"]);
    let raw = fs::read(raw).unwrap();
    assert_finding(&bare(&raw, &["--raw"]), "buffer-format", "fine", &["1 buffer raw"]);
}

#[test]
fn synchronization_is_measured() {
    let never = bare(&[0xf7; 100], &["--raw"]);
    assert_finding(&never, "no-synchronization", "problem", &["none in 100 bytes", "TRCSYNCPR"]);
    assert_finding(&never, "no-execution", "problem", &[]);
    // 20, 30 and 70 atoms after each of three synchronizations.
    let atoms = |count: usize| [&START[..], &vec![0xf7; count]].concat();
    let run = bare(&[atoms(20), atoms(30), atoms(70)].concat(), &["--raw"]);
    assert_finding(&run, "synchronization", "fine", &["distances 34 (least), 44 (median), 44 bytes (greatest)"]);
    let late = bare(&[vec![0xf7; 50], atoms(100)].concat(), &["--raw"]);
    assert_finding(&late, "synchronization", "advice", &["50 bytes not synchronized", "lower TRCSYNCPR"]);
    let rare = bare(&atoms(70_000), &["--raw", "--register", "TRCSYNCPR=20"]);
    assert_finding(&rare, "synchronization", "advice", &["TRCSYNCPR = 20: every 1,048,576 bytes"]);
}

#[test]
fn overflows_and_damage_are_counted() {
    let once = bare(&[&START[..], &OVERFLOW].concat(), &["--raw"]);
    assert_finding(&once, "overflow", "advice", &["1 overflow in 16 bytes", "\"offset\":14"]);
    let often = bare(&[START.to_vec(), OVERFLOW.repeat(3)].concat(), &["--raw"]);
    assert_finding(&often, "overflow", "problem", &["3 overflows in 20 bytes", "address filters", "TRCSTALLCTLR"]);
    // 0x08 is a reserved header.
    let damaged = bare(&[&START[..], &[0x08, 0x08], &START].concat(), &["--raw"]);
    assert_finding(
        &damaged,
        "damaged-packets",
        "problem",
        &["1 error with 2 bytes skipped", "reserved", "\"offset\":14"],
    );
    // Two bytes of a long address.
    let cut = bare(&[&START[..], &[0x9d, 0x01, 0x02]].concat(), &["--raw"]);
    assert_finding(&cut, "cut-off", "advice", &["a buffer ends inside a packet"]);
    let mut frames = example_file("trace.bin");
    frames.truncate(frames.len() - 3);
    assert_finding(&bare(&frames, &["--formatted"]), "frames-lost", "advice", &["13 bytes", "inside a frame"]);
}

#[test]
fn registers_and_ids_that_are_not_described_are_listed() {
    let formatted = example_file("trace.bin");
    let run = bare(&formatted, &["--formatted", "--id", "0x10", "--register", "TRCIDR8=0"]);
    assert_finding(&run, "registers", "advice", &["assumed TRCIDR2", "4-byte context", "--register NAME=VALUE"]);
    assert!(!finding(&run, "registers").to_string().contains("TRCIDR8"), "{}", run.out);
    assert_finding(&run, "id-without-source", "advice", &["30.3% of the trace", "id 0x12: 50 bytes"]);
    // Without its sources, the trace of the example is of no use.
    let run = bare(&formatted, &["--formatted", "--id", "0x33"]);
    assert_finding(&run, "id-without-source", "problem", &["100% of the trace", "id 0x10: 115 bytes"]);
    assert_finding(&run, "source-without-trace", "advice", &["id 0x33: no bytes"]);
}

/// A recording of perf whose AUX record has these flags.
fn recording(folder: &Folder, flags: u64, is_there: bool) -> PathBuf {
    let trace = fs::read(qemu().join("trace_0.bin")).unwrap();
    let mut file = PerfWriter::new(false, &[Event::trace(&[1])]);
    // TRCCONFIGR, TRCTRACEIDR, TRCIDR0, 1, 2 and 8, TRCAUTHSTATUS, TRCDEVARCH.
    file.info(1, &[(ETE, 0, &[0x1001, 0x10, 0x2800_0ea1, 0x4100_fff0, 0xc000_1088, 0, 0, 0x4770_5a13])]);
    let trailer = Trailer { event: 0, thread: (100, 100), time: 10, cpu: 0, id: 1 };
    file.aux(0, trace.len() as u64, flags, trailer);
    if is_there {
        file.auxtrace(0, 100, 0, &trace);
    }
    folder.file("perf.data", file.file())
}

#[test]
fn what_perf_lost_is_reported() {
    let folder = Folder::new();
    let rows = [(0x1, true, "the buffer was full"), (0x8, true, "collision"), (0, false, "announced")];
    for (flags, is_there, words) in rows {
        let run = diagnose(&recording(&folder, flags, is_there), &[]);
        assert_finding(&run, "recording-lost", "problem", &[words, "perf record -m ,16M"]);
    }
    let image = qemu().join("hello");
    let run = diagnose(&recording(&folder, 0, true), &["--image", text(&image)]);
    assert_absent(&run, "recording-lost");
    assert_eq!((run.code, &run.json_summary()["instructions"]), (0, &133.into()), "{}", run.out);
}

#[test]
fn other_files_are_rejected() {
    on("doctor", &unspool_testing::example("example.astf"), &[]).expect(2, &["ASTF"]);
    on("doctor", Path::new("no-such-capture"), &[]).expect(2, &["no-such-capture"]);
}
