//! All integration tests of the walk, in one binary so that they link once.

mod properties;
mod scenarios;
