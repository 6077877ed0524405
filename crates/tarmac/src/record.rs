//! Records: the content of Tarmac lines, the same for all dialects.
//!
//! A record borrows from its line. Text that is not parsed further (modes, disassembly, attributes, notes) is kept byte
//! for byte. Knows nothing of how records relate to each other.
//! Specification: ARM-EPM-041435, and the extensions of producers.

use std::fmt;

use super::annotation::is_gap;
use super::value::Value;

/// A line: time, core and record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line without its line end.
    pub raw: &'a [u8],
    /// The timestamp.
    pub stamp: Stamp,
    /// Name of the core or other component: `cpu0`, `cluster0.cpu1`, `0`.
    pub core: Option<&'a [u8]>,
    /// The content.
    pub record: Record<'a>,
}

/// The timestamp field of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stamp {
    /// Absent: the time of the previous line applies.
    #[default]
    Absent,
    /// Dashes: there is no time.
    Dashes,
    /// A time.
    At(Time),
}

/// A time as printed: `10.356000us` is 10356000 with 6 decimals, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    /// All digits as one number.
    pub value: u64,
    /// Number of digits after the decimal point.
    pub decimals: u8,
    /// The unit.
    pub unit: Unit,
}

/// Unit of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// Picoseconds.
    Ps,
    /// Femtoseconds.
    Fs,
    /// Clock cycles.
    Clk,
    /// Cycles, as some emulators print them.
    Cs,
    /// Cycles, as Cortex-M RTL prints them.
    Cyc,
    /// Ticks.
    Tic,
    /// No unit.
    None,
}

impl Unit {
    /// All units: those of seconds from the coarsest, then the others.
    pub(crate) const ALL: [Self; 11] = {
        use Unit::{Clk, Cs, Cyc, Fs, Ms, None, Ns, Ps, S, Tic, Us};
        [S, Ms, Us, Ns, Ps, Fs, Clk, Cs, Cyc, Tic, None]
    };

    /// The power of ten in seconds; `None`: it is no unit of seconds.
    pub(crate) fn power(self) -> Option<i8> {
        let index = self as i8;
        (index <= Self::Fs as i8).then_some(-3 * index)
    }

    /// The unit as printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::S => "s",
            Self::Ms => "ms",
            Self::Us => "us",
            Self::Ns => "ns",
            Self::Ps => "ps",
            Self::Fs => "fs",
            Self::Clk => "clk",
            Self::Cs => "cs",
            Self::Cyc => "cyc",
            Self::Tic => "tic",
            Self::None => "",
        }
    }
}

/// Content of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// An empty line.
    Blank,
    /// A comment: `#`, `;`, `//` or `*` at the start.
    Comment(&'a [u8]),
    /// `Tarmac Text Rev 3t`.
    Header(Header<'a>),
    /// An instruction: ES, IT, IS or IF with an address.
    Instruction(Instruction<'a>),
    /// An event that no instruction caused: `ES IRQ`, `ES Reset`.
    Asynchronous(&'a [u8]),
    /// `EXC [0x08] System Call`, with or without ES before it.
    Exception(Exception<'a>),
    /// An `E` line.
    Event(Event<'a>),
    /// A register write.
    Register(Register<'a>),
    /// A system operation in the notation of a register: `R DC CISW 00000000:00000000`.
    Operation(Operation<'a>),
    /// A memory access: `MR4 00009140 0000c0de`, `R08 ...`, `MNW4___D ...`.
    Access(Access<'a>),
    /// Bytes of an aligned chunk of memory: LD, LA, ST, SA, SX and their continuations.
    Picture(Picture<'a>),
    /// A coprocessor transfer: `MCW4___R (pc:serial) TRANSFER data`.
    Transfer(Access<'a>),
    /// A bus access: `BNR4O__I ...`, `BR4... I... O... master address data`.
    Bus(Access<'a>),
    /// `BR (00002d40) A`.
    Branch(Branch),
    /// Program flow: FD, FI, FR.
    Flow(Flow),
    /// A line of a known kind that is not parsed further.
    Opaque(OpaqueLine<'a>),
    /// A line that could not be parsed.
    Unknown(Problem),
}

impl Record<'_> {
    /// Whether an exception is taken: the accesses that follow are those of its entry.
    pub(crate) fn is_exception(&self) -> bool {
        match self {
            Self::Exception(_) | Self::Asynchronous(_) => true,
            Self::Event(event) => event.is_exception,
            _ => false,
        }
    }

    /// Whether part of the execution is missing here.
    #[inline]
    pub fn is_gap(&self) -> bool {
        matches!(self, Self::Comment(text) if is_gap(text))
    }

    /// Whether the record is the first line of a step.
    #[inline]
    pub(crate) fn begins_step(&self) -> bool {
        match self {
            Self::Instruction(_) | Self::Asynchronous(_) => true,
            Self::Exception(exception) => exception.is_step,
            _ => false,
        }
    }
}

/// `Tarmac Text Rev 3t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The revision.
    pub revision: u32,
    /// The flags after it: `t` announces timestamps.
    pub flags: &'a [u8],
}

/// First word of an instruction line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tag {
    /// ES: an execution step.
    #[default]
    Es,
    /// IT: an instruction was executed.
    It,
    /// IS: an instruction was skipped.
    Is,
    /// IF: an instruction was folded into the previous one.
    If,
}

/// Instruction set, by its letter in instruction lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// `A`: AArch32 ARM.
    A,
    /// `T`, `T16`, `T32`: AArch32 Thumb.
    T,
    /// `E` or `X`: ThumbEE.
    E,
    /// `O`: AArch64.
    O,
}

/// An instruction line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instruction<'a> {
    /// The first word.
    pub tag: Tag,
    /// The address; `None`: in debug state, from DBGITR or EDITR.
    pub address: Option<u64>,
    /// Number of digits of the address as printed.
    pub digits: u8,
    /// The physical address.
    pub physical: Option<Physical<'a>>,
    /// The physical address of the second half, if the instruction crosses a page.
    pub second_physical: Option<Physical<'a>>,
    /// The opcode; `None`: the fetch failed.
    pub opcode: Option<u32>,
    /// Number of bytes of the opcode: 2 or 4.
    pub length: u8,
    /// The instruction set; `None`: the line names none.
    pub set: Option<InstructionSet>,
    /// Mode and Security state as printed: `svc_s`, `EL3h_s`, `el0t_ns`; may be empty.
    pub mode: &'a [u8],
    /// Whether it was executed: neither IS nor CCFAIL.
    pub is_executed: bool,
    /// Instruction number of the producer.
    pub number: Option<u64>,
    /// The disassembly and any text after it; may be empty.
    pub text: &'a [u8],
}

/// A physical address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Physical<'a> {
    /// The address.
    pub address: u64,
    /// The address space as printed: `NS`, `S`, ...; may be empty.
    pub space: &'a [u8],
    /// Base 2 logarithm of the page size.
    pub page: Option<u8>,
}

/// `EXC [0x08] System Call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exception<'a> {
    /// Whether ES precedes it, so that it starts a step of its own.
    pub is_step: bool,
    /// The value in brackets: offset of the vector, or exception number on M-profile.
    pub vector: Option<i64>,
    /// The name.
    pub name: &'a [u8],
}

/// An `E` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event<'a> {
    /// The first value, usually the address of an instruction.
    pub value: Option<u64>,
    /// The mode, if there is one.
    pub mode: &'a [u8],
    /// Number of the event.
    pub number: Option<u32>,
    /// Name with all that follows: `CoreEvent_RESET`, `LOCKUP`.
    pub name: &'a [u8],
    /// Whether an exception is taken. Not every event is one: `CoreEvent_ModeChange`, `HRESETn`, `DebugEvent_...` are
    /// not.
    pub is_exception: bool,
}

/// A write to a register or to a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Register<'a> {
    /// Name of the register as printed.
    pub name: &'a [u8],
    /// Text in brackets after the name: `USR`, `AARCH32`; may be empty.
    pub context: &'a [u8],
    /// The bit range: highest and lowest bit.
    pub bits: Option<(u16, u16)>,
    /// The value.
    pub value: Value<'a>,
    /// Text after the value.
    pub notes: &'a [u8],
}

/// A system operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<'a> {
    /// `DC`, `IC`, `TLBI`, `AT`, ...
    pub kind: &'a [u8],
    /// `CISW`, ...
    pub name: &'a [u8],
    /// The argument.
    pub value: Value<'a>,
}

/// Direction of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// A read.
    #[default]
    Read,
    /// A write.
    Write,
}

/// Purpose of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Purpose {
    /// Data; the default where a line names none.
    #[default]
    Data,
    /// An instruction fetch.
    Fetch,
    /// An access on a peripheral bus.
    Peripheral,
}

/// Byte order of the digits of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// As a number, most significant byte first.
    #[default]
    Number,
    /// As in memory, lowest address first.
    Memory,
    /// As on the lanes of a bus, which may be wider than the access.
    Lanes,
}

/// A memory access line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access<'a> {
    /// The first word: `MR4`, `MNW4___D`.
    pub tag: &'a [u8],
    /// Reads or writes.
    pub direction: Direction,
    /// Purpose of the access.
    pub purpose: Purpose,
    /// Number of bytes.
    pub size: u16,
    /// The address; `None` for a transfer.
    pub address: Option<u64>,
    /// Number of digits of the address as printed.
    pub digits: u8,
    /// The physical address.
    pub physical: Option<Physical<'a>>,
    /// Address and number of the instruction that caused it, if the line has them.
    pub owner: Option<(u64, u64)>,
    /// The data; `None`: it was aborted, or the line has none.
    pub data: Option<Value<'a>>,
    /// Byte order of the data.
    pub order: Order,
    /// Whether it was aborted, or got an error response.
    pub is_aborted: bool,
    /// Whether it is exclusive.
    pub is_exclusive: bool,
    /// Whether it is made as unprivileged.
    pub is_unprivileged: bool,
    /// Whether it is locked.
    pub is_locked: bool,
    /// Text after the data, or between tag and address on a bus.
    pub notes: &'a [u8],
}

impl Access<'_> {
    /// Whether its opcode decides if it is a write. gem5 prints the accesses of some loads, such as LDP, as writes: `MW16`.
    /// Lines of this form follow their instruction.
    #[inline]
    pub(crate) fn is_judged_by_opcode(&self) -> bool {
        let Some(rest) = self.tag.strip_prefix(b"MW") else { return false };
        self.direction == Direction::Write && rest.iter().all(|byte| byte.is_ascii_digit() || b"XTL".contains(byte))
    }
}

/// Kind of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PictureKind {
    /// LD: a load.
    Load,
    /// LA: an aborted load.
    AbortedLoad,
    /// ST: a store.
    Store,
    /// SA: an aborted store.
    AbortedStore,
    /// SX: an exclusive store that failed.
    FailedStore,
}

impl PictureKind {
    pub(crate) fn of(direction: Direction, is_aborted: bool) -> Self {
        match (direction, is_aborted) {
            (Direction::Read, false) => Self::Load,
            (Direction::Read, true) => Self::AbortedLoad,
            (Direction::Write, false) => Self::Store,
            (Direction::Write, true) => Self::AbortedStore,
        }
    }

    pub(crate) fn direction(self) -> Direction {
        if matches!(self, Self::Load | Self::AbortedLoad) { Direction::Read } else { Direction::Write }
    }

    pub(crate) fn is_aborted(self) -> bool {
        matches!(self, Self::AbortedLoad | Self::AbortedStore)
    }
}

/// A memory picture: sixteen bytes, the highest address first, with dots for bytes that were not accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture<'a> {
    /// Kind of the access.
    pub kind: PictureKind,
    /// Whether the line has no LD or ST, but continues the previous picture.
    pub is_continuation: bool,
    /// Address of the lowest byte.
    pub address: u64,
    /// Number of digits of the address as printed.
    pub digits: u8,
    /// The bytes, lowest address first.
    pub bytes: [Byte; 16],
    /// The physical address.
    pub physical: Option<Physical<'a>>,
    /// Text after it: memory type, shareability, cacheability; may be empty.
    pub attributes: &'a [u8],
}

impl Picture<'_> {
    /// The runs of accessed bytes, each with its offset.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, &[Byte])> {
        let chunks = self.bytes.chunk_by(|one, next| (*one == Byte::Untouched) == (*next == Byte::Untouched));
        let mut end = 0;
        let runs = chunks.map(move |chunk| {
            end += chunk.len();
            (end - chunk.len(), chunk)
        });
        runs.filter(|(_, chunk)| chunk[0] != Byte::Untouched)
    }
}

/// A byte of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Byte {
    /// `..`: not accessed.
    #[default]
    Untouched,
    /// `##` or `xx`: accessed, with an unknown value.
    Unknown,
    /// The value.
    Known(u8),
}

/// `BR (00002d40) A`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// The target.
    pub target: u64,
    /// Number of digits of the address as printed.
    pub digits: u8,
    /// The instruction set at the target.
    pub set: Option<InstructionSet>,
}

/// `FD (12) 00008000 00008010 A`: program flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// `D` direct, `I` indirect, `R` return.
    pub kind: u8,
    /// Instruction number of the producer.
    pub number: Option<u64>,
    /// Address of the branch.
    pub address: u64,
    /// The target.
    pub target: u64,
    /// The instruction set at the target.
    pub set: Option<InstructionSet>,
}

/// A line of a known kind that is not parsed further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueLine<'a> {
    /// The kind: `CADI`, `SIGNAL`, `INFO_EXCEPTION_REASON`, `CACHE`, `TTW`, `TLB`, `WALKCACHE`, `P`, ...
    pub tag: &'a [u8],
    /// The rest of the line.
    pub text: &'a [u8],
}

/// Position and reason of a parse error in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// The column, counted from 1.
    pub column: u32,
    /// The reason.
    pub kind: ProblemKind,
}

/// Reason why a line could not be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The first word is of no known kind of line.
    #[error("unknown kind of line")]
    UnknownTag,
    /// The line ends too early.
    #[error("the line is truncated")]
    Truncated,
    /// A hexadecimal number is missing.
    #[error("expected a hexadecimal number")]
    NotHexadecimal,
    /// The number does not fit.
    #[error("the number has too many digits")]
    TooLong,
    /// An instruction set is missing.
    #[error("expected an instruction set (A, T, E, X, O)")]
    NotAnInstructionSet,
    /// The dialect prints no instruction set, and none was given.
    #[error("no instruction set; --implicit-thumb declares all instructions as Thumb")]
    NoInstructionSet,
    /// An opcode has 4 or 8 digits.
    #[error("expected an opcode of 4 or 8 digits")]
    WrongOpcode,
    /// The data does not match the size of the access.
    #[error("the number of data digits does not match the size of the access")]
    WrongWidth,
    /// The size of an access is invalid.
    #[error("invalid access size")]
    WrongSize,
    /// The bytes of a picture are missing.
    #[error("expected 16 bytes in four groups, with dots for bytes that were not accessed")]
    NotAPicture,
    /// Bytes that are not text.
    #[error("the line is not text")]
    Binary,
    /// Longer than any line of a log.
    #[error("the line is too long")]
    TooLongLine,
    /// Any other syntax error.
    #[error("unexpected text")]
    Unexpected,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.kind)
    }
}
