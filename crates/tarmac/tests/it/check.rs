//! The checker: every rule is violated somewhere, and valid or common logs are accepted.

mod broken;

use std::fmt::Write;

use proptest::prelude::*;
use unspool_tarmac::check::{RULES, Rule};
use unspool_tarmac::dialect::Dialect;

use crate::fixtures::{any_line_like, check};

/// Name of a rule after `tarmac-`.
fn own_name(rule: &Rule) -> &str {
    rule.name.strip_prefix("tarmac-").unwrap()
}

#[test]
fn one_violation_is_one_finding() {
    let mut failures = String::new();
    for row in broken::rows() {
        let findings = check(row.dialect, row.log.as_bytes());
        let is_right = matches!(&findings[..], [finding] if own_name(finding.rule) == row.rule
            && (finding.position.line, finding.column) == row.at
            && !finding.detail.is_empty());
        if !is_right {
            writeln!(failures, "{}, {}, at {:?}:", row.rule, row.name, row.at).unwrap();
            for finding in findings {
                let (line, column) = (finding.position.line, finding.column);
                writeln!(failures, "  {} at ({line}, {column}): {}", finding.rule.name, finding.detail).unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

const ACCEPTED: &[(&str, Dialect, &str)] = &[
    (
        "lines without a core name belong to the previous core, or to the one that an annotation selects",
        Dialect::Rev3,
        "Tarmac Text Rev 3
                cpu1 ES  (0000000040100040:d4000001) O el1h_ns:        svc #0x0
                    EXC [0x200] Synchronous Current EL with SP_ELx
                    BR (0000000040100a00) O
                cpu1 ES  (0000000040100a00:d69f03e0) O el1h_ns:        eret
                    BR (0000000040100044) O
# unspool core 0
                ES  (0000000040100064:14000003) O el1h_ns:        b 0x40100070
                    BR (0000000040100070) O
# unspool core 1
                cpu1 ES  (0000000040100044:d503201f) O el1h_ns:        nop
# unspool core 0
                ES  (0000000040100070:d503201f) O el1h_ns:        nop",
    ),
    (
        "a signal, which no line has, leads to its handler",
        Dialect::Rev3,
        "Tarmac Text Rev 3
                ES  (0000000000400798:52800021) O el0t_ns:        mov w1, #0x1
# unspool exception unknown
# unspool note text=signal 11 (SIGSEGV)
                ES  (00000000004006e8:d503201f) O el0t_ns:        nop",
    ),
    (
        "a synchronous exception whose vector is not known",
        Dialect::Rev3,
        "Tarmac Text Rev 3
                ES  (0000000000400798:d4000001) O el0t_ns:        svc #0x0
                    EXC Synchronous
                ES  (000000000040079c:d503201f) O el0t_ns:        nop",
    ),
    (
        "a part of one core was left out",
        Dialect::FastModels,
        "10 clk cpu0 IT (1) 00001000 d503201f O EL1h_s : NOP
10 clk cpu1 IT (1) 00002000 d503201f O EL1h_s : NOP
# unspool gap start core=cpu0
30 clk cpu0 IT (3) 00001008 d503201f O EL1h_s : NOP",
    ),
    (
        "the example of the specification",
        Dialect::Rev3,
        "Tarmac Text Rev 3t
       1715 ns  IT (00000000:e59ff038) A svc:          LDR      pc,{pc}+0x40 ; 0x40
                    LD 00000040 ........ ........ ........ 00001c98 S:0000000040/20 SO
                    BR (00001c98) A
       2225 ns  IT (00001c98:e10f0000) A svc:          MRS      r0,APSR ; formerly CPSR
                    R R0 (USR) 000001d3",
    ),
    (
        "a branch that is not taken, and one that is",
        Dialect::Rev3,
        "Tarmac Text Rev 3t
          1 clk ES  (0000000000008000:54000040) O el1h_ns:        B.EQ
          2 clk ES  (0000000000008004:54000040) O el1h_ns:        B.EQ
                    BR (000000000000800c) O
          3 clk ES  (000000000000800c:d65f03c0) O el1h_ns:        RET
                    BR (0000000000009000) O
          4 clk ES  (0000000000009000:d503201f) O el1h_ns:        NOP",
    ),
    (
        "exceptions lead elsewhere",
        Dialect::Rev3,
        "Tarmac Text Rev 3t
          3 tic ES  EXC [0x00] Reset
                    BR (0000000000000100) O
          4 tic ES  (0000000000008000:d4000001) O el0t_ns:        SVC      #0
                    EXC [0x400] Synchronous Lower EL using AArch64
                    R ELR_EL1 0000000000008004
                    BR (0000000000000400) O
          5 tic ES  (0000000000000400:d503201f) O el1h_ns:        NOP
          5 tic ES  IRQ
                    EXC [0x280] IRQ/vIRQ Current EL with SP_ELx
                    BR (0000000000000280) O
          6 tic ES  (0000000000000280:f9400000) O el1h_ns:        LDR x0,[x0]
                    LA 0000000000001000 ........ ........ ######## ########
                    EXC [0x200] Synchronous Current EL with SP_ELx
          7 tic ES  (0000000000000200:--------) O el1h_ns:",
    ),
    (
        "M-profile, short opcodes, dashes and continuations",
        Dialect::Rev3,
        "Tarmac Text Rev 3t
-----------     ES  EXC [1] Reset
                    R MSP_S 00000400
       5213 tic ES  (0000013a:c9f0)     T thrd_s:         LDM      r1!,{r4-r7}
                    LD 00006150  ........ 6c6c6568 20747365 3635203e   S:0000000000006150  NM NSH
                       00006140  21000d74 ........ ........ ........   S:0000000000006140  NM NSH
                    R X9 --------
                    R V9<63:0> 00000000",
    ),
    (
        "an IT block skips a branch",
        Dialect::FastModels,
        "1 clk IT (1) 00008000 bf08 T svc_s : IT EQ
2 clk IT (2) 00008002 e7fe T svc_s : BEQ {pc}
3 clk IT (3) 00008004 bf00 T svc_s : NOP",
    ),
    (
        "a compare and swap that does not write, and a prefetch",
        Dialect::FastModels,
        "1 clk IT (1) 00008000 f9400000 O EL1h_s : LDR x0,[x0]
1 clk MR8 00001000 0000000000000000
2 clk IT (2) 00008004 c8a07c41 O EL1h_s : CAS x0,x1,[x2]
2 clk MR8 00001000 0000000000000000
3 clk IT (3) 00008008 f9800000 O EL1h_s : PRFM
4 clk IT (4) 0000800c d503201f O EL1h_s : NOP",
    ),
    (
        "an opaque line exempts what follows",
        Dialect::FastModels,
        "1 clk IT (1) 00008000 d503201f O EL1h_s : NOP
1 clk SIGNAL: SIGNAL=IRQ STATE=Y
4 clk IT (4) 00009000 d503201f O EL1h_s : NOP
1 clk CADI E simulation_stopped",
    ),
    (
        "other dialects have other formats",
        Dialect::CortexM3,
        "4177 cyc IT (00031a40:00000006) 00031a40 4ba3 T16 LDR r3,[pc,#652]
4173 cyc MNR4O__I 00031b58 f000f81d",
    ),
];

#[test]
fn valid_logs_are_accepted() {
    let mut failures = String::new();
    for (name, dialect, log) in ACCEPTED {
        let findings = check(*dialect, log.as_bytes());
        if !findings.is_empty() {
            writeln!(failures, "{name}: {findings:#?}").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_rule_is_violated_somewhere() {
    let rows = broken::rows();
    for rule in RULES {
        assert!(rows.iter().any(|row| row.rule == own_name(rule)), "no row breaks {}", rule.name);
        assert_eq!(RULES.iter().filter(|other| other.name == rule.name).count(), 1, "{}", rule.name);
        assert!(rule.summary.ends_with('.'), "{}", rule.name);
    }
    for (index, row) in rows.iter().enumerate() {
        assert!(RULES.iter().any(|rule| own_name(rule) == row.rule), "no rule is called {}", row.rule);
        let is_same = |other: &broken::Row| (other.rule, other.name) == (row.rule, row.name);
        assert!(!rows[..index].iter().any(is_same), "{}, {} twice", row.rule, row.name);
    }
}

/// The table of rules in the documentation.
fn document() -> String {
    let mut text = String::from(
        "# The rules of Tarmac\n\n\
        The rules of the checker for Tarmac logs. The sections are those of ARM-EPM-041435, *ARM Tarmac Specification*, \
        revision 3; the wording is ours. An error is something that the specification forbids; rules on the format of \
        lines apply to Rev 3 logs only. A warning is something that is probably unintended, or a harmless deviation \
        from the specification. What opcodes imply is checked in Rev 3 and Fast Models logs, except across an event, an \
        opaque line or a line that could not be parsed.\n\n\
        The last column names the tests of each rule, rows in `crates/tarmac/tests/it/check/broken.rs`. \
        This document is generated by the tests: `UPDATE=1 cargo test -p unspool-tarmac --test it check`.\n\n\
        | rule | severity | section | requirement | tested by |\n|---|---|---|---|---|\n",
    );
    let rows = broken::rows();
    for rule in RULES {
        let severity = rule.severity;
        let names: Vec<&str> = rows.iter().filter(|row| row.rule == own_name(rule)).map(|row| row.name).collect();
        let (name, section, summary, names) = (rule.name, rule.section, rule.summary, names.join("; "));
        text += &format!("| `{name}` | {severity} | {section} | {summary} | {names} |\n");
    }
    text
}

#[test]
fn the_document_is_up_to_date() {
    let how = "cargo test -p unspool-tarmac --test it check";
    unspool_testing::assert_document("docs/tarmac-rules.md", &document(), how);
}

fn any_line() -> impl Strategy<Value = String> {
    let known = broken::rows().iter().flat_map(|row| row.log.lines().map(str::to_string).collect::<Vec<_>>()).collect();
    any_line_like(known)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn any_lines_can_be_checked(lines in prop::collection::vec(any_line(), 0..40), which in 0..Dialect::ALL.len()) {
        let log = lines.join("\n");
        let findings = check(Dialect::ALL[which], log.as_bytes());
        prop_assert!(findings.len() <= 8 * lines.len() + 16, "{} findings", findings.len());
        for finding in findings {
            prop_assert!(finding.position.line <= lines.len().max(1) as u64);
        }
    }
}
