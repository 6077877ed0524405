//! Declared features, compared with the records of the trace.
//!
//! Only visible features are checked. Conversely, tools do not set most features although their records are present, so
//! only those are required that the specification makes a condition of their records.

use super::super::record::{Record, Register};
use super::Out;
use super::header::{FEATURE_TRANSACTIONS, Header};
use super::opcode::Opcode;
use super::rules::RuleId;

const PHYSICAL_ADDRESS: u64 = 0x1;
const OPERAND_VALUE: u64 = 0x4;
const EVENT: u64 = 0x8;
const PTE: u64 = 0x100;
const PROCESS_ID: u64 = 0x400;
const REG_STATE: u64 = 0x2000;
const MICROOP: u64 = 0x4000;
const VEC: u64 = 0x4_0000;

/// Features that records reveal.
const SHOWN: [(u64, &str); 9] = [
    (PHYSICAL_ADDRESS, "physical addresses"),
    (OPERAND_VALUE, "registers that are read or written"),
    (EVENT, "events"),
    (PTE, "page table walks"),
    (PROCESS_ID, "processes"),
    (REG_STATE, "states of registers"),
    (MICROOP, "micro-operations"),
    (VEC, "vectors"),
    (FEATURE_TRANSACTIONS, "transactions"),
];

/// Feature bits of the records so far.
#[derive(Debug, Default)]
pub(super) struct Claims {
    seen: u64,
}

impl Claims {
    #[inline]
    pub(super) fn record(&mut self, record: &Record<'_>) {
        self.seen |= match record {
            Record::InstReg(register) => register_features(register),
            Record::Event(_) => EVENT,
            // Their entries are the only physical addresses in the format.
            Record::PageTableWalk(_) => PTE | PHYSICAL_ADDRESS,
            Record::ProcessIdExt(_) => PROCESS_ID,
            Record::InstMicroop { .. } => MICROOP,
            Record::Transaction(_) => FEATURE_TRANSACTIONS,
            _ => 0,
        };
    }

    pub(super) fn instruction(&mut self, known: &Opcode) {
        self.seen |= if known.is_vector { VEC } else { 0 };
    }

    pub(super) fn finish(&self, header: &Header, has_body: bool, out: &mut Out<'_>) {
        let Some((position, features)) = header.features.filter(|_| has_body) else { return };
        let seen = self.seen | if header.has_process() { PROCESS_ID } else { 0 };
        for (feature, what) in SHOWN {
            if features & feature != 0 && seen & feature == 0 {
                let detail = format_args!("the header declares {what} ({feature:#x}), but the trace has none");
                out.add_at(position, 0, RuleId::FeatureClaim, detail);
            }
            if features & feature == 0 && seen & feature & (PTE | MICROOP | FEATURE_TRANSACTIONS) != 0 {
                let detail = format_args!("the trace has {what}, but the header does not declare them ({feature:#x})");
                out.add_at(position, 0, RuleId::FeatureUnclaimed, detail);
            }
        }
    }
}

fn register_features(register: &Register<'_>) -> u64 {
    let operand = if register.operand() == 1 { REG_STATE } else { OPERAND_VALUE };
    operand | if register.kind() == Register::VECTOR { VEC } else { 0 }
}
