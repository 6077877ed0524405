//! A step in the layout of C, with arrays that the iterator keeps.

use std::ptr;

use unspool::model::{Direction, Event, Exception, Step};

use super::event::{UnspoolContext, UnspoolEvent, UnspoolException, UnspoolGap};
use crate::instructions::UnspoolInstruction;
use crate::known::*;
use crate::text::UnspoolText;

/// One event on one core, with the registers and memory that it changed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolStep {
    /// Record of an ASTF or STF file, line of a log, byte offset in a buffer of a capture.
    pub position: u64,
    /// Time in the unit of the trace, if UNSPOOL_KNOWN_TIME.
    pub time: u64,
    /// UNSPOOL_KNOWN_ bits of the members that have a value; `instruction`, `exception`, `context` and `gap` have their own.
    pub known: u32,
    /// Core; of a capture, index of the source.
    pub core: u32,
    /// Kind: it decides which of the next members has a meaning. The others are 0.
    pub event: UnspoolEvent,
    /// Of UNSPOOL_EVENT_INSTRUCTION.
    pub instruction: UnspoolInstruction,
    /// Of UNSPOOL_EVENT_EXCEPTION and UNSPOOL_EVENT_EXCEPTION_RETURN.
    pub exception: UnspoolException,
    /// Of UNSPOOL_EVENT_CONTEXT.
    pub context: UnspoolContext,
    /// Of UNSPOOL_EVENT_GAP.
    pub gap: UnspoolGap,
    /// Of UNSPOOL_EVENT_NOTE.
    pub note: UnspoolText,
    /// Memory accesses, in the order of the trace.
    pub accesses: *const UnspoolAccess,
    /// Number of accesses.
    pub access_count: usize,
    /// Register writes, in the order of the trace.
    pub registers: *const UnspoolRegisterWrite,
    /// Number of register writes.
    pub register_count: usize,
}

/// Direction of a memory access.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnspoolDirection {
    /// Reads.
    Read = 0,
    /// Writes.
    Write = 1,
    /// Reads and writes.
    Both = 2,
    /// Neither, as for a prefetch.
    Neither = 3,
}

impl From<Direction> for UnspoolDirection {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Read => Self::Read,
            Direction::Write => Self::Write,
            Direction::Both => Self::Both,
            Direction::Neither => Self::Neither,
        }
    }
}

/// A memory access.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolAccess {
    /// Address.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Data, lowest address first.
    pub bytes: *const u8,
    /// For each byte of the data, a mask of its known bits.
    pub known_bits: *const u8,
    /// Number of bytes of the data; 0: it is unknown.
    pub length: usize,
    /// Direction.
    pub direction: UnspoolDirection,
    /// Whether its tag is checked, or it accesses tags.
    pub is_tagged: bool,
}

/// New contents of a register or of a part of it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolRegisterWrite {
    /// Name of the register in lower case.
    pub name: UnspoolText,
    /// Contents, lowest byte first.
    pub bytes: *const u8,
    /// For each byte, a mask of its known bits.
    pub known_bits: *const u8,
    /// Number of bytes.
    pub length: usize,
    /// Lowest bit written.
    pub low: u16,
}

/// The step that C has, and the memory that it points to. Reused from step to step.
pub(super) struct LentStep {
    step: Step,
    lent: UnspoolStep,
    bytes: Vec<u8>,
    known_bits: Vec<u8>,
    accesses: Vec<UnspoolAccess>,
    registers: Vec<UnspoolRegisterWrite>,
}

impl Default for LentStep {
    fn default() -> Self {
        let step = Step::default();
        let lent = UnspoolStep::of(&step);
        let (bytes, known_bits, accesses, registers) = Default::default();
        Self { step, lent, bytes, known_bits, accesses, registers }
    }
}

impl LentStep {
    /// Takes a step and lends it, until the next one.
    pub(super) fn lend(&mut self, step: Step) -> *const UnspoolStep {
        self.step = step;
        self.lent = UnspoolStep::of(&self.step);
        self.copy_bytes();
        self.list_accesses();
        self.list_registers();
        &raw const self.lent
    }

    /// Copies all data first: pointers to it are valid only once it does not grow any more.
    fn copy_bytes(&mut self) {
        self.bytes.clear();
        self.known_bits.clear();
        let data = self.step.accesses().map(|access| access.bytes);
        for (byte, known) in data.chain(self.step.registers().map(|write| write.bytes)).flatten() {
            self.bytes.push(*byte);
            self.known_bits.push(*known);
        }
    }

    fn list_accesses(&mut self) {
        let mut data = Data { bytes: &self.bytes, known_bits: &self.known_bits };
        self.accesses.clear();
        self.accesses.extend(self.step.accesses().map(|access| {
            let (bytes, known_bits) = data.take(access.bytes.len());
            UnspoolAccess {
                address: access.address,
                size: access.size,
                bytes,
                known_bits,
                length: access.bytes.len(),
                direction: access.direction.into(),
                is_tagged: access.is_tagged,
            }
        }));
        (self.lent.accesses, self.lent.access_count) = array(&self.accesses);
    }

    fn list_registers(&mut self) {
        let mut data = Data { bytes: &self.bytes, known_bits: &self.known_bits };
        data.take(self.step.accesses().map(|access| access.bytes.len()).sum());
        self.registers.clear();
        self.registers.extend(self.step.registers().map(|write| {
            let (bytes, known_bits) = data.take(write.bytes.len());
            let (name, length, low) = (UnspoolText::new(write.name), write.bytes.len(), write.low);
            UnspoolRegisterWrite { name, bytes, known_bits, length, low }
        }));
        (self.lent.registers, self.lent.register_count) = array(&self.registers);
    }
}

/// Copied data that no item points to yet.
struct Data<'b> {
    bytes: &'b [u8],
    known_bits: &'b [u8],
}

impl Data<'_> {
    /// Pointers to the next bytes; NULL if there are none.
    fn take(&mut self, length: usize) -> (*const u8, *const u8) {
        let (bytes, rest) = self.bytes.split_at(length);
        let (known_bits, known_rest) = self.known_bits.split_at(length);
        (self.bytes, self.known_bits) = (rest, known_rest);
        (array(bytes).0, array(known_bits).0)
    }
}

/// An array for C; NULL if it is empty.
fn array<T>(items: &[T]) -> (*const T, usize) {
    (if items.is_empty() { ptr::null() } else { items.as_ptr() }, items.len())
}

impl UnspoolStep {
    /// The step without its accesses and register writes.
    fn of(step: &Step) -> Self {
        let mut known = Known::default();
        let (exception, context, gap) = match &step.event {
            Event::Exception(exception) => (*exception, Default::default(), None),
            Event::ExceptionReturn { target } => {
                (Exception { target: *target, ..Exception::default() }, Default::default(), None)
            }
            Event::Context(context) => (Exception::default(), *context, None),
            Event::Gap(gap) => (Exception::default(), Default::default(), Some(*gap)),
            _ => Default::default(),
        };
        Self {
            position: step.position,
            time: known.value(UNSPOOL_KNOWN_TIME, step.time),
            known: known.0,
            core: step.core,
            event: (&step.event).into(),
            instruction: (&step.event.instruction().copied().unwrap_or_default()).into(),
            exception: (&exception).into(),
            context: UnspoolContext::from(&context),
            gap: UnspoolGap::from(gap),
            note: if step.event == Event::Note { UnspoolText::new(step.note()) } else { UnspoolText::ABSENT },
            accesses: ptr::null(),
            access_count: 0,
            registers: ptr::null(),
            register_count: 0,
        }
    }
}
