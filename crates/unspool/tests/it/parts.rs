//! Decoding in parts gives what decoding in one gives, also where a part depends on what came before.
//!
//! Streams are put together from pieces that start, go on, break or lie, and are cut at every start that there is.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::fs;

use proptest::prelude::*;
use unspool::capture::{BufferFormat, Register, Registers};
use unspool::coresight::frame::Formatter;
use unspool::coresight::{Protocol, Transactions};
use unspool::flow::{Callback, CodeMemory, FlowItem, FlowSink, Run, Space};
use unspool::{Bare, Parts, Trace, Watch, open_bare};

/// Everything that decoding says, a line each.
#[derive(Default)]
struct Lines(Vec<String>);

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        let offset = run.offset();
        self.0.extend(run.ranges().map(|range| format!("{offset:#x} {range:?} {}", range.instructions())));
    }

    fn item(&mut self, item: FlowItem) {
        self.0.push(format!("{item:?}"));
    }
}

impl Watch for Lines {}

const SYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
const TRACE_INFO: [u8; 2] = [0x01, 0x00];

/// One piece of trace.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let atoms = prop::collection::vec(prop_oneof![Just(0xf7), Just(0xf6), 0xd8..=0xdb_u8, 0xf8..=0xff_u8], 1..12);
    // A word of the program, with the context of EL0 or EL1.
    let position = (0..16_u8, prop_oneof![Just(0x30), Just(0x31)]);
    let address = position.prop_map(|(word, context)| vec![0x82, word, 0x40, 0, 0, context]);
    let timestamp = any::<u8>().prop_map(|time| vec![0x02, time & 0x7f]);
    let exception = (0..16_u8).prop_map(|word| vec![0x06, 0x1d, 0x9a, word, 0x40, 0, 0]);
    let start = Just([&SYNC[..], &TRACE_INFO].concat());
    prop_oneof![
        4 => (start.clone(), address.clone(), atoms.clone()).prop_map(|(a, b, c)| [a, b, c].concat()),
        // These rely on what came before.
        2 => (start.clone(), atoms.clone()).prop_map(|(a, b)| [a, b].concat()),
        1 => (start.clone(), timestamp.clone(), address.clone()).prop_map(|(a, b, c)| [a, b, c].concat()),
        1 => (start.clone(), exception.clone()).prop_map(|(a, b)| [a, b].concat()),
        1 => start,
        // A synchronisation with more zeros than it needs, as behind a payload that ends with them.
        1 => (1..4_usize, atoms.clone()).prop_map(|(more, b)| [&vec![0; more][..], &SYNC, &TRACE_INFO, &b].concat()),
        2 => atoms,
        1 => address,
        1 => timestamp,
        1 => exception,
        1 => Just(vec![0x04]),
        1 => Just(vec![0x00, 0x05]),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ]
}

/// Calls, returns, branches of both kinds and code in between.
fn code(address: u64, _space: Space, buffer: &mut [u8]) -> usize {
    const WORDS: [u32; 16] = [
        0xd503_201f,
        0x9400_0007,
        0x5400_0041,
        0xd503_201f,
        0x1400_0002,
        0xd503_3fdf,
        0xd61f_0000,
        0x17ff_fff9,
        0xd503_201f,
        0xd65f_03c0,
        0x5400_ff21,
        0x9400_0003,
        0xd65f_03c0,
        0xd503_201f,
        0x1400_0000,
        0xd69f_03e0,
    ];
    let bytes: Vec<u8> = WORDS.iter().flat_map(|word| word.to_le_bytes()).collect();
    let Some(rest) = address.checked_sub(0x8000).and_then(|start| bytes.get(start as usize..)) else { return 0 };
    let length = rest.len().min(buffer.len());
    buffer[..length].copy_from_slice(&rest[..length]);
    length
}

/// In one, and in parts; how many parts there were.
fn decode(bytes: &[u8], format: BufferFormat, configr: u64) -> ([Vec<String>; 2], usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("buffer.bin");
    fs::write(&path, bytes).unwrap();
    let mut registers = Registers::default();
    for (name, value) in [("TRCIDR8", 0), ("TRCCONFIGR", configr)] {
        registers.set(Register::new(name, value));
    }
    let id = Some(0x10);
    let bare =
        Bare { protocol: Protocol::Ete, id, format: Some(format), registers, write_pointer: None, wrapped: None };
    let capture = open_bare(&[path], bare).unwrap();
    let trace = Trace::all(&capture)[0];
    let program = Callback(code);
    let one = in_one(&trace, &program);
    let (mut lines, mut count) = (vec![], 0);
    let mut take = |part: Lines, _| {
        lines.extend(part.0);
        count += 1;
        true
    };
    let parts = Parts::on(2).of_bytes(1);
    trace.flow_in_parts(parts, Transactions::Show, &program, Lines::default, &mut take).unwrap();
    ([one, lines], count)
}

fn in_one(trace: &Trace<'_>, program: &impl CodeMemory) -> Vec<String> {
    let mut lines = Lines::default();
    trace.flow(Transactions::Show, program, &mut lines).unwrap();
    lines.0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_make_no_difference(
        pieces in prop::collection::vec(piece(), 1..24),
        formatted in any::<bool>(),
        return_stack in any::<bool>(),
    ) {
        let bytes = match formatted {
            false => pieces.concat(),
            true => {
                let mut formatter = Formatter::new();
                for (index, piece) in pieces.iter().enumerate() {
                    formatter.push(0x10, piece);
                    if index % 7 == 6 {
                        formatter.barrier();
                    }
                }
                formatter.finish()
            }
        };
        let format = if formatted { BufferFormat::Formatted } else { BufferFormat::Raw };
        let ([one, parts], _) = decode(&bytes, format, if return_stack { 0x1001 } else { 1 });
        prop_assert_eq!(one, parts);
    }
}

#[test]
fn there_are_parts() {
    let part = [&SYNC[..], &TRACE_INFO, &[0x82, 0, 0x40, 0, 0, 0x30, 0xf7]].concat();
    let ([one, parts], count) = decode(&part.repeat(20), BufferFormat::Raw, 1);
    assert_eq!(one, parts);
    assert!(count > 15, "{count} parts");
}
