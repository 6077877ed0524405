//! Records: 32 bytes each, and their fields.
//!
//! bytes ◀─▶ **records**
//!
//! The tables below are the layout. Every bit of a record belongs to a field, so reading and writing lose nothing.
//! Fields are not checked here; see [`check`](super::check).
//! Specification: Arm Architectural Structured Trace Format, issue 0.11.

pub use super::layout::RECORD_BYTES;
use super::layout::{Bytes, Field, Value, any_record, record};

/// Offset of a record in an uncompressed file; the header is record 1.
pub fn offset_of(record: u64) -> u64 {
    (record - 1) * RECORD_BYTES as u64
}

record! {
    /// The first record: which file this is, and how the other records are stored.
    Header, HeaderView: 0x41 {
        /// The characters `STF`, which follow the type `A`.
        magic: [u8; 3] = 8..=31,
        /// Version before the dot.
        version_major: u8 = 32..=39,
        /// Version after the dot.
        version_minor: u8 = 40..=47,
        reserved16: u16 = 48..=63,
        /// The records after the header are compressed.
        compressed: bool = 64..=64,
        /// They are compressed with zlib, not with LZMA.
        use_zlib: bool = 65..=65,
        reserved62: u64 = 66..=127,
        /// For the future: registers.
        reginfo: bool = 128..=128,
        /// For the future: memory.
        meminfo: bool = 129..=129,
        /// For the future: data addresses.
        addrinfo_d: bool = 130..=130,
        /// For the future: instruction addresses.
        addrinfo_i: bool = 131..=131,
        /// For the future.
        pseudo: bool = 132..=132,
        /// Only one Exception level was traced: a Basic trace.
        single_el: bool = 133..=133,
        /// There are timestamps.
        timestamps: bool = 134..=134,
        reserved57: u64 = 135..=191,
        reserved64: u64 = 192..=255,
    }
}

record! {
    /// An instruction that was executed or attempted.
    Instruction, InstructionView: 0x01 {
        /// Meaning of `xattr`: 1 the size of a range, 2 an index into ZA, 0 and 3 nothing.
        xattr_mode: u8 = 8..=9,
        reserved6: u8 = 10..=15,
        reserved1: bool = 16..=16,
        /// The access was to tag memory too.
        ea_tagged: bool = 17..=17,
        /// The instruction raised an exception.
        trap: bool = 18..=18,
        /// The instruction is a branch.
        is_branch: bool = 19..=19,
        /// The access read.
        is_read: bool = 20..=20,
        /// The access wrote.
        is_write: bool = 21..=21,
        /// `ea` is the address of an access, or the target of a branch that was taken.
        ea_valid: bool = 22..=22,
        /// More accesses follow in [`ExtraEa`] records.
        extra_eas: bool = 23..=23,
        /// Bytes of the access minus one; zero for a range.
        ea_size: u8 = 24..=31,
        /// The opcode.
        iword: u32 = 32..=63,
        /// Its address.
        pc: u64 = 64..=127,
        /// Address of the first access, or target of a taken branch.
        ea: u64 = 128..=191,
        /// Extended attribute; see `xattr_mode`.
        xattr: u64 = 192..=255,
    }
}

record! {
    /// Execution was redirected: an exception, the return from one, or a reset.
    Trap, TrapView: 0x05 {
        reserved8: u8 = 8..=15,
        /// 0 synchronous exception, 1 SError, 2 IRQ, 3 FIQ, 4 exception return, 5 reset of the PE.
        trap_type: u8 = 16..=18,
        reserved1a: bool = 19..=19,
        /// 0 none, 1 SVC, 2 HVC, 3 SMC.
        syscall_type: u8 = 20..=21,
        reserved2: u8 = 22..=23,
        /// A virtual SError, IRQ or FIQ.
        is_virtual: bool = 24..=24,
        reserved1b: bool = 25..=25,
        /// The Exception class, as ESR_ELx has it.
        ec: u8 = 26..=31,
        /// Number of the system call, hypervisor call or firmware call.
        syscall_index: u16 = 32..=47,
        reserved16: u16 = 48..=63,
        /// Address where execution continues.
        target_pc: u64 = 64..=127,
        reserved128_low: u64 = 128..=191,
        reserved128_high: u64 = 192..=255,
    }
}

record! {
    /// One or two more accesses of the last instruction, or one more range.
    ExtraEa, ExtraEaView: 0x07 {
        mem0_reserved8: u8 = 8..=15,
        mem0_reserved5: u8 = 16..=20,
        /// The first access was to tag memory too.
        mem0_tagged: bool = 21..=21,
        /// The first access read.
        mem0_is_read: bool = 22..=22,
        /// The first access wrote.
        mem0_is_write: bool = 23..=23,
        /// Bytes of the first access minus one; zero for a range.
        mem0_size: u8 = 24..=31,
        mem0_reserved32: u32 = 32..=63,
        /// The address of the first access.
        mem0_addr: u64 = 64..=127,
        /// There is a second access.
        mem1_valid: bool = 128..=128,
        /// Another such record follows.
        extra_eas: bool = 129..=129,
        /// `mem1_addr` is the size of a range at `mem0_addr`.
        mem1_addr_range: bool = 130..=130,
        reserved5: u8 = 131..=135,
        mem1_reserved8: u8 = 136..=143,
        mem1_reserved5: u8 = 144..=148,
        /// The second access was to tag memory too.
        mem1_tagged: bool = 149..=149,
        /// The second access read.
        mem1_is_read: bool = 150..=150,
        /// The second access wrote.
        mem1_is_write: bool = 151..=151,
        /// Bytes of the second access minus one.
        mem1_size: u8 = 152..=159,
        mem1_reserved32: u32 = 160..=191,
        /// The address of the second access, or the size of a range.
        mem1_addr: u64 = 192..=255,
    }
}

record! {
    /// The state that the next instruction is executed in.
    Context, ContextView: 0x08 {
        /// Streaming SVE mode.
        pstate_sm: bool = 8..=8,
        /// Data-independent timing.
        pstate_dit: bool = 9..=9,
        /// Speculative stores may be bypassed.
        pstate_ssbs: bool = 10..=10,
        reserved5a: u8 = 11..=15,
        reserved16: u16 = 16..=31,
        /// The vector length in units of 128 bits, minus one.
        evl: u8 = 32..=35,
        reserved12: u16 = 36..=47,
        /// Execution is in a mode that the format does not support.
        unsupported: bool = 48..=48,
        /// Action on a Tag Check Fault: 0 none, 1 synchronous, 2 asynchronous, 3 synchronous for loads only.
        mte_tcf: u8 = 49..=50,
        reserved5b: u8 = 51..=55,
        /// The Exception level.
        el: u8 = 56..=57,
        reserved2: u8 = 58..=59,
        /// Secure state.
        secure: bool = 60..=60,
        /// The stack pointer of the Exception level is selected.
        handler: bool = 61..=61,
        /// `pid` is known.
        pid_valid: bool = 62..=62,
        /// `tid` is known.
        tid_valid: bool = 63..=63,
        /// The process.
        pid: u64 = 64..=127,
        /// The thread.
        tid: u64 = 128..=191,
        reserved64: u64 = 192..=255,
    }
}

record! {
    /// The start of a string.
    StringStart, StringStartView: 0x43 {
        reserved8: u8 = 8..=15,
        /// Bytes of the whole string.
        size: u16 = 16..=31,
        /// The first bytes.
        string: [u8; 28] = 32..=255,
    }
}

record! {
    /// The continuation of a string.
    StringContinuation, StringContinuationView: 0x44 {
        /// The next bytes of the string.
        string: [u8; 31] = 8..=255,
    }
}

record! {
    /// The time.
    Timestamp, TimestampView: 0x45 {
        /// 1: microseconds.
        unit: u8 = 8..=15,
        reserved16: u16 = 16..=31,
        reserved32: u32 = 32..=63,
        /// The time.
        value: u64 = 64..=127,
        value1: u64 = 128..=191,
        reserved64: u64 = 192..=255,
    }
}

any_record! {
    /// Which file this is.
    Header, HeaderView;
    /// An instruction.
    Instruction, InstructionView;
    /// A redirection of execution.
    Trap, TrapView;
    /// More accesses.
    ExtraEa, ExtraEaView;
    /// The state of the PE.
    Context, ContextView;
    /// The start of a string.
    StringStart, StringStartView;
    /// The continuation of a string.
    StringContinuation, StringContinuationView;
    /// The time.
    Timestamp, TimestampView;
}

impl Record {
    /// Decodes a record.
    #[inline]
    pub fn from_bytes(bytes: &Bytes) -> Self {
        View::new(bytes).get()
    }
}

/// The extended attribute of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// The field is reserved.
    None,
    /// Bytes of the range.
    Range(u64),
    /// The index into ZA.
    SmeIndex(u8),
}

/// Modes of the extended attribute.
pub mod xattr_mode {
    /// The field is not in use.
    pub const NONE: u8 = 0;
    /// The field is the size of a range.
    pub const RANGE: u8 = 1;
    /// The field is an index into ZA.
    pub const SME: u8 = 2;
}

/// Types of a [`Trap`].
pub mod trap_type {
    /// An exception that an instruction caused, or that has no cause in an executed one.
    pub const SYNCHRONOUS: u8 = 0;
    /// A system error.
    pub const SERROR: u8 = 1;
    /// An interrupt.
    pub const IRQ: u8 = 2;
    /// A fast interrupt.
    pub const FIQ: u8 = 3;
    /// The return from an exception.
    pub const EXCEPTION_RETURN: u8 = 4;
    /// The PE was reset.
    pub const RESET: u8 = 5;
}

/// The only unit of time.
pub const MICROSECONDS: u8 = 1;

impl Instruction {
    /// The extended attribute, by its mode.
    pub fn attribute(&self) -> Attribute {
        match self.xattr_mode {
            xattr_mode::RANGE => Attribute::Range(self.xattr),
            xattr_mode::SME => Attribute::SmeIndex(self.xattr as u8),
            _ => Attribute::None,
        }
    }

    /// Whether it is a taken branch.
    pub fn is_taken(&self) -> bool {
        self.is_branch && self.ea_valid
    }
}

impl Context {
    /// The vector length in bits.
    pub fn vector_bits(&self) -> u32 {
        (u32::from(self.evl) + 1) * 128
    }
}

/// The level of detail of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// One Exception level, and no traps.
    Basic,
    /// All Exception levels, with traps.
    BasicPlus,
}

/// Storage of the records after the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Storage {
    /// As they are.
    #[default]
    Raw,
    /// Compressed with LZMA.
    Lzma,
    /// Compressed with zlib.
    Zlib,
}

impl Header {
    /// Characters after the first.
    pub const MAGIC: [u8; 3] = *b"STF";
    /// The newest known version.
    pub const VERSION: (u8, u8) = (0, 11);

    /// A header of the newest version.
    pub fn new(level: Level, timestamps: bool, storage: Storage) -> Self {
        let (version_major, version_minor) = Self::VERSION;
        let single_el = level == Level::Basic;
        let header =
            Self { magic: Self::MAGIC, version_major, version_minor, single_el, timestamps, ..Self::default() };
        header.stored(storage)
    }

    /// The same header with another storage.
    pub fn stored(self, storage: Storage) -> Self {
        Self { compressed: storage != Storage::Raw, use_zlib: storage == Storage::Zlib, ..self }
    }

    /// Storage of the other records.
    pub fn storage(&self) -> Storage {
        match (self.compressed, self.use_zlib) {
            (false, _) => Storage::Raw,
            (true, false) => Storage::Lzma,
            (true, true) => Storage::Zlib,
        }
    }

    /// The level of detail.
    pub fn level(&self) -> Level {
        if self.single_el { Level::Basic } else { Level::BasicPlus }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        #[test]
        fn any_bytes_come_back(mut bytes: Bytes, kind in 0_usize..10) {
            let types = [0x41, 1, 5, 7, 8, 0x43, 0x44, 0x45];
            if let Some(&kind) = types.get(kind) {
                bytes[0] = kind;
            }
            let record = Record::from_bytes(&bytes);
            prop_assert_eq!(record.to_bytes(), bytes);
            prop_assert_eq!(matches!(record, Record::Unknown(_)), !types.contains(&bytes[0]));
        }
    }

    #[test]
    fn fields_are_at_their_bits() {
        // (a record with one field set to ones, the bytes that are not zero besides the first)
        let rows: &[(Record, &[(usize, u8)])] = &[
            (Record::Instruction(Instruction { xattr_mode: 3, ..Default::default() }), &[(1, 3)]),
            (Record::Instruction(Instruction { ea_tagged: true, ..Default::default() }), &[(2, 2)]),
            (Record::Instruction(Instruction { trap: true, ..Default::default() }), &[(2, 4)]),
            (Record::Instruction(Instruction { is_branch: true, ..Default::default() }), &[(2, 8)]),
            (Record::Instruction(Instruction { is_read: true, ..Default::default() }), &[(2, 0x10)]),
            (Record::Instruction(Instruction { is_write: true, ..Default::default() }), &[(2, 0x20)]),
            (Record::Instruction(Instruction { ea_valid: true, ..Default::default() }), &[(2, 0x40)]),
            (Record::Instruction(Instruction { extra_eas: true, ..Default::default() }), &[(2, 0x80)]),
            (Record::Instruction(Instruction { ea_size: 0xff, ..Default::default() }), &[(3, 0xff)]),
            (Record::Instruction(Instruction { iword: 0x1234, ..Default::default() }), &[(4, 0x34), (5, 0x12)]),
            (Record::Instruction(Instruction { pc: 0xff << 56, ..Default::default() }), &[(15, 0xff)]),
            (Record::Instruction(Instruction { ea: 1, ..Default::default() }), &[(16, 1)]),
            (Record::Instruction(Instruction { xattr: 1, ..Default::default() }), &[(24, 1)]),
            (Record::Trap(Trap { trap_type: 7, ..Default::default() }), &[(2, 7)]),
            (Record::Trap(Trap { syscall_type: 3, ..Default::default() }), &[(2, 0x30)]),
            (Record::Trap(Trap { is_virtual: true, ..Default::default() }), &[(3, 1)]),
            (Record::Trap(Trap { ec: 0x3f, ..Default::default() }), &[(3, 0xfc)]),
            (Record::Trap(Trap { syscall_index: 0x102, ..Default::default() }), &[(4, 2), (5, 1)]),
            (Record::Trap(Trap { target_pc: 1, ..Default::default() }), &[(8, 1)]),
            (Record::ExtraEa(ExtraEa { mem0_tagged: true, ..Default::default() }), &[(2, 0x20)]),
            (Record::ExtraEa(ExtraEa { mem0_is_read: true, ..Default::default() }), &[(2, 0x40)]),
            (Record::ExtraEa(ExtraEa { mem0_is_write: true, ..Default::default() }), &[(2, 0x80)]),
            (Record::ExtraEa(ExtraEa { mem0_size: 3, ..Default::default() }), &[(3, 3)]),
            (Record::ExtraEa(ExtraEa { mem0_addr: 1, ..Default::default() }), &[(8, 1)]),
            (Record::ExtraEa(ExtraEa { mem1_valid: true, ..Default::default() }), &[(16, 1)]),
            (Record::ExtraEa(ExtraEa { extra_eas: true, ..Default::default() }), &[(16, 2)]),
            (Record::ExtraEa(ExtraEa { mem1_addr_range: true, ..Default::default() }), &[(16, 4)]),
            (Record::ExtraEa(ExtraEa { mem1_tagged: true, ..Default::default() }), &[(18, 0x20)]),
            (Record::ExtraEa(ExtraEa { mem1_is_read: true, ..Default::default() }), &[(18, 0x40)]),
            (Record::ExtraEa(ExtraEa { mem1_is_write: true, ..Default::default() }), &[(18, 0x80)]),
            (Record::ExtraEa(ExtraEa { mem1_size: 3, ..Default::default() }), &[(19, 3)]),
            (Record::ExtraEa(ExtraEa { mem1_addr: 1, ..Default::default() }), &[(24, 1)]),
            (Record::Context(Context { pstate_sm: true, ..Default::default() }), &[(1, 1)]),
            (Record::Context(Context { pstate_dit: true, ..Default::default() }), &[(1, 2)]),
            (Record::Context(Context { pstate_ssbs: true, ..Default::default() }), &[(1, 4)]),
            (Record::Context(Context { evl: 0xf, ..Default::default() }), &[(4, 0xf)]),
            (Record::Context(Context { unsupported: true, ..Default::default() }), &[(6, 1)]),
            (Record::Context(Context { mte_tcf: 3, ..Default::default() }), &[(6, 6)]),
            (Record::Context(Context { el: 3, ..Default::default() }), &[(7, 3)]),
            (Record::Context(Context { secure: true, ..Default::default() }), &[(7, 0x10)]),
            (Record::Context(Context { handler: true, ..Default::default() }), &[(7, 0x20)]),
            (Record::Context(Context { pid_valid: true, ..Default::default() }), &[(7, 0x40)]),
            (Record::Context(Context { tid_valid: true, ..Default::default() }), &[(7, 0x80)]),
            (Record::Context(Context { pid: 1, ..Default::default() }), &[(8, 1)]),
            (Record::Context(Context { tid: 1, ..Default::default() }), &[(16, 1)]),
            (Record::Header(Header { version_major: 1, ..Default::default() }), &[(4, 1)]),
            (Record::Header(Header { version_minor: 1, ..Default::default() }), &[(5, 1)]),
            (Record::Header(Header { compressed: true, ..Default::default() }), &[(8, 1)]),
            (Record::Header(Header { use_zlib: true, ..Default::default() }), &[(8, 2)]),
            (Record::Header(Header { reginfo: true, ..Default::default() }), &[(16, 1)]),
            (Record::Header(Header { single_el: true, ..Default::default() }), &[(16, 0x20)]),
            (Record::Header(Header { timestamps: true, ..Default::default() }), &[(16, 0x40)]),
            (Record::Header(Header { magic: *b"STF", ..Default::default() }), &[(1, b'S'), (2, b'T'), (3, b'F')]),
            (Record::StringStart(StringStart { size: 0x102, ..Default::default() }), &[(2, 2), (3, 1)]),
            (Record::Timestamp(Timestamp { unit: 1, ..Default::default() }), &[(1, 1)]),
            (Record::Timestamp(Timestamp { value: 1, ..Default::default() }), &[(8, 1)]),
        ];
        for (record, expected) in rows {
            let bytes = record.to_bytes();
            let found: Vec<(usize, u8)> =
                (1..).zip(bytes[1..].iter().copied()).filter(|(_, byte)| *byte != 0).collect();
            assert_eq!(&found, expected, "{record:?}");
        }
    }
}
