//! The last line of JSON output: a summary with the version of the schema.
//!
//! Takes the totals of a verb; writes one line. `docs/json.md` describes all lines.

use unspool::model::json::Object;

use crate::output::Output;
use crate::verdict::Verdict;

/// Ends the JSON output of a verb. `clean` is false if the exit code is 1.
pub(crate) fn write_summary(output: &mut Output, verb: &str, verdict: Verdict, totals: impl FnOnce(&mut Object<'_>)) {
    let mut line = String::new();
    let mut object = Object::summary(&mut line, verb);
    totals(&mut object);
    object.flag("clean", matches!(verdict, Verdict::Clean));
    output.write(|out| object.write_line(out));
}
