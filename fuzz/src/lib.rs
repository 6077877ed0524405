//! Properties that must hold for any bytes, one module per fuzz target.
//!
//! Takes the bytes of a fuzzer or of a seed file. Panics with the property that does not hold. The first bytes of an input
//! select the configuration, the rest is the data to read. The targets in `fuzz_targets` pass bytes to these modules, and so
//! does the example `replay`, which needs no fuzzer.

pub mod astf;
pub mod code;
pub mod elements;
pub mod encode;
pub mod etm3;
pub mod etm4_data;
pub mod events;
pub mod flow;
pub mod frames;
pub mod index;
pub mod ini;
pub mod itm;
pub mod jitdump;
pub mod module;
pub mod packets;
pub mod perf;
pub mod ptm;
pub mod record;
pub mod setup;
pub mod slice;
pub mod steps;
pub mod stf;
pub mod stm;
pub mod tarmac;
pub mod walk;
pub mod zip;

/// Name of a target, and its check.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, in the order of the data flow.
pub const TARGETS: [Target; 24] = [
    ("frames", frames::check),
    ("packets", packets::check),
    ("elements", elements::check),
    ("flow", flow::check),
    ("ptm", ptm::check),
    ("etm3", etm3::check),
    ("etm4_data", etm4_data::check),
    ("itm", itm::check),
    ("stm", stm::check),
    ("ini", ini::check),
    ("zip", zip::check),
    ("perf", perf::check),
    ("code", code::check),
    ("module", module::check),
    ("jitdump", jitdump::check),
    ("events", events::check),
    ("astf", astf::check),
    ("stf", stf::check),
    ("tarmac", tarmac::check),
    ("steps", steps::check),
    ("slice", slice::check),
    ("index", index::check),
    ("record", record::check),
    ("encode", encode::check),
];
