//! Any packet that a configuration can send.

use proptest::prelude::*;

use crate::Atoms;
use crate::ptm::Config;
use crate::ptm::packet::{Address, AddressIsa, Branch, BranchInfo, InstructionSync, Packet, SyncReason};

fn bits(count: u32) -> impl Strategy<Value = u32> {
    any::<u32>().prop_map(move |value| value.checked_shr(32 - count).unwrap_or(0))
}

/// Small and large counts, as far as the trace has any.
fn cycles(config: &Config) -> impl Strategy<Value = Option<u32>> + use<> {
    let is_counting = config.cycle_accurate;
    prop_oneof![0..40_u32, any::<u32>()].prop_map(move |count| is_counting.then_some(count))
}

fn context_id(config: &Config) -> impl Strategy<Value = u32> + use<> {
    bits(8 * u32::from(config.context_id_bytes))
}

fn short_address() -> impl Strategy<Value = Address> {
    (1..5_u8, any::<u32>()).prop_map(|(bytes, value)| {
        let bits = Address::low(bytes, 0).bits();
        Address::low(bytes, value & ((1 << bits) - 1))
    })
}

fn full_address() -> impl Strategy<Value = Address> {
    let isa = prop_oneof![4 => Just(AddressIsa::Arm), 4 => Just(AddressIsa::Thumb), 1 => Just(AddressIsa::Jazelle)];
    (isa, any::<u32>()).prop_map(|(isa, address)| Address::full(isa, address))
}

fn address() -> impl Strategy<Value = Address> {
    prop_oneof![3 => short_address(), 1 => full_address()]
}

fn info() -> impl Strategy<Value = BranchInfo> {
    let one = (0..16_u16, any::<bool>(), any::<bool>()).prop_map(|(exception, nonsecure, alternative)| BranchInfo {
        exception,
        nonsecure,
        alternative,
        hyp: None,
    });
    let two = (0..512_u16, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(exception, nonsecure, alternative, hyp)| BranchInfo { exception, nonsecure, alternative, hyp: Some(hyp) },
    );
    prop_oneof![one, two]
}

fn branch(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    (address(), prop::option::of(info()), cycles(config)).prop_map(|(address, info, cycles)| {
        let info = info.filter(|_| address.bytes > 1);
        Packet::Branch(Branch { address, info, cycles })
    })
}

fn instruction_sync(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    let has_context_id = config.context_id_bytes > 0;
    (any::<u32>(), 0..4_u8, any::<[bool; 4]>(), cycles(config), context_id(config)).prop_map(
        move |(address, reason, [thumb, nonsecure, alternative, hyp], cycles, id)| {
            let reason = SyncReason::from_bits(reason);
            Packet::InstructionSync(InstructionSync {
                address: address & !1,
                thumb,
                reason,
                nonsecure,
                alternative,
                hyp,
                cycles: cycles.filter(|_| reason != SyncReason::Periodic),
                context_id: has_context_id.then_some(id),
            })
        },
    )
}

fn timestamp(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    let longest = config.timestamp_bits;
    (1..10_u8, any::<u64>(), any::<bool>(), cycles(config)).prop_map(move |(length, value, clock_changed, cycles)| {
        let bits = if length >= longest.div_ceil(7).min(9) { longest } else { 7 * length };
        Packet::Timestamp { value: value >> (64 - bits), bits, clock_changed, cycles }
    })
}

fn atoms(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    let most: u8 = if config.cycle_accurate { 1 } else { 5 };
    (1..=most, any::<u32>(), cycles(config))
        .prop_map(|(count, bits, cycles)| Packet::Atoms { atoms: Atoms::new(bits, count), cycles })
}

/// Any packet of a trace unit with this configuration.
pub(crate) fn packet(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    let new = config.version.minor > 0;
    let has_context_id = config.context_id_bytes > 0;
    prop_oneof![
        4 => atoms(config),
        4 => branch(config),
        1 => Just(Packet::AlignmentSync),
        1 => instruction_sync(config),
        1 => address().prop_map(|address| Packet::WaypointUpdate { address, alternative: None }),
        1 => prop_oneof![Just(Packet::Trigger), Just(Packet::ExceptionReturn), Just(Packet::Ignore)],
        1 => timestamp(config),
        1 => context_id(config).prop_map(move |id| if has_context_id { Packet::ContextId(id) } else { Packet::Ignore }),
        1 => any::<u8>().prop_map(move |id| if new { Packet::Vmid(id) } else { Packet::Ignore }),
    ]
}
