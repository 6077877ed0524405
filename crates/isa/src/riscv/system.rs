//! System instructions: calls, trap returns, control registers, fences, cache blocks, and accesses to guest memory.
//!
//! Specification: The RISC-V Instruction Set Manual, volume II, and volume I, "Zicsr", "Zifencei", "CMO", "Zawrs" and
//! "Zimop".

use super::instruction::{BREAKPOINT, INT, Instruction, funct3, funct7, rd, rs2};
use crate::Isa;
use crate::access::{Access, Operation};
use crate::bits::field;
use crate::class::{Class, Classes};
use crate::control_flow::{ControlFlow, Decoded};

const SYSTEM: Classes = Classes::of(&[Class::System]);
const CACHE: Classes = SYSTEM.with(Class::Cache);

/// Decodes a word of this family.
pub(super) fn decode(isa: Isa, word: u32) -> Instruction {
    match funct3(word) {
        0b000 => privileged(word),
        0b100 => hypervisor(isa, word),
        // csrrw, csrrs, csrrc, and with a number
        _ => Instruction::computes(SYSTEM.with(Class::Csr)),
    }
}

/// fence, fence.i, and management of cache blocks.
///
/// The fields of a fence that mean nothing yet are ignored, as the specification asks.
pub(super) fn ordering(word: u32) -> Instruction {
    let has_destination = rd(word) != 0;
    match (funct3(word), field(word, 20, 12)) {
        (0b000 | 0b001, _) => Instruction::accesses(Access::of(Operation::Fence), Classes::of(&[Class::Fence])),
        // cbo.inval, cbo.clean, cbo.flush
        (0b010, 0..=2) if !has_destination => Instruction::accesses(Access::of(Operation::CacheMaintenance), CACHE),
        // cbo.zero
        (0b010, 4) if !has_destination => Instruction::accesses(Access::of(Operation::Zero), CACHE),
        _ => Instruction::NONE,
    }
}

/// Instructions without operands, and fences of translations.
fn privileged(word: u32) -> Instruction {
    match word {
        0x0000_0073 => Instruction::diverts(Decoded::of(ControlFlow::SupervisorCall), INT.with(Class::System)),
        0x0010_0073 => BREAKPOINT,
        // uret, sret, mret, mnret, dret
        0x0020_0073 | 0x1020_0073 | 0x3020_0073 | 0x7020_0073 | 0x7b20_0073 => {
            Instruction::diverts(Decoded::EXCEPTION_RETURN, SYSTEM)
        }
        // wfi, wrs.nto, wrs.sto, sctrclr
        0x1050_0073 | 0x00d0_0073 | 0x01d0_0073 | 0x1040_0073 => Instruction::computes(SYSTEM),
        // sfence.w.inval, sfence.inval.ir
        0x1800_0073 | 0x1810_0073 => fence(CACHE),
        _ if rd(word) != 0 => Instruction::NONE,
        _ => match funct7(word) {
            // sfence.vma
            0x09 => fence(SYSTEM.with(Class::Fence)),
            // hfence.vvma, hfence.gvma
            0x11 | 0x31 => fence(SYSTEM.with(Class::Fence).with(Class::Hypervisor)),
            // sinval.vma; hinval.vvma, hinval.gvma
            0x0b => fence(CACHE),
            0x13 | 0x33 => fence(CACHE.with(Class::Hypervisor)),
            _ => Instruction::NONE,
        },
    }
}

const fn fence(classes: Classes) -> Instruction {
    Instruction::accesses(Access::of(Operation::Fence), classes)
}

/// The loads and stores of H, and the operations that may be of Zimop.
fn hypervisor(isa: Isa, word: u32) -> Instruction {
    let is_64_bit = isa == Isa::Rv64;
    let bytes = 1 << field(word, 26, 2);
    let load = Instruction::accesses(Access::sized(Operation::Load, bytes), GUEST.with(Class::Load));
    let store = Instruction::accesses(Access::sized(Operation::Store, bytes), GUEST.with(Class::Store));
    match (funct7(word), rs2(word)) {
        // hlv.b, hlv.bu; hlv.h, hlv.hu, hlvx.hu; hlv.w, hlvx.wu
        (0x30, 0 | 1) | (0x32, 0 | 1 | 3) | (0x34, 0 | 3) => load,
        // hlv.wu; hlv.d
        (0x34, 1) | (0x36, 0) => load.when(is_64_bit),
        // hsv.b, hsv.h, hsv.w, hsv.d
        (0x31 | 0x33 | 0x35, _) => store.when(rd(word) == 0),
        (0x37, _) => store.when(rd(word) == 0 && is_64_bit),
        // mop.r.0 to mop.r.31, mop.rr.0 to mop.rr.7
        _ => Instruction::computes(INT).when(word & 0xb3c0_0000 == 0x81c0_0000 || word & 0xb200_0000 == 0x8200_0000),
    }
}

/// Accesses the memory of a guest.
const GUEST: Classes = SYSTEM.with(Class::Hypervisor);
