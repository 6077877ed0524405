//! All integration tests of the command line, in one binary so that they link once.

mod closed_loop;
mod commands;
mod corpus;
mod corpus_check;
mod corpus_stf;
mod programs;
mod record;
mod record_registers;
mod record_system;
mod run;
