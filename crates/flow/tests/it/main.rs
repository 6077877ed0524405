//! All integration tests of the walk, in one binary so that they link once.

mod etm3;
mod maps;
mod properties;
mod ptm;
mod scenarios;
