//! `program`: values, audits, listings, and a trace unit that follows them.

use std::fs;

use crate::run::{Folder, Run, text, unspool, unspool_with};

fn program(options: &[&str]) -> Run {
    unspool(&[&["program"], options].concat())
}

#[test]
fn table_and_audit() {
    let run = program(&["--include", "0x8000..0x9000"]);
    assert_eq!(run.code, 0, "{}", run.err);
    for line in [
        "TRCVICTLR      0x006f0201  Secure EL0/EL1/EL2/EL3 excluded, Non-secure EL1/EL2 excluded",
        "TRCVIIECTLR    0x00000001  only in range 0",
        "traced      only instructions in 0x8000 to 0x8fff (TRCVIIECTLR)",
    ] {
        assert!(run.out.lines().any(|found| found == line), "{line}: {}", run.out);
    }
    let lines = program(&["--json"]).json();
    let configuration = lines.iter().find(|line| line["name"] == "TRCCONFIGR").unwrap();
    assert_eq!(configuration["value"], "0x18c1");
    assert!(lines.iter().any(|line| line["kind"] == "not_traced" && line["register"] == "TRCVICTLR"));
}

#[test]
fn existing_registers_are_explained() {
    let dump = b"# saved by hand\nTRCCONFIGR=0x18c1\ntrcvictlr: 0x7f0201\nTRCSYNCPR 0x4\n";
    let run = unspool_with(&["program", "-"], dump);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains("problem     every Exception level is left out (TRCVICTLR)"), "{}", run.out);
    assert!(run.out.contains("problem     period 4 is reserved"), "{}", run.out);
    let run = unspool_with(&["program", "-", "--explain"], dump);
    assert_eq!(run.code, 0);
    assert!(run.out.contains("   12 RS           0x1  return stack"), "{}", run.out);
    let bad = unspool_with(&["program", "-"], b"TRCCONFIGR=one\n");
    assert_eq!(bad.code, 2);
    assert!(bad.err.contains("line 1") && bad.err.contains("not a number"), "{}", bad.err);
}

#[test]
fn a_capture_has_its_units() {
    let capture = unspool_testing::example("hello-ete");
    let run = program(&[text(&capture)]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("// ETE_0 (ete)") && run.out.contains("// ETE_1 (ete)"), "{}", run.out);
    assert!(run.out.contains("not known   which instructions are traced (TRCVICTLR)"), "{}", run.out);
}

#[test]
fn invalid_arguments_are_rejected() {
    let rows: &[(&[&str], &str)] = &[
        (&["--id", "0"], "trace id 0x0 is reserved"),
        (&["--include", "0x20..0x10"], "'0x20..0x10' is empty"),
        (&["--include", "0x20..0x20"], "'0x20..0x20' is empty"),
        (&["--buffer", "0x2000..0x1000"], "is empty"),
        (&["--include", "main"], "no image has a function 'main'"),
        (&["--levels", "el7"], "'el7' is not a level"),
        (&["--context-id", "0x100000000"], "0x100000000 is not an identifier: they have 32 bits"),
        (&["--vmid", "one"], "'one' is not a number"),
        (&["--event", "4=0x1000"], "'4=0x1000' is not an event: use N=ADDR, N=A..B or N=NAME, with N from 0 to 3"),
        (&["--event", "0x1000"], "'0x1000' is not an event"),
        (&["--event", "0="], "'0=' is not an event"),
        (&["--event", "0=0x10", "--event-once", "0=0x20"], "event 0 has two causes"),
        (&["--event", "0=main"], "no image has a function 'main'"),
        (&["--timestamps-in", "0x20..0x10"], "'0x20..0x10' is empty"),
        (&["--timestamps-in", "0x10..0x20", "--no-timestamps"], "cannot be used with"),
        (
            &[
                "--context-id",
                "1",
                "--context-id",
                "2",
                "--context-id",
                "3",
                "--vmid",
                "1",
                "--vmid",
                "2",
                "--vmid",
                "3",
            ],
            "9 comparators of context identifiers are needed, but a trace unit has at most 8",
        ),
        (&["--buffer", "0x1000..0x2800"], "on 4 KiB pages"),
        (&["--protocol", "etm4", "--listing", "enable"], "--listing supports ETE only"),
        (&["--protocol", "etm4", "--levels", "realm-el1"], "an ETMv4 has no Realm"),
    ];
    for (options, wanted) in rows {
        let run = program(options);
        assert_eq!(run.code, 2, "{options:?}: {}", run.out);
        assert!(run.err.contains(wanted), "{options:?}: {}", run.err);
    }
}

/// A run through three ranges of code: 0x8000, 0x9000 and 0xa000.
const LOG: &str = "\
1 clk IT (1) 00008000 d503201f O EL0t_n : NOP
2 clk IT (2) 00008004 140003ff O EL0t_n : B 0x9000
3 clk IT (3) 00009000 d503201f O EL0t_n : NOP
4 clk IT (4) 00009004 d503201f O EL0t_n : NOP
5 clk IT (5) 00009008 140003fe O EL0t_n : B 0xa000
6 clk IT (6) 0000a000 d503201f O EL0t_n : NOP
7 clk IT (7) 0000a004 14000000 O EL0t_n : B 0xa004
8 clk IT (8) 0000a004 14000000 O EL0t_n : B 0xa004
";

#[test]
fn the_trace_unit_follows_the_plan() {
    let rows: &[(&[&str], &[&str])] = &[
        (&["--include", "0x9000..0x900c"], &["0x9000", "0x9004", "0x9008"]),
        // The end of a range is not in it.
        (&["--include", "0x8000..0x9000"], &["0x8000", "0x8004"]),
        (&["--exclude", "0x8000..0x9000"], &["0x9000", "0x9004", "0x9008", "0xa000", "0xa004", "0xa004"]),
        (&["--exclude", "0x9000..0x900c"], &["0x8000", "0x8004", "0xa000", "0xa004", "0xa004"]),
        (&["--start", "0x9004", "--stop", "0x9008"], &["0x9004", "0x9008"]),
        // Trace cannot express a part of a block: tracing stops at its end.
        (&["--start", "0x9008", "--stop", "0xa000"], &["0x9008", "0xa000", "0xa004"]),
        (&["--levels", "ns-el1"], &[]),
    ];
    for (options, wanted) in rows {
        let folder = Folder::new();
        let (log, unit, capture) = (folder.path("a.tarmac"), folder.path("unit.ini"), folder.path("c"));
        fs::write(&log, LOG).unwrap();
        let run = program(&[options, &["--unit", "-o", text(&unit)][..]].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        let run = unspool(&["encode", text(&log), "-o", text(&capture), "--unit", text(&unit)]);
        assert_eq!(run.code, 0, "{options:?}: {}", run.err);
        let run = unspool(&["decode", text(&capture), "--emit", "instructions", "--json"]);
        let lines = run.json();
        let found = lines.iter().filter(|line| line["kind"] == "instruction");
        let found: Vec<&str> = found.map(|line| line["address"].as_str().unwrap()).collect();
        assert_eq!(&found, wanted, "{options:?}: {} {}", run.out, run.err);
    }
}
