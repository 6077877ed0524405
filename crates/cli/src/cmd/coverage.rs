//! `coverage`: which instructions, source lines, functions and branches were executed.
//!
//! traces ─▶ counts by image ─▶ report ─▶ **text**, JSON, `lcov`, `cobertura`, `html`

mod cobertura;
mod difference;
mod html;
mod json;
mod lcov;
mod text;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use unspool::coverage::{ExecutedImages, Ratio, Report};
use unspool::lines::Lines;
use unspool::number::many;

use self::difference::Difference;
use crate::args::{ForceArgs, OutputArgs};
use crate::counting::CountArgs;
use crate::diagnostic;
use crate::file::each_file;
use crate::output::{Output, is_same, report_written};
use crate::source_lines::{SourceFiles, SourcePathArgs, report_lines};
use crate::verdict::Verdict;

/// Show which instructions, source lines, functions and branches were executed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Captures, ASTF files, STF files or Tarmac logs, whose coverage is added up ('-': standard input, except for captures)
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,

    /// Table to print
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::File)]
    by: By,

    /// Show what changed since an earlier run: what is covered now and was not, and the reverse. Can be repeated
    #[arg(long, value_name = "OLD")]
    diff: Vec<PathBuf>,

    /// Write a report for lcov and genhtml
    #[arg(long, value_name = "FILE")]
    lcov: Option<PathBuf>,

    /// Write a report in the XML format of Cobertura
    #[arg(long, value_name = "FILE")]
    cobertura: Option<PathBuf>,

    /// Write an HTML report with the source to a folder
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// Print JSON, one object per line; docs/json.md describes them
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    force: ForceArgs,

    #[command(flatten)]
    paths: SourcePathArgs,
    #[command(flatten)]
    count: CountArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Source files
    File,
    /// Source lines
    Line,
    /// Functions
    Function,
    /// Programs and libraries
    Image,
    /// Processes
    Process,
}

const EXAMPLES: &str = "\
Examples:
  unspool coverage snapshot/
  unspool coverage run1.astf run2.astf --image program.elf -o report
  unspool coverage trace.astf --image program.elf --by function
  unspool coverage trace.astf --image program.elf --lcov trace.info && genhtml trace.info -o html
  unspool coverage new.astf --diff old.astf --image program.elf

Lines need debug information (DWARF) in the images, functions need symbols. The count of a line is the number of times that it \
was entered, as gcov counts; copies that the compiler made are added up. Functions are those of the images of which \
something was executed. A conditional branch has two directions; a conditional instruction of A32 and T32 has two outcomes, if \
the trace shows them. 'at least' marks results of a trace with gaps: what it does not show is not covered, but may have been executed.
Exit codes: 0 success, 1 the trace has problems, or something that --diff covered is not covered, 2 the command failed.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = open_output(args)?;
    let mut processes = BTreeMap::new();
    let of_processes = (args.by == By::Process).then_some(&mut processes);
    let (executed, mut verdict) = count(args, &args.traces, of_processes)?;
    let lines = args.count.lines()?;
    let report = Report::new(&executed, &lines);
    let processes = processes.iter().map(|(process, executed)| ProcessRow::new(*process, executed, &lines)).collect();
    if executed.is_lower_bound() {
        let gaps = many(executed.gaps, "gap");
        diagnostic::note(format_args!("part of the execution is missing ({gaps}): all results are 'at least'"));
    }
    if report.files.is_empty() {
        diagnostic::note("no source lines: the images have no debug information, or none was given with --image FILE");
    }
    for image in report.images.iter().filter(|image| image.functions.is_empty()) {
        diagnostic::note(format_args!("{}: no functions are known, so only what was executed is counted", image.name));
    }
    let difference = match args.diff.as_slice() {
        [] => None,
        old => {
            let (old, damage) = count(args, old, None)?;
            verdict = verdict.or(damage);
            Some(Difference::new(&Report::new(&old, &lines), &report))
        }
    };
    verdict = verdict.or(Verdict::of(difference.as_ref().is_some_and(Difference::has_lost)));
    write_files(args, &executed, &report)?;
    let page = Page { args, executed: &executed, report: &report, processes, difference: difference.as_ref() };
    if args.json {
        page.json(&mut output, verdict);
    } else {
        output.write(|out| page.text(out));
    }
    report_lines(Some(&lines));
    output.finish()?;
    Ok(verdict)
}

/// What was found, and which part of it is wanted.
struct Page<'a> {
    args: &'a Args,
    executed: &'a ExecutedImages,
    report: &'a Report,
    /// With --by process.
    processes: Vec<ProcessRow>,
    difference: Option<&'a Difference>,
}

/// What one process covered.
struct ProcessRow {
    process: Option<u64>,
    /// Executed instructions.
    executed: u64,
    instructions: Ratio,
    lines: Ratio,
    functions: Ratio,
}

impl ProcessRow {
    fn new(process: Option<u64>, executed: &ExecutedImages, lines: &Lines) -> Self {
        let report = Report::new(executed, lines);
        let (instructions, lines, functions) = (report.instructions(), report.lines(), report.functions());
        Self { process, executed: executed.instructions, instructions, lines, functions }
    }
}

/// Standard output. Nothing that is read may be replaced.
fn open_output(args: &Args) -> anyhow::Result<Output> {
    let inputs: Vec<PathBuf> = args.traces.iter().chain(&args.diff).cloned().chain(args.count.image_paths()).collect();
    for path in args.lcov.iter().chain(&args.cobertura) {
        if inputs.iter().any(|input| is_same(path, input)) {
            anyhow::bail!("{}: this file is read; write to another one", path.display());
        }
        args.force.check(path)?;
    }
    Output::open_unless(&OutputArgs { json: args.json, output: None, force: args.force }, |_| None)
}

/// Executions of each process by itself.
type Processes = BTreeMap<Option<u64>, ExecutedImages>;

fn count(
    args: &Args,
    traces: &[PathBuf],
    mut processes: Option<&mut Processes>,
) -> anyhow::Result<(ExecutedImages, Verdict)> {
    let mut executed = ExecutedImages::default();
    let verdict = each_file(traces, |_, path| {
        args.count.count_each(path, &mut |counts, program| {
            executed.add(counts, program);
            if let Some(processes) = &mut processes {
                for process in counts.processes.keys() {
                    processes.entry(*process).or_default().add_process(*process, counts, program);
                }
            }
        })
    })?;
    Ok((executed, verdict))
}

fn write_files(args: &Args, executed: &ExecutedImages, report: &Report) -> anyhow::Result<()> {
    if let Some(path) = &args.lcov {
        write_file(path, |out| lcov::write(report, &args.paths, out))?;
    }
    if let Some(path) = &args.cobertura {
        write_file(path, |out| cobertura::write(report, &args.paths, out))?;
    }
    if let Some(folder) = &args.output {
        html::check(folder, args.force.is_given())?;
        let mut files = SourceFiles::new(&args.paths);
        html::write(folder, executed, report, &mut files)
            .with_context(|| format!("cannot write {}", folder.display()))?;
        diagnostic::note(format_args!("wrote {}", folder.join("index.html").display()));
    }
    Ok(())
}

fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    written.with_context(|| format!("cannot write {}", path.display()))?;
    report_written(path);
    Ok(())
}
