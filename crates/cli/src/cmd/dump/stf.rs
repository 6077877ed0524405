//! Printing STF: instruction by instruction, or record by record.

mod json;

use std::fmt::Write as _;

use unspool::stf::lift::Instruction;
use unspool::stf::read::{Place, Storage};
use unspool::stf::record::Record;
use unspool::stf::text::Lines;

use self::json::Json;
use super::{Args, push_bytes};
use crate::Verdict;
use crate::args::tell;
use crate::astf::End;
use crate::cmd::many;
use crate::output::Output;
use crate::progress::Progress;
use crate::stf::{Header, Stf, verdict};

/// As many bytes of lines are written at a time.
const BATCH: usize = 1 << 16;

/// Prints an STF file.
pub(super) fn run(args: &Args, mut file: Stf) -> anyhow::Result<Verdict> {
    file.tell_warnings();
    let mut output = Output::open_for(&args.output, &args.file.file)?;
    let mut printer = Printer::new(args);
    let end = match args.records {
        true => records(args, &mut file, &mut printer, &mut output),
        false => instructions(args, &mut file, &mut printer, &mut output),
    };
    printer.flush(&mut output);
    output.finish()?;
    Ok(verdict(&mut file, &end?))
}

fn records(args: &Args, file: &mut Stf, printer: &mut Printer, output: &mut Output) -> anyhow::Result<End> {
    let mut progress = Progress::new(output.on_terminal);
    let end = args.skip.saturating_add(args.limit.unwrap_or(u64::MAX));
    file.each(&mut progress, |place, record| {
        if place.record >= end {
            return false;
        }
        if place.record >= args.skip {
            printer.record(place, record);
            printer.flush_if_full(output);
        }
        output.is_open() && place.record + 1 < end
    })
}

fn instructions(args: &Args, file: &mut Stf, printer: &mut Printer, output: &mut Output) -> anyhow::Result<End> {
    let mut progress = Progress::new(output.on_terminal);
    let header = match file.header()? {
        Ok(header) => header,
        Err(end) => return Ok(end),
    };
    header.isa_records().iter().for_each(|record| printer.follow(record));
    let end = args.skip.saturating_add(args.limit.unwrap_or(u64::MAX));
    let mut follower = header.follower();
    let mut ended = End::Whole;
    if !header.has_transactions() {
        // JSON tells numbers of records and the mode, which are only known to those who read everything.
        if args.skip > 0 && !args.output.json && file.storage() == Storage::Zstf {
            let sought = file.reader().seek_instruction(args.skip, &mut follower);
            if let end @ (End::Damaged(_) | End::Whole) = file.ended(sought)? {
                return Ok(end);
            }
        }
        ended = file.each_instruction(&mut follower, &mut progress, |instruction| {
            if instruction.number > end {
                return false;
            }
            if instruction.number > args.skip {
                printer.instruction(instruction);
                printer.flush_if_full(output);
            }
            output.is_open() && instruction.number < end
        })?;
    }
    match ended {
        End::Whole => trailing(file, &header, &mut progress),
        other => Ok(other),
    }
}

/// What belongs to no instruction is not shown, but it is told that it is there.
fn trailing(file: &mut Stf, header: &Header, progress: &mut Progress) -> anyhow::Result<End> {
    let mut count = 0;
    let end = file.each(progress, |_, record| {
        count += u64::from(*record != Record::ReserveEnd);
        true
    })?;
    if count > 0 {
        let records = many(count, "record");
        let place = if header.has_transactions() { "a trace of transactions" } else { "behind the last instruction" };
        tell(format_args!("{}: {place}: {records} not shown; see --records", file.name()));
    }
    Ok(end)
}

/// Makes lines.
struct Printer {
    hex: bool,
    form: Form,
    /// Lines that were not written yet.
    text: String,
    scratch: Vec<u8>,
}

/// How lines look.
enum Form {
    Text(Lines),
    Json(Json),
}

impl Printer {
    fn new(args: &Args) -> Self {
        let form = if args.output.json { Form::Json(Json::new()) } else { Form::Text(Lines::new()) };
        Self { hex: args.hex, form, text: String::with_capacity(2 * BATCH), scratch: Vec::new() }
    }

    fn follow(&mut self, record: &Record<'_>) {
        match &mut self.form {
            Form::Text(lines) => lines.follow(record),
            Form::Json(json) => json.follow(record),
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) {
        let text = &mut self.text;
        match &mut self.form {
            Form::Json(json) => json.instruction(instruction, self.hex, text),
            Form::Text(lines) => {
                lines.head(instruction, text);
                if self.hex {
                    let _ = write!(text, "  @{:#x} ", instruction.place.offset);
                    push_bytes(text, instruction.bytes);
                }
                lines.details(instruction, text);
                text.push('\n');
            }
        }
    }

    fn record(&mut self, place: Place, record: &Record<'_>) {
        let Self { hex, form, text, scratch } = self;
        let bytes = hex.then(|| {
            scratch.clear();
            record.encode(scratch);
            scratch.as_slice()
        });
        match form {
            Form::Json(json) => json.record(place, record, bytes, text),
            Form::Text(lines) => {
                lines.record(place, record, text);
                if let Some(bytes) = bytes {
                    text.push_str("  ");
                    push_bytes(text, bytes);
                }
                text.push('\n');
            }
        }
    }

    fn flush_if_full(&mut self, output: &mut Output) {
        if self.text.len() >= BATCH {
            self.flush(output);
        }
    }

    fn flush(&mut self, output: &mut Output) {
        output.write(|out| out.write_all(self.text.as_bytes()));
        self.text.clear();
    }
}
