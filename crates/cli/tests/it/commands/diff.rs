//! `diff`: equal, different and not to be done.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{example, text, unspool, unspool_with};

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

fn logs(other: &str) -> (TempDir, [PathBuf; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a.tarmac", "b.tarmac"].map(|name| dir.path().join(name));
    fs::write(&paths[0], LOG).unwrap();
    fs::write(&paths[1], other).unwrap();
    (dir, paths)
}

fn words<'a>([a, b]: [&'a Path; 2], more: &[&'a str]) -> Vec<&'a str> {
    ["diff", text(a), text(b)].into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_capture_is_like_itself() {
    let path = example();
    let run = unspool(&words([&path, &path], &[])).expect(0, &["of several sources, ETE_0 is compared"]);
    unspool(&words([&path, &path], &["--source-a", "ETE_1", "--source-b", "ETE_1"])).clean();
    assert!(run.out.ends_with("equal in what both tell\n"), "{}", run.out);
    assert!(run.out.contains("registers     not compared: neither tells them\n"), "{}", run.out);
}

#[test]
fn a_log_is_like_itself() {
    let (_dir, [a, b]) = logs(LOG);
    let run = unspool(&words([&a, &b], &["--json", "--strict"])).clean();
    let values = run.json();
    assert_eq!(values.len(), 1);
    assert_eq!((&values[0]["equal"], &values[0]["common"]), (&true.into(), &5.into()));
}

#[test]
fn one_of_them_may_come_through_a_pipe() {
    let (_dir, [a, _]) = logs(LOG);
    for words in [["diff", "-", text(&a)], ["diff", text(&a), "-"]] {
        let run = unspool_with(&words, LOG.as_bytes()).clean();
        assert!(run.out.contains("standard input, 5 instructions"), "{}", run.out);
    }
    unspool_with(&["diff", "-", "-"], b"").expect(2, &["only one of them"]);
}

#[test]
fn a_register_differs() {
    let (_dir, [a, b]) = logs(&LOG.replace("0000000000000003", "0000000000000004"));
    let run = unspool(&words([&a, &b], &[])).expect(1, &[]);
    let expected = format!("different registers x2: {} line 5, {} line 5\n", text(&a), text(&b));
    assert!(run.out.starts_with(&expected), "{}", run.out);
    assert!(run.out.contains("  * 0x0000000000001008 8b010002  add x2, x0, x1"), "{}", run.out);
    assert!(run.out.contains("  A 0x0000000000000003\n  B 0x0000000000000004\n"), "{}", run.out);
    unspool(&words([&a, &b], &["--ignore", "registers"])).clean();
    unspool(&words([&a, &b], &["--only", "instructions,opcodes"])).clean();
}

#[test]
fn an_instruction_is_missing() {
    let other: String = LOG.lines().filter(|line| !line.contains("(3)")).map(|line| format!("{line}\n")).collect();
    let (_dir, [a, b]) = logs(&other);
    let run = unspool(&words([&a, &b], &["--context", "2"])).expect(1, &[]);
    assert!(run.out.contains("  1 instruction of A and 0 instructions of B are not in the other one\n"), "{}", run.out);
    let values = unspool(&words([&a, &b], &["--all", "--json"])).expect(1, &[]).json();
    let diverged = &values[0];
    assert_eq!(
        (&diverged["kind"], &diverged["a_line"], &diverged["b_line"]),
        (&"diverged".into(), &7.into(), &7.into())
    );
    assert_eq!((&diverged["a_pc"], &diverged["b_pc"]), (&"0x100c".into(), &"0x1010".into()));
    assert_eq!((&values[1]["differences"], &values[1]["common"]), (&1.into(), &4.into()));
}

#[test]
fn one_starts_earlier() {
    let later: String = LOG.lines().skip(4).map(|line| format!("{line}\n")).collect();
    let (_dir, [a, b]) = logs(&later);
    let run = unspool(&words([&a, &b], &[])).clean();
    assert!(run.out.starts_with("passed over: 2 instructions of A before B starts: "), "{}", run.out);
    unspool(&words([&a, &b], &["--strict"])).expect(1, &[]);
}

#[test]
fn lines_that_cannot_be_read_are_a_problem() {
    let (_dir, [a, b]) = logs(&LOG.replace("1 clk cpu0 R", "\u{1}binary\n1 clk cpu0 R"));
    let run = unspool(&words([&a, &b], &[])).expect(1, &[]);
    assert!(run.out.contains("B has 1 line that cannot be read, the first is line 4\n"), "{}", run.out);
    assert!(run.out.ends_with("equal in what both tell\n"), "{}", run.out);
    let values = unspool(&words([&a, &b], &["--json"])).expect(1, &[]).json();
    let untold = &values[0]["b_untold"][0];
    assert_eq!((&untold["what"], &untold["count"], &untold["line"]), (&"unreadable".into(), &1.into(), &4.into()));
}

#[test]
fn what_cannot_be_done() {
    let (_dir, [a, b]) = logs(LOG);
    unspool(&words([&a, Path::new("no-such-file")], &[])).expect(2, &["no-such-file"]);
    unspool(&words([&a, &b], &["--only", "colours"])).expect(2, &["colours", "registers"]);
    unspool(&words([&a, &b], &["-o", text(&b)])).expect(2, &["the trace is read from this file"]);
    unspool(&words([&a, &b], &["--core-b", "7"])).expect(1, &[]);
    fs::write(&b, "").unwrap();
    unspool(&words([&a, &b], &[])).expect(2, &["b.tarmac: the file is empty"]);
    unspool_with(&["diff", text(&a), "-"], b"").expect(2, &["standard input: the file is empty"]);
    fs::write(&b, "nothing that anybody knows\n").unwrap();
    unspool(&words([&a, &b], &[])).expect(2, &["--dialect-b makes it one"]);
    unspool(&words([&b, &a], &[])).expect(2, &["--dialect-a makes it one"]);
}

#[test]
fn who_wrote_a_log_can_be_said() {
    // Most lines are nothing that a log has, so that nobody would take it for one.
    let noise: String = (0..300).map(|number| format!("note {number}\n")).collect();
    let (_dir, [a, b]) = logs(&(noise + LOG));
    unspool(&words([&a, &b], &[])).expect(2, &["--dialect-b"]);
    let run = unspool(&words([&a, &b], &["--dialect-b", "fast-models"]));
    assert!(run.out.ends_with("equal in what both tell\n"), "{run:#?}");
    unspool(&words([&a, &b], &["--dialect-b", "morse"])).expect(2, &["'morse'"]);
}
