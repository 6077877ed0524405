//! Violations of each rule: rows whose steps give exactly one finding.

use unspool_model::ExceptionKind::{Fiq, Irq, SError};
use unspool_model::{Isa, Security, Step};

use super::builders::*;

/// Rule, name and steps.
pub(crate) type Row = (&'static str, &'static str, Vec<Step>);

pub(crate) fn rows() -> Vec<Row> {
    [flow(), branches(), states(), accesses(), vectors(), others()].concat()
}

fn flow() -> Vec<Row> {
    let rule = "step-pc-continuity";
    vec![
        (rule, "an instruction is missing", vec![nop(PC), nop(PC + 8), nop(PC + 12)]),
        (rule, "backwards without a branch", vec![nop(PC), nop(PC + 4), nop(PC)]),
        (rule, "not at the target of a branch", vec![taken(op(PC, B), PC + 8), nop(PC + 4)]),
        (rule, "not at the target of a branch without a reported outcome", vec![op(PC, B), nop(PC + 4)]),
        (rule, "neither at the target nor after a conditional branch", vec![op(PC, B_EQ), nop(PC + 12)]),
        (rule, "at the target of a branch that is not taken", vec![not_taken(op(PC, B_EQ)), nop(PC + 8)]),
        (rule, "not at the target of RET", vec![taken(op(PC, RET), 0x9000), nop(0x9004)]),
        (rule, "not at the handler", vec![el(1), nop(PC), sync(0x2200), nop(0x2400)]),
        (
            rule,
            "not at the target of an exception return",
            vec![taken(op(PC, ERET), 0x9000), back(0x9000), nop(0x9008)],
        ),
        (rule, "one core of two", vec![nop(PC), on(nop(0x9000), 1), nop(PC + 4), on(nop(0x9008), 1), nop(PC + 8)]),
        (
            rule,
            "in a loop, found once",
            vec![vec![nop(PC), taken(op(PC + 8, B), PC + 16), taken(op(PC + 16, RET), PC)]; 9].concat(),
        ),
        (rule, "T32", vec![t32(PC, T32_NOP), t32(PC + 4, T32_NOP)]),
        (rule, "RISC-V", vec![riscv(PC, 1), riscv(PC + 2, RV_NOP), riscv(PC + 4, 1)]),
        ("step-exception-place", "another return address", vec![nop(PC), irq_back(0x2280, PC + 0x20), nop(0x2280)]),
        ("step-return-opcode", "ADD", vec![op(PC, ADD), back(PC + 4), nop(PC + 4)]),
        ("step-return-opcode", "RET", vec![taken(op(PC, RET), 0x9000), back(0x9000), nop(0x9000)]),
    ]
}

fn branches() -> Vec<Row> {
    let condition = "step-condition";
    vec![
        ("step-branch-target", "B", vec![taken(op(PC, B), 0x9000), nop(0x9000)]),
        ("step-branch-target", "B, and the encoded target executes", vec![taken(op(PC, B), 0x9000), nop(PC + 8)]),
        ("step-branch-target", "A32", vec![taken(a32(PC, A32_BEQ), 0x9000), a32(0x9000, A32_NOP)]),
        ("step-branch-target", "RISC-V", vec![taken(riscv(PC, RV_BEQ), PC + 12), riscv(PC + 12, RV_NOP)]),
        ("step-branch-taken", "B", vec![not_taken(op(PC, B)), nop(PC + 4)]),
        ("step-branch-taken", "RET", vec![not_taken(op(PC, RET)), nop(PC + 4)]),
        ("step-branch-opcode", "ADD", vec![taken(op(PC, ADD), 0x9000), nop(0x9000)]),
        ("step-branch-opcode", "RISC-V", vec![not_taken(riscv(PC, RV_NOP)), riscv(PC + 4, RV_NOP)]),
        (condition, "ADD fails", vec![executed(op(PC, ADD), false), nop(PC + 4)]),
        (condition, "A32: an unconditional instruction fails", vec![executed(a32(PC, A32_NOP), false)]),
        (condition, "taken, but the condition failed", vec![taken(executed(op(PC, B_EQ), false), PC + 8), nop(PC + 8)]),
        (condition, "A32: not taken, but the condition held", vec![not_taken(executed(a32(PC, A32_BEQ), true))]),
    ]
}

fn states() -> Vec<Row> {
    let level = "step-level-change";
    let security = "step-security-change";
    let [secure, non_secure] = [Security::Secure, Security::NonSecure];
    vec![
        (level, "up without an exception", vec![el(0), nop(PC), el(1), nop(PC + 4)]),
        (level, "down without a return", vec![el(1), nop(PC), el(0), nop(PC + 4)]),
        (level, "down by an exception", vec![el(2), nop(PC), sync(0x2200), el(1), nop(0x2200)]),
        (level, "up by a return", vec![el(1), taken(op(PC, ERET), PC), el(2), nop(PC)]),
        (
            level,
            "A32: up from User mode",
            vec![state(0, non_secure, false), a32(PC, A32_MSR), state(1, non_secure, false), a32(PC + 4, A32_NOP)],
        ),
        (level, "RISC-V: up without a trap", vec![mode(0), riscv(PC, RV_NOP), mode(3), riscv(PC + 4, RV_NOP)]),
        (level, "RISC-V: up by mret", vec![mode(1), taken(riscv(PC, RV_MRET), PC), mode(3), riscv(PC, RV_NOP)]),
        ("step-exception-level", "still EL0", vec![el(0), op(PC, SVC), sync(0x2400), el(0), nop(0x2400)]),
        (security, "without an exception", vec![el(1), nop(PC), state(1, secure, true), nop(PC + 4)]),
        (
            security,
            "by an exception to EL1",
            vec![el(0), op(PC, SVC), sync(0x2400), state(1, secure, true), nop(0x2400)],
        ),
        (security, "by a return from EL1", vec![el(1), taken(op(PC, ERET), PC), state(0, secure, true), nop(PC)]),
        ("step-isa-change", "A64 to A32", vec![nop(PC), a32(PC + 4, A32_NOP)]),
        ("step-isa-change", "A32 to T32", vec![a32(PC, A32_NOP), t32(PC + 4, T32_NOP)]),
        ("step-isa-change", "A32 to T32 by B", vec![taken(a32(PC, A32_BEQ), PC + 8), t32(PC + 8, T32_NOP)]),
        ("step-isa-state", "A32 in AArch64", vec![el(1), a32(PC, A32_NOP), a32(PC + 4, A32_NOP)]),
        ("step-isa-state", "A64 in AArch32", vec![state(1, non_secure, false), nop(PC), nop(PC + 4)]),
    ]
}

fn accesses() -> Vec<Row> {
    let [kind, size, missing] = ["step-access-kind", "step-access-size", "step-access-missing"];
    let [load, store] = [reads(op(PC - 8, LDR), 8), writes(op(PC - 4, STR), 8)];
    vec![
        (kind, "ADD reads", vec![reads(op(PC, ADD), 8), nop(PC + 4)]),
        (kind, "a load writes", vec![writes(op(PC, LDR), 8), nop(PC + 4)]),
        (kind, "a load reads and writes", vec![writes(reads(op(PC, LDR), 8), 8), nop(PC + 4)]),
        (kind, "a store reads", vec![reads(op(PC, STR), 8), nop(PC + 4)]),
        (kind, "A32: a load that was not executed", vec![executed(reads(a32(PC, A32_LDR & !0xe000_0000), 4), false)]),
        (kind, "RISC-V: a nop writes", vec![writes(riscv(PC, RV_NOP), 4), riscv(PC + 4, RV_NOP)]),
        (size, "a load of 8 reads 4", vec![reads(op(PC, LDR), 4), nop(PC + 4)]),
        (size, "a store of 8 writes 16", vec![writes(writes(op(PC, STR), 8), 8), nop(PC + 4)]),
        (size, "a compare and swap of 8 reads 4", vec![reads(op(PC, CAS), 4), nop(PC + 4)]),
        (size, "A32: LDR reads 8", vec![reads(a32(PC, A32_LDR), 8), a32(PC + 4, A32_NOP)]),
        (size, "A32: a push of two writes 4", vec![writes(a32(PC, A32_PUSH), 4), a32(PC + 4, A32_NOP)]),
        (
            size,
            "T32: a push of two writes 4",
            vec![gap(), t32(0, T32_NOP), writes(t32(2, T32_PUSH), 4), t32(4, 0xbf00)],
        ),
        (size, "T32: LDR.W reads 8", vec![reads(t32(PC, T32_LDR), 8), t32(PC + 4, T32_NOP)]),
        (size, "RISC-V: lw reads 8", vec![reads(riscv(PC, RV_LW), 8), riscv(PC + 4, RV_NOP)]),
        (missing, "of a load", vec![load.clone(), store.clone(), op(PC, LDR), nop(PC + 4)]),
        (missing, "of a store", vec![load, store, op(PC, STR), nop(PC + 4)]),
        (missing, "RISC-V", vec![reads(riscv(PC, RV_LW), 4), riscv(PC + 4, RV_LW), riscv(PC + 8, RV_NOP)]),
    ]
}

fn vectors() -> Vec<Row> {
    let [kind, origin] = ["step-vector-kind", "step-vector-origin"];
    let from = |before: Step, raised: Step, target: u64| vec![before, nop(PC), raised, el_with(1, true), nop(target)];
    let a32_from = |raised: Step, target: u64| vec![a32(PC, A32_NOP), raised, a32(target, A32_NOP)];
    let user = state(0, Security::NonSecure, false);
    vec![
        (kind, "IRQ at the synchronous vector", from(el_with(1, true), raise(Irq, 0x2200), 0x2200)),
        (kind, "FIQ at the IRQ vector", from(el_with(1, true), raise(Fiq, 0x2280), 0x2280)),
        (kind, "SError at the synchronous vector", from(el_with(1, true), raise(SError, 0x2200), 0x2200)),
        (kind, "a system call between vectors", from(el_with(1, true), sync(0x2204), 0x2204)),
        (kind, "a system call at the IRQ vector", from(el_with(1, true), sync(0x2280), 0x2280)),
        (kind, "A32: IRQ at the supervisor call vector", a32_from(raise(Irq, 0x2008), 0x2008)),
        (kind, "A32: a supervisor call at the IRQ vector", a32_from(sync(0x2018), 0x2018)),
        (origin, "vectors for SP_EL0, taken with SP_ELx", from(el_with(1, true), sync(0x2000), 0x2000)),
        (origin, "vectors for SP_ELx, taken with SP_EL0", from(el_with(1, false), sync(0x2200), 0x2200)),
        (origin, "vectors for a lower level, taken from the same", from(el_with(1, true), sync(0x2400), 0x2400)),
        (origin, "vectors for the same level, taken from a lower one", from(el_with(0, false), sync(0x2200), 0x2200)),
        (origin, "vectors for AArch32, taken from AArch64", from(el_with(0, false), sync(0x2600), 0x2600)),
        (
            origin,
            "vectors for AArch64, taken from AArch32",
            vec![user, a32(PC, A32_NOP), sync(0x2400), el_with(1, true), nop(0x2400)],
        ),
        (
            "step-vector-base",
            "not in the table of VBAR",
            vec![el_with(1, true), vbar(nop(PC), 0x4000), sync(0x2200), el_with(1, true), nop(0x2200)],
        ),
    ]
}

fn others() -> Vec<Row> {
    vec![
        ("step-time-order", "it decreases", vec![at(nop(PC), 7), at(nop(PC + 4), 6), at(nop(PC + 8), 6)]),
        (
            "step-time-order",
            "one core of two",
            vec![at(nop(PC), 7), at(on(nop(PC), 1), 5), at(nop(PC + 4), 8), at(on(nop(PC + 4), 1), 4)],
        ),
        ("step-opcode-length", "A64 of two bytes", vec![of(Isa::A64, PC, NOP, 2)]),
        ("step-opcode-length", "T32 of four bytes", vec![of(Isa::T32, PC, T32_NOP, 4)]),
        ("step-opcode-length", "T32 of two bytes", vec![of(Isa::T32, PC, T32_LDR, 2)]),
        ("step-opcode-length", "RISC-V of two bytes", vec![of(Isa::Rv64, PC, RV_NOP, 2)]),
        ("step-alignment", "A64, found once", vec![taken(op(PC, RET), 0x9002), nop(0x9002), nop(0x9006), nop(0x900a)]),
        ("step-alignment", "A32", vec![a32(PC + 2, A32_NOP), a32(PC + 6, A32_NOP)]),
        ("step-alignment", "T32", vec![t32(PC + 1, T32_NOP), t32(PC + 3, T32_NOP)]),
        ("step-alignment", "RISC-V", vec![riscv(PC + 1, RV_NOP), riscv(PC + 5, RV_NOP)]),
    ]
}
