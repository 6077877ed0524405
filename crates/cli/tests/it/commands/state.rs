//! `index` and `state`: what is known at a place of a log, with and without an index.

use std::fmt::Write as _;

use super::*;

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

fn file(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.tarmac");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn run(verb: &str, log: &Path, more: &[&str]) -> Run {
    let log = log.display().to_string();
    unspool(&[&[verb, log.as_str()], more].concat())
}

#[test]
fn registers_and_memory_by_line_time_and_number() {
    let (_dir, log) = file(LOG);
    for at in ["5", "20ns", "#2", "0.02us"] {
        let run = run("state", &log, &["--at", at, "--register", "sp", "--register", "w0", "--memory", "0x8fff0+8"]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.starts_with("line 5, 20 ns\n"), "{}", run.out);
        assert!(run.out.contains("sp  000000000008fff0  line 5"), "{}", run.out);
        assert!(run.out.contains("w0  00000001  line 2"), "{}", run.out);
        assert!(run.out.contains("000000000008fff0  01 00 00 00 00 00 00 00  .. .."), "{}", run.out);
    }
    let all = run("state", &log, &["--at", "8"]);
    assert!(all.out.contains("x1      00000000000000xx  line 8"), "{}", all.out);
}

/// What is read later was there before.
#[test]
fn what_is_read_later() {
    let (_dir, log) = file(LOG);
    let words = ["--at", "1", "--memory", "all", "--last-write", "0x9000+2", "--last-write", "x0", "--json"];
    let run = run("state", &log, &words);
    assert_eq!(run.code, 0, "{}", run.err);
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).cloned().collect::<Vec<_>>();
    assert_eq!(of("memory").len(), 1);
    assert!(of("memory")[0]["bytes"].as_str().unwrap().starts_with("cdab...."));
    assert_eq!((&of("last_write")[0]["known"], &of("last_write")[0]["line"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(of("last_write")[1]["line"], Value::Null);
}

#[test]
fn an_index_is_made_found_and_made_anew() {
    let (dir, log) = file(LOG);
    let made = run("index", &log, &["--json"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!((&made["made"], &made["lines"], &made["instructions"]), (&true.into(), &8.into(), &3.into()));
    let index = dir.path().join("log.tarmac.unspool-index");
    assert!(index.is_file());
    assert!(run("index", &log, &[]).out.contains("was there already"));
    // The log grows: the index does not fit any more.
    fs::write(&log, format!("{LOG}40 ns R X5 0000000000000005\n")).unwrap();
    let grown = run("state", &log, &["--at", "9", "--register", "x5"]);
    assert!(grown.err.contains("has changed") && grown.out.contains("x5  0000000000000005"), "{grown:?}");
    for damage in [&b"no index at all"[..], &fs::read(&index).unwrap()[..50]] {
        fs::write(&index, damage).unwrap();
        let run = run("state", &log, &["--at", "9", "--register", "x5"]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.err.contains("made anew") && run.out.contains("x5  0000000000000005"), "{run:?}");
    }
}

/// A pipe and a compressed log are read from their start, with the same result.
#[test]
fn without_an_index() {
    let (dir, log) = file(LOG);
    let packed = dir.path().join("log.gz");
    let mut gz = flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::fast());
    gz.write_all(LOG.as_bytes()).unwrap();
    gz.finish().unwrap();
    for at in ["1", "5", "20ns", "#2", "#3"] {
        let more = ["--at", at, "--memory", "all", "--register", "x0", "--register", "sp"];
        let expected = run("state", &log, &more);
        let piped = unspool_with(&[&["state", "-"], &more[..]].concat(), LOG.as_bytes());
        assert_eq!((piped.code, &piped.out), (0, &expected.out), "{at}: {}", piped.err);
        assert_eq!(run("state", &packed, &more).out, expected.out, "{at}");
    }
    let refused = run("index", &packed, &[]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("compressed"), "{}", refused.err);
}

#[test]
fn cores() {
    let mut text = String::new();
    for number in 1..=50 {
        for core in 0..2 {
            let pc = 0x1000 * (core + 1) + number * 4;
            let _ = writeln!(text, "{number} clk cpu{core} IT ({number}) {pc:08x} d503201f O EL1h_n : NOP");
            let _ = writeln!(text, "{number} clk cpu{core} R X1 {:016x}", number + core * 0x100);
            let _ = writeln!(text, "{number} clk cpu{core} MW1 00002000 {:02x}", number + core * 0x80);
        }
    }
    let (_dir, log) = file(&text);
    let words = ["--at", "#7", "--core", "cpu1", "--register", "x1", "--memory", "0x2000+1"];
    let one = run("state", &log, &words);
    assert!(one.out.contains("x1  0000000000000107") && one.out.contains("0000000000002000  87 .."), "{}", one.out);
    let both = run("state", &log, &["--at", "300"]);
    assert!(both.out.contains("cpu0: 50 instructions") && both.out.contains("cpu1: 50 instructions"), "{}", both.out);
    assert_eq!(run("state", &log, &["--at", "5", "--core", "cpu7"]).code, 2);
}

#[test]
fn what_cannot_be() {
    let (_dir, log) = file(LOG);
    for words in [&["--at", "900"][..], &["--at", "#9"], &["--at", "5clk"], &["--at", "soon"], &[]] {
        assert_eq!(run("state", &log, words).code, 2, "{words:?}");
    }
}

/// A place that is asked for in a unit the log does not have is none, with an index and without.
#[test]
fn another_unit() {
    let text = "7 clk IT (1) 00010000 d503201f O EL1h_n : NOP\n9 clk R X3 0000000000000003\n";
    let (_dir, log) = file(text);
    for at in ["8ns", "1us", "3cyc"] {
        let plain = run("state", &log, &["--at", at]);
        let piped = unspool_with(&["state", "-", "--at", at], text.as_bytes());
        assert_eq!((plain.code, piped.code), (2, 2), "{at}");
        assert!(plain.err.contains("no such place") && piped.err.contains("no such place"), "{at}");
    }
}

/// What was written, but not what; and what was never written.
#[test]
fn unknown_values() {
    let text = "1 clk IT (1) 00010000 d503201f O EL1h_n : NOP\n1 clk MW4 00005000 01020304\n1 clk MW2 00005002 xxxx\n\
                1 clk R V4<63:0> 0000000000000007\n1 clk R X4 0000000000000004\n1 clk R V4<127:64> 0000000000000008\n";
    let (_dir, log) = file(text);
    let writes = ["--at", "6", "--last-write", "0x5000+5", "--last-write", "d4", "--last-write", "v4"];
    let shown = run("state", &log, &writes);
    for expected in [
        "0x5000..=0x5001: line 2\n",
        "0x5002..=0x5003: line 3, value unknown\n",
        "0x5004..=0x5004: nothing is known\n",
        "\nd4: line 4\n",
        "\nv4: line 6\n",
    ] {
        assert!(shown.out.contains(expected), "{}", shown.out);
    }
    assert_eq!(unspool_with(&[&["state", "-"], &writes[..]].concat(), text.as_bytes()).out, shown.out);
    let json = run("state", &log, &["--at", "6", "--json", "--register", "d21", "--register", "x4"]);
    let core: Value = serde_json::from_str(json.out.lines().nth(1).unwrap()).unwrap();
    let unknown = core["registers"].as_array().unwrap().iter().find(|row| row["name"] == "d21").unwrap().clone();
    assert_eq!((&unknown["value"], &unknown["line"]), (&Value::Null, &Value::Null));
}

/// A log that is cut short or has lines that mean nothing is answered for, but not passed over.
#[test]
fn problems_are_told() {
    let (dir, log) = file(&format!("{LOG}what is this\n"));
    assert_eq!(run("state", &log, &["--at", "5"]).code, 1);
    assert_eq!(unspool_with(&["state", "-", "--at", "5"], &fs::read(&log).unwrap()).code, 1);
    let packed = dir.path().join("cut.gz");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(LOG.repeat(400).as_bytes()).unwrap();
    let bytes = gz.finish().unwrap();
    fs::write(&packed, &bytes[..bytes.len() - 12]).unwrap();
    let cut = run("state", &packed, &["--at", "5"]);
    assert_eq!(cut.code, 1, "{}", cut.err);
    assert!(cut.out.starts_with("line 5"), "{}", cut.out);
}
