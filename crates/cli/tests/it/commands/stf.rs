//! STF files: listed, checked, counted, sliced and converted; truncated and damaged ones.

use std::fs::{self, File};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use unspool::stf::Record;
use unspool::stf::builder::{Builder, Header, Mode, Step};
use unspool::stf::read::{ReadOptions, Reader, Storage};
use unspool::stf::record::{Event, MemAccess, Register, TraceInfo};
use unspool::stf::write::{WriteOptions, Writer};

use crate::run::{Folder, Run, assert_fields, assert_readers_may_leave, command, gzip, on, text, unspool_with, wait};

/// Every container, a file name for it, and its name for `--to`.
const CONTAINERS: [(Storage, &str, &str); 5] = [
    (Storage::PLAIN, "a.stf", "stf"),
    (Storage::Zstf, "a.zstf", "zstf"),
    (Storage::GZIP, "a.stf.gz", "stf.gz"),
    (Storage::XZ, "a.stf.xz", "stf.xz"),
    (Storage::ZSTD, "a.stf.zst", "stf.zst"),
];

impl Folder {
    /// Writes records into a container; chunks have ten instructions.
    fn stf_file(&self, name: &str, container: Storage, records: &[u8]) -> PathBuf {
        let path = self.path(name);
        let options = WriteOptions { chunk_markers: 10, ..WriteOptions::default() };
        let mut writer = Writer::seekable(File::create(&path).unwrap(), container, options).unwrap();
        writer.write(records).unwrap();
        writer.finish().unwrap();
        path
    }
}

fn encode(records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

fn header(features: u64) -> Vec<u8> {
    encode(&[
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 6 },
        Record::Comment(b"a \"test\""),
        Record::Isa(1),
        Record::InstIem(2),
        Record::TraceInfo(TraceInfo { generator: 6, version: [1, 2, 3], comment: b"gen A" }),
        Record::TraceInfoFeature(features),
        Record::ForcePc(0x8000_0000),
        Record::VlenConfig(128),
        Record::IsaExtended(b"rv64gcv"),
        Record::EndHeader,
    ])
}

/// Four instructions with most kinds of records.
pub(super) fn small() -> Vec<u8> {
    let [machine, data] = [3_u64.to_le_bytes(), 0x1000_u64.to_le_bytes()];
    let vector = [[1_u8; 8], [2; 8]].concat();
    let body = encode(&[
        Record::Event(Event { raw: 1 << 62, is_wide: true, data: &machine }),
        Record::InstOpcode32(0x13),
        Record::InstReg(Register { number: 7, meta: 0x33, value: &vector }),
        Record::InstMemAccess(MemAccess { address: 0x1000, size: 8, attributes: 0, kind: 1 }),
        Record::InstMemContent(0x1234),
        // ld a0, 0(a1)
        Record::InstOpcode16(0x6188),
        Record::Event(Event { raw: 13, is_wide: true, data: &data }),
        Record::EventPcTarget(0x8000_0100),
        // sd a0, 0(a1)
        Record::InstOpcode16(0xe188),
        Record::InstPcTarget(0x8000_0110),
        // beq a0, a1, 16
        Record::InstOpcode32(0x00b5_0863),
    ]);
    [header(0x8_0020 | 0x4_0000), body].concat()
}

const SMALL: &str = "\
1 0x0000000080000000 00000013 nop
    mode MODE_CHANGE 0x3 machine
2 0x0000000080000004 6188     ld a0, 0(a1)
    destination v7 0x02020202020202020101010101010101
    read 8 at 0x0000000000001000 = 0x0000000000001234
3 0x0000000080000006 e188     sd a0, 0(a1)
    fault LOAD_PAGE_FAULT 0x1000
    event target 0x0000000080000100
4 0x0000000080000100 00b50863 beq a0, a1, 0x80000110
    target 0x0000000080000110
";

/// Valid trace of a loop, written by the builder.
pub(super) fn long(turns: usize) -> Vec<u8> {
    let header = Header { mode: Some(Mode::Machine), comments: &["loop"], ..Header::new(0x8000_0000) };
    let mut trace = Builder::new(Vec::new(), &header).unwrap();
    for _ in 0..turns {
        trace.instruction(&Step::plain(0x8000_0000, 0x13)).unwrap();
        // c.j to the instruction before it
        trace.instruction(&Step::taken(0x8000_0004, 0xbff5, 0x8000_0000)).unwrap();
    }
    trace.finish().sink
}

/// Loads of incompressible values.
fn noisy(loads: usize) -> Vec<u8> {
    let (mut bytes, mut value) = (header(0x8_0020), 1_u64);
    for _ in 0..loads {
        value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ value >> 29;
        let access = MemAccess { address: 0x1000, size: 8, attributes: 0, kind: 1 };
        let group = [Record::InstMemAccess(access), Record::InstMemContent(value), Record::InstOpcode16(0x6188)];
        bytes.extend(encode(&group));
    }
    bytes
}

fn records_of(path: &Path) -> Vec<u8> {
    let mut reader = Reader::seekable(File::open(path).unwrap(), ReadOptions::default()).unwrap();
    let mut records = Vec::new();
    let read = reader.each(|_, record| {
        record.encode(&mut records);
        std::ops::ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
    records
}

#[test]
fn dump_is_the_same_from_every_container() {
    let folder = Folder::new();
    let records = unspool_with(&["dump", "--records", "-"], &small()).clean().out;
    assert_eq!(records.lines().count(), 22);
    for (container, name, _) in CONTAINERS {
        let path = folder.stf_file(name, container, &small());
        assert_eq!(on("dump", &path, &[]).clean().out, SMALL, "{container}");
        assert_eq!(unspool_with(&["dump", "-"], &fs::read(&path).unwrap()).clean().out, SMALL, "{container}");
        assert_eq!(on("dump", &path, &["--records"]).clean().out, records, "{container}");
    }
    let out = folder.path("out.txt");
    assert_eq!(on("dump", &folder.path("a.stf"), &["-o", text(&out)]).clean().out, "");
    assert_eq!(fs::read_to_string(out).unwrap(), SMALL);
}

#[test]
fn dump_skips_and_limits() {
    let folder = Folder::new();
    let trace = long(100);
    for (container, name, _) in CONTAINERS {
        let path = folder.stf_file(name, container, &trace);
        for options in [&[][..], &["--json"], &["--records"], &["--records", "--json"], &["--hex"]] {
            let all = on("dump", &path, options).clean().out;
            // The change of mode has its own line.
            let is_item = |line: &&str| !line.starts_with(' ') && !line.contains("\"summary\"");
            let all: Vec<&str> = all.lines().filter(is_item).collect();
            for (skip, limit) in [(0, 1), (1, 2), (9, 3), (10, 10), (95, 100), (199, 1), (200, 1), (1000, 1), (3, 0)] {
                let [skipped, limited] = [skip.to_string(), limit.to_string()];
                let run = on("dump", &path, &[options, &["--skip", &skipped, "--limit", &limited]].concat()).clean();
                let is_item = |line: &&str| !line.starts_with(' ') && !line.contains("\"summary\"");
                let lines: Vec<&str> = run.out.lines().filter(is_item).collect();
                let expected: Vec<&str> = all.iter().skip(skip).take(limit).copied().collect();
                assert_eq!(lines, expected, "{container} {options:?} {skip} {limit}");
            }
        }
    }
}

#[test]
fn dump_shows_bytes() {
    let folder = Folder::new();
    let path = folder.stf_file("a", Storage::PLAIN, &small());
    let run = on("dump", &path, &["--hex", "--skip", "3"]).clean();
    let expected = "4 0x0000000080000100 00b50863 beq a0, a1, 0x80000110  @0xb3 1f1001008000000000f06308b500\n    \
                    target 0x0000000080000110\n";
    assert_eq!(run.out, expected);
    let run = on("dump", &path, &["--hex", "--records", "--limit", "2"]).clean();
    assert_eq!(run.out, "0 0x00000000 identifier \"STF\"  01535446\n1 0x00000004 version 1.6  020100000006000000\n");
}

#[test]
fn dump_as_json() {
    let folder = Folder::new();
    let path = folder.stf_file("a", Storage::Zstf, &small());
    let lines = on("dump", &path, &["--json"]).clean().json();
    let second = json!({
        "kind": "instruction", "instruction": 2, "record": 13, "offset": 103, "address": "0x80000004", "opcode": "0x6188", "length": 2,
        "text": "ld a0, 0(a1)", "iem": "RV64", "mode": "machine", "target": null, "forced": false,
        "registers": [{"operand": "destination", "register": "v7", "value": "0x02020202020202020101010101010101"}],
        "memory": [{"access": "read", "address": "0x1000", "size": 8, "attributes": "0x0", "content": ["0x1234"]}],
    });
    let third = json!({
        "kind": "instruction", "instruction": 3, "record": 17, "offset": 149, "address": "0x80000006", "opcode": "0xe188", "length": 2,
        "text": "sd a0, 0(a1)", "iem": "RV64", "mode": "machine", "target": null, "forced": false,
        "events": [{"event": "fault", "name": "LOAD_PAGE_FAULT", "number": "0xd", "data": ["0x1000"],
                    "target": "0x80000100"}],
    });
    assert_eq!(lines[1..3], [second, third]);
    assert_eq!(lines[3]["target"], "0x80000110");
    assert_eq!(lines[0]["mode"], Value::Null);
    let lines = on("dump", &path, &["--json", "--records", "--hex"]).clean().json();
    let info = json!({
        "record": 5, "offset": 32, "kind": "trace_info", "generator": 6, "name": "Spike", "version": "1.2.3",
        "comment": "gen A", "hex": "0x0606010203050067656e2041",
    });
    let event = json!({
        "record": 11, "offset": 80, "kind": "event", "event": "mode", "name": "MODE_CHANGE",
        "number": "0x4000000000000000", "data": ["0x3"], "mode": "machine",
        "hex": "0x640000000000000040010300000000000000",
    });
    for expected in [info, event] {
        let number = expected["record"].as_u64().unwrap() as usize;
        assert_eq!(lines[number], expected);
    }
    assert_eq!(lines.len(), 22);
}

#[test]
fn info_as_text() {
    let folder = Folder::new();
    for (container, name, _) in CONTAINERS {
        let path = folder.stf_file(name, container, &small());
        let page = on("info", &path, &[]).clean().out;
        let lines = [
            "STF 1.6, ",
            "machine      RISC-V, RV64, rv64gcv, vectors of 128 bits",
            "features     0xc0020: RV64, VEC, EVENT64",
            "made by      Spike 1.2.3 gen A",
            "comment      a \\\"test\\\"",
            "start        0x80000000",
            "records      11 after the header",
            "instructions 4: 3 in machine mode",
            "faulted      1 instruction",
            "flow         2 with a target, 0 with a forced address",
            "accesses     1: 1 read, 0 writes",
            "events       1 LOAD_PAGE_FAULT, 1 MODE_CHANGE",
        ];
        lines.iter().for_each(|line| assert!(page.contains(line), "no {line:?} in {page}"));
        assert_eq!(page.contains("chunks       1, of 10 instructions each"), container == Storage::Zstf);
        let piped = unspool_with(&["info", "-"], &fs::read(&path).unwrap()).clean().out;
        let without =
            |page: &str| page.lines().filter(|line| !line.contains("chunks   ")).collect::<Vec<_>>().join("\n");
        assert_eq!(without(&piped), without(&page.replace(text(&path), "standard input")));
        let quick = on("info", &path, &["--quick"]).clean().out;
        assert!(quick.contains("STF 1.6") && !quick.contains("instructions 4"), "{quick}");
    }
    let page = on("info", &folder.path("a.zstf"), &["--json"]).clean().json().remove(0);
    let expected: &[(&str, Value)] = &[
        ("format", json!("stf")),
        ("container", json!("zstf")),
        ("version", json!("1.6")),
        ("isa_name", json!("RISC-V")),
        ("iem_name", json!("RV64")),
        ("vlen", json!(128)),
        ("extensions", json!("rv64gcv")),
        ("features", json!("0xc0020")),
        ("feature_names", json!(["RV64", "VEC", "EVENT64"])),
        ("generators", json!([{"generator": 6, "name": "Spike", "version": "1.2.3", "comment": "gen A"}])),
        ("address", json!("0x80000000")),
        ("header_records", json!(11)),
        ("chunks", json!({"count": 1, "instructions": 10})),
        ("records", json!(11)),
        ("instructions", json!(4)),
        ("executed", json!(3)),
        ("faulted", json!(1)),
        ("in_machine_mode", json!(3)),
        ("event_names", json!({"LOAD_PAGE_FAULT": 1, "MODE_CHANGE": 1})),
        ("warnings", json!([])),
        ("damage", Value::Null),
    ];
    for (key, value) in expected {
        assert_eq!(&page[key], value, "{key}");
    }
}

#[test]
fn stats_count_executed_instructions() {
    let folder = Folder::new();
    let path = folder.stf_file("a", Storage::GZIP, &small());
    let lines = [
        "4 instructions (3 executed, 1 faulted), 11 records after the header",
        "user mode    0, others 3",
        "accesses     1: 1 read, 0 writes",
        "int                            2   66.67%",
        "load                           1   33.33%",
        "c.ld                           1   33.33%",
        "beq                            1   33.33%",
    ];
    on("stats", &path, &[]).clean().shows(&lines);
    assert!(!on("stats", &path, &["--by", "class"]).clean().out.contains("c.ld"));
    assert!(!on("stats", &path, &["--by", "mnemonic"]).clean().out.contains("branch"));
    let lines = on("stats", &path, &["--json", "--by", "mnemonic"]).clean().json();
    assert_eq!(
        (&lines[0]["instructions"], &lines[0]["executed"], &lines[0]["faulted"]),
        (&4.into(), &3.into(), &1.into())
    );
    assert_fields(&lines[1], &json!({"kind": "mnemonic", "name": "beq", "count": 1, "share": 0.333333}));
    let classes = on("stats", &path, &["--json", "--by", "class"]).clean().json();
    assert!(classes.iter().any(|line| line["name"] == "arith" && line["count"] == 1), "{classes:?}");
}

#[test]
fn check_reports_violations() {
    let folder = Folder::new();
    let sound = folder.stf_file("sound", Storage::Zstf, &long(50));
    let run = on("check", &sound, &[]).clean();
    assert!(run.out.contains("nothing found") || run.out.contains(" 0 errors"), "{}", run.out);
    let mut bytes = long(3);
    // A target of an instruction that is not a branch, and execution that does not go there.
    bytes.extend(encode(&[Record::InstPcTarget(0x9000_0001), Record::InstOpcode32(0x13), Record::InstOpcode32(0x13)]));
    let path = folder.stf_file("broken", Storage::PLAIN, &bytes);
    on("check", &path, &[]).expect(1, &[]).shows(&[": record ", "(instruction 7)"]);
    let run = on("check", &path, &["--json"]).expect(1, &[]);
    let (summary, findings) = (run.json_summary(), run.json());
    let is_of_7 = |finding: &Value| finding["instruction"] == 7 && finding["severity"] == "error";
    assert!(findings.iter().any(is_of_7), "{findings:?}");
    assert!(summary["errors"].as_u64().unwrap() > 0);
    assert_eq!(summary["records"], json!(on("dump", &path, &["--records"]).clean().out.lines().count()));
    let limited = on("check", &path, &["--limit", "0", "--json"]).expect(1, &[]);
    assert_eq!((limited.json(), limited.json_summary()), (vec![], summary));
}

#[test]
fn conversion_keeps_records() {
    let folder = Folder::new();
    // Also a trace that does not end with an opcode, and an empty one.
    let open = [small(), encode(&[Record::Comment(b"trailing")])].concat();
    for (index, records) in [small(), long(5000), open, header(0x8_0020)].iter().enumerate() {
        for (from, name, _) in CONTAINERS {
            let input = folder.stf_file(&format!("{index}-{name}"), from, records);
            for (to, _, called) in CONTAINERS {
                let out = folder.path("out");
                on("convert", &input, &[text(&out), "--to", called, "-j", "2"]).clean();
                assert!(records_of(&out) == *records, "{index} {from} to {to}");
                let bytes = fs::read(&out).unwrap();
                assert_eq!(Storage::of(&bytes), Some(to));
                assert!(from != to || bytes == fs::read(&input).unwrap(), "{index} {from} is copied");
            }
        }
    }
    folder.assert_no_partial_file();
}

#[test]
fn the_name_selects_the_container() {
    let folder = Folder::new();
    let input = folder.stf_file("in", Storage::PLAIN, &long(20));
    for (container, name, _) in CONTAINERS {
        let out = folder.path(name);
        on("convert", &input, &[text(&out)]).clean();
        assert_eq!(Storage::of(&fs::read(&out).unwrap()), Some(container), "{name}");
    }
    let chunked = folder.path("chunked.zstf");
    on("convert", &input, &[text(&chunked), "--chunk", "7", "--compression", "1"]).clean();
    assert_eq!(fs::read(&chunked).unwrap()[4], 7);
    on("convert", &input, &["out.trace"]).expect(2, &["out.trace", "no known extension", "zstf"]);
    on("convert", &input, &["-"]).expect(2, &["--to stf, zstf"]);
    on("convert", &input, &["out.stf.gz", "--compression", "12"]).expect(2, &["--compression 12"]);
    on("convert", &input, &["-", "--to", "zstf"]).expect(2, &["cannot be written to a pipe"]);
    let piped = on("convert", &input, &["-", "--to", "stf"]).clean();
    assert_eq!(piped.out.len(), String::from_utf8_lossy(&long(20)).len());
}

#[test]
fn versions() {
    let folder = Folder::new();
    let input = folder.stf_file("in.zstf", Storage::Zstf, &small());
    let [old, new] = ["old.stf", "new.stf"].map(|name| folder.path(name));
    let losses = "1 × length of vector registers, 1 × list of extensions, 1 × vector register";
    // In alphabetical order.
    let run =
        on("convert", &input, &[text(&old), "--stf-version", "1.3", "--deny-loss"]).expect(1, &["has no field for"]);
    assert!(run.err.contains(losses) && run.err.contains("nothing was written"), "{}", run.err);
    assert_eq!(folder.names(), ["in.zstf"]);
    on("convert", &input, &[text(&old), "--stf-version", "1.3"]).expect(0, &["in.zstf: dropped:", losses]);
    let listing = on("dump", &old, &[]).clean().out;
    let expected: Vec<&str> = SMALL.lines().filter(|line| !line.contains(" v7 ")).collect();
    assert_eq!(listing.lines().collect::<Vec<_>>(), expected);
    let page = on("info", &old, &["--json"]).clean().json().remove(0);
    assert_fields(&page, &json!({"version": "1.3", "feature_names": ["RV64"]}));
    assert_eq!(page["generators"].as_array().unwrap().len(), 2);
    let records = on("dump", &old, &["--records", "--json"]).clean().json();
    let numbers: Vec<&Value> = records.iter().filter_map(|record| record.get("number")).collect();
    assert_eq!(numbers, ["0x40000000", "0xd"]);
    // And back: events are wide again.
    on("convert", &old, &[text(&new), "--stf-version", "1.6", "--deny-loss"]).clean();
    assert_eq!(on("dump", &new, &[]).clean().out, listing);
    let page = on("info", &new, &["--json"]).clean().json().remove(0);
    assert_eq!((&page["version"], &page["feature_names"]), (&json!("1.6"), &json!(["RV64", "EVENT64"])));
    on("convert", &input, &[text(&new), "--stf-version", "1.5"]).expect(2, &["1.5"]);
    // An event whose number needs more than 30 bits.
    let wide = [
        header(0x8_0020),
        encode(&[Record::Event(Event { raw: 1 << 40, is_wide: true, data: &[] }), Record::InstOpcode32(0x13)]),
    ];
    let wide = folder.stf_file("wide", Storage::PLAIN, &wide.concat());
    on("convert", &wide, &[text(&old), "--stf-version", "1.3"]).expect(0, &["1 × event whose number"]);
    assert_eq!(on("dump", &old, &[]).clean().out, "1 0x0000000080000000 00000013 nop\n");
}

#[test]
fn slices() {
    let folder = Folder::new();
    let trace = long(50);
    for (container, name, _) in CONTAINERS {
        let input = folder.stf_file(name, container, &trace);
        let out = folder.path("part.zstf");
        on("slice", &input, &[text(&out), "--force", "--skip", "33", "--limit", "20"]).clean();
        let page = on("info", &out, &["--json"]).clean().json().remove(0);
        assert_eq!((&page["instructions"], &page["address"]), (&json!(20), &json!("0x80000004")), "{name}");
        let addresses = |run: Run| -> Vec<Value> { run.json().iter().map(|line| line["address"].clone()).collect() };
        let of_part = addresses(on("dump", &out, &["--json"]).clean());
        let of_whole = addresses(on("dump", &input, &["--json", "--skip", "33", "--limit", "20"]).clean());
        assert_eq!(of_part, of_whole, "{name}");
        let checked = on("check", &out, &[]).clean().out;
        assert!(checked.contains("nothing found") || checked.contains(" 0 errors"), "{checked}");
        // By default, a slice is in the container of the trace.
        let like = folder.path("like");
        on("slice", &input, &[text(&like), "--force", "--limit", "3", "--unsigned"]).clean();
        assert_eq!(Storage::of(&fs::read(&like).unwrap()), Some(container), "{name}");
        assert_eq!(records_of(&like)[..], trace[..records_of(&like).len()]);
    }
    let input = folder.path("a.zstf");
    let out = folder.path("none.stf");
    on("slice", &input, &[text(&out), "--skip", "100"])
        .expect(2, &["no instruction is selected (100 instructions read)"]);
    on("slice", &input, &[text(&out), "--limit", "0"]).expect(2, &["no instruction is selected (0 instructions read)"]);
    assert!(!out.exists());
    on("slice", &input, &[text(&input)]).expect(2, &["write to another one"]);
    folder.assert_no_partial_file();
}

#[test]
fn truncated_files_are_reported() {
    let folder = Folder::new();
    let whole = small();
    let cut = folder.file("cut", &whole[..whole.len() - 3]);
    // The branch, which needs five bytes.
    let position = "cut: record 21 at offset 0xbc: ";
    let run = on("dump", &cut, &[]).expect(1, &[position, "the trace ends within a record"]);
    assert_eq!(run.out, SMALL[..SMALL.find("\n4 ").unwrap() + 1]);
    assert_eq!(on("dump", &cut, &["--records"]).expect(1, &[position]).out.lines().count(), 21);
    on("dump", &cut, &["--limit", "3"]).clean();
    for verb in ["check", "stats"] {
        on(verb, &cut, &[]).expect(1, &[position]);
    }
    let page = on("info", &cut, &[]).expect(1, &[]).out;
    assert!(page.contains(position) && page.contains("instructions 3"), "{page}");
    for options in [&["out.stf"][..], &["out.zstf"], &["out.stf", "--stf-version", "1.6"]] {
        let out = folder.path(options[0]);
        on("convert", &cut, &[&[text(&out)], &options[1..]].concat()).expect(1, &[position]);
    }
    assert_eq!(folder.names(), ["cut"], "no half file is left");
    on("slice", &cut, &[text(&folder.path("out.stf"))])
        .expect(1, &[position, "the slice ends where the trace is damaged"]);
    assert_eq!(on("dump", &folder.path("out.stf"), &[]).clean().out, run.out);
    on("slice", &cut, &[text(&folder.path("part.stf")), "--limit", "2"]).clean();
    assert_eq!(folder.names(), ["cut", "out.stf", "part.stf"], "no half file is left");
    // Within the header, and within the first record.
    for length in [2, 3, 4, 9, 60, 79] {
        let cut = folder.file("cut", &whole[..length]);
        for verb in ["dump", "info", "check", "stats"] {
            let run = on(verb, &cut, &[]).expect(1, &[]);
            let text = [run.err, run.out].concat();
            assert!(text.contains("at offset 0x") && text.contains("the trace ends within"), "{verb} {length}: {text}");
        }
    }
    for (container, name, _) in &CONTAINERS[1..] {
        let whole = fs::read(folder.stf_file(name, *container, &noisy(50_000))).unwrap();
        let cut = folder.file("cut", &whole[..whole.len() / 3]);
        let run = on("dump", &cut, &[]).expect(1, &["cut: record ", " at offset 0x"]);
        assert!(run.out.lines().count() > 100, "{name}: {}", run.out.lines().count());
    }
}

#[test]
fn damaged_files_are_reported() {
    let folder = Folder::new();
    let mut bytes = small();
    let position = bytes.len() - 14;
    bytes[position] = 77;
    let path = folder.file("unknown", &bytes);
    on("dump", &path, &[]).expect(1, &["unknown: record 20 at offset 0xb3: ", "descriptor 77"]);
    // A .zstf file without an index can be read, but is damaged.
    let zstf = fs::read(folder.stf_file("a.zstf", Storage::Zstf, &long(100))).unwrap();
    let mut unfinished = zstf.clone();
    unfinished[12..20].fill(0);
    let path = folder.file("unfinished", &unfinished);
    let run = on("dump", &path, &[]).expect(1, &["unfinished: the file was not finished"]);
    assert_eq!(run.out, on("dump", &folder.path("a.zstf"), &[]).clean().out);
    on("info", &path, &[]).expect(1, &[]).shows(&["warning      the file was not finished", "instructions 200"]);
    // Rewriting repairs it.
    let out = folder.path("mended.zstf");
    on("convert", &path, &[text(&out), "--chunk", "10"]).expect(1, &["not finished"]);
    assert!(fs::read(&out).unwrap() == zstf);
    on("convert", &path, &[text(&out)]).expect(1, &["not finished"]);
    on("check", &out, &[]).clean();
    let mut flipped = zstf;
    let position = flipped.len() / 3;
    flipped[position] ^= 0x10;
    let path = folder.file("flipped", &flipped);
    on("check", &path, &[]).expect(1, &[]);
    let mut future = small();
    future[5] = 2;
    on("dump", &folder.file("future", &future), &[]).expect(2, &["future: version 2.6"]);
    let mut newer = small();
    newer[9] = 9;
    on("dump", &folder.file("newer", &newer), &[]).expect(0, &["newer: version 1.9 is newer"]);
}

#[test]
fn a_header_without_an_end() {
    let folder = Folder::new();
    let mut bytes = header(0x8_0020);
    bytes.pop();
    bytes.extend(encode(&[Record::InstOpcode32(0x13)]));
    let path = folder.file("endless", &bytes);
    for verb in ["dump", "stats"] {
        on(verb, &path, &[]).expect(1, &["endless: record 10 at offset 0x4f: ", "before the end of the header"]);
    }
    assert_eq!(on("dump", &path, &["--records"]).clean().out.lines().count(), 11);
    on("check", &path, &[]).expect(1, &[]);
}

#[test]
fn transactions_and_trailing_records() {
    let folder = Folder::new();
    let open = [small(), encode(&[Record::Comment(b"trailing"), Record::ReserveEnd])].concat();
    let path = folder.stf_file("open", Storage::PLAIN, &open);
    let run = on("dump", &path, &[]).expect(0, &["open: after the last instruction: 1 record not shown"]);
    assert_eq!(run.out, SMALL);
    on("info", &path, &[]).clean().shows(&["records      13 after the header", "comments     1"]);
    let transactions = encode(&[
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 6 },
        Record::TraceInfoFeature(0x10_0000),
        Record::ProtocolId(1),
        Record::ClockId { id: 1, name: b"core" },
        Record::EndHeader,
        Record::TransactionDependency { id: 1, cycles: 2, clock: 1 },
    ]);
    // Channel E, with a sink.
    let transaction = [&[250][..], &1_u64.to_le_bytes(), &3_u64.to_le_bytes(), &[1, 0, 0, 5], &9_u64.to_le_bytes()];
    let path = folder.stf_file("t", Storage::Zstf, &[transactions, transaction.concat()].concat());
    let run = on("dump", &path, &[]).expect(0, &["t: a trace of transactions: 2 records not shown"]);
    assert_eq!(run.out, "");
    let run = on("dump", &path, &["--records"]).clean();
    assert!(run.out.ends_with("transaction 1 after 3 cycles of clock 1 channel E sink 0x9\n"), "{}", run.out);
    on("info", &path, &[]).clean().shows(&["transactions of TileLink", "transactions 1"]);
    on("slice", &path, &[text(&folder.path("x.stf")), "--skip", "1"]).expect(2, &["no transaction is selected"]);
    let part = folder.path("part.stf");
    on("slice", &path, &[text(&part), "--limit", "1", "--unsigned"]).clean();
    assert_eq!(records_of(&part), records_of(&path));
    on("convert", &path, &[text(&folder.path("x.stf")), "--stf-version", "1.3"])
        .expect(2, &["1.3 has no transactions"]);
    assert!(!folder.path("x.stf").exists());
}

#[test]
fn other_files_are_rejected() {
    let folder = Folder::new();
    let path = folder.file("notes.stf.gz", gzip("notes of a meeting"));
    for verb in ["dump", "check", "stats"] {
        on(verb, &path, &[]).expect(2, &["this is gzip-compressed data: text, but not a Tarmac log", "gunzip"]);
    }
    let path = folder.stf_file("a.stf", Storage::XZ, &long(3));
    for verb in ["frames", "packets", "elements", "decode"] {
        on(verb, &path, &[]).expect(2, &["this is an STF file, not a capture", "unspool dump"]);
    }
    on("stats", &folder.path("absent"), &[]).expect(2, &["absent", "(os error "]);
    on("slice", &folder.path("absent"), &["x.stf"]).expect(2, &["absent", "(os error "]);
}

#[test]
fn the_input_is_not_overwritten() {
    let folder = Folder::new();
    let path = folder.stf_file("a.stf", Storage::PLAIN, &long(3));
    let before = fs::read(&path).unwrap();
    let same = folder.path("./a.stf");
    for verb in ["dump", "check", "info", "stats"] {
        on(verb, &path, &["-o", text(&same)]).expect(2, &["write to another one"]);
    }
    for verb in ["convert", "slice"] {
        on(verb, &path, &[text(&same)]).expect(2, &["write to another one"]);
        let absent = folder.path("no/such/folder/out.stf");
        on(verb, &path, &[text(&absent)]).expect(2, &["cannot write", "out.stf", "os error"]);
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn readers_may_leave() {
    let folder = Folder::new();
    let path = folder.stf_file("long", Storage::Zstf, &long(200_000));
    let rows: &[&[&str]] = &[
        &["dump"],
        &["dump", "--json"],
        &["dump", "--records"],
        &["check"],
        &["info"],
        &["stats"],
        &["convert", "-", "--to", "stf"],
        &["slice", "-", "--to", "stf"],
    ];
    assert_readers_may_leave(&path, rows);
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    let folder = Folder::new();
    let [short, long] = [100_000, 1_500_000].map(long);
    for (container, name, _) in [CONTAINERS[0], CONTAINERS[2]] {
        let [short, long] = [("short", &short), ("long", &long)]
            .map(|(length, records)| folder.stf_file(&format!("{length}-{name}"), container, records));
        let verbs: &[&[&str]] = &[&["dump", "-o", "/dev/null"], &["stats"], &["check"], &["info"]];
        for verb in verbs {
            let peak = |path: &Path| on(verb[0], path, &verb[1..]).clean().peak.unwrap_or(0);
            let (of_short, of_long) = (peak(&short), peak(&long));
            assert!(of_long < of_short + (16 << 20), "{verb:?} {container}: {of_short} and {of_long} bytes");
        }
    }
}

#[test]
fn through_pipes() {
    let trace = long(20_000);
    let mut input = trace.clone();
    for (container, _, to) in CONTAINERS.iter().filter(|(container, _, _)| *container != Storage::Zstf) {
        let mut command = command();
        command.args(["convert", "-", "-", "--to", to]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let feed = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
        let mut output = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut output).unwrap();
        feed.join().unwrap().unwrap();
        assert_eq!(wait(&mut child).0, 0);
        assert_eq!(Storage::of(&output), Some(*container));
        let mut records = Vec::new();
        let read = Reader::new(Cursor::new(output.clone()), ReadOptions::default()).unwrap().each(|_, record| {
            record.encode(&mut records);
            std::ops::ControlFlow::Continue(())
        });
        assert!(!read.unwrap() && records == trace, "{container}");
        input = output;
    }
}

/// A file of eight chunks with ten instructions each, and the offsets of its chunks and of its index.
fn chunked(folder: &Folder) -> (Vec<u8>, Vec<usize>) {
    let file = fs::read(folder.stf_file("whole.zstf", Storage::Zstf, &long(40))).unwrap();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let end = word(12);
    let mut offsets: Vec<usize> = (0..word(end)).map(|chunk| word(end + 8 + 24 * chunk)).collect();
    offsets.push(end);
    assert_eq!(offsets.len(), 9);
    (file, offsets)
}

#[test]
fn chunks_after_a_damaged_one_are_read() {
    let folder = Folder::new();
    let (file, offsets) = chunked(&folder);
    let whole: Vec<String> =
        on("dump", &folder.path("whole.zstf"), &[]).clean().out.lines().map(str::to_string).collect();
    let numbers = |text: &str| -> Vec<u64> {
        let first = |line: &str| line.split(' ').next().unwrap().parse().ok();
        text.lines().filter_map(first).collect()
    };
    // The magic number of the frame, its header, and half of its contents: frames have no checksum, so that a single byte
    // may only change an address.
    let middle = (offsets[3] + offsets[4]) / 2;
    for (at, end) in [(offsets[3], offsets[3] + 1), (offsets[3] + 4, offsets[3] + 5), (middle, offsets[4])] {
        let mut damaged = file.clone();
        damaged[at..end].iter_mut().for_each(|byte| *byte ^= 0xff);
        let path = folder.file("damaged.zstf", &damaged);
        let named = ["damaged.zstf: chunk 3, byte 0x", "instructions are lost; reading resumes at chunk 4"];
        let run = on("dump", &path, &[]).expect(1, &named);
        let found = numbers(&run.out);
        let read: Vec<u64> = (1..=80).filter(|number| !(31..=40).contains(number) || found.contains(number)).collect();
        assert_eq!(found, read, "{at:#x}");
        // Every line is one of the whole file: no address is invented.
        for line in run.out.lines().filter(|line| !line.starts_with(' ')) {
            let number: u64 = line.split(' ').next().unwrap().parse().unwrap();
            let is_damaged = (31..=40).contains(&number);
            assert!(is_damaged || whole.iter().any(|other| other == line), "{at:#x}: {line}");
        }
        for (verb, options) in [("stats", &[][..]), ("check", &[]), ("check", &["--steps"]), ("info", &[])] {
            let run = on(verb, &path, options).expect(1, &[]);
            let text = [run.out, run.err].concat();
            assert!(text.contains("chunk 3, byte 0x"), "{verb} {options:?} {at:#x}: {text}");
        }
        let page = on("info", &path, &["--json"]).expect(1, &[]).json().remove(0);
        assert_eq!(page["instructions"], found.len(), "{at:#x}");
        let counts = on("stats", &path, &["--json"]).expect(1, &[]).json().remove(0);
        assert_eq!(counts["instructions"], found.len(), "{at:#x}");
        // Records are copied up to the damage only, and such a copy is not kept.
        on("convert", &path, &[text(&folder.path("rest.stf"))]).expect(1, &["chunk 3, byte 0x"]);
        assert!(!folder.path("rest.stf").exists());
    }
}

#[test]
fn damage_that_leaves_no_further_chunk_is_the_end() {
    let folder = Folder::new();
    let (file, offsets) = chunked(&folder);
    let mut damaged = file.clone();
    damaged[(offsets[7] + offsets[8]) / 2] ^= 0xff;
    damaged[offsets[7]] ^= 0xff;
    let run = on("dump", &folder.file("last.zstf", &damaged), &[]).expect(1, &["chunk 7, byte 0x"]);
    assert!(run.out.lines().any(|line| line.starts_with("70 ")), "{}", run.out);
    // Truncated within a chunk: the index is lost, and the rest is not there.
    let cut = folder.file("cut.zstf", &file[..(offsets[5] + offsets[6]) / 2]);
    on("dump", &cut, &[]).expect(1, &["chunk 5, byte 0x"]).shows(&["\n50 "]);
    // A deleted chunk moves all others and the index, which is noticed.
    let without = [&file[..offsets[2]], &file[offsets[3]..]].concat();
    on("dump", &folder.file("deleted.zstf", &without), &[]).expect(1, &["the index of the file is damaged"]);
}
