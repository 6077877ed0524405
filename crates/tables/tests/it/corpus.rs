//! Tables of the traces of the corpus. Needs the corpus: `UNSPOOL_CORPUS` names its folder.

use std::fs;
use std::path::{Path, PathBuf};

use unspool::FileKind;
use unspool_testing::{corpus, note};

use super::expanded::assert_equal;

/// Instructions of a trace that is compared: a larger one takes too long.
const LARGEST: u64 = 64 << 20;

#[test]
fn blocks_of_every_capture_are_its_steps() {
    assert_all("coresight");
}

#[test]
fn blocks_of_every_stf_file_are_its_steps() {
    assert_all("stf");
}

#[test]
fn blocks_of_every_log_are_its_steps() {
    assert_all("tarmac");
}

fn assert_all(folder: &str) {
    let Some(folder) = corpus(folder) else { return };
    let mut traces = Vec::new();
    find(&folder, &mut traces);
    let (mut count, mut instructions, mut refused) = (0, 0, 0);
    for path in &traces {
        let name = path.display().to_string();
        // Captures whose sources have no instructions, and logs of other programs.
        let Ok(trace) = unspool::open(path) else {
            refused += 1;
            continue;
        };
        if trace.step_sources().is_err() {
            refused += 1;
            continue;
        }
        instructions += assert_equal(&name, &trace);
        count += 1;
    }
    assert!(count > 0, "no trace in {}", folder.display());
    note(format_args!("{count} traces, {instructions} instructions, {refused} without steps"));
}

/// Traces below a folder: captures are folders, and everything inside of them belongs to them.
pub(crate) fn find(folder: &Path, traces: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let is_small = fs::metadata(&path).unwrap().len() <= LARGEST;
        match FileKind::at(&path) {
            _ if path.is_dir() && unspool::open(&path).is_err() => find(&path, traces),
            Ok(_) if is_small => traces.push(path),
            _ => {}
        }
    }
}
