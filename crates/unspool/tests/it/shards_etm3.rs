//! Shards of ETMv3 trace, whose synchronizations leave some state to what came before: the time, data addresses, and the
//! atoms that may still be canceled. Decoding in shards gives the same as decoding in one.

use proptest::prelude::*;
use unspool::Program;
use unspool::capture::BufferFormat;
use unspool::coresight::Protocol;

use super::shards::{buffer, decode_as, program_of};

const SYNC: [u8; 6] = [0, 0, 0, 0, 0, 0x80];
const CYCLES: u64 = 1 << 12;
const TIMESTAMPS: u64 = 1 << 28;
const VMIDS: u64 = 1 << 30;
const DATA: u64 = 0xc;

/// Loads, stores, calls and branches of both kinds.
fn program() -> Program {
    const WORDS: [u32; 16] = [
        0xe591_0000, // 0x8000 ldr r0, [r1]
        0x0a00_0002, // 0x8004 beq 0x8014
        0xe080_0001, // 0x8008 add r0, r0, r1
        0xe581_0000, // 0x800c str r0, [r1]
        0xeaff_fffa, // 0x8010 b 0x8000
        0xeb00_0002, // 0x8014 bl 0x8024
        0x1a00_0000, // 0x8018 bne 0x8020
        0xe080_0001, // 0x801c add r0, r0, r1
        0xeaff_fff6, // 0x8020 b 0x8000
        0xe080_0001, // 0x8024 add r0, r0, r1
        0xe12f_ff1e, // 0x8028 bx lr
        0xe591_0000, // 0x802c ldr r0, [r1]
        0xe080_0001, // 0x8030 add r0, r0, r1
        0xe080_0001, // 0x8034 add r0, r0, r1
        0xe080_0001, // 0x8038 add r0, r0, r1
        0xeaff_fff0, // 0x803c b 0x8004
    ];
    program_of(&WORDS)
}

/// An instruction synchronization at a word of the program.
fn instruction_sync(word: u8, reason: u8) -> Vec<u8> {
    vec![0x08, reason << 5 | 1, 4 * word, 0x80, 0, 0]
}

/// A timestamp with all of its 64 bits.
fn whole_time(time: u8) -> Vec<u8> {
    [&[0x42][..], &[0x80 | time; 8], &[0]].concat()
}

/// Random chunk of trace.
fn chunk() -> impl Strategy<Value = Vec<u8>> {
    let atoms = prop::collection::vec(
        prop_oneof![Just(0x84_u8), Just(0x84), Just(0x88), Just(0xc0), Just(0xa4), Just(0xe4)],
        1..8,
    );
    let sync = (0..16_u8, prop_oneof![Just(0), Just(0), Just(0), Just(1), Just(2), Just(3)])
        .prop_map(|(word, reason)| instruction_sync(word, reason));
    let time = prop_oneof![(0..128_u8).prop_map(whole_time), (0..128_u8).prop_map(|time| vec![0x42, time]),];
    let branch = (0..16_u8).prop_map(|word| vec![word << 1 | 1]);
    // An interrupt that may cancel the last instruction.
    let exception = any::<bool>().prop_map(|cancels| vec![0x81, 0x80, 0x81, 0x80, 0x48, 0x1c | u8::from(cancels) << 5]);
    let address = (0..128_u8).prop_map(|low| vec![0x22, 0x80 | low, 0x80, 0x80, 0x80, 0x02]);
    let data = prop_oneof![address.clone(), (0..128_u8).prop_map(|low| vec![0x26, low, 0x55])];
    let start = || Just(SYNC.to_vec());
    prop_oneof![
        4 => (start(), sync.clone(), time.clone(), atoms.clone()).prop_map(|(a, b, c, d)| [a, b, c, d].concat()),
        3 => (start(), sync.clone(), Just(vec![0x3c, 7]), (0..128_u8).prop_map(whole_time), address, atoms.clone())
            .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].concat()),
        2 => (start(), sync.clone(), atoms.clone()).prop_map(|(a, b, c)| [a, b, c].concat()),
        1 => (start(), atoms.clone()).prop_map(|(a, b)| [a, b].concat()),
        1 => start(),
        2 => atoms.clone(),
        1 => (atoms, exception.clone()).prop_map(|(a, b)| [a, b].concat()),
        1 => exception,
        1 => branch,
        1 => sync,
        1 => time,
        1 => data,
        1 => (0..4_u8).prop_map(|vmid| vec![0x3c, vmid]),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

fn decode(cr: u64, bytes: &[u8], format: BufferFormat) -> ([Vec<String>; 2], usize) {
    let registers = [("ETMCR", cr), ("ETMIDR", 0x410c_f250), ("ETMCCER", 0x3440_08f2)];
    decode_as(Protocol::Etm3, &registers, &program(), bytes, format)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shards_make_no_difference(
        chunks in prop::collection::vec(chunk(), 1..24),
        formatted in any::<bool>(),
        options in prop::sample::subsequence(vec![CYCLES, TIMESTAMPS, VMIDS, DATA], 0..=4),
    ) {
        let (bytes, format) = buffer(&chunks, formatted);
        let ([one, shards], _) = decode(options.into_iter().sum(), &bytes, format);
        prop_assert_eq!(one, shards);
    }
}

#[test]
fn there_are_shards() {
    let shard = [&SYNC[..], &instruction_sync(2, 0), &whole_time(5), &[0x84, 0x84, 0x84]].concat();
    let ([one, shards], count) = decode(TIMESTAMPS, &shard.repeat(20), BufferFormat::Raw);
    assert_eq!(one, shards);
    assert!(count > 15, "{count} shards");
}
