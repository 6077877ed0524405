//! All integration tests of STF, in one binary so that they link once.

mod build;
mod check;
mod container;
mod corpus;
mod corpus_check;
mod corpus_text;
mod gather;
mod lower;
mod records;
mod slice;
mod text;
mod version;
