//! Shared parts of the tests: skipping, the corpus, external tools, files of the repository, random numbers, and a writer
//! of perf.data files.
//!
//! Only ever a dev-dependency. A test that cannot run here reports it through [`skip`]: one line on the standard error
//! stream, or a failure under `UNSPOOL_STRICT=1`. Depends on no other crate of the workspace.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "only tests call it, and a test stops at what it does not expect"
)]

mod document;
pub mod perf;
mod random;
mod reference;
mod scenario;
mod skip;

use std::path::PathBuf;

pub use document::assert_document;
pub use random::Random;
pub use reference::reference_listing;
pub use scenario::{Scenario, scenarios};
pub use skip::{corpus, note, skip, tool};

/// A path in the repository, relative to its root.
#[must_use]
pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// A capture or trace that is shipped in `examples/`.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    repository("examples").join(name)
}
