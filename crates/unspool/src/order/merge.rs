//! Lanes of segments, merged by time.
//!
//! segments of each lane, in its order ─▶ **merge** ─▶ all segments, and the lanes that each overlaps
//!
//! The first of two segments is the one that starts first. So the order of every lane is kept, and a segment that ended
//! before another one started comes before it. A segment that overlaps another in time may have been executed before it,
//! after it, or at the same time. Holds one segment of each lane.

use super::{Segment, TimeWindow};

/// Segments of several lanes by time.
#[derive(Debug)]
pub struct TimeMerge<I, T> {
    lanes: Vec<Lane<I, T>>,
    is_empty: fn(&T) -> bool,
}

/// A segment in the common order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged<T> {
    /// Index of its lane.
    pub lane: usize,
    /// The segment. In a lane, time does not run backward: a window starts no earlier than the one before it.
    pub segment: Segment<T>,
    /// Other lanes with segments that may have been executed before, during or after this one, and that are not empty.
    pub overlaps: Vec<usize>,
}

#[derive(Debug)]
struct Lane<I, T> {
    segments: I,
    head: Option<Segment<T>>,
    /// Start of the last segment that was taken.
    from: Option<u64>,
    /// The window of the last segment that was taken and was not empty.
    last: Option<TimeWindow>,
    /// The latest known end of all of these. A line of text may end after segments that follow it.
    end: Option<u64>,
}

impl<I: Iterator<Item = Segment<T>>, T> TimeMerge<I, T> {
    /// Merges lanes. Empty segments are in the order, and overlap no others.
    pub fn new(lanes: impl IntoIterator<Item = I>, is_empty: fn(&T) -> bool) -> Self {
        let lane = |segments| Lane { segments, head: None, from: None, last: None, end: None };
        let mut lanes: Vec<Lane<I, T>> = lanes.into_iter().map(lane).collect();
        lanes.iter_mut().for_each(Lane::advance);
        Self { lanes, is_empty }
    }

    fn first(&self) -> Option<usize> {
        let key = |window: TimeWindow| (window.from, window.to.unwrap_or(u64::MAX));
        let heads = self.lanes.iter().enumerate();
        let heads = heads.filter_map(|(lane, found)| Some((key(found.head.as_ref()?.window), lane)));
        heads.min().map(|(_, lane)| lane)
    }

    fn overlaps(&self, lane: usize, window: TimeWindow) -> Vec<usize> {
        let is_overlapping = |found: &Lane<I, T>| {
            let next = found.head.as_ref().filter(|head| !(self.is_empty)(&head.contents)).map(|head| head.window);
            // All that was taken from a lane ended before its last segment did, or before the latest end.
            let end = |last: TimeWindow| last.to.map(|to| found.end.map_or(to, |end| end.max(to)));
            let taken = found.last.map(|last| TimeWindow { from: None, to: end(last) });
            [found.last, taken, next].iter().flatten().any(|other| other.overlaps(&window))
        };
        let others = self.lanes.iter().enumerate().filter(|(other, _)| *other != lane);
        others.filter(|(_, found)| is_overlapping(found)).map(|(other, _)| other).collect()
    }
}

impl<I: Iterator<Item = Segment<T>>, T> Iterator for TimeMerge<I, T> {
    type Item = Merged<T>;

    fn next(&mut self) -> Option<Merged<T>> {
        let lane = self.first()?;
        let found = self.lanes.get_mut(lane)?;
        let segment = found.head.take()?;
        found.from = segment.window.from;
        if !(self.is_empty)(&segment.contents) {
            found.last = Some(segment.window);
            found.end = found.end.max(segment.window.to);
        } else if let Some(last) = &mut found.last {
            // It ended before this one did.
            last.to = last.to.or(segment.window.to);
        }
        found.advance();
        let overlaps = self.overlaps(lane, segment.window);
        Some(Merged { lane, segment, overlaps })
    }
}

impl<I: Iterator<Item = Segment<T>>, T> Lane<I, T> {
    fn advance(&mut self) {
        let before = self.from;
        self.head = self.segments.next().map(|mut segment| {
            let TimeWindow { from, to } = segment.window;
            let from = from.max(before);
            segment.window = TimeWindow { from, to: to.map(|to| to.max(from.unwrap_or(0))) };
            segment
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::order::Owner;

    /// Contents of an empty segment.
    const EMPTY: usize = usize::MAX;

    fn segment(from: u64, to: u64, contents: usize) -> Segment<usize> {
        Segment { window: TimeWindow { from: Some(from), to: Some(to) }, owner: Owner::default(), contents }
    }

    fn merged(lanes: &[Vec<Segment<usize>>]) -> Vec<Merged<usize>> {
        TimeMerge::new(lanes.iter().map(|lane| lane.iter().cloned()), |&contents| contents == EMPTY).collect()
    }

    #[test]
    fn segments_are_in_order_of_time() {
        let lanes = [
            vec![segment(0, 10, 0), segment(10, 20, 1), segment(20, 30, 2)],
            vec![segment(5, 8, 3), segment(25, 40, 4)],
            vec![Segment { window: TimeWindow::default(), owner: Owner::default(), contents: 5 }],
        ];
        let found: Vec<(usize, Vec<usize>)> =
            merged(&lanes).into_iter().map(|merged| (merged.segment.contents, merged.overlaps)).collect();
        let expected =
            [(5, vec![0, 1]), (0, vec![1, 2]), (3, vec![0, 2]), (1, vec![2]), (2, vec![1, 2]), (4, vec![0, 2])];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_segment_may_end_after_those_that_follow_it() {
        let lanes = [vec![segment(10, 40, 0), segment(12, 12, 1)], vec![segment(20, 30, 2), segment(45, 50, 3)]];
        let found: Vec<(usize, Vec<usize>)> =
            merged(&lanes).into_iter().map(|merged| (merged.segment.contents, merged.overlaps)).collect();
        assert_eq!(found, [(0, vec![1]), (1, vec![]), (2, vec![0]), (3, vec![])]);
    }

    #[test]
    fn empty_segments_overlap_nothing() {
        let lanes = [vec![segment(0, 10, 0), segment(10, 20, 1)], vec![segment(0, 12, EMPTY), segment(12, 30, 2)]];
        let found: Vec<(usize, Vec<usize>)> =
            merged(&lanes).into_iter().map(|merged| (merged.segment.contents, merged.overlaps)).collect();
        assert_eq!(found, [(0, vec![]), (EMPTY, vec![0]), (1, vec![1]), (2, vec![0])]);
    }

    #[test]
    fn time_does_not_run_backward_in_a_lane() {
        let lanes = [vec![segment(10, 20, 0), segment(3, 4, 1)], vec![segment(5, 6, 2), segment(11, 12, 3)]];
        let found: Vec<(usize, TimeWindow)> =
            merged(&lanes).into_iter().map(|merged| (merged.segment.contents, merged.segment.window)).collect();
        let window = |from, to| TimeWindow { from: Some(from), to: Some(to) };
        assert_eq!(found, [(2, window(5, 6)), (0, window(10, 20)), (1, window(10, 10)), (3, window(11, 12))]);
    }

    /// Lanes whose windows follow each other, some of unknown time, numbered through.
    fn lanes() -> impl Strategy<Value = Vec<Vec<Segment<usize>>>> {
        let step = (0_u64..4, 0_u64..4, 0_u8..8);
        prop::collection::vec(prop::collection::vec(step, 0..8), 0..5).prop_map(|lanes| {
            let mut number = 0;
            lanes
                .into_iter()
                .map(|steps| {
                    let mut time = 0;
                    steps
                        .into_iter()
                        .map(|(gap, length, unknown)| {
                            let (from, to) = (time + gap, time + gap + length);
                            time = to;
                            number += 1;
                            let mut found = segment(from, to, number);
                            if unknown == 0 {
                                found.window.from = None;
                            }
                            if unknown <= 1 {
                                found.window.to = None;
                            }
                            found
                        })
                        .collect()
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn order_respects_lanes_and_certain_times(lanes in lanes()) {
            let found = merged(&lanes);
            for (index, lane) in lanes.iter().enumerate() {
                let of_lane: Vec<usize> = found
                    .iter()
                    .filter(|merged| merged.lane == index)
                    .map(|merged| merged.segment.contents)
                    .collect();
                let expected: Vec<usize> = lane.iter().map(|segment| segment.contents).collect();
                prop_assert_eq!(of_lane, expected);
            }
            for (index, first) in found.iter().enumerate() {
                for second in &found[index + 1..] {
                    let [one, other] = [first, second].map(|merged| merged.segment.window);
                    let is_reversed = matches!((other.to, one.from), (Some(to), Some(from)) if to < from);
                    prop_assert!(!is_reversed, "{:?} {:?}", first, second);
                    let later = found[index..].iter().filter(|merged| merged.lane == first.lane);
                    let to = later.filter_map(|merged| merged.segment.window.to).min();
                    let one = TimeWindow { to, ..one };
                    // A segment also ended before those after it in its lane.
                    if first.lane != second.lane && one.overlaps(&other) {
                        prop_assert!(second.overlaps.contains(&first.lane), "{:?} {:?}", first, second);
                    }
                }
            }
        }
    }
}
