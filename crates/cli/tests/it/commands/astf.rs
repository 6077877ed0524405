//! ASTF files: listed, checked, converted and summarized; truncated and damaged ones.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use unspool::astf::record::{
    Context, Header, Instruction, Level, Record, Storage, StringContinuation, StringStart, Timestamp,
};
use unspool::astf::write::{WriteOptions, Writer};
use unspool::astf::{Bytes, example};
use unspool_testing::Random;

use crate::run::{Folder, Run, assert_fields, assert_readers_may_leave, command, on, text, unspool_with, wait};

const STORAGES: [(Storage, &str); 3] = [(Storage::Raw, "raw"), (Storage::Lzma, "lzma"), (Storage::Zlib, "zlib")];

impl Folder {
    /// Writes records after a header.
    fn astf_file(&self, name: &str, header: &Header, records: &[Bytes]) -> PathBuf {
        let path = self.path(name);
        let mut writer = Writer::new(File::create(&path).unwrap(), header, WriteOptions::default()).unwrap();
        writer.write(records).unwrap();
        writer.finish().unwrap();
        path
    }

    /// The example, which has records of several kinds.
    fn example(&self, storage: Storage) -> PathBuf {
        self.astf_file(&format!("example-{storage:?}"), &example::header().stored(storage), &example::records()[1..])
    }
}

/// Valid trace of a loop.
fn long(records: usize) -> Vec<Bytes> {
    let nop = |pc| Instruction { pc, iword: 0xd503_201f, ..Default::default() };
    // b to the instruction before it
    let back =
        Instruction { pc: 0x1004, iword: 0x17ff_ffff, is_branch: true, ea_valid: true, ea: 0x1000, ..nop(0x1004) };
    let turn = [nop(0x1000).to_bytes(), back.to_bytes()];
    let start = [Context::default().to_bytes()];
    start.into_iter().chain(turn.into_iter().cycle()).take(records).collect()
}

fn raw() -> Header {
    Header::new(Level::BasicPlus, false, Storage::Raw)
}

#[test]
fn dump_as_text() {
    let folder = Folder::new();
    let expected = include_str!("../../../../astf/tests/it/data/example.txt");
    for (storage, name) in STORAGES {
        let path = folder.example(storage);
        let mode = if name == "zlib" { "Zlib".to_string() } else { name.to_uppercase() };
        let expected = expected.replacen("LZMA", &mode, 1);
        assert_eq!(on("dump", &path, &[]).clean().out, expected);
        assert_eq!(unspool_with(&["dump", "-"], &fs::read(&path).unwrap()).clean().out, expected);
    }
    let path = folder.example(Storage::Lzma);
    let lines: Vec<&str> = expected.lines().collect();
    for (skip, limit) in [(0, 1), (1, 2), (5, 100), (20, 1), (21, 1), (100, 1), (3, 0)] {
        let run = on("dump", &path, &["--skip", &skip.to_string(), "--limit", &limit.to_string()]).clean();
        let expected: Vec<&str> = lines.iter().skip(skip).take(limit).copied().collect();
        assert_eq!(run.out.lines().collect::<Vec<_>>(), expected, "{skip} {limit}");
    }
    let out = folder.path("out.txt");
    assert_eq!(on("dump", &path, &["-o", text(&out)]).clean().out, "");
    assert_eq!(fs::read_to_string(out).unwrap(), expected);
}

#[test]
fn dump_shows_bytes() {
    let folder = Folder::new();
    let run = on("dump", &folder.example(Storage::Zlib), &["--hex", "--skip", "3", "--limit", "1"]).clean();
    let expected = "0x00000060  4501000000000000 6400000000000000 0000000000000000 0000000000000000  \
                    4 timestamp : Value: 100\n";
    assert_eq!(run.out, expected);
    let run = on("dump", &folder.example(Storage::Zlib), &["--hex", "--json", "--skip", "3", "--limit", "1"]).clean();
    assert_eq!(run.json()[0]["hex"], format!("0x45010000000000006400000000000000{}", "00".repeat(16)));
}

#[test]
fn dump_as_json() {
    let folder = Folder::new();
    let lines = on("dump", &folder.example(Storage::Lzma), &["--json"]).clean().json();
    assert_eq!(lines.len(), 21);
    let header = json!({
        "record": 1, "offset": 0, "kind": "header", "magic_header": "STF", "version_major": 0, "version_minor": 11,
        "compressed": true, "use_zlib": false, "reginfo": false, "meminfo": false, "addrinfo_d": false,
        "addrinfo_i": false, "pseudo": false, "single_el": false, "timestamps": true,
    });
    let context = json!({
        "record": 5, "offset": 128, "kind": "context", "pstate_sm": false, "pstate_dit": false, "pstate_ssbs": true,
        "evl": 0, "unsupported": false, "mte_tcf": 1, "el": 0, "secure": false, "handler": false, "pid_valid": true,
        "tid_valid": true, "pid": 29192, "tid": 29197,
    });
    let branch = json!({
        "record": 7, "offset": 192, "kind": "instruction", "xattr_mode": 0, "ea_tagged": false, "trap": false,
        "is_branch": true, "is_read": false, "is_write": false, "ea_valid": false, "extra_eas": false, "ea_size": 0,
        "iword": "0x54fffde1", "address": "0x836e12c", "ea": "0x0", "text": "b.ne 0x836e0e8",
    });
    let extra = json!({
        "record": 14, "offset": 416, "kind": "extra_ea", "mem0_tagged": true, "mem0_is_read": true,
        "mem0_is_write": false, "mem0_size": 3, "mem0_addr": "0xa4330b766000", "mem1_valid": false,
        "extra_eas": false, "mem1_addr_range": false, "mem1_tagged": false, "mem1_is_read": false,
        "mem1_is_write": false, "mem1_size": 0, "mem1_addr": "0x0",
    });
    let trap = json!({
        "record": 16, "offset": 480, "kind": "trap", "trap_type": 0, "syscall_type": 0, "is_virtual": false,
        "ec": 0x24, "syscall_index": 0, "target_pc": "0xffff7dfffe7fc400",
    });
    let string = json!({
        "record": 2, "offset": 32, "kind": "string", "size": 44, "string": "An example that has records ",
    });
    let rest = json!({"record": 3, "offset": 64, "kind": "string_continuation", "string": "of several kinds"});
    let time = json!({"record": 4, "offset": 96, "kind": "timestamp", "unit": 1, "time": 100});
    for expected in [header, context, branch, extra, trap, string, rest, time] {
        let number = expected["record"].as_u64().unwrap() as usize;
        assert_eq!(lines[number - 1], expected);
    }
    assert_eq!(lines[8]["ea_range"], 0x10);
    assert_fields(&lines[20], &json!({"sme_index": 5, "text": "ldr za[w12, #0x4], [x0, #0x4, mul vl]"}));
}

#[test]
fn dump_of_reserved_and_unknown_values() {
    let folder = Folder::new();
    let mut string = [0; 28];
    string[..4].copy_from_slice(b"\xff\x00\"x");
    let mut more = [0; 31];
    more[..3].copy_from_slice(b"\n\x1bz");
    let records = [
        [0x99; 32],
        StringStart { size: 3, string, reserved8: 7 }.to_bytes(),
        StringStart { size: 30, string: [b'a'; 28], ..Default::default() }.to_bytes(),
        StringContinuation { string: more }.to_bytes(),
        Timestamp { unit: 1, reserved32: 9, ..Default::default() }.to_bytes(),
    ];
    let path = folder.astf_file("odd", &raw(), &records);
    let run = on("dump", &path, &[]).clean();
    let words = ["2 unknown   : type 0x99 9999", "\"\\xff\\0\\\"\" reserved string=0x78 reserved reserved8=0x7"];
    words.iter().for_each(|word| assert!(run.out.contains(word), "no {word} in {}", run.out));
    assert!(run.out.contains("6 timestamp : Value: 0 reserved reserved32=0x9"), "{}", run.out);
    let lines = on("dump", &path, &["--json"]).clean().json();
    let expected = [
        json!({"record": 2, "offset": 32, "kind": "unknown", "bytes": format!("0x{}", "99".repeat(32))}),
        json!({"record": 3, "offset": 64, "kind": "string", "reserved8": 7, "size": 3, "bytes": "0xff0022",
               "reserved": format!("0x78{}", "00".repeat(24))}),
        json!({"record": 4, "offset": 96, "kind": "string", "size": 30, "string": "a".repeat(28)}),
        json!({"record": 5, "offset": 128, "kind": "string_continuation", "string": "\n\u{1b}",
               "reserved": format!("0x7a{}", "00".repeat(28))}),
        json!({"record": 6, "offset": 160, "kind": "timestamp", "unit": 1, "reserved32": 9, "time": 0}),
    ];
    assert_eq!(lines[1..], expected);
}

#[test]
fn conversion_keeps_records() {
    let folder = Folder::new();
    let all = [example::records()[1..].to_vec(), long(100_000), vec![]];
    for (index, records) in all.iter().enumerate() {
        let header = Header { reserved64: 0x1234, ..example::header() };
        let plain = folder.astf_file(&format!("{index}.plain"), &header.stored(Storage::Raw), records);
        let expected = fs::read(&plain).unwrap();
        for (from, from_name) in STORAGES {
            let input = folder.astf_file(&format!("{index}.{from_name}"), &header.stored(from), records);
            for (to, to_name) in STORAGES {
                let [there, back] = ["there", "back"].map(|name| folder.path(name));
                on("convert", &input, &[text(&there), "--to", to_name]).clean();
                let found = fs::read(&there).unwrap();
                assert_eq!(found[..32], header.stored(to).to_bytes());
                assert!(from != to || found == fs::read(&input).unwrap(), "{from_name}");
                on("convert", &there, &[text(&back), "--to", "raw", "-j", "1", "--compression", "9"]).clean();
                assert!(fs::read(&back).unwrap() == expected, "{from_name} to {to_name}");
            }
        }
    }
    folder.assert_no_partial_file();
}

#[test]
fn the_name_selects_the_storage() {
    let folder = Folder::new();
    let input = folder.example(Storage::Raw);
    for (name, storage) in [
        ("a.astf", Storage::Raw),
        ("a.astf.xz", Storage::Lzma),
        ("a.astf.lzma", Storage::Lzma),
        ("a.astf.gz", Storage::Zlib),
        ("a.astf.zz", Storage::Zlib),
    ] {
        let path = folder.path(name);
        on("convert", &input, &[text(&path)]).clean();
        assert_eq!(fs::read(&path).unwrap()[..32], example::header().stored(storage).to_bytes(), "{name}");
    }
    on("convert", &input, &["out.trace"]).expect(2, &["out.trace", "no known extension", "tarmac.zst"]);
    on("convert", &input, &["-"]).expect(2, &["--to raw, lzma or zlib"]);
    on("convert", &input, &["a.astf", "--to", "rar"]).expect(2, &["rar"]);
    on("convert", &input, &["a.astf", "--compression", "10"]).expect(2, &["10"]);
}

#[test]
fn through_pipes() {
    let folder = Folder::new();
    let input = folder.astf_file("long", &raw(), &long(50_000));
    for (_, to) in STORAGES {
        let mut first = command();
        first.args(["convert", "-", "-", "--to", to]).stdin(File::open(&input).unwrap()).stdout(Stdio::piped());
        let mut first = first.spawn().unwrap();
        let mut second = command();
        second.args(["convert", "-", "-", "--to", "raw"]).stdin(first.stdout.take().unwrap()).stdout(Stdio::piped());
        let mut second = second.spawn().unwrap();
        let mut bytes = Vec::new();
        second.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!([wait(&mut first).0, wait(&mut second).0], [0, 0]);
        assert!(bytes == fs::read(&input).unwrap(), "{to}");
    }
}

#[test]
fn readers_may_leave() {
    let folder = Folder::new();
    let path = folder.astf_file("long", &raw().stored(Storage::Lzma), &long(500_000));
    let rows: &[&[&str]] =
        &[&["dump"], &["dump", "--json"], &["dump", "--hex"], &["check"], &["info"], &["convert", "-", "--to", "raw"]];
    assert_readers_may_leave(&path, rows);
}

#[test]
fn check_finds_nothing_in_the_example() {
    let folder = Folder::new();
    for (storage, _) in STORAGES {
        let path = folder.example(storage);
        let run = on("check", &path, &["--strict"]).clean();
        assert_eq!(run.out, format!("{}: 21 records, 16 steps, nothing found\n", path.display()));
    }
    let path = folder.example(Storage::Lzma);
    let run = on("check", &path, &["--json"]).clean();
    let files = json!([{"file": path.display().to_string(), "errors": 0, "warnings": 0}]);
    let summary = json!({"kind": "summary", "schema": 1, "verb": "check", "clean": true, "files": files, "records": 21, "steps": 16, "gaps": 0, "repeats": 0, "errors": 0, "warnings": 0, "rules": {}});
    assert_eq!((run.json(), run.json_summary()), (vec![], summary));
}

#[test]
fn check_reports_violations() {
    let folder = Folder::new();
    let mut records = long(9);
    // Three jumps without a branch.
    for (index, pc) in [(3, 0x8000_u64), (5, 0x9000), (7, 0xa000)] {
        let nop = Instruction { pc, iword: 0xd503_201f, ..Default::default() };
        records[index] = nop.to_bytes();
    }
    let path = folder.astf_file("broken", &raw(), &records);
    let run = on("check", &path, &[]).expect(1, &[]);
    let position = format!("{}: record 5 at offset 0x80: error: astf-pc-continuity: ", path.display());
    assert!(run.out.starts_with(&position), "{}", run.out);
    let found = |run: &Run| run.out.lines().filter(|line| line.contains(": astf-pc-continuity: ")).count();
    assert!(found(&run) >= 3, "{}", run.out);
    assert!(run.out.contains("10 records, "), "{}", run.out);
    assert!(run.out.contains(" error   astf-"), "{}", run.out);
    // The same findings in steps are not repeated.
    assert!(!run.out.contains("step-pc-continuity"), "{}", run.out);
    assert!(run.out.lines().last().unwrap().contains(" more findings in steps repeat one above"), "{}", run.out);
    assert_eq!(found(&on("check", &path, &["--limit", "1"]).expect(1, &[])), 1);

    let run = on("check", &path, &["--json"]).expect(1, &[]);
    let (summary, findings) = (run.json_summary(), run.json());
    let first = &findings[0];
    assert_fields(first, &json!({"record": 5, "offset": 0x80, "rule": "astf-pc-continuity", "severity": "error"}));
    let of_rule = findings.iter().filter(|finding| finding["rule"] == "astf-pc-continuity").count();
    assert_eq!(summary["rules"]["astf-pc-continuity"], of_rule);
}

#[test]
fn warnings_are_errors_only_if_strict() {
    let folder = Folder::new();
    let mut records = example::records();
    let last = records.len() - 1;
    let Record::Instruction(instruction) = Record::from_bytes(&records[last]) else { panic!("no instruction") };
    records[last] = Instruction { reserved6: 1, ..instruction }.to_bytes();
    let path = folder.astf_file("odd", &example::header(), &records[1..]);
    on("check", &path, &[]).clean().shows(&[
        "record 21 at offset 0x280: warning: astf-reserved-zero: ",
        "21 records, 16 steps, 0 errors, 1 warning\n",
    ]);
    on("check", &path, &["--strict"]).expect(1, &[]);
}

#[test]
fn info_as_text() {
    let folder = Folder::new();
    let path = folder.example(Storage::Lzma);
    let page = on("info", &path, &[]).clean().out;
    let size = fs::metadata(&path).unwrap().len();
    let lines = [
        "ASTF 0.11, BasicPlus level, stored as LZMA",
        "features     timestamps",
        &format!("size         {size} bytes for 21 records of 672 bytes, "),
        "records      1 header, 11 instruction, 1 extra_ea, 1 trap, 3 context, 1 string, 1 string_continuation, 2 timestamp",
        "instructions 11: 9 at EL0, 2 at EL1",
        "branches     2: 1 taken, 1 not taken",
        "accesses     4 reads of 88 bytes, 3 writes of 112 bytes",
        "1 neither, 5 of all with tags",
        "trapped      1 instruction",
        "traps        1 synchronous",
        "contexts     1 x EL0 nonsecure, 1 x EL1 nonsecure, 1 x EL1 nonsecure streaming",
        "processes    PID 29192 (1 thread)",
        "time         100 to 102 us, 2 us",
        "string       An example that has records of several kinds",
    ];
    lines.iter().for_each(|line| assert!(page.contains(line), "no {line:?} in {page}"));
    let piped = unspool_with(&["info", "-"], &fs::read(&path).unwrap()).clean().out;
    assert_eq!(piped, page.replace(text(&path), "standard input"));
    let quick = on("info", &path, &["--quick"]).clean().out;
    assert!(quick.contains("stored as LZMA") && !quick.contains("instructions"), "{quick}");
}

#[test]
fn info_as_json() {
    let folder = Folder::new();
    let page = on("info", &folder.example(Storage::Zlib), &["--json"]).clean().json().remove(0);
    let expected: &[(&str, Value)] = &[
        ("format", json!("astf")),
        ("version", json!("0.11")),
        ("level", json!("basicplus")),
        ("storage", json!("zlib")),
        ("features", json!(["timestamps"])),
        ("records", json!(21)),
        ("unpacked_bytes", json!(672)),
        ("instructions", json!(11)),
        ("instructions_at_el", json!([9, 2, 0, 0])),
        ("branches", json!({"taken": 1, "not_taken": 1})),
        ("reads", json!({"count": 4, "bytes": 88})),
        ("writes", json!({"count": 3, "bytes": 112})),
        ("pids", json!([29192])),
        ("first_time", json!(100)),
        ("last_time", json!(102)),
        ("strings", json!(["An example that has records of several kinds"])),
        ("warnings", json!([])),
        ("damage", Value::Null),
    ];
    for (key, value) in expected {
        assert_eq!(&page[key], value, "{key}");
    }
    assert_eq!(page["types"]["extra_ea"], 1);
    assert_eq!(page["traps"]["synchronous"], 1);
}

#[test]
fn truncated_files_are_reported() {
    let folder = Folder::new();
    let whole = fs::read(folder.astf_file("whole", &raw(), &long(100))).unwrap();
    let cut = folder.file("cut", &whole[..32 * 50 + 7]);
    let position = "cut: record 51 at offset 0x640: ";
    let run = on("dump", &cut, &[]).expect(1, &[position, "7 of its 32 bytes"]);
    assert_eq!(run.out.lines().count(), 50);
    assert_eq!(on("dump", &cut, &["--json"]).expect(1, &[position]).json().len(), 50);
    on("dump", &cut, &["--limit", "50"]).clean();
    on("check", &cut, &[]).expect(1, &[position]).shows(&["50 records"]);
    let page = on("info", &cut, &[]).expect(1, &[]).out;
    assert!(page.contains(position) && page.contains("50 records"), "{page}");
    let out = folder.path("out.astf");
    on("convert", &cut, &[text(&out)]).expect(1, &[position]);
    assert_eq!(folder.names(), ["cut", "whole"], "no half file is left");

    for (storage, name) in &STORAGES[1..] {
        let whole = fs::read(folder.astf_file(name, &raw().stored(*storage), &long(300_000))).unwrap();
        let cut = folder.file("cut", &whole[..whole.len() - whole.len() / 4]);
        let run = on("dump", &cut, &[]).expect(1, &["cut: record "]);
        assert!(run.out.lines().count() > 1000, "{name}: {}", run.out.lines().count());
    }
    // Truncated headers; a single byte can be anything.
    on("dump", &folder.file("cut", &whole[..1]), &[]).expect(2, &["cut: this is "]);
    for length in [4, 31] {
        let cut = folder.file("cut", &whole[..length]);
        let run = on("dump", &cut, &[]).expect(1, &["cut: record 1 at offset 0x0: ", "of its 32 bytes"]);
        assert_eq!(run.out, "");
    }
}

#[test]
fn wrong_headers_are_reported() {
    let folder = Folder::new();
    let mut bytes = fs::read(folder.example(Storage::Raw)).unwrap();
    bytes[..32].copy_from_slice(&example::header().to_bytes());
    let path = folder.file("lies", &bytes);
    for verb in ["dump", "check", "info"] {
        on(verb, &path, &[]).expect(1, &["lies: record 2 at offset 0x20: the header declares", "LZMA"]);
    }
    on("convert", &path, &[text(&folder.path("out.astf"))]).expect(1, &["the header declares"]);
    let newer = Header { version_minor: 99, ..raw() };
    let path = folder.astf_file("newer", &newer, &long(3));
    on("dump", &path, &[]).expect(0, &["newer: version 0.99 is newer"]);
    assert!(on("info", &path, &[]).clean().out.contains("warning      version 0.99"));
    let path = folder.astf_file("future", &Header { version_major: 1, ..raw() }, &long(3));
    on("dump", &path, &[]).expect(2, &["future: version 1"]);
}

#[test]
fn other_files_are_rejected() {
    let folder = Folder::new();
    let rows: &[(&str, &[u8], &str)] = &[
        (
            "text",
            b"These are the notes of a meeting, not trace.",
            "this is text, but not a Tarmac log; use --dialect to read it as a Tarmac log",
        ),
        ("zip", b"PK\x03\x04 and so on", "zip archive"),
        ("gzip", b"\x1f\x8b\x08\x00 and so on", "this is a damaged or empty gzip file"),
        ("empty", b"", "this is an empty file"),
    ];
    for (name, bytes, word) in rows {
        let path = folder.file(name, bytes);
        for verb in ["dump", "check"] {
            assert_eq!(on(verb, &path, &[]).expect(2, &[name, word]).out, "");
            unspool_with(&[verb, "-"], bytes).expect(2, &["standard input", word]);
        }
        let word = word.replace("--dialect", "--from tarmac");
        on("convert", &path, &[text(&folder.path("out.astf"))]).expect(2, &[name, &word]);
        assert!(!folder.path("out.astf").exists());
    }
    let directory = folder.root();
    on("dump", directory, &[]).expect(2, &["this is a directory with no snapshot.ini"]);
    on("check", directory, &[]).expect(2, &["snapshot.ini"]);
    for verb in ["dump", "check"] {
        on(verb, &folder.path("absent"), &[]).expect(2, &["absent", "(os error "]);
    }
    on("convert", &folder.path("absent"), &["x.astf"]).expect(2, &["absent", "(os error "]);
    unspool_with(&["info", "-"], b"no trace").expect(2, &["standard input: this is text, but not a Tarmac log"]);
    // Verbs for captures reject ASTF.
    let path = folder.example(Storage::Raw);
    for verb in ["frames", "packets", "elements", "decode"] {
        on(verb, &path, &[]).expect(2, &["this is an ASTF file, not a capture", "unspool dump"]);
    }
}

#[test]
fn the_input_is_not_overwritten() {
    let folder = Folder::new();
    let path = folder.example(Storage::Raw);
    let before = fs::read(&path).unwrap();
    let same = folder.path("./example-Raw");
    for verb in ["dump", "check", "info"] {
        on(verb, &path, &["-o", text(&same)]).expect(2, &["write to another one"]);
    }
    on("convert", &path, &[text(&same), "--to", "zlib"]).expect(2, &["write to another one"]);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn unwritable_files_are_reported() {
    let folder = Folder::new();
    let path = folder.example(Storage::Raw);
    let absent = folder.path("no/such/folder/out.astf");
    for verb in ["dump", "check", "info"] {
        on(verb, &path, &["-o", text(&absent)]).expect(2, &["cannot write", "out.astf", "os error"]);
    }
    on("convert", &path, &[text(&absent)]).expect(2, &["cannot write", "out.astf", "os error"]);
    on("convert", &path, &[text(folder.root()), "--to", "raw"]).expect(2, &["cannot write", "os error"]);
    // A disk that is full, and one that never is.
    if Path::new("/dev/full").exists() {
        on("convert", &path, &["/dev/full", "--to", "raw"]).expect(2, &["cannot write /dev/full", "os error"]);
        on("dump", &path, &["-o", "/dev/full"]).expect(2, &["cannot write /dev/full", "os error"]);
        on("convert", &path, &["/dev/null", "--to", "zlib"]).clean();
    }
    assert_eq!(folder.names(), ["example-Raw"]);
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link() {
    let folder = Folder::new();
    let path = folder.example(Storage::Raw);
    let [file, link] = ["old.astf", "link.astf"].map(|name| folder.path(name));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    on("convert", &path, &[text(&link)]).clean();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&file).unwrap(), fs::read(&path).unwrap());
}

#[test]
fn any_number_of_threads_lists_the_same() {
    let folder = Folder::new();
    let (log, path) = (folder.path("a.tarmac"), folder.path("a.astf"));
    let mut numbers = Random::new(5);
    let lines = (1..40_000).map(|at| {
        let (address, opcode) = (0x8000 + 4 * at, 0x9100_0000 | (numbers.bits() as u32 % 1024));
        format!("{at} clk IT ({at}) {address:08x} {opcode:08x} O EL0t_n : ADD\n")
    });
    fs::write(&log, lines.collect::<String>()).unwrap();
    on("convert", &log, &["-o", text(&path)]).expect(0, &["39,999 × times"]);
    for options in
        [&[][..], &["--json"], &["--hex"], &["--skip", "9000", "--limit", "20000"], &["--address", "0x9000..0x10000"]]
    {
        let list = |jobs: &str| on("dump", &path, &[options, &["-j", jobs]].concat()).clean().out;
        let one = list("1");
        assert!(one.lines().count() > 4_000, "{options:?}");
        assert!(list("2") == one && list("4") == one, "{options:?}");
    }
}
