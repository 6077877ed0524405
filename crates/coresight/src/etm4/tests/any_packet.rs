//! Arbitrary packets that a configuration can send.

use alloc::vec;

use proptest::prelude::*;

use crate::etm4::Config;
use crate::etm4::packet::{
    Address, ConditionalInstruction, ConditionalResult, CycleCount, ExceptionAddress, FewAtoms, KeyResult, Packet,
    TraceInfo,
};
use crate::{Context, Security, SubIsa};

fn sub_isa() -> impl Strategy<Value = SubIsa> {
    prop_oneof![Just(SubIsa::Is0), Just(SubIsa::Is1)]
}

fn long_address() -> impl Strategy<Value = Address> {
    (sub_isa(), any::<u64>(), any::<bool>()).prop_map(|(isa, value, full)| {
        let value = value >> isa.shift() << isa.shift();
        if full { Address::full(isa, value) } else { Address::low(isa, 32, value & 0xffff_ffff) }
    })
}

fn short_address() -> impl Strategy<Value = Address> {
    (sub_isa(), any::<u16>(), any::<bool>()).prop_map(|(isa, field, long)| {
        let width = if long { 15 } else { 7 };
        let value = (u64::from(field) & ((1 << width) - 1)) << isa.shift();
        Address::low(isa, width + isa.shift(), value)
    })
}

fn address() -> impl Strategy<Value = Address> {
    prop_oneof![(0..3_u8).prop_map(Address::same_as), short_address(), long_address()]
}

fn q() -> impl Strategy<Value = Packet> {
    let address = address().prop_filter("a Q packet has no 64-bit address", |a| a.bits != 64);
    prop_oneof![
        Just(Packet::Q { count: None, address: None }),
        (any::<u32>(), prop::option::of(address))
            .prop_map(|(count, address)| Packet::Q { count: Some(count), address }),
    ]
}

fn context() -> impl Strategy<Value = Context> {
    let security =
        prop_oneof![Just(Security::Secure), Just(Security::NonSecure), Just(Security::Root), Just(Security::Realm)];
    (0..4_u8, any::<bool>(), security, any::<Option<u32>>(), any::<Option<u32>>())
        .prop_map(|(el, aarch64, security, vmid, context_id)| Context { el, aarch64, security, vmid, context_id })
}

fn few_atoms() -> impl Strategy<Value = FewAtoms> {
    prop_oneof![Just(FewAtoms::None), Just(FewAtoms::E), Just(FewAtoms::EE), Just(FewAtoms::N)]
}

fn timestamp() -> impl Strategy<Value = Packet> {
    let bits = prop_oneof![(1..=8_u8).prop_map(|n| 7 * n), Just(64)];
    (any::<u64>(), bits, prop::option::of(0..1_u32 << 20)).prop_map(|(value, bits, cycles)| {
        let value = if bits == 64 { value } else { value & ((1 << bits) - 1) };
        Packet::Timestamp { value, bits, cycles }
    })
}

fn exception() -> impl Strategy<Value = Packet> {
    let address = prop_oneof![Just(ExceptionAddress::Return), Just(ExceptionAddress::TargetAndReturn)];
    (0..0x400_u16, address, any::<Option<bool>>()).prop_map(|(number, address, fault_pending)| {
        let number = if fault_pending.is_none() { number & 0x1f } else { number };
        Packet::Exception { number, address, fault_pending }
    })
}

fn cycle_count(config: &Config) -> impl Strategy<Value = CycleCount> + use<> {
    let commits = !config.commit_mode_1;
    prop_oneof![
        (any::<u32>(), prop::option::of(0..1_u32 << 20))
            .prop_map(move |(commit, cycles)| CycleCount::Format1 { commit: commits.then_some(commit), cycles }),
        (any::<bool>(), 0..16_u8, 0..16_u8).prop_map(|(near_maximum, commit, cycles)| CycleCount::Format2 {
            near_maximum,
            commit,
            cycles
        }),
        (0..4_u8, 0..4_u8).prop_map(|(commit, cycles)| CycleCount::Format3 { commit, cycles }),
    ]
}

fn key_result() -> impl Strategy<Value = KeyResult> {
    (any::<u32>(), 0..16_u8, any::<bool>()).prop_map(|(key, result, ci)| KeyResult { key, result, ci })
}

fn conditional() -> impl Strategy<Value = Packet> {
    prop_oneof![
        any::<u32>().prop_map(|key| Packet::ConditionalInstruction(ConditionalInstruction::Format1 { key })),
        (0..3_u8).prop_map(|step| Packet::ConditionalInstruction(ConditionalInstruction::Format2 { step })),
        (0..64_u8, any::<bool>())
            .prop_map(|(count, last)| Packet::ConditionalInstruction(ConditionalInstruction::Format3 { count, last })),
        Just(Packet::ConditionalFlush),
        (key_result(), prop::option::of(key_result()))
            .prop_map(|(first, second)| Packet::ConditionalResult(ConditionalResult::Format1 { first, second })),
        (any::<bool>(), 0..3_u8)
            .prop_map(|(skip, token)| Packet::ConditionalResult(ConditionalResult::Format2 { skip, token })),
        (0..0x1000_u16).prop_map(|tokens| Packet::ConditionalResult(ConditionalResult::Format3 { tokens })),
        (0..3_u8).prop_map(|token| Packet::ConditionalResult(ConditionalResult::Format4 { token })),
    ]
}

fn trace_info() -> impl Strategy<Value = Packet> {
    let section = || any::<Option<u32>>();
    (section(), section(), section(), section()).prop_map(|(info, key, speculation, cycle_threshold)| {
        Packet::TraceInfo(TraceInfo { info, key, speculation, cycle_threshold })
    })
}

/// Packets that both architectures have.
fn common(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    prop_oneof![
        8 => (0xc0..=0xff_u8).prop_map(|header| Packet::Atoms(crate::etm4::atoms::from_header(header))),
        4 => address().prop_map(Packet::Address),
        2 => (long_address(), context()).prop_map(|(address, context)| Packet::AddressContext { address, context }),
        1 => prop::option::of(context()).prop_map(Packet::Context),
        1 => prop_oneof![Just(Packet::AlignmentSync), Just(Packet::Discard), Just(Packet::Overflow), Just(Packet::TraceOn)],
        1 => trace_info(),
        1 => timestamp(),
        1 => exception(),
        1 => cycle_count(config).prop_map(Packet::CycleCount),
        1 => any::<u32>().prop_map(|count| Packet::Commit { count }),
        1 => (any::<u32>(), any::<bool>()).prop_map(|(count, mispredict)| Packet::CancelFormat1 { count, mispredict }),
        1 => few_atoms().prop_map(Packet::CancelFormat2),
        1 => (2..6_u8, any::<bool>()).prop_map(|(count, atom)| Packet::CancelFormat3 { count, atom }),
        1 => few_atoms().prop_map(Packet::Mispredict),
        1 => Just(Packet::Ignore),
        1 => (1..16_u8).prop_map(|mask| Packet::Event { mask }),
        1 => Just(Packet::TimestampMarker),
        1 => q(),
    ]
}

/// Any packet of an ETE trace unit.
pub(crate) fn ete_packet(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    prop_oneof![
        8 => common(config),
        1 => address().prop_map(Packet::SourceAddress),
        1 => (0..4_u8, any::<u64>()).prop_map(|(el, value)| Packet::Instrumentation { el, value }),
        1 => prop_oneof![Just(Packet::TransactionStart), Just(Packet::TransactionCommit)],
    ]
}

/// Any packet of an ETMv4 trace unit.
pub(crate) fn etm4_packet(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    prop_oneof![
        8 => common(config),
        1 => conditional(),
        1 => prop_oneof![Just(Packet::FunctionReturn), Just(Packet::ExceptionReturn)],
        1 => (0..8_u8).prop_map(Packet::NumberedDataSync),
        1 => (0..5_u8).prop_map(Packet::UnnumberedDataSync),
    ]
}
