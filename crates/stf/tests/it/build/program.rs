//! Programs with everything that a trace can contain, made from numbers.

use unspool_stf::builder::{
    Access, BuildError, Builder, Built, Cause, Event, Features, Header, Iem, Mode, RecordSink, Step,
};
use unspool_stf::record::{BusAccess, PageTableWalk, Register};

pub(crate) const START: u64 = 0x1000_0000;
pub(crate) const VLEN: u32 = 256;
pub(crate) const EVERYTHING: Features =
    Features(Features::OPERAND_VALUE.0 | 0x8 | 0x100 | 0x400 | 0x2000 | 0x4000 | Features::VEC.0);

/// Record before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Before {
    #[default]
    Nothing,
    Comment,
    Process([u32; 3]),
    Encoding(Iem),
}

/// An access with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) address: u64,
    pub(crate) bytes: u16,
    pub(crate) is_write: bool,
    pub(crate) contents: Vec<u64>,
}

impl Touch {
    fn access(&self) -> Access<'_> {
        let Self { address, bytes, is_write, ref contents } = *self;
        Access { address, bytes, is_write, attributes: 0, contents }
    }
}

/// An instruction of a program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    pub(crate) before: Before,
    pub(crate) pc: u64,
    pub(crate) opcode: u32,
    pub(crate) target: Option<u64>,
    pub(crate) accesses: Vec<Touch>,
    pub(crate) events: Vec<(Cause, Vec<u64>, Option<u64>)>,
    pub(crate) walk: Option<u64>,
    pub(crate) register: Option<(u16, u8, Vec<u8>)>,
    pub(crate) has_bus: bool,
    pub(crate) has_microop: bool,
}

/// A program with one instruction per number.
pub(crate) fn program(numbers: &[u64]) -> Vec<Line> {
    let mut pc = START;
    numbers
        .iter()
        .enumerate()
        .map(|(index, number)| {
            let line = line(index as u64, *number, pc);
            pc = next(&line);
            line
        })
        .collect()
}

fn next(line: &Line) -> u64 {
    let redirected = line.events.iter().rev().find_map(|event| event.2);
    redirected.or(line.target).unwrap_or(line.pc + if line.opcode & 3 == 3 { 4 } else { 2 })
}

fn line(index: u64, number: u64, pc: u64) -> Line {
    let away = START + (number >> 16 & 0xfff) * 2;
    let memory = 0x2000_0000 + (number >> 28 & 0xffff);
    let mode = [Mode::User, Mode::Supervisor, Mode::Hypervisor, Mode::Machine][(number >> 44 & 3) as usize];
    let touch = |bytes: u16, is_write| {
        let words = usize::from(bytes).div_ceil(8);
        let last = if bytes.is_multiple_of(8) { u64::MAX } else { (1 << (8 * (bytes % 8))) - 1 };
        let contents = (0..words).map(|at| if at + 1 == words { number & last } else { number }).collect();
        Touch { address: memory, bytes, is_write, contents }
    };
    let plain = Line { pc, opcode: 0x13, ..Line::default() };
    let load = Line { opcode: 0x0007_2783, accesses: vec![touch(4, false)], ..plain.clone() };
    match number % 23 {
        0 => Line { opcode: 0x1, ..plain },
        1 => Line { opcode: 0x463, ..plain },
        2 => Line { opcode: 0x463, target: Some(pc + 8), ..plain },
        3 => Line { opcode: 0x0080_006f, target: Some(pc + 8), ..plain },
        4 => Line { opcode: 0x8067, target: Some(away), ..plain },
        5 => load,
        6 => Line { opcode: 0x00f7_0023, accesses: vec![touch(1, true)], ..plain },
        7 => Line { opcode: 0x00f7_27af, accesses: vec![touch(4, false), touch(4, true)], ..plain },
        8 => Line { opcode: 0x18f7_27af, ..plain },
        9 => Line { opcode: 0x0205_7087, accesses: vec![touch(30, false)], ..plain },
        10 => {
            let events = vec![
                (Cause::Fault(13), vec![pc, 0x0007_2783, memory], Some(away)),
                (Cause::Mode(Mode::Machine), vec![], None),
            ];
            Line { opcode: 0x0007_2783, events, ..plain }
        }
        11 => Line { events: vec![(Cause::Interrupt(7), vec![0], Some(away))], ..plain },
        12 => {
            Line { opcode: 0x3020_0073, target: Some(away), events: vec![(Cause::Mode(mode), vec![], None)], ..plain }
        }
        13 => Line { pc: away, ..plain },
        14 => Line { before: Before::Comment, ..plain },
        15 => Line { before: Before::Process([1, number as u32, 3]), ..plain },
        16 => Line { before: Before::Encoding(if number >> 50 & 1 == 0 { Iem::Rv32 } else { Iem::Rv64 }), ..plain },
        17 => Line { walk: Some(index), ..load },
        18 => Line { has_microop: true, ..plain },
        19 => Line { register: Some((5, 0x31, number.to_le_bytes().to_vec())), ..plain },
        20 => Line { register: Some((7, 0x13, vec![number as u8; 32])), ..plain },
        21 => Line { has_bus: true, ..plain },
        _ => plain,
    }
}

/// Writes a line to the builder.
pub(crate) fn write<S: RecordSink>(line: &Line, trace: &mut Builder<S>) -> Result<(), BuildError> {
    match line.before {
        Before::Nothing => {}
        Before::Comment => trace.comment("here")?,
        Before::Process(ids) => trace.process(ids)?,
        Before::Encoding(iem) => trace.encoding(iem)?,
    }
    let entries = [0x9000_u64.to_le_bytes(), 0xf_u64.to_le_bytes()].concat();
    let walk = |first_use| PageTableWalk { address: 0x2000_0000, first_use, page_size: 4096, entries: &entries };
    let walks: Vec<PageTableWalk<'_>> = line.walk.into_iter().map(walk).collect();
    let registers: Vec<Register<'_>> =
        line.register.iter().map(|(number, meta, value)| Register { number: *number, meta: *meta, value }).collect();
    let accesses: Vec<Access<'_>> = line.accesses.iter().map(Touch::access).collect();
    let events: Vec<Event<'_>> =
        line.events.iter().map(|(cause, data, target)| Event { cause: *cause, data, target: *target }).collect();
    let other = (BusAccess { address: 0x3000, size: 8, initiator: 3, index: 0, attributes: 0, kind: 2 }, &[1_u64][..]);
    trace.instruction(&Step {
        target: line.target,
        registers: &registers,
        walks: &walks,
        accesses: &accesses,
        bus: if line.has_bus { std::slice::from_ref(&other) } else { &[] },
        events: &events,
        microops: if line.has_microop { &[(4, 0x13), (2, 1)] } else { &[] },
        ..Step::plain(line.pc, line.opcode)
    })
}

/// Writes a program with these features.
pub(crate) fn built(lines: &[Line], features: Features) -> Result<Built<Vec<u8>>, BuildError> {
    let header = Header {
        features,
        accesses: true,
        mode: Some(Mode::Supervisor),
        vlen: Some(VLEN),
        isa_extended: Some("rv64gcv"),
        comments: &["a program"],
        ..Header::new(START)
    };
    let mut trace = Builder::new(Vec::new(), &header)?;
    lines.iter().try_for_each(|line| write(line, &mut trace))?;
    Ok(trace.finish())
}

/// A trace whose header declares just the features that it uses.
pub(crate) fn trace(lines: &[Line]) -> Vec<u8> {
    let unused = built(lines, EVERYTHING).unwrap().unused;
    let built = built(lines, EVERYTHING.without(unused)).unwrap();
    assert_eq!((built.unused, built.left), (Features::NONE, 0));
    built.sink
}
