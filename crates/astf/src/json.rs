//! Records as JSON lines: the fields of the format under their names, in the order of their bits. The address of an
//! instruction and the value of a timestamp have the names that they have in all formats: `address`, `time`.
//!
//! Takes records in the order of the file; produces one object per record. Knows nothing of containers or output files.

use unspool_model::json::Object;

use crate::layout::{Bytes, Value};
use crate::record::{Instruction, RECORD_BYTES, Record, StringContinuation, StringStart, offset_of, xattr_mode};
use crate::text::{Before, Lines};

/// Writes records as JSON lines, from the first record of a file on.
#[derive(Debug, Default)]
pub struct Json {
    /// Disassembler with its cache.
    lines: Lines,
    /// Bytes missing from a string that continues in later records.
    owed: Option<usize>,
    line: String,
    scratch: String,
}

impl Json {
    /// A writer at the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues after other records.
    pub fn resume(&mut self, before: &Before) {
        self.owed = None;
        before.records().for_each(|record| self.pass(record));
    }

    /// Follows a record that is not printed.
    pub fn pass(&mut self, record: &Bytes) {
        match record[0] {
            StringStart::TYPE | StringContinuation::TYPE => {
                self.string_bytes(&Record::from_bytes(record));
            }
            _ => self.owed = None,
        }
    }

    /// Adds the line of a record; with `hex`, also its bytes.
    pub fn line(&mut self, number: u64, bytes: &Bytes, hex: bool, out: &mut String) {
        let record = Record::from_bytes(bytes);
        let used = self.string_bytes(&record);
        let Self { lines, line, scratch, .. } = self;
        let mut object = Object::new(line);
        object.plain("record", number).plain("offset", offset_of(number)).string("kind", kind_name(&record));
        record.each_field(|name, value| match value {
            Value::Bytes(bytes) => put_bytes(&mut object, name, bytes, used),
            Value::Flag(flag) => {
                if flag || !name.contains("reserved") {
                    object.flag(name, flag);
                }
            }
            Value::Number(number) => put_number(&mut object, &record, name, number),
        });
        if let Record::Instruction(Instruction { pc, iword, .. }) = record {
            scratch.clear();
            lines.disassembly(pc, iword, scratch);
            object.string("text", &*scratch);
        }
        if hex {
            object.bytes("hex", bytes);
        }
        object.end_line();
        out.push_str(line);
    }

    /// Number of string bytes in the record.
    fn string_bytes(&mut self, record: &Record) -> usize {
        let (all, room) = match record {
            Record::StringStart(start) => (Some(usize::from(start.size)), start.string.len()),
            Record::StringContinuation(more) => (self.owed, more.string.len()),
            _ => (None, RECORD_BYTES),
        };
        let used = all.unwrap_or(room).min(room);
        self.owed = all.map(|all| all - used).filter(|owed| *owed > 0);
        used
    }
}

fn kind_name(record: &Record) -> &'static str {
    match record {
        Record::Header(_) => "header",
        Record::Instruction(_) => "instruction",
        Record::Trap(_) => "trap",
        Record::ExtraEa(_) => "extra_ea",
        Record::Context(_) => "context",
        Record::StringStart(_) => "string",
        Record::StringContinuation(_) => "string_continuation",
        Record::Timestamp(_) => "timestamp",
        Record::Unknown(_) => "unknown",
    }
}

/// Addresses and opcodes in hexadecimal, other numbers in decimal; reserved fields only if they are set.
fn put_number(object: &mut Object<'_>, record: &Record, name: &'static str, number: u64) {
    match (name, record) {
        ("pc", _) => object.hex("address", number),
        ("value", Record::Timestamp(_)) => object.plain("time", number),
        ("ea" | "target_pc" | "mem0_addr", _) => object.hex(name, number),
        ("iword", _) => object.string(name, format_args!("{number:#010x}")),
        ("mem1_addr", Record::ExtraEa(extra)) if extra.mem1_addr_range => object.plain(name, number),
        ("mem1_addr", _) => object.hex(name, number),
        ("xattr", Record::Instruction(instruction)) => put_attribute(object, instruction),
        // The second value is reserved too.
        (name, _) if number == 0 && (name.contains("reserved") || name == "value1") => object,
        _ => object.plain(name, number),
    };
}

/// The extended attribute has a name for each of its modes.
fn put_attribute<'o, 'b>(object: &'o mut Object<'b>, instruction: &Instruction) -> &'o mut Object<'b> {
    let xattr = instruction.xattr;
    match instruction.xattr_mode {
        xattr_mode::RANGE => object.plain("ea_range", xattr),
        xattr_mode::SME => {
            let reserved = Some(xattr >> 8).filter(|rest| *rest != 0);
            object.plain("sme_index", xattr & 0xff).optional("sme_reserved56", reserved)
        }
        _ => object.optional("xattr", Some(xattr).filter(|xattr| *xattr != 0)),
    }
}

/// A string as text, or as `bytes` if it is not UTF-8; bytes after its end only if they are set.
fn put_bytes(object: &mut Object<'_>, name: &'static str, bytes: &[u8], used: usize) {
    let (string, rest) = bytes.split_at(used.min(bytes.len()));
    match (name, str::from_utf8(string)) {
        ("magic", Ok(magic)) => object.string("magic_header", magic),
        ("string", Ok(text)) => object.string(name, text),
        _ => object.bytes("bytes", string),
    };
    if rest.iter().any(|byte| *byte != 0) {
        object.bytes("reserved", rest);
    }
}
