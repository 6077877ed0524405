//! `annotate`: source and disassembly of a function, with the number of executions of each instruction.

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use anyhow::bail;
use unspool::Program;
use unspool::analyze::address_counts::AddressCount;
use unspool::coverage::{ExecutedImages, ImageCounts, StaticInstruction};
use unspool::flow::MapId;
use unspool::isa::Disassembler;
use unspool::lines::{Frame, Lines};
use unspool::model::json::Object;
use unspool::number::{grouped, many};

use crate::args::OutputArgs;
use crate::counting::CountArgs;
use crate::diagnostic;
use crate::json::write_summary;
use crate::output::Output;
use crate::source_lines::{SourceFiles, SourcePathArgs, report_lines};
use crate::style::Palette;
use crate::symbols::{printable, symbol_text};
use crate::verdict::Verdict;

/// Show the source and disassembly of a function, with the number of executions of each instruction
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Capture, ASTF file, STF file or Tarmac log ('-': standard input, except for captures)
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Name of the function, as in the symbol table or as in the source
    #[arg(value_name = "FUNCTION", id = "annotated")]
    function: String,

    #[command(flatten)]
    count: CountArgs,
    #[command(flatten)]
    paths: SourcePathArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool annotate snapshot/ main
  unspool annotate trace.astf sort --image program.elf
  unspool annotate trace.astf sort --image program.elf --source-path /build=.
  unspool annotate run.tarmac main --image program.elf --json

Columns: number of executions, their share of all executions in the function, address, opcode, disassembly, and outcomes of a \
conditional branch. Addresses are those of the image, as objdump shows them, wherever it was loaded. A line that starts with ';' is a source line: its position and, if the file \
is found, its text. An instruction without a number was not executed, as far as the trace shows it.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let inputs: Vec<PathBuf> = std::iter::once(args.trace.clone()).chain(args.count.image_paths()).collect();
    let mut output = Output::open_beside_all(&args.output, &inputs)?;
    let mut executed = ExecutedImages::default();
    let verdict = args.count.count(&args.trace, &mut executed)?;
    let lines = args.count.lines()?;
    let found: Vec<(&ImageCounts, Range<u64>)> = executed
        .images
        .iter()
        .flat_map(|image| image.functions(&args.function).into_iter().map(move |range| (image, range)))
        .collect();
    if found.is_empty() {
        let images: Vec<&str> = executed.images.iter().map(|image| image.code.name.as_str()).collect();
        match images.as_slice() {
            [] => bail!("nothing that was executed is in an image: name the program with --image FILE"),
            images => bail!("no function '{}' of known size in {}", args.function, images.join(", ")),
        }
    }
    if executed.is_lower_bound() {
        diagnostic::note(format_args!(
            "part of the execution is missing ({}): all numbers are 'at least'",
            many(executed.gaps, "gap")
        ));
    }
    let mut rows = 0;
    for (index, (image, range)) in found.into_iter().enumerate() {
        let mut page = Page::new(args, &executed, image, range, &lines, output.palette);
        rows += page.rows.len() as u64;
        output.write(|out| {
            if args.output.json {
                return page.json(out);
            }
            if index > 0 {
                writeln!(out)?;
            }
            page.text(out)
        });
    }
    report_lines(Some(&lines));
    if args.output.json {
        write_summary(&mut output, "annotate", verdict, |object| {
            object.plain("instructions", executed.instructions).plain("rows", rows);
            object.flag("at_least", executed.is_lower_bound());
        });
    }
    output.finish()?;
    Ok(verdict)
}

/// One function.
struct Page<'a> {
    args: &'a Args,
    executed: &'a ExecutedImages,
    image: &'a ImageCounts,
    range: Range<u64>,
    lines: &'a Lines,
    palette: Palette,
    program: Program,
    files: SourceFiles,
    rows: Vec<(StaticInstruction, AddressCount)>,
    /// Executions of its instructions.
    total: u64,
}

impl<'a> Page<'a> {
    fn new(
        args: &'a Args,
        executed: &'a ExecutedImages,
        image: &'a ImageCounts,
        range: Range<u64>,
        lines: &'a Lines,
        palette: Palette,
    ) -> Self {
        let rows = image.instructions(range.clone());
        let total = rows.iter().map(|(_, count)| count.executed).sum();
        let (program, files) = (Program::new(vec![image.code.clone()]), SourceFiles::new(&args.paths));
        Self { args, executed, image, range, lines, palette, program, files, rows, total }
    }

    fn name(&self) -> String {
        let symbol = self.program.symbol(self.range.start);
        printable(&symbol.map_or_else(|| self.args.function.clone(), |(name, _)| symbol_text((name, 0))))
    }

    fn share(&self, count: u64) -> f64 {
        count as f64 / self.total.max(1) as f64
    }

    fn text(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Range { start, end } = self.range;
        let share = self.total as f64 * 100.0 / self.executed.instructions.max(1) as f64;
        let (name, image, total) = (self.name(), printable(&self.image.code.name), grouped(self.total));
        let at_least = if self.executed.is_lower_bound() { "at least " } else { "" };
        writeln!(
            out,
            "# {name} in {image}, {start:#x} to {end:#x}: {at_least}{total} instructions executed, {share:.2}% of all"
        )?;
        let mut disassembler = Disassembler::new();
        let mut last = String::new();
        for (instruction, count) in std::mem::take(&mut self.rows) {
            let frames = self.lines.find(&self.program, MapId::ONLY, instruction.address);
            let position = self.source(&frames);
            if position != last {
                writeln!(out, "{}", self.palette.paint(self.palette.detail, &position))?;
                last = position;
            }
            let text = instruction.opcode.map(|opcode| disassembler.text(instruction.isa, instruction.address, opcode));
            let digits = usize::from(instruction.length) * 2;
            let opcode = instruction.opcode.map_or("?".into(), |opcode| format!("{opcode:0digits$x}"));
            let counts = match count.executed {
                0 => format!("{:>12} {:>7}", "", ""),
                number => format!("{:>12} {:>6.2}%", grouped(number), self.share(number) * 100.0),
            };
            let address = self.palette.paint(self.palette.address, &format!("{:#10x}", instruction.address));
            writeln!(out, "{counts}  {address}  {opcode:<8}  {}{}", text.unwrap_or("?".into()), outcomes(&count))?;
        }
        Ok(())
    }

    /// Position and text of a source line, and the calls that were inlined around it.
    fn source(&mut self, frames: &[Frame]) -> String {
        let Some(Frame { position: Some(position), .. }) = frames.first() else { return ";".to_string() };
        let mut line = format!("; {}", printable(&position.to_string()));
        let inlined: Vec<String> =
            frames.iter().filter_map(|frame| Some(symbol_text((frame.function.as_deref()?, 0)))).collect();
        if frames.len() > 1 {
            line += &format!(" (inlined: {})", printable(&inlined.join(" in ")));
        }
        if let Some(text) = self.files.line(&position.file, position.line) {
            line += &format!("  {}", printable(&text.replace('\t', "    ")));
        }
        line
    }

    fn json(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", "function").string("name", self.name()).string("image", &self.image.code.name);
        object.hex("address", self.range.start).hex("end", self.range.end).plain("executed", self.total);
        object.plain("share", format_args!("{:.6}", self.total as f64 / self.executed.instructions.max(1) as f64));
        object.write_line(out)?;
        let mut disassembler = Disassembler::new();
        for (instruction, count) in &self.rows {
            let StaticInstruction { address, isa, opcode, length } = *instruction;
            let frames = self.lines.find(&self.program, MapId::ONLY, address);
            let mut object = Object::new(&mut line);
            object.string("kind", "instruction").hex("address", address).string("isa", isa.name());
            let digits = usize::from(length) * 2;
            object.nullable_string("opcode", opcode.map(|opcode| format!("0x{opcode:0digits$x}")));
            object.nullable_string("text", opcode.map(|opcode| disassembler.text(isa, address, opcode)));
            object.plain("count", count.executed).plain("share", format_args!("{:.6}", self.share(count.executed)));
            if count.taken + count.not_taken > 0 {
                object.plain("taken", count.taken).plain("not_taken", count.not_taken);
            }
            if count.passed + count.failed > 0 {
                object.plain("passed", count.passed).plain("failed", count.failed);
            }
            object.list("lines", frames.iter(), |text, frame| {
                let mut object = Object::nested(text);
                object.nullable_string("function", frame.function.as_deref().map(|name| symbol_text((name, 0))));
                object.nullable_string("file", frame.position.as_ref().map(|position| &position.file));
                object.nullable("line", frame.position.as_ref().map(|position| position.line));
                object.close_nested();
            });
            object.write_line(out)?;
        }
        Ok(())
    }
}

/// Outcomes of a branch or of a condition, if some are known.
fn outcomes(count: &AddressCount) -> String {
    let both = |yes: &str, no: &str, [held, failed]: [u64; 2]| match (held, failed) {
        (0, 0) => String::new(),
        (held, 0) => format!("  ; {yes} {}", grouped(held)),
        (0, failed) => format!("  ; {no} {}", grouped(failed)),
        (held, failed) => format!("  ; {yes} {}, {no} {}", grouped(held), grouped(failed)),
    };
    let branch = both("taken", "not taken", [count.taken, count.not_taken]);
    let condition = both("passed", "failed", [count.passed, count.failed]);
    if branch.is_empty() && count.failed > 0 { condition } else { branch }
}
