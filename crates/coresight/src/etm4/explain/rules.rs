//! Descriptions of field values: the few rules that most fields follow, then the special cases.
//!
//! Takes numbers. Produces text, and whether it is notable. The table in `registers.rs` assigns rules to fields.

use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use crate::etm4::Version;

/// Description of the values of a field, and which of them are notable.
pub(super) enum Rule {
    /// Texts for set, which is notable, and for clear.
    Flag(&'static str, &'static str),
    /// Texts for set and for clear, which is notable.
    Unless(&'static str, &'static str),
    /// Texts for the defined values; all but zero are notable.
    Choice(&'static [(u64, &'static str)]),
    /// A number of these things, in the singular.
    Count(&'static str),
    /// The size in bytes of these things, in the plural.
    Bytes(&'static str),
    /// One bit for each of these things, which are numbered.
    Numbered(&'static str),
    /// One bit for each Exception level of this Security state.
    Levels(&'static str),
    /// The same, but a set bit keeps the level out of the trace.
    Excluded(&'static str),
    /// Effect of a resource event. All events but the second argument are notable.
    Event(&'static str, u64),
    /// Whether this kind of debug is implemented and enabled.
    Debug(&'static str),
    /// Reserved bits that read as one.
    Ones,
    /// An address, of which the field has the high bits.
    Address,
    /// A plain number of this; all but zero are notable.
    Number(&'static str),
    /// Any other description, from the field value and the register value.
    Odd(fn(u64, u64) -> Meaning),
}

/// Description, and whether it is notable.
pub(super) type Meaning = (String, bool);

impl Rule {
    pub(super) fn describe(&self, value: u64, register: u64, ones: u64) -> Meaning {
        let any = value != 0;
        match *self {
            Rule::Flag(set, clear) => (if any { set } else { clear }.to_string(), any),
            Rule::Unless(set, clear) => (if any { set } else { clear }.to_string(), !any),
            Rule::Choice(choices) => (choice(choices, value), any),
            Rule::Count(thing) => (count(value, thing), any),
            Rule::Bytes(things) if any => (format!("{value}-byte {things}"), true),
            Rule::Bytes(things) => (format!("no {things}"), false),
            Rule::Numbered(thing) if any => (format!("{thing} {}", set_bits(value, "")), true),
            Rule::Numbered(thing) => (format!("no {thing}"), false),
            Rule::Levels(state) if any => (format!("{state} {}", set_bits(value, "EL")), true),
            Rule::Levels(state) => (format!("no {state} level"), false),
            Rule::Excluded(state) => (excluded(state, value), any),
            Rule::Event(what, usual) => (format!("{what}: {}", event(value)), value != usual),
            Rule::Debug(kind) => (format!("{kind} debug {}", permission(value)), any),
            Rule::Ones => (if value == ones { "reads as one" } else { "should read as one" }.to_string(), false),
            Rule::Address => (format!("{register:#x}"), true),
            Rule::Number(what) => (format!("{what} {value:#x}"), any),
            Rule::Odd(describe) => describe(value, register),
        }
    }
}

fn choice(choices: &[(u64, &str)], value: u64) -> String {
    let known = choices.iter().find(|&&(choice, _)| choice == value);
    known.map_or_else(|| format!("reserved value {value:#x}"), |(_, meaning)| meaning.to_string())
}

fn count(number: u64, thing: &str) -> String {
    match number {
        0 => format!("no {thing}s"),
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

fn excluded(state: &str, levels: u64) -> String {
    if levels == 0 {
        format!("no {state} level excluded")
    } else {
        format!("{state} {} excluded", set_bits(levels, "EL"))
    }
}

/// The first two resource selectors are constants.
fn event(value: u64) -> String {
    let text = match (value, value & 0x80) {
        (0, _) => "never".to_string(),
        (1, _) => "always".to_string(),
        (_, 0) => format!("selector {}", value & 0x1f),
        _ => format!("selector pair {}", value & 0xf),
    };
    let reserved = if value & 0x80 == 0 { 0x60 } else { 0x70 };
    if value & reserved == 0 { text } else { format!("{text} (reserved bits {:#x} set)", value & reserved) }
}

fn permission(value: u64) -> &'static str {
    match value {
        0 => "not implemented",
        2 => "disabled",
        3 => "enabled",
        _ => "in a reserved state",
    }
}

/// The numbers of the set bits, each after `prefix`: `EL0/EL2`.
fn set_bits(value: u64, prefix: &str) -> String {
    let numbers: Vec<String> =
        (0..32).filter(|bit| value >> bit & 1 == 1).map(|bit| format!("{prefix}{bit}")).collect();
    numbers.join("/")
}

pub(super) fn designer(code: u64, _: u64) -> Meaning {
    let name = match code {
        0x41 => "Arm",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x44 => "DEC",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4d => "Motorola/Freescale",
        0x4e => "NVIDIA",
        0x50 => "APM",
        0x51 => "Qualcomm",
        0x53 => "Samsung",
        0x56 => "Marvell",
        0x61 => "Apple",
        0x69 => "Intel",
        0xc0 => "Ampere",
        _ => return (format!("designer {code:#04x}"), true),
    };
    (name.to_string(), true)
}

/// Major version of ETE: the version is in another register.
const SEE_DEVARCH: u64 = 0xf;

pub(super) fn major_version(major: u64, register: u64) -> Meaning {
    let minor = bits(register, 7, 4);
    let text = match major {
        4 => Version::Etm4(minor as u8).to_string(),
        SEE_DEVARCH => "version in TRCDEVARCH".to_string(),
        _ => format!("version {major}.{minor}"),
    };
    (text, true)
}

pub(super) fn minor_version(minor: u64, register: u64) -> Meaning {
    let elsewhere = bits(register, 11, 8) == SEE_DEVARCH;
    (if elsewhere { "see TRCDEVARCH".to_string() } else { format!("minor version {minor}") }, false)
}

pub(super) fn minimum_threshold(cycles: u64, _: u64) -> Meaning {
    match cycles {
        0 => ("no minimum cycle threshold".to_string(), false),
        _ => (format!("minimum cycle threshold {cycles}"), true),
    }
}

/// The number less one is in two fields.
pub(super) fn processing_elements(low: u64, register: u64) -> Meaning {
    let number = (bits(register, 13, 12) << 3 | low) + 1;
    (if number == 1 { "traces one PE".to_string() } else { format!("can trace any of {number} PEs") }, number != 1)
}

pub(super) fn selector_pairs(value: u64, _: u64) -> Meaning {
    match value {
        0 => ("no resource selectors (before ETMv4.3: 1 pair)".to_string(), false),
        _ => (count(value + 1, "resource selector pair"), true),
    }
}

pub(super) fn external_inputs(value: u64, _: u64) -> Meaning {
    let any_event = value == 0x1ff;
    (if any_event { "PMU events as external inputs".to_string() } else { count(value, "external input") }, value != 0)
}

/// TRCIDR2.VMIDOPT of an ETE, whose virtual context identifier is always the same; other values than 2 are reserved.
pub(super) fn virtual_context(option: u64, _: u64) -> Meaning {
    let text = "virtual context identifier is CONTEXTIDR_EL2";
    if option == 2 { (text.to_string(), true) } else { (format!("{text} (reserved value {option:#x})"), false) }
}

/// TRCIMSPEC0.EN: which of the features that SUPPORT shows are on.
pub(super) fn implementation_enabled(enabled: u64, _: u64) -> Meaning {
    match enabled {
        0 => ("implementation defined features are off".to_string(), false),
        _ => (format!("implementation defined features are on: {enabled:#x}"), true),
    }
}

const PART_OF_TRACE_UNITS: u64 = 0xa13;
const ARM: u64 = 0x23b;

pub(super) fn part(part: u64, _: u64) -> Meaning {
    if part == PART_OF_TRACE_UNITS { ("PE trace unit".to_string(), false) } else { (format!("part {part:#05x}"), true) }
}

pub(super) fn architect(code: u64, _: u64) -> Meaning {
    if code == ARM { ("Arm".to_string(), false) } else { (format!("architect {code:#05x}"), true) }
}

pub(super) fn architecture(version: u64, register: u64) -> Meaning {
    let is_trace_unit = bits(register, 11, 0) == PART_OF_TRACE_UNITS && bits(register, 31, 20) == ARM << 1 | 1;
    let minor = bits(register, 19, 16) as u8;
    match version {
        4 if is_trace_unit => (Version::Etm4(minor).to_string(), true),
        5 if is_trace_unit => (Version::Ete(minor).to_string(), true),
        _ => (format!("version {version}"), false),
    }
}

pub(super) fn trace_id(id: u64, _: u64) -> Meaning {
    let reserved = if matches!(id, 0 | 0x70..) { ", which is reserved" } else { "" };
    (format!("trace id {id:#04x}{reserved}"), true)
}

pub(super) fn period(exponent: u64, _: u64) -> Meaning {
    match exponent {
        0 => ("no periodic synchronization".to_string(), false),
        _ => (format!("synchronizes every {} bytes", 1_u32 << exponent), true),
    }
}

pub(super) fn threshold(cycles: u64, _: u64) -> Meaning {
    (if cycles == 0 { "no threshold".to_string() } else { format!("counts of {cycles} cycles and more") }, cycles != 0)
}

pub(super) fn range_mode(only_inside: u64, register: u64) -> Meaning {
    let has_ranges = bits(register, 7, 0) != 0;
    let text = if only_inside == 1 { "only inside the ranges" } else { "everywhere but in the ranges" };
    (text.to_string(), has_ranges || only_inside == 1)
}

/// A set bit inverts the setting of the Non-secure level.
pub(super) fn realm_excluded(inverted: u64, register: u64) -> Meaning {
    match inverted {
        0 => ("Realm levels as Non-secure".to_string(), false),
        _ => (excluded("Realm", inverted ^ bits(register, 22, 20)), true),
    }
}

/// Address comparators exclude levels as TRCVICTLR does.
pub(super) fn not_at(state: &str, levels: u64) -> Meaning {
    match levels {
        0 => (format!("matches at all {state} levels"), false),
        _ => (format!("does not match at {state} {}", set_bits(levels, "EL")), true),
    }
}

pub(super) fn context_comparator(number: u64, register: u64) -> Meaning {
    let is_used = bits(register, 3, 2) != 0;
    (if is_used { format!("context comparator {number}") } else { "no context comparator".to_string() }, is_used)
}

pub(super) fn selected(select: u64, register: u64) -> Meaning {
    let thing = match bits(register, 19, 16) {
        0 => "external input selector",
        1 => "PE comparator input",
        // Counters are the low four, states of the sequencer the high four.
        2 => "counter at zero or sequencer state",
        3 => "single-shot comparator",
        4 => "address comparator",
        5 => "address range comparator",
        6 => "context identifier comparator",
        7 => "virtual context identifier comparator",
        _ => "undefined resource",
    };
    match select {
        0 => ("nothing selected".to_string(), true),
        _ => (format!("{thing} {}", set_bits(select, "")), true),
    }
}

/// One bit per byte that is not compared, eight bits per comparator.
pub(super) fn ignored_bytes(masks: u64, _: u64) -> Meaning {
    match masks {
        0 => ("all bytes are compared".to_string(), false),
        _ => (format!("bytes not compared: {}", set_bits(masks, "")), true),
    }
}

pub(super) const fn mask(high: u8, low: u8) -> u64 {
    u64::MAX >> (63 - high) & u64::MAX << low
}

pub(super) const fn bits(value: u64, high: u8, low: u8) -> u64 {
    (value & mask(high, low)) >> low
}
