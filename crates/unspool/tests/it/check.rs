//! Checks of captures, and the agreement of the rules of formats with those of steps.
//!
//! The buffers are made here, packet by packet. The corpus tests need `UNSPOOL_CORPUS`.

use std::collections::BTreeSet;
use std::fs;

use unspool::capture::{BufferFormat, Capture, Code, Register, Registers};
use unspool::check::{Check, RULES, TraceChecks, severity_in};
use unspool::coresight::frame::Formatter;
use unspool::model::rule::{Rule, Severity};
use unspool::{CaptureSteps, FileKind, Meter, Program, Trace, analyze, astf, stf, tarmac};

use super::fixtures::{bare_capture, etm4_traces, snapshots};

/// Rules of formats and the rule of steps that the same violation breaks. Their severities are equal.
const SAME_VIOLATIONS: &[(&str, &[&str])] = &[
    ("step-pc-continuity", &["astf-pc-continuity", "tarmac-next-pc", "tarmac-branch-target"]),
    ("step-return-opcode", &["astf-exception-return"]),
    ("step-branch-target", &["astf-branch-taken-target", "stf-target-opcode", "tarmac-branch-opcode"]),
    ("step-branch-taken", &["astf-branch-always-taken"]),
    ("step-branch-opcode", &["astf-branch-flag", "stf-target-no-branch", "tarmac-branch-unexpected"]),
    ("step-condition", &["tarmac-condition", "tarmac-ccfail-set"]),
    ("step-isa-state", &["tarmac-mode-set"]),
    ("step-level-change", &["astf-level-change", "astf-trap-level", "stf-mode-down"]),
    (
        "step-access-kind",
        &["astf-memory-direction", "stf-access-direction", "stf-access-unexpected", "tarmac-access-unexpected"],
    ),
    ("step-access-size", &["astf-memory-size", "stf-access-size", "tarmac-access-size"]),
    ("step-access-missing", &["astf-memory-ea-valid", "stf-access-missing", "tarmac-access-missing"]),
    ("step-vector-kind", &["astf-trap-vector"]),
    ("step-time-order", &["astf-timestamp-monotonic", "tarmac-time-order"]),
    ("step-opcode-length", &["stf-opcode-length", "tarmac-opcode-width"]),
    ("step-alignment", &["astf-pc-alignment", "stf-pc-odd", "tarmac-address-aligned"]),
];

fn format_rule(name: &str) -> (FileKind, &'static Rule) {
    let tables = [
        (FileKind::Astf, astf::check::RULES),
        (FileKind::Stf, stf::check::RULES),
        (FileKind::Tarmac, tarmac::check::RULES),
    ];
    let mut found = tables.iter().flat_map(|(kind, rules)| rules.iter().map(|rule| (*kind, rule)));
    found.find(|(_, rule)| rule.name == name).unwrap_or_else(|| panic!("no rule is called {name}"))
}

#[test]
fn both_layers_have_the_same_severities() {
    for (step, formats) in SAME_VIOLATIONS {
        let step = analyze::check::RULES.iter().find(|rule| rule.name == *step).expect("a rule of steps");
        for format in *formats {
            let (kind, rule) = format_rule(format);
            assert_eq!(severity_in(kind, step), rule.severity, "{} and {}", step.name, rule.name);
        }
    }
}

fn document() -> String {
    let mut text = String::from(
        "# Rules for captures\n\n\
        Rules for the frames, packets, elements, flow and code of a capture; those for its steps are in \
        [step-rules.md](step-rules.md). An error is damage, or a contradiction between trace and code. A warning is \
        something that an undamaged capture may have and that makes the result incomplete: lost trace, bytes before the \
        first synchronization, missing code. Missing code is one finding per region of pages. The offset of a finding is \
        that of the packet in its buffer; frames are reported once per buffer. `unspool check --strict` makes warnings \
        errors.\n\n\
        The tests generate this document: `UPDATE=1 cargo test -p unspool --test it check`.\n\n\
        | rule | severity | stage | text |\n|---|---|---|---|\n",
    );
    for Rule { name, severity, section, summary } in RULES {
        text += &format!("| `{name}` | {severity} | {section} | {summary} |\n");
    }
    text
}

#[test]
fn the_document_lists_the_rules() {
    let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len(), "a name is used twice");
    assert!(RULES.iter().all(|rule| rule.name.starts_with("capture-") && rule.summary.ends_with('.')));
    let how = "cargo test -p unspool --test it check";
    unspool_testing::assert_document("docs/capture-rules.md", &document(), how);
}

/// Alignment synchronization and trace info.
const START: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00];

/// Address of a word of the program, in EL0.
fn at(word: u8) -> [u8; 6] {
    [0x82, word, 0x40, 0, 0, 0x30]
}

/// Tracing starts again on another page.
fn away(page: u8) -> [u8; 7] {
    [0x04, 0x82, 0, page, 0, 0, 0x30]
}

/// At 0x8000: NOP, B to itself; B.NE forward; NOP, RET.
const WORDS: [u32; 5] = [0xd503_201f, 0x1400_0000, 0x5400_0041, 0xd503_201f, 0xd65f_03c0];

const TAKEN: u8 = 0xf7;
const NOT_TAKEN: u8 = 0xf6;

fn program() -> Program {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("code.bin");
    fs::write(&path, WORDS.map(u32::to_le_bytes).concat()).unwrap();
    Program::new(vec![Code::from_file(&path, Some(0x8000)).unwrap().0])
}

const ALL: TraceChecks = TraceChecks { native: true, frames: true, steps: true, threads: 2 };

/// Rule, offset and text of each finding.
type Findings = Vec<(&'static str, u64, String)>;

fn findings(trace: &Trace<'_>, program: &Program, checks: TraceChecks) -> (Findings, Check) {
    let (mut check, mut findings) = (Check::default(), Findings::new());
    check
        .trace(trace, program, checks, &mut |_, _| {}, &mut |found, _| {
            findings.push((found.rule.name, found.position, found.detail.to_string()));
            true
        })
        .unwrap();
    (findings, check)
}

fn found_in(bytes: &[u8], format: BufferFormat) -> Findings {
    let mut registers = Registers::default();
    registers.set(Register::new("TRCIDR8", 0));
    let (_folder, capture) = bare_capture(bytes, format, registers);
    findings(&Trace::all(&capture)[0], &program(), ALL).0
}

/// Name, bytes, and the expected rules with their offsets and details.
type Row<'r> = (&'r str, Vec<u8>, &'r [(&'r str, u64, &'r str)]);

#[test]
fn each_problem_is_a_finding_at_its_offset() {
    let start = |rest: &[&[u8]]| [&START[..], &at(0), &rest.concat()].concat();
    let mut marked = at(1);
    marked[5] |= 0x04;
    let rows: &[Row<'_>] = &[
        ("nothing", start(&[&[TAKEN]]), &[]),
        (
            "bytes before the synchronization",
            [&[TAKEN; 3][..], &start(&[&[TAKEN]])].concat(),
            &[("capture-unsynchronized", 0, "not synchronized yet, 3 bytes skipped")],
        ),
        (
            "no synchronization",
            vec![TAKEN; 20],
            &[("capture-never-synchronized", 0, "no alignment synchronization in 20 bytes")],
        ),
        (
            "a reserved header",
            start(&[&[TAKEN, 0x08], &START, &at(0), &[TAKEN]]),
            &[("capture-reserved-header", 21, "reserved packet header 0x08, 1 byte skipped")],
        ),
        (
            "a reserved bit is set",
            start(&[&[TAKEN], &marked, &[TAKEN]]),
            &[("capture-reserved-bits", 21, "reserved bits are set in the packet with header 0x82")],
        ),
        (
            "the end of a packet is missing",
            start(&[&[TAKEN], &at(0)[..3]]),
            &[("capture-packet-truncated", 21, "stream ends inside a packet, 3 bytes skipped")],
        ),
        (
            "not taken, but unconditional",
            start(&[&[NOT_TAKEN]]),
            &[
                ("capture-branch-not-taken", 20, "the branch at 0x8004 is always taken, but the trace says it was not"),
                ("capture-dropped-after-mismatch", 20, "1 P0 element dropped after a trace/code mismatch"),
            ],
        ),
        (
            "lost trace",
            start(&[&[0x00, 0x05], &at(0), &[TAKEN]]),
            &[("capture-overflow", 20, "the trace unit lost trace")],
        ),
        (
            "an atom without an address",
            [&START[..], &[TAKEN, TAKEN]].concat(),
            &[("capture-no-address", 14, "2 P0 elements dropped without a known address")],
        ),
        (
            "code is missing, twice of adjacent pages",
            start(&[&[TAKEN], &away(0x48), &[TAKEN], &away(0x50), &[TAKEN, TAKEN], &away(0x70), &[TAKEN]]),
            &[
                ("capture-missing-code", 28, "no code in 0x9000..0xb000 of EL0N: 3 P0 elements lost"),
                ("capture-missing-code", 45, "no code in 0xe000..0xf000 of EL0N: 1 P0 element lost"),
            ],
        ),
    ];
    let mut failures = String::new();
    for (name, bytes, expected) in rows {
        let found = found_in(bytes, BufferFormat::Raw);
        let found: Vec<(&str, u64, &str)> = found.iter().map(|(rule, at, text)| (*rule, *at, text.as_str())).collect();
        if found != *expected {
            failures += &format!("{name}: {found:?}\n");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn frames_are_reported_once() {
    let mut formatter = Formatter::new();
    formatter.push(0x10, &START);
    formatter.push(0x10, &at(0));
    formatter.push(0x10, &[TAKEN; 40]);
    let mut bytes = formatter.finish();
    // A reserved trace id in the third frame.
    bytes[32] = 0xfd;
    let found = found_in(&bytes, BufferFormat::Formatted);
    assert_eq!(found.iter().filter(|(rule, ..)| *rule == "capture-frame-reserved-id").count(), 1, "{found:?}");
    let mut registers = Registers::default();
    registers.set(Register::new("TRCIDR8", 0));
    let (_folder, capture) = bare_capture(&bytes, BufferFormat::Formatted, registers);
    let without = findings(&Trace::all(&capture)[0], &program(), TraceChecks { frames: false, ..ALL }).0;
    assert!(without.iter().all(|(rule, ..)| !rule.starts_with("capture-frame")), "{without:?}");
}

#[test]
fn strict_checks_have_only_errors() {
    let bytes = [&[TAKEN; 3][..], &START, &at(0), &[TAKEN]].concat();
    let mut registers = Registers::default();
    registers.set(Register::new("TRCIDR8", 0));
    let (_folder, capture) = bare_capture(&bytes, BufferFormat::Raw, registers);
    for (is_strict, expected) in [(false, [0, 1]), (true, [1, 0])] {
        let mut check = Check::new(is_strict);
        let trace = Trace::all(&capture)[0];
        check.trace(&trace, &program(), ALL, &mut |_, _| {}, &mut |_, _| true).unwrap();
        assert_eq!([Severity::Error, Severity::Warning].map(|severity| check.count(severity)), expected);
    }
}

/// The instructions that are left out of the check of steps make no difference, nor does the number of threads.
#[test]
fn corpus_steps_are_checked_as_if_all_were() {
    let Some(snapshots) = snapshots() else { return };
    let (mut sources, mut total) = (0, 0);
    for path in snapshots {
        let capture = Capture::open(&path).unwrap();
        let traces = etm4_traces(&capture);
        for trace in &traces {
            let name = &trace.source().name;
            if traces.iter().filter(|other| other.source().name == *name).count() > 1 {
                continue;
            }
            let (program, _) = Program::of(&capture, trace.source().core, &[]);
            let steps = TraceChecks { native: false, ..ALL };
            let (some, counted) = findings(trace, &program, steps);
            let again = findings(trace, &program, TraceChecks { threads: 4, ..steps }).0;
            assert_eq!(some, again, "{}: {name}", path.display());
            let mut source = CaptureSteps::new(Capture::open(&path).unwrap(), Some(name), &[]).unwrap();
            let (mut check, mut all) = (Check::default(), Findings::new());
            let meter = Meter::default();
            check
                .steps(FileKind::Capture, &mut source, (&meter, &mut |_, _| {}), &mut |found, _| {
                    all.push((found.rule.name, found.position, found.detail.to_string()));
                    true
                })
                .unwrap();
            assert_eq!(some, all, "{}: {name}", path.display());
            let [some, all] = [counted.steps, check.steps].map(|steps| steps.unwrap().steps);
            // Gaps of lost frames are counted once per chunk that is read.
            assert!(some.abs_diff(all) < 100, "{}: {name}: {some} or {all} steps", path.display());
            (sources, total) = (sources + 1, total + all);
        }
    }
    println!("{total} steps of {sources} sources");
    assert!(sources > 20, "the corpus is not all there");
}
