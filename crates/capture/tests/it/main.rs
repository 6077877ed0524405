//! Integration tests of captures on disk, in one binary to link only once.

mod captures;
mod corpus;
mod images;
mod perf;
