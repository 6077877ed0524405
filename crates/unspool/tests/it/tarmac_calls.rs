//! Calls of handwritten Tarmac logs: several cores, missing or reordered registers, exceptions with their own stack.

use std::ops::ControlFlow;

use unspool::analyze::calls::{Began, Call, CallSink as _, Ended};
use unspool::tarmac::dialect::Dialect;
use unspool::tarmac::read::{ReadOptions, Reader};
use unspool::{TarmacCalls, call_forest};

/// A function that calls another, in the style of Fast Models.
const NESTED: &str = "\
0 clk R SP_EL1 0000000000001000
1 clk IT (1) 00008000 94000004 O EL1h_n : BL {pc}+0x10
1 clk R X30 0000000000008004
2 clk IT (2) 00008010 a9bf7bfd O EL1h_n : STP x29,x30,[sp,#-0x10]!
2 clk MW8 00000ff8 00000000_00008004
2 clk R SP_EL1 0000000000000ff0
3 clk IT (3) 00008014 94000003 O EL1h_n : BL {pc}+0xc
3 clk R X30 0000000000008018
4 clk IT (4) 00008020 d65f03c0 O EL1h_n : RET
5 clk IT (5) 00008018 a8c17bfd O EL1h_n : LDP x29,x30,[sp],#0x10
5 clk R X30 0000000000008004
5 clk R SP_EL1 0000000000001000
6 clk IT (6) 0000801c d65f03c0 O EL1h_n : RET
7 clk IT (7) 00008004 d503201f O EL1h_n : NOP
";

const NESTED_TREE: &str = "\
start 8000 1-7
  8010 2-6
    8020 4-4
";

/// Trees of all cores, by name: how each call began, its function, and its times.
fn trees(log: &str, dialect: Option<Dialect>) -> Vec<(String, String)> {
    let mut reader = Reader::new(log.as_bytes(), ReadOptions::default()).unwrap();
    let mut calls = TarmacCalls::new(dialect.unwrap_or(reader.dialect()));
    let mut ended: Vec<(usize, Call)> = Vec::new();
    let more = reader.each(|position, line| {
        calls.line(position, line, &mut |core: usize, call: &Call| ended.push((core, *call)));
        ControlFlow::Continue(())
    });
    assert!(!more.unwrap());
    calls.finish(&mut |core: usize, call: &Call| ended.push((core, *call)));
    let names = calls.cores().map(|name| String::from_utf8(name.to_vec()).unwrap());
    names.enumerate().map(|(core, name)| (name, tree(core, &ended))).collect()
}

fn tree(core: usize, ended: &[(usize, Call)]) -> String {
    let mut forest = call_forest();
    ended.iter().filter(|(of, _)| *of == core).for_each(|(_, call)| forest.ended(0, call));
    let mut text = String::new();
    let take = |depth: usize, call: &Call| {
        let began = match call.began {
            Began::Start => "start ",
            Began::Exception => "exception ",
            Began::Before => "before ",
            Began::Gap => "gap ",
            Began::Called => "",
        };
        let end = if call.ended == Ended::AtEnd && call.began != Began::Start { " unfinished" } else { "" };
        let (from, to) = (call.entry.time, call.exit.time);
        text += &format!("{:indent$}{began}{:x} {from}-{to}{end}\n", "", call.function, indent = depth * 2);
        Ok(())
    };
    forest.each(0, |_| true, take).unwrap();
    text
}

/// Tree of the only core.
fn one(log: &str, dialect: Option<Dialect>) -> String {
    let [(_, tree)] = &trees(log, dialect)[..] else { panic!("not one core") };
    tree.clone()
}

#[test]
fn nested_calls() {
    let lines = |keep: &dyn Fn(usize, &str) -> bool| -> String {
        NESTED.split_inclusive('\n').enumerate().filter(|(at, line)| keep(*at, line)).map(|(_, line)| line).collect()
    };
    let damaged = NESTED.replace("4 clk IT", "\u{1}\u{2}junk\n4 clk IT");
    let unfinished = "start 8000 1-5\n  8010 2-5 unfinished\n    8020 4-4\n";
    let rows = [
        ("all lines", NESTED.to_string(), None, NESTED_TREE),
        ("no stack pointer", lines(&|_, line| !line.contains("SP_EL1")), Some(Dialect::Gem5), NESTED_TREE),
        ("damaged lines", damaged.replace("5 clk R X30", "5 clk R X3\n5 clk R X30"), None, NESTED_TREE),
        ("unfinished", lines(&|at, _| at < 10), None, unfinished),
    ];
    for (name, log, dialect, expected) in rows {
        assert_eq!(one(&log, dialect), expected, "{name}");
    }
}

#[test]
fn cores_are_followed_separately() {
    // One core is a line later than the other, so that all lines are interleaved.
    let line = |line: &str, core: &str| line.replacen("clk", &format!("clk {core}"), 1) + "\n";
    let mut log = String::new();
    let mut last = None;
    for text in NESTED.lines() {
        log += &line(text, "cpu0");
        log += &last.map(|text| line(text, "cpu1")).unwrap_or_default();
        last = Some(text);
    }
    log += &line(last.unwrap(), "cpu1");
    let expected = ["cpu0", "cpu1"].map(|name| (name.to_string(), NESTED_TREE.to_string()));
    assert_eq!(trees(&log, None), expected);
}

#[test]
fn registers_printed_before_their_instruction() {
    // Cortex-M0: PUSH and POP move the stack pointer, BL writes the link register.
    let log = "\
10ns R r13 20001000
11ns IT 00000100 bf00 NOP
12ns R r14 00000107
12ns IT 00000102 f000f805 BL 0x110
13ns R r13 20000ff8
13ns IT 00000110 b510 PUSH {r4,lr}
14ns R r14 00000117
14ns IT 00000112 f000f805 BL 0x120
15ns IT 00000120 4770 BX lr
16ns R r13 20001000
16ns IT 00000116 bd10 POP {r4,pc}
17ns IT 00000106 bf00 NOP
";
    assert_eq!(one(log, Some(Dialect::CortexM0)), "start 100 11-17\n  110 13-16\n    120 15-15\n");
}

#[test]
fn exception_has_a_stack_of_its_own() {
    // The stack of the handler is above that of the program, and the handler calls a function.
    let log = "\
Tarmac Text Rev 3t
          1 ns  ES  (00008000:eb000002) A usr:            BL       0x8010
                    R R13 (USR) 00001000
                    R R14 (USR) 00008004
          2 ns  ES  (00008010:e1a00000) A usr:            NOP
          3 ns  ES  IRQ
                    EXC [0x18] IRQ Interrupt
                    R R14 (IRQ) 00008018
                    R R13 (IRQ) 00009000
          3 ns  ES  (00000018:eb000000) A irq:            BL       0x20
                    R R14 (IRQ) 0000001c
          4 ns  ES  (00000020:e12fff1e) A irq:            BX       lr
          5 ns  ES  (0000001c:e25ef004) A irq:            SUBS     pc,lr,#4
          6 ns  ES  (00008014:e12fff1e) A usr:            BX       lr
          7 ns  ES  (00008004:e1a00000) A usr:            NOP
";
    let expected = "start 8000 1-7\n  8010 2-6\n    exception 18 3-5\n      20 4-4\n";
    assert_eq!(one(log, None), expected);
}
