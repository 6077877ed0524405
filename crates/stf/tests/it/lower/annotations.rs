//! Records and annotations of each kind of step, and refused steps.

use std::collections::BTreeSet;

use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Loss, Modes,
    SinkError, Step, TimeUnit,
};
use unspool_stf::builder::StfVersion;
use unspool_stf::lower::{LOSSES, LowerOptions, Lowerer, coverage};

use super::{
    NOP, all, assert_same, at, executed, few, lowered, note, on_core, opened, records, round_trip, step, text, warnings,
};

#[test]
fn records_contain_what_they_can() {
    let mut steps = vec![step(Event::Context(Context { level: Some(0), ..Context::default() }))];
    let mut load = executed(0x1000, 0xf940_0001); // ldr x1, [x0]
    load.write_register("x1", 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    load.access_known(Direction::Read, 0x2000, 8, (1..9).map(|byte| (byte, 0xff)));
    steps.push(load);
    // cbz x0, not taken and taken
    let branch = |address, branch| step(Event::Instruction(Instruction { branch, ..at(address, 0xb400_0060) }));
    steps.push(branch(0x1004, Some(Branch { taken: false, target: None })));
    steps.push(branch(0x1008, Some(Branch { taken: true, target: Some(0x1014) })));
    steps.push(executed(0x1014, 0xd400_0001)); // svc
    let exception = Exception {
        kind: ExceptionKind::Synchronous,
        class: Some(0x15),
        call: Some(0),
        target: Some(0x8400),
        ..Exception::default()
    };
    steps.push(step(Event::Exception(exception)));
    steps.push(step(Event::Context(Context { level: Some(1), ..Context::default() })));
    steps.push(executed(0x8400, NOP));
    steps.push(step(Event::Gap(Gap::Overflow)));
    steps.push(executed(0x8404, NOP));
    steps.push(note("the end"));
    let bytes = round_trip(&(few(), TimeUnit::Unknown, steps), "records");
    let expected = [
        "unspool context el=0",
        "reg 31 1 [1, 2, 3, 4, 5, 6, 7, 8]",
        "access 1 2000 8",
        "content 807060504030201",
        "event 4000000000000000 [0]",
        "opcode f9400001",
        "opcode b4000060",
        "target 1014",
        "opcode b4000060",
        // Its exceptions have no numbers, so there is no event.
        "unspool then exception synchronous class=0x15 call=0 target=0x8400",
        "event 4000000000000000 [1]",
        "opcode d4000001",
        "unspool context el=1",
        "force 8400",
        "opcode d503201f",
        "unspool gap overflow",
        "force 8404",
        "unspool then",
        "the end",
        "opcode d503201f",
    ];
    assert_eq!(records(&bytes), expected);
    assert_eq!(warnings(&bytes), BTreeSet::new());
}

/// An instruction that an exception ended needs neither an event, if its number is unknown, nor an access.
#[test]
fn exceptions_without_numbers_are_no_findings() {
    let exception = || step(Event::Exception(Exception::default()));
    let level = || step(Event::Context(Context { level: Some(1), ..Context::default() }));
    let timed = |mut step: Step, time| {
        step.time = Some(time);
        step
    };
    let of = |isa, address, opcode| step(Event::Instruction(Instruction { isa, ..at(address, opcode) }));
    let opcodes = [
        // ldr, svc, udf
        (Isa::A64, [0xf940_0001, 0xd400_0001, 0], NOP),
        // ld a0, (a0), ecall, all ones, which is never valid
        (Isa::Rv64, [0x0005_3503, 0x73, 0xffff_ffff], 0x13),
    ];
    for (isa, failing, nop) in opcodes {
        for opcode in failing {
            let first = || {
                let mut load = of(isa, 0x1000, failing[0]);
                load.access_known(Direction::Read, 0x2000, 8, (1..9).map(|byte| (byte, 0xff)));
                vec![level(), load]
            };
            let fails = || of(isa, 0x1004, opcode);
            let handler = || of(isa, 0x8000, nop);
            let rows = [
                ("at the end", vec![fails(), exception()]),
                ("at the end, after a context", vec![fails(), level(), exception()]),
                ("later", vec![timed(fails(), 3), timed(exception(), 5), handler()]),
                ("before a handler", vec![fails(), exception(), handler()]),
            ];
            for (name, rest) in rows {
                let name = format!("{opcode:#x}, {name}");
                let bytes = round_trip(&(few(), TimeUnit::Unknown, [first(), rest].concat()), &name);
                assert_eq!(warnings(&bytes), BTreeSet::new(), "{name}");
            }
            // The exception is in the group of the handler, so the invalid opcode has been reported.
            if opcode == failing[2] {
                continue;
            }
            let rest = vec![fails(), note("here"), exception(), handler()];
            let bytes = round_trip(&(few(), TimeUnit::Unknown, [first(), rest].concat()), "a note");
            assert_eq!(warnings(&bytes), BTreeSet::new(), "{opcode:#x}, after a note");
        }
    }
}

#[test]
fn registers_of_risc_v_are_records() {
    let mut add = step(Event::Instruction(Instruction { isa: Isa::Rv64, ..at(0x1000, 0x00b5_0533) })); // add a0, a0, a1
    add.write_register("x10", 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    add.write_register("f31", 0, &[7; 8]);
    add.write_register("f32", 0, &[7; 8]);
    let bytes = round_trip(&(few().with(Facet::Registers), TimeUnit::Unknown, vec![add]), "registers");
    let expected = [
        "unspool isa rv64",
        "reg 31 10 [1, 2, 3, 4, 5, 6, 7, 8]",
        "reg 32 31 [7, 7, 7, 7, 7, 7, 7, 7]",
        "unspool reg f32 0 0707070707070707",
        "opcode b50533",
    ];
    assert_eq!(records(&bytes), expected);
}

/// The header declares the features that records use, regardless of the coverage.
#[test]
fn only_used_features_are_declared() {
    let mut vector = executed(0x1000, NOP);
    vector.write_register("v0", 0, &[7; 16]);
    let mut general = executed(0x1004, NOP);
    general.write_register("x0", 0, &[7; 8]);
    let exception = step(Event::Exception(Exception::default()));
    for steps in [vec![vector.clone()], vec![vector, general, exception], vec![executed(0x1000, NOP)]] {
        let bytes = round_trip(&(coverage(), TimeUnit::Unknown, steps), "claims");
        assert!(!warnings(&bytes).contains("stf-feature-claim"));
    }
}

#[test]
fn comments_contain_the_rest() {
    let of = |change: fn(&mut Instruction)| {
        let mut instruction = at(0x1004, NOP);
        change(&mut instruction);
        step(Event::Instruction(instruction))
    };
    let with = |change: fn(&mut Step)| {
        let mut step = executed(0x1004, NOP);
        change(&mut step);
        step
    };
    let uncond = 0x1400_0010; // b
    let rows: Vec<(Step, &[&str])> = vec![
        (of(|_| {}), &[]),
        (of(|nop| nop.address = 0x3000), &["force 3000"]),
        (of(|nop| nop.is_executed = Some(false)), &["unspool executed no"]),
        (of(|nop| nop.is_executed = Some(true)), &["unspool executed yes"]),
        (of(|nop| nop.za_index = Some(3)), &["unspool za 3"]),
        (of(|nop| nop.branch = Some(Branch { taken: true, target: None })), &["unspool branch taken"]),
        (of(|nop| nop.branch = Some(Branch { taken: false, target: None })), &["unspool branch not-taken"]),
        (executed(0x1004, uncond), &["unspool branch unknown", "opcode 14000010"]),
        (executed(0x1004, 0xb400_0060), &["unspool branch unknown", "opcode b4000060"]),
        (of(|nop| nop.opcode = None), &["unspool then", "unspool instruction 0x1004 isa=a64 length=4"]),
        (of(|nop| nop.isa = Isa::A32), &["InstIem(1)", "unspool isa a32"]),
        (
            step(Event::Instruction(Instruction { length: 2, isa: Isa::T32, ..at(0x1004, 0x4770) })),
            &["InstIem(1)", "unspool isa t32", "unspool branch unknown", "opcode16 4770"],
        ),
        // The first halfword is the high one.
        (
            step(Event::Instruction(Instruction { isa: Isa::T32, ..at(0x1004, 0xf3af_8000) })),
            &["InstIem(1)", "unspool isa t32", "opcode f3af8000"],
        ),
        (with(|step| step.time = Some(12)), &["unspool time 12"]),
        // Accesses without all of their data are lost.
        (with(|step| step.access(Direction::Read, 0x20, 8)), &[]),
        (with(|step| step.access(Direction::Write, 0x20, 0)), &[]),
        (with(|step| step.access(Direction::Both, 0x20, 8)), &[]),
        (with(|step| step.access(Direction::Neither, 0x20, 64)), &[]),
        (with(|step| step.access_known(Direction::Read, 0x20, 3, [(1, 0xff), (0, 0), (2, 0xf)])), &[]),
        (
            with(|step| {
                step.access_known(Direction::Write, 0x20, 2, [(1, 0xff), (2, 0xff)]);
                step.tag_last_access();
            }),
            &["access 2 20 2", "content 201", "unspool tagged"],
        ),
        (
            with(|step| {
                step.access(Direction::Write, 0x20, 2);
                step.tag_last_access();
            }),
            &[],
        ),
        (with(|step| step.write_register("x1", 0, &[1, 2, 3, 4])), &["unspool reg x1 0 01020304"]),
        (with(|step| step.write_register("V1", 64, &[1; 2])), &["unspool reg v1 64 0101"]),
        (with(|step| step.write_register("x31", 0, &[0; 8])), &["unspool reg x31 0 0000000000000000"]),
        (with(|step| step.write_register("a b", 0, &[])), &["unspool reg a%20b 0"]),
        (with(|step| step.write_register("", 0, &[7])), &["unspool reg %00 0 07"]),
        (step(Event::ExceptionReturn { target: Some(16) }), &["unspool then return 0x10"]),
        (step(Event::ExceptionReturn { target: None }), &["unspool then return"]),
        (
            step(Event::Exception(Exception {
                kind: ExceptionKind::Irq,
                is_virtual: Some(true),
                ..Exception::default()
            })),
            &["unspool then exception irq virtual=yes"],
        ),
        (note("unspool is a tool"), &["unspool then", "unspool note unspool is a tool"]),
        (note(""), &["unspool then", ""]),
        (step(Event::Gap(Gap::NoCode(0x40))), &["unspool then", "unspool gap no-code 0x40"]),
        (
            step(Event::Context(Context { modes: Some(Modes::default()), vmid: Some(2), ..Context::default() })),
            &["unspool then", "unspool context vmid=2 streaming=no dit=no ssbs=no vl=0 tcf=0"],
        ),
    ];
    for (step, expected) in rows {
        let steps = vec![executed(0x1000, NOP), step];
        let bytes = round_trip(&(few(), TimeUnit::Unknown, steps.clone()), &text(&steps[1]));
        let mut found = records(&bytes);
        found.retain(|record| *record != "opcode d503201f");
        assert_eq!(found, expected);
    }
}

#[test]
fn impossible_input_is_refused() {
    assert_eq!(LOSSES, [Loss::Accesses]);
    let riscv = |isa| step(Event::Instruction(Instruction { isa, ..at(0x1000, 0x13) }));
    let first = executed(0x1000, NOP);
    let other_core = on_core(executed(0x1000, NOP), 1);
    let unknown = step(Event::Instruction(Instruction { opcode: None, ..at(0x1000, 0) }));
    let long = note(&"a".repeat(33 << 20));
    let rows: Vec<(Vec<Step>, Option<u64>, &str)> = vec![
        (vec![], None, "needs an instruction"),
        (vec![note("only that")], None, "needs an instruction"),
        (vec![unknown], None, "whose opcode is known"),
        (vec![first.clone(), riscv(Isa::Rv32)], Some(0), "of Arm or of RISC-V, and not of both"),
        (vec![riscv(Isa::Rv64), first.clone()], Some(0), "of Arm or of RISC-V, and not of both"),
        (vec![first.clone(), other_core], Some(9), "choose one with --core"),
        (vec![first, long], Some(0), "convert a part"),
    ];
    for (steps, position, reason) in rows {
        let lowered = lowered(&steps, coverage(), TimeUnit::Unknown, StfVersion::V1_6);
        let Err(SinkError::Refused { position: found, reason: text }) = lowered else { panic!("{reason}") };
        assert_eq!(found, position);
        assert!(text.contains(reason), "{text}");
    }
    let nothing = Lowerer::new(Vec::new(), Coverage::default(), TimeUnit::Unknown, &LowerOptions::default());
    assert!(nothing.is_err_and(|error| error.to_string().contains("the source has none")));
}

/// The only core may have any number.
#[test]
fn core_may_have_any_number() {
    let steps = [on_core(executed(0x1000, NOP), 3), on_core(executed(0x1004, NOP), 3)];
    let bytes = lowered(&steps, few(), TimeUnit::Unknown, StfVersion::V1_6).unwrap();
    assert_same(&all(opened(bytes)).2, &steps, "core 3");
}
