//! Real STF traces through the command line, and damaged ones.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that contains `stf/`. `crates/stf/tests/it/corpus_text.rs` compares the listings with
//! the reference; here the verbs read every file.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use unspool_testing::{corpus, note};

use crate::run::on;

/// Damaged files without visible damage, and why.
const SOUND: [(&str, &str); 6] = [
    ("plainzstd.zstf", "a trace in a zstd file, under the name of another container"),
    ("t108.stf", "cut between two records"),
    ("t131.stf", "cut between two records"),
    ("t490.stf", "cut between two records"),
    ("trail255.stf", "the end marker of the specification"),
    ("ver1.9.stf", "a later minor version, which is a warning"),
];

/// Files that are not STF of a known version, and why.
const REJECTED: [(&str, &str); 2] = [("t0.stf", "empty"), ("ver2.stf", "unknown version")];

#[test]
fn sound_traces_are_read_by_all_verbs() {
    let Some(stf) = corpus("stf") else { return };
    let mut count = 0;
    for folder in ["dromajo", "olympia", "pegasus", "stf_lib", "synthetic"] {
        for path in files(&stf.join(folder)).iter().filter(|path| path.extension().is_some_and(|kind| kind != "elf")) {
            let expected = expected_count(&stf, path);
            let page = on("info", path, &["--json"]).clean().json().remove(0);
            // The reference does not count instructions that faulted.
            if let Some([records, executed]) = expected {
                assert_eq!((&page["records"], &page["executed"]), (&records.into(), &executed.into()));
            }
            for verb in
                [&["dump", "--limit", "1000"][..], &["dump", "--records", "--json", "--limit", "1000"], &["stats"]]
            {
                on(verb[0], path, &verb[1..]).expect(0, &[]);
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
            let [one, other] = [one, other].map(|name| on("dump", &stf.join(name), options).expect(0, &[]).out);
            assert!(one == other && !one.is_empty());
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
            let run = on(verb[0], path, &verb[1..]);
            let has_position = run.err.contains("at offset 0x") || run.err.contains("index");
            let is_right = match run.code {
                // The checker may report what is missing.
                code if is(&SOUND) => code == 0 || verb == ["check"],
                code if is(&REJECTED) => code == 2,
                code => code == 1 && has_position,
            };
            assert!(is_right, "{verb:?} {name}: {run:?}");
        }
    }
    note(format_args!("corpus: {} damaged STF files were read", paths.len()));
    assert!(paths.len() >= 26, "the corpus is not all there");
}

/// Numbers of records and instructions of the reference.
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
