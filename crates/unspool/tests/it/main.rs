//! All integration tests of the library, in one binary so that they link once.

mod arrows;
mod breaks;
mod capture_steps;
mod conversions;
mod corpus;
mod corpus_calls;
mod corpus_diff;
mod corpus_flips;
mod corpus_flow;
mod corpus_slice;
mod encode;
mod format_steps;
mod hello;
mod parts;
mod steps;
mod tarmac_calls;
mod transfer;
