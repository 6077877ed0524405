//! `convert` between formats: what carries over, what is lost, what is refused.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::{Run, example, text, unspool, unspool_with};

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

/// The same run as a trace unit would tell it, which is without accesses and registers.
const BARE: &str = "\
0 clk IT (0) 0000000000001000 d2800020 O EL1h_n : MOV x0,#1
1 clk IT (1) 0000000000001004 f9400001 O EL1h_n : LDR x1,[x0]
2 clk IT (2) 0000000000001008 14000002 O EL1h_n : B 0x1010
3 clk IT (3) 0000000000001010 d503201f O EL1h_n : NOP
";

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }
}

fn convert(from: &Path, to: &Path, more: &[&str]) -> Run {
    unspool(&[&["convert", text(from), text(to)], more].concat())
}

fn astf_example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/example.astf")
}

fn dump(path: &Path) -> String {
    unspool(&["dump", text(path)]).clean().out
}

/// Two traces are equal in what both tell.
#[track_caller]
fn equal(a: &Path, b: &Path, more: &[&str]) {
    let run = unspool(&[&["diff", text(a), text(b), "--strict"], more].concat());
    assert_eq!(run.code, 0, "{run:#?}");
}

#[test]
fn an_astf_trace_goes_through_each_format_and_comes_back() {
    let folder = Folder::new();
    let start = folder.path("start.astf");
    convert(&astf_example(), &start, &[]).clean();
    for name in ["b.stf", "b.zstf", "b.stf.xz", "b.tarmac", "b.tarmac.gz", "b.log"] {
        let (there, back) = (folder.path(name), folder.path("back.astf"));
        convert(&start, &there, &["--deny-loss"]).clean();
        equal(&start, &there, &[]);
        unspool(&["check", text(&there)]).expect(0, &[]);
        convert(&there, &back, &["--deny-loss"]).clean();
        assert_eq!(dump(&back), dump(&start), "{name}");
        assert_eq!(fs::read(&back).unwrap(), fs::read(&start).unwrap(), "{name}");
    }
}

#[test]
fn a_log_becomes_astf() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", LOG), folder.path("a.astf.xz"));
    let run = convert(&log, &astf, &[]).expect(0, &["lost, since ASTF cannot say it", "registers written", "data"]);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    unspool(&["check", text(&astf)]).clean();
    equal(&log, &astf, &[]);
    let lines = dump(&astf);
    for word in ["0x1000", "0x1004", "0x8000", "0x1010"] {
        assert!(lines.contains(&word[2..]), "{word} in {lines}");
    }
}

#[test]
fn losses_are_told_to_programs_and_can_be_denied() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", LOG), folder.path("a.astf"));
    let run = convert(&log, &astf, &["--json"]).expect(0, &[]);
    let rows: Vec<Value> = run.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = |what: &str| rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{what}: {rows:?}"));
    assert_eq!((&row("registers")["count"], &row("registers")["line"]), (&2.into(), &1.into()));
    assert_eq!(
        (&row("data")["count"], &row("data")["line"], &row("data")["kind"]),
        (&1.into(), &3.into(), &"lost".into())
    );
    fs::remove_file(&astf).unwrap();
    convert(&log, &astf, &["--deny-loss"]).expect(1, &["cannot say", "nothing was written"]);
    assert!(!astf.exists());
    convert(&log, Path::new("-"), &["--to", "astf", "--deny-loss"]).expect(1, &["cannot say"]);
}

#[test]
fn a_capture_becomes_a_log_with_context_and_time() {
    let folder = Folder::new();
    let path = folder.path("a.tarmac");
    for (style, line) in [
        ("rev3", "1192960 tic ES  (0000000000400008:94000008) O el0t_ns:        bl 0x400028"),
        ("fast-models", "1192960 tic IT (3) 00400008 94000008 O EL0t_n : bl 0x400028"),
    ] {
        convert(&example(), &path, &["--source", "0x10", "--dialect", style, "--deny-loss"]).clean();
        equal(&example(), &path, &["--source-a", "0x10"]);
        let log = fs::read_to_string(&path).unwrap();
        assert!(log.contains(line), "{log}");
        convert(&example(), &path, &["--source", "0x10", "--dialect", style, "--no-disassembly"]).clean();
        assert!(!fs::read_to_string(&path).unwrap().contains("bl 0x400028"));
    }
    convert(&example(), &path, &[]).expect(2, &["several sources", "--source"]);
}

#[test]
fn a_capture_has_no_addresses_for_astf_unless_another_trace_has() {
    let folder = Folder::new();
    let astf = folder.path("a.astf");
    convert(&example(), &astf, &["--source", "0x10"]).expect(2, &["addresses of accesses"]);
    // A log without memory lines stands for the capture here.
    let head = "# unspool covers times=cycles instructions opcodes branches levels security\n\
                # unspool context level=1 security=non-secure aarch64=yes handler=yes\n";
    let (bare, log) = (folder.file("bare.tarmac", &(head.to_string() + BARE)), folder.file("a.tarmac", LOG));
    convert(&bare, &astf, &[]).expect(2, &["addresses of accesses"]);
    convert(&bare, &astf, &["--accesses", text(&log)]).expect(0, &[]);
    unspool(&["check", text(&astf)]).clean();
    equal(&log, &astf, &[]);
    convert(&bare, &astf, &["--accesses", "-"]).expect(2, &["needs files"]);
    convert(&log, &folder.path("b.tarmac"), &["--accesses", text(&log)]).expect(2, &["--accesses"]);
}

#[test]
fn other_instruction_sets_are_refused() {
    let folder = Folder::new();
    let riscv = folder.path("a.stf");
    fs::write(&riscv, super::stf::long(2)).unwrap();
    for (name, words) in [("b.astf", "AArch64"), ("b.tarmac", "Arm")] {
        let run = convert(&riscv, &folder.path(name), &[]).expect(2, &[words, "RISC-V"]);
        assert!(!folder.path(name).exists(), "{run:?}");
    }
    let thumb = folder.file("t.tarmac", "0 clk IT (0) 00001000 bf00 T thread : NOP\n");
    convert(&thumb, &folder.path("t.astf"), &[]).expect(2, &["AArch64"]);
}

#[test]
fn what_is_not_said_can_be_assumed() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", &LOG.replace("EL1h_n ", "")), folder.path("a.astf"));
    convert(&log, &astf, &[]).expect(2, &["--assume"]);
    convert(&log, &astf, &["--assume", "el=1,security=nonsecure,sp=x"]).expect(0, &[]);
    unspool(&["check", text(&astf)]).clean();
    convert(&log, &astf, &["--assume", "el=7"]).expect(2, &["Exception level"]);
}

#[test]
fn one_core_of_several() {
    let folder = Folder::new();
    let other = LOG.lines().fold(String::new(), |text, line| text + line + "\n" + &line.replace("cpu0", "cpu1") + "\n");
    let (log, astf) = (folder.file("a.tarmac", &other), folder.path("a.astf"));
    convert(&log, &astf, &[]).expect(2, &["--core"]);
    convert(&log, &astf, &["--core", "1"]).expect(0, &["steps of other cores"]);
    equal(&log, &astf, &["--core-a", "1"]);
}

#[test]
fn through_pipes() {
    let folder = Folder::new();
    let (log, astf) = (folder.file("a.tarmac", LOG), folder.path("a.astf"));
    convert(&log, &astf, &[]).expect(0, &[]);
    let piped = unspool_with(&["convert", "-", "-", "--to", "tarmac"], &fs::read(&astf).unwrap()).clean();
    let back = folder.file("b.tarmac", &piped.out);
    equal(&astf, &back, &[]);
    unspool_with(&["convert", "-", "-", "--to", "tarmac"], b"nothing that anybody knows")
        .expect(2, &["standard input"]);
}

#[test]
fn names_and_formats() {
    let folder = Folder::new();
    let log = folder.file("a.tarmac", LOG);
    convert(&log, &folder.path("x"), &["--to", "astf"]).expect(0, &[]);
    convert(&log, &folder.path("y"), &["--to", "zstf"]).clean();
    convert(&log, &folder.path("z.stf"), &["--stf-version", "1.3"]).clean();
    convert(&log, &folder.path("w"), &["--from", "tarmac", "--to", "stf"]).clean();
    convert(&example(), &folder.path("v.xz"), &["--source", "0x10"]).expect(2, &["--to astf, stf, zstf or tarmac"]);
    convert(&log, &folder.path("z.astf"), &["--level", "10"]).expect(2, &["--level 10"]);
    equal(&log, &folder.path("y"), &[]);
    equal(&log, &folder.path("z.stf"), &[]);
}

#[test]
fn what_was_written_before_damage_can_be_kept() {
    let folder = Folder::new();
    let (log, packed) = (folder.file("a.tarmac", LOG), folder.path("a.astf.gz"));
    convert(&log, &packed, &[]).expect(0, &[]);
    let bytes = fs::read(&packed).unwrap();
    let cut = folder.path("cut.astf");
    fs::write(&cut, &bytes[..bytes.len() - 12]).unwrap();
    let out = folder.path("b.tarmac");
    convert(&cut, &out, &[]).expect(1, &["cut.astf"]);
    assert!(!out.exists());
    convert(&cut, &out, &["--keep-damaged"]).expect(1, &["cut.astf"]);
    assert!(out.exists());
}

#[test]
fn a_cut_of_what_was_converted_still_knows_where_it_is() {
    let folder = Folder::new();
    for name in ["b.stf", "b.tarmac"] {
        let (whole, cut, back) = (folder.path(name), folder.path(&format!("cut-{name}")), folder.path("cut.astf"));
        convert(&astf_example(), &whole, &[]).clean();
        unspool(&["slice", text(&whole), text(&cut), "--skip", "3", "--limit", "6"]).expect(0, &[]);
        // Only with level, security and time a cut becomes ASTF.
        convert(&cut, &back, &[]).expect(0, &[]);
        unspool(&["check", text(&back)]).clean();
        let run = unspool(&["diff", text(&astf_example()), text(&back)]).clean();
        assert!(run.out.contains("equal in what both tell"), "{}", run.out);
    }
}
