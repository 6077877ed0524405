//! Tarmac logs: recognized by their contents, listed, counted, checked, sliced and converted.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::run::{Run, assert_fields, gzip, log, on, text, unspool, unspool_with};

/// A few steps in the style of Fast Models.
const FAST_MODELS: &str = "\
0 clk R SP_EL1 0000000000090000
1 clk IT (1) 00010000 d2800020 O EL1h_n : MOV      x0,#1
1 clk R X0 0000000000000001
2 clk IT (2) 00010004 f81f0fe0 O EL1h_n : STR      x0,[sp,#-0x10]!
2 clk MW8 0008fff0:00000008fff0_NS 00000000_00000001
2 clk R SP_EL1 000000000008fff0
3 clk IS (3) 00010008 54000041 O EL1h_n : B.NE     {pc}+8 ; 0x10010
4 clk IT (4) 0001000c d65f03c0 O EL1h_n : RET
";

/// Rev 3 with malformed lines.
const DAMAGED: &str = "\
Tarmac Text Rev 3t
          5 ns  ES  (00010000:e3a00001) A svc:            MOV      r0,#1
                    R R0 00000001
\u{1}\u{2}binary
          6 ns  ES  (00010004:e580100
          7 ns  ES  (00010008:e12fff1e) A svc:            BX       lr
";

#[test]
fn a_log_as_text() {
    let (_dir, path) = log(FAST_MODELS);
    let run = on("dump", &path, &["--skip", "1", "--limit", "4"]).clean();
    let lines: Vec<&str> = run.out.lines().map(str::trim_start).collect();
    assert_eq!(lines[0], "2            1 clk  instruction 0x10000 d2800020 a64 EL1h_n #1  MOV      x0,#1");
    assert_eq!(lines[3], "5            2 clk  access write 8 at 0x8fff0 (NS:0x8fff0) = 00000000_00000001");
    assert_eq!(lines.len(), 4);
}

#[test]
fn json_has_the_fields_by_name() {
    let (_dir, path) = log(FAST_MODELS);
    let values = on("dump", &path, &["--json"]).clean().json();
    assert_eq!(values.len(), 8);
    assert_fields(&values[6], &json!({"address": "0x10008", "executed": false}));
    assert_fields(&values[4], &json!({"data": "00000000_00000001", "time": "2 clk"}));
}

#[test]
fn pipes_and_compressed_logs_read_the_same() {
    let (dir, path) = log(FAST_MODELS);
    let plain = on("dump", &path, &[]).clean().out;
    assert_eq!(unspool_with(&["dump", "-"], FAST_MODELS.as_bytes()).clean().out, plain);
    let packed = dir.file("packed", gzip(FAST_MODELS));
    assert_eq!(on("dump", &packed, &[]).clean().out, plain);
}

#[test]
fn malformed_lines_are_reported_and_skipped() {
    let (_dir, path) = log(DAMAGED);
    let run = on("dump", &path, &[]).expect(1, &["line 4, column 1", "line 5, column"]);
    assert_eq!(run.out.lines().count(), 6);
    assert!(run.out.lines().last().unwrap().contains("0x10008"), "{}", run.out);
    on("info", &path, &[]).expect(1, &[]).shows(&["2 lines cannot be parsed", "Tarmac, rev3, plain"]);
}

#[test]
fn info_and_stats_count() {
    let (_dir, path) = log(FAST_MODELS);
    let info = &on("info", &path, &["--json"]).clean().json()[0];
    assert_fields(info, &json!({"instructions": 4, "skipped": 1, "lines": 8, "dialect": "fast-models"}));
    let stats = on("stats", &path, &["--json"]).clean().json();
    assert_eq!(stats[0]["writes"], 1);
    assert!(stats.iter().any(|row| row["name"] == "b.ne" && row["count"] == 1), "{stats:?}");
}

#[test]
fn slices_keep_lines_byte_for_byte() {
    let input = DAMAGED.replace('\n', "\r\n");
    let (dir, path) = log(input.trim_end());
    let out = dir.path("cut");
    let (from, to) = (text(&path), text(&out));
    unspool(&["slice", from, to]).expect(1, &["line 4"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), input.trim_end());
    unspool(&["slice", from, to, "--force", "--skip", "1", "--limit", "1", "--state", "none"]).expect(1, &[]);
    let lines: Vec<&str> = input.trim_end().split_inclusive('\n').collect();
    assert_eq!(fs::read_to_string(&out).unwrap(), format!("{}{}", lines[0], lines[5]));
}

/// Cortex-M0 prints the effects of an instruction before the instruction.
#[test]
fn slices_include_effects_before_the_instruction() {
    let input = "120ns R r2 00000004\n120ns IT 00000400 2204        MOVS     r2,#4\n130ns R r3 00000005\n\
                130ns IT 00000402 2305        MOVS     r3,#5\n140ns R r4 00000006\n140ns IT 00000404 2406        MOVS     r4,#6\n";
    let (dir, path) = log(input);
    let out = dir.path("cut");
    let [from, to] = [&path, &out].map(|path| text(path));
    unspool(&["slice", from, to, "--force", "--skip", "1", "--limit", "1", "--dialect", "cortex-m0"]).clean();
    let lines: Vec<&str> = input.split_inclusive('\n').collect();
    assert_eq!(fs::read_to_string(&out).unwrap(), lines[2..4].concat());
}

#[test]
fn other_text_is_not_a_log() {
    let (_dir, path) = log("Dear reader,\nthis is a letter.\n");
    on("dump", &path, &[]).expect(2, &[]);
    // Unless an option selects it.
    on("dump", &path, &["--dialect", "other"]).expect(1, &["line 1, column 1"]);
}

#[test]
fn double_words_of_cortex_r5_are_in_address_order() {
    let (dir, path) = log("5 ns IT (00000050:00000003) 00000050 e8a00006 A : STM r0!,{r1,r2}\n\
                           5 ns MNW8____ (00000050:00000003) 00007ff8 11112222 33334444\n");
    on("state", &path, &["--at", "2", "--memory", "0x7ff8+8"]).clean().shows(&["22 22 11 11 44 44 33 33"]);
    for (style, line) in [("rev3", "33334444 11112222 ........"), ("fast-models", "MW8 00007ff8 33334444_11112222")] {
        let out = dir.path(style);
        let [from, to] = [&path, &out].map(|path| text(path));
        unspool(&["convert", from, to, "--to", "tarmac", "--to-dialect", style]).expect(0, &[]);
        assert!(fs::read_to_string(&out).unwrap().contains(line), "{style}");
    }
}

fn convert(path: &Path, out: &Path, more: &[&str]) -> Run {
    on("convert", path, &[&[text(out)], more].concat())
}

#[test]
fn styles_round_trip() {
    let (folder, path) = log(FAST_MODELS);
    let (there, back) = (folder.path("there.tarmac.xz"), folder.path("back.tarmac"));
    convert(&path, &there, &["--to-dialect", "rev3"]).clean();
    convert(&there, &back, &["--to-dialect", "fast-models"]).clean();
    assert_eq!(fs::read_to_string(back).unwrap(), FAST_MODELS);
    on("check", &there, &[]).clean().shows(&[" 0 errors, "]);
}

#[test]
fn containers_keep_lines() {
    let (folder, path) = log(&FAST_MODELS.replace('\n', "\r\n"));
    let (packed, plain) = (folder.path("log.tarmac.gz"), folder.path("again.tarmac"));
    convert(&path, &packed, &[]).clean();
    convert(&packed, &plain, &["--to-dialect", "fast-models"]).clean();
    assert_eq!(fs::read(plain).unwrap(), fs::read(path).unwrap());
}

#[test]
fn losses_are_reported_or_denied() {
    let text = "Tarmac Text Rev 3t\n          5 ns  ES  (00010000:e5910000) A svc:            LDR      r0,[r1]\n                    \
                LD 00000040 ........ ........ ........ 00001c98    S:0000000040/20    SO\n";
    let (folder, path) = log(text);
    let out = folder.path("out.tarmac");
    convert(&path, &out, &["--to-dialect", "fast-models", "--deny-loss"]).expect(1, &[]);
    assert!(!out.exists());
    let losses = "1 × page order (first in line 3), 1 × memory attributes";
    convert(&path, &out, &["--to-dialect", "fast-models"]).expect(0, &[losses]);
    let written = fs::read_to_string(&out).unwrap();
    assert_eq!(
        written,
        "5 ns IT (1) 00010000 e5910000 A svc : LDR      r0,[r1]\n5 ns MR4 00000040:000000000040_S 00001c98\n"
    );
    let run = convert(&path, &out, &["--to-dialect", "fast-models", "--json"]);
    let first = &run.json_messages()[0];
    assert_eq!((&first["kind"], &first["what"], &first["line"]), (&"lost".into(), &"page-order".into(), &3.into()));
}

#[test]
fn findings_have_lines_and_columns() {
    let (_folder, path) = log(DAMAGED);
    let run = on("check", &path, &["--json"]).expect(1, &[]);
    let findings = run.json();
    let positions: Vec<_> = findings.iter().map(|found| (found["line"].as_u64(), found["column"].as_u64())).collect();
    assert_eq!(positions, [(Some(4), Some(1)), (Some(5), Some(38))]);
    assert!(findings.iter().all(|found| found["rule"] == "tarmac-malformed-line"));
    assert_eq!(run.json_summary()["lines"], 6);
}
