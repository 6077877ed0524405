//! Lifting: records become instructions, each with what belongs to it.
//!
//! records ─▶ **instructions** with accesses, context, trap and time, and the events between them
//!
//! Nothing is checked and nothing is dropped: a record that does not belong to those before it is passed on as it is.

use unspool_isa::{ControlFlow, Isa, decode};

use super::access::Access;
use super::layout::Bytes;
use super::record::{Context, ExtraEa, Instruction, Record, StringStart, Timestamp, Trap, trap_type};

/// Maximum accesses of an instruction: four vectors of 256 bytes, byte by byte, and as many again.
const MAX_ACCESSES: usize = 1 << 12;

/// Maximum timestamps between an instruction and its trap; real traces have at most one.
const MAX_TIMESTAMPS: usize = 16;

/// An instruction, and all that is known of its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed<'l> {
    /// The number of its record; that of the header is 1.
    pub record: u64,
    /// The record itself.
    pub instruction: Instruction,
    /// Its accesses to memory, in order.
    pub accesses: &'l [Access],
    /// The state that it was executed in, if it is known.
    pub context: Option<Context>,
    /// The exception that it raised, or its return from one, if it is recorded.
    pub trap: Option<Trap>,
    /// The last timestamp before it.
    pub time: Option<u64>,
}

/// Event of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'l> {
    /// An instruction was executed or attempted.
    Instruction(Executed<'l>),
    /// Execution was redirected, not by an instruction.
    Trap(Trap),
    /// The state changed.
    Context(Context),
    /// Time passed.
    Timestamp(Timestamp),
    /// A whole string.
    String(&'l [u8]),
    /// A record that does not belong to those before it, or of an unknown type.
    Stray(Record),
}

/// Turns the records of a trace into items.
///
/// ```
/// use unspool_astf::{example, lift::{Item, Lifter}};
///
/// let (mut instructions, mut accesses) = (0, 0);
/// let mut count = |_number: u64, item: Item<'_>| {
///     if let Item::Instruction(executed) = item {
///         instructions += 1;
///         accesses += executed.accesses.len();
///     }
/// };
/// let mut lifter = Lifter::new();
/// example::records().iter().for_each(|record| lifter.push(record, &mut count));
/// lifter.finish(&mut count);
/// assert_eq!((instructions, accesses), (11, 8));
/// ```
#[derive(Debug, Default)]
pub struct Lifter {
    /// Number of records so far.
    record: u64,
    context: Option<Context>,
    time: Option<u64>,
    /// The last instruction, which may be incomplete.
    open: Option<Open>,
    /// Timestamps after it, while it waits for its trap.
    timestamps: Vec<(u64, Timestamp)>,
    accesses: Vec<Access>,
    string: Vec<u8>,
    /// The record that the string starts with.
    string_record: u64,
    /// Bytes of the string that are still missing.
    missing: usize,
}

/// An instruction to which more may belong.
#[derive(Debug, Clone, Copy)]
struct Open {
    record: u64,
    instruction: Instruction,
    context: Option<Context>,
    time: Option<u64>,
    /// More accesses follow.
    wants_accesses: bool,
}

impl Lifter {
    /// A lifter before the header.
    pub fn new() -> Self {
        Self::default()
    }

    /// Pushes the next record; the header is the first. `emit` gets the number of the record that an item starts with.
    pub fn push(&mut self, bytes: &Bytes, emit: &mut impl FnMut(u64, Item<'_>)) {
        self.record += 1;
        let record = Record::from_bytes(bytes);
        if self.missing > 0 && !matches!(record, Record::StringContinuation(_)) {
            self.end_string(emit);
        }
        match record {
            Record::ExtraEa(extra) if self.wants_accesses() => self.extra(&extra),
            Record::Trap(trap) if self.belongs(&trap) => self.close(Some(trap), emit),
            Record::Timestamp(timestamp) if self.waits_for_trap() => {
                self.time = Some(timestamp.value);
                self.timestamps.push((self.record, timestamp));
            }
            other => {
                self.close(None, emit);
                self.other(other, emit);
            }
        }
    }

    /// Skips instructions that the caller handles itself, and to which no other records belong.
    pub(super) fn skip(&mut self, instructions: u64, emit: &mut impl FnMut(u64, Item<'_>)) {
        self.finish(emit);
        self.record += instructions;
    }

    /// A lifter before a record that belongs to none of those before it.
    pub(super) fn resumed(next: u64, context: Option<Context>, time: Option<u64>) -> Self {
        Self { record: next.saturating_sub(1), context, time, ..Self::default() }
    }

    /// The context that the next instruction is executed in.
    pub(super) fn context(&self) -> Option<Context> {
        self.context
    }

    /// The number of the next record, and the last timestamp before it.
    pub(super) fn position(&self) -> (u64, Option<u64>) {
        (self.record + 1, self.time)
    }

    /// Ends the trace.
    pub fn finish(&mut self, emit: &mut impl FnMut(u64, Item<'_>)) {
        self.close(None, emit);
        if self.missing > 0 {
            self.end_string(emit);
        }
    }

    fn other(&mut self, record: Record, emit: &mut impl FnMut(u64, Item<'_>)) {
        let number = self.record;
        match record {
            Record::Instruction(instruction) => self.open(instruction),
            Record::Context(context) => {
                self.context = Some(context);
                emit(number, Item::Context(context));
            }
            Record::Timestamp(timestamp) => {
                self.time = Some(timestamp.value);
                emit(number, Item::Timestamp(timestamp));
            }
            Record::Trap(trap) => emit(number, Item::Trap(trap)),
            Record::StringStart(start) => self.start_string(&start, emit),
            Record::StringContinuation(rest) if self.missing > 0 => self.add(&rest.string, emit),
            // The header describes how the trace is stored.
            Record::Header(_) if number == 1 => {}
            stray => emit(number, Item::Stray(stray)),
        }
    }

    fn open(&mut self, instruction: Instruction) {
        self.accesses.clear();
        self.accesses.extend(instruction.access());
        self.open = Some(Open {
            record: self.record,
            instruction,
            context: self.context,
            time: self.time,
            wants_accesses: instruction.extra_eas,
        });
    }

    fn wants_accesses(&self) -> bool {
        self.open.is_some_and(|open| open.wants_accesses) && self.accesses.len() < MAX_ACCESSES
    }

    fn extra(&mut self, extra: &ExtraEa) {
        let (first, second) = extra.accesses();
        self.accesses.push(first);
        self.accesses.extend(second);
        if let Some(open) = &mut self.open {
            open.wants_accesses = extra.extra_eas;
        }
    }

    /// Whether the last instruction caused this trap.
    fn belongs(&self, trap: &Trap) -> bool {
        let Some(Open { instruction, .. }) = &self.open else { return false };
        match trap.trap_type {
            trap_type::SYNCHRONOUS => instruction.trap,
            trap_type::EXCEPTION_RETURN => returns(instruction),
            _ => false,
        }
    }

    /// Whether the trap of the last instruction may still follow.
    fn waits_for_trap(&self) -> bool {
        let waits = self.open.is_some_and(|open| open.instruction.trap || returns(&open.instruction));
        waits && self.timestamps.len() < MAX_TIMESTAMPS
    }

    /// Completes the last instruction.
    fn close(&mut self, trap: Option<Trap>, emit: &mut impl FnMut(u64, Item<'_>)) {
        if let Some(Open { record, instruction, context, time, .. }) = self.open.take() {
            let accesses = &self.accesses[..];
            emit(record, Item::Instruction(Executed { record, instruction, accesses, context, trap, time }));
        }
        self.timestamps.drain(..).for_each(|(record, timestamp)| emit(record, Item::Timestamp(timestamp)));
    }

    fn start_string(&mut self, start: &StringStart, emit: &mut impl FnMut(u64, Item<'_>)) {
        self.string.clear();
        self.string_record = self.record;
        self.missing = usize::from(start.size);
        self.add(&start.string, emit);
    }

    fn add(&mut self, bytes: &[u8], emit: &mut impl FnMut(u64, Item<'_>)) {
        let fits = bytes.len().min(self.missing);
        self.string.extend_from_slice(&bytes[..fits]);
        self.missing -= fits;
        if self.missing == 0 {
            self.end_string(emit);
        }
    }

    /// Emits the string, as far as it is there.
    fn end_string(&mut self, emit: &mut impl FnMut(u64, Item<'_>)) {
        self.missing = 0;
        emit(self.string_record, Item::String(&self.string));
    }
}

/// Whether it returns from an exception.
fn returns(instruction: &Instruction) -> bool {
    decode(Isa::A64, instruction.pc, instruction.iword).flow == ControlFlow::ExceptionReturn
}
