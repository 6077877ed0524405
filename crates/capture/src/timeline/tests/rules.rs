//! The rules of the document, one row each: its decode procedures forward, and winding back.

use super::*;

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// After each event: what is at an address of process 7.
fn history(log: &str, direction: Direction, address: u64) -> Vec<String> {
    let timeline = timeline(log, direction);
    (0..=timeline.events().len()).map(|position| at(&timeline, 7, position, address)).collect()
}

#[test]
fn procedure_for_process_identifiers() {
    let app = "1 declare_process(START, 7, 0x1000, \"app\")\n";
    let rows: &[(&str, String, u64, &[&str])] = &[
        ("a process adds its program", app.to_string(), 0x1010, &["-", "app+0x10"]),
        ("at no other address", app.to_string(), 0x2000, &["-", "-"]),
        ("a process exists", "1 declare_process(CURRENT, 7, 0x1000, \"app\")".to_string(), 0x1000, &["", "app+0x0"]),
        (
            "a library is added and removed",
            format!("{app}2 declare_library(START, 7, 0x3000, \"lib\")\n3 declare_library(END, 7, 0x3000, \"lib\")"),
            0x3004,
            &["-", "-", "lib+0x4", "-"],
        ),
        (
            "a library exists",
            format!(
                "{app}2 declare_library(CURRENT, 7, 0x3000, \"lib\")\n3 declare_library(CURRENT, 7, 0x3000, \"lib\")"
            ),
            0x3004,
            &["-", "", "lib+0x4", "lib+0x4"],
        ),
        (
            "the address decides what ends, whatever its name",
            format!(
                "{app}2 declare_library(START, 7, 0x3000, \"lib\")\n3 declare_library(END, 7, 0x3000, \"lib.so.1\")"
            ),
            0x3004,
            &["-", "-", "lib+0x4", "-"],
        ),
        (
            "a library in place of another",
            format!("{app}2 declare_library(START, 7, 0x3000, \"a\")\n3 declare_library(START, 7, 0x3000, \"b\")"),
            0x3004,
            &["-", "-", "a+0x4", "b+0x4"],
        ),
        (
            "a patch is over the program",
            format!("{app}2 patch_code(7, 0x1010, 4, hex\"00112233\")"),
            0x1012,
            &["-", "app+0x12", "patch 2+0x2"],
        ),
        ("a patch ends", format!("{app}2 patch_code(7, 0x1010, 4, \"id\")"), 0x1014, &["-", "app+0x14", "app+0x14"]),
        (
            "a patch of nothing",
            format!("{app}2 patch_code(7, 0x1010, 0, None)"),
            0x1010,
            &["-", "app+0x10", "app+0x10"],
        ),
        (
            "a patch ends with its library",
            "1 declare_library(START, 7, 0x3000, \"lib\")\n2 patch_code(7, 0x3000, 4, None)\n\
             3 declare_library(END, 7, 0x3000, \"lib\")"
                .to_string(),
            0x3000,
            &["-", "lib+0x0", "patch 2+0x0", "-"],
        ),
        (
            "a confirmed library keeps its patches",
            "1 declare_library(START, 7, 0x3000, \"lib\")\n2 patch_code(7, 0x3000, 4, None)\n\
             3 declare_library(CURRENT, 7, 0x3000, \"lib\")"
                .to_string(),
            0x3000,
            &["-", "lib+0x0", "patch 2+0x0", "patch 2+0x0"],
        ),
        (
            "memory of an ended process is kept for trace that follows",
            format!("{app}2 declare_process(END, 7, 0x1000, \"app\")\n3 declare_process(START, 7, 0x8000, \"other\")"),
            0x1000,
            &["-", "app+0x0", "app+0x0", "-"],
        ),
        (
            "other processes change nothing",
            format!("{app}2 declare_process(START, 8, 0x1000, \"b\")\n3 declare_process(END, 8, 0x1000, \"b\")"),
            0x1000,
            &["-", "app+0x0", "app+0x0", "app+0x0"],
        ),
        (
            "a new process has the memory of its parent at that time",
            "1 declare_process(START, 5, 0x1000, \"app\")\n2 fork_process(5, 7)\n\
             3 declare_library(START, 5, 0x1000, \"lib\")"
                .to_string(),
            0x1000,
            &["-", "-", "app+0x0", "app+0x0"],
        ),
        ("exec empties memory", format!("{app}2 exec_process(7)"), 0x1000, &["-", "app+0x0", "-"]),
        (
            "a part of a file",
            "1 declare_library(START, 7, 0x3000, \"lib\", \"\", 0x500, 0x10)".to_string(),
            0x3002,
            &["-", "lib+0x502"],
        ),
        (
            "a file over a part of another stays when that ends",
            "1 declare_library(START, 7, 0x3000, \"a\", \"\", 0, 0x100)\n\
             2 declare_library(START, 7, 0x3010, \"b\", \"\", 0, 0x10)\n\
             3 declare_library(END, 7, 0x3000, \"a\", \"\", 0, 0x100)"
                .to_string(),
            0x3010,
            &["-", "a+0x10", "b+0x0", "b+0x0"],
        ),
        (
            "the last byte of memory",
            "1 declare_library(START, 7, 0xfffffffffffffff0, \"a\", \"\", 0, 0x100)".to_string(),
            u64::MAX,
            &["-", "a+0xf"],
        ),
    ];
    for (name, log, address, expected) in rows {
        for direction in BOTH {
            let found = history(log, direction, *address);
            assert_eq!(found.len(), expected.len(), "{name}");
            // An empty expectation is about the time before the first event that names something.
            let expected = expected.iter().zip(&found).map(|(text, found)| if text.is_empty() { found } else { *text });
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}");
        }
    }
}

/// Name, log, address, what is there after each event, and what was inferred.
type Row<'a> = (&'a str, &'a str, u64, &'a [&'a str], &'a [Inference]);

#[test]
fn winding_back() {
    let rows: &[Row<'_>] = &[
        (
            "an end shows what was there before",
            "1 declare_library(END, 7, 0x3000, \"lib\")\n2 exec_process(7)",
            0x3000,
            &["lib+0x0", "-", "-"],
            &[Inference::EndWithoutStart, Inference::UndeclaredProcess],
        ),
        (
            "the end of a process shows its program",
            "1 exec_process(1)\n2 declare_process(END, 7, 0x3000, \"app\")",
            0x3000,
            &["app+0x0", "app+0x0", "app+0x0"],
            &[Inference::UndeclaredProcess, Inference::EndWithoutStart],
        ),
        (
            "a snapshot at the end shows what was there before",
            "1 declare_thread(START, 9, 7)\n2 exec_process(1)\n3 declare_process(CURRENT, 7, 0x3000, \"app\")",
            0x3000,
            &["app+0x0", "app+0x0", "app+0x0", "app+0x0"],
            &[Inference::UndeclaredProcess, Inference::CurrentWithoutStart],
        ),
        (
            "a snapshot at the start is no inference",
            "1 declare_process(CURRENT, 7, 0x3000, \"app\")\n2 declare_library(CURRENT, 7, 0x9000, \"lib\")",
            0x9000,
            &["lib+0x0", "lib+0x0", "lib+0x0"],
            &[],
        ),
        (
            "not before a start of the process",
            "1 declare_process(START, 7, 0x1000, \"app\")\n2 declare_library(CURRENT, 7, 0x3000, \"lib\")",
            0x3000,
            &["-", "lib+0x0", "lib+0x0"],
            &[Inference::CurrentWithoutStart],
        ),
        (
            "not before a start of the mapping",
            "1 declare_library(START, 7, 0x3000, \"lib\")\n2 declare_library(CURRENT, 7, 0x3000, \"lib\")",
            0x3000,
            &["-", "lib+0x0", "lib+0x0"],
            &[Inference::UndeclaredProcess],
        ),
        (
            "since the end of another mapping",
            "1 declare_library(START, 7, 0x3000, \"a\", \"\", 0, 16)\n2 declare_library(END, 7, 0x3000, \"a\", \"\", 0, 16)\n\
             3 declare_library(CURRENT, 7, 0x3000, \"b\")",
            0x3000,
            &["-", "a+0x0", "b+0x0", "b+0x0"],
            &[Inference::UndeclaredProcess, Inference::CurrentWithoutStart],
        ),
        (
            "not while another mapping is there",
            "1 declare_library(START, 7, 0x3000, \"a\", \"\", 0, 16)\n2 declare_library(CURRENT, 7, 0x3000, \"b\")",
            0x3000,
            &["-", "a+0x0", "b+0x0"],
            &[Inference::UndeclaredProcess, Inference::CurrentWithoutStart],
        ),
        (
            "one mapping after the other, of which only the ends are known",
            "1 declare_library(END, 7, 0x3000, \"a\")\n2 declare_library(END, 7, 0x3000, \"b\")\n\
             3 declare_library(CURRENT, 7, 0x3000, \"c\")",
            0x3000,
            &["a+0x0", "b+0x0", "c+0x0", "c+0x0"],
            &[
                Inference::EndWithoutStart,
                Inference::UndeclaredProcess,
                Inference::EndWithoutStart,
                Inference::CurrentWithoutStart,
            ],
        ),
        (
            "a process since the end of another one with its number",
            "1 declare_process(END, 7, 0x3000, \"a\")\n2 exec_process(1)\n3 declare_process(CURRENT, 7, 0x3000, \"b\")",
            0x3000,
            &["a+0x0", "b+0x0", "b+0x0", "b+0x0"],
            &[
                Inference::EndWithoutStart,
                Inference::UndeclaredProcess,
                Inference::ReusedWithoutStart,
                Inference::CurrentWithoutStart,
            ],
        ),
        (
            "not before the end of a library that either process may have had",
            "1 declare_process(END, 7, 0x1000, \"a\")\n2 declare_library(END, 7, 0x3000, \"lib\")\n\
             3 declare_process(CURRENT, 7, 0x1000, \"b\")\n4 declare_library(CURRENT, 7, 0x3000, \"other\")",
            0x3000,
            &["lib+0x0", "-", "other+0x0", "other+0x0", "other+0x0"],
            &[
                Inference::EndWithoutStart,
                Inference::EndWithoutStart,
                Inference::ReusedWithoutStart,
                Inference::CurrentWithoutStart,
                Inference::CurrentWithoutStart,
            ],
        ),
        (
            "beside another mapping",
            "1 declare_library(START, 7, 0x3000, \"a\", \"\", 0, 16)\n2 declare_library(END, 7, 0x3000, \"a\", \"\", 0, 16)\n\
             3 declare_library(CURRENT, 7, 0x3000, \"b\")",
            0x3010,
            &["b+0x10", "b+0x10", "b+0x10", "b+0x10"],
            &[Inference::UndeclaredProcess, Inference::CurrentWithoutStart],
        ),
        (
            "under the patches of the time in between",
            "1 patch_code(7, 0x3000, 4, None)\n2 declare_library(CURRENT, 7, 0x3000, \"lib\")\n\
             3 declare_library(END, 7, 0x3000, \"lib\")",
            0x3000,
            &["lib+0x0", "patch 1+0x0", "patch 1+0x0", "-"],
            &[Inference::UndeclaredProcess, Inference::CurrentWithoutStart],
        ),
        (
            "a new process with what its parent must have had",
            "1 fork_process(5, 7)\n2 declare_library(END, 5, 0x3000, \"lib\")",
            0x3000,
            &["-", "lib+0x0", "lib+0x0"],
            &[Inference::UndeclaredProcess, Inference::EndWithoutStart],
        ),
        (
            "under patches that a new process has from its parent",
            "1 patch_code(5, 0x3000, 4, None)\n2 fork_process(5, 7)\n3 declare_library(END, 7, 0x3000, \"lib\")",
            0x3000,
            &["-", "-", "patch 1+0x0", "-"],
            &[Inference::UndeclaredProcess, Inference::EndWithoutStart],
        ),
        (
            "a number in use starts again",
            "1 declare_process(START, 7, 0x3000, \"a\")\n2 declare_process(START, 7, 0x4000, \"b\")",
            0x3000,
            &["-", "a+0x0", "-"],
            &[Inference::StartWithoutEnd],
        ),
        (
            "a number is in use after its end",
            "1 declare_process(START, 7, 0x3000, \"a\")\n2 declare_process(END, 7, 0x3000, \"a\")\n\
             3 declare_library(START, 7, 0x4000, \"b\")",
            0x3000,
            &["-", "a+0x0", "a+0x0", "-"],
            &[Inference::ReusedWithoutStart],
        ),
        (
            "libraries may end after their process",
            "1 declare_process(END, 7, 0x1000, \"a\")\n2 declare_library(END, 7, 0x3000, \"lib\")",
            0x3000,
            &["lib+0x0", "lib+0x0", "lib+0x0"],
            &[Inference::EndWithoutStart, Inference::EndWithoutStart],
        ),
    ];
    for (name, log, address, expected, inferred) in rows {
        assert_eq!(history(log, Direction::Backward, *address), *expected, "{name}");
        let found: Vec<Inference> =
            timeline(log, Direction::Backward).inferred().iter().map(|inferred| inferred.what).collect();
        assert_eq!(found, *inferred, "{name}");
    }
}

#[test]
fn forward_knows_nothing_of_later_events() {
    let log = "1 declare_library(CURRENT, 7, 0x3000, \"lib\")\n2 declare_library(END, 7, 0x4000, \"b\")";
    assert_eq!(history(log, Direction::Forward, 0x3000), ["-", "lib+0x0", "lib+0x0"]);
    assert_eq!(history(log, Direction::Forward, 0x4000), ["-", "-", "-"]);
}

#[test]
fn inferences_have_the_line() {
    let timeline = timeline("# log\n5 exec_process(7)\n3 declare_asid(END, 1, 7)", Direction::Backward);
    let places: Vec<(usize, u64, Inference)> =
        timeline.inferred().iter().map(|inferred| (inferred.event, inferred.place, inferred.what)).collect();
    assert_eq!(places, [(0, 3, Inference::EndWithoutStart), (1, 2, Inference::UndeclaredProcess)]);
}

#[test]
fn events_are_in_order_of_time_and_those_without_keep_their_position() {
    let log = "- exec_process(1)\n30 exec_process(2)\n- exec_process(3)\n10 exec_process(4)\n- exec_process(5)\n30 exec_process(6)";
    let timeline = timeline(log, Direction::Forward);
    let order: Vec<u64> = timeline.events().iter().map(|event| event.place).collect();
    assert_eq!(order, [1, 4, 5, 2, 3, 6]);
    let positions = [0, 9, 10, 29, 30, 31].map(|time| timeline.position(time));
    assert_eq!(positions, [1, 1, 3, 3, 6, 6]);
}

#[test]
fn windows() {
    let log = "10 declare_process(START, 7, 0x1000, \"app\")\n20 declare_library(START, 7, 0x3000, \"lib\")\n\
               30 patch_code(7, 0x1000, 4, None)\n40 declare_library(END, 7, 0x3000, \"lib\")";
    let timeline = timeline(log, Direction::Forward);
    let rows: &[(&str, u64, u64, u64, &str)] = &[
        ("before an addition", 12, 19, 0x3000, "-"),
        ("an addition counts from the start of its window", 15, 25, 0x3000, "lib+0x0"),
        ("at its end", 15, 20, 0x3000, "lib+0x0"),
        ("a window that starts with it", 20, 25, 0x3000, "lib+0x0"),
        ("a removal counts from the end of its window", 35, 45, 0x3000, "lib+0x0"),
        ("after it", 40, 45, 0x3000, "-"),
        ("a replacement is doubtful", 25, 35, 0x1000, "app+0x0 or patch 3+0x0"),
        ("before", 22, 29, 0x1000, "app+0x0"),
        ("after", 30, 35, 0x1000, "patch 3+0x0"),
        ("beside it", 25, 35, 0x1004, "app+0x4"),
        ("all at once", 0, 100, 0x1000, "app+0x0 or patch 3+0x0"),
    ];
    for (name, from, until, address, expected) in rows {
        let view = timeline.version_within(7, timeline.position(*from), timeline.position(*until));
        assert_eq!(text(&timeline, timeline.lookup(7, view, *address)), *expected, "{name}");
    }
    assert_eq!(timeline.last_version(7), 4);
    assert_eq!(
        (0..6).map(|version| timeline.position_of(7, version)).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2), Some(3), Some(4), None]
    );
}

#[test]
fn the_kernel_is_in_every_process() {
    let log = "1 declare_process(CURRENT, 0, 0xffff800000000000, \"vmlinux\")\n2 declare_process(START, 7, 0x1000, \"app\")\n\
               3 declare_library(START, 0, 0x9000, \"low\")\n4 patch_code(0, 0xffff800000000000, 4, None)\n\
               5 declare_library(START, 7, 0xffff800000000000, \"odd\")";
    let timeline = timeline(log, Direction::Forward);
    let lookup = |with: Option<Pid>, kernel: Version, address: u64| {
        let process = with.map(|pid| (pid, timeline.last_version(pid).into()));
        text(&timeline, timeline.lookup_with_kernel(process, kernel.into(), address))
    };
    assert_eq!(timeline.last_version(KERNEL), 3);
    let rows: &[(Option<Pid>, Version, u64, &str)] = &[
        (Some(7), 3, 0x1000, "app+0x0"),
        (None, 3, 0x1000, "-"),
        (Some(7), 1, 0xffff_8000_0000_0000, "vmlinux+0x0"),
        (Some(7), 3, 0xffff_8000_0000_0000, "patch 4+0x0"),
        (None, 3, 0xffff_8000_0000_0000, "patch 4+0x0"),
        (Some(7), 3, 0x9000, "low+0x0"),
        (Some(7), 1, 0x9000, "-"),
        (Some(99), 3, 0x9000, "low+0x0"),
    ];
    for (process, kernel, address, expected) in rows {
        assert_eq!(lookup(*process, *kernel, *address), *expected, "{process:?} {kernel} {address:#x}");
    }
}

#[test]
fn processes_agree_or_not() {
    let log = "1 declare_process(START, 1, 0x1000, \"app\")\n2 declare_process(START, 2, 0x1000, \"app\")\n\
               3 declare_library(START, 1, 0x3000, \"a\")\n4 declare_library(START, 2, 0x3800, \"b\")\n\
               5 patch_code(1, 0x1000, 4, hex\"00000000\")\n6 patch_code(2, 0x1000, 4, hex\"00000000\")\n\
               7 patch_code(2, 0x1000, 4, None)\n8 declare_process(END, 2, 0x1000, \"app\")";
    let timeline = timeline(log, Direction::Forward);
    let rows: &[(usize, u64, &str)] = &[
        (1, 0x1000, "app+0x0"),
        (2, 0x1000, "app+0x0"),
        (5, 0x1000, "patch 5+0x0 or app+0x0"),
        (6, 0x1000, "patch 5+0x0"),
        (7, 0x1000, "patch 5+0x0 or patch 7+0x0"),
        (8, 0x1000, "patch 5+0x0"),
        (4, 0x3000, "a+0x0"),
        (4, 0x3800, "a+0x800 or b+0x0"),
        (4, 0x4000, "b+0x800"),
        (4, 0x5000, "-"),
    ];
    for (position, address, expected) in rows {
        let found = timeline.lookup_in_any(*position, *position, *address);
        assert_eq!(text(&timeline, found), *expected, "{position} {address:#x}");
        assert_eq!(timeline.is_ambiguous(*position, *address), expected.contains(" or "));
    }
    let hit = timeline.lookup_in_any(4, 4, 0x3000).certain().unwrap();
    assert_eq!(hit.left, 0x800, "the other process has another library from here on");
}

#[test]
fn configurations_of_trace_units() {
    let log = "10 define_trace(END, 0x10, ETM_0)\n10 define_trace(START, 0x11, ETM_0, ETMCR=1)\n20 define_trace(CURRENT, 0x20, ETM_1, ETMCR=2)\n\
               30 define_trace(END, 0x11, ETM_0)\n30 define_trace(START, 0x12, ETM_0, ETMCR=3)\n40 define_trace(START, 0x21, ETM_1)";
    let list = |direction| -> Vec<String> {
        let text = |found: &TraceConfiguration| {
            let registers: Vec<String> =
                found.registers.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let times = (found.start.unwrap_or(0), found.end.unwrap_or(0), found.from, found.until.unwrap_or(0));
            format!("{} {:#x} {registers:?} {times:?}", found.source, found.id)
        };
        timeline(log, direction).configurations().iter().map(text).collect()
    };
    let expected = [
        "ETM_0 0x10 [] (0, 10, 0, 1)",
        "ETM_0 0x11 [\"ETMCR=1\"] (10, 30, 2, 4)",
        "ETM_1 0x20 [\"ETMCR=2\"] (0, 40, 0, 6)",
        "ETM_0 0x12 [\"ETMCR=3\"] (30, 0, 5, 0)",
        "ETM_1 0x21 [] (40, 0, 6, 0)",
    ];
    assert_eq!(list(Direction::Backward), expected);
    let forward = list(Direction::Forward);
    assert_eq!(forward.len(), 4);
    assert_eq!(forward[1], "ETM_1 0x20 [\"ETMCR=2\"] (0, 40, 3, 6)");
}

#[test]
fn code_that_is_only_added_is_not_removed() {
    let log = "10 declare_process(START, 7, 0x1000, \"a\")\n20 declare_library(START, 7, 0x9000, \"b\")\n\
               30 patch_code(7, 0x1000, 4, None)\n40 declare_library(START, 7, 0x20000, \"c\")\n50 exec_process(7)";
    let timeline = timeline(log, Direction::Forward);
    let rows =
        [((0, 10), false), ((0, 20), false), ((10, 30), true), ((30, 40), false), ((40, 50), true), ((5, 5), false)];
    for ((before, after), expected) in rows {
        let view = timeline.version_within(7, timeline.position(before), timeline.position(after));
        assert_eq!(timeline.removes_code(7, view), expected, "{before} to {after}");
    }
    assert!(!timeline.removes_code(8, View { first: 0, last: 9 }), "a process without events");
}
