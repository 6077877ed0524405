//! Events of a group: exceptions, interrupts and changes of mode.

use unspool_isa::Isa;

use super::super::read::Position;
use super::super::record::Event;
use super::Out;
use super::header::Header;
use super::rules::RuleId;

/// Properties of the events of a group so far.
#[derive(Debug, Default)]
pub(super) struct Events {
    has_event: bool,
    /// There was an exception or an interrupt.
    pub(super) has_trap: bool,
    /// The instruction could not be fetched.
    pub(super) has_fetch_fault: bool,
    /// The mode after the instruction.
    pub(super) mode: Option<(Position, u64)>,
    pub(super) target: Option<u64>,
}

impl Events {
    pub(super) fn event(&mut self, event: &Event<'_>, header: &Header, out: &mut Out<'_>) {
        self.has_event = true;
        if event.is_mode_change() {
            return self.mode(event, out);
        }
        self.has_trap = true;
        self.has_fetch_fault |= !event.is_interrupt() && matches!(event.id(), 1 | 12 | 20);
        match fields(event) {
            None => out.add(RuleId::EventKnown, format_args!("the event number is {:#x}", event.raw)),
            Some(fields) if event.words().len() < fields => {
                let count = event.words().len();
                out.add(RuleId::EventData, format_args!("it has {count} fields, but {fields} are specified"));
            }
            Some(_) => {}
        }
        if header.set() == Some(Isa::Rv32)
            && let Some(field) = event.words().find(|word| *word > u64::from(u32::MAX))
        {
            out.add(RuleId::EventZeroExtended, format_args!("a field is {field:#x}"));
        }
    }

    fn mode(&mut self, event: &Event<'_>, out: &mut Out<'_>) {
        match event.mode() {
            Some(mode @ 0..=3) => self.mode = Some((out.position, mode)),
            Some(mode) => out.add(RuleId::ModeKnown, format_args!("the mode is {mode}")),
            None => out.add(RuleId::ModeKnown, format_args!("the event has no field")),
        }
    }

    pub(super) fn target(&mut self, target: u64, header: &Header, out: &mut Out<'_>) {
        header.check_address("the target of an event", target, out);
        if !self.has_event {
            out.add(RuleId::EventTarget, format_args!("no event before the target {target:#x}"));
        }
        self.target = Some(target);
    }
}

/// Minimum number of fields of an event; `None`: its number is undefined.
fn fields(event: &Event<'_>) -> Option<usize> {
    match (event.is_special(), event.is_interrupt(), event.id()) {
        (true, ..) => None,
        // The interrupted address.
        (false, true, 0..=12) => Some(1),
        (false, true, 14 | 15) => None,
        (false, true, _) => Some(0),
        // The address; a call has its number.
        (false, false, 0 | 1 | 3 | 8..=11) => Some(1),
        // The address and the opcode.
        (false, false, 12) => Some(2),
        // The address, the opcode, and the encoding mode or the target.
        (false, false, 2 | 4..=7 | 13 | 15) => Some(3),
        (false, false, 16 | 18..=31 | 48..=63) => Some(0),
        (false, false, _) => None,
    }
}
