//! The verbs, one file each.

pub(crate) mod accesses;
pub(crate) mod annotate;
pub(crate) mod bbv;
pub(crate) mod branches;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod coverage;
pub(crate) mod decode;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod edit;
pub(crate) mod elements;
pub(crate) mod encode;
pub(crate) mod export;
pub(crate) mod find;
mod follow;
pub(crate) mod frames;
pub(crate) mod image;
pub(crate) mod index;
pub(crate) mod info;
pub(crate) mod man;
pub(crate) mod pack;
pub(crate) mod packets;
pub(crate) mod profile;
pub(crate) mod program;
pub(crate) mod query;
#[cfg(unix)]
pub(crate) mod record;
#[cfg(not(unix))]
#[path = "cmd/record_elsewhere.rs"]
pub(crate) mod record;
pub(crate) mod slice;
mod stacks;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod tables;
pub(crate) mod tuples;
pub(crate) mod view;
