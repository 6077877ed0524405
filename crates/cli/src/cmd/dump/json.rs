//! Records as JSON: the fields of the format under their names, in the order of their bits.

use unspool::astf::record::{Instruction, RECORD_BYTES, Record, StringContinuation, StringStart, xattr_mode};
use unspool::astf::text::Lines;
use unspool::astf::{Bytes, Value};

use super::push_bytes;
use crate::astf::offset_of;
use crate::json::Object;

/// Writes records as JSON, from the first of a file on.
pub(super) struct Json {
    /// Remembers how instructions read.
    lines: Lines,
    /// Bytes of a string that are still to come, if one is under way.
    owed: Option<usize>,
    line: String,
    scratch: String,
}

impl Json {
    pub(super) fn new() -> Self {
        Self { lines: Lines::new(), owed: None, line: String::new(), scratch: String::new() }
    }

    /// Takes note of a record that is not printed.
    pub(super) fn pass(&mut self, record: &Bytes) {
        match record[0] {
            StringStart::TYPE | StringContinuation::TYPE => {
                self.take(&Record::from_bytes(record));
            }
            _ => self.owed = None,
        }
    }

    /// Adds the line of a record.
    pub(super) fn line(&mut self, number: u64, bytes: &Bytes, hex: bool, out: &mut String) {
        let record = Record::from_bytes(bytes);
        let used = self.take(&record);
        let Self { lines, line, scratch, .. } = self;
        let mut object = Object::new(line);
        object.plain("record", number).plain("offset", offset_of(number)).string("type", type_name(&record));
        record.each_field(|name, value| match value {
            Value::Bytes(bytes) => put_bytes(&mut object, scratch, name, bytes, used),
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
            put_hex(&mut object, scratch, "hex", bytes);
        }
        object.end();
        out.push_str(line);
    }

    /// How many bytes of a string the record has.
    fn take(&mut self, record: &Record) -> usize {
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

fn type_name(record: &Record) -> &'static str {
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

/// Addresses and opcodes in hexadecimal, other numbers as they are; what is reserved only if it is set.
fn put_number(object: &mut Object<'_>, record: &Record, name: &'static str, number: u64) {
    match (name, record) {
        ("pc" | "ea" | "target_pc" | "mem0_addr", _) => {
            object.hex(name, number);
        }
        ("iword", _) => {
            object.string(name, format_args!("{number:#010x}"));
        }
        ("mem1_addr", Record::ExtraEa(extra)) if extra.mem1_addr_range => {
            object.plain(name, number);
        }
        ("mem1_addr", _) => {
            object.hex(name, number);
        }
        ("xattr", Record::Instruction(instruction)) => put_attribute(object, instruction),
        // The second value is reserved too.
        (name, _) if number == 0 && (name.contains("reserved") || name == "value1") => {}
        _ => {
            object.plain(name, number);
        }
    }
}

/// The extended attribute has a name for each of its modes.
fn put_attribute(object: &mut Object<'_>, instruction: &Instruction) {
    let xattr = instruction.xattr;
    match instruction.xattr_mode {
        xattr_mode::RANGE => {
            object.plain("ea_range", xattr);
        }
        xattr_mode::SME => {
            object.plain("sme_index", xattr & 0xff);
            object.optional("sme_reserved56", Some(xattr >> 8).filter(|rest| *rest != 0));
        }
        _ => {
            object.optional("xattr", Some(xattr).filter(|xattr| *xattr != 0));
        }
    }
}

/// A string as text, or as `bytes` if it is none; what stands behind its end only if it is set.
fn put_bytes(object: &mut Object<'_>, scratch: &mut String, name: &'static str, bytes: &[u8], used: usize) {
    let (string, behind) = bytes.split_at(used.min(bytes.len()));
    match (name, str::from_utf8(string)) {
        ("magic", Ok(magic)) => {
            object.string("magic_header", magic);
        }
        ("string", Ok(text)) => {
            object.string(name, text);
        }
        _ => put_hex(object, scratch, "bytes", string),
    }
    if behind.iter().any(|byte| *byte != 0) {
        put_hex(object, scratch, "reserved", behind);
    }
}

fn put_hex(object: &mut Object<'_>, scratch: &mut String, name: &str, bytes: &[u8]) {
    scratch.clear();
    scratch.push_str("0x");
    push_bytes(scratch, bytes);
    object.string(name, &*scratch);
}
