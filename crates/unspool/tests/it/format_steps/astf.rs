//! Steps of ASTF files.

use std::io::Cursor;

use unspool::astf::read::Reader;
use unspool::astf::record::{Context, Header, Instruction, Level, Record, Storage, Timestamp, Trap};
use unspool::astf::steps::Steps;
use unspool::model::{Loss, Lost, Modes, StepSource, TimeUnit};

use super::*;

pub(super) fn open(bytes: Vec<u8>) -> Steps<Cursor<Vec<u8>>> {
    Steps::new(Reader::in_place(Cursor::new(bytes)).unwrap())
}

fn header(timestamps: bool) -> Header {
    Header::new(Level::BasicPlus, timestamps, Storage::Raw)
}

fn trace(timestamps: bool, records: &[Record]) -> Vec<u8> {
    header(timestamps).to_bytes().into_iter().chain(records.iter().flat_map(Record::to_bytes)).collect()
}

fn example() -> Vec<u8> {
    let mut records = unspool::astf::example::records();
    records[0] = header(true).to_bytes();
    records.concat()
}

#[test]
fn accesses_have_no_data() {
    let covered = "instructions, opcodes, branches, accesses, exceptions, levels, security, processes, times";
    assert_eq!(open(example()).coverage().to_string(), covered);
    let expected = [
        "@2 note An example that has records of several kinds",
        "@5 t100 level 0 NonSecure process 29192",
        "@6 t100 a64 836e128 6b00007f",
        "@7 t100 a64 836e12c 54fffde1 not taken",
        "@8 t100 a64 836e130 a94153f3, reads 16 at ffffe7624250",
        "@9 t100 a64 836e134 1dc00693, writes 16 at a4330b765010",
        "@10 t100 a64 836e138 1dc04693, writes 96 at a4330b765020",
        "@11 t100 a64 836e13c 1dc08693, writes 0 at a4330b765080",
        "@12 t100 a64 836e140 d63f0040 -> ffff83ffb2f0",
        "@13 t100 a64 ffff83ffb2f0 2949b0cb, reads 4 at a4330b765ffc, reads 4 at a4330b766000",
        "@15 t100 a64 ffff83ffb2f4 a88130eb, tries 16 at ffff95ceb000",
        "@15 t100 Synchronous to ffff7dfffe7fc400",
        "@18 t102 level 1 NonSecure",
        "@19 t102 a64 ffff7dfffe7fc400 d503437f",
        "@20 t102 level 1 NonSecure",
        "@21 t102 a64 ffff7dfffe7fc404 e1000004, reads 64 at ffff8000053bd500",
    ];
    assert_steps(|| open(example()), &expected);
}

#[test]
fn steps_have_modes_tags_indices_and_classes() {
    assert_eq!(open(example()).time_unit(), TimeUnit::MICROSECONDS);
    let steps = collect(open(example()));
    let modes: Vec<Modes> = contexts(&steps).iter().filter_map(|context| context.modes).collect();
    let kernel = Modes { vector_length: 1, tag_check_fault: 3, ..Modes::default() };
    let expected = [
        Modes { ssbs: true, tag_check_fault: 1, ..Modes::default() },
        kernel,
        Modes { streaming: true, vector_length: 3, ..kernel },
    ];
    assert_eq!(modes, expected);
    let tags: Vec<bool> = steps.iter().flat_map(|step| step.accesses().map(|access| access.is_tagged)).collect();
    assert_eq!(tags, [false, true, true, false, true, true, true, false]);
    let indices: Vec<u8> = steps.iter().filter_map(|step| step.event.instruction()?.za_index).collect();
    assert_eq!(indices, [5]);
    let classes: Vec<Option<u8>> = exceptions(&steps).iter().map(|exception| exception.class).collect();
    assert_eq!(classes, [Some(0x24)]);
}

#[test]
fn calls_times_and_unsupported_modes() {
    let time = |value| Record::Timestamp(Timestamp { unit: 1, value, ..Timestamp::default() });
    let context = |unsupported| Record::Context(Context { el: 1, unsupported, ..Context::default() });
    let call = Trap { syscall_type: 1, syscall_index: 7, ec: 0x15, target_pc: 0x400, ..Trap::default() };
    let svc = Instruction { pc: 0x1000, iword: 0xd400_0001, trap: true, ..Instruction::default() };
    let records = [
        time(5),
        context(false),
        Record::Instruction(svc),
        Record::Trap(call),
        context(true),
        time(6),
        time(7),
        Record::Trap(Trap { trap_type: 2, is_virtual: true, target_pc: 0x480, ..Trap::default() }),
        context(false),
        time(9),
    ];
    let bytes = trace(true, &records);
    let expected = [
        "@3 t5 level 1 NonSecure",
        "@4 t5 a64 1000 d4000001",
        "@4 t5 Synchronous to 400",
        "@6 t5 level 1 NonSecure",
        "@6 t5 gap Start",
        "@7 t6 state",
        "@9 t7 Irq to 480",
        "@10 t7 level 1 NonSecure",
        "@11 t9 state",
    ];
    assert_eq!(lines(open(bytes.clone())), expected);
    let exceptions = exceptions(&collect(open(bytes)));
    assert_eq!((exceptions[0].class, exceptions[0].call, exceptions[0].is_virtual), (Some(0x15), Some(7), None));
    assert_eq!((exceptions[1].class, exceptions[1].call, exceptions[1].is_virtual), (None, None, Some(true)));
}

#[test]
fn exception_return_is_a_branch() {
    let eret = Instruction { pc: 0x1000, iword: 0xd69f_03e0, ..Instruction::default() };
    let trap = |trap_type, target_pc| Record::Trap(Trap { trap_type, target_pc, ..Trap::default() });
    let source = open(trace(false, &[Record::Instruction(eret), trap(4, 0x8000), trap(2, 0x9000), trap(5, 0)]));
    assert!(!source.coverage().has(Facet::Times));
    let expected = ["@2 a64 1000 d69f03e0 -> 8000", "@2 return to 8000", "@4 Irq to 9000", "@5 Reset to 0"];
    assert_eq!(lines(source), expected);
}

#[test]
fn steps_before_damage_are_emitted() {
    let mut bytes = example();
    bytes.truncate(7 * 32 + 5);
    let (lines, ended) = all(open(bytes));
    assert_eq!(lines.len(), 4);
    assert!(ended.unwrap().contains("cut short"));
}

#[test]
fn invalid_text_is_counted() {
    let mut bytes = example();
    let at = bytes.windows(7).position(|word| word == b"example").unwrap();
    bytes[at + 6] = 0xe9;
    for (bytes, expected) in [(example(), None), (bytes, Some((at / 32) as u64 + 1))] {
        let (steps, losses) = collect_with_losses(open(bytes));
        assert_eq!(notes(&steps)[0].starts_with("An exampl\u{fffd} that"), expected.is_some());
        let lost = expected.map_or(Lost::default(), |first| Lost { count: 1, first });
        assert_eq!(losses.of(Loss::Notes), lost);
    }
}
