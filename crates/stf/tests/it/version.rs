//! Traces rewritten in another version: convertible records are kept, others are counted as losses.

use crate::build::program;

use program::{program, trace};
use unspool_stf::builder::{SIGNATURE, StfVersion};
use unspool_stf::check::Severity;
use unspool_stf::record::{Event, Record, Register, TraceInfo, Transaction};
use unspool_stf::version::Rewriter;

use crate::fixtures::{each_record, findings};

fn header(features: u64, iem: u16) -> Vec<Record<'static>> {
    vec![
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 5 },
        Record::Comment(b"made by a test"),
        Record::Isa(1),
        Record::InstIem(iem),
        Record::TraceInfo(TraceInfo { generator: 6, version: [1, 2, 3], comment: b"a test" }),
        Record::TraceInfoFeature(features),
        Record::ForcePc(0x8000_0000),
    ]
}

/// The rewritten records, without those that name this tool.
fn rewrite(records: &[Record<'_>], version: StfVersion) -> (Vec<String>, Rewriter) {
    let (mut rewriter, mut bytes) = (Rewriter::new(version), Vec::new());
    records.iter().for_each(|record| rewriter.record(record, &mut bytes));
    (unsigned(&bytes), rewriter)
}

fn unsigned(bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    each_record(bytes, |record| {
        let is_ours = match record {
            Record::Comment(text) => *text == SIGNATURE.as_bytes(),
            Record::TraceInfo(info) => info.comment == SIGNATURE.as_bytes(),
            _ => false,
        };
        if !is_ours {
            all.push(format!("{record:?}"));
        }
    });
    all
}

fn event(raw: u64, is_wide: bool) -> Record<'static> {
    Record::Event(Event { raw, is_wide, data: &[3, 0, 0, 0, 0, 0, 0, 0] })
}

#[test]
fn records_are_converted_to_the_version() {
    let vector = Record::InstReg(Register { number: 7, meta: 0x33, value: &[1; 16] });
    let (end, nop) = (Record::EndHeader, Record::InstOpcode32(0x13));
    let (old, new) = (StfVersion::V1_3, StfVersion::V1_6);
    let wide = [event(1 << 62, true), event(1 << 63 | 5, true), event(13, true)];
    let narrow = [event(1 << 30, false), event(1 << 31 | 5, false), event(13, false)];
    let extended = [Record::VlenConfig(128), Record::IsaExtended(b"rv64gcv"), end, vector, vector, nop];
    let dropped: &[(&str, u64)] =
        &[("length of vector registers", 1), ("list of extensions", 1), ("vector register", 2)];
    type Row<'a> = (&'a str, StfVersion, (u64, u16), Vec<Record<'a>>, u64, Vec<Record<'a>>, &'a [(&'a str, u64)]);
    let body = |events: &[Record<'static>]| [&[end], events, &[nop]].concat();
    let rows: Vec<Row<'_>> = vec![
        ("wide events become narrow", old, (0x8_0020, 2), body(&wide), 0x20, body(&narrow), &[]),
        ("narrow events become wide in RV64", new, (0x20, 2), body(&narrow), 0x8_0020, body(&wide), &[]),
        ("the features imply RV64", new, (0x20, 1), body(&[]), 0x8_0020, body(&[]), &[]),
        ("narrow events stay in RV32", new, (0, 1), body(&narrow), 0, body(&narrow), &[]),
        (
            "a number of more than 30 bits",
            old,
            (0x8_0020, 2),
            body(&[event(1 << 30, true)]),
            0x20,
            body(&[]),
            &[("event whose number has more than 30 bits", 1)],
        ),
        ("vectors and extensions", old, (0xc_0020, 2), extended.to_vec(), 0x20, body(&[]), dropped),
        ("vectors and extensions stay", new, (0xc_0020, 2), extended.to_vec(), 0xc_0020, extended.to_vec(), &[]),
        (
            "a header without an end",
            old,
            (0x8_0020, 2),
            body(&wide)[1..].to_vec(),
            0x20,
            body(&narrow)[1..].to_vec(),
            &[],
        ),
    ];
    for (name, version, (features, iem), body, features_after, body_after, losses) in rows {
        let (found, rewriter) = rewrite(&[header(features, iem), body].concat(), version);
        let mut expected = [header(features_after, iem), body_after].concat();
        expected[1] = Record::Version { major: 1, minor: version.minor() };
        let expected: Vec<String> = expected.iter().map(|record| format!("{record:?}")).collect();
        assert_eq!(found, expected, "{name}");
        assert!(rewriter.losses().eq(losses.iter().copied()), "{name}");
        assert!(!rewriter.is_impossible(), "{name}");
    }
}

#[test]
fn wide_events_are_announced() {
    let mut records = header(0, 2);
    records.remove(6);
    records.extend([Record::EndHeader, event(1 << 30, false), Record::InstOpcode32(0x13)]);
    let (found, _) = rewrite(&records, StfVersion::V1_6);
    assert_eq!(found[6], format!("{:?}", Record::TraceInfoFeature(0x8_0000)));
    assert_eq!(found[9], format!("{:?}", event(1 << 62, true)));
    let (found, _) = rewrite(&records, StfVersion::V1_3);
    assert_eq!(found.len(), records.len());
}

#[test]
fn version_1_3_has_no_transactions() {
    let transaction =
        Transaction { id: 1, cycles: 1, clock: 1, count: 0, metadata: &[], data: &[5, 0, 0, 0, 0, 0, 0, 0, 0] };
    let rows = [
        ("a protocol", Record::ProtocolId(1)),
        ("a clock", Record::ClockId { id: 1, name: b"clk" }),
        ("a transaction", Record::Transaction(transaction)),
        ("a dependency", Record::TransactionDependency { id: 1, cycles: 1, clock: 1 }),
    ];
    for (name, record) in rows {
        for (version, is_impossible) in [(StfVersion::V1_3, true), (StfVersion::V1_6, false)] {
            let (mut rewriter, mut bytes) = (Rewriter::new(version), Vec::new());
            header(0, 1).iter().chain([&record]).for_each(|record| rewriter.record(record, &mut bytes));
            assert_eq!(rewriter.is_impossible(), is_impossible, "{name}");
        }
    }
}

#[test]
fn full_trace_is_converted_to_1_3_and_back() {
    let numbers: Vec<u64> = (0..200).map(|number| number * 0x9_8765_4321_0123 + number).collect();
    let first = rewritten(&trace(&program(&numbers)), StfVersion::V1_3);
    let new = rewritten(&first, StfVersion::V1_6);
    let second = rewritten(&new, StfVersion::V1_3);
    assert_eq!(unsigned(&first), unsigned(&second));
    for bytes in [first, new, second] {
        assert!(findings(&bytes).iter().all(|finding| finding.rule.severity == Severity::Warning));
    }
}

fn rewritten(bytes: &[u8], version: StfVersion) -> Vec<u8> {
    let (mut rewriter, mut rewritten) = (Rewriter::new(version), Vec::new());
    each_record(bytes, |record| rewriter.record(record, &mut rewritten));
    rewritten
}
