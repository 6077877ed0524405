//! Tarmac lines as JSON lines: the fields of each record under stable keys, whichever dialect the log is in.
//!
//! Takes lines as the reader hands them out; produces one object per line. Knows nothing of containers or output files.

use unspool_model::json::{Object, quoted};

use crate::read::Position;
use crate::record::{Access, Direction, Instruction, Line, Picture, Purpose, Record, Register, Stamp};
use crate::text::{Text, byte_runs, kind, picture_name, set_name};

/// Adds the JSON line of a log line; with `with_raw`, also its text. `scratch` is a buffer to reuse.
pub fn push_json(position: Position, line: &Line<'_>, with_raw: bool, scratch: &mut String, text: &mut String) {
    let mut object = Object::new(scratch);
    object.plain("line", position.line).plain("offset", position.offset);
    match line.stamp {
        Stamp::At(time) => drop(object.string("time", time)),
        Stamp::Dashes => drop(object.null("time")),
        Stamp::Absent => {}
    }
    if let Some(core) = line.core {
        object.string("core", Text(core));
    }
    object.string("kind", kind(&line.record));
    push_fields(line, &mut object);
    if with_raw {
        object.string("raw", Text(line.raw));
    }
    object.end_line();
    text.push_str(scratch);
}

fn push_fields(line: &Line<'_>, object: &mut Object<'_>) {
    match &line.record {
        Record::Blank => {}
        Record::Comment(text) => drop(object.string("text", Text(text))),
        Record::Header(header) => {
            object.plain("revision", header.revision).string("flags", Text(header.flags));
        }
        Record::Instruction(instruction) => push_instruction(instruction, object),
        Record::Asynchronous(name) => drop(object.string("name", Text(name))),
        Record::Exception(exception) => {
            object.nullable("vector", exception.vector).string("name", Text(exception.name));
        }
        Record::Event(event) => {
            object.nullable_hex("value", event.value).nullable("number", event.number).string("name", Text(event.name));
            object.flag("exception", event.is_exception);
            push_text("mode", event.mode, object);
        }
        Record::Register(register) => push_register(register, object),
        Record::Operation(operation) => {
            object.string("operation", Text(operation.kind)).string("name", Text(operation.name));
            object.string("value", Text(operation.value.0));
        }
        Record::Access(access) | Record::Transfer(access) | Record::Bus(access) => push_access(access, object),
        Record::Picture(picture) => push_picture(picture, object),
        Record::Branch(branch) => {
            object.hex("target", branch.target).nullable_string("isa", branch.set.map(set_name));
        }
        Record::Flow(flow) => {
            object.string("flow", char::from(flow.kind)).hex("address", flow.address).hex("target", flow.target);
        }
        Record::Opaque(line) => drop(object.string("tag", Text(line.tag)).string("text", Text(line.text))),
        Record::Unknown(problem) => {
            object.plain("column", problem.column).string("what", problem.kind).string("text", Text(line.raw));
        }
    }
}

fn push_instruction(instruction: &Instruction<'_>, object: &mut Object<'_>) {
    object.nullable_hex("address", instruction.address);
    if let Some(physical) = &instruction.physical {
        object.hex("physical", physical.address);
    }
    object.nullable_hex("opcode", instruction.opcode.map(u64::from)).plain("length", instruction.length);
    object.nullable_string("isa", instruction.set.map(set_name)).string("mode", Text(instruction.mode));
    object.flag("executed", instruction.is_executed).optional("number", instruction.number);
    object.string("text", Text(instruction.text));
}

fn push_register(register: &Register<'_>, object: &mut Object<'_>) {
    object.string("name", Text(register.name));
    push_text("context", register.context, object);
    if let Some((high, low)) = register.bits {
        object.plain("high", high).plain("low", low);
    }
    object.string("value", Text(register.value.0));
    push_text("notes", register.notes, object);
}

/// Adds a text, unless it is empty.
fn push_text(key: &str, text: &[u8], object: &mut Object<'_>) {
    if !text.is_empty() {
        object.string(key, Text(text));
    }
}

fn push_access(access: &Access<'_>, object: &mut Object<'_>) {
    object.string("direction", if access.direction == Direction::Read { "read" } else { "write" });
    let purpose = match access.purpose {
        Purpose::Data => "data",
        Purpose::Fetch => "fetch",
        Purpose::Peripheral => "peripheral",
    };
    object.string("purpose", purpose);
    object.plain("size", access.size).nullable_hex("address", access.address);
    if let Some(physical) = &access.physical {
        object.hex("physical", physical.address);
    }
    match access.data {
        Some(data) => object.string("data", Text(data.0)),
        None => object.null("data"),
    };
    object.flag("aborted", access.is_aborted).flag("exclusive", access.is_exclusive);
    if let Some((address, serial)) = access.owner {
        object.hex("owner", address).plain("serial", serial);
    }
}

fn push_picture(picture: &Picture<'_>, object: &mut Object<'_>) {
    object.string("picture", picture_name(picture.kind)).hex("address", picture.address);
    object.list("bytes", byte_runs(picture), |text, (address, bytes)| {
        Object::nested(text).hex("address", address).string("data", bytes).close_nested();
    });
    if let Some(physical) = &picture.physical {
        object.hex("physical", physical.address).string("space", Text(physical.space));
    }
    if !picture.attributes.is_empty() {
        let words = picture.attributes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        object.list("attributes", words, |text, word| quoted(text, Text(word)));
    }
}
