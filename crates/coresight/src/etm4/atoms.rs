//! Atom packets: one header byte each, in six formats.

use crate::Atoms;

/// The packet format (1 to 6) that carries exactly these atoms, if one does.
pub(super) const fn format(atoms: Atoms) -> Option<u8> {
    match (atoms.count() as u8, atoms.bits()) {
        (count @ 1..=3, _) => Some(count),
        (count @ 4..=24, bits) if is_run_of_e(bits, count) => Some(6),
        (4, 0b1110 | 0b0000 | 0b1010 | 0b0101) => Some(4),
        (5, 0b11110 | 0b00000 | 0b01010 | 0b10101) => Some(5),
        _ => None,
    }
}

/// The atoms of a header byte of 0xc0 or more: all of those are atom packets.
#[inline]
pub(super) fn from_header(header: u8) -> Atoms {
    TABLE[(header & 0x3f) as usize]
}

/// The header byte that carries exactly these atoms.
pub(super) fn header(atoms: Atoms) -> Option<u8> {
    format(atoms)?;
    TABLE.iter().position(|&known| known == atoms).map(|index| 0xc0 | index as u8)
}

/// E, E, ... and a last atom that may be either.
const fn is_run_of_e(bits: u32, count: u8) -> bool {
    let all_but_last = (1 << (count - 1)) - 1;
    bits & all_but_last == all_but_last
}

const TABLE: [Atoms; 64] = {
    let mut table = [Atoms::new(0, 0); 64];
    let mut index = 0;
    while index < 64 {
        table[index] = of_header(0xc0 | index as u8);
        index += 1;
    }
    table
};

const fn of_header(header: u8) -> Atoms {
    match header {
        0xf6..=0xf7 => Atoms::new((header & 1) as u32, 1),
        0xd8..=0xdb => Atoms::new((header & 3) as u32, 2),
        0xf8..=0xff => Atoms::new((header & 7) as u32, 3),
        0xdc => Atoms::new(0b1110, 4),
        0xdd => Atoms::new(0b0000, 4),
        0xde => Atoms::new(0b1010, 4),
        0xdf => Atoms::new(0b0101, 4),
        0xf5 => Atoms::new(0b11110, 5),
        0xd5 => Atoms::new(0b00000, 5),
        0xd6 => Atoms::new(0b01010, 5),
        0xd7 => Atoms::new(0b10101, 5),
        _ => {
            let ones = (header & 0x1f) + 3;
            let last = (header >> 5 & 1 == 0) as u32;
            Atoms::new(((1 << ones) - 1) | last << ones, ones + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_atom_header_has_its_atoms_and_the_atoms_their_header() {
        for byte in 0xc0..=0xff {
            assert_eq!(header(from_header(byte)), Some(byte), "{byte:#x}");
        }
    }

    #[test]
    fn no_header_carries_these() {
        for (bits, count) in [(0, 0), (0b0011, 4), (0b0110, 4), (0b01110, 5), (0, 6), (u32::MAX, 25)] {
            assert_eq!(header(Atoms::new(bits, count)), None, "{bits:#b} x {count}");
        }
    }
}
