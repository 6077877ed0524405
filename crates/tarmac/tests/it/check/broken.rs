//! Logs with one violation each: rule, name of the violation, line and column of the finding.

use unspool_tarmac::dialect::Dialect;

pub(super) struct Row {
    /// Name of the rule after `tarmac-`.
    pub(super) rule: &'static str,
    pub(super) name: &'static str,
    pub(super) dialect: Dialect,
    /// Line and column of the finding.
    pub(super) at: (u64, u32),
    pub(super) log: String,
}

const HEADER: &str = "Tarmac Text Rev 3t";
/// A branch to 0x8008.
const BRANCH: &str = "          1 clk ES  (0000000000008000:14000002) O el1h_ns: B";
const NEXT: &str = "          2 clk ES  (0000000000008008:d503201f) O el1h_ns: NOP";
const BR: &str = "                    BR (0000000000008008) O";
const NOP: &str = "          1 clk ES  (0000000000008000:d503201f) O el1h_ns: NOP";
const AFTER: &str = "          2 clk ES  (0000000000008004:d503201f) O el1h_ns: NOP";
const A32: &str = "          1 clk ES  (00008000:e1a00000) A svc: NOP";
const T32: &str = "1 clk IT (7) 00008000 bf00 T svc_s : NOP";
const LOAD: &str = "          1 clk ES  (0000000000008000:f9400000) O el1h_ns: LDR x0,[x0]";
const STORE: &str = "          2 clk ES  (0000000000008004:f9000001) O el1h_ns: STR x1,[x0]";
const LD: &str = "                    LD 0000000000001000 ........ ........ 00000000 00000001";
const LAST: &str = "          3 clk ES  (0000000000008008:d503201f) O el1h_ns: NOP";

fn rev3(rule: &'static str, name: &'static str, at: (u64, u32), lines: &[&str]) -> Row {
    bare(rule, name, at, &[&[HEADER], lines].concat())
}

fn bare(rule: &'static str, name: &'static str, at: (u64, u32), lines: &[&str]) -> Row {
    Row { rule, name, dialect: Dialect::Rev3, at, log: lines.join("\n") }
}

fn fast_models(rule: &'static str, name: &'static str, at: (u64, u32), lines: &[&str]) -> Row {
    Row { rule, name, dialect: Dialect::FastModels, at, log: lines.join("\n") }
}

/// A no-op of a core at a time, with its instruction number.
fn core(time: u64, core: u32, number: u64) -> String {
    format!("{time} clk cpu{core} IT ({number}) {:08x} bf00 T svc_s : NOP", 0x8000 + 2 * number)
}

/// All rows.
pub(super) fn rows() -> Vec<Row> {
    [form(), instructions(), events(), memory(), flow()].into_iter().flatten().collect()
}

fn form() -> Vec<Row> {
    vec![
        bare("header-first", "no header", (1, 11), &[NOP]),
        rev3("header-once", "a second header", (3, 1), &[NOP, HEADER]),
        bare("header-revision", "revision 2", (1, 1), &["Tarmac Text Rev 2t", NOP]),
        bare("header-flags", "an unknown flag", (1, 18), &["Tarmac Text Rev 3tz", NOP]),
        rev3("time-missing", "a step without one", (3, 1), &[NOP, "ES  (0000000000008004:d503201f) O el1h_ns: NOP"]),
        bare("time-unannounced", "no flag", (2, 11), &["Tarmac Text Rev 3", NOP, AFTER]),
        rev3("time-columns", "ten columns", (2, 10), &[&NOP[1..]]),
        rev3("time-decimals", "microseconds", (2, 8), &["       1.50 us  ES  (00008000:e1a00000) A svc: NOP"]),
        rev3("time-unit", "cyc", (2, 11), &["          1 cyc ES  (00008000:e1a00000) A svc: NOP"]),
        rev3("time-unit-change", "clk and ns", (3, 11), &[A32, "          2 ns  ES  (00008004:e1a00000) A svc: NOP"]),
        rev3("time-order", "back", (3, 11), &[A32, "          0 clk ES  (00008004:e1a00000) A svc: NOP"]),
        fast_models("time-order", "of one core", (3, 1), &[&core(2, 0, 1), &core(1, 1, 1), &core(1, 0, 2)]),
        rev3("time-in-step", "a register with one", (3, 11), &[A32, "          1 clk R R0 00000000"]),
        rev3("step-first", "a register", (2, 21), &["                    R R0 00000000", A32]),
        rev3("malformed-line", "a cut line", (3, 35), &[A32, "          2 clk ES  (00008004:e1a0"]),
        rev3("unknown-line", "no known word", (3, 1), &[A32, "nonsense 12"]),
        rev3("no-instruction", "only a reset", (2, 1), &["          1 clk ES  EXC [0x00] Reset"]),
    ]
}

fn instructions() -> Vec<Row> {
    vec![
        rev3("address-digits", "8 in AArch64", (2, 11), &["          1 clk ES  (00008000:d503201f) O el1h_ns: NOP"]),
        rev3("address-digits", "16 in AArch32", (2, 11), &[&A32.replace("(00008000", "(0000000000008000")]),
        fast_models("address-width", "A32", (1, 1), &["1 clk IT (1) 0000000100008000 e1a00000 A svc_s : NOP"]),
        rev3("address-aligned", "A32", (2, 11), &["          1 clk ES  (00008002:e1a00000) A svc: NOP"]),
        fast_models("address-aligned", "T32", (1, 1), &["1 clk IT (1) 00008001 bf00 T svc_s : NOP"]),
        fast_models("opcode-width", "A32 of 4 digits", (1, 1), &["1 clk IT (1) 00008000 bf00 A svc_s : NOP"]),
        fast_models("opcode-width", "a halfword of 8", (1, 1), &["1 clk IT (1) 00008000 0000bf00 T svc_s : NOP"]),
        fast_models("opcode-width", "the first half only", (1, 1), &["1 clk IT (1) 00008000 f7ff T svc_s : BL"]),
        rev3("opcode-padding", "none", (2, 11), &["          1 clk ES  (00008000:bf00) T svc: NOP"]),
        rev3("mode-set", "svc in AArch64", (2, 51), &["          1 clk ES  (0000000000008000:d503201f) O svc: NOP"]),
        rev3("mode-set", "el1h in AArch32", (2, 43), &["          1 clk ES  (00008000:e1a00000) A el1h: NOP"]),
        rev3("mode-known", "another", (2, 43), &["          1 clk ES  (00008000:e1a00000) A odd: NOP"]),
        rev3("security", "another", (2, 46), &["          1 clk ES  (00008000:e1a00000) A svc_zz: NOP"]),
        rev3("ccfail-set", "AArch64", (2, 11), &["          1 clk ES  (0000000000008000:d503201f) O el1h: CCFAIL NOP"]),
        rev3("condition", "AL", (2, 11), &["          1 clk ES  (00008000:e1a00000) A svc: CCFAIL NOP"]),
        fast_models("condition", "IS in AArch64", (1, 1), &["1 clk IS (1) 00008000 d503201f O EL1h_s : NOP"]),
        fast_models("instruction-number", "twice", (2, 1), &[T32, &T32.replace("8000", "8002")]),
    ]
}

fn events() -> Vec<Row> {
    vec![
        rev3("asynchronous-name", "another", (2, 21), &["          1 clk ES  Lunch", NOP]),
        rev3("exception-vector", "0x20", (2, 11), &["          1 clk ES  EXC [0x20] Reset", NOP]),
        rev3("exception-vector", "7 of M-profile", (2, 11), &["          1 clk ES  EXC [7] Reset", NOP]),
        rev3("exception-name", "of another", (2, 32), &["          1 clk ES  EXC [0x04] Reset", NOP]),
        rev3("exception-name", "of an interrupt", (2, 30), &["          1 clk ES  EXC [16] SysTick", NOP]),
        rev3("exception-name", "no vector", (2, 25), &["          1 clk ES  EXC System Call", NOP]),
        rev3("register-width", "X of 8 digits", (3, 27), &[NOP, "                    R X30 12345678"]),
        rev3("register-width", "a range", (3, 32), &[NOP, "                    R V0<63:0> 12345678"]),
        fast_models(
            "register-width",
            "r of 9",
            (2, 13),
            &["1 clk IT (1) 00008000 e1a00000 A svc_s : NOP", "1 clk R r0  123456789"],
        ),
    ]
}

fn memory() -> Vec<Row> {
    let data = "........ ........ 00000000 00000001";
    let one = |rule, name, column, picture: &str| {
        let picture = picture.replace("$", &format!("0000000000001000 {data}"));
        rev3(rule, name, (3, column), &[LOAD, &format!("                    {picture}")])
    };
    vec![
        one("picture-aligned", "at 8", 21, &format!("LD 0000000000001008 {data}")),
        one("picture-digits", "8 in AArch64", 21, &format!("LD 00001000 {data}")),
        one("picture-empty", "dots", 21, "LD 0000000000001000 ........ ........ ........ ........"),
        one("secure-bit", "another", 77, "LD $ ZZ:0000001000 SO"),
        one("physical-aligned", "at 8", 21, "LD $ S:0000001008 SO"),
        one("page-offset", "4 KiB", 21, "LD $ S:0000001010/12 SO"),
        one("memory-type", "another", 90, "LD $ S:0000001000 XX"),
        one("shareability", "another", 93, "LD $ S:0000001000 NM XX"),
        one("cacheability", "outer first", 97, "LD $ S:0000001000 NM ISH OWBNA"),
        one("cacheability", "another", 97, "LD $ S:0000001000 NM ISH IWBXX"),
        rev3("access-unexpected", "of a no-op", (2, 1), &[NOP.replace("d503201f", "91000400").as_str(), LD, AFTER]),
        rev3("access-direction", "a load that writes", (2, 1), &[LOAD, &LD.replace("LD", "ST"), AFTER]),
        rev3("access-missing", "the second", (4, 1), &[LOAD, LD, STORE, LAST]),
        rev3(
            "access-size",
            "4 of 8 bytes",
            (2, 1),
            &[LOAD, "                    LD 0000000000001000 ........ ........ ........ 00000001", AFTER],
        ),
        fast_models(
            "access-size",
            "8 of 16 bytes",
            (1, 1),
            &[
                "1 clk IT (1) 00000200 a9401003 O EL1h_n : LDP",
                "1 clk MR8 00000008 0000000000000001",
                "2 clk IT (2) 00000204 d503201f O EL1h_n : NOP",
            ],
        ),
    ]
}

fn flow() -> Vec<Row> {
    vec![
        rev3("next-pc", "after a no-op", (3, 11), &[NOP, NEXT]),
        rev3("next-pc", "not the target", (3, 11), &[BRANCH, AFTER]),
        fast_models(
            "next-pc",
            "a branch that was skipped",
            (2, 1),
            &["1 clk IS (1) 00008000 54000040 O EL1h_s : B.EQ", "2 clk IT (2) 00008008 d503201f O EL1h_s : NOP"],
        ),
        rev3("branch-digits", "8 in AArch64", (3, 21), &[BRANCH, "                    BR (00008008) O", NEXT]),
        rev3("branch-target", "elsewhere", (3, 1), &[&BRANCH.replace("14000002", "d65f03c0"), BR, AFTER]),
        rev3(
            "branch-opcode",
            "elsewhere",
            (3, 21),
            &[BRANCH, "                    BR (0000000000008010) O", &NEXT.replace("8008", "8010")],
        ),
        rev3("branch-unexpected", "of a no-op", (3, 21), &[NOP, BR, NEXT]),
        rev3(
            "branch-missing",
            "the second",
            (4, 1),
            &[BRANCH, BR, &NEXT.replace("d503201f", "17fffffe"), &LAST.replace("8008", "8000")],
        ),
    ]
}
