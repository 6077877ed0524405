//! Arbitrary packets that a configuration can send.

use alloc::vec;

use proptest::prelude::*;

use crate::etm3::Config;
use crate::etm3::packet::{
    Branch, BranchException, DataAddress, ExceptionInformation, InstructionSet, InstructionSync, PHeader, Packet,
    SyncReason, SyncTarget,
};

fn low(value: u32, bits: u8) -> u32 {
    value & 1_u32.checked_shl(bits.into()).map_or(u32::MAX, |bit| bit - 1)
}

fn p_header(config: &Config) -> BoxedStrategy<PHeader> {
    let most = if config.cycle_accurate { 8_u8 } else { 16 };
    let plain = prop_oneof![
        (0..most, any::<bool>()).prop_map(|(executed, failed)| PHeader::Format1 { executed, failed }),
        (any::<bool>(), any::<bool>()).prop_map(|(first, second)| PHeader::Format2 { first, second }),
    ];
    if !config.cycle_accurate {
        return plain.boxed();
    }
    prop_oneof![
        plain,
        (1..9_u8, any::<bool>()).prop_map(|(cycles, executed)| PHeader::Format3 { cycles, executed }),
        any::<bool>().prop_map(|executed| PHeader::Format4 { executed }),
    ]
    .boxed()
}

fn exception() -> impl Strategy<Value = ExceptionInformation> {
    let fields = (0..0x200_u16, any::<[bool; 3]>(), any::<Option<bool>>(), prop::option::of(0..16_u8));
    fields.prop_map(|(number, [canceled, non_secure, alternative_isa], hyp, resume)| ExceptionInformation {
        number: if hyp.is_none() { number & 0xf } else { number },
        canceled,
        non_secure,
        alternative_isa,
        hyp,
        resume,
    })
}

fn branch(config: &Config) -> impl Strategy<Value = Branch> + use<> {
    let alternative = config.alternative_branches;
    let fields = (any::<u32>(), 0..7_u8, prop::option::of(exception()), 0..8_u8, any::<bool>());
    fields.prop_map(move |(value, form, information, code, canceled)| {
        let isa = match form {
            4 => Some(InstructionSet::Arm),
            5 => Some(InstructionSet::Thumb),
            6 => Some(InstructionSet::Jazelle),
            _ => None,
        };
        let bits = match form {
            0 => 6,
            1..=3 if alternative => 7 * form + 5,
            1..=3 => 7 * form + 6,
            _ => 26 + form,
        };
        let may_have_exception = isa.is_some() || alternative && form > 0;
        let exception = match information.filter(|_| may_have_exception) {
            // Rare, and only in this form.
            Some(information) if form == 4 && !alternative && information.number & 7 == 0 => {
                Some(BranchException::Deprecated { code, canceled })
            }
            other => other.map(BranchException::Information),
        };
        Branch { value: low(value, bits), bits, isa, exception }
    })
}

fn sync(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    let (config, branch) = (*config, prop::option::of(branch(config)));
    let reason = prop_oneof![
        Just(SyncReason::Periodic),
        Just(SyncReason::Enabled),
        Just(SyncReason::Overflow),
        Just(SyncReason::DebugExit)
    ];
    let isa = prop_oneof![
        Just(InstructionSet::Arm),
        Just(InstructionSet::Thumb),
        Just(InstructionSet::ThumbEe),
        Just(InstructionSet::Jazelle)
    ];
    let fields = (reason, any::<Option<u32>>(), any::<u32>(), any::<[bool; 2]>(), any::<u32>(), isa, branch);
    fields.prop_map(move |(reason, cycles, id, [non_secure, hyp], address, isa, next)| {
        let address = if isa == InstructionSet::Jazelle { address } else { address & !1 };
        let id = low(id, 8 * config.context_id_bytes);
        Packet::InstructionSync(InstructionSync {
            reason,
            cycles,
            context_id: (config.context_id_bytes > 0).then_some(id),
            non_secure,
            hyp,
            target: (!config.data_only).then_some(SyncTarget { address, isa }),
            next: next.filter(|_| !config.data_only),
        })
    })
}

fn timestamp(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    let whole = config.timestamp_bits;
    (any::<u64>(), 1..10_u8, any::<bool>()).prop_map(move |(value, bytes, frequency_changed)| {
        let longest = if whole == 64 { 9 } else { 7 };
        let bits = if bytes >= longest { whole } else { 7 * bytes };
        let value = if bits == 64 { value } else { value & ((1 << bits) - 1) };
        Packet::Timestamp { value, bits, frequency_changed }
    })
}

fn transfer(config: &Config) -> impl Strategy<Value = (bool, Option<DataAddress>)> + use<> {
    let addresses = config.data_addresses;
    (any::<bool>(), any::<u32>(), 1..6_u8, any::<bool>()).prop_map(move |(first, value, bytes, big_endian)| {
        let bits = if bytes == 5 { 32 } else { 7 * bytes };
        let big_endian = (bytes == 5).then_some(big_endian);
        (first, (first && addresses).then_some(DataAddress { value: low(value, bits), bits, big_endian }))
    })
}

fn data(config: &Config) -> impl Strategy<Value = Packet> + use<> {
    let values = config.data_values;
    let value = || {
        let any = prop_oneof![Just(0), 0..0x100_u32, 0..0x1_0000_u32, any::<u32>()];
        any.prop_map(move |value| values.then_some(value))
    };
    prop_oneof![
        (transfer(config), value()).prop_map(|((first, address), value)| Packet::Data { first, address, value }),
        (transfer(config), 1..4_u8).prop_map(|((first, address), tag)| Packet::Placeholder { tag, first, address }),
        (1..4_u8, value()).prop_map(|(tag, value)| Packet::OutOfOrderData { tag, value }),
        transfer(config).prop_map(|(first, address)| Packet::ValueNotTraced { first, address }),
        Just(Packet::StoreFailed),
    ]
}

/// Any packet of a trace unit with this configuration.
pub(crate) fn any_packet(config: &Config) -> BoxedStrategy<Packet> {
    let bytes = config.context_id_bytes;
    let mut kinds = vec![
        (1, Just(Packet::AlignmentSync).boxed()),
        (1, any::<u32>().prop_map(|cycles| Packet::CycleCount { cycles }).boxed()),
        (2, sync(config).boxed()),
        (1, any::<u8>().prop_map(Packet::Vmid).boxed()),
        (2, timestamp(config).boxed()),
        (
            1,
            prop_oneof![
                Just(Packet::Trigger),
                Just(Packet::Ignore),
                Just(Packet::ExceptionExit),
                Just(Packet::ExceptionEntry)
            ]
            .boxed(),
        ),
    ];
    if bytes > 0 {
        kinds.push((1, any::<u32>().prop_map(move |id| Packet::ContextId(low(id, 8 * bytes))).boxed()));
    }
    if !config.data_only {
        kinds.push((8, p_header(config).prop_map(Packet::PHeader).boxed()));
        kinds.push((4, branch(config).prop_map(Packet::Branch).boxed()));
        kinds.push((1, Just(Packet::DataSuppressed).boxed()));
    }
    if config.data_values || config.data_addresses {
        kinds.push((6, data(config).boxed()));
    }
    prop::strategy::Union::new_weighted(kinds).boxed()
}
