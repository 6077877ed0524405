//! SME: loads and stores of ZA, of ZT0 and of several vectors at once; and the other instructions that index ZA by a
//! register.
//!
//! Specification: Arm DDI 0487, "SME encodings", and DDI 0616.

use super::sve::{VECTOR, predicated, unpredicated};
use crate::access::{Access, direction};
use crate::bits::{field, flag};

/// The access of a word in this group.
pub(super) fn access(word: u32) -> Access {
    match word >> 24 {
        0xa0 | 0xa1 if !flag(word, 23) => many_vectors(word),
        // MOVA and MOVAZ of slices and groups, and ZERO of groups. The rest of these are ZERO of tiles and of ZT0, MOVT,
        // LUTI, ADDHA and ADDVA.
        0xc0 => Access { sme_index: field(word, 19, 2) == 0b00 || field(word, 18, 6) == 0b000_011, ..VECTOR },
        // All that work on groups of vectors of the ZA array; not those that work on Z registers only, such as SEL.
        0xc1 => Access { sme_index: !(flag(word, 21) && flag(word, 15)), ..VECTOR },
        0xe0 => slice(word, field(word, 22, 2)),
        0xe1 if field(word, 22, 2) == 0b11 => slice(word, 4),
        0xe1 => array_or_table(word),
        _ => VECTOR,
    }
}

/// LD1, LDNT1, ST1 and STNT1 of two or four vectors, next to each other or strided. SVE2.1 has them too.
fn many_vectors(word: u32) -> Access {
    let (is_strided, is_of_four) = (flag(word, 24), flag(word, 15));
    let is_free = match (is_strided, is_of_four) {
        (false, true) => flag(word, 1),
        (true, true) => flag(word, 2),
        _ => false,
    };
    let has_odd_offset = flag(word, 22) && flag(word, 20);
    if is_free || has_odd_offset { VECTOR } else { predicated(direction(!flag(word, 21)), field(word, 13, 2)) }
}

/// LD1 and ST1 of a slice of a tile.
fn slice(word: u32, size: u32) -> Access {
    if flag(word, 4) {
        return VECTOR;
    }
    Access { sme_index: true, ..predicated(direction(!flag(word, 21)), size) }
}

/// LDR and STR of a vector of the ZA array, or of ZT0, which is 64 bytes whatever the vector length.
fn array_or_table(word: u32) -> Access {
    let access = unpredicated(direction(!flag(word, 21)), 0);
    match word & 0xffdf_9c10 {
        0xe100_0000 => Access { sme_index: true, ..access },
        0xe11f_8000 if word & 0x0000_600f == 0 => Access { bytes: Some(64), ..access },
        _ => VECTOR,
    }
}
