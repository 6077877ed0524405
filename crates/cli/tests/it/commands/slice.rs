//! `slice` on every format and by every selector: what is cut keeps to the rules of its format.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use unspool::astf::Bytes;
use unspool::astf::builder::{Builder, Call, CallKind, Effect, Exception, State, Step};
use unspool::astf::record::{Header, Level, Storage};
use unspool::stf;

use super::{Run, elf, text, unspool};

const NOP: u32 = 0xd503_201f;
const RET: u32 = 0xd65f_03c0;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn bytes(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

fn slice(input: &Path, output: &Path, options: &[&str]) -> Run {
    unspool(&[&["slice", text(input), text(output)], options].concat())
}

/// Where `main` (0x1000) calls `leaf` (0x2000) twice: (address, opcode, where it goes).
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
    folder.bytes(name, astf_of(level, &CALLS).as_flattened())
}

fn tarmac(folder: &Folder) -> PathBuf {
    let line = |(index, (pc, opcode, _)): (usize, &(u64, u32, Option<u64>))| {
        let time = 100 + 10 * index;
        format!("{time}.5 ns IT ({}) {pc:08x} {opcode:08x} O EL1h_s : word\n{time}.5 ns R X0 {index:016x}\n", index + 1)
    };
    let lines: String = CALLS.iter().enumerate().map(line).collect();
    folder.bytes("in.tarmac", lines.as_bytes())
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
    folder.bytes("in.stf", &trace.finish().sink)
}

fn image(folder: &Folder) -> String {
    let program = elf::program(0x1000, &[0; 0x1008], &[("main", 0x1000, 0x14), ("leaf", 0x2000, 8)]);
    text(&folder.bytes("program.elf", &program)).to_string()
}

/// The addresses of instructions, as `dump` tells them.
fn addresses(path: &Path) -> Vec<u64> {
    let lines = unspool(&["dump", text(path), "--json"]).json();
    let key = |line: &Value| match (&line["type"], &line["record"]) {
        _ if line.get("pc").is_some() => line["pc"].clone(),
        _ if line.get("address").is_some() && line.get("opcode").is_some() => line["address"].clone(),
        _ => Value::Null,
    };
    let number = |value: Value| {
        let digits = value.as_str()?.strip_prefix("0x")?.to_string();
        u64::from_str_radix(&digits, 16).ok()
    };
    lines.iter().map(key).filter_map(number).collect()
}

/// Keeps to the rules of its format. What steps make of a seam is another matter: not every format has a word for it.
#[track_caller]
fn is_right(path: &Path) {
    let run = unspool(&["check", text(path)]);
    assert_eq!(run.code, 0, "{}\n{}", run.out, run.err);
}

#[test]
fn every_format_is_cut_by_every_selector() {
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
                run.expect(2, &["STF has no time", "number or address"]);
                continue;
            }
            assert_eq!(run.code, 0, "{name} {options:?}: {}", run.err);
            assert_eq!(addresses(&out), *expected, "{name} {options:?}");
            is_right(&out);
            fs::remove_file(&out).unwrap();
        }
    }
}

#[test]
fn a_function_is_cut_with_what_it_calls() {
    let folder = Folder::new();
    let image = image(&folder);
    let options = ["--function", "leaf", "--image", &image, "--with-callees"];
    // main, which calls leaf, is itself called, and what called it goes on behind.
    let all =
        [&[(0x1ffc, 0x97ff_fc01, Some(0x1000))], &CALLS[..8], &[(0x1010, RET, Some(0x2000)), (0x2000, NOP, None)]];
    let whole = folder.bytes("whole.astf", astf_of(Level::BasicPlus, &all.concat()).as_flattened());
    let out = folder.path("out.astf");
    let main = ["--function", "main", "--image", &image, "--with-callees"];
    slice(&whole, &out, &main).clean();
    assert_eq!(addresses(&out), [0x1000, 0x1004, 0x2000, 0x2004, 0x1008, 0x100c, 0x2000, 0x2004, 0x1010]);
    is_right(&out);
    let log = tarmac(&folder);
    let out = folder.path("out.tarmac");
    slice(&log, &out, &options).expect(0, &["4 instructions in 2 pieces"]);
    assert_eq!(addresses(&out), [0x2000, 0x2004, 0x2000, 0x2004]);
    slice(&stf(&folder), &out, &options).expect(2, &["--with-callees follows the calls of Arm"]);
    slice(&log, &out, &["--function", "nobody", "--image", &image]).expect(2, &["no function 'nobody'"]);
    slice(&log, &out, &["--function", "leaf"]).expect(2, &["--image"]);
    slice(&log, &out, &["--with-callees"]).expect(2, &["--function"]);
}

#[test]
fn pieces_have_files_of_their_own() {
    let folder = Folder::new();
    let plus = astf(&folder, "in.astf", Level::BasicPlus);
    let leaf = ["--address", "0x2000..0x3000"];
    slice(&plus, &folder.path("out.astf"), &leaf).expect(2, &["BasicPlus trace cannot have gaps", "--split"]);
    let before = folder.names().len();
    for (input, name) in [(plus, "out.astf.xz"), (stf(&folder), "out.zstf"), (tarmac(&folder), "out.tarmac.gz")] {
        slice(&input, &folder.path(name), &[&leaf[..], &["--split"]].concat()).expect(0, &["2 pieces"]);
        for number in ["-0001.", "-0002."] {
            let piece = folder.path(&name.replacen('.', number, 1));
            assert_eq!(addresses(&piece), [0x2000, 0x2004], "{}", piece.display());
            is_right(&piece);
        }
        let one = folder.path(&format!("one-{name}"));
        slice(&input, &one, &[&leaf[..], &["--split", "--pieces", "1"]].concat()).expect(0, &["more than 1 piece"]);
        slice(&input, Path::new("-"), &["--split"]).expect(2, &["--split writes several files"]);
    }
    let expected = before + 2 + 3 * 3;
    assert_eq!(folder.names().len(), expected, "{:?}", folder.names());
}

/// A piece that ends with an exception has all of it, and starts with the level that it leads to.
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
    let path = folder.bytes("in.astf", trace.finish().as_flattened());
    let out = folder.path("out.astf");
    for (options, expected) in
        [(["--skip", "1", "--limit", "1"], &[0x1004][..]), (["--skip", "2", "--limit", "1"], &[0x8000])]
    {
        slice(&path, &out, &options).clean();
        assert_eq!(addresses(&out), expected);
        is_right(&out);
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
    let log = folder.bytes("in.tarmac", lines.concat().as_bytes());
    let out = folder.path("out.tarmac");
    slice(&log, &out, &["--core", "cpu1"]).clean();
    assert_eq!(fs::read_to_string(&out).unwrap(), lines[1..3].concat());
    slice(&log, &out, &["--core", "cpu7"]).expect(2, &["no such instruction"]);
    slice(&stf(&folder), &folder.path("x.stf"), &["--core", "cpu0"]).expect(2, &["one core"]);
}

/// What comes before the damage is known, and so it is cut, whatever the format.
#[test]
fn a_damaged_trace_is_cut_up_to_the_damage() {
    let folder = Folder::new();
    let inputs = [(astf(&folder, "in.astf", Level::Basic), "out.astf"), (stf(&folder), "out.stf"), {
        let log = fs::read(tarmac(&folder)).unwrap();
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        std::io::Write::write_all(&mut packer, &log).unwrap();
        (folder.bytes("in.tarmac.gz", &packer.finish().unwrap()), "out.tarmac")
    }];
    for (input, name) in inputs {
        let (bytes, out) = (fs::read(&input).unwrap(), folder.path(name));
        let cut = folder.bytes("cut", &bytes[..bytes.len() - 11]);
        slice(&cut, &out, &["--skip", "2"]).expect(1, &["cut: ", "the cut ends where the trace is damaged"]);
        let known = addresses(&out);
        assert!(known.len() >= 5 && known.starts_with(&[0x2000, 0x2004, 0x1008, 0x100c]), "{name}: {known:x?}");
        is_right(&out);
        fs::remove_file(&out).unwrap();
        slice(&cut, &out, &["--skip", "100"]).expect(1, &["before the cut begins: nothing was written"]);
        assert!(!out.exists(), "{name}");
        // What is behind the cut is not looked at.
        slice(&cut, &out, &["--limit", "2"]).clean();
        assert_eq!(addresses(&out), [0x1000, 0x1004], "{name}");
    }
}

#[test]
fn what_cannot_be_cut_says_why() {
    let folder = Folder::new();
    let log = tarmac(&folder);
    let out = folder.path("out");
    let rows: &[(&[&str], &[&str])] = &[
        (&["--address", "0x2000"], &["no range of addresses"]),
        (&["--address", "0x2000..0x1000"], &["is empty"]),
        (&["--time", "abc"], &["no span of time"]),
        (&["--time", "5..5"], &["not before the second"]),
        (&["--time", "1.25..9"], &["1 digits behind the point"]),
        (&["--address", "0x7000..0x8000"], &["no such instruction in what was read (9 instructions)"]),
        (&["--limit", "0"], &["no such instruction in what was read"]),
        (&["--pieces", "5"], &["--split"]),
        (&["--to", "raw"], &["a cut of Tarmac is Tarmac"]),
    ];
    for (options, words) in rows {
        slice(&log, &out, options).expect(2, words);
        assert!(!out.exists(), "{options:?}");
    }
    slice(&super::example(), &out, &[]).expect(2, &["a capture cannot be cut", "unspool convert"]);
    slice(&log, &folder.path("no/such/out.tarmac"), &[]).expect(2, &["cannot write", "out.tarmac"]);
    assert!(!folder.names().iter().any(|name| name.contains(".part")), "{:?}", folder.names());
}
