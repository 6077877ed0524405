//! Coverage of a real program, compared with the line counts of `gcov`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use unspool_testing::{repository, tool};

use crate::programs::{Target, built_for_debugging, record, unspool};
use crate::run::{Run, text};

/// The count of a line is the number of times that it was entered, which is what gcov counts in an instrumented build.
///
/// There are two differences. gcov counts lines that have no code of their own, labels and the first line of a function: these
/// have the count of the next line with code. And debug information has the braces of a function, which gcov does not count.
#[test]
fn line_counts_are_those_of_gcov() {
    let dir = TempDir::new().unwrap();
    let Some(program) = built_for_debugging(dir.path(), "covered", Target::A64) else { return };
    let Some(expected) = line_counts_of_gcov(dir.path()) else { return };
    let (trace, info) = (dir.path().join("run.astf"), dir.path().join("run.info"));
    record(&["-o", text(&trace)], &program, &[]);
    unspool(&["coverage", text(&trace), "--image", text(&program), "--lcov", text(&info)]).expect(0, &[]);
    let found = line_counts_of_lcov(&info);
    let source = fs::read_to_string(repository("crates/cli/tests/it/programs/covered.c")).unwrap();
    let text_of = |line: u32| source.lines().nth(line as usize - 1).unwrap_or_default().trim();
    let mut compared = 0;
    for (line, count) in &expected {
        let is_without_code = text_of(*line).ends_with(':') || text_of(line + 1) == "{";
        let next = found.range(line..).next().filter(|(next, _)| *next == line || is_without_code);
        assert_eq!(next.map(|(_, count)| count), Some(count), "line {line}: {}", text_of(*line));
        compared += 1;
    }
    assert!(compared > 40);
    let more: Vec<&str> = found.keys().filter(|line| !expected.contains_key(line)).map(|line| text_of(*line)).collect();
    assert!(more.iter().all(|text| ["{", "}"].contains(text)), "{more:?}");
}

/// Counts of an instrumented build of the same source, run by the emulator.
fn line_counts_of_gcov(dir: &Path) -> Option<BTreeMap<u32, u64>> {
    let gcov = tool("aarch64-linux-gnu-gcov", "gcc-aarch64-linux-gnu")?;
    let folder = dir.join("gcov");
    fs::create_dir(&folder).unwrap();
    let source = repository("crates/cli/tests/it/programs/covered.c");
    let run = |command: &mut Command| Run::from(command.current_dir(&folder).output().unwrap()).expect(0, &[]);
    let build = ["-O0", "-g", "-static", "--coverage", "-o", "covered"];
    run(Command::new("aarch64-linux-gnu-gcc").args(build).arg(&source));
    run(Command::new("qemu-aarch64").arg(folder.join("covered")));
    let mut files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let data = files.find(|path| path.extension().is_some_and(|name| name == "gcda")).unwrap();
    run(Command::new(gcov).arg(data));
    let report = fs::read_to_string(folder.join("covered.c.gcov")).unwrap();
    // `36*:   40:` is executed in part, `#####:` is not.
    let line = |line: &str| {
        let mut fields = line.split(':').map(str::trim);
        let (count, line) = (fields.next()?.trim_end_matches('*'), fields.next()?.parse().ok()?);
        let count = if count == "#####" { 0 } else { count.parse().ok()? };
        Some((line, count))
    };
    Some(report.lines().filter_map(line).collect())
}

/// Counts of the lines of `covered.c`.
fn line_counts_of_lcov(path: &Path) -> BTreeMap<u32, u64> {
    let report = fs::read_to_string(path).unwrap();
    let mut records = report.split("end_of_record\n");
    let own = records.find(|record| record.lines().any(|line| line.starts_with("SF:") && line.ends_with("/covered.c")));
    let count = |line: &str| {
        let (line, count) = line.strip_prefix("DA:")?.split_once(',')?;
        Some((line.parse().ok()?, count.parse().ok()?))
    };
    own.unwrap().lines().filter_map(count).collect()
}
