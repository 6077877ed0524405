//! Fields of lines that steps do not have, counted as losses.
//!
//! line ─▶ **losses**
//!
//! A line counts once for each kind of loss. The disassembly, which repeats the opcode, and instruction numbers, which
//! can be counted again, are no losses.

use unspool_model::{Loss, Losses};

use super::super::record::{
    Access, Byte, Event, Instruction, Picture, PictureKind, ProblemKind, Purpose, Record, Register,
};
use super::super::registers::Level;

#[inline]
pub(super) fn count(losses: &mut Losses, line: u64, record: &Record<'_>) {
    match record {
        Record::Instruction(instruction) => of_instruction(losses, line, instruction),
        Record::Register(register) if register.context.is_empty() && register.notes.is_empty() => {}
        Record::Register(register) => of_register(losses, line, register),
        Record::Access(access) => of_access(losses, line, access),
        Record::Picture(picture) => of_picture(losses, line, picture),
        Record::Event(event) if event.is_exception && has_numbers(event) => losses.add(Loss::Attributes, line),
        Record::Exception(exception) if exception.vector.is_some() => losses.add(Loss::Attributes, line),
        // An unknown tag becomes a note.
        Record::Unknown(problem) if problem.kind != ProblemKind::UnknownTag => losses.add(Loss::Unreadable, line),
        _ => {}
    }
}

#[inline]
fn of_instruction(losses: &mut Losses, line: u64, instruction: &Instruction<'_>) {
    if instruction.physical.is_some() {
        losses.add(Loss::PhysicalAddresses, line);
    }
    if instruction.text.last() == Some(&b'>') {
        losses.add(Loss::Attributes, line);
    }
    // An instruction in debug state has no address, so it has no step.
    if instruction.address.is_none() {
        losses.add(Loss::Instructions, line);
    }
}

fn of_register(losses: &mut Losses, line: u64, register: &Register<'_>) {
    // The names of registers include the bank; a note in brackets repeats it.
    let is_bank = |text: &[u8]| matches!(text, [] | [b'(', ..]);
    let is_state = register.context.len() > 5 && register.context[..5].eq_ignore_ascii_case(b"aarch");
    if is_state || !is_bank(register.notes) {
        losses.add(Loss::Attributes, line);
    }
}

#[inline]
fn of_access(losses: &mut Losses, line: u64, access: &Access<'_>) {
    // A fetch becomes a note with all of the line.
    if access.purpose == Purpose::Fetch {
        return;
    }
    if access.physical.is_some() {
        losses.add(Loss::PhysicalAddresses, line);
    }
    let has_flags = access.is_exclusive || access.is_unprivileged || access.is_locked;
    let has_bus_details = access.purpose == Purpose::Peripheral || matches!(access.tag, [_, b'S' | b'N', ..]);
    if has_flags || has_bus_details || !access.notes.is_empty() {
        losses.add(Loss::Attributes, line);
    }
    if access.is_aborted && access.data.is_some() {
        losses.add(Loss::Data, line);
    }
}

#[inline]
fn of_picture(losses: &mut Losses, line: u64, picture: &Picture<'_>) {
    if picture.physical.is_some() {
        losses.add(Loss::PhysicalAddresses, line);
    }
    let has_page = picture.physical.is_some_and(|physical| physical.page.is_some());
    if has_page || !picture.attributes.is_empty() || picture.kind == PictureKind::FailedStore {
        losses.add(Loss::Attributes, line);
    }
    let is_completed = matches!(picture.kind, PictureKind::Load | PictureKind::Store);
    if !is_completed && picture.bytes.iter().any(|byte| matches!(byte, Byte::Known(_))) {
        losses.add(Loss::Data, line);
    }
}

fn has_numbers(event: &Event<'_>) -> bool {
    event.value.is_some() || event.number.is_some() || !event.mode.is_empty()
}

/// Whether no Exception level represents this mode.
pub(super) fn has_no_level(level: Level) -> bool {
    use Level::{Abt, Fiq, Handler, Irq, Svc, Sys, Thread, Und};
    matches!(level, Sys | Svc | Abt | Und | Irq | Fiq | Thread | Handler)
}

/// Whether the name of a core is more than its number.
pub(super) fn is_custom_name(name: &[u8], number: usize) -> bool {
    let digits = name.strip_prefix(b"cpu").unwrap_or(name);
    !name.is_empty() && digits != number.to_string().as_bytes()
}
