//! Valid behavior, even if unusual: no findings.

use unspool_model::ExceptionKind::{Debug, Irq, Reset, Unknown};
use unspool_model::{Context, Coverage, Event, Exception, ExceptionKind, Facet, Gap, Security, Step};

use super::builders::*;

/// Name and steps.
pub(crate) type Row = (&'static str, Vec<Step>);

pub(crate) fn rows() -> Vec<Row> {
    [flow(), states(), accesses(), vectors()].concat()
}

fn flow() -> Vec<Row> {
    vec![
        (
            "branches of all kinds",
            vec![taken(op(PC, B), PC + 8), not_taken(op(PC + 8, B_EQ)), op(PC + 12, B_EQ), nop(PC + 20)],
        ),
        ("a branch to a tagged address", vec![taken(op(PC, RET), 0x5600_0000_0000_9000), nop(0x9000)]),
        ("any address after a gap", vec![nop(PC), gap(), nop(0x9000)]),
        (
            "a system call and its return",
            vec![
                el_with(0, false),
                op(PC, SVC),
                sync(0x2400),
                el_with(1, true),
                taken(op(0x2400, ERET), PC + 4),
                back(PC + 4),
                el_with(0, false),
                nop(PC + 4),
            ],
        ),
        (
            "a firmware call that is not traced",
            vec![
                el_with(1, true),
                op(PC, 0xd400_0002),
                event(Event::Exception(Exception {
                    kind: ExceptionKind::Synchronous,
                    class: Some(0x16),
                    target: Some(PC + 4),
                    ..Exception::default()
                })),
                el_with(1, true),
                nop(PC + 4),
            ],
        ),
        ("an interrupt after a branch", vec![op(PC, B_EQ), irq_back(0x2280, PC + 8), nop(0x2280)]),
        ("a fault returns to its instruction", vec![op(PC, LDR), irq_back(0x2280, PC), nop(0x2280)]),
        ("a transaction fails", vec![op(PC, TSTART), nop(PC + 4), nop(PC + 8), nop(PC + 4)]),
        ("two cores", vec![nop(PC), on(nop(0x9000), 1), nop(PC + 4), on(nop(0x9004), 1)]),
        ("a loader after a reset", vec![raise(Reset, 0), nop(PC)]),
        ("a debugger", vec![el(1), nop(PC), without_target(Debug), el(3), nop(0)]),
        ("a branch in an IT block", vec![t32(PC, T32_IT), not_taken(t32(PC + 2, T32_B)), t32(PC + 4, T32_NOP)]),
        (
            "not taken, reported as taken to the next instruction",
            vec![taken(riscv(PC, RV_BEQ), PC + 4), riscv(PC + 4, RV_NOP)],
        ),
        (
            "RV32 addresses, sign-extended and not",
            vec![
                taken(of_rv32(PC, RV_MRET), 0x8000_0000),
                of_rv32(0xffff_ffff_8000_0000, RV_NOP),
                of_rv32(0x8000_0004, RV_NOP),
            ],
        ),
        ("a branch that faults is not taken", vec![el(1), not_taken(op(PC, RET)), sync(0x2200), nop(0x2200)]),
        (
            "an instruction without opcode",
            vec![
                event(Event::Instruction(unspool_model::Instruction { address: PC, length: 4, ..Default::default() })),
                nop(0x9000),
            ],
        ),
        ("misaligned, with a fault", vec![el(1), taken(op(PC, RET), PC + 2), nop(PC + 2), sync(0x2200), nop(0x2200)]),
        ("equal times", vec![at(nop(PC), 7), at(nop(PC + 4), 7)]),
        ("a note of another time", vec![at(nop(PC), 7), at(event(Event::Note), 3), at(nop(PC + 4), 7)]),
        ("another buffer", vec![at(nop(PC), 7), event(Event::Gap(Gap::Start)), at(nop(PC + 4), 3)]),
    ]
}

fn without_target(kind: ExceptionKind) -> Step {
    event(Event::Exception(Exception { kind, ..Exception::default() }))
}

fn of_rv32(address: u64, opcode: u32) -> Step {
    of(unspool_model::Isa::Rv32, address, opcode, 4)
}

fn states() -> Vec<Row> {
    let [secure, non_secure] = [Security::Secure, Security::NonSecure];
    let a32_at = |level| state(level, non_secure, false);
    vec![
        ("A32: down to User mode", vec![a32_at(1), a32(PC, A32_MSR), a32_at(0), a32(PC + 4, A32_NOP)]),
        ("A32 to T32 and back", vec![taken(a32(PC, A32_BX), 0x9001), t32(0x9000, 0x4770), a32(0x9002 + 2, A32_NOP)]),
        (
            "from A64 to A32 and back",
            vec![el(1), taken(op(PC, ERET), 0x9000), a32_at(0), a32(0x9000, A32_NOP), sync(0x2600), el(1), nop(0x2600)],
        ),
        (
            "an exception without a level after it",
            vec![el(0), op(PC, SVC), sync(0x2400), nop(0x2400), el(1), nop(0x2404)],
        ),
        ("A32: MOVS PC", vec![a32_at(1), taken(a32(PC, A32_RETURN), PC), a32_at(0), a32(PC, A32_NOP)]),
        (
            "through EL3 into Secure state",
            vec![
                el(1),
                nop(PC),
                sync(0x2400),
                state(3, secure, true),
                taken(op(0x2400, ERET), PC),
                state(1, secure, true),
                nop(PC),
            ],
        ),
        (
            "a return and an interrupt before any instruction",
            vec![el(1), taken(op(PC, ERET), 0x9000), raise(Irq, 0x2480), el(2), nop(0x2480)],
        ),
        ("an exception of unknown kind", vec![el(1), nop(PC), without_target(Unknown), el(0), nop(0x10)]),
        (
            "RISC-V: a trap and mret",
            vec![
                mode(0),
                riscv(PC, RV_ECALL),
                sync(0x2000),
                mode(3),
                taken(riscv(0x2000, RV_MRET), PC + 4),
                back(PC + 4),
                mode(0),
                riscv(PC + 4, RV_NOP),
            ],
        ),
        (
            "a context with only a process",
            vec![
                el(1),
                nop(PC),
                event(Event::Context(Context { process: Some(7), ..Context::default() })),
                nop(PC + 4),
            ],
        ),
    ]
}

fn accesses() -> Vec<Row> {
    let both = || writes(reads(op(PC - 4, CAS), 8), 8);
    vec![
        ("split in two", vec![reads(reads(op(PC, LDR), 4), 4), nop(PC + 4)]),
        ("an exclusive store that fails", vec![both(), op(PC, STXR), nop(PC + 4)]),
        ("a compare and swap that fails", vec![both(), reads(op(PC, CAS), 8), nop(PC + 4)]),
        ("a load that faults", vec![el(1), both(), op(PC, LDR), sync(0x2200), nop(0x2200)]),
        ("a load that faults halfway", vec![el(1), both(), reads(op(PC, LDR), 4), sync(0x2200), nop(0x2200)]),
        ("no accesses reported", vec![op(PC, LDR), op(PC + 4, STR), nop(PC + 8)]),
        ("the last instruction", vec![both(), op(PC, LDR)]),
        (
            "A32: a load that was not executed",
            vec![
                reads(a32(PC, A32_LDR), 4),
                executed(a32(PC + 4, A32_LDR & !0xe000_0000), false),
                a32(PC + 8, A32_NOP),
            ],
        ),
        (
            "RISC-V: sizes in bits",
            vec![reads(riscv(PC, RV_LD), 64), reads(riscv(PC + 4, RV_LW), 32), riscv(PC + 8, RV_NOP)],
        ),
    ]
}

fn vectors() -> Vec<Row> {
    let aborts =
        Exception { kind: ExceptionKind::Synchronous, class: Some(0x25), target: Some(0x2380), ..Exception::default() };
    let a32_irq = vec![a32(PC, A32_NOP), raise(Irq, 0xffff_0018), a32(0xffff_0018, A32_NOP)];
    vec![
        (
            "an external abort at the SError vector",
            vec![el_with(1, true), nop(PC), event(Event::Exception(aborts)), nop(0x2380)],
        ),
        ("in the table of VBAR", vec![el_with(1, true), vbar(nop(PC), 0x2000), sync(0x2200), nop(0x2200)]),
        (
            "VBAR_EL1 written by a host in EL2",
            vec![el(2), vbar(nop(PC), 0x4000), taken(op(PC + 4, ERET), PC), el(1), nop(PC), sync(0x2200), nop(0x2200)],
        ),
        ("A32: high vectors", a32_irq),
        ("M-profile", vec![t32(PC, T32_NOP), raise(Irq, 0x1234), t32(0x1234, T32_NOP)]),
        ("RISC-V", vec![riscv(PC, RV_NOP), raise(Irq, 0x1234), riscv(0x1234, RV_NOP)]),
    ]
}

/// Steps with a finding, unless this facet is not covered.
pub(crate) fn without_facet() -> Vec<(Facet, Vec<Step>)> {
    vec![
        (Facet::Instructions, vec![nop(PC), nop(PC + 8)]),
        (Facet::Times, vec![at(nop(PC), 7), at(nop(PC + 4), 6)]),
        (Facet::Accesses, vec![reads(op(PC, ADD), 8), nop(PC + 4)]),
        (Facet::Exceptions, vec![el(0), nop(PC), el(1), nop(0x9000)]),
        (Facet::Registers, vec![el_with(1, true), vbar(nop(PC), 0x4000), sync(0x2200), nop(0x2200)]),
    ]
}

pub(crate) fn all_but(facet: Facet) -> Coverage {
    let facets: Vec<Facet> = Facet::ALL.into_iter().filter(|other| *other != facet).collect();
    Coverage::of(&facets)
}
