//! Memory accesses of A64, up to Armv9.6.
//!
//! The encoding group selects the file. Most unallocated encodings decode as no access.

mod load_store;
mod simd;
mod sme;
mod sve;
mod system;

use crate::access::Access;
use crate::bits::{field, flag};

/// The memory access of the word.
#[inline]
pub(crate) fn access(word: u32) -> Access {
    match field(word, 25, 4) {
        0b0100 | 0b0110 | 0b1100 | 0b1110 => load_store::access(word),
        0b1010 | 0b1011 => system::access(word),
        0b0010 => sve::access(word),
        0b0000 if flag(word, 31) => sme::access(word),
        _ => Access::NOTHING,
    }
}
