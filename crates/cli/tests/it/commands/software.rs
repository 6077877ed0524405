//! Software trace: writes encoded and decoded again, and listed with instructions in one order of time.
//!
//! The captures are made here: a core that executes a loop between known timestamps, and a unit for a list of writes.

use std::fmt::Write as _;

use serde_json::Value;
use unspool::coresight::Protocol;
use unspool::coresight::etm4::Packet;
use unspool::coresight::etm4::packet::{Address, TraceInfo};
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::{Atoms, Context, Security, SubIsa};
use unspool::encode::software::{SoftwareUnit, parse_writes};

use crate::run::{Folder, Run, on, text, unspool};

/// A loop: NOP, then a branch to it.
const LOOP: [u32; 2] = [0xd503_201f, 0x17ff_ffff];
pub(crate) const CODE: u64 = 0x1000;

/// The stream of a core that executes one loop after each of these times.
fn core_trace(settings: &Settings, times: &[u64]) -> Vec<u8> {
    let info = TraceInfo { info: Some(0), key: None, speculation: None, cycle_threshold: None };
    let context = Context { el: 0, aarch64: true, security: Security::NonSecure, vmid: None, context_id: Some(7) };
    let address = Address::full(SubIsa::Is0, CODE);
    let mut packets = vec![Packet::AlignmentSync, Packet::TraceInfo(info), Packet::TraceOn];
    packets.push(Packet::AddressContext { address, context });
    for &value in times {
        packets.extend([Packet::Timestamp { value, bits: 64, cycles: None }, Packet::Atoms(Atoms::new(1, 1))]);
    }
    let mut bytes = Vec::new();
    packets.iter().for_each(|packet| packet.encode(&settings.config(), &mut bytes).unwrap());
    bytes
}

/// A snapshot of a core with timestamps 10, 20 and 30, and of a unit for these writes with further registers.
pub(crate) fn snapshot(folder: &Folder, protocol: Protocol, writes: &str, global: bool, registers: &str) -> Run {
    let mut settings = Settings::new(Protocol::Ete);
    // Context identifiers and timestamps.
    assert!(settings.set("TRCCONFIGR", 0x1 | 1 << 6 | 1 << 11));
    let core = core_trace(&settings, &[10, 20, 30]);
    snapshot_of(folder, (&settings, &core), protocol, (writes, global, registers))
}

/// A snapshot of a core with this trace, and of a unit for writes.
pub(crate) fn snapshot_of(
    folder: &Folder,
    (settings, core_trace): (&Settings, &[u8]),
    protocol: Protocol,
    (writes, global, registers): (&str, bool, &str),
) -> Run {
    let mut unit = SoftwareUnit::new(protocol).unwrap();
    unit.global_timestamps = global;
    let list = parse_writes(writes).unwrap();
    let stream = unit.encode(list.iter().map(|listed| &listed.write)).unwrap();
    let name = if protocol == Protocol::Itm { "ITM" } else { "STM" };
    let code: Vec<u8> = LOOP.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut device = "[device]\nname=UNIT_0\nclass=trace_source\ntype=ETE\n[regs]\n".to_string();
    settings.registers().for_each(|(name, value)| writeln!(device, "{name}={value:#x}").unwrap());
    let software = format!("[device]\nname={name}_0\nclass=trace_source\ntype={name}\n[regs]\n{registers}\n");
    let core = "[device]\nname=cpu_0\nclass=core\ntype=ARM-AA64\n[regs]\nCNTFRQ_EL0=1000\n\
                [dump1]\nfile=code.bin\naddress=0x1000\nlength=8\n";
    let trace = format!(
        "[trace_buffers]\nbuffers=buffer0,buffer1\n[buffer0]\nname=B0\nfile=b0.bin\nformat=source_data\n\
         [buffer1]\nname=B1\nfile=b1.bin\nformat=source_data\n\
         [source_buffers]\nUNIT_0=B0\n{name}_0=B1\n[core_trace_sources]\ncpu_0=UNIT_0\n"
    );
    let index = "[snapshot]\nversion=1.0\n[device_list]\ndevice0=cpu_0.ini\ndevice1=unit_0.ini\ndevice2=software.ini\n\
                 [trace]\nmetadata=trace.ini\n";
    let files: [(&str, &[u8]); 8] = [
        ("b0.bin", core_trace),
        ("b1.bin", &stream),
        ("code.bin", &code),
        ("unit_0.ini", device.as_bytes()),
        ("software.ini", software.as_bytes()),
        ("cpu_0.ini", core.as_bytes()),
        ("trace.ini", trace.as_bytes()),
        ("system-event-log", b"- declare_process(CURRENT, 7, 0x1000, \"code.bin\", \"\")\n"),
    ];
    files.iter().for_each(|(name, bytes)| drop(folder.file(name, bytes)));
    let path = folder.file("snapshot.ini", index);
    on("info", path.parent().unwrap(), &[]).expect(0, &[])
}

fn decode(folder: &Folder, options: &[&str]) -> Run {
    on("decode", folder.root(), options)
}

/// What was listed, in order: values of software, and an `i` for each loop.
fn order(run: &Run) -> String {
    let mut found = Vec::new();
    for line in run.out.lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        match object["kind"].as_str() {
            Some("software") => found.push(object["bytes"].as_str().unwrap().trim_start_matches("0x").to_string()),
            Some("instruction") if object["address"] == "0x1000" => found.push("i".to_string()),
            _ => {}
        }
    }
    found.join(" ")
}

/// One value before the first timestamp of the core, one between each two, one without a time, and one after all.
pub(crate) const WRITES: &str = "5 1:0 8 0xa0\n15 1:0 8 0xa1\n- 1:0 8 0xa2\n25 1:0 8 0xa3\n40 1:0 8 0xa4\n";

#[test]
fn writes_of_an_stm_are_between_the_instructions_of_their_time() {
    let folder = Folder::new();
    snapshot(&folder, Protocol::Stm, WRITES, false, "STMTCSR=0x00200007");
    let run = decode(&folder, &["--by", "time", "--json"]).expect(0, &[]);
    // A segment from 10 to 20 comes before the write at 15, which was executed during it.
    assert_eq!(order(&run), "a0 i a1 a2 i a3 i a4");
    let segments = run.json().into_iter().filter(|object| object["kind"] == "segment" && object["source"] == 0x20);
    let windows: Vec<[Option<u64>; 2]> =
        segments.map(|segment| ["from", "to"].map(|key| segment[key].as_u64())).collect();
    // The frequency, before the first time; the values with a time, and the one without, which is between two of them.
    let expected = [(None, 5), (Some(5), 5), (Some(15), 15), (Some(15), 25), (Some(25), 25), (Some(40), 40)];
    assert_eq!(windows, expected.map(|(from, to)| [from, Some(to)]));
    let text = decode(&folder, &["--by", "time"]).expect(0, &[]);
    let expected = [
        "# source 0x20 STM_0, session 0, time 0xf (0.015000000 s); before, during or after UNIT_0",
        "# source 0x20 STM_0, session 0, time 0x28 (0.040000000 s); before, during or after UNIT_0",
    ];
    for line in expected {
        assert!(text.out.lines().any(|found| found == line), "{line}\n{}", text.out);
    }
    // Without an order, source after source.
    assert_eq!(order(&decode(&folder, &["--json"]).expect(0, &[])), "i i i a0 a1 a2 a3 a4");
}

#[test]
fn writes_of_an_itm_are_between_its_global_timestamps() {
    let folder = Folder::new();
    let writes = WRITES.replace("1:0", "0");
    snapshot(&folder, Protocol::Itm, &writes, true, "ITMTCR=0x0020040d");
    assert_eq!(order(&decode(&folder, &["--by", "time", "--json"]).expect(0, &[])), "a0 i a1 a2 i a3 i a4");
}

#[test]
fn software_trace_is_selected_by_time_and_left_out_for_processes() {
    let folder = Folder::new();
    snapshot(&folder, Protocol::Stm, WRITES, false, "STMTCSR=0x00200007");
    for (time, expected) in [("12..22", "i a1 a2 i"), ("0.012s..0.022s", "i a1 a2 i"), ("..6", "a0"), ("35..", "i a4")]
    {
        let run = decode(&folder, &["--time", time, "--by", "time", "--json"]).expect(0, &[]);
        assert_eq!(order(&run), expected, "{time}");
    }
    let note = "note: STM_0: software trace belongs to no process: it is left out";
    let run = decode(&folder, &["--process", "7", "--json"]).expect(0, &[note]);
    assert_eq!(order(&run), "i i i");
    // Of no process: after those of processes.
    let run = decode(&folder, &["--by", "process", "--json"]).expect(0, &[]);
    assert_eq!(order(&run), "i i i a0 a1 a2 a3 a4");
}

#[test]
fn times_of_another_clock_or_of_an_unknown_start_are_not_compared() {
    let folder = Folder::new();
    snapshot(&folder, Protocol::Stm, WRITES, false, "STMTCSR=0x00200007\nSTMTSFREQR=5000");
    let other = "STM_0: its timestamps are of another clock than those of UNIT_0, so that its time is unknown";
    let apart = "STM_0: its software trace has no time that other sources have too, so that its order is unknown";
    let run = decode(&folder, &["--by", "time", "--json"]).expect(0, &[other, apart]);
    assert_eq!(order(&run), "a0 a1 a2 a3 a4 i i i");
    let folder = Folder::new();
    snapshot(&folder, Protocol::Itm, &WRITES.replace("1:0", "0"), false, "ITMTCR=0x0020000f");
    let apart = apart.replace("STM", "ITM");
    let run = decode(&folder, &["--by", "time", "--json"]).expect(0, &[&apart]);
    assert_eq!(order(&run), "a0 a1 a2 a3 a4 i i i");
}

#[test]
fn text_that_is_interrupted_is_one_line_from_its_first_value_on() {
    let folder = Folder::new();
    let writes = "12 1:0 \"ab\"\n13 1:1 8 0xff\n25 1:0 \"cd\\n\"\n";
    snapshot(&folder, Protocol::Stm, writes, false, "STMTCSR=0x00200007");
    let run = decode(&folder, &["--by", "time"]).expect(0, &[]);
    let place = |part: &str| run.out.find(part).unwrap_or_else(|| panic!("{part}\n{}", run.out));
    assert!(place("\"abcd\"") < place("0xff"), "{}", run.out);
    // Only the first value of a text has its time.
    assert!(run.out.contains("STM_0, session 0, time from 0xc on"), "{}", run.out);
}

#[test]
fn writes_are_encoded_to_a_bare_file_a_directory_and_a_package() {
    let folder = Folder::new();
    let stm =
        "# a list\n16 0x40:3 32 0x01021010 marked\n- 0x40:3 \"hi\"\n300 0x41:0x480 64 0x1234\n301 0x41:0x480 flag\n";
    let itm = "4 0 \"hi\\n\"\n9 40 16 0x1234\n";
    for (protocol, list) in [("stm", stm), ("itm", itm)] {
        let input = folder.file(&format!("{protocol}.txt"), list);
        let mut listings = Vec::new();
        for (name, is_bare) in [("x.bin", true), ("x", false), ("x.zip", false)] {
            for formatted in [false, true] {
                let output = folder.path(format!("{protocol}-{formatted}-{name}"));
                let mut args = vec!["encode", text(&input), "-o", text(&output), "--protocol", protocol];
                args.extend(formatted.then_some("--formatted"));
                unspool(&args).expect(0, &["of trace"]);
                assert_ne!(unspool(&args).code, 0, "nothing is overwritten: {}", output.display());
                args.push("--force");
                unspool(&args).expect(0, &["of trace"]);
                let layout = if formatted { "--formatted" } else { "--raw" };
                let bare = ["--protocol", protocol, "--id", "0x20", layout];
                let options: &[&str] = if is_bare { &bare } else { &[] };
                let run = on("decode", &output, &[options, &["--json"]].concat()).expect(0, &[]);
                let is_write =
                    |line: &&str| line.contains("\"kind\":\"software\"") || line.contains("\"kind\":\"flag\"");
                let writes = run.out.lines().filter(is_write).map(|line| {
                    let (start, _) = line.split_once(",\"offset\"").unwrap();
                    start.split_once("\"kind\"").unwrap().1.to_string()
                });
                listings.push(writes.collect::<Vec<String>>());
            }
        }
        assert!(listings.iter().all(|listing| *listing == listings[0]), "{listings:#?}");
        assert_eq!(listings[0].len(), if protocol == "stm" { 5 } else { 4 });
    }
}

#[test]
fn a_listing_in_json_can_be_encoded_again() {
    let folder = Folder::new();
    let list =
        folder.file("list.txt", "16 0x40:3 32 0x01021010 marked\n300 0x41:0x480 64 0x1234\n301 0x41:0x480 flag\n");
    let [first, second] = ["1.bin", "2.bin"].map(|name| folder.path(name));
    unspool(&["encode", text(&list), "-o", text(&first), "--protocol", "stm"]).expect(0, &[]);
    let listing = on("decode", &first, &["--protocol", "stm", "--raw", "--json"]).expect(0, &[]);
    let listing = folder.file("list.jsonl", listing.out);
    unspool(&["encode", text(&listing), "-o", text(&second), "--protocol", "stm"]).expect(0, &[]);
    assert_eq!(std::fs::read(first).unwrap(), std::fs::read(second).unwrap());
}

#[test]
fn writes_that_cannot_be_encoded_are_named() {
    let folder = Folder::new();
    let rows: &[(&str, &str, &[&str], &str)] = &[
        ("stm", "# c\n5 7 8 1\n", &[], "line 2: an STM needs a master: MASTER:CHANNEL"),
        ("itm", "5 1:7 8 1\n", &[], "line 1: an ITM has no masters"),
        ("itm", "5 7 64 1\n", &[], "line 1: an ITM has values of 8, 16 and 32 bits, not of 64"),
        ("itm", "5 7 flag\n", &[], "line 1: an ITM has no flags"),
        ("itm", "5 256 8 1\n", &[], "line 1: an ITM has ports 0 to 255"),
        ("itm", "5 7 8 1\n4 7 8 1\n", &[], "line 2: its time is before that of the write before it"),
        ("itm", "0x123456789abc 7 8 1\n", &[], "use --timestamps"),
        ("stm", "bad\n", &[], "line 1: expected a time and a channel"),
        ("stm", "5 1:7 8 1\n", &["--return-stack"], "--return-stack has no effect on software trace"),
        ("stm", "5 1:7 8 1\n", &["--register", "TRCIDR0=1"], "the model of the unit has no register 'TRCIDR0'"),
        ("stm", "5 1:7 8 1\n", &["--register", "STMTCSR=0"], "trace id 0x0 is reserved"),
    ];
    for (protocol, list, options, expected) in rows {
        let input = folder.file("list.txt", list);
        let output = folder.path("out.bin");
        let args = ["encode", text(&input), "-o", text(&output), "--protocol", protocol];
        unspool(&[&args[..], options].concat()).expect(2, &[expected]);
        assert!(!output.exists(), "{list}");
    }
}

#[test]
fn the_type_of_a_core_decides_the_profile_of_a_bare_buffer() {
    let folder = Folder::new();
    let path = folder.file("x.bin", [0, 0, 0, 0, 0, 0x80, 0x08, 0x21, 0, 0x80, 0, 0, 0x84]);
    let bare = ["--protocol", "etm3", "--raw"];
    // Registers that are not known are assumed to be those of a usual unit of the profile.
    for (core, assumed) in [("Cortex-M3", "48-bit binary timestamps"), ("Cortex-R4", "64-bit binary timestamps")] {
        let run = on("info", &path, &[&bare[..], &["--core", core]].concat()).expect(0, &[]);
        assert!(run.out.contains(assumed), "{core}: {}", run.out);
    }
    for verb in ["decode", "elements", "check"] {
        let run = on(verb, &path, &[&bare[..], &["--core", "DSP"]].concat());
        run.expect(2, &["--core: 'DSP' is not a known type of core"]);
    }
}
