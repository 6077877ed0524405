//! All integration tests of CoreSight protocols, in one binary so that they link once.

mod scenarios;
