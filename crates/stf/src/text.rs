//! Text of traces: one instruction or one record per line.
//!
//! instruction ─▶ **line**: number, address, opcode and disassembly; an indented line for each other record of its group
//! record ─▶ **line**: number, offset, name and fields
//!
//! Lines are in file order. Numbers are unchanged; names are added. Disassembly is cached by opcode, so that loops are
//! cheap. Nothing is checked.

mod opcodes;
mod tilelink;

use std::fmt::Write as _;

use unspool_isa::RiscvExtensions;

use self::opcodes::Opcodes;
use super::isa::RISCV;
use super::lift::Instruction;
use super::names::{self, EventKind, RegisterName};
use super::read::Position;
use super::record::{BusAccess, Event, MemAccess, PageTableWalk, Record, Register, TraceInfo, Transaction};
use unspool_model::digits::{push_address, push_decimal, push_hex, push_opcode, push_short_hex};

/// Writes instructions and records as lines.
///
/// ```
/// use unspool_stf::Record;
/// use unspool_stf::read::Position;
/// use unspool_stf::text::Lines;
///
/// let mut lines = Lines::new();
/// let mut text = String::new();
/// lines.record(Position { record: 7, offset: 0x51 }, &Record::ForcePc(0x8000_1234), &mut text);
/// assert_eq!(text, "7 0x00000051 force_pc 0x0000000080001234");
/// ```
#[derive(Debug)]
pub struct Lines {
    /// The instruction set: 1 RISC-V, 2 Arm.
    isa: u16,
    opcodes: Opcodes,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new()
    }
}

/// Prefix of the lines below an instruction.
const INDENT: &str = "\n    ";

impl Lines {
    /// Lines of RISC-V instructions, unless a record selects another set.
    pub fn new() -> Self {
        Self { isa: RISCV, opcodes: Opcodes::new() }
    }

    /// Follows a record of the header that selects the instruction set or its extensions.
    pub fn follow(&mut self, record: &Record<'_>) {
        match record {
            Record::Isa(isa) => self.isa = *isa,
            Record::IsaExtended(list) => self.opcodes.set_extensions(RiscvExtensions::of(list)),
            _ => {}
        }
    }

    /// Appends the lines of an instruction, without a final newline.
    pub fn instruction(&mut self, instruction: &Instruction<'_>, out: &mut String) {
        self.head(instruction, out);
        self.details(instruction, out);
    }

    /// Appends the first line of an instruction: number, address, opcode and disassembly.
    pub fn head(&mut self, instruction: &Instruction<'_>, out: &mut String) {
        let Instruction { number, pc, opcode, length, iem, .. } = *instruction;
        push_decimal(out, number);
        out.push(' ');
        push_address(out, pc);
        out.push(' ');
        push_opcode(out, opcode, length);
        out.push_str(if length == 2 { "     " } else { " " });
        self.opcodes.push(self.isa, iem, pc, opcode, out);
    }

    /// Appends the lines below an instruction, each preceded by a newline.
    pub fn details(&mut self, instruction: &Instruction<'_>, out: &mut String) {
        if instruction.records == 1 {
            return;
        }
        let mut rest = None;
        for record in instruction.group() {
            // Data belongs to the line of its access.
            match (&rest, &record) {
                (Some(Content::Memory), Record::InstMemContent(word))
                | (Some(Content::Bus), Record::BusMasterContent(word)) => {
                    out.push(' ');
                    push_address(out, *word);
                    continue;
                }
                _ => rest = None,
            }
            match record {
                Record::InstOpcode32(_) | Record::InstOpcode16(_) => continue,
                _ => out.push_str(INDENT),
            }
            match record {
                Record::InstReg(register) => write_register(&register, out),
                Record::InstMemAccess(access) => {
                    write_access(&access, out);
                    out.push_str(" =");
                    rest = Some(Content::Memory);
                }
                Record::InstPcTarget(target) => {
                    out.push_str("target ");
                    push_address(out, target);
                }
                Record::BusMasterAccess(access) => {
                    out.push_str("bus ");
                    write_bus_access(&access, out);
                    out.push_str(" =");
                    rest = Some(Content::Bus);
                }
                Record::InstMicroop { size, encoding } => {
                    out.push_str("microop ");
                    push_opcode(out, encoding, size);
                    out.push(' ');
                    self.opcodes.push(self.isa, instruction.iem, instruction.pc, encoding, out);
                }
                other => write_rare(&other, out),
            }
        }
    }

    /// Appends the line of a record, without a final newline.
    pub fn record(&mut self, position: Position, record: &Record<'_>, out: &mut String) {
        push_decimal(out, position.record);
        let _ = write!(out, " {:#010x} {}", position.offset, names::record(record.descriptor()).unwrap_or("unknown"));
        let end = out.len();
        out.push(' ');
        write_fields(record, out);
        if out.len() == end + 1 {
            out.truncate(end);
        }
    }

    /// Appends the disassembly of an instruction: `bne a0, a1, 0x80001234`.
    pub fn disassembly(&mut self, instruction: &Instruction<'_>, out: &mut String) {
        self.opcode(instruction.iem, instruction.pc, instruction.opcode, out);
    }

    /// Appends the disassembly of an opcode in this encoding mode at this address.
    pub fn opcode(&mut self, iem: u16, pc: u64, opcode: u32, out: &mut String) {
        self.opcodes.push(self.isa, iem, pc, opcode, out);
    }
}

/// Kind of access whose data may follow.
#[derive(PartialEq, Eq)]
enum Content {
    Memory,
    Bus,
}

/// Appends a rare record of a group: a keyword and its fields.
fn write_rare(record: &Record<'_>, out: &mut String) {
    let word = match record {
        Record::InstIem(_) => "encoding",
        Record::ProcessIdExt(_) => "process",
        Record::ForcePc(_) => "forced",
        Record::InstReadyReg(_) => "ready",
        Record::PageTableWalk(_) => "walk",
        Record::InstMemContent(_) => "content without an access",
        Record::BusMasterContent(_) => "bus content without an access",
        Record::EventPcTarget(_) => "event target",
        // The kind of an event is its keyword.
        Record::Event(_) => return write_fields(record, out),
        other => names::record(other.descriptor()).unwrap_or("unknown"),
    };
    out.push_str(word);
    out.push(' ');
    write_fields(record, out);
}

fn write_fields(record: &Record<'_>, out: &mut String) {
    match record {
        Record::Identifier(letters) => write_text(letters, out),
        Record::Version { major, minor } => {
            let _ = write!(out, "{major}.{minor}");
        }
        Record::Comment(text) | Record::IsaExtended(text) => write_text(text, out),
        Record::Isa(isa) => write_named(u64::from(*isa), names::isa(*isa), out),
        Record::InstIem(iem) => write_named(u64::from(*iem), names::iem(*iem), out),
        Record::TraceInfo(info) => write_info(info, out),
        Record::TraceInfoFeature(features) => write_features(*features, out),
        Record::ProcessIdExt([first, second, third]) => {
            let _ = write!(out, "{first} {second} {third}");
        }
        Record::VlenConfig(bits) => push_decimal(out, u64::from(*bits)),
        Record::ProtocolId(id) => write_named(u64::from(*id), names::protocol(*id), out),
        Record::ClockId { id, name } => {
            let _ = write!(out, "{id} ");
            write_text(name, out);
        }
        Record::EndHeader | Record::ReserveEnd => {}
        Record::ForcePc(value)
        | Record::InstPcTarget(value)
        | Record::EventPcTarget(value)
        | Record::InstMemContent(value)
        | Record::BusMasterContent(value) => push_address(out, *value),
        Record::InstReg(register) => write_register(register, out),
        Record::InstReadyReg(number) => push_decimal(out, u64::from(*number)),
        Record::PageTableWalk(walk) => write_walk(walk, out),
        Record::InstMemAccess(access) => write_access(access, out),
        Record::BusMasterAccess(access) => write_bus_access(access, out),
        Record::Event(event) => write_event(event, out),
        Record::InstMicroop { size, encoding } => push_opcode(out, *encoding, *size),
        Record::InstOpcode32(opcode) => push_opcode(out, *opcode, 4),
        Record::InstOpcode16(opcode) => push_opcode(out, u32::from(*opcode), 2),
        Record::Transaction(transaction) => write_transaction(transaction, out),
        Record::TransactionDependency { id, cycles, clock } => {
            let _ = write!(out, "{id} after {cycles} cycles of clock {clock}");
        }
    }
}

fn write_text(bytes: &[u8], out: &mut String) {
    out.push('"');
    let _ = write!(out, "{}", bytes.escape_ascii());
    out.push('"');
}

fn write_named(number: u64, name: Option<&str>, out: &mut String) {
    push_decimal(out, number);
    if let Some(name) = name {
        out.push(' ');
        out.push_str(name);
    }
}

fn write_info(info: &TraceInfo<'_>, out: &mut String) {
    let TraceInfo { generator, version: [major, minor, patch], comment } = *info;
    write_named(u64::from(generator), names::generator(generator), out);
    let _ = write!(out, " {major}.{minor}.{patch} ");
    write_text(comment, out);
}

fn write_features(features: u64, out: &mut String) {
    push_short_hex(out, features);
    for name in names::features(features) {
        let _ = write!(out, " {name}");
    }
}

/// `state x5 0x0102030405060708`; of a vector all words, the most significant first.
fn write_register(register: &Register<'_>, out: &mut String) {
    match names::operand(register.operand()) {
        Some(operand) => out.push_str(operand),
        None => {
            let _ = write!(out, "operand{}", register.operand());
        }
    }
    out.push(' ');
    match names::register(register) {
        RegisterName::Plain(name) => out.push_str(name),
        RegisterName::Numbered(stem, number) => {
            out.push_str(stem);
            push_decimal(out, u64::from(number));
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
    out.push(' ');
    if let Ok(word) = <[u8; 8]>::try_from(register.value) {
        return push_address(out, u64::from_le_bytes(word));
    }
    out.push_str("0x");
    register.value.iter().rev().for_each(|byte| push_hex(out, &[*byte]));
}

/// `read 8 at 0x0000004000001008 attributes 0xbeef`.
fn write_access(access: &MemAccess, out: &mut String) {
    let MemAccess { address, size, attributes, kind } = *access;
    write_access_head(kind, size, address, out);
    if attributes != 0 {
        out.push_str(" attributes ");
        push_short_hex(out, u64::from(attributes));
    }
}

fn write_access_head(kind: u8, size: u16, address: u64, out: &mut String) {
    match names::access(kind) {
        Some(name) => out.push_str(name),
        None => {
            let _ = write!(out, "access{kind}");
        }
    }
    out.push(' ');
    push_decimal(out, u64::from(size));
    out.push_str(" at ");
    push_address(out, address);
}

/// `write 64 at 0x.. by 3 DMA (PCIe by the text) index 2 attributes 0xcafef00d`.
fn write_bus_access(access: &BusAccess, out: &mut String) {
    let BusAccess { address, size, initiator, index, attributes, kind } = *access;
    write_access_head(kind, size, address, out);
    out.push_str(" by ");
    write_named(u64::from(initiator), names::initiator(initiator), out);
    if let Some(name) = names::specified_initiator(initiator) {
        let _ = write!(out, " ({name} by the text)");
    }
    let _ = write!(out, " index {index} attributes {attributes:#x}");
}

/// `fault LOAD_PAGE_FAULT 0x1000 0x13`; a change of mode with its name.
fn write_event(event: &Event<'_>, out: &mut String) {
    let _ = write!(out, "{} {}", EventKind::of(event).name(), names::event(event));
    for word in event.words() {
        out.push(' ');
        push_short_hex(out, word);
    }
    if let Some(name) = event.mode().and_then(names::mode) {
        out.push(' ');
        out.push_str(name);
    }
}

/// `0x.. page 4096 first used by 7: 0x81000000 = 0x20400401, ..`, the leaf last.
fn write_walk(walk: &PageTableWalk<'_>, out: &mut String) {
    push_address(out, walk.address);
    let _ = write!(out, " page {} first used by {}", walk.page_size, walk.first_use);
    for (index, (address, entry)) in walk.pairs().enumerate() {
        let _ = write!(out, "{} {address:#x} = {entry:#x}", if index == 0 { ":" } else { "," });
    }
}

fn write_transaction(transaction: &Transaction<'_>, out: &mut String) {
    let Transaction { id, cycles, clock, metadata, data, .. } = transaction;
    let _ = write!(out, "{id} after {cycles} cycles of clock {clock}");
    let mut rest = *metadata;
    while let Some((size, more)) = rest.split_first() {
        let (value, more) = more.split_at(more.len().min(1 << (size & 3)));
        let number = value.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let _ = write!(out, "{} {number:#x}", if rest.len() == metadata.len() { " metadata" } else { "," });
        rest = more;
    }
    out.push(' ');
    tilelink::write(data, out);
}
