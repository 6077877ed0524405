//! Decoding in shards gives the same as decoding in one, also where a shard depends on the data before it.
//!
//! Streams are made of random chunks that start, continue, break or contradict the trace, and are split at every start.

use proptest::prelude::*;
use unspool::capture::{BufferFormat, Code, Region, Register, Registers, Spaces};
use unspool::coresight::frame::Formatter;
use unspool::coresight::{Protocol, Transactions};
use unspool::{Parts, Program, Trace};

use super::fixtures::{FlowLines, bare_capture_of};

const SYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
const TRACE_INFO: [u8; 2] = [0x01, 0x00];

/// Random chunk of trace.
fn chunk() -> impl Strategy<Value = Vec<u8>> {
    let atoms = prop::collection::vec(prop_oneof![Just(0xf7), Just(0xf6), 0xd8..=0xdb_u8, 0xf8..=0xff_u8], 1..12);
    // A word of the program, with the context of EL0 or EL1.
    let position = (0..16_u8, prop_oneof![Just(0x30), Just(0x31)]);
    let address = position.prop_map(|(word, context)| vec![0x82, word, 0x40, 0, 0, context]);
    let timestamp = any::<u8>().prop_map(|time| vec![0x02, time & 0x7f]);
    let exception = (0..16_u8).prop_map(|word| vec![0x06, 0x1d, 0x9a, word, 0x40, 0, 0]);
    let start = Just([&SYNC[..], &TRACE_INFO].concat());
    prop_oneof![
        4 => (start.clone(), address.clone(), atoms.clone()).prop_map(|(a, b, c)| [a, b, c].concat()),
        // These rely on the data before them.
        2 => (start.clone(), atoms.clone()).prop_map(|(a, b)| [a, b].concat()),
        1 => (start.clone(), timestamp.clone(), address.clone()).prop_map(|(a, b, c)| [a, b, c].concat()),
        1 => (start.clone(), exception.clone()).prop_map(|(a, b)| [a, b].concat()),
        1 => start,
        // A synchronization with more zeros than it needs, as after a payload that ends with zeros.
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

/// Code at 0x8000, in all spaces.
pub(super) fn program_of(words: &[u32]) -> Program {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let regions = vec![Region { address: 0x8000, bytes: bytes.into(), spaces: Spaces::ANY }];
    Program::new(vec![Code { regions, ..Code::default() }])
}

/// Calls, returns, branches of both kinds and code in between.
fn program() -> Program {
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
    program_of(&WORDS)
}

/// Output of decoding in one and in shards, and the number of shards.
fn decode(bytes: &[u8], format: BufferFormat, configr: u64) -> ([Vec<String>; 2], usize) {
    let registers = [("TRCIDR8", 0), ("TRCCONFIGR", configr)];
    decode_as(Protocol::Ete, &registers, &program(), bytes, format)
}

pub(super) fn decode_as(
    protocol: Protocol,
    values: &[(&str, u64)],
    program: &Program,
    bytes: &[u8],
    format: BufferFormat,
) -> ([Vec<String>; 2], usize) {
    let mut registers = Registers::default();
    values.iter().for_each(|&(name, value)| registers.set(Register::new(name, value)));
    let (_folder, capture) = bare_capture_of(protocol, bytes, format, registers);
    let trace = Trace::all(&capture)[0];
    let mut one = FlowLines::default();
    trace.flow(Transactions::Show, program, &mut one).unwrap();
    let (mut lines, mut count) = (vec![], 0);
    let mut join = |shard: FlowLines, _| {
        lines.extend(shard.0);
        count += 1;
        true
    };
    let parts = Parts::on(2).of_bytes(1);
    trace.flow_in_parts(parts, Transactions::Show, program, FlowLines::default, &mut join).unwrap();
    ([one.0, lines], count)
}

/// A buffer of these chunks, with a barrier after every seventh if it is formatted.
pub(super) fn buffer(chunks: &[Vec<u8>], formatted: bool) -> (Vec<u8>, BufferFormat) {
    if !formatted {
        return (chunks.concat(), BufferFormat::Raw);
    }
    let mut formatter = Formatter::new();
    for (index, chunk) in chunks.iter().enumerate() {
        formatter.push(0x10, chunk);
        if index % 7 == 6 {
            formatter.barrier();
        }
    }
    (formatter.finish(), BufferFormat::Formatted)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shards_make_no_difference(
        chunks in prop::collection::vec(chunk(), 1..24),
        formatted in any::<bool>(),
        return_stack in any::<bool>(),
    ) {
        let (bytes, format) = buffer(&chunks, formatted);
        let ([one, shards], _) = decode(&bytes, format, if return_stack { 0x1001 } else { 1 });
        prop_assert_eq!(one, shards);
    }
}

#[test]
fn there_are_shards() {
    let shard = [&SYNC[..], &TRACE_INFO, &[0x82, 0, 0x40, 0, 0, 0x30, 0xf7]].concat();
    let ([one, shards], count) = decode(&shard.repeat(20), BufferFormat::Raw, 1);
    assert_eq!(one, shards);
    assert!(count > 15, "{count} shards");
}
