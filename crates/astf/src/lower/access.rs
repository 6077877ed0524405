//! Accesses as the format has them, from those that sources report.

//! A log may show a pair in two lines, a block in many, the higher address first, and a modification as a read and a
//! write. The format has one access for adjacent parts within a page, and one that reads and writes.

use unspool_isa::Operation;
use unspool_model::{self as model, Direction};

use super::super::access::{Access, Extent};
use super::opcode_info::{OpcodeInfo, is_range_prefetch};

/// An access does not cross the boundary of the smallest page.
const PAGE: u64 = 1 << 12;

/// Maximum bytes of an access in a record.
const MAX_BYTES: u64 = 256;

/// The access that a step reports.
#[inline]
pub(super) fn from_step(access: &model::Access<'_>, address: u64, opcode: u32, info: &OpcodeInfo) -> Access {
    let (read, write) = match access.direction {
        Direction::Read => (true, false),
        Direction::Write => (false, true),
        Direction::Both => (true, true),
        Direction::Neither => (false, false),
    };
    let is_range = match info.access.operation {
        Operation::Set { .. } | Operation::Copy { .. } => read || write,
        Operation::TlbInvalidateRange => true,
        Operation::Prefetch => is_range_prefetch(opcode) && access.size != 1,
        _ => access.size == 0,
    };
    let extent = match u16::try_from(access.size) {
        Ok(bytes) if !is_range => Extent::Bytes(bytes),
        _ => Extent::Range(access.size),
    };
    Access { address, extent, read, write, tagged: access.is_tagged }
}

/// Merges the parts of one access.
#[inline]
pub(super) fn merge(parts: &mut Vec<Access>, info: &OpcodeInfo) {
    if parts.len() < 2 || info.access.vector {
        return;
    }
    match info.access.operation {
        Operation::LoadStore => {
            join(parts, joined);
            pair(parts);
        }
        Operation::Set { .. } | Operation::Copy { .. } => {
            join(parts, joined_range);
            parts.sort_by_key(|part| part.write);
        }
        operation if operation.is_memory_access() => {
            join(parts, joined);
            if is_descending(parts) {
                parts.sort_by_key(|part| part.address);
            }
        }
        _ => {}
    }
}

/// Joins each part with an earlier one, if they are parts of one access.
fn join(parts: &mut Vec<Access>, joined: fn(&Access, &Access) -> Option<Access>) {
    let mut kept = 0;
    for at in 0..parts.len() {
        let part = parts[at];
        let whole = parts[..kept].iter().enumerate().find_map(|(index, one)| Some((index, joined(one, &part)?)));
        if let Some((index, whole)) = whole {
            parts[index] = whole;
        } else {
            parts[kept] = part;
            kept += 1;
        }
    }
    parts.truncate(kept);
}

/// The lower address of two adjacent accesses, and the bytes of both.
fn side_by_side(one: &Access, other: &Access) -> Option<(u64, u64)> {
    let flags = |access: &Access| (access.read, access.write, access.tagged);
    let end = |access: &Access| access.address.wrapping_add(access.extent.bytes());
    let bytes = one.extent.bytes().checked_add(other.extent.bytes())?;
    match () {
        () if flags(one) != flags(other) => None,
        () if end(one) == other.address => Some((one.address, bytes)),
        () if end(other) == one.address => Some((other.address, bytes)),
        () => None,
    }
}

/// Both in one, within a page.
fn joined(one: &Access, other: &Access) -> Option<Access> {
    let (Extent::Bytes(_), Extent::Bytes(_)) = (one.extent, other.extent) else { return None };
    let (address, bytes) = side_by_side(one, other)?;
    let is_one = bytes <= MAX_BYTES && address / PAGE == address.wrapping_add(bytes - 1) / PAGE;
    let extent = Extent::Bytes(u16::try_from(bytes).ok()?);
    is_one.then_some(Access { address, extent, ..*one })
}

/// Both ranges in one.
fn joined_range(one: &Access, other: &Access) -> Option<Access> {
    let (Extent::Range(_), Extent::Range(_)) = (one.extent, other.extent) else { return None };
    let (address, bytes) = side_by_side(one, other)?;
    Some(Access { address, extent: Extent::Range(bytes), ..*one })
}

/// A read and a write of the same bytes become one modification.
fn pair(parts: &mut Vec<Access>) {
    let mut at = 0;
    while let Some(read) = parts.get(at).copied() {
        let is_written = |other: &Access| *other == Access { read: false, write: true, ..read };
        let write = parts.iter().position(is_written).filter(|_| read.read && !read.write);
        if let Some(write) = write {
            parts[at].write = true;
            parts.remove(write);
            at -= usize::from(write < at);
        }
        at += 1;
    }
}

/// Whether an access ends where the previous one starts.
fn is_descending(parts: &[Access]) -> bool {
    parts.windows(2).any(|two| two[1].address.wrapping_add(two[1].extent.bytes()) == two[0].address)
}

/// The address without the tag in its top byte, where it is known to be a tag: EL0 and EL1 have an upper address range.
#[inline]
pub(super) fn sanitized(address: u64, level: Option<u8>) -> u64 {
    const TOP: u64 = 0xff << 56;
    if address >> 56 == 0 || address >> 55 == 0x1ff {
        return address;
    }
    match address >> 55 & 1 {
        0 => address & !TOP,
        _ if level.is_some_and(|level| level <= 1) => address | TOP,
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::super::opcode_info::OpcodeInfos;
    use super::*;

    /// `r8@1000`: reads 8 bytes there; `w`, `b`, `n` write, do both, do neither; capitals are ranges.
    fn access(text: &str) -> Access {
        let (what, address) = text.split_once('@').unwrap_or_default();
        let (kind, size) = what.split_at(1);
        let size: u16 = size.parse().unwrap_or_default();
        let extent = if kind == kind.to_uppercase() { Extent::Range(size.into()) } else { Extent::Bytes(size) };
        let kind = kind.to_lowercase();
        Access {
            address: u64::from_str_radix(address, 16).unwrap_or_default(),
            extent,
            read: kind == "r" || kind == "b",
            write: kind == "w" || kind == "b",
            tagged: false,
        }
    }

    fn accesses(text: &str) -> Vec<Access> {
        text.split_whitespace().map(access).collect()
    }

    #[test]
    fn parts_become_accesses() {
        const LDP: u32 = 0xa941_53f3;
        const STP: u32 = 0xa900_a3e0;
        const LDADD: u32 = 0xf820_0041;
        const CAS: u32 = 0xc8a1_7c02;
        const ZVA: u32 = 0xd50b_7420;
        const CPYM: u32 = 0x1941_0440;
        const LD1: u32 = 0xa400_4000;
        let rows = [
            ("one", LDP, "r16@1000", "r16@1000"),
            ("a pair in two lines", LDP, "r8@1000 r8@1008", "r16@1000"),
            ("the higher line first", STP, "w8@1000 w8@ff8", "w8@ff8 w8@1000"),
            ("the higher line first, in a page", STP, "w8@1010 w8@1008", "w16@1008"),
            ("across a page", LDP, "r8@ff8 r8@1000", "r8@ff8 r8@1000"),
            ("not side by side", LDP, "r8@100 r8@200", "r8@100 r8@200"),
            ("modified", LDADD, "r8@100 w8@100", "b8@100"),
            ("modified in parts", LDADD, "r4@100 r4@104 w4@100 w4@104", "b8@100"),
            ("compared, and not swapped", CAS, "r8@100", "r8@100"),
            ("a block", ZVA, "w16@100 w16@110 w16@120 w16@130", "w64@100"),
            ("a copy", CPYM, "W8@200 R8@100 R8@108 W8@208", "R16@100 W16@200"),
            ("elements of vectors", LD1, "r1@100 r1@101", "r1@100 r1@101"),
        ];
        for (name, opcode, reported, expected) in rows {
            let mut parts = accesses(reported);
            merge(&mut parts, OpcodeInfos::new().of(opcode));
            assert_eq!(parts, accesses(expected), "{name}");
        }
    }
}
