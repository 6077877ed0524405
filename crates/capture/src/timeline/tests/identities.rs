//! Which process a number stands for.

use super::*;

#[test]
fn procedure_for_threads_and_address_space_identifiers() {
    let log = "1 declare_thread(START, 20, 7)\n2 declare_asid(START, 3, 7)\n3 declare_thread(CURRENT, 21, 7)\n\
               4 declare_asid(END, 3, 7)\n5 declare_asid(START, 3, 8)\n6 declare_thread(END, 20, 7)\n\
               7 declare_thread(START, 20, 8)\n8 declare_running(CURRENT, 0, 20)\n9 declare_running(CURRENT, 0, 21)\n\
               10 declare_process(START, 20, 0, \"app\")";
    let timeline = timeline(log, Direction::Forward);
    let threads = |id: u32| (0..=10).map(|position| timeline.process_of(id, position)).collect::<Vec<_>>();
    assert_eq!(threads(20), [20, 7, 7, 7, 7, 7, 20, 8, 8, 8, 20]);
    assert_eq!(threads(21), [21, 21, 21, 7, 7, 7, 7, 7, 7, 7, 7]);
    let asids: Vec<Option<Pid>> = (0..=6).map(|position| timeline.process_of_asid(3, position)).collect();
    assert_eq!(asids, [None, None, Some(7), Some(7), None, Some(8), Some(8)]);
    assert_eq!([7, 8, 9].map(|position| timeline.thread_on(0, position)), [None, Some(20), Some(21)]);
}

#[test]
fn winding_back() {
    let log = "1 exec_process(1)\n2 declare_thread(END, 20, 7)\n3 declare_asid(CURRENT, 3, 7)\n4 declare_asid(END, 3, 7)\n\
               5 declare_asid(CURRENT, 3, 8)";
    let timeline = timeline(log, Direction::Backward);
    assert_eq!([0, 1, 2].map(|position| timeline.process_of(20, position)), [7, 7, 20]);
    let asids: Vec<Option<Pid>> = (0..=5).map(|position| timeline.process_of_asid(3, position)).collect();
    // Since the end of the other one.
    assert_eq!(asids, [Some(7), Some(7), Some(7), Some(7), Some(8), Some(8)]);
}

#[test]
fn numbers_in_values() {
    use ContextFormat::{Asid, AsidPid, AsidTid, Pid, Tid};
    use ContextWidth::{Bits8, Bits16, Bits32};
    let pid = |number, bits| ContextNumber::Pid { number, bits };
    let tid = |number, bits| ContextNumber::Tid { number, bits };
    let asid = ContextNumber::Asid;
    let rows = [
        (Asid, Bits32, asid(0x78)),
        (Asid, Bits8, asid(0x78)),
        (AsidPid, Bits32, pid(0x12_3456, 24)),
        (AsidPid, Bits16, pid(0x56, 8)),
        (AsidPid, Bits8, asid(0x78)),
        (AsidTid, Bits32, tid(0x12_3456, 24)),
        (AsidTid, Bits8, asid(0x78)),
        (Tid, Bits32, tid(0x1234_5678, 32)),
        (Tid, Bits16, tid(0x5678, 16)),
        (Pid, Bits8, pid(0x78, 8)),
    ];
    for (format, width, expected) in rows {
        assert_eq!(format.number(0x1234_5678, width), expected, "{format:?} {width:?}");
    }
}

const LOG: &str = "1 declare_process(START, 0x107, 0x1000, \"a\")\n2 declare_process(START, 0x207, 0x1000, \"b\")\n\
                   3 declare_thread(START, 0x308, 0x107)\n4 declare_asid(START, 5, 0x107)\n\
                   5 declare_asid(START, 6, 0x207)\n6 declare_process(END, 0x207, 0x1000, \"b\")";

#[test]
fn processes_of_values() {
    use ContextFormat::{Asid, AsidPid, AsidTid, Pid, Tid};
    use ContextProcess::{Ambiguous, Known, Unknown};
    use ContextWidth::{Bits8, Bits16, Bits32};
    let timeline = timeline(LOG, Direction::Forward);
    let rows = [
        (Asid, 5, Bits32, 5, Known(0x107)),
        (Asid, 7, Bits32, 5, Unknown),
        (Asid, 6, Bits8, 4, Unknown),
        (Pid, 0x107, Bits32, 5, Known(0x107)),
        (Pid, 0x107, Bits16, 5, Known(0x107)),
        (Pid, 0x107, Bits8, 5, Ambiguous),
        (Pid, 0x107, Bits8, 1, Known(0x107)),
        (Pid, 0x107, Bits8, 6, Known(0x107)),
        (Pid, 0x207, Bits32, 6, Known(0x207)),
        (Pid, 0x308, Bits32, 5, Unknown),
        (Tid, 0x308, Bits32, 5, Known(0x107)),
        (Tid, 0x308, Bits8, 5, Known(0x107)),
        (Tid, 0x308, Bits32, 2, Unknown),
        (Tid, 0x107, Bits32, 5, Known(0x107)),
        (Tid, 0, Bits32, 5, Known(KERNEL)),
        (AsidPid, 0x10705, Bits32, 5, Known(0x107)),
        (AsidPid, 0x0705, Bits16, 5, Known(0x107)),
        (AsidPid, 0x0706, Bits16, 5, Known(0x207)),
        (AsidPid, 0x0709, Bits16, 5, Ambiguous),
        (AsidPid, 0x05, Bits8, 5, Known(0x107)),
        (AsidTid, 0x30805, Bits32, 5, Known(0x107)),
        (AsidTid, 0x99905, Bits32, 5, Unknown),
    ];
    for (format, value, width, position, expected) in rows {
        let found = timeline.process_of_context(format, value, width, position);
        assert_eq!(found, expected, "{format:?} {value:#x} {width:?} at {position}");
    }
}

#[test]
fn guesses() {
    use ContextFormat::{Asid, AsidPid, AsidTid, Pid, Tid};
    use ContextGuess::{Candidates, Certain};
    use ContextWidth::{Bits8, Bits32};
    let timeline = timeline(LOG, Direction::Forward);
    let rows: Vec<(&[u32], ContextWidth, ContextGuess, Option<ContextFormat>)> = vec![
        (&[0x10705, 0x30805], Bits32, Certain(AsidTid), Some(AsidTid)),
        (&[0x10705, 0x20706, 0], Bits32, Candidates(vec![AsidPid, AsidTid]), Some(AsidTid)),
        (&[0x10705, 0x20705], Bits32, Candidates(vec![]), None),
        (&[5, 6], Bits32, Certain(Asid), Some(Asid)),
        (&[5, 6], Bits8, Certain(Asid), Some(Asid)),
        (&[5, 9], Bits32, Candidates(vec![]), None),
        (&[0x107, 0x308], Bits32, Certain(Tid), Some(Tid)),
        (&[0x107, 0x207], Bits32, Candidates(vec![Tid, Pid]), Some(Tid)),
        (&[0x107, 0x999], Bits32, Candidates(vec![]), None),
        // A thread that was never declared.
        (&[0x107, 0x308, 0x999], Bits32, Certain(Tid), Some(Tid)),
        (&[0x10705, 0x30805, 0x99907], Bits32, Certain(AsidTid), Some(AsidTid)),
        (&[7, 8], Bits8, Certain(Tid), Some(Tid)),
        (&[0, 0], Bits32, Candidates(ContextFormat::ALL.to_vec()), None),
    ];
    for (values, width, expected, format) in rows {
        let guess = timeline.guess_context(values, width);
        assert_eq!(guess, expected, "{values:x?} {width:?}");
        assert_eq!(guess.format(), format, "{values:x?} {width:?}");
    }
}

#[test]
fn values_in_a_window() {
    use ContextProcess::{Ambiguous, Known, Unknown};
    let log = "1 declare_asid(START, 3, 7)\n2 declare_asid(END, 3, 7)\n3 declare_asid(START, 3, 8)\n\
               4 declare_asid(END, 3, 8)\n5 declare_asid(START, 3, 7)";
    let timeline = timeline(log, Direction::Forward);
    let rows =
        [(0, 0, Unknown), (0, 1, Known(7)), (1, 2, Known(7)), (1, 3, Ambiguous), (2, 4, Known(8)), (1, 5, Ambiguous)];
    for (before, after, expected) in rows {
        let found = timeline.process_of_context_within(ContextFormat::Asid, 3, ContextWidth::Bits32, (before, after));
        assert_eq!(found, expected, "{before} to {after}");
    }
}
