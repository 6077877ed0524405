//! `convert` and `check` on Tarmac logs: styles, containers, losses and findings.

use std::fs;
use std::path::Path;

use super::{DAMAGED, FAST_MODELS};
use crate::run::{Run, log, on, text};

fn convert(path: &Path, out: &Path, more: &[&str]) -> Run {
    on("convert", path, &[&[text(out)], more].concat())
}

#[test]
fn styles_round_trip() {
    let (folder, path) = log(FAST_MODELS);
    let (there, back) = (folder.path("there.tarmac.xz"), folder.path("back.tarmac"));
    convert(&path, &there, &["--dialect", "rev3"]).clean();
    convert(&there, &back, &["--dialect", "fast-models"]).clean();
    assert_eq!(fs::read_to_string(back).unwrap(), FAST_MODELS);
    on("check", &there, &[]).clean().shows(&[" 0 errors, "]);
}

#[test]
fn containers_keep_lines() {
    let (folder, path) = log(&FAST_MODELS.replace('\n', "\r\n"));
    let (packed, plain) = (folder.path("log.gz"), folder.path("again.txt"));
    convert(&path, &packed, &[]).clean();
    convert(&packed, &plain, &["--dialect", "fast-models"]).clean();
    assert_eq!(fs::read(plain).unwrap(), fs::read(path).unwrap());
}

#[test]
fn losses_are_reported_or_denied() {
    let text = "Tarmac Text Rev 3t\n          5 ns  ES  (00010000:e5910000) A svc:            LDR      r0,[r1]\n                    \
                LD 00000040 ........ ........ ........ 00001c98    S:0000000040/20    SO\n";
    let (folder, path) = log(text);
    let out = folder.path("out.tarmac");
    convert(&path, &out, &["--dialect", "fast-models", "--deny-loss"]).expect(1, &[]);
    assert!(!out.exists());
    let losses = "1 × page order (first in line 3), 1 × memory attributes";
    convert(&path, &out, &["--dialect", "fast-models"]).expect(0, &[losses]);
    let written = fs::read_to_string(&out).unwrap();
    assert_eq!(
        written,
        "5 ns IT (1) 00010000 e5910000 A svc : LDR      r0,[r1]\n5 ns MR4 00000040:000000000040_S 00001c98\n"
    );
    let run = convert(&path, &out, &["--dialect", "fast-models", "--json"]);
    let first = &run.json_messages()[0];
    assert_eq!((&first["kind"], &first["what"], &first["line"]), (&"lost".into(), &"page-order".into(), &3.into()));
}

#[test]
fn findings_have_lines_and_columns() {
    let (_folder, path) = log(DAMAGED);
    let findings = on("check", &path, &["--json"]).expect(1, &[]).json();
    let positions: Vec<_> = findings.iter().map(|found| (found["line"].as_u64(), found["column"].as_u64())).collect();
    assert_eq!(positions, [(Some(4), Some(1)), (Some(5), Some(38)), (None, None)]);
    assert!(findings[..2].iter().all(|found| found["rule"] == "tarmac-malformed-line"));
    assert_eq!(findings[2]["lines"], 6);
}
