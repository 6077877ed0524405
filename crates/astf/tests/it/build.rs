//! The writer: what it refuses, how it lays out accesses, and that what was written is what is read.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use unspool_astf::builder::{
    BuildError, Builder, Call, CallKind, Effect, Exception, Process, Redirection, State, Step,
};
use unspool_astf::check::{Checker, Severity};
use unspool_astf::lift::{Item, Lifter};
use unspool_astf::record::{Header, Instruction, Level, Record, Storage, StringStart};
use unspool_astf::sanitize::Regime;
use unspool_astf::{Access, Bytes, Extent};

const NOP: u32 = 0xd503_201f;
const SVC: u32 = 0xd400_0001;
const ERET: u32 = 0xd69f_03e0;
/// b .+8
const B: u32 = 0x1400_0002;
/// ldr x0, [x1]
const LDR: u32 = 0xf940_0020;
/// ld1b {z0.b}, p0/z, [x0, x0]
const LD1: u32 = 0xa400_4000;
/// add x0, x0, x0
const ADD: u32 = 0x8b00_0000;
/// smstart sm
const SMSTART: u32 = 0xd503_437f;

type Trace = Builder<Vec<Bytes>>;

fn begun(level: Level, timestamps: bool) -> Trace {
    Builder::new(Vec::new(), &Header::new(level, timestamps, Storage::Raw)).unwrap()
}

/// A BasicPlus trace at EL0.
fn at_el0() -> Trace {
    let mut trace = begun(Level::BasicPlus, false);
    trace.context(&State::default()).unwrap();
    trace
}

fn basic() -> Trace {
    let mut trace = begun(Level::Basic, false);
    trace.context(&State::default()).unwrap();
    trace
}

fn read(address: u64, bytes: u16) -> Access {
    Access { address, extent: Extent::Bytes(bytes), read: true, write: false, tagged: false }
}

fn range(address: u64, bytes: u64, write: bool) -> Access {
    Access { address, extent: Extent::Range(bytes), read: !write, write, tagged: false }
}

fn svc(target: u64) -> Option<Exception> {
    Some(Exception { class: 0x15, call: Some(Call { kind: CallKind::Svc, index: 64 }), target })
}

#[test]
fn wrong_traces_are_refused_and_leave_nothing() {
    type Begin = fn() -> Trace;
    type Attempt = fn(&mut Trace) -> Result<(), BuildError>;
    let rows: &[(&str, Begin, Attempt, &str)] = &[
        ("no flag", || begun(Level::Basic, false), |trace| trace.timestamp(1), "begun without timestamps"),
        (
            "no timestamp",
            || begun(Level::Basic, true),
            |trace| trace.context(&State::default()),
            "one before its first",
        ),
        ("reserved time", || begun(Level::Basic, true), |trace| trace.timestamp(u64::MAX), "reserved"),
        (
            "time stands still",
            || {
                let mut trace = begun(Level::Basic, true);
                trace.timestamp(7).unwrap();
                trace
            },
            |trace| trace.timestamp(7),
            "7 does not come after 7",
        ),
        (
            "waiting backwards",
            || begun(Level::Basic, true),
            |trace| trace.suspended(100, 50),
            "50 does not come after 100",
        ),
        ("waiting for ever", || begun(Level::Basic, true), |trace| trace.suspended(100, u64::MAX), "reserved"),
        ("class 64", at_el0, |trace| trace.redirected(Redirection::Synchronous(64), 0), "does not fit"),
        ("long string", at_el0, |trace| trace.string(&[b'x'; 65536]), "at most 65535"),
        (
            "no context",
            || begun(Level::Basic, false),
            |trace| trace.instruction(&Step::plain(0, NOP)),
            "a context comes before",
        ),
        ("el 4", at_el0, |trace| trace.context(&State { el: 4, ..State::default() }), "does not fit"),
        ("vector length 16", at_el0, |trace| trace.context(&State { evl: 16, ..State::default() }), "does not fit"),
        (
            "tag check fault 4",
            at_el0,
            |trace| trace.context(&State { tag_check_fault: 4, ..State::default() }),
            "does not fit",
        ),
        ("second level", basic, |trace| trace.context(&State { el: 1, ..State::default() }), "one Exception level"),
        (
            "unsupported in Basic",
            basic,
            |trace| trace.context(&State { unsupported: true, ..State::default() }),
            "BasicPlus",
        ),
        ("interrupt in Basic", basic, |trace| trace.redirected(Redirection::Irq { is_virtual: false }, 0), "BasicPlus"),
        (
            "abort in Basic",
            basic,
            |trace| {
                let exception = Some(Exception { class: 0x24, call: None, target: 0 });
                trace.instruction(&Step { exception, ..Step::plain(0, LDR) })
            },
            "BasicPlus",
        ),
        (
            "return in Basic",
            basic,
            |trace| trace.instruction(&Step { effect: Effect::ExceptionReturn(8), ..Step::plain(0, ERET) }),
            "BasicPlus",
        ),
        (
            "call without the context behind it",
            || {
                let mut trace = basic();
                trace.instruction(&Step { exception: svc(0x400), ..Step::plain(0, SVC) }).unwrap();
                trace
            },
            |trace| trace.instruction(&Step::plain(4, NOP)),
            "a context comes before",
        ),
        (
            "jump",
            || {
                let mut trace = at_el0();
                trace.instruction(&Step::plain(0, NOP)).unwrap();
                trace
            },
            |trace| trace.instruction(&Step::plain(8, NOP)),
            "goes on at 0x4, and not at 0x8",
        ),
        (
            "unsupported",
            || {
                let mut trace = at_el0();
                trace.context(&State { unsupported: true, ..State::default() }).unwrap();
                trace
            },
            |trace| trace.instruction(&Step::plain(8, NOP)),
            "unsupported mode",
        ),
        (
            "an exception that stays at EL0",
            || {
                let mut trace = at_el0();
                trace.instruction(&Step { exception: svc(0x400), ..Step::plain(0, SVC) }).unwrap();
                trace
            },
            |trace| trace.instruction(&Step::plain(0x400, NOP)),
            "out of EL0",
        ),
        (
            "an exception to EL0",
            || {
                let mut trace = at_el0();
                trace.redirected(Redirection::Irq { is_virtual: false }, 0x400).unwrap();
                trace
            },
            |trace| trace.context(&State::default()),
            "does not lead to EL0",
        ),
        (
            "a return to a higher level",
            || {
                let mut trace = at_el0();
                trace.context(&State { el: 1, ..State::default() }).unwrap();
                trace.instruction(&Step { effect: Effect::ExceptionReturn(8), ..Step::plain(0, ERET) }).unwrap();
                trace
            },
            |trace| trace.context(&State { el: 2, ..State::default() }),
            "does not lead to EL2",
        ),
        // What only the rules of the format know.
        (
            "add that branches",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::Taken(8), ..Step::plain(0, ADD) }),
            "astf-branch-flag",
        ),
        ("load without access", at_el0, |trace| trace.instruction(&Step::plain(0, LDR)), "astf-memory-ea-valid"),
        (
            "load that writes",
            at_el0,
            |trace| {
                let written = [Access { read: false, write: true, ..read(0x1000, 8) }];
                trace.instruction(&Step { effect: Effect::Accesses(&written), ..Step::plain(0, LDR) })
            },
            "astf-memory-direction",
        ),
        (
            "load of three bytes",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::Accesses(&[read(0x1000, 3)]), ..Step::plain(0, LDR) }),
            "astf-memory-size",
        ),
        (
            "add with an access",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::Accesses(&[read(0x1000, 8)]), ..Step::plain(0, ADD) }),
            "astf-",
        ),
        ("call without exception", at_el0, |trace| trace.instruction(&Step::plain(0, SVC)), "astf-exception-flag"),
        (
            "index of an add",
            at_el0,
            |trace| trace.instruction(&Step { sme_index: Some(1), ..Step::plain(0, ADD) }),
            "astf-sme-index",
        ),
        (
            "streaming mode without its context",
            || {
                let mut trace = at_el0();
                trace.instruction(&Step::plain(0, SMSTART)).unwrap();
                trace
            },
            |trace| trace.instruction(&Step::plain(4, NOP)),
            "astf-context-after-change",
        ),
        (
            "a tagged address",
            at_el0,
            |trace| {
                let tagged = [read(0x0f00_0000_0000_1000, 8)];
                trace.instruction(&Step { effect: Effect::Accesses(&tagged), ..Step::plain(0, LDR) })
            },
            "astf-address-sanitized",
        ),
        ("silent branch", at_el0, |trace| trace.instruction(&Step::plain(0, B)), "is a branch"),
        (
            "branch that cannot fail",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::NotTaken, ..Step::plain(0, B) }),
            "always taken",
        ),
        (
            "branch to elsewhere",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::Taken(12), ..Step::plain(0, B) }),
            "goes elsewhere",
        ),
        (
            "taken and trapped",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::Taken(8), exception: svc(0), ..Step::plain(0, B) }),
            "not taken",
        ),
        ("silent return", at_el0, |trace| trace.instruction(&Step::plain(0, ERET)), "tell where to"),
        (
            "return by another",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::ExceptionReturn(8), ..Step::plain(0, NOP) }),
            "does not return",
        ),
        (
            "nothing accessed",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::Accesses(&[read(0, 0)]), ..Step::plain(0, LDR) }),
            "at least one byte",
        ),
        (
            "a range both ways",
            at_el0,
            |trace| {
                let both = [Access { read: true, ..range(0, 8, true) }];
                trace.instruction(&Step { effect: Effect::Accesses(&both), ..Step::plain(0, 0x1900_0440) })
            },
            "either reads or writes",
        ),
        (
            "ranges in the wrong order",
            at_el0,
            |trace| {
                let accesses = [range(0, 8, true), range(64, 8, false)];
                trace.instruction(&Step { effect: Effect::Accesses(&accesses), ..Step::plain(0, 0x1900_0440) })
            },
            "comes before one that writes",
        ),
        (
            "a range and an index",
            at_el0,
            |trace| {
                let accesses = [range(0, 8, true)];
                let step = Step { effect: Effect::Accesses(&accesses), ..Step::plain(0, 0xe100_0004) };
                trace.instruction(&Step { sme_index: Some(1), ..step })
            },
            "no room",
        ),
    ];
    for (name, begin, attempt, says) in rows {
        let mut trace = begin();
        let error = attempt(&mut trace).err().unwrap_or_else(|| panic!("{name} was not refused")).to_string();
        assert!(error.contains(says), "{name}: {error}");
        assert_eq!(trace.finish(), begin().finish(), "{name} left something");
    }
}

fn written(step: &Step<'_>) -> Vec<Record> {
    let mut trace = at_el0();
    trace.instruction(step).unwrap();
    trace.finish()[2..].iter().map(Record::from_bytes).collect()
}

#[test]
fn a_long_access_is_split_into_256_bytes_a_piece() {
    let records = written(&Step { effect: Effect::Accesses(&[read(0x1000, 700)]), ..Step::plain(0, LD1) });
    let [Record::Instruction(first), Record::ExtraEa(rest)] = records[..] else { panic!("{records:?}") };
    assert_eq!((first.ea, first.ea_size, first.extra_eas), (0x1000, 255, true));
    assert_eq!((rest.mem0_addr, rest.mem0_size, rest.mem1_addr, rest.mem1_size), (0x1100, 255, 0x1200, 187));
    assert!(rest.mem1_valid && rest.mem0_is_read && rest.mem1_is_read && !rest.extra_eas);
}

#[test]
fn ranges_do_not_share_a_record() {
    let accesses = [range(0x1000, 64, false), range(0x2000, 64, true)];
    let records = written(&Step { effect: Effect::Accesses(&accesses), ..Step::plain(0, 0x1900_0440) });
    let [Record::Instruction(first), Record::ExtraEa(rest)] = records[..] else { panic!("{records:?}") };
    assert_eq!((first.xattr_mode, first.ea_size, first.xattr, first.extra_eas), (1, 0, 64, true));
    assert!(first.is_read && !first.is_write);
    assert_eq!((rest.mem0_addr, rest.mem0_size, rest.mem1_addr), (0x2000, 0, 64));
    assert!(rest.mem1_addr_range && !rest.mem1_valid && rest.mem0_is_write && !rest.mem0_is_read && !rest.extra_eas);
}

#[test]
fn a_string_is_cut_and_padded() {
    let mut trace = begun(Level::Basic, false);
    trace.string(&[b'x'; 28 + 31 + 1]).unwrap();
    let records: Vec<Record> = trace.finish()[1..].iter().map(Record::from_bytes).collect();
    let [Record::StringStart(start), Record::StringContinuation(next), Record::StringContinuation(last)] = records[..]
    else {
        panic!("{records:?}")
    };
    assert_eq!(start, StringStart { reserved8: 0, size: 60, string: [b'x'; 28] });
    assert_eq!(next.string, [b'x'; 31]);
    assert_eq!((last.string[0], &last.string[1..]), (b'x', &[0; 30][..]));
}

#[test]
fn addresses_lose_their_tags() {
    let mut trace = at_el0();
    trace.regime(Some(Regime { t0sz: 16, t1sz: Some(16) }));
    let tagged = [read(0xf700_0000_0000_1000, 8)];
    trace.instruction(&Step { effect: Effect::Accesses(&tagged), ..Step::plain(0xab00_0000_0000_8000, LDR) }).unwrap();
    let Record::Instruction(Instruction { pc, ea, .. }) = Record::from_bytes(&trace.finish()[2]) else { panic!() };
    assert_eq!((pc, ea), (0x8000, 0x1000));
}

#[test]
fn waiting_leaves_as_many_timestamps_as_there_are_times() {
    // (time before, from, to, timestamps that are written)
    let rows: &[(u64, u64, u64, &[u64])] = &[
        (10, 12, 20, &[12, 20]),
        (10, 10, 20, &[11, 20]),
        (10, 10, 11, &[11]),
        (10, 10, 10, &[]),
        (10, 11, 11, &[11]),
    ];
    for &(before, from, to, expected) in rows {
        let mut trace = begun(Level::Basic, true);
        trace.timestamp(before).unwrap();
        trace.suspended(from, to).unwrap();
        let time = |bytes: &Bytes| match Record::from_bytes(bytes) {
            Record::Timestamp(timestamp) => timestamp.value,
            other => panic!("{other:?}"),
        };
        let written: Vec<u64> = trace.finish()[2..].iter().map(time).collect();
        assert_eq!(written, expected, "waits from {from} to {to} after {before}");
    }
}

/// What a random program does next.
#[derive(Debug, Clone)]
enum Next {
    Plain,
    Branch,
    Load(Vec<(u32, u16, bool)>),
    Call,
    Interrupt,
    /// To this instruction, at this level if it is not above, with this process if it is EL0.
    Return(u16, u8, Option<u64>),
    Time(u64),
    Text(Vec<u8>),
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        4 => Just(Next::Plain),
        2 => Just(Next::Branch),
        4 => prop::collection::vec((any::<u32>(), 1_u16..1000, any::<bool>()), 1..6).prop_map(Next::Load),
        1 => Just(Next::Call),
        1 => Just(Next::Interrupt),
        1 => (any::<u16>(), 0_u8..4, any::<Option<u64>>()).prop_map(|(to, el, pid)| Next::Return(to, el, pid)),
        1 => (1_u64..100).prop_map(Next::Time),
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Next::Text),
    ]
}

/// What was written, told in the way that is read back.
#[derive(Debug, PartialEq)]
enum Told {
    Executed { pc: u64, opcode: u32, target: Option<u64>, accesses: Vec<Access>, trap: Option<u64>, time: u64, el: u8 },
    Trap(u64),
    Context(u8),
    Time(u64),
    Text(Vec<u8>),
}

/// Accesses as records hold them.
fn pieces(accesses: &[Access]) -> Vec<Access> {
    let whole = |access: &Access| {
        let (access, bytes) = (*access, access.extent.bytes() as u16);
        (0..bytes).step_by(256).map(move |at| Access {
            address: access.address.wrapping_add(at.into()),
            extent: Extent::Bytes((bytes - at).min(256)),
            ..access
        })
    };
    accesses.iter().flat_map(whole).collect()
}

/// Goes from one Exception level to another; if they are the same, there is nothing to tell.
fn level(trace: &mut Trace, told: &mut Vec<Told>, from: u8, el: u8, pid: Option<u64>) -> u8 {
    if from != el {
        let process = pid.filter(|_| el == 0).map(|pid| Process { pid, tid: Some(pid) });
        trace.context(&State { el, handler: el > 0, process, ..State::default() }).unwrap();
        told.push(Told::Context(el));
    }
    el
}

fn run(program: &[Next]) -> (Vec<Bytes>, Vec<Told>) {
    let mut trace = begun(Level::BasicPlus, true);
    let (mut pc, mut time, mut el) = (0x1000, 5, 0);
    trace.timestamp(time).unwrap();
    trace.context(&State::default()).unwrap();
    let mut told = vec![Told::Time(time), Told::Context(0)];
    for next in program {
        let executed = |pc, opcode, time, el| Told::Executed {
            pc,
            opcode,
            target: None,
            accesses: Vec::new(),
            trap: None,
            time,
            el,
        };
        match next {
            Next::Plain => {
                trace.instruction(&Step::plain(pc, NOP)).unwrap();
                told.push(executed(pc, NOP, time, el));
                pc += 4;
            }
            Next::Branch => {
                trace.instruction(&Step { effect: Effect::Taken(pc + 8), ..Step::plain(pc, B) }).unwrap();
                told.push(Told::Executed {
                    pc,
                    opcode: B,
                    target: Some(pc + 8),
                    accesses: vec![],
                    trap: None,
                    time,
                    el,
                });
                pc += 8;
            }
            Next::Load(positions) => {
                let each =
                    |&(address, bytes, tagged): &(u32, u16, bool)| Access { tagged, ..read(address.into(), bytes) };
                let accesses: Vec<Access> = positions.iter().map(each).collect();
                trace.instruction(&Step { effect: Effect::Accesses(&accesses), ..Step::plain(pc, LD1) }).unwrap();
                let accesses = pieces(&accesses);
                told.push(Told::Executed { pc, opcode: LD1, target: None, accesses, trap: None, time, el });
                pc += 4;
            }
            Next::Call => {
                trace.instruction(&Step { exception: svc(0x400), ..Step::plain(pc, SVC) }).unwrap();
                let trap = Some(0x400);
                told.push(Told::Executed { pc, opcode: SVC, target: None, accesses: vec![], trap, time, el });
                pc = 0x400;
                el = level(&mut trace, &mut told, el, el.max(1), None);
            }
            Next::Interrupt => {
                trace.redirected(Redirection::Irq { is_virtual: false }, 0x480).unwrap();
                told.push(Told::Trap(0x480));
                pc = 0x480;
                el = level(&mut trace, &mut told, el, el.max(1), None);
            }
            // At EL0 there is nothing to return to.
            Next::Return(..) if el == 0 => {}
            Next::Return(to, to_el, pid) => {
                let to = u64::from(*to) * 4;
                trace.instruction(&Step { effect: Effect::ExceptionReturn(to), ..Step::plain(pc, ERET) }).unwrap();
                let trap = Some(to);
                told.push(Told::Executed { pc, opcode: ERET, target: None, accesses: vec![], trap, time, el });
                pc = to;
                el = level(&mut trace, &mut told, el, el.min(*to_el), *pid);
            }
            Next::Time(passed) => {
                time += passed;
                trace.timestamp(time).unwrap();
                told.push(Told::Time(time));
            }
            Next::Text(text) => {
                trace.string(text).unwrap();
                told.push(Told::Text(text.clone()));
            }
        }
    }
    (trace.finish(), told)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_was_written_is_what_is_read(program in prop::collection::vec(next(), 0..60)) {
        let (records, expected) = run(&program);
        let mut told = Vec::new();
        let mut tell = |_: u64, item: Item<'_>| told.push(match item {
            Item::Instruction(executed) => Told::Executed {
                pc: executed.instruction.pc,
                opcode: executed.instruction.iword,
                target: executed.instruction.is_taken().then_some(executed.instruction.ea),
                accesses: executed.accesses.to_vec(),
                trap: executed.trap.map(|trap| trap.target_pc),
                time: executed.time.unwrap(),
                el: executed.context.unwrap().el,
            },
            Item::Trap(trap) => Told::Trap(trap.target_pc),
            Item::Context(context) => Told::Context(context.el),
            Item::Timestamp(timestamp) => Told::Time(timestamp.value),
            Item::String(text) => Told::Text(text.to_vec()),
            Item::Stray(record) => panic!("{record:?}"),
        });
        let mut lifter = Lifter::new();
        records.iter().for_each(|record| lifter.push(record, &mut tell));
        lifter.finish(&mut tell);
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn no_rule_is_broken_by_what_was_written(program in prop::collection::vec(next(), 0..60)) {
        let (records, _) = run(&program);
        let mut found = Vec::new();
        let mut keep = |finding: unspool_astf::check::Finding| {
            if finding.rule.severity == Severity::Error {
                found.push(finding);
            }
        };
        let mut checker = Checker::new();
        records.iter().for_each(|record| checker.push(record, &mut keep));
        checker.finish(&mut keep);
        prop_assert!(found.is_empty(), "{:?}", found);
    }

    #[test]
    fn any_records_can_be_lifted(records: Vec<Bytes>) {
        let mut lifter = Lifter::new();
        let mut items = 0;
        records.iter().for_each(|record| lifter.push(record, &mut |_, _| items += 1));
        lifter.finish(&mut |_, _| items += 1);
        prop_assert!(items <= 2 * records.len() + 1);
    }
}
