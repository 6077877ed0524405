//! Checks of real traces: the findings in each, and why they are right.
//!
//! Needs the corpus: `UNSPOOL_CORPUS` names its folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use unspool_stf::check::Severity;
use unspool_stf::read::{ReadOptions, Reader};
use unspool_stf::slice::{SliceError, SliceOptions, slice};
use unspool_testing::{corpus, note};

use crate::fixtures;

type Counts = BTreeMap<&'static str, u64>;

/// Findings in a trace: rules and counts.
type Row = (&'static str, &'static [(&'static str, u64)]);

// The specification demands a comment in every header. The tools of 2022 and Pegasus write none.
const NO_COMMENT: (&str, u64) = ("stf-comment-missing", 1);
// Dromajo and Spike set the feature of physical addresses, but none of their records has one. The reference's own
// checker reports the same (PHYS_ADDR).
const CLAIM: (&str, u64) = ("stf-feature-claim", 1);
// The specification demands a mode at the start of each trace. No simulator writes it, and tools that count user
// instructions are wrong for it.
const NO_MODE: (&str, u64) = ("stf-mode-start", 1);
// Dromajo of 2022 and 2023 recorded sizes in bits; reported once.
const BITS: (&str, u64) = ("stf-access-bits", 1);
// The library that wrote the synthetic traces was not asked for the feature of micro-operations, and they have some.
const UNCLAIMED: (&str, u64) = ("stf-feature-unclaimed", 1);
// Spike forces two addresses before the first instruction: the start, and where the first instruction is that was kept.
const TWO_STARTS: (&str, u64) = ("stf-force-pc-once", 1);

const ROWS: &[Row] = &[
    ("dromajo/bmi_towers.bare.stf", &[BITS, NO_COMMENT, CLAIM, NO_MODE]),
    ("dromajo/bmi_towers.bare.v2.stf", &[CLAIM, NO_MODE]),
    ("dromajo/bmi_towers.bare.v2.zstf", &[CLAIM, NO_MODE]),
    ("dromajo/bmi_towers.bare.zstf", &[BITS, NO_COMMENT, CLAIM, NO_MODE]),
    ("dromajo/dhry_riscv_1000.stf", &[BITS, NO_COMMENT, CLAIM, NO_MODE]),
    // It enters a handler five times, by forced addresses: that is legal, but the reference reports it.
    ("dromajo/illegal.stf", &[NO_COMMENT, CLAIM, NO_MODE]),
    ("dromajo/illegal.v2.stf", &[CLAIM, NO_MODE]),
    ("dromajo/illegal.v2.zstf", &[CLAIM, NO_MODE]),
    ("dromajo/illegal.zstf", &[NO_COMMENT, CLAIM, NO_MODE]),
    // Not healthy: every one of the 36 instructions, such as csrr and c.li, has one and the same read of 32 bits at
    // 0x80001000, which nothing did. Four of them are stores, and their own accesses are missing, as the reference
    // finds.
    (
        "olympia/bmi_pmp.bare.stf",
        &[("stf-access-direction", 4), ("stf-access-unexpected", 32), NO_COMMENT, CLAIM, NO_MODE],
    ),
    ("olympia/core_riscv.zstf", &[BITS, NO_COMMENT, CLAIM, NO_MODE]),
    ("olympia/dhry_riscv.zstf", &[BITS, NO_COMMENT, CLAIM, NO_MODE]),
    ("olympia/dhrystone_branch.zstf", &[BITS, NO_COMMENT, CLAIM, NO_MODE]),
    ("olympia/dhrystone_meta_example.zstf", &[CLAIM, TWO_STARTS, NO_MODE]),
    // A trace without any access, on purpose: 109004 findings of the reference, and one of ours.
    ("olympia/dhrystone_opt1.zstf", &[("stf-accesses-absent", 1), CLAIM, TWO_STARTS, NO_MODE]),
    // The last instruction is the store that ends the simulation, and its access was never written. The branch at
    // instruction 85 is not taken but has a target, the next address: a known mistake of Pegasus that
    // stops the reference's listing of branches.
    ("pegasus/kk_trace.zstf", &[("stf-access-last", 1), NO_COMMENT, NO_MODE, ("stf-target-not-taken", 1)]),
    ("stf_lib/stf_write_test.old.zstf", &[NO_COMMENT, CLAIM, NO_MODE]),
    ("stf_lib/stf_write_test.v1.6.zstf", &[NO_COMMENT, CLAIM, NO_MODE]),
    // The synthetic traces have an access of another master of 64 bytes, and eight of them.
    ("synthetic/all_records.stf.gz", &[("stf-bus-content-count", 1), UNCLAIMED]),
    ("synthetic/all_records.stf.xz", &[("stf-bus-content-count", 1), UNCLAIMED]),
    ("synthetic/all_records_chunk11.zstf", &[("stf-bus-content-count", 5), UNCLAIMED]),
    ("synthetic/all_records_chunk3.zstf", &[("stf-bus-content-count", 5), UNCLAIMED]),
    // It is the trace of RV64 with another number for the encoding mode: addresses, fields, features and extensions are
    // those of RV64. And no vector register has 100 bits.
    (
        "synthetic/all_records_rv32_v100_ev32.stf",
        &[
            ("stf-bus-content-count", 1),
            ("stf-event-zero-extended", 1),
            ("stf-extensions-mode", 1),
            ("stf-feature-rv64", 1),
            UNCLAIMED,
            ("stf-pc-width", 2),
            ("stf-vlen-power", 1),
        ],
    ),
    ("synthetic/all_records_rv64_v256_ev32.stf", &[("stf-bus-content-count", 1), UNCLAIMED]),
    ("synthetic/all_records_rv64_v256_ev64.stf", &[("stf-bus-content-count", 1), UNCLAIMED]),
    ("synthetic/transactions_tilelink.stf", &[NO_COMMENT]),
    ("synthetic/transactions_tilelink.zstf", &[NO_COMMENT]),
];

#[test]
fn findings_in_real_traces_are_right() {
    let Some(corpus) = corpus("stf") else { return };
    let mut seen = Vec::new();
    for (name, expected) in ROWS {
        let (counts, errors) = check(&corpus.join(name));
        let expected: Counts = expected.iter().copied().collect();
        assert_eq!(counts, expected, "{name}");
        assert!(errors == 0 || *name == "olympia/bmi_pmp.bare.stf", "{name}: {errors} errors");
        seen.push(corpus.join(name));
    }
    for folder in ["dromajo", "olympia", "pegasus", "stf_lib", "synthetic"] {
        for entry in std::fs::read_dir(corpus.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let is_trace = path.extension().is_some_and(|end| end != "elf" && end != "yaml");
            assert!(!is_trace || seen.contains(&path), "{} is not listed", path.display());
        }
    }
    note(format_args!("corpus: {} traces checked", ROWS.len()));
}

#[test]
fn slices_of_real_traces_are_right() {
    let Some(corpus) = corpus("stf") else { return };
    let mut cuts = 0;
    for (name, _) in ROWS {
        let path = corpus.join(name);
        for range in [0..1, 1..2, 3..3000, 250..260] {
            let mut cut = Vec::new();
            match slice(&mut open(&path), range.clone(), SliceOptions::default(), &mut cut) {
                Ok(_) => {}
                Err(SliceError::Empty(_) | SliceError::NoTransaction(_)) => continue,
                Err(error) => panic!("{name}, {range:?}: {error}"),
            }
            let (counts, errors) = check_reader(&mut Reader::plain(&cut[..]));
            assert!(errors == 0 || *name == "olympia/bmi_pmp.bare.stf", "{name}, {range:?}: {counts:?}");
            assert!(!counts.contains_key("stf-comment-missing"), "{name}: the slicer adds a comment");
            cuts += 1;
        }
    }
    assert!(cuts > 50, "{cuts} cuts");
    note(format_args!("corpus: {cuts} cuts checked"));
}

fn open(path: &Path) -> Reader<Box<dyn Read + Send>> {
    Reader::new(File::open(path).unwrap(), ReadOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn check(path: &Path) -> (Counts, u64) {
    check_reader(&mut open(path))
}

fn check_reader<R: Read>(reader: &mut Reader<R>) -> (Counts, u64) {
    let (mut counts, mut errors) = (Counts::new(), 0);
    for finding in fixtures::check(reader) {
        *counts.entry(finding.rule.name).or_default() += 1;
        errors += u64::from(finding.rule.severity == Severity::Error);
    }
    (counts, errors)
}
