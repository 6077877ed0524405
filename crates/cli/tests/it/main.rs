//! All integration tests of the command line, in one binary so that they link once.

mod ambiguous;
mod closed_loop;
mod commands;
mod corpus;
mod corpus_check;
mod corpus_stf;
mod corpus_stf_tools;
#[cfg(unix)]
mod documents;
mod exports;
mod gcov;
mod line_profiles;
mod placement;
mod profile_exports;
mod profiles;
#[cfg(target_os = "linux")]
mod programs;
mod queries;
mod record;
mod record_crash;
mod record_linux;
mod record_registers;
mod record_system;
mod run;
mod schema;
mod vcd;
