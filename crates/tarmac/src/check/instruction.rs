//! Instruction lines: digits, opcodes, modes and conditions.

use unspool_isa::{Kind, t32_length};

use super::super::record::{Instruction, InstructionSet, Tag};
use super::super::restyle::opcode::facts_of;
use super::Out;
use super::rules::RuleId;

const AARCH32: [&[u8]; 9] = [b"usr", b"sys", b"svc", b"abt", b"und", b"irq", b"fiq", b"hyp", b"mon"];
const AARCH64: [&[u8]; 7] = [b"el0t", b"el1t", b"el1h", b"el2t", b"el2h", b"el3t", b"el3h"];
const M_PROFILE: [&[u8]; 4] = [b"thrd", b"hndl", b"thread", b"handler"];
/// The last says that nobody knows.
const SECURITY: [&[u8]; 6] = [b"_ns", b"_n", b"_s", b"_rt", b"_rl", b"_-"];

/// Checks what an instruction line says by itself.
pub(super) fn check(instruction: &Instruction<'_>, is_rev3: bool, out: &mut Out<'_>) {
    let Some(set) = instruction.set else { return };
    if let Some(address) = instruction.address {
        check_address(address, instruction, set, is_rev3, out);
    }
    check_opcode(instruction, set, is_rev3, out);
    check_mode(instruction.mode, set, out);
    check_condition(instruction, set, out);
}

/// How many digits an address has in Rev 3.
pub(super) fn digits(is_aarch64: bool) -> u8 {
    if is_aarch64 { 16 } else { 8 }
}

fn check_address(address: u64, instruction: &Instruction<'_>, set: InstructionSet, is_rev3: bool, out: &mut Out<'_>) {
    let (found, wanted) = (instruction.digits, digits(set == InstructionSet::O));
    if is_rev3 && found != wanted {
        out.add(RuleId::AddressDigits, format_args!("the address has {found} digits, not {wanted}"));
    }
    if set != InstructionSet::O && address > u64::from(u32::MAX) {
        out.add(RuleId::AddressWidth, format_args!("the address {address:#x} is too large for AArch32"));
    }
    let alignment = if matches!(set, InstructionSet::A | InstructionSet::O) { 4 } else { 2 };
    if instruction.opcode.is_some() && !address.is_multiple_of(alignment) {
        out.add(RuleId::AddressAligned, format_args!("the address {address:#x} is no multiple of {alignment}"));
    }
}

fn check_opcode(instruction: &Instruction<'_>, set: InstructionSet, is_rev3: bool, out: &mut Out<'_>) {
    let Some(opcode) = instruction.opcode else { return };
    let wanted = match set {
        InstructionSet::A | InstructionSet::O => 4,
        InstructionSet::T | InstructionSet::E if instruction.length == 2 => t32_length(opcode as u16),
        InstructionSet::T | InstructionSet::E => t32_length((opcode >> 16) as u16),
    };
    let found = instruction.length;
    if found != wanted {
        let (found, wanted) = (found * 2, wanted * 2);
        return out.add(RuleId::OpcodeWidth, format_args!("the opcode has {found} digits, not {wanted}"));
    }
    if is_rev3 && found == 2 && instruction.tag == Tag::Es && !is_padded(out.raw) {
        out.add_once(RuleId::OpcodePadding, format_args!("no spaces behind an opcode of 4 digits"));
    }
}

/// Is the instruction set where it is with eight digits?
fn is_padded(raw: &[u8]) -> bool {
    let behind = raw.split(|byte| *byte == b')').nth(1).unwrap_or_default();
    behind.starts_with(b"     ") && behind.get(5) != Some(&b' ')
}

fn check_mode(mode: &[u8], set: InstructionSet, out: &mut Out<'_>) {
    let (name, suffix) = match mode.iter().rposition(|byte| *byte == b'_') {
        Some(at) => mode.split_at(at),
        None => (mode, &[][..]),
    };
    // Some do not say the mode, or say that they do not.
    if name.is_empty() || name.contains(&b'-') {
        return;
    }
    let is_in = |list: &[&[u8]]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
    let (mine, others) =
        if set == InstructionSet::O { (&AARCH64[..], &AARCH32[..]) } else { (&AARCH32[..], &AARCH64[..]) };
    let shown = String::from_utf8_lossy(mode);
    if is_in(others) || set != InstructionSet::T && is_in(&M_PROFILE) {
        out.add_in(mode, RuleId::ModeSet, format_args!("the mode {shown} is of another instruction set"));
    } else if !is_in(mine) && !is_in(&M_PROFILE) {
        out.add_once_in(mode, RuleId::ModeKnown, format_args!("the mode {shown} is unknown"));
    }
    if !suffix.is_empty() && !SECURITY.contains(&suffix) {
        out.add_once_in(suffix, RuleId::Security, format_args!("the security state of {shown} is unknown"));
    }
}

fn check_condition(instruction: &Instruction<'_>, set: InstructionSet, out: &mut Out<'_>) {
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
            !facts_of(instruction).is_some_and(|facts| facts.conditional && facts.kind == Kind::Direct)
        }
        // An IT instruction may be before it.
        InstructionSet::T | InstructionSet::E => false,
    };
    if is_always {
        out.add(RuleId::Condition, format_args!("the instruction has no condition that could fail"));
    }
}
