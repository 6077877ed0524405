//! The trace buffer of a PE, and where the PE permits trace.

use alloc::format;

use super::super::Register;
use super::super::rules::Rule::{Address, Choice, Flag, Odd};
use super::field;

pub(super) const ALL: &[Register] = &[
    Register {
        name: "TRFCR_EL1",
        title: "where the PE permits trace",
        otherwise: "nowhere below EL2",
        count: 0,
        fields: &[
            field("E0TRE", 0, 0, Flag("EL0", "not EL0")),
            field("E1TRE", 1, 1, Flag("EL1", "not EL1")),
            field(
                "TS",
                6,
                5,
                Choice(&[
                    (0, "timestamps as EL2 says"),
                    (1, "virtual timestamps"),
                    (2, "guest physical timestamps"),
                    (3, "physical timestamps"),
                ]),
            ),
        ],
    },
    Register {
        name: "TRBLIMITR_EL1",
        title: "where the trace buffer ends, and what happens there",
        otherwise: "trace buffer off",
        count: 0,
        fields: &[
            field("E", 0, 0, Flag("trace buffer on", "trace buffer off")),
            field("FM", 2, 1, Choice(&[(0, "stops when full"), (1, "wraps and tells"), (3, "wraps without a word")])),
            field(
                "TM",
                4,
                3,
                Choice(&[(0, "stops on trigger"), (1, "interrupt on trigger"), (3, "triggers are ignored")]),
            ),
            field("nVM", 5, 5, Flag("physical addresses", "virtual addresses")),
            field("XE", 6, 6, Flag("takes trace of others", "takes no trace of others")),
            field("LIMIT", 63, 12, Odd(|_, register| (format!("ends at {:#x}", register & !0xfff), true))),
        ],
    },
    Register {
        name: "TRBPTR_EL1",
        title: "where the next byte of trace goes",
        otherwise: "address 0",
        count: 0,
        fields: &[field("PTR", 63, 0, Address)],
    },
    Register {
        name: "TRBBASER_EL1",
        title: "where the trace buffer starts",
        otherwise: "address 0",
        count: 0,
        fields: &[field("BASE", 63, 12, Odd(|_, register| (format!("{:#x}", register & !0xfff), true)))],
    },
    Register {
        name: "TRBSR_EL1",
        title: "what the trace buffer did",
        otherwise: "nothing to tell",
        count: 0,
        fields: &[
            field("MSS", 15, 0, Odd(|value, _| (format!("status {value:#x}"), value != 0))),
            field("S", 17, 17, Flag("collection has stopped", "collection goes on")),
            field("EA", 18, 18, Flag("external abort", "no external abort")),
            field("WRAP", 20, 20, Flag("has wrapped", "has not wrapped")),
            field("TRG", 21, 21, Flag("has seen a trigger", "no trigger")),
            field("IRQ", 22, 22, Flag("interrupt asked for", "no interrupt")),
            field("DAT", 23, 23, Flag("has data", "no data")),
            field("EC", 31, 26, Odd(|value, _| (format!("event class {value:#x}"), value != 0))),
            field("MSS2", 55, 32, Odd(|value, _| (format!("more status {value:#x}"), value != 0))),
        ],
    },
    Register {
        name: "TRBTRG_EL1",
        title: "how much is collected behind a trigger",
        otherwise: "nothing",
        count: 0,
        fields: &[field("TRG", 31, 0, Odd(|bytes, _| (format!("{bytes} bytes behind a trigger"), bytes != 0)))],
    },
];
