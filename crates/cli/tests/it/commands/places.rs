//! Places of every trace: `state --at` agrees between the formats of one recording, and with what was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool_testing::{Random, example};

use crate::run::{Folder, on, text, unspool};

/// A recording of random loads and stores, and what they did.
struct Recording {
    log: String,
    /// Registers written by each instruction: number and value.
    registers: Vec<Option<(u64, u64)>>,
    /// Bytes accessed by each instruction: address, value, whether it is a write.
    bytes: Vec<Vec<(u64, u8, bool)>>,
}

const BASE: u64 = 0x8000;
const SPAN: u64 = 48;

impl Recording {
    fn new(seed: u64, instructions: u64) -> Self {
        let mut random = Random::new(seed);
        let mut memory: Vec<u8> = (0..SPAN + 8).map(|_| random.bits() as u8).collect();
        let mut recording = Self { log: String::new(), registers: Vec::new(), bytes: Vec::new() };
        for index in 0..instructions {
            let size = random.pick(&[1_u64, 2, 4, 8]);
            let (at, is_write) = (random.below(SPAN) as usize, random.flip());
            let kind = random.below(3);
            // nop, or a load or store of this size: ldrb w1, [x2] and so on
            let access = (size.trailing_zeros() << 30) | 0x3900_0041 | if is_write { 0 } else { 0x40_0000 };
            let opcode = if kind == 0 { 0xd503_201f } else { access };
            let time = 10 * (index + 1);
            let address = 0x1_0000 + 4 * index;
            recording.log += &format!("{time} ns IT ({}) {address:08x} {opcode:08x} O EL1h_n : word\n", index + 1);
            let mut touched = Vec::new();
            if kind != 0 {
                if is_write {
                    (0..size as usize).for_each(|byte| memory[at + byte] = random.bits() as u8);
                }
                let range = at..at + size as usize;
                let digits: String = memory[range.clone()].iter().rev().map(|byte| format!("{byte:02x}")).collect();
                let letter = if is_write { 'W' } else { 'R' };
                recording.log += &format!("{time} ns M{letter}{size} {:08x} {digits}\n", BASE + at as u64);
                touched = range.map(|at| (BASE + at as u64, memory[at], is_write)).collect();
            }
            let register = (kind != 1).then(|| (random.below(8), random.bits()));
            if let Some((number, value)) = register {
                recording.log += &format!("{time} ns R X{number} {value:016x}\n");
            }
            recording.registers.push(register);
            recording.bytes.push(touched);
        }
        recording
    }

    /// Registers after an instruction, counted from 1.
    fn registers_at(&self, number: usize) -> BTreeMap<String, String> {
        let written = self.registers[..number].iter().flatten();
        written.map(|(number, value)| (format!("x{number}"), format!("{value:016x}"))).collect()
    }

    /// Bytes after an instruction: those accessed up to it, and those read after it before they are written.
    fn memory_at(&self, number: usize) -> BTreeMap<u64, u8> {
        let mut known: BTreeMap<u64, u8> = BTreeMap::new();
        let mut written = BTreeSet::new();
        for (address, value, is_write) in self.bytes[number..].iter().flatten() {
            if *is_write {
                written.insert(*address);
            } else if !written.contains(address) {
                known.entry(*address).or_insert(*value);
            }
        }
        known.extend(self.bytes[..number].iter().flatten().map(|(address, value, _)| (*address, *value)));
        known
    }
}

/// Registers and memory of `state --json`.
fn state(path: &Path, at: &str) -> (Value, BTreeMap<String, String>, BTreeMap<u64, u8>) {
    let run = on("state", path, &["--at", at, "--json", "--memory", "0x8000..0x8040"]);
    assert_eq!(run.code, 0, "{}: {}", path.display(), run.err);
    let lines = run.json();
    let of = |kind: &'static str| lines.iter().filter(move |line| line["kind"] == kind);
    let core = of("core").next().unwrap().clone();
    let string = |value: &Value| value.as_str().unwrap().to_string();
    let rows = core["registers"].as_array().unwrap().iter();
    let registers = rows.map(|row| (string(&row["name"]), string(&row["value"]))).collect();
    let mut memory = BTreeMap::new();
    for row in of("memory") {
        let address = u64::from_str_radix(string(&row["address"]).trim_start_matches("0x"), 16).unwrap();
        let digits = string(&row["bytes"]);
        for at in 0..16 {
            if let Ok(byte) = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16) {
                memory.insert(address + at as u64, byte);
            }
        }
    }
    (core, registers, memory)
}

fn convert(folder: &Folder, input: &Path, name: &str) -> PathBuf {
    let out = folder.path(name);
    unspool(&["convert", text(input), text(&out), "--force"]).expect(0, &[]);
    out
}

#[test]
fn state_is_the_same_in_every_format() {
    for seed in 1..3 {
        let folder = Folder::new();
        let recording = Recording::new(seed, 120);
        let log = folder.file("run.tarmac", &recording.log);
        let with_values: Vec<PathBuf> =
            [log.clone()].into_iter().chain(["run.stf", "run.zstf"].map(|name| convert(&folder, &log, name))).collect();
        let astf = convert(&folder, &log, "run.astf");
        let mut random = Random::new(seed);
        let random_places = (0..3).map(|_| 1 + random.below(120) as usize);
        for number in [1, 120].into_iter().chain(random_places) {
            let at = format!("#{number}");
            for path in &with_values {
                let (core, registers, memory) = state(path, &at);
                let name = path.display();
                assert_eq!(registers, recording.registers_at(number), "{name} {at}");
                assert_eq!(memory, recording.memory_at(number), "{name} {at}");
                assert_eq!(core["address"], format!("{:#x}", 0x1_0000 + 4 * (number - 1)), "{name} {at}");
                assert_eq!((&core["instructions"], &core["mode"]), (&number.into(), &"el1h".into()), "{name} {at}");
            }
            // ASTF has neither registers nor data: nothing is shown as zero.
            let (core, registers, memory) = state(&astf, &at);
            assert_eq!((registers.len(), memory.len()), (0, 0), "{at}");
            assert_eq!((&core["instructions"], &core["mode"]), (&number.into(), &"el1h".into()), "{at}");
        }
    }
}

#[test]
fn places_have_the_same_meaning_in_every_format() {
    let folder = Folder::new();
    let log = folder.file("run.tarmac", Recording::new(9, 60).log);
    let stf = convert(&folder, &log, "run.stf");
    let astf = convert(&folder, &log, "run.astf");
    // Instruction 30 is at 0x10074, at 300 ns.
    for path in [&log, &stf, &astf] {
        for at in ["#30", "0x10074", "300ns"] {
            if at == "300ns" && path == &astf {
                // Microseconds.
                continue;
            }
            let (core, ..) = state(path, at);
            assert_eq!(core["instructions"], 30, "{} {at}", path.display());
        }
        for at in ["#61", "0x20000", "7clk", "99999999"] {
            on("state", path, &["--at", at]).expect(2, &["--at is not in the"]);
        }
        on("state", path, &["--at", "main"]).expect(2, &["no function 'main'"]);
    }
    let shown =
        on("state", &stf, &["--at", "#30", "--register", "x1", "--register", "v9", "--last-write", "0x8000+64"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.starts_with("instruction #30, ") && shown.out.contains("v9  unknown"), "{}", shown.out);
}

#[test]
fn state_of_a_capture_has_the_instruction_and_nothing_else() {
    let capture = example("hello-qemu");
    let listed = on("decode", &capture, &["--json"]);
    let is_instruction = |line: &&Value| line["kind"] == "instruction";
    let addresses: Vec<Value> =
        listed.json().iter().filter(is_instruction).map(|line| line["address"].clone()).collect();
    for number in [1, 7, addresses.len()] {
        let run = on(
            "state",
            &capture,
            &["--at", &format!("#{number}"), "--json", "--register", "x0", "--memory", "0x1000+1"],
        );
        assert_eq!(run.code, 0, "{}", run.err);
        let lines = run.json();
        assert_eq!(lines[1]["address"], addresses[number - 1], "#{number}");
        assert_eq!(lines[1]["registers"][0]["value"], Value::Null);
        assert!(lines[2]["bytes"].as_str().unwrap().chars().all(|digit| digit == '.'));
    }
    let by_name = on("state", &capture, &["--at", "say", "--json"]).json();
    assert_eq!(by_name[1]["depth"], 1, "{by_name:?}");
    on("state", &example("hello-ete"), &["--at", "#1"]).expect(2, &["--source"]);
}

#[test]
fn a_truncated_trace_has_a_state_up_to_the_damage() {
    let folder = Folder::new();
    let log = folder.file("run.tarmac", Recording::new(5, 60).log);
    for name in ["run.stf", "run.astf", "run.zstf"] {
        let path = convert(&folder, &log, name);
        let bytes = std::fs::read(&path).unwrap();
        let cut = folder.file(&format!("cut.{name}"), &bytes[..bytes.len() - 5]);
        let run = on("state", &cut, &["--at", "#999"]);
        assert!(run.code == 2 || run.code == 1, "{name}: {run:?}");
        for length in (0..bytes.len()).step_by(bytes.len() / 8) {
            let cut = folder.file(&format!("cut.{name}"), &bytes[..length]);
            let code = on("state", &cut, &["--at", "#3"]).code;
            assert!((0..=2).contains(&code), "{name} {length}: {code}");
        }
    }
}

#[test]
fn decode_starts_at_a_place() {
    for (capture, source) in [("hello-qemu", None), ("hello-ete", Some("0x10"))] {
        let capture = example(capture);
        let source: Vec<&str> = source.into_iter().flat_map(|source| ["--source", source]).collect();
        let lines = |options: &[&str]| {
            let run = on("decode", &capture, &[&source[..], &["--json"], options].concat());
            assert_eq!(run.code, 0, "{options:?}: {}", run.err);
            let lines = run.json();
            lines
                .into_iter()
                .filter(|line| line["kind"] == "instruction" || line["kind"] == "range")
                .collect::<Vec<_>>()
        };
        let all = lines(&[]);
        let address = |line: &Value| line["address"].as_str().unwrap().to_string();
        for number in [1, 2, 7, all.len() / 2, all.len()] {
            let rest = &all[number - 1..];
            assert_eq!(lines(&["--at", &format!("#{number}")]), rest, "#{number}");
            let window = lines(&["--at", &format!("#{number}"), "--skip", "1", "--limit", "3"]);
            assert_eq!(window, rest.iter().skip(1).take(3).cloned().collect::<Vec<_>>(), "#{number}");
            let first = all.iter().position(|line| address(line) == address(&rest[0])).unwrap();
            assert_eq!(lines(&["--at", &address(&rest[0])]), all[first..], "#{number}");
        }
        let ranges = lines(&["--emit", "ranges"]);
        let at = format!("#{}", 1 + ranges[0]["instructions"].as_u64().unwrap());
        assert_eq!(lines(&["--emit", "ranges", "--at", &at]), ranges[1..]);
        let missing = on("decode", &capture, &[&source[..], &["--at", "#99999999"]].concat());
        assert!(missing.code == 2 && missing.err.contains("--at #99999999 is not in the trace"), "{missing:?}");
    }
    let capture = example("hello-qemu");
    let say = on("decode", &capture, &["--at", "say", "--limit", "1"]);
    assert!(say.code == 0 && say.out.contains("say"), "{say:?}");
    on("decode", &capture, &["--at", "no_such_function"]).expect(2, &["no_such_function"]);
    on("decode", &capture, &["--at", "#1", "--by", "time"]).expect(2, &["--by"]);
}

/// An index of any segment size gives the answers that reading from the start gives.
#[test]
fn an_index_of_astf_changes_no_answer() {
    let folder = Folder::new();
    let mut random = Random::new(3);
    let calls = random_calls(&mut random, 140_000);
    for (name, to) in [("run.astf", "raw"), ("run.astf.zz", "zlib")] {
        let raw = folder.file("plain.astf", calls.as_flattened());
        let astf = folder.path(name);
        unspool(&["convert", text(&raw), text(&astf), "--to", to, "--force"]).expect(0, &[]);
        let places = ["#1", "#65536", "#65537", "#131073", "#140000", "0x1010", "90000us", "#140001", "0x9990"];
        let plain: Vec<_> = places.map(|at| state_text(&astf, at)).into();
        let found = found_at(&astf, "0x1010..0x1018");
        let made = on("index", &astf, &["--json"]);
        assert_eq!(made.code, 0, "{}", made.err);
        let made = &made.json()[0];
        assert_eq!((&made["made"], &made["instructions"]), (&true.into(), &140_000.into()), "{name}");
        assert!(made["bytes"].as_u64().unwrap() < made["log_bytes"].as_u64().unwrap(), "{made}");
        let indexed: Vec<_> = places.map(|at| state_text(&astf, at)).into();
        for (at, (plain, indexed)) in places.iter().zip(plain.iter().zip(&indexed)) {
            assert_eq!(plain, indexed, "{name} {at}");
        }
        assert_eq!(found_at(&astf, "0x1010..0x1018"), found, "{name}");
        on("index", &astf, &[]).expect(0, &["is up to date"]);
        // The index of another file is not used.
        let index = folder.path(format!("{name}.unspool-index"));
        std::fs::copy(&astf, folder.path("other.astf")).unwrap();
        let bytes = std::fs::read(&astf).unwrap();
        std::fs::write(folder.path("other.astf"), &bytes[..bytes.len() / 2]).unwrap();
        let other = unspool(&["state", text(&folder.path("other.astf")), "--index", text(&index), "--at", "#5"]);
        assert!(other.err.contains("has changed"), "{other:?}");
        // A damaged index is rebuilt.
        let stored = std::fs::read(&index).unwrap();
        std::fs::write(&index, &stored[..stored.len() - 9]).unwrap();
        assert_eq!(found_at(&astf, "0x1010..0x1018"), found, "{name}");
        let again = on("state", &astf, &["--at", "#65537"]);
        assert!(again.code == 0 && again.err.contains("rebuilt"), "{again:?}");
    }
    let packed = folder.path("run.astf.xz");
    unspool(&["convert", text(&folder.path("plain.astf")), text(&packed)]).expect(0, &[]);
    on("index", &packed, &[]).expect(2, &["convert --to zlib"]);
    on("state", &packed, &["--at", "#70000"]).shows(&["70,000 instructions"]);
}

/// The output of searches for instructions at these addresses.
fn found_at(path: &Path, addresses: &str) -> Vec<(i32, String)> {
    let searches: [&[&str]; 4] = [&[], &["--count"], &["--first", "--json"], &["--limit", "9", "--mnemonic", "bl"]];
    let found = searches.map(|options| {
        let run = on("find", path, &[&["--address", addresses], options].concat());
        (run.code, run.out)
    });
    assert!(found[0].0 == 0 && !found[0].1.is_empty(), "{found:?}");
    // Only the last part of an indexed trace is read.
    on("find", path, &["--address", "0x90000000", "--count"]).shows(&["0"]);
    found.into()
}

fn state_text(path: &Path, at: &str) -> (i32, String) {
    let run = on("state", path, &["--at", at, "--last-write", "0x8000+16", "--memory", "0x8000+16"]);
    (run.code, run.out)
}

/// An ASTF file of instructions that call, return, load and store, with times and contexts.
fn random_calls(random: &mut Random, instructions: u64) -> Vec<unspool::astf::Bytes> {
    use unspool::astf::builder::{Builder, Effect, State, Step};
    use unspool::astf::record::{Header, Level, Storage};
    let mut trace = Builder::new(Vec::new(), &Header::new(Level::Basic, true, Storage::Raw)).unwrap();
    let (mut pc, mut stack) = (0x1000_u64, Vec::new());
    for index in 0..instructions {
        if index % 100 == 0 {
            trace.timestamp(index).unwrap();
        }
        if index % 70_000 == 0 {
            trace.context(&State::default()).unwrap();
        }
        let step = match random.below(8) {
            0 if stack.len() < 20 => {
                // bl +0x10
                stack.push(pc + 4);
                Step { effect: Effect::Taken(pc + 0x10), ..Step::plain(pc, 0x9400_0004) }
            }
            1 if !stack.is_empty() => {
                let target = stack.pop().unwrap();
                Step { effect: Effect::Taken(target), ..Step::plain(pc, 0xd65f_03c0) }
            }
            _ if pc > 0x2000 => Step {
                effect: Effect::Taken(0x1000),
                ..Step::plain(pc, 0x1400_0000 | ((0x1000_u64.wrapping_sub(pc) >> 2) as u32 & 0x3ff_ffff))
            },
            _ => Step::plain(pc, 0xd503_201f),
        };
        pc = match step.effect {
            Effect::Taken(target) => target,
            _ => pc + 4,
        };
        trace.instruction(&step).unwrap();
    }
    trace.finish()
}

/// Registers and memory from an index are those of the recording, in segments of any kind of storage.
#[test]
fn an_index_of_stf_changes_no_answer() {
    let folder = Folder::new();
    let recording = Recording::new(11, 70_000);
    let log = folder.file("run.tarmac", &recording.log);
    for name in ["run.stf", "run.zstf"] {
        let path = convert(&folder, &log, name);
        let places = [1, 65_536, 65_537, 70_000];
        let plain = places.map(|at| state_text(&path, &format!("#{at}")));
        let ranges = ["0x10100", "0x40000..0x50010"];
        let found = ranges.map(|range| found_at(&path, range));
        on("index", &path, &[]).expect(0, &["70,000 instructions"]);
        let indexed = places.map(|at| state_text(&path, &format!("#{at}")));
        for (at, (plain, indexed)) in places.iter().zip(plain.iter().zip(&indexed)) {
            assert_eq!(plain, indexed, "{name} #{at}");
            let (_, registers, memory) = state(&path, &format!("#{at}"));
            assert_eq!(registers, recording.registers_at(*at), "{name} #{at}");
            assert_eq!(memory, recording.memory_at(*at), "{name} #{at}");
        }
        assert_eq!(ranges.map(|range| found_at(&path, range)), found, "{name}");
        for at in ["0x10100", "300000ns", "690000ns"] {
            let indexed = state_text(&path, at);
            std::fs::rename(folder.path(format!("{name}.unspool-index")), folder.path("aside")).unwrap();
            assert_eq!(state_text(&path, at), indexed, "{name} {at}");
            std::fs::rename(folder.path("aside"), folder.path(format!("{name}.unspool-index"))).unwrap();
        }
    }
    let packed = convert(&folder, &log, "run.stf.gz");
    on("index", &packed, &[]).expect(2, &["--to zstf"]);
}
