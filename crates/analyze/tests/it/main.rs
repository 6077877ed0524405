//! All integration tests of the analyses, in one binary so that they link once.

mod calls;
mod check;
mod diff;
mod join;
mod stats;
