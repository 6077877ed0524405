//! `convert` and `check` on Tarmac logs: other styles, other containers, and what is lost or found.

use std::fs;
use std::path::PathBuf;

use super::super::*;
use super::{DAMAGED, FAST_MODELS, log, words};

/// A file that does not exist yet, beside the log.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(name)
}

fn convert(path: &Path, out: &Path, more: &[&str]) -> Run {
    let out = out.display().to_string();
    unspool(&words("convert", path, &[&[out.as_str()], more].concat()))
}

#[test]
fn a_log_goes_to_rev3_and_back() {
    let (_dir, path) = log(FAST_MODELS);
    let (there, back) = (beside(&path, "there.tarmac.xz"), beside(&path, "back.tarmac"));
    convert(&path, &there, &["--dialect", "rev3"]).clean();
    convert(&there, &back, &["--dialect", "fast-models"]).clean();
    assert_eq!(fs::read_to_string(back).unwrap(), FAST_MODELS);
    let run = unspool(&words("check", &there, &[])).clean();
    assert!(run.out.contains(" 0 errors, "), "{}", run.out);
}

#[test]
fn lines_stay_as_they_are_in_another_container() {
    let (_dir, path) = log(&FAST_MODELS.replace('\n', "\r\n"));
    let (packed, plain) = (beside(&path, "log.gz"), beside(&path, "again.txt"));
    convert(&path, &packed, &[]).clean();
    convert(&packed, &plain, &["--dialect", "fast-models"]).clean();
    assert_eq!(fs::read(plain).unwrap(), fs::read(path).unwrap());
}

#[test]
fn what_is_lost_is_told_or_denied() {
    let text = "Tarmac Text Rev 3t\n          5 ns  ES  (00010000:e5910000) A svc:            LDR      r0,[r1]\n                    \
                LD 00000040 ........ ........ ........ 00001c98    S:0000000040/20    SO\n";
    let (_dir, path) = log(text);
    let out = beside(&path, "out.tarmac");
    let run = convert(&path, &out, &["--dialect", "fast-models", "--deny-loss"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(!out.exists());
    let run = convert(&path, &out, &["--dialect", "fast-models"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("1 × page order (first in line 3), 1 × memory attributes"), "{}", run.err);
    let written = fs::read_to_string(&out).unwrap();
    assert_eq!(
        written,
        "5 ns IT (1) 00010000 e5910000 A svc : LDR      r0,[r1]\n5 ns MR4 00000040:000000000040_S 00001c98\n"
    );
    let run = convert(&path, &out, &["--dialect", "fast-models", "--json"]);
    let first: Value = serde_json::from_str(run.err.lines().next().unwrap()).unwrap();
    assert_eq!((&first["kind"], &first["what"], &first["line"]), (&"lost".into(), &"page-order".into(), &3.into()));
}

#[test]
fn findings_have_lines_and_columns() {
    let (_dir, path) = log(DAMAGED);
    let run = unspool(&words("check", &path, &["--json"]));
    assert_eq!(run.code, 1);
    let findings: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let positions: Vec<_> = findings.iter().map(|found| (found["line"].as_u64(), found["column"].as_u64())).collect();
    assert_eq!(positions, [(Some(4), Some(1)), (Some(5), Some(38)), (None, None)]);
    assert!(findings[..2].iter().all(|found| found["rule"] == "tarmac-malformed-line"));
    assert_eq!(findings[2]["lines"], 6);
}
