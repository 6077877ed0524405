//! Integration tests of STF, in one binary so that they link once.

#![allow(clippy::unwrap_used, clippy::panic)]

mod build;
mod check;
mod container;
mod corpus;
mod corpus_check;
mod corpus_text;
mod fixtures;
mod gather;
mod lower;
mod records;
mod slice;
mod text;
mod version;
