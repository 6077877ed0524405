//! `dump`: lists the records of a trace file, one per line.

mod record_lines;

use std::fmt::Write as _;
use std::mem;

use anyhow::{Context, bail};
use unspool::analyze::step_selection::StepSelection;
use unspool::file::{AstfFile, End, StfFile, TarmacFile, TraceFile, is_pipe};
use unspool::item_selection::{SelectedLines, SelectedRecords};
use unspool::model::digits::push_hex;
use unspool::model::{Coverage, Facet, StepSource, TimeUnit};
use unspool::number::many;
use unspool::stf::Storage;
use unspool::stf::header::Header;
use unspool::stf::lift::Instruction;
use unspool::stf::record::Record;
use unspool::tarmac::clock::time_unit;
use unspool::tarmac::dialect::Dialect;
use unspool::tarmac::json::push_json;
use unspool::tarmac::record::Line;
use unspool::tarmac::text::{Text, push_line};
use unspool::{Program, stf};

use self::record_lines::{Form, RecordLines};
use crate::args::{ImageArgs, JobsArgs, OutputArgs};
use crate::diagnostic;
use crate::file::{FileArgs, end_verdict, report_astf, report_stf, stf_verdict, tarmac_verdict};
use crate::json::write_summary;
use crate::output::Output;
use crate::progress::Progress;
use crate::selection_args::SelectionArgs;
use crate::traces::name_of;
use crate::verdict::Verdict;

/// List the records of an ASTF file, the instructions or records of an STF file, or the parsed lines of a Tarmac log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    images: ImageArgs,

    /// List the records of an STF file instead of its instructions
    #[arg(long)]
    records: bool,

    /// Also show the offset and the bytes of each item (Tarmac: the line as it is in the log)
    #[arg(long)]
    hex: bool,

    /// Stop after N items: records of ASTF, instructions of STF (with --records: records), lines of Tarmac
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Skip the first N items; the header of ASTF is one of them
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    jobs: JobsArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool dump trace.astf
  unspool dump trace.astf --skip 1000 --limit 50 --hex
  unspool dump trace.astf --json | jq -r 'select(.kind == \"trap\") | .target_pc'
  ssh host cat trace.astf | unspool dump -
  unspool dump trace.zstf --skip 1000000 --limit 50
  unspool dump trace.stf --records
  unspool dump trace.zstf --json | jq -r 'select(.events) | .address'
  unspool dump run.tarmac --limit 20
  unspool dump trace.zstf --function main --image app.elf
  unspool dump run.tarmac.gz --json | jq -r 'select(.kind == \"unknown\") | .line'

ASTF: each line has the number of the record, its type, and its fields:
  el0t [0x..]      Exception level and mode, and the address of an instruction
  T v<0x..>        taken branch and its target; NT: not taken
  v[0x..]          address of an access; followed by t if tags were accessed too
  v[0x..]..[0x..]  start and end (exclusive) of a range
  r w rw -         direction of an access (-: none), where it differs from the opcode
  i{5}             index into ZA
  tr               the instruction raised an exception
  reserved ...     nonzero reserved fields

STF: each line has the number of the instruction, its address, opcode and disassembly, followed by its details in file \
order: target, registers (state, source, destination), accesses with their contents, events, page table walks, accesses of \
other bus masters, micro-operations, process, comments. With --records each line has the number and the offset of the \
record, its name, and its fields.

Tarmac: each line has its number, the time and the core if present, the kind of the line, and its fields, spelled the same \
for all dialects. A line that cannot be parsed is shown unchanged, with the column of the error.

With a selection, records and lines are listed with the instruction before them, lines with that of their core; those before the \
first instruction are not. --skip and --limit then count what is selected. --image has the functions.

Offsets refer to uncompressed records.";

/// Bytes of lines that are written at once.
const BATCH: usize = 1 << 16;

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    match args.file.open()? {
        TraceFile::Astf(file) => dump_astf(args, file),
        TraceFile::Stf(file) => dump_stf(args, file),
        TraceFile::Tarmac(file) => dump_tarmac(args, file),
    }
}

/// Numbers the items that are selected, from 1.
enum Numbering {
    /// Of all items.
    All,
    Records {
        selected: Box<SelectedRecords>,
        count: u64,
    },
    Lines {
        selected: Box<SelectedLines>,
        count: u64,
    },
}

impl Numbering {
    /// For the records of a file, which is read a second time if only some are selected.
    fn of_records(args: &Args) -> anyhow::Result<Self> {
        if args.selection.is_all() {
            return Ok(Self::All);
        }
        if is_pipe(&args.file.file) {
            bail!("{}: a selection reads the trace twice, so it cannot be a pipe", name_of(&args.file.file));
        }
        let (steps, _) = args.file.open()?.into_steps(false);
        let selection = args.select(&*steps)?;
        let selected = SelectedRecords::new(selection, steps).context("cannot start a thread")?;
        Ok(Self::Records { selected: Box::new(selected), count: 0 })
    }

    /// For the lines of a log.
    fn of_lines(args: &Args, file: &TarmacFile) -> anyhow::Result<Self> {
        if args.selection.is_all() {
            return Ok(Self::All);
        }
        if !args.selection.process.is_empty() {
            bail!("{}: --process: the lines of a log name no processes; 'unspool find' selects its steps", file.name());
        }
        let unit = file.first_time().map_or(TimeUnit::Unknown, time_unit);
        let selection = args.selection.resolve(file.name(), &args.program()?, coverage_of_lines(file), unit)?;
        Ok(Self::Lines { selected: Box::new(SelectedLines::new(selection)), count: 0 })
    }

    /// The number of a record: as given, or among those that are selected.
    fn record(&mut self, record: u64, number: u64) -> Option<u64> {
        match self {
            Self::Records { selected, count } => next_if(selected.has(record), count),
            _ => Some(number),
        }
    }

    /// The number of a line.
    fn line(&mut self, line: &Line<'_>, number: u64) -> Option<u64> {
        match self {
            Self::Lines { selected, count } => next_if(selected.has(line), count),
            _ => Some(number),
        }
    }
}

/// What the lines of a log have.
fn coverage_of_lines(file: &TarmacFile) -> Coverage {
    let has_no_modes = matches!(file.dialect(), Dialect::CortexM0 | Dialect::CortexM3 | Dialect::CortexR5);
    let coverage = Coverage::of(&[Facet::Instructions]);
    let coverage = if has_no_modes { coverage } else { coverage.with(Facet::Levels) };
    if file.first_time().is_some() { coverage.with(Facet::Times) } else { coverage }
}

fn next_if(is_selected: bool, count: &mut u64) -> Option<u64> {
    *count += u64::from(is_selected);
    is_selected.then_some(*count)
}

impl Args {
    /// Symbols of functions.
    fn program(&self) -> anyhow::Result<Program> {
        let codes =
            if self.selection.function.is_empty() { Vec::new() } else { self.images.load_for(&self.file.file)? };
        Ok(Program::new(codes))
    }

    fn select(&self, steps: &dyn StepSource) -> anyhow::Result<StepSelection> {
        let name = name_of(&self.file.file);
        self.selection.resolve(&name, &self.program()?, steps.coverage(), steps.time_unit())
    }

    /// Number of the last item that is printed.
    fn end(&self) -> u64 {
        self.skip.saturating_add(self.limit.unwrap_or(u64::MAX))
    }
}

struct Batch {
    text: String,
    /// Number of lines.
    items: u64,
    output: Output,
}

impl Batch {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let mut output = Output::open_for(&args.output, &args.file.file)?;
        output.use_threads(args.jobs.count())?;
        Ok(Self { text: String::with_capacity(2 * BATCH), items: 0, output })
    }

    fn progress(&self) -> Progress {
        Progress::new(self.output.on_terminal)
    }

    /// Writes the lines if the buffer is full; false: no more can be written.
    fn flush_if_full(&mut self) -> bool {
        if self.text.len() >= BATCH {
            self.flush();
        }
        self.output.is_open()
    }

    fn flush(&mut self) {
        let text = mem::take(&mut self.text);
        self.write(&text);
        self.text = text;
        self.text.clear();
    }

    fn write(&mut self, lines: &str) {
        let palette = self.output.palette;
        match palette.is_colored() {
            true => self.output.write(|out| out.write_all(palette.paint_records(lines).as_bytes())),
            false => self.output.write(|out| out.write_all(lines.as_bytes())),
        }
    }

    /// Ends the output, with its summary if it is JSON.
    fn finish(mut self, args: &Args, verdict: anyhow::Result<Verdict>) -> anyhow::Result<Verdict> {
        self.flush();
        if let (true, Ok(verdict)) = (args.output.json, &verdict) {
            let items = self.items;
            write_summary(&mut self.output, "dump", *verdict, |object| {
                object.plain("items", items);
            });
        }
        self.output.finish()?;
        verdict
    }
}

fn dump_astf(args: &Args, mut file: AstfFile) -> anyhow::Result<Verdict> {
    report_astf(&file);
    let mut numbering = Numbering::of_records(args)?;
    let mut batch = Batch::new(args)?;
    let (mut progress, last) = (batch.progress(), args.end());
    let form = Form { json: args.output.json, hex: args.hex };
    let (mut lines, mut failed) = (RecordLines::new(args.jobs.count(), form), None);
    let end = file.each(&mut progress.callback(), |first, records| {
        let mut is_past = false;
        for (number, record) in (first..).zip(records) {
            let ordinal = numbering.record(number, number);
            if ordinal.is_some_and(|ordinal| ordinal > last) {
                is_past = true;
                break;
            }
            let is_listed = ordinal.is_some_and(|ordinal| ordinal > args.skip);
            batch.items += u64::from(is_listed);
            let pushed = lines.push((number, record), is_listed, &mut |lines| batch.write(lines));
            failed = failed.take().or(pushed.err());
        }
        let is_whole = matches!(numbering, Numbering::All) && first + records.len() as u64 > last;
        batch.output.is_open() && !is_past && !is_whole && failed.is_none()
    });
    let finished = failed.map_or(Ok(()), Err).and_then(|()| lines.finish(&mut |lines| batch.write(lines)));
    finished.context("cannot make lines")?;
    let verdict = end.map(|end| end_verdict(&end)).map_err(Into::into);
    batch.finish(args, verdict)
}

fn dump_stf(args: &Args, mut file: StfFile) -> anyhow::Result<Verdict> {
    report_stf(&mut file);
    let mut batch = Batch::new(args)?;
    let end = match args.records {
        true => stf_records(args, &mut file, &mut batch),
        false => stf_instructions(args, &mut file, &mut batch),
    };
    let verdict = end.map(|end| stf_verdict(&mut file, &end));
    batch.finish(args, verdict)
}

fn stf_records(args: &Args, file: &mut StfFile, batch: &mut Batch) -> anyhow::Result<End> {
    let (mut progress, end) = (batch.progress(), args.end());
    let (mut lines, mut json) = (stf::text::Lines::new(), stf::json::Json::new());
    let mut numbering = Numbering::of_records(args)?;
    let mut bytes = Vec::new();
    let ended = file.each(&mut progress.callback(), |position, record| {
        let Some(number) = numbering.record(position.record, position.record + 1) else { return true };
        if number > end {
            return false;
        }
        if number > args.skip {
            batch.items += 1;
            let text = &mut batch.text;
            bytes.clear();
            if args.hex {
                record.encode(&mut bytes);
            }
            if args.output.json {
                json.record(position, record, args.hex.then_some(&bytes[..]), text);
            } else {
                lines.record(position, record, text);
                if args.hex {
                    text.push_str("  ");
                    push_hex(text, &bytes);
                }
                text.push('\n');
            }
        }
        batch.flush_if_full() && number < end
    });
    Ok(ended?)
}

fn stf_instructions(args: &Args, file: &mut StfFile, batch: &mut Batch) -> anyhow::Result<End> {
    let (mut progress, end) = (batch.progress(), args.end());
    let header = match file.header()? {
        Ok(header) => header,
        Err(end) => return Ok(end),
    };
    if !header.has_transactions() {
        let mut follower = header.follower();
        // JSON has record numbers and modes, which are known only if everything is read.
        let mut numbering = Numbering::of_records(args)?;
        let is_all = args.selection.is_all();
        if args.skip > 0 && is_all && !args.output.json && file.storage() == Storage::Zstf {
            let sought = file.reader().seek_instruction(args.skip, &mut follower);
            if let end @ (End::Damaged(_) | End::Whole) = file.ended(sought)? {
                return Ok(end);
            }
        }
        let mut printer = StfPrinter::new(args, &header);
        let ended = file.each_instruction(&mut follower, &mut progress.callback(), |instruction| {
            let number = numbering.record(instruction.position.record, instruction.number);
            let Some(number) = number else { return printer.pass(instruction) };
            if number > end {
                return false;
            }
            if number > args.skip {
                batch.items += 1;
                printer.print(instruction, &mut batch.text);
            }
            batch.flush_if_full() && number < end
        })?;
        if ended != End::Whole {
            return Ok(ended);
        }
    }
    report_trailing(file, &header, &mut progress)
}

/// Reports the number of records that belong to no instruction and are not printed.
fn report_trailing(file: &mut StfFile, header: &Header, progress: &mut Progress) -> anyhow::Result<End> {
    let mut count = 0;
    let end = file.each(&mut progress.callback(), |_, record| {
        count += u64::from(*record != Record::ReserveEnd);
        true
    })?;
    if count > 0 {
        let records = many(count, "record");
        let position = if header.has_transactions() { "a trace of transactions" } else { "after the last instruction" };
        diagnostic::note(format_args!("{}: {position}: {records} not shown; see --records", file.name()));
    }
    Ok(end)
}

struct StfPrinter<'a> {
    args: &'a Args,
    lines: stf::text::Lines,
    json: stf::json::Json,
    unprinted: String,
}

impl<'a> StfPrinter<'a> {
    fn new(args: &'a Args, header: &Header) -> Self {
        let (lines, json, unprinted) = (stf::text::Lines::new(), stf::json::Json::new(), String::new());
        let mut printer = Self { args, lines, json, unprinted };
        for record in &header.isa_records() {
            printer.lines.follow(record);
            printer.json.follow(record);
        }
        printer
    }

    /// Follows an instruction that is not printed.
    fn pass(&mut self, instruction: &Instruction<'_>) -> bool {
        let mut text = mem::take(&mut self.unprinted);
        self.print(instruction, &mut text);
        text.clear();
        self.unprinted = text;
        true
    }

    fn print(&mut self, instruction: &Instruction<'_>, text: &mut String) {
        if self.args.output.json {
            return self.json.instruction(instruction, self.args.hex, text);
        }
        self.lines.head(instruction, text);
        if self.args.hex {
            let _ = write!(text, "  @{:#x} ", instruction.position.offset);
            push_hex(text, instruction.bytes);
        }
        self.lines.details(instruction, text);
        text.push('\n');
    }
}

fn dump_tarmac(args: &Args, mut file: TarmacFile) -> anyhow::Result<Verdict> {
    let mut numbering = Numbering::of_lines(args, &file)?;
    let mut batch = Batch::new(args)?;
    let (mut progress, end) = (batch.progress(), args.end());
    let mut scratch = String::new();
    let ended = file.each(&mut progress.callback(), |position, line| {
        let Some(number) = numbering.line(line, position.line) else { return true };
        if number > end {
            return false;
        }
        batch.items += u64::from(number > args.skip);
        let text = &mut batch.text;
        if number > args.skip && args.output.json {
            push_json(position, line, args.hex, &mut scratch, text);
        } else if number > args.skip {
            push_line(position, line, text);
            if args.hex {
                let _ = write!(text, "\n{:>8}  | {}", "", Text(line.raw));
            }
            text.push('\n');
        }
        batch.flush_if_full() && number < end
    });
    let verdict = ended.map(|end| tarmac_verdict(&mut file, &end)).map_err(Into::into);
    batch.finish(args, verdict)
}
