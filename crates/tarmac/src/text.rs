//! Records as readable text: one line per record, in the same terms for every dialect.
//!
//! line ─▶ `157   1 clk  instruction 0x2105d4 d2a00200 a64 EL3h_s  MOV x0,#0x100000`

use std::fmt::{self, Write as _};

use super::read::Position;
use super::record::{
    Access, Byte, Direction, Event, Exception, Flow, Instruction, InstructionSet, Line, Operation, Physical, Picture,
    PictureKind, Purpose, Record, Register, Stamp, Time, Unit,
};

/// Appends the text of a line, without a line end.
pub fn push_line(position: Position, line: &Line<'_>, out: &mut String) {
    let time = match line.stamp {
        Stamp::At(time) => time.to_string(),
        Stamp::Dashes => "-".into(),
        Stamp::Absent => String::new(),
    };
    let _ = write!(out, "{:>8} {time:>16}", position.line);
    if let Some(core) = line.core {
        let _ = write!(out, "  {}", Text(core));
    }
    out.push_str("  ");
    push_record(line, out);
}

/// The kind of a record, as one word.
pub fn kind(record: &Record<'_>) -> &'static str {
    match record {
        Record::Blank => "blank",
        Record::Comment(_) => "comment",
        Record::Header(_) => "header",
        Record::Instruction(_) => "instruction",
        Record::Asynchronous(_) => "asynchronous",
        Record::Exception(_) => "exception",
        Record::Event(_) => "event",
        Record::Register(_) => "register",
        Record::Operation(_) => "operation",
        Record::Access(_) => "access",
        Record::Picture(_) => "picture",
        Record::Transfer(_) => "transfer",
        Record::Bus(_) => "bus",
        Record::Branch(_) => "branch",
        Record::Flow(_) => "flow",
        Record::Opaque(_) => "opaque",
        Record::Unknown(_) => "unknown",
    }
}

/// The name of an instruction set, as used throughout unspool.
pub fn set_name(set: InstructionSet) -> &'static str {
    match set {
        InstructionSet::A => "a32",
        InstructionSet::T => "t32",
        InstructionSet::E => "t32ee",
        InstructionSet::O => "a64",
    }
}

/// The kind of a picture in words.
pub fn picture_name(kind: PictureKind) -> &'static str {
    match kind {
        PictureKind::Load => "load",
        PictureKind::AbortedLoad => "aborted load",
        PictureKind::Store => "store",
        PictureKind::AbortedStore => "aborted store",
        PictureKind::FailedStore => "failed store",
    }
}

/// Runs of accessed bytes: the address of each, and its bytes, the highest first; `##` is unknown.
pub fn byte_runs(picture: &Picture<'_>) -> impl Iterator<Item = (u64, String)> {
    picture.runs().map(|(at, bytes)| {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes.iter().rev() {
            match byte {
                Byte::Known(byte) => drop(write!(text, "{byte:02x}")),
                _ => text.push_str("##"),
            }
        }
        (picture.address.wrapping_add(at as u64), text)
    })
}

/// Text of a log, with non-printable bytes escaped.
pub struct Text<'a>(pub &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match str::from_utf8(self.0) {
            Ok(text) if !text.chars().any(char::is_control) => f.write_str(text),
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = usize::from(self.decimals);
        match decimals {
            0 => write!(f, "{}", self.value)?,
            _ => {
                let digits = format!("{:0>width$}", self.value, width = decimals + 1);
                let (whole, part) = digits.split_at(digits.len() - decimals);
                write!(f, "{whole}.{part}")?;
            }
        }
        if self.unit == Unit::None { Ok(()) } else { write!(f, " {}", self.unit.name()) }
    }
}

fn push_record(line: &Line<'_>, out: &mut String) {
    out.push_str(kind(&line.record));
    // Writing to a String cannot fail.
    let _ = match &line.record {
        Record::Blank => Ok(()),
        Record::Comment(text) | Record::Asynchronous(text) => write!(out, " {}", Text(text)),
        Record::Header(header) => write!(out, " revision {} flags '{}'", header.revision, Text(header.flags)),
        Record::Instruction(instruction) => push_instruction(instruction, out),
        Record::Exception(exception) => push_exception(exception, out),
        Record::Event(event) => push_event(event, out),
        Record::Register(register) => push_register(register, out),
        Record::Operation(Operation { kind, name, value }) => {
            write!(out, " {} {} = {}", Text(kind), Text(name), Text(value.0))
        }
        Record::Access(access) | Record::Transfer(access) | Record::Bus(access) => push_access(access, out),
        Record::Picture(picture) => push_picture(picture, out),
        Record::Branch(branch) => write!(out, " to {:#x} {}", branch.target, branch.set.map_or("", set_name)),
        Record::Flow(Flow { kind, address, target, set, .. }) => {
            let set = set.map_or("", set_name);
            write!(out, " {} from {address:#x} to {target:#x} {set}", char::from(*kind))
        }
        Record::Opaque(opaque) => write!(out, " {}: {}", Text(opaque.tag), Text(opaque.text)),
        Record::Unknown(problem) => write!(out, " {problem}: {}", Text(line.raw)),
    };
    out.truncate(out.trim_end().len());
}

fn push_instruction(instruction: &Instruction<'_>, out: &mut String) -> fmt::Result {
    match instruction.address {
        Some(address) => write!(out, " {address:#x}")?,
        None => out.push_str(" (debug)"),
    }
    push_physical(instruction.physical.as_ref(), out)?;
    push_physical(instruction.second_physical.as_ref(), out)?;
    match (instruction.opcode, instruction.length) {
        (None, _) => out.push_str(" (not fetched)"),
        (Some(opcode), 2) => write!(out, " {opcode:04x}")?,
        (Some(opcode), _) => write!(out, " {opcode:08x}")?,
    }
    write!(out, " {} {}", instruction.set.map_or("-", set_name), Text(instruction.mode))?;
    if let Some(number) = instruction.number {
        write!(out, " #{number}")?;
    }
    out.push_str(if instruction.is_executed { "" } else { " skipped" });
    write!(out, "  {}", Text(instruction.text))
}

fn push_exception(exception: &Exception<'_>, out: &mut String) -> fmt::Result {
    match exception.vector {
        Some(vector) if vector < 0 => write!(out, " [-{:#x}]", vector.unsigned_abs())?,
        Some(vector) => write!(out, " [{vector:#x}]")?,
        None => {}
    }
    write!(out, " {}", Text(exception.name))
}

fn push_event(event: &Event<'_>, out: &mut String) -> fmt::Result {
    out.push_str(if event.is_exception { " exception" } else { "" });
    if let Some(number) = event.number {
        write!(out, " {number:#x}")?;
    }
    write!(out, " {}", Text(event.name))?;
    if let Some(value) = event.value {
        write!(out, " at {value:#x}")?;
    }
    push_optional(" in ", event.mode, "", out)
}

fn push_register(register: &Register<'_>, out: &mut String) -> fmt::Result {
    write!(out, " {}", Text(register.name))?;
    push_optional(" (", register.context, ")", out)?;
    if let Some((high, low)) = register.bits {
        write!(out, "<{high}:{low}>")?;
    }
    write!(out, " = {}", Text(register.value.0))?;
    push_optional("  ", register.notes, "", out)
}

fn push_access(access: &Access<'_>, out: &mut String) -> fmt::Result {
    out.push_str(match access.direction {
        Direction::Read => " read",
        Direction::Write => " write",
    });
    write!(out, " {}", access.size)?;
    if let Some(address) = access.address {
        write!(out, " at {address:#x}")?;
    }
    push_physical(access.physical.as_ref(), out)?;
    match access.data {
        Some(data) => write!(out, " = {}", Text(data.0))?,
        None => out.push_str(" without data"),
    }
    out.push_str(match access.purpose {
        Purpose::Data => "",
        Purpose::Fetch => " fetch",
        Purpose::Peripheral => " peripheral",
    });
    let flags = [
        (access.is_aborted, " aborted"),
        (access.is_exclusive, " exclusive"),
        (access.is_unprivileged, " unprivileged"),
        (access.is_locked, " locked"),
    ];
    flags.iter().filter(|(is_set, _)| *is_set).for_each(|(_, name)| out.push_str(name));
    if let Some((address, serial)) = access.owner {
        write!(out, " by {address:#x} #{serial:x}")?;
    }
    push_optional("  ", access.notes, "", out)
}

fn push_picture(picture: &Picture<'_>, out: &mut String) -> fmt::Result {
    write!(out, " {}", picture_name(picture.kind))?;
    for (address, bytes) in byte_runs(picture) {
        write!(out, " at {address:#x} = {bytes}")?;
    }
    push_physical(picture.physical.as_ref(), out)?;
    push_optional("  ", picture.attributes, "", out)
}

/// Appends text between these words, unless it is empty.
fn push_optional(before: &str, text: &[u8], after: &str, out: &mut String) -> fmt::Result {
    if text.is_empty() { Ok(()) } else { write!(out, "{before}{}{after}", Text(text)) }
}

fn push_physical(physical: Option<&Physical<'_>>, out: &mut String) -> fmt::Result {
    let Some(physical) = physical else { return Ok(()) };
    out.push_str(" (");
    push_optional("", physical.space, ":", out)?;
    write!(out, "{:#x}", physical.address)?;
    if let Some(page) = physical.page {
        write!(out, "/{page}")?;
    }
    out.push(')');
    Ok(())
}
