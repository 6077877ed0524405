//! All integration tests of captures on disk, in one binary so that they link once.

mod captures;
mod corpus;
