//! Records as instructions, with what belongs to each.
//!
//! records ─▶ **instructions** with accesses, context, trap and time; and what happens between them
//!
//! Nothing is judged and nothing is dropped: a record that does not belong to what stands before it is told as it is.

use unspool_isa::{ControlFlow, Isa, decode};

use super::access::Access;
use super::layout::Bytes;
use super::record::{Context, ExtraEa, Instruction, Record, StringStart, Timestamp, Trap, trap_type};

/// More accesses than any instruction can make: four vectors of 256 bytes, byte by byte, and as many again.
const MOST_ACCESSES: usize = 1 << 12;

/// Timestamps that may stand between an instruction and its trap; real traces have one there, if any.
const MOST_BEHIND: usize = 16;

/// An instruction, and all that is known of its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed<'l> {
    /// The number of its record; that of the header is 1.
    pub record: u64,
    /// The record itself.
    pub instruction: Instruction,
    /// Its accesses to memory, in order.
    pub accesses: &'l [Access],
    /// The state that it was executed in, if it was told.
    pub context: Option<Context>,
    /// The exception that it raised, or its return from one, if that was told.
    pub trap: Option<Trap>,
    /// The last timestamp before it.
    pub time: Option<u64>,
}

/// What a trace tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'l> {
    /// An instruction was executed, or was tried.
    Instruction(Executed<'l>),
    /// Execution was redirected, and no instruction was the cause.
    Trap(Trap),
    /// The state changed.
    Context(Context),
    /// Time passed.
    Timestamp(Timestamp),
    /// A string, whole.
    String(&'l [u8]),
    /// A record that does not belong to what stands before it, or of an unknown type.
    Stray(Record),
}

/// Takes the records of a trace and hands out what they tell.
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
    /// Records so far.
    record: u64,
    context: Option<Context>,
    time: Option<u64>,
    /// The last instruction, which may not be complete yet.
    open: Option<Open>,
    /// Timestamps behind it, while it waits for its trap.
    behind: Vec<(u64, Timestamp)>,
    accesses: Vec<Access>,
    string: Vec<u8>,
    /// The record that it starts with.
    string_record: u64,
    /// Bytes of the string that are still to come.
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
    /// Waits for the header.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next record; the header is the first. `tell` gets the number of the record that an item starts with.
    pub fn push(&mut self, bytes: &Bytes, tell: &mut impl FnMut(u64, Item<'_>)) {
        self.record += 1;
        let record = Record::from_bytes(bytes);
        if self.missing > 0 && !matches!(record, Record::StringContinuation(_)) {
            self.end_string(tell);
        }
        match record {
            Record::ExtraEa(extra) if self.wants_accesses() => self.extra(&extra),
            Record::Trap(trap) if self.belongs(&trap) => self.close(Some(trap), tell),
            Record::Timestamp(timestamp) if self.waits_for_trap() => {
                self.time = Some(timestamp.value);
                self.behind.push((self.record, timestamp));
            }
            other => {
                self.close(None, tell);
                self.other(other, tell);
            }
        }
    }

    /// Passes over so many instructions, to which no other records belong and of which the caller knows.
    pub(super) fn skip(&mut self, instructions: u64, tell: &mut impl FnMut(u64, Item<'_>)) {
        self.finish(tell);
        self.record += instructions;
    }

    /// The number of the next record, and the last timestamp before it.
    pub(super) fn position(&self) -> (u64, Option<u64>) {
        (self.record + 1, self.time)
    }

    /// Ends the trace.
    pub fn finish(&mut self, tell: &mut impl FnMut(u64, Item<'_>)) {
        self.close(None, tell);
        if self.missing > 0 {
            self.end_string(tell);
        }
    }

    fn other(&mut self, record: Record, tell: &mut impl FnMut(u64, Item<'_>)) {
        let number = self.record;
        match record {
            Record::Instruction(instruction) => self.open(instruction),
            Record::Context(context) => {
                self.context = Some(context);
                tell(number, Item::Context(context));
            }
            Record::Timestamp(timestamp) => {
                self.time = Some(timestamp.value);
                tell(number, Item::Timestamp(timestamp));
            }
            Record::Trap(trap) => tell(number, Item::Trap(trap)),
            Record::StringStart(start) => self.start_string(&start, tell),
            Record::StringContinuation(rest) if self.missing > 0 => self.add(&rest.string, tell),
            // The header says how the trace is stored, which is nothing that happens in it.
            Record::Header(_) if number == 1 => {}
            stray => tell(number, Item::Stray(stray)),
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
        self.open.is_some_and(|open| open.wants_accesses) && self.accesses.len() < MOST_ACCESSES
    }

    fn extra(&mut self, extra: &ExtraEa) {
        let (first, second) = extra.accesses();
        self.accesses.push(first);
        self.accesses.extend(second);
        if let Some(open) = &mut self.open {
            open.wants_accesses = extra.extra_eas;
        }
    }

    /// Is it the last instruction that redirected execution?
    fn belongs(&self, trap: &Trap) -> bool {
        let Some(Open { instruction, .. }) = &self.open else { return false };
        match trap.trap_type {
            trap_type::SYNCHRONOUS => instruction.trap,
            trap_type::EXCEPTION_RETURN => returns(instruction),
            _ => false,
        }
    }

    /// May the trap of the last instruction still come?
    fn waits_for_trap(&self) -> bool {
        let waits = self.open.is_some_and(|open| open.instruction.trap || returns(&open.instruction));
        waits && self.behind.len() < MOST_BEHIND
    }

    /// Nothing more belongs to the last instruction.
    fn close(&mut self, trap: Option<Trap>, tell: &mut impl FnMut(u64, Item<'_>)) {
        if let Some(Open { record, instruction, context, time, .. }) = self.open.take() {
            let accesses = &self.accesses[..];
            tell(record, Item::Instruction(Executed { record, instruction, accesses, context, trap, time }));
        }
        self.behind.drain(..).for_each(|(record, timestamp)| tell(record, Item::Timestamp(timestamp)));
    }

    fn start_string(&mut self, start: &StringStart, tell: &mut impl FnMut(u64, Item<'_>)) {
        self.string.clear();
        self.string_record = self.record;
        self.missing = usize::from(start.size);
        self.add(&start.string, tell);
    }

    fn add(&mut self, bytes: &[u8], tell: &mut impl FnMut(u64, Item<'_>)) {
        let fits = bytes.len().min(self.missing);
        self.string.extend_from_slice(&bytes[..fits]);
        self.missing -= fits;
        if self.missing == 0 {
            self.end_string(tell);
        }
    }

    /// All of it that there is.
    fn end_string(&mut self, tell: &mut impl FnMut(u64, Item<'_>)) {
        self.missing = 0;
        tell(self.string_record, Item::String(&self.string));
    }
}

/// Does it return from an exception?
fn returns(instruction: &Instruction) -> bool {
    decode(Isa::A64, instruction.pc, instruction.iword).flow == ControlFlow::ExceptionReturn
}
