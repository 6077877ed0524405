//! All instructions of the functions of an image, executed or not.
//!
//! Takes an image at its link address and what was executed of it; produces instructions in order of address. Data between
//! instructions is left out where mapping symbols of the image show it. Of Arm code without mapping symbols, the instruction
//! set is that of the instructions which were executed in the same function; if none was, its instructions are not known.

use std::ops::Range;

use unspool_capture::{Code, CodeKind, CodeMarker, ElfSections, Machine};
use unspool_isa::Isa;

use super::images::ImageCounts;

/// An instruction of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticInstruction {
    /// Link address.
    pub address: u64,
    /// Instruction set.
    pub isa: Isa,
    /// Opcode; of T32, the first halfword is the high one. `None` if the image does not have it.
    pub opcode: Option<u32>,
    /// Length in bytes.
    pub length: u8,
}

/// Where an image has instructions, and of which kind.
#[derive(Debug, Default)]
pub(crate) struct CodeLayout {
    markers: Vec<CodeMarker>,
}

impl CodeLayout {
    pub(crate) fn new(code: &Code) -> Self {
        let files = code.elf.iter().chain(&code.debug_file).filter_map(ElfSections::new);
        let markers = files.map(|file| file.markers()).find(|markers| !markers.is_empty());
        Self { markers: markers.unwrap_or_default() }
    }

    /// The instructions in a range.
    pub(crate) fn instructions(&self, image: &ImageCounts, range: Range<u64>) -> Vec<StaticInstruction> {
        let mut found = Vec::new();
        let executed = image.counts.range(range.clone()).next().map(|(_, count)| count.isa);
        let mut address = range.start;
        while address < range.end {
            // Where executed instructions and the walk disagree, what was executed is right.
            if let Some(count) = image.counts.get(&address) {
                let &unspool_analyze::address_counts::AddressCount { isa, opcode, length, .. } = count;
                found.push(StaticInstruction { address, isa, opcode, length });
                address = address.saturating_add(u64::from(length.max(1)));
                continue;
            }
            let (isa, end) = self.isa_at(&image.code, address, executed);
            let Some(isa) = isa else {
                let next = image.counts.range(address..range.end).next().map(|(address, _)| *address);
                address = next.unwrap_or(range.end).min(end);
                continue;
            };
            let Some((opcode, length)) = opcode_at(&image.code, isa, address) else { break };
            found.push(StaticInstruction { address, isa, opcode: Some(opcode), length });
            address = address.saturating_add(u64::from(length));
        }
        found
    }

    /// The instruction set at an address, and where that may change. `None`: data, or unknown.
    fn isa_at(&self, code: &Code, address: u64, executed: Option<Isa>) -> (Option<Isa>, u64) {
        let of_machine = match code.machine {
            Some(Machine::AArch64) => Some(Isa::A64),
            Some(Machine::RiscV32) => Some(Isa::Rv32),
            Some(Machine::RiscV64) => Some(Isa::Rv64),
            _ => None,
        };
        let after = self.markers.partition_point(|marker| marker.address <= address);
        let end = self.markers.get(after).map_or(u64::MAX, |marker| marker.address);
        let kind = after.checked_sub(1).and_then(|index| self.markers.get(index)).map(|marker| marker.kind);
        let isa = match kind {
            Some(CodeKind::Code) => of_machine,
            Some(CodeKind::A32) => Some(Isa::A32),
            Some(CodeKind::T32) => Some(Isa::T32),
            Some(CodeKind::Data) => None,
            None => of_machine.or(executed),
        };
        (isa, end)
    }
}

/// Opcode and length of an instruction in the bytes of an image.
fn opcode_at(code: &Code, isa: Isa, address: u64) -> Option<(u32, u8)> {
    let bytes = code.starting_at(address)?;
    let half = |at: usize| {
        let pair = *bytes.get(at..)?.first_chunk()?;
        Some(if code.big_endian_code { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
    };
    let first = half(0)?;
    let length = isa.length(first);
    let opcode = match (isa, length) {
        (_, 2) => u32::from(first),
        (Isa::T32, _) => u32::from(first) << 16 | u32::from(half(2)?),
        _ if code.big_endian_code => u32::from(first) << 16 | u32::from(half(2)?),
        _ => u32::from(half(2)?) << 16 | u32::from(first),
    };
    Some((opcode, length))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use unspool_analyze::address_counts::AddressCount;
    use unspool_capture::{Region, Spaces};

    use super::*;

    fn image(machine: Machine, bytes: &[u8], executed: &[(u64, Isa, u8)]) -> ImageCounts {
        let regions = vec![Region { address: 0x1000, bytes: bytes.to_vec().into(), spaces: Spaces::ANY }];
        let count = |(address, isa, length): &(u64, Isa, u8)| {
            (*address, AddressCount { isa: *isa, length: *length, executed: 1, ..AddressCount::default() })
        };
        let counts: BTreeMap<u64, AddressCount> = executed.iter().map(count).collect();
        ImageCounts { code: Code { regions, machine: Some(machine), ..Code::default() }, counts }
    }

    fn addresses(layout: &CodeLayout, image: &ImageCounts, end: u64) -> Vec<(u64, u8)> {
        layout.instructions(image, 0x1000..end).iter().map(|one| (one.address, one.length)).collect()
    }

    #[test]
    fn instructions_of_a_function() {
        let marker = |address, kind| CodeMarker { address, kind };
        let none = CodeLayout::default();
        let words = [0_u8; 16];
        // bx lr; a 32-bit instruction; bx lr
        let thumb = [0x70, 0x47, 0x00, 0xf0, 0x00, 0xf8, 0x70, 0x47];
        let a64 = image(Machine::AArch64, &words, &[]);
        assert_eq!(addresses(&none, &a64, 0x1008), [(0x1000, 4), (0x1004, 4)]);
        let pool = CodeLayout { markers: vec![marker(0x1000, CodeKind::Code), marker(0x1008, CodeKind::Data)] };
        assert_eq!(addresses(&pool, &a64, 0x1010), [(0x1000, 4), (0x1004, 4)]);
        let t32 = CodeLayout { markers: vec![marker(0x1000, CodeKind::T32)] };
        let expected = [(0x1000, 2), (0x1002, 4), (0x1006, 2)];
        assert_eq!(addresses(&t32, &image(Machine::Arm, &thumb, &[]), 0x1008), expected);
        // Without mapping symbols, what was executed shows the instruction set.
        assert_eq!(addresses(&none, &image(Machine::Arm, &thumb, &[]), 0x1008), []);
        assert_eq!(addresses(&none, &image(Machine::Arm, &thumb, &[(0x1002, Isa::T32, 4)]), 0x1008), expected);
        // A function that is longer than the image.
        assert_eq!(addresses(&none, &a64, u64::MAX).len(), 4);
    }
}
