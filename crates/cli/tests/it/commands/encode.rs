//! `encode`: effects of options and registers, and errors for what is not modeled.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::run::{Folder, Run, on, text};

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
        (&["--register", "TRCCNTCTLR0=1"], 2, "the trace unit model has no register 'TRCCNTCTLR0'"),
        (&["--register", "TRCSEQEVR0=1"], 2, "the trace unit model has no register 'TRCSEQEVR0'"),
        (&["--register", "TRCCNTCTLR0=0"], 0, "401 instructions of 1 core"),
        (
            &["--protocol", "etm4", "--register", "TRCCONFIGR=3"],
            2,
            "TRCCONFIGR asks for loads or stores as P0 elements",
        ),
        (&["--register", "TRCRSCTLR2=0x20001"], 0, "TRCRSCTLR2: not supported by the trace unit model"),
        (&["--register", "TRCVICTLR=0x601"], 0, "resets are always traced"),
        (&["--context-ids"], 0, "1 context without an identifier that is traced or compared: assumed zero"),
    ];
    for (options, code, words) in rows {
        let (made, _) = there_and_back(options);
        assert_eq!(made.code, *code, "{options:?}: {}", made.err);
        assert!(made.err.contains(words), "{options:?}: {}", made.err);
    }
}
