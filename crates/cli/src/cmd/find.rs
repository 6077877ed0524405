//! `find`: searches traces for instructions, exceptions, register values, accesses and notes.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use anyhow::bail;
use unspool::analyze::find::{Finder, OpcodePattern, Query, RegisterPattern};
use unspool::analyze::loops::LoopDetector;
use unspool::analyze::step_selection::StepSelection;
use unspool::convert::report::describe_position;
use unspool::isa::{Disassembler, Isa};
use unspool::model::json::Object;
use unspool::model::{BlockSink, BlockTrace, Direction, Event, ExceptionKind, Facet, Step};
use unspool::{FileKind, Program};

use crate::args::{OutputArgs, parse_number};
use crate::json::write_summary;
use crate::output::Output;
use crate::selection_args::parse_place;
use crate::symbols::{printable, symbol_text};
use crate::text::{direction_name, known_digits};
use crate::traces::{EachOptions, OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// Find instructions by address, function or opcode, writes of registers, accesses, exceptions and notes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    traces: TraceArgs,

    /// Instructions with this mnemonic, as in the disassembly. Can be repeated
    #[arg(long, value_name = "NAME", help_heading = "What to find")]
    mnemonic: Vec<String>,

    /// Instructions with this opcode; with a mask, only the bits in the mask are compared. Can be repeated
    #[arg(long, value_name = "VALUE[/MASK]", value_parser = parse_opcode, help_heading = "What to find")]
    opcode: Vec<OpcodePattern>,

    /// Writes of this register, with this value if it is given. Can be repeated
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = parse_register_pattern, help_heading = "What to find")]
    register: Vec<RegisterPattern>,

    /// Accesses to this address, or to a part of A..B. Can be repeated
    #[arg(long, value_name = "A[..B]", value_parser = parse_place, help_heading = "What to find")]
    memory: Vec<Range<u64>>,

    /// Only accesses that read
    #[arg(long, help_heading = "What to find", conflicts_with = "write")]
    read: bool,

    /// Only accesses that write
    #[arg(long, help_heading = "What to find")]
    write: bool,

    /// Exceptions: any, reset, synchronous, irq, fiq, serror, debug or unknown. Can be repeated
    #[arg(long, value_name = "KIND", value_parser = parse_exception, num_args = 0..=1, default_missing_value = "any", help_heading = "What to find")]
    exception: Vec<AnyOr<ExceptionKind>>,

    /// Notes and strings that contain this text. Can be repeated
    #[arg(long, value_name = "TEXT", help_heading = "What to find")]
    text: Vec<String>,

    /// Loops without progress: an address that comes again within 16 instructions, and no register has changed; or the same
    /// exceptions with no instruction in between. The step that closes a loop is found, once
    #[arg(long = "loop", help_heading = "What to find", conflicts_with_all = ["register", "exception", "text"])]
    is_loop: bool,

    /// Only print how many there are
    #[arg(long, conflicts_with_all = ["first", "limit", "before", "after"])]
    count: bool,

    /// Stop at the first one of each trace
    #[arg(long, conflicts_with = "limit")]
    first: bool,

    /// Stop after N of each trace
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Also print N steps before each
    #[arg(short = 'B', long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    before: usize,

    /// Also print N steps after each
    #[arg(short = 'A', long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    after: usize,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool find snapshot/ --function main --count
  unspool find trace.astf --memory 0x8000..0x9000 --write --first
  unspool find run.tarmac --register x0=0x10 -B 3 -A 3
  unspool find trace.zstf --mnemonic ecall --json
  unspool find snapshot/ --opcode 0xd4000001/0xffe0001f --level 0
  unspool find trace.astf --exception irq --count
  unspool find run.tarmac --loop --first         where the program stops making progress

Steps have to match all of the options; of an option that is repeated, one value suffices. Each line has the position in the \
trace, the address, opcode and disassembly of an instruction, its symbol, and what it wrote and accessed. In lists with \
context, '>' marks what was found. Registers, accesses and times can only be found in traces that have them: 'unspool info' \
shows what a trace has. With an index of an ASTF file, an STF file or a capture ('unspool index'), only the parts with the \
wanted addresses are read if they are few. A loop is as in tarmac-truncate: memory is not compared; where a trace has no registers, instructions \
that write one count as changes, and of A32 and T32 only branches do not.
Exit codes: 0 the search was complete, whether or not something was found; 1 the trace has problems; 2 the command failed.";

/// A value, or any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnyOr<T> {
    Any,
    One(T),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if !args.has_condition() {
        bail!(
            "nothing to find: give --function, --address, --mnemonic, --opcode, --register, --memory, --exception, --text or \
             --loop"
        );
    }
    let mut output = args.traces.open_output(&args.output)?;
    let mut total = 0;
    let options = EachOptions { indexed: true, ..EachOptions::default() };
    let verdict = args.traces.each_with(options, |trace| {
        let (found, verdict) = args.search(trace, &mut output)?;
        total += found;
        Ok(verdict)
    })?;
    if args.output.json {
        write_summary(&mut output, "find", verdict, |object| {
            object.plain("found", total);
        });
    }
    output.finish()?;
    Ok(verdict)
}

impl Args {
    fn has_condition(&self) -> bool {
        let names = self.mnemonic.len() + self.text.len() + self.register.len();
        let others = self.opcode.len() + self.memory.len() + self.exception.len();
        names + others > 0 || self.read || self.write || self.is_loop || !self.traces.selection.is_all()
    }

    fn query(&self, within: StepSelection) -> Query {
        let direction = match (self.read, self.write) {
            (true, _) => Some(Direction::Read),
            (_, true) => Some(Direction::Write),
            _ => None,
        };
        let kinds = self.exception.iter().filter_map(|kind| match kind {
            AnyOr::Any => None,
            AnyOr::One(kind) => Some(*kind),
        });
        let is_any = self.exception.contains(&AnyOr::Any);
        let exceptions = (!self.exception.is_empty()).then(|| if is_any { Vec::new() } else { kinds.collect() });
        Query {
            within,
            opcodes: self.opcode.clone(),
            mnemonics: self.mnemonic.iter().map(|name| name.to_lowercase()).collect(),
            registers: self.register.clone(),
            memory: self.memory.clone(),
            direction,
            exceptions,
            notes: self.text.clone(),
        }
    }

    /// Searches one trace. Returns the number of steps that were found.
    fn search(&self, trace: &mut OpenTrace, output: &mut Output) -> anyhow::Result<(u64, Verdict)> {
        let mut names = Disassembler::new();
        let name = move |isa, opcode| names.mnemonic(isa, opcode).map_or_else(String::new, Into::into);
        let query = self.query(trace.select(&self.traces.selection)?);
        // Nothing else in the trace matters: neither steps around what is found, nor the start of a loop.
        let is_local = query.is_of_instructions() && self.before + self.after == 0 && !self.is_loop;
        let addresses = Some(query.within.addresses.clone()).filter(|addresses| is_local && !addresses.is_empty());
        let finder = Finder::new(query, name);
        let finder = match self.is_loop {
            true => finder.closing_loops(LoopDetector::new(trace.coverage()?.0.has(Facet::Registers))),
            false => finder,
        };
        let program = Arc::clone(trace.program());
        let lines = Lines {
            name: trace.name(),
            kind: trace.kind,
            source: trace.source.clone(),
            program: &program,
            is_json: self.output.json,
            has_marks: self.before + self.after > 0,
            disassembler: Disassembler::new(),
            line: String::new(),
        };
        let limit = if self.first { Some(1) } else { self.limit };
        let mut search =
            Search { args: self, finder, lines, output, limit, found: 0, before: VecDeque::new(), after: 0 };
        // The finder selects: steps around what it finds are printed too.
        let verdict = match addresses {
            Some(addresses) => trace.follow_near(&addresses, &mut search)?,
            None => trace.follow(&StepSelection::default(), &mut search)?,
        };
        let Search { found, lines: Lines { name, .. }, output, .. } = search;
        if self.count && !self.output.json {
            let heading =
                if self.traces.len() > 1 || trace.source.is_some() { format!("{name}: ") } else { String::new() };
            output.write(|out| writeln!(out, "{heading}{found}"));
        } else if self.count {
            let mut line = String::new();
            let mut object = Object::new(&mut line);
            object.string("kind", "count").string("file", &trace.file);
            object.nullable_string("source", trace.source.as_ref().map(|(name, _)| name)).plain("found", found);
            output.write(|out| object.write_line(out));
        }
        Ok((found, verdict))
    }
}

/// Search of one trace.
struct Search<'a> {
    args: &'a Args,
    finder: Finder<'a>,
    lines: Lines<'a>,
    output: &'a mut Output,
    limit: Option<u64>,
    found: u64,
    /// The steps before the current one.
    before: VecDeque<Step>,
    /// Steps that are still to be printed after one that was found.
    after: usize,
}

impl Search<'_> {
    fn found(&mut self, step: &Step) -> ControlFlow<()> {
        self.found += 1;
        if self.args.count {
            return ControlFlow::Continue(());
        }
        let is_apart = self.after == 0 && self.lines.has_marks && self.found > 1;
        if is_apart && !self.args.output.json {
            self.output.write(|out| writeln!(out, "--"));
        }
        for earlier in std::mem::take(&mut self.before) {
            self.lines.print(&earlier, false, self.output);
        }
        self.lines.print(step, true, self.output);
        self.after = self.args.after;
        self.flow()
    }

    fn flow(&self) -> ControlFlow<()> {
        let is_over = self.limit.is_some_and(|limit| self.found >= limit) && self.after == 0;
        if is_over || !self.output.is_open() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A step that was not found, but may be near one.
    fn other(&mut self, step: &Step) -> ControlFlow<()> {
        if self.after > 0 {
            self.after -= 1;
            self.lines.print(step, false, self.output);
            return self.flow();
        }
        if self.args.before > 0 {
            if self.before.len() == self.args.before {
                self.before.pop_front();
            }
            self.before.push_back(step.clone());
        }
        ControlFlow::Continue(())
    }
}

impl BlockSink for Search<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let is_over = self.limit.is_some_and(|limit| self.found >= limit);
        if self.finder.step(step) && !is_over { self.found(step) } else { self.other(step) }
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        if self.lines.has_marks {
            return trace.each_step(|step| self.step(step));
        }
        let mut found = Vec::new();
        let limit = self.limit.map_or(usize::MAX, |limit| (limit - self.found) as usize);
        // It breaks only when enough were found.
        let _ = self.finder.blocks(trace, &mut |step| {
            found.push(step.clone());
            if found.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found.iter().try_for_each(|step| self.found(step))
    }

    fn wants_accesses(&self) -> bool {
        !self.args.count || self.finder.wants_accesses()
    }
}

/// Prints steps.
struct Lines<'a> {
    name: String,
    kind: FileKind,
    source: Option<(String, Option<u8>)>,
    program: &'a Program,
    is_json: bool,
    /// Not everything that is printed was found.
    has_marks: bool,
    disassembler: Disassembler,
    line: String,
}

impl Lines<'_> {
    fn print(&mut self, step: &Step, is_found: bool, output: &mut Output) {
        self.line.clear();
        if self.is_json {
            self.json(step, is_found);
        } else {
            self.text(step, is_found);
        }
        output.write(|out| out.write_all(self.line.as_bytes()));
    }

    fn text(&mut self, step: &Step, is_found: bool) {
        let mark = match (self.has_marks, is_found) {
            (false, _) => "",
            (true, true) => "> ",
            (true, false) => "  ",
        };
        let position = describe_position(self.kind.unit(), step.position);
        let mut text = format!("{mark}{position:<14}");
        if let Some(time) = step.time {
            text += &format!(" t={time}");
        }
        if let Some((source, _)) = &self.source {
            text += &format!(" {source}");
        }
        match &step.event {
            Event::Instruction(found) => {
                let digits = if found.length == 2 { 4 } else { 8 };
                let opcode = found.opcode.map_or_else(|| "-".repeat(digits), |opcode| format!("{opcode:0digits$x}"));
                let code = found.opcode.map_or("(opcode unknown)".to_string(), |opcode| {
                    self.disassembly(found.isa, found.address, opcode)
                });
                text += &format!(" {:#018x} {opcode:8}  {code}", found.address);
                if let Some(symbol) = self.program.symbol(found.address) {
                    text += &format!("  <{}>", printable(&symbol_text(symbol)));
                }
            }
            Event::Exception(found) => {
                text += &format!(" exception: {}", exception_name(found.kind));
                if let Some(target) = found.target {
                    text += &format!(", handler at {target:#x}");
                }
            }
            Event::ExceptionReturn { target } => {
                text += " exception return";
                target.iter().for_each(|target| text += &format!(" to {target:#x}"));
            }
            Event::Context(context) => {
                let number = |name: &str, value: Option<u64>| value.map(|value| format!(" {name} {value}"));
                let parts = [number("level", context.level.map(u64::from)), number("process", context.process)];
                text += &format!(" context:{}", parts.into_iter().flatten().collect::<String>());
            }
            Event::Gap(_) => text += " gap: part of the execution is missing",
            Event::Note => text += &format!(" note: {}", printable(step.note())),
            Event::State => text += " state",
        }
        self.effects(step, &mut text);
        self.line = text;
        self.line.push('\n');
    }

    fn effects(&self, step: &Step, text: &mut String) {
        for write in step.registers() {
            *text += &format!("  {}={}", write.name, known_digits(write.bytes));
        }
        for access in step.accesses() {
            *text += &format!("  {}[{:#x}]{}", direction_name(access.direction), access.address, access.size);
        }
    }

    fn json(&mut self, step: &Step, is_found: bool) {
        let disassembly = step
            .event
            .instruction()
            .and_then(|found| found.opcode.map(|opcode| self.disassembler.text(found.isa, found.address, opcode)));
        let mut object = Object::new(&mut self.line);
        object.string("kind", if is_found { "found" } else { "near" });
        object.nullable_string("source", self.source.as_ref().map(|(name, _)| name));
        object.plain(self.kind.unit(), step.position).plain("core", step.core);
        if let Some(time) = step.time {
            object.plain("time", time);
        }
        object.string("step", event_name(&step.event));
        if let Event::Instruction(found) = &step.event {
            object.hex("address", found.address).nullable_hex("opcode", found.opcode.map(u64::from));
            object.string("isa", found.isa.name()).nullable_string("text", disassembly);
            if let Some(symbol) = self.program.symbol(found.address) {
                object.string("symbol", symbol_text(symbol));
            }
        }
        if let Event::Exception(found) = &step.event {
            object.string("exception", exception_name(found.kind)).nullable_hex("target", found.target);
        }
        if step.event == Event::Note {
            object.string("text", step.note());
        }
        object.list("registers", step.registers(), |text, write| {
            let mut object = Object::nested(text);
            object.string("name", write.name).string("value", known_digits(write.bytes)).close_nested();
        });
        object.list("accesses", step.accesses(), |text, access| {
            let mut object = Object::nested(text);
            object.string("direction", direction_name(access.direction)).hex("address", access.address);
            object.plain("size", access.size).close_nested();
        });
        object.end_line();
    }

    fn disassembly(&mut self, isa: Isa, address: u64, opcode: u32) -> String {
        self.disassembler.text(isa, address, opcode)
    }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Instruction(_) => "instruction",
        Event::Exception(_) => "exception",
        Event::ExceptionReturn { .. } => "exception_return",
        Event::Context(_) => "context",
        Event::Gap(_) => "gap",
        Event::Note => "note",
        Event::State => "state",
    }
}

const EXCEPTIONS: [(&str, ExceptionKind); 7] = [
    ("unknown", ExceptionKind::Unknown),
    ("reset", ExceptionKind::Reset),
    ("synchronous", ExceptionKind::Synchronous),
    ("irq", ExceptionKind::Irq),
    ("fiq", ExceptionKind::Fiq),
    ("serror", ExceptionKind::SError),
    ("debug", ExceptionKind::Debug),
];

fn exception_name(kind: ExceptionKind) -> &'static str {
    EXCEPTIONS.iter().find(|(_, named)| *named == kind).map_or("unknown", |(name, _)| name)
}

fn parse_exception(text: &str) -> Result<AnyOr<ExceptionKind>, String> {
    if text == "any" {
        return Ok(AnyOr::Any);
    }
    let found = EXCEPTIONS.iter().find(|(name, _)| *name == text).map(|(_, kind)| AnyOr::One(*kind));
    found.ok_or_else(|| {
        format!("unknown exception '{text}': use any, reset, synchronous, irq, fiq, serror, debug or unknown")
    })
}

fn parse_opcode(text: &str) -> Result<OpcodePattern, String> {
    let (value, mask) = text.split_once('/').map_or((text, None), |(value, mask)| (value, Some(mask)));
    let parse = |text: &str| {
        parse_number(text)
            .and_then(|number| u32::try_from(number).map_err(|_| format!("'{text}' has more than 32 bits")))
    };
    Ok(OpcodePattern { value: parse(value)?, mask: mask.map_or(Ok(u32::MAX), parse)? })
}

fn parse_register_pattern(text: &str) -> Result<RegisterPattern, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    Ok(RegisterPattern { name: name.to_lowercase(), value: value.map(parse_number).transpose()? })
}
