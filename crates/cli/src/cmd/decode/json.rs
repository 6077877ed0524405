//! What was executed, as JSON lines.
//!
//! Lines of instructions and ranges, of which there are millions, are put together by hand; all others are not.

use std::fmt::Write as _;

use unspool::Trace;
use unspool::coresight::Located;
use unspool::flow::{Instruction, Item, Range, item_fields};
use unspool::isa::ControlFlow;

use super::super::packets::JsonFields;
use super::code::{Known, flow_name, push_hex};
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
    line.push_str(range.isa().name());
    line.push_str(if range.taken() { "\",\"taken\":true" } else { "\",\"taken\":false" });
    line.push_str(",\"last\":\"");
    line.push_str(flow_name(last.flow));
    line.push('"');
    let is_eret = last.flow == ControlFlow::ExceptionReturn;
    let flags = [("link", last.link), ("ret", last.ret), ("eret", is_eret), ("conditional", last.conditional)];
    for (key, value) in flags {
        line.push_str(",\"");
        line.push_str(key);
        line.push_str(if value { "\":true" } else { "\":false" });
    }
    line.push_str("}\n");
}

/// Writes the line of anything else.
pub(super) fn item(listing: &mut Listing<'_, '_>, item: &Located<Item>) {
    listing.object(item.value.name(), |object| item_fields(item, &mut JsonFields(object)));
}
