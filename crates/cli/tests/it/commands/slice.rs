//! `slice` on every format and by every selector: slices follow the rules of their format.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool::astf::Bytes;
use unspool::astf::builder::{Builder, Call, CallKind, Effect, Exception, State, Step};
use unspool::astf::record::{Header, Level, Storage};
use unspool::stf;

use super::elf;
use crate::run::{Folder, Run, gzip, on, text, unspool};

const NOP: u32 = 0xd503_201f;
const RET: u32 = 0xd65f_03c0;

fn slice(input: &Path, output: &Path, options: &[&str]) -> Run {
    unspool(&[&["slice", text(input), text(output), "--force"], options].concat())
}

/// `main` (0x1000) calls `leaf` (0x2000) twice: address, opcode, branch target.
const CALLS: [(u64, u32, Option<u64>); 9] = [
    (0x1000, NOP, None),
    // bl 0x2000
    (0x1004, 0x9400_03ff, Some(0x2000)),
    (0x2000, NOP, None),
    (0x2004, RET, Some(0x1008)),
    (0x1008, NOP, None),
    // bl 0x2000
    (0x100c, 0x9400_03fd, Some(0x2000)),
    (0x2000, NOP, None),
    (0x2004, RET, Some(0x1010)),
    (0x1010, NOP, None),
];

fn astf_of(level: Level, calls: &[(u64, u32, Option<u64>)]) -> Vec<Bytes> {
    let mut trace = Builder::new(Vec::new(), &Header::new(level, true, Storage::Raw)).unwrap();
    trace.string(b"title").unwrap();
    for (time, (pc, opcode, target)) in (100..).step_by(10).zip(calls) {
        trace.timestamp(time).unwrap();
        if time == 100 {
            trace.context(&State::default()).unwrap();
        }
        let effect = target.map_or(Effect::None, Effect::Taken);
        trace.instruction(&Step { effect, ..Step::plain(*pc, *opcode) }).unwrap();
    }
    trace.finish()
}

fn astf(folder: &Folder, name: &str, level: Level) -> PathBuf {
    folder.file(name, astf_of(level, &CALLS).as_flattened())
}

fn tarmac(folder: &Folder) -> PathBuf {
    let line = |(index, (pc, opcode, _)): (usize, &(u64, u32, Option<u64>))| {
        let time = 100 + 10 * index;
        format!("{time}.5 ns IT ({}) {pc:08x} {opcode:08x} O EL1h_s : word\n{time}.5 ns R X0 {index:016x}\n", index + 1)
    };
    let lines: String = CALLS.iter().enumerate().map(line).collect();
    folder.file("in.tarmac", lines.as_bytes())
}

fn stf(folder: &Folder) -> PathBuf {
    let mut trace = stf::builder::Builder::new(Vec::new(), &stf::builder::Header::new(0x1000)).unwrap();
    // The same of RISC-V: addi, jal, ret
    for (pc, opcode, target) in CALLS {
        let step = match (opcode, target) {
            (NOP, _) => stf::builder::Step::plain(pc, 0x13),
            (RET, Some(target)) => stf::builder::Step::taken(pc, 0x8067, target),
            (_, target) => {
                stf::builder::Step::taken(pc, if pc == 0x1004 { 0x7fd0_00ef } else { 0x7f50_00ef }, target.unwrap())
            }
        };
        trace.instruction(&step).unwrap();
    }
    folder.file("in.stf", &trace.finish().sink)
}

fn image(folder: &Folder) -> String {
    let program = elf::program(0x1000, &[0; 0x1008], &[("main", 0x1000, 0x14), ("leaf", 0x2000, 8)]);
    text(&folder.file("program.elf", &program)).to_string()
}

/// Addresses of the instructions in a dump.
fn addresses(path: &Path) -> Vec<u64> {
    let lines = unspool(&["dump", text(path), "--json"]).json();
    let key = |line: &Value| match (&line["kind"], &line["record"]) {
        _ if line.get("address").is_some() => line["address"].clone(),
        _ if line.get("address").is_some() && line.get("opcode").is_some() => line["address"].clone(),
        _ => Value::Null,
    };
    let number = |value: Value| {
        let digits = value.as_str()?.strip_prefix("0x")?.to_string();
        u64::from_str_radix(&digits, 16).ok()
    };
    lines.iter().map(key).filter_map(number).collect()
}

/// Asserts that a slice follows the rules of its format.
#[track_caller]
fn assert_valid(path: &Path) {
    on("check", path, &[]).expect(0, &[]);
}

#[test]
fn every_format_is_sliced_by_every_selector() {
    let folder = Folder::new();
    let image = image(&folder);
    let basic = astf(&folder, "in.astf", Level::Basic);
    let inputs = [(basic, "out.astf"), (stf(&folder), "out.stf"), (tarmac(&folder), "out.tarmac")];
    let leaf = [0x2000, 0x2004, 0x2000, 0x2004];
    let rows: &[(&[&str], &[u64])] = &[
        (&[], &[0x1000, 0x1004, 0x2000, 0x2004, 0x1008, 0x100c, 0x2000, 0x2004, 0x1010]),
        (&["--skip", "2", "--limit", "3"], &[0x2000, 0x2004, 0x1008]),
        (&["--address", "0x2000..0x3000"], &leaf),
        (&["--address", "0x1008..0x100c", "--address", "0x1000..0x1004"], &[0x1000, 0x1008]),
        (&["--address", "0x2000..0x3000", "--skip", "1", "--limit", "2"], &[0x2004, 0x2000]),
        (&["--function", "leaf", "--image", &image], &leaf),
        (&["--function", "main", "--image", &image, "--limit", "3"], &[0x1000, 0x1004, 0x1008]),
        (&["--time", "120..140"], &[0x2000, 0x2004]),
        (&["--time", "160.."], &[0x2000, 0x2004, 0x1010]),
        (&["--time", "..115", "--address", "0x1000..0x2000"], &[0x1000, 0x1004]),
    ];
    for (input, name) in &inputs {
        for (options, expected) in rows {
            let out = folder.path(name);
            let run = slice(input, &out, options);
            if options[..].contains(&"--time") && *name == "out.stf" {
                run.expect(2, &["STF has no times", "number or address"]);
                continue;
            }
            assert_eq!(run.code, 0, "{name} {options:?}: {}", run.err);
            assert_eq!(addresses(&out), *expected, "{name} {options:?}");
            assert_valid(&out);
            fs::remove_file(&out).unwrap();
        }
    }
}

#[test]
fn a_function_is_sliced_with_its_callees() {
    let folder = Folder::new();
    let image = image(&folder);
    let options = ["--function", "leaf", "--image", &image, "--with-callees"];
    // main, which calls leaf, is called itself, and its caller continues afterwards.
    let all =
        [&[(0x1ffc, 0x97ff_fc01, Some(0x1000))], &CALLS[..8], &[(0x1010, RET, Some(0x2000)), (0x2000, NOP, None)]];
    let whole = folder.file("whole.astf", astf_of(Level::BasicPlus, &all.concat()).as_flattened());
    let out = folder.path("out.astf");
    let main = ["--function", "main", "--image", &image, "--with-callees"];
    slice(&whole, &out, &main).clean();
    assert_eq!(addresses(&out), [0x1000, 0x1004, 0x2000, 0x2004, 0x1008, 0x100c, 0x2000, 0x2004, 0x1010]);
    assert_valid(&out);
    let log = tarmac(&folder);
    let out = folder.path("out.tarmac");
    slice(&log, &out, &options).expect(0, &["4 instructions in 2 pieces"]);
    assert_eq!(addresses(&out), [0x2000, 0x2004, 0x2000, 0x2004]);
    slice(&stf(&folder), &out, &options).expect(2, &["--with-callees supports Arm only"]);
    slice(&log, &out, &["--function", "missing", "--image", &image]).expect(2, &["no function 'missing'"]);
    slice(&log, &out, &["--function", "leaf"]).expect(2, &["--image"]);
    slice(&log, &out, &["--with-callees"]).expect(2, &["--function"]);
}

#[test]
fn split_writes_a_file_per_piece() {
    let folder = Folder::new();
    let plus = astf(&folder, "in.astf", Level::BasicPlus);
    let leaf = ["--address", "0x2000..0x3000"];
    slice(&plus, &folder.path("out.astf"), &leaf).expect(2, &["BasicPlus trace cannot have gaps", "--split"]);
    let before = folder.names().len();
    for (input, name) in [(plus, "out.astf.xz"), (stf(&folder), "out.zstf"), (tarmac(&folder), "out.tarmac.gz")] {
        slice(&input, &folder.path(name), &[&leaf[..], &["--split"]].concat()).expect(0, &["2 pieces"]);
        for number in ["-0001.", "-0002."] {
            let piece = folder.path(name.replacen('.', number, 1));
            assert_eq!(addresses(&piece), [0x2000, 0x2004], "{}", piece.display());
            assert_valid(&piece);
        }
        let one = folder.path(format!("one-{name}"));
        slice(&input, &one, &[&leaf[..], &["--split", "--pieces", "1"]].concat())
            .expect(0, &["stopped after 1 pieces"]);
        slice(&input, Path::new("-"), &["--split"]).expect(2, &["--split writes several files"]);
    }
    let expected = before + 2 + 3 * 3;
    assert_eq!(folder.names().len(), expected, "{:?}", folder.names());
}

/// A piece that ends with an exception has all of its records, and the next piece starts at the new level.
#[test]
fn exceptions_stay_whole() {
    let folder = Folder::new();
    let mut trace = Builder::new(Vec::new(), &Header::new(Level::BasicPlus, false, Storage::Raw)).unwrap();
    trace.context(&State::default()).unwrap();
    trace.instruction(&Step::plain(0x1000, NOP)).unwrap();
    let call = Exception { class: 0x15, call: Some(Call { kind: CallKind::Svc, index: 0 }), target: 0x8000 };
    trace.instruction(&Step { exception: Some(call), ..Step::plain(0x1004, 0xd400_0001) }).unwrap();
    trace.context(&State { el: 1, handler: true, ..State::default() }).unwrap();
    trace.instruction(&Step::plain(0x8000, NOP)).unwrap();
    let path = folder.file("in.astf", trace.finish().as_flattened());
    let out = folder.path("out.astf");
    for (options, expected) in
        [(["--skip", "1", "--limit", "1"], &[0x1004][..]), (["--skip", "2", "--limit", "1"], &[0x8000])]
    {
        slice(&path, &out, &options).clean();
        assert_eq!(addresses(&out), expected);
        assert_valid(&out);
    }
    slice(&path, &out, &["--time", "1..2"]).expect(2, &["no timestamps", "number or address"]);
}

#[test]
fn one_core_of_a_log() {
    let folder = Folder::new();
    let lines = [
        "10 clk cpu0 IT (1) 00001000 d503201f O EL1h_s : NOP\n",
        "10 clk cpu1 IT (1) 00002000 d503201f O EL1h_s : NOP\n",
        "20 clk cpu1 R X0 0000000000000005\n",
        "30 clk cpu0 IT (2) 00001004 d503201f O EL1h_s : NOP\n",
    ];
    let log = folder.file("in.tarmac", lines.concat().as_bytes());
    let out = folder.path("out.tarmac");
    slice(&log, &out, &["--core", "cpu1"]).clean();
    assert_eq!(fs::read_to_string(&out).unwrap(), lines[1..3].concat());
    slice(&log, &out, &["--core", "cpu7"]).expect(2, &["no instruction is selected"]);
    slice(&stf(&folder), &folder.path("x.stf"), &["--core", "cpu0"]).expect(2, &["one core"]);
}

#[test]
fn a_damaged_trace_is_sliced_up_to_the_damage() {
    let folder = Folder::new();
    let inputs = [(astf(&folder, "in.astf", Level::Basic), "out.astf"), (stf(&folder), "out.stf"), {
        (folder.file("in.tarmac.gz", gzip(fs::read(tarmac(&folder)).unwrap())), "out.tarmac")
    }];
    for (input, name) in inputs {
        let (bytes, out) = (fs::read(&input).unwrap(), folder.path(name));
        let cut = folder.file("cut", &bytes[..bytes.len() - 11]);
        slice(&cut, &out, &["--skip", "2"]).expect(1, &["cut: ", "the slice ends where the trace is damaged"]);
        let known = addresses(&out);
        assert!(known.len() >= 5 && known.starts_with(&[0x2000, 0x2004, 0x1008, 0x100c]), "{name}: {known:x?}");
        assert_valid(&out);
        fs::remove_file(&out).unwrap();
        slice(&cut, &out, &["--skip", "100"]).expect(1, &["before the slice starts: nothing was written"]);
        assert!(!out.exists(), "{name}");
        // Damage after the slice does not matter.
        slice(&cut, &out, &["--limit", "2"]).clean();
        assert_eq!(addresses(&out), [0x1000, 0x1004], "{name}");
    }
}

#[test]
fn invalid_slices_are_rejected() {
    let folder = Folder::new();
    let log = tarmac(&folder);
    let out = folder.path("out");
    let rows: &[(&[&str], &[&str])] = &[
        (&["--address", "0x2000"], &["not a range A..B"]),
        (&["--address", "0x2000..0x1000"], &["is empty"]),
        (&["--time", "abc"], &["not a range of time"]),
        (&["--time", "5..5"], &["not before the second"]),
        (&["--time", "1.25..9"], &["1 digits after the point"]),
        (&["--address", "0x7000..0x8000"], &["no instruction is selected (9 instructions read)"]),
        (&["--limit", "0"], &["no instruction is selected"]),
        (&["--pieces", "5"], &["--split"]),
        (&["--to", "raw"], &["a slice of Tarmac is Tarmac"]),
    ];
    for (options, words) in rows {
        slice(&log, &out, options).expect(2, words);
        assert!(!out.exists(), "{options:?}");
    }
    slice(&stf(&folder), &out, &["--to", "raw"]).expect(2, &["a slice of STF is STF"]);
    slice(&astf(&folder, "in.astf", Level::Basic), &out, &["--to", "stf"]).expect(2, &["a slice of ASTF is ASTF"]);
    slice(&super::example(), &out, &["--source", "0x10"]).expect(2, &["format of the slice is unknown", "--to"]);
    slice(&super::example(), &folder.path("out.stf"), &[]).expect(2, &["--source"]);
    slice(&super::example(), &folder.path("out.astf"), &["--source", "0x10"])
        .expect(2, &["addresses of memory accesses"]);
    slice(&log, &out, &["--source", "0x10"]).expect(2, &["not a capture"]);
    slice(&log, &out, &["--function", "main"]).expect(2, &["--image"]);
    slice(&log, &folder.path("no/such/out.tarmac"), &[]).expect(2, &["cannot write", "out.tarmac"]);
    folder.assert_no_partial_file();
}

/// A slice of a capture has the instructions that its conversion has.
#[test]
fn captures_are_sliced() {
    let folder = Folder::new();
    for (capture, options) in [("hello-qemu", &[][..]), ("hello-ete", &["--source", "0x10"])] {
        let capture = unspool_testing::example(capture);
        for name in ["out.tarmac", "out.stf", "out.zstf"] {
            let (whole, out) = (folder.path(format!("whole.{name}")), folder.path(name));
            unspool(&[&["convert", text(&capture), text(&whole), "--force"], options].concat()).expect(0, &[]);
            slice(&capture, &out, options).expect(0, &[]);
            assert_eq!(fs::read(&whole).unwrap(), fs::read(&out).unwrap(), "{name}");
            let all = addresses(&whole);
            slice(&capture, &out, &[options, &["--skip", "5", "--limit", "9"]].concat()).expect(0, &["9 instructions"]);
            assert_eq!(addresses(&out), all[5..14], "{name}");
            assert_valid(&out);
            let first = format!("{:#x}..{:#x}", all[3], all[3] + 4);
            slice(&capture, &out, &[options, &["--address", &first]].concat()).expect(0, &[]);
            let expected: Vec<u64> = all.iter().copied().filter(|address| *address == all[3]).collect();
            assert_eq!(addresses(&out), expected, "{name}");
            assert_valid(&out);
        }
    }
    let out = folder.path("say.tarmac");
    let capture = unspool_testing::example("hello-qemu");
    slice(&capture, &out, &["--function", "say", "--split"]).expect(0, &["say-0001.tarmac"]);
    assert!(!addresses(&folder.path("say-0001.tarmac")).is_empty());
    folder.assert_no_partial_file();
}

/// A slice starts with the registers and memory that are known there: the state in it is that in the trace.
#[test]
fn slices_start_with_the_state() {
    let mut lines = String::from("5 ns IT (1) 00000ffc d503201f O EL1h_n : NOP\n");
    for index in 0..20_u64 {
        let (pc, time) = (0x1000 + 4 * index, 10 * (index + 1));
        lines += &format!("{time} ns IT ({}) {pc:08x} 79000041 O EL1h_n : STRH\n", index + 2);
        lines += &format!("{time} ns R X{} {:016x}\n", index % 5, 0x1111 * index);
        lines += &format!("{time} ns MW2 {:08x} {:04x}\n", 0x8003 + 3 * index, 0x101 * index);
    }
    let folder = Folder::new();
    let log = folder.file("in.tarmac", &lines);
    let state = |path: &Path, at: &str| {
        let lines = on("state", path, &["--at", at, "--json", "--memory", "0x8000..0x8040"]).json();
        let registers = lines[1]["registers"].as_array().unwrap().iter();
        let registers: Vec<Value> =
            registers.map(|row| [&row["name"], &row["value"]].into_iter().cloned().collect()).collect();
        let memory: Vec<Value> =
            lines.iter().filter(|line| line["kind"] == "memory").map(|line| line["bytes"].clone()).collect();
        (registers, memory)
    };
    let convert = |name: &str, options: &[&str]| {
        let out = folder.path(name);
        unspool(&[&["convert", text(&log), text(&out)], options].concat()).expect(0, &[]);
        out
    };
    let lowered = convert("lowered.astf.tarmac.stf", &[]);
    let rev3 = folder.path("rev3.tarmac");
    unspool(&["convert", text(&lowered), text(&rev3), "--to-dialect", "rev3"]).expect(0, &[]);
    let fast = folder.path("fast.tarmac");
    unspool(&["convert", text(&lowered), text(&fast), "--to-dialect", "fast-models"]).expect(0, &[]);
    for (input, name) in [(&log, "out.tarmac"), (&rev3, "out3.tarmac"), (&fast, "outf.tarmac"), (&lowered, "out.stf")] {
        let out = folder.path(name);
        slice(input, &out, &["--skip", "10", "--limit", "5"]).expect(0, &["5 instructions"]);
        let expected: Vec<u64> = (9..14).map(|index| 0x1000 + 4 * index).collect();
        assert_valid(&out);
        for number in 1..=5 {
            let (registers, memory) = state(input, &format!("#{}", 10 + number));
            let found = state(&out, &format!("#{number}"));
            assert_eq!(found.0, registers, "{name} #{number}");
            // STF has no record of memory that no instruction accesses.
            if name != "out.stf" {
                assert_eq!(found.1, memory, "{name} #{number}");
            }
        }
        let without = folder.path(format!("no.{name}"));
        slice(input, &without, &["--skip", "10", "--limit", "5", "--state", "none"]).expect(0, &["5 instructions"]);
        assert_eq!(state(&without, "#1").0.len(), 1, "{name}");
        assert_eq!(instructions(&without), expected);
        assert_eq!(instructions(&out), expected);
    }
}

/// Addresses of the instructions that `find` lists.
fn instructions(path: &Path) -> Vec<u64> {
    let lines = on("find", path, &["--address", "0..0xffffffff", "--json"]).json();
    let number = |line: &Value| u64::from_str_radix(line["address"].as_str()?.strip_prefix("0x")?, 16).ok();
    lines.iter().filter(|line| line["step"] == "instruction").filter_map(number).collect()
}
