//! Values of the step model in the notation of the lines: instruction sets, modes, branches, exceptions.

use unspool_isa::decode;
use unspool_model::{self as model, Context, Exception, ExceptionKind, Instruction, Isa};

use super::super::opcode::letter;
use super::super::record::{self, Branch, Event, Record};
use super::super::write::Style;
use super::super::write::vectors::{AARCH32, AARCH64, Vector};

/// Appends the mode, if it is known. In AArch32 the Exception level alone identifies only User and Hyp mode. Fast
/// Models print dashes for an unknown mode, since a line without one is of a core that has no modes. A dash also
/// replaces an unknown stack pointer or Security state: in Rev 3 an omitted Security state means Secure.
pub(super) fn push_mode(style: Style, context: &Context, is_a64: bool, out: &mut Vec<u8>) {
    let stack = context.is_handler.map_or('-', |is_handler| if is_handler { 'h' } else { 't' });
    let name = match (is_a64, context.level) {
        (true, Some(0)) if context.is_handler != Some(true) => "EL0t".into(),
        (true, Some(level @ 1..=3)) => format!("EL{level}{stack}"),
        (false, Some(0)) => "usr".into(),
        (false, Some(2)) => "hyp".to_string(),
        _ if style == Style::FastModels => return out.extend_from_slice(b"---_-"),
        _ => return,
    };
    match style {
        Style::Rev3 => out.extend(name.bytes().map(|letter| letter.to_ascii_lowercase())),
        Style::FastModels => out.extend_from_slice(name.as_bytes()),
    }
    out.extend_from_slice(match (context.security, style) {
        (None, _) => b"_-",
        (Some(model::Security::Secure), _) => b"_s",
        (Some(model::Security::NonSecure), Style::Rev3) => b"_ns",
        (Some(model::Security::NonSecure), Style::FastModels) => b"_n",
        (Some(model::Security::Root), _) => b"_rt",
        (Some(model::Security::Realm), _) => b"_rl",
    });
}

/// The BR line of Rev 3 for a taken branch, if the opcode is a branch and the instruction set of the target is known.
#[inline]
pub(super) fn branch_line(style: Style, instruction: &Instruction) -> Option<Branch> {
    let model::Branch { taken: true, target: Some(target) } = instruction.branch.filter(|_| style == Style::Rev3)?
    else {
        return None;
    };
    let facts = decode(instruction.isa, instruction.address, instruction.opcode?);
    if !facts.flow.is_branch() {
        return None;
    }
    let known = facts.target.filter(|known| known.address == target).map(|known| known.isa);
    let isa = if instruction.isa == Isa::A64 { Isa::A64 } else { known.filter(|isa| *isa != Isa::A64)? };
    Some(Branch { target, digits: 0, set: Some(letter(isa)?) })
}

/// The AArch64 vector that an exception was taken to, if kind and target are consistent with it.
fn vector(exception: &Exception, is_a64: Option<bool>) -> Option<&'static Vector> {
    let target = exception.target.filter(|target| target & 0x7f == 0)?;
    let index = (target >> 7 & 0xf) as usize;
    let kind = [ExceptionKind::Synchronous, ExceptionKind::Irq, ExceptionKind::Fiq, ExceptionKind::SError][index & 3];
    let is_from_a64 = index < 12;
    (kind == exception.kind && is_a64 == Some(is_from_a64)).then(|| &AARCH64[index])
}

/// The Rev 3 line for an exception.
pub(super) fn exception(exception: &Exception, is_a64: Option<bool>) -> Option<Record<'static>> {
    let plain = |is_step, name| Record::Exception(record::Exception { is_step, vector: None, name });
    if let Some(row) = vector(exception, is_a64) {
        let (vector, name) = (Some(row.value), row.name.as_bytes());
        return Some(Record::Exception(record::Exception { is_step: row.is_asynchronous, vector, name }));
    }
    let is_virtual = exception.is_virtual == Some(true);
    Some(match exception.kind {
        ExceptionKind::Unknown => return None,
        ExceptionKind::Reset => plain(true, b"Reset"),
        ExceptionKind::Debug => plain(true, b"Debug Halt Mode Entry"),
        ExceptionKind::Synchronous => plain(false, b"Synchronous"),
        ExceptionKind::Irq => Record::Asynchronous(if is_virtual { b"Virtual IRQ" } else { b"IRQ" }),
        ExceptionKind::Fiq => Record::Asynchronous(if is_virtual { b"Virtual FIQ" } else { b"FIQ" }),
        ExceptionKind::SError if is_virtual => Record::Asynchronous(b"Virtual System Error (Virtual Abort)"),
        ExceptionKind::SError => Record::Asynchronous(b"System Error (Abort)"),
    })
}

/// The Fast Models line for an exception. `address`: that of the last instruction.
pub(super) fn event(exception: &Exception, is_a64: Option<bool>, address: Option<u64>) -> Option<Record<'static>> {
    let of_aarch32 = |offset: i64| AARCH32.iter().find(|row| row.value == offset);
    let row = match (vector(exception, is_a64), exception.kind) {
        (Some(row), _) => row,
        (None, ExceptionKind::Reset) => of_aarch32(0)?,
        (None, ExceptionKind::Irq) if is_a64 == Some(false) => of_aarch32(0x18)?,
        (None, ExceptionKind::Fiq) if is_a64 == Some(false) => of_aarch32(0x1c)?,
        _ => return None,
    };
    let is_synchronous = exception.kind == ExceptionKind::Synchronous;
    // The value of a reset is the address where the core starts.
    let value = match exception.kind {
        ExceptionKind::Reset => exception.target,
        _ => address.filter(|_| is_synchronous).or(exception.return_address),
    };
    let (number, name) = (Some(row.event.0), row.event.1.as_bytes());
    Some(Record::Event(Event { value, mode: b"", number, name, is_exception: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_claim_only_what_is_known() {
        let secure = Some(model::Security::Secure);
        let open = Some(model::Security::NonSecure);
        let rows = [
            (true, Some(0), None, open, "el0t_ns", "EL0t_n"),
            (true, Some(1), Some(true), secure, "el1h_s", "EL1h_s"),
            (true, Some(1), None, secure, "el1-_s", "EL1-_s"),
            (true, Some(1), Some(true), None, "el1h_-", "EL1h_-"),
            (true, Some(3), Some(false), Some(model::Security::Root), "el3t_rt", "EL3t_rt"),
            (true, Some(2), Some(true), Some(model::Security::Realm), "el2h_rl", "EL2h_rl"),
            (true, Some(4), Some(true), None, "", "---_-"),
            (true, Some(0), Some(true), None, "", "---_-"),
            (true, None, Some(true), secure, "", "---_-"),
            (false, Some(0), None, None, "usr_-", "usr_-"),
            (false, Some(1), None, open, "", "---_-"),
            (false, Some(2), None, open, "hyp_ns", "hyp_n"),
            (false, Some(3), None, secure, "", "---_-"),
        ];
        for (is_a64, level, is_handler, security, rev3, fast_models) in rows {
            let context = Context { level, is_handler, security, ..Context::default() };
            for (style, expected) in [(Style::Rev3, rev3), (Style::FastModels, fast_models)] {
                let mut out = Vec::new();
                push_mode(style, &context, is_a64, &mut out);
                assert_eq!(String::from_utf8_lossy(&out), expected, "{context:?}");
            }
        }
    }
}
