//! The fields of elements. Keys that items of the program flow have too are the same there.

use super::Element;
use crate::fields::{Fields, Value};
use crate::{SubIsa, Target};

impl Element {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            Element::TraceInfo { cycle_counting, cycle_threshold, speculation, in_transaction } => {
                out.field("cycle_counting", Value::Flag(*cycle_counting));
                out.field("cycle_threshold", Value::Number((*cycle_threshold).into()));
                out.field("speculation", Value::Number((*speculation).into()));
                out.field("in_transaction", Value::Flag(*in_transaction));
            }
            Element::Commit(count) | Element::Cancel(count) => out.field("count", Value::Number((*count).into())),
            Element::Atoms(atoms) => out.field("atoms", Value::Text(atoms)),
            Element::Q { count } => out.nullable("instructions", *count),
            Element::Exception { number, address } => number.fields(*address, out),
            Element::SourceAddress(target) | Element::TargetAddress(target) | Element::WaypointUpdate(target) => {
                target_fields(*target, out);
            }
            Element::OtherCode { address, isa } => {
                out.field("address", Value::Hex(*address));
                out.field("isa", Value::Text(&isa.name()));
            }
            Element::Context(context) => context.fields(out),
            Element::TransactionStart => out.field("state", Value::Text(&"start")),
            Element::TransactionCommit => out.field("state", Value::Text(&"commit")),
            Element::TransactionFailure => out.field("state", Value::Text(&"failure")),
            Element::Timestamp { value, cycles } => {
                out.field("value", Value::Number(*value));
                out.optional("cycles", *cycles);
            }
            Element::CycleCount(cycles) => out.nullable("cycles", *cycles),
            Element::Event { mask } => out.field("numbers", Value::Bits(*mask)),
            Element::Instrumentation { el, value } => {
                out.field("el", Value::Number((*el).into()));
                out.field("value", Value::Hex(*value));
            }
            Element::Software(software) => software.fields(out),
            Element::Etm4(own) => own.fields(out),
            Element::Etm3(own) => own.fields(out),
            Element::Itm(own) => own.fields(out),
            Element::Stm(own) => own.fields(out),
            Element::TraceOn
            | Element::Trigger
            | Element::Discard
            | Element::Overflow
            | Element::Mispredict
            | Element::ExceptionReturn
            | Element::FunctionReturn
            | Element::TimestampMarker => {}
        }
    }
}

fn target_fields(target: Target, out: &mut impl Fields) {
    out.field("address", Value::Hex(target.address));
    out.field("is", Value::Number((target.isa == SubIsa::Is1).into()));
}
