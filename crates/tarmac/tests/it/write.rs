//! Written lines parse to the records that they were written from.

use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::record::*;
use unspool_tarmac::value::Value;
use unspool_tarmac::write::{NoSuchLine, Style};
use unspool_testing::Random;

fn write(style: Style, line: &Line<'_>) -> String {
    let mut out = Vec::new();
    style.write(line, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn at(value: u64, unit: Unit) -> Stamp {
    Stamp::At(Time { value, decimals: 0, unit })
}

/// Lines in the format of the writer: parsing and writing changes nothing.
const REV3: &[&str] = &[
    "Tarmac Text Rev 3t",
    "       9627 clk ES  (ab465108:e2800010) A hyp_ns:         ADD      r0,r0,#0x10",
    "        940 ns  ES  (0000025c:13a05b02) A svc:     CCFAIL MOVNE    r5,#0x800",
    "       5213 tic ES  (0000013a:c9f0)     T thrd_s:         LDMCS    r1!,{r4-r7}",
    "       5214 tic ES  (0000000000340b1c:--------) O el0t_ns:",
    "          1 tic ES  (EDITR:d5033fdf) O el1h_ns:        ISB",
    "123456789012 ps ES  (0000000000340b1c:d65f03c0) O el3h_s:         RET",
    "-----------     ES  (00008000:e1a00000) A svc:            NOP",
    "         17 ns  ES  EXC [0x00] Reset",
    "         17 ns  ES  EXC Reset",
    "         17 ns  ES  EXC [1] Reset",
    "         17 ns  ES  Virtual System Error (Virtual Abort)",
    "                    EXC [0x080] IRQ/vIRQ Current EL with SP_EL0",
    "                    EXC [-8] Array Bound Check",
    "                    EXC [17] External Interrupt",
    "                    R R12 (FIQ) 0000e598",
    "                    R Q0 (AARCH32) -------- -------- -------- 00000000",
    "                    R V6<127:64> 1020304050607080",
    "                    R V9 (AARCH64)<63:0> 1020304050607081",
    "                    R DC CISW 00000000:00000240",
    "                    ST 0000cff0 00001ce8 ........ ........ ........    S:000000cff0/0    SO",
    "                    LD 000000000007fb80 ........ ......## ........ 3535..17    NS:000007fb80    NM ISH IWBRWA",
    "                    SX 00000040 ........ ........ 00000001 ........    0000000040",
    "                    BR (00001c98) A",
    "                    BR (0000000000001c98) O",
    "         12 tic cpu1 ES  (00008000:e1a00000) A svc:            NOP",
    "         12 tic cpu1 R R0 00000000",
    "# a comment",
    "12 clk SIGNAL: SIGNAL=poreset STATE=N",
];

const FAST_MODELS: &[&str] = &[
    "6 clk IT (6) 0000a0f4 fa000001 A svc_s : BLX      {pc}+0xc ; 0xa100",
    "7 clk IT (7) 0000a100 a106 T svc_s : ADR      r1,{pc}+0x1c ; 0xa11c",
    "15 clk IS (15) 0000a116 1b2a T svc_s : SUBEQ    r2,r5,r4",
    "15 clk IT (15) 0000a116 1b2a X svc_s : SUBEQ    r2,r5,r4",
    "31 clk IT (31) 0000a204:00000000a204_NS,00000000a206_NS f000e820 T hyp_n : BLX      {pc}+0x44",
    "3 clk cpu0 IT (3) ffff000000080000 d65f03c0 O EL1h_n : RET",
    "3 clk MR4 00009150 0000c3d2",
    "805 clk MW1 0ffffe74 5a",
    "8 clk MR8 0000b350:00000000b350 00000000_0000b4f0",
    "1 clk MW16 0007fb60:00000007fb60_NS 00000000_00000000_00000000_00340c2c",
    "30817 clk MR4X efefef5c (ABORTED)",
    "41000000 ps E 0000a20c 00000084 CoreEvent_CURRENT_SPx_SYNC",
    "270412 clk E 0000041c handler 00000019 CoreEvent_ModeChange",
    "6 clk R r14_svc 0000a0f8",
    "615 ns E INT_TAKEN 0d",
    "52 clk R TLBI ALLE1 00000000:00000000",
    "12.480000 us R r0 00000001",
];

#[test]
fn lines_round_trip() {
    for (style, lines) in [(Style::Rev3, REV3), (Style::FastModels, FAST_MODELS)] {
        let mut parser = Parser::new(ParseOptions::default());
        for text in lines {
            let line = parser.parse(text.as_bytes());
            assert!(!matches!(line.record, Record::Unknown(_)), "{text}: {:?}", line.record);
            assert_eq!(write(style, &line), format!("{text}\n"));
        }
    }
}

#[test]
fn context_and_bits_come_in_any_order() {
    let [one, other] = ["R V9<63:0> (AARCH64) 1020304050607081", "R V9 (AARCH64)<63:0> 1020304050607081"]
        .map(|text| Parser::new(ParseOptions::default()).parse(text.as_bytes()).record);
    assert!(matches!(one, Record::Register(Register { context: b"AARCH64", bits: Some((63, 0)), .. })), "{one:?}");
    assert_eq!(one, other);
}

#[test]
fn continued_pictures_round_trip() {
    let text = "                    ST 00006150 ........ 6c6c6568 20747365 3635203e\n                       \
                00006140 21000d74 ........ ........ ........\n";
    let mut parser = Parser::new(ParseOptions::default());
    let mut written = String::new();
    for line in text.lines() {
        written += &write(Style::Rev3, &parser.parse(line.as_bytes()));
    }
    assert_eq!(written, text);
}

#[test]
fn unsupported_records_are_refused() {
    let rows = [
        (Style::Rev3, "3 clk MR4 00009150 0000c3d2"),
        (Style::Rev3, "0 clk E LOCKUP"),
        (Style::FastModels, "Tarmac Text Rev 3t"),
        (Style::FastModels, "          1 tic ES  (EDITR:d5033fdf) O el1h_ns:        ISB"),
        (Style::FastModels, "         17 ns  ES  IRQ"),
        (Style::FastModels, "                    EXC [0x04] Undefined Instruction"),
        (Style::FastModels, "                    BR (00001c98) A"),
        (Style::FastModels, "  LD 00000040 ........ ........ 00001798 ........"),
        (Style::FastModels, "4175 cyc MNW4___D 20031c40 0df0adba"),
    ];
    for (style, text) in rows {
        let line = Parser::new(ParseOptions::default()).parse(text.as_bytes());
        let mut out = b"before".to_vec();
        assert_eq!(style.write(&line, &mut out), Err(NoSuchLine(style)), "{text}");
        assert_eq!(out, b"before");
    }
}

/// A number of any length.
fn number(random: &mut Random) -> u64 {
    random.bits() >> random.below(56)
}

fn physical(random: &mut Random) -> Option<Physical<'static>> {
    let (address, space) = (number(random) & 0xff_ffff_ffff, random.pick(&[&b""[..], b"S", b"NS"]));
    random.maybe(Physical { address, space, page: None })
}

fn instruction(random: &mut Random, style: Style, set: InstructionSet, address: u64) -> Instruction<'static> {
    let texts = ["", "NOP", "LDR      r3,{pc}+0x9c ; 0x2a4", "PUSH {r3,lr}        <_start>", "MOV x0,#1 \u{e9}"];
    let modes = ["svc", "svc_s", "usr_ns", "el3h_s", "EL1h_n", "thread", "el3t_rt"];
    let is_short = random.flip() && matches!(set, InstructionSet::T | InstructionSet::E);
    let (opcode, is_executed) = (random.word() & if is_short { 0xffff } else { u32::MAX }, random.flip());
    let opcode = random.maybe(opcode);
    Instruction {
        tag: match (style, is_executed) {
            (Style::Rev3, _) => Tag::Es,
            (Style::FastModels, true) => Tag::It,
            (Style::FastModels, false) => Tag::Is,
        },
        address: Some(address),
        physical: physical(random).filter(|_| style == Style::FastModels),
        opcode,
        length: if is_short && opcode.is_some() { 2 } else { 4 },
        set: Some(set),
        mode: random.pick(&modes).as_bytes(),
        is_executed,
        number: Some(number(random)).filter(|_| style == Style::FastModels),
        text: random.pick(&texts).as_bytes(),
        ..Instruction::default()
    }
}

fn picture(random: &mut Random, address: u64) -> Picture<'static> {
    use PictureKind::{AbortedLoad, AbortedStore, FailedStore, Load, Store};
    let byte = |random: &mut Random| match random.below(7) {
        0..3 => Byte::Untouched,
        3 => Byte::Unknown,
        _ => Byte::Known(random.word() as u8),
    };
    Picture {
        kind: random.pick(&[Load, AbortedLoad, Store, AbortedStore, FailedStore]),
        is_continuation: false,
        address,
        digits: 0,
        bytes: [(); 16].map(|()| byte(random)),
        physical: physical(random).map(|physical| Physical { page: random.maybe(12), ..physical }),
        attributes: random.pick(&[&b"NM ISH IWBRWA OWBRWA"[..], b""]),
    }
}

/// A line of a style; `value` is eight digits.
fn line<'v>(random: &mut Random, style: Style, value: &'v [u8]) -> Line<'v> {
    use InstructionSet::{A, E, O, T};
    let units = [Unit::S, Unit::Ms, Unit::Us, Unit::Ns, Unit::Ps, Unit::Fs, Unit::Clk, Unit::Tic, Unit::Cs, Unit::Cyc];
    let names = ["R0", "X30", "SP_EL3", "cpsr", "Q0", "r14_svc", "V3", "TTBR0_EL1"];
    let (set, stamp) = (random.pick(&[A, T, E, O]), at(random.bits() >> random.below(64), random.pick(&units)));
    let address = number(random) & if set == O { u64::MAX } else { 0xffff_ffff };
    let (is_aborted, value) = (random.flip(), Value(value));
    let record = match (random.below(6), style) {
        (0..2, _) => Record::Instruction(instruction(random, style, set, address)),
        (2, _) => {
            let (name, bits) = (random.pick(&names).as_bytes(), random.maybe((31, 0)));
            Record::Register(Register { name, bits, value, ..Register::default() })
        }
        (3, Style::Rev3) => Record::Picture(picture(random, address)),
        (3, Style::FastModels) => Record::Access(Access {
            direction: random.pick(&[Direction::Read, Direction::Write]),
            size: 4,
            address: Some(address),
            physical: physical(random),
            data: (!is_aborted).then_some(value),
            is_aborted,
            is_exclusive: random.flip(),
            notes: if is_aborted { b"(ABORTED)" } else { b"" },
            ..Access::default()
        }),
        (4, Style::Rev3) => Record::Branch(Branch { target: address, digits: 0, set: Some(set) }),
        (_, Style::Rev3) => {
            let (is_step, vector) = (random.flip(), random.below(0x8000) as i64);
            Record::Exception(Exception { is_step, vector: random.maybe(vector), name: b"System Call" })
        }
        (_, Style::FastModels) => {
            let (value, number, name) = (Some(number(random)), Some(random.word()), b"CoreEvent_SWI");
            Record::Event(Event { value, number, name, is_exception: true, ..Event::default() })
        }
    };
    let core = random.pick(&[None, None, Some(&b"cpu0"[..]), Some(b"cluster0.cpu1")]);
    Line { raw: b"", stamp, core, record }
}

/// A line without how it was printed.
fn plain(line: Line<'_>) -> Line<'_> {
    let record = match line.record {
        Record::Instruction(instruction) => Record::Instruction(Instruction { digits: 0, ..instruction }),
        Record::Picture(picture) => Record::Picture(Picture { digits: 0, ..picture }),
        Record::Access(access) => Record::Access(Access { digits: 0, tag: b"", ..access }),
        Record::Branch(branch) => Record::Branch(Branch { digits: 0, ..branch }),
        other => other,
    };
    Line { raw: b"", record, ..line }
}

#[test]
fn written_lines_parse_to_the_record() {
    for seed in 0..20_000 {
        let random = &mut Random::new(seed);
        let (style, value) = (random.pick(&[Style::Rev3, Style::FastModels]), format!("{:08x}", random.word()));
        let line = line(random, style, value.as_bytes());
        let text = write(style, &line);
        let again = Parser::new(ParseOptions::default()).parse(text.trim_end_matches('\n').as_bytes());
        assert_eq!(plain(again), line, "seed {seed}: {text}");
    }
}
