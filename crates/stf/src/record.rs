//! Records: their fields, parsed from bytes and encoded.
//!
//! bytes ◀─▶ **records**
//!
//! A record is a descriptor byte and its data. There is no length field common to all records, so reading ends at an
//! unknown descriptor. Three lengths depend on the header, and [`Layout`] provides them: event IDs, vector registers and
//! the protocol data of transactions. Values are not checked beyond what the length needs.
//!
//! A new record needs a constant in [`descriptor`], a variant of [`Record`], arms in `read`, `descriptor` and `encode`,
//! a name in `names.rs`, its length in `length.rs` if that is fixed, and fields in `text.rs` and `json.rs`.
//! Specification: STF 1.3, "Specification of Records", and the contents of files of versions 1.2 to 1.6.

use super::bytes::{Cursor, Output};
use super::layout::{Layout, Malformed};

/// The first byte of a record.
pub mod descriptor {
    /// Never the start of a record.
    pub const RESERVED: u8 = 0;
    /// `STF`, the first record.
    pub const IDENTIFIER: u8 = 1;
    /// The version, the second record.
    pub const VERSION: u8 = 2;
    /// A comment.
    pub const COMMENT: u8 = 3;
    /// The instruction set.
    pub const ISA: u8 = 4;
    /// The instruction encoding mode.
    pub const INST_IEM: u8 = 5;
    /// The generator of the trace, or a modifier.
    pub const TRACE_INFO: u8 = 6;
    /// The features of the trace.
    pub const TRACE_INFO_FEATURE: u8 = 7;
    /// The current process.
    pub const PROCESS_ID_EXT: u8 = 8;
    /// The address of an instruction.
    pub const FORCE_PC: u8 = 9;
    /// The length of vector registers.
    pub const VLEN_CONFIG: u8 = 10;
    /// The protocol of transactions.
    pub const PROTOCOL_ID: u8 = 11;
    /// A clock.
    pub const CLOCK_ID: u8 = 12;
    /// The extensions of the instruction set.
    pub const ISA_EXTENDED: u8 = 13;
    /// The end of the header.
    pub const END_HEADER: u8 = 19;
    /// The target of a branch.
    pub const INST_PC_TARGET: u8 = 31;
    /// A register.
    pub const INST_REG: u8 = 40;
    /// A destination register marked as ready.
    pub const INST_READY_REG: u8 = 41;
    /// A page table walk.
    pub const PAGE_TABLE_WALK: u8 = 50;
    /// An access to memory.
    pub const INST_MEM_ACCESS: u8 = 60;
    /// Data of an access to memory.
    pub const INST_MEM_CONTENT: u8 = 61;
    /// An access by another bus master.
    pub const BUS_MASTER_ACCESS: u8 = 62;
    /// Data of such an access.
    pub const BUS_MASTER_CONTENT: u8 = 63;
    /// An exception, an interrupt or a change of mode.
    pub const EVENT: u8 = 100;
    /// The target of an event.
    pub const EVENT_PC_TARGET: u8 = 101;
    /// A micro-operation.
    pub const INST_MICROOP: u8 = 230;
    /// An instruction of four bytes.
    pub const INST_OPCODE32: u8 = 240;
    /// An instruction of two bytes.
    pub const INST_OPCODE16: u8 = 241;
    /// A transaction.
    pub const TRANSACTION: u8 = 250;
    /// A dependency of a transaction.
    pub const TRANSACTION_DEPENDENCY: u8 = 251;
    /// The last record of a trace in the specification, reserved for error detection. No tool writes it, and the
    /// reference reader fails at it; this one ends there.
    pub const RESERVE_END: u8 = 255;
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'b> {
    /// The letters `STF`.
    Identifier([u8; 3]),
    /// The version of the format.
    Version {
        /// The major version.
        major: u32,
        /// The minor version.
        minor: u32,
    },
    /// A comment.
    Comment(&'b [u8]),
    /// The instruction set: 1 RISC-V, 2 Arm, 3 x86, 4 Power.
    Isa(u16),
    /// The instruction encoding mode: 1 RV32, 2 RV64.
    InstIem(u16),
    /// The generator of the trace, or a modifier.
    TraceInfo(TraceInfo<'b>),
    /// Feature bits of the trace.
    TraceInfoFeature(u64),
    /// The current process: hardware thread ID, PID, TID. Before 2024, as in the specification: PID, TID, ASID. The
    /// version did not change with the meaning.
    ProcessIdExt([u32; 3]),
    /// The address of the instruction that this record belongs to.
    ForcePc(u64),
    /// Bits of a vector register.
    VlenConfig(u32),
    /// The protocol of transactions: 1 TileLink.
    ProtocolId(u8),
    /// A clock.
    ClockId {
        /// Its number.
        id: u8,
        /// Its name.
        name: &'b [u8],
    },
    /// The extensions of the instruction set, such as `rv64gcv`.
    IsaExtended(&'b [u8]),
    /// The header ends.
    EndHeader,
    /// The target of the instruction.
    InstPcTarget(u64),
    /// A register.
    InstReg(Register<'b>),
    /// Number of a destination register marked as ready: a tool removed the dependency on this instruction.
    InstReadyReg(u16),
    /// A page table walk.
    PageTableWalk(PageTableWalk<'b>),
    /// An access to memory.
    InstMemAccess(MemAccess),
    /// Up to eight bytes that were read or written, right-justified: fewer bytes are zero-extended.
    InstMemContent(u64),
    /// An access by another bus master.
    BusMasterAccess(BusAccess),
    /// Up to eight bytes of its data.
    BusMasterContent(u64),
    /// An exception, an interrupt or a change of mode.
    Event(Event<'b>),
    /// The target of an event.
    EventPcTarget(u64),
    /// A micro-operation.
    InstMicroop {
        /// Its size in bytes.
        size: u8,
        /// Its encoding.
        encoding: u32,
    },
    /// An instruction of four bytes.
    InstOpcode32(u32),
    /// An instruction of two bytes.
    InstOpcode16(u16),
    /// A transaction.
    Transaction(Transaction<'b>),
    /// A dependency of the next transaction.
    TransactionDependency {
        /// The other transaction.
        id: u64,
        /// Delay in cycles after it.
        cycles: u64,
        /// The clock of these cycles.
        clock: u8,
    },
    /// The end of the trace, see [`descriptor::RESERVE_END`].
    ReserveEnd,
}

/// The generator of a trace, or a modifier: a tool that changed the trace later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceInfo<'b> {
    /// Its number, see [`names::generator`](super::names::generator).
    pub generator: u8,
    /// Its version.
    pub version: [u8; 3],
    /// Its comment.
    pub comment: &'b [u8],
}

/// A register and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register<'b> {
    /// Its number within its type.
    pub number: u16,
    /// Bits 3:0: the [type](Self::kind). Bits 5:4: the [operand](Self::operand). Bits 7:6 are reserved.
    pub meta: u8,
    /// Its value in words of eight bytes, the least significant first.
    pub value: &'b [u8],
}

impl Register<'_> {
    /// Type of integer registers.
    pub const INTEGER: u8 = 1;
    /// Type of floating-point registers.
    pub const FLOAT: u8 = 2;
    /// Type of vector registers.
    pub const VECTOR: u8 = 3;
    /// Type of control and status registers.
    pub const CSR: u8 = 4;

    /// Operand: the contents before the instruction, which need not use it.
    pub const STATE: u8 = 1;
    /// Operand: read by the instruction.
    pub const SOURCE: u8 = 2;
    /// Operand: written by the instruction.
    pub const DESTINATION: u8 = 3;

    /// Number of the program counter among integer registers.
    pub const PC: u16 = 32;

    /// Type: [`INTEGER`](Self::INTEGER), [`FLOAT`](Self::FLOAT), [`VECTOR`](Self::VECTOR) or [`CSR`](Self::CSR).
    pub fn kind(&self) -> u8 {
        self.meta & 0xf
    }

    /// The greatest number of this type; `None`: there is no such type.
    pub fn max_number(&self) -> Option<u16> {
        match self.kind() {
            Self::INTEGER => Some(Self::PC),
            Self::FLOAT | Self::VECTOR => Some(31),
            Self::CSR => Some(0xfff),
            _ => None,
        }
    }

    /// Operand: [`STATE`](Self::STATE), [`SOURCE`](Self::SOURCE) or [`DESTINATION`](Self::DESTINATION). The reserved bits
    /// are part of it, so that it is none of these if one is set.
    pub fn operand(&self) -> u8 {
        self.meta >> 4
    }

    pub(crate) fn has_known_operand(&self) -> bool {
        (Self::STATE..=Self::DESTINATION).contains(&self.operand())
    }

    /// Its words, the least significant first.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> + use<'_> {
        words(self.value)
    }
}

/// A page table walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTableWalk<'b> {
    /// Virtual address of the page.
    pub address: u64,
    /// Index of the first instruction that accessed the page; the first of the trace has index 0.
    pub first_use: u64,
    /// Size of the page in bytes.
    pub page_size: u32,
    /// Pairs of words: physical address of a page table entry (PTE), raw PTE. The leaf is the last.
    pub entries: &'b [u8],
}

impl PageTableWalk<'_> {
    /// The physical address of each PTE, and the raw PTE.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + use<'_> {
        let (pairs, _) = self.entries.as_chunks::<16>();
        pairs.iter().map(|pair| {
            let mut both = words(pair);
            (both.next().unwrap_or(0), both.next().unwrap_or(0))
        })
    }
}

/// An access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemAccess {
    /// Address.
    pub address: u64,
    /// Size in bytes; old traces of Dromajo have bits here.
    pub size: u16,
    /// Attributes, which are not specified.
    pub attributes: u16,
    /// 1 read, 2 write.
    pub kind: u8,
}

/// An access by another bus master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusAccess {
    /// Address.
    pub address: u64,
    /// Size in bytes.
    pub size: u16,
    /// Kind of master, as encoded. The library ([`names::initiator`](super::names::initiator)) and the specification
    /// ([`names::specified_initiator`](super::names::specified_initiator)) number them differently.
    pub initiator: u8,
    /// Which master of that kind.
    pub index: u8,
    /// Attributes.
    pub attributes: u32,
    /// 1 read, 2 write.
    pub kind: u8,
}

/// An exception, an interrupt or a change of mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'b> {
    /// Its ID with flags, as encoded in the file. Highest bit: interrupt; the next: special.
    pub raw: u64,
    /// Is the raw ID 64 bits wide instead of 32?
    pub is_wide: bool,
    /// Metadata fields, eight bytes each.
    pub data: &'b [u8],
}

impl Event<'_> {
    /// ID of a special event that changes the privilege mode.
    const MODE_CHANGE: u64 = 0;

    /// The ID without its flags: a RISC-V cause code, unless the event is special.
    pub fn id(&self) -> u64 {
        self.raw & if self.is_wide { u64::MAX >> 2 } else { 0x3fff_ffff }
    }

    /// Is it an interrupt?
    pub fn is_interrupt(&self) -> bool {
        self.raw >> if self.is_wide { 63 } else { 31 } & 1 == 1
    }

    /// Is it a meta-event, which the library calls special: neither exception nor interrupt?
    pub fn is_special(&self) -> bool {
        self.raw >> if self.is_wide { 62 } else { 30 } & 1 == 1
    }

    /// Does it change the privilege mode?
    pub fn is_mode_change(&self) -> bool {
        self.is_special() && !self.is_interrupt() && self.id() == Self::MODE_CHANGE
    }

    /// Mode after a change of mode: 0 user, 1 supervisor, 2 hypervisor, 3 machine.
    pub fn mode(&self) -> Option<u64> {
        if self.is_mode_change() { self.words().next() } else { None }
    }

    /// Metadata fields.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> + use<'_> {
        words(self.data)
    }
}

/// A transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction<'b> {
    /// Its number.
    pub id: u64,
    /// Cycles since the previous transaction.
    pub cycles: u64,
    /// The clock of these cycles.
    pub clock: u8,
    /// Number of metadata values.
    pub count: u16,
    /// The metadata: a byte with the size (0 to 3: 1, 2, 4, 8 bytes) before each value.
    pub metadata: &'b [u8],
    /// Data of the protocol.
    pub data: &'b [u8],
}

fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> + use<'_> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

impl<'b> Record<'b> {
    /// The record at the start of the bytes, and its length.
    #[inline(always)]
    pub fn parse(bytes: &'b [u8], layout: &Layout) -> Result<(Self, usize), Malformed> {
        let mut input = Cursor::new(bytes);
        let record = Self::read(&mut input, layout)?;
        Ok((record, input.position()))
    }

    #[inline(always)]
    fn read(input: &mut Cursor<'b>, layout: &Layout) -> Result<Self, Malformed> {
        Ok(match input.u8()? {
            descriptor::IDENTIFIER => Self::Identifier(input.array()?),
            descriptor::VERSION => Self::Version { major: input.u32()?, minor: input.u32()? },
            descriptor::COMMENT => Self::Comment(input.counted_u32()?),
            descriptor::ISA => Self::Isa(input.u16()?),
            descriptor::INST_IEM => Self::InstIem(input.u16()?),
            descriptor::TRACE_INFO => Self::TraceInfo(trace_info(input)?),
            descriptor::TRACE_INFO_FEATURE => Self::TraceInfoFeature(input.u64()?),
            descriptor::PROCESS_ID_EXT => Self::ProcessIdExt([input.u32()?, input.u32()?, input.u32()?]),
            descriptor::FORCE_PC => Self::ForcePc(input.u64()?),
            descriptor::VLEN_CONFIG => Self::VlenConfig(input.u32()?),
            descriptor::PROTOCOL_ID => Self::ProtocolId(input.u8()?),
            descriptor::CLOCK_ID => Self::ClockId { id: input.u8()?, name: input.counted_u16()? },
            descriptor::ISA_EXTENDED => Self::IsaExtended(input.counted_u32()?),
            descriptor::END_HEADER => Self::EndHeader,
            descriptor::INST_PC_TARGET => Self::InstPcTarget(input.u64()?),
            descriptor::INST_REG => Self::InstReg(register(input, layout)?),
            descriptor::INST_READY_REG => Self::InstReadyReg(input.u16()?),
            descriptor::PAGE_TABLE_WALK => Self::PageTableWalk(page_table_walk(input)?),
            descriptor::INST_MEM_ACCESS => Self::InstMemAccess(mem_access(input)?),
            descriptor::INST_MEM_CONTENT => Self::InstMemContent(input.u64()?),
            descriptor::BUS_MASTER_ACCESS => Self::BusMasterAccess(bus_access(input)?),
            descriptor::BUS_MASTER_CONTENT => Self::BusMasterContent(input.u64()?),
            descriptor::EVENT => Self::Event(event(input, layout)?),
            descriptor::EVENT_PC_TARGET => Self::EventPcTarget(input.u64()?),
            descriptor::INST_MICROOP => Self::InstMicroop { size: input.u8()?, encoding: input.u32()? },
            descriptor::INST_OPCODE32 => Self::InstOpcode32(input.u32()?),
            descriptor::INST_OPCODE16 => Self::InstOpcode16(input.u16()?),
            descriptor::TRANSACTION => Self::Transaction(transaction(input, layout)?),
            descriptor::TRANSACTION_DEPENDENCY => {
                Self::TransactionDependency { id: input.u64()?, cycles: input.u64()?, clock: input.u8()? }
            }
            descriptor::RESERVE_END => Self::ReserveEnd,
            unknown => return Err(Malformed::UnknownDescriptor(unknown)),
        })
    }

    /// Its descriptor.
    #[inline]
    pub fn descriptor(&self) -> u8 {
        match self {
            Self::Identifier(_) => descriptor::IDENTIFIER,
            Self::Version { .. } => descriptor::VERSION,
            Self::Comment(_) => descriptor::COMMENT,
            Self::Isa(_) => descriptor::ISA,
            Self::InstIem(_) => descriptor::INST_IEM,
            Self::TraceInfo(_) => descriptor::TRACE_INFO,
            Self::TraceInfoFeature(_) => descriptor::TRACE_INFO_FEATURE,
            Self::ProcessIdExt(_) => descriptor::PROCESS_ID_EXT,
            Self::ForcePc(_) => descriptor::FORCE_PC,
            Self::VlenConfig(_) => descriptor::VLEN_CONFIG,
            Self::ProtocolId(_) => descriptor::PROTOCOL_ID,
            Self::ClockId { .. } => descriptor::CLOCK_ID,
            Self::IsaExtended(_) => descriptor::ISA_EXTENDED,
            Self::EndHeader => descriptor::END_HEADER,
            Self::InstPcTarget(_) => descriptor::INST_PC_TARGET,
            Self::InstReg(_) => descriptor::INST_REG,
            Self::InstReadyReg(_) => descriptor::INST_READY_REG,
            Self::PageTableWalk(_) => descriptor::PAGE_TABLE_WALK,
            Self::InstMemAccess(_) => descriptor::INST_MEM_ACCESS,
            Self::InstMemContent(_) => descriptor::INST_MEM_CONTENT,
            Self::BusMasterAccess(_) => descriptor::BUS_MASTER_ACCESS,
            Self::BusMasterContent(_) => descriptor::BUS_MASTER_CONTENT,
            Self::Event(_) => descriptor::EVENT,
            Self::EventPcTarget(_) => descriptor::EVENT_PC_TARGET,
            Self::InstMicroop { .. } => descriptor::INST_MICROOP,
            Self::InstOpcode32(_) => descriptor::INST_OPCODE32,
            Self::InstOpcode16(_) => descriptor::INST_OPCODE16,
            Self::Transaction(_) => descriptor::TRANSACTION,
            Self::TransactionDependency { .. } => descriptor::TRANSACTION_DEPENDENCY,
            Self::ReserveEnd => descriptor::RESERVE_END,
        }
    }

    /// Appends its bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let mut out = Output::new(bytes, self.descriptor());
        match self {
            Self::Identifier(letters) => out.bytes(letters),
            Self::Version { major, minor } => out.u32(*major).u32(*minor),
            Self::Comment(text) | Self::IsaExtended(text) => out.u32(text.len() as u32).bytes(text),
            Self::Isa(value) | Self::InstIem(value) | Self::InstReadyReg(value) | Self::InstOpcode16(value) => {
                out.u16(*value)
            }
            Self::TraceInfo(TraceInfo { generator, version, comment }) => {
                out.u8(*generator).bytes(version).u16(comment.len() as u16).bytes(comment)
            }
            Self::TraceInfoFeature(value)
            | Self::ForcePc(value)
            | Self::InstPcTarget(value)
            | Self::InstMemContent(value)
            | Self::BusMasterContent(value)
            | Self::EventPcTarget(value) => out.u64(*value),
            Self::ProcessIdExt([first, second, third]) => out.u32(*first).u32(*second).u32(*third),
            Self::VlenConfig(value) | Self::InstOpcode32(value) => out.u32(*value),
            Self::ProtocolId(id) => out.u8(*id),
            Self::ClockId { id, name } => out.u8(*id).u16(name.len() as u16).bytes(name),
            Self::EndHeader | Self::ReserveEnd => &mut out,
            Self::InstReg(Register { number, meta, value }) => out.u16(*number).u8(*meta).bytes(value),
            Self::PageTableWalk(PageTableWalk { address, first_use, page_size, entries }) => {
                out.u64(*address).u64(*first_use).u32(*page_size).u8((entries.len() / 16) as u8).bytes(entries)
            }
            Self::InstMemAccess(MemAccess { address, size, attributes, kind }) => {
                out.u64(*address).u16(*size).u16(*attributes).u8(*kind)
            }
            Self::BusMasterAccess(BusAccess { address, size, initiator, index, attributes, kind }) => {
                out.u64(*address).u16(*size).u8(*initiator).u8(*index).u32(*attributes).u8(*kind)
            }
            Self::Event(Event { raw, is_wide, data }) => {
                if *is_wide { out.u64(*raw) } else { out.u32(*raw as u32) }.u8((data.len() / 8) as u8).bytes(data)
            }
            Self::InstMicroop { size, encoding } => out.u8(*size).u32(*encoding),
            Self::Transaction(Transaction { id, cycles, clock, count, metadata, data }) => {
                out.u64(*id).u64(*cycles).u8(*clock).u16(*count).bytes(metadata).bytes(data)
            }
            Self::TransactionDependency { id, cycles, clock } => out.u64(*id).u64(*cycles).u8(*clock),
        };
    }
}

#[inline]
fn trace_info<'b>(input: &mut Cursor<'b>) -> Result<TraceInfo<'b>, Malformed> {
    Ok(TraceInfo { generator: input.u8()?, version: input.array()?, comment: input.counted_u16()? })
}

#[inline]
fn register<'b>(input: &mut Cursor<'b>, layout: &Layout) -> Result<Register<'b>, Malformed> {
    let (number, meta) = (input.u16()?, input.u8()?);
    let is_vector = meta & 0xf == Register::VECTOR;
    let length = if is_vector { layout.vector_bytes().ok_or(Malformed::NoVectorLength)? } else { 8 };
    Ok(Register { number, meta, value: input.take(length)? })
}

#[inline]
fn page_table_walk<'b>(input: &mut Cursor<'b>) -> Result<PageTableWalk<'b>, Malformed> {
    let (address, first_use, page_size, count) = (input.u64()?, input.u64()?, input.u32()?, input.u8()?);
    Ok(PageTableWalk { address, first_use, page_size, entries: input.take(usize::from(count) * 16)? })
}

#[inline]
fn mem_access(input: &mut Cursor<'_>) -> Result<MemAccess, Malformed> {
    Ok(MemAccess { address: input.u64()?, size: input.u16()?, attributes: input.u16()?, kind: input.u8()? })
}

#[inline]
fn bus_access(input: &mut Cursor<'_>) -> Result<BusAccess, Malformed> {
    Ok(BusAccess {
        address: input.u64()?,
        size: input.u16()?,
        initiator: input.u8()?,
        index: input.u8()?,
        attributes: input.u32()?,
        kind: input.u8()?,
    })
}

#[inline]
fn event<'b>(input: &mut Cursor<'b>, layout: &Layout) -> Result<Event<'b>, Malformed> {
    let is_wide = layout.has_wide_events();
    let raw = if is_wide { input.u64()? } else { u64::from(input.u32()?) };
    let count = usize::from(input.u8()?);
    Ok(Event { raw, is_wide, data: input.take(count * 8)? })
}

fn transaction<'b>(input: &mut Cursor<'b>, layout: &Layout) -> Result<Transaction<'b>, Malformed> {
    let (id, cycles, clock, count) = (input.u64()?, input.u64()?, input.u8()?, input.u16()?);
    let metadata = input.measured(|input| {
        for _ in 0..count {
            match input.u8()? {
                size @ 0..=3 => input.take(1 << size)?,
                size => return Err(Malformed::MetadataSize(size)),
            };
        }
        Ok(())
    })?;
    let data = match layout.protocol() {
        Some(super::layout::TILELINK) => input.measured(skip_tilelink)?,
        other => return Err(Malformed::UnknownProtocol(other)),
    };
    Ok(Transaction { id, cycles, clock, count, metadata, data })
}

/// Skips the protocol data of TileLink; `text/tilelink.rs` shows them.
fn skip_tilelink(input: &mut Cursor<'_>) -> Result<(), Malformed> {
    // Channels A to E are numbered from 1.
    let channel = input.u8()?;
    match channel {
        1..=4 => {
            let [_code, _parameter, _size] = input.array()?;
            let _source = input.u64()?;
            let _data = input.counted_u16()?;
            // The address on A, B and C; the sink on D.
            input.u64()?;
            // A and B have a mask.
            if channel <= 2 {
                let bits = usize::from(input.u16()?);
                input.take(bits.div_ceil(8))?;
            }
        }
        5 => {
            let _sink = input.u64()?;
        }
        other => return Err(Malformed::UnknownChannel(other)),
    }
    Ok(())
}
