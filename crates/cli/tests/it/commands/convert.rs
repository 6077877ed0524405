//! `convert` between formats: round trips, losses, rejected conversions.

use std::fs;
use std::path::{Path, PathBuf};

use super::example;
use serde_json::json;

use crate::run::{Folder, Run, assert_fields, on, text, unspool, unspool_with};

/// A log with an access, a branch and registers.
const LOG: &str = "\
0 clk cpu0 IT (0) 0000000000001000 d2800020 O EL1h_n : MOV x0,#1
0 clk cpu0 R X0 0000000000000001
1 clk cpu0 IT (1) 0000000000001004 f9400001 O EL1h_n : LDR x1,[x0]
1 clk cpu0 MR8 0000000000008000 0102030405060708
1 clk cpu0 R X1 0102030405060708
2 clk cpu0 IT (2) 0000000000001008 14000002 O EL1h_n : B 0x1010
3 clk cpu0 IT (3) 0000000000001010 d503201f O EL1h_n : NOP
";

/// The same run without accesses and registers, as a trace unit traces it.
const BARE: &str = "\
0 clk IT (0) 0000000000001000 d2800020 O EL1h_n : MOV x0,#1
1 clk IT (1) 0000000000001004 f9400001 O EL1h_n : LDR x1,[x0]
2 clk IT (2) 0000000000001008 14000002 O EL1h_n : B 0x1010
3 clk IT (3) 0000000000001010 d503201f O EL1h_n : NOP
";

fn convert(from: &Path, to: &Path, more: &[&str]) -> Run {
    on("convert", from, &[&[text(to)], more].concat())
}

fn astf_example() -> PathBuf {
    unspool_testing::example("example.astf")
}

fn dump(path: &Path) -> String {
    unspool(&["dump", text(path)]).clean().out
}

#[track_caller]
fn assert_equal(a: &Path, b: &Path, more: &[&str]) {
    unspool(&[&["diff", text(a), text(b), "--strict"], more].concat()).expect(0, &[]);
}

#[test]
fn astf_round_trips_through_each_format() {
    let folder = Folder::new();
    let start = folder.path("start.astf");
    convert(&astf_example(), &start, &[]).clean();
    for name in ["b.tarmac", "b.tarmac.gz", "b.log"] {
        let (there, back) = (folder.path(name), folder.path("back.astf"));
        convert(&start, &there, &["--deny-loss"]).clean();
        assert_equal(&start, &there, &[]);
        unspool(&["check", text(&there)]).expect(0, &[]);
        convert(&there, &back, &["--deny-loss"]).clean();
        assert_eq!(dump(&back), dump(&start), "{name}");
        assert_eq!(fs::read(&back).unwrap(), fs::read(&start).unwrap(), "{name}");
    }
}

/// STF has content after every access, and ASTF has no data: the accesses are lost, and counted.
#[test]
fn astf_loses_its_accesses_in_stf() {
    let folder = Folder::new();
    for name in ["b.stf", "b.zstf", "b.stf.xz"] {
        let there = folder.path(name);
        convert(&astf_example(), &there, &[]).expect(0, &["dropped: STF has no field for", "accesses to memory"]);
        unspool(&["check", text(&there)]).expect(0, &[]);
        unspool(&["diff", text(&astf_example()), text(&there)]).expect(0, &[]);
        assert!(!dump(&there).contains("unspool read"), "{}", dump(&there));
        convert(&astf_example(), &folder.path("o.stf"), &["--deny-loss"]).expect(1, &["nothing was written"]);
    }
}

/// A log as gem5 prints it: a pair is stored, and its load is called a write, with only 64 bits of its data.
const GEM5: &str = "\
0 clk cpu0 IT (0) 00001000 a9007be0 O EL1h_n : STP X0, X30, [SP]
0 clk cpu0 MW8 00008000 0102030405060708
0 clk cpu0 MW8 00008008 1112131415161718
1 clk cpu0 IT (1) 00001004 a9407be1 O EL1h_n : LDP X1, X30, [SP]
1 clk cpu0 MW16 00008000 00000000000000000102030405060708
1 clk cpu0 R X1 0102030405060708
1 clk cpu0 R X30 1112131415161718
2 clk cpu0 IT (2) 00001008 f9400001 O EL1h_n : LDR X1, [X0]
2 clk cpu0 MW8 00009000 0000000000000007
3 clk cpu0 IT (3) 0000100c f8200020 O EL1h_n : LDADD X0, X0, [X1]
3 clk cpu0 MR8 00009000 0000000000000007
3 clk cpu0 MW8 00009000 0000000000000009
";

#[test]
fn loads_that_a_log_calls_writes_are_reads() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", GEM5);
    let words = "taken as reads: 2 × loads that the log calls writes (first in line 5)";
    let (stf, astf, rev3) = (folder.path("a.stf"), folder.path("a.astf"), folder.path("rev3.tarmac"));
    convert(&log, &stf, &[]).expect(0, &[words]);
    convert(&log, &astf, &[]).expect(0, &[words]);
    unspool(&["check", text(&astf)]).clean();
    // Half of the data of LDP is not in the log, but in the register that it loads.
    unspool(&["check", text(&stf)]).clean();
    let load = &unspool(&["dump", text(&stf), "--json"]).clean().json()[1]["memory"][0];
    let data = json!(["0x102030405060708", "0x1112131415161718"]);
    assert_fields(load, &json!({"access": "read", "address": "0x8000", "size": 16, "content": data}));
    convert(&log, &rev3, &["--to-dialect", "rev3"]).expect(0, &[words]);
    let lines = fs::read_to_string(&rev3).unwrap();
    assert!(lines.contains("LD 0000000000008000 ######## ######## 01020304 05060708"), "{lines}");
    assert!(lines.contains("LD 0000000000009000") && lines.contains("ST 0000000000009000"), "{lines}");
    for name in ["o.stf", "o.astf", "o.tarmac"] {
        let out = folder.path(name);
        let words: &[&str] = if name == "o.tarmac" { &["--strict", "--to-dialect", "rev3"] } else { &["--strict"] };
        convert(&log, &out, words).expect(1, &["rejected because of --strict", "nothing was written"]);
        assert!(!out.exists(), "{name}");
    }
    let rows = convert(&log, &stf, &["--json"]).expect(0, &[]).json_messages();
    let row = rows.iter().find(|row| row["kind"] == "corrected").unwrap_or_else(|| panic!("{rows:?}"));
    assert_fields(row, &json!({"what": "corrected-loads", "count": 2, "line": 5}));
    let [.., written, summary] = &rows[..] else { panic!("{rows:?}") };
    assert_fields(written, &json!({"kind": "written", "instructions": 4}));
    assert_fields(summary, &json!({"kind": "summary", "clean": true}));
}

/// Memory after the load is still what was stored, and the upper half is not zero.
#[test]
fn state_of_a_log_that_calls_loads_writes() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", GEM5);
    let options = ["--at", "6", "--memory", "0x8000+16", "--last-write", "0x8008+8"];
    let words = "taken as reads: 2 loads that the log calls a write, the first in line 5";
    let state = unspool(&[&["state", text(&log)], &options[..]].concat()).expect(0, &[words]);
    state.shows(&["08 07 06 05 04 03 02 01  18 17 16 15 14 13 12 11", "line 3"]);
    unspool_with(&[&["state", "-"], &options[..]].concat(), GEM5.as_bytes()).expect(0, &[words]);
    unspool(&[&["state", text(&log), "--strict"], &options[..]].concat()).expect(2, &["rejected because of --strict"]);
    unspool(&["check", text(&log), "--steps"]).expect(0, &[words]);
}

#[test]
fn a_log_becomes_astf() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", LOG), folder.path("a.astf.xz"));
    let words = ["dropped: ASTF has no field for", "2 × registers written (first in line 1)", "data"];
    let run = convert(&log, &astf, &[]).expect(0, &words);
    assert_eq!(run.err.lines().count(), 2, "{}", run.err);
    assert!(run.err.contains("a.astf.xz: 4 instructions, "), "{}", run.err);
    unspool(&["check", text(&astf)]).clean();
    assert_equal(&log, &astf, &[]);
    let lines = dump(&astf);
    for word in ["0x1000", "0x1004", "0x8000", "0x1010"] {
        assert!(lines.contains(&word[2..]), "{word} in {lines}");
    }
}

#[test]
fn losses_are_reported_as_json_and_can_be_denied() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", LOG), folder.path("a.astf"));
    let run = convert(&log, &astf, &["--json"]).expect(0, &[]);
    let rows = run.json_messages();
    let row = |what: &str| rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{what}: {rows:?}"));
    assert_eq!((&row("registers")["count"], &row("registers")["line"]), (&2.into(), &1.into()));
    assert_fields(row("data"), &json!({"count": 1, "line": 3, "kind": "lost", "by": "target"}));
    fs::remove_file(&astf).unwrap();
    convert(&log, &astf, &["--deny-loss"]).expect(1, &["has no field for", "nothing was written"]);
    assert!(!astf.exists());
    let rows = convert(&log, &astf, &["--deny-loss", "--json"]).expect(1, &[]).json_messages();
    let [.., denied, summary] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&rows[0]["kind"], &denied["written"]), (&"lost".into(), &"nothing".into()));
    assert_eq!((&denied["kind"], &summary["clean"]), (&"denied".into(), &false.into()));
    let run = convert(&log, Path::new("-"), &["--to", "astf", "--deny-loss"])
        .expect(1, &["has no field for", "is incomplete"]);
    assert!(!run.err.contains("nothing was written"), "{}", run.err);
}

/// Log of Rev 3 that ends with a loss for Fast Models, after enough lines to be written before.
fn long_rev3() -> String {
    let line = |time: u64| format!("{time:>11} ns  ES  (00010000:e1a00000) A svc:            NOP\n");
    let last = "                    LD 00000040 ........ ........ ........ 00001c98    S:0000000040/20    SO\n";
    let lines: String = (0..3000).map(line).collect();
    format!(
        "Tarmac Text Rev 3t\n{lines}       4000 ns  ES  (00010000:e5910000) A svc:            LDR      r0,[r1]\n{last}"
    )
}

#[test]
fn a_denied_conversion_to_a_pipe_is_incomplete() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", long_rev3());
    let words = ["--to", "tarmac", "--to-dialect", "fast-models", "--deny-loss"];
    let run = convert(&log, Path::new("-"), &words).expect(1, &["has no field for", "is incomplete"]);
    assert!(!run.out.is_empty() && !run.err.contains("nothing was written"), "{}", run.err);
    let json = convert(&log, Path::new("-"), &[&words[..], &["--json"]].concat()).expect(1, &[]);
    let denied = json.json_messages().into_iter().rev().nth(1).unwrap();
    assert_eq!((&denied["kind"], &denied["written"]), (&"denied".into(), &"part".into()));
    convert(&log, &folder.path("o.log"), &words[2..]).expect(1, &["nothing was written"]);
    assert!(!folder.path("o.log").exists());
}

#[test]
#[cfg(unix)]
fn a_fifo_is_a_pipe_too() {
    let folder = Folder::new();
    let (log, fifo) = (folder.file("a.tarmac", LOG), folder.path("fifo"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let from = fifo.clone();
    let reader = std::thread::spawn(move || fs::read(from).unwrap());
    convert(&log, &fifo, &["--to", "astf", "--deny-loss"]).expect(1, &["is incomplete"]);
    reader.join().unwrap();
}

#[test]
fn losses_of_another_version_are_reported_as_json() {
    let folder = Folder::new();
    let stf = folder.file("a.stf", super::stf::small());
    let out = folder.path("o.stf");
    let rows = convert(&stf, &out, &["--stf-version", "1.3", "--json"]).expect(0, &[]).json_messages();
    assert_fields(&rows[0], &json!({"kind": "lost", "by": "target", "what": "length-of-vector-registers", "count": 1}));
    let rows = convert(&stf, &out, &["--stf-version", "1.3", "--json", "--deny-loss"]).expect(1, &[]).json_messages();
    assert_eq!(rows[rows.len() - 2]["kind"], "denied");
}

#[test]
fn lines_that_cannot_be_read_are_a_problem() {
    let folder = Folder::new();
    let broken = LOG.replace("2 clk", "\u{1}binary\n1 clk cpu0 IT (9) 00zz\n2 clk");
    let (log, stf) = (folder.file("a.tarmac", &broken), folder.path("a.stf"));
    convert(&log, &stf, &[]).expect(1, &["2 lines cannot be read, the first is line 6"]);
    assert_equal(&folder.file("b.tarmac", LOG), &stf, &[]);
    let rows = convert(&log, &stf, &["--json"]).expect(1, &[]).json_messages();
    let row = rows.iter().find(|row| row["what"] == "unreadable").unwrap_or_else(|| panic!("{rows:?}"));
    assert_eq!((&row["by"], &row["count"], &row["line"]), (&"source".into(), &2.into(), &6.into()));
    fs::remove_file(&stf).unwrap();
    convert(&log, &stf, &["--deny-loss"]).expect(1, &["cannot be read", "nothing was written"]);
    assert!(!stf.exists());
    unspool(&["check", text(&log), "--steps"]).expect(1, &["2 lines cannot be read, the first is line 6"]);
}

#[test]
fn the_last_extension_selects_the_format() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", LOG);
    for (name, start) in [("n.stf.tarmac", &b"0 clk"[..]), ("n.astf.stf", b"\x01STF"), ("n.tarmac.astf", b"ASTF")] {
        let out = folder.path(name);
        convert(&log, &out, &[]).expect(0, &[]);
        let bytes = fs::read(&out).unwrap();
        assert!(bytes.starts_with(start), "{name}: {:?}", &bytes[..8]);
    }
    assert_eq!(fs::read_to_string(folder.path("n.stf.tarmac")).unwrap(), LOG);
}

#[test]
fn from_selects_the_input_format() {
    let folder = Folder::new();
    let (log, stf) = (folder.file("a.tarmac", LOG), folder.path("a.stf"));
    convert(&log, &stf, &["--from", "stf"]).expect(2, &["a.tarmac", "no STF trace"]);
    convert(&log, &stf, &["--from", "astf"]).expect(2, &["a.tarmac", "not an ASTF file"]);
    assert!(!stf.exists());
    convert(&log, &stf, &[]).expect(0, &[]);
    let out = folder.path("o.tarmac");
    convert(&stf, &out, &["--from", "stf"]).expect(0, &[]);
    let piped = unspool_with(&["convert", "-", text(&out), "--from", "stf", "--force"], &fs::read(&stf).unwrap());
    piped.expect(0, &[]);
    assert_equal(&log, &out, &[]);
    let notes = folder.file("notes", "not a trace\n");
    convert(&notes, &out, &[]).expect(2, &["use --from tarmac to read it as a Tarmac log"]);
    let run = unspool(&["dump", text(&notes)]).expect(2, &["use --dialect to read it as a Tarmac log"]);
    assert_eq!(run.out, "");
}

#[test]
fn unused_options_are_rejected() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", LOG), folder.path("a.astf"));
    convert(&log, &astf, &[]).expect(0, &[]);
    let (log, astf) = (log.as_path(), astf.as_path());
    let rows: &[(&Path, &str, &[&str])] = &[
        (log, "o.log", &["--to-dialect", "rev3", "--core", "1"]),
        (log, "o.log", &["--source", "0x10"]),
        (log, "o.stf", &["--source", "0x10"]),
        (log, "o.log", &["--assume", "el=1"]),
        (log, "o.stf", &["--assume", "el=1"]),
        (log, "o.stf", &["--astf-level", "basic"]),
        (log, "o.astf", &["--stf-version", "1.3"]),
        (log, "o.log", &["--stf-version", "1.3"]),
        (log, "o.astf", &["--to-dialect", "rev3"]),
        (log, "o.log", &["--no-disassembly"]),
        (log, "o.log", &["--big-endian"]),
        (log, "o.stf", &["--continuations"]),
        (log, "o.stf", &["--chunk", "5"]),
        (log, "o.log", &["--accesses", text(astf)]),
        (astf, "o.astf", &["--astf-level", "basic"]),
        (astf, "o.astf", &["--core", "0"]),
        (astf, "o.stf", &["--from", "astf", "--dialect", "gem5"]),
        (astf, "o.stf", &["--from", "astf", "--implicit-thumb"]),
        (astf, "o.stf", &["--big-endian"]),
        (astf, "o.stf", &["--image", text(astf)]),
    ];
    for (input, name, words) in rows {
        let out = folder.path(name);
        let option = words.iter().rev().find(|word| word.starts_with("--")).unwrap();
        convert(input, &out, words).expect(2, &[&format!("error: {option} ")]);
        assert!(!out.exists(), "{words:?}");
    }
}

#[test]
fn a_capture_becomes_a_log_with_context_and_time() {
    let folder = Folder::new();
    let path = folder.path("a.tarmac");
    for (style, line) in [
        ("rev3", "1192960 tic ES  (0000000000400008:94000008) O el0t_ns:        bl 0x400028"),
        ("fast-models", "1192960 tic IT (3) 00400008 94000008 O EL0t_n : bl 0x400028"),
    ] {
        convert(&example(), &path, &["--source", "0x10", "--to-dialect", style, "--deny-loss"]).clean();
        assert_equal(&example(), &path, &["--source-a", "0x10"]);
        let log = fs::read_to_string(&path).unwrap();
        assert!(log.contains(line), "{log}");
        convert(&example(), &path, &["--source", "0x10", "--to-dialect", style, "--no-disassembly"]).clean();
        assert!(!fs::read_to_string(&path).unwrap().contains("bl 0x400028"));
    }
    convert(&example(), &path, &[]).expect(2, &["several sources", "--source"]);
}

#[test]
fn astf_from_a_capture_needs_accesses() {
    let folder = Folder::new();
    let astf = folder.path("a.astf");
    convert(&example(), &astf, &["--source", "0x10"]).expect(2, &["addresses of accesses"]);
    // A log without memory lines represents the capture.
    let head = "# unspool covers times=cycles instructions opcodes branches levels security\n\
                # unspool context level=1 security=non-secure aarch64=yes handler=yes\n";
    let (bare, log) = (folder.file("bare.tarmac", &(head.to_string() + BARE)), folder.file("a.tarmac", LOG));
    convert(&bare, &astf, &[]).expect(2, &["addresses of memory accesses"]);
    convert(&bare, &astf, &["--accesses", text(&log)]).expect(0, &[]);
    unspool(&["check", text(&astf)]).clean();
    assert_equal(&log, &astf, &[]);
    let other = folder.file("other.tarmac", LOG.replace("00000000000010", "00000000000070"));
    for name in ["o.astf", "o.stf"] {
        let out = folder.path(name);
        convert(&bare, &out, &["--accesses", text(&other)]).expect(2, &["other.tarmac", "no instruction in common"]);
        let words = ["--accesses", text(&log), "--accesses-core", "5"];
        convert(&bare, &out, &words).expect(2, &["no instruction of core 5"]);
        assert!(!out.exists());
    }
    convert(&bare, &astf, &["--accesses", "-"]).expect(2, &["needs files"]);
    convert(&log, &folder.path("b.tarmac"), &["--accesses", text(&log)]).expect(2, &["--accesses"]);
}

#[test]
fn other_instruction_sets_are_rejected() {
    let folder = Folder::new();
    let riscv = folder.file("a.stf", super::stf::long(2));
    for (name, words) in [("b.astf", "AArch64"), ("b.tarmac", "Arm")] {
        let run = convert(&riscv, &folder.path(name), &[]).expect(2, &[words, "RISC-V"]);
        assert!(!folder.path(name).exists(), "{run:?}");
    }
    let thumb = folder.file("t.tarmac", "0 clk IT (0) 00001000 bf00 T thread : NOP\n");
    convert(&thumb, &folder.path("t.astf"), &[]).expect(2, &["AArch64"]);
}

#[test]
fn missing_state_can_be_assumed() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", LOG.replace("EL1h_n ", "")), folder.path("a.astf"));
    convert(&log, &astf, &[]).expect(2, &["--assume"]);
    convert(&log, &astf, &["--assume", "el=1,security=nonsecure,sp=x"]).expect(0, &[]);
    unspool(&["check", text(&astf)]).clean();
    convert(&log, &astf, &["--assume", "el=7"]).expect(2, &["Exception level"]);
}

#[test]
fn one_core_can_be_selected() {
    let folder = Folder::new();
    let other = LOG.lines().fold(String::new(), |text, line| text + line + "\n" + &line.replace("cpu0", "cpu1") + "\n");
    let (log, astf) = (folder.file("a.tarmac", &other), folder.path("a.astf"));
    convert(&log, &astf, &[]).expect(2, &["--core"]);
    convert(&log, &astf, &["--core", "1"]).expect(0, &["steps of other cores"]);
    assert_equal(&log, &astf, &["--core-a", "1"]);
    let rows = convert(&log, &astf, &["--core", "1", "--json"]).expect(0, &[]).json_messages();
    assert_eq!((&rows[0]["kind"], &rows[0]["what"]), (&"left_out".into(), &"other-cores".into()));
}

#[test]
fn unknown_cores_are_rejected() {
    let folder = Folder::new();
    let two = LOG.replacen("cpu0", "cpu1", 1);
    let (one, two) = (folder.file("a.tarmac", LOG), folder.file("b.tarmac", &two));
    convert(&one, &folder.path("a.astf"), &[]).expect(0, &[]);
    for name in ["o.stf", "o.astf"] {
        let out = folder.path(name);
        convert(&one, &out, &["--core", "9"]).expect(2, &["no core 9", "core 0 only"]);
        convert(&two, &out, &["--core", "9"]).expect(2, &["no core 9", "cores 0 to 1"]);
        assert!(!out.exists());
    }
    convert(&folder.path("a.astf"), &folder.path("o.tarmac"), &["--core", "9"]).expect(2, &["no core 9"]);
    assert!(!folder.path("o.tarmac").exists());
    convert(&folder.path("a.astf"), &folder.path("o.tarmac"), &["--core", "0"]).clean();
}

#[test]
fn through_pipes() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", LOG), folder.path("a.astf"));
    convert(&log, &astf, &[]).expect(0, &[]);
    let piped = unspool_with(&["convert", "-", "-", "--to", "tarmac"], &fs::read(&astf).unwrap()).clean();
    let back = folder.file("b.tarmac", &piped.out);
    assert_equal(&astf, &back, &[]);
    unspool_with(&["convert", "-", "-", "--to", "tarmac"], b"not a trace").expect(2, &["standard input"]);
}

#[test]
fn names_and_formats() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", LOG);
    convert(&log, &folder.path("x"), &["--to", "astf"]).expect(0, &[]);
    convert(&log, &folder.path("y"), &["--to", "zstf"]).clean();
    convert(&log, &folder.path("z.stf"), &["--stf-version", "1.3"]).clean();
    convert(&log, &folder.path("w"), &["--from", "tarmac", "--to", "stf"]).clean();
    convert(&example(), &folder.path("v.xz"), &["--source", "0x10"]).expect(2, &["no known extension"]);
    convert(&log, &folder.path("z.astf"), &["--compression", "10"]).expect(2, &["--compression 10"]);
    assert_equal(&log, &folder.path("y"), &[]);
    assert_equal(&log, &folder.path("z.stf"), &[]);
}

#[test]
fn the_part_before_damage_can_be_kept() {
    let folder = Folder::new();
    let (log, packed) = (folder.file("a.tarmac", LOG), folder.path("a.astf.gz"));
    convert(&log, &packed, &[]).expect(0, &[]);
    let bytes = fs::read(&packed).unwrap();
    let cut = folder.file("cut.astf", &bytes[..bytes.len() - 12]);
    let out = folder.path("b.tarmac");
    convert(&cut, &out, &[]).expect(1, &["cut.astf"]);
    assert!(!out.exists());
    convert(&cut, &out, &["--keep-damaged"]).expect(1, &["cut.astf"]);
    assert!(out.exists());
    convert(&cut, Path::new("-"), &["--to", "tarmac"]).expect(1, &["cut.astf", "is incomplete"]);
    // Denied losses are rejected in damaged traces too.
    let (packed, cut, out) = (folder.path("a.tarmac.gz"), folder.path("cut.tarmac"), folder.path("b.astf"));
    convert(&log, &packed, &[]).clean();
    let bytes = fs::read(&packed).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 9]).unwrap();
    let deny = ["--keep-damaged", "--deny-loss", "--from", "tarmac"];
    convert(&cut, &out, &deny).expect(1, &["cut.tarmac", "nothing was written"]);
    assert!(!out.exists());
    convert(&cut, &out, &["--keep-damaged", "--from", "tarmac"]).expect(1, &["dropped: ASTF has no field for"]);
    assert!(out.exists());
}

#[test]
fn slices_of_conversions_keep_their_context() {
    let folder = Folder::new();
    // In STF, accesses without data are lost, and ASTF needs them.
    for name in ["b.log", "b.tarmac"] {
        let (whole, cut, back) = (folder.path(name), folder.path(format!("cut-{name}")), folder.path("cut.astf"));
        convert(&astf_example(), &whole, &[]).clean();
        unspool(&["slice", text(&whole), text(&cut), "--skip", "3", "--limit", "6"]).expect(0, &[]);
        // A slice needs level, Security state and time to become ASTF.
        convert(&cut, &back, &[]).expect(0, &[]);
        unspool(&["check", text(&back)]).clean();
        unspool(&["diff", text(&astf_example()), text(&back)]).clean().shows(&["identical in what both contain"]);
    }
}

#[test]
fn a_name_without_a_known_extension_is_rejected_first() {
    let folder = Folder::new();
    // The input does not exist: the name is looked at before anything is read.
    let absent = folder.path("absent.tarmac");
    for name in ["out", "out.txt", "out.gz", "out.trace"] {
        convert(&absent, &folder.path(name), &[]).expect(2, &[name, "no known extension", ".zstf", "tarmac.gz"]);
        convert(&absent, &folder.path(name), &["--to", "stf"]).expect(2, &["absent.tarmac"]);
    }
}

#[test]
fn the_output_is_an_option_too() {
    let folder = Folder::new();
    let (log, out) = (folder.file("a.tarmac", LOG), folder.path("a.stf"));
    let run = unspool(&["convert", text(&log), "-o", text(&out)]).clean();
    unspool(&["convert", text(&log), "-o", text(&out)]).expect(2, &["the file exists; use --force to replace it"]);
    let bytes = fs::metadata(&out).unwrap().len();
    assert_eq!(run.err, format!("note: wrote {}: 4 instructions, {bytes} bytes\n", out.display()));
    unspool(&["convert", text(&log), text(&out), "-o", text(&out)]).expect(2, &["cannot be used with"]);
    unspool(&["convert", text(&log)]).expect(2, &["OUT"]);
}

#[test]
fn cores_by_name() {
    let folder = Folder::new();
    let other =
        LOG.lines().fold(String::new(), |text, line| text + line + "\n" + &line.replace("cpu0", "b.cpu") + "\n");
    let (log, stf) = (folder.file("a.tarmac", &other), folder.path("a.stf"));
    convert(&log, &stf, &["--core", "b.cpu"]).expect(0, &["steps of other cores"]);
    assert_equal(&log, &stf, &["--core-a", "1"]);
    convert(&log, &stf, &["--core", "cpu9"]).expect(2, &["no core 'cpu9'; cores: cpu0, b.cpu"]);
    convert(&stf, &folder.path("b.tarmac"), &["--core", "cpu0"]).expect(2, &["use a number"]);
}

/// Two runs with a gap between them.
const GAP: &str = "\
# unspool covers times=cycles instructions opcodes branches exceptions levels security accesses
# unspool context level=1 security=non-secure aarch64=yes handler=yes
0 clk IT (1) 00001000 d503201f O EL1h_n : NOP
1 clk IT (2) 00001004 d503201f O EL1h_n : NOP
# unspool gap overflow
5 clk IT (3) 00003000 d503201f O EL1h_n : NOP
# unspool gap start
# unspool gap overflow
6 clk IT (4) 00004000 d503201f O EL1h_n : NOP
";

#[test]
fn gaps_are_split() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", GAP);
    let whole = folder.path("whole.astf");
    convert(&log, &whole, &["--astf-level", "basicplus"]).expect(2, &["--split"]);
    for (name, more) in [("p.astf.xz", &["--astf-level", "basicplus"][..]), ("p.stf", &[])] {
        let run = convert(&log, &folder.path(name), &[&["--split"], more].concat()).expect(0, &[]);
        assert_eq!(run.err.matches("note: ").count(), 3, "{}", run.err);
        assert!(!folder.path(name).exists());
        for (number, instructions) in [(1, 2), (2, 1), (3, 1)] {
            let part = folder.path(name.replacen("p.", &format!("p-{number:04}."), 1));
            let line = format!("{}: {instructions} instruction", part.display());
            assert!(run.err.contains(&line), "{line} in {}", run.err);
            unspool(&["check", text(&part)]).expect(0, &[]);
        }
        assert!(!folder.path(name.replacen("p.", "p-0004.", 1)).exists());
        // Nothing is replaced, and nothing remains of a conversion that fails.
        convert(&log, &folder.path(name), &[&["--split"], more].concat()).expect(2, &["exists"]);
        let other = folder.path(format!("q{name}"));
        convert(&log, &other, &[&["--split", "--pieces", "2"], more].concat()).expect(2, &["more than 2 files"]);
        assert!(!folder.path(format!("q{}", name.replacen("p.", "p-0001.", 1))).exists());
    }
    convert(&log, &folder.path("o.tarmac"), &["--split"]).expect(2, &["slice --split"]);
}

/// A branch that is not taken is IS in Fast Models style, also if the source has no conditions.
#[test]
fn branches_that_are_not_taken_are_skipped() {
    let folder = Folder::new();
    let log = "Tarmac Text Rev 3t\n          1 clk ES  (0000000000001000:54000040) O el1h_ns:        b.eq 0x1008\n          \
               2 clk ES  (0000000000001004:d503201f) O el1h_ns:        nop\n";
    let (rev3, stf, out) = (folder.file("a.tarmac", log), folder.path("a.stf"), folder.path("b.tarmac"));
    convert(&rev3, &stf, &[]).expect(0, &[]);
    convert(&stf, &out, &["--to-dialect", "fast-models", "--no-disassembly"]).expect(0, &[]);
    let lines = fs::read_to_string(&out).unwrap();
    assert!(lines.contains("1 clk IS (1) 00001000 54000040 O"), "{lines}");
    assert!(lines.contains("2 clk IT (2) 00001004 d503201f O"), "{lines}");
}

#[test]
fn images_of_other_machines_are_rejected() {
    let folder = Folder::new();
    let mut image = super::elf::program(0x40_0000, &[0; 16], &[]);
    for (machine, name) in [(62_u16, "x86-64"), (243, "RISC-V 64-bit")] {
        image[18..20].copy_from_slice(&machine.to_le_bytes());
        let image = folder.file("other.elf", &image);
        let words = ["other.elf", name, "Arm"];
        let out = folder.path("o.tarmac");
        convert(&example(), &out, &["--source", "0x10", "--image", text(&image)]).expect(2, &words);
        unspool(&["decode", text(&example()), "--image", text(&image)]).expect(2, &words);
        let log = folder.file("a.tarmac", LOG);
        unspool(&["profile", text(&log), "--image", text(&image)]).expect(2, &words);
    }
}

#[test]
fn timestamps_of_a_trace_without_times() {
    let folder = Folder::new();
    let untimed: String = LOG.lines().map(|line| line.split_once(" clk ").unwrap().1.to_string() + "\n").collect();
    let (log, timed) = (folder.file("a.tarmac", &untimed), folder.file("b.tarmac", LOG));
    let encode =
        |log: &Path, name: &str| unspool(&["encode", text(log), "-o", text(&folder.path(name)), "--timestamps"]);
    let run = encode(&log, "capture").expect(0, &["--timestamps has no effect: the input has no times"]);
    assert_eq!(run.err.matches("--timestamps").count(), 1, "{}", run.err);
    assert!(!encode(&timed, "other").expect(0, &[]).err.contains("--timestamps"));
}
