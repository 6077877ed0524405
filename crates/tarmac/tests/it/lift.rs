//! Lifting: which lines belong to which instruction, for each producer's order of lines.

use std::fmt::Write as _;

use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::lift::{Cause, Lifter, Step};
use unspool_tarmac::record::Direction;

use crate::fixtures::{each_line, machine};

/// A step as one line: core, cause and effects.
fn text(step: &Step) -> String {
    let of = |span| String::from_utf8_lossy(step.text(span)).into_owned();
    let mut text = match &step.cause {
        Cause::None => format!("{}: start", step.core),
        Cause::Instruction(executed) => format!("{}: #{} {:x}", step.core, step.number, executed.address.unwrap_or(0)),
        Cause::Asynchronous(name) => format!("{}: {}", step.core, of(name)),
    };
    for register in &step.registers {
        let _ = write!(text, ", {}={}", of(&register.name), of(&register.value));
    }
    for access in &step.accesses {
        let tag = if access.direction == Direction::Read { "reads" } else { "writes" };
        let _ = write!(text, ", {tag} {:x}:", access.address.unwrap_or(0));
        if let Some(physical) = access.physical {
            let _ = write!(text, "{}@{physical:x}:", of(&access.space));
        }
        for byte in step.data(access) {
            text.push_str(&byte.map_or_else(|| " ..".to_string(), |byte| format!(" {byte:02x}")));
        }
        text.push_str(if access.is_aborted { " aborted" } else { "" });
    }
    for exception in &step.exceptions {
        let _ = write!(text, ", takes {}", of(&exception.name));
    }
    if let Some(branch) = step.branch {
        let _ = write!(text, ", to {:x}", branch.target);
    }
    text
}

fn steps(dialect: Dialect, log: &[u8]) -> Vec<String> {
    let mut lifter = Lifter::new(dialect, false);
    let mut steps = Vec::new();
    each_line(log, |position, line| lifter.line(position, line, |step| steps.push(text(step))));
    lifter.finish(|step| steps.push(text(step)));
    steps
}

/// Asserts the steps of a log, of which a table has the lines that begin with `=`.
fn assert_steps(dialect: Dialect, table: &str) {
    let (expected, log): (Vec<&str>, Vec<&str>) = table.lines().partition(|line| line.starts_with("= "));
    let found: Vec<String> = steps(dialect, log.join("\n").as_bytes()).iter().map(|step| format!("= {step}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn effects_after_their_instruction() {
    let table = "\
Tarmac Text Rev 3t
      19000 ns  ES  EXC [0x00] Reset
                    BR (00000040) A
      46000 ns  ES  (00000040:e59ff028) A svc:            LDR      pc,{pc}+0x30 ; 0x70
                    LD 00000070  ........ ........ ........ 000000b0     S:0000000070    NM ISH INC
                    BR (000000b0) A
      47000 ns  ES  (000000b0:08800006) A svc_ns:     CCFAIL STMEQ    r0,{r1,r2}
      48000 ns  ES  (000000b4:ef000002) A svc_ns:            SVC      #0x2
                    EXC [0x08] System Call
                    R LR (SVC) 000000b8
                    ST 00000140  5a5a5a5a ........ 3b3c##1d ........
      49000 ns  ES  IRQ
                    EXC [0x18] IRQ Interrupt
= 0: Reset, takes Reset, to 40
= 0: #1 40, reads 70:S@70: b0 00 00 00, to b0
= 0: #2 b0
= 0: #3 b4, LR=000000b8, writes 144: 1d .. 3c 3b, writes 14c: 5a 5a 5a 5a, takes System Call
= 0: IRQ, takes IRQ Interrupt
";
    assert_steps(Dialect::Rev3, table);
}

#[test]
fn lines_before_the_first_instruction() {
    let table = "\
0 clk R X4 00000000000000f0
0 clk E 0000a000 00000001 CoreEvent_RESET
1 clk IT (1) 00008000 d503201f O EL3h_s : NOP
1 clk MR4 efefef5c (ABORTED)
= 0: start, X4=00000000000000f0, takes CoreEvent_RESET
= 0: #1 8000, reads efefef5c: .. .. .. .. aborted
";
    assert_steps(Dialect::FastModels, table);
}

#[test]
fn effects_before_their_instruction() {
    let table = "\
433ns R r13 20000f70 (MSP)
512ns MR4_D 00000448 00000007
512ns R r2 00000007
512ns IT 00000420 4a09        LDR      r2,[pc,#36]  ; [0x448]
520ns R r3 00000001
520ns IT 00000422 2301        MOVS     r3,#1
= 0: #1 420, r13=20000f70, r2=00000007, reads 448: 07 00 00 00
= 0: #2 422, r3=00000001
";
    assert_steps(Dialect::CortexM0, table);
}

#[test]
fn dual_issue() {
    let table = "\
100 ns R r4 00000004
101 ns R r5 00000005
102 ns MNW4____ (00000014:00000002) 0620a000 00000003
103 ns IT (00000010:00000001) 00000010 e3a04004 A :                      MOV r4,#4
103 ns IT (00000014:00000002) 00000014 e5865000 A :                      LDR r5,[r6]
104 ns R r6 00000006
105 ns IT (00000018:00000003) 00000018 e3a06006 A :                      MOV r6,#6
= 0: #1 10, r4=00000004
= 0: #2 14, r5=00000005, writes 620a000: 03 00 00 00
= 0: #3 18, r6=00000006
";
    assert_steps(Dialect::CortexR5, table);
}

fn program(core: &str, value: u32) -> Vec<String> {
    let mut lines = Vec::new();
    for step in 0..20_u32 {
        let pc = 0x8000 + step * 4;
        lines.push(format!("{step} clk {core} IT ({step}) {pc:08x} d503201f O EL1h_ns : NOP"));
        lines.push(format!("{step} clk {core} R X1 {:016x}", value + step));
        lines.push(format!("{step} clk {core} MW4 {:08x} {:08x}", 0x100 + step % 4 * 4, value + step));
    }
    lines
}

/// The steps and state of two cores in one log equal those in separate logs.
#[test]
fn two_cores() {
    let (a, b) = (program("cluster0.cpu0", 0x1000), program("cluster0.cpu1", 0x2000));
    let mixed: Vec<String> = a.iter().zip(&b).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
    let together = steps(Dialect::FastModels, mixed.join("\n").as_bytes());
    let alone = |lines: &[String]| steps(Dialect::FastModels, lines.join("\n").as_bytes());
    let of = |core: &str| -> Vec<String> {
        together.iter().filter(|step| step.starts_with(core)).map(|step| step[2..].to_string()).collect()
    };
    let without = |steps: Vec<String>| -> Vec<String> { steps.iter().map(|step| step[2..].to_string()).collect() };
    assert_eq!(of("0"), without(alone(&a)));
    assert_eq!(of("1"), without(alone(&b)));
    let machine = machine(false, mixed.join("\n").as_bytes());
    for (core, value) in machine.cores().iter().zip([0x1013, 0x2013]) {
        let (slot, ..) = core.registers.find("x1").unwrap();
        assert_eq!(core.registers.get(slot).unwrap().number(), Some(value));
        assert_eq!(core.memory.byte(0x10d).unwrap().value, (value >> 8) as u8);
    }
}

/// Damage loses only the damaged steps.
#[test]
fn damage() {
    let whole = program("cpu0", 0x1000);
    let count = |lines: &[Vec<u8>]| steps(Dialect::FastModels, &lines.join(&b'\n')).len();
    let bytes: Vec<Vec<u8>> = whole.iter().map(|line| line.clone().into_bytes()).collect();
    let all = count(&bytes);
    let mut joined = bytes.clone();
    let next = joined.remove(31);
    joined[30].extend(next);
    let mut cut = bytes.clone();
    cut[30].truncate(20);
    let mut junk = bytes.clone();
    junk.insert(30, (0..=255).filter(|byte| *byte != b'\n').collect());
    for (what, lines, lost) in [("joined", joined, 1), ("cut", cut, 1), ("junk", junk, 0)] {
        assert!(count(&lines) >= all - lost, "{what}: {} of {all}", count(&lines));
    }
}
