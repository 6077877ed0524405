//! The walk against a reference, and against programs whose execution is known.
//!
//! [`ReferenceWalk`] is the third stage of the specification's trace analyzer (Arm DDI 0487), instruction by instruction,
//! without a graph and without cached runs. Both walks produce the same events for any packets. [`Machine`] executes a
//! random program and traces itself as a trace unit does; the walk finds what it executed.
//!
//! Where the specification's text is silent, or its pseudocode cannot be meant, [`ReferenceWalk`] does what we decided:
//!
//! - After missing code or a contradiction the position is unknown until the next address, and the return stack is empty.
//!   The text would take the next target from the return stack. A P0 element that could not be followed empties it too.
//! - An indirect branch without an address is a contradiction if the return stack can have no entry for it, or is off.
//! - An exception that no address follows continues at its return address, as in the text.
//! - An N atom at an unconditional branch is a contradiction; the text continues after the branch.
//! - So is an address other than the one that the code leads to, unless an exception was taken before it.
//! - So is a return address or a source address after an unconditional branch; the text passes it.
//! - Only a taken branch pushes a return address: the text pushes for an N atom too, and for branches before an exception
//!   or a source address.
//! - A trace info does not take the target of the branch before it from the return stack, as the text does: the next P0
//!   element does, and an address may come before it.
//! - A counted Q element without a branch continues after its last instruction if no address follows.
//! - A pending clear of the return stack is done once, before the next P0 element pushes its return address. The text
//!   clears it after that element, and after every later one.
//! - A mispredict is about the last atom, and only if nothing but addresses and contexts came in between.

mod machine;
mod reference;

use std::fmt;

use machine::Machine;
use proptest::prelude::*;
use reference::{FlowEvent, Program, ReferenceWalk, flow_events, instruction_ranges};
use unspool_coresight::etm4::packet::{Address, ExceptionAddress, FewAtoms, TraceInfo};
use unspool_coresight::etm4::{Config, Packet, PacketItem, Registers};
use unspool_coresight::{
    Atoms, Context, DecodeElements as _, Decoders as _, ElementItem, Located, Malformed, PacketError, Profile,
    Protocol, Security, SubIsa, Transactions,
};

/// Start of the program of EL0; that of EL1 starts half a program later.
const BASE: u64 = 0x8000;

fn config(return_stack: bool, max_speculation: u32) -> Config {
    let mut registers = Registers::default();
    registers.set("TRCCONFIGR", if return_stack { 0x1801 } else { 0x0801 });
    registers.set("TRCIDR8", max_speculation);
    // Commits are packets, and Q elements are possible.
    registers.set("TRCIDR0", 0x0801_8ea1);
    Config::new(Protocol::Ete, Profile::Application, &registers).0
}

fn context(el: u8) -> Context {
    Context { el, aarch64: true, security: Security::NonSecure, vmid: None, context_id: None }
}

fn full(address: u64) -> Address {
    Address::full(SubIsa::Is0, address)
}

/// Packets with a readable debug format.
#[derive(Clone)]
struct Stream(Vec<PacketItem>);

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|item| match item {
            Ok(packet) => write!(f, "\n  {}: {}", packet.offset, packet.value),
            Err(error) => write!(f, "\n  {error}"),
        })
    }
}

/// Packets of one byte each.
fn located(packets: impl IntoIterator<Item = Option<Packet>>) -> Stream {
    let broken = |offset| PacketError { offset, skipped: 1, kind: Malformed::ReservedHeader(0) };
    let item = |(offset, packet): (u64, Option<Packet>)| {
        packet.map(|value| Located { offset, length: 1, value }).ok_or(broken(offset))
    };
    Stream((0..).zip(packets).map(item).collect())
}

fn committed(config: &Config, packets: &[PacketItem]) -> Vec<ElementItem> {
    let mut decoder = config.committed(Transactions::Show);
    let mut elements = vec![];
    for packet in packets {
        decoder.push(*packet, &mut |item| elements.push(item));
    }
    decoder.finish(&mut |item| elements.push(item));
    elements
}

/// The events of the reference walk.
fn reference_events(config: &Config, program: &Program, packets: &[PacketItem]) -> Vec<FlowEvent> {
    let mut walk = ReferenceWalk::new(config, program);
    committed(config, packets).iter().for_each(|item| walk.element(item));
    walk.finish()
}

fn ranges(events: &[FlowEvent]) -> Vec<FlowEvent> {
    events.iter().copied().filter(|event| matches!(event, FlowEvent::Range { .. })).collect()
}

/// Instructions, half of them branches, mostly within the program.
fn word() -> impl Strategy<Value = u32> {
    let near = -9_i32..10;
    let field = |offset: i32, width: u32, low: u32| (offset as u32 & ((1 << width) - 1)) << low;
    prop_oneof![
        // NOP, and SVC, which is not a P0 instruction.
        8 => prop_oneof![Just(0xd503_201f_u32), Just(0xd400_0001)],
        // B, BL, B.EQ, B.AL, CBZ, TBNZ
        1 => near.clone().prop_map(move |offset| 0x1400_0000 | field(offset, 26, 0)),
        2 => near.clone().prop_map(move |offset| 0x9400_0000 | field(offset, 26, 0)),
        2 => near.clone().prop_map(move |offset| 0x5400_0000 | field(offset, 19, 5)),
        1 => near.clone().prop_map(move |offset| 0x5400_000e | field(offset, 19, 5)),
        1 => near.clone().prop_map(move |offset| 0xb400_0000 | field(offset, 19, 5)),
        1 => near.prop_map(move |offset| 0x3700_0000 | field(offset, 14, 5)),
        // RET, BR, BLR, ERET
        2 => Just(0xd65f_03c0),
        1 => prop_oneof![Just(0xd61f_0020_u32), Just(0xd63f_0020)],
        1 => Just(0xd69f_03e0),
        // ISB, WFI, TSTART
        1 => prop_oneof![Just(0xd503_3fdf_u32), Just(0xd503_207f), Just(0xd523_3060)],
    ]
}

fn program() -> impl Strategy<Value = Program> {
    prop::collection::vec(word(), 4..40).prop_map(|words| Program::new(BASE, &words))
}

/// Addresses in the program, and some that are not.
fn position() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => (0..40_u64).prop_map(|index| BASE + 4 * index),
        1 => prop_oneof![Just(0), Just(BASE - 4), Just(u64::MAX - 3), Just(BASE + 0x2_0000)],
    ]
}

fn atoms() -> impl Strategy<Value = Packet> {
    prop_oneof![
        3 => (any::<u32>(), 1..6_u8).prop_map(|(bits, count)| Packet::Atoms(Atoms::new(bits, count))),
        3 => (1..25_u8).prop_map(|count| Packet::Atoms(Atoms::new(u32::MAX, count))),
    ]
}

fn exception() -> impl Strategy<Value = Vec<Option<Packet>>> {
    let address = prop_oneof![
        6 => position().prop_map(|at| Packet::Address(full(at))),
        2 => (position(), 0..2_u8).prop_map(|(at, el)| Packet::AddressContext { address: full(at), context: context(el) }),
        1 => Just(Packet::Ignore),
    ];
    let what = prop_oneof![3 => Just(ExceptionAddress::Return), 1 => Just(ExceptionAddress::TargetAndReturn)];
    // A PE reset has no return address; 24 is a transaction failure.
    (prop_oneof![6 => Just(14), 1 => Just(0), 1 => Just(24)], what, address).prop_map(|(number, address, next)| {
        vec![Some(Packet::Exception { number, address, fault_pending: None }), Some(next)]
    })
}

/// Packets that belong together; `None` is a malformed byte.
fn few_packets(speculates: bool) -> impl Strategy<Value = Vec<Option<Packet>>> {
    let info = move || Packet::TraceInfo(TraceInfo { speculation: speculates.then_some(0), ..TraceInfo::default() });
    let at = |(at, el)| Packet::AddressContext { address: full(at), context: context(el) };
    let start = move |(position, on): (_, bool)| {
        let on = on.then_some(Some(Packet::TraceOn));
        [Some(info())].into_iter().chain(on).chain([Some(at(position))]).collect::<Vec<_>>()
    };
    let q = (prop::option::of(0..9_u32), prop::option::of((0..40_u64).prop_map(|at| 4 * at)));
    let q = q.prop_map(|(count, low)| {
        let address = low.filter(|_| count.is_some()).map(|low| Address::low(SubIsa::Is0, 9, low));
        Packet::Q { count, address }
    });
    let speculation = prop_oneof![
        3 => (0..6_u32).prop_map(|count| Packet::Commit { count }),
        1 => (1..4_u32, any::<bool>()).prop_map(|(count, mispredict)| Packet::CancelFormat1 { count, mispredict }),
        1 => prop_oneof![Just(FewAtoms::E), Just(FewAtoms::EE), Just(FewAtoms::N)].prop_map(Packet::CancelFormat2),
        3 => prop_oneof![Just(FewAtoms::None), Just(FewAtoms::E), Just(FewAtoms::N)].prop_map(Packet::Mispredict),
    ];
    let alone = prop_oneof![
        15 => atoms(),
        10 => position().prop_map(|at| Packet::Address(full(at))),
        10 => if speculates { speculation.boxed() } else { atoms().boxed() },
        3 => (position(), 0..2_u8).prop_map(at),
        2 => (0..2_u8).prop_map(|el| Packet::Context(Some(context(el)))),
        1 => Just(info()),
        1 => prop_oneof![Just(Packet::TraceOn), Just(Packet::Discard), Just(Packet::Overflow)],
        1 => prop_oneof![Just(Packet::TransactionStart), Just(Packet::TransactionCommit)],
        1 => Just(Packet::Event { mask: 1 }),
        2 => q,
        2 => position().prop_map(|at| Packet::SourceAddress(full(at))),
    ];
    prop_oneof![
        40 => alone.prop_map(|packet| vec![Some(packet)]),
        5 => exception(),
        5 => ((position(), 0..2_u8), any::<bool>()).prop_map(start),
        1 => Just(vec![None]),
    ]
}

fn any_packets(speculates: bool) -> impl Strategy<Value = Stream> {
    let info = TraceInfo { speculation: speculates.then_some(0), ..TraceInfo::default() };
    let start =
        [Packet::TraceInfo(info), Packet::TraceOn, Packet::AddressContext { address: full(BASE), context: context(0) }];
    prop::collection::vec(few_packets(speculates), 0..60).prop_map(move |few| {
        // Twice, so that the second time uses cached runs.
        let once: Vec<Option<Packet>> = start.map(Some).into_iter().chain(few.concat()).collect();
        located([once.clone(), once].concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// All events, without speculation.
    #[test]
    fn walk_agrees_with_the_reference(
        program in program(),
        packets in any_packets(false),
        return_stack in any::<bool>(),
    ) {
        let config = config(return_stack, 0);
        let expected = reference_events(&config, &program, &packets.0);
        prop_assert_eq!(flow_events(&config, &program, &packets.0), expected);
    }

    /// The ranges, with speculation: items that wait for a mispredict come later than in the reference.
    #[test]
    fn walk_agrees_with_the_reference_on_speculation(
        program in program(),
        packets in any_packets(true),
        return_stack in any::<bool>(),
        depth in 1..30_u32,
    ) {
        let config = config(return_stack, depth);
        let expected = ranges(&reference_events(&config, &program, &packets.0));
        prop_assert_eq!(ranges(&flow_events(&config, &program, &packets.0)), expected);
    }

    /// Instructions are those of the ranges, whether their run is cached or not.
    #[test]
    fn instructions_are_those_of_the_ranges(
        program in program(),
        packets in any_packets(false),
        return_stack in any::<bool>(),
    ) {
        let config = config(return_stack, 0);
        let ranges = ranges(&flow_events(&config, &program, &packets.0));
        let joined = instruction_ranges(&config, &program, &packets.0);
        prop_assert_eq!(joined.len(), ranges.len());
        for (joined, range) in joined.iter().zip(&ranges) {
            let &FlowEvent::Range { start, end, taken } = range else { continue };
            prop_assert_eq!(*joined, (start, end, joined.2.map(|_| taken)));
        }
    }

    /// The walk finds what a machine that traces itself executed, and reports no problem.
    #[test]
    fn walk_finds_what_was_executed(
        program in program(),
        tape in prop::collection::vec(any::<u8>(), 0..600),
        return_stack in any::<bool>(),
        depth in prop_oneof![Just(0), 1..30_u32],
    ) {
        let config = config(return_stack, depth);
        let mut machine = Machine::new(&program, &config, tape);
        machine.run();
        let packets = located(machine.packets.iter().copied().map(Some));
        let events = flow_events(&config, &program, &packets.0);
        prop_assert_eq!(ranges(&events), &machine.executed[..], "{:?}", packets);
        prop_assert!(!events.iter().any(FlowEvent::is_problem), "{:?}\n{:?}", events, packets);
        prop_assert_eq!(ranges(&reference_events(&config, &program, &packets.0)), machine.executed);
    }
}

/// Number of cases; `PROPTEST_CASES` overrides it, as everywhere.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4000)
}
