//! Calls as beginnings and ends, and marks of cores.

use std::io::Cursor;
use std::ops::Range;

use unspool_analyze::calls::{Call, CallSink, Span, Tracker};
use unspool_analyze::marks::{Mark, Marks};
use unspool_analyze::tree::{Forest, TreeEvent, TreePart, TreeSelection};

use super::{steps, story};

const STORY: &str = "1000 bl sp=100 time=0
    2000 bl time=10
    3000 ret time=11
    2004 bl time=20
    3000 ret time=25
    2008 ret time=30
    1004 bl time=31
    3000 nop time=32";

/// `+` and `-` with the function, and the time.
fn events(selection: &TreeSelection) -> String {
    let mut forest = Forest::new(Cursor::new(Vec::new()));
    story::calls(&story::instructions(STORY)).iter().for_each(|call| forest.ended(0, call));
    assert_eq!(forest.calls(), 5);
    let mut text = Vec::new();
    let take = |event: TreeEvent<'_>| {
        text.push(match event {
            TreeEvent::Begin(depth, call) => format!("{depth}+{:x}@{}", call.function, call.entry.time),
            TreeEvent::End(call) => format!("-{:x}@{}", call.function, call.exit.time),
        });
        Ok(())
    };
    forest.each_event(0, selection, take).unwrap();
    text.join(" ")
}

/// A part of the story: these times, or these instructions.
fn part(times: Option<Range<u64>>, numbers: Range<u64>) -> TreePart {
    let at = [0, 10, 11, 20, 25, 30, 31, 32];
    let limits = (at[numbers.start as usize], at[numbers.end as usize - 1]);
    TreePart { is_of_instructions: times.is_none(), times, span: Some(Span { numbers, times: limits }) }
}

/// Every instruction of a part is one of the own cost of a call, and so is the time from its start to its end.
#[test]
fn own_costs_of_a_part() {
    let mut forest = Forest::new(Cursor::new(Vec::new()));
    story::calls(&story::instructions(STORY)).iter().for_each(|call| forest.ended(0, call));
    let mut own = |part: TreePart| {
        let (selection, mut found) = (TreeSelection { part: Some(part), ..TreeSelection::default() }, Vec::new());
        let take = |event: TreeEvent<'_>| {
            if let TreeEvent::End(call) = event {
                found.push((call.function, call.own.instructions, call.own.time));
            }
            Ok(())
        };
        forest.each_event(0, &selection, take).unwrap();
        found
    };
    // At 10 in 2000, at 11 in 3000, at 20 in 2000 again, at 25 in 3000.
    assert_eq!(own(part(None, 1..5)), [(0x3000, 1, 0), (0x3000, 1, 0), (0x2000, 2, 15), (0x1000, 0, 0)]);
    assert_eq!(own(part(Some(20..31), 3..6)), [(0x3000, 1, 0), (0x2000, 2, 10), (0x1000, 0, 1)]);
}

#[test]
fn beginnings_and_ends() {
    let all = TreeSelection::default();
    let rows: [(&str, TreeSelection, &str); 7] = [
        (
            "all",
            all.clone(),
            "0+1000@0 1+2000@10 2+3000@11 -3000@11 2+3000@25 -3000@25 -2000@30 1+3000@32 -3000@32 -1000@32",
        ),
        ("depth", TreeSelection { depth: Some(0), ..all.clone() }, "0+1000@0 -1000@32"),
        (
            "a function with what it calls",
            TreeSelection { functions: vec![Range { start: 0x2000, end: 0x2010 }], ..all.clone() },
            "0+2000@10 1+3000@11 -3000@11 1+3000@25 -3000@25 -2000@30",
        ),
        (
            "the depth is that within the function",
            TreeSelection { functions: vec![Range { start: 0x3000, end: 0x3004 }], depth: Some(0), ..all.clone() },
            "0+3000@11 -3000@11 0+3000@25 -3000@25 0+3000@32 -3000@32",
        ),
        (
            "complete calls",
            TreeSelection { is_complete_only: true, ..all.clone() },
            "0+1000@0 1+2000@10 2+3000@11 -3000@11 2+3000@25 -3000@25 -2000@30 -1000@32",
        ),
        (
            "a part of the time, at which calls are cut off",
            TreeSelection { part: Some(part(Some(20..31), 3..6)), ..all.clone() },
            "0+1000@20 1+2000@20 2+3000@25 -3000@25 -2000@30 -1000@31",
        ),
        (
            "some instructions, at whose times calls are cut off",
            TreeSelection { part: Some(part(None, 1..3)), ..all.clone() },
            "0+1000@10 1+2000@10 2+3000@11 -3000@11 -2000@11 -1000@11",
        ),
    ];
    for (name, selection, expected) in rows {
        assert_eq!(events(&selection), expected, "{name}");
    }
}

/// Two threads take turns; each instruction of a thread is one of the core.
#[test]
fn marks_of_cores() {
    let steps = steps::parse(
        "thread 1; 1000 nop; 1004 nop; thread 2; 5000 nop; exception; 8000 nop; eret; gap; thread 1; 1008 nop",
    );
    let mut tracker = Tracker::new(Marks::new(|_: usize, _: &Call| {}, Cursor::new(Vec::new())));
    steps.iter().for_each(|step| tracker.step(step));
    let mut marks = tracker.finish();
    let mut found = Vec::new();
    let take = |mark: &Mark| {
        found
            .push(format!("{} {:?} {} {}", mark.kind.name(), mark.stack, mark.at.number, mark.text).trim().to_string());
        Ok(())
    };
    marks.each(take).unwrap();
    let expected = [
        "switch Some(0) 0",
        "switch Some(1) 2",
        "exception None 3",
        "exception return None 4",
        "gap None 4 tracing starts",
        "switch Some(0) 4",
    ];
    assert_eq!(found, expected);
    let numbers = [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)].map(|(stack, number)| marks.numbers.of(stack, number));
    assert_eq!(numbers, [1, 2, 5, 3, 4]);
}
