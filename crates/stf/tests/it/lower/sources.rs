//! Round trips of ASTF files and Tarmac logs, and STF files of other tools.

use std::collections::BTreeSet;
use std::io::Cursor;

use unspool_astf as astf;
use unspool_model::{Event, Facet, Step, TimeUnit};
use unspool_stf::record::TraceInfo;
use unspool_stf::{Record, builder};
use unspool_tarmac as tarmac;

use super::{NOP, Source, all, is_lost, opened, records, round_trip, warnings};
use crate::fixtures::encoded;

fn astf_of(bytes: Vec<u8>) -> Source {
    all(astf::steps::Steps::new(astf::read::Reader::in_place(Cursor::new(bytes)).unwrap()))
}

#[test]
fn astf_examples_survive_a_round_trip() {
    let mut records = astf::example::records();
    let header = astf::record::Header::new(astf::record::Level::BasicPlus, true, astf::record::Storage::Raw);
    records[0] = header.to_bytes();
    let file = unspool_testing::example("example.astf");
    for (what, bytes) in [("as records", records.concat()), ("as a file", std::fs::read(file).unwrap())] {
        let source = astf_of(bytes);
        assert!(source.2.len() > 10, "{what}");
        let bytes = round_trip(&source, what);
        // Accesses of ASTF have no data, so all are lost. That is reported, and the file is not clean without them.
        assert!(source.2.iter().any(|step| step.accesses().any(|access| is_lost(step, &access))), "{what}");
        assert_eq!(warnings(&bytes), BTreeSet::from(["stf-accesses-absent"]), "{what}");
    }
}

const LOG: &str = "\
1 clk R X0 0000000000000001
1 clk E 00000000:000000000000 00000001 CoreEvent_Reset
2 clk IT (2) 00001000 d2a00200 O EL3h_s : MOV x0,#0x100000
2 clk R X0 0000000000100000
3 clk IS (3) 00001004 b4000060 O EL3h_s : CBZ x0,{pc}+0xc
4 clk IT (4) 00001008 b5000040 O EL3h_s : CBNZ x0,{pc}+8
5 clk IT (5) 00001010 f9400001 O EL3h_s : LDR x1,[x0]
5 clk MR8 00100000 00000000_0000aabb
5 clk R w1 0000aabb
6 clk IT (6) 00001014 d63f0040 O EL3h_s : BLR x2
7 clk IT (7) 00002000 d4000003 O EL3h_s : SMC #0
7 clk R cpsr 6xxx03cd
7 clk E 00002000:000000002000 EL3h 00000084 CoreEvent_CURRENT_SPx_SYNC
7 clk R ELR_EL3 00000000:00002004
8 clk IT (8) 00003200 d69f03e0 O EL3h_s : ERET
9 clk IT (9) 00002004 54000041 O EL1h_ns : B.NE {pc}+8
";

fn log(text: &[u8]) -> Source {
    let input = Cursor::new(text.to_vec());
    let reader = tarmac::read::Reader::new(input, tarmac::read::ReadOptions::default()).unwrap();
    all(tarmac::steps::Steps::new(reader, false))
}

#[test]
fn tarmac_logs_survive_a_round_trip() {
    let bytes = round_trip(&log(LOG.as_bytes()), "a log");
    assert_eq!(warnings(&bytes), BTreeSet::new());
    // Most instructions need only their time.
    let times = records(&bytes).iter().filter(|record| *record == "unspool +1").count();
    assert!(times >= 6, "{:#?}", records(&bytes));
}

const LOGS: [&str; 6] = [
    "calculator-aarch32-es-ld-st-style",
    "calculator-aarch64-es-ld-st-style",
    "calculator-aarch64-fastmodel",
    "quicksort",
    "calltests/calltest32",
    "calltests/calltest64",
];

/// Needs the corpus: `UNSPOOL_CORPUS` names its folder.
#[test]
fn corpus_logs_survive_a_round_trip() {
    let Some(folder) = unspool_testing::corpus("tarmac") else { return };
    for name in LOGS {
        let source = log(&std::fs::read(folder.join(format!("{name}.tarmac"))).unwrap());
        assert!(source.2.len() > 10, "{name}");
        let bytes = round_trip(&source, name);
        let rules = warnings(&bytes);
        unspool_testing::note(format_args!("{name}: {} steps, {} bytes, {rules:?}", source.2.len(), bytes.len()));
    }
}

/// A file of Arm from another tool, with these records in its header and after it.
fn foreign(header: &[Record<'_>], body: &[Record<'_>]) -> Vec<u8> {
    let start = [Record::Identifier(*b"STF"), Record::Version { major: 1, minor: 6 }];
    let rest = [
        Record::Isa(2),
        Record::InstIem(2),
        Record::TraceInfo(TraceInfo { generator: 3, version: [1, 2, 3], comment: b"other" }),
        Record::TraceInfoFeature(0),
        Record::ForcePc(0x1000),
        Record::EndHeader,
    ];
    encoded(&[&start, header, &rest, body].concat())
}

fn brief(steps: &[Step]) -> Vec<String> {
    let brief = |step: &Step| match step.event {
        Event::Instruction(instruction) => {
            format!("{} {:x} {:?}", instruction.isa.name(), instruction.address, instruction.is_executed)
        }
        Event::Note => format!("note {}", step.note()),
        event => format!("{event:?}"),
    };
    steps.iter().map(brief).collect()
}

#[test]
fn comments_of_others_are_not_annotations() {
    let comment = |text: &'static str| Record::Comment(text.as_bytes());
    let announcement = comment("unspool steps 1: covers instructions, conditions; time cycles");
    let nop = Record::InstOpcode32(NOP);
    let body = [comment("unspool executed no"), nop, nop, Record::ForcePc(0x2000), nop, Record::ForcePc(0x2004), nop];
    let (covered, _, steps) = all(opened(foreign(&[comment("other 1"), comment("unspool 0.1")], &body)));
    assert!(covered.has(Facet::Data) && !covered.has(Facet::Conditions));
    let expected = [
        "note other 1",
        "note unspool executed no",
        "a64 1000 None",
        "a64 1004 None",
        "Gap(Start)",
        "a64 2000 None",
        "a64 2004 None",
    ];
    assert_eq!(brief(&steps), expected);
    // Comments are annotations only if the header announces them.
    let (covered, unit, steps) = all(opened(foreign(&[comment("other 1"), announcement], &body)));
    assert_eq!((covered.to_string().as_str(), unit), ("instructions, conditions", TimeUnit::Cycles));
    let expected =
        ["note other 1", "a64 1000 Some(false)", "a64 1004 Some(true)", "a64 2000 Some(true)", "a64 2004 Some(true)"];
    assert_eq!(brief(&steps), expected);
    // An unknown announcement is a note.
    let newer = comment("unspool steps 2: covers more");
    assert_eq!(brief(&all(opened(foreign(&[newer], &body))).2)[0], "note unspool steps 2: covers more");
}

#[test]
fn comments_of_riscv_are_notes() {
    let header = builder::Header { comments: &["made by hand"], ..builder::Header::new(0x1000) };
    let mut trace = builder::Builder::new(Vec::new(), &header).unwrap();
    trace.comment("here").unwrap();
    trace.instruction(&builder::Step::plain(0x1000, 0x13)).unwrap();
    trace.comment("unspool executed no").unwrap();
    trace.instruction(&builder::Step::plain(0x3000, 0x13)).unwrap();
    let (_, _, steps) = all(opened(trace.finish().sink));
    let expected = [
        "note made by hand",
        "note here",
        "rv64 1000 None",
        "note unspool executed no",
        "Gap(Start)",
        "rv64 3000 None",
    ];
    assert_eq!(brief(&steps), expected);
}

#[test]
fn unknown_annotations_are_notes() {
    let rows: &[&[u8]] = &[
        b"unspool",
        b"unspool ",
        b"unspool sing",
        b"unspool then sing",
        b"unspool time",
        b"unspool time -1",
        b"unspool time 1 2",
        b"unspool +",
        b"unspool +18446744073709551616",
        b"unspool isa rv99",
        b"unspool reg x0",
        b"unspool reg x0 0 123",
        b"unspool reg x0 0 1g",
        b"unspool read 20 8",
        b"unspool read 0x20",
        b"unspool context el=x",
        b"unspool context el",
        b"unspool context dit=1",
        b"unspool exception",
        b"unspool exception boom",
        b"unspool gap",
        b"unspool branch perhaps",
        b"unspool tagged twice",
        b"unspool note\xff",
    ];
    let announcement = Record::Comment(b"unspool steps 1: covers instructions; time ticks");
    for row in rows {
        let body = [Record::Comment(row), Record::InstOpcode32(NOP)];
        let (_, _, steps) = all(opened(foreign(&[announcement], &body)));
        let row = String::from_utf8_lossy(row).into_owned();
        let last = brief(&steps).join(", ");
        assert!(last.contains(&format!("note {row}")), "{row}: {last}");
    }
}
