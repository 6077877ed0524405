//! The example: every record has the field values of the specification's tables, as corrected where they contradict its
//! figure. Fields that a table leaves out are zero.

#![allow(clippy::unwrap_used, clippy::panic)]

use unspool_astf::builder::Builder;
use unspool_astf::example;
use unspool_astf::lift::Item;
use unspool_astf::read::{ReadOptions, Reader};
use unspool_astf::record::{
    Context, ExtraEa, Header, Instruction, Record, StringContinuation, StringStart, Timestamp, Trap,
};
use unspool_astf::write::WriteOptions;
use unspool_astf::{Access, Extent};

use crate::support::lift;

fn instruction(pc: u64, iword: u32) -> Instruction {
    Instruction { pc, iword, ..Default::default() }
}

/// The tables, record by record.
fn expected() -> Vec<Record> {
    let mut start = [0; 28];
    start.copy_from_slice(b"An example that has records ");
    let mut rest = [0; 31];
    rest[..16].copy_from_slice(b"of several kinds");
    let kernel = Context { evl: 1, mte_tcf: 3, el: 1, handler: true, ..Default::default() };
    let range = |pc, iword, ea, xattr, ea_tagged| Instruction {
        xattr_mode: 1,
        ea_tagged,
        is_write: true,
        ea_valid: true,
        ea,
        xattr,
        ..instruction(pc, iword)
    };
    vec![
        Record::Header(Header {
            magic: *b"STF",
            version_minor: 11,
            compressed: true,
            timestamps: true,
            ..Default::default()
        }),
        Record::StringStart(StringStart { reserved8: 0, size: 44, string: start }),
        Record::StringContinuation(StringContinuation { string: rest }),
        Record::Timestamp(Timestamp { unit: 1, value: 100, ..Default::default() }),
        Record::Context(Context {
            pstate_ssbs: true,
            mte_tcf: 1,
            pid_valid: true,
            tid_valid: true,
            pid: 29192,
            tid: 29197,
            ..Default::default()
        }),
        Record::Instruction(instruction(0x836_e128, 0x6b00_007f)),
        Record::Instruction(Instruction { is_branch: true, ..instruction(0x836_e12c, 0x54ff_fde1) }),
        Record::Instruction(Instruction {
            is_read: true,
            ea_valid: true,
            ea_size: 15,
            ea: 0xffff_e762_4250,
            ..instruction(0x836_e130, 0xa941_53f3)
        }),
        Record::Instruction(range(0x836_e134, 0x1dc0_0693, 0xa433_0b76_5010, 0x10, true)),
        Record::Instruction(range(0x836_e138, 0x1dc0_4693, 0xa433_0b76_5020, 0x60, true)),
        Record::Instruction(range(0x836_e13c, 0x1dc0_8693, 0xa433_0b76_5080, 0, false)),
        Record::Instruction(Instruction {
            is_branch: true,
            ea_valid: true,
            ea: 0xffff_83ff_b2f0,
            ..instruction(0x836_e140, 0xd63f_0040)
        }),
        Record::Instruction(Instruction {
            ea_tagged: true,
            is_read: true,
            ea_valid: true,
            extra_eas: true,
            ea_size: 3,
            ea: 0xa433_0b76_5ffc,
            ..instruction(0xffff_83ff_b2f0, 0x2949_b0cb)
        }),
        Record::ExtraEa(ExtraEa {
            mem0_tagged: true,
            mem0_is_read: true,
            mem0_size: 3,
            mem0_addr: 0xa433_0b76_6000,
            ..Default::default()
        }),
        Record::Instruction(Instruction {
            ea_tagged: true,
            trap: true,
            ea_valid: true,
            ea_size: 15,
            ea: 0xffff_95ce_b000,
            ..instruction(0xffff_83ff_b2f4, 0xa881_30eb)
        }),
        Record::Trap(Trap { ec: 0x24, target_pc: 0xffff_7dff_fe7f_c400, ..Default::default() }),
        Record::Timestamp(Timestamp { unit: 1, value: 102, ..Default::default() }),
        Record::Context(kernel),
        Record::Instruction(instruction(0xffff_7dff_fe7f_c400, 0xd503_437f)),
        Record::Context(Context { pstate_sm: true, evl: 3, ..kernel }),
        Record::Instruction(Instruction {
            xattr_mode: 2,
            is_read: true,
            ea_valid: true,
            ea_size: 63,
            ea: 0xffff_8000_053b_d500,
            xattr: 5,
            ..instruction(0xffff_7dff_fe7f_c404, 0xe100_0004)
        }),
    ]
}

#[test]
fn the_builder_makes_the_records_of_the_tables() {
    let made: Vec<Record> = example::records().iter().map(Record::from_bytes).collect();
    for (number, (made, expected)) in (1..).zip(made.iter().zip(&expected())) {
        assert_eq!(made, expected, "record {number}");
    }
    assert_eq!(made.len(), 21);
}

#[test]
fn lifted_instructions_have_their_accesses_and_traps() {
    let mut lines = Vec::new();
    lift(&example::records(), |number: u64, item: Item<'_>| match item {
        Item::Instruction(executed) => {
            let el = executed.context.map(|context| context.el);
            let trap = executed.trap.map(|trap| trap.ec);
            let bytes: Vec<u64> = executed.accesses.iter().map(|access| access.extent.bytes()).collect();
            assert_eq!(executed.record, number);
            lines.push(format!("{number} el{} t{} {bytes:?} {trap:?}", el.unwrap(), executed.time.unwrap()));
            if number == 13 {
                let access =
                    |address| Access { address, extent: Extent::Bytes(4), read: true, write: false, tagged: true };
                assert_eq!(executed.accesses, [access(0xa433_0b76_5ffc), access(0xa433_0b76_6000)]);
            }
        }
        Item::String(text) => lines.push(format!("{number} {}", String::from_utf8_lossy(text))),
        Item::Timestamp(timestamp) => lines.push(format!("{number} time {}", timestamp.value)),
        Item::Context(context) => lines.push(format!("{number} context el{}", context.el)),
        other => panic!("{other:?}"),
    });
    let expected = [
        "2 An example that has records of several kinds",
        "4 time 100",
        "5 context el0",
        "6 el0 t100 [] None",
        "7 el0 t100 [] None",
        "8 el0 t100 [16] None",
        "9 el0 t100 [16] None",
        "10 el0 t100 [96] None",
        "11 el0 t100 [0] None",
        "12 el0 t100 [] None",
        "13 el0 t100 [4, 4] None",
        "15 el0 t100 [16] Some(36)",
        "17 time 102",
        "18 context el1",
        "19 el1 t102 [] None",
        "20 context el1",
        "21 el1 t102 [64] None",
    ];
    assert_eq!(lines, expected);
}

/// The file that is shipped, `examples/example.astf`. Set `UNSPOOL_BLESS=1` to rewrite it.
#[test]
fn the_shipped_file_is_the_example() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/example.astf");
    if std::env::var_os("UNSPOOL_BLESS").is_some() {
        let file = std::fs::File::create(path).unwrap();
        let mut trace = Builder::create(file, &example::header(), WriteOptions::default()).unwrap();
        example::build(&mut trace).unwrap();
        trace.close().unwrap();
    }
    let file = std::fs::File::open(path).unwrap();
    let mut reader = Reader::new(file, ReadOptions::default()).unwrap();
    assert_eq!(Record::Header(*reader.header()), expected()[0]);
    let mut records = Vec::new();
    loop {
        match reader.next_records().unwrap() {
            [] => break,
            some => records.extend(some.iter().map(Record::from_bytes)),
        }
    }
    assert_eq!(records, expected()[1..]);
}

#[test]
fn a_timestamp_may_precede_the_trap_of_an_instruction() {
    let records = [
        Record::Instruction(Instruction { trap: true, ..instruction(0x1000, 0xf940_0020) }),
        Record::Timestamp(Timestamp { unit: 1, value: 7, ..Default::default() }),
        Record::Trap(Trap { ec: 0x25, target_pc: 0x200, ..Default::default() }),
        Record::Instruction(instruction(0x200, 0xd69f_03e0)),
        Record::Timestamp(Timestamp { unit: 1, value: 8, ..Default::default() }),
        Record::Trap(Trap { trap_type: 4, target_pc: 0x1000, ..Default::default() }),
        Record::Timestamp(Timestamp { unit: 1, value: 9, ..Default::default() }),
    ];
    let mut lines = Vec::new();
    lift(&records.map(|record| record.to_bytes()), |number: u64, item: Item<'_>| {
        lines.push(match item {
            Item::Instruction(executed) => format!("{number} trap {:x?}", executed.trap.map(|trap| trap.target_pc)),
            Item::Timestamp(timestamp) => format!("{number} time {}", timestamp.value),
            other => format!("{number} {other:?}"),
        });
    });
    let expected = ["1 trap Some(200)", "2 time 7", "4 trap Some(1000)", "5 time 8", "7 time 9"];
    assert_eq!(lines, expected);
}
