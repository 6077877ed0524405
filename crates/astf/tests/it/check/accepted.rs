//! Traces without findings: the example, and what else the format allows.

use unspool_astf::example;

use super::fixtures::*;

pub(crate) type Row = (&'static str, Vec<Record>);

pub(crate) fn rows() -> Vec<Row> {
    [
        vec![("the example", example::records().iter().map(Record::from_bytes).collect())],
        levels(),
        contexts(),
        branches(),
        accesses(),
        vectors(),
        operations(),
        ranges(),
        traps(),
        others(),
    ]
    .concat()
}

fn levels() -> Vec<Row> {
    let bare = Context { el: 3, secure: true, handler: true, ..Context::default() };
    vec![
        ("BasicPlus", plus![add(PC), add(PC + 4)]),
        ("Basic with a context where execution resumes", basic![add(PC), el0(), add(MEM)]),
        ("Basic with a context where nothing changed", basic![add(PC), el0(), add(PC + 4)]),
        ("Basic of bare metal", records![Header::new(Level::Basic, false, Storage::Zlib), bare, add(PC)]),
        ("Basic that resumes a load that faulted", basic![trapped(op(PC, LDR)), read(PC, LDR, 8)]),
        ("Basic that continues after a load that faulted", basic![trapped(op(PC, LDR)), add(PC + 4)]),
        ("Basic that continues after a breakpoint", basic![trapped(op(PC, 0xd420_0000)), add(PC + 4)]),
        ("Basic that continues elsewhere", basic![trapped(op(PC, LDR)), el0(), add(MEM)]),
        ("Basic with a branch that faulted", basic![trapped(pass(PC, B)), jump(PC, B, PC + 8), add(PC + 8)]),
        ("Basic with a system call", basic![trapped(op(PC, SVC)), el0(), add(PC + 4)]),
        ("Basic that ends with a system call", basic![trapped(op(PC, SVC))]),
        ("version 0.10", {
            let header = Header { version_minor: 10, ..Header::new(Level::BasicPlus, false, Storage::Raw) };
            records![header, el1(), add(PC)]
        }),
    ]
}

fn contexts() -> Vec<Row> {
    let call = |kind, ec| Trap { syscall_type: kind, syscall_index: 64, ..exception(ec) };
    let from_unsupported = |trap: Trap| plus![add(PC), unsupported(), trap, el1(), add(VECTOR)];
    let sp_el0 = Context { handler: false, ..el1() };
    vec![
        ("SMSTART that trapped", plus![trapped(op(PC, SMSTART_SM)), exception(0x1d), add(VECTOR)]),
        ("MSR of the same value", plus![op(PC, 0xd500_41bf), add(PC + 4)]),
        ("MSR SPSel", plus![op(PC, 0xd500_40bf), sp_el0, add(PC + 4)]),
        ("MSR DIT, and an interrupt", plus![op(PC, MSR_DIT_1), irq(), add(VECTOR + 0x80)]),
        (
            "unsupported mode and back by an exception",
            timed![
                op(PC, ERET),
                exception_return(MEM + 2),
                time(101),
                Context { pid_valid: true, pid: 3, ..unsupported() },
                time(110),
                irq(),
                el1(),
                add(VECTOR + 0x80)
            ],
        ),
        ("Debug state and back", plus![add(PC), unsupported(), el1(), add(PC + 4)]),
        (
            "unsupported mode with two timestamps",
            timed![add(PC), unsupported(), time(101), time(102), el1(), add(PC + 4)],
        ),
        (
            "a string where the unsupported mode was left",
            plus![add(PC), unsupported(), irq(), text(1, b"x"), el1(), add(VECTOR + 0x80)],
        ),
        ("SVC of AArch32", from_unsupported(call(1, 0x11))),
        ("HVC of AArch32", from_unsupported(call(2, 0x12))),
        ("SMC of AArch32", from_unsupported(call(3, 0x13))),
        ("SVC of AArch32 without its number", from_unsupported(exception(0x11))),
        (
            "an exception stays in its level",
            plus![add(PC), irq(), add(VECTOR + 0x80), op(VECTOR + 0x84, ERET), exception_return(PC + 4), add(PC + 4)],
        ),
        ("the trace ends in an unsupported mode", plus![add(PC), unsupported()]),
        (
            "another process",
            plus![
                op(PC, ERET),
                exception_return(MEM),
                Context { pid_valid: true, pid: 3, ..el0() },
                add(MEM),
                irq(),
                el1(),
                add(VECTOR + 0x80)
            ],
        ),
    ]
}

fn branches() -> Vec<Row> {
    let end = 0x0000_ffff_ffff_fffc;
    vec![
        ("a branch around the end of addresses", plus![jump(end, B, 4), add(4)]),
        ("continuing around the end of addresses", plus![add(end), add(0)]),
        ("a branch from the highest address", plus![jump(u64::MAX - 3, B, 4), add(4)]),
        ("a conditional branch that is taken", plus![jump(PC, B_NE, PC - 0x44), add(PC - 0x44)]),
        ("a branch that trapped", plus![trapped(pass(PC, RET)), exception(0x1c), add(VECTOR)]),
        ("a branch to nowhere", plus![jump(PC, RET, MEM), exception(0x21), add(VECTOR)]),
        ("a branch to an odd address", plus![jump(PC, RET, MEM + 1), exception(0x22), add(VECTOR)]),
        ("a branch target exception", plus![jump(PC, RET, MEM), trapped(add(MEM)), exception(0xd), add(VECTOR)]),
        ("an unknown word as a branch", plus![jump(PC, UNKNOWN_BRANCH, MEM), add(MEM)]),
        ("an unknown word as no branch", plus![op(PC, UNKNOWN_BRANCH), add(PC + 4)]),
    ]
}

fn accesses() -> Vec<Row> {
    let modify = |word, bytes| Instruction { is_write: true, ..read(PC, word, bytes) };
    let second =
        ExtraEa { mem1_valid: true, mem1_is_read: true, mem1_addr: MEM + 0x3000, mem1_size: 3, ..ExtraEa::default() };
    let first = ExtraEa { mem0_is_read: true, mem0_addr: MEM + 0x2000, mem0_size: 3, ..second };
    vec![
        ("a load", plus![read(PC, LDR, 8)]),
        ("a checked store", plus![tagged(write(PC, STR, 8))]),
        (
            "LDP in two pages",
            plus![more(Instruction { ea: MEM + 0xff8, ..read(PC, LDP, 8) }), extra_read(MEM + 0x1000, 8)],
        ),
        ("LDP in three parts", plus![more(read(PC, LDP, 8)), first]),
        ("an exclusive store", plus![write(PC, STXR, 8)]),
        ("an exclusive store that failed", plus![touch(PC, STXR, 8), op(PC + 4, STXR)]),
        ("LDADD", plus![modify(LDADD, 8)]),
        ("CAS", plus![modify(CAS, 8)]),
        ("CAS that failed", plus![read(PC, CAS, 8)]),
        ("ST64BV that failed", plus![touch(PC, 0xf820_b040, 64)]),
        ("an unknown word with an access", plus![write(PC, UNKNOWN_ACCESS, 3)]),
        ("an unknown word with a range", plus![ranged(write(PC, UNKNOWN_ACCESS, 1), 3)]),
        ("an unknown word without an access", plus![op(PC, UNKNOWN_ACCESS)]),
        ("a store that faulted", plus![trapped(touch(PC, STR, 8)), exception(0x25), add(VECTOR)]),
        ("a store that was not tried", plus![trapped(op(PC, STR)), exception(0x26), add(VECTOR)]),
        (
            "LDP whose second half faulted",
            plus![trapped(more(read(PC, LDP, 8))), extra(MEM + 8, 8), exception(0x25), add(VECTOR)],
        ),
        (
            "LDP whose first half faulted",
            plus![trapped(more(touch(PC, LDP, 8))), extra_read(MEM + 8, 8), exception(0x25), add(VECTOR)],
        ),
        (
            "LDP that trapped between its halves",
            plus![trapped(more(read(PC, LDP, 8))), extra(MEM + 8, 8), exception(0x35), add(VECTOR)],
        ),
        ("a system register in memory", plus![touch(PC, MRS_EL1, 8)]),
        (
            "a system register in memory that faulted",
            plus![trapped(op(PC, MRS_EL1)), exception(0x25), Context { el: 2, ..el1() }, add(VECTOR)],
        ),
        ("RET whose guarded stack faulted", plus![trapped(pass(PC, RET)), exception(0x25), add(VECTOR)]),
        ("a watchpoint", plus![trapped(touch(PC, STR, 8)), exception(0x35), add(VECTOR)]),
    ]
}

fn vectors() -> Vec<Row> {
    // 256 bits
    let long = |body: Vec<Record>| {
        let header = Header::new(Level::BasicPlus, false, Storage::Raw);
        [records![header, Context { evl: 1, ..el1() }], body].concat()
    };
    let lanes = |extra: ExtraEa| ExtraEa { extra_eas: true, ..extra };
    let skipped = |extra: ExtraEa| ExtraEa { mem0_is_read: false, ..extra };
    vec![
        ("a vector load", plus![read(PC, LD1D, 16)]),
        ("a vector load without lanes", plus![op(PC, LD1D)]),
        ("a vector load of some lanes", plus![more(read(PC, LD1D, 8)), extra_read(MEM + 16, 8)]),
        ("a vector load of 512 bytes", plus![more(read(PC, 0xa5a0_e000, 256)), extra_read(MEM + 256, 256)]),
        ("a first-faulting load", plus![more(read(PC, LDFF1D, 8)), skipped(extra_read(MEM + 8, 8))]),
        (
            "a first-faulting load that skipped two",
            plus![
                more(read(PC, LDFF1D, 16)),
                lanes(extra(MEM + 16, 8)),
                ExtraEa { mem0_tagged: true, ..extra(MEM + 24, 8) }
            ],
        ),
        ("a first-faulting load that faulted", plus![trapped(touch(PC, LDFF1D, 8)), exception(0x25), add(VECTOR)]),
        (
            "a vector store that faulted",
            plus![
                trapped(more(write(PC, ST1D, 8))),
                lanes(extra_write(MEM + 8, 8)),
                extra(MEM + 0x1000, 8),
                exception(0x25),
                add(VECTOR)
            ],
        ),
        ("a vector load without lanes that trapped", plus![trapped(op(PC, LD1D)), exception(0x19), add(VECTOR)]),
        ("LDR of a vector", long(records![read(PC, LDR_Z, 32)])),
        (
            "LDR of a vector in two pages",
            long(records![more(Instruction { ea: MEM + 0xff0, ..read(PC, LDR_Z, 16) }), extra_read(MEM + 0x1000, 16)]),
        ),
        ("STR of a predicate", long(records![write(PC, STR_P, 4)])),
        ("LDR of ZA out of Streaming SVE mode", long(records![indexed(read(PC, LDR_ZA, 64))])),
        ("LDR of ZT0", long(records![read(PC, LDR_ZT0, 64)])),
        ("SME without an index", plus![op(PC, SMOPA), op(PC + 4, ZERO_ZA), op(PC + 8, ADDHA), op(PC + 12, MOVT)]),
        ("an unknown word of SME with an index", plus![indexed(touch(PC, 0xe110_0000, 16))]),
        ("a vector prefetch", plus![more(touch(PC, PRFB, 8)), extra(MEM + 0x100, 8)]),
        ("an SME load that trapped", plus![trapped(op(PC, LDR_ZA)), exception(0x1d), add(VECTOR)]),
    ]
}

fn operations() -> Vec<Row> {
    vec![
        ("PRFM", plus![touch(PC, PRFM, 1)]),
        ("RPRFM", plus![op(PC, 0xf8a2_4838), ranged(touch(PC + 4, 0xf8a2_4838, 1), 4096)]),
        ("DC CVAC", plus![tagged(touch(PC, DC_CVAC, 1)), touch(PC + 4, DC_CVAC, 1)]),
        ("DC CVAC that trapped", plus![trapped(op(PC, DC_CVAC)), exception(0x18), add(VECTOR)]),
        ("DC CVAC that faulted", plus![trapped(touch(PC, DC_CVAC, 1)), exception(0x25), add(VECTOR)]),
        ("AT that faulted", plus![trapped(op(PC, AT_S1E1R)), exception(0x25), add(VECTOR)]),
        ("DC ISW", plus![op(PC, 0xd508_7640)]),
        ("DC ZVA", plus![write(PC, DC_ZVA, 64)]),
        ("DC ZVA of 512 bytes", plus![more(write(PC, DC_ZVA, 256)), extra_write(MEM + 256, 256)]),
        ("DC ZVA that faulted", plus![trapped(touch(PC, DC_ZVA, 64)), exception(0x25), add(VECTOR)]),
        ("DC GVA", plus![tagged(write(PC, DC_GVA, 64)), op(PC + 4, DC_GVA)]),
        ("TLBI", plus![touch(PC, TLBI_VAE1, 1), op(PC + 4, TLBI_VMALLE1)]),
        ("TLBI by intermediate address", plus![op(PC, 0xd50c_8420), touch(PC + 4, 0xd50c_8420, 1)]),
        ("TLBI by range", plus![ranged(touch(PC, TLBI_RVAE1, 1), 8192), ranged(write(PC + 4, TLBI_RVAE1, 1), 8192)]),
        ("AT", plus![touch(PC, AT_S1E1R, 1)]),
        ("tags", plus![tagged(write(PC, STG, 16)), tagged(read(PC + 4, LDG, 16))]),
        ("tags out of reach", plus![op(PC, STG), op(PC + 4, LDG), write(PC + 8, STGP, 16)]),
        ("STGP", plus![tagged(write(PC, STGP, 16))]),
    ]
}

fn ranges() -> Vec<Row> {
    let copy = more(ranged(read(PC, CPYFP, 1), 16));
    let set = ranged(write(PC, SETP, 1), 16);
    let more_extra = |extra: ExtraEa| ExtraEa { extra_eas: true, ..extra };
    let reading = |extra: ExtraEa| ExtraEa { mem0_is_read: true, mem0_is_write: false, ..extra };
    let fault = exception(0x25);
    vec![
        ("a set", plus![set]),
        ("a set of nothing", plus![ranged(set, 0)]),
        ("a set in two ranges", plus![tagged(more(set)), extra_range(MEM + 16, 16)]),
        ("a copy", plus![copy, extra_range(MEM + 0x100, 16)]),
        ("a copy of nothing", plus![ranged(copy, 0), extra_range(MEM + 0x100, 0)]),
        (
            "a copy in four ranges",
            plus![
                tagged(copy),
                more_extra(reading(extra_range(MEM + 16, 16))),
                more_extra(extra_range(MEM + 0x100, 16)),
                extra_range(MEM + 0x110, 16)
            ],
        ),
        ("a set that faulted", plus![trapped(more(set)), extra(MEM + 16, 1), fault, add(VECTOR)]),
        ("a set that faulted at once", plus![tagged(trapped(touch(PC, SETP, 1))), fault, add(VECTOR)]),
        (
            "a copy that faulted",
            plus![trapped(copy), more_extra(extra_range(MEM + 0x100, 16)), extra(MEM + 16, 8), fault, add(VECTOR)],
        ),
        ("a set in the wrong order", plus![trapped(op(PC, SETP)), exception(0x27), add(VECTOR)]),
        ("a set trapped halfway", plus![trapped(set), exception(0x27), add(VECTOR)]),
    ]
}

fn traps() -> Vec<Row> {
    let call = |kind, ec| Trap { syscall_type: kind, syscall_index: 64, ..exception(ec) };
    vec![
        ("SVC", plus![trapped(op(PC, SVC)), call(1, 0x15), add(VECTOR)]),
        ("HVC", plus![trapped(op(PC, HVC)), call(2, 0x16), Context { el: 2, ..el1() }, add(VECTOR)]),
        (
            "HVC to an untraced hypervisor",
            plus![trapped(op(PC, HVC)), Trap { target_pc: PC + 4, ..call(2, 0x16) }, el1(), add(PC + 4)],
        ),
        ("HVC that is undefined", plus![trapped(op(PC, HVC)), exception(0), add(VECTOR)]),
        ("BRK", plus![trapped(op(PC, 0xd420_0000)), exception(0x3c), add(VECTOR)]),
        ("UDF", plus![trapped(op(PC, 0)), exception(0), add(VECTOR)]),
        ("a call whose instruction is not traced", plus![add(PC), call(1, 0x15), add(VECTOR)]),
        ("an instruction abort", plus![add(PC), exception(0x21), add(VECTOR)]),
        ("the vector cannot be fetched", plus![add(PC), irq(), exception(0x21), add(VECTOR)]),
        ("an interrupt after a load", plus![read(PC, LDR, 8), irq(), add(VECTOR + 0x80)]),
        ("a virtual FIQ", {
            let fiq =
                Trap { trap_type: trap_type::FIQ, target_pc: VECTOR + 0x100, is_virtual: true, ..Trap::default() };
            plus![add(PC), fiq, add(VECTOR + 0x100)]
        }),
        ("an SError", plus![add(PC), serror(), add(VECTOR + 0x180)]),
        ("an external abort as an SError", {
            let abort = Trap { target_pc: VECTOR + 0x180, ..exception(0x25) };
            plus![trapped(touch(PC, LDR, 8)), abort, add(VECTOR + 0x180)]
        }),
        ("a time before the trap", timed![trapped(op(PC, STR)), time(101), exception(0), add(VECTOR)]),
        ("ERET", plus![op(PC, ERET), exception_return(MEM), el0(), add(MEM)]),
        ("ERET to the same level", plus![op(PC, ERET), exception_return(MEM), add(MEM)]),
        ("ERET and an interrupt", plus![op(PC, ERET), exception_return(MEM), irq(), add(VECTOR + 0x80)]),
        ("ERET that trapped", plus![trapped(op(PC, ERET)), exception(0x1a), Context { el: 2, ..el1() }, add(VECTOR)]),
        ("a reset without a context", plus![add(PC), reset(0), add(0)]),
        ("a reset", plus![add(PC), reset(0), Context { el: 3, secure: true, ..el1() }, add(0)]),
        ("a reset at the start", {
            let header = Header::new(Level::BasicPlus, false, Storage::Raw);
            records![header, reset(0), Context { el: 3, secure: true, ..el1() }, add(0)]
        }),
        ("the trace ends with a trap", plus![add(PC), irq()]),
    ]
}

fn others() -> Vec<Row> {
    vec![
        ("a string of nothing", plus![text(0, b""), add(PC)]),
        ("a string of 28 bytes", plus![text(28, &[b'x'; 28]), add(PC)]),
        ("a string of 60 bytes", plus![text(60, &[b'x'; 28]), more_text(&[b'x'; 31]), more_text(b"x"), add(PC)]),
        ("a string with an end", plus![text(9, "gr\u{fc}n\t\n\0\0".as_bytes()), add(PC)]),
        ("a string at an instruction", plus![add(PC), text(1, b"x"), add(PC + 4)]),
        ("suspended and resumed", timed![op(PC, WFI), time(101), time(200), add(PC + 4)]),
        (
            "suspended, resumed by an interrupt",
            timed![op(PC, WFI), time(101), time(200), irq(), time(201), add(VECTOR + 0x80)],
        ),
        ("a time now and then", timed![add(PC), time(101), add(PC + 4), time(102), add(PC + 8)]),
        ("many times in Basic", {
            let header = Header::new(Level::Basic, true, Storage::Raw);
            records![header, time(1), el0(), add(PC), time(2), time(3), time(4), el0(), add(MEM)]
        }),
    ]
}
