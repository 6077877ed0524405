//! Offset of a function from the start of the code of its program, which does not depend on the load address.

use object::elf::PF_X;
use object::{File, Object, ObjectSegment, ObjectSymbol, SegmentFlags};

/// Offset of a function from the first executable byte of an ELF file; `None` if it has no function of that name.
pub(crate) fn offset_of_function(file: &[u8], name: &str) -> Option<u64> {
    let file = File::parse(file).ok()?;
    let is_code = |flags: SegmentFlags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0);
    let start = file.segments().filter(|segment| is_code(segment.flags())).map(|segment| segment.address()).min()?;
    let all = file.symbols().chain(file.dynamic_symbols());
    let mut found = all.filter(|symbol| symbol.is_definition() && symbol.name() == Ok(name));
    let address = found.next()?.address();
    // The lowest bit of the symbol value of a Thumb function is not part of the address.
    let is_thumb = file.architecture() == object::Architecture::Arm;
    Some((if is_thumb { address & !1 } else { address }).wrapping_sub(start))
}
