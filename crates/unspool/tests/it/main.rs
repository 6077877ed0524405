//! All integration tests of the library, in one binary so that they link once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at what it does not expect, and reports its totals"
)]

mod arrows;
mod blocks;
mod breaks;
mod capture_steps;
mod channel_events;
mod check;
mod conversions;
mod corpus;
mod corpus_calls;
mod corpus_diff;
mod corpus_etm3;
mod corpus_flips;
mod corpus_flow;
mod corpus_lost_bytes;
mod corpus_m_profile;
mod corpus_perf;
mod corpus_ptm;
mod corpus_slice;
mod corpus_software;
mod coverage;
mod data_stream;
mod doctor;
mod encode;
mod etm3_data;
mod examples;
mod fixtures;
mod format_steps;
mod hello;
mod identify;
mod lines;
mod machine;
mod open;
mod packages;
mod perf_packets;
mod perf_script;
mod protocol_damage;
mod shards;
mod shards_etm3;
mod steps;
mod tarmac_calls;
mod transfer;
mod words;
