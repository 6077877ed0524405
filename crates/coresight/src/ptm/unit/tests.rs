//! Execution and the packets that it becomes, as Arm IHI 0035 describes them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::Packets;

/// An event, in order.
enum Do {
    /// A plain instruction of A32.
    Plain(u64),
    /// A taken branch of A32: its address, its kind, and whether it is a call.
    Taken(u64, Class, bool),
    /// A branch that is not taken.
    Not(u64),
    /// A plain instruction of T32.
    Thumb(u64),
    Exception(u16, u64),
    Context(u8, Security, u32),
    Time(u64),
    Cycles(u64),
    Halt(u64),
    Stop,
    Overflow,
}

fn at(address: u64) -> Target {
    Target { address, isa: SubIsa::Is0 }
}

fn executed(address: u64, class: Class, taken: bool) -> Executed {
    Executed { address, class, taken, length: 4, conditional: true, ..Executed::default() }
}

impl Do {
    fn apply(&self, unit: &mut Unit) {
        match *self {
            Do::Plain(address) => unit.instruction(&executed(address, Class::Other, true)),
            Do::Taken(address, class, link) => unit.instruction(&Executed { link, ..executed(address, class, true) }),
            Do::Not(address) => unit.instruction(&executed(address, Class::Direct, false)),
            Do::Thumb(address) => {
                unit.instruction(&Executed { isa: SubIsa::Is1, length: 2, ..executed(address, Class::Other, true) });
            }
            Do::Exception(number, address) => unit.exception(number, at(address)),
            Do::Context(el, security, id) => {
                let (vmid, context_id) = (Some(id), Some(id));
                unit.context(Context { el, aarch64: false, security, vmid, context_id });
            }
            Do::Time(time) => unit.time(time),
            Do::Cycles(cycles) => unit.cycles(cycles),
            Do::Halt(address) => unit.halt(at(address)),
            Do::Stop => unit.stop(),
            Do::Overflow => unit.overflow(),
        }
    }
}

/// The packets of a run.
fn packets(registers: &[(&str, u64)], events: &[Do]) -> Vec<String> {
    let mut settings = Settings::default();
    registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
    let mut unit = Unit::new(&settings);
    events.iter().for_each(|event| event.apply(&mut unit));
    unit.finish();
    let packets: Vec<_> = Packets::new(&settings.config(), unit.bytes()).collect();
    packets.into_iter().map(|packet| packet.unwrap().value.to_string()).collect()
}

type Row<'r> = (&'r str, &'r [(&'r str, u64)], &'r [Do], &'r [&'r str]);

const START: &str = "instruction sync, trace enabled, 0x00008000 a32 secure";
const DEBUG: &str = "branch 0x00000000 a32 secure, exception 1 (debug entry)";

fn assert_packets(rows: &[Row<'_>]) {
    for (name, registers, events, expected) in rows {
        let found = packets(registers, events);
        assert_eq!(found[0], "alignment sync", "{name}");
        assert_eq!(found[1..], **expected, "{name}");
    }
}

#[test]
fn waypoints_become_atoms_and_branches() {
    use Class::{Barrier, Direct, ExceptionReturn, Indirect};
    use Do::*;
    let far = 0x8000 + 4096;
    assert_packets(&[
        (
            "five atoms fill a packet, oldest first",
            &[],
            &[
                Plain(0x8000),
                Not(0x8004),
                Taken(0x8008, Direct, false),
                Taken(0x8100, Barrier, false),
                Not(0x8104),
                Not(0x8108),
                Not(0x810c),
            ],
            &[START, "atoms NEENN", "atoms N"],
        ),
        (
            "an indirect branch has its target, and only the bits that changed since the last address",
            &[],
            &[
                Taken(0x8000, Direct, false),
                Taken(0x8040, Indirect, false),
                Taken(0x80fc, Indirect, false),
                Taken(0xabc4, Indirect, false),
                Plain(0x12_0000),
                Halt(0x12_0004),
            ],
            &[
                START,
                "atoms E",
                "branch ..0x3f (6 bits)",
                "branch ..0xaf1 (12 bits)",
                "branch ..0x48000 (19 bits)",
                "waypoint update ..0x0 (6 bits)",
                DEBUG,
            ],
        ),
        (
            "a change of the instruction set takes a whole address",
            &[],
            &[Taken(0x8000, Indirect, false), Thumb(0x8008), Stop],
            &[START, "branch 0x00008008 t32"],
        ),
        (
            "all taken branches have their targets",
            &[("ETMCR", 1 << 8)],
            &[Taken(0x8000, Direct, false), Not(0x8100), Plain(0x8104)],
            &[START, "branch ..0x40 (12 bits)", "atoms N"],
        ),
        (
            "a return to the address after the call is predicted, another one is not",
            &[("ETMCR", 1 << 29)],
            &[
                Taken(0x8000, Direct, true),
                Taken(0x8100, Indirect, false),
                Taken(0x8004, Direct, true),
                Taken(0x8100, Indirect, false),
                Plain(0x9000),
            ],
            &[START, "atoms EEE", "branch ..0x400 (12 bits)"],
        ),
        (
            "a call by address is not predicted, and is pushed",
            &[("ETMCR", 1 << 29)],
            &[Taken(0x8000, Indirect, true), Taken(0x8100, Indirect, false), Plain(0x8004)],
            &[START, "branch ..0x40 (12 bits)", "atoms E"],
        ),
        (
            "a waypoint that is far away has an update, which names the instruction before it",
            &[],
            &[Plain(0x8000), Plain(far), Not(far + 4)],
            &[START, "waypoint update ..0x400 (12 bits)", "atoms N"],
        ),
        ("one that is less far has none", &[], &[Plain(0x8000), Not(far)], &[START, "atoms N"]),
        (
            "an exception return is marked after its branch",
            &[],
            &[Taken(0x8000, ExceptionReturn, false), Plain(0x8104)],
            &[START, "branch ..0x41 (12 bits)", "exception return"],
        ),
        (
            "version 1.0 does not mark them",
            &[("ETMIDR", 0x411c_f301)],
            &[Taken(0x8000, ExceptionReturn, false), Plain(0x8104)],
            &[START, "branch ..0x41 (12 bits)"],
        ),
    ]);
}

#[test]
fn exceptions_follow_what_was_executed() {
    use Class::Direct;
    use Do::*;
    assert_packets(&[
        (
            "an interrupt in a block",
            &[],
            &[Plain(0x8000), Plain(0x8004), Exception(14, 0x8008), Plain(0xffff_0018)],
            &[START, "waypoint update ..0x1 (6 bits)", "branch 0xffff0018 a32 secure, exception 14 (IRQ)"],
        ),
        (
            "an interrupt after a waypoint needs no update",
            &[],
            &[Taken(0x8000, Direct, false), Exception(14, 0x8100), Plain(0x8018)],
            &[START, "atoms E", "branch ..0x6 (12 bits) secure, exception 14 (IRQ)"],
        ),
        (
            "of a reset, the instructions before are not traced",
            &[],
            &[Plain(0x8000), Exception(8, 0x8004), Plain(0)],
            &[START, "branch ..0x0 (19 bits) secure, exception 8 (reset)"],
        ),
        (
            "nothing ran at the vector of the first one",
            &[],
            &[Plain(0x8000), Exception(10, 0x8004), Exception(15, 0x8008), Plain(0x801c)],
            &[
                START,
                "waypoint update ..0x0 (6 bits)",
                "branch ..0x2 (12 bits) secure, exception 10 (SVC)",
                "branch ..0x7 (12 bits) secure, exception 15 (FIQ)",
            ],
        ),
        (
            "tracing starts again after Debug state",
            &[],
            &[Plain(0x8000), Halt(0x8004), Plain(0x9000), Stop],
            &[START, "waypoint update ..0x0 (6 bits)", DEBUG, "instruction sync, debug exit, 0x00009000 a32 secure"],
        ),
        (
            "after a break, and after an overflow",
            &[],
            &[Not(0x8000), Stop, Not(0x9000), Overflow, Not(0x9100)],
            &[
                START,
                "atoms N",
                "instruction sync, trace enabled, 0x00009000 a32 secure",
                "atoms N",
                "alignment sync",
                "instruction sync, after overflow, 0x00009100 a32 secure",
                "atoms N",
            ],
        ),
    ]);
}

#[test]
fn contexts_times_and_cycles_are_traced() {
    use Class::{Direct, Indirect};
    use Do::*;
    let ids: &[(&str, u64)] = &[("ETMCR", 1 << 30 | 3 << 14)];
    assert_packets(&[
        (
            "identifiers",
            ids,
            &[
                Context(0, Security::NonSecure, 5),
                Taken(0x8000, Direct, false),
                Context(0, Security::NonSecure, 6),
                Not(0x8004),
            ],
            &[
                "instruction sync, trace enabled, 0x00008000 a32 nonsecure contextid 0x5",
                "vmid 0x5",
                "atoms E",
                "contextid 0x6",
                "vmid 0x6",
                "atoms N",
            ],
        ),
        (
            "a branch has the Security state and the mode, if they change",
            &[],
            &[
                Taken(0x8000, Indirect, false),
                Context(2, Security::NonSecure, 0),
                Taken(0x8004, Indirect, false),
                Context(1, Security::NonSecure, 0),
                Plain(0x8008),
            ],
            &[START, "branch ..0x1 (12 bits) nonsecure Hyp", "branch ..0x2 (12 bits) nonsecure"],
        ),
        (
            "without a branch, a synchronization has them",
            &[],
            &[Taken(0x8000, Direct, false), Context(0, Security::NonSecure, 0), Not(0x8004)],
            &[START, "atoms E", "instruction sync, periodic, 0x00008004 a32 nonsecure", "atoms N"],
        ),
        (
            "a whole timestamp after an alignment synchronization, then the bits that changed",
            &[("ETMCR", 1 << 28), ("ETMTSEVR", 0x6f)],
            &[Time(0x1000), Not(0x8000), Time(0x1002), Plain(0x8004), Time(0x1004), Not(0x8008), Not(0x800c)],
            &[
                START,
                "timestamp 0x1000 (64 bits)",
                "atoms N",
                "timestamp 0x2 (7 bits)",
                "atoms N",
                "timestamp 0x4 (7 bits)",
                "atoms N",
            ],
        ),
        (
            "each waypoint has the cycles since the last",
            &[("ETMCR", 1 << 12)],
            &[
                Cycles(3),
                Plain(0x8000),
                Cycles(4),
                Not(0x8004),
                Cycles(20),
                Taken(0x8008, Indirect, false),
                Plain(0x8040),
            ],
            &[
                "instruction sync, trace enabled, 0x00008000 a32 secure after 2 cycles",
                "atoms N after 5 cycles",
                "branch ..0x10 (6 bits) after 20 cycles",
            ],
        ),
        (
            "a synchronization after a number of bytes",
            &[("ETMSYNCFR", 10)],
            &[Taken(0x8000, Indirect, false), Taken(0x8100, Indirect, false), Not(0x8000)],
            &[
                START,
                "branch ..0x40 (12 bits)",
                "branch ..0x0 (12 bits)",
                "alignment sync",
                "instruction sync, periodic, 0x00008000 a32 secure",
                "atoms N",
            ],
        ),
    ]);
}

#[test]
fn impossible_trace_units_are_refused() {
    type Row<'r> = (&'r [(&'r str, u64)], Option<&'r str>);
    let rows: &[Row] = &[
        (&[], None),
        (&[("ETMIDR", 0x410c_f250)], Some("ETMIDR is not that of a PTM")),
        (&[("ETMIDR", 0x411c_f301)], Some("version 1.0")),
        (&[("ETMIDR", 0x411c_f301), ("ETMCCER", 0x00c0_18ea)], None),
        (&[("ETMCR", 1 << 8 | 1 << 29)], Some("exclude each other")),
    ];
    for (registers, reason) in rows {
        let mut settings = Settings::default();
        registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value)));
        let refusal = settings.refusal();
        assert_eq!(refusal.is_some(), reason.is_some());
        assert!(refusal.is_none_or(|refusal| refusal.contains(reason.unwrap())));
    }
    let mut settings = Settings::default();
    assert!(!settings.set("TRCCONFIGR", 1));
    assert!(settings.unmodeled().is_empty() && settings.set("ETMTSEVR", 1) && !settings.unmodeled().is_empty());
}
