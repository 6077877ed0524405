//! `decode`: print what was executed, instruction by instruction or range by range, and sum it up.
//!
//! trace + program ─▶ **lines** on the output, **a summary** on the error stream
//!
//! `text` and `json` know how lines look, `parts` has them made on several cores, `code` remembers how instructions read,
//! `summary` counts.

mod code;
mod json;
mod parts;
mod summary;
mod text;

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use unspool::capture::{Capture, Code};
use unspool::coresight::Transactions;
use unspool::coresight::frame::FrameError;
use unspool::flow::{Around, FlowItem, FlowSink, Instruction, InstructionSink, Range, Run};
use unspool::{Error, Parts, Program, Progress, Trace, Watch};

use self::code::Known;
use self::json::Json;
use self::parts::Part;
use self::summary::Summary;
use self::text::Text;
use crate::args::{CaptureArgs, ImageArgs, OutputArgs, RangeArgs, SourceArgs};
use crate::diagnostic::diagnostic;
use crate::listing::{Listing, each_trace};
use crate::output::Output;
use crate::verdict::{Verdict, worse};

/// Print what each trace source executed, with disassembly and symbols; a summary ends it on the error stream
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    images: ImageArgs,

    /// What --skip and --limit count, and what a line is
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Emit::Instructions)]
    emit: Emit,

    /// Leave out what failed transactions did
    #[arg(long)]
    hide_failed: bool,

    /// Threads for ranges as JSON without --skip and --limit (all cores, if not said); all else takes one
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    /// Threads that were asked for, or as many as there are cores.
    fn threads(&self) -> usize {
        self.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Emit {
    /// Every instruction
    Instructions,
    /// Instructions that follow one another in memory, up to the next branch
    Ranges,
}

/// Bytes of trace in a part. They may become five hundred times as many bytes of text.
const PART: usize = 16 << 10;

const EXAMPLES: &str = "\
Examples:
  unspool decode snapshot/                            what every source executed
  unspool decode snapshot/ --source 0x10 --skip 1000 --limit 50
  unspool decode snapshot/ --image vmlinux --image app.bin@0x400000
  unspool decode snapshot/ --emit ranges --json -o ranges.jsonl
  unspool decode trbe.bin --protocol ete --image app.elf

Code that is missing is no problem of the trace: the summary names it, the exit code stays 0.
Trace that contradicts the code is one: exit code 1.";

/// Decodes.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let capture = args.capture.open()?;
    let added = args.images.load()?;
    let paths: Vec<&Path> = args.images.paths().collect();
    let mut output = Output::open_beside(&args.output, &capture, &paths)?;
    let mut session = Session { args, added, program: None, told: BTreeSet::new(), summary: Summary::default() };
    let verdict = each_trace(&capture, &args.sources, |trace| session.list(&capture, trace, &mut output))?;
    output.finish()?;
    session.summary.print();
    Ok(verdict)
}

/// One decode of all sources.
struct Session<'a> {
    args: &'a Args,
    /// What `--image` added.
    added: Vec<Code>,
    /// The program as a core sees it. Sources of one core have the same.
    program: Option<(Option<usize>, Program)>,
    /// Notes that were told. The images of several cores have the same to say.
    told: BTreeSet<String>,
    summary: Summary,
}

impl Session<'_> {
    fn list(&mut self, capture: &Capture, trace: &Trace<'_>, output: &mut Output) -> Result<Verdict, Error> {
        let (features, _) = trace.features()?;
        let args = self.args;
        self.load(capture, trace.source().core);
        let Some((_, program)) = &self.program else { return Ok(Verdict::Clean) };
        let known = Known::new(program, args.output.json);
        let form = match args.output.json {
            true => Form::Json(Json::new(trace, known)),
            false => Form::Text(Text::new(&features, known)),
        };
        let listing = Listing::new(trace, &args.output, &args.range, output);
        let findings = self.summary.findings();
        self.summary.start(trace);
        let mut printer = Printer { listing, form, summary: &mut self.summary, around: Around::default() };
        let transactions = if args.hide_failed { Transactions::Resolve } else { Transactions::Show };
        let open = match args.emit {
            Emit::Instructions => trace.instructions(transactions, program, &mut printer)?,
            Emit::Ranges => match &printer.form {
                Form::Json(json)
                    if args.range.is_all() && args.threads() > 1 && trace.can_be_sharded(transactions)? =>
                {
                    let start = json.start().to_string();
                    let make = || Part::new(&start);
                    let mut take = |part, progress| printer.part(&part, progress);
                    let parts = Parts::on(args.threads()).of_bytes(PART);
                    trace.flow_in_parts(parts, transactions, program, make, &mut take)?
                }
                _ => trace.flow(transactions, program, &mut printer)?,
            },
        };
        let (verdict, whole) = (printer.listing.verdict(), printer.listing.window.is_open());
        self.summary.end(open, whole);
        let contradicted = self.summary.findings() > findings;
        Ok(worse(verdict, if contradicted { Verdict::Problems } else { Verdict::Clean }))
    }

    /// Has the program of this core at hand.
    fn load(&mut self, capture: &Capture, core: Option<usize>) {
        /// A line is read, a list is not.
        const SHOWN: usize = 10;
        if self.program.as_ref().is_some_and(|(of, _)| *of == core) {
            return;
        }
        let (program, notes) = Program::of(capture, core, &self.added);
        let mut texts: Vec<String> = notes.iter().map(ToString::to_string).collect();
        if program.codes().is_empty() {
            texts.push("there is no program code, so nothing can be decoded: add it with --image FILE[@ADDR]".into());
        }
        texts.retain(|text| self.told.insert(text.clone()));
        texts.iter().take(SHOWN).for_each(diagnostic);
        if texts.len() > SHOWN {
            diagnostic(format_args!("and {} more notes on images; 'unspool info' has them all", texts.len() - SHOWN));
        }
        self.program = Some((core, program));
    }
}

/// Prints what one source executed.
struct Printer<'o, 'c, 'p> {
    listing: Listing<'o, 'c>,
    form: Form<'p>,
    summary: &'p mut Summary,
    /// The state around a range; instructions come with theirs.
    around: Around,
}

/// How lines look.
enum Form<'p> {
    Text(Text<'p>),
    Json(Json<'p>),
}

impl Printer<'_, '_, '_> {
    fn print_range(&mut self, range: &Range<'_>) {
        self.summary.ranges += 1;
        self.summary.instructions += u64::from(range.instructions());
        if self.listing.window.next() && self.listing.output.is_open() {
            let line = match &mut self.form {
                Form::Text(text) => text.range(range, &self.around),
                Form::Json(json) => json.range(range),
            };
            self.listing.output.write(|out| out.write_all(line));
        }
    }

    /// Prints a part whose ranges have their lines already. False: nobody wants more.
    fn part(&mut self, part: &Part, progress: Progress) -> bool {
        self.summary.ranges += part.ranges;
        self.summary.instructions += part.instructions;
        let mut written = 0;
        for (position, item) in &part.items {
            let lines = &part.lines.as_bytes()[written..*position];
            self.listing.output.write(|out| out.write_all(lines));
            self.print_item(item);
            written = *position;
        }
        self.listing.output.write(|out| out.write_all(&part.lines.as_bytes()[written..]));
        for &error in &part.lost {
            self.summary.lost(&error);
            self.listing.lost(error);
        }
        part.bytes.iter().for_each(|&bytes| self.summary.bytes_read(bytes));
        self.listing.progress.at(progress.read, progress.total);
        self.listing.wants_more()
    }

    fn print_item(&mut self, item: &FlowItem) {
        // Items of a chunk after the last one requested are not printed.
        if !self.listing.window.is_open() {
            return;
        }
        self.listing.note(item.as_ref().err());
        self.summary.item(item);
        let shows = self.listing.window.shows();
        match (&mut self.form, item) {
            (Form::Text(text), item) => {
                let line = text.item(item);
                if shows {
                    self.listing.output.write(|out| out.write_all(line));
                }
            }
            (Form::Json(_), Ok(item)) if shows => json::item(&mut self.listing, item),
            (Form::Json(_), Err(error)) if shows => self.listing.error(error),
            (Form::Json(_), _) => {}
        }
    }
}

impl InstructionSink for Printer<'_, '_, '_> {
    fn instruction(&mut self, instruction: &Instruction, around: &Around) {
        if !self.listing.window.is_open() {
            return;
        }
        self.summary.instructions += 1;
        self.summary.ranges += u64::from(instruction.ends_range);
        if self.listing.window.next() && self.listing.output.is_open() {
            let line = match &mut self.form {
                Form::Text(text) => text.instruction(instruction, around),
                Form::Json(json) => json.instruction(instruction),
            };
            self.listing.output.write(|out| out.write_all(line));
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.print_item(&item);
    }
}

impl FlowSink for Printer<'_, '_, '_> {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            if !self.listing.window.is_open() {
                return;
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
        self.listing.progress.at(read, total);
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.summary.bytes_read(bytes);
    }
}
