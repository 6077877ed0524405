//! The RISC-V extensions that give other meanings to opcodes: Zcmp and Zcmt.
//!
//! Both reuse the encodings of `c.fsdsp`, so that only the list of extensions defines the meaning of such a halfword.

/// The presence of extensions that give other meanings to opcodes.
///
/// ```
/// use unspool_isa::{Isa, RiscvExtensions};
///
/// let extensions = RiscvExtensions::of(b"rv32imac_zicsr_zcmp");
/// assert!(extensions.zcmp && !extensions.zcmt);
/// // cm.push {ra, s0}, -16
/// assert_eq!(extensions.access(Isa::Rv32, 0xb852).bytes, Some(8));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RiscvExtensions {
    /// Pushes, pops, and moves of pairs.
    pub zcmp: bool,
    /// Jumps by a table.
    pub zcmt: bool,
}

impl RiscvExtensions {
    /// The extensions in a list such as `rv32imac_zcmp_zcmt1p0`, in letters of any case.
    ///
    /// With both C and D there is `c.fsdsp`, and so none of them: such a list contradicts itself if it has them.
    pub fn of(list: &[u8]) -> Self {
        let mut parts = list.split(|byte| *byte == b'_');
        let letters = parts.next().unwrap_or_default();
        let letters = letters.get(4..).unwrap_or_default();
        let has_letter = |letter: u8| letters.iter().any(|other| other.eq_ignore_ascii_case(&letter));
        let has = |name: &[u8]| parts.clone().any(|part| is_named(part, name));
        let has_double = (has_letter(b'd') || has_letter(b'g')) && has_letter(b'c') || has(b"zcd");
        Self { zcmp: !has_double && (has(b"zcmp") || has(b"zce")), zcmt: !has_double && (has(b"zcmt") || has(b"zce")) }
    }

    /// Whether these extensions give another meaning to the opcode.
    #[inline]
    pub const fn claims(self, opcode: u32) -> bool {
        (self.zcmp || self.zcmt) && opcode & 0xe003 == 0xa002
    }
}

/// Whether it is the name, or the name and a version.
fn is_named(part: &[u8], name: &[u8]) -> bool {
    match part.split_at_checked(name.len()) {
        Some((start, rest)) => start.eq_ignore_ascii_case(name) && rest.first().is_none_or(u8::is_ascii_digit),
        None => false,
    }
}
