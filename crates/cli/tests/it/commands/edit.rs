//! `strip`, `edit` and `merge`: STF files with fewer records, with another header, and joined.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::stf::{long, small};
use crate::run::{Folder, on, text, unspool};

/// Address and opcode of every instruction.
fn instructions(path: &Path) -> Vec<(Value, Value)> {
    let lines = on("dump", path, &["--json"]).json();
    lines
        .iter()
        .filter(|line| line["address"].is_string())
        .map(|line| (line["address"].clone(), line["opcode"].clone()))
        .collect()
}

fn info(path: &Path) -> Value {
    on("info", path, &["--json"]).clean().json().remove(0)
}

#[test]
fn stripped_traces_execute_the_same() {
    let folder = Folder::new();
    let input = folder.file("a.stf", small());
    for (types, gone) in [
        (&["event"][..], &["fault", "event target"][..]),
        (&["STF_INST_REG"], &["destination"]),
        (&["inst_mem_content"], &[" = 0x"]),
        (&["inst_mem_access", "comment"], &["read 8"]),
    ] {
        let out = folder.path("out.zstf");
        let options: Vec<&str> = types.iter().flat_map(|name| ["--record", name]).collect();
        on("strip", &input, &[&[text(&out), "--force"], &options[..]].concat()).expect(0, &["removed"]);
        assert_eq!(instructions(&out), instructions(&input), "{types:?}");
        let (before, after) = (on("dump", &input, &[]).out, on("dump", &out, &[]).out);
        assert!(gone.iter().all(|text| before.contains(text) && !after.contains(text)), "{types:?}: {after}");
    }
    let out = folder.path("none.stf");
    on("strip", &input, &[text(&out), "-r", "inst_opcode32"]).expect(2, &["cannot be read without"]);
    on("strip", &input, &[text(&out), "-r", "round"]).expect(2, &["no record is called 'round'", "inst_reg"]);
    on("strip", &input, &[text(&input), "-r", "event"]).expect(2, &["write to another one"]);
    assert!(!out.exists());
    folder.assert_no_partial_file();
}

#[test]
fn headers_are_edited() {
    let folder = Folder::new();
    let (input, out) = (folder.file("a.stf", small()), folder.path("b.stf"));
    let options =
        ["--extensions", "rv64gcv_zba", "--set-feature", "PTE", "--comment", "by hand", "--process", "1,20,300"];
    on("edit", &input, &[&[text(&out)], &options[..]].concat()).expect(0, &[]);
    let page = info(&out);
    assert_eq!(page["extensions"], "rv64gcv_zba");
    assert_eq!(page["process"], json!([1, 20, 300]));
    assert!(page["feature_names"].as_array().unwrap().contains(&json!("PTE")), "{page}");
    assert!(page["comments"].as_array().unwrap().contains(&json!("by hand")), "{page}");
    assert_eq!(instructions(&out), instructions(&input));
    on("edit", &out, &[text(&input), "--comment", "x"]).expect(2, &["--force"]);
    on("edit", &input, &["-"]).expect(2, &["nothing to change"]);
    on("edit", &input, &["-", "--clear-feature", "EVENT64"]).expect(2, &["determines the length"]);
    on("edit", &input, &["-", "--process", "1"]).expect(2, &["HART,PID,TID"]);
    // Nothing but the header changes.
    let same = folder.path("c.stf");
    on("edit", &input, &[text(&same), "--set-feature", "RV64", "--unsigned"]).expect(0, &[]);
    assert_eq!(fs::read(&same).unwrap(), fs::read(&input).unwrap());
}

#[test]
fn merged_traces_execute_one_after_the_other() {
    let folder = Folder::new();
    let (first, second) = (folder.file("a.stf", long(5)), folder.file("b.stf", long(3)));
    let out = folder.path("c.zstf");
    unspool(&["merge", text(&first), text(&second), text(&first), "-o", text(&out)])
        .expect(0, &["26 instructions of 3 files"]);
    let all = [&first, &second, &first].map(|path| instructions(path)).concat();
    assert_eq!(instructions(&out), all);
    let checked = on("check", &out, &[]).clean().out;
    assert!(checked.contains("nothing found") || checked.contains(" 0 errors"), "{checked}");
    let other = folder.file("d.stf", small());
    unspool(&["merge", text(&first), text(&other), "-o", text(&folder.path("e.stf"))])
        .expect(2, &["d.stf", "the length of vector registers differs from the first trace"]);
    unspool(&["merge", text(&first), "-o", text(&first)]).expect(2, &["write to another one"]);
    let log = folder.file("t.tarmac", "1 clk cpu0 IT (1) 00001000 d2800020 O EL1h_n : MOV      x0,#1\n");
    unspool(&["merge", text(&first), text(&log), "-o", text(&folder.path("e.stf"))]).expect(2, &["not an STF file"]);
    folder.assert_no_partial_file();
}

/// The part before the damage is kept, up to its last instruction.
#[test]
fn damaged_traces_are_kept_up_to_the_damage() {
    let folder = Folder::new();
    let mut bytes = small();
    // Within the records of the third instruction.
    bytes.truncate(bytes.len() - 20);
    let (input, out) = (folder.file("a.stf", &bytes), folder.path("b.stf"));
    on("strip", &input, &[text(&out), "-r", "inst_reg"]).expect(1, &["a.stf"]);
    assert_eq!(instructions(&out).len(), 2);
    on("check", &out, &[]);
    assert_eq!(on("info", &out, &[]).code, 0);
}
