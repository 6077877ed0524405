//! Declared features, compared with the records of the trace.
//!
//! Only visible features are checked. Conversely, tools do not set most features although their records are present, so
//! only those are required that the specification makes a condition of their records.

use super::super::builder::Features;
use super::super::record::{Record, Register};
use super::Out;
use super::header::Header;
use super::opcode::Opcode;
use super::rules::RuleId;

/// Features that records reveal.
const SHOWN: [(Features, &str); 9] = [
    (Features::PHYSICAL_ADDRESS, "physical addresses"),
    (Features::OPERAND_VALUE, "registers that are read or written"),
    (Features::EVENT, "events"),
    (Features::PTE, "page table walks"),
    (Features::PROCESS_ID, "processes"),
    (Features::REG_STATE, "states of registers"),
    (Features::MICROOP, "micro-operations"),
    (Features::VEC, "vectors"),
    (Features::TRANSACTIONS, "transactions"),
];

/// Features of the records so far.
#[derive(Debug, Default)]
pub(super) struct Claims {
    seen: Features,
}

impl Claims {
    #[inline]
    pub(super) fn record(&mut self, record: &Record<'_>) {
        let features = match record {
            Record::InstReg(register) => register_features(register),
            Record::Event(_) => Features::EVENT,
            // Their entries are the only physical addresses in the format.
            Record::PageTableWalk(_) => Features::PTE | Features::PHYSICAL_ADDRESS,
            Record::ProcessIdExt(_) => Features::PROCESS_ID,
            Record::InstMicroop { .. } => Features::MICROOP,
            Record::Transaction(_) => Features::TRANSACTIONS,
            _ => return,
        };
        self.seen = self.seen | features;
    }

    pub(super) fn instruction(&mut self, known: &Opcode) {
        if known.is_vector {
            self.seen = self.seen | Features::VEC;
        }
    }

    pub(super) fn finish(&self, header: &Header, has_body: bool, out: &mut Out<'_>) {
        let Some((position, features)) = header.features.filter(|_| has_body) else { return };
        let seen = self.seen | if header.has_process() { Features::PROCESS_ID } else { Features::NONE };
        let required = [Features::PTE, Features::MICROOP, Features::TRANSACTIONS];
        for (feature, what) in SHOWN {
            let bit = feature.0;
            if features.has(feature) && !seen.has(feature) {
                let detail = format_args!("the header declares {what} ({bit:#x}), but the trace has none");
                out.add_at(position, 0, RuleId::FeatureClaim, detail);
            }
            if !features.has(feature) && seen.has(feature) && required.contains(&feature) {
                let detail = format_args!("the trace has {what}, but the header does not declare them ({bit:#x})");
                out.add_at(position, 0, RuleId::FeatureUnclaimed, detail);
            }
        }
    }
}

fn register_features(register: &Register<'_>) -> Features {
    let operand = if register.operand() == Register::STATE { Features::REG_STATE } else { Features::OPERAND_VALUE };
    operand | if register.kind() == Register::VECTOR { Features::VEC } else { Features::NONE }
}
