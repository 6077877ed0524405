//! `dump`: print the records of a trace file, one a line, as they are.

mod json;
mod stf;
mod tarmac;

use std::fmt::Write as _;

use unspool::astf::Bytes;
use unspool::astf::text::Lines;

use self::json::Json;
use crate::Verdict;
use crate::args::OutputArgs;
use crate::astf::{Astf, offset_of};
use crate::file::{FileArgs, Opened};
use crate::output::Output;
use crate::progress::Progress;

/// Print the records of an ASTF file, one a line, the instructions or records of an STF file, or what the lines of a
/// Tarmac log mean
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    file: FileArgs,

    /// Records of an STF file, one a line, instead of instructions
    #[arg(long)]
    records: bool,

    /// Show the offset and the bytes of each record, or of the group of each instruction, too (Tarmac: the line itself)
    #[arg(long)]
    hex: bool,

    /// Stop after N records (STF: instructions, unless --records; Tarmac: lines)
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Leave out the first N records; the header of ASTF is one (STF: instructions, unless --records; Tarmac:
    /// lines)
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool dump trace.astf
  unspool dump trace.astf --skip 1000 --limit 50 --hex
  unspool dump trace.astf --json | jq -r 'select(.type == \"trap\") | .target_pc'
  ssh host cat trace.astf | unspool dump -
  unspool dump trace.zstf --skip 1000000 --limit 50
  unspool dump trace.stf --records
  unspool dump trace.zstf --json | jq -r 'select(.events) | .pc'
  unspool dump run.tarmac --limit 20
  unspool dump run.tarmac.gz --json | jq -r 'select(.type == \"unknown\") | .line'

A line of ASTF has the number of the record, its type, and what it says:
  el0t [0x..]      Exception level and mode, and the address of an instruction
  T v<0x..>        a branch was taken, and where it went; NT: it was not taken
  v[0x..]          the address of an access; with t behind it, tags were accessed too
  v[0x..]..[0x..]  the start and the limit (exclusive) of a range
  r w rw -         what an access did (-: nothing), where that is not what the opcode says
  i{5}             the index into ZA
  tr               the instruction raised an exception
  reserved ...     values where the format wants zeros

A line of STF has the number of the instruction, its address, opcode and text; below it stands what belongs to it, in
the order of the file: target, registers (state, source, destination), accesses with their contents, events, page table
walks, accesses of other masters of the bus, micro-operations, process, comments. With --records a line has the number
and the offset of the record, its name, and what it says.
As JSON, an instruction has instruction, record, offset, pc, opcode, length, text, iem, mode, target and forced, and if
there are such, the lists registers, memory, events, walks, bus, microops, ready, processes and comments. A record has
record, offset and type, and what it says by name.

A line of Tarmac has its number, the time and the core if they are there, the kind of the line, and what it says; the
spelling is the same whoever wrote the log. A line that cannot be understood is shown as it is, with the column.

Offsets are those of the records when nothing is compressed.";

/// Prints records.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    match args.file.open(None)? {
        None => Ok(Verdict::Problems),
        Some(Opened::Astf(file)) => astf(args, file),
        Some(Opened::Stf(file)) => stf::run(args, file),
        Some(Opened::Tarmac(file)) => tarmac::run(args, file),
    }
}

fn astf(args: &Args, mut file: Astf) -> anyhow::Result<Verdict> {
    file.tell_warnings();
    let mut output = Output::open_for(&args.output, &args.file.file)?;
    let mut progress = Progress::new(output.on_terminal);
    let end = args.skip.saturating_add(args.limit.unwrap_or(u64::MAX));
    let mut printer = Printer::new(args);
    let end = file.each(&mut progress, |first, records| {
        let mut text = std::mem::take(&mut printer.text);
        text.clear();
        for (number, record) in (first..).zip(records).take_while(|(number, _)| *number <= end) {
            match number <= args.skip {
                true => printer.form.pass(record),
                false => printer.print(number, record, &mut text),
            }
        }
        output.write(|out| out.write_all(text.as_bytes()));
        printer.text = text;
        Ok(output.is_open() && first + records.len() as u64 <= end)
    });
    output.finish()?;
    Ok(end?.verdict())
}

/// Makes lines.
struct Printer {
    hex: bool,
    form: Form,
    /// Lines of a batch.
    text: String,
}

/// How lines look.
enum Form {
    Text(Lines),
    Json(Json),
}

impl Form {
    /// Takes note of a record that is not printed.
    fn pass(&mut self, record: &Bytes) {
        match self {
            Self::Text(lines) => lines.pass(record),
            Self::Json(json) => json.pass(record),
        }
    }
}

impl Printer {
    fn new(args: &Args) -> Self {
        let form = if args.output.json { Form::Json(Json::new()) } else { Form::Text(Lines::new()) };
        Self { hex: args.hex, form, text: String::new() }
    }

    fn print(&mut self, number: u64, record: &Bytes, text: &mut String) {
        match &mut self.form {
            Form::Json(json) => json.line(number, record, self.hex, text),
            Form::Text(lines) => {
                if self.hex {
                    let _ = write!(text, "{:#010x} ", offset_of(number));
                    let (words, _) = record.as_chunks::<8>();
                    words.iter().for_each(|word| {
                        text.push(' ');
                        push_bytes(text, word);
                    });
                    text.push_str("  ");
                }
                lines.write(record, text);
                text.push('\n');
            }
        }
    }
}

/// Adds bytes, two digits each.
fn push_bytes(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for chunk in bytes.chunks(8) {
        let mut hex = [0; 16];
        let (pairs, _) = hex.as_chunks_mut();
        for (pair, byte) in pairs.iter_mut().zip(chunk) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]];
        }
        text.push_str(str::from_utf8(&hex[..chunk.len() * 2]).unwrap_or_default());
    }
}
