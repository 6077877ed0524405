//! Slicing: lines stay as they are, with their instruction.

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_model::selection::Selection;
use unspool_model::{Event, Gap, StepSource};
use unspool_tarmac::Record;
use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::read::{ReadOptions, Reader};
use unspool_tarmac::slice::{SliceOptions, Sliced, slice};
use unspool_tarmac::steps::Steps;

use crate::fixtures::read_lines;

const LOG: &str = "\
Tarmac Text Rev 3t
5 clk R cpsr 000003c5
10 clk IT (1) 00001000 d503201f O EL1h_s : NOP
20 clk IT (2) 00001004 f9400020 O EL1h_s : LDR x0,[x1]
20 clk MR8 00008000 0000000000000005
20 clk R X0 0000000000000005
30 clk IT (3) 00001008 94000400 O EL1h_s : BL 0x2008
40 clk IT (4) 00002008 d503201f O EL1h_s : NOP
40 clk R X1 0000000000000007
50 clk IT (5) 0000200c d65f03c0 O EL1h_s : RET
60 clk IT (6) 0000100c d503201f O EL1h_s : NOP
";

/// Two cores with interleaved lines.
const CORES: &str = "\
10 clk cpu0 IT (1) 00001000 d503201f O EL1h_s : NOP
10 clk cpu1 IT (1) 00001000 d503201f O EL1h_s : NOP
20 clk cpu0 IT (2) 00002000 d503201f O EL1h_s : NOP
20 clk cpu1 IT (2) 00001004 d503201f O EL1h_s : NOP
20 clk cpu0 R X0 0000000000000005
30 clk cpu0 IT (3) 00001004 d503201f O EL1h_s : NOP
30 clk cpu1 IT (3) 00002000 d503201f O EL1h_s : NOP
";

/// Effects precede their instruction.
const BEFORE: &str = "\
120ns R r2 00000004
120ns IT 00000400 2204        MOVS     r2,#4
130ns R r3 00000005
130ns IT 00000402 2305        MOVS     r3,#5
140ns R r4 00000006
140ns IT 00000404 2406        MOVS     r4,#6
150ns R r5 00000007
";

fn slice_of(text: &str, mut selection: Selection, options: SliceOptions<'_>) -> (Vec<String>, Sliced) {
    let mut reader = Reader::new(text.as_bytes(), ReadOptions::default()).unwrap();
    let mut logs: Vec<Vec<u8>> = Vec::new();
    let sliced = slice(&mut reader, &mut selection, options, &mut logs, |_, _| {}).unwrap();
    (logs.into_iter().map(|log| String::from_utf8(log).unwrap()).collect(), sliced)
}

/// The lines with these numbers, counted from 0, or annotations.
fn lines(text: &str, selected: &[&str]) -> String {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let line = |selected: &&str| match selected.parse::<usize>() {
        Ok(number) => all[number].to_string(),
        Err(_) => format!("# unspool {selected}\n"),
    };
    selected.iter().map(line).collect()
}

#[test]
fn lines_go_with_their_instruction() {
    let all = Selection::default;
    let rows: &[(&str, &str, Selection, &[&str])] = &[
        ("everything", LOG, all(), &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]),
        ("the first", LOG, Selection { limit: 1, ..all() }, &["0", "1", "2"]),
        ("by number", LOG, Selection::of(&(1..3)), &["0", "3", "4", "5", "6"]),
        ("by time", LOG, Selection { time: Some(20..50), ..all() }, &["0", "3", "4", "5", "6", "7", "8"]),
        ("by address", LOG, Selection::within(0x2000..0x3000), &["0", "7", "8", "9"]),
        ("by address, in two pieces", LOG, Selection::within(0x1008..0x1010), &["0", "6", "gap start", "10"]),
        (
            "by address, but for the first",
            LOG,
            Selection { skip: 1, limit: 2, ..Selection::within(0x1000..0x2000) },
            &["0", "3", "4", "5", "6"],
        ),
        ("of two cores", CORES, Selection::within(0x1000..0x2000), &["0", "1", "3", "gap start core=cpu0", "5"]),
        ("of the second core", CORES, Selection { core: Some(1), limit: 2, ..all() }, &["1", "3"]),
        ("effects first", BEFORE, Selection::of(&(1..2)), &["2", "3"]),
        ("effects first, to the end", BEFORE, Selection { skip: 2, ..all() }, &["4", "5", "6"]),
        (
            "effects first, in two pieces",
            BEFORE,
            Selection { addresses: vec![0x400..0x402, 0x404..0x406], ..all() },
            &["0", "1", "gap start", "4", "5", "6"],
        ),
    ];
    for (name, text, selection, expected) in rows {
        let dialect = (*text == BEFORE).then_some(Dialect::CortexM0);
        let (logs, _) = slice_of(text, selection.clone(), SliceOptions { dialect, ..SliceOptions::default() });
        assert_eq!(logs, [lines(text, expected)], "{name}");
    }
}

#[test]
fn one_core_of_several() {
    let Ok(core) = "cpu0".parse();
    let options = SliceOptions { core: Some(&core), ..SliceOptions::default() };
    let (logs, sliced) = slice_of(CORES, Selection::default(), options);
    assert_eq!(logs, [lines(CORES, &["0", "2", "4", "5"])]);
    assert_eq!((sliced.instructions, sliced.pieces, sliced.lines), (3, 1, 4));
}

#[test]
fn split_pieces_are_separate_logs() {
    let selection = Selection::within(0x1008..0x1010);
    let (logs, sliced) = slice_of(LOG, selection, SliceOptions { split: true, ..SliceOptions::default() });
    assert_eq!(logs, [lines(LOG, &["0", "6"]), lines(LOG, &["0", "10"])]);
    assert_eq!((sliced.instructions, sliced.pieces), (2, 2));
}

#[test]
fn line_ends_are_kept() {
    let text = LOG.replace('\n', "\r\n");
    let selection = Selection::within(0x1008..0x1010);
    let (logs, _) = slice_of(text.trim_end(), selection, SliceOptions::default());
    let expected = lines(LOG, &["0", "6", "gap start", "10"]).replace('\n', "\r\n");
    assert_eq!(logs, [expected.trim_end()]);
}

#[test]
fn first_line_without_a_time_gets_one() {
    let fast_models = "10 clk IT (1) 00001000 d503201f O EL1h_s : NOP\nIT (2) 00001004 d503201f O EL1h_s : NOP\n\
                       R X0 0000000000000001\n";
    let rev3 = "Tarmac Text Rev 3t\n         10 clk ES  (0000000000001000:d503201f) O el1h_s:         NOP\n\
                \x20               ES  (0000000000001004:d503201f) O el1h_s:         NOP\n\
                \x20                   R X0 0000000000000001\n";
    let cores = "10 clk cpu1 IT (1) 00001000 d503201f O EL1h_s : NOP\nIT (2) 00001004 d503201f O EL1h_s : NOP\n";
    let rows = [
        (fast_models, 0, fast_models.to_string(), false),
        (fast_models, 1, "10 clk IT (2) 00001004 d503201f O EL1h_s : NOP\nR X0 0000000000000001\n".into(), true),
        (
            rev3,
            1,
            "Tarmac Text Rev 3t\n         10 clk ES  (0000000000001004:d503201f) O el1h_s:         NOP\n\
             \x20                   R X0 0000000000000001\n"
                .into(),
            true,
        ),
        (cores, 1, "10 clk cpu1 IT (2) 00001004 d503201f O EL1h_s : NOP\n".into(), true),
        (
            "10 clk cpu1 IT (1) 00001000 d503201f O EL1h_s : NOP\ncpu1 IT (2) 00001004 d503201f O EL1h_s : NOP\n",
            1,
            "10 clk cpu1 IT (2) 00001004 d503201f O EL1h_s : NOP\n".into(),
            true,
        ),
        // The log has no times.
        (
            "IT (1) 00001000 d503201f O EL1h_s : NOP\nIT (2) 00001004 d503201f O EL1h_s : NOP\n",
            1,
            "IT (2) 00001004 d503201f O EL1h_s : NOP\n".into(),
            false,
        ),
    ];
    for (text, skip, expected, is_new) in rows {
        let (logs, sliced) = slice_of(text, Selection { skip, ..Selection::default() }, SliceOptions::default());
        assert_eq!(logs, [expected]);
        assert_eq!(sliced.has_new_time, is_new, "{text}");
    }
}

/// Lines left out of one core become a gap of that core only.
#[test]
fn cuts_belong_to_their_core() {
    let log = "\
10 clk cpu0 IT (1) 00001000 d503201f O EL1h_s : NOP
10 clk cpu1 IT (1) 00002000 d503201f O EL1h_s : NOP
20 clk cpu0 IT (2) 00001004 d503201f O EL1h_s : NOP
20 clk cpu1 IT (2) 00002004 d503201f O EL1h_s : NOP
30 clk cpu0 IT (3) 00001008 d503201f O EL1h_s : NOP
30 clk cpu1 IT (3) 00002008 d503201f O EL1h_s : NOP
";
    let addresses = vec![0x1000..0x1001, 0x1008..0x1009, 0x2000..0x3000];
    let (logs, _) = slice_of(log, Selection { addresses, ..Selection::default() }, SliceOptions::default());
    let reader = Reader::new(Cursor::new(logs[0].clone()), ReadOptions::default()).unwrap();
    let mut gaps = Vec::new();
    let read = Steps::new(reader, false).each(&mut |step| {
        if let Event::Gap(gap) = step.event {
            gaps.push((step.core, gap));
        }
        ControlFlow::Continue(())
    });
    read.unwrap();
    assert_eq!(gaps, [(0, Gap::Start)], "{}", logs[0]);
}

#[test]
fn empty_selections() {
    for selection in [Selection::of(&(9..10)), Selection::of(&(3..3))] {
        let (logs, sliced) = slice_of(LOG, selection, SliceOptions::default());
        assert_eq!((logs.len(), sliced.instructions, sliced.lines), (0, 0, 0));
    }
}

/// Every line of a slice can be parsed.
#[test]
fn slices_can_be_parsed() {
    for at in 0..6 {
        let selection =
            Selection { addresses: vec![0x1000 + 4 * at..0x1004 + 4 * at, 0x200c..0x2010], ..Selection::default() };
        let (logs, _) = slice_of(LOG, selection, SliceOptions::default());
        for log in logs {
            read_lines(log.as_bytes(), |_, line| assert!(!matches!(line.record, Record::Unknown(_)), "{log}"));
        }
    }
}
