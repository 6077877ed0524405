//! Details of an exception, from the exception itself and from the registers that it wrote.

use unspool_isa::call_number;
use unspool_model::{Exception, RegisterWrite};

use super::super::builder::{Call, CallKind};
use super::opcode_info::OpcodeInfo;

/// System registers that describe an exception.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Syndrome {
    /// ESR_ELx.
    esr: Option<u64>,
    /// FAR_ELx.
    pub(super) far: Option<u64>,
    /// ELR_ELx.
    pub(super) elr: Option<u64>,
}

impl Syndrome {
    /// Learns from a write.
    #[inline]
    pub(super) fn learn(&mut self, write: &RegisterWrite<'_>) {
        let field = match write.name.as_bytes() {
            [b'e', b's', b'r', b'_', b'e', b'l', _] => &mut self.esr,
            [b'f', b'a', b'r', b'_', b'e', b'l', _] => &mut self.far,
            [b'e', b'l', b'r', b'_', b'e', b'l', _] => &mut self.elr,
            _ => return,
        };
        *field = value(write).or(*field);
    }

    /// Whether any of them is known.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.esr.is_some() || self.far.is_some() || self.elr.is_some()
    }

    /// These values; unknown ones are as they were `before`.
    pub(super) fn over(self, before: Self) -> Self {
        Self { esr: self.esr.or(before.esr), far: self.far.or(before.far), elr: self.elr.or(before.elr) }
    }

    /// Exception class.
    pub(super) fn class(&self) -> Option<u8> {
        self.esr.map(|esr| (esr >> 26) as u8 & 0x3f)
    }
}

/// The register, if all of it is known.
fn value(write: &RegisterWrite<'_>) -> Option<u64> {
    let is_known =
        write.low == 0 && matches!(write.bytes.len(), 4..=8) && write.bytes.iter().all(|byte| byte.1 == 0xff);
    is_known.then(|| write.bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(byte.0)))
}

/// The call of an exception: by this instruction, or by one that is not in the trace.
pub(super) fn call(exception: &Exception, class: u8, instruction: Option<(u32, &OpcodeInfo)>) -> Option<Call> {
    let by_class = match class {
        0x11 | 0x15 => Some(CallKind::Svc),
        0x12 | 0x16 => Some(CallKind::Hvc),
        0x13 | 0x17 => Some(CallKind::Smc),
        _ => None,
    };
    let Some((opcode, info)) = instruction else {
        return Some(Call { kind: by_class?, index: exception.call? });
    };
    let kind = info.call()?;
    // An undefined call is none, unless the source reports one.
    let index = exception.call.or((by_class == Some(kind)).then(|| call_number(opcode)))?;
    Some(Call { kind, index })
}

/// Whether no executed instruction causes it: an instruction abort or a misaligned PC.
pub(super) fn is_fetch(class: Option<u8>) -> bool {
    matches!(class, Some(0x20..=0x22))
}

pub(super) fn is_data_abort(class: u8) -> bool {
    matches!(class, 0x24 | 0x25)
}
