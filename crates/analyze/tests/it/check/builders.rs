//! Step builders for the rows.

use unspool_model::{
    Branch, Context, Direction, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Security, Step,
};

pub(crate) use crate::event;

/// Start address of most programs.
pub(crate) const PC: u64 = 0x8000;

pub(crate) const NOP: u32 = 0xd503_201f;
pub(crate) const ADD: u32 = 0x8b01_0002; // ADD x2, x0, x1
pub(crate) const LDR: u32 = 0xf940_0020; // LDR x0, [x1]
pub(crate) const STR: u32 = 0xf900_0020; // STR x0, [x1]
pub(crate) const STXR: u32 = 0xc802_7c20; // STXR w2, x0, [x1]
pub(crate) const CAS: u32 = 0xc8a0_7c41; // CAS x0, x1, [x2]
pub(crate) const B: u32 = 0x1400_0002; // B to eight bytes ahead
pub(crate) const B_EQ: u32 = 0x5400_0040; // B.EQ to eight bytes ahead
pub(crate) const RET: u32 = 0xd65f_03c0;
pub(crate) const ERET: u32 = 0xd69f_03e0;
pub(crate) const SVC: u32 = 0xd400_0001;
pub(crate) const TSTART: u32 = 0xd523_3060;

pub(crate) const A32_NOP: u32 = 0xe320_f000;
pub(crate) const A32_BEQ: u32 = 0x0a00_0000; // BEQ to eight bytes ahead, of A32
pub(crate) const A32_BX: u32 = 0xe12f_ff1e; // BX LR
pub(crate) const A32_LDR: u32 = 0xe591_0000; // LDR r0, [r1] of A32
pub(crate) const A32_PUSH: u32 = 0xe92d_4010; // STMDB sp!, {r4, lr} of A32
pub(crate) const A32_MSR: u32 = 0xe121_f000; // MSR CPSR_c, r0 of A32
pub(crate) const A32_RETURN: u32 = 0xe1b0_f00e; // MOVS PC, LR of A32

pub(crate) const T32_NOP: u32 = 0xbf00;
pub(crate) const T32_IT: u32 = 0xbf08; // IT EQ
pub(crate) const T32_B: u32 = 0xe000; // B to four bytes ahead
pub(crate) const T32_PUSH: u32 = 0xb510; // PUSH {r4, lr}
pub(crate) const T32_LDR: u32 = 0xf8d1_0000; // LDR.W r0, [r1]

pub(crate) const RV_NOP: u32 = 0x0000_0013;
pub(crate) const RV_LW: u32 = 0x0005_a503; // lw a0, 0(a1)
pub(crate) const RV_LD: u32 = 0x0005_b503; // ld a0, 0(a1)
pub(crate) const RV_BEQ: u32 = 0x0000_0463; // beq zero, zero, eight bytes ahead
pub(crate) const RV_MRET: u32 = 0x3020_0073;
pub(crate) const RV_ECALL: u32 = 0x0000_0073;

pub(crate) fn of(isa: Isa, address: u64, opcode: u32, length: u8) -> Step {
    let opcode = Some(opcode);
    event(Event::Instruction(Instruction { address, opcode, length, isa, ..Instruction::default() }))
}

pub(crate) fn op(address: u64, opcode: u32) -> Step {
    of(Isa::A64, address, opcode, 4)
}

pub(crate) fn nop(address: u64) -> Step {
    op(address, NOP)
}

pub(crate) fn a32(address: u64, opcode: u32) -> Step {
    of(Isa::A32, address, opcode, 4)
}

pub(crate) fn t32(address: u64, opcode: u32) -> Step {
    of(Isa::T32, address, opcode, if opcode > 0xffff { 4 } else { 2 })
}

pub(crate) fn riscv(address: u64, opcode: u32) -> Step {
    of(Isa::Rv64, address, opcode, if opcode & 3 == 3 { 4 } else { 2 })
}

fn change(mut step: Step, change: impl FnOnce(&mut Instruction)) -> Step {
    if let Event::Instruction(instruction) = &mut step.event {
        change(instruction);
    }
    step
}

pub(crate) fn taken(step: Step, target: u64) -> Step {
    change(step, |instruction| instruction.branch = Some(Branch { taken: true, target: Some(target) }))
}

pub(crate) fn not_taken(step: Step) -> Step {
    change(step, |instruction| instruction.branch = Some(Branch { taken: false, target: None }))
}

pub(crate) fn executed(step: Step, is_executed: bool) -> Step {
    change(step, |instruction| instruction.is_executed = Some(is_executed))
}

pub(crate) fn reads(mut step: Step, size: u64) -> Step {
    step.access(Direction::Read, 0x1000, size);
    step
}

pub(crate) fn writes(mut step: Step, size: u64) -> Step {
    step.access(Direction::Write, 0x1000, size);
    step
}

pub(crate) fn at(mut step: Step, time: u64) -> Step {
    step.time = Some(time);
    step
}

pub(crate) fn on(mut step: Step, core: u32) -> Step {
    step.core = core;
    step
}

/// Writes VBAR_EL1.
pub(crate) fn vbar(mut step: Step, base: u64) -> Step {
    step.write_register("VBAR_EL1", 0, &base.to_le_bytes());
    step
}

pub(crate) fn raise(kind: ExceptionKind, target: u64) -> Step {
    event(Event::Exception(Exception { kind, target: Some(target), ..Exception::default() }))
}

pub(crate) fn sync(target: u64) -> Step {
    raise(ExceptionKind::Synchronous, target)
}

/// An interrupt with this return address.
pub(crate) fn irq_back(target: u64, back: u64) -> Step {
    let (kind, target, return_address) = (ExceptionKind::Irq, Some(target), Some(back));
    event(Event::Exception(Exception { kind, target, return_address, ..Exception::default() }))
}

pub(crate) fn back(target: u64) -> Step {
    event(Event::ExceptionReturn { target: Some(target) })
}

pub(crate) fn gap() -> Step {
    event(Event::Gap(Gap::Overflow))
}

/// AArch64 in Non-secure state.
pub(crate) fn el(level: u8) -> Step {
    state(level, Security::NonSecure, true)
}

/// AArch64 with a known stack pointer.
pub(crate) fn el_with(level: u8, is_handler: bool) -> Step {
    let is_handler = Some(is_handler);
    event(Event::Context(Context { level: Some(level), is_aarch64: Some(true), is_handler, ..Context::default() }))
}

pub(crate) fn state(level: u8, security: Security, is_aarch64: bool) -> Step {
    let (level, security, is_aarch64) = (Some(level), Some(security), Some(is_aarch64));
    event(Event::Context(Context { level, security, is_aarch64, ..Context::default() }))
}

/// A privilege mode of RISC-V.
pub(crate) fn mode(level: u8) -> Step {
    event(Event::Context(Context { level: Some(level), ..Context::default() }))
}
