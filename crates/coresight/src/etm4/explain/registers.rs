//! The table: every register that can be explained, its fields, and how each is said.
//!
//! One line per field, lowest bits first unless another order reads better. Data only: the words that need thought
//! are in `rules.rs`.

use alloc::format;

use super::rules::Rule::{
    self, Bytes, Choice, Count, Debug, Event, Excluded, Flag, Levels, Numbered, Odd, Ones, Unless,
};
use super::rules::{
    architect, architecture, designer, external_inputs, least_threshold, major_version, minor_version, part, period,
    processing_elements, range_mode, realm_excluded, selector_pairs, threshold, trace_id,
};
use super::{Field, Register};
use crate::Protocol::{self, Ete, Etm4};

const fn field(name: &'static str, high: u8, low: u8, rule: Rule) -> Field {
    Field { name, high, low, rule, only: None }
}

const fn only(protocol: Protocol, name: &'static str, high: u8, low: u8, rule: Rule) -> Field {
    Field { name, high, low, rule, only: Some(protocol) }
}

mod buffer;
mod resources;

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Register> {
    UNIT.iter().chain(resources::ALL).chain(buffer::ALL)
}

/// What a trace unit is and what it traces.
const UNIT: &[Register] = &[
    Register {
        name: "TRCIDR0",
        title: "what can be traced",
        otherwise: "program flow only",
        count: 0,
        fields: &[
            field("reserved", 0, 0, Ones),
            field("INSTP0", 2, 1, Choice(&[(0, "loads and stores are not P0"), (3, "loads and stores can be P0")])),
            field("TRCDATA", 4, 3, Choice(&[(0, "no data trace"), (3, "data trace")])),
            field("TRCBB", 5, 5, Flag("branch broadcast", "no branch broadcast")),
            field("TRCCOND", 6, 6, Flag("conditional instructions", "no conditional instructions")),
            field("TRCCCI", 7, 7, Flag("cycle counts", "no cycle counts")),
            field("RETSTACK", 9, 9, Flag("return stack", "no return stack")),
            // A unit without resource selectors has no event, and says 0 too.
            field(
                "NUMEVENT",
                11,
                10,
                Choice(&[(0, "at most 1 event"), (1, "2 events"), (2, "3 events"), (3, "4 events")]),
            ),
            field("CONDTYPE", 13, 12, Choice(&[(0, "conditions as pass or fail"), (1, "conditions as APSR flags")])),
            field("QFILT", 14, 14, Flag("Q element filter", "no Q element filter")),
            field(
                "QSUPP",
                16,
                15,
                Choice(&[
                    (0, "no Q elements"),
                    (1, "Q elements with counts"),
                    (2, "Q elements without counts"),
                    (3, "Q elements with and without counts"),
                ]),
            ),
            field("TRCEXDATA", 17, 17, Flag("data of exceptions", "no data of exceptions")),
            only(Ete, "ITE", 22, 22, Flag("instrumentation", "no instrumentation")),
            only(Ete, "TSMARK", 23, 23, Flag("timestamp markers", "no timestamp markers")),
            field(
                "TSSIZE",
                28,
                24,
                Choice(&[(0, "no timestamps"), (6, "48-bit timestamps"), (8, "64-bit timestamps")]),
            ),
            field("COMMOPT", 29, 29, Flag("cycle counts carry no commits", "cycle counts carry commits")),
            field("COMMTRANS", 30, 30, Flag("transaction starts are not P0", "transaction starts are P0")),
        ],
    },
    Register {
        name: "TRCIDR1",
        title: "who made the trace unit, and its version",
        otherwise: "unknown",
        count: 0,
        fields: &[
            field("DESIGNER", 31, 24, Odd(designer)),
            field("reserved", 15, 12, Ones),
            field("TRCARCHMAJ", 11, 8, Odd(major_version)),
            field("TRCARCHMIN", 7, 4, Odd(minor_version)),
            field("REVISION", 3, 0, Odd(|value, _| (format!("revision {value}"), true))),
        ],
    },
    Register {
        name: "TRCIDR2",
        title: "sizes of addresses, identifiers and counts",
        otherwise: "no sizes",
        count: 0,
        fields: &[
            field("IASIZE", 4, 0, Choice(&[(4, "32-bit addresses"), (8, "64-bit addresses")])),
            field("CIDSIZE", 9, 5, Bytes("context identifiers")),
            field("VMIDSIZE", 14, 10, Bytes("virtual context identifiers")),
            field("DASIZE", 19, 15, Bytes("data addresses")),
            field("DVSIZE", 24, 20, Bytes("data values")),
            field("CCSIZE", 28, 25, Odd(|value, _| (format!("{}-bit cycle counts", 12 + value), value != 0))),
            field(
                "VMIDOPT",
                30,
                29,
                Choice(&[
                    (0, "virtual context identifier is VTTBR_EL2.VMID"),
                    (1, "virtual context identifier can be chosen"),
                    (2, "virtual context identifier is CONTEXTIDR_EL2"),
                ]),
            ),
            field("WFXMODE", 31, 31, Flag("WFI and WFE are P0", "WFI and WFE are not P0")),
        ],
    },
    Register {
        name: "TRCIDR3",
        title: "what the trace unit can do about levels, stalls and overflows",
        otherwise: "nothing special",
        count: 0,
        fields: &[
            field("CCITMIN", 11, 0, Odd(least_threshold)),
            field("NUMPROC", 13, 12, Odd(|_, _| ("high bits of NUMPROC".into(), false))),
            field("EXLEVEL_S", 19, 16, Levels("Secure")),
            field("EXLEVEL_NS", 23, 20, Levels("Non-secure")),
            field(
                "TRCERR",
                24,
                24,
                Flag("System errors can be forced into the trace", "System errors cannot be forced"),
            ),
            field("SYNCPR", 25, 25, Flag("fixed synchronization period", "programmable synchronization period")),
            field("STALLCTL", 26, 26, Flag("stall control", "no stall control")),
            field("SYSSTALL", 27, 27, Flag("the system permits stalls", "the system permits no stalls")),
            field("NUMPROC", 30, 28, Odd(processing_elements)),
            field("NOOVERFLOW", 31, 31, Flag("overflow prevention", "no overflow prevention")),
        ],
    },
    Register {
        name: "TRCIDR4",
        title: "how many comparators and selectors there are",
        otherwise: "none",
        count: 0,
        fields: &[
            field("NUMACPAIRS", 3, 0, Count("address comparator pair")),
            field("NUMDVC", 7, 4, Count("data value comparator")),
            field("SUPPDAC", 8, 8, Flag("data address comparison", "no data address comparison")),
            field("NUMPC", 15, 12, Count("PE comparator input")),
            field("NUMRSPAIR", 19, 16, Odd(selector_pairs)),
            field("NUMSSCC", 23, 20, Count("single-shot comparator")),
            field("NUMCIDC", 27, 24, Count("context identifier comparator")),
            field("NUMVMIDC", 31, 28, Count("virtual context identifier comparator")),
        ],
    },
    Register {
        name: "TRCIDR5",
        title: "how many inputs, counters and states there are",
        otherwise: "none",
        count: 0,
        fields: &[
            field("NUMEXTIN", 8, 0, Odd(external_inputs)),
            field("NUMEXTINSEL", 11, 9, Count("external input selector")),
            field("TRACEIDSIZE", 21, 16, Choice(&[(0, "no trace id"), (7, "7-bit trace id")])),
            field("ATBTRIG", 22, 22, Flag("ATB triggers", "no ATB triggers")),
            field("LPOVERRIDE", 23, 23, Flag("low-power override", "no low-power override")),
            field("NUMSEQSTATE", 27, 25, Choice(&[(0, "no sequencer"), (4, "sequencer of 4 states")])),
            field("NUMCNTR", 30, 28, Count("counter")),
            only(Etm4, "REDFUNCNTR", 31, 31, Flag("counter 0 is a reduced one", "no reduced counter")),
            only(Ete, "OE", 31, 31, Flag("output can be switched", "output cannot be switched")),
        ],
    },
    Register {
        name: "TRCIDR6",
        title: "Realm levels",
        otherwise: "no Realm level",
        count: 0,
        fields: &[only(Ete, "EXLEVEL_RL", 2, 0, Levels("Realm"))],
    },
    Register { name: "TRCIDR7", title: "reserved", otherwise: "nothing", count: 0, fields: &[] },
    Register {
        name: "TRCIDR8",
        title: "depth of speculation",
        otherwise: "no speculation in the trace",
        count: 0,
        fields: &[field("MAXSPEC", 31, 0, Count("speculative P0 element"))],
    },
    Register {
        name: "TRCIDR9",
        title: "P0 keys of data trace",
        otherwise: "none",
        count: 0,
        fields: &[field("NUMP0KEY", 31, 0, Count("P0 right-hand key"))],
    },
    Register {
        name: "TRCIDR10",
        title: "P1 keys of data trace",
        otherwise: "none",
        count: 0,
        fields: &[field("NUMP1KEY", 31, 0, Count("P1 right-hand key"))],
    },
    Register {
        name: "TRCIDR11",
        title: "special P1 keys of data trace",
        otherwise: "none",
        count: 0,
        fields: &[field("NUMP1SPC", 31, 0, Count("special P1 right-hand key"))],
    },
    Register {
        name: "TRCIDR12",
        title: "keys of conditional instructions",
        otherwise: "none",
        count: 0,
        fields: &[field("NUMCONDKEY", 31, 0, Count("conditional right-hand key"))],
    },
    Register {
        name: "TRCIDR13",
        title: "special keys of conditional instructions",
        otherwise: "none",
        count: 0,
        fields: &[field("NUMCONDSPC", 31, 0, Count("special conditional right-hand key"))],
    },
    Register {
        name: "TRCCONFIGR",
        title: "what is traced",
        otherwise: "plain program flow",
        count: 0,
        fields: &[
            field("reserved", 0, 0, Ones),
            only(
                Etm4,
                "INSTP0",
                2,
                1,
                Choice(&[
                    (0, "loads and stores are not P0"),
                    (1, "loads are P0"),
                    (2, "stores are P0"),
                    (3, "loads and stores are P0"),
                ]),
            ),
            field("BB", 3, 3, Flag("branch broadcast", "no branch broadcast")),
            field("CCI", 4, 4, Flag("cycle counts", "no cycle counts")),
            field("CID", 6, 6, Flag("context identifiers", "no context identifiers")),
            field("VMID", 7, 7, Flag("virtual context identifiers", "no virtual context identifiers")),
            only(
                Etm4,
                "COND",
                10,
                8,
                Choice(&[
                    (0, "no conditional instructions"),
                    (1, "conditional loads"),
                    (2, "conditional stores"),
                    (3, "conditional loads and stores"),
                    (7, "all conditional instructions"),
                ]),
            ),
            field("TS", 11, 11, Flag("timestamps", "no timestamps")),
            field("RS", 12, 12, Flag("return stack", "no return stack")),
            field(
                "QE",
                14,
                13,
                Choice(&[
                    (0, "no Q elements"),
                    (1, "Q elements with counts"),
                    (3, "Q elements with and without counts"),
                ]),
            ),
            field(
                "VMIDOPT",
                15,
                15,
                Flag("virtual context identifier is CONTEXTIDR_EL2", "virtual context identifier is VTTBR_EL2.VMID"),
            ),
            only(Etm4, "DA", 16, 16, Flag("data addresses", "no data addresses")),
            only(Etm4, "DV", 17, 17, Flag("data values", "no data values")),
            only(Ete, "ITO", 18, 18, Flag("instrumentation override", "no instrumentation override")),
        ],
    },
    Register {
        name: "TRCDEVARCH",
        title: "which architecture this is",
        otherwise: "unknown architecture",
        count: 0,
        fields: &[
            field("ARCHPART", 11, 0, Odd(part)),
            field("ARCHVER", 15, 12, Odd(architecture)),
            field("REVISION", 19, 16, Odd(|value, _| (format!("revision {value}"), false))),
            field("PRESENT", 20, 20, Unless("register is there", "register is not there")),
            field("ARCHITECT", 31, 21, Odd(architect)),
        ],
    },
    Register {
        name: "TRCTRACEIDR",
        title: "which stream the trace is in",
        otherwise: "none",
        count: 0,
        fields: &[field("TRACEID", 6, 0, Odd(trace_id))],
    },
    Register {
        name: "TRCPRGCTLR",
        title: "main switch",
        otherwise: "trace unit off",
        count: 0,
        fields: &[field("EN", 0, 0, Flag("trace unit on", "trace unit off"))],
    },
    Register {
        name: "TRCEVENTCTL0R",
        title: "what makes the events",
        otherwise: "no events",
        count: 0,
        fields: &[
            field("EVENT0", 7, 0, Event("event 0", 0)),
            field("EVENT1", 15, 8, Event("event 1", 0)),
            field("EVENT2", 23, 16, Event("event 2", 0)),
            field("EVENT3", 31, 24, Event("event 3", 0)),
        ],
    },
    Register {
        name: "TRCEVENTCTL1R",
        title: "what the events do",
        otherwise: "events leave no mark",
        count: 0,
        fields: &[
            field("INSTEN", 3, 0, Numbered("event element")),
            only(Etm4, "DATAEN", 4, 4, Flag("event 0 in data trace", "no events in data trace")),
            field("ATB", 11, 11, Flag("event 0 triggers the ATB", "no ATB trigger")),
            field("LPOVERRIDE", 12, 12, Flag("traces through low power", "low power as usual")),
            only(Ete, "OE", 13, 13, Flag("output on", "output off")),
        ],
    },
    Register {
        name: "TRCSTALLCTLR",
        title: "what may be slowed down or lost against overflows",
        otherwise: "no stalls",
        count: 0,
        fields: &[
            field("LEVEL", 3, 0, Odd(|value, _| (format!("stall level {value} of 15"), value != 0))),
            field("ISTALL", 8, 8, Flag("instruction trace may stall the PE", "instruction trace stalls nothing")),
            only(Etm4, "DSTALL", 9, 9, Flag("data trace may stall the PE", "data trace stalls nothing")),
            only(Etm4, "INSTPRIORITY", 10, 10, Flag("instruction trace goes first", "no priority")),
            only(
                Etm4,
                "DATADISCARD",
                12,
                11,
                Choice(&[
                    (0, "no data is discarded"),
                    (1, "data of loads may be discarded"),
                    (2, "data of stores may be discarded"),
                    (3, "data of loads and stores may be discarded"),
                ]),
            ),
            field("NOOVERFLOW", 13, 13, Flag("overflows are prevented", "overflows may happen")),
        ],
    },
    Register {
        name: "TRCTSCTLR",
        title: "when a timestamp is asked for",
        otherwise: "no event asks for timestamps",
        count: 0,
        fields: &[field("EVENT", 7, 0, Event("timestamp", 0))],
    },
    Register {
        name: "TRCSYNCPR",
        title: "how often the trace synchronizes",
        otherwise: "no periodic synchronization",
        count: 0,
        fields: &[field("PERIOD", 4, 0, Odd(period))],
    },
    Register {
        name: "TRCCCCTLR",
        title: "when cycles are reported",
        otherwise: "no threshold",
        count: 0,
        fields: &[field("THRESHOLD", 11, 0, Odd(threshold))],
    },
    Register {
        name: "TRCBBCTLR",
        title: "where branches are broadcast",
        otherwise: "everywhere",
        count: 0,
        fields: &[field("RANGE", 7, 0, Numbered("address range")), field("MODE", 8, 8, Odd(range_mode))],
    },
    Register {
        name: "TRCQCTLR",
        title: "where Q elements may be",
        otherwise: "everywhere",
        count: 0,
        fields: &[field("RANGE", 7, 0, Numbered("address range")), field("MODE", 8, 8, Odd(range_mode))],
    },
    // In the M profile, EL0 is Thread mode and EL3 is Handler mode.
    Register {
        name: "TRCVICTLR",
        title: "which instructions are traced",
        otherwise: "no filter",
        count: 0,
        fields: &[
            field("EVENT", 7, 0, Event("tracing", 1)),
            field("SSSTATUS", 9, 9, Unless("start/stop logic is started", "start/stop logic is stopped")),
            field("TRCRESET", 10, 10, Flag("Resets always traced", "Resets traced as usual")),
            field("TRCERR", 11, 11, Flag("System errors always traced", "System errors traced as usual")),
            field("EXLEVEL_S", 19, 16, Excluded("Secure")),
            field("EXLEVEL_NS", 22, 20, Excluded("Non-secure")),
            only(Ete, "EXLEVEL_RL", 26, 24, Odd(realm_excluded)),
        ],
    },
    Register {
        name: "TRCAUTHSTATUS",
        title: "which debug is permitted",
        otherwise: "no debug",
        count: 0,
        fields: &[
            field("NSID", 1, 0, Debug("Non-secure invasive")),
            field("NSNID", 3, 2, Debug("Non-secure non-invasive")),
            field("SID", 5, 4, Debug("Secure invasive")),
            field("SNID", 7, 6, Debug("Secure non-invasive")),
            field("HID", 9, 8, Debug("hypervisor invasive")),
            field("HNID", 11, 10, Debug("hypervisor non-invasive")),
            only(Ete, "RLID", 13, 12, Debug("Realm invasive")),
            only(Ete, "RLNID", 15, 14, Debug("Realm non-invasive")),
            only(Ete, "RTID", 25, 24, Debug("Root invasive")),
            only(Ete, "RTNID", 27, 26, Debug("Root non-invasive")),
        ],
    },
];
