//! What every room promises about any bytes, one module a room.
//!
//! Comes in: bytes that a fuzzer or a seed file gives. Goes out: nothing, or a panic that says which promise was
//! broken. The first bytes of an input choose how the room is set up, the rest is what the room reads. The targets in
//! `fuzz_targets` hand bytes to these modules, and so does `replay`, which needs no fuzzer.

pub mod astf;
pub mod code;
pub mod elements;
pub mod encode;
pub mod flow;
pub mod frames;
pub mod ini;
pub mod packets;
pub mod record;
pub mod setup;
pub mod slice;
pub mod steps;
pub mod stf;
pub mod tarmac;
pub mod walk;
pub mod zip;

/// A room's name and its check.
pub type Target = (&'static str, fn(&[u8]));

/// All of them, in the order of the house.
pub const TARGETS: [Target; 14] = [
    ("frames", frames::check),
    ("packets", packets::check),
    ("elements", elements::check),
    ("flow", flow::check),
    ("ini", ini::check),
    ("zip", zip::check),
    ("code", code::check),
    ("astf", astf::check),
    ("stf", stf::check),
    ("tarmac", tarmac::check),
    ("steps", steps::check),
    ("slice", slice::check),
    ("record", record::check),
    ("encode", encode::check),
];
