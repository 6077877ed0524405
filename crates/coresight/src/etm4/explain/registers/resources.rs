//! Comparators, selectors, counters, the sequencer: what filters and events are made of.

use alloc::format;

use super::super::rules::Rule::{Address, Choice, Event, Flag, Number, Numbered, Odd};
use super::super::rules::{context_comparator, ignored_bytes, not_at, selected};
use super::super::{Register, bits};
use super::{field, only};
use crate::Protocol::{Ete, Etm4};

pub(super) const ALL: &[Register] = &[
    Register {
        name: "TRCVIIECTLR",
        title: "which address ranges are traced",
        otherwise: "no address range",
        count: 0,
        fields: &[
            field("INCLUDE", 7, 0, Numbered("only in range")),
            field("EXCLUDE", 23, 16, Numbered("not in range")),
        ],
    },
    Register {
        name: "TRCVISSCTLR",
        title: "where tracing starts and stops",
        otherwise: "neither starts nor stops",
        count: 0,
        fields: &[
            field("START", 15, 0, Numbered("starts at comparator")),
            field("STOP", 31, 16, Numbered("stops at comparator")),
        ],
    },
    Register {
        name: "TRCVIPCSSCTLR",
        title: "which PE comparator inputs start and stop tracing",
        otherwise: "none",
        count: 0,
        fields: &[
            field("START", 7, 0, Numbered("starts at PE comparator input")),
            field("STOP", 23, 16, Numbered("stops at PE comparator input")),
        ],
    },
    Register {
        name: "TRCACVR",
        title: "what an address comparator compares with",
        otherwise: "address 0",
        count: 16,
        fields: &[field("ADDRESS", 63, 0, Address)],
    },
    Register {
        name: "TRCACATR",
        title: "what an address comparator matches",
        otherwise: "any instruction at the address",
        count: 16,
        fields: &[
            only(
                Etm4,
                "TYPE",
                1,
                0,
                Choice(&[(0, "instructions"), (1, "loads"), (2, "stores"), (3, "loads and stores")]),
            ),
            field(
                "CONTEXTTYPE",
                3,
                2,
                Choice(&[
                    (0, "in any context"),
                    (1, "if the context identifier matches"),
                    (2, "if the virtual context identifier matches"),
                    (3, "if both context identifiers match"),
                ]),
            ),
            field("CONTEXT", 6, 4, Odd(context_comparator)),
            field("EXLEVEL_S", 11, 8, Odd(|levels, _| not_at("Secure", levels))),
            field("EXLEVEL_NS", 14, 12, Odd(|levels, _| not_at("Non-secure", levels))),
            // A set bit turns round what the Non-secure level does.
            only(Ete, "EXLEVEL_RL", 18, 16, Odd(|turned, register| not_at("Realm", turned ^ bits(register, 14, 12)))),
            only(
                Etm4,
                "DATAMATCH",
                17,
                16,
                Choice(&[(0, "no data"), (1, "if the data matches"), (3, "if the data does not match")]),
            ),
            only(Etm4, "DATASIZE", 19, 18, Choice(&[(0, "bytes"), (1, "halfwords"), (2, "words"), (3, "doublewords")])),
            only(Etm4, "DATARANGE", 20, 20, Flag("data of a range", "data of an address")),
            only(Etm4, "DTBM", 21, 21, Flag("data address tags are not compared", "data address tags are compared")),
        ],
    },
    Register {
        name: "TRCCIDCVR",
        title: "the context identifier that is compared with",
        otherwise: "context identifier 0",
        count: 8,
        fields: &[field("VALUE", 63, 0, Number("context identifier"))],
    },
    Register {
        name: "TRCVMIDCVR",
        title: "the virtual context identifier that is compared with",
        otherwise: "virtual context identifier 0",
        count: 8,
        fields: &[field("VALUE", 63, 0, Number("virtual context identifier"))],
    },
    Register {
        name: "TRCCIDCCTLR",
        title: "which bytes of context identifiers are compared",
        otherwise: "all bytes",
        count: 2,
        fields: &[field("COMP", 31, 0, Odd(ignored_bytes))],
    },
    Register {
        name: "TRCVMIDCCTLR",
        title: "which bytes of virtual context identifiers are compared",
        otherwise: "all bytes",
        count: 2,
        fields: &[field("COMP", 31, 0, Odd(ignored_bytes))],
    },
    Register {
        name: "TRCRSCTLR",
        title: "what a resource selector selects",
        otherwise: "nothing",
        count: 32,
        fields: &[
            field("SELECT", 15, 0, Odd(selected)),
            field("GROUP", 19, 16, Odd(|group, _| (format!("group {group}"), false))),
            field("INV", 20, 20, Flag("turned round", "as it is")),
            field("PAIRINV", 21, 21, Flag("the pair is turned round", "the pair as it is")),
        ],
    },
    Register {
        name: "TRCSEQEVR",
        title: "when the sequencer goes on and back",
        otherwise: "never",
        count: 3,
        fields: &[field("F", 7, 0, Event("goes on", 0)), field("B", 15, 8, Event("goes back", 0))],
    },
    Register {
        name: "TRCSEQRSTEVR",
        title: "when the sequencer starts anew",
        otherwise: "never",
        count: 0,
        fields: &[field("RST", 7, 0, Event("starts anew", 0))],
    },
    Register {
        name: "TRCSEQSTR",
        title: "where the sequencer is",
        otherwise: "state 0",
        count: 0,
        fields: &[field("STATE", 1, 0, Number("state"))],
    },
    Register {
        name: "TRCCNTRLDVR",
        title: "what a counter starts from",
        otherwise: "0",
        count: 4,
        fields: &[field("VALUE", 15, 0, Number("from"))],
    },
    Register {
        name: "TRCCNTCTLR",
        title: "when a counter counts",
        otherwise: "never",
        count: 4,
        fields: &[
            field("CNTEVENT", 7, 0, Event("counts", 0)),
            field("RLDEVENT", 15, 8, Event("starts anew", 0)),
            field("RLDSELF", 16, 16, Flag("starts anew at zero", "stays at zero")),
            field("CNTCHAIN", 17, 17, Flag("counts when the one before starts anew", "counts by itself")),
        ],
    },
    Register {
        name: "TRCCNTVR",
        title: "where a counter is",
        otherwise: "at zero",
        count: 4,
        fields: &[field("VALUE", 15, 0, Number("at"))],
    },
    Register {
        name: "TRCSSCCR",
        title: "what a single-shot comparator looks for",
        otherwise: "nothing",
        count: 8,
        fields: &[
            field("SAC", 15, 0, Numbered("address comparator")),
            field("ARC", 23, 16, Numbered("address range")),
            field("RST", 24, 24, Flag("again and again", "once")),
        ],
    },
    Register {
        name: "TRCSSCSR",
        title: "what a single-shot comparator found",
        otherwise: "nothing yet",
        count: 8,
        fields: &[
            field("INST", 0, 0, Flag("compares instruction addresses", "no instruction addresses")),
            field("DA", 1, 1, Flag("compares data addresses", "no data addresses")),
            field("DV", 2, 2, Flag("compares data", "no data")),
            field("PC", 3, 3, Flag("takes PE comparator inputs", "no PE comparator inputs")),
            field("PENDING", 30, 30, Flag("about to match", "nothing pending")),
            field("STATUS", 31, 31, Flag("has matched", "has not matched")),
        ],
    },
    Register {
        name: "TRCSTATR",
        title: "what the trace unit is doing",
        otherwise: "busy",
        count: 0,
        fields: &[
            field("IDLE", 0, 0, Flag("idle", "not idle")),
            field("PMSTABLE", 1, 1, Flag("registers are stable", "registers may change")),
        ],
    },
];
