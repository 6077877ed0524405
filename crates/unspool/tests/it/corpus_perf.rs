//! perf.data of the corpus: executed ranges and branches, compared with what simpleperf counted.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `perf/`.

use std::collections::BTreeMap;
use std::fs;

use unspool::capture::Capture;
use unspool::coresight::Transactions;
use unspool::flow::{FlowItem, FlowSink, Item, Run};
use unspool::{PresentIds, Program, Trace, Watch};

/// The address at which the program was loaded, which simpleperf subtracts.
const BASE: u64 = 0x58_2b2b_0000;

/// Counts by first and last address of a range, or by source and target of a branch.
type Counts = BTreeMap<(u64, u64), u64>;

#[derive(Default)]
struct Executed {
    ranges: Counts,
    branches: Counts,
    problems: usize,
}

impl FlowSink for Executed {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            let last = range.end() - 4 - BASE;
            *self.ranges.entry((range.start() - BASE, last)).or_default() += 1;
            if range.taken() {
                // simpleperf has no targets of indirect branches.
                let target = range.next().map_or(0, |target| target - BASE);
                *self.branches.entry((last, target)).or_default() += 1;
            }
        }
    }

    fn item(&mut self, item: FlowItem) {
        let is_problem = |item: &Item| matches!(item, Item::Finding(_) | Item::NoCode { .. } | Item::Lost { .. });
        self.problems += usize::from(item.is_ok_and(|item| is_problem(&item.value)));
    }
}

impl Watch for Executed {}

#[test]
fn counts_are_those_of_simpleperf() {
    let Some(folder) = unspool_testing::corpus("perf") else { return };
    let capture = Capture::open(folder.join("perf_etm.data")).unwrap();
    let (program, _) = Program::of(&capture, None, &[]);
    let (mut executed, mut present) = (Executed::default(), PresentIds::default());
    for trace in Trace::all(&capture).iter().filter(|trace| present.may_have(trace)) {
        trace.flow(Transactions::Show, &program, &mut executed).unwrap();
    }
    let [ranges, branches] = simpleperf_counts(&fs::read_to_string(folder.join("perf_inject.data")).unwrap());
    assert_eq!(executed.ranges, ranges);
    assert_eq!(executed.branches, branches);
    assert_eq!(executed.problems, 0);
}

/// The lists of ranges and branches: each a number of lines and the lines, with a list of single addresses between them.
fn simpleperf_counts(text: &str) -> [Counts; 2] {
    let mut lines = text.lines();
    let mut list = |separator: &str| -> Counts {
        let count: usize = lines.next().unwrap().parse().unwrap();
        let hex = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
        let entries = lines.by_ref().take(count).map(|line| {
            let (addresses, count) = line.split_once(':').unwrap();
            let (from, to) = addresses.split_once(separator).unwrap();
            ((hex(from), hex(to)), count.parse().unwrap())
        });
        entries.collect()
    };
    let ranges = list("-");
    assert!(list(":").is_empty());
    [ranges, list("->")]
}
