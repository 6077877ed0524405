//! Options that mean the same in all verbs: outputs, sources, cores, ranges; and spellings of the past.

use std::fmt::Write as _;
use std::fs;

use super::example;
use crate::run::{Folder, log, on, text, unspool, unspool_with};

/// Two cores, each with one instruction per line.
const CORES: &str = "\
1 clk cpu0 IT (1) 00001000 d503201f O EL1h_n : NOP
1 clk cpu1 IT (1) 00002000 d503201f O EL1h_n : NOP
1 clk cpu1 R X1 0000000000000011
2 clk cpu0 IT (2) 00001004 d503201f O EL1h_n : NOP
2 clk cpu0 R X1 0000000000000022
2 clk cpu1 IT (2) 00002004 d503201f O EL1h_n : NOP
";

#[test]
fn old_spellings_name_the_new_ones() {
    let rows: &[(&[&str], &str)] = &[
        (&["packets", "dump.bin", "--reg", "TRCIDR8=6"], "--reg is now --register NAME=VALUE"),
        (&["info", "dump.bin", "--reg=TRCIDR8=6"], "--reg is now --register NAME=VALUE"),
        (&["info", "capture", "--registers"], "--registers is now --explain; 'unspool info --help'"),
        (&["diff", "a", "b", "--implicit-thumb"], "--implicit-thumb is now --implicit-thumb-a or --implicit-thumb-b"),
        (&["diff", "a", "b", "--core", "1"], "--core is now --core-a or --core-b"),
        (&["disasm", "capture"], "there is no command 'disasm'; use 'unspool decode'"),
        (&["print", "trace.astf"], "there is no command 'print'; use 'unspool dump'"),
    ];
    for (args, expected) in rows {
        let run = unspool(args);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}");
        assert!(run.err.starts_with(&format!("error: {expected}")), "{args:?}: {}", run.err);
    }
    // Spellings that never existed are left to the parser.
    unspool(&["packets", "x", "--regs"]).expect(2, &["unexpected argument '--regs'"]);
    unspool(&["frobnicate"]).expect(2, &["unrecognized subcommand 'frobnicate'"]);
    unspool(&["--version"]).expect(0, &[]).shows(&["unspool "]);
}

#[test]
fn new_spellings_exist() {
    // The table of renamed options must not name what is not there.
    for (verb, option) in
        [("info", "--explain"), ("info", "--register"), ("packets", "--register"), ("decode", "--register")]
    {
        unspool(&[verb, "--help"]).expect(0, &[]).shows(&[option]);
    }
    for option in ["--source-", "--core-", "--dialect-", "--implicit-thumb-", "--big-endian-"] {
        let [a, b] = ["a", "b"].map(|side| format!("{option}{side}"));
        unspool(&["diff", "--help"]).expect(0, &[]).shows(&[&a, &b]);
    }
}

#[test]
fn frames_take_a_source_by_name() {
    let by_id = on("frames", &example(), &["--source", "0x12"]).clean().out;
    assert_eq!(on("frames", &example(), &["--source", "ETE_1"]).clean().out, by_id);
    on("frames", &example(), &["--source", "ETE_9"]).expect(2, &["no source 'ETE_9'", "unspool info"]);
    let stream = |source| on("frames", &example(), &["--stream", source]).clean().out;
    assert_eq!(stream("ETE_1"), stream("0x12"));
}

#[test]
fn cores_are_selected_by_number_or_name() {
    let (folder, path) = log(CORES);
    for (number, core) in ["1", "cpu1"].into_iter().enumerate() {
        let out = folder.path(format!("{number}.tarmac"));
        unspool(&["slice", text(&path), "-o", text(&out), "--core", core]).clean();
        let sliced = fs::read_to_string(&out).unwrap();
        assert_eq!(sliced.matches("cpu1").count(), 3, "{core}: {sliced}");
        assert!(!sliced.contains("cpu0"), "{core}: {sliced}");
        let state = on("state", &path, &["--at", "#2", "--core", core]).clean();
        assert!(state.out.contains("cpu1: 2 instructions") && !state.out.contains("cpu0"), "{core}: {}", state.out);
        let piped = unspool_with(&["state", "-", "--at", "#2", "--core", core], CORES.as_bytes()).clean();
        assert_eq!(piped.out, state.out, "{core}");
        on("diff", &path, &[text(&out), "--core-a", core]).expect(0, &[]).shows(&["identical", "2 instructions in"]);
    }
    on("diff", &path, &[text(&path), "--core-a", "cpu9"]).expect(2, &["no core 'cpu9'"]);
    on("state", &path, &["--at", "1", "--core", "9"]).expect(2, &["no core '9'", "cpu0"]);
}

#[test]
fn slices_are_not_replaced_and_are_reported() {
    let (folder, path) = log(CORES);
    let out = folder.path("part.tarmac");
    let slice = |options: &[&str]| unspool(&[&["slice", text(&path)], options].concat());
    let run = slice(&[text(&out), "--limit", "2"]).expect(0, &[]);
    assert_eq!(run.err, format!("note: wrote {}: 2 instructions\n", text(&out)));
    slice(&[text(&out), "--limit", "3"]).expect(2, &["the file exists; use --force to replace it"]);
    slice(&["-o", text(&out), "--limit", "3"]).expect(2, &["the file exists; use --force to replace it"]);
    assert_eq!(on("stats", &out, &["--json"]).json()[0]["instructions"], 2);
    slice(&["-o", text(&out), "--limit", "3", "--force"]).clean();
    assert_eq!(on("stats", &out, &["--json"]).json()[0]["instructions"], 3);
    slice(&[]).expect(2, &["OUT"]);
    slice(&[text(&out), "-o", text(&out)]).expect(2, &["cannot be used with"]);
    // Pieces: neither of them may exist.
    let piece = folder.file("x-0002.tarmac", "precious");
    let pieces = ["--address", "0x1000..0x1008", "--split"];
    slice(&[&["-o", text(&folder.path("x.tarmac"))], &pieces[..]].concat())
        .expect(2, &["x-0002.tarmac: the file exists"]);
    assert_eq!(fs::read_to_string(&piece).unwrap(), "precious");
    assert!(!folder.path("x-0001.tarmac").exists());
    let forced = slice(&[&["-o", text(&folder.path("x.tarmac")), "--force"], &pieces[..]].concat());
    forced.expect(0, &["x-0001.tarmac to ", "x-0002.tarmac: 2 instructions in 2 pieces"]);
}

#[test]
fn an_index_replaces_only_indexes() {
    let (folder, path) = log(CORES);
    let other = folder.file("notes.txt", "precious");
    on("index", &path, &["-o", text(&other)]).expect(2, &["not an index; use --force"]);
    // A log of this size is read without an index, unless there is one.
    on("state", &path, &["--at", "1", "--index", text(&other)]).expect(2, &["not an index; use --force"]);
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    on("index", &path, &["-o", text(&other), "--force"]).expect(0, &["note: wrote ", "notes.txt: "]);
    // A device is never replaced.
    #[cfg(unix)]
    on("index", &path, &["-o", "/dev/null", "--force"]).expect(2, &["/dev/null: an index must be a file"]);
    assert_ne!(fs::read(&other).unwrap(), b"precious");
}

#[test]
fn ranges_end_before_their_second_number() {
    let (folder, path) = log(CORES);
    let out = folder.path("out.tarmac");
    for (option, range, count) in [
        ("--address", "0x1000..0x1004", 1),
        ("--address", "0x1000..0x1005", 2),
        ("--time", "1..2", 2),
        ("--time", "1..3", 4),
    ] {
        unspool(&["slice", text(&path), text(&out), option, range, "--force"]).clean();
        assert_eq!(on("stats", &out, &["--json"]).json()[0]["instructions"], count, "{option} {range}");
    }
    let mut memory = CORES.to_string();
    let _ = writeln!(memory, "2 clk cpu1 MW8 00003000 88776655_44332211");
    let path = folder.file("memory.tarmac", memory);
    let shown = on("state", &path, &["--at", "7", "--memory", "0x3000..0x3002"]).clean();
    assert!(shown.out.contains("0000000000003000  11 22 .. .."), "{}", shown.out);
    let written = on("state", &path, &["--at", "7", "--last-write", "0x3006..0x300a"]).clean();
    assert!(written.out.contains("0x3006..0x3008: line 7\n0x3008..0x300a: unknown\n"), "{}", written.out);
    for range in ["0x1000..0x1000", "0x1004..0x1000", "0x1000"] {
        unspool(&["slice", text(&path), text(&out), "--address", range, "--force"]).expect(2, &["A..B"]);
    }
}

#[test]
fn several_files_are_summarized() {
    let (folder, path) = log(CORES);
    let astf = unspool_testing::example("example.astf");
    for verb in ["info", "stats"] {
        let [first, second] = [&path, &astf].map(|path| on(verb, path, &[]).clean().out);
        let both = on(verb, &path, &[text(&astf)]).clean();
        assert_eq!(both.out, format!("{first}\n{second}"), "{verb}");
        let run = on(verb, &path, &[text(&astf), text(&example()), "--json"]).clean();
        assert_eq!(run.json_summary()["files"], 3, "{verb}");
        let mut files: Vec<String> = run.json().iter().map(|line| line["file"].as_str().unwrap().to_string()).collect();
        files.dedup();
        assert_eq!(files, [text(&path), text(&astf), text(&example())], "{verb}");
        // A file that cannot be read does not hide the others.
        let missing = folder.path("missing.astf");
        let run = on(verb, &missing, &[text(&path)]).expect(2, &["missing.astf", "1 of 2 files could not be read"]);
        assert!(run.out.contains(first.lines().next().unwrap()), "{verb}: {}", run.out);
        // Nor does it leave an empty file.
        let out = folder.path("out.txt");
        on(verb, &missing, &["-o", text(&out)]).expect(2, &[]);
        assert!(!out.exists(), "{verb}");
    }
}

#[test]
fn outputs_are_not_inputs() {
    let folder = Folder::new();
    let path = folder.file("run.tarmac", CORES);
    for verb in ["info", "stats", "dump"] {
        on(verb, &path, &["-o", text(&path), "--force"]).expect(2, &["the trace is read from this file"]);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), CORES);
}
