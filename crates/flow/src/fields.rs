//! Names and fields of the items of a program flow. Keys that elements have too are the same there.

use unspool_coresight::Located;
use unspool_coresight::fields::{Fields, Value};

use crate::item::{Cause, Finding, Item, Transaction};

impl Item {
    /// The name of the item's kind that the command line and JSON use.
    pub fn name(&self) -> &'static str {
        match self {
            Item::Context(_) => "context",
            Item::Map(_) => "map",
            Item::Q { .. } => "q",
            Item::Exception { .. } => "exception",
            Item::ExceptionReturn => "exception_return",
            Item::FunctionReturn => "function_return",
            Item::TraceOn => "trace_on",
            Item::Overflow => "overflow",
            Item::Discard { .. } => "discard",
            Item::NoCode { .. } => "no_code",
            Item::Lost { .. } => "lost",
            Item::Finding(_) => "finding",
            Item::Timestamp { .. } => "timestamp",
            Item::CycleCount(_) => "cycle_count",
            Item::Event { .. } => "event",
            Item::Marker => "marker",
            Item::Trigger => "trigger",
            Item::Instrumentation { .. } => "instrumentation",
            Item::Transaction(_) => "transaction",
            Item::Condition { .. } => "condition",
            Item::Etm3(own) => own.name(),
            Item::End => "end",
        }
    }
}

/// Lists the fields of an item.
pub fn item_fields(item: &Located<Item>, out: &mut impl Fields) {
    match &item.value {
        Item::Context(context) => context.fields(out),
        Item::Map(map) => out.field("map", Value::Number(map.0.into())),
        Item::Q { start, next, instructions } => {
            out.nullable_address("start", *start);
            out.nullable_address("next", *next);
            out.nullable("instructions", *instructions);
        }
        Item::Exception { number, return_address } => number.fields(*return_address, out),
        Item::NoCode { address, space, isa } => {
            out.field("address", Value::Hex(*address));
            out.field("space", Value::Text(space));
            if let Some(isa) = isa {
                out.field("isa", Value::Text(&isa.name()));
            }
        }
        Item::Lost { elements, cause } => {
            out.field("elements", Value::Number(*elements));
            out.field("why", Value::Text(&cause.name()));
            if let Cause::NoCode { address, space } = cause {
                out.field("address", Value::Hex(*address));
                out.field("space", Value::Text(space));
            }
        }
        Item::Finding(finding) => {
            out.field("offset", Value::Number(item.offset));
            finding.fields(out);
        }
        Item::Timestamp { value, cycles } => {
            out.field("value", Value::Number(*value));
            out.optional("cycles", *cycles);
        }
        Item::CycleCount(cycles) => out.nullable("cycles", *cycles),
        Item::Event { mask } => out.field("numbers", Value::Bits(*mask)),
        Item::Instrumentation { el, value } => {
            out.field("el", Value::Number((*el).into()));
            out.field("value", Value::Hex(*value));
        }
        Item::Transaction(state) => out.field("state", Value::Text(&state.name())),
        Item::Condition { address, passed } => {
            out.field("address", Value::Hex(*address));
            out.field("passed", Value::Flag(*passed));
        }
        Item::Discard { uncertain_branch } => {
            if let Some(address) = uncertain_branch {
                out.field("uncertain_branch", Value::Hex(*address));
            }
        }
        Item::Etm3(own) => own.fields(out),
        Item::ExceptionReturn
        | Item::FunctionReturn
        | Item::TraceOn
        | Item::Overflow
        | Item::Marker
        | Item::Trigger
        | Item::End => {}
    }
}

impl Finding {
    /// The name of the finding in JSON and in summaries.
    pub fn name(&self) -> &'static str {
        match self {
            Finding::NotTaken { .. } => "not_taken",
            Finding::Unreachable { .. } => "unreachable",
            Finding::Runaway { .. } => "runaway",
            Finding::ReturnAddress { .. } => "return_address",
            Finding::SourceAddress { .. } => "source_address",
            Finding::WaypointUpdate { .. } => "waypoint_update",
            Finding::AmbiguousImage { .. } => "ambiguous_image",
            Finding::Conditional { .. } => "conditional",
            Finding::NoTarget => "no_target",
            Finding::Mispredict => "mispredict",
        }
    }

    fn fields(&self, out: &mut impl Fields) {
        out.field("name", Value::Text(&self.name()));
        out.field("what", Value::Text(self));
        let addresses: &[(&'static str, u64)] = match *self {
            Finding::NotTaken { at } | Finding::Conditional { at, .. } => &[("at", at)],
            Finding::Unreachable { expected, found } => &[("expected", expected), ("found", found)],
            Finding::Runaway { start } => &[("start", start)],
            Finding::ReturnAddress { at, return_address } => &[("at", at), ("return", return_address)],
            Finding::SourceAddress { at, source_address } => &[("at", at), ("source_address", source_address)],
            Finding::WaypointUpdate { at, waypoint } => &[("at", at), ("waypoint", waypoint)],
            Finding::AmbiguousImage { address } => &[("at", address)],
            Finding::NoTarget | Finding::Mispredict => &[],
        };
        addresses.iter().for_each(|(name, address)| out.field(name, Value::Hex(*address)));
    }
}

impl Cause {
    fn name(&self) -> &'static str {
        match self {
            Cause::NoCode { .. } => "no_code",
            Cause::Ambiguous { .. } => "ambiguous_image",
            Cause::NoAddress => "no_address",
            Cause::Disagreement => "disagreement",
        }
    }
}

impl Transaction {
    /// The word that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Transaction::Start => "start",
            Transaction::Commit => "commit",
            Transaction::Failure => "failure",
        }
    }
}
