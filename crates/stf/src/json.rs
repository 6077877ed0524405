//! STF as JSON lines: instructions with their groups, or records, under stable keys.
//!
//! Takes instructions or records in the order of the file; produces one object per item. Addresses, opcodes and values
//! are hexadecimal strings; counts, sizes and indices are numbers. An enumerated value is its name, or its number if it
//! has no name; some keys have the number, and the name follows under the key `name`.

use unspool_model::json::{Object, quoted};

use crate::lift::Instruction;
use crate::names::{self, EventKind};
use crate::read::Position;
use crate::record::{BusAccess, Event, MemAccess, PageTableWalk, Record, Register, TraceInfo, descriptor};
use crate::text::Lines;

/// Writes instructions or records as JSON lines.
#[derive(Debug, Default)]
pub struct Json {
    lines: Lines,
    line: String,
    scratch: String,
}

impl Json {
    /// A writer at the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows a record of the header that selects the instruction set or its extensions.
    pub fn follow(&mut self, record: &Record<'_>) {
        self.lines.follow(record);
    }

    /// Adds the line of an instruction.
    pub fn instruction(&mut self, instruction: &Instruction<'_>, hex: bool, out: &mut String) {
        let Instruction { number, position, pc, opcode, length, is_forced, mode, iem, .. } = *instruction;
        let Self { lines, line, scratch } = self;
        let kinds = Kinds::of(instruction);
        let mut object = Object::new(line);
        object
            .string("kind", "instruction")
            .plain("instruction", number)
            .plain("record", position.record)
            .plain("offset", position.offset);
        object.hex("address", pc);
        put_opcode(&mut object, "opcode", opcode, length);
        object.plain("length", length);
        scratch.clear();
        lines.disassembly(instruction, scratch);
        object.string("text", &*scratch);
        put_name_or_number(&mut object, "iem", names::iem(iem), u64::from(iem));
        match mode {
            Some(mode) => put_name_or_number(&mut object, "mode", names::mode(mode), mode),
            None => {
                object.null("mode");
            }
        }
        object.nullable_hex("target", kinds.pc_target).flag("forced", is_forced);
        let has_details = instruction.records > 1;
        if has_details {
            put_group(&mut object, instruction, &kinds, lines, scratch);
        }
        if hex {
            object.bytes("hex", instruction.bytes);
        }
        object.end_line();
        out.push_str(line);
    }

    /// Adds the line of a record.
    pub fn record(&mut self, position: Position, record: &Record<'_>, bytes: Option<&[u8]>, out: &mut String) {
        let Self { line, .. } = self;
        let mut object = Object::new(line);
        object.plain("record", position.record).plain("offset", position.offset);
        object.string("kind", names::record(record.descriptor()).unwrap_or("unknown"));
        put_record_fields(&mut object, record);
        if let Some(bytes) = bytes {
            object.bytes("hex", bytes);
        }
        object.end_line();
        out.push_str(line);
    }
}

/// Kinds of records in a group, so that absent kinds are not searched.
struct Kinds {
    /// Of INST_PC_TARGET. Unlike [`Instruction::target`], the target of an event is not in it.
    pc_target: Option<u64>,
    descriptors: [bool; 256],
}

impl Kinds {
    fn of(instruction: &Instruction<'_>) -> Self {
        let mut kinds = Self { pc_target: None, descriptors: [false; 256] };
        if instruction.records == 1 {
            return kinds;
        }
        for record in instruction.group() {
            kinds.descriptors[usize::from(record.descriptor())] = true;
            if let Record::InstPcTarget(target) = record {
                kinds.pc_target = Some(target);
            }
        }
        kinds
    }

    fn has(&self, descriptor: u8) -> bool {
        self.descriptors[usize::from(descriptor)]
    }
}

/// Lists of the records in a group, one per kind that is present.
fn put_group(
    object: &mut Object<'_>,
    instruction: &Instruction<'_>,
    kinds: &Kinds,
    lines: &mut Lines,
    scratch: &mut String,
) {
    let records = |descriptor| instruction.group().filter(move |record| record.descriptor() == descriptor);
    let put_object = |text: &mut String, record| put_record(text, &record, |_| {});
    if kinds.has(descriptor::PROCESS_ID_EXT) {
        object.list("processes", records(descriptor::PROCESS_ID_EXT), |text, record| {
            if let Record::ProcessIdExt(ids) = record {
                put_numbers(text, &ids);
            }
        });
    }
    if kinds.has(descriptor::INST_REG) {
        object.list("registers", records(descriptor::INST_REG), put_object);
    }
    for (key, leader, follower) in [
        ("memory", descriptor::INST_MEM_ACCESS, Some(descriptor::INST_MEM_CONTENT)),
        ("events", descriptor::EVENT, Some(descriptor::EVENT_PC_TARGET)),
        ("walks", descriptor::PAGE_TABLE_WALK, None),
        ("bus", descriptor::BUS_MASTER_ACCESS, Some(descriptor::BUS_MASTER_CONTENT)),
    ] {
        if kinds.has(leader) {
            object.list(key, with_follower_words(instruction, leader, follower), |text, (record, words)| {
                put_record(text, &record, |object| match record {
                    Record::Event(_) => {
                        object.nullable_hex("target", words.last().copied());
                    }
                    Record::PageTableWalk(_) => {}
                    _ => {
                        object.list("content", words, put_hex);
                    }
                });
            });
        }
    }
    if kinds.has(descriptor::INST_MICROOP) {
        object.list("microops", records(descriptor::INST_MICROOP), |text, record| {
            put_record(text, &record, |object| {
                if let Record::InstMicroop { encoding, .. } = record {
                    scratch.clear();
                    lines.opcode(instruction.iem, instruction.pc, encoding, scratch);
                    object.string("text", &*scratch);
                }
            });
        });
    }
    if kinds.has(descriptor::INST_READY_REG) {
        object.list("ready", records(descriptor::INST_READY_REG), |text, record| {
            if let Record::InstReadyReg(number) = record {
                put_number(text, u64::from(number));
            }
        });
    }
    if kinds.has(descriptor::COMMENT) {
        object.list("comments", records(descriptor::COMMENT), |text, record| {
            if let Record::Comment(comment) = record {
                quoted(text, String::from_utf8_lossy(comment));
            }
        });
    }
}

/// An object with the fields of a record, and more.
fn put_record(text: &mut String, record: &Record<'_>, more: impl FnOnce(&mut Object<'_>)) {
    let mut object = Object::nested(text);
    put_record_fields(&mut object, record);
    more(&mut object);
    object.close_nested();
}

/// Records with the descriptor `leader`, each with the words of the `follower` records between it and the next leader.
fn with_follower_words<'b>(
    instruction: &Instruction<'b>,
    leader: u8,
    follower: Option<u8>,
) -> Vec<(Record<'b>, Vec<u64>)> {
    let mut found: Vec<(Record<'b>, Vec<u64>)> = Vec::new();
    for record in instruction.group() {
        let descriptor = record.descriptor();
        if descriptor == leader {
            found.push((record, Vec::new()));
        } else if let (
            Some((_, words)),
            Record::InstMemContent(word) | Record::BusMasterContent(word) | Record::EventPcTarget(word),
        ) = (found.last_mut().filter(|_| Some(descriptor) == follower), record)
        {
            words.push(word);
        }
    }
    found
}

fn put_record_fields(object: &mut Object<'_>, record: &Record<'_>) {
    match record {
        Record::Identifier(letters) => put_text(object, "letters", letters),
        Record::Version { major, minor } => {
            object.plain("major", major).plain("minor", minor);
        }
        Record::Comment(text) | Record::IsaExtended(text) => put_text(object, "text", text),
        Record::Isa(isa) => put_number_and_name(object, "isa", *isa, names::isa(*isa)),
        Record::InstIem(iem) => put_number_and_name(object, "iem", *iem, names::iem(*iem)),
        Record::TraceInfo(info) => put_info(object, info),
        Record::TraceInfoFeature(features) => {
            object.hex("features", *features);
            object.list("names", names::features(*features), quoted);
        }
        Record::ProcessIdExt(ids) => {
            object.list("ids", ids, |text, id| put_number(text, u64::from(*id)));
        }
        Record::ForcePc(pc) => {
            object.hex("address", *pc);
        }
        Record::InstPcTarget(target) | Record::EventPcTarget(target) => {
            object.hex("target", *target);
        }
        Record::InstMemContent(word) | Record::BusMasterContent(word) => {
            object.hex("value", *word);
        }
        Record::VlenConfig(bits) => {
            object.plain("bits", bits);
        }
        Record::ProtocolId(id) => put_number_and_name(object, "protocol", u16::from(*id), names::protocol(*id)),
        Record::ClockId { id, name } => {
            object.plain("id", id);
            put_text(object, "name", name);
        }
        Record::EndHeader | Record::ReserveEnd => {}
        Record::InstReg(register) => put_register(object, register),
        Record::InstReadyReg(number) => {
            object.plain("number", number);
        }
        Record::PageTableWalk(walk) => put_walk(object, walk),
        Record::InstMemAccess(access) => put_access(object, access),
        Record::BusMasterAccess(access) => put_bus_access(object, access),
        Record::Event(event) => put_event(object, event),
        Record::InstMicroop { size, encoding } => {
            object.plain("size", size);
            put_opcode(object, "encoding", *encoding, *size);
        }
        Record::InstOpcode32(opcode) => put_opcode(object, "opcode", *opcode, 4),
        Record::InstOpcode16(opcode) => put_opcode(object, "opcode", u32::from(*opcode), 2),
        Record::Transaction(transaction) => {
            object.plain("id", transaction.id).plain("cycles", transaction.cycles).plain("clock", transaction.clock);
            object.plain("metadata_count", transaction.count);
            object.bytes("metadata", transaction.metadata).bytes("data", transaction.data);
        }
        Record::TransactionDependency { id, cycles, clock } => {
            object.plain("id", id).plain("cycles", cycles).plain("clock", clock);
        }
    }
}

fn put_info(object: &mut Object<'_>, info: &TraceInfo<'_>) {
    let TraceInfo { generator, version: [major, minor, patch], comment } = *info;
    put_number_and_name(object, "generator", u16::from(generator), names::generator(generator));
    object.string("version", format_args!("{major}.{minor}.{patch}"));
    put_text(object, "comment", comment);
}

fn put_register(object: &mut Object<'_>, register: &Register<'_>) {
    put_name_or_number(object, "operand", names::operand(register.operand()), u64::from(register.operand()));
    object.string("register", names::register(register));
    match <[u8; 8]>::try_from(register.value) {
        Ok(word) => object.hex("value", u64::from_le_bytes(word)),
        // The most significant byte first, as in other values.
        Err(_) => object.bytes("value", &register.value.iter().rev().copied().collect::<Vec<u8>>()),
    };
}

fn put_access(object: &mut Object<'_>, access: &MemAccess) {
    put_name_or_number(object, "access", names::access(access.kind), u64::from(access.kind));
    object.hex("address", access.address).plain("size", access.size);
    object.hex("attributes", u64::from(access.attributes));
}

fn put_bus_access(object: &mut Object<'_>, access: &BusAccess) {
    put_name_or_number(object, "access", names::access(access.kind), u64::from(access.kind));
    object.hex("address", access.address).plain("size", access.size);
    put_number_and_name(object, "initiator", u16::from(access.initiator), names::initiator(access.initiator));
    // The name in the text of the specification, whose numbering differs from that of the library.
    put_nullable(object, "name_by_text", names::specified_initiator(access.initiator));
    object.plain("index", access.index).hex("attributes", u64::from(access.attributes));
}

fn put_event(object: &mut Object<'_>, event: &Event<'_>) {
    object.string("event", EventKind::of(event).name()).string("name", names::event(event)).hex("number", event.raw);
    object.list("data", event.words(), put_hex);
    if let Some(mode) = event.mode() {
        put_name_or_number(object, "mode", names::mode(mode), mode);
    }
}

fn put_walk(object: &mut Object<'_>, walk: &PageTableWalk<'_>) {
    object.hex("address", walk.address).plain("page_size", walk.page_size).plain("first_use", walk.first_use);
    object.list("entries", walk.pairs(), |text, (address, entry)| {
        Object::nested(text).hex("address", address).hex("entry", entry).close_nested();
    });
}

/// All digits of an opcode.
fn put_opcode(object: &mut Object<'_>, key: &str, opcode: u32, length: u8) {
    let digits = if length == 2 { 4 } else { 8 };
    object.string(key, format_args!("0x{opcode:0digits$x}"));
}

/// The name, or the number if it has none.
fn put_name_or_number(object: &mut Object<'_>, key: &str, name: Option<&str>, number: u64) {
    match name {
        Some(name) => object.string(key, name),
        None => object.plain(key, number),
    };
}

/// The number, and the name or `null` as `name`.
fn put_number_and_name(object: &mut Object<'_>, key: &str, number: u16, name: Option<&str>) {
    object.plain(key, number);
    put_nullable(object, "name", name);
}

fn put_nullable(object: &mut Object<'_>, key: &str, text: Option<&str>) {
    match text {
        Some(text) => object.string(key, text),
        None => object.null(key),
    };
}

/// Text under its key. If it is not UTF-8, its bytes in hexadecimal under the key `bytes` instead.
fn put_text(object: &mut Object<'_>, key: &str, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => object.string(key, text),
        Err(_) => object.bytes("bytes", bytes),
    };
}

fn put_hex(text: &mut String, number: u64) {
    quoted(text, format_args!("{number:#x}"));
}

fn put_number(text: &mut String, number: u64) {
    use std::fmt::Write as _;
    let _ = write!(text, "{number}");
}

fn put_numbers(text: &mut String, numbers: &[u32]) {
    text.push('[');
    for (index, number) in numbers.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        put_number(text, u64::from(*number));
    }
    text.push(']');
}
