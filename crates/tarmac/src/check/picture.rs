//! Checks of memory pictures: alignment, digits and attributes.

use super::super::record::{Byte, Physical, Picture};
use super::findings::FindingSink;
use super::instruction::digits;
use super::rules::RuleId;

const TYPES: [&[u8]; 7] = [b"SO", b"DV", b"NM", b"nGnRnE", b"nGnRE", b"nGRE", b"GRE"];
const SHAREABILITY: [&[u8]; 3] = [b"OSH", b"ISH", b"NSH"];
const SPACES: [&[u8]; 5] = [b"", b"S", b"NS", b"RT", b"RL"];
/// The specification lists RWA; its examples and real logs have WRA.
const CACHES: [&[u8]; 11] =
    [b"NC", b"WTNA", b"WTRA", b"WTWA", b"WTRWA", b"WTWRA", b"WBNA", b"WBRA", b"WBWA", b"WBRWA", b"WBWRA"];

/// Checks a picture. The format rules apply to Rev 3 only.
pub(super) fn check(picture: &Picture<'_>, is_aarch64: Option<bool>, is_rev3: bool, out: &mut FindingSink<'_>) {
    if is_rev3 {
        check_form(picture, is_aarch64, out);
    }
    if picture.bytes.iter().all(|byte| *byte == Byte::Untouched) {
        out.add(RuleId::PictureEmpty, format_args!("no byte is accessed"));
    }
    if let Some(physical) = &picture.physical {
        check_physical(physical, picture.address, out);
    }
    check_attributes(picture.attributes, out);
}

fn check_form(picture: &Picture<'_>, is_aarch64: Option<bool>, out: &mut FindingSink<'_>) {
    let address = picture.address;
    if !address.is_multiple_of(16) {
        out.add(RuleId::PictureAligned, format_args!("the address {address:#x} is not a multiple of 16"));
    }
    let (found, Some(expected)) = (picture.digits, is_aarch64.map(digits)) else { return };
    if found != expected {
        out.add(RuleId::PictureDigits, format_args!("the address has {found} digits, not {expected}"));
    }
}

fn check_physical(physical: &Physical<'_>, virtually: u64, out: &mut FindingSink<'_>) {
    if !SPACES.contains(&physical.space) {
        let shown = String::from_utf8_lossy(physical.space);
        out.add_once_in(physical.space, RuleId::SecureBit, format_args!("the address space {shown} is unknown"));
    }
    let differing = physical.address ^ virtually;
    if differing & 0xf != 0 {
        let address = physical.address;
        out.add(RuleId::PhysicalAligned, format_args!("the physical address {address:#x} has another alignment"));
    } else if let Some(page) = physical.page.filter(|page| (1..64).contains(page))
        && differing & ((1 << page) - 1) != 0
    {
        out.add(RuleId::PageOffset, format_args!("the addresses differ below bit {page}, within their pages"));
    }
}

fn check_attributes(attributes: &[u8], out: &mut FindingSink<'_>) {
    let mut words = attributes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let lists =
        [(&TYPES[..], RuleId::MemoryType, "memory type"), (&SHAREABILITY, RuleId::Shareability, "shareability")];
    for (known, rule, what) in lists {
        let Some(word) = words.next() else { return };
        if !known.contains(&word) {
            let shown = String::from_utf8_lossy(word);
            return out.add_once_in(word, rule, format_args!("the {what} {shown} is unknown"));
        }
    }
    for (word, letter) in words.zip([b'I', b'O', 0]) {
        if !word.split_first().is_some_and(|(first, rest)| *first == letter && CACHES.contains(&rest)) {
            let shown = String::from_utf8_lossy(word);
            return out.add_once_in(word, RuleId::Cacheability, format_args!("the attribute {shown} is unknown here"));
        }
    }
}
