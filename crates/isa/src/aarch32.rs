//! AArch32: control flow, plain memory accesses, and loads and stores of A32 and T32.

pub(crate) mod a32;
mod access;
pub(crate) mod t32;
mod transfers;

pub(crate) use access::{a32_access, t32_access};
pub(crate) use transfers::{a32_transfers, t32_transfers};
