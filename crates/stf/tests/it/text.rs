//! Text of STF: a trace with every record, line by line; statistics; and names of numbers.

#![cfg(feature = "text")]
use unspool_stf::header::Header;
use unspool_stf::lift::Follower;
use unspool_stf::names;
use unspool_stf::read::{Gather, Reader};
use unspool_stf::record::{Event, MemAccess, Register, TraceInfo, Transaction};
use unspool_stf::stats::{Counts, Mix, Stats};
use unspool_stf::text::Lines;
use unspool_stf::{Layout, Record};

use crate::fixtures::{bus_write, each_instruction, encoded, instructions_of, records_of, walk, words};

const WIDE: u64 = 0x8_0000;

fn event<'b>(raw: u64, data: &'b [u8]) -> Record<'b> {
    Record::Event(Event { raw, is_wide: true, data })
}

fn header(isa: u16, iem: u16) -> Vec<Record<'static>> {
    vec![
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 6 },
        Record::Comment(b"two\nlines and \xff"),
        Record::Isa(isa),
        Record::InstIem(iem),
        Record::TraceInfo(TraceInfo { generator: 6, version: [1, 2, 3], comment: b"gen A" }),
        Record::TraceInfo(TraceInfo { generator: 99, version: [4, 5, 6], comment: b"" }),
        Record::TraceInfoFeature(WIDE | 0x120 | 1 << 40),
        Record::ProcessIdExt([1, 2, 3]),
        Record::ForcePc(0x8000_1234),
        Record::VlenConfig(128),
        Record::IsaExtended(b"rv64gcv"),
        Record::EndHeader,
    ]
}

/// A trace with every record but those of transactions.
fn every_record() -> Vec<u8> {
    let vector = words(&[0xa600, 0xa601]);
    let entries = words(&[0x8100_0000, 0x2040_0401, 0x8100_2008, 0x2000_00cf]);
    let value = 0x0102_0304_0506_0708_u64.to_le_bytes();
    let [machine, fault, timer] = [words(&[3]), words(&[0x1000, 0x13, 0x40_0000_1008]), words(&[0])];
    let register = |number, meta| Record::InstReg(Register { number, meta, value: &value });
    let body = [
        event(1 << 62, &machine),
        Record::InstOpcode32(0x13),
        Record::Comment(b"hello"),
        Record::ProcessIdExt([4, 5, 6]),
        Record::ForcePc(0x8000_0000_0000_1000),
        Record::InstPcTarget(0x8000_0000_0000_2000),
        register(5, 0x11),
        register(32, 0x11),
        register(31, 0x22),
        register(0x180, 0x34),
        register(0x3b7, 0x34),
        register(0x17, 0x14),
        register(3, 0x45),
        Record::InstReg(Register { number: 7, meta: 0x33, value: &vector }),
        Record::InstReadyReg(9),
        walk(7, &entries),
        Record::InstMemAccess(MemAccess { address: 0x40_0000_1008, size: 8, attributes: 0xbeef, kind: 1 }),
        Record::InstMemContent(0x1122_3344_5566_7788),
        Record::InstMemAccess(MemAccess { address: 0x40_0000_1010, size: 16, attributes: 0, kind: 2 }),
        Record::InstMemContent(1),
        Record::InstMemContent(2),
        Record::InstMemAccess(MemAccess { address: 8, size: 1, attributes: 0, kind: 7 }),
        bus_write(0x1234_5678, 64, 2, 0xcafe_f00d),
        Record::BusMasterContent(0x99),
        Record::InstMemContent(3),
        event(13, &fault),
        Record::EventPcTarget(0xffff_ffff_8000_0000),
        event(5 | 1 << 63, &timer),
        Record::EventPcTarget(0xffff_ffff_8000_0100),
        Record::InstMicroop { size: 4, encoding: 0x00a5_0533 },
        Record::InstOpcode16(0x4501),
        Record::InstIem(1),
        // beq a0, a1, 16
        Record::InstOpcode32(0x00b5_0863),
        Record::InstOpcode16(0),
        Record::Comment(b"after"),
        Record::ReserveEnd,
    ];
    [encoded(&header(1, 2)), encoded(&body)].concat()
}

fn record_lines(bytes: &[u8]) -> String {
    let (mut lines, mut text) = (Lines::new(), String::new());
    records_of(&mut Reader::plain(bytes), |position, record| {
        lines.record(position, record, &mut text);
        text.push('\n');
    });
    text
}

fn instruction_lines(bytes: &[u8], isa: u16) -> String {
    let (mut lines, mut text) = (Lines::new(), String::new());
    lines.follow(&Record::Isa(isa));
    each_instruction(bytes, |instruction| {
        lines.instruction(instruction, &mut text);
        text.push('\n');
    });
    text
}

#[test]
fn lines_of_instructions() {
    let expected = "\
1 0x0000000080001234 00000013 nop
    mode MODE_CHANGE 0x3 machine
2 0x8000000000001000 4501     li a0, 0
    comment \"hello\"
    process 4 5 6
    forced 0x8000000000001000
    target 0x8000000000002000
    state x5 0x0102030405060708
    state pc 0x0102030405060708
    source f31 0x0102030405060708
    destination satp 0x0102030405060708
    destination pmpaddr7 0x0102030405060708
    state csr_0x017 0x0102030405060708
    operand4 type5_3 0x0102030405060708
    destination v7 0x000000000000a601000000000000a600
    ready 9
    walk 0x0000004000001000 page 4096 first used by 7: 0x81000000 = 0x20400401, 0x81002008 = 0x200000cf
    read 8 at 0x0000004000001008 attributes 0xbeef = 0x1122334455667788
    write 16 at 0x0000004000001010 = 0x0000000000000001 0x0000000000000002
    access7 1 at 0x0000000000000008 =
    bus write 64 at 0x0000000012345678 by 3 DMA (PCIe by the text) index 2 attributes 0xcafef00d = 0x0000000000000099
    content without an access 0x0000000000000003
    fault LOAD_PAGE_FAULT 0x1000 0x13 0x4000001008
    event target 0xffffffff80000000
    interrupt INT_SUPERVISOR_TIMER 0x0
    event target 0xffffffff80000100
    microop 00a50533 add a0, a0, a0
3 0xffffffff80000100 00b50863 beq a0, a1, 0x80000110
    encoding 1 RV32
4 0xffffffff80000104 0000     .insn 0x0000
";
    assert_eq!(instruction_lines(&every_record(), 1), expected);
}

#[test]
fn lines_of_records() {
    let expected = "\
0 0x00000000 identifier \"STF\"
1 0x00000004 version 1.6
2 0x0000000d comment \"two\\nlines and \\xff\"
3 0x00000021 isa 1 RISC-V
4 0x00000024 inst_iem 2 RV64
5 0x00000027 trace_info 6 Spike 1.2.3 \"gen A\"
6 0x00000033 trace_info 99 4.5.6 \"\"
7 0x0000003a trace_info_feature 0x10000080120 RV64 PTE EVENT64 0x10000000000
8 0x00000043 process_id_ext 1 2 3
9 0x00000050 force_pc 0x0000000080001234
10 0x00000059 vlen_config 128
11 0x0000005e isa_extended \"rv64gcv\"
12 0x0000006a end_header
13 0x0000006b event mode MODE_CHANGE 0x3 machine
14 0x0000007d inst_opcode32 00000013
15 0x00000082 comment \"hello\"
16 0x0000008c process_id_ext 4 5 6
17 0x00000099 force_pc 0x8000000000001000
18 0x000000a2 inst_pc_target 0x8000000000002000
19 0x000000ab inst_reg state x5 0x0102030405060708
20 0x000000b7 inst_reg state pc 0x0102030405060708
21 0x000000c3 inst_reg source f31 0x0102030405060708
22 0x000000cf inst_reg destination satp 0x0102030405060708
23 0x000000db inst_reg destination pmpaddr7 0x0102030405060708
24 0x000000e7 inst_reg state csr_0x017 0x0102030405060708
25 0x000000f3 inst_reg operand4 type5_3 0x0102030405060708
26 0x000000ff inst_reg destination v7 0x000000000000a601000000000000a600
27 0x00000113 inst_ready_reg 9
28 0x00000116 page_table_walk 0x0000004000001000 page 4096 first used by 7: 0x81000000 = 0x20400401, 0x81002008 = 0x200000cf
29 0x0000014c inst_mem_access read 8 at 0x0000004000001008 attributes 0xbeef
30 0x0000015a inst_mem_content 0x1122334455667788
31 0x00000163 inst_mem_access write 16 at 0x0000004000001010
32 0x00000171 inst_mem_content 0x0000000000000001
33 0x0000017a inst_mem_content 0x0000000000000002
34 0x00000183 inst_mem_access access7 1 at 0x0000000000000008
35 0x00000191 bus_master_access write 64 at 0x0000000012345678 by 3 DMA (PCIe by the text) index 2 attributes 0xcafef00d
36 0x000001a3 bus_master_content 0x0000000000000099
37 0x000001ac inst_mem_content 0x0000000000000003
38 0x000001b5 event fault LOAD_PAGE_FAULT 0x1000 0x13 0x4000001008
39 0x000001d7 event_pc_target 0xffffffff80000000
40 0x000001e0 event interrupt INT_SUPERVISOR_TIMER 0x0
41 0x000001f2 event_pc_target 0xffffffff80000100
42 0x000001fb inst_microop 00a50533
43 0x00000201 inst_opcode16 4501
44 0x00000204 inst_iem 1 RV32
45 0x00000207 inst_opcode32 00b50863
46 0x0000020c inst_opcode16 0000
47 0x0000020f comment \"after\"
48 0x00000219 reserve_end
";
    assert_eq!(record_lines(&every_record()), expected);
}

#[test]
fn lines_of_transactions() {
    let tilelink = |channel: u8, rest: &[&[u8]]| [&[channel][..], &rest.concat()].concat();
    let [source, address] = [0x11_u64, 0x8000_1000].map(u64::to_le_bytes);
    // Ten bits of mask: 1000000001.
    let a = tilelink(1, &[&[4, 0, 3], &source, &[2, 0], &[0xab, 0xcd], &address, &[10, 0], &[0x01, 0x02]]);
    let c = tilelink(3, &[&[6, 1, 2], &source, &[0, 0], &address]);
    let e = tilelink(5, &[&address]);
    let metadata = [0, 0x12, 2, 4, 3, 2, 1];
    let transaction =
        |id, count, metadata, data| Record::Transaction(Transaction { id, cycles: 5, clock: 1, count, metadata, data });
    let bytes = encoded(&[
        Record::ProtocolId(1),
        Record::ClockId { id: 1, name: b"core" },
        Record::EndHeader,
        transaction(1, 2, &metadata, &a),
        Record::TransactionDependency { id: 1, cycles: 7, clock: 1 },
        transaction(2, 0, &[], &c),
        transaction(3, 0, &[], &e),
    ]);
    let expected = "\
0 0x00000000 protocol_id 1 TileLink
1 0x00000002 clock_id 1 \"core\"
2 0x0000000a end_header
3 0x0000000b transaction 1 after 5 cycles of clock 1 metadata 0x12, 0x1020304 channel A code 4 param 0 size 3 \
source 0x11 data abcd address 0x80001000 mask 1000000001
4 0x00000042 transaction_dependency 1 after 7 cycles of clock 1
5 0x00000054 transaction 2 after 5 cycles of clock 1 channel C code 6 param 1 size 2 source 0x11 data - address 0x80001000
6 0x0000007e transaction 3 after 5 cycles of clock 1 channel E sink 0x80001000
";
    assert_eq!(record_lines(&bytes), expected);
}

#[test]
fn lines_of_other_instruction_sets() {
    // cbz x0, 8; and a nop
    let body = encoded(&[Record::InstOpcode32(0xb400_0040), Record::InstOpcode32(0xd503_201f)]);
    let rows = [(2, "cbz x0, 0x8000123c", "nop"), (4, "-", "-")];
    for (isa, first, second) in rows {
        let bytes = [encoded(&header(isa, 0)), body.clone()].concat();
        let expected = format!("1 0x0000000080001234 b4000040 {first}\n2 0x0000000080001238 d503201f {second}\n");
        assert_eq!(instruction_lines(&bytes, isa), expected);
    }
}

#[test]
fn a_long_list_of_extensions_selects_the_disassembly() {
    let list = format!("rv32imac_{}zcmp", "zicsr2p0_".repeat(30));
    let records = [Record::Identifier(*b"STF"), Record::IsaExtended(list.as_bytes()), Record::EndHeader];
    let header = Header::read(&mut Reader::plain(&encoded(&records)[..])).unwrap();
    assert_eq!(header.isa_records(), [Record::Isa(1), Record::IsaExtended(list.as_bytes())]);
    assert_eq!(header.extensions.map(|text| text.len()), Some(202), "only its start is displayed");
}

#[test]
fn counts_and_mix() {
    let bytes = every_record();
    let mut stats = Stats::default();
    let mut reader = Reader::plain(&bytes[..]);
    instructions_of(&mut reader, &mut Follower::default(), |instruction| stats.push(instruction));
    let Stats { mut counts, mix } = stats;
    records_of(&mut reader, |_, record| counts.add_trailing(record));
    let expected = Counts {
        records: 36,
        opcodes: 4,
        instructions: 3,
        faults: 1,
        accesses: 3,
        reads: 1,
        writes: 1,
        memory_records: 7,
        registers: 8,
        microops: 1,
        comments: 2,
        events: 3,
        walks: 1,
        bus_accesses: 1,
        user: 0,
        non_user: 3,
        modes: [0, 0, 0, 3],
        targets: 1,
        forced: 1,
    };
    assert_eq!(counts, expected);
    let table = mix.finish();
    assert_eq!((table.total, table.unclassified), (3, 1));
    assert_eq!(table.by_mnemonic(), [("beq", 1), ("nop", 1), ("unknown", 1)]);
    let classes: Vec<(&str, u64)> = table.by_class().iter().map(|(class, count)| (class.name(), *count)).collect();
    assert_eq!(classes, [("arith", 1), ("branch", 1), ("cond", 1), ("int", 1)]);
}

#[test]
fn mix_of_more_opcodes_than_the_cache_holds() {
    // lui with every immediate, three times over, and a branch that comes again and again.
    let mut bytes = encoded(&header(1, 2));
    for turn in 0..300_000_u32 {
        Record::InstOpcode32((turn % 100_000) << 12 | 0x537).encode(&mut bytes);
        Record::InstOpcode32(0x00b5_0863).encode(&mut bytes);
    }
    let mut mix = Mix::new();
    each_instruction(&bytes, |instruction| mix.add(instruction));
    assert_eq!(mix.finish().by_mnemonic(), [("beq", 300_000), ("lui", 300_000)]);
}

#[test]
fn instructions_are_counted_by_mode() {
    let [user, supervisor] = [words(&[0]), words(&[1])];
    let nop = Record::InstOpcode32(0x13);
    let body = [nop, event(1 << 62, &user), nop, nop, nop, event(1 << 62, &supervisor), nop, nop];
    let bytes = [encoded(&header(1, 2)), encoded(&body)].concat();
    let mut counts = Counts::default();
    each_instruction(&bytes, |instruction| counts.push(instruction));
    assert_eq!((counts.user, counts.non_user, counts.modes), (3, 3, [3, 1, 0, 0]));
}

#[test]
fn names_of_events() {
    let wide = |raw| Event { raw, is_wide: true, data: &[] };
    let narrow = |raw| Event { raw, is_wide: false, data: &[] };
    let rows = [
        (wide(0), "fault INST_ADDR_MISALIGN"),
        (wide(8), "syscall USER_ECALL"),
        (wide(11), "syscall MACHINE_ECALL"),
        (wide(23), "fault GUEST_STORE_PAGE_FAULT"),
        (wide(24), "fault CUSTOM_FAULT_24"),
        (wide(32), "fault RESERVED_32"),
        (wide(63), "fault CUSTOM_FAULT_63"),
        (wide(64), "fault RESERVED_64"),
        (wide(1 << 62), "mode MODE_CHANGE"),
        (wide(1 << 62 | 5), "special SPECIAL_5"),
        (wide(1 << 63 | 13), "interrupt INT_COUNTER_OVERFLOW"),
        (wide(1 << 63 | 14), "interrupt INT_RESERVED_14"),
        (wide(1 << 63 | 17), "interrupt INT_PLATFORM_1"),
        (narrow(13), "fault LOAD_PAGE_FAULT"),
        (narrow(1 << 30), "mode MODE_CHANGE"),
        (narrow(1 << 31 | 5), "interrupt INT_SUPERVISOR_TIMER"),
    ];
    for (event, expected) in rows {
        assert_eq!(format!("{} {}", names::EventKind::of(&event).name(), names::event(&event)), expected);
    }
}

#[test]
fn names_of_registers() {
    let rows = [
        (1, 0, "x0"),
        (1, 32, "pc"),
        (2, 31, "f31"),
        (3, 7, "v7"),
        (4, 0, "ustatus"),
        (4, 0x19a, "senvcfg"),
        (4, 0x323, "mhpmevent3"),
        (4, 0x33f, "mhpmevent31"),
        (4, 0x3af, "pmpcfg15"),
        (4, 0x3ef, "pmpaddr63"),
        (4, 0x7a3, "tdata3"),
        (4, 0xb1f, "mhpmcounter31"),
        (4, 0xc03, "hpmcounter3"),
        (4, 0xf15, "mconfigptr"),
        (4, 0x7c0, "csr_0x7c0"),
        (9, 1, "type9_1"),
    ];
    for (kind, number, expected) in rows {
        assert_eq!(names::register_of(kind, number).to_string(), expected);
    }
    let known = (0..0x1000).filter(|number| !names::register_of(4, *number).to_string().starts_with("csr_")).count();
    assert_eq!(known, 287, "the number that the library knows");
}

#[test]
fn every_descriptor_that_can_be_read_has_a_name() {
    for descriptor in 0..=255 {
        let mut bytes = vec![descriptor];
        bytes.extend([0; 64]);
        let mut layout = Layout::default();
        layout.follow(&Record::ProtocolId(1));
        let is_known = !matches!(Record::parse(&bytes, &layout), Err(unspool_stf::Malformed::UnknownDescriptor(_)));
        assert_eq!(names::record(descriptor).is_some(), is_known, "{descriptor}");
    }
}
