//! Files of every format as steps: what each tells, and what it cannot.

mod logs;

use std::fmt::Write as _;
use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_astf as astf;
use unspool_astf::example;
use unspool_model::{Direction, Event, Facet, Loss, Lost, Pull, Step, StepSource, TimeUnit};
use unspool_stf as stf;
use unspool_stf::builder::{Access, Builder, Cause, Event as StfEvent, Features, Header, Mode, Step as StfStep};
use unspool_stf::record::Register;
use unspool_tarmac as tarmac;

/// A step as a line.
fn text(step: &Step) -> String {
    let mut text = format!("@{}", step.position);
    if step.core > 0 {
        let _ = write!(text, " core {}", step.core);
    }
    if let Some(time) = step.time {
        let _ = write!(text, " t{time}");
    }
    let or_none = |value: Option<u64>| value.map_or("?".to_string(), |value| format!("{value:x}"));
    let _ = match step.event {
        Event::State => write!(text, " state"),
        Event::Instruction(instruction) => {
            let opcode = instruction.opcode.map_or("?".to_string(), |opcode| format!("{opcode:x}"));
            let _ = write!(text, " {} {:x} {opcode}", instruction.isa.name(), instruction.address);
            text.push_str(match instruction.is_executed {
                Some(true) => " executed",
                Some(false) => " skipped",
                None => "",
            });
            match instruction.branch {
                None => Ok(()),
                Some(branch) if branch.taken => write!(text, " -> {}", or_none(branch.target)),
                Some(_) => write!(text, " not taken"),
            }
        }
        Event::Exception(exception) => write!(text, " {:?} to {}", exception.kind, or_none(exception.target)),
        Event::ExceptionReturn { target } => write!(text, " return to {}", or_none(target)),
        Event::Context(context) => {
            let level = context.level.map_or("?".to_string(), |level| level.to_string());
            let security = context.security.map_or(String::new(), |security| format!(" {security:?}"));
            let process = context.process.map_or(String::new(), |process| format!(" process {process}"));
            write!(text, " level {level}{security}{process}")
        }
        Event::Gap(gap) => write!(text, " gap {gap:?}"),
        Event::Note => write!(text, " note {}", step.note()),
    };
    let byte = |(value, known): &(u8, u8)| match known {
        0xff => format!("{value:02x}"),
        0 => "..".to_string(),
        known => format!("{value:x}/{known:x}"),
    };
    for write in step.registers() {
        let bytes: String = write.bytes.iter().map(byte).collect();
        let _ = write!(text, ", {}", write.name);
        if write.low > 0 {
            let _ = write!(text, "+{}", write.low);
        }
        let _ = write!(text, "={bytes}");
    }
    for access in step.accesses() {
        let direction = match access.direction {
            Direction::Read => "reads",
            Direction::Write => "writes",
            Direction::Both => "both",
            Direction::Neither => "tries",
        };
        let bytes: String = access.bytes.iter().map(byte).collect();
        let _ = write!(text, ", {direction} {} at {:x}", access.size, access.address);
        if !bytes.is_empty() {
            let _ = write!(text, ": {bytes}");
        }
    }
    text
}

/// All steps, and how they ended.
fn all(mut source: impl StepSource) -> (Vec<String>, Option<String>) {
    let mut lines = Vec::new();
    let coverage = source.coverage();
    let ended = source.each(&mut |step| {
        assert!(coverage.has(Facet::Times) || step.time.is_none());
        assert!(coverage.has(Facet::Data) || step.accesses().all(|access| access.bytes.is_empty()));
        assert!(coverage.has(Facet::Accesses) || step.accesses().len() == 0);
        assert!(coverage.has(Facet::Registers) || step.registers().len() == 0);
        lines.push(text(step));
        ControlFlow::Continue(())
    });
    (lines, ended.err().map(|error| error.text))
}

fn lines(source: impl StepSource) -> Vec<String> {
    let (lines, ended) = all(source);
    assert_eq!(ended, None);
    lines
}

/// A source stops where it is told to, and gives the same when it is asked.
fn stops_and_pulls<S: StepSource + Send + 'static>(open: impl Fn() -> S) {
    let expected = lines(open());
    for stop in 1..=expected.len() {
        let mut found = 0;
        let ended = open().each(&mut |_| {
            found += 1;
            if found < stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(ended.is_ok());
        assert_eq!(found, stop);
    }
    let mut pull = Pull::new(open()).unwrap();
    let mut pulled = Vec::new();
    while let Some(step) = pull.next_step().unwrap() {
        pulled.push(text(step));
    }
    assert_eq!(pulled, expected);
}

fn astf_of(bytes: Vec<u8>) -> astf::steps::Steps<Cursor<Vec<u8>>> {
    astf::steps::Steps::new(astf::read::Reader::in_place(Cursor::new(bytes)).unwrap())
}

fn astf_example() -> Vec<u8> {
    let mut records = example::records();
    let header = astf::record::Header::new(astf::record::Level::BasicPlus, true, astf::record::Storage::Raw);
    records[0] = header.to_bytes();
    records.concat()
}

#[test]
fn astf_tells_accesses_without_data() {
    let source = astf_of(astf_example());
    let told = "instructions, opcodes, branches, accesses, exceptions, levels, security, processes, times";
    assert_eq!(source.coverage().to_string(), told);
    let expected = [
        "@2 note An example that has records of several kinds",
        "@5 t100 level 0 NonSecure process 29192",
        "@6 t100 a64 836e128 6b00007f",
        "@7 t100 a64 836e12c 54fffde1 not taken",
        "@8 t100 a64 836e130 a94153f3, reads 16 at ffffe7624250",
        "@9 t100 a64 836e134 1dc00693, writes 16 at a4330b765010",
        "@10 t100 a64 836e138 1dc04693, writes 96 at a4330b765020",
        "@11 t100 a64 836e13c 1dc08693, writes 0 at a4330b765080",
        "@12 t100 a64 836e140 d63f0040 -> ffff83ffb2f0",
        "@13 t100 a64 ffff83ffb2f0 2949b0cb, reads 4 at a4330b765ffc, reads 4 at a4330b766000",
        "@15 t100 a64 ffff83ffb2f4 a88130eb, tries 16 at ffff95ceb000",
        "@15 t100 Synchronous to ffff7dfffe7fc400",
        "@18 t102 level 1 NonSecure",
        "@19 t102 a64 ffff7dfffe7fc400 d503437f",
        "@20 t102 level 1 NonSecure",
        "@21 t102 a64 ffff7dfffe7fc404 e1000004, reads 64 at ffff8000053bd500",
    ];
    assert_eq!(lines(source), expected);
    stops_and_pulls(|| astf_of(astf_example()));
}

/// The steps of an ASTF file whole, not as lines.
fn astf_steps(bytes: Vec<u8>) -> Vec<Step> {
    let mut steps = Vec::new();
    let ended = astf_of(bytes).each(&mut |step| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    });
    assert!(ended.is_ok());
    steps
}

#[test]
fn astf_tells_modes_tags_indices_and_classes() {
    use unspool_model::{Modes, TimeUnit};
    assert_eq!(astf_of(astf_example()).time_unit(), TimeUnit::MICROSECONDS);
    let steps = astf_steps(astf_example());
    let modes: Vec<Modes> = steps
        .iter()
        .filter_map(|step| match step.event {
            Event::Context(context) => context.modes,
            _ => None,
        })
        .collect();
    let kernel = Modes { vector_length: 1, tag_check_fault: 3, ..Modes::default() };
    let expected = [
        Modes { ssbs: true, tag_check_fault: 1, ..Modes::default() },
        kernel,
        Modes { streaming: true, vector_length: 3, ..kernel },
    ];
    assert_eq!(modes, expected);
    let tags: Vec<bool> = steps.iter().flat_map(|step| step.accesses().map(|access| access.is_tagged)).collect();
    assert_eq!(tags, [false, true, true, false, true, true, true, false]);
    let indices: Vec<u8> = steps.iter().filter_map(|step| step.event.instruction()?.za_index).collect();
    assert_eq!(indices, [5]);
    let classes: Vec<Option<u8>> = steps
        .iter()
        .filter_map(|step| match step.event {
            Event::Exception(exception) => Some(exception.class),
            _ => None,
        })
        .collect();
    assert_eq!(classes, [Some(0x24)]);
}

#[test]
fn astf_tells_calls_times_and_modes_that_it_cannot_have() {
    use unspool_astf::record::{Context, Instruction, Record, Timestamp, Trap};
    use unspool_model::Exception;
    let header = astf::record::Header::new(astf::record::Level::BasicPlus, true, astf::record::Storage::Raw);
    let time = |value| Record::Timestamp(Timestamp { unit: 1, value, ..Timestamp::default() });
    let context = |unsupported| Record::Context(Context { el: 1, unsupported, ..Context::default() });
    let call = Trap { syscall_type: 1, syscall_index: 7, ec: 0x15, target_pc: 0x400, ..Trap::default() };
    let svc = Instruction { pc: 0x1000, iword: 0xd400_0001, trap: true, ..Instruction::default() };
    let records = [
        time(5),
        context(false),
        Record::Instruction(svc),
        Record::Trap(call),
        context(true),
        time(6),
        time(7),
        Record::Trap(Trap { trap_type: 2, is_virtual: true, target_pc: 0x480, ..Trap::default() }),
        context(false),
        time(9),
    ];
    let bytes: Vec<u8> = header.to_bytes().into_iter().chain(records.iter().flat_map(Record::to_bytes)).collect();
    let expected = [
        "@3 t5 level 1 NonSecure",
        "@4 t5 a64 1000 d4000001",
        "@4 t5 Synchronous to 400",
        "@6 t5 level 1 NonSecure",
        "@6 t5 gap Start",
        "@7 t6 state",
        "@9 t7 Irq to 480",
        "@10 t7 level 1 NonSecure",
        "@11 t9 state",
    ];
    assert_eq!(lines(astf_of(bytes.clone())), expected);
    let exceptions: Vec<Exception> = astf_steps(bytes)
        .iter()
        .filter_map(|step| match step.event {
            Event::Exception(exception) => Some(exception),
            _ => None,
        })
        .collect();
    assert_eq!((exceptions[0].class, exceptions[0].call, exceptions[0].is_virtual), (Some(0x15), Some(7), None));
    assert_eq!((exceptions[1].class, exceptions[1].call, exceptions[1].is_virtual), (None, None, Some(true)));
}

#[test]
fn an_exception_return_of_astf_is_a_branch() {
    use unspool_astf::record::{Instruction, Record, Trap};
    let header = astf::record::Header::new(astf::record::Level::BasicPlus, false, astf::record::Storage::Raw);
    let eret = Instruction { pc: 0x1000, iword: 0xd69f_03e0, ..Instruction::default() };
    let traps = [(4, 0x8000), (2, 0x9000), (5, 0)]
        .map(|(trap_type, target_pc)| Record::Trap(Trap { trap_type, target_pc, ..Trap::default() }));
    let mut records = vec![header.to_bytes(), Record::Instruction(eret).to_bytes()];
    records.extend(traps.iter().map(Record::to_bytes));
    let source = astf_of(records.concat());
    assert!(!source.coverage().has(Facet::Times));
    let expected = ["@2 a64 1000 d69f03e0 -> 8000", "@2 return to 8000", "@4 Irq to 9000", "@5 Reset to 0"];
    assert_eq!(lines(source), expected);
}

#[test]
fn what_is_before_damage_is_told() {
    let mut bytes = astf_example();
    bytes.truncate(7 * 32 + 5);
    let (lines, ended) = all(astf_of(bytes));
    assert_eq!(lines.len(), 4);
    assert!(ended.unwrap().contains("cut short"));
}

fn stf_of(bytes: &[u8]) -> impl StepSource + Send + 'static {
    let reader = stf::read::Reader::new(Cursor::new(bytes.to_vec()), stf::read::ReadOptions { threads: 1 }).unwrap();
    stf::steps::Steps::new(reader)
}

fn stf_trace() -> Vec<u8> {
    let features = Features(Features::OPERAND_VALUE.0 | Features::REG_STATE.0 | Features::EVENT.0);
    let header = Header { features, accesses: true, mode: Some(Mode::User), ..Header::new(0x1000) };
    let mut trace = Builder::new(Vec::new(), &header).unwrap();
    let value = 0x1234_u64.to_le_bytes();
    let of = |number, meta| Register { number, meta, value: &value };
    let state = [of(2, 0x11)];
    trace.instruction(&StfStep { registers: &state, ..StfStep::plain(0x1000, 0x13) }).unwrap();
    // lw x15, 0(x14): reads x14, writes x15.
    let registers = [of(14, 0x21), of(15, 0x31)];
    let contents = [0xaabb_ccdd];
    let access = Access { address: 0x2000, bytes: 4, is_write: false, attributes: 0, contents: &contents };
    let load = StfStep { registers: &registers, accesses: &[access], ..StfStep::plain(0x1004, 0x0007_2783) };
    trace.instruction(&load).unwrap();
    // beq x0, x0, 8: not taken, and taken
    trace.instruction(&StfStep::plain(0x1008, 0x463)).unwrap();
    trace.instruction(&StfStep { target: Some(0x1014), ..StfStep::plain(0x100c, 0x463) }).unwrap();
    // ecall
    let data = [0x1014];
    let events = [
        StfEvent { cause: Cause::Fault(8), data: &data, target: Some(0x8000) },
        StfEvent { cause: Cause::Mode(Mode::Machine), data: &[], target: None },
    ];
    trace.instruction(&StfStep { events: &events, ..StfStep::plain(0x1014, 0x73) }).unwrap();
    // mret
    let events = [StfEvent { cause: Cause::Mode(Mode::User), data: &[], target: None }];
    let back = StfStep { target: Some(0x1018), events: &events, ..StfStep::plain(0x8000, 0x3020_0073) };
    trace.instruction(&back).unwrap();
    trace.instruction(&StfStep::plain(0x1018, 0x1)).unwrap();
    trace.finish().sink
}

#[test]
fn stf_tells_data_and_registers() {
    let trace = stf_trace();
    let source = stf_of(&trace);
    let told = "instructions, opcodes, branches, accesses, data, registers, exceptions, levels";
    assert_eq!(source.coverage().to_string(), told);
    let found = lines(source);
    let without_place: Vec<&str> = found.iter().filter_map(|line| line.split_once(' ')).map(|line| line.1).collect();
    let expected = [
        "state, x2=3412000000000000",
        "rv64 1000 13",
        // A change of the mode counts behind its instruction, and so does that at the start.
        "level 0",
        "rv64 1004 72783, x15=3412000000000000, reads 4 at 2000: ddccbbaa",
        "rv64 1008 463 not taken",
        "rv64 100c 463 -> 1014",
        "rv64 1014 73",
        "Synchronous to 8000",
        "level 3",
        "rv64 8000 30200073 -> 1018",
        "return to 1018",
        "level 0",
        "rv64 1018 1",
    ];
    assert_eq!(without_place, expected);
    stops_and_pulls(|| stf_of(&trace));
}

/// A file of RISC-V that somebody else wrote, with these records behind its header.
fn riscv_of(comment: &[u8], body: &[stf::Record<'_>]) -> Vec<u8> {
    use stf::Record::{Comment, EndHeader, ForcePc, Identifier, InstIem, Isa, TraceInfo, TraceInfoFeature, Version};
    let info = stf::record::TraceInfo { generator: 12, version: [1, 2, 3], comment: b"other" };
    let header = [
        Identifier(*b"STF"),
        Version { major: 1, minor: 5 },
        Comment(comment),
        Isa(1),
        InstIem(2),
        TraceInfo(info),
        TraceInfoFeature(0x8_0000),
        ForcePc(0x1000),
        EndHeader,
    ];
    let mut bytes = Vec::new();
    header.iter().chain(body).for_each(|record| record.encode(&mut bytes));
    bytes
}

/// There are producers that count bits, but bytes of atomic instructions: each opcode tells for itself.
#[test]
fn sizes_of_stf_are_those_of_their_opcodes() {
    let sizes = |accesses: &[(u32, u16)]| {
        let mut body = Vec::new();
        for (opcode, size) in accesses {
            let access = stf::record::MemAccess { address: 0x2000, size: *size, attributes: 0, kind: 1 };
            body.push(stf::Record::InstMemAccess(access));
            body.push(stf::Record::InstMemContent(5));
            body.push(stf::Record::InstOpcode32(*opcode));
        }
        let mut sizes = Vec::new();
        let told = stf_of(&riscv_of(b"", &body)).each(&mut |step| {
            sizes.extend(step.accesses().map(|access| access.size));
            ControlFlow::Continue(())
        });
        told.unwrap();
        sizes
    };
    // lb, lw, ld, amoadd.w, vle8.v
    let [lb, lw, ld, amo, vector] = [0x0007_0783, 0x0007_2783, 0x0007_3783, 0x00f7_27af, 0x0207_0007];
    assert_eq!(sizes(&[(lw, 4), (amo, 4), (lb, 1), (ld, 8), (vector, 16)]), [4, 4, 1, 8, 16]);
    assert_eq!(sizes(&[(lw, 32), (amo, 4), (lb, 8), (ld, 64), (vector, 64), (lw, 4)]), [4, 4, 1, 8, 8, 4]);
    assert_eq!(sizes(&[(amo, 4), (lb, 8)]), [4, 1]);
}

/// What is no text is shown as well as can be, and counted.
#[test]
fn bytes_that_are_no_text_are_counted() {
    let notes = |source: &mut dyn StepSource| {
        let mut notes = Vec::new();
        let told = source.each(&mut |step| {
            notes.extend((step.event == Event::Note).then(|| step.note().to_string()));
            ControlFlow::Continue(())
        });
        told.unwrap();
        (notes, source.losses())
    };
    let mut example = astf_example();
    let at = example.windows(7).position(|word| word == b"example").unwrap();
    assert!(notes(&mut astf_of(example.clone())).1.is_empty());
    example[at + 6] = 0xe9;
    let (texts, losses) = notes(&mut astf_of(example));
    assert!(texts[0].starts_with("An exampl\u{fffd} that"), "{texts:?}");
    assert_eq!(losses.of(Loss::Notes), Lost { count: 1, first: (at / 32) as u64 + 1 });

    let body = [stf::Record::Comment(b"th\xe9"), stf::Record::InstOpcode32(0x13)];
    let (texts, losses) = notes(&mut stf_of(&riscv_of(b"caf\xe9", &body)));
    assert_eq!(texts, ["caf\u{fffd}", "th\u{fffd}"]);
    assert_eq!(losses.of(Loss::Notes).count, 2);
}

fn log(text: &str) -> impl StepSource + Send + 'static {
    let input = Cursor::new(text.as_bytes().to_vec());
    let reader = tarmac::read::Reader::new(input, tarmac::read::ReadOptions::default()).unwrap();
    tarmac::steps::Steps::new(reader, false)
}

const FAST_MODELS: &str = "\
1 clk R X0 0000000000000001
1 clk E 00000000:000000000000 00000001 CoreEvent_Reset
2 clk IT (2) 00001000 d2a00200 O EL3h_s : MOV x0,#0x100000
2 clk R X0 0000000000100000
3 clk IS (3) 00001004 b4000060 O EL3h_s : CBZ x0,{pc}+0xc
4 clk IT (4) 00001008 b5000040 O EL3h_s : CBNZ x0,{pc}+8
5 clk IT (5) 00001010 f9400001 O EL3h_s : LDR x1,[x0]
5 clk MR8 00100000 00000000_0000aabb
5 clk R w1 0000aabb
6 clk IT (6) 00001014 d63f0040 O EL3h_s : BLR x2
7 clk IT (7) 00002000 d4000003 O EL3h_s : SMC #0
7 clk R cpsr 6xxx03cd
7 clk E 00002000:000000002000 EL3h 00000084 CoreEvent_CURRENT_SPx_SYNC
7 clk R ELR_EL3 00000000:00002004
8 clk IT (8) 00003200 d69f03e0 O EL3h_s : ERET
9 clk IT (9) 00002004 54000041 O EL1h_ns : B.NE {pc}+8
";

#[test]
fn tarmac_tells_everything_but_processes() {
    let source = log(FAST_MODELS);
    let told =
        "instructions, opcodes, conditions, branches, accesses, data, registers, exceptions, levels, security, times";
    assert_eq!(source.coverage().to_string(), told);
    let expected = [
        "@1 t1 state, x0=0100000000000000",
        // Nobody says where the vector is.
        "@2 t1 Reset to ?",
        "@3 t2 level 3 Secure",
        "@3 t2 a64 1000 d2a00200 executed, x0=0000100000000000",
        "@5 t3 a64 1004 b4000060 skipped not taken",
        "@6 t4 a64 1008 b5000040 executed -> 1010",
        "@7 t5 a64 1010 f9400001 executed, x1=bbaa0000, reads 8 at 100000: bbaa000000000000",
        "@10 t6 a64 1014 d63f0040 executed -> 2000",
        "@11 t7 a64 2000 d4000003 executed, cpsr=cd030/f..60/f0",
        "@13 t7 Synchronous to 3200, elr_el3=0420000000000000",
        "@15 t8 a64 3200 d69f03e0 executed -> 2004",
        "@15 t8 return to 2004",
        "@16 t9 level 1 NonSecure",
        // Nobody knows what became of the last one.
        "@16 t9 a64 2004 54000041",
    ];
    let found = lines(log(FAST_MODELS));
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        // Which bits are known has a row of its own below.
        let cut = expected.find(", cpsr").unwrap_or(expected.len());
        assert_eq!(found.get(..cut), Some(&expected[..cut]));
        assert!(cut < expected.len() || found == expected, "{found}");
    }
    stops_and_pulls(|| log(FAST_MODELS));
}

#[test]
fn bits_that_are_known() {
    let rows = [
        ("cpsr 600003cd", "cpsr=cd030060"),
        ("cpsr 6xx003cd", "cpsr=cd030/f60/f0"),
        ("w1 00000012", "x1=12000000"),
        ("q1 00000000000000000000000000000012", "v1=12000000000000000000000000000000"),
        ("SP_EL1 0000000000000010", "sp_el1=1000000000000000"),
        ("SCTLR_EL1 00000012", "sctlr_el1=12000000"),
    ];
    for (line, expected) in rows {
        let text = format!("1 clk IT (1) 00001000 d503201f O EL1h_ns : NOP\n1 clk R {line}\n");
        let found = lines(log(&text)).pop().unwrap();
        let (_, effect) = found.split_once(", ").unwrap_or_else(|| panic!("{found}"));
        assert_eq!(effect, expected, "{line}");
    }
}

#[test]
fn rev3_says_where_branches_go() {
    let text = "\
Tarmac Text Rev 3t
          0 tic ES  EXC Reset
                    BR (0000000000001000) O
          0 tic ES  (0000000000001000:94000040) O el3h_s:         BL       {pc}+0x100
                    R X30 0000000000001004
                    BR (0000000000001100) O
          1 tic ES  (0000000000001100:b4000060) O el3h_s:         CBZ      x0,{pc}+0xc
          1 tic ES  (0000000000001104:a9be7bfd) O el3h_s:         STP      x29,x30,[sp,#-0x20]!
                    ST 00000000000ffd40 00000000 00001004 00000000 00000000    S:00000ffd40    nGnRnE OSH
                    R SP_EL3 00000000000ffd40
          2 tic ES  (0000000000001108:d65f03c0) O el3h_s:         RET
                    BR (0000000000001004) O
          3 tic ES  IRQ
                    EXC [0x280] IRQ/vIRQ Current EL with SP_ELx
                    BR (0000000000002280) O
          3 tic ES  (0000000000002280:d503201f) O el3h_s:         NOP
";
    let expected = [
        "@2 t0 Reset to 1000",
        "@4 t0 level 3 Secure",
        "@4 t0 a64 1000 94000040 executed -> 1100, x30=0410000000000000",
        "@7 t1 a64 1100 b4000060 skipped not taken",
        "@8 t1 a64 1104 a9be7bfd executed, sp_el3=40fd0f0000000000, writes 16 at ffd40: 00000000000000000410000000000000",
        "@11 t2 a64 1108 d65f03c0 executed -> 1004",
        "@13 t3 Irq to 2280",
        "@16 t3 a64 2280 d503201f executed",
    ];
    assert_eq!(lines(log(text)), expected);
    stops_and_pulls(move || log(text));
}

#[test]
fn cores_are_told_apart() {
    let text = "\
1 clk cpu0 IT (1) 00001000 d63f0040 O EL1h_ns : BLR x2
1 clk cpu1 IT (1) 00001000 d63f0040 O EL1h_ns : BLR x2
2 clk cpu1 IT (2) 00003000 d503201f O EL1h_ns : NOP
2 clk cpu0 IT (2) 00002000 d503201f O EL1h_ns : NOP
";
    let expected = [
        "@1 t1 level 1 NonSecure",
        "@1 t1 a64 1000 d63f0040 executed -> 2000",
        "@4 t2 a64 2000 d503201f executed",
        "@2 core 1 t1 level 1 NonSecure",
        "@2 core 1 t1 a64 1000 d63f0040 executed -> 3000",
        "@3 core 1 t2 a64 3000 d503201f executed",
    ];
    let mut found = lines(log(text));
    found.sort_by_key(|line| line.contains("core 1"));
    assert_eq!(found, expected);
}

#[test]
fn modes_of_aarch32() {
    let text = "\
1 clk IT (1) 00001000 e1a00000 A svc_ns : NOP
2 clk IS (2) 00001004 1afffffb A svc_ns : BNE {pc}-0xc
3 clk IT (3) 00001008 e12fff1e A usr_ns : BX lr
4 clk IT (4) 00002000 4770 T usr_ns : BX lr
5 clk IT (5) 00003000 e1a00000 A mon_s : NOP
6 clk IT (6) 00003004 e1a00000 A svc_s : NOP
";
    let expected = [
        "@1 t1 level 1 NonSecure",
        "@1 t1 a32 1000 e1a00000 executed",
        "@2 t2 a32 1004 1afffffb skipped not taken",
        "@3 t3 level 0 NonSecure",
        "@3 t3 a32 1008 e12fff1e executed -> 2000",
        "@4 t4 t32 2000 4770 executed -> 3000",
        "@5 t5 level 3 Secure",
        "@5 t5 a32 3000 e1a00000 executed",
        "@6 t6 level ? Secure",
        "@6 t6 a32 3004 e1a00000 executed",
    ];
    assert_eq!(lines(log(text)), expected);
}

#[test]
fn an_aborted_access_neither_reads_nor_writes() {
    let text = "1 clk IT (1) 00001000 f9400001 O EL1h_ns : LDR x1,[x0]\n1 clk MR8 00100000 <ABORTED>\n";
    let found = lines(log(text)).pop().unwrap();
    assert!(found.ends_with("executed, tries 8 at 100000") || !found.contains("reads"), "{found}");
}

#[test]
fn times_of_tarmac_have_a_unit() {
    let rows = [
        ("7 clk IT", TimeUnit::Cycles),
        ("7 ns IT", TimeUnit::Seconds(-9)),
        ("10.356000us IT", TimeUnit::Seconds(-12)),
        ("7 cyc IT", TimeUnit::Cycles),
        ("7 tic IT", TimeUnit::Unknown),
        ("7 IT", TimeUnit::Unknown),
        ("IT", TimeUnit::Unknown),
    ];
    for (start, unit) in rows {
        let source = log(&format!("# a log\n{start} (1) 00001000 d503201f O EL1h_ns : NOP\n"));
        assert_eq!(source.time_unit(), unit, "{start}");
    }
}

#[test]
fn lines_that_tell_no_step_are_notes() {
    let text = "\
# made by hand

1 clk SIGNAL: SIGNAL=poreset STATE=N
1 clk IT (1) 00001000 d63f0040 O EL1h_ns : BLR x2
1 clk TTW DTLB LPAE 1:0 00010000 : BLOCK
1 clk R X30 0000000000001004
1 clk E DebugEvent_Something 00000000
1 clk R DC CISW 00000000:00000000
nobody knows what this is
2 clk IT (2) 00002000 d503201f O EL1h_ns : NOP
3 clk CADI E simulation_stopped
";
    let expected = [
        "@1 note # made by hand",
        "@3 t1 note SIGNAL: SIGNAL=poreset STATE=N",
        "@4 t1 level 1 NonSecure",
        // The branch waits for where it leads, and keeps its register.
        "@4 t1 a64 1000 d63f0040 executed -> 2000, x30=0410000000000000",
        "@5 t1 note TTW DTLB LPAE 1:0 00010000 : BLOCK",
        "@7 t1 note E DebugEvent_Something 00000000",
        "@8 t1 note R DC CISW 00000000:00000000",
        "@9 t1 note nobody knows what this is",
        "@10 t2 a64 2000 d503201f executed",
        "@11 t3 note CADI E simulation_stopped",
    ];
    assert_eq!(lines(log(text)), expected);
    stops_and_pulls(move || log(text));
    // As many as there may be.
    let many = "1 clk CADI E something\n".repeat(3000);
    let text = format!(
        "1 clk IT (1) 00001000 d63f0040 O EL1h_ns : BLR x2\n{many}2 clk IT (2) 00002000 d503201f O EL1h_ns : NOP\n"
    );
    let found = lines(log(&text));
    assert_eq!(found.iter().filter(|line| line.contains("note")).count(), 3000);
    let few = text.replacen(&"1 clk CADI E something\n".repeat(2960), "", 1);
    assert_eq!(lines(log(&few))[1], "@1 t1 a64 1000 d63f0040 executed -> 2000");
}

#[test]
fn exceptions_of_tarmac_have_classes_and_calls() {
    let rows = [
        ("d4000461 O EL0t_ns : SVC #0x23", "56000023", Some(0x15), Some(0x23)),
        ("d4000002 O EL1h_ns : HVC #0", "5a000000", Some(0x16), Some(0)),
        // A trapped SMC has another class.
        ("d4000003 O EL1h_ns : SMC #0", "00000000", Some(0), None),
        ("f9400001 O EL0t_ns : LDR x1,[x0]", "92000007", Some(0x24), None),
        ("d4000461 O EL0t_ns : SVC #0x23", "xxxxxxxx", None, Some(0x23)),
    ];
    for (instruction, syndrome, class, call) in rows {
        for is_before in [false, true] {
            let register = format!("1 clk R ESR_EL1 00000000{syndrome}\n");
            let event = "1 clk E 00001000 00000088 CoreEvent_LOWER_64_SYNC\n";
            let behind = if is_before { register + event } else { event.to_string() + &register };
            let text = format!("1 clk IT (1) 00001000 {instruction}\n{behind}");
            let mut found = Vec::new();
            let ended = log(&text).each(&mut |step| {
                if let Event::Exception(exception) = step.event {
                    found.push((exception.class, exception.call));
                }
                ControlFlow::Continue(())
            });
            assert!(ended.is_ok());
            assert_eq!(found, [(class, call)], "{text}");
        }
    }
}

#[test]
fn a_log_without_accesses_or_registers_does_not_claim_them() {
    let load = "1 clk IT (1) 00001000 f9400001 O EL1h_ns : LDR x1,[x0]\n";
    let add = "1 clk IT (1) 00001000 91000400 O EL1h_ns : ADD x0,x0,#1\n";
    let has = |text: &str, facet| log(text).coverage().has(facet);
    let rows = [
        ("many loads", load.repeat(40), false, true),
        ("some loads", load.repeat(10), true, true),
        ("loads with accesses", format!("{load}1 clk MR8 00001000 00000000_00000000\n").repeat(40), true, true),
        ("many sums", add.repeat(40), true, false),
        ("sums with registers", format!("{add}1 clk R X0 0000000000000000\n").repeat(40), true, true),
        ("many of both", (add.to_string() + load).repeat(40), false, false),
        ("its own word", format!("# unspool covers times=cycles instructions\n{}", load.repeat(10)), false, false),
    ];
    for (name, text, accesses, registers) in rows {
        assert_eq!(has(&text, Facet::Accesses), accesses, "{name}");
        assert_eq!(has(&text, Facet::Data), accesses, "{name}");
        assert_eq!(has(&text, Facet::Registers), registers, "{name}");
        assert!(has(&text, Facet::Instructions), "{name}");
    }
}
