//! `find`, `bbv`, `branches` and `image`: on our examples, and on the same execution in every format.

use std::fs;
use std::path::PathBuf;

use super::example;
use crate::run::{Folder, Run, log, on, text, unspool};

const LOG: &str = "\
1 clk cpu0 IT (1) 00001000 d2800020 O EL1h_n : MOV      x0,#1
1 clk cpu0 R X0 0000000000000001
2 clk cpu0 IT (2) 00001004 f81f0fe0 O EL1h_n : STR      x0,[sp,#-0x10]!
2 clk cpu0 MW8 0008fff0:00000008fff0_NS 00000000_00000001
3 clk cpu0 IT (3) 00001008 f9400001 O EL1h_n : LDR      x1,[x0]
3 clk cpu0 MR8 00090000:000000090000_NS 00000000_00000007
3 clk cpu0 R X1 0000000000000007
";

fn qemu() -> PathBuf {
    unspool_testing::example("hello-qemu")
}

/// Numbers of the lines of the log that were found.
fn lines(run: &Run) -> Vec<u64> {
    run.json().iter().filter(|line| line["kind"] == "found").map(|line| line["line"].as_u64().unwrap()).collect()
}

#[test]
fn conditions_find_lines_of_a_log() {
    let (_folder, path) = log(LOG);
    let rows: &[(&[&str], &[u64])] = &[
        (&["--address", "0x1004"], &[3]),
        (&["--address", "0x1004..0x2000"], &[3, 5]),
        (&["--address", "0x1000", "--address", "0x1008"], &[1, 5]),
        (&["--register", "x0=1"], &[1]),
        (&["--register", "X1"], &[5]),
        (&["--register", "x0=2"], &[]),
        (&["--memory", "0x8fff7"], &[3]),
        (&["--memory", "0x80000..0x100000"], &[3, 5]),
        (&["--read"], &[5]),
        (&["--write", "--memory", "0x90000"], &[]),
        (&["--mnemonic", "LDR"], &[5]),
        (&["--opcode", "0xf9400001"], &[5]),
        (&["--opcode", "0xf8000000/0xfe000000"], &[3, 5]),
        (&["--level", "1", "--time", "2..3"], &[3]),
        (&["--level", "0"], &[]),
        (&["--exception"], &[]),
        (&["--address", "0x1000..0x2000", "--first"], &[1]),
        (&["--address", "0x1000..0x2000", "--limit", "2"], &[1, 3]),
    ];
    for (options, expected) in rows {
        let run = on("find", &path, &[*options, &["--json"]].concat());
        assert_eq!(lines(&run), *expected, "{options:?}");
        assert_eq!(run.json_summary()["found"], expected.len(), "{options:?}");
    }
    on("find", &path, &["--memory", "0x90000"]).expect(0, &[]);
    let text = on("find", &path, &["--memory", "0x90000"]).clean();
    assert_eq!(
        text.out.trim(),
        "line 5         t=3 0x0000000000001008 f9400001  ldr x1, [x0]  x1=0x0000000000000007  r[0x90000]8"
    );
}

#[test]
fn context_is_printed_around_what_was_found() {
    let (_folder, path) = log(LOG);
    let near = on("find", &path, &["--address", "0x1004", "-B", "1", "-A", "1"]).clean();
    let starts: Vec<&str> = near.out.lines().map(|line| &line[..8]).collect();
    assert_eq!(starts, ["  line 1", "> line 3", "  line 5"]);
    let apart = on("find", &path, &["--mnemonic", "mov", "--mnemonic", "ldr", "-A", "0", "-B", "0"]).clean();
    assert_eq!(apart.out.lines().count(), 2);
}

/// A loop that counts, and one that reads the same value again and again.
const LOOPS: &str = "\
1 clk cpu0 IT (1) 00001000 91000400 O EL1h_n : ADD      x0,x0,#1
1 clk cpu0 R X0 0000000000000001
2 clk cpu0 IT (2) 00001004 17ffffff O EL1h_n : B        0x1000
3 clk cpu0 IT (3) 00001000 91000400 O EL1h_n : ADD      x0,x0,#1
3 clk cpu0 R X0 0000000000000002
4 clk cpu0 IT (4) 00001008 f9400001 O EL1h_n : LDR      x1,[x0]
4 clk cpu0 R X1 0000000000000007
5 clk cpu0 IT (5) 0000100c 17ffffff O EL1h_n : B        0x1008
6 clk cpu0 IT (6) 00001008 f9400001 O EL1h_n : LDR      x1,[x0]
6 clk cpu0 R X1 0000000000000007
7 clk cpu0 IT (7) 0000100c 17ffffff O EL1h_n : B        0x1008
8 clk cpu0 IT (8) 00001008 f9400001 O EL1h_n : LDR      x1,[x0]
8 clk cpu0 R X1 0000000000000007
";

#[test]
fn a_loop_without_progress_is_found_once() {
    let (folder, path) = log(LOOPS);
    let run = on("find", &path, &["--loop", "--json"]);
    assert_eq!(lines(&run), [11]);
    let stf = folder.path("loops.stf");
    on("convert", &path, &[text(&stf)]).expect(0, &[]);
    let run = on("find", &stf, &["--loop", "--json"]);
    let found: Vec<String> =
        run.json().iter().filter_map(|line| line["address"].as_str().map(str::to_string)).collect();
    assert_eq!(found, ["0x100c"]);
    on("find", &path, &["--loop", "--address", "0x1000", "--count"]).shows(&["0"]);
    on("find", &path, &["--loop", "--register", "x0"]).expect(2, &["cannot be used with"]);
}

#[test]
fn a_search_needs_a_condition() {
    on("find", &qemu(), &[]).expect(2, &["nothing to find"]);
    on("find", &qemu(), &["--function", "no_such_function"]).expect(2, &["no function 'no_such_function'", "--image"]);
    on("find", &qemu(), &["--exception", "nmi"]).expect(2, &["unknown exception 'nmi'"]);
    on("find", &qemu(), &["--opcode", "0x123456789"]).expect(2, &["more than 32 bits"]);
}

/// The example as a capture, STF and Tarmac. It has no accesses, which ASTF needs.
fn formats(folder: &Folder) -> Vec<PathBuf> {
    let mut paths = vec![qemu()];
    for name in ["run.stf", "run.tarmac"] {
        let path = folder.path(name);
        on("convert", &qemu(), &[text(&path)]).expect(0, &[]);
        paths.push(path);
    }
    paths
}

#[test]
fn functions_are_found_in_every_format() {
    let folder = Folder::new();
    // The listing of `decode` counts them in another way.
    let listing = on("decode", &qemu(), &["--json"]).clean();
    let is_in = |name: &str| {
        listing
            .json()
            .iter()
            .filter(|line| {
                line["kind"] == "instruction"
                    && line["symbol"].as_str().is_some_and(|symbol| symbol.split('+').next() == Some(name))
            })
            .count()
    };
    let expected = is_in("say");
    assert!(expected > 4, "{expected}");
    let found = on("find", &qemu(), &["--function", "say", "--count", "--json"]).clean();
    assert_eq!(found.json_summary()["found"], expected);
    let addresses: Vec<String> = on("find", &qemu(), &["--function", "say", "--json"])
        .json()
        .iter()
        .map(|line| line["address"].as_str().unwrap().to_string())
        .collect();
    let (first, last) = (addresses.iter().min().unwrap(), addresses.iter().max().unwrap());
    for path in formats(&folder) {
        let run = on("find", &path, &["--address", &format!("{first}..{last}"), "--address", last, "--json"]);
        let found: Vec<String> = run.json().iter().map(|line| line["address"].as_str().unwrap().to_string()).collect();
        assert_eq!(found, addresses, "{}", path.display());
    }
}

#[test]
fn vectors_are_the_same_in_every_format() {
    let folder = Folder::new();
    let total =
        on("stats", &qemu(), &["--json"]).json().iter().find(|line| line["kind"] == "steps").unwrap()["instructions"]
            .as_u64()
            .unwrap();
    let mut first: Option<String> = None;
    for (number, path) in formats(&folder).iter().enumerate() {
        let [vectors, blocks] = ["bb", "blocks"].map(|extension| folder.path(format!("{number}.{extension}")));
        let options = ["--interval", "40", "-o", text(&vectors), "--blocks", text(&blocks)];
        on("bbv", path, &options).expect(0, &["interval"]);
        let written = fs::read_to_string(&vectors).unwrap();
        let counts = written.split_whitespace().map(|part| part.rsplit(':').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(counts.sum::<u64>(), total, "{}", path.display());
        let per_interval = written.lines().map(|line| {
            line.split_whitespace().map(|part| part.rsplit(':').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
        });
        let lengths: Vec<u64> = per_interval.collect();
        let (_, before) = lengths.split_last().unwrap();
        assert!(before.iter().all(|length| *length >= 40), "{lengths:?}");
        assert!(fs::read_to_string(&blocks).unwrap().starts_with("1 0x"));
        assert_eq!(first.get_or_insert_with(|| written.clone()), &written, "{}", path.display());
        on("bbv", path, &options).expect(2, &["--force"]);
    }
}

#[test]
fn an_image_has_the_code_that_was_executed() {
    let folder = Folder::new();
    let expected = on("decode", &qemu(), &["--emit", "ranges", "--json"]).clean();
    for (number, path) in formats(&folder).iter().enumerate() {
        let elf = folder.path(format!("{number}.elf"));
        on("image", path, &["-o", text(&elf)]).expect(0, &["segment"]);
        // It comes before the images of the capture.
        let decoded = on("decode", &qemu(), &["--emit", "ranges", "--json", "--image", text(&elf)]);
        assert_eq!(decoded.out, expected.out, "{}", path.display());
    }
    unspool(&["image", text(&example()), "-o", text(&folder.path("0.elf"))]).expect(2, &["--force"]);
}

#[test]
fn branches_are_the_same_in_every_format() {
    let folder = Folder::new();
    let branches = |path: &PathBuf, options: &[&str]| -> Vec<Vec<serde_json::Value>> {
        let run = on("branches", path, &[options, &["--json"]].concat());
        let keys = ["address", "branch", "conditional", "taken", "target", "executions", "changes", "targets"];
        run.json().iter().map(|line| keys.map(|key| line[key].clone()).to_vec()).collect()
    };
    let paths = formats(&folder);
    for options in [&[][..], &["--totals"], &["--skip", "3", "--limit", "4"]] {
        let expected = branches(&paths[0], options);
        assert!(expected.len() > 3, "{expected:?}");
        paths.iter().for_each(|path| assert_eq!(branches(path, options), expected, "{} {options:?}", path.display()));
    }
    // The ranges of `decode` end in branches.
    let ranges = on("decode", &qemu(), &["--emit", "ranges", "--json"]).clean();
    let ends = |line: &serde_json::Value| {
        let is_branch = ["branch", "indirect"].contains(&line["last"].as_str().unwrap_or_default());
        (line["kind"] == "range" && is_branch).then(|| line["taken"].clone())
    };
    let expected: Vec<serde_json::Value> = ranges.json().iter().filter_map(ends).collect();
    let found: Vec<serde_json::Value> = branches(&paths[0], &[]).iter().map(|branch| branch[3].clone()).collect();
    assert_eq!(found, expected);
}
