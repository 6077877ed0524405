//! The closed loop of PTM and ETMv3: every option in turn, and random ones.

use std::collections::BTreeSet;

use unspool::CaptureSteps;
use unspool::capture::Capture;
use unspool::coresight::Protocol;
use unspool::encode::UnitSettings;
use unspool::model::{Access, Direction, Event, Isa, Step};
use unspool_testing::{Random, tool};

use super::program::Program;
use super::reference::{executed, ranges, theirs};
use super::{BASE, Executed, encoded};
use crate::fixtures::{assert_same, collect};

const PROTOCOLS: [Protocol; 2] = [Protocol::Ptm, Protocol::Etm3];

/// Number of bits of the options of a protocol.
fn option_bits(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Ptm => 8,
        Protocol::Etm3 => 10,
        other => panic!("{other}"),
    }
}

/// All instruction sets, protocols and options.
fn combinations() -> impl Iterator<Item = (Isa, Protocol, u64)> {
    let pairs = [Isa::A32, Isa::T32].into_iter().flat_map(|isa| PROTOCOLS.map(|protocol| (isa, protocol)));
    pairs.flat_map(|(isa, protocol)| (0..1 << option_bits(protocol)).map(move |options| (isa, protocol, options)))
}

/// ETMCR and related settings, by the bits of a number.
fn settings(protocol: Protocol, options: u64) -> UnitSettings {
    let has = |bit: u32| options >> bit & 1 == 1;
    let mut settings = UnitSettings::new(protocol).unwrap();
    let bits = [(1, 28), (2, 12), (3, 8), (4, 14), (4, 15), (4, 30)];
    let mut cr = bits.iter().filter(|(bit, _)| has(*bit)).fold(0, |cr, (_, position)| cr | 1 << position);
    let mut set = |name: &str, value: u64| assert!(settings.set(name, value), "{name}");
    if has(5) {
        set("ETMSYNCFR", 100);
        set("ETMTSEVR", 0x6f);
    }
    if protocol == Protocol::Ptm {
        // Broadcast and a return stack exclude each other.
        cr |= u64::from(has(0) && !has(3)) << 29;
        // Barriers are waypoints and request timestamps; version 1.0 has timestamps of 48 bits in Gray code.
        let ccer = if has(7) { 0x00c0_18ea } else { 0x34c0_1ac2 };
        set("ETMCCER", ccer | u64::from(has(6)) << 24 | u64::from(has(6)) << 25);
        set("ETMIDR", if has(7) { 0x411c_f301 } else { 0x411c_f312 });
    }
    if protocol == Protocol::Etm3 {
        cr |= u64::from(has(7)) << 2 | u64::from(has(8)) << 3;
        if has(6) {
            // Timestamps have 48 bits in Gray code.
            set("ETMCCER", 0x0440_08f2);
        }
        // The alternative encoding of branches; exception returns are not marked before version 3.5.
        set("ETMIDR", 0x410c_f240 | u64::from(has(0)) << 20 | u64::from(!has(6)) << 4);
    }
    set("ETMCR", cr);
    if let UnitSettings::Etm3(settings) = &mut settings {
        settings.late_seed = has(9).then_some(options);
    }
    settings
}

/// Encodes steps, decodes them, and compares.
fn assert_closed(name: &str, steps: &[Step], settings: &UnitSettings, formatted: bool) {
    let folder = encoded(steps, settings, formatted);
    let (found, expected) = (Executed::read(folder.path(), "UNIT_0"), Executed::of(steps));
    assert_same(name, &found.instructions, &expected.instructions);
    assert_eq!(found.exceptions, expected.exceptions, "{name}");
    assert_eq!(found.gaps, 1, "{name}");
    if settings.get("ETMCR").unwrap() >> 14 & 3 != 0 {
        assert_eq!(found.processes, expected.processes, "{name}");
    }
    if let UnitSettings::Etm3(unit) = settings
        && unit.config().data_addresses
    {
        let has_values = unit.config().data_values;
        let steps_found =
            collect(CaptureSteps::new(Capture::open(folder.path()).unwrap(), Some("UNIT_0"), &[]).unwrap());
        assert_same(name, &accesses(&steps_found, true), &accesses(steps, has_values));
    }
    let times: Vec<u64> =
        steps.iter().filter(|step| step.event.instruction().is_some()).flat_map(|step| step.time).collect();
    // Counted cycles are times too.
    if settings.get("ETMCR").unwrap() >> 12 & 1 == 1 {
        return;
    }
    assert_eq!(found.times.is_empty(), !settings.has_timestamps(), "{name}");
    assert!(found.times.is_sorted() && found.times.iter().all(|time| times.binary_search(time).is_ok()), "{name}");
}

/// The accesses of instructions: the number of the instruction, direction, address, size, and the value if it is traced.
fn accesses(steps: &[Step], has_values: bool) -> Vec<(usize, Direction, u64, u64, Vec<u8>)> {
    let instructions = steps.iter().filter(|step| step.event.instruction().is_some()).enumerate();
    let all = instructions.flat_map(|(at, step)| step.accesses().map(move |access| (at, access)));
    let value = |access: &Access<'_>| access.bytes.iter().filter(|_| has_values).map(|(byte, _)| *byte).collect();
    all.map(|(at, access)| (at, access.direction, access.address, access.size, value(&access))).collect()
}

#[test]
fn every_combination_of_options_round_trips() {
    for (isa, protocol, options) in combinations() {
        let steps = Program::with_data(isa, BASE, options).run(700, options);
        let name = format!("{isa:?} {protocol} {options:#x}");
        assert_closed(&name, &steps, &settings(protocol, options), options & 1 == 0);
    }
}

#[test]
fn random_programs_and_settings_round_trip() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let isa = [Isa::A32, Isa::T32][random.below(2) as usize];
        let protocol = PROTOCOLS[random.below(2) as usize];
        let steps = Program::with_data(isa, BASE, seed).run(1 + random.below(3000) as usize, seed);
        let settings = settings(protocol, random.below(1 << option_bits(protocol)));
        assert_closed(&format!("seed {seed}, {protocol}"), &steps, &settings, random.below(2) == 0);
    }
}

/// Every hundredth instruction is cut out: the rest is traced all the same.
#[test]
fn breaks_lose_nothing() {
    for (isa, protocol, options) in combinations().filter(|(_, _, options)| options % 5 == 0) {
        let steps = Program::with_data(isa, BASE, options).run(2000, options);
        let is_instruction = |at: usize| steps.get(at).is_some_and(|step| matches!(step.event, Event::Instruction(_)));
        let is_cut = |at: usize| at % 100 == 50 && (at - 1..at + 2).all(is_instruction);
        let cut: Vec<Step> = (0..steps.len()).filter(|at| !is_cut(*at)).map(|at| steps[at].clone()).collect();
        let folder = encoded(&cut, &settings(protocol, options), false);
        let found = Executed::read(folder.path(), "UNIT_0");
        assert_same(&format!("{isa:?} {protocol} {options:#x}"), &found.instructions, &Executed::of(&cut).instructions);
        assert!(found.gaps > 1);
    }
}

/// An ETMv3 has an atom for each instruction. A PTM does not trace what comes after the last waypoint before it leaves a range.
#[test]
fn address_ranges_filter_what_is_traced() {
    for (isa, protocol, options) in combinations().filter(|(_, _, options)| options % 7 == 0) {
        let program = Program::with_data(isa, BASE, options);
        let steps = program.run(1500, options);
        let all = Executed::of(&steps).instructions;
        let addresses: BTreeSet<u64> = all.iter().map(|(address, _)| *address).collect();
        let at = |part: usize| addresses.iter().nth(addresses.len() * part / 4).copied().unwrap();
        let (start, end) = (at(1), at(3));
        for is_included in [true, false] {
            let mut settings = settings(protocol, options);
            let registers = [("ETMTECR1", 2 | u64::from(!is_included) << 24), ("ETMACVR3", start), ("ETMACVR4", end)];
            registers.into_iter().for_each(|(register, value)| assert!(settings.set(register, value)));
            let folder = encoded(&steps, &settings, options & 1 == 0);
            let found = Executed::read(folder.path(), "UNIT_0").instructions;
            let is_wanted = |address: u64| (start..end).contains(&address) == is_included;
            let wanted: Vec<(u64, u32)> = all.iter().copied().filter(|(address, _)| is_wanted(*address)).collect();
            let name = format!("{isa:?} {protocol} {options:#x}, included: {is_included}");
            assert!(!wanted.is_empty() && wanted.len() < all.len(), "{name}");
            if protocol == Protocol::Etm3 {
                assert_same(&name, &found, &wanted);
                continue;
            }
            let mut rest = wanted.iter();
            assert!(found.iter().all(|one| rest.any(|other| other == one)), "{name}: not in this order");
            let branches: BTreeSet<u64> = steps
                .iter()
                .filter_map(|step| step.event.instruction().filter(|found| found.branch.is_some()))
                .map(|found| found.address)
                .collect();
            let branches = |all: &[(u64, u32)]| all.iter().filter(|(at, _)| branches.contains(at)).count();
            assert_eq!(branches(&found), branches(&wanted), "{name}");
        }
    }
}

/// Ranges of instructions only: the reference knows neither the mode nor the Security state of a branch, and no data.
#[test]
fn reference_finds_the_same_ranges() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    let mut captures = 0;
    let has_data = |protocol, options: u64| protocol == Protocol::Etm3 && options >> 7 != 0;
    for (isa, protocol, options) in combinations().filter(|(_, protocol, options)| !has_data(*protocol, *options)) {
        let steps = Program::with_data(isa, BASE, options).run(600, options);
        let folder = encoded(&steps, &settings(protocol, options), options & 1 == 0);
        let name = format!("{isa:?} {protocol} {options:#x}");
        assert_same(&name, &ranges(&theirs(folder.path())), &executed(&steps));
        captures += 1;
    }
    println!("{captures} captures are decoded alike");
}
