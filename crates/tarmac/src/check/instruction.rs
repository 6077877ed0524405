//! Instruction lines: digits, opcodes, modes and conditions.

use unspool_isa::{ControlFlow, Isa};

use super::super::opcode::facts_of;
use super::super::record::{Instruction, InstructionSet, Tag};
use super::findings::FindingSink;
use super::rules::RuleId;

const AARCH32: [&[u8]; 9] = [b"usr", b"sys", b"svc", b"abt", b"und", b"irq", b"fiq", b"hyp", b"mon"];
const AARCH64: [&[u8]; 7] = [b"el0t", b"el1t", b"el1h", b"el2t", b"el2h", b"el3t", b"el3h"];
const M_PROFILE: [&[u8]; 4] = [b"thrd", b"hndl", b"thread", b"handler"];
/// Suffixes of the Security state; the last one is for an unknown state.
const SECURITY: [&[u8]; 6] = [b"_ns", b"_n", b"_s", b"_rt", b"_rl", b"_-"];

/// Checks an instruction line by itself.
pub(super) fn check(instruction: &Instruction<'_>, is_rev3: bool, out: &mut FindingSink<'_>) {
    let Some(set) = instruction.set else { return };
    check_address(instruction, set, is_rev3, out);
    check_opcode(instruction, set, is_rev3, out);
    check_mode(instruction.mode, set, out);
    check_condition(instruction, set, out);
}

/// Number of digits of an address in Rev 3.
pub(super) fn digits(is_aarch64: bool) -> u8 {
    if is_aarch64 { 16 } else { 8 }
}

fn check_address(instruction: &Instruction<'_>, set: InstructionSet, is_rev3: bool, out: &mut FindingSink<'_>) {
    let Some(address) = instruction.address else { return };
    let (found, expected) = (instruction.digits, digits(set == InstructionSet::O));
    if is_rev3 && found != expected {
        out.add(RuleId::AddressDigits, format_args!("the address has {found} digits, not {expected}"));
    }
    if set != InstructionSet::O && address > u64::from(u32::MAX) {
        out.add(RuleId::AddressWidth, format_args!("the address {address:#x} is too large for AArch32"));
    }
    let alignment = if matches!(set, InstructionSet::A | InstructionSet::O) { 4 } else { 2 };
    if instruction.opcode.is_some() && !address.is_multiple_of(alignment) {
        out.add(RuleId::AddressAligned, format_args!("the address {address:#x} is not a multiple of {alignment}"));
    }
}

fn check_opcode(instruction: &Instruction<'_>, set: InstructionSet, is_rev3: bool, out: &mut FindingSink<'_>) {
    let Some(opcode) = instruction.opcode else { return };
    let expected = match set {
        InstructionSet::A | InstructionSet::O => 4,
        InstructionSet::T | InstructionSet::E if instruction.length == 2 => Isa::T32.length(opcode as u16),
        InstructionSet::T | InstructionSet::E => Isa::T32.length((opcode >> 16) as u16),
    };
    let found = instruction.length;
    if found != expected {
        let (found, expected) = (found * 2, expected * 2);
        return out.add(RuleId::OpcodeWidth, format_args!("the opcode has {found} digits, not {expected}"));
    }
    if is_rev3 && found == 2 && instruction.tag == Tag::Es && !is_padded(out.raw) {
        out.add_once(RuleId::OpcodePadding, format_args!("no padding after a 4-digit opcode"));
    }
}

/// Whether the instruction set is in the column that it has after an 8-digit opcode.
fn is_padded(raw: &[u8]) -> bool {
    let after = raw.split(|byte| *byte == b')').nth(1).unwrap_or_default();
    after.starts_with(b"     ") && after.get(5) != Some(&b' ')
}

fn check_mode(mode: &[u8], set: InstructionSet, out: &mut FindingSink<'_>) {
    let (name, suffix) = match mode.iter().rposition(|byte| *byte == b'_') {
        Some(at) => mode.split_at(at),
        None => (mode, &[][..]),
    };
    // Some producers print no mode, or dashes.
    if name.is_empty() || name.contains(&b'-') {
        return;
    }
    let is_in = |list: &[&[u8]]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
    let (mine, others) =
        if set == InstructionSet::O { (&AARCH64[..], &AARCH32[..]) } else { (&AARCH32[..], &AARCH64[..]) };
    let shown = String::from_utf8_lossy(mode);
    if is_in(others) || set != InstructionSet::T && is_in(&M_PROFILE) {
        out.add_in(mode, RuleId::ModeSet, format_args!("the mode {shown} belongs to another instruction set"));
    } else if !is_in(mine) && !is_in(&M_PROFILE) {
        out.add_once_in(mode, RuleId::ModeKnown, format_args!("the mode {shown} is unknown"));
    }
    if !suffix.is_empty() && !SECURITY.contains(&suffix) {
        out.add_once_in(suffix, RuleId::Security, format_args!("the Security state of {shown} is unknown"));
    }
}

fn check_condition(instruction: &Instruction<'_>, set: InstructionSet, out: &mut FindingSink<'_>) {
    if instruction.is_executed {
        return;
    }
    if set == InstructionSet::O && instruction.tag == Tag::Es {
        return out.add(RuleId::CcfailSet, format_args!("CCFAIL in AArch64"));
    }
    let Some(opcode) = instruction.opcode else { return };
    let is_always = match set {
        InstructionSet::A => opcode >> 28 >= 0xe,
        InstructionSet::O => {
            !facts_of(instruction).is_some_and(|facts| facts.conditional && facts.flow == ControlFlow::Direct)
        }
        // It may be in an IT block.
        InstructionSet::T | InstructionSet::E => false,
    };
    if is_always {
        out.add(RuleId::Condition, format_args!("the instruction has no condition that could fail"));
    }
}
