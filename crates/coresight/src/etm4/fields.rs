//! The fields of packets and of the elements that only ETMv4 has.

use super::element::OwnElement;
use super::packet::{
    Address, ConditionalInstruction, ConditionalResult, CycleCount, ExceptionAddress, Packet, TraceInfo,
};
use crate::SubIsa;
use crate::fields::{Fields, Value};

fn number(value: impl Into<u64>) -> Value<'static> {
    Value::Number(value.into())
}

impl Packet {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            Packet::TraceInfo(TraceInfo { info, key, speculation, cycle_threshold }) => {
                out.optional("info", *info);
                out.optional("key", *key);
                out.optional("speculation", *speculation);
                out.optional("cycle_threshold", *cycle_threshold);
            }
            Packet::Timestamp { value, bits, cycles } => {
                out.field("value", number(*value));
                out.field("bits", number(*bits));
                out.optional("cycles", *cycles);
            }
            Packet::Exception { number: kind, address, fault_pending } => {
                out.field("number", number(*kind));
                out.field("target_too", Value::Flag(*address == ExceptionAddress::TargetAndReturn));
                if let Some(pending) = fault_pending {
                    out.field("fault_pending", Value::Flag(*pending));
                }
            }
            Packet::Instrumentation { el, value } => {
                out.field("el", number(*el));
                out.field("value", Value::Hex(*value));
            }
            Packet::CycleCount(count) => count.fields(out),
            Packet::NumberedDataSync(value) | Packet::UnnumberedDataSync(value) => out.field("value", number(*value)),
            Packet::Commit { count } => out.field("count", number(*count)),
            Packet::CancelFormat1 { count, mispredict } => {
                out.field("count", number(*count));
                out.field("mispredict", Value::Flag(*mispredict));
            }
            Packet::CancelFormat2(atoms) => {
                out.field("atoms", Value::Text(&atoms.atoms()));
                out.field("count", number(1_u8));
                out.field("mispredict", Value::Flag(true));
            }
            Packet::CancelFormat3 { count, atom } => {
                out.field("atoms", Value::Text(if *atom { &"E" } else { &"" }));
                out.field("count", number(*count));
                out.field("mispredict", Value::Flag(true));
            }
            Packet::Mispredict(atoms) => out.field("atoms", Value::Text(&atoms.atoms())),
            Packet::ConditionalInstruction(instruction) => instruction.fields(out),
            Packet::ConditionalResult(result) => result.fields(out),
            Packet::Event { mask } => out.field("numbers", Value::Bits(*mask)),
            Packet::Context(Some(context)) => context.fields(out),
            Packet::AddressContext { address, context } => {
                address.fields(out);
                context.fields(out);
            }
            Packet::Address(address) | Packet::SourceAddress(address) => address.fields(out),
            Packet::Q { count, address } => {
                out.optional("instructions", *count);
                if let Some(address) = address {
                    address.fields(out);
                }
            }
            Packet::Atoms(atoms) => out.field("atoms", Value::Text(atoms)),
            Packet::AlignmentSync
            | Packet::Discard
            | Packet::Overflow
            | Packet::TraceOn
            | Packet::FunctionReturn
            | Packet::ExceptionReturn
            | Packet::TransactionStart
            | Packet::TransactionCommit
            | Packet::ConditionalFlush
            | Packet::Ignore
            | Packet::Context(None)
            | Packet::TimestampMarker => {}
        }
    }
}

impl CycleCount {
    fn fields(&self, out: &mut impl Fields) {
        match self {
            CycleCount::Format1 { commit, cycles } => {
                out.optional("commit", *commit);
                out.nullable("cycles", *cycles);
            }
            CycleCount::Format2 { near_maximum, commit, cycles } => {
                out.field("commit_field", number(*commit));
                out.field("near_maximum", Value::Flag(*near_maximum));
                out.field("cycles", number(*cycles));
            }
            CycleCount::Format3 { commit, cycles } => {
                out.field("commit_field", number(*commit));
                out.field("cycles", number(*cycles));
            }
        }
    }
}

impl ConditionalInstruction {
    fn fields(&self, out: &mut impl Fields) {
        match self {
            ConditionalInstruction::Format1 { key } => out.field("key", number(*key)),
            ConditionalInstruction::Format2 { step } => out.field("step", number(*step)),
            ConditionalInstruction::Format3 { count, last } => {
                out.field("count", number(*count));
                out.field("last", Value::Flag(*last));
            }
        }
    }
}

impl ConditionalResult {
    fn fields(&self, out: &mut impl Fields) {
        match self {
            ConditionalResult::Format1 { first, second } => {
                out.field("key", number(first.key));
                out.field("result", number(first.result));
                out.optional("key2", second.map(|it| it.key));
                out.optional("result2", second.map(|it| it.result));
            }
            ConditionalResult::Format2 { skip, token } => {
                out.field("skip", Value::Flag(*skip));
                out.field("token", number(*token));
            }
            ConditionalResult::Format3 { tokens } => out.field("tokens", number(*tokens)),
            ConditionalResult::Format4 { token } => out.field("token", number(*token)),
        }
    }
}

impl Address {
    fn fields(&self, out: &mut impl Fields) {
        out.field("bits", number(self.bits));
        if self.bits == 0 {
            out.field("entry", number(self.entry));
        } else {
            out.field("is", number(self.isa == SubIsa::Is1));
            out.field("value", Value::Hex(self.value));
        }
    }
}

impl OwnElement {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            OwnElement::NumberedDataSync(value) => out.field("value", number(*value)),
            OwnElement::UnnumberedDataSync(value) => out.optional("value", *value),
            OwnElement::ConditionalInstruction { key, number, .. } => {
                out.nullable("key", *key);
                out.nullable("number", *number);
            }
            OwnElement::ConditionalResult { key, outcome } => {
                out.nullable("key", *key);
                out.field("outcome", Value::Text(outcome));
            }
            OwnElement::Undecoded { bytes } => out.field("bytes", number(*bytes)),
            OwnElement::ConditionalFlush | OwnElement::Suppression => {}
        }
    }
}
