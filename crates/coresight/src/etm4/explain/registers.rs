//! Table of the registers that can be explained: one line per field, with the rule that describes its value.
//!
//! `NAME[count] "title", "summary if no field is notable" { FIELD[high:low] Protocol => rule, ... }`. The count is of
//! registers numbered from 0; a protocol limits a field to that architecture. Fields are listed lowest bits first unless
//! another order reads better. Descriptions that depend on more than one value are in `rules.rs`.

use alloc::format;

use super::rules::Rule::{
    self, Address, Bytes, Choice, Count, Debug, Event, Excluded, Flag, Levels, Number, Numbered, Odd, Ones, Unless,
};
use super::rules::{
    architect, architecture, bits, context_comparator, designer, external_inputs, ignored_bytes,
    implementation_enabled, major_version, minimum_threshold, minor_version, not_at, part, period, processing_elements,
    range_mode, realm_excluded, selected, selector_pairs, threshold, trace_id, virtual_context,
};
use crate::Protocol;

pub(super) struct Register {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Summary when no field is notable.
    pub(super) otherwise: &'static str,
    /// Number of registers with this name, numbered from 0; 0: one, without a number.
    pub(super) count: u8,
    pub(super) fields: &'static [Field],
}

pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) high: u8,
    pub(super) low: u8,
    pub(super) rule: Rule,
    /// The only protocol that has this field; the bits are reserved in the other one.
    pub(super) only: Option<Protocol>,
}

macro_rules! registers {
    ($($register:ident $([$count:literal])? $title:literal, $otherwise:literal {
        $($field:ident [$high:literal $(: $low:literal)?] $($only:ident)? => $rule:expr,)*
    })*) => {
        pub(super) const REGISTERS: &[Register] = &[$(Register {
            name: stringify!($register),
            title: $title,
            otherwise: $otherwise,
            count: [$($count,)? 0][0],
            fields: &[$(Field {
                name: stringify!($field),
                high: $high,
                low: [$($low,)? $high][0],
                rule: $rule,
                only: [$(Some(Protocol::$only),)? None][0],
            }),*],
        }),*];
    };
}

registers! {
    // Identification, configuration and control of the trace unit.
    TRCIDR0 "what can be traced", "program flow only" {
        reserved[0] => Ones,
        INSTP0[2:1] => Choice(&[(0, "loads and stores are not P0"), (3, "loads and stores can be P0")]),
        TRCDATA[4:3] => Choice(&[(0, "no data trace"), (3, "data trace")]),
        TRCBB[5] => Flag("branch broadcast", "no branch broadcast"),
        TRCCOND[6] => Flag("conditional instructions", "no conditional instructions"),
        TRCCCI[7] => Flag("cycle counts", "no cycle counts"),
        RETSTACK[9] => Flag("return stack", "no return stack"),
        // A unit without resource selectors has no event, and reads 0 too.
        NUMEVENT[11:10] => Choice(&[(0, "at most 1 event"), (1, "2 events"), (2, "3 events"), (3, "4 events")]),
        CONDTYPE[13:12] => Choice(&[(0, "conditions as pass or fail"), (1, "conditions as APSR flags")]),
        QFILT[14] => Flag("Q element filter", "no Q element filter"),
        QSUPP[16:15] => Choice(&[(0, "no Q elements"), (1, "Q elements with counts"),
            (2, "Q elements without counts"), (3, "Q elements with and without counts")]),
        TRCEXDATA[17] => Flag("data of exceptions", "no data of exceptions"),
        ITE[22] Ete => Flag("instrumentation", "no instrumentation"),
        TSMARK[23] Ete => Flag("timestamp markers", "no timestamp markers"),
        TSSIZE[28:24] => Choice(&[(0, "no timestamps"), (6, "48-bit timestamps"), (8, "64-bit timestamps")]),
        COMMOPT[29] => Flag("cycle counts carry no commits", "cycle counts carry commits"),
        COMMTRANS[30] => Flag("transaction starts are not P0", "transaction starts are P0"),
    }
    TRCIDR1 "designer and version of the trace unit", "unknown" {
        DESIGNER[31:24] => Odd(designer),
        reserved[15:12] => Ones,
        TRCARCHMAJ[11:8] => Odd(major_version),
        TRCARCHMIN[7:4] => Odd(minor_version),
        REVISION[3:0] => Odd(|value, _| (format!("revision {value}"), true)),
    }
    TRCIDR2 "sizes of addresses, identifiers and counts", "no sizes" {
        IASIZE[4:0] => Choice(&[(4, "32-bit addresses"), (8, "64-bit addresses")]),
        CIDSIZE[9:5] => Bytes("context identifiers"),
        VMIDSIZE[14:10] => Bytes("virtual context identifiers"),
        DASIZE[19:15] => Bytes("data addresses"),
        DVSIZE[24:20] => Bytes("data values"),
        CCSIZE[28:25] => Odd(|value, _| (format!("{}-bit cycle counts", 12 + value), value != 0)),
        VMIDOPT[30:29] Etm4 => Choice(&[(0, "virtual context identifier is VTTBR_EL2.VMID"),
            (1, "virtual context identifier can be chosen"), (2, "virtual context identifier is CONTEXTIDR_EL2")]),
        VMIDOPT[30:29] Ete => Odd(virtual_context),
        WFXMODE[31] => Flag("WFI and WFE are P0", "WFI and WFE are not P0"),
    }
    TRCIDR3 "what the trace unit can do about levels, stalls and overflows", "nothing special" {
        CCITMIN[11:0] => Odd(minimum_threshold),
        NUMPROC[13:12] => Odd(|_, _| ("high bits of NUMPROC".into(), false)),
        EXLEVEL_S[19:16] => Levels("Secure"),
        EXLEVEL_NS[23:20] => Levels("Non-secure"),
        TRCERR[24] => Flag("System errors can be forced into the trace", "System errors cannot be forced"),
        SYNCPR[25] => Flag("fixed synchronization period", "programmable synchronization period"),
        STALLCTL[26] => Flag("stall control", "no stall control"),
        SYSSTALL[27] => Flag("the system permits stalls", "the system permits no stalls"),
        NUMPROC[30:28] => Odd(processing_elements),
        NOOVERFLOW[31] => Flag("overflow prevention", "no overflow prevention"),
    }
    TRCIDR4 "how many comparators and selectors there are", "none" {
        NUMACPAIRS[3:0] => Count("address comparator pair"),
        NUMDVC[7:4] => Count("data value comparator"),
        SUPPDAC[8] => Flag("data address comparison", "no data address comparison"),
        NUMPC[15:12] => Count("PE comparator input"),
        NUMRSPAIR[19:16] => Odd(selector_pairs),
        NUMSSCC[23:20] => Count("single-shot comparator"),
        NUMCIDC[27:24] => Count("context identifier comparator"),
        NUMVMIDC[31:28] => Count("virtual context identifier comparator"),
    }
    TRCIDR5 "how many inputs, counters and states there are", "none" {
        NUMEXTIN[8:0] => Odd(external_inputs),
        NUMEXTINSEL[11:9] => Count("external input selector"),
        TRACEIDSIZE[21:16] => Choice(&[(0, "no trace id"), (7, "7-bit trace id")]),
        ATBTRIG[22] => Flag("ATB triggers", "no ATB triggers"),
        LPOVERRIDE[23] => Flag("low-power override", "no low-power override"),
        NUMSEQSTATE[27:25] => Choice(&[(0, "no sequencer"), (4, "sequencer of 4 states")]),
        NUMCNTR[30:28] => Count("counter"),
        REDFUNCNTR[31] Etm4 => Flag("counter 0 is a reduced function counter", "no reduced function counter"),
        OE[31] Ete => Flag("output can be switched", "output cannot be switched"),
    }
    TRCIDR6 "Realm levels", "no Realm level" { EXLEVEL_RL[2:0] Ete => Levels("Realm"), }
    TRCIDR7 "reserved", "nothing" {}
    TRCIDR8 "depth of speculation", "no speculation in the trace" { MAXSPEC[31:0] => Count("speculative P0 element"), }
    TRCIDR9 "P0 keys of data trace", "none" { NUMP0KEY[31:0] => Count("P0 right-hand key"), }
    TRCIDR10 "P1 keys of data trace", "none" { NUMP1KEY[31:0] => Count("P1 right-hand key"), }
    TRCIDR11 "special P1 keys of data trace", "none" { NUMP1SPC[31:0] => Count("special P1 right-hand key"), }
    TRCIDR12 "keys of conditional instructions", "none" { NUMCONDKEY[31:0] => Count("conditional right-hand key"), }
    TRCIDR13 "special keys of conditional instructions", "none" {
        NUMCONDSPC[31:0] => Count("special conditional right-hand key"),
    }
    TRCCONFIGR "what is traced", "plain program flow" {
        reserved[0] => Ones,
        INSTP0[2:1] Etm4 => Choice(&[(0, "loads and stores are not P0"), (1, "loads are P0"), (2, "stores are P0"),
            (3, "loads and stores are P0")]),
        BB[3] => Flag("branch broadcast", "no branch broadcast"),
        CCI[4] => Flag("cycle counts", "no cycle counts"),
        CID[6] => Flag("context identifiers", "no context identifiers"),
        VMID[7] => Flag("virtual context identifiers", "no virtual context identifiers"),
        COND[10:8] Etm4 => Choice(&[(0, "no conditional instructions"), (1, "conditional loads"),
            (2, "conditional stores"), (3, "conditional loads and stores"), (7, "all conditional instructions")]),
        TS[11] => Flag("timestamps", "no timestamps"),
        RS[12] => Flag("return stack", "no return stack"),
        QE[14:13] => Choice(&[(0, "no Q elements"), (1, "Q elements with counts"),
            (3, "Q elements with and without counts")]),
        VMIDOPT[15] Etm4 => Flag("virtual context identifier is CONTEXTIDR_EL2",
            "virtual context identifier is VTTBR_EL2.VMID"),
        // No choice: an ETE has no other one (K10.5.9).
        VMIDOPT[15] Ete => Odd(|_, _| ("virtual context identifier is CONTEXTIDR_EL2".into(), false)),
        DA[16] Etm4 => Flag("data addresses", "no data addresses"),
        DV[17] Etm4 => Flag("data values", "no data values"),
        ITO[18] Ete => Flag("instrumentation override", "no instrumentation override"),
    }
    TRCDEVARCH "which architecture this is", "unknown architecture" {
        ARCHPART[11:0] => Odd(part),
        ARCHVER[15:12] => Odd(architecture),
        REVISION[19:16] => Odd(|value, _| (format!("revision {value}"), false)),
        PRESENT[20] => Unless("register is present", "register is not present"),
        ARCHITECT[31:21] => Odd(architect),
    }
    TRCTRACEIDR "which stream the trace is in", "none" { TRACEID[6:0] => Odd(trace_id), }
    TRCPRGCTLR "main switch", "trace unit off" { EN[0] => Flag("trace unit on", "trace unit off"), }
    TRCEVENTCTL0R "what makes the events", "no events" {
        EVENT0[7:0] => Event("event 0", 0),
        EVENT1[15:8] => Event("event 1", 0),
        EVENT2[23:16] => Event("event 2", 0),
        EVENT3[31:24] => Event("event 3", 0),
    }
    TRCEVENTCTL1R "what the events do", "events leave no mark" {
        INSTEN[3:0] => Numbered("event element"),
        DATAEN[4] Etm4 => Flag("event 0 in data trace", "no events in data trace"),
        ATB[11] => Flag("event 0 triggers the ATB", "no ATB trigger"),
        LPOVERRIDE[12] => Flag("traces through low power", "low power as usual"),
        OE[13] Ete => Flag("output on", "output off"),
    }
    TRCAUXCTLR "implementation defined control", "nothing" { AUX[31:0] => Number("implementation defined:"), }
    TRCIMSPEC0 "implementation defined features", "no such feature" {
        SUPPORT[3:0] => Number("supports implementation defined feature set"),
        EN[7:4] => Odd(implementation_enabled),
    }
    // The one with the number 0 is above.
    TRCIMSPEC[8] "implementation defined", "nothing" { IMPLEMENTATION_DEFINED[31:0] => Number("implementation defined:"), }
    TRCSTALLCTLR "what may be slowed down or lost against overflows", "no stalls" {
        LEVEL[3:0] => Odd(|value, _| (format!("stall level {value} of 15"), value != 0)),
        ISTALL[8] => Flag("instruction trace may stall the PE", "instruction trace stalls nothing"),
        DSTALL[9] Etm4 => Flag("data trace may stall the PE", "data trace stalls nothing"),
        INSTPRIORITY[10] Etm4 => Flag("instruction trace goes first", "no priority"),
        DATADISCARD[12:11] Etm4 => Choice(&[(0, "no data is discarded"), (1, "data of loads may be discarded"),
            (2, "data of stores may be discarded"), (3, "data of loads and stores may be discarded")]),
        NOOVERFLOW[13] => Flag("overflows are prevented", "overflows may happen"),
    }
    TRCTSCTLR "when a timestamp is requested", "no event requests timestamps" { EVENT[7:0] => Event("timestamp", 0), }
    TRCSYNCPR "how often the trace synchronizes", "no periodic synchronization" { PERIOD[4:0] => Odd(period), }
    TRCCCCTLR "when cycles are reported", "no threshold" { THRESHOLD[11:0] => Odd(threshold), }
    TRCBBCTLR "where branches are broadcast", "everywhere" {
        RANGE[7:0] => Numbered("address range"),
        MODE[8] => Odd(range_mode),
    }
    TRCQCTLR "where Q elements may be", "everywhere" {
        RANGE[7:0] => Numbered("address range"),
        MODE[8] => Odd(range_mode),
    }
    // In the M profile, EL0 is Thread mode and EL3 is Handler mode.
    TRCVICTLR "which instructions are traced", "no filter" {
        EVENT[7:0] => Event("tracing", 1),
        SSSTATUS[9] => Unless("start/stop logic is started", "start/stop logic is stopped"),
        TRCRESET[10] => Flag("Resets always traced", "Resets traced as usual"),
        TRCERR[11] => Flag("System errors always traced", "System errors traced as usual"),
        EXLEVEL_S[19:16] => Excluded("Secure"),
        EXLEVEL_NS[22:20] => Excluded("Non-secure"),
        EXLEVEL_RL[26:24] Ete => Odd(realm_excluded),
    }
    TRCAUTHSTATUS "which debug is permitted", "no debug" {
        NSID[1:0] => Debug("Non-secure invasive"),
        NSNID[3:2] => Debug("Non-secure non-invasive"),
        SID[5:4] => Debug("Secure invasive"),
        SNID[7:6] => Debug("Secure non-invasive"),
        HID[9:8] => Debug("hypervisor invasive"),
        HNID[11:10] => Debug("hypervisor non-invasive"),
        RLID[13:12] Ete => Debug("Realm invasive"),
        RLNID[15:14] Ete => Debug("Realm non-invasive"),
        RTID[25:24] Ete => Debug("Root invasive"),
        RTNID[27:26] Ete => Debug("Root non-invasive"),
    }

    // Comparators, selectors, counters, the sequencer.
    TRCVIIECTLR "which address ranges are traced", "no address range" {
        INCLUDE[7:0] => Numbered("only in range"),
        EXCLUDE[23:16] => Numbered("not in range"),
    }
    TRCVISSCTLR "where tracing starts and stops", "neither starts nor stops" {
        START[15:0] => Numbered("starts at comparator"),
        STOP[31:16] => Numbered("stops at comparator"),
    }
    TRCVIPCSSCTLR "which PE comparator inputs start and stop tracing", "none" {
        START[7:0] => Numbered("starts at PE comparator input"),
        STOP[23:16] => Numbered("stops at PE comparator input"),
    }
    TRCACVR[16] "what an address comparator compares with", "address 0" { ADDRESS[63:0] => Address, }
    TRCACATR[16] "what an address comparator matches", "any instruction at the address" {
        TYPE[1:0] Etm4 => Choice(&[(0, "instructions"), (1, "loads"), (2, "stores"), (3, "loads and stores")]),
        CONTEXTTYPE[3:2] => Choice(&[(0, "in any context"), (1, "if the context identifier matches"),
            (2, "if the virtual context identifier matches"), (3, "if both context identifiers match")]),
        CONTEXT[6:4] => Odd(context_comparator),
        EXLEVEL_S[11:8] => Odd(|levels, _| not_at("Secure", levels)),
        EXLEVEL_NS[14:12] => Odd(|levels, _| not_at("Non-secure", levels)),
        // A set bit inverts the setting of the Non-secure level.
        EXLEVEL_RL[18:16] Ete => Odd(|inverted, register| not_at("Realm", inverted ^ bits(register, 14, 12))),
        DATAMATCH[17:16] Etm4 => Choice(&[(0, "no data"), (1, "if the data matches"),
            (3, "if the data does not match")]),
        DATASIZE[19:18] Etm4 => Choice(&[(0, "bytes"), (1, "halfwords"), (2, "words"), (3, "doublewords")]),
        DATARANGE[20] Etm4 => Flag("data of a range", "data of an address"),
        DTBM[21] Etm4 => Flag("data address tags are not compared", "data address tags are compared"),
    }
    TRCCIDCVR[8] "context identifier to compare with", "context identifier 0" {
        VALUE[63:0] => Number("context identifier"),
    }
    TRCVMIDCVR[8] "virtual context identifier to compare with", "virtual context identifier 0" {
        VALUE[63:0] => Number("virtual context identifier"),
    }
    TRCCIDCCTLR[2] "which bytes of context identifiers are compared", "all bytes" { COMP[31:0] => Odd(ignored_bytes), }
    TRCVMIDCCTLR[2] "which bytes of virtual context identifiers are compared", "all bytes" {
        COMP[31:0] => Odd(ignored_bytes),
    }
    TRCRSCTLR[32] "what a resource selector selects", "nothing" {
        SELECT[15:0] => Odd(selected),
        GROUP[19:16] => Odd(|group, _| (format!("group {group}"), false)),
        INV[20] => Flag("inverted", "not inverted"),
        PAIRINV[21] => Flag("pair inverted", "pair not inverted"),
    }
    TRCSEQEVR[3] "when the sequencer moves forward and back", "never" {
        F[7:0] => Event("forward", 0),
        B[15:8] => Event("back", 0),
    }
    TRCSEQRSTEVR "when the sequencer resets", "never" { RST[7:0] => Event("resets", 0), }
    TRCSEQSTR "where the sequencer is", "state 0" { STATE[1:0] => Number("state"), }
    TRCCNTRLDVR[4] "reload value of a counter", "0" { VALUE[15:0] => Number("from"), }
    TRCCNTCTLR[4] "when a counter counts", "never" {
        CNTEVENT[7:0] => Event("counts", 0),
        RLDEVENT[15:8] => Event("reloads", 0),
        RLDSELF[16] => Flag("reloads at zero", "stays at zero"),
        CNTCHAIN[17] => Flag("counts when the previous counter reloads", "counts by itself"),
    }
    TRCCNTVR[4] "where a counter is", "at zero" { VALUE[15:0] => Number("at"), }
    TRCSSCCR[8] "what a single-shot comparator looks for", "nothing" {
        SAC[15:0] => Numbered("address comparator"),
        ARC[23:16] => Numbered("address range"),
        RST[24] => Flag("repeatedly", "once"),
    }
    TRCSSCSR[8] "what a single-shot comparator found", "nothing yet" {
        INST[0] => Flag("compares instruction addresses", "no instruction addresses"),
        DA[1] => Flag("compares data addresses", "no data addresses"),
        DV[2] => Flag("compares data", "no data"),
        PC[3] => Flag("uses PE comparator inputs", "no PE comparator inputs"),
        PENDING[30] => Flag("about to match", "nothing pending"),
        STATUS[31] => Flag("has matched", "has not matched"),
    }
    TRCSSPCICR[8] "which PE comparator inputs a single-shot comparator looks for", "none" {
        PC[7:0] => Numbered("PE comparator input"),
    }
    // An input of an ETE is an event of the PMU; an ETMv4 has one register for up to four inputs.
    TRCEXTINSELR[4] "what an external input selector selects", "event 0" {
        EVTCOUNT[15:0] Ete => Number("PMU event"),
        SEL0[7:0] Etm4 => Odd(|input, _| (format!("selector 0: external input {input}"), true)),
    }
    TRCEXTINSELR "what the external input selectors select", "external input 0" {
        SEL0[7:0] Etm4 => Odd(|input, _| (format!("selector 0: external input {input}"), true)),
        SEL1[15:8] Etm4 => Odd(|input, _| (format!("selector 1: external input {input}"), true)),
        SEL2[23:16] Etm4 => Odd(|input, _| (format!("selector 2: external input {input}"), true)),
        SEL3[31:24] Etm4 => Odd(|input, _| (format!("selector 3: external input {input}"), true)),
    }
    TRCRSR "state of tracing, events and inputs", "not tracing, nothing active" {
        EXTIN[3:0] Ete => Numbered("external input selector active:"),
        EVENT[11:8] Ete => Numbered("event active:"),
        TA[12] Ete => Flag("tracing was active", "tracing was not active"),
    }
    TRCSTATR "what the trace unit is doing", "busy" {
        IDLE[0] => Flag("idle", "not idle"),
        PMSTABLE[1] => Flag("registers are stable", "registers may change"),
    }

    // The trace buffer of the PE, and where the PE permits trace.
    TRFCR_EL1 "where the PE permits trace", "nowhere below EL2" {
        E0TRE[0] => Flag("EL0", "not EL0"),
        E1TRE[1] => Flag("EL1", "not EL1"),
        TS[6:5] => Choice(&[(0, "timestamps as set by EL2"), (1, "virtual timestamps"),
            (2, "guest physical timestamps"), (3, "physical timestamps")]),
    }
    TRBLIMITR_EL1 "where the trace buffer ends, and what happens there", "trace buffer off" {
        E[0] => Flag("trace buffer on", "trace buffer off"),
        FM[2:1] => Choice(&[(0, "stops when full"), (1, "wraps with an interrupt"), (3, "wraps silently")]),
        TM[4:3] => Choice(&[(0, "stops on trigger"), (1, "interrupt on trigger"), (3, "triggers are ignored")]),
        nVM[5] => Flag("physical addresses", "virtual addresses"),
        XE[6] => Flag("accepts external trace", "accepts no external trace"),
        LIMIT[63:12] => Odd(|_, register| (format!("ends at {:#x}", register & !0xfff), true)),
    }
    TRBPTR_EL1 "where the next byte of trace goes", "address 0" { PTR[63:0] => Address, }
    TRBBASER_EL1 "where the trace buffer starts", "address 0" {
        BASE[63:12] => Odd(|_, register| (format!("{:#x}", register & !0xfff), true)),
    }
    TRBSR_EL1 "what the trace buffer did", "nothing happened" {
        MSS[15:0] => Odd(|value, _| (format!("status {value:#x}"), value != 0)),
        S[17] => Flag("collection has stopped", "collecting"),
        EA[18] => Flag("external abort", "no external abort"),
        WRAP[20] => Flag("has wrapped", "has not wrapped"),
        TRG[21] => Flag("has seen a trigger", "no trigger"),
        IRQ[22] => Flag("interrupt pending", "no interrupt"),
        DAT[23] => Flag("has data", "no data"),
        EC[31:26] => Odd(|value, _| (format!("event class {value:#x}"), value != 0)),
        MSS2[55:32] => Odd(|value, _| (format!("more status {value:#x}"), value != 0)),
    }
    TRBTRG_EL1 "bytes collected after a trigger", "nothing" {
        TRG[31:0] => Odd(|bytes, _| (format!("{bytes} bytes after a trigger"), bytes != 0)),
    }
}
