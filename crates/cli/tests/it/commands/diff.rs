//! `diff`: equal and different traces, and invalid arguments.

use std::fs;
use std::path::{Path, PathBuf};

use super::example;
use serde_json::json;

use crate::run::{Folder, Run, assert_fields, on, text, unspool_with};

const LOG: &str = "\
0 clk cpu0 IT (0) 0000000000001000 d2800020 O EL1h_n : MOV x0,#1
0 clk cpu0 R X0 0000000000000001
1 clk cpu0 IT (1) 0000000000001004 d2800041 O EL1h_n : MOV x1,#2
1 clk cpu0 R X1 0000000000000002
2 clk cpu0 IT (2) 0000000000001008 8b010002 O EL1h_n : ADD x2,x0,x1
2 clk cpu0 R X2 0000000000000003
3 clk cpu0 IT (3) 000000000000100c d503201f O EL1h_n : NOP
4 clk cpu0 IT (4) 0000000000001010 d503201f O EL1h_n : NOP
";

fn logs(other: &str) -> (Folder, [PathBuf; 2]) {
    let folder = Folder::new();
    let paths = [folder.file("a.tarmac", LOG), folder.file("b.tarmac", other)];
    (folder, paths)
}

fn diff([a, b]: [&Path; 2], options: &[&str]) -> Run {
    on("diff", a, &[&[text(b)], options].concat())
}

#[test]
fn a_capture_equals_itself() {
    let path = example();
    let run = diff([&path, &path], &[]).expect(0, &["comparing ETE_0 of several sources"]);
    diff([&path, &path], &["--source-a", "ETE_1", "--source-b", "ETE_1"]).clean();
    assert!(run.out.contains("\nidentical in what both contain: "), "{}", run.out);
    assert!(run.out.contains("registers     not compared: in neither trace\n"), "{}", run.out);
}

#[test]
fn a_log_equals_itself() {
    let (_dir, [a, b]) = logs(LOG);
    let run = diff([&a, &b], &["--json", "--strict"]).clean();
    let values = run.json();
    assert!(values.is_empty(), "{values:?}");
    let summary = run.json_summary();
    assert_eq!((&summary["identical"], &summary["common"]), (&true.into(), &5.into()));
}

#[test]
fn one_trace_may_be_a_pipe() {
    let (_dir, [a, _]) = logs(LOG);
    for args in [["diff", "-", text(&a)], ["diff", text(&a), "-"]] {
        unspool_with(&args, LOG.as_bytes()).clean().shows(&["standard input, 5 instructions"]);
    }
    unspool_with(&["diff", "-", "-"], b"").expect(2, &["only one trace"]);
}

#[test]
fn a_different_register_is_reported() {
    let (_dir, [a, b]) = logs(&LOG.replace("0000000000000003", "0000000000000004"));
    let run = diff([&a, &b], &[]).expect(1, &[]);
    let expected = format!("different registers x2: {} line 5, {} line 5\n", text(&a), text(&b));
    assert!(run.out.starts_with(&expected), "{}", run.out);
    assert!(run.out.contains("  * 0x0000000000001008 8b010002  add x2, x0, x1"), "{}", run.out);
    assert!(run.out.contains("  A 0x0000000000000003\n  B 0x0000000000000004\n"), "{}", run.out);
    diff([&a, &b], &["--ignore", "registers"]).clean();
    diff([&a, &b], &["--only", "instructions,opcodes"]).clean();
}

#[test]
fn a_missing_instruction_is_reported() {
    let other: String = LOG.lines().filter(|line| !line.contains("(3)")).map(|line| format!("{line}\n")).collect();
    let (_dir, [a, b]) = logs(&other);
    let run = diff([&a, &b], &["--context", "2"]).expect(1, &[]);
    assert!(
        run.out.contains("  1 instruction of A and 0 instructions of B are not in the other trace\n"),
        "{}",
        run.out
    );
    let run = diff([&a, &b], &["--all", "--json"]).expect(1, &[]);
    let (values, summary) = (run.json(), run.json_summary());
    let diverged = &values[0];
    let expected = json!({"kind": "diverged", "a_line": 7, "b_line": 7, "a_address": "0x100c", "b_address": "0x1010"});
    assert_fields(diverged, &expected);
    assert_eq!((&summary["differences"], &summary["common"]), (&1.into(), &4.into()));
}

#[test]
fn an_earlier_start_is_skipped() {
    let later: String = LOG.lines().skip(4).map(|line| format!("{line}\n")).collect();
    let (_dir, [a, b]) = logs(&later);
    let run = diff([&a, &b], &[]).clean();
    assert!(run.out.starts_with("skipped: 2 instructions of A before B starts: "), "{}", run.out);
    diff([&a, &b], &["--strict"]).expect(1, &[]);
}

#[test]
fn lines_that_cannot_be_read_are_a_problem() {
    let (_dir, [a, b]) = logs(&LOG.replace("1 clk cpu0 R", "\u{1}binary\n1 clk cpu0 R"));
    let run = diff([&a, &b], &[]).expect(1, &[]);
    assert!(run.out.contains("B has 1 line that cannot be read, the first is line 4\n"), "{}", run.out);
    assert!(run.out.contains("\nidentical in what both contain: 5 instructions in "), "{}", run.out);
    let summary = diff([&a, &b], &["--json"]).expect(1, &[]).json_summary();
    let lost = &summary["b_not_compared"][0];
    assert_eq!((&lost["what"], &lost["count"], &lost["line"]), (&"unreadable".into(), &1.into(), &4.into()));
}

#[test]
fn invalid_arguments_are_rejected() {
    let (_dir, [a, b]) = logs(LOG);
    diff([&a, Path::new("no-such-file")], &[]).expect(2, &["no-such-file"]);
    diff([&a, &b], &["--only", "colors"]).expect(2, &["colors", "registers"]);
    diff([&a, &b], &["-o", text(&b)]).expect(2, &["the trace is read from this file"]);
    diff([&a, &b], &["--core-b", "7"]).expect(1, &[]);
    fs::write(&b, "").unwrap();
    diff([&a, &b], &[]).expect(2, &["b.tarmac: this is an empty file"]);
    unspool_with(&["diff", text(&a), "-"], b"").expect(2, &["standard input: this is an empty file"]);
    fs::write(&b, "not a trace\n").unwrap();
    diff([&a, &b], &[]).expect(2, &["use --dialect-b to read it as a Tarmac log"]);
    diff([&b, &a], &[]).expect(2, &["use --dialect-a to read it as a Tarmac log"]);
}

#[test]
fn the_dialect_can_be_given() {
    // The log starts after the part that is searched for one.
    let noise: String = (0..120_000).map(|number| format!("note {number}\n")).collect();
    let (_dir, [a, b]) = logs(&(noise + LOG));
    diff([&a, &b], &[]).expect(2, &["--dialect-b"]);
    let run = diff([&a, &b], &["--dialect-b", "fast-models"]);
    assert!(run.out.contains("\nidentical in what both contain: 5 instructions in "), "{run:#?}");
    diff([&a, &b], &["--dialect-b", "morse"]).expect(2, &["'morse'"]);
}
