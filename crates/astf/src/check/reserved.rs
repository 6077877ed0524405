//! Reserved bits.

use super::super::layout::Bytes;
use super::super::record::{ExtraEaView, InstructionView, View, xattr_mode};
use super::report::{Report, record_name};
use super::rules::RuleId;

/// The reserved bits of a record, as four little-endian words.
type Mask = [u64; 4];

const HEADER: Mask = [0xffff_0000_0000_0000, !0b11, !0x7f, !0];
const INSTRUCTION: Mask = [0x0001_fc00, 0, 0, 0];
const TRAP: Mask = [0xffff_0000_02c8_ff00, 0, !0, !0];
const EXTRA_EA: Mask = [0xffff_ffff_001f_ff00, 0, 0xffff_ffff_001f_fff8, 0];
const CONTEXT: Mask = [0x0cf8_fff0_ffff_f800, 0, 0, !0];
const STRING: Mask = [0xff00, 0, 0, 0];
const TIMESTAMP: Mask = [0xffff_ffff_ffff_0000, 0, !0, !0];

/// Checks that they are zero.
#[inline]
pub(super) fn check(view: View<'_>, out: &mut Report<'_>) {
    let is_zero = match view {
        View::Instruction(record) => is_instruction_zero(record),
        View::Header(record) => is_zero(record.bytes(), &HEADER),
        View::Trap(record) => is_zero(record.bytes(), &TRAP),
        View::ExtraEa(record) => is_zero(record.bytes(), &EXTRA_EA) && is_second_zero(record),
        View::Context(record) => is_zero(record.bytes(), &CONTEXT),
        View::StringStart(record) => is_zero(record.bytes(), &STRING),
        View::Timestamp(record) => is_zero(record.bytes(), &TIMESTAMP),
        View::StringContinuation(_) | View::Unknown(_) => true,
    };
    if !is_zero {
        out.add(RuleId::ReservedZero, format_args!("{} has reserved bits set", record_name(view)));
    }
}

#[inline]
fn is_zero(bytes: &Bytes, mask: &Mask) -> bool {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().zip(mask).all(|(word, mask)| u64::from_le_bytes(*word) & mask == 0)
}

/// Bits above the eight of an index into ZA are reserved.
#[inline]
fn is_instruction_zero(record: InstructionView<'_>) -> bool {
    let has_index = record.xattr_mode() == xattr_mode::SME;
    is_zero(record.bytes(), &INSTRUCTION) && (!has_index || record.xattr() >> 8 == 0)
}

/// Without a second access and without a range, the second half is reserved.
fn is_second_zero(record: ExtraEaView<'_>) -> bool {
    let is_used = record.mem1_valid() || record.mem1_addr_range();
    let has_flag = record.mem1_tagged() || record.mem1_is_read() || record.mem1_is_write();
    is_used || !(has_flag || record.mem1_size() != 0 || record.mem1_addr() != 0)
}
