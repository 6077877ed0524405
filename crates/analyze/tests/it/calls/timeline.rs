//! Calls as beginnings and ends, and marks of cores.

use std::io::Cursor;
use std::ops::Range;

use unspool_analyze::calls::{Call, CallSink, Tracker};
use unspool_analyze::marks::{Mark, Marks};
use unspool_analyze::tree::{Forest, TreeEvent, TreeSelection};

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

#[test]
fn beginnings_and_ends() {
    let all = TreeSelection::default();
    let rows: [(&str, TreeSelection, &str); 6] = [
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
            TreeSelection { times: Some(20..31), ..all.clone() },
            "0+1000@20 1+2000@20 2+3000@25 -3000@25 -2000@30 -1000@31",
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
