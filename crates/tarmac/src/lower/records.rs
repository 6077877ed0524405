//! Steps as records, without the text of lines: for what consumes records, such as the state of a machine.
//!
//! step ─▶ **instruction, accesses, registers** as [`Line`]s with an empty text
//!
//! The records are those of the lines that [`Lowerer`](super::Lowerer) writes, as far as they change registers or memory.
//! An access without data is one that writes unknown data, or none.

use unspool_model::{self as model, Context, Direction, Event, Isa, Step, TimeUnit};

use super::super::annotation::{GAP, LARGE_WRITE, core_name};
use super::super::opcode::letter;
use super::super::record::{self, Line, Record, Register, Stamp};
use super::super::value::Value;
use super::super::write::Style;
use super::accesses::push_byte;
use super::from_model::push_mode;
use super::registers::{bits, is_word, push_value, register_name};
use super::scale::Scale;

/// Size of the largest access that is one record.
const MAX_SIZE: u64 = 4096;

/// Size of the largest access of which each byte becomes unknown; after a larger one, no memory is known.
const MAX_UNKNOWN: u64 = 1 << 20;

/// The style of names and modes.
const STYLE: Style = Style::FastModels;

/// Converts steps of all cores to records.
#[derive(Debug)]
pub(crate) struct StepRecords {
    scale: Scale,
    cores: Vec<Core>,
    digits: Vec<u8>,
}

#[derive(Debug, Default)]
struct Core {
    name: String,
    context: Context,
    /// The mode as text, and the instruction set that it is of.
    mode: Option<(Isa, Vec<u8>)>,
}

impl StepRecords {
    /// A converter of the steps of a source with this unit of time.
    pub(crate) fn new(unit: TimeUnit) -> Self {
        Self { scale: Scale::new(unit, STYLE), cores: Vec::new(), digits: Vec::new() }
    }

    /// The contexts of all cores.
    pub(crate) fn contexts(&self) -> Vec<Context> {
        self.cores.iter().map(|core| core.context).collect()
    }

    /// Sets the contexts of the first cores.
    pub(crate) fn restore(&mut self, contexts: &[Context]) {
        for (number, context) in (0..).zip(contexts.iter().take(crate::state::MAX_CORES)) {
            self.cores.push(Core { name: core_name(number), context: *context, mode: None });
        }
    }

    /// Passes on the records of a step. Those of cores that no log can have are left out.
    pub(crate) fn each(&mut self, step: &Step, mut take: impl FnMut(&Line<'_>)) {
        let at = step.core as usize;
        if at >= crate::state::MAX_CORES {
            return;
        }
        let Self { scale, cores, digits } = self;
        while cores.len() <= at {
            cores.push(Core { name: core_name(cores.len() as u32), ..Core::default() });
        }
        let time = step.time.and_then(|time| scale.count(time)).map(|time| Stamp::At(scale.time(time)));
        let stamp = time.unwrap_or_default();
        cores[at].observe(&step.event);
        if let Event::Instruction(instruction) = &step.event {
            cores[at].find_mode(instruction.isa);
        }
        let core = &cores[at];
        let mut emit = |record: Record<'_>| take(&Line { raw: b"", stamp, core: Some(core.name.as_bytes()), record });
        match &step.event {
            Event::Instruction(instruction) => emit(Record::Instruction(core.record(instruction))),
            Event::Exception(_) => emit(Record::Asynchronous(b"")),
            Event::Gap(_) => emit(Record::Comment(GAP)),
            _ => {}
        }
        step.accesses().for_each(|access| emit_access(&access, digits, &mut emit));
        step.registers().for_each(|write| emit_register(&write, digits, &mut emit));
        // A step of another kind has a time, and may have nothing else.
        if time.is_some() && step.event.instruction().is_none() {
            take(&Line { raw: b"", stamp, core: None, record: Record::Blank });
        }
    }
}

fn emit_access(access: &model::Access<'_>, digits: &mut Vec<u8>, emit: &mut impl FnMut(Record<'_>)) {
    let has_data = access.bytes.len() as u64 == access.size && !access.bytes.is_empty();
    let direction = match access.direction {
        Direction::Read if has_data => record::Direction::Read,
        Direction::Write | Direction::Both => record::Direction::Write,
        Direction::Read | Direction::Neither => return,
    };
    if access.size > MAX_SIZE {
        if direction == record::Direction::Write {
            emit_unknown(access, emit);
        }
        return;
    }
    if access.size == 0 {
        return;
    }
    digits.clear();
    // Of an access that reads and writes, it is not known which of the two has this data.
    if has_data && access.direction != Direction::Both {
        access.bytes.iter().rev().for_each(|byte| push_byte(*byte, digits));
    }
    emit(Record::Access(record::Access {
        direction,
        size: access.size as u16,
        address: Some(access.address),
        data: Some(Value(digits)).filter(|data| !data.0.is_empty()),
        ..record::Access::default()
    }));
}

/// A write whose data is too much to be kept.
fn emit_unknown(access: &model::Access<'_>, emit: &mut impl FnMut(Record<'_>)) {
    if access.size > MAX_UNKNOWN {
        return emit(Record::Comment(LARGE_WRITE));
    }
    for at in (0..access.size).step_by(MAX_SIZE as usize) {
        emit(Record::Access(record::Access {
            direction: record::Direction::Write,
            size: MAX_SIZE.min(access.size - at) as u16,
            address: Some(access.address.wrapping_add(at)),
            ..record::Access::default()
        }));
    }
}

fn emit_register(write: &model::RegisterWrite<'_>, digits: &mut Vec<u8>, emit: &mut impl FnMut(Record<'_>)) {
    let mut name = [0; 32];
    let bits = if is_word(write) { Some(None) } else { bits(write) };
    let (Some(name), Some(bits)) = (register_name(STYLE, write.name, &mut name), bits) else { return };
    if let Some(first) = name.first_mut().filter(|_| is_word(write)) {
        *first = b'W';
    }
    push_value(write.bytes, digits);
    emit(Record::Register(Register { name, bits, value: Value(digits), ..Register::default() }));
}

impl Core {
    /// Follows contexts. What execution is in after a gap is unknown.
    fn observe(&mut self, event: &Event) {
        match event {
            Event::Context(context) => self.context = context.over(&self.context),
            Event::Gap(_) => self.context = Context::default(),
            _ => return,
        }
        self.mode = None;
    }

    fn find_mode(&mut self, isa: Isa) {
        if self.mode.as_ref().is_some_and(|(known, _)| *known == isa) {
            return;
        }
        let mut mode = Vec::new();
        if letter(isa).is_some() {
            push_mode(STYLE, &self.context, isa == Isa::A64, &mut mode);
        }
        self.mode = Some((isa, mode));
    }

    fn record(&self, instruction: &model::Instruction) -> record::Instruction<'_> {
        record::Instruction {
            address: Some(instruction.address),
            opcode: instruction.opcode,
            length: instruction.length,
            set: letter(instruction.isa),
            mode: self.mode.as_ref().map_or(b"", |(_, mode)| mode),
            is_executed: instruction.is_executed != Some(false),
            ..record::Instruction::default()
        }
    }
}
