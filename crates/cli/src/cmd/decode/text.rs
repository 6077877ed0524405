//! Executed instructions and ranges as text, like the trace window of a debugger.
//!
//! One line per instruction or range: time and cycles where traced and changed; Exception level and Security state;
//! address, opcode and disassembly; outcome of a branch. A line with a name where the function changes. Other items
//! start with `--`, problems with `!!`.

use std::fmt::Write as _;
use std::io::{self, Write};

use unspool::Trace;
use unspool::capture::KERNEL;
use unspool::coresight::{Element, ElementError, Features, Located};
use unspool::flow::{Around, Cause, FlowItem, Instruction, Item, MapId, Outcome, Range, RunKey, Space};
use unspool::isa::{ControlFlow, Isa};
use unspool::model::digits::{push_decimal, push_short_hex};
use unspool::number::many;

use super::code::{CodeCache, NamedEvents, Process, flow_name, push_padded};
use super::run_lines::Kept;
use crate::style::Palette;

/// Width of address, opcode and text of an A64 instruction, before its outcome.
const WIDTH: usize = 64;

const BLANKS: &str = match str::from_utf8(&[b' '; WIDTH]) {
    Ok(blanks) => blanks,
    Err(_) => "",
};

pub(super) struct Text<'p> {
    pub(super) cache: CodeCache<'p>,
    events: NamedEvents,
    palette: Palette,
    columns: Columns,
    /// Columns before the address.
    pub(super) head: String,
    /// The same without times that were shown before.
    steady_head: String,
    /// An item may have changed the columns.
    head_is_stale: bool,
    /// A line has shown the head.
    head_is_shown: bool,
    /// Values that the columns showed last.
    time: Option<u64>,
    cycles: Option<u64>,
    /// The function of the last instruction.
    pub(super) function: Option<u64>,
    /// The line with the position in the source that was shown last.
    source: String,
    /// The last process that was shown; the inner `None` is an unknown one.
    process: Option<Process>,
    line: String,
}

#[derive(Debug, Clone, Copy)]
struct Columns {
    time: bool,
    cycles: bool,
}

impl<'p> Text<'p> {
    pub(super) fn new(trace: &Trace<'_>, features: &Features, cache: CodeCache<'p>, palette: Palette) -> Self {
        Self {
            cache,
            events: NamedEvents::new(trace),
            palette,
            columns: Columns { time: features.timestamps, cycles: features.cycle_counting },
            head: String::new(),
            steady_head: String::new(),
            head_is_stale: true,
            head_is_shown: false,
            time: None,
            cycles: None,
            function: None,
            source: String::new(),
            process: None,
            line: String::new(),
        }
    }

    /// Forgets what the lines before showed, since others come between: time, function and process are shown again.
    pub(super) fn restart(&mut self) {
        (self.time, self.function, self.process) = (None, None, None);
        self.source.clear();
        self.head_is_stale = true;
    }

    /// Line of an instruction, after a line with the name of its function if that changed.
    #[inline]
    pub(super) fn instruction(&mut self, instruction: &Instruction, around: &Around) -> &[u8] {
        self.start_line(around);
        let function = self.cache.instruction(instruction).function;
        if self.function != function {
            self.function = function;
            self.line.push_str(self.cache.label(instruction.address));
        }
        let parts = self.cache.instruction(instruction);
        if self.source != parts.source {
            self.source.clone_from(&parts.source);
            self.line.push_str(&parts.source);
        }
        self.line.push_str(&self.head);
        self.line.push_str(&parts.text);
        if let Some(branch) = instruction.branch {
            let (flow, gap) = (parts.flow, WIDTH.saturating_sub(parts.width));
            self.outcome(flow, branch, gap);
        }
        self.line.push('\n');
        self.line.as_bytes()
    }

    /// Writes the lines of a run, if they are kept.
    #[inline]
    pub(super) fn write_kept(&mut self, key: RunKey, around: &Around, out: &mut dyn Write) -> Option<io::Result<()>> {
        self.ready_head(around);
        let Kept { label, lines, functions } = self.cache.runs().get(key, &self.steady_head)?;
        let is_elsewhere = functions.is_some_and(|functions| functions.first != self.function);
        self.function = functions.map_or(self.function, |functions| functions.last);
        let label = if is_elsewhere { label } else { &[] };
        self.head_is_shown = true;
        Some([label, self.head.as_bytes(), lines].into_iter().try_for_each(|part| out.write_all(part)))
    }

    /// The function of an instruction, with the line that names it.
    pub(super) fn label(&mut self, instruction: &Instruction) -> (Option<u64>, String) {
        (self.cache.instruction(instruction).function, self.cache.label(instruction.address).to_string())
    }

    fn outcome(&mut self, flow: ControlFlow, branch: Outcome, gap: usize) {
        let line = &mut self.line;
        let outcome = match (flow.is_branch(), branch.taken) {
            (true, true) => "  ; taken",
            (true, false) => "  ; not taken",
            (false, true) => return,
            (false, false) => "  ; not executed",
        };
        line.push_str(&BLANKS[..gap]);
        line.push_str(self.palette.detail);
        line.push_str(outcome);
        if let Some(target) = branch.target {
            line.push_str(" -> ");
            push_short_hex(line, target);
            line.push_str(self.palette.reset);
            line.push_str(self.cache.name(target));
        } else {
            line.push_str(self.palette.reset);
        }
    }

    pub(super) fn range(&mut self, range: &Range<'_>, around: &Around) -> &[u8] {
        self.start_line(around);
        let source = self.cache.source(range.start());
        if self.source != source {
            self.line.push_str(&source);
            self.source = source;
        }
        let (line, last, palette) = (&mut self.line, range.last(), &self.palette);
        line.push_str(&self.head);
        let is_wide = range.isa() == Isa::A64;
        line.push_str(palette.address);
        push_padded(line, range.start(), is_wide);
        line.push_str(" to ");
        push_padded(line, range.end(), is_wide);
        line.push_str(palette.reset);
        line.push_str("  ");
        push_right(line, range.instructions());
        for part in [" ", range.isa().name(), "  ", flow_name(last.flow)] {
            line.push_str(part);
        }
        let is_eret = last.flow == ControlFlow::ExceptionReturn;
        for (is, word) in
            [(last.conditional, "conditional"), (last.link, "link"), (last.ret, "return"), (is_eret, "eret")]
        {
            if is {
                line.push(' ');
                line.push_str(word);
            }
        }
        if range.has_outcome() {
            line.push_str(if range.taken() { ", taken" } else { ", not taken" });
        }
        line.push_str(self.cache.name(range.start()));
        line.push('\n');
        self.line.as_bytes()
    }

    /// Starts a line.
    #[inline]
    fn start_line(&mut self, around: &Around) {
        self.line.clear();
        self.ready_head(around);
        self.head_is_shown = true;
    }

    /// Brings the columns before the address up to date. The same time is not shown twice.
    #[inline]
    fn ready_head(&mut self, around: &Around) {
        if self.head_is_stale {
            self.update_head(around);
        } else if self.head_is_shown {
            self.head.clone_from(&self.steady_head);
        }
    }

    fn update_head(&mut self, around: &Around) {
        let time = around.timestamp.filter(|_| around.timestamp != self.time);
        let cycles = around.cycles.filter(|_| around.cycles != self.cycles);
        let space = around.context.map_or("?".into(), |context| Space::new(context.security, context.el).to_string());
        // The modes of the M profile have longer names, and so have Security states without a level.
        let width = if around.context.is_some_and(|context| context.level().is_none()) { 9 } else { 4 };
        for (head, time, cycles) in [(&mut self.steady_head, None, None), (&mut self.head, time, cycles)] {
            head.clear();
            if self.columns.time {
                push_column(head, time.map(|time| format!("{time:#x}")), 14);
            }
            if self.columns.cycles {
                push_column(head, cycles.map(|cycles| cycles.to_string()), 10);
            }
            let _ = write!(head, "{space:<width$}  ");
        }
        (self.time, self.cycles) = (around.timestamp, around.cycles);
        (self.head_is_stale, self.head_is_shown) = (false, false);
    }

    /// Line of any other item; empty if a column shows it.
    pub(super) fn item(&mut self, item: &FlowItem) -> &[u8] {
        self.head_is_stale = true;
        self.line.clear();
        match item {
            Ok(item) => self.mark(item),
            Err(ElementError { offset, skipped, kind }) => {
                self.function = None;
                let text = format!("{offset:#x}: {kind}, {} skipped", many(*skipped, "byte"));
                self.push_mark(!kind.is_ordinary(), &text);
            }
        }
        self.line.as_bytes()
    }

    /// Continues in another address map. A process is named once; the kernel is part of all of them.
    fn enter(&mut self, map: MapId) {
        let process = self.cache.enter(map);
        self.function = None;
        let Process { pid, is_changing } = process;
        let is_quiet = pid == Some(KERNEL) && !is_changing;
        if !is_quiet && self.process.replace(process) != Some(process) {
            let text = pid.map_or("an unknown process".into(), |pid| format!("process {pid}"));
            self.push_mark(false, &if is_changing { text + ", while its code changes" } else { text });
        }
    }

    fn mark(&mut self, item: &Located<Item>) {
        if let Item::Map(map) = item.value {
            return self.enter(map);
        }
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
        let text = match item.value {
            Item::Event { mask } => self.events.named(&self.cache).text(mask),
            _ => item_text(item),
        };
        self.push_mark(matches!(item.value, Item::Finding(_) | Item::Overflow), &text);
    }

    fn push_mark(&mut self, is_problem: bool, text: &str) {
        let Palette { problem, mark, reset, .. } = self.palette;
        let (color, mark) = if is_problem { (problem, "!!") } else { (mark, "--") };
        let _ = writeln!(self.line, "{color}{mark} {text}{reset}");
    }
}

/// Adds a number, to the right of a column of five digits.
fn push_right(line: &mut String, number: u32) {
    let digits = 1 + number.checked_ilog10().unwrap_or(0);
    (digits..5).for_each(|_| line.push(' '));
    push_decimal(line, number.into());
}

fn push_column(head: &mut String, text: Option<String>, width: usize) {
    let _ = write!(head, "{:>width$}  ", text.unwrap_or_default());
}

/// Is the name of the function repeated after it?
fn is_break(item: &Item) -> bool {
    use Item::{Condition, Context, CycleCount, Etm3, Event, Marker, Timestamp, Trigger};
    let is_aside = matches!(item, Condition { .. } | Event { .. } | Marker | Trigger | Etm3(_));
    !is_aside && !matches!(item, Context(_) | Timestamp { .. } | CycleCount(_))
}

fn item_text(item: &Located<Item>) -> String {
    match item.value {
        Item::Context(context) => format!("context {context}"),
        Item::Q { start, next, instructions } => {
            let count = instructions.map_or("some instructions".into(), |count| many(u64::from(count), "instruction"));
            format!("{count} whose branches were not traced, from {} to {}", address_text(start), address_text(next))
        }
        Item::Exception { number, return_address } => {
            Element::Exception { number, address: return_address }.to_string()
        }
        Item::ExceptionReturn => "exception return".into(),
        Item::FunctionReturn => "function return".into(),
        Item::TraceOn => "trace on".into(),
        Item::Overflow => "overflow: trace was lost".into(),
        Item::Discard { uncertain_branch: None } => "discard: tracing stopped".into(),
        Item::Discard { uncertain_branch: Some(at) } => {
            format!("discard: tracing stopped; the last branch, at {at:#x}, may have gone elsewhere")
        }
        Item::NoCode { address, space, isa: None } => format!("no code at {address:#x} in {space}"),
        Item::NoCode { address, space, isa: Some(isa) } => {
            format!("{} code at {address:#x} in {space}, which is not decoded", isa.name())
        }
        Item::Lost { elements, cause } => format!("{} lost: {}", many(elements, "P0 element"), cause_text(&cause)),
        Item::Finding(finding) => format!("{:#x}: {finding}", item.offset),
        Item::Timestamp { value, cycles } => Element::Timestamp { value, cycles }.to_string(),
        Item::CycleCount(cycles) => Element::CycleCount(cycles).to_string(),
        Item::Marker => Element::TimestampMarker.to_string(),
        Item::Trigger => Element::Trigger.to_string(),
        Item::Instrumentation { el, value } => Element::Instrumentation { el, value }.to_string(),
        Item::Transaction(state) => format!("transaction {}", state.name()),
        Item::Condition { address, passed: true } => format!("condition at {address:#x}: passed"),
        Item::Condition { address, passed: false } => format!("condition at {address:#x}: failed, not executed"),
        Item::Etm3(own) => own.to_string(),
        Item::End => "end".into(),
        _ => "unknown item".into(),
    }
}

fn address_text(address: Option<u64>) -> String {
    address.map_or("an unknown address".into(), |address| format!("{address:#x}"))
}

fn cause_text(cause: &Cause) -> String {
    match cause {
        Cause::NoCode { address, space } => format!("no code at {address:#x} in {space}"),
        Cause::Ambiguous { address } => format!("several processes have code at {address:#x}"),
        Cause::NoAddress => "no address known yet".into(),
        Cause::Disagreement => "the trace contradicts the code".into(),
    }
}
