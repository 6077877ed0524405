//! `accesses`: every load and store of a trace, or totals of lines, reuse distances and strides.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use unspool::analyze::accesses::{LineTotals, Reuse, Strides, reads, writes};
use unspool::convert::report::describe_position;
use unspool::model::json::Object;
use unspool::model::{Access, BlockSink, Step};
use unspool::{FileKind, Program};

use crate::args::{OutputArgs, RangeArgs, parse_number};
use crate::diagnostic;
use crate::json::write_summary;
use crate::output::Output;
use crate::symbols::{printable, symbol_text};
use crate::text::{direction_name, known_digits};
use crate::traces::{OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// List the loads and stores of traces, or their totals, reuse distances and strides
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    traces: TraceArgs,

    /// List each line of memory once, with its reads and writes
    #[arg(long, group = "table", help_heading = "Tables")]
    totals: bool,

    /// List how many other lines were accessed between two accesses of a line, in powers of two
    #[arg(long, group = "table", help_heading = "Tables")]
    reuse: bool,

    /// List by how much the addresses of each instruction change from one execution to the next
    #[arg(long, group = "table", help_heading = "Tables")]
    strides: bool,

    /// Bytes of a line of memory, a power of two
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = parse_line, help_heading = "Tables")]
    line: u64,

    /// Only accesses that read
    #[arg(long, conflicts_with = "writes", help_heading = "Which part")]
    reads: bool,

    /// Only accesses that write
    #[arg(long, help_heading = "Which part")]
    writes: bool,

    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool accesses trace.zstf --limit 100
  unspool accesses trace.astf --totals --line 64
  unspool accesses trace.astf --reuse
  unspool accesses trace.tarmac --strides --limit 20

Columns of a list: the position in the trace; the time, if the trace has times; the address of the instruction; r reads, w writes, rw both; \
the address that it accesses, and the number of bytes; the data, if the trace has it.
With --totals, an access belongs to the line of its first byte, as in stf_address_map.
With --reuse, an access at a distance less than N hits a fully associative cache of N lines that replaces the least recently used \
one. A first access of a line has no distance.";

fn parse_line(text: &str) -> Result<u64, String> {
    parse_number(text).and_then(|bytes| match bytes.is_power_of_two() {
        true => Ok(bytes),
        false => Err("use a power of two".to_string()),
    })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.traces.open_output(&args.output)?;
    let (mut accesses, mut rows) = (0, 0);
    let verdict = args.traces.each(|trace| {
        let selection = trace.select(&args.traces.selection)?;
        let mut listing = Listing::new(args, trace, rows, &mut output);
        // Only a list shows data, which blocks do not have.
        let verdict = match listing.table {
            Table::List => trace.each(&selection, &mut listing)?,
            _ => trace.follow(&selection, &mut listing)?,
        };
        listing.finish();
        (accesses, rows) = (accesses + listing.accesses, listing.rows);
        Ok(verdict)
    })?;
    if args.output.json {
        write_summary(&mut output, "accesses", verdict, |object| {
            object.plain("accesses", accesses);
        });
    }
    output.finish()?;
    Ok(verdict)
}

/// What is made of the accesses.
enum Table {
    List,
    Totals(LineTotals),
    Reuse(Box<Reuse>),
    Strides(Strides),
}

impl Table {
    fn new(args: &Args) -> Self {
        let shift = args.line.trailing_zeros();
        match () {
            () if args.totals => Self::Totals(LineTotals::new(shift)),
            () if args.reuse => Self::Reuse(Box::new(Reuse::new(shift))),
            () if args.strides => Self::Strides(Strides::default()),
            () => Self::List,
        }
    }
}

/// Listing of one trace.
struct Listing<'a> {
    args: &'a Args,
    name: String,
    source: Option<String>,
    kind: FileKind,
    program: Arc<Program>,
    output: &'a mut Output,
    table: Table,
    /// Accesses so far.
    accesses: u64,
    /// Rows so far, of all traces.
    rows: u64,
}

impl<'a> Listing<'a> {
    fn new(args: &'a Args, trace: &OpenTrace, rows: u64, output: &'a mut Output) -> Self {
        if args.traces.len() > 1 && !args.output.json {
            output.write(|out| writeln!(out, "# {}", trace.name()));
        }
        Self {
            args,
            name: trace.name(),
            source: trace.source.as_ref().map(|(name, _)| name.clone()),
            kind: trace.kind,
            program: Arc::clone(trace.program()),
            output,
            table: Table::new(args),
            accesses: 0,
            rows,
        }
    }

    fn is_wanted(&self, access: &Access<'_>) -> bool {
        match (self.args.reads, self.args.writes) {
            (true, _) => reads(access),
            (_, true) => writes(access),
            _ => reads(access) || writes(access),
        }
    }

    /// Whether the next row is printed.
    fn is_selected(&mut self) -> bool {
        let number = self.rows;
        self.rows += 1;
        number >= self.args.range.skip && !self.is_past(number)
    }

    fn is_past(&self, row: u64) -> bool {
        let RangeArgs { skip, limit } = self.args.range;
        limit.is_some_and(|limit| row >= skip.saturating_add(limit))
    }

    fn access(&mut self, step: &Step, index: u32, access: &Access<'_>) {
        self.accesses += 1;
        let instruction = step.event.instruction().map(|instruction| instruction.address);
        match &mut self.table {
            Table::List => self.row(step, instruction, access),
            Table::Totals(totals) => totals.add(access),
            Table::Reuse(reuse) => {
                reuse.add(access.address);
            }
            Table::Strides(strides) => {
                instruction.into_iter().for_each(|address| strides.add(address, index, access.address));
            }
        }
    }

    /// A row of the list.
    fn row(&mut self, step: &Step, instruction: Option<u64>, access: &Access<'_>) {
        if !self.is_selected() {
            return;
        }
        let Self { output, source, kind, args, .. } = self;
        output.write(|out| match args.output.json {
            true => access_json(step, instruction, access, source.as_deref(), *kind, out),
            false => access_text(step, instruction, access, *kind, out),
        });
    }

    fn finish(&mut self) {
        match std::mem::replace(&mut self.table, Table::List) {
            Table::List => {}
            Table::Totals(totals) => self.totals(&totals),
            Table::Reuse(reuse) => self.reuse(&reuse),
            Table::Strides(strides) => self.strides(&strides),
        }
        if self.accesses == 0 && self.output.is_open() && !self.is_past(self.rows) {
            diagnostic::note(format_args!("{}: no accesses in this trace", self.name));
        }
    }

    fn heading(&mut self, text: &str) {
        if !self.args.output.json {
            self.output.write(|out| writeln!(out, "{text}"));
        }
    }

    fn left_out(&self, accesses: u64) {
        if accesses > 0 {
            diagnostic::warning(format_args!("{}: too many addresses; {accesses} accesses are left out", self.name));
        }
    }

    fn totals(&mut self, totals: &LineTotals) {
        self.heading(&format!("# {:>16} {:>14} {:>14} {:>14}", "address", "reads", "writes", "total"));
        for (address, row) in totals.rows() {
            if !self.is_selected() {
                continue;
            }
            let (reads, writes, total) = (row.reads, row.writes, row.reads + row.writes);
            let source = self.source.as_deref();
            let json = self.args.output.json;
            self.output.write(|out| match json {
                true => {
                    let mut line = String::new();
                    let mut object = Object::new(&mut line);
                    object.string("kind", "line").nullable_string("source", source).hex("address", address);
                    object.plain("reads", reads).plain("writes", writes).write_line(out)
                }
                false => writeln!(out, "{address:#018x} {reads:>14} {writes:>14} {total:>14}"),
            });
        }
        self.left_out(totals.others.reads + totals.others.writes);
    }

    fn reuse(&mut self, reuse: &Reuse) {
        self.heading(&format!("# {:>21} {:>14}", "distance", "accesses"));
        let first = std::iter::once((None, reuse.first));
        let buckets = reuse.buckets().into_iter().map(|bucket| (Some((bucket.from, bucket.to)), bucket.accesses));
        for (bounds, accesses) in first.chain(buckets) {
            if !self.is_selected() {
                continue;
            }
            let source = self.source.as_deref();
            let json = self.args.output.json;
            self.output.write(|out| match (json, bounds) {
                (true, _) => {
                    let mut line = String::new();
                    let mut object = Object::new(&mut line);
                    object.string("kind", "reuse").nullable_string("source", source);
                    object.nullable("from", bounds.map(|(from, _)| from)).nullable("to", bounds.map(|(_, to)| to));
                    object.plain("accesses", accesses).write_line(out)
                }
                (false, None) => writeln!(out, "{:>23} {accesses:>14}", "first"),
                (false, Some((from, to))) if from == to => writeln!(out, "{from:>23} {accesses:>14}"),
                (false, Some((from, to))) => writeln!(out, "{:>23} {accesses:>14}", format!("{from}-{to}")),
            });
        }
        self.left_out(reuse.others);
    }

    fn strides(&mut self, strides: &Strides) {
        self.heading(&format!("# {:>12} {:>18}  strides (how often), symbol", "accesses", "instruction"));
        for (address, index, pattern) in strides.rows() {
            if !self.is_selected() {
                continue;
            }
            let symbol = self.program.symbol(address).map(|symbol| printable(&symbol_text(symbol)));
            let source = self.source.as_deref();
            let json = self.args.output.json;
            let (accesses, list, others) = (pattern.accesses, pattern.strides(), pattern.others);
            self.output.write(|out| match json {
                true => {
                    let mut line = String::new();
                    let mut object = Object::new(&mut line);
                    object.string("kind", "strides").nullable_string("source", source).hex("address", address);
                    object.plain("index", index).nullable_string("symbol", symbol.as_deref());
                    object.plain("accesses", accesses);
                    object.list("strides", list.iter(), |text, (stride, count)| {
                        let mut object = Object::nested(text);
                        object.plain("stride", stride).plain("count", count).close_nested();
                    });
                    object.plain("other_strides", others).write_line(out)
                }
                false => {
                    let top: Vec<String> =
                        list.iter().take(4).map(|(stride, count)| format!("{stride:+} ({count})")).collect();
                    let more = if list.len() > 4 || others > 0 { ", ..." } else { "" };
                    let symbol = symbol.map_or(String::new(), |symbol| format!("  {symbol}"));
                    writeln!(out, "{accesses:>14} {address:#018x}  {}{more}{symbol}", top.join(", "))
                }
            });
        }
        self.left_out(strides.others);
    }
}

impl BlockSink for Listing<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        for (index, access) in (0..).zip(step.accesses()) {
            if self.is_wanted(&access) {
                self.access(step, index, &access);
            }
        }
        let is_over = matches!(self.table, Table::List) && self.is_past(self.rows);
        if is_over || !self.output.is_open() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn wants_accesses(&self) -> bool {
        true
    }
}

fn access_text(
    step: &Step,
    instruction: Option<u64>,
    access: &Access<'_>,
    kind: FileKind,
    out: &mut dyn Write,
) -> io::Result<()> {
    let position = describe_position(kind.unit(), step.position);
    let time = step.time.map_or(String::new(), |time| format!(" t={time}"));
    let instruction = instruction.map_or("-".to_string(), |address| format!("{address:#018x}"));
    let direction = direction_name(access.direction);
    let data = if access.bytes.is_empty() { String::new() } else { format!(" {}", known_digits(access.bytes)) };
    let (address, size) = (access.address, access.size);
    writeln!(out, "{position:<14}{time} {instruction:>18} {direction:<2} {address:#018x} {size}{data}")
}

fn access_json(
    step: &Step,
    instruction: Option<u64>,
    access: &Access<'_>,
    source: Option<&str>,
    kind: FileKind,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut line = String::new();
    let mut object = Object::new(&mut line);
    object.string("kind", "access").nullable_string("source", source);
    object.plain(kind.unit(), step.position).plain("core", step.core);
    if let Some(time) = step.time {
        object.plain("time", time);
    }
    object.nullable_hex("instruction", instruction).string("direction", direction_name(access.direction));
    object.hex("address", access.address).plain("size", access.size);
    let data = (!access.bytes.is_empty()).then(|| known_digits(access.bytes));
    object.nullable_string("data", data).write_line(out)
}
