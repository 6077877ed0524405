//! All integration tests of the recorder, in one binary so that they link once.

mod stream;
mod templates;
mod values;
