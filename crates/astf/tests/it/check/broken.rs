//! Traces that break one rule each: rule, name of the row, number of the record, records.

use super::broken_memory;
use super::fixtures::*;

pub(crate) type Row = (&'static str, &'static str, u64, Vec<Record>);

pub(crate) fn rows() -> Vec<Row> {
    [levels(), header(), contexts(), branches(), broken_memory::rows(), traps(), strings(), times()].concat()
}

fn levels() -> Vec<Row> {
    let unknown = Record::Unknown([0x77; RECORD_BYTES]);
    vec![
        ("astf-level-records", "no instruction", 2, plus![]),
        ("astf-pc-continuity", "a jump without a branch", 4, plus![add(PC), add(PC + 8), add(PC + 12)]),
        ("astf-pc-continuity", "not at the target of a branch", 4, plus![jump(PC, RET, MEM), add(PC), add(PC + 4)]),
        ("astf-pc-continuity", "not at the target of a trap", 4, plus![irq(), add(VECTOR), add(VECTOR + 4)]),
        (
            "astf-pc-continuity",
            "a Context excuses nothing in BasicPlus",
            5,
            plus![add(PC), Context { pstate_dit: true, ..el1() }, add(PC + 8)],
        ),
        ("astf-pc-continuity", "a jump without a Context in Basic", 4, basic![add(PC), add(PC + 8), add(PC + 12)]),
        (
            "astf-pc-continuity",
            "not at the target of a trap from an unsupported mode",
            7,
            plus![add(PC), unsupported(), irq(), el1(), add(PC)],
        ),
        (
            "astf-pc-continuity",
            "a jump after a load that faulted in Basic",
            4,
            basic![trapped(op(PC, LDR)), add(PC + 8), add(PC + 12)],
        ),
        (
            "astf-pc-continuity",
            "the target of a branch that faulted in Basic",
            4,
            basic![trapped(pass(PC, B)), add(PC + 8)],
        ),
        (
            "astf-pc-alignment",
            "a jump between instructions",
            4,
            plus![jump(PC, RET, MEM + 2), add(MEM + 2), add(MEM + 6)],
        ),
        (
            "astf-pc-alignment",
            "a return between instructions",
            5,
            plus![op(PC, ERET), exception_return(MEM + 1), add(MEM + 1)],
        ),
        ("astf-pc-alignment", "reported once", 3, plus![add(PC + 1), jump(PC + 5, RET, MEM), add(MEM), add(MEM + 4)]),
        ("astf-basic-single-el", "another level in Basic", 4, basic![add(PC), el1(), add(PC + 4)]),
        (
            "astf-level-change",
            "another level inside a handler",
            6,
            plus![add(PC), irq(), add(VECTOR + 0x80), Context { el: 2, ..el1() }, add(VECTOR + 0x84)],
        ),
        ("astf-level-change", "another level without a trap", 4, plus![add(PC), el0(), add(PC + 4)]),
        ("astf-unknown-record", "type 0x77", 4, plus![add(PC), unknown, add(PC + 4)]),
        ("astf-address-sanitized", "a tag in pc", 4, plus![add(PC), add((PC + 4) | (0xb << 56)), add(PC + 8)]),
        (
            "astf-address-sanitized",
            "a tag in the address of an access",
            3,
            plus![Instruction { ea: MEM | 1 << 60, ..read(PC, LDR, 8) }],
        ),
        ("astf-address-sanitized", "a tag in the target of a branch", 3, plus![jump(PC, B, (PC + 8) | 1 << 56)]),
        (
            "astf-address-sanitized",
            "a tag in the target of a trap",
            4,
            plus![add(PC), Trap { target_pc: VECTOR & !(1 << 60), ..exception(0x21) }, add(VECTOR)],
        ),
        (
            "astf-address-sanitized",
            "a tag in another access",
            4,
            plus![more(read(PC, LDP, 8)), extra_read((MEM + 0x1000) | (1 << 63), 8)],
        ),
    ]
}

fn header() -> Vec<Row> {
    let with = |header: Header| records![header, el1(), add(PC)];
    let good = Header::new(Level::BasicPlus, false, Storage::Raw);
    vec![
        ("astf-reserved-zero", "header", 1, with(Header { reserved57: 1, ..good })),
        ("astf-reserved-zero", "instruction", 3, plus![Instruction { reserved6: 1, ..add(PC) }]),
        (
            "astf-reserved-zero",
            "index into ZA",
            4,
            plus![
                Context { pstate_sm: true, ..el1() },
                Instruction { xattr_mode: xattr_mode::SME, xattr: 0x100, ..read(PC, LDR_ZA, 16) }
            ],
        ),
        ("astf-reserved-zero", "trap", 4, plus![add(PC), Trap { reserved2: 1, ..irq() }]),
        (
            "astf-reserved-zero",
            "second half of an extra ea",
            4,
            plus![more(read(PC, LDP, 8)), ExtraEa { mem1_addr: 1, ..extra_read(MEM + 0x1000, 8) }],
        ),
        ("astf-reserved-zero", "context", 4, plus![add(PC), Context { reserved64: 1, ..el1() }, add(PC + 4)]),
        ("astf-reserved-zero", "string", 4, plus![add(PC), StringStart { reserved8: 1, ..text(1, b"x") }]),
        ("astf-reserved-zero", "timestamp", 5, timed![add(PC), Timestamp { value1: 1, ..time(101) }]),
        ("astf-header-first", "no header", 1, records![el1(), add(PC)]),
        ("astf-header-first", "an empty trace", 1, records![]),
        ("astf-header-once", "two headers", 4, plus![add(PC), good, add(PC + 4)]),
        ("astf-header-magic", "ASTG", 1, with(Header { magic: *b"STG", ..good })),
        ("astf-version", "9.9", 1, with(Header { version_major: 9, version_minor: 9, ..good })),
        ("astf-reserved-zero", "format flags", 1, with(Header { reserved62: 1, ..good })),
        ("astf-storage-flags", "zlib, and not compressed", 1, with(Header { use_zlib: true, ..good })),
        ("astf-future-flag-zero", "registers", 1, with(Header { reginfo: true, ..good })),
        ("astf-future-flag-zero", "pseudo", 1, with(Header { pseudo: true, ..good })),
    ]
}

fn contexts() -> Vec<Row> {
    let plus_header = Header::new(Level::BasicPlus, false, Storage::Raw);
    let then = |context: Context| records![plus_header, context, add(PC)];
    let user = |body: Vec<Record>| [records![plus_header, el0()], body].concat();
    let el0_svc = trapped(op(PC, SVC));
    let call = Trap { syscall_type: 1, syscall_index: 64, target_pc: VECTOR, ..exception(0x15) };
    vec![
        ("astf-context-before-instruction", "no context", 2, records![plus_header, add(PC), add(PC + 4)]),
        ("astf-context-unchanged", "the same context", 4, plus![add(PC), el1(), add(PC + 4)]),
        ("astf-context-after-change", "SMSTART without a context", 4, plus![op(PC, SMSTART_SM), add(PC + 4)]),
        (
            "astf-context-after-change",
            "the context has the old value",
            5,
            plus![op(PC, MSR_DIT_1), Context { pstate_ssbs: true, ..el1() }, add(PC + 4)],
        ),
        ("astf-context-after-change", "MSR DIT in Basic", 4, basic![op(PC, MSR_DIT_1), add(PC + 4)]),
        ("astf-tid-needs-pid", "a thread without a process", 2, then(Context { tid_valid: true, tid: 7, ..el0() })),
        ("astf-evl-streaming", "384 bits", 2, then(Context { pstate_sm: true, evl: 2, ..el1() })),
        ("astf-handler-at-el0", "SP_ELx in EL0", 2, then(Context { handler: true, ..el0() })),
        ("astf-el3-secure", "EL3 is not secure", 2, then(Context { el: 3, ..el1() })),
        ("astf-unsupported-in-basic", "unsupported in Basic", 4, basic![add(PC), unsupported(), el0(), add(PC)]),
        ("astf-record-in-unsupported", "an instruction", 5, plus![add(PC), unsupported(), add(MEM), add(MEM + 4)]),
        (
            "astf-record-in-unsupported",
            "an instruction after a trap",
            6,
            plus![add(PC), unsupported(), exception(0), add(VECTOR), add(VECTOR + 4)],
        ),
        (
            "astf-record-in-unsupported",
            "another unsupported mode",
            5,
            plus![add(PC), unsupported(), Context { el: 1, ..unsupported() }, el1(), add(PC)],
        ),
        (
            "astf-record-in-unsupported",
            "a string",
            5,
            plus![add(PC), unsupported(), text(30, &[b'x'; 28]), more_text(b"xy"), el1(), add(PC)],
        ),
        (
            "astf-record-in-unsupported",
            "two traps",
            6,
            plus![add(PC), unsupported(), irq(), exception(0x21), el1(), add(VECTOR)],
        ),
        ("astf-context-behind-trap", "SVC from EL0", 5, user(records![el0_svc, call, add(VECTOR), add(VECTOR + 4)])),
        (
            "astf-context-behind-trap",
            "an interrupt from EL0",
            5,
            user(records![add(PC), irq(), add(VECTOR + 0x80), add(VECTOR + 0x84)]),
        ),
        ("astf-context-behind-trap", "a reset from EL0", 5, user(records![add(PC), reset(0), add(0), add(4)])),
        (
            "astf-record-in-unsupported",
            "three timestamps",
            8,
            timed![add(PC), unsupported(), time(101), time(102), time(103), irq(), el1(), add(VECTOR + 0x80)],
        ),
    ]
}

fn branches() -> Vec<Row> {
    let el0_svc = trapped(op(PC, SVC));
    vec![
        ("astf-branch-flag", "a branch without the flag", 3, plus![op(PC, B), add(PC + 8)]),
        ("astf-branch-flag", "an ADD with the flag", 3, plus![jump(PC, ADD, PC + 8), add(PC + 8)]),
        ("astf-branch-flag", "an ERET with the flag", 3, plus![jump(PC, ERET, MEM), exception_return(MEM), add(MEM)]),
        (
            "astf-branch-flag",
            "an SVC with the flag",
            3,
            plus![Instruction { is_branch: true, ..el0_svc }, Trap { syscall_type: 1, ..exception(0x15) }, add(VECTOR)],
        ),
        ("astf-branch-taken-target", "another target", 3, plus![jump(PC, B, PC + 12), add(PC + 12)]),
        (
            "astf-branch-taken-target",
            "another target, and the right successor",
            3,
            plus![jump(PC, B, PC + 12), add(PC + 8)],
        ),
        ("astf-branch-not-taken", "a target", 3, plus![Instruction { ea: MEM, ..pass(PC, B_NE) }, add(PC + 4)]),
        ("astf-branch-always-taken", "B", 3, plus![pass(PC, B), add(PC + 4)]),
        ("astf-branch-always-taken", "RET", 3, plus![pass(PC, RET), add(PC + 4)]),
        ("astf-branch-no-access", "a size", 3, plus![Instruction { ea_size: 7, ..jump(PC, B, PC + 8) }]),
        ("astf-branch-no-access", "an extra ea", 3, plus![more(jump(PC, B, PC + 8)), extra(MEM, 8), add(PC + 8)]),
        ("astf-branch-trap", "a target", 3, plus![trapped(jump(PC, B, PC + 8)), exception(0xe), add(VECTOR)]),
        (
            "astf-exception-flag",
            "SVC in BasicPlus",
            3,
            plus![op(PC, SVC), Trap { syscall_type: 1, ..exception(0x15) }, add(VECTOR)],
        ),
        ("astf-exception-flag", "HVC in BasicPlus", 3, plus![op(PC, HVC), add(PC + 4)]),
        ("astf-exception-flag", "SVC in Basic", 3, basic![op(PC, SVC), el0(), add(PC + 4)]),
        ("astf-basic-svc-context", "no context after an SVC", 4, basic![el0_svc, add(PC + 4)]),
    ]
}

fn traps() -> Vec<Row> {
    let svc = trapped(op(PC, SVC));
    let call = Trap { syscall_type: 1, syscall_index: 64, ..exception(0x15) };
    let eret = op(PC, ERET);
    let after = |trap: Trap| plus![add(PC), trap];
    vec![
        (
            "astf-data-abort-address",
            "an address, and a trapped system register",
            3,
            plus![trapped(touch(PC, LDR, 8)), exception(0x18), add(VECTOR)],
        ),
        (
            "astf-data-abort-address",
            "a cache operation that trapped",
            3,
            plus![trapped(touch(PC, DC_CVAC, 1)), exception(0x18), add(VECTOR)],
        ),
        (
            "astf-data-abort-address",
            "a TLBI that trapped",
            3,
            plus![trapped(touch(PC, TLBI_VAE1, 1)), exception(0x18), add(VECTOR)],
        ),
        (
            "astf-data-abort-address",
            "an AT that trapped",
            3,
            plus![trapped(touch(PC, AT_S1E1R, 1)), exception(0x18), add(VECTOR)],
        ),
        (
            "astf-data-abort-without-address",
            "a cache operation",
            3,
            plus![trapped(op(PC, DC_CVAC)), exception(0x25), add(VECTOR)],
        ),
        ("astf-data-abort-without-address", "a load", 3, plus![trapped(op(PC, LDR)), exception(0x25), add(VECTOR)]),
        ("astf-trap-flag-needs-trap", "no trap", 3, plus![trapped(op(PC, STR)), add(VECTOR)]),
        ("astf-trap-flag-needs-trap", "the trace ends", 3, plus![trapped(op(PC, STR))]),
        ("astf-trap-in-basic", "a trap in Basic", 4, basic![add(PC), exception(0), el0(), add(VECTOR)]),
        ("astf-trap-type", "type 6", 4, after(Trap { trap_type: 6, ..irq() })),
        (
            "astf-trap-type",
            "an interrupt after an instruction that trapped",
            4,
            plus![trapped(op(PC, STR)), irq(), add(VECTOR + 0x80)],
        ),
        (
            "astf-trap-order",
            "a context before the trap",
            4,
            plus![svc, Context { pstate_dit: true, ..el1() }, call, add(VECTOR)],
        ),
        ("astf-trap-level", "an exception to a lower level", 5, plus![add(PC), irq(), el0(), add(VECTOR + 0x80)]),
        ("astf-trap-level", "a reset to EL0", 5, plus![add(PC), reset(0), el0(), add(0)]),
        (
            "astf-trap-level",
            "a return from a handler to a higher level",
            6,
            plus![irq(), op(VECTOR + 0x80, ERET), exception_return(MEM), Context { el: 2, ..el1() }, add(MEM)],
        ),
        (
            "astf-trap-level",
            "a return to a higher level",
            5,
            plus![eret, exception_return(MEM), Context { el: 2, ..el1() }, add(MEM)],
        ),
        (
            "astf-trap-handler",
            "SP_EL0 after an exception",
            6,
            plus![add(PC), irq(), Context { handler: false, ..el1() }, add(VECTOR + 0x80)],
        ),
        ("astf-trap-vector", "between the entries", 4, after(Trap { target_pc: VECTOR + 4, ..exception(0x21) })),
        ("astf-trap-vector", "an interrupt at the entry of others", 4, after(Trap { target_pc: VECTOR, ..irq() })),
        ("astf-trap-class", "SError of class 0", 4, after(Trap { ec: 0, ..serror() })),
        ("astf-trap-class", "a synchronous SError", 4, after(exception(0x2f))),
        ("astf-trap-class", "a store that failed to fetch", 4, plus![trapped(op(PC, STR)), exception(0x21)]),
        ("astf-trap-class", "an ADD that took a Data Abort", 4, plus![trapped(add(PC)), exception(0x25)]),
        ("astf-trap-class", "an SVE ADD that took a Data Abort", 4, plus![trapped(op(PC, SVE_ADD)), exception(0x25)]),
        ("astf-trap-class", "a store as a BRK", 4, plus![trapped(op(PC, STR)), exception(0x3c)]),
        ("astf-syscall", "an SVC without a call", 4, plus![svc, exception(0x15), add(VECTOR)]),
        ("astf-syscall", "an SVC as HVC", 4, plus![svc, Trap { syscall_type: 2, ..call }, add(VECTOR)]),
        ("astf-syscall", "a call without an instruction", 4, after(Trap { ec: 0, ..call })),
        ("astf-syscall", "an SVC of AArch32 as HVC", 4, after(Trap { syscall_type: 2, ..exception(0x11) })),
        ("astf-syscall", "an index without a call", 4, after(Trap { syscall_index: 1, ..exception(0x21) })),
        ("astf-syscall", "an interrupt as a call", 4, after(Trap { syscall_type: 1, ..irq() })),
        ("astf-interrupt-class", "IRQ of class 1", 4, after(Trap { ec: 1, ..irq() })),
        ("astf-trap-fields", "a virtual return", 4, plus![eret, Trap { is_virtual: true, ..exception_return(MEM) }]),
        ("astf-trap-fields", "a reset with a class", 4, after(Trap { ec: 1, ..reset(0) })),
        ("astf-trap-fields", "a virtual Data Abort", 4, after(Trap { is_virtual: true, ..exception(0x21) })),
        ("astf-exception-return", "ERET without a trap", 3, plus![eret, add(MEM)]),
        ("astf-exception-return", "ERET with an interrupt", 3, plus![eret, irq(), add(VECTOR + 0x80)]),
        ("astf-exception-return", "a return without ERET", 4, after(exception_return(MEM))),
    ]
}

fn strings() -> Vec<Row> {
    let long = text(30, &[b'x'; 28]);
    vec![
        ("astf-string-chain", "a continuation too many", 4, plus![text(2, b"xy"), more_text(b""), add(PC)]),
        ("astf-string-chain", "the trace ends", 4, plus![add(PC), long]),
        ("astf-string-chain", "another string starts", 3, plus![long, text(1, b"x"), add(PC)]),
        ("astf-string-padding-zero", "after a short string", 3, plus![text(1, b"xy"), add(PC)]),
        ("astf-string-padding-zero", "after the last bytes", 4, plus![long, more_text(b"xyz"), add(PC)]),
        ("astf-string-interleaves", "an instruction between", 4, plus![long, add(PC), more_text(b"xy"), add(PC + 4)]),
        (
            "astf-string-interleaves",
            "an unknown record between",
            4,
            plus![long, Record::Unknown([0x77; RECORD_BYTES]), more_text(b"xy"), add(PC + 4)],
        ),
        ("astf-string-printable", "a bell", 3, plus![text(2, b"x\x07"), add(PC)]),
        ("astf-string-printable", "text after a zero", 3, plus![text(3, b"x\0y"), add(PC)]),
    ]
}

fn times() -> Vec<Row> {
    let header = Header::new(Level::BasicPlus, true, Storage::Raw);
    let pair = more(read(PC, LDP, 8));
    let rest = extra_read(MEM + 0x1000, 8);
    vec![
        ("astf-timestamp-flag", "not announced", 3, plus![time(1), add(PC), time(2)]),
        ("astf-timestamp-first", "a context first", 2, records![header, el1(), time(1), add(PC)]),
        ("astf-timestamp-first", "none at all", 2, records![header, el1(), add(PC)]),
        ("astf-timestamp-unit", "unit 0", 5, timed![add(PC), Timestamp { unit: 0, ..time(101) }]),
        ("astf-timestamp-monotonic", "the same time", 5, timed![add(PC), time(100)]),
        ("astf-timestamp-monotonic", "backwards and forwards", 5, timed![add(PC), time(1), add(PC + 4), time(2)]),
        ("astf-timestamp-maximum", "the maximum", 5, timed![add(PC), time(u64::MAX), add(PC + 4), time(101)]),
        ("astf-timestamp-interleaves", "before an extra ea", 5, timed![pair, time(101), rest]),
        (
            "astf-timestamp-interleaves",
            "inside a string",
            5,
            timed![text(30, &[b'x'; 28]), time(101), more_text(b"xy"), add(PC)],
        ),
        ("astf-suspend-timestamps", "three in a row", 7, timed![op(PC, WFI), time(101), time(102), time(103)]),
    ]
}
