//! What was executed, as JSON lines.
//!
//! Lines of instructions and ranges, of which there are millions, are put together by hand; all others are not.

use std::fmt::Write as _;

use unspool::Trace;
use unspool::coresight::etm4::Located;
use unspool::coresight::etm4::element::exception_name;
use unspool::flow::{Cause, Finding, Instruction, Item, Range, Transaction};
use unspool::model::json::Object;

use super::super::elements::context;
use super::super::packets::numbers;
use super::code::{Known, isa_name, kind_name, push_hex};
use crate::listing::Listing;

/// Writes lines.
pub(super) struct Json<'p> {
    known: Known<'p>,
    /// How every line of the source starts.
    start: String,
    line: String,
}

impl<'p> Json<'p> {
    /// Lines of one source.
    pub(super) fn new(trace: &Trace<'_>, known: Known<'p>) -> Self {
        let id = trace.source().id.map_or("null".into(), |id| id.to_string());
        let start = format!("{{\"source\":{id},\"session\":{},\"kind\":\"", trace.session());
        Self { known, start, line: String::new() }
    }

    /// The line of an instruction.
    pub(super) fn instruction(&mut self, instruction: &Instruction) -> &[u8] {
        let words = self.known.words(instruction);
        let line = &mut self.line;
        line.clear();
        line.push_str(&self.start);
        line.push_str("instruction\",");
        line.push_str(&words.text);
        if let Some(branch) = instruction.branch {
            line.push_str(if branch.taken { ",\"taken\":true" } else { ",\"taken\":false" });
            if let Some(target) = branch.target {
                line.push_str(",\"target\":\"");
                push_hex(line, target, 1);
                line.push('"');
            }
        }
        line.push_str(&words.label);
        line.push_str("}\n");
        line.as_bytes()
    }

    /// How every line of the source starts.
    pub(super) fn start(&self) -> &str {
        &self.start
    }

    /// The line of a range.
    pub(super) fn range(&mut self, range: &Range<'_>) -> &[u8] {
        self.line.clear();
        push_range(&mut self.line, &self.start, range);
        self.line.as_bytes()
    }
}

/// Adds the line of a range.
pub(super) fn push_range(line: &mut String, start: &str, range: &Range<'_>) {
    let last = range.last();
    line.push_str(start);
    line.push_str("range\",\"start\":\"");
    push_hex(line, range.start(), 1);
    line.push_str("\",\"end\":\"");
    push_hex(line, range.end(), 1);
    let _ = write!(line, "\",\"instructions\":{}", range.instructions());
    line.push_str(",\"isa\":\"");
    line.push_str(isa_name(range.isa()));
    line.push_str(if range.taken() { "\",\"taken\":true" } else { "\",\"taken\":false" });
    line.push_str(",\"last\":\"");
    line.push_str(kind_name(last.kind));
    line.push('"');
    let flags = [("link", last.link), ("ret", last.ret), ("eret", last.eret), ("conditional", last.conditional)];
    for (key, value) in flags {
        line.push_str(",\"");
        line.push_str(key);
        line.push_str(if value { "\":true" } else { "\":false" });
    }
    line.push_str("}\n");
}

/// Writes the line of anything else.
pub(super) fn item(listing: &mut Listing<'_, '_>, item: &Located<Item>) {
    listing.object(name(&item.value), |object| fields(object, item));
}

fn name(item: &Item) -> &'static str {
    match item {
        Item::Context(_) => "context",
        Item::Q { .. } => "q",
        Item::Exception { .. } => "exception",
        Item::ExceptionReturn => "exception_return",
        Item::FunctionReturn => "function_return",
        Item::TraceOn => "trace_on",
        Item::Overflow => "overflow",
        Item::Discard => "discard",
        Item::NoCode { .. } => "no_code",
        Item::Lost { .. } => "lost",
        Item::Finding(_) => "finding",
        Item::Timestamp { .. } => "timestamp",
        Item::CycleCount(_) => "cycle_count",
        Item::Event { .. } => "event",
        Item::Marker => "marker",
        Item::Instrumentation { .. } => "instrumentation",
        Item::Transaction(_) => "transaction",
        Item::End => "end",
        _ => "unknown",
    }
}

/// What the item says, key by key; keys that `elements` has too are the same there.
fn fields(object: &mut Object<'_>, item: &Located<Item>) {
    match &item.value {
        Item::Context(new) => context(object, new),
        Item::Q { start, next, instructions } => {
            object.nullable_hex("start", *start).nullable_hex("next", *next).nullable("instructions", *instructions);
        }
        Item::Exception { number, return_address } => {
            object.plain("number", number).string("name", exception_name(*number).unwrap_or("unknown"));
            object.nullable_hex("return", *return_address);
        }
        Item::NoCode { address, space } => {
            object.hex("address", *address).string("space", space);
        }
        Item::Lost { elements, cause } => {
            object.plain("elements", elements).string("why", cause_name(cause));
            if let Cause::NoCode { address, space } = cause {
                object.hex("address", *address).string("space", space);
            }
        }
        Item::Finding(found) => finding(object, item.offset, found),
        Item::Timestamp { value, cycles } => {
            object.plain("value", value).optional("cycles", *cycles);
        }
        Item::CycleCount(cycles) => {
            object.nullable("cycles", *cycles);
        }
        Item::Event { mask } => {
            object.plain("numbers", numbers(*mask));
        }
        Item::Instrumentation { el, value } => {
            object.plain("el", el).hex("value", *value);
        }
        Item::Transaction(state) => {
            object.string("state", transaction_name(*state));
        }
        _ => {}
    }
}

fn finding(object: &mut Object<'_>, offset: u64, found: &Finding) {
    object.plain("offset", offset).string("name", finding_name(found)).string("what", found);
    match *found {
        Finding::NotTaken { at } => object.hex("at", at),
        Finding::Unreachable { expected, found } => object.hex("expected", expected).hex("found", found),
        Finding::Runaway { start } => object.hex("start", start),
        Finding::ReturnAddress { at, return_address } => object.hex("at", at).hex("return", return_address),
        Finding::SourceAddress { at, source_address } => object.hex("at", at).hex("source_address", source_address),
        _ => object,
    };
}

/// What a finding is called, here and in the summary.
pub(super) fn finding_name(found: &Finding) -> &'static str {
    match found {
        Finding::NotTaken { .. } => "not_taken",
        Finding::Unreachable { .. } => "unreachable",
        Finding::Runaway { .. } => "runaway",
        Finding::ReturnAddress { .. } => "return_address",
        Finding::SourceAddress { .. } => "source_address",
        Finding::Mispredict => "mispredict",
        _ => "other",
    }
}

fn cause_name(cause: &Cause) -> &'static str {
    match cause {
        Cause::NoCode { .. } => "no_code",
        Cause::NoAddress => "no_address",
        Cause::Disagreement => "disagreement",
    }
}

/// What became of a transaction.
pub(super) fn transaction_name(state: Transaction) -> &'static str {
    match state {
        Transaction::Start => "start",
        Transaction::Commit => "commit",
        Transaction::Failure => "failure",
    }
}
