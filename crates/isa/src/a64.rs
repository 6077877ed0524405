//! A64: control flow, memory accesses, destination registers and classes.
//!
//! word ─▶ control flow, access, destinations, classes: one file each
//!
//! Specification: Arm DDI 0487, "A64 Instruction Set Encoding", and DDI 0616 for SME.

mod access;
mod branches;
mod classes;
mod destinations;

pub(crate) use access::access;
pub(crate) use branches::decode;
pub use branches::is_a64_branch_or_system;
pub(crate) use classes::classes;
pub(crate) use destinations::destinations;

/// The immediate of SVC, HVC, SMC, BRK, HLT and DCPS of A64.
#[inline]
pub const fn call_number(word: u32) -> u16 {
    (word >> 5) as u16
}
