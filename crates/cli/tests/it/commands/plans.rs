//! `program` to the end: a plan, the trace unit that follows it, and what its trace contains.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::run::{Folder, text, unspool};

/// Context identifier and virtual context identifier of each round of [`log`].
const ROUNDS: [(u64, u64); 4] = [(1, 5), (2, 5), (2, 6), (1, 6)];

/// Instructions of a round: a block at 0x8000, and one at 0x9000 that branches back.
const ROUND: [(u64, u32); 5] =
    [(0x8000, 0xd503_201f), (0x8004, 0x1400_03ff), (0x9000, 0xd503_201f), (0x9004, 0xd503_201f), (0x9008, 0x17ff_fbfe)];

/// Two processes in two virtual machines that take turns.
fn log() -> String {
    let mut log =
        "# unspool covers times=cycles instructions opcodes branches levels security processes times\n".to_string();
    let mut time = 0;
    for (process, vmid) in ROUNDS {
        log += &format!(
            "# unspool context level=0 security=non-secure aarch64=yes handler=no process={process:#x} vmid={vmid:#x}\n"
        );
        for (address, opcode) in ROUND {
            time += 10;
            log += &format!("{time} clk IT ({time}) {address:08x} {opcode:08x} O EL0t_n :\n");
        }
    }
    log
}

/// The capture of a trace unit with this plan.
fn capture(folder: &Folder, options: &[&str]) -> PathBuf {
    let (log_path, unit, capture) = (folder.path("a.tarmac"), folder.path("unit.ini"), folder.path("c"));
    fs::write(&log_path, log()).unwrap();
    let run = unspool(&[&["program", "--unit", "-o", text(&unit)], options].concat());
    assert_eq!(run.code, 0, "{options:?}: {}", run.err);
    let run = unspool(&["encode", text(&log_path), "-o", text(&capture), "--unit", text(&unit)]);
    assert_eq!(run.code, 0, "{options:?}: {}", run.err);
    assert!(!run.err.contains("not modeled"), "{options:?}: {}", run.err);
    capture
}

fn decoded(options: &[&str]) -> Vec<Value> {
    let folder = Folder::new();
    let capture = capture(&folder, options);
    let run = unspool(&["decode", text(&capture), "--json"]);
    assert_eq!(run.code, 0, "{options:?}: {}", run.err);
    run.json()
}

/// An address as JSON has it.
fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap(),
        other => other.as_u64().unwrap(),
    }
}

/// Process filters, alone and with addresses (K10.5.7.3: instruction-based filtering of a process).
#[test]
fn only_the_processes_of_a_plan_are_traced() {
    type Traced = fn(u64, u64, u64) -> bool;
    // Which process, virtual machine and address are traced.
    let rows: &[(&[&str], Traced)] = &[
        (&[], |_, _, _| true),
        (&["--context-id", "2"], |process, _, _| process == 2),
        (&["--context-id", "3"], |_, _, _| false),
        (&["--context-id", "2", "--context-id", "0x1"], |_, _, _| true),
        (&["--vmid", "6"], |_, vmid, _| vmid == 6),
        (&["--context-id", "2", "--vmid", "6"], |process, vmid, _| (process, vmid) == (2, 6)),
        (&["--context-id", "1", "--context-id", "2", "--vmid", "5"], |_, vmid, _| vmid == 5),
        (&["--context-id", "2", "--include", "0x9000..0x900c"], |process, _, address| {
            process == 2 && address >= 0x9000
        }),
        (&["--context-id", "2", "--exclude", "0x9000..0x900c"], |process, _, address| process == 2 && address < 0x9000),
        (&["--context-id", "2", "--vmid", "6", "--include", "0x9000..0x900c"], |process, vmid, address| {
            (process, vmid) == (2, 6) && address >= 0x9000
        }),
        // Execution passes the start point in process 1 before, which does not count.
        (&["--context-id", "2", "--start", "0x9000"], |process, vmid, address| {
            process == 2 && (vmid == 6 || address >= 0x9000)
        }),
        (&["--context-id", "1", "--start", "0x9000", "--stop", "0x9008"], |process, _, address| {
            process == 1 && address >= 0x9000
        }),
        // Four combinations; only one of them is a start point in its round.
        (&["--context-id", "1", "--context-id", "2", "--vmid", "6", "--start", "0x9000"], |process, vmid, address| {
            vmid == 6 && (process == 1 || address >= 0x9000)
        }),
    ];
    for (options, is_traced) in rows {
        let executed = ROUNDS.iter().flat_map(|(process, vmid)| ROUND.map(|(address, _)| (*process, *vmid, address)));
        let wanted: Vec<(u64, u64, u64)> =
            executed.filter(|(process, vmid, address)| is_traced(*process, *vmid, *address)).collect();
        let (mut found, mut context) = (Vec::new(), (0, 0));
        for line in decoded(options) {
            match line["kind"].as_str().unwrap() {
                "context" => context = (number(&line["contextid"]), number(&line["vmid"])),
                "instruction" => found.push((context.0, context.1, number(&line["address"]))),
                _ => {}
            }
        }
        assert_eq!(found, wanted, "{options:?}");
    }
}

/// Instructions by their address, events as `E` with their numbers.
fn sequence(lines: &[Value]) -> Vec<String> {
    let item = |line: &Value| match line["kind"].as_str().unwrap() {
        "instruction" => Some(format!("{:x}", number(&line["address"]))),
        "event" => {
            let numbers = line["numbers"].as_array().unwrap().iter().map(ToString::to_string);
            Some(format!("E{}", numbers.collect::<String>()))
        }
        _ => None,
    };
    lines.iter().filter_map(item).collect()
}

/// K10.5.2.17: an event is in the trace where its cause was executed. An instruction is known at the end of its block, so the
/// event of one inside a block is before that block.
#[test]
fn events_are_where_their_causes_are() {
    let rows: &[(&[&str], &str)] = &[
        (
            &["--event", "0=0x9000"],
            "8000 8004 E0 9000 9004 9008 8000 8004 E0 9000 9004 9008 \
             8000 8004 E0 9000 9004 9008 8000 8004 E0 9000 9004 9008",
        ),
        // The first time only.
        (
            &["--event-once", "1=0x9000"],
            "8000 8004 E1 9000 9004 9008 8000 8004 9000 9004 9008 8000 8004 9000 9004 9008 8000 8004 9000 9004 9008",
        ),
        // Once for each time that the range is entered.
        (
            &["--event", "2=0x9000..0x900c", "--context-id", "2"],
            "8000 8004 E2 9000 9004 9008 8000 8004 E2 9000 9004 9008",
        ),
        (
            &["--event", "3=0x9004", "--event-once", "0=0x9000..0x900c", "--context-id", "2"],
            "8000 8004 E0 E3 9000 9004 9008 8000 8004 E3 9000 9004 9008",
        ),
        // In process 2, after process 1 has executed the same address.
        (&["--event-once", "1=0x9000", "--context-id", "2"], "8000 8004 E1 9000 9004 9008 8000 8004 9000 9004 9008"),
        (
            &["--event", "0=0x9000", "--event", "1=0x9000", "--vmid", "6", "--context-id", "2"],
            "8000 8004 E01 9000 9004 9008",
        ),
    ];
    for (options, wanted) in rows {
        let found = sequence(&decoded(options));
        assert_eq!(found.join(" "), *wanted, "{options:?}");
    }
}

/// TRCTSCTLR: timestamps while the range is executed, and at synchronizations (table K10-3), of which there is one, at the
/// start.
#[test]
fn timestamps_are_requested_in_the_range() {
    let times = |options: &[&str]| {
        let lines = decoded(options);
        let executed = lines.iter().skip_while(|line| line["kind"] != "instruction");
        let times = executed.filter(|line| line["kind"] == "timestamp").map(|line| number(&line["value"]));
        times.collect::<Vec<u64>>()
    };
    assert_eq!(times(&[]), [0; 0]);
    let found = times(&["--timestamps-in", "0x9000..0x900c"]);
    // A round takes 50 ticks, and its last three instructions, 30 ticks after it begins, are in the range. A request of the last
    // one is fulfilled with the next element, 10 ticks later. No instruction at 0x8004 is timed.
    let in_range = |time: &u64| matches!((time - 30) % 50, 0..=30);
    assert!(found.iter().all(in_range), "{found:?}");
    let rounds: Vec<u64> = found.iter().map(|time| (time - 30) / 50).collect();
    assert!((0..4).all(|round| rounds.contains(&round)), "{found:?}");
}

#[test]
fn events_have_their_meaning_in_all_verbs() {
    let folder = Folder::new();
    let options = ["--event", "0=0x9000", "--event-once", "3=0x8000..0x8008", "--context-id", "2"];
    let capture = capture(&folder, &options);
    let capture = text(&capture);
    let names = folder.path("names.map");
    fs::write(&names, "0000000000009000 t work\n0000000000008000 t begin\n").unwrap();
    let address = "address 0x9000 executed with context identifier 0x2";
    let range = "code from 0x8000 to 0x8007 executed with context identifier 0x2 for the first time";
    let elements = unspool(&["elements", capture]).out;
    assert_eq!(elements.matches(&format!("  event 0: {address}\n")).count(), 2, "{elements}");
    assert_eq!(elements.matches(&format!("  event 3: {range}\n")).count(), 1, "{elements}");
    let decode = unspool(&["decode", capture]).out;
    assert!(decode.contains(&format!("-- event 0: {address}\n")), "{decode}");
    let named = unspool(&["decode", capture, "--symbols", text(&names)]).out;
    assert!(named.contains("-- event 0: address 0x9000 <work> executed with context identifier 0x2\n"), "{named}");
    assert!(named.contains("-- event 3: code from 0x8000 <begin> to 0x8007 <begin+0x7> executed"), "{named}");
    for verb in ["elements", "decode"] {
        let lines = unspool(&[verb, capture, "--json"]).json();
        let events: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "event").collect();
        let first = events.iter().find(|event| event["numbers"] == serde_json::json!([0])).unwrap();
        assert_eq!(first["meanings"], serde_json::json!([address]), "{verb}");
    }
    let info = unspool(&["info", capture]);
    assert!(info.out.contains(&format!("        event 0: {address}\n        event 3: {range}\n")), "{}", info.out);
    let info = unspool(&["info", capture, "--json"]).json();
    assert_eq!(info[0]["sources"][0]["event_meanings"], serde_json::json!({"0": address, "3": range}));
    let program = unspool(&["program", capture]).out;
    assert!(
        program.contains(&format!("traced      event 0, when this starts to hold: {address} (TRCEVENTCTL1R)\n")),
        "{program}"
    );
}

/// Without the registers, an event is its number.
#[test]
fn events_without_registers_are_numbers() {
    let folder = Folder::new();
    let capture = capture(&folder, &["--event", "2=0x9000"]);
    let unit = fs::read_dir(&capture).unwrap().map(|entry| entry.unwrap().path());
    let unit = unit.filter(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("TRCEVENTCTL0R")));
    for path in unit {
        let lines = fs::read_to_string(&path).unwrap();
        let kept = lines.lines().filter(|line| !line.starts_with("TRCEVENTCTL0R")).map(|line| format!("{line}\n"));
        fs::write(&path, kept.collect::<String>()).unwrap();
    }
    let run = unspool(&["elements", text(&capture)]);
    assert_eq!(run.out.matches("  event 2\n").count(), 4, "{}", run.out);
    let lines = unspool(&["decode", text(&capture), "--json"]).json();
    let event = lines.iter().find(|line| line["kind"] == "event").unwrap();
    assert!(event.get("meanings").is_none(), "{event}");
}
