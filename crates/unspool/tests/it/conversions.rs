//! The table of conversions in the documents is the one that the code has.

use unspool::convert::{ConversionPlan, Format, Origin, plan, table};
use unspool::model::Loss;

const HEAD: &str = "\
# Conversions

What becomes of a trace on the way from one format into another. Within a format records stay as they are, byte for byte.
Between formats a trace goes step by step: what both can say is carried over; what is lost is counted and told, with the
first place, and `--deny-loss` makes it an error; what the target could only say untruly is refused, with the place and
what to do. Nothing is invented: an unknown byte of data stays unknown.

Something can be lost at either end, and the report tells which:

- *No step says it* (`\"by\":\"source\"` in JSON). The source has it, and the steps between the formats have no word for it:
  of a Tarmac log modes of AArch32, of which a step has the level only, physical addresses, attributes of memory, flags,
  labels and numbers of lines; of a capture with timestamps its cycle counts. That is lost whatever the target is, also if
  it could say it. `diff` tells it too: it was not compared.
- *The target cannot say it* (`\"by\":\"target\"`). A step said it, and the format that is written has no word for it.

Lines of a log that cannot be read (`unreadable`) are lost as well, and nobody knows what they say: what can be read is
converted, their number and the first of them are told, and the exit code is 1, as it is for `diff`, `check` and `stats`.

STF and Tarmac written by unspool carry what they have no record or line for in comments of ours, which other tools pass
over and unspool reads back. A capture that has both timestamps and cycle counts is told in timestamps; its cycle counts
are not in the steps.

The names in the fourth column are those of the loss report. This text is written by a test:
`UPDATE=1 cargo test -p unspool --test conversions`.

";

#[test]
fn the_document_is_up_to_date() {
    let how = "cargo test -p unspool --test it conversions";
    unspool_testing::assert_document("docs/conversions.md", &(HEAD.to_string() + &table() + "\n" + &losses()), how);
}

/// What the names mean.
fn losses() -> String {
    let rows: Vec<String> =
        Loss::ALL.iter().map(|loss| format!("| `{}` | {} |\n", loss.name(), loss.words())).collect();
    format!("| loss | what is lost |\n|---|---|\n{}", rows.concat())
}

#[test]
fn every_pair_has_a_way() {
    let mut refused = Vec::new();
    for (from, to) in Origin::ALL.into_iter().flat_map(|from| Format::ALL.map(|to| (from, to))) {
        if let ConversionPlan::Refused { why, .. } = plan(from, to) {
            assert!(!why.is_empty());
            refused.push((from, to));
        }
    }
    let expected =
        [(Origin::Capture, Format::Astf), (Origin::StfRiscv, Format::Astf), (Origin::StfRiscv, Format::Tarmac)];
    assert_eq!(refused, expected);
}
