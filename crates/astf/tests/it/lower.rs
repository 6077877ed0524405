//! Lowering of steps: what is derived, what is lost and counted, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

mod logs;
mod opcodes;
mod round_trip;
mod script;

use unspool_astf::Bytes;
use unspool_astf::lower::{LOSSES, LowerOptions, Lowerer, UnrecordedAccess, coverage, header};
use unspool_astf::record::{Level, Record};
use unspool_model::{
    Context, Coverage, Event, Facet, Instruction, Loss, Losses, Modes, Security, SinkError, Step, StepSink, TimeUnit,
};

use self::opcodes::*;
use self::script::{steps, text_of};
use crate::support::assert_no_errors;

const PLUS: Level = Level::BasicPlus;
const BASIC: Level = Level::Basic;
const NANOSECONDS: TimeUnit = TimeUnit::Seconds(-9);

/// Lowers the steps of a script, from a source that reports everything.
fn lower(script: &str, level: Level, unit: TimeUnit, assumed: Context) -> Result<(Vec<Bytes>, Losses), SinkError> {
    let coverage = Coverage::of(&Facet::ALL);
    let options = LowerOptions { level: Some(level), assumed, ..LowerOptions::default() };
    let header = header(coverage, unit, &options)?;
    let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, coverage, unit, &options)?;
    steps(script).iter().try_for_each(|step| lowerer.push(step))?;
    lowerer.finish()?;
    let losses = lowerer.losses().clone();
    let records = lowerer.into_sink();
    assert_no_errors(&records, script);
    Ok((records, losses))
}

#[test]
fn unrecorded_accesses_are_left_out_by_kind() {
    let options = LowerOptions { level: Some(BASIC), leave_out: true, ..LowerOptions::default() };
    let facets = Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Accesses, Facet::Levels, Facet::Security]);
    let lowered = |opcode: u32| {
        let header = header(facets, TimeUnit::Unknown, &options).unwrap();
        let sink = vec![header.to_bytes()];
        let mut lowerer = Lowerer::new(sink, &header, facets, TimeUnit::Unknown, &options).unwrap();
        let modes = Some(Modes { vector_length: 3, ..Modes::default() });
        let context = Context { level: Some(0), security: Some(Security::NonSecure), modes, ..Context::default() };
        let mut step = Step::default();
        step.event = Event::Context(context);
        lowerer.push(&step)?;
        for (address, opcode) in [(0x1000, NOP), (0x1004, opcode), (0x1008, opcode), (0x100c, NOP)] {
            let opcode = Some(opcode);
            step.event = Event::Instruction(Instruction { address, opcode, length: 4, ..Instruction::default() });
            lowerer.push(&step)?;
        }
        lowerer.finish()?;
        let left_out: Vec<_> = lowerer.left_out().map(|one| (one.kind, one.count, one.first)).collect();
        let lost = lowerer.losses().of(Loss::Instructions).count;
        assert_no_errors(&lowerer.into_sink(), &format!("{opcode:#x}"));
        Ok::<_, SinkError>((left_out, lost))
    };
    let rows: &[(&str, u32, Option<UnrecordedAccess>)] = &[
        ("a prefetch", PRFM, Some(UnrecordedAccess::Prefetches)),
        ("a cache operation", DC, Some(UnrecordedAccess::CacheMaintenance)),
        ("a zeroed block", ZVA, Some(UnrecordedAccess::Zeroing)),
        ("a vector, perhaps kept from memory by its predicate", LD1B, Some(UnrecordedAccess::Vectors)),
        ("an exclusive store that failed", STXR, None),
        ("no access at all", ADD, None),
    ];
    for (name, opcode, kind) in rows {
        let expected: Vec<_> = kind.iter().map(|kind| (*kind, 2, 0x1004)).collect();
        let count = 2 * expected.len() as u64;
        assert_eq!(lowered(*opcode).unwrap(), (expected, count), "{name}");
    }
    for opcode in [LDR, STR, LDADD, CAS] {
        assert!(lowered(opcode).unwrap_err().to_string().contains("has no address"), "{opcode:#x}");
    }
}

#[test]
fn unreported_facts_are_derived() {
    let rows: &[(&str, Level, &str, &str)] = &[
        (
            "targets of branches",
            PLUS,
            "el0; 100 b.eq; 108 b.eq; 10c ret; 200 b; 208 nop",
            "el0t, 100 b 108+1, 108 b, 10c b 200+1, 200 b 208+1, 208",
        ),
        (
            "the class of a call, of a breakpoint, of an abort",
            PLUS,
            "el1; 100 svc; sync - 400; 400 brk; sync - 400 esr=3c; 400 ldr far_el1=5008; sync - 400 esr=25; 400 nop",
            "el1h, 100 t, trap 0 class 15 call 5 to 400, 400 t, trap 0 class 3c call 0 to 400, 400 t 5008+8, \
             trap 0 class 25 call 0 to 400, 400",
        ),
        (
            "an abort after a completed access is not its own",
            PLUS,
            "el1; 100 ldr r500+8; sync 25 400; 400 nop",
            "el1h, 100 r 500+8, trap 0 class 25 call 0 to 400, 400",
        ),
        (
            "the target of an interrupted branch",
            PLUS,
            "el1; 100 b.eq; irq - 480 elr_el1=108; 480 nop",
            "el1h, 100 b 108+1, trap 2 class 0 call 0 to 480, 480",
        ),
        (
            "the target of an exception return",
            PLUS,
            "el1; 100 eret; return -; el0; 8 nop",
            "el1h, 100, trap 4 class 0 call 0 to 8, el0t, 8",
        ),
        (
            "a reset that leads to the first instruction",
            PLUS,
            "reset - 100; el1; 100 nop",
            "trap 5 class 0 call 0 to 100, el1h, 100",
        ),
        (
            "the stack pointer and modes that an instruction selects",
            BASIC,
            "ctx level=1 secure; 100 spsel; 104 smstart; 108 nop",
            "el1h secure, 100, el1t secure, 104, el1t secure sm, 108",
        ),
        ("a pair in two lines", PLUS, "el0; 100 ldp r508+8 r500+8", "el0t, 100 r 500+16"),
        (
            "gaps in a Basic trace",
            BASIC,
            "el0; 100 nop; gap overflow; 200 nop; 300 nop",
            "el0t, 100, gap: the trace unit had no r, el0t, 200, gap: execution goes on elsew, el0t, 300",
        ),
        ("a start is not a gap", PLUS, "gap start; el0; 100 nop", "el0t, 100"),
        ("one timestamp per microsecond", PLUS, "@1000 el0; @1000 100 nop; @2000 104 nop", "t1, el0t, 100, t2, 104"),
        ("suspended", PLUS, "@1000 el0; @1000 100 nop; @2000 state; @9000 state", "t1, el0t, 100, t2, t9"),
        ("a note", PLUS, "note hello; el0; 100 nop", "hello, el0t, 100"),
        (
            "addresses from registers before they change",
            PLUS,
            "el0; state x0=1240; 100 dc x0=2000; 104 b; 10c prfm; 110 nop x2=fffffffffffffff0; 114 setm x2=0; 118 setm",
            "el0t, 100 1240+1, 104 b 10c+1, 10c 2000+1, 110, 114 w 1ff0+1, 118 w 2000+1",
        ),
        (
            "addresses across an exception",
            PLUS,
            "el1; 100 nop x0=1240; irq - 480; 480 dc; 484 eret; return -; 104 prfm",
            "el1h, 100, trap 2 class 0 call 0 to 480, 480 1240+1, 484, trap 4 class 0 call 0 to 104, 104 1240+1",
        ),
        (
            "no address where an exception kept it from completing",
            PLUS,
            "el1; 100 nop x0=1240; 104 dc; sync 18 200; 200 nop",
            "el1h, 100, 104 t, trap 0 class 18 call 0 to 200, 200",
        ),
        ("a tag in a register is dropped", PLUS, "el0; state x0=f700000000001240; 100 dc", "el0t, 100 1240+1"),
    ];
    for (name, level, script, expected) in rows {
        let unit = if script.contains('@') { NANOSECONDS } else { TimeUnit::Unknown };
        let assumed = Context { is_handler: Some(true), ..Context::default() };
        let (records, _) = lower(script, *level, unit, assumed).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(text_of(&records), *expected, "{name}");
    }
}

#[test]
fn each_loss_is_counted() {
    type Row = (&'static str, Level, &'static str, &'static [(Loss, u64)]);
    let rows: &[Row] = &[
        ("nothing", PLUS, "el0; 100 nop", &[]),
        ("another instruction set", PLUS, "el0; 100 nop; t32; a32", &[(Loss::Instructions, 2)]),
        ("another, in Basic", BASIC, "el0; 100 nop; t32", &[(Loss::Instructions, 1)]),
        ("a branch at the end", PLUS, "el0; 100 nop; 104 ret", &[(Loss::Instructions, 1)]),
        (
            "an incomplete instruction, in Basic",
            BASIC,
            "el0; 100 nop; 104 ldr; sync 24 400; 104 nop",
            &[(Loss::Instructions, 1), (Loss::Exceptions, 1)],
        ),
        ("an unknown opcode", PLUS, "el1; 100 nop; 104 ?; sync 21 400", &[(Loss::UnknownOpcodes, 1)]),
        ("a condition", PLUS, "el0; 100 nop skipped", &[(Loss::Conditions, 1)]),
        ("an access of a branch", PLUS, "el0; 100 ret ->200 r0+8", &[(Loss::Accesses, 1)]),
        ("the tag of an address", PLUS, "el0; 100 ldr rf700000000000000+8", &[(Loss::Tags, 1)]),
        ("data", PLUS, "el0; 100 ldr d0+8", &[(Loss::Data, 1)]),
        ("registers", PLUS, "el0; 100 nop x0=0 x1=0", &[(Loss::Registers, 2)]),
        ("state", PLUS, "state x0=0; el0; 100 nop", &[(Loss::State, 1)]),
        ("a reset that leads elsewhere", PLUS, "reset - 0; el1; 100 nop", &[(Loss::Exceptions, 1)]),
        ("debug state", PLUS, "el1; 100 nop; debug - 0", &[(Loss::Exceptions, 1)]),
        ("an interrupt, in Basic", BASIC, "el1; 100 nop; irq - 480; 480 nop", &[(Loss::Exceptions, 1)]),
        ("the target of a call, in Basic", BASIC, "el0; 100 svc; sync 15 400; 104 nop", &[(Loss::ExceptionDetails, 1)]),
        ("a return address", PLUS, "el1; 100 nop; irq - 480 lr=104", &[(Loss::ReturnAddresses, 1)]),
        ("an exception return, in Basic", BASIC, "el1; 100 eret; return 8; 8 nop", &[(Loss::ExceptionReturns, 1)]),
        ("a thread without its process", PLUS, "el0; ctx thread=4; 100 nop", &[(Loss::Processes, 1)]),
        ("a virtual machine", PLUS, "el0; ctx vmid=4; 100 nop", &[(Loss::VirtualMachines, 1)]),
        ("cycles, one per change", PLUS, "@5 el0; @5 100 nop; @6 104 nop", &[(Loss::Times, 2)]),
        ("decreasing time", PLUS, "@5000 el0; @4000 100 nop", &[(Loss::Times, 1)]),
        ("digits below the microsecond", PLUS, "@5000 el0; @5001 100 nop; @6000 104 nop", &[(Loss::TimeDigits, 1)]),
        (
            "a note in an unsupported mode",
            PLUS,
            "el0; 100 nop; a32; note lost",
            &[(Loss::Instructions, 1), (Loss::Notes, 1)],
        ),
    ];
    let mut seen = Vec::new();
    for (name, level, script, expected) in rows {
        let unit = match script {
            script if script.contains("000 ") => NANOSECONDS,
            script if script.contains('@') => TimeUnit::Cycles,
            _ => TimeUnit::Unknown,
        };
        let (_, losses) =
            lower(script, *level, unit, Context::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found: Vec<(Loss, u64)> = losses.iter().map(|(loss, lost)| (loss, lost.count)).collect();
        assert_eq!(found, *expected, "{name}");
        seen.extend(found.iter().map(|(loss, _)| *loss));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, LOSSES, "every loss has a row");
}

#[test]
fn refusals_give_position_and_reason() {
    type Row = (&'static str, Level, &'static str, Option<u64>, &'static str);
    let rows: &[Row] = &[
        ("RISC-V", PLUS, "el0; rv64", Some(1), "RISC-V"),
        ("AArch32 only", PLUS, "el0; t32", None, "AArch64"),
        ("nothing", PLUS, "el0", None, "AArch64"),
        ("two cores", PLUS, "el0; core1 100 nop", Some(1), "--core"),
        ("no level", PLUS, "100 nop; 104 nop", Some(0), "el=0..3"),
        ("no security", PLUS, "ctx level=0; 100 nop", Some(1), "security=secure|nonsecure"),
        ("no stack pointer", PLUS, "ctx level=1 secure; 100 nop", Some(1), "sp=0|x"),
        ("Realm", PLUS, "ctx level=0 realm; 100 nop", Some(1), "no Realm"),
        ("a gap", PLUS, "el0; 100 nop; gap damaged", Some(2), "the trace is damaged"),
        ("a jump", PLUS, "el0; 100 nop; 200 nop", Some(2), "write a Basic trace"),
        ("another level in Basic", BASIC, "el0; 100 nop; el1; 104 nop", Some(3), "BasicPlus"),
        ("no opcode", PLUS, "el0; 0 ?; 4 nop", Some(1), "the opcode"),
        ("an unknown target", PLUS, "el1; 100 ret; irq - 480; 480 nop", Some(1), "unknown target"),
        ("no class", PLUS, "el1; 100 nop; sync - 400", Some(2), "class of this exception"),
        ("no kind", PLUS, "el1; 100 nop; unknown - 400", Some(2), "kind of this exception"),
        ("no target", PLUS, "el1; 100 nop; irq - -; gap start; 480 nop", Some(2), "target of this exception"),
        ("no access", PLUS, "el0; 100 ldr", Some(1), "does not report the access"),
        ("no address", PLUS, "el0; 100 prfm", Some(1), "depends on x0, which"),
        ("half an address", PLUS, "el0; fc nop x0:4=1240; 100 dc", Some(2), "on x0,"),
        ("a register after a call", BASIC, "el0; 100 svc x0=1240; sync - 400; 104 prfm", Some(3), "on x0,"),
        ("a register after a gap", BASIC, "el0; 100 nop x0=1240; gap overflow; 104 prfm", Some(3), "on x0,"),
        ("a register after a jump", BASIC, "el0; 100 nop x0=1240; 200 prfm", Some(2), "on x0,"),
        ("a register after AArch32", BASIC, "el0; 100 nop x0=1240; a32; 104 prfm", Some(3), "on x0,"),
        ("the wrong size", PLUS, "el0; 100 ldr r0+4", Some(1), "astf-memory-size"),
        ("no vector length", PLUS, "el0; 100 ld1b", Some(1), "--assume vl=BITS"),
        ("no context after EL0", PLUS, "el0; 100 svc; sync - 400; 400 nop", Some(3), "does not report the state"),
        ("no first time", PLUS, "el0; 100 nop; @5000 104 nop", Some(1), "reports no time"),
    ];
    for (name, level, script, position, expected) in rows {
        let unit = if script.contains('@') { NANOSECONDS } else { TimeUnit::Unknown };
        match lower(script, *level, unit, Context::default()) {
            Err(SinkError::Refused { position: found, reason }) => {
                assert!(reason.contains(expected), "{name}: {reason}");
                assert_eq!(found, *position, "{name}: {reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn sources_that_report_too_little_are_refused() {
    let all = [Facet::Instructions, Facet::Opcodes, Facet::Accesses, Facet::Levels, Facet::Security, Facet::Exceptions];
    let assumed = Context { level: Some(0), security: Some(Security::NonSecure), ..Context::default() };
    let none = Context::default();
    type Row = (&'static str, Option<Facet>, Context, Option<Level>, Result<Level, &'static str>);
    let rows: &[Row] = &[
        ("enough", None, none, None, Ok(PLUS)),
        ("enough for Basic", None, none, Some(BASIC), Ok(BASIC)),
        ("no instructions", Some(Facet::Instructions), assumed, None, Err("instructions")),
        ("no opcodes", Some(Facet::Opcodes), assumed, None, Err("opcodes")),
        ("no accesses", Some(Facet::Accesses), assumed, None, Err("accesses")),
        ("no levels", Some(Facet::Levels), none, None, Err("el=0..3")),
        ("no levels, assumed", Some(Facet::Levels), assumed, None, Ok(PLUS)),
        ("no security", Some(Facet::Security), none, None, Err("security=secure|nonsecure")),
        ("no security, assumed", Some(Facet::Security), assumed, None, Ok(PLUS)),
        ("no exceptions", Some(Facet::Exceptions), assumed, None, Ok(BASIC)),
        ("no exceptions for BasicPlus", Some(Facet::Exceptions), assumed, Some(PLUS), Err("every exception")),
    ];
    for (name, without, assumed, level, expected) in rows {
        let facets: Vec<Facet> = all.into_iter().filter(|facet| Some(*facet) != *without).collect();
        let options = LowerOptions { level: *level, assumed: *assumed, ..LowerOptions::default() };
        match (header(Coverage::of(&facets), TimeUnit::Unknown, &options), expected) {
            (Ok(header), Ok(level)) => assert_eq!(header.level(), *level, "{name}"),
            (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{name}: {error}"),
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
    assert!(coverage().has(Facet::Accesses) && !coverage().has(Facet::Data));
}

#[test]
fn a_vector_length_may_be_assumed() {
    let modes = Some(Modes { vector_length: 1, ..Modes::default() });
    let assumed = Context { modes, ..Context::default() };
    let (records, _) = lower("el0; 100 ld1b r500+20", PLUS, TimeUnit::Unknown, assumed).unwrap();
    let Record::Context(context) = Record::from_bytes(&records[1]) else { panic!() };
    assert_eq!(context.evl, 1);
}
