//! All integration tests of Tarmac, in one binary so that they link once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod check;
mod corpus_check;
mod corpus_parse;
mod corpus_restyle;
mod corpus_state;
mod fixtures;
mod index;
mod lift;
mod lower;
mod parse;
mod read;
mod restyle;
mod slice;
mod state;
mod step_index;
mod write;
