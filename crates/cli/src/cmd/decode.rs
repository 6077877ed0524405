//! `decode`: lists executed instructions or ranges, and summarizes them.
//!
//! trace + program ─▶ **lines** on the output, **a summary** on standard error
//!
//! `text` and `json` format lines, `run_lines` keeps those of what is executed again, `code` caches disassembly and symbols,
//! `summary` counts, `filter` selects code. `ordered` lists several traces at once: `segments` are what it orders, and `selection` chooses some.
//! `software` lists sources that have no instructions, in lines that `software_lines` makes. `start` skips what is before
//! --at.

mod code;
mod filter;
mod form;
mod headings;
mod indexed;
mod json;
mod ordered;
mod run_lines;
mod segments;
mod selection;
mod software;
mod software_lines;
mod start;
mod summary;
mod tagged;
mod text;

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, bail};

use unspool::analyze::step_selection::StepSelection;
use unspool::capture::{Capture, Code};
use unspool::coresight::Transactions;
use unspool::coresight::frame::FrameError;
use unspool::flow::{Around, FlatRun, FlowItem, FlowSink, Instruction, InstructionSink, Range, Run};
use unspool::lines::Lines;
use unspool::place::Place;
use unspool::tarmac::index::Index;
use unspool::{ChannelNames, Error, PresentIds, Program, Trace, Watch};

use self::code::{CodeCache, Texts};
use self::filter::CodeFilter;
use self::form::Form;
use self::ordered::Job;
use self::selection::Selection;
use self::software::SoftwarePrinter;
use self::software_lines::SoftwareStyle;
use self::start::{FromStart, Start, Starting};
use self::summary::Summary;
use crate::args::{ImageArgs, JobsArgs, ListingArgs};
use crate::diagnostic;
use crate::json::write_summary;
use crate::listing::{Listing, Reading, Window};
use crate::output::Output;
use crate::process_args::ProcessArgs;
use crate::programs::Programs;
use crate::selection_args::SelectionArgs;
use crate::source_lines::{report_lines, source_lines};
use crate::style::Palette;
use crate::verdict::Verdict;

/// List the instructions that each trace source executed, with disassembly and symbols, and a summary on standard error
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    listing: ListingArgs,
    #[command(flatten)]
    images: ImageArgs,

    #[command(flatten)]
    processes: ProcessArgs,

    /// Items to list, and to count for --skip and --limit
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Emit::Instructions)]
    emit: Emit,

    /// Order of the listing
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = By::Core)]
    by: By,

    #[command(flatten)]
    selection: SelectionArgs,

    /// Start at this place of each source: an instruction by its number (#1200), an address (0x8000) or a function (main), at
    /// its first execution, an offset in the buffer (1200) or a time (12.5s, 1200tic, 40clk). --skip and --limit count from
    /// there
    #[arg(long, value_name = "PLACE", value_parser = str::parse::<Place>, conflicts_with_all = ["by", "process", "time"])]
    at: Option<Place>,

    /// Names of the masters and channels of software trace (ITM, STM), one per line: 'channel 0x40:0..16 log'
    #[arg(long, value_name = "FILE")]
    channels: Option<PathBuf>,

    /// List every value of software trace on a line of its own, instead of joining text to lines
    #[arg(long)]
    no_text: bool,

    /// Show the source line where it changes, and the calls that were inlined there, from the debug information (DWARF) of the
    /// images
    #[arg(long)]
    lines: bool,

    /// Hide instructions of failed transactions
    #[arg(long)]
    hide_failed: bool,

    #[command(flatten)]
    jobs: JobsArgs,
}

impl Args {
    /// Is something asked for that depends on times or processes?
    fn needs_segments(&self) -> bool {
        self.by != By::Core || self.selection.time.is_some() || !self.selection.process.is_empty()
    }

    /// Can buffers be decoded before they are listed? All of them must execute the same program.
    fn can_decode_ahead(&self, capture: &Capture, traces: &[Trace<'_>]) -> bool {
        let is_shared = |trace: &Trace<'_>| Programs::core_of(capture, trace.source().core).is_none();
        let has_several = traces.iter().any(|trace| trace.buffer_index() != traces[0].buffer_index());
        let can_be_ahead = self.threads() > 1 && self.listing.range.is_all() && self.at.is_none() && has_several;
        can_be_ahead && traces.iter().all(|trace| is_shared(trace) && trace.has_instructions())
    }

    /// The names of masters and channels.
    fn names(&self) -> anyhow::Result<ChannelNames> {
        let Some(path) = &self.channels else { return Ok(ChannelNames::default()) };
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        ChannelNames::parse(&text).with_context(|| path.display().to_string())
    }

    fn software_style<'p>(&self, names: &'p ChannelNames, palette: Palette) -> SoftwareStyle<'p> {
        SoftwareStyle { names, joins: !self.no_text, json: self.listing.output.json, palette }
    }

    fn threads(&self) -> usize {
        self.jobs.count()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Emit {
    /// Every instruction
    Instructions,
    /// Contiguous instructions up to the next branch
    Ranges,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Source after source, buffer after buffer
    Core,
    /// Process after process, each in order of time
    Process,
    /// Thread after thread, each in order of time
    Thread,
    /// All sources in order of time, as far as timestamps show it
    Time,
}

const EXAMPLES: &str = "\
Examples:
  unspool decode snapshot/
  unspool decode snapshot/ --source 0x10 --skip 1000 --limit 50
  unspool decode snapshot/ --image vmlinux --image app.bin@0x400000
  unspool decode snapshot/ --emit ranges --json -o ranges.jsonl
  unspool decode trbe.bin --protocol ete --image app.elf
  unspool decode perf.data --by time --time 12.5s..12.6s
  unspool decode perf.data --process nginx --by thread
  unspool decode snapshot/ --function main --mode user
  unspool decode snapshot/ --image app.elf --lines
  unspool decode snapshot/ --image app.elf --at main --limit 20
  unspool decode swo.bin --protocol itm --raw
  unspool decode snapshot/ --by time --channels names.txt

Columns: time and cycles where they are traced and change, Exception level and Security state (EL0N: Non-secure EL0), \
address, opcode, disassembly, outcome of a branch. The cycle column is cumulative for each source. In JSON, a cycle_count \
has 'total_cycles' (cumulative) and 'cycles' (since the previous cycle_count).
Lines that start with '--' are other events of the trace, such as contexts and exceptions; --skip and --limit do not count \
them. '!!' marks a problem.
Software trace (ITM, STM): time, channel with its master (0x40:3) or their names from --channels, and the value. Values \
that are text are joined to lines. --skip and --limit count all of its lines. With --by time, it is among the instructions if \
its timestamps are of the same clock; otherwise it is listed first.
A position-independent program without @ADDR is placed where the addresses in the trace fit, if only one place fits. \
Several threads decode the buffers of a recording, and the sources with --by; otherwise one decodes and another one writes. In the \
order of cores, --skip and --limit decode on one.
Time is known at timestamps: with --by, what a source executed between two of them is one segment, and segments are in the \
order of their first time. Where segments of several sources overlap, their order is unknown: the heading of a segment \
names these sources. Trace without a time comes first. --time also lists segments that are in the range only in part. \
Code of the kernel belongs to the process and the thread that it works for: --process lists it too. With --function, --address, \
--level or --mode, a range is listed if one of its instructions is selected, another event if the instruction before it is, and \
problems always. --skip and --limit count in the order of the \
listing.
If a source has one buffer and an index ('unspool index'), --at reads from near the place; offsets and times in seconds are found \
from the beginning.
Exit codes: 0 even if code is missing: the summary lists the address ranges to supply with --image; 1 the trace is damaged \
or contradicts the code (often the wrong ELF file), 2 the command failed.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let capture = args.listing.capture.open()?;
    let names = args.names()?;
    let added = args.processes.codes(&args.images)?;
    added.iter().try_for_each(Code::require_arm)?;
    let spaces = args.processes.load()?;
    let lines = args.lines.then(|| source_lines(&spaces, &args.images));
    let mut programs = Programs::new(added, spaces);
    programs.start(&capture);
    let mut output = Output::open_beside(&args.listing.output, &capture, &args.images.paths())?;
    output.use_threads(args.threads())?;
    let window = Window::new(&args.listing.range);
    let (traces, mut reading) = Reading::start(&capture, &args.listing.sources)?;
    if !args.selection.function.is_empty() {
        programs.load_all(&capture, traces.iter().map(|trace| trace.source().core));
    }
    let within = args.selection.code(&programs.all_loaded())?;
    let (lines_of, summary) = (lines.as_ref(), Summary::default());
    let mut session =
        Session { args, names: &names, within: &within, lines: lines_of, window, summary, texts: None, is_met: false };
    if args.needs_segments() || args.can_decode_ahead(&capture, &traces) {
        programs.load_all(&capture, traces.iter().map(|trace| trace.source().core));
        programs.prepare(&capture, &traces);
        let selection = Selection::new(&args.selection, &traces, programs.all_loaded())?;
        let style = args.software_style(&names, output.palette);
        let (capture, traces, programs, selection) = (&capture, &traces[..], &programs, &selection);
        let job = Job { args, capture, traces, programs, selection, within: &within, style, lines: lines.as_ref() };
        ordered::list(&job, &mut session, &mut reading, &mut output)?;
    } else {
        let mut present = PresentIds::default();
        for trace in traces.iter().filter(|trace| present.may_have(trace)) {
            let core = Programs::core_of(&capture, trace.source().core);
            let started = Instant::now();
            let index = args.at.as_ref().and_then(|_| indexed::index_of(trace, &programs));
            reading.add(session.list(core, || programs.of(&capture, core), trace, index, &mut output));
            diagnostic::detail(format_args!("{}: {:.3} s", trace.source().name, started.elapsed().as_secs_f64()));
        }
    }
    let verdict = reading.finish(&capture)?;
    if args.listing.output.json {
        write_summary(&mut output, "decode", verdict, |object| session.summary.put_totals(object));
    }
    output.finish()?;
    programs.finish();
    if let Some(place) = args.at.as_ref().filter(|_| !session.is_met) {
        bail!("{}: --at {place} is not in the trace", capture.path.display());
    }
    report_lines(lines.as_ref());
    session.summary.print();
    Ok(verdict)
}

/// Decoding of all sources.
struct Session<'a> {
    args: &'a Args,
    names: &'a ChannelNames,
    /// Addresses and levels that are listed.
    within: &'a StepSelection,
    lines: Option<&'a Lines>,
    window: Window,
    summary: Summary,
    /// Text of the code of the last program, and the core that the program is of.
    texts: Option<(Option<usize>, Texts)>,
    /// A source has the place of --at.
    is_met: bool,
}

impl Session<'_> {
    /// Lists a trace while it is decoded. `core` is the one whose program it executes; an index is used to find --at.
    fn list<'p>(
        &mut self,
        core: Option<usize>,
        program: impl FnOnce() -> &'p Program,
        trace: &Trace<'_>,
        index: Option<Index<File>>,
        output: &mut Output,
    ) -> Result<Verdict, Error> {
        let (features, _) = trace.features()?;
        let args = self.args;
        if !self.window.is_open() {
            return Ok(Verdict::Clean);
        }
        if !trace.has_instructions() {
            // Places are those of instructions.
            return if args.at.is_some() { Ok(Verdict::Clean) } else { self.list_software(trace, output) };
        }
        let texts = self.texts.take().filter(|(of, _)| *of == core).unwrap_or_else(|| (core, Texts::new()));
        let (_, texts) = self.texts.insert(texts);
        let program = program();
        let start = args.at.as_ref().map(|place| Start::new(place, program, trace)).transpose();
        let start = match start {
            Ok(start) => start,
            // Another core may have such a function.
            Err(error) => {
                diagnostic::warning(format_args!("{}: {error}", trace.source().name));
                return Ok(Verdict::Clean);
            }
        };
        let index = index.filter(|_| !args.hide_failed).zip(start.as_ref());
        let from = index.and_then(|(mut index, start)| indexed::start_of(&mut index, trace, start));
        let start = start.map(|start| start.after(from.map_or(0, |from| from.instructions)));
        let palette = output.palette;
        let cache = CodeCache::new(program, texts, args.listing.output.json, palette).with_lines(self.lines);
        let form = Form::new(args.listing.output.json, trace, &features, cache, palette);
        let listing = Listing::new(trace, &args.listing, output, &mut self.window);
        let findings = self.summary.findings();
        self.summary.start(trace);
        let (filter, around) = (CodeFilter::new(self.within), Around::default());
        let lists_all = self.within.is_all() && args.listing.range.is_all() && !args.lines;
        let mut printer = Printer { listing, form, summary: &mut self.summary, around, filter, start, lists_all };
        let transactions = if args.hide_failed { Transactions::Resolve } else { Transactions::Show };
        let open = match (args.emit, from) {
            (Emit::Instructions, Some(from)) => {
                trace.flow_from(&from, program, &mut FromStart::new(&mut printer)).map(|()| 0)?
            }
            (Emit::Ranges, Some(from)) => trace.flow_from(&from, program, &mut printer).map(|()| 0)?,
            (Emit::Instructions, None) if printer.start.is_some() => {
                trace.flow(transactions, program, &mut FromStart::new(&mut printer))?
            }
            (Emit::Instructions, None) => trace.instructions(transactions, program, &mut printer)?,
            (Emit::Ranges, None) => trace.flow(transactions, program, &mut printer)?,
        };
        let (verdict, is_whole) = (printer.listing.verdict(), printer.listing.window.is_open());
        self.is_met |= printer.start.is_none();
        self.summary.end(open, is_whole);
        Ok(verdict.or(Verdict::of(self.summary.findings() > findings)))
    }
}

impl Session<'_> {
    /// Lists a source without instructions.
    fn list_software(&mut self, trace: &Trace<'_>, output: &mut Output) -> Result<Verdict, Error> {
        self.summary.start(trace);
        let listing = Listing::new(trace, &self.args.listing, output, &mut self.window);
        let style = self.args.software_style(self.names, listing.output.palette);
        let mut printer = SoftwarePrinter::new(listing, style, &mut self.summary);
        trace.elements(&mut printer)?;
        let (verdict, is_whole) = printer.finish();
        self.summary.end(0, is_whole);
        Ok(verdict)
    }
}

struct Printer<'o, 'c, 'p> {
    listing: Listing<'o, 'c>,
    form: Form<'p>,
    summary: &'p mut Summary,
    /// The state around a range; instructions come with theirs.
    around: Around,
    filter: CodeFilter<'p>,
    /// Where the listing starts, until that is reached.
    start: Option<Start>,
    /// Is everything listed after that, with lines that depend on nothing else?
    lists_all: bool,
}

impl Starting for &mut Printer<'_, '_, '_> {
    fn start(&mut self) -> Option<&mut Start> {
        self.start.as_mut()
    }
}

impl Printer<'_, '_, '_> {
    /// Is everything listed that comes from here on?
    fn lists_all(&self) -> bool {
        self.lists_all && self.start.is_none() && self.listing.output.is_open()
    }

    fn print_range(&mut self, range: &Range<'_>) {
        if !self.filter.range(range, &self.around) {
            return;
        }
        self.summary.ranges += 1;
        self.summary.instructions += u64::from(range.instructions());
        if self.listing.window.next() && self.listing.output.is_open() {
            let line = self.form.range(range, &self.around);
            self.listing.output.write(|out| out.write_all(line));
        }
    }

    fn print_item(&mut self, item: &FlowItem) {
        // Items of a chunk after the last one requested are not printed.
        if !self.listing.window.is_open() {
            return;
        }
        if self.start.is_some() {
            return self.form.follow(item);
        }
        self.listing.note(item.as_ref().err());
        self.summary.item(item);
        if self.listing.window.shows() && self.filter.item(item) {
            let line = self.form.item(&self.listing.trace, item);
            self.listing.output.write(|out| out.write_all(line));
        } else {
            self.form.follow(item);
        }
    }
}

impl InstructionSink for Printer<'_, '_, '_> {
    fn instruction(&mut self, instruction: &Instruction, around: &Around) {
        if !self.listing.window.is_open() {
            return;
        }
        if let Some(start) = &mut self.start {
            if start.skips_instruction(instruction, around) {
                return;
            }
            self.start = None;
        }
        if !self.filter.instruction(instruction, around) {
            return;
        }
        self.summary.instructions += 1;
        self.summary.ranges += u64::from(instruction.ends_range);
        if self.listing.window.next() && self.listing.output.is_open() {
            let line = self.form.instruction(instruction, around);
            self.listing.output.write(|out| out.write_all(line));
        }
    }

    #[inline]
    fn instructions(&mut self, run: &FlatRun<'_>, around: &Around) {
        if !self.lists_all() {
            return run.instructions().for_each(|instruction| self.instruction(&instruction, around));
        }
        self.summary.instructions += run.len() as u64;
        self.summary.ranges += run.ranges() as u64;
        let form = &mut self.form;
        self.listing.output.write(|out| form.instructions(run, around, out));
    }

    fn item(&mut self, item: FlowItem) {
        self.print_item(&item);
    }
}

impl FlowSink for Printer<'_, '_, '_> {
    fn run(&mut self, run: Run<'_>) {
        if self.lists_all() {
            self.summary.ranges += run.len() as u64;
            self.summary.instructions += run.instructions();
            let (form, around) = (&mut self.form, &self.around);
            return self.listing.output.write(|out| form.ranges(&run, around, out));
        }
        for range in run.ranges() {
            if !self.listing.window.is_open() {
                return;
            }
            if let Some(start) = &mut self.start {
                if start.skips_range(&range, run.offset(), &self.around) {
                    continue;
                }
                self.start = None;
            }
            self.print_range(&range);
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.around.update(&item);
        self.print_item(&item);
    }
}

impl Watch for Printer<'_, '_, '_> {
    fn lost(&mut self, error: FrameError) {
        self.summary.lost(&error);
        self.listing.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.listing.wants_more()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.listing.progress(read, total);
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.summary.bytes_read(bytes);
    }
}
