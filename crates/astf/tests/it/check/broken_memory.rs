//! Traces whose instructions break one rule about memory each.

use super::broken::Row;
use super::fixtures::*;

pub(crate) fn rows() -> Vec<Row> {
    [accesses(), operations(), ranges(), chains()].concat()
}

fn accesses() -> Vec<Row> {
    let mut both = read(PC, LDADD, 8);
    both.is_write = true;
    let trap = exception(0x25);
    let long = |body: Vec<Record>| plus_trace([records![Context { evl: 1, ..el1() }], body].concat());
    vec![
        ("astf-sme-index", "no index", 4, plus![Context { pstate_sm: true, ..el1() }, read(PC, LDR_ZA, 16)]),
        ("astf-sme-index", "an ADD with an index", 3, plus![Instruction { xattr_mode: xattr_mode::SME, ..add(PC) }]),
        ("astf-sme-index", "SMOPA with an index", 3, plus![indexed(op(PC, SMOPA))]),
        ("astf-sme-index", "ZERO of ZA with an index", 3, plus![indexed(op(PC, ZERO_ZA))]),
        ("astf-sme-index", "ADDHA with an index", 3, plus![indexed(op(PC, ADDHA))]),
        ("astf-sme-index", "MOVT with an index", 3, plus![indexed(op(PC, MOVT))]),
        ("astf-sme-index", "LDR of ZT0 with an index", 3, plus![indexed(read(PC, LDR_ZT0, 64))]),
        ("astf-sme-index", "an SVE ADD with an index", 3, plus![indexed(op(PC, SVE_ADD))]),
        ("astf-sme-index", "LD1D with an index", 3, plus![indexed(read(PC, LD1D, 16))]),
        ("astf-xattr-unused-zero", "an unused attribute", 3, plus![Instruction { xattr: 1, ..add(PC) }]),
        ("astf-memory-ea-valid", "a load without an address", 3, plus![op(PC, LDR)]),
        ("astf-memory-ea-valid", "an ADD with an address", 3, plus![touch(PC, ADD, 1)]),
        ("astf-memory-ea-valid", "an SVE ADD with an address", 3, plus![read(PC, SVE_ADD, 16)]),
        ("astf-memory-ea-valid", "SMOPA with an address", 3, plus![read(PC, SMOPA, 16)]),
        ("astf-memory-ea-valid", "NOP with an address", 3, plus![touch(PC, NOP, 1)]),
        ("astf-memory-ea-valid", "WFI with an address", 3, plus![touch(PC, WFI, 1)]),
        ("astf-memory-ea-valid", "ISB with an address", 3, plus![touch(PC, ISB, 1)]),
        ("astf-memory-ea-valid", "DSB with an address", 3, plus![write(PC, DSB, 1)]),
        ("astf-memory-ea-valid", "MRS with an address", 3, plus![read(PC, MRS_EL0, 8)]),
        ("astf-memory-ea-valid", "a CAS without an address", 3, plus![op(PC, CAS)]),
        ("astf-no-access-fields-zero", "an ADD that read", 3, plus![Instruction { is_read: true, ..add(PC) }]),
        (
            "astf-no-access-fields-zero",
            "an address that is not valid",
            3,
            plus![Instruction { ea: MEM, ..op(PC, LD1D) }],
        ),
        ("astf-memory-direction", "a load that wrote", 3, plus![write(PC, LDR, 8)]),
        ("astf-memory-direction", "a load that did not read", 3, plus![touch(PC, LDR, 8)]),
        ("astf-memory-direction", "a store that did not write", 3, plus![touch(PC, STR, 8)]),
        ("astf-memory-direction", "a store that read", 3, plus![Instruction { is_read: true, ..write(PC, STR, 8) }]),
        ("astf-memory-direction", "an LDADD that did not write", 3, plus![read(PC, LDADD, 8)]),
        ("astf-memory-direction", "a CAS that did not read", 3, plus![write(PC, CAS, 8)]),
        (
            "astf-memory-direction",
            "the second half wrote",
            4,
            plus![more(read(PC, LDP, 8)), extra_write(MEM + 0x1000, 8)],
        ),
        ("astf-memory-size", "LDR of 4 bytes", 3, plus![read(PC, LDR, 4)]),
        ("astf-memory-size", "LDADD of 16 bytes", 3, plus![Instruction { ea_size: 15, ..both }]),
        (
            "astf-memory-size",
            "LDP in three parts",
            3,
            plus![
                more(read(PC, LDP, 8)),
                ExtraEa {
                    mem1_valid: true,
                    mem1_is_read: true,
                    mem1_addr: MEM + 0x2000,
                    mem1_size: 7,
                    ..extra_read(MEM + 0x1000, 8)
                }
            ],
        ),
        ("astf-merge-accesses", "LDP in two parts", 4, plus![more(read(PC, LDP, 8)), extra_read(MEM + 8, 8)]),
        (
            "astf-trap-no-access",
            "a store that trapped and wrote",
            3,
            plus![trapped(write(PC, STR, 8)), trap, add(VECTOR)],
        ),
        ("astf-vector-size", "LDR of a vector", 4, long(records![read(PC, LDR_Z, 16)])),
        ("astf-vector-size", "STR of a predicate", 4, long(records![write(PC, STR_P, 32)])),
        (
            "astf-vector-size",
            "LDR of ZA",
            4,
            plus![Context { pstate_sm: true, evl: 3, ..el1() }, indexed(read(PC, LDR_ZA, 32))],
        ),
        ("astf-abort-final-access", "a vector load", 3, plus![trapped(read(PC, LD1D, 16)), trap, add(VECTOR)]),
        (
            "astf-abort-final-access",
            "a vector store whose last access is written",
            3,
            plus![trapped(more(touch(PC, ST1D, 8))), extra_write(MEM + 8, 8), trap, add(VECTOR)],
        ),
        (
            "astf-abort-final-access",
            "LDP with both halves",
            3,
            plus![trapped(more(read(PC, LDP, 8))), extra_read(MEM + 8, 8), trap, add(VECTOR)],
        ),
        ("astf-sve-first-fault", "half an element skipped", 4, plus![more(read(PC, LDFF1D, 8)), extra(MEM + 8, 4)]),
    ]
}

fn operations() -> Vec<Row> {
    vec![
        ("astf-prefetch", "PRFM that read", 3, plus![read(PC, PRFM, 1)]),
        ("astf-prefetch", "PRFM with a size", 3, plus![touch(PC, PRFM, 64)]),
        ("astf-prefetch", "PRFM that is tagged", 3, plus![tagged(touch(PC, PRFM, 1))]),
        ("astf-prefetch", "PRFM without an address", 3, plus![op(PC, PRFM)]),
        ("astf-prefetch", "PRFB that read", 3, plus![read(PC, PRFB, 16)]),
        ("astf-cache-tlb-at-operation", "DC CVAC that wrote", 3, plus![write(PC, DC_CVAC, 1)]),
        ("astf-cache-tlb-at-operation", "DC CVAC with a size", 3, plus![touch(PC, DC_CVAC, 64)]),
        ("astf-cache-tlb-at-operation", "TLBI without an address", 3, plus![op(PC, TLBI_VAE1)]),
        ("astf-cache-tlb-at-operation", "AT that is tagged", 3, plus![tagged(touch(PC, AT_S1E1R, 1))]),
        ("astf-zero-operation", "DC ZVA without a direction", 3, plus![touch(PC, DC_ZVA, 64)]),
        ("astf-zero-operation", "DC ZVA of 48 bytes", 3, plus![write(PC, DC_ZVA, 48)]),
        ("astf-zero-operation", "DC ZVA without an address", 3, plus![op(PC, DC_ZVA)]),
        ("astf-tag-operation", "STG that is not tagged", 3, plus![write(PC, STG, 16)]),
        ("astf-tag-operation", "LDG that wrote", 3, plus![tagged(write(PC, LDG, 16))]),
        (
            "astf-tag-operation",
            "STG inside a granule",
            3,
            plus![Instruction { ea: MEM + 8, ..tagged(write(PC, STG, 16)) }],
        ),
    ]
}

fn ranges() -> Vec<Row> {
    let copy = more(ranged(read(PC, CPYFP, 1), 16));
    let set = ranged(write(PC, SETP, 1), 16);
    let abort = exception(0x25);
    let turn = |extra: ExtraEa| ExtraEa { extra_eas: true, ..extra };
    let reading = ExtraEa { mem0_is_read: true, mem0_is_write: false, ..extra_range(MEM + 8, 8) };
    vec![
        ("astf-range-instruction", "LDR with a range", 3, plus![ranged(read(PC, LDR, 1), 8)]),
        ("astf-range-instruction", "STR with one more range", 4, plus![more(write(PC, STR, 8)), extra_range(MEM, 8)]),
        ("astf-range-size-field", "a set", 3, plus![Instruction { ea_size: 15, ..set }]),
        ("astf-range-size-field", "a copy", 4, plus![copy, ExtraEa { mem0_size: 15, ..extra_range(PC, 16) }]),
        ("astf-range-one-direction", "a set that reads too", 3, plus![Instruction { is_read: true, ..set }]),
        ("astf-range-one-direction", "a set that does nothing", 3, plus![Instruction { is_write: false, ..set }]),
        (
            "astf-range-read-first",
            "a copy that writes first",
            3,
            plus![
                Instruction { is_read: false, is_write: true, ..copy },
                ExtraEa { mem0_is_read: true, mem0_is_write: false, ..extra_range(PC, 16) }
            ],
        ),
        (
            "astf-range-read-first",
            "an alternating copy",
            3,
            plus![copy, turn(extra_range(PC, 8)), turn(reading), extra_range(PC + 8, 8)],
        ),
        (
            "astf-range-read-first",
            "an alternating copy that faulted",
            3,
            plus![trapped(copy), turn(extra_range(PC, 8)), turn(reading), extra(MEM, 1), abort, add(VECTOR)],
        ),
        ("astf-tlb-range", "no range", 3, plus![touch(PC, TLBI_RVAE1, 1)]),
        ("astf-tlb-range", "no address", 3, plus![op(PC, TLBI_RVAE1)]),
        ("astf-mops-range", "a set without a range", 3, plus![op(PC, SETP)]),
        ("astf-mops-range", "a set with a size", 3, plus![write(PC, SETP, 16)]),
        ("astf-mops-range", "a set that reads", 3, plus![ranged(read(PC, SETP, 1), 16)]),
        ("astf-mops-range", "a copy that writes nothing", 3, plus![Instruction { extra_eas: false, ..copy }]),
        ("astf-range-zero-untagged", "an empty set", 3, plus![tagged(ranged(set, 0))]),
        ("astf-mops-abort-address", "the last access is a range", 3, plus![trapped(set), abort, add(VECTOR)]),
        ("astf-mops-abort-address", "no access", 3, plus![trapped(op(PC, SETP)), abort, add(VECTOR)]),
    ]
}

fn chains() -> Vec<Row> {
    let pair = more(read(PC, LDP, 8));
    let rest = extra_read(MEM + 0x1000, 8);
    vec![
        ("astf-extra-ea-follows", "an instruction instead", 3, plus![pair, add(PC + 4)]),
        (
            "astf-extra-ea-follows",
            "a context between",
            3,
            plus![pair, Context { pstate_dit: true, ..el1() }, rest, add(PC + 4)],
        ),
        (
            "astf-extra-ea-follows",
            "an unknown record between",
            3,
            plus![pair, Record::Unknown([0x77; RECORD_BYTES]), rest, add(PC + 4)],
        ),
        ("astf-extra-ea-follows", "the trace ends", 4, plus![pair, ExtraEa { extra_eas: true, ..rest }]),
        ("astf-extra-ea-chain", "not announced", 4, plus![read(PC, LDR, 8), rest, rest, add(PC + 4)]),
        (
            "astf-extra-ea-range",
            "a second access too",
            4,
            plus![more(ranged(read(PC, CPYFP, 1), 16)), ExtraEa { mem1_is_read: true, ..extra_range(MEM, 16) }],
        ),
    ]
}
