//! All integration tests of the recorder, in one binary so that they link once.

mod record_runs;
mod record_values;
