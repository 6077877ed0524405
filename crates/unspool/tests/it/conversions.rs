//! `docs/conversions.md` lists the conversions that the code has.

use unspool::convert::{ConversionPlan, Format, Origin, plan, table};
use unspool::model::Loss;

const HEAD: &str = "\
# Conversions

What a conversion from one format to another carries over. Within a format, records are copied byte for byte. Between
formats, a trace is converted step by step: facts that both formats can express are carried over; lost facts are counted
and reported with their first position, and `--deny-loss` makes them an error; a trace that the target could only
misrepresent is refused, with the position and a remedy. Nothing is invented: an unknown byte of data stays unknown.

Facts can be lost at either end, and the report distinguishes them:

- *Steps have no field for it* (`\"by\":\"source\"` in JSON). The source has the fact, and the steps between the formats
  do not carry it: of a Tarmac log, AArch32 modes (a step has only the level), physical addresses, memory attributes,
  flags, labels and line numbers; of a capture with timestamps, its cycle counts. It is lost for every target, even for
  one that could express it. `diff` reports it too, as not compared.
- *The target has no field for it* (`\"by\":\"target\"`). A step carries the fact, and the format that is written cannot
  express it.

Lines of a log that cannot be read (`unreadable`) are lost as well, with unknown contents: the other lines are
converted, the number of unreadable lines and the first of them are reported, and the exit code is 1, as for `diff`,
`check` and `stats`.

A log that calls a load a write (gem5: `MW16` for LDP) is corrected, since the opcode decides: the access is a read. One
warning has the number of such lines and the first, and `--strict` rejects the log. gem5 has 64 bits of data for any
access; the rest of a wider one is unknown.

STF has content after every access, so accesses without data are lost in it. It has no numbers for Arm exceptions, so
these are no events.

`--split` writes one file per range without a gap, for formats that have no gaps.

STF and Tarmac written by unspool carry other facts without a record or line of their own in comments, which other tools
ignore and unspool reads back. The steps of a capture with both timestamps and cycle counts have timestamps, and no
cycle counts.

The names in the fourth column are those of the loss report. A test writes this text:
`UPDATE=1 cargo test -p unspool --test it conversions`.

";

#[test]
fn document_is_up_to_date() {
    let how = "cargo test -p unspool --test it conversions";
    unspool_testing::assert_document("docs/conversions.md", &(HEAD.to_string() + &table() + "\n" + &losses()), how);
}

/// Table of losses, by name.
fn losses() -> String {
    let rows: Vec<String> =
        Loss::ALL.iter().map(|loss| format!("| `{}` | {} |\n", loss.name(), loss.words())).collect();
    format!("| loss | what is lost |\n|---|---|\n{}", rows.concat())
}

#[test]
fn every_other_pair_has_a_plan() {
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
