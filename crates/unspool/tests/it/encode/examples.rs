//! The trace examples of DDI 0487 (K10.5.8), the other way around: program and registers in, the elements of each table out.
//!
//! A row has the registers, the execution, and the elements in the order of the table, as the trace that the encoder wrote
//! contains them. Where the tables leave elements out that their own rules demand, a comment says so. Speculation of the PE is
//! random in the model: a row with cancels passes if some seed has the PE speculate as in the table.

use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::etm4::{Config, ElementDecoder, Speculation};
use unspool::coresight::{DecodeElements as _, Element, Packets, Protocol, Transactions};
use unspool::model::{Context, Event, Exception, ExceptionKind, Instruction, Isa, Security, Step};

use super::encoded;

/// What happens, in order.
#[derive(Clone, Copy)]
enum Do {
    /// An A64 instruction at this address.
    A64(u64, u32),
    /// An A32 instruction at this address.
    A32(u64, u32),
    /// An IRQ with this preferred return address.
    Irq(u64),
    /// A Data Abort at this address.
    DataAbort(u64),
    /// CONTEXTIDR_EL1 changes.
    ContextId(u64),
}
use Do::{A32, A64, ContextId, DataAbort, Irq};

/// Name, registers, execution, elements.
type Row<'r> = (&'r str, &'r [(&'r str, u64)], &'r [Do], &'r [&'r str]);

const MOV: u32 = 0xd280_0020;
const LDR: u32 = 0xf940_0041;
const CMP: u32 = 0xf100_001f;
const STR: u32 = 0xf900_0041;
/// B to the address 0x1000 bytes ahead.
const B: u32 = 0x1400_0400;
/// B.EQ from 0x200c to 0x3000.
const BEQ: u32 = 0x5400_7fa0;

/// Traces from address 0x1000 on.
const FROM_0X1000: [(&str, u64); 3] = [("TRCVICTLR", 1), ("TRCVISSCTLR", 4), ("TRCACVR2", 0x1000)];
/// Speculation, for which the table has room.
const SPECULATES: [(&str, u64); 2] = [("TRCIDR8", 8), ("TRCIDR0", 0x0800_0ea1)];
/// The start that all tables share.
const START: [&str; 5] = ["trace_info", "trace_on", "context", "address 0x1000", "atom E"];

fn step(what: Do) -> Step {
    let instruction = |address, opcode, isa| {
        Event::Instruction(Instruction { address, opcode: Some(opcode), length: 4, isa, ..Instruction::default() })
    };
    let mut step = Step::default();
    step.event = match what {
        A64(address, opcode) => instruction(address, opcode, Isa::A64),
        A32(address, opcode) => instruction(address, opcode, Isa::A32),
        Irq(address) => Event::Exception(Exception {
            kind: ExceptionKind::Irq,
            return_address: Some(address),
            ..Exception::default()
        }),
        DataAbort(address) => Event::Exception(Exception {
            kind: ExceptionKind::Synchronous,
            class: Some(0x25),
            return_address: Some(address),
            ..Exception::default()
        }),
        ContextId(id) => Event::Context(Context {
            level: Some(1),
            security: Some(Security::NonSecure),
            process: Some(id),
            ..Context::default()
        }),
    };
    step
}

/// The elements of the trace; each atom is one. `resolved`: without those of failed speculation and transactions.
fn elements(settings: &Settings, execution: &[Do], resolved: bool) -> Vec<String> {
    let steps: Vec<Step> = execution.iter().map(|what| step(*what)).collect();
    let folder = encoded(&steps, settings, false);
    let bytes = std::fs::read(folder.path().join("trace_0.bin")).unwrap();
    let config: Config = settings.config();
    let (mut decoder, mut speculation) =
        (ElementDecoder::new(&config), Speculation::new(&config, Transactions::Resolve));
    let mut all = vec![];
    for packet in Packets::new(&config, &bytes) {
        decoder.push(packet, &mut |item| match resolved {
            true => speculation.push(item, &mut |item| all.push(item)),
            false => all.push(item),
        });
    }
    all.into_iter().flat_map(|item| words(&item.unwrap().value)).collect()
}

/// An element in the words of the tables.
fn words(element: &Element) -> Vec<String> {
    let one = |text: &str| vec![text.to_string()];
    match element {
        Element::TraceInfo { .. } => one("trace_info"),
        Element::TraceOn => one("trace_on"),
        Element::Context(context) => match context.context_id {
            Some(id) => vec![format!("context {id:#x}")],
            None => one("context"),
        },
        Element::TargetAddress(target) => vec![format!("address {:#x}", target.address)],
        Element::Atoms(atoms) => atoms.iter().map(|taken| format!("atom {}", if taken { 'E' } else { 'N' })).collect(),
        Element::Exception { number, address } => {
            vec![format!("exception {}, {:#x}", number.name().unwrap_or("?"), address.unwrap())]
        }
        Element::Commit(count) => vec![format!("commit {count}")],
        Element::Cancel(count) => vec![format!("cancel {count}")],
        Element::Mispredict => one("mispredict"),
        Element::TransactionStart => one("transaction_start"),
        Element::TransactionCommit => one("transaction_commit"),
        Element::TransactionFailure => one("transaction_failure"),
        other => vec![format!("{other:?}")],
    }
}

fn settings(registers: &[(&str, u64)]) -> Settings {
    let mut settings = Settings::new(Protocol::Ete);
    registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
    settings
}

/// The elements with the first seed of speculation that makes them those of the table, or without speculation.
fn with_any_seed(settings: &mut Settings, execution: &[Do], expected: &[String]) -> Vec<String> {
    // Only resolved elements have a misprediction without a cancel.
    let is_resolved = expected.iter().any(|element| element == "mispredict");
    let found = elements(settings, execution, is_resolved);
    if !is_resolved && !expected.iter().any(|element| element.starts_with("cancel")) {
        return found;
    }
    let with_seed = |seed| {
        let mut settings = settings.clone();
        settings.guess_seed = Some(seed);
        Some(elements(&settings, execution, is_resolved)).filter(|found| found == expected)
    };
    (0..2000).find_map(with_seed).unwrap_or(found)
}

fn assert_rows(rows: &[Row<'_>]) {
    for (name, registers, execution, expected) in rows {
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        let found = with_any_seed(&mut settings(registers), execution, &expected);
        assert_eq!(found, expected, "{name}");
    }
}

/// K10.5.8.1. The second trace_on of table K10-7 is followed by an address (R_QCSJJ) and, here, by a context, which the table
/// leaves out.
#[test]
fn basic_examples() {
    let before =
        [A64(0x1000, B), A64(0x2000, MOV), A64(0x2004, LDR), A64(0x2008, CMP), A64(0x200c, BEQ), A64(0x2010, STR)];
    let filter = [("TRCVIIECTLR", 0x1_0000), ("TRCACVR0", 0x2000), ("TRCACVR1", 0x200f)];
    let from_0x1000_with_speculation = [&FROM_0X1000[..], &SPECULATES].concat();
    let rows: &[Row<'_>] = &[
        (
            "K10-6: basic program trace",
            &[],
            &[&before[..], &[Irq(0x2014)]].concat(),
            &[&START[..], &["atom N", "exception IRQ, 0x2014"]].concat(),
        ),
        (
            "K10-7: with filtering",
            &[&FROM_0X1000[..], &filter].concat(),
            &[&before[..], &[Irq(0x2014)]].concat(),
            &[&START[..], &["trace_on", "context", "address 0x2010", "exception IRQ, 0x2014"]].concat(),
        ),
        (
            "K10-8: an exception cancels what was executed speculatively",
            &from_0x1000_with_speculation,
            &[before[0], Irq(0x2000)],
            &[&START[..], &["atom N", "cancel 1", "exception IRQ, 0x2000", "commit 2"]].concat(),
        ),
        (
            "K10-9: so does a Data Abort",
            &from_0x1000_with_speculation,
            &[before[0], before[1], before[2], DataAbort(0x2004)],
            &[&START[..], &["atom N", "cancel 1", "exception data fault, 0x2004", "commit 2"]].concat(),
        ),
        (
            "K10-10: two exceptions in a row",
            &from_0x1000_with_speculation,
            &[before[0], before[1], before[2], DataAbort(0x2004), Irq(0x4000)],
            &[
                &START[..],
                &["atom N", "cancel 1", "exception data fault, 0x2004"],
                &["address 0x4000", "exception IRQ, 0x4000", "commit 3"],
            ]
            .concat(),
        ),
    ];
    assert_rows(rows);
}

/// K10.5.8.2. The new identifier is seen right after its register was written, as a source of steps may report it.
#[test]
fn examples_of_changes_in_context() {
    let before = [
        ContextId(0xaa),
        A64(0x1000, B),
        A64(0x2000, 0xd518_d020), // msr contextidr_el1, x0
        ContextId(0xbb),
        A64(0x2004, 0x9100_0400), // add
        A64(0x2008, 0xd503_3fdf), // isb
        A64(0x200c, 0xd100_0400), // sub
    ];
    let start = ["trace_info", "trace_on", "context 0xaa", "address 0x1000", "atom E"];
    let after = ["context 0xcc", "address 0x3000", "atom E"];
    let handler = [ContextId(0xcc), A64(0x3000, B)];
    let traces_ids = [("TRCCONFIGR", 0x41)];
    let rows: &[Row<'_>] = &[
        (
            "K10-11: an exception after the ISB and an instruction",
            &traces_ids,
            &[&before[..], &[Irq(0x2010)], &handler].concat(),
            &[&start[..], &["atom E", "context 0xbb", "exception IRQ, 0x2010"], &after].concat(),
        ),
        (
            "K10-12: right after the ISB",
            &traces_ids,
            &[&before[..6], &[Irq(0x200c)], &handler].concat(),
            &[&start[..], &["atom E", "context 0xbb", "exception IRQ, 0x200c"], &after].concat(),
        ),
        (
            "K10-13: right before the ISB",
            &traces_ids,
            &[&before[..5], &[Irq(0x2008)], &handler].concat(),
            &[&start[..], &["exception IRQ, 0x2008"], &after].concat(),
        ),
    ];
    assert_rows(rows);
}

/// K10.5.8.3. The tables do not list the N atom of the BLEQ, which their notes and the commit count.
#[test]
fn examples_of_the_return_stack() {
    let execution = [
        A32(0x1000, 0xeb00_03fe), // bl 0x2000
        A32(0x2000, 0xe3a0_0001), // mov
        A32(0x2004, 0xe592_1000), // ldr
        A32(0x2008, 0xe350_0000), // cmp
        A32(0x200c, 0x0b00_03fb), // bleq 0x3000
        A32(0x2010, 0xe582_1000), // str
        A32(0x2014, 0xe12f_ff1e), // bx lr
        A32(0x1004, 0xe3a0_0001), // mov
        A32(0x1008, 0xea00_0bfc), // b 0x4000
    ];
    let registers = [&FROM_0X1000[..], &SPECULATES].concat();
    let with_stack = [&registers[..], &[("TRCCONFIGR", 0x1001)]].concat();
    let rows: &[Row<'_>] = &[
        (
            "K10-14: return stack disabled",
            &registers,
            &execution,
            &[&START[..], &["atom N", "atom E", "address 0x1004", "atom E", "commit 4"]].concat(),
        ),
        (
            "K10-15: return stack enabled",
            &with_stack,
            &execution,
            &[&START[..], &["atom N", "atom E", "atom E", "commit 4"]].concat(),
        ),
    ];
    assert_rows(rows);
}

/// K10.5.8.4. The instructions that the tables leave out are NOPs here, and a branch at the end. In table K10-19 the PE speculates
/// into a transaction; the model does not know the code on the wrong path, and cancels other elements in its place: the resolved
/// elements are those of the table.
#[test]
fn examples_of_transactions() {
    let (tstart, tcommit, tst) = (0xd523_3060, 0xd503_307f, 0xf240_001f);
    let nops = |from: u64, to: u64| (from..to).step_by(4).map(|address| A64(address, 0xd503_201f)).collect::<Vec<_>>();
    let from_0x2000 = [("TRCVICTLR", 1), ("TRCVISSCTLR", 4), ("TRCACVR2", 0x2000)];
    let speculates = [&from_0x2000[..], &SPECULATES].concat();
    let start = ["trace_info", "trace_on", "context", "address 0x2000", "atom E", "transaction_start"];
    let succeeds = [
        &[A64(0x1000, B), A64(0x2000, tstart), A64(0x2004, 0x1400_00ff)][..],
        &nops(0x2400, 0x2804),
        &[A64(0x2804, 0x1400_0001), A64(0x2808, tcommit), A64(0x280c, B)],
    ]
    .concat();
    let fails = [
        &[A64(0x2000, tstart), A64(0x2004, tst), A64(0x2008, 0x5400_7fc0)][..],
        &nops(0x200c, 0x2804),
        &[A64(0x2804, 0x1400_01ff)],
        &[A64(0x2004, tst), A64(0x2008, 0x5400_7fc0), A64(0x3000, B)],
    ]
    .concat();
    let rows: &[Row<'_>] = &[
        (
            "K10-16: a successful transaction",
            &from_0x2000,
            &succeeds,
            &[&start[..], &["atom E", "atom E", "transaction_commit", "atom E"]].concat(),
        ),
        (
            "K10-17: a failure",
            &from_0x2000,
            &fails,
            &[
                &start[..],
                &["atom N", "atom E", "address 0x3000", "transaction_failure"],
                &["address 0x2004", "atom E", "atom E"],
            ]
            .concat(),
        ),
        (
            "K10-18: a failure with speculation",
            &speculates,
            &fails,
            &[
                &start[..],
                &["atom N", "atom E", "address 0x3000", "cancel 2", "transaction_failure"],
                &["address 0x2004", "atom E", "atom E", "commit 4"],
            ]
            .concat(),
        ),
        (
            "K10-19: mispredicted",
            &[&FROM_0X1000[..], &SPECULATES].concat(),
            &[A64(0x1000, 0x5400_8001), A64(0x1004, MOV), A64(0x1008, B)],
            &[&START[..], &["mispredict", "atom E"]].concat(),
        ),
    ];
    assert_rows(rows);
}
