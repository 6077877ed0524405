//! Integration tests of the analyses, in one binary to link only once.

mod calls;
mod check;
mod diff;
mod join;
mod stats;
