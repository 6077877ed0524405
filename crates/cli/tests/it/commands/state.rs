//! `index` and `state`: registers and memory at a point of a log, with and without an index.

use std::fmt::Write as _;

use std::fs;

use serde_json::Value;

use crate::run::{gzip, log, on, unspool_with};

const LOG: &str = "\
10 ns IT (1) 00010000 d2800020 O EL1h_n : MOV      x0,#1
10 ns R X0 0000000000000001
20 ns IT (2) 00010004 f81f0fe0 O EL1h_n : STR      x0,[sp,#-0x10]!
20 ns MW8 0008fff0:00000008fff0_NS 00000000_00000001
20 ns R SP_EL1 000000000008fff0
30 ns IT (3) 00010008 f9400401 O EL1h_n : LDR      x1,[x0,#8]
30 ns MR2 00009000:000000009000_NS abcd
30 ns R X1 00000000000000xx
";

#[test]
fn registers_and_memory_by_line_time_and_number() {
    let (_dir, path) = log(LOG);
    for at in ["5", "20ns", "#2", "0.02us"] {
        let run = on("state", &path, &["--at", at, "--register", "sp", "--register", "w0", "--memory", "0x8fff0+8"]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.starts_with("line 5, 20 ns\n"), "{}", run.out);
        assert!(run.out.contains("sp  000000000008fff0  line 5"), "{}", run.out);
        assert!(run.out.contains("w0  00000001  line 2"), "{}", run.out);
        assert!(run.out.contains("000000000008fff0  01 00 00 00 00 00 00 00  .. .."), "{}", run.out);
    }
    on("state", &path, &["--at", "8"]).shows(&["x1      00000000000000xx  line 8"]);
}

#[test]
fn memory_that_is_read_later_is_known_before() {
    let (_dir, path) = log(LOG);
    let words = ["--at", "1", "--memory", "all", "--last-write", "0x9000+2", "--last-write", "x0", "--json"];
    let run = on("state", &path, &words);
    assert_eq!(run.code, 0, "{}", run.err);
    let lines = run.json();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).cloned().collect::<Vec<_>>();
    assert_eq!(of("memory").len(), 1);
    assert!(of("memory")[0]["bytes"].as_str().unwrap().starts_with("cdab...."));
    assert_eq!((&of("last_write")[0]["known"], &of("last_write")[0]["line"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(of("last_write")[1]["line"], Value::Null);
}

#[test]
fn indexes_are_made_found_and_rebuilt() {
    let (dir, path) = log(LOG);
    let made = on("index", &path, &["--json"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let made = made.json().remove(0);
    assert_eq!((&made["made"], &made["lines"], &made["instructions"]), (&true.into(), &8.into(), &3.into()));
    let index = dir.path("run.tarmac.unspool-index");
    assert!(index.is_file());
    on("index", &path, &[]).expect(0, &["run.tarmac.unspool-index is up to date"]);
    // The log grows: the index is stale.
    fs::write(&path, format!("{LOG}40 ns R X5 0000000000000005\n")).unwrap();
    let grown = on("state", &path, &["--at", "9", "--register", "x5"]);
    assert!(grown.err.contains("has changed") && grown.out.contains("x5  0000000000000005"), "{grown:?}");
    for damage in [&b"no index at all"[..], &fs::read(&index).unwrap()[..50]] {
        fs::write(&index, damage).unwrap();
        let run = on("state", &path, &["--at", "9", "--register", "x5"]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.err.contains("rebuilt") && run.out.contains("x5  0000000000000005"), "{run:?}");
    }
}

#[test]
fn pipes_and_compressed_logs_need_no_index() {
    let (dir, path) = log(LOG);
    let packed = dir.file("log.gz", gzip(LOG));
    for at in ["1", "5", "20ns", "#2", "#3"] {
        let more = ["--at", at, "--memory", "all", "--register", "x0", "--register", "sp"];
        let expected = on("state", &path, &more);
        let piped = unspool_with(&[&["state", "-"], &more[..]].concat(), LOG.as_bytes());
        assert_eq!((piped.code, &piped.out), (0, &expected.out), "{at}: {}", piped.err);
        assert_eq!(on("state", &packed, &more).out, expected.out, "{at}");
    }
    let refused = on("index", &packed, &[]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("compressed"), "{}", refused.err);
}

#[test]
fn cores_have_separate_state() {
    let mut text = String::new();
    for number in 1..=50 {
        for core in 0..2 {
            let pc = 0x1000 * (core + 1) + number * 4;
            let _ = writeln!(text, "{number} clk cpu{core} IT ({number}) {pc:08x} d503201f O EL1h_n : NOP");
            let _ = writeln!(text, "{number} clk cpu{core} R X1 {:016x}", number + core * 0x100);
            let _ = writeln!(text, "{number} clk cpu{core} MW1 00002000 {:02x}", number + core * 0x80);
        }
    }
    let (_dir, path) = log(&text);
    let words = ["--at", "#7", "--core", "cpu1", "--register", "x1", "--memory", "0x2000+1"];
    on("state", &path, &words).shows(&["x1  0000000000000107", "0000000000002000  87 .."]);
    on("state", &path, &["--at", "300"]).shows(&["cpu0: 50 instructions", "cpu1: 50 instructions"]);
    assert_eq!(on("state", &path, &["--at", "5", "--core", "cpu7"]).code, 2);
}

#[test]
fn invalid_arguments_are_rejected() {
    let (_dir, path) = log(LOG);
    for words in [&["--at", "900"][..], &["--at", "#9"], &["--at", "5clk"], &["--at", "soon"], &[]] {
        assert_eq!(on("state", &path, words).code, 2, "{words:?}");
    }
}

/// With an index and without.
#[test]
fn times_in_another_unit_are_rejected() {
    let text = "7 clk IT (1) 00010000 d503201f O EL1h_n : NOP\n9 clk R X3 0000000000000003\n";
    let (_dir, path) = log(text);
    for at in ["8ns", "1us", "3cyc"] {
        let plain = on("state", &path, &["--at", at]);
        let piped = unspool_with(&["state", "-", "--at", at], text.as_bytes());
        assert_eq!((plain.code, piped.code), (2, 2), "{at}");
        assert!(plain.err.contains("is not in the log") && piped.err.contains("is not in the log"), "{at}");
    }
}

/// Written values that are unknown, and memory that was never written.
#[test]
fn unknown_values() {
    let text = "1 clk IT (1) 00010000 d503201f O EL1h_n : NOP\n1 clk MW4 00005000 01020304\n1 clk MW2 00005002 xxxx\n\
                1 clk R V4<63:0> 0000000000000007\n1 clk R X4 0000000000000004\n1 clk R V4<127:64> 0000000000000008\n";
    let (_dir, path) = log(text);
    let writes = ["--at", "6", "--last-write", "0x5000+5", "--last-write", "d4", "--last-write", "v4"];
    let shown = on("state", &path, &writes);
    for expected in [
        "0x5000..0x5002: line 2\n",
        "0x5002..0x5004: line 3, value unknown\n",
        "0x5004..0x5005: unknown\n",
        "\nd4: line 4\n",
        "\nv4: line 6\n",
    ] {
        assert!(shown.out.contains(expected), "{}", shown.out);
    }
    assert_eq!(unspool_with(&[&["state", "-"], &writes[..]].concat(), text.as_bytes()).out, shown.out);
    let json = on("state", &path, &["--at", "6", "--json", "--register", "d21", "--register", "x4"]);
    let core: Value = serde_json::from_str(json.out.lines().nth(1).unwrap()).unwrap();
    let unknown = core["registers"].as_array().unwrap().iter().find(|row| row["name"] == "d21").unwrap().clone();
    assert_eq!((&unknown["value"], &unknown["line"]), (&Value::Null, &Value::Null));
}

/// The state of a truncated log, or of one with malformed lines, is printed.
#[test]
fn problems_set_the_exit_code() {
    let (dir, path) = log(&format!("{LOG}what is this\n"));
    assert_eq!(on("state", &path, &["--at", "5"]).code, 1);
    assert_eq!(unspool_with(&["state", "-", "--at", "5"], &fs::read(&path).unwrap()).code, 1);
    let bytes = gzip(LOG.repeat(400));
    let packed = dir.file("cut.gz", &bytes[..bytes.len() - 12]);
    let cut = on("state", &packed, &["--at", "5"]).expect(1, &[]);
    assert!(cut.out.starts_with("line 5"), "{}", cut.out);
}
