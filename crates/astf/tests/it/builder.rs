//! The builder: what it refuses, how it splits accesses, and that written items are read back.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use unspool_astf::builder::{
    BuildError, Builder, Call, CallKind, Effect, Exception, Process, Redirection, State, Step,
};
use unspool_astf::lift::Item;
use unspool_astf::record::{Header, Instruction, Level, Record, Storage, StringStart};
use unspool_astf::sanitize::Regime;
use unspool_astf::{Access, Bytes, Extent};

use crate::support::{assert_no_errors, lift};

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

/// cpyp [x0]!, [x0]!, x2!
const CPYP: u32 = 0x1900_0440;

type Trace = Builder<Vec<Bytes>>;

fn begun(level: Level, timestamps: bool) -> Trace {
    Builder::new(Vec::new(), &Header::new(level, timestamps, Storage::Raw)).unwrap()
}

/// A BasicPlus trace at EL0.
fn at_el0() -> Trace {
    after(begun(Level::BasicPlus, false), |trace| trace.context(&State::default()))
}

fn basic() -> Trace {
    after(begun(Level::Basic, false), |trace| trace.context(&State::default()))
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

/// An instruction at address 0.
fn plain(trace: &mut Trace, opcode: u32) -> Result<(), BuildError> {
    trace.instruction(&Step::plain(0, opcode))
}

/// An instruction at address 0 with an effect.
fn effect(trace: &mut Trace, opcode: u32, effect: Effect<'_>) -> Result<(), BuildError> {
    trace.instruction(&Step { effect, ..Step::plain(0, opcode) })
}

fn accesses(trace: &mut Trace, opcode: u32, accesses: &[Access]) -> Result<(), BuildError> {
    effect(trace, opcode, Effect::Accesses(accesses))
}

fn call(trace: &mut Trace) -> Result<(), BuildError> {
    trace.instruction(&Step { exception: svc(0x400), ..Step::plain(0, SVC) })
}

fn at_level(trace: &mut Trace, el: u8) -> Result<(), BuildError> {
    trace.context(&State { el, ..State::default() })
}

fn unsupported(trace: &mut Trace) -> Result<(), BuildError> {
    trace.context(&State { unsupported: true, ..State::default() })
}

/// The trace after a call that succeeds.
fn after(mut trace: Trace, add: fn(&mut Trace) -> Result<(), BuildError>) -> Trace {
    add(&mut trace).unwrap();
    trace
}

#[test]
fn wrong_traces_are_refused_and_leave_no_records() {
    type Begin = fn() -> Trace;
    type Attempt = fn(&mut Trace) -> Result<(), BuildError>;
    const IRQ: Redirection = Redirection::Irq { is_virtual: false };
    let bare: Begin = || begun(Level::Basic, false);
    let timed: Begin = || begun(Level::Basic, true);
    let rows: &[(&str, Begin, Attempt, &str)] = &[
        ("no flag", bare, |trace| trace.timestamp(1), "begun without timestamps"),
        ("no timestamp", timed, |trace| trace.context(&State::default()), "one before its first"),
        ("reserved time", timed, |trace| trace.timestamp(u64::MAX), "reserved"),
        (
            "the same time",
            || after(begun(Level::Basic, true), |trace| trace.timestamp(7)),
            |trace| trace.timestamp(7),
            "7 does not come after 7",
        ),
        ("waiting backwards", timed, |trace| trace.suspended(100, 50), "50 does not come after 100"),
        ("waiting forever", timed, |trace| trace.suspended(100, u64::MAX), "reserved"),
        ("class 64", at_el0, |trace| trace.redirected(Redirection::Synchronous(64), 0), "does not fit"),
        ("long string", at_el0, |trace| trace.string(&[b'x'; 65536]), "at most 65535"),
        ("no context", bare, |trace| plain(trace, NOP), "a context is missing"),
        ("el 4", at_el0, |trace| at_level(trace, 4), "does not fit"),
        ("vector length 16", at_el0, |trace| trace.context(&State { evl: 16, ..State::default() }), "does not fit"),
        (
            "tag check fault 4",
            at_el0,
            |trace| trace.context(&State { tag_check_fault: 4, ..State::default() }),
            "does not fit",
        ),
        ("second level", basic, |trace| at_level(trace, 1), "one Exception level"),
        ("unsupported in Basic", basic, unsupported, "BasicPlus"),
        ("interrupt in Basic", basic, |trace| trace.redirected(IRQ, 0), "BasicPlus"),
        (
            "abort in Basic",
            basic,
            |trace| {
                let exception = Some(Exception { class: 0x24, call: None, target: 0 });
                trace.instruction(&Step { exception, ..Step::plain(0, LDR) })
            },
            "BasicPlus",
        ),
        ("return in Basic", basic, |trace| effect(trace, ERET, Effect::ExceptionReturn(8)), "BasicPlus"),
        (
            "call without the context after it",
            || after(basic(), call),
            |trace| trace.instruction(&Step::plain(4, NOP)),
            "a context is missing",
        ),
        (
            "jump",
            || after(at_el0(), |trace| plain(trace, NOP)),
            |trace| trace.instruction(&Step::plain(8, NOP)),
            "continues at 0x4, not at 0x8",
        ),
        ("unsupported", || after(at_el0(), unsupported), |trace| plain(trace, NOP), "unsupported mode"),
        (
            "an exception that stays at EL0",
            || after(at_el0(), call),
            |trace| trace.instruction(&Step::plain(0x400, NOP)),
            "after an exception at EL0",
        ),
        (
            "an exception to EL0",
            || after(at_el0(), |trace| trace.redirected(IRQ, 0x400)),
            |trace| trace.context(&State::default()),
            "does not lead to EL0",
        ),
        (
            "a return to a higher level",
            || {
                let trace = after(at_el0(), |trace| at_level(trace, 1));
                after(trace, |trace| effect(trace, ERET, Effect::ExceptionReturn(8)))
            },
            |trace| at_level(trace, 2),
            "does not lead to EL2",
        ),
        // Known only to the rules of the format.
        ("add that branches", at_el0, |trace| effect(trace, ADD, Effect::Taken(8)), "astf-branch-flag"),
        ("load without access", at_el0, |trace| plain(trace, LDR), "astf-memory-ea-valid"),
        (
            "load that writes",
            at_el0,
            |trace| accesses(trace, LDR, &[Access { read: false, write: true, ..read(0x1000, 8) }]),
            "astf-memory-direction",
        ),
        ("load of three bytes", at_el0, |trace| accesses(trace, LDR, &[read(0x1000, 3)]), "astf-memory-size"),
        ("add with an access", at_el0, |trace| accesses(trace, ADD, &[read(0x1000, 8)]), "astf-"),
        ("call without exception", at_el0, |trace| plain(trace, SVC), "astf-exception-flag"),
        (
            "index of an add",
            at_el0,
            |trace| trace.instruction(&Step { sme_index: Some(1), ..Step::plain(0, ADD) }),
            "astf-sme-index",
        ),
        (
            "streaming mode without its context",
            || after(at_el0(), |trace| plain(trace, SMSTART)),
            |trace| trace.instruction(&Step::plain(4, NOP)),
            "astf-context-after-change",
        ),
        (
            "a tagged address",
            at_el0,
            |trace| accesses(trace, LDR, &[read(0x0f00_0000_0000_1000, 8)]),
            "astf-address-sanitized",
        ),
        ("branch without outcome", at_el0, |trace| plain(trace, B), "is a branch"),
        ("unconditional branch", at_el0, |trace| effect(trace, B, Effect::NotTaken), "always taken"),
        ("wrong target", at_el0, |trace| effect(trace, B, Effect::Taken(12)), "has another target"),
        (
            "taken and trapped",
            at_el0,
            |trace| trace.instruction(&Step { effect: Effect::Taken(8), exception: svc(0), ..Step::plain(0, B) }),
            "not taken",
        ),
        ("return without target", at_el0, |trace| plain(trace, ERET), "its target is missing"),
        ("return by another", at_el0, |trace| effect(trace, NOP, Effect::ExceptionReturn(8)), "does not return"),
        ("nothing accessed", at_el0, |trace| accesses(trace, LDR, &[read(0, 0)]), "at least one byte"),
        (
            "a range in both directions",
            at_el0,
            |trace| accesses(trace, CPYP, &[Access { read: true, ..range(0, 8, true) }]),
            "either reads or writes",
        ),
        (
            "ranges in the wrong order",
            at_el0,
            |trace| accesses(trace, CPYP, &[range(0, 8, true), range(64, 8, false)]),
            "comes before one that writes",
        ),
        (
            "a range and an index",
            at_el0,
            |trace| {
                let accesses = [range(0, 8, true)];
                let effect = Effect::Accesses(&accesses);
                trace.instruction(&Step { effect, sme_index: Some(1), ..Step::plain(0, 0xe100_0004) })
            },
            "no field",
        ),
    ];
    for (name, begin, attempt, expected) in rows {
        let mut trace = begin();
        let error = attempt(&mut trace).err().unwrap_or_else(|| panic!("{name} was not refused")).to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert_eq!(trace.finish(), begin().finish(), "{name} left something");
    }
}

fn written(step: &Step<'_>) -> Vec<Record> {
    let mut trace = at_el0();
    trace.instruction(step).unwrap();
    trace.finish()[2..].iter().map(Record::from_bytes).collect()
}

#[test]
fn a_long_access_is_split_into_parts_of_256_bytes() {
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
fn a_string_is_split_and_padded() {
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
fn waiting_writes_one_timestamp_per_distinct_time() {
    // (time before, from, to, timestamps written)
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

/// Next event of a random program.
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

/// Items of a trace, as they are read back.
#[derive(Debug, Clone, PartialEq)]
enum Found {
    Executed(Executed),
    Trap(u64),
    Context(u8),
    Time(u64),
    Text(Vec<u8>),
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Executed {
    pc: u64,
    opcode: u32,
    target: Option<u64>,
    accesses: Vec<Access>,
    trap: Option<u64>,
    time: u64,
    el: u8,
}

/// Accesses in parts that fit into records.
fn split(accesses: &[Access]) -> Vec<Access> {
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

/// Changes the Exception level, with a context if it differs.
fn level(trace: &mut Trace, found: &mut Vec<Found>, from: u8, el: u8, pid: Option<u64>) -> u8 {
    if from != el {
        let process = pid.filter(|_| el == 0).map(|pid| Process { pid, tid: Some(pid) });
        trace.context(&State { el, handler: el > 0, process, ..State::default() }).unwrap();
        found.push(Found::Context(el));
    }
    el
}

fn run(program: &[Next]) -> (Vec<Bytes>, Vec<Found>) {
    let mut trace = begun(Level::BasicPlus, true);
    let (mut pc, mut time, mut el) = (0x1000, 5, 0);
    trace.timestamp(time).unwrap();
    trace.context(&State::default()).unwrap();
    let mut found = vec![Found::Time(time), Found::Context(0)];
    for next in program {
        let executed = Executed { pc, time, el, ..Executed::default() };
        match next {
            Next::Plain => {
                trace.instruction(&Step::plain(pc, NOP)).unwrap();
                found.push(Found::Executed(Executed { opcode: NOP, ..executed }));
                pc += 4;
            }
            Next::Branch => {
                trace.instruction(&Step { effect: Effect::Taken(pc + 8), ..Step::plain(pc, B) }).unwrap();
                found.push(Found::Executed(Executed { opcode: B, target: Some(pc + 8), ..executed }));
                pc += 8;
            }
            Next::Load(accesses) => {
                let each =
                    |&(address, bytes, tagged): &(u32, u16, bool)| Access { tagged, ..read(address.into(), bytes) };
                let accesses: Vec<Access> = accesses.iter().map(each).collect();
                trace.instruction(&Step { effect: Effect::Accesses(&accesses), ..Step::plain(pc, LD1) }).unwrap();
                found.push(Found::Executed(Executed { opcode: LD1, accesses: split(&accesses), ..executed }));
                pc += 4;
            }
            Next::Call => {
                trace.instruction(&Step { exception: svc(0x400), ..Step::plain(pc, SVC) }).unwrap();
                found.push(Found::Executed(Executed { opcode: SVC, trap: Some(0x400), ..executed }));
                pc = 0x400;
                el = level(&mut trace, &mut found, el, el.max(1), None);
            }
            Next::Interrupt => {
                trace.redirected(Redirection::Irq { is_virtual: false }, 0x480).unwrap();
                found.push(Found::Trap(0x480));
                pc = 0x480;
                el = level(&mut trace, &mut found, el, el.max(1), None);
            }
            // At EL0 there is nothing to return to.
            Next::Return(..) if el == 0 => {}
            Next::Return(to, to_el, pid) => {
                let to = u64::from(*to) * 4;
                trace.instruction(&Step { effect: Effect::ExceptionReturn(to), ..Step::plain(pc, ERET) }).unwrap();
                found.push(Found::Executed(Executed { opcode: ERET, trap: Some(to), ..executed }));
                pc = to;
                el = level(&mut trace, &mut found, el, el.min(*to_el), *pid);
            }
            Next::Time(passed) => {
                time += passed;
                trace.timestamp(time).unwrap();
                found.push(Found::Time(time));
            }
            Next::Text(text) => {
                trace.string(text).unwrap();
                found.push(Found::Text(text.clone()));
            }
        }
    }
    (trace.finish(), found)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn written_items_are_read_back(program in prop::collection::vec(next(), 0..60)) {
        let (records, expected) = run(&program);
        let mut found = Vec::new();
        lift(&records, |_, item| found.push(match item {
            Item::Instruction(executed) => Found::Executed(Executed {
                pc: executed.instruction.pc,
                opcode: executed.instruction.iword,
                target: executed.instruction.is_taken().then_some(executed.instruction.ea),
                accesses: executed.accesses.to_vec(),
                trap: executed.trap.map(|trap| trap.target_pc),
                time: executed.time.unwrap(),
                el: executed.context.unwrap().el,
            }),
            Item::Trap(trap) => Found::Trap(trap.target_pc),
            Item::Context(context) => Found::Context(context.el),
            Item::Timestamp(timestamp) => Found::Time(timestamp.value),
            Item::String(text) => Found::Text(text.to_vec()),
            Item::Stray(record) => panic!("{record:?}"),
        }));
        prop_assert_eq!(found, expected);
        assert_no_errors(&records, "written");
    }

    #[test]
    fn any_records_can_be_lifted(records: Vec<Bytes>) {
        let mut items = 0;
        lift(&records, |_, _| items += 1);
        prop_assert!(items <= 2 * records.len() + 1);
    }
}
