//! JSON output as `docs/json.md` and the schema describe it.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use unspool::coresight::{etm3, etm4, etm4_data, itm, ptm, stm};
use unspool_testing::repository;

use super::example;
use crate::run::{Run, log, on, text, unspool};
use crate::schema::{is_valid, schema, verbs};

const LOG: &str = "\
1 clk cpu0 IT (1) 00001000 d2800020 O EL1h_n : MOV      x0,#1
1 clk cpu0 R X0 0000000000000001
2 clk cpu0 IT (2) 00001004 f81f0fe0 O EL1h_n : STR      x0,[sp,#-0x10]!
2 clk cpu0 MW8 0008fff0:00000008fff0_NS 00000000_00000001
";

/// Every verb of the schema, on files that we ship.
fn runs() -> Vec<(&'static str, Run)> {
    let (folder, path) = log(LOG);
    let astf = unspool_testing::example("example.astf");
    let qemu = unspool_testing::example("hello-qemu");
    let stf = folder.path("run.stf");
    unspool(&["convert", text(&path), text(&stf)]).expect(0, &[]);
    let mut runs = Vec::new();
    for capture in [&example(), &qemu] {
        for options in [&["packets"][..], &["elements"], &["elements", "--committed"], &["frames"]] {
            runs.push((options[0], on(options[0], capture, &[&options[1..], &["--json"]].concat())));
        }
        for emit in ["instructions", "ranges"] {
            runs.push(("decode", on("decode", capture, &["--json", "--emit", emit])));
        }
        runs.push(("program", on("program", capture, &["--json", "--explain"])));
        runs.push(("program", on("program", capture, &["--json"])));
        runs.push(("doctor", on("doctor", capture, &["--json"])));
    }
    for file in [&example(), &qemu, &astf, &stf, &path] {
        runs.push(("info", on("info", file, &["--json"])));
        runs.push(("info", on("info", file, &["--json", "--quick"])));
        runs.push(("stats", on("stats", file, &["--json"])));
        runs.push(("find", on("find", file, &["--address", "0..0xffffffffffffffff", "--json"])));
        runs.push(("find", on("find", file, &["--memory", "0..0xffffffffffffffff", "-B", "2", "-A", "2", "--json"])));
        runs.push(("find", on("find", file, &["--exception", "--count", "--json"])));
        runs.push(("branches", on("branches", file, &["--json"])));
        runs.push(("branches", on("branches", file, &["--json", "--totals"])));
        for options in [&["--json"][..], &["--json", "--totals"], &["--json", "--reuse"], &["--json", "--strides"]] {
            runs.push(("accesses", on("accesses", file, options)));
        }
        runs.push(("tuples", on("tuples", file, &["--json"])));
        runs.push(("tuples", on("tuples", file, &["--json", "--fusion"])));
    }
    for file in [&astf, &stf, &path] {
        for options in [&["--json"][..], &["--json", "--hex"], &["--json", "--records"]] {
            runs.push(("dump", on("dump", file, options)));
        }
    }
    let words = ["--at", "4", "--memory", "all", "--last-write", "x0", "--last-write", "0x8fff0+8", "--json"];
    runs.push(("state", on("state", &path, &words)));
    runs.push(("index", on("index", &path, &["--json"])));
    runs.push(("index", on("index", &path, &["--json"])));
    let other = folder.file("other.tarmac", LOG.replace("0000000000000001", "0000000000000003"));
    runs.push(("diff", on("diff", &path, &[text(&other), "--json", "--all"])));
    runs.push(("diff", on("diff", &path, &[text(&stf), "--json"])));
    for file in [&example(), &astf, &stf, &path] {
        runs.push(("check", on("check", file, &["--json"])));
    }
    let perf = unspool_testing::example("hello.perf.data");
    runs.push(("pack", on("pack", &perf, &["-o", text(&folder.path("a.zip")), "--json"])));
    runs.push(("calls", on("calls", &path, &["--json"])));
    runs.push(("profile", on("profile", &path, &["--json"])));
    runs.push(("profile", on("profile", &path, &["--json", "--folded"])));
    runs.push(("annotate", on("annotate", &qemu, &["ways", "--json"])));
    for by in ["file", "line", "function", "image", "process"] {
        runs.push(("coverage", on("coverage", &qemu, &["--json", "--by", by])));
    }
    let (shapes, program) = (repository("testdata/lines/shapes.astf"), repository("testdata/lines/shapes"));
    let with_lines = ["--image", text(&program), "--json"];
    runs.push(("coverage", on("coverage", &shapes, &[&with_lines[..], &["--by", "line"]].concat())));
    runs.push(("coverage", on("coverage", &shapes, &[&with_lines[..], &["--diff", text(&qemu)]].concat())));
    runs.push(("annotate", on("annotate", &shapes, &[&["sum"], &with_lines[..]].concat())));
    // Standard output may be the trace.
    let converted = on("convert", &path, &[text(&folder.path("again.stf")), "--json"]);
    runs.push(("convert", Run { out: converted.err.clone(), ..converted }));
    runs
}

#[test]
fn output_is_as_the_schema_describes_it() {
    let mut seen = BTreeSet::new();
    for (verb, run) in runs() {
        assert!(run.code < 2, "{verb}: {}", run.err);
        // This validates all lines.
        let summary = run.json_summary();
        assert_eq!((&summary["schema"], &summary["verb"]), (&1.into(), &verb.into()));
        let items = run.json();
        assert!(!items.iter().any(|line| line["kind"] == "summary"), "{verb}: the summary is the last line");
        assert!(items.iter().all(|line| line["kind"].is_string()), "{verb}");
        if let Some(count) = summary["items"].as_u64() {
            assert_eq!(count, items.len() as u64, "{verb}");
        }
        seen.insert(verb);
    }
    assert_eq!(seen, verbs().into_iter().collect(), "every verb of the schema is tried");
}

#[test]
fn the_schema_refuses_other_lines() {
    let valid = json!({"source": 16, "session": 0, "kind": "commit", "offset": 1, "length": 2, "count": 3});
    assert!(is_valid("packets", &valid));
    let with = |key: &str, value: Value| {
        let mut line = valid.clone();
        line[key] = value;
        line
    };
    for (name, line) in [
        ("an unknown kind", with("kind", "commits".into())),
        ("an unknown key", with("counts", 1.into())),
        ("a number as text", with("count", "3".into())),
        ("a negative number", with("offset", (-1).into())),
        ("the kind of another verb", with("kind", "range".into())),
    ] {
        assert!(!is_valid("packets", &line), "{name}: {line}");
    }
    let mut missing = valid;
    missing.as_object_mut().unwrap().remove("count");
    assert!(!is_valid("packets", &missing), "a missing key");
    let context = |security: &str| json!({"source": 16, "session": 0, "kind": "context", "el": 1, "security": security, "aarch64": true});
    assert!(is_valid("decode", &context("nonsecure")) && !is_valid("decode", &context("non-secure")));
    let no_code =
        |address: Value| json!({"source": 16, "session": 0, "kind": "no_code", "address": address, "space": "EL0N"});
    assert!(is_valid("decode", &no_code("0x1000".into())) && !is_valid("decode", &no_code(4096.into())));
}

#[test]
fn the_document_lists_every_verb_kind_and_key() {
    let document = fs::read_to_string(repository("docs/json.md")).unwrap();
    for verb in verbs() {
        let section = document.split(&format!("\n## {verb}\n")).nth(1).unwrap_or_else(|| panic!("no section {verb}"));
        let section = section.split("\n## ").next().unwrap();
        for line in schema()["$defs"][verb]["anyOf"].as_array().unwrap() {
            let properties = line["properties"].as_object().unwrap();
            for key in properties.keys().filter(|key| !["kind", "source", "session"].contains(&key.as_str())) {
                assert!(section.contains(&format!("`{key}`")), "docs/json.md, {verb}: no key {key}");
            }
            let kinds = kinds_of(&properties["kind"]);
            let is_listed = |kind: &&str| section.contains(&format!("`{kind}`"));
            // The records of STF are too many to list.
            assert!(kinds.len() > 30 || kinds.iter().all(is_listed), "docs/json.md, {verb}: {kinds:?}");
        }
    }
}

#[test]
fn the_schema_has_every_kind_of_packet() {
    let lines = schema()["$defs"]["packets"]["anyOf"].as_array().unwrap();
    let kinds: BTreeSet<&str> = lines.iter().flat_map(|line| kinds_of(&line["properties"]["kind"])).collect();
    let mut names: Vec<&str> = etm4::PacketKind::ALL.iter().map(|kind| kind.name()).collect();
    names.extend(etm4_data::PacketKind::ALL.iter().map(|kind| kind.name()));
    names.extend(ptm::PacketKind::ALL.iter().map(|kind| kind.name()));
    names.extend(etm3::PacketKind::ALL.iter().map(|kind| kind.name()));
    names.extend(itm::PacketKind::ALL.iter().map(|kind| kind.name()));
    names.extend(stm::PacketKind::ALL.iter().map(|kind| kind.name()));
    for name in names {
        assert!(kinds.contains(name), "{name}");
    }
}

/// The names that a `kind` can be.
fn kinds_of(kind: &Value) -> Vec<&str> {
    match kind["enum"].as_array() {
        Some(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        None => vec![kind["const"].as_str().unwrap()],
    }
}

#[test]
fn keys_that_tools_rely_on_are_stable() {
    let lines = on("decode", &example(), &["--emit", "ranges", "--json", "--source", "0x10"]).json();
    let range = lines.iter().find(|line| line["kind"] == "range").unwrap();
    let keys = ["source", "session", "kind", "start", "end", "instructions", "isa", "taken", "last"];
    for key in keys.iter().chain(&["link", "ret", "eret", "conditional"]) {
        assert!(range.get(key).is_some(), "{key}: {range}");
    }
    let context = lines.iter().find(|line| line["kind"] == "context").unwrap();
    assert_eq!(context["security"], "nonsecure");
}

#[test]
fn cycle_counts_have_the_total_of_the_text() {
    let (folder, path) = log(LOG);
    let capture = folder.path("capture");
    // Times in cycles become cycle counts.
    unspool(&["encode", text(&path), "-o", text(&capture), "--cycle-counts"]).expect(0, &["note: wrote "]);
    let lines = on("decode", &capture, &["--json"]).json();
    let counts = lines.iter().filter(|line| line["kind"] == "cycle_count");
    let mut total = 0;
    for count in counts {
        total += count["cycles"].as_u64().unwrap_or(0);
        assert_eq!(count["total_cycles"], total, "{count}");
    }
}
