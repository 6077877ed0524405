//! The words of Tarmac: what a line can say.
//!
//! Every producer spells lines in its own way; here they mean the same in one way. A record is a view on its line: text
//! that was not understood any further (modes, disassembly, attributes, notes) stays as it stands there, byte by byte.
//! Specification: ARM-EPM-041435, and what producers print beyond it.

use std::fmt;

use super::value::Value;

/// A line: when, which core, and what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line as it is, without its end.
    pub raw: &'a [u8],
    /// When.
    pub stamp: Stamp,
    /// Which core or other component, as it is named there: `cpu0`, `cluster0.cpu1`, `0`.
    pub core: Option<&'a [u8]>,
    /// What happened.
    pub record: Record<'a>,
}

/// What stands in the place of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Nothing: it is the time of the line before.
    Absent,
    /// Dashes: there is none.
    Dashes,
    /// A time.
    At(Time),
}

/// A time, exactly as it was written: `10.356000us` is 10356000 with 6 decimals, of microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    /// All digits as one number.
    pub value: u64,
    /// How many of the digits stand behind the point.
    pub decimals: u8,
    /// Of what.
    pub unit: Unit,
}

/// What times are counted in.
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
    /// Cycles of a clock.
    Clk,
    /// Cycles, as some emulators say it.
    Cs,
    /// Cycles, as Cortex-M RTL says it.
    Cyc,
    /// Ticks.
    Tic,
    /// Nobody says.
    None,
}

impl Unit {
    /// How it is written.
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

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// Nothing.
    Blank,
    /// A comment: `#`, `;`, `//` or `*` before anything else.
    Comment(&'a [u8]),
    /// `Tarmac Text Rev 3t`.
    Header(Header<'a>),
    /// An instruction: ES, IT, IS or IF with an address.
    Instruction(Instruction<'a>),
    /// Something that no instruction caused: `ES IRQ`, `ES Reset`.
    Asynchronous(&'a [u8]),
    /// `EXC [0x08] System Call`, with or without ES before it.
    Exception(Exception<'a>),
    /// An `E` line.
    Event(Event<'a>),
    /// A register has a new value.
    Register(Register<'a>),
    /// A system operation in the shape of a register: `R DC CISW 00000000:00000000`.
    Operation(Operation<'a>),
    /// An access to memory: `MR4 00009140 0000c0de`, `R08 ...`, `MNW4___D ...`.
    Access(Access<'a>),
    /// Bytes of an aligned chunk of memory: LD, LA, ST, SA, SX and their continuations.
    Picture(Picture<'a>),
    /// What a coprocessor was given or gave: `MCW4___R (pc:serial) TRANSFER data`.
    Transfer(Access<'a>),
    /// An access on a bus: `BNR4O__I ...`, `BR4... I... O... master address data`.
    Bus(Access<'a>),
    /// `BR (00002d40) A`.
    Branch(Branch),
    /// Program flow: FD, FI, FR.
    Flow(Flow),
    /// A line of a known kind whose text nobody took apart.
    Opaque(OpaqueLine<'a>),
    /// A line that cannot be understood.
    Unknown(Problem),
}

/// `Tarmac Text Rev 3t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The revision.
    pub revision: u32,
    /// What stands behind it: `t` says that lines have times.
    pub flags: &'a [u8],
}

/// What an instruction line starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tag {
    /// ES: an execution step.
    Es,
    /// IT: an instruction was executed.
    It,
    /// IS: an instruction was skipped.
    Is,
    /// IF: an instruction was folded into the one before.
    If,
}

/// The instruction set, in the letters of instruction lines.
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

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// What the line starts with.
    pub tag: Tag,
    /// Where it is; `None`: in debug state, from DBGITR or EDITR.
    pub address: Option<u64>,
    /// How many digits the address was written with.
    pub digits: u8,
    /// Where it is physically.
    pub physical: Option<Physical<'a>>,
    /// Where its second half is physically.
    pub second: Option<Physical<'a>>,
    /// Its opcode; `None`: it could not be fetched.
    pub opcode: Option<u32>,
    /// How many bytes the opcode has: 2 or 4.
    pub length: u8,
    /// The instruction set; `None`: the line does not say.
    pub set: Option<InstructionSet>,
    /// The mode with the security state, as it is there: `svc_s`, `EL3h_s`, `el0t_ns`; may be empty.
    pub mode: &'a [u8],
    /// It was executed: it is not IS and not CCFAIL.
    pub is_executed: bool,
    /// Its number, as the producer counts.
    pub number: Option<u64>,
    /// The disassembly and what follows it; may be empty.
    pub text: &'a [u8],
}

/// A physical address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Physical<'a> {
    /// The address.
    pub address: u64,
    /// The address space, as it is there: `NS`, `S`, ...; may be empty.
    pub space: &'a [u8],
    /// The base 2 logarithm of the page's size.
    pub page: Option<u8>,
}

/// `EXC [0x08] System Call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exception<'a> {
    /// ES stands before it, so that it starts an event of its own.
    pub is_step: bool,
    /// What is in brackets: the offset of the vector, or its number on M-profile.
    pub vector: Option<i64>,
    /// Its name.
    pub name: &'a [u8],
}

/// An `E` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// What it is about; the address of an instruction mostly.
    pub value: Option<u64>,
    /// The mode, if it has one.
    pub mode: &'a [u8],
    /// The number of the event.
    pub number: Option<u32>,
    /// Its name: `CoreEvent_RESET`, `LOCKUP`; with all that follows.
    pub name: &'a [u8],
    /// An exception is taken. Not every event is one: `CoreEvent_ModeChange`, `HRESETn`, `DebugEvent_...` are not.
    pub is_exception: bool,
}

/// A register has a new value, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register<'a> {
    /// Its name, as it is there.
    pub name: &'a [u8],
    /// What is in brackets behind the name: `USR`, `AARCH32`; may be empty.
    pub context: &'a [u8],
    /// Which bits: the highest and the lowest.
    pub bits: Option<(u16, u16)>,
    /// What it holds.
    pub value: Value<'a>,
    /// What stands behind the value.
    pub notes: &'a [u8],
}

/// A system operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<'a> {
    /// `DC`, `IC`, `TLBI`, `AT`, ...
    pub kind: &'a [u8],
    /// `CISW`, ...
    pub name: &'a [u8],
    /// What it was given.
    pub value: Value<'a>,
}

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// What bytes an access is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Data; what lines are about that do not say.
    Data,
    /// Instructions are fetched.
    Fetch,
    /// A peripheral bus.
    Peripheral,
}

/// In which order the digits of data stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// As a number, the highest byte first.
    Number,
    /// As they are in memory, the byte of the lowest address first.
    Memory,
    /// As they are on the lanes of a bus, which may be wider than the access.
    Lanes,
}

/// An access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access<'a> {
    /// The word that the line starts with: `MR4`, `MNW4___D`.
    pub tag: &'a [u8],
    /// Reads or writes.
    pub direction: Direction,
    /// What for.
    pub purpose: Purpose,
    /// How many bytes.
    pub size: u16,
    /// Where; `None` of a transfer, which has no address.
    pub address: Option<u64>,
    /// How many digits the address was written with.
    pub digits: u8,
    /// Where physically.
    pub physical: Option<Physical<'a>>,
    /// The address and the serial number of the instruction that caused it, if the line says.
    pub owner: Option<(u64, u64)>,
    /// What was read or written. `None`: it was aborted, or the line does not say.
    pub data: Option<Value<'a>>,
    /// In which order the digits of the data stand.
    pub order: Order,
    /// It was aborted, or the bus answered with an error.
    pub is_aborted: bool,
    /// It is exclusive.
    pub is_exclusive: bool,
    /// It is made as if unprivileged.
    pub is_unprivileged: bool,
    /// It is locked.
    pub is_locked: bool,
    /// What stands behind the data, or between tag and address on a bus.
    pub notes: &'a [u8],
}

/// What a picture shows.
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

/// Bytes of memory: sixteen of them, the highest first. Those that were not accessed are dots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture<'a> {
    /// What it shows.
    pub kind: PictureKind,
    /// The line has no LD or ST, but continues one that has.
    pub is_continuation: bool,
    /// The address of the lowest byte.
    pub address: u64,
    /// How many digits the address was written with.
    pub digits: u8,
    /// The bytes, lowest address first.
    pub bytes: [Byte; 16],
    /// Where physically.
    pub physical: Option<Physical<'a>>,
    /// What stands behind it: memory type, shareability, cacheability; may be empty.
    pub attributes: &'a [u8],
}

/// A byte of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Byte {
    /// `..`: not accessed.
    #[default]
    Untouched,
    /// `##` or `xx`: accessed, but nobody knows what it is.
    Unknown,
    /// What it is.
    Known(u8),
}

/// `BR (00002d40) A`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Where it goes.
    pub target: u64,
    /// How many digits the address was written with.
    pub digits: u8,
    /// The instruction set there.
    pub set: Option<InstructionSet>,
}

/// `FD (12) 00008000 00008010 A`: program flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// `D` direct, `I` indirect, `R` return.
    pub kind: u8,
    /// Its number.
    pub number: Option<u64>,
    /// From where.
    pub address: u64,
    /// To where.
    pub target: u64,
    /// The instruction set there.
    pub set: Option<InstructionSet>,
}

/// A line of a known kind whose text nobody took apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueLine<'a> {
    /// Which kind: `CADI`, `SIGNAL`, `INFO_EXCEPTION_REASON`, `CACHE`, `TTW`, `TLB`, `WALKCACHE`, `P`, ...
    pub tag: &'a [u8],
    /// The rest of the line.
    pub text: &'a [u8],
}

/// Why a line cannot be understood, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// The column; the first is 1.
    pub column: u32,
    /// Why.
    pub kind: ProblemKind,
}

/// Why a line cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// No such line is known.
    #[error("no known kind of line starts with this word")]
    UnknownTag,
    /// The line ends too early.
    #[error("the line ends within its record")]
    Truncated,
    /// No number where one has to be.
    #[error("this should be a hexadecimal number")]
    NotHexadecimal,
    /// The number does not fit.
    #[error("this number has too many digits")]
    TooLong,
    /// An instruction set was expected.
    #[error("this should be an instruction set (A, T, E, X, O)")]
    NotAnInstructionSet,
    /// Without an instruction set, and nobody said which one it would be.
    #[error("the line does not say which instruction set this is; --implicit-thumb says that it is Thumb")]
    NoInstructionSet,
    /// An opcode has 4 or 8 digits.
    #[error("this should be an opcode of 4 or 8 digits")]
    WrongOpcode,
    /// Data does not have as many digits as the size needs.
    #[error("the data does not have as many digits as the access has bytes")]
    WrongWidth,
    /// The size of an access cannot be.
    #[error("this cannot be the size of an access")]
    WrongSize,
    /// A picture of memory that is none.
    #[error("this should be 16 bytes in four groups, with dots for those that were not accessed")]
    NotAPicture,
    /// Bytes that text cannot have.
    #[error("bytes that are no text")]
    Binary,
    /// Longer than any line can be.
    #[error("the line is too long")]
    TooLongLine,
    /// Something else was expected.
    #[error("this was not expected here")]
    Unexpected,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.kind)
    }
}
