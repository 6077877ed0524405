//! Traces without findings, some of them unusual.

use unspool_stf::builder::our_trace_info;

use super::fixtures::*;

pub(crate) type Row = (&'static str, Records);

pub(crate) fn rows() -> Vec<Row> {
    [headers(), flow(), accesses(), events(), super::a64::accepted()].concat()
}

fn headers() -> Vec<Row> {
    let early = |minor| {
        let mut records = trace(vec![]);
        records[1] = Record::Version { major: 1, minor };
        records[6] = Record::TraceInfoFeature(0x20);
        records
    };
    vec![
        ("the minimum", trace(vec![])),
        ("transactions", transactions()),
        ("an end mark", trace(vec![Record::ReserveEnd])),
        ("a comment at the end", trace(vec![Record::Comment(b"that is all")])),
        ("version 1.3", early(3)),
        ("version 1.2", early(2)),
        ("our trace info", inserted(6, Record::TraceInfo(our_trace_info()))),
        ("a comment at the end of the header", inserted(8, Record::Comment(b"late"))),
        ("two comments", inserted(3, Record::Comment(b""))),
        ("a process", inserted(7, Record::ProcessIdExt([1, 2, 3]))),
        ("vectors and extensions", {
            let mut records = inserted(8, Record::VlenConfig(256));
            records.insert(9, Record::IsaExtended(b"rv64gcv"));
            records
        }),
    ]
}

fn flow() -> Vec<Row> {
    vec![
        ("a jump", trace(vec![to(PC + 12), op(JAL), op(NOP)])),
        ("a branch", trace(vec![to(PC + 12), op(BEQ), op(NOP)])),
        ("a branch that is not taken", trace(vec![op(BEQ), op(NOP)])),
        ("a branch, and a forced address", trace(vec![op(BEQ), Record::ForcePc(MEM), op(NOP)])),
        ("a jump, and the next address is forced", trace(vec![op(RET), Record::ForcePc(MEM), op(NOP)])),
        ("a jump to the next instruction", trace(vec![op(JAL_4), op(NOP)])),
        ("a call without a trap", trace(vec![op(ECALL), op(NOP)])),
        ("a jump at the end", trace(vec![op(RET)])),
        ("a jump that faulted", trace([fault(), vec![op(RET), op(NOP)]].concat())),
        ("a target of an unknown opcode", trace(vec![to(MEM), op(UNKNOWN)])),
        ("the same address twice", trace(vec![Record::ForcePc(MEM), Record::ForcePc(MEM), op(NOP)])),
        ("a forced address of a high half", trace(vec![Record::ForcePc(0xffff_ffff_8000_0000), op(NOP)])),
        ("a high address in RV32", rv32(vec![Record::ForcePc(0xffff_ffff_8000_0000), op(NOP)])),
        ("a jump in a high half of RV32", rv32(vec![Record::ForcePc(0xffff_ffff_8000_0000), to(0x8000_0008), op(JAL)])),
        ("another encoding mode", trace(vec![Record::InstIem(1), op(NOP), Record::InstIem(2), op(ADDIW)])),
        ("a target after a register", trace(vec![register(1, 0x31), to(MEM), op(RET)])),
        ("a register after content", trace(vec![read(8), word(0), register(1, 0x31), op(LD)])),
        ("a process after a register", trace(vec![register(1, 0x31), Record::ProcessIdExt([0; 3]), op(NOP)])),
    ]
}

fn accesses() -> Vec<Row> {
    // cm.push {ra}, -16; cm.popret {ra}, 64; cm.jt 31
    let [push, pop, table] = [0xb842, 0xbe4e, 0xa07e].map(Record::InstOpcode16);
    vec![
        ("a load", trace(vec![read(8), word(u64::MAX), op(LD)])),
        ("a store", trace(vec![write(8), word(0), op(SD)])),
        ("a load in two parts", trace(vec![read(3), word(0xff_ffff), read(5), word(0), op(LD)])),
        ("a byte", trace(vec![read(1), word(0xff), op(LB)])),
        ("an atomic", trace(vec![read(8), word(0), write(8), word(0), op(AMOADD_D)])),
        ("a failed conditional store", trace(vec![read(8), word(0), op(LD), op(SC_D), op(NOP)])),
        ("a conditional store that reads first", trace(vec![read(8), word(0), write(8), word(0), op(SC_D)])),
        ("a block of zeros", trace(vec![read(8), word(0), op(LD), op(CBO_ZERO), op(NOP)])),
        ("a conditional store", trace(vec![write(8), word(0), op(SC_D)])),
        ("a vector", trace(vec![read(32), word(0), word(0), word(0), word(0), op(VLE64)])),
        ("elements of a vector", trace(vec![read(8), word(0), read(8), word(0), op(VLE64)])),
        ("a vector without elements", trace(vec![read(8), word(0), op(LD), op(VLE64), op(NOP)])),
        ("a load that faulted", trace([fault(), vec![op(LD), read(8), word(0), op(LD)]].concat())),
        ("a store that faulted among others", {
            trace([vec![read(8), word(0), op(LD)], fault(), vec![op(SD), op(NOP)]].concat())
        }),
        ("an unknown opcode with accesses", trace(vec![read(3), word(0), write(8), word(0), op(UNKNOWN)])),
        ("a replaced instruction", {
            let microop = Record::InstMicroop { size: 4, encoding: LD };
            featured(FEATURES | 0x4000, vec![read(8), word(0), microop, op(NOP)])
        }),
        ("a push", extended(b"rv64imac_zcmp", vec![write(8), word(0), push])),
        ("a pop and a return", extended(b"rv64imac_zce", vec![to(MEM), read(8), word(0), pop, op(NOP)])),
        ("a jump by a table", extended(b"rv64imac_zcmt", vec![to(MEM), table, to(MEM), read(8), word(0), table])),
        (
            "a push or a floating-point store",
            extended(b"rv64gc_zcmp", vec![write(24), word(0), word(0), word(0), push]),
        ),
        ("a walk", featured(FEATURES | 0x101, vec![walk(4096, 0xf), read(8), word(0), op(LD)])),
        ("a walk without a leaf, and a fault", {
            featured(FEATURES | 0x100, [vec![walk(4096, 0)], fault(), vec![op(LD)]].concat())
        }),
        ("another master", trace(vec![bus(8, 1, 2), Record::BusMasterContent(0), op(NOP)])),
    ]
}

fn events() -> Vec<Row> {
    let interrupt = event(1 << 63 | 7, &[0]);
    let custom = event(25, &[]);
    vec![
        ("an interrupt", trace(vec![interrupt, Record::EventPcTarget(MEM), op(NOP), op(NOP)])),
        ("an interrupt without a target", trace(vec![interrupt, op(NOP), Record::ForcePc(MEM), op(NOP)])),
        ("two events", trace([fault(), vec![mode(3), op(LD), op(NOP)]].concat())),
        ("a custom fault", trace(vec![custom, op(NOP)])),
        ("a call", trace(vec![event(11, &[64]), Record::EventPcTarget(MEM), op(ECALL), op(NOP)])),
        ("a return to user mode", trace(vec![to(MEM), mode(0), op(MRET), op(NOP)])),
        // It may have been taken, or interrupted.
        ("a branch, and a forced address where it leads", trace(vec![op(BEQ), Record::ForcePc(PC + 12), op(NOP)])),
        ("user mode, and a forced address", trace(vec![mode(0), op(NOP), Record::ForcePc(MEM), op(NOP)])),
        ("a higher mode", trace(vec![to(MEM), mode(1), op(MRET), event(9, &[1]), mode(3), op(ECALL), op(NOP)])),
        ("a failed fetch of a nop", trace(vec![event(12, &[PC, 0]), op(NOP)])),
        ("an illegal instruction", trace(vec![event(2, &[PC, 0, 2]), Record::InstOpcode16(0)])),
        ("an illegal instruction of four bytes", trace(vec![event(2, &[PC, 0, 2]), op(0)])),
    ]
}
