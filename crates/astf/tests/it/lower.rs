//! Steps as ASTF: what comes back, what is lost and counted, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_astf::builder::{
    Builder, Call, CallKind, Effect, Exception as Raised, Process, Redirection, State, Step as BuildStep,
};
use unspool_astf::check::{Checker, Severity};
use unspool_astf::lower::{LOSSES, LowerOptions, Lowerer, UnrecordedAccess, coverage, header};
use unspool_astf::record::{Header, Level, Record, Storage};
use unspool_astf::{Access, Bytes, Extent, example, read, steps};
use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Loss, Losses,
    Modes, Security, SinkError, Step, StepSink, StepSource, TimeUnit,
};
use unspool_testing::{Random, corpus};

const NOP: u32 = 0xd503_201f;
const ADD: u32 = 0x8b00_0000;
/// ldr x0, [x1]
const LDR: u32 = 0xf940_0020;
const STR: u32 = 0xf900_0020;
/// ldp x19, x20, [sp, #0x10]
const LDP: u32 = 0xa941_53f3;
const LDADD: u32 = 0xf820_0041;
const CAS: u32 = 0xc8a1_7c02;
const STXR: u32 = 0xc800_7c41;
/// prfm pldl1keep, [x0]
const PRFM: u32 = 0xf980_0000;
/// dc cvac, x0
const DC: u32 = 0xd50b_7a20;
const ZVA: u32 = 0xd50b_7420;
/// b.eq .+8
const B_EQ: u32 = 0x5400_0040;
/// b .+8
const B: u32 = 0x1400_0002;
const RET: u32 = 0xd65f_03c0;
/// svc #5
const SVC: u32 = 0xd400_00a1;
const HVC: u32 = 0xd400_0002;
const BRK: u32 = 0xd420_0000;
const ERET: u32 = 0xd69f_03e0;
/// ld1b {z0.b}, p0/z, [x0, x0]
const LD1B: u32 = 0xa400_4000;
/// msr SPSel, #0
const SPSEL_0: u32 = 0xd500_40bf;
const SMSTART: u32 = 0xd503_437f;
const CPYM: u32 = 0x1941_0440;
const SETM: u32 = 0x19c1_4440;

/// Steps of records, header first.
fn steps_of(records: &[Bytes]) -> Vec<Step> {
    let mut source = steps::Steps::new(read::Reader::in_place(Cursor::new(records.concat())).unwrap());
    let mut told = Vec::new();
    source
        .each(&mut |step| {
            told.push(step.clone());
            ControlFlow::Continue(())
        })
        .unwrap();
    told
}

/// The facets of a trace with such a header.
fn facets(header: &Header) -> Coverage {
    steps::Steps::new(read::Reader::in_place(Cursor::new(header.to_bytes().to_vec())).unwrap()).coverage()
}

/// From records to steps and back.
fn there_and_back(records: &[Bytes]) -> (Vec<Bytes>, Losses) {
    let Record::Header(was) = Record::from_bytes(&records[0]) else { panic!() };
    let (facets, unit) = (facets(&was), TimeUnit::MICROSECONDS);
    let options = LowerOptions { storage: was.storage(), ..LowerOptions::default() };
    let header = header(facets, unit, &options).unwrap();
    assert_eq!(header, was);
    let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, facets, unit, &options).unwrap();
    for step in steps_of(records) {
        lowerer.push(&step).unwrap();
    }
    lowerer.finish().unwrap();
    let losses = lowerer.losses().clone();
    (lowerer.into_sink(), losses)
}

fn errors(records: &[Bytes]) -> Vec<String> {
    let (mut checker, mut errors) = (Checker::new(), Vec::new());
    let mut keep = |finding: unspool_astf::check::Finding| {
        if finding.rule.severity == Severity::Error {
            errors.push(format!("{}: {} {}", finding.record, finding.rule.name, finding.detail));
        }
    };
    records.iter().for_each(|record| checker.push(record, &mut keep));
    checker.finish(&mut keep);
    errors
}

fn raw(mut records: Vec<Bytes>) -> Vec<Bytes> {
    let Record::Header(header) = Record::from_bytes(&records[0]) else { panic!() };
    records[0] = header.stored(Storage::Raw).to_bytes();
    records
}

fn texts(records: &[Bytes]) -> Vec<String> {
    records.iter().map(|record| format!("{:x?}", Record::from_bytes(record))).collect()
}

/// The same records, or which differ.
fn assert_same(found: &[Bytes], expected: &[Bytes], name: &str) {
    if found == expected {
        return;
    }
    let at = found.iter().zip(expected).take_while(|(one, other)| one == other).count();
    let around = |records: &[Bytes]| texts(&records[at.saturating_sub(4)..records.len().min(at + 5)]).join("\n  ");
    panic!("{name}: record {}\nfound:\n  {}\nexpected:\n  {}", at + 1, around(found), around(expected));
}

#[test]
fn the_example_comes_back() {
    let records = raw(example::records());
    let (found, losses) = there_and_back(&records);
    assert_same(&found, &records, "example");
    assert!(losses.is_empty(), "{losses}");
}

/// A trace of whatever a builder lets pass.
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
        // In a BasicPlus trace one says something new.
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
        // Before the first instruction an exception is told only if it leads there.
        if self.has_instruction && self.builder.redirected(by, target).is_ok() {
            self.level_up();
        }
    }

    /// Behind an exception the state is another one, or is told again.
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
        if !records.iter().any(|record| record[0] == 1) {
            continue;
        }
        instructions += records.iter().filter(|record| record[0] == 1).count();
        traps += records.iter().filter(|record| record[0] == 5).count();
        let (found, losses) = there_and_back(&records);
        assert_same(&found, &records, &format!("seed {seed}"));
        assert!(losses.is_empty(), "seed {seed}: {losses}");
    }
    assert!(instructions > 100_000 && traps > 5_000, "{instructions} instructions and {traps} traps");
}

/// Nothing was executed in some of these contexts; they are told all the same.
#[test]
fn contexts_without_instructions_come_back() {
    let mut trace = Builder::new(Vec::new(), &Header::new(Level::BasicPlus, false, Storage::Raw)).unwrap();
    let at = |el| State { el, handler: el > 0, ..State::default() };
    trace.context(&at(1)).unwrap();
    trace.context(&State { unsupported: true, ..at(1) }).unwrap();
    for process in [1, 2, 3] {
        trace.context(&State { process: Some(Process { pid: process, tid: None }), ..at(1) }).unwrap();
    }
    trace.instruction(&BuildStep::plain(0x8000, NOP)).unwrap();
    let records = trace.finish();
    let (back, losses) = there_and_back(&records);
    assert_same(&back, &records, "contexts");
    assert!(losses.is_empty(), "{losses}");
}

/// A source that tells what a Tarmac log tells.
fn everything() -> Coverage {
    Coverage::of(&Facet::ALL)
}

fn step(event: Event) -> Step {
    let mut step = Step::default();
    step.event = event;
    step
}

fn executed(address: u64, opcode: u32) -> Step {
    let opcode = Some(opcode);
    step(Event::Instruction(Instruction { address, opcode, length: 4, ..Instruction::default() }))
}

fn with(mut step: Step, change: impl FnOnce(&mut Step)) -> Step {
    change(&mut step);
    step
}

/// So many bytes of an address are written into x0.
fn pointed(step: Step, bytes: usize) -> Step {
    with(step, |step| step.write_register("x0", 0, &0x1240_u64.to_le_bytes()[..bytes]))
}

fn tagged_pointer() -> Step {
    let address = 0xf700_0000_0000_1240_u64;
    with(step(Event::State), |step| step.write_register("x0", 0, &address.to_le_bytes()))
}

fn branched(address: u64, opcode: u32, target: Option<u64>) -> Step {
    let branch = Some(Branch { taken: target.is_some(), target });
    let opcode = Some(opcode);
    step(Event::Instruction(Instruction { address, opcode, length: 4, branch, ..Instruction::default() }))
}

fn raised(kind: ExceptionKind, class: Option<u8>, target: u64) -> Step {
    step(Event::Exception(Exception { kind, class, target: Some(target), ..Exception::default() }))
}

fn at(level: u8) -> Step {
    let security = Some(Security::NonSecure);
    let is_handler = Some(level > 0);
    step(Event::Context(Context { level: Some(level), security, is_handler, ..Context::default() }))
}

fn note(text: &str) -> Step {
    with(Step::default(), |step| step.set_note(text))
}

/// How rows are written: at a level, with a unit of time.
fn lower(steps: &[Step], level: Level, unit: TimeUnit, assumed: Context) -> Result<(Vec<Bytes>, Losses), SinkError> {
    let options = LowerOptions { level: Some(level), assumed, ..LowerOptions::default() };
    let header = header(everything(), unit, &options)?;
    let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, everything(), unit, &options)?;
    for (position, step) in steps.iter().enumerate() {
        let mut step = step.clone();
        step.position = position as u64;
        lowerer.push(&step)?;
    }
    lowerer.finish()?;
    let losses = lowerer.losses().clone();
    let records = lowerer.into_sink();
    assert_eq!(errors(&records), [""; 0]);
    Ok((records, losses))
}

/// What an emulator tells no address of is left out, by kind; all else is refused as ever.
#[test]
fn what_is_untold_is_left_out_by_kind() {
    let options = LowerOptions { level: Some(Level::Basic), leave_out: true, ..LowerOptions::default() };
    let facets = Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Accesses, Facet::Levels, Facet::Security]);
    let lowered = |opcode: u32| {
        let header = header(facets, TimeUnit::Unknown, &options).unwrap();
        let sink = vec![header.to_bytes()];
        let mut lowerer = Lowerer::new(sink, &header, facets, TimeUnit::Unknown, &options).unwrap();
        let modes = Some(Modes { vector_length: 3, ..Modes::default() });
        let context = Context { level: Some(0), security: Some(Security::NonSecure), modes, ..Context::default() };
        lowerer.push(&step(Event::Context(context)))?;
        for (address, opcode) in [(0x1000, NOP), (0x1004, opcode), (0x1008, opcode), (0x100c, NOP)] {
            lowerer.push(&executed(address, opcode))?;
        }
        lowerer.finish()?;
        let left_out: Vec<_> = lowerer.left_out().map(|one| (one.kind, one.count, one.first)).collect();
        let lost = lowerer.losses().of(Loss::Instructions).count;
        assert_eq!(errors(&lowerer.into_sink()), [""; 0]);
        Ok::<_, SinkError>((left_out, lost))
    };
    let rows: &[(&str, u32, Option<UnrecordedAccess>)] = &[
        ("a prefetch", PRFM, Some(UnrecordedAccess::Prefetches)),
        ("an operation on caches", DC, Some(UnrecordedAccess::CacheMaintenance)),
        ("a block", ZVA, Some(UnrecordedAccess::Zeroing)),
        ("a vector, perhaps kept from memory by its predicate", LD1B, Some(UnrecordedAccess::Vectors)),
        ("an exclusive store that failed", STXR, None),
        ("no access at all", ADD, None),
    ];
    for (name, opcode, kind) in rows {
        let expected: Vec<_> = kind.iter().map(|kind| (*kind, 2, 0x1004)).collect();
        let count = 2 * expected.len() as u64;
        assert_eq!(lowered(*opcode).unwrap(), (expected, count), "{name}");
    }
    for opcode in [LDR, STR, LDADD, CAS] {
        assert!(lowered(opcode).unwrap_err().to_string().contains("has no address"), "{opcode:#x}");
    }
}

/// A record in a few words.
fn short(record: &Bytes) -> String {
    match Record::from_bytes(record) {
        Record::Instruction(record) => {
            let mut text = format!("{:x}", record.pc);
            let flags = [(record.is_read, "r"), (record.is_write, "w"), (record.is_branch, "b"), (record.trap, "t")];
            flags.iter().filter(|flag| flag.0).for_each(|flag| text.push_str(&format!(" {}", flag.1)));
            if record.ea_valid {
                text.push_str(&format!(" {:x}+{}", record.ea, u16::from(record.ea_size) + 1));
            }
            text
        }
        Record::Trap(trap) => {
            format!("trap {} class {:x} call {} to {:x}", trap.trap_type, trap.ec, trap.syscall_index, trap.target_pc)
        }
        Record::Context(context) if context.unsupported => "unsupported".into(),
        Record::Context(context) => {
            let stack = if context.handler { "h" } else { "t" };
            let modes = format!(
                "{}{}",
                if context.pstate_sm { " sm" } else { "" },
                if context.pstate_dit { " dit" } else { "" }
            );
            format!("el{}{stack}{}{modes}", context.el, if context.secure { " secure" } else { "" })
        }
        Record::StringStart(string) => {
            String::from_utf8_lossy(&string.string[..usize::from(string.size).min(28)]).into_owned()
        }
        Record::Timestamp(time) => format!("t{}", time.value),
        other => format!("{other:?}"),
    }
}

fn shorts(records: &[Bytes]) -> String {
    let is_whole = |record: &&Bytes| !matches!(Record::from_bytes(record), Record::StringContinuation(_));
    records[1..].iter().filter(is_whole).map(short).collect::<Vec<_>>().join(", ")
}

const PLUS: Level = Level::BasicPlus;
const BASIC: Level = Level::Basic;
const NANOSECONDS: TimeUnit = TimeUnit::Seconds(-9);

fn esr(class: u8) -> [u8; 8] {
    (u64::from(class) << 26).to_le_bytes()
}

fn timed(step: Step, time: u64) -> Step {
    with(step, |step| step.time = Some(time))
}

fn isa(isa: Isa) -> Step {
    step(Event::Instruction(Instruction { address: 0x9000, opcode: Some(1), length: 4, isa, ..Instruction::default() }))
}

#[test]
fn what_is_not_told_follows_from_what_is() {
    use ExceptionKind::{Irq, Reset, Synchronous};
    type Row = (&'static str, Level, Vec<Step>, &'static str);
    let nop = || executed(0x100, NOP);
    let rows: Vec<Row> = vec![
        (
            "where branches led",
            PLUS,
            vec![
                at(0),
                executed(0x100, B_EQ),
                executed(0x108, B_EQ),
                executed(0x10c, RET),
                executed(0x200, B),
                executed(0x208, NOP),
            ],
            "el0t, 100 b 108+1, 108 b, 10c b 200+1, 200 b 208+1, 208",
        ),
        (
            "the class of a call, of a breakpoint, of an abort",
            PLUS,
            vec![
                at(1),
                executed(0x100, SVC),
                raised(Synchronous, None, 0x400),
                executed(0x400, BRK),
                with(raised(Synchronous, None, 0x400), |step| step.write_register("esr_el1", 0, &esr(0x3c))),
                with(executed(0x400, LDR), |step| step.write_register("far_el1", 0, &0x5008_u64.to_le_bytes())),
                with(raised(Synchronous, None, 0x400), |step| step.write_register("esr_el1", 0, &esr(0x25))),
                executed(0x400, NOP),
            ],
            "el1h, 100 t, trap 0 class 15 call 5 to 400, 400 t, trap 0 class 3c call 0 to 400, 400 t 5008+8, \
             trap 0 class 25 call 0 to 400, 400",
        ),
        (
            "an abort behind an access that was made is not its own",
            PLUS,
            vec![
                at(1),
                with(executed(0x100, LDR), |step| step.access(Direction::Read, 0x500, 8)),
                raised(Synchronous, Some(0x25), 0x400),
                executed(0x400, NOP),
            ],
            "el1h, 100 r 500+8, trap 0 class 25 call 0 to 400, 400",
        ),
        (
            "where a branch led that was interrupted",
            PLUS,
            vec![
                at(1),
                executed(0x100, B_EQ),
                with(raised(Irq, None, 0x480), |step| step.write_register("elr_el1", 0, &0x108_u64.to_le_bytes())),
                executed(0x480, NOP),
            ],
            "el1h, 100 b 108+1, trap 2 class 0 call 0 to 480, 480",
        ),
        (
            "where an exception returns to",
            PLUS,
            vec![
                at(1),
                executed(0x100, ERET),
                step(Event::ExceptionReturn { target: None }),
                at(0),
                executed(0x8, NOP),
            ],
            "el1h, 100, trap 4 class 0 call 0 to 8, el0t, 8",
        ),
        (
            "a reset that leads to the first instruction",
            PLUS,
            vec![raised(Reset, None, 0x100), at(1), nop()],
            "trap 5 class 0 call 0 to 100, el1h, 100",
        ),
        (
            "the stack pointer and modes that an instruction selects",
            BASIC,
            vec![
                step(Event::Context(Context {
                    level: Some(1),
                    security: Some(Security::Secure),
                    ..Context::default()
                })),
                executed(0x100, SPSEL_0),
                executed(0x104, SMSTART),
                executed(0x108, NOP),
            ],
            "el1h secure, 100, el1t secure, 104, el1t secure sm, 108",
        ),
        (
            "a pair in two lines",
            PLUS,
            vec![
                at(0),
                with(executed(0x100, LDP), |step| {
                    step.access(Direction::Read, 0x508, 8);
                    step.access(Direction::Read, 0x500, 8);
                }),
            ],
            "el0t, 100 r 500+16",
        ),
        (
            "gaps in a Basic trace",
            BASIC,
            vec![at(0), nop(), step(Event::Gap(Gap::Overflow)), executed(0x200, NOP), executed(0x300, NOP)],
            "el0t, 100, gap: the trace unit had no r, el0t, 200, gap: execution goes on elsew, el0t, 300",
        ),
        ("a start is no gap", PLUS, vec![step(Event::Gap(Gap::Start)), at(0), nop()], "el0t, 100"),
        (
            "one timestamp for each microsecond",
            PLUS,
            vec![timed(at(0), 1000), timed(nop(), 1000), timed(executed(0x104, NOP), 2000)],
            "t1, el0t, 100, t2, 104",
        ),
        (
            "suspended",
            PLUS,
            vec![
                timed(at(0), 1000),
                timed(nop(), 1000),
                timed(step(Event::State), 2000),
                timed(step(Event::State), 9000),
            ],
            "t1, el0t, 100, t2, t9",
        ),
        ("a note", PLUS, vec![note("hello"), at(0), nop()], "hello, el0t, 100"),
        (
            "what no access shows, from registers before they change",
            PLUS,
            vec![
                at(0),
                pointed(step(Event::State), 8),
                with(executed(0x100, DC), |step| step.write_register("x0", 0, &0x2000_u64.to_le_bytes())),
                executed(0x104, B),
                executed(0x10c, PRFM),
                with(executed(0x110, NOP), |step| step.write_register("x2", 0, &(-16_i64).to_le_bytes())),
                with(executed(0x114, SETM), |step| step.write_register("x2", 0, &[0; 8])),
                executed(0x118, SETM),
            ],
            "el0t, 100 1240+1, 104 b 10c+1, 10c 2000+1, 110, 114 w 1ff0+1, 118 w 2000+1",
        ),
        (
            "and across an exception",
            PLUS,
            vec![
                at(1),
                pointed(nop(), 8),
                raised(Irq, None, 0x480),
                executed(0x480, DC),
                executed(0x484, ERET),
                step(Event::ExceptionReturn { target: None }),
                executed(0x104, PRFM),
            ],
            "el1h, 100, trap 2 class 0 call 0 to 480, 480 1240+1, 484, trap 4 class 0 call 0 to 104, 104 1240+1",
        ),
        (
            "but not where an exception kept it from completing",
            PLUS,
            vec![
                at(1),
                pointed(nop(), 8),
                executed(0x104, DC),
                raised(Synchronous, Some(0x18), 0x200),
                executed(0x200, NOP),
            ],
            "el1h, 100, 104 t, trap 0 class 18 call 0 to 200, 200",
        ),
        (
            "a tag of a register is no part of it",
            PLUS,
            vec![at(0), tagged_pointer(), executed(0x100, DC)],
            "el0t, 100 1240+1",
        ),
    ];
    for (name, level, steps, expected) in rows {
        let unit = if steps.iter().any(|step| step.time.is_some()) { NANOSECONDS } else { TimeUnit::Unknown };
        let assumed = Context { is_handler: Some(true), ..Context::default() };
        let (records, _) = lower(&steps, level, unit, assumed).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shorts(&records), expected, "{name}");
    }
}

#[test]
fn each_loss_is_counted() {
    use ExceptionKind::{Debug, Irq, Synchronous};
    type Row = (&'static str, Level, TimeUnit, Vec<Step>, &'static [(Loss, u64)]);
    let unit = TimeUnit::Unknown;
    let nop = || executed(0x100, NOP);
    let rows: Vec<Row> = vec![
        ("nothing", PLUS, unit, vec![at(0), nop()], &[]),
        (
            "another instruction set",
            PLUS,
            unit,
            vec![at(0), nop(), isa(Isa::T32), isa(Isa::A32)],
            &[(Loss::Instructions, 2)],
        ),
        ("another, in Basic", BASIC, unit, vec![at(0), nop(), isa(Isa::T32)], &[(Loss::Instructions, 1)]),
        ("a branch at the end", PLUS, unit, vec![at(0), nop(), executed(0x104, RET)], &[(Loss::Instructions, 1)]),
        (
            "what did not complete, in Basic",
            BASIC,
            unit,
            vec![at(0), nop(), executed(0x104, LDR), raised(Synchronous, Some(0x24), 0x400), executed(0x104, NOP)],
            &[(Loss::Instructions, 1), (Loss::Exceptions, 1)],
        ),
        (
            "an opcode that nobody knows",
            PLUS,
            unit,
            vec![
                at(1),
                nop(),
                step(Event::Instruction(Instruction { address: 0x104, ..Instruction::default() })),
                raised(Synchronous, Some(0x21), 0x400),
            ],
            &[(Loss::UnknownOpcodes, 1)],
        ),
        (
            "a condition",
            PLUS,
            unit,
            vec![
                at(0),
                step(Event::Instruction(Instruction {
                    address: 0x100,
                    opcode: Some(NOP),
                    is_executed: Some(false),
                    ..Instruction::default()
                })),
            ],
            &[(Loss::Conditions, 1)],
        ),
        (
            "an access of a branch",
            PLUS,
            unit,
            vec![at(0), with(branched(0x100, RET, Some(0x200)), |step| step.access(Direction::Read, 0, 8))],
            &[(Loss::Accesses, 1)],
        ),
        (
            "the tag of an address",
            PLUS,
            unit,
            vec![at(0), with(executed(0x100, LDR), |step| step.access(Direction::Read, 0xf7 << 56, 8))],
            &[(Loss::Tags, 1)],
        ),
        (
            "data",
            PLUS,
            unit,
            vec![at(0), with(executed(0x100, LDR), |step| step.access_known(Direction::Read, 0, 8, [(1, 255); 8]))],
            &[(Loss::Data, 1)],
        ),
        (
            "registers",
            PLUS,
            unit,
            vec![
                at(0),
                with(nop(), |step| {
                    step.write_register("x0", 0, &[0; 8]);
                    step.write_register("x1", 0, &[0; 8]);
                }),
            ],
            &[(Loss::Registers, 2)],
        ),
        (
            "state",
            PLUS,
            unit,
            vec![with(step(Event::State), |step| step.write_register("x0", 0, &[0; 8])), at(0), nop()],
            &[(Loss::State, 1)],
        ),
        (
            "a reset that leads elsewhere",
            PLUS,
            unit,
            vec![raised(ExceptionKind::Reset, None, 0), at(1), nop()],
            &[(Loss::Exceptions, 1)],
        ),
        ("debug state", PLUS, unit, vec![at(1), nop(), raised(Debug, None, 0)], &[(Loss::Exceptions, 1)]),
        (
            "an interrupt, in Basic",
            BASIC,
            unit,
            vec![at(1), nop(), raised(Irq, None, 0x480), executed(0x480, NOP)],
            &[(Loss::Exceptions, 1)],
        ),
        (
            "where a call leads, in Basic",
            BASIC,
            unit,
            vec![at(0), executed(0x100, SVC), raised(Synchronous, Some(0x15), 0x400), executed(0x104, NOP)],
            &[(Loss::ExceptionDetails, 1)],
        ),
        (
            "a return address",
            PLUS,
            unit,
            vec![
                at(1),
                nop(),
                step(Event::Exception(Exception {
                    kind: Irq,
                    return_address: Some(0x104),
                    target: Some(0x480),
                    ..Exception::default()
                })),
            ],
            &[(Loss::ReturnAddresses, 1)],
        ),
        (
            "an exception return, in Basic",
            BASIC,
            unit,
            vec![at(1), executed(0x100, ERET), step(Event::ExceptionReturn { target: Some(8) }), executed(8, NOP)],
            &[(Loss::ExceptionReturns, 1)],
        ),
        (
            "a thread without its process",
            PLUS,
            unit,
            vec![at(0), step(Event::Context(Context { thread: Some(4), ..Context::default() })), nop()],
            &[(Loss::Processes, 1)],
        ),
        (
            "a virtual machine",
            PLUS,
            unit,
            vec![at(0), step(Event::Context(Context { vmid: Some(4), ..Context::default() })), nop()],
            &[(Loss::VirtualMachines, 1)],
        ),
        (
            "ticks, one for each change",
            PLUS,
            TimeUnit::Cycles,
            vec![timed(at(0), 5), timed(nop(), 5), timed(executed(0x104, NOP), 6)],
            &[(Loss::Times, 2)],
        ),
        ("time that goes back", PLUS, NANOSECONDS, vec![timed(at(0), 5000), timed(nop(), 4000)], &[(Loss::Times, 1)]),
        (
            "digits below the microsecond",
            PLUS,
            NANOSECONDS,
            vec![timed(at(0), 5000), timed(nop(), 5001), timed(executed(0x104, NOP), 6000)],
            &[(Loss::TimeDigits, 1)],
        ),
        (
            "a note in a mode that is not supported",
            PLUS,
            unit,
            vec![at(0), nop(), isa(Isa::A32), note("lost")],
            &[(Loss::Instructions, 1), (Loss::Notes, 1)],
        ),
    ];
    let mut seen = Vec::new();
    for (name, level, unit, steps, expected) in rows {
        let (_, losses) =
            lower(&steps, level, unit, Context::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found: Vec<(Loss, u64)> = losses.iter().map(|(loss, lost)| (loss, lost.count)).collect();
        assert_eq!(found, expected, "{name}");
        seen.extend(found.iter().map(|(loss, _)| *loss));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, LOSSES, "every loss has a row");
}

#[test]
fn each_refusal_says_why() {
    use ExceptionKind::{Irq, Synchronous, Unknown};
    type Row = (&'static str, Level, Vec<Step>, Option<u64>, &'static str);
    let nop = || executed(0x100, NOP);
    let context = |context: Context| step(Event::Context(context));
    let secure = Some(Security::Secure);
    let rows: Vec<Row> = vec![
        ("RISC-V", PLUS, vec![at(0), isa(Isa::Rv64)], Some(1), "RISC-V"),
        ("AArch32 only", PLUS, vec![at(0), isa(Isa::T32)], None, "AArch64 only"),
        ("nothing", PLUS, vec![at(0)], None, "AArch64 only"),
        ("two cores", PLUS, vec![at(0), with(nop(), |step| step.core = 1)], Some(1), "--core"),
        ("no level", PLUS, vec![nop(), executed(0x104, NOP)], Some(0), "el=0..3"),
        (
            "no security",
            PLUS,
            vec![context(Context { level: Some(0), ..Context::default() }), nop()],
            Some(1),
            "security=secure|nonsecure",
        ),
        (
            "no stack pointer",
            PLUS,
            vec![context(Context { level: Some(1), security: secure, ..Context::default() }), nop()],
            Some(1),
            "sp=0|x",
        ),
        (
            "Realm",
            PLUS,
            vec![context(Context { level: Some(0), security: Some(Security::Realm), ..Context::default() }), nop()],
            Some(1),
            "no Realm",
        ),
        ("a gap", PLUS, vec![at(0), nop(), step(Event::Gap(Gap::Damaged))], Some(2), "the trace is damaged"),
        ("elsewhere", PLUS, vec![at(0), nop(), executed(0x200, NOP)], Some(2), "write a Basic trace"),
        ("another level in Basic", BASIC, vec![at(0), nop(), at(1), executed(0x104, NOP)], Some(3), "BasicPlus"),
        (
            "no opcode",
            PLUS,
            vec![at(0), step(Event::Instruction(Instruction::default())), executed(4, NOP)],
            Some(1),
            "the opcode",
        ),
        (
            "a branch to nowhere",
            PLUS,
            vec![at(1), executed(0x100, RET), raised(Irq, None, 0x480), executed(0x480, NOP)],
            Some(1),
            "where nobody knows",
        ),
        ("no class", PLUS, vec![at(1), nop(), raised(Synchronous, None, 0x400)], Some(2), "class of this exception"),
        ("no kind", PLUS, vec![at(1), nop(), raised(Unknown, None, 0x400)], Some(2), "what kind of exception"),
        (
            "nowhere",
            PLUS,
            vec![
                at(1),
                nop(),
                step(Event::Exception(Exception { kind: Irq, ..Exception::default() })),
                step(Event::Gap(Gap::Start)),
                executed(0x480, NOP),
            ],
            Some(2),
            "where this exception leads",
        ),
        ("no access", PLUS, vec![at(0), executed(0x100, LDR)], Some(1), "does not tell the access"),
        ("no address", PLUS, vec![at(0), executed(0x100, PRFM)], Some(1), "depends on x0, which"),
        ("half an address", PLUS, vec![at(0), pointed(executed(0xfc, NOP), 4), executed(0x100, DC)], Some(2), "on x0,"),
        (
            "an address that may have changed behind a call",
            BASIC,
            vec![at(0), pointed(executed(0x100, SVC), 8), raised(Synchronous, None, 0x400), executed(0x104, PRFM)],
            Some(3),
            "on x0,",
        ),
        (
            "an address that may have changed in a gap",
            BASIC,
            vec![at(0), pointed(nop(), 8), step(Event::Gap(Gap::Overflow)), executed(0x104, PRFM)],
            Some(3),
            "on x0,",
        ),
        (
            "an address that may have changed elsewhere",
            BASIC,
            vec![at(0), pointed(nop(), 8), executed(0x200, PRFM)],
            Some(2),
            "on x0,",
        ),
        (
            "an address that another instruction set may have changed",
            BASIC,
            vec![at(0), pointed(nop(), 8), isa(Isa::A32), executed(0x104, PRFM)],
            Some(3),
            "on x0,",
        ),
        (
            "the wrong size",
            PLUS,
            vec![at(0), with(executed(0x100, LDR), |step| step.access(Direction::Read, 0, 4))],
            Some(1),
            "astf-memory-size",
        ),
        ("no vector length", PLUS, vec![at(0), executed(0x100, LD1B)], Some(1), "--assume vl=BITS"),
        (
            "no context behind EL0",
            PLUS,
            vec![at(0), executed(0x100, SVC), raised(Synchronous, None, 0x400), executed(0x400, NOP)],
            Some(3),
            "does not tell the state",
        ),
    ];
    for (name, level, steps, position, expected) in rows {
        match lower(&steps, level, TimeUnit::Unknown, Context::default()) {
            Err(SinkError::Refused { position: found, reason }) => {
                assert!(reason.contains(expected), "{name}: {reason}");
                assert_eq!(found, position, "{name}: {reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let timeless = [at(0), executed(0x100, NOP), timed(executed(0x104, NOP), 5000)];
    let error = lower(&timeless, PLUS, NANOSECONDS, Context::default()).unwrap_err();
    assert!(error.to_string().contains("tells no time"), "{error}");
}

#[test]
fn sources_that_tell_too_little_are_refused() {
    let all = [Facet::Instructions, Facet::Opcodes, Facet::Accesses, Facet::Levels, Facet::Security, Facet::Exceptions];
    let assumed = Context { level: Some(0), security: Some(Security::NonSecure), ..Context::default() };
    let basic = Some(Level::Basic);
    type Row = (&'static str, Option<Facet>, Context, Option<Level>, Result<Level, &'static str>);
    let rows: &[Row] = &[
        ("enough", None, Context::default(), None, Ok(PLUS)),
        ("enough for Basic", None, Context::default(), basic, Ok(BASIC)),
        ("no instructions", Some(Facet::Instructions), assumed, None, Err("instructions")),
        ("no opcodes", Some(Facet::Opcodes), assumed, None, Err("opcodes")),
        ("no accesses", Some(Facet::Accesses), assumed, None, Err("accesses")),
        ("no levels", Some(Facet::Levels), Context::default(), None, Err("el=0..3")),
        ("no levels, assumed", Some(Facet::Levels), assumed, None, Ok(PLUS)),
        ("no security", Some(Facet::Security), Context::default(), None, Err("security=secure|nonsecure")),
        ("no security, assumed", Some(Facet::Security), assumed, None, Ok(PLUS)),
        ("no exceptions", Some(Facet::Exceptions), assumed, None, Ok(BASIC)),
        ("no exceptions for BasicPlus", Some(Facet::Exceptions), assumed, Some(PLUS), Err("every exception")),
    ];
    for (name, without, assumed, level, expected) in rows {
        let facets: Vec<Facet> = all.into_iter().filter(|facet| Some(*facet) != *without).collect();
        let options = LowerOptions { level: *level, assumed: *assumed, ..LowerOptions::default() };
        match (header(Coverage::of(&facets), TimeUnit::Unknown, &options), expected) {
            (Ok(header), Ok(level)) => assert_eq!(header.level(), *level, "{name}"),
            (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{name}: {error}"),
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
    assert!(coverage().has(Facet::Accesses) && !coverage().has(Facet::Data));
}

#[test]
fn a_vector_length_may_be_assumed() {
    let modes = Some(Modes { vector_length: 1, ..Modes::default() });
    let steps = [at(0), with(executed(0x100, LD1B), |step| step.access(Direction::Read, 0x500, 32))];
    let (records, _) = lower(&steps, PLUS, TimeUnit::Unknown, Context { modes, ..Context::default() }).unwrap();
    let Record::Context(context) = Record::from_bytes(&records[1]) else { panic!() };
    assert_eq!(context.evl, 1);
}

/// An instruction as the lines of a log have it: where, the opcode, and each byte that was accessed, with a W if written.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    address: u64,
    opcode: u32,
    bytes: Vec<(u64, bool)>,
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// Reads the logs of this test, and no others: `IT (1) 8000 d503201f`, `MR4 8000:...`.
fn fast_model_lines(log: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[2..] {
            ["IT" | "IS", _, address, opcode, ..] => {
                lines.push(Line { address: hex(address), opcode: hex(opcode) as u32, bytes: Vec::new() });
            }
            [access, address, ..] if access.starts_with("MR") || access.starts_with("MW") => {
                let address = hex(address.split(':').next().unwrap());
                let bytes = (0..hex(&access[2..])).map(|at| (address + at, access.starts_with("MW")));
                lines.last_mut().unwrap().bytes.extend(bytes);
            }
            _ => {}
        }
    }
    lines
}

/// The same in the other style: `ES  (8000:d503201f)`, `LD 8000 ........ 01234567 ...` with sixteen bytes, the last first.
fn picture_lines(log: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "tic", "ES", position, ..] if position.starts_with('(') => {
                let (address, opcode) = position.trim_matches(['(', ')']).split_once(':').unwrap();
                lines.push(Line { address: hex(address), opcode: hex(opcode) as u32, bytes: Vec::new() });
            }
            [access @ ("LD" | "ST"), address, a, b, c, d, ..] => {
                let picture = [a, b, c, d].concat();
                let known = (0..16).filter(|at| !picture[30 - 2 * at..32 - 2 * at].contains('.'));
                let bytes = known.map(|at| (hex(address) + at as u64, access == "ST"));
                lines.last_mut().unwrap().bytes.extend(bytes);
            }
            _ => {}
        }
    }
    lines
}

/// The instructions of a trace in the same words, and where each branch led.
fn trace_lines(records: &[Bytes]) -> Vec<(Line, Option<Option<u64>>)> {
    let mut lines: Vec<(Line, Option<Option<u64>>)> = Vec::new();
    let mut item = |item: unspool_astf::lift::Item<'_>| {
        let unspool_astf::lift::Item::Instruction(executed) = item else { return };
        let instruction = executed.instruction;
        let mut bytes = Vec::new();
        for access in executed.accesses {
            assert!(access.read != access.write);
            bytes.extend((0..access.extent.bytes()).map(|at| (access.address + at, access.write)));
        }
        let branch = instruction.is_branch.then_some(instruction.ea_valid.then_some(instruction.ea));
        lines.push((Line { address: instruction.pc, opcode: instruction.iword, bytes }, branch));
    };
    let mut lifter = unspool_astf::lift::Lifter::new();
    records.iter().for_each(|record| lifter.push(record, &mut |_, told| item(told)));
    lifter.finish(&mut |_, told| item(told));
    lines
}

/// What a model shows of prefetches and maintenance: the opcode, and registers before it.
const OPERATIONS: &str = "\
1 clk IT (1) 00001000 d2840001 O EL1h_n : MOV x1,#0x2000
1 clk R X1 0000000000002000
2 clk IT (2) 00001004 910043ff O EL1h_n : ADD sp,sp,#0x10
2 clk R SP_EL1 0000000000009010
3 clk IT (3) 00001008 f9802020 O EL1h_n : PRFM PLDL1KEEP,[x1,#0x40]
4 clk IT (4) 0000100c f98003e0 O EL1h_n : PRFM PLDL1KEEP,[sp]
5 clk IT (5) 00001010 d50b7e21 O EL1h_n : DC CIVAC,x1
6 clk IT (6) 00001014 d34cfc21 O EL1h_n : LSR x1,x1,#12
6 clk R X1 0000000000000002
7 clk IT (7) 00001018 d5088321 O EL1h_n : TLBI VAE1IS,x1
8 clk IT (8) 0000101c d503201f O EL1h_n : NOP
";

#[test]
fn a_log_with_registers_tells_where_operations_go() {
    use unspool_tarmac as tarmac;
    let log = Cursor::new(OPERATIONS.as_bytes().to_vec());
    let reader = tarmac::read::Reader::new(log, tarmac::read::ReadOptions::default()).unwrap();
    let mut source = tarmac::steps::Steps::new(reader, false);
    let (facets, unit, options) = (source.coverage(), source.time_unit(), LowerOptions::default());
    let header = header(facets, unit, &options).unwrap();
    let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, facets, unit, &options).unwrap();
    source
        .each(&mut |step| {
            lowerer.push(step).unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
    lowerer.finish().unwrap();
    let records = lowerer.into_sink();
    assert_eq!(errors(&records), [""; 0]);
    let expected = "el1h, 1000, 1004, 1008 2040+1, 100c 9010+1, 1010 2000+1, 1014, 1018 2000+1, 101c";
    assert_eq!(shorts(&records), expected);
}

/// Branches of the program in the logs, and whether they are always taken.
fn branch(opcode: u32) -> Option<bool> {
    match opcode >> 24 {
        0x14..=0x17 | 0x94..=0x97 | 0xd6 => Some(true),
        0x34..=0x37 | 0x54 | 0xb4..=0xb7 => Some(false),
        _ => None,
    }
}

#[test]
fn logs_of_a_calculator_become_traces() {
    use unspool_tarmac as tarmac;
    let Some(folder) = corpus("tarmac") else { return };
    type Row = (&'static str, fn(&str) -> Vec<Line>, u64);
    let rows: [Row; 2] = [("fastmodel", fast_model_lines, 0), ("es-ld-st-style", picture_lines, 1)];
    for (name, parse, lost_exceptions) in rows {
        let log = std::fs::read(folder.join(format!("calculator-aarch64-{name}.tarmac"))).unwrap();
        let mut expected = parse(str::from_utf8(&log).unwrap());
        expected.iter_mut().for_each(|line| line.bytes.sort_unstable());
        let reader = tarmac::read::Reader::new(Cursor::new(log.clone()), tarmac::read::ReadOptions::default()).unwrap();
        let mut source = tarmac::steps::Steps::new(reader, false);
        let (facets, unit, options) = (source.coverage(), source.time_unit(), LowerOptions::default());
        let header = header(facets, unit, &options).unwrap();
        let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, facets, unit, &options).unwrap();
        source
            .each(&mut |step| {
                lowerer.push(step).unwrap();
                ControlFlow::Continue(())
            })
            .unwrap();
        lowerer.finish().unwrap();
        let losses = lowerer.losses().clone();
        let records = lowerer.into_sink();
        assert_eq!(errors(&records), [""; 0], "{name}");
        assert_eq!(losses.of(Loss::Instructions).count + losses.of(Loss::Accesses).count, 0, "{name}: {losses}");
        assert_eq!(losses.of(Loss::Exceptions).count, lost_exceptions, "{name}: {losses}");
        let found = trace_lines(&records);
        assert!(found.len() > 4000 && found.len() == expected.len(), "{name}: {}", found.len());
        for (at, ((line, led), expected_line)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(line, expected_line, "{name}, instruction {at}");
            let Some(next) = expected.get(at + 1).map(|next| next.address) else { continue };
            let is_taken = |is_always| is_always || next != line.address + 4;
            let expected_led = branch(line.opcode).map(|is_always| is_taken(is_always).then_some(next));
            assert_eq!(*led, expected_led, "{name}, instruction {at}");
        }
    }
}
