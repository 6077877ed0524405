//! All integration tests of ASTF, in one binary so that they link once.

mod builder;
mod check;
mod container;
mod example;
mod flow;
mod lower;
mod millions;
mod slice;
mod support;
mod template;
#[cfg(feature = "text")]
mod text;
