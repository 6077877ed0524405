//! Decoded from opcodes: sizes of accesses and targets of branches.

use unspool_isa::{Decoded, Isa, Operation, access, decode};

use super::record::{Instruction, InstructionSet};

/// The instruction set as the opcode decoder names it. ThumbEE branches are decoded as Thumb.
pub(crate) fn isa(set: InstructionSet) -> Isa {
    match set {
        InstructionSet::O => Isa::A64,
        InstructionSet::A => Isa::A32,
        InstructionSet::T | InstructionSet::E => Isa::T32,
    }
}

/// The letter of an instruction set; `None`: Tarmac has none for it.
#[inline]
pub(crate) fn letter(isa: Isa) -> Option<InstructionSet> {
    match isa {
        Isa::A64 => Some(InstructionSet::O),
        Isa::A32 => Some(InstructionSet::A),
        Isa::T32 => Some(InstructionSet::T),
        Isa::Rv32 | Isa::Rv64 => None,
    }
}

/// Facts about an instruction, if its opcode has the right length.
pub(crate) fn facts_of(instruction: &Instruction<'_>) -> Option<Decoded> {
    let set = isa(instruction.set?);
    let facts = decode(set, instruction.address?, instruction.opcode?);
    (facts.length == instruction.length).then_some(facts)
}

/// Whether the opcode only reads memory. Atomic instructions read and write.
pub(crate) fn is_load(set: Option<InstructionSet>, opcode: Option<u32>) -> bool {
    set.zip(opcode).is_some_and(|(set, opcode)| access(isa(set), opcode).operation == Operation::Load)
}

/// Number of bytes of one access of the instruction, which may make several. `None`: it does not access memory, or is
/// unknown.
pub(crate) fn unit(instruction: &Instruction<'_>) -> Option<u16> {
    let opcode = instruction.opcode?;
    match instruction.set? {
        InstructionSet::O => a64_unit(opcode),
        InstructionSet::A => is_a32_access(opcode).then_some(4),
        InstructionSet::T | InstructionSet::E if instruction.length == 2 => is_t16_access(opcode).then_some(4),
        InstructionSet::T | InstructionSet::E => is_t32_access(opcode).then_some(4),
    }
}

fn a64_unit(opcode: u32) -> Option<u16> {
    let access = access(Isa::A64, opcode);
    if !access.reads() && !access.writes() {
        return None;
    }
    if let Some(element) = access.element {
        return Some(u16::from(element));
    }
    let bytes = access.bytes?;
    let is_pair = opcode >> 27 & 0b111 == 0b101 && opcode >> 25 & 1 == 0;
    let is_exclusive_pair = opcode & 0xbfa0_0000 == 0x8820_0000;
    Some(match bytes {
        _ if is_pair || is_exclusive_pair => bytes / 2,
        ..=16 => bytes,
        _ if bytes.is_multiple_of(16) => 16,
        _ => 8,
    })
}

/// Whether an A32 opcode is a load or store, including those of coprocessors.
fn is_a32_access(opcode: u32) -> bool {
    match opcode >> 25 & 0b111 {
        0b010 | 0b100 | 0b110 => true,
        0b011 => opcode >> 4 & 1 == 0,
        // Halfword, doubleword, signed and exclusive accesses.
        0b000 => opcode & 0x90 == 0x90 && (opcode & 0x60 != 0 || opcode >> 23 & 0b11 == 0b11),
        _ => false,
    }
}

/// Whether a 16-bit Thumb opcode is a load or store.
fn is_t16_access(opcode: u32) -> bool {
    let opcode = opcode & 0xffff;
    matches!(opcode >> 12, 0b0101..=0b1001 | 0b1100) || opcode >> 11 == 0b01001 || opcode & 0xf600 == 0xb400
}

/// Whether a 32-bit Thumb opcode is a load or store.
fn is_t32_access(opcode: u32) -> bool {
    matches!(opcode >> 25, 0b111_0100 | 0b111_0110 | 0b111_1100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(set: InstructionSet, opcode: u32, length: u8) -> Instruction<'static> {
        Instruction { address: Some(0x8000), opcode: Some(opcode), length, set: Some(set), ..Instruction::default() }
    }

    #[test]
    fn access_sizes_by_opcode() {
        use InstructionSet::{A, O, T};
        let rows = [
            ("ldp x29, x30, [sp, #16]", O, 0xa941_7bfd, 4, Some(8)),
            ("ldp w0, w1, [sp]", O, 0x2940_07e0, 4, Some(4)),
            ("ldp q0, q1, [x0]", O, 0xad40_0400, 4, Some(16)),
            ("ldr q0, [x0]", O, 0x3dc0_0000, 4, Some(16)),
            ("ldrb w0, [x0]", O, 0x3940_0000, 4, Some(1)),
            ("add x0, x0, #1", O, 0x9100_0400, 4, None),
            ("push {r4, lr}", A, 0xe92d_4010, 4, Some(4)),
            ("ldrh r0, [r1]", A, 0xe1d1_00b0, 4, Some(4)),
            ("mul r1, r0, r0", A, 0xe001_0090, 4, None),
            ("svc #0", A, 0xef00_0000, 4, None),
            ("mov r0, #1", A, 0xe3a0_0001, 4, None),
            ("svc #0xcf", T, 0xdfcf, 2, None),
            ("ldm r7, {...}", T, 0xcfdf, 2, Some(4)),
            ("pop {r4, pc}", T, 0xbd10, 2, Some(4)),
            ("pop.w {r4-r10, pc}", T, 0xe8bd_87f0, 4, Some(4)),
            ("bl", T, 0xf7ff_ef76, 4, None),
        ];
        for (name, set, opcode, length, expected) in rows {
            assert_eq!(unit(&instruction(set, opcode, length)), expected, "{name}");
        }
    }
}
