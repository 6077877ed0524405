//! Executed instructions and ranges as JSON lines.
//!
//! Takes instructions, ranges and other items; produces lines. Those of instructions and ranges are hot, and so are
//! written without [`Object`](unspool::model::json::Object).

use std::io::{self, Write};

use unspool::Trace;
use unspool::coresight::Located;
use unspool::flow::{FlowItem, Instruction, Item, Range, RunKey, item_fields};
use unspool::isa::ControlFlow;
use unspool::model::digits::{push_decimal, push_short_hex};

use super::code::{CodeCache, NamedEvents, Process, flow_name};
use crate::listing::{JsonFields, push_error, push_object, put_meanings};

pub(super) struct Json<'p> {
    pub(super) cache: CodeCache<'p>,
    events: NamedEvents,
    /// Start of every line of the source.
    pub(super) start: String,
    line: String,
    /// Total of the cycles counted so far.
    pub(super) cycles: u64,
}

impl<'p> Json<'p> {
    pub(super) fn new(trace: &Trace<'_>, cache: CodeCache<'p>) -> Self {
        let id = trace.source().id.map_or("null".into(), |id| id.to_string());
        let start = format!("{{\"source\":{id},\"session\":{},\"kind\":\"", trace.session());
        Self { cache, events: NamedEvents::new(trace), start, line: String::new(), cycles: 0 }
    }

    pub(super) fn instruction(&mut self, instruction: &Instruction) -> &[u8] {
        let parts = self.cache.instruction(instruction);
        let line = &mut self.line;
        line.clear();
        line.push_str(&self.start);
        line.push_str("instruction\",");
        line.push_str(&parts.text);
        if let Some(branch) = instruction.branch {
            line.push_str(if branch.taken { ",\"taken\":true" } else { ",\"taken\":false" });
            if let Some(target) = branch.target {
                line.push_str(",\"target\":\"");
                push_short_hex(line, target);
                line.push('"');
            }
        }
        line.push_str(&parts.symbol);
        line.push_str(&parts.source);
        line.push_str("}\n");
        line.as_bytes()
    }

    /// Writes the lines of a run, if they are kept.
    #[inline]
    pub(super) fn write_kept(&mut self, key: RunKey, out: &mut dyn Write) -> Option<io::Result<()>> {
        let kept = self.cache.runs().get(key, &self.start)?;
        Some(out.write_all(self.start.as_bytes()).and_then(|()| out.write_all(kept.lines)))
    }

    /// Counts the cycles of an item, printed or not, and follows its address map. Returns the process of a map.
    pub(super) fn follow(&mut self, item: &Located<Item>) -> Option<Process> {
        match item.value {
            Item::CycleCount(Some(cycles)) => self.cycles = self.cycles.saturating_add(u64::from(cycles)),
            Item::Map(map) => return Some(self.cache.enter(map)),
            _ => {}
        }
        None
    }

    /// Line of any other item. Counts its cycles, and follows its address map.
    pub(super) fn item(&mut self, trace: &Trace<'_>, item: &FlowItem) -> &[u8] {
        self.line.clear();
        match item {
            Ok(item) => {
                let process = self.follow(item);
                self.push_item(trace, item, process);
            }
            Err(error) => push_error(&mut self.line, trace, error),
        }
        self.line.as_bytes()
    }

    fn push_item(&mut self, trace: &Trace<'_>, item: &Located<Item>, process: Option<Process>) {
        let cycles = self.cycles;
        if let Some(Process { pid, is_changing }) = process {
            return push_object(&mut self.line, trace, "process", |object| {
                object.nullable("pid", pid).plain("changing", is_changing);
            });
        }
        push_object(&mut self.line, trace, item.value.name(), |object| {
            item_fields(item, &mut JsonFields(object));
            if let Item::Event { mask } = item.value {
                put_meanings(object, self.events.named(&self.cache), mask);
            }
            if matches!(item.value, Item::CycleCount(_)) {
                // The total so far, as the cycle column of the text has it.
                object.plain("total_cycles", cycles);
            }
        });
    }

    pub(super) fn range(&mut self, range: &Range<'_>) -> &[u8] {
        self.line.clear();
        push_range(&mut self.line, &self.start, range, &self.cache.source(range.start()));
        self.line.as_bytes()
    }
}

/// The flags of the last instruction of a range, unset and set.
const FLAGS: [[&str; 2]; 4] = [
    [",\"link\":false", ",\"link\":true"],
    [",\"ret\":false", ",\"ret\":true"],
    [",\"eret\":false", ",\"eret\":true"],
    [",\"conditional\":false", ",\"conditional\":true"],
];

/// Adds the line of a range. `more` are further keys, each with a comma before it.
pub(super) fn push_range(line: &mut String, start: &str, range: &Range<'_>, more: &str) {
    let last = range.last();
    line.push_str(start);
    line.push_str("range\",\"start\":\"");
    push_short_hex(line, range.start());
    line.push_str("\",\"end\":\"");
    push_short_hex(line, range.end());
    line.push_str("\",\"instructions\":");
    push_decimal(line, range.instructions().into());
    line.push_str(",\"isa\":\"");
    line.push_str(range.isa().name());
    line.push_str(if range.taken() { "\",\"taken\":true" } else { "\",\"taken\":false" });
    line.push_str(",\"last\":\"");
    line.push_str(flow_name(last.flow));
    line.push('"');
    let is_eret = last.flow == ControlFlow::ExceptionReturn;
    for ([no, yes], flag) in FLAGS.iter().zip([last.link, last.ret, is_eret, last.conditional]) {
        line.push_str(if flag { yes } else { no });
    }
    line.push_str(more);
    line.push_str("}\n");
}
