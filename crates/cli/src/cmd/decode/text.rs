//! What was executed, as a debugger's trace window shows it.
//!
//! A line an instruction or range: the time and the cycles so far, where they are traced and have changed; the Exception
//! level and Security state; address, opcode and text; what became of a branch. A line with a name where the function
//! changes. Marks start with `--`, and those that tell of something wrong with `!!`.

use std::fmt::Write as _;

use unspool::coresight::{Element, ElementError, Features, Located};
use unspool::flow::{Around, Cause, FlowItem, Instruction, Item, Outcome, Range, Space};
use unspool::isa::{ControlFlow, Isa};
use unspool::number::many;

use super::code::{Known, flow_name, push_hex};

/// How wide address, opcode and text of an A64 instruction are before its outcome follows.
const WIDTH: usize = 64;

/// Writes lines.
pub(super) struct Text<'p> {
    known: Known<'p>,
    columns: Columns,
    /// What stands before the address, until something changes.
    head: String,
    head_is_stale: bool,
    /// What the columns have said last.
    time: Option<u64>,
    cycles: Option<u64>,
    /// The function of the last instruction.
    function: Option<u64>,
    line: String,
}

/// Which columns there are.
#[derive(Debug, Clone, Copy)]
struct Columns {
    time: bool,
    cycles: bool,
}

impl<'p> Text<'p> {
    /// Lines of a source that was configured like this.
    pub(super) fn new(features: &Features, known: Known<'p>) -> Self {
        Self {
            known,
            columns: Columns { time: features.timestamps, cycles: features.cycle_counting },
            head: String::new(),
            head_is_stale: true,
            time: None,
            cycles: None,
            function: None,
            line: String::new(),
        }
    }

    /// The line of an instruction, behind a line with the name of its function if that is another one.
    pub(super) fn instruction(&mut self, instruction: &Instruction, around: &Around) -> &[u8] {
        self.start_line(around);
        let words = self.known.words(instruction);
        if self.function != words.function {
            self.function = words.function;
            self.line.push_str(&words.label);
        }
        self.line.push_str(&self.head);
        self.line.push_str(&words.text);
        if let Some(branch) = instruction.branch {
            let (flow, gap) = (words.flow, WIDTH.saturating_sub(words.text.len()));
            self.outcome(flow, branch, gap);
        }
        self.line.push('\n');
        self.line.as_bytes()
    }

    fn outcome(&mut self, flow: ControlFlow, branch: Outcome, gap: usize) {
        let line = &mut self.line;
        let said = match (flow.is_branch(), branch.taken) {
            (true, true) => "  ; taken",
            (true, false) => "  ; not taken",
            (false, true) => return,
            (false, false) => "  ; not executed",
        };
        line.extend(std::iter::repeat_n(' ', gap));
        line.push_str(said);
        if let Some(target) = branch.target {
            line.push_str(" -> ");
            push_hex(line, target, 1);
            line.push_str(self.known.name(target));
        }
    }

    /// The line of a range.
    pub(super) fn range(&mut self, range: &Range<'_>, around: &Around) -> &[u8] {
        self.start_line(around);
        let (line, last) = (&mut self.line, range.last());
        line.push_str(&self.head);
        let width = if range.isa() == Isa::A64 { 16 } else { 8 };
        push_hex(line, range.start(), width);
        line.push_str(" to ");
        push_hex(line, range.end(), width);
        let _ = write!(line, "  {:>5} {}  {}", range.instructions(), range.isa().name(), flow_name(last.flow));
        let is_eret = last.flow == ControlFlow::ExceptionReturn;
        for (is, word) in
            [(last.conditional, "conditional"), (last.link, "link"), (last.ret, "return"), (is_eret, "eret")]
        {
            if is {
                line.push(' ');
                line.push_str(word);
            }
        }
        if last.flow.is_p0() {
            line.push_str(if range.taken() { ", taken" } else { ", not taken" });
        }
        line.push_str(self.known.name(range.start()));
        line.push('\n');
        self.line.as_bytes()
    }

    /// Starts a line, with what stands before the address up to date.
    fn start_line(&mut self, around: &Around) {
        self.line.clear();
        if self.head_is_stale {
            let time = around.timestamp.filter(|_| around.timestamp != self.time);
            let cycles = around.cycles.filter(|_| around.cycles != self.cycles);
            self.head.clear();
            if self.columns.time {
                push_column(&mut self.head, time.map(|time| format!("{time:#x}")), 14);
            }
            if self.columns.cycles {
                push_column(&mut self.head, cycles.map(|cycles| cycles.to_string()), 10);
            }
            let space = around.context.map_or("?".into(), |context| Space::of(&context).to_string());
            let _ = write!(self.head, "{space:<4}  ");
            (self.time, self.cycles) = (around.timestamp, around.cycles);
            // The same time is not said twice.
            self.head_is_stale = time.is_some() || cycles.is_some();
        }
    }

    /// The line of anything else; nothing, if a column says it.
    pub(super) fn item(&mut self, item: &FlowItem) -> &[u8] {
        self.head_is_stale = true;
        self.line.clear();
        match item {
            Ok(item) => self.mark(item),
            Err(ElementError { offset, skipped, kind }) => {
                self.function = None;
                let mark = if kind.is_ordinary() { "--" } else { "!!" };
                let _ = writeln!(self.line, "{mark} {offset:#x}: {kind}, {} skipped", many(*skipped, "byte"));
            }
        }
        self.line.as_bytes()
    }

    fn mark(&mut self, item: &Located<Item>) {
        let in_column = match item.value {
            Item::Timestamp { .. } => self.columns.time,
            Item::CycleCount(_) => self.columns.cycles,
            Item::End => true,
            _ => false,
        };
        if in_column {
            return;
        }
        if is_break(&item.value) {
            self.function = None;
        }
        let mark = if matches!(item.value, Item::Finding(_) | Item::Overflow) { "!!" } else { "--" };
        let _ = writeln!(self.line, "{mark} {}", words(item));
    }
}

fn push_column(head: &mut String, text: Option<String>, width: usize) {
    let _ = write!(head, "{:>width$}  ", text.unwrap_or_default());
}

/// Is it worth repeating where execution is?
fn is_break(item: &Item) -> bool {
    !matches!(item, Item::Context(_) | Item::Timestamp { .. } | Item::CycleCount(_) | Item::Event { .. } | Item::Marker)
}

fn words(item: &Located<Item>) -> String {
    match item.value {
        Item::Context(context) => format!("context {context}"),
        Item::Q { start, next, instructions } => {
            let count = instructions.map_or("some instructions".into(), |count| many(u64::from(count), "instruction"));
            format!("{count} whose branches were not traced, from {} to {}", known(start), known(next))
        }
        Item::Exception { number, return_address } => {
            Element::Exception { number, address: return_address }.to_string()
        }
        Item::ExceptionReturn => "exception return".into(),
        Item::FunctionReturn => "function return".into(),
        Item::TraceOn => "trace on".into(),
        Item::Overflow => "overflow: trace was lost".into(),
        Item::Discard => "discard: tracing stopped".into(),
        Item::NoCode { address, space } => format!("no code at {address:#x} in {space}"),
        Item::Lost { elements, cause } => format!("{} lost: {}", many(elements, "P0 element"), cause_text(&cause)),
        Item::Finding(finding) => format!("{:#x}: {finding}", item.offset),
        Item::Timestamp { value, cycles } => Element::Timestamp { value, cycles }.to_string(),
        Item::CycleCount(cycles) => Element::CycleCount(cycles).to_string(),
        Item::Event { mask } => Element::Event { mask }.to_string(),
        Item::Marker => Element::TimestampMarker.to_string(),
        Item::Instrumentation { el, value } => Element::Instrumentation { el, value }.to_string(),
        Item::Transaction(state) => format!("transaction {}", state.name()),
        Item::End => "end".into(),
        _ => "something that this version has no words for".into(),
    }
}

fn known(address: Option<u64>) -> String {
    address.map_or("somewhere".into(), |address| format!("{address:#x}"))
}

fn cause_text(cause: &Cause) -> String {
    match cause {
        Cause::NoCode { address, space } => format!("no code at {address:#x} in {space}"),
        Cause::NoAddress => "the trace has not told where".into(),
        Cause::Disagreement => "trace and code did not fit together".into(),
    }
}
