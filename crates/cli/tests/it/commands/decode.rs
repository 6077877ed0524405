//! `decode` on the example, whose program is in `crates/unspool/tests/hello.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{elf, example, example_copy, example_file};
use crate::run::{Folder, Run, log, on, text, unspool};

fn decode(options: &[&str]) -> Run {
    on("decode", &example(), options).expect(0, &[])
}

/// Address, and the outcome of a branch: its target, or `None` if it was not taken.
type Step = (u64, Option<Option<u64>>);

fn at(address: u64) -> Step {
    (address, None)
}

fn to(address: u64, target: u64) -> Step {
    (address, Some(Some(target)))
}

fn not(address: u64) -> Step {
    (address, Some(None))
}

/// One iteration of the loop, with its call of `square`.
fn iteration(repeats: bool) -> Vec<Step> {
    let end = if repeats { to(0x40_0014, 0x40_0008) } else { not(0x40_0014) };
    let call = [to(0x40_0008, 0x40_0028), at(0x40_0028), to(0x40_002c, 0x40_000c)];
    [&call[..], &[at(0x40_000c), at(0x40_0010), end]].concat()
}

/// From the start to the system call.
fn sum() -> Vec<Step> {
    [vec![at(0x40_0000), at(0x40_0004)], iteration(true), iteration(true), iteration(false), vec![at(0x40_0018)]]
        .concat()
}

/// The vector, and the rest of the program until an interrupt.
fn rest() -> Vec<Step> {
    const VECTOR: u64 = 0xffff_8000_0008_0400;
    let vector = [at(VECTOR), to(VECTOR + 4, VECTOR + 12), to(VECTOR + 12, 0x40_001c)];
    // WFI is not a branch, but it is traced as one that is not taken.
    let wait = [(0x40_0020, Some(None)), to(0x40_0024, 0x40_0020), (0x40_0020, Some(None))];
    [&vector[..], &[not(0x40_001c)], &wait].concat()
}

/// The start again, after the overflow.
fn again() -> Vec<Step> {
    [vec![at(0x40_0000), at(0x40_0004)], iteration(true), iteration(true)].concat()
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

fn of_kind<'l>(lines: &'l [Value], kind: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

fn steps(lines: &[Value]) -> Vec<Step> {
    let target = |line: &Value| line.get("target").map(hex);
    let instructions = of_kind(lines, "instruction");
    instructions.iter().map(|line| (hex(&line["address"]), line.get("taken").map(|_| target(line)))).collect()
}

/// Opcodes of the program and of the vector, by address.
fn opcodes() -> BTreeMap<u64, u32> {
    let files = [(0x40_0000, "program.bin"), (0xffff_8000_0008_0400, "vector.bin")];
    let words = |(base, name): (u64, &str)| {
        let words: Vec<u32> =
            example_file(name).chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        (base..).step_by(4).zip(words)
    };
    files.into_iter().flat_map(words).collect()
}

/// Source of the program.
const SOURCE: [(u64, &str); 14] = [
    (0x40_0000, "mov x0, #0x3"),
    (0x40_0004, "mov x2, #0x0"),
    (0x40_0008, "bl 0x400028"),
    (0x40_000c, "add x2, x2, x1"),
    (0x40_0010, "subs x0, x0, #0x1"),
    (0x40_0014, "b.ne 0x400008"),
    (0x40_0018, "svc #0x0"),
    (0x40_001c, "cbz x2, 0x400000"),
    (0x40_0020, "wfi"),
    (0x40_0024, "b 0x400020"),
    (0x40_0028, "mul x1, x0, x0"),
    (0x40_002c, "ret"),
    (0xffff_8000_0008_0400, "mrs x3, esr_el1"),
    (0xffff_8000_0008_040c, "eret"),
];

#[test]
fn every_instruction_of_the_program() {
    let lines = decode(&["--json", "--source", "0x10"]).json();
    assert_eq!(steps(&lines), [sum(), rest(), again()].concat());
    let (opcodes, source) = (opcodes(), BTreeMap::from(SOURCE));
    for line in of_kind(&lines, "instruction") {
        let address = hex(&line["address"]);
        assert_eq!(hex(&line["opcode"]), u64::from(opcodes[&address]), "{line}");
        assert_eq!(line["isa"], "a64");
        if let Some(text) = source.get(&address) {
            assert_eq!(line["text"], *text);
        }
        assert_eq!(line.get("symbol"), None, "dumps have no symbols");
    }
    // The core that speculates reaches the same system call.
    assert_eq!(steps(&decode(&["--json", "--source", "0x12"]).json()), sum());
}

#[test]
fn other_items_come_between_instructions() {
    let lines = decode(&["--json", "--source", "0x10"]).json();
    let mut kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    kinds.dedup();
    let expected = [
        "trace_on context timestamp instruction exception context instruction exception_return context timestamp",
        "instruction exception discard overflow trace_on context timestamp instruction event end",
    ];
    assert_eq!(kinds.join(" "), expected.join(" "));
    let rows = [
        ("context", r#"{"el":0,"security":"nonsecure","aarch64":true,"contextid":4660}"#),
        ("exception", r#"{"number":2,"name":"call","return":"0x40001c"}"#),
        ("timestamp", r#"{"value":1192960}"#),
        ("event", r#"{"numbers":[0]}"#),
        ("overflow", "{}"),
        ("end", "{}"),
    ];
    for (kind, expected) in rows {
        let mut first = of_kind(&lines, kind)[0].clone();
        let fields = first.as_object_mut().unwrap();
        assert_eq!((fields.remove("source"), fields.remove("session")), (Some(16.into()), Some(0.into())));
        fields.remove("kind");
        assert_eq!(first, serde_json::from_str::<Value>(expected).unwrap(), "{kind}");
    }
}

#[test]
fn ranges_as_json() {
    let lines = decode(&["--json", "--emit", "ranges", "--source", "0x12"]).json();
    // One range per P0 element, and one up to the system call.
    let call = r#""instructions":1,"isa":"a64","taken":true,"last":"branch","link":true,"ret":false,"eret":false,"conditional":false"#;
    let first = call.replace(":1,", ":3,");
    let square = r#""instructions":2,"isa":"a64","taken":true,"last":"indirect","link":false,"ret":true,"eret":false,"conditional":false"#;
    let next = r#""instructions":3,"isa":"a64","taken":true,"last":"branch","link":false,"ret":false,"eret":false,"conditional":true"#;
    let last = next.replace("\"taken\":true", "\"taken\":false");
    let system = call.replace("branch", "other").replace("\"link\":true", "\"link\":false");
    let rows = [
        (0x40_0000, 0x40_000c, first.as_str()),
        (0x40_0028, 0x40_0030, square),
        (0x40_000c, 0x40_0018, next),
        (0x40_0008, 0x40_000c, call),
        (0x40_0028, 0x40_0030, square),
        (0x40_000c, 0x40_0018, next),
        (0x40_0008, 0x40_000c, call),
        (0x40_0028, 0x40_0030, square),
        (0x40_000c, 0x40_0018, last.as_str()),
        (0x40_0018, 0x40_001c, system.as_str()),
    ];
    let expected: Vec<Value> = rows
        .iter()
        .map(|(start, end, rest)| {
            let start = format!(r#"{{"source":18,"session":0,"kind":"range","start":"{start:#x}","end":"{end:#x}""#);
            serde_json::from_str(&format!("{start},{rest}}}")).unwrap()
        })
        .collect();
    assert_eq!(of_kind(&lines, "range"), expected.iter().collect::<Vec<_>>());
    let others: Vec<&str> =
        lines.iter().map(|line| line["kind"].as_str().unwrap()).filter(|kind| *kind != "range").collect();
    assert_eq!(others, ["trace_on", "context", "exception", "end"]);
}

#[test]
fn instructions_and_ranges_as_text() {
    let run = decode(&[]);
    let lines = [
        "# source 0x10 ETE_0 (ETE), session 0, buffer TMC_0",
        "-- trace on",
        "-- context EL0 nonsecure AArch64 contextid 0x1234",
        "      0x123400  EL0N  0x0000000000400000  d2800060  mov x0, #0x3",
        "                EL0N  0x0000000000400004  d2800002  mov x2, #0x0",
        "                EL0N  0x0000000000400008  94000008  bl 0x400028                         ; taken -> 0x400028",
    ];
    assert_eq!(run.out.lines().take(lines.len()).collect::<Vec<_>>(), lines);
    let exception = "\
                EL0N  0x0000000000400014  54ffffa1  b.ne 0x400008                       ; not taken
                EL0N  0x0000000000400018  d4000001  svc #0x0
-- exception 2 (call), return 0x000000000040001c
-- context EL1 nonsecure AArch64 contextid 0x1234
                EL1N  0xffff800000080400  d5385203  mrs x3, esr_el1
";
    let waiting = "                EL0N  0x0000000000400020  d503207f  wfi\n";
    let lost = "-- exception 14 (IRQ), return 0x0000000000400024\n-- discard: tracing stopped\n!! overflow: trace was lost\n-- trace on\n";
    let back = "-- exception return\n-- context EL0 nonsecure AArch64 contextid 0x1234\n      0x123478  EL0N  0x000000000040001c";
    [exception, waiting, lost, back]
        .iter()
        .for_each(|part| assert!(run.out.contains(part), "no {part} in\n{}", run.out));
    assert_eq!(run.out.matches("# source").count(), 2);

    let ranges = decode(&["--emit", "ranges", "--limit", "2"]).out;
    let lines = [
        "      0x123400  EL0N  0x0000000000400000 to 0x000000000040000c      3 a64  branch link, taken",
        "                EL0N  0x0000000000400028 to 0x0000000000400030      2 a64  indirect return, taken",
    ];
    assert_eq!(ranges.lines().skip(3).take(2).collect::<Vec<_>>(), lines, "{ranges}");
}

#[test]
fn summary() {
    let all = [sum(), rest(), again(), sum()].concat().len();
    // One range per P0 element, and one per exception after executed instructions.
    let words = [
        &format!("note: {all} instructions in 32 ranges, 3 exceptions, of 2 sources\n"),
        "note: timestamps 0x123400 to 0x129000 (23,552 ticks)\n",
        "note: 165 bytes decoded, 0 skipped, 0 lost\n",
    ];
    for options in [&[][..], &["--json"], &["--emit", "ranges"], &["--emit", "ranges", "--json"]] {
        assert_eq!(decode(options).err, words.concat(), "{options:?}");
    }
    let cut = decode(&["--limit", "3", "--source", "0x10"]);
    assert!(
        cut.err.starts_with("note: 3 instructions in 1 range, 0 exceptions, of 1 source; stopped by --limit\n"),
        "{}",
        cut.err
    );
}

#[test]
fn limit_and_skip_count_lines_of_all_sources() {
    for (emit, kind) in [("instructions", "instruction"), ("ranges", "range")] {
        let one = ["--json", "--emit", emit, "--source", "0x10"];
        let all = decode(&one).json();
        let wanted = of_kind(&all, kind);
        let last = wanted.len();
        let rows = [
            (&["--limit", "2"][..], 0..2),
            (&["--skip", "3"], 3..last),
            (&["--skip", "3", "--limit", "4"], 3..7),
            (&["--limit", "0"], 0..0),
            (&["--skip", "1000"], last..last),
            (&["--limit", "1000"], 0..last),
        ];
        for (options, range) in rows {
            let cut = decode(&[&one[..], options].concat()).json();
            assert_eq!(of_kind(&cut, kind), wanted[range], "{emit} {options:?}");
            // The output is a contiguous part of the whole listing.
            let start = all.iter().position(|line| Some(line) == cut.first()).unwrap_or(0);
            assert!(cut.is_empty() || all[start..].windows(cut.len()).any(|part| part == cut), "{emit} {options:?}");
        }
    }
    let both = decode(&["--limit", "1"]).out;
    assert_eq!(both.matches("mov x0, #0x3").count(), 1, "{both}");
}

#[test]
fn images_from_the_command_line() {
    let folder = Folder::new();
    let stream = folder.path("stream.bin");
    let example = example();
    unspool(&["frames", text(&example), "--stream", "0x10", "-o", text(&stream)]).clean();
    let [program, vector] = [("program.bin", "0x400000"), ("vector.bin", "0xffff800000080400")]
        .map(|(name, address)| format!("{}@{address}", text(&example.join(name))));
    let registers = ["TRCCONFIGR=0x1841", "TRCIDR0=0x28000ea1", "TRCIDR2=0xc0001088", "TRCIDR8=0"];
    let registers: Vec<&str> = registers.iter().flat_map(|it| ["--register", it]).collect();
    let bare = ["decode", text(&stream), "--protocol", "ete", "--raw", "--id", "0x10"];
    let bare = [&bare[..], &registers].concat();
    let images = ["--image", &program, "--image", &vector];
    for emit in ["instructions", "ranges"] {
        let run = unspool(&[&bare, &images[..], &["--json", "--emit", emit]].concat()).expect(0, &[]);
        assert_eq!(run.json(), decode(&["--json", "--emit", emit, "--source", "0x10"]).json());
    }
    let run = unspool(&[&bare[..], &["--json"]].concat());
    let run = run.expect(
        0,
        &[
            "nothing can be decoded without program code",
            "--image FILE[@ADDR]",
            "no code in 0x400000..0x401000 of EL0N",
        ],
    );
    assert_eq!(steps(&run.json()), []);
}

#[test]
fn elf_symbols_are_shown() {
    let folder = Folder::new();
    let file = folder.path("program.elf");
    let symbols = [("start", 0x40_0000, 0x28), ("square", 0x40_0028, 8)];
    fs::write(&file, elf::program(0x40_0000, &example_file("program.bin"), &symbols)).unwrap();
    let run = decode(&["--image", text(&file), "--source", "0x12"]);
    let lines = [
        "start:",
        "                EL0N  0x0000000000400000  d2800060  mov x0, #0x3",
        "                EL0N  0x0000000000400004  d2800002  mov x2, #0x0",
        "                EL0N  0x0000000000400008  94000008  bl 0x400028                         ; taken -> 0x400028 <square>",
        "square:",
        "                EL0N  0x0000000000400028  9b007c01  mul x1, x0, x0",
        "                EL0N  0x000000000040002c  d65f03c0  ret                                 ; taken -> 0x40000c <start+0xc>",
        "start+0xc:",
    ];
    assert_eq!(run.out.lines().skip(3).take(lines.len()).collect::<Vec<_>>(), lines, "{}", run.out);
    let ranges = decode(&["--image", text(&file), "--source", "0x12", "--emit", "ranges"]).out;
    assert!(ranges.contains("2 a64  indirect return, taken <square>\n"), "{ranges}");
    let names: Vec<Value> = decode(&["--image", text(&file), "--source", "0x12", "--json", "--limit", "5"])
        .json()
        .iter_mut()
        .filter_map(|line| line.as_object_mut().unwrap().remove("symbol"))
        .collect();
    assert_eq!(names, ["start", "start+0x4", "start+0x8", "square", "square+0x4"]);
    // At another address, it is not code of this trace, and that of the capture is used.
    let moved = format!("{}@0x500000", text(&file));
    assert_eq!(decode(&["--image", &moved, "--json"]).json(), decode(&["--json"]).json());
}

#[test]
fn missing_code_is_reported_and_not_a_failure() {
    let folder = example_copy();
    fs::remove_file(folder.path("vector.bin")).unwrap();
    let path = text(folder.root());
    let missing = "no code in 0xffff800000080000..0xffff800000081000 of EL1N: 2 P0 elements lost";
    let run = unspool(&["decode", path, "--source", "0x10"]).expect(0, &["vector.bin", missing]);
    let gap =
        "-- no code at 0xffff800000080400 in EL1N\n-- 2 P0 elements lost: no code at 0xffff800000080400 in EL1N\n";
    assert!(run.out.contains(gap), "{}", run.out);
    let lines = unspool(&["decode", path, "--source", "0x10", "--json"]).expect(0, &[missing]).json();
    assert_eq!(steps(&lines), [sum(), rest()[3..].to_vec(), again()].concat());
    let [no_code, lost] = ["no_code", "lost"].map(|kind| of_kind(&lines, kind)[0]);
    assert!(no_code["address"] == "0xffff800000080400" && no_code["space"] == "EL1N", "{no_code}");
    assert!(lost["elements"] == 2 && lost["why"] == "no_code" && lost["address"] == no_code["address"], "{lost}");
}

#[test]
fn a_contradicting_program_is_a_problem() {
    let folder = example_copy();
    let mut program = example_file("program.bin");
    // An endless loop: its conditional branch becomes an unconditional one.
    program[0x14..0x18].copy_from_slice(&0x17ff_fffd_u32.to_le_bytes());
    folder.file("program.bin", program);
    let run = unspool(&["decode", text(folder.root()), "--source", "0x10"]);
    let run = run.expect(1, &["1 finding where the trace contradicts the code: 1 not_taken"]);
    assert!(
        run.out.contains(": the branch at 0x400014 is always taken, but the trace says it was not\n"),
        "{}",
        run.out
    );
    let lines = unspool(&["decode", text(folder.root()), "--json", "--emit", "ranges"]).expect(1, &[]).json();
    let finding = of_kind(&lines, "finding")[0];
    assert!(finding["name"] == "not_taken" && finding["at"] == "0x400014" && finding["offset"].is_u64(), "{finding}");
    assert!(finding["what"].as_str().unwrap().contains("always taken"), "{finding}");
    assert_eq!(of_kind(&lines, "lost")[0]["why"], "disagreement");
}

#[test]
fn damage_is_reported_with_its_offset() {
    let folder = example_copy();
    let file = folder.path("trace.bin");
    let mut bytes = fs::read(&file).unwrap();
    // As for packets: the event becomes a reserved header.
    bytes[0xbe] = 0x8a;
    fs::write(&file, bytes).unwrap();
    let path = text(folder.root());
    let words = ["ETE_0: 1 problem, ", "trace.bin at 0xbe", "164 bytes decoded, 1 skipped, 0 lost"];
    unspool(&["decode", path]).expect(1, &words).shows(&["\n!! 0xbe: reserved packet header 0x8b, 1 byte skipped\n"]);
    let lines = unspool(&["decode", path, "--json"]).expect(1, &[]).json();
    let error = of_kind(&lines, "error")[0];
    assert!(error["source"] == 0x10 && error["offset"] == 0xbe && error["skipped"] == 1, "{error}");
    assert!(error["what"].as_str().unwrap().contains("reserved"), "{error}");
    unspool(&["decode", path, "--limit", "20"]).expect(0, &["stopped by --limit"]);
    // An invalid frame belongs to no source, and is reported once.
    let mut bytes = example_file("trace.bin");
    bytes[0x98] = 0xff;
    fs::write(&file, bytes).unwrap();
    unspool(&["decode", path]).expect(1, &["frames of TMC_0: 1 problem", "0 skipped, 16 lost"]);
}

#[test]
fn output_goes_to_the_given_file() {
    let folder = Folder::new();
    let file = folder.path("out");
    for options in [&[][..], &["--json"], &["--emit", "ranges"]] {
        assert_eq!(decode(&[options, &["-o", text(&file), "--force"]].concat()).out, "");
        assert_eq!(fs::read_to_string(&file).unwrap(), decode(options).out);
    }
}

#[test]
fn invalid_arguments_are_rejected() {
    let folder = example_copy();
    let [path, program] = [folder.root().to_path_buf(), folder.path("program.bin")];
    let (path, program) = (text(&path), text(&program));
    let placed = format!("{program}@0x400000");
    let rows: &[(&[&str], &[&str])] = &[
        (&["--emit", "blocks"], &["blocks", "instructions", "ranges"]),
        (&["--image", "no/such/file"], &["no/such/file", "os error"]),
        (&["--image", program], &["program.bin", "needs an address: FILE@ADDRESS"]),
        (&["--image", "@0x10"], &["@0x10", "names no image file"]),
        (&["--source", "0x33"], &["0x33", "unspool info"]),
        (&["--limit", "many"], &["many"]),
        (&["-o", program], &["program.bin", "write to another one"]),
        (&["--image", &placed, "-o", program], &["program.bin", "write to another one"]),
    ];
    for (options, words) in rows {
        let run = unspool(&[&["decode", path], *options].concat()).expect(2, words);
        assert_eq!(run.out, "", "{options:?}");
    }
    assert_eq!(fs::read(program).unwrap(), example_file("program.bin"));
    // Other images are not overwritten either.
    let other = folder.file("other.bin", example_file("program.bin"));
    let placed = format!("{}@0x400000", text(&other));
    unspool(&["decode", path, "--image", &placed, "-o", text(&other)]).expect(2, &["code is read from this file"]);
}

/// Asserts that the lines of a capture are the same with kept lines of runs, which a limit turns off, and on any number of threads.
pub(crate) fn assert_same_lines(capture: &Path, more: &[&str]) {
    for options in [&[][..], &["--json"], &["--emit", "ranges"], &["--emit", "ranges", "--json"]] {
        let list = |own: &[&str]| on("decode", capture, &[options, more, own].concat());
        let one_by_one = list(&["-j", "1", "--limit", "18446744073709551615"]);
        for jobs in ["1", "3"] {
            let run = list(&["-j", jobs]);
            assert_eq!(run.code, one_by_one.code, "{} {options:?}", capture.display());
            let differs = run.out.lines().zip(one_by_one.out.lines()).find(|(one, other)| one != other);
            assert_eq!(differs, None, "{} {options:?} -j {jobs}", capture.display());
            assert_eq!(run.out.len(), one_by_one.out.len(), "{} {options:?} -j {jobs}", capture.display());
        }
    }
}

/// A loop that calls a function, at two Exception levels.
fn looping_log() -> (Folder, PathBuf) {
    const LAP: [(u32, &str); 5] = [
        (0x8000, "94000400 O {} : BL 0x9000"),
        (0x9000, "d503201f O {} : NOP"),
        (0x9004, "d65f03c0 O {} : RET"),
        (0x8004, "d503201f O {} : NOP"),
        (0x8008, "54ffffc1 O {} : B.NE 0x8000"),
    ];
    let levels = ["EL0t_n", "EL1h_n"].into_iter().flat_map(|level| [level; 60]);
    let steps = levels.flat_map(|level| LAP.map(|(address, rest)| (address, rest.replace("{}", level))));
    let lines = (1..).zip(steps).map(|(at, (address, rest))| format!("{at} clk IT ({at}) {address:08x} {rest}\n"));
    log(&lines.collect::<String>())
}

#[test]
fn lines_of_runs_are_those_of_their_items() {
    for name in ["hello-ete", "hello-qemu"] {
        assert_same_lines(&unspool_testing::example(name), &[]);
    }
    let (folder, log) = looping_log();
    let code =
        [0x9400_0400_u32, 0xd503_201f, 0x54ff_ffc1].into_iter().chain([0; 0x3fd]).chain([0xd503_201f, 0xd65f_03c0]);
    let code: Vec<u8> = code.flat_map(u32::to_le_bytes).collect();
    let symbols = [("caller", 0x8000, 12), ("callee", 0x9000, 8)];
    let image = folder.file("image", elf::program(0x8000, &code, &symbols));
    for options in [&[][..], &["--timestamps"], &["--cycle-counts"], &["--timestamps", "--cycle-counts"]] {
        let capture = folder.path(format!("capture{}", options.concat()));
        on("encode", &log, &[&["-o", text(&capture)], options].concat()).clean();
        assert_same_lines(&capture, &[]);
        assert_same_lines(&capture, &["--color", "always"]);
        assert_same_lines(&capture, &["--image", text(&image)]);
        on("decode", &capture, &["--image", text(&image)]).expect(0, &[]).shows(&["caller:\n", "callee:\n"]);
    }
}
