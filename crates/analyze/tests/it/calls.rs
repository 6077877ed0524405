//! Calls and returns: stories of instructions with their expected call trees.

#![allow(clippy::unwrap_used, clippy::panic)]

mod steps;
mod story;
mod tables;
mod timeline;

use story::tree_of;

/// (name, instructions, tree)
const STORIES: [(&str, &str, &str); 22] = [
    (
        "a call",
        "1000 bl sp=100; 2000 ret lr=1004; 1004 nop",
        "start 1000 1-3 own 2 at end
           2000 2-2 own 1",
    ),
    (
        "calls within calls, and two in a row",
        "1000 bl sp=100; 2000 nop lr=1004; 2004 bl sp=f0; 3000 ret lr=2008; 2008 bl; 3000 ret lr=200c;
         200c nop lr=1004; 2010 ret sp=100; 1004 nop",
        "start 1000 1-9 own 2 at end
           2000 2-8 own 5
             3000 4-4 own 1
             3000 6-6 own 1",
    ),
    (
        "recursion: equal return addresses, distinguished by the stack pointer",
        "1000 bl sp=100; 2000 nop lr=1004; 2004 b.eq sp=f0; 2008 bl; 2000 nop lr=200c; 2004 b.eq sp=e0;
         2008 bl; 2000 nop lr=200c; 2004 b.eq sp=d0; 2010 nop lr=200c; 2014 ret sp=e0; 200c nop;
         2010 nop lr=200c; 2014 ret sp=f0; 200c nop; 2010 nop lr=1004; 2014 ret sp=100; 1004 nop",
        "start 1000 1-18 own 2 at end
           2000 2-17 own 6
             2000 5-14 own 6
               2000 8-11 own 4",
    ),
    (
        "recursion without a stack pointer",
        "1000 bl; 2000 nop lr=1004; 2004 b.eq; 2008 bl; 2000 nop lr=200c; 2004 b.eq; 2008 bl;
         2000 nop lr=200c; 2004 b.eq; 2010 nop lr=200c; 2014 ret; 200c nop; 2010 nop lr=200c; 2014 ret;
         200c nop; 2010 nop lr=1004; 2014 ret; 1004 nop",
        "start 1000 1-18 own 2 at end
           2000 2-17 own 6
             2000 5-14 own 6
               2000 8-11 own 4",
    ),
    (
        "a direct branch to a return address is not a return",
        "1000 bl; 2000 b lr=1004; 1004 ret; 1004 nop",
        "start 1000 1-4 own 2 at end
           2000 2-3 own 2",
    ),
    (
        "a tail call: the function continues elsewhere and returns to its caller",
        "1000 bl sp=100; 1080 nop lr=1004; 1084 b; 3000 ret; 1004 nop",
        "start 1000 1-5 own 2 at end
           1080 2-4 own 3",
    ),
    (
        "a tail call after restoring the link register is not a call, though the register was just written",
        "1000 bl sp=100; 1010 nop lr=1004; 1014 nop sp=f0; 1018 b lr=1004 sp=100; 1080 ret; 1004 nop",
        "start 1000 1-6 own 2 at end
           1010 2-5 own 4",
    ),
    (
        "a call by a branch without link: the return address is written to the link register just before",
        "1000 a.nop sp=100; 1004 a.bx lr=1008; 2000 a.bx; 1008 a.nop",
        "start 1000 1-4 own 3 at end
           2000 3-3 own 1",
    ),
    (
        "a computed return address, some instructions before the call",
        "1010 a.nop sp=100; 1014 a.nop lr=1004; 1018 a.bx; 2000 a.bx; 1004 a.nop",
        "start 1010 1-5 own 4 at end
           2000 4-4 own 1",
    ),
    (
        "an indirect branch to the address in the link register is not a call",
        "1000 a.nop sp=100; 1004 a.bx lr=1018; 1018 a.nop",
        "start 1000 1-3 own 3 at end",
    ),
    (
        "a branch with link that only loads its own address",
        "1000 bl sp=100; 2000 nop lr=1004; 2004 bl sp=f0; 200c nop lr=2008; 2010 bl; 3000 ret lr=2014;
         2014 nop lr=1004; 2018 ret sp=100; 1004 nop",
        "start 1000 1-9 own 2 at end
           2000 2-8 own 6
             3000 6-6 own 1",
    ),
    (
        "longjmp: the stack is unwound past three calls, the outer function returns later",
        "1000 bl sp=100; 2000 nop lr=1004; 2004 bl sp=f0; 3000 nop lr=2008; 3004 bl sp=e0; 4000 nop lr=3008;
         4004 bl sp=d0; 5000 nop lr=4008; 5004 ret lr=2080 sp=f0; 2080 bl; 6000 ret lr=2084;
         2084 nop lr=1004; 2088 ret sp=100; 1004 nop",
        "start 1000 1-14 own 2 at end
           2000 2-13 own 5
             3000 4-9 own 2 left
               4000 6-9 own 2 left
                 5000 8-9 own 2 left
             6000 11-11 own 1",
    ),
    (
        "unfinished at the end",
        "1000 bl sp=100; 2000 bl lr=1004 sp=f0; 3000 nop lr=2004",
        "start 1000 1-3 own 1 at end
           2000 2-3 own 1 at end
             3000 3-3 own 1 at end",
    ),
    (
        "the trace starts within two calls",
        "3000 bl sp=e0; 4000 ret lr=3004; 3004 nop; 3008 ret sp=f0; 2008 nop; 200c ret sp=100; 1004 bl;
         2000 nop",
        "start 1004 1-8 own 1 at end
           before 2008 1-6 own 2
             before 3000 1-4 own 3
               4000 2-2 own 1
           2000 8-8 own 1 at end",
    ),
    (
        "a return to an unknown address while the stack is still in use is not a return",
        "3000 nop sp=e0; 3004 ret sp=d0; 5000 nop",
        "start 3000 1-3 own 3 at end",
    ),
    (
        "the Thumb bit in the link register",
        "1000 t.nop sp=100; 1002 t.bl; 2000 t.nop lr=1007; 2002 t.bx_lr; 1006 t.nop",
        "start 1000 1-5 own 3 at end
           2000 3-4 own 2",
    ),
    (
        "an exception within a call, on a stack of its own above all others",
        "1000 bl sp=100; 2000 nop lr=1004; 8000 bl sp=9000 stack=1 exception; 8100 ret lr=8004; 8004 eret;
         2004 ret sp=100 stack=0 lr=1004; 1004 nop",
        "start 1000 1-7 own 2 at end
           2000 2-6 own 2
             exception 8000 3-5 own 2
               8100 4-4 own 1",
    ),
    (
        "an exception that is not reported shows in the mode",
        "1000 bl sp=100; 2000 svc lr=1004; 8000 eret sp=9000 stack=1; 2004 ret sp=100 stack=0 lr=1004;
         1004 nop",
        "start 1000 1-5 own 2 at end
           2000 2-4 own 2
             exception 8000 3-3 own 1",
    ),
    (
        "an exception between a call and its first instruction",
        "1000 bl sp=100; 8000 eret stack=1 sp=9000 exception; 2000 nop stack=0 sp=100; 2004 ret; 1004 nop",
        "start 1000 1-5 own 2 at end
           exception 8000 2-2 own 1
           2000 3-4 own 2",
    ),
    (
        "an M-profile handler returns like a function",
        "1000 t.nop sp=100; 8000 t.nop sp=e0 lr=fffffff9 exception; 8002 t.bx_lr; 1002 t.nop sp=100",
        "start 1000 1-4 own 2 at end
           exception 8000 2-3 own 2",
    ),
    (
        "without opcodes, the link register and the stack pointer decide",
        "1000 ? sp=100; 1004 ?; 2000 ? lr=1008; 2004 ?; 1008 ?",
        "start 1000 1-5 own 3 at end
           2000 3-4 own 2",
    ),
    ("a call whose condition fails is not a call", "1000 bl sp=100 skipped; 1004 nop", "start 1000 1-2 own 2 at end"),
];

#[test]
fn stories() {
    for (name, story, expected) in STORIES {
        let expected: Vec<&str> = expected.lines().collect();
        let margin = expected.get(1).map_or(0, |line| line.len() - line.trim_start().len() - 2);
        let strip =
            |(index, line): (usize, &&str)| if index == 0 { line.to_string() } else { line[margin..].to_string() };
        let expected: Vec<String> = expected.iter().enumerate().map(strip).collect();
        assert_eq!(tree_of(story), expected.join("\n") + "\n", "{name}");
    }
}

#[test]
fn sites_of_a_call() {
    let instructions =
        story::instructions("1000 bl sp=100 time=7\n2000 nop time=9\n2004 ret time=12\n1004 nop time=20");
    let call = story::calls(&instructions)[0];
    let sites =
        [call.site, Some(call.entry), Some(call.exit), call.back].map(|site| site.map(|site| (site.pc, site.position)));
    assert_eq!(sites, [Some((0x1000, 1)), Some((0x2000, 2)), Some((0x2004, 3)), Some((0x1004, 4))]);
    assert_eq!((call.total().time, call.total().instructions, call.own.time), (3, 2, 3));
}
