//! The verbs, one file each.

pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod decode;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod elements;
pub(crate) mod encode;
pub(crate) mod frames;
pub(crate) mod index;
pub(crate) mod info;
pub(crate) mod man;
pub(crate) mod pack;
pub(crate) mod packets;
pub(crate) mod profile;
pub(crate) mod program;
#[cfg(unix)]
pub(crate) mod record;
#[cfg(not(unix))]
#[path = "cmd/record_elsewhere.rs"]
pub(crate) mod record;
pub(crate) mod slice;
pub(crate) mod state;
pub(crate) mod stats;
