//! All integration tests of the command line, in one binary so that they link once.

mod closed_loop;
mod commands;
mod corpus;
mod corpus_stf;
mod documents;
mod placement;
mod programs;
mod record;
mod record_crash;
mod record_registers;
mod record_system;
mod run;
mod schema;
