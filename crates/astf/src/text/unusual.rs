//! Contents that a line does not show otherwise: reserved bits that are set, and values in unused fields.

use std::fmt::Write as _;

use super::super::layout::Value;
use super::super::record::{
    Context, ExtraEa, Header, Instruction, InstructionView, MICROSECONDS, Record, View, xattr_mode,
};
use unspool_model::digits::push_hex;

/// Adds ` reserved` and the fields, if there are any.
#[inline]
pub(super) fn write(view: View<'_>, out: &mut String) {
    match view {
        View::Instruction(view) if is_ordinary(view) => {}
        view => list(view, out),
    }
}

/// Most instructions: the line shows everything.
#[inline]
fn is_ordinary(view: InstructionView<'_>) -> bool {
    let is_free_of_access = view.ea() == 0 && view.ea_size() == 0 && !view.ea_tagged();
    view.xattr_mode() == xattr_mode::NONE
        && view.xattr() == 0
        && view.reserved6() == 0
        && !view.reserved1()
        && if view.is_branch() {
            let is_free_of_flags = !view.ea_tagged() && !view.is_read() && !view.is_write() && view.ea_size() == 0;
            is_free_of_flags && (view.ea_valid() || view.ea() == 0)
        } else {
            view.ea_valid() || is_free_of_access && !view.is_read() && !view.is_write()
        }
}

fn list(view: View<'_>, out: &mut String) {
    let mut is_first = true;
    let record = view.get();
    record.each_field(|name, value| {
        if is_unset(value) || !is_unused(&record, name, value) {
            return;
        }
        out.push_str(if is_first { " reserved " } else { " " });
        is_first = false;
        match value {
            Value::Flag(_) => out.push_str(name),
            Value::Number(number) => {
                let _ = write!(out, "{name}={number:#x}");
            }
            Value::Bytes(bytes) => {
                let _ = write!(out, "{name}=0x");
                push_hex(out, bytes);
            }
        }
    });
}

fn is_unset(value: Value<'_>) -> bool {
    match value {
        Value::Flag(flag) => !flag,
        Value::Number(number) => number == 0,
        Value::Bytes(bytes) => bytes.iter().all(|byte| *byte == 0),
    }
}

/// Whether the field should be zero in this record.
fn is_unused(record: &Record, name: &str, value: Value<'_>) -> bool {
    match record {
        _ if name.contains("reserved") => true,
        Record::Header(header) => in_header(header, name),
        Record::Instruction(instruction) => in_instruction(instruction, name),
        Record::ExtraEa(extra) => in_extra_ea(extra, name),
        Record::Context(context) => in_context(context, name),
        Record::Timestamp(_) => name == "value1" || name == "unit" && value != Value::Number(u64::from(MICROSECONDS)),
        _ => false,
    }
}

fn in_header(header: &Header, name: &str) -> bool {
    match name {
        "magic" => header.magic != Header::MAGIC,
        "use_zlib" => !header.compressed,
        name => matches!(name, "reginfo" | "meminfo" | "addrinfo_d" | "addrinfo_i" | "pseudo"),
    }
}

fn in_instruction(instruction: &Instruction, name: &str) -> bool {
    let Instruction { is_branch, ea_valid, .. } = *instruction;
    let is_range = instruction.xattr_mode == xattr_mode::RANGE;
    match name {
        "xattr_mode" => instruction.xattr_mode > xattr_mode::SME || is_range && (is_branch || !ea_valid),
        "ea" => !ea_valid,
        "ea_size" => is_branch || !ea_valid || is_range,
        "ea_tagged" | "is_read" | "is_write" => is_branch || !ea_valid,
        "xattr" if is_range => is_branch || !ea_valid,
        "xattr" => instruction.xattr_mode != xattr_mode::SME || instruction.xattr > 0xff,
        _ => false,
    }
}

fn in_extra_ea(extra: &ExtraEa, name: &str) -> bool {
    let has_second = extra.mem1_valid && !extra.mem1_addr_range;
    match name {
        "mem0_size" | "mem1_valid" => extra.mem1_addr_range,
        "mem1_tagged" | "mem1_is_read" | "mem1_is_write" | "mem1_size" => !has_second,
        "mem1_addr" => !has_second && !extra.mem1_addr_range,
        _ => false,
    }
}

fn in_context(context: &Context, name: &str) -> bool {
    match name {
        "pid" => !context.pid_valid,
        "tid" => !context.tid_valid,
        _ => false,
    }
}
