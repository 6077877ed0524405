//! `doctor` on real captures, whose condition is known, and on damaged ones.
//!
//! The first test needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`. What is wrong with a capture is known from the
//! description of the corpus.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use unspool::capture::Capture;
use unspool::doctor::{Diagnosis, Doctor, Severity};
use unspool::{Program, Trace};
use unspool_testing::{Random, corpus, example};

use super::fixtures::etm4_traces;

fn diagnose(capture: &Capture) -> Diagnosis {
    let mut doctor = Doctor::new(capture, &mut |_, _| {});
    for trace in doctor.traces() {
        let (program, notes) = Program::of(capture, trace.source().core, &[]);
        doctor.add_notes(notes);
        doctor.examine(&trace, &program, &mut |_, _| {});
    }
    doctor.finish()
}

/// Topics of the problems.
fn problems(diagnosis: &Diagnosis) -> BTreeSet<&str> {
    let problems = diagnosis.findings.iter().filter(|finding| finding.severity == Severity::Problem);
    problems.map(|finding| finding.topic).collect()
}

/// Captures with problems: some that must be found, and the condition of the capture.
const ILL: [(&str, &[&str], &str); 10] = [
    ("a55-test-tpiu", &["missing-code", "damaged-capture"], "the image is missing"),
    ("juno-uname-001", &["missing-code", "damaged-capture"], "images are missing"),
    ("event_test", &["damaged-capture"], "images are missing, and there are only events"),
    ("juno_r1_1", &["contradiction", "frames-lost"], "the image is another one, and the second buffer is damaged"),
    ("infrastructure", &["contradiction", "frames-lost"], "the image is another one, and the second buffer is damaged"),
    ("ete_ip", &["contradiction"], "an indirect branch has no address"),
    ("q_elem", &["contradiction"], "an indirect branch has no address"),
    ("init-short-addr", &["missing-code"], "there is no image"),
    ("test-file-mem-offsets", &["overflow"], "the trace unit overflowed"),
    ("itm_only_raw", &["overflow"], "the trace unit overflowed"),
];

/// Captures of protocols beside ETE and ETMv4: read without a verdict here.
fn is_other(capture: &Capture) -> bool {
    etm4_traces(capture).is_empty()
}

#[test]
fn captures_of_the_corpus_have_the_known_problems() {
    let Some(folder) = corpus("coresight") else { return };
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.join("snapshot.ini").is_file());
    paths.sort();
    let (mut ill, mut sound) = (0, 0);
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let capture = Capture::open(path).unwrap();
        let diagnosis = diagnose(&capture);
        let problems = problems(&diagnosis);
        assert!(diagnosis.findings.iter().all(|finding| !finding.title.is_empty()), "{name}");
        if let Some((_, expected, condition)) = ILL.iter().find(|row| row.0 == name) {
            assert!(expected.iter().all(|topic| problems.contains(topic)), "{name}: {condition}: {problems:?}");
            ill += 1;
        } else if !is_other(&capture) {
            assert!(problems.is_empty(), "{name}: {problems:?}");
            // A few elements are before the first address, or still speculative at the end.
            assert!(diagnosis.followed * 100 >= diagnosis.elements * 96, "{name}: {diagnosis:?}");
            sound += 1;
        }
    }
    println!("{ill} captures with problems, {sound} without");
    assert!(ill == ILL.len() && sound >= 15, "the corpus is not all there: {ill} and {sound}");
}

fn copy(from: &Path, to: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files
        .map(|path| {
            let copied = to.join(path.file_name().unwrap());
            fs::copy(&path, &copied).unwrap();
            copied
        })
        .collect()
}

/// Any byte of any file of a capture may be wrong, missing or added: there is a diagnosis, or the capture cannot be opened.
#[test]
fn damaged_captures_have_a_diagnosis() {
    let mut random = Random::new(7);
    let (mut opened, mut with_problems) = (0, 0);
    for name in ["hello-ete", "hello-qemu"] {
        let folder = tempfile::tempdir().unwrap();
        let files = copy(&example(name), folder.path());
        for _ in 0..300 {
            let path = &files[random.below(files.len() as u64) as usize];
            let whole = fs::read(path).unwrap();
            let mut bytes = whole.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len().max(1) as u64) as usize;
                match random.below(4) {
                    0 if at < bytes.len() => _ = bytes.remove(at),
                    1 => bytes.insert(at.min(bytes.len()), random.below(256) as u8),
                    2 => bytes.truncate(at),
                    _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                    _ => {}
                }
            }
            fs::write(path, bytes).unwrap();
            if let Ok(capture) = Capture::open(folder.path()) {
                opened += 1;
                let diagnosis = diagnose(&capture);
                assert!(!diagnosis.findings.is_empty(), "{}", path.display());
                assert!(diagnosis.followed <= diagnosis.elements, "{}: {diagnosis:?}", path.display());
                assert!(Trace::all(&capture).is_empty() || diagnosis.sources <= capture.sources.len() as u64);
                with_problems += usize::from(!problems(&diagnosis).is_empty());
            }
            fs::write(path, whole).unwrap();
        }
    }
    println!("{opened} captures opened, {with_problems} with problems");
    assert!(opened > 300 && with_problems > 100, "{opened} and {with_problems}");
}
