//! The log, line by line, and for any text.
#![allow(clippy::unwrap_used)]

use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::event::{Call, Mapping, PatchCode, Placement, State};

fn mapping(image: &str, build_id: &str, placement: Placement) -> Mapping {
    Mapping { image: image.to_string(), build_id: build_id.to_string(), placement }
}

fn read(text: &str) -> SystemLog {
    SystemLog::read(text.as_bytes())
}

#[test]
fn lines() {
    use State::{Current, End, Start};
    let program = mapping("bin/app", "abcd", Placement::Base(0x40_0000));
    let part = Placement::Part { address: 0x7f00_0000, length: 0x1000, offset: 0x2_8000 };
    let patch =
        |length: u64, code: PatchCode| Call::Patch { pid: 312, address: 0x9000, length, code, name: String::new() };
    let registers = |list: &[(&str, u64)]| list.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
    let trace = |state, id, source: &str, list: &[(&str, u64)]| Call::Trace {
        state,
        id,
        source: source.to_string(),
        registers: registers(list),
    };
    let kernel = mapping("kernel.exe", "", Placement::Base(0));
    let rows: &[(&str, Option<u64>, Call)] = &[
        (
            r#"1200 declare_process(START, 312, 0x400000, "bin/app", "abcd")"#,
            Some(1200),
            Call::Process { state: Start, pid: 312, mapping: program.clone() },
        ),
        // The snapshot of the document has neither time nor UUID.
        (
            r#"declare_process(CURRENT, 0, 0x0000, "kernel.exe")"#,
            None,
            Call::Process { state: Current, pid: 0, mapping: kernel.clone() },
        ),
        (
            r#"  -  declare_process ( current ,0,0, "kernel.exe", "" ) # comment"#,
            None,
            Call::Process { state: Current, pid: 0, mapping: kernel },
        ),
        (
            r#"0x4b1 declare_library(END, 312, 0x7f000000, "lib/libm.so", "", 0x28000, 4096)"#,
            Some(1201),
            Call::Library { state: End, pid: 312, mapping: mapping("lib/libm.so", "", part) },
        ),
        (
            r#"1 declare_library(START, 1, 2, "a \"b\" \\ \n\t\r\u{e9} # é", "")"#,
            Some(1),
            Call::Library {
                state: Start, pid: 1, mapping: mapping("a \"b\" \\ \n\t\ré # é", "", Placement::Base(2))
            },
        ),
        ("1 declare_thread(START, 313, 312)", Some(1), Call::Thread { state: Start, tid: 313, pid: 312 }),
        (
            r#"1 patch_code(312, 0x9000, 4, hex"1F2003d5")"#,
            Some(1),
            patch(4, PatchCode::Bytes(vec![0x1f, 0x20, 0x03, 0xd5])),
        ),
        (r#"1 patch_code(312, 0x9000, 0, hex"")"#, Some(1), patch(0, PatchCode::Bytes(Vec::new()))),
        (r#"1 patch_code(312, 0x9000, 64, "jit-17")"#, Some(1), patch(64, PatchCode::Id("jit-17".to_string()))),
        ("1 patch_code(312, 0x9000, 64, None)", Some(1), patch(64, PatchCode::Absent)),
        (
            r#"1 patch_code(0, 0x9000, 4, hex"1f2003d5", "bpf_prog_1")"#,
            Some(1),
            Call::Patch {
                pid: 0,
                address: 0x9000,
                length: 4,
                code: PatchCode::Bytes(vec![0x1f, 0x20, 0x03, 0xd5]),
                name: "bpf_prog_1".to_string(),
            },
        ),
        ("1 declare_asid(END, 0x12, 312)", Some(1), Call::Asid { state: End, asid: 0x12, pid: 312 }),
        ("1 define_trace(END, 0x10, ETM_0)", Some(1), trace(End, 0x10, "ETM_0", &[])),
        (
            r#"1 define_trace(START, 17, "ETM 0", ETMCR=0x1000, "odd name"=2)"#,
            Some(1),
            trace(Start, 17, "ETM 0", &[("ETMCR", 0x1000), ("odd name", 2)]),
        ),
        ("1 declare_running(CURRENT, 3, 313)", Some(1), Call::Switch { core: 3, tid: 313 }),
        ("1 fork_process(312, 320)", Some(1), Call::Fork { parent: 312, child: 320 }),
        ("18446744073709551615 exec_process(4294967295)", Some(u64::MAX), Call::Exec { pid: u32::MAX }),
    ];
    for (text, time, call) in rows {
        let log = read(text);
        assert_eq!(log.problems, [], "{text}");
        assert_eq!(log.events, [SystemEvent { time: *time, place: 1, call: call.clone() }], "{text}");
        let again = read(&log.to_string());
        assert_eq!(again, log, "{text} is written as {log}");
    }
}

#[test]
fn wrong_lines_have_a_column_and_what_was_expected() {
    let rows: &[(&str, &str)] = &[
        ("1200", "1:5: expected a call"),
        ("1200 (", "1:6: expected a call"),
        ("x1 declare_asid(END, 1, 2)", "1:4: expected `(`"),
        ("12x declare_asid(END, 1, 2)", "1:1: expected a number"),
        ("1 declare()", "1:3: unknown call `declare`"),
        ("1 declare_asid(END, 1, 2", "1:25: expected `)`"),
        ("1 declare_asid(END, 1)", "1:22: expected `,`"),
        ("1 declare_asid(END, 1, 2, 3)", "1:25: expected `)`"),
        ("1 declare_asid(END, 1, 2) more", "1:27: expected the end of the line, or a comment"),
        ("1 declare_asid(ENDS, 1, 2)", "1:16: expected START, END or CURRENT"),
        ("1 declare_asid(, 1, 2)", "1:16: expected START, END or CURRENT"),
        ("1 declare_asid(END, -1, 2)", "1:21: expected a number"),
        ("1 declare_asid(END, 0x, 2)", "1:21: expected a number"),
        ("1 declare_asid(END, 1, 4294967296)", "1:24: the number is larger than 0xffffffff"),
        ("18446744073709551616 exec_process(1)", "1:1: the number is larger than 0xffffffffffffffff"),
        ("1 declare_thread(START, 5)", "1:26: expected `,`"),
        ("1 declare_process(START, 5, 0)", "1:30: expected `,`"),
        ("1 declare_process(START, 5, 0, name)", "1:32: expected the name of a file in quotes"),
        ("1 declare_process(START, 5, 0, \"name)", "1:38: expected the closing quote of a string"),
        ("é declare_process(START, 5, 0, \"ü\\q\")", "1:1: expected a call"),
        ("1 declare_process(START, 5, 0, \"ü\\q\")", "1:34: expected an escape sequence"),
        ("1 declare_process(START, 5, 0, \"\\u{d800}\")", "1:33: expected an escape sequence"),
        ("1 declare_library(START, 5, 0, \"a\", \"\", 1)", "1:42: expected `,`"),
        ("1 declare_library(START, 5, 0, \"a\", 1)", "1:37: expected a build ID or UUID in quotes"),
        ("1 patch_code(5, 0, 4)", "1:21: expected `,`"),
        ("1 patch_code(5, 0, 4, none)", "1:23: expected code (hex\"...\"), its name in quotes, or None"),
        ("1 patch_code(5, 0, 4, hex\"1f2\")", "1:30: expected two hexadecimal digits"),
        ("1 patch_code(5, 0, 4, hex\"1f20", "1:31: expected the closing quote of the code"),
        ("1 patch_code(5, 0, 4, hex\"1f20\")", "1:22: the code has 2 bytes, but the length is 4"),
        ("1 define_trace(START, 0x80, ETM_0)", "1:23: the number is larger than 0x7f"),
        ("1 define_trace(START, 1, ETM_0, ETMCR)", "1:38: expected `=`"),
        ("1 declare_running(START, 1, 2)", "1:19: expected CURRENT"),
    ];
    for (text, expected) in rows {
        let log = read(text);
        let problems: Vec<String> = log.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, [*expected], "{text}");
        assert_eq!(log.events, [], "{text}");
    }
}

#[test]
fn wrong_lines_are_skipped() {
    let text = b"\xef\xbb\xbf# comment\r\n\r\n1 exec_process(1)\r\nodd\n2 exec_process(\xff)\n3 exec_process(3)";
    let log = SystemLog::read(&text[..]);
    assert_eq!(log.lines, 6);
    assert_eq!(log.events.iter().map(|event| event.place).collect::<Vec<_>>(), [3, 6]);
    let problems: Vec<String> = log.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["4:4: expected `(`", "5:16: the line is not UTF-8"]);
}

#[test]
fn a_million_wrong_lines_are_counted() {
    let text = "odd\n".repeat(1_000_000) + "1 exec_process(1)\n";
    let log = read(&text);
    assert_eq!((log.problems.len(), log.more_problems, log.lines), (PROBLEM_LIMIT, 999_900, 1_000_001));
    assert_eq!(log.events.len(), 1);
    assert_eq!(log.notes("x").len(), PROBLEM_LIMIT + 1);
}

#[test]
fn long_lines_are_skipped_without_being_kept() {
    let line = usize::try_from(LINE_LIMIT).unwrap();
    let comment = |length: usize| "#".repeat(length) + "\n";
    let text = comment(line) + &comment(line + 1) + &comment(3 * line) + "1 exec_process(1)\n" + &"x".repeat(2 * line);
    let log = SystemLog::read(BufReader::with_capacity(100, Cursor::new(text)));
    let problems: Vec<(u64, &LogProblemKind)> = log.problems.iter().map(|found| (found.line, &found.kind)).collect();
    let long = &LogProblemKind::LongLine;
    assert_eq!(problems, [(2, long), (3, long), (5, long)]);
    assert_eq!(log.events.len(), 1);
}

#[test]
fn endless_input_ends() {
    let log = SystemLog::read(BufReader::new(io::repeat(b'x')));
    let kinds: Vec<&LogProblemKind> = log.problems.iter().map(|problem| &problem.kind).collect();
    assert_eq!(kinds, [&LogProblemKind::LongLine, &LogProblemKind::LongLog]);
}

#[test]
fn an_error_of_the_input_is_the_last_problem() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("bad checksum"))
        }
    }
    let log = SystemLog::read(BufReader::new(Cursor::new("1 exec_process(1)\n").chain(Broken)));
    assert_eq!(log.events.len(), 1);
    assert_eq!(log.problems[0].to_string(), "2:1: cannot be read further: bad checksum");
}

#[test]
fn summary() {
    let log = read("5 exec_process(1)\n- exec_process(1)\n3 declare_asid(END, 1, 2)\n9 exec_process(1)\n");
    let text = "4 events at 3 to 9, 1 without time: 1 x declare_asid, 3 x exec_process";
    assert_eq!(log.summary().to_string(), text);
    assert_eq!(read("").summary().to_string(), "0 events");
}

fn any_state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Start), Just(State::End), Just(State::Current)]
}

fn any_mapping() -> impl Strategy<Value = Mapping> {
    let part = (any::<u64>(), any::<u64>(), any::<u64>());
    let part = part.prop_map(|(address, length, offset)| Placement::Part { address, length, offset });
    let placement = prop_oneof![any::<u64>().prop_map(Placement::Base), part];
    (any::<String>(), any::<String>(), placement).prop_map(|(image, build_id, placement)| Mapping {
        image,
        build_id,
        placement,
    })
}

fn any_patch() -> impl Strategy<Value = (u64, PatchCode)> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(|bytes| (bytes.len() as u64, PatchCode::Bytes(bytes))),
        (any::<u64>(), any::<String>()).prop_map(|(length, name)| (length, PatchCode::Id(name))),
        any::<u64>().prop_map(|length| (length, PatchCode::Absent)),
    ]
}

fn any_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        (any_state(), any::<u32>(), any_mapping()).prop_map(|(state, pid, mapping)| Call::Process {
            state,
            pid,
            mapping
        }),
        (any_state(), any::<u32>(), any_mapping()).prop_map(|(state, pid, mapping)| Call::Library {
            state,
            pid,
            mapping
        }),
        (any_state(), any::<u32>(), any::<u32>()).prop_map(|(state, tid, pid)| Call::Thread { state, tid, pid }),
        (any::<u32>(), any::<u64>(), any_patch(), any::<String>())
            .prop_map(|(pid, address, (length, code), name)| { Call::Patch { pid, address, length, code, name } }),
        (any_state(), any::<u32>(), any::<u32>()).prop_map(|(state, asid, pid)| Call::Asid { state, asid, pid }),
        (any_state(), 0..0x80_u8, any::<String>(), any::<Vec<(String, u64)>>())
            .prop_map(|(state, id, source, registers)| Call::Trace { state, id, source, registers }),
        (any::<u32>(), any::<u32>()).prop_map(|(parent, child)| Call::Fork { parent, child }),
        any::<u32>().prop_map(|pid| Call::Exec { pid }),
        (any::<u32>(), any::<u32>()).prop_map(|(core, tid)| Call::Switch { core, tid }),
    ]
}

fn any_log() -> impl Strategy<Value = Vec<SystemEvent>> {
    let events = proptest::collection::vec((any::<Option<u64>>(), any_call()), 0..8);
    events.prop_map(|events| (1..).zip(events).map(|(place, (time, call))| SystemEvent { time, place, call }).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_written_is_read(events in any_log()) {
        let mut text = Vec::new();
        SystemLog::write(&events, &mut text).unwrap();
        let log = SystemLog::read(&text[..]);
        prop_assert_eq!(log.problems, []);
        prop_assert_eq!(log.events, events);
    }

    #[test]
    fn any_bytes_are_read(bytes in any::<Vec<u8>>()) {
        let log = SystemLog::read(&bytes[..]);
        prop_assert!(log.problems.iter().all(|problem| problem.line <= log.lines));
    }

    /// An edit of one line changes no event of another line, and the line is an event, a problem or nothing.
    #[test]
    fn edits_of_a_line_stay_in_the_line(
        events in any_log(),
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        removed in 0..4_usize,
        added in "[ -~é]{0,3}",
    ) {
        let mut lines: Vec<String> = events.iter().map(ToString::to_string).collect();
        prop_assume!(!lines.is_empty());
        let edited = which.index(lines.len());
        let mut characters: Vec<char> = lines[edited].chars().collect();
        let from = at.index(characters.len());
        let until = (from + removed).min(characters.len());
        characters.splice(from..until, added.chars());
        lines[edited] = characters.into_iter().collect();
        let log = SystemLog::read(lines.join("\n").as_bytes());
        let place = edited as u64 + 1;
        let others = |events: &[SystemEvent]| events.iter().filter(|event| event.place != place).cloned().collect::<Vec<_>>();
        prop_assert_eq!(others(&log.events), others(&events));
        prop_assert!(log.problems.iter().all(|problem| problem.line == place));
        let found = log.events.iter().filter(|event| event.place == place).count() + log.problems.len();
        prop_assert!(found <= 1);
        if let Some(problem) = log.problems.first() {
            let length = lines[edited].chars().count() as u64;
            prop_assert!((1..=length + 1).contains(&problem.column), "{problem} in {}", lines[edited]);
        }
    }
}
