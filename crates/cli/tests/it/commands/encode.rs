//! `encode`: effects of options and registers, and errors for what is not modeled.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::{Folder, Run, on, send_signal, text};

/// Iterations of two instructions, and then one more instruction.
const LAPS: usize = 200;
const INSTRUCTIONS: usize = 2 * LAPS + 1;

/// Encodes a loop with these options, and decodes the capture.
fn there_and_back(options: &[&str]) -> (Run, Vec<Value>) {
    let folder = Folder::new();
    let (log, capture) = (folder.path("a.tarmac"), folder.path("c"));
    let lines = (0..LAPS).fold(String::new(), |mut lines, lap| {
        let (first, second) = (2 * lap + 1, 2 * lap + 2);
        let _ = writeln!(lines, "{first} clk IT ({first}) 00008000 d503201f O EL0t_n : NOP");
        let _ = writeln!(lines, "{second} clk IT ({second}) 00008004 54ffffe1 O EL0t_n : B.NE 0x8000");
        lines
    });
    let last = "401 clk IT (401) 00008008 d503201f O EL0t_n : NOP\n";
    fs::write(&log, lines + last).unwrap();
    let made = on("encode", &log, &[&["-o", text(&capture)], options].concat());
    if made.code != 0 {
        return (made, vec![]);
    }
    let decoded = on("decode", &capture, &["--emit", "instructions", "--json"]).expect(0, &[]);
    (made, decoded.json())
}

fn count(lines: &[Value], kind: &str) -> usize {
    lines.iter().filter(|line| line["kind"] == kind).count()
}

#[test]
fn an_event_at_an_address() {
    let registers = ["TRCEVENTCTL0R=2", "TRCEVENTCTL1R=1", "TRCRSCTLR2=0x40001", "TRCACVR0=0x8004"];
    for protocol in ["ete", "etm4"] {
        let options: Vec<&str> = registers.iter().flat_map(|register| ["--register", register]).collect();
        let (_, lines) = there_and_back(&[&options[..], &["--protocol", protocol]].concat());
        assert_eq!((count(&lines, "event"), count(&lines, "instruction")), (LAPS, INSTRUCTIONS), "{protocol}");
    }
}

#[test]
fn q_elements_leave_a_count() {
    let (_, lines) = there_and_back(&["--q-elements", "1", "--register", "TRCCONFIGR=0x2001"]);
    let counted = lines.iter().filter(|line| line["kind"] == "q").map(|line| line["instructions"].as_u64().unwrap());
    let counted = counted.sum::<u64>() as usize;
    assert!(counted > 0);
    assert_eq!(count(&lines, "instruction") + counted, INSTRUCTIONS);
}

#[test]
fn unsupported_registers_are_reported() {
    let rows: &[(&[&str], i32, &str)] = &[
        (&["--register", "TRCCNTCTLR4=1"], 2, "the trace unit model has no register 'TRCCNTCTLR4'"),
        (&["--register", "TRCSTALLCTLR=1"], 2, "the trace unit model has no register 'TRCSTALLCTLR'"),
        (&["--register", "TRCSTALLCTLR=0"], 0, "401 instructions of 1 core"),
        (&["--register", "TRCEXTINSELR0=0x2"], 0, "TRCEXTINSELR0: not supported by the trace unit model"),
        (
            &["--protocol", "etm4", "--register", "TRCCONFIGR=3"],
            2,
            "TRCCONFIGR asks for loads or stores as P0 elements",
        ),
        (&["--register", "TRCRSCTLR2=0x10001"], 0, "comparator inputs of the PE"),
        (&["--context-ids"], 0, "1 context without an identifier that is traced or compared: assumed zero"),
    ];
    for (options, code, words) in rows {
        let (made, _) = there_and_back(options);
        assert_eq!(made.code, *code, "{options:?}: {}", made.err);
        assert!(made.err.contains(words), "{options:?}: {}", made.err);
    }
}

/// Event 0 stops the buffer, at once or after some bytes; it is the 50th lap.
#[test]
fn a_trigger_stops_the_buffer() {
    let registers = [
        "TRCEVENTCTL0R=2",
        "TRCRSCTLR2=0x20001",
        "TRCRSCTLR3=0x40001",
        "TRCACVR0=0x8004",
        "TRCCNTCTLR0=3",
        "TRCCNTVR0=50",
        // Branches have addresses, so that the trace has some bytes.
        "TRCCONFIGR=9",
    ];
    let registers: Vec<&str> = registers.iter().flat_map(|register| ["--register", register]).collect();
    let with = |options: &[&str]| {
        let (made, lines) = there_and_back(&[&registers[..], &["--buffer-size", "4096"], options].concat());
        (made, count(&lines, "instruction"))
    };
    let (made, all) = with(&[]);
    assert!(made.code == 0 && all == INSTRUCTIONS, "{all}: {}", made.err);
    let (made, before) = with(&["--buffer-trigger", "stop"]);
    assert!(made.err.contains("a trigger stopped 1 buffer"), "{}", made.err);
    assert!((1..INSTRUCTIONS).contains(&before), "{before}");
    let (_, around) = with(&["--buffer-trigger", "stop", "--after-trigger", "40"]);
    assert!((before + 1..INSTRUCTIONS).contains(&around), "{around}");
    let (made, all) = with(&["--buffer-trigger", "interrupt"]);
    assert!(made.err.contains("raised 1 interrupt") && all == INSTRUCTIONS, "{all}: {}", made.err);
    let (made, _) = with(&["--buffer-trigger", "stop", "--watermark", "100"]);
    assert_eq!(made.code, 2, "{}", made.err);
}

/// Names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

const NOP: &str = "1 clk IT (1) 00008000 d503201f O EL0t_n : NOP\n";

#[test]
fn only_captures_of_encode_are_replaced() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", NOP);
    let two = folder.file("b.tarmac", NOP.to_string() + &NOP.replace("00008000", "00108000"));
    let capture = folder.path("c");
    let to = |input: &Path, options: &[&str]| on("encode", input, &[&["-o", text(&capture)], options].concat());
    to(&two, &[]).expect(0, &["2 instructions"]);
    let files = ["cpu_0.ini", "program_0_0.bin", "program_0_1.bin", "snapshot.ini", "trace.ini", "trace_0.bin"];
    let files = [&files[..], &["unit_0.ini"]].concat();
    assert_eq!(names(&capture), files);
    to(&log, &[]).expect(2, &["c: the directory has a capture; use --force"]);
    on("encode", &capture, &["-o", text(&capture), "--force"]).expect(2, &["an input is read from this directory"]);
    assert_eq!(names(&capture), files);
    // Files that the new capture does not have are removed.
    to(&log, &["--force"]).expect(0, &["1 instruction of 1 core"]);
    assert_eq!(names(&capture), files.iter().copied().filter(|name| *name != "program_0_1.bin").collect::<Vec<_>>());
    on("decode", &capture, &[]).expect(0, &["1 instruction"]);
    // A file of the user.
    fs::write(capture.join("notes.txt"), "").unwrap();
    to(&log, &["--force"]).expect(2, &["it has 'notes.txt', which is not a file of an encoded capture"]);
    assert!(names(&capture).contains(&"notes.txt".to_string()));
    // A directory that is no capture.
    fs::remove_file(capture.join("notes.txt")).unwrap();
    fs::remove_file(capture.join("snapshot.ini")).unwrap();
    to(&log, &["--force"]).expect(2, &["it has no snapshot.ini"]);
    // A new capture that fails leaves the earlier one.
    let other = folder.path("d");
    on("encode", &log, &["-o", text(&other)]).expect(0, &[]);
    let before = names(&other);
    let options = ["-o", text(&other), "--force", "--register", "TRCTRACEIDR=0x7f"];
    on("encode", &log, &options).expect(2, &["trace id 0x7f of core 0 is reserved"]);
    assert_eq!(names(&other), before);
}

/// A long input, and Ctrl-C.
#[cfg(unix)]
#[test]
fn interrupted_encoding_leaves_nothing() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", NOP.repeat(500_000));
    let (new, empty) = (folder.path("new"), folder.path("empty"));
    fs::create_dir(&empty).unwrap();
    for (capture, parent) in [(&new, folder.root()), (&empty, empty.as_path())] {
        let mut command = crate::run::with_signals();
        command.args(["encode", text(&log), "-o", text(capture)]).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let is_temporary = |name: &String| name.ends_with(".part");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !names(parent).iter().any(is_temporary) {
            assert!(Instant::now() < deadline, "no temporary directory");
        }
        send_signal("-INT", child.id() as i32);
        assert_eq!(child.wait().unwrap().code(), None, "it ended before the signal");
        assert!(!names(parent).iter().any(is_temporary), "{:?}", names(parent));
    }
    assert!(!new.exists() && names(&empty).is_empty());
}
