//! Captures of the corpus, compared with logs of the same runs.
//!
//! The output of the reference decoder is written as a Tarmac log, with opcodes straight from the files of the
//! snapshot, so that our decoder is not involved. `diff` has to find both equal. Needs `UNSPOOL_CORPUS`, the folder that holds
//! `coresight/`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use flate2::read::GzDecoder;
use unspool::analyze::diff::{Differ, Finding, Options, Summary};
use unspool::model::{Facet, Pull};
use unspool::{OpenSteps, open_steps};
use unspool_testing::corpus;

/// Snapshots of A64 code with complete images, with the session and the trace id.
const SNAPSHOTS: [(&str, &str, &str); 6] = [
    ("001-ack_test", "s0", "2"),
    ("ete_mem", "s0", "2"),
    ("src_addr", "s0", "2"),
    ("maxspec0_commopt1", "s0", "2"),
    ("trace_file_cid_vmid", "s0", "2"),
    ("tme_test", "s0", "2"),
];

#[test]
fn captures_equal_logs_of_the_same_runs() {
    let Some(corpus) = corpus("coresight") else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, session, id) in SNAPSHOTS {
        let snapshot = corpus.join(name);
        let log = folder.path().join(format!("{name}.tarmac"));
        let text = log_of(&snapshot, session, id);
        fs::write(&log, &text).unwrap();
        let summary = compare(&snapshot, &log, id);
        let [instructions, _] = summary.instructions;
        // Between gaps there may be too few instructions to align them.
        assert!(summary.common + instructions / 100 >= instructions, "{name}: {summary:?}");
        let exceptions = summary.tally(Facet::Exceptions).compared;
        println!(
            "corpus: {name}: {} of {instructions} instructions, {exceptions} exceptions are equal",
            summary.common
        );
        // A log that starts later.
        for part in [5, 3, 2] {
            let skipped = text.lines().count() / part;
            let late = text.lines().skip(skipped).map(|line| format!("{line}\n")).collect::<String>();
            fs::write(&log, late).unwrap();
            let summary = compare(&snapshot, &log, id);
            let [passed, none] = summary.before;
            assert!(
                passed <= skipped as u64 && passed + 100 > skipped as u64 * 9 / 10,
                "{name}: {passed} of {skipped}"
            );
            assert_eq!(none, 0, "{name}");
        }
    }
}

/// Asserts that a capture and a log do not differ.
fn compare(snapshot: &Path, log: &Path, id: &str) -> Summary {
    let options = OpenSteps { source: Some(format!("0x{id}")), ..OpenSteps::default() };
    let pull = |path| Pull::new(open_steps(path, &options).unwrap()).unwrap();
    let mut differences: Vec<Finding> = Vec::new();
    let summary = Differ::new(Options { all: true, ..Options::default() })
        .run([pull(snapshot), pull(log)], &mut |finding| {
            differences.extend(Some(finding.clone()).filter(|found| !matches!(found, Finding::Skipped { .. })));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(summary.is_clean(), "{}: {differences:#?}", snapshot.display());
    summary
}

/// Ranges of the reference as a log in the style of Fast Models.
fn log_of(snapshot: &Path, session: &str, id: &str) -> String {
    let memory = memory(snapshot);
    let mut listing = String::new();
    let path = snapshot.join("expected").join(format!("{session}.{id}.txt.gz"));
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut listing).unwrap();
    let (mut log, mut time, mut mode, mut is_interrupted) = (String::new(), 0, "EL1h_n", false);
    for line in listing.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words[0] {
            "R" => {
                assert_eq!(words[5], "A64", "{line}");
                let [start, end] = [1, 2].map(|at| u64::from_str_radix(words[at], 16).unwrap());
                if std::mem::take(&mut is_interrupted) {
                    writeln!(log, "{time} clk E {start:016x} {}", event(start)).unwrap();
                    // No exception is taken to EL0, whether the context is traced or not.
                    mode = if mode == "EL0t_n" { "EL1h_n" } else { mode };
                }
                for address in (start..end).step_by(4) {
                    let opcode = opcode(&memory, address);
                    writeln!(log, "{time} clk IT ({time}) {address:016x} {opcode:08x} O {mode} : -").unwrap();
                    time += 1;
                }
            }
            "PE_CONTEXT" => mode = mode_of(words[1]),
            "EXCEPTION" => is_interrupted = true,
            "TRACE_ON" => is_interrupted = false,
            _ => {}
        }
    }
    log
}

/// Event of the vector at an address.
fn event(address: u64) -> String {
    let index = (address >> 7 & 0xf) as usize;
    let group = ["CURRENT_SP0", "CURRENT_SPx", "LOWER_64", "LOWER_32"][index >> 2];
    let kind = ["SYNC", "IRQ", "FIQ", "ABORT"][index & 3];
    format!("{:08x} CoreEvent_{group}_{kind}", 0x80 + index)
}

/// Mode of a context such as `EL1N`.
fn mode_of(context: &str) -> &'static str {
    let modes = ["EL0t_n", "EL1h_n", "EL2h_n", "EL0t_s", "EL1h_s", "EL2h_s", "EL3h_s"];
    let is_mode = |mode: &&str| context.contains(&format!("{}{}", &mode[..3], mode[5..].to_uppercase()));
    modes.into_iter().find(is_mode).unwrap()
}

/// Memory contents, by the `[dump]` sections of a snapshot.
fn memory(snapshot: &Path) -> Vec<(u64, Vec<u8>)> {
    let entries = fs::read_dir(snapshot).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.filter(|path| path.extension().is_some_and(|name| name == "ini"));
    let mut memory = Vec::new();
    for text in texts.map(|path| fs::read_to_string(path).unwrap()) {
        for section in text.split("\n[dump").skip(1) {
            let section = section.split("\n[").next().unwrap();
            let value = |key: &str| section.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
            let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
            let bytes = fs::read(snapshot.join(value("file=").unwrap())).unwrap();
            assert!(value("offset=").is_none(), "offsets are not read here");
            memory.push((number(value("address=").unwrap()), bytes));
        }
    }
    memory
}

fn opcode(memory: &[(u64, Vec<u8>)], address: u64) -> u32 {
    let word = |(start, bytes): &(u64, Vec<u8>)| {
        let at = usize::try_from(address.checked_sub(*start)?).ok()?;
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    memory.iter().find_map(word).unwrap()
}
