//! Execution and the packets that it becomes, as Arm IHI 0014 describes them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::Packets;

/// An event, in order.
enum Do {
    /// Instructions of A32 at consecutive addresses: executed, or not.
    Plain(u64, &'static [bool]),
    /// A taken branch of A32: its address, and its kind.
    Taken(u64, Class),
    /// A direct branch to T32.
    ToThumb(u64),
    /// An instruction of T32.
    Thumb(u64),
    /// A call of T32.
    ThumbCall(u64),
    Accesses(&'static [(u32, Option<u32>)]),
    Exception(u16, u64),
    Context(u8, Security, u32),
    Time(u64),
    Cycles(u64),
    Stop,
    Overflow,
}

fn executed(address: u64, class: Class, taken: bool) -> Executed {
    Executed { address, class, taken, length: 4, ..Executed::default() }
}

impl Do {
    fn apply(&self, unit: &mut Unit) {
        match *self {
            Do::Plain(address, outcomes) => {
                for (at, taken) in (0..).zip(outcomes) {
                    unit.instruction(&executed(address + 4 * at, Class::Other, *taken));
                }
            }
            Do::Taken(address, class) => unit.instruction(&executed(address, class, true)),
            Do::ToThumb(address) => {
                unit.instruction(&Executed { changes_isa: true, ..executed(address, Class::Direct, true) });
            }
            Do::Thumb(address) => {
                unit.instruction(&Executed { isa: SubIsa::Is1, length: 2, ..executed(address, Class::Other, true) });
            }
            Do::ThumbCall(address) => {
                let call = executed(address, Class::Direct, true);
                unit.instruction(&Executed { isa: SubIsa::Is1, link: true, ..call });
            }
            Do::Accesses(all) => unit.accesses(all.iter().map(|&(address, value)| Access { address, value })),
            Do::Exception(number, address) => unit.exception(number, Target { address, isa: SubIsa::Is0 }),
            Do::Context(el, security, id) => {
                let (vmid, context_id) = (Some(id), Some(id));
                unit.context(Context { el, aarch64: false, security, vmid, context_id });
            }
            Do::Time(time) => unit.time(time),
            Do::Cycles(cycles) => unit.cycles(cycles),
            Do::Stop => unit.stop(),
            Do::Overflow => unit.overflow(),
        }
    }
}

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

fn assert_packets(rows: &[Row<'_>]) {
    for (name, registers, events, expected) in rows {
        let found = packets(registers, events);
        assert_eq!(found[0], "alignment sync", "{name}");
        assert_eq!(found[1..], **expected, "{name}");
    }
}

const START: &str = "instruction sync, tracing enabled, 0x00008000 Arm";

#[test]
fn every_instruction_has_an_atom() {
    use Class::{Direct, ExceptionReturn, Indirect};
    use Do::*;
    assert_packets(&[
        (
            "executed ones, then one whose condition failed",
            &[],
            &[Plain(0x8000, &[true, true, false, false, true, true])],
            &[START, "atoms EEN", "atoms NE", "atoms E"],
        ),
        (
            "up to fifteen in a packet",
            &[],
            &[Plain(0x8000, &[true; 17])],
            &[START, "atoms EEEEEEEEEEEEEEE", "atoms EE"],
        ),
        (
            "only indirect branches have their target",
            &[],
            &[Taken(0x8000, Direct), Taken(0x8100, Indirect), Plain(0x8118, &[true])],
            &[START, "atoms EE", "branch ..0x46 (13 bits)", "atoms E"],
        ),
        (
            "all taken branches have it",
            &[("ETMCR", 1 << 8)],
            &[Taken(0x8000, Direct), Plain(0x8004, &[true])],
            &[START, "atoms E", "branch ..0x1 (6 bits)", "atoms E"],
        ),
        (
            "a change of the instruction set has a whole address",
            &[],
            &[ToThumb(0x8000), Thumb(0x8010)],
            &[START, "atoms E", "branch 0x00008010 Thumb", "atoms E"],
        ),
        (
            "addresses of the alternative encoding",
            &[("ETMIDR", 0x411c_f250)],
            &[Taken(0x8000, Indirect), Taken(0xb000, Indirect), Taken(0x1_3000, Indirect), Plain(0xf000_0000, &[true])],
            &[
                START,
                "atoms E",
                "branch ..0xc00 (12 bits)",
                "atoms E",
                "branch ..0x4c00 (19 bits)",
                "atoms E",
                "branch 0xf0000000 Arm",
                "atoms E",
            ],
        ),
        (
            "an exception return is marked before its branch",
            &[],
            &[Taken(0x8000, ExceptionReturn), Plain(0x8104, &[true])],
            &[START, "atoms E", "exception exit", "branch ..0x41 (13 bits)", "atoms E"],
        ),
        (
            "version 3.4 does not mark them",
            &[("ETMIDR", 0x410c_f240)],
            &[Taken(0x8000, ExceptionReturn), Plain(0x8104, &[true])],
            &[START, "atoms E", "branch ..0x41 (13 bits)", "atoms E"],
        ),
        (
            "the halfwords of a call",
            &[("ETMIDR", 0x4108_f250)],
            &[ToThumb(0x8000), ThumbCall(0x8010), Thumb(0x8100)],
            &[START, "atoms E", "branch 0x00008010 Thumb", "atoms EEE"],
        ),
    ]);
}

#[test]
fn exceptions_and_contexts_are_traced() {
    use Class::Indirect;
    use Do::*;
    assert_packets(&[
        (
            "the original encoding has exceptions in whole addresses only",
            &[],
            &[Plain(0x8000, &[true]), Exception(14, 0x8004), Plain(0x8018, &[true])],
            &[START, "atoms E", "branch 0x00008018 Arm, exception 14, secure", "atoms E"],
        ),
        (
            "the alternative encoding has them in two bytes",
            &[("ETMIDR", 0x411c_f250)],
            &[Plain(0x8000, &[true]), Exception(14, 0x8004), Plain(0x8018, &[true])],
            &[START, "atoms E", "branch ..0x6 (12 bits), exception 14, secure", "atoms E"],
        ),
        (
            "an exception before the target of a branch",
            &[],
            &[Taken(0x8000, Indirect), Exception(14, 0x8008), Plain(0x18, &[true])],
            &[START, "atoms E", "branch ..0x2 (6 bits)", "branch 0x00000018 Arm, exception 14, secure", "atoms E"],
        ),
        (
            "the Security state and the mode",
            &[],
            &[
                Taken(0x8000, Indirect),
                Context(2, Security::NonSecure, 0),
                Plain(0x8004, &[true]),
                Context(0, Security::Secure, 0),
                Plain(0x8008, &[true]),
            ],
            &[
                START,
                "atoms E",
                "branch 0x00008004 Arm, exception 0, nonsecure, Hyp",
                "atoms E",
                "instruction sync, periodic, 0x00008008 Arm",
                "atoms E",
            ],
        ),
        (
            "identifiers",
            &[("ETMCR", 1 << 30 | 3 << 14)],
            &[
                Context(0, Security::NonSecure, 5),
                Plain(0x8000, &[true]),
                Context(0, Security::NonSecure, 6),
                Plain(0x8004, &[true]),
            ],
            &[
                "instruction sync, tracing enabled, 0x00008000 Arm, nonsecure, contextid 0x5",
                "vmid 0x5",
                "atoms E",
                "context id 0x6",
                "vmid 0x6",
                "atoms E",
            ],
        ),
        (
            "a break, and an overflow",
            &[],
            &[Taken(0x8000, Indirect), Stop, Plain(0x9000, &[true]), Overflow, Plain(0x9100, &[true])],
            &[
                START,
                "atoms E",
                "instruction sync, tracing enabled, 0x00009000 Arm",
                "atoms E",
                "alignment sync",
                "instruction sync, overflow, 0x00009100 Arm",
                "atoms E",
            ],
        ),
        (
            "a synchronization after a number of bytes",
            &[("ETMSYNCFR", 10)],
            &[Taken(0x8000, Indirect), Taken(0x8100, Indirect), Plain(0x8000, &[true])],
            &[
                START,
                "atoms E",
                "branch ..0x40 (13 bits)",
                "atoms E",
                "branch ..0x0 (13 bits)",
                "alignment sync",
                "instruction sync, periodic, 0x00008000 Arm",
                "atoms E",
            ],
        ),
    ]);
}

#[test]
fn times_cycles_and_data_are_traced() {
    use Do::*;
    let data: &[(&str, u64)] = &[("ETMCR", 0xc)];
    assert_packets(&[
        (
            "a whole timestamp after an alignment synchronization, then the bits that changed",
            &[("ETMCR", 1 << 28), ("ETMTSEVR", 0x6f)],
            &[Time(0x1000), Plain(0x8000, &[true]), Time(0x1002), Plain(0x8004, &[true])],
            &[START, "timestamp 0x1000 (64 bits)", "atoms E", "timestamp 0x2 (7 bits)", "atoms E"],
        ),
        (
            "each atom has the cycles since the last",
            &[("ETMCR", 1 << 12)],
            &[
                Cycles(4),
                Plain(0x8000, &[true]),
                Cycles(1),
                Plain(0x8004, &[true]),
                Plain(0x8008, &[false]),
                Plain(0x800c, &[true]),
                Cycles(3),
                Plain(0x8010, &[true]),
            ],
            &[
                "instruction sync, tracing enabled, 3 cycles, 0x00008000 Arm",
                "atoms E",
                "atoms EN",
                "atoms E in the same cycle",
                "cycles 3, atoms E",
            ],
        ),
        (
            "a long time without instructions is a break",
            &[("ETMCR", 1 << 12)],
            &[Cycles(1), Plain(0x8000, &[true]), Cycles(100_000), Plain(0x8004, &[true])],
            &[START, "atoms E", "instruction sync, tracing enabled, 99999 cycles, 0x00008004 Arm", "atoms E"],
        ),
        (
            "a whole address first, then the bits that changed; transfers of an instruction follow each other",
            data,
            &[
                Plain(0x8000, &[true]),
                Accesses(&[(0x2000_1004, Some(0x201)), (0x2000_1008, Some(0))]),
                Plain(0x8004, &[true]),
                Accesses(&[(0x2000_1010, Some(0x1234_5678)), (0x2000_1020, None)]),
                Stop,
                Plain(0x8000, &[true]),
                Accesses(&[(0x2000_1010, Some(7))]),
            ],
            &[
                START,
                "atoms E",
                "first data address 0x20001004 value 0x201",
                "data value 0x0",
                "atoms E",
                "first data address ..10 value 0x12345678",
                "first value not traced address ..20",
                "instruction sync, tracing enabled, 0x00008000 Arm",
                "atoms E",
                "first data address 0x20001010 value 0x7",
            ],
        ),
        (
            "addresses alone",
            &[("ETMCR", 8)],
            &[Plain(0x8000, &[true]), Accesses(&[(0x10, Some(1)), (0x14, None)])],
            &[START, "atoms E", "first data address 0x00000010", "data"],
        ),
        (
            "values alone",
            &[("ETMCR", 4)],
            &[Plain(0x8000, &[true]), Accesses(&[(0x10, Some(1)), (0x24, Some(2))])],
            &[START, "atoms E", "first data value 0x1", "data value 0x2"],
        ),
        ("no data", &[], &[Plain(0x8000, &[true]), Accesses(&[(0x10, Some(1))])], &[START, "atoms E"]),
    ]);
}

#[test]
fn impossible_trace_units_are_refused() {
    let rows: &[(&str, u64, &str)] = &[
        ("ETMIDR", 0x411c_f312, "ETMIDR is not that of an ETMv3"),
        ("ETMIDR", 0x410c_f260, "does not exist"),
        ("ETMCR", 1 << 20, "data trace without instructions"),
    ];
    assert_eq!(Settings::default().refusal(), None);
    for (name, value, reason) in rows {
        let mut settings = Settings::default();
        assert!(settings.set(name, *value));
        assert!(settings.refusal().unwrap().contains(reason), "{name}");
    }
    let mut settings = Settings::default();
    assert!(settings.unmodeled().is_empty() && settings.set("ETMCR", 2) && !settings.unmodeled().is_empty());
}
