//! AArch32: control flow and plain memory accesses of A32 and T32.

pub(crate) mod a32;
mod access;
pub(crate) mod t32;

pub(crate) use access::{a32_access, t32_access};
