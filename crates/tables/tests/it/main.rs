//! All integration tests of the tables, in one binary so that they link once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod corpus;
mod document;
mod expanded;
mod files;
mod sharded;
mod written;
