//! Real STF traces through the command line, and damaged ones.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `stf/`. What the listings say is compared with the reference in
//! `crates/stf/tests/it/corpus_text.rs`; here every file has to survive the way through the verbs.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use unspool_testing::{corpus, note};

/// Damaged files in which nothing is wrong that could be seen, and why.
const SOUND: [(&str, &str); 6] = [
    ("plainzstd.zstf", "a trace in a zstd file, under the name of another container"),
    ("t108.stf", "cut between two records"),
    ("t131.stf", "cut between two records"),
    ("t490.stf", "cut between two records"),
    ("trail255.stf", "the mark of the end, as the text has it"),
    ("ver1.9.stf", "a later minor version, of which it is warned"),
];

/// Files that are not what they should be at all.
const REFUSED: [(&str, &str); 2] = [("t0.stf", "nothing is in it"), ("ver2.stf", "a version that nobody knows")];

#[test]
fn sound_traces_are_read_by_all_verbs() {
    let Some(stf) = corpus("stf") else { return };
    let mut count = 0;
    for folder in ["dromajo", "olympia", "pegasus", "stf_lib", "synthetic"] {
        for path in files(&stf.join(folder)).iter().filter(|path| path.extension().is_some_and(|kind| kind != "elf")) {
            let expected = expected_count(&stf, path);
            let page = run(&["info", text(path), "--json"]);
            assert_eq!((page.status.code(), said(&page)), (Some(0), String::new()), "{}", path.display());
            let page: Value = serde_json::from_slice(&page.stdout).unwrap();
            if let Some([records, instructions]) = expected {
                assert_eq!((&page["records"], &page["instructions"]), (&records.into(), &instructions.into()));
            }
            for verb in
                [&["dump", "--limit", "1000"][..], &["dump", "--records", "--json", "--limit", "1000"], &["stats"]]
            {
                let output = run(&[&verb[..1], &[text(path)], &verb[1..]].concat());
                assert_eq!(output.status.code(), Some(0), "{verb:?} {}: {}", path.display(), said(&output));
            }
            count += 1;
        }
    }
    note(format_args!("corpus: {count} STF files were read by info, dump and stats"));
    assert!(count >= 25, "the corpus is not all there");
}

#[test]
fn the_same_trace_in_two_containers_reads_the_same() {
    let Some(stf) = corpus("stf") else { return };
    for [one, other] in [
        ["dromajo/bmi_towers.bare.stf", "dromajo/bmi_towers.bare.zstf"],
        ["dromajo/illegal.v2.stf", "dromajo/illegal.v2.zstf"],
        ["synthetic/all_records.stf.gz", "synthetic/all_records.stf.xz"],
    ] {
        for options in [&[][..], &["--records"], &["--json"]] {
            let [one, other] = [one, other].map(|name| run(&[&["dump", text(&stf.join(name))], options].concat()));
            assert!(one.status.success() && other.status.success());
            assert!(one.stdout == other.stdout && !one.stdout.is_empty());
        }
    }
}

#[test]
fn damaged_traces_are_problems() {
    let Some(stf) = corpus("stf") else { return };
    let mut paths = files(&stf.join("negative/derived"));
    paths.push(stf.join("negative/escaped_bytes_not_zstf.zstf"));
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is = |names: &[(&str, &str)]| names.iter().any(|(known, _)| *known == name);
        for verb in [&["dump"][..], &["dump", "--records"], &["stats"], &["check"]] {
            let output = run(&[&verb[..1], &[text(path)], &verb[1..]].concat());
            let (code, said) = (output.status.code(), said(&output));
            assert!(!said.contains("panicked"), "{name}: {said}");
            match () {
                // What is missing from such a file is for the checker to tell.
                () if is(&SOUND) => assert!(code == Some(0) || verb == ["check"], "{verb:?} {name}: {code:?} {said}"),
                () if is(&REFUSED) => assert_eq!(code, Some(2), "{verb:?} {name}: {said}"),
                () => {
                    assert_eq!(code, Some(1), "{verb:?} {name}: {said}");
                    let has_place = said.contains("at offset 0x") || said.contains("index");
                    assert!(has_place, "{verb:?} {name}: {said}");
                }
            }
        }
    }
    note(format_args!("corpus: {} damaged STF files were met", paths.len()));
    assert!(paths.len() >= 26, "the corpus is not all there");
}

/// Records and instructions, as the reference counts them.
fn expected_count(stf: &Path, path: &Path) -> Option<[u64; 2]> {
    let folder = path.parent()?.file_name()?.to_str()?;
    let file = path.file_name()?.to_str()?;
    let text = fs::read_to_string(stf.join(format!("expected/{folder}__{file}/count.csv"))).ok()?;
    let mut fields = text.lines().nth(1)?.split(',').map(|field| field.parse().unwrap());
    Some([fields.next()?, fields.next()?])
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unspool")).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
