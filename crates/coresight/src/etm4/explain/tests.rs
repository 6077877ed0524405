//! Values written by hand from the bit layouts, and properties of any value.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{REGISTERS, Register, explain, mask};
use crate::Protocol::{self, Ete, Etm4};

#[test]
fn summaries() {
    let rows: &[(Protocol, &str, u64, &str)] = &[
        (Ete, "TRCCONFIGR", 0x18c1, "context identifiers, virtual context identifiers, timestamps, return stack"),
        (Ete, "TRCCONFIGR", 0x1, "plain program flow"),
        (Ete, "TRCCONFIGR", 0x4_0009, "branch broadcast, instrumentation override"),
        (
            Etm4,
            "TRCCONFIGR",
            0x3_0707,
            "loads and stores are P0, all conditional instructions, data addresses, data values",
        ),
        (Ete, "TRCCONFIGR", 0x3_0707, "reserved bits 2:1 set, reserved bits 10:8 set, reserved bits 17:16 set"),
        (
            Ete,
            "TRCIDR0",
            0x2800_0ea1,
            "branch broadcast, cycle counts, return stack, 4 events, 64-bit timestamps, cycle counts carry no commits",
        ),
        (
            Ete,
            "TRCIDR0",
            0x28c1_cea1,
            "branch broadcast, cycle counts, return stack, 4 events, Q element filter, \
             Q elements with and without counts, instrumentation, timestamp markers, 64-bit timestamps, \
             cycle counts carry no commits",
        ),
        (Etm4, "TRCIDR0", 0x06c0_0001, "48-bit timestamps, reserved bits 23:22 set"),
        (Etm4, "TRCIDR1", 0x4100_f403, "Arm, ETMv4.0, revision 3"),
        (Etm4, "TRCIDR1", 0x5100_f422, "Qualcomm, ETMv4.2, revision 2"),
        (Ete, "TRCIDR1", 0x4100_fff1, "Arm, version in TRCDEVARCH, revision 1"),
        (Ete, "TRCVIIECTLR", 0x5_0003, "only in range 0/1, not in range 0/2"),
        (Ete, "TRCVISSCTLR", 0x4_0001, "starts at comparator 0, stops at comparator 2"),
        (Ete, "TRCACVR3", 0xffff_8000_1234_5678, "0xffff800012345678"),
        (Ete, "TRCACATR0", 0, "any instruction at the address"),
        (
            Ete,
            "TRCACATR1",
            0x4_6214,
            "if the context identifier matches, context comparator 1, does not match at Secure EL1, \
             does not match at Non-secure EL1/EL2, does not match at Realm EL1",
        ),
        (Etm4, "TRCACATR2", 0x3, "loads and stores"),
        (Ete, "TRCRSCTLR2", 0x15_0005, "address range comparator 0/2, inverted"),
        (Ete, "TRCCNTCTLR1", 0x1_0001, "counts: always, reloads at zero"),
        (
            Ete,
            "TRBLIMITR_EL1",
            0x8000_100b,
            "trace buffer on, wraps with an interrupt, interrupt on trigger, ends at 0x80001000",
        ),
        (Ete, "TRBSR_EL1", 0x30_0000, "has wrapped, has seen a trigger"),
        (Etm4, "TRCIDR1", 0x1200_0350, "designer 0x12, version 3.5, revision 0"),
        (Etm4, "TRCIDR2", 0x488, "64-bit addresses, 4-byte context identifiers, 1-byte virtual context identifiers"),
        (
            Ete,
            "TRCIDR2",
            0xd000_1088,
            "64-bit addresses, 4-byte context identifiers, 4-byte virtual context identifiers, 20-bit cycle counts, \
             virtual context identifier is CONTEXTIDR_EL2, WFI and WFE are P0",
        ),
        (
            Etm4,
            "TRCIDR3",
            0x0d7b_0004,
            "minimum cycle threshold 4, Secure EL0/EL1/EL3, Non-secure EL0/EL1/EL2, \
             System errors can be forced into the trace, stall control, the system permits stalls",
        ),
        (Etm4, "TRCIDR3", 0x1000_1000, "can trace any of 10 PEs"),
        (
            Etm4,
            "TRCIDR4",
            0x1117_0004,
            "4 address comparator pairs, 8 resource selector pairs, 1 single-shot comparator, \
             1 context identifier comparator, 1 virtual context identifier comparator",
        ),
        (Etm4, "TRCIDR4", 0, "none"),
        (
            Etm4,
            "TRCIDR5",
            0xa8c7_0604,
            "4 external inputs, 3 external input selectors, 7-bit trace id, ATB triggers, low-power override, \
             sequencer of 4 states, 2 counters, counter 0 is a reduced function counter",
        ),
        (Ete, "TRCIDR5", 0x8000_01ff, "PMU events as external inputs, output can be switched"),
        (Ete, "TRCIDR6", 0x7, "Realm EL0/EL1/EL2"),
        (Etm4, "TRCIDR6", 0x7, "reserved bits 2:0 set"),
        (Etm4, "TRCIDR7", 0, "nothing"),
        (Etm4, "TRCIDR8", 6, "6 speculative P0 elements"),
        (Etm4, "TRCIDR8", 0, "no speculation in the trace"),
        (Etm4, "TRCIDR9", 1, "1 P0 right-hand key"),
        (Etm4, "TRCIDR10", 2, "2 P1 right-hand keys"),
        (Etm4, "TRCIDR11", 0, "none"),
        (Etm4, "TRCIDR12", 3, "3 conditional right-hand keys"),
        (Etm4, "TRCIDR13", 0xffff_ffff, "4294967295 special conditional right-hand keys"),
        (Ete, "TRCDEVARCH", 0x4770_5a13, "ETE v1.0"),
        (Ete, "TRCDEVARCH", 0x4773_5a13, "ETE v1.3"),
        (Etm4, "TRCDEVARCH", 0x4770_4a13, "ETMv4.0"),
        (Etm4, "TRCDEVARCH", 0x4760_4a13, "register is not present"),
        (Etm4, "TRCDEVARCH", 0x4770_6a15, "part 0xa15"),
        (Etm4, "TRCTRACEIDR", 0x10, "trace id 0x10"),
        (Etm4, "TRCTRACEIDR", 0, "trace id 0x00, which is reserved"),
        (Etm4, "TRCTRACEIDR", 0x70, "trace id 0x70, which is reserved"),
        (Etm4, "TRCPRGCTLR", 1, "trace unit on"),
        (Etm4, "TRCPRGCTLR", 0, "trace unit off"),
        (Etm4, "TRCEVENTCTL0R", 0, "no events"),
        (
            Etm4,
            "TRCEVENTCTL0R",
            0xb2_8103,
            "event 0: selector 3, event 1: selector pair 1, \
             event 2: selector pair 2 (reserved bits 0x30 set)",
        ),
        (
            Etm4,
            "TRCEVENTCTL1R",
            0x1815,
            "event element 0/2, event 0 in data trace, event 0 triggers the ATB, \
             traces through low power",
        ),
        (Ete, "TRCEVENTCTL1R", 0x2010, "output on, reserved bit 4 set"),
        (
            Etm4,
            "TRCSTALLCTLR",
            0x0d0c,
            "stall level 12 of 15, instruction trace may stall the PE, \
             instruction trace goes first, data of loads may be discarded",
        ),
        (Ete, "TRCSTALLCTLR", 0x2000, "overflows are prevented"),
        (Ete, "TRCTSCTLR", 0, "no event requests timestamps"),
        (Ete, "TRCTSCTLR", 1, "timestamp: always"),
        (Ete, "TRCSYNCPR", 0, "no periodic synchronization"),
        (Ete, "TRCSYNCPR", 10, "synchronizes every 1024 bytes"),
        (Ete, "TRCCCCTLR", 0x100, "counts of 256 cycles and more"),
        (Ete, "TRCBBCTLR", 0, "everywhere"),
        (Ete, "TRCBBCTLR", 0x105, "address range 0/2, only inside the ranges"),
        (Ete, "TRCQCTLR", 0x2, "address range 1, everywhere but in the ranges"),
        (Ete, "TRCVICTLR", 0x201, "no filter"),
        (Ete, "TRCVICTLR", 0x1b_0601, "Resets always traced, Secure EL0/EL1/EL3 excluded, Non-secure EL0 excluded"),
        (Ete, "TRCVICTLR", 0x110_0201, "Non-secure EL0 excluded, no Realm level excluded"),
        (Ete, "TRCVICTLR", 0x210_0201, "Non-secure EL0 excluded, Realm EL0/EL1 excluded"),
        (Ete, "TRCVICTLR", 0, "tracing: never, start/stop logic is stopped"),
        (
            Ete,
            "TRCAUTHSTATUS",
            0x0c00_00ac,
            "Non-secure non-invasive debug enabled, Secure invasive debug disabled, \
             Secure non-invasive debug disabled, Root non-invasive debug enabled",
        ),
    ];
    for &(protocol, register, value, expected) in rows {
        let summary = explain(register, value, protocol).map(|explanation| explanation.summary());
        assert_eq!(summary.as_deref(), Some(expected), "{protocol} {register} {value:#x}");
    }
}

/// K10.5.9: the virtual context identifier of an ETE is CONTEXTIDR_EL2, whatever the registers contain.
#[test]
fn the_virtual_context_of_an_ete_is_contextidr_el2() {
    let rows: &[(Protocol, &str, u64, &str)] = &[
        (Ete, "TRCCONFIGR", 1, "virtual context identifier is CONTEXTIDR_EL2"),
        (Ete, "TRCCONFIGR", 0x8001, "virtual context identifier is CONTEXTIDR_EL2"),
        (Etm4, "TRCCONFIGR", 1, "virtual context identifier is VTTBR_EL2.VMID"),
        (Etm4, "TRCCONFIGR", 0x8001, "virtual context identifier is CONTEXTIDR_EL2"),
        (Ete, "TRCIDR2", 2 << 29, "virtual context identifier is CONTEXTIDR_EL2"),
        (Ete, "TRCIDR2", 0, "virtual context identifier is CONTEXTIDR_EL2 (reserved value 0x0)"),
        (Etm4, "TRCIDR2", 0, "virtual context identifier is VTTBR_EL2.VMID"),
        (Etm4, "TRCIDR2", 1 << 29, "virtual context identifier can be chosen"),
    ];
    for &(protocol, register, value, wanted) in rows {
        let explanation = explain(register, value, protocol).unwrap();
        let field = explanation.fields.iter().find(|field| field.name == "VMIDOPT").unwrap();
        assert_eq!(field.meaning, wanted, "{protocol} {register} {value:#x}");
    }
}

/// Registers of the list in K10.5.7.6 that hold state or are implementation defined, and the external inputs of K10.5.9.
#[test]
fn state_and_inputs() {
    let rows: &[(Protocol, &str, u64, &str)] = &[
        (Ete, "TRCRSR", 0, "not tracing, nothing active"),
        (Ete, "TRCRSR", 0x1502, "external input selector active: 1, event active: 0/2, tracing was active"),
        (Etm4, "TRCRSR", 0x1000, "reserved bit 12 set"),
        (Ete, "TRCEXTINSELR0", 0x11, "PMU event 0x11"),
        (Ete, "TRCEXTINSELR3", 0x4_8001, "PMU event 0x8001, reserved bit 18 set"),
        (
            Etm4,
            "TRCEXTINSELR",
            0x0403_0201,
            "selector 0: external input 1, selector 1: external input 2, selector 2: external input 3, \
             selector 3: external input 4",
        ),
        (Etm4, "TRCEXTINSELR0", 7, "selector 0: external input 7"),
        (Ete, "TRCAUXCTLR", 0, "nothing"),
        (Ete, "TRCAUXCTLR", 0x30, "implementation defined: 0x30"),
        (Ete, "TRCSSPCICR0", 0x5, "PE comparator input 0/2"),
        (Ete, "TRCSSPCICR7", 0, "none"),
        (Ete, "TRCSSPCICR1", 0x100, "reserved bit 8 set"),
        (Ete, "TRCIMSPEC0", 0, "no such feature"),
        (
            Ete,
            "TRCIMSPEC0",
            0x21,
            "supports implementation defined feature set 0x1, implementation defined features are on: 0x2",
        ),
        (Ete, "TRCIMSPEC7", 0xff, "implementation defined: 0xff"),
    ];
    for &(protocol, register, value, expected) in rows {
        let summary = explain(register, value, protocol).map(|explanation| explanation.summary());
        assert_eq!(summary.as_deref(), Some(expected), "{protocol} {register} {value:#x}");
    }
    assert_eq!(explain("TRCIMSPEC8", 0, Ete), None);
    assert_eq!(explain("TRCSSPCICR8", 0, Ete), None);
}

type Row = (&'static str, u8, u8, u64, &'static str, bool);

fn assert_explained(protocol: Protocol, register: &str, value: u64, expected: &[Row]) {
    let explanation = explain(register, value, protocol).unwrap();
    let fields: Vec<_> = explanation
        .fields
        .iter()
        .map(|field| (field.name, field.high, field.low, field.value, &*field.meaning, field.notable))
        .collect();
    assert_eq!(fields, expected, "{register} {value:#x}");
}

#[test]
fn fields_of_a_programmed_ete() {
    let rows: &[Row] = &[
        ("reserved", 0, 0, 1, "reads as one", false),
        ("BB", 3, 3, 0, "no branch broadcast", false),
        ("CCI", 4, 4, 0, "no cycle counts", false),
        ("CID", 6, 6, 1, "context identifiers", true),
        ("VMID", 7, 7, 1, "virtual context identifiers", true),
        ("TS", 11, 11, 1, "timestamps", true),
        ("RS", 12, 12, 1, "return stack", true),
        ("QE", 14, 13, 0, "no Q elements", false),
        ("VMIDOPT", 15, 15, 0, "virtual context identifier is CONTEXTIDR_EL2", false),
        ("ITO", 18, 18, 0, "no instrumentation override", false),
    ];
    assert_explained(Ete, "TRCCONFIGR", 0x18c1, rows);
}

#[test]
fn bits_of_ete_are_reserved_on_etm4() {
    let rows: &[Row] = &[
        ("reserved", 0, 0, 1, "reads as one", false),
        ("INSTP0", 2, 1, 0, "loads and stores are not P0", false),
        ("TRCDATA", 4, 3, 0, "no data trace", false),
        ("TRCBB", 5, 5, 1, "branch broadcast", true),
        ("TRCCOND", 6, 6, 0, "no conditional instructions", false),
        ("TRCCCI", 7, 7, 1, "cycle counts", true),
        ("RETSTACK", 9, 9, 1, "return stack", true),
        ("NUMEVENT", 11, 10, 3, "4 events", true),
        ("CONDTYPE", 13, 12, 0, "conditions as pass or fail", false),
        ("QFILT", 14, 14, 1, "Q element filter", true),
        ("QSUPP", 16, 15, 3, "Q elements with and without counts", true),
        ("TRCEXDATA", 17, 17, 0, "no data of exceptions", false),
        ("TSSIZE", 28, 24, 8, "64-bit timestamps", true),
        ("COMMOPT", 29, 29, 1, "cycle counts carry no commits", true),
        ("COMMTRANS", 30, 30, 0, "transaction starts are P0", false),
        ("reserved", 23, 22, 3, "reserved bits 23:22 set", true),
    ];
    assert_explained(Etm4, "TRCIDR0", 0x28c1_cea1, rows);
}

#[test]
fn fields_of_sizes_and_architecture() {
    let sizes: &[Row] = &[
        ("IASIZE", 4, 0, 8, "64-bit addresses", true),
        ("CIDSIZE", 9, 5, 4, "4-byte context identifiers", true),
        ("VMIDSIZE", 14, 10, 1, "1-byte virtual context identifiers", true),
        ("DASIZE", 19, 15, 0, "no data addresses", false),
        ("DVSIZE", 24, 20, 0, "no data values", false),
        ("CCSIZE", 28, 25, 0, "12-bit cycle counts", false),
        ("VMIDOPT", 30, 29, 0, "virtual context identifier is VTTBR_EL2.VMID", false),
        ("WFXMODE", 31, 31, 0, "WFI and WFE are not P0", false),
    ];
    assert_explained(Etm4, "TRCIDR2", 0x488, sizes);
    let architecture: &[Row] = &[
        ("ARCHPART", 11, 0, 0xa13, "PE trace unit", false),
        ("ARCHVER", 15, 12, 5, "ETE v1.3", true),
        ("REVISION", 19, 16, 3, "revision 3", false),
        ("PRESENT", 20, 20, 1, "register is present", false),
        ("ARCHITECT", 31, 21, 0x23b, "Arm", false),
    ];
    assert_explained(Ete, "TRCDEVARCH", 0x4773_5a13, architecture);
}

#[test]
fn names_are_matched_exactly_but_for_case() {
    assert_eq!(explain("trcidr8", 0, Ete).map(|explanation| explanation.register).as_deref(), Some("TRCIDR8"));
    assert_eq!(explain("trcacatr15", 0, Ete).map(|explanation| explanation.register).as_deref(), Some("TRCACATR15"));
    for name in ["", "TRCIDR", "TRCIDR14", "TRCCONFIGR ", "configr", "TRCACVR", "TRCACVR16", "TRCACVR+1"] {
        assert_eq!(explain(name, 0, Ete), None, "{name}");
    }
    assert_eq!(explain("TRCIDR8", 0, Protocol::Etm3), None);
}

#[test]
fn registers_are_unique_and_fields_do_not_overlap() {
    for (index, register) in REGISTERS.iter().enumerate() {
        // One of an ETMv4 has no number, and those of an ETE have.
        let is_same = |other: &Register| other.name == register.name && (other.count == 0) == (register.count == 0);
        assert!(!REGISTERS.iter().take(index).any(is_same), "{}", register.name);
        for protocol in [Ete, Etm4] {
            let mut taken = 0;
            for field in register.fields.iter().filter(|field| field.is_on(protocol)) {
                assert!(field.low <= field.high && field.high < 64, "{}.{}", register.name, field.name);
                assert_eq!(taken & mask(field.high, field.low), 0, "{}.{}", register.name, field.name);
                taken |= mask(field.high, field.low);
            }
        }
    }
}

proptest! {
    #[test]
    fn every_set_bit_is_explained(value: u64) {
        for register in REGISTERS {
            for protocol in [Ete, Etm4] {
                let number = if register.count == 0 { "" } else { "0" };
                let explanation = explain(&alloc::format!("{}{number}", register.name), value, protocol).unwrap();
                let mut explained = 0;
                for field in &explanation.fields {
                    prop_assert_eq!(explained & mask(field.high, field.low), 0);
                    prop_assert!(!field.meaning.is_empty());
                    explained |= mask(field.high, field.low) & field.value << field.low;
                }
                prop_assert_eq!(explained, value, "{}", register.name);
                prop_assert!(!explanation.summary().is_empty());
            }
        }
    }
}
