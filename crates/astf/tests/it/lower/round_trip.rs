//! From records to steps and back.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Cursor;

use unspool_astf::builder::{
    Builder, Call, CallKind, Effect, Exception as Raised, Process, Redirection, State, Step as BuildStep,
};
use unspool_astf::lower::LowerOptions;
use unspool_astf::record::{Header, Level, Record, Storage};
use unspool_astf::{Access, Bytes, Extent, example, read, steps};
use unspool_testing::Random;

use super::opcodes::*;
use crate::support::lower_source;

/// Asserts that records, header first, come back from their steps without a loss.
fn assert_round_trip(records: &[Bytes], name: &str) {
    let Record::Header(was) = Record::from_bytes(&records[0]) else { panic!() };
    let mut source = steps::Steps::new(read::Reader::in_place(Cursor::new(records.concat())).unwrap());
    let options = LowerOptions { storage: was.storage(), ..LowerOptions::default() };
    let (found, losses) = lower_source(&mut source, &options);
    assert!(losses.is_empty(), "{name}: {losses}");
    if found == records {
        return;
    }
    let at = found.iter().zip(records).take_while(|(one, other)| one == other).count();
    let around = |records: &[Bytes]| -> Vec<String> {
        let near = &records[at.saturating_sub(4)..records.len().min(at + 5)];
        near.iter().map(|record| format!("{:x?}", Record::from_bytes(record))).collect()
    };
    panic!("{name}: record {}\nfound: {:#?}\nexpected: {:#?}", at + 1, around(&found), around(records));
}

#[test]
fn the_example_comes_back() {
    let mut records = example::records();
    records[0] = example::header().stored(Storage::Raw).to_bytes();
    assert_round_trip(&records, "example");
}

/// A random trace of what a builder accepts.
struct Trace {
    numbers: Random,
    builder: Builder<Vec<Bytes>>,
    state: State,
    time: u64,
    is_basic: bool,
    has_instruction: bool,
}

impl Trace {
    fn new(seed: u64) -> Self {
        let mut numbers = Random::new(seed);
        let level = numbers.pick(&[Level::Basic, Level::BasicPlus, Level::BasicPlus]);
        let builder = Builder::new(Vec::new(), &Header::new(level, numbers.flip(), Storage::Raw)).unwrap();
        let state = State { el: numbers.pick(&[0, 0, 1, 3]), ..State::default() };
        let state = State { handler: state.el > 0, secure: state.el == 3, ..state };
        Self { numbers, builder, state, time: 0, is_basic: level == Level::Basic, has_instruction: false }
    }

    fn records(mut self, count: usize) -> Vec<Bytes> {
        for _ in 0..count {
            self.anything();
        }
        self.builder.finish()
    }

    fn anything(&mut self) {
        match self.numbers.below(40) {
            0 => {
                let length = self.numbers.below(80) as usize;
                let _ = self.builder.string(&vec![b'a'; length]);
            }
            1 | 2 => {
                self.time += self.numbers.below(3);
                let _ = self.builder.timestamp(self.time);
            }
            3 => {
                let _ = self.builder.suspended(self.time + 1, self.time + 5);
                self.time += 5;
            }
            4 | 5 => self.context(),
            6 => self.redirect(),
            7 => self.trapped(),
            8 => self.unsupported(),
            9..=14 => self.branch(),
            15..=24 => self.access(),
            _ => {
                let opcode = self.numbers.pick(&[NOP, ADD]);
                self.step(|pc| BuildStep::plain(pc, opcode));
            }
        }
    }

    fn pc(&mut self) -> u64 {
        let anywhere = 0x1000 + self.numbers.below(64) * 4;
        self.builder.next().unwrap_or(anywhere)
    }

    fn step<'a>(&mut self, make: impl FnOnce(u64) -> BuildStep<'a>) -> bool {
        let pc = self.pc();
        let is_written = self.builder.instruction(&make(pc)).is_ok();
        self.has_instruction |= is_written;
        is_written
    }

    fn context(&mut self) {
        let mut state = self.state;
        match self.numbers.below(6) {
            0 => state.el = self.numbers.below(4) as u8,
            1 => state.dit = !state.dit,
            2 => state.ssbs = !state.ssbs,
            3 => state.evl = self.numbers.pick(&[0, 1, 3]),
            4 => {
                let tid = self.numbers.flip().then_some(7);
                state.process = self.numbers.flip().then_some(Process { pid: 5, tid });
            }
            _ => state.tag_check_fault = self.numbers.below(4) as u8,
        }
        state.handler = state.el > 0;
        // In a BasicPlus trace it has to differ.
        if (self.is_basic || state != self.state) && self.builder.context(&state).is_ok() {
            self.state = state;
        }
    }

    fn redirect(&mut self) {
        let is_virtual = self.numbers.flip();
        let by = self.numbers.pick(&[
            Redirection::Synchronous(0x20),
            Redirection::Synchronous(0x22),
            Redirection::SError { class: 0x2f, is_virtual },
            Redirection::Irq { is_virtual },
            Redirection::Fiq { is_virtual },
            Redirection::Reset,
        ]);
        let target = 0x8000 + 0x80 * self.numbers.below(16);
        // Before the first instruction an exception is recorded only if it leads there.
        if self.has_instruction && self.builder.redirected(by, target).is_ok() {
            self.level_up();
        }
    }

    /// After an exception the state differs, or is repeated.
    fn level_up(&mut self) {
        let el = self.state.el.max(1);
        let state = State { el, handler: true, ..self.state };
        if (self.numbers.flip() || self.state.el == 0) && self.builder.context(&state).is_ok() {
            self.state = state;
        }
    }

    fn trapped(&mut self) {
        let target = 0x8000 + 0x200 * self.numbers.below(4);
        let kind = self.numbers.below(5);
        let call = |kind, index| Some(Call { kind, index });
        let address = 0x3000 + self.numbers.below(256) * 8;
        let tried = [Access { tagged: self.numbers.flip(), ..access(address, 8, false, false) }];
        let (opcode, class, call, accesses) = match kind {
            0 => (SVC, 0x15, call(CallKind::Svc, 5), &[][..]),
            1 => (HVC, 0x16, call(CallKind::Hvc, 0), &[][..]),
            2 => (BRK, 0x3c, None, &[][..]),
            3 => (LDR, 0x24, None, &tried[..]),
            _ => (ADD, 0, None, &[][..]),
        };
        let exception = Some(Raised { class, call, target });
        let effect = Effect::Accesses(accesses);
        if self.step(|pc| BuildStep { effect, exception, ..BuildStep::plain(pc, opcode) }) {
            self.level_up();
        }
    }

    fn unsupported(&mut self) {
        let state = State { unsupported: true, ..self.state };
        if self.builder.context(&state).is_err() {
            return;
        }
        if self.numbers.flip() {
            self.time += 1;
            let _ = self.builder.timestamp(self.time);
        }
        let target = 0x8000 + 0x400;
        let call = Call { kind: CallKind::Svc, index: 9 };
        let by = self.numbers.pick(&[
            Some(Redirection::Synchronous(0)),
            Some(Redirection::Call { class: 0x11, call }),
            Some(Redirection::ExceptionReturn),
            None,
        ]);
        let pc = if let Some(by) = by {
            self.builder.redirected(by, target).unwrap();
            target
        } else {
            self.pc()
        };
        if by.is_some() && by != Some(Redirection::ExceptionReturn) {
            self.state = State { el: self.state.el.max(1), handler: true, ..self.state };
        }
        self.builder.context(&self.state).unwrap();
        self.builder.instruction(&BuildStep::plain(pc, NOP)).unwrap();
    }

    fn branch(&mut self) {
        let target = 0x1000 + self.numbers.below(64) * 4;
        let kind = self.numbers.below(6);
        let is_down = self.numbers.flip();
        let is_written = self.step(|pc| {
            let (opcode, effect) = match kind {
                0 => (B_EQ, Effect::Taken(pc.wrapping_add(8))),
                1 => (B_EQ, Effect::NotTaken),
                2 => (B, Effect::Taken(pc.wrapping_add(8))),
                3 => (ERET, Effect::ExceptionReturn(target)),
                4 => (ERET, Effect::None),
                _ => (RET, Effect::Taken(target)),
            };
            BuildStep { effect, ..BuildStep::plain(pc, opcode) }
        });
        if is_written && kind == 3 && is_down && self.state.el > 0 {
            let state = State { el: self.state.el - 1, handler: self.state.el > 1, ..self.state };
            self.state = state;
            self.builder.context(&state).unwrap();
        }
        if is_written && kind == 4 {
            let _ = self.builder.context(&self.state);
        }
    }

    fn access(&mut self) {
        let address = 0x3000 + self.numbers.below(256) * 64;
        let tagged = self.numbers.flip();
        let range = |bytes: u64, write: bool| Access {
            extent: Extent::Range(bytes),
            tagged: tagged && bytes > 0,
            ..access(address, 1, !write, write)
        };
        let (opcode, accesses) = match self.numbers.below(13) {
            0 => (LDR, vec![Access { tagged, ..access(address, 8, true, false) }]),
            1 => (STR, vec![Access { tagged, ..access(address, 8, false, true) }]),
            2 => (LDP, vec![access(address, 16, true, false)]),
            3 => (LDP, vec![access(0xff8, 8, true, false), access(0x1000, 8, true, false)]),
            4 => (LDADD, vec![access(address, 8, true, true)]),
            5 => (CAS, vec![access(address, 8, true, tagged)]),
            6 => (STXR, if tagged { vec![] } else { vec![access(address, 8, false, true)] }),
            7 => (PRFM, vec![access(address, 1, false, false)]),
            8 => (DC, vec![access(address, 1, false, false)]),
            9 => (ZVA, vec![access(address, 64, false, true)]),
            10 => (CPYM, vec![range(self.numbers.below(3) * 300, false), range(600, true)]),
            11 => (SETM, vec![range(self.numbers.below(3) * 70_000, true)]),
            _ => (LD1B, (0..self.numbers.below(5)).map(|at| access(address + at, 1, true, false)).collect()),
        };
        self.step(|pc| BuildStep { effect: Effect::Accesses(&accesses), ..BuildStep::plain(pc, opcode) });
    }
}

fn access(address: u64, bytes: u16, read: bool, write: bool) -> Access {
    Access { address, extent: Extent::Bytes(bytes), read, write, tagged: false }
}

#[test]
fn any_trace_comes_back() {
    let (mut instructions, mut traps) = (0, 0);
    for seed in 0..3000 {
        let records = Trace::new(seed).records(120);
        let count = |kind: u8| records.iter().filter(|record| record[0] == kind).count();
        if count(1) > 0 {
            (instructions, traps) = (instructions + count(1), traps + count(5));
            assert_round_trip(&records, &format!("seed {seed}"));
        }
    }
    assert!(instructions > 100_000 && traps > 5_000, "{instructions} instructions and {traps} traps");
}

/// Nothing is executed in some of these contexts.
#[test]
fn contexts_without_instructions_come_back() {
    let mut trace = Builder::new(Vec::new(), &Header::new(Level::BasicPlus, false, Storage::Raw)).unwrap();
    let at = |el| State { el, handler: el > 0, ..State::default() };
    trace.context(&at(1)).unwrap();
    trace.context(&State { unsupported: true, ..at(1) }).unwrap();
    for pid in [1, 2, 3] {
        trace.context(&State { process: Some(Process { pid, tid: None }), ..at(1) }).unwrap();
    }
    trace.instruction(&BuildStep::plain(0x8000, NOP)).unwrap();
    assert_round_trip(&trace.finish(), "contexts");
}
