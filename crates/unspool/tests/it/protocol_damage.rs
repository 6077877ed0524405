//! Damage to one source of several in one buffer: 2,000 flipped bits for each protocol, and a byte lost or added anywhere.
//!
//! PTM, ETMv3, ITM and STM streams that the encoders made share a formatted buffer. Whatever bit of one is flipped, every
//! stage runs to the end, packets and skipped ranges tile the stream, packets are as without the damage after the next
//! synchronization but one, and those of all other sources are the same.

use std::collections::BTreeMap;

use unspool::coresight::frame::{Deformatter, Formatter, FrameSink, Layout, Mark, Span};
use unspool::coresight::{
    Atoms, ConfiguredSources, DecodeElements as _, DecodePackets as _, Decoders as _, ElementItem, Packet, PacketItem,
    Profile, Protocol, TraceConfig, Transactions, etm3, itm, ptm, stm, with_decoders,
};
use unspool::encode::software::{SoftwareUnit, parse_writes};
use unspool_testing::Random;

const FLIPS: usize = 2000;

/// Synchronizations of each stream.
const SYNCS: u32 = 12;

struct Source {
    id: u8,
    config: TraceConfig,
    stream: Vec<u8>,
}

fn config(protocol: Protocol, registers: &[(&'static str, u64)]) -> TraceConfig {
    TraceConfig::new(protocol, Profile::Unknown, registers.iter().copied(), []).0
}

fn ptm_source() -> Source {
    // Timestamps and context identifiers of 32 bits.
    let config = config(Protocol::Ptm, &[("ETMCR", 0x1000_c000), ("ETMIDR", 0x411c_f312), ("ETMCCER", 0x34c0_1ac2)]);
    let TraceConfig::Ptm(unit) = config else { panic!("{config:?}") };
    let mut stream = Vec::new();
    for index in 0..SYNCS {
        let sync = ptm::packet::InstructionSync {
            address: 0x8000 + 0x40 * index,
            thumb: false,
            reason: ptm::packet::SyncReason::Periodic,
            nonsecure: true,
            alternative: false,
            hyp: false,
            cycles: None,
            context_id: Some(index),
        };
        let mut packets = vec![ptm::Packet::AlignmentSync, ptm::Packet::InstructionSync(sync)];
        for atoms in 0..8 {
            packets.push(ptm::Packet::Atoms { atoms: Atoms::new(atoms, 1 + (atoms % 5) as u8), cycles: None });
        }
        packets.push(ptm::Packet::ContextId(0x1234_5678 + index));
        let value = 0x12_3456_7890 + u64::from(index);
        packets.push(ptm::Packet::Timestamp { value, bits: 64, clock_changed: false, cycles: None });
        packets.iter().for_each(|packet| packet.encode(&unit, &mut stream).unwrap());
    }
    Source { id: 0x10, config, stream }
}

fn etm3_source() -> Source {
    let config = config(Protocol::Etm3, &[("ETMCR", 0x1000_c000), ("ETMIDR", 0x410c_f250), ("ETMCCER", 0x3440_08f2)]);
    let TraceConfig::Etm3(unit) = config else { panic!("{config:?}") };
    let mut stream = Vec::new();
    for index in 0..SYNCS {
        let target =
            etm3::packet::SyncTarget { address: 0x8000 + 0x40 * index, isa: etm3::packet::InstructionSet::Arm };
        let sync = etm3::packet::InstructionSync {
            reason: etm3::packet::SyncReason::Periodic,
            cycles: None,
            context_id: Some(index),
            non_secure: true,
            hyp: false,
            target: Some(target),
            next: None,
        };
        let mut packets = vec![etm3::Packet::AlignmentSync, etm3::Packet::InstructionSync(sync)];
        for executed in 0..8 {
            packets
                .push(etm3::Packet::PHeader(etm3::packet::PHeader::Format1 { executed: executed + 1, failed: true }));
        }
        packets.push(etm3::Packet::ContextId(0x1234_5678 + index));
        packets.push(etm3::Packet::Trigger);
        packets.iter().for_each(|packet| packet.encode(&unit, &mut stream).unwrap());
    }
    Source { id: 0x11, config, stream }
}

fn software_source(protocol: Protocol, id: u8) -> Source {
    let mut unit = SoftwareUnit::new(protocol).unwrap();
    unit.sync_bytes = 40;
    let channel = if protocol == Protocol::Stm { "0x40:" } else { "" };
    let list: String = (0..8 * SYNCS)
        .map(|index| format!("{} {channel}{} 32 {}\n", 1000 + 77 * index, index % 200, index * 0x0101_0101))
        .collect();
    let list = parse_writes(&list).unwrap();
    let stream = unit.encode(list.iter().map(|listed| &listed.write)).unwrap();
    Source { id, config: config(protocol, &[]), stream }
}

fn sources() -> [Source; 4] {
    let software = [(Protocol::Itm, 0x12), (Protocol::Stm, 0x13)].map(|(protocol, id)| software_source(protocol, id));
    let [itm, stm] = software;
    [ptm_source(), etm3_source(), itm, stm]
}

/// The streams in one buffer, a few bytes of each in turn.
fn buffer(streams: &[(u8, &[u8])]) -> Vec<u8> {
    let mut formatter = Formatter::new();
    let longest = streams.iter().map(|(_, stream)| stream.len()).max().unwrap_or(0);
    for start in (0..longest).step_by(13) {
        for (id, stream) in streams {
            formatter.push(*id, stream.get(start..stream.len().min(start + 13)).unwrap_or_default());
        }
    }
    formatter.finish()
}

#[derive(Default)]
struct Streams(BTreeMap<u8, Vec<u8>>);

impl FrameSink for Streams {
    fn span(&mut self, span: Span<'_>) {
        self.0.entry(span.id).or_default().extend_from_slice(span.bytes);
    }

    fn mark(&mut self, _mark: Mark) {}
}

/// Items of one source in all stages.
#[derive(Debug, PartialEq)]
struct Decoded {
    packets: Vec<PacketItem>,
    elements: Vec<ElementItem>,
    committed: Vec<ElementItem>,
}

fn decode(config: TraceConfig, stream: &[u8]) -> Decoded {
    let (mut packets, mut elements, mut committed) = (Vec::new(), Vec::new(), Vec::new());
    with_decoders!(config, decoders => {
        let (mut of_all, mut of_committed) = (decoders.elements(), decoders.committed(Transactions::Show));
        decoders.packets().decode(stream, true, |item: PacketItem<_>| {
            of_all.push(item, &mut |element: ElementItem| elements.push(element));
            of_committed.push(item, &mut |element: ElementItem| committed.push(element));
            packets.push(item.map(|packet| packet.map(Packet::from)));
        });
        of_all.finish(&mut |element: ElementItem| elements.push(element));
        of_committed.finish(&mut |element: ElementItem| committed.push(element));
    });
    Decoded { packets, elements, committed }
}

fn decode_buffer(sources: &[Source], buffer: &[u8]) -> Vec<Decoded> {
    let mut streams = Streams::default();
    let mut deformatter = Deformatter::new(Layout::FromStart);
    deformatter.push(buffer, &mut streams);
    deformatter.finish(&mut streams);
    let stream = |source: &Source| streams.0.get(&source.id).cloned().unwrap_or_default();
    sources.iter().map(|source| decode(source.config, &stream(source))).collect()
}

fn extent(item: &PacketItem) -> (u64, u64) {
    match item {
        Ok(packet) => (packet.offset, packet.length),
        Err(error) => (error.offset, error.skipped),
    }
}

fn is_sync(item: &PacketItem) -> bool {
    let Ok(packet) = item else { return false };
    match packet.value {
        Packet::Ptm(packet) => packet == ptm::Packet::AlignmentSync,
        Packet::Etm3(packet) => packet == etm3::Packet::AlignmentSync,
        Packet::Itm(packet) => packet == itm::Packet::Sync,
        Packet::Stm(packet) => packet.body == stm::Body::Async,
        _ => false,
    }
}

/// The packets from an offset on.
fn from(decoded: &Decoded, offset: u64) -> Vec<PacketItem> {
    decoded.packets.iter().filter(|item| extent(item).0 >= offset).copied().collect()
}

#[test]
fn a_flipped_bit_damages_one_source_up_to_a_synchronization() {
    let sources = sources();
    let streams = || sources.iter().map(|source| (source.id, source.stream.as_slice()));
    let whole = decode_buffer(&sources, &buffer(&streams().collect::<Vec<_>>()));
    for (source, decoded) in sources.iter().zip(&whole) {
        assert!(decoded.packets.iter().all(Result::is_ok), "{:#x}: {decoded:#?}", source.id);
        assert!(decoded.packets.iter().filter(|item| is_sync(item)).count() >= 8, "{:#x}", source.id);
    }
    let mut random = Random::new(27);
    for (index, source) in sources.iter().enumerate() {
        let syncs: Vec<u64> =
            whole[index].packets.iter().filter(|item| is_sync(item)).map(|item| extent(item).0).collect();
        let mut at_next = 0;
        for _ in 0..FLIPS {
            let (at, bit) = (random.below(source.stream.len() as u64) as usize, random.below(8));
            let mut damaged = source.stream.clone();
            damaged[at] ^= 1 << bit;
            let streams: Vec<(u8, &[u8])> =
                streams().map(|(id, stream)| (id, if id == source.id { damaged.as_slice() } else { stream })).collect();
            let found = decode_buffer(&sources, &buffer(&streams));
            for (other, (found, whole)) in found.iter().zip(&whole).enumerate() {
                assert!(other == index || found == whole, "{:#x}: bit {bit} of byte {at}", source.id);
            }
            let covered: u64 = found[index].packets.iter().map(|item| extent(item).1).sum();
            assert_eq!(covered, decoded_bytes(&whole[index]), "{:#x}: bit {bit} of byte {at}", source.id);
            let mut later = syncs.iter().filter(|sync| **sync > at as u64);
            let (next, second) = (later.next(), later.next());
            let is_same = |sync: &u64| from(&found[index], *sync) == from(&whole[index], *sync);
            at_next += usize::from(next.is_none_or(is_same));
            assert!(second.is_none_or(is_same), "{:#x}: bit {bit} of byte {at}", source.id);
        }
        println!("{:#x}: {at_next} of {FLIPS} are recovered at the next synchronization", source.id);
        assert!(at_next > FLIPS * 9 / 10, "{:#x}: {at_next}", source.id);
    }
}

/// Streams of a buffer whose sources are known.
fn streams_of(sources: &[Source], buffer: &[u8]) -> BTreeMap<u8, Vec<u8>> {
    let mut known = ConfiguredSources::default();
    sources.iter().for_each(|source| known.add(source.id, Some(source.config)));
    let mut streams = Streams::default();
    let mut deformatter = Deformatter::with_sources(Layout::FromStart, known);
    deformatter.push(buffer, &mut streams);
    deformatter.finish(&mut streams);
    streams.0
}

#[test]
fn a_byte_lost_or_added_anywhere_costs_no_later_synchronization() {
    let sources = sources();
    let streams: Vec<(u8, &[u8])> = sources.iter().map(|source| (source.id, source.stream.as_slice())).collect();
    let whole = buffer(&streams);
    let decoded = decode_buffer(&sources, &whole);
    let mut random = Random::new(28);
    // At the end of a buffer there is no evidence left.
    for at in 0..whole.len() - 128 {
        let (mut less, mut more) = (whole.clone(), whole.clone());
        less.remove(at);
        more.insert(at, random.below(256) as u8);
        // The frame with the damage is lost. The lost byte may be the id of the bytes after it, and each frame here has one.
        let before = streams_of(&sources, &whole[..whole.len().min((at / 16 + 2) * 16)]);
        for (name, damaged) in [("lost", less), ("added", more)] {
            let found = streams_of(&sources, &damaged);
            for (decoded, (id, stream)) in decoded.iter().zip(&streams) {
                let mut syncs = decoded.packets.iter().filter(|item| is_sync(item)).map(|item| extent(item).0);
                let after = before.get(id).map_or(0, |bytes| bytes.len() as u64);
                let Some(next) = syncs.find(|sync| *sync >= after) else { continue };
                let tail = &stream[next as usize..];
                assert!(found.get(id).is_some_and(|found| found.ends_with(tail)), "{id:#x}: byte {name} at {at:#x}");
            }
        }
    }
}

fn decoded_bytes(decoded: &Decoded) -> u64 {
    decoded.packets.iter().map(|item| extent(item).1).sum()
}
