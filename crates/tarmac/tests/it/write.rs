//! Written lines parse to the records that they were written from.

use proptest::prelude::*;
use proptest::sample::select;
use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::record::*;
use unspool_tarmac::value::Value;
use unspool_tarmac::write::{NoSuchLine, Style};

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

/// Fields of generated lines.
#[derive(Debug, Clone)]
struct Parts {
    which: u8,
    stamp: Stamp,
    core: Option<&'static str>,
    numbers: [u64; 3],
    set: InstructionSet,
    flags: [bool; 4],
    word: &'static str,
    mode: &'static str,
    text: &'static str,
    space: &'static str,
    value: String,
    bytes: [Byte; 16],
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    let units = [Unit::S, Unit::Ms, Unit::Us, Unit::Ns, Unit::Ps, Unit::Fs, Unit::Clk, Unit::Tic, Unit::Cs, Unit::Cyc];
    (any::<u64>(), 0_u32..64, select(units.to_vec())).prop_map(|(value, shift, unit)| at(value >> shift, unit))
}

fn any_byte() -> impl Strategy<Value = Byte> {
    prop_oneof![3 => Just(Byte::Untouched), 1 => Just(Byte::Unknown), 3 => any::<u8>().prop_map(Byte::Known)]
}

fn any_parts() -> impl Strategy<Value = Parts> {
    use InstructionSet::{A, E, O, T};
    let numbers = [any::<u64>(), any::<u64>(), any::<u64>()];
    let words = (
        select(vec!["R0", "X30", "SP_EL3", "cpsr", "Q0", "r14_svc", "V3", "TTBR0_EL1"]),
        select(vec!["svc", "svc_s", "usr_ns", "el3h_s", "EL1h_n", "thread", "el3t_rt"]),
        select(vec!["", "NOP", "LDR      r3,{pc}+0x9c ; 0x2a4", "PUSH {r3,lr}        <_start>", "MOV x0,#1 \u{e9}"]),
        select(vec!["", "S", "NS"]),
        select(vec![None, None, Some("cpu0"), Some("cluster0.cpu1")]),
    );
    let rest = (any::<[bool; 4]>(), "[0-9a-f]{8}", prop::array::uniform16(any_byte()), 0_u32..56);
    (any::<u8>(), any_stamp(), numbers, select(vec![A, T, E, O]), words, rest).prop_map(
        |(which, stamp, numbers, set, (word, mode, text, space, core), (flags, value, bytes, shift))| Parts {
            which,
            stamp,
            core,
            numbers: numbers.map(|number| number >> shift),
            set,
            flags,
            word,
            mode,
            text,
            space,
            value,
            bytes,
        },
    )
}

impl Parts {
    fn line(&self, style: Style) -> Line<'_> {
        let record = match (self.which % 5, style) {
            (0 | 1, _) => Record::Instruction(self.instruction(style)),
            (2, _) => Record::Register(self.register()),
            (3, Style::Rev3) => Record::Picture(self.picture()),
            (3, Style::FastModels) => Record::Access(self.access()),
            (_, Style::Rev3) if self.flags[0] => Record::Branch(self.branch()),
            (_, Style::Rev3) => Record::Exception(Exception {
                is_step: self.flags[1],
                vector: self.flags[2].then_some(self.numbers[0] as i64 & 0x7fff),
                name: b"System Call",
            }),
            (_, Style::FastModels) => Record::Event(Event {
                value: Some(self.numbers[0]),
                mode: b"",
                number: Some(self.numbers[1] as u32),
                name: b"CoreEvent_SWI",
                is_exception: true,
            }),
        };
        Line { raw: b"", stamp: self.stamp, core: self.core.map(str::as_bytes), record }
    }

    fn address(&self) -> u64 {
        if self.set == InstructionSet::O { self.numbers[0] } else { self.numbers[0] & 0xffff_ffff }
    }

    fn physical(&self) -> Option<Physical<'_>> {
        let space = self.space.as_bytes();
        self.flags[3].then_some(Physical { address: self.numbers[1] & 0xff_ffff_ffff, space, page: None })
    }

    fn instruction(&self, style: Style) -> Instruction<'_> {
        let is_short = self.flags[0] && matches!(self.set, InstructionSet::T | InstructionSet::E);
        let is_fast_models = style == Style::FastModels;
        let is_executed = self.flags[1];
        Instruction {
            tag: match (is_fast_models, is_executed) {
                (false, _) => Tag::Es,
                (true, true) => Tag::It,
                (true, false) => Tag::Is,
            },
            address: Some(self.address()),
            physical: self.physical().filter(|_| is_fast_models),
            opcode: self.flags[2].then_some(self.numbers[1] as u32 & if is_short { 0xffff } else { u32::MAX }),
            length: if is_short && self.flags[2] { 2 } else { 4 },
            set: Some(self.set),
            mode: self.mode.as_bytes(),
            is_executed,
            number: is_fast_models.then_some(self.numbers[2]),
            text: self.text.as_bytes(),
            ..Instruction::default()
        }
    }

    fn register(&self) -> Register<'_> {
        let bits = self.flags[0].then_some((31, 0));
        Register { name: self.word.as_bytes(), bits, value: Value(self.value.as_bytes()), ..Register::default() }
    }

    fn picture(&self) -> Picture<'_> {
        use PictureKind::{AbortedLoad, AbortedStore, FailedStore, Load, Store};
        Picture {
            kind: [Load, AbortedLoad, Store, AbortedStore, FailedStore][self.numbers[2] as usize % 5],
            is_continuation: false,
            address: self.address(),
            digits: 0,
            bytes: self.bytes,
            physical: self.physical().map(|physical| Physical { page: self.flags[0].then_some(12), ..physical }),
            attributes: if self.flags[1] { b"NM ISH IWBRWA OWBRWA" } else { b"" },
        }
    }

    fn access(&self) -> Access<'_> {
        Access {
            direction: if self.flags[0] { Direction::Read } else { Direction::Write },
            size: 4,
            address: Some(self.address()),
            physical: self.physical(),
            data: (!self.flags[1]).then_some(Value(self.value.as_bytes())),
            is_aborted: self.flags[1],
            is_exclusive: self.flags[2],
            notes: if self.flags[1] { b"(ABORTED)" } else { b"" },
            ..Access::default()
        }
    }

    fn branch(&self) -> Branch {
        Branch { target: self.address(), digits: 0, set: Some(self.set) }
    }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn written_lines_parse_to_the_record(parts in any_parts(), is_rev3: bool) {
        let style = if is_rev3 { Style::Rev3 } else { Style::FastModels };
        let line = parts.line(style);
        let text = write(style, &line);
        let text = text.trim_end_matches('\n');
        let again = Parser::new(ParseOptions::default()).parse(text.as_bytes());
        prop_assert_eq!(plain(again), line, "{}", text);
    }
}
