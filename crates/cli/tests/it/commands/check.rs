//! `check` on steps: captures, and violations that the rules of a format do not cover.

use std::fs;

use super::example;
use crate::run::{Folder, log, on, text, unspool, unspool_with};

/// Valid lines with an unexplained change from EL0 to EL1.
const LEVELS: &str = "\
0 clk cpu0 IT (0) 0000000000001000 d503201f O EL0t_n : NOP
1 clk cpu0 IT (1) 0000000000001004 d503201f O EL0t_n : NOP
2 clk cpu0 IT (2) 0000000000001008 d503201f O EL1h_n : NOP
3 clk cpu0 IT (3) 000000000000100c d503201f O EL1h_n : NOP
";

#[test]
fn a_capture_has_steps() {
    let path = example();
    // One of its trace units lost trace.
    let run = on("check", &path, &[]).clean();
    let overflow =
        format!("{} ETE_0: offset 0x95: warning: capture-overflow: the trace unit lost trace\n", path.display());
    assert!(run.out.starts_with(&overflow), "{}", run.out);
    assert!(run.out.contains(": 2 sources, 78 steps, 5 gaps, 0 errors, 1 warning\n"), "{}", run.out);
    on("check", &path, &["--strict"]).expect(1, &[]).shows(&["error: capture-overflow: ", "1 error, 0 warnings"]);
    let one = on("check", &path, &["--source", "ETE_1", "--json"]).clean();
    assert_eq!((one.json().len(), &one.json_summary()["sources"]), (0, &1.into()));
    on("check", &path, &["--source", "ETE_7"]).expect(2, &["no source 'ETE_7'"]);
    // The rules of captures without those of steps.
    let native = on("check", &path, &["--native"]).clean();
    assert!(native.out.contains(": 2 sources, 0 errors, 1 warning\n"), "{}", native.out);
    let steps = on("check", &path, &["--steps"]).clean();
    assert_eq!(steps.out, format!("{}: 2 sources, 78 steps, 5 gaps, nothing found\n", path.display()));
}

#[test]
fn an_unreadable_capture_is_rejected() {
    let folder = super::example_copy();
    for name in ["ete_0.ini", "ete_1.ini"] {
        let path = folder.path(name);
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("type=ETE", "type=HTM")).unwrap();
    }
    let words = ["unknown type of trace source 'HTM'", "no trace source could be read", "unspool info"];
    for more in [&[][..], &["--json"]] {
        let run = on("check", folder.root(), more).expect(2, &words);
        assert_eq!(run.out, "");
    }
}

#[test]
fn steps_are_checked_beyond_the_format() {
    let (_dir, path) = log(LEVELS);
    let run = on("check", &path, &[]).expect(1, &[]);
    let expected = format!("{}: line 3: error: step-level-change: from level 0 to level 1", path.display());
    assert!(run.out.starts_with(&expected), "{}", run.out);
    assert!(run.out.contains(": 4 lines, 6 steps, 1 error, 0 warnings\n"), "{}", run.out);
    let run = on("check", &path, &["--json"]).expect(1, &[]);
    let found = &run.json()[0];
    assert_eq!((&found["line"], &found["core"], &found["severity"]), (&3.into(), &0.into(), &"error".into()));
    assert_eq!((&found["rule"], &found["section"]), (&"step-level-change".into(), &"state".into()));
    assert_eq!(found["kind"], "finding");
    assert!(found["what"].as_str().unwrap().starts_with("from level 0 to level 1 "), "{found}");
    assert_eq!(found["file"], path.display().to_string());
    assert_eq!(run.json_summary()["rules"]["step-level-change"], 1);
    let none = on("check", &path, &["--limit", "0"]).expect(1, &[]);
    assert!(none.out.contains("1 error") && !none.out.contains("line 3"), "{}", none.out);
}

#[test]
fn native_and_steps_select_checks() {
    let (_dir, path) = log(LEVELS);
    let native = on("check", &path, &["--native"]).clean();
    assert_eq!(native.out, format!("{}: 4 lines, nothing found\n", path.display()));
    let steps = on("check", &path, &["--steps"]).expect(1, &[]);
    assert!(steps.out.contains(": 6 steps, 1 error, 0 warnings\n"), "{}", steps.out);
    on("check", &path, &["--steps", "--native"]).expect(2, &["cannot be used with"]);
}

#[test]
fn a_pipe_is_read_once() {
    let run = unspool_with(&["check", "-"], LEVELS.as_bytes()).clean();
    let expected =
        "standard input: 4 lines, steps not checked (a pipe can be read only once: see --steps), nothing found\n";
    assert_eq!(run.out, expected);
    let summary = unspool_with(&["check", "-", "--json"], LEVELS.as_bytes()).clean().json_summary();
    assert!(summary["steps"].is_null() && summary.get("steps").is_some(), "{summary}");
    let steps = unspool_with(&["check", "-", "--steps"], LEVELS.as_bytes()).expect(1, &[]);
    assert!(steps.out.starts_with("standard input: line 3: error: step-level-change: "), "{}", steps.out);
    unspool_with(&["check", "-", "--steps"], b"no trace at all").expect(2, &["standard input"]);
}

#[test]
fn cores_are_checked_separately() {
    let two: String = LEVELS.lines().map(|line| format!("{line}\n{}\n", line.replace("cpu0", "cpu1"))).collect();
    let (_dir, path) = log(&two);
    let run = on("check", &path, &["--steps"]).expect(1, &[]);
    let found: Vec<&str> = run.out.lines().filter(|line| line.contains(": step-level-change: ")).collect();
    assert_eq!(found.len(), 2, "{}", run.out);
    assert!(found[1].contains(": line 6, core 1: error: "), "{}", run.out);
}

#[test]
fn missing_code_is_a_warning_per_region() {
    let folder = super::example_copy();
    fs::remove_file(folder.path("program.bin")).unwrap();
    let run = on("check", folder.root(), &["--json"]).expect(0, &["warning: "]);
    let findings = run.json();
    let missing: Vec<_> = findings.iter().filter(|line| line["rule"] == "capture-missing-code").collect();
    assert!(!missing.is_empty(), "{findings:?}");
    for line in &missing {
        assert_eq!(line["severity"], "warning");
        assert!(line["what"].as_str().unwrap().starts_with("no code in 0x"), "{line}");
        assert!(line["offset"].is_u64() && line["source"].is_u64() && line["session"] == 0, "{line}");
    }
    let strict = on("check", folder.root(), &["--json", "--strict"]).expect(1, &[]).json();
    assert!(strict.iter().all(|line| line["severity"] == "error"), "{strict:?}");
    // With the image, nothing is missing.
    let image = format!("{}@0x400000", example().join("program.bin").display());
    let found = on("check", folder.root(), &["--image", &image, "--json"]).expect(0, &[]).json();
    assert!(found.iter().all(|line| line["rule"] != "capture-missing-code"), "{found:?}");
}

#[test]
fn several_files_have_one_summary() {
    let (_dir, bad) = log(LEVELS);
    let good = example();
    let args = ["check", text(&good), text(&bad)];
    let run = unspool(&args).expect(1, &[]);
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[1].ends_with(": 2 sources, 78 steps, 5 gaps, 0 errors, 1 warning"), "{}", run.out);
    assert_eq!(lines.last(), Some(&"2 files: 1 error, 1 warning"), "{}", run.out);
    let run = unspool(&[&args[..], &["--json"]].concat()).expect(1, &[]);
    assert!(run.json().iter().all(|value| value["kind"] == "finding"), "{}", run.out);
    let summary = run.json_summary();
    let files = summary["files"].as_array().unwrap();
    assert_eq!(files.iter().map(|file| file["errors"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((&summary["sources"], &summary["lines"], &summary["errors"]), (&2.into(), &4.into(), &1.into()));
    // The worst exit code, and the others are checked nonetheless.
    let run =
        unspool(&["check", "no-such-file.astf", text(&good)]).expect(2, &["no-such-file.astf", "not all of the files"]);
    assert!(run.out.contains("2 sources"), "{}", run.out);
    unspool(&["check", text(&good), text(&good)]).clean();
}

/// A bare buffer is checked and converted like the capture that it is a part of.
#[test]
fn bare_buffers_are_checked_and_converted() {
    let (capture, folder) = (unspool_testing::example("hello-qemu"), Folder::new());
    let (trace, image) = (capture.join("trace_0.bin"), capture.join("hello"));
    let bare = ["--protocol", "ete", "--formatted", "--register", "TRCCONFIGR=0x1001", "--image", text(&image)];
    let checked = on("check", &trace, &bare).expect(0, &[]);
    let whole = on("check", &capture, &[]).clean();
    let totals = |out: &str| out.lines().last().unwrap().split_once(": ").unwrap().1.to_string();
    assert_eq!(totals(&checked.out), totals(&whole.out));
    let [a, b] = [("a.tarmac", &trace, &bare[..]), ("b.tarmac", &capture, &[])].map(|(name, input, options)| {
        let out = folder.path(name);
        on("convert", input, &[&[text(&out)], options].concat()).expect(0, &["133 instructions"]);
        fs::read_to_string(out).unwrap()
    });
    assert_eq!(a, b);
    // Two parts are one buffer.
    let bytes = fs::read(&trace).unwrap();
    let [first, second] =
        [("first", &bytes[..32]), ("second", &bytes[32..])].map(|(name, part)| folder.file(name, part));
    let parts = [&["check", text(&first), text(&second)], &bare[..]].concat();
    assert_eq!(totals(&unspool(&parts).expect(0, &[]).out), totals(&whole.out));
    // Without the protocol, the message names an option that the command has.
    on("check", &trace, &[]).expect(2, &["--protocol ete"]);
    on("convert", &trace, &[text(&folder.path("c.stf"))]).expect(2, &["--protocol ete"]);
    let other = folder.path("c.stf");
    let options = [&[text(&other), "--from", "stf"], &bare[..]].concat();
    on("convert", &trace, &options).expect(2, &["IN is a bare buffer, and --from names another format"]);
}
