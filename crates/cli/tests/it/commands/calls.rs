//! `calls` and `profile`: text, JSON, folded stacks, and one core of several.

use serde_json::json;

use crate::run::{assert_fields, log, on};

/// A function that calls another, twice, and is not finished.
const LOG: &str = "\
0 clk cpu0 R SP_EL1 0000000000001000
1 clk cpu0 IT (1) 0000a000 94000004 O EL1h_n : BL {pc}+0x10
1 clk cpu0 R X30 000000000000a004
2 clk cpu0 IT (2) 0000a010 94000004 O EL1h_n : BL {pc}+0x10
2 clk cpu0 R X30 000000000000a014
3 clk cpu0 IT (3) 0000a020 d503201f O EL1h_n : NOP
5 clk cpu0 IT (4) 0000a024 d65f03c0 O EL1h_n : RET
6 clk cpu0 IT (5) 0000a014 97ffffff O EL1h_n : BL {pc}-4
6 clk cpu0 R X30 000000000000a018
7 clk cpu1 IT (1) 0000b000 d503201f O EL1h_n : NOP
8 clk cpu0 IT (6) 0000a010 d503201f O EL1h_n : NOP
";

#[test]
fn call_tree_as_text() {
    let (_dir, path) = log(LOG);
    let run = on("calls", &path, &[]).clean();
    let expected = "\
# core cpu0
#     line    to line     time (clk)             to instructions  function
         2         11              1              8            6  0xa000
         4         11              2              8            5    0xa010 (unfinished)
         6          7              3              5            2      0xa020
        11         11              8              8            1      0xa010 (unfinished)
# core cpu1
#     line    to line     time (clk)             to instructions  function
        10         10              7              7            1  0xb000
";
    assert_eq!(run.out, expected);
    let run = on("calls", &path, &["--depth", "1", "--core", "cpu0"]).clean();
    assert_eq!(run.out.lines().count(), 4);
    let run = on("calls", &path, &["--complete", "--core", "cpu0"]).clean();
    assert!(
        run.out.ends_with("  0xa000\n         6          7              3              5            2    0xa020\n")
    );
}

#[test]
fn a_log_without_times_has_no_columns_of_times() {
    let lines = "Tarmac Text Rev 3
                ES  (0000000000008000:94000002) O el0t_ns:        bl 0x8008
                    R X30 0000000000008004
                    BR (0000000000008008) O
                ES  (0000000000008008:d65f03c0) O el0t_ns:        ret
                    BR (0000000000008004) O
                ES  (0000000000008004:d503201f) O el0t_ns:        nop
";
    let (_dir, path) = log(lines);
    let expected = "\
#     line    to line instructions  function
         2          7            3  0x8000
         5          5            1    0x8008
";
    assert_eq!(on("calls", &path, &[]).clean().out, expected);
}

#[test]
fn call_tree_as_json() {
    let (_dir, path) = log(LOG);
    let run = on("calls", &path, &["--json"]).clean();
    let values = run.json();
    assert_eq!(values.len(), 5);
    assert_fields(&run.json_summary(), &json!({"calls": 5}));
    assert_eq!(on("calls", &path, &["--json", "--core", "1"]).clean().json()[0]["core"], "cpu1");
    let call = &values[2];
    assert_eq!((&call["core"], &call["address"], &call["depth"]), (&"cpu0".into(), &"0xa020".into(), &2.into()));
    assert_eq!((&call["line"], &call["last_line"], &call["instructions"]), (&6.into(), &7.into(), &2.into()));
    assert_fields(call, &json!({"call_address": "0xa010", "return_address": "0xa014", "ended": "returned"}));
    assert_eq!((&values[0]["began"], &values[3]["ended"]), (&"start".into(), &"at_end".into()));
}

#[test]
fn profiles() {
    let (_dir, path) = log(LOG);
    let rows = |options: &[&str]| -> Vec<Vec<String>> {
        let run = on("profile", &path, &[&["--core", "cpu0"], options].concat()).clean();
        run.out.lines().skip(3).map(|line| line.split_whitespace().map(str::to_string).collect()).collect()
    };
    // The second call of 0xa010 is within the first: cycles 2 to 8, once.
    let expected: Vec<Vec<String>> = [
        ["4", "57.1", "6", "85.7", "2", "0xa010", "0xa010"],
        ["2", "28.6", "2", "28.6", "1", "0xa020", "0xa020"],
        ["1", "14.3", "7", "100.0", "1", "0xa000", "0xa000"],
    ]
    .map(|row| row.map(str::to_string).to_vec())
    .to_vec();
    assert_eq!(rows(&[]), expected);
    let sorted = |options: &[&str]| rows(options).iter().map(|row: &Vec<String>| row[5].clone()).collect::<Vec<_>>();
    assert_eq!(sorted(&["--sort", "total"]), ["0xa000", "0xa010", "0xa020"]);
    assert_eq!(sorted(&["--sort", "calls"]), ["0xa010", "0xa000", "0xa020"]);
    assert_eq!(rows(&["--weight", "instructions"])[0][..4], ["3", "50.0", "5", "83.3"].map(str::to_string));
    on("profile", &path, &[]).clean().shows(&["# core cpu0\n# time in clk, 7 in total\n", "# core cpu1\n"]);
}

#[test]
fn profiles_as_json() {
    let (_dir, path) = log(LOG);
    let run = on("profile", &path, &["--json"]).clean();
    let values = run.json();
    assert_eq!(values.len(), 4);
    let first = json!({"kind": "function", "core": "cpu0", "address": "0xa010", "name": "0xa010", "calls": 2,
        "incomplete": 2, "self": 4, "total": 6});
    assert_eq!(values[0], first);
    let summary = json!({"functions": 4, "weight": "time", "unit": "clk", "total": 7});
    assert_fields(&run.json_summary(), &summary);
    let run = on("profile", &path, &["--json", "--folded", "--core", "0"]).clean();
    assert_fields(&run.json()[1], &json!({"kind": "stack", "stack": "cpu0;0xa000;0xa010", "self": 4}));
    assert_fields(&run.json_summary(), &json!({"stacks": 4, "total": 7}));
}

/// Without times, the default weight is instructions.
#[test]
fn a_profile_without_times() {
    let untimed: String = LOG.lines().map(|line| line.split_once(" clk ").unwrap().1.to_string() + "\n").collect();
    let (_dir, path) = log(&untimed);
    on("profile", &path, &["--core", "cpu0"]).clean().shows(&["# instructions, 6 in total\n"]);
    let summary = on("profile", &path, &["--json"]).clean().json_summary();
    assert_fields(&summary, &json!({"weight": "instructions", "unit": "", "total": 7}));
}

#[test]
fn folded_stacks() {
    let (_dir, path) = log(LOG);
    let run = on("profile", &path, &["--folded"]).clean();
    let expected = "\
cpu0;0xa000 1
cpu0;0xa000;0xa010 4
cpu0;0xa000;0xa010;0xa010 0
cpu0;0xa000;0xa010;0xa020 2
cpu1;0xb000 0
";
    assert_eq!(run.out, expected);
    on("profile", &path, &["--folded", "--weight", "instructions"]).clean().shows(&["cpu0;0xa000;0xa010 2\n"]);
}

#[test]
fn unknown_cores_and_bad_lines_are_reported() {
    let (_dir, path) = log(LOG);
    let run = on("calls", &path, &["--core", "cpu7"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("no core 'cpu7' in the trace; cores: cpu0, cpu1"), "{}", run.err);
    let (_dir, path) = log(&LOG.replace("8 clk cpu0 IT", "junk and more\n8 clk cpu0 IT"));
    let run = on("calls", &path, &[]);
    assert_eq!((run.code, run.out.lines().count()), (1, 9), "{}", run.err);
}
